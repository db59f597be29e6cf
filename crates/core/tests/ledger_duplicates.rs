//! What becomes of a request that repeats another one, by its tool's policy.

mod ledger_rig;

use ledger_rig::*;
use recado_core::ledger::*;
use recado_core::policy::{DuplicatePolicy, IdempotencyScope};
use recado_core::{DeliveryId, OperationId};
use serde_json::json;

fn called(policy: DuplicatePolicy) -> Rig {
    let mut policies = policies();
    let pay = policies.get_mut("pay").unwrap();
    pay.duplicate = policy;
    pay.idempotency_fields = vec!["to".into()];
    pay.cancellable = true;
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig
}

/// A payment to Bea in this turn, which is also its response.
fn pay(rig: &mut Rig, turn: u128, euros: u32) -> OperationId {
    rig.ask(CALL, turn, turn, "pay", json!({ "to": "bea", "euros": euros }));
    rig.seal(CALL, turn);
    rig.accepted().operation
}

fn repeat(rig: &Rig) -> (Standing, RepeatAnswer, Option<DeliveryId>) {
    let repeat = rig.accepted().repeat.expect("it repeats another");
    (repeat.standing, repeat.answer, repeat.delivery)
}

#[test]
fn reuse_answers_with_the_operation_that_runs_or_has_ended() {
    let mut rig = called(DuplicatePolicy::Reuse);
    let first = pay(&mut rig, 1, 5);
    assert_eq!(pay(&mut rig, 2, 5), first);
    assert_eq!(repeat(&rig), (Standing::Running, RepeatAnswer::Reused, None));
    rig.done(first);
    let delivery = rig.waiting().id;
    assert_eq!(pay(&mut rig, 3, 5), first);
    assert_eq!(repeat(&rig), (Standing::AboutToBeTold, RepeatAnswer::Reused, Some(delivery)), "the closing itself is the answer");
    rig.claim(CALL, delivery);
    pay(&mut rig, 4, 5);
    assert_eq!(repeat(&rig), (Standing::AboutToBeTold, RepeatAnswer::Reused, Some(delivery)), "also while it is being told");
    rig.give(Input::FirstFrame { session: CALL, delivery });
    rig.settled(CALL, delivery, &[(0, HEARD)]);
    assert_eq!(pay(&mut rig, 1, 5), first, "the turn that asked first");
    assert_eq!(repeat(&rig), (Standing::Told, RepeatAnswer::Reused, None));
    assert_eq!(rig.dispatched.len(), 1);
    assert_ne!(pay(&mut rig, 5, 5), first, "asked for again by a caller who has heard how it ended");
}

#[test]
fn an_uninformative_result_does_not_make_a_model_that_calls_again_act_again() {
    let mut rig = called(DuplicatePolicy::Reuse);
    let first = pay(&mut rig, 1, 5);
    rig.callback(first, OperationResult::Succeeded(json!({})));
    let delivery = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, delivery)), ["Lo que pediste está hecho."]);
    for _ in 0..5 {
        assert_eq!(pay(&mut rig, 1, 5), first);
    }
    assert_eq!((rig.dispatched.len(), repeat(&rig).0), (1, Standing::Told));
}

#[test]
fn calls_with_one_name_of_the_model_are_told_apart_by_what_they_ask_for() {
    let mut rig = called(DuplicatePolicy::Reuse);
    let call = |to: &str| recado_core::conversation::input::ToolCall {
        call_id: "call_1".into(),
        tool: "pay".into(),
        arguments: json!({ "to": to }),
        confirmed: false,
    };
    let (turn, response) = (recado_core::TurnId(1), recado_core::ResponseId(1));
    rig.give(Input::Accept { session: CALL, turn, response, call: call("bea") });
    let first = rig.accepted().operation;
    rig.give(Input::Accept { session: CALL, turn, response, call: call("eva") });
    let second = rig.accepted().operation;
    rig.seal(CALL, 1);
    rig.callback(second, OperationResult::Succeeded(json!({ "id": 2 })));
    rig.callback(first, OperationResult::Succeeded(json!({ "id": 1 })));
    let delivery = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, delivery)), ["Pagado 1.", "Pagado 2."]);
}

