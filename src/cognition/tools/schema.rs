//! The arguments of a call, checked against the tool's schema before anything is accepted.

use std::collections::BTreeMap;
use std::fmt;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::error::ToolError;
use crate::config::Tool;

/// The compiled schemas of all tools.
#[derive(Debug)]
pub struct Schemas {
    by_tool: BTreeMap<String, Validator>,
}

/// Why arguments are refused, in words that a model can correct itself by and a person can read.
///
/// Values are not repeated: only their places and what is expected there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentsRefused {
    reason: String,
}

impl Schemas {
    /// Compiles the schemas of `tools`. References to other documents are refused: nothing is fetched.
    pub fn compile(tools: &[Tool]) -> Result<Self, ToolError> {
        let mut by_tool = BTreeMap::new();
        for tool in tools {
            let validator = compile(&tool.parameters).map_err(|reason| ToolError::Schema { tool: tool.name.clone(), reason })?;
            if by_tool.insert(tool.name.clone(), validator).is_some() {
                return Err(ToolError::Duplicate { tool: tool.name.clone() });
            }
        }
        Ok(Self { by_tool })
    }

    /// Whether `arguments` are what `tool` takes.
    pub fn check(&self, tool: &str, arguments: &Value) -> Result<(), ArgumentsRefused> {
        let Some(validator) = self.by_tool.get(tool) else {
            return Err(ArgumentsRefused { reason: format!("there is no tool `{}`; there are: {}", shown(tool), self.list()) });
        };
        if !arguments.is_object() {
            return Err(ArgumentsRefused { reason: format!("the arguments of `{tool}` must be a JSON object") });
        }
        if depth(arguments) > DEPTH_MAX {
            return Err(ArgumentsRefused { reason: format!("the arguments of `{tool}` are nested more than {DEPTH_MAX} deep") });
        }
        let size_bytes = arguments.to_string().len();
        if size_bytes > ARGUMENTS_BYTES_MAX {
            let reason = format!("the arguments of `{tool}` are {size_bytes} bytes long; at most {ARGUMENTS_BYTES_MAX} are taken");
            return Err(ArgumentsRefused { reason });
        }
        let mut errors = validator.iter_errors(arguments);
        let faults: Vec<String> = errors.by_ref().take(FAULTS_SHOWN_MAX).map(|error| fault(&error)).collect();
        if faults.is_empty() {
            return Ok(());
        }
        let more = if errors.next().is_some() { "; and more" } else { "" };
        Err(ArgumentsRefused { reason: format!("the arguments of `{tool}` are not what it takes: {}{more}", faults.join("; ")) })
    }

    /// The names of the tools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_tool.keys().map(String::as_str)
    }

    fn list(&self) -> String {
        let names: Vec<&str> = self.names().collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

impl ArgumentsRefused {
    /// The reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for ArgumentsRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for ArgumentsRefused {}

/// A schema, compiled; or why it can't be.
pub(super) fn compile(schema: &Value) -> Result<Validator, String> {
    compile_within(schema, PATTERN_BYTES_MAX)
}

/// Why a schema that somebody else has written can't be compiled, if it can't: its patterns may not become larger than `pattern_bytes_max`. `judge` says
/// first whether it may be tried, of a schema that is not too deep or too large.
pub(super) fn compiles(schema: &Value, pattern_bytes_max: usize, judge: impl FnOnce(&Value) -> Result<(), String>) -> Result<(), String> {
    bounded(schema)?;
    judge(schema)?;
    compile_within(schema, pattern_bytes_max).map(drop)
}

fn bounded(schema: &Value) -> Result<(), String> {
    if !schema.is_object() {
        return Err("it must be an object, such as { type = \"object\" }".to_owned());
    }
    if depth(schema) > SCHEMA_DEPTH_MAX {
        return Err(format!("it is nested more than {SCHEMA_DEPTH_MAX} deep"));
    }
    let size_bytes = schema.to_string().len();
    if size_bytes > SCHEMA_BYTES_MAX {
        return Err(format!("it is {size_bytes} bytes long; at most {SCHEMA_BYTES_MAX} are taken"));
    }
    Ok(())
}

fn compile_within(schema: &Value, pattern_bytes_max: usize) -> Result<Validator, String> {
    bounded(schema)?;
    // Linear-time patterns: what a model writes must not be able to stall the box.
    jsonschema::options().offline().with_pattern_options(PatternOptions::regex().size_limit(pattern_bytes_max)).build(schema).map_err(
        |error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { String::new() } else { format!(" (at {place})") };
            format!("{}{place}", shown(&error.to_string()))
        },
    )
}

fn fault(error: &jsonschema::ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let what = shown(&error.masked_with("this").to_string());
    if place.is_empty() { what } else { format!("{}: {what}", shown(&place)) }
}

fn shown(text: &str) -> String {
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(FAULT_SHOWN_CHARS_MAX).collect();
    if text.chars().nth(FAULT_SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 1)];
    while let Some((value, level)) = open.pop() {
        deepest = deepest.max(level);
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, level + 1))),
            _ => {}
        }
    }
    deepest
}

