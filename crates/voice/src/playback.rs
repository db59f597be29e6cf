//! The queue of what is to be said: segments, in the order in which they were accepted.

use std::collections::VecDeque;
use std::ops::Range;

use recado_core::conversation::SegmentRef;
use recado_core::faults::{Fault, fault};
use recado_core::ids::PlaybackId;

use crate::audio::{Audio, FRAME_SAMPLES, SAMPLES_PER_MS};

/// Segments and their audio. Nothing is freed here: audio that is done with is handed back.
#[derive(Debug)]
pub(crate) struct Playback<A> {
    segments: VecDeque<Segment>,
    chunks: VecDeque<Chunk<A>>,
    /// Samples accepted and not released.
    waiting: usize,
    paused: bool,
    /// Frames of silence that are still to come before a segment may begin.
    breath: u64,
    /// The playback of which a frame was released last.
    begun: Option<PlaybackId>,
    spent: VecDeque<A>,
}

#[derive(Debug)]
struct Segment {
    reference: SegmentRef,
    /// Samples released.
    released: u64,
    /// Whether all of its audio has been appended.
    complete: bool,
    /// The packet that carried the frame released last.
    packet: Option<u64>,
}

#[derive(Debug)]
struct Chunk<A> {
    segment: SegmentRef,
    audio: A,
    /// Samples of it that were released.
    used: usize,
}

impl<A: Audio> Chunk<A> {
    fn left(&self) -> usize {
        self.audio.samples().saturating_sub(self.used)
    }
}

/// A frame taken from the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) segment: SegmentRef,
    /// It is the segment's first.
    pub(crate) first: bool,
    /// It is the segment's last.
    pub(crate) last: bool,
}

/// What an [`Playback::append`] led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    /// It waits behind the rest.
    Queued,
    /// The segment turns out to have ended with the frame in this packet.
    Ended(u64),
    /// No such segment is open: discarded.
    Unknown,
    /// The queue is full: discarded, and the segment can't be whole any more.
    Full,
}

impl<A: Audio> Playback<A> {
    pub(crate) fn new() -> Self {
        Self {
            segments: VecDeque::with_capacity(SEGMENTS_MAX),
            chunks: VecDeque::with_capacity(CHUNKS_MAX),
            waiting: 0,
            paused: false,
            breath: 0,
            begun: None,
            spent: VecDeque::with_capacity(SPENT_MAX),
        }
    }

    /// Accepts a segment behind the others; `false` if there is no room for it.
    pub(crate) fn speak(&mut self, reference: SegmentRef, audio: A, complete: bool) -> bool {
        if self.segments.len() >= SEGMENTS_MAX || !self.has_room(&audio) {
            self.discard(audio);
            return false;
        }
        self.segments.push_back(Segment { reference, released: 0, complete, packet: None });
        self.enqueue(reference, audio);
        true
    }

    /// More audio of an open segment.
    pub(crate) fn append(&mut self, reference: SegmentRef, audio: A, complete: bool) -> Appended {
        let room = self.has_room(&audio);
        let Some(index) = self.segments.iter().position(|s| s.reference == reference && !s.complete) else {
            self.discard(audio);
            return Appended::Unknown;
        };
        if !room {
            self.discard(audio);
            return Appended::Full;
        }
        self.enqueue(reference, audio);
        let drained = !self.chunks.iter().any(|chunk| chunk.segment == reference);
        let Some(segment) = self.segments.get_mut(index) else { return Appended::Unknown };
        segment.complete = complete;
        match segment.packet {
            Some(packet) if complete && drained => {
                self.segments.remove(index);
                self.breath = BREATH_FRAMES;
                // Paused was what has ended now: nothing would ever go on with it.
                self.paused &= self.head().is_some_and(|head| head.playback == reference.playback);
                Appended::Ended(packet)
            }
            _ => Appended::Queued,
        }
    }

    /// After how many frames of silence the next frame comes: none while paused, or starved in the middle of a segment that is still
    /// open.
    pub(crate) fn next_frame_in(&self) -> Option<u64> {
        let ready = |segment: &&Segment| segment.complete || self.available(segment.reference) >= FRAME_SAMPLES;
        self.segments.front().filter(ready).filter(|_| !self.paused).map(|_| self.breath())
    }

    /// Frames of silence that are still to come before the next frame: none before what goes on from what was said just before.
    fn breath(&self) -> u64 {
        let goes_on = self.segments.front().is_some_and(|head| {
            let first = self.chunks.iter().find(|chunk| chunk.segment == head.reference);
            first.is_some_and(|chunk| chunk.audio.continues())
        });
        if goes_on { 0 } else { self.breath }
    }

    /// So many frames of silence leave.
    pub(crate) fn breathe(&mut self, frames: u64) {
        self.breath = self.breath.saturating_sub(frames);
    }

