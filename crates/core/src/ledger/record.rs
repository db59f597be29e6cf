//! What the store holds: the durable form of operations, batches and deliveries.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::input::OperationResult;
use crate::conversation::input::Evidence;
use crate::ids::{BatchId, DeliveryId, IntentKey, OperationId, PartyId, ResponseId, SessionId, TurnId};
use crate::policy::{Audience, CanInterrupt, Language, Localised, Priority, RidePosition, UncertainPolicy};
use crate::time::Wall;

/// States of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// Durable, not yet sent.
    Accepted,
    /// An attempt is under way, or the tool has it.
    Running,
    /// An attempt failed; another follows.
    RetryWait,
    /// It took effect.
    Succeeded,
    /// It did not.
    Failed,
    /// Nobody knows whether it took effect.
    Unknown,
    /// The caller wants it cancelled.
    Cancelling,
    /// Cancelled before it took effect.
    Cancelled,
    /// It took effect and was undone.
    Compensated,
    /// It took effect before the cancel arrived.
    TooLate,
}

impl OperationState {
    /// Whether the operation counts as finished for its batch: terminal, or `Unknown`.
    pub fn settled(self) -> bool {
        !matches!(self, Self::Accepted | Self::Running | Self::RetryWait | Self::Cancelling)
    }

    /// Whether a cancel left nothing of it in effect.
    pub fn undone(self) -> bool {
        matches!(self, Self::Cancelled | Self::Compensated)
    }
}

/// States of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchState {
    /// Takes operations.
    Open,
    /// Takes no more.
    Sealed,
    /// Every operation is terminal or `Unknown`; the final delivery exists.
    Drained,
    /// The final delivery is in a terminal state.
    Closed,
}

/// States of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Waits to be told.
    Ready,
    /// A conversation has it; none of its frames has been released.
    Claimed,
    /// It may have been heard in part. What the store holds from the claim on.
    Speaking,
    /// Heard, on evidence.
    Spoken,
    /// Nobody knows whether it was heard.
    Uncertain,
    /// Another delivery took its place.
    Superseded,
    /// Stale.
    Suppressed,
    /// A newer request replaced its operations, which were cancelled; or who gave the result took it back.
    Withdrawn,
    /// Another way acknowledged it.
    HandedOff,
}

impl DeliveryState {
    /// Whether nothing can happen to it any more.
    pub fn terminal(self) -> bool {
        matches!(self, Self::Spoken | Self::Superseded | Self::Suppressed | Self::Withdrawn | Self::HandedOff)
    }
}

/// What a delivery is for its batch. The store holds closings and corrections; the others are no obligation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryKind {
    /// The closing: at most one per batch.
    Final,
    /// What an `Unknown` or a contradicted result turned out to be.
    Correction,
    /// How far an operation is: told where the moment allows it, otherwise dropped; never counts as the closing.
    Progress,
    /// Context for the model; never spoken.
    Silent,
}

/// The way that a delivery is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// Its own playback.
    Announce,
    /// Segments of the next response.
    Ride,
    /// Another way than a conversation.
    HandOff,
}

/// An operation as the store holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationRecord {
    /// The operation.
    pub id: OperationId,
    /// What makes it "the same one".
    pub intent_key: IntentKey,
    /// The batch that it closes with.
    pub batch: BatchId,
    /// Its place in the batch, in the order of acceptance.
    pub ordinal: u32,
    /// Whom it is done for, where that is known.
    pub party: Option<PartyId>,
    /// The conversation that asked.
    pub session: SessionId,
    /// The turn that it was asked in.
    pub turn: TurnId,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// Its state.
    pub state: OperationState,
    /// The last attempt that was committed, from 1; 0 before the first.
    pub attempt: u32,
    /// Those of them that provably never left the box because the tool's place could not be reached: they cost it nothing.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unreached: u32,
    /// The tool's own name for what it has taken: with it, its result is asked for, also after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// Whether an attempt that is over, by a report or by a restart, may have executed: then only an idempotent tool is tried
    /// again (R2), and without a result it ends as `Unknown`, never as `Failed`. Once true it stays so.
    pub maybe_executed: bool,
    /// The result, when it succeeded.
    pub result: Option<Value>,
    /// Why it failed or is unknown, in words.
    pub error: Option<String>,
    /// What came later than what is on record and is not that: the first wins, and the first of the others is kept. It contradicts
    /// it, except where it is the result of an operation that had ended as `TooLate` without one ([`Self::late_result`]).
    pub contradiction: Option<Contradiction>,
    /// When it was accepted.
    pub accepted: Wall,
}

