//! A conversation: one per call. The four clocks, barge-in, heard text, and the asking of the gate.
//!
//! It never changes an operation (I5): it asks the ledger and is told. Audio bytes never come here: it sees segments,
//! their lengths and what became of them.
//!
//! * [`acoustic`]: the caller's clock · [`reply`]: the generation clock · [`playback`]: the playback clock
//! * [`barge_in`]: what the caller's movements do to the voice · [`model`]: what the model's events do
//! * [`speaking`]: words to the voice, and what became of them · [`mod@line`]: hold, who is on the line, hanging up
//! * [`floor`]: the floor held, keys being collected · [`identity`]: who is on the line, proved by keys
//! * [`consent`]: what is read back before it is done · [`asked`]: what runs, what was told last
//! * [`offers`]: the asking of the gate, claims · [`telling`]: deliveries being told
//! * [`settling`], [`evidence`], [`history`]: what counts as heard · [`latency`]: what the caller waits for · [`life`]: whether the model still answers

mod acoustic;
mod asked;
mod barge_in;
mod consent;
pub mod effect;
mod evidence;
mod floor;
mod history;
mod identity;
pub mod input;
mod latency;
mod life;
mod line;
mod model;
mod offers;
mod playback;
mod reply;
mod settling;
mod speaking;
mod telling;

use std::collections::{BTreeMap, VecDeque};

pub use effect::{Cause, Decision, Doubt, Edge, Effect, HeardText, Measure, MeasureName, NamedWork, Purpose, Standing, ToolStatus};
pub use identity::{Pin, Verification, VerificationOutcome};
pub use input::{
    Acoustic, AcousticEdge, AcousticEpoch, Channel, Content, Evidence, Generation, Identity, Input, Mark, ModelEvent, PlaybackEvent,
    SegmentRef, ToolCall, Word,
};
pub use life::{ANSWER_MS_LEAST, Life};
pub use playback::PlaybackState;
pub use reply::GenerationState;
use serde::{Deserialize, Serialize};

use self::acoustic::AcousticClock;
use self::asked::Closing;
use self::barge_in::{Clearing, HeardOf};
use self::consent::ReadBack;
use self::evidence::Reports;
use self::floor::Collecting;
use self::identity::Verifying;
use self::offers::{Claim, Offer, Update};
use self::playback::{Of, Piece, Playback};
use self::reply::Reply;
use self::settling::Awaiting;
use self::telling::Telling;
use crate::faults::{Fault, fault};
use crate::ids::{DeliveryId, FreshIds, OperationId, PlaybackId, ResponseId, SessionId, TurnId};
use crate::ledger;
use crate::policy::{Language, Localised};
use crate::time::{Step, Time, Wall};
use crate::timers::{Timer, Timers};

/// What a conversation is told of its surroundings before it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Its timers.
    pub timers: Timers,
    /// After so much silence the model is asked whether it has something to say (ms); never where there is none.
    pub silence_ms: Option<u64>,
    /// What the caller hears when the model fails to answer, or it takes too long to put their wish to cancel on record.
    pub say_no_answer: Localised,
    /// How callers are verified; not at all where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timers: Timers::default(),
            silence_ms: None,
            say_no_answer: Localised {
                es: Some("Perdone, ahora no le he podido responder. ¿Me lo repite?".into()),
                en: Some("Sorry, I could not answer you just now. Could you say it again?".into()),
            },
            verification: None,
        }
    }
}

