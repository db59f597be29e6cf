//! A cascade of OpenAI-compatible services: what the caller says is written down by one, answered by another, and spoken by the box.
//!
//! * [`wire`]: what goes over HTTP, as bytes and JSON. Knows no state.
//! * [`http`]: the requests, and why they fail. Knows no conversation.
//! * [`session`]: what a conversation has to do with them: a pure state machine, without I/O and clock.
//! * [`Cascade`]: the model, and the task of each call that brings the three together.
//!
//! Names of models and services are configuration. Nothing of the voice, and nothing that knows what is durable, may enter.

pub mod http;
mod model;
pub mod session;
mod task;
pub mod wire;

pub use model::{Cascade, CascadeError, Observer};
