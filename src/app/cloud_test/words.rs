//! What the test says to a model and to people, in both languages.

use recado_core::policy::Language;
use serde_json::json;

use super::report::{Fault, Step, Works};
use crate::cognition::models::realtime::wire::{ServerFault, Usage};
use crate::cognition::models::transport::TransportError;
use crate::config::Tool;

/// What the model is told of its task.
pub(super) fn instructions(language: Language) -> String {
    let speaks = match language {
        Language::Es => "Spanish",
        Language::En => "English",
    };
    format!(
        "You test a telephone line. Speak {speaks}, in one short sentence at a time. When the caller asks for an order, call look_up_order with its \
         number at once. When the caller presses 1, say in one sentence what you know of the order. When the caller presses 2, count slowly from one \
         to sixty, in words, and do not stop before."
    )
}

/// The tool that is offered. Nobody carries it out.
pub(super) fn tool() -> Result<Tool, serde_json::Error> {
    serde_json::from_value(json!({
        "name": TOOL,
        "description": "Looks up an order by its number",
        "url": "http://127.0.0.1/",
        "parameters": {
            "type": "object",
            "required": ["number"],
            "properties": { "number": { "type": "string", "description": "The order's number, in digits" } },
        },
    }))
}

/// Its name.
pub(super) const TOOL: &str = "look_up_order";

/// What the service hears.
pub(super) fn sentence(language: Language) -> &'static str {
    match language {
        Language::Es => "Buenos días. ¿Puede mirar el pedido cuatro siete dos nueve?",
        Language::En => "Good morning. Can you look up the order four seven two nine?",
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
        (Language::Es, Step::Cancel) => format!("confirmada en {ms} ms"),
        (Language::Es, Step::Answer | Step::ReadAloud) => format!("primer sonido a los {ms} ms"),
        (Language::En, Step::Connect) => format!("made in {ms} ms"),
        (Language::En, Step::Session) => format!("accepted in {ms} ms"),
        (Language::En, Step::Hear) => format!("first sound {ms} ms after the last word"),
        (Language::En, Step::Call) => format!("called {ms} ms after the last word"),
        (Language::En, Step::Cancel) => format!("confirmed in {ms} ms"),
        (Language::En, Step::Answer | Step::ReadAloud) => format!("first sound after {ms} ms"),
    };
    format!("{name}: {how}{said}")
}

pub(super) fn fails(language: Language, step: Step, fault: &Fault) -> String {
    let no = match language {
        Language::Es => "no funciona",
        Language::En => "does not work",
    };
    format!("{}: {no}: {}. {}", name(language, step), what(language, fault), remedy(fault).sentence(language))
}

fn name(language: Language, step: Step) -> &'static str {
    match (language, step) {
        (Language::Es, Step::Connect) => "conexión",
        (Language::Es, Step::Session) => "sesión",
        (Language::Es, Step::Hear) => "voz",
        (Language::Es, Step::Call) => "herramienta",
        (Language::Es, Step::Answer) => "respuesta tras la herramienta",
        (Language::Es, Step::Cancel) => "cancelación",
        (Language::Es, Step::ReadAloud) => "lectura de un texto",
        (Language::En, Step::Connect) => "connection",
        (Language::En, Step::Session) => "session",
        (Language::En, Step::Hear) => "speech",
        (Language::En, Step::Call) => "tool",
        (Language::En, Step::Answer) => "answer after the tool",
        (Language::En, Step::Cancel) => "cancel",
        (Language::En, Step::ReadAloud) => "a text read aloud",
    }
}

pub(super) fn trouble(language: Language, fault: &ServerFault) -> String {
    match language {
        Language::Es => format!("de paso, el servicio se queja: {}", fault.words()),
        Language::En => format!("by the way, the service complains: {}", fault.words()),
    }
}

