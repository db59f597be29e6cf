//! What happens within the conversation: a request, its acceptance, and a closing that waits for its moment.

use recado_core::conversation::Evidence;
use recado_core::ledger::{DeliveryState, OperationState};
use serde_json::json;

use super::caller::Caller;
use super::sound::{MS, callers_speech, cough, phrase};
use super::stage::{ACCEPTED, CLOSING, SHORT, Stage};

/// Asks for a table with the first turn, and answers every other one.
pub const DIALOGUE: &str = r#"
[greeting]
say = { en = "Hello, this is the errand runner." }
[[turn]]
call = { tool = "table" }
[digit.1]
call = { tool = "table" }
[digit.5]
say = { en = "You pressed the number five." }
[digit."*"]
say = { en = "That was a star." }
[otherwise]
say = { en = "Go ahead." }
"#;

const REQUEST: &str = "Good evening, I would like a table for two, please.";

/// Asks for a table, and waits until the acceptance has been heard.
pub async fn asks_for_a_table(stage: &Stage, caller: &mut Caller) {
    caller.hears_something().await;
    let saying = caller.says(&callers_speech(REQUEST).await).await;
    caller.has_said(&saying).await;
    stage.tools.asked("table", 1).await.expect("asked");
    caller.hears_something().await;
}

