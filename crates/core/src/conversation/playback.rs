//! The playback clock: audio of ours, from being asked for to being settled.

use serde::{Deserialize, Serialize};

use super::effect::Purpose;
use super::evidence::SentSegment;
use super::history::heard_text;
use super::input::{Content, Generation, SegmentRef, Word};
use crate::ids::{PlaybackId, ResponseId};
use crate::policy::Priority;
use crate::time::Time;
use crate::timers;

/// States of a playback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaybackState {
    /// Asked for; nothing has left the box.
    Queued,
    /// Frames leave.
    Playing,
    /// Stopped because speech is suspected; nothing was discarded.
    Paused,
    /// All has left the box and evidence is awaited. It holds nobody up.
    Drained,
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
    /// The response that it speaks; none for an announcement.
    pub(super) response: Option<ResponseId>,
    pub(super) priority: Priority,
    pub(super) state: PlaybackState,
    pub(super) segments: Vec<Segment>,
}

/// One segment of a playback.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) piece: Piece,
    pub(super) stage: Stage,
    pub(super) given_at: Time,
    pub(super) audio: Option<Audio>,
    pub(super) started: Option<Start>,
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
    /// Its audio could not be made, or got stuck.
    Lost,
}

impl Playback {
    pub(super) fn new(id: PlaybackId, response: Option<ResponseId>, priority: Priority) -> Self {
        Self { id, response, priority, state: PlaybackState::Queued, segments: Vec::new() }
    }

    /// Adds a piece, and names the segment that it became.
    pub(super) fn give(&mut self, piece: Piece, now: Time) -> SegmentRef {
        let index = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        self.segments.push(Segment { piece, stage: Stage::Given, given_at: now, audio: None, started: None });
        SegmentRef { playback: self.id, index }
    }

    pub(super) fn segment(&mut self, index: u32) -> Option<&mut Segment> {
        self.segments.get_mut(index as usize)
    }

    /// Whether nothing of it is left to leave the box.
    pub(super) fn all_left(&self) -> bool {
        self.segments.iter().all(Segment::gone)
    }

    /// When the segment at its head is taken for lost, unless something is heard of it. A paused playback waits for the
    /// caller, not for its audio.
    pub(super) fn stuck_at(&self) -> Option<Time> {
        if self.state == PlaybackState::Paused {
            return None;
        }
        let at = self.head()? as usize;
        let head = self.segments.get(at)?;
        Some(match (head.started, &head.audio) {
            (Some(start), Some(audio)) => start.at.plus(audio.duration_ms).plus(timers::PLAYBACK_STALLED_MAX),
            _ => {
                // What is before it in the queue is no fault of its own.
                let free_since = at.checked_sub(1).and_then(|before| self.segments.get(before)).map_or(Time(0), Segment::last_known);
                head.given_at.max(free_since).plus(timers::RENDER_MAX)
            }
        })
    }

    /// The first segment that has not left the box.
    pub(super) fn head(&self) -> Option<u32> {
        let at = self.segments.iter().position(|segment| !segment.gone())?;
        u32::try_from(at).ok()
    }

    /// Whether anything that has not left the box is for a purpose like this.
    pub(super) fn has_left_to_say(&self, purpose: impl Fn(&Purpose) -> bool) -> bool {
        self.segments.iter().any(|segment| !segment.gone() && purpose(&segment.piece.purpose))
    }

    /// The voice went on at `at` from where it had paused.
    pub(super) fn resumed(&mut self, index: u32, at: Time) {
        let Some(segment) = self.segment(index) else { return };
        if let (Stage::Playing { released_ms }, Some(start)) = (segment.stage, segment.started.as_mut()) {
            start.at = Time(at.0.saturating_sub(released_ms));
        }
    }
}

impl Segment {
    /// Whether none of it is left to leave the box.
    pub(super) fn gone(&self) -> bool {
        matches!(self.stage, Stage::Sent | Stage::Lost)
    }

    /// When something was last known of it.
    fn last_known(&self) -> Time {
        let ended = self.started.map(|start| start.at.plus(self.duration_ms()));
        ended.unwrap_or(self.given_at)
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
            sent_at: at,
            near_silent: self.audio.as_ref().is_some_and(|audio| audio.near_silent),
            duration_ms: self.duration_ms(),
        }
    }

    /// The piece that is left to be said when `heard_ms` of it was heard; none when nothing is.
    pub(super) fn rest(&self, heard_ms: u64) -> Option<Piece> {
        let purpose = self.piece.purpose;
        match &self.piece.content {
            // A recording has no map to begin in the middle at.
            prompt @ Content::Prompt { .. } => Some(Piece { purpose, content: prompt.clone() }),
            Content::Text { text, language } => {
                let rest = text.get(self.heard(heard_ms).len()..).unwrap_or(text).trim_start();
                (!rest.is_empty()).then(|| Piece { purpose, content: Content::Text { text: rest.to_owned(), language: *language } })
            }
        }
    }
}
