//! One request, and its answer as it comes: within its times, and no larger than it may be.

use std::time::{Duration, SystemTime};

use reqwest::header::CONTENT_TYPE;
use reqwest::{RequestBuilder, Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::super::wire::{Sse, looks_like_events};
use super::endpoint::{Endpoint, Timeouts};
use super::fault::{Again, Fault, Reach};
use crate::cognition::tools::{Body, read};
use crate::outward::{distrust, retry_after_ms};

/// An answer that comes.
pub(super) struct Exchange<'a> {
    endpoint: &'a Endpoint,
    response: Response,
    /// When the first of it is to be there.
    first_by: Instant,
    until: Instant,
    bytes: usize,
    form: Form,
}

/// What the answer is made of.
enum Form {
    /// It is not known yet: the service did not say.
    Unknown,
    Events(Sse),
    /// One text, so far.
    Whole(Vec<u8>),
    Ended,
}

/// A piece of an answer, without the key, should the service repeat it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// What an event carries.
    Event(String),
    /// All of it, of a service that does not stream.
    Whole(String),
}

impl<'a> Exchange<'a> {
    /// Sends the request, and waits for the first of its answer.
    pub async fn begin(endpoint: &'a Endpoint, request: RequestBuilder) -> Result<Self, Fault> {
        let (first_by, until) = bounds(endpoint);
        let response = send(endpoint, request, first_by).await?;
        if !response.status().is_success() {
            return Err(refusal(endpoint, response, until).await);
        }
        let is_events = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let form = match is_events {
            Some(content_type) if content_type.contains("event-stream") => Form::Events(Sse::default()),
            _ => Form::Unknown,
        };
        Ok(Self { endpoint, response, first_by, until, bytes: 0, form })
    }

    /// The next piece; none when the answer has ended.
    pub async fn next(&mut self) -> Result<Option<Piece>, Fault> {
        loop {
            match &mut self.form {
                Form::Events(sse) => {
                    if let Some(data) = sse.event() {
                        return Ok(Some(Piece::Event(data)));
                    }
                    if sse.is_overlong() {
                        return Err(Fault::lasting("the service sent an event that is too long"));
                    }
                }
                Form::Ended => return Ok(None),
                Form::Unknown | Form::Whole(_) => {}
            }
            match self.chunk().await? {
                Some(chunk) => self.take(&chunk),
                None => return Ok(self.end()),
            }
        }
    }

    async fn chunk(&mut self) -> Result<Option<bytes::Bytes>, Fault> {
        let Timeouts { answer, stall, whole } = self.endpoint.timeouts;
        let stalls = if self.bytes == 0 { self.first_by } else { Instant::now() + stall };
        let chunk = match timeout_at(stalls.min(self.until), self.response.chunk()).await {
            Ok(Ok(chunk)) => chunk,
            Ok(Err(error)) => return Err(Fault::failing(self.endpoint.service.transport_fault(&error, "the service"))),
            Err(_) if stalls < self.until && self.bytes == 0 => return Err(too_slow("began no answer", answer)),
            Err(_) if stalls < self.until => return Err(too_slow("sent nothing more", stall)),
            Err(_) => return Err(too_slow("did not send its whole answer", whole)),
        };
        self.bytes = self.bytes.saturating_add(chunk.as_ref().map_or(0, bytes::Bytes::len));
        if self.bytes > ANSWER_BYTES_MAX {
            return Err(Fault::lasting(format!("the service's answer is larger than {ANSWER_BYTES_MAX} bytes")));
        }
        Ok(chunk)
    }

    fn take(&mut self, chunk: &[u8]) {
        if matches!(self.form, Form::Unknown) && !chunk.trim_ascii().is_empty() {
            self.form = if looks_like_events(chunk) { Form::Events(Sse::default()) } else { Form::Whole(Vec::new()) };
        }
        match &mut self.form {
            Form::Events(sse) => sse.feed(chunk),
            Form::Whole(body) => body.extend_from_slice(chunk),
            Form::Unknown | Form::Ended => {}
        }
    }

