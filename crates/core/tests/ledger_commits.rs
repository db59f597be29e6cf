//! Commit before act (R1–R6): what happens when the store is late, and when it fails.

mod ledger_rig;

use ledger_rig::*;
use recado_core::SessionId;
use recado_core::ledger::*;
use serde_json::json;

/// A box whose store answers only when told.
fn slow() -> Rig {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    rig.prompt = false;
    rig
}

fn prompt() -> Rig {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    rig
}

#[test]
fn nothing_is_accepted_or_sent_before_operation_and_attempt_are_durable() {
    let mut rig = slow();
    rig.ask(CALL, 1, 1, "pay", json!({}));
    assert!(rig.dispatched.is_empty() && rig.news.is_empty());
    rig.durable();
    assert_eq!(rig.dispatched.len(), 1);
    assert!(rig.accepted().repeat.is_none());
    assert_eq!(rig.accepted().say, "De acuerdo, me pongo con ello.");
}

#[test]
fn an_acceptance_that_cannot_be_made_durable_is_refused_and_nothing_was_done() {
    let mut rig = slow();
    rig.ask(CALL, 1, 1, "pay", json!({}));
    rig.fail();
    assert_eq!((rig.refusals(), rig.dispatched.len(), rig.store.operations.len()), (1, 0, 0));
    rig.ask(CALL, 1, 1, "pay", json!({}));
    rig.durable();
    assert_eq!((rig.dispatched.len(), rig.accepted().repeat.is_some()), (1, false), "asked again it is a new try");
    assert!(rig.dispatched[0].intent_key.0.ends_with("|1"), "and no occurrence was used up");
}

#[test]
fn a_tool_that_is_not_there_is_refused() {
    let mut rig = slow();
    rig.ask(CALL, 1, 1, "nothing", json!({}));
    assert_eq!((rig.refusals(), rig.in_flight.len()), (1, 0));
}

#[test]
fn the_same_thing_asked_twice_while_the_first_is_in_flight_runs_once() {
    let mut rig = slow();
    rig.ask(CALL, 1, 1, "pay", json!({"to": "a"}));
    rig.ask(CALL, 1, 1, "pay", json!({"to": "a"}));
    rig.up(LATER_CALL, "ana");
    rig.ask(LATER_CALL, 7, 7, "pay", json!({"to": "a"}));
    rig.durable();
    let accepted: Vec<_> = rig
        .news
        .iter()
        .filter_map(|(_, news)| if let News::Accepted(a) = news { Some((a.operation, a.repeat.is_some())) } else { None })
        .collect();
    let first = accepted[0].0;
    assert_eq!(accepted, [(first, false), (first, true), (first, true)]);
    assert_eq!((rig.dispatched.len(), rig.store.operations.len()), (1, 1));
}

#[test]
fn the_same_thing_asked_while_the_first_fails_is_tried_for_itself() {
    let mut rig = slow();
    rig.ask(CALL, 1, 1, "pay", json!({}));
    rig.ask(CALL, 1, 1, "pay", json!({}));
    rig.fail();
    assert_eq!(rig.refusals(), 1);
    rig.durable();
    assert_eq!((rig.dispatched.len(), rig.accepted().repeat.is_some()), (1, false));
}

#[test]
fn a_closing_that_was_told_makes_a_repeat_in_another_turn_a_new_operation_and_in_the_same_turn_none() {
    let mut rig = prompt();
    let ask = |rig: &mut Rig, turn, response| rig.ask(CALL, turn, response, "pay", json!({"to": "a"}));
    ask(&mut rig, 1, 1);
    rig.seal(CALL, 1);
    let first = rig.accepted().operation;
    rig.done(first);
    ask(&mut rig, 2, 2);
    assert!(rig.accepted().repeat.is_some(), "its result has not been told: that is the answer");
    let delivery = rig.waiting().id;
    rig.tell(CALL, delivery);
    ask(&mut rig, 1, 3);
    assert_eq!((rig.accepted().operation, rig.accepted().repeat.is_some()), (first, true), "the very turn that asked first");
    ask(&mut rig, 3, 4);
    let second = rig.accepted();
    assert!(second.repeat.is_none() && second.operation != first);
    assert!(rig.store.operations[&second.operation].intent_key.0.ends_with("|2"));
}

