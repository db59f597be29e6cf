//! Services on loopback that answer well, badly or not at all, and what becomes of the attempt.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::any;
use recado_core::ledger::{AttemptOutcome, CancelOutcome, CancelRequest, Dispatch, Executed, Input};
use recado_core::{IntentKey, OperationId};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::callbacks::CallbackAddress;
use super::error::ToolError;
use super::executor::Executor;
use super::http::{HttpTool, http_tools};
use super::port::{Sent, ToolPort};
use super::tls::Clients;
use super::token::BoxSecret;
use crate::config::Tool;
use crate::outward::SystemAuthorities;

#[tokio::test]
async fn an_attempt_carries_what_the_tool_needs_and_a_key_that_all_attempts_share() {
    let service = Service::start(|_| (StatusCode::OK, "{}").into_response()).await;
    let bearer = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(bearer.path(), "s3cret\n").unwrap();
    let mut tool = tool(&service.url("/book"));
    tool.headers.insert("X-Shop".into(), "7".into());
    tool.bearer_file = Some(bearer.path().to_owned());
    let secret = BoxSecret::new([3; 32]);
    let callback = CallbackAddress::new("http://192.0.2.7:8080/", secret.clone()).unwrap();
    let port = HttpTool::new(&tool, &mut clients(), Some(callback)).unwrap();
    for attempt in 1..=2 {
        assert_eq!(port.attempt(dispatch(attempt), Sent::default()).await, AttemptOutcome::Succeeded(json!({})));
    }

    let requests = service.requests();
    let [first, second] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", "/book"));
    let header = |request: &Request, name: &str| request.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(header(first, "content-type").as_deref(), Some("application/json"));
    assert_eq!(header(first, "x-shop").as_deref(), Some("7"));
    assert_eq!(header(first, "authorization").as_deref(), Some("Bearer s3cret"));
    assert_eq!(header(first, "content-length"), Some(first.body.len().to_string()));
    let key = header(first, "idempotency-key").unwrap();
    assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    assert_eq!(header(second, "idempotency-key"), Some(key));
    let body = |request: &Request| serde_json::from_slice::<Value>(&request.body).unwrap();
    let expected = json!({
        "operation_id": "op_00000000000000000000000000000005",
        "attempt": 1,
        "tool": "book_table",
        "arguments": { "people": 4, "name": "Zoë\r\n" },
        "callback": {
            "url": "http://192.0.2.7:8080/v1/operations/op_00000000000000000000000000000005/result",
            "token": secret.token(OperationId(5)).expose(),
        },
    });
    assert_eq!(body(first), expected);
    assert_eq!(body(second)["attempt"], 2);
}

#[tokio::test]
async fn an_answer_is_a_result_an_empty_one_or_a_promise() {
    let service = Service::start(|path| match path {
        "/object" => (StatusCode::OK, r#"{"table": 4}"#).into_response(),
        "/list" => (StatusCode::CREATED, "[1]").into_response(),
        "/nothing" => StatusCode::NO_CONTENT.into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    })
    .await;
    assert_eq!(attempt(&service.url("/object")).await, AttemptOutcome::Succeeded(json!({ "table": 4 })));
    assert_eq!(attempt(&service.url("/list")).await, AttemptOutcome::Succeeded(json!({ "value": [1] })));
    assert_eq!(attempt(&service.url("/nothing")).await, AttemptOutcome::Succeeded(json!({})));
    let callback = CallbackAddress::new("http://192.0.2.7:8080", BoxSecret::new([3; 32])).unwrap();
    let port = HttpTool::new(&tool(&service.url("/later")), &mut clients(), Some(callback)).unwrap();
    assert_eq!(port.attempt(dispatch(1), Sent::default()).await, AttemptOutcome::Deferred);
    let mut asked = tool(&service.url("/later"));
    asked.status_url = Some(service.url("/status/{operation_id}"));
    let port = HttpTool::new(&asked, &mut clients(), None).unwrap();
    assert_eq!(port.attempt(dispatch(1), Sent::default()).await, AttemptOutcome::Deferred);
    let unexpected = attempt(&service.url("/later")).await;
    expect(&unexpected, Executed::Maybe, false, None, "no address for callbacks");
}

#[tokio::test]
async fn a_refused_connection_provably_executed_nothing_and_a_name_that_does_not_resolve_is_out_of_reach() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    expect(&attempt(&format!("http://{address}/")).await, Executed::No, true, None, "refused");
    unreachable(&attempt("http://tool.invalid/").await, "does not resolve");
}

