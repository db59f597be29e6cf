//! Operations over time: retries, deadlines, restarts.

mod ledger_rig;

use ledger_rig::*;
use recado_core::ledger::*;
use serde_json::json;

fn called() -> Rig {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    rig
}

#[test]
fn a_restart_sends_an_idempotent_operation_again_under_the_same_key() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.attempted(operation, 1, AttemptOutcome::Deferred);
    rig.crash(0);
    assert_eq!(rig.sent(operation), 2);
    assert_eq!(rig.dispatched[0].intent_key, rig.dispatched[1].intent_key);
}

#[test]
fn what_was_out_at_a_restart_may_have_taken_effect_whatever_the_next_attempt_says() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.crash(0);
    let outcome = AttemptOutcome::Failed { error: "bad request".into(), executed: Executed::No, retryable: false, retry_after_ms: None };
    rig.attempted(operation, 2, outcome);
    assert_eq!(rig.operation(operation), OperationState::Unknown);
}

#[test]
fn a_deadline_goes_on_over_a_restart_where_the_clock_is_known_and_begins_anew_where_it_is_not() {
    for (synchronised, state) in [(true, OperationState::Unknown), (false, OperationState::Running)] {
        let mut rig = called();
        let operation = rig.order("ticket", 1);
        rig.pass(200_000);
        rig.now = 0;
        rig.wall.synchronised = synchronised;
        rig.crash(0);
        rig.pass(99_999);
        assert_eq!(rig.operation(operation), OperationState::Running);
        rig.pass(1);
        assert_eq!(rig.operation(operation), state);
    }
}

#[test]
fn a_restart_leaves_unknown_what_may_not_be_sent_again_and_the_closing_says_so() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.crash(0);
    assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Unknown, 1));
    rig.up(LATER_CALL, "ana");
    let delivery = rig.waiting().id;
    assert_eq!(texts(&rig.tell(LATER_CALL, delivery)), ["No se sabe."]);
    let request = rig.done(operation);
    assert_eq!(rig.answer(request), Some(CallbackAnswer::Recorded));
    let correction = rig.waiting().id;
    assert_eq!(texts(&rig.tell(LATER_CALL, correction)), ["Una corrección: Pagado 7."]);
}

#[test]
fn an_operation_that_was_accepted_and_never_sent_is_sent_whatever_its_tool() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    let row = rig.store.operations.get_mut(&operation).unwrap();
    (row.state, row.attempt) = (OperationState::Accepted, 0);
    rig.dispatched.clear();
    rig.crash(0);
    assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Running, 1));
}

#[test]
fn a_restart_tells_nobody_anything_before_its_own_changes_are_durable() {
    let mut rig = called();
    rig.order("ticket", 1);
    rig.prompt = false;
    rig.crash(0);
    rig.up(LATER_CALL, "ana");
    assert_eq!(rig.dispatched.len(), 1);
    rig.fail();
    assert_eq!(rig.dispatched.len(), 1);
    rig.pass(1_000);
    rig.durable();
    assert_eq!(rig.dispatched.len(), 2);
}

#[test]
fn a_crash_with_the_acceptance_in_flight_either_has_it_or_never_had_it() {
    for (kept, operations) in [(0, 0), (1, 1)] {
        let mut rig = called();
        rig.prompt = false;
        rig.ask(CALL, 1, 1, "ticket", json!({}));
        rig.crash(kept);
        rig.prompt = true;
        rig.durable();
        assert_eq!((rig.store.operations.len(), rig.dispatched.len()), (operations, operations));
    }
}

#[test]
fn a_restart_seals_open_batches_and_drains_what_is_complete() {
    let mut rig = called();
    rig.ask(CALL, 1, 1, "pay", json!({}));
    let operation = rig.accepted().operation;
    rig.done(operation);
    assert!(rig.ledger.pending().is_empty());
    rig.crash(0);
    assert_eq!(rig.waiting().clauses[0].text.es.as_deref(), Some("Pagado 7."));
}

