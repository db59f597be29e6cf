//! Requests within a dialog, each handled to its end before the next.

use std::net::SocketAddr;
use std::time::Instant;

use super::requests::{Received, asserted, media_status, options_answer};
use super::{ACCEPT, ALLOW, Answer, CallHandle, EndCause, Endpoint, Event};
use crate::surface::sip::dialog::{Accepted, CallState, DialogKey};
use crate::surface::sip::media_plan::{LocalMedia, MediaPlan};
use crate::surface::sip::message::{Method, Request, name};
use crate::surface::sip::offer_answer::Offer;
use crate::surface::sip::timer::Timer;
use crate::surface::sip::transaction::TransactionId;

/// What a re-INVITE or UPDATE comes to.
enum Outcome {
    /// 200 with this body; the plan if it was agreed now; whether the body is our offer.
    Agreed { body: Vec<u8>, plan: Option<MediaPlan>, offered: bool },
    /// This status; with `Retry-After` for 500 (RFC 3261 section 14.2).
    Refused(u16),
}

impl Endpoint {
    pub(super) fn receive_in_dialog(&mut self, now: Instant, handle: CallHandle, received: &Received<'_>) {
        let Received { id, request, reply, source, tag } = *received;
        let Some(call) = self.calls.get_mut(&handle) else {
            return;
        };
        if !call.dialog.take_cseq(request) {
            self.respond(now, id, reply, Answer::status(500, tag));
            return;
        }
        call.dialog.heard_from(request, source);
        let ending = call.state == CallState::Ending;
        if !ending
            && matches!(request.method, Method::Invite | Method::Update)
            && let Some(party) = asserted(&request.headers)
        {
            self.tell(Event::Asserted { call: handle, party, source });
        }
        match request.method {
            Method::Bye => self.receive_bye(now, handle, received),
            _ if ending => {
                self.respond(now, id, reply, Answer::status(481, tag));
            }
            Method::Invite => self.receive_reinvite(now, handle, received),
            Method::Update => self.receive_update(now, handle, received),
            Method::Info => {
                self.respond(now, id, reply, Answer::status(200, tag));
                if let Some((digit, duration_ms)) = digit(request) {
                    self.tell(Event::Digit { call: handle, digit, duration_ms });
                }
            }
            Method::Options => {
                self.respond(now, id, reply, options_answer(tag));
            }
            _ => {
                self.respond(now, id, reply, Answer::status(200, tag));
            }
        }
    }

    /// Section 15.1.2; also before our answer, and before its ACK.
    fn receive_bye(&mut self, now: Instant, handle: CallHandle, received: &Received<'_>) {
        self.respond(now, received.id, received.reply, Answer::status(200, received.tag));
        self.answer_invite(now, handle, 487);
        self.end(handle, EndCause::Bye);
        self.forget(handle);
    }

    fn receive_reinvite(&mut self, now: Instant, handle: CallHandle, received: &Received<'_>) {
        let Received { id, request, reply, source, tag } = *received;
        let outcome = self.renegotiate(handle, request, source);
        let (body, plan, offered) = match outcome {
            Outcome::Refused(status) => return self.refuse_change(now, received, status),
            Outcome::Agreed { body, plan, offered } => (body, plan, offered),
        };
        // Whoever sends a re-INVITE has our 200, even if the ACK was lost or is late.
        self.confirm(handle);
        let answer = self.media_answer(tag, &body);
        let response = self.respond(now, id, reply, answer);
        self.await_ack(now, handle, request.cseq.number, response, reply.destination, offered);
        self.tell_renegotiated(handle, plan);
    }

    fn receive_update(&mut self, now: Instant, handle: CallHandle, received: &Received<'_>) {
        let Received { id, request, reply, source, tag } = *received;
        if !request.has_body() {
            let answer = Answer::status(200, tag).with(name::CONTACT, self.contact());
            self.respond(now, id, reply, answer);
            return;
        }
        match self.renegotiate(handle, request, source) {
            Outcome::Refused(status) => self.refuse_change(now, received, status),
            Outcome::Agreed { body, plan, .. } => {
                let answer = self.media_answer(tag, &body);
                self.respond(now, id, reply, answer);
                self.tell_renegotiated(handle, plan);
            }
        }
    }

    /// Agrees to a change of media, or to none: then the old media goes on.
    fn renegotiate(&mut self, handle: CallHandle, request: &Request, source: SocketAddr) -> Outcome {
        let Some(call) = self.calls.get_mut(&handle) else {
            return Outcome::Refused(481);
        };
        // The first INVITE has no final response yet.
        let Some(local) = call.local else {
            return Outcome::Refused(500);
        };
        if call.negotiation.offer_pending() {
            return Outcome::Refused(491);
        }
        if !request.has_body() {
            return Outcome::Agreed { body: call.negotiation.offer(&local), plan: None, offered: true };
        }
        let offer = match Offer::read(&request.body, local.address.is_ipv4()) {
            Ok(offer) => offer,
            Err(unacceptable) => return Outcome::Refused(media_status(unacceptable)),
        };
        let before = call.negotiation.plan().cloned();
        let (body, plan) = call.negotiation.answer(&offer, &local);
        // Behind a NAT a far end that is somewhere else now may say the same as before.
        let moved = std::mem::replace(&mut call.described_from, source).ip() != source.ip();
        Outcome::Agreed { body, plan: Some(plan).filter(|plan| moved || before.as_ref() != Some(plan)), offered: false }
    }

