//! Requests: what each is checked for, in the order of RFC 3261 section 8.2, and those outside of a dialog.

use std::net::SocketAddr;
use std::time::Instant;

use super::{ACCEPT, ALLOW, Admission, Answer, CallHandle, EndCause, Endpoint, Event, Incoming, Party};
use crate::surface::sip::dialog::{Call, CallState, Dialog, DialogKey, PendingInvite};
use crate::surface::sip::message::{Headers, Method, NameAddr, Reply, Request, Uri, name, split_outside};
use crate::surface::sip::offer_answer::{Negotiation, Offer, Unacceptable};
use crate::surface::sip::timer::Timer;
use crate::surface::sip::transaction::{Full, MergeKey, ServerKey, TransactionId};

/// A request within its transaction.
pub(super) struct Received<'a> {
    pub id: TransactionId,
    pub request: &'a Request,
    pub reply: &'a Reply,
    pub source: SocketAddr,
    /// Our tag in answers outside of a dialog.
    pub tag: &'a str,
}

fn party(address: &NameAddr) -> Party {
    Party { display: address.display.clone(), user: address.uri.user(), host: address.uri.host_text() }
}

/// RFC 3325 section 9.1: one or two values, a `sip:` and a `tel:` URI of the same caller. What can't be read asserts nothing, and is no
/// reason to refuse a call.
pub(super) fn asserted(headers: &Headers) -> Option<Party> {
    let values = headers.all(name::P_ASSERTED_IDENTITY).filter_map(|value| split_outside(value, b',').ok()).flatten();
    values.filter_map(|value| NameAddr::parse(value).ok()).map(|address| party(&address)).find(|party| party.user.is_some())
}

impl Endpoint {
    pub(super) fn receive_request(&mut self, now: Instant, request: &Request, source: SocketAddr) {
        let key = ServerKey::of(request);
        let known = self.servers.find(&key);
        if request.method == Method::Ack {
            return self.receive_ack(now, request, known, source);
        }
        if let Some(id) = known {
            self.counters.retransmissions += 1;
            if let Some((response, destination)) = self.servers.retransmission(id) {
                let datagram = response.to_vec();
                self.outputs.push_back(super::Output::Transmit { datagram, destination });
            }
            return;
        }
        let reply = Reply::to(request, source);
        let about = format!("{} {} {}", request.call_id, request.from.tag().unwrap_or_default(), request.cseq.number);
        let tag = self.tokens.fixed(about.as_bytes());
        if !self.is_allowed(source) {
            self.counters.forbidden += 1;
            return self.answer_statelessly(&reply, 403, "", &tag, Headers::default());
        }
        let call = DialogKey::of(request).and_then(|key| self.dialogs.get(&key).copied());
        let cancels = request.method == Method::Cancel && self.servers.find(&ServerKey::cancelled_by(request)).is_some();
        match self.servers.room(source.ip(), call.is_some() || cancels) {
            Ok(()) => {}
            Err(Full::Source) => {
                self.counters.over_source += 1;
                return;
            }
            Err(Full::Total) => {
                self.counters.over_total += 1;
                let mut extra = Headers::default();
                extra.push(name::RETRY_AFTER, self.config.retry_after_s.to_string());
                return self.answer_statelessly(&reply, 503, "", &tag, extra);
            }
        }
        let merge_key = MergeKey::of(request);
        let merged = merge_key.as_ref().is_some_and(|key| self.servers.is_merged(key));
        let id = TransactionId(self.fresh_id());
        let is_invite = request.method == Method::Invite;
        self.servers.begin(id, key, merge_key.filter(|_| !merged), is_invite, source.ip(), reply.destination);
        let received = Received { id, request, reply: &reply, source, tag: &tag };
        if request.method == Method::Cancel {
            return self.receive_cancel(now, &received);
        }
        if let Some(answer) = refusal(request, &tag, merged) {
            self.respond(now, id, &reply, answer);
            return;
        }
        match call {
            Some(call) => self.receive_in_dialog(now, call, &received),
            None => self.receive_out_of_dialog(now, &received),
        }
    }

    fn receive_out_of_dialog(&mut self, now: Instant, received: &Received<'_>) {
        let Received { id, request, reply, tag, .. } = *received;
        let within = request.to.tag().is_some();
        let answer = match request.method {
            Method::Invite if !within => return self.receive_invite(now, received),
            Method::Options if !within => match self.wrong_user(request) {
                Some(status) => Answer::status(status, tag),
                // As an INVITE would be answered (section 11.2): who asks takes its calls elsewhere.
                None => match self.admission {
                    Admission::Refuse { retry_after_s } => Answer::status(503, tag).with(name::RETRY_AFTER, retry_after_s.to_string()),
                    Admission::Open => options_answer(tag),
                },
            },
            // Message waiting and the like, which nobody here subscribed to: accepting stops the repetitions.
            Method::Notify if !within => Answer::status(200, tag),
            _ => Answer::status(481, tag),
        };
        self.respond(now, id, reply, answer);
    }

