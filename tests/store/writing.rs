//! The writer's thread: order, groups, a queue that is full; and readers beside it.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;

use recado::coordination::{Answer, CommitError, Reader, Writer};
use recado_core::ids::DeliveryId;
use recado_core::ledger::{CommitId, DeliveryRecord, DeliveryState, Input, OperationRecord, OperationState, Write};
use tempfile::TempDir;

use crate::fixtures::{accepted, batch, claim, delivery, open, operation, path_in, succeeded};

fn started() -> (TempDir, Writer, Receiver<Answer>) {
    let directory = tempfile::tempdir().expect("a directory");
    let (store, _) = open(&path_in(directory.path()), 1);
    let (answers, answered) = mpsc::channel();
    let writer = store.start(move |answer| answers.send(answer).expect("the test listens")).expect("a thread");
    (directory, writer, answered)
}

#[test]
fn commits_are_answered_in_the_order_they_were_taken() {
    let (directory, writer, answered) = started();
    for number in 0..500 {
        assert_eq!(writer.commit(CommitId(number), accepted(u128::from(number))), Ok(()));
    }
    drop(writer);
    let order: Vec<u64> = answered
        .iter()
        .map(|answer| {
            assert_eq!(answer.outcome, Ok(()));
            answer.commit.0
        })
        .collect();
    assert_eq!(order, (0..500).collect::<Vec<u64>>());
    let (_, recovered) = open(&path_in(directory.path()), 2);
    let ids: Vec<u128> = recovered.operations.iter().map(|record| record.id.0).collect();
    assert_eq!(ids, (0..500).collect::<Vec<u128>>(), "and read back in that order");
}

#[test]
fn one_refused_commit_does_not_harm_its_group() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut store, _) = open(&path_in(directory.path()), 1);
    let group: Vec<(CommitId, Vec<Write>)> = vec![
        (CommitId(1), accepted(1)),
        (CommitId(2), vec![Write::CreateBatch(batch(2)), Write::CreateBatch(batch(1))]),
        (CommitId(3), accepted(3)),
    ];
    let outcomes = store.commit(&group);
    assert_eq!(outcomes[0], Ok(()));
    assert!(matches!(outcomes[1], Err(CommitError::Constraint(_))));
    assert_eq!(outcomes[2], Ok(()));
    drop(store);
    let (_, recovered) = open(&path_in(directory.path()), 2);
    let batches: Vec<u128> = recovered.batches.iter().map(|record| record.id.0).collect();
    assert_eq!(batches, [1, 3]);
}

#[test]
fn a_store_that_somebody_else_found_damaged_begins_nothing_new_and_records_what_was_promised() {
    let (_directory, writer, answered) = started();
    let asked = |number, writes| {
        assert_eq!(writer.commit(CommitId(number), writes), Ok(()));
        answered.recv().expect("an answer").outcome
    };
    assert_eq!(asked(1, accepted(1)), Ok(()));
    assert_eq!(asked(2, accepted(2)), Ok(()));
    assert_eq!(writer.restart_wanted(), None);
    writer.must_restart("the store is damaged (a page)");
    assert_eq!(writer.restart_wanted().as_deref(), Some("the store is damaged (a page)"));
    // What comes later does not hide what came first.
    writer.must_restart("another reason");
    let barred = Err(CommitError::Restart("the store is damaged (a page)".to_owned()));
    assert_eq!(asked(3, accepted(3)), barred);
    assert_eq!(asked(4, succeeded(1)), Ok(()));
    assert_eq!(asked(5, vec![claim(1, 1)]), barred);
}

#[test]
fn eight_senders_share_flushes_and_each_finds_its_own_order_kept() {
    let (directory, writer, answered) = started();
    thread::scope(|scope| {
        for sender in 0..8u64 {
            let writer = &writer;
            scope.spawn(move || {
                for number in 0..100 {
                    let commit = sender * 1_000 + number;
                    while let Err(error) = writer.commit(CommitId(commit), accepted(u128::from(commit))) {
                        assert_eq!(error, CommitError::Busy);
                        thread::yield_now();
                    }
                }
            });
        }
    });
    let mut last = BTreeMap::new();
    for answer in answered.iter().take(800) {
        assert_eq!(answer.outcome, Ok(()));
        let (sender, number) = (answer.commit.0 / 1_000, answer.commit.0 % 1_000);
        let before = last.insert(sender, number);
        assert_eq!(number, before.map_or(0, |before| before + 1));
    }
    let stats = writer.stats();
    assert_eq!(stats.commits, 800);
    assert!(stats.groups < stats.commits, "no flush was shared: {stats:?}");
    assert!(stats.flush_p50_us <= stats.flush_p99_us && stats.flush_p99_us <= stats.flush_max_us && stats.flush_max_us > 0);
    drop(writer);
    let (_, recovered) = open(&path_in(directory.path()), 2);
    assert_eq!(recovered.operations.len(), 800);
}

