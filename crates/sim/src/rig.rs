//! A box in virtual time: the real ledger and conversations, with a voice, a store, tools and a caller that a test or a script
//! drives. What the caller heard is counted in a simulated ear, never in our own state, and after every step the contract's
//! invariants are checked there ([`crate::watch`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use recado_core::conversation::{Effect, Evidence, Input, Mark, PlaybackEvent, PlaybackState, Purpose, Settings};
use recado_core::ids::{BatchId, BootId, DeliveryId, OperationId};
use recado_core::ledger::{
    self, CallbackAnswer, CancelRequest, DeliveryRecord, DeliveryState, Dispatch, Inquiry, Ledger, News, RequestId, Route, Snapshot,
};
use recado_core::policy::ToolPolicy;
use recado_core::time::{Step, Time, Wall};
use recado_core::timers::Timer;
use recado_trace::subject::LedgerStart;

use crate::call::Call;
use crate::journal::{self, Journal};
use crate::store::{Disk, Store};
use crate::tools::Tools;
use crate::violation::{Findings, Invariant};
use crate::voice::{FRAME, Line};
use crate::watch::{May, Moment, Watch};

/// The whole box.
pub struct Rig {
    /// Virtual time (ms).
    pub now: u64,
    /// Whether the wall clock is known to be synchronised.
    pub wall_synchronised: bool,
    /// By how much the wall clock has jumped (ms).
    pub wall_jumped_ms: i64,
    pub(crate) seed: u128,
    /// The tools that are configured.
    pub policies: BTreeMap<String, ToolPolicy>,
    /// The real ledger.
    pub ledger: Ledger,
    /// When the ledger wants to be woken, as it last said (ms).
    ledger_due: Option<u64>,
    pub(crate) boot: u128,
    /// What is on record.
    pub store: Disk,
    /// The calls of this boot.
    pub calls: Vec<Call>,
    /// Attempts that left the box, in this boot.
    pub dispatched: Vec<Dispatch>,
    /// What the tools did.
    pub tools: Tools,
    /// What those who sent a result were answered.
    pub answers: BTreeMap<RequestId, CallbackAnswer>,
    /// What the ledger measured.
    pub measured: Vec<ledger::LedgerMeasure>,
    /// How long an event takes from the media path to the conversation, and a command back (ms).
    pub link_ms: u64,
    /// The network of calls to come.
    pub line: Line,
    /// What was seen.
    pub watch: Watch,
    /// What was found.
    pub findings: Findings,
    /// What new calls are held with.
    pub settings: Settings,
    /// The strongest evidence that new calls' channels give.
    pub best: Evidence,
    /// Whether cancel requests and hand-offs are answered by who drives the box. Otherwise nobody can be asked to cancel, and
    /// hand-offs are acknowledged, both at once.
    pub by_hand: bool,
    /// Cancel requests that nobody has answered: the latest of each operation.
    pub cancels: Vec<CancelRequest>,
    /// Inquiries that nobody has answered, where they are answered by hand.
    pub inquiries: Vec<Inquiry>,
    /// Hand-offs that nobody has answered.
    pub hand_offs: Vec<DeliveryId>,
    /// The ledger's trace.
    pub(crate) journal: Option<Journal<Ledger>>,
    pub(crate) requests: u64,
    pub(crate) requested: BTreeMap<RequestId, OperationId>,
    /// The batches of which the ledger was told that the store has removed them, and in which boot.
    pub missed: BTreeSet<(BootId, BatchId)>,
    pub(crate) queue: VecDeque<Todo>,
}

pub(crate) enum Todo {
    Ledger(ledger::Input),
    Call(usize, Input),
}

impl Rig {
    /// A box that has just been set up, with these tools. A finding fails the test that drives it. Its machines all leave redacted
    /// traces, which are replayed when their lives end: redaction changes no decision, and a replay decides the same.
    pub fn new(policies: BTreeMap<String, ToolPolicy>) -> Self {
        let mut rig = Self::without_traces(policies);
        let mut step = first_step();
        let start = LedgerStart { boot: BootId(1), policies: rig.policies.clone(), snapshot: Snapshot::default() };
        let (ledger, journal, _) = Journal::begin(&mut step, BootId(1), &rig.policies, start);
        (rig.ledger, rig.journal) = (ledger, Some(journal));
        rig
    }

