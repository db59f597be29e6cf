//! How an operation stands by its tool's own word: what is taken under a name, what is in doubt, what can't be reached.

mod ledger_rig;

use std::collections::BTreeMap;

use ledger_rig::*;
use recado_core::OperationId;
use recado_core::ledger::*;
use recado_core::policy::{Localised, ToolPolicy};
use serde_json::json;

/// `pay` and `ticket`, which can be asked how they stand by the operation's key.
fn asked() -> Rig {
    let with = |mut policies: BTreeMap<String, ToolPolicy>| {
        policies.values_mut().for_each(|policy| policy.inquirable = true);
        policies
    };
    called(with(policies()))
}

fn called(policies: BTreeMap<String, ToolPolicy>) -> Rig {
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig
}

fn taken(handle: &str) -> AttemptOutcome {
    AttemptOutcome::Taken { handle: handle.to_owned() }
}

fn unreachable(reason: &str) -> AttemptOutcome {
    AttemptOutcome::Unreachable { reason: reason.to_owned(), retry_after_ms: None }
}

impl Rig {
    /// Answers the latest inquiry.
    fn says(&mut self, outcome: InquiryOutcome) {
        let Inquiry { operation, request, .. } = self.inquiries.last().expect("it was asked").clone();
        self.give(Input::Inquired { operation, request, outcome });
    }

    /// How often an operation's tool was asked.
    fn asked(&self, operation: OperationId) -> usize {
        self.inquiries.iter().filter(|inquiry| inquiry.operation == operation).count()
    }

    fn row(&self, operation: OperationId) -> &OperationRecord {
        &self.store.operations[&operation]
    }
}

#[test]
fn what_a_tool_has_taken_under_a_name_is_asked_for_by_it_until_it_has_a_result() {
    let mut rig = called(policies());
    let operation = rig.order("pay", 1);
    rig.attempted(operation, 1, taken("task 7"));
    assert_eq!(rig.row(operation).handle.as_deref(), Some("task 7"), "it is on record");
    assert_eq!(rig.asked(operation), 0);
    rig.pass(2_000);
    assert_eq!(rig.inquiries[0].handle.as_deref(), Some("task 7"));
    rig.pass(600_000 / 4);
    assert_eq!(rig.asked(operation), 1, "one at a time");
    // As often as the tool says, and ever less often where it says nothing.
    rig.says(InquiryOutcome::Running { again_ms: Some(700) });
    rig.pass(699);
    assert_eq!(rig.asked(operation), 1);
    rig.pass(1);
    assert_eq!(rig.asked(operation), 2);
    for wait in [4_000, 8_000, 16_000] {
        rig.says(InquiryOutcome::Running { again_ms: None });
        rig.pass(wait - 1);
        let before = rig.asked(operation);
        rig.pass(1);
        assert_eq!(rig.asked(operation), before + 1, "after {wait} ms");
    }
    rig.says(InquiryOutcome::Succeeded(json!({ "id": 9 })));
    let delivery = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, delivery)), ["Pagado 9."]);
    let asked = rig.asked(operation);
    rig.pass(10_000_000);
    assert_eq!((rig.asked(operation), rig.sent(operation)), (asked, 1));
}

#[test]
fn a_callback_and_an_inquiry_may_both_bring_the_result_and_the_first_one_counts() {
    let mut rig = called(policies());
    let operation = rig.order("pay", 1);
    rig.attempted(operation, 1, taken("task 7"));
    rig.pass(2_000);
    rig.done(operation);
    rig.says(InquiryOutcome::Succeeded(json!({ "id": 7 })));
    assert_eq!((rig.row(operation).state, rig.row(operation).contradiction.clone()), (OperationState::Succeeded, None));
    let delivery = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, delivery)), ["Pagado 7."]);
}

#[test]
fn a_restart_asks_for_what_a_tool_has_by_its_name_and_sends_nothing_again_whatever_the_tool() {
    for tool in ["pay", "ticket"] {
        let mut rig = called(policies());
        let operation = rig.order(tool, 1);
        rig.attempted(operation, 1, taken("task 7"));
        rig.crash(0);
        assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Running, 1), "{tool}");
        assert_eq!(rig.inquiries.last().unwrap().handle.as_deref(), Some("task 7"), "{tool}: asked at once");
        rig.says(InquiryOutcome::Succeeded(json!({ "id": 9 })));
        assert_eq!(rig.operation(operation), OperationState::Succeeded, "{tool}");
    }
}