#[test]
fn a_full_queue_answers_at_once_and_what_was_taken_is_still_answered_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let (store, _) = open(&path_in(directory.path()), 1);
    let (go, gate) = mpsc::channel::<()>();
    let answers = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&answers);
    let mut closed = true;
    let writer = store
        .start(move |answer| {
            if closed {
                gate.recv().expect("the test opens the gate");
                closed = false;
            }
            noted.lock().expect("no panic").push(answer);
        })
        .expect("a thread");
    let mut taken = 0;
    let refused = loop {
        match writer.commit(CommitId(taken), accepted(u128::from(taken))) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 10_000, "the queue has no bound");
    };
    assert_eq!(refused, CommitError::Busy);
    assert_eq!(writer.stats().commits_busy, 1);
    go.send(()).expect("the writer waits");
    drop(writer);
    let answers = answers.lock().expect("no panic");
    let commits: Vec<u64> = answers.iter().map(|answer| answer.commit.0).collect();
    assert_eq!(commits, (0..taken).collect::<Vec<u64>>());
}

#[test]
fn a_store_that_is_not_trusted_records_what_was_promised_and_begins_nothing() {
    let (_directory, writer, answered) = started();
    let outcome = |number: u64, writes| {
        assert_eq!(writer.commit(CommitId(number), writes), Ok(()));
        answered.recv().expect("an answer").outcome
    };
    assert_eq!(outcome(1, accepted(1)), Ok(()));
    assert_eq!(outcome(2, [accepted(2), succeeded(2)].concat()), Ok(()));
    writer.must_restart("the store is damaged");
    assert_eq!(outcome(3, succeeded(1)), Ok(()), "what runs may end");
    let bars = Err(CommitError::Restart("the store is damaged".to_owned()));
    assert_eq!(outcome(4, accepted(3)), bars);
    assert_eq!(outcome(5, vec![claim(2, 1)]), bars);
    assert_eq!(writer.restart_wanted().as_deref(), Some("the store is damaged"));
}

#[test]
fn an_answer_is_an_input_of_the_ledger() {
    let durable = Answer { commit: CommitId(7), outcome: Ok(()) };
    assert_eq!(Input::from(durable), Input::Durable(CommitId(7)));
    let failed = Answer { commit: CommitId(8), outcome: Err(CommitError::Full) };
    assert_eq!(Input::from(failed), Input::CommitFailed { commit: CommitId(8), reason: "the disk is full".to_owned(), missing: false });
}

#[test]
fn the_ledger_is_told_what_the_store_holds_no_more() {
    let failed = Answer { commit: CommitId(9), outcome: Err(CommitError::Missing("operation")) };
    assert!(matches!(Input::from(failed), Input::CommitFailed { commit: CommitId(9), missing: true, .. }));
}

#[test]
fn a_reader_looks_in_while_the_box_runs() {
    let (directory, writer, answered) = started();
    let reader = Reader::open(&path_in(directory.path())).expect("a reader");
    assert_eq!(reader.pending().expect("readable").deliveries_total, 0);
    let speaking = DeliveryRecord { state: DeliveryState::Speaking, ..delivery(2, 2) };
    for (commit, writes) in
        [accepted(1), accepted(2), succeeded(2), vec![claim(2, 1), Write::UpdateDelivery(speaking.clone())]].into_iter().enumerate()
    {
        assert_eq!(writer.commit(CommitId(commit as u64), writes), Ok(()));
        assert_eq!(answered.recv().map(|answer| answer.outcome), Ok(Ok(())));
    }
    let pending = reader.pending().expect("readable");
    assert_eq!((pending.deliveries_total, pending.operations_total), (1, 1));
    assert_eq!(pending.deliveries[0].record, speaking);
    assert_eq!(pending.deliveries[0].text(), "Your table is booked.");
    assert_eq!(pending.deliveries[0].claim.map(|claim| claim.0), Some(DeliveryId(2)));
    assert_eq!(pending.operations[0].id.0, 1);
    // What has ended and has no closing yet is owed as well: after a loss, or with others of its batch under way.
    let unknown = OperationRecord { state: OperationState::Unknown, maybe_executed: true, ..operation(1, 1) };
    assert_eq!(writer.commit(CommitId(9), vec![Write::UpdateOperation(unknown.clone())]), Ok(()));
    assert_eq!(answered.recv().map(|answer| answer.outcome), Ok(Ok(())));
    assert_eq!(reader.pending().expect("readable").operations, [unknown]);
    let counts = reader.counts().expect("readable");
    assert_eq!(counts.operations, BTreeMap::from([(OperationState::Unknown, 1), (OperationState::Succeeded, 1)]));
    assert_eq!(counts.deliveries, BTreeMap::from([(DeliveryState::Speaking, 1)]));
    assert_eq!(counts.oldest_waiting.map(|wall| wall.unix_ms), Some(2_000));
    // The reader still open must not keep the box from closing, nor from opening again.
    drop(writer);
    let (_, recovered) = open(&path_in(directory.path()), 2);
    assert_eq!(recovered.claims.len(), 1);
    assert!(serde_json::to_string(&pending).is_ok_and(|text| text.contains("\"state\":\"speaking\"")));
}
