//! Audio, as far as it matters when it sounds: how much there is of it.

use recado_core::conversation::Word;

/// One frame of telephone audio: what a packet carries (ms).
pub const FRAME_MS: u64 = 20;

/// The same in samples at 8 kHz.
pub const FRAME_SAMPLES: usize = 160;

/// The same per millisecond.
pub(crate) const SAMPLES_PER_MS: u64 = 8;

/// Audio that can be released in frames.
pub trait Audio {
    /// Its length in samples at 8 kHz.
    fn samples(&self) -> usize;

    /// Whether it goes on from the segment that is said just before it, in the middle of a sentence or a word: no pause is made between the two,
    /// and where it comes late, none is added.
    fn continues(&self) -> bool {
        false
    }
}

/// A segment's audio, with what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered<A> {
    /// The audio.
    pub audio: A,
    /// Its length (ms).
    pub duration_ms: u64,
    /// Where its words end; empty where the engine gives no map.
    pub words: Vec<Word>,
    /// Whether most of it is below -60 dBFS.
    pub near_silent: bool,
}
