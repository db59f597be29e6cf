//! A conversation driven by hand: what the model, the ledger, the voice and the caller do is said step by step.

#![allow(dead_code, reason = "each scenario file uses its own part of the rig")]

use recado_core::conversation::*;
use recado_core::ledger::{self, DeliveryEnvelope, DeliveryKind, News, Route, SpokenClause};
use recado_core::policy::{Audience, CanInterrupt, Language, Priority, RidePosition};
use recado_core::timers::{Timer, Timers};
use recado_core::{BatchId, DeliveryId, OperationId, PartyId, ResponseId, SessionId, Step, Time, Wall};
use serde_json::json;

/// What the far end may still have in its buffer (ms).
pub const BUFFER: u64 = 200;

pub struct Call {
    pub conversation: Conversation,
    pub now: u64,
    pub effects: Vec<Effect>,
    /// The edges of the last input.
    pub edges: Vec<Edge>,
    epoch: u64,
    packet: u64,
    seed: u128,
}

impl Call {
    /// A call whose greeting had no words.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut call = Self::greeting(change);
        call.complete();
        call.effects.clear();
        call
    }

    /// A call whose model has been asked for a greeting.
    pub fn greeting(change: impl FnOnce(&mut Settings)) -> Self {
        Self::greeting_in(Language::Es, change)
    }

    pub fn greeting_in(language: Language, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let channel = Channel {
            session: SessionId(1),
            party: Some(PartyId("ana".into())),
            language,
            best: Evidence::Received,
            far_buffer_ms: BUFFER,
        };
        let (conversation, effects) = Conversation::begin(&mut Step::new(Time(0), wall(0), 7 << 64), settings, channel);
        Self { conversation, now: 0, effects, edges: Vec::new(), epoch: 0, packet: 0, seed: 8 }
    }

    /// Gives an input; what comes of it.
    pub fn give(&mut self, input: Input) -> Vec<Effect> {
        self.seed += 1;
        let mut step = Step::new(Time(self.now), wall(self.now), self.seed << 64);
        let effects = self.conversation.handle(&mut step, input);
        self.edges = self.conversation.edges().to_vec();
        self.effects.extend(effects.iter().cloned());
        effects
    }

    /// Time passes; the conversation is woken when it asks for it. What comes of it.
    pub fn pass(&mut self, ms: u64) -> Vec<Effect> {
        let (end, before) = (self.now + ms, self.effects.len());
        for _ in 0..10_000 {
            match self.conversation.deadline() {
                Some(Time(at)) if at <= end => {
                    self.now = at.max(self.now);
                    self.give(Input::Wake);
                }
                _ => {
                    self.now = end;
                    return self.effects[before..].to_vec();
                }
            }
        }
        panic!("it asks to be woken without end at {}: {:?}", self.now, self.conversation.deadline());
    }

    // The caller.

    pub fn moves(&mut self, to: Acoustic) -> Vec<Effect> {
        self.epoch += 1;
        self.give(Input::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(self.epoch), at: Time(self.now) }))
    }

    /// The caller says something, and a response is asked for.
    pub fn turn(&mut self) -> ResponseId {
        for to in [Acoustic::Suspected, Acoustic::Speaking, Acoustic::Trailing, Acoustic::Quiet] {
            self.pass(400);
            self.moves(to);
        }
        self.response()
    }

    // The model.

    /// The response that was asked for last.
    pub fn response(&self) -> ResponseId {
        let asked = |effect: &Effect| if let Effect::Respond { response, .. } = effect { Some(*response) } else { None };
        self.effects.iter().rev().find_map(asked).expect("a response was asked for")
    }

    pub fn say(&mut self, text: &str) -> Vec<Effect> {
        let content = Content::Text { text: text.into(), language: Language::Es };
        let response = self.last_response();
        self.give(Input::Model(ModelEvent::Clause { response, content }))
    }

    pub fn call_tool(&mut self, call_id: &str) -> Vec<Effect> {
        let call = ToolCall { call_id: call_id.into(), tool: "pay".into(), arguments: json!({}), confirmed: false };
        let response = self.last_response();
        self.give(Input::Model(ModelEvent::ToolCall { response, call }))
    }

    pub fn complete(&mut self) -> Vec<Effect> {
        let response = self.last_response();
        self.give(Input::Model(ModelEvent::Complete { response }))
    }

    fn last_response(&mut self) -> ResponseId {
        self.response()
    }

    // The ledger.

    pub fn news(&mut self, news: News) -> Vec<Effect> {
        self.give(Input::News(news))
    }

    pub fn offer(&mut self, number: u128) -> Vec<Effect> {
        self.news(News::Offered(envelope(number)))
    }

    pub fn accepted(&mut self, call_id: &str, response: ResponseId, repeat: Option<ledger::Repeat>, say: &str) -> Vec<Effect> {
        let (operation, batch) = (OperationId(1), BatchId(1));
        self.news(News::Accepted(ledger::Acceptance { call_id: call_id.into(), response, operation, batch, repeat, say: say.into() }))
    }

    pub fn claimed(&mut self, number: u128) -> Vec<Effect> {
        let clauses = vec![SpokenClause { clause: Some(0), text: format!("closing {number}") }];
        self.news(News::Claimed { delivery: DeliveryId(number), clauses })
    }

    pub fn claim_refused(&mut self, number: u128) -> Vec<Effect> {
        self.news(News::ClaimRefused { delivery: DeliveryId(number) })
    }

    // The voice.

    /// The segments that the voice was given, with their words.
    pub fn given(&self) -> Vec<(SegmentRef, String)> {
        spoken_segments(&self.effects)
    }

    /// The segment that these words became last.
    pub fn segment(&self, text: &str) -> SegmentRef {
        self.given().into_iter().rev().find(|(_, given)| given == text).expect("the voice was given it").0
    }

    /// It begins to sound, and lasts so long.
    pub fn start(&mut self, text: &str, duration_ms: u64) -> Vec<Effect> {
        let (segment, at) = (self.segment(text), Time(self.now));
        let mut effects = self.give(Input::Playback(PlaybackEvent::Ready { segment, duration_ms, words: vec![], near_silent: false }));
        let (packet, generation) = (self.packet + 1, Generation(0));
        effects.extend(self.give(Input::Playback(PlaybackEvent::Started { segment, at, packet, generation })));
        effects
    }

    /// Its last frame leaves.
    pub fn sent(&mut self, text: &str, duration_ms: u64) -> Vec<Effect> {
        self.packet += duration_ms.div_ceil(20).max(1);
        let (segment, at, packet, generation) = (self.segment(text), Time(self.now), self.packet, Generation(0));
        self.give(Input::Playback(PlaybackEvent::Sent { segment, at, packet, generation }))
    }

    /// It sounds, from its first to its last frame.
    pub fn play(&mut self, text: &str, duration_ms: u64) -> Vec<Effect> {
        let mut effects = self.start(text, duration_ms);
        effects.extend(self.pass(duration_ms));
        effects.extend(self.sent(text, duration_ms));
        effects
    }

    /// The far end has played everything that has left, and reports that it has got it.
    pub fn played(&mut self) -> Vec<Effect> {
        self.pass(BUFFER);
        self.report()
    }

    /// The far end reports that it has got everything that has left; what came last may still lie in its jitter buffer.
    pub fn report(&mut self) -> Vec<Effect> {
        let (generation, highest_packet, cumulative_lost, at) = (Generation(0), self.packet, 0, Time(self.now));
        self.give(Input::Playback(PlaybackEvent::Report { generation, highest_packet, cumulative_lost, at }))
    }

    pub fn cleared(&mut self, text: &str, cut: Option<u64>) -> Vec<Effect> {
        let segment = self.segment(text);
        let cut = cut.map(|released_ms| (segment.index, released_ms));
        self.give(Input::Playback(PlaybackEvent::Cleared { playback: segment.playback, cut, at: Time(self.now) }))
    }
}

