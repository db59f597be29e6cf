//! kill -9 at random moments, again and again.
//!
//! `RECADO_KILLS` says how many kills (`./dev kill-test N`), `RECADO_SEED` repeats the plan of another run: who speaks when,
//! what is reported when, and when the box is killed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado::demo::{BoxProcess, Caller, Ear, command};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::judge::{Life, Verdict, judge, states};
use crate::random::Random;
use crate::reports::{Reports, reported};
use crate::story::{LIVES_MAX, Manners, Stage, asks, program, sentences, speech_is_there};

/// One box, killed one or several times.
#[derive(Debug)]
struct Plan {
    number: usize,
    kills: Vec<Kill>,
    report_after_ms: [u64; 8],
}

#[derive(Debug)]
struct Kill {
    moment: Moment,
    /// How long after that (ms).
    after_ms: u64,
    manners: Manners,
}

/// From when the time to the kill is counted.
#[derive(Debug)]
enum Moment {
    /// The start of the process: it dies before it is ready.
    Start,
    /// The caller dials.
    Dialled,
    /// The box has logged this so many times. What is at stake lasts for a fraction of a second.
    Said(&'static str, usize),
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
    let kills = of_environment("RECADO_KILLS").unwrap_or(KILLS).max(1) as usize;
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

/// The first kill comes when something is on record for certain: without it a short run might ask for nothing at all.
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
    if let Some(first) = plans.first_mut().and_then(|plan: &mut Plan| plan.kills.first_mut()) {
        (first.moment, first.after_ms) = (Moment::Said("claim asked for", 1), first.after_ms % 2_500);
    }
    plans
}

fn kill(random: &mut Random) -> Kill {
    let (moment, within_ms) = match random.below(12) {
        0 => (Moment::Start, START_MS),
        1..=4 => (Moment::Dialled, STORY_MS),
        _ => {
            let (message, times_max, within_ms) = SAID[random.below(SAID.len() as u64) as usize];
            (Moment::Said(message, 1 + random.below(times_max) as usize), within_ms)
        }
    };
    Kill { moment, after_ms: random.below(within_ms), manners: Manners::draw(random) }
}

async fn play(plan: Plan, folder: PathBuf) -> Outcome {
    let stage = Stage::set(folder.clone()).await;
    let reports = reported(stage.tools.clone(), plan.report_after_ms);
    let (mut lives, mut ready) = (Vec::new(), Vec::new());
    for (number, kill) in plan.kills.iter().enumerate() {
        stage.next_life(Some(number));
        lives.push(if matches!(kill.moment, Moment::Start) {
            dies_while_starting(&stage, kill).await
        } else {
            lives_until(&stage, number, kill, &mut ready).await
        });
    }
    stage.next_life(None);
    lives.push(last_life(&stage, &reports, &mut ready).await);
    drop(reports);
    let history = stage.history().expect("a store");
    let asked = stage.tools.all();
    // It computes for seconds. The callers of the other stories listen meanwhile, and must not miss when to speak.
    let verdict = tokio::task::block_in_place(|| Handle::current().block_on(judge(&lives, &history, &asked)));
    if !verdict.faults.is_empty() {
        lives.iter().enumerate().for_each(|(number, life)| keep(&life.ear, &folder.join(format!("heard-{number}.wav"))));
    }
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
    Life { begins, ends, ..Life::default() }
}

/// A life in which the caller asks for work, until the box is killed.
async fn lives_until(stage: &Stage, number: usize, kill: &Kill, ready: &mut Vec<Duration>) -> Life {
    let boxed = starts(stage, ready).await;
    let begins = states(stage.history());
    let nothing_waits = stage.pending().is_some_and(|pending| pending.operations.is_empty() && pending.deliveries.is_empty());
    let mut caller = None;
    let (mut said, mut ear) = (Vec::new(), Ear::default());
    let (mut told_to_its_end, mut seen) = (false, true);
    let story = async {
        // The box may be killed while it is dialled.
        if let Ok(up) = Caller::dial(boxed.sip, CALLER).await {
            asks(caller.insert(up), &kill.manners).await;
            told_to_its_end = true;
            if kill.manners.hangs_up
                && let Some(up) = caller.take()
                && let Ok(both) = up.hang_up().await
            {
                (said, ear) = both;
            }
        }
        std::future::pending::<()>().await;
    };
    let end = async {
        if let Moment::Said(message, times) = kill.moment {
            // In some courses of the story it is never said: then this is a kill at the end of it.
            seen = boxed.log.seen_times(message, times, |line| line["message"] == message).await.is_ok();
        }
        tokio::time::sleep(Duration::from_millis(kill.after_ms)).await;
    };
    tokio::select! {
        () = story => {}
        () = end => {}
    }
    boxed.kill();
    if let Some(up) = caller {
        (said, ear) = up.dropped();
    }
    let owes = match kill.moment {
        _ if told_to_its_end => sentences(number).len(),
        Moment::Start | Moment::Dialled => 0,
        // It is logged before it is durable.
        Moment::Said(ASKED_FOR, _) if seen => 0,
        // What is attempted, reported or told may be of an earlier life.
        Moment::Said(..) if seen => usize::from(nothing_waits),
        Moment::Said(..) => 1,
    };
    Life { asks: Some(number), owes, said, ear, cuts: stage.cuts(), begins, ends: states(stage.history()) }
}

/// The last life: what is owed is told, and nothing new is asked for.
async fn last_life(stage: &Stage, reports: &Reports, ready: &mut Vec<Duration>) -> Life {
    let boxed = starts(stage, ready).await;
    let begins = states(stage.history());
    let caller = Caller::dial(boxed.sip, CALLER).await.expect("the box answers");
    // Whatever is on record is done and reported by and by, and then told.
    stage.is_settled().await;
    // What was not known is settled by a report, and then corrected.
    reports.are_taken().await;
    stage.is_settled().await;
    caller.line.hears_silence(1_500).await;
    let (said, ear) = caller.hang_up().await.expect("the box answers");
    boxed.is_idle().await.expect("idle");
    let ends = states(stage.history());
    assert!(boxed.stops().await.expect("it stops").success());
    Life { said, ear, cuts: stage.cuts(), begins, ends, ..Life::default() }
}

async fn starts(stage: &Stage, ready: &mut Vec<Duration>) -> BoxProcess {
    let begun = Instant::now();
    let boxed = BoxProcess::start(program(), &stage.config(), |_| ()).await.expect("the box starts");
    ready.push(begun.elapsed());
    boxed
}

/// Keeps what was heard in a life, for whoever looks into a fault.
fn keep(ear: &Ear, file: &Path) {
    let spec = hound::WavSpec { channels: 1, sample_rate: 8_000, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
    let mut writer = hound::WavWriter::create(file, spec).expect("a WAV");
    ear.samples.iter().for_each(|sample| writer.write_sample(*sample).expect("written"));
    writer.finalize().expect("finished");
}

fn told(kills: &[Kill]) -> String {
    let each = kills.iter().map(|kill| {
        let since = match kill.moment {
            Moment::Start => "its start".to_owned(),
            Moment::Dialled => "the caller dialled".to_owned(),
            Moment::Said(message, times) => format!("'{message}' {times}"),
        };
        format!("{} ms after {since}", kill.after_ms)
    });
    format!("killed {}:\n        ", each.collect::<Vec<_>>().join(", "))
}

/// In the ordinary run of all tests.
const KILLS: u64 = 5;

/// Boxes that run at a time.
const AT_ONCE: usize = 4;

/// From before the caller dials up to after the last closing.
const STORY_MS: u64 = 24_000;

/// What the box logs where something is at stake: how often in a life, and for how long (ms).
const SAID: [(&str, u64, u64); 8] = [
    (ASKED_FOR, 3, 60),
    ("attempt sent", 3, 60),
    ("attempt taken: the result comes by callback", 3, 300),
    ("callback", 3, 60),
    ("claim asked for", 3, 2_500),
    ("claim asked for", 3, 100),
    ("delivery settled", 2, 100),
    ("call ended", 1, 1_200),
];

const ASKED_FOR: &str = "operation asked for";

/// A start takes about a tenth of a second.
const START_MS: u64 = 150;

const CALLER: &str = "600123456";
