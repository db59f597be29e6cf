//! A box with callers, a model and tools that do what a script says.

use std::collections::BTreeMap;

use recado_core::conversation::{Input, ModelEvent, ToolCall};
use recado_core::ids::{OperationId, ResponseId};
use recado_core::ledger::{AttemptOutcome, Executed, OperationResult};
use recado_core::policy::{CanInterrupt, Priority, RidePosition, ToolPolicy, UncertainPolicy};
use serde_json::json;

use crate::action::{Action, Answered};
use crate::drive::policies;
use crate::rig::Rig;
use crate::script::Parameters;
use crate::violation::Findings;

/// The tools, by their place.
pub const TOOLS: [&str; 8] = ["mesa", "taxi", "pago", "alarma", "plazo", "acta", "cita", "pedido"];

/// The parties, by their place; any other is not known.
const PARTIES: [&str; 2] = ["ana", "bea"];

/// Tools of every manner.
fn tools() -> BTreeMap<String, ToolPolicy> {
    let mut all = policies();
    for (name, manner) in MANNERS {
        if let Some(policy) = all.get_mut(name) {
            manner(policy);
        }
    }
    all
}

/// What is odd about a tool.
type Manner = (&'static str, fn(&mut ToolPolicy));

const MANNERS: [Manner; 7] = [
    ("taxi", |policy| (policy.ride, policy.topic) = (RidePosition::Last, Some("cita".into()))),
    ("pago", |policy| policy.priority = Priority::Urgent),
    ("alarma", |policy| (policy.priority, policy.can_interrupt) = (Priority::Urgent, CanInterrupt::Caller)),
    ("plazo", |policy| policy.stale_after_ms = Some(15_000)),
    ("acta", |policy| policy.strict = true),
    ("cita", |policy| (policy.uncertain, policy.topic) = (UncertainPolicy::Suppress, Some("cita".into()))),
    ("pedido", |policy| (policy.idempotent, policy.uncertain) = (false, UncertainPolicy::Repeat)),
];

/// A box and what is around it.
pub struct World {
    /// The box.
    pub rig: Rig,
    pub(crate) parameters: Parameters,
    /// The calls that actions are about: the latest two.
    pub(crate) current: Vec<usize>,
    /// Attempts that nobody has reported on, and when they came.
    pub(crate) out: Vec<(OperationId, u32, u64)>,
    pub(crate) known: Vec<OperationId>,
    seen: usize,
    tool_calls: u32,
}

impl World {
    /// A box that has just been set up.
    pub fn new(parameters: &Parameters) -> Self {
        Self::of(Rig::without_traces(tools()), parameters)
    }

    /// The same, with traces that are replayed when they end.
    pub fn with_traces(parameters: &Parameters) -> Self {
        Self::of(Rig::new(tools()), parameters)
    }

    fn of(mut rig: Rig, parameters: &Parameters) -> Self {
        rig.findings = Findings::kept();
        (rig.link_ms, rig.line) = (parameters.link_ms, parameters.line);
        rig.settings.silence_ms = parameters.silence_ms;
        rig.settings.timers = parameters.timers.clone();
        rig.store.delay_ms = parameters.store_delay_ms;
        let parameters = parameters.clone();
        Self { rig, parameters, current: Vec::new(), out: Vec::new(), known: Vec::new(), seen: 0, tool_calls: 0 }
    }

    /// Lets time pass up to `at_ms`. The model and the tools do what they do by themselves.
    pub fn pass_to(&mut self, at_ms: u64) {
        while self.rig.now < at_ms && !self.rig.stopped() {
            let ms = (at_ms - self.rig.now).min(SLICE);
            self.rig.run(ms);
            self.collect();
            if let Some(after) = self.parameters.answer_after_ms {
                self.answer_by_itself(after);
            }
            if let Some(after) = self.parameters.report_after_ms {
                self.report_by_itself(after);
            }
        }
    }

    /// Does one thing.
    pub fn act(&mut self, action: &Action) {
        self.collect();
        match *action {
            Action::Dial { party } => self.dial(PARTIES.get(usize::from(party)).copied()),
            Action::Report { which, how, again } => self.report(which, how, again),
            Action::Callback { which, done, value } => self.callback(which, done, value),
            Action::StoreDelay { ms } => self.rig.store.delay_ms = ms,
            Action::StoreFails { on } => self.rig.store.failing = on,
            Action::Clock { ms, synchronised } => {
                self.rig.wall_jumped_ms += ms;
                self.rig.wall_synchronised = synchronised;
            }
            Action::Crash { kept } => {
                self.rig.crash_keeping(usize::from(kept));
                // What was out has left the box: nobody will report on it.
                (self.seen, self.current) = (0, Vec::new());
                self.out.clear();
            }
            Action::Speak { call, .. }
            | Action::SpeakOn { call }
            | Action::Cough { call, .. }
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
            | Action::Lie { call, .. }
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

    pub(crate) fn dial(&mut self, party: Option<&str>) {
        let up: Vec<usize> = (0..self.rig.calls.len()).filter(|at| !self.rig.calls[*at].over).collect();
        if up.len() < LINES {
            let call = self.rig.dial(party);
            let voice = &mut self.rig.calls[call].voice;
            (voice.engine.render_ms, voice.far_end.rtcp) = (self.parameters.render_ms, self.parameters.rtcp);
            self.current = up.into_iter().chain([call]).collect();
        }
    }

    fn call(&self, which: u8) -> Option<usize> {
        let up: Vec<usize> = self.current.iter().copied().filter(|at| !self.rig.calls[*at].over).collect();
        up.get(usize::from(which) % up.len().max(1)).copied()
    }

    /// The response that was asked for last, or `of` before it.
    pub(crate) fn response(&self, call: usize, of: u8) -> Option<ResponseId> {
        self.rig.calls[call].asked.iter().rev().nth(usize::from(of)).map(|asked| asked.0)
    }

    /// The caller and the line.
    fn caller(&mut self, call: usize, action: &Action) {
        let now = self.rig.now;
        let voice = &mut self.rig.calls[call].voice;
        match *action {
            Action::Speak { ms, .. } => self.rig.caller_speaks(call, ms),
            Action::SpeakOn { .. } => self.rig.caller_speaks_on(call),
            Action::Cough { ms, .. } => self.rig.cough_for(call, ms),
            Action::Digit { .. } => self.rig.input(call, Input::Digit('5')),
            Action::Hold { on, .. } => self.rig.hold(call, on),
            Action::Floor { on, .. } => {
                self.rig.calls[call].floor_held = on;
                self.rig.input(call, Input::FloorHeld(on));
            }
            Action::HangUp { .. } => self.rig.hang_up(call),
            Action::Renegotiate { .. } => voice.renegotiated(now),
            Action::Render { ms, .. } => voice.engine.render_ms = ms,
            Action::Mute { segments, .. } => voice.engine.failing = segments,
            Action::Stall { ms, .. } => voice.stalled_until = now + ms,
            Action::Rtcp { on, .. } => voice.far_end.rtcp = on,
            Action::Lose { frames, .. } => voice.far_end.losing = frames,
            Action::ReportLate { ms, .. } => voice.far_end.next_report += ms,
            _ => {}
        }
    }

    fn model(&mut self, call: usize, action: &Action) {
        if matches!(action, Action::Noise { .. }) {
            let turn = self.rig.turn(call);
            return self.rig.input(call, Input::Model(ModelEvent::TurnWasNoise { turn }));
        }
        let of = match action {
            Action::Clause { of, .. } | Action::Ask { of, .. } | Action::Complete { of, .. } | Action::Fail { of, .. } => *of,
            _ => 0,
        };
        let Some(response) = self.response(call, of) else { return };
        match action {
            Action::Answer { clauses, tools, .. } => {
                for clause in 0..*clauses {
                    self.rig.say(call, response, CLAUSES[usize::from(clause) % CLAUSES.len()]);
                }
                for tool in tools {
                    self.ask(call, response, *tool, 0, false);
                }
                self.rig.complete(call, response);
            }
            Action::Clause { long, .. } => self.rig.say(call, response, if *long { LONG } else { SHORT }),
            Action::Lie { tool, .. } => self.rig.say(call, response, &format!("Hecho lo de {}: ya lo tiene.", name_of(*tool))),
            Action::Ask { tool, argument, same_id, .. } => self.ask(call, response, *tool, *argument, *same_id),
            Action::Cancel { tool, .. } => {
                let tool = tool.map(|tool| name_of(tool).to_owned());
                self.rig.input(call, Input::Model(ModelEvent::CancelIntent { response, tool }));
            }
            Action::Complete { .. } => self.rig.complete(call, response),
            Action::Fail { .. } => self.rig.input(call, Input::Model(ModelEvent::Failed { response, reason: "gone".into() })),
            Action::Goodbye { .. } => self.rig.input(call, Input::Model(ModelEvent::HangUp { response })),
            _ => {}
        }
    }

    fn ask(&mut self, call: usize, response: ResponseId, tool: u8, argument: u8, same_id: bool) {
        self.tool_calls += 1;
        let call_id = if same_id { "again".to_owned() } else { format!("call-{}", self.tool_calls) };
        let asked = ToolCall { call_id, tool: name_of(tool).to_owned(), arguments: json!({ "of": argument }), confirmed: false };
        self.rig.input(call, Input::Model(ModelEvent::ToolCall { response, call: asked }));
    }

    /// Attempts that have left the box meanwhile.
    pub(crate) fn collect(&mut self) {
        for dispatch in self.rig.dispatched.iter().skip(self.seen) {
            self.out.push((dispatch.operation, dispatch.attempt, self.rig.now));
            self.known.push(dispatch.operation);
        }
        self.seen = self.rig.dispatched.len();
    }

    fn answer_by_itself(&mut self, after: u64) {
        for call in 0..self.rig.calls.len() {
            let asked = &self.rig.calls[call];
            let Some(response) = asked.watch.open.filter(|_| !asked.over && self.rig.now >= asked.asked_at + after) else { continue };
            self.rig.say(call, response, CLAUSES[0]);
            self.rig.complete(call, response);
        }
    }

    fn report_by_itself(&mut self, after: u64) {
        let now = self.rig.now;
        let (due, out) = self.out.iter().partition(|(_, _, came)| now >= came + after);
        self.out = out;
        let due: Vec<(OperationId, u32, u64)> = due;
        for (operation, attempt, _) in due {
            self.rig.report(operation, attempt, AttemptOutcome::Succeeded(json!({ "value": VALUES[0] })));
        }
    }

    fn report(&mut self, which: u8, how: Answered, again: bool) {
        if self.out.is_empty() {
            return;
        }
        let (operation, attempt, _) = self.out[usize::from(which) % self.out.len()];
        let failed = |executed, retryable| AttemptOutcome::Failed { error: "no".into(), executed, retryable, retry_after_ms: None };
        let outcome = match how {
            Answered::Done => AttemptOutcome::Succeeded(json!({ "value": VALUES[0] })),
            Answered::Deferred => AttemptOutcome::Deferred,
            Answered::NotDone => failed(Executed::No, true),
            Answered::Maybe => failed(Executed::Maybe, true),
            Answered::Refused => failed(Executed::No, false),
        };
        if !again {
            self.out.retain(|(of, number, _)| (*of, *number) != (operation, attempt));
        }
        self.rig.report(operation, attempt, outcome);
    }

    fn callback(&mut self, which: u8, done: bool, value: u8) {
        let Some(&operation) = self.known.get(usize::from(which) % self.known.len().max(1)) else { return };
        let result = if done {
            OperationResult::Succeeded(json!({ "value": VALUES[usize::from(value) % VALUES.len()] }))
        } else {
            OperationResult::Failed("no".into())
        };
        self.rig.callback(operation, result);
    }
}

fn name_of(tool: u8) -> &'static str {
    TOOLS[usize::from(tool) % TOOLS.len()]
}

/// Calls at a time: more only repeat each other.
const LINES: usize = 2;

/// How long time passes before the model and the tools look whether something is due (ms).
const SLICE: u64 = 250;

/// What the model says.
const CLAUSES: [&str; 3] = ["Muy bien", "Le cuento una cosa que es bastante larga", "Dígame"];
const LONG: &str = "Esto es un poco más largo de lo que nadie quiere oír";
const SHORT: &str = "Ajá";

/// What the tools answer.
const VALUES: [&str; 2] = ["a las nueve", "a las diez"];
