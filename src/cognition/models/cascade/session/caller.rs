//! What the caller says, collected until it is written down.

use std::collections::VecDeque;
use std::sync::Arc;

use recado_core::conversation::input::Acoustic;

use crate::cognition::models::acoustic::AcousticClock;

/// The caller's speech of which nobody has made words yet, from a moment before it was suspected.
#[derive(Debug, Default)]
pub(super) struct Caller {
    acoustic: AcousticClock,
    /// The last moment before speech.
    before: VecDeque<i16>,
    speech: Vec<i16>,
    /// Where the next turn begins in it, when it has begun before the last one was asked for.
    next: Option<usize>,
    /// Whether what it holds was confirmed to be speech.
    spoke: bool,
    /// Whether that has ended, and nobody has asked for it yet.
    ended: bool,
}

/// What an edge means for what was begun ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// Nothing.
    Nothing,
    /// The caller has paused: the turn may be over.
    Paused,
    /// The caller goes on.
    WentOn,
}

impl Caller {
    pub fn hear(&mut self, samples: &[i16]) {
        if self.acoustic.state() == Acoustic::Quiet {
            self.before.extend(samples);
            let excess = self.before.len().saturating_sub(samples_of(BEFORE_MS));
            self.before.drain(..excess);
        } else {
            self.speech.extend(samples);
            let excess = self.speech.len().saturating_sub(samples_of(SPEECH_MS_MAX));
            self.forget(excess);
        }
    }

    pub fn edge(&mut self, to: Acoustic) -> Moved {
        let Some(from) = self.acoustic.edge(to) else { return Moved::Nothing };
        match (from, to) {
            (Acoustic::Suspected, Acoustic::Quiet) => {
                // What was suspected was none; what was said before it stays.
                let end = self.next.take().unwrap_or(if self.spoke { self.speech.len() } else { 0 });
                self.speech.truncate(end);
                Moved::Nothing
            }
            (_, Acoustic::Quiet) => {
                self.ended = self.spoke;
                Moved::Nothing
            }
            (_, Acoustic::Suspected) => {
                let overlap = if from == Acoustic::Quiet { 0 } else { samples_of(BEFORE_MS) };
                if self.spoke {
                    self.next = Some(self.speech.len().saturating_sub(overlap));
                }
                self.speech.extend(self.before.drain(..));
                Moved::Nothing
            }
            (_, Acoustic::Speaking | Acoustic::Trailing) => {
                let begins = self.next.take().unwrap_or(self.speech.len());
                self.speech.extend(self.before.drain(..));
                // What has ended was asked for before this, or is not asked for; what has not, the caller goes on with.
                if std::mem::take(&mut self.ended) {
                    self.forget(begins);
                }
                self.spoke = true;
                if to == Acoustic::Trailing { Moved::Paused } else { Moved::WentOn }
            }
        }
    }

    /// What was said so far, without taking it; none where it is too short to hold a word.
    pub fn so_far(&self) -> Option<Arc<[i16]>> {
        (self.speech.len() >= samples_of(WORD_MS_LEAST)).then(|| self.speech.as_slice().into())
    }

    /// What was said in the turn that is over; none where it is too short to hold a word. What is heard of the same sound from now on is none
    /// of it, nor of the next.
    pub fn take(&mut self) -> Option<Arc<[i16]>> {
        // What is only suspected is not of it.
        let suspected = self.acoustic.state() == Acoustic::Suspected && !self.spoke;
        let end = self.next.take().unwrap_or(if suspected { 0 } else { self.speech.len() });
        let said: Vec<i16> = self.speech.drain(..end).collect();
        (self.spoke, self.ended) = (false, false);
        self.acoustic.turn_ended();
        (said.len() >= samples_of(WORD_MS_LEAST)).then(|| said.into())
    }

    fn forget(&mut self, samples: usize) {
        self.speech.drain(..samples);
        self.next = self.next.map(|next| next.saturating_sub(samples));
    }
}

fn samples_of(ms: usize) -> usize {
    ms * 8
}

