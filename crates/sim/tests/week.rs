//! Weeks of a box: what is wanted is done once, what comes of it is heard, and nothing waits, over days, restarts and repeated results.
//! `RECADO_SIM_WEEKS=1000` looks longer; `recado sim --weeks` says more.

use recado_sim::week::plan::Plan;
use recado_sim::week::{Counted, explore, play, twice};

#[test]
fn over_seven_days_each_wish_is_done_once_each_closing_is_heard_and_nothing_waits() {
    let weeks = std::env::var("RECADO_SIM_WEEKS").ok().and_then(|weeks| weeks.parse().ok()).unwrap_or(WEEKS);
    let report = explore(0, weeks, std::thread::available_parallelism().map_or(1, |jobs| jobs.get()));
    if let Some(failure) = &report.failure {
        panic!("seed {}: {}\n{}", failure.seed, failure.violation, failure.plan);
    }
    println!("{weeks} weeks: {:?}", report.counted);
    let Counted { calls, wishes, effects, restarts, callbacks, unreached, heard, doubted, unknown, removed } = report.counted;
    let all = [calls, wishes, effects, restarts, callbacks, unreached, heard, doubted, unknown, removed];
    assert!(weeks < WEEKS || all.iter().all(|number| *number > 0), "something never happened: {:?}", report.counted);
}

#[test]
fn a_week_that_is_played_twice_is_the_same_and_its_traces_replay() {
    for seed in [1, 2] {
        assert_eq!(twice(&Plan::of_seed(seed)).violation, None, "seed {seed}");
    }
    assert_ne!(play(&Plan::of_seed(1), true).digest, play(&Plan::of_seed(2), true).digest);
}

const WEEKS: u64 = 40;
