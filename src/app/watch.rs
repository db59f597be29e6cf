//! Whether the box makes progress: what feeds health and measures, and the service manager's watchdog.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tracing::error;

use super::clock::Clock;
use crate::admin::{HealthState, Impact, StoreHealth};
use crate::cognition::tools::Load;
use crate::coordination::StoreStats;
use crate::surface::media::MediaProgress;
use crate::telemetry::{Measures, ToolMeasures};

/// The pulse of a task: it says every [`BEAT`] that it still takes what comes.
#[derive(Debug, Clone)]
pub struct Pulse {
    clock: Clock,
    last_ms: Arc<AtomicU64>,
}

impl Pulse {
    /// A pulse that beats now.
    pub fn new(clock: Clock) -> Self {
        let pulse = Self { clock, last_ms: Arc::default() };
        pulse.beat();
        pulse
    }

    /// The task is alive.
    pub fn beat(&self) {
        self.last_ms.store(self.clock.now().0, Ordering::Relaxed);
    }

    /// For how long it has not been felt.
    fn silent_ms(&self) -> u64 {
        self.clock.now().0.saturating_sub(self.last_ms.load(Ordering::Relaxed))
    }
}

/// A tick every [`BEAT`].
pub fn beats() -> tokio::time::Interval {
    every(BEAT)
}

