//! The standard run: thousands of seeds, every invariant of the contract after every step, and every edge of its state machines
//! taken. `RECADO_SIM_SEEDS=1000000` looks longer; `recado sim` says more.

use recado_sim::{Plan, explore, trace};

#[test]
fn whatever_happens_the_contract_holds_and_every_edge_is_taken() {
    let seeds = std::env::var("RECADO_SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let jobs = std::thread::available_parallelism().map_or(1, |jobs| jobs.get());
    let report = explore(&Plan { start_seed: 0, seeds, jobs }, || true);
    if let Some(failure) = &report.failure {
        let about = format!("{}\nseed {}", failure.violation, failure.seed);
        panic!("{about}\n{}", trace::to_text(&failure.script, &about));
    }
    assert_eq!(report.played, seeds);
    let missing = report.coverage.missing();
    assert!(seeds < SEEDS || missing.is_empty(), "never taken in {seeds} conversations: {missing:?}");
}

const SEEDS: u64 = 20_000;
