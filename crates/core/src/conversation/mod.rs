//! A conversation: one per call. The four clocks, barge-in, heard text, and the asking of the gate.
//!
//! It never changes an operation (I5): it asks the ledger and is told. Audio bytes never come here: it sees segments,
//! their lengths and what became of them.
//!
//! * [`acoustic`]: the caller's clock · [`reply`]: the generation clock · [`playback`]: the playback clock
//! * [`barge_in`]: what the caller's movements do to the voice · [`speaking`]: words to the voice, and what became of them
//! * [`telling`]: deliveries: offers, the gate, claims · [`evidence`], [`history`]: what counts as heard

mod acoustic;
mod barge_in;
pub mod effect;
mod evidence;
mod history;
pub mod input;
mod playback;
mod reply;
mod speaking;
mod telling;

use std::collections::{BTreeMap, VecDeque};

pub use effect::{Cause, Decision, Effect, HeardText, Measure, MeasureName, Purpose, ToolStatus};
pub use input::{
    Acoustic, AcousticEdge, AcousticEpoch, Channel, Content, Evidence, Generation, Input, ModelEvent, PlaybackEvent, SegmentRef, ToolCall,
    Word,
};
pub use playback::PlaybackState;
pub use reply::GenerationState;
use serde::{Deserialize, Serialize};

use self::acoustic::AcousticClock;
use self::barge_in::Clearing;
use self::evidence::Reports;
use self::playback::{Of, Piece, Playback};
use self::reply::Reply;
use self::telling::{Awaiting, Claim, Offer, Telling};
use crate::ids::{DeliveryId, FreshIds, PlaybackId, ResponseId, SessionId, TurnId};
use crate::ledger;
use crate::policy::{Language, Localised};
use crate::time::{Step, Time, Wall};
use crate::timers;

/// What a conversation is told of its surroundings before it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How quiet it must have been before a delivery is announced (ms).
    pub min_quiet_ms: u64,
    /// After so much silence the model is asked whether it has something to say (ms); never where there is none.
    pub silence_ms: Option<u64>,
    /// What the caller hears when the model fails to answer.
    pub say_no_answer: Localised,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            min_quiet_ms: timers::MIN_QUIET,
            silence_ms: None,
            say_no_answer: Localised {
                es: Some("Perdone, ahora no le he podido responder. ¿Me lo repite?".into()),
                en: Some("Sorry, I could not answer you just now. Could you say it again?".into()),
            },
        }
    }
}

/// The state machine of one call. See the crate's loop contract.
#[derive(Debug)]
pub struct Conversation {
    settings: Settings,
    channel: Channel,
    /// When the call ended.
    over: Option<Time>,
    /// When the far end was last heard of, once it has been silent for too long.
    silent_since: Option<Time>,
    finished: bool,
    on_hold: bool,
    floor_held: bool,
    acoustic: AcousticClock,
    turn: TurnId,
    /// When speech was last suspected: barge-in is measured from there.
    suspected_at: Option<Time>,
    /// When the caller's last turn stopped, until its acceptance has been measured.
    speech_stopped_at: Option<Time>,
    reply: Option<Reply>,
    /// The last reply, where an acceptance that was given up may still come.
    late: Option<Reply>,
    /// Words that were cut by something other than the caller, and are said when the voice is free.
    deferred: VecDeque<Piece>,
    /// What the last barge-in cut, in case the turn turns out to be noise. Like `deferred` no more than one reply's words.
    cut_by_caller: VecDeque<Piece>,
    current: Option<Playback>,
    clearing: BTreeMap<PlaybackId, Clearing>,
    awaiting: Vec<Awaiting>,
    reports: Reports,
    /// As many as the ledger holds for this party: it bounds its operations.
    offers: BTreeMap<u64, Offer>,
    claim: Option<Claim>,
    telling: BTreeMap<DeliveryId, Telling>,
    /// Since when several deliveries share one window.
    window_since: Option<Time>,
    /// When audible playback last ended.
    playback_ended: Time,
    hang_up: Option<Time>,
    hung_up: bool,
}

/// What the four clocks show, for people: three of them are the conversation's, the fourth is the ledger's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// The caller.
    pub acoustic: Acoustic,
    /// The agent's response; none when none is due.
    pub generation: Option<GenerationState>,
    /// Our audio; none when there is none.
    pub playback: Option<PlaybackState>,
}

/// What an input is handled with: the time, fresh identifiers, and where effects go.
struct Cx<'a> {
    now: Time,
    wall: Wall,
    ids: &'a mut FreshIds,
    out: Vec<Effect>,
}

