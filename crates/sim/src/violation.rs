//! What a simulation finds: a promise of the contract that was not kept, as a value.

use std::fmt;

use crate::edges::{Coverage, Machine};

/// What must hold. The numbered ones are the contract's invariants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// At most one final closing per batch is confirmed heard; another only after doubt.
    I1,
    /// No final closing is lost, and each that ended proves its rule.
    I2,
    /// At most one effect per intent key.
    I3,
    /// No claim of success before `Succeeded` is durable.
    I4,
    /// Barge-in never changes an operation.
    I5,
    /// `Spoken` implies that the ear heard every clause.
    I6,
    /// Settled history equals what the ear heard.
    I7,
    /// Only the voice writes to a channel, and one playback plays at a time.
    I8,
    /// No delivery's frame while the caller is not `Quiet`, unless its policy allows it.
    I9,
    /// No frame of what is superseded, stale, suppressed or withdrawn.
    I10,
    /// A false start changes nothing but time.
    I11,
    /// `Uncertain` and `Unknown` arise only where speech or an attempt was open.
    I12,
    /// Nothing latches.
    I13,
    /// Nothing about one party is spoken to another.
    I14,
    /// The same inputs and seed give the same effects.
    I15,
    /// R1 to R6: commit before act.
    I16,
    /// One claim per delivery.
    I17,
    /// One generation at a time, and every turn is answered.
    I18,
    /// No progress is audible once its final is ready.
    I19,
    /// `Playing` is never without frames for more than a second.
    I20,
    /// The agent hangs up over what is ready and may be told.
    HangUp,
    /// News is said that its policy keeps silent.
    Silent,
    /// What needs the caller's consent is done without.
    Consent,
    /// A state machine took an edge that the contract does not have.
    Edge,
    /// A transaction breaks a constraint of the store.
    Constraint,
    /// The core asks to be woken without end, or its inputs breed inputs.
    Busy,
    /// An assertion of the core failed.
    Core,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HangUp => f.write_str("hang-up"),
            Self::Consent => f.write_str("consent"),
            Self::Silent => f.write_str("silent"),
            Self::Edge => f.write_str("edge"),
            Self::Constraint => f.write_str("constraint"),
            Self::Busy => f.write_str("busy"),
            Self::Core => f.write_str("core"),
            numbered => write!(f, "{numbered:?}"),
        }
    }
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// When, in virtual time (ms).
    pub at_ms: u64,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ms: {}", self.invariant, self.at_ms, self.what)
    }
}

/// Where checks say what they found. The first counts: what follows a broken promise proves nothing.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// The virtual time (ms).
    pub now: u64,
    /// The edges of the contract's machines that were taken.
    pub coverage: Coverage,
    first: Option<Violation>,
    kept: bool,
}

impl Findings {
    /// Findings that are kept until they are asked for. By default a finding fails the test that drives the box, on the spot.
    pub fn kept() -> Self {
        Self { kept: true, ..Self::default() }
    }

    /// Something must hold.
    pub fn check(&mut self, holds: bool, invariant: Invariant, what: impl FnOnce() -> String) {
        if holds || self.first.is_some() {
            return;
        }
        let violation = Violation { invariant, at_ms: self.now, what: what() };
        assert!(self.kept, "{violation}");
        self.first = Some(violation);
    }

    /// A machine took an edge: there must be such a one.
    pub fn edge(&mut self, machine: Machine, from: &str, to: &str, what: impl FnOnce() -> String) {
        let known = from == to || self.coverage.take(machine, from, to);
        self.check(known, Invariant::Edge, || format!("{machine:?} {from} → {to}: {}", what()));
    }

    /// What was found.
    pub fn violation(&self) -> Option<&Violation> {
        self.first.as_ref()
    }
}
