//! Cancelling and undoing an operation over HTTP.
//!
//! The request is `POST` with JSON `{operation_id, tool, arguments, status_url?}` to the tool's `cancel_url`, under an `Idempotency-Key` of its own
//! that is the same each time; `status_url` is what the tool itself has named. The tool answers 200 with
//! `{"status": "cancelled" | "compensated" | "too_late", "result"?}`. What it does not say is not assumed: an operation is called
//! cancelled on the tool's word only.
//!
//! | status | outcome | because |
//! | --- | --- | --- |
//! | 200, 201, 203 | what the body says | without one of the three words: nobody knows |
//! | 202, 408, 425, 429, 5xx except 501 and 505 | asked again | not decided yet, or not now |
//! | 409 | too late | the tool's conflict: it has taken effect (its result may still come) |
//! | anything else | nobody knows | 404 too: an attempt on its way may arrive after the request that was to cancel it |
//!
//! Where that is too late, or there is no `cancel_url`, the tool's `compensate_url` is asked to undo it: the same request under another key, and
//! the same answers, but for two. 204 and 205 mean that it is undone: to undo is all that is asked there. And what the tool refuses (another 4xx)
//! stays done, where it has said before that it is.

use std::time::SystemTime;

use recado_core::ledger::{CancelOutcome, CancelRequest};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout_at};

use super::asking::Asking;
use super::http::{Body, IDEMPOTENCY_KEY, read};
use super::port::cancel_failed;
use super::reply::{RESULT_BYTES_MAX, result_object};
use super::token::hex;
use crate::outward::{bounded_text, retry_after_ms, status_words, transport_fault};

/// Where a tool is asked to end an operation.
#[derive(Debug, Clone, Default)]
pub(super) struct Ending {
    pub cancel_url: Option<Url>,
    pub compensate_url: Option<Url>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Cancel,
    Compensate,
}

#[derive(Deserialize)]
struct Answer {
    status: Word,
    #[serde(default)]
    result: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Cancelled,
    Compensated,
    TooLate,
}

/// An answer, and whether the tool has refused the request as it is.
struct Judged {
    outcome: CancelOutcome,
    refused: bool,
}

impl Ending {
    /// Asks to cancel; to undo, where that is too late or can't be asked. All of it may be asked again.
    pub async fn ask(self, asking: Asking, request: CancelRequest) -> CancelOutcome {
        let outcome = match &self.cancel_url {
            Some(url) => ask_for(Wish::Cancel, &asking, url, &request).await.outcome,
            None if self.compensate_url.is_none() => return CancelOutcome::Unsupported,
            None => CancelOutcome::TooLate { result: None },
        };
        let (CancelOutcome::TooLate { result }, Some(url)) = (&outcome, &self.compensate_url) else { return outcome };
        let undone = ask_for(Wish::Compensate, &asking, url, &request).await;
        match undone.outcome {
            // What it was that took effect has been said with the first answer.
            CancelOutcome::TooLate { result: None } => CancelOutcome::TooLate { result: result.clone() },
            CancelOutcome::Failed { .. } if undone.refused && self.cancel_url.is_some() => outcome,
            other => other,
        }
    }
}

impl Wish {
    /// Part of its message's name, and of its key.
    fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Compensate => "compensate",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Cancel => "the cancel",
            Self::Compensate => "the wish to undo it",
        }
    }
}

async fn ask_for(wish: Wish, asking: &Asking, url: &Url, request: &CancelRequest) -> Judged {
    let undecided = |error: String, retryable| Judged { outcome: cancel_failed(error, retryable), refused: false };
    let deadline = Instant::now() + asking.timeout;
    let what = wish.words();
    let too_slow = || undecided(format!("the tool gave no answer to {what} within {} ms", asking.timeout.as_millis()), true);
    let mut body = json!({ "operation_id": request.operation, "tool": request.tool, "arguments": request.arguments });
    if let Some(handle) = &request.handle {
        body["status_url"] = json!(handle);
    }
    let body = body.to_string();
    // Derived from the attempts' key, and never one of theirs.
    let key = hex(&Sha256::digest(format!("{}|{}", wish.name(), request.intent_key.0).as_bytes()));
    // The same message each time, and so it has the same name.
    let id = format!("{}_{}", request.operation, wish.name());
    let sending = asking.request(Method::POST, url, &id, body.as_bytes()).header(IDEMPOTENCY_KEY, key).body(body).send();
    let response = match timeout_at(deadline, sending).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return undecided(transport_fault(&error, "the tool", url), true),
        Err(_) => return too_slow(),
    };
    let (status, wait) = (response.status(), retry_after_ms(response.headers(), SystemTime::now()));
    let body = match timeout_at(deadline, read(response, RESULT_BYTES_MAX)).await {
        Ok(Body::Whole(body)) => body,
        Ok(Body::TooLarge) => return undecided(format!("the answer is larger than {RESULT_BYTES_MAX} bytes"), false),
        Ok(Body::BrokenOff(_)) => return undecided(format!("the tool's answer to {what} broke off in the middle"), true),
        Err(_) => return too_slow(),
    };
    tracing::info!(
        operation_id = %request.operation, request = request.request, status = status.as_u16(), wish = wish.name(), "cancel answered"
    );
    judge(wish, status, wait, &body, asking)
}

