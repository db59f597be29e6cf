//! What the store tells health and measures about itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use recado_core::ledger::DeliveryState;

use super::error::CommitError;
use super::group::Move;

/// Deliveries by state. States without any may be absent.
pub type Tally = BTreeMap<DeliveryState, u64>;

/// Counts since the store was opened, and how long the disk takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreStats {
    /// Commits that became durable.
    pub commits: u64,
    /// Commits that were taken and failed, whatever the reason.
    pub commits_failed: u64,
    /// Commits that were not taken: the queue was full.
    pub commits_busy: u64,
    /// Transactions that were flushed: several commits share one.
    pub groups: u64,
    /// The last flush (µs).
    pub flush_last_us: u64,
    /// Median of the last [`FLUSHES_KEPT`] flushes (µs).
    pub flush_p50_us: u64,
    /// 99th percentile of the same (µs).
    pub flush_p99_us: u64,
    /// The slowest flush since the start (µs).
    pub flush_max_us: u64,
    /// Whether space is kept back for a full disk. False means that there was never room for it, or that it was given up: alarm.
    pub reserve_held: bool,
    /// Whether the disk was full and has had no room for the reserve since: new operations are refused.
    pub full: bool,
    /// Whether the file is open for writing. False means that the disk failed: alarm.
    pub open: bool,
    /// Whether the disk took the last commit, or one tried since.
    pub writable: bool,
}

/// Where the writer's thread notes them.
#[derive(Debug)]
pub(super) struct Stats(Mutex<Noted>);

#[derive(Debug)]
struct Noted {
    stats: StoreStats,
    flushes_us: [u64; FLUSHES_KEPT],
    deliveries: Tally,
    must_restart: Option<String>,
    displaced: Option<String>,
}

impl Stats {
    /// Those of a store that has just been opened, and holds these deliveries.
    pub(super) fn new(deliveries: Tally) -> Self {
        let stats = StoreStats { open: true, writable: true, ..StoreStats::default() };
        Self(Mutex::new(Noted { stats, flushes_us: [0; FLUSHES_KEPT], deliveries, must_restart: None, displaced: None }))
    }

    /// The memory of this process and the file have parted: only reading the file anew brings them together.
    pub(super) fn must_restart(&self, reason: &str) {
        self.note(|noted| {
            if noted.must_restart.is_none() {
                tracing::error!(reason, "the store has to be opened anew, by a restart");
                noted.must_restart = Some(reason.to_owned());
            }
        });
    }

    /// Why the store has to be opened anew.
    pub(super) fn restart_wanted(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).must_restart.clone()
    }

    /// Something of the store is not in its place, and can't be written again yet; or is again.
    pub(super) fn displaced(&self, why: Option<String>) {
        self.note(|noted| {
            // The next try says whether it can be written again.
            noted.stats.writable &= why.is_none();
            noted.displaced = why;
        });
    }

    /// Why that is so.
    pub(super) fn why_displaced(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).displaced.clone()
    }

    /// Counts deliveries that have changed their state.
    pub(super) fn moved(&self, moves: &[Move]) {
        self.note(|noted| {
            for (from, to) in moves {
                if let Some(number) = from.and_then(|from| noted.deliveries.get_mut(&from)) {
                    *number = number.saturating_sub(1);
                }
                if let Some(to) = to {
                    *noted.deliveries.entry(*to).or_default() += 1;
                }
            }
        });
    }

    /// How many deliveries there are.
    pub(super) fn deliveries(&self) -> Tally {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).deliveries.clone()
    }

    pub(super) fn committed(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.note(|noted| {
            let at = (noted.stats.groups % FLUSHES_KEPT as u64) as usize;
            if let Some(place) = noted.flushes_us.get_mut(at) {
                *place = us;
            }
            noted.stats.groups += 1;
            noted.stats.flush_last_us = us;
            noted.stats.flush_max_us = noted.stats.flush_max_us.max(us);
        });
    }

    pub(super) fn answered(&self, outcomes: &[Result<(), CommitError>]) {
        let disk_failed = outcomes.iter().flat_map(|outcome| outcome.as_ref().err()).any(|reason| !reason.concerns_one_commit());
        let durable = outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
        self.note(|noted| {
            noted.stats.commits += durable;
            noted.stats.writable = durable > 0 || (noted.stats.writable && !disk_failed);
            noted.stats.commits_failed += outcomes.len() as u64 - durable;
        });
    }

    pub(super) fn writable(&self, writable: bool) {
        self.note(|noted| noted.stats.writable = writable);
    }

    /// Whether nothing is wrong with the disk.
    pub(super) fn is_well(&self) -> bool {
        let stats = self.0.lock().unwrap_or_else(PoisonError::into_inner).stats;
        stats.open && stats.writable && stats.reserve_held
    }

    pub(super) fn busy(&self) {
        self.note(|noted| noted.stats.commits_busy += 1);
    }

    pub(super) fn reserve(&self, held: bool, spent: bool) {
        self.note(|noted| (noted.stats.reserve_held, noted.stats.full) = (held, spent));
    }

    pub(super) fn open(&self, open: bool) {
        self.note(|noted| noted.stats.open = open);
    }

    pub(super) fn read(&self) -> StoreStats {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = (noted.stats.groups as usize).min(FLUSHES_KEPT);
        let mut flushes = noted.flushes_us.get(..kept).unwrap_or_default().to_vec();
        flushes.sort_unstable();
        let quantile = |per_cent: usize| flushes.get((kept * per_cent / 100).min(kept.saturating_sub(1))).copied().unwrap_or_default();
        StoreStats { flush_p50_us: quantile(50), flush_p99_us: quantile(99), ..noted.stats }
    }

    fn note(&self, change: impl FnOnce(&mut Noted)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// How many flushes the percentiles look back: some minutes of calls.
pub const FLUSHES_KEPT: usize = 256;
