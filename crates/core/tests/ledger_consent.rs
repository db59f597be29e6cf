//! What a tool with `confirm` is asked to do is read back first, and done only on the caller's consent. What runs can be listed, and
//! cancelled one by one.

mod ledger_rig;

use ledger_rig::*;
use recado_core::ledger::*;
use recado_core::policy::{Audience, DuplicatePolicy, Localised};
use recado_core::{OperationId, SessionId, TurnId};
use serde_json::{Value, json};

fn confirming(duplicate: DuplicatePolicy) -> Rig {
    let mut policies = policies();
    let pay = policies.get_mut("pay").unwrap();
    (pay.confirm, pay.duplicate) = (true, duplicate);
    pay.description = "Hace una transferencia.".into();
    pay.private_fields = vec!["pin".into()];
    pay.idempotency_fields = vec!["to".into()];
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig
}

fn to_bea(euros: u32) -> Value {
    json!({ "to": "bea", "euros": euros, "pin": "4321" })
}

/// The read-backs so far: what each is called, and what the caller hears.
fn read_backs(rig: &Rig) -> Vec<(u64, String)> {
    let of = |(_, news): &(SessionId, News)| match news {
        News::ReadBack { read_back, say, .. } => Some((*read_back, say.clone())),
        _ => None,
    };
    rig.news.iter().filter_map(of).collect()
}

fn heard(rig: &mut Rig, turn: u128) {
    let read_back = read_backs(rig).last().expect("something was read back").0;
    rig.give(Input::ReadBackHeard { session: CALL, read_back, turn: TurnId(turn) });
}

fn listed(rig: &mut Rig, session: SessionId) -> Vec<WorkItem> {
    rig.give(Input::ListWork { session });
    let of = |(of, news): &(SessionId, News)| match news {
        News::Work { asked: true, work } if *of == session => Some(work.clone()),
        _ => None,
    };
    rig.news.iter().rev().find_map(of).expect("it is answered")
}

#[test]
fn nothing_is_done_before_the_caller_has_heard_what_and_said_yes_in_a_later_turn() {
    let mut rig = confirming(DuplicatePolicy::Reuse);
    rig.ask(CALL, 1, 1, "pay", to_bea(5));
    assert_eq!(read_backs(&rig), [(0, "Voy a hacer esto: Hace una transferencia, euros 5, to bea. ¿Lo hago?".into())]);
    rig.ask_confirmed(CALL, 2, 2, "pay", to_bea(5), true);
    heard(&mut rig, 2);
    rig.ask_confirmed(CALL, 2, 2, "pay", to_bea(5), true);
    heard(&mut rig, 2);
    rig.ask(CALL, 3, 3, "pay", to_bea(5));
    heard(&mut rig, 3);
    assert_eq!((rig.dispatched.len(), rig.store.operations.len()), (0, 0), "not heard; not later; not said by the model");
    rig.ask_confirmed(CALL, 4, 4, "pay", to_bea(5), true);
    assert_eq!(rig.dispatched.len(), 1);
    rig.ask_confirmed(CALL, 4, 4, "pay", to_bea(5), true);
    assert_eq!((rig.dispatched.len(), read_backs(&rig).len()), (1, 4), "a model that repeats itself is told that it runs");
    assert_eq!(rig.accepted().repeat.map(|repeat| repeat.standing), Some(Standing::Running));
}

#[test]
fn consent_is_to_all_of_the_arguments_and_other_ones_are_read_back_anew() {
    let mut rig = confirming(DuplicatePolicy::Reuse);
    rig.ask(CALL, 1, 1, "pay", to_bea(5));
    heard(&mut rig, 1);
    rig.ask_confirmed(CALL, 2, 2, "pay", to_bea(50), true);
    assert_eq!(
        (rig.dispatched.len(), read_backs(&rig).len()),
        (0, 2),
        "the field that differs makes no other intent, and matters all the same"
    );
    heard(&mut rig, 2);
    rig.ask_confirmed(CALL, 3, 3, "pay", to_bea(5), true);
    assert_eq!((rig.dispatched.len(), read_backs(&rig).len()), (0, 3), "that is not what was asked last");
    heard(&mut rig, 3);
    rig.ask_confirmed(CALL, 4, 4, "pay", to_bea(5), true);
    assert_eq!(rig.dispatched.len(), 1);
}

