//! What the box takes for an operation: how many are accepted in a second, and how long it is from accepted to at the tool, beside a loop of
//! requests that does nothing else, against the same service.
//!
//! `cargo bench --bench tools`. A hundred operations are under way at a time: each caller asks for the next when the closing of the one before is
//! on disk. The ledger, the store with its thread, and the executor are the real ones, wired as in a box, on two threads as a box has. The
//! service is a process apart. It measures the disk under `STORE_BENCH_DIR`, else under the build directory.

#[allow(dead_code, reason = "the processor's time is not asked for here")]
#[path = "../realtime/clock.rs"]
mod clock;
mod loops;
mod service;
#[path = "../realtime/table.rs"]
mod table;

use loops::{Measured, bare, with_the_box};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|mode| mode == service::MODE) {
        return service::run();
    }
    // `cargo test --benches` only wants to know that it starts.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().expect("threads");
    let service = service::Service::start();
    println!("{PARALLEL} under way at a time, {EACH} in a run, {RUNS} runs of each, by turns; load of the machine before: {}", load());
    let (mut alone, mut boxed, mut wide) = (Measured::default(), Measured::default(), Measured::default());
    for run in 0..=RUNS {
        let runs = [
            runtime.block_on(bare(&service.url, PARALLEL, EACH)),
            runtime.block_on(with_the_box(&service.url, PARALLEL, EACH, SLOTS)),
            runtime.block_on(with_the_box(&service.url, PARALLEL, EACH, PARALLEL)),
        ];
        // The first one finds everything cold.
        if run > 0 {
            let [first, second, third] = runs;
            alone.add(first);
            boxed.add(second);
            wide.add(third);
        }
    }
    table::head("how many in a second");
    table::distribution("requests, by the loop alone", "1/s", &alone.per_second);
    for (slots, measured) in [(SLOTS, &boxed), (PARALLEL, &wide)] {
        table::distribution(&format!("operations, with {slots} attempts under way at most"), "1/s", &measured.per_second);
    }
    table::head("how long");
    table::distribution("the loop alone: begun to received", "ms", &alone.to_received_ms);
    for (slots, measured) in [(SLOTS, &boxed), (PARALLEL, &wide)] {
        table::distribution(&format!("{slots} attempts at most: asked for to accepted, on disk"), "ms", &measured.to_durable_ms);
        table::distribution("    accepted to received by the tool", "ms", &measured.from_durable_ms);
        table::distribution("    asked for to received by the tool", "ms", &measured.to_received_ms);
    }
    println!();
    for (slots, measured) in [(SLOTS, &boxed), (PARALLEL, &wide)] {
        println!(
            "{slots} attempts at most, beside the loop alone: {:.2} times as many in a second; asked for to received takes {:.1} ms more at p50, \
             {:.1} ms more at p99, accepted to received {:.1} and {:.1} ms",
            median(&measured.per_second) / median(&alone.per_second),
            at(&measured.to_received_ms, 0.5) - at(&alone.to_received_ms, 0.5),
            at(&measured.to_received_ms, 0.99) - at(&alone.to_received_ms, 0.99),
            at(&measured.from_durable_ms, 0.5) - at(&alone.to_received_ms, 0.5),
            at(&measured.from_durable_ms, 0.99) - at(&alone.to_received_ms, 0.99),
        );
    }
    println!("commits in one flush of the disk: {:.1}; load of the machine after: {}", median(&boxed.commits_per_flush), load());
}

fn median(values: &[f64]) -> f64 {
    at(values, 0.5)
}

fn at(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

fn load() -> String {
    let averages = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{} runnable in the last minute, on {processors} processors", averages.split(' ').next().unwrap_or("?"))
}

/// Operations under way at a time.
const PARALLEL: usize = 100;

/// Operations of a run: twenty-five of each caller.
const EACH: usize = 2_500;

/// Runs that count.
const RUNS: usize = 5;

/// Attempts that a box has under way at most, over all tools.
const SLOTS: usize = 64;

/// Threads of a box beside those for media and the store.
const WORKERS: usize = 2;
