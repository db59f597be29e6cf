//! What a tool's policy will do, and what the caller hears in each case: found out by letting a ledger do it.

use std::fmt::Write as _;

use recado_core::ledger::{AttemptOutcome, CancelOutcome, Executed, Input, template_environment};
use recado_core::policy::{
    Audience, DuplicatePolicy, IdempotencyScope, Language, Localised, Priority, ProgressPolicy, ToolPolicy, UncertainPolicy, WhenUnheard,
};
use serde_json::{Map, Value, json};

use super::list::place;
use super::rehearsal::Rehearsal;
use super::ways::ways;
use super::{ToolsError, duration, either, found};
use crate::config::{Config, Tool};

/// What the policy of a tool will do, and what the caller hears.
///
/// # Errors
/// There is no such tool, or it takes nothing that an example could be made of.
pub fn explained(config: &Config, name: &str) -> Result<String, ToolsError> {
    let tool = found(config, name)?;
    let language = config.this_box.language;
    let t = |es, en| either(language, es, en);
    let policy = tool.policy();
    let mut text = format!("{}: {}\n", tool.name, place(config, tool));
    let arguments = example(&tool.parameters, 0);
    let _ = writeln!(text, "{}: {arguments}", t("Ejemplo de argumentos", "Arguments, for example"));
    let _ = writeln!(text, "\n{}", t("Cómo se hace", "How it is done"));
    for sentence in ways(config, tool, language) {
        let _ = writeln!(text, "  {sentence}");
    }
    let _ = writeln!(text, "\n{}\n  {}", t("Si se pide dos veces", "Asked for twice"), twice(&policy, language));
    let _ = writeln!(text, "\n{}", t("Intentos", "Attempts"));
    attempts(&mut text, tool, &policy, language);
    let _ = writeln!(text, "\n{}", t("Lo que oye quien llama", "What the caller hears"));
    for (case, said) in heard(tool, &policy, language, &arguments)? {
        let _ = writeln!(text, "  {case}: {said}");
    }
    let _ = writeln!(text, "\n{}", t("Quién y cuándo", "Who, and when"));
    listeners(&mut text, &policy, language);
    Ok(text)
}

fn twice(policy: &ToolPolicy, language: Language) -> String {
    let t = |es, en| either(language, es, en);
    let same = if policy.idempotency_fields.is_empty() {
        t("Con los mismos argumentos es lo mismo", "With the same arguments it is the same").to_owned()
    } else {
        format!("{} {} {}", t("Con los mismos", "With the same"), policy.idempotency_fields.join(", "), t("es lo mismo", "it is the same"))
    };
    let then = match policy.duplicate {
        DuplicatePolicy::Reuse => t("lo responde lo que ya se pidió; no se hace otra vez", "the first one answers; nothing is done again"),
        DuplicatePolicy::Reject => t("se rechaza", "it is refused"),
        DuplicatePolicy::Replace => t(
            "si cambia otra cosa, se cancela lo anterior y después se hace",
            "one that differs elsewhere cancels the earlier one and is done after it",
        ),
        DuplicatePolicy::Confirm => {
            t("se hace solo si quien llama, preguntado, lo confirma", "it is done only if the caller, when asked, confirms it")
        }
    };
    let scope = match policy.idempotency_scope {
        IdempotencyScope::Party => t("de quien llama", "of the same caller"),
        IdempotencyScope::Call => t("de la misma llamada", "of the same call"),
        IdempotencyScope::Global => t("de cualquiera", "of anybody"),
    };
    let until = match policy.idempotency_window_ms {
        Some(ms) => format!("{} {}", t("durante", "for"), duration(ms)),
        None => t("hasta que se ha contado y se pide en otro turno", "until it has been told and is asked for in another turn").to_owned(),
    };
    format!("{same} ({scope}, {until}): {then}.")
}