#[test]
fn reject_refuses_while_the_first_is_not_told() {
    let mut rig = called(DuplicatePolicy::Reject);
    let first = pay(&mut rig, 1, 5);
    assert_eq!(pay(&mut rig, 2, 5), first);
    assert_eq!(repeat(&rig), (Standing::Running, RepeatAnswer::Rejected, None));
    rig.done(first);
    let delivery = rig.waiting().id;
    pay(&mut rig, 3, 9);
    assert_eq!(repeat(&rig), (Standing::AboutToBeTold, RepeatAnswer::Rejected, Some(delivery)));
    assert_eq!(rig.dispatched.len(), 1);
    rig.tell(CALL, delivery);
    assert_ne!(pay(&mut rig, 4, 5), first);
    assert_eq!(rig.dispatched.len(), 2);
}

#[test]
fn confirm_acts_again_only_when_the_caller_was_asked_and_says_so_in_a_later_turn() {
    let mut rig = called(DuplicatePolicy::Confirm);
    let again = |rig: &mut Rig, turn, confirmed| {
        rig.ask_confirmed(CALL, turn, turn, "pay", json!({ "to": "bea" }), confirmed);
        rig.seal(CALL, turn);
    };
    again(&mut rig, 1, true);
    let first = rig.accepted().operation;
    again(&mut rig, 1, true);
    assert_eq!(repeat(&rig).1, RepeatAnswer::Reused, "a model that repeats itself in one turn");
    again(&mut rig, 2, true);
    assert_eq!(repeat(&rig), (Standing::Running, RepeatAnswer::NeedsConfirmation, None), "nobody had asked the caller");
    again(&mut rig, 2, true);
    assert_eq!(repeat(&rig).1, RepeatAnswer::NeedsConfirmation, "nor answered, in the same breath");
    again(&mut rig, 3, false);
    assert_eq!(repeat(&rig).1, RepeatAnswer::NeedsConfirmation);
    assert_eq!(rig.dispatched.len(), 1);
    again(&mut rig, 4, true);
    let second = rig.accepted();
    assert!(second.repeat.is_none() && second.operation != first);
    assert_eq!(rig.dispatched.len(), 2);
    assert_ne!(rig.dispatched[0].intent_key, rig.dispatched[1].intent_key, "the occurrence is counted up");
    rig.done(second.operation);
    let delivery = rig.waiting().id;
    rig.tell(CALL, delivery);
    again(&mut rig, 5, false);
    assert_eq!(repeat(&rig), (Standing::Told, RepeatAnswer::NeedsConfirmation, None), "also when it has been told");
    assert_eq!(rig.accepted().say, "Eso ya lo habías pedido. ¿Quieres que lo haga otra vez?");
}

#[test]
fn replace_cancels_the_older_one_first_and_then_runs() {
    let mut rig = called(DuplicatePolicy::Replace);
    let older = pay(&mut rig, 1, 5);
    assert_eq!(pay(&mut rig, 1, 5), older, "one that differs in nothing is the same");
    let newer = pay(&mut rig, 2, 9);
    assert_eq!((rig.operation(older), rig.operation(newer)), (OperationState::Cancelling, OperationState::Accepted));
    assert_eq!((rig.sent(newer), rig.cancels.len()), (0, 1));
    rig.cancel_answered(older, CancelOutcome::Cancelled);
    assert_eq!((rig.operation(older), rig.operation(newer)), (OperationState::Cancelled, OperationState::Running));
    assert_eq!(rig.ledger.pending(), Vec::<&DeliveryRecord>::new(), "that it was replaced is nothing to tell");
    let closing = rig.store.deliveries.values().next().unwrap();
    assert_eq!((closing.kind, closing.state), (DeliveryKind::Final, DeliveryState::Withdrawn));
    assert_eq!(rig.store.batches[&closing.batch].state, BatchState::Closed);
    rig.done(newer);
    let delivery = rig.waiting().id;
    rig.tell(CALL, delivery);
    assert_eq!(rig.delivery(delivery), DeliveryState::Spoken);
}

