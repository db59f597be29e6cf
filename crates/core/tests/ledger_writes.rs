//! What exactly is written in one transaction, and what an input that comes meanwhile waits for.

mod ledger_rig;

use ledger_rig::*;
use recado_core::ledger::*;
use recado_core::{OperationId, SessionId};
use serde_json::json;

fn called() -> Rig {
    let mut policies = policies();
    policies.get_mut("ticket").unwrap().cancellable = true;
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig
}

#[test]
fn the_result_of_our_own_executor_its_batch_and_its_closing_are_one_transaction() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.prompt = false;
    rig.attempted(operation, 1, AttemptOutcome::Succeeded(json!({ "id": 7 })));
    let (_, writes) = &rig.in_flight[0];
    assert!(
        matches!(
            writes.as_slice(),
            [Write::UpdateOperation(_), Write::CreateDelivery(delivery), Write::UpdateBatch(batch)]
                if delivery.kind == DeliveryKind::Final && batch.state == BatchState::Drained
        ),
        "{writes:?}"
    );
}

#[test]
fn a_claim_is_written_with_its_state_and_given_back_with_it() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.waiting().id;
    rig.prompt = false;
    rig.claim(CALL, delivery);
    let (_, writes) = &rig.in_flight[0];
    assert!(
        matches!(
            writes.as_slice(),
            [Write::UpdateDelivery(row), Write::Claim { delivery: claimed, session: CALL, route: Route::Announce, .. }]
                if *claimed == delivery && row.state == DeliveryState::Speaking
        ),
        "{writes:?}"
    );
    rig.durable();
    rig.give(Input::Release { session: CALL, delivery });
    let (_, writes) = &rig.in_flight[0];
    assert!(
        matches!(
            writes.as_slice(),
            [Write::UpdateDelivery(row), Write::Unclaim { delivery: given_back }]
                if *given_back == delivery && row.state == DeliveryState::Ready
        ),
        "{writes:?}"
    );
}

#[test]
fn every_wish_to_cancel_is_on_record_before_it_is_answered() {
    let mut rig = called();
    let operations = [1, 2, 3].map(|number| rig.order("ticket", number));
    let answers = |rig: &Rig| rig.news.iter().filter(|(_, news)| matches!(news, News::Cancelling(_))).count();
    rig.give(Input::Cancel { session: CALL, tool: Some("pay".into()), operation: None, verified: true });
    assert_eq!(answers(&rig), 1);
    rig.prompt = false;
    rig.give(Input::Cancel { session: CALL, tool: Some("ticket".into()), operation: None, verified: true });
    for operation in operations {
        assert_eq!(answers(&rig), 1, "not before all of it is on record");
        rig.durable();
        assert_eq!(rig.operation(operation), OperationState::Cancelling);
    }
    assert_eq!((answers(&rig), rig.cancellation().cancelling), (2, operations.to_vec()));
}

#[test]
fn a_wish_that_was_refused_for_what_has_ended_or_is_cancelled_since_says_so() {
    let refused = |then: fn(&mut Rig, OperationId)| {
        let mut rig = called();
        let (first, second) = (rig.order("ticket", 1), rig.order("ticket", 2));
        rig.prompt = false;
        rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
        let of_second = rig.in_flight.pop_back().expect("one transaction for each batch");
        rig.fail();
        then(&mut rig, first);
        rig.in_flight.push_back(of_second);
        rig.all_durable();
        let mut all = rig.news.iter().filter_map(|(_, news)| if let News::Cancelling(answer) = news { Some(answer.clone()) } else { None });
        let answer = all.rfind(|answer| answer.cancelling.contains(&second) || answer.refused.contains(&first));
        (first, second, answer.expect("answered"))
    };
    let (first, second, answer) = refused(|_, _| {});
    assert_eq!((answer.cancelling, answer.ended, answer.refused), (vec![second], vec![], vec![first]));
    let (first, second, answer) = refused(|rig, first| {
        rig.done(first);
        rig.durable();
    });
    assert_eq!((answer.cancelling, answer.ended, answer.refused), (vec![second], vec![first], vec![]));
    let (first, second, answer) = refused(|rig, _| {
        rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
        rig.durable();
    });
    assert_eq!((answer.cancelling, answer.ended, answer.refused), (vec![first, second], vec![], vec![]));
}

