//! The ledger: one per box, alive when no call is up. Operations, batches, deliveries and their claims, and what is
//! committed together (R1–R6).
//!
//! No conversation's state may enter here, and nothing here knows how a sentence is spoken or a request is sent.

mod effect;
mod input;
mod record;

pub use effect::{CallbackAnswer, DeliveryEnvelope, Dispatch, Effect, LedgerMeasure, News, SpokenClause, Write};
pub use input::{Acceptance, AttemptOutcome, CommitId, Executed, Input, OperationResult, RequestId};
pub use record::{
    BatchRecord, BatchState, ClauseEvidence, ClauseRecord, ClauseVerdict, DeliveryKind, DeliveryRecord, DeliveryState, OperationRecord,
    OperationState, Route,
};
