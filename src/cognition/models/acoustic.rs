//! The caller's acoustic clock, as far as the conversation believes it.

use recado_core::conversation::input::Acoustic;

/// The clock, moved by the listener's edges and by what the conversation makes of them.
///
/// A conversation takes the turn for over where a sound, or a pause, goes on for too long: then it is a horn, or music, and nobody's words. The
/// listener goes on hearing it. Until speech begins anew, it is quiet here: nobody asks for an answer to the rest of it.
#[derive(Debug, Default)]
pub(super) struct AcousticClock {
    state: Acoustic,
    disbelieved: bool,
}

impl AcousticClock {
    /// What the caller is doing.
    pub fn state(&self) -> Acoustic {
        self.state
    }

    /// The listener's clock has moved. What the caller was doing before; none where this is of what was no speech.
    pub fn edge(&mut self, to: Acoustic) -> Option<Acoustic> {
        if std::mem::take(&mut self.disbelieved) && matches!(to, Acoustic::Trailing | Acoustic::Quiet) {
            self.disbelieved = to == Acoustic::Trailing;
            return None;
        }
        Some(std::mem::replace(&mut self.state, to))
    }

    /// The conversation takes the turn for over.
    pub fn turn_ended(&mut self) {
        if matches!(self.state, Acoustic::Speaking | Acoustic::Trailing) {
            *self = Self { state: Acoustic::Quiet, disbelieved: true };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Acoustic::{Quiet, Speaking, Suspected, Trailing};

    #[test]
    fn what_goes_on_after_the_turn_was_over_is_quiet_until_speech_begins_anew() {
        let mut clock = AcousticClock::default();
        let edges = |clock: &mut AcousticClock, to: &[Acoustic]| to.iter().map(|to| clock.edge(*to)).collect::<Vec<_>>();
        assert_eq!(edges(&mut clock, &[Suspected, Speaking]), [Some(Quiet), Some(Suspected)]);
        clock.turn_ended();
        assert_eq!(clock.state(), Quiet);
        assert_eq!(edges(&mut clock, &[Trailing, Quiet, Suspected, Speaking]), [None, None, Some(Quiet), Some(Suspected)]);
        clock.turn_ended();
        assert_eq!(edges(&mut clock, &[Trailing, Speaking, Trailing]), [None, Some(Quiet), Some(Speaking)], "somebody speaks after all");
        clock.turn_ended();
        assert_eq!(edges(&mut clock, &[Quiet, Trailing]), [None, Some(Quiet)]);
    }

    #[test]
    fn a_turn_that_is_over_with_its_end_leaves_the_clock_as_it_is() {
        for to in [Quiet, Suspected] {
            let mut clock = AcousticClock::default();
            clock.edge(to);
            clock.turn_ended();
            assert_eq!((clock.state(), clock.edge(Trailing)), (to, Some(to)));
        }
    }
}
