//! What tools report later: `POST /v1/operations/{operation_id}/result`, a result, news of progress, or that a result is taken back.
//!
//! A sender proves itself with the token that came with its attempt; without it, nothing is read and nothing is told,
//! not even whether the operation exists. A 2xx is given only on the ledger's word that the result is durable (R3).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use recado_core::OperationId;
use recado_core::ledger::{CallbackAnswer, OperationResult, RequestId};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::error::ToolError;
use super::reply::{RESULT_BYTES_MAX, result_object};
use super::token::{BoxSecret, CallbackToken};
use crate::outward::bounded_text;

/// A result from outside, whose sender waits for the ledger's answer.
#[derive(Debug)]
pub struct Callback {
    /// Names the request; never used twice while the box runs.
    pub request: RequestId,
    /// The operation. That it exists is not known here; that the sender holds its token is.
    pub operation: OperationId,
    /// What it says.
    pub report: Report,
    /// Takes the answer. That nobody waits for it any more is no fault: the sender may be gone, and asks again.
    pub answer: oneshot::Sender<CallbackAnswer>,
}

/// What a sender says of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// How it ended.
    Result(OperationResult),
    /// How far it is.
    Progress(Value),
    /// Its result is taken back.
    Retracted,
}

/// Where tools report results, and the secret that lets them.
#[derive(Debug, Clone)]
pub struct CallbackAddress {
    base: Arc<str>,
    secret: BoxSecret,
}

