//! Several callers at one ledger: what one of them says, asks or ends concerns nobody else's operations and deliveries (I14).

mod ledger_rig;

use ledger_rig::*;
use recado_core::ledger::*;
use recado_core::policy::DuplicatePolicy;
use recado_core::{DeliveryId, OperationId, SessionId};
use serde_json::json;

/// Ana's call, her second one, Bea's, and one of somebody without a name.
fn called() -> Rig {
    called_with(|_| {})
}

fn called_with(change: fn(&mut recado_core::policy::ToolPolicy)) -> Rig {
    let mut policies = policies();
    policies.get_mut("ticket").unwrap().cancellable = true;
    policies.values_mut().for_each(change);
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig.up(LATER_CALL, "ana");
    rig.up(OTHERS_CALL, "bea");
    rig.up(NAMELESS, "");
    rig.up(NAMELESS_TOO, "");
    rig
}

const NAMELESS: SessionId = SessionId(20);
const NAMELESS_TOO: SessionId = SessionId(21);

/// A ticket that this caller asks for; the number tells it from every other one.
fn ticket(rig: &mut Rig, session: SessionId, number: u128) -> OperationId {
    rig.ask(session, number, number, "ticket", json!({ "number": number }));
    rig.seal(session, number);
    rig.accepted().operation
}

fn offered(rig: &Rig, to: SessionId) -> Vec<DeliveryId> {
    let of = |(session, news): &(SessionId, News)| match news {
        News::Offered(envelope) if *session == to => Some(envelope.delivery),
        _ => None,
    };
    rig.news.iter().filter_map(of).collect()
}

#[test]
fn a_wish_to_cancel_concerns_the_callers_own_operations_and_nobody_elses() {
    let mut rig = called();
    let mut ids = Vec::new();
    for (session, number) in [(CALL, 1), (LATER_CALL, 2), (OTHERS_CALL, 3), (NAMELESS, 4), (NAMELESS_TOO, 5)] {
        ids.push(ticket(&mut rig, session, number));
    }
    let cancelling =
        |rig: &Rig| -> Vec<OperationId> { ids.iter().filter(|id| rig.operation(**id) == OperationState::Cancelling).copied().collect() };
    rig.give(Input::Cancel { session: NAMELESS, tool: None, operation: None, verified: true });
    assert_eq!((cancelling(&rig), rig.cancellation().cancelling), (vec![ids[3]], vec![ids[3]]), "who has no party has the call");
    rig.give(Input::Cancel { session: OTHERS_CALL, tool: None, operation: None, verified: true });
    assert_eq!((cancelling(&rig), rig.cancellation().cancelling), (vec![ids[2], ids[3]], vec![ids[2]]));
    rig.give(Input::Cancel { session: LATER_CALL, tool: Some("ticket".into()), operation: None, verified: true });
    assert_eq!(cancelling(&rig), ids[..4], "what a party asked for in another call is theirs too");
    assert_eq!(rig.cancellation().cancelling, ids[..2]);
}

#[test]
fn a_wish_to_cancel_waits_for_nobody_elses_transaction() {
    let mut rig = called();
    let own = ticket(&mut rig, CALL, 1);
    rig.prompt = false;
    rig.ask(OTHERS_CALL, 2, 2, "ticket", json!({ "number": 2 }));
    let others = rig.in_flight.pop_front().expect("it is being accepted");
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    rig.durable();
    assert_eq!(rig.cancellation().cancelling, [own]);
    rig.in_flight.push_back(others);
    rig.durable();
    assert_eq!(rig.operation(rig.accepted().operation), OperationState::Running);
}

#[test]
fn the_end_of_a_conversation_gives_back_what_it_was_telling_and_nothing_of_another() {
    let mut rig = called();
    let (own, others) = (ticket(&mut rig, CALL, 1), ticket(&mut rig, OTHERS_CALL, 2));
    rig.done(own);
    rig.done(others);
    let (own, others) = (offered(&rig, CALL)[0], offered(&rig, OTHERS_CALL)[0]);
    for (session, delivery) in [(CALL, own), (OTHERS_CALL, others)] {
        rig.claim(session, delivery);
        rig.give(Input::FirstFrame { session, delivery });
    }
    rig.over(CALL);
    assert_eq!((rig.delivery(own), rig.delivery(others)), (DeliveryState::Uncertain, DeliveryState::Speaking));
    assert_eq!(rig.store.claims.keys().collect::<Vec<_>>(), [&others]);
    assert_eq!(offered(&rig, LATER_CALL), [own], "her other call may tell it");
}

#[test]
fn a_first_frame_counts_only_from_who_has_the_claim() {
    let mut rig = called();
    let operation = ticket(&mut rig, CALL, 1);
    rig.done(operation);
    let delivery = rig.waiting().id;
    rig.claim(CALL, delivery);
    rig.give(Input::FirstFrame { session: OTHERS_CALL, delivery });
    assert_eq!(rig.ledger.delivery_state(delivery), Some(DeliveryState::Claimed));
    rig.give(Input::FirstFrame { session: CALL, delivery });
    assert_eq!(rig.ledger.delivery_state(delivery), Some(DeliveryState::Speaking));
    rig.settled(CALL, delivery, &[(0, UNCERTAIN)]);
    rig.claim(CALL, delivery);
    for _ in 0..2 {
        rig.give(Input::FirstFrame { session: CALL, delivery });
    }
    assert_eq!(rig.count(&LedgerMeasure::DuplicateDelivery), 1, "there is one first frame of a telling");
}