impl Conversation {
    /// A conversation on a channel that is up. Its effects ask the model for a greeting and the ledger for what is owed.
    pub fn begin(step: &mut Step, settings: Settings, channel: Channel) -> (Self, Vec<Effect>) {
        let mut conversation = Self {
            settings,
            channel,
            over: None,
            silent_since: None,
            finished: false,
            on_hold: false,
            floor_held: false,
            acoustic: AcousticClock::new(step.now),
            turn: TurnId(step.ids.draw()),
            suspected_at: None,
            speech_stopped_at: None,
            reply: None,
            late: None,
            deferred: VecDeque::new(),
            cut_by_caller: VecDeque::new(),
            current: None,
            clearing: BTreeMap::new(),
            awaiting: Vec::new(),
            reports: Reports::default(),
            offers: BTreeMap::new(),
            claim: None,
            telling: BTreeMap::new(),
            window_since: None,
            playback_ended: step.now,
            hang_up: None,
            hung_up: false,
        };
        let mut cx = Cx { now: step.now, wall: step.wall, ids: &mut step.ids, out: Vec::new() };
        conversation.ask_ledger(
            &mut cx,
            ledger::Input::SessionUp {
                session: conversation.channel.session,
                party: conversation.channel.party.clone(),
                language: conversation.channel.language,
            },
        );
        conversation.request(&mut cx, Cause::Greeting);
        (conversation, cx.out)
    }

    /// Takes one input and says what must be done. Inputs after [`Self::finished`] change nothing.
    pub fn handle(&mut self, step: &mut Step, input: Input) -> Vec<Effect> {
        let mut cx = Cx { now: step.now, wall: step.wall, ids: &mut step.ids, out: Vec::new() };
        if self.finished {
            return cx.out;
        }
        match input {
            Input::ChannelOver => self.channel_over(&mut cx),
            Input::FarEndSilent { since } => self.silent_since = Some(since),
            Input::Hold(on) => self.hold(&mut cx, on),
            Input::FloorHeld(held) => self.floor_held = held,
            Input::Acoustic(edge) => self.acoustic_edge(&mut cx, edge),
            Input::Digit(digit) => self.digit(&mut cx, digit),
            Input::Playback(event) => self.playback_event(&mut cx, event),
            Input::Model(event) => self.model_event(&mut cx, event),
            Input::News(news) => self.news(&mut cx, news),
            Input::Wake => {}
        }
        self.run_timers(&mut cx);
        self.settle_evidence(&mut cx);
        self.speak_what_waits(&mut cx);
        self.end_reply(&mut cx);
        self.break_silence(&mut cx);
        self.ask_gate(&mut cx);
        self.hang_up_when_told(&mut cx);
        self.finish(&mut cx);
        cx.out
    }

    /// When [`Input::Wake`] is due, if nothing else comes before.
    pub fn deadline(&self) -> Option<Time> {
        if self.finished {
            return None;
        }
        let mut at: Vec<Option<Time>> = vec![
            self.over.map(|over| over.plus(timers::EVIDENCE_AFTER_END)),
            (self.acoustic.state == Acoustic::Suspected).then(|| self.acoustic.since.plus(timers::SUSPECTED_MAX)),
            self.reply.as_ref().and_then(Reply::fails_at),
            self.reply.as_ref().and_then(Reply::acceptance_due),
            self.current.as_ref().and_then(Playback::stuck_at),
            self.current.as_ref().and_then(Playback::starved_at),
            self.claim.as_ref().map(|claim| claim.since.plus(timers::CLAIM_MAX)),
            self.ride_hold_ends(),
            self.gate_due(),
            self.silence_due(),
            self.hang_up_due(),
        ];
        at.extend(self.clearing.values().map(|clearing| Some(clearing.since.plus(timers::CLEAR_MAX))));
        at.extend(self.awaiting.iter().map(|awaiting| self.settles_at(awaiting)));
        at.into_iter().flatten().min()
    }

    /// Whether the call is over and everything about it is settled. The runtime then drops it.
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// The conversation's name.
    pub fn session(&self) -> SessionId {
        self.channel.session
    }

    /// The turn that is open, or the last one.
    pub fn turn(&self) -> TurnId {
        self.turn
    }

    /// What the clocks show.
    pub fn clocks(&self) -> Clocks {
        Clocks {
            acoustic: self.acoustic.state,
            generation: self.reply.as_ref().map(|reply| reply.state),
            playback: match &self.current {
                Some(playback) => Some(playback.state),
                None if self.awaiting.iter().any(|awaiting| !awaiting.settled) => Some(PlaybackState::Drained),
                None => None,
            },
        }
    }

    /// The language of the call.
    pub fn language(&self) -> Language {
        self.channel.language
    }

    fn ask_ledger(&self, cx: &mut Cx, input: ledger::Input) {
        cx.out.push(Effect::Ledger(Box::new(input)));
    }

