//! The jitter buffer: the caller's audio in order and at a steady pace, with no more delay than the network asks for.
//!
//! Samples lie in a ring by their timestamp, whatever packets they came in; so packets of any length, out of order, twice or
//! beside telephone-events (which share the sequence numbers but not the samples) need no cases of their own.

use super::clock::{FRAME_SAMPLES, Nanos};
use super::conceal::Conceal;

/// What a frame that leaves the buffer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sound {
    /// Audio that arrived, wholly or in part.
    Received,
    /// Audio that was missing and was made up.
    Concealed,
    /// Nothing: the far end is silent or has not begun.
    Silence,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placed {
    /// It waits to be played.
    New,
    /// All of it had come before.
    Duplicate,
    /// Its time had passed.
    Late,
    /// It is far off the timeline; the next one will tell whether that moved.
    Stray,
}

/// Counters of a buffer, in packets and samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JitterCounts {
    /// Packets that were placed.
    pub placed: u64,
    /// Packets that had come before.
    pub duplicate: u64,
    /// Packets that came too late to be played.
    pub late: u64,
    /// Samples that were due and missing, while the far end was sending.
    pub missing_samples: u64,
    /// Times that the timeline was begun anew.
    pub resyncs: u64,
}

/// An adaptive playout buffer for 8 kHz audio. Sans-IO.
#[derive(Debug)]
pub(super) struct JitterBuffer {
    samples: Box<[i16; RING]>,
    held: Box<[bool; RING]>,
    conceal: Conceal,
    /// Extended timestamp of the next sample to play; none before the first packet.
    cursor: Option<i64>,
    /// Extended timestamp of the first sample of this timeline.
    first: i64,
    /// Extended timestamp after the newest sample that came.
    newest: i64,
    delays: Delays,
    /// Where the timeline would go on if it has moved.
    moved_to: Option<u32>,
    late_in_a_row: u32,
    /// Frames that were waited for since the buffer last held something to play.
    waited: u32,
    /// The far end said that it is silent from here on (RFC 3389), until its next audio.
    silent: Option<(i64, Option<i64>)>,
    counts: JitterCounts,
}

impl JitterBuffer {
    pub(super) fn new() -> Self {
        Self {
            samples: Box::new([0; RING]),
            held: Box::new([false; RING]),
            conceal: Conceal::new(),
            cursor: None,
            first: 0,
            newest: 0,
            delays: Delays::default(),
            moved_to: None,
            late_in_a_row: 0,
            waited: 0,
            silent: None,
            counts: JitterCounts::default(),
        }
    }

    /// Audio came: `samples` begin at `timestamp`.
    pub(super) fn packet(&mut self, now: Nanos, timestamp: u32, samples: &[i16]) -> Placed {
        let length = samples.len() as i64;
        let Some(cursor) = self.cursor else {
            self.begin(now, timestamp, samples);
            return Placed::New;
        };
        let start = extend(self.newest, timestamp);
        let ahead = start + length - cursor;
        if ahead > RING as i64 || ahead < -BEHIND_MAX {
            if self.moved_to != Some(timestamp) {
                self.moved_to = Some(timestamp.wrapping_add(samples.len() as u32));
                return Placed::Stray;
            }
            self.resync(now, timestamp, samples);
            return Placed::New;
        }
        self.moved_to = None;
        let delay = now.samples() - (start + length);
        if ahead <= 0 {
            self.delays.packet(delay);
            self.counts.late += 1;
            self.late_in_a_row += 1;
            if self.late_in_a_row >= LATE_IN_A_ROW_MAX || self.waited >= WAIT_FRAMES_MAX {
                self.resync(now, timestamp, samples);
                return Placed::New;
            }
            return Placed::Late;
        }
        self.late_in_a_row = 0;
        let skip = (cursor - start).max(0) as usize;
        let news = self.store(start + skip as i64, &samples[skip.min(samples.len())..]);
        if !news {
            self.counts.duplicate += 1;
            return Placed::Duplicate;
        }
        self.delays.packet(delay);
        self.counts.placed += 1;
        self.newest = self.newest.max(start + length);
        if let Some((from, until @ None)) = &mut self.silent
            && start >= *from
        {
            *until = Some(start);
        }
        Placed::New
    }

    /// The far end is silent from `timestamp` on (comfort noise, RFC 3389).
    pub(super) fn comfort_noise(&mut self, timestamp: u32) {
        if self.cursor.is_some() {
            self.silent = Some((extend(self.newest, timestamp), None));
        }
    }

