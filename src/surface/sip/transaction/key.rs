//! How a request is matched to its transaction (RFC 3261 section 17.2.3).
//!
//! Keys are digests: what a far end writes into its headers must not decide how much memory a transaction takes.

use sha2::{Digest, Sha256};

use crate::surface::sip::message::{Method, Request, name};

/// Identifies a server transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerKey([u8; 32]);

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
            Some(branch) => Self(digest(&["3261", branch, &request.via.sent_by(), method])),
            // RFC 2543 has no branch to rely on.
            None => Self(digest(&[
                "2543",
                &request.uri.to_string(),
                request.from.tag().unwrap_or_default(),
                &request.call_id,
                &request.cseq.number.to_string(),
                &String::from_utf8_lossy(request.headers.first(name::VIA).unwrap_or_default()),
                method,
            ])),
        }
    }
}

/// Identifies a request, whichever way it came: two transactions with the same are one request that was forked and
/// merged (section 8.2.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MergeKey([u8; 32]);

impl MergeKey {
    /// For a request outside of a dialog; `None` within one.
    pub fn of(request: &Request) -> Option<Self> {
        if request.to.tag().is_some() {
            return None;
        }
        let tag = request.from.tag().unwrap_or_default();
        let number = request.cseq.number.to_string();
        Some(Self(digest(&[&request.call_id, tag, &number, request.method.as_str()])))
    }
}

fn digest(parts: &[&str]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}