pub(super) fn usage(language: Language, usage: &Usage) -> String {
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

pub(super) fn transcription_usage(language: Language, usage: &Usage) -> String {
    match language {
        Language::Es => format!("Tokens de la transcripción: {} de entrada y {} de salida.", usage.input_tokens, usage.output_tokens),
        Language::En => format!("Tokens of the transcription: {} in and {} out.", usage.input_tokens, usage.output_tokens),
    }
}

pub(super) fn limit(language: Language, name: &str, remaining: u64, most: u64) -> String {
    match language {
        Language::Es => format!("Límite del servicio ({name}): quedan {remaining} de {most}."),
        Language::En => format!("The service's limit ({name}): {remaining} of {most} are left."),
    }
}

pub(super) fn verdict(language: Language, well: bool) -> &'static str {
    match (language, well) {
        (Language::Es, true) => "Todo funciona.",
        (Language::Es, false) => "No todo funciona.",
        (Language::En, true) => "All of it works.",
        (Language::En, false) => "Not all of it works.",
    }
}

fn what(language: Language, fault: &Fault) -> String {
    let said = |fault: &str| match language {
        Language::Es => format!("el servicio dice: {fault}"),
        Language::En => format!("the service says: {fault}"),
    };
    match (language, fault) {
        (_, Fault::Transport(error)) => error.to_string().trim_end_matches('.').to_owned(),
        (_, Fault::Service(fault)) => said(fault.words().trim_end_matches('.')),
        (_, Fault::Failed(reason)) => reason.trim_end_matches('.').to_owned(),
        (Language::Es, Fault::Nothing(ms)) => format!("no ha llegado nada en {ms} ms"),
        (Language::En, Fault::Nothing(ms)) => format!("nothing has come for {ms} ms"),
        (Language::Es, Fault::NoCall(said)) => format!("el modelo no ha llamado a la herramienta; ha dicho {said:?}"),
        (Language::En, Fault::NoCall(said)) => format!("the model has not called the tool; it said {said:?}"),
        (Language::Es, Fault::NoSound) => "la respuesta ha terminado sin ningún sonido".to_owned(),
        (Language::En, Fault::NoSound) => "the response has ended without a sound".to_owned(),
        (Language::Es, Fault::EndedBefore) => "la respuesta había terminado antes de poder cancelarla".to_owned(),
        (Language::En, Fault::EndedBefore) => "the response had ended before it could be cancelled".to_owned(),
        (Language::Es, Fault::NotConfirmed) => "el servicio no confirma que la haya cancelado".to_owned(),
        (Language::En, Fault::NotConfirmed) => "the service does not say that it has cancelled it".to_owned(),
    }
}

/// What mends a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    Key,
    Model,
    Limit,
    Network,
    Certificate,
    Address,
    Settings,
    Time,
    Tools,
    Sound,
    Service,
}

fn remedy(fault: &Fault) -> Remedy {
    match fault {
        Fault::Transport(error) => match error {
            TransportError::Key { .. } | TransportError::Unauthorised { .. } => Remedy::Key,
            TransportError::NotFound { .. } => Remedy::Model,
            TransportError::RateLimited { .. } => Remedy::Limit,
            TransportError::Unreachable { .. } => Remedy::Network,
            TransportError::TooSlow { .. } | TransportError::Silent(_) | TransportError::Stuck(_) => Remedy::Time,
            TransportError::Untrusted(_) | TransportError::AuthoritiesFile { .. } | TransportError::NoAuthorities { .. } => {
                Remedy::Certificate
            }
            TransportError::NoWebSocket { .. } | TransportError::Url { .. } => Remedy::Address,
            TransportError::Header { .. } | TransportError::Tls(_) => Remedy::Settings,
            TransportError::Answered { .. } | TransportError::Closed { .. } | TransportError::TooLarge(_) | TransportError::Broken(_) => {
                Remedy::Service
            }
        },
        Fault::Service(fault) => of_code(fault.code()).unwrap_or(Remedy::Settings),
        Fault::Failed(reason) => {
            let named = reason.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').find_map(of_code);
            named.unwrap_or(Remedy::Service)
        }
        Fault::Nothing(_) | Fault::NotConfirmed => Remedy::Time,
        Fault::NoCall(_) => Remedy::Tools,
        Fault::NoSound | Fault::EndedBefore => Remedy::Sound,
    }
}

/// What mends what a service calls so.
fn of_code(code: &str) -> Option<Remedy> {
    match code {
        "invalid_api_key" | "authentication_error" | "permission_denied" => Some(Remedy::Key),
        "model_not_found" | "invalid_model" => Some(Remedy::Model),
        "rate_limit_exceeded" | "insufficient_quota" | "billing_hard_limit_reached" => Some(Remedy::Limit),
        _ => None,
    }
}

