//! Media: what carries audio between the box and a channel.
//!
//! [`MediaSession`] is the sans-IO part: one per call, packets, ticks and commands in, packets and events out; no I/O, no
//! clock, no thread, no randomness of its own. What may sound, and when, is [`recado_voice::Mouth`]'s to say; RTP, codecs, the
//! jitter buffer and the caller's acoustic clock are put around it here. [`thread`] is its shell: one OS thread for all calls,
//! with sockets and a 20 ms tick.
//!
//! Once a call is set up nothing here allocates or locks. What to say, and whether it may be said, is not decided here;
//! only that a voice stops at once when the caller may be speaking, and that a command from before that is refused.

mod budget;
mod clock;
mod coded;
mod conceal;
mod digits;
mod hearing;
mod jitter;
mod latch;
mod plan;
mod reception;
mod recording;
pub mod resample;
mod rtcp;
mod sender;
mod session;
mod thread;

pub use clock::Nanos;
pub use coded::Coded;
pub use hearing::{CallerFrame, Hearing};
pub use jitter::{JitterCounts, Sound};
pub use plan::{Command, Direction, MediaEvent, Plan, Remote};
pub use recording::Recording;
pub use session::{Counts, Frame, MediaSession, Output};
pub use thread::{CallCommands, CallEvents, CallMedia, MediaConfig, MediaError, MediaHandle, MediaProgress, PortPair, Taps};