#[test]
fn what_was_being_spoken_in_another_boot_may_have_been_heard() {
    for frames in [false, true] {
        let mut rig = called();
        let operation = rig.order("pay", 1);
        rig.done(operation);
        let delivery = rig.waiting().id;
        rig.claim(CALL, delivery);
        if frames {
            rig.give(Input::FirstFrame { session: CALL, delivery });
        }
        rig.crash(0);
        assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Uncertain, 1));
        assert!(rig.store.claims.is_empty());
        rig.up(LATER_CALL, "ana");
        assert_eq!(texts(&rig.tell(LATER_CALL, delivery))[0], "Puede que ya te lo haya dicho:");
    }
}

#[test]
fn a_cancel_is_resumed_by_a_restart() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.prompt = false;
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    rig.durable();
    rig.prompt = true;
    rig.crash(0);
    assert_eq!(rig.operation(operation), OperationState::Unknown, "it was out: nobody knows whether the cancel came in time");
}

#[test]
fn what_is_asked_again_after_a_restart_is_still_the_same_thing() {
    let mut rig = called();
    rig.ask(CALL, 1, 1, "ticket", json!({"a": 1}));
    let first = rig.accepted().operation;
    rig.crash(0);
    rig.up(LATER_CALL, "ana");
    rig.ask(LATER_CALL, 2, 2, "ticket", json!({"a": 1.0}));
    assert_eq!((rig.accepted().operation, rig.accepted().repeat.is_some()), (first, true));
    rig.done(first);
    let delivery = rig.waiting().id;
    rig.tell(LATER_CALL, delivery);
    rig.crash(0);
    rig.up(LATER_CALL, "ana");
    rig.ask(LATER_CALL, 3, 3, "ticket", json!({"a": 1}));
    assert!(rig.accepted().repeat.is_none());
    assert!(rig.dispatched.last().unwrap().intent_key.0.ends_with("|2"));
    let late = rig.done(first);
    assert_eq!(rig.answer(late), Some(CallbackAnswer::Recorded), "closed operations are still known after a restart");
}

#[test]
fn a_tool_that_left_the_configuration_neither_runs_nor_blocks() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.attempt_failed(operation, 1, Executed::No);
    rig.policies.remove("ticket");
    rig.crash(0);
    assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Failed, 1));
    assert_eq!(rig.waiting().clauses.len(), 1);
}

#[test]
fn what_may_have_been_executed_stays_so_over_a_restart_whatever_the_configuration_says_by_then() {
    for tool_is_there in [true, false] {
        let mut rig = called();
        let operation = rig.order("ticket", 1);
        rig.attempt_failed(operation, 1, Executed::Maybe);
        assert_eq!(rig.operation(operation), OperationState::RetryWait);
        if tool_is_there {
            rig.policies.get_mut("ticket").unwrap().idempotent = false;
        } else {
            rig.policies.remove("ticket");
        }
        rig.crash(0);
        rig.pass(60_000);
        assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Unknown, 1));
    }
}

#[test]
fn what_provably_did_nothing_stays_so_over_a_restart_whatever_the_configuration_says_by_then() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.attempt_failed(operation, 1, Executed::No);
    rig.policies.get_mut("pay").unwrap().idempotent = true;
    rig.crash(0);
    rig.pass(60_000);
    assert_eq!(rig.sent(operation), 2);
    let outcome = AttemptOutcome::Failed { error: "no".into(), executed: Executed::No, retryable: false, retry_after_ms: None };
    rig.attempted(operation, 2, outcome);
    assert_eq!(rig.operation(operation), OperationState::Failed);
}

#[test]
fn an_attempt_that_a_restart_cut_off_is_remembered_by_the_next_restart() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.crash(0);
    assert!(rig.store.operations[&operation].maybe_executed);
    rig.attempt_failed(operation, 2, Executed::No);
    rig.policies.remove("ticket");
    rig.crash(0);
    assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Unknown, 2));
}

#[test]
fn attempts_are_repeated_with_growing_waits_until_the_policy_is_exhausted() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    let mut at = Vec::new();
    for attempt in 1..=5 {
        assert_eq!(rig.sent(operation), usize::try_from(attempt).unwrap());
        at.push(rig.now);
        rig.attempt_failed(operation, attempt, Executed::No);
        while rig.operation(operation) == OperationState::RetryWait {
            rig.pass(10);
        }
    }
    assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Failed, 5));
    let waits: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (wait, least) in waits.iter().zip([500, 1_000, 2_000, 4_000]) {
        assert!((least..=least * 3 / 2 + 10).contains(wait), "{waits:?}");
    }
    assert_eq!(rig.waiting().clauses[0].text.es.as_deref(), Some("Falló."));
}

