//! The real voice and the real mouth of a call, between a speech engine, a way to the media path, a network and a far end that
//! are simulated. The ear at the far end counts audible frames: what it heard is never asked of the box.

mod engine;
mod far_end;
mod line;

use std::collections::{BTreeMap, VecDeque};

use recado_core::conversation::{Acoustic, AcousticEdge, AcousticEpoch, Content, PlaybackEvent, Purpose, SegmentRef};
use recado_core::ids::PlaybackId;
use recado_core::time::Time;
use recado_voice::{Command, FRAME_SAMPLES, Mouth, PlaybackCommand};

pub use engine::{Engine, Frames};
pub use far_end::{Count, FarEnd};
pub use line::Line;

/// One frame: what a packet carries (ms).
pub const FRAME: u64 = recado_voice::FRAME_MS;

/// The voice of a call, and all that it speaks through.
pub struct Voice {
    order: recado_voice::Voice<Frames, Remote>,
    mouth: Mouth<Frames>,
    /// Renders words.
    pub engine: Engine,
    /// The network, and who hears.
    pub far_end: FarEnd,
    /// How long a command takes to the media path (ms).
    link_ms: u64,
    to_mouth: VecDeque<(u64, Command<Frames, Remote>)>,
    told: VecDeque<PlaybackEvent>,
    /// What each segment is for, and its words.
    pub purposes: BTreeMap<SegmentRef, (Purpose, String)>,
    /// The media thread is held up until then (ms): nothing leaves the box, no command is taken, and nothing that came is seen.
    pub stalled_until: u64,
    /// Since when it is, or was the last time (ms).
    stalled_from: u64,
    /// Whether packets leave; on hold they do not.
    sends: bool,
    /// Whether they may, by the latest re-INVITE: the media path learns of it later.
    may_send: bool,
    /// The next frame interval that has not passed (ms).
    next_tick: u64,
    /// When a frame left last.
    released_at: Option<u64>,
    /// Segments that the ear heard to their end, and when the last frame left.
    heard: Vec<(u64, SegmentRef)>,
    closed: bool,
    /// Since when the caller's acoustic state stands as it does (ms).
    pub acoustic_since: u64,
    /// So many of the next commands to go on are lost.
    pub deaf: u32,
}

/// What a re-INVITE agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Remote {
    sends: bool,
    /// Whether it is somebody else who hears from now on.
    somebody_else: bool,
}

/// A frame that left the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    /// The segment that it is of.
    pub segment: SegmentRef,
    /// What that is for.
    pub purpose: Purpose,
    /// Its place in the segment, from 0.
    pub frame: u64,
    /// Whether it was the segment's last.
    pub last: bool,
}

impl Voice {
    /// The voice of a call that begins at `now`, whose commands take so long to the media path, on a channel with marks or without.
    pub fn new(now: u64, link_ms: u64, line: Line, marks: bool) -> Self {
        // Close to the wrap now and then.
        let first_sequence = (line::mix(line.seed ^ now) as u16) | if now.is_multiple_of(3) { 0xFF00 } else { 0 };
        Self {
            order: recado_voice::Voice::default(),
            mouth: Mouth::new(first_sequence, true),
            engine: Engine::new(),
            far_end: FarEnd::new(now, line, marks),
            link_ms,
            to_mouth: VecDeque::new(),
            told: VecDeque::new(),
            purposes: BTreeMap::new(),
            stalled_until: 0,
            stalled_from: 0,
            sends: true,
            may_send: true,
            next_tick: now.next_multiple_of(FRAME),
            released_at: None,
            heard: Vec::new(),
            closed: false,
            acoustic_since: now,
            deaf: 0,
        }
    }

    /// Says a segment.
    pub fn speak(&mut self, segment: SegmentRef, purpose: Purpose, content: &Content, epoch: AcousticEpoch, now: u64) {
        self.purposes.insert(segment, (purpose, content.text().to_owned()));
        self.far_end.expect(segment, engine::frames(content.text()));
        if self.order.speak(segment, epoch) {
            self.engine.render(segment, content.text(), now);
        }
        self.pass_on(now);
    }

    /// Goes on with a paused playback.
    pub fn resume(&mut self, playback: PlaybackId, epoch: AcousticEpoch, now: u64) {
        if self.deaf > 0 {
            self.deaf -= 1;
            return;
        }
        self.order.resume(playback, epoch);
        self.pass_on(now);
    }

