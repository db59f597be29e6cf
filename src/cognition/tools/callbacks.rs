//! What tools report later: `POST /v1/operations/{operation_id}/result`, a result, news of progress, or that a result is taken back.
//!
//! A sender proves itself with the token that came with its attempt; without it, nothing is read and nothing is told,
//! not even whether the operation exists. A 2xx is given only on the ledger's word that the result is durable (R3).
//!
//! A tool with a secret may sign what it reports instead ([`super::signature`]). The address that it was given then says whose operation this
//! is, and proves it: one tool can't sign for another one's, and of a stranger nothing is read. What was signed more than five minutes ago, or
//! that much ahead, is refused where this box knows the time; and what was taken is answered again and goes nowhere ([`super::replays`]).

use std::collections::BTreeMap;
use std::path::PathBuf;
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
use recado_core::ledger::{CallbackAnswer, OperationResult, RequestId};
use recado_core::{OperationId, Wall};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::error::ToolError;
use super::replays::{Replays, Seen};
use super::reply::{RESULT_BYTES_MAX, result_object};
use super::signature::Signer;
use super::token::{BoxSecret, CallbackToken};
use crate::config::Tool;
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
    /// The tool that may sign what it reports.
    signer: Option<Arc<str>>,
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
        Ok(Self { base: base.trim_end_matches('/').into(), secret, signer: None })
    }

    /// The same for a tool that may sign what it reports.
    pub(super) fn signed_by(self, tool: &str) -> Self {
        Self { signer: Some(tool.into()), ..self }
    }

    /// Where the result of `operation` is to be posted.
    pub(super) fn url(&self, operation: OperationId) -> String {
        let plain = format!("{}/v1/operations/{operation}/result", self.base);
        match &self.signer {
            // Names and tokens hold no character that has a meaning in a URL.
            Some(tool) => format!("{plain}/{tool}/{}", self.secret.binding(&operation.to_string(), tool).expose()),
            None => plain,
        }
    }

    /// What must be presented there.
    pub(super) fn token(&self, operation: OperationId) -> CallbackToken {
        self.secret.token(operation)
    }
}

/// The route for results. What comes is sent to `callbacks`; the sender waits for the answer for at most `answer_within`. `signers` are the tools that
/// may sign what they report, and `wall` tells the time that their signatures are held against.
pub fn router(
    secret: BoxSecret,
    signers: Signers,
    callbacks: mpsc::Sender<Callback>,
    answer_within: Duration,
    wall: fn() -> Wall,
) -> Router {
    let desk = Arc::new(Desk { secret, signers, taken: Replays::default(), callbacks, answer_within, wall, requests: AtomicU64::new(0) });
    Router::new().route(PLAIN, post(take_plain)).route(SIGNED, post(take_signed)).with_state(desk)
}

/// The same route on a box that can record nothing: everybody is asked to come again.
pub fn refusing_router() -> Router {
    let refuse = || async { later("the store can't be opened: send it again") };
    Router::new().route(PLAIN, post(refuse)).route(SIGNED, post(refuse))
}

struct Desk {
    secret: BoxSecret,
    signers: Signers,
    taken: Replays,
    wall: fn() -> Wall,
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

/// The tools that may sign what they report, and how each does.
#[derive(Clone, Default)]
pub struct Signers(Arc<BTreeMap<String, Signer>>);

impl Signers {
    /// Those among `tools` that have a secret. Reads their files.
    pub fn of(tools: &[Tool]) -> Result<Self, ToolError> {
        let signs = |tool: &Tool| tool.sign_secret_file.clone().map(|file| (tool.name.clone(), file));
        let read = |(tool, file): (String, PathBuf)| match Signer::read(&file) {
            Ok(signer) => Ok((tool, signer)),
            Err(reason) => Err(ToolError::SignSecret { tool, reason }),
        };
        Ok(Self(Arc::new(tools.iter().filter_map(signs).map(read).collect::<Result<_, _>>()?)))
    }
}

/// What an address says: the operation; and whose it is with the proof of that, where that tool may sign what it reports. A name that can't even be
/// decoded is like any other that no token was issued for.
#[derive(Default)]
struct Address {
    operation: String,
    of_tool: Option<(String, String)>,
}

/// Who reports.
enum Sender<'d> {
    /// Holds the operation's token.
    Bearer,
    /// Will have to show that it knows its tool's secret.
    Signs(&'d str, &'d Signer),
}

