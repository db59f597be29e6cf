//! One tool of a server: called, asked how its task stands, and asked to end it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use recado_core::OperationId;
use recado_core::ledger::{self, AttemptOutcome, CancelOutcome, CancelRequest, Dispatch, Executed, Inquiry, InquiryOutcome};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, DetailedTask, ErrorCode, GetTaskParams, RequestMetaObject, TaskPayload,
};
use rmcp::service::ServiceError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use super::super::breaker::Endpoint;
use super::super::http::idempotency_key;
use super::super::port::{AttemptFuture, CancelFuture, InquiryFuture, Sent, ToolPort, cancel_failed, failed, unanswered};
use super::meaning::{Said, is_refusal, refuses, said, said_of_task};
use super::server::{Away, For, Open, Server};
use crate::config::Tool;

/// A tool of a server.
pub(super) struct McpTool(Arc<Called>);

struct Called {
    server: Arc<Server>,
    /// What it fails together with, told of each answer.
    endpoint: Endpoint,
    /// Its name at the server.
    name: String,
    timeout: Duration,
    news: Option<mpsc::Sender<ledger::Input>>,
}

/// What the ledger keeps of a task.
#[derive(Serialize, Deserialize)]
struct Handle {
    task_id: String,
}

impl McpTool {
    pub fn new(tool: &Tool, server: Arc<Server>, news: Option<mpsc::Sender<ledger::Input>>) -> Self {
        let name = tool.mcp_tool.clone().unwrap_or_else(|| tool.name.clone());
        let endpoint = Endpoint::new(format!("mcp {}", server.name()));
        Self(Arc::new(Called { server, endpoint, name, timeout: Duration::from_millis(tool.timeout_ms), news }))
    }
}

impl ToolPort for McpTool {
    fn attempt(&self, dispatch: Dispatch, sent: Sent) -> AttemptFuture {
        let called = Arc::clone(&self.0);
        Box::pin(async move { called.attempt(dispatch, sent).await })
    }

    fn inquire(&self, inquiry: Inquiry) -> InquiryFuture {
        let called = Arc::clone(&self.0);
        Box::pin(async move { called.inquire(inquiry).await })
    }

    fn cancel(&self, request: CancelRequest) -> CancelFuture {
        let called = Arc::clone(&self.0);
        Box::pin(async move { called.cancel(request).await })
    }

    fn endpoint(&self) -> Option<Endpoint> {
        Some(self.0.endpoint.clone())
    }
}

