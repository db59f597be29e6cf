//! The real ledger behind the specification's alphabet: its inputs are spelt out, its effects are named by place, and its
//! store is the simulator's.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use recado_core::conversation::input::ToolCall;
use recado_core::ledger;
use recado_core::ledger::{
    AttemptOutcome, CallbackAnswer, CancelOutcome, ClauseEvidence, CommitId, DeliveryRecord, Effect, Executed, Ledger, News,
    OperationResult, RequestId, Route, Write,
};
use recado_core::policy::{Language, Localised, Retry, Sayings, ToolPolicy};
use recado_core::{BatchId, BootId, DeliveryId, OperationId, PartyId, ResponseId, SessionId, Step, Time, TurnId, Wall};
use recado_sim::store::{MemoryStore, Store};
use serde_json::json;

use crate::alphabet::{
    Answer, Attempted, Call, Cancelled, Delivery, DeliveryView, Input, Machine, Operation, OperationView, Output, Scope, View,
};

/// The real ledger, with its store.
#[derive(Debug, Clone)]
pub struct Real {
    ledger: Ledger,
    store: MemoryStore,
    in_flight: Option<(CommitId, Vec<Write>)>,
    now: u64,
    boot: u128,
    /// Inputs since the transaction in flight began, or the back-off.
    waiting: u8,
    backing_off: bool,
    operations: Vec<Option<OperationId>>,
    batch: Option<BatchId>,
    /// The batch of what is newer: its transactions are not what is explored, and are committed at once.
    newer: Option<BatchId>,
    /// Of everything that can make a difference.
    fingerprint: u64,
}

impl Real {
    /// Gives one input to the ledger, and carries out what comes of it.
    fn hand(&mut self, seed: u128, input: ledger::Input, out: &mut Vec<Output>) {
        let mut step = self.step(seed);
        let effects = self.ledger.handle(&mut step, input);
        self.carry(effects, out);
    }

    /// Identifiers depend on what there is, not on the way there: one state has one form.
    fn step(&self, seed: u128) -> Step {
        Step::new(Time(self.now), Wall::default(), seed << 64)
    }

