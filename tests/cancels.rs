//! Cancels and hand-offs with the parts of a real box: the ledger, the store on disk, the executor over HTTP, and a service on loopback.

mod scene;

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use recado::config::{HandOff, Tool};
use recado_core::ledger::{DeliveryState, OperationState};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;

use scene::{PATIENCE, Scene, Setup};

#[tokio::test]
async fn a_tool_that_cancels_is_asked_once_under_a_key_of_its_own_and_believed() {
    for (answer, state, said) in [
        (json!({ "status": "cancelled" }), OperationState::Cancelled, "The taxi is off."),
        (json!({ "status": "compensated" }), OperationState::Compensated, "What you asked for was done and has been undone."),
        (json!({ "status": "too_late", "result": { "at": "nine" } }), OperationState::TooLate, "Too late: it comes at nine."),
    ] {
        let service = Service::start(vec![(StatusCode::OK, answer)]).await;
        let (mut scene, _) = scene(&service).await;
        let operation = scene.orders("taxi");
        service.asked("/taxi", 1).await;
        scene.wants_it_cancelled("taxi");
        scene.until(|scene| scene.state(operation) == state).await;
        assert_eq!(scene.tells(), [said]);
        let (attempts, cancels) = (service.of("/taxi"), service.of("/taxi/cancel"));
        assert_eq!((attempts.len(), cancels.len()), (1, 1));
        assert_ne!(attempts[0].key, cancels[0].key);
        assert_eq!(cancels[0].body["operation_id"], json!(operation));
        assert_eq!(cancels[0].body["arguments"], attempts[0].body["arguments"]);
    }
}

