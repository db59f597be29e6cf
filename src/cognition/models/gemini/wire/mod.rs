//! The messages of the protocol, as JSON: what is sent in exactly the documented form, what comes read liberally.
//!
//! Names are those of the protocol's reference (`BidiGenerateContent`), in the form that JSON gives them. Nothing here knows what a
//! message is for.

mod client;
mod server;
mod setup;

pub use client::{
    Blob, ClientContent, ClientMessage, Content, ContentRole, FunctionResponse, RealtimeInput, Scheduling, Text, ToolResponse,
};
pub use server::{FunctionCall, LiveMessage, ResumptionUpdate, ServerContent, Transcription};
pub use setup::{Behavior, FunctionDeclaration, SessionSetup};

/// The rate at which the service hears (Hz), as 16-bit little-endian samples.
pub const INPUT_HZ: u32 = 16_000;
/// The rate at which it speaks (Hz), as 16-bit little-endian samples.
pub const OUTPUT_HZ: u32 = 24_000;
