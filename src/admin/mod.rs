//! Administration over HTTP, on loopback unless configured: health and metrics.
//!
//! It shows what others report here and changes nothing. Its server carries the callbacks of tools too, whose routes are
//! merged into the same router where the house is wired together.

mod health;
mod server;

pub use health::{HealthReport, HealthState, Impact, Status, StoreHealth};
pub use server::{AdminError, listen, router, serve};
