//! What must hold in every state: the contract's invariants and R1–R6, as what the world could see of their breach.

use recado_core::ledger::{BatchState, DeliveryKind, DeliveryState, OperationState};

use crate::alphabet::Machine;
use crate::model::{Model, State};

/// A law, which holds in a state or does not.
pub type Law<M> = fn(&Model<M>, &State<M>) -> bool;

/// R1.
pub const ACCEPTED_IS_DURABLE: &str = "R1: what was accepted or sent is durable";
/// R2.
pub const SENT_IS_DURABLE: &str = "R2: an attempt that has left is durable";
/// R3.
pub const ACKNOWLEDGED_IS_DURABLE: &str = "R3: a result whose sender got its 2xx is on record";
/// R4.
pub const SPEAKING_IS_CLAIMED: &str = "R4, I10, I17: what is on the air is claimed by who speaks it, durably, and still to be told";
/// R5.
pub const SPOKEN_WAS_HEARD: &str = "R5, I6: what is Spoken was heard";
/// R6.
pub const CANCELLING_IS_DURABLE: &str = "R6: what a tool is asked to cancel is durably being cancelled";
/// I4.
pub const OUTCOME_IS_TRUE: &str = "I4: an operation's outcome is what happened";
/// I1.
pub const ONE_CLOSING: &str = "I1: at most one closing of a batch is confirmed heard";
/// I1.
pub const AGAIN_ONLY_IN_DOUBT: &str = "I1: a closing is heard again only after it was in doubt";
/// I2.
pub const NO_CLOSING_IS_LOST: &str = "I2: a drained batch has its closing, and a closed one has told it or says why not";
/// I3.
pub const ONE_EFFECT: &str = "I3: at most one effect per intent";
/// I17.
pub const ONE_TELLER: &str = "I17: one conversation at a time tells a delivery";

/// All of them, by name.
pub fn laws<M: Machine>() -> Vec<(&'static str, Law<M>)> {
    vec![
        (ACCEPTED_IS_DURABLE, accepted_is_durable),
        (SENT_IS_DURABLE, sent_is_durable),
        (ACKNOWLEDGED_IS_DURABLE, acknowledged_is_durable),
        (SPEAKING_IS_CLAIMED, speaking_is_claimed),
        (SPOKEN_WAS_HEARD, spoken_was_heard),
        (CANCELLING_IS_DURABLE, asked_to_cancel_is_durable),
        (OUTCOME_IS_TRUE, outcome_is_true),
        (ONE_CLOSING, one_closing),
        (AGAIN_ONLY_IN_DOUBT, again_only_in_doubt),
        (NO_CLOSING_IS_LOST, no_closing_is_lost),
        (ONE_EFFECT, one_effect),
        (ONE_TELLER, one_teller),
    ]
}

fn accepted_is_durable<M: Machine>(_: &Model<M>, state: &State<M>) -> bool {
    let out = |tool: &crate::world::Tool| tool.accepted || tool.request.is_some() || tool.orphan || tool.effects > 0;
    (0..).zip(&state.world.tools).all(|(operation, tool)| !out(tool) || state.view.operation(operation).is_some())
}

fn sent_is_durable<M: Machine>(_: &Model<M>, state: &State<M>) -> bool {
    let attempt = |operation| state.view.operation(operation).map_or(0, |row| row.attempt);
    (0..).zip(&state.world.tools).all(|(operation, tool)| tool.request.is_none_or(|(sent, _)| sent <= attempt(operation)))
}

/// Nothing else leads to a cancel request than `Cancelling`, which its result may have ended since.
fn asked_to_cancel_is_durable<M: Machine>(_: &Model<M>, state: &State<M>) -> bool {
    let cancelling = |operation| {
        let row = state.view.operation(operation);
        row.is_some_and(|row| !matches!(row.state, OperationState::Accepted | OperationState::Running | OperationState::RetryWait))
    };
    (0..).zip(&state.world.tools).all(|(operation, tool)| tool.cancel.is_none() || cancelling(operation))
}