    /// The next 20 ms. To be called every 20 ms.
    pub(super) fn tick(&mut self, now: Nanos, frame: &mut [i16; FRAME_SAMPLES]) -> Sound {
        frame.fill(0);
        let Some(mut cursor) = self.cursor else { return Sound::Silence };
        // Later than need be, or earlier than the network allows? Mended where nobody hears it.
        let ideal = now.samples() - self.delays.least - self.delays.spread - FRAME_SAMPLES as i64;
        let lag = ideal - cursor;
        if lag >= SHORTEN_SAMPLES && self.newest - cursor >= 2 * FRAME_SAMPLES as i64 && (lag >= TOO_LATE_SAMPLES || self.quiet_at(cursor))
        {
            self.release(cursor);
            cursor += FRAME_SAMPLES as i64;
        }
        if cursor + FRAME_SAMPLES as i64 <= self.first {
            self.cursor = Some(cursor + FRAME_SAMPLES as i64);
            return Sound::Silence;
        }
        let present = self.copy(cursor, frame);
        let silent = self.silent.is_some_and(|(from, until)| cursor >= from && until.is_none_or(|until| cursor < until));
        if present == 0 && !silent && self.newest <= cursor && self.waited < WAIT_FRAMES_MAX {
            // Nothing newer has come either: more likely late than lost, so the place is kept.
            self.waited += 1;
            self.conceal.missing(frame);
            self.cursor = Some(cursor);
            return if self.waited > SILENT_FRAMES { Sound::Silence } else { Sound::Concealed };
        }
        if present == FRAME_SAMPLES && lag < -LENGTHEN_SAMPLES && self.quiet_at(cursor) {
            // One more quiet frame makes room for packets that come later than they used to.
            self.cursor = Some(cursor);
            self.conceal.received(frame);
            return Sound::Received;
        }
        if present == FRAME_SAMPLES {
            self.waited = 0;
            self.conceal.received(frame);
        } else if present == 0 && (silent || self.newest <= cursor) {
            // A silent far end's time goes by as well.
            self.newest = self.newest.max(cursor + FRAME_SAMPLES as i64);
            self.release(cursor);
            self.cursor = Some(cursor + FRAME_SAMPLES as i64);
            return Sound::Silence;
        } else {
            let before_first = (self.first - cursor).max(0) as usize;
            self.counts.missing_samples += FRAME_SAMPLES.saturating_sub(present + before_first) as u64;
            self.conceal.missing(frame);
            self.copy(cursor, frame);
        }
        self.release(cursor);
        self.cursor = Some(cursor + FRAME_SAMPLES as i64);
        if present == 0 { Sound::Concealed } else { Sound::Received }
    }

    /// How long ago the sound that the last tick yielded arrived (ms), or would have.
    pub(super) fn delay_ms(&self, now: Nanos) -> u64 {
        let Some(cursor) = self.cursor else { return 0 };
        ((now.samples() - self.delays.least - cursor) / SAMPLES_PER_MS).clamp(0, DELAY_MS_MAX) as u64
    }

    /// The source changed: what waits is of the old one.
    pub(super) fn restart(&mut self) {
        self.held.fill(false);
        self.cursor = None;
        self.moved_to = None;
        self.late_in_a_row = 0;
        self.waited = 0;
        self.silent = None;
        self.counts.resyncs += 1;
    }

    pub(super) fn counts(&self) -> JitterCounts {
        self.counts
    }

    fn resync(&mut self, now: Nanos, timestamp: u32, samples: &[i16]) {
        self.restart();
        self.begin(now, timestamp, samples);
    }

    fn begin(&mut self, now: Nanos, timestamp: u32, samples: &[i16]) {
        // One cycle up, so that the packets before the first one have places too.
        let start = (1 << 32) + i64::from(timestamp);
        let end = start + samples.len() as i64;
        self.delays = Delays::starting(now.samples() - end);
        self.newest = end;
        self.first = start;
        self.cursor = Some(start - self.delays.spread);
        self.store(start, &samples[..samples.len().min(RING)]);
        self.counts.placed += 1;
    }

    /// Puts samples into their places; returns whether any place was free.
    fn store(&mut self, start: i64, samples: &[i16]) -> bool {
        let mut news = false;
        let mut at = place(start);
        for &sample in samples {
            if !self.held[at] {
                self.samples[at] = sample;
                self.held[at] = true;
                news = true;
            }
            at = (at + 1) % RING;
        }
        news
    }

