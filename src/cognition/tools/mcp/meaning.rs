//! What a server's answers and faults mean for an operation.
//!
//! | a server says, of `tools/call` | executed | retryable | because |
//! | --- | --- | --- | --- |
//! | a result with `isError` | no | no | the tool's own word on the whole: it is to the protocol what a 4xx is to HTTP. One that has done half of it should say what in its text, which the caller may hear; were it "nobody knows", no refusal could ever be told as one |
//! | it wants to be given more (`input_required`) | no | no | the call ends there, and nobody here can answer |
//! | parse error, invalid request, no such method, invalid parameters (-32700, -32600 to -32602) | no | no | refused before the tool was begun |
//! | another error | maybe | yes | it may have been begun |
//! | a task that has failed | as the error that it has failed with | no | one that refuses the request was before it began; any other came in the middle |
//! | an HTTP status | as for a tool behind HTTP | | |
//! | nothing: the connection broke, or its program died | maybe | yes | |
//! | nothing: no connection came to be | unreachable | | nothing has left the box |

use std::error::Error;

use recado_core::ledger::{AttemptOutcome, Executed};
use reqwest::{StatusCode, Url};
use rmcp::model::{CallToolResult, ErrorData, JsonObject};
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::{Value, json};

use super::super::port::failed;
use super::super::reply::{RESULT_BYTES_MAX, Verdict, judge, result_object};
use crate::config::Secret;
use crate::outward::{bounded_text, status_words, transport_fault};

/// What faults are told with.
#[derive(Clone, Copy)]
pub(super) struct Faults<'a> {
    pub url: Option<&'a Url>,
    /// What it was given in confidence, and nobody may read.
    pub secrets: &'a [Secret],
}

/// What a finished call says.
pub(super) enum Said {
    /// It took effect, with this result.
    Done(Value),
    /// It did not, in the tool's words.
    Refused(String),
}

/// What came of a call: its structure where it has one, else its text. Of what is larger than what is taken, the size: that it is done is known.
pub(super) fn said(result: CallToolResult, faults: Faults<'_>) -> Said {
    let texts: Vec<&str> = result.content.iter().filter_map(|part| part.as_text().map(|text| text.text.as_str())).collect();
    let text = texts.join("\n");
    if result.is_error == Some(true) {
        let reason = faults.quoted(&text);
        return Said::Refused(if reason.is_empty() { "the tool gave no reason".to_owned() } else { reason });
    }
    let value = match result.structured_content {
        Some(value) => result_object(value),
        None => json!({ "text": text }),
    };
    Said::Done(match value.to_string().len() {
        bytes if bytes > RESULT_BYTES_MAX => omitted(bytes),
        _ => value,
    })
}

/// The same of a task that has been completed: what can't be read of its result is left out.
pub(super) fn said_of_task(result: JsonObject, faults: Faults<'_>) -> Said {
    let is_error = result.get("isError") == Some(&Value::Bool(true));
    let result = Value::Object(result);
    let bytes = result.to_string().len();
    match serde_json::from_value(result) {
        Ok(result) => said(result, faults),
        Err(_) if is_error => Said::Refused("the tool gave no reason that can be read".to_owned()),
        Err(_) => Said::Done(omitted(bytes)),
    }
}

/// What stands for a result that is not taken, as in the ledger.
fn omitted(bytes: usize) -> Value {
    json!({ "omitted_bytes": bytes })
}

