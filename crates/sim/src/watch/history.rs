//! I7: settled history equals what the ear heard. No word more: a segment counts for no more than its frames that were released. None
//! less than the evidence allows: what a report covers without loss counts, and so do the words of a segment that was cut after
//! the far end must have played them.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::conversation::{Effect, Evidence, Generation, HeardText, Mark, PlaybackEvent, SegmentRef, Standing};
use recado_core::ids::PlaybackId;

use super::FAR_BUFFER;
use crate::violation::{Findings, Invariant};
use crate::voice::{FRAME, Voice};

/// What counts as heard in one call.
#[derive(Debug, Default)]
pub struct History {
    heard: BTreeSet<SegmentRef>,
    playing: BTreeMap<SegmentRef, Playing>,
    /// Segments whose last frame has left, and that no report has covered yet.
    sent: BTreeMap<SegmentRef, Sent>,
    /// When each playback was told to stop (ms).
    clears: BTreeMap<PlaybackId, u64>,
    /// Whether any report has ever shown loss, or copies that hide it: what that is charged to is the core's to say.
    lossy: bool,
    /// Whether a machine hears.
    machine: bool,
    /// Whether the channel has marks: then they are its evidence, and reports are none.
    marks: bool,
    /// Segments whose mark came back before their last frame had left.
    too_soon: BTreeSet<SegmentRef>,
    /// What must count as heard once the input has been taken in.
    due: Vec<Due>,
    /// Segments that a report covers without loss, and when the far end has played them (ms): from then on they must count.
    reported: BTreeMap<SegmentRef, u64>,
    /// When the far end stopped listening, the last time (ms): what it had not played by then need not count.
    stopped_listening: Option<u64>,
}

#[derive(Debug)]
struct Playing {
    generation: Generation,
}

#[derive(Debug)]
struct Sent {
    packet: u64,
    generation: Generation,
    at: u64,
}

#[derive(Debug)]
enum Due {
    Whole(SegmentRef),
    /// So much of it was played (ms).
    Part(SegmentRef, u64),
}

impl History {
    /// Of a call whose channel gives evidence up to `best`.
    pub(super) fn of(best: Evidence) -> Self {
        Self { marks: best == Evidence::Marked, ..Self::default() }
    }

    /// A machine heard what was said, and will hear the rest: none of it counts.
    pub(super) fn machine_heard(&mut self) {
        (self.machine, self.sent) = (true, BTreeMap::new());
    }

    /// The call is over, or was put on hold.
    pub(super) fn stops_listening(&mut self, now: u64) {
        self.stopped_listening = Some(now);
        self.sent.retain(|_, sent| sent.at + FAR_BUFFER <= now);
        self.reported.retain(|_, played_at| *played_at <= now);
    }

    /// Whether a segment counts as heard.
    pub(super) fn counts(&self, segment: SegmentRef) -> bool {
        self.heard.contains(&segment)
    }

    pub(super) fn clears(&mut self, playback: PlaybackId, now: u64) {
        self.clears.insert(playback, now);
    }

    /// The media path tells the conversation something.
    pub(super) fn told(&mut self, event: &PlaybackEvent, now: u64) {
        match *event {
            PlaybackEvent::Started { segment, generation, .. } => {
                self.playing.insert(segment, Playing { generation });
            }
            PlaybackEvent::Sent { segment, packet, generation, at } => {
                // What straddles two generations is nobody's evidence.
                let whole = self.playing.remove(&segment).filter(|playing| playing.generation == generation);
                let cut = |end| self.clears.get(&segment.playback).is_some_and(|asked| *asked <= end);
                let began = |end| at.0 <= end || cut(end);
                let played = self.stopped_listening.is_none_or(|end| at.0 + FAR_BUFFER <= end || !began(end));
                let whole = whole.filter(|_| !self.machine && played);
                self.sent.extend(whole.map(|_| (segment, Sent { packet, generation, at: at.0 })));
            }
            PlaybackEvent::Cleared { playback, cut, .. } => {
                let in_time = self.clears.remove(&playback).is_some_and(|asked| now < asked + CLEAR_MAX);
                if let Some((index, released_ms)) = cut.filter(|_| in_time) {
                    let segment = SegmentRef { playback, index };
                    if self.playing.contains_key(&segment) {
                        self.due.push(Due::Part(segment, released_ms.saturating_sub(FAR_BUFFER + FRAME)));
                    }
                }
                self.playing.retain(|segment, _| segment.playback != playback);
            }
            PlaybackEvent::Marked { segment, back, .. } => {
                let sent = self.sent.remove(&segment).filter(|_| !self.too_soon.contains(&segment));
                if sent.is_none() {
                    // One that comes back too soon puts its segment in doubt.
                    self.too_soon.insert(segment);
                }
                self.due.extend(sent.filter(|_| back == Mark::Played).map(|_| Due::Whole(segment)));
            }
            PlaybackEvent::Report { .. } if self.marks => {}
            PlaybackEvent::Report { generation, highest_packet, cumulative_lost, .. } => {
                self.lossy |= cumulative_lost != 0;
                let (lossy, reported) = (self.lossy, &mut self.reported);
                self.sent.retain(|segment, sent| {
                    let covered = sent.generation == generation && sent.packet <= highest_packet;
                    if covered && !lossy && now < sent.at + LATE_MAX {
                        reported.insert(*segment, sent.at + FAR_BUFFER);
                    }
                    !covered
                });
            }
            _ => {}
        }
    }