    /// Stops a playback.
    pub fn clear(&mut self, playback: PlaybackId, now: u64) {
        self.order.clear(playback);
        self.pass_on(now);
    }

    /// A re-INVITE: whoever hears now may be somebody else.
    pub fn renegotiated(&mut self, now: u64) {
        self.catch_up(now);
        let somebody_else = line::mix(now) & 1 == 1;
        self.order.renegotiated(Remote { sends: self.may_send, somebody_else });
        self.pass_on(now);
    }

    /// A re-INVITE puts the call on hold, or takes it back.
    pub fn hold(&mut self, on: bool, now: u64) {
        self.catch_up(now);
        self.may_send = !on;
        self.order.renegotiated(Remote { sends: self.may_send, somebody_else: false });
        self.pass_on(now);
    }

    /// The far end hangs up: nothing more is sent, and what it had not played out is not heard.
    pub fn close(&mut self, now: u64) {
        self.catch_up(now);
        self.far_end.hang_up(now);
        self.closed = true;
        self.engine.stop();
        self.order.close();
        self.pass_on(now);
    }

    /// The caller's acoustic clock moves, as the media path sees it; `at` is when the sound was.
    pub fn edge(&mut self, to: Acoustic, at: u64, now: u64) -> AcousticEdge {
        let edge = AcousticEdge { to, epoch: AcousticEpoch(self.mouth.epoch().0 + 1), at: Time(at) };
        self.acoustic_since = now;
        let Self { mouth, told, .. } = self;
        mouth.edge(edge, Time(now), &mut |event| told.push_back(event));
        edge
    }

    /// Lets it do what is due. Says which frame left the box.
    pub fn tick(&mut self, now: u64) -> Option<Released> {
        while let Some((segment, rendered)) = self.engine.ready(now) {
            self.order.rendered(segment, rendered);
        }
        self.pass_on(now);
        self.catch_up(now);
        let released = self.frame(now);
        while !self.stalled(now)
            && let Some(report) = self.far_end.report(now)
        {
            let Self { mouth, told, .. } = self;
            mouth.report(report.extended_highest, report.cumulative_lost, Time(now), &mut |event| told.push_back(event));
        }
        while !self.stalled(now)
            && let Some((segment, back)) = self.far_end.mark(now)
        {
            self.told.push_back(PlaybackEvent::Marked { segment, back, at: Time(now) });
        }
        released
    }

    /// The next thing that the voice or the media path tells.
    pub fn told(&mut self) -> Option<PlaybackEvent> {
        self.told.pop_front()
    }

    /// When it does something next, by itself.
    pub fn next(&self, now: u64) -> Option<u64> {
        let frame = self.mouth.next_frame_in().filter(|_| self.sends).map(|intervals| self.next_tick + intervals * FRAME);
        let command = self.to_mouth.front().map(|(at, _)| *at);
        let media = [frame, command, self.far_end.next()].into_iter().flatten().min().map(|at| at.max(self.stalled_until));
        [self.engine.next(), media].into_iter().flatten().min().map(|at| at.max(now + 1))
    }

    /// The media thread is held up for so long.
    pub fn stall(&mut self, ms: u64, now: u64) {
        if !self.stalled(now) {
            self.stalled_from = now;
        }
        self.stalled_until = now + ms;
    }

    /// Whether a command that was due at `since`, and takes up to `grace_ms` to the media path, may not have come yet because the
    /// thread was held up meanwhile: what found no room then comes after that.
    pub fn held_up(&self, since: u64, grace_ms: u64, now: u64) -> bool {
        self.stalled_from <= since + grace_ms && since <= self.stalled_until && now <= self.stalled_until + grace_ms
    }

    /// Whether the media thread is held up.
    pub fn stalled(&self, now: u64) -> bool {
        now < self.stalled_until
    }

    /// Whether anything waits to be said.
    pub fn busy(&self) -> bool {
        !self.order.is_idle() || !self.to_mouth.is_empty() || !self.mouth.is_empty()
    }

    /// The segment that sounds, or sounded last, and whether its last frame has left.
    pub fn sounding(&self) -> Option<(SegmentRef, bool)> {
        let (_, segment) = self.far_end.ear.last()?;
        Some((*segment, self.count(*segment).released == self.count(*segment).frames))
    }

    /// Whether a frame of this playback has left the box.
    pub fn begun(&self, playback: PlaybackId) -> bool {
        let (first, last) = (SegmentRef { playback, index: 0 }, SegmentRef { playback, index: u32::MAX });
        self.far_end.counts.range(first..=last).any(|(_, count)| count.released > 0)
    }