/// A record without any is written as it was before there was such a number: what was recorded then is decided the same today.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_none(number: &u32) -> bool {
    *number == 0
}

impl OperationRecord {
    /// The result that came after the tool had said no more than that it was too late to cancel. It is the first one, and stands
    /// beside what was on record then, which is kept.
    pub fn late_result(&self) -> Option<&Value> {
        match &self.contradiction {
            Some(Contradiction::Succeeded(value)) if self.state == OperationState::TooLate && self.result.is_none() => Some(value),
            _ => None,
        }
    }

    /// The result on record, whenever it came.
    pub fn known_result(&self) -> Option<&Value> {
        self.result.as_ref().or_else(|| self.late_result())
    }
}

/// What contradicts the result on record, or came after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contradiction {
    /// Another result: it took effect.
    Succeeded(Value),
    /// Another result: it did not.
    Failed(String),
    /// A cancel that came too late, or was thought to, has undone it.
    Undone,
}

impl From<OperationResult> for Contradiction {
    fn from(result: OperationResult) -> Self {
        match result {
            OperationResult::Succeeded(value) => Self::Succeeded(value),
            OperationResult::Failed(error) => Self::Failed(error),
        }
    }
}

/// A batch as the store holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchRecord {
    /// The batch.
    pub id: BatchId,
    /// The conversation that asked.
    pub session: SessionId,
    /// The response whose operations these are.
    pub response: ResponseId,
    /// Whom its closing belongs to, where that is known.
    pub party: Option<PartyId>,
    /// The language that it was asked in.
    pub language: Language,
    /// Its state.
    pub state: BatchState,
}

/// A delivery as the store holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryRecord {
    /// The delivery.
    pub id: DeliveryId,
    /// Its place among all deliveries.
    pub sequence: u64,
    /// The batch that it closes.
    pub batch: BatchId,
    /// What it is for the batch.
    pub kind: DeliveryKind,
    /// Whom it belongs to, where that is known.
    pub party: Option<PartyId>,
    /// Its first conversation, which comes first.
    pub session: SessionId,
    /// Its state.
    pub state: DeliveryState,
    /// Times that it was cut or doubted.
    pub attempt: u32,
    /// What it says, in the order of acceptance.
    pub clauses: Vec<ClauseRecord>,
    /// What it says when none of the long form was heard; empty where that would be too long: then it says its clauses.
    pub short: Localised,
    /// How soon it wants to be heard.
    pub priority: Priority,
    /// What it may cut, when urgent.
    pub can_interrupt: CanInterrupt,
    /// Where it stands when it rides.
    pub ride: RidePosition,
    /// Whether it needs the channel's best evidence.
    pub strict: bool,
    /// What is done when nobody knows whether it was heard.
    pub uncertain: UncertainPolicy,
    /// Who must be on the line to hear it.
    pub audience: Audience,
    /// How long it waits for a window of its own before it may also ride (ms).
    pub max_wait_ms: u64,
    /// Quiet before it is announced (ms); the box's own where there is none.
    pub min_quiet_ms: Option<u64>,
    /// How long it waits for somebody who may hear it before it is handed off (ms); none where it is not.
    pub hand_off_after_ms: Option<u64>,
    /// Age after which it is not told (ms).
    pub stale_after_ms: Option<u64>,
    /// When it became ready.
    pub ready: Wall,
    /// The delivery that took its place; none where a newer request did, which has no delivery yet.
    pub superseded_by: Option<DeliveryId>,
}

/// A clause of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClauseRecord {
    /// The operation that it tells of.
    pub operation: OperationId,
    /// The words.
    pub text: Localised,
    /// The evidence on which it counts as heard; none until then.
    pub heard: Option<Evidence>,
}

/// What is known of a clause that was given to the voice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClauseEvidence {
    /// The clause.
    pub clause: u32,
    /// What is known.
    pub verdict: ClauseVerdict,
}

/// The verdict on a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClauseVerdict {
    /// Heard to its end, on this evidence.
    Heard(Evidence),
    /// Not heard to its end.
    Unheard,
    /// Nobody knows.
    Uncertain,
}
