//! What the contract rules out, the store refuses: each rule is broken on purpose.

use std::sync::atomic::{AtomicU64, Ordering};

use recado::coordination::{CommitError, Store};
use recado_core::conversation::input::Evidence;
use recado_core::ids::{BootId, DeliveryId, IntentKey, OperationId, PartyId, SessionId};
use recado_core::ledger::{
    BatchRecord, BatchState, CommitId, Contradiction, DeliveryKind, DeliveryRecord, DeliveryState, OperationRecord, OperationState, Route,
    Write,
};
use serde_json::json;
use tempfile::TempDir;

use crate::fixtures::{accepted, batch, claim, clause, commit, delivery, open, operation, path_in, succeeded};

/// A store in which operation 1 runs in batch 1, and batch 2 is drained with its delivery 2 ready.
fn scene() -> (TempDir, Store) {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut store, _) = open(&path_in(directory.path()), 1);
    assert_eq!(commit(&mut store, accepted(1)), Ok(()));
    let running = OperationRecord { state: OperationState::Running, attempt: 2, ..operation(1, 1) };
    assert_eq!(commit(&mut store, vec![Write::UpdateOperation(running)]), Ok(()));
    assert_eq!(commit(&mut store, accepted(2)), Ok(()));
    assert_eq!(commit(&mut store, succeeded(2)), Ok(()));
    (directory, store)
}

/// The write is refused for this reason, and leaves nothing behind.
#[track_caller]
fn refused(store: &mut Store, write: Write, reason: &str) {
    static SENTINEL: AtomicU64 = AtomicU64::new(1_000);
    let number = u128::from(SENTINEL.fetch_add(1, Ordering::Relaxed));
    let sentinel = accepted(number);
    let mut writes = sentinel.clone();
    writes.push(write);
    match commit(store, writes) {
        Err(CommitError::Constraint(text)) => assert!(text.contains(reason), "refused for another reason: {text}"),
        other => panic!("not refused: {other:?}"),
    }
    // Had the refused commit left its first writes, these would be refused now.
    let kept = vec![(CommitId(1), sentinel), (CommitId(2), vec![Write::CreateBatch(batch(number))])];
    let outcomes = store.commit(&kept);
    assert_eq!(outcomes[0], Ok(()));
    assert!(outcomes[1].is_err());
}

fn running() -> OperationRecord {
    OperationRecord { state: OperationState::Running, attempt: 2, ..operation(1, 1) }
}

fn done() -> OperationRecord {
    OperationRecord { state: OperationState::Succeeded, attempt: 1, result: Some(json!({"n": 1})), ..operation(2, 2) }
}

#[test]
fn an_intent_key_is_accepted_once() {
    let (_directory, mut store) = scene();
    let again = OperationRecord { id: OperationId(7), ordinal: 7, ..operation(1, 1) };
    refused(&mut store, Write::CreateOperation(again), "operation.intent_key");
}

#[test]
fn an_operation_exists_once() {
    let (_directory, mut store) = scene();
    let again = OperationRecord { intent_key: IntentKey("other".to_owned()), ordinal: 7, ..operation(1, 1) };
    refused(&mut store, Write::CreateOperation(again), "operation.operation_id");
}

#[test]
fn a_place_in_a_batch_is_taken_once() {
    let (_directory, mut store) = scene();
    let again = OperationRecord { id: OperationId(7), intent_key: IntentKey("other".to_owned()), ..operation(1, 1) };
    refused(&mut store, Write::CreateOperation(again), "operation.batch_id, operation.ordinal");
}

#[test]
fn an_operation_needs_its_batch() {
    let (_directory, mut store) = scene();
    refused(&mut store, Write::CreateOperation(operation(7, 77)), "FOREIGN KEY");
}