#[test]
fn a_wish_to_cancel_that_comes_while_the_last_of_it_is_being_told_has_nothing_left() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.done(operation);
    let delivery = rig.begins(CALL);
    rig.prompt = false;
    rig.settled(CALL, delivery, &[(0, HEARD)]);
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    rig.all_durable();
    let answer = rig.cancellation();
    assert_eq!((answer.cancelling, answer.ended, answer.refused), (vec![], vec![], vec![]), "it has been told how it ended");
}

#[test]
fn a_sender_whose_answer_waits_for_the_store_gets_it_though_many_others_end_meanwhile() {
    let mut rig = called();
    let close = |rig: &mut Rig, number| {
        let operation = rig.order("pay", number);
        rig.done(operation);
        let delivery = rig.waiting().id;
        rig.tell(CALL, delivery);
        operation
    };
    let first = close(&mut rig, 1);
    rig.prompt = false;
    let request = rig.callback(first, OperationResult::Succeeded(json!({ "id": 8 })));
    let waiting = rig.in_flight.pop_front().expect("that it is contradicted goes on record");
    rig.prompt = true;
    for number in 2..1_100 {
        close(&mut rig, number);
    }
    rig.in_flight.push_back(waiting);
    rig.durable();
    assert_eq!(rig.answer(request), Some(CallbackAnswer::Conflict));
}

#[test]
fn what_runs_stays_in_memory_though_many_callers_without_a_name_have_come_and_gone() {
    let mut rig = called();
    let operations: Vec<OperationId> = (0..1_100_u64)
        .map(|number| {
            let session = SessionId(u128::from(number) + 100);
            rig.up(session, "");
            rig.ask(session, 1, 1, "pay", json!({ "number": number }));
            rig.over(session);
            rig.dispatched.last().expect("sent").operation
        })
        .collect();
    let request = rig.done(operations[0]);
    assert_eq!(rig.answer(request), Some(CallbackAnswer::Recorded));
    assert_eq!(rig.operation(operations[0]), OperationState::Succeeded);
    let request = rig.progress(operations[0], json!({}));
    assert_eq!(rig.answer(request), Some(CallbackAnswer::Over));
}

#[test]
fn progress_of_what_has_left_memory_is_over_and_of_what_never_was_unknown() {
    let mut rig = called();
    let first = rig.order("pay", 1);
    let mut operation = first;
    for number in 2..1_100 {
        rig.done(operation);
        let delivery = rig.waiting().id;
        rig.tell(CALL, delivery);
        operation = rig.order("pay", number);
    }
    assert!(rig.ledger.operation(first).is_none());
    let (over, unknown) = (rig.progress(first, json!({})), rig.progress(OperationId(5), json!({})));
    assert_eq!((rig.answer(over), rig.answer(unknown)), (Some(CallbackAnswer::Over), Some(CallbackAnswer::Unknown)));
}

/// The store answers for so long: it refuses whatever writes `refused`, again and again, and takes everything else.
fn all_but(rig: &mut Rig, refused: impl Fn(&Write) -> bool) {
    for _ in 0..20 {
        match rig.in_flight.front() {
            Some((_, writes)) if writes.iter().any(&refused) => rig.fail(),
            Some(_) => rig.durable(),
            None => rig.pass(20_000),
        }
    }
}

#[test]
fn what_was_heard_of_one_delivery_is_written_though_the_store_refuses_what_was_heard_of_another_of_its_batch() {
    let mut rig = called();
    rig.ask(CALL, 1, 1, "pay", json!({}));
    let first = rig.accepted().operation;
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    let second = rig.accepted().operation;
    rig.seal(CALL, 1);
    rig.pass(300_000);
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    let corrections = [first, second].map(|operation| {
        rig.done(operation);
        let correction = rig.ledger.pending().last().expect("what was not known is known now").id;
        rig.claim(CALL, correction);
        rig.give(Input::FirstFrame { session: CALL, delivery: correction });
        correction
    });
    rig.prompt = false;
    for correction in corrections {
        let clauses = rig.store.deliveries[&correction].clauses.len();
        let heard: Vec<_> = (0..u32::try_from(clauses).unwrap()).map(|clause| (clause, HEARD)).collect();
        rig.settled(CALL, correction, &heard);
    }
    all_but(&mut rig, |write| matches!(write, Write::UpdateDelivery(row) if row.id == corrections[0]));
    assert_eq!(corrections.map(|correction| rig.delivery(correction)), [DeliveryState::Speaking, DeliveryState::Spoken]);
}

