//! Who may hear it: what waits for a verified caller is told to whoever keys in the PIN, and to nobody else, in this call or the next.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use recado::demo::BoxProcess;
use recado_core::ledger::DeliveryState;
use serde_json::json;

use super::caller::Caller;
use super::sound::phrase;
use super::stage::{ACCEPTED, PROGRAM, Stage};
use super::talk::DIALOGUE;

const BALANCE: &str = "Your account holds seven hundred euros and not a cent more.";
const ASK: &str = "Somebody has left a message here, so please key in your PIN.";
const AGAIN: &str = "That number is not the one, key it in another time.";
const NOT_VERIFIED: &str = "It stays where it is, for I do not know you well enough.";

/// As many keys as a PIN can have, which nothing else in a log or a trace happens to be.
const PIN: &str = "471503862951";
const WRONG: &str = "902615730488";

/// A box with a tool whose results only a verified caller may hear, and a PIN for alice. All that it can write, it writes.
async fn stage() -> Option<Stage> {
    let stage = Stage::set(&DIALOGUE.replace("\"table\"", "\"account\"")).await?;
    let mut settings = std::fs::read_to_string(stage.config()).expect("settings").replace("level = \"info,", "level = \"debug,");
    settings += &format!(
        "[[tools]]\nname = \"account\"\nurl = \"http://{}/account\"\nidempotent = true\naudience = \"verified_party\"\n\
         say_accepted.en = {ACCEPTED:?}\nsay_done.en = {BALANCE:?}\n\
         [trace]\nmode = \"full\"\n[gate]\nmin_quiet_ms = 1500\n\
         [identity]\npins_file = \"pins\"\nlock_out_after = 3\nsay_ask.en = {ASK:?}\nsay_again.en = {AGAIN:?}\nsay_not_verified.en = {NOT_VERIFIED:?}\n",
        stage.tools.address
    );
    std::fs::write(stage.config(), settings).expect("written");
    let mut sets = Command::new(PROGRAM)
        .args(["pin", "set", "alice", "-c"])
        .arg(stage.config())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("recado runs");
    sets.stdin.take().expect("an input").write_all(format!("{PIN}\n").as_bytes()).expect("it reads");
    let set = sets.wait_with_output().expect("it ends");
    assert!(set.status.success(), "{set:?}");
    Some(stage)
}

/// Asks for the balance by a key, hangs up, and has it come when nobody is there.
async fn asks_and_goes(stage: &Stage, mut caller: Caller) {
    caller.hears_something().await;
    caller.presses("1").await;
    stage.tools.asked("account", 1).await.expect("asked");
    caller.hears_something().await;
    caller.hangs_up().await;
    assert_eq!(stage.tools.report("account", json!({})).await.expect("answered"), 200);
}

/// Keys these in, one after the other, behind `before` others that the box has taken.
async fn keys_in(boxed: &BoxProcess, caller: &mut Caller, keys: &str, before: usize) {
    for (at, key) in keys.chars().enumerate() {
        caller.presses(&key.to_string()).await;
        boxed.log.seen_times("the key", before + at + 1, |line| line["message"] == "digit").await.expect("it is taken");
    }
}