fn attempts(text: &mut String, tool: &Tool, policy: &ToolPolicy, language: Language) {
    let t = |es, en| either(language, es, en);
    let _ = writeln!(text, "  {} {}.", t("Cada uno, hasta", "Each of them up to"), duration(tool.timeout_ms));
    let which = if policy.idempotent {
        t(
            "Se repite lo que falla y lo que no se sabe, con la misma clave.",
            "What fails and what nobody knows of is repeated, under the same key.",
        )
    } else {
        t(
            "Se repite solo lo que consta que no se hizo; de lo demás no se sabe, y así se dice.",
            "Only what provably was not done is repeated; of the rest nobody knows, and that is said.",
        )
    };
    let _ = writeln!(text, "  {which}");
    let mut waited: u64 = 0;
    for attempt in 2..=policy.retry.attempts_max.min(ATTEMPTS_SHOWN_MAX) {
        let doubled = policy.retry.backoff_ms.saturating_mul(1 << (attempt - 2).min(40)).min(policy.retry.backoff_ms_max);
        let most = doubled.saturating_add(doubled / 2).min(policy.retry.backoff_ms_max);
        waited = waited.saturating_add(doubled);
        if waited >= policy.deadline_ms {
            let _ = writeln!(text, "  {attempt}: {}", t("no llega antes del plazo", "not before the deadline"));
            break;
        }
        let _ = writeln!(text, "  {attempt}: {} {} – {}", t("tras esperar", "after a wait of"), duration(doubled), duration(most));
    }
    if policy.retry.attempts_max > ATTEMPTS_SHOWN_MAX {
        let _ = writeln!(text, "  … {} {}", t("hasta", "up to"), policy.retry.attempts_max);
    }
    let _ = writeln!(text, "  {} {}.", t("Plazo para todo:", "Deadline for all of it:"), duration(policy.deadline_ms));
}

/// What is heard in each case, in the order in which they come.
fn heard(tool: &Tool, policy: &ToolPolicy, language: Language, arguments: &Value) -> Result<Vec<(String, String)>, ToolsError> {
    let t = |es: &'static str, en: &'static str| either(language, es, en).to_owned();
    let begin = || -> Result<(Rehearsal, String), ToolsError> {
        let mut rehearsal = Rehearsal::new(&tool.name, policy.clone(), language, 1);
        let said = rehearsal.ask(arguments.clone()).map_err(ToolsError::NotAccepted)?;
        Ok((rehearsal, said))
    };
    // What came of one attempt; none where the policy leads elsewhere.
    let after = |outcome: AttemptOutcome| -> Result<Rehearsal, ToolsError> {
        let (mut rehearsal, _) = begin()?;
        if let Some(dispatch) = rehearsal.attempt() {
            rehearsal.give(Input::Attempted { operation: dispatch.operation, attempt: dispatch.attempt, outcome });
        }
        Ok(rehearsal)
    };
    let cancelled = |outcome: CancelOutcome| -> Result<Option<String>, ToolsError> {
        let (mut rehearsal, _) = begin()?;
        rehearsal.attempt();
        let Some(request) = rehearsal.cancel() else { return Ok(None) };
        rehearsal.give(Input::CancelAttempted { operation: request.operation, request: request.request, outcome });
        Ok(rehearsal.told())
    };
    let result = values_of(&[&policy.say.done, &policy.say.short, &policy.say.too_late], "result");
    let failed = |error: String, executed| AttemptOutcome::Failed { error, executed, retryable: false, retry_after_ms: None };
    let (accepted, says) = begin()?;
    let mut cases: Vec<_> = accepted.read_back.map(|asked| (t("antes de hacerlo", "before it is done"), asked)).into_iter().collect();
    cases.push((t("aceptado", "accepted"), says));
    let mut add = |case: String, said: Option<String>| cases.extend(said.filter(|said| !said.is_empty()).map(|said| (case, said)));
    let out_of_reach = AttemptOutcome::Unreachable { reason: t("sin red", "no network"), retry_after_ms: None };
    add(t("fuera de alcance, espera", "out of reach, waiting"), after(out_of_reach)?.updates().pop());
    if policy.progress == ProgressPolicy::Say {
        let (mut rehearsal, _) = begin()?;
        if let Some(operation) = rehearsal.operation() {
            let progress = values_of(&[&policy.say.progress], "progress");
            rehearsal.give(Input::Progress { request: None, operation, progress });
        }
        add(t("va por…", "progress"), rehearsal.updates().pop());
    }
    add(t("hecho", "done"), after(AttemptOutcome::Succeeded(result.clone()))?.told());
    if !policy.say.short.is_empty() {
        add(t("hecho, tras un corte", "done, after a cut"), after(AttemptOutcome::Succeeded(result.clone()))?.told_after_a_cut());
    }
    add(t("fallado", "failed"), after(failed(t("(el motivo)", "(the reason)"), Executed::No))?.told());
    add(t("no se sabe", "not known"), after(failed(t("(el motivo)", "(the reason)"), Executed::Maybe))?.told());
    add(t("cancelado", "cancelled"), cancelled(CancelOutcome::Cancelled)?);
    add(t("deshecho", "undone"), cancelled(CancelOutcome::Compensated)?);
    add(t("tarde para cancelar", "too late to cancel"), cancelled(CancelOutcome::TooLate { result: Some(result) })?);
    if !policy.cancellable {
        let says = t("sigue, y se dice cómo acaba", "it runs on, and how it ends is told");
        cases.push((t("cancelar lo enviado", "cancelling what was sent"), says));
    }
    Ok(cases)
}