    /// The same without traces, which is quicker.
    pub fn without_traces(policies: BTreeMap<String, ToolPolicy>) -> Self {
        let (ledger, effects) = Ledger::recover(&mut first_step(), BootId(1), policies.clone(), Snapshot::default());
        let mut rig = Self {
            now: 0,
            wall_synchronised: true,
            wall_jumped_ms: 0,
            seed: 1 << 64,
            policies,
            ledger_due: ledger.deadline().map(|at| at.0),
            ledger,
            boot: 1,
            store: Disk::new(BootId(1)),
            calls: Vec::new(),
            dispatched: Vec::new(),
            tools: Tools::default(),
            answers: BTreeMap::new(),
            measured: Vec::new(),
            link_ms: 0,
            line: Line::default(),
            watch: Watch::default(),
            findings: Findings::default(),
            settings: Settings::default(),
            best: Evidence::Received,
            by_hand: false,
            cancels: Vec::new(),
            inquiries: Vec::new(),
            hand_offs: Vec::new(),
            journal: None,
            requests: 0,
            requested: BTreeMap::new(),
            missed: BTreeSet::new(),
            queue: VecDeque::new(),
        };
        rig.ledger_effects(effects);
        rig
    }

    /// The ledger's trace so far, where it leaves one.
    pub fn trace(&self) -> Option<&str> {
        self.journal.as_ref().map(Journal::text)
    }

    pub(crate) fn step(&mut self) -> Step {
        self.seed += 1 << 64;
        Step::new(Time(self.now), self.wall(), self.seed)
    }

    fn wall(&self) -> Wall {
        let unix_ms = WALL_START_MS + i64::try_from(self.now).unwrap_or(0) + self.wall_jumped_ms;
        Wall { unix_ms, synchronised: self.wall_synchronised }
    }

    fn moment(&self) -> Moment {
        Moment { now: self.now, wall: self.wall(), boot: BootId(self.boot) }
    }

    /// Whether there is no more to be seen: something was found.
    pub(crate) fn stopped(&self) -> bool {
        self.findings.violation().is_some()
    }

    /// Senders of results that wait for their answer.
    pub(crate) fn unanswered(&self) -> Vec<RequestId> {
        self.requested.keys().filter(|request| !self.answers.contains_key(request)).copied().collect()
    }

    /// Kills the process: what was not committed is lost, and every call. Then starts it again.
    pub fn crash(&mut self, in_flight_kept: bool) {
        self.crash_keeping(if in_flight_kept { usize::MAX } else { 0 });
    }

    /// The same, with the first `kept` of the commits in flight having reached the disk.
    pub fn crash_keeping(&mut self, kept: usize) {
        self.findings.now = self.now;
        for (_, _, writes) in std::mem::take(&mut self.store.in_flight).into_iter().take(kept) {
            self.commit(&writes);
        }
        for mut call in self.calls.drain(..).filter(|call| !call.over) {
            call.voice.close(self.now);
            self.watch.told.call_over(&call);
        }
        self.tools.box_died(&self.store, &mut self.findings);
        self.queue.clear();
        self.dispatched.clear();
        self.cancels.clear();
        self.inquiries.clear();
        // Who was not answered asks again.
        self.requested.retain(|request, _| self.answers.contains_key(request));
        // What has left the box may be received all the same, and the box will send it again.
        for delivery in std::mem::take(&mut self.hand_offs) {
            self.watch.told.handed_off(delivery, false, &mut self.findings);
        }
        self.boot += 1;
        self.now += 2_000;
        let mut step = self.step();
        let snapshot = self.store.restart(BootId(self.boot));
        let start = LedgerStart { boot: BootId(self.boot), policies: self.policies.clone(), snapshot };
        let (ledger, effects) = match self.journal {
            Some(_) => {
                let (ledger, journal, effects) = Journal::begin(&mut step, BootId(self.boot), &self.policies, start);
                self.journal = Some(journal);
                (ledger, effects)
            }
            None => Ledger::recover(&mut step, start.boot, start.policies, start.snapshot),
        };
        self.ledger = ledger;
        self.ledger_due = self.ledger.deadline().map(|at| at.0);
        self.watch.commits.restarted(&self.store, &self.policies, self.now);
        self.ledger_effects(effects);
        self.drain();
    }

