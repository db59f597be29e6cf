//! One attempt over HTTP.
//!
//! The request is `POST` with JSON `{operation_id, attempt, tool, arguments, callback: {url, token}}` and an
//! `Idempotency-Key` that is the same for every attempt at the same intent. The answer is judged by [`super::reply`].
//! Each message to a tool with a secret is signed ([`super::signature`]): an attempt as `{operation_id}_attempt_{attempt}`, which leaves once.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use recado_core::ledger::{self, AttemptOutcome, CancelRequest, Dispatch, Executed, Inquiry, InquiryOutcome};
use recado_core::{IntentKey, OperationId};
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Method, Response, Url};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::asking::Asking;
use super::breaker::Endpoint;
use super::callbacks::CallbackAddress;
use super::error::ToolError;
use super::executor::Slot;
use super::http_cancel::Ending;
use super::port::{AttemptFuture, CancelFuture, InquiryFuture, Sent, ToolPort, failed, unanswered};
use super::reply::{RESULT_BYTES_MAX, Verdict, judge, result_object};
use super::status::{StatusUrl, Whose, ask_how_it_stands, same_origin, status_url_named};
use super::tls::Clients;
use super::token::hex;
use crate::config::{Tool, Way};
use crate::outward::{SystemAuthorities, bounded_text, out_of_reach, retry_after_ms, status_words, transport_fault};

/// A tool behind an HTTP address.
pub struct HttpTool {
    asking: Asking,
    url: Url,
    callback: Option<CallbackAddress>,
    ending: Ending,
    status: Option<StatusUrl>,
    endpoint: Endpoint,
    /// Takes news of progress that come with an answer.
    reports: Option<mpsc::Sender<ledger::Input>>,
}

/// Those of `tools` that are behind HTTP, ready for an [`super::Executor`]. Reads their files and the system's certificate authorities.
///
/// Without a `callback` address, and without a URL of its status, no tool may answer that its result comes later. News of progress that a tool gives where it is asked
/// how an operation stands go to `reports`, as far as there is room.
pub fn http_tools(
    tools: &[Tool],
    callback: Option<&CallbackAddress>,
    reports: Option<&mpsc::Sender<ledger::Input>>,
) -> Result<BTreeMap<String, Slot>, ToolError> {
    let mut slots = BTreeMap::new();
    let tools: Vec<&Tool> = tools.iter().filter(|tool| matches!(tool.way(), None | Some(Way::Http(_)))).collect();
    if tools.is_empty() {
        return Ok(slots);
    }
    let mut clients = Clients::new(SystemAuthorities::load());
    for tool in tools {
        let port = HttpTool { reports: reports.cloned(), ..HttpTool::new(tool, &mut clients, callback.cloned())? };
        if slots.insert(tool.name.clone(), Slot { port: Arc::new(port), concurrency: tool.concurrency }).is_some() {
            return Err(ToolError::Duplicate { tool: tool.name.clone() });
        }
    }
    Ok(slots)
}

impl HttpTool {
    pub(super) fn new(tool: &Tool, clients: &mut Clients, callback: Option<CallbackAddress>) -> Result<Self, ToolError> {
        let optional = |setting, text: &Option<String>| text.as_ref().map(|text| address(tool, setting, text)).transpose();
        let url = address(tool, "url", tool.url.as_deref().unwrap_or_default())?;
        let ending = Ending {
            cancel_url: optional("cancel_url", &tool.cancel_url)?,
            compensate_url: optional("compensate_url", &tool.compensate_url)?,
        };
        let status_url = optional("status_url", &tool.status_url)?;
        let proxy = optional("proxy", &tool.proxy)?;
        let all = [Some(&url), ending.cancel_url.as_ref(), ending.compensate_url.as_ref(), status_url.as_ref(), proxy.as_ref()];
        let https = all.into_iter().flatten().any(|url| url.scheme() == "https");
        let client = clients.client(tool, proxy, https)?;
        let asking = Asking::new(tool, client, Endpoint::at(&url), Duration::from_millis(tool.timeout_ms.min(ATTEMPT_MS_MAX)))?;
        let callback = match &asking.signer {
            Some(_) => callback.map(|callback| callback.signed_by(&tool.name)),
            None => callback,
        };
        let status = tool.status_url.clone().map(StatusUrl);
        let endpoint = match &status {
            // The URL that a tool names itself is where the tool is.
            Some(status) if !status.is_at(&url) => asking.endpoint.clone().inquired_elsewhere(),
            _ => asking.endpoint.clone(),
        };
        Ok(Self { asking, url, callback, ending, status, endpoint, reports: None })
    }
}

