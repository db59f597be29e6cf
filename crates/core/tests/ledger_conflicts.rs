//! The ledger's part of the conflicts that every release must survive.

mod ledger_rig;

use ledger_rig::*;
use recado_core::ledger::*;
use recado_core::policy::Priority;
use serde_json::json;

fn called() -> Rig {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    rig
}

#[test]
fn an_operation_costs_five_transactions_from_accepted_to_spoken_and_closed() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    let request = rig.done(operation);
    assert_eq!(rig.answer(request), Some(CallbackAnswer::Recorded));
    let delivery = rig.waiting();
    assert_eq!(texts(&rig.tell(CALL, delivery.id)), ["Pagado 7."]);
    assert_eq!(rig.delivery(delivery.id), DeliveryState::Spoken);
    assert_eq!(rig.store.batches[&delivery.batch].state, BatchState::Closed);
    assert_eq!(rig.commits, 5);
    assert_eq!(rig.sent(operation), 1);
    assert_eq!(rig.ledger.pending(), Vec::<&DeliveryRecord>::new());
}

#[test]
fn a_result_while_the_caller_speaks_or_the_voice_plays_waits_as_ready_until_it_is_claimed() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.waiting();
    rig.pass(3_600_000);
    assert_eq!(rig.delivery(delivery.id), DeliveryState::Ready);
    assert_eq!(rig.told(CALL, delivery.id), ["offered"]);
}

#[test]
fn two_tools_of_a_batch_that_finish_in_reverse_order_close_once_in_the_order_of_acceptance() {
    let mut rig = called();
    rig.ask(CALL, 1, 1, "pay", json!({"to": "a"}));
    let first = rig.accepted().operation;
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    let second = rig.accepted().operation;
    rig.done(second);
    assert!(rig.ledger.pending().is_empty(), "an open batch does not drain");
    rig.seal(CALL, 1);
    rig.done(first);
    let delivery = rig.waiting();
    assert_eq!(delivery.kind, DeliveryKind::Final);
    assert_eq!(delivery.clauses.iter().map(|clause| clause.operation).collect::<Vec<_>>(), [first, second]);
    assert_eq!(texts(&rig.tell(CALL, delivery.id)), ["Pagado 7.", "Incidencia 7 abierta."]);
}

#[test]
fn a_callback_that_arrives_twice_is_recorded_once_and_answered_alike() {
    let mut rig = called();
    rig.prompt = false;
    rig.ask(CALL, 1, 1, "pay", json!({}));
    rig.durable();
    let operation = rig.accepted().operation;
    rig.seal(CALL, 1);
    rig.durable();
    let (first, second) = (rig.done(operation), rig.done(operation));
    assert_eq!(rig.answers, [], "nobody is answered before the result is durable");
    rig.all_durable();
    assert_eq!(rig.answer(first), Some(CallbackAnswer::Recorded));
    assert_eq!(rig.answer(second), Some(CallbackAnswer::Recorded));
    assert_eq!(rig.store.deliveries.len(), 1);
    let delivery = rig.waiting();
    rig.prompt = true;
    rig.tell(CALL, delivery.id);
    let late = rig.done(operation);
    assert_eq!(rig.answer(late), Some(CallbackAnswer::Recorded), "also when it has been told");
    assert_eq!((rig.ledger.pending().len(), rig.sent(operation)), (0, 1));
}

#[test]
fn a_failure_that_is_reported_twice_is_answered_alike_also_when_its_batch_has_left_memory() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    let failed = || OperationResult::Failed("no\u{7}  funds".into());
    rig.callback(operation, failed());
    let delivery = rig.waiting().id;
    rig.tell(CALL, delivery);
    for number in 2..=1_002 {
        let later = rig.order("pay", number);
        rig.done(later);
        let delivery = rig.waiting().id;
        rig.tell(CALL, delivery);
    }
    assert_eq!(rig.ledger.operation(operation), None, "its batch has left memory");
    let again = rig.callback(operation, failed());
    assert_eq!(rig.answer(again), Some(CallbackAnswer::Recorded));
    let other = rig.done(operation);
    assert_eq!(rig.answer(other), Some(CallbackAnswer::Conflict));
}

#[test]
fn a_closing_interrupted_before_it_is_heard_is_ready_again_in_its_short_form() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.begins(CALL);
    rig.settled(CALL, delivery, &[(0, UNHEARD)]);
    assert_eq!(rig.delivery(delivery), DeliveryState::Ready);
    assert_eq!(rig.operation(operation), OperationState::Succeeded, "I5");
    let again = rig.tell(CALL, delivery);
    assert_eq!((texts(&again), again[0].clause), (vec!["Pagado."], Some(SpokenClause::SHORT)));
    assert_eq!(rig.delivery(delivery), DeliveryState::Spoken);
    assert_eq!(rig.count(&LedgerMeasure::Spoken), 1);
}

#[test]
fn an_explicit_cancel_is_durable_before_anything_else_and_is_told_once() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.prompt = false;
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    rig.durable();
    assert_eq!(rig.operation(operation), OperationState::Cancelling);
    rig.attempt_failed(operation, 1, Executed::No);
    rig.durable();
    assert_eq!(rig.operation(operation), OperationState::Cancelled);
    rig.prompt = true;
    let delivery = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, delivery)), ["He cancelado lo que pediste."]);
}

#[test]
fn a_cancel_that_comes_too_late_is_said_truthfully() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.give(Input::Cancel { session: CALL, tool: Some("pay".into()), operation: None, verified: true });
    rig.done(operation);
    assert_eq!(rig.operation(operation), OperationState::TooLate);
    let delivery = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, delivery)), ["No ha dado tiempo a cancelarlo. Pagado 7."]);
}

