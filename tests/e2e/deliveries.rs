//! What becomes of results beyond one conversation: reported twice, or ready when nobody is on the line.

use recado_core::ledger::DeliveryState;
use serde_json::json;

use super::instances::shown_as_pending;
use super::sound::phrase;
use super::stage::{CLOSING, Stage};
use super::talk::{DIALOGUE, orders_a_table};

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_reported_twice_is_told_once_and_a_different_one_is_a_conflict() {
    let Some(stage) = Stage::set(DIALOGUE).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    orders_a_table(&stage, &mut caller).await;
    let (first, second) = tokio::join!(stage.tools.report("table", json!({ "at": 9 })), stage.tools.report("table", json!({ "at": 9 })));
    assert_eq!((first.expect("answered"), second.expect("answered")), (200, 200));
    caller.hears_something().await;
    assert_eq!(stage.tools.report("table", json!({ "at": 9 })).await.expect("answered"), 200, "also when it has been told");
    assert_eq!(stage.tools.report("table", json!({ "at": 11 })).await.expect("answered"), 409);
    caller.hears_silence(2_000).await;
    let heard = caller.hangs_up().await;

    heard.once("the closing", &phrase(CLOSING).await);
    boxed.is_idle().await.expect("idle");
    let history = stage.history();
    assert_eq!(history.deliveries.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), [DeliveryState::Spoken]);
    assert_eq!(history.operations[0].result, Some(json!({ "at": 9 })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_ready_after_the_caller_has_hung_up_is_told_in_the_next_call_and_to_nobody_else() {
    let Some(stage) = Stage::set(DIALOGUE).await else { return };
    let boxed = stage.box_runs().await;
    let mut alice = stage.calls("alice", &boxed).await;
    orders_a_table(&stage, &mut alice).await;
    let first = alice.hangs_up().await;
    boxed.is_idle().await.expect("idle");
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);

    let mut bob = stage.calls("bob", &boxed).await;
    bob.hears_something().await;
    bob.hears_silence(2_500).await;
    let other = bob.hangs_up().await;
    assert_eq!(stage.pending().deliveries.len(), 1);
    let shown = shown_as_pending(&stage.config());
    assert!(shown.contains(" ready for default/alice") && shown.contains(CLOSING), "{shown}");

    let mut alice = stage.calls("alice", &boxed).await;
    // What is due comes with the greeting.
    alice.hears_something().await;
    alice.hears_silence(2_500).await;
    let second = alice.hangs_up().await;
    boxed.is_idle().await.expect("idle");

    let closing = phrase(CLOSING).await;
    assert!(first.find_pieces(&closing).is_empty() && other.find_pieces(&closing).is_empty());
    second.once("the closing", &closing);
    assert_eq!(stage.history().deliveries.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), [DeliveryState::Spoken]);
    assert_eq!(stage.tools.effects("table"), 1);
}
