//! The tools: a service on loopback that counts the effects that it has by their key, and reports when the scene says so.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::events::patiently;

/// The service.
#[derive(Clone)]
pub struct Tools {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    asked: Mutex<BTreeMap<String, Asked>>,
    changed: Notify,
}

/// What the service knows of one key.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub tool: String,
    /// Requests that came under this key.
    pub requests: u32,
    /// Effects that it had: a repeat is recognised by its key.
    pub effects: u32,
    /// Times that it was asked to cancel: it undoes the effect, once.
    pub cancels: u32,
    operation: String,
    /// Where the last request wants its result.
    callback: (String, String),
}

/// A tool whose name begins so takes effect, and then does not answer the first request under a key.
pub const MUTE: &str = "mute";

impl Tools {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let router = Router::new().route("/{tool}", post(take)).route("/{tool}/cancel", post(cancel)).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, shared }
    }

    /// Waits until `tool` has been asked `requests` times.
    pub async fn asked(&self, tool: &str, requests: u32) {
        let counted = async {
            loop {
                let changed = self.shared.changed.notified();
                let count: u32 = self.all().iter().filter(|asked| asked.tool == tool).map(|asked| asked.requests).sum();
                if count >= requests {
                    return;
                }
                changed.await;
            }
        };
        patiently(&format!("{tool} to be asked {requests} times"), counted).await;
    }

    /// Reports that `tool` succeeded, wherever it was asked for, and says what the box answered last.
    pub async fn report(&self, tool: &str, result: Value) -> u16 {
        let asked = self.all().into_iter().filter(|asked| asked.tool == tool);
        let mut answered = 0;
        for asked in asked {
            answered = self.report_to(asked, result.clone()).await;
        }
        answered
    }

    async fn report_to(&self, asked: Asked, result: Value) -> u16 {
        let (url, token) = asked.callback;
        let report = client().post(url).bearer_auth(token).json(&json!({ "status": "succeeded", "result": result }));
        report.send().await.expect("the box answers").status().as_u16()
    }

    /// How many effects `tool` has had, over all keys.
    pub fn effects(&self, tool: &str) -> u32 {
        self.all().iter().filter(|asked| asked.tool == tool).map(|asked| asked.effects).sum()
    }

    /// How often `tool` was asked to cancel, over all keys.
    pub fn cancels(&self, tool: &str) -> u32 {
        self.all().iter().filter(|asked| asked.tool == tool).map(|asked| asked.cancels).sum()
    }

    /// Everything that the service was asked.
    pub fn all(&self) -> Vec<Asked> {
        self.shared.asked().values().cloned().collect()
    }
}

impl Shared {
    fn asked(&self) -> MutexGuard<'_, BTreeMap<String, Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn take(State(shared): State<Arc<Shared>>, Path(tool): Path<String>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).expect("a key").to_owned();
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).expect("a callback").to_owned();
    let first = {
        let mut asked = shared.asked();
        let known = asked.entry(key).or_insert_with(|| Asked { tool: tool.clone(), effects: 1, ..Asked::default() });
        known.requests += 1;
        known.operation = text("/operation_id");
        known.callback = (text("/callback/url"), text("/callback/token"));
        known.requests == 1
    };
    shared.changed.notify_waiters();
    match (tool.starts_with(MUTE), first) {
        (true, true) => std::future::pending().await,
        (true, false) => Json(json!({ "done": "before" })).into_response(),
        (false, _) => StatusCode::ACCEPTED.into_response(),
    }
}

async fn cancel(State(shared): State<Arc<Shared>>, Path(tool): Path<String>, Json(body): Json<Value>) -> Response {
    let operation = body["operation_id"].as_str().expect("an operation").to_owned();
    let mut asked = shared.asked();
    let known = asked.values_mut().find(|asked| asked.tool == tool && asked.operation == operation).expect("it was asked for");
    known.cancels += 1;
    known.effects = 0;
    Json(json!({ "status": "compensated" })).into_response()
}

/// A client for plain HTTP on loopback.
pub fn client() -> reqwest::Client {
    // Already installed by another test: the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client")
}
