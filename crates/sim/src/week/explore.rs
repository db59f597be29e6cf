//! Plays the week of one seed after the other, on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::plan::Plan;
use super::{Counted, play, twice};
use crate::violation::Violation;

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Weeks that were played.
    pub played: u64,
    /// How long all of it took in virtual time (ms).
    pub virtual_ms: u64,
    /// What happened in them.
    pub counted: Counted,
    /// What failed first, if anything did: the search ends there.
    pub failure: Option<Failure>,
}

/// A week that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What is needed of it.
    pub plan: Plan,
    /// What it breaks.
    pub violation: Violation,
}

/// Plays the weeks of so many seeds, on so many threads, every twentieth twice; the first that fails is cut down.
pub fn explore(start_seed: u64, weeks: u64, jobs: usize) -> Report {
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = Mutex::new((Report::default(), Vec::<(u64, Violation)>::new()));
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if place >= weeks {
                        break;
                    }
                    let seed = start_seed.wrapping_add(place);
                    let plan = Plan::of_seed(seed);
                    let outcome = if seed.is_multiple_of(20) { twice(&plan) } else { play(&plan, false) };
                    let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    all.0.played += 1;
                    all.0.virtual_ms += outcome.virtual_ms;
                    all.0.counted.add(&outcome.counted);
                    if let Some(violation) = outcome.violation {
                        all.1.push((seed, violation));
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (mut report, failures) = all.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    report.failure = failures.into_iter().min_by_key(|(seed, _)| *seed).map(|(seed, violation)| {
        let (plan, violation) = cut(&Plan::of_seed(seed), &violation);
        Failure { seed, plan, violation }
    });
    report
}

/// The same week with as little in it as still breaks what `violation` says, with what then breaks.
pub fn cut(plan: &Plan, violation: &Violation) -> (Plan, Violation) {
    let mut found = (plan.clone(), violation.clone());
    let mut size = plan.happenings.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < found.0.happenings.len() {
            let mut less = found.0.clone();
            less.happenings.drain(at..(at + size).min(less.happenings.len()));
            match play(&less, true).violation.filter(|other| other.invariant == violation.invariant) {
                Some(other) => found = (less, other),
                None => at += size,
            }
        }
        size /= 2;
    }
    found
}