/// Arguments are what a caller said in a sentence or two; they are stored, canonicalised and sent with every attempt.
const ARGUMENTS_BYTES_MAX: usize = 16 * 1024;

/// Deeper than any form that is filled in by voice.
const DEPTH_MAX: usize = 16;

/// A schema is also given to the model, with every session.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// What a pattern may become, of those who write a configuration.
const PATTERN_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Deep enough for real schemas, shallow enough for any stack.
const SCHEMA_DEPTH_MAX: usize = 64;

/// As many faults as a model corrects in one go.
const FAULTS_SHOWN_MAX: usize = 5;

/// One fault stays a sentence, whatever it quotes (characters).
const FAULT_SHOWN_CHARS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_that_fit_are_taken() {
        let schemas = Schemas::compile(&[booking()]).unwrap();
        assert_eq!(schemas.check("book_table", &json!({ "people": 4, "day": "2026-12-01" })), Ok(()));
    }

    #[test]
    fn a_refusal_names_each_place_and_what_is_expected_and_repeats_no_value() {
        let schemas = Schemas::compile(&[booking()]).unwrap();
        let refused = schemas.check("book_table", &json!({ "people": 99, "day": "secret-pin", "wine": true })).unwrap_err();
        let reason = refused.reason();
        assert!(reason.contains("/people: this is greater than the maximum of 12"), "{reason}");
        assert!(reason.contains("/day: "), "{reason}");
        assert!(reason.contains("wine"), "{reason}");
        assert!(!reason.contains("secret-pin"), "{reason}");
        let missing = schemas.check("book_table", &json!({ "people": 2 })).unwrap_err();
        assert!(missing.reason().contains("\"day\" is a required property"), "{missing}");
    }

    #[test]
    fn a_refusal_stays_short_however_many_faults_there_are() {
        let mut tool = booking();
        tool.parameters = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
        let schemas = Schemas::compile(&[tool]).unwrap();
        let arguments: serde_json::Map<String, Value> = (0..500).map(|n| (format!("{n}-{}", "x".repeat(20)), json!("no"))).collect();
        let refused = schemas.check("book_table", &Value::Object(arguments)).unwrap_err();
        assert!(refused.reason().ends_with("; and more"), "{refused}");
        assert!(refused.reason().len() < 2_000);
    }

    #[test]
    fn an_unknown_tool_is_refused_with_those_that_exist() {
        let schemas = Schemas::compile(&[booking()]).unwrap();
        let refused = schemas.check("book_tabel", &json!({})).unwrap_err();
        assert_eq!(refused.reason(), "there is no tool `book_tabel`; there are: book_table");
    }

    #[test]
    fn arguments_that_are_no_object_too_deep_or_too_long_are_refused() {
        let mut tool = booking();
        tool.parameters = json!({ "type": "object" });
        let schemas = Schemas::compile(&[tool]).unwrap();
        assert!(schemas.check("book_table", &json!([1])).is_err());
        let deep = (0..40).fold(json!(1), |inner, _| json!({ "a": inner }));
        assert!(schemas.check("book_table", &deep).unwrap_err().reason().contains("deep"));
        let long = json!({ "a": "x".repeat(ARGUMENTS_BYTES_MAX) });
        assert!(schemas.check("book_table", &long).unwrap_err().reason().contains("bytes long"));
    }

    #[test]
    fn a_schema_that_refers_elsewhere_is_refused_and_nothing_is_fetched() {
        let mut tool = booking();
        tool.parameters = json!({ "$ref": "http://127.0.0.1:9/schema.json" });
        assert!(matches!(Schemas::compile(&[tool]), Err(ToolError::Schema { .. })));
    }

    #[test]
    fn a_schema_that_is_none_is_refused_with_its_place() {
        let mut tool = booking();
        tool.parameters = json!({ "type": "object", "properties": { "people": { "type": "intger" } } });
        let error = Schemas::compile(&[tool]).unwrap_err().to_string();
        assert!(error.contains("`book_table`") && error.contains("/properties/people/type"), "{error}");
    }

    #[test]
    fn a_pattern_that_backtracks_for_ever_elsewhere_is_answered_at_once() {
        let mut tool = booking();
        tool.parameters = json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "^(a+)+$" } } });
        let schemas = Schemas::compile(&[tool]).unwrap();
        assert!(schemas.check("book_table", &json!({ "a": format!("{}!", "a".repeat(10_000)) })).is_err());
    }

    #[test]
    fn two_tools_of_one_name_are_refused() {
        assert!(matches!(Schemas::compile(&[booking(), booking()]), Err(ToolError::Duplicate { .. })));
    }

    fn booking() -> Tool {
        serde_json::from_value(json!({
            "name": "book_table",
            "url": "http://127.0.0.1:1/",
            "parameters": {
                "type": "object",
                "properties": { "people": { "type": "integer", "maximum": 12 }, "day": { "type": "string", "pattern": r"^\d{4}-\d\d-\d\d$" } },
                "required": ["people", "day"],
                "additionalProperties": false
            }
        }))
        .unwrap()
    }
}
