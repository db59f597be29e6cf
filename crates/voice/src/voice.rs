//! What a conversation wants said, in order, until the media path has it.

use std::collections::VecDeque;

use recado_core::conversation::{AcousticEpoch, PlaybackEvent, SegmentRef};
use recado_core::ids::PlaybackId;

use crate::audio::Rendered;
use crate::command::{Command, PlaybackCommand};

/// Keeps segments in order while they are rendered, and hands them on when their turn has come. It decides nothing else.
///
/// After each input take [`told`](Self::told) until it is empty, and carry out what [`command`](Self::command) yields. A
/// command that finds no room on the way is [held back](Self::hold_back) and yielded again.
#[derive(Debug)]
pub struct Voice<A, R> {
    /// What was asked for and waits for its audio, or for that of what comes before it.
    queue: VecDeque<Pending<A>>,
    commands: VecDeque<Command<A, R>>,
    told: VecDeque<PlaybackEvent>,
}

#[derive(Debug)]
struct Pending<A> {
    segment: SegmentRef,
    epoch: AcousticEpoch,
    audio: Option<A>,
}

impl<A, R> Default for Voice<A, R> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), commands: VecDeque::new(), told: VecDeque::new() }
    }
}

impl<A, R> Voice<A, R> {
    /// Says a segment after those already asked for, unless the acoustic clock has left `epoch` when it could begin. `true` if
    /// its audio is wanted now; otherwise too many wait, and it is told as failed.
    pub fn speak(&mut self, segment: SegmentRef, epoch: AcousticEpoch) -> bool {
        if self.queue.len() + self.commands.len() >= QUEUE_MAX {
            let reason = format!("{QUEUE_MAX} segments wait to be said already");
            self.told.push_back(PlaybackEvent::Failed { segment, reason });
            return false;
        }
        self.queue.push_back(Pending { segment, epoch, audio: None });
        true
    }

    /// A segment's audio is there, or can't be made: what waits behind it does not wait for it any more.
    pub fn rendered(&mut self, segment: SegmentRef, rendered: Result<Rendered<A>, String>) {
        let Some(at) = self.queue.iter().position(|pending| pending.segment == segment && pending.audio.is_none()) else {
            return; // It was cleared meanwhile.
        };
        match rendered {
            Ok(Rendered { audio, duration_ms, words, near_silent }) => {
                if let Some(pending) = self.queue.get_mut(at) {
                    pending.audio = Some(audio);
                }
                self.told.push_back(PlaybackEvent::Ready { segment, duration_ms, words, near_silent });
            }
            Err(reason) => {
                self.queue.remove(at);
                self.told.push_back(PlaybackEvent::Failed { segment, reason });
            }
        }
        self.release();
    }

    /// Whether the audio of this segment is still wanted.
    pub fn awaits(&self, segment: SegmentRef) -> bool {
        self.queue.iter().any(|pending| pending.segment == segment && pending.audio.is_none())
    }

    /// Goes on with a paused playback, unless the acoustic clock has left `epoch`.
    pub fn resume(&mut self, playback: PlaybackId, epoch: AcousticEpoch) {
        self.commands.push_back(Command::Playback(PlaybackCommand::Resume { playback, epoch }));
    }

    /// Stops: what of this playback has not left the box is discarded.
    pub fn clear(&mut self, playback: PlaybackId) {
        self.queue.retain(|pending| pending.segment.playback != playback);
        let its = |command: &Command<A, R>| matches!(command, Command::Playback(PlaybackCommand::Speak { segment, .. }) if segment.playback == playback);
        self.commands.retain(|command| !its(command));
        self.commands.push_back(Command::Playback(PlaybackCommand::Clear { playback }));
        self.release();
    }

    /// Changes where and how the media goes, as a re-INVITE agreed.
    pub fn renegotiated(&mut self, remote: R) {
        self.commands.push_back(Command::Remote(remote));
    }

    /// The call is over: nothing more is sent.
    pub fn close(&mut self) {
        self.queue.clear();
        self.commands.push_back(Command::Close);
    }

    /// The next thing to be told: that a segment's audio exists, or could not be made. What becomes of it the mouth tells.
    pub fn told(&mut self) -> Option<PlaybackEvent> {
        self.told.pop_front()
    }

    /// The next command for the media path.
    pub fn command(&mut self) -> Option<Command<A, R>> {
        self.commands.pop_front()
    }

    /// A command found no room: it keeps its place.
    pub fn hold_back(&mut self, command: Command<A, R>) {
        self.commands.push_front(command);
    }

