//! What a test or a script does to a box: callers, models and tools, each in one line.

use std::collections::{BTreeMap, VecDeque};

use recado_core::conversation::{
    Acoustic, Channel, Content, Conversation, Evidence, Identity, Input, ModelEvent, Purpose, ToolCall, VerificationOutcome,
};
use recado_core::ids::{BootId, DeliveryId, OperationId, PartyId, ResponseId, SessionId, TurnId};
use recado_core::ledger::{
    self, AttemptOutcome, CancelOutcome, CancelRequest, DeliveryState, Executed, HandOffOutcome, Inquiry, InquiryOutcome, OperationResult,
    RequestId,
};
use recado_core::policy::{Language, Localised, ToolPolicy};
use recado_trace::subject::ConversationStart;
use serde_json::json;

use crate::action::{CancelAnswered, HandOffAnswered, InquiryAnswered};
use crate::call::Call;
use crate::journal::Journal;
use crate::rig::{Rig, Todo};
use crate::voice::Voice;
use crate::watch::{self, CallWatch, May};
use crate::world::TOOLS;

impl Rig {
    /// A caller dials in; `party` is who they are. The greeting is asked for.
    pub fn dial(&mut self, party: Option<&str>) -> usize {
        let mut step = self.step();
        let session = SessionId(step.ids.draw());
        let channel = Channel {
            session,
            party: party.map(|party| PartyId(party.into())),
            language: Language::Es,
            best: self.best,
            far_buffer_ms: watch::FAR_BUFFER,
        };
        let start = ConversationStart { settings: self.settings.clone(), channel };
        let (conversation, journal, effects) = match self.journal {
            Some(_) => {
                let (conversation, journal, effects) = Journal::begin(&mut step, BootId(self.boot), &self.policies, start);
                (conversation, Some(journal), effects)
            }
            None => {
                let (conversation, effects) = Conversation::begin(&mut step, start.settings, start.channel);
                (conversation, None, effects)
            }
        };
        self.calls.push(Call {
            session,
            due: conversation.deadline().map(|at| at.0),
            shows: conversation.clocks().playback,
            conversation,
            voice: Voice::new(self.now, self.link_ms, self.line, self.best == Evidence::Marked),
            party: party.map(|party| PartyId(party.into())),
            edges: VecDeque::new(),
            to_conversation: VecDeque::new(),
            asked: Vec::new(),
            asked_at: self.now,
            cancelled: Vec::new(),
            truncated: Vec::new(),
            outputs: Vec::new(),
            told: Vec::new(),
            history: Vec::new(),
            decisions: Vec::new(),
            hung_up: false,
            on_hold: false,
            floor_held: false,
            identity: if party.is_some() { Identity::CallersWord } else { Identity::Unknown },
            pins: VecDeque::new(),
            voicemail: false,
            lowered_at: None,
            timers: self.settings.timers.clone(),
            over: false,
            watch: CallWatch::of(self.best, &self.settings.timers),
            journal,
        });
        let call = self.calls.len() - 1;
        self.findings.now = self.now;
        let begun = &mut self.calls[call];
        begun.watch.effects(May::Anything, &effects, &begun.voice, false, &mut self.findings);
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

    /// A conversation is told something.
    pub fn input(&mut self, call: usize, input: Input) {
        match input {
            Input::Identified(identity) => {
                let lowered = identity < std::mem::replace(&mut self.calls[call].identity, identity);
                if lowered {
                    self.calls[call].pins.clear();
                }
                self.calls[call].lowered_at = if lowered { Some(self.now) } else { self.calls[call].lowered_at };
            }
            Input::Voicemail if !self.calls[call].voicemail => {
                self.calls[call].voicemail = true;
                self.calls[call].lowered_at = Some(self.now);
                self.watch.told.machine_heard(&self.calls[call]);
            }
            _ => {}
        }
        self.queue.push_back(Todo::Call(call, input));
        self.drain();
    }

    /// The verifier says what the oldest PIN of a call came to that it has been given and not spoken of; of one that it was never given where
    /// there is none. What it says counts only for whoever keyed the PIN in.
    pub fn verdict(&mut self, call: usize, outcome: VerificationOutcome, again: bool) {
        let on_the_line = &mut self.calls[call];
        let attempt = if again { on_the_line.pins.front().copied() } else { on_the_line.pins.pop_front() };
        let counts = attempt.is_some() && on_the_line.identity == Identity::CallersWord && !on_the_line.voicemail && !on_the_line.over;
        if counts && outcome == VerificationOutcome::Verified {
            on_the_line.identity = Identity::Verified;
        }
        self.input(call, Input::Verified { attempt: attempt.unwrap_or(NEVER_GIVEN), outcome });
    }

    /// The model answers the response that was asked for last, and ends it.
    pub fn reply(&mut self, call: usize, says: &[&str]) {
        let response = self.last_response(call);
        for text in says {
            self.say(call, response, text);
        }
        self.complete(call, response);
    }

    /// The response that the model was asked for last.
    pub fn last_response(&self, call: usize) -> ResponseId {
        self.calls[call].asked.last().expect("a response was asked for").0
    }

    /// The model says a clause of a response.
    pub fn say(&mut self, call: usize, response: ResponseId, text: &str) {
        let content = Content::Text { text: text.into(), language: Language::Es };
        self.input(call, Input::Model(ModelEvent::Clause { response, content }));
    }

    /// The model ends a response.
    pub fn complete(&mut self, call: usize, response: ResponseId) {
        self.input(call, Input::Model(ModelEvent::Complete { response }));
    }

    /// The model asks for an operation.
    pub fn ask(&mut self, call: usize, tool: &str, arguments: serde_json::Value) {
        let response = self.last_response(call);
        let call_id = format!("call-{tool}");
        self.input(
            call,
            Input::Model(ModelEvent::ToolCall { response, call: ToolCall { call_id, tool: tool.into(), arguments, confirmed: false } }),
        );
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
        self.cough_for(call, 300);
    }

    /// A sound that is suspected for so long, and never confirmed.
    pub fn cough_for(&mut self, call: usize, ms: u64) {
        let from = self.calls[call].silent_from(self.now) + 40;
        self.calls[call].edges.extend([(from, Acoustic::Suspected, from), (from + ms, Acoustic::Quiet, from + ms)]);
    }

    /// The latest attempt of an operation succeeds.
    pub fn done(&mut self, operation: OperationId, result: serde_json::Value) {
        let attempt = self.attempt_of(operation);
        self.report(operation, attempt, AttemptOutcome::Succeeded(result));
    }

    /// The latest attempt of an operation.
    pub fn attempt_of(&self, operation: OperationId) -> u32 {
        self.dispatched.iter().rev().find(|dispatch| dispatch.operation == operation).map_or(1, |dispatch| dispatch.attempt)
    }

    /// An executor reports on an attempt.
    pub fn report(&mut self, operation: OperationId, attempt: u32, outcome: AttemptOutcome) {
        self.findings.now = self.now;
        self.tools.reported(operation, attempt, &outcome, &mut self.findings);
        self.queue.push_back(Todo::Ledger(ledger::Input::Attempted { operation, attempt, outcome }));
        self.drain();
    }

    /// A result comes from outside.
    pub fn callback(&mut self, operation: OperationId, result: OperationResult) -> RequestId {
        self.findings.now = self.now;
        self.tools.called_back((RequestId(self.requests + 1), operation), &result, &mut self.findings);
        self.arrives_from_outside(operation, |request| ledger::Input::Callback { request, operation, result })
    }

    /// A tool says how far it is.
    pub fn progress(&mut self, operation: OperationId, progress: serde_json::Value) -> RequestId {
        self.arrives_from_outside(operation, |request| ledger::Input::Progress { request: Some(request), operation, progress })
    }

    /// Who gave a result takes it back.
    pub fn retract(&mut self, operation: OperationId) -> RequestId {
        self.tools.retracted.insert(RequestId(self.requests + 1), (operation, self.now));
        self.arrives_from_outside(operation, |request| ledger::Input::Retract { request, operation })
    }

    fn arrives_from_outside(&mut self, operation: OperationId, input: impl FnOnce(RequestId) -> ledger::Input) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.requested.insert(request, operation);
        self.queue.push_back(Todo::Ledger(input(request)));
        self.drain();
        request
    }