/// All files below a folder, as text.
fn texts(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(texts(&path));
        } else {
            let bytes = std::fs::read(&path).expect("readable");
            found.push((path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn who_keys_in_the_pin_hears_what_waits_once_and_the_pin_is_written_nowhere() {
    let Some(stage) = stage().await else { return };
    let boxed = stage.box_runs().await;
    asks_and_goes(&stage, stage.calls("alice", &boxed).await).await;

    let mut caller = stage.calls("alice", &boxed).await;
    // The greeting, and that there is a message.
    caller.hears_something().await;
    caller.hears_something().await;
    keys_in(&boxed, &mut caller, WRONG, 1).await;
    caller.hears_something().await;
    keys_in(&boxed, &mut caller, PIN, 1 + WRONG.len()).await;
    caller.hears_something().await;
    boxed.log.seen("evidence", |line| line["message"] == "delivery settled").await.expect("seen");
    let heard = caller.hangs_up().await;
    boxed.is_idle().await.expect("idle");

    let (ask, again) = (heard.once("that there is a message", &phrase(ASK).await), heard.once("to try again", &phrase(AGAIN).await));
    let told = heard.once("the closing", &phrase(BALANCE).await);
    assert!(ask < again && again < told, "{ask} {again} {told}");
    assert_eq!(stage.history().deliveries.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), [DeliveryState::Spoken]);
    assert!(boxed.stops().await.expect("stopped").success());

    let folder = stage.config().parent().expect("a folder").to_owned();
    // The telephone's own files apart.
    let written: Vec<(String, String)> = texts(&folder)
        .into_iter()
        .filter(|(name, _)| name.contains("/data/") || name.contains("/recado.") || name.ends_with("/pins"))
        .collect();
    assert!(written.iter().any(|(name, text)| name.ends_with("/recado.log") && text.contains("verification")), "the log is there");
    let traces: Vec<&(String, String)> = written.iter().filter(|(name, _)| name.contains("/traces/")).collect();
    assert_eq!(traces.len(), 3, "two calls' and the ledger's");
    for (name, text) in &written {
        assert!(!text.contains(PIN) && !text.contains(WRONG), "in {name}");
    }
    let log = written.iter().find(|(name, _)| name.ends_with("/recado.log")).map(|(_, text)| text.as_str()).unwrap_or_default();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let of_keys: Vec<_> = lines.filter(|line| line["message"] == "digit").collect();
    assert_eq!(of_keys.len(), 1 + PIN.len() + WRONG.len());
    for line in &of_keys {
        let tells = |value: &serde_json::Value| value.to_string().trim_matches('"').parse::<u8>().is_ok_and(|key| key < 10);
        assert!(!line.as_object().expect("fields").values().any(tells), "which key it was: {line}");
    }
    let keys = |digit: char| format!("{{\"Digit\":\"{digit}\"}}");
    let counted = |digit: char| traces.iter().map(|(_, text)| text.matches(&keys(digit)).count()).sum::<usize>();
    assert_eq!((counted('0'), counted('1')), (PIN.len() + WRONG.len(), 1), "the keys of the PINs, and the one that asked");
    assert_eq!("23456789".chars().map(counted).sum::<usize>(), 0);
    let replayed = Command::new(PROGRAM).arg("replay").args(traces.iter().map(|(name, _)| name)).output().expect("recado runs");
    assert!(replayed.status.success(), "{replayed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_three_wrong_pins_the_right_one_opens_nothing_nor_does_it_after_a_restart() {
    let Some(stage) = stage().await else { return };
    let boxed = stage.box_runs().await;
    asks_and_goes(&stage, stage.calls("alice", &boxed).await).await;

    let mut caller = stage.calls("alice", &boxed).await;
    caller.hears_something().await;
    for attempt in 0..3 {
        // What asks for it.
        caller.hears_something().await;
        keys_in(&boxed, &mut caller, WRONG, 1 + attempt * WRONG.len()).await;
    }
    caller.hears_something().await;
    let first = caller.hangs_up().await;
    boxed.is_idle().await.expect("idle");
    boxed.kill();

    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    caller.hears_something().await;
    caller.hears_something().await;
    keys_in(&boxed, &mut caller, PIN, 0).await;
    boxed.log.seen("the outcome", |line| line["message"] == "verification" && line["outcome"] == "Locked").await.expect("locked");
    caller.hears_something().await;
    caller.hears_silence(2_500).await;
    let second = caller.hangs_up().await;
    boxed.is_idle().await.expect("idle");

    let (again, not_verified, balance) = (phrase(AGAIN).await, phrase(NOT_VERIFIED).await, phrase(BALANCE).await);
    assert_eq!(first.find(&again).len(), 2);
    first.once("that the message stays", &not_verified);
    second.once("that the message stays", &not_verified);
    for heard in [&first, &second] {
        assert!(heard.find_pieces(&balance).is_empty(), "nothing of it is told");
    }
    let pending = stage.pending();
    let [delivery] = &pending.deliveries[..] else { panic!("{pending:?}") };
    assert_eq!((delivery.record.state, delivery.record.attempt), (DeliveryState::Ready, 0));
}
