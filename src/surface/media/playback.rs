//! The queue of what is to be said: segments, in the order in which they were accepted.

use std::collections::VecDeque;
use std::sync::Arc;

use recado_core::conversation::SegmentRef;
use recado_core::ids::PlaybackId;

use super::clock::FRAME_SAMPLES;
use super::g711::Codec;

/// Segments and their audio. Nothing is freed here: audio that is done with is handed back.
#[derive(Debug)]
pub(super) struct Playback {
    segments: VecDeque<Segment>,
    chunks: VecDeque<Chunk>,
    /// Octets accepted and not released.
    waiting: usize,
    paused: bool,
    /// The playback of which a frame was released last.
    begun: Option<PlaybackId>,
    spent: VecDeque<Arc<[u8]>>,
}

#[derive(Debug)]
struct Segment {
    reference: SegmentRef,
    codec: Codec,
    /// Octets released.
    released: u64,
    /// Whether all of its audio has been appended.
    complete: bool,
    /// The packet that carried the frame released last.
    packet: Option<u64>,
}

#[derive(Debug)]
struct Chunk {
    segment: SegmentRef,
    audio: Arc<[u8]>,
    /// Octets of it that were released.
    used: usize,
}

/// A frame taken from the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) segment: SegmentRef,
    /// It is the segment's first.
    pub(super) first: bool,
    /// It is the segment's last.
    pub(super) last: bool,
}

/// What an [`Playback::append`] led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Appended {
    /// It waits behind the rest.
    Queued,
    /// The segment turns out to have ended with the frame in this packet.
    Ended(u64),
    /// No such segment is open: discarded.
    Unknown,
    /// The queue is full: discarded, and the segment can't be whole any more.
    Full,
}

impl Playback {
    pub(super) fn new() -> Self {
        Self {
            segments: VecDeque::with_capacity(SEGMENTS_MAX),
            chunks: VecDeque::with_capacity(CHUNKS_MAX),
            waiting: 0,
            paused: false,
            begun: None,
            spent: VecDeque::with_capacity(SPENT_MAX),
        }
    }

    /// Accepts a segment behind the others; `false` if there is no room for it.
    pub(super) fn speak(&mut self, reference: SegmentRef, codec: Codec, audio: Arc<[u8]>, complete: bool) -> bool {
        if self.segments.len() >= SEGMENTS_MAX || !self.has_room(&audio) {
            self.discard(audio);
            return false;
        }
        self.segments.push_back(Segment { reference, codec, released: 0, complete, packet: None });
        self.enqueue(reference, audio);
        true
    }