fn judge(wish: Wish, status: StatusCode, retry_after_ms: Option<u64>, body: &[u8], asking: &Asking) -> Judged {
    let what = wish.words();
    let outcome = match status.as_u16() {
        200 | 201 | 203 => match serde_json::from_slice::<Answer>(body) {
            Ok(Answer { status: Word::Cancelled, .. }) => CancelOutcome::Cancelled,
            Ok(Answer { status: Word::Compensated, .. }) => CancelOutcome::Compensated,
            Ok(Answer { status: Word::TooLate, result }) => CancelOutcome::TooLate { result: result.map(result_object) },
            Err(error) => cancel_failed(
                format!(
                    "the tool's answer to {what} does not say `cancelled`, `compensated` or `too_late` as its `status`: {}",
                    bounded_text(&asking.quoted(&error.to_string()))
                ),
                false,
            ),
        },
        204 | 205 if wish == Wish::Compensate => CancelOutcome::Compensated,
        409 => CancelOutcome::TooLate { result: None },
        status_code => {
            let retryable = matches!(status_code, 202 | 408 | 425 | 429 | 500 | 502..=504 | 506..=599);
            let error = match asking.reason(body) {
                Some(reason) => format!("the tool answered {what} with {}: {reason}", status_words(status)),
                None => format!("the tool answered {what} with {}", status_words(status)),
            };
            CancelOutcome::Failed { error, retryable, retry_after_ms }
        }
    };
    let refused = status.is_client_error() && matches!(outcome, CancelOutcome::Failed { retryable: false, .. });
    Judged { outcome, refused }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::breaker::Endpoint;
    use super::super::http_faults::{clients, tool};
    use super::*;

    fn judged_as(wish: Wish, status: u16, body: &str) -> CancelOutcome {
        let tool = tool("http://127.0.0.1:1/");
        let asking =
            Asking::new(&tool, clients().client(&tool, None, false).unwrap(), Endpoint::new("there"), Duration::from_secs(1)).unwrap();
        judge(wish, StatusCode::from_u16(status).unwrap(), None, body.as_bytes(), &asking).outcome
    }

    #[test]
    fn an_operation_is_called_cancelled_on_the_tools_word_only() {
        let judged = |status, body: &str| judged_as(Wish::Cancel, status, body);
        assert_eq!(judged(200, r#"{"status":"cancelled"}"#), CancelOutcome::Cancelled);
        assert_eq!(judged(200, r#"{"status":"compensated","refund":7}"#), CancelOutcome::Compensated);
        assert_eq!(judged(200, r#"{"status":"too_late","result":7}"#), CancelOutcome::TooLate { result: Some(json!({ "value": 7 })) });
        assert_eq!(judged(409, ""), CancelOutcome::TooLate { result: None });
        for (status, body, again) in [
            (200, "", false),
            (200, r#"{"status":"ok"}"#, false),
            (202, "", true),
            (204, "", false),
            (302, "", false),
            (404, "", false),
            (429, "", true),
            (500, "", true),
            (501, "", false),
            (503, r#"{"error":"busy"}"#, true),
        ] {
            let outcome = judged(status, body);
            assert!(matches!(&outcome, CancelOutcome::Failed { retryable, .. } if *retryable == again), "{status} {body}: {outcome:?}");
        }
    }

    #[test]
    fn what_a_tool_says_instead_is_kept_in_part_only() {
        let body = format!(r#"{{"status":"{}"}}"#, "o".repeat(100_000));
        let CancelOutcome::Failed { error, .. } = judged_as(Wish::Cancel, 200, &body) else { panic!() };
        assert!(error.len() < 1_000 && error.contains("unknown variant"), "{} bytes", error.len());
    }

    #[test]
    fn nothing_to_say_about_what_was_undone_is_enough() {
        let judged = |status, body: &str| judged_as(Wish::Compensate, status, body);
        assert_eq!(judged(204, ""), CancelOutcome::Compensated);
        assert_eq!(judged(205, ""), CancelOutcome::Compensated);
        assert_eq!(judged(200, r#"{"status":"compensated"}"#), CancelOutcome::Compensated);
        assert_eq!(judged(409, ""), CancelOutcome::TooLate { result: None });
        for (status, again) in [(200, false), (202, true), (404, false), (500, true)] {
            let outcome = judged(status, "");
            assert!(matches!(&outcome, CancelOutcome::Failed { retryable, .. } if *retryable == again), "{status}: {outcome:?}");
        }
    }
}
