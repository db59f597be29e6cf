//! The caller's audio on its way to the service.
//!
//! Where the box detects turns, the service is sent speech alone, from a moment before it is suspected: what it is sent, it charges for.
//! What has not become an item yet is kept, so that a new connection hears it too.

use std::collections::VecDeque;

use recado_core::conversation::input::Acoustic;

use super::acoustic::AcousticClock;

/// What the caller says, and how much of it a connection has.
#[derive(Debug)]
pub(super) struct Caller {
    bytes_per_ms: usize,
    /// Whether the service detects turns: it is then sent all that is heard.
    service_detects: bool,
    acoustic: AcousticClock,
    /// The last moment before speech.
    before: VecDeque<u8>,
    /// Audio of which no item has been made.
    uncommitted: VecDeque<u8>,
    /// How much of it this connection has.
    sent: usize,
    /// Whether it holds speech that was confirmed.
    spoke: bool,
    /// Whether the service hears speech of which it has made no item yet.
    service_hears: bool,
}

impl Caller {
    /// Nobody has spoken yet. The audio comes in a format of so many bytes a millisecond; `service_detects` says who detects turns.
    pub fn new(bytes_per_ms: usize, service_detects: bool) -> Self {
        Self {
            bytes_per_ms,
            service_detects,
            acoustic: AcousticClock::default(),
            before: VecDeque::new(),
            uncommitted: VecDeque::new(),
            sent: 0,
            spoke: false,
            service_hears: false,
        }
    }

    /// More of what is heard.
    pub fn hear(&mut self, bytes: &[u8]) {
        if !self.service_detects && self.acoustic.state() == Acoustic::Quiet {
            self.before.extend(bytes);
            let excess = self.before.len().saturating_sub(self.bytes(BEFORE_MS));
            self.before.drain(..excess);
        } else {
            self.uncommitted.extend(bytes);
            // Of what the service detects itself, only speech is kept once it is sent.
            if self.service_detects && !self.service_hears {
                let excess = self.uncommitted.len().saturating_sub(self.bytes(BEFORE_MS));
                self.forget(excess.min(self.sent));
            }
            // And nobody is waited for for ever.
            self.forget(self.uncommitted.len().saturating_sub(self.bytes(UNCOMMITTED_MS_MAX)));
        }
    }

    /// The acoustic clock moved. Says whether what was sent was no speech, and is to be forgotten by the service.
    pub fn edge(&mut self, to: Acoustic) -> bool {
        let Some(from) = self.acoustic.edge(to) else { return false };
        let retracted = from == Acoustic::Suspected && to == Acoustic::Quiet && !self.spoke;
        if self.service_detects {
            return false;
        }
        match to {
            Acoustic::Suspected | Acoustic::Trailing | Acoustic::Speaking => {
                self.spoke |= to == Acoustic::Speaking;
                self.uncommitted.append(&mut self.before);
                false
            }
            Acoustic::Quiet if retracted => self.forget_turn(),
            Acoustic::Quiet => false,
        }
    }

    /// The conversation takes the turn for over: what is heard of the same sound from now on is none of it, nor of the next.
    pub fn turn_ended(&mut self) {
        self.acoustic.turn_ended();
    }

    /// The next piece that this connection is to have.
    pub fn next_piece(&mut self) -> Option<Vec<u8>> {
        let piece: Vec<u8> = self.uncommitted.iter().skip(self.sent).take(self.bytes(PIECE_MS_MAX)).copied().collect();
        self.sent += piece.len();
        (!piece.is_empty()).then_some(piece)
    }

    /// Whether there is enough for an item.
    pub fn can_commit(&self) -> bool {
        self.sent >= self.bytes(COMMIT_MS_LEAST)
    }

    /// Whether somebody has spoken of whom no item has been made.
    pub fn has_spoken(&self) -> bool {
        self.spoke
    }

    /// Takes the audio of which no item has been made, to be sent when its turn comes.
    pub fn take(&mut self) -> Vec<u8> {
        let taken = self.uncommitted.drain(..).collect();
        self.committed();
        taken
    }