    fn end(&mut self) -> Option<Piece> {
        match std::mem::replace(&mut self.form, Form::Ended) {
            Form::Events(mut sse) => {
                sse.end();
                // What was left of the stream is one event at most.
                sse.event().map(Piece::Event)
            }
            Form::Whole(body) => Some(Piece::Whole(String::from_utf8_lossy(&body).into_owned())),
            Form::Unknown | Form::Ended => None,
        }
    }
}

/// Looks whether the service can be asked. Its list of models is asked for, which none charges for; nothing is read of it. Not every service
/// has one, and not every key is for it: any answer but one that refuses the key or all requests will do.
pub(super) async fn look(endpoint: &Endpoint) -> Result<(), Fault> {
    let (first_by, until) = bounds(endpoint);
    let response = send(endpoint, endpoint.service.get(endpoint.models.clone()), first_by).await?;
    match response.status().as_u16() {
        401 | 408 | 425 | 429 | 500..=599 => Err(refusal(endpoint, response, until).await),
        _ => Ok(()),
    }
}

/// When the first of an answer that is asked for now is to be there, and all of it.
fn bounds(endpoint: &Endpoint) -> (Instant, Instant) {
    let (now, Timeouts { answer, whole, .. }) = (Instant::now(), endpoint.timeouts);
    (now + answer.min(whole), now + whole)
}

/// Sends a request, and waits for the head of its answer.
async fn send(endpoint: &Endpoint, request: RequestBuilder, first_by: Instant) -> Result<Response, Fault> {
    let Timeouts { answer, whole, .. } = endpoint.timeouts;
    match timeout_at(first_by, request.send()).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => {
            let fault = Fault::failing(endpoint.service.transport_fault(&error, "the service"));
            // A connection that was kept may have been closed meanwhile: that says nothing of the next one.
            Err(match error.is_connect() {
                // Whoever is not trusted now is not within moments either.
                true if distrust(&error, "the service").is_some() => Fault { reach: Reach::Unreachable, again: Again::Never, ..fault },
                true => Fault { reach: Reach::Unreachable, ..fault },
                false => fault,
            })
        }
        Err(_) => Err(too_slow("did not answer", answer.min(whole))),
    }
}

/// What an answer other than success means.
async fn refusal(endpoint: &Endpoint, response: Response, until: Instant) -> Fault {
    let status = response.status();
    let after_ms = retry_after_ms(response.headers(), SystemTime::now());
    let until = until.min(Instant::now() + endpoint.timeouts.stall);
    let body = match timeout_at(until, read(response, REASON_BYTES_MAX)).await {
        Ok(Body::Whole(body) | Body::BrokenOff(body)) => body,
        Ok(Body::TooLarge) | Err(_) => Vec::new(),
    };
    let detail = endpoint.service.reason_given(&body).map(|reason| format!(": {reason}")).unwrap_or_default();
    let number = status.as_u16();
    let reason = match number {
        401 | 403 => format!("the service refuses the key ({number}){detail}"),
        404 => format!("the service knows no such address or model ({number}){detail}"),
        429 => format!("the service takes no more requests for now ({number}){detail}"),
        _ => format!("the service answers {number}{detail}"),
    };
    let no_more_credit = String::from_utf8_lossy(&body).contains("insufficient_quota");
    let again = if no_more_credit { Again::Never } else { again(status, after_ms) };
    let reach = match number {
        401 | 403 | 404 | 429 | 500..=599 => Reach::Refuses,
        _ => Reach::Answers,
    };
    Fault { reason, again, reach }
}

/// Whether a status is one that goes by (RFC 9110 15.5.9, 15.6; RFC 6585 4; RFC 8470 5.2).
fn again(status: StatusCode, after_ms: Option<u64>) -> Again {
    match status.as_u16() {
        408 | 425 | 429 => after_ms.map_or(Again::Soon, Again::After),
        501 | 505 => Again::Never,
        500..=599 => after_ms.map_or(Again::Soon, Again::After),
        _ => Again::Never,
    }
}

fn too_slow(what: &str, for_so_long: Duration) -> Fault {
    Fault::failing(format!("the service {what} within {} ms", for_so_long.as_millis()))
}

/// Many times what the longest answer takes, with all that services send beside it.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A reason is in the first lines of an answer that failed (bytes).
const REASON_BYTES_MAX: usize = 64 * 1024;
