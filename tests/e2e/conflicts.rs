//! Operations that come in each other's way. The caller asks with keys.

use recado_core::ledger::{DeliveryState, OperationState};
use serde_json::json;

use super::caller::Caller;
use super::sound::{MS, phrase};
use super::stage::{ALARM, CINEMA, CLOSING, Stage, TAXI, TAXI_SENT_AWAY, THEATRE};

const LONG: &str = "While you wait I will tell you all about the house that was built here by the sea some hundred years ago.";

fn dialogue() -> String {
    format!(
        r#"
[greeting]
say = {{ en = "Hello." }}
[digit.1]
call = {{ tool = "table" }}
[digit.2]
call = [{{ tool = "table" }}, {{ tool = "taxi" }}]
[digit.3]
call = {{ tool = "cinema" }}
[digit.4]
call = {{ tool = "theatre" }}
[digit.5]
call = {{ tool = "alarm" }}
[digit.6]
say = {{ en = "{LONG}" }}
[digit.7]
call = {{ tool = "taxi" }}
[digit.0]
cancel = "*"
say = {{ en = "All right." }}
[otherwise]
say = {{ en = "Go ahead." }}
"#
    )
}

/// Presses a key and waits until `tools` have been asked and the acceptance was heard.
async fn orders(stage: &Stage, caller: &mut Caller, key: &str, tools: &[&str]) {
    caller.presses(key).await;
    for tool in tools {
        stage.tools.asked(tool, 1).await.expect("asked");
    }
    caller.hears_something().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tools_of_a_batch_that_finish_in_reverse_order_close_together_in_the_order_of_asking() {
    let Some(stage) = Stage::set(&dialogue()).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    caller.hears_something().await;
    orders(&stage, &mut caller, "2", &["table", "taxi"]).await;
    assert_eq!(stage.tools.report("taxi", json!({})).await.expect("answered"), 200);
    caller.hears_silence(2_000).await;
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);
    caller.hears_something().await;
    caller.hears_silence(2_000).await;
    let heard = caller.hangs_up().await;

    let table = phrase(CLOSING).await;
    let told = heard.once("the table", &table);
    let next = heard.once("the taxi", &phrase(TAXI).await);
    assert!((told + table.len() / MS..told + table.len() / MS + 500).contains(&next), "told at {told} and at {next} ms");
    boxed.is_idle().await.expect("idle");
    assert_eq!(stage.history().deliveries.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), [DeliveryState::Spoken]);
    assert_eq!((stage.tools.effects("table"), stage.tools.effects("taxi")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_comes_too_late_is_said_truthfully_and_once() {
    let Some(stage) = Stage::set(&dialogue()).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    caller.hears_something().await;
    orders(&stage, &mut caller, "1", &["table"]).await;
    orders(&stage, &mut caller, "0", &[]).await;
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);
    caller.hears_something().await;
    caller.hears_silence(1_500).await;
    let heard = caller.hangs_up().await;

    heard.once("the closing", &phrase(&format!("It was too late to cancel it. {CLOSING}")).await);
    boxed.is_idle().await.expect("idle");
    let history = stage.history();
    assert_eq!(history.operations.iter().map(|operation| operation.state).collect::<Vec<_>>(), [OperationState::TooLate]);
    assert_eq!(history.deliveries.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), [DeliveryState::Spoken]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_a_tool_carries_out_is_confirmed_once_and_leaves_no_effect() {
    let Some(stage) = Stage::set(&dialogue()).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    caller.hears_something().await;
    orders(&stage, &mut caller, "7", &["taxi"]).await;
    caller.presses("0").await;
    boxed.log.seen("evidence of what became of it", |line| line["message"] == "delivery settled").await.expect("seen");
    caller.listens_from_now();
    caller.hears_silence(1_500).await;
    let heard = caller.hangs_up().await;

    heard.once("what became of it", &phrase(TAXI_SENT_AWAY).await);
    assert_eq!(heard.find_pieces(&phrase(TAXI).await), [0_usize; 0]);
    boxed.is_idle().await.expect("idle");
    assert_eq!((stage.tools.cancels("taxi"), stage.tools.effects("taxi")), (1, 0));
    let history = stage.history();
    assert_eq!(history.operations.iter().map(|operation| operation.state).collect::<Vec<_>>(), [OperationState::Compensated]);
    assert_eq!(history.deliveries.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), [DeliveryState::Spoken]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_request_on_the_same_topic_makes_the_older_result_obsolete() {
    let Some(stage) = Stage::set(&dialogue()).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    caller.hears_something().await;
    orders(&stage, &mut caller, "3", &["cinema"]).await;
    orders(&stage, &mut caller, "4", &["theatre"]).await;
    assert_eq!(stage.tools.report("cinema", json!({})).await.expect("answered"), 200);
    caller.hears_silence(2_000).await;
    assert_eq!(stage.tools.report("theatre", json!({})).await.expect("answered"), 200);
    caller.hears_something().await;
    caller.hears_silence(2_000).await;
    let heard = caller.hangs_up().await;

    assert_eq!(heard.find_pieces(&phrase(CINEMA).await), [0_usize; 0]);
    heard.once("the newer result", &phrase(THEATRE).await);
    boxed.is_idle().await.expect("idle");
    let states = stage.history().deliveries.iter().map(|delivery| delivery.state).collect::<Vec<_>>();
    assert_eq!(states, [DeliveryState::Superseded, DeliveryState::Spoken]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_urgent_result_cuts_the_box_short_and_a_normal_one_waits() {
    let Some(stage) = Stage::set(&dialogue()).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    caller.hears_something().await;
    orders(&stage, &mut caller, "1", &["table"]).await;
    orders(&stage, &mut caller, "5", &["alarm"]).await;
    caller.presses("6").await;
    caller.hears_voice(500).await;
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);
    caller.hears_voice(500).await;
    assert_eq!(stage.tools.report("alarm", json!({})).await.expect("answered"), 200);
    boxed.log.seen_times("evidence of both", 2, |line| line["message"] == "delivery settled").await.expect("seen");
    let heard = caller.hangs_up().await;

    let long = phrase(LONG).await;
    let begun = *heard.find_pieces(&long).first().expect("the long answer was begun");
    let urgent = heard.once("the urgent result", &phrase(ALARM).await);
    assert!((begun..begun + long.len() / MS).contains(&urgent), "begun at {begun}, urgent at {urgent} ms");
    assert!(heard.once("the normal result", &phrase(CLOSING).await) > urgent + MIN_QUIET_MS);
    boxed.is_idle().await.expect("idle");
    let states = stage.history().deliveries.iter().map(|delivery| delivery.state).collect::<Vec<_>>();
    assert_eq!(states, [DeliveryState::Spoken, DeliveryState::Spoken]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_that_was_generated_and_not_played_to_its_end_is_not_told() {
    let Some(stage) = Stage::set(&dialogue()).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    caller.hears_something().await;
    orders(&stage, &mut caller, "1", &["table"]).await;
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);
    caller.hears_voice(1_500).await;
    let heard = caller.hangs_up().await;
    boxed.is_idle().await.expect("idle");

    assert!(heard.find(&phrase(CLOSING).await).is_empty());
    let pending = stage.pending();
    let [delivery] = &pending.deliveries[..] else { panic!("{pending:?}") };
    assert_eq!((delivery.record.state, delivery.claim), (DeliveryState::Ready, None));
}

/// Quiet before a result is told, by default (ms).
const MIN_QUIET_MS: usize = 650;