impl Remedy {
    fn sentence(self, language: Language) -> &'static str {
        match (language, self) {
            (Language::Es, Self::Key) => "Mire cloud.realtime.key_file: la clave debe ser de este servicio, estar entera y no revocada.",
            (Language::En, Self::Key) => "Look at cloud.realtime.key_file: the key must be this service's, whole and not revoked.",
            (Language::Es, Self::Model) => "Corrija cloud.realtime.model (en Azure, el nombre del despliegue) o la dirección en url.",
            (Language::En, Self::Model) => "Correct cloud.realtime.model (Azure: the deployment's name), or the address in url.",
            (Language::Es, Self::Limit) => "Espere, o amplíe el límite o el saldo de la cuenta en el servicio.",
            (Language::En, Self::Limit) => "Wait, or raise the account's limit or credit at the service.",
            (Language::Es, Self::Network) => "Compruebe la red y cloud.realtime.url, y que el servicio esté en marcha.",
            (Language::En, Self::Network) => "Check the network and cloud.realtime.url, and that the service runs.",
            (Language::Es, Self::Certificate) => {
                "Ponga en cloud.realtime.ca_file la autoridad que firma su certificado, y compruebe el reloj."
            }
            (Language::En, Self::Certificate) => {
                "Name in cloud.realtime.ca_file the authority that signs its certificate, and check the clock."
            }
            (Language::Es, Self::Address) => "Corrija cloud.realtime.url: ahí no responde un servicio Realtime.",
            (Language::En, Self::Address) => "Correct cloud.realtime.url: no Realtime service answers there.",
            (Language::Es, Self::Settings) => "Corrija en [cloud.realtime] lo que se nombra.",
            (Language::En, Self::Settings) => "Correct in [cloud.realtime] what is named.",
            (Language::Es, Self::Time) => {
                "Compruebe la red; si solo es lenta, suba connect_timeout_ms o answer_timeout_ms en [cloud.realtime]."
            }
            (Language::En, Self::Time) => {
                "Check the network; where it is only slow, raise connect_timeout_ms or answer_timeout_ms in [cloud.realtime]."
            }
            (Language::Es, Self::Tools) => {
                "Pruebe otra vez; si se repite, elija un modelo que llame a funciones, o mire si format es el que el servicio entiende."
            }
            (Language::En, Self::Tools) => {
                "Try again; if it happens again, choose a model that calls functions, or see whether format is one that the service understands."
            }
            (Language::Es, Self::Sound) => "Pruebe otra vez; si se repite, mire voice y format en [cloud.realtime].",
            (Language::En, Self::Sound) => "Try again; if it happens again, look at voice and format in [cloud.realtime].",
            (Language::Es, Self::Service) => "Pruebe otra vez dentro de un rato; si se repite, es cosa del servicio.",
            (Language::En, Self::Service) => "Try again in a while; if it happens again, it is the service's to mend.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_that_people_can_mend_says_how_in_both_languages() {
        let transport = |error| Fault::Transport(error);
        let fault = |code: &str| ServerFault { code: Some(code.to_owned()), ..ServerFault::default() };
        for (fault, remedy_en, remedy_es) in [
            (transport(TransportError::Unauthorised { status: 401, detail: String::new() }), "key_file", "clave"),
            (Fault::Service(fault("invalid_api_key")), "key_file", "clave"),
            (Fault::Service(fault("model_not_found")), "cloud.realtime.model", "cloud.realtime.model"),
            (transport(TransportError::RateLimited { status: 429, after: None, detail: String::new() }), "credit", "saldo"),
            (Fault::Failed("the service says: rate_limit_exceeded: Slow down.".into()), "credit", "saldo"),
            (transport(TransportError::Unreachable { host: "h:1".into(), reason: "refused".into() }), "network", "red"),
            (transport(TransportError::Untrusted("who is it".into())), "ca_file", "ca_file"),
            (Fault::NoCall("Hola".into()), "functions", "funciones"),
        ] {
            let english = fails(Language::En, Step::Connect, &fault);
            assert!(english.starts_with("connection: does not work: ") && english.contains(remedy_en), "{english}");
            let spanish = fails(Language::Es, Step::Connect, &fault);
            assert!(spanish.starts_with("conexión: no funciona: ") && spanish.contains(remedy_es), "{spanish}");
        }
    }
}
