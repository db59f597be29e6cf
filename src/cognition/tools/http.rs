//! One attempt over HTTP.
//!
//! The request is `POST` with JSON `{operation_id, attempt, tool, arguments, callback: {url, token}}` and an
//! `Idempotency-Key` that is the same for every attempt at the same intent. The answer is judged by [`super::reply`].

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use recado_core::ledger::{AttemptOutcome, CancelOutcome, CancelRequest, Dispatch, Executed};
use recado_core::{IntentKey, OperationId};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Response, Url};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout_at};

use super::callbacks::CallbackAddress;
use super::command::CommandTool;
use super::error::ToolError;
use super::executor::Slot;
use super::http_cancel::CancelEndpoint;
use super::port::{AttemptFuture, CancelFuture, Sent, ToolPort, failed};
use super::reply::{RESULT_BYTES_MAX, Verdict, judge, result_object};
use super::tls::Clients;
use super::token::hex;
use crate::config::{OWN_HEADERS, Secret, SecretError, Tool};
use crate::outward::{SystemAuthorities, bounded_text, reason_given, retry_after_ms, status_words, transport_fault};

/// A tool behind an HTTP address.
pub struct HttpTool {
    url: Url,
    client: Client,
    headers: HeaderMap,
    /// What it is sent, and may repeat.
    token: Option<Secret>,
    timeout: Duration,
    callback: Option<CallbackAddress>,
    cancel_url: Option<Url>,
}

/// All `tools`, ready for an [`super::Executor`]. Reads their files and the system's certificate authorities.
///
/// Without a `callback` address, no tool may answer that its result comes later.
pub fn http_tools(tools: &[Tool], callback: Option<&CallbackAddress>) -> Result<BTreeMap<String, Slot>, ToolError> {
    let mut clients = Clients::new(SystemAuthorities::load());
    let mut slots = BTreeMap::new();
    for tool in tools {
        let port: Arc<dyn ToolPort> = match &tool.command {
            Some(command) => Arc::new(CommandTool::new(tool, command)?),
            None => Arc::new(HttpTool::new(tool, &mut clients, callback.cloned())?),
        };
        if slots.insert(tool.name.clone(), Slot { port, concurrency: tool.concurrency }).is_some() {
            return Err(ToolError::Duplicate { tool: tool.name.clone() });
        }
    }
    Ok(slots)
}

impl HttpTool {
    pub(super) fn new(tool: &Tool, clients: &mut Clients, callback: Option<CallbackAddress>) -> Result<Self, ToolError> {
        let url = address(tool, "url", tool.url.as_deref().unwrap_or_default())?;
        let cancel_url = tool.cancel_url.as_ref().map(|text| address(tool, "cancel_url", text)).transpose()?;
        let https = |url: &Url| url.scheme() == "https";
        let client = clients.client(tool, https(&url) || cancel_url.as_ref().is_some_and(https))?;
        let timeout = Duration::from_millis(tool.timeout_ms.min(ATTEMPT_MS_MAX));
        let mut headers = headers(tool)?;
        let token = match &tool.bearer_file {
            Some(path) => {
                let (token, value) = bearer(path).map_err(|error| ToolError::Bearer { tool: tool.name.clone(), error })?;
                headers.insert(AUTHORIZATION, value);
                Some(token)
            }
            None => None,
        };
        Ok(Self { url, client, headers, token, timeout, callback, cancel_url })
    }
}

impl ToolPort for HttpTool {
    fn attempt(&self, dispatch: Dispatch, sent: Sent) -> AttemptFuture {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone());
        let exchange = Exchange {
            operation: dispatch.operation,
            attempt: dispatch.attempt,
            takes_callbacks: self.callback.is_some(),
            url: self.url.clone(),
            token: self.token.clone(),
            deadline: Instant::now() + self.timeout,
            timeout: self.timeout,
        };
        let body = self.body(&dispatch);
        let key = idempotency_key(&dispatch.intent_key);
        let marked = MarkedBody { bytes: Some(Bytes::from(body)), sent: sent.clone() };
        let request = request.header(IDEMPOTENCY_KEY, key).body(reqwest::Body::wrap(marked));
        Box::pin(async move { exchange.carry_out(request, &sent).await })
    }

    fn cancel(&self, request: CancelRequest) -> CancelFuture {
        let Some(url) = self.cancel_url.clone() else { return Box::pin(async { CancelOutcome::Unsupported }) };
        let endpoint = CancelEndpoint {
            url,
            client: self.client.clone(),
            headers: self.headers.clone(),
            token: self.token.clone(),
            timeout: self.timeout,
        };
        Box::pin(endpoint.ask(request))
    }
}

