//! Consent: what is read back to the caller before it is done. The floor is held until they have answered: a closing in between would
//! take the question away. Whether what they say is consent, the ledger judges; what was heard of the question is known here.

use super::effect::{Effect, Purpose, ToolStatus};
use super::input::Content;
use super::playback::Piece;
use super::reply::{Asked, GenerationState};
use super::{Conversation, Cx};
use crate::ids::{ResponseId, TurnId};
use crate::ledger;
use crate::time::Time;
use crate::timers::Timer;

/// A read-back that has not come to its end.
#[derive(Debug)]
pub(super) struct ReadBack {
    name: u64,
    /// The response that asked for what is read back.
    response: ResponseId,
    /// Since when it waits to be said, or was heard.
    since: Time,
    /// In which turn it was heard to its end, once it was.
    heard_in: Option<TurnId>,
    /// Turns since that have been answered.
    answers: u8,
}

impl Conversation {
    /// What the caller would have done is read back to them, after all else that the model says.
    pub(super) fn read_back(&mut self, cx: &mut Cx, call_id: String, response: ResponseId, name: u64, say: String) {
        cx.out.push(Effect::ToolOutput { call_id: call_id.clone(), operation: None, status: ToolStatus::NeedsConsent });
        if self.questions().any(|asked| asked == name) {
            // It is asked already.
            return self.reply.iter_mut().for_each(|reply| reply.resolve_nothing(&Asked::Accept(call_id.clone())));
        }
        let piece =
            Piece { purpose: Purpose::ReadBack { read_back: name }, content: Content::Text { text: say, language: self.channel.language } };
        let now = cx.now;
        let lost = self.over.is_some() || self.voicemail;
        let current = self.reply.as_ref().filter(|reply| reply.response == response && reply.state != GenerationState::Cancelled);
        let late = current.is_none()
            && self.late.as_ref().is_some_and(|late| late.response == response && late.state != GenerationState::Cancelled);
        if lost || (current.is_none() && !late) {
            // Nobody is there, or the caller has gone on.
            return self.no_consent(cx, name);
        }
        if self.read_backs.len() >= READ_BACKS_MAX
            && let Some(oldest) = self.read_backs.front().map(|oldest| oldest.name)
        {
            self.read_back_unheard(cx, oldest);
        }
        self.read_backs.push_back(ReadBack { name, response, since: now, heard_in: None, answers: 0 });
        match self.reply.as_mut().filter(|_| !late) {
            Some(reply) => {
                reply.has_words(now);
                reply.resolve_nothing(&Asked::Accept(call_id));
                reply.tail.push_back(piece);
            }
            None => self.deferred.push_back(piece),
        }
        self.window_since = None;
    }

    /// The questions that wait to be said, or to be answered.
    pub(super) fn questions(&self) -> impl Iterator<Item = u64> + '_ {
        self.read_backs.iter().map(|read_back| read_back.name)
    }

    /// Whether a question of ours waits for the caller's answer.
    pub(super) fn consent_awaited(&self) -> bool {
        self.read_backs.iter().any(|read_back| read_back.answers == 0)
    }

    /// All of a read-back has left the box.
    pub(super) fn read_back_said(&mut self, cx: &mut Cx, name: u64, near_silent: bool) {
        if near_silent || self.voicemail || self.on_hold() {
            return self.read_back_unheard(cx, name);
        }
        let (session, turn) = (self.channel.session, self.turn);
        let Some(read_back) = self.read_backs.iter_mut().find(|read_back| read_back.name == name) else { return };
        (read_back.heard_in, read_back.since) = (Some(turn), cx.now);
        self.ask_ledger(cx, ledger::Input::ReadBackHeard { session, read_back: name, turn });
    }

    /// A read-back was not heard, or may not have been: nothing is consent to it.
    pub(super) fn read_back_unheard(&mut self, cx: &mut Cx, name: u64) {
        let before = self.read_backs.len();
        self.read_backs.retain(|read_back| read_back.name != name);
        if self.read_backs.len() < before {
            self.no_consent(cx, name);
            // What can't be consented to any more is not asked.
            self.drop_own_words(cx);
        }
    }

    /// Nobody is there who could consent to anything.
    pub(super) fn nobody_consents(&mut self, cx: &mut Cx) {
        for read_back in std::mem::take(&mut self.read_backs) {
            self.no_consent(cx, read_back.name);
        }
        self.drop_own_words(cx);
    }

    /// What the caller said last was noise: a question that stood before it is as if it had been heard in that turn.
    pub(super) fn consent_is_no_noise(&mut self, cx: &mut Cx) {
        let (session, turn) = (self.channel.session, self.turn);
        let heard = self.read_backs.iter_mut().filter(|read_back| read_back.heard_in.is_some());
        let names: Vec<u64> = heard
            .map(|read_back| {
                read_back.heard_in = Some(turn);
                read_back.name
            })
            .collect();
        for read_back in names {
            self.ask_ledger(cx, ledger::Input::ReadBackHeard { session, read_back, turn });
        }
    }

    /// A turn of the caller's has been answered, with this response. What was asked before it is answered too; once more is
    /// asked "what was that?", and then it is over.
    pub(super) fn turn_answered(&mut self, cx: &mut Cx, response: ResponseId) {
        let turn = self.turn;
        let mut over = Vec::new();
        self.read_backs.retain_mut(|read_back| {
            if read_back.response == response || read_back.heard_in == Some(turn) {
                return true;
            }
            read_back.answers = read_back.answers.saturating_add(1);
            let goes_on = read_back.heard_in.is_some() && read_back.answers < ANSWERS_MAX;
            if !goes_on {
                over.push(read_back.name);
            }
            goes_on
        });
        let any = !over.is_empty();
        for name in over {
            self.no_consent(cx, name);
        }
        if any {
            self.drop_own_words(cx);
        }
    }

    /// When a question that nobody answers is over.
    pub(super) fn consent_due(&self) -> Option<Time> {
        self.read_backs.iter().map(|read_back| read_back.since.plus(self.ms(Timer::ConsentMax))).min()
    }

    pub(super) fn end_consent_in_time(&mut self, cx: &mut Cx) {
        while let Some(name) =
            self.read_backs.iter().find(|read_back| read_back.since.plus(self.ms(Timer::ConsentMax)) <= cx.now).map(|of| of.name)
        {
            self.read_back_unheard(cx, name);
        }
    }

    fn no_consent(&self, cx: &mut Cx, read_back: u64) {
        self.ask_ledger(cx, ledger::Input::ReadBackOver { session: self.channel.session, read_back });
    }
}

/// Read-backs that wait for an answer at once: more than a caller can keep apart.
const READ_BACKS_MAX: usize = 8;
/// Answered turns after which what is said is no consent any more: one may ask back.
const ANSWERS_MAX: u8 = 2;