    /// Takes the next frame, if there is one, to leave in `packet`; `sink` is given its audio, piece by piece.
    pub(crate) fn take(&mut self, packet: u64, mut sink: impl FnMut(&A, Range<usize>)) -> Option<Taken> {
        if self.paused || self.breath() > 0 {
            return None;
        }
        let reference = self.head()?;
        let available = self.available(reference);
        let segment = self.segments.front_mut()?;
        if available < FRAME_SAMPLES && !segment.complete {
            return None;
        }
        let wanted = available.min(FRAME_SAMPLES);
        let mut filled = 0;
        while filled < wanted {
            let Some(index) = self.chunks.iter().position(|chunk| chunk.segment == reference) else { break };
            let Some(chunk) = self.chunks.get_mut(index) else { break };
            let length = chunk.left().min(wanted - filled);
            sink(&chunk.audio, chunk.used..chunk.used + length);
            filled += length;
            chunk.used += length;
            if chunk.left() == 0
                && let Some(chunk) = self.chunks.remove(index)
            {
                hand_back(&mut self.spent, chunk.audio);
            }
        }
        let first = segment.packet.is_none();
        let last = segment.complete && available <= FRAME_SAMPLES;
        segment.released += filled as u64;
        segment.packet = Some(packet);
        if last {
            self.segments.pop_front();
            self.breath = BREATH_FRAMES;
        }
        self.waiting = self.waiting.saturating_sub(filled);
        self.begun = Some(reference.playback);
        Some(Taken { segment: reference, first, last })
    }

    /// Pauses if there is something to pause that is not paused yet; returns where it stopped.
    pub(crate) fn pause(&mut self) -> Option<(SegmentRef, u64)> {
        if self.paused {
            return None;
        }
        let position = self.position()?;
        self.paused = true;
        Some(position)
    }

    /// Goes on, if it is paused; returns the segment that goes on.
    pub(crate) fn resume(&mut self) -> Option<SegmentRef> {
        let segment = self.head().filter(|_| self.paused)?;
        if let Some(chunk) = self.chunks.front_mut().filter(|chunk| chunk.used > 0 && chunk.left() > FRAME_SAMPLES) {
            chunk.used += if fault(Fault::ResumeLosesAFrame) { FRAME_SAMPLES } else { 0 };
            chunk.used -= if fault(Fault::ResumeRepeatsAFrame) { FRAME_SAMPLES } else { 0 };
        }
        self.paused = false;
        Some(segment)
    }

    /// The segment that is said, or would be.
    pub(crate) fn head(&self) -> Option<SegmentRef> {
        self.segments.front().map(|segment| segment.reference)
    }

    /// That segment and how much of it was released (ms).
    fn position(&self) -> Option<(SegmentRef, u64)> {
        self.segments.front().map(|segment| (segment.reference, segment.released / SAMPLES_PER_MS))
    }

    /// Discards a playback. Returns whether anything was discarded, and where it was cut if it had begun.
    pub(crate) fn clear(&mut self, playback: PlaybackId) -> (bool, Option<(u32, u64)>) {
        let head_was = self.head().map(|segment| segment.playback);
        let cut = self
            .segments
            .iter()
            .find(|segment| segment.reference.playback == playback)
            .map(|segment| (segment.reference.index, segment.released / SAMPLES_PER_MS));
        self.segments.retain(|segment| segment.reference.playback != playback);
        for _ in 0..self.chunks.len() {
            let Some(chunk) = self.chunks.pop_front() else { break };
            if chunk.segment.playback == playback {
                self.waiting = self.waiting.saturating_sub(chunk.left());
                self.discard(chunk.audio);
            } else {
                self.chunks.push_back(chunk);
            }
        }
        if head_was == Some(playback) {
            self.paused = false;
        }
        (cut.is_some(), cut.filter(|_| self.begun == Some(playback)))
    }

    /// Discards everything: the call is over.
    pub(crate) fn clear_all(&mut self) {
        self.segments.clear();
        while let Some(chunk) = self.chunks.pop_front() {
            self.discard(chunk.audio);
        }
        self.waiting = 0;
        self.paused = false;
    }

    /// Audio that is done with, to be freed elsewhere.
    pub(crate) fn spent(&mut self) -> Option<A> {
        self.spent.pop_front()
    }

    fn has_room(&self, audio: &A) -> bool {
        self.chunks.len() < CHUNKS_MAX && self.waiting + audio.samples() <= WAITING_SAMPLES_MAX
    }

    /// Samples of a segment that wait.
    fn available(&self, segment: SegmentRef) -> usize {
        self.chunks.iter().filter(|chunk| chunk.segment == segment).map(Chunk::left).sum()
    }