#[test]
fn replace_tells_what_could_not_be_cancelled() {
    let mut rig = called(DuplicatePolicy::Replace);
    let older = pay(&mut rig, 1, 5);
    let newer = pay(&mut rig, 2, 9);
    rig.done(older);
    assert_eq!((rig.operation(older), rig.operation(newer)), (OperationState::TooLate, OperationState::Running));
    assert_eq!(rig.waiting().clauses[0].text.es.as_deref(), Some("No ha dado tiempo a cancelarlo. Pagado 7."));
}

#[test]
fn of_several_replacements_only_the_last_runs_and_only_after_the_first_has_ended() {
    let mut rig = called(DuplicatePolicy::Replace);
    let first = pay(&mut rig, 1, 5);
    let second = pay(&mut rig, 2, 6);
    let third = pay(&mut rig, 3, 7);
    assert_eq!(rig.operation(second), OperationState::Cancelled, "it had not begun");
    assert_eq!((rig.operation(first), rig.operation(third)), (OperationState::Cancelling, OperationState::Accepted));
    rig.cancel_answered(first, CancelOutcome::Compensated);
    assert_eq!((rig.sent(second), rig.sent(third)), (0, 1));
}

#[test]
fn a_replacement_that_can_not_be_accepted_leaves_the_older_one_alone() {
    let mut rig = called(DuplicatePolicy::Replace);
    let older = pay(&mut rig, 1, 5);
    rig.prompt = false;
    rig.ask(CALL, 2, 2, "pay", json!({ "to": "bea", "euros": 9 }));
    rig.fail();
    rig.prompt = true;
    assert_eq!((rig.operation(older), rig.refusals(), rig.cancels.len()), (OperationState::Running, 1, 0));
    let newer = pay(&mut rig, 3, 9);
    assert_eq!(rig.operation(newer), OperationState::Accepted);
}

#[test]
fn after_several_replacements_that_can_not_be_accepted_the_first_is_still_the_same_one() {
    let mut rig = called(DuplicatePolicy::Replace);
    let first = pay(&mut rig, 1, 5);
    rig.prompt = false;
    for turn in 2..=4 {
        rig.ask(CALL, turn, turn, "pay", json!({ "to": "bea", "euros": turn + 10 }));
    }
    (0..3).for_each(|_| rig.fail());
    rig.prompt = true;
    assert_eq!((rig.refusals(), rig.operation(first)), (3, OperationState::Running));
    let again = pay(&mut rig, 1, 5);
    assert_eq!((again, rig.store.operations.len(), rig.dispatched.len()), (first, 1, 1), "nothing new runs");
}

#[test]
fn a_replacement_whose_older_one_never_came_to_be_begins() {
    let mut rig = called(DuplicatePolicy::Replace);
    rig.prompt = false;
    rig.ask(CALL, 1, 1, "pay", json!({ "to": "bea", "euros": 5 }));
    rig.ask(CALL, 2, 2, "pay", json!({ "to": "bea", "euros": 9 }));
    let (older, newer) = (rig.in_flight.pop_front().unwrap(), rig.in_flight.pop_front().unwrap());
    rig.in_flight.push_back(newer);
    rig.durable();
    assert_eq!(rig.sent(rig.accepted().operation), 0);
    rig.give(Input::CommitFailed { commit: older.0, reason: "disk full".into(), missing: false });
    rig.prompt = true;
    rig.durable();
    assert_eq!((rig.dispatched.len(), rig.sent(rig.accepted().operation)), (1, 1));
}

