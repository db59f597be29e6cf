//! The acoustic clock: what the caller is doing, as far as it can be heard.

use super::input::{Acoustic, AcousticEdge, AcousticEpoch};
use crate::time::Time;

/// The caller's clock, moved by the listener's edges.
#[derive(Debug, Clone, Copy)]
pub(super) struct AcousticClock {
    pub(super) state: Acoustic,
    pub(super) epoch: AcousticEpoch,
    /// When the present state was entered.
    pub(super) since: Time,
    /// When the caller was last known to make a sound that may be speech.
    pub(super) last_sound: Time,
}

/// What an edge means for the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Movement {
    /// Nothing new.
    None,
    /// Speech is suspected; the voice has been paused.
    Suspected,
    /// What was suspected was none.
    Retracted,
    /// The caller speaks: a turn begins.
    TurnBegan,
    /// The caller goes on after a pause.
    WentOn,
    /// A pause.
    Paused,
    /// The caller's turn has ended.
    TurnEnded,
}

impl AcousticClock {
    pub(super) fn new(now: Time) -> Self {
        Self { state: Acoustic::Quiet, epoch: AcousticEpoch(0), since: now, last_sound: now }
    }

    /// Takes an edge. Edges may have been coalesced on their way: what matters is where they lead.
    pub(super) fn edge(&mut self, edge: AcousticEdge) -> Movement {
        if edge.epoch <= self.epoch {
            return Movement::None;
        }
        let from = self.state;
        self.epoch = edge.epoch;
        self.state = edge.to;
        self.since = edge.at;
        match edge.to {
            Acoustic::Suspected | Acoustic::Speaking => self.last_sound = self.last_sound.max(edge.at),
            // Dated back to the last voiced frame by the listener.
            Acoustic::Trailing => self.last_sound = self.last_sound.max(edge.at),
            Acoustic::Quiet => {}
        }
        match (from, edge.to) {
            (Acoustic::Quiet, Acoustic::Suspected) => Movement::Suspected,
            (Acoustic::Suspected, Acoustic::Quiet) => Movement::Retracted,
            (Acoustic::Quiet | Acoustic::Suspected, Acoustic::Speaking) => Movement::TurnBegan,
            (Acoustic::Trailing, Acoustic::Speaking) => Movement::WentOn,
            (Acoustic::Speaking, Acoustic::Trailing) => Movement::Paused,
            // A turn whose beginning was coalesced away is still a turn.
            (Acoustic::Quiet | Acoustic::Suspected, Acoustic::Trailing) => Movement::TurnBegan,
            (Acoustic::Speaking | Acoustic::Trailing, Acoustic::Quiet) => Movement::TurnEnded,
            (Acoustic::Speaking | Acoustic::Trailing, Acoustic::Suspected) => Movement::TurnEnded,
            (Acoustic::Quiet, Acoustic::Quiet)
            | (Acoustic::Suspected, Acoustic::Suspected)
            | (Acoustic::Speaking, Acoustic::Speaking)
            | (Acoustic::Trailing, Acoustic::Trailing) => Movement::None,
        }
    }

    /// Takes suspicion back when nothing confirmed it for too long.
    pub(super) fn retract(&mut self, now: Time) {
        self.state = Acoustic::Quiet;
        self.since = now;
    }

    pub(super) fn quiet(&self) -> bool {
        self.state == Acoustic::Quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(to: Acoustic, epoch: u64) -> AcousticEdge {
        AcousticEdge { to, epoch: AcousticEpoch(epoch), at: Time(epoch * 100) }
    }

    #[test]
    fn a_turn_begins_pauses_goes_on_and_ends() {
        let mut clock = AcousticClock::new(Time(0));
        let moves: Vec<Movement> = [
            edge(Acoustic::Suspected, 1),
            edge(Acoustic::Speaking, 2),
            edge(Acoustic::Trailing, 3),
            edge(Acoustic::Speaking, 4),
            edge(Acoustic::Trailing, 5),
            edge(Acoustic::Quiet, 6),
        ]
        .into_iter()
        .map(|e| clock.edge(e))
        .collect();
        use Movement::*;
        assert_eq!(moves, [Suspected, TurnBegan, Paused, WentOn, Paused, TurnEnded]);
        assert_eq!(clock.last_sound, Time(500));
    }

    #[test]
    fn an_edge_of_an_older_epoch_changes_nothing() {
        let mut clock = AcousticClock::new(Time(0));
        clock.edge(edge(Acoustic::Suspected, 4));
        assert_eq!(clock.edge(edge(Acoustic::Speaking, 4)), Movement::None);
        assert_eq!(clock.edge(edge(Acoustic::Speaking, 3)), Movement::None);
        assert_eq!(clock.state, Acoustic::Suspected);
    }

    #[test]
    fn coalesced_edges_lose_no_turn() {
        let mut clock = AcousticClock::new(Time(0));
        assert_eq!(clock.edge(edge(Acoustic::Trailing, 3)), Movement::TurnBegan);
        assert_eq!(clock.edge(edge(Acoustic::Quiet, 4)), Movement::TurnEnded);
    }
}
