//! Random writes against a model in memory: the same are refused, and after a restart the same is there.

use std::collections::BTreeMap;

use proptest::prelude::*;
use recado::coordination::Recovered;
use recado_core::conversation::input::Evidence;
use recado_core::ids::{BootId, DeliveryId, IntentKey, SessionId};
use recado_core::ledger::{
    BatchRecord, BatchState, CommitId, Contradiction, DeliveryKind, DeliveryRecord, DeliveryState, OperationRecord, OperationState, Route,
    Write,
};
use serde_json::{Value, json};

use crate::fixtures::{batch, clause, delivery, open, operation, path_in};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_store_refuses_what_the_model_refuses_and_reads_back_what_it_holds(
        groups in prop::collection::vec(prop::collection::vec(prop::collection::vec(write(), 1..4), 1..6), 1..12),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = path_in(directory.path());
        let mut model = Model::default();
        for (boot, groups) in groups.chunks(4).enumerate() {
            let (mut store, recovered) = open(&path, boot as u128 + 1);
            prop_assert_eq!(&recovered, &model.recovered());
            model.boots = boot as u128 + 1;
            for group in groups {
                let commits: Vec<(CommitId, Vec<Write>)> =
                    group.iter().enumerate().map(|(number, writes)| (CommitId(number as u64), writes.clone())).collect();
                let outcomes = store.commit(&commits);
                for ((_, writes), outcome) in commits.iter().zip(outcomes) {
                    let expected = model.commit(writes);
                    prop_assert_eq!(outcome.is_ok(), expected, "{:?} for {:?}", outcome, writes);
                }
            }
        }
        let (_store, recovered) = open(&path, 99);
        prop_assert_eq!(recovered, model.recovered());
    }
}

/// The store's rules, once more and by other means.
#[derive(Default, Clone)]
struct Model {
    batches: Vec<BatchRecord>,
    operations: Vec<OperationRecord>,
    deliveries: BTreeMap<u64, DeliveryRecord>,
    claims: BTreeMap<DeliveryId, (SessionId, BootId, Route)>,
    boots: u128,
}

impl Model {
    fn commit(&mut self, writes: &[Write]) -> bool {
        let mut next = self.clone();
        let kept = writes.iter().all(|write| next.apply(write));
        if kept {
            *self = next;
        }
        kept
    }

    fn recovered(&self) -> Recovered {
        // So few operations are all recent; a closed batch that never had one is of no use to anybody.
        let kept = |batch: &BatchRecord| {
            batch.state != BatchState::Closed
                || self.operations.iter().any(|operation| operation.batch == batch.id)
                || self.deliveries.values().any(|delivery| delivery.batch == batch.id && !delivery.state.terminal())
        };
        let batches: Vec<BatchRecord> = self.batches.iter().filter(|batch| kept(batch)).cloned().collect();
        let of_kept = |delivery: &&DeliveryRecord| batches.iter().any(|batch| batch.id == delivery.batch);
        Recovered {
            operations: self.operations.clone(),
            deliveries: self.deliveries.values().filter(of_kept).cloned().collect(),
            batches: batches.clone(),
            claims: self.claims.iter().map(|(delivery, (session, boot, route))| (*delivery, *session, *boot, *route)).collect(),
            next_sequence: self.deliveries.keys().next_back().map_or(1, |last| last + 1),
            occurrence_floor: 0,
        }
    }

