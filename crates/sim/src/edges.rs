//! Every edge of the contract's state machines, in one table: what is not in it must not happen, and what the contract promises
//! must be seen to happen.

use std::fmt;

use recado_core::conversation::{Acoustic, PlaybackState};
use recado_core::ledger::{BatchState, DeliveryState, OperationState};

/// A state machine of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Machine {
    /// The caller's clock.
    Acoustic,
    /// The agent's generation.
    Generation,
    /// Audio of ours.
    Playback,
    /// An operation, as the store has it.
    Operation,
    /// A batch, as the store has it.
    Batch,
    /// A delivery: as the store has it, and `Claimed` until its first frame is released.
    Delivery,
}

/// An edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Of which machine.
    pub machine: Machine,
    /// From.
    pub from: &'static str,
    /// To.
    pub to: &'static str,
    /// Whether a standard run must take it.
    pub must: bool,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} → {}", self.machine, self.from, self.to)
    }
}

const fn must(machine: Machine, from: &'static str, to: &'static str) -> Edge {
    Edge { machine, from, to, must: true }
}

/// Allowed, and not to be waited for: the reason stands beside it.
const fn may(machine: Machine, from: &'static str, to: &'static str) -> Edge {
    Edge { machine, from, to, must: false }
}

use Machine::{Acoustic as A, Batch as B, Delivery as D, Generation as G, Operation as O, Playback as P};

/// The table.
pub const EDGES: [Edge; 79] = [
    must(A, "Quiet", "Suspected"),
    must(A, "Suspected", "Quiet"),
    must(A, "Suspected", "Speaking"),
    must(A, "Speaking", "Trailing"),
    must(A, "Trailing", "Speaking"),
    must(A, "Trailing", "Quiet"),
    //
    must(G, "Requested", "Generating"),
    must(G, "Requested", "Complete"),
    must(G, "Requested", "Cancelled"),
    must(G, "Requested", "Failed"),
    must(G, "Generating", "Complete"),
    must(G, "Generating", "Cancelled"),
    must(G, "Generating", "Failed"),
    //
    must(P, "Queued", "Playing"),
    must(P, "Playing", "Paused"),
    must(P, "Paused", "Playing"),
    must(P, "Playing", "Drained"),
    must(P, "Drained", "Finished"),
    must(P, "Queued", "Cleared"),
    must(P, "Playing", "Cleared"),
    must(P, "Paused", "Cleared"),
    must(P, "Queued", "Lost"),
    // Suspicion comes between the voice's first sample and its first frame, and is taken back.
    may(P, "Queued", "Paused"),
    may(P, "Paused", "Queued"),
    // The next segment is long in coming, or can't be made, after others have left the box.
    may(P, "Playing", "Queued"),
    may(P, "Queued", "Drained"),
    may(P, "Paused", "Drained"),
    may(P, "Playing", "Lost"),
    may(P, "Paused", "Lost"),
    //
    must(O, "Accepted", "Running"),
    must(O, "Running", "RetryWait"),
    must(O, "RetryWait", "Running"),
    must(O, "Running", "Succeeded"),
    must(O, "Running", "Failed"),
    must(O, "Running", "Unknown"),
    must(O, "Running", "Cancelling"),
    must(O, "RetryWait", "Cancelling"),
    must(O, "RetryWait", "Succeeded"),
    must(O, "RetryWait", "Failed"),
    must(O, "Cancelling", "Cancelled"),
    must(O, "Cancelling", "TooLate"),
    must(O, "Cancelling", "Unknown"),
    must(O, "Unknown", "Succeeded"),
    must(O, "Unknown", "Failed"),
    // The answer to its cancel comes after it was given up.
    may(O, "Unknown", "Cancelled"),
    may(O, "Unknown", "Compensated"),
    may(O, "Unknown", "TooLate"),
    // An operation is accepted with its first attempt, in one transaction: it never is in the store without.
    may(O, "Accepted", "Failed"),
    may(O, "Accepted", "Cancelling"),
    // Its deadline passes while it waits for another attempt, and an earlier one may have executed.
    may(O, "RetryWait", "Unknown"),
    must(O, "Cancelling", "Compensated"),
    //
    must(B, "Open", "Sealed"),
    must(B, "Sealed", "Drained"),
    must(B, "Drained", "Closed"),
    //
    must(D, "Ready", "Claimed"),
    must(D, "Claimed", "Ready"),
    must(D, "Claimed", "Speaking"),
    must(D, "Speaking", "Spoken"),
    must(D, "Speaking", "Ready"),
    must(D, "Speaking", "Uncertain"),
    must(D, "Uncertain", "Claimed"),
    must(D, "Uncertain", "Spoken"),
    // Late evidence of the last clause that was missing, after a cut: once in millions.
    may(D, "Ready", "Spoken"),
    // What was in doubt before a claim that is given back is so after it; and a crash can't know whether a frame was released.
    must(D, "Claimed", "Uncertain"),
    // Late evidence of an earlier claim.
    may(D, "Claimed", "Spoken"),
    must(D, "Ready", "Superseded"),
    must(D, "Claimed", "Superseded"),
    must(D, "Speaking", "Superseded"),
    must(D, "Uncertain", "Superseded"),
    must(D, "Ready", "Suppressed"),
    // The policy `suppress`, and a claim on record whose process died.
    may(D, "Claimed", "Suppressed"),
    must(D, "Speaking", "Suppressed"),
    must(D, "Uncertain", "Suppressed"),
    must(D, "Ready", "Withdrawn"),
    must(D, "Claimed", "Withdrawn"),
    must(D, "Speaking", "Withdrawn"),
    must(D, "Uncertain", "Withdrawn"),
    // A hand-off has a claim of its own, so that nobody speaks meanwhile what is acknowledged.
    must(D, "Claimed", "HandedOff"),
    // The contract allows it; a doubt of this box outlives the next claim, and ends as something else.
    may(D, "Uncertain", "Ready"),
];

