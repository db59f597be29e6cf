//! Servers on loopback that answer well, badly or not at all, and what becomes of it.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use recado_core::ledger::{AttemptOutcome, CancelOutcome, CancelRequest, Dispatch, Executed, Inquiry, InquiryOutcome};
use recado_core::{IntentKey, OperationId};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

use super::*;
use crate::cognition::tools::port::{Sent, ToolPort};

/// What a server says to a request of this method: a result, or the code of an error. Where it has nothing to say, it never answers.
type Answer = Arc<dyn Fn(&str) -> Option<Result<Value, i32>> + Send + Sync>;

/// A tool of a server that answers so.
async fn tool(answer: Answer, timeout_ms: u64, concurrency: usize) -> Arc<dyn ToolPort> {
    let serve = move |Json(request): Json<Value>| {
        let answer = Arc::clone(&answer);
        async move {
            let method = request["method"].as_str().unwrap_or_default().to_owned();
            let Some(id) = request.get("id").cloned() else { return StatusCode::ACCEPTED.into_response() };
            let said = match method.as_str() {
                "initialize" => Some(Ok(json!({
                    "protocolVersion": request["params"]["protocolVersion"],
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "odd", "version": "1" },
                }))),
                "server/discover" => Some(Err(-32_601)),
                method => answer(method),
            };
            match said {
                Some(Ok(result)) => Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response(),
                Some(Err(code)) => {
                    Json(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "no table left" } })).into_response()
                }
                None => std::future::pending().await,
            }
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/mcp", post(serve))).await });
    port(&url, timeout_ms, concurrency)
}

fn port(url: &str, timeout_ms: u64, concurrency: usize) -> Arc<dyn ToolPort> {
    let concurrency = NonZeroUsize::new(concurrency).unwrap();
    let server = serde_json::from_value(json!({ "url": url, "concurrency": concurrency })).unwrap();
    let tool = serde_json::from_value(json!({ "name": "book", "mcp": "office", "timeout_ms": timeout_ms })).unwrap();
    let servers = McpServers::new(&BTreeMap::from([("office".to_owned(), server)])).unwrap();
    mcp_tools(&servers, &[tool], None).unwrap().remove("book").unwrap().port
}

/// A server whose task stands so, one inquiry after the other; the last goes on for ever.
async fn task(stands: Vec<Result<Value, i32>>, timeout_ms: u64) -> (Arc<dyn ToolPort>, Arc<Mutex<Vec<String>>>) {
    let (stands, seen) = (Mutex::new(stands), Arc::new(Mutex::new(Vec::new())));
    let asked = Arc::clone(&seen);
    let answer = move |method: &str| {
        asked.lock().unwrap().push(method.to_owned());
        Some(match method {
            "tasks/get" => {
                let mut stands = stands.lock().unwrap();
                let now = if stands.len() > 1 { stands.remove(0) } else { stands[0].clone() };
                now.map(|now| {
                    let mut task = json!({ "resultType": "complete", "taskId": "t", "createdAt": "2026-01-01T00:00:00Z",
                        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null, "pollIntervalMs": 50 });
                    task.as_object_mut().unwrap().extend(now.as_object().unwrap().clone());
                    task
                })
            }
            _ => Ok(json!({ "resultType": "complete" })),
        })
    };
    (tool(Arc::new(answer), timeout_ms, 4).await, seen)
}

