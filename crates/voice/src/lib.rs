//! The voice of a call: what may sound, in which order, and what is told of it. No I/O, no clock, no threads, no codec and
//! no RTP: the box puts octets and sockets around it, the simulator frames that are only counted.
//!
//! Two halves, with a way between them that takes time and may be full:
//!
//! - [`Voice`] lives with the conversation. It keeps segments in order until each is rendered, and yields [`Command`]s.
//! - [`Mouth`] lives on the media path. It takes commands, gives out one frame per interval, and tells what became of it.
//!   It refuses what was decided before the caller's acoustic clock last moved, and it stops by itself when the caller may
//!   be speaking. After it was made it neither allocates nor frees: audio that is done with is handed back.
//!
//! # The loop
//! Give one input, then take what it led to, then give the next. Times of inputs never go back.

mod audio;
mod command;
mod generations;
mod mouth;
mod packets;
mod playback;
mod voice;

pub use audio::{Audio, FRAME_MS, FRAME_SAMPLES, Rendered};
pub use command::{Command, PlaybackCommand};
pub use mouth::{Mouth, Released, WAITING_EVENTS_MAX};
pub use voice::Voice;
