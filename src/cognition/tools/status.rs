//! How an operation stands, asked over HTTP.
//!
//! The request is `GET` of the URL that the tool named when it took the operation (202), or else of its configured `status_url`, in which the
//! operation's identifier or the attempts' `Idempotency-Key` stands. It changes nothing there. The tool answers 200 with
//! `{"status": "running" | "succeeded" | "failed" | "cancelled" | "not_executed", "result"?, "error"?, "progress"?}`.
//!
//! | answer | means | because |
//! | --- | --- | --- |
//! | 200, 203 with one of the five words | what it says | the tool's own word |
//! | 200, 203 with JSON and no such word, or more than 1 MiB | it can't be asked | it does not speak this, and will not by the next time |
//! | 200, 203 with what is not JSON | asked again | a page of something in between says 200 too |
//! | 202 | it runs | accepted, and not done yet (RFC 9110 15.3.3) |
//! | 410 | it is forgotten | it was there (RFC 9110 15.5.11) |
//! | 404 of a URL that the tool named | it is forgotten | the tool knew it by that |
//! | 404 of the configured URL | asked again | its attempt may still be on its way; and anything in between says so |
//! | 408, 425, 429, 5xx except 501 and 505 | asked again | not now |
//! | no connection, a broken one, a time-out | asked again | |
//! | anything else | it can't be asked | a redirect too: none is followed |

use std::time::SystemTime;

use recado_core::ledger::{Input, Inquiry, InquiryOutcome};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::asking::Asking;
use super::http::{Body, idempotency_key, read};
use super::port::unanswered;
use super::reply::{RESULT_BYTES_MAX, result_object};
use super::token::hex;
use crate::outward::{bounded_text, retry_after_ms, status_words, transport_fault};

/// A configured `status_url`, before what is asked about stands in it.
pub(super) struct StatusUrl(pub String);

impl StatusUrl {
    /// Where it is asked about this operation.
    pub fn of(&self, inquiry: &Inquiry) -> Result<Url, String> {
        let key = idempotency_key(&inquiry.intent_key);
        let text = self.0.replace("{operation_id}", &inquiry.operation.to_string()).replace("{idempotency_key}", &key);
        Url::parse(&text).map_err(|error| format!("the tool's `status_url` can't be used: {error}"))
    }

    /// Whether it is where `url` is.
    pub fn is_at(&self, url: &Url) -> bool {
        let text = self.0.replace("{operation_id}", "0").replace("{idempotency_key}", "0");
        Url::parse(&text).is_ok_and(|own| own.origin() == url.origin())
    }
}

/// Who named the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The tool, when it took the operation.
    Tool,
    /// The configuration.
    Configured,
}

/// The URL that `named` stands for, seen from the tool's: none where it is another's, or more than is kept. What the tool is sent in confidence goes to
/// nobody else.
pub(super) fn same_origin(tool: &Url, named: &str) -> Option<Url> {
    if named.len() > HANDLE_BYTES_MAX {
        return None;
    }
    let mut url = tool.join(named.trim()).ok()?;
    url.set_fragment(None);
    let bare = url.username().is_empty() && url.password().is_none();
    (url.origin() == tool.origin() && bare && url.as_str().len() <= HANDLE_BYTES_MAX).then_some(url)
}

/// The URL of its status that a tool gives in the body of a 202.
pub(super) fn status_url_named(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body.get("status_url")?.as_str().map(str::to_owned)
}