#[test]
fn a_batch_that_has_its_closing_takes_no_operation() {
    let (_directory, mut store) = scene();
    refused(&mut store, Write::CreateOperation(operation(7, 2)), "operation_comes_before_the_closing");
    // Also when the batch's own state does not say so yet.
    let done = OperationRecord { state: OperationState::Failed, ..running() };
    assert_eq!(commit(&mut store, vec![Write::UpdateOperation(done), Write::CreateDelivery(delivery(8, 1))]), Ok(()));
    refused(&mut store, Write::CreateOperation(operation(7, 1)), "operation_comes_before_the_closing");
}

#[test]
fn an_attempt_of_an_operation_never_goes_down() {
    let (_directory, mut store) = scene();
    refused(&mut store, Write::UpdateOperation(OperationRecord { attempt: 1, ..running() }), "operation_attempt_never_goes_down");
}

#[test]
fn what_may_have_been_executed_stays_so() {
    let (_directory, mut store) = scene();
    let maybe = OperationRecord { maybe_executed: true, ..running() };
    assert_eq!(commit(&mut store, vec![Write::UpdateOperation(maybe)]), Ok(()));
    refused(&mut store, Write::UpdateOperation(running()), "operation_maybe_executed_is_kept");
}

#[test]
fn an_operation_runs_only_as_an_attempt() {
    let (_directory, mut store) = scene();
    assert_eq!(commit(&mut store, accepted(3)), Ok(()));
    let running = OperationRecord { state: OperationState::Running, ..operation(3, 3) };
    refused(&mut store, Write::UpdateOperation(running), "CHECK");
}

#[test]
fn an_operation_is_not_accepted_again() {
    let (_directory, mut store) = scene();
    let back = OperationRecord { state: OperationState::Accepted, ..running() };
    refused(&mut store, Write::UpdateOperation(back), "operation_is_accepted_once");
}

#[test]
fn success_needs_a_result() {
    let (_directory, mut store) = scene();
    let empty = OperationRecord { state: OperationState::Succeeded, ..running() };
    refused(&mut store, Write::UpdateOperation(empty), "CHECK");
}

#[test]
fn a_terminal_operation_keeps_its_result_and_state() {
    let (_directory, mut store) = scene();
    let other = OperationRecord { result: Some(json!({"n": 2})), ..done() };
    refused(&mut store, Write::UpdateOperation(other), "operation_terminal_is_kept");
    let (_directory, mut store) = scene();
    let failed = OperationRecord { state: OperationState::Failed, ..done() };
    refused(&mut store, Write::UpdateOperation(failed), "operation_terminal_is_kept");
    // The same again is no change.
    assert_eq!(commit(&mut store, vec![Write::UpdateOperation(done())]), Ok(()));
}

#[test]
fn what_contradicts_a_result_is_added_once() {
    let (_directory, mut store) = scene();
    let contradicted = |value| OperationRecord { contradiction: Some(Contradiction::Succeeded(value)), ..done() };
    assert_eq!(commit(&mut store, vec![Write::UpdateOperation(contradicted(json!({"n": 2})))]), Ok(()));
    assert_eq!(commit(&mut store, vec![Write::UpdateOperation(contradicted(json!({"n": 2})))]), Ok(()));
    refused(&mut store, Write::UpdateOperation(contradicted(json!({"n": 3}))), "operation_contradiction_is_kept");
}

#[test]
fn what_an_operation_is_never_changes() {
    let changes: [fn(&mut OperationRecord); 5] = [
        |record| record.intent_key = IntentKey("other".to_owned()),
        |record| record.arguments = json!({}),
        |record| record.tool = "other".to_owned(),
        |record| record.party = Some(PartyId("tel:+34600000002".to_owned())),
        |record| record.batch = batch(2).id,
    ];
    for change in changes {
        let (_directory, mut store) = scene();
        let mut record = running();
        change(&mut record);
        refused(&mut store, Write::UpdateOperation(record), "operation_identity_is_kept");
    }
}

