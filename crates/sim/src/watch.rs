//! The contract's invariants, checked after every step from what left the box, what the store holds and what the far end
//! got: never from the conversation's own state.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::Hash;

use recado_core::conversation::{
    Acoustic, AcousticEpoch, Cause, Edge, Effect, Evidence, HeardText, Identity, Input, ModelEvent, PlaybackEvent, PlaybackState, Purpose,
    SegmentRef, Standing,
};
use recado_core::ids::{BootId, DeliveryId, PlaybackId, ResponseId, SessionId};
use recado_core::ledger::{self, DeliveryKind, DeliveryRecord, DeliveryState, SpokenClause, Write};
use recado_core::policy::{Audience, CanInterrupt};
use recado_core::timers::Timer;

use crate::rig::Call;
use crate::store::Store;
use crate::voice::{FRAME, Released, Voice};

/// What the far end's jitter buffer holds (ms).
pub const FAR_BUFFER: u64 = 100;

/// What was seen of the whole box, over all calls and boots.
#[derive(Default)]
pub struct Watch {
    /// Clauses whose last frame left the box: when, in which call, and whether enough of it arrived.
    clauses: BTreeMap<(DeliveryId, u32), Vec<Sounded>>,
    /// Clauses heard since the delivery was last heard whole.
    since_whole: BTreeMap<DeliveryId, BTreeSet<u32>>,
    /// How often a delivery was heard whole.
    pub whole: BTreeMap<DeliveryId, u32>,
    /// Deliveries that have been uncertain since they were last heard whole.
    doubted: BTreeSet<DeliveryId>,
    ended: BTreeMap<DeliveryId, u64>,
    /// When each delivery became durable.
    made: BTreeMap<DeliveryId, u64>,
    /// When the store last failed or was slow.
    pub unwell: Option<u64>,
    /// Everything that was wanted, as one number (I15); only where it is asked for.
    pub digest: Option<DefaultHasher>,
}

struct Sounded {
    at: u64,
    session: SessionId,
    arrived: bool,
}

/// What was seen of one call.
pub struct CallWatch {
    acoustic: Acoustic,
    epoch: AcousticEpoch,
    /// The response that is being generated.
    pub open: Option<ResponseId>,
    answers_turn: bool,
    said: bool,
    /// A failed response that must be answered for.
    pub owed_since: Option<u64>,
    hang_up_wish: Option<u64>,
    waiting_since: Option<u64>,
    heard: BTreeSet<SegmentRef>,
    now: u64,
    /// Edges of the acoustic, the generation and the playback clock that were taken.
    pub edges: BTreeSet<(&'static str, &'static str)>,
    /// Whether the model has been heard of since the response was asked for.
    generating: bool,
    playbacks: BTreeMap<PlaybackId, &'static str>,
    /// Whether keys are being collected: from the model's wish to the response that is asked for when they have come.
    collecting: bool,
    /// Whether the response that is being generated answers speech, and wants no keys.
    answers_speech: bool,
}

/// What an input may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// Only time: a suspicion, its retraction, a refused command (I11).
    OnlyWait,
    /// A turn ended: it is answered (I18).
    Answer,
    /// The model asks.
    AskLedger,
    /// A deadline has come: a model that was silent for too long has failed.
    Wake,
    /// Anything but what changes an operation (I5).
    Anything,
}

impl CallWatch {
    pub fn new(now: u64) -> Self {
        Self {
            acoustic: Acoustic::Quiet,
            epoch: AcousticEpoch(0),
            open: None,
            answers_turn: false,
            said: false,
            owed_since: None,
            hang_up_wish: None,
            waiting_since: None,
            heard: BTreeSet::new(),
            now,
            edges: BTreeSet::new(),
            generating: false,
            playbacks: BTreeMap::new(),
            collecting: false,
            answers_speech: false,
        }
    }