/// One inquiry. News of progress go to `reports`, and are dropped where there is no room.
pub(super) async fn ask_how_it_stands(
    asking: Asking,
    url: Url,
    whose: Whose,
    inquiry: Inquiry,
    reports: Option<mpsc::Sender<Input>>,
) -> InquiryOutcome {
    let deadline = Instant::now() + asking.timeout;
    let too_slow = || unanswered(format!("the tool did not say how it stands within {} ms", asking.timeout.as_millis()), true);
    // Each is a message of its own: whoever takes no message twice answers it all the same, also after a restart.
    let mut nonce = [0; 8];
    let _ = getrandom::fill(&mut nonce);
    let id = format!("{}_status_{}_{}", inquiry.operation, inquiry.request, hex(&nonce));
    let response = match timeout_at(deadline, asking.request(Method::GET, &url, &id, b"").send()).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return unanswered(transport_fault(&error, "the tool", &url), true),
        Err(_) => return too_slow(),
    };
    let status = response.status();
    asking.heard(status);
    let wait = retry_after_ms(response.headers(), SystemTime::now());
    let body = match timeout_at(deadline, read(response, RESULT_BYTES_MAX)).await {
        Ok(Body::Whole(body)) => body,
        Ok(Body::TooLarge) => return unanswered(format!("what the tool says of it is larger than {RESULT_BYTES_MAX} bytes"), false),
        Ok(Body::BrokenOff(_)) => return unanswered("what the tool said of it broke off in the middle", true),
        Err(_) => return too_slow(),
    };
    tracing::debug!(operation_id = %inquiry.operation, request = inquiry.request, status = status.as_u16(), "inquiry answered");
    let (outcome, progress) = judge(&asking, status, wait, &body, whose);
    if let (Some(progress), Some(reports)) = (progress, reports) {
        // News that find no room are old when they would.
        let _ = reports.try_send(Input::Progress { request: None, operation: inquiry.operation, progress: result_object(progress) });
    }
    outcome
}

#[derive(Deserialize)]
struct Answer {
    status: Word,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    progress: Option<Value>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Running,
    Succeeded,
    Failed,
    Cancelled,
    NotExecuted,
}

/// What an answer means, and the news of progress in it.
fn judge(asking: &Asking, status: StatusCode, retry_after_ms: Option<u64>, body: &[u8], whose: Whose) -> (InquiryOutcome, Option<Value>) {
    let outcome = match status.as_u16() {
        200 | 203 => return said(asking, body, retry_after_ms),
        202 => {
            let progress = serde_json::from_slice::<Value>(body).ok().and_then(|mut body| body.get_mut("progress").map(Value::take));
            return (InquiryOutcome::Running { again_ms: retry_after_ms }, progress);
        }
        410 => InquiryOutcome::Forgotten,
        404 if whose == Whose::Tool => InquiryOutcome::Forgotten,
        code => {
            let error = match asking.reason(body) {
                Some(reason) => format!("the tool, asked how it stands, answered {}: {reason}", status_words(status)),
                None => format!("the tool, asked how it stands, answered {}", status_words(status)),
            };
            let retryable = matches!(code, 404 | 408 | 425 | 429 | 500 | 502..=504 | 506..=599);
            InquiryOutcome::Unanswered { error, retryable, retry_after_ms }
        }
    };
    (outcome, None)
}

fn said(asking: &Asking, body: &[u8], retry_after_ms: Option<u64>) -> (InquiryOutcome, Option<Value>) {
    let answer = match serde_json::from_slice::<Answer>(body) {
        Ok(answer) => answer,
        Err(error) => {
            // What is JSON and says something else will say it again.
            let retryable = !error.is_data();
            let form = "`running`, `succeeded`, `failed`, `cancelled` or `not_executed`";
            let error = format!("the tool does not say {form} as the `status`: {}", bounded_text(&asking.quoted(&error.to_string())));
            return (InquiryOutcome::Unanswered { error, retryable, retry_after_ms }, None);
        }
    };
    match answer.status {
        Word::Running => (InquiryOutcome::Running { again_ms: retry_after_ms }, answer.progress),
        Word::Succeeded => (InquiryOutcome::Succeeded(answer.result.map_or_else(|| json!({}), result_object)), None),
        Word::Failed => {
            let error = answer.error.map(|error| asking.quoted(&error)).filter(|error| !error.is_empty());
            (InquiryOutcome::Failed(error.unwrap_or_else(|| "the tool gave no reason".to_owned())), None)
        }
        Word::Cancelled => (InquiryOutcome::Cancelled, None),
        Word::NotExecuted => (InquiryOutcome::NotExecuted, None),
    }
}

/// The longest URL of a status that is kept (bytes): as common servers take.
const HANDLE_BYTES_MAX: usize = 2_048;

