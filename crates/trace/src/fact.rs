//! What of the effects is written in clear: decisions and states, for people. They hold nobody's words.

use recado_core::conversation::{self, Decision, Purpose, SegmentRef};
use recado_core::ids::{DeliveryId, OperationId, SessionId};
use recado_core::ledger::{self, ClauseEvidence, CommitId, DeliveryState, OperationState, Route, Write};
use serde::{Deserialize, Serialize};

/// Something that was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The gate answered.
    Decided(Decision),
    /// A conversation asks for a claim.
    Claim {
        /// The delivery.
        delivery: DeliveryId,
        /// The way that it will be told.
        route: Route,
    },
    /// A conversation gives a claim back.
    Release {
        /// The delivery.
        delivery: DeliveryId,
    },
    /// A clause of a delivery was given to the voice.
    Speak {
        /// The delivery.
        delivery: DeliveryId,
        /// The clause; none for the hedge before it.
        clause: Option<u32>,
        /// The segment that it became.
        segment: SegmentRef,
    },
    /// The first frame of a delivery has been released.
    FirstFrame {
        /// The delivery.
        delivery: DeliveryId,
    },
    /// What became of a delivery that was spoken.
    Settled {
        /// The delivery.
        delivery: DeliveryId,
        /// What is known of each clause.
        clauses: Vec<ClauseEvidence>,
    },
    /// A delivery is stale.
    Suppress {
        /// The delivery.
        delivery: DeliveryId,
    },
    /// An operation's state, once the transaction is durable.
    Operation {
        /// The transaction.
        commit: CommitId,
        /// The operation.
        operation: OperationId,
        /// The conversation that asked.
        session: SessionId,
        /// Its tool.
        tool: String,
        /// The state.
        state: OperationState,
        /// The attempt that it is in.
        attempt: u32,
    },
    /// A delivery's state, once the transaction is durable.
    Delivery {
        /// The transaction.
        commit: CommitId,
        /// The delivery.
        delivery: DeliveryId,
        /// Its first conversation.
        session: SessionId,
        /// The state.
        state: DeliveryState,
        /// Times that it was cut or doubted.
        attempt: u32,
        /// The delivery that took its place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        superseded_by: Option<DeliveryId>,
    },
    /// A delivery's claim, once the transaction is durable.
    Claimed {
        /// The transaction.
        commit: CommitId,
        /// The delivery.
        delivery: DeliveryId,
        /// The conversation that owns it.
        session: SessionId,
        /// The way that it is told.
        route: Route,
    },
}

pub(crate) fn of_conversation(effect: &conversation::Effect) -> Option<Fact> {
    Some(match effect {
        conversation::Effect::Decided(decision) => Fact::Decided(decision.clone()),
        conversation::Effect::Speak { segment, purpose: Purpose::Clause { delivery, clause }, .. } => {
            Fact::Speak { delivery: *delivery, clause: *clause, segment: *segment }
        }
        conversation::Effect::Ledger(input) => match &**input {
            ledger::Input::Claim { delivery, route, .. } => Fact::Claim { delivery: *delivery, route: *route },
            ledger::Input::Release { delivery, .. } => Fact::Release { delivery: *delivery },
            ledger::Input::FirstFrame { delivery, .. } => Fact::FirstFrame { delivery: *delivery },
            ledger::Input::Settled { delivery, clauses, .. } => Fact::Settled { delivery: *delivery, clauses: clauses.clone() },
            ledger::Input::Suppress { delivery } => Fact::Suppress { delivery: *delivery },
            _ => return None,
        },
        _ => return None,
    })
}

pub(crate) fn of_ledger(effect: &ledger::Effect) -> Vec<Fact> {
    let ledger::Effect::Persist { commit, writes } = effect else { return Vec::new() };
    writes.iter().filter_map(|write| of_write(*commit, write)).collect()
}

fn of_write(commit: CommitId, write: &Write) -> Option<Fact> {
    Some(match write {
        Write::CreateOperation(record) | Write::UpdateOperation(record) => Fact::Operation {
            commit,
            operation: record.id,
            session: record.session,
            tool: record.tool.clone(),
            state: record.state,
            attempt: record.attempt,
        },
        Write::CreateDelivery(record) | Write::UpdateDelivery(record) => Fact::Delivery {
            commit,
            delivery: record.id,
            session: record.session,
            state: record.state,
            attempt: record.attempt,
            superseded_by: record.superseded_by,
        },
        Write::Claim { delivery, session, route, .. } => Fact::Claimed { commit, delivery: *delivery, session: *session, route: *route },
        _ => return None,
    })
}