    /// Whether a frame has left the box within the last `ms`, or would have if the media thread were not held up.
    pub fn sounds(&self, now: u64, ms: u64) -> bool {
        now <= self.stalled_until + ms || self.released_at.is_some_and(|at| now <= at + ms)
    }

    /// The caller's acoustic state, as the media path knows it.
    pub fn acoustic(&self) -> Acoustic {
        self.mouth.acoustic()
    }

    /// What became of a segment's frames.
    pub fn count(&self, segment: SegmentRef) -> Count {
        self.far_end.counts.get(&segment).copied().unwrap_or_default()
    }

    /// Whether the ear heard a segment to its end.
    pub fn hears(&self, segment: SegmentRef) -> bool {
        self.count(segment).heard()
    }

    /// Segments that the ear heard to their end: when the last frame left the box (ms), what it is for, and its words.
    pub fn heard(&self) -> impl Iterator<Item = (u64, Purpose, &str)> {
        let known = |(at, segment): &(u64, SegmentRef)| self.purposes.get(segment).map(|(purpose, text)| (*at, *purpose, text.as_str()));
        self.heard.iter().filter(|(_, segment)| self.hears(*segment)).filter_map(known)
    }

    /// Passes on what the voice has for the media path, and lets the mouth do what has reached it.
    fn pass_on(&mut self, now: u64) {
        self.told.extend(std::iter::from_fn(|| self.order.told()));
        loop {
            while self.to_mouth.len() < ROOM
                && let Some(command) = self.order.command()
            {
                self.to_mouth.push_back((now + self.link_ms, command));
            }
            if self.stalled(now) || self.to_mouth.front().is_none_or(|(at, _)| *at > now) {
                return;
            }
            if let Some((_, command)) = self.to_mouth.pop_front() {
                self.obey(command, now);
            }
        }
    }

    fn obey(&mut self, command: Command<Frames, Remote>, now: u64) {
        self.catch_up(now);
        let Self { mouth, told, .. } = self;
        let mut tell = |event| told.push_back(event);
        match command {
            Command::Playback(command) => {
                if matches!(command, PlaybackCommand::Clear { .. }) {
                    self.far_end.clear(now);
                }
                mouth.command(command, Time(now), &mut tell);
            }
            Command::Remote(Remote { sends, somebody_else }) => {
                // Until then it is the one before who hears.
                self.far_end.renegotiated(somebody_else, now);
                mouth.renegotiated(sends, Time(now), &mut tell);
                self.sends = sends;
            }
            Command::Close => mouth.close(),
        }
        while self.mouth.spent().is_some() {}
    }

    /// Frame intervals that passed without a frame of ours: in each a packet of silence left, unless the call was on hold, over,
    /// or the media thread held up.
    fn catch_up(&mut self, now: u64) {
        while self.next_tick < now {
            let until = if self.next_tick < self.stalled_until { now.min(self.stalled_until) } else { now };
            let intervals = (until - self.next_tick).div_ceil(FRAME);
            if self.sends && !self.closed && self.next_tick >= self.stalled_until {
                let first = self.mouth.silence(intervals);
                self.far_end.silence(first, intervals, self.next_tick);
            }
            self.next_tick += intervals * FRAME;
        }
    }

    /// The interval that is due, if there is something to say in it.
    fn frame(&mut self, now: u64) -> Option<Released> {
        if now != self.next_tick || self.stalled(now) || !self.sends || self.closed {
            return None;
        }
        let mut frame = 0;
        let Self { mouth, told, .. } = self;
        let sink = |_: &Frames, part: std::ops::Range<usize>| frame = (part.start / FRAME_SAMPLES) as u64;
        let released = mouth.frame(Time(now), sink, &mut |event| told.push_back(event))?;
        while self.mouth.spent().is_some() {}
        let segment = released.segment;
        self.next_tick += FRAME;
        self.released_at = Some(now);
        self.far_end.frame(released.packet, segment, frame, now);
        let count = self.count(segment);
        let last = frame + 1 == count.frames;
        if last {
            self.heard.push((now, segment));
            self.far_end.mark_behind(segment, now);
        }
        let (purpose, _) = self.purposes.get(&segment)?;
        Some(Released { segment, purpose: *purpose, frame, last })
    }
}

/// Commands that have room on the way to the media path: few, so that some are held back.
const ROOM: usize = 4;

#[cfg(test)]
mod tests;
