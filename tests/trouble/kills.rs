//! kill -9 at random moments, again and again.
//!
//! `RECADO_KILLS` says how many kills (`./dev kill-test N`), `RECADO_SEED` repeats the plan of another run: who speaks when,
//! what is reported when, and when the box is killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado::demo::{BoxProcess, Caller, Ear, command};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::judge::{Life, Verdict, judge, states};
use crate::random::Random;
use crate::reports::reported;
use crate::story::{LIVES_MAX, Manners, Stage, asks, program, speech_is_there};

/// One box, killed one or several times.
#[derive(Debug)]
struct Plan {
    number: usize,
    kills: Vec<Kill>,
    report_after_ms: [u64; 8],
}

#[derive(Debug)]
struct Kill {
    /// From when the caller dials (ms), or from the start of the process, where it dies before it is ready.
    after_ms: u64,
    while_starting: bool,
    manners: Manners,
}

/// What came of a plan.
struct Outcome {
    plan: Plan,
    verdict: Verdict,
    ready: Vec<Duration>,
    folder: PathBuf,
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_moments_nothing_is_lost_nothing_told_twice_and_effects_are_had_once() {
    if !speech_is_there() {
        return;
    }
    let of_environment =
        |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is no number")));
    let kills = of_environment("RECADO_KILLS").unwrap_or(KILLS) as usize;
    let seed = of_environment("RECADO_SEED").unwrap_or_else(|| recado::app::random() as u64);
    println!("{kills} kills, RECADO_SEED={seed}");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kills-{seed}-{}", std::process::id()));
    let (began, at_once) = (Instant::now(), Arc::new(Semaphore::new(AT_ONCE)));
    let mut running = JoinSet::new();
    for plan in plans(&mut Random(seed), kills) {
        let (at_once, folder) = (Arc::clone(&at_once), folder.join(plan.number.to_string()));
        running.spawn(async move {
            let _permit = at_once.acquire_owned().await.expect("open");
            play(plan, folder).await
        });
    }
    let (mut failed, mut all, mut ready) = (0, Verdict::default(), Vec::new());
    while let Some(outcome) = running.join_next().await {
        let Outcome { plan, verdict, ready: starts, folder } = outcome.expect("the story is told to its end");
        println!("run {:>3}: {} {verdict}", plan.number, told(&plan.kills));
        if verdict.faults.is_empty() {
            std::fs::remove_dir_all(&folder).expect("removed");
        } else {
            failed += 1;
            println!("         kept in {}", folder.display());
        }
        all = all.and(verdict);
        ready.extend(starts);
    }
    ready.sort_unstable();
    println!("{kills} kills in {:.0} s: {all}", began.elapsed().as_secs_f64());
    println!("from start to ready: median {:?}, longest {:?}", ready[ready.len() / 2], ready[ready.len() - 1]);
    assert_eq!(failed, 0, "of the runs broke a promise: RECADO_SEED={seed}");
    let _ = std::fs::remove_dir(&folder);
}

fn plans(random: &mut Random, kills: usize) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut left = kills;
    while left > 0 {
        let several = if random.once_in(3) { 2 + random.below(LIVES_MAX as u64 - 1) as usize } else { 1 };
        let kills = (0..several.min(left)).map(|_| kill(random)).collect::<Vec<_>>();
        left -= kills.len();
        let report_after_ms = std::array::from_fn(|_| random.below(3_000));
        plans.push(Plan { number: plans.len(), kills, report_after_ms });
    }
    plans
}

fn kill(random: &mut Random) -> Kill {
    let while_starting = random.once_in(12);
    let after_ms = random.below(if while_starting { START_MS } else { STORY_MS });
    Kill { after_ms, while_starting, manners: Manners::draw(random) }
}

