//! What a trace is of: a conversation or the ledger. Both are recorded and replayed alike.

use std::collections::BTreeMap;

use recado_core::conversation::{self, Channel, Clocks, Conversation, Settings};
use recado_core::ids::BootId;
use recado_core::ledger::{self, Ledger, Snapshot};
use recado_core::policy::ToolPolicy;
use recado_core::time::{Step, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::fact::{self, Fact};
use crate::redact::Redactor;

/// The state machines that leave traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// One call.
    Conversation,
    /// The box's ledger, from its start on.
    Ledger,
}

/// A state machine of the core.
pub trait Subject: Sized {
    /// Which one it is.
    const KIND: SubjectKind;
    /// What it begins with.
    type Start: Serialize + DeserializeOwned;
    /// What it is told.
    type Input: Serialize + DeserializeOwned;
    /// What it wants done.
    type Effect: Serialize;

    /// Begins.
    fn begin(step: &mut Step, start: Self::Start) -> (Self, Vec<Self::Effect>);
    /// The input as it may be written before the machine takes it, in whatever mode; none where that is as it is.
    fn written(&self, _input: &Self::Input) -> Option<Self::Input> {
        None
    }
    /// Takes one input.
    fn handle(&mut self, step: &mut Step, input: Self::Input) -> Vec<Self::Effect>;
    /// When it wants to be woken.
    fn deadline(&self) -> Option<Time>;
    /// What its clocks show, where it has any.
    fn clocks(&self) -> Option<Clocks>;
    /// What of its effects is written in clear.
    fn facts(effects: &[Self::Effect]) -> Vec<Fact>;
    /// What it begins with, as JSON without anybody's words.
    fn redacted(start: &Self::Start, redactor: &Redactor) -> Result<serde_json::Value, serde_json::Error>;
}

/// What a conversation begins with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConversationStart {
    /// Its settings.
    pub settings: Settings,
    /// Its channel.
    pub channel: Channel,
}

impl Subject for Conversation {
    const KIND: SubjectKind = SubjectKind::Conversation;
    type Start = ConversationStart;
    type Input = conversation::Input;
    type Effect = conversation::Effect;

    fn begin(step: &mut Step, start: Self::Start) -> (Self, Vec<Self::Effect>) {
        Self::begin(step, start.settings, start.channel)
    }

    /// A key of a PIN is any digit: the conversation only counts them.
    fn written(&self, input: &Self::Input) -> Option<Self::Input> {
        let secret = matches!(input, conversation::Input::Digit(key) if key.is_ascii_digit()) && self.next_key_is_secret();
        secret.then_some(conversation::Input::Digit('0'))
    }

    fn handle(&mut self, step: &mut Step, input: Self::Input) -> Vec<Self::Effect> {
        self.handle(step, input)
    }

    fn deadline(&self) -> Option<Time> {
        self.deadline()
    }

    fn clocks(&self) -> Option<Clocks> {
        Some(self.clocks())
    }

    fn facts(effects: &[Self::Effect]) -> Vec<Fact> {
        effects.iter().filter_map(fact::of_conversation).collect()
    }

    fn redacted(start: &Self::Start, redactor: &Redactor) -> Result<serde_json::Value, serde_json::Error> {
        let mut value = serde_json::to_value(start)?;
        redactor.redact(&mut value);
        Ok(value)
    }
}

/// What a ledger begins with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LedgerStart {
    /// This life of the process.
    pub boot: BootId,
    /// The tools' policies.
    pub policies: BTreeMap<String, ToolPolicy>,
    /// What the store held.
    pub snapshot: Snapshot,
}

impl Subject for Ledger {
    const KIND: SubjectKind = SubjectKind::Ledger;
    type Start = LedgerStart;
    type Input = ledger::Input;
    type Effect = ledger::Effect;

    fn begin(step: &mut Step, start: Self::Start) -> (Self, Vec<Self::Effect>) {
        Self::recover(step, start.boot, start.policies, start.snapshot)
    }

    fn handle(&mut self, step: &mut Step, input: Self::Input) -> Vec<Self::Effect> {
        self.handle(step, input)
    }

    fn deadline(&self) -> Option<Time> {
        self.deadline()
    }

    fn clocks(&self) -> Option<Clocks> {
        None
    }

    fn facts(effects: &[Self::Effect]) -> Vec<Fact> {
        effects.iter().flat_map(fact::of_ledger).collect()
    }

    fn redacted(start: &Self::Start, redactor: &Redactor) -> Result<serde_json::Value, serde_json::Error> {
        let mut value = serde_json::to_value(start)?;
        redactor.redact(&mut value);
        // A key is made of what has changed: it changes with it, so that what was the same stays the same.
        let operations = value["snapshot"]["operations"].as_array_mut().into_iter().flatten();
        for (operation, record) in operations.zip(&start.snapshot.operations) {
            operation["intent_key"] = redactor.intent_key(record, start.policies.get(&record.tool)).0.into();
        }
        Ok(value)
    }
}
