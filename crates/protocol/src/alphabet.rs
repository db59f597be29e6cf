//! What goes into a ledger, what comes out and what is durable, in terms small enough to be enumerated. The specification
//! and the real ledger are both driven and judged in them.

use std::fmt::Debug;
use std::hash::Hash;

use recado_core::ledger::{BatchState, ClauseVerdict, DeliveryKind, DeliveryState, OperationState, SpokenClause};
use recado_core::policy::UncertainPolicy;

/// An operation, by its place in the batch.
pub type Operation = usize;

/// A conversation, by its place among those of one party. The first is the one that the batch was asked in.
pub type Call = usize;

/// A delivery of the batch, by its place in the order of their sequence.
pub type Delivery = usize;

/// A clause that is told, by its number; [`SHORT`] is the short form of all of them.
pub type Word = u32;

/// The short form.
pub const SHORT: Word = SpokenClause::SHORT;

/// What a ledger is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// The operation is asked for, for the first time or again, in this conversation.
    Accept(Call, Operation),
    /// The response that asked has ended.
    Seal,
    /// The caller wants everything cancelled.
    Cancel(Call),
    /// An executor reports.
    Attempted(Operation, u8, Attempted),
    /// A cancel request is answered: the request's number, and how.
    CancelAnswered(Operation, u8, Cancelled),
    /// A callback says that it succeeded.
    Callback(Operation),
    /// A conversation is up.
    Up(Call),
    /// A conversation is over.
    Over(Call),
    /// A delivery is claimed.
    Claim(Call, Delivery),
    /// A claim is given back before its first frame.
    Release(Call, Delivery),
    /// A first frame has been released.
    FirstFrame(Call, Delivery),
    /// Evidence.
    Settled(Call, Delivery, Vec<(Word, Verdict)>),
    /// A delivery is stale.
    Suppress(Delivery),
    /// Something newer on the same topic was asked for, durably.
    Newer(Call),
    /// A while passes: every back-off is over.
    Pause,
    /// The deadline of everything passes.
    Deadline,
    /// The store has committed what is in flight.
    Durable,
    /// The store has failed what is in flight.
    Failed,
    /// The power goes and comes back. What was in flight was kept, or not.
    PowerCut {
        /// Whether it was.
        kept: bool,
    },
}

/// How an attempt went, as its executor saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attempted {
    /// It succeeded.
    Succeeded,
    /// It was provably not executed, and may be tried again.
    NotExecuted,
    /// Nobody knows whether it was executed; it may be tried again if that is safe.
    Maybe,
}

/// What a cancel request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cancelled {
    /// The attempt had not left the box, and never will.
    Recalled,
    /// The tool takes no such requests.
    Unsupported,
    /// It had not been executed, and never will be.
    Cancelled,
    /// It had been executed, and is undone.
    Compensated,
    /// It has been executed, and stays so; with its result.
    TooLate,
    /// It has been executed, and stays so; its result is not said with it, and may come later.
    TooLateWithoutResult,
}

/// What is known of a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Heard to its end.
    Heard,
    /// Not heard to its end.
    Unheard,
    /// Nobody knows.
    Uncertain,
}

impl From<Verdict> for ClauseVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Heard => Self::Heard(recado_core::conversation::input::Evidence::Received),
            Verdict::Unheard => Self::Unheard,
            Verdict::Uncertain => Self::Uncertain,
        }
    }
}

/// What a ledger lets out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Output {
    /// An operation is accepted, or was before.
    Accepted(Call, Operation),
    /// It could not be.
    Refused(Call, Operation),
    /// An attempt leaves the box.
    Dispatch(Operation, u8),
    /// An executor is asked to cancel: the request's number.
    CancelRequest(Operation, u8),
    /// A callback is answered.
    Answer(Operation, Answer),
    /// A delivery may be claimed by this conversation.
    Offered(Call, Delivery),
    /// It is not to be told there any more; where it is being spoken, it stops.
    Withdrawn(Call, Delivery),
    /// The claim is granted, with what is to be said.
    Claimed(Call, Delivery, Vec<Word>),
    /// It is not.
    ClaimRefused(Call, Delivery),
}

/// The answer to a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// 200: on record.
    Recorded,
    /// 409: something else is on record.
    Conflict,
    /// 503: it could not be made durable.
    Unavailable,
}

/// What is durable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct View {
    /// The batch; none before its first operation is accepted.
    pub batch: Option<BatchState>,
    /// Its operations, in the order of their places; none that has not been accepted.
    pub operations: Vec<Option<OperationView>>,
    /// Its deliveries, in the order of their sequence.
    pub deliveries: Vec<DeliveryView>,
}

/// A durable operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OperationView {
    /// Its state.
    pub state: OperationState,
    /// Its latest attempt.
    pub attempt: u8,
    /// Whether one of them may have been executed.
    pub maybe: bool,
}

/// A durable delivery.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeliveryView {
    /// What it is for the batch.
    pub kind: DeliveryKind,
    /// Its state.
    pub state: DeliveryState,
    /// Times that it was cut or doubted.
    pub attempt: u8,
    /// The operation that each clause is about, and whether it counts as heard.
    pub clauses: Vec<(Operation, bool)>,
    /// Who has claimed it.
    pub claim: Option<Call>,
}

impl View {
    /// An operation, where it is durable.
    pub fn operation(&self, operation: Operation) -> Option<&OperationView> {
        self.operations.get(operation).and_then(Option::as_ref)
    }

    /// Whether the party is owed nothing more: nothing was accepted, or its closing is over.
    pub fn settled(&self) -> bool {
        self.batch.is_none_or(|batch| batch == BatchState::Closed) && self.deliveries.iter().all(|delivery| delivery.state.terminal())
    }
}

/// What is explored: how large the world is, and how often what can go wrong without end goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scope {
    /// For each operation, whether its tool is idempotent.
    pub idempotent: &'static [bool],
    /// Attempts in all, restarts apart.
    pub attempts_max: u8,
    /// Conversations of the party.
    pub calls: usize,
    /// What is done in doubt.
    pub uncertain: UncertainPolicy,
    /// Power cuts.
    pub power_cuts: u8,
    /// Transactions that the store fails.
    pub failures: u8,
    /// Closings cut by the caller.
    pub cuts: u8,
    /// Closings that end without evidence, by a lost report or a lost call.
    pub doubts: u8,
    /// Answers of tools that are lost on the way.
    pub lost_answers: u8,
    /// Whether a caller may cancel.
    pub cancel: bool,
    /// Whether tools take cancel requests.
    pub cancellable: bool,
    /// Whether a delivery may become stale.
    pub stale: bool,
    /// Whether something newer may be asked for on the same topic.
    pub newer: bool,
    /// Inputs that may wait for one transaction.
    pub overlap: u8,
}

/// A ledger as the world sees it.
pub trait Machine: Clone + PartialEq + Hash + Debug {
    /// A new box, with the first conversation up.
    fn new(scope: &Scope) -> Self;

    /// Takes one input; what comes out is in the order in which it leaves.
    fn give(&mut self, scope: &Scope, input: &Input) -> Vec<Output>;

    /// What is durable.
    fn view(&self) -> View;

    /// Whether a transaction is in flight.
    fn in_flight(&self) -> bool;

    /// Whether it takes another input of the world now.
    fn open(&self, scope: &Scope) -> bool;

    /// Whether something waits for a back-off.
    fn pausing(&self) -> bool;
}