#[test]
fn what_waits_is_offered_to_a_new_call_in_the_order_in_which_it_became_ready() {
    let mut rig = called();
    let asked = [1, 2, 3].map(|number| ticket(&mut rig, CALL, number));
    for operation in [asked[1], asked[2], asked[0]] {
        rig.done(operation);
    }
    let ready = offered(&rig, CALL);
    rig.over(CALL);
    rig.over(LATER_CALL);
    rig.up(SessionId(3), "ana");
    assert_eq!(offered(&rig, SessionId(3)), ready);
    let row = rig.ledger.delivery(ready[0]).expect("it is in memory");
    assert_eq!((row.id, row.clauses[0].operation), (ready[0], asked[1]));
    assert_eq!(rig.ledger.batch(row.batch).map(|batch| batch.id), Some(row.batch));
}

#[test]
fn an_offer_names_the_operations_that_it_is_about() {
    let mut rig = called();
    rig.ask(CALL, 1, 1, "pay", json!({}));
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    rig.seal(CALL, 1);
    let operations: Vec<OperationId> = rig.ledger.operations().map(|row| row.id).collect();
    operations.iter().for_each(|operation| {
        rig.done(*operation);
    });
    let envelope = rig.news.iter().rev().find_map(|(_, news)| if let News::Offered(envelope) = news { Some(envelope) } else { None });
    assert_eq!(envelope.expect("offered").operations, operations);
}

#[test]
fn a_caller_whose_name_becomes_known_in_the_call_goes_on_hearing_what_they_asked_for() {
    for (before, after) in [("", "ana"), ("ana", "")] {
        let mut rig = Rig::new();
        rig.up(CALL, before);
        let operation = rig.order("pay", 1);
        rig.up(CALL, after);
        rig.done(operation);
        let delivery = rig.waiting().id;
        assert_eq!(texts(&rig.tell(CALL, delivery)), ["Pagado 7."], "from {before:?} to {after:?}");
    }
}

#[test]
fn a_model_that_repeats_a_turn_does_not_ask_again_though_another_call_of_the_party_has_meanwhile() {
    let mut rig = called_with(|policy| policy.duplicate = DuplicatePolicy::Reuse);
    let ask = |rig: &mut Rig, session, turn| {
        rig.ask(session, turn, turn, "pay", json!({ "to": "bea" }));
        rig.seal(session, turn);
        rig.accepted().operation
    };
    let tell = |rig: &mut Rig, operation| {
        rig.done(operation);
        let row = rig.waiting();
        rig.tell(row.session, row.id);
    };
    let first = ask(&mut rig, CALL, 1);
    tell(&mut rig, first);
    let second = ask(&mut rig, LATER_CALL, 2);
    assert_ne!(second, first, "asked for again by a caller who has heard how it ended");
    tell(&mut rig, second);
    assert_eq!(ask(&mut rig, CALL, 1), second, "the first call's model repeats itself");
    assert_eq!(rig.dispatched.len(), 2);
}

#[test]
fn a_claim_of_what_becomes_obsolete_while_it_is_being_committed_is_refused() {
    let mut rig = called_with(|policy| policy.topic = Some("the order".into()));
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let closing = rig.waiting().id;
    rig.prompt = false;
    rig.claim(CALL, closing);
    rig.ask(CALL, 2, 2, "pay", json!({ "to": "carla" }));
    let claim = rig.in_flight.pop_front().expect("the claim is being committed");
    rig.durable();
    rig.in_flight.push_back(claim);
    rig.all_durable();
    assert_eq!(rig.told(CALL, closing), ["offered", "refused", "withdrawn"], "nothing of it may sound (I10)");
    assert_eq!(rig.delivery(closing), DeliveryState::Superseded);
    assert!(rig.store.claims.is_empty());
}

#[test]
fn each_newer_request_on_a_topic_makes_the_one_before_it_obsolete() {
    let mut rig = called_with(|policy| policy.topic = Some("the order".into()));
    let asked = [1, 2, 3, 4].map(|number| {
        let operation = ticket(&mut rig, CALL, number);
        rig.done(operation);
        operation
    });
    let states: Vec<_> =
        asked.iter().map(|id| rig.store.deliveries.values().find(|row| row.clauses[0].operation == *id).map(|row| row.state)).collect();
    let superseded = Some(DeliveryState::Superseded);
    assert_eq!(states, [superseded, superseded, superseded, Some(DeliveryState::Ready)]);
    let others = ticket(&mut rig, OTHERS_CALL, 5);
    rig.done(others);
    assert_eq!(rig.ledger.pending().len(), 2, "another caller's topic is another one");
    rig.ask(CALL, 6, 6, "ticket", json!({ "number": 6 }));
    assert_eq!(rig.ledger.pending().len(), 1, "already the request makes it obsolete");
}

#[test]
fn the_same_thing_asked_for_by_two_callers_is_two_things() {
    let mut rig = called();
    let callers = [CALL, OTHERS_CALL, NAMELESS, NAMELESS_TOO];
    let operations = callers.map(|session| {
        rig.ask(session, 1, 1, "pay", json!({ "to": "bea" }));
        rig.accepted().operation
    });
    assert_eq!(rig.dispatched.iter().map(|dispatch| dispatch.operation).collect::<Vec<_>>(), operations);
    let keys: std::collections::BTreeSet<String> = rig.dispatched.iter().map(|dispatch| dispatch.intent_key.to_string()).collect();
    assert_eq!(keys.len(), 4, "{keys:?}");
}
