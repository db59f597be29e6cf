//! Operations that are to be cancelled, and undone where it is too late for that.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use recado_core::ledger::OperationState::{Compensated, TooLate};
use serde_json::json;

use super::rig::{scene, tool};
use super::service::{Asked, Service};

#[tokio::test]
async fn what_is_too_late_to_cancel_is_undone_under_a_key_of_its_own() {
    for too_late in [(StatusCode::CONFLICT, ""), (StatusCode::OK, r#"{"status": "too_late", "result": {"at": "nine"}}"#)] {
        let service = Service::start(move |asked: &Asked, before| match (asked.path.as_str(), before) {
            ("/order", _) => StatusCode::ACCEPTED.into_response(),
            ("/cancel", _) => too_late.into_response(),
            (_, 0) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            _ => StatusCode::NO_CONTENT.into_response(),
        })
        .await;
        let at = |path: &str| format!("{}{path}", service.base);
        let mut scene = scene(tool(&at("/order"), json!({ "cancel_url": at("/cancel"), "compensate_url": at("/undo") }))).await;
        let operation = scene.orders("tool");
        scene.until(|_| !service.of("/order").is_empty()).await;
        scene.wants_it_cancelled("tool");
        scene.until(|scene| scene.state(operation) == Compensated).await;
        assert_eq!(scene.tells(), ["Undone."]);
        let key = |path: &str| service.of(path).iter().map(|asked| asked.header("idempotency-key")).collect::<Vec<_>>();
        let (order, cancel, undo) = (key("/order"), key("/cancel"), key("/undo"));
        assert_eq!((order.len(), cancel.len(), undo.len()), (1, 2, 2), "all of it is asked again");
        assert!(cancel[0] == cancel[1] && undo[0] == undo[1]);
        assert!(order[0] != cancel[0] && order[0] != undo[0] && cancel[0] != undo[0]);
        let body = service.of("/undo")[0].json();
        assert_eq!(
            (&body["operation_id"], &body["tool"], &body["arguments"]),
            (&json!(operation), &json!("tool"), &json!({ "order": "1" }))
        );
    }
}

#[tokio::test]
async fn a_tool_that_can_only_undo_is_asked_to() {
    let service = Service::start(|asked: &Asked, _| match asked.path.as_str() {
        "/order" => (StatusCode::ACCEPTED, [("location", "/jobs/7")]).into_response(),
        "/undo" => r#"{"status": "compensated"}"#.into_response(),
        _ => r#"{"status": "running"}"#.into_response(),
    })
    .await;
    let at = |path: &str| format!("{}{path}", service.base);
    let mut scene = scene(tool(&at("/order"), json!({ "compensate_url": at("/undo") }))).await;
    let operation = scene.orders("tool");
    scene.until(|scene| scene.ledger.operation(operation).is_some_and(|record| record.handle.is_some())).await;
    scene.wants_it_cancelled("tool");
    scene.until(|scene| scene.state(operation) == Compensated).await;
    assert_eq!(scene.tells(), ["Undone."]);
    assert_eq!(service.of("/undo")[0].json()["status_url"], json!(at("/jobs/7")));
}

#[tokio::test]
async fn what_can_not_be_undone_is_told_with_its_result() {
    for refusal in [StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY] {
        let service = Service::start(move |asked: &Asked, _| match asked.path.as_str() {
            "/order" => StatusCode::ACCEPTED.into_response(),
            "/cancel" => r#"{"status": "too_late", "result": {"at": "nine"}}"#.into_response(),
            _ => refusal.into_response(),
        })
        .await;
        let at = |path: &str| format!("{}{path}", service.base);
        let mut scene = scene(tool(&at("/order"), json!({ "cancel_url": at("/cancel"), "compensate_url": at("/undo") }))).await;
        let operation = scene.orders("tool");
        scene.until(|_| !service.of("/order").is_empty()).await;
        scene.wants_it_cancelled("tool");
        scene.until(|scene| scene.state(operation) == TooLate).await;
        assert_eq!(scene.tells(), ["Too late: nine."]);
    }
}
