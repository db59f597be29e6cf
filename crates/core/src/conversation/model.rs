//! What the model's events do, and what the ledger answers to what the model asked for.

use super::effect::{Effect, Purpose, ToolStatus};
use super::input::{Content, Identity, ModelEvent};
use super::playback::Piece;
use super::reply::{self, Asked, GenerationState, Queued, Reply};
use super::{Conversation, Cx};
use crate::ids::{DeliveryId, ResponseId};
use crate::ledger::{self, RepeatAnswer};

impl Conversation {
    pub(super) fn model_event(&mut self, cx: &mut Cx, event: ModelEvent) {
        match event {
            ModelEvent::Clause { response, content } => {
                let piece = Piece { purpose: Purpose::Reply { response }, content };
                self.takes(cx, response, Queued::Piece(piece));
            }
            ModelEvent::ToolCall { response, call } => {
                let (session, turn, now) = (self.channel.session, self.turn, cx.now);
                let place = Queued::Answer { to: Asked::Accept(call.call_id.clone()), instead: None, since: cx.now };
                if let Some(reply) = self.takes(cx, response, place) {
                    reply.asked_operations = Some(now);
                    self.ask_ledger(cx, ledger::Input::Accept { session, turn, response, call });
                }
            }
            ModelEvent::Complete { response } => self.completed(cx, response),
            ModelEvent::Failed { response, reason: _ } => {
                if self.reply_to(cx, response).is_some() {
                    self.generation_failed(cx);
                }
            }
            ModelEvent::HangUp { response } => {
                if let Some(reply) = self.reply_to(cx, response) {
                    reply.hang_up = true;
                }
            }
            ModelEvent::CancelIntent { response, tool, work } => self.cancel_wanted(cx, response, tool, work),
            ModelEvent::ListWork { response } => {
                let place = Queued::Answer { to: Asked::Work, instead: None, since: cx.now };
                if self.takes(cx, response, place).is_some() {
                    self.ask_ledger(cx, ledger::Input::ListWork { session: self.channel.session });
                }
            }
            ModelEvent::RepeatLast { response } => self.repeat_last(cx, response),
            ModelEvent::CollectDigits { response, digits_max, end, wait_ms } => {
                if let Some(reply) = self.reply_to(cx, response) {
                    reply.collects = true;
                    self.collect_digits(cx.now, digits_max, end, wait_ms);
                }
            }
            ModelEvent::AskForPin { response } => {
                if self.reply_to(cx, response).is_some() {
                    self.model_asks_for_pin(cx);
                }
            }
            ModelEvent::VerifyCaller { response, pin } => {
                if self.reply_to(cx, response).is_some() {
                    self.model_heard_pin(cx, pin);
                }
            }
            ModelEvent::TurnWasNoise { turn } => {
                if turn == self.turn {
                    self.was_noise(cx);
                }
            }
            ModelEvent::WantsToSpeak => self.wants_to_speak = true,
        }
    }

    /// The caller wants something cancelled: one operation by its short name, a tool's, or all. A name that nothing has cancels nothing.
    fn cancel_wanted(&mut self, cx: &mut Cx, response: ResponseId, tool: Option<String>, work: Option<String>) {
        let place = Queued::Answer { to: Asked::Cancel, instead: None, since: cx.now };
        if self.takes(cx, response, place).is_none() {
            return;
        }
        let operation = work.as_deref().map(|name| self.named_work(name));
        match operation {
            Some(None) => {
                let say = ledger::say_nothing_to_cancel(self.channel.language);
                let nothing = ledger::Cancellation { cancelling: Vec::new(), ended: Vec::new(), refused: Vec::new(), say };
                self.cancelling(cx, nothing);
            }
            known => {
                let operation = known.flatten();
                if operation.is_none() {
                    // Who wants things cancelled has consented to nothing that they were asked before.
                    self.nobody_consents(cx);
                }
                let verified = self.identity == Identity::Verified;
                self.ask_ledger(cx, ledger::Input::Cancel { session: self.channel.session, tool, operation, verified });
            }
        }
    }

