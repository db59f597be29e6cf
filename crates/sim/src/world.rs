//! A box with callers, a model and tools that do what a script says.

use std::collections::BTreeMap;

use recado_core::conversation::{Content, Evidence, Identity, Input, Mark, ModelEvent, PlaybackEvent, SegmentRef, ToolCall, Verification};
use recado_core::ids::{OperationId, PlaybackId, ResponseId};
use recado_core::ledger::{AttemptOutcome, CancelOutcome, Executed, InquiryOutcome, OperationResult};
use recado_core::policy::{
    Audience, CanInterrupt, DuplicatePolicy, Priority, ProgressPolicy, RidePosition, ToolPolicy, UncertainPolicy, WhenUnheard,
};
use recado_core::time::Time;
use serde_json::json;

use crate::action::{Action, Answered, CancelAnswered, HandOffAnswered, InquiryAnswered};
use crate::drive::policies;
use crate::rig::Rig;
use crate::script::Parameters;
use crate::violation::Findings;

/// The tools, by their place.
pub const TOOLS: [&str; 17] = [
    "mesa", "taxi", "pago", "alarma", "plazo", "acta", "cita", "pedido", "vuelo", "aviso", "envio", "regalo", "bono", "saldo", "tramite",
    "consulta", "firma",
];

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