#[tokio::test]
async fn a_host_that_does_not_answer_to_a_connection_is_out_of_reach() {
    // Its queue is full of connections that nobody takes: the kernel answers no further one.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut held = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(address)).await {
        held.push(stream);
    }
    let mut tool = tool(&format!("http://{address}/"));
    tool.timeout_ms = 200;
    unreachable(&HttpTool::new(&tool, &mut clients(), None).unwrap().attempt(dispatch(1), Sent::default()).await, "within 200 ms");
}

#[tokio::test]
async fn a_connection_that_closes_or_breaks_after_the_request_leaves_doubt() {
    let silent_close = raw(|stream| async move { drop(stream) }).await;
    expect(&attempt(&silent_close).await, Executed::Maybe, true, None, "broke");

    let reset = raw(|stream| async move { stream.set_zero_linger().unwrap() }).await;
    expect(&attempt(&reset).await, Executed::Maybe, true, None, "broke");

    let reset_in_the_body = raw(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"table\":").await.unwrap();
        stream.set_zero_linger().unwrap();
    })
    .await;
    expect(&attempt(&reset_in_the_body).await, Executed::Maybe, true, None, "broke");

    let chunks_cut_short = raw(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n").await.unwrap();
    })
    .await;
    expect(&attempt(&chunks_cut_short).await, Executed::Maybe, true, None, "broke off in the middle");

    let no_http = raw(|mut stream| async move { stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap() }).await;
    expect(&attempt(&no_http).await, Executed::Maybe, true, None, "broke");
}

#[tokio::test]
async fn no_answer_in_time_and_a_slow_drip_end_within_the_attempts_whole_time() {
    let mute = raw(|stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let drip = raw(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await.unwrap();
        // The fault itself: a byte now and then, for ever.
        let mut pace = tokio::time::interval(Duration::from_millis(10));
        while stream.write_all(b" ").await.is_ok() {
            pace.tick().await;
        }
    })
    .await;
    let drip_of_a_refusal = raw(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 1000\r\n\r\n").await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let timed = |url: String| async move {
        let mut tool = tool(&url);
        tool.timeout_ms = 200;
        let begun = Instant::now();
        let outcome = HttpTool::new(&tool, &mut clients(), None).unwrap().attempt(dispatch(1), Sent::default()).await;
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        outcome
    };
    expect(&timed(mute).await, Executed::Maybe, true, None, "no complete answer within 200 ms");
    expect(&timed(drip).await, Executed::Maybe, true, None, "no complete answer within 200 ms");
    // The status has come, and it decides.
    expect(&timed(drip_of_a_refusal).await, Executed::No, false, None, "404 Not Found");
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_read_to_its_end() {
    let announced = Service::start(|_| (StatusCode::OK, vec![b' '; 10_000_000]).into_response()).await;
    expect(&attempt(&announced.url("/")).await, Executed::Maybe, false, None, "larger than 1048576 bytes");
    let unannounced = raw(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await.unwrap();
        let megabyte = vec![b' '; 1_000_000];
        for _ in 0..10 {
            if stream.write_all(&megabyte).await.is_err() {
                return;
            }
        }
        // All ten fitting in between would mean that the answer was read.
        panic!("ten megabytes were taken");
    })
    .await;
    expect(&attempt(&unannounced).await, Executed::Maybe, false, None, "larger than 1048576 bytes");
    let large_refusal = Service::start(|_| (StatusCode::BAD_REQUEST, vec![b' '; 10_000_000]).into_response()).await;
    expect(&attempt(&large_refusal.url("/")).await, Executed::No, false, None, "400 Bad Request");
}

