//! The requests of a cascade: one client for each part, which keeps its connections.

mod endpoint;
mod exchange;
mod fault;
mod part;

pub use endpoint::Endpoint;
pub use fault::{Again, Fault, Reach};
pub use part::{Language, Transcription};
