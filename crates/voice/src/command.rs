//! What a call's media is told to do.

use recado_core::conversation::{AcousticEpoch, SegmentRef};
use recado_core::ids::PlaybackId;

/// A command to a call's media, in the order in which they are to be carried out. `A` is the audio, `R` what a re-INVITE
/// agrees on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command<A, R> {
    /// Something about our own playback, for the mouth.
    Playback(PlaybackCommand<A>),
    /// A re-INVITE agreed on this: it holds at once, and another generation begins.
    Remote(R),
    /// The call is over: nothing more is sent, late reports still count.
    Close,
}

/// A command about our own playback. Only the voice gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaybackCommand<A> {
    /// Say a segment after those already accepted, unless the acoustic clock has left `epoch`.
    Speak {
        /// The segment.
        segment: SegmentRef,
        /// Its audio, or the first of it.
        audio: A,
        /// Whether that is all of it; otherwise [`PlaybackCommand::Append`] brings the rest.
        last: bool,
        /// The epoch in which this was decided.
        epoch: AcousticEpoch,
    },
    /// More audio of a segment that was accepted and is still open. Of any other segment it is discarded.
    Append {
        /// The segment.
        segment: SegmentRef,
        /// More of its audio; may be empty.
        audio: A,
        /// Whether the segment ends with it.
        last: bool,
    },
    /// Go on with a paused playback, unless the acoustic clock has left `epoch`.
    Resume {
        /// The playback.
        playback: PlaybackId,
        /// The epoch in which this was decided.
        epoch: AcousticEpoch,
    },
    /// Discard what of this playback has not left the box. Never refused.
    Clear {
        /// The playback.
        playback: PlaybackId,
    },
}
