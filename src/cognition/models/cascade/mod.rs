//! A cascade of OpenAI-compatible services: what the caller says is written down by one, answered by another, and spoken by the box.
//!
//! * [`language`](super::super::language): what is sent to them, and what comes.
//! * [`session`]: what a conversation has to do with them: a pure state machine, without I/O and clock.
//! * [`Cascade`]: the model, and the task of each call that brings the two together.
//!
//! Names of models and services are configuration. Nothing of the voice, and nothing that knows what is durable, may enter.

mod model;
pub mod session;
mod task;

pub use model::{Cascade, CascadeError, Observer};