/// Speech begins a little before it can be told from noise.
const BEFORE_MS: usize = 500;
/// A minute that nobody answered: what is older is not what is asked.
const SPEECH_MS_MAX: usize = 60_000;
/// No word is shorter.
const WORD_MS_LEAST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(caller: &mut Caller, sample: i16, ms: usize) {
        caller.hear(&vec![sample; samples_of(ms)]);
    }

    #[test]
    fn speech_is_kept_from_half_a_second_before_it_and_silence_is_not() {
        let mut caller = Caller::default();
        hear(&mut caller, 1, 3_000);
        assert_eq!(caller.so_far(), None);
        assert_eq!(caller.edge(Acoustic::Suspected), Moved::Nothing);
        hear(&mut caller, 2, 200);
        assert_eq!(caller.edge(Acoustic::Speaking), Moved::WentOn);
        hear(&mut caller, 3, 300);
        assert_eq!(caller.edge(Acoustic::Trailing), Moved::Paused);
        assert_eq!(caller.so_far().unwrap().len(), samples_of(1_000));
        hear(&mut caller, 0, 500);
        assert_eq!(caller.edge(Acoustic::Quiet), Moved::Nothing);
        let said = caller.take().unwrap();
        assert_eq!((said.len(), said[0], said[samples_of(500)], said[samples_of(999)]), (samples_of(1_500), 1, 2, 3));
        assert_eq!(caller.take(), None);
    }

    #[test]
    fn what_was_no_speech_is_forgotten_and_what_was_said_before_it_is_not() {
        let mut caller = Caller::default();
        caller.edge(Acoustic::Suspected);
        hear(&mut caller, 1, 200);
        caller.edge(Acoustic::Quiet);
        assert_eq!(caller.so_far(), None);
        for to in [Acoustic::Suspected, Acoustic::Speaking] {
            caller.edge(to);
            hear(&mut caller, 2, 200);
        }
        for to in [Acoustic::Trailing, Acoustic::Quiet, Acoustic::Suspected] {
            caller.edge(to);
            hear(&mut caller, 0, 100);
        }
        caller.edge(Acoustic::Quiet);
        assert_eq!(caller.take().unwrap().len(), samples_of(500), "and not what was suspected after it");
    }

    #[test]
    fn who_goes_on_after_a_pause_has_said_one_turn_and_all_of_it() {
        let mut caller = Caller::default();
        for (to, sample, ms) in [(Acoustic::Suspected, 1, 100), (Acoustic::Speaking, 1, 900), (Acoustic::Trailing, 0, 300)] {
            caller.edge(to);
            hear(&mut caller, sample, ms);
        }
        // Nobody has asked for it when it is known to be speech.
        for (to, sample, ms) in [(Acoustic::Suspected, 2, 100), (Acoustic::Speaking, 2, 500), (Acoustic::Trailing, 0, 300)] {
            caller.edge(to);
            hear(&mut caller, sample, ms);
        }
        let said = caller.take().unwrap();
        assert_eq!((count(&said, 1), count(&said, 2)), (samples_of(1_000), samples_of(600)));
        assert_eq!(caller.take(), None, "and nothing is left for the next turn");
    }

    #[test]
    fn what_nobody_has_asked_for_is_no_part_of_the_next_turn() {
        // A sound that never ends: the turn is taken for over in the middle of it, and its end is nobody's.
        for over_in in [&[Acoustic::Suspected, Acoustic::Speaking][..], &[Acoustic::Suspected, Acoustic::Speaking, Acoustic::Trailing]] {
            let mut caller = Caller::default();
            for to in over_in {
                caller.edge(*to);
                hear(&mut caller, 1, 500);
            }
            assert_eq!(count(&caller.take().unwrap(), 1), samples_of(500 * over_in.len()));
            hear(&mut caller, 1, 2_000);
            for to in [Acoustic::Trailing, Acoustic::Quiet] {
                assert_eq!(caller.edge(to), Moved::Nothing, "nothing is begun for it");
                hear(&mut caller, 0, 300);
            }
            next_turn_is_its_own(&mut caller);
            // It goes on, and somebody speaks in it.
            caller.edge(Acoustic::Speaking);
            caller.take();
            hear(&mut caller, 1, 2_000);
            caller.edge(Acoustic::Trailing);
            hear(&mut caller, 0, 500);
            next_turn_is_its_own(&mut caller);
        }
        // One that ended, and that nobody asked about.
        let mut caller = Caller::default();
        for (to, sample, ms) in [(Acoustic::Speaking, 1, 900), (Acoustic::Trailing, 0, 700), (Acoustic::Quiet, 0, 600)] {
            caller.edge(to);
            hear(&mut caller, sample, ms);
        }
        next_turn_is_its_own(&mut caller);
    }

    #[test]
    fn what_is_suspected_when_somebody_else_has_answered_is_the_beginning_of_the_next_turn() {
        let mut caller = Caller::default();
        caller.edge(Acoustic::Suspected);
        hear(&mut caller, 2, 200);
        assert_eq!(caller.take(), None);
        caller.edge(Acoustic::Speaking);
        hear(&mut caller, 2, 400);
        assert_eq!(count(&caller.take().unwrap(), 2), samples_of(600));
    }

    fn next_turn_is_its_own(caller: &mut Caller) {
        for (to, ms) in [(Acoustic::Speaking, 600), (Acoustic::Trailing, 0), (Acoustic::Quiet, 0)] {
            caller.edge(to);
            hear(caller, 2, ms);
        }
        let said = caller.take().unwrap();
        assert_eq!((count(&said, 1), count(&said, 2)), (0, samples_of(600)));
    }

    fn count(said: &[i16], what: i16) -> usize {
        said.iter().filter(|sample| **sample == what).count()
    }

    #[test]
    fn a_turn_that_begins_before_the_last_one_was_asked_for_is_another_one() {
        let mut caller = Caller::default();
        for (to, sample, ms) in
            [(Acoustic::Suspected, 1, 100), (Acoustic::Speaking, 1, 900), (Acoustic::Trailing, 0, 700), (Acoustic::Suspected, 2, 300)]
        {
            caller.edge(to);
            hear(&mut caller, sample, ms);
        }
        let first = caller.take().unwrap();
        assert!(first.len() >= samples_of(1_000) && !first.contains(&2));
        caller.edge(Acoustic::Speaking);
        hear(&mut caller, 2, 300);
        let second = caller.take().unwrap();
        assert_eq!(second.iter().filter(|sample| **sample == 2).count(), samples_of(600));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut caller = Caller::default();
        caller.edge(Acoustic::Speaking);
        (0..80).for_each(|_| hear(&mut caller, 1, 1_000));
        assert_eq!(caller.so_far().unwrap().len(), samples_of(60_000));
    }
}