    fn carry(&mut self, effects: Vec<Effect>, out: &mut Vec<Output>) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Persist { commit, writes } => {
                    self.learn(&writes);
                    if self.newer.is_some() && writes.iter().any(|write| batch_of(write) == self.newer) {
                        self.commit(&writes);
                        let mut step = self.step(NEWER_SEED);
                        effects.extend(self.ledger.handle(&mut step, ledger::Input::Durable(commit)));
                    } else {
                        assert!(self.in_flight.is_none(), "one transaction of a batch at a time");
                        self.in_flight = Some((commit, writes));
                    }
                }
                Effect::Dispatch(dispatch) => {
                    let attempt = small(dispatch.attempt);
                    out.extend(self.place(dispatch.operation).map(|operation| Output::Dispatch(operation, attempt)));
                }
                Effect::Cancel(request) => {
                    let number = small(request.request);
                    out.extend(self.place(request.operation).map(|operation| Output::CancelRequest(operation, number)));
                }
                Effect::Answer { request, answer } => {
                    let operation = usize::try_from(request.0).unwrap_or_default();
                    out.push(Output::Answer(operation, answered(&answer)));
                }
                Effect::Tell { session, news } => {
                    let call = usize::try_from(session.0).unwrap_or_default();
                    out.extend(self.news(call, news));
                }
                // No policy here hands anything off.
                // No policy here hands anything off, or lets its tool be asked.
                Effect::HandOff(_) | Effect::Inquire(_) | Effect::Measured(_) => {}
            }
        }
    }

    /// Learns which identifiers belong to what, from the rows that name it.
    fn learn(&mut self, writes: &[Write]) {
        for write in writes {
            if let Write::CreateOperation(record) = write {
                match record.arguments.as_u64().and_then(|place| usize::try_from(place).ok()) {
                    Some(place) => {
                        self.batch = Some(record.batch);
                        self.operations.iter_mut().skip(place).take(1).for_each(|known| *known = Some(record.id));
                    }
                    None => self.newer = Some(record.batch),
                }
            }
        }
    }

    fn news(&self, call: Call, news: News) -> Option<Output> {
        match news {
            News::Accepted(acceptance) => Some(Output::Accepted(call, self.place(acceptance.operation)?)),
            News::Refused { call_id, .. } => Some(Output::Refused(call, call_id.parse().ok()?)),
            News::Offered(envelope) => Some(Output::Offered(call, self.order(envelope.delivery)?)),
            News::Withdrawn { delivery } => Some(Output::Withdrawn(call, self.order(delivery)?)),
            News::Claimed { delivery, clauses } => {
                let words = clauses.iter().filter_map(|spoken| spoken.clause).collect();
                Some(Output::Claimed(call, self.order(delivery)?, words))
            }
            News::ClaimRefused { delivery } => Some(Output::ClaimRefused(call, self.order(delivery)?)),
            // No obligation, and what is said of a cancel: neither changes what is owed.
            News::Update { .. } | News::Cancelling(_) | News::ReadBack { .. } | News::Work { .. } => None,
        }
    }

    fn place(&self, id: OperationId) -> Option<Operation> {
        self.operations.iter().position(|known| *known == Some(id))
    }

    fn deliveries(&self) -> Vec<&DeliveryRecord> {
        let mut rows: Vec<_> = self.store.deliveries.values().filter(|row| Some(row.batch) == self.batch).collect();
        rows.sort_by_key(|row| row.sequence);
        rows
    }

    fn order(&self, id: DeliveryId) -> Option<Delivery> {
        self.deliveries().iter().position(|row| row.id == id)
    }

    fn commit(&mut self, writes: &[Write]) {
        let applied = self.store.apply(writes);
        assert!(applied.is_ok(), "the store refuses it: {applied:?}");
    }

    fn power_cut(&mut self, scope: &Scope, kept: bool, out: &mut Vec<Output>) {
        if let Some((_, writes)) = self.in_flight.take().filter(|_| kept) {
            self.commit(&writes);
        }
        self.boot += 1;
        let mut step = self.step(self.seed());
        let (ledger, effects) = Ledger::recover(&mut step, BootId(self.boot), policies(scope), self.store.restart(BootId(self.boot)));
        self.ledger = ledger;
        self.carry(effects, out);
    }

    /// For whatever an input creates, other than operations.
    fn seed(&self) -> u128 {
        let coming = self.in_flight.iter().flat_map(|(_, writes)| writes).filter(|write| matches!(write, Write::CreateDelivery(_))).count();
        DELIVERY_SEED + u128::try_from(self.store.deliveries.len() + coming).unwrap_or_default()
    }

    fn take(&mut self, scope: &Scope, input: &Input, out: &mut Vec<Output>) {
        let session = |call: Call| SessionId(u128::try_from(call).unwrap_or_default());
        let id = |delivery: Delivery| self.deliveries().get(delivery).map_or(DeliveryId(u128::MAX), |row| row.id);
        let operation = |place: Operation| self.operations.get(place).copied().flatten().unwrap_or(OperationId(u128::MAX));
        let seed = self.seed();
        let input = match *input {
            Input::Accept(call, place) => {
                let seed = u128::try_from(place + 1).unwrap_or_default();
                let ask = ask(session(call), if call == 0 { ASKING } else { ResponseId(100) }, place, json!(place));
                return self.hand(seed, ask, out);
            }
            Input::Newer(call) => {
                let ask = ask(session(call), ResponseId(200), 0, json!("newer"));
                return self.hand(NEWER_SEED, ask, out);
            }
            Input::Seal => ledger::Input::Seal { session: session(0), response: ASKING },
            Input::Cancel(call) => ledger::Input::Cancel { session: session(call), tool: None, operation: None, verified: true },
            Input::Attempted(place, attempt, how) => {
                ledger::Input::Attempted { operation: operation(place), attempt: attempt.into(), outcome: outcome(how) }
            }
            Input::CancelAnswered(place, request, how) => {
                ledger::Input::CancelAttempted { operation: operation(place), request: request.into(), outcome: cancelled(how) }
            }
            Input::Callback(place) => ledger::Input::Callback {
                request: RequestId(u64::try_from(place).unwrap_or_default()),
                operation: operation(place),
                result: OperationResult::Succeeded(json!(7)),
            },
            Input::Up(call) => up(session(call)),
            Input::Over(call) => ledger::Input::SessionOver { session: session(call) },
            Input::Claim(call, delivery) => ledger::Input::Claim { session: session(call), delivery: id(delivery), route: Route::Announce },
            Input::Release(call, delivery) => ledger::Input::Release { session: session(call), delivery: id(delivery) },
            Input::FirstFrame(call, delivery) => ledger::Input::FirstFrame { session: session(call), delivery: id(delivery) },
            Input::Settled(call, delivery, ref evidence) => {
                let clauses = evidence.iter().map(|&(clause, verdict)| ClauseEvidence { clause, verdict: verdict.into() }).collect();
                ledger::Input::Settled { session: session(call), delivery: id(delivery), clauses }
            }
            Input::Suppress(delivery) => ledger::Input::Suppress { delivery: id(delivery) },
            Input::Pause => {
                self.now += PAUSE_MS;
                ledger::Input::Wake
            }
            Input::Deadline => {
                self.now += 2 * DEADLINE_MS;
                ledger::Input::Wake
            }
            Input::Durable => {
                let Some((commit, writes)) = self.in_flight.take() else { return };
                self.commit(&writes);
                ledger::Input::Durable(commit)
            }
            Input::Failed => {
                let Some((commit, _)) = self.in_flight.take() else { return };
                ledger::Input::CommitFailed { commit, reason: "disk full".into(), missing: false }
            }
            Input::PowerCut { kept } => return self.power_cut(scope, kept, out),
        };
        self.hand(seed, input, out);
    }

    /// Of the ledger and its store as they print themselves, without what makes no difference: points in time, but for whether
    /// they have come; numbers of transactions; the digits of identifiers, but for which is which.
    fn fingerprint(&self) -> u64 {
        let mut text = String::new();
        let _ = write!(text, "{:?} {:?} {:?} {} {}", self.ledger, self.store, self.in_flight, self.waiting, self.backing_off);
        let mut plain = String::with_capacity(text.len());
        let mut names: Vec<&str> = Vec::new();
        let mut rest = text.as_str();
        while let Some(at) = MARKS.iter().filter_map(|mark| Some(rest.find(mark)? + mark.len())).min() {
            let (before, after) = rest.split_at(at);
            let end = after.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(after.len());
            let (value, after) = after.split_at(end);
            plain.push_str(before);
            if before.ends_with("Time(") {
                plain.push(if value.parse::<u64>().is_ok_and(|at| at > self.now) { 'l' } else { 'p' });
            } else if before.ends_with('_') {
                let known = names.iter().position(|name| *name == value).unwrap_or_else(|| {
                    names.push(value);
                    names.len() - 1
                });
                let _ = write!(plain, "{known}");
            }
            rest = after;
        }
        plain.push_str(rest);
        let mut hasher = DefaultHasher::new();
        plain.hash(&mut hasher);
        hasher.finish()
    }
}

