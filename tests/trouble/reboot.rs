//! The box as a service, in trouble: systemd is PID 1 of a machine in systemd-nspawn, and starts the box again.
//!
//! Needs root and a root file system: `./dev reboot-test` sees to both. Each case finds a call up, one operation running and
//! one closing waiting for the caller to finish speaking.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use recado::coordination::History;
use recado::demo::{Asked, Caller, Ear};
use recado::surface::speech::wav;
use recado_core::ledger::DeliveryState;
use serde_json::json;

use crate::hang::hangs;
use crate::judge::{Life, Verdict, judge, states};
use crate::machine::Machine;
use crate::reports::told;
use crate::story::{Stage, says, sentences, speech_is_there};

#[derive(Debug, Clone, Copy)]
enum Trouble {
    Killed,
    MediaHangs,
    Restarted,
    PowerLost,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root and systemd-nspawn: ./dev reboot-test"]
async fn started_again_by_systemd_nothing_is_lost_nothing_told_twice_and_effects_are_had_once() {
    assert!(speech_is_there());
    let archive = PathBuf::from(std::env::var_os("RECADO_REBOOT_ROOT").expect("RECADO_REBOOT_ROOT names the archive: ./dev reboot-test"));
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    Machine::install(&root, &archive);
    let stage = Stage::of_service(root.join("etc/recado"), root.join("var/lib/private/recado")).await;
    let begun_us = now_us();
    let mut machine = Machine::boot(&root);
    println!("booted: ready {} ms after nspawn was started", (machine.is_ready_after(begun_us) - begun_us) / 1_000);
    let mut broken = 0;
    for (number, trouble) in [Trouble::Killed, Trouble::MediaHangs, Trouble::Restarted, Trouble::PowerLost].into_iter().enumerate() {
        let (verdict, ready_ms);
        (machine, verdict, ready_ms) = case(&stage, machine, &root, number, trouble).await;
        broken += usize::from(!verdict.faults.is_empty());
        println!("{:<42} ready {ready_ms:>6} ms later: {verdict}", trouble.in_words());
    }
    security(&root.join("etc/systemd/system/recado.service"));
    assert_eq!(broken, 0, "cases broke a promise");
}

/// One case, from a call in which work is asked for to a call in which all of it has been told.
async fn case(stage: &Stage, machine: Machine, root: &Path, number: usize, trouble: Trouble) -> (Machine, Verdict, u64) {
    // The dialogue is read at the start.
    stage.next_life(Some(number));
    let since = now_us();
    assert!(machine.runs(&["systemctl", "restart", "recado.service"]).status.success());
    machine.is_ready_after(since);
    let begins = states(stage.history());
    let caller = Caller::dial(stage.sip, CALLER).await.expect("the box answers");
    waits_with_one_running_and_one_pending(stage, &caller, number).await;

    stage.next_life(None);
    let struck_us = now_us();
    let (machine, said, ear) = strikes(machine, root, stage, trouble, caller).await;
    let ends = states(stage.history());
    let ready_us = machine.is_ready_after(struck_us);

    let first = Life { asks: Some(number), owes: sentences(number).len(), said, ear, cuts: stage.cuts(), begins, ends };
    let begins = states(stage.history());
    let [_, _, invoice] = sentences(number);
    stage.tools.asked("invoice", number as u32 * 2 + 2).await.expect("asked again, under its key");
    reports(stage, invoice).await;
    let caller = Caller::dial(stage.sip, CALLER).await.expect("the box answers");
    stage.is_settled().await;
    caller.line.hears_silence(1_500).await;
    let (said, ear) = caller.hang_up().await.expect("the box answers");
    let second = Life { said, ear, cuts: stage.cuts(), begins, ends: states(stage.history()), ..Life::default() };
    let (history, asked) = of_case(stage, number);
    let mut verdict = judge(&[first, second], &history, &asked).await;
    let pending = machine.runs(&["recado", "pending", "-c", "/etc/recado/recado.toml", "--set", "box.data_dir=/var/lib/recado"]);
    if !String::from_utf8_lossy(&pending.stdout).contains("Nothing waits and nothing runs.") {
        verdict.faults.push(format!("recado pending says {pending:?}"));
    }
    (machine, verdict, (ready_us - struck_us) / 1_000)
}

/// What is on record, and what the tools were asked, of what this case asked for.
fn of_case(stage: &Stage, number: usize) -> (History, Vec<Asked>) {
    let is_of_case = |told: &str| sentences(number).contains(&told);
    let mut history = stage.history().expect("a store");
    history.operations.retain(|operation| operation.arguments["told"].as_str().is_some_and(is_of_case));
    history.deliveries.retain(|delivery| history.operations.iter().any(|operation| operation.batch == delivery.batch));
    (history, stage.tools.all().into_iter().filter(|asked| is_of_case(told(asked))).collect())
}

/// A call up to where the caller is speaking, one operation runs, and one closing waits until the caller has spoken.
async fn waits_with_one_running_and_one_pending(stage: &Stage, caller: &Caller, number: usize) {
    let line = &caller.line;
    let [table, transfer, invoice] = sentences(number);
    line.hears_voice(200).await;
    line.hears_silence(600).await;
    // Asks for the table and the transfer, says something, and asks for the invoice.
    for _ in 0..3 {
        says(caller).await;
        line.hears_voice(200).await;
        line.hears_silence(600).await;
    }
    for sentence in [table, transfer, invoice] {
        is_asked(stage, sentence).await;
    }
    line.say(&wav::read(SMALL_TALK).expect("a recording"));
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    for sentence in [table, transfer] {
        reports(stage, sentence).await;
    }
    let pending = stage.pending().expect("a store");
    let waiting: Vec<DeliveryState> = pending.deliveries.iter().map(|delivery| delivery.record.state).collect();
    assert_eq!((pending.operations.len(), waiting), (1, vec![DeliveryState::Ready]), "one runs and one waits");
}

async fn strikes(machine: Machine, root: &Path, stage: &Stage, trouble: Trouble, caller: Caller) -> (Machine, Vec<i16>, Ear) {
    let (machine, (said, ear)) = match trouble {
        Trouble::Killed => {
            let process = machine.box_process().to_string();
            assert!(Command::new("kill").args(["-9", &process]).status().expect("kill runs").success());
            (machine, caller.dropped())
        }
        Trouble::MediaHangs => {
            let restarts = machine.unit("NRestarts");
            let tracer = hangs(machine.box_process(), "recado-media").expect("root may trace");
            let begun = Instant::now();
            let health = says_of_itself(stage, "media: no progress").await;
            println!("  the media thread hangs; after {:.1} s /health says: {health}", begun.elapsed().as_secs_f64());
            tokio::task::spawn_blocking(move || tracer.join()).await.expect("waited").expect("traced to its end");
            println!("  the watchdog ended the box {:.1} s after it began to hang", begun.elapsed().as_secs_f64());
            crate::machine::patiently("the restart to be counted", || (machine.unit("NRestarts") != restarts).then_some(()));
            (machine, caller.dropped())
        }
        Trouble::Restarted => {
            let restarts = async {
                let restarted = machine.runs(&["systemctl", "restart", "--no-block", "recado.service"]);
                assert!(restarted.status.success(), "{restarted:?}");
            };
            let (heard, ()) = tokio::join!(caller.is_hung_up(), restarts);
            (machine, heard.expect("the box hangs up"))
        }
        Trouble::PowerLost => {
            machine.loses_power();
            (Machine::boot(root), caller.dropped())
        }
    };
    (machine, said, ear)
}

async fn is_asked(stage: &Stage, sentence: &str) -> Asked {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(asked) = stage.tools.all().into_iter().find(|asked| told(asked) == sentence) {
            return asked;
        }
        assert!(Instant::now() < deadline, "nobody asked for {sentence:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn reports(stage: &Stage, sentence: &str) {
    let report = json!({ "status": "succeeded", "result": {} });
    assert_eq!(is_asked(stage, sentence).await.report(&report).await.expect("the box answers"), 200);
}

/// Waits until `/health` names a problem. All that it says.
async fn says_of_itself(stage: &Stage, problem: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let health = recado::demo::health(stage.http).await.map(|health| health.to_string()).unwrap_or_default();
        if health.contains(problem) {
            return health;
        }
        assert!(Instant::now() < deadline, "/health does not say {problem:?} but {health}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Prints what systemd thinks of the unit's confinement.
fn security(unit: &Path) {
    let output = Command::new("systemd-analyze").args(["security", "--no-pager", "--offline=yes", "--threshold=20"]).arg(unit).output();
    let output = output.expect("systemd-analyze runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("systemd-analyze security: {}", text.lines().last().unwrap_or_default().trim_start_matches("→ "));
    assert!(output.status.success(), "above the threshold of 2.0: {text}");
}

/// CLOCK_MONOTONIC (µs), as systemd notes it.
#[allow(unsafe_code)]
fn now_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that lives through the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

impl Trouble {
    fn in_words(self) -> &'static str {
        match self {
            Self::Killed => "kill -9",
            Self::MediaHangs => "the media thread hangs",
            Self::Restarted => "systemctl restart in mid-call",
            Self::PowerLost => "power cut: PID 1 killed, booted again",
        }
    }
}

const SMALL_TALK: &[u8] = include_bytes!("../../src/demo/speech/en/small_talk.wav");

const CALLER: &str = "600123456";