impl ToolPort for HttpTool {
    fn attempt(&self, dispatch: Dispatch, sent: Sent) -> AttemptFuture {
        let exchange = Exchange {
            operation: dispatch.operation,
            attempt: dispatch.attempt,
            later: Later { callback: self.callback.is_some(), status: self.status.is_some() },
            url: self.url.clone(),
            asking: self.asking.clone(),
            deadline: Instant::now() + self.asking.timeout,
        };
        let body = self.body(&dispatch);
        let id = format!("{}_attempt_{}", dispatch.operation, dispatch.attempt);
        let request = self.asking.request(Method::POST, &self.url, &id, body.as_bytes());
        let marked = MarkedBody { bytes: Some(Bytes::from(body)), sent: sent.clone() };
        let request = request.header(IDEMPOTENCY_KEY, idempotency_key(&dispatch.intent_key)).body(reqwest::Body::wrap(marked));
        Box::pin(async move { exchange.carry_out(request, &sent).await })
    }

    fn cancel(&self, request: CancelRequest) -> CancelFuture {
        Box::pin(self.ending.clone().ask(self.asking.clone(), request))
    }

    fn inquire(&self, inquiry: Inquiry) -> InquiryFuture {
        let url = match &inquiry.handle {
            Some(handle) => same_origin(&self.url, handle).map(|url| (url, Whose::Tool)).ok_or_else(|| {
                "the tool has named a URL of the status that is not where the tool is any more: set its `url` as it was".to_owned()
            }),
            None => match &self.status {
                Some(status) => status.of(&inquiry).map(|url| (url, Whose::Configured)),
                None => return Box::pin(async { InquiryOutcome::Unsupported }),
            },
        };
        let (asking, reports) = (self.asking.clone(), self.reports.clone());
        Box::pin(async move {
            match url {
                Ok((url, whose)) => ask_how_it_stands(asking, url, whose, inquiry, reports).await,
                Err(error) => unanswered(error, false),
            }
        })
    }

    fn endpoint(&self) -> Option<Endpoint> {
        Some(self.endpoint.clone())
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

/// The ways in which a result can come that is not there yet.
#[derive(Debug, Clone, Copy)]
struct Later {
    callback: bool,
    status: bool,
}

/// One request and its answer.
struct Exchange {
    operation: OperationId,
    attempt: u32,
    later: Later,
    url: Url,
    asking: Asking,
    deadline: Instant,
}

impl Exchange {
    async fn carry_out(self, request: reqwest::RequestBuilder, sent: &Sent) -> AttemptOutcome {
        let response = match timeout_at(self.deadline, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return not_answered(transport_fault(&error, "the tool", &self.url), sent.end(), out_of_reach(&error)),
            // Where nothing has left by now, nobody was there to take it.
            Err(_) => return not_answered(self.too_slow(), sent.end(), true),
        };
        let status = response.status();
        self.asking.heard(status);
        match judge(status, self.attempt) {
            Verdict::Result => self.result(response).await,
            Verdict::NoContent => AttemptOutcome::Succeeded(json!({})),
            Verdict::Deferred => self.deferred(response).await,
            Verdict::Failed { executed, retryable } => self.refusal(response, executed, retryable).await,
        }
    }

    /// The tool has it (202). It may name the URL of its status: in `Location` (RFC 9110 10.2.2), or as the `status_url` of a JSON body.
    async fn deferred(&self, response: Response) -> AttemptOutcome {
        let named = match response.headers().get(LOCATION) {
            Some(location) => location.to_str().ok().map(str::to_owned),
            None => match timeout_at(self.deadline, read(response, REASON_BYTES_MAX)).await {
                Ok(Body::Whole(body)) => status_url_named(&body),
                // It has said that it has it.
                Ok(Body::TooLarge | Body::BrokenOff(_)) | Err(_) => None,
            },
        };
        if let Some(named) = named {
            match same_origin(&self.url, &named) {
                Some(url) => return AttemptOutcome::Taken { handle: url.into() },
                None => tracing::warn!(
                    operation_id = %self.operation,
                    "the tool names a URL of its status that is not where the tool is, or that can't be used: it is not asked there"
                ),
            }
        }
        if self.later.callback || self.later.status {
            return AttemptOutcome::Deferred;
        }
        let error = "the tool answered 202, that its result comes later, but this box has no address for callbacks and no URL to ask at";
        failed(error, Executed::Maybe, false)
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
                Ok(Body::Whole(body) | Body::BrokenOff(body)) => self.asking.reason(&body),
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
        format!("the tool gave no complete answer within {} ms", self.asking.timeout.as_millis())
    }
}

/// An attempt whose request got no answer. Where nothing has left the box it counts for nothing if nobody could be reached; a host that
/// refuses is there, and so is one that is not trusted.
fn not_answered(reason: String, executed: Executed, out_of_reach: bool) -> AttemptOutcome {
    if executed == Executed::No && out_of_reach {
        return AttemptOutcome::Unreachable { reason, retry_after_ms: None };
    }
    failed(reason, executed, true)
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

/// Under which a tool recognises a repeat.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// No attempt takes longer, whatever is configured: what does answers 202 and calls back (ms).
const ATTEMPT_MS_MAX: u64 = 3_600_000;

/// A reason is in the first lines of an answer that failed (bytes).
const REASON_BYTES_MAX: usize = 64 * 1024;