#[test]
fn what_is_over_was_taken_back_or_belongs_to_another_call_is_no_consent() {
    let mut rig = confirming(DuplicatePolicy::Reuse);
    rig.up(LATER_CALL, "ana");
    rig.ask(CALL, 1, 1, "pay", to_bea(5));
    heard(&mut rig, 1);
    rig.ask_confirmed(LATER_CALL, 2, 2, "pay", to_bea(5), true);
    assert_eq!(rig.dispatched.len(), 0, "the same party in another call has heard nothing");
    rig.give(Input::ReadBackOver { session: CALL, read_back: 0 });
    rig.ask_confirmed(CALL, 3, 3, "pay", to_bea(5), true);
    heard(&mut rig, 3);
    assert_eq!(rig.dispatched.len(), 0);
    rig.over(CALL);
    rig.up(CALL, "ana");
    rig.ask_confirmed(CALL, 4, 4, "pay", to_bea(5), true);
    assert_eq!(rig.dispatched.len(), 0, "nothing of it outlives the conversation");
}

#[test]
fn a_repeat_that_is_to_be_confirmed_is_read_back_too_and_both_want_the_same_word() {
    let mut rig = confirming(DuplicatePolicy::Confirm);
    rig.ask(CALL, 1, 1, "pay", to_bea(5));
    heard(&mut rig, 1);
    rig.ask_confirmed(CALL, 2, 2, "pay", to_bea(5), true);
    rig.ask(CALL, 3, 3, "pay", to_bea(5));
    assert_eq!(rig.accepted().repeat.map(|repeat| repeat.answer), Some(RepeatAnswer::NeedsConfirmation));
    rig.ask_confirmed(CALL, 4, 4, "pay", to_bea(5), true);
    assert_eq!((rig.dispatched.len(), read_backs(&rig).len()), (1, 2));
    heard(&mut rig, 4);
    rig.ask_confirmed(CALL, 5, 5, "pay", to_bea(5), true);
    assert_eq!(rig.dispatched.len(), 2);
}

#[test]
fn the_tools_own_words_are_read_back_where_it_has_any_that_can_be_rendered() {
    for (template, said) in
        [("¿Pago {{ arguments.euros }}?", "¿Pago 5?"), ("{{ arguments.who.name }}", "Voy a hacer esto: pay, euros 5. ¿Lo hago?")]
    {
        let mut policies = policies();
        let pay = policies.get_mut("pay").unwrap();
        (pay.confirm, pay.say.confirm) = (true, Localised { es: Some(template.into()), en: None });
        let mut rig = Rig::with(policies);
        rig.up(CALL, "ana");
        rig.ask(CALL, 1, 1, "pay", json!({ "euros": 5 }));
        assert_eq!(read_backs(&rig)[0].1, said);
    }
}

#[test]
fn what_runs_for_a_party_is_listed_without_its_secrets_or_its_result_until_it_has_been_told() {
    let mut rig = confirming(DuplicatePolicy::Reuse);
    assert!(listed(&mut rig, CALL).is_empty());
    rig.ask(CALL, 1, 1, "pay", to_bea(5));
    heard(&mut rig, 1);
    rig.ask_confirmed(CALL, 2, 2, "pay", to_bea(5), true);
    rig.seal(CALL, 2);
    let first = rig.accepted().operation;
    rig.now += 2_000;
    rig.wall.unix_ms += 2_000;
    let work = listed(&mut rig, CALL);
    assert_eq!((work.len(), work[0].operation, work[0].state, work[0].age_ms), (1, first, WorkState::Running, Some(2_000)));
    assert_eq!(work[0].arguments, json!({ "to": "bea", "euros": 5 }));
    rig.done(first);
    let work = listed(&mut rig, CALL);
    assert_eq!(work[0].state, WorkState::AboutToBeTold);
    let known = (work[0].arguments.clone(), work[0].say.as_str());
    assert!(!format!("{known:?}").contains('7'), "its result is 7, and not told: {known:?}");
    rig.up(OTHERS_CALL, "bea");
    assert!(listed(&mut rig, OTHERS_CALL).is_empty(), "I14");
    let delivery = rig.waiting().id;
    rig.claim(CALL, delivery);
    rig.give(Input::FirstFrame { session: CALL, delivery });
    rig.settled(CALL, delivery, &[(0, HEARD)]);
    assert!(listed(&mut rig, CALL).is_empty());
}