#[test]
fn a_second_attempt_is_durable_before_it_leaves_and_its_failing_commit_is_tried_again() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.attempt_failed(operation, 1, Executed::No);
    assert_eq!(rig.operation(operation), OperationState::RetryWait);
    rig.prompt = false;
    rig.pass(1_000);
    assert_eq!(rig.sent(operation), 1);
    rig.fail();
    rig.pass(1_000);
    rig.durable();
    assert_eq!((rig.sent(operation), rig.store.operations[&operation].attempt), (2, 2));
}

#[test]
fn commits_of_an_attempt_that_keep_failing_end_at_the_deadline() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.attempt_failed(operation, 1, Executed::No);
    rig.prompt = false;
    for _ in 0..60 {
        rig.pass(6_000);
        rig.fail();
    }
    rig.prompt = true;
    rig.pass(30_000);
    assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Failed, 1));
    assert!(rig.commits < 60, "tries are spaced: {}", rig.commits);
}

#[test]
fn a_callback_whose_commit_fails_is_answered_503_and_its_repeat_works() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.prompt = false;
    let first = rig.done(operation);
    rig.fail();
    assert_eq!(rig.answer(first), Some(CallbackAnswer::Unavailable));
    assert_eq!(rig.ledger.operation(operation).unwrap().state, OperationState::Running);
    let second = rig.done(operation);
    rig.durable();
    assert_eq!(rig.answer(second), Some(CallbackAnswer::Recorded));
}

#[test]
fn a_callback_during_a_failing_disk_is_answered_at_once_and_does_not_wait_out_a_back_off() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.prompt = false;
    rig.attempted(operation, 1, AttemptOutcome::Succeeded(json!({"id": 7})));
    rig.fail();
    let request = rig.done(operation);
    rig.fail();
    assert_eq!(rig.answer(request), Some(CallbackAnswer::Unavailable));
}

#[test]
fn a_result_of_our_own_executor_is_never_lost_to_a_failing_disk() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.prompt = false;
    rig.attempted(operation, 1, AttemptOutcome::Succeeded(json!({"id": 7})));
    for _ in 0..10 {
        rig.fail();
        rig.pass(30_000);
    }
    rig.durable();
    assert_eq!(rig.operation(operation), OperationState::Succeeded);
    assert_eq!(rig.waiting().clauses[0].text.es.as_deref(), Some("Pagado 7."));
}

#[test]
fn result_batch_and_closing_are_one_transaction() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.prompt = false;
    rig.done(operation);
    let (_, writes) = &rig.in_flight[0];
    assert!(matches!(
        writes.as_slice(),
        [Write::UpdateOperation(_), Write::CreateDelivery(delivery), Write::UpdateBatch(batch)]
            if delivery.kind == DeliveryKind::Final && batch.state == BatchState::Drained
    ));
    assert_eq!(rig.told(CALL, delivery_of(writes)), Vec::<&str>::new(), "and is offered to nobody before");
}

fn delivery_of(writes: &[Write]) -> recado_core::DeliveryId {
    writes.iter().find_map(|write| if let Write::CreateDelivery(row) = write { Some(row.id) } else { None }).unwrap()
}

#[test]
fn a_seal_while_a_result_commits_drains_the_batch_when_both_are_durable() {
    let mut rig = slow();
    rig.ask(CALL, 1, 1, "pay", json!({}));
    rig.durable();
    let operation = rig.accepted().operation;
    rig.done(operation);
    rig.seal(CALL, 1);
    rig.durable();
    rig.durable();
    assert!(rig.store.deliveries.is_empty(), "only what is sealed durably drains");
    rig.durable();
    assert_eq!(rig.store.deliveries.len(), 1);
}

#[test]
fn a_claim_is_granted_only_when_durable_and_refused_when_its_commit_fails() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.waiting().id;
    rig.prompt = false;
    rig.claim(CALL, delivery);
    assert_eq!(rig.told(CALL, delivery), ["offered"]);
    rig.fail();
    assert_eq!(rig.told(CALL, delivery), ["offered", "refused"]);
    assert_eq!(rig.waiting().state, DeliveryState::Ready);
    rig.claim(CALL, delivery);
    rig.durable();
    assert_eq!(rig.told(CALL, delivery), ["offered", "refused", "claimed"]);
}

#[test]
fn a_claim_while_the_closing_is_being_superseded_is_refused() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    let old = rig.waiting().id;
    rig.prompt = false;
    rig.done(operation);
    rig.claim(CALL, old);
    rig.durable();
    assert_eq!(rig.told(CALL, old), ["offered", "withdrawn", "refused"]);
    assert_ne!(rig.waiting().id, old);
}