/// The state machine of one call. See the crate's loop contract.
#[derive(Debug)]
pub struct Conversation {
    settings: Settings,
    channel: Channel,
    identity: Identity,
    /// When the call ended.
    over: Option<Time>,
    /// When the far end was last heard of, once it has been silent for too long.
    silent_since: Option<Time>,
    finished: bool,
    /// Since when the call is on hold, if it is.
    held_since: Option<Time>,
    /// Whether a machine answered.
    voicemail: bool,
    /// Since when the floor is held for something outside, if it is.
    floor_held_since: Option<Time>,
    collecting: Option<Collecting>,
    /// What the caller is asked to consent to, oldest first.
    read_backs: VecDeque<ReadBack>,
    /// The operations that have short names in this call, in their order.
    work_names: Vec<OperationId>,
    /// The last closing that was told in this call.
    last_told: Option<Closing>,
    verifying: Verifying,
    acoustic: AcousticClock,
    turn: TurnId,
    /// When speech was last suspected: barge-in is measured from there.
    suspected_at: Option<Time>,
    /// When the caller's last turn stopped, until its acceptance has been measured.
    speech_stopped_at: Option<Time>,
    reply: Option<Reply>,
    /// The last reply, where an answer of the ledger that was given up may still come.
    late: Option<Reply>,
    /// Words that were cut by something other than the caller, and are said when the voice is free.
    deferred: VecDeque<Piece>,
    /// What the last barge-in cut, in case the turn turns out to be noise. Like `deferred` no more than one reply's words.
    cut_by_caller: VecDeque<Piece>,
    /// What was heard of responses that were cut and may go on.
    heard_of: VecDeque<(ResponseId, HeardOf)>,
    current: Option<Playback>,
    clearing: BTreeMap<PlaybackId, Clearing>,
    /// Playbacks all of which has left the box, with how much of each is known to have been heard (ms).
    drained: BTreeMap<PlaybackId, u64>,
    awaiting: Vec<Awaiting>,
    reports: Reports,
    /// As many as the ledger holds for this party: it bounds its operations.
    offers: BTreeMap<u64, Offer>,
    /// Progress that waits for quiet.
    updates: VecDeque<Update>,
    /// Since when deliveries have waited that were claimed and given back, until they are offered again. No more than `offers`.
    waited: BTreeMap<DeliveryId, Time>,
    claim: Option<Claim>,
    /// Claims that were given up before the ledger answered, oldest first: each answer is still to come.
    given_up: VecDeque<(DeliveryId, ledger::Route)>,
    telling: BTreeMap<DeliveryId, Telling>,
    /// Since when several deliveries share one window.
    window_since: Option<Time>,
    /// When audible playback last ended.
    playback_ended: Time,
    hang_up: Option<Time>,
    hung_up: bool,
    /// Whether the model has said with this input that it wants to speak.
    wants_to_speak: bool,
    edges: Vec<Edge>,
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

/// What an input is handled with: the time, fresh identifiers, where effects go, and the edges that were taken.
struct Cx<'a> {
    now: Time,
    wall: Wall,
    ids: &'a mut FreshIds,
    out: Vec<Effect>,
    edges: Vec<Edge>,
}

