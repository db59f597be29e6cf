//! The voice, the media path and the far end, in frames: what is rendered goes to the mouth in order, what is stale there is
//! refused, suspicion pauses at once, a clear or a re-INVITE begins a generation, and the far end reports what it got.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use recado_core::conversation::{Acoustic, AcousticEpoch, Content, Generation, PlaybackEvent, Purpose, SegmentRef, Word};
use recado_core::ids::PlaybackId;
use recado_core::time::Time;

/// One frame: what a packet carries (ms).
pub const FRAME: u64 = 20;

/// What the voice and the media path do, in frames.
pub struct Voice {
    rendering: VecDeque<Rendering>,
    mouth: VecDeque<Sounding>,
    paused: bool,
    /// On hold nothing is sent; what that paused goes on by itself afterwards.
    held: bool,
    paused_by_hold: bool,
    /// The media path's own acoustic clock: ahead of the conversation's by the time that an event takes.
    pub acoustic: Acoustic,
    /// Since when it stands so.
    pub acoustic_since: u64,
    pub epoch: u64,
    /// So many of the next commands to go on are lost.
    pub deaf: u32,
    pub purposes: BTreeMap<SegmentRef, (Purpose, String)>,
    pub rtcp: bool,
    /// Packets lost, as the far end counts them.
    pub lost: i64,
    /// So many of the next frames are lost on the way.
    pub losing: u64,
    pub render_ms: u64,
    /// So many of the next segments can't be made.
    pub failing: u32,
    /// Nothing leaves the box before this time: the media thread is held up.
    pub stalled_until: u64,
    pub next_report: u64,
    generations: Vec<Begun>,
    pub closed: bool,
    /// What the ear heard: each released frame's segment, with the time.
    pub ear: Vec<(u64, SegmentRef)>,
    /// Of each segment: frames in all, released, and lost on the way.
    pub counts: BTreeMap<SegmentRef, Count>,
    /// Segments heard to their end.
    pub heard: Vec<(u64, Purpose, String)>,
    /// Playbacks of which a frame was released before another's.
    over: BTreeSet<PlaybackId>,
}

/// Frames of a segment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    pub frames: u64,
    pub released: u64,
    pub lost: u64,
}

/// A frame that left the box.
pub struct Released {
    pub segment: SegmentRef,
    pub purpose: Purpose,
    /// Whether it was the segment's last.
    pub last: bool,
}

struct Rendering {
    segment: SegmentRef,
    epoch: AcousticEpoch,
    ready_at: u64,
    ready: bool,
    frames: u64,
    fails: bool,
}

struct Sounding {
    segment: SegmentRef,
    frames: u64,
    released: u64,
}

struct Begun {
    generation: Generation,
    first_packet: u64,
    same_receiver: bool,
    closed: bool,
}

impl Voice {
    pub fn new(now: u64) -> Self {
        Self {
            rendering: VecDeque::new(),
            mouth: VecDeque::new(),
            paused: false,
            held: false,
            paused_by_hold: false,
            acoustic: Acoustic::Quiet,
            acoustic_since: now,
            epoch: 0,
            deaf: 0,
            purposes: BTreeMap::new(),
            rtcp: true,
            lost: 0,
            losing: 0,
            render_ms: 30,
            failing: 0,
            stalled_until: 0,
            next_report: now + 5_000,
            generations: vec![Begun { generation: Generation(0), first_packet: 0, same_receiver: false, closed: false }],
            closed: false,
            ear: Vec::new(),
            counts: BTreeMap::new(),
            heard: Vec::new(),
            over: BTreeSet::new(),
        }
    }

    /// Whether anything waits to be said or is being said.
    pub fn busy(&self) -> bool {
        !self.rendering.is_empty() || !self.mouth.is_empty()
    }

    /// Whether a frame of this playback has left the box.
    pub fn begun(&self, playback: PlaybackId) -> bool {
        self.counts.iter().any(|(segment, count)| segment.playback == playback && count.released > 0)
    }

    /// Whether a frame has left the box within the last `ms`, or would have if the media thread were not held up.
    pub fn sounds(&self, now: u64, ms: u64) -> bool {
        now <= self.stalled_until + ms || self.ear.last().is_some_and(|(at, _)| now <= at + ms)
    }

    /// When it does something next, by itself.
    pub fn next(&self, now: u64) -> Option<u64> {
        if self.closed {
            return None;
        }
        let rendered = self.rendering.iter().filter(|rendering| !rendering.ready).map(|rendering| rendering.ready_at.max(now + 1)).min();
        let frame = (!self.paused && !self.held && !self.mouth.is_empty()).then(|| ((now / FRAME + 1) * FRAME).max(self.stalled_until));
        let report = self.rtcp.then_some(self.next_report.max(now + 1));
        [rendered, frame, report].into_iter().flatten().min()
    }