    /// An input goes to the conversation.
    pub fn input(&mut self, input: &Input, now: u64) -> May {
        self.now = now;
        if let Input::Playback(event) = input {
            self.playback(event);
        }
        match input {
            Input::Acoustic(edge) if edge.epoch > self.epoch => {
                let from = std::mem::replace(&mut self.acoustic, edge.to);
                self.edges.insert((name(from), name(edge.to)));
                self.epoch = edge.epoch;
                match (from, edge.to) {
                    (Acoustic::Quiet, Acoustic::Suspected) | (Acoustic::Suspected, Acoustic::Quiet) => May::OnlyWait,
                    (Acoustic::Speaking | Acoustic::Trailing, Acoustic::Quiet) => May::Answer,
                    _ => {
                        self.owed_since = None;
                        May::Anything
                    }
                }
            }
            // Keys that are collected are answered together.
            Input::Digit(_) if self.collecting => May::Anything,
            Input::Digit(_) => May::Answer,
            // Without a voice, nobody is answered.
            Input::Hold(_) | Input::ChannelOver | Input::Playback(PlaybackEvent::Failed { .. }) => {
                self.owed_since = None;
                May::Anything
            }
            Input::Playback(PlaybackEvent::Refused { .. }) => May::OnlyWait,
            Input::Model(event) => self.model(event),
            Input::Wake => May::Wake,
            _ => May::Anything,
        }
    }

    /// The playback clock, as the media path tells it.
    fn playback(&mut self, event: &PlaybackEvent) {
        match event {
            PlaybackEvent::Started { segment, .. } | PlaybackEvent::Resumed { segment, .. } => self.plays(segment.playback, "Playing"),
            PlaybackEvent::Paused { segment, .. } => self.plays(segment.playback, "Paused"),
            PlaybackEvent::Cleared { playback, .. } => self.plays(*playback, "Cleared"),
            PlaybackEvent::Failed { segment, .. } => self.plays(segment.playback, "Lost"),
            _ => {}
        }
    }

    fn plays(&mut self, playback: PlaybackId, to: &'static str) {
        if let Some(from) = self.playbacks.insert(playback, to)
            && from != to
        {
            self.edges.insert((from, to));
        }
    }

    /// What the conversation's own clocks did, where it can't be seen from outside: that evidence is awaited, and settled.
    pub fn took(&mut self, edges: &[Edge]) {
        for edge in edges {
            match edge {
                Edge::Playback { from: PlaybackState::Playing, to: PlaybackState::Drained, .. } => {
                    self.edges.insert(("Playing", "Drained"))
                }
                Edge::Playback { from: PlaybackState::Drained, to: PlaybackState::Finished { .. }, .. } => {
                    self.edges.insert(("Drained", "Finished"))
                }
                Edge::Playback { to: PlaybackState::Lost, .. } => self.edges.insert(("Queued", "Lost")),
                _ => false,
            };
        }
    }

    fn generates(&mut self, to: &'static str) {
        let from = if self.generating { "Generating" } else { "Requested" };
        self.edges.insert((from, to));
        self.generating = to == "Generating";
    }

    fn model(&mut self, event: &ModelEvent) -> May {
        match event {
            ModelEvent::Clause { response, .. } | ModelEvent::ToolCall { response, .. } if self.open == Some(*response) => {
                self.said = true;
                if !self.generating {
                    self.generates("Generating");
                }
            }
            ModelEvent::Complete { response } if self.open == Some(*response) => {
                self.generates("Complete");
                // What the caller said instead of the keys has its answer.
                self.collecting &= !self.answers_speech;
                self.open = None;
            }
            ModelEvent::Failed { response, .. } if self.open == Some(*response) => self.failed(),
            ModelEvent::CollectDigits { response, .. } if self.open == Some(*response) => {
                (self.collecting, self.answers_speech) = (true, false);
            }
            ModelEvent::TurnWasNoise { .. } => self.answers_speech = false,
            ModelEvent::HangUp { response } if self.open == Some(*response) => self.hang_up_wish = Some(self.now),
            _ => {}
        }
        May::AskLedger
    }

    fn failed(&mut self) {
        self.generates("Failed");
        self.open = None;
        if self.answers_turn && !self.said {
            self.owed_since = Some(self.now);
        }
    }

