//! What a delivery says, and what becomes of one whose telling went wrong.

mod ledger_rig;

use ledger_rig::*;
use recado_core::ledger::*;
use recado_core::policy::{Localised, Sayings, ToolPolicy, WhenUnheard};
use recado_core::{BatchId, BootId, DeliveryId, OperationId, ResponseId, SessionId, Step, Time};
use serde_json::json;

const SHORT: &str = "Listo.";

/// A call with a tool that has words of its own only for the short form.
fn called() -> Rig {
    let say = Sayings { short: Localised { es: Some(SHORT.into()), en: None }, ..Sayings::default() };
    let mut policies = policies();
    policies.insert("brief".to_owned(), ToolPolicy { say, ..ToolPolicy::default() });
    policies.values_mut().for_each(|policy| (policy.when_unheard, policy.hand_off_after_ms) = (WhenUnheard::Webhook, AFTER));
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig
}

const AFTER: u64 = 600_000;

fn batch(rig: &mut Rig, tools: &[&str]) -> Vec<OperationId> {
    let operations = tools
        .iter()
        .zip(0_u32..)
        .map(|(tool, number)| {
            rig.ask(CALL, 1, 1, tool, json!({ "number": number }));
            rig.accepted().operation
        })
        .collect();
    rig.seal(CALL, 1);
    operations
}

/// It is told, and cut before any of it was heard.
fn cut(rig: &mut Rig, delivery: DeliveryId) {
    rig.claim(CALL, delivery);
    rig.give(Input::FirstFrame { session: CALL, delivery });
    rig.settled(CALL, delivery, &[(0, UNHEARD)]);
}

#[test]
fn the_short_form_is_the_tools_own_whether_it_closes_alone_or_with_others() {
    for (tools, short) in [(&["brief"][..], "Listo."), (&["brief", "pay"][..], "Listo. Pagado.")] {
        let mut rig = called();
        for operation in batch(&mut rig, tools) {
            rig.done(operation);
        }
        let delivery = rig.waiting().id;
        cut(&mut rig, delivery);
        assert_eq!(texts(&rig.tell(CALL, delivery)), [short]);
    }
}

#[test]
fn the_short_form_of_a_correction_still_says_that_it_is_one() {
    let mut rig = called();
    let operation = batch(&mut rig, &["pay"])[0];
    rig.attempt_failed(operation, 1, Executed::Maybe);
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    rig.done(operation);
    let correction = rig.waiting().id;
    cut(&mut rig, correction);
    assert_eq!(texts(&rig.tell(CALL, correction)), ["Una corrección: Pagado 7."]);
}

#[test]
fn a_correction_says_which_operation_it_is_about_where_several_closed_together() {
    for (tools, text) in [
        (&["brief"][..], "Una corrección: Lo que pediste está hecho."),
        (&["brief", "pay"][..], "Una corrección: brief: lo que pediste está hecho."),
    ] {
        let mut rig = called();
        let operations = batch(&mut rig, tools);
        rig.attempt_failed(operations[0], 1, Executed::Maybe);
        operations[1..].iter().for_each(|operation| {
            rig.done(*operation);
        });
        let closing = rig.waiting().id;
        rig.tell(CALL, closing);
        rig.done(operations[0]);
        let correction = rig.waiting().id;
        assert_eq!(texts(&rig.tell(CALL, correction)), [text]);
    }
}

#[test]
fn a_telling_that_ends_without_any_evidence_spends_an_attempt_only_where_a_frame_was_released() {
    let mut rig = called();
    let operation = batch(&mut rig, &["pay"])[0];
    rig.done(operation);
    let delivery = rig.waiting().id;
    rig.claim(CALL, delivery);
    rig.settled(CALL, delivery, &[]);
    assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Ready, 0));
    rig.claim(CALL, delivery);
    rig.give(Input::FirstFrame { session: CALL, delivery });
    rig.settled(CALL, delivery, &[]);
    assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Ready, 1));
}

