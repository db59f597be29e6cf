//! How a request is matched to its transaction (RFC 3261 section 17.2.3).

use crate::surface::sip::message::{Method, Request, name};

/// Identifies a server transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerKey(String);

impl ServerKey {
    /// The transaction that `request` belongs to; an ACK belongs to its INVITE's.
    pub fn of(request: &Request) -> Self {
        let method = if request.method == Method::Ack { "INVITE" } else { request.method.as_str() };
        Self::with_method(request, method)
    }

    /// The INVITE transaction that a CANCEL is about (section 9.2).
    pub fn cancelled_by(cancel: &Request) -> Self {
        Self::with_method(cancel, "INVITE")
    }

    fn with_method(request: &Request, method: &str) -> Self {
        match request.via.branch() {
            Some(branch) => Self(format!("{branch} {} {method}", request.via.sent_by())),
            // RFC 2543 has no branch to rely on.
            None => Self(format!(
                "2543 {} {} {} {} {} {method}",
                request.uri,
                request.from.tag().unwrap_or_default(),
                request.call_id,
                request.cseq.number,
                String::from_utf8_lossy(request.headers.first(name::VIA).unwrap_or_default()),
            )),
        }
    }
}

/// Identifies a request, whichever way it came: two transactions with the same are one request that was forked and
/// merged (section 8.2.2.2).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MergeKey(String);

impl MergeKey {
    /// For a request outside of a dialog; `None` within one.
    pub fn of(request: &Request) -> Option<Self> {
        if request.to.tag().is_some() {
            return None;
        }
        let tag = request.from.tag().unwrap_or_default();
        Some(Self(format!("{} {tag} {} {}", request.call_id, request.cseq.number, request.method)))
    }
}