    fn apply(&mut self, write: &Write) -> bool {
        match write {
            Write::CreateBatch(new) => {
                let fits = self.batches.iter().all(|batch| batch.id != new.id);
                self.batches.push(new.clone());
                fits
            }
            Write::UpdateBatch(new) => {
                let Some(old) = self.batches.iter_mut().find(|batch| batch.id == new.id) else { return false };
                let fits = new.state >= old.state;
                *old = new.clone();
                fits
            }
            Write::CreateOperation(new) => {
                let closing = |old: &DeliveryRecord| old.batch == new.batch && old.kind == DeliveryKind::Final;
                let open = self.batches.iter().any(|batch| batch.id == new.batch && batch.state < BatchState::Drained)
                    && !self.deliveries.values().any(closing);
                let taken = self.operations.iter().any(|old| {
                    old.id == new.id || old.intent_key == new.intent_key || (old.batch == new.batch && old.ordinal == new.ordinal)
                });
                self.operations.push(new.clone());
                open && !taken && sound(new)
            }
            Write::UpdateOperation(new) => {
                let Some(old) = self.operations.iter_mut().find(|old| old.id == new.id) else { return false };
                let terminal = old.state.settled() && old.state != OperationState::Unknown;
                let fits = (&old.intent_key, old.batch, old.ordinal) == (&new.intent_key, new.batch, new.ordinal)
                    && new.attempt >= old.attempt
                    && new.maybe_executed >= old.maybe_executed
                    && (!terminal || (new.state == old.state && new.result == old.result))
                    && (old.contradiction.is_none() || new.contradiction == old.contradiction)
                    && (new.state != OperationState::Accepted || old.state == OperationState::Accepted);
                *old = new.clone();
                fits && sound(new)
            }
            Write::CreateDelivery(new) => {
                let free = !self.deliveries.contains_key(&new.sequence)
                    && self.deliveries.values().all(|old| {
                        old.id != new.id && (old.batch != new.batch || old.kind != DeliveryKind::Final || new.kind != DeliveryKind::Final)
                    });
                let settled = self.operations.iter().all(|operation| operation.batch != new.batch || operation.state.settled());
                let waiting = !matches!(new.state, DeliveryState::Speaking | DeliveryState::Spoken | DeliveryState::Uncertain);
                let fits = free
                    && self.batches.iter().any(|batch| batch.id == new.batch)
                    && (new.kind != DeliveryKind::Final || settled)
                    && waiting
                    && self.superseded_well(new);
                self.deliveries.insert(new.sequence, new.clone());
                fits
            }
            Write::UpdateDelivery(new) => {
                let Some(old) = self.deliveries.values().find(|old| old.id == new.id).cloned() else { return false };
                let heard = !new.clauses.is_empty() && new.clauses.iter().all(|clause| clause.heard.is_some());
                let fits = (old.sequence, old.batch, old.kind) == (new.sequence, new.batch, new.kind)
                    && new.attempt >= old.attempt
                    && (!old.state.terminal() || new.state == old.state)
                    && (new.state != DeliveryState::Spoken || heard)
                    && (new.state != DeliveryState::HandedOff || old.state == new.state || self.handed_off(new.id))
                    && self.superseded_well(new);
                self.deliveries.insert(old.sequence, new.clone());
                fits
            }
            Write::Claim { delivery, session, boot, route } => {
                let live = self.deliveries.values().any(|old| old.id == *delivery && !old.state.terminal());
                let known = (1..=self.boots).contains(&boot.0);
                live && known && self.claims.insert(*delivery, (*session, *boot, *route)).is_none()
            }
            Write::Unclaim { delivery } => {
                self.claims.remove(delivery);
                true
            }
        }
    }

    fn handed_off(&self, delivery: DeliveryId) -> bool {
        matches!(self.claims.get(&delivery), Some((_, _, Route::HandOff)))
    }

    fn superseded_well(&self, new: &DeliveryRecord) -> bool {
        new.superseded_by.is_none_or(|by| by != new.id && self.deliveries.values().any(|old| old.id == by))
    }
}

fn sound(record: &OperationRecord) -> bool {
    (record.state != OperationState::Succeeded || record.result.is_some())
        && (record.attempt > 0 || !matches!(record.state, OperationState::Running | OperationState::RetryWait))
}

