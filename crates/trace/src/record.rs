//! Recording: what a machine was told and did becomes lines.
//!
//! It has two halves. [`Taken`] is made where the machine runs, and costs no more than writing the input and its effects as
//! JSON. [`Scribe`] makes the line of it elsewhere: it redacts and digests.

use recado_core::conversation::Clocks;
use recado_core::ids::BootId;
use recado_core::time::{Time, Wall};
use serde::Serialize;
use serde_json::Value;

use crate::digest::digest;
use crate::fact::Fact;
use crate::line::{Begin, Entry, FORMAT, Header, Mark, Mode, Moment, Outcome};
use crate::redact::Redactor;
use crate::subject::{Subject, SubjectKind};

/// One input and what came of it, as it was.
#[derive(Debug)]
pub struct Taken {
    moment: Moment,
    input: Vec<u8>,
    effects: Vec<u8>,
    facts: Vec<Fact>,
    deadline: Option<Time>,
    clocks: Option<Clocks>,
}

impl Taken {
    /// What `machine` made of `input`, which is [`json`]. `moment` is that of its step, handled. None where it can't be written as JSON.
    pub fn of<S: Subject>(machine: &S, moment: Moment, input: Vec<u8>, effects: &[S::Effect]) -> Option<Self> {
        Some(Self {
            moment,
            input,
            effects: if effects.is_empty() { Vec::new() } else { serde_json::to_vec(effects).ok()? },
            facts: S::facts(effects),
            deadline: machine.deadline(),
            clocks: machine.clocks(),
        })
    }

    /// When it was.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// Memory that it occupies, about (bytes).
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.input.len() + self.effects.len() + self.facts.len() * size_of::<Fact>()
    }
}

/// An input as JSON, to be kept before the machine takes it.
pub fn json(input: &impl Serialize) -> Option<Vec<u8>> {
    serde_json::to_vec(input).ok()
}

/// Writes the lines of one trace.
#[derive(Debug)]
pub struct Scribe {
    of: SubjectKind,
    boot: BootId,
    version: String,
    mode: Mode,
    redactor: Redactor,
    began: (Time, Wall),
    part: u32,
    deadline: Option<Time>,
    clocks: Option<Clocks>,
}

impl Scribe {
    /// The scribe of a machine of kind `of` that began at `began`, in a process that calls itself `version`.
    pub fn new(of: SubjectKind, boot: BootId, version: &str, mode: Mode, redactor: Redactor, began: Moment) -> Self {
        let began = (began.now, began.wall);
        Self { of, boot, version: version.to_owned(), mode, redactor, began, part: 0, deadline: None, clocks: None }
    }

    /// The first line: `taken` is the machine's beginning, with its start for an input. None where it isn't JSON.
    pub fn begin<S: Subject>(&mut self, taken: &Taken) -> Option<String> {
        let start: S::Start = serde_json::from_slice(&taken.input).ok()?;
        let start = match self.mode {
            Mode::Redacted => S::redacted(&start, &self.redactor).ok()?,
            Mode::Full => serde_json::to_value(&start).ok()?,
        };
        let begin = Begin { seed: taken.moment.seed?, start, outcome: self.outcome(taken)? };
        line(&Header { begin: Some(begin), ..self.header(taken.moment) })
    }

    /// The first line of a further part, which begins at `moment`.
    pub fn next_part(&mut self, moment: Moment) -> Option<String> {
        self.part = self.part.saturating_add(1);
        self.began = (moment.now, moment.wall);
        line(&self.header(moment))
    }

    /// The line of an input. None where it isn't JSON.
    pub fn entry(&mut self, taken: &Taken) -> Option<String> {
        let mut input: Value = serde_json::from_slice(&taken.input).ok()?;
        if self.mode == Mode::Redacted {
            self.redactor.redact(&mut input);
        }
        let Moment { now, wall, seed } = taken.moment;
        line(&Entry {
            now,
            wall_drift_ms: wall.unix_ms.saturating_sub(expected(self.began, now)),
            synchronised_otherwise: wall.synchronised != self.began.1.synchronised,
            seed,
            input,
            outcome: self.outcome(taken)?,
        })
    }

    fn outcome(&mut self, taken: &Taken) -> Option<Outcome> {
        let effects = if taken.effects.is_empty() { Value::Null } else { serde_json::from_slice(&taken.effects).ok()? };
        let (digest, kinds) = digest(self.mode, self.of, effects);
        let deadline = (std::mem::replace(&mut self.deadline, taken.deadline) != taken.deadline).then_some(taken.deadline);
        let clocks = taken.clocks.filter(|clocks| self.clocks.replace(*clocks) != Some(*clocks));
        Some(Outcome { digest, kinds, facts: taken.facts.clone(), deadline, clocks })
    }

    fn header(&self, moment: Moment) -> Header {
        Header {
            recado_trace: FORMAT,
            of: self.of,
            version: self.version.clone(),
            boot: self.boot,
            part: self.part,
            mode: self.mode,
            now: moment.now,
            wall: moment.wall,
            begin: None,
        }
    }
}

/// The line of something that is no input.
pub fn mark(mark: Mark) -> Option<String> {
    line(&mark)
}

/// What the wall clock shows at `now`, going by what it showed at the beginning (ms since the epoch).
pub(crate) fn expected((began, wall): (Time, Wall), now: Time) -> i64 {
    wall.unix_ms.saturating_add(i64::try_from(now.since(began)).unwrap_or(i64::MAX))
}

fn line(what: &impl Serialize) -> Option<String> {
    serde_json::to_string(what).ok().map(|line| line + "\n")
}
