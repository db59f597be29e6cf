//! What a model may call: the tools, and functions of the box's own for what is no tool: to end the call, to say what runs, to cancel it, to
//! say a result once more, to have keys pressed, to have a message taken, to find out who is on the line.

use recado_core::ResponseId;
use recado_core::conversation::input::{ModelEvent, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::port::Output;
use crate::cognition::tools::{ArgumentsRefused, Schemas, ToolError};
use crate::config::{CONFIRMED, Tool};

/// A function that the model may call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "function")]
pub struct FunctionTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// All that a model may call. Does not change.
#[derive(Debug)]
pub(super) struct Functions {
    offered: Vec<FunctionTool>,
    schemas: Schemas,
}

impl Functions {
    /// What `tools` do, but for those that are gone, and the box's own functions, but for those whose name a tool has; those that verify callers only where the box
    /// `verifies` any.
    ///
    /// # Errors
    /// When a tool's schema can't be used.
    pub fn new(tools: &[Tool], verifies: bool) -> Result<Self, ToolError> {
        let tools: Vec<Tool> = tools.iter().filter(|tool| !tool.gone).cloned().collect();
        let schemas = Schemas::compile(&tools)?;
        let own = own().into_iter().filter(|function| verifies || ![ASK_FOR_PIN, VERIFY].contains(&function.name.as_str()));
        let own = own.filter(|function| tools.iter().all(|tool| tool.name != function.name));
        Ok(Self { offered: tools.iter().map(offer).chain(own).collect(), schemas })
    }

    /// What the model is offered.
    pub fn offered(&self) -> &[FunctionTool] {
        &self.offered
    }

    /// What a call comes to, or why it comes to nothing, in words that the model can correct itself by.
    pub fn taken(&self, name: &str, arguments: &str, call_id: &str, response: ResponseId) -> Result<Output, String> {
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
        let arguments: Value = serde_json::from_str(arguments).map_err(|error| format!("the arguments are not JSON: {error}"))?;
        if is_own(name) && !self.schemas.names().any(|tool| tool == name) && self.offered.iter().any(|offered| offered.name == name) {
            if name == TAKE_MESSAGE {
                return Ok(Output::WantsMessage { response });
            }
            return event(response, name, arguments).map(Output::Event);
        }
        let (arguments, confirmed) = self.arguments(name, arguments).map_err(|refused| refused.reason().to_owned())?;
        let call = ToolCall { call_id: call_id.to_owned(), tool: name.to_owned(), arguments, confirmed };
        Ok(Output::Event(ModelEvent::ToolCall { response, call }))
    }

    /// What a tool is called with: its arguments, and whether the caller has confirmed the call.
    fn arguments(&self, tool: &str, mut arguments: Value) -> Result<(Value, bool), ArgumentsRefused> {
        let own_property = self.offered.iter().any(|offered| offered.name == tool && takes_confirmation(&offered.parameters));
        let confirmed = match arguments.as_object_mut() {
            Some(fields) if own_property => fields.remove(CONFIRMED).is_some_and(|value| value == json!(true)),
            _ => false,
        };
        self.schemas.check(tool, &arguments)?;
        Ok((arguments, confirmed))
    }
}

/// A tool as the model sees it: with a way to say that the caller has confirmed the call, where it has no property of that name.
fn offer(tool: &Tool) -> FunctionTool {
    let mut parameters = tool.parameters.clone();
    if let Some(schema) = parameters.as_object_mut() {
        let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Some(properties) = properties.as_object_mut() {
            properties.entry(CONFIRMED).or_insert_with(|| json!({ "type": "boolean", "description": CONFIRMED_MEANS }));
        }
    }
    FunctionTool { name: tool.name.clone(), description: tool.description.clone(), parameters }
}

fn takes_confirmation(parameters: &Value) -> bool {
    parameters["properties"][CONFIRMED]["description"] == CONFIRMED_MEANS
}

/// The functions of the box's own.
fn own() -> Vec<FunctionTool> {
    let function = |name: &str, description: &str, properties: Value, required: &[&str]| FunctionTool {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }),
    };
    vec![
        function(END_CALL, "Ends the telephone call, after what you say now. Only when the caller has said goodbye.", json!({}), &[]),
        function(
            CANCEL,
            "Cancels what the caller has asked for and what still runs. Only when the caller says so, as in \"don't make the transfer\"; a new question \
             cancels nothing.",
            json!({
                "tool": { "type": "string", "description": "The tool whose work is to be cancelled; all work when this and work are left out." },
                "work": {
                    "type": "string",
                    "description": "The one piece of work that is to be cancelled, by the short name that you have been told, such as w1.",
                },
            }),
            &[],
        ),
        function(
            LIST_WORK,
            "Tells the caller, after what you say now, what of theirs is under way or about to be told. When they ask what is going on with what they \
             have asked for. The telephone system says it, and tells you too.",
            json!({}),
            &[],
        ),
        function(
            REPEAT_LAST,
            "Tells the caller the last result once more that they were told in this call. When they ask for it to be repeated. The telephone system \
             says it, word for word: do not repeat it yourself.",
            json!({}),
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
        function(
            TAKE_MESSAGE,
            "Records, after what you say now, what the caller says next, as a message for somebody else to hear: when they want to leave one. Tell them \
             first that they can speak now. You do not hear it; you are told when it has ended and whether it is kept.",
            json!({}),
            &[],
        ),
        function(
            ASK_FOR_PIN,
            "Waits, after what you say now, for the caller to key in their PIN, which you are not told. When they want to hear what only they may \
             hear. Ask them to key it in, and the hash key. You are told whether they are verified.",
            json!({}),
            &[],
        ),
        function(
            VERIFY,
            "Verifies the caller by a PIN that they have said, of their own accord. Never repeat it. You are told whether they are verified.",
            json!({ "pin": { "type": "string", "description": "The digits that the caller has said." } }),
            &["pin"],
        ),
    ]
}

