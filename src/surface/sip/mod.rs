//! SIP user agent server over UDP (RFC 3261): takes calls, keeps their dialogs, agrees on media, ends them.
//!
//! [`Endpoint`] is sans-IO: it opens no socket, reads no clock, draws no randomness, starts no thread. [`Server`] is its thin
//! shell on tokio. What may not enter this room: audio, models, the store, and what a call is for.
//!
//! Inside: `message` (bytes and typed values), `transaction` (each request once), `dialog` (order, routes, calls),
//! `sdp` and `offer_answer` (media), `endpoint` (all of it together).

mod dialog;
mod endpoint;
mod error;
mod media_plan;
mod message;
mod offer_answer;
mod sdp;
mod server;
mod timer;
mod token;
mod transaction;

pub use endpoint::{Admission, CallHandle, Command, Counters, EndCause, Endpoint, EndpointConfig, Event, Incoming, Output, Party, Users};
pub use error::SipError;
pub use media_plan::{LocalMedia, MediaPlan};

pub use server::Server;
pub use token::Seed;

#[cfg(test)]
mod tests;