    /// The conversation wants this.
    pub fn effects(&mut self, may: &May, effects: &[Effect], voice: &Voice, over: bool) {
        for effect in effects {
            match effect {
                Effect::Respond { response, cause } => {
                    assert_eq!(self.open, None, "I18: one generation at a time");
                    self.open = Some(*response);
                    self.answers_turn = matches!(cause, Cause::Turn { .. } | Cause::Digit { .. } | Cause::Digits { .. });
                    self.answers_speech = matches!(cause, Cause::Turn { .. });
                    self.collecting &= !matches!(cause, Cause::Digit { .. } | Cause::Digits { .. });
                    (self.said, self.generating, self.owed_since) = (false, false, None);
                }
                Effect::CancelResponse { .. } if *may == May::OnlyWait => {
                    panic!("I11: a false start changes nothing but time: {effects:?}")
                }
                Effect::CancelResponse { response } if self.open == Some(*response) => match may {
                    May::Wake => self.failed(),
                    _ => {
                        self.generates("Cancelled");
                        self.open = None;
                    }
                },
                Effect::Speak { segment, .. } => {
                    self.playbacks.entry(segment.playback).or_insert("Queued");
                }
                Effect::Clear { playback } if *may == May::OnlyWait => {
                    assert!(!voice.begun(*playback), "I11: a false start changes nothing but time: {effects:?}");
                }
                // Cut before it could be said: by the caller, or because the voice did not get it out.
                Effect::Clear { .. } => self.owed_since = None,
                Effect::Ledger(asked) => {
                    use ledger::Input::{Accept, Attempted, Callback, Cancel};
                    let operates = matches!(**asked, Accept { .. } | Attempted { .. } | Callback { .. } | Cancel { .. });
                    assert!(!operates || *may == May::AskLedger, "I5: only the model's wish changes an operation: {asked:?}");
                }
                _ => {}
            }
        }
        if *may == May::Answer && !over {
            assert!(effects.iter().any(|effect| matches!(effect, Effect::Respond { .. })), "I18: a turn that ended is answered");
        }
    }
}

impl Watch {
    /// A transaction has reached the disk.
    pub fn committed(&mut self, store: &Store, writes: &[Write], now: u64) {
        for write in writes {
            let (Write::CreateDelivery(record) | Write::UpdateDelivery(record)) = write else { continue };
            self.made.entry(record.id).or_insert(now);
            if record.state == DeliveryState::Uncertain {
                self.doubted.insert(record.id);
            }
            if record.state.terminal() {
                self.ended.entry(record.id).or_insert(now);
            }
            if record.state == DeliveryState::Spoken && record.kind == DeliveryKind::Final {
                self.spoken(record);
            }
        }
        for delivery in store.claims.keys() {
            assert!(store.deliveries.contains_key(delivery), "I17: a claim of nothing");
        }
    }

    /// I6: what counts as heard was heard.
    fn spoken(&self, record: &DeliveryRecord) {
        for (at, clause) in (0_u32..).zip(&record.clauses) {
            let sounded = [at, SpokenClause::SHORT].into_iter().filter_map(|at| self.clauses.get(&(record.id, at))).flatten();
            let evidence = clause.heard.expect("Spoken only on evidence");
            let heard = sounded.into_iter().any(|sounded| sounded.arrived || evidence == Evidence::Sent);
            assert!(heard, "I6: clause {at} of {record:?} is spoken, and the ear did not hear it");
        }
    }

