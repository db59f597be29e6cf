//! Listening: what the caller's audio means for the floor, in two steps.
//!
//! The *reflex* judges packets as they arrive, within 20–40 ms, and is often wrong; the *confirmation* judges ordered audio
//! behind the jitter buffer and is rarely wrong. [`Listener`] combines them into the caller's acoustic clock
//! (`Quiet → Suspected → Speaking → Trailing → Quiet`). Sans-IO: it reads no clock and, once made, allocates nothing.
//!
//! No word, model or decision about what to say may enter here.

mod confirm;
mod listener;
mod profile;
mod reflex;
mod tone;

pub use listener::Listener;
pub use profile::{Profile, ProfileError};

#[cfg(test)]
mod cases;
#[cfg(test)]
pub(crate) mod voice;
