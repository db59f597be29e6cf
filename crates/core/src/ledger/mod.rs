//! The ledger: one per box, alive when no call is up. Operations, batches, deliveries and their claims, and what is
//! committed together (R1–R6).
//!
//! No conversation's state may enter here, and nothing here knows how a sentence is spoken or a request is sent.
//!
//! **Give one input, carry out every effect in order, give the next input.** What the ledger decides is a draft until the store
//! has said [`Input::Durable`]; only then is anything sent, answered, offered or told. An operation costs five transactions from
//! its acceptance to its closing heard: accepted with its first attempt (R1, R2); sealed; result, drained batch and closing
//! (R3); claim (R4); heard and closed (R5).

mod batch;
mod cancel;
mod claim;
mod commit;
mod consent;
mod delivery;
mod due;
mod effect;
mod hand_off;
mod input;
mod inquiry;
mod intent;
mod listing;
mod machine;
mod observe;
mod operation;
mod progress;
mod reach;
mod record;
mod recover;
mod replace;
mod retain;
mod say;
mod session;
mod topics;
mod wish;
mod work;

pub use delivery::DOUBTS_MAX;
pub use effect::{
    CallbackAnswer, CancelRequest, Cancellation, DeliveryEnvelope, Dispatch, Effect, HandOff, Inquiry, LedgerMeasure, News, SpokenClause,
    WorkItem, WorkState, Write,
};
pub use input::{
    Acceptance, AttemptOutcome, CancelOutcome, CommitId, Executed, HandOffOutcome, Input, InquiryOutcome, OperationResult, Repeat,
    RepeatAnswer, RequestId, Standing,
};
pub use intent::{CLOSED_OPERATIONS_MAX, intent_key, occurrence};
pub use listing::{say_again, say_nothing_to_cancel, say_work};
pub use machine::Ledger;
pub use record::{
    BatchRecord, BatchState, ClauseEvidence, ClauseRecord, ClauseVerdict, Contradiction, DeliveryKind, DeliveryRecord, DeliveryState,
    OperationRecord, OperationState, Route,
};
pub use recover::{ClaimRecord, Snapshot};
pub use say::{say_refused, template_environment};