    pub fn speak(&mut self, segment: SegmentRef, purpose: Purpose, content: &Content, epoch: AcousticEpoch, now: u64) {
        self.purposes.insert(segment, (purpose, content.text().to_owned()));
        let frames = (content.text().chars().count() as u64 * 60).div_ceil(FRAME).max(5);
        self.counts.insert(segment, Count { frames, ..Count::default() });
        let fails = self.failing > 0;
        self.failing = self.failing.saturating_sub(1);
        let held: u64 =
            self.rendering.iter().map(|held| held.frames).chain(self.mouth.iter().map(|held| held.frames - held.released)).sum();
        assert!(self.rendering.len() + self.mouth.len() < SEGMENTS_MAX, "the voice holds {SEGMENTS_MAX} segments");
        assert!((held + frames) * FRAME <= HELD_MS_MAX, "the voice holds {HELD_MS_MAX} ms");
        self.rendering.push_back(Rendering { segment, epoch, ready_at: now + self.render_ms, ready: false, frames, fails });
    }

    /// The acoustic clock moves; suspicion pauses what there is to pause.
    pub fn edge(&mut self, to: Acoustic, now: u64) -> Option<PlaybackEvent> {
        self.epoch += 1;
        (self.acoustic, self.acoustic_since) = (to, now);
        if to != Acoustic::Suspected {
            return None;
        }
        self.paused_by_hold = false;
        self.pause(now)
    }

    fn pause(&mut self, now: u64) -> Option<PlaybackEvent> {
        let head = self.mouth.front().filter(|_| !self.paused)?;
        self.paused = true;
        Some(PlaybackEvent::Paused { segment: head.segment, released_ms: head.released * FRAME, at: Time(now) })
    }

    /// A re-INVITE puts the call on hold, or takes it back: whoever hears then may be somebody else.
    pub fn hold(&mut self, on: bool, now: u64) -> Option<PlaybackEvent> {
        self.renegotiated(now);
        let (was, quiet) = (std::mem::replace(&mut self.held, on), self.acoustic == Acoustic::Quiet);
        if on && !was {
            let paused = self.pause(now);
            self.paused_by_hold = paused.is_some();
            return paused;
        }
        let segment = self.mouth.front().filter(|_| was && !on && self.paused_by_hold && self.paused && quiet)?.segment;
        (self.paused, self.paused_by_hold) = (false, false);
        Some(PlaybackEvent::Resumed { segment, at: Time(now) })
    }

    pub fn resume(&mut self, playback: PlaybackId, epoch: AcousticEpoch, now: u64) -> Option<PlaybackEvent> {
        if self.deaf > 0 {
            self.deaf -= 1;
            return None;
        }
        let head = self.mouth.front().map(|head| head.segment).filter(|segment| segment.playback == playback);
        if epoch.0 != self.epoch {
            let segment = head.unwrap_or(SegmentRef { playback, index: 0 });
            return Some(PlaybackEvent::Refused { segment, epoch: AcousticEpoch(self.epoch) });
        }
        let segment = head.filter(|_| self.paused)?;
        self.paused_by_hold = self.held;
        if self.held {
            return None;
        }
        self.paused = false;
        Some(PlaybackEvent::Resumed { segment, at: Time(now) })
    }

    pub fn clear(&mut self, playback: PlaybackId, now: u64) -> PlaybackEvent {
        self.rendering.retain(|rendering| rendering.segment.playback != playback);
        let head = self.mouth.front().filter(|head| head.segment.playback == playback);
        let begun = self.ear.last().is_some_and(|(_, segment)| segment.playback == playback);
        let cut = head.filter(|_| begun).map(|head| (head.segment.index, head.released * FRAME));
        if head.is_some() {
            self.paused = false;
            self.begin_generation(now, true);
        }
        self.mouth.retain(|sounding| sounding.segment.playback != playback);
        PlaybackEvent::Cleared { playback, cut, at: Time(now) }
    }

    /// A re-INVITE: whoever hears now may be somebody else.
    pub fn renegotiated(&mut self, now: u64) {
        self.begin_generation(now, false);
    }

    /// The call is over: nothing more is sent, and what lay in the far end's buffer is not heard.
    pub fn close(&mut self) {
        self.closed = true;
        self.rendering.clear();
        self.mouth.clear();
    }

    /// Lets it do what is due; says what it told, and the frame that left the box.
    pub fn tick(&mut self, now: u64) -> (Vec<PlaybackEvent>, Option<Released>) {
        let mut events = Vec::new();
        if self.closed {
            return (events, None);
        }
        self.render(now, &mut events);
        let released = if now.is_multiple_of(FRAME) && now >= self.stalled_until { self.frame(now, &mut events) } else { None };
        if self.rtcp && now >= self.next_report {
            self.next_report = now + 5_000;
            self.report(now, &mut events);
        }
        (events, released)
    }

