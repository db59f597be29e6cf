//! A box in virtual time: the real ledger and conversations, with a voice, a store, tools and a caller that the test
//! drives. What the caller heard is counted in a simulated ear, never in our own state.

#![allow(dead_code, reason = "each scenario file uses its own part of the rig")]

use std::collections::{BTreeMap, VecDeque};

use recado_core::conversation::{
    Acoustic, AcousticEdge, AcousticEpoch, Cause, Channel, Content, Conversation, Decision, Effect, Evidence, Generation, Input,
    ModelEvent, PlaybackEvent, Purpose, SegmentRef, Settings, ToolCall,
};
use recado_core::ids::{BootId, DeliveryId, OperationId, PartyId, PlaybackId, ResponseId, SessionId, TurnId};
use recado_core::ledger::{
    self, AttemptOutcome, CallbackAnswer, ClaimRecord, CommitId, DeliveryState, Dispatch, Ledger, OperationResult, RequestId, Route,
    Snapshot, Write,
};
use recado_core::policy::{Language, Localised, ToolPolicy};
use recado_core::time::{Step, Time, Wall};
use serde_json::json;

/// One frame: what a packet carries (ms).
pub const FRAME: u64 = 20;

/// The whole box.
pub struct Rig {
    pub now: u64,
    pub wall_synchronised: bool,
    seed: u128,
    pub policies: BTreeMap<String, ToolPolicy>,
    pub ledger: Ledger,
    boot: u128,
    pub store: Store,
    pub calls: Vec<Call>,
    pub dispatched: Vec<Dispatch>,
    pub answers: BTreeMap<RequestId, CallbackAnswer>,
    requests: u64,
    queue: VecDeque<Todo>,
}

enum Todo {
    Ledger(ledger::Input),
    Call(usize, Input),
}

/// A store that keeps what was committed and can be slow, or fail.
#[derive(Default)]
pub struct Store {
    pub operations: BTreeMap<OperationId, ledger::OperationRecord>,
    pub batches: BTreeMap<recado_core::BatchId, ledger::BatchRecord>,
    pub deliveries: BTreeMap<DeliveryId, ledger::DeliveryRecord>,
    pub claims: BTreeMap<DeliveryId, (SessionId, BootId, Route)>,
    pub commits: u64,
    pub delay_ms: u64,
    pub failing: bool,
    in_flight: VecDeque<(u64, CommitId, Vec<Write>)>,
}

/// One call: a conversation, its voice and its caller's ear.
pub struct Call {
    pub session: SessionId,
    pub conversation: Conversation,
    pub voice: Voice,
    pub epoch: u64,
    acoustic: Acoustic,
    pub edges: VecDeque<(u64, Acoustic, u64)>,
    pub asked: Vec<(ResponseId, Cause)>,
    pub cancelled: Vec<ResponseId>,
    pub truncated: Vec<(ResponseId, u64, String)>,
    pub outputs: Vec<Effect>,
    pub told: Vec<String>,
    pub history: Vec<String>,
    pub decisions: Vec<Decision>,
    pub hung_up: bool,
    pub over: bool,
}

/// What the voice and the media path do, in frames.
pub struct Voice {
    queue: VecDeque<Sounding>,
    purposes: BTreeMap<SegmentRef, (Purpose, String)>,
    paused: bool,
    packet: u64,
    pub rtcp: bool,
    pub lost: i64,
    pub render_ms: u64,
    next_report: u64,
    /// What the ear heard: each released frame's segment, with the time.
    pub ear: Vec<(u64, SegmentRef)>,
    /// Segments heard to their end.
    pub heard: Vec<(u64, Purpose, String)>,
}

struct Sounding {
    segment: SegmentRef,
    ready_at: u64,
    announced: bool,
    frames: u64,
    released: u64,
}

