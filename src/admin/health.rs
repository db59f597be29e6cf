//! Whether the box can do its work, and what keeps it from it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use tokio::sync::watch;

/// What the parts of the house report about themselves. Clones share it; nothing here waits.
#[derive(Debug, Clone)]
pub struct HealthState {
    started: Instant,
    facts: Arc<watch::Sender<Facts>>,
}

/// The answer to "how are you?".
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HealthReport {
    /// In one word.
    pub status: Status,
    /// Which version runs.
    pub version: &'static str,
    /// For how long (ms).
    pub uptime_ms: u64,
    /// Calls that are up.
    pub calls: u32,
    /// The store.
    pub store: StoreHealth,
    /// Everything that is wrong, in a sentence each.
    pub problems: Vec<String>,
}

/// How the box is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Everything works.
    Ok,
    /// Calls are taken; not everything works.
    Degraded,
    /// New calls are refused.
    Refusing,
}

/// What a problem means for calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Impact {
    /// Calls are taken; something does not work.
    Degrades,
    /// New calls are refused.
    Refuses,
}

/// How the store is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StoreHealth {
    /// Whether the last commit became durable. Where it did not, new operations and calls are refused.
    pub writable: bool,
    /// How long the last commit took (ms).
    pub commit_ms: f64,
    /// Commits that failed since the start.
    pub commits_failed: u64,
}

#[derive(Debug)]
struct Facts {
    calls: u32,
    store: StoreHealth,
    problems: BTreeMap<&'static str, (Impact, String)>,
}

impl HealthState {
    /// A box that was started at `started` and has nothing to complain of.
    pub fn new(started: Instant) -> Self {
        let store = StoreHealth { writable: true, commit_ms: 0.0, commits_failed: 0 };
        Self { started, facts: Arc::new(watch::Sender::new(Facts { calls: 0, store, problems: BTreeMap::new() })) }
    }

    /// Says how many calls are up.
    pub fn calls(&self, calls: u32) {
        self.facts.send_modify(|facts| facts.calls = calls);
    }

    /// Says how the store is.
    pub fn store(&self, store: StoreHealth) {
        self.facts.send_modify(|facts| facts.store = store);
    }

    /// Reports what is wrong with a part of the house, in a sentence that says what to do; it replaces what that part had
    /// reported before.
    pub fn raise(&self, part: &'static str, impact: Impact, sentence: impl Into<String>) {
        let sentence: String = sentence.into().chars().take(SENTENCE_CHARS_MAX).collect();
        self.facts.send_modify(|facts| drop(facts.problems.insert(part, (impact, sentence))));
    }

    /// Reports that a part works again.
    pub fn clear(&self, part: &'static str) {
        self.facts.send_if_modified(|facts| facts.problems.remove(part).is_some());
    }

    /// Whether new calls are refused.
    pub fn refuses(&self) -> bool {
        self.refusal().is_some()
    }

    /// Why new calls are refused, if they are: the first sentence that says so.
    pub fn refusal(&self) -> Option<String> {
        let facts = self.facts.borrow();
        facts.problems.values().find(|(impact, _)| *impact == Impact::Refuses).map(|(_, sentence)| sentence.clone())
    }

    /// Calls that are up.
    pub fn calls_up(&self) -> u32 {
        self.facts.borrow().calls
    }

    /// How the box is at `now`.
    pub fn report(&self, now: Instant) -> HealthReport {
        let facts = self.facts.borrow();
        let store = if facts.store.writable { Status::Ok } else { Status::Degraded };
        let worst = facts.problems.values().map(|(impact, _)| match impact {
            Impact::Degrades => Status::Degraded,
            Impact::Refuses => Status::Refusing,
        });
        HealthReport {
            status: worst.fold(store, Status::max),
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: u64::try_from(now.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX),
            calls: facts.calls,
            store: facts.store,
            problems: facts.problems.iter().map(|(part, (_, sentence))| format!("{part}: {sentence}")).collect(),
        }
    }
}

/// An error from outside may be long; a health page is read at a glance.
const SENTENCE_CHARS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_worst_problem_decides_and_each_part_has_one() {
        let started = Instant::now();
        let health = HealthState::new(started);
        let status = || health.report(started).status;
        assert_eq!(status(), Status::Ok);
        health.raise("speech", Impact::Degrades, "espeak-ng is missing: install it");
        health.raise("store", Impact::Refuses, "the disk is full");
        assert_eq!(status(), Status::Refusing);
        health.raise("store", Impact::Degrades, "the disk is slow");
        assert_eq!(status(), Status::Degraded);
        assert_eq!(health.report(started).problems, ["speech: espeak-ng is missing: install it", "store: the disk is slow"]);
        health.clear("speech");
        health.clear("store");
        assert_eq!(status(), Status::Ok);
    }

    #[test]
    fn a_store_that_can_not_be_written_degrades_the_box() {
        let started = Instant::now();
        let health = HealthState::new(started);
        health.store(StoreHealth { writable: false, commit_ms: 12.5, commits_failed: 1 });
        health.calls(2);
        let report = health.report(started + Duration::from_millis(1_500));
        assert_eq!((report.status, report.uptime_ms, report.calls), (Status::Degraded, 1_500, 2));
        assert_eq!(
            serde_json::to_value(&report).unwrap()["store"],
            serde_json::json!({ "writable": false, "commit_ms": 12.5, "commits_failed": 1 })
        );
    }

    #[test]
    fn clones_share_what_they_know_and_sentences_are_bounded() {
        let health = HealthState::new(Instant::now());
        health.clone().raise("sip", Impact::Refuses, "é".repeat(10_000));
        let report = health.report(Instant::now());
        assert_eq!(report.problems.len(), 1);
        assert_eq!(report.problems[0].chars().count(), "sip: ".len() + SENTENCE_CHARS_MAX);
    }
}