    /// A frame has left the box.
    pub fn released(&mut self, store: &Store, call: &mut Call, released: &Released, now: u64, link_ms: u64) {
        call.watch.owed_since = None;
        if let Purpose::Progress { batch, .. } = released.purpose {
            let closing = store.deliveries.values().find(|record| record.batch == batch);
            let ready = closing.and_then(|closing| self.made.get(&closing.id));
            assert!(ready.is_none_or(|made| now <= made + 2 * link_ms + FRAME), "I19: progress is heard, and its closing is ready");
        }
        let Purpose::Clause { delivery, clause } = released.purpose else { return };
        let record = &store.deliveries[&delivery];
        let over_caller = record.can_interrupt == CanInterrupt::Caller;
        assert!(
            call.voice.acoustic == Acoustic::Quiet || over_caller || disbelieved(call, now),
            "I9: a delivery's frame while the caller is {:?}",
            call.voice.acoustic
        );
        let grace = 2 * link_ms + FRAME;
        let ended = self.ended.get(&delivery).is_some_and(|ended| now > ended + grace);
        assert!(!ended, "I10: a frame of what is {:?}", record.state);
        assert!(may_be_told(call, record), "I14: {:?} hears what belongs to {:?}", call.party, record.party);
        let claimed = store.claims.get(&delivery).is_some_and(|(session, ..)| *session == call.session);
        assert!(claimed || self.ended.contains_key(&delivery), "R4, I17: a frame without a claim");
        if let (Some(clause), true) = (clause, released.last) {
            let count = call.voice.counts[&released.segment];
            let sounded = Sounded { at: now, session: call.session, arrived: count.lost * 10 <= count.frames };
            self.clauses.entry((delivery, clause)).or_default().push(sounded);
            self.whole(record, clause);
        }
    }

    /// I1: a closing is heard whole again only after doubt.
    fn whole(&mut self, record: &DeliveryRecord, clause: u32) {
        let heard = self.since_whole.entry(record.id).or_default();
        heard.insert(clause);
        let whole = heard.contains(&SpokenClause::SHORT) || (0_u32..).zip(&record.clauses).all(|(at, _)| heard.contains(&at));
        if whole {
            heard.clear();
            let times = self.whole.entry(record.id).or_default();
            *times += 1;
            assert!(*times == 1 || self.doubted.contains(&record.id), "I1: heard {times} times, without doubt: {record:?}");
            self.doubted.remove(&record.id);
        }
    }

    /// A call is over: what lay in the far end's buffer was not heard.
    pub fn call_over(&mut self, call: &Call, now: u64) {
        for sounded in self.clauses.values_mut() {
            sounded.retain(|sounded| sounded.session != call.session || sounded.at + FAR_BUFFER <= now);
        }
    }

    /// It was a machine that heard what was said in a call: nobody did.
    pub fn machine_heard(&mut self, call: &Call) {
        for ((delivery, _), sounded) in &mut self.clauses {
            let before = sounded.len();
            sounded.retain(|sounded| sounded.session != call.session);
            if sounded.len() < before {
                self.doubted.insert(*delivery);
            }
        }
    }

    /// The agent hangs up.
    pub fn hung_up(&self, store: &Store, call: &Call, now: u64) {
        let waited = call.watch.hang_up_wish.is_some_and(|wish| now >= wish + 10_000);
        let well = self.unwell.is_none_or(|at| now > at + UNWELL);
        let ready = store.deliveries.values().find(|record| record.state == DeliveryState::Ready && may_be_told(call, record));
        assert!(waited || !well || ready.is_none_or(|record| record.session != call.session), "the agent hangs up over {ready:?}");
    }

    /// I13: in a call that is idle, what waits begins within a second.
    pub fn idle(&mut self, store: &Store, calls: &mut [Call], now: u64, stale: impl Fn(&DeliveryRecord) -> bool) {
        if store.failing || store.delay_ms > 50 || store.in_flight.front().is_some_and(|(at, ..)| *at > now + 50) {
            self.unwell = Some(now);
        }
        let well = self.unwell.is_none_or(|at| now > at + UNWELL);
        let live: BTreeSet<SessionId> = calls.iter().filter(|call| !call.conversation.finished()).map(|call| call.session).collect();
        for call in calls.iter_mut().filter(|call| !call.over) {
            let waits = |record: &DeliveryRecord| {
                matches!(record.state, DeliveryState::Ready | DeliveryState::Uncertain)
                    && record.attempt < 3
                    && may_be_told(call, record)
                    && (record.session == call.session || !live.contains(&record.session))
                    && !stale(record)
            };
            let idle = well && call.quiet() && store.claims.is_empty() && store.deliveries.values().any(waits);
            if !idle {
                call.watch.waiting_since = None;
                continue;
            }
            let since = *call.watch.waiting_since.get_or_insert(now);
            // Quiet, the second, and one more where a claim was refused.
            assert!(
                now <= since + 650 + 1_000 + 1_000 + 200,
                "I13: idle since {since}, it is {now}, and nothing is told: {:?}",
                call.conversation
            );
        }
    }

