//! What takes the place of a delivery: it tells no more than may still be told (I10), with the doubt of what it replaces, and counts
//! only what was said.

mod ledger_rig;

use ledger_rig::*;
use recado_core::OperationId;
use recado_core::ledger::*;
use recado_core::policy::UncertainPolicy;
use serde_json::json;

const HEDGE: &str = "Puede que ya te lo haya dicho:";
const HEDGED: &str = "Puede que ya te lo haya dicho: Incidencia 7 abierta.";

fn called() -> Rig {
    called_with(|_| {})
}

fn called_with(change: fn(&mut recado_core::policy::ToolPolicy)) -> Rig {
    let mut policies = policies();
    policies.values_mut().for_each(change);
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig
}

/// A payment and a ticket of one response.
fn pair(rig: &mut Rig) -> (OperationId, OperationId) {
    rig.ask(CALL, 1, 1, "pay", json!({}));
    let pay = rig.accepted().operation;
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    let ticket = rig.accepted().operation;
    rig.seal(CALL, 1);
    (pay, ticket)
}

fn done(rig: &mut Rig, operation: OperationId, id: u32) {
    rig.callback(operation, OperationResult::Succeeded(json!({ "id": id })));
}

#[test]
fn a_short_form_that_would_be_cut_is_not_used_and_every_clause_is_told_instead() {
    let texts_of = ["a", "b", "c", "d", "e"].map(|to| format!("{to} {}", "palabra ".repeat(22).trim()));
    let mut policies = policies();
    policies.get_mut("pay").unwrap().say.failed.es = Some("No: {{ error }}.".into());
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    let operations = texts_of.each_ref().map(|text| {
        rig.ask(CALL, 1, 1, "pay", json!({ "to": text }));
        rig.accepted().operation
    });
    rig.seal(CALL, 1);
    for (operation, text) in operations.iter().zip(&texts_of) {
        rig.callback(*operation, OperationResult::Failed(text.clone()));
    }
    let delivery = rig.begins(CALL);
    let unheard: Vec<_> = (0..5).map(|clause| (clause, UNHEARD)).collect();
    rig.settled(CALL, delivery, &unheard);
    let again = rig.tell(CALL, delivery);
    assert_eq!(again.iter().map(|spoken| spoken.clause).collect::<Vec<_>>(), (0..5).map(Some).collect::<Vec<_>>());
    assert!(texts_of.iter().zip(&again).all(|(text, spoken)| spoken.text.contains(text)), "{again:?}");
}

#[test]
fn what_was_taken_back_is_not_told_by_the_result_that_comes_afterwards() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    rig.retract(operation);
    done(&mut rig, operation, 8);
    let delivery = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, delivery)), ["Pagado 8."], "I10");
    // The same where the rest of its batch went on in another delivery.
    let mut rig = called();
    let (pay, ticket) = pair(&mut rig);
    rig.done(pay);
    rig.done(ticket);
    rig.retract(pay);
    done(&mut rig, pay, 8);
    let all: Vec<String> = rig.ledger.pending().iter().flat_map(|row| row.clauses.clone()).filter_map(|clause| clause.text.es).collect();
    assert_eq!(all.iter().filter(|text| text.contains('7')).collect::<Vec<_>>(), ["Incidencia 7 abierta."], "{all:?}");
    assert!(all.contains(&"Pagado 8.".to_owned()), "{all:?}");
}

#[test]
fn what_became_stale_is_not_told_by_the_result_that_comes_afterwards() {
    let mut rig = called_with(|policy| policy.stale_after_ms = Some(60_000));
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let closing = rig.waiting().id;
    rig.pass(61_000);
    assert_eq!(rig.delivery(closing), DeliveryState::Suppressed);
    done(&mut rig, operation, 8);
    let delivery = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, delivery)), ["Pagado 8."], "I10");
}