    /// More audio of an open segment.
    pub(super) fn append(&mut self, reference: SegmentRef, audio: Arc<[u8]>, complete: bool) -> Appended {
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
                Appended::Ended(packet)
            }
            _ => Appended::Queued,
        }
    }

    /// The next frame, unless paused, or starved in the middle of a segment that is still open.
    pub(super) fn take(&mut self, codec: Codec, frame: &mut [u8; FRAME_SAMPLES]) -> Option<Taken> {
        if self.paused {
            return None;
        }
        let segment = self.segments.front_mut()?;
        let available: usize = self.chunks.iter().filter(|c| c.segment == segment.reference).map(|c| c.audio.len() - c.used).sum();
        if available < FRAME_SAMPLES && !segment.complete {
            return None;
        }
        frame.fill(segment.codec.silence());
        let wanted = available.min(FRAME_SAMPLES);
        let mut filled = 0;
        while filled < wanted {
            let Some(index) = self.chunks.iter().position(|chunk| chunk.segment == segment.reference) else { break };
            let Some(chunk) = self.chunks.get_mut(index) else { break };
            let part = chunk.audio.get(chunk.used..).unwrap_or_default();
            let length = part.len().min(wanted - filled);
            frame[filled..filled + length].copy_from_slice(&part[..length]);
            filled += length;
            chunk.used += length;
            if chunk.used >= chunk.audio.len()
                && let Some(chunk) = self.chunks.remove(index)
            {
                hand_back(&mut self.spent, chunk.audio);
            }
        }
        if segment.codec != codec {
            for octet in frame.iter_mut() {
                *octet = codec.encode_sample(segment.codec.decode_sample(*octet));
            }
        }
        let first = segment.packet.is_none();
        segment.released += filled as u64;
        self.waiting = self.waiting.saturating_sub(filled);
        self.begun = Some(segment.reference.playback);
        Some(Taken { segment: segment.reference, first, last: segment.complete && available <= FRAME_SAMPLES })
    }

    /// The frame taken last left the box in `packet`.
    pub(super) fn released(&mut self, taken: Taken, packet: u64) {
        if let Some(segment) = self.segments.front_mut().filter(|segment| segment.reference == taken.segment) {
            segment.packet = Some(packet);
            if taken.last {
                self.segments.pop_front();
            }
        }
    }

    /// Pauses if there is something to pause that is not paused yet; returns where it stopped.
    pub(super) fn pause(&mut self) -> Option<(SegmentRef, u64)> {
        if self.paused {
            return None;
        }
        let position = self.position()?;
        self.paused = true;
        Some(position)
    }

    /// Goes on with `playback`, if it is that one that is paused; returns the segment that goes on.
    pub(super) fn resume(&mut self, playback: PlaybackId) -> Option<SegmentRef> {
        let (segment, _) = self.position().filter(|(segment, _)| self.paused && segment.playback == playback)?;
        self.paused = false;
        Some(segment)
    }

    /// The segment at the head and how much of it was released (ms).
    pub(super) fn position(&self) -> Option<(SegmentRef, u64)> {
        self.segments.front().map(|segment| (segment.reference, segment.released / OCTETS_PER_MS))
    }

    /// Discards a playback. Returns whether anything was discarded, and where it was cut if it had begun.
    pub(super) fn clear(&mut self, playback: PlaybackId) -> (bool, Option<(u32, u64)>) {
        let head_was = self.segments.front().map(|segment| segment.reference.playback);
        let cut = self
            .segments
            .iter()
            .find(|segment| segment.reference.playback == playback)
            .map(|segment| (segment.reference.index, segment.released / OCTETS_PER_MS));
        self.segments.retain(|segment| segment.reference.playback != playback);
        for _ in 0..self.chunks.len() {
            let Some(chunk) = self.chunks.pop_front() else { break };
            if chunk.segment.playback == playback {
                self.waiting = self.waiting.saturating_sub(chunk.audio.len() - chunk.used);
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
    pub(super) fn clear_all(&mut self) {
        self.segments.clear();
        while let Some(chunk) = self.chunks.pop_front() {
            self.discard(chunk.audio);
        }
        self.waiting = 0;
        self.paused = false;
    }

    /// Audio that is done with, to be freed elsewhere.
    pub(super) fn spent(&mut self) -> Option<Arc<[u8]>> {
        self.spent.pop_front()
    }

    fn has_room(&self, audio: &Arc<[u8]>) -> bool {
        self.chunks.len() < CHUNKS_MAX && self.waiting + audio.len() <= WAITING_OCTETS_MAX
    }

    fn enqueue(&mut self, segment: SegmentRef, audio: Arc<[u8]>) {
        if audio.is_empty() {
            return self.discard(audio);
        }
        self.waiting += audio.len();
        self.chunks.push_back(Chunk { segment, audio, used: 0 });
    }

    /// Hands audio back that will not be said.
    pub(super) fn discard(&mut self, audio: Arc<[u8]>) {
        hand_back(&mut self.spent, audio);
    }
}

/// Where nobody has taken audio back for long, it is freed here: late is better than without bound.
fn hand_back(spent: &mut VecDeque<Arc<[u8]>>, audio: Arc<[u8]>) {
    if spent.len() < SPENT_MAX {
        spent.push_back(audio);
    }
}

/// Clauses that wait: a reply has ten.
const SEGMENTS_MAX: usize = 64;
/// Pieces of audio that wait: 60 s in the 120 ms pieces of a realtime model.
const CHUNKS_MAX: usize = 512;
/// 60 s: what the voice holds at most.
const WAITING_OCTETS_MAX: usize = 60 * 8_000;
/// All that waits, discarded at once, and as much again refused.
const SPENT_MAX: usize = 2 * CHUNKS_MAX;
const OCTETS_PER_MS: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(playback: u128, index: u32) -> SegmentRef {
        SegmentRef { playback: PlaybackId(playback), index }
    }

    fn audio(octets: usize) -> Arc<[u8]> {
        (0..octets).map(|n| n as u8).collect()
    }

    /// Takes and releases one frame, in packet `packet`.
    fn step(playback: &mut Playback, packet: u64) -> Option<(Taken, [u8; 160])> {
        let mut frame = [0; 160];
        let taken = playback.take(Codec::Pcmu, &mut frame)?;
        playback.released(taken, packet);
        Some((taken, frame))
    }

    #[test]
    fn segments_are_released_in_order_and_a_short_last_frame_is_filled_with_silence() {
        let mut playback = Playback::new();
        assert!(playback.speak(segment(1, 0), Codec::Pcmu, audio(200), true));
        assert!(playback.speak(segment(1, 1), Codec::Pcmu, audio(160), true));
        let (taken, _) = step(&mut playback, 1).unwrap();
        assert_eq!(taken, Taken { segment: segment(1, 0), first: true, last: false });
        let (taken, frame) = step(&mut playback, 2).unwrap();
        assert_eq!(taken, Taken { segment: segment(1, 0), first: false, last: true });
        assert_eq!((frame[39], frame[40], frame[159]), (199, 0xFF, 0xFF));
        let (taken, _) = step(&mut playback, 3).unwrap();
        assert_eq!(taken, Taken { segment: segment(1, 1), first: true, last: true });
        assert!(step(&mut playback, 4).is_none());
        assert_eq!(std::iter::from_fn(|| playback.spent()).count(), 2);
    }

    #[test]
    fn pausing_and_resuming_loses_and_repeats_no_sample() {
        let mut playback = Playback::new();
        playback.speak(segment(1, 0), Codec::Pcmu, audio(800), true);
        let mut heard = Vec::new();
        heard.extend(step(&mut playback, 1).unwrap().1);
        assert_eq!(playback.pause(), Some((segment(1, 0), 20)));
        assert_eq!(playback.pause(), None, "paused already");
        assert!(step(&mut playback, 2).is_none());
        assert_eq!(playback.resume(PlaybackId(2)), None, "another one");
        assert_eq!(playback.resume(PlaybackId(1)), Some(segment(1, 0)));
        while let Some((_, frame)) = step(&mut playback, 3) {
            heard.extend(frame);
        }
        assert_eq!(heard, audio(800).to_vec());
        assert_eq!(playback.pause(), None, "nothing to pause");
    }

    #[test]
    fn a_streamed_segment_waits_for_whole_frames_and_ends_when_it_is_told() {
        let mut playback = Playback::new();
        playback.speak(segment(1, 0), Codec::Pcmu, audio(100), false);
        playback.speak(segment(1, 1), Codec::Pcmu, audio(160), true);
        assert!(step(&mut playback, 1).is_none(), "less than a frame, and more may come");
        assert_eq!(playback.append(segment(1, 0), audio(60), false), Appended::Queued);
        assert!(step(&mut playback, 2).unwrap().0.first);
        assert!(step(&mut playback, 3).is_none(), "the next segment does not overtake");
        assert_eq!(playback.append(segment(1, 0), audio(0), true), Appended::Ended(2));
        assert_eq!(playback.append(segment(1, 0), audio(9), true), Appended::Unknown);
        assert_eq!(step(&mut playback, 4).unwrap().0.segment, segment(1, 1));
    }

    #[test]
    fn clearing_removes_one_playback_everywhere_and_says_where_it_was_cut() {
        let mut playback = Playback::new();
        playback.speak(segment(1, 0), Codec::Pcmu, audio(800), true);
        playback.speak(segment(2, 0), Codec::Pcmu, audio(160), true);
        playback.speak(segment(1, 1), Codec::Pcmu, audio(800), true);
        step(&mut playback, 1);
        step(&mut playback, 2);
        playback.pause();
        assert_eq!(playback.clear(PlaybackId(1)), (true, Some((0, 40))));
        assert_eq!(step(&mut playback, 3).unwrap().0.segment, segment(2, 0), "no longer paused");
        assert_eq!(playback.clear(PlaybackId(1)), (false, None));
        playback.speak(segment(3, 0), Codec::Pcmu, audio(160), true);
        assert_eq!(playback.clear(PlaybackId(3)), (true, None), "nothing of it had begun");
        assert_eq!(playback.waiting, 0);
    }

    #[test]
    fn audio_in_the_other_law_is_converted() {
        let mut playback = Playback::new();
        let pcma: Arc<[u8]> = (0..160).map(|n| Codec::Pcma.encode_sample(n * 100)).collect();
        playback.speak(segment(1, 0), Codec::Pcma, pcma.clone(), true);
        let (_, frame) = step(&mut playback, 1).unwrap();
        for (sent, coded) in frame.iter().zip(pcma.iter()) {
            let (sent, meant) = (Codec::Pcmu.decode_sample(*sent), Codec::Pcma.decode_sample(*coded));
            assert!((sent - meant).abs() <= 16 + meant.abs() / 20, "{sent} for {meant}");
        }
    }

    #[test]
    fn what_waits_is_bounded_in_segments_pieces_and_time() {
        let mut playback = Playback::new();
        assert!(playback.speak(segment(1, 0), Codec::Pcmu, audio(WAITING_OCTETS_MAX), false));
        assert!(!playback.speak(segment(1, 1), Codec::Pcmu, audio(1), true));
        assert_eq!(playback.append(segment(1, 0), audio(1), true), Appended::Full);
        playback.clear(PlaybackId(1));
        assert!((0..SEGMENTS_MAX as u32).all(|n| playback.speak(segment(2, n), Codec::Pcmu, audio(1), true)));
        assert!(!playback.speak(segment(3, 0), Codec::Pcmu, audio(1), true));
        playback.clear_all();
        playback.speak(segment(4, 0), Codec::Pcmu, audio(1), false);
        assert_eq!((1..CHUNKS_MAX).filter(|_| playback.append(segment(4, 0), audio(1), false) == Appended::Queued).count(), CHUNKS_MAX - 1);
        assert_eq!(playback.append(segment(4, 0), audio(1), false), Appended::Full);
    }
}
