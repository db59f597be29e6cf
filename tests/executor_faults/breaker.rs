//! A service that is down is left alone, and what waits for it is done once it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use recado_core::OperationId;
use recado_core::ledger::OperationState::{Failed, RetryWait, Succeeded, Unknown};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use super::rig::{Scene, scene, tool};
use super::service::{Service, raw};

/// A service that can be switched off: then it closes each connection as soon as a request has come, and after five of them it asks to be left alone.
#[derive(Clone)]
struct Machine {
    is_on: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    /// One for each answer that it may give.
    answers: Arc<Semaphore>,
    url: String,
}

impl Machine {
    async fn switched_off() -> Self {
        let (is_on, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let answers = Arc::new(Semaphore::new(0));
        let (on, count, may) = (is_on.clone(), connections.clone(), answers.clone());
        let url = raw(move |mut stream, _| {
            let before = count.fetch_add(1, Ordering::SeqCst);
            let (on, may) = (on.clone(), may.clone());
            async move {
                if on.load(Ordering::SeqCst) {
                    may.acquire().await.expect("open").forget();
                    let body = r#"{"at": "nine"}"#;
                    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
                    stream.write_all(answer.as_bytes()).await.expect("the box waits");
                } else if before == 5 {
                    // For longer than anything here takes until it is to be asked again.
                    let answer = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 6\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                    stream.write_all(answer.as_bytes()).await.expect("the box waits");
                }
            }
        })
        .await;
        Self { is_on, connections, answers, url }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn unreached(scene: &Scene, operation: OperationId) -> u32 {
    scene.ledger.operation(operation).expect("in memory").unreached
}

#[tokio::test]
async fn what_waits_for_a_service_that_is_down_costs_nothing_and_is_done_once_when_it_is_back() {
    let machine = Machine::switched_off().await;
    let retry = json!({ "attempts_max": 6, "backoff_ms": 1, "backoff_ms_max": 60_000 });
    let mut scene = scene(tool(&machine.url, json!({ "idempotent": true, "retry": retry }))).await;
    let first = scene.orders("tool");
    scene.until(|scene| scene.state(first) == Unknown).await;
    assert_eq!(machine.connections(), 6, "its attempts");
    let (second, third) = (scene.orders("tool"), scene.orders("tool"));
    scene.until(|scene| scene.state(second) == RetryWait && scene.state(third) == RetryWait).await;
    assert_eq!(scene.updates, ["It waits."], "the caller is told, once");
    assert_eq!(machine.connections(), 6, "nothing has left");
    let stored = scene.stored(second);
    assert_eq!((stored.attempt - stored.unreached, stored.maybe_executed), (0, false), "and it has cost no attempt");
    // Back, but it takes its time: until it has answered one, nothing else is begun.
    machine.is_on.store(true, Ordering::SeqCst);
    scene.until(|scene| unreached(scene, second) + unreached(scene, third) >= 3).await;
    let probed = machine.clone();
    scene
        .meanwhile(async move {
            while probed.connections() < 7 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    assert_eq!(machine.connections(), 7, "one probe");
    machine.answers.add_permits(2);
    scene.until(|scene| scene.state(second) == Succeeded && scene.state(third) == Succeeded).await;
    assert_eq!(machine.connections(), 8, "each of them once");
}

#[tokio::test]
async fn a_service_that_refuses_what_it_is_asked_is_there_and_one_that_asks_to_be_left_alone_is() {
    let picky = Service::start(|_, _| (StatusCode::CONFLICT, r#"{"error": "closed on Mondays"}"#).into_response()).await;
    let mut box_with_picky = scene(tool(&picky.base, json!({ "retry": { "attempts_max": 1 } }))).await;
    for _ in 0..8 {
        let operation = box_with_picky.orders("tool");
        box_with_picky.until(|scene| scene.state(operation) == Failed).await;
    }
    assert_eq!(picky.all().len(), 8);

    let busy = Service::start(|_, _| (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "30")]).into_response()).await;
    let retry = json!({ "attempts_max": 1, "backoff_ms": 1, "backoff_ms_max": 600_000 });
    let mut box_with_busy = scene(tool(&busy.base, json!({ "retry": retry }))).await;
    for _ in 0..6 {
        let operation = box_with_busy.orders("tool");
        box_with_busy.until(|scene| scene.state(operation) == Failed).await;
    }
    let seventh = box_with_busy.orders("tool");
    box_with_busy.until(|scene| scene.state(seventh) == RetryWait).await;
    // Half of what it asked for goes by.
    box_with_busy.goes_by(15_000);
    assert_eq!((box_with_busy.state(seventh), unreached(&box_with_busy, seventh)), (RetryWait, 1), "it is not even looked at");
    assert_eq!(busy.all().len(), 6);
}