#[test]
fn what_was_heard_of_a_closing_that_was_replaced_since_is_corrected_and_not_told_again() {
    let mut rig = called();
    let (pay, ticket) = pair(&mut rig);
    rig.done(pay);
    rig.done(ticket);
    let closing = rig.begins(CALL);
    rig.settled(CALL, closing, &[(0, HEARD), (1, UNHEARD)]);
    rig.retract(ticket);
    done(&mut rig, pay, 8);
    let delivery = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, delivery)), ["Una corrección: Pagado 8."]);
}

#[test]
fn doubt_goes_over_to_what_takes_the_place_of_a_doubtful_closing() {
    let mut rig = called();
    let (pay, ticket) = pair(&mut rig);
    rig.done(pay);
    rig.done(ticket);
    let closing = rig.begins(CALL);
    rig.settled(CALL, closing, &[(0, UNCERTAIN), (1, UNCERTAIN)]);
    done(&mut rig, pay, 8);
    let merged = rig.waiting();
    assert_eq!(rig.delivery(closing), DeliveryState::Superseded);
    assert_eq!(texts(&rig.tell(CALL, merged.id)), ["Una corrección: Pagado 8.", HEDGED]);
}

#[test]
fn a_correction_that_took_doubt_over_and_is_in_doubt_itself_is_hedged_once() {
    let mut rig = called();
    let (pay, ticket) = pair(&mut rig);
    rig.done(pay);
    rig.done(ticket);
    let closing = rig.begins(CALL);
    rig.settled(CALL, closing, &[(0, HEARD), (1, UNCERTAIN)]);
    done(&mut rig, pay, 8);
    let merged = rig.begins(CALL);
    rig.settled(CALL, merged, &[(0, UNCERTAIN), (1, UNCERTAIN)]);
    assert_eq!(texts(&rig.tell(CALL, merged)), [HEDGE, "Una corrección: Pagado 8.", "Incidencia 7 abierta."]);
}

#[test]
fn what_is_left_of_a_closing_that_was_under_way_when_it_was_taken_back_is_in_doubt() {
    for (policy, left) in [
        (UncertainPolicy::Check, vec![HEDGED]),
        (UncertainPolicy::Repeat, vec!["Incidencia 7 abierta."]),
        (UncertainPolicy::Suppress, vec![HEDGED]),
    ] {
        let mut policies = policies();
        policies.values_mut().for_each(|tool| tool.uncertain = policy);
        let mut rig = Rig::with(policies);
        rig.up(CALL, "ana");
        let (pay, ticket) = pair(&mut rig);
        rig.done(pay);
        rig.done(ticket);
        let closing = rig.begins(CALL);
        rig.retract(pay);
        assert_eq!(rig.delivery(closing), DeliveryState::Superseded);
        let rest = rig.waiting().id;
        assert_eq!(texts(&rig.tell(CALL, rest)), left, "{policy:?}");
    }
}

#[test]
fn a_clause_that_was_cut_takes_nothing_from_the_doubt_about_another() {
    let mut rig = called();
    let (pay, ticket) = pair(&mut rig);
    rig.done(pay);
    rig.done(ticket);
    let closing = rig.begins(CALL);
    rig.settled(CALL, closing, &[(0, UNCERTAIN), (1, UNHEARD)]);
    assert_eq!(rig.delivery(closing), DeliveryState::Uncertain);
    assert_eq!(texts(&rig.tell(CALL, closing)), [HEDGE, "Pagado 7.", "Incidencia 7 abierta."]);
}

#[test]
fn a_sealed_batch_that_the_store_has_a_closing_of_drains_with_that_one() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let closing = rig.waiting();
    let mut store = rig.store.clone();
    store.batches.get_mut(&closing.batch).unwrap().state = BatchState::Sealed;
    rig.store = store;
    rig.crash(0);
    assert_eq!(rig.store.batches[&closing.batch].state, BatchState::Drained);
    rig.up(LATER_CALL, "ana");
    rig.tell(LATER_CALL, closing.id);
    assert_eq!((rig.store.batches[&closing.batch].state, rig.store.deliveries.len()), (BatchState::Closed, 1));
}
