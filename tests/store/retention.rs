//! Retention: what has been over for long is removed while nothing else is to be done, and nothing else is.

use std::time::Duration;

use recado::coordination::{Keep, Options, Recovered, Store};
use recado_core::conversation::input::Evidence;
use recado_core::ids::{BootId, DeliveryId};
use recado_core::ledger::{BatchRecord, BatchState, DeliveryKind, DeliveryRecord, DeliveryState, OperationRecord, OperationState, Write};
use recado_core::time::Wall;
use serde_json::json;

use crate::fixtures::{accepted, batch, clause, commit, delivery, operation, path_in, succeeded};

const DAY_MS: i64 = 86_400_000;

/// The clock of the store under test: thirty days after the records of the fixtures, and one.
fn later() -> Wall {
    Wall { unix_ms: 31 * DAY_MS, synchronised: true }
}

fn unsynchronised() -> Wall {
    Wall { synchronised: false, ..later() }
}

fn open(path: &std::path::Path, boot: u128, wall: fn() -> Wall) -> (Store, Recovered) {
    let keep = Keep { age: Duration::from_secs(30 * 86_400), wall };
    let options = Options { keep: Some(keep), recent_operations_max: 1_000, ..Options::new(BootId(boot), later()) };
    Store::open(path, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn over(number: u128) -> Vec<Write> {
    let heard = vec![clause(number, Some(Evidence::Received))];
    let spoken = DeliveryRecord { state: DeliveryState::Spoken, clauses: heard, ..delivery(number, number) };
    let closed = BatchRecord { state: BatchState::Closed, ..batch(number) };
    [accepted(number), succeeded(number), vec![Write::UpdateDelivery(spoken), Write::UpdateBatch(closed)]].concat()
}

fn kept(path: &std::path::Path, boot: u128) -> Vec<u128> {
    open(path, boot, later).1.operations.iter().map(|operation| operation.id.0).collect()
}

#[test]
fn what_has_been_over_for_long_goes_and_what_is_owed_or_young_or_not_known_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1, later);
    for number in 1..=300 {
        assert_eq!(commit(&mut store, over(number)), Ok(()));
    }
    // Owed: its closing waits.
    assert_eq!(commit(&mut store, [accepted(301), succeeded(301)].concat()), Ok(()));
    // Not known: it may be learnt yet.
    let unknown = OperationRecord { state: OperationState::Unknown, attempt: 1, maybe_executed: true, ..operation(302, 302) };
    let mut writes = over(302);
    writes[2] = Write::UpdateOperation(unknown);
    assert_eq!(commit(&mut store, writes), Ok(()));
    // Over, and young.
    let mut writes = over(303);
    writes[1] = Write::CreateOperation(OperationRecord { accepted: later(), ..operation(303, 303) });
    let done =
        OperationRecord { state: OperationState::Succeeded, result: Some(json!(1)), attempt: 1, accepted: later(), ..operation(303, 303) };
    writes[2] = Write::UpdateOperation(done);
    assert_eq!(commit(&mut store, writes), Ok(()));
    let tally = |store: Store| {
        let writer = store.start(|_| {}).expect("a thread");
        writer.deliveries()
    };
    for _ in 0..10 {
        assert!(store.look_after());
    }
    assert_eq!(tally(store).get(&DeliveryState::Spoken), Some(&2));
    assert_eq!(kept(&path, 2), [301, 302, 303]);
    let (_, recovered) = open(&path, 3, later);
    assert_eq!(recovered.next_sequence, 304);
    assert_eq!(recovered.occurrence_floor, 300, "no key that was used is given out again");
}

#[test]
fn what_is_never_given_out_twice_stays_on_record_when_all_rows_are_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1, later);
    assert_eq!(commit(&mut store, over(7)), Ok(()));
    assert!(store.look_after());
    drop(store);
    let (_, recovered) = open(&path, 2, later);
    assert_eq!(recovered, Recovered { next_sequence: 8, occurrence_floor: 7, ..Recovered::default() });
}

#[test]
fn without_a_synchronised_clock_nothing_goes() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1, unsynchronised);
    assert_eq!(commit(&mut store, over(1)), Ok(()));
    assert!(store.look_after());
    drop(store);
    assert_eq!(kept(&path, 2), [1]);
}

#[test]
fn what_was_accepted_while_the_clock_was_wrong_is_as_old_as_what_came_after_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1, later);
    for number in [1, 3] {
        let unset = Wall { unix_ms: 40 * DAY_MS, synchronised: false };
        let mut writes = over(number);
        writes[1] = Write::CreateOperation(OperationRecord { accepted: unset, ..operation(number, number) });
        let done = OperationRecord {
            state: OperationState::Succeeded,
            result: Some(json!(1)),
            attempt: 1,
            accepted: unset,
            ..operation(number, number)
        };
        writes[2] = Write::UpdateOperation(done);
        assert_eq!(commit(&mut store, writes), Ok(()));
        if number == 1 {
            assert_eq!(commit(&mut store, over(2)), Ok(()));
        }
    }
    assert!(store.look_after());
    drop(store);
    assert_eq!(kept(&path, 2), [3], "nothing says that the last one is old");
}

#[test]
fn a_long_run_of_operations_of_a_wrong_clock_is_removed_too() {
    for run in [63, 64, 65, 200] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = path_in(directory.path());
        let (mut store, _) = open(&path, 1, later);
        for number in 1..=run {
            let mut writes = over(number);
            for write in &mut writes {
                if let Write::CreateOperation(record) | Write::UpdateOperation(record) = write {
                    record.accepted = Wall { unix_ms: 40 * DAY_MS, synchronised: false };
                }
            }
            assert_eq!(commit(&mut store, writes), Ok(()));
        }
        for _ in 0..10 {
            assert!(store.look_after());
        }
        assert_eq!(commit(&mut store, over(run + 1)), Ok(()), "the first that says how old they are");
        for _ in 0..10 {
            assert!(store.look_after());
        }
        drop(store);
        assert_eq!(kept(&path, 2), [0; 0], "of a run of {run}");
    }
}

#[test]
fn a_closing_that_another_one_names_goes_after_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1, later);
    assert_eq!(commit(&mut store, over(2)), Ok(()));
    // Waits, and so stays; it says that it came in the place of the one that is over.
    let by = DeliveryRecord { kind: DeliveryKind::Correction, superseded_by: Some(DeliveryId(2)), ..delivery(9, 1) };
    assert_eq!(commit(&mut store, [accepted(1), vec![Write::CreateDelivery(by)]].concat()), Ok(()));
    for _ in 0..3 {
        assert!(store.look_after());
    }
    drop(store);
    assert_eq!(kept(&path, 2), [2, 1]);
}