#[test]
fn a_restart_in_the_middle_of_a_replacement_goes_on_with_it() {
    for kept in [0, 1] {
        let mut rig = called(DuplicatePolicy::Replace);
        let older = pay(&mut rig, 1, 5);
        rig.prompt = false;
        rig.ask(CALL, 2, 2, "pay", json!({ "to": "bea", "euros": 9 }));
        rig.durable();
        let newer = rig.accepted().operation;
        // The newer one is durable; the older one's cancel is or is not.
        rig.crash(kept);
        rig.prompt = true;
        rig.all_durable();
        assert_eq!((rig.operation(older), rig.operation(newer)), (OperationState::Cancelling, OperationState::Accepted));
        assert_eq!((rig.sent(older), rig.sent(newer)), (1, 0), "what is to be cancelled is not sent again");
        rig.cancel_answered(older, CancelOutcome::Cancelled);
        assert_eq!((rig.operation(newer), rig.sent(newer)), (OperationState::Running, 1));
    }
}

fn scoped(scope: IdempotencyScope, window_ms: Option<u64>, duplicate: DuplicatePolicy) -> Rig {
    let mut policies = policies();
    let pay = policies.get_mut("pay").unwrap();
    (pay.idempotency_scope, pay.idempotency_window_ms, pay.duplicate) = (scope, window_ms, duplicate);
    pay.idempotency_fields = vec!["to".into()];
    Rig::with(policies)
}

fn pay_in(rig: &mut Rig, session: recado_core::SessionId, turn: u128) -> OperationId {
    rig.ask(session, turn, turn, "pay", json!({ "to": "bea", "euros": 5 }));
    rig.seal(session, turn);
    rig.accepted().operation
}

#[test]
fn in_the_scope_of_a_call_another_call_of_the_same_party_asks_for_something_new() {
    for (scope, same) in [(IdempotencyScope::Party, true), (IdempotencyScope::Call, false)] {
        let mut rig = scoped(scope, None, DuplicatePolicy::Reuse);
        rig.up(CALL, "ana");
        let first = pay_in(&mut rig, CALL, 1);
        assert_eq!(pay_in(&mut rig, CALL, 2), first, "{scope:?}: within the call");
        rig.over(CALL);
        rig.up(LATER_CALL, "ana");
        assert_eq!(pay_in(&mut rig, LATER_CALL, 3) == first, same, "{scope:?}");
    }
}

#[test]
fn in_the_scope_of_all_what_another_has_asked_for_is_not_done_again_and_not_told() {
    for duplicate in [DuplicatePolicy::Reuse, DuplicatePolicy::Reject, DuplicatePolicy::Confirm, DuplicatePolicy::Replace] {
        let mut rig = scoped(IdempotencyScope::Global, None, duplicate);
        rig.up(CALL, "ana");
        rig.up(OTHERS_CALL, "bea");
        let first = pay_in(&mut rig, CALL, 1);
        assert_eq!(pay_in(&mut rig, OTHERS_CALL, 2), first, "{duplicate:?}");
        assert_eq!(repeat(&rig), (Standing::Running, RepeatAnswer::AskedByAnother, None));
        assert_eq!(rig.accepted().say, "Eso ya está pedido.");
        rig.done(first);
        let delivery = rig.waiting().id;
        pay_in(&mut rig, OTHERS_CALL, 3);
        assert_eq!(repeat(&rig), (Standing::AboutToBeTold, RepeatAnswer::AskedByAnother, None), "nothing of it is given away");
        assert_eq!(rig.accepted().say, "Eso ya está pedido.");
        assert_eq!(rig.told(OTHERS_CALL, delivery), Vec::<&str>::new());
        assert_eq!(rig.dispatched.len(), 1);
        rig.tell(CALL, delivery);
        assert_ne!(pay_in(&mut rig, OTHERS_CALL, 4), first, "what is over for who asked is new for another");
        assert_eq!(rig.dispatched.len(), 2);
    }
}