#[cfg(test)]
mod tests {
    use super::super::breaker::Endpoint;
    use super::super::http_faults::{clients, tool};
    use super::*;
    use std::time::Duration;

    fn judged(status: u16, body: &str, whose: Whose) -> (InquiryOutcome, Option<Value>) {
        let tool = tool("http://127.0.0.1:1/");
        let asking =
            Asking::new(&tool, clients().client(&tool, None, false).unwrap(), Endpoint::new("there"), Duration::from_secs(1)).unwrap();
        judge(&asking, StatusCode::from_u16(status).unwrap(), Some(3_000), body.as_bytes(), whose)
    }

    #[test]
    fn each_word_of_a_tool_means_what_it_says() {
        let running = InquiryOutcome::Running { again_ms: Some(3_000) };
        for (status, body, expected) in [
            (200, r#"{"status":"running","progress":{"percent":40}}"#, (running.clone(), Some(json!({ "percent": 40 })))),
            (200, r#"{"status":"running"}"#, (running.clone(), None)),
            (202, r#"{"progress":{"percent":40}}"#, (running.clone(), Some(json!({ "percent": 40 })))),
            (202, "", (running, None)),
            (200, r#"{"status":"succeeded","result":7}"#, (InquiryOutcome::Succeeded(json!({ "value": 7 })), None)),
            (203, r#"{"status":"succeeded"}"#, (InquiryOutcome::Succeeded(json!({})), None)),
            (200, r#"{"status":"failed","error":"no table\nleft"}"#, (InquiryOutcome::Failed("no table left".into()), None)),
            (200, r#"{"status":"failed"}"#, (InquiryOutcome::Failed("the tool gave no reason".into()), None)),
            (200, r#"{"status":"cancelled"}"#, (InquiryOutcome::Cancelled, None)),
            (200, r#"{"status":"not_executed"}"#, (InquiryOutcome::NotExecuted, None)),
            (410, "", (InquiryOutcome::Forgotten, None)),
        ] {
            assert_eq!(judged(status, body, Whose::Configured), expected, "{status} {body}");
        }
    }

    #[test]
    fn what_is_no_answer_is_told_apart_from_what_never_will_be_one() {
        for (status, body, again) in [
            (200, "<html>", true),
            (200, "", true),
            (200, r#"{"status":"ok"}"#, false),
            (200, "[]", false),
            (201, "{}", false),
            (204, "", false),
            (302, "", false),
            (401, r#"{"error":"who?"}"#, false),
            (404, "", true),
            (429, "", true),
            (500, "", true),
            (501, "", false),
            (503, "", true),
        ] {
            let (outcome, _) = judged(status, body, Whose::Configured);
            let InquiryOutcome::Unanswered { retryable, retry_after_ms: Some(3_000), .. } = outcome else {
                panic!("{status} {body}: {outcome:?}")
            };
            assert_eq!(retryable, again, "{status} {body}");
        }
        assert_eq!(judged(404, "", Whose::Tool).0, InquiryOutcome::Forgotten);
    }

    #[test]
    fn a_url_of_a_status_is_where_the_tool_is() {
        let tool = Url::parse("https://shop.example/recado/tables").unwrap();
        for (named, url) in [
            ("/jobs/7", Some("https://shop.example/jobs/7")),
            ("jobs/7?a=b#c", Some("https://shop.example/recado/jobs/7?a=b")),
            ("https://SHOP.example:443/jobs/7", Some("https://shop.example/jobs/7")),
            ("//shop.example/jobs/7", Some("https://shop.example/jobs/7")),
            ("http://shop.example/jobs/7", None),
            ("https://shop.example:8443/jobs/7", None),
            ("https://shop.example.evil.example/jobs/7", None),
            ("//evil.example/jobs/7", None),
            ("https://user:pass@shop.example/jobs/7", None),
            ("file:///etc/passwd", None),
            ("https://", None),
        ] {
            assert_eq!(same_origin(&tool, named).as_ref().map(Url::as_str), url, "{named}");
        }
        assert_eq!(same_origin(&tool, &"a".repeat(3_000)), None);
    }
}
