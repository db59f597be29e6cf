//! The store's floor: commits per second by the number of writers, what an operation's life costs, and how long a start takes with
//! 100,000 operations.
//!
//! `cargo bench --bench store -- --quick`. It measures the disk under `STORE_BENCH_DIR`, else under the build directory: a
//! temporary directory in memory would flush nothing.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use recado::coordination::Writer;
use recado_core::ids::DeliveryId;
use recado_core::ledger::{BatchRecord, BatchState, CommitId, DeliveryRecord, DeliveryState, OperationRecord, OperationState, Write};
use tempfile::TempDir;

#[allow(dead_code)]
#[path = "../tests/store/fixtures.rs"]
mod fixtures;

use fixtures::{accepted, batch, claim, clause, delivery, open, operation, path_in, succeeded};

/// Who waits for the commits of each slot: the last six bits of their numbers.
type Waiting = &'static Mutex<Vec<Option<Sender<()>>>>;

/// A store's writer that answers who waits.
fn writer(directory: &Path) -> (Writer, Waiting) {
    let (store, _) = open(&path_in(directory), 1);
    let waiting: Waiting = Box::leak(Box::new(Mutex::new(vec![None; 64])));
    let writer = store
        .start(move |answer| {
            assert_eq!(answer.outcome, Ok(()));
            let slot = usize::try_from(answer.commit.0 % 64).unwrap_or_default();
            if let Some(waiter) = &waiting.lock().expect("no panic")[slot] {
                waiter.send(()).expect("it waits");
            }
        })
        .expect("a thread");
    (writer, waiting)
}

/// As many writers as there are, each waiting for its commit before it asks for the next, as an operation's life does.
fn commits(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("store_commits");
    group.sample_size(10).measurement_time(Duration::from_secs(3)).throughput(Throughput::Elements(1));
    for writers in [1u64, 8, 64] {
        let directory = directory();
        let (writer, waiting) = writer(directory.path());
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

fn commit_each(writer: &Writer, waiting: Waiting, slot: u64, numbers: std::ops::Range<u64>) {
    let (done, answered) = mpsc::channel();
    waiting.lock().expect("no panic")[usize::try_from(slot).unwrap_or_default()] = Some(done);
    for number in numbers {
        assert_eq!(writer.commit(CommitId(number * 64 + slot), accepted(u128::from(number))), Ok(()));
        answered.recv().expect("an answer");
    }
}

/// Whole lives of operations, from accepted to spoken, each step waiting for the one before it to be durable: how many commits and
/// flushes a life takes, and how many bytes are written for it, checkpoints included.
fn lives(_: &mut Criterion) {
    for writers in [1u64, 8, 64] {
        let directory = directory();
        let (writer, waiting) = writer(directory.path());
        let (begun, before) = (Instant::now(), written_bytes());
        thread::scope(|scope| {
            for slot in 0..writers {
                let (writer, (done, answered)) = (&writer, mpsc::channel());
                waiting.lock().expect("no panic")[usize::try_from(slot).unwrap_or_default()] = Some(done);
                scope.spawn(move || {
                    for number in slot * LIVES / writers..(slot + 1) * LIVES / writers {
                        for (step, writes) in steps(u128::from(number)).into_iter().enumerate() {
                            assert_eq!(writer.commit(CommitId((number * 8 + step as u64) * 64 + slot), writes), Ok(()));
                            answered.recv().expect("an answer");
                        }
                    }
                });
            }
        });
        let (stats, took) = (writer.stats(), begun.elapsed());
        drop(writer);
        let each = |number: u64| number as f64 / LIVES as f64;
        println!(
            "store_lives/{writers}_writers: {:.2} commits, {:.2} flushes, {:.1} KiB written a life; {:.0} lives a second",
            each(stats.commits),
            each(stats.groups),
            each(written_bytes() - before) / 1_024.0,
            LIVES as f64 / took.as_secs_f64(),
        );
    }
}

/// A life as the ledger commits it: accepted with its first attempt; sealed; result, drained batch and closing; claim; heard and closed.
fn steps(number: u128) -> Vec<Vec<Write>> {
    let running = OperationRecord { state: OperationState::Running, attempt: 1, ..operation(number, number) };
    let heard = vec![clause(number, Some(recado_core::conversation::input::Evidence::Received))];
    let speaking = DeliveryRecord { state: DeliveryState::Speaking, ..delivery(number, number) };
    let spoken = DeliveryRecord { state: DeliveryState::Spoken, clauses: heard, ..delivery(number, number) };
    vec![
        vec![Write::CreateBatch(batch(number)), Write::CreateOperation(running)],
        vec![Write::UpdateBatch(BatchRecord { state: BatchState::Sealed, ..batch(number) })],
        succeeded(number),
        vec![Write::UpdateDelivery(speaking), claim(number, 1)],
        vec![
            Write::UpdateDelivery(spoken),
            Write::Unclaim { delivery: DeliveryId(number) },
            Write::UpdateBatch(BatchRecord { state: BatchState::Closed, ..batch(number) }),
        ],
    ]
}

/// Bytes that this process has handed to the system to write.
fn written_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("Linux");
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).expect("a number")
}

/// A start with 100,000 operations on record: all over but a hundred, as a month of a busy box leaves them.
fn start(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("store_open");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    let directory = directory();
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1);
    for chunk in (0..OPERATIONS).collect::<Vec<_>>().chunks(64) {
        let lives: Vec<(CommitId, Vec<Write>)> =
            chunk.iter().map(|number| (CommitId(0), life(*number, number % (OPERATIONS / 100) != 0))).collect();
        assert!(store.commit(&lives).iter().all(Result::is_ok));
    }
    drop(store);
    println!("store_open: {} MiB", std::fs::metadata(&path).map_or(0, |found| found.len() >> 20));
    let mut boot = 1;
    group.bench_function(format!("{OPERATIONS}_operations"), |bencher| {
        bencher.iter(|| {
            boot += 1;
            black_box(open(&path, boot))
        });
    });
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

/// Lives that are averaged over.
const LIVES: u64 = 640;

/// On record at a start.
const OPERATIONS: u128 = 100_000;

criterion_group!(benches, commits, lives, start);
criterion_main!(benches);
