//! The events of the protocol, as JSON: what is sent in exactly the documented form, what comes read liberally.
//!
//! Only the form that is generally available is spoken; the beta's names and its header are gone from the services. Event names are
//! those of the protocol's reference. Nothing here knows what an event is for.

mod client;
mod item;
mod server;
mod settings;

pub use client::{ClientBody, ClientEvent, ResponseSettings};
pub use item::{Item, Part};
pub use server::{CachedTokens, CallFacts, InputTokens, ItemFacts, OutputTokens, PartFacts, RateLimit, ResponseFacts, ServerEvent, Usage};
pub use settings::{AudioSettings, Format, InputSettings, Modality, OutputSettings, SessionSettings, ToolChoice, Transcription, Vad};

pub use crate::cognition::models::json::{ServerFault, Unreadable};
