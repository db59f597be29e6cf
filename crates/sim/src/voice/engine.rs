//! The speech engine: how long it takes over words, and that it may fail.

use recado_core::conversation::{SegmentRef, Word};
use recado_voice::{Audio, FRAME_MS, FRAME_SAMPLES, Rendered};

/// Audio that is only counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frames(pub u64);

impl Audio for Frames {
    fn samples(&self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX).saturating_mul(FRAME_SAMPLES)
    }
}

/// A speech engine. It renders everything at once, so that what was asked for last may be ready first.
#[derive(Debug)]
pub struct Engine {
    /// How long it takes over the next segments (ms).
    pub render_ms: u64,
    /// So many of the next segments can't be made.
    pub failing: u32,
    under_way: Vec<Rendering>,
}

#[derive(Debug)]
struct Rendering {
    segment: SegmentRef,
    ready_at: u64,
    rendered: Result<Rendered<Frames>, String>,
}

impl Engine {
    pub(super) fn new() -> Self {
        Self { render_ms: RENDER_MS, failing: 0, under_way: Vec::new() }
    }

    /// Begins to render a text. It finishes even if nobody waits for it any more.
    pub(super) fn render(&mut self, segment: SegmentRef, text: &str, now: u64) {
        let fails = self.failing > 0;
        self.failing = self.failing.saturating_sub(1);
        let frames = frames(text);
        let duration_ms = frames * FRAME_MS;
        let rendered = if fails {
            Err("no voice".to_owned())
        } else {
            Ok(Rendered { audio: Frames(frames), duration_ms, words: words(text, duration_ms, segment.index), near_silent: false })
        };
        self.under_way.push(Rendering { segment, ready_at: now + self.render_ms, rendered });
    }

    /// What is ready by `now`, in the order in which it was asked for.
    pub(super) fn ready(&mut self, now: u64) -> Option<(SegmentRef, Result<Rendered<Frames>, String>)> {
        let at = self.under_way.iter().position(|rendering| rendering.ready_at <= now)?;
        let Rendering { segment, rendered, .. } = self.under_way.remove(at);
        Some((segment, rendered))
    }

    /// When the next of it is ready.
    pub(super) fn next(&self) -> Option<u64> {
        self.under_way.iter().map(|rendering| rendering.ready_at).min()
    }

    /// The call is over.
    pub(super) fn stop(&mut self) {
        self.under_way.clear();
    }
}

/// How many frames a text takes to say.
pub(super) fn frames(text: &str) -> u64 {
    (text.chars().count() as u64 * CHARACTER_MS).div_ceil(FRAME_MS).max(FRAMES_MIN)
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

const RENDER_MS: u64 = 30;
const CHARACTER_MS: u64 = 60;
const FRAMES_MIN: u64 = 5;
