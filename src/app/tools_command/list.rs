//! The tools of a box, one after the other.

use std::fmt::Write as _;

use recado_core::policy::{DuplicatePolicy, Language, Priority};
use reqwest::Url;
use serde_json::{Value, json};

use super::{ToolsError, duration, either};
use crate::config::{Config, McpServer, Tool, Way};

/// Every tool: what it is, where, what it takes, and what its policy will do; for people or as one JSON list.
///
/// # Errors
/// When it can't be written as JSON.
pub fn listed(config: &Config, as_json: bool) -> Result<String, ToolsError> {
    if as_json {
        let tools: Vec<Value> = config.tools.iter().map(|tool| described(config, tool)).collect();
        return Ok(serde_json::to_string_pretty(&tools)? + "\n");
    }
    let language = config.this_box.language;
    if config.tools.is_empty() {
        return Ok(either(language, "Esta caja no tiene herramientas.\n", "This box has no tools.\n").to_owned());
    }
    let mut text = String::new();
    for tool in &config.tools {
        let offered = match (tool.discovered, tool.gone) {
            (_, true) => either(language, ", que ya no lo ofrece", ", which does not offer it any more"),
            (true, false) => either(language, ", que lo ofrece", ", which offers it"),
            (false, false) => "",
        };
        let _ = writeln!(text, "{}: {}{offered}", tool.name, place(config, tool));
        if !tool.description.is_empty() {
            let _ = writeln!(text, "  {}", tool.description);
        }
        let _ = writeln!(text, "  {}: {}", either(language, "toma", "takes"), parameters(tool, language));
        let _ = writeln!(text, "  {}", policy(tool, language));
    }
    Ok(text)
}

/// What carries a tool out, and where, without what may be secret in it.
pub(super) fn place(config: &Config, tool: &Tool) -> String {
    match tool.way() {
        Some(Way::Command(command)) => format!("command {}", command.program.display()),
        Some(Way::Delegate(delegate)) => format!("delegate {}", origin(&delegate.url)),
        Some(Way::Mcp(name)) => match config.mcp.get(name) {
            Some(McpServer { url: Some(url), .. }) => format!("mcp {name} ({})", origin(url)),
            Some(McpServer { program: Some(program), .. }) => format!("mcp {name} ({})", program.display()),
            _ => format!("mcp {name}"),
        },
        Some(Way::Http(url)) => format!("http {}", origin(url)),
        None => "…".to_owned(),
    }
}

/// Scheme, host and port of a URL: the rest of it often holds a key.
pub(super) fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "…".to_owned(), |url| url.origin().ascii_serialization())
}

fn described(config: &Config, tool: &Tool) -> Value {
    let place = place(config, tool);
    let (kind, at) = place.split_once(' ').unwrap_or((place.as_str(), ""));
    json!({
        "name": tool.name,
        "description": tool.description,
        "kind": kind,
        "discovered": tool.discovered,
        "gone": tool.gone,
        "place": at,
        "parameters": tool.parameters,
        "timeout_ms": tool.timeout_ms,
        "policy": tool.policy(),
    })
}

fn parameters(tool: &Tool, language: Language) -> String {
    let Some(properties) = tool.parameters.get("properties").and_then(Value::as_object).filter(|fields| !fields.is_empty()) else {
        return either(language, "lo que se le dé", "whatever it is given").to_owned();
    };
    let required = tool.parameters.get("required").and_then(Value::as_array);
    let one = |(name, schema): (&String, &Value)| {
        let is = match schema.get("type") {
            Some(Value::String(word)) => word.clone(),
            Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
            _ => either(language, "cualquiera", "any").to_owned(),
        };
        let optional = if required.is_some_and(|required| required.iter().any(|field| field == name)) { "" } else { "?" };
        format!("{name}{optional} ({is})")
    };
    properties.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn policy(tool: &Tool, language: Language) -> String {
    let t = |es, en| either(language, es, en);
    let policy = tool.policy();
    let mut parts = Vec::new();
    if policy.confirm {
        parts.push(
            t("se lee antes a quien llama, y se hace si está de acuerdo", "read back first, and done if the caller agrees").to_owned(),
        );
    }
    parts.push(match (policy.idempotent, policy.retry.attempts_max) {
        (_, 0 | 1) => t("un solo intento", "a single attempt").to_owned(),
        (true, most) => format!("{} {most} {}", t("hasta", "up to"), t("intentos con la misma clave", "attempts under one key")),
        (false, _) => t("se repite solo lo que consta que no se hizo", "only what provably was not done is repeated").to_owned(),
    });
    parts.push(format!("{} {}", t("dentro de", "within"), duration(policy.deadline_ms)));
    parts.push(
        match policy.duplicate {
            DuplicatePolicy::Reuse => t("lo repetido lo responde lo primero", "a repeat is answered by the first"),
            DuplicatePolicy::Reject => t("lo repetido se rechaza", "a repeat is refused"),
            DuplicatePolicy::Replace => t("lo que lo cambia cancela lo anterior", "what changes it cancels the earlier one"),
            DuplicatePolicy::Confirm => t("para repetirlo se pregunta", "a repeat is asked about"),
        }
        .to_owned(),
    );
    parts.push(
        if policy.cancellable {
            t("se puede cancelar", "can be cancelled")
        } else {
            t("no se puede cancelar una vez enviado", "can't be cancelled once sent")
        }
        .to_owned(),
    );
    if policy.priority == Priority::Urgent {
        parts.push(t("urgente", "urgent").to_owned());
    }
    parts.join("; ")
}
