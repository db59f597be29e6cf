//! The built-in model: a dialogue written down beforehand.
//!
//! It needs no network and no recognition. As it does not understand words, it counts turns: the n-th turn of the caller
//! gets the n-th answer. Keys and silences have answers of their own. The same calls give the same events, always.

mod dialogue;
mod error;
mod session;
mod step;
mod telling;

pub use dialogue::{Dialogue, Prompt};
pub use error::DialogueError;
pub use session::Scripted;
