//! What the ledger wants done.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::input::{Acceptance, CommitId, RequestId};
use super::record::{BatchRecord, DeliveryKind, DeliveryRecord, OperationRecord, Route};
use crate::ids::{BatchId, DeliveryId, IntentKey, OperationId, PartyId, ResponseId, SessionId};
use crate::policy::{Audience, CanInterrupt, Language, Localised, Priority, RidePosition};
use crate::time::{Time, Wall};

/// One effect of the ledger. Effects are carried out in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Commit these together, and say [`super::Input::Durable`] or [`super::Input::CommitFailed`].
    Persist {
        /// Names the transaction.
        commit: CommitId,
        /// What it holds, in order.
        writes: Vec<Write>,
    },
    /// Send this attempt. Its record is durable (R1, R2).
    Dispatch(Dispatch),
    /// Recall this operation's attempt if it has not left the box; otherwise ask its tool to cancel it. That it is to be cancelled
    /// is durable (R6).
    Cancel(CancelRequest),
    /// Ask this operation's tool how it stands. It reads and changes nothing, so it may be asked any number of times.
    Inquire(Inquiry),
    /// Hand this delivery off to the other way. Its claim is durable: nobody speaks it meanwhile.
    HandOff(Box<HandOff>),
    /// Answer a callback.
    Answer {
        /// The request.
        request: RequestId,
        /// The answer.
        answer: CallbackAnswer,
    },
    /// Tell a conversation.
    Tell {
        /// The conversation.
        session: SessionId,
        /// What.
        news: News,
    },
    /// Record that a value of the contract's measures is known.
    Measured(LedgerMeasure),
}

/// A change of the store. Rows are whole; constraints of the store refuse what the contract rules out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Write {
    /// A new operation; its intent key must be new (R1).
    CreateOperation(OperationRecord),
    /// A later state of an operation.
    UpdateOperation(OperationRecord),
    /// A new batch.
    CreateBatch(BatchRecord),
    /// A later state of a batch.
    UpdateBatch(BatchRecord),
    /// A new delivery; at most one final per batch.
    CreateDelivery(DeliveryRecord),
    /// A later state of a delivery.
    UpdateDelivery(DeliveryRecord),
    /// The claim of a delivery; at most one at a time (R4).
    Claim {
        /// The delivery.
        delivery: DeliveryId,
        /// The conversation that owns it.
        session: SessionId,
        /// The life of the process that owns it.
        boot: crate::ids::BootId,
        /// The way that it is told.
        route: Route,
    },
    /// The claim is given back or has been settled.
    Unclaim {
        /// The delivery.
        delivery: DeliveryId,
    },
}

/// One attempt for an executor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dispatch {
    /// The operation.
    pub operation: OperationId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// The key under which the tool recognises a repeat.
    pub intent_key: IntentKey,
}

/// One cancel request for an executor, which reports on it once ([`super::Input::CancelAttempted`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// The operation.
    pub operation: OperationId,
    /// The request, from 1; counted anew after a restart.
    pub request: u32,
    /// The tool.
    pub tool: String,
    /// The arguments that the operation was asked with.
    pub arguments: Value,
    /// The key of the attempts. A cancel request goes out under one that is derived from it.
    pub intent_key: IntentKey,
    /// The tool's own name for it, where it has given one.
    #[serde(default)]
    pub handle: Option<String>,
}

/// One inquiry for an executor, which reports on it once ([`super::Input::Inquired`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inquiry {
    /// The operation.
    pub operation: OperationId,
    /// The inquiry, from 1; counted anew after a restart.
    pub request: u32,
    /// The last attempt that was committed.
    pub attempt: u32,
    /// The tool.
    pub tool: String,
    /// The arguments that the operation was asked with.
    pub arguments: Value,
    /// The key of the attempts.
    pub intent_key: IntentKey,
    /// The tool's own name for it, where it has given one.
    pub handle: Option<String>,
}

