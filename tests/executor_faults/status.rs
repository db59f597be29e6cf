//! Operations whose tool is asked how they stand.

use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use recado_core::ledger::OperationState::{Failed, Running, Succeeded};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::rig::{scene, setup, tool};
use super::service::{Asked, Service, head, raw};

#[tokio::test]
async fn what_a_tool_has_taken_under_a_url_of_its_own_is_asked_for_there_also_after_a_restart() {
    for in_the_body in [false, true] {
        let service = Service::start(move |asked: &Asked, before| match (asked.path.as_str(), before) {
            ("/order", _) if in_the_body => (StatusCode::ACCEPTED, r#"{"status_url": "/jobs/7"}"#).into_response(),
            ("/order", _) => (StatusCode::ACCEPTED, [(header::LOCATION, "/jobs/7")]).into_response(),
            ("/jobs/7", 0) => r#"{"status": "running", "progress": {"percent": 40}}"#.into_response(),
            ("/jobs/7", 1) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            _ => r#"{"status": "succeeded", "result": {"at": "nine"}}"#.into_response(),
        })
        .await;
        let settings = tool(&format!("{}/order", service.base), json!({}));
        let mut scene = scene(settings.clone()).await;
        let operation = scene.orders("tool");
        scene.until(|scene| !scene.updates.is_empty()).await;
        assert_eq!(scene.updates, ["It is at 40."]);
        let stored = scene.stored(operation);
        assert_eq!((stored.state, stored.handle), (Running, Some(format!("{}/jobs/7", service.base))));
        let mut scene = scene.restarts(&setup(settings)).await;
        scene.until(|scene| scene.state(operation) == Succeeded).await;
        assert_eq!(scene.tells(), ["Done: nine."]);
        assert_eq!(service.of("/order").len(), 1, "it was ordered once");
        assert!(service.of("/jobs/7").iter().all(|asked| asked.method == Method::GET && asked.body.is_empty()));
    }
}

#[tokio::test]
async fn a_url_of_a_status_that_is_elsewhere_is_never_asked() {
    let elsewhere = Service::start(|_, _| StatusCode::OK.into_response()).await;
    let target = format!("{}/jobs/7", elsewhere.base);
    let service = Service::start(move |asked: &Asked, _| match asked.path.as_str() {
        "/order" => (StatusCode::ACCEPTED, [(header::LOCATION, target.clone())]).into_response(),
        _ => r#"{"status": "succeeded", "result": {"at": "nine"}}"#.into_response(),
    })
    .await;
    let more = json!({ "status_url": format!("{}/status/{{operation_id}}", service.base) });
    let mut scene = scene(tool(&format!("{}/order", service.base), more)).await;
    let operation = scene.orders("tool");
    scene.until(|scene| scene.state(operation) == Succeeded).await;
    assert_eq!((elsewhere.all().len(), scene.stored(operation).handle), (0, None));
    assert_eq!(service.of(&format!("/status/{operation}")).len(), 1);
}

#[tokio::test]
async fn a_redirect_of_a_status_is_not_followed() {
    let service = Service::start(|asked: &Asked, before| match (asked.path.as_str(), before) {
        ("/order", _) => (StatusCode::ACCEPTED, [(header::LOCATION, "/jobs/7")]).into_response(),
        _ => (StatusCode::SEE_OTHER, [(header::LOCATION, "/results/7")]).into_response(),
    })
    .await;
    let mut scene = scene(tool(&format!("{}/order", service.base), json!({}))).await;
    scene.orders("tool");
    scene.until(|_| !service.of("/jobs/7").is_empty()).await;
    scene.goes_by(120_000);
    assert_eq!(service.of("/results/7").len(), 0);
}

/// An order that is read and then left without an answer; the other paths answer.
async fn takes_and_says_nothing(status: fn() -> Response) -> (Service, String) {
    let answering = Service::start(move |_, _| status()).await;
    let order = raw(|stream, _| async move { drop(stream) }).await;
    (answering, order)
}

#[tokio::test]
async fn an_order_of_which_nobody_knows_is_reconciled_by_what_its_tool_says() {
    for (status, state, said) in [
        ((|| r#"{"status": "succeeded", "result": {"at": "nine"}}"#.into_response()) as fn() -> Response, Succeeded, "Done: nine."),
        (|| r#"{"status": "failed", "error": "no taxi left"}"#.into_response(), Failed, "Failed: no taxi left."),
        (|| r#"{"status": "not_executed"}"#.into_response(), Failed, "Failed: the tool says that it never got it."),
    ] {
        let (service, order) = takes_and_says_nothing(status).await;
        let more = json!({ "status_url": format!("{}/by_key/{{idempotency_key}}", service.base) });
        let mut scene = scene(tool(&order, more)).await;
        let operation = scene.orders("tool");
        scene.until(|scene| scene.state(operation) == state).await;
        assert_eq!(scene.tells(), [said]);
        let stored = scene.stored(operation);
        assert_eq!((stored.state, stored.attempt), (state, 1), "it was not sent again");
        assert_eq!(service.all().len(), 1);
    }
}

#[tokio::test]
async fn an_idempotent_tool_is_sent_the_same_again_under_the_same_key() {
    let keys = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = keys.clone();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for answers in [false, true] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = head(&mut stream).await;
            let key = request.lines().find_map(|line| line.strip_prefix("idempotency-key: ")).unwrap().to_owned();
            seen.lock().unwrap().push(key);
            if answers {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"at\":\"nine\"}").await.unwrap();
            }
        }
    });
    let mut scene = scene(tool(&url, json!({ "idempotent": true }))).await;
    let operation = scene.orders("tool");
    scene.until(|scene| scene.state(operation) == Succeeded).await;
    assert_eq!(scene.stored(operation).attempt, 2);
    let keys = keys.lock().unwrap();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
}
