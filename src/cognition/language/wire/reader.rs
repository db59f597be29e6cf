//! What comes of a language model, whichever interface it came over.

use serde::Deserialize;

use super::tokens::Tokens;
use crate::config::Secret;
use crate::outward::bounded_text;

/// Something of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerEvent {
    /// More words, which may end inside of one.
    Text(String),
    /// All words that came before it were what the model thought.
    WasThought,
    /// All of it has come: nothing but its cost may follow.
    Ended {
        /// The functions that it calls, in order.
        calls: Vec<AskedCall>,
    },
    /// What it took.
    Usage(Tokens),
}

impl AnswerEvent {
    /// The same, with `secret` taken out of the names of functions: one that there is none of is named in what is said of the call.
    pub fn hiding(mut self, secret: &Secret) -> Self {
        if let Self::Ended { calls } = &mut self {
            calls.iter_mut().for_each(|call| call.name = secret.hidden_in_name(&call.name));
        }
        self
    }
}

/// A function that the model calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AskedCall {
    /// Its name.
    pub name: String,
    /// Its arguments, as they were written: commonly JSON.
    pub arguments: String,
}

/// What came can't be used, or says that there is nothing to come.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is not what the interface says: another try may bring better.
    #[error("the service sent what can't be read: {0}")]
    Unreadable(String),
    /// It is longer than anybody would listen to.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    /// It calls more than anybody asks for at a time: nothing of it is done.
    #[error("the model makes more than {0} calls at a time")]
    TooManyCalls(usize),
    /// The service stopped in the middle, and says why: the same would come again.
    #[error("{0}")]
    CutOff(&'static str),
    /// The service says what went wrong.
    #[error("the service says: {}", .0.words())]
    Service(ServiceFault),
}

impl Unusable {
    /// The same, with `secret` taken out of what the service says. It is not shortened yet, which could leave a part of it.
    pub fn hiding(self, secret: &Secret) -> Self {
        match self {
            Self::Unreadable(text) => Self::Unreadable(secret.hidden_in(&text)),
            Self::Service(ServiceFault { kind, code, message }) => Self::Service(ServiceFault {
                kind: secret.hidden_in_name(&kind),
                code: secret.hidden_in_name(&code),
                message: secret.hidden_in(&message),
            }),
            other => other,
        }
    }
}

/// What a service says went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct ServiceFault {
    /// What kind of thing it is.
    #[serde(rename = "type", deserialize_with = "text")]
    pub kind: String,
    /// What exactly; some services say a number.
    #[serde(deserialize_with = "text")]
    pub code: String,
    /// In words.
    #[serde(deserialize_with = "text")]
    pub message: String,
}

impl ServiceFault {
    /// Its name and what it says, on one line that is not too long.
    pub fn words(&self) -> String {
        let name = if self.code.is_empty() { &self.kind } else { &self.code };
        bounded_text(&match (name.as_str(), self.message.trim()) {
            ("", "") => "something went wrong, and not what".to_owned(),
            ("", message) => message.to_owned(),
            (name, "") => name.to_owned(),
            (name, message) => format!("{name}: {message}"),
        })
    }

    /// Whether another try may go better.
    pub fn passes(&self) -> bool {
        let names = [self.code.as_str(), self.kind.as_str()];
        let any = |known: &[&str]| names.iter().any(|name| known.contains(name));
        !any(&LASTING) && (any(&PASSING) || names.iter().any(|name| name.starts_with('5')))
    }
}

impl Unusable {
    /// Whether another try may bring better.
    pub fn passes(&self) -> bool {
        match self {
            Self::Unreadable(_) => true,
            Self::TooLong(_) | Self::TooManyCalls(_) | Self::CutOff(_) => false,
            Self::Service(fault) => fault.passes(),
        }
    }
}

/// A text; a number as one; nothing where there is neither.
pub(super) fn text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => text,
        serde_json::Value::Number(number) => number.to_string(),
        _ => String::new(),
    })
}

pub(super) const CUT_BY_LENGTH: &str = "the answer is longer than the service or tokens_max allows, and was cut off";
pub(super) const CUT_BY_FILTER: &str = "the service cut the answer off: its content is not allowed there";
/// Some ten minutes of speech, or the largest arguments that a tool takes (bytes).
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// More than anybody asks for in one turn.
pub(super) const CALLS_MAX: usize = 64;

/// What goes by.
const PASSING: [&str; 6] =
    ["server_error", "rate_limit_exceeded", "overloaded_error", "timeout", "internal_server_error", "service_unavailable"];
/// What does not, whatever else is said of it.
const LASTING: [&str; 2] = ["insufficient_quota", "billing_hard_limit_reached"];
