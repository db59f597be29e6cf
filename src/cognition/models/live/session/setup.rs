//! What a session is opened with.

use recado_core::policy::Language;
use serde_json::{Value, json};

use crate::cognition::models::live::wire::{AudioSettings, Delegation, Format, InitialItem, OutputSettings, SessionSettings};
use crate::config::{Delegate, Live, NoDelegate, Tool};

/// What a session is opened with. Does not change.
#[derive(Debug)]
pub struct Setup {
    pub(super) format: Format,
    pub(super) answer_timeout_ms: u64,
    pub(super) renew_after_ms: u64,
    model: String,
    voice: Option<String>,
    instructions: String,
    acknowledgement_delay_ms: u64,
    delegate: Option<Delegate>,
}

impl Setup {
    /// A session of the service `live`, with a model that is told `instructions` and may delegate what one of `tools` does.
    ///
    /// # Errors
    /// When none of the tools does what the model delegates.
    pub fn new(live: &Live, language: Language, instructions: &str, tools: &[Tool]) -> Result<Self, NoDelegate> {
        let delegate = live.delegate(tools)?;
        let does = delegate.as_ref().and_then(|delegate| tools.iter().find(|tool| tool.name == delegate.tool));
        let delegation = match does {
            Some(Tool { name, description, .. }) if description.trim().is_empty() => format!("What you can delegate: {name}."),
            Some(Tool { description, .. }) => format!("What you can delegate: {}", description.trim()),
            None => "There is nothing that you can delegate.".to_owned(),
        };
        let speaks = match live.language.unwrap_or(language) {
            Language::Es => "Spanish",
            Language::En => "English",
        };
        Ok(Self {
            format: Format(live.format),
            answer_timeout_ms: live.answer_timeout_ms,
            renew_after_ms: live.renew_after_ms,
            model: live.model.clone(),
            voice: live.voice.clone(),
            instructions: format!("{}\n\nThe call is held in {speaks}. {delegation}", instructions.trim()),
            acknowledgement_delay_ms: live.acknowledgement_delay_ms,
            delegate,
        })
    }

    /// What a task comes to, which the model has delegated: a tool, and its arguments. A model of words that chose both would stand here.
    pub(super) fn call(&self, task: String) -> Option<(String, Value)> {
        let Delegate { tool, parameter } = self.delegate.clone()?;
        Some((tool, json!({ parameter: task })))
    }

    /// Whether anything does what the model delegates.
    pub(super) fn can_delegate(&self) -> bool {
        self.delegate.is_some()
    }

    pub(super) fn settings(&self, input: Vec<InitialItem>) -> SessionSettings {
        SessionSettings {
            model: self.model.clone(),
            audio: AudioSettings { format: self.format, output: self.voice.clone().map(|voice| OutputSettings { voice }) },
            instructions: self.instructions.clone(),
            input,
            delegation: Delegation { acknowledgement_delay_ms: self.acknowledgement_delay_ms },
            store: false,
        }
    }
}
