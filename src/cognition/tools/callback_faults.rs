//! Results that come late, twice, wrongly or from somebody else, over real HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use recado_core::ledger::{CallbackAnswer, OperationResult, RequestId};
use recado_core::{OperationId, Wall};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::callbacks::{Callback, CallbackAddress, Report, Signers, router};
use super::token::BoxSecret;

#[tokio::test]
async fn a_result_is_answered_with_200_when_the_ledger_has_it_and_each_time_that_it_comes() {
    let mut desk = Desk::start(8).await;
    for n in 0..2 {
        let body = json!({ "status": "succeeded", "result": { "table": 4 } });
        let sending = tokio::spawn(desk.send(OP, body.to_string()));
        let callback = desk.callbacks.recv().await.unwrap();
        assert_eq!((callback.request, callback.operation), (RequestId(n), OP));
        assert_eq!(callback.report, Report::Result(OperationResult::Succeeded(json!({ "table": 4 }))));
        assert!(!sending.is_finished(), "no answer before the ledger's");
        callback.answer.send(CallbackAnswer::Recorded).unwrap();
        assert_eq!(sending.await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn each_answer_of_the_ledger_has_its_status() {
    let mut desk = Desk::start(8).await;
    for (answer, status) in [
        (CallbackAnswer::Conflict, StatusCode::CONFLICT),
        (CallbackAnswer::Unknown, StatusCode::NOT_FOUND),
        (CallbackAnswer::Unavailable, StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let sending = tokio::spawn(desk.send(OP, r#"{"status":"failed","error":"no table"}"#.to_owned()));
        let callback = desk.callbacks.recv().await.unwrap();
        assert_eq!(callback.report, Report::Result(OperationResult::Failed("no table".to_owned())));
        callback.answer.send(answer).unwrap();
        let response = sending.await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(response.headers().contains_key("retry-after"), status == StatusCode::SERVICE_UNAVAILABLE);
    }
}

#[tokio::test]
async fn results_that_are_bare_or_no_object_and_failures_without_a_reason_are_taken() {
    let mut desk = Desk::start(8).await;
    for (body, expected) in [
        (r#"{"status":"succeeded"}"#, OperationResult::Succeeded(json!({}))),
        (r#"{"status":"succeeded","result":[1]}"#, OperationResult::Succeeded(json!({ "value": [1] }))),
        (r#"{"status":"failed"}"#, OperationResult::Failed("the tool gave no reason".to_owned())),
        (r#"{"status":"failed","error":" \n"}"#, OperationResult::Failed("the tool gave no reason".to_owned())),
    ] {
        let sending = tokio::spawn(desk.send(OP, body.to_owned()));
        let callback = desk.callbacks.recv().await.unwrap();
        assert_eq!(callback.report, Report::Result(expected));
        callback.answer.send(CallbackAnswer::Recorded).unwrap();
        assert_eq!(sending.await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn progress_and_what_is_taken_back_are_told_apart_from_results() {
    let mut desk = Desk::start(8).await;
    let early_or_late = "none has come yet, or it has been told";
    for (body, expected, answer, status, said) in [
        (
            r#"{"status":"progress","progress":{"percent":40}}"#,
            Report::Progress(json!({ "percent": 40 })),
            CallbackAnswer::Noted,
            200,
            "noted",
        ),
        (r#"{"status":"progress"}"#, Report::Progress(json!({})), CallbackAnswer::Over, 409, "too late: the operation is over"),
        (r#"{"status":"retracted"}"#, Report::Retracted, CallbackAnswer::Recorded, 200, "recorded"),
        (r#"{"status":"retracted"}"#, Report::Retracted, CallbackAnswer::Over, 409, early_or_late),
    ] {
        let sending = tokio::spawn(desk.send(OP, body.to_owned()));
        let callback = desk.callbacks.recv().await.unwrap();
        assert_eq!(callback.report, expected);
        callback.answer.send(answer).unwrap();
        let answered = sending.await.unwrap();
        assert_eq!(answered.status().as_u16(), status);
        let text = answered.text().await.unwrap();
        assert!(text.contains(said), "{text}");
    }
    for body in [
        r#"{"status":"progress","result":{}}"#,
        r#"{"status":"succeeded","progress":{}}"#,
        r#"{"status":"retracted","error":"no"}"#,
        r#"{"status":"cancelled"}"#,
    ] {
        let answer = desk.send(OP, body.to_owned()).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{body}");
    }
    assert!(desk.callbacks.try_recv().is_err());
}

#[tokio::test]
async fn without_the_operations_own_token_the_answer_is_always_the_same_and_nothing_is_taken() {
    let mut desk = Desk::start(8).await;
    let right = desk.secret.token(OP).expose().to_owned();
    let of_another = desk.secret.token(OperationId(6)).expose().to_owned();
    let name = OP.to_string();
    let cases = [
        (name.as_str(), None),
        (&name, Some("Bearer ".to_owned())),
        (&name, Some(right.clone())),
        (&name, Some(format!("Basic {right}"))),
        (&name, Some(format!("Bearer {of_another}"))),
        (&name, Some(format!("Bearer {}", right.to_uppercase()))),
        ("op_7", Some(format!("Bearer {right}"))),
        ("%00%ff", Some(format!("Bearer {right}"))),
    ];
    let mut bodies = Vec::new();
    for (operation, authorization) in cases {
        let url = format!("http://{}/v1/operations/{operation}/result", desk.address);
        let mut request = reqwest_client().post(url).body(r#"{"status":"succeeded"}"#);
        if let Some(authorization) = &authorization {
            request = request.header("authorization", authorization);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{operation} {authorization:?}");
        bodies.push((response.headers().get("www-authenticate").cloned(), response.text().await.unwrap()));
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert!(desk.callbacks.try_recv().is_err());
}

#[tokio::test]
async fn a_stranger_is_answered_before_the_body_is_read() {
    let desk = Desk::start(8).await;
    let mut stream = TcpStream::connect(desk.address).await.unwrap();
    let head = format!("POST /v1/operations/{OP}/result HTTP/1.1\r\nhost: a\r\nauthorization: Bearer 0\r\ncontent-length: 900000\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
}

#[tokio::test]
async fn a_malformed_result_is_refused_with_what_is_wrong() {
    let mut desk = Desk::start(8).await;
    for (body, words) in [
        ("", "EOF"),
        ("nonsense", "expected ident at line 1"),
        ("[]", "the body must be"),
        ("{}", "missing field `status`"),
        (r#"{"status":"done"}"#, "unknown variant `done`"),
        (r#"{"status":"succeeded","results":{}}"#, "unknown field `results`"),
        (r#"{"status":"succeeded","error":"x"}"#, "has no `error`"),
        (r#"{"status":"failed","result":{}}"#, "goes into `error`"),
        (r#"{"status":"failed","error":5}"#, "invalid type"),
        (r#"{"status":"failed","status":"failed"}"#, "duplicate field"),
    ] {
        let response = desk.send(OP, body.to_owned()).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{body}");
        let answer: Value = response.json().await.unwrap();
        assert!(answer["error"].as_str().unwrap().contains(words), "{body}: {answer}");
    }
    let response = desk.send(OP, format!(r#"{{"status":"failed","error":"{}"}}"#, "x".repeat(1024 * 1024))).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let deep = format!(r#"{{"status":"succeeded","result":{}}}"#, "[".repeat(50_000));
    assert_eq!(desk.send(OP, deep).await.status(), StatusCode::BAD_REQUEST);
    assert!(desk.callbacks.try_recv().is_err());
}

#[tokio::test]
async fn a_full_queue_a_silent_ledger_and_a_stopped_one_are_answered_with_503_and_when_to_ask_again() {
    let mut desk = Desk::start_with(1, Duration::from_millis(100)).await;
    let waiting = tokio::spawn(desk.send(OP, r#"{"status":"succeeded"}"#.to_owned()));
    // The first has its place in the queue when the second is refused one.
    let mut refused = None;
    while refused.is_none() {
        let response = desk.send(OP, r#"{"status":"failed"}"#.to_owned()).await;
        let later = response.headers().contains_key("retry-after");
        assert!(response.status() == StatusCode::SERVICE_UNAVAILABLE && later);
        refused = response.text().await.unwrap().contains("too much to do").then_some(());
    }
    let unanswered = waiting.await.unwrap();
    assert_eq!(unanswered.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(desk.callbacks.recv().await.is_some());
    desk.callbacks.close();
    assert_eq!(desk.send(OP, r#"{"status":"succeeded"}"#.to_owned()).await.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_ledger_that_drops_the_question_is_answered_with_503() {
    let mut desk = Desk::start(8).await;
    let sending = tokio::spawn(desk.send(OP, r#"{"status":"succeeded"}"#.to_owned()));
    drop(desk.callbacks.recv().await.unwrap());
    assert_eq!(sending.await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_sender_that_leaves_early_harms_nobody_and_its_result_is_still_taken() {
    let mut desk = Desk::start(8).await;
    let sending = tokio::spawn(desk.send(OP, r#"{"status":"succeeded"}"#.to_owned()));
    let mut callback = desk.callbacks.recv().await.unwrap();
    sending.abort();
    callback.answer.closed().await;
    assert_eq!(callback.report, Report::Result(OperationResult::Succeeded(json!({}))));
    assert!(callback.answer.send(CallbackAnswer::Recorded).is_err());
    let again = tokio::spawn(desk.send(OP, r#"{"status":"succeeded"}"#.to_owned()));
    desk.callbacks.recv().await.unwrap().answer.send(CallbackAnswer::Recorded).unwrap();
    assert_eq!(again.await.unwrap().status(), StatusCode::OK);
}

#[test]
fn an_address_that_tools_can_not_reach_is_refused() {
    for base in ["", "192.0.2.7:8080", "ftp://192.0.2.7", "http://192.0.2.7/?a=b"] {
        assert!(CallbackAddress::new(base, BoxSecret::new([3; 32])).is_err(), "{base}");
    }
}

const OP: OperationId = OperationId(5);

struct Desk {
    address: SocketAddr,
    secret: BoxSecret,
    callbacks: mpsc::Receiver<Callback>,
}

impl Desk {
    async fn start(queue: usize) -> Self {
        Self::start_with(queue, Duration::from_secs(60)).await
    }

    async fn start_with(queue: usize, answer_within: Duration) -> Self {
        let secret = BoxSecret::new([3; 32]);
        let (sender, callbacks) = mpsc::channel(queue);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = router(secret.clone(), Signers::default(), sender, answer_within, Wall::default);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, secret, callbacks }
    }

    fn send(&self, operation: OperationId, body: String) -> impl Future<Output = Response> + Send + 'static {
        let callback = CallbackAddress::new(&format!("http://{}", self.address), self.secret.clone()).unwrap();
        let request = reqwest_client().post(callback.url(operation)).bearer_auth(callback.token(operation).expose()).body(body);
        async move { request.send().await.unwrap() }
    }
}

fn reqwest_client() -> reqwest::Client {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
}
