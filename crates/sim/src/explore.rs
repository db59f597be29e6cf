//! Plays one seed after the other, on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::edges::Coverage;
use crate::play::{Outcome, play, twice};
use crate::script::Script;
use crate::shrink::shrink;
use crate::violation::Violation;

/// Which seeds are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The first.
    pub start_seed: u64,
    /// How many.
    pub seeds: u64,
    /// On so many threads.
    pub jobs: usize,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Seeds that were played.
    pub played: u64,
    /// How long all of it took in virtual time (ms).
    pub virtual_ms: u64,
    /// The edges that were taken.
    pub coverage: Coverage,
    /// What failed first, if anything did: the search ends there.
    pub failure: Option<Failure>,
}

/// A seed that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Its script, cut down to what is needed.
    pub script: Script,
    /// What it breaks.
    pub violation: Violation,
    /// How many events the script had before it was cut.
    pub events_before: usize,
}

/// Plays the seeds of a plan as long as `keep_on` says so, and cuts the first failure down.
pub fn explore(plan: &Plan, keep_on: impl Fn() -> bool + Sync) -> Report {
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let all = Mutex::new((Report::default(), Vec::<(u64, Violation)>::new()));
    thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            scope.spawn(|| {
                let mut own = Report::default();
                let mut failures = Vec::new();
                while keep_on() && !failed.load(Ordering::Relaxed) {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if place >= plan.seeds {
                        break;
                    }
                    let seed = plan.start_seed.wrapping_add(place);
                    let outcome = play_seed(seed);
                    own.played += 1;
                    own.virtual_ms += outcome.virtual_ms;
                    own.coverage.add(&outcome.coverage);
                    if let Some(violation) = outcome.violation {
                        failures.push((seed, violation));
                        failed.store(true, Ordering::Relaxed);
                    }
                }
                let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                all.0.played += own.played;
                all.0.virtual_ms += own.virtual_ms;
                all.0.coverage.add(&own.coverage);
                all.1.append(&mut failures);
            });
        }
    });
    let (mut report, failures) = all.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    report.failure = failures.into_iter().min_by_key(|(seed, _)| *seed).map(|(seed, violation)| cut(seed, &violation));
    report
}

/// Plays a seed; every twentieth twice.
pub fn play_seed(seed: u64) -> Outcome {
    let script = Script::of_seed(seed);
    if seed.is_multiple_of(20) { twice(&script) } else { play(&script) }
}

fn cut(seed: u64, violation: &Violation) -> Failure {
    let script = Script::of_seed(seed);
    let events_before = script.events.len();
    let (script, violation) = shrink(&script, violation, |script| twice(script).violation);
    Failure { seed, script, violation, events_before }
}
