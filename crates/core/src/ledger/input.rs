//! What the ledger is told.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::{ClauseEvidence, Route};
use crate::conversation::input::ToolCall;
use crate::ids::{BatchId, DeliveryId, OperationId, PartyId, ResponseId, SessionId, TurnId};
use crate::policy::Language;

/// Names one transaction of the store, so that its answer finds what waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommitId(pub u64);

/// Names one request from outside that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// One input of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// A conversation is up; what its party is owed is offered to it.
    SessionUp {
        /// The conversation.
        session: SessionId,
        /// Who is on the line, where it is known.
        party: Option<PartyId>,
        /// The language that it is held in.
        language: Language,
    },
    /// A conversation is over, its evidence settled.
    SessionOver {
        /// The conversation.
        session: SessionId,
    },
    /// A response asks for an operation.
    Accept {
        /// The conversation.
        session: SessionId,
        /// The turn that it was asked in.
        turn: TurnId,
        /// The response that asked: its operations are one batch.
        response: ResponseId,
        /// What is asked for.
        call: ToolCall,
    },
    /// The response has ended, or goes on without asking for more: its batch takes no more operations.
    Seal {
        /// The conversation.
        session: SessionId,
        /// The response.
        response: ResponseId,
    },
    /// A read-back ([`super::News::ReadBack`]) has been said to its end, and nothing is known that speaks against its having been heard.
    ReadBackHeard {
        /// The conversation.
        session: SessionId,
        /// What the read-back is called.
        read_back: u64,
        /// The turn in which it was: consent comes in a later one.
        turn: TurnId,
    },
    /// Nothing that the caller says from now on is consent to what was read back: it was not heard after all, it was answered in
    /// another way, or it is too long ago.
    ReadBackOver {
        /// The conversation.
        session: SessionId,
        /// What the read-back is called.
        read_back: u64,
    },
    /// The caller wants operations cancelled: one, this tool's, or all of this party's that run.
    Cancel {
        /// The conversation.
        session: SessionId,
        /// The tool whose operations are meant, or all.
        tool: Option<String>,
        /// The operation that is meant, where it is one. Another party's is nobody's to cancel here (I14).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operation: Option<OperationId>,
        /// Whether the caller is known to be the party. To whoever is not, what only the verified party may hear of is not there, but for what
        /// was asked for in this conversation.
        #[serde(default)]
        verified: bool,
    },
    /// What of this party's runs, or waits to be told?
    ListWork {
        /// The conversation.
        session: SessionId,
    },
    /// An executor reports on an attempt.
    Attempted {
        /// The operation.
        operation: OperationId,
        /// The attempt, from 1.
        attempt: u32,
        /// How it went.
        outcome: AttemptOutcome,
    },
    /// A result came from outside, and its sender waits for an answer.
    Callback {
        /// The request to answer.
        request: RequestId,
        /// The operation that it names.
        operation: OperationId,
        /// What it says.
        result: OperationResult,
    },
    /// An executor reports on a cancel request.
    CancelAttempted {
        /// The operation.
        operation: OperationId,
        /// The request, as [`super::CancelRequest::request`] counts.
        request: u32,
        /// How it went.
        outcome: CancelOutcome,
    },
    /// An executor reports on an inquiry.
    Inquired {
        /// The operation.
        operation: OperationId,
        /// The inquiry, as [`super::Inquiry::request`] counts.
        request: u32,
        /// What it came to.
        outcome: InquiryOutcome,
    },
    /// News of how far an operation is, from outside or from its executor. Nothing of it is kept.
    Progress {
        /// The request to answer, where a sender waits for it.
        request: Option<RequestId>,
        /// The operation that it names.
        operation: OperationId,
        /// What it says, for the tool's template.
        progress: Value,
    },
    /// Who gave a result takes it back, before it has been told; its sender waits for an answer.
    Retract {
        /// The request to answer.
        request: RequestId,
        /// The operation whose result it is.
        operation: OperationId,
    },
    /// The other way reports on a hand-off.
    HandOffAttempted {
        /// The delivery.
        delivery: DeliveryId,
        /// How it went.
        outcome: HandOffOutcome,
    },
    /// A conversation's gate is open for a delivery: claim it.
    Claim {
        /// The conversation.
        session: SessionId,
        /// The delivery.
        delivery: DeliveryId,
        /// The way that it will be told.
        route: Route,
    },
    /// A claim is given back before any of its frames was released; no attempt is spent.
    Release {
        /// The conversation.
        session: SessionId,
        /// The delivery.
        delivery: DeliveryId,
    },
    /// A claimed delivery's first frame has been released.
    FirstFrame {
        /// The conversation.
        session: SessionId,
        /// The delivery.
        delivery: DeliveryId,
    },
    /// The evidence for a claimed delivery is settled, or was cut short.
    ///
    /// It ends the conversation's claim. A clause of the claim that is not listed was not heard. A short form is listed under
    /// [`super::SpokenClause::SHORT`]. What becomes known later, of a claim that has ended, is told by another `Settled` that
    /// lists only what was heard: it credits those clauses, and where that is all of them the delivery is `Spoken` and whoever
    /// tells it again is stopped. While the same conversation has claimed the delivery once more, evidence that lists only
    /// clauses of the present claim ends that claim.
    Settled {
        /// The conversation.
        session: SessionId,
        /// The delivery.
        delivery: DeliveryId,
        /// What is known of each clause that was given to the voice.
        clauses: Vec<ClauseEvidence>,
    },
    /// A delivery's policy makes it stale.
    Suppress {
        /// The delivery.
        delivery: DeliveryId,
    },
    /// The transaction is durable: after a power cut, it will be there.
    Durable(CommitId),
    /// The transaction failed and nothing of it was kept.
    CommitFailed {
        /// The transaction.
        commit: CommitId,
        /// Why, in words.
        reason: String,
        /// Whether it would have changed what the store holds no more: it has removed it.
        #[serde(default)]
        missing: bool,
    },
    /// A deadline that [`super::Ledger::deadline`] named may have come.
    Wake,
}

