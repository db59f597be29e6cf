//! The table of faults, as `docs/guarantees.md` has it: for each, what comes of the operation, what the caller hears, what is in the store, and how
//! often the service was reached.

use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use recado_core::ledger::OperationState::{self, Failed, RetryWait, Succeeded, Unknown};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::rig::{scene, tool};
use super::service::{Secure, Service, raw};

/// What is expected of one fault.
struct Row {
    fault: &'static str,
    tool: Value,
    /// The operation's end, attempts that were committed, and those that left the box at most; for a tool that is not idempotent, and for one that is.
    ends: [(OperationState, u32); 2],
    unreached: u32,
    maybe_executed: bool,
    /// The closing begins so.
    hears: &'static str,
}

#[tokio::test]
async fn each_fault_has_the_end_that_the_table_gives_it() {
    for (idempotent, column) in [(false, 0), (true, 1)] {
        let expired = Secure::start("localhost", 2001).await;
        let html = Service::start(|_, _| ([(header::CONTENT_TYPE, "text/html")], "<html>Welcome</html>").into_response()).await;
        let failing = Service::start(|_, _| StatusCode::INTERNAL_SERVER_ERROR.into_response()).await;
        let busy = Service::start(|_, before| match before {
            0 => (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")]).into_response(),
            _ => r#"{"at": "nine"}"#.into_response(),
        })
        .await;
        let looping = Service::start(|_, _| (StatusCode::FOUND, [(header::LOCATION, "/loop")]).into_response()).await;
        let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let rows = [
            Row {
                fault: "the name does not resolve",
                tool: tool(
                    "http://tool.invalid/",
                    json!({ "retry": { "attempts_max": 2, "backoff_ms": 600_000, "backoff_ms_max": 600_000 } }),
                ),
                ends: [(RetryWait, 1), (RetryWait, 1)],
                unreached: 1,
                maybe_executed: false,
                hears: "Failed: the tool's host `tool.invalid` can't be found",
            },
            Row {
                fault: "the connection is refused",
                tool: tool(&format!("http://{refusing}/"), json!({})),
                ends: [(Failed, 2), (Failed, 2)],
                unreached: 0,
                maybe_executed: false,
                hears: "Failed: no connection to the tool's host",
            },
            Row {
                fault: "the connection is reset in the middle of the answer",
                tool: tool(&reset_in_the_middle().await, json!({})),
                ends: [(Unknown, 1), (Unknown, 2)],
                unreached: 0,
                maybe_executed: true,
                hears: "Nobody knows.",
            },
            Row {
                fault: "the answer drips",
                tool: tool(&drip().await, json!({ "timeout_ms": 300 })),
                ends: [(Unknown, 1), (Unknown, 2)],
                unreached: 0,
                maybe_executed: true,
                hears: "Nobody knows.",
            },
            Row {
                fault: "the answer has ten megabytes",
                tool: tool(&ten_megabytes().await, json!({})),
                ends: [(Unknown, 1), (Unknown, 1)],
                unreached: 0,
                maybe_executed: true,
                hears: "Nobody knows.",
            },
            Row {
                fault: "the answer is a page",
                tool: tool(&html.base, json!({})),
                ends: [(Unknown, 1), (Unknown, 1)],
                unreached: 0,
                maybe_executed: true,
                hears: "Nobody knows.",
            },
            Row {
                fault: "it answers 500 each time",
                tool: tool(&failing.base, json!({})),
                ends: [(Unknown, 1), (Unknown, 2)],
                unreached: 0,
                maybe_executed: true,
                hears: "Nobody knows.",
            },
            Row {
                fault: "it answers 429 with Retry-After, and then does it",
                tool: tool(&busy.base, json!({})),
                ends: [(Succeeded, 2), (Succeeded, 2)],
                unreached: 0,
                maybe_executed: false,
                hears: "Done: nine.",
            },
            Row {
                fault: "it redirects to itself",
                tool: tool(&format!("{}/loop", looping.base), json!({})),
                ends: [(Unknown, 1), (Unknown, 1)],
                unreached: 0,
                maybe_executed: true,
                hears: "Nobody knows.",
            },
            Row {
                fault: "its certificate has expired",
                tool: tool(&format!("https://localhost:{}/", expired.port), json!({ "ca_file": expired.authority.path() })),
                ends: [(Failed, 2), (Failed, 2)],
                unreached: 0,
                maybe_executed: false,
                hears: "Failed: the tool's certificate has expired",
            },
        ];
        for row in rows {
            row.holds(idempotent, column).await;
        }
        assert_eq!(expired.requests(), 0, "nobody is told anything whom the box does not trust");
        let reached = [&html, &failing, &busy, &looping].map(|service| service.all().len());
        assert_eq!(reached, [1, if idempotent { 2 } else { 1 }, 2, 1], "each attempt is one request");
        let keys: Vec<String> = busy.all().iter().map(|asked| asked.header("idempotency-key")).collect();
        assert!(keys[0] == keys[1] && !keys[0].is_empty(), "{keys:?}");
    }
}

impl Row {
    async fn holds(self, idempotent: bool, column: usize) {
        let Self { fault, mut tool, ends, unreached, maybe_executed, hears } = self;
        tool["idempotent"] = json!(idempotent);
        let (ends, attempts) = ends[column];
        let mut scene = scene(tool).await;
        let operation = scene.orders("tool");
        scene.until(|scene| scene.state(operation) == ends).await;
        if ends == RetryWait {
            assert_eq!(scene.updates, ["It waits."], "{fault}: the caller hears that it waits");
            assert_eq!(scene.stored(operation).state, RetryWait, "{fault}");
            scene.goes_by(600_000);
            assert_eq!(scene.state(operation), Failed, "{fault}: its deadline ends it");
        }
        let said = scene.tells().join(" ");
        assert!(said.starts_with(hears), "{fault}: {said}");
        let stored = scene.stored(operation);
        assert_eq!((stored.state, stored.attempt), (scene.state(operation), attempts), "{fault}");
        assert_eq!((stored.unreached, stored.maybe_executed), (unreached, maybe_executed), "{fault}");
        assert_eq!(stored.result.is_some(), ends == Succeeded, "{fault}");
    }
}

async fn reset_in_the_middle() -> String {
    raw(|mut stream, _| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"at\":").await.expect("written");
        stream.set_zero_linger().expect("set");
    })
    .await
}

async fn drip() -> String {
    raw(|mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await;
        while stream.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

async fn ten_megabytes() -> String {
    raw(|mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
        let megabyte = vec![b' '; 1_000_000];
        for _ in 0..10 {
            if stream.write_all(&megabyte).await.is_err() {
                return;
            }
        }
    })
    .await
}