async fn take_plain(State(desk): State<Arc<Desk>>, named: Result<Path<String>, PathRejection>, request: Request<Body>) -> Response {
    let operation = named.map(|Path(operation)| operation).unwrap_or_default();
    take(&desk, Address { operation, of_tool: None }, request).await
}

async fn take_signed(
    State(desk): State<Arc<Desk>>,
    named: Result<Path<(String, String, String)>, PathRejection>,
    request: Request<Body>,
) -> Response {
    let address = named.map(|Path((operation, tool, proof))| Address { operation, of_tool: Some((tool, proof)) }).unwrap_or_default();
    take(&desk, address, request).await
}

async fn take(desk: &Desk, address: Address, request: Request<Body>) -> Response {
    // A name that is no identifier never had a token: to who asks, it is the same as any other.
    let (Some(sender), Ok(operation)) = (desk.sender(&address, request.headers()), address.operation.parse::<OperationId>()) else {
        return stranger("the token is missing or wrong");
    };
    let headers = request.headers().clone();
    let body = match tokio::time::timeout(BODY_WITHIN, to_bytes(request.into_body(), RESULT_BYTES_MAX)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) if too_large(&error) => {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, &format!("the body is larger than {RESULT_BYTES_MAX} bytes"));
        }
        Ok(Err(_)) => return refuse(StatusCode::BAD_REQUEST, "the body broke off"),
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"),
    };
    let Sender::Signs(tool, signer) = sender else { return desk.report(operation, &body).await };
    let Some(signed) = signer.check(&headers, &body) else { return stranger("the signature is missing or wrong") };
    let now = (desk.wall)();
    if now.synchronised && signed.timestamp.abs_diff(now.unix_ms.div_euclid(1_000)) > SIGNED_WITHIN_S {
        return stranger("it was signed at another time: the clocks of this box and of the tool must agree to within five minutes");
    }
    match desk.taken.seen(tool, signed.id, operation, &body) {
        Seen::Never => {}
        Seen::Before => return (StatusCode::OK, Json(json!({ "status": "recorded" }))).into_response(),
        Seen::AsAnother => return refuse(StatusCode::BAD_REQUEST, "this webhook-id has named another message: each has one of its own"),
    }
    let answer = desk.report(operation, &body).await;
    if answer.status().is_success() {
        desk.taken.remember(tool, signed.id, operation, &body);
    }
    answer
}

impl Desk {
    /// Who it may be that reports on this operation, before anything of the report is read.
    fn sender(&self, address: &Address, headers: &HeaderMap) -> Option<Sender<'_>> {
        if let Some(token) = bearer(headers) {
            return self.secret.admits(&address.operation, token).then_some(Sender::Bearer);
        }
        let (tool, proof) = address.of_tool.as_ref()?;
        let (tool, signer) = self.signers.0.get_key_value(tool)?;
        self.secret.binds(&address.operation, tool, proof).then_some(Sender::Signs(tool, signer))
    }

    async fn report(&self, operation: OperationId, body: &[u8]) -> Response {
        match parse(body) {
            Ok(report) => self.hand_over(operation, report).await,
            Err(reason) => refuse(StatusCode::BAD_REQUEST, &reason),
        }
    }

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

fn stranger(reason: &str) -> Response {
    let challenge = [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
    (challenge, refuse(StatusCode::UNAUTHORIZED, reason)).into_response()
}

fn refuse(status: StatusCode, reason: &str) -> Response {
    (status, Json(json!({ "error": reason }))).into_response()
}

fn later(reason: &str) -> Response {
    let retry = [(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S))];
    (retry, refuse(StatusCode::SERVICE_UNAVAILABLE, reason)).into_response()
}

/// Where results are posted.
const PLAIN: &str = "/v1/operations/{operation_id}/result";

/// Where a tool posts them that may sign them: the tool, and the proof that the operation is its own.
const SIGNED: &str = "/v1/operations/{operation_id}/result/{tool}/{proof}";

/// After this long a queue that was full has usually been worked off (s).
const RETRY_AFTER_S: u32 = 2;

/// A megabyte over a slow mobile link; longer holds a connection for nothing.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// How far a signature's time may be from the present (s): what Standard Webhooks' own libraries allow.
const SIGNED_WITHIN_S: u64 = 300;
