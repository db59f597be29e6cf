//! What the test says to a model and to people, in both languages.

use recado_core::policy::Language;
use serde_json::json;

use super::kind::Kind;
use super::remedy::remedy;
use super::report::{Fault, Step, Taken, Unknown, Verdict, Works};
use super::spanish;
use crate::cognition::models;
use crate::cognition::models::realtime::wire::Usage;
use crate::config::Tool;

/// What the model is told of its task.
pub(super) fn instructions(language: Language, delegates: bool) -> String {
    let does = if delegates { "delegate it" } else { "call look_up_order with its number" };
    let speaks = match language {
        Language::Es => "Spanish",
        Language::En => "English",
    };
    format!(
        "You test a telephone line. Speak {speaks}, in one short sentence at a time. When the caller asks for an order, {does} at once. When the \
         caller presses 1, say in one sentence what you know of the order. When the caller presses 2, count slowly from one to sixty, \
         in words, and do not stop before."
    )
}

/// The tool that is offered, which takes an order's number or, where the model delegates, what is asked for. Nobody carries it out.
pub(super) fn tool(delegates: bool) -> Result<Tool, serde_json::Error> {
    let (takes, what) = if delegates { ("request", "What is asked for") } else { ("number", "The order's number, in digits") };
    serde_json::from_value(json!({
        "name": TOOL,
        "description": "Looks up an order by its number",
        "url": "http://127.0.0.1/",
        "parameters": {
            "type": "object",
            "required": [takes],
            "properties": { takes: { "type": "string", "description": what } },
        },
    }))
}

/// Its name.
pub(super) const TOOL: &str = "look_up_order";

/// What the service hears: in one breath, for a pause may be taken for its end.
pub(super) fn sentence(language: Language) -> &'static str {
    match language {
        Language::Es => "Buenos días, ¿puede mirar el pedido cuatro siete dos nueve?",
        Language::En => "Good morning, can you look up the order four seven two nine?",
    }
}

/// What is known of the order.
pub(super) fn news(language: Language) -> &'static str {
    match language {
        Language::Es => "El pedido 4729 está en camino.",
        Language::En => "Order 4729 is on its way.",
    }
}

/// A text to be read word for word.
pub(super) fn read_aloud(language: Language) -> &'static str {
    match language {
        Language::Es => "Su pedido llega el jueves.",
        Language::En => "Your order arrives on Thursday.",
    }
}

pub(super) fn subject(language: Language, host: &str, model: &str) -> String {
    match language {
        Language::Es => format!("El modelo {model} de {host}:"),
        Language::En => format!("The model {model} at {host}:"),
    }
}

pub(super) fn works(language: Language, step: Step, works: &Works) -> String {
    let (name, ms) = (name(language, step), works.ms);
    let said = works.said.as_ref().map(|said| format!(" ({})", said.trim())).unwrap_or_default();
    let how = match (language, step) {
        (Language::Es, Step::Connect) => format!("establecida en {ms} ms"),
        (Language::Es, Step::Session) => format!("aceptada en {ms} ms"),
        (Language::Es, Step::Hear) => format!("primer sonido {ms} ms después de la última palabra"),
        (Language::Es, Step::Call) => format!("llamada {ms} ms después de la última palabra"),
        (Language::Es, Step::Delegate) => format!("hecho {ms} ms después de la última palabra"),
        (Language::Es, Step::Cancel) => format!("confirmada en {ms} ms"),
        (Language::Es, Step::Notes) => format!("confirmado en {ms} ms como mucho"),
        (Language::Es, Step::Answer | Step::CutOff | Step::ReadAloud) => format!("primer sonido a los {ms} ms"),
        (Language::En, Step::Connect) => format!("made in {ms} ms"),
        (Language::En, Step::Session) => format!("accepted in {ms} ms"),
        (Language::En, Step::Hear) => format!("first sound {ms} ms after the last word"),
        (Language::En, Step::Call) => format!("called {ms} ms after the last word"),
        (Language::En, Step::Delegate) => format!("made {ms} ms after the last word"),
        (Language::En, Step::Cancel) => format!("confirmed in {ms} ms"),
        (Language::En, Step::Notes) => format!("acknowledged in {ms} ms at most"),
        (Language::En, Step::Answer | Step::CutOff | Step::ReadAloud) => format!("first sound after {ms} ms"),
    };
    format!("{name}: {how}{said}")
}

pub(super) fn fails(language: Language, kind: Kind, step: Step, fault: &Fault) -> String {
    let no = match language {
        Language::Es => "no funciona",
        Language::En => "does not work",
    };
    format!("{}: {no}: {}. {}", name(language, step), what(language, fault), remedy(fault).sentence(language, kind))
}

