//! A box in virtual time: the real ledger and conversations, with a voice, a store, tools and a caller that the test
//! drives. What the caller heard is counted in a simulated ear, never in our own state, and after every step the contract's
//! invariants are checked there ([`watch`]).

use std::collections::{BTreeMap, VecDeque};

use recado_core::conversation::{
    Acoustic, AcousticEdge, AcousticEpoch, Cause, Channel, Content, Conversation, Decision, Effect, Evidence, HeardText, Input, ModelEvent,
    PlaybackState, Purpose, SegmentRef, Settings, ToolCall,
};
use recado_core::ids::{BootId, OperationId, PartyId, ResponseId, SessionId, TurnId};
use recado_core::ledger::{self, AttemptOutcome, CallbackAnswer, DeliveryState, Dispatch, Ledger, OperationResult, RequestId, Snapshot};
use recado_core::policy::{Language, Localised, ToolPolicy};
use recado_core::time::{Step, Time, Wall};
use serde_json::json;

use crate::store::Store;
use crate::voice::{FRAME, Voice};
use crate::watch::{self, CallWatch, May, Watch};

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
    /// What the ledger measured.
    pub measured: Vec<ledger::LedgerMeasure>,
    /// How long an event takes from the media path to the conversation, and a command back (ms).
    pub link_ms: u64,
    pub watch: Watch,
    /// What new calls are held with.
    pub settings: Settings,
    requests: u64,
    requested: BTreeMap<RequestId, OperationId>,
    queue: VecDeque<Todo>,
}

enum Todo {
    Ledger(ledger::Input),
    Call(usize, Input),
}

