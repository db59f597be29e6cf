//! Hand-offs: the other way for a closing that nobody has come to hear.

mod ledger_rig;

use ledger_rig::*;
use recado_core::DeliveryId;
use recado_core::ledger::*;
use recado_core::policy::{UncertainPolicy, WhenUnheard};
use serde_json::json;

const AFTER: u64 = 60_000;

fn called() -> Rig {
    let mut policies = policies();
    for policy in policies.values_mut() {
        policy.when_unheard = WhenUnheard::Webhook;
        policy.hand_off_after_ms = AFTER;
    }
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig
}

/// A closing whose caller has hung up.
fn unheard(rig: &mut Rig) -> DeliveryId {
    let operation = rig.order("pay", 1);
    rig.over(CALL);
    rig.done(operation);
    rig.waiting().id
}

fn answer(rig: &mut Rig, delivery: DeliveryId, outcome: HandOffOutcome) {
    rig.give(Input::HandOffAttempted { delivery, outcome });
}

fn failed(received: Executed) -> HandOffOutcome {
    HandOffOutcome::Failed { error: "503".into(), received, retry_after_ms: None }
}

#[test]
fn a_closing_that_nobody_has_come_to_hear_is_handed_off_and_ends_on_the_acknowledgement_only() {
    let mut rig = called();
    let delivery = unheard(&mut rig);
    rig.pass(AFTER - 1);
    assert_eq!(rig.hand_offs, []);
    rig.pass(1);
    let [hand_off] = &rig.hand_offs[..] else { panic!("{:?}", rig.hand_offs) };
    assert_eq!((hand_off.delivery, hand_off.text.es.as_deref()), (delivery, Some("Pagado 7.")));
    assert_eq!(hand_off.operations[0].result, Some(json!({ "id": 7 })));
    assert_eq!(rig.delivery(delivery), DeliveryState::Claimed);
    answer(&mut rig, delivery, HandOffOutcome::Acknowledged);
    assert_eq!(rig.delivery(delivery), DeliveryState::HandedOff);
    assert_eq!(rig.store.batches.values().next().unwrap().state, BatchState::Closed);
    assert_eq!((rig.store.claims.len(), rig.count(&LedgerMeasure::HandedOff)), (0, 1));
    rig.up(LATER_CALL, "ana");
    assert_eq!(rig.told(LATER_CALL, delivery), Vec::<&str>::new());
}

#[test]
fn nothing_is_spoken_while_a_hand_off_is_under_way() {
    let mut rig = called();
    let delivery = unheard(&mut rig);
    rig.pass(AFTER);
    rig.up(LATER_CALL, "ana");
    assert_eq!(rig.told(LATER_CALL, delivery), Vec::<&str>::new());
    rig.claim(LATER_CALL, delivery);
    assert_eq!(rig.told(LATER_CALL, delivery), ["refused"]);
    for input in [
        Input::Release { session: CALL, delivery },
        Input::FirstFrame { session: CALL, delivery },
        Input::Settled { session: CALL, delivery, clauses: Vec::new() },
    ] {
        rig.give(input);
    }
    assert_eq!(rig.delivery(delivery), DeliveryState::Claimed, "a conversation has no say in it");
    answer(&mut rig, delivery, failed(Executed::No));
    assert_eq!((rig.delivery(delivery), rig.told(LATER_CALL, delivery).last()), (DeliveryState::Ready, Some(&"offered")));
    assert_eq!(texts(&rig.tell(LATER_CALL, delivery)), ["Pagado 7."], "nobody has it: no hedge");
}