    /// The reply, if `response` is the one that is due: what comes of any other is dropped.
    fn reply_to(&mut self, cx: &mut Cx, response: ResponseId) -> Option<&mut Reply> {
        let reply = self.reply_due(response)?;
        reply.heard_of(cx.now);
        Some(reply.generates(&mut cx.edges))
    }

    fn reply_due(&mut self, response: ResponseId) -> Option<&mut Reply> {
        self.reply.as_mut().filter(|reply| reply.response == response && reply.generating())
    }

    /// The reply takes what the model says; one that says more than anybody would listen to has failed. Silence has its place in it, and is
    /// no sign that the model still answers.
    pub(super) fn takes(&mut self, cx: &mut Cx, response: ResponseId, queued: Queued) -> Option<&mut Reply> {
        let now = cx.now;
        let reply = match &queued {
            Queued::Piece(piece) if piece.content.is_silence() => self.reply_due(response),
            Queued::Piece(Piece { content: Content::Speech { .. }, .. }) => {
                let reply = self.reply_due(response);
                reply.map(|reply| reply.generates(&mut cx.edges))
            }
            _ => self.reply_to(cx, response),
        }?;
        if reply.queue.len() >= reply::QUEUE_MAX {
            self.generation_failed(cx);
            return None;
        }
        reply.takes(now, queued);
        self.reply.as_mut()
    }

    fn completed(&mut self, cx: &mut Cx, response: ResponseId) {
        let Some(reply) = self.reply_to(cx, response) else { return };
        reply.to(GenerationState::Complete, &mut cx.edges);
        reply.drop_silence();
        // The model has answered what the caller said, and wants no keys any more.
        let gives_floor_back = reply.answers_speech && !reply.to_noise && !reply.collects;
        let answers_turn = reply.answers_turn && !reply.to_noise;
        self.seal(cx);
        if answers_turn {
            self.turn_answered(cx, response);
        }
        if gives_floor_back {
            self.stop_collecting();
        }
    }

    /// The model failed, was silent for too long, or says more than anybody would listen to. A turn that got no answer yet, or a scrap of one,
    /// still gets one (I18).
    pub(super) fn generation_failed(&mut self, cx: &mut Cx) {
        let Some(reply) = self.reply.as_mut() else { return };
        reply.to(GenerationState::Failed, &mut cx.edges);
        let response = reply.response;
        reply.drop_silence();
        if !reply.answers() && !reply.greeting {
            reply.queue.extend(reply.no_answer.take().map(Queued::Piece));
            // An excuse is no answer.
            reply.latency = None;
        }
        cx.out.push(Effect::CancelResponse { response });
        self.seal(cx);
    }

    /// Seals the batch of operations that the reply has asked for.
    pub(super) fn seal(&mut self, cx: &mut Cx) {
        let Some(reply) = self.reply.as_mut() else { return };
        let response = reply.response;
        if reply.asked_operations.take().is_some() {
            self.ask_ledger(cx, ledger::Input::Seal { session: self.channel.session, response });
        }
    }

    pub(super) fn accepted(&mut self, cx: &mut Cx, acceptance: ledger::Acceptance) {
        let ledger::Acceptance { call_id, response, operation, batch, repeat, say } = acceptance;
        cx.out.push(Effect::ToolOutput { call_id: call_id.clone(), operation: Some(operation), status: status(repeat) });
        let content = Content::Text { text: say, language: self.channel.language };
        let piece = Piece { purpose: Purpose::Acceptance { batch }, content };
        let closing = repeat.filter(|repeat| repeat.answer == RepeatAnswer::Reused).and_then(|repeat| repeat.delivery);
        if let Some(delivery) = closing {
            if self.rides_on(delivery, response) {
                // The answer is there already.
                return self.reply.iter_mut().for_each(|reply| reply.resolve_nothing(&Asked::Accept(call_id.clone())));
            }
            if self.waits_here(delivery) {
                return self.ask_closing(cx, &call_id, response, delivery, piece);
            }
        }
        let Some(reply) = self.reply_being_answered(response) else { return };
        let first = reply.accepted.insert(batch);
        reply.has_words(cx.now);
        reply.resolve(&Asked::Accept(call_id), first.then_some(piece));
        self.say_late();
    }

