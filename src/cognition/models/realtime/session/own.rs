//! Functions of the box's own, which a model calls for what is no tool: to end the call, to cancel what runs, to have keys pressed.

use recado_core::ResponseId;
use recado_core::conversation::input::ModelEvent;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cognition::models::realtime::wire::FunctionTool;

/// What the model is offered.
pub(super) fn offered() -> Vec<FunctionTool> {
    let function = |name: &str, description: &str, properties: Value, required: &[&str]| FunctionTool {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }),
    };
    vec![
        function(END_CALL, "Ends the telephone call, after what you say now. Only when the caller has said goodbye.", json!({}), &[]),
        function(
            CANCEL,
            "Cancels what the caller has asked for and what still runs. Only when the caller says so; a new question cancels nothing.",
            json!({ "tool": { "type": "string", "description": "The tool whose work is to be cancelled; all work when left out." } }),
            &[],
        ),
        function(
            COLLECT,
            "Waits, after what you say now, for the caller to press keys of the telephone: an account number, a code.",
            json!({
                "digits_max": { "type": "integer", "minimum": 1, "maximum": DIGITS_MOST, "description": "So many keys are all." },
                "end_key": { "type": "string", "enum": ["#", "*"], "description": "A key that ends them before." },
            }),
            &["digits_max"],
        ),
    ]
}

pub(super) fn is_one(function: &str) -> bool {
    [END_CALL, CANCEL, COLLECT].contains(&function)
}

/// What a call of one of them comes to.
///
/// # Errors
/// What is wrong with its arguments.
pub(super) fn event(response: ResponseId, function: &str, arguments: Value) -> Result<ModelEvent, String> {
    match function {
        END_CALL => Ok(ModelEvent::HangUp { response }),
        CANCEL => {
            let Cancel { tool } = serde_json::from_value(arguments).map_err(|error| error.to_string())?;
            Ok(ModelEvent::CancelIntent { response, tool: tool.filter(|tool| !tool.is_empty()) })
        }
        COLLECT => {
            let Collect { digits_max, end_key: end } = serde_json::from_value(arguments).map_err(|error| error.to_string())?;
            if !(1..=DIGITS_MOST).contains(&digits_max) {
                return Err(format!("digits_max must be 1 to {DIGITS_MOST}"));
            }
            if end.is_some_and(|key| !matches!(key, '#' | '*')) {
                return Err("end_key must be # or *".to_owned());
            }
            Ok(ModelEvent::CollectDigits { response, digits_max, end, wait_ms: WAIT_MS })
        }
        other => Err(format!("there is no function {other}")),
    }
}

#[derive(Deserialize)]
struct Cancel {
    #[serde(default)]
    tool: Option<String>,
}

#[derive(Deserialize)]
struct Collect {
    digits_max: u8,
    #[serde(default)]
    end_key: Option<char>,
}

const END_CALL: &str = "end_call";
const CANCEL: &str = "cancel_work";
const COLLECT: &str = "collect_keys";
/// As many as a conversation collects.
const DIGITS_MOST: u8 = 32;
/// A pause between two keys that is longer is their end (ms).
const WAIT_MS: u64 = 5_000;
