//! Records to put into a store, small and distinct by number.

use std::path::{Path, PathBuf};

use recado::coordination::{CommitError, Options, Recovered, Store};
use recado_core::conversation::input::Evidence;
use recado_core::ids::{BatchId, BootId, DeliveryId, IntentKey, OperationId, PartyId, ResponseId, SessionId, TurnId};
use recado_core::ledger::{
    BatchRecord, BatchState, ClaimRecord, ClauseRecord, CommitId, DeliveryKind, DeliveryRecord, DeliveryState, OperationRecord,
    OperationState, Route, Snapshot, Write,
};
use recado_core::policy::{Audience, CanInterrupt, Language, Localised, Priority, RidePosition, UncertainPolicy};
use recado_core::time::Wall;
use serde_json::json;

pub fn path_in(directory: &Path) -> PathBuf {
    directory.join("state.db")
}

/// Opens the store as boot `boot`.
pub fn open(path: &Path, boot: u128) -> (Store, Recovered) {
    match Store::open(path, &Options::new(BootId(boot), wall(1))) {
        Ok(opened) => opened,
        Err(error) => panic!("{error}"),
    }
}

/// What was read back, as the ledger takes it.
pub fn snapshot(recovered: Recovered) -> Snapshot {
    let claims = recovered.claims.into_iter();
    Snapshot {
        operations: recovered.operations,
        batches: recovered.batches,
        deliveries: recovered.deliveries,
        claims: claims.map(|(delivery, session, boot, route)| ClaimRecord { delivery, session, boot, route }).collect(),
        next_sequence: recovered.next_sequence,
        occurrence_floor: recovered.occurrence_floor,
    }
}

/// One commit by itself.
pub fn commit(store: &mut Store, writes: Vec<Write>) -> Result<(), CommitError> {
    store.commit(&[(CommitId(0), writes)]).remove(0)
}

/// A batch with one operation, as one response leaves it behind.
pub fn accepted(number: u128) -> Vec<Write> {
    vec![Write::CreateBatch(batch(number)), Write::CreateOperation(operation(number, number))]
}

/// Its end: the operation succeeded, the batch is drained and its closing is ready.
pub fn succeeded(number: u128) -> Vec<Write> {
    let done = OperationRecord { state: OperationState::Succeeded, result: Some(json!({"n": 1})), attempt: 1, ..operation(number, number) };
    let drained = BatchRecord { state: BatchState::Drained, ..batch(number) };
    vec![Write::UpdateOperation(done), Write::UpdateBatch(drained), Write::CreateDelivery(delivery(number, number))]
}

pub fn claim(number: u128, boot: u128) -> Write {
    Write::Claim { delivery: DeliveryId(number), session: SessionId(1), boot: BootId(boot), route: Route::Announce }
}

pub fn wall(unix_ms: i64) -> Wall {
    Wall { unix_ms, synchronised: true }
}

pub fn batch(number: u128) -> BatchRecord {
    BatchRecord {
        id: BatchId(number),
        session: SessionId(1),
        response: ResponseId(number),
        party: Some(PartyId("tel:+34600000001".to_owned())),
        language: Language::En,
        state: BatchState::Open,
    }
}

pub fn operation(number: u128, batch: u128) -> OperationRecord {
    OperationRecord {
        id: OperationId(number),
        intent_key: IntentKey(format!("tel:+34600000001|book|{number:016x}d|{number}")),
        batch: BatchId(batch),
        ordinal: u32::try_from(number % 1_000_000).unwrap_or_default(),
        party: Some(PartyId("tel:+34600000001".to_owned())),
        session: SessionId(1),
        turn: TurnId(1),
        tool: "book".to_owned(),
        arguments: json!({"day": "lunes", "people": 4, "at": 20.5}),
        state: OperationState::Accepted,
        attempt: 0,
        unreached: 0,
        handle: None,
        maybe_executed: false,
        result: None,
        error: None,
        contradiction: None,
        accepted: wall(1_000),
    }
}

pub fn delivery(number: u128, batch: u128) -> DeliveryRecord {
    DeliveryRecord {
        id: DeliveryId(number),
        sequence: u64::try_from(number).unwrap_or_default(),
        batch: BatchId(batch),
        kind: DeliveryKind::Final,
        party: Some(PartyId("tel:+34600000001".to_owned())),
        session: SessionId(1),
        state: DeliveryState::Ready,
        attempt: 0,
        clauses: vec![clause(number, None)],
        short: Localised { es: Some("Hecho.".to_owned()), en: Some("Done.".to_owned()) },
        priority: Priority::Normal,
        can_interrupt: CanInterrupt::Agent,
        ride: RidePosition::First,
        strict: false,
        uncertain: UncertainPolicy::Check,
        audience: Audience::SameParty,
        max_wait_ms: 10_000,
        min_quiet_ms: None,
        hand_off_after_ms: None,
        stale_after_ms: Some(60_000),
        ready: wall(2_000),
        superseded_by: None,
    }
}

pub fn clause(operation: u128, heard: Option<Evidence>) -> ClauseRecord {
    let text = Localised { es: Some("Su mesa está reservada.".to_owned()), en: Some("Your table is booked.".to_owned()) };
    ClauseRecord { operation: OperationId(operation), text, heard }
}