#[test]
fn a_hand_off_that_may_have_been_received_leaves_doubt_and_is_tried_again_with_back_off() {
    let mut rig = called();
    let delivery = unheard(&mut rig);
    rig.pass(AFTER);
    answer(&mut rig, delivery, failed(Executed::Maybe));
    assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Uncertain, 0));
    assert_eq!(rig.count(&LedgerMeasure::Uncertain), 1);
    rig.pass(29_999);
    assert_eq!(rig.hand_offs.len(), 1);
    rig.pass(1);
    answer(&mut rig, delivery, failed(Executed::No));
    assert_eq!(rig.delivery(delivery), DeliveryState::Uncertain, "the first may have arrived");
    rig.pass(59_999);
    assert_eq!(rig.hand_offs.len(), 2);
    rig.pass(1);
    assert_eq!(rig.hand_offs.len(), 3);
    answer(&mut rig, delivery, HandOffOutcome::Acknowledged);
    assert_eq!(rig.delivery(delivery), DeliveryState::HandedOff);
    assert!(rig.hand_offs.iter().all(|hand_off| hand_off.delivery == delivery), "the same one each time");
}

#[test]
fn after_doubt_a_caller_hears_a_hedge_or_under_suppress_nothing() {
    for (policy, expected) in [(UncertainPolicy::Check, 1), (UncertainPolicy::Suppress, 0)] {
        let mut policies = policies();
        let pay = policies.get_mut("pay").unwrap();
        (pay.when_unheard, pay.hand_off_after_ms, pay.uncertain) = (WhenUnheard::Webhook, AFTER, policy);
        let mut rig = Rig::with(policies);
        rig.up(CALL, "ana");
        let delivery = unheard(&mut rig);
        rig.pass(AFTER);
        answer(&mut rig, delivery, failed(Executed::Maybe));
        rig.up(LATER_CALL, "ana");
        assert_eq!(rig.told(LATER_CALL, delivery).len(), expected);
        if expected == 1 {
            assert_eq!(texts(&rig.tell(LATER_CALL, delivery)), ["Puede que ya te lo haya dicho:", "Pagado 7."]);
        } else {
            rig.over(LATER_CALL);
            rig.pass(AFTER);
            assert_eq!(rig.hand_offs.len(), 2, "the receiver takes it once: handing it off again repeats nothing");
        }
    }
}

#[test]
fn a_restart_sends_an_unacknowledged_hand_off_again_under_the_same_delivery() {
    let mut rig = called();
    let delivery = unheard(&mut rig);
    rig.pass(AFTER);
    rig.crash(0);
    assert_eq!(rig.hand_offs.iter().map(|hand_off| hand_off.delivery).collect::<Vec<_>>(), [delivery, delivery]);
    assert_eq!(rig.delivery(delivery), DeliveryState::Claimed);
    answer(&mut rig, delivery, failed(Executed::No));
    assert_eq!(rig.delivery(delivery), DeliveryState::Uncertain, "the one before the restart may have arrived");
    rig.pass(30_000);
    answer(&mut rig, delivery, HandOffOutcome::Acknowledged);
    assert_eq!(rig.delivery(delivery), DeliveryState::HandedOff);
}

#[test]
fn the_time_without_anybody_counts_from_when_the_caller_left_and_over_restarts_by_the_clock() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    rig.pass(10 * AFTER);
    assert_eq!(rig.hand_offs, [], "somebody is there");
    rig.over(CALL);
    rig.pass(AFTER - 1);
    assert_eq!(rig.hand_offs, []);
    rig.pass(1);
    assert_eq!(rig.hand_offs.len(), 1);
    let mut rig = called();
    unheard(&mut rig);
    rig.pass(AFTER - 10);
    rig.crash(0);
    rig.pass(10);
    assert_eq!(rig.hand_offs.len(), 1, "a synchronised clock knows how long it has waited");
    let mut rig = called();
    unheard(&mut rig);
    rig.pass(AFTER - 10);
    rig.wall.synchronised = false;
    rig.crash(0);
    rig.pass(AFTER - 1);
    assert_eq!(rig.hand_offs, [], "another does not: the time begins anew");
    rig.pass(1);
    assert_eq!(rig.hand_offs.len(), 1);
}

