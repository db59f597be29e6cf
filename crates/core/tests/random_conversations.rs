//! Random interleavings of everything that the outside can do to one or two calls of two parties, with the contract's
//! invariants checked after every step; then the faults stop, and everything must come to its end (I13).
//!
//! `PROPTEST_CASES=100000 cargo test -p recado-core --test random_conversations` looks longer.

mod rig;

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use proptest::prelude::*;
use recado_core::conversation::{Cause, Content, Input, ModelEvent, ToolCall};
use recado_core::ids::{OperationId, ResponseId};
use recado_core::ledger::{AttemptOutcome, DeliveryState, Executed, OperationResult};
use recado_core::policy::{CanInterrupt, Language, Priority, RidePosition, ToolPolicy, UncertainPolicy};
use rig::{Rig, policies};
use serde_json::json;

/// What the outside does. Calls, tools and attempts are picked from those that there are.
#[derive(Debug, Clone)]
enum Action {
    Pass(u64),
    Speak {
        call: u8,
        ms: u64,
    },
    /// With a pause in the middle.
    SpeakOn {
        call: u8,
    },
    Cough {
        call: u8,
    },
    Digit {
        call: u8,
    },
    Hold {
        call: u8,
        on: bool,
    },
    Floor {
        call: u8,
        on: bool,
    },
    HangUp {
        call: u8,
    },
    Dial {
        party: u8,
    },
    Renegotiate {
        call: u8,
    },
    /// A whole answer of the model, as most are.
    Answer {
        call: u8,
        clauses: u8,
        tools: Vec<u8>,
    },
    Clause {
        call: u8,
        of: u8,
        long: bool,
    },
    Ask {
        call: u8,
        of: u8,
        tool: u8,
        argument: u8,
        same_id: bool,
    },
    Complete {
        call: u8,
        of: u8,
    },
    Fail {
        call: u8,
        of: u8,
    },
    Goodbye {
        call: u8,
    },
    Cancel {
        call: u8,
        tool: Option<u8>,
    },
    Noise {
        call: u8,
    },
    Report {
        which: u8,
        how: u8,
    },
    Callback {
        which: u8,
        how: u8,
    },
    Render {
        call: u8,
        ms: u64,
    },
    Mute {
        call: u8,
        segments: u32,
    },
    Stall {
        call: u8,
        ms: u64,
    },
    Rtcp {
        call: u8,
        on: bool,
    },
    Lose {
        call: u8,
        frames: u64,
    },
    ReportLate {
        call: u8,
        ms: u64,
    },
    StoreDelay(u64),
    StoreFails(bool),
    Crash {
        kept: usize,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let call = || 0..2_u8;
    let of = || prop_oneof![6 => Just(0_u8), 1 => Just(1)];
    prop_oneof![
        12 => (1..400_u64).prop_map(Action::Pass),
        12 => (400..6_000_u64).prop_map(Action::Pass),
        8 => (call(), 200..3_000_u64).prop_map(|(call, ms)| Action::Speak { call, ms }),
        2 => call().prop_map(|call| Action::SpeakOn { call }),
        4 => call().prop_map(|call| Action::Cough { call }),
        1 => call().prop_map(|call| Action::Digit { call }),
        1 => (call(), any::<bool>()).prop_map(|(call, on)| Action::Hold { call, on }),
        1 => (call(), any::<bool>()).prop_map(|(call, on)| Action::Floor { call, on }),
        1 => call().prop_map(|call| Action::HangUp { call }),
        2 => (0..3_u8).prop_map(|party| Action::Dial { party }),
        1 => call().prop_map(|call| Action::Renegotiate { call }),
        16 => (call(), 0..4_u8, prop::collection::vec(0..8_u8, 0..3))
            .prop_map(|(call, clauses, tools)| Action::Answer { call, clauses, tools }),
        4 => (call(), of(), any::<bool>()).prop_map(|(call, of, long)| Action::Clause { call, of, long }),
        4 => (call(), of(), 0..8_u8, 0..3_u8, any::<bool>())
            .prop_map(|(call, of, tool, argument, same_id)| Action::Ask { call, of, tool, argument, same_id }),
        4 => (call(), of()).prop_map(|(call, of)| Action::Complete { call, of }),
        2 => (call(), of()).prop_map(|(call, of)| Action::Fail { call, of }),
        1 => call().prop_map(|call| Action::Goodbye { call }),
        1 => (call(), prop::option::of(0..8_u8)).prop_map(|(call, tool)| Action::Cancel { call, tool }),
        1 => call().prop_map(|call| Action::Noise { call }),
        14 => (any::<u8>(), 0..7_u8).prop_map(|(which, how)| Action::Report { which, how }),
        3 => (any::<u8>(), 0..3_u8).prop_map(|(which, how)| Action::Callback { which, how }),
        1 => (call(), prop_oneof![Just(0_u64), Just(30), Just(400), Just(3_000), Just(9_000)])
            .prop_map(|(call, ms)| Action::Render { call, ms }),
        1 => (call(), 1..3_u32).prop_map(|(call, segments)| Action::Mute { call, segments }),
        1 => (call(), 100..8_000_u64).prop_map(|(call, ms)| Action::Stall { call, ms }),
        1 => (call(), any::<bool>()).prop_map(|(call, on)| Action::Rtcp { call, on }),
        1 => (call(), 1..200_u64).prop_map(|(call, frames)| Action::Lose { call, frames }),
        1 => (call(), 100..20_000_u64).prop_map(|(call, ms)| Action::ReportLate { call, ms }),
        1 => prop_oneof![Just(0_u64), Just(3), Just(300), Just(4_000), Just(7_000)].prop_map(Action::StoreDelay),
        1 => any::<bool>().prop_map(Action::StoreFails),
        1 => prop_oneof![Just(0_usize), Just(1), Just(usize::MAX)].prop_map(|kept| Action::Crash { kept }),
    ]
}

const TOOLS: [&str; 8] = ["mesa", "taxi", "pago", "alarma", "plazo", "acta", "cita", "pedido"];

/// Tools of every manner.
fn tools() -> std::collections::BTreeMap<String, ToolPolicy> {
    let mut all = policies();
    let plain = all["mesa"].clone();
    let mut tool = |name: &str, change: fn(&mut ToolPolicy)| {
        let mut policy = plain.clone();
        change(&mut policy);
        all.insert(name.to_owned(), policy);
    };
    tool("taxi", |policy| policy.ride = RidePosition::Last);
    tool("pago", |policy| policy.priority = Priority::Urgent);
    tool("alarma", |policy| (policy.priority, policy.can_interrupt) = (Priority::Urgent, CanInterrupt::Caller));
    tool("plazo", |policy| policy.stale_after_ms = Some(15_000));
    tool("acta", |policy| policy.strict = true);
    tool("cita", |policy| (policy.uncertain, policy.topic) = (UncertainPolicy::Suppress, Some("cita".into())));
    tool("pedido", |policy| (policy.idempotent, policy.uncertain) = (false, UncertainPolicy::Repeat));
    all
}

struct World {
    rig: Rig,
    /// The calls that actions are about: the latest two.
    current: Vec<usize>,
    /// Attempts that nobody has reported on.
    out: Vec<(OperationId, u32)>,
    known: Vec<OperationId>,
    seen: usize,
    calls: u32,
}

impl World {
    fn new(link_ms: u64) -> Self {
        let mut rig = Rig::new(tools());
        rig.link_ms = link_ms;
        // Where events take their time, silence is broken too.
        rig.settings.silence_ms = (link_ms > 0).then_some(9_000);
        let mut world = Self { rig, current: Vec::new(), out: Vec::new(), known: Vec::new(), seen: 0, calls: 0 };
        world.dial("ana");
        world
    }