#[test]
fn a_party_may_become_known_but_not_another() {
    let (_directory, mut store) = scene();
    let unknown = BatchRecord { party: None, ..batch(3) };
    assert_eq!(commit(&mut store, vec![Write::CreateBatch(unknown)]), Ok(()));
    assert_eq!(commit(&mut store, vec![Write::UpdateBatch(batch(3))]), Ok(()));
    let other = BatchRecord { party: Some(PartyId("tel:+34600000002".to_owned())), ..batch(3) };
    refused(&mut store, Write::UpdateBatch(other), "batch_identity_is_kept");
}

#[test]
fn a_batch_never_goes_back() {
    let (_directory, mut store) = scene();
    for state in [BatchState::Open, BatchState::Sealed] {
        assert!(commit(&mut store, vec![Write::UpdateBatch(BatchRecord { state, ..batch(2) })]).is_err());
    }
    refused(&mut store, Write::UpdateBatch(BatchRecord { state: BatchState::Sealed, ..batch(2) }), "batch_never_goes_back");
}

#[test]
fn a_batch_has_one_closing() {
    let (_directory, mut store) = scene();
    refused(&mut store, Write::CreateDelivery(delivery(7, 2)), "delivery.batch_id");
    let correction = DeliveryRecord { kind: DeliveryKind::Correction, ..delivery(7, 2) };
    assert_eq!(commit(&mut store, vec![Write::CreateDelivery(correction)]), Ok(()));
}

#[test]
fn a_closing_waits_for_every_operation() {
    let (_directory, mut store) = scene();
    refused(&mut store, Write::CreateDelivery(delivery(7, 1)), "delivery_final_needs_settled_operations");
}

#[test]
fn a_place_among_the_deliveries_is_taken_once() {
    let (_directory, mut store) = scene();
    let again = DeliveryRecord { kind: DeliveryKind::Correction, sequence: 2, ..delivery(7, 2) };
    refused(&mut store, Write::CreateDelivery(again), "delivery.sequence");
}

#[test]
fn an_attempt_of_a_delivery_never_goes_down() {
    let (_directory, mut store) = scene();
    let cut = DeliveryRecord { attempt: 1, ..delivery(2, 2) };
    assert_eq!(commit(&mut store, vec![Write::UpdateDelivery(cut)]), Ok(()));
    refused(&mut store, Write::UpdateDelivery(delivery(2, 2)), "delivery_attempt_never_goes_down");
}

#[test]
fn spoken_needs_evidence_for_each_clause() {
    let (_directory, mut store) = scene();
    let half = vec![clause(2, Some(Evidence::Received)), clause(2, None)];
    for clauses in [half, Vec::new()] {
        let spoken = DeliveryRecord { state: DeliveryState::Spoken, clauses, ..delivery(2, 2) };
        match commit(&mut store, vec![Write::UpdateDelivery(spoken)]) {
            Err(CommitError::Constraint(text)) => assert!(text.contains("delivery_spoken_needs_evidence"), "{text}"),
            other => panic!("not refused: {other:?}"),
        }
    }
    let whole = vec![clause(2, Some(Evidence::Received)), clause(2, Some(Evidence::Sent))];
    let spoken = DeliveryRecord { state: DeliveryState::Spoken, clauses: whole, ..delivery(2, 2) };
    assert_eq!(commit(&mut store, vec![Write::UpdateDelivery(spoken)]), Ok(()));
}

#[test]
fn a_delivery_is_not_born_spoken() {
    let (_directory, mut store) = scene();
    let heard = vec![clause(2, Some(Evidence::Device))];
    let spoken = DeliveryRecord { state: DeliveryState::Spoken, kind: DeliveryKind::Correction, clauses: heard, ..delivery(7, 2) };
    refused(&mut store, Write::CreateDelivery(spoken), "delivery_is_created_waiting");
}

