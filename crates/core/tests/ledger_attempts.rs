//! Attempts and what is reported on them: nothing shortens a wait, nothing is counted twice, and what comes after the end is judged
//! by what is on record.

mod ledger_rig;

use ledger_rig::*;
use recado_core::OperationId;
use recado_core::ledger::*;
use recado_core::policy::DuplicatePolicy;
use serde_json::json;

fn called() -> Rig {
    let mut policies = policies();
    let ticket = policies.get_mut("ticket").unwrap();
    (ticket.cancellable, ticket.retry.backoff_ms, ticket.retry.backoff_ms_max) = (true, 10_000, 60_000);
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig
}

/// Two operations of one batch, the first of which waits for its second attempt for ten to fifteen seconds.
fn waiting(rig: &mut Rig) -> (OperationId, OperationId) {
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    let waits = rig.accepted().operation;
    rig.ask(CALL, 1, 1, "pay", json!({}));
    let other = rig.accepted().operation;
    rig.seal(CALL, 1);
    rig.attempt_failed(waits, 1, Executed::No);
    assert_eq!(rig.operation(waits), OperationState::RetryWait);
    (waits, other)
}

/// A payment to somebody takes the place of the one before it to the same.
fn replacing() -> Rig {
    let mut policies = policies();
    let pay = policies.get_mut("pay").unwrap();
    (pay.duplicate, pay.cancellable, pay.idempotency_fields) = (DuplicatePolicy::Replace, true, vec!["to".into()]);
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig
}

/// Two of them, the second while the first runs.
fn replaced(rig: &mut Rig) -> (OperationId, OperationId) {
    rig.ask(CALL, 1, 1, "pay", json!({ "to": "bea", "euros": 5 }));
    let older = rig.accepted().operation;
    rig.ask(CALL, 2, 2, "pay", json!({ "to": "bea", "euros": 9 }));
    let newer = rig.accepted().operation;
    (older, newer)
}

#[test]
fn what_happens_to_another_operation_of_its_batch_does_not_shorten_the_wait_for_an_attempt() {
    let mut rig = called();
    let (waits, other) = waiting(&mut rig);
    rig.pass(9_000);
    rig.done(other);
    assert_eq!((rig.operation(waits), rig.sent(waits)), (OperationState::RetryWait, 1));
    rig.pass(6_000);
    assert_eq!((rig.operation(waits), rig.sent(waits)), (OperationState::Running, 2));
}

#[test]
fn a_failure_that_is_reported_again_changes_nothing_of_the_wait_that_it_began() {
    let mut rig = called();
    let (waits, _) = waiting(&mut rig);
    let (row, due) = (rig.store.operations[&waits].clone(), rig.ledger.deadline());
    rig.pass(5_000);
    rig.attempt_failed(waits, 1, Executed::Maybe);
    assert_eq!((&rig.store.operations[&waits], rig.ledger.deadline()), (&row, due));
    rig.pass(10_000);
    rig.attempt_failed(waits, 1, Executed::No);
    assert_eq!((rig.operation(waits), rig.sent(waits)), (OperationState::Running, 2), "nor of the attempt after it");
}

#[test]
fn a_restart_in_the_wait_for_an_attempt_begins_the_wait_anew() {
    let mut rig = called();
    let (waits, _) = waiting(&mut rig);
    rig.crash(0);
    rig.pass(9_999);
    assert_eq!((rig.operation(waits), rig.sent(waits)), (OperationState::RetryWait, 1));
    rig.pass(1);
    assert_eq!((rig.operation(waits), rig.sent(waits)), (OperationState::Running, 2));
}

#[test]
fn an_operation_that_goes_with_every_crash_is_sent_again_so_often_and_no_more() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    for _ in 0..20 {
        rig.crash(0);
    }
    // Five by its policy, and eight that restarts may cost.
    assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Unknown, 13));
}

#[test]
fn what_was_never_sent_is_cancelled_without_asking_anybody_also_over_a_restart() {
    let mut rig = replacing();
    let pay = |rig: &mut Rig, turn, euros| {
        rig.ask(CALL, turn, turn, "pay", json!({ "to": "bea", "euros": euros }));
        rig.seal(CALL, turn);
        rig.accepted().operation
    };
    let older = pay(&mut rig, 1, 5);
    let newer = pay(&mut rig, 2, 9);
    assert_eq!((rig.operation(newer), rig.sent(newer)), (OperationState::Accepted, 0));
    rig.prompt = false;
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    rig.crash(9);
    assert_eq!(rig.operation(newer), OperationState::Cancelling);
    rig.prompt = true;
    rig.all_durable();
    assert_eq!((rig.operation(newer), rig.operation(older)), (OperationState::Cancelled, OperationState::Cancelling));
    assert!(rig.cancels.iter().all(|request| request.operation == older), "{:?}", rig.cancels);
}