#[test]
fn what_a_tool_has_by_a_name_is_asked_for_also_where_its_time_ran_out_while_the_box_was_off() {
    for tool in ["pay", "ticket"] {
        let mut rig = called(policies());
        let operation = rig.order(tool, 1);
        rig.attempted(operation, 1, taken("task 7"));
        rig.wall.unix_ms += 3_600_000;
        rig.crash(0);
        assert_eq!(rig.operation(operation), OperationState::Unknown, "{tool}");
        rig.pass(120_000);
        assert_eq!(rig.inquiries.last().and_then(|inquiry| inquiry.handle.as_deref()), Some("task 7"), "{tool}");
        rig.says(InquiryOutcome::Succeeded(json!({ "id": 9 })));
        assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Succeeded, 1), "{tool}");
    }
}

#[test]
fn what_ended_in_doubt_is_not_sent_again_where_its_tool_can_say_how_it_stands() {
    let mut rig = asked();
    let operation = rig.order("pay", 1);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    assert_eq!((rig.operation(operation), rig.row(operation).maybe_executed), (OperationState::Running, true));
    rig.pass(2_000);
    rig.says(InquiryOutcome::Unanswered { error: "busy".into(), retryable: true, retry_after_ms: Some(5_000) });
    rig.pass(4_999);
    assert_eq!(rig.asked(operation), 1);
    rig.pass(1);
    rig.says(InquiryOutcome::Succeeded(json!({ "id": 3 })));
    assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Succeeded, 1));

    // It says that it never got it: then nothing happened, and nothing more will.
    let operation = rig.order("pay", 2);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    rig.pass(2_000);
    rig.says(InquiryOutcome::NotExecuted);
    assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Failed, 1));

    // It does not know, or can't be asked after all: nobody knows.
    for (number, outcome) in [(3, InquiryOutcome::Forgotten), (4, InquiryOutcome::Unsupported)] {
        let operation = rig.order("pay", number);
        rig.attempt_failed(operation, 1, Executed::Maybe);
        rig.pass(2_000);
        rig.says(outcome);
        assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Unknown, 1));
    }
}

#[test]
fn an_idempotent_tool_that_never_got_it_or_forgot_it_gets_it_again_under_the_same_key() {
    for outcome in [InquiryOutcome::NotExecuted, InquiryOutcome::Forgotten] {
        let mut rig = called(policies());
        let operation = rig.order("ticket", 1);
        rig.attempted(operation, 1, taken("task 7"));
        rig.pass(2_000);
        rig.says(outcome.clone());
        rig.pass(60_000);
        assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Running, 2), "{outcome:?}");
        assert_eq!(rig.row(operation).handle, None, "the new attempt has no name yet");
        assert_eq!(rig.dispatched[0].intent_key, rig.dispatched[1].intent_key);
        // What is answered late about the attempt before counts for nothing.
        let Inquiry { request, .. } = rig.inquiries[0].clone();
        rig.give(Input::Inquired { operation, request, outcome: InquiryOutcome::Failed("late".into()) });
        assert_eq!(rig.operation(operation), OperationState::Running);
    }
}

#[test]
fn what_was_given_up_is_asked_about_a_few_times_more_and_what_it_turns_out_to_be_is_a_correction() {
    let mut rig = called(policies());
    let operation = rig.order("pay", 1);
    rig.attempted(operation, 1, taken("task 7"));
    rig.pass(300_000);
    assert_eq!(rig.operation(operation), OperationState::Unknown, "its deadline has passed");
    let delivery = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, delivery)), ["No se sabe."]);
    for _ in 0..100 {
        let before = rig.asked(operation);
        rig.says(InquiryOutcome::Running { again_ms: Some(1) });
        rig.pass(3_600_000);
        if rig.asked(operation) == before {
            break;
        }
    }
    let asked = rig.asked(operation);
    assert!((10..20).contains(&asked), "{asked} inquiries");
    // A restart asks again.
    rig.crash(0);
    rig.says(InquiryOutcome::Succeeded(json!({ "id": 4 })));
    assert_eq!(rig.operation(operation), OperationState::Succeeded);
    rig.up(LATER_CALL, "ana");
    let delivery = rig.waiting().id;
    assert_eq!(texts(&rig.tell(LATER_CALL, delivery)), ["Una corrección: Pagado 4."]);
}

