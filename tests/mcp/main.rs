//! Tools of MCP servers that others have written, with the parts of a real box. What was done is counted at the server.

mod counterpart;
mod scene;

use counterpart::{FastMcp, everything};
use recado_core::ledger::OperationState;
use scene::{Scene, Tools};
use serde_json::json;

#[tokio::test]
async fn a_tool_is_called_once_under_our_key_and_its_structure_is_the_result() {
    let Some(server) = FastMcp::over_http() else { return };
    let mut scene = Scene::new(&Tools::of(server.settings(), &["quick"]));
    let operation = scene.orders("quick").await;
    scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
    assert_eq!(scene.tells().await, ["It is at nine."]);
    assert_eq!(server.effects("quick"), ["quick 1"]);
    let [meta] = &server.effects("meta")[..] else { panic!("{:?}", server.effects("meta")) };
    assert!(meta.contains("io.recado/idempotency-key"), "{meta}");
}

#[tokio::test]
async fn what_a_tool_refuses_has_failed_in_its_words_and_is_not_called_again() {
    let Some(server) = FastMcp::over_http() else { return };
    let mut scene = Scene::new(&Tools::of(server.settings(), &["refusing"]));
    let operation = scene.orders("refusing").await;
    scene.until(|scene| scene.state(operation) == OperationState::Failed).await;
    assert_eq!(scene.tells().await, ["It could not be: no table left."]);
    assert_eq!(server.effects("refusing"), ["refusing 1"]);
}

#[tokio::test]
async fn a_tool_that_the_server_does_not_offer_has_failed() {
    let Some(server) = FastMcp::over_http() else { return };
    let mut scene = Scene::new(&Tools::of(server.settings(), &["gone"]));
    let operation = scene.orders("gone").await;
    scene.until(|scene| scene.state(operation) == OperationState::Failed).await;
}

#[tokio::test]
async fn a_task_goes_on_over_a_restart_of_the_box_and_is_done_once() {
    let Some(server) = FastMcp::over_http() else { return };
    let tools = Tools::of(server.settings(), &["slow"]);
    let mut scene = Scene::new(&tools);
    let operation = scene.orders("slow").await;
    scene.until(|scene| scene.has_a_handle(operation)).await;
    server.has("begun 1").await;
    let mut scene = scene.restarts(&tools);
    assert!(scene.has_a_handle(operation), "kept on disk");
    server.lets_it_finish();
    scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
    assert_eq!((server.effects("begun"), server.effects("done")), (vec!["begun 1".to_owned()], vec!["done 1".to_owned()]));
}

#[tokio::test]
async fn a_task_that_is_cancelled_is_ended_at_the_server() {
    let Some(server) = FastMcp::over_http() else { return };
    let mut scene = Scene::new(&Tools::of(server.settings(), &["slow"]));
    let operation = scene.orders("slow").await;
    scene.until(|scene| scene.has_a_handle(operation)).await;
    server.has("begun 1").await;
    scene.wants_it_cancelled("slow").await;
    scene.until(|scene| scene.state(operation) == OperationState::Cancelled).await;
    assert_eq!(scene.tells().await, ["It is off."]);
    server.lets_it_finish();
    assert!(server.effects("done").is_empty());
}

#[tokio::test]
async fn a_server_that_is_not_there_costs_no_attempt_and_nothing_is_said_to_have_failed() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let mut scene = Scene::new(&Tools::of(json!({ "url": format!("http://{free}/mcp") }), &["quick"]));
    let operation = scene.orders("quick").await;
    scene.until(|scene| scene.state(operation) == OperationState::RetryWait).await;
}

#[tokio::test]
async fn a_program_that_dies_leaves_its_call_unknown_and_is_started_again_for_the_next() {
    let Some(server) = FastMcp::as_program() else { return };
    let mut scene = Scene::new(&Tools::of(server.settings(), &["quick", "dying"]));
    let dies = scene.orders("dying").await;
    scene.until(|scene| scene.state(dies) == OperationState::Unknown).await;
    assert_eq!(server.effects("dying"), ["dying 1"]);
    let next = scene.orders("quick").await;
    scene.until(|scene| scene.state(next) == OperationState::Succeeded).await;
    assert_eq!(server.effects("quick"), ["quick 2"]);
}

#[tokio::test]
async fn the_protocols_own_example_is_called_as_a_program() {
    let Some(program) = everything() else { return };
    let settings = json!({ "program": program, "arguments": ["stdio"], "timeout_ms": 60_000 });
    let mut scene = Scene::new(&Tools::of(settings, &["echo"]));
    let operation = scene.orders("echo").await;
    // It wants a `message`, and this has none: it refuses that itself.
    scene.until(|scene| scene.state(operation) == OperationState::Failed).await;
    let operation = scene.orders_with("echo", json!({ "message": "hello" })).await;
    scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
}