    fn dial(&mut self, party: &str) {
        let up: Vec<usize> = (0..self.rig.calls.len()).filter(|at| !self.rig.calls[*at].over).collect();
        if up.len() < 2 {
            let call = self.rig.dial((party != "nobody").then_some(party));
            self.current = up.into_iter().chain([call]).collect();
        }
    }

    fn call(&self, which: u8) -> Option<usize> {
        let up: Vec<usize> = self.current.iter().copied().filter(|at| !self.rig.calls[*at].over).collect();
        up.get(usize::from(which) % up.len().max(1)).copied()
    }

    /// The response that was asked for last, or `of` before it.
    fn response(&self, call: usize, of: u8) -> Option<ResponseId> {
        self.rig.calls[call].asked.iter().rev().nth(usize::from(of)).map(|asked| asked.0)
    }

    fn act(&mut self, action: Action) {
        self.collect();
        match action {
            Action::Pass(ms) => self.rig.run(ms),
            Action::Dial { party } => self.dial(["ana", "bea", "nobody"][usize::from(party)]),
            Action::Report { which, how } => self.report(which, how),
            Action::Callback { which, how } => self.callback(which, how),
            Action::StoreDelay(ms) => self.rig.store.delay_ms = ms,
            Action::StoreFails(fails) => self.rig.store.failing = fails,
            Action::Crash { kept } => {
                self.rig.crash_keeping(kept);
                // What was out has left the box: nobody will report on it.
                (self.seen, self.current) = (0, Vec::new());
                self.out.clear();
            }
            Action::Speak { call, .. }
            | Action::SpeakOn { call }
            | Action::Cough { call }
            | Action::Digit { call }
            | Action::Hold { call, .. }
            | Action::Floor { call, .. }
            | Action::HangUp { call }
            | Action::Renegotiate { call }
            | Action::Render { call, .. }
            | Action::Mute { call, .. }
            | Action::Stall { call, .. }
            | Action::Rtcp { call, .. }
            | Action::Lose { call, .. }
            | Action::ReportLate { call, .. } => {
                if let Some(call) = self.call(call) {
                    self.caller(call, action);
                }
            }
            Action::Answer { call, .. }
            | Action::Clause { call, .. }
            | Action::Ask { call, .. }
            | Action::Complete { call, .. }
            | Action::Fail { call, .. }
            | Action::Goodbye { call }
            | Action::Cancel { call, .. }
            | Action::Noise { call } => {
                if let Some(call) = self.call(call) {
                    self.model(call, action);
                }
            }
        }
        self.rig.run(1);
    }

