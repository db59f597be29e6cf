//! Replaying: today's core is told what was told then. Does it decide the same?

use recado_core::conversation::Conversation;
use recado_core::ids::FreshIds;
use recado_core::ledger::Ledger;
use recado_core::time::{Step, Time, Wall};

use crate::digest::digest;
use crate::line::{Entry, Outcome, Seed};
use crate::read::Trace;
use crate::subject::{Subject, SubjectKind};

/// What a replay found.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Today's code decides the same about every input that could be replayed.
    Same {
        /// How many there were, the beginning among them.
        inputs: usize,
        /// Why it ends before the trace does: so many inputs are missing there.
        missed: Option<u64>,
    },
    /// Today's code decides otherwise.
    Differs(Box<Difference>),
}

/// Where today's code decides otherwise for the first time.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Which input, from 1; 0 is the beginning.
    pub input: usize,
    /// When it came, since the beginning (ms).
    pub at_ms: u64,
    /// The input, as JSON; none for the beginning.
    pub told: Option<String>,
    /// What came of it then.
    pub then: Outcome,
    /// The kinds of today's effects.
    pub kinds: Vec<String>,
    /// Today's effects in full, as JSON, one each.
    pub effects: Vec<String>,
    /// When it wanted to be woken then, and today, where that is what differs.
    pub deadlines: Option<(Option<Time>, Option<Time>)>,
}

/// Why a trace can't be replayed. Each says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It is a further part of a long trace, without the beginning.
    #[error(
        "it is part {part} of a ledger's trace: give part 0 with it, from where every replay begins; if that has been removed it can only be drawn"
    )]
    NoBeginning {
        /// Which part.
        part: u32,
    },
    /// The beginning or an input has another form than today's.
    #[error("{what} has a form that this version does not know ({reason}): it was written by {version}, replay it with that")]
    Form {
        /// What.
        what: String,
        /// What is wrong with it.
        reason: String,
        /// The version that wrote it.
        version: String,
    },
}

/// Tells today's code what the trace's was told.
///
/// # Errors
/// When the trace has no beginning, or holds what today's code can't be told.
pub fn replay(trace: &Trace) -> Result<Verdict, ReplayError> {
    match trace.header.of {
        SubjectKind::Conversation => replay_as::<Conversation>(trace),
        SubjectKind::Ledger => replay_as::<Ledger>(trace),
    }
}

fn replay_as<S: Subject>(trace: &Trace) -> Result<Verdict, ReplayError> {
    let header = &trace.header;
    let begin = header.begin.as_ref().ok_or(ReplayError::NoBeginning { part: header.part })?;
    let form =
        |what: String, error: serde_json::Error| ReplayError::Form { what, reason: error.to_string(), version: header.version.clone() };
    let start = serde_json::from_value(begin.start.clone()).map_err(|error| form("its beginning".to_owned(), error))?;
    let (mut machine, effects) = S::begin(&mut step(header.now, header.wall, Some(begin.seed)), start);
    let mut compare = Compare { trace, deadline: None };
    if let Some(difference) = compare.look(&machine, 0, None, &begin.outcome, &effects) {
        return Ok(Verdict::Differs(Box::new(difference)));
    }
    let stops = trace.missed.first();
    let replayed = stops.map_or(trace.entries.len(), |(at, _)| *at);
    for (number, entry) in (1..).zip(trace.entries.iter().take(replayed)) {
        let input = serde_json::from_value(entry.input.clone()).map_err(|error| form(format!("input {number}"), error))?;
        let effects = machine.handle(&mut step(entry.now, trace.wall(entry), entry.seed), input);
        if let Some(difference) = compare.look(&machine, number, Some(entry), &entry.outcome, &effects) {
            return Ok(Verdict::Differs(Box::new(difference)));
        }
    }
    Ok(Verdict::Same { inputs: replayed + 1, missed: stops.map(|(_, missed)| *missed) })
}

struct Compare<'a> {
    trace: &'a Trace,
    /// When the recorded machine wanted to be woken.
    deadline: Option<Time>,
}

impl Compare<'_> {
    fn look<S: Subject>(
        &mut self,
        machine: &S,
        input: usize,
        entry: Option<&Entry>,
        then: &Outcome,
        effects: &[S::Effect],
    ) -> Option<Difference> {
        let header = &self.trace.header;
        let (now_digest, kinds) = digest(header.mode, header.of, serde_json::to_value(effects).unwrap_or_default());
        if let Some(deadline) = then.deadline {
            self.deadline = deadline;
        }
        let deadlines = (machine.deadline() != self.deadline).then(|| (self.deadline, machine.deadline()));
        if now_digest == then.digest && deadlines.is_none() {
            return None;
        }
        Some(Difference {
            input,
            at_ms: entry.map_or(0, |entry| entry.now.since(header.now)),
            told: entry.map(|entry| entry.input.to_string()),
            then: then.clone(),
            kinds,
            effects: effects.iter().filter_map(|effect| serde_json::to_string(effect).ok()).collect(),
            deadlines,
        })
    }
}

/// A step as it was. Where nothing was drawn from the seed it is not known: what today's code draws instead differs anyway.
fn step(now: Time, wall: Wall, seed: Option<Seed>) -> Step {
    Step { now, wall, ids: FreshIds::new(seed.map_or(0, |seed| seed.0)) }
}