impl Called {
    async fn attempt(&self, dispatch: Dispatch, sent: Sent) -> AttemptOutcome {
        // Who waits here waits for the box's other calls: its own time begins when it is its turn, and nothing is said of the server.
        let place = match self.server.place(For::Call).await {
            Ok(place) => place,
            Err(Away { reason, .. }) => return failed(reason, Executed::No, true),
        };
        let deadline = Instant::now() + self.timeout;
        let open = match timeout_at(deadline, self.server.open(place)).await {
            Ok(Ok(open)) => open,
            Ok(Err(Away { reason, retry_after_ms })) => {
                return AttemptOutcome::Unreachable { reason, retry_after_ms: Some(retry_after_ms) };
            }
            Err(_) => return AttemptOutcome::Unreachable { reason: self.too_slow("been reached"), retry_after_ms: None },
        };
        let mut params = CallToolRequestParams::new(self.name.clone());
        params.arguments = dispatch.arguments.as_object().cloned();
        // A server that knows it recognises a repeat; the protocol itself has no such key.
        let meta = json!({ KEY_IN_META: idempotency_key(&dispatch.intent_key) });
        params.meta = serde_json::from_value::<RequestMetaObject>(meta).ok();
        if !sent.mark() {
            return failed("the attempt ended before it was sent", Executed::No, true);
        }
        // Where this is dropped, the server is told that nobody waits any more: it may stop, and may have acted.
        let answer = match timeout_at(deadline, self.answered(open.peer.call_tool_once(params))).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                if is_refused(&error) {
                    self.server.has_refused();
                }
                return self.server.faults().of_call(&error, dispatch.attempt);
            }
            Err(_) => return failed(self.too_slow("answered the call"), Executed::Maybe, true),
        };
        match answer {
            CallToolResponse::Complete(result) => match said(result, self.server.faults()) {
                Said::Done(value) => AttemptOutcome::Succeeded(value),
                Said::Refused(reason) => {
                    // Some servers refuse so what they do not offer any more.
                    self.server.has_refused();
                    failed(reason, Executed::No, false)
                }
            },
            CallToolResponse::InputRequired(_) => failed(WANTS_INPUT, Executed::No, false),
            CallToolResponse::Task(created) => match serde_json::to_string(&Handle { task_id: created.task.task_id }) {
                Ok(handle) if handle.len() <= HANDLE_BYTES_MAX => AttemptOutcome::Taken { handle },
                _ => failed("the server has it under a name that can't be kept", Executed::Maybe, false),
            },
            _ => failed("the server's answer is none that a call has", Executed::Maybe, false),
        }
    }

    async fn inquire(&self, inquiry: Inquiry) -> InquiryOutcome {
        let Some(task) = task_of(inquiry.handle.as_deref()) else { return InquiryOutcome::Unsupported };
        let place = match self.server.place(For::Inquiry).await {
            Ok(place) => place,
            Err(Away { reason, .. }) => return unanswered(reason, true),
        };
        let deadline = Instant::now() + self.timeout;
        let open = match timeout_at(deadline, self.server.open(place)).await {
            Ok(Ok(open)) => open,
            Ok(Err(Away { reason, retry_after_ms })) => {
                return InquiryOutcome::Unanswered { error: reason, retryable: true, retry_after_ms: Some(retry_after_ms) };
            }
            Err(_) => return unanswered(self.too_slow("been reached"), true),
        };
        let found = match timeout_at(deadline, self.answered(open.peer.get_task(GetTaskParams::new(task.clone())))).await {
            Ok(Ok(found)) => found.task,
            Ok(Err(error)) if is_unknown(&error) => return InquiryOutcome::Forgotten,
            Ok(Err(error)) => return unanswered(self.server.faults().told(&error), true),
            Err(_) => return unanswered(self.too_slow("said how the task stands"), true),
        };
        if matches!(found.payload, TaskPayload::InputRequired { .. }) {
            return self.nobody_can_answer(&open, task, inquiry.operation, deadline).await;
        }
        self.standing(found, inquiry.operation)
    }

    /// Nobody here can give a task what it asks for: it would wait for ever. It is asked to end, and how it has ended is its own word.
    async fn nobody_can_answer(&self, open: &Open, task: String, operation: OperationId, deadline: Instant) -> InquiryOutcome {
        match timeout_at(deadline, self.answered(open.peer.cancel_task(CancelTaskParams::new(task.clone())))).await {
            // One that has ended meanwhile can't be cancelled.
            Ok(Ok(()) | Err(ServiceError::McpError(_))) => {}
            Ok(Err(error)) => return unanswered(self.server.faults().told(&error), true),
            Err(_) => return unanswered(self.too_slow("answered the cancel"), true),
        }
        loop {
            let found = match timeout_at(deadline, self.answered(open.peer.get_task(GetTaskParams::new(task.clone())))).await {
                Ok(Ok(found)) => found.task,
                Ok(Err(error)) if is_unknown(&error) => return InquiryOutcome::Forgotten,
                Ok(Err(error)) => return unanswered(self.server.faults().told(&error), true),
                Err(_) => return unanswered(NOT_ENDED, false),
            };
            let again = poll_after(&found);
            match found.payload {
                TaskPayload::Cancelled => return InquiryOutcome::Failed(WANTS_INPUT.to_owned()),
                TaskPayload::Completed { .. } | TaskPayload::Failed { .. } => return self.standing(found, operation),
                _ if Instant::now() + again >= deadline => return unanswered(NOT_ENDED, false),
                _ => sleep(again).await,
            }
        }
    }

    fn standing(&self, found: DetailedTask, operation: OperationId) -> InquiryOutcome {
        let faults = self.server.faults();
        match found.payload {
            TaskPayload::Completed { result } => match said_of_task(result, faults) {
                Said::Done(value) => InquiryOutcome::Succeeded(value),
                Said::Refused(reason) => InquiryOutcome::Failed(reason),
            },
            TaskPayload::Failed { error } => {
                let reason = error.get("message").and_then(Value::as_str).map(|text| faults.quoted(text)).unwrap_or_default();
                let reason = if reason.is_empty() { "the tool gave no reason".to_owned() } else { reason };
                // The request was refused, or it broke off in the middle: a tool's own word comes as a result.
                match error.get("code").and_then(Value::as_i64) {
                    Some(code) if refuses(code) => InquiryOutcome::Failed(reason),
                    _ => unanswered(reason, false),
                }
            }
            TaskPayload::Cancelled => InquiryOutcome::Cancelled,
            _ => {
                if let (Some(news), Some(message)) = (&self.news, &found.task.status_message) {
                    let progress = json!({ "message": faults.quoted(message) });
                    // Dropped where there is no room: it is news, and more comes.
                    let _ = news.try_send(ledger::Input::Progress { request: None, operation, progress });
                }
                InquiryOutcome::Running { again_ms: found.task.poll_interval_ms }
            }
        }
    }

    /// A server is asked to end a task, and believed when it says that the task is ended.
    async fn cancel(&self, request: CancelRequest) -> CancelOutcome {
        let Some(task) = task_of(request.handle.as_deref()) else { return CancelOutcome::Unsupported };
        let place = match self.server.place(For::Cancel).await {
            Ok(place) => place,
            Err(Away { reason, .. }) => return cancel_failed(reason, true),
        };
        let deadline = Instant::now() + self.timeout;
        let open = match timeout_at(deadline, self.server.open(place)).await {
            Ok(Ok(open)) => open,
            Ok(Err(Away { reason, retry_after_ms })) => {
                return CancelOutcome::Failed { error: reason, retryable: true, retry_after_ms: Some(retry_after_ms) };
            }
            Err(_) => return cancel_failed(self.too_slow("been reached"), true),
        };
        match timeout_at(deadline, self.answered(open.peer.cancel_task(CancelTaskParams::new(task.clone())))).await {
            Ok(Ok(())) => {}
            // A task that has ended can't be cancelled: how it ended is asked below.
            Ok(Err(ServiceError::McpError(_))) => {}
            Ok(Err(error)) => return cancel_failed(self.server.faults().told(&error), true),
            Err(_) => return cancel_failed(self.too_slow("answered the cancel"), true),
        }
        loop {
            let found = match timeout_at(deadline, self.answered(open.peer.get_task(GetTaskParams::new(task.clone())))).await {
                Ok(Ok(found)) => found.task,
                Ok(Err(error)) => return cancel_failed(self.server.faults().told(&error), !is_unknown(&error)),
                Err(_) => return cancel_failed("the server has not ended the task yet", true),
            };
            let again = poll_after(&found);
            match found.payload {
                TaskPayload::Cancelled => return CancelOutcome::Cancelled,
                TaskPayload::Completed { result } => {
                    return match said_of_task(result, self.server.faults()) {
                        Said::Done(value) => CancelOutcome::TooLate { result: Some(value) },
                        // It has failed by itself, which its next inquiry says.
                        Said::Refused(reason) => cancel_failed(reason, false),
                    };
                }
                TaskPayload::Failed { .. } => return cancel_failed("the task had failed before", false),
                _ => {}
            }
            if Instant::now() + again >= deadline {
                return cancel_failed("the server has not ended the task yet", true);
            }
            sleep(again).await;
        }
    }

    /// Waits for an answer. A server that has given one is there, also where it is an error: that it can't be reached is another thing.
    async fn answered<T>(&self, answer: impl Future<Output = Result<T, ServiceError>>) -> Result<T, ServiceError> {
        let answer = answer.await;
        if matches!(answer, Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse)) {
            self.endpoint.answered();
        }
        answer
    }

    fn too_slow(&self, what: &str) -> String {
        format!("the server has not {what} within {} ms", self.timeout.as_millis())
    }
}