#[test]
fn what_comes_after_a_cancel_is_a_contradiction_only_where_it_is_one() {
    let failed = || OperationResult::Failed("it was cancelled".into());
    let succeeded = || OperationResult::Succeeded(json!({ "id": 7 }));
    for (outcome, result, answer) in [
        (CancelOutcome::Cancelled, failed(), CallbackAnswer::Recorded),
        (CancelOutcome::Cancelled, succeeded(), CallbackAnswer::Conflict),
        (CancelOutcome::Compensated, succeeded(), CallbackAnswer::Recorded),
    ] {
        let mut rig = called();
        let operation = rig.order("ticket", 1);
        rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
        rig.cancel_answered(operation, outcome.clone());
        let request = rig.callback(operation, result.clone());
        assert_eq!(rig.answer(request), Some(answer.clone()), "{outcome:?}, then {result:?}");
        let contradicted = rig.store.operations[&operation].contradiction.is_some();
        assert_eq!(contradicted, answer == CallbackAnswer::Conflict);
    }
}

#[test]
fn the_word_on_a_cancel_that_comes_after_it_was_given_up_is_what_became_of_it() {
    for (outcome, state) in [
        (CancelOutcome::Cancelled, OperationState::Cancelled),
        (CancelOutcome::Compensated, OperationState::Compensated),
        (CancelOutcome::TooLate { result: None }, OperationState::TooLate),
        (CancelOutcome::TooLate { result: Some(json!({ "id": 7 })) }, OperationState::Succeeded),
        (CancelOutcome::Unsupported, OperationState::Unknown),
    ] {
        let mut rig = called();
        let operation = rig.order("ticket", 1);
        rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
        rig.pass(3_600_000);
        assert_eq!(rig.operation(operation), OperationState::Unknown);
        rig.cancel_answered(operation, outcome);
        assert_eq!(rig.operation(operation), state);
    }
}

#[test]
fn a_replacement_begins_also_where_the_store_has_just_failed_it() {
    let mut rig = replacing();
    let (older, newer) = replaced(&mut rig);
    rig.prompt = false;
    rig.seal(CALL, 2);
    rig.fail();
    rig.cancel_answered(older, CancelOutcome::Cancelled);
    rig.all_durable();
    rig.prompt = true;
    rig.pass(1_000);
    assert_eq!((rig.operation(older), rig.operation(newer)), (OperationState::Cancelled, OperationState::Running));
}

#[test]
fn a_replacement_of_what_is_still_being_accepted_waits_for_its_end() {
    let mut rig = replacing();
    rig.prompt = false;
    rig.ask(CALL, 1, 1, "pay", json!({ "to": "bea", "euros": 5 }));
    rig.ask(CALL, 2, 2, "pay", json!({ "to": "bea", "euros": 9 }));
    let older = rig.in_flight.pop_front().expect("it is being accepted");
    rig.durable();
    let newer = rig.accepted().operation;
    assert!(rig.in_flight.is_empty(), "nothing of the newer one begins: {:?}", rig.in_flight);
    rig.in_flight.push_back(older);
    rig.all_durable();
    assert_eq!((rig.operation(newer), rig.sent(newer), rig.dispatched.len()), (OperationState::Accepted, 0, 1));
}

#[test]
fn a_cancel_that_waits_to_be_asked_again_is_over_when_the_last_attempt_is_reported_as_not_executed_though_the_store_failed_that_first() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    let busy = CancelOutcome::Failed { error: "busy".into(), retryable: true, retry_after_ms: Some(60_000) };
    rig.cancel_answered(operation, busy);
    rig.prompt = false;
    rig.attempt_failed(operation, 1, Executed::No);
    rig.fail();
    rig.prompt = true;
    assert_eq!(rig.operation(operation), OperationState::Cancelling);
    rig.pass(1_000);
    assert_eq!((rig.operation(operation), rig.cancels.len()), (OperationState::Cancelled, 1), "nobody is left to be asked");
}

#[test]
fn a_replacement_begins_with_the_end_of_what_it_replaces_also_where_the_store_has_just_refused_something_else_of_its_batch() {
    let mut rig = replacing();
    let (older, newer) = replaced(&mut rig);
    rig.prompt = false;
    rig.ask(CALL, 2, 2, "ticket", json!({}));
    rig.fail();
    rig.prompt = true;
    assert_eq!(rig.refusals(), 1);
    rig.cancel_answered(older, CancelOutcome::Cancelled);
    rig.pass(1_000);
    assert_eq!((rig.operation(older), rig.operation(newer)), (OperationState::Cancelled, OperationState::Running));
}

#[test]
fn what_its_tool_says_it_did_is_not_tried_again_though_that_could_not_be_put_on_record() {
    for executed in [Executed::No, Executed::Maybe] {
        let mut rig = Rig::new();
        rig.up(CALL, "ana");
        let operation = rig.order("pay", 1);
        rig.prompt = false;
        let done = rig.done(operation);
        rig.fail();
        assert_eq!(rig.answer(done), Some(CallbackAnswer::Unavailable));
        rig.prompt = true;
        rig.attempt_failed(operation, 1, executed);
        rig.pass(30_000);
        assert_eq!((rig.operation(operation), rig.dispatched.len()), (OperationState::Unknown, 1), "R2");
        assert!(rig.store.operations[&operation].maybe_executed);
        let again = rig.done(operation);
        assert_eq!(rig.answer(again), Some(CallbackAnswer::Recorded));
        assert_eq!(rig.operation(operation), OperationState::Succeeded);
    }
}
