//! Speech: turns text and prompt files into telephone audio (8 kHz mono), with a map from time back to words.
//!
//! Nothing here sounds: the audio goes to the voice, which alone decides when and whether a sample leaves the box.
//! No channel, no conversation state and no model may enter.

pub mod clauses;
pub mod command;
mod error;
pub mod espeak;
pub mod http;
pub(crate) mod level;
pub mod phrases;
pub mod pieces;
pub mod piper;
mod port;
mod process;
pub mod stand_in;
mod text;
mod timing;
pub mod wav;

#[cfg(test)]
mod engine_faults;
#[cfg(test)]
mod http_faults;

pub use clauses::clauses;
pub use error::SpeechError;
pub use port::{SpeechAudio, Synthesis, Synthesiser, Utterance, Voice, WordMark};