impl Conversation {
    /// A conversation on a channel that is up. Its effects ask the model for a greeting and the ledger for what is owed.
    pub fn begin(step: &mut Step, settings: Settings, channel: Channel) -> (Self, Vec<Effect>) {
        let identity = if channel.party.is_some() { Identity::CallersWord } else { Identity::Unknown };
        let mut conversation = Self {
            settings,
            channel,
            identity,
            over: None,
            silent_since: None,
            finished: false,
            held_since: None,
            voicemail: false,
            floor_held_since: None,
            collecting: None,
            read_backs: VecDeque::new(),
            work_names: Vec::new(),
            last_told: None,
            verifying: Verifying::default(),
            acoustic: AcousticClock::new(step.now),
            turn: TurnId(step.ids.draw()),
            suspected_at: None,
            speech_stopped_at: None,
            reply: None,
            late: None,
            deferred: VecDeque::new(),
            cut_by_caller: VecDeque::new(),
            heard_of: VecDeque::new(),
            current: None,
            clearing: BTreeMap::new(),
            drained: BTreeMap::new(),
            awaiting: Vec::new(),
            reports: Reports::default(),
            offers: BTreeMap::new(),
            updates: VecDeque::new(),
            waited: BTreeMap::new(),
            claim: None,
            given_up: VecDeque::new(),
            telling: BTreeMap::new(),
            window_since: None,
            playback_ended: step.now,
            hang_up: None,
            hung_up: false,
            wants_to_speak: false,
            edges: Vec::new(),
        };
        let mut cx = Cx { now: step.now, wall: step.wall, ids: &mut step.ids, out: Vec::new(), edges: Vec::new() };
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
        let mut edges = std::mem::take(&mut self.edges);
        edges.clear();
        let mut cx = Cx { now: step.now, wall: step.wall, ids: &mut step.ids, out: Vec::new(), edges };
        if self.finished {
            return cx.out;
        }
        self.keep_tail(cx.now);
        match input {
            Input::ChannelOver => self.channel_over(&mut cx),
            Input::FarEndSilent { since } => self.silent_since = Some(since),
            Input::Hold(on) => self.hold(&mut cx, on),
            Input::FloorHeld(held) => self.hold_floor(cx.now, held),
            Input::Identified(identity) => self.identified(&mut cx, identity),
            Input::Voicemail => self.machine_answered(&mut cx),
            Input::Verified { attempt, outcome } => self.verified(&mut cx, attempt, outcome),
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
        // A pause of the caller's counts from the end of what we say, which may be now.
        self.free_floor_in_time(cx.now);
        self.end_collecting_in_time(&mut cx);
        self.end_consent_in_time(&mut cx);
        self.end_verification_in_time(&mut cx);
        self.let_model_speak(&mut cx);
        self.let_model_speak_of_verification(&mut cx);
        self.tell_outcome(&mut cx);
        self.break_silence(&mut cx);
        self.ask_gate(&mut cx);
        self.ask_who_it_is(&mut cx);
        self.tell_updates(&mut cx);
        self.hang_up_when_told(&mut cx);
        self.finish(&mut cx);
        self.edges = cx.edges;
        cx.out
    }

    /// When [`Input::Wake`] is due, if nothing else comes before.
    pub fn deadline(&self) -> Option<Time> {
        if self.finished {
            return None;
        }
        let timers = &self.settings.timers;
        let (reply, current) = (self.reply.as_ref(), self.current.as_ref());
        let mut at: Vec<Option<Time>> = vec![
            self.finish_due(),
            self.acoustic.overdue_at(timers),
            reply.and_then(|reply| reply.fails_at(timers)),
            reply.and_then(|reply| reply.answer_due(timers)),
            reply.and_then(|reply| reply.seals_at(timers)),
            current.and_then(|playback| playback.stuck_at(timers)),
            current.and_then(|playback| playback.starved_at(timers)),
            current.and_then(|playback| playback.resume_due(timers)),
            self.claim.as_ref().map(|claim| claim.since.plus(self.ms(Timer::ClaimMax))),
            self.ride_hold_ends(),
            self.floor_held_due(),
            self.collecting_due(),
            self.consent_due(),
            self.verification_due(),
            self.ask_who_it_is_due(),
            self.gate_due(),
            self.updates_due(),
            self.silence_due(),
            self.hang_up_due(),
        ];
        at.extend(self.clearing.values().map(|clearing| Some(clearing.since.plus(timers.ms(Timer::ClearMax)))));
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

    /// The edges that the clocks took with the last input, in order.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// What the clocks show.
    pub fn clocks(&self) -> Clocks {
        Clocks {
            acoustic: self.acoustic.state,
            generation: self.reply.as_ref().map(|reply| reply.state),
            playback: match &self.current {
                Some(playback) => Some(playback.state),
                None if !self.drained.is_empty() => Some(PlaybackState::Drained),
                None => None,
            },
        }
    }

    /// The language of the call.
    pub fn language(&self) -> Language {
        self.channel.language
    }

    fn ms(&self, timer: Timer) -> u64 {
        if fault(Fault::ClaimLatched) && timer == Timer::ClaimMax { u64::MAX } else { self.settings.timers.ms(timer) }
    }

    fn ask_ledger(&self, cx: &mut Cx, input: ledger::Input) {
        cx.out.push(Effect::Ledger(Box::new(input)));
    }

    /// Asks the model for a response. It is told first what has been heard meanwhile.
    fn request(&mut self, cx: &mut Cx, cause: Cause) {
        self.close_reply(cx);
        self.late = None;
        self.window_since = None;
        self.tell_provisional(cx);
        let response = ResponseId(cx.ids.draw());
        let language = self.channel.language;
        let no_answer = self
            .settings
            .say_no_answer
            .text(language)
            // What nobody waits for is not missed.
            .filter(|_| cause != Cause::OwnAccord)
            .map(|text| Piece { purpose: Purpose::Reply { response }, content: Content::Text { text: text.to_owned(), language } });
        self.reply = Some(Reply::new(response, &cause, no_answer, cx.now));
        cx.out.push(Effect::Respond { response, cause });
    }

    /// Ends the reply: cancels its generation and seals its batch. What it still had to say is left, but for clauses of
    /// deliveries: those go back.
    fn close_reply(&mut self, cx: &mut Cx) -> VecDeque<Piece> {
        let Some(reply) = self.reply.as_mut() else { return VecDeque::new() };
        if reply.generating() && !fault(Fault::TwoGenerations) {
            reply.to(GenerationState::Cancelled, &mut cx.edges);
            cx.out.push(Effect::CancelResponse { response: reply.response });
        }
        self.seal(cx);
        let words = self.reply.take().map(Reply::into_words).unwrap_or_default();
        self.without_clauses(words)
    }

    /// The pieces that are no clauses; the clauses are unheard. News of progress is dropped, and what of the box's own words may not be said
    /// any more.
    fn without_clauses(&mut self, pieces: VecDeque<Piece>) -> VecDeque<Piece> {
        let mut words = VecDeque::new();
        let may = self.own_words();
        for piece in pieces {
            match piece.purpose {
                Purpose::Clause { .. } => self.unheard(&piece.purpose),
                // It asks for what the moment has passed for.
                Purpose::Progress { .. } | Purpose::Identity => {}
                _ if may.be_said(&piece.purpose) => words.push_back(piece),
                _ => {}
            }
        }
        words
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
        // The model may have made more of it than was taken.
        if reply.state == reply::GenerationState::Failed && reply.made {
            self.truncate(cx, reply.response);
        }
        self.late = self.reply.take().filter(|reply| reply.answers_given_up);
    }

    /// Nobody speaks and nothing is due.
    fn idle(&self) -> bool {
        self.over.is_none()
            && !self.on_hold()
            && self.floor_held_since.is_none()
            && self.collecting.is_none()
            && !self.verifying.holds_floor()
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

    fn run_timers(&mut self, cx: &mut Cx) {
        let timers = self.settings.timers.clone();
        if self.reply.as_ref().and_then(|reply| reply.fails_at(&timers)).is_some_and(|at| at <= cx.now) {
            self.generation_failed(cx);
        }
        // A response may go on for minutes, and what it has asked for may be done long before.
        if self.reply.as_ref().and_then(|reply| reply.seals_at(&timers)).is_some_and(|at| at <= cx.now) {
            self.seal(cx);
        }
        if self.acoustic.overdue_at(&timers).is_some_and(|at| at <= cx.now) {
            self.acoustic_overdue(cx);
        }
        self.stop_what_is_stuck(cx);
        if let Some(playback) = self.current.as_mut().filter(|playback| playback.starved_at(&timers).is_some_and(|at| at <= cx.now)) {
            playback.to(PlaybackState::Queued, &mut cx.edges);
        }
        self.confirm_overdue_clears(cx);
        self.give_back_overdue_claim(cx);
        self.end_ride_hold(cx.now);
        if let Some(reply) = self.reply.as_mut() {
            reply.give_up_answers(cx.now, &timers);
        }
    }

    /// When the conversation is finished: once its evidence is settled, and at the latest when the voice has had its time to
    /// say where it stopped.
    fn finish_due(&self) -> Option<Time> {
        let after_end = self.over?.plus(self.ms(Timer::EvidenceAfterEnd));
        Some(if self.telling.is_empty() { after_end } else { after_end.plus(self.ms(Timer::ClearMax)) })
    }

    /// After the call nothing more is heard: what is left without evidence is settled, and the ledger is told.
    fn finish(&mut self, cx: &mut Cx) {
        if self.finish_due().is_some_and(|due| due <= cx.now) {
            self.ask_ledger(cx, ledger::Input::SessionOver { session: self.channel.session });
            self.finished = true;
        }
    }
}