    /// Whether a command waits.
    pub fn holds_back(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Whether nothing waits: neither for audio nor for room.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.commands.is_empty() && self.told.is_empty()
    }

    /// Hands on what is rendered, in order.
    fn release(&mut self) {
        while self.queue.front().is_some_and(|pending| pending.audio.is_some()) {
            let Some(Pending { segment, epoch, audio: Some(audio) }) = self.queue.pop_front() else { return };
            self.commands.push_back(Command::Playback(PlaybackCommand::Speak { segment, audio, last: true, epoch }));
        }
    }
}

/// Segments that may wait: more than a minute of speech.
const QUEUE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    type Plain = Voice<u32, &'static str>;

    const EPOCH: AcousticEpoch = AcousticEpoch(3);

    fn segment(playback: u128, index: u32) -> SegmentRef {
        SegmentRef { playback: PlaybackId(playback), index }
    }

    fn rendered(audio: u32) -> Result<Rendered<u32>, String> {
        Ok(Rendered { audio, duration_ms: 20, words: Vec::new(), near_silent: false })
    }

    fn speak(segment: SegmentRef, audio: u32) -> Command<u32, &'static str> {
        Command::Playback(PlaybackCommand::Speak { segment, audio, last: true, epoch: EPOCH })
    }

    fn commands(voice: &mut Plain) -> Vec<Command<u32, &'static str>> {
        std::iter::from_fn(|| voice.command()).collect()
    }

    #[test]
    fn what_is_rendered_first_waits_for_what_was_asked_for_first() {
        let mut voice = Plain::default();
        assert!((0..3).all(|index| voice.speak(segment(1, index), EPOCH)));
        voice.rendered(segment(1, 2), rendered(2));
        voice.rendered(segment(1, 0), rendered(0));
        assert_eq!(commands(&mut voice), [speak(segment(1, 0), 0)]);
        voice.rendered(segment(1, 1), Err("no voice".into()));
        assert_eq!(commands(&mut voice), [speak(segment(1, 2), 2)], "what failed holds nobody up");
        let told: Vec<_> = std::iter::from_fn(|| voice.told()).collect();
        assert!(matches!(&told[..], [PlaybackEvent::Ready { .. }, PlaybackEvent::Ready { .. }, PlaybackEvent::Failed { .. }]), "{told:?}");
        assert!(voice.is_idle());
    }

    #[test]
    fn a_clear_takes_its_segments_from_the_queue_and_from_what_is_held_back_and_lets_the_others_go() {
        let mut voice = Plain::default();
        for (playback, index) in [(1, 0), (1, 1), (2, 0)] {
            voice.speak(segment(playback, index), EPOCH);
        }
        voice.rendered(segment(1, 0), rendered(0));
        let first = voice.command().unwrap();
        voice.hold_back(first);
        voice.rendered(segment(2, 0), rendered(2));
        voice.clear(PlaybackId(1));
        assert!(!voice.awaits(segment(1, 1)));
        assert_eq!(commands(&mut voice), [Command::Playback(PlaybackCommand::Clear { playback: PlaybackId(1) }), speak(segment(2, 0), 2)]);
        while voice.told().is_some() {}
        voice.rendered(segment(1, 1), rendered(1));
        assert!(voice.is_idle(), "audio that comes after the clear is nobody's");
    }

    #[test]
    fn commands_that_found_no_room_keep_their_order() {
        let mut voice = Plain::default();
        voice.renegotiated("held");
        voice.resume(PlaybackId(1), EPOCH);
        let first = voice.command().unwrap();
        voice.hold_back(first);
        voice.close();
        let resume = Command::Playback(PlaybackCommand::Resume { playback: PlaybackId(1), epoch: EPOCH });
        assert_eq!(commands(&mut voice), [Command::Remote("held"), resume, Command::Close]);
    }

    #[test]
    fn more_than_a_minute_of_speech_is_refused_in_words() {
        let mut voice = Plain::default();
        assert!((0..QUEUE_MAX as u32).all(|index| voice.speak(segment(1, index), EPOCH)));
        assert!(!voice.speak(segment(1, 64), EPOCH));
        assert!(matches!(voice.told(), Some(PlaybackEvent::Failed { segment: refused, .. }) if refused == segment(1, 64)));
        for index in 0..QUEUE_MAX as u32 {
            voice.rendered(segment(1, index), rendered(index));
        }
        assert!(!voice.speak(segment(1, 65), EPOCH), "a way that is full makes no room");
    }
}