    fn refuse_change(&mut self, now: Instant, received: &Received<'_>, status: u16) {
        let mut answer = Answer::status(status, received.tag);
        if status == 500 {
            answer = answer.with(name::RETRY_AFTER, RETRY_AFTER_PENDING_S.to_string());
        }
        self.respond(now, received.id, received.reply, answer);
    }

    /// An ACK: it ends an INVITE transaction, or confirms a 200 of ours.
    pub(super) fn receive_ack(&mut self, now: Instant, request: &Request, known: Option<TransactionId>, source: SocketAddr) {
        if known.is_some_and(|id| self.servers.acknowledge(now, &mut self.timers, id)) {
            return;
        }
        let handle = DialogKey::of(request).and_then(|key| self.dialogs.get(&key).copied());
        let Some((handle, call)) = handle.and_then(|handle| Some((handle, self.calls.get_mut(&handle)?))) else {
            self.counters.unmatched += 1;
            return;
        };
        if call.accepted.as_ref().is_none_or(|accepted| accepted.cseq != request.cseq.number) {
            // Late, repeated, or for a 200 that a re-INVITE has confirmed.
            self.counters.retransmissions += 1;
            return;
        }
        call.dialog.heard_from(request, source);
        let offered = call.accepted.as_ref().is_some_and(|accepted| accepted.offered);
        let first = call.state == CallState::Accepted;
        let mut plan = None;
        if offered {
            let local: Option<LocalMedia> = call.local;
            plan = local.and_then(|local| call.negotiation.accept_answer(&request.body, &local).ok());
            if plan.is_some() {
                call.described_from = source;
            }
            call.negotiation.withdraw();
            if plan.is_none() && first {
                self.stop_awaiting_ack(handle);
                self.end(handle, EndCause::NoMedia);
                self.send_bye(now, handle);
                return;
            }
        }
        if call.state == CallState::Ending {
            self.stop_awaiting_ack(handle);
            self.send_bye(now, handle);
            return;
        }
        self.confirm(handle);
        if !first {
            self.tell_renegotiated(handle, plan);
        }
    }

    /// The 200 has arrived: the call is established, if it was not.
    fn confirm(&mut self, handle: CallHandle) {
        self.stop_awaiting_ack(handle);
        let Some(call) = self.calls.get_mut(&handle) else {
            return;
        };
        if call.state != CallState::Accepted {
            return;
        }
        call.state = CallState::Established;
        let source = call.described_from;
        if let Some(media) = call.negotiation.plan().cloned() {
            self.tell(Event::Established { call: handle, media, source });
        }
    }

    /// Keeps repeating a 200 to an INVITE until its ACK (section 13.3.1.4).
    pub(super) fn await_ack(
        &mut self,
        now: Instant,
        handle: CallHandle,
        cseq: u32,
        response: Vec<u8>,
        destination: SocketAddr,
        offered: bool,
    ) {
        let Some(call) = self.calls.get_mut(&handle) else {
            return;
        };
        let retransmit_interval = self.intervals.t1;
        call.accepted = Some(Accepted { cseq, response, destination, retransmit_interval, offered });
        self.timers.set(Timer::AcceptRetransmit(handle), now + retransmit_interval);
        self.timers.set(Timer::AcceptTimeout(handle), now + self.intervals.give_up());
    }

    pub(super) fn stop_awaiting_ack(&mut self, handle: CallHandle) {
        self.timers.cancel(Timer::AcceptRetransmit(handle));
        self.timers.cancel(Timer::AcceptTimeout(handle));
        if let Some(call) = self.calls.get_mut(&handle) {
            call.accepted = None;
        }
    }

    /// 200 with a description.
    pub(super) fn media_answer<'a>(&self, tag: &'a str, body: &'a [u8]) -> Answer<'a> {
        let mut answer =
            Answer::status(200, tag).with(name::CONTACT, self.contact()).with(name::ALLOW, ALLOW).with(name::CONTENT_TYPE, ACCEPT);
        answer.body = body;
        answer
    }

    fn tell_renegotiated(&mut self, call: CallHandle, plan: Option<MediaPlan>) {
        if let (Some(media), Some(known)) = (plan, self.calls.get(&call)) {
            let source = known.described_from;
            self.tell(Event::Renegotiated { call, media, source });
        }
    }
}

/// The digit of an INFO: `application/dtmf-relay` has `Signal=5` and `Duration=160` lines, `application/dtmf` the digit alone.
fn digit(request: &Request) -> Option<(char, Option<u32>)> {
    let text = String::from_utf8_lossy(&request.body);
    match request.content_type()?.as_str() {
        "application/dtmf-relay" => {
            let value = |wanted: &str| {
                let mut pairs = text.lines().filter_map(|line| line.split_once('='));
                pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
            };
            Some((event(value("Signal")?)?, value("Duration").and_then(|duration| duration.parse().ok())))
        }
        "application/dtmf" => Some((event(text.trim())?, None)),
        _ => None,
    }
}

/// A digit, or the number of an event as RFC 4733 counts them.
fn event(text: &str) -> Option<char> {
    match text {
        "10" => Some('*'),
        "11" => Some('#'),
        _ => {
            let mut characters = text.chars().map(|character| character.to_ascii_uppercase());
            let digit = characters.next().filter(|digit| matches!(digit, '0'..='9' | '*' | '#' | 'A'..='D'))?;
            characters.next().is_none().then_some(digit)
        }
    }
}

/// Seconds. RFC 3261 section 14.2 wants a random 0 to 10; one call's peer meets nobody else here, so any value spreads.
const RETRY_AFTER_PENDING_S: u32 = 2;
