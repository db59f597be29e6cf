//! The connection to a service: a WebSocket (RFC 6455), over TLS where the address says so.
//!
//! Queues are bounded both ways. What does not read, does not write or does not answer for too long is taken for gone, and every
//! end of a connection has a reason ([`TransportError`]) that says whether another one may help. Nothing here knows what an event is for.

mod backoff;
mod connection;
mod endpoint;
mod error;

pub use backoff::Backoff;
pub use connection::{Connection, Incoming};
pub use endpoint::Endpoint;
pub use error::TransportError;
