//! What a conversation wants done.

use serde::{Deserialize, Serialize};

use super::input::{AcousticEpoch, Content, SegmentRef};
use crate::gate::{Blocker, DeliveryDecision};
use crate::ids::{BatchId, DeliveryId, OperationId, PlaybackId, ResponseId, TurnId};
use crate::ledger;
use crate::time::Time;

/// One effect of a conversation. Effects are carried out in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Say this segment after those already asked for, unless the acoustic clock has left `epoch`.
    Speak {
        /// The segment.
        segment: SegmentRef,
        /// What it says.
        content: Content,
        /// What it is for.
        purpose: Purpose,
        /// The epoch in which this was decided.
        epoch: AcousticEpoch,
    },
    /// Go on with a paused playback, unless the acoustic clock has left `epoch`.
    Resume {
        /// The playback.
        playback: PlaybackId,
        /// The epoch in which this was decided.
        epoch: AcousticEpoch,
    },
    /// Stop: discard what has not left the box. Needs no commit and waits for none.
    Clear {
        /// The playback.
        playback: PlaybackId,
    },
    /// Ask the model for a response.
    Respond {
        /// The response.
        response: ResponseId,
        /// Why.
        cause: Cause,
    },
    /// Cancel a response.
    CancelResponse {
        /// The response.
        response: ResponseId,
    },
    /// Cut the model's memory of a response to what was heard.
    Truncate {
        /// The response.
        response: ResponseId,
        /// How much of it was heard (ms).
        heard_ms: u64,
        /// What of it was heard, cut at a word.
        heard_text: String,
    },
    /// Give the model the output of a tool call: a placeholder, never an untold result.
    ToolOutput {
        /// The model's name for the call.
        call_id: String,
        /// The operation; none when the call was refused.
        operation: Option<OperationId>,
        /// What the model is told of it.
        status: ToolStatus,
    },
    /// Tell the model, as context, what the caller has been told.
    Told {
        /// The delivery.
        delivery: DeliveryId,
        /// The words.
        text: String,
    },
    /// Ask the ledger.
    Ledger(Box<ledger::Input>),
    /// End the call.
    HangUp,
    /// Record this decision of the gate.
    Decided(Decision),
    /// Record that a value of the contract's measures is known.
    Measured(Measure),
    /// Settled history grew.
    Heard(HeardText),
}

/// What a segment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// Words of a response.
    Reply {
        /// The response.
        response: ResponseId,
    },
    /// The acceptance of a batch's operations.
    Acceptance {
        /// The batch.
        batch: BatchId,
    },
    /// A refusal to accept.
    Refusal,
    /// A clause of a delivery.
    Clause {
        /// The delivery.
        delivery: DeliveryId,
        /// The clause's place in the delivery; none for the hedge before it.
        clause: Option<u32>,
    },
}

/// Why a response is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The call has begun.
    Greeting,
    /// The caller's turn ended.
    Turn {
        /// The turn.
        turn: TurnId,
    },
    /// The caller pressed a key.
    Digit {
        /// The turn that it opens.
        turn: TurnId,
        /// The key.
        digit: char,
    },
    /// Nobody has said anything for a while.
    Silence {
        /// How long (ms).
        quiet_ms: u64,
    },
}

/// What a model is told of a call that it made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// Accepted; it runs.
    Running,
    /// The same thing was asked before; it runs already.
    AlreadyRunning,
    /// Its result is ready and about to be told by the box itself.
    AboutToBeTold,
    /// It has been told.
    Told,
    /// It could not be accepted; nothing was done.
    Refused,
}

/// One answer of the gate, with what it saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The delivery that was asked about.
    pub delivery: DeliveryId,
    /// The answer.
    pub answer: DeliveryDecision,
    /// What it waits for, where it waits.
    pub blocker: Option<Blocker>,
    /// When it was asked.
    pub at: Time,
}

/// A value of the contract's measures, known to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// Which.
    pub name: MeasureName,
    /// Its value: milliseconds, or 1 for something that is counted.
    pub value: u64,
}

/// The measures that a conversation knows. Names are the contract's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasureName {
    /// End of the caller's speech → first acceptance audio.
    SpeechStopToAcceptanceAudioMs,
    /// Caller's speech suspected → our voice stopped.
    BargeInToPlaybackStopMs,
    /// Delivery ready → its first audio.
    DeliveryReadyToFirstAudioMs,
    /// Audio generated → played.
    GeneratedToPlayedGapMs,
    /// Generated audio that was kept out of the history, rightly.
    CancelledResponseUnheardMs,
}

/// A piece of settled or provisional history: what the caller heard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeardText {
    /// The segment.
    pub segment: SegmentRef,
    /// Its words, cut at the one that the heard position falls in.
    pub text: String,
    /// How much was heard (ms).
    pub heard_ms: u64,
}

impl MeasureName {
    /// The name as the contract has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpeechStopToAcceptanceAudioMs => "speech_stop_to_acceptance_audio_ms",
            Self::BargeInToPlaybackStopMs => "barge_in_to_playback_stop_ms",
            Self::DeliveryReadyToFirstAudioMs => "delivery_ready_to_first_audio_ms",
            Self::GeneratedToPlayedGapMs => "generated_to_played_gap_ms",
            Self::CancelledResponseUnheardMs => "cancelled_response_unheard_ms",
        }
    }
}
