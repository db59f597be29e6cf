//! The OpenAI Live protocol: a model that hears and speaks at all times, in a service elsewhere.
//!
//! * [`wire`]: its events, as JSON. Knows no state.
//! * [`session`]: what a model session has to do with them: a pure state machine, without I/O and clock.
//! * [`Link`]: a session with its connection ([`super::link`]).
//!
//! The protocol has no responses, no turns and no cancel: the model speaks when it sees fit. What the caller hears of it is the
//! conversation's decision, and the session tells the model afterwards.

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
