//! What a text in the JSON of an input or effect is, by the name of its field.

use serde_json::Value;

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// A word of the code or of the configuration: a state, a route, a tool's name.
    Known,
    /// Who somebody is.
    Party,
    /// An intent key, which is made of a party and of arguments.
    IntentKey,
    /// What goes to a tool and comes from it.
    Data,
    /// What is said. Whatever is not known to be something else is taken for this.
    Words,
    /// The tools' policies: configuration, left as it is.
    Policies,
}

/// What the field `name` holds.
pub(crate) fn holds(name: &str) -> Holds {
    match name {
        "party" => Holds::Party,
        "intent_key" => Holds::IntentKey,
        "arguments" | "result" | "contradiction" | "digits" | "error" | "Succeeded" | "succeeded" | "Failed" | "failed" => Holds::Data,
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

/// Visits every text and number below `value`, with what it holds and the field that it stands in. `name` is that of `value`.
pub(crate) fn visit(value: &mut Value, name: &str, change: &mut impl FnMut(Holds, &str, &mut Value)) {
    let holds = holds(name);
    match value {
        Value::Object(_) | Value::Array(_) if matches!(holds, Holds::Policies) => {}
        // `Failed` with fields of its own is no text of a tool.
        Value::Object(_) | Value::Array(_) if holds == Holds::Data && name != "Failed" => data(value, name, change),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, field)| visit(field, name, change)),
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, name, change)),
        Value::String(text) if holds != Holds::Data && is_identifier(text) => {}
        Value::String(_) => change(holds, name, value),
        Value::Number(_) if holds == Holds::Data => change(holds, name, value),
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

fn data(value: &mut Value, name: &str, change: &mut impl FnMut(Holds, &str, &mut Value)) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, field)| data(field, name, change)),
        Value::Array(items) => items.iter_mut().for_each(|item| data(item, name, change)),
        Value::String(_) | Value::Number(_) => change(Holds::Data, name, value),
        Value::Bool(_) | Value::Null => {}
    }
}

/// Fields whose texts are words of the code or of the configuration. An input that is only a name has no field.
const KNOWN: [&str; 33] = [
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
    "doubt",
    "back",
    "from",
    "acoustic",
    "playback",
    "outcome",
    "Measured",
];

const PREFIXES: [&str; 8] = ["ses", "trn", "rsp", "pbk", "op", "bat", "dlv", "boot"];