#[test]
fn a_terminal_delivery_never_leaves_its_state_and_takes_no_claim() {
    for state in [DeliveryState::Suppressed, DeliveryState::Withdrawn, DeliveryState::HandedOff] {
        let (_directory, mut store) = scene();
        let over = || Write::UpdateDelivery(DeliveryRecord { state, ..delivery(2, 2) });
        let ended = if state == DeliveryState::HandedOff {
            refused(&mut store, over(), "delivery_handed_off_needs_its_claim");
            let delivery = DeliveryId(2);
            let claim = Write::Claim { delivery, session: SessionId(1), boot: BootId(1), route: Route::HandOff };
            commit(&mut store, vec![claim, over(), Write::Unclaim { delivery }])
        } else {
            commit(&mut store, vec![over()])
        };
        assert_eq!(ended, Ok(()));
        refused(&mut store, Write::UpdateDelivery(delivery(2, 2)), "delivery_terminal_is_kept");
        match commit(&mut store, vec![claim(2, 1)]) {
            Err(CommitError::Constraint(text)) => assert!(text.contains("claim_needs_a_live_delivery"), "{text}"),
            other => panic!("not refused: {other:?}"),
        }
    }
}

#[test]
fn a_superseded_delivery_names_another_that_exists_or_none() {
    let (_directory, mut store) = scene();
    for (by, reason) in [(DeliveryId(2), "CHECK"), (DeliveryId(99), "FOREIGN KEY")] {
        let superseded = DeliveryRecord { state: DeliveryState::Superseded, superseded_by: Some(by), ..delivery(2, 2) };
        match commit(&mut store, vec![Write::UpdateDelivery(superseded)]) {
            Err(CommitError::Constraint(text)) => assert!(text.contains(reason), "{text}"),
            other => panic!("not refused: {other:?}"),
        }
    }
    let correction = DeliveryRecord { kind: DeliveryKind::Correction, ..delivery(7, 2) };
    let superseded = DeliveryRecord { state: DeliveryState::Superseded, superseded_by: Some(DeliveryId(7)), ..delivery(2, 2) };
    assert_eq!(commit(&mut store, vec![Write::CreateDelivery(correction), Write::UpdateDelivery(superseded)]), Ok(()));
}

#[test]
fn a_delivery_has_one_claim_at_a_time() {
    let (_directory, mut store) = scene();
    assert_eq!(commit(&mut store, vec![claim(2, 1)]), Ok(()));
    refused(&mut store, claim(2, 1), "claim.delivery_id");
    let unclaim = Write::Unclaim { delivery: DeliveryId(2) };
    assert_eq!(commit(&mut store, vec![unclaim.clone(), claim(2, 1), unclaim]), Ok(()));
}

#[test]
fn a_claim_belongs_to_a_boot_that_was() {
    let (_directory, mut store) = scene();
    refused(&mut store, claim(2, 99), "FOREIGN KEY");
}

#[test]
fn a_later_state_of_nothing_is_refused() {
    let (_directory, mut store) = scene();
    assert_eq!(commit(&mut store, vec![Write::UpdateOperation(operation(7, 1))]), Err(CommitError::Missing("operation")));
    assert_eq!(commit(&mut store, vec![Write::UpdateBatch(batch(7))]), Err(CommitError::Missing("batch")));
    assert_eq!(commit(&mut store, vec![Write::UpdateDelivery(delivery(7, 1))]), Err(CommitError::Missing("delivery")));
}

#[test]
fn a_number_beyond_63_bits_is_refused() {
    let (_directory, mut store) = scene();
    let beyond = DeliveryRecord { kind: DeliveryKind::Correction, sequence: u64::MAX, ..delivery(7, 2) };
    assert!(matches!(commit(&mut store, vec![Write::CreateDelivery(beyond)]), Err(CommitError::Value(_))));
}

#[test]
fn a_text_too_large_to_keep_is_refused() {
    let (_directory, mut store) = scene();
    let large = OperationRecord { arguments: json!("x".repeat(1 << 20)), ..operation(7, 1) };
    refused(&mut store, Write::CreateOperation(large), "CHECK");
}