/// A write over so few identifiers that they meet.
fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        2 => a_batch().prop_map(Write::CreateBatch),
        2 => a_batch().prop_map(Write::UpdateBatch),
        3 => an_operation().prop_map(Write::CreateOperation),
        3 => an_operation().prop_map(Write::UpdateOperation),
        3 => a_delivery().prop_map(Write::CreateDelivery),
        3 => a_delivery().prop_map(Write::UpdateDelivery),
        2 => (NUMBER, 1..4u128, prop_oneof![Just(Route::Announce), Just(Route::Ride), Just(Route::HandOff)]).prop_map(|(number, boot, route)| Write::Claim {
            delivery: DeliveryId(number),
            session: SessionId(number),
            boot: BootId(boot),
            route,
        }),
        1 => NUMBER.prop_map(|number| Write::Unclaim { delivery: DeliveryId(number) }),
    ]
}

fn a_batch() -> impl Strategy<Value = BatchRecord> {
    let state = prop_oneof![
        6 => Just(BatchState::Open),
        1 => prop::sample::select(vec![BatchState::Sealed, BatchState::Drained, BatchState::Closed]),
    ];
    (NUMBER, state).prop_map(|(number, state)| BatchRecord { state, ..batch(number) })
}

fn an_operation() -> impl Strategy<Value = OperationRecord> {
    let state = prop::sample::select(vec![
        OperationState::Accepted,
        OperationState::Running,
        OperationState::RetryWait,
        OperationState::Succeeded,
        OperationState::Failed,
        OperationState::Unknown,
        OperationState::Cancelling,
        OperationState::Cancelled,
        OperationState::Compensated,
        OperationState::TooLate,
    ]);
    let identity = (NUMBER, prop::bool::weighted(0.1), "\\PC{0,12}");
    let tried = (0..3u32, prop::bool::weighted(0.2));
    (identity, state, tried, prop::option::of(a_value()), prop::option::of("\\PC{0,12}")).prop_map(
        |((number, other, text), state, (attempt, maybe_executed), result, error)| {
            let usual = operation(number, number % 2 + 1);
            let intent_key = if other { IntentKey("shared".to_owned()) } else { usual.intent_key.clone() };
            let arguments = if number == 1 {
                json!({ "amount": 1e23_f64 * 3.1, "ratio": 0.1 + 0.2, "small": 5e-324 })
            } else {
                usual.arguments.clone()
            };
            let error = error.map(|error| error + &text);
            let contradiction = match (attempt, &result) {
                (2, Some(value)) => Some(Contradiction::Succeeded(value.clone())),
                (1, None) => Some(Contradiction::Failed("no".to_owned())),
                _ => None,
            };
            OperationRecord { intent_key, arguments, state, attempt, maybe_executed, result, error, contradiction, ..usual }
        },
    )
}

fn a_delivery() -> impl Strategy<Value = DeliveryRecord> {
    let state = prop::sample::select(vec![
        DeliveryState::Ready,
        DeliveryState::Claimed,
        DeliveryState::Speaking,
        DeliveryState::Spoken,
        DeliveryState::Uncertain,
        DeliveryState::Superseded,
        DeliveryState::Suppressed,
        DeliveryState::Withdrawn,
        DeliveryState::HandedOff,
    ]);
    let clauses = prop::collection::vec(prop::option::weighted(0.7, Just(Evidence::Received)), 0..3);
    let kind = prop_oneof![Just(DeliveryKind::Final), Just(DeliveryKind::Correction)];
    (NUMBER, state, kind, 0..3u32, clauses, prop::option::weighted(0.3, NUMBER), prop::option::of(0..=i64::MAX as u64)).prop_map(
        |(number, state, kind, attempt, clauses, by, stale_after_ms)| DeliveryRecord {
            state,
            kind,
            attempt,
            clauses: clauses.into_iter().map(|heard| clause(number, heard)).collect(),
            superseded_by: by.map(DeliveryId),
            stale_after_ms,
            ..delivery(number, number % 2 + 1)
        },
    )
}

fn a_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        prop::collection::btree_map("[a-z]{1,4}", any::<bool>(), 0..3).prop_map(|map| json!(map)),
    ]
}

const NUMBER: std::ops::Range<u128> = 1..5;
