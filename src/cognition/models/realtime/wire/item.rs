//! Items of a conversation, as they are created.

use serde::Serialize;

use crate::cognition::models::notes::Role;

/// An item of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// Something that was said, or that the model is to know.
    Message {
        /// A name for it; the service chooses one where none is given.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// Whose words they are.
        role: Role,
        /// The words.
        content: Vec<Part>,
    },
    /// What came of a function call.
    FunctionCallOutput {
        /// The call.
        call_id: String,
        /// What the model is told: a text, commonly JSON.
        output: String,
    },
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Words of the box or of the caller.
    InputText {
        /// The words.
        text: String,
    },
    /// Words of the model.
    OutputText {
        /// The words.
        text: String,
    },
}

impl Item {
    /// A message of these words.
    pub fn message(role: Role, text: impl Into<String>) -> Self {
        let text = text.into();
        let part = match role {
            Role::System | Role::User => Part::InputText { text },
            Role::Assistant => Part::OutputText { text },
        };
        Self::Message { id: None, role, content: vec![part] }
    }

    /// The same message under a name of our own, by which it can be deleted. Other items keep theirs.
    #[must_use]
    pub fn named(mut self, name: String) -> Self {
        if let Self::Message { id, .. } = &mut self {
            *id = Some(name);
        }
        self
    }
}