impl Rig {
    pub fn new(policies: BTreeMap<String, ToolPolicy>) -> Self {
        let mut step = Step::new(Time(0), Wall { unix_ms: 1_000_000, synchronised: true }, 1);
        let (ledger, effects) = Ledger::recover(&mut step, BootId(1), policies.clone(), Snapshot::default());
        let mut rig = Self {
            now: 0,
            wall_synchronised: true,
            seed: 1 << 64,
            policies,
            ledger,
            boot: 1,
            store: Store { delay_ms: 3, ..Store::default() },
            calls: Vec::new(),
            dispatched: Vec::new(),
            answers: BTreeMap::new(),
            requests: 0,
            queue: VecDeque::new(),
        };
        rig.ledger_effects(effects);
        rig
    }

    fn step(&mut self) -> Step {
        self.seed += 1 << 64;
        let wall = Wall { unix_ms: 1_000_000 + i64::try_from(self.now).unwrap_or(0), synchronised: self.wall_synchronised };
        Step::new(Time(self.now), wall, self.seed)
    }

    /// A caller dials in; `party` is who they are. The greeting is asked for.
    pub fn dial(&mut self, party: Option<&str>) -> usize {
        let mut step = self.step();
        let session = SessionId(step.ids.draw());
        let channel = Channel {
            session,
            party: party.map(|party| PartyId(party.into())),
            language: Language::Es,
            best: Evidence::Received,
            far_buffer_ms: 100,
        };
        let (conversation, effects) = Conversation::begin(&mut step, Settings::default(), channel);
        self.calls.push(Call {
            session,
            conversation,
            voice: Voice::new(self.now),
            epoch: 0,
            acoustic: Acoustic::Quiet,
            edges: VecDeque::new(),
            asked: Vec::new(),
            cancelled: Vec::new(),
            truncated: Vec::new(),
            outputs: Vec::new(),
            told: Vec::new(),
            history: Vec::new(),
            decisions: Vec::new(),
            hung_up: false,
            over: false,
        });
        let call = self.calls.len() - 1;
        self.call_effects(call, effects);
        self.drain();
        call
    }

    /// A call whose greeting is over and in which it is quiet.
    pub fn quiet_call(&mut self, party: Option<&str>) -> usize {
        let call = self.dial(party);
        self.reply(call, &["Hola"]);
        self.run(4_000);
        call
    }

    pub fn input(&mut self, call: usize, input: Input) {
        self.queue.push_back(Todo::Call(call, input));
        self.drain();
    }

    /// The model answers the response that was asked for last, and ends it.
    pub fn reply(&mut self, call: usize, says: &[&str]) {
        let response = self.last_response(call);
        for text in says {
            self.say(call, response, text);
        }
        self.complete(call, response);
    }

    pub fn last_response(&self, call: usize) -> ResponseId {
        self.calls[call].asked.last().expect("a response was asked for").0
    }

    pub fn say(&mut self, call: usize, response: ResponseId, text: &str) {
        let content = Content::Text { text: text.into(), language: Language::Es };
        self.input(call, Input::Model(ModelEvent::Clause { response, content }));
    }

    pub fn complete(&mut self, call: usize, response: ResponseId) {
        self.input(call, Input::Model(ModelEvent::Complete { response }));
    }

    /// The model asks for an operation.
    pub fn ask(&mut self, call: usize, tool: &str, arguments: serde_json::Value) {
        let response = self.last_response(call);
        let call_id = format!("call-{tool}");
        self.input(call, Input::Model(ModelEvent::ToolCall { response, call: ToolCall { call_id, tool: tool.into(), arguments } }));
    }

    /// The caller asks for something: a turn, and a response that asks for these tools.
    pub fn request(&mut self, call: usize, tools: &[&str]) -> Vec<OperationId> {
        let before: Vec<OperationId> = self.dispatched.iter().map(|dispatch| dispatch.operation).collect();
        self.caller_speaks(call, 600);
        self.run(1_600);
        for tool in tools {
            self.ask(call, tool, json!({ "of": tool }));
        }
        let response = self.last_response(call);
        self.complete(call, response);
        self.run(20);
        self.dispatched.iter().map(|dispatch| dispatch.operation).filter(|operation| !before.contains(operation)).collect()
    }

