//! The playback clock: audio of ours, from being asked for to being settled.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::effect::{Edge, Purpose};
use super::evidence::SentSegment;
use super::history::heard_text;
use super::input::{AcousticEpoch, Content, Generation, SegmentRef, Word};
use crate::faults::{Fault, fault};
use crate::ids::{PlaybackId, ResponseId};
use crate::policy::Priority;
use crate::time::Time;
use crate::timers::{Timer, Timers};

/// States of a playback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaybackState {
    /// Asked for; nothing has left the box, or what has is over and the next segment is long in coming.
    Queued,
    /// Frames leave.
    Playing,
    /// Stopped because speech is suspected; nothing was discarded.
    Paused,
    /// All has left the box and evidence is awaited. It holds nobody up.
    Drained,
    /// Its evidence is settled.
    Finished {
        /// How much of it was heard (ms).
        heard_ms: u64,
    },
    /// It was stopped.
    Cleared {
        /// How much of it was heard, by the send clock less what had not arrived (ms); evidence settles what was sent whole.
        heard_ms: u64,
    },
    /// Nothing of it could be made, or the voice never said what became of it.
    Lost,
}

/// Words to be said, and what for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) purpose: Purpose,
    pub(super) content: Content,
}

/// One playback: segments in the order in which they were given to the voice.
#[derive(Debug, Clone)]
pub(super) struct Playback {
    pub(super) id: PlaybackId,
    pub(super) of: Of,
    pub(super) priority: Priority,
    pub(super) state: PlaybackState,
    pub(super) segments: Vec<Segment>,
    /// What comes next, before anything else may follow: the voice holds only so much, or refused it because of a sound
    /// that may turn out to be none.
    pub(super) to_give: VecDeque<Piece>,
    /// How much of it is known to have been heard (ms).
    pub(super) heard_ms: u64,
    /// When it was told to go on, if it is paused and the caller is quiet.
    pub(super) told_to_resume: Option<Time>,
}

/// What a playback says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// A delivery, on its own.
    Announcement,
    /// A response, with what rides on it.
    Response(ResponseId),
    /// Words whose response is over: an acceptance or a refusal that comes late, or was cut.
    Leftover,
}

/// One segment of a playback.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) piece: Piece,
    pub(super) stage: Stage,
    pub(super) given_at: Time,
    /// The epoch that it was given in: in any later one the voice refuses it.
    pub(super) epoch: AcousticEpoch,
    pub(super) audio: Option<Audio>,
    pub(super) started: Option<Start>,
    /// Whether the voice took too long over it: unless its last frame has left after all, it is given up.
    pub(super) stuck: bool,
    /// Whether its mark came back before its last frame had left.
    pub(super) mark_too_soon: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Audio {
    pub(super) ready_at: Time,
    pub(super) duration_ms: u64,
    pub(super) words: Vec<Word>,
    pub(super) near_silent: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) at: Time,
    pub(super) packet: u64,
    pub(super) generation: Generation,
}

/// How far a segment has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Given to the voice.
    Given,
    /// Its frames leave; so much has left when last told (ms).
    Playing { released_ms: u64 },
    /// Its last frame has left.
    Sent,
    /// Its audio could not be made.
    Lost,
    /// The voice refused it before any of it sounded: its words are said anew, as another segment.
    Refused,
}

impl Playback {
    pub(super) fn new(id: PlaybackId, of: Of, priority: Priority) -> Self {
        Self {
            id,
            of,
            priority,
            state: PlaybackState::Queued,
            segments: Vec::new(),
            to_give: VecDeque::new(),
            heard_ms: 0,
            told_to_resume: None,
        }
    }

    /// Takes it to another state.
    pub(super) fn to(&mut self, to: PlaybackState, edges: &mut Vec<Edge>) {
        let from = std::mem::replace(&mut self.state, to);
        if to != PlaybackState::Paused {
            self.told_to_resume = None;
        }
        if from != to {
            edges.push(Edge::Playback { playback: self.id, from, to });
        }
    }

    /// Adds a piece, and names the segment that it became.
    pub(super) fn give(&mut self, piece: Piece, now: Time, epoch: AcousticEpoch) -> SegmentRef {
        let index = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        self.segments.push(Segment {
            piece,
            stage: Stage::Given,
            given_at: now,
            epoch,
            audio: None,
            started: None,
            stuck: false,
            mark_too_soon: false,
        });
        SegmentRef { playback: self.id, index }
    }