fn inquiry() -> Inquiry {
    let handle = Some(r#"{"task_id":"t"}"#.to_owned());
    let Dispatch { operation, attempt, tool, arguments, intent_key } = dispatch();
    Inquiry { operation, request: 1, attempt, tool, arguments, intent_key, handle }
}

fn dispatch() -> Dispatch {
    Dispatch {
        operation: OperationId(7),
        attempt: 1,
        tool: "book".to_owned(),
        arguments: json!({}),
        intent_key: IntentKey("ana|book|1".to_owned()),
    }
}

fn asks() -> Result<Value, i32> {
    Ok(json!({ "status": "input_required", "inputRequests": {} }))
}

fn failed_with(code: i32) -> Result<Value, i32> {
    Ok(json!({ "status": "failed", "error": { "code": code, "message": "no table left" } }))
}

const AMPLE_MS: u64 = 60_000;

#[tokio::test]
async fn a_task_that_broke_off_is_doubt_and_one_whose_request_was_refused_has_failed() {
    let (port, _) = task(vec![failed_with(-32_603), failed_with(-32_602)], AMPLE_MS).await;
    let InquiryOutcome::Unanswered { error, retryable: false, .. } = port.inquire(inquiry()).await else { panic!() };
    assert_eq!(error, "no table left");
    assert_eq!(port.inquire(inquiry()).await, InquiryOutcome::Failed("no table left".to_owned()));
}

#[tokio::test]
async fn a_task_that_asks_for_more_is_asked_to_end_and_believed_how_it_has_ended() {
    let done = Ok(json!({ "status": "completed", "result": { "content": [{ "type": "text", "text": "at nine" }] } }));
    let (port, seen) = task(vec![asks(), done], AMPLE_MS).await;
    assert_eq!(port.inquire(inquiry()).await, InquiryOutcome::Succeeded(json!({ "text": "at nine" })));
    assert_eq!(*seen.lock().unwrap(), ["tasks/get", "tasks/cancel", "tasks/get"]);

    let (port, _) = task(vec![asks(), asks(), Ok(json!({ "status": "cancelled" }))], AMPLE_MS).await;
    assert!(matches!(port.inquire(inquiry()).await, InquiryOutcome::Failed(_)));

    let (port, _) = task(vec![asks(), failed_with(-32_603)], AMPLE_MS).await;
    assert!(matches!(port.inquire(inquiry()).await, InquiryOutcome::Unanswered { retryable: false, .. }));

    let (port, _) = task(vec![asks()], 5_000).await;
    let never = port.inquire(inquiry()).await;
    assert!(matches!(never, InquiryOutcome::Unanswered { retryable: false, .. }), "{never:?}");
}

#[tokio::test]
async fn only_a_server_that_does_not_know_a_task_has_forgotten_it_and_whatever_it_answers_it_is_there() {
    let (port, _) = task(vec![Err(-32_602), Err(-32_601), Err(-32_600), Err(-32_603)], AMPLE_MS).await;
    let endpoint = port.endpoint().unwrap();
    assert_eq!(port.inquire(inquiry()).await, InquiryOutcome::Forgotten);
    for answers in 2..=4 {
        let outcome = port.inquire(inquiry()).await;
        assert!(matches!(outcome, InquiryOutcome::Unanswered { retryable: true, .. }), "{outcome:?}");
        assert_eq!(endpoint.answers(), answers);
    }
    let port = tool(Arc::new(|_: &str| Some(Err(-32_603))), AMPLE_MS, 1).await;
    let endpoint = port.endpoint().unwrap();
    let outcome = port.attempt(dispatch(), Sent::default()).await;
    assert!(matches!(outcome, AttemptOutcome::Failed { executed: Executed::Maybe, retryable: true, .. }), "{outcome:?}");
    assert_eq!(endpoint.answers(), 1);
}

#[tokio::test]
async fn a_call_that_hangs_holds_up_neither_inquiries_nor_its_cancel_and_who_waits_for_it_has_not_left() {
    let called = Arc::new(Notify::new());
    let calls = Arc::clone(&called);
    let answer = move |method: &str| match method {
        "tools/call" => {
            calls.notify_one();
            None
        }
        "tasks/get" => Some(Err(-32_602)),
        _ => Some(Ok(json!({ "resultType": "complete" }))),
    };
    let port = tool(Arc::new(answer), AMPLE_MS, 1).await;
    let hangs = tokio::spawn(port.attempt(dispatch(), Sent::default()));
    called.notified().await;
    let sent = Sent::default();
    let waits = tokio::spawn(port.attempt(dispatch(), sent.clone()));
    assert_eq!(port.inquire(inquiry()).await, InquiryOutcome::Forgotten);
    let Inquiry { operation, request, tool, arguments, intent_key, handle, .. } = inquiry();
    let cancel = CancelRequest { operation, request, tool, arguments, intent_key, handle };
    assert!(matches!(port.cancel(cancel).await, CancelOutcome::Failed { retryable: false, .. }));
    assert_eq!(sent.end(), Executed::No);
    hangs.abort();
    let outcome = waits.await.unwrap();
    assert!(matches!(outcome, AttemptOutcome::Failed { executed: Executed::No, retryable: true, .. }), "{outcome:?}");
}

#[tokio::test]
async fn a_key_in_the_address_of_a_server_is_in_no_reason() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("http://{address}/k?key=s3cret");
    drop(listener);
    let outcome = port(&url, AMPLE_MS, 1).attempt(dispatch(), Sent::default()).await;
    let AttemptOutcome::Unreachable { reason, .. } = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("refused") && !reason.contains("s3cret"), "{reason}");

    // One that answers, and is none.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/k?key=s3cret", listener.local_addr().unwrap());
    let app = Router::new().fallback(|uri: axum::http::Uri| async move { format!("what is {uri}?") });
    tokio::spawn(async move { axum::serve(listener, app).await });
    let outcome = port(&url, AMPLE_MS, 1).attempt(dispatch(), Sent::default()).await;
    let AttemptOutcome::Unreachable { reason, .. } = outcome else { panic!("{outcome:?}") };
    assert!(!reason.contains("s3cret"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_calls_are_under_way_as_a_server_may_have() {
    let all = Arc::new(Barrier::new(40));
    let serve = move |Json(request): Json<Value>| {
        let all = Arc::clone(&all);
        async move {
            let result = match request["method"].as_str() {
                Some("initialize") => json!({
                    "protocolVersion": request["params"]["protocolVersion"],
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "odd", "version": "1" },
                }),
                Some("tools/call") => {
                    all.wait().await;
                    json!({ "content": [] })
                }
                _ if request.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
                _ => {
                    let error = json!({ "code": -32601, "message": "no such method" });
                    return Json(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).into_response();
                }
            };
            Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).into_response()
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/mcp", post(serve))).await });
    let port = port(&url, AMPLE_MS, 40);
    let calls: Vec<_> = (0..40).map(|_| tokio::spawn(port.attempt(dispatch(), Sent::default()))).collect();
    for call in calls {
        let outcome = call.await.unwrap();
        assert!(matches!(outcome, AttemptOutcome::Succeeded(_)), "{outcome:?}");
    }
}
