//! A box with callers, a model and tools that do what the actions say, and how it all comes to its end.

use recado_core::conversation::{Cause, Content, Input, ModelEvent, ToolCall};
use recado_core::ids::{OperationId, ResponseId};
use recado_core::ledger::{AttemptOutcome, ClauseRecord, DeliveryRecord, DeliveryState, Executed, OperationResult};
use recado_core::policy::{CanInterrupt, Language, Priority, RidePosition, ToolPolicy, UncertainPolicy};
use serde_json::json;

use crate::action::Action;
use recado_sim::{Rig, policies};

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
    tool("taxi", |policy| (policy.ride, policy.topic) = (RidePosition::Last, Some("cita".into())));
    tool("pago", |policy| policy.priority = Priority::Urgent);
    tool("alarma", |policy| (policy.priority, policy.can_interrupt) = (Priority::Urgent, CanInterrupt::Caller));
    tool("plazo", |policy| policy.stale_after_ms = Some(15_000));
    tool("acta", |policy| policy.strict = true);
    tool("cita", |policy| (policy.uncertain, policy.topic) = (UncertainPolicy::Suppress, Some("cita".into())));
    tool("pedido", |policy| (policy.idempotent, policy.uncertain) = (false, UncertainPolicy::Repeat));
    all
}

pub struct World {
    pub rig: Rig,
    /// The calls that actions are about: the latest two.
    current: Vec<usize>,
    /// Attempts that nobody has reported on.
    out: Vec<(OperationId, u32)>,
    known: Vec<OperationId>,
    seen: usize,
    calls: u32,
}

impl World {
    pub fn new(link_ms: u64) -> Self {
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

    pub fn act(&mut self, action: Action) {
        self.collect();
        match action {
            Action::Pass(ms) => self.rig.run(ms),
            Action::Dial { party } => self.dial(["ana", "bea", "nobody"][usize::from(party)]),
            Action::Newer { other } => {
                self.dial("ana");
                if let Some(&call) = self.current.last().filter(|call| !self.rig.calls[**call].over) {
                    let argument = u8::try_from(self.calls % 256).unwrap_or_default();
                    self.ask(call, 0, if other { 1 } else { 6 }, argument, false);
                }
            }
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
        let asked = ToolCall { call_id, tool, arguments: json!({ "of": argument }), confirmed: false };
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
    pub fn finish(&mut self) {
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
                DeliveryState::Superseded => record.superseded_by.is_some() || self.on_a_topic(record),
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
            let hears = |call: &recado_sim::Call| !call.over && call.party.as_ref().is_some_and(|known| known.0 == party);
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

    /// Whether what it tells of is on a topic, so that something newer can make it obsolete.
    fn on_a_topic(&self, record: &DeliveryRecord) -> bool {
        let topic = |clause: &ClauseRecord| self.rig.policies[&self.rig.store.operations[&clause.operation].tool].topic.is_some();
        record.clauses.iter().all(topic)
    }

    /// Closings that have not come to their end, and have somebody to hear them.
    fn open(&self) -> Vec<&DeliveryRecord> {
        let live = |record: &&DeliveryRecord| {
            record.party.is_some() || self.rig.calls.iter().any(|call| !call.over && call.session == record.session)
        };
        self.rig.store.deliveries.values().filter(|record| !record.state.terminal()).filter(live).collect()
    }
}