#[test]
fn a_promise_that_is_never_kept_is_unknown_at_the_deadline_and_reconciled_by_a_late_callback() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.attempted(operation, 1, AttemptOutcome::Deferred);
    rig.pass(299_999);
    assert_eq!(rig.operation(operation), OperationState::Running);
    rig.pass(1);
    assert_eq!(rig.operation(operation), OperationState::Unknown);
    rig.callback(operation, OperationResult::Failed("out of stock".into()));
    assert_eq!(rig.operation(operation), OperationState::Failed);
}

#[test]
fn a_callback_that_overtakes_the_answer_of_its_attempt_wins() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    rig.attempted(operation, 1, AttemptOutcome::Deferred);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    assert_eq!(rig.operation(operation), OperationState::Succeeded);
    rig.attempted(operation, 1, AttemptOutcome::Succeeded(json!({"id": 8})));
    assert_eq!(rig.count(&LedgerMeasure::RepeatedResult), 1);
    assert_eq!(rig.store.operations[&operation].result, Some(json!({"id": 7})));
}

#[test]
fn an_effect_that_is_known_to_have_happened_twice_is_counted() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.attempt_failed(operation, 1, Executed::No);
    rig.pass(1_000);
    rig.attempted(operation, 2, AttemptOutcome::Succeeded(json!({"id": 7})));
    assert_eq!(rig.count(&LedgerMeasure::DuplicateSideEffect), 0);
    rig.attempted(operation, 1, AttemptOutcome::Succeeded(json!({"id": 6})));
    assert_eq!(rig.count(&LedgerMeasure::DuplicateSideEffect), 1, "the executor was wrong about the first");
    assert_eq!(rig.store.operations[&operation].result, Some(json!({"id": 7})));
}

#[test]
fn callers_without_a_name_who_hang_up_do_not_fill_the_box() {
    let mut rig = Rig::new();
    rig.up(CALL, "");
    let operations: Vec<_> = (0..1_200).map(|number| rig.order("ticket", number)).collect();
    rig.over(CALL);
    for operation in operations {
        rig.done(operation);
    }
    assert_eq!(rig.ledger.operations().count(), 1_000);
    assert!(rig.store.deliveries.values().all(|row| row.state == DeliveryState::Ready), "the store keeps them");
}

#[test]
fn a_callback_for_an_operation_that_nobody_knows_is_answered_404() {
    let mut rig = called();
    rig.give(Input::Callback {
        request: RequestId(5),
        operation: recado_core::OperationId(99),
        result: OperationResult::Failed("x".into()),
    });
    assert_eq!(rig.answer(RequestId(5)), Some(CallbackAnswer::Unknown));
}

#[test]
fn an_operation_asked_for_after_its_response_ended_gets_a_sealed_batch_of_its_own() {
    let mut rig = called();
    let first = rig.order("pay", 1);
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    let second = rig.accepted();
    assert_ne!(rig.store.operations[&first].batch, second.batch);
    rig.done(second.operation);
    assert_eq!(rig.waiting().batch, second.batch);
}

#[test]
fn the_end_of_a_call_seals_what_its_responses_left_open() {
    let mut rig = called();
    rig.ask(CALL, 1, 1, "pay", json!({}));
    let operation = rig.accepted().operation;
    rig.done(operation);
    rig.over(CALL);
    assert_eq!(rig.waiting().kind, DeliveryKind::Final);
}

#[test]
fn the_same_inputs_give_the_same_effects() {
    let play = || {
        let mut rig = called();
        let operation = rig.order("ticket", 1);
        rig.attempt_failed(operation, 1, Executed::Maybe);
        rig.pass(10_000);
        rig.done(operation);
        let delivery = rig.waiting().id;
        rig.tell(CALL, delivery);
        (format!("{:?}", rig.news), format!("{:?}", rig.dispatched), format!("{:?}", rig.store))
    };
    assert_eq!(play(), play(), "I15");
}