    /// Asks the model for a response.
    fn request(&mut self, cx: &mut Cx, cause: Cause) {
        self.close_reply(cx);
        self.late = None;
        self.window_since = None;
        let response = ResponseId(cx.ids.draw());
        self.reply = Some(Reply::new(response, &cause, cx.now));
        cx.out.push(Effect::Respond { response, cause });
    }

    /// Ends the reply: cancels its generation and seals its batch. What it still had to say is left, but for clauses of
    /// deliveries: those go back.
    fn close_reply(&mut self, cx: &mut Cx) -> VecDeque<Piece> {
        let Some(mut reply) = self.reply.take() else { return VecDeque::new() };
        if reply.generating() {
            reply.state = GenerationState::Cancelled;
            cx.out.push(Effect::CancelResponse { response: reply.response });
        }
        if reply.asked_operations {
            self.ask_ledger(cx, ledger::Input::Seal { session: self.channel.session, response: reply.response });
        }
        let words = reply.into_words();
        self.without_clauses(words)
    }

    /// The pieces that are no clauses; the clauses are unheard.
    fn without_clauses(&mut self, pieces: VecDeque<Piece>) -> VecDeque<Piece> {
        let (clauses, words): (VecDeque<Piece>, VecDeque<Piece>) =
            pieces.into_iter().partition(|piece| matches!(piece.purpose, Purpose::Clause { .. }));
        for clause in clauses {
            self.unheard(&clause.purpose);
        }
        words
    }

    fn channel_over(&mut self, cx: &mut Cx) {
        if self.over.is_some() {
            return;
        }
        self.over = Some(cx.now);
        self.hang_up = None;
        self.close_reply(cx);
        self.late = None;
        self.deferred.clear();
        self.cut_current(cx, barge_in::Why::Over);
    }

    fn hold(&mut self, cx: &mut Cx, on: bool) {
        if on && !self.on_hold {
            self.cut_current(cx, barge_in::Why::Hold);
        }
        self.on_hold = on;
        // What the far end played to the caller meanwhile is not known: quiet begins anew.
        self.playback_ended = cx.now;
    }

    fn model_event(&mut self, cx: &mut Cx, event: ModelEvent) {
        match event {
            ModelEvent::Clause { response, content } => {
                let Some(reply) = self.reply_to(response, cx.now) else { return };
                if reply.queue.len() >= reply::QUEUE_MAX {
                    return self.generation_failed(cx);
                }
                reply.answers = true;
                reply.queue.push_back(reply::Queued::Piece(Piece { purpose: Purpose::Reply { response }, content }));
            }
            ModelEvent::ToolCall { response, call } => {
                let (session, turn) = (self.channel.session, self.turn);
                let Some(reply) = self.reply_to(response, cx.now) else { return };
                if reply.queue.len() >= reply::QUEUE_MAX {
                    return self.generation_failed(cx);
                }
                (reply.answers, reply.asked_operations) = (true, true);
                let since = cx.now;
                reply.queue.push_back(reply::Queued::Acceptance { call_id: call.call_id.clone(), since });
                self.ask_ledger(cx, ledger::Input::Accept { session, turn, response, call });
            }
            ModelEvent::Complete { response } => {
                let session = self.channel.session;
                let Some(reply) = self.reply_to(response, cx.now) else { return };
                reply.state = GenerationState::Complete;
                if std::mem::take(&mut reply.asked_operations) {
                    self.ask_ledger(cx, ledger::Input::Seal { session, response });
                }
            }
            ModelEvent::Failed { response, reason: _ } => {
                if self.reply_to(response, cx.now).is_some() {
                    self.generation_failed(cx);
                }
            }
            ModelEvent::HangUp { response } => {
                if let Some(reply) = self.reply_to(response, cx.now) {
                    reply.hang_up = true;
                }
            }
            ModelEvent::CancelIntent { tool } => {
                self.ask_ledger(cx, ledger::Input::Cancel { session: self.channel.session, tool });
            }
            ModelEvent::TurnWasNoise { turn } => {
                if turn == self.turn {
                    self.was_noise();
                }
            }
        }
    }

    /// The reply, if `response` is the one that is due: what comes of any other is dropped.
    fn reply_to(&mut self, response: ResponseId, now: Time) -> Option<&mut Reply> {
        let reply = self.reply.as_mut().filter(|reply| reply.response == response && reply.generating())?;
        reply.event(now);
        Some(reply)
    }

