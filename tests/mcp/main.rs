//! Tools of MCP servers that others have written, with the parts of a real box. What was done is counted at the server.

mod counterpart;
mod discovery;
#[path = "../scene/mod.rs"]
mod scene;

use counterpart::{Everything, FastMcp};
use recado::config::Config;
use recado_core::ledger::OperationState;
use scene::{Scene, Setup};
use serde_json::{Value, json};

/// A server, and its tools of these names, as a configuration has them.
fn setup(server: Value, names: &[&str]) -> Setup {
    let tool = |name: &&str| {
        json!({
            "name": name,
            "mcp": "counterpart",
            "timeout_ms": 60_000,
            "say_done": { "en": "It is at {{ result.at }}." },
            "say_failed": { "en": "It could not be: {{ error }}." },
            "say_cancelled": { "en": "It is off." },
        })
    };
    let tools: Vec<Value> = names.iter().map(tool).collect();
    let config = json!({ "mcp": { "counterpart": server }, "tools": tools });
    Setup::of(serde_json::from_value::<Config>(config).expect("a configuration"))
}

#[tokio::test]
async fn a_tool_is_called_once_under_our_key_and_its_structure_is_the_result() {
    let Some(server) = FastMcp::over_http() else { return };
    let mut scene = Scene::new(&setup(server.settings(), &["quick"])).await;
    let operation = scene.orders("quick");
    scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
    assert_eq!(scene.tells(), ["It is at nine."]);
    assert_eq!(server.effects("quick"), ["quick 1"]);
    let [meta] = &server.effects("meta")[..] else { panic!("{:?}", server.effects("meta")) };
    assert!(meta.contains("io.recado/idempotency-key"), "{meta}");
}

#[tokio::test]
async fn what_a_tool_refuses_has_failed_in_its_words_and_is_not_called_again() {
    let Some(server) = FastMcp::over_http() else { return };
    let mut scene = Scene::new(&setup(server.settings(), &["refusing"])).await;
    let operation = scene.orders("refusing");
    scene.until(|scene| scene.state(operation) == OperationState::Failed).await;
    assert_eq!(scene.tells(), ["It could not be: no table left."]);
    assert_eq!(server.effects("refusing"), ["refusing 1"]);
}

#[tokio::test]
async fn a_tool_that_the_server_does_not_offer_has_failed() {
    let Some(server) = FastMcp::over_http() else { return };
    let mut scene = Scene::new(&setup(server.settings(), &["gone"])).await;
    let operation = scene.orders("gone");
    scene.until(|scene| scene.state(operation) == OperationState::Failed).await;
}

#[tokio::test]
async fn a_task_goes_on_over_a_restart_of_the_box_and_is_done_once() {
    let Some(server) = FastMcp::over_http() else { return };
    let setup = setup(server.settings(), &["slow"]);
    let mut scene = Scene::new(&setup).await;
    let operation = scene.orders("slow");
    scene.until(|scene| scene.is_taken(operation)).await;
    server.has("begun 1").await;
    let mut scene = scene.restarts(&setup).await;
    assert!(scene.is_taken(operation), "kept on disk");
    server.lets_it_finish();
    scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
    assert_eq!((server.effects("begun"), server.effects("done")), (vec!["begun 1".to_owned()], vec!["done 1".to_owned()]));
}

#[tokio::test]
async fn a_task_that_is_cancelled_is_ended_at_the_server() {
    let Some(server) = FastMcp::over_http() else { return };
    let mut scene = Scene::new(&setup(server.settings(), &["slow"])).await;
    let operation = scene.orders("slow");
    scene.until(|scene| scene.is_taken(operation)).await;
    server.has("begun 1").await;
    scene.wants_it_cancelled("slow");
    scene.until(|scene| scene.state(operation) == OperationState::Cancelled).await;
    assert_eq!(scene.tells(), ["It is off."]);
    server.has("stopped 1").await;
    assert!(server.effects("done").is_empty());
}

#[tokio::test]
async fn a_server_that_is_killed_in_the_middle_of_a_task_leaves_it_unknown_and_is_not_asked_to_do_it_again() {
    let Some(mut server) = FastMcp::over_http() else { return };
    let mut scene = Scene::new(&setup(server.settings(), &["slow", "quick"])).await;
    let operation = scene.orders("slow");
    scene.until(|scene| scene.is_taken(operation)).await;
    server.has("begun 1").await;
    server.is_killed_and_starts_again(false);
    // One that is begun again would be done.
    server.lets_it_finish();
    scene.until(|scene| scene.state(operation) == OperationState::Unknown).await;
    let next = scene.orders("quick");
    scene.until(|scene| scene.state(next) == OperationState::Succeeded).await;
    let next = scene.orders("slow");
    scene.until(|scene| scene.state(next) == OperationState::Succeeded).await;
    assert_eq!(server.effects("begun"), ["begun 1", "begun 3"]);
    assert_eq!(server.effects("done"), ["done 3"]);
    assert_eq!(scene.state(operation), OperationState::Unknown);
}

#[tokio::test]
async fn a_server_that_is_not_there_costs_no_attempt_and_nothing_is_said_to_have_failed() {
    let Some(mut server) = FastMcp::over_http() else { return };
    let mut scene = Scene::new(&setup(server.settings(), &["quick"])).await;
    server.is_killed();
    let operation = scene.orders("quick");
    scene.until(|scene| scene.state(operation) == OperationState::RetryWait).await;
    server.is_killed_and_starts_again(false);
    scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
    assert_eq!(scene.tells(), ["It is at nine."]);
    assert_eq!(server.effects("quick"), ["quick 1"]);
}

#[tokio::test]
async fn a_program_that_dies_leaves_its_call_unknown_and_is_started_again_for_the_next() {
    let Some(server) = FastMcp::as_program() else { return };
    let mut scene = Scene::new(&setup(server.settings(), &["quick", "dying"])).await;
    let dies = scene.orders("dying");
    scene.until(|scene| scene.state(dies) == OperationState::Unknown).await;
    assert_eq!(server.effects("dying"), ["dying 1"]);
    let next = scene.orders("quick");
    scene.until(|scene| scene.state(next) == OperationState::Succeeded).await;
    assert_eq!(server.effects("quick"), ["quick 2"]);
}

#[tokio::test]
async fn the_protocols_own_example_is_called_as_a_program() {
    let Some(server) = Everything::as_program() else { return };
    let mut scene = Scene::new(&setup(server.settings(), &["echo"])).await;
    let operation = scene.orders("echo");
    // It wants a `message`, and this has none: it refuses that itself.
    scene.until(|scene| scene.state(operation) == OperationState::Failed).await;
    let operation = scene.asks("echo", json!({ "message": "hello" }));
    scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
}
