//! The tools of the demo: a local service that takes what it is asked, counts the effects that it has by their key, and
//! reports when the story says so.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::DemoError;

/// The service.
#[derive(Clone)]
pub struct Tools {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    taken: Mutex<BTreeMap<String, Taken>>,
    changed: Notify,
}

/// What the service knows of one key.
#[derive(Debug, Clone)]
pub struct Taken {
    pub tool: String,
    /// Requests that came under this key.
    pub requests: u32,
    /// Effects that the service had: it recognises a repeat by its key.
    pub effects: u32,
    callback: (String, String),
}

impl Tools {
    /// Starts the service on loopback.
    pub async fn start() -> Result<Self, DemoError> {
        let system = |error| DemoError::System { what: "the tool service", error };
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.map_err(system)?;
        let address = listener.local_addr().map_err(system)?;
        let shared = Arc::new(Shared::default());
        let router = Router::new().route("/{tool}", post(take)).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, shared })
    }

    /// Waits until `tool` has been asked `requests` times.
    pub async fn asked(&self, tool: &str, requests: u32) {
        loop {
            let changed = self.shared.changed.notified();
            let count: u32 = self.all().iter().filter(|taken| taken.tool == tool).map(|taken| taken.requests).sum();
            if count >= requests {
                return;
            }
            changed.await;
        }
    }

    /// Reports the result of `tool` to the box, and says what the box answered.
    pub async fn report(&self, client: &reqwest::Client, tool: &str, result: Value) -> Result<u16, DemoError> {
        let taken = self.all().into_iter().find(|taken| taken.tool == tool);
        let (url, token) = taken.ok_or_else(|| DemoError::Waited(format!("the tool {tool}")))?.callback;
        let body = json!({ "status": "succeeded", "result": result });
        let sent = client.post(url).bearer_auth(token).json(&body).send().await;
        sent.map(|answer| answer.status().as_u16()).map_err(|error| DemoError::Answer(error.to_string()))
    }

    /// Everything that the service was asked.
    pub fn all(&self) -> Vec<Taken> {
        self.shared.taken.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

async fn take(State(shared): State<Arc<Shared>>, Path(tool): Path<String>, headers: HeaderMap, Json(body): Json<Value>) -> StatusCode {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let (Some(key), Some(url), Some(token)) = (key, text("/callback/url"), text("/callback/token")) else {
        return StatusCode::BAD_REQUEST;
    };
    let mut taken = shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
    let known = taken.entry(key).or_insert_with(|| Taken { tool, requests: 0, effects: 1, callback: (String::new(), String::new()) });
    known.requests += 1;
    known.callback = (url, token);
    shared.changed.notify_waiters();
    StatusCode::ACCEPTED
}