    /// The model failed, was silent for too long, or says more than anybody would listen to. A turn that got no word yet still gets an answer (I18).
    fn generation_failed(&mut self, cx: &mut Cx) {
        let apology = self.settings.say_no_answer.text(self.channel.language).map(str::to_owned);
        let (session, language) = (self.channel.session, self.channel.language);
        let Some(reply) = self.reply.as_mut() else { return };
        reply.state = GenerationState::Failed;
        let response = reply.response;
        if !reply.answers
            && !reply.greeting
            && let Some(text) = apology
        {
            let piece = Piece { purpose: Purpose::Reply { response }, content: Content::Text { text, language } };
            reply.queue.push_back(reply::Queued::Piece(piece));
        }
        let seal = std::mem::take(&mut reply.asked_operations);
        cx.out.push(Effect::CancelResponse { response });
        if seal {
            self.ask_ledger(cx, ledger::Input::Seal { session, response });
        }
    }

    /// A reply ends when nothing of it is left to say and none of it is playing.
    fn end_reply(&mut self, cx: &mut Cx) {
        let Some(reply) = &self.reply else { return };
        let speaking = self.current.as_ref().is_some_and(|playback| playback.of == Of::Response(reply.response));
        let riding = self.claim.as_ref().is_some_and(|claim| claim.route == ledger::Route::Ride);
        if !reply.exhausted() || speaking || riding || !self.deferred.is_empty() {
            return;
        }
        if reply.hang_up && self.hang_up.is_none() {
            self.hang_up = Some(cx.now);
        }
        self.late = self.reply.take().filter(|reply| reply.acceptances_given_up);
    }

    /// Nobody speaks and nothing is due.
    fn idle(&self) -> bool {
        self.over.is_none()
            && !self.on_hold
            && !self.floor_held
            && self.acoustic.quiet()
            && self.reply.is_none()
            && self.current.is_none()
            && self.claim.is_none()
            && self.clearing.is_empty()
            && self.deferred.is_empty()
    }

    /// Since when it has been quiet.
    fn quiet_since(&self) -> Time {
        self.acoustic.last_sound.max(self.playback_ended)
    }

    fn silence_due(&self) -> Option<Time> {
        let silence_ms = self.settings.silence_ms?;
        (self.idle() && self.hang_up.is_none() && !self.hung_up).then(|| self.quiet_since().plus(silence_ms))
    }

    fn break_silence(&mut self, cx: &mut Cx) {
        if self.silence_due().is_some_and(|due| due <= cx.now) {
            let quiet_ms = cx.now.since(self.quiet_since());
            // The next silence is counted from here, even if the model has nothing to say.
            self.playback_ended = cx.now;
            self.request(cx, Cause::Silence { quiet_ms });
        }
    }

    fn hang_up_due(&self) -> Option<Time> {
        let since = self.hang_up?;
        if !self.idle() || self.hung_up {
            return None;
        }
        let tail = self.quiet_since().plus(timers::HANG_UP_TAIL);
        // The agent does not hang up over what is ready and may be told here.
        let told_by = since.plus(timers::HANG_UP_MAX);
        Some(if self.offers.is_empty() { tail } else { tail.max(told_by) })
    }

    fn hang_up_when_told(&mut self, cx: &mut Cx) {
        if self.hang_up_due().is_some_and(|due| due <= cx.now) {
            self.hung_up = true;
            cx.out.push(Effect::HangUp);
        }
    }

    fn run_timers(&mut self, cx: &mut Cx) {
        if self.acoustic.state == Acoustic::Suspected && cx.now.since(self.acoustic.since) >= timers::SUSPECTED_MAX {
            self.acoustic.retract(cx.now);
            self.retracted(cx);
        }
        if self.reply.as_ref().and_then(Reply::fails_at).is_some_and(|at| at <= cx.now) {
            self.generation_failed(cx);
        }
        self.stop_what_is_stuck(cx);
        if let Some(playback) = self.current.as_mut().filter(|playback| playback.starved_at().is_some_and(|at| at <= cx.now)) {
            playback.state = PlaybackState::Queued;
        }
        self.confirm_overdue_clears(cx);
        self.give_back_overdue_claim(cx);
        self.end_ride_hold(cx.now);
        if let Some(reply) = self.reply.as_mut() {
            reply.give_up_acceptances(cx.now);
        }
    }

    /// After the call nothing more is heard: what is left without evidence is settled, and the ledger is told.
    fn finish(&mut self, cx: &mut Cx) {
        let settled =
            self.telling.is_empty() || self.over.is_some_and(|over| cx.now.since(over) > timers::EVIDENCE_AFTER_END + timers::CLEAR_MAX);
        if self.over.is_some_and(|over| cx.now.since(over) >= timers::EVIDENCE_AFTER_END) && settled {
            self.ask_ledger(cx, ledger::Input::SessionOver { session: self.channel.session });
            self.finished = true;
        }
    }
}