    fn enqueue(&mut self, segment: SegmentRef, audio: A) {
        if audio.samples() == 0 {
            return self.discard(audio);
        }
        self.waiting += audio.samples();
        self.chunks.push_back(Chunk { segment, audio, used: 0 });
    }

    /// Hands audio back that will not be said.
    pub(crate) fn discard(&mut self, audio: A) {
        hand_back(&mut self.spent, audio);
    }
}

/// Where nobody has taken audio back for long, it is freed here: late is better than without bound.
fn hand_back<A>(spent: &mut VecDeque<A>, audio: A) {
    if spent.len() < SPENT_MAX {
        spent.push_back(audio);
    }
}

/// The pause after a segment, before whatever comes next: 120 ms. It is no part of any segment, so that a caller who speaks up in it cuts nothing.
pub(crate) const BREATH_FRAMES: u64 = 6;
/// Clauses that wait: a reply has ten.
pub(crate) const SEGMENTS_MAX: usize = 64;
/// Pieces of audio that wait: 60 s in the 120 ms pieces of a realtime model.
const CHUNKS_MAX: usize = 512;
/// 60 s: what the voice holds at most.
const WAITING_SAMPLES_MAX: usize = 60 * 8_000;
/// All that waits, discarded at once, and as much again refused.
const SPENT_MAX: usize = 2 * CHUNKS_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbered samples, and whether they go on from those before.
    #[derive(Debug, Clone)]
    struct Numbers(Vec<u8>, bool);

    impl Audio for Numbers {
        fn samples(&self) -> usize {
            self.0.len()
        }

        fn continues(&self) -> bool {
            self.1
        }
    }

    fn segment(playback: u128, index: u32) -> SegmentRef {
        SegmentRef { playback: PlaybackId(playback), index }
    }

    fn audio(samples: usize) -> Numbers {
        Numbers((0..samples).map(|n| n as u8).collect(), false)
    }

    /// Takes one frame, for packet `packet`.
    fn step(playback: &mut Playback<Numbers>, packet: u64) -> Option<(Taken, Vec<u8>)> {
        let has_frame = playback.next_frame_in() == Some(0);
        let mut frame = Vec::new();
        let taken = playback.take(packet, |audio, part| frame.extend(&audio.0[part]));
        assert_eq!(taken.is_some(), has_frame);
        Some((taken?, frame))
    }

    #[test]
    fn segments_are_released_in_order_and_the_last_frame_may_be_short() {
        let mut playback = Playback::new();
        assert!(playback.speak(segment(1, 0), audio(200), true));
        assert!(playback.speak(segment(1, 1), audio(160), true));
        let (taken, _) = step(&mut playback, 1).unwrap();
        assert_eq!(taken, Taken { segment: segment(1, 0), first: true, last: false });
        let (taken, frame) = step(&mut playback, 2).unwrap();
        assert_eq!(taken, Taken { segment: segment(1, 0), first: false, last: true });
        assert_eq!(frame, audio(200).0[160..]);
        assert!(step(&mut playback, 3).is_none(), "the pause between two clauses");
        assert_eq!(playback.next_frame_in(), Some(BREATH_FRAMES));
        playback.breathe(BREATH_FRAMES - 1);
        assert_eq!(playback.next_frame_in(), Some(1));
        playback.breathe(1);
        let (taken, _) = step(&mut playback, 3).unwrap();
        assert_eq!(taken, Taken { segment: segment(1, 1), first: true, last: true });
        playback.breathe(BREATH_FRAMES);
        assert!(step(&mut playback, 4).is_none());
        assert_eq!(std::iter::from_fn(|| playback.spent()).count(), 2);
    }

    #[test]
    fn what_goes_on_in_the_middle_of_a_word_is_not_held_back_by_a_pause() {
        let goes_on = || Numbers(vec![1; 160], true);
        let mut playback = Playback::new();
        playback.speak(segment(1, 0), goes_on(), true);
        playback.speak(segment(1, 1), goes_on(), true);
        playback.speak(segment(1, 2), audio(160), true);
        assert_eq!(step(&mut playback, 1).unwrap().0.segment, segment(1, 0), "there is nothing before it");
        assert_eq!(step(&mut playback, 2).unwrap().0.segment, segment(1, 1));
        assert_eq!(playback.next_frame_in(), Some(BREATH_FRAMES), "a clause of its own");
        playback.breathe(BREATH_FRAMES);
        assert!(step(&mut playback, 3).is_some());
        playback.breathe(1);
        assert_eq!(playback.next_frame_in(), None);
        // What comes late becomes another playback.
        playback.speak(segment(2, 0), goes_on(), true);
        playback.speak(segment(3, 0), audio(160), true);
        assert_eq!(playback.next_frame_in(), Some(0), "it is late already");
        assert!(step(&mut playback, 4).is_some());
        assert_eq!(playback.next_frame_in(), Some(BREATH_FRAMES), "a playback of its own");
    }

    #[test]
    fn pausing_and_resuming_loses_and_repeats_no_sample() {
        let mut playback = Playback::new();
        playback.speak(segment(1, 0), audio(800), true);
        let mut heard = Vec::new();
        heard.extend(step(&mut playback, 1).unwrap().1);
        assert_eq!(playback.pause(), Some((segment(1, 0), 20)));
        assert_eq!(playback.pause(), None, "paused already");
        assert!(step(&mut playback, 2).is_none());
        assert_eq!(playback.resume(), Some(segment(1, 0)));
        assert_eq!(playback.resume(), None, "goes on already");
        while let Some((_, frame)) = step(&mut playback, 3) {
            heard.extend(frame);
        }
        assert_eq!(heard, audio(800).0);
        assert_eq!(playback.pause(), None, "nothing to pause");
    }

    #[test]
    fn a_streamed_segment_waits_for_whole_frames_and_ends_when_it_is_told() {
        let mut playback = Playback::new();
        playback.speak(segment(1, 0), audio(100), false);
        playback.speak(segment(1, 1), audio(160), true);
        assert!(step(&mut playback, 1).is_none(), "less than a frame, and more may come");
        assert_eq!(playback.append(segment(1, 0), audio(60), false), Appended::Queued);
        assert!(step(&mut playback, 2).unwrap().0.first);
        assert!(step(&mut playback, 3).is_none(), "the next segment does not overtake");
        assert_eq!(playback.append(segment(1, 0), audio(0), true), Appended::Ended(2));
        assert_eq!(playback.append(segment(1, 0), audio(9), true), Appended::Unknown);
        playback.breathe(BREATH_FRAMES);
        assert_eq!(step(&mut playback, 4).unwrap().0.segment, segment(1, 1));
    }

    #[test]
    fn a_streamed_segment_that_ends_while_it_is_paused_leaves_the_next_playback_free_to_speak() {
        let mut playback = Playback::new();
        playback.speak(segment(1, 0), audio(160), false);
        step(&mut playback, 1).unwrap();
        assert_eq!(playback.pause(), Some((segment(1, 0), 20)));
        assert_eq!(playback.append(segment(1, 0), audio(0), true), Appended::Ended(1));
        playback.speak(segment(2, 0), audio(160), true);
        playback.breathe(BREATH_FRAMES);
        assert_eq!(step(&mut playback, 2).unwrap().0.segment, segment(2, 0));
        // Where more of the same playback waits it stays paused, until it is told to go on.
        playback.speak(segment(3, 0), audio(160), false);
        playback.speak(segment(3, 1), audio(160), true);
        playback.breathe(BREATH_FRAMES);
        step(&mut playback, 3).unwrap();
        playback.pause();
        assert_eq!(playback.append(segment(3, 0), audio(0), true), Appended::Ended(3));
        assert!(step(&mut playback, 4).is_none());
        assert_eq!(playback.resume(), Some(segment(3, 1)));
    }

    #[test]
    fn clearing_removes_one_playback_everywhere_and_says_where_it_was_cut() {
        let mut playback = Playback::new();
        playback.speak(segment(1, 0), audio(800), true);
        playback.speak(segment(2, 0), audio(160), true);
        playback.speak(segment(1, 1), audio(800), true);
        step(&mut playback, 1);
        step(&mut playback, 2);
        playback.pause();
        assert_eq!(playback.clear(PlaybackId(1)), (true, Some((0, 40))));
        assert_eq!(step(&mut playback, 3).unwrap().0.segment, segment(2, 0), "no longer paused");
        assert_eq!(playback.clear(PlaybackId(1)), (false, None));
        playback.speak(segment(3, 0), audio(160), true);
        assert_eq!(playback.clear(PlaybackId(3)), (true, None), "nothing of it had begun");
        assert_eq!(playback.waiting, 0);
    }

    #[test]
    fn what_waits_is_bounded_in_segments_pieces_and_time() {
        let mut playback = Playback::new();
        assert!(playback.speak(segment(1, 0), audio(WAITING_SAMPLES_MAX), false));
        assert!(!playback.speak(segment(1, 1), audio(1), true));
        assert_eq!(playback.append(segment(1, 0), audio(1), true), Appended::Full);
        playback.clear(PlaybackId(1));
        assert!((0..SEGMENTS_MAX as u32).all(|n| playback.speak(segment(2, n), audio(1), true)));
        assert!(!playback.speak(segment(3, 0), audio(1), true));
        playback.clear_all();
        playback.speak(segment(4, 0), audio(1), false);
        assert_eq!((1..CHUNKS_MAX).filter(|_| playback.append(segment(4, 0), audio(1), false) == Appended::Queued).count(), CHUNKS_MAX - 1);
        assert_eq!(playback.append(segment(4, 0), audio(1), false), Appended::Full);
    }
}