    /// The caller and the line.
    fn caller(&mut self, call: usize, action: Action) {
        let now = self.rig.now;
        let voice = &mut self.rig.calls[call].voice;
        match action {
            Action::Speak { ms, .. } => self.rig.caller_speaks(call, ms),
            Action::SpeakOn { .. } => self.rig.caller_speaks_on(call),
            Action::Cough { .. } => self.rig.cough(call),
            Action::Digit { .. } => self.rig.input(call, Input::Digit('5')),
            Action::Hold { on, .. } => self.rig.hold(call, on),
            Action::Floor { on, .. } => {
                self.rig.calls[call].floor_held = on;
                self.rig.input(call, Input::FloorHeld(on));
            }
            Action::HangUp { .. } => self.rig.hang_up(call),
            Action::Renegotiate { .. } => voice.renegotiated(now),
            Action::Render { ms, .. } => voice.render_ms = ms,
            Action::Mute { segments, .. } => voice.failing = segments,
            Action::Stall { ms, .. } => voice.stalled_until = now + ms,
            Action::Rtcp { on, .. } => voice.rtcp = on,
            Action::Lose { frames, .. } => voice.losing = frames,
            Action::ReportLate { ms, .. } => voice.next_report += ms,
            _ => {}
        }
    }

    fn model(&mut self, call: usize, action: Action) {
        match action {
            Action::Answer { clauses, tools, .. } => {
                let Some(response) = self.response(call, 0) else { return };
                for clause in 0..clauses {
                    self.rig.say(
                        call,
                        response,
                        ["Muy bien", "Le cuento una cosa que es bastante larga", "Dígame"][usize::from(clause % 3)],
                    );
                }
                for tool in tools {
                    self.ask(call, 0, tool, 0, false);
                }
                self.rig.complete(call, response);
            }
            Action::Clause { of, long, .. } => {
                let text = if long { "Esto es un poco más largo de lo que nadie quiere oír" } else { "Ajá" };
                if let Some(response) = self.response(call, of) {
                    self.rig.say(call, response, text);
                }
            }
            Action::Ask { of, tool, argument, same_id, .. } => self.ask(call, of, tool, argument, same_id),
            Action::Complete { of, .. } => {
                if let Some(response) = self.response(call, of) {
                    self.rig.complete(call, response);
                }
            }
            Action::Fail { of, .. } => {
                if let Some(response) = self.response(call, of) {
                    self.rig.input(call, Input::Model(ModelEvent::Failed { response, reason: "gone".into() }));
                }
            }
            Action::Goodbye { .. } => {
                if let Some(response) = self.response(call, 0) {
                    self.rig.input(call, Input::Model(ModelEvent::HangUp { response }));
                }
            }
            Action::Cancel { tool, .. } => {
                let tool = tool.map(|tool| TOOLS[usize::from(tool)].to_owned());
                self.rig.input(call, Input::Model(ModelEvent::CancelIntent { tool }));
            }
            Action::Noise { .. } => {
                let turn = self.rig.turn(call);
                self.rig.input(call, Input::Model(ModelEvent::TurnWasNoise { turn }));
            }
            _ => {}
        }
    }

