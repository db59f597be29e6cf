//! What came of a talk, in words.

use std::fmt::Write as _;

use recado_core::policy::Language;

use super::words;
use crate::cognition::models::realtime::Totals;
use crate::cognition::models::realtime::wire::{ServerFault, Usage};
use crate::cognition::models::transport::TransportError;

/// What came of a talk with a service.
#[derive(Debug)]
pub struct CloudReport {
    pub(super) host: String,
    pub(super) model: String,
    pub(super) language: Language,
    pub(super) talked: Talked,
}

/// What a talk came to.
#[derive(Debug, Default)]
pub(super) struct Talked {
    /// Each thing that was tried, in order; where one is needed for all that follow and does not work, it is the last.
    pub steps: Vec<(Step, Result<Works, Fault>)>,
    /// What the service complained of by the way.
    pub troubles: Vec<ServerFault>,
    pub totals: Totals,
}

/// Something that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A connection.
    Connect,
    /// A session with the settings that are wanted.
    Session,
    /// The end of what is said to it, and the first sound that it answers.
    Hear,
    /// The call of a tool that was asked for.
    Call,
    /// An answer after the call has its output.
    Answer,
    /// The end of a response that is cancelled.
    Cancel,
    /// A text that is read aloud.
    ReadAloud,
}

/// Something that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Works {
    /// How long it took.
    pub ms: u64,
    /// What was said, where something was.
    pub said: Option<String>,
}

/// Why something does not work.
#[derive(Debug)]
pub(super) enum Fault {
    /// There is no connection, or no longer.
    Transport(TransportError),
    /// The service refuses.
    Service(ServerFault),
    /// A response or a reading failed, with the reason.
    Failed(String),
    /// Nothing came for so long (ms).
    Nothing(u64),
    /// The response ended without calling the tool; it said this.
    NoCall(String),
    /// The response ended without a sound.
    NoSound,
    /// The response had ended before it could be cancelled.
    EndedBefore,
    /// The service does not say that it has cancelled the response.
    NotConfirmed,
}

impl CloudReport {
    /// Whether all of it works.
    pub fn is_well(&self) -> bool {
        self.talked.steps.iter().all(|(_, result)| result.is_ok())
    }

    /// The report for people, in the box's language.
    pub fn text(&self) -> String {
        let language = self.language;
        let mut text = words::subject(language, &self.host, &self.model) + "\n";
        for (step, result) in &self.talked.steps {
            let line = match result {
                Ok(works) => words::works(language, *step, works),
                Err(fault) => words::fails(language, *step, fault),
            };
            // Writing to a string never fails.
            let _ = writeln!(text, "  {line}");
        }
        for fault in &self.talked.troubles {
            let _ = writeln!(text, "  {}", words::trouble(language, fault));
        }
        let Totals { usage, transcription_usage, rate_limits } = &self.talked.totals;
        if *usage != Usage::default() {
            let _ = writeln!(text, "{}", words::usage(language, usage));
        }
        if transcription_usage.input_tokens.saturating_add(transcription_usage.output_tokens) > 0 {
            let _ = writeln!(text, "{}", words::transcription_usage(language, transcription_usage));
        }
        for limit in rate_limits {
            if let (Some(remaining), Some(most)) = (limit.remaining, limit.limit) {
                let _ = writeln!(text, "{}", words::limit(language, &limit.name, remaining, most));
            }
        }
        text + words::verdict(language, self.is_well()) + "\n"
    }
}
