//! recado in virtual time: the real ledger and the real conversations, between callers, networks, tools, models and disks
//! that misbehave. What the caller heard is counted in a simulated ear, never in the box's own state.
//!
//! No I/O, no clock and no randomness of its own enters here: what happens is decided by who drives it.

pub mod journal;
pub mod rig;
pub mod store;
pub mod voice;
pub mod watch;

pub use rig::{Call, Rig, policies};