const MANNERS: [Manner; 17] = [
    ("taxi", |policy| (policy.ride, policy.topic) = (RidePosition::Last, Some("cita".into()))),
    ("pago", |policy| policy.priority = Priority::Urgent),
    ("alarma", |policy| (policy.priority, policy.can_interrupt) = (Priority::Urgent, CanInterrupt::Caller)),
    ("plazo", |policy| policy.stale_after_ms = Some(15_000)),
    ("acta", |policy| policy.strict = true),
    ("cita", |policy| (policy.uncertain, policy.topic) = (UncertainPolicy::Suppress, Some("cita".into()))),
    ("pedido", |policy| (policy.idempotent, policy.uncertain) = (false, UncertainPolicy::Repeat)),
    ("mesa", |policy| policy.cancellable = true),
    ("vuelo", |policy| (policy.cancellable, policy.progress, policy.deadline_ms) = (true, ProgressPolicy::Say, 60_000)),
    ("aviso", |policy| (policy.when_unheard, policy.hand_off_after_ms) = (WhenUnheard::Webhook, 3_000)),
    ("envio", |policy| {
        (policy.duplicate, policy.cancellable, policy.progress) = (DuplicatePolicy::Replace, true, ProgressPolicy::Silent);
        policy.idempotency_fields = vec!["of".into()];
    }),
    ("regalo", |policy| (policy.duplicate, policy.idempotent, policy.cancellable) = (DuplicatePolicy::Confirm, false, true)),
    ("firma", |policy| (policy.confirm, policy.cancellable) = (true, true)),
    ("bono", |policy| (policy.duplicate, policy.audience) = (DuplicatePolicy::Reject, Audience::SameCall)),
    ("saldo", |policy| {
        (policy.audience, policy.topic) = (Audience::VerifiedParty, Some("saldo".into()));
        policy.version_field = Some("version".into());
    }),
    ("tramite", |policy| (policy.idempotent, policy.inquirable, policy.cancellable) = (false, true, true)),
    ("consulta", |policy| (policy.inquirable, policy.inquiry_ms) = (true, 500)),
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
    /// What each call last asked for that is read back first.
    read_back: BTreeMap<usize, Wish>,
    /// The version of the latest result.
    version: u32,
    /// When the store last looked for what has been over for long (ms).
    tended: u64,
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
        (rig.link_ms, rig.line, rig.by_hand) = (parameters.link_ms, parameters.line, true);
        if parameters.marks {
            rig.best = Evidence::Marked;
        }
        rig.settings.silence_ms = parameters.silence_ms;
        rig.settings.verification = Some(Verification::default());
        rig.settings.timers = parameters.timers.clone();
        rig.store.delay_ms = parameters.store_delay_ms;
        let parameters = parameters.clone();
        Self {
            rig,
            parameters,
            current: Vec::new(),
            out: Vec::new(),
            known: Vec::new(),
            seen: 0,
            tool_calls: 0,
            read_back: BTreeMap::new(),
            version: 0,
            tended: 0,
        }
    }

    /// Lets time pass up to `at_ms`. The model and the tools do what they do by themselves.
    pub fn pass_to(&mut self, at_ms: u64) {
        while self.rig.now < at_ms && !self.rig.stopped() {
            let ms = (at_ms - self.rig.now).min(SLICE);
            self.rig.run(ms);
            self.collect();
            self.tend_the_store();
            if let Some(after) = self.parameters.answer_after_ms {
                self.answer_by_itself(after);
            }
            if let Some(after) = self.parameters.report_after_ms {
                self.report_by_itself(after);
            }
        }
    }

    /// The store removes by itself what has been over for long.
    pub(crate) fn tend_the_store(&mut self) {
        if let Some(age_ms) = self.parameters.keep_ms.filter(|_| self.rig.now >= self.tended + TEND) {
            self.tended = self.rig.now;
            self.rig.remove_over(i64::from(age_ms));
        }
    }

    /// Does one thing.
    pub fn act(&mut self, action: &Action) {
        self.collect();
        match *action {
            Action::Dial { party } => self.dial(PARTIES.get(usize::from(party)).copied()),
            Action::Report { which, how, again } => self.report(which, how, again),
            Action::Callback { which, done, value } => self.callback(which, done, value),
            Action::CancelAnswer { which, how, again } => self.answer_cancel(which, how, again),
            Action::InquiryAnswer { which, how, again } => self.answer_inquiry(which, how, again),
            Action::HandOffAnswer { which, how } => self.answer_hand_off(which, how),
            Action::Progress { which } => {
                // Of one of the latest: what is over has no progress.
                let latest = self.known.iter().rev().nth(usize::from(which) % self.known.len().clamp(1, 3)).copied();
                if let Some(operation) = latest {
                    self.rig.progress(operation, json!({ "percent": which }));
                }
            }
            Action::Retract { which } => {
                if let Some(operation) = self.sent(which) {
                    self.rig.retract(operation);
                }
            }
            Action::StoreDelay { ms } => self.rig.store.delay_ms = ms,
            Action::StoreFails { on } => self.rig.store.failing = on,
            Action::Remove { age_ms } => self.rig.remove_over(i64::from(age_ms)),
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
            | Action::Hash { call }
            | Action::Identify { call, .. }
            | Action::Pin { call, .. }
            | Action::Verdict { call, .. }
            | Action::Voicemail { call }
            | Action::FalseMark { call, .. }
            | Action::Hold { call, .. }
            | Action::Floor { call, .. }
            | Action::HangUp { call }
            | Action::Renegotiate { call }
            | Action::Render { call, .. }
            | Action::Mute { call, .. }
            | Action::Stall { call, .. }
            | Action::Rtcp { call, .. }
            | Action::Lose { call, .. }
            | Action::CutOff { call, .. }
            | Action::ReportLate { call, .. } => {
                if let Some(call) = self.call(call) {
                    self.caller(call, action);
                }
            }
            Action::Answer { call, .. }
            | Action::Clause { call, .. }
            | Action::Silence { call, .. }
            | Action::Lie { call, .. }
            | Action::Ask { call, .. }
            | Action::Complete { call, .. }
            | Action::Fail { call, .. }
            | Action::Collect { call, .. }
            | Action::Goodbye { call }
            | Action::Chime { call }
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
            Action::Hash { .. } => self.rig.input(call, Input::Digit('#')),
            Action::Pin { keys, .. } => {
                for key in (0..keys).map(|_| '7').chain(['#']) {
                    self.rig.input(call, Input::Digit(key));
                }
            }
            Action::Verdict { how, again, .. } => self.rig.verdict(call, how, again),
            Action::Identify { level, .. } => self.rig.input(call, Input::Identified(identity(level))),
            Action::Voicemail { .. } => self.rig.input(call, Input::Voicemail),
            Action::FalseMark { sent, .. } if self.parameters.marks => {
                let never = SegmentRef { playback: PlaybackId(7), index: 0 };
                let sounds = voice.sounding().filter(|(_, whole)| !whole).map(|(segment, _)| segment);
                let event = PlaybackEvent::Marked {
                    segment: if sent { sounds.unwrap_or(never) } else { never },
                    back: Mark::Played,
                    at: Time(now),
                };
                self.rig.input(call, Input::Playback(event));
            }
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
            // Nothing is lost on a channel that has marks.
            Action::Lose { frames, .. } if !self.parameters.marks => voice.far_end.losing = frames,
            Action::CutOff { on, .. } if !self.parameters.marks => voice.far_end.cut_off = on,
            Action::ReportLate { ms, .. } => voice.far_end.next_report += ms,
            _ => {}
        }
    }

    fn model(&mut self, call: usize, action: &Action) {
        if matches!(action, Action::Noise { .. }) {
            let turn = self.rig.turn(call);
            return self.rig.input(call, Input::Model(ModelEvent::TurnWasNoise { turn }));
        }
        if matches!(action, Action::Chime { .. }) {
            return self.rig.input(call, Input::Model(ModelEvent::WantsToSpeak));
        }
        let of = match action {
            Action::Clause { of, .. }
            | Action::Silence { of, .. }
            | Action::Ask { of, .. }
            | Action::Complete { of, .. }
            | Action::Fail { of, .. } => *of,
            Action::Collect { of, .. } => *of,
            _ => 0,
        };
        let Some(response) = self.response(call, of) else { return };
        match action {
            Action::Answer { clauses, tools, .. } => {
                for clause in 0..*clauses {
                    self.rig.say(call, response, CLAUSES[usize::from(clause) % CLAUSES.len()]);
                }
                for tool in tools {
                    self.ask(call, response, Wish { tool: *tool, ..Wish::default() });
                }
                self.rig.complete(call, response);
            }
            Action::Clause { long, .. } => self.rig.say(call, response, if *long { LONG } else { SHORT }),
            Action::Silence { pieces, .. } => {
                for piece in 0..*pieces {
                    let content = Content::Speech { piece: piece.into(), audible_ms: 0, text: String::new() };
                    self.rig.input(call, Input::Model(ModelEvent::Clause { response, content }));
                }
            }
            Action::Lie { tool, .. } => self.rig.say(call, response, &format!("Hecho lo de {}: ya lo tiene.", name_of(*tool))),
            Action::Ask { tool, argument, same_id, note, confirmed, .. } => {
                let wish = Wish { tool: *tool, argument: *argument, same_id: *same_id, note: *note, confirmed: *confirmed };
                self.ask(call, response, wish);
            }
            Action::Collect { digits, .. } => {
                let wish = ModelEvent::CollectDigits { response, digits_max: *digits, end: Some('#'), wait_ms: 3_000 };
                self.rig.input(call, Input::Model(wish));
            }
            Action::Cancel { tool, .. } => {
                let tool = tool.map(|tool| name_of(tool).to_owned());
                self.rig.input(call, Input::Model(ModelEvent::CancelIntent { response, tool, work: None }));
            }
            Action::Complete { .. } => self.rig.complete(call, response),
            Action::Fail { .. } => self.rig.input(call, Input::Model(ModelEvent::Failed { response, reason: "gone".into() })),
            Action::Goodbye { .. } => self.rig.input(call, Input::Model(ModelEvent::HangUp { response })),
            _ => {}
        }
    }

    fn ask(&mut self, call: usize, response: ResponseId, wish: Wish) {
        let Wish { tool, argument, same_id, note, confirmed } = wish;
        if name_of(tool) == "firma" {
            self.read_back.insert(call, wish);
        }
        self.tool_calls += 1;
        let call_id = if same_id { "again".to_owned() } else { format!("call-{}", self.tool_calls) };
        let arguments = if note == 0 { json!({ "of": argument }) } else { json!({ "of": argument, "note": note }) };
        let asked = ToolCall { call_id, tool: name_of(tool).to_owned(), arguments, confirmed };
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
            // The caller says yes to what was read back.
            let wish = self.read_back.get(&call).copied().filter(|_| !self.rig.calls[call].watch.read_backs.is_empty());
            self.rig.say(call, response, CLAUSES[0]);
            if let Some(wish) = wish {
                self.ask(call, response, Wish { confirmed: true, ..wish });
            }
            self.rig.complete(call, response);
        }
    }

    fn report_by_itself(&mut self, after: u64) {
        let now = self.rig.now;
        let (due, out) = self.out.iter().partition(|(_, _, came)| now >= came + after);
        self.out = out;
        let due: Vec<(OperationId, u32, u64)> = due;
        for (operation, attempt, _) in due {
            let value = self.result(0);
            self.rig.report(operation, attempt, AttemptOutcome::Succeeded(value));
        }
        // Every other round of it, so that some wait for longer.
        if now % 500 < SLICE {
            self.answer_cancel(0, CancelAnswered::Undone, false);
            self.answer_inquiry(0, InquiryAnswered::Ended, false);
            self.answer_hand_off(0, HandOffAnswered::Acknowledged);
        }
    }

    /// What a tool answers: every result has a version, and mostly a later one than the last.
    fn result(&mut self, value: u8) -> serde_json::Value {
        self.version += 1;
        let version = if self.version.is_multiple_of(3) { self.version - 2 } else { self.version };
        json!({ "value": VALUES[usize::from(value) % VALUES.len()], "version": version })
    }

    /// One of the operations that were ever sent.
    fn sent(&self, which: u8) -> Option<OperationId> {
        self.known.get(usize::from(which) % self.known.len().max(1)).copied()
    }

    pub(crate) fn answer_cancel(&mut self, which: u8, how: CancelAnswered, again: bool) {
        if self.rig.cancels.is_empty() {
            return;
        }
        let at = usize::from(which) % self.rig.cancels.len();
        let request = if again { self.rig.cancels[at].clone() } else { self.rig.cancels.remove(at) };
        // What has been taken on can't be recalled.
        let held = self.out.iter().any(|(operation, ..)| *operation == request.operation);
        let how = if how == CancelAnswered::Recalled && !held { CancelAnswered::Unsupported } else { how };
        let outcome = self.rig.answer_cancel(&request, how);
        if matches!(outcome, CancelOutcome::Cancelled | CancelOutcome::Recalled) {
            self.out.retain(|(operation, ..)| *operation != request.operation);
        }
    }

    pub(crate) fn answer_inquiry(&mut self, which: u8, how: InquiryAnswered, again: bool) {
        if self.rig.inquiries.is_empty() {
            return;
        }
        let at = usize::from(which) % self.rig.inquiries.len();
        let inquiry = if again { self.rig.inquiries[at].clone() } else { self.rig.inquiries.remove(at) };
        let outcome = self.rig.answer_inquiry(&inquiry, how);
        if matches!(outcome, InquiryOutcome::Succeeded(_)) {
            self.out.retain(|(operation, ..)| *operation != inquiry.operation);
        }
    }

    pub(crate) fn answer_hand_off(&mut self, which: u8, how: HandOffAnswered) {
        if !self.rig.hand_offs.is_empty() {
            let at = usize::from(which) % self.rig.hand_offs.len();
            let delivery = self.rig.hand_offs.remove(at);
            self.rig.answer_hand_off(delivery, how);
        }
    }

    fn report(&mut self, which: u8, how: Answered, again: bool) {
        if self.out.is_empty() {
            return;
        }
        let (operation, attempt, _) = self.out[usize::from(which) % self.out.len()];
        let failed = |executed, retryable| AttemptOutcome::Failed { error: "no".into(), executed, retryable, retry_after_ms: None };
        let outcome = match how {
            Answered::Done => AttemptOutcome::Succeeded(self.result(0)),
            Answered::Deferred => AttemptOutcome::Deferred,
            Answered::Taken => AttemptOutcome::Taken { handle: format!("task {attempt}") },
            Answered::Unreachable => AttemptOutcome::Unreachable { reason: "no route".into(), retry_after_ms: None },
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
        let Some(operation) = self.sent(which) else { return };
        let result = if done { OperationResult::Succeeded(self.result(value)) } else { OperationResult::Failed("no".into()) };
        self.rig.callback(operation, result);
    }
}

/// What a model asks for.
#[derive(Debug, Clone, Copy, Default)]
struct Wish {
    tool: u8,
    argument: u8,
    same_id: bool,
    note: u8,
    confirmed: bool,
}

fn identity(level: u8) -> Identity {
    match level {
        0 => Identity::Unknown,
        1 => Identity::CallersWord,
        _ => Identity::Verified,
    }
}

fn name_of(tool: u8) -> &'static str {
    TOOLS[usize::from(tool) % TOOLS.len()]
}

/// Calls at a time: more only repeat each other.
const LINES: usize = 2;

/// How long time passes before the model and the tools look whether something is due (ms).
const SLICE: u64 = 250;

/// How often the store looks for what has been over for long (ms): the real one does while nobody wants anything of it.
const TEND: u64 = 1_000;

/// What the model says.
const CLAUSES: [&str; 3] = ["Muy bien", "Le cuento una cosa que es bastante larga", "Dígame"];
const LONG: &str = "Esto es un poco más largo de lo que nadie quiere oír";
const SHORT: &str = "Ajá";

/// What the tools answer.
const VALUES: [&str; 2] = ["a las nueve", "a las diez"];