/// How often each edge of [`EDGES`] was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    taken: [u64; EDGES.len()],
}

impl Default for Coverage {
    fn default() -> Self {
        Self { taken: [0; EDGES.len()] }
    }
}

impl Coverage {
    /// Counts an edge; whether there is such a one.
    pub fn take(&mut self, machine: Machine, from: &str, to: &str) -> bool {
        let place = EDGES.iter().position(|edge| edge.machine == machine && edge.from == from && edge.to == to);
        if let Some(taken) = place.and_then(|place| self.taken.get_mut(place)) {
            *taken += 1;
        }
        place.is_some()
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        for (taken, more) in self.taken.iter_mut().zip(other.taken) {
            *taken += more;
        }
    }

    /// Every edge, with how often it was taken.
    pub fn edges(&self) -> impl Iterator<Item = (&'static Edge, u64)> {
        EDGES.iter().zip(self.taken)
    }

    /// What a standard run must take and was never taken.
    pub fn missing(&self) -> Vec<String> {
        self.edges().filter(|(edge, taken)| edge.must && *taken == 0).map(|(edge, _)| edge.to_string()).collect()
    }
}

/// A state by the contract's name.
pub fn acoustic(state: Acoustic) -> &'static str {
    match state {
        Acoustic::Quiet => "Quiet",
        Acoustic::Suspected => "Suspected",
        Acoustic::Speaking => "Speaking",
        Acoustic::Trailing => "Trailing",
    }
}

/// A state by the contract's name.
pub fn playback(state: PlaybackState) -> &'static str {
    match state {
        PlaybackState::Queued => "Queued",
        PlaybackState::Playing => "Playing",
        PlaybackState::Paused => "Paused",
        PlaybackState::Drained => "Drained",
        PlaybackState::Finished { .. } => "Finished",
        PlaybackState::Cleared { .. } => "Cleared",
        PlaybackState::Lost => "Lost",
    }
}

/// A state by the contract's name.
pub fn operation(state: OperationState) -> &'static str {
    match state {
        OperationState::Accepted => "Accepted",
        OperationState::Running => "Running",
        OperationState::RetryWait => "RetryWait",
        OperationState::Succeeded => "Succeeded",
        OperationState::Failed => "Failed",
        OperationState::Unknown => "Unknown",
        OperationState::Cancelling => "Cancelling",
        OperationState::Cancelled => "Cancelled",
        OperationState::Compensated => "Compensated",
        OperationState::TooLate => "TooLate",
    }
}

/// A state by the contract's name.
pub fn batch(state: BatchState) -> &'static str {
    match state {
        BatchState::Open => "Open",
        BatchState::Sealed => "Sealed",
        BatchState::Drained => "Drained",
        BatchState::Closed => "Closed",
    }
}

/// A state by the contract's name. A claim is on record as `Speaking`.
pub fn delivery(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Ready => "Ready",
        DeliveryState::Claimed => "Claimed",
        DeliveryState::Speaking => "Speaking",
        DeliveryState::Spoken => "Spoken",
        DeliveryState::Uncertain => "Uncertain",
        DeliveryState::Superseded => "Superseded",
        DeliveryState::Suppressed => "Suppressed",
        DeliveryState::Withdrawn => "Withdrawn",
        DeliveryState::HandedOff => "HandedOff",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_edge_stands_in_the_table_twice() {
        for (at, edge) in EDGES.iter().enumerate() {
            let twice = |other: &&Edge| (other.machine, other.from, other.to) == (edge.machine, edge.from, edge.to);
            assert_eq!(EDGES[at..].iter().filter(twice).count(), 1, "{edge}");
        }
    }

    #[test]
    fn what_is_not_in_the_table_is_no_edge() {
        let mut coverage = Coverage::default();
        assert!(coverage.take(Machine::Batch, "Open", "Sealed"));
        assert!(!coverage.take(Machine::Batch, "Open", "Closed"));
        assert!(!coverage.take(Machine::Delivery, "Spoken", "Ready"));
        assert!(!coverage.missing().contains(&"Batch Open → Sealed".to_owned()));
        assert!(coverage.missing().contains(&"Batch Sealed → Drained".to_owned()));
    }
}