    /// The caller speaks for so long, from now on; then stays quiet.
    pub fn caller_speaks(&mut self, call: usize, ms: u64) {
        let now = self.now;
        let end = now + ms.max(200);
        let edges = [
            (now + 40, Acoustic::Suspected, now + 40),
            (now + 180, Acoustic::Speaking, now + 180),
            (end + 200, Acoustic::Trailing, end),
            (end + 700, Acoustic::Quiet, end),
        ];
        self.calls[call].edges.extend(edges);
    }

    /// A cough: suspected, never confirmed.
    pub fn cough(&mut self, call: usize) {
        let now = self.now;
        self.calls[call].edges.extend([(now + 40, Acoustic::Suspected, now + 40), (now + 340, Acoustic::Quiet, now + 340)]);
    }

    pub fn done(&mut self, operation: OperationId, result: serde_json::Value) {
        let attempt = self.attempt_of(operation);
        self.report(operation, attempt, AttemptOutcome::Succeeded(result));
    }

    pub fn attempt_of(&self, operation: OperationId) -> u32 {
        self.dispatched.iter().rev().find(|dispatch| dispatch.operation == operation).map_or(1, |dispatch| dispatch.attempt)
    }

    pub fn report(&mut self, operation: OperationId, attempt: u32, outcome: AttemptOutcome) {
        self.queue.push_back(Todo::Ledger(ledger::Input::Attempted { operation, attempt, outcome }));
        self.drain();
    }