    /// Lets time pass, from one thing that happens to the next.
    pub fn run(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.now < end && !self.stopped() {
            self.now = self.next_event().unwrap_or(end).clamp(self.now + 1, end);
            self.findings.now = self.now;
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
            [edge, event, call.due, call.voice.next(self.now)]
        });
        let commit = self.store.in_flight.front().map(|(at, ..)| *at);
        calls.chain([commit, self.ledger_due]).flatten().min()
    }

    fn tick(&mut self) {
        while self.store.in_flight.front().is_some_and(|(at, ..)| *at <= self.now) {
            let Some((_, commit, writes)) = self.store.in_flight.pop_front() else { break };
            let failed = |reason: &str, missing| ledger::Input::CommitFailed { commit, reason: reason.into(), missing };
            let answer = match () {
                () if self.store.failing => failed("disk full", false),
                () if !self.commit(&writes) => failed("there is no such row", true),
                () => ledger::Input::Durable(commit),
            };
            self.queue.push_back(Todo::Ledger(answer));
        }
        for at in 0..self.calls.len() {
            self.media(at);
            if self.calls[at].due.is_some_and(|due| due <= self.now) {
                self.queue.push_back(Todo::Call(at, Input::Wake));
            }
        }
        if self.ledger_due.is_some_and(|due| due <= self.now) {
            self.queue.push_back(Todo::Ledger(ledger::Input::Wake));
        }
    }

    /// A transaction reaches the disk; whether what it changes is there.
    fn commit(&mut self, writes: &[ledger::Write]) -> bool {
        if let Some(batch) = self.store.misses(writes) {
            let refused = self.store.apply(writes).is_err();
            self.findings.check(refused, Invariant::Constraint, || format!("{batch} has been removed, and is changed: {writes:?}"));
            let first = self.missed.insert((BootId(self.boot), batch));
            self.findings.check(first, Invariant::Busy, || format!("{batch} has been removed, which was said before: {writes:?}"));
            return false;
        }
        let at = self.moment();
        self.watch.committing(&self.store, writes, at, (&self.policies, &self.tools), &mut self.findings);
        let applied = self.store.apply(writes);
        self.findings.check(applied.is_ok(), Invariant::Constraint, || format!("{applied:?}: {writes:?}"));
        let spoken =
            |write: &ledger::Write| matches!(write, ledger::Write::UpdateDelivery(record) if record.state == DeliveryState::Spoken);
        if writes.iter().any(spoken) {
            self.watch.told.listen_again(&self.calls);
        }
        self.watch.committed(&self.store, writes, &self.policies, &self.tools, &mut self.findings);
        true
    }

    /// The store removes what has been over for so long, as it does when it has nothing else to do.
    pub fn remove_over(&mut self, age_ms: i64) {
        let wall = self.wall();
        if wall.synchronised {
            self.store.remove(wall.unix_ms - age_ms);
        }
    }

    /// The media path of one call: the caller's edges, and what the voice does by itself.
    fn media(&mut self, at: usize) {
        let (now, arrives) = (self.now, self.now + self.link_ms);
        let call = &mut self.calls[at];
        while call.edges.front().is_some_and(|(when, ..)| *when <= now) {
            let Some((_, to, dated)) = call.edges.pop_front() else { break };
            let edge = call.voice.edge(to, dated, now);
            // The media path tells the edge before what came of it.
            call.to_conversation.push_back((arrives, Input::Acoustic(edge)));
            call.tells(arrives);
        }
        let released = call.voice.tick(now);
        call.tells(arrives);
        if let Some(released) = released {
            call.watch.owed_since = None;
            call.watch.frames.released(&released, &mut self.findings);
            let moment = self.moment();
            self.watch.told.released(&self.store, &self.calls[at], &released, moment, self.link_ms, &mut self.findings);
        }
        self.arrive(at);
    }

    pub(crate) fn arrive(&mut self, at: usize) {
        while self.calls[at].to_conversation.front().is_some_and(|(when, _)| *when <= self.now) {
            let Some((_, input)) = self.calls[at].to_conversation.pop_front() else { break };
            self.queue.push_back(Todo::Call(at, input));
        }
    }

    pub(crate) fn drain(&mut self) {
        let mut budget = 10_000;
        self.findings.now = self.now;
        while let Some(todo) = self.queue.pop_front() {
            budget -= 1;
            self.findings.check(budget > 0, Invariant::Busy, || "inputs breed inputs for ever".into());
            if self.stopped() {
                return;
            }
            let mut step = self.step();
            match todo {
                Todo::Ledger(input) => {
                    self.tools.asked_for(&input);
                    let effects = journal::handle(&mut self.journal, &mut self.ledger, &mut step, input);
                    self.ledger_due = self.ledger.deadline().map(|at| at.0);
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
        // The runtime has dropped it.
        if call.conversation.finished() {
            return;
        }
        if let Input::Playback(PlaybackEvent::Marked { segment, back: Mark::Cleared, .. }) = &input {
            self.watch.told.thrown_away(call, *segment);
        }
        if let Input::Playback(PlaybackEvent::Sent { segment, .. }) = &input {
            self.watch.consents.sent(call.session, *segment, call.conversation.turn());
        }
        if let Input::News(News::Update { envelope, text }) = &input {
            self.watch.told.has_news(envelope, text);
        }
        let due = call.due.is_some_and(|due| due <= now);
        let may = match call.watch.input(&input, &mut self.findings) {
            // A timer ends at the same time.
            May::OnlyWait | May::Anything if due => May::Wake,
            may => may,
        };
        let woken = input == Input::Wake;
        let effects = journal::handle(&mut call.journal, &mut call.conversation, &mut step, input);
        call.handled();
        call.watch.took(call.conversation.edges(), &mut self.findings);
        call.watch.effects(may, &effects, &call.voice, call.over, &mut self.findings);
        call.watch.history.settles(&effects, &call.voice, call.voicemail, &mut self.findings);
        self.watch.trace(&effects);
        self.call_effects(at, effects);
        if woken && self.queue.is_empty() {
            let mut step = self.step();
            let call = &mut self.calls[at];
            let again = journal::handle(&mut call.journal, &mut call.conversation, &mut step, Input::Wake);
            call.handled();
            let deadline = call.due;
            let rests = again.is_empty() && deadline.is_none_or(|at| at > now);
            self.findings.check(rests, Invariant::Busy, || {
                format!("woken, the deadline is {deadline:?}, and woken again it has effects: {again:?}")
            });
        }
    }

    fn ledger_effects(&mut self, effects: Vec<ledger::Effect>) {
        for effect in effects {
            match effect {
                ledger::Effect::Persist { commit, writes } => {
                    let at = self.moment();
                    let unanswered = self.queue.iter().any(|todo| matches!(todo, Todo::Ledger(ledger::Input::Durable(_))));
                    self.watch.asked(&self.store, &writes, unanswered, &self.policies, at, &mut self.findings);
                    let at = (self.now + self.store.delay_ms).max(self.store.in_flight.back().map_or(0, |(at, ..)| *at));
                    self.store.in_flight.push_back((at, commit, writes));
                }
                ledger::Effect::Dispatch(dispatch) => {
                    let record = self.store.operations.get(&dispatch.operation);
                    let idempotent = self.policies.get(&dispatch.tool).is_some_and(|policy| policy.idempotent);
                    self.tools.dispatched(&dispatch, record, idempotent, &mut self.findings);
                    self.tools.runs_anew(&dispatch, &self.store, &self.policies, &mut self.findings);
                    self.dispatched.push(dispatch);
                }
                ledger::Effect::Cancel(request) => {
                    self.watch.commits.asks_to_cancel(request.operation, &mut self.findings);
                    self.cancels.retain(|before| before.operation != request.operation);
                    if self.by_hand {
                        self.cancels.push(request);
                        continue;
                    }
                    let (operation, request) = (request.operation, request.request);
                    let outcome = ledger::CancelOutcome::Unsupported;
                    self.queue.push_back(Todo::Ledger(ledger::Input::CancelAttempted { operation, request, outcome }));
                }
                ledger::Effect::Inquire(inquiry) => {
                    self.inquiries.retain(|before| before.operation != inquiry.operation);
                    if self.by_hand {
                        self.inquiries.push(inquiry);
                        continue;
                    }
                    let (operation, request) = (inquiry.operation, inquiry.request);
                    let outcome = ledger::InquiryOutcome::Unsupported;
                    self.queue.push_back(Todo::Ledger(ledger::Input::Inquired { operation, request, outcome }));
                }
                ledger::Effect::HandOff(hand_off) => self.hands_off(hand_off.delivery),
                ledger::Effect::Answer { request, answer } => self.answers(request, answer),
                ledger::Effect::Tell { session, news } => {
                    if let Some(at) = self.calls.iter().position(|call| call.session == session) {
                        self.queue.push_back(Todo::Call(at, Input::News(news)));
                    }
                }
                ledger::Effect::Measured(measure) => self.measured.push(measure),
            }
        }
    }

    /// A delivery goes another way: its claim is durable, so that nobody speaks it meanwhile (I17).
    fn hands_off(&mut self, delivery: DeliveryId) {
        let claim = self.store.claims.get(&delivery).map(|(_, boot, route)| (*boot, *route));
        let its_own = claim == Some((BootId(self.boot), Route::HandOff));
        self.findings.check(its_own, Invariant::I17, || format!("{delivery} is handed off, and its claim on record is {claim:?}"));
        if self.by_hand {
            self.hand_offs.push(delivery);
            return;
        }
        self.watch.told.handed_off(delivery, true, &mut self.findings);
        let outcome = ledger::HandOffOutcome::Acknowledged;
        self.queue.push_back(Todo::Ledger(ledger::Input::HandOffAttempted { delivery, outcome }));
    }

    /// Who sent a result, or took one back, is answered (R3).
    fn answers(&mut self, request: RequestId, answer: CallbackAnswer) {
        if answer == CallbackAnswer::Recorded {
            let record = self.requested.get(&request).and_then(|operation| self.store.operation_ever(*operation));
            let durable = record.is_some_and(|record| record.state.settled());
            self.findings.check(durable, Invariant::I16, || format!("R3: confirmed, and on record is {record:?}"));
            if let Some(record) = record.filter(|_| !self.tools.retracted.contains_key(&request)) {
                self.tools.confirmed(request, record, &mut self.findings);
            }
            if let Some(&(operation, since)) = self.tools.retracted.get(&request) {
                let tells = |delivery: &&DeliveryRecord| {
                    !delivery.state.terminal() && delivery.clauses.iter().any(|clause| clause.operation == operation)
                };
                // What comes after it is news.
                let known = |delivery: &&DeliveryRecord| self.watch.commits.made_before(delivery.id, since);
                let left = self.store.deliveries.values().filter(known).find(tells);
                self.findings.check(left.is_none(), Invariant::I10, || format!("{operation} was taken back, and is to be told: {left:?}"));
            }
        }
        let there = self.requested.get(&request).filter(|operation| self.store.operations.contains_key(operation));
        self.findings.check(answer != CallbackAnswer::Unknown || there.is_none(), Invariant::I16, || {
            format!("R3: answered as unknown, and {there:?} is on record")
        });
        let again = self.answers.insert(request, answer);
        self.findings.check(again.is_none(), Invariant::I16, || format!("{request:?} is answered twice"));
    }

    pub(crate) fn call_effects(&mut self, at: usize, effects: Vec<Effect>) {
        for effect in effects {
            let now = self.now;
            let call = &mut self.calls[at];
            if let Effect::Speak { segment, purpose, .. } = &effect {
                self.watch.told.speaks(&self.store, call, segment.playback, purpose, BootId(self.boot), &mut self.findings);
            }
            match &effect {
                Effect::Speak { segment, content, purpose: Purpose::ReadBack { read_back }, .. } => {
                    self.watch.consents.speaks(call.session, *segment, *read_back, content);
                }
                Effect::Speak { purpose: Purpose::Acceptance { batch }, .. } => {
                    let durable = self.store.batch_ever(*batch).is_some();
                    self.findings.check(durable, Invariant::I16, || format!("R1: {batch} is accepted aloud before it is durable"));
                }
                Effect::Speak { purpose: Purpose::Progress { delivery, .. }, .. } => {
                    self.watch.told.says_news(&self.store, *delivery, &self.policies, &self.tools, &mut self.findings);
                }
                Effect::Cancelling(cancellation) => {
                    let durable = cancellation.cancelling.iter().all(|operation| self.watch.commits.was_cancelling(*operation));
                    self.findings.check(durable, Invariant::I16, || format!("R6: {cancellation:?} is spoken of before it is durable"));
                }
                Effect::ToolOutput { operation: Some(operation), .. } => {
                    let durable = self.store.operation_ever(*operation).is_some();
                    self.findings.check(durable, Invariant::I16, || format!("R1: the model is told of {operation} before it is durable"));
                }
                _ => {}
            }
            match effect {
                Effect::Speak { segment, content, purpose, epoch } => call.voice.speak(segment, purpose, &content, epoch, now),
                Effect::Resume { playback, epoch } => call.voice.resume(playback, epoch, now),
                Effect::Clear { playback } => call.voice.clear(playback, now),
                Effect::Respond { response, cause } => {
                    call.asked.push((response, cause));
                    call.asked_at = now;
                }
                Effect::CancelResponse { response } => call.cancelled.push(response),
                Effect::Truncate { response, heard_ms, heard_text } => call.truncated.push((response, heard_ms, heard_text)),
                Effect::Told { text, .. } => call.told.push(text),
                Effect::Ledger(input) => self.queue.push_back(Todo::Ledger(*input)),
                Effect::HangUp => {
                    call.hung_up = true;
                    let within_ms = self.settings.timers.ms(Timer::HangUpMax);
                    self.watch.hung_up(&self.store, &self.calls[at], self.moment(), within_ms, &mut self.findings);
                }
                Effect::Decided(decision) => call.decisions.push(decision),
                Effect::Heard(heard) => call.history.push(heard),
                Effect::Verify { attempt, digits } => {
                    let (asked, party) = (call.watch.asks_pin, call.party.clone());
                    let may = asked && party.is_some() && !digits.expose().is_empty();
                    self.findings
                        .check(may, Invariant::I14, || format!("keys of {party:?} are taken for a PIN, though nobody has asked for any"));
                    call.pins.push_back(attempt);
                    call.watch.pin_given(attempt);
                }
                other @ (Effect::ToolOutput { .. }
                | Effect::Verification { .. }
                | Effect::Measured(_)
                | Effect::Update { .. }
                | Effect::Cancelling(_)
                | Effect::Work { .. }
                | Effect::Doubted { .. }) => call.outputs.push(other),
            }
        }
        self.calls[at].tells(self.now + self.link_ms);
        self.arrive(at);
    }

    /// What must hold whenever everything that happened has been taken in.
    fn look(&mut self) {
        let now = self.now;
        for call in self.calls.iter_mut().filter(|call| !call.over) {
            call.watch.in_time(now);
            let plays = call.shows == Some(PlaybackState::Playing);
            let since = call.watch.frames.playing(plays, now);
            let sounds =
                since.is_none_or(|since| now <= since + 1_000 + FRAME + 2 * self.link_ms.max(1) || call.voice.stalled_until + 1_000 >= now);
            self.findings.check(sounds, Invariant::I20, || format!("it plays without frames since {since:?}"));
        }
        let at = self.moment();
        self.watch.cancels_go_on(now, &mut self.findings);
        self.watch.idle(&self.store, &mut self.calls, at, &self.settings.timers, &mut self.findings);
    }
}

fn first_step() -> Step {
    Step::new(Time(0), Wall { unix_ms: WALL_START_MS, synchronised: true }, 1)
}

/// What the wall clock shows at the start (ms since the Unix epoch).
const WALL_START_MS: i64 = 1_000_000;