impl Machine for Real {
    fn new(scope: &Scope) -> Self {
        let mut step = Step::new(Time(0), Wall::default(), 0);
        let mut store = MemoryStore::default();
        let (ledger, _) = Ledger::recover(&mut step, BootId(1), policies(scope), store.restart(BootId(1)));
        let mut real = Self {
            ledger,
            store,
            in_flight: None,
            now: 0,
            boot: 1,
            waiting: 0,
            backing_off: false,
            operations: vec![None; scope.idempotent.len()],
            batch: None,
            newer: None,
            fingerprint: 0,
        };
        real.hand(0, up(SessionId(0)), &mut Vec::new());
        real
    }

    fn give(&mut self, scope: &Scope, input: &Input) -> Vec<Output> {
        let mut out = Vec::new();
        let busy = self.in_flight.is_some() || self.backing_off;
        match input {
            Input::Durable => self.waiting = 0,
            Input::Pause | Input::PowerCut { .. } => (self.waiting, self.backing_off) = (0, false),
            Input::Failed => self.backing_off = self.store.batches.keys().any(|id| Some(*id) == self.batch),
            _ => self.waiting += u8::from(busy),
        }
        self.take(scope, input, &mut out);
        if scope.overlap > 0 {
            self.fingerprint = self.fingerprint();
        }
        out
    }

    fn view(&self) -> View {
        let Some(batch) = self.batch.and_then(|id| self.store.batches.get(&id)) else { return View::default() };
        let row = |id: &Option<OperationId>| {
            let row = self.store.operations.get(&(*id)?)?;
            Some(OperationView { state: row.state, attempt: small(row.attempt), maybe: row.maybe_executed })
        };
        let delivery = |row: &DeliveryRecord| DeliveryView {
            kind: row.kind,
            state: row.state,
            attempt: small(row.attempt),
            clauses: row
                .clauses
                .iter()
                .map(|clause| (self.place(clause.operation).unwrap_or(usize::MAX), clause.heard.is_some()))
                .collect(),
            claim: self.store.claims.get(&row.id).map(|(session, _, _)| usize::try_from(session.0).unwrap_or_default()),
        };
        View {
            batch: Some(batch.state),
            operations: self.operations.iter().map(row).collect(),
            deliveries: self.deliveries().into_iter().map(delivery).collect(),
        }
    }

