//! Does it bite? The core and the voice do one thing wrong at a time, and seeds are played until a check notices.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use recado_core::faults::{Fault, choose};

use crate::explore::play_seed;
use crate::violation::Invariant;

/// How a fault was noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bite {
    /// What was wrong.
    pub fault: Fault,
    /// By what it was noticed first, and after how many seeds; none if it was not.
    pub caught: Option<(Invariant, u64)>,
}

/// What a fault breaks in this seed's story, which breaks nothing without it.
fn breaks(fault: Fault, seed: u64) -> Option<Invariant> {
    choose(Some(fault));
    let violation = play_seed(seed).violation;
    choose(None);
    violation.filter(|_| play_seed(seed).violation.is_none()).map(|violation| violation.invariant)
}

/// Plays up to `seeds` seeds against each of these faults, on so many threads.
pub fn bite(faults: &[Fault], seeds: u64, jobs: usize) -> Vec<Bite> {
    let next = AtomicUsize::new(0);
    let bites = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(&fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let caught = (0..seeds).find_map(|seed| breaks(fault, seed).map(|invariant| (invariant, seed + 1)));
                    bites.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(Bite { fault, caught });
                }
            });
        }
    });
    let mut bites = bites.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    bites.sort_by_key(|bite| bite.fault);
    bites
}