impl HttpTool {
    fn body(&self, dispatch: &Dispatch) -> String {
        let mut body = json!({
            "operation_id": dispatch.operation,
            "attempt": dispatch.attempt,
            "tool": dispatch.tool,
            "arguments": dispatch.arguments,
        });
        if let Some(callback) = &self.callback {
            body["callback"] = json!({
                "url": callback.url(dispatch.operation),
                "token": callback.token(dispatch.operation).expose(),
            });
        }
        body.to_string()
    }
}

/// One request and its answer.
struct Exchange {
    operation: OperationId,
    attempt: u32,
    takes_callbacks: bool,
    url: Url,
    token: Option<Secret>,
    deadline: Instant,
    timeout: Duration,
}

impl Exchange {
    async fn carry_out(self, request: reqwest::RequestBuilder, sent: &Sent) -> AttemptOutcome {
        let response = match timeout_at(self.deadline, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return failed(transport_fault(&error, "the tool", &self.url), sent.end(), true),
            Err(_) => return failed(self.too_slow(), sent.end(), true),
        };
        let status = response.status();
        match judge(status, self.attempt) {
            Verdict::Result => self.result(response).await,
            Verdict::NoContent => AttemptOutcome::Succeeded(json!({})),
            Verdict::Deferred if self.takes_callbacks => AttemptOutcome::Deferred,
            Verdict::Deferred => {
                let error = "the tool answered 202, that its result comes later, but this box has no address for callbacks";
                failed(error, Executed::Maybe, false)
            }
            Verdict::Failed { executed, retryable } => self.refusal(response, executed, retryable).await,
        }
    }

    async fn result(&self, response: Response) -> AttemptOutcome {
        let body = match timeout_at(self.deadline, read(response, RESULT_BYTES_MAX)).await {
            Ok(Body::Whole(body)) => body,
            Ok(Body::TooLarge) => {
                return failed(format!("the tool's answer is larger than {RESULT_BYTES_MAX} bytes"), Executed::Maybe, false);
            }
            Ok(Body::BrokenOff(_)) => return failed("the tool's answer broke off in the middle", Executed::Maybe, true),
            Err(_) => return failed(self.too_slow(), Executed::Maybe, true),
        };
        match serde_json::from_slice::<Value>(&body) {
            Ok(result) => AttemptOutcome::Succeeded(result_object(result)),
            Err(error) => failed(format!("the tool's answer is not JSON: {error}"), Executed::Maybe, false),
        }
    }

    /// The status decides; what the body adds are words. They may be spoken: a tool's reason should be fit for that.
    async fn refusal(&self, response: Response, executed: Executed, retryable: bool) -> AttemptOutcome {
        let status = response.status();
        let retry_after_ms = retry_after_ms(response.headers(), SystemTime::now());
        let elsewhere = if status.is_redirection() { self.elsewhere(response.headers()) } else { None };
        let reason = match elsewhere {
            Some(target) => Some(format!("it points to {target}, and redirects are not followed: set the tool's `url` to that address")),
            None => match timeout_at(self.deadline, read(response, REASON_BYTES_MAX)).await {
                Ok(Body::Whole(body) | Body::BrokenOff(body)) => reason_given(&body, self.token.as_ref()),
                Ok(Body::TooLarge) | Err(_) => None,
            },
        };
        tracing::info!(operation_id = %self.operation, attempt = self.attempt, status = status.as_u16(), "the tool did not carry it out");
        let error = match reason {
            // What a tool itself says about a request is what the caller is told; the number is for the log.
            Some(reason) if status.is_client_error() => reason,
            Some(reason) => format!("the tool answered {}: {reason}", status_words(status)),
            None => format!("the tool answered {}", status_words(status)),
        };
        AttemptOutcome::Failed { error, executed, retryable, retry_after_ms }
    }