#[test]
fn a_new_question_or_another_tool_cancels_nothing() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.order("ticket", 2);
    rig.give(Input::Cancel { session: CALL, tool: Some("ticket".into()), operation: None, verified: true });
    assert_eq!(rig.operation(operation), OperationState::Running);
}

#[test]
fn a_channel_that_drops_with_deliveries_pending_leaves_them_to_the_partys_next_call() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.over(CALL);
    rig.done(operation);
    let delivery = rig.waiting().id;
    rig.up(OTHERS_CALL, "bea");
    assert_eq!(rig.told(OTHERS_CALL, delivery), Vec::<&str>::new(), "I14");
    rig.up(LATER_CALL, "ana");
    assert_eq!(rig.told(LATER_CALL, delivery), ["offered"]);
    rig.tell(LATER_CALL, delivery);
    assert_eq!(rig.delivery(delivery), DeliveryState::Spoken);
}

#[test]
fn a_restart_after_the_effect_and_before_the_follow_up_loses_and_repeats_nothing() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.waiting().id;
    rig.crash(0);
    rig.up(LATER_CALL, "ana");
    rig.tell(LATER_CALL, delivery);
    assert_eq!((rig.sent(operation), rig.delivery(delivery)), (1, DeliveryState::Spoken));
    assert_eq!(rig.store.batches.values().next().unwrap().state, BatchState::Closed);
}

#[test]
fn what_a_new_intent_makes_obsolete_is_superseded_before_it_is_heard() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    let unknown = rig.waiting();
    assert_eq!(unknown.clauses[0].text.es.as_deref(), Some("No se sabe."));
    rig.done(operation);
    let correction = rig.waiting();
    assert_eq!(rig.delivery(unknown.id), DeliveryState::Superseded);
    assert_eq!(rig.store.deliveries[&unknown.id].superseded_by, Some(correction.id));
    assert_eq!(rig.told(CALL, unknown.id), ["offered", "withdrawn"]);
    rig.claim(CALL, unknown.id);
    assert_eq!(rig.told(CALL, unknown.id), ["offered", "withdrawn", "refused"]);
    assert_eq!(texts(&rig.tell(CALL, correction.id)), ["Pagado 7."], "nobody heard that it was unknown");
}

#[test]
fn urgent_and_normal_closings_are_offered_with_what_the_gate_needs_to_tell_them_apart() {
    let mut policies = policies();
    policies.get_mut("pay").unwrap().priority = Priority::Urgent;
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    let (normal, urgent) = (rig.order("ticket", 1), rig.order("pay", 2));
    rig.done(normal);
    rig.done(urgent);
    let offered: Vec<_> =
        rig.news.iter().filter_map(|(_, news)| if let News::Offered(envelope) = news { Some(envelope) } else { None }).collect();
    assert_eq!(offered.iter().map(|envelope| envelope.priority).collect::<Vec<_>>(), [Priority::Normal, Priority::Urgent]);
    assert!(offered[0].sequence < offered[1].sequence);
}

#[test]
fn audio_generated_that_the_far_end_has_not_played_is_not_spoken() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.begins(CALL);
    rig.settled(CALL, delivery, &[(0, UNCERTAIN)]);
    assert_eq!(rig.delivery(delivery), DeliveryState::Uncertain);
    assert_eq!(rig.count(&LedgerMeasure::Spoken), 0);
}

#[test]
fn a_false_start_gives_a_claim_back_and_spends_no_attempt() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.waiting().id;
    rig.claim(CALL, delivery);
    assert_eq!(rig.ledger.delivery_state(delivery), Some(DeliveryState::Claimed));
    rig.give(Input::Release { session: CALL, delivery });
    assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Ready, 0));
    assert_eq!(rig.told(CALL, delivery), ["offered", "claimed", "offered"]);
}

#[test]
fn work_that_is_older_than_a_new_request_goes_on_and_each_batch_closes_once() {
    let mut rig = called();
    let (first, second) = (rig.order("pay", 1), rig.order("ticket", 2));
    rig.done(first);
    rig.done(second);
    let ids: Vec<_> = rig.ledger.pending().iter().map(|row| row.id).collect();
    assert_eq!(ids.len(), 2);
    let told: Vec<_> = ids.iter().flat_map(|&id| rig.tell(CALL, id)).map(|spoken| spoken.text).collect();
    assert_eq!(told, ["Pagado 7.", "Incidencia 7 abierta."]);
    assert!(rig.store.batches.values().all(|batch| batch.state == BatchState::Closed));
}

#[test]
fn an_operation_that_never_settles_by_itself_comes_to_an_end_with_one_closing() {
    let silence = |rig: &mut Rig, _| rig.pass(300_000);
    let panic = |rig: &mut Rig, operation| {
        let outcome =
            AttemptOutcome::Failed { error: "broke off".into(), executed: Executed::Maybe, retryable: false, retry_after_ms: None };
        rig.attempted(operation, 1, outcome);
    };
    let promise = |rig: &mut Rig, operation| {
        rig.attempted(operation, 1, AttemptOutcome::Deferred);
        rig.pass(300_000);
    };
    let cancel = |rig: &mut Rig, _| {
        rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
        rig.pass(300_000);
    };
    let ways: [fn(&mut Rig, recado_core::OperationId); 4] = [silence, panic, promise, cancel];
    for way in ways {
        let mut rig = called();
        let operation = rig.order("pay", 1);
        way(&mut rig, operation);
        assert_eq!(rig.operation(operation), OperationState::Unknown);
        let delivery = rig.waiting().id;
        assert_eq!(texts(&rig.tell(CALL, delivery)), ["No se sabe."]);
        assert_eq!((rig.store.deliveries.len(), rig.ledger.deadline()), (1, None));
    }
}
