//! What survives the end of the box, sudden or in order.

use recado_core::ledger::{DeliveryState, OperationState};
use serde_json::json;

use super::sound::phrase;
use super::stage::{CLOSING, MUTE, SHORT, Stage};
use super::talk::{DIALOGUE, orders_a_table};

#[tokio::test(flavor = "multi_thread")]
async fn after_a_power_cut_between_the_effect_and_its_answer_there_is_one_effect_and_one_closing() {
    let Some(stage) = Stage::set(&DIALOGUE.replace("table\"", &format!("{MUTE}\""))).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    caller.hears_something().await;
    caller.presses("1").await;
    stage.tools.asked(MUTE, 1).await.expect("asked");
    caller.hears_something().await;
    boxed.kill();
    let first = caller.recording();

    let boxed = stage.box_runs().await;
    stage.tools.asked(MUTE, 2).await.expect("asked");
    let mut caller = stage.calls("alice", &boxed).await;
    // What is due comes with the greeting.
    caller.hears_something().await;
    caller.hears_silence(2_500).await;
    let second = caller.hangs_up().await;
    boxed.is_idle().await.expect("idle");

    let closing = phrase(CLOSING).await;
    assert!(first.find_pieces(&closing).is_empty());
    second.once("the closing", &closing);
    assert_eq!(stage.tools.effects(MUTE), 1);
    let history = stage.history();
    assert_eq!((history.operations[0].state, history.operations[0].attempt), (OperationState::Succeeded, 2));
    assert_eq!(history.deliveries.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), [DeliveryState::Spoken]);
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_in_the_middle_of_a_closing_the_box_hangs_up_commits_and_tells_it_after_the_restart() {
    let Some(stage) = Stage::set(DIALOGUE).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    orders_a_table(&stage, &mut caller).await;
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);
    caller.hears_voice(1_000).await;
    let (status, ()) = tokio::join!(boxed.stops(), caller.is_hung_up());
    let status = status.expect("stopped");
    assert!(status.success(), "{status}");
    let first = caller.ends().await;

    let pending = stage.pending();
    let [delivery] = &pending.deliveries[..] else { panic!("{pending:?}") };
    assert_eq!((delivery.record.state, delivery.record.attempt, delivery.claim), (DeliveryState::Ready, 1, None));

    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    // What is due comes with the greeting.
    caller.hears_something().await;
    caller.hears_silence(2_500).await;
    let second = caller.hangs_up().await;
    boxed.is_idle().await.expect("idle");

    let (closing, short) = (phrase(CLOSING).await, phrase(SHORT).await);
    assert!(!first.find_pieces(&closing).is_empty() && first.find(&closing).is_empty(), "it was cut");
    let told = [second.find(&closing), second.find(&short)].concat();
    assert_eq!(told.len(), 1, "told at {told:?}");
    assert_eq!(stage.history().deliveries[0].state, DeliveryState::Spoken);
}