    /// A tool, or its executor, answers a cancel request: truthfully.
    pub fn answer_cancel(&mut self, request: &CancelRequest, how: CancelAnswered) -> CancelOutcome {
        self.findings.now = self.now;
        let cancellable = self.policies.get(&request.tool).is_some_and(|policy| policy.cancellable);
        let outcome = self.tools.asked_to_cancel(request.operation, how, cancellable, &mut self.findings);
        let (operation, request) = (request.operation, request.request);
        self.queue.push_back(Todo::Ledger(ledger::Input::CancelAttempted { operation, request, outcome: outcome.clone() }));
        self.drain();
        outcome
    }

    /// A tool answers how an operation stands: truthfully.
    pub fn answer_inquiry(&mut self, inquiry: &Inquiry, how: InquiryAnswered) -> InquiryOutcome {
        self.findings.now = self.now;
        let outcome = self.tools.asked_how_it_stands(inquiry.operation, how, &mut self.findings);
        let (operation, request) = (inquiry.operation, inquiry.request);
        self.queue.push_back(Todo::Ledger(ledger::Input::Inquired { operation, request, outcome: outcome.clone() }));
        self.drain();
        outcome
    }

    /// A tool answers that it still has an operation, and when asking again makes sense (ms): whatever became of the box meanwhile.
    pub fn goes_on(&mut self, inquiry: &Inquiry, again_ms: u64) {
        let (operation, request) = (inquiry.operation, inquiry.request);
        let outcome = InquiryOutcome::Running { again_ms: Some(again_ms) };
        self.queue.push_back(Todo::Ledger(ledger::Input::Inquired { operation, request, outcome }));
        self.drain();
    }