/// Whether this is the name of a function of the box's own.
pub(in crate::cognition) fn is_own(function: &str) -> bool {
    [END_CALL, CANCEL, COLLECT, LIST_WORK, REPEAT_LAST, TAKE_MESSAGE, ASK_FOR_PIN, VERIFY].contains(&function)
}

/// What a call of one of them comes to.
///
/// # Errors
/// What is wrong with its arguments.
fn event(response: ResponseId, function: &str, arguments: Value) -> Result<ModelEvent, String> {
    match function {
        END_CALL => Ok(ModelEvent::HangUp { response }),
        CANCEL => {
            let Cancel { tool, work } = serde_json::from_value(arguments).map_err(|error| error.to_string())?;
            let named = |name: Option<String>| name.filter(|name| !name.trim().is_empty());
            Ok(ModelEvent::CancelIntent { response, tool: named(tool), work: named(work) })
        }
        LIST_WORK => Ok(ModelEvent::ListWork { response }),
        REPEAT_LAST => Ok(ModelEvent::RepeatLast { response }),
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
        ASK_FOR_PIN => Ok(ModelEvent::AskForPin { response }),
        VERIFY => {
            // What is wrong with it is said without it.
            let Ok(Verify { pin }) = serde_json::from_value(arguments) else { return Err("pin must be text, of digits".to_owned()) };
            let digits: String = pin.chars().filter(char::is_ascii_digit).take(usize::from(DIGITS_MOST)).collect();
            if digits.is_empty() {
                Err("pin holds no digit".to_owned())
            } else {
                Ok(ModelEvent::VerifyCaller { response, pin: digits.into() })
            }
        }
        other => Err(format!("there is no function {other}")),
    }
}

#[derive(Deserialize)]
struct Cancel {
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    work: Option<String>,
}

#[derive(Deserialize)]
struct Verify {
    pin: String,
}

#[derive(Deserialize)]
struct Collect {
    digits_max: u8,
    #[serde(default)]
    end_key: Option<char>,
}

const CONFIRMED_MEANS: &str = "Leave it out, unless the same call was answered before with needs_consent or needs_confirmation, the caller has been asked, and \
     has then said yes. Never true for what they have not been asked.";
const END_CALL: &str = "end_call";
const CANCEL: &str = "cancel_work";
const LIST_WORK: &str = "list_work";
const REPEAT_LAST: &str = "repeat_last";
const COLLECT: &str = "collect_keys";
const TAKE_MESSAGE: &str = "take_message";
const ASK_FOR_PIN: &str = "ask_for_pin";
const VERIFY: &str = "verify_caller";
/// As many as a conversation collects.
const DIGITS_MOST: u8 = 32;
/// A pause between two keys that is longer is their end (ms).
const WAIT_MS: u64 = 5_000;
