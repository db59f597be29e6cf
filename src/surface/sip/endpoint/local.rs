//! What we do to calls: the application's commands, and what time does.

use std::time::Instant;

use super::{Admission, Answer, CallHandle, EndCause, Endpoint, Event, Output};
use crate::surface::sip::dialog::{CallState, PendingInvite};
use crate::surface::sip::error::SipError;
use crate::surface::sip::media_plan::LocalMedia;
use crate::surface::sip::message::{MAGIC_COOKIE, Method, name};
use crate::surface::sip::timer::Timer;
use crate::surface::sip::transaction::TransactionId;

impl Endpoint {
    pub(super) fn ring(&mut self, now: Instant, handle: CallHandle) -> Result<(), SipError> {
        let call = self.calls.get(&handle).ok_or(SipError::UnknownCall(handle))?;
        let invite = call.invite.as_ref().ok_or(SipError::WrongState(handle))?;
        let (id, reply, tag) = (invite.transaction, invite.reply.clone(), call.dialog.local_tag().to_owned());
        let answer = Answer::status(180, &tag).with(name::CONTACT, self.contact());
        self.respond(now, id, &reply, answer);
        Ok(())
    }

    pub(super) fn accept(&mut self, now: Instant, handle: CallHandle, local: LocalMedia) -> Result<(), SipError> {
        let call = self.calls.get_mut(&handle).ok_or(SipError::UnknownCall(handle))?;
        let PendingInvite { transaction, cseq, reply, offer } = call.invite.take().ok_or(SipError::WrongState(handle))?;
        if offer.as_ref().is_some_and(|offer| !offer.fits(local.address)) {
            call.invite = Some(PendingInvite { transaction, cseq, reply, offer });
            return self.reject(now, handle, 488);
        }
        self.invites.remove(&transaction);
        self.timers.cancel(Timer::Unanswered(handle));
        call.state = CallState::Accepted;
        call.local = Some(local);
        let body = match &offer {
            Some(offer) => call.negotiation.answer(offer, &local).0,
            None => call.negotiation.offer(&local),
        };
        let tag = call.dialog.local_tag().to_owned();
        let answer = self.media_answer(&tag, &body);
        let response = self.respond(now, transaction, &reply, answer);
        self.await_ack(now, handle, cseq, response, reply.destination, offer.is_none());
        Ok(())
    }

    pub(super) fn reject(&mut self, now: Instant, handle: CallHandle, status: u16) -> Result<(), SipError> {
        let call = self.calls.get(&handle).ok_or(SipError::UnknownCall(handle))?;
        if call.invite.is_none() {
            return Err(SipError::WrongState(handle));
        }
        let status = if (400..700).contains(&status) { status } else { 480 };
        self.answer_invite(now, handle, status);
        self.end(handle, EndCause::Rejected { status });
        self.forget(handle);
        Ok(())
    }

    pub(super) fn bye(&mut self, now: Instant, handle: CallHandle) -> Result<(), SipError> {
        let state = self.calls.get(&handle).ok_or(SipError::UnknownCall(handle))?.state;
        self.end(handle, EndCause::LocalBye);
        match state {
            CallState::Incoming => {
                self.answer_invite(now, handle, 480);
                self.forget(handle);
            }
            // Section 15: not before the ACK, or before it is given up.
            CallState::Accepted => {}
            CallState::Established => self.send_bye(now, handle),
            CallState::Ending => return Err(SipError::WrongState(handle)),
        }
        Ok(())
    }

    pub(super) fn shut_down(&mut self, now: Instant) {
        self.admission = Admission::Refuse { retry_after_s: self.config.retry_after_s };
        // In order, so that the same inputs give the same outputs.
        let mut calls: Vec<(CallHandle, CallState)> = self.calls.iter().map(|(handle, call)| (*handle, call.state)).collect();
        calls.sort_unstable_by_key(|(handle, _)| *handle);
        for (handle, state) in calls {
            self.end(handle, EndCause::LocalBye);
            let bye_sent = self.byes.values().any(|call| *call == handle);
            if state == CallState::Incoming {
                self.answer_invite(now, handle, 503);
                self.forget(handle);
            } else if !bye_sent {
                self.stop_awaiting_ack(handle);
                self.send_bye(now, handle);
            }
        }
    }

    /// Sends our BYE; the dialog stays until it is answered.
    pub(super) fn send_bye(&mut self, now: Instant, handle: CallHandle) {
        let id = TransactionId(self.fresh_id());
        let branch = format!("{}{}", MAGIC_COOKIE, self.tokens.fresh());
        let via = format!("SIP/2.0/UDP {};branch={branch};rport", self.config.advertised);
        let Some(call) = self.calls.get_mut(&handle) else {
            return;
        };
        call.state = CallState::Ending;
        let (datagram, destination) = call.dialog.request(&Method::Bye, &via, &self.config.product);
        self.outputs.push_back(Output::Transmit { datagram: datagram.clone(), destination });
        self.clients.begin(now, &mut self.timers, id, branch, Method::Bye.as_str(), datagram, destination);
        self.byes.insert(id, handle);
    }

    /// Our BYE was answered or given up.
    pub(super) fn bye_done(&mut self, id: TransactionId) {
        if let Some(handle) = self.byes.remove(&id) {
            self.forget(handle);
        }
    }

    /// Answers the INVITE that opened the call finally, if that has not been done.
    pub(super) fn answer_invite(&mut self, now: Instant, handle: CallHandle, status: u16) {
        let Some(call) = self.calls.get_mut(&handle) else {
            return;
        };
        let Some(invite) = call.invite.take() else {
            return;
        };
        let tag = call.dialog.local_tag().to_owned();
        self.invites.remove(&invite.transaction);
        self.respond(now, invite.transaction, &invite.reply, Answer::status(status, &tag));
    }

    /// The call is over for the application, once.
    pub(super) fn end(&mut self, handle: CallHandle, cause: EndCause) {
        let Some(call) = self.calls.get_mut(&handle) else {
            return;
        };
        self.timers.cancel(Timer::Unanswered(handle));
        if call.state != CallState::Ending {
            call.state = CallState::Ending;
            self.tell(Event::Ended { call: handle, cause });
        }
    }

    /// Nothing of the call is kept.
    pub(super) fn forget(&mut self, handle: CallHandle) {
        self.stop_awaiting_ack(handle);
        if let Some(call) = self.calls.remove(&handle) {
            self.dialogs.remove(&call.dialog.key);
        }
    }

    pub(super) fn retransmit_accept(&mut self, now: Instant, handle: CallHandle) {
        let accepted = self.calls.get_mut(&handle).and_then(|call| call.accepted.as_mut());
        let Some(accepted) = accepted else { return };
        accepted.retransmit_interval = (accepted.retransmit_interval * 2).min(self.intervals.t2);
        self.timers.set(Timer::AcceptRetransmit(handle), now + accepted.retransmit_interval);
        let (datagram, destination) = (accepted.response.clone(), accepted.destination);
        self.outputs.push_back(Output::Transmit { datagram, destination });
    }

    /// 64*T1 without an ACK: the session is over (section 13.3.1.4).
    pub(super) fn accept_timed_out(&mut self, now: Instant, handle: CallHandle) {
        self.stop_awaiting_ack(handle);
        self.end(handle, EndCause::NoAck);
        self.send_bye(now, handle);
    }

    pub(super) fn unanswered(&mut self, now: Instant, handle: CallHandle) {
        self.answer_invite(now, handle, 480);
        self.end(handle, EndCause::Unanswered);
        self.forget(handle);
    }
}