#[test]
fn a_cancel_knows_the_tools_name_and_what_it_does_not_settle_the_tool_is_asked() {
    let mut policies = policies();
    policies.values_mut().for_each(|policy| policy.cancellable = true);
    let mut rig = called(policies);
    let operation = rig.order("pay", 1);
    rig.attempted(operation, 1, taken("task 7"));
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    assert_eq!(rig.cancels[0].handle.as_deref(), Some("task 7"));
    rig.pass(10_000);
    assert_eq!(rig.asked(operation), 0, "the wish to cancel comes first");
    rig.cancel_answered(operation, CancelOutcome::Failed { error: "no".into(), retryable: false, retry_after_ms: None });
    rig.pass(2_000);
    rig.says(InquiryOutcome::Cancelled);
    assert_eq!(rig.operation(operation), OperationState::Cancelled);

    let operation = rig.order("pay", 2);
    rig.attempted(operation, 1, taken("task 8"));
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    rig.cancel_answered(operation, CancelOutcome::Unsupported);
    rig.pass(2_000);
    rig.says(InquiryOutcome::Succeeded(json!({ "id": 4 })));
    assert_eq!(rig.operation(operation), OperationState::TooLate);
}

#[test]
fn a_cancel_that_came_before_the_tools_name_is_asked_for_again_by_it() {
    let mut policies = policies();
    policies.values_mut().for_each(|policy| policy.cancellable = true);
    for answered_first in [true, false] {
        let mut rig = called(policies.clone());
        let operation = rig.order("pay", 1);
        rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
        assert_eq!(rig.cancels.last().unwrap().handle, None);
        if answered_first {
            rig.cancel_answered(operation, CancelOutcome::Unsupported);
            rig.attempted(operation, 1, taken("task 7"));
        } else {
            rig.attempted(operation, 1, taken("task 7"));
            rig.cancel_answered(operation, CancelOutcome::Unsupported);
        }
        assert_eq!((rig.cancels.len(), rig.cancels.last().unwrap().handle.as_deref()), (2, Some("task 7")), "{answered_first}");
        rig.cancel_answered(operation, CancelOutcome::Unsupported);
        rig.pass(60_000);
        assert_eq!(rig.cancels.len(), 2, "there is nobody to ask");
        rig.says(InquiryOutcome::Cancelled);
        assert_eq!(rig.operation(operation), OperationState::Cancelled);
    }
}

#[test]
fn what_cant_be_reached_waits_without_spending_attempts_and_goes_on_when_it_can_be() {
    let mut policies = policies();
    for policy in policies.values_mut() {
        policy.retry.attempts_max = 2;
        policy.say.waiting = Localised { es: Some("Espero línea para {{ arguments.number }}.".into()), en: None };
    }
    let mut rig = called(policies);
    let operation = rig.order("pay", 1);
    for attempt in 1..=6 {
        rig.attempted(operation, attempt, unreachable("no route"));
        assert_eq!((rig.operation(operation), rig.row(operation).unreached), (OperationState::RetryWait, attempt));
        assert!(!rig.row(operation).maybe_executed);
        // Another tool's place is back.
        let other = rig.order("ticket", 100 + u128::from(attempt));
        rig.attempted(other, 1, AttemptOutcome::Succeeded(json!({})));
        assert_eq!(rig.sent(operation), usize::try_from(attempt).unwrap());
        // Its own is.
        let next = rig.order("pay", 200 + u128::from(attempt));
        rig.attempted(next, 1, AttemptOutcome::Succeeded(json!({})));
        assert_eq!(rig.sent(operation), usize::try_from(attempt).unwrap() + 1, "at once");
    }
    assert_eq!(rig.updates(CALL), ["Espero línea para 1."], "told once");
    // What leaves counts as ever.
    rig.attempt_failed(operation, 7, Executed::No);
    rig.pass(60_000);
    rig.attempt_failed(operation, 8, Executed::No);
    assert_eq!(rig.operation(operation), OperationState::Failed);
}

