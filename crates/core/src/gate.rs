//! The gate: may this delivery be told now?

use serde::{Deserialize, Serialize};

/// The gate's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveryDecision {
    /// It is over for this delivery.
    Drop,
    /// Stale: it is kept, and never told.
    SuppressAndPersist,
    /// Nobody who may hear it is on the line.
    Hold,
    /// Until a hold, a transfer or a held floor ends.
    QueueUntilFree,
    /// Until the caller has been quiet for so long (ms).
    QueueUntilQuiet {
        /// Milliseconds of quiet.
        min_quiet_ms: u64,
    },
    /// As part of the next response.
    AttachToNextResponse,
    /// Until our own voice has finished.
    QueueAfterPlayback,
    /// Now.
    DeliverNow {
        /// Whether it cuts what goes on.
        interrupt: bool,
    },
}

/// What a delivery waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocker {
    /// No session that may hear it is live.
    NoSession,
    /// Who is on the line is not known well enough.
    IdentityUnknown,
    /// The call is on hold.
    OnHold,
    /// The floor is held.
    FloorHeld,
    /// Speech is suspected.
    SpeechSuspected,
    /// The caller speaks.
    CallerSpeaking,
    /// The caller may go on.
    SpeechTrailing,
    /// A response is due, and none of its audio has been released.
    TurnOpen,
    /// Our voice is queued, playing or paused.
    PlaybackActive,
    /// The response has not ended.
    ReplyUnfinished,
    /// It has not been quiet for long enough.
    QuietTooShort,
    /// Another delivery is being claimed or spoken.
    DeliveryActive,
}