fn acknowledged_is_durable<M: Machine>(_: &Model<M>, state: &State<M>) -> bool {
    let known = |operation| {
        state.view.operation(operation).is_some_and(|row| matches!(row.state, OperationState::Succeeded | OperationState::TooLate))
    };
    (0..).zip(&state.world.tools).all(|(operation, tool)| !tool.acknowledged || known(operation))
}

fn speaking_is_claimed<M: Machine>(_: &Model<M>, state: &State<M>) -> bool {
    let on_air = |call| state.world.on_air(call);
    let claimed = |call, delivery: usize| {
        state.view.deliveries.get(delivery).is_some_and(|row| row.state == DeliveryState::Speaking && row.claim == Some(call))
    };
    (0..).zip(&state.world.callers).all(|(call, caller)| match &caller.telling {
        Some(telling) if on_air(call) => claimed(call, telling.delivery),
        _ => true,
    })
}

/// A correction that took a closing's place keeps what was heard of that: its clauses may have been heard in another delivery.
fn spoken_was_heard<M: Machine>(_: &Model<M>, state: &State<M>) -> bool {
    let rows = || state.view.deliveries.iter().zip(&state.world.ear);
    let heard_of =
        |operation: usize| rows().any(|(row, ear)| row.clauses.iter().zip(ear).any(|((of, _), &times)| *of == operation && times > 0));
    rows().filter(|(row, _)| row.state == DeliveryState::Spoken).all(|(row, ear)| {
        let mut clauses = row.clauses.iter().zip(ear);
        clauses.all(|((of, heard), &times)| *heard && (times > 0 || (row.kind == DeliveryKind::Correction && heard_of(*of))))
    })
}

fn outcome_is_true<M: Machine>(_: &Model<M>, state: &State<M>) -> bool {
    let rows = state.view.operations.iter().zip(&state.world.tools);
    !state.world.contradicted
        && rows.filter_map(|(row, tool)| Some((row.as_ref()?.state, tool.effects, tool.undone))).all(|(outcome, effects, undone)| {
            match outcome {
                OperationState::Succeeded | OperationState::TooLate => effects > 0 && !undone,
                OperationState::Cancelled => effects == 0,
                // What had been given up as not known, and was undone, failed too.
                OperationState::Failed => effects == 0 || undone,
                OperationState::Compensated => effects > 0 && undone,
                _ => true,
            }
        })
}

fn one_closing<M: Machine>(_: &Model<M>, state: &State<M>) -> bool {
    let closings = || state.view.deliveries.iter().filter(|row| row.kind == DeliveryKind::Final);
    closings().count() <= 1 && closings().filter(|row| row.state == DeliveryState::Spoken).count() <= 1
}

fn again_only_in_doubt<M: Machine>(_: &Model<M>, state: &State<M>) -> bool {
    (0..).zip(&state.world.doubted).all(|(delivery, &doubted)| doubted || state.world.closings_heard(delivery) < 2)
}

fn no_closing_is_lost<M: Machine>(_: &Model<M>, state: &State<M>) -> bool {
    let closings = || state.view.deliveries.iter().filter(|row| row.kind == DeliveryKind::Final);
    let settled = state.view.operations.iter().flatten().all(|row| row.state.settled());
    match state.view.batch {
        None | Some(BatchState::Open | BatchState::Sealed) => closings().count() == 0,
        Some(BatchState::Drained) => closings().count() == 1 && settled,
        Some(BatchState::Closed) => closings().count() == 1 && settled && closings().all(|row| row.state.terminal()),
    }
}

fn one_effect<M: Machine>(_: &Model<M>, state: &State<M>) -> bool {
    state.world.tools.iter().all(|tool| tool.effects <= 1)
}

fn one_teller<M: Machine>(_: &Model<M>, state: &State<M>) -> bool {
    (0..state.view.deliveries.len()).all(|delivery| {
        let tells = |caller: &&crate::world::Caller| {
            caller.telling.as_ref().is_some_and(|telling| telling.delivery == delivery && !telling.words.is_empty())
        };
        state.world.callers.iter().filter(tells).count() <= 1
    })
}
