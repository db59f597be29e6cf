//! Interaction surface: listens and speaks. The only plane that may make sound.
//!
//! Nothing here decides *what* to say or *when* a delivery may be told: that is `recado-core`. No tool, model or
//! store may be reached from this room.

pub mod listen;
pub mod media;
mod network;
pub mod sip;
pub mod speech;
pub mod voice;

pub use network::Network;