pub(super) fn not_known(language: Language, step: &str, unknown: Unknown) -> String {
    let why = match (language, unknown) {
        (Language::Es, Unknown::NotTried) => "no se ha llegado a probar".to_owned(),
        (Language::En, Unknown::NotTried) => "the talk did not come to it".to_owned(),
        (Language::Es, Unknown::NoCancel) => {
            "el protocolo no la tiene. La central no deja oír lo que el modelo siga diciendo cuando se le interrumpe".to_owned()
        }
        (Language::En, Unknown::NoCancel) => {
            "the protocol has none. What the model goes on saying when it is interrupted, the box lets nobody hear".to_owned()
        }
        (Language::Es, Unknown::NotConfirmed) => {
            "el protocolo no la confirma, y el servicio puede seguir generando lo que ya nadie oye".to_owned()
        }
        (Language::En, Unknown::NotConfirmed) => {
            "the protocol confirms none, and the service may go on making what nobody hears any more".to_owned()
        }
        (Language::Es, Unknown::EndedBefore) => "la respuesta había terminado antes de poder cortarla".to_owned(),
        (Language::En, Unknown::EndedBefore) => "the response had ended before it could be cut".to_owned(),
        (Language::Es, Unknown::Unacknowledged(1)) => {
            "el servicio no ha confirmado una de las cosas que se le han dicho al modelo".to_owned()
        }
        (Language::En, Unknown::Unacknowledged(1)) => {
            "the service has not acknowledged one of the things that the model was told".to_owned()
        }
        (Language::Es, Unknown::Unacknowledged(so_many)) => {
            format!("el servicio no ha confirmado {so_many} de las cosas que se le han dicho al modelo")
        }
        (Language::En, Unknown::Unacknowledged(so_many)) => {
            format!("the service has not acknowledged {so_many} of the things that the model was told")
        }
    };
    match language {
        Language::Es => format!("{step}: no se sabe: {why}"),
        Language::En => format!("{step}: not known: {why}"),
    }
}

pub(super) fn name(language: Language, step: Step) -> &'static str {
    match (language, step) {
        (Language::Es, Step::Connect) => "conexión",
        (Language::Es, Step::Session) => "sesión",
        (Language::Es, Step::Hear) => "voz",
        (Language::Es, Step::Call) => "herramienta",
        (Language::Es, Step::Delegate) => "encargo",
        (Language::Es, Step::Answer) => "respuesta tras la herramienta",
        (Language::Es, Step::Notes) => "lo que se le dice al modelo",
        (Language::Es, Step::Cancel) => "cancelación",
        (Language::Es, Step::CutOff) => "respuesta tras cortar otra",
        (Language::Es, Step::ReadAloud) => "lectura de un texto",
        (Language::En, Step::Connect) => "connection",
        (Language::En, Step::Session) => "session",
        (Language::En, Step::Hear) => "speech",
        (Language::En, Step::Call) => "tool",
        (Language::En, Step::Delegate) => "delegation",
        (Language::En, Step::Answer) => "answer after the tool",
        (Language::En, Step::Notes) => "what the model is told",
        (Language::En, Step::Cancel) => "cancel",
        (Language::En, Step::CutOff) => "answer after one that was cut",
        (Language::En, Step::ReadAloud) => "a text read aloud",
    }
}

pub(super) fn trouble(language: Language, says: &str) -> String {
    match language {
        Language::Es => format!("de paso, el servicio se queja: {}", spanish::reason(says)),
        Language::En => format!("by the way, the service complains: {says}"),
    }
}

/// What a talk took, in lines.
pub(super) fn taken(language: Language, taken: &Taken) -> Vec<String> {
    let spanish = language == Language::Es;
    match taken {
        Taken::Nothing => Vec::new(),
        Taken::Realtime(models::realtime::Totals { usage: used, transcription_usage: written, rate_limits }) => {
            let mut lines = Vec::new();
            lines.extend((*used != Usage::default()).then(|| usage(language, used)));
            let writes = written.input_tokens.saturating_add(written.output_tokens) > 0;
            lines.extend(writes.then(|| transcription_usage(language, written)));
            let limits = rate_limits.iter().filter_map(|of| Some(limit(language, &of.name, of.remaining?, of.limit?)));
            lines.extend(limits);
            lines
        }
        Taken::Live(models::live::Totals { seconds, context_ratio, .. }) => {
            let mut lines = vec![match (spanish, *seconds > 0.0) {
                (true, true) => format!("Audio que se cobra: {seconds} s."),
                (false, true) => format!("Audio that is charged for: {seconds} s."),
                (true, false) => "Audio que se cobra: no se sabe, el servicio no lo ha dicho.".to_owned(),
                (false, false) => "Audio that is charged for: not known, the service has not said it.".to_owned(),
            }];
            lines.extend(context_ratio.map(|ratio| match spanish {
                true => format!("Memoria del modelo ocupada: {:.0} %.", ratio * 100.0),
                false => format!("The model's memory is {:.0} % full.", ratio * 100.0),
            }));
            lines
        }
        Taken::Gemini(models::gemini::Totals { usage, .. }) if *usage == models::Usage::default() => vec![
            match spanish {
                true => "Tokens: no se sabe, el servicio no los ha contado.",
                false => "Tokens: not known, the service has not counted them.",
            }
            .to_owned(),
        ],
        Taken::Gemini(models::gemini::Totals { usage, .. }) => {
            let cached = usage.cached_text.saturating_add(usage.cached_audio);
            let input = usage.input_text.saturating_add(usage.input_audio).saturating_add(cached);
            let output = usage.output_text.saturating_add(usage.output_audio);
            vec![match spanish {
                true => {
                    format!("Tokens: {input} de entrada ({cached} ya conocidos) y {output} de salida ({} de audio).", usage.output_audio)
                }
                false => format!("Tokens: {input} in ({cached} of them cached) and {output} out ({} audio).", usage.output_audio),
            }]
        }
    }
}