    fn receive_invite(&mut self, now: Instant, received: &Received<'_>) {
        let Received { id, request, reply, source, .. } = *received;
        let offer = match self.screen(request) {
            Ok(offer) => offer,
            Err((status, retry_after_s)) => {
                self.counters.calls_refused += 1;
                tracing::debug!(call_id = request.call_id, %source, status, "call refused");
                let mut answer = Answer::status(status, received.tag);
                if let Some(seconds) = retry_after_s {
                    answer = answer.with(name::RETRY_AFTER, seconds.to_string());
                }
                self.respond(now, id, reply, answer);
                return;
            }
        };
        self.counters.calls_incoming += 1;
        let call = CallHandle(self.fresh_id());
        let tag = self.tokens.fresh();
        self.respond(now, id, reply, Answer::status(100, &tag));
        let dialog = Dialog::open(request, reply, &tag, source);
        self.dialogs.insert(dialog.key.clone(), call);
        self.invites.insert(id, call);
        self.timers.set(Timer::Unanswered(call), now + self.config.unanswered_max);
        let codec = offer.as_ref().map(Offer::codec);
        self.calls.insert(
            call,
            Call {
                dialog,
                state: CallState::Incoming,
                negotiation: Negotiation::new(self.tokens.number()),
                described_from: source,
                local: None,
                invite: Some(PendingInvite { transaction: id, cseq: request.cseq.number, reply: reply.clone(), offer }),
                accepted: None,
            },
        );
        self.tell(Event::Incoming(Incoming {
            call,
            call_id: request.call_id.clone(),
            from: party(&request.from),
            asserted: asserted(&request.headers),
            to_user: request.uri.user(),
            source,
            codec,
        }));
    }

    /// Is a new call taken? If not: the status, and for 503 when to try again.
    fn screen(&self, request: &Request) -> Result<Option<Offer>, (u16, Option<u32>)> {
        if let Some(status) = self.wrong_user(request) {
            return Err((status, None));
        }
        if let Admission::Refuse { retry_after_s } = self.admission {
            return Err((503, Some(retry_after_s)));
        }
        // Calls that only wait for their BYE's answer do not count against the limit, but they are memory too.
        if self.calls_open() >= self.config.calls_max || self.calls.len() >= self.config.calls_max * 2 + ENDING_CALLS {
            return Err((486, None));
        }
        if !request.has_body() {
            return Ok(None);
        }
        match Offer::read(&request.body, self.config.advertised.is_ipv4()) {
            Ok(offer) => Ok(Some(offer)),
            Err(unacceptable) => Err((media_status(unacceptable), None)),
        }
    }

    /// For nobody here: 404; and 483 if it would have to be forwarded and may not be (section 8.2.2.1, 16.3).
    fn wrong_user(&self, request: &Request) -> Option<u16> {
        let user = request.uri.user();
        // A ping of the host itself is for us.
        if self.config.users.accept(user.as_deref()) || user.is_none() && request.method == Method::Options {
            return None;
        }
        Some(if request.max_forwards == Some(0) { 483 } else { 404 })
    }

    /// Section 9.2: 200 for the CANCEL, 487 for its INVITE if that has no final response yet.
    fn receive_cancel(&mut self, now: Instant, received: &Received<'_>) {
        let Received { id, request, reply, tag, .. } = *received;
        let Some(invite) = self.servers.find(&ServerKey::cancelled_by(request)) else {
            self.respond(now, id, reply, Answer::status(481, tag));
            return;
        };
        let call = self.invites.get(&invite).copied();
        let tag = call.and_then(|call| self.calls.get(&call)).map_or_else(|| tag.to_owned(), |call| call.dialog.local_tag().to_owned());
        self.respond(now, id, reply, Answer::status(200, &tag));
        if let Some(call) = call {
            self.answer_invite(now, call, 487);
            self.end(call, EndCause::Cancelled);
            self.forget(call);
        }
    }
}

/// What is wrong with a request whoever it is for.
fn refusal<'a>(request: &Request, tag: &'a str, merged: bool) -> Option<Answer<'a>> {
    match request.method {
        Method::Register | Method::Known(_) => {
            return Some(Answer::status(405, tag).with(name::ALLOW, ALLOW));
        }
        Method::Unknown(_) => return Some(Answer::status(501, tag).with(name::ALLOW, ALLOW)),
        _ => {}
    }
    if matches!(request.uri, Uri::Other { .. }) {
        return Some(Answer::status(416, tag));
    }
    if merged {
        return Some(Answer::status(482, tag));
    }
    let required: Vec<&[u8]> = request.headers.all(name::REQUIRE).collect();
    if !required.is_empty() {
        return Some(Answer::status(420, tag).with(name::UNSUPPORTED, required.join(&b", "[..])));
    }
    let describes_media = matches!(request.method, Method::Invite | Method::Update) && request.has_body();
    let is_sdp = request.content_type().is_none_or(|media_type| media_type == ACCEPT);
    let encoded = request.headers.first(name::CONTENT_ENCODING).is_some_and(|value| !value.eq_ignore_ascii_case(b"identity"));
    (describes_media && (!is_sdp || encoded)).then(|| Answer::status(415, tag).with(name::ACCEPT, ACCEPT))
}

/// 200 with what we can do (section 11.2). `Supported` is empty: no extension is.
pub(super) fn options_answer(tag: &str) -> Answer<'_> {
    Answer::status(200, tag).with(name::ALLOW, ALLOW).with(name::ACCEPT, ACCEPT).with(name::SUPPORTED, "")
}

/// The status that says why a description is not agreed to.
pub(super) fn media_status(unacceptable: Unacceptable) -> u16 {
    match unacceptable {
        Unacceptable::Malformed => 400,
        Unacceptable::NothingInCommon => 488,
    }
}

/// Room for calls that end, on a box with few calls.
const ENDING_CALLS: usize = 16;
