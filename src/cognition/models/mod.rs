//! The voice model: what decides the words of a conversation.
//!
//! One port ([`Model`]) for every kind of model: one that hears and speaks by itself, a cascade of recognition, language
//! model and synthesis, and the [`Scripted`] one that is built in and needs no network. [`Standby`] is made of two of them: the second
//! answers while the service of the first is away. [`MessageTaker`] stands around any of them, and takes what callers say for a message where the
//! model wants one taken. A model declares what it can do
//! ([`Capabilities`]); what it can't do, the box does.
//!
//! A model never makes sound, never runs a tool, and is never told a result that the caller has not heard. What it says
//! are events for the conversation, which owns the clocks, the truth about what was heard, and every decision.

mod acoustic;
mod audible;
mod audio;
mod caller;
mod calls;
pub mod cascade;
mod functions;
pub mod gemini;
mod heard;
mod instructions;
mod json;
pub mod link;
pub mod live;
mod memory;
mod message;
mod notes;
mod port;
pub mod realtime;
mod scripted;
mod standby;
mod taker;
pub mod transport;
mod usage;
mod words;

pub use audible::audible_ms;
pub use audio::{CALLER_FRAME_SAMPLES, CallerAudio, CallerAudioSender, CallerFrame, caller_audio};
pub use functions::FunctionTool;
pub(in crate::cognition) use functions::is_own as is_own_function;
pub use instructions::instructions;
pub(in crate::cognition) use json::or_default;
pub use message::{Keeping, LeftMessage, Message, Messages, NotKept, WhyNotKept};
pub use notes::{Role, output as call_output};
pub use port::{
    AudioFormat, Availability, Capabilities, Command, CommandRefused, Model, ModelHandle, ModelSession, Opening, Output, OutputKind,
};
pub use scripted::{Dialogue, DialogueError, Prompt, Scripted};
pub use standby::{Bounds, DIALOGUE as STANDBY_DIALOGUE, Standby, Words as StandbyWords};
pub use taker::MessageTaker;
pub use usage::Usage;

/// Sleeps until a deadline; for ever where there is none.
async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