    /// Where a redirect points, without what may be secret in it.
    fn elsewhere(&self, headers: &HeaderMap) -> Option<String> {
        let location = headers.get(LOCATION)?.to_str().ok()?;
        let mut target = self.url.join(location).ok()?;
        target.set_query(None);
        target.set_fragment(None);
        // Only addresses without a host refuse this, and they have no user either.
        let _ = target.set_username("");
        let _ = target.set_password(None);
        Some(bounded_text(target.as_str()))
    }

    fn too_slow(&self) -> String {
        format!("the tool gave no complete answer within {} ms", self.timeout.as_millis())
    }
}

/// A request body that tells when it is taken: the connection stands and the head is being written, so from here on
/// the tool may act. Until then nothing that could execute has left the box; where the attempt has ended by then, its body never does.
struct MarkedBody {
    bytes: Option<Bytes>,
    sent: Sent,
}

/// Ends a request of which nothing may leave.
#[derive(Debug, thiserror::Error)]
#[error("the attempt ended before it was sent")]
struct Ended;

impl http_body::Body for MarkedBody {
    type Data = Bytes;
    type Error = Ended;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Ended>>> {
        let this = self.get_mut();
        if !this.sent.mark() {
            return Poll::Ready(Some(Err(Ended)));
        }
        Poll::Ready(this.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

pub(in crate::cognition) enum Body {
    Whole(Vec<u8>),
    TooLarge,
    /// What came before the connection broke.
    BrokenOff(Vec<u8>),
}

pub(in crate::cognition) async fn read(mut response: Response, bytes_max: usize) -> Body {
    if response.content_length().is_some_and(|length| length > bytes_max as u64) {
        return Body::TooLarge;
    }
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > bytes_max => return Body::TooLarge,
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Body::Whole(body),
            Err(_) => return Body::BrokenOff(body),
        }
    }
}

/// The intent key as a header's value: its SHA-256 in hexadecimal. It holds only safe characters whatever the key
/// holds, shows nothing of the arguments, and is the same for every attempt.
pub(super) fn idempotency_key(key: &IntentKey) -> String {
    hex(&Sha256::digest(key.0.as_bytes()))
}

fn address(tool: &Tool, setting: &'static str, text: &str) -> Result<Url, ToolError> {
    let unusable = |reason: &str| ToolError::Url { tool: tool.name.clone(), setting, reason: reason.to_owned() };
    let url = Url::parse(text).map_err(|error| unusable(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(unusable("it must begin with `http://` or `https://`"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(unusable("it names no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unusable("it holds a user or a password, which would show in logs: use `bearer_file` or `headers`"));
    }
    Ok(url)
}

fn headers(tool: &Tool) -> Result<HeaderMap, ToolError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &tool.headers {
        let unusable = |reason: &str| ToolError::Header { tool: tool.name.clone(), header: name.clone(), reason: reason.to_owned() };
        let parsed = HeaderName::try_from(name).map_err(|_| unusable("it is not a header's name"))?;
        if OWN_HEADERS.contains(&parsed.as_str()) {
            return Err(unusable("this one is set by the box itself"));
        }
        if parsed == AUTHORIZATION && tool.bearer_file.is_some() {
            return Err(unusable("`bearer_file` sets it too: remove one of them"));
        }
        let mut value = HeaderValue::try_from(value).map_err(|_| unusable("its value holds characters that a header can't"))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(headers)
}

/// The token, and the header that it is sent as.
fn bearer(path: &Path) -> Result<(Secret, HeaderValue), SecretError> {
    let token = Secret::read(path)?;
    let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
    let mut value = value.map_err(|_| SecretError::Malformed { path: path.to_owned() })?;
    value.set_sensitive(true);
    Ok((token, value))
}

/// Under which a tool recognises a repeat.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// No attempt takes longer, whatever is configured: what does answers 202 and calls back (ms).
const ATTEMPT_MS_MAX: u64 = 3_600_000;

/// A reason is in the first lines of an answer that failed (bytes).
const REASON_BYTES_MAX: usize = 64 * 1024;
