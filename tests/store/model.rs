//! Random writes against the simulator's store in memory: the same are refused, and after a restart the same is there.

use proptest::prelude::*;
use recado_core::conversation::input::Evidence;
use recado_core::ids::{BootId, DeliveryId, IntentKey, SessionId};
use recado_core::ledger::{
    BatchRecord, BatchState, CommitId, Contradiction, DeliveryKind, DeliveryRecord, DeliveryState, OperationRecord, OperationState, Route,
    Write,
};
use recado_sim::store::{MemoryStore, Store as _};
use serde_json::{Value, json};

use crate::fixtures::{batch, clause, delivery, open, operation, path_in, snapshot};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_store_refuses_what_the_model_refuses_and_reads_back_what_it_holds(
        groups in prop::collection::vec(prop::collection::vec(prop::collection::vec(write(), 1..4), 1..6), 1..12),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = path_in(directory.path());
        let mut model = MemoryStore::default();
        for (boot, groups) in groups.chunks(4).enumerate() {
            let (mut store, recovered) = open(&path, boot as u128 + 1);
            prop_assert_eq!(snapshot(recovered), model.restart(BootId(boot as u128 + 1)));
            for group in groups {
                let commits: Vec<(CommitId, Vec<Write>)> =
                    group.iter().enumerate().map(|(number, writes)| (CommitId(number as u64), writes.clone())).collect();
                let outcomes = store.commit(&commits);
                for ((_, writes), outcome) in commits.iter().zip(outcomes) {
                    let expected = model.apply(writes);
                    prop_assert_eq!(outcome.is_ok(), expected.is_ok(), "{:?}, {:?} for {:?}", outcome, expected, writes);
                }
            }
        }
        let (_store, recovered) = open(&path, 99);
        prop_assert_eq!(snapshot(recovered), model.snapshot());
    }
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