async fn play(plan: Plan, folder: PathBuf) -> Outcome {
    let stage = Stage::set(folder.clone()).await;
    let reports = reported(stage.tools.clone(), plan.report_after_ms);
    let (mut lives, mut ready) = (Vec::new(), Vec::new());
    for (number, kill) in plan.kills.iter().enumerate() {
        stage.next_life(Some(number));
        lives.push(if kill.while_starting {
            dies_while_starting(&stage, kill).await
        } else {
            lives_until(&stage, number, kill, &mut ready).await
        });
    }
    stage.next_life(None);
    lives.push(last_life(&stage, &mut ready).await);
    reports.abort();
    let history = stage.history().expect("a store");
    let verdict = judge(&lives, &history, &stage.tools.all()).await;
    Outcome { plan, verdict, ready, folder }
}

/// A life that ends before anybody can call.
async fn dies_while_starting(stage: &Stage, kill: &Kill) -> Life {
    let before = states(stage.history());
    let mut child = command(program(), &stage.config()).stderr(std::process::Stdio::null()).spawn().expect("the box starts");
    tokio::time::sleep(Duration::from_millis(kill.after_ms)).await;
    child.kill().and_then(|()| child.wait()).expect("killed");
    let ends = states(stage.history());
    // It may have recovered what the one before it left open, or not have come so far.
    let begins = if ends.is_empty() { before } else { ends.clone() };
    Life { asks: None, ear: Ear::default(), begins, ends }
}

/// A life in which the caller asks for work, until the box is killed.
async fn lives_until(stage: &Stage, number: usize, kill: &Kill, ready: &mut Vec<Duration>) -> Life {
    let boxed = starts(stage, ready).await;
    let begins = states(stage.history());
    let mut caller = None;
    let mut ear = Ear::default();
    let story = async {
        // The box may be killed while it is dialled.
        if let Ok(up) = Caller::dial(boxed.sip, CALLER).await {
            asks(caller.insert(up), &kill.manners).await;
            if kill.manners.hangs_up
                && let Some(up) = caller.take()
                && let Ok((_, heard)) = up.hang_up().await
            {
                ear = heard;
            }
        }
        std::future::pending::<()>().await;
    };
    let _ = tokio::time::timeout(Duration::from_millis(kill.after_ms), story).await;
    boxed.kill();
    if let Some(up) = caller {
        (_, ear) = up.dropped();
    }
    Life { asks: Some(number), ear, begins, ends: states(stage.history()) }
}

/// The last life: what is owed is told, and nothing new is asked for.
async fn last_life(stage: &Stage, ready: &mut Vec<Duration>) -> Life {
    let boxed = starts(stage, ready).await;
    let begins = states(stage.history());
    let caller = Caller::dial(boxed.sip, CALLER).await.expect("the box answers");
    let begun = Instant::now();
    let is_settled = || stage.pending().is_some_and(|pending| pending.operations.is_empty() && pending.deliveries.is_empty());
    let all_asked = async || {
        // Whatever is on record is done, and reported, before it can be settled.
        while !is_settled() && begun.elapsed() < SETTLED_WITHIN {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    all_asked().await;
    caller.line.hears_silence(1_500).await;
    let (_, ear) = caller.hang_up().await.expect("the box answers");
    boxed.is_idle().await.expect("idle");
    let ends = states(stage.history());
    assert!(boxed.stops().await.expect("it stops").success());
    Life { asks: None, ear, begins, ends }
}

async fn starts(stage: &Stage, ready: &mut Vec<Duration>) -> BoxProcess {
    let begun = Instant::now();
    let boxed = BoxProcess::start(program(), &stage.config(), |_| ()).await.expect("the box starts");
    ready.push(begun.elapsed());
    boxed
}

fn told(kills: &[Kill]) -> String {
    let each = kills.iter().map(|kill| {
        let what = if kill.while_starting { "starting" } else { "after" };
        format!("{what} {:.2} s", kill.after_ms as f64 / 1_000.0)
    });
    format!("killed {}:", each.collect::<Vec<_>>().join(", "))
}

/// In the ordinary run of all tests.
const KILLS: u64 = 5;

/// Boxes that run at a time.
const AT_ONCE: usize = 4;

/// From before the caller dials up to after the last closing.
const STORY_MS: u64 = 24_000;

/// A start takes about a tenth of a second.
const START_MS: u64 = 150;

/// The longest is evidence, which comes within fifteen seconds of each closing.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);

const CALLER: &str = "600123456";