/// The same by a key, which takes less time.
pub async fn orders_a_table(stage: &Stage, caller: &mut Caller) {
    caller.hears_something().await;
    caller.presses("1").await;
    stage.tools.asked("table", 1).await.expect("asked");
    caller.hears_something().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_accepted_and_its_closing_is_heard_once_on_evidence_of_the_far_end() {
    let Some(stage) = Stage::set(DIALOGUE).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    asks_for_a_table(&stage, &mut caller).await;
    assert_eq!(stage.tools.report("table", json!({ "at": "half past nine" })).await.expect("answered"), 200);
    caller.hears_something().await;
    boxed.log.seen("evidence", |line| line["message"] == "delivery settled").await.expect("seen");
    let heard = caller.hangs_up().await;

    let accepted = heard.once("the acceptance", &phrase(ACCEPTED).await);
    assert!(heard.once("the closing", &phrase(CLOSING).await) > accepted);
    assert_eq!(stage.tools.effects("table"), 1);
    boxed.is_idle().await.expect("idle");
    let history = stage.history();
    let [operation] = &history.operations[..] else { panic!("{history:?}") };
    assert_eq!((operation.state, operation.attempt), (OperationState::Succeeded, 1));
    let [delivery] = &history.deliveries[..] else { panic!("{history:?}") };
    assert_eq!((delivery.state, delivery.attempt), (DeliveryState::Spoken, 0));
    assert_eq!(delivery.clauses.iter().map(|clause| clause.heard).collect::<Vec<_>>(), [Some(Evidence::Received)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_comes_while_the_caller_speaks_waits_until_the_caller_has_spoken() {
    let Some(stage) = Stage::set(DIALOGUE).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    asks_for_a_table(&stage, &mut caller).await;
    let long = "While you do that let me tell you that we are coming by train and that we may be ten minutes late because of the rain.";
    let saying = caller.says(&callers_speech(long).await).await;
    caller.has_said_ms(&saying, 2_000).await;
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);
    let said = caller.has_said(&saying).await;
    caller.hears_something().await;
    caller.hears_silence(2_000).await;
    let heard = caller.hangs_up().await;

    let closing = phrase(CLOSING).await;
    assert!(said.ends_ms - said.begins_ms > 5_000, "{said:?}");
    assert_eq!(heard.voice_within(said.begins_ms, said.ends_ms), None, "the box talked over the caller: {said:?}");
    let told = heard.once("the closing", &closing);
    let pieces = heard.find_pieces(&closing);
    assert!(told > said.ends_ms && pieces.iter().all(|at| *at >= told), "{said:?}, told at {told}, pieces at {pieces:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_comes_during_playback_is_told_after_it_and_a_quiet_moment() {
    const OPEN: &str = "Hello, tonight we are open until midnight and the kitchen closes at eleven.";
    let dialogue = format!("[greeting]\nsay = {{ en = {OPEN:?} }}\ncall = {{ tool = \"table\" }}\n[otherwise]\nsay = {{ en = \"Go.\" }}\n");
    let Some(stage) = Stage::set(&dialogue).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    stage.tools.asked("table", 1).await.expect("asked");
    caller.hears_voice(500).await;
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);
    boxed.log.seen("evidence", |line| line["message"] == "delivery settled").await.expect("seen");
    let heard = caller.hangs_up().await;

    let mut running = Vec::new();
    for text in [OPEN, ACCEPTED] {
        let phrase = phrase(text).await;
        running.push(heard.once(text, &phrase) + phrase.len() / MS);
    }
    let told = heard.once("the closing", &phrase(CLOSING).await);
    let ended = running.into_iter().max().unwrap_or_default();
    assert!(told >= ended + MIN_QUIET_MS, "told at {told} ms, and what ran ended at {ended} ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_closing_is_told_to_its_end_once_and_its_operation_is_not_cancelled() {
    let Some(stage) = Stage::set(DIALOGUE).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    asks_for_a_table(&stage, &mut caller).await;
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);
    caller.hears_voice(1_200).await;
    let saying = caller.says(&callers_speech("Wait a moment please, there will be three of us after all.").await).await;
    let said = caller.has_said(&saying).await;
    caller.hears_something().await;
    caller.hears_silence(2_000).await;
    let heard = caller.hangs_up().await;

    // 200 ms of voice confirm that the caller speaks, which may take twice as long; what is on the way is still heard.
    let talked = heard.voice_within(said.begins_ms + 700, said.ends_ms);
    assert_eq!(talked, None, "the box went on: {said:?}");
    let (closing, short) = (phrase(CLOSING).await, phrase(SHORT).await);
    assert!(heard.find_pieces(&closing).iter().any(|at| *at < said.begins_ms), "the closing had begun");
    let (whole, short) = (heard.find(&closing), heard.find(&short));
    assert_eq!(whole.len() + short.len(), 1, "whole at {whole:?}, in short at {short:?}");
    assert!(whole.iter().chain(&short).all(|at| *at > said.ends_ms), "{said:?}: whole at {whole:?}, in short at {short:?}");
    boxed.is_idle().await.expect("idle");
    let history = stage.history();
    assert_eq!(history.operations.iter().map(|operation| operation.state).collect::<Vec<_>>(), [OperationState::Succeeded]);
    assert_eq!(history.deliveries.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), [DeliveryState::Spoken]);
    assert_eq!(stage.tools.effects("table"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cough_pauses_a_closing_at_most_and_no_word_is_lost_or_repeated() {
    let Some(stage) = Stage::set(DIALOGUE).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    asks_for_a_table(&stage, &mut caller).await;
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);
    caller.hears_voice(1_200).await;
    let saying = caller.says(&cough()).await;
    caller.has_said(&saying).await;
    boxed.log.seen("the box to pause", |line| line["acoustic"] == "Suspected" && line["playback"] == "Some(Paused)").await.expect("seen");
    caller.hears_silence(2_500).await;
    let heard = caller.hangs_up().await;

    let closing = phrase(CLOSING).await;
    let (joined, paused_ms) = heard.without_pause_in(&closing);
    assert!((20..=PAUSE_MS_MAX).contains(&paused_ms), "paused for {paused_ms} ms");
    joined.once("the closing, without its pause,", &closing);
    assert!(heard.find(&phrase(SHORT).await).is_empty(), "told again, in short");
    boxed.is_idle().await.expect("idle");
    let history = stage.history();
    let [delivery] = &history.deliveries[..] else { panic!("{history:?}") };
    assert_eq!((delivery.state, delivery.attempt), (DeliveryState::Spoken, 0));
    assert_eq!(history.operations[0].state, OperationState::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_reach_the_steps_that_are_written_for_them() {
    let Some(stage) = Stage::set(DIALOGUE).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    caller.hears_something().await;
    caller.presses("5").await;
    caller.hears_something().await;
    caller.presses("*").await;
    caller.hears_something().await;
    let heard = caller.hangs_up().await;

    let five = heard.once("the answer to 5", &phrase("You pressed the number five.").await);
    assert!(heard.once("the answer to *", &phrase("That was a star.").await) > five);
}

/// Quiet before a result is told, by default (ms).
const MIN_QUIET_MS: usize = 650;

/// A false start is forgotten within a second.
const PAUSE_MS_MAX: usize = 1_000;