pub fn wall(now: u64) -> Wall {
    Wall { unix_ms: 1_790_000_000_000 + i64::try_from(now).unwrap(), synchronised: true }
}

pub fn envelope(number: u128) -> DeliveryEnvelope {
    DeliveryEnvelope {
        delivery: DeliveryId(number),
        sequence: u64::try_from(number).unwrap(),
        kind: DeliveryKind::Final,
        batch: BatchId(number),
        priority: Priority::Normal,
        can_interrupt: CanInterrupt::Agent,
        ride: RidePosition::First,
        strict: false,
        audience: Audience::SameParty,
        max_wait_ms: 600_000,
        min_quiet_ms: None,
        ready_at: Some(Time(0)),
        ready_wall: wall(0),
        stale_after_ms: None,
        attempt: 0,
        ride_only: false,
        operations: vec![OperationId(number)],
    }
}

pub fn spoken_segments(effects: &[Effect]) -> Vec<(SegmentRef, String)> {
    let of = |effect: &Effect| match effect {
        Effect::Speak { segment, content, .. } => Some((*segment, content.text().to_owned())),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

/// The words that the voice is given.
pub fn spoken(effects: &[Effect]) -> Vec<String> {
    spoken_segments(effects).into_iter().map(|(_, text)| text).collect()
}

/// What the ledger is asked for.
pub fn asked(effects: &[Effect]) -> Vec<ledger::Input> {
    effects.iter().filter_map(|effect| if let Effect::Ledger(input) = effect { Some((**input).clone()) } else { None }).collect()
}

/// The claims that the ledger is asked for.
pub fn claims(effects: &[Effect]) -> Vec<(u128, Route)> {
    let of = |input| if let ledger::Input::Claim { delivery, route, .. } = input { Some((delivery.0, route)) } else { None };
    asked(effects).into_iter().filter_map(of).collect()
}

pub fn released(effects: &[Effect]) -> Vec<u128> {
    let of = |input| if let ledger::Input::Release { delivery, .. } = input { Some(delivery.0) } else { None };
    asked(effects).into_iter().filter_map(of).collect()
}

pub fn causes(effects: &[Effect]) -> Vec<Cause> {
    effects.iter().filter_map(|effect| if let Effect::Respond { cause, .. } = effect { Some(cause.clone()) } else { None }).collect()
}

pub fn clears(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Clear { .. })).count()
}

pub fn doubts(effects: &[Effect]) -> Vec<Doubt> {
    effects.iter().filter_map(|effect| if let Effect::Doubted { doubt, .. } = effect { Some(*doubt) } else { None }).collect()
}

pub fn heard(effects: &[Effect]) -> Vec<(String, Standing)> {
    let of = |effect: &Effect| if let Effect::Heard(heard) = effect { Some((heard.text.clone(), heard.standing)) } else { None };
    effects.iter().filter_map(of).collect()
}

pub fn measured(effects: &[Effect], name: MeasureName) -> Vec<u64> {
    let of = |effect: &Effect| match effect {
        Effect::Measured(measure) if measure.name == name => Some(measure.value),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

pub fn timers(timer: Timer, ms: u64) -> Timers {
    Timers::default().with(timer, ms)
}