impl CallbackAddress {
    /// The address under `base`, as the tools can reach it: `http://` or `https://`, host, port, and a path where
    /// something in front of the box adds one.
    pub fn new(base: &str, secret: BoxSecret) -> Result<Self, ToolError> {
        let unusable = |reason: String| ToolError::CallbackAddress { base: base.to_owned(), reason };
        let url = reqwest::Url::parse(base).map_err(|error| unusable(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
            return Err(unusable("it must be like `http://192.0.2.7:8080`".to_owned()));
        }
        Ok(Self { base: base.trim_end_matches('/').into(), secret })
    }

    /// Where the result of `operation` is to be posted.
    pub(super) fn url(&self, operation: OperationId) -> String {
        format!("{}/v1/operations/{operation}/result", self.base)
    }

    /// What must be presented there.
    pub(super) fn token(&self, operation: OperationId) -> CallbackToken {
        self.secret.token(operation)
    }
}

/// The route for results. What comes is sent to `callbacks`; the sender waits for the answer for at most `answer_within`.
pub fn router(secret: BoxSecret, callbacks: mpsc::Sender<Callback>, answer_within: Duration) -> Router {
    let desk = Arc::new(Desk { secret, callbacks, answer_within, requests: AtomicU64::new(0) });
    Router::new().route("/v1/operations/{operation_id}/result", post(take)).with_state(desk)
}

/// The same route on a box that can record nothing: everybody is asked to come again.
pub fn refusing_router() -> Router {
    let refuse = || async { later("the store can't be opened: send it again") };
    Router::new().route("/v1/operations/{operation_id}/result", post(refuse))
}

struct Desk {
    secret: BoxSecret,
    callbacks: mpsc::Sender<Callback>,
    answer_within: Duration,
    requests: AtomicU64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportBody {
    status: Status,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    progress: Option<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Succeeded,
    Failed,
    Progress,
    Retracted,
}

async fn take(State(desk): State<Arc<Desk>>, name: Result<Path<String>, PathRejection>, request: Request<Body>) -> Response {
    // A name that can't even be decoded is like any other that no token was issued for.
    let name = name.map(|Path(name)| name).unwrap_or_default();
    let admitted = bearer(request.headers()).is_some_and(|token| desk.secret.admits(&name, token));
    // A name that is no identifier never had a token: to who asks, it is the same as any other.
    let (true, Ok(operation)) = (admitted, name.parse::<OperationId>()) else {
        let challenge = [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
        return (challenge, refuse(StatusCode::UNAUTHORIZED, "the token is missing or wrong")).into_response();
    };
    let body = match tokio::time::timeout(BODY_WITHIN, to_bytes(request.into_body(), RESULT_BYTES_MAX)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) if too_large(&error) => {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, &format!("the body is larger than {RESULT_BYTES_MAX} bytes"));
        }
        Ok(Err(_)) => return refuse(StatusCode::BAD_REQUEST, "the body broke off"),
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"),
    };
    let report = match parse(&body) {
        Ok(report) => report,
        Err(reason) => return refuse(StatusCode::BAD_REQUEST, &reason),
    };
    desk.hand_over(operation, report).await
}

impl Desk {
    async fn hand_over(&self, operation: OperationId, report: Report) -> Response {
        let request = RequestId(self.requests.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        let over = match report {
            Report::Retracted => "no result of it waits to be told: none has come yet, or it has been told",
            _ => "it comes too late: the operation is over",
        };
        if self.callbacks.try_send(Callback { request, operation, report, answer }).is_err() {
            return later("the box has too much to do");
        }
        match tokio::time::timeout(self.answer_within, answered).await {
            Ok(Ok(CallbackAnswer::Recorded)) => (StatusCode::OK, Json(json!({ "status": "recorded" }))).into_response(),
            Ok(Ok(CallbackAnswer::Noted)) => (StatusCode::OK, Json(json!({ "status": "noted" }))).into_response(),
            Ok(Ok(CallbackAnswer::Over)) => refuse(StatusCode::CONFLICT, over),
            Ok(Ok(CallbackAnswer::Conflict)) => refuse(StatusCode::CONFLICT, "another result is on record for this operation"),
            Ok(Ok(CallbackAnswer::Unknown)) => refuse(StatusCode::NOT_FOUND, "there is no such operation"),
            Ok(Ok(CallbackAnswer::Unavailable)) => later("the result can't be made durable now"),
            Ok(Err(_)) => later("the box is stopping"),
            Err(_) => later("it is not known in time whether the result is durable: send it again"),
        }
    }
}

fn parse(body: &[u8]) -> Result<Report, String> {
    let body: ReportBody = serde_json::from_slice(body).map_err(|error| {
        let form = r#"{"status": "succeeded" | "failed" | "progress" | "retracted", "result"?, "error"?, "progress"?}"#;
        format!("the body must be {form}: {}", bounded_text(&error.to_string()))
    })?;
    match (body.status, body.result, body.error, body.progress) {
        (Status::Progress, None, None, progress) => Ok(Report::Progress(progress.map_or_else(|| json!({}), result_object))),
        (Status::Progress, ..) => Err("news of progress have no `result` and no `error`; what they say goes into `progress`".to_owned()),
        (_, _, _, Some(_)) => Err("only `progress` says how far an operation is".to_owned()),
        (Status::Succeeded, result, None, None) => {
            Ok(Report::Result(OperationResult::Succeeded(result.map_or_else(|| json!({}), result_object))))
        }
        (Status::Failed, None, error, None) => {
            let error = error.map(|error| bounded_text(&error)).filter(|error| !error.is_empty());
            Ok(Report::Result(OperationResult::Failed(error.unwrap_or_else(|| "the tool gave no reason".to_owned()))))
        }
        (Status::Retracted, None, None, None) => Ok(Report::Retracted),
        (Status::Succeeded, _, Some(_), None) => Err("an operation that succeeded has no `error`".to_owned()),
        (Status::Failed, Some(_), _, None) => Err("an operation that failed has no `result`; the reason goes into `error`".to_owned()),
        (Status::Retracted, ..) => Err("a result that is taken back says nothing else".to_owned()),
    }
}

/// The credentials of RFC 6750 section 2.1; the scheme's name is case-insensitive (RFC 9110 11.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn too_large(error: &axum::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        next = error.source();
    }
    false
}

fn refuse(status: StatusCode, reason: &str) -> Response {
    (status, Json(json!({ "error": reason }))).into_response()
}

fn later(reason: &str) -> Response {
    let retry = [(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S))];
    (retry, refuse(StatusCode::SERVICE_UNAVAILABLE, reason)).into_response()
}

/// After this long a queue that was full has usually been worked off (s).
const RETRY_AFTER_S: u32 = 2;

/// A megabyte over a slow mobile link; longer holds a connection for nothing.
const BODY_WITHIN: Duration = Duration::from_secs(10);
