//! What comes of one request to the model, and how far it is.

use std::time::Duration;

use recado_core::OperationId;
use recado_core::ledger::Input;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cognition::language::wire::{AnswerEvent, AskedCall, Tokens};
use crate::text::{Sentences, spoken};

/// An answer that has come whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Its words, as the model wrote them.
    pub text: String,
    /// The tools that the model wants to use first.
    pub calls: Vec<AskedCall>,
    /// What it took.
    pub tokens: Tokens,
}

impl Answer {
    /// Its words, without what is written for the eye.
    pub fn spoken(&self) -> String {
        spoken(&self.text).trim().to_owned()
    }
}

/// An answer that is being written.
#[derive(Debug, Default)]
pub(super) struct Writing {
    answer: Answer,
    characters: usize,
    sentences: Sentences,
    /// The last sentence that is whole.
    sentence: Option<String>,
}

impl Writing {
    /// More of it: whether another sentence is whole.
    pub fn take(&mut self, event: AnswerEvent) -> bool {
        match event {
            AnswerEvent::Text(text) => {
                self.answer.text.push_str(&text);
                self.characters += text.chars().count();
                let whole = self.sentences.add(&text).iter().map(|sentence| spoken(sentence)).rfind(|sentence| !sentence.is_empty());
                let ended = whole.is_some();
                self.sentence = whole.or(self.sentence.take());
                ended
            }
            AnswerEvent::WasThought => {
                let tokens = self.answer.tokens;
                *self = Self { answer: Answer { tokens, ..Answer::default() }, ..Self::default() };
                false
            }
            AnswerEvent::Ended { calls } => {
                self.answer.calls = calls;
                false
            }
            AnswerEvent::Usage(tokens) => {
                self.answer.tokens.add(tokens);
                false
            }
        }
    }

    /// All of it.
    pub fn end(self) -> Answer {
        self.answer
    }
}

/// Who is told how far an attempt is: seldom, and only where there is room.
#[derive(Debug)]
pub(super) struct Progress {
    operation: OperationId,
    reports: Option<mpsc::Sender<Input>>,
    told: Option<Instant>,
}

impl Progress {
    pub fn new(operation: OperationId, reports: Option<mpsc::Sender<Input>>) -> Self {
        Self { operation, reports, told: None }
    }

    /// A sentence has ended at `now`.
    pub fn tell(&mut self, writing: &Writing, now: Instant) {
        let soon = self.told.is_some_and(|told| now < told + BETWEEN);
        let (Some(reports), Some(sentence), false) = (&self.reports, &writing.sentence, soon) else { return };
        self.told = Some(now);
        let progress = json!({ "characters": writing.characters, "text": sentence.trim() });
        // The next one says more. What has no room is dropped, as everything that is no result may be.
        let _ = reports.try_send(Input::Progress { request: None, operation: self.operation, progress });
    }
}

/// Nobody makes anything of more.
const BETWEEN: Duration = Duration::from_secs(1);