/// One call: a conversation, its voice and its caller's ear.
pub struct Call {
    pub session: SessionId,
    pub conversation: Conversation,
    pub voice: Voice,
    pub party: Option<PartyId>,
    pub edges: VecDeque<(u64, Acoustic, u64)>,
    pub(crate) to_conversation: VecDeque<(u64, Input)>,
    pub(crate) to_voice: VecDeque<(u64, Effect)>,
    pub asked: Vec<(ResponseId, Cause)>,
    pub cancelled: Vec<ResponseId>,
    pub truncated: Vec<(ResponseId, u64, String)>,
    pub outputs: Vec<Effect>,
    pub told: Vec<String>,
    pub history: Vec<HeardText>,
    pub decisions: Vec<Decision>,
    pub hung_up: bool,
    pub on_hold: bool,
    pub floor_held: bool,
    pub over: bool,
    pub watch: CallWatch,
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
            measured: Vec::new(),
            link_ms: 0,
            watch: Watch::default(),
            settings: Settings::default(),
            requests: 0,
            requested: BTreeMap::new(),
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
            far_buffer_ms: watch::FAR_BUFFER,
        };
        let (conversation, effects) = Conversation::begin(&mut step, self.settings.clone(), channel);
        self.calls.push(Call {
            session,
            conversation,
            voice: Voice::new(self.now),
            party: party.map(|party| PartyId(party.into())),
            edges: VecDeque::new(),
            to_conversation: VecDeque::new(),
            to_voice: VecDeque::new(),
            asked: Vec::new(),
            cancelled: Vec::new(),
            truncated: Vec::new(),
            outputs: Vec::new(),
            told: Vec::new(),
            history: Vec::new(),
            decisions: Vec::new(),
            hung_up: false,
            on_hold: false,
            floor_held: false,
            over: false,
            watch: CallWatch::new(self.now),
        });
        let call = self.calls.len() - 1;
        let begun = &mut self.calls[call];
        begun.watch.effects(&May::Anything, &effects, &begun.voice, false);
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
        let now = self.calls[call].silent_from(self.now);
        let end = now + ms.max(200);
        let edges = [
            (now + 40, Acoustic::Suspected, now + 40),
            (now + 180, Acoustic::Speaking, now + 180),
            (end + 200, Acoustic::Trailing, end),
            (end + 700, Acoustic::Quiet, end),
        ];
        self.calls[call].edges.extend(edges);
    }

    /// The caller speaks, pauses, and goes on.
    pub fn caller_speaks_on(&mut self, call: usize) {
        let now = self.calls[call].silent_from(self.now);
        let edges = [(40, Acoustic::Suspected), (180, Acoustic::Speaking), (700, Acoustic::Trailing), (900, Acoustic::Speaking)];
        self.calls[call].edges.extend(edges.map(|(after, to)| (now + after, to, now + after)));
        self.calls[call].edges.extend([(now + 1_600, Acoustic::Trailing, now + 1_400), (now + 2_100, Acoustic::Quiet, now + 1_400)]);
    }

    /// A cough: suspected, never confirmed.
    pub fn cough(&mut self, call: usize) {
        let now = self.calls[call].silent_from(self.now);
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
        self.requested.insert(request, operation);
        self.queue.push_back(Todo::Ledger(ledger::Input::Callback { request, operation, result }));
        self.drain();
        request
    }

    pub fn hang_up(&mut self, call: usize) {
        let over = &mut self.calls[call];
        over.over = true;
        self.watch.call_over(over, self.now);
        self.calls[call].voice.close();
        self.input(call, Input::ChannelOver);
    }

    /// Kills the process: what was not committed is lost, and every call. Then starts it again.
    pub fn crash(&mut self, in_flight_kept: bool) {
        self.crash_keeping(if in_flight_kept { usize::MAX } else { 0 });
    }

    /// The same, with the first `kept` of the commits in flight having reached the disk.
    pub fn crash_keeping(&mut self, kept: usize) {
        for (_, _, writes) in std::mem::take(&mut self.store.in_flight).into_iter().take(kept) {
            self.store.apply(&writes).expect("a commit in flight is a right one");
            self.watch.committed(&self.store, &writes, self.now);
        }
        for call in self.calls.drain(..).filter(|call| !call.over) {
            self.watch.call_over(&call, self.now);
        }
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

    /// Lets time pass, from one thing that happens to the next.
    pub fn run(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            self.now = self.next_event().unwrap_or(end).clamp(self.now + 1, end);
            self.tick();
            self.drain();
            self.look();
        }
    }

    /// Lets time pass until `condition` holds; panics after a minute of it.
    pub fn run_until(&mut self, what: &str, condition: impl Fn(&Rig) -> bool) {
        let end = self.now + 60_000;
        while !condition(self) {
            assert!(self.now < end, "never: {what}");
            let next = self.next_event().map_or(end, |at| at.min(end));
            self.run(next.saturating_sub(self.now).max(1));
        }
    }

    fn next_event(&self) -> Option<u64> {
        let calls = self.calls.iter().flat_map(|call| {
            let edge = call.edges.front().map(|(at, ..)| *at);
            let event = call.to_conversation.front().map(|(at, _)| *at);
            let command = call.to_voice.front().map(|(at, _)| *at);
            [edge, event, command, call.conversation.deadline().map(|at| at.0), call.voice.next(self.now)]
        });
        let commit = self.store.in_flight.front().map(|(at, ..)| *at);
        calls.chain([commit, self.ledger.deadline().map(|at| at.0)]).flatten().min()
    }

    fn tick(&mut self) {
        while self.store.in_flight.front().is_some_and(|(at, ..)| *at <= self.now) {
            let Some((_, commit, writes)) = self.store.in_flight.pop_front() else { break };
            let answer = if self.store.failing {
                ledger::Input::CommitFailed { commit, reason: "disk full".into() }
            } else {
                self.store.apply(&writes).expect("the ledger breaks no constraint");
                self.store.commits += 1;
                self.watch.committed(&self.store, &writes, self.now);
                ledger::Input::Durable(commit)
            };
            self.queue.push_back(Todo::Ledger(answer));
        }
        for at in 0..self.calls.len() {
            self.media(at);
            if self.calls[at].conversation.deadline().is_some_and(|at| at.0 <= self.now) {
                self.queue.push_back(Todo::Call(at, Input::Wake));
            }
        }
        if self.ledger.deadline().is_some_and(|at| at.0 <= self.now) {
            self.queue.push_back(Todo::Ledger(ledger::Input::Wake));
        }
    }

    /// The media path of one call: the caller's edges, the commands that have arrived, the frame that is due.
    fn media(&mut self, at: usize) {
        let (now, arrives) = (self.now, self.now + self.link_ms);
        let call = &mut self.calls[at];
        while call.edges.front().is_some_and(|(when, ..)| *when <= now) {
            let Some((_, to, dated)) = call.edges.pop_front() else { break };
            let paused = call.voice.edge(to, now);
            let edge = AcousticEdge { to, epoch: AcousticEpoch(call.voice.epoch), at: Time(dated) };
            // The media path tells the edge before what came of it.
            call.to_conversation.push_back((arrives, Input::Acoustic(edge)));
            call.to_conversation.extend(paused.map(|event| (arrives, Input::Playback(event))));
        }
        self.obey(at);
        let call = &mut self.calls[at];
        let (events, released) = call.voice.tick(now);
        call.to_conversation.extend(events.into_iter().map(|event| (arrives, Input::Playback(event))));
        if let Some(released) = released {
            self.watch.released(&self.store, call, &released, now, self.link_ms);
        }
        self.arrive(at);
    }

    /// The voice carries out what has reached it.
    fn obey(&mut self, at: usize) {
        let (now, arrives) = (self.now, self.now + self.link_ms);
        let call = &mut self.calls[at];
        while call.to_voice.front().is_some_and(|(when, _)| *when <= now) {
            let Some((_, effect)) = call.to_voice.pop_front() else { break };
            let event = match effect {
                Effect::Speak { segment, content, purpose, epoch } => {
                    call.voice.speak(segment, purpose, &content, epoch, now);
                    None
                }
                Effect::Resume { playback, epoch } => call.voice.resume(playback, epoch, now),
                Effect::Clear { playback } => Some(call.voice.clear(playback, now)),
                _ => None,
            };
            call.to_conversation.extend(event.map(|event| (arrives, Input::Playback(event))));
        }
        self.arrive(at);
    }

    fn arrive(&mut self, at: usize) {
        while self.calls[at].to_conversation.front().is_some_and(|(when, _)| *when <= self.now) {
            let Some((_, input)) = self.calls[at].to_conversation.pop_front() else { break };
            self.queue.push_back(Todo::Call(at, input));
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
                    self.watch.trace(&effects);
                    self.ledger_effects(effects);
                }
                Todo::Call(call, input) => self.handle(call, input, step),
            }
        }
    }

    fn handle(&mut self, at: usize, input: Input, mut step: Step) {
        let now = self.now;
        let call = &mut self.calls[at];
        let due = call.conversation.deadline().is_some_and(|at| at.0 <= now);
        let may = match call.watch.input(&input, now) {
            // A timer ends at the same time.
            May::OnlyWait | May::Anything if due => May::Wake,
            may => may,
        };
        let woken = input == Input::Wake;
        let showed = call.conversation.clocks().playback;
        let effects = call.conversation.handle(&mut step, input);
        call.watch.shows(showed, call.conversation.clocks().playback);
        call.watch.effects(&may, &effects, &call.voice, call.over);
        self.watch.trace(&effects);
        self.call_effects(at, effects);
        if woken && self.queue.is_empty() {
            let mut step = self.step();
            let call = &mut self.calls[at];
            let again = call.conversation.handle(&mut step, Input::Wake);
            assert!(again.is_empty(), "a second wake at the same time has effects: {again:?}");
            let deadline = call.conversation.deadline();
            assert!(deadline.is_none_or(|at| at.0 > now), "busy loop: at {now} the deadline is {deadline:?}: {:?}", call.conversation);
        }
    }

    fn ledger_effects(&mut self, effects: Vec<ledger::Effect>) {
        for effect in effects {
            match effect {
                ledger::Effect::Persist { commit, writes } => {
                    let at = (self.now + self.store.delay_ms).max(self.store.in_flight.back().map_or(0, |(at, ..)| *at));
                    self.store.in_flight.push_back((at, commit, writes));
                }
                ledger::Effect::Dispatch(dispatch) => {
                    let record = self.store.operations.get(&dispatch.operation).expect("R1: an operation is durable before it is sent");
                    assert!(record.attempt >= dispatch.attempt, "R2: an attempt is durable before it is sent");
                    self.dispatched.push(dispatch);
                }
                ledger::Effect::Answer { request, answer } => {
                    if answer == CallbackAnswer::Recorded {
                        let record = &self.store.operations[&self.requested[&request]];
                        assert!(record.result.is_some() || record.error.is_some(), "R3: a result is durable before it is confirmed");
                    }
                    self.answers.insert(request, answer);
                }
                ledger::Effect::Tell { session, news } => {
                    if let Some(at) = self.calls.iter().position(|call| call.session == session) {
                        self.queue.push_back(Todo::Call(at, Input::News(news)));
                    }
                }
                ledger::Effect::Measured(measure) => self.measured.push(measure),
            }
        }
    }

    fn call_effects(&mut self, at: usize, effects: Vec<Effect>) {
        for effect in effects {
            let (now, link_ms) = (self.now, self.link_ms);
            let call = &mut self.calls[at];
            match effect {
                Effect::Speak { purpose: Purpose::Clause { delivery, .. }, .. } => {
                    watch::claimed_before_spoken(&self.store, call, delivery, BootId(self.boot));
                    call.to_voice.push_back((now + link_ms, effect));
                }
                Effect::Speak { purpose: Purpose::Acceptance { batch }, .. } => {
                    assert!(self.store.batches.contains_key(&batch), "R1: an operation is durable before its acceptance is spoken");
                    call.to_voice.push_back((now + link_ms, effect));
                }
                Effect::Speak { .. } | Effect::Resume { .. } | Effect::Clear { .. } => call.to_voice.push_back((now + link_ms, effect)),
                Effect::Respond { response, cause } => call.asked.push((response, cause)),
                Effect::CancelResponse { response } => call.cancelled.push(response),
                Effect::Truncate { response, heard_ms, heard_text } => call.truncated.push((response, heard_ms, heard_text)),
                Effect::Told { text, .. } => call.told.push(text),
                Effect::Ledger(input) => self.queue.push_back(Todo::Ledger(*input)),
                Effect::HangUp => {
                    call.hung_up = true;
                    self.watch.hung_up(&self.store, call, now);
                }
                Effect::Decided(decision) => call.decisions.push(decision),
                Effect::Heard(heard) => {
                    watch::heard_no_more_than_the_ear(call, &heard);
                    call.history.push(heard);
                }
                other @ (Effect::ToolOutput { .. } | Effect::Measured(_)) => call.outputs.push(other),
            }
        }
        // With no way between them, the voice obeys at once.
        if self.link_ms == 0 {
            self.obey(at);
        }
    }

    /// What must hold whenever everything that happened has been taken in.
    fn look(&mut self) {
        let now = self.now;
        let wall = 1_000_000 + i64::try_from(now).unwrap_or(0);
        let stale = |record: &ledger::DeliveryRecord| {
            record.stale_after_ms.is_some_and(|limit| wall - record.ready.unix_ms >= i64::try_from(limit).unwrap_or(i64::MAX))
        };
        for call in self.calls.iter().filter(|call| !call.over) {
            let plays = call.conversation.clocks().playback == Some(PlaybackState::Playing);
            assert!(!plays || call.voice.sounds(now, 1_000 + FRAME + 2 * self.link_ms), "I20: at {now} it plays without frames");
        }
        self.watch.idle(&self.store, &mut self.calls, now, stale);
    }

    /// Puts the call on hold, or takes it back.
    pub fn hold(&mut self, call: usize, on: bool) {
        let (now, arrives) = (self.now, self.now + self.link_ms);
        let held = &mut self.calls[call];
        held.on_hold = on;
        let event = held.voice.hold(on, now).map(|event| (arrives, Input::Playback(event)));
        held.to_conversation.extend(event);
        self.input(call, Input::Hold(on));
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

impl Call {
    /// When the caller has said what they are about to say.
    fn silent_from(&self, now: u64) -> u64 {
        self.edges.back().map_or(now, |(at, ..)| now.max(at + FRAME))
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
