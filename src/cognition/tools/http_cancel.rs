//! One cancel request over HTTP.
//!
//! The request is `POST` with JSON `{operation_id, tool, arguments}` to the tool's `cancel_url`, under an `Idempotency-Key` of its own
//! that is the same each time. The tool answers 200 with `{"status": "cancelled" | "compensated" | "too_late", "result"?}`. What it
//! does not say is not assumed: an operation is called cancelled on the tool's word only.
//!
//! | status | outcome | because |
//! | --- | --- | --- |
//! | 200, 201, 203 | what the body says | without one of the three words: nobody knows |
//! | 202, 408, 425, 429, 5xx except 501 and 505 | asked again | not decided yet, or not now |
//! | 409 | too late | the tool's conflict: it has taken effect (its result may still come) |
//! | anything else | nobody knows | 404 too: an attempt on its way may arrive after the request that was to cancel it |

use std::time::{Duration, SystemTime};

use recado_core::ledger::{CancelOutcome, CancelRequest};
use reqwest::header::HeaderMap;
use reqwest::{Client, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout_at};

use super::http::{Body, IDEMPOTENCY_KEY, read};
use super::port::cancel_failed;
use super::reply::{RESULT_BYTES_MAX, result_object};
use super::token::hex;
use crate::config::Secret;
use crate::outward::{bounded_text, reason_given, retry_after_ms, status_words, transport_fault};

/// What is needed to ask.
pub(super) struct CancelEndpoint {
    pub url: Url,
    pub client: Client,
    pub headers: HeaderMap,
    /// What the tool is sent, and may repeat.
    pub token: Option<Secret>,
    pub timeout: Duration,
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

impl CancelEndpoint {
    pub async fn ask(self, request: CancelRequest) -> CancelOutcome {
        let deadline = Instant::now() + self.timeout;
        let too_slow = || cancel_failed(format!("the tool gave no answer to the cancel within {} ms", self.timeout.as_millis()), true);
        let body = json!({ "operation_id": request.operation, "tool": request.tool, "arguments": request.arguments }).to_string();
        // Derived from the attempts' key, and never one of theirs.
        let key = hex(&Sha256::digest(format!("cancel|{}", request.intent_key.0).as_bytes()));
        let sending = self.client.post(self.url.clone()).headers(self.headers.clone()).header(IDEMPOTENCY_KEY, key).body(body).send();
        let response = match timeout_at(deadline, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return cancel_failed(transport_fault(&error, "the tool", &self.url), true),
            Err(_) => return too_slow(),
        };
        let (status, wait) = (response.status(), retry_after_ms(response.headers(), SystemTime::now()));
        let body = match timeout_at(deadline, read(response, RESULT_BYTES_MAX)).await {
            Ok(Body::Whole(body)) => body,
            Ok(Body::TooLarge) => return cancel_failed(format!("the answer is larger than {RESULT_BYTES_MAX} bytes"), false),
            Ok(Body::BrokenOff(_)) => return cancel_failed("the tool's answer to the cancel broke off in the middle", true),
            Err(_) => return too_slow(),
        };
        tracing::info!(operation_id = %request.operation, request = request.request, status = status.as_u16(), "cancel answered");
        judge(status, wait, &body, self.token.as_ref())
    }
}

fn judge(status: StatusCode, retry_after_ms: Option<u64>, body: &[u8], token: Option<&Secret>) -> CancelOutcome {
    match status.as_u16() {
        200 | 201 | 203 => match serde_json::from_slice::<Answer>(body) {
            Ok(Answer { status: Word::Cancelled, .. }) => CancelOutcome::Cancelled,
            Ok(Answer { status: Word::Compensated, .. }) => CancelOutcome::Compensated,
            Ok(Answer { status: Word::TooLate, result }) => CancelOutcome::TooLate { result: result.map(result_object) },
            Err(error) => cancel_failed(
                format!(
                    "the tool's answer to the cancel does not say `cancelled`, `compensated` or `too_late` as its `status`: {}",
                    bounded_text(&error.to_string())
                ),
                false,
            ),
        },
        409 => CancelOutcome::TooLate { result: None },
        status_code => {
            let retryable = matches!(status_code, 202 | 408 | 425 | 429 | 500 | 502..=504 | 506..=599);
            let error = match reason_given(body, token) {
                Some(reason) => format!("the tool answered the cancel with {}: {reason}", status_words(status)),
                None => format!("the tool answered the cancel with {}", status_words(status)),
            };
            CancelOutcome::Failed { error, retryable, retry_after_ms }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_called_cancelled_on_the_tools_word_only() {
        let judged = |status, body: &str| judge(StatusCode::from_u16(status).unwrap(), None, body.as_bytes(), None);
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
        let CancelOutcome::Failed { error, .. } = judge(StatusCode::OK, None, body.as_bytes(), None) else { panic!() };
        assert!(error.len() < 1_000 && error.contains("unknown variant"), "{} bytes", error.len());
    }
}
