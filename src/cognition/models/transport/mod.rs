//! The connection to a model's service: a WebSocket (RFC 6455) that carries JSON, over TLS where the address says so.
//!
//! Queues are bounded both ways. What does not read, does not write or does not answer for too long is taken for gone, and every
//! end of a connection has a reason ([`TransportError`]) that says whether another one may help. Nothing here knows what an event is for.

mod backoff;
mod connection;
mod endpoint;
mod error;

pub use backoff::Backoff;
pub use connection::{Connection, Incoming, ServerMessage};
pub use endpoint::Endpoint;
pub use error::TransportError;