    /// Copies a frame; returns how many of its samples were there.
    fn copy(&self, cursor: i64, frame: &mut [i16; FRAME_SAMPLES]) -> usize {
        let mut present = 0;
        let mut at = place(cursor);
        for sample in frame.iter_mut() {
            if self.held[at] {
                *sample = self.samples[at];
                present += 1;
            }
            at = (at + 1) % RING;
        }
        present
    }

    fn release(&mut self, cursor: i64) {
        let start = place(cursor);
        let end = (start + FRAME_SAMPLES).min(RING);
        self.held[start..end].fill(false);
        self.held[..start + FRAME_SAMPLES - end].fill(false);
    }

    fn quiet_at(&self, cursor: i64) -> bool {
        let start = place(cursor);
        (start..start + FRAME_SAMPLES).map(|at| at % RING).all(|at| !self.held[at] || self.samples[at].unsigned_abs() < QUIET_AMPLITUDE)
    }
}

/// How long packets took, relative to each other: the quickest of late, and how far the slow ones lie behind it.
#[derive(Debug)]
struct Delays {
    recent: [i64; DELAYS],
    count: usize,
    least: i64,
    spread: i64,
}

impl Default for Delays {
    fn default() -> Self {
        Self { recent: [0; DELAYS], count: 0, least: 0, spread: SPREAD_START }
    }
}

impl Delays {
    fn starting(delay: i64) -> Self {
        let mut delays = Self { least: delay, ..Self::default() };
        delays.packet(delay);
        delays
    }

    fn packet(&mut self, delay: i64) {
        self.recent[self.count % DELAYS] = delay;
        self.count += 1;
        self.least = self.least.min(delay);
        // A packet that is late now counts at once; that the line has become better is seen in the window.
        self.spread = self.spread.max((delay - self.least).min(SPREAD_MAX));
        if self.count.is_multiple_of(REVIEW_PACKETS) {
            self.review();
        }
    }

    fn review(&mut self) {
        let known = self.count.min(DELAYS);
        let mut sorted = self.recent;
        let sorted = &mut sorted[..known];
        sorted.sort_unstable();
        let (Some(&least), Some(&slow)) = (sorted.first(), sorted.get(known.saturating_sub(1 + known / OUTLIERS_IN))) else { return };
        self.least = least;
        let spread = (slow - least).clamp(0, SPREAD_MAX);
        // Shrinks by steps: one calm second is no proof of a calm line.
        self.spread = if spread < self.spread { (self.spread * 7 + spread) / 8 } else { spread };
    }
}

fn place(timestamp: i64) -> usize {
    (timestamp as u64 % RING as u64) as usize
}

/// The extended timestamp nearest to `reference` whose lower 32 bits are `timestamp`.
fn extend(reference: i64, timestamp: u32) -> i64 {
    reference + i64::from(timestamp.wrapping_sub(reference as u32) as i32)
}

/// A second of audio (a power of two, so that places are found over the wrap of signed numbers too): no telephone network is later than that and worth waiting for.
const RING: usize = 8_192;
const SAMPLES_PER_MS: i64 = 8;
/// Two seconds behind the place being played is no late packet but another timeline.
const BEHIND_MAX: i64 = 16_000;
/// 100 ms of packets in 20 ms frames: their clock has moved, not they.
const LATE_IN_A_ROW_MAX: u32 = 5;
/// 120 ms: what one bad gap on a radio link takes.
const WAIT_FRAMES_MAX: u32 = 6;
/// Concealment has faded out by then.
const SILENT_FRAMES: u32 = 3;
/// 30 ms more than needed are given back.
const SHORTEN_SAMPLES: i64 = 240;
/// 120 ms more than needed are given back even inside a word.
const TOO_LATE_SAMPLES: i64 = 960;
/// 10 ms less than needed are made up for.
const LENGTHEN_SAMPLES: i64 = 80;
/// -40 dBFS peak: between words.
const QUIET_AMPLITUDE: u16 = 328;
/// Packets that are remembered: 2.5 s of 20 ms frames.
const DELAYS: usize = 128;
/// The window is looked at three times a second.
const REVIEW_PACKETS: usize = 16;
/// One packet in 40 may be too late.
const OUTLIERS_IN: usize = 40;
/// 20 ms until the line is known.
const SPREAD_START: i64 = 160;
/// 240 ms: beyond, a conversation is no longer possible.
const SPREAD_MAX: i64 = 1_920;
const DELAY_MS_MAX: i64 = 1_000;

#[cfg(test)]
mod tests;
