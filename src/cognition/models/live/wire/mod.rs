//! The events of the protocol, as JSON: what is sent in exactly the documented form, what comes read liberally.
//!
//! Event names are those of the protocol's reference. Nothing here knows what an event is for.

mod client;
mod server;

pub use client::{AudioSettings, ClientBody, ClientEvent, Delegation, Format, InitialItem, OutputSettings, Part, Role, SessionSettings};
pub use server::{ContextWindow, DelegationFacts, ServerEvent, SessionFacts, Usage};

pub use crate::cognition::models::json::{ServerFault, Unreadable};