impl Faults<'_> {
    /// What the server said, as it may be logged, kept and told: without what it was given in confidence, one line, bounded.
    pub fn quoted(self, text: &str) -> String {
        let text = self.url.map_or_else(|| text.to_owned(), |url| text.replace(url.as_str(), &url.origin().ascii_serialization()));
        let hidden = self.secrets.iter().fold(text, |text, secret| secret.hidden_in(&text));
        bounded_text(&hidden)
    }

    /// Why no connection came to be.
    pub fn of_greeting(self, error: &ClientInitializeError) -> String {
        match error {
            // The older greeting is the last word of a server that does not know the newer.
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => self.of_greeting(fallback),
            ClientInitializeError::TransportError { error, .. } => match http_fault(error.error.as_ref()) {
                Some(fault) => self.http_words(fault),
                None => self.quoted(&error.to_string()),
            },
            ClientInitializeError::JsonRpcError(fault) => self.words(fault),
            // What it said instead may be anything.
            ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
                "the server's answer is none to a greeting".to_owned()
            }
            other => self.quoted(&other.to_string()),
        }
    }

    /// What becomes of an attempt, the `attempt`th, whose call was not answered with a result.
    pub fn of_call(self, error: &ServiceError, attempt: u32) -> AttemptOutcome {
        match error {
            ServiceError::McpError(fault) => {
                let refused = is_refusal(fault);
                let executed = if refused { Executed::No } else { Executed::Maybe };
                failed(self.words(fault), executed, !refused)
            }
            ServiceError::UnexpectedResponse => failed("the server's answer is none that a call has", Executed::Maybe, false),
            ServiceError::TransportSend(fault) => self.of_transport(fault.error.as_ref(), attempt),
            other => failed(self.quoted(&format!("the connection to the server broke: {other}")), Executed::Maybe, true),
        }
    }

    /// A fault in words.
    pub fn told(self, error: &ServiceError) -> String {
        match error {
            ServiceError::McpError(fault) => self.words(fault),
            ServiceError::TransportSend(fault) => match http_fault(fault.error.as_ref()) {
                Some(fault) => self.http_words(fault),
                None => self.quoted(&fault.to_string()),
            },
            other => self.quoted(&other.to_string()),
        }
    }

    fn words(self, fault: &ErrorData) -> String {
        let words = self.quoted(&fault.message);
        if words.is_empty() { format!("the server answered with the error {}", fault.code.0) } else { words }
    }

    fn of_transport(self, error: &(dyn Error + 'static), attempt: u32) -> AttemptOutcome {
        let Some(fault) = http_fault(error) else {
            let words = self.quoted(&format!("the connection to the server broke: {error}"));
            return failed(words, Executed::Maybe, true);
        };
        let words = self.http_words(fault);
        let (status, retry_after_ms) = match fault {
            StreamableHttpError::Client(fault) if fault.is_connect() => {
                return AttemptOutcome::Unreachable { reason: words, retry_after_ms: None };
            }
            StreamableHttpError::Client(fault) => (fault.status(), None),
            StreamableHttpError::HttpStatus(fault) => {
                let seconds = fault.retry_after.as_ref().and_then(|value| value.trim().parse::<u64>().ok());
                (StatusCode::from_u16(fault.status).ok(), seconds.map(|seconds| seconds.saturating_mul(1_000)))
            }
            StreamableHttpError::AuthRequired(_) => (Some(StatusCode::UNAUTHORIZED), None),
            StreamableHttpError::InsufficientScope(_) => (Some(StatusCode::FORBIDDEN), None),
            StreamableHttpError::SessionExpired => (Some(StatusCode::NOT_FOUND), None),
            StreamableHttpError::ReservedHeaderConflict(_) => return failed(words, Executed::No, false),
            StreamableHttpError::ResponseBodyTooLarge { .. } | StreamableHttpError::UnexpectedContentType(_) => {
                return failed(words, Executed::Maybe, false);
            }
            _ => (None, None),
        };
        match status.map(|status| judge(status, attempt)) {
            Some(Verdict::Failed { executed, retryable }) => AttemptOutcome::Failed { error: words, executed, retryable, retry_after_ms },
            _ => failed(words, Executed::Maybe, true),
        }
    }

    fn http_words(self, fault: &StreamableHttpError<reqwest::Error>) -> String {
        match (fault, self.url) {
            (StreamableHttpError::Client(fault), Some(url)) => match fault.status() {
                Some(status) => format!("the server answered {}", status_words(status)),
                None => self.quoted(&transport_fault(fault, "the server", url)),
            },
            (StreamableHttpError::HttpStatus(fault), _) => match StatusCode::from_u16(fault.status) {
                Ok(status) => format!("the server answered {}", status_words(status)),
                Err(_) => format!("the server answered {}", fault.status),
            },
            (StreamableHttpError::AuthRequired(_), _) => "the server wants to know who asks: set its `bearer_file`".to_owned(),
            // Part of the answer is quoted there, and may be cut off in the middle of what must be hidden.
            (StreamableHttpError::UnexpectedServerResponse(_) | StreamableHttpError::Deserialize(_), _) => {
                "the server's answer is no message of the protocol".to_owned()
            }
            (other, _) => self.quoted(&other.to_string()),
        }
    }
}

