//! What came of a talk, in words.

use std::fmt::Write as _;

use recado_core::policy::Language;

use super::kind::Kind;
use super::words;
use crate::cognition::models::transport::TransportError;
use crate::cognition::models::{gemini, live, realtime};

/// What came of a talk with a service.
#[derive(Debug)]
pub struct TalkReport {
    pub(super) kind: Kind,
    pub(super) host: String,
    pub(super) model: String,
    pub(super) language: Language,
    pub(super) talked: Talked,
}

/// What a talk came to.
#[derive(Debug)]
pub(super) struct Talked {
    /// Each thing that was to be tried, in the order in which it was.
    pub steps: Vec<(Step, Outcome)>,
    /// What the service complained of by the way.
    pub troubles: Vec<String>,
    pub taken: Taken,
}

/// What a talk took.
#[derive(Debug)]
pub(super) enum Taken {
    Nothing,
    Realtime(realtime::Totals),
    Live(live::Totals),
    Gemini(gemini::Totals),
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
    /// The same, where the model delegates a task.
    Delegate,
    /// An answer after the call has its output.
    Answer,
    /// What the model is told is acknowledged.
    Notes,
    /// The end of a response that is cancelled.
    Cancel,
    /// An answer to what is asked after a response that was cut.
    CutOff,
    /// A text that is read aloud.
    ReadAloud,
}

/// What came of something that was to be tried.
#[derive(Debug)]
pub(super) enum Outcome {
    Works(Works),
    Fails(Fault),
    NotKnown(Unknown),
}

impl From<Result<Works, Fault>> for Outcome {
    fn from(result: Result<Works, Fault>) -> Self {
        result.map_or_else(Self::Fails, Self::Works)
    }
}

/// Something that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Works {
    /// How long it took.
    pub ms: u64,
    /// What was said, where something was.
    pub said: Option<String>,
}

/// Why it is not known whether something works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// What comes before it does not.
    NotTried,
    /// The protocol has no cancel.
    NoCancel,
    /// The protocol has none that is confirmed.
    NotConfirmed,
    /// The response that was to be cut was over already.
    EndedBefore,
    /// The service has not acknowledged so many things that the model was told.
    Unacknowledged(usize),
}

/// Why something does not work.
#[derive(Debug)]
pub(super) enum Fault {
    /// There is no connection, or no longer.
    Transport(TransportError),
    /// The service refuses, and says this.
    Service(String),
    /// A response or a reading failed, with the reason.
    Failed(String),
    /// The session has ended.
    Ended,
    /// Nothing came for so long (ms).
    Nothing(u64),
    /// No sound came for so long (ms), and whether words did is not known.
    Silence(u64),
    /// The response has not ended after so long (ms).
    Endless(u64),
    /// The response ended without calling the tool; it said this.
    NoCall(String),
    /// The model has delegated a task, and nothing is written down of what the caller said.
    NoTask,
    /// The response ended without a sound.
    NoSound,
    /// The response had ended before it could be cancelled.
    EndedBefore,
    /// The service does not say that it has cancelled the response.
    NotConfirmed,
}

/// What all of it comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All of it works.
    Well,
    /// All of it works that could be tried.
    WellAsFarAsKnown,
    /// Something does not work.
    Unwell,
}

impl TalkReport {
    /// What all of it comes to.
    pub(super) fn verdict(&self) -> Verdict {
        let any = |of: fn(&Outcome) -> bool| self.talked.steps.iter().any(|(_, outcome)| of(outcome));
        match (any(|outcome| matches!(outcome, Outcome::Fails(_))), any(|outcome| matches!(outcome, Outcome::NotKnown(_)))) {
            (true, _) => Verdict::Unwell,
            (false, true) => Verdict::WellAsFarAsKnown,
            (false, false) => Verdict::Well,
        }
    }

    /// The report for people, in the box's language.
    pub(super) fn text(&self) -> String {
        let language = self.language;
        let mut text = words::subject(language, &self.host, &self.model) + "\n";
        for (step, outcome) in &self.talked.steps {
            let line = match outcome {
                Outcome::Works(works) => words::works(language, *step, works),
                Outcome::Fails(fault) => words::fails(language, self.kind, *step, fault),
                Outcome::NotKnown(unknown) => words::not_known(language, words::name(language, *step), *unknown),
            };
            // Writing to a string never fails.
            let _ = writeln!(text, "  {line}");
        }
        for says in &self.talked.troubles {
            let _ = writeln!(text, "  {}", words::trouble(language, says));
        }
        for line in words::taken(language, &self.talked.taken) {
            let _ = writeln!(text, "{line}");
        }
        text + words::verdict(language, self.verdict()) + "\n"
    }
}
