//! The Gemini Live protocol: a model that hears and speaks, in a service elsewhere.
//!
//! * [`wire`]: its messages, as JSON. Knows no state.
//! * [`session`]: what a model session has to do with them: a pure state machine, without I/O and clock.
//! * [`Link`]: a session with its connection ([`super::link`]).
//!
//! The service names no response, can cancel none, and forgets nothing of what it has said: that what comes belongs to what was asked
//! for, that nothing of a cancelled response is heard, and what the model is told of what was heard, is the session's to see to.

pub mod session;
pub mod wire;

pub use super::link::Told;
pub use session::Totals;

/// A session that is held, over as many connections as it takes.
pub type Link = super::link::Link<session::Session>;
/// Where it is told.
pub type LinkHandle = super::link::LinkHandle<Told>;
/// What comes of it.
pub type News = super::link::News<session::Said, Totals>;