#[test]
fn who_asks_while_it_is_known_that_the_tool_cant_be_reached_is_told_so_with_the_acceptance() {
    let mut rig = called(policies());
    let accepted = |rig: &mut Rig, number| {
        let operation = rig.order("pay", number);
        rig.now += 1;
        (operation, rig.accepted().say)
    };
    let (first, usual) = accepted(&mut rig, 1);
    rig.attempted(first, 1, unreachable("no route"));
    assert_eq!(rig.updates(CALL).len(), 1);
    let (second, said) = accepted(&mut rig, 2);
    assert_ne!(usual, said);
    assert!(said.contains("no puedo hacerlo llegar"), "{said}");
    rig.attempted(second, 1, unreachable("no route"));
    assert_eq!(rig.updates(CALL).len(), 1, "that has been said");
    // One that is recalled shows nothing.
    let (third, _) = accepted(&mut rig, 3);
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    rig.attempt_failed(third, 1, Executed::No);
    let (fourth, said) = accepted(&mut rig, 4);
    assert_ne!(usual, said);
    rig.attempted(fourth, 1, AttemptOutcome::Deferred);
    assert_eq!(accepted(&mut rig, 5).1, usual);
}

#[test]
fn what_waits_goes_on_when_its_tool_does_something_and_not_when_another_attempt_has_only_failed() {
    let mut rig = called(policies());
    let [first, second] = [rig.order("pay", 1), rig.order("pay", 2)];
    for operation in [first, second] {
        rig.attempted(operation, 1, unreachable("no route"));
    }
    let third = rig.order("pay", 3);
    rig.dispatched.clear();
    rig.attempt_failed(third, 1, Executed::No);
    assert!(rig.dispatched.is_empty(), "it was reached, and does nothing yet: {:?}", rig.dispatched);
    let fourth = rig.order("pay", 4);
    rig.dispatched.clear();
    rig.attempted(fourth, 1, AttemptOutcome::Deferred);
    assert_eq!(rig.dispatched.iter().map(|dispatch| dispatch.operation).collect::<Vec<_>>(), [first, second]);
}

#[test]
fn everybody_who_had_asked_before_it_was_known_is_told_and_each_once() {
    let mut rig = called(policies());
    rig.up(OTHERS_CALL, "bea");
    let mine = [rig.order("pay", 1), rig.order("pay", 2)];
    rig.ask(OTHERS_CALL, 3, 3, "pay", json!({ "number": "3" }));
    rig.seal(OTHERS_CALL, 3);
    let others = rig.accepted().operation;
    for operation in [mine[0], others, mine[1]] {
        rig.attempted(operation, 1, unreachable("no route"));
    }
    assert_eq!((rig.updates(CALL).len(), rig.updates(OTHERS_CALL).len()), (1, 1));
}

#[test]
fn what_never_could_be_reached_has_failed_at_its_deadline_and_nothing_of_it_is_in_doubt() {
    let mut rig = called(policies());
    let operation = rig.order("pay", 1);
    rig.attempted(operation, 1, unreachable("no route"));
    for attempt in 2..100 {
        let Some(at) = rig.ledger.deadline() else { break };
        rig.pass(at.0.saturating_sub(rig.now));
        if rig.operation(operation) != OperationState::Running {
            break;
        }
        rig.attempted(operation, attempt, unreachable("no route"));
    }
    assert_eq!((rig.operation(operation), rig.row(operation).maybe_executed), (OperationState::Failed, false));
    assert_eq!(rig.now, 300_000);
    // One that waits and is cancelled is cancelled.
    let operation = rig.order("pay", 2);
    rig.attempted(operation, 1, unreachable("no route"));
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    assert_eq!((rig.operation(operation), rig.cancels.len()), (OperationState::Cancelled, 0));
}

#[test]
fn what_is_being_cancelled_and_forgotten_by_its_tool_is_not_known_and_not_called_cancelled() {
    let mut rig = called(policies());
    let operation = rig.order("pay", 1);
    rig.attempted(operation, 1, taken("task 7"));
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    rig.cancel_answered(operation, CancelOutcome::Unsupported);
    rig.pass(2_000);
    rig.says(InquiryOutcome::Forgotten);
    assert_eq!((rig.operation(operation), rig.row(operation).maybe_executed), (OperationState::Unknown, true));
}

#[test]
fn a_restart_keeps_what_was_out_of_reach_and_what_it_has_cost() {
    let mut rig = called(policies());
    let operation = rig.order("pay", 1);
    rig.attempted(operation, 1, unreachable("no route"));
    rig.crash(0);
    assert_eq!(rig.operation(operation), OperationState::RetryWait);
    rig.pass(1_000);
    assert_eq!((rig.sent(operation), rig.row(operation).unreached), (2, 1));
}