/// A delivery for another way than a conversation. It may come more than once, under the same delivery: the receiver takes it once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandOff {
    /// The delivery.
    pub delivery: DeliveryId,
    /// What it is for its batch.
    pub kind: DeliveryKind,
    /// The batch.
    pub batch: BatchId,
    /// Whom it belongs to, where that is known.
    pub party: Option<PartyId>,
    /// The conversation that asked.
    pub session: SessionId,
    /// The language that it was asked in.
    pub language: Language,
    /// What the caller would have been told, as far as it has not been heard.
    pub text: Localised,
    /// When it became ready.
    pub ready: Wall,
    /// The operations that it is about.
    pub operations: Vec<OperationRecord>,
}

/// The answer to a callback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallbackAnswer {
    /// Recorded, durably, now or when it first came (200).
    Recorded,
    /// Another result is on record (409).
    Conflict,
    /// No such operation (404).
    Unknown,
    /// It can't be made durable now (503).
    Unavailable,
    /// News of progress has been taken; what the moment does not allow is dropped (200).
    Noted,
    /// It comes too late: the operation is over, or its result has been told (409).
    Over,
}

/// What the ledger tells a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum News {
    /// An operation has been accepted, durably.
    Accepted(Acceptance),
    /// An operation could not be accepted; nothing was done.
    Refused {
        /// The model's name for the call.
        call_id: String,
        /// The response that asked.
        response: ResponseId,
        /// Why, in words.
        reason: String,
        /// What the caller hears, in the session's language.
        say: String,
    },
    /// An operation needs the caller's consent, and nothing was done: it is read back to them, and asked for again where they agree.
    /// [`super::Input::ReadBackHeard`] and [`super::Input::ReadBackOver`] say what became of that.
    ReadBack {
        /// The model's name for the call.
        call_id: String,
        /// The response that asked.
        response: ResponseId,
        /// What the read-back is called in this conversation.
        read_back: u64,
        /// What the caller hears, in the session's language.
        say: String,
    },
    /// What of this party's runs, or waits to be told: never a result.
    Work {
        /// Whether it was asked for: it is also told when a conversation begins.
        asked: bool,
        /// Each operation, in the order of acceptance.
        work: Vec<WorkItem>,
    },
    /// A delivery waits to be told, and this conversation may tell it.
    Offered(DeliveryEnvelope),
    /// A delivery that was offered is no longer to be told here; one that is being spoken stops at once.
    Withdrawn {
        /// The delivery.
        delivery: DeliveryId,
    },
    /// The claim is durable: ask the gate once more, then speak.
    Claimed {
        /// The delivery.
        delivery: DeliveryId,
        /// What is to be said, in the session's language: each is a segment.
        clauses: Vec<SpokenClause>,
    },
    /// The claim was not granted.
    ClaimRefused {
        /// The delivery.
        delivery: DeliveryId,
    },
    /// Something that is no obligation, of kind `Progress` or `Silent`: it is not claimed, and whoever can't use it now drops it.
    /// [`News::Withdrawn`] follows when it is overtaken.
    Update {
        /// What the gate needs to know of it. Its delivery names nothing in the store.
        envelope: DeliveryEnvelope,
        /// The words, in the session's language.
        text: String,
    },
    /// The caller's wish to cancel has been put on record: from now on it may be spoken of (R6).
    Cancelling(Cancellation),
}

/// An operation that is not over for its party: a placeholder, never its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkItem {
    /// The operation.
    pub operation: OperationId,
    /// Its tool.
    pub tool: String,
    /// What it is about: those of its arguments that may be shown.
    pub arguments: Value,
    /// How long ago it was accepted (ms); none where no clock can tell.
    pub age_ms: Option<u64>,
    /// How it stands.
    pub state: WorkState,
    /// Who must be on the line to hear of it.
    pub audience: Audience,
    /// What the caller hears of it, in the session's language.
    pub say: String,
}