#[tokio::test]
async fn an_answer_that_is_not_json_says_so() {
    let service = Service::start(|path| (StatusCode::OK, if path == "/empty" { "" } else { "<html>OK</html>" }).into_response()).await;
    expect(&attempt(&service.url("/")).await, Executed::Maybe, false, None, "not JSON");
    expect(&attempt(&service.url("/empty")).await, Executed::Maybe, false, None, "not JSON");
    let nested = Service::start(|_| (StatusCode::OK, "[".repeat(100_000)).into_response()).await;
    expect(&attempt(&nested.url("/")).await, Executed::Maybe, false, None, "not JSON");
}

#[tokio::test]
async fn a_status_that_fails_says_what_is_known_and_brings_the_tools_words() {
    let service = Service::start(|path| match path {
        "/500" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "/503" => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "3")], "").into_response(),
        "/429" => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")], r#"{"error": "slow down"}"#).into_response(),
        "/409" => (StatusCode::CONFLICT, r#"{"detail": "in progress"}"#).into_response(),
        _ => (StatusCode::UNPROCESSABLE_ENTITY, r#"{"error": "no table for 4"}"#).into_response(),
    })
    .await;
    expect(&attempt(&service.url("/500")).await, Executed::Maybe, true, None, "500 Internal Server Error");
    expect(&attempt(&service.url("/503")).await, Executed::Maybe, true, Some(3_000), "503");
    expect(&attempt(&service.url("/429")).await, Executed::No, true, Some(7_000), "slow down");
    let refused = attempt(&service.url("/422")).await;
    expect(&refused, Executed::No, false, None, "no table for 4");
    let AttemptOutcome::Failed { error, .. } = refused else { panic!() };
    assert_eq!(error, "no table for 4", "the tool's own words, and nothing before them: they may be spoken");
    let port = HttpTool::new(&tool(&service.url("/409")), &mut clients(), None).unwrap();
    expect(&port.attempt(dispatch(1), Sent::default()).await, Executed::No, false, None, "in progress");
    expect(&port.attempt(dispatch(2), Sent::default()).await, Executed::Maybe, true, None, "in progress");
    assert_eq!(service.requests().len(), 6, "one request for each attempt, and no other");
}

#[tokio::test]
async fn a_tool_that_repeats_its_token_is_quoted_without_it() {
    let echo = r#"{"error": "who is Bearer s3cret\u002ftoken?"}"#;
    let service = Service::start(move |_| (StatusCode::FORBIDDEN, echo).into_response()).await;
    let bearer = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(bearer.path(), "s3cret/token\n").unwrap();
    let mut tool = tool(&service.url("/book"));
    tool.bearer_file = Some(bearer.path().to_owned());
    tool.cancel_url = Some(service.url("/cancel"));
    let port = HttpTool::new(&tool, &mut clients(), None).unwrap();
    let AttemptOutcome::Failed { error, .. } = port.attempt(dispatch(1), Sent::default()).await else { panic!() };
    assert_eq!(error, "who is Bearer ***?");
    let request = CancelRequest {
        operation: OperationId(5),
        request: 1,
        tool: tool.name.clone(),
        arguments: json!({}),
        intent_key: IntentKey("k".into()),
        handle: None,
    };
    let CancelOutcome::Failed { error, .. } = port.cancel(request).await else { panic!() };
    assert_eq!(error, "the tool answered the cancel with 403 Forbidden: who is Bearer ***?");
}