#[test]
fn a_claim_given_back_before_it_was_durable_is_not_granted() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.waiting().id;
    rig.prompt = false;
    rig.claim(CALL, delivery);
    rig.give(Input::Release { session: CALL, delivery });
    rig.claim(CALL, delivery);
    rig.give(Input::Release { session: CALL, delivery });
    rig.all_durable();
    assert_eq!(rig.delivery(delivery), DeliveryState::Ready);
    assert_eq!(rig.waiting().attempt, 0);
}

#[test]
fn a_claim_of_a_conversation_that_ends_before_it_is_durable_comes_back_as_ready() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.waiting().id;
    rig.prompt = false;
    rig.claim(CALL, delivery);
    rig.over(CALL);
    rig.prompt = true;
    rig.durable();
    assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Ready, 0));
}

#[test]
fn two_conversations_that_claim_at_once_get_one_grant() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.waiting().id;
    rig.over(CALL);
    let third = SessionId(3);
    rig.up(LATER_CALL, "ana");
    rig.up(third, "ana");
    rig.prompt = false;
    rig.claim(LATER_CALL, delivery);
    rig.claim(third, delivery);
    rig.durable();
    assert_eq!(rig.told(LATER_CALL, delivery), ["offered", "claimed"]);
    assert_eq!(rig.told(third, delivery), ["offered", "withdrawn", "refused"]);
}

#[test]
fn evidence_counts_when_it_is_durable_and_is_kept_until_it_is() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.begins(CALL);
    rig.prompt = false;
    rig.settled(CALL, delivery, &[(0, HEARD)]);
    rig.over(CALL);
    rig.fail();
    assert_eq!((rig.delivery(delivery), rig.count(&LedgerMeasure::Spoken)), (DeliveryState::Speaking, 0));
    rig.prompt = true;
    rig.pass(60_000);
    assert_eq!((rig.delivery(delivery), rig.count(&LedgerMeasure::Spoken)), (DeliveryState::Spoken, 1));
}

#[test]
fn a_disk_that_is_full_at_the_hang_up_does_not_let_its_end_overtake_what_was_heard() {
    for failures in 1..8 {
        let mut rig = prompt();
        let operation = rig.order("pay", 1);
        rig.done(operation);
        let delivery = rig.waiting().id;
        rig.claim(CALL, delivery);
        rig.give(Input::FirstFrame { session: CALL, delivery });
        rig.prompt = false;
        rig.settled(CALL, delivery, &[(0, UNHEARD)]);
        rig.over(CALL);
        for _ in 0..failures {
            assert_eq!(rig.in_flight.len(), 1);
            rig.fail();
            rig.pass(30_000);
        }
        rig.prompt = true;
        rig.durable();
        rig.pass(60_000);
        assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Ready, 1), "provably unheard, after {failures}");
        assert_eq!(rig.count(&LedgerMeasure::Uncertain), 0);
    }
}

#[test]
fn evidence_that_the_store_never_takes_does_not_hold_up_the_end_of_its_conversation_for_ever() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.begins(CALL);
    rig.prompt = false;
    rig.settled(CALL, delivery, &[(0, HEARD)]);
    rig.over(CALL);
    let poisoned = |writes: &[Write]| format!("{writes:?}").contains("Spoken");
    for _ in 0..200 {
        while let Some((_, writes)) = rig.in_flight.front() {
            if poisoned(writes) { rig.fail() } else { rig.durable() }
        }
        rig.pass(30_000);
    }
    assert_eq!(rig.delivery(delivery), DeliveryState::Uncertain);
    assert!(rig.store.claims.is_empty());
}

#[test]
fn a_cancel_while_the_acceptance_is_in_flight_finds_the_operation() {
    let mut rig = slow();
    rig.ask(CALL, 1, 1, "pay", json!({}));
    rig.seal(CALL, 1);
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    rig.all_durable();
    let operation = rig.accepted().operation;
    assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Cancelling, 1));
    rig.pass(300_000);
    rig.all_durable();
    assert_eq!(rig.operation(operation), OperationState::Unknown, "it was out when it was cancelled, and nobody ever said");
}

#[test]
fn what_waits_for_a_stuck_store_is_bounded_and_senders_are_refused() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.prompt = false;
    let requests: Vec<_> = (0..500).map(|_| rig.done(operation)).collect();
    let refused = requests.iter().filter(|&&request| rig.answer(request) == Some(CallbackAnswer::Unavailable)).count();
    assert!((400..500).contains(&refused), "{refused}");
    rig.all_durable();
    assert_eq!(rig.answers.len(), 500);
}