#[test]
fn what_takes_the_place_of_a_closing_under_way_is_hedged_where_something_of_that_may_have_arrived() {
    let retracted = |begin: fn(&mut Rig, DeliveryId)| {
        let mut rig = called();
        let operations = batch(&mut rig, &["pay", "ticket"]);
        operations.iter().for_each(|operation| {
            rig.done(*operation);
        });
        let delivery = rig.waiting().id;
        begin(&mut rig, delivery);
        rig.retract(operations[1]);
        assert_eq!(rig.delivery(delivery), DeliveryState::Superseded);
        rig.waiting().clauses[0].text.es.clone().expect("in Spanish")
    };
    let hedged = "Puede que ya te lo haya dicho: Pagado 7.";
    assert_eq!(retracted(|_, _| {}), "Pagado 7.");
    assert_eq!(retracted(|rig, delivery| rig.claim(CALL, delivery)), "Pagado 7.", "no frame of it was released");
    let spoken = retracted(|rig, delivery| {
        rig.claim(CALL, delivery);
        rig.give(Input::FirstFrame { session: CALL, delivery });
    });
    assert_eq!(spoken, hedged);
    let handed_off = retracted(|rig, _| {
        rig.over(CALL);
        rig.pass(AFTER);
        assert_eq!(rig.hand_offs.len(), 1);
    });
    assert_eq!(handed_off, hedged, "the other way may have it");
}

#[test]
fn the_time_to_a_hand_off_begins_when_the_last_who_may_hear_it_has_left() {
    let mut rig = called();
    let operation = batch(&mut rig, &["pay"])[0];
    rig.done(operation);
    rig.pass(AFTER / 2);
    rig.over(CALL);
    rig.pass(AFTER - 1);
    assert_eq!(rig.hand_offs.len(), 0);
    rig.up(LATER_CALL, "ana");
    rig.pass(AFTER / 2);
    rig.over(LATER_CALL);
    rig.pass(AFTER - 1);
    assert_eq!(rig.hand_offs.len(), 0);
    rig.pass(1);
    assert_eq!(rig.hand_offs.len(), 1);
}

#[test]
fn a_hand_off_that_waits_behind_a_claim_or_an_end_is_none() {
    let closing = || {
        let mut rig = called();
        let operation = batch(&mut rig, &["pay"])[0];
        rig.over(CALL);
        rig.done(operation);
        let delivery = rig.waiting().id;
        rig.pass(AFTER - 1);
        (rig, operation, delivery)
    };
    let (mut rig, operation, delivery) = closing();
    rig.prompt = false;
    rig.retract(operation);
    rig.pass(1);
    rig.all_durable();
    assert_eq!((rig.delivery(delivery), rig.hand_offs.len()), (DeliveryState::Withdrawn, 0));
    let (mut rig, _, delivery) = closing();
    rig.prompt = false;
    rig.up(LATER_CALL, "ana");
    rig.claim(LATER_CALL, delivery);
    rig.over(LATER_CALL);
    rig.pass(1);
    rig.all_durable();
    assert_eq!((rig.delivery(delivery), rig.hand_offs.len()), (DeliveryState::Ready, 0), "the time begins anew");
}

#[test]
fn what_was_being_told_is_in_doubt_after_a_restart_also_where_its_claim_is_missing() {
    let mut rig = called();
    let operation = batch(&mut rig, &["pay"])[0];
    rig.done(operation);
    let delivery = rig.waiting().id;
    rig.claim(CALL, delivery);
    rig.store.claims.clear();
    rig.crash(0);
    assert_eq!(rig.delivery(delivery), DeliveryState::Uncertain);
}

#[test]
fn a_batch_that_the_store_has_without_its_operations_holds_nothing_up_at_a_restart() {
    let batch = |number, state| BatchRecord {
        id: BatchId(number),
        session: SessionId(1),
        response: ResponseId(number),
        party: None,
        language: recado_core::policy::Language::Es,
        state,
    };
    let batches = vec![batch(1, BatchState::Sealed), batch(2, BatchState::Closed)];
    let snapshot = Snapshot { batches, ..Snapshot::default() };
    let mut step = Step::new(Time(0), wall(0), 1);
    let (ledger, effects) = Ledger::recover(&mut step, BootId(2), policies(), snapshot);
    assert_eq!((effects, ledger.deadline()), (vec![], None));
    assert!(ledger.batch(BatchId(1)).is_none(), "there is nothing to close");
}
