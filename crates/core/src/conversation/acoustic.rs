//! The acoustic clock: what the caller is doing, as far as it can be heard.

use super::input::{Acoustic, AcousticEdge, AcousticEpoch};
use crate::time::Time;
use crate::timers::{Timer, Timers};

/// The caller's clock, moved by the listener's edges.
#[derive(Debug, Clone, Copy)]
pub(super) struct AcousticClock {
    pub(super) state: Acoustic,
    pub(super) epoch: AcousticEpoch,
    /// When the present state was entered.
    pub(super) since: Time,
    /// When the caller was last known to make a sound that may be speech.
    pub(super) last_sound: Time,
    /// Whether what the listener takes for speech was taken for none here, because it went on for too long.
    disbelieved: bool,
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
    /// A turn began and ended, and only its end was told.
    TurnPassed,
}

impl AcousticClock {
    pub(super) fn new(now: Time) -> Self {
        Self { state: Acoustic::Quiet, epoch: AcousticEpoch(0), since: now, last_sound: now, disbelieved: false }
    }

    /// Takes an edge. Edges may have been coalesced on their way: what matters is where they lead.
    pub(super) fn edge(&mut self, edge: AcousticEdge) -> Movement {
        if edge.epoch <= self.epoch {
            return Movement::None;
        }
        let (from, steps) = (self.state, edge.epoch.0 - self.epoch.0);
        self.epoch = edge.epoch;
        if std::mem::take(&mut self.disbelieved) && matches!(edge.to, Acoustic::Trailing | Acoustic::Quiet) {
            self.disbelieved = edge.to == Acoustic::Trailing;
            return Movement::None; // The end of what was no speech.
        }
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
            // Suspicion came and went; in more steps there is room for a whole turn, and none is lost.
            (Acoustic::Suspected, Acoustic::Quiet) if steps < 3 => Movement::Retracted,
            (Acoustic::Quiet, Acoustic::Quiet) if steps < 4 => Movement::Retracted,
            (Acoustic::Quiet | Acoustic::Suspected, Acoustic::Quiet) => Movement::TurnPassed,
            (Acoustic::Quiet | Acoustic::Suspected, Acoustic::Speaking) => Movement::TurnBegan,
            (Acoustic::Trailing, Acoustic::Speaking) => Movement::WentOn,
            (Acoustic::Speaking, Acoustic::Trailing) => Movement::Paused,
            // A turn whose beginning was coalesced away is still a turn.
            (Acoustic::Quiet | Acoustic::Suspected, Acoustic::Trailing) => Movement::TurnBegan,
            (Acoustic::Speaking | Acoustic::Trailing, Acoustic::Quiet) => Movement::TurnEnded,
            (Acoustic::Speaking | Acoustic::Trailing, Acoustic::Suspected) => Movement::TurnEnded,
            (Acoustic::Suspected, Acoustic::Suspected)
            | (Acoustic::Speaking, Acoustic::Speaking)
            | (Acoustic::Trailing, Acoustic::Trailing) => Movement::None,
        }
    }

    /// When the present state has lasted for too long: nothing may wait for the caller for ever.
    pub(super) fn overdue_at(&self, timers: &Timers) -> Option<Time> {
        let timer = match self.state {
            Acoustic::Quiet => return None,
            Acoustic::Suspected => Timer::SuspectedMax,
            Acoustic::Speaking => Timer::SpeakingMax,
            Acoustic::Trailing => Timer::TrailingMax,
        };
        Some(self.since.plus(timers.ms(timer)))
    }

    /// The present state has lasted for too long: it is taken for quiet.
    pub(super) fn overdue(&mut self, now: Time) -> Movement {
        let from = std::mem::replace(&mut self.state, Acoustic::Quiet);
        self.since = now;
        self.disbelieved = matches!(from, Acoustic::Speaking | Acoustic::Trailing);
        if self.disbelieved { Movement::TurnEnded } else { Movement::Retracted }
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

    #[test]
    fn a_turn_of_which_only_the_end_was_told_is_still_a_turn_and_a_suspicion_is_none() {
        let mut clock = AcousticClock::new(Time(0));
        assert_eq!(clock.edge(edge(Acoustic::Quiet, 2)), Movement::Retracted, "suspected, retracted");
        assert_eq!(clock.edge(edge(Acoustic::Quiet, 6)), Movement::TurnPassed, "suspected, speaking, trailing, quiet");
        clock.edge(edge(Acoustic::Suspected, 7));
        assert_eq!(clock.edge(edge(Acoustic::Quiet, 8)), Movement::Retracted);
        clock.edge(edge(Acoustic::Suspected, 9));
        assert_eq!(clock.edge(edge(Acoustic::Quiet, 12)), Movement::TurnPassed);
    }

    #[test]
    fn what_never_ends_is_taken_for_quiet_and_its_own_end_begins_no_turn() {
        let timers = Timers::default();
        let mut clock = AcousticClock::new(Time(0));
        clock.edge(edge(Acoustic::Suspected, 1));
        clock.edge(edge(Acoustic::Speaking, 2));
        assert_eq!(clock.overdue_at(&timers), Some(Time(200 + Timer::SpeakingMax.default_ms())));
        assert_eq!(clock.overdue(Time(60_200)), Movement::TurnEnded);
        assert_eq!(clock.edge(edge(Acoustic::Trailing, 3)), Movement::None);
        assert_eq!(clock.edge(edge(Acoustic::Quiet, 4)), Movement::None);
        assert_eq!(clock.edge(edge(Acoustic::Suspected, 5)), Movement::Suspected);
        assert_eq!(clock.edge(edge(Acoustic::Speaking, 6)), Movement::TurnBegan);
        clock.edge(edge(Acoustic::Trailing, 7));
        assert_eq!(clock.overdue(Time(70_000)), Movement::TurnEnded);
        assert_eq!(clock.edge(edge(Acoustic::Speaking, 8)), Movement::TurnBegan, "somebody speaks after all");
    }
}