/// How an attempt went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum AttemptOutcome {
    /// The result came with the answer.
    Succeeded(Value),
    /// The tool took it (202); the result comes by callback.
    Deferred,
    /// The tool took it, and has it under a name of its own: its result is asked for with that, also after a restart.
    Taken {
        /// The tool's name for it: the identifier of a task, the URL of its status.
        handle: String,
    },
    /// Nothing has left the box: where the tool is can't be reached. It counts as no attempt, and waits.
    Unreachable {
        /// Why, in words.
        reason: String,
        /// How long it is of no use to try again (ms), where that is known.
        retry_after_ms: Option<u64>,
    },
    /// It failed.
    Failed {
        /// Why, in words.
        error: String,
        /// Whether the tool may have executed it.
        executed: Executed,
        /// Whether another attempt may help.
        retryable: bool,
        /// How long the tool asks to be left alone (ms).
        retry_after_ms: Option<u64>,
    },
}

/// What is known of the effect of an attempt that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executed {
    /// It provably did not happen: the request never reached the tool, or the tool said so.
    No,
    /// Nobody knows.
    Maybe,
}

/// What an inquiry came to: how an operation stands by its tool's own word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InquiryOutcome {
    /// It took effect.
    Succeeded(Value),
    /// It did not, and will not.
    Failed(String),
    /// The tool has it still.
    Running {
        /// When asking again makes sense (ms), where the tool says so.
        again_ms: Option<u64>,
    },
    /// The tool has never got it, and would not carry out what comes of this attempt from now on.
    NotExecuted,
    /// The tool has ended it because it was asked to: nothing of it is in effect.
    Cancelled,
    /// The tool does not know it, or no more: nobody knows whether it took effect.
    Forgotten,
    /// There is nobody to ask.
    Unsupported,
    /// Nobody answered, or not in a way that says how it stands.
    Unanswered {
        /// Why, in words.
        error: String,
        /// Whether another inquiry may help.
        retryable: bool,
        /// How long the tool asks to be left alone (ms).
        retry_after_ms: Option<u64>,
    },
}

/// How a cancel request went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelOutcome {
    /// The attempt had not left the box, and now never will.
    Recalled,
    /// The tool says that it has not taken effect and will not.
    Cancelled,
    /// The tool says that it took effect and has been undone.
    Compensated,
    /// The tool says that it has taken effect and stays so.
    TooLate {
        /// Its result, where the answer holds it.
        result: Option<Value>,
    },
    /// The attempt has left the box, and there is nobody to ask.
    Unsupported,
    /// The request failed.
    Failed {
        /// Why, in words.
        error: String,
        /// Whether another request may help.
        retryable: bool,
        /// How long the tool asks to be left alone (ms).
        retry_after_ms: Option<u64>,
    },
}

/// How a hand-off went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandOffOutcome {
    /// It was acknowledged (2xx).
    Acknowledged,
    /// It was not.
    Failed {
        /// Why, in words.
        error: String,
        /// Whether it may have been received all the same.
        received: Executed,
        /// How long the other way asks to be left alone (ms).
        retry_after_ms: Option<u64>,
    },
}

/// A result that came from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationResult {
    /// It took effect.
    Succeeded(Value),
    /// It did not.
    Failed(String),
}

/// What the ledger says about an [`Input::Accept`], as part of [`super::News`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Acceptance {
    /// The model's name for the call.
    pub call_id: String,
    /// The response that asked.
    pub response: ResponseId,
    /// The operation.
    pub operation: OperationId,
    /// The batch that it belongs to.
    pub batch: BatchId,
    /// What the request repeats, and then nothing new runs; none where it was new.
    pub repeat: Option<Repeat>,
    /// What the caller hears, in the session's language.
    pub say: String,
}

/// What a request found that repeats another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// How far the operation is that it repeats.
    pub standing: Standing,
    /// What the tool's policy makes of the request.
    pub answer: RepeatAnswer,
    /// The closing that is about to be told.
    pub delivery: Option<DeliveryId>,
}

/// How far an operation is that is asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It, or another one that closes with it, runs.
    Running,
    /// It is settled, and its closing waits to be told or is being told.
    AboutToBeTold,
    /// Its closing is over.
    Told,
}

/// What becomes of a request that repeats another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepeatAnswer {
    /// The operation that it repeats is its answer.
    Reused,
    /// It is refused.
    Rejected,
    /// It is refused, and nothing of the first one is told: that is another party's.
    AskedByAnother,
    /// It is done once more if the caller says so: the same request in a later turn, marked as confirmed.
    NeedsConfirmation,
}
