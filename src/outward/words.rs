//! What is said of somebody who is asked over HTTP: why it can't be reached, what it gives as its reason, when it wants to be asked again.

use std::time::SystemTime;

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use reqwest::{StatusCode, Url};
use serde_json::Value;

use super::trust::distrust;
use crate::config::Secret;

/// Why `whom` (the tool, the webhook) could not be reached.
pub(crate) fn transport_fault(error: &reqwest::Error, whom: &str, url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    if let Some(reason) = distrust(error, whom) {
        return reason;
    }
    if error.is_dns() {
        return format!("{whom}'s host `{host}` can't be found: its name does not resolve");
    }
    if error.is_connect() && error.is_timeout() {
        return format!("{whom}'s host `{host}` does not answer to a connection");
    }
    let cause = innermost(error);
    if error.is_connect() {
        return format!("no connection to {whom}'s host `{host}`: {cause}");
    }
    format!("the connection to {whom} broke: {cause}")
}

/// Whether nobody could be reached: the name did not resolve, there is no way to the host, or it does not answer to a connection. One
/// that refuses a connection is there, and so is one that is not trusted.
pub(crate) fn out_of_reach(error: &reqwest::Error) -> bool {
    error.is_dns() || (error.is_connect() && (error.is_timeout() || no_way_there(error)))
}

fn no_way_there(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind as K;
    let mut next = Some(error);
    while let Some(error) = next {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if let Some(K::NetworkUnreachable | K::HostUnreachable | K::NetworkDown | K::AddrNotAvailable | K::TimedOut) = kind {
            return true;
        }
        next = error.source();
    }
    false
}

/// The host of a URL and its port, for people.
pub(crate) fn host_and_port(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default())
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    bounded_text(&cause.to_string())
}

/// A status as people know it.
pub(crate) fn status_words(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// How long the answer asks to be left alone (ms): `Retry-After` in seconds or as a date (RFC 9110 10.2.3).
///
/// A date is read against the answer's own `Date`, since this box's clock may be wrong; against `now` without one.
pub(crate) fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(seconds.saturating_mul(1_000));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let sent = headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(|date| httpdate::parse_http_date(date).ok());
    let wait = until.duration_since(sent.unwrap_or(now)).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}

/// What a failed answer's body says about the reason, in words and without the `secret` that the request was sent with, where it is JSON that says
/// it: `error`, `message`, or RFC 9457's `detail` and `title`.
pub(crate) fn reason_given(body: &[u8], secret: Option<&Secret>) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = ["error", "message", "detail", "title"].iter().find_map(|name| match body.get(name) {
        Some(Value::String(text)) => Some(text.as_str()),
        Some(Value::Object(inner)) => inner.get("message").and_then(Value::as_str),
        _ => None,
    })?;
    let text = quoted(text, secret);
    if text.is_empty() { None } else { Some(text) }
}

/// What somebody said who was sent `secret`, as it may become part of an error: without that, one line, bounded.
pub(crate) fn quoted(text: &str, secret: Option<&Secret>) -> String {
    match secret {
        Some(secret) => bounded_text(&secret.hidden_in(text)),
        None => bounded_text(text),
    }
}

/// `text` as it may become part of an error: one line, bounded.
pub(crate) fn bounded_text(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(REASON_CHARS_MAX).collect();
    line.trim().to_owned()
}

/// A reason is told to a person; the rest of a stack trace is not (characters).
const REASON_CHARS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

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
    fn a_host_without_a_way_to_it_is_told_apart_from_one_that_refuses() {
        #[derive(Debug, thiserror::Error)]
        #[error("connect")]
        struct Outer(#[source] std::io::Error);
        for (errno, so) in [
            (libc::ENETUNREACH, true),
            (libc::EHOSTUNREACH, true),
            (libc::ENETDOWN, true),
            (libc::EADDRNOTAVAIL, true),
            (libc::ETIMEDOUT, true),
            (libc::ECONNREFUSED, false),
            (libc::ECONNRESET, false),
            (libc::EACCES, false),
        ] {
            assert_eq!(no_way_there(&Outer(std::io::Error::from_raw_os_error(errno))), so, "{errno}");
        }
    }

    #[test]
    fn a_reason_is_found_where_tools_put_it_and_stays_one_short_line() {
        assert_eq!(reason_given(br#"{"error":"no table\nleft"}"#, None).as_deref(), Some("no table left"));
        assert_eq!(reason_given(br#"{"error":{"code":7,"message":"closed"}}"#, None).as_deref(), Some("closed"));
        assert_eq!(reason_given(br#"{"title":"Full","detail":"no table left"}"#, None).as_deref(), Some("no table left"));
        let long = json!({ "message": "é".repeat(10_000) }).to_string();
        assert_eq!(reason_given(long.as_bytes(), None).map(|reason| reason.chars().count()), Some(REASON_CHARS_MAX));
        for silent in [&b"<html>"[..], b"{}", b"[]", br#"{"error":""}"#, br#"{"error":5}"#] {
            assert_eq!(reason_given(silent, None), None);
        }
    }
}