    fn ask(&mut self, call: usize, of: u8, tool: u8, argument: u8, same_id: bool) {
        let Some(response) = self.response(call, of) else { return };
        self.calls += 1;
        let call_id = if same_id { "again".to_owned() } else { format!("call-{}", self.calls) };
        let tool = TOOLS[usize::from(tool)].to_owned();
        let asked = ToolCall { call_id, tool, arguments: json!({ "of": argument }) };
        self.rig.input(call, Input::Model(ModelEvent::ToolCall { response, call: asked }));
    }

    /// Attempts that have left the box meanwhile.
    fn collect(&mut self) {
        for dispatch in self.rig.dispatched.iter().skip(self.seen) {
            self.out.push((dispatch.operation, dispatch.attempt));
            self.known.push(dispatch.operation);
        }
        self.seen = self.rig.dispatched.len();
    }

    fn report(&mut self, which: u8, how: u8) {
        if self.out.is_empty() {
            return;
        }
        let (operation, attempt) = self.out[usize::from(which) % self.out.len()];
        let failed = |executed| AttemptOutcome::Failed { error: "no".into(), executed, retryable: true, retry_after_ms: None };
        let outcome = match how {
            0..=2 => AttemptOutcome::Succeeded(json!({ "value": "a las nueve" })),
            3 => AttemptOutcome::Deferred,
            4 => failed(Executed::No),
            5 => failed(Executed::Maybe),
            _ => AttemptOutcome::Failed { error: "no".into(), executed: Executed::No, retryable: false, retry_after_ms: None },
        };
        // Now and then an executor reports twice.
        if !which.is_multiple_of(5) {
            self.out.retain(|out| *out != (operation, attempt));
        }
        self.rig.report(operation, attempt, outcome);
    }

    fn callback(&mut self, which: u8, how: u8) {
        let Some(&operation) = self.known.get(usize::from(which) % self.known.len().max(1)) else { return };
        let result = match how {
            0 | 1 => OperationResult::Succeeded(json!({ "value": "a las nueve" })),
            _ => OperationResult::Failed("no".into()),
        };
        self.rig.callback(operation, result);
    }

    /// The faults stop, the callers are quiet, the model answers, the tools too: everything comes to its end.
    fn finish(&mut self) {
        self.rig.store.failing = false;
        self.rig.store.delay_ms = 3;
        for at in 0..self.rig.calls.len() {
            let (call, now) = (&mut self.rig.calls[at], self.rig.now);
            (call.voice.render_ms, call.voice.failing, call.voice.losing) = (30, 0, 0);
            call.voice.stalled_until = call.voice.stalled_until.min(now);
            call.voice.rtcp = true;
            call.voice.next_report = call.voice.next_report.min(self.rig.now + 5_000);
            if !call.over && call.on_hold {
                self.rig.hold(at, false);
            }
            if !self.rig.calls[at].over && self.rig.calls[at].floor_held {
                self.rig.calls[at].floor_held = false;
                self.rig.input(at, Input::FloorHeld(false));
            }
        }
        for second in 0..600 {
            self.live_a_second(second);
            if second > 10 && self.open().is_empty() && self.out.is_empty() && self.rig.store.in_flight() == 0 {
                break;
            }
        }
        let open = self.open();
        assert!(open.is_empty(), "I13: never told: {open:?}");
        for record in self.rig.store.deliveries.values().filter(|record| record.state.terminal()) {
            let doubt = record.attempt > 0 && record.uncertain == UncertainPolicy::Suppress;
            let explained = match record.state {
                DeliveryState::Spoken => true,
                DeliveryState::Superseded => record.superseded_by.is_some() || record.uncertain == UncertainPolicy::Suppress,
                DeliveryState::Suppressed => record.stale_after_ms.is_some() || doubt,
                _ => false,
            };
            assert!(explained, "I2: nothing explains the end of {record:?}");
        }
        let now = self.rig.now;
        for call in self.rig.calls.iter().filter(|call| !call.over && !call.hung_up) {
            assert!(call.watch.owed_since.is_none_or(|at| now < at + 10_000), "I18: a turn whose response failed is answered");
        }
    }