    pub fn callback(&mut self, operation: OperationId, result: OperationResult) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.queue.push_back(Todo::Ledger(ledger::Input::Callback { request, operation, result }));
        self.drain();
        request
    }

    pub fn hang_up(&mut self, call: usize) {
        self.calls[call].over = true;
        self.calls[call].voice.queue.clear();
        self.input(call, Input::ChannelOver);
    }

    /// Kills the process: what was not committed is lost, and every call. Then starts it again.
    pub fn crash(&mut self, in_flight_kept: bool) {
        for (_, _, writes) in std::mem::take(&mut self.store.in_flight) {
            if in_flight_kept {
                self.store.apply(&writes).expect("a commit in flight is a right one");
            }
        }
        self.calls.clear();
        self.queue.clear();
        self.dispatched.clear();
        self.boot += 1;
        self.now += 2_000;
        let mut step = self.step();
        let snapshot = self.store.snapshot();
        let (ledger, effects) = Ledger::recover(&mut step, BootId(self.boot), self.policies.clone(), snapshot);
        self.ledger = ledger;
        self.ledger_effects(effects);
        self.drain();
    }

    /// Lets time pass, a millisecond at a time.
    pub fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += 1;
            self.tick();
            self.drain();
        }
    }

    /// Lets time pass until `condition` holds; panics after a minute of it.
    pub fn run_until(&mut self, what: &str, condition: impl Fn(&Rig) -> bool) {
        for _ in 0..60_000 {
            if condition(self) {
                return;
            }
            self.run(1);
        }
        panic!("never: {what}");
    }

    fn tick(&mut self) {
        while self.store.in_flight.front().is_some_and(|(at, ..)| *at <= self.now) {
            let Some((_, commit, writes)) = self.store.in_flight.pop_front() else { break };
            let answer = if self.store.failing {
                ledger::Input::CommitFailed { commit, reason: "disk full".into() }
            } else {
                self.store.apply(&writes).expect("the ledger breaks no constraint");
                self.store.commits += 1;
                ledger::Input::Durable(commit)
            };
            self.queue.push_back(Todo::Ledger(answer));
        }
        for at in 0..self.calls.len() {
            let now = self.now;
            let call = &mut self.calls[at];
            while call.edges.front().is_some_and(|(when, ..)| *when <= now) {
                let Some((_, to, dated)) = call.edges.pop_front() else { break };
                call.epoch += 1;
                call.acoustic = to;
                let edge = AcousticEdge { to, epoch: AcousticEpoch(call.epoch), at: Time(dated) };
                if to == Acoustic::Suspected {
                    if let Some(event) = call.voice.pause(now) {
                        self.queue.push_back(Todo::Call(at, Input::Playback(event)));
                    }
                }
                self.queue.push_back(Todo::Call(at, Input::Acoustic(edge)));
            }
            if !call.over {
                for event in call.voice.tick(now) {
                    self.queue.push_back(Todo::Call(at, Input::Playback(event)));
                }
            }
            if call.conversation.deadline().is_some_and(|at| at.0 <= now) {
                self.queue.push_back(Todo::Call(at, Input::Wake));
            }
        }
        if self.ledger.deadline().is_some_and(|at| at.0 <= self.now) {
            self.queue.push_back(Todo::Ledger(ledger::Input::Wake));
        }
    }

    fn drain(&mut self) {
        let mut budget = 10_000;
        while let Some(todo) = self.queue.pop_front() {
            budget -= 1;
            assert!(budget > 0, "inputs breed inputs for ever");
            let mut step = self.step();
            match todo {
                Todo::Ledger(input) => {
                    let effects = self.ledger.handle(&mut step, input);
                    self.ledger_effects(effects);
                }
                Todo::Call(call, input) => {
                    let effects = self.calls[call].conversation.handle(&mut step, input);
                    self.call_effects(call, effects);
                }
            }
        }
    }

    fn ledger_effects(&mut self, effects: Vec<ledger::Effect>) {
        for effect in effects {
            match effect {
                ledger::Effect::Persist { commit, writes } => {
                    self.store.in_flight.push_back((self.now + self.store.delay_ms, commit, writes));
                }
                ledger::Effect::Dispatch(dispatch) => {
                    let record = self.store.operations.get(&dispatch.operation).expect("R1: an operation is durable before it is sent");
                    assert!(record.attempt >= dispatch.attempt, "R2: an attempt is durable before it is sent");
                    self.dispatched.push(dispatch);
                }
                ledger::Effect::Answer { request, answer } => {
                    self.answers.insert(request, answer);
                }
                ledger::Effect::Tell { session, news } => {
                    if let Some(at) = self.calls.iter().position(|call| call.session == session) {
                        self.queue.push_back(Todo::Call(at, Input::News(news)));
                    }
                }
                ledger::Effect::Measured(_) => {}
            }
        }
    }

    fn call_effects(&mut self, at: usize, effects: Vec<Effect>) {
        for effect in effects {
            let now = self.now;
            let call = &mut self.calls[at];
            match effect {
                Effect::Speak { segment, content, purpose, epoch } => {
                    if let Purpose::Clause { delivery, .. } = purpose {
                        let record = self.store.deliveries.get(&delivery).expect("a delivery that is told is durable");
                        assert_eq!(record.state, DeliveryState::Speaking, "R4: the claim is durable before it is spoken");
                        assert!(self.store.claims.contains_key(&delivery));
                    }
                    let stale = epoch.0 != call.epoch;
                    if let Some(event) = call.voice.speak(segment, purpose, &content, stale, AcousticEpoch(call.epoch), now) {
                        self.queue.push_back(Todo::Call(at, Input::Playback(event)));
                    }
                }
                Effect::Resume { playback, epoch } => {
                    if epoch.0 == call.epoch {
                        if let Some(event) = call.voice.resume(playback, now) {
                            self.queue.push_back(Todo::Call(at, Input::Playback(event)));
                        }
                    }
                }
                Effect::Clear { playback } => {
                    let event = call.voice.clear(playback, now);
                    self.queue.push_back(Todo::Call(at, Input::Playback(event)));
                }
                Effect::Respond { response, cause } => call.asked.push((response, cause)),
                Effect::CancelResponse { response } => call.cancelled.push(response),
                Effect::Truncate { response, heard_ms, heard_text } => call.truncated.push((response, heard_ms, heard_text)),
                Effect::Told { text, .. } => call.told.push(text),
                Effect::Ledger(input) => self.queue.push_back(Todo::Ledger(*input)),
                Effect::HangUp => call.hung_up = true,
                Effect::Decided(decision) => call.decisions.push(decision),
                Effect::Heard(heard) => call.history.push(heard.text),
                other @ (Effect::ToolOutput { .. } | Effect::Measured(_)) => call.outputs.push(other),
            }
        }
    }

    /// How often the ear heard each delivery's clause to its end, over all calls.
    pub fn closings_heard(&self) -> Vec<String> {
        let all = self.calls.iter().flat_map(|call| &call.voice.heard);
        all.filter(|(_, purpose, _)| matches!(purpose, Purpose::Clause { clause: Some(_), .. })).map(|(_, _, text)| text.clone()).collect()
    }

    /// How many frames of closings have been released in a call.
    pub fn closing_frames(&self, call: usize) -> usize {
        let voice = &self.calls[call].voice;
        let clause = |segment: &SegmentRef| matches!(voice.purposes.get(segment), Some((Purpose::Clause { .. }, _)));
        voice.ear.iter().filter(|(_, segment)| clause(segment)).count()
    }

    pub fn deliveries(&self) -> Vec<DeliveryState> {
        self.store.deliveries.values().map(|delivery| delivery.state).collect()
    }

    pub fn turn(&self, call: usize) -> TurnId {
        self.calls[call].conversation.turn()
    }
}

