//! What a conversation wants done.

use serde::{Deserialize, Serialize};

use super::identity::{Pin, VerificationOutcome};
use super::input::{Acoustic, AcousticEpoch, Content, Evidence, SegmentRef};
use super::playback::PlaybackState;
use super::reply::GenerationState;
use crate::gate::{Blocker, ChannelSnapshot, DeliveryDecision};
use crate::ids::{BatchId, DeliveryId, OperationId, PlaybackId, ResponseId, TurnId};
use crate::ledger;
use crate::policy::Audience;
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
    /// Give the model, as context, news of an operation that runs: how far it is, never a result.
    Update {
        /// What the news is called; it names nothing in the store.
        delivery: DeliveryId,
        /// The words.
        text: String,
    },
    /// Tell the model what the caller's wish to cancel came to.
    Cancelling(ledger::Cancellation),
    /// Tell the model what of the caller's runs, or waits to be told: at the start of a call, where there is any, and whenever the caller
    /// asks.
    Work {
        /// Each operation.
        work: Vec<NamedWork>,
    },
    /// Ask the ledger.
    Ledger(Box<ledger::Input>),
    /// Find out whether these keys are the PIN of the call's party; [`super::Input::Verified`] says what it came to.
    Verify {
        /// Which attempt of this call it is, from 1.
        attempt: u32,
        /// The keys.
        digits: Pin,
    },
    /// As context for the model, which asked for it: what the verification of the caller came to. It is asked to speak of it where there is room.
    Verification {
        /// What it came to.
        outcome: VerificationOutcome,
    },
    /// End the call.
    HangUp,
    /// Record this decision of the gate.
    Decided(Decision),
    /// Record that a value of the contract's measures is known.
    Measured(Measure),
    /// History grew, provisionally or for good.
    Heard(HeardText),
    /// Record that the evidence for a segment is doubted: it lowers what counts as heard.
    Doubted {
        /// The segment.
        segment: SegmentRef,
        /// Why.
        doubt: Doubt,
    },
}

/// An operation that is not over for who is on the line: a placeholder, never its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedWork {
    /// Its short name in this call: `w1`, `w2`.
    pub name: String,
    /// The operation.
    pub operation: OperationId,
    /// Its tool.
    pub tool: String,
    /// What it is about: those of its arguments that may be shown.
    pub arguments: serde_json::Value,
    /// How long ago it was accepted (ms); none where no clock can tell.
    pub age_ms: Option<u64>,
    /// How it stands.
    pub state: ledger::WorkState,
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
    /// What a wish to cancel came to.
    Cancellation,
    /// What a tool is asked to do, read back to the caller before it is done.
    ReadBack {
        /// What the read-back is called.
        read_back: u64,
    },
    /// What the caller has asked the box itself: what runs, what they were told last. It is no closing.
    Information {
        /// Who may hear it.
        audience: Audience,
    },
    /// That something waits, and what the box asks to know who is on the line.
    Identity,
    /// News of how far an operation is: no closing, and dropped rather than said late.
    Progress {
        /// What the news is called.
        delivery: DeliveryId,
        /// The batch that it is about.
        batch: BatchId,
    },
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
    /// The keys that the model wanted collected have come, or nobody pressed any more of them in time.
    Digits {
        /// The turn that they are.
        turn: TurnId,
        /// The keys, without the one that ended them.
        digits: String,
        /// Whether they are all that was asked for.
        complete: bool,
    },
    /// Nobody has said anything for a while.
    Silence {
        /// How long (ms).
        quiet_ms: u64,
    },
    /// The model wants to say something, and nobody else has anything to say.
    OwnAccord,
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
    /// The same thing was asked before, and is not done again.
    Rejected,
    /// The same thing was asked before: it is done again only if the caller, asked for it, says so.
    NeedsConfirmation,
    /// It is being read back to the caller, and nothing was done: it is done only if they, asked for it, say so.
    NeedsConsent,
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
    /// What the gate saw.
    pub snapshot: ChannelSnapshot,
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
    /// End of the caller's speech → their turn is over, and a response is asked for.
    SpeechStopToTurnEndMs,
    /// A response asked for → the first thing that there is to say.
    TurnEndToFirstPieceMs,
    /// The first thing to say → its audio is there.
    FirstPieceToReadyMs,
    /// Its audio is there → its first frame released.
    ReadyToFirstAudioMs,
    /// End of the caller's speech → first frame of the answer: the four stages before.
    SpeechStopToFirstAudioMs,
}

/// A piece of history: what the caller heard of a segment. A later one about the same segment takes its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeardText {
    /// The segment.
    pub segment: SegmentRef,
    /// What it was for.
    pub purpose: Purpose,
    /// Its words, cut at the one that the heard position falls in.
    pub text: String,
    /// How much was heard (ms).
    pub heard_ms: u64,
    /// How much of this is known.
    pub standing: Standing,
}

/// How much is known of a piece of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// By the send clock, less network and jitter buffer: evidence is awaited.
    Provisional,
    /// On this evidence.
    Settled(Evidence),
    /// Evidence is in doubt: whether it was heard is not known.
    Uncertain,
}

/// Why evidence is doubted. In doubt, less was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// Most of the audio is near silent (below -60 dBFS).
    NearSilent,
    /// Too much of the segment was lost on the way.
    Lost,
    /// There is no report on it, and the last reports showed rising loss.
    LossRising,
    /// There is no report on it, and the far end had reported before: it may be gone.
    FellSilent,
    /// The far end reported after it must have had it, and did not have it.
    NotReached,
    /// It was sent in two generations: no report speaks for the whole of it.
    Generations,
    /// It left too shortly before the end of the call, or before a hold, to have been played.
    LeftTooLate,
    /// Nothing less than the channel's best evidence will do, and there is none.
    NotBest,
    /// Its mark came back sooner than the audio could have played.
    MarkTooSoon,
    /// A mark came back that was never sent: it credits nothing.
    MarkNeverSent,
    /// A machine answered.
    Voicemail,
    /// The voice never said where it stopped.
    ClearUnconfirmed,
}

/// An edge of one of the conversation's clocks, as the contract draws them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// The caller's clock moved.
    Acoustic {
        /// From.
        from: Acoustic,
        /// To.
        to: Acoustic,
    },
    /// A response moved.
    Generation {
        /// The response.
        response: ResponseId,
        /// From.
        from: GenerationState,
        /// To.
        to: GenerationState,
    },
    /// A playback moved.
    Playback {
        /// The playback.
        playback: PlaybackId,
        /// From.
        from: PlaybackState,
        /// To.
        to: PlaybackState,
    },
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
            Self::SpeechStopToTurnEndMs => "speech_stop_to_turn_end_ms",
            Self::TurnEndToFirstPieceMs => "turn_end_to_first_piece_ms",
            Self::FirstPieceToReadyMs => "first_piece_to_ready_ms",
            Self::ReadyToFirstAudioMs => "ready_to_first_audio_ms",
            Self::SpeechStopToFirstAudioMs => "speech_stop_to_first_audio_ms",
        }
    }
}