fn listeners(text: &mut String, policy: &ToolPolicy, language: Language) {
    let t = |es, en| either(language, es, en);
    let who = match policy.audience {
        Audience::SameParty => {
            t("Lo oye quien lo pidió, en esa llamada u otra suya.", "Whoever asked hears it, in that call or a later one.")
        }
        Audience::SameCall => t("Se oye solo en la llamada en que se pidió.", "It is heard in the call that asked only."),
        Audience::VerifiedParty => t("Lo oye quien lo pidió, una vez verificado.", "Whoever asked hears it, once verified."),
    };
    let _ = writeln!(text, "  {who}");
    let when = match policy.priority {
        Priority::Normal => t("Espera un silencio; después de", "It waits for a quiet moment; after"),
        Priority::Urgent => t("Urgente: puede cortar; después de", "Urgent: it may cut in; after"),
    };
    let _ =
        writeln!(text, "  {when} {} {}", duration(policy.max_wait_ms), t("va también con una respuesta.", "it also rides on an answer."));
    match policy.when_unheard {
        WhenUnheard::Wait => match policy.stale_after_ms {
            Some(ms) => {
                let _ = writeln!(
                    text,
                    "  {} {}.",
                    t("Si nadie viene a oírlo, espera hasta", "If nobody comes to hear it, it waits up to"),
                    duration(ms)
                );
            }
            None => {
                let _ = writeln!(text, "  {}", t("Si nadie viene a oírlo, espera.", "If nobody comes to hear it, it waits."));
            }
        },
        WhenUnheard::Webhook => {
            let _ = writeln!(
                text,
                "  {} {}.",
                t("Si nadie viene a oírlo, va al webhook tras", "If nobody comes to hear it, it goes to the webhook after"),
                duration(policy.hand_off_after_ms)
            );
        }
    }
    let doubt = match policy.uncertain {
        UncertainPolicy::Check => t(
            "Si no consta que se oyó, se repite con reserva.",
            "Where it is not known whether it was heard, it is told again with a hedge.",
        ),
        UncertainPolicy::Repeat => {
            t("Si no consta que se oyó, se repite.", "Where it is not known whether it was heard, it is told again.")
        }
        UncertainPolicy::Suppress => {
            t("Si no consta que se oyó, no se repite.", "Where it is not known whether it was heard, it is not told again.")
        }
    };
    let _ = writeln!(text, "  {doubt}");
}

/// A value that a schema allows, as far as it can be made up: the schema's own example, default or first choice first.
fn example(schema: &Value, depth: usize) -> Value {
    let first = |key: &str| schema.get(key).and_then(Value::as_array).and_then(|values| values.first()).cloned();
    if let Some(value) =
        schema.get("const").or_else(|| schema.get("default")).cloned().or_else(|| first("examples")).or_else(|| first("enum"))
    {
        return value;
    }
    let word = match schema.get("type") {
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).find(|word| *word != "null"),
        word => word.and_then(Value::as_str),
    };
    match word {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(2)),
        Some("boolean") => json!(true),
        Some("array") if depth < DEPTH_MAX => json!([example(schema.get("items").unwrap_or(&Value::Null), depth + 1)]),
        Some("object") if depth < DEPTH_MAX => {
            let fields = schema.get("properties").and_then(Value::as_object);
            let fields = fields.into_iter().flatten().map(|(name, inner)| (name.clone(), example(inner, depth + 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        _ => json!("…"),
    }
}

/// Values for what the templates want of `variable`: a result has no schema.
fn values_of(sayings: &[&Localised], variable: &str) -> Value {
    let environment = template_environment();
    let mut value = json!({});
    for text in sayings.iter().flat_map(|saying| [&saying.es, &saying.en]).flatten() {
        let Ok(template) = environment.template_from_str(text) else { continue };
        for name in template.undeclared_variables(true) {
            let mut keys = name.split('.');
            if keys.next() != Some(variable) {
                continue;
            }
            let keys: Vec<&str> = keys.collect();
            let mut at = &mut value;
            for (index, key) in keys.iter().enumerate() {
                let Some(fields) = at.as_object_mut() else { break };
                let empty = if index + 1 == keys.len() { json!(format!("({key})")) } else { json!({}) };
                at = fields.entry((*key).to_owned()).or_insert(empty);
            }
        }
    }
    value
}

/// More than anybody reads.
const ATTEMPTS_SHOWN_MAX: u32 = 10;
/// Deeper than any form that is filled in by voice.
const DEPTH_MAX: usize = 8;
