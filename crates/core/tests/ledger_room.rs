//! Much is held: what goes from memory, and what stays.

mod ledger_rig;

use ledger_rig::*;
use recado_core::SessionId;
use recado_core::ledger::*;
use recado_core::policy::WhenUnheard;
use serde_json::json;

/// From so many operations on room is made.
const HIGH: u128 = 9_000;

/// Operations that run, until room has to be made for the next one.
fn fill(rig: &mut Rig, held: u128) {
    for number in held..HIGH {
        rig.ask(CALL, number + 10, number / 16 + 10, "ticket", json!({ "number": number.to_string() }));
        rig.dispatched.clear();
    }
    assert_eq!(rig.refusals(), 0);
}

#[test]
fn of_a_conversation_that_is_over_it_is_not_remembered_what_was_asked_for_in_its_turns() {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    rig.prompt = false;
    let ask = |rig: &mut Rig, turn| rig.ask(CALL, turn, turn, "pay", json!({}));
    ask(&mut rig, 1);
    rig.durable();
    let operation = rig.accepted().operation;
    rig.seal(CALL, 1);
    rig.done(operation);
    ask(&mut rig, 2);
    rig.durable();
    // The result and what repeats it are on their way to the store as the caller hangs up; it refuses them.
    rig.over(CALL);
    rig.fail();
    rig.prompt = true;
    rig.all_durable();
    assert!(!format!("{:?}", rig.ledger).contains("Turns {"), "for ever");
}

#[test]
fn a_batch_with_a_correction_that_waits_does_not_go_to_make_room() {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    rig.callback(operation, OperationResult::Succeeded(json!({ "id": 8 })));
    let correction = rig.waiting().id;
    fill(&mut rig, 1);
    rig.order("ticket", 1_000_000);
    assert!(rig.ledger.operation(operation).is_some());
    assert_eq!(texts(&rig.tell(CALL, correction)), ["Una corrección: Pagado 8."]);
    rig.order("ticket", 1_000_001);
    assert!(rig.ledger.operation(operation).is_none(), "now it is over, and goes");
}

#[test]
fn what_is_known_of_a_topic_goes_with_the_last_batch_of_its_caller() {
    let mut policies = policies();
    policies.get_mut("pay").unwrap().topic = Some("money".into());
    let mut rig = Rig::with(policies);
    // One whose closing nobody ever comes to hear: it stays.
    rig.up(CALL, "ana");
    let unheard = rig.order("pay", 1);
    rig.over(CALL);
    rig.done(unheard);
    let closing = rig.waiting().id;
    // As the ledger prints itself: what it remembers can't be seen otherwise.
    let remembered = |rig: &Rig| format!("{:?}", rig.ledger).matches("Newest {").count();
    let mut most = 0;
    for number in 2..1_300 {
        let session = SessionId(number + 1_000);
        rig.up(session, &format!("caller {number}"));
        rig.ask(session, number, number, "pay", json!({}));
        let operation = rig.accepted().operation;
        rig.seal(session, number);
        rig.done(operation);
        let theirs = rig.ledger.pending().iter().find(|row| row.id != closing).map(|row| row.id).expect("it waits");
        rig.tell(session, theirs);
        rig.over(session);
        if number == 1_150 {
            most = remembered(&rig);
        }
        rig.news.clear();
        rig.measures.clear();
    }
    assert!(most > 1_000, "callers whose batches are held: {most}");
    assert_eq!(remembered(&rig), most, "and no others");
    rig.up(CALL, "ana");
    rig.ask(CALL, 5_000, 5_000, "pay", json!({ "more": true }));
    assert_eq!(rig.delivery(closing), DeliveryState::Superseded, "theirs is still judged");
}

#[test]
fn a_closing_that_goes_another_way_goes_it_at_once_and_is_not_given_up() {
    let mut policies = policies();
    let pay = policies.get_mut("pay").unwrap();
    (pay.when_unheard, pay.hand_off_after_ms) = (WhenUnheard::Webhook, 600_000);
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig.up(LATER_CALL, "bea");
    rig.ask(LATER_CALL, 1, 1, "pay", json!({}));
    let handed_off = rig.accepted().operation;
    rig.seal(LATER_CALL, 1);
    rig.ask(LATER_CALL, 2, 2, "ticket", json!({}));
    let given_up = rig.accepted().operation;
    rig.seal(LATER_CALL, 2);
    rig.over(LATER_CALL);
    rig.done(handed_off);
    rig.done(given_up);
    let of = |rig: &Rig, operation| {
        rig.ledger.pending().iter().find(|row| row.clauses[0].operation == operation).map(|row| row.id).expect("it waits")
    };
    let (closing, other) = (of(&rig, handed_off), of(&rig, given_up));
    fill(&mut rig, 2);
    assert_eq!(rig.hand_offs.len(), 0);
    rig.order("ticket", 1_000_000);
    assert_eq!(rig.hand_offs.iter().map(|hand_off| hand_off.delivery).collect::<Vec<_>>(), [closing], "long before its time");
    let outcome = HandOffOutcome::Failed { error: "down".into(), received: Executed::No, retry_after_ms: None };
    rig.give(Input::HandOffAttempted { delivery: closing, outcome });
    rig.order("ticket", 1_000_001);
    assert_eq!((rig.delivery(closing), rig.delivery(other)), (DeliveryState::Ready, DeliveryState::Suppressed));
}
