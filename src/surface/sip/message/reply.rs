//! What every response to one request has in common (RFC 3261 section 8.2.6).

use std::net::SocketAddr;

use super::{Headers, NameAddr, Request, Via, name, print, reason_phrase};

/// The part of a request that its responses repeat, and where they go.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Via, From, Call-ID, CSeq as they came; the top Via stamped with where the request came from.
    headers: Headers,
    /// To as it came; without a tag one is added.
    to: Option<Vec<u8>>,
    to_has_tag: bool,
    record_routes: Vec<Vec<u8>>,
    /// Where responses go.
    pub destination: SocketAddr,
}

impl Reply {
    /// For a request in good form.
    pub fn to(request: &Request, source: SocketAddr) -> Self {
        Self::from_headers(&request.headers, source)
    }

    /// For a request that may be malformed: repeats what there is. Without a readable Via it goes to the source.
    pub fn from_headers(received: &Headers, source: SocketAddr) -> Self {
        let mut headers = Headers::default();
        let mut destination = source;
        for (index, value) in received.all(name::VIA).enumerate() {
            match Via::parse(value) {
                Ok(mut via) if index == 0 => {
                    destination = via.response_destination(source);
                    via.stamp(source);
                    headers.push(name::VIA, via.to_string());
                }
                _ => headers.push(name::VIA, value),
            }
        }
        for name in [name::FROM, name::CALL_ID, name::CSEQ] {
            if let Some(value) = received.first(name) {
                headers.push(name, value);
            }
        }
        let to = received.first(name::TO).map(<[u8]>::to_vec);
        // What cannot be read is repeated as it is.
        let to_has_tag = to.as_deref().is_some_and(|to| NameAddr::parse(to).map_or(true, |to| to.tag().is_some()));
        let record_routes = received.all(name::RECORD_ROUTE).map(<[u8]>::to_vec).collect();
        Self { headers, to, to_has_tag, record_routes, destination }
    }

    /// The response as a datagram. `tag` is put on To where there is none, except on 100. 101 to 299 repeat
    /// Record-Route (section 12.1.1).
    pub fn print(&self, status: u16, reason: &str, tag: &str, extra: &Headers, body: &[u8]) -> Vec<u8> {
        let mut headers = self.headers.clone();
        if let Some(to) = &self.to {
            let mut to = to.clone();
            if !self.to_has_tag && status > 100 {
                to.extend_from_slice(format!(";tag={tag}").as_bytes());
            }
            headers.push(name::TO, to);
        }
        if (101..300).contains(&status) {
            for value in &self.record_routes {
                headers.push(name::RECORD_ROUTE, value.as_slice());
            }
        }
        headers.append(extra);
        let reason = if reason.is_empty() { reason_phrase(status) } else { reason };
        print(&format!("SIP/2.0 {status} {reason}"), &headers, body)
    }

    /// The To value of the dialog that a response with `tag` makes: ours from then on (section 12.1.1).
    pub fn to_with_tag(&self, tag: &str) -> Vec<u8> {
        let mut to = self.to.clone().unwrap_or_default();
        if !self.to_has_tag {
            to.extend_from_slice(format!(";tag={tag}").as_bytes());
        }
        to
    }
}