    pub(super) fn segment(&mut self, index: u32) -> Option<&mut Segment> {
        self.segments.get_mut(index as usize)
    }

    /// Whether nothing of it is left to leave the box.
    pub(super) fn all_left(&self) -> bool {
        self.to_give.is_empty() && self.segments.iter().all(Segment::gone)
    }

    /// Whether the voice may be given more of it in `epoch`. What was given in an earlier one and has not begun may still
    /// be refused, and nothing may overtake it; and the voice holds only so much.
    pub(super) fn takes_more(&self, epoch: AcousticEpoch) -> bool {
        let waiting = || self.segments.iter().filter(|segment| !segment.gone());
        let characters: usize = waiting().map(|segment| segment.piece.content.text().chars().count()).sum();
        let refusable = |segment: &Segment| segment.stage == Stage::Given && segment.epoch != epoch;
        waiting().count() < AHEAD_SEGMENTS_MAX && characters < AHEAD_CHARACTERS_MAX && !waiting().any(refusable)
    }

    /// Whether the voice has as much silence as it needs to go on without a gap.
    pub(super) fn has_silence_enough(&self) -> bool {
        let waiting = self.segments.iter().filter(|segment| !segment.gone() && segment.piece.content.is_silence());
        waiting.count() >= AHEAD_SILENCE_MAX
    }

    /// The voice refused a segment that has not begun, as it will refuse all that were given after it.
    pub(super) fn refused(&mut self, index: u32, edges: &mut Vec<Edge>) {
        for segment in self.segments.iter_mut().skip(index as usize).filter(|segment| segment.stage == Stage::Given) {
            segment.stage = Stage::Refused;
            self.to_give.push_back(segment.piece.clone());
        }
        if self.head().is_none() {
            self.to(PlaybackState::Queued, edges);
        }
    }

    /// Whether none of it has sounded.
    pub(super) fn silent(&self) -> bool {
        self.segments.iter().all(|segment| segment.started.is_none())
    }

    /// When the segment at its head is taken for lost, unless something is heard of it. A paused playback waits for the
    /// caller, not for its audio.
    pub(super) fn stuck_at(&self, timers: &Timers) -> Option<Time> {
        if self.state == PlaybackState::Paused {
            return None;
        }
        let at = self.head()? as usize;
        let head = self.segments.get(at)?;
        Some(match (head.started, &head.audio) {
            (Some(start), Some(audio)) => start.at.plus(audio.duration_ms).plus(timers.ms(Timer::PlaybackStalledMax)),
            _ => {
                // What is before it in the queue is no fault of its own.
                let free_since = at.checked_sub(1).and_then(|before| self.segments.get(before)).map_or(Time(0), Segment::last_known);
                head.given_at.max(free_since).plus(timers.ms(Timer::RenderMax))
            }
        })
    }

    /// When a playback that plays is without frames for too long, because its next segment has not begun (I20).
    pub(super) fn starved_at(&self, timers: &Timers) -> Option<Time> {
        let at = self.head()? as usize;
        let began = self.segments.get(at)?.started.is_some();
        let before = at.checked_sub(1).and_then(|before| self.segments.get(before)).map(Segment::last_known);
        (self.state == PlaybackState::Playing && !began && !fault(Fault::StarvedStillPlays))
            .then(|| before.unwrap_or(Time(0)).plus(timers.ms(Timer::PlaybackStalledMax)))
    }

    /// When a paused one that was told to go on is taken for unable to.
    pub(super) fn resume_due(&self, timers: &Timers) -> Option<Time> {
        Some(self.told_to_resume?.plus(timers.ms(Timer::ResumeMax)))
    }

    /// The first segment that has not left the box.
    pub(super) fn head(&self) -> Option<u32> {
        let at = self.segments.iter().position(|segment| !segment.gone())?;
        u32::try_from(at).ok()
    }

    /// Whether any of it, said or not, is for a purpose like this.
    pub(super) fn says(&self, purpose: impl Fn(&Purpose) -> bool) -> bool {
        let said = self.segments.iter().filter(|segment| segment.stage != Stage::Lost).map(|segment| &segment.piece.purpose);
        said.chain(self.to_give.iter().map(|piece| &piece.purpose)).any(purpose)
    }