    /// The conversation has taken an input in: what it counts as heard from now on, and what it had to.
    /// Where a machine listens, nothing has to.
    pub fn settles(&mut self, effects: &[Effect], voice: &Voice, machine: bool, findings: &mut Findings) {
        for effect in effects {
            if let Effect::Heard(heard) = effect {
                self.no_more_than_the_ear(heard, voice, findings);
            }
        }
        self.reported.retain(|segment, played_at| {
            let played = *played_at <= findings.now;
            self.due.extend(played.then_some(Due::Whole(*segment)));
            !played
        });
        for due in std::mem::take(&mut self.due).into_iter().filter(|_| !machine) {
            let (Due::Whole(segment) | Due::Part(segment, _)) = due;
            let Some((_, text)) = voice.purposes.get(&segment) else { continue };
            let Due::Part(_, played_ms) = due else {
                let heard = self.heard.contains(&segment);
                findings.check(heard, Invariant::I7, || format!("{segment:?} was reported without loss and does not count: {text:?}"));
                continue;
            };
            let frames = voice.count(segment).frames;
            let least = words_by(text, played_ms, frames * FRAME);
            let heard = effects.iter().find_map(|effect| match effect {
                Effect::Heard(heard) if heard.segment == segment => Some(heard.text.split_whitespace().count()),
                _ => None,
            });
            findings.check(heard.unwrap_or(0) >= least, Invariant::I7, || {
                format!("{segment:?} was cut, {played_ms} ms of it were played, and {heard:?} words count, not {least}: {text:?}")
            });
        }
    }

    fn no_more_than_the_ear(&mut self, heard: &HeardText, voice: &Voice, findings: &mut Findings) {
        let count = voice.count(heard.segment);
        let text = voice.purposes.get(&heard.segment).map_or("", |(_, text)| text.as_str());
        findings.check(text.starts_with(&heard.text), Invariant::I7, || format!("words that were never said: {heard:?} of {text:?}"));
        if !matches!(heard.standing, Standing::Settled(_)) {
            return; // By the send clock, which a media thread that is held up is behind; or in doubt.
        }
        let (said, all) = (heard.text.len() as u64, text.len() as u64);
        let fits = said * count.frames <= count.credit() * all;
        findings.check(fits, Invariant::I7, || format!("{heard:?}, and the ear heard {count:?} of {text:?}"));
        let once = self.heard.insert(heard.segment);
        findings.check(once, Invariant::I7, || format!("a segment is heard twice: {heard:?}"));
    }
}

/// How many words of a text have ended after so much of it.
fn words_by(text: &str, played_ms: u64, duration_ms: u64) -> usize {
    let reached = (text.len() as u64 * played_ms / duration_ms.max(1)) as usize;
    let ends = text.char_indices().filter(|(_, ch)| ch.is_whitespace()).map(|(at, _)| at);
    ends.filter(|end| *end <= reached).count()
}

/// A clear that the voice confirms later than this is taken as confirmed before (ms).
const CLEAR_MAX: u64 = 500;

/// Evidence that is later than this counts for nothing (ms).
const LATE_MAX: u64 = 60_000;