/// How long a task that is to end is left alone between two looks.
fn poll_after(found: &DetailedTask) -> Duration {
    Duration::from_millis(found.task.poll_interval_ms.unwrap_or(POLL_MS).clamp(POLL_MS_LEAST, POLL_MS))
}

fn task_of(handle: Option<&str>) -> Option<String> {
    let handle: Handle = serde_json::from_str(handle?).ok()?;
    Some(handle.task_id)
}

/// Whether a server refused a call before it began anything.
fn is_refused(error: &ServiceError) -> bool {
    matches!(error, ServiceError::McpError(fault) if is_refusal(fault))
}

/// Whether a server does not know a task: it answers with invalid parameters then. Another refusal says nothing of the task.
fn is_unknown(error: &ServiceError) -> bool {
    matches!(error, ServiceError::McpError(fault) if fault.code == ErrorCode::INVALID_PARAMS)
}

/// Under which a tool that knows it recognises a repeat.
const KEY_IN_META: &str = "io.recado/idempotency-key";

/// What is said of a tool that wants to ask somebody while it works.
const WANTS_INPUT: &str = "the tool asks for more than it was given, and nobody here can answer it";

/// What is said of one that was asked to end, and has not.
const NOT_ENDED: &str = "the tool asks for more than it was given, nobody here can answer it, and it has not ended when it was asked to";

/// Larger than any identifier of a task (bytes).
const HANDLE_BYTES_MAX: usize = 4 * 1024;

/// How often a task is looked at that is being cancelled (ms).
const POLL_MS: u64 = 500;
const POLL_MS_LEAST: u64 = 50;