    /// Whether anything that has not left the box is for a purpose like this.
    pub(super) fn has_left_to_say(&self, purpose: impl Fn(&Purpose) -> bool) -> bool {
        self.segments.iter().any(|segment| !segment.gone() && purpose(&segment.piece.purpose))
            || self.to_give.iter().any(|piece| purpose(&piece.purpose))
    }

    /// The voice went on at `at` from where it had paused.
    pub(super) fn resumed(&mut self, index: u32, at: Time, edges: &mut Vec<Edge>) {
        let Some(segment) = self.segment(index) else { return };
        let state = match (segment.stage, segment.started.as_mut()) {
            (Stage::Playing { released_ms }, Some(start)) => {
                start.at = Time(at.0.saturating_sub(released_ms));
                PlaybackState::Playing
            }
            _ => {
                // Paused before its first frame: it is waited for from here.
                segment.given_at = at;
                PlaybackState::Queued
            }
        };
        self.to(state, edges);
    }
}

impl Segment {
    /// Whether none of it is left to leave the box.
    pub(super) fn gone(&self) -> bool {
        matches!(self.stage, Stage::Sent | Stage::Lost | Stage::Refused)
    }

    /// When something was last known of it.
    fn last_known(&self) -> Time {
        let ended = self.started.map(|start| start.at.plus(self.duration_ms()));
        ended.unwrap_or(self.given_at)
    }

    /// How much of it has left the box, by the send clock (ms).
    pub(super) fn released_ms(&self, now: Time) -> u64 {
        match (self.stage, self.started) {
            // Counted from its start, unless the voice has said more lately where it stopped.
            (Stage::Playing { released_ms: 0 }, Some(start)) => now.since(start.at).min(self.duration_ms()),
            (Stage::Playing { released_ms }, _) => released_ms,
            (Stage::Sent, _) => self.duration_ms(),
            (Stage::Given | Stage::Lost | Stage::Refused, _) => 0,
        }
    }

    pub(super) fn duration_ms(&self) -> u64 {
        self.audio.as_ref().map_or(0, |audio| audio.duration_ms)
    }

    /// The words that were heard when `heard_ms` of it was.
    pub(super) fn heard(&self, heard_ms: u64) -> &str {
        match &self.audio {
            Some(audio) => heard_text(self.piece.content.text(), &audio.words, audio.duration_ms, heard_ms),
            None => "",
        }
    }

    /// What evidence is judged on, once its last frame has left.
    pub(super) fn sent(&self, at: Time, packet: u64, generation: Generation) -> SentSegment {
        let start = self.started.unwrap_or(Start { at, packet, generation });
        SentSegment {
            first_packet: start.packet,
            last_packet: packet,
            first_generation: start.generation,
            generation,
            started_at: start.at,
            sent_at: at,
            mark_too_soon: self.mark_too_soon,
            near_silent: self.audio.as_ref().is_some_and(|audio| audio.near_silent),
            duration_ms: self.duration_ms(),
        }
    }

    /// The piece that is left to be said when `heard_ms` of it was heard; none when nothing is.
    pub(super) fn rest(&self, heard_ms: u64) -> Option<Piece> {
        let purpose = self.piece.purpose;
        match &self.piece.content {
            // A recording has no map to begin in the middle at.
            whole @ (Content::Prompt { .. } | Content::Speech { .. }) => Some(Piece { purpose, content: whole.clone() }),
            Content::Text { text, language } => {
                let rest = text.get(self.heard(heard_ms).len()..).unwrap_or(text).trim_start();
                (!rest.is_empty()).then(|| Piece { purpose, content: Content::Text { text: rest.to_owned(), language: *language } })
            }
        }
    }
}

/// Segments that the voice is given ahead of what sounds: it holds 64.
const AHEAD_SEGMENTS_MAX: usize = 16;

/// Segments of silence that the voice is given ahead of what sounds: one that leaves, and the next.
const AHEAD_SILENCE_MAX: usize = 2;

/// Characters that the voice is given ahead of what sounds, before one more segment: about fifteen seconds. It holds sixty.
const AHEAD_CHARACTERS_MAX: usize = 250;
