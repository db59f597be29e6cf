//! What a tool's HTTP answer means for the operation. Pure: status, headers and body in, verdict out.
//!
//! The rule is RFC 9110's meaning of a status, read so that "provably not executed" is only claimed where the tool
//! itself said so: many answers come from something between the box and the tool.

use std::time::SystemTime;

use recado_core::ledger::Executed;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::{Value, json};

/// What a status says before the body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It took effect, and the body is the result (200, 201, 203).
    Result,
    /// It took effect and there is nothing to say about it (204, 205).
    NoContent,
    /// The tool took it; the result comes later (202).
    Deferred,
    /// It did not go well.
    Failed {
        /// Whether the tool may have executed it.
        executed: Executed,
        /// Whether another attempt may help.
        retryable: bool,
    },
}

/// The meaning of `status` as the answer to attempt number `attempt` (from 1).
///
/// | status | executed | retryable | because |
/// | --- | --- | --- | --- |
/// | 307, 308 | no | no | the method is kept, so the request was not carried out here (RFC 9110 15.4.8, 15.4.9) |
/// | other 3xx | maybe | no | 303, and in practice 301 and 302, also follow a request that *was* carried out |
/// | 408, 425, 429 | no | yes | not read in time, too early, too many: each says "later" (RFC 9110, 8470, 6585) |
/// | 409, first attempt | no | no | the tool's own conflict: nobody has used this key before |
/// | 409, later attempt | maybe | yes | an earlier attempt under this key may still be running there |
/// | other 4xx | no | no | the tool refused the request as it is |
/// | 501, 505 | maybe | no | asking again does not help; a gateway may say it for a tool that acted |
/// | other 5xx | maybe | yes | 503 too: gateways send it also when the tool broke off in the middle |
/// | anything else | maybe | no | no meaning that could be relied on |
pub(super) fn judge(status: StatusCode, attempt: u32) -> Verdict {
    let failed = |executed, retryable| Verdict::Failed { executed, retryable };
    match status.as_u16() {
        200 | 201 | 203 => Verdict::Result,
        202 => Verdict::Deferred,
        204 | 205 => Verdict::NoContent,
        307 | 308 => failed(Executed::No, false),
        408 | 425 | 429 => failed(Executed::No, true),
        409 if attempt > 1 => failed(Executed::Maybe, true),
        400..=499 => failed(Executed::No, false),
        501 | 505 => failed(Executed::Maybe, false),
        500..=599 => failed(Executed::Maybe, true),
        _ => failed(Executed::Maybe, false),
    }
}

/// How long the answer asks to be left alone (ms): `Retry-After` in seconds or as a date (RFC 9110 10.2.3).
///
/// A date is read against the answer's own `Date`, since this box's clock may be wrong; against `now` without one.
pub(in crate::cognition) fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(seconds.saturating_mul(1_000));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let sent = headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(|date| httpdate::parse_http_date(date).ok());
    let wait = until.duration_since(sent.unwrap_or(now)).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}

/// What a failed answer's body says about the reason, in words, where it is JSON that says it: `error`, `message`, or
/// RFC 9457's `detail` and `title`.
pub(in crate::cognition) fn reason_given(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = ["error", "message", "detail", "title"].iter().find_map(|name| match body.get(name) {
        Some(Value::String(text)) => Some(text.as_str()),
        Some(Value::Object(inner)) => inner.get("message").and_then(Value::as_str),
        _ => None,
    })?;
    let text = bounded_text(text);
    if text.is_empty() { None } else { Some(text) }
}

/// `text` as it may become part of an error: one line, bounded.
pub(in crate::cognition) fn bounded_text(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(REASON_CHARS_MAX).collect();
    line.trim().to_owned()
}

/// A result as the ledger's templates see it: an object. Anything else becomes its `value`.
pub(super) fn result_object(result: Value) -> Value {
    if result.is_object() { result } else { json!({ "value": result }) }
}

/// The largest result that is taken, with the answer or by callback (bytes): it is stored and told, not archived.
pub(super) const RESULT_BYTES_MAX: usize = 1024 * 1024;

