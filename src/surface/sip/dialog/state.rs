//! The state of a dialog that a caller opened.

use std::net::SocketAddr;

use super::route::{Route, next_hop};
use crate::surface::sip::message::{Headers, Method, Reply, Request, Uri, name, print};

/// Identifies a dialog.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DialogKey {
    call_id: String,
    local_tag: String,
    remote_tag: String,
}

impl DialogKey {
    /// The dialog that a request belongs to; `None` outside of one.
    pub fn of(request: &Request) -> Option<Self> {
        request.to.tag().map(|local_tag| Self::with_local_tag(request, local_tag))
    }

    /// The dialog that answering `request` with `local_tag` makes. A caller of RFC 2543 may have no tag.
    pub fn with_local_tag(request: &Request, local_tag: &str) -> Self {
        Self {
            call_id: request.call_id.clone(),
            local_tag: local_tag.to_owned(),
            remote_tag: request.from.tag().unwrap_or_default().to_owned(),
        }
    }
}

/// A dialog seen from the one who was called.
#[derive(Debug)]
pub struct Dialog {
    pub key: DialogKey,
    /// From of our requests: their To with our tag, byte for byte.
    local: Vec<u8>,
    /// To of our requests: their From, byte for byte.
    remote: Vec<u8>,
    remote_target: Uri,
    /// Record-Route of the INVITE in its order (section 12.1.1); later ones change nothing.
    routes: Vec<Route>,
    local_cseq: u32,
    remote_cseq: u32,
    /// Where its last request came from.
    source: SocketAddr,
}

impl Dialog {
    /// The dialog that answering `request` with `local_tag` opens.
    pub fn open(request: &Request, reply: &Reply, local_tag: &str, source: SocketAddr) -> Self {
        // RFC 2543 callers may leave Contact out: From is then the best there is.
        let target = request.contacts.first().map_or(&request.from.uri, |contact| &contact.uri);
        Self {
            key: DialogKey::with_local_tag(request, local_tag),
            local: reply.to_with_tag(local_tag),
            remote: request.headers.first(name::FROM).unwrap_or_default().to_vec(),
            remote_target: target.without_headers(),
            routes: request.headers.all(name::RECORD_ROUTE).filter_map(Route::parse).collect(),
            local_cseq: 0,
            remote_cseq: request.cseq.number,
            source,
        }
    }

    /// Our tag.
    pub fn local_tag(&self) -> &str {
        &self.key.local_tag
    }

    /// Takes the number of a request, if it is in order (section 12.2.2): never lower than one before. An INVITE also
    /// may not repeat the number of another request.
    pub fn take_cseq(&mut self, request: &Request) -> bool {
        let number = request.cseq.number;
        let in_order = number > self.remote_cseq || number == self.remote_cseq && request.method != Method::Invite;
        if in_order {
            self.remote_cseq = number;
        }
        in_order
    }

    /// Notes where the far end is reached from now on: the address that it spoke from, and for requests that refresh the
    /// target also their Contact.
    pub fn heard_from(&mut self, request: &Request, source: SocketAddr) {
        self.source = source;
        if matches!(request.method, Method::Invite | Method::Update)
            && let Some(contact) = request.contacts.first()
        {
            self.remote_target = contact.uri.without_headers();
        }
    }

    /// A request of ours within the dialog (section 12.2.1.1), and where it goes.
    pub fn request(&mut self, method: &Method, via: &str, user_agent: &str) -> (Vec<u8>, SocketAddr) {
        self.local_cseq += 1;
        let mut headers = Headers::default();
        headers.push(name::VIA, via);
        headers.push(name::MAX_FORWARDS, "70");
        headers.push(name::FROM, self.local.as_slice());
        headers.push(name::TO, self.remote.as_slice());
        headers.push(name::CALL_ID, self.key.call_id.as_str());
        headers.push(name::CSEQ, format!("{} {method}", self.local_cseq));
        headers.push(name::USER_AGENT, user_agent);
        let target = match self.routes.split_first() {
            Some((first, rest)) if !first.is_loose() => {
                // A strict router takes the Request-URI; the target goes to the end of the route.
                for route in rest {
                    headers.push(name::ROUTE, route.value());
                }
                headers.push(name::ROUTE, format!("<{}>", self.remote_target));
                first.uri().without_headers()
            }
            _ => {
                for route in &self.routes {
                    headers.push(name::ROUTE, route.value());
                }
                self.remote_target.clone()
            }
        };
        let hop = self.routes.first().map_or(&self.remote_target, Route::uri);
        (print(&format!("{method} {target} SIP/2.0"), &headers, &[]), next_hop(hop, self.source))
    }
}
