//! The requests: one client for each service, which keeps its connections. What a request is for, and whether another one follows, is for whoever asks
//! to know: no state of a conversation may enter.

mod doubt;
mod endpoint;
mod exchange;
mod fault;
mod part;

pub use endpoint::Endpoint;
pub use fault::{Again, Fault, Reach};
pub use part::{Language, Transcription};