#[tokio::test]
async fn a_cancel_that_is_not_decided_yet_is_asked_again_under_the_same_key() {
    let busy = (StatusCode::SERVICE_UNAVAILABLE, json!({ "error": "busy" }));
    let undecided = (StatusCode::ACCEPTED, json!({}));
    let service = Service::start(vec![busy, undecided, (StatusCode::OK, json!({ "status": "cancelled" }))]).await;
    let (mut scene, _) = scene(&service).await;
    let operation = scene.orders("taxi");
    service.asked("/taxi", 1).await;
    scene.wants_it_cancelled("taxi");
    scene.until(|scene| scene.state(operation) == OperationState::Cancelled).await;
    let keys: Vec<String> = service.of("/taxi/cancel").into_iter().map(|asked| asked.key).collect();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn an_attempt_that_waits_for_room_is_recalled_and_never_sent() {
    let service = Service::start(Vec::new()).await;
    let (mut scene, _) = scene(&service).await;
    scene.orders("slow");
    service.asked("/slow", 1).await;
    let waits = scene.orders("slow");
    scene.wants_it_cancelled("slow");
    scene.until(|scene| scene.state(waits) == OperationState::Cancelled).await;
    assert_eq!((service.of("/slow").len(), service.of("/slow/cancel").len()), (1, 0));
}

#[tokio::test]
async fn a_tool_without_a_cancel_url_runs_on_and_its_result_is_told_as_too_late() {
    let service = Service::start(Vec::new()).await;
    let (mut scene, _) = scene(&service).await;
    let operation = scene.orders("slow");
    service.asked("/slow", 1).await;
    scene.wants_it_cancelled("slow");
    service.finish.notify_one();
    scene.until(|scene| scene.state(operation) == OperationState::TooLate).await;
    assert_eq!(scene.tells(), ["It was too late to cancel it. What you asked for is done."]);
}

#[tokio::test]
async fn a_restart_resumes_a_cancel_under_the_same_key() {
    let service =
        Service::start(vec![(StatusCode::SERVICE_UNAVAILABLE, json!({})), (StatusCode::OK, json!({ "status": "cancelled" }))]).await;
    let (mut scene, setup) = scene(&service).await;
    let operation = scene.orders("taxi");
    service.asked("/taxi", 1).await;
    scene.wants_it_cancelled("taxi");
    service.asked("/taxi/cancel", 1).await;
    let mut scene = scene.restarts(&setup).await;
    scene.until(|scene| scene.state(operation) == OperationState::Cancelled).await;
    let keys: Vec<String> = service.of("/taxi/cancel").into_iter().map(|asked| asked.key).collect();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
    assert_eq!(service.of("/taxi").len(), 1, "what is being cancelled is not sent again");
}

#[tokio::test]
async fn a_closing_that_nobody_comes_to_hear_is_acknowledged_by_the_webhook_and_is_over() {
    let service = Service::start(Vec::new()).await;
    let (mut scene, _) = scene(&service).await;
    let operation = scene.orders("slow");
    service.asked("/slow", 1).await;
    scene.hangs_up();
    service.finish.notify_one();
    scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
    scene.until(|scene| scene.ledger.pending().is_empty()).await;
    let [asked] = &service.of("/unheard")[..] else { panic!("{:?}", service.of("/unheard")) };
    assert_eq!(asked.body["text"]["en"], json!("What you asked for is done."));
    assert_eq!(asked.body["operations"][0]["operation_id"], json!(operation));
    assert_eq!(asked.body["delivery_id"], json!(asked.key));
    let delivery = asked.key.parse().expect("a delivery");
    assert_eq!(scene.ledger.delivery(delivery).map(|record| record.state), Some(DeliveryState::HandedOff));
}

/// A request that the service was sent.
#[derive(Debug, Clone)]
struct Asked {
    path: String,
    key: String,
    body: Value,
}

/// A service: `/taxi` takes what it is asked (202), `/slow` answers when the scene says so, `…/cancel` answers what the scene gave it.
#[derive(Clone)]
struct Service {
    base: String,
    folder: Arc<TempDir>,
    asked: Arc<Mutex<Vec<Asked>>>,
    changed: Arc<Notify>,
    finish: Arc<Notify>,
    answers: Arc<Mutex<Vec<(StatusCode, Value)>>>,
}

impl Service {
    async fn start(answers: Vec<(StatusCode, Value)>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let service = Self {
            base,
            folder: Arc::new(tempfile::tempdir().expect("a folder")),
            asked: Arc::default(),
            changed: Arc::default(),
            finish: Arc::default(),
            answers: Arc::new(Mutex::new(answers)),
        };
        let router = Router::new().fallback(answer).with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        service
    }

    fn of(&self, path: &str) -> Vec<Asked> {
        self.asked.lock().expect("no panic").iter().filter(|asked| asked.path == path).cloned().collect()
    }

    /// Waits until it has been asked so often.
    async fn asked(&self, path: &str, times: usize) {
        loop {
            let changed = self.changed.notified();
            if self.of(path).len() >= times {
                return;
            }
            tokio::time::timeout(PATIENCE, changed).await.expect("the service is asked");
        }
    }
}

async fn answer(State(service): State<Service>, uri: Uri, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let key = headers["idempotency-key"].to_str().expect("text").to_owned();
    service.asked.lock().expect("no panic").push(Asked { path: uri.path().to_owned(), key, body });
    service.changed.notify_waiters();
    match uri.path() {
        "/slow" => {
            service.finish.notified().await;
            Json(json!({})).into_response()
        }
        "/unheard" => StatusCode::NO_CONTENT.into_response(),
        path if path.ends_with("/cancel") => {
            let (status, body) = service.answers.lock().expect("no panic").remove(0);
            (status, Json(body)).into_response()
        }
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

/// A box whose tools are this service's, and a caller.
async fn scene(service: &Service) -> (Scene, Setup) {
    let secret_file = service.folder.path().join("secret");
    std::fs::write(&secret_file, "s3cret").expect("written");
    let webhook = HandOff { url: format!("{}/unheard", service.base), secret_file, ca_file: None, timeout_ms: 5_000 };
    let setup = Setup::new(tools(&service.base)).with_webhook(webhook);
    (Scene::new(&setup).await, setup)
}

fn tools(base: &str) -> Vec<Tool> {
    let tool = |value| serde_json::from_value(value).expect("a tool");
    vec![
        tool(json!({
            "name": "taxi",
            "url": format!("{base}/taxi"),
            "cancel_url": format!("{base}/taxi/cancel"),
            "retry": { "backoff_ms": 1, "backoff_ms_max": 5 },
            "say_cancelled": { "en": "The taxi is off." },
            "say_too_late": { "en": "Too late: it comes at {{ result.at }}." },
        })),
        tool(json!({
            "name": "slow",
            "url": format!("{base}/slow"),
            "concurrency": 1,
            "when_unheard": "webhook",
            "hand_off_after_ms": 1,
        })),
    ]
}