    /// What was taken is part of what the caller goes on to say.
    pub fn give_back(&mut self, taken: Vec<u8>) {
        self.spoke |= !taken.is_empty();
        let since = std::mem::replace(&mut self.uncommitted, taken.into());
        self.uncommitted.extend(since);
        self.sent = 0;
        self.forget(self.uncommitted.len().saturating_sub(self.bytes(UNCOMMITTED_MS_MAX)));
    }

    /// An item has been made of it.
    pub fn committed(&mut self) {
        self.uncommitted.clear();
        self.sent = 0;
        self.spoke = false;
    }

    /// What was said is answered by somebody else. Says whether the service has any of it that it is to forget.
    pub fn forget_turn(&mut self) -> bool {
        let sent = self.sent > 0;
        self.turn_ended();
        self.committed();
        sent
    }

    /// The service says where speech begins, or that it has made an item of it.
    pub fn service_hears(&mut self, hears: bool) {
        if self.service_hears && !hears {
            self.committed();
        }
        self.service_hears = hears && self.service_detects;
    }

    /// Whether the service is about to make an item of what it hears.
    pub fn awaits_service(&self) -> bool {
        self.service_hears
    }

    /// Whether the service detects turns.
    pub fn service_detects(&self) -> bool {
        self.service_detects
    }

    /// Whether nothing would be lost by another connection.
    pub fn is_idle(&self) -> bool {
        self.acoustic.state() == Acoustic::Quiet && !self.service_hears && !self.spoke
    }

    /// What the connection had is gone with it.
    pub fn begin_connection(&mut self) {
        self.sent = 0;
        self.service_hears = false;
    }

    fn forget(&mut self, bytes: usize) {
        self.uncommitted.drain(..bytes);
        self.sent = self.sent.saturating_sub(bytes);
    }

    fn bytes(&self, ms: usize) -> usize {
        ms * self.bytes_per_ms
    }
}

