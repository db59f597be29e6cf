//! The OpenAI Realtime protocol: a model that hears and speaks, in a service elsewhere.
//!
//! * [`wire`]: its events, as JSON. Knows no state.
//! * [`session`]: what a model session has to do with them: a pure state machine, without I/O and clock.
//! * [`Link`]: the task that brings the two together over a connection ([`super::transport`]).
//!
//! Audio passes through in the session's format: what changes formats (`surface`) may not enter, and neither may anything that knows
//! what is durable. Names of models and services are configuration.

mod link;
pub mod session;
pub mod wire;

pub use link::{Link, LinkHandle, News, Told, Totals};