fn usage(language: Language, usage: &Usage) -> String {
    let (input, output) = (usage.input_token_details, usage.output_token_details);
    match language {
        Language::Es => format!(
            "Tokens: {} de entrada ({} de audio, {} de texto, {} ya conocidos) y {} de salida ({} de audio, {} de texto).",
            usage.input_tokens,
            input.audio_tokens,
            input.text_tokens,
            input.cached_tokens,
            usage.output_tokens,
            output.audio_tokens,
            output.text_tokens
        ),
        Language::En => format!(
            "Tokens: {} in ({} audio, {} text, {} of them cached) and {} out ({} audio, {} text).",
            usage.input_tokens,
            input.audio_tokens,
            input.text_tokens,
            input.cached_tokens,
            usage.output_tokens,
            output.audio_tokens,
            output.text_tokens
        ),
    }
}

fn transcription_usage(language: Language, usage: &Usage) -> String {
    match language {
        Language::Es => format!("Tokens de la transcripción: {} de entrada y {} de salida.", usage.input_tokens, usage.output_tokens),
        Language::En => format!("Tokens of the transcription: {} in and {} out.", usage.input_tokens, usage.output_tokens),
    }
}

fn limit(language: Language, name: &str, remaining: u64, most: u64) -> String {
    match language {
        Language::Es => format!("Límite del servicio ({name}): quedan {remaining} de {most}."),
        Language::En => format!("The service's limit ({name}): {remaining} of {most} are left."),
    }
}

pub(super) fn verdict(language: Language, verdict: Verdict) -> &'static str {
    match (language, verdict) {
        (Language::Es, Verdict::Well) => "Todo funciona.",
        (Language::Es, Verdict::WellAsFarAsKnown) => "Todo lo que se ha podido probar funciona.",
        (Language::Es, Verdict::Unwell) => "No todo funciona.",
        (Language::En, Verdict::Well) => "All of it works.",
        (Language::En, Verdict::WellAsFarAsKnown) => "All that could be tried works.",
        (Language::En, Verdict::Unwell) => "Not all of it works.",
    }
}

fn what(language: Language, fault: &Fault) -> String {
    // What comes from elsewhere in this program is English.
    let told = |reason: &str| match language {
        Language::Es => spanish::reason(reason).trim_end_matches('.').to_owned(),
        Language::En => reason.trim_end_matches('.').to_owned(),
    };
    match (language, fault) {
        (_, Fault::Transport(error)) => told(&error.to_string()),
        (_, Fault::Failed(reason)) => told(reason),
        (_, Fault::Service(says)) => told(&format!("the service says: {says}")),
        (Language::Es, Fault::Ended) => "la sesión ha terminado".to_owned(),
        (Language::En, Fault::Ended) => "the session has ended".to_owned(),
        (Language::Es, Fault::Nothing(ms)) => format!("no ha llegado nada en {ms} ms"),
        (Language::En, Fault::Nothing(ms)) => format!("nothing has come for {ms} ms"),
        (Language::Es, Fault::Silence(ms)) => format!("no ha llegado ningún sonido en {ms} ms"),
        (Language::En, Fault::Silence(ms)) => format!("no sound has come for {ms} ms"),
        (Language::Es, Fault::Endless(ms)) => format!("la respuesta no ha terminado en {ms} ms"),
        (Language::En, Fault::Endless(ms)) => format!("the response has not ended within {ms} ms"),
        (Language::Es, Fault::NoCall(said)) => format!("el modelo no ha llamado a la herramienta; ha dicho {said:?}"),
        (Language::En, Fault::NoCall(said)) => format!("the model has not called the tool; it said {said:?}"),
        (Language::Es, Fault::NoTask) => {
            "el modelo ha hecho un encargo, pero el servicio no ha escrito nada de lo que dijo quien llama, y sin eso no se sabe cuál".to_owned()
        }
        (Language::En, Fault::NoTask) => {
            "the model has delegated a task, but the service has written down nothing of what the caller said, and without that nobody knows which"
                .to_owned()
        }
        (Language::Es, Fault::NoSound) => "la respuesta ha terminado sin ningún sonido".to_owned(),
        (Language::En, Fault::NoSound) => "the response has ended without a sound".to_owned(),
        (Language::Es, Fault::EndedBefore) => "la respuesta había terminado antes de poder cancelarla".to_owned(),
        (Language::En, Fault::EndedBefore) => "the response had ended before it could be cancelled".to_owned(),
        (Language::Es, Fault::NotConfirmed) => "el servicio no confirma que la haya cancelado".to_owned(),
        (Language::En, Fault::NotConfirmed) => "the service does not say that it has cancelled it".to_owned(),
    }
}
