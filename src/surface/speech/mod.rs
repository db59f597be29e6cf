//! Speech: turns text and prompt files into telephone audio (8 kHz mono), with a map from time back to words.
//!
//! Nothing here sounds: the audio goes to the voice, which alone decides when and whether a sample leaves the box.
//! No channel, no conversation state and no model may enter.

mod error;
pub mod espeak;
pub(crate) mod level;
pub mod phrases;
pub mod pieces;
mod port;
mod timing;
pub mod wav;

pub use error::SpeechError;
pub use port::{SpeechAudio, Synthesis, Synthesiser, Utterance, Voice, WordMark};