#[test]
fn a_conversation_is_told_at_its_beginning_what_runs_from_earlier_calls_and_not_what_is_for_the_other_call_alone() {
    let mut policies = policies();
    policies.get_mut("ticket").unwrap().audience = Audience::SameCall;
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    let at_beginning = |rig: &Rig, session| {
        let of = |(of, news): &(SessionId, News)| match news {
            News::Work { asked: false, work } if *of == session => Some(work.iter().map(|item| item.operation).collect::<Vec<_>>()),
            _ => None,
        };
        rig.news.iter().find_map(of)
    };
    assert_eq!(at_beginning(&rig, CALL), None, "nothing is said of nothing");
    let pay = rig.order("pay", 1);
    rig.order("ticket", 2);
    rig.up(LATER_CALL, "ana");
    assert_eq!(at_beginning(&rig, LATER_CALL), Some(vec![pay]));
    rig.up(OTHERS_CALL, "bea");
    assert_eq!(at_beginning(&rig, OTHERS_CALL), None);
}

#[test]
fn one_operation_is_cancelled_by_itself_and_by_nobody_elses_caller() {
    let mut rig = confirming(DuplicatePolicy::Reuse);
    let (first, second) = (rig.order("ticket", 1), rig.order("ticket", 2));
    rig.up(OTHERS_CALL, "bea");
    let cancel = |rig: &mut Rig, session, operation: OperationId| {
        rig.give(Input::Cancel { session, tool: None, operation: Some(operation), verified: true });
        let of = |(of, news): &(SessionId, News)| match news {
            News::Cancelling(cancellation) if *of == session => Some(cancellation.clone()),
            _ => None,
        };
        rig.news.iter().rev().find_map(of).expect("a wish is answered")
    };
    let others = cancel(&mut rig, OTHERS_CALL, first);
    assert!(others.cancelling.is_empty() && others.ended.is_empty(), "I14: {others:?}");
    assert_eq!(others.say, say_nothing_to_cancel(recado_core::policy::Language::Es));
    let theirs = cancel(&mut rig, CALL, second);
    assert_eq!((theirs.cancelling, theirs.ended), (vec![second], vec![]));
    assert_ne!(rig.ledger.operation(first).unwrap().state, OperationState::Cancelling);
}

#[test]
fn all_that_it_would_be_done_with_is_read_back_but_for_what_is_private_however_deep() {
    let mut policies = policies();
    let pay = policies.get_mut("pay").unwrap();
    (pay.confirm, pay.private_fields) = (true, vec!["card.cvv".into()]);
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    let long = "a".repeat(200);
    rig.ask(CALL, 1, 1, "pay", json!({ "card": { "cvv": "123", "name": "ana" }, "express": true, "note": long }));
    let said = &read_backs(&rig)[0].1;
    assert!(said.contains("card name ana") && said.contains("express sí") && said.contains(&long), "{said}");
    assert!(!said.contains("123"), "{said}");
}

#[test]
fn who_is_not_known_to_be_the_party_cancels_nothing_that_only_the_verified_party_may_hear_of_but_their_own() {
    let mut policies = policies();
    let pay = policies.get_mut("pay").unwrap();
    (pay.audience, pay.cancellable) = (Audience::VerifiedParty, true);
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig.ask(CALL, 1, 1, "pay", to_bea(5));
    rig.seal(CALL, 1);
    let operation = rig.accepted().operation;
    rig.up(LATER_CALL, "ana");
    let wishes = |rig: &mut Rig, session, verified| {
        rig.give(Input::Cancel { session, tool: None, operation: None, verified });
        let of = |(of, news): &(SessionId, News)| match news {
            News::Cancelling(cancellation) if *of == session => Some(cancellation.cancelling.clone()),
            _ => None,
        };
        rig.news.iter().rev().find_map(of).expect("an answer")
    };
    assert_eq!(wishes(&mut rig, LATER_CALL, false), [], "as if there were nothing");
    assert_eq!(rig.operation(operation), OperationState::Running);
    assert_eq!(wishes(&mut rig, LATER_CALL, true), [operation]);
    rig.ask(CALL, 2, 2, "pay", to_bea(6));
    rig.seal(CALL, 2);
    let own = rig.accepted().operation;
    assert_eq!(wishes(&mut rig, CALL, false), [operation, own], "who asked for it may cancel it");
}