#[test]
fn what_belongs_to_nobody_who_could_call_again_is_handed_off_too() {
    let mut rig = called();
    rig.up(OTHERS_CALL, "");
    rig.ask(OTHERS_CALL, 1, 1, "pay", json!({}));
    let operation = rig.accepted().operation;
    rig.over(OTHERS_CALL);
    rig.done(operation);
    rig.pass(AFTER);
    assert_eq!((rig.hand_offs.len(), rig.hand_offs[0].party.clone()), (1, None));
}

#[test]
fn a_hand_off_whose_claim_is_not_durable_is_not_sent_and_is_tried_again() {
    let mut rig = called();
    let delivery = unheard(&mut rig);
    rig.prompt = false;
    rig.pass(AFTER);
    assert_eq!(rig.hand_offs, []);
    rig.fail();
    assert_eq!(rig.delivery(delivery), DeliveryState::Ready);
    rig.prompt = true;
    rig.pass(60_000);
    assert_eq!(rig.hand_offs.len(), 1);
}

#[test]
fn without_the_policy_a_closing_waits_for_its_party() {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    let delivery = unheard(&mut rig);
    rig.pass(30 * 86_400_000);
    assert_eq!((rig.hand_offs.len(), rig.delivery(delivery)), (0, DeliveryState::Ready));
}

#[test]
fn a_hand_off_that_had_to_wait_for_the_store_is_not_sent_where_somebody_has_come_meanwhile_or_it_has_become_stale() {
    let waiting = |then: fn(&mut Rig)| {
        let mut policies = policies();
        let pay = policies.get_mut("pay").unwrap();
        (pay.when_unheard, pay.hand_off_after_ms, pay.stale_after_ms) = (WhenUnheard::Webhook, AFTER, Some(AFTER + 1_000));
        let mut rig = Rig::with(policies);
        rig.up(CALL, "ana");
        let operation = rig.order("pay", 1);
        rig.over(CALL);
        rig.callback(operation, OperationResult::Failed("no money".into()));
        let delivery = rig.waiting().id;
        rig.prompt = false;
        rig.callback(operation, OperationResult::Failed("no such account".into()));
        assert_eq!(rig.in_flight.len(), 1, "that it says something else goes on record");
        rig.pass(AFTER);
        then(&mut rig);
        rig.prompt = true;
        rig.durable();
        (rig.hand_offs.len(), rig.delivery(delivery))
    };
    assert_eq!(waiting(|_| {}), (1, DeliveryState::Claimed));
    assert_eq!(waiting(|rig| rig.up(LATER_CALL, "ana")), (0, DeliveryState::Ready));
    assert_eq!(waiting(|rig| rig.pass(1_001)), (0, DeliveryState::Suppressed));
}

#[test]
fn what_is_taken_back_in_the_transaction_of_its_hand_off_is_not_sent() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.over(CALL);
    rig.done(operation);
    let delivery = rig.waiting().id;
    rig.up(LATER_CALL, "ana");
    rig.prompt = false;
    rig.claim(LATER_CALL, delivery);
    rig.over(LATER_CALL);
    rig.pass(AFTER);
    let taken_back = rig.retract(operation);
    rig.prompt = true;
    rig.all_durable();
    assert_eq!(rig.answer(taken_back), Some(CallbackAnswer::Recorded));
    assert_eq!((rig.delivery(delivery), rig.hand_offs.len()), (DeliveryState::Withdrawn, 0));
}

#[test]
fn what_ends_while_the_claim_of_its_hand_off_is_being_committed_is_not_sent() {
    let mut rig = called();
    let delivery = unheard(&mut rig);
    rig.prompt = false;
    rig.pass(AFTER);
    rig.give(Input::Suppress { delivery });
    rig.prompt = true;
    rig.all_durable();
    assert_eq!((rig.delivery(delivery), rig.hand_offs.len()), (DeliveryState::Suppressed, 0));
}