/// How an operation stands that is not over for its party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkState {
    /// It runs.
    Running,
    /// It waits for another attempt, or until its tool can be reached.
    Waiting,
    /// It is being cancelled.
    Cancelling,
    /// It has an end, and others that close with it have none yet.
    Ended,
    /// It has an end, which waits to be told or is being told.
    AboutToBeTold,
}

/// What a wish to cancel came to at once. How it ends is told by the closing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancellation {
    /// The operations that are being cancelled.
    pub cancelling: Vec<OperationId>,
    /// Those that it came too late for: they have ended, and their closing is about to be told.
    pub ended: Vec<OperationId>,
    /// Those whose cancel could not be put on record: they go on.
    #[serde(default)]
    pub refused: Vec<OperationId>,
    /// What the caller hears, in the session's language.
    pub say: String,
}

/// One segment of a delivery, as it will be spoken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpokenClause {
    /// The clause that it tells; none for the hedge before them; [`Self::SHORT`] for the short form of all of them.
    pub clause: Option<u32>,
    /// The words.
    pub text: String,
}

/// A delivery as the gate sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryEnvelope {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Its place among all deliveries: the order is by sequence, never by time.
    pub sequence: u64,
    /// What it is for its batch.
    pub kind: DeliveryKind,
    /// The batch that it is about.
    pub batch: BatchId,
    /// How soon it wants to be heard.
    pub priority: Priority,
    /// What it may cut, when urgent.
    pub can_interrupt: CanInterrupt,
    /// Where it stands when it rides.
    pub ride: RidePosition,
    /// Whether it needs the channel's best evidence.
    pub strict: bool,
    /// Who must be on the line to hear it.
    pub audience: Audience,
    /// How long it waits for a window of its own before it may also ride (ms).
    pub max_wait_ms: u64,
    /// Quiet before it is announced (ms); the box's own where there is none.
    pub min_quiet_ms: Option<u64>,
    /// When it became ready: monotonic, in this boot; none when it was ready before.
    pub ready_at: Option<Time>,
    /// When it became ready, by the wall clock.
    pub ready_wall: Wall,
    /// Age after which it is not told (ms). A later version makes it stale too: the ledger judges that, and withdraws it.
    pub stale_after_ms: Option<u64>,
    /// Times that it was cut or doubted.
    pub attempt: u32,
    /// Whether it only rides, or waits to be asked for: it has been cut too often.
    pub ride_only: bool,
    /// The operations that it closes.
    pub operations: Vec<OperationId>,
}

/// A value of the contract's measures, known to the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LedgerMeasure {
    /// `operation_accept_to_start_ms`.
    AcceptToStartMs(u64),
    /// `operation_duration_ms`.
    OperationDurationMs(u64),
    /// `operation_complete_to_delivery_ready_ms`.
    CompleteToDeliveryReadyMs(u64),
    /// An operation was settled (counted): the denominator of `duplicate_side_effect_rate`.
    OperationSettled,
    /// A result came again, or another for the same operation (counted).
    RepeatedResult,
    /// `duplicate_side_effect_rate`'s numerator: an effect known to have happened twice (counted; must stay zero).
    DuplicateSideEffect,
    /// `duplicate_delivery_rate`'s numerator: a closing began to be told again after doubt (counted).
    DuplicateDelivery,
    /// `stale_delivery_rate`'s numerator: a closing began to be told after it was stale (counted; must stay zero).
    StaleDelivery,
    /// `next_turn_resync_rate`'s numerator: a delivery ended `Spoken` that found no window of its own and rode on a response
    /// (counted).
    NextTurnResync,
    /// A delivery ended `Spoken` (counted): the denominator of the three rates above.
    Spoken,
    /// A delivery became `Uncertain` (counted).
    Uncertain,
    /// A delivery was suppressed as stale (counted).
    Suppressed,
    /// A delivery was handed off, and that was acknowledged (counted).
    HandedOff,
}