#[test]
fn the_same_thing_asked_without_end_while_the_store_is_stuck_is_answered_every_time() {
    let mut rig = slow();
    for _ in 0..500 {
        rig.ask(CALL, 1, 1, "pay", json!({}));
    }
    rig.fail();
    rig.all_durable();
    let accepted = rig.news.iter().filter(|(_, news)| matches!(news, News::Accepted(_))).count();
    assert_eq!((accepted + rig.refusals(), rig.dispatched.len()), (500, 1));
}

#[test]
fn a_report_and_a_callback_that_wait_together_pass_through_every_state_in_turn() {
    let mut rig = prompt();
    rig.ask(CALL, 1, 1, "pay", json!({}));
    let doubtful = rig.accepted().operation;
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    let other = rig.accepted().operation;
    rig.prompt = false;
    rig.done(other);
    rig.attempt_failed(doubtful, 1, Executed::Maybe);
    let request = rig.done(doubtful);
    rig.durable();
    rig.durable();
    assert_eq!((rig.operation(doubtful), rig.answer(request)), (OperationState::Unknown, None));
    rig.durable();
    assert_eq!((rig.operation(doubtful), rig.answer(request)), (OperationState::Succeeded, Some(CallbackAnswer::Recorded)));
}

#[test]
fn a_cancel_that_waits_together_with_an_acceptance_comes_after_its_request_has_left() {
    let mut rig = slow();
    rig.ask(CALL, 1, 1, "pay", json!({"to": "a"}));
    rig.ask(CALL, 1, 1, "pay", json!({"to": "b"}));
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    rig.durable();
    rig.durable();
    let second = rig.accepted().operation;
    assert_eq!((rig.operation(second), rig.sent(second)), (OperationState::Running, 1));
    rig.durable();
    assert_eq!(rig.operation(second), OperationState::Cancelling);
}

#[test]
fn a_fact_that_the_store_never_takes_holds_up_neither_deadlines_nor_callbacks() {
    let mut rig = prompt();
    rig.ask(CALL, 1, 1, "pay", json!({}));
    let operation = rig.accepted().operation;
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    let other = rig.accepted().operation;
    rig.seal(CALL, 1);
    rig.prompt = false;
    rig.attempted(operation, 1, AttemptOutcome::Succeeded(json!("poison")));
    let poisoned = |writes: &[Write]| format!("{writes:?}").contains("poison");
    let mut answered = None;
    for round in 0..100 {
        if round == 3 {
            answered = Some(rig.done(other));
        }
        while let Some((_, writes)) = rig.in_flight.front() {
            if poisoned(writes) { rig.fail() } else { rig.durable() }
        }
        rig.pass(10_000);
    }
    assert_eq!(rig.answer(answered.unwrap()), Some(CallbackAnswer::Recorded));
    assert_eq!(rig.operation(operation), OperationState::Unknown);
    assert_eq!(rig.store.deliveries.len(), 1);
    assert!(rig.commits < 150, "tries are spaced: {}", rig.commits);
}

#[test]
fn a_cancel_repeated_without_end_while_the_store_is_stuck_is_one() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.prompt = false;
    rig.done(operation);
    let before = rig.commits;
    for _ in 0..500 {
        rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    }
    rig.durable();
    assert_eq!((rig.operation(operation), rig.commits), (OperationState::Succeeded, before));
}

#[test]
fn the_ends_of_other_calls_do_not_wait_for_a_stuck_store() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    let other = rig.order("pay", 2);
    rig.done(operation);
    let closing = rig.waiting().id;
    rig.prompt = false;
    rig.done(other);
    rig.claim(CALL, closing);
    for call in 100..200 {
        rig.up(SessionId(call), "bea");
        rig.over(SessionId(call));
    }
    rig.over(CALL);
    rig.up(LATER_CALL, "ana");
    // As the ledger prints itself: what waits in it can't be seen otherwise.
    assert_eq!(format!("{:?}", rig.ledger).matches("Lost {").count(), 1, "that of the call that claims");
    rig.prompt = true;
    rig.durable();
    assert_eq!(rig.delivery(closing), DeliveryState::Ready);
    rig.tell(LATER_CALL, closing);
}

#[test]
fn a_response_that_asks_for_too_much_is_refused_the_rest() {
    let mut rig = prompt();
    for number in 0..20 {
        rig.ask(CALL, 1, 1, "pay", json!({ "number": number }));
    }
    assert_eq!((rig.dispatched.len(), rig.refusals()), (16, 4));
}