    fn live_a_second(&mut self, second: u64) {
        self.collect();
        while let Some((operation, attempt)) = self.out.pop() {
            self.rig.report(operation, attempt, AttemptOutcome::Succeeded(json!({ "value": "a las diez" })));
        }
        for party in ["ana", "bea"] {
            let hears = |call: &rig::Call| !call.over && call.party.as_ref().is_some_and(|known| known.0 == party);
            if !self.rig.calls.iter().any(hears) && self.rig.calls.iter().all(|call| call.over || call.party.is_some()) {
                let call = self.rig.dial(Some(party));
                self.current.push(call);
            }
        }
        for call in 0..self.rig.calls.len() {
            if self.rig.calls[call].over {
                continue;
            }
            if self.rig.calls[call].hung_up || (self.rig.calls[call].party.is_none() && second == 60) {
                self.rig.hang_up(call);
                continue;
            }
            // What only rides waits for a turn.
            if second % 30 == 29 {
                self.rig.caller_speaks(call, 400);
            }
            if let (Some(_), Some(response)) = (self.rig.calls[call].watch.open, self.response(call, 0)) {
                let greeting = self.rig.calls[call].asked.last().is_some_and(|(_, cause)| *cause == Cause::Greeting);
                let content = Content::Text { text: if greeting { "Hola".into() } else { "De acuerdo".into() }, language: Language::Es };
                self.rig.input(call, Input::Model(ModelEvent::Clause { response, content }));
                self.rig.complete(call, response);
            }
        }
        self.rig.run(1_000);
    }

    /// Closings that have not come to their end, and have somebody to hear them.
    fn open(&self) -> Vec<&recado_core::ledger::DeliveryRecord> {
        let live = |record: &&recado_core::ledger::DeliveryRecord| {
            record.party.is_some() || self.rig.calls.iter().any(|call| !call.over && call.session == record.session)
        };
        self.rig.store.deliveries.values().filter(|record| !record.state.terminal()).filter(live).collect()
    }
}

fn play(link_ms: u64, actions: &[Action]) -> World {
    let mut world = World::new(link_ms);
    world.rig.watch.digest = Some(DefaultHasher::new());
    for action in actions {
        world.act(action.clone());
    }
    world.finish();
    world
}

fn link_ms() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0_u64), Just(3), Just(35)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn whatever_happens_the_invariants_hold_and_nothing_latches(link_ms in link_ms(), actions in prop::collection::vec(action(), 1..70)) {
        let mut world = World::new(link_ms);
        for action in actions {
            world.act(action);
        }
        world.finish();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases() / 20) })]

    #[test]
    fn the_same_inputs_have_the_same_effects(link_ms in link_ms(), actions in prop::collection::vec(action(), 1..70)) {
        let digest = || play(link_ms, &actions).rig.watch.digest.map(|digest| digest.finish());
        assert_eq!(digest(), digest(), "I15");
    }
}

/// Every edge of the contract's acoustic, generation and playback clocks that can be seen from outside.
const EDGES: [(&str, &str); 21] = [
    ("Quiet", "Suspected"),
    ("Suspected", "Quiet"),
    ("Suspected", "Speaking"),
    ("Speaking", "Trailing"),
    ("Trailing", "Speaking"),
    ("Trailing", "Quiet"),
    ("Requested", "Generating"),
    ("Requested", "Complete"),
    ("Requested", "Cancelled"),
    ("Requested", "Failed"),
    ("Generating", "Complete"),
    ("Generating", "Cancelled"),
    ("Generating", "Failed"),
    ("Queued", "Playing"),
    ("Playing", "Paused"),
    ("Paused", "Playing"),
    ("Playing", "Drained"),
    ("Drained", "Finished"),
    ("Queued", "Cleared"),
    ("Playing", "Cleared"),
    ("Paused", "Cleared"),
];

#[test]
fn every_edge_of_the_clocks_is_taken() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = (link_ms(), prop::collection::vec(action(), 40..70));
    let mut taken = BTreeSet::new();
    let mut ends = BTreeSet::new();
    for _ in 0..150 {
        let (link_ms, actions) = strategy.new_tree(&mut runner).unwrap().current();
        let world = play(link_ms, &actions);
        taken.extend(world.rig.calls.iter().flat_map(|call| call.watch.edges.iter().copied()));
        ends.extend(world.rig.store.deliveries.values().map(|record| (record.state, record.attempt.min(3))));
    }
    let missing: Vec<_> = EDGES.iter().filter(|edge| !taken.contains(*edge)).collect();
    assert!(missing.is_empty(), "never taken: {missing:?}; taken: {taken:?}");
    // The conversations are worth their time: closings are told at once, after cuts, and not at all.
    for end in [(DeliveryState::Spoken, 0), (DeliveryState::Spoken, 1), (DeliveryState::Spoken, 3), (DeliveryState::Suppressed, 0)] {
        assert!(ends.contains(&end), "no delivery ends as {end:?}: {ends:?}");
    }
}

/// Conversations of a run: `PROPTEST_CASES`, or what a debug build plays in half a minute.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES)
}

const CASES: u32 = 2_000;