    /// The caller asks for something whose closing is about to be told: the closing itself, riding, is the answer.
    fn ask_closing(&mut self, cx: &Cx, call_id: &str, response: ResponseId, delivery: DeliveryId, instead: Piece) {
        let asked = Asked::Accept(call_id.to_owned());
        // Where its response went without, the closing is told by itself.
        let Some(reply) = self.reply.as_mut().filter(|reply| reply.response == response) else { return };
        let again = reply.asks_for(delivery);
        let place = reply.queue.iter_mut().find(|queued| matches!(queued, Queued::Answer { to, .. } if *to == asked));
        match place {
            Some(place) if !again => *place = Queued::Answer { to: Asked::Closing(delivery), instead: Some(instead), since: cx.now },
            Some(_) => reply.resolve(&asked, None),
            None => {}
        }
    }

    /// The closing that was asked for is not granted to this response: it is told when it can be.
    pub(super) fn closing_not_granted(&mut self, delivery: DeliveryId) {
        let Some(reply) = self.reply.as_mut().filter(|reply| reply.asks_for(delivery)) else { return };
        let asked = Asked::Closing(delivery);
        let place = reply.queue.iter().find(|queued| matches!(queued, Queued::Answer { to, .. } if *to == asked));
        let instead = place.cloned().and_then(Queued::piece);
        reply.resolve(&asked, instead);
    }

    pub(super) fn refused(&mut self, cx: &mut Cx, call_id: String, response: ResponseId, say: String) {
        cx.out.push(Effect::ToolOutput { call_id: call_id.clone(), operation: None, status: ToolStatus::Refused });
        let content = Content::Text { text: say, language: self.channel.language };
        let Some(reply) = self.reply_being_answered(response) else { return };
        let first = !std::mem::replace(&mut reply.refused, true);
        reply.has_words(cx.now);
        reply.resolve(&Asked::Accept(call_id), first.then_some(Piece { purpose: Purpose::Refusal, content }));
        self.say_late();
    }

    /// The caller's wish to cancel is on record, and may be spoken of (R6): in its place, or after what waits already.
    pub(super) fn cancelling(&mut self, cx: &mut Cx, cancellation: ledger::Cancellation) {
        let text = cancellation.say.clone();
        cx.out.push(Effect::Cancelling(cancellation));
        if self.over.is_some() {
            return;
        }
        let content = Content::Text { text, language: self.channel.language };
        let piece = Some(Piece { purpose: Purpose::Cancellation, content }).filter(|piece| !piece.content.text().is_empty());
        match self.reply.as_mut() {
            Some(reply) => {
                reply.has_words(cx.now);
                reply.resolve(&Asked::Cancel, piece);
            }
            None => self.deferred.extend(piece),
        }
    }

    /// The reply to which the ledger's answer belongs: the one that is being said, or the last one if it went without.
    fn reply_being_answered(&mut self, response: ResponseId) -> Option<&mut Reply> {
        let replies = [self.reply.as_mut(), self.late.as_mut()];
        replies.into_iter().flatten().find(|reply| reply.response == response && reply.state != GenerationState::Cancelled)
    }

    /// What the ledger answered after the reply had ended is said all the same.
    fn say_late(&mut self) {
        let late = self.late.as_mut().map(|late| std::mem::take(&mut late.queue)).unwrap_or_default();
        self.deferred.extend(late.into_iter().filter_map(Queued::piece));
    }
}

fn status(repeat: Option<ledger::Repeat>) -> ToolStatus {
    match repeat.map(|repeat| (repeat.answer, repeat.standing)) {
        None => ToolStatus::Running,
        Some((RepeatAnswer::Rejected | RepeatAnswer::AskedByAnother, _)) => ToolStatus::Rejected,
        Some((RepeatAnswer::NeedsConfirmation, _)) => ToolStatus::NeedsConfirmation,
        Some((RepeatAnswer::Reused, ledger::Standing::Running)) => ToolStatus::AlreadyRunning,
        Some((RepeatAnswer::Reused, ledger::Standing::AboutToBeTold)) => ToolStatus::AboutToBeTold,
        Some((RepeatAnswer::Reused, ledger::Standing::Told)) => ToolStatus::Told,
    }
}
