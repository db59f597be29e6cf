//! What the service complains of, and what each complaint ends.

use recado_core::Time;

use super::outbox::About;
use super::{Said, Session, State};
use crate::cognition::models::realtime::wire::{ResponseFacts, ServerFault};

impl Session {
    pub(super) fn trouble(&mut self, now: Time, fault: ServerFault) {
        let about = fault.event_id.as_deref().and_then(|event| self.outbox.about(event));
        match (fault.code(), about) {
            // Ours to know: none of these harms the session.
            ("response_cancel_not_active", _) => self.nothing_to_cancel(),
            ("conversation_already_has_active_response", _) => self.found_busy(now, fault.event_id.as_deref()),
            ("input_audio_buffer_commit_empty", _) => {}
            ("session_expired", _) => {
                self.reconnect("the service has ended the session, which was too old");
            }
            (_, about) if about == Some(About::Session) || about.is_none() && !self.ready() => self.refused(fault),
            (_, Some(About::Create)) => self.fail_active(&said(&fault)),
            (_, Some(About::Render(render))) => self.renders.fail(render, said(&fault), &mut self.outbox),
            // One that names no event is about what was last asked for.
            (_, None) if fault.event_id.is_none() && self.awaits_response() => self.fail_active(&said(&fault)),
            _ => self.outbox.say(Said::Trouble(fault)),
        }
    }

    /// The session can't be had: as it is set, never; where the service is only overloaded or full, later.
    fn refused(&mut self, fault: ServerFault) {
        if matches!(self.state, State::Gone { .. } | State::Down) {
            return;
        }
        if fault.passes() {
            self.reconnect(&said(&fault));
            self.outbox.say(Said::Trouble(fault));
        } else {
            self.gone(said(&fault));
            self.outbox.say(Said::Refused(fault));
        }
    }
}

impl ResponseFacts {
    /// Why the response is not what was asked for, if it is not.
    pub(super) fn failure(&self) -> Option<String> {
        let details = &self.status_details;
        match self.status.as_deref() {
            None | Some("completed" | "in_progress") => None,
            Some("incomplete") if details.reason.as_deref() == Some("content_filter") => {
                Some("the service cut the response off: its content is not allowed there".to_owned())
            }
            Some("incomplete") if details.reason.as_deref() == Some("max_output_tokens") => {
                Some("the response is longer than the service allows, and was cut off".to_owned())
            }
            Some("cancelled") => Some("the service cancelled the response, which nobody asked for".to_owned()),
            Some(status) => Some(match (&details.error, details.reason.as_deref()) {
                (Some(error), _) => said(error),
                (None, Some(reason)) => format!("the service says that the response is {status}: {reason}"),
                (None, None) => format!("the service says that the response is {status}, and not why"),
            }),
        }
    }
}

fn said(fault: &ServerFault) -> String {
    format!("the service says: {}", fault.words())
}