/// Speech begins a little before it can be told from noise.
const BEFORE_MS: usize = 500;
/// A minute that nobody answered: what is older is not what is asked.
const UNCOMMITTED_MS_MAX: usize = 60_000;
/// A second at a time: no event is large.
const PIECE_MS_MAX: usize = 1_000;
/// Services refuse to make an item of less.
const COMMIT_MS_LEAST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(service_detects: bool) -> Caller {
        Caller::new(8, service_detects)
    }

    fn frame(n: u8) -> [u8; 160] {
        [n; 160]
    }

    fn sent(caller: &mut Caller) -> Vec<u8> {
        std::iter::from_fn(|| caller.next_piece()).flatten().collect()
    }

    #[test]
    fn silence_is_not_sent_and_speech_is_from_half_a_second_before_it() {
        let mut caller = caller(false);
        (0..100).for_each(|n| caller.hear(&frame(n)));
        assert!(sent(&mut caller).is_empty());
        caller.edge(Acoustic::Suspected);
        caller.hear(&frame(100));
        let first = sent(&mut caller);
        assert_eq!((first.len(), first[0], first[4_000]), (26 * 160, 75, 100));
        caller.hear(&frame(101));
        assert_eq!(sent(&mut caller), frame(101), "each byte is sent once");
    }

    #[test]
    fn what_was_no_speech_is_forgotten_and_what_was_said_before_it_is_not() {
        let mut caller = caller(false);
        caller.edge(Acoustic::Suspected);
        assert!(!caller.edge(Acoustic::Quiet), "nothing had been sent");
        caller.edge(Acoustic::Suspected);
        caller.hear(&frame(1));
        sent(&mut caller);
        assert!(caller.edge(Acoustic::Quiet));
        assert!(!caller.can_commit());
        for to in [Acoustic::Suspected, Acoustic::Speaking] {
            caller.edge(to);
            (0..5).for_each(|n| caller.hear(&frame(n)));
        }
        sent(&mut caller);
        for to in [Acoustic::Trailing, Acoustic::Quiet, Acoustic::Suspected] {
            assert!(!caller.edge(to));
        }
        assert!(!caller.edge(Acoustic::Quiet), "what was said before is not answered yet");
        assert!(caller.can_commit());
    }

    #[test]
    fn what_goes_on_when_the_turn_was_taken_for_over_is_no_part_of_the_next_one() {
        let heard = |caller: &mut Caller, n: u8| {
            (0..50).for_each(|_| caller.hear(&frame(n)));
            sent(caller)
        };
        for ended in [Caller::turn_ended, |caller: &mut Caller| assert!(caller.forget_turn(), "the service has it")] {
            let mut caller = caller(false);
            caller.edge(Acoustic::Suspected);
            caller.edge(Acoustic::Speaking);
            assert_eq!(heard(&mut caller, 1).len(), 50 * 160);
            ended(&mut caller);
            caller.committed();
            for to in [Acoustic::Trailing, Acoustic::Quiet] {
                assert!(heard(&mut caller, 1).is_empty() && !caller.edge(to) && !caller.has_spoken() && caller.is_idle());
            }
            heard(&mut caller, 0);
            caller.edge(Acoustic::Suspected);
            caller.edge(Acoustic::Speaking);
            let next = heard(&mut caller, 2);
            assert_eq!((next.len(), next.contains(&1), caller.has_spoken()), (75 * 160, false, true));
        }
    }

    #[test]
    fn another_connection_hears_what_no_item_was_made_of() {
        let mut caller = caller(false);
        caller.edge(Acoustic::Speaking);
        (0..10).for_each(|n| caller.hear(&frame(n)));
        let first = sent(&mut caller);
        caller.begin_connection();
        assert!(!caller.can_commit());
        assert_eq!(sent(&mut caller), first);
        caller.committed();
        caller.begin_connection();
        assert!(sent(&mut caller).is_empty());
    }

    #[test]
    fn what_was_taken_and_is_given_back_comes_before_what_was_said_since_and_is_bounded_too() {
        let mut caller = caller(false);
        caller.edge(Acoustic::Speaking);
        caller.hear(&frame(1));
        let taken = caller.take();
        assert!(!caller.has_spoken() && sent(&mut caller).is_empty());
        caller.hear(&frame(2));
        caller.give_back(taken);
        assert!(caller.has_spoken());
        assert_eq!(sent(&mut caller), [frame(1), frame(2)].concat());
        let long = [caller.take(), vec![3; 61_000 * 8]].concat();
        caller.give_back(long);
        assert_eq!(caller.uncommitted.len(), 60_000 * 8);
    }

    #[test]
    fn what_is_kept_is_bounded_with_and_without_a_connection() {
        for mut caller in [caller(false), caller(true)] {
            caller.service_hears(true);
            caller.edge(Acoustic::Speaking);
            (0..4_000u32).for_each(|n| caller.hear(&frame(n as u8)));
            assert_eq!(sent(&mut caller).len(), 60_000 * 8);
            (0..4_000u32).for_each(|n| caller.hear(&frame(n as u8)));
            assert_eq!(caller.uncommitted.len(), 60_000 * 8);
        }
    }

    #[test]
    fn what_is_heard_without_a_connection_is_heard_on_the_next_one_and_bounded_too() {
        let mut caller = caller(true);
        (0..200).for_each(|n| caller.hear(&frame(n)));
        assert_eq!(sent(&mut caller).len(), 200 * 160);
        caller.begin_connection();
        (0..4_000u32).for_each(|n| caller.hear(&frame(n as u8)));
        assert_eq!(caller.uncommitted.len(), 60_000 * 8);
    }

    #[test]
    fn a_service_that_detects_turns_hears_everything_once_and_only_speech_is_kept_for_another_connection() {
        let mut caller = caller(true);
        let mut all = Vec::new();
        for n in 0..200 {
            caller.hear(&frame(n));
            all.extend(sent(&mut caller));
        }
        assert_eq!(all.len(), 200 * 160);
        caller.begin_connection();
        assert_eq!(sent(&mut caller).len(), 500 * 8);
        caller.service_hears(true);
        (0..100).for_each(|n| caller.hear(&frame(n)));
        sent(&mut caller);
        caller.begin_connection();
        assert_eq!(sent(&mut caller).len(), 2_500 * 8);
        caller.service_hears(true);
        caller.service_hears(false);
        assert!(sent(&mut caller).is_empty());
    }
}
