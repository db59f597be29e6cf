//! The conversation, as every interface tells it in its own way.

use crate::cognition::models::Role;

/// A line of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Words.
    Message {
        /// Whose.
        role: Role,
        /// The words.
        text: String,
    },
    /// Functions that the model called together, each with its one output.
    Calls(Vec<MadeCall>),
}

/// A call that the model made, and its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeCall {
    /// The box's name for it.
    pub call_id: String,
    /// The function.
    pub name: String,
    /// What it was called with: JSON, or what the model wrote instead.
    pub arguments: String,
    /// What the model is told of it.
    pub output: String,
}

impl Line {
    /// Words.
    pub fn message(role: Role, text: impl Into<String>) -> Self {
        Self::Message { role, text: text.into() }
    }
}

impl MadeCall {
    /// What it was called with, as JSON: services refuse a history that holds anything else.
    pub(super) fn arguments_as_json(&self) -> String {
        match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&self.arguments) {
            Ok(_) => self.arguments.clone(),
            Err(_) if self.arguments.trim().is_empty() => "{}".to_owned(),
            Err(_) => serde_json::json!({ "unreadable": self.arguments }).to_string(),
        }
    }
}