    fn render(&mut self, now: u64, events: &mut Vec<PlaybackEvent>) {
        let mut failed = Vec::new();
        for rendering in self.rendering.iter_mut().filter(|rendering| !rendering.ready && rendering.ready_at <= now) {
            let (segment, duration_ms) = (rendering.segment, rendering.frames * FRAME);
            rendering.ready = true;
            if rendering.fails {
                failed.push(segment);
                events.push(PlaybackEvent::Failed { segment, reason: "no voice".into() });
            } else {
                let words = words(&self.purposes[&segment].1, duration_ms, segment.index);
                events.push(PlaybackEvent::Ready { segment, duration_ms, words, near_silent: false });
            }
        }
        self.rendering.retain(|rendering| !failed.contains(&rendering.segment));
        while self.rendering.front().is_some_and(|rendering| rendering.ready) {
            let Some(Rendering { segment, epoch, frames, .. }) = self.rendering.pop_front() else { return };
            if epoch.0 == self.epoch {
                self.mouth.push_back(Sounding { segment, frames, released: 0 });
            } else {
                events.push(PlaybackEvent::Refused { segment, epoch: AcousticEpoch(self.epoch) });
            }
        }
    }

    fn frame(&mut self, now: u64, events: &mut Vec<PlaybackEvent>) -> Option<Released> {
        let (packet, at) = (packet(now), Time(now));
        let generation = self.generations.last().map(|begun| begun.generation).unwrap_or_default();
        if self.paused || self.held {
            return None;
        }
        let head = self.mouth.front_mut()?;
        let segment = head.segment;
        if head.released == 0 {
            events.push(PlaybackEvent::Started { segment, at, packet, generation });
        }
        head.released += 1;
        if let Some((_, before)) = self.ear.last().filter(|(_, before)| before.playback != segment.playback) {
            self.over.insert(before.playback);
        }
        assert!(!self.over.contains(&segment.playback), "I8: two playbacks sound in turns: {segment:?}");
        self.ear.push((now, segment));
        let count = self.counts.entry(segment).or_default();
        count.released += 1;
        if self.losing > 0 {
            self.losing -= 1;
            self.lost += 1;
            count.lost += 1;
        }
        let last = head.released == head.frames;
        let (purpose, text) = self.purposes[&segment].clone();
        if last {
            self.mouth.pop_front();
            self.heard.push((now, purpose, text));
            events.push(PlaybackEvent::Sent { segment, at, packet, generation });
        }
        Some(Released { segment, purpose, last })
    }

    fn begin_generation(&mut self, now: u64, same_receiver: bool) {
        let generation = Generation(self.generations.len() as u32);
        self.generations.push(Begun { generation, first_packet: packet(now) + 1, same_receiver, closed: false });
    }

    /// A report is about its own generation, and to their ends about those before it that the same receiver got.
    fn report(&mut self, now: u64, events: &mut Vec<PlaybackEvent>) {
        let (highest, cumulative_lost, at) = (packet(now), self.lost, Time(now));
        let Some(own) = self.generations.iter().rposition(|begun| begun.first_packet <= highest) else { return };
        let mut from = own;
        while from > 0 && self.generations[from].same_receiver {
            from -= 1;
        }
        for index in from..own {
            let end = self.generations[index + 1].first_packet - 1;
            let begun = &mut self.generations[index];
            if !begun.closed && begun.first_packet <= end {
                begun.closed = true;
                events.push(PlaybackEvent::Report { generation: begun.generation, highest_packet: end, cumulative_lost, at });
            }
        }
        let generation = self.generations[own].generation;
        events.push(PlaybackEvent::Report { generation, highest_packet: highest, cumulative_lost, at });
    }
}

/// A packet leaves every 20 ms, with words or with silence.
fn packet(now: u64) -> u64 {
    1_000 + now / FRAME
}

/// Every second segment has a map of its words.
fn words(text: &str, duration_ms: u64, index: u32) -> Vec<Word> {
    if index.is_multiple_of(2) {
        return Vec::new();
    }
    let ends = text.char_indices().filter(|(_, ch)| ch.is_whitespace()).map(|(at, _)| at).chain([text.len()]);
    let end_ms = |at: usize| (at as u64 * duration_ms).div_ceil(text.len().max(1) as u64) as u32;
    ends.map(|at| Word { end_byte: at as u32, end_ms: end_ms(at) }).collect()
}

/// What the voice and the mouth hold: more is lost.
const SEGMENTS_MAX: usize = 64;
const HELD_MS_MAX: u64 = 60_000;