#[test]
fn reports_of_one_operation_are_written_in_their_order_and_hold_up_no_other() {
    let mut rig = called();
    let failed = || AttemptOutcome::Failed { error: "busy".into(), executed: Executed::No, retryable: true, retry_after_ms: None };
    let succeeded = || AttemptOutcome::Succeeded(json!({ "id": 7 }));
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    let refused = rig.accepted().operation;
    rig.ask(CALL, 1, 1, "pay", json!({}));
    let other = rig.accepted().operation;
    rig.seal(CALL, 1);
    rig.prompt = false;
    rig.attempted(refused, 1, failed());
    rig.attempted(refused, 1, succeeded());
    rig.attempted(other, 1, succeeded());
    all_but(&mut rig, |write| matches!(write, Write::UpdateOperation(row) if row.state == OperationState::RetryWait));
    assert_eq!((rig.operation(refused), rig.operation(other)), (OperationState::Running, OperationState::Succeeded));
    all_but(&mut rig, |_| false);
    assert_eq!((rig.operation(refused), rig.sent(refused)), (OperationState::Succeeded, 1));
}

#[test]
fn an_answer_to_a_cancel_is_not_written_before_the_report_on_the_attempt_that_came_first() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    rig.prompt = false;
    rig.attempt_failed(operation, 1, Executed::Maybe);
    rig.cancel_answered(operation, CancelOutcome::Compensated);
    all_but(
        &mut rig,
        |write| matches!(write, Write::UpdateOperation(row) if row.maybe_executed && row.state == OperationState::Cancelling),
    );
    assert_eq!(rig.operation(operation), OperationState::Cancelling);
    all_but(&mut rig, |_| false);
    assert_eq!(rig.operation(operation), OperationState::Compensated);
}

#[test]
fn what_is_asked_for_again_in_another_turn_while_its_end_is_being_written_is_done_again() {
    let mut rig = called();
    let ask = |rig: &mut Rig, turn| rig.ask(CALL, turn, turn, "pay", json!({ "to": "bea" }));
    ask(&mut rig, 1);
    rig.seal(CALL, 1);
    let operation = rig.accepted().operation;
    rig.done(operation);
    let delivery = rig.begins(CALL);
    rig.prompt = false;
    rig.settled(CALL, delivery, &[(0, HEARD)]);
    ask(&mut rig, 1);
    ask(&mut rig, 2);
    let told = rig.news.len();
    rig.durable();
    let repeated = rig.accepted();
    assert_eq!((repeated.operation, repeated.repeat.map(|repeat| repeat.standing)), (operation, Some(Standing::Told)));
    assert_eq!(rig.news.len(), told + 1, "the other one is not accepted before it is on record");
    rig.durable();
    let again = rig.accepted();
    assert_eq!((again.operation == operation, again.repeat, rig.dispatched.len()), (false, None, 2));
}

#[test]
fn a_request_is_asked_again_for_each_time_that_what_it_repeats_fails_but_not_for_ever() {
    let mut rig = called();
    rig.prompt = false;
    for _ in 0..11 {
        rig.ask(CALL, 1, 1, "pay", json!({ "to": "bea" }));
    }
    let reasons = |rig: &Rig, reason: &str| {
        rig.news.iter().filter(|(_, news)| matches!(news, News::Refused { reason: of, .. } if of == reason)).count()
    };
    for failures in 1..=8 {
        rig.fail();
        assert_eq!((rig.refusals(), reasons(&rig, "disk full"), rig.in_flight.len()), (failures, failures, 1), "the next one is tried");
    }
    rig.fail();
    assert_eq!((reasons(&rig, "disk full"), reasons(&rig, "what it repeats keeps changing"), rig.in_flight.len()), (9, 2, 0));
    assert_eq!((rig.dispatched.len(), rig.ledger.operations().count()), (0, 0));
}

#[test]
fn a_failed_transaction_is_tried_again_after_the_wait_and_up_to_half_of_it_more() {
    let waits: Vec<u64> = (0..20)
        .map(|draws| {
            let mut rig = called();
            let operation = rig.order("pay", 1);
            (0..draws).for_each(|_| rig.give(Input::Wake));
            rig.prompt = false;
            rig.attempted(operation, 1, AttemptOutcome::Succeeded(json!({ "id": 7 })));
            rig.fail();
            rig.ledger.deadline().expect("it is tried again").0
        })
        .collect();
    assert!(waits.iter().all(|wait| (250..=375).contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait < 300) && waits.iter().any(|wait| *wait > 325), "{waits:?}");
}