#[test]
fn within_its_window_a_request_is_the_same_one_also_when_it_was_told_and_after_it_a_new_one_also_when_it_was_not() {
    let mut rig = scoped(IdempotencyScope::Party, Some(60_000), DuplicatePolicy::Reuse);
    rig.up(CALL, "ana");
    let first = pay_in(&mut rig, CALL, 1);
    rig.done(first);
    let delivery = rig.waiting().id;
    rig.tell(CALL, delivery);
    rig.now = 59_999;
    assert_eq!(pay_in(&mut rig, CALL, 2), first);
    assert_eq!(repeat(&rig), (Standing::Told, RepeatAnswer::Reused, None));
    rig.now = 60_000;
    let second = pay_in(&mut rig, CALL, 3);
    assert_ne!(second, first, "the window is over");
    rig.now = 119_999;
    assert_eq!(pay_in(&mut rig, CALL, 4), second, "it runs");
    rig.now = 120_000;
    assert_eq!(pay_in(&mut rig, CALL, 3), second, "a model that repeats itself in one turn, however late");
    assert_ne!(pay_in(&mut rig, CALL, 5), second, "although that one runs still");
    assert_eq!(rig.dispatched.len(), 3);
    let keys: std::collections::BTreeSet<_> = rig.dispatched.iter().map(|dispatch| dispatch.intent_key.clone()).collect();
    assert_eq!(keys.len(), 3, "each has a key of its own");
}

fn fails(rig: &mut Rig, operation: OperationId) {
    let outcome = AttemptOutcome::Failed { error: "no table".into(), executed: Executed::No, retryable: false, retry_after_ms: None };
    rig.attempted(operation, 1, outcome);
}

#[test]
fn what_was_not_done_is_no_reason_not_to_do_it_within_its_window_or_for_somebody_else() {
    let mut rig = scoped(IdempotencyScope::Party, Some(86_400_000), DuplicatePolicy::Reuse);
    rig.up(CALL, "ana");
    let first = pay_in(&mut rig, CALL, 1);
    fails(&mut rig, first);
    assert_eq!(pay_in(&mut rig, CALL, 2), first, "that it failed is about to be told");
    let delivery = rig.waiting().id;
    rig.tell(CALL, delivery);
    assert_ne!(pay_in(&mut rig, CALL, 3), first, "it was told, and it is asked for again");

    let mut rig = scoped(IdempotencyScope::Global, None, DuplicatePolicy::Reuse);
    rig.up(CALL, "ana");
    rig.up(OTHERS_CALL, "bea");
    let first = pay_in(&mut rig, CALL, 1);
    assert_eq!(pay_in(&mut rig, OTHERS_CALL, 2), first);
    fails(&mut rig, first);
    assert_ne!(pay_in(&mut rig, OTHERS_CALL, 3), first, "nobody has it yet");
}

#[test]
fn what_still_runs_is_replaced_and_confirmed_also_when_its_window_is_over() {
    let mut rig = scoped(IdempotencyScope::Party, Some(60_000), DuplicatePolicy::Confirm);
    rig.up(CALL, "ana");
    let first = pay_in(&mut rig, CALL, 1);
    rig.now = 61_000;
    assert_eq!(pay_in(&mut rig, CALL, 2), first);
    assert_eq!(repeat(&rig).1, RepeatAnswer::NeedsConfirmation);

    let mut policies = policies();
    let pay = policies.get_mut("pay").unwrap();
    (pay.duplicate, pay.idempotency_window_ms, pay.cancellable) = (DuplicatePolicy::Replace, Some(60_000), true);
    pay.idempotency_fields = vec!["to".into()];
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    let first = pay_in(&mut rig, CALL, 1);
    rig.now = 61_000;
    rig.ask(CALL, 2, 2, "pay", json!({ "to": "bea", "euros": 7 }));
    rig.seal(CALL, 2);
    assert_eq!(rig.operation(first), OperationState::Cancelling);
}