#[tokio::test]
async fn an_attempt_that_was_ended_reaches_no_tool() {
    let service = Service::start(|_| (StatusCode::OK, "{}").into_response()).await;
    let port = HttpTool::new(&tool(&service.url("/")), &mut clients(), None).unwrap();
    let sent = Sent::default();
    assert_eq!(sent.end(), Executed::No);
    expect(&port.attempt(dispatch(1), sent).await, Executed::No, true, None, "ended before it was sent");
    assert_eq!(service.requests().len(), 0);
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_its_target_is_named_without_what_may_be_secret() {
    let service = Service::start(|path| match path {
        "/kept" => (StatusCode::PERMANENT_REDIRECT, [("location", "/kept?key=s3cret")]).into_response(),
        "/bare" => StatusCode::FOUND.into_response(),
        _ => (StatusCode::FOUND, [("location", "/loop")]).into_response(),
    })
    .await;
    let looped = attempt(&service.url("/loop")).await;
    expect(&looped, Executed::Maybe, false, None, &format!("it points to {}", service.url("/loop")));
    let kept = attempt(&service.url("/kept")).await;
    expect(&kept, Executed::No, false, None, "redirects are not followed");
    assert!(!format!("{kept:?}").contains("s3cret"), "{kept:?}");
    expect(&attempt(&service.url("/bare")).await, Executed::Maybe, false, None, "302 Found");
    assert_eq!(service.requests().len(), 3);
}

#[tokio::test]
async fn idempotent_tools_keep_their_connection_and_others_get_a_new_one_each_time() {
    let service = Service::start(|_| (StatusCode::OK, "{}").into_response()).await;
    let connections = |idempotent: bool| {
        let service = &service;
        async move {
            let mut tool = tool(&service.url("/"));
            tool.idempotent = idempotent;
            let port = HttpTool::new(&tool, &mut clients(), None).unwrap();
            let before = service.requests().len();
            for _ in 0..10 {
                assert_eq!(port.attempt(dispatch(1), Sent::default()).await, AttemptOutcome::Succeeded(json!({})));
            }
            service.requests()[before..].iter().map(|request| request.peer).collect::<std::collections::BTreeSet<_>>().len()
        }
    };
    assert_eq!(connections(false).await, 10);
    // A connection returns to the pool when its task gets around to it, which may be after the next attempt began.
    assert!(connections(true).await < 10);
}

#[tokio::test]
async fn configured_tools_run_in_an_executor_and_report_to_the_ledger() {
    let service = Service::start(|path| (StatusCode::OK, format!(r#"{{"path": "{path}"}}"#)).into_response()).await;
    let mut tools = [tool(&service.url("/book")), tool(&service.url("/order"))];
    tools[1].name = "order".to_owned();
    let (sender, mut reports) = tokio::sync::mpsc::channel(8);
    let executor = Executor::start(http_tools(&tools, None, None).unwrap(), 4.try_into().unwrap(), sender);
    let of = |tool: &str, operation| Dispatch { tool: tool.to_owned(), operation, ..dispatch(1) };
    executor.dispatch(of("book_table", OperationId(1))).unwrap();
    executor.dispatch(of("order", OperationId(2))).unwrap();
    let mut told = [reports.recv().await.unwrap(), reports.recv().await.unwrap()];
    told.sort_by_key(|report| if let Input::Attempted { operation, .. } = report { Some(*operation) } else { None });
    let expected =
        |operation, path| Input::Attempted { operation, attempt: 1, outcome: AttemptOutcome::Succeeded(json!({ "path": path })) };
    assert_eq!(told, [expected(OperationId(1), "/book"), expected(OperationId(2), "/order")]);
    executor.stop(Duration::ZERO).await;
    assert_eq!(reports.recv().await, None);
    assert!(matches!(http_tools(&[tools[0].clone(), tools[0].clone()], None, None), Err(ToolError::Duplicate { .. })));
}

#[tokio::test]
async fn tools_with_the_same_needs_share_one_client() {
    let mut clients = clients();
    let mut tools = vec![tool("http://127.0.0.1:1/a"), tool("http://127.0.0.1:1/b"), tool("http://127.0.0.1:1/c")];
    tools[2].idempotent = true;
    for tool in &tools {
        HttpTool::new(tool, &mut clients, None).unwrap();
    }
    assert_eq!(clients.count(), 2);
}

#[test]
fn a_tool_that_can_not_be_used_shows_at_start_with_its_setting_and_no_secret() {
    let refused = |change: &dyn Fn(&mut Tool)| {
        let mut tool = tool("http://127.0.0.1:1/");
        change(&mut tool);
        match HttpTool::new(&tool, &mut clients(), None) {
            Err(error) => error,
            Ok(_) => panic!("it was taken"),
        }
    };
    for url in ["ftp://host/", "not an address", "http://user:s3cret@host/", "http://"] {
        let error = refused(&|tool| tool.url = Some(url.into()));
        assert!(matches!(error, ToolError::Url { .. }) && !error.to_string().contains("s3cret"), "{error}");
    }
    for (name, value) in [("Content-Length", "3"), ("Idempotency-Key", "a"), ("bad name", "a"), ("X-Key", "s3cret\n")] {
        let error = refused(&|tool| drop(tool.headers.insert(name.into(), value.into())));
        assert!(matches!(error, ToolError::Header { .. }) && !error.to_string().contains("s3cret"), "{error}");
    }
    let error = refused(&|tool| tool.bearer_file = Some("/nowhere/s3cret".into()));
    assert!(
        error.to_string().contains("`bearer_file`: the credential file that is named is not in /: ")
            && !error.to_string().contains("s3cret"),
        "{error}"
    );
    let empty = tempfile::NamedTempFile::new().unwrap();
    let error = refused(&|tool| tool.bearer_file = Some(empty.path().to_owned()));
    assert!(error.to_string().contains("must hold one line"), "{error}");
    let error = refused(&|tool| {
        tool.bearer_file = Some(empty.path().to_owned());
        tool.headers.insert("Authorization".into(), "Basic s3cret".into());
    });
    assert!(matches!(error, ToolError::Header { .. }) && !error.to_string().contains("s3cret"), "{error}");
}

/// A request as the service saw it.
#[derive(Debug, Clone)]
pub(super) struct Request {
    peer: SocketAddr,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// A service whose answer depends on the path, and that remembers what it was asked.
pub(super) struct Service {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Service {
    pub(super) async fn start(answer: impl Fn(&str) -> axum::response::Response + Clone + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let seen = requests.clone();
        let handler = move |ConnectInfo(peer): ConnectInfo<SocketAddr>, parts: axum::http::request::Parts, body: Bytes| async move {
            let path = parts.uri.path().to_owned();
            let response = answer(&path);
            seen.lock().unwrap().push(Request { peer, method: parts.method.to_string(), path, headers: parts.headers, body });
            response
        };
        let app = Router::new().fallback(any(handler)).into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, requests }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

/// A service that reads one whole request and then does what it is told with the connection. Gives its address.
async fn raw<F: Future<Output = ()> + Send + 'static>(then: impl Fn(TcpStream) -> F + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            read_request(&mut stream).await;
            tokio::spawn(then(stream));
        }
    });
    format!("http://{address}/")
}

async fn read_request(stream: &mut TcpStream) {
    let mut request = Vec::new();
    let mut missing = None;
    while missing != Some(0) {
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(length) => request.extend_from_slice(&piece[..length]),
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        missing = text.split_once("\r\n\r\n").map(|(head, body)| {
            let length = head.split_once("content-length: ").unwrap().1.split("\r\n").next().unwrap();
            length.parse::<usize>().unwrap() - body.len()
        });
    }
}

async fn attempt(url: &str) -> AttemptOutcome {
    let port = HttpTool::new(&tool(url), &mut clients(), None).unwrap();
    port.attempt(dispatch(1), Sent::default()).await
}

#[track_caller]
pub(super) fn unreachable(outcome: &AttemptOutcome, words: &str) {
    match outcome {
        AttemptOutcome::Unreachable { reason, retry_after_ms: None } => assert!(reason.contains(words), "{outcome:?}"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(super) fn expect(outcome: &AttemptOutcome, executed: Executed, retryable: bool, retry_after_ms: Option<u64>, words: &str) {
    match outcome {
        AttemptOutcome::Failed { error, executed: e, retryable: r, retry_after_ms: a } => {
            assert!((*e, *r, *a) == (executed, retryable, retry_after_ms) && error.contains(words), "{outcome:?}");
        }
        other => panic!("{other:?}"),
    }
}

pub(super) fn clients() -> Clients {
    Clients::new(SystemAuthorities::none())
}

pub(super) fn tool(url: &str) -> Tool {
    serde_json::from_value(json!({ "name": "book_table", "url": url })).unwrap()
}

pub(super) fn dispatch(attempt: u32) -> Dispatch {
    Dispatch {
        operation: OperationId(5),
        attempt,
        tool: "book_table".to_owned(),
        arguments: json!({ "people": 4, "name": "Zoë\r\n" }),
        intent_key: IntentKey("party/book_table/{\"people\":4}\r\n/1".to_owned()),
    }
}