/// A reason is told to a person; the rest of a stack trace is not (characters).
const REASON_CHARS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_status_has_the_meaning_that_the_table_gives_it() {
        use Executed::{Maybe, No};
        let failed = |executed, retryable| Verdict::Failed { executed, retryable };
        let table = [
            (200, 1, Verdict::Result),
            (201, 1, Verdict::Result),
            (202, 1, Verdict::Deferred),
            (204, 1, Verdict::NoContent),
            (206, 1, failed(Maybe, false)),
            (302, 1, failed(Maybe, false)),
            (303, 1, failed(Maybe, false)),
            (307, 1, failed(No, false)),
            (308, 1, failed(No, false)),
            (400, 1, failed(No, false)),
            (404, 2, failed(No, false)),
            (408, 1, failed(No, true)),
            (409, 1, failed(No, false)),
            (409, 2, failed(Maybe, true)),
            (425, 1, failed(No, true)),
            (429, 1, failed(No, true)),
            (500, 1, failed(Maybe, true)),
            (501, 1, failed(Maybe, false)),
            (503, 1, failed(Maybe, true)),
            (505, 1, failed(Maybe, false)),
            (999, 1, failed(Maybe, false)),
        ];
        for (status, attempt, verdict) in table {
            assert_eq!(judge(StatusCode::from_u16(status).unwrap(), attempt), verdict, "{status}, attempt {attempt}");
        }
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_as_a_date_by_the_tools_own_clock() {
        let headers = |pairs: &[(reqwest::header::HeaderName, &str)]| {
            pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect::<HeaderMap>()
        };
        let boot_in_the_past = SystemTime::UNIX_EPOCH;
        assert_eq!(retry_after_ms(&headers(&[(RETRY_AFTER, "7")]), boot_in_the_past), Some(7_000));
        assert_eq!(retry_after_ms(&headers(&[(RETRY_AFTER, "18446744073709551615")]), boot_in_the_past), Some(u64::MAX));
        let dated = headers(&[(RETRY_AFTER, "Sun, 29 Nov 2026 12:00:30 GMT"), (DATE, "Sun, 29 Nov 2026 12:00:00 GMT")]);
        assert_eq!(retry_after_ms(&dated, boot_in_the_past), Some(30_000));
        let undated = headers(&[(RETRY_AFTER, "Thu, 01 Jan 1970 00:01:00 GMT")]);
        assert_eq!(retry_after_ms(&undated, boot_in_the_past + Duration::from_secs(20)), Some(40_000));
        assert_eq!(retry_after_ms(&undated, boot_in_the_past + Duration::from_secs(90)), Some(0), "a date that has passed");
        for nonsense in ["soon", "-1", "", "1.5"] {
            assert_eq!(retry_after_ms(&headers(&[(RETRY_AFTER, nonsense)]), boot_in_the_past), None, "{nonsense}");
        }
        assert_eq!(retry_after_ms(&HeaderMap::new(), boot_in_the_past), None);
    }

    #[test]
    fn a_reason_is_found_where_tools_put_it_and_stays_one_short_line() {
        assert_eq!(reason_given(br#"{"error":"no table\nleft"}"#).as_deref(), Some("no table left"));
        assert_eq!(reason_given(br#"{"error":{"code":7,"message":"closed"}}"#).as_deref(), Some("closed"));
        assert_eq!(reason_given(br#"{"title":"Full","detail":"no table left"}"#).as_deref(), Some("no table left"));
        let long = json!({ "message": "é".repeat(10_000) }).to_string();
        assert_eq!(reason_given(long.as_bytes()).map(|reason| reason.chars().count()), Some(REASON_CHARS_MAX));
        for silent in [&b"<html>"[..], b"{}", b"[]", br#"{"error":""}"#, br#"{"error":5}"#] {
            assert_eq!(reason_given(silent), None);
        }
    }

    #[test]
    fn a_result_that_is_no_object_becomes_the_value_of_one() {
        assert_eq!(result_object(json!({ "a": 1 })), json!({ "a": 1 }));
        assert_eq!(result_object(json!([1, 2])), json!({ "value": [1, 2] }));
        assert_eq!(result_object(Value::Null), json!({ "value": null }));
    }
}