    /// Takes what was wanted into the digest.
    pub fn trace(&mut self, effects: &impl Debug) {
        if let Some(digest) = &mut self.digest {
            format!("{effects:?}").hash(digest);
        }
    }
}

impl Call {
    /// Whether nothing goes on here, seen from outside.
    fn quiet(&self) -> bool {
        let still = self.to_conversation.is_empty() && self.to_voice.is_empty() && self.edges.is_empty() && !self.voice.busy();
        still
            && !self.watch.collecting
            && self.watch.open.is_none()
            && self.voice.acoustic == Acoustic::Quiet
            && !self.on_hold
            && !self.floor_held
            && !self.hung_up
    }
}

fn name(acoustic: Acoustic) -> &'static str {
    match acoustic {
        Acoustic::Quiet => "Quiet",
        Acoustic::Suspected => "Suspected",
        Acoustic::Speaking => "Speaking",
        Acoustic::Trailing => "Trailing",
    }
}

/// Whether the caller's clock has stood still for so long that it is not believed any more.
fn disbelieved(call: &Call, now: u64) -> bool {
    let timer = match call.voice.acoustic {
        Acoustic::Quiet => return false,
        Acoustic::Suspected => Timer::SuspectedMax,
        Acoustic::Speaking => Timer::SpeakingMax,
        Acoustic::Trailing => Timer::TrailingMax,
    };
    now >= call.voice.acoustic_since + call.timers.ms(timer)
}

/// I14: whether what belongs to a party or a conversation is for this call's ears.
fn may_be_told(call: &Call, record: &DeliveryRecord) -> bool {
    let theirs = record.party.is_some() && record.party == call.party;
    match record.audience {
        _ if call.voicemail => false,
        Audience::SameCall => record.session == call.session,
        Audience::SameParty => (record.session == call.session || theirs) && (call.party.is_none() || call.identity != Identity::Unknown),
        Audience::VerifiedParty => (record.session == call.session || theirs) && call.identity == Identity::Verified,
    }
}

/// R4: the claim is durable, and this conversation's, before it is spoken.
pub fn claimed_before_spoken(store: &Store, call: &Call, delivery: DeliveryId, boot: BootId) {
    let record = store.deliveries.get(&delivery).expect("a delivery that is told is durable");
    assert_eq!(record.state, DeliveryState::Speaking, "R4: the claim is durable before it is spoken");
    let (session, owner, _) = store.claims.get(&delivery).expect("R4: the claim is durable before it is spoken");
    assert_eq!((*session, *owner), (call.session, boot), "I17: another's claim");
}

/// I7: settled history has no word more than the ear heard, and none twice.
pub fn heard_no_more_than_the_ear(call: &mut Call, heard: &HeardText) {
    let (_, text) = &call.voice.purposes[&heard.segment];
    let count = call.voice.counts[&heard.segment];
    assert!(text.starts_with(&heard.text), "I7: words that were never said: {heard:?} of {text}");
    if !matches!(heard.standing, Standing::Settled(_)) {
        return; // By the send clock, which a media thread that is held up is behind; or in doubt.
    }
    let (said, all) = (heard.text.len() as u64, text.len() as u64);
    assert!(said * count.frames <= count.released * all, "I7: {heard:?}, and the ear heard {count:?} of {text}");
    assert!(call.watch.heard.insert(heard.segment), "I7: a segment is heard twice: {heard:?}");
}

/// After the store failed or was slow, what it was owed is tried again within so many milliseconds.
const UNWELL: u64 = 45_000;
