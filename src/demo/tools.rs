//! The tools: a service on loopback that counts the effects that it has by their key, and reports when the story says so.

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
use super::{DemoError, client};

/// The service.
#[derive(Debug, Clone)]
pub struct Tools {
    /// Where it is asked: `http://ADDRESS/TOOL`.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    asked: Mutex<BTreeMap<String, Asked>>,
    changed: Notify,
    manners: Manners,
}

/// What the service knows of one key.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The tool's name.
    pub tool: String,
    /// What it was asked to do, the last time.
    pub arguments: Value,
    /// The operation that it was asked for.
    pub operation: String,
    /// Requests that came under this key.
    pub requests: u32,
    /// Times that it was asked to cancel it: it undoes the effect.
    pub cancels: u32,
    /// Where the last request wants its result.
    pub url: String,
    /// What must come with it.
    pub token: String,
}

/// How a tool behaves. Whatever it answers, it has had its effect.
#[derive(Debug, Clone)]
pub enum Manner {
    /// It takes the request (202), and reports when it is told to.
    Accepts,
    /// It answers with this result.
    Answers(Value),
    /// It never answers.
    IsMute,
}

/// How the tool of a name behaves when it is asked under a key for the first, the second, ... time.
pub type Manners = fn(&str, u32) -> Manner;

impl Tools {
    /// Starts the service on loopback.
    ///
    /// # Errors
    /// The system has no port for it.
    pub async fn start(manners: Manners) -> Result<Self, DemoError> {
        let system = |error| DemoError::System { what: "the tool service", error };
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.map_err(system)?;
        let address = listener.local_addr().map_err(system)?;
        let shared = Arc::new(Shared { asked: Mutex::default(), changed: Notify::new(), manners });
        let router = Router::new().route("/{tool}", post(take)).route("/{tool}/cancel", post(cancel)).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, shared })
    }

    /// Waits until `tool` has been asked `requests` times.
    ///
    /// # Errors
    /// It has not been asked so often.
    pub async fn asked(&self, tool: &str, requests: u32) -> Result<(), DemoError> {
        let counted = async {
            loop {
                let changed = self.shared.changed.notified();
                if self.of(tool).map(|asked| asked.requests).sum::<u32>() >= requests {
                    return;
                }
                changed.await;
            }
        };
        patiently(&format!("{tool} to be asked {requests} times"), counted).await
    }

    /// Reports that `tool` succeeded, wherever it was asked for, and says what the box answered last.
    ///
    /// # Errors
    /// It was not asked for, or the box did not answer.
    pub async fn report(&self, tool: &str, result: Value) -> Result<u16, DemoError> {
        let mut answered = Err(DemoError::Waited(format!("the tool {tool} to be asked")));
        for asked in self.of(tool) {
            answered = asked.report(&json!({ "status": "succeeded", "result": result })).await;
        }
        answered
    }

    /// How many effects `tool` has had that were not undone: it recognises a repeat by its key.
    pub fn effects(&self, tool: &str) -> usize {
        self.of(tool).filter(|asked| asked.cancels == 0).count()
    }

    /// How often `tool` was asked to cancel.
    pub fn cancels(&self, tool: &str) -> u32 {
        self.of(tool).map(|asked| asked.cancels).sum()
    }

    /// Everything that the service was asked, one for each key.
    pub fn all(&self) -> Vec<Asked> {
        self.shared.asked().values().cloned().collect()
    }

    fn of(&self, tool: &str) -> impl Iterator<Item = Asked> {
        self.all().into_iter().filter(move |asked| asked.tool == tool)
    }
}

impl Asked {
    /// Sends the box `report`, and says with what status it answered.
    ///
    /// # Errors
    /// It did not answer.
    pub async fn report(&self, report: &Value) -> Result<u16, DemoError> {
        let sent = client()?.post(&self.url).bearer_auth(&self.token).json(report).send().await;
        sent.map(|answer| answer.status().as_u16()).map_err(|error| DemoError::Answer(error.to_string()))
    }
}

impl Shared {
    fn asked(&self) -> MutexGuard<'_, BTreeMap<String, Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn take(State(shared): State<Arc<Shared>>, Path(tool): Path<String>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let (Some(key), Some(url), Some(token), Some(operation)) = (key, text("/callback/url"), text("/callback/token"), text("/operation_id"))
    else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let request = {
        let mut asked = shared.asked();
        let (requests, cancels) = asked.get(&key).map_or((1, 0), |asked| (asked.requests + 1, asked.cancels));
        asked.insert(key, Asked { tool: tool.clone(), arguments: body["arguments"].clone(), operation, requests, cancels, url, token });
        requests
    };
    shared.changed.notify_waiters();
    match (shared.manners)(&tool, request) {
        Manner::Accepts => StatusCode::ACCEPTED.into_response(),
        Manner::Answers(result) => Json(result).into_response(),
        Manner::IsMute => std::future::pending().await,
    }
}

async fn cancel(State(shared): State<Arc<Shared>>, Path(tool): Path<String>, Json(body): Json<Value>) -> Response {
    let mut asked = shared.asked();
    let found = asked.values_mut().find(|asked| asked.tool == tool && body["operation_id"] == json!(asked.operation));
    let Some(found) = found else { return StatusCode::NOT_FOUND.into_response() };
    found.cancels += 1;
    Json(json!({ "status": "compensated" })).into_response()
}
