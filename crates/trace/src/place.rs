//! What a text in the JSON of an input or effect is, by the name of its field.

use serde_json::Value;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// A word of the code or of the configuration: a state, a route, a tool's name.
    Known,
    /// Who somebody is.
    Party,
    /// An intent key, which is made of a party and of arguments.
    IntentKey,
    /// What goes to a tool and comes from it. Nothing in it is judged by the names of its fields, which are the tool's own.
    Data,
    /// What a tool answers with: [`Self::Data`] that may hold a version.
    Result,
    /// What is said. Whatever is not known to be something else is taken for this.
    Words,
    /// The tools' policies: configuration, left as it is.
    Policies,
}

/// What the field `name` of `parent` holds. `value` tells two kinds of fields of one name apart.
fn holds(parent: &str, name: &str, value: &Value) -> Holds {
    match name {
        "party" => Holds::Party,
        "intent_key" => Holds::IntentKey,
        // A callback's result says first whether it succeeded; that of a record or of a cancel is the tool's own.
        "result" if parent == "Callback" => Holds::Known,
        "result" | "Succeeded" | "succeeded" => Holds::Result,
        "progress" if parent == "Progress" => Holds::Data,
        // An attempt that failed has fields of ours, such as `executed`; a result that says so is a text of the tool.
        "Failed" | "failed" if value.is_object() => Holds::Known,
        "arguments" | "digits" | "error" | "handle" | "Failed" | "failed" => Holds::Data,
        "policies" => Holds::Policies,
        _ if KNOWN.contains(&name) => Holds::Known,
        _ => Holds::Words,
    }
}

/// Whether a text is an identifier of the contract, such as `ses_` and 32 hexadecimal digits.
pub(crate) fn is_identifier(text: &str) -> bool {
    text.split_once('_').is_some_and(|(prefix, digits)| {
        PREFIXES.contains(&prefix) && digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Visits every text below `value`, with what it holds; what tools are asked and answer is visited as a whole.
pub(crate) fn visit(value: &mut Value, change: &mut impl FnMut(Holds, &mut Value)) {
    visit_field(value, "", "", change);
}

fn visit_field(value: &mut Value, parent: &str, name: &str, change: &mut impl FnMut(Holds, &mut Value)) {
    let holds = holds(parent, name, value);
    match value {
        _ if matches!(holds, Holds::Data | Holds::Result) => change(holds, value),
        Value::Object(_) | Value::Array(_) if holds == Holds::Policies => {}
        Value::Object(fields) => fields.iter_mut().for_each(|(field, value)| visit_field(value, name, field, change)),
        Value::Array(items) => items.iter_mut().for_each(|item| visit_field(item, parent, name, change)),
        Value::String(text) if is_identifier(text) => {}
        Value::String(_) => change(holds, value),
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// Changes every text and number of what a tool is asked or answers.
pub(crate) fn change_data(value: &mut Value, change: &mut impl FnMut(&mut Value)) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| change_data(field, change)),
        Value::Array(items) => items.iter_mut().for_each(|item| change_data(item, change)),
        Value::String(_) | Value::Number(_) => change(value),
        Value::Bool(_) | Value::Null => {}
    }
}

/// Fields whose texts are words of the code or of the configuration. An input that is only a name has no field.
const KNOWN: [&str; 36] = [
    "",
    "tool",
    "call_id",
    "name",
    "language",
    "priority",
    "can_interrupt",
    "ride",
    "uncertain",
    "executed",
    "received",
    "contradiction",
    "route",
    "verdict",
    "kind",
    "state",
    "best",
    "to",
    "status",
    "heard",
    "cause",
    "purpose",
    "answer",
    "blocker",
    "audience",
    "standing",
    "identity",
    "Identified",
    "Model",
    "doubt",
    "back",
    "from",
    "acoustic",
    "playback",
    "outcome",
    "Measured",
];

const PREFIXES: [&str; 8] = ["ses", "trn", "rsp", "pbk", "op", "bat", "dlv", "boot"];