#[test]
fn what_the_store_has_removed_is_answered_as_unknown_and_forgotten() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    rig.prompt = false;
    let other = OperationResult::Succeeded(json!({ "id": 8 }));
    let late = [rig.callback(operation, other.clone()), rig.callback(operation, other), rig.done(operation)];
    rig.missing();
    for request in late {
        assert_eq!(rig.answer(request), Some(CallbackAnswer::Unknown));
    }
    let (again, taken_back) = (rig.done(operation), rig.retract(operation));
    assert_eq!((rig.answer(again), rig.answer(taken_back)), (Some(CallbackAnswer::Unknown), Some(CallbackAnswer::Unknown)));
    rig.claim(CALL, closing);
    assert_eq!(rig.told(CALL, closing).last(), Some(&"refused"));
    assert_eq!((rig.in_flight.len(), rig.ledger.deadline()), (0, None), "nothing is tried again");
    rig.prompt = true;
    rig.ask(CALL, 2, 2, "pay", json!({ "number": "1" }));
    let key = |id| rig.store.operation_ever(id).unwrap().intent_key.0.clone();
    assert_eq!(key(rig.accepted().operation), key(operation).replace("|1", "|2"), "no key is given out twice");
}

#[test]
fn what_the_store_has_removed_is_not_done_again_for_a_model_that_repeats_itself() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    rig.prompt = false;
    let late = rig.callback(operation, OperationResult::Succeeded(json!({ "id": 8 })));
    rig.missing();
    assert_eq!(rig.answer(late), Some(CallbackAnswer::Unknown));
    rig.prompt = true;
    let ask = |rig: &mut Rig, turn| rig.ask(CALL, turn, 50 + turn, "pay", json!({ "number": "1" }));
    ask(&mut rig, 1);
    assert_eq!((rig.accepted().operation, rig.dispatched.len()), (operation, 1), "the turn in which it was asked for is not over");
    ask(&mut rig, 2);
    assert_eq!(rig.dispatched.len(), 2, "the caller has asked again");
    rig.over(CALL);
    let again = rig.retract(operation);
    assert_eq!(rig.answer(again), Some(CallbackAnswer::Unknown));
}

#[test]
fn what_the_store_has_removed_is_remembered_no_longer_than_the_call_that_asked_for_it() {
    let mut rig = prompt();
    rig.policies.get_mut("pay").unwrap().duplicate = recado_core::policy::DuplicatePolicy::Reject;
    rig.crash(0);
    rig.up(CALL, "ana");
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    rig.over(CALL);
    rig.up(LATER_CALL, "ana");
    let late = OperationResult::Succeeded(json!({ "id": 8 }));
    rig.prompt = false;
    rig.callback(operation, late);
    rig.missing();
    rig.prompt = true;
    rig.ask(LATER_CALL, 9, 9, "pay", json!({ "number": "1" }));
    assert_eq!(rig.dispatched.len(), 2);
    let keys: Vec<&str> = rig.dispatched.iter().map(|dispatch| dispatch.intent_key.0.as_str()).collect();
    assert_ne!(keys[0], keys[1], "no key is given out twice");
}

#[test]
fn a_report_about_what_the_store_has_removed_is_not_tried_again() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    rig.prompt = false;
    rig.attempted(operation, 1, AttemptOutcome::Succeeded(json!({ "id": 8 })));
    let commits = rig.commits;
    rig.missing();
    rig.pass(600_000);
    assert_eq!(rig.commits, commits);
}

#[test]
fn what_is_missing_of_a_batch_that_is_owed_is_no_reason_to_forget_it() {
    let mut rig = prompt();
    let operation = rig.order("pay", 1);
    rig.prompt = false;
    let result = rig.done(operation);
    rig.missing();
    assert_eq!(rig.answer(result), Some(CallbackAnswer::Unavailable));
    rig.prompt = true;
    let again = rig.done(operation);
    assert_eq!(rig.answer(again), Some(CallbackAnswer::Recorded));
    assert_eq!(rig.operation(operation), OperationState::Succeeded);
}

#[test]
fn an_answer_of_the_store_that_nobody_waits_for_is_ignored() {
    let mut rig = prompt();
    rig.give(Input::Durable(CommitId(99)));
    rig.give(Input::CommitFailed { commit: CommitId(0), reason: String::new(), missing: false });
    assert_eq!(rig.in_flight.len(), 0);
}
