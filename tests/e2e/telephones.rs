//! What telephones do beside talking: they hold, lose their power, and come in kinds.

use std::collections::BTreeSet;

use recado_core::conversation::Evidence;
use recado_core::ledger::DeliveryState;
use serde_json::json;

use super::caller::Telephone;
use super::sound::{MS, phrase};
use super::stage::{ACCEPTED, CLOSING, Stage};
use super::talk::{DIALOGUE, orders_a_table};

#[tokio::test(flavor = "multi_thread")]
async fn on_hold_nothing_is_told_and_afterwards_it_is_told_on_evidence_of_the_far_end() {
    let Some(stage) = Stage::set(DIALOGUE).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    orders_a_table(&stage, &mut caller).await;
    caller.holds(true).await;
    let on_hold = |state: bool| move |line: &serde_json::Value| line["message"] == "media renegotiated" && line["on_hold"] == state;
    boxed.log.seen("the hold", on_hold(true)).await.expect("seen");
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);
    boxed.log.seen("the gate to be asked", |line| line["blocker"] == "Some(OnHold)").await.expect("seen");
    caller.holds(false).await;
    boxed.log.seen("the end of the hold", on_hold(false)).await.expect("seen");
    // From a hold on, baresip records no more of what it hears, but it still reports on it.
    boxed.log.seen("evidence", |line| line["message"] == "delivery settled").await.expect("seen");
    let heard = caller.hangs_up().await;

    assert_eq!(heard.find_pieces(&phrase(CLOSING).await), [0_usize; 0]);
    boxed.is_idle().await.expect("idle");
    let history = stage.history();
    let [delivery] = &history.deliveries[..] else { panic!("{history:?}") };
    assert_eq!((delivery.state, delivery.attempt), (DeliveryState::Spoken, 0));
    assert_eq!(delivery.clauses[0].heard, Some(Evidence::Received));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_to_a_telephone_without_power_does_not_count_and_is_told_in_the_next_call() {
    let Some(stage) = Stage::set(DIALOGUE).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    orders_a_table(&stage, &mut caller).await;
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);
    caller.hears_voice(800).await;
    let first = caller.loses_power();
    boxed.is_idle().await.expect("idle");
    stage.claims_have_ended();
    let pending = stage.pending();
    let [delivery] = &pending.deliveries[..] else { panic!("{pending:?}") };
    assert_eq!(delivery.record.state, DeliveryState::Uncertain);

    let mut caller = stage.calls("alice", &boxed).await;
    caller.hears_something().await;
    caller.hears_silence(2_500).await;
    let second = caller.hangs_up().await;
    boxed.is_idle().await.expect("idle");
    let closing = phrase(CLOSING).await;
    assert!(first.find(&closing).is_empty());
    let hedge = second.once("the hedge", &phrase("I may have told you already:").await);
    assert!(second.once("the closing", &closing) > hedge);
    assert_eq!(stage.history().deliveries[0].state, DeliveryState::Spoken);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_callers_at_a_time_with_telephones_of_two_kinds_are_each_told_their_own_once() {
    let Some(stage) = Stage::set(DIALOGUE).await else { return };
    let boxed = stage.box_runs().await;
    let mut alice = stage.calls_with(Telephone { codec: "PCMA", rtcp_mux: true }, "alice", &boxed).await;
    let mut bob = stage.calls("bob", &boxed).await;
    alice.hears_something().await;
    bob.hears_something().await;
    alice.presses("1").await;
    bob.presses("1").await;
    stage.tools.asked("table", 2).await.expect("asked");
    alice.hears_something().await;
    bob.hears_something().await;
    assert_eq!(stage.tools.report("table", json!({})).await.expect("answered"), 200);
    alice.hears_something().await;
    bob.hears_something().await;
    boxed.log.seen_times("evidence of both", 2, |line| line["message"] == "delivery settled").await.expect("seen");

    let (accepted, closing) = (phrase(ACCEPTED).await, phrase(CLOSING).await);
    for heard in [alice.hangs_up().await, bob.hangs_up().await] {
        let ended = heard.once("the acceptance", &accepted) + accepted.len() / MS;
        assert!(heard.once("the closing", &closing) > ended);
    }
    boxed.is_idle().await.expect("idle");
    let history = stage.history();
    let parties = history.deliveries.iter().filter_map(|delivery| delivery.party.as_ref().map(|party| party.0.as_str()));
    assert_eq!(parties.collect::<BTreeSet<_>>(), BTreeSet::from(["default/alice", "default/bob"]));
    assert_eq!(history.deliveries.len(), 2);
    assert!(history.deliveries.iter().all(|delivery| delivery.state == DeliveryState::Spoken), "{history:?}");
    assert_eq!(stage.tools.effects("table"), 2);
}