    /// The other way answers a hand-off.
    pub fn answer_hand_off(&mut self, delivery: DeliveryId, how: HandOffAnswered) {
        self.findings.now = self.now;
        if how != HandOffAnswered::Refused {
            self.watch.told.handed_off(delivery, how == HandOffAnswered::Acknowledged, &mut self.findings);
        }
        let failed = |received| HandOffOutcome::Failed { error: "no".into(), received, retry_after_ms: None };
        let outcome = match how {
            HandOffAnswered::Acknowledged => HandOffOutcome::Acknowledged,
            HandOffAnswered::Refused => failed(Executed::No),
            HandOffAnswered::Lost => failed(Executed::Maybe),
        };
        self.queue.push_back(Todo::Ledger(ledger::Input::HandOffAttempted { delivery, outcome }));
        self.drain();
    }

    /// The call is over.
    pub fn hang_up(&mut self, call: usize) {
        let over = &mut self.calls[call];
        over.over = true;
        over.voice.close(self.now);
        self.watch.told.call_over(over);
        self.input(call, Input::ChannelOver);
    }

    /// Puts the call on hold, or takes it back.
    pub fn hold(&mut self, call: usize, on: bool) {
        let (now, arrives) = (self.now, self.now + self.link_ms);
        let held = &mut self.calls[call];
        held.on_hold = on;
        held.voice.hold(on, now);
        held.tells(arrives);
        self.input(call, Input::Hold(on));
    }

    /// The clauses of deliveries that the ear heard to their end, over all calls.
    pub fn closings_heard(&self) -> Vec<String> {
        let all = self.calls.iter().flat_map(|call| call.voice.heard());
        all.filter(|(_, purpose, _)| matches!(purpose, Purpose::Clause { clause: Some(_), .. }))
            .map(|(_, _, text)| text.to_owned())
            .collect()
    }

    /// How many frames of closings have been released in a call.
    pub fn closing_frames(&self, call: usize) -> u64 {
        let voice = &self.calls[call].voice;
        let clauses = voice.purposes.iter().filter(|(_, (purpose, _))| matches!(purpose, Purpose::Clause { .. }));
        clauses.map(|(segment, _)| voice.count(*segment).released).sum()
    }

    /// The state of every delivery on record.
    pub fn deliveries(&self) -> Vec<DeliveryState> {
        self.store.deliveries.values().map(|delivery| delivery.state).collect()
    }

    /// The turn that is open in a call, or the last one.
    pub fn turn(&self, call: usize) -> TurnId {
        self.calls[call].conversation.turn()
    }
}

/// An attempt that no call has come to.
const NEVER_GIVEN: u32 = 99;

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
        policy.say.cancelled = es(format!("Cancelado lo de {name}."));
        policy.say.compensated = es(format!("Deshecho lo de {name}."));
        policy
    };
    TOOLS.into_iter().map(|name| (name.to_owned(), tool(name))).collect()
}