impl Voice {
    fn new(now: u64) -> Self {
        Self {
            queue: VecDeque::new(),
            purposes: BTreeMap::new(),
            paused: false,
            packet: 1_000,
            rtcp: true,
            lost: 0,
            render_ms: 30,
            next_report: now + 5_000,
            ear: Vec::new(),
            heard: Vec::new(),
        }
    }

    fn speak(
        &mut self,
        segment: SegmentRef,
        purpose: Purpose,
        content: &Content,
        stale: bool,
        epoch: AcousticEpoch,
        now: u64,
    ) -> Option<PlaybackEvent> {
        if stale {
            return Some(PlaybackEvent::Refused { segment, epoch });
        }
        self.paused = false;
        self.purposes.insert(segment, (purpose, content.text().to_owned()));
        let frames = (content.text().chars().count() as u64 * 60).div_ceil(FRAME).max(5);
        self.queue.push_back(Sounding { segment, ready_at: now + self.render_ms, announced: false, frames, released: 0 });
        None
    }

    fn pause(&mut self, now: u64) -> Option<PlaybackEvent> {
        self.paused = true;
        let head = self.queue.front().filter(|head| head.released > 0)?;
        Some(PlaybackEvent::Paused { segment: head.segment, released_ms: head.released * FRAME, at: Time(now) })
    }

    fn resume(&mut self, playback: PlaybackId, now: u64) -> Option<PlaybackEvent> {
        self.paused = false;
        let head = self.queue.front().filter(|head| head.segment.playback == playback && head.released > 0)?;
        Some(PlaybackEvent::Resumed { segment: head.segment, at: Time(now) })
    }

    fn clear(&mut self, playback: PlaybackId, now: u64) -> PlaybackEvent {
        let cut = self.queue.front().filter(|head| head.segment.playback == playback && head.released > 0);
        let cut = cut.map(|head| (head.segment.index, head.released * FRAME));
        self.queue.retain(|sounding| sounding.segment.playback != playback);
        PlaybackEvent::Cleared { playback, cut, at: Time(now) }
    }

    fn tick(&mut self, now: u64) -> Vec<PlaybackEvent> {
        let mut events = Vec::new();
        for sounding in self.queue.iter_mut().filter(|sounding| !sounding.announced && sounding.ready_at <= now) {
            sounding.announced = true;
            let (segment, duration_ms) = (sounding.segment, sounding.frames * FRAME);
            events.push(PlaybackEvent::Ready { segment, duration_ms, words: Vec::new(), near_silent: false });
        }
        if now % FRAME == 0 {
            self.packet += 1;
            events.extend(self.frame(now));
        }
        if self.rtcp && now >= self.next_report {
            self.next_report = now + 5_000;
            let (generation, highest_packet) = (Generation(1), self.packet);
            events.push(PlaybackEvent::Report { generation, highest_packet, cumulative_lost: self.lost, at: Time(now) });
        }
        events
    }