/// Ticks that are not caught up with after a pause.
pub fn every(period: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Shows what the tools have to do, and tells health of those whose endpoint is down.
pub fn tools(health: &HealthState, measures: &Measures, load: &Load) {
    measures.tools(&ToolMeasures {
        attempts: load.tools.iter().map(|(name, of)| (name.clone(), of.waiting, of.running)).collect(),
        cancels: load.cancels,
        inquiries: load.inquiries,
        endpoints: load.endpoints.iter().map(|at| (at.endpoint.clone(), at.left_alone, at.turned_away)).collect(),
    });
    let down: Vec<&str> = load.endpoints.iter().filter(|at| at.left_alone).map(|at| at.endpoint.as_str()).collect();
    if down.is_empty() {
        health.clear(TOOLS);
    } else {
        // What they said is their own and their callers'.
        let text = format!("{} failed again and again, as the log says: what is asked of it waits until it is back", down.join(", "));
        health.raise(TOOLS, Impact::Degrades, text);
    }
}

/// Tells health how the store is. `last_failure` is why the last commit failed, if it did; `oldest` is how long the oldest
/// commit that is under way has taken.
pub fn store_health(health: &HealthState, stats: &StoreStats, last_failure: Option<&str>, oldest: Duration) {
    health.store(StoreHealth {
        writable: stats.open && stats.writable,
        commit_ms: stats.flush_last_us as f64 / 1_000.0,
        commits_failed: stats.commits_failed + stats.commits_busy,
    });
    if !(stats.open && stats.writable) {
        let reason = last_failure.unwrap_or("the disk failed");
        health.raise(STORE, Impact::Refuses, format!("{reason}: check the disk (df, dmesg); new calls and operations are refused"));
    } else if stats.full {
        let text = "the disk is full: free some space on it; new calls and operations are refused, what was promised is still recorded";
        health.raise(STORE, Impact::Refuses, text);
    } else if oldest > SLOW {
        let text = format!("a commit has taken {} s: the disk hangs (dmesg); nothing new is accepted or told meanwhile", oldest.as_secs());
        health.raise(STORE, Impact::Degrades, text);
    } else if !stats.reserve_held {
        health.raise(
            STORE,
            Impact::Degrades,
            "the store has no reserve: free some space on its disk before it is full; `recado doctor` says more",
        );
    } else {
        health.clear(STORE);
    }
}

/// What a service manager is told of the box: whether it takes calls, and why not.
pub fn status(health: &HealthState) -> String {
    health.refusal().map_or_else(|| "taking calls".to_owned(), |why| format!("refusing calls: {why}"))
}

/// Watches over the parts of the house: health names the one that is stuck, and the service manager's watchdog, where there is
/// one, is fed only while none is. A part that stays stuck has the box started again without waiting for the watchdog's time,
/// which is there for the case that nobody looks any more. Runs until it is dropped.
pub async fn watch_over(pulses: Vec<(&'static str, Pulse)>, health: HealthState) {
    let watchdog = sd_notify::watchdog_enabled();
    let mut looks = every(watchdog.map_or(BEAT, |within| BEAT.min(within / 3)));
    let mut stuck_looks = 0;
    loop {
        looks.tick().await;
        stuck_looks = if look(&pulses, &health) { 0 } else { stuck_looks + 1 };
        let state = match stuck_looks {
            0 => sd_notify::NotifyState::Watchdog,
            STUCK_LOOKS.. => sd_notify::NotifyState::WatchdogTrigger,
            _ => continue,
        };
        if watchdog.is_some() {
            // A service manager that is gone needs no feeding.
            let _ = sd_notify::notify(&[state]);
        }
    }
}

/// Whether all pulses are felt; health says which are not.
fn look(pulses: &[(&'static str, Pulse)], health: &HealthState) -> bool {
    let mut all = true;
    for (part, pulse) in pulses {
        let silent_ms = pulse.silent_ms();
        if silent_ms < PULSE_MS_MAX {
            health.clear(part);
            continue;
        }
        all = false;
        error!(part, silent_ms, "no progress: the watchdog is not fed, and the service manager will start the box again");
        let text = format!(
            "no progress for {} s: a service manager starts the box again; without one, do so, and report what the log says",
            silent_ms / 1_000
        );
        health.raise(part, Impact::Degrades, text);
    }
    all
}

/// Feels the media thread's pulse by its clock, whether it has calls or not. Runs until it is dropped.
pub async fn follow_media(mut progress: MediaProgress, pulse: Pulse) {
    let mut beats = beats();
    loop {
        beats.tick().await;
        if progress.advanced() {
            pulse.beat();
        }
    }
}

/// What health calls the tools.
const TOOLS: &str = "tools";

/// What health calls the store.
pub const STORE: &str = "store";

/// A commit that takes longer is worth telling.
const SLOW: Duration = Duration::from_secs(3);

/// How often a task shows that it is alive, and all are looked at.
const BEAT: Duration = Duration::from_secs(1);

/// A part that has shown nothing for so long is stuck: none ever waits for anybody.
const PULSE_MS_MAX: u64 = 5_000;

/// A whole machine that was suspended finds all parts silent at its first look, and alive at the next ones.
const STUCK_LOOKS: u32 = 3;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::admin::Status;
    use crate::cognition::tools::Standing;

    #[test]
    fn a_part_that_shows_nothing_keeps_the_watchdog_from_being_fed_and_is_named_until_it_goes_on() {
        let health = HealthState::new(Instant::now());
        let Some(origin) = Instant::now().checked_sub(Duration::from_secs(8)) else {
            println!("skipped: this machine has only just started");
            return;
        };
        let pulse = || Pulse::new(Clock { origin });
        let pulses = [("ledger", pulse()), ("media", pulse())];
        assert!(look(&pulses, &health) && health.report(Instant::now()).status == Status::Ok);
        pulses[1].1.last_ms.store(0, Ordering::Relaxed);
        assert!(!look(&pulses, &health));
        let stuck = health.report(Instant::now());
        assert!(stuck.problems.len() == 1 && stuck.problems[0].starts_with("media: no progress for 8 s"), "{stuck:?}");
        pulses[1].1.beat();
        assert!(look(&pulses, &health) && health.report(Instant::now()).problems.is_empty());
    }

    #[test]
    fn an_endpoint_that_is_down_degrades_the_box_until_it_is_back() {
        let (health, measures) = (HealthState::new(Instant::now()), Measures::new().unwrap());
        let standing = |endpoint: &str, left_alone| Standing { endpoint: endpoint.to_owned(), left_alone, turned_away: 3 };
        let mut load = Load { endpoints: vec![standing("http://a.example", true), standing("mcp office", false)], ..Load::default() };
        tools(&health, &measures, &load);
        let report = health.report(Instant::now());
        assert_eq!(report.status, Status::Degraded);
        assert!(report.problems[0].starts_with("tools: http://a.example failed again and again"), "{report:?}");
        assert!(measures.render().contains("recado_endpoint_left_alone{endpoint=\"http://a.example\"} 1\n"));
        load.endpoints[0].left_alone = false;
        tools(&health, &measures, &load);
        assert_eq!(health.report(Instant::now()).status, Status::Ok);
    }

    #[test]
    fn a_store_that_fails_has_new_calls_refused_and_says_why_until_it_works() {
        let health = HealthState::new(Instant::now());
        let well = StoreStats { open: true, writable: true, reserve_held: true, flush_last_us: 1_500, ..StoreStats::default() };
        let report = |stats: StoreStats, failure: Option<&str>| {
            store_health(&health, &stats, failure, Duration::ZERO);
            health.report(Instant::now())
        };
        assert_eq!((report(well, None).status, report(well, None).store.commit_ms), (Status::Ok, 1.5));
        let failing = report(StoreStats { writable: false, commits_failed: 3, ..well }, Some("the disk is full"));
        assert_eq!((failing.status, failing.store.writable, failing.store.commits_failed), (Status::Refusing, false, 3));
        let refused = ["store: the disk is full: check the disk (df, dmesg); new calls and operations are refused"];
        assert_eq!(failing.problems, refused);
        assert_eq!(report(StoreStats { open: false, ..well }, None).status, Status::Refusing);
        assert_eq!(report(StoreStats { full: true, ..well }, None).status, Status::Refusing);
        assert_eq!(report(StoreStats { reserve_held: false, ..well }, None).status, Status::Degraded);
        assert_eq!(report(well, None).problems, Vec::<String>::new());
        store_health(&health, &well, None, Duration::from_secs(4));
        let hangs = health.report(Instant::now());
        assert!(hangs.status == Status::Degraded && hangs.problems[0].starts_with("store: a commit has taken 4 s"), "{hangs:?}");
    }
}
