//! The store's floor: commits per second by the number of writers, and how long a start takes with 10,000 operations.
//!
//! `cargo bench --bench store -- --quick`. It measures the disk under `STORE_BENCH_DIR`, else under the build directory: a
//! temporary directory in memory would flush nothing.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use recado::coordination::Writer;
use recado_core::ledger::{BatchRecord, BatchState, CommitId, DeliveryRecord, DeliveryState, Write};
use tempfile::TempDir;

#[allow(dead_code)]
#[path = "../tests/store/fixtures.rs"]
mod fixtures;

use fixtures::{accepted, batch, clause, delivery, open, path_in, succeeded};

/// As many writers as there are, each waiting for its commit before it asks for the next, as an operation's life does.
fn commits(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("store_commits");
    group.sample_size(10).measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(1));
    for writers in [1u64, 8, 64] {
        let directory = directory();
        let (store, _) = open(&path_in(directory.path()), 1);
        let waiting: &'static Mutex<Vec<Option<Sender<()>>>> = Box::leak(Box::new(Mutex::new(vec![None; 64])));
        let writer = store
            .start(move |answer| {
                assert_eq!(answer.outcome, Ok(()));
                let slot = usize::try_from(answer.commit.0 % 64).unwrap_or_default();
                if let Some(waiter) = &waiting.lock().expect("no panic")[slot] {
                    waiter.send(()).expect("it waits");
                }
            })
            .expect("a thread");
        let mut next = 0;
        group.bench_function(format!("{writers}_writers"), |bencher| {
            bencher.iter_custom(|iterations| {
                let begun = Instant::now();
                let each = iterations.div_ceil(writers);
                thread::scope(|scope| {
                    for slot in 0..writers {
                        let writer = &writer;
                        let first = next + slot * each;
                        scope.spawn(move || commit_each(writer, waiting, slot, first..first + each));
                    }
                });
                next += writers * each;
                // As if exactly `iterations` had been done.
                begun.elapsed().mul_f64(iterations as f64 / (writers * each) as f64)
            });
        });
        let stats = writer.stats();
        eprintln!("{writers} writers: {:.1} commits a flush; {stats:?}", stats.commits as f64 / stats.groups as f64);
    }
    group.finish();
}

fn commit_each(writer: &Writer, waiting: &Mutex<Vec<Option<Sender<()>>>>, slot: u64, numbers: std::ops::Range<u64>) {
    let (done, answered) = mpsc::channel();
    waiting.lock().expect("no panic")[usize::try_from(slot).unwrap_or_default()] = Some(done);
    for number in numbers {
        assert_eq!(writer.commit(CommitId(number * 64 + slot), accepted(u128::from(number))), Ok(()));
        answered.recv().expect("an answer");
    }
}

/// A start with 10,000 operations on record: all still owed, or all over.
fn start(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("store_open");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    for (name, over) in [("10000_operations_waiting", false), ("10000_operations_over", true)] {
        let directory = directory();
        let path = path_in(directory.path());
        let (mut store, _) = open(&path, 1);
        for chunk in (0..10_000u128).collect::<Vec<_>>().chunks(64) {
            let lives: Vec<(CommitId, Vec<Write>)> = chunk.iter().map(|number| (CommitId(0), life(*number, over))).collect();
            assert!(store.commit(&lives).iter().all(Result::is_ok));
        }
        drop(store);
        let mut boot = 1;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                boot += 1;
                black_box(open(&path, boot))
            });
        });
    }
    group.finish();
}

fn life(number: u128, over: bool) -> Vec<Write> {
    let mut writes = accepted(number);
    writes.extend(succeeded(number));
    if over {
        let heard = vec![clause(number, Some(recado_core::conversation::input::Evidence::Received))];
        writes.push(Write::UpdateDelivery(DeliveryRecord { state: DeliveryState::Spoken, clauses: heard, ..delivery(number, number) }));
        writes.push(Write::UpdateBatch(BatchRecord { state: BatchState::Closed, ..batch(number) }));
    }
    writes
}

fn directory() -> TempDir {
    let on_disk = std::env::var_os("STORE_BENCH_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    tempfile::tempdir_in(on_disk).expect("a directory")
}

criterion_group!(benches, commits, start);
criterion_main!(benches);