    fn in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    fn open(&self, scope: &Scope) -> bool {
        !(self.in_flight.is_some() || self.backing_off) || self.waiting < scope.overlap
    }

    fn pausing(&self) -> bool {
        let soon = |at: Time| at.0 > self.now && at.since(Time(self.now)) < DEADLINE_MS / 2;
        self.in_flight.is_none() && (self.backing_off || self.ledger.deadline().is_some_and(soon))
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for Real {}

impl Hash for Real {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

fn up(session: SessionId) -> ledger::Input {
    ledger::Input::SessionUp { session, party: Some(PartyId("ana".into())), language: Language::Es }
}

/// Always in one turn: a caller who asks again in another one, after the closing, wants it done again.
fn ask(session: SessionId, response: ResponseId, place: Operation, arguments: serde_json::Value) -> ledger::Input {
    let call = ToolCall { call_id: place.to_string(), tool: format!("tool_{place}"), arguments, confirmed: false };
    ledger::Input::Accept { session, turn: TurnId(1), response, call }
}

fn outcome(how: Attempted) -> AttemptOutcome {
    let failed = |executed| AttemptOutcome::Failed { error: "no".into(), executed, retryable: true, retry_after_ms: None };
    match how {
        Attempted::Succeeded => AttemptOutcome::Succeeded(json!(7)),
        Attempted::NotExecuted => failed(Executed::No),
        Attempted::Maybe => failed(Executed::Maybe),
    }
}

fn cancelled(how: Cancelled) -> CancelOutcome {
    match how {
        Cancelled::Recalled => CancelOutcome::Recalled,
        Cancelled::Unsupported => CancelOutcome::Unsupported,
        Cancelled::Cancelled => CancelOutcome::Cancelled,
        Cancelled::Compensated => CancelOutcome::Compensated,
        Cancelled::TooLate => CancelOutcome::TooLate { result: Some(json!(7)) },
        Cancelled::TooLateWithoutResult => CancelOutcome::TooLate { result: None },
    }
}

fn answered(answer: &CallbackAnswer) -> Answer {
    match answer {
        CallbackAnswer::Recorded => Answer::Recorded,
        CallbackAnswer::Unavailable => Answer::Unavailable,
        CallbackAnswer::Conflict | CallbackAnswer::Unknown | CallbackAnswer::Noted | CallbackAnswer::Over => Answer::Conflict,
    }
}

fn policies(scope: &Scope) -> BTreeMap<String, ToolPolicy> {
    let say = Sayings { done: Localised { es: Some("Hecho: {{ result }}.".into()), en: None }, ..Sayings::default() };
    let policy = |idempotent: &bool| ToolPolicy {
        idempotent: *idempotent,
        cancellable: scope.cancellable,
        deadline_ms: DEADLINE_MS,
        retry: Retry { attempts_max: scope.attempts_max.into(), backoff_ms: 1_000, backoff_ms_max: 1_000 },
        topic: scope.newer.then(|| "topic".to_owned()),
        uncertain: scope.uncertain,
        say: say.clone(),
        ..ToolPolicy::default()
    };
    scope.idempotent.iter().enumerate().map(|(place, idempotent)| (format!("tool_{place}"), policy(idempotent))).collect()
}

fn batch_of(write: &Write) -> Option<BatchId> {
    match write {
        Write::CreateOperation(row) | Write::UpdateOperation(row) => Some(row.batch),
        Write::CreateBatch(row) | Write::UpdateBatch(row) => Some(row.id),
        Write::CreateDelivery(row) | Write::UpdateDelivery(row) => Some(row.batch),
        Write::Claim { .. } | Write::Unclaim { .. } => None,
    }
}

fn small(count: u32) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

/// The response that asks.
const ASKING: ResponseId = ResponseId(1);

/// Identifiers of what a newer request creates.
const NEWER_SEED: u128 = 1_000;

/// Identifiers of deliveries, above those of what they belong to.
const DELIVERY_SEED: u128 = 2_000;

/// Longer than every back-off.
const PAUSE_MS: u64 = 60_000;

/// Longer than all pauses together.
const DEADLINE_MS: u64 = 1_000_000_000;

/// What stands before a value that makes no difference by itself.
const MARKS: [&str; 7] = ["Time(", "CommitId(", "next_commit: ", "dlv_", "op_", "bat_", "next_sequence: "];