    fn frame(&mut self, now: u64) -> Vec<PlaybackEvent> {
        let mut events = Vec::new();
        let (packet, generation, at) = (self.packet, Generation(1), Time(now));
        if self.paused {
            return events;
        }
        let Some(head) = self.queue.front_mut().filter(|head| head.announced) else { return events };
        let segment = head.segment;
        if head.released == 0 {
            events.push(PlaybackEvent::Started { segment, at, packet, generation });
        }
        head.released += 1;
        self.ear.push((now, segment));
        if head.released == head.frames {
            self.queue.pop_front();
            if let Some((purpose, text)) = self.purposes.get(&segment) {
                self.heard.push((now, *purpose, text.clone()));
            }
            events.push(PlaybackEvent::Sent { segment, at, packet, generation });
        }
        events
    }
}

impl Store {
    /// Applies a transaction, checking what the real store's constraints check.
    fn apply(&mut self, writes: &[Write]) -> Result<(), String> {
        for write in writes {
            match write {
                Write::CreateOperation(record) => {
                    if self.operations.values().any(|known| known.intent_key == record.intent_key) {
                        return Err(format!("intent key twice: {}", record.intent_key));
                    }
                    self.operations.insert(record.id, record.clone());
                }
                Write::UpdateOperation(record) => {
                    let known = self.operations.get(&record.id).ok_or("update of an unknown operation")?;
                    if known.attempt > record.attempt {
                        return Err("an attempt goes down".into());
                    }
                    self.operations.insert(record.id, record.clone());
                }
                Write::CreateBatch(record) | Write::UpdateBatch(record) => {
                    self.batches.insert(record.id, record.clone());
                }
                Write::CreateDelivery(record) => {
                    let finals = |known: &&ledger::DeliveryRecord| known.batch == record.batch && known.kind == ledger::DeliveryKind::Final;
                    if record.kind == ledger::DeliveryKind::Final && self.deliveries.values().any(|known| finals(&known)) {
                        return Err("two final deliveries of one batch".into());
                    }
                    self.deliveries.insert(record.id, record.clone());
                }
                Write::UpdateDelivery(record) => {
                    let known = self.deliveries.get(&record.id).ok_or("update of an unknown delivery")?;
                    if known.state.terminal() && known.state != record.state {
                        return Err(format!("{:?} leaves its terminal state for {:?}", known.state, record.state));
                    }
                    self.deliveries.insert(record.id, record.clone());
                }
                Write::Claim { delivery, session, boot, route } => {
                    if self.claims.insert(*delivery, (*session, *boot, *route)).is_some() {
                        return Err("two claims of one delivery".into());
                    }
                }
                Write::Unclaim { delivery } => {
                    self.claims.remove(delivery);
                }
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            operations: self.operations.values().cloned().collect(),
            batches: self.batches.values().cloned().collect(),
            deliveries: self.deliveries.values().cloned().collect(),
            claims: self
                .claims
                .iter()
                .map(|(delivery, (session, boot, route))| ClaimRecord {
                    delivery: *delivery,
                    session: *session,
                    boot: *boot,
                    route: *route,
                })
                .collect(),
            occurrence_floor: 0,
            next_sequence: self.deliveries.values().map(|delivery| delivery.sequence + 1).max().unwrap_or(1),
        }
    }
}

/// Tools whose closings are told apart by their words.
pub fn policies() -> BTreeMap<String, ToolPolicy> {
    let tool = |name: &str| {
        let mut policy = ToolPolicy { idempotent: true, ..ToolPolicy::default() };
        let es = |text: String| Localised { es: Some(text), en: None };
        policy.say.accepted = es("Lo miro, siga.".into());
        policy.say.done = es(format!("Hecho lo de {name}: {{{{ result.value }}}}."));
        policy.say.short = es(format!("Listo {name}."));
        policy.say.failed = es(format!("No ha podido ser lo de {name}."));
        policy.say.unknown = es(format!("No sé cómo quedó lo de {name}."));
        policy
    };
    ["mesa", "taxi", "pago"].into_iter().map(|name| (name.to_owned(), tool(name))).collect()
}