/// Whether a server refused a request before it began anything (JSON-RPC 2.0, section 5.1).
pub(super) fn is_refusal(fault: &ErrorData) -> bool {
    refuses(i64::from(fault.code.0))
}

/// The same of the code of an error.
pub(super) fn refuses(code: i64) -> bool {
    matches!(code, -32_700 | -32_602..=-32_600)
}

fn http_fault<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a StreamableHttpError<reqwest::Error>> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(fault) = error.downcast_ref() {
            return Some(fault);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAULTS: Faults<'static> = Faults { url: None, secrets: &[] };

    fn task(result: Value) -> Said {
        said_of_task(serde_json::from_value(result).unwrap(), FAULTS)
    }

    #[test]
    fn nothing_that_a_server_was_given_in_confidence_is_repeated_in_what_it_says() {
        let url = Url::parse("https://tools.example/mcp/path-key-0123456789?key=query-key-1").unwrap();
        let mut secrets = Secret::in_url(&url);
        secrets.extend(["env-value".into(), "token-1".into()]);
        let faults = Faults { url: Some(&url), secrets: &secrets };
        let words = "no path-key-0123456789, query-key-1, env-value, token-1 at https://tools.example/mcp";
        let hidden = "no ***, ***, ***, *** at https://tools.example/mcp";
        assert_eq!(faults.told(&ServiceError::McpError(ErrorData::internal_error(words, None))), hidden);
        let refused = json!({ "content": [{ "type": "text", "text": words }], "isError": true });
        assert!(matches!(said_of_task(serde_json::from_value(refused).unwrap(), faults), Said::Refused(reason) if reason == hidden));
        let failed = || Box::new(ClientInitializeError::JsonRpcError(ErrorData::internal_error(words, None)));
        let both = ClientInitializeError::LegacyFallbackFailed { discover: failed(), fallback: failed() };
        assert_eq!(faults.of_greeting(&both), hidden);
    }

    #[test]
    fn what_is_done_is_done_however_large_or_odd_its_result_is() {
        let large = json!({ "content": [], "structuredContent": { "text": "x".repeat(RESULT_BYTES_MAX) } });
        for (result, bytes) in [(large.clone(), RESULT_BYTES_MAX + 11), (json!({ "content": "none" }), 18)] {
            assert!(matches!(task(result), Said::Done(value) if value == json!({ "omitted_bytes": bytes })));
        }
        assert!(matches!(said(serde_json::from_value(large).unwrap(), FAULTS), Said::Done(value) if value.get("omitted_bytes").is_some()));
        assert!(matches!(task(json!({ "content": "none", "isError": true })), Said::Refused(_)));
        assert!(
            matches!(task(json!({ "content": [{ "type": "text", "text": "at nine" }] })), Said::Done(value) if value["text"] == "at nine")
        );
    }

    #[test]
    fn only_what_refuses_a_request_says_that_nothing_was_begun() {
        for code in [-32_700, -32_600, -32_601, -32_602] {
            assert!(refuses(code), "{code}");
        }
        for code in [-32_603, -32_000, -32_002, -32_042, 0, 1] {
            assert!(!refuses(code), "{code}");
        }
    }
}
