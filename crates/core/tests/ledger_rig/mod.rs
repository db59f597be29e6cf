//! A ledger with a store in memory, and a judge that looks at every effect: what the contract wants durable before it (R1–R6),
//! and what it rules out (I1, I3, I14, I17).

#![allow(dead_code, reason = "each scenario file uses its own part of the rig")]

mod store;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use recado_core::conversation::input::{Evidence, ToolCall};
use recado_core::ledger::*;
use recado_core::policy::{Language, Localised, Sayings, ToolPolicy};
use recado_core::{BootId, DeliveryId, OperationId, PartyId, ResponseId, SessionId, Step, Time, TurnId, Wall};
use serde_json::{Value, json};

pub use store::Store;

pub const CALL: SessionId = SessionId(1);
pub const LATER_CALL: SessionId = SessionId(2);
pub const OTHERS_CALL: SessionId = SessionId(9);

/// A box: its ledger, its store, and everything that came out.
pub struct Rig {
    pub ledger: Ledger,
    pub store: Store,
    pub policies: BTreeMap<String, ToolPolicy>,
    pub now: u64,
    pub wall: Wall,
    pub boot: u128,
    pub in_flight: VecDeque<(CommitId, Vec<Write>)>,
    /// Whether the store answers at once.
    pub prompt: bool,
    pub commits: usize,
    pub dispatched: Vec<Dispatch>,
    pub cancels: Vec<CancelRequest>,
    /// What tools are asked of how operations stand.
    pub inquiries: Vec<Inquiry>,
    pub hand_offs: Vec<HandOff>,
    /// Requests that take a result back.
    pub retractions: BTreeSet<RequestId>,
    pub answers: Vec<(RequestId, CallbackAnswer)>,
    pub news: Vec<(SessionId, News)>,
    pub measures: Vec<LedgerMeasure>,
    pub parties: BTreeMap<SessionId, Option<PartyId>>,
    /// Attempts that may have taken effect.
    pub maybe: BTreeSet<OperationId>,
    seed: u128,
    requests: u64,
    calls: u32,
}

pub fn policies() -> BTreeMap<String, ToolPolicy> {
    let say = |done: &str, short: &str| Sayings {
        done: Localised { es: Some(done.into()), en: Some(format!("EN {done}")) },
        short: Localised { es: Some(short.into()), en: None },
        failed: Localised { es: Some("Falló.".into()), en: None },
        unknown: Localised { es: Some("No se sabe.".into()), en: None },
        ..Sayings::default()
    };
    let pay = ToolPolicy { say: say("Pagado {{ result.id }}.", "Pagado."), ..ToolPolicy::default() };
    let ticket = ToolPolicy { idempotent: true, say: say("Incidencia {{ result.id }} abierta.", "Abierta."), ..ToolPolicy::default() };
    BTreeMap::from([("pay".to_owned(), pay), ("ticket".to_owned(), ticket)])
}

pub fn wall(now: u64) -> Wall {
    Wall { unix_ms: 1_790_000_000_000 + i64::try_from(now).unwrap(), synchronised: true }
}

impl Rig {
    pub fn new() -> Self {
        Self::with(policies())
    }

    pub fn with(policies: BTreeMap<String, ToolPolicy>) -> Self {
        let mut step = Step::new(Time(0), wall(0), 1);
        let (ledger, effects) = Ledger::recover(&mut step, BootId(1), policies.clone(), Snapshot::default());
        assert_eq!(effects, [], "a new box has nothing to do");
        Self {
            ledger,
            store: Store::new(BootId(1)),
            policies,
            now: 0,
            wall: wall(0),
            boot: 1,
            in_flight: VecDeque::new(),
            prompt: true,
            commits: 0,
            dispatched: Vec::new(),
            cancels: Vec::new(),
            inquiries: Vec::new(),
            hand_offs: Vec::new(),
            retractions: BTreeSet::new(),
            answers: Vec::new(),
            news: Vec::new(),
            measures: Vec::new(),
            parties: BTreeMap::new(),
            maybe: BTreeSet::new(),
            seed: 1_000,
            requests: 0,
            calls: 0,
        }
    }

    pub fn step(&mut self) -> Step {
        self.seed += 1;
        Step::new(Time(self.now), self.wall, self.seed * 0x1234_5678_9abc_def1_0000_0000_1357)
    }

    /// Gives an input and carries out what comes of it.
    pub fn give(&mut self, input: Input) {
        if let Input::Attempted { operation, outcome: AttemptOutcome::Failed { executed: Executed::Maybe, .. }, .. } = &input {
            self.maybe.insert(*operation);
        }
        let mut step = self.step();
        let effects = self.ledger.handle(&mut step, input);
        self.carry(effects);
    }

    fn carry(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.judge(&effect);
            match effect {
                Effect::Persist { commit, writes } => {
                    self.commits += 1;
                    self.in_flight.push_back((commit, writes));
                }
                Effect::Dispatch(dispatch) => self.dispatched.push(dispatch),
                Effect::Cancel(request) => self.cancels.push(request),
                Effect::Inquire(inquiry) => self.inquiries.push(inquiry),
                Effect::HandOff(hand_off) => self.hand_offs.push(*hand_off),
                Effect::Answer { request, answer } => self.answers.push((request, answer)),
                Effect::Tell { session, news } => self.news.push((session, news)),
                Effect::Measured(measure) => self.measures.push(measure),
            }
        }
        if self.prompt {
            self.all_durable();
        }
    }

    /// The store finishes its oldest transaction.
    pub fn durable(&mut self) {
        if self.in_flight.front().is_some_and(|(_, writes)| self.store.misses(writes).is_some()) {
            return self.missing();
        }
        if let Some((commit, writes)) = self.in_flight.pop_front() {
            self.store.apply(&writes).expect("the store's constraints hold");
            self.give(Input::Durable(commit));
        }
    }

    /// The store fails its oldest transaction.
    pub fn fail(&mut self) {
        if let Some((commit, _)) = self.in_flight.pop_front() {
            self.give(Input::CommitFailed { commit, reason: "disk full".into(), missing: false });
        }
    }

    /// The store has removed what its oldest transaction would have changed.
    pub fn missing(&mut self) {
        self.store.remove(self.wall.unix_ms + 1);
        if let Some((commit, _)) = self.in_flight.pop_front() {
            self.give(Input::CommitFailed { commit, reason: "no such operation".into(), missing: true });
        }
    }

    /// Time passes, waking the ledger when it asks for it.
    pub fn pass(&mut self, ms: u64) {
        let end = self.now + ms;
        for _ in 0..100_000 {
            match self.ledger.deadline() {
                Some(Time(at)) if at <= end => {
                    self.set(at.max(self.now));
                    self.give(Input::Wake);
                }
                _ => {
                    self.set(end);
                    return;
                }
            }
        }
        panic!("the ledger asks to be woken without end at {}: {:?}", self.now, self.ledger.deadline());
    }

    fn set(&mut self, now: u64) {
        self.wall.unix_ms += i64::try_from(now - self.now).unwrap();
        self.now = now;
    }

    /// The power goes and comes back; transactions in flight were kept or not.
    pub fn crash(&mut self, kept: usize) {
        for (_, writes) in self.in_flight.drain(..).collect::<Vec<_>>().into_iter().take(kept) {
            if self.store.misses(&writes).is_some() {
                continue;
            }
            self.store.apply(&writes).expect("the store's constraints hold");
        }
        // What was out when the power went may have taken effect.
        for row in self.store.operations.values() {
            if row.attempt > 0 && row.state == OperationState::Running {
                self.maybe.insert(row.id);
            }
        }
        self.boot += 1;
        self.parties.clear();
        let mut step = self.step();
        let snapshot = self.store.restart(BootId(self.boot));
        let (ledger, effects) = Ledger::recover(&mut step, BootId(self.boot), self.policies.clone(), snapshot);
        self.ledger = ledger;
        self.carry(effects);
    }

    fn judge(&self, effect: &Effect) {
        match effect {
            Effect::Dispatch(dispatch) => {
                let row = self.store.operations.get(&dispatch.operation).expect("R1: dispatched before its operation was durable");
                assert_eq!((row.state, row.attempt), (OperationState::Running, dispatch.attempt), "R2");
                let again = self.dispatched.iter().filter(|other| other.operation == dispatch.operation).collect::<Vec<_>>();
                assert!(again.iter().all(|other| other.attempt < dispatch.attempt), "R2: attempt {} twice", dispatch.attempt);
                let idempotent = self.policies.get(&dispatch.tool).is_some_and(|policy| policy.idempotent);
                assert!(idempotent || !self.maybe.contains(&dispatch.operation), "I3: sent again though it may have taken effect");
                assert!(again.iter().all(|other| other.intent_key == dispatch.intent_key), "one key for all attempts");
            }
            Effect::Cancel(request) => {
                let row = &self.store.operations[&request.operation];
                assert_eq!(row.state, OperationState::Cancelling, "R6: asked to be cancelled before that was durable");
            }
            Effect::Inquire(inquiry) => {
                let row = &self.store.operations[&inquiry.operation];
                assert_eq!(row.attempt, inquiry.attempt, "asked about an attempt that is not on record");
                let open = matches!(row.state, OperationState::Running | OperationState::Cancelling | OperationState::Unknown);
                assert!(open, "asked how it stands, and that is on record: {row:?}");
            }
            Effect::HandOff(hand_off) => {
                let row = &self.store.deliveries[&hand_off.delivery];
                assert_eq!(row.state, DeliveryState::Claimed, "handed off before its claim was durable");
                assert_eq!(self.store.claims.get(&hand_off.delivery), Some(&(row.session, BootId(self.boot), Route::HandOff)), "I17");
                assert!(!hand_off.text.is_empty() && !hand_off.operations.is_empty(), "a hand-off says what it is about");
            }
            Effect::Answer { request, answer: CallbackAnswer::Recorded } => {
                let row = self.requested(*request);
                assert!(row.state.settled() && row.state != OperationState::Unknown, "R3: answered 2xx before it was durable: {row:?}");
            }
            Effect::Answer { request, answer: CallbackAnswer::Unknown } => {
                let about = self.store.requests.get(request);
                assert!(about.is_none_or(|id| !self.store.operations.contains_key(id)), "answered as unknown, and on record");
            }
            Effect::Tell { session, news } => self.judge_news(*session, news),
            _ => {}
        }
    }

    fn judge_news(&self, session: SessionId, news: &News) {
        let party = self.parties.get(&session).expect("only a conversation that is up is told something");
        match news {
            News::Accepted(acceptance) => {
                assert!(self.store.operation_ever(acceptance.operation).is_some(), "R1: accepted before it was durable");
            }
            News::Cancelling(cancellation) => {
                // It may have ended meanwhile, where the wish was about several batches.
                let runs = |id: &OperationId| {
                    matches!(
                        self.store.operations[id].state,
                        OperationState::Accepted | OperationState::Running | OperationState::RetryWait
                    )
                };
                assert!(!cancellation.cancelling.iter().any(runs), "R6: spoken of before it was durable");
                assert!(cancellation.refused.iter().all(runs), "refused, and it does not go on");
                assert!(!cancellation.say.is_empty());
            }
            News::Update { envelope, text } => {
                assert!(matches!(envelope.kind, DeliveryKind::Progress | DeliveryKind::Silent) && !text.is_empty());
                let of_batch = |row: &&DeliveryRecord| row.batch == envelope.batch;
                assert!(!self.store.deliveries.values().any(|row| of_batch(&row)), "I19: an update after the closing");
            }
            News::Offered(envelope) => {
                let row = &self.store.deliveries[&envelope.delivery];
                assert!(matches!(row.state, DeliveryState::Ready | DeliveryState::Uncertain), "offered while {:?}", row.state);
                assert!(row.session == session || (row.party.is_some() && row.party == *party), "I14: offered to another party");
                assert!(!self.store.claims.contains_key(&envelope.delivery), "I17: offered while claimed");
            }
            News::Claimed { delivery, clauses } => {
                assert_eq!(self.store.deliveries[delivery].state, DeliveryState::Speaking, "R4");
                let claim = self.store.claims.get(delivery).map(|(session, boot, _)| (*session, *boot));
                assert_eq!(claim, Some((session, BootId(self.boot))), "R4, I17");
                assert!(!clauses.is_empty() && clauses.iter().all(|clause| !clause.text.is_empty()), "nothing to say");
            }
            _ => {}
        }
    }

    fn requested(&self, request: RequestId) -> &OperationRecord {
        self.store.operation_ever(self.store.requests[&request]).expect("what was asked about is, or was, on record")
    }

    // What the tests say.

    pub fn up(&mut self, session: SessionId, party: &str) {
        let party = (!party.is_empty()).then(|| PartyId(party.into()));
        self.parties.insert(session, party.clone());
        self.give(Input::SessionUp { session, party, language: Language::Es });
    }

    pub fn over(&mut self, session: SessionId) {
        self.give(Input::SessionOver { session });
        self.parties.remove(&session);
    }

    pub fn ask(&mut self, session: SessionId, turn: u128, response: u128, tool: &str, arguments: Value) {
        self.ask_confirmed(session, turn, response, tool, arguments, false);
    }

    pub fn ask_confirmed(&mut self, session: SessionId, turn: u128, response: u128, tool: &str, arguments: Value, confirmed: bool) {
        self.calls += 1;
        let call = ToolCall { call_id: format!("call_{}", self.calls), tool: tool.into(), arguments, confirmed };
        self.give(Input::Accept { session, turn: TurnId(turn), response: ResponseId(response), call });
    }

    pub fn seal(&mut self, session: SessionId, response: u128) {
        self.give(Input::Seal { session, response: ResponseId(response) });
    }

    /// One payment of one response, accepted and sealed.
    pub fn order(&mut self, tool: &str, number: u128) -> OperationId {
        self.ask(CALL, number, number, tool, json!({ "number": number.to_string() }));
        self.seal(CALL, number);
        self.accepted().operation
    }

    pub fn callback(&mut self, operation: OperationId, result: OperationResult) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.store.requests.insert(request, operation);
        self.give(Input::Callback { request, operation, result });
        request
    }

    pub fn done(&mut self, operation: OperationId) -> RequestId {
        self.callback(operation, OperationResult::Succeeded(json!({ "id": 7 })))
    }

    pub fn attempted(&mut self, operation: OperationId, attempt: u32, outcome: AttemptOutcome) {
        self.give(Input::Attempted { operation, attempt, outcome });
    }

    pub fn attempt_failed(&mut self, operation: OperationId, attempt: u32, executed: Executed) {
        let outcome = AttemptOutcome::Failed { error: "boom".into(), executed, retryable: true, retry_after_ms: None };
        self.attempted(operation, attempt, outcome);
    }

    pub fn cancel_answered(&mut self, operation: OperationId, outcome: CancelOutcome) {
        let request = self.cancels.iter().rev().find(|request| request.operation == operation).expect("it was asked to be cancelled");
        let request = request.request;
        self.give(Input::CancelAttempted { operation, request, outcome });
    }

    pub fn progress(&mut self, operation: OperationId, progress: Value) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.give(Input::Progress { request: Some(request), operation, progress });
        request
    }

    pub fn retract(&mut self, operation: OperationId) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.store.requests.insert(request, operation);
        self.retractions.insert(request);
        self.give(Input::Retract { request, operation });
        request
    }

    /// The texts of the updates that a conversation was given.
    pub fn updates(&self, to: SessionId) -> Vec<String> {
        let of = |(session, news): &(SessionId, News)| match news {
            News::Update { text, .. } if *session == to => Some(text.clone()),
            _ => None,
        };
        self.news.iter().filter_map(of).collect()
    }

    /// The latest answer to a wish to cancel.
    pub fn cancellation(&self) -> Cancellation {
        let all = self.news.iter().rev();
        all.filter_map(|(_, news)| if let News::Cancelling(cancellation) = news { Some(cancellation.clone()) } else { None })
            .next()
            .expect("the wish to cancel is answered")
    }

    pub fn claim(&mut self, session: SessionId, delivery: DeliveryId) {
        self.give(Input::Claim { session, delivery, route: Route::Announce });
    }

    /// What was given to the store, and what that leads to, is durable.
    pub fn all_durable(&mut self) {
        while !self.in_flight.is_empty() {
            self.durable();
        }
    }

    /// Claims what waits, and its first frame leaves.
    pub fn begins(&mut self, session: SessionId) -> DeliveryId {
        let delivery = self.waiting().id;
        self.claim(session, delivery);
        self.give(Input::FirstFrame { session, delivery });
        delivery
    }

    pub fn settled(&mut self, session: SessionId, delivery: DeliveryId, verdicts: &[(u32, ClauseVerdict)]) {
        let clauses = verdicts.iter().map(|&(clause, verdict)| ClauseEvidence { clause, verdict }).collect();
        self.give(Input::Settled { session, delivery, clauses });
    }

    /// Claims it, speaks all of it, and is heard.
    pub fn tell(&mut self, session: SessionId, delivery: DeliveryId) -> Vec<SpokenClause> {
        self.claim(session, delivery);
        let clauses = self.claimed(session, delivery).expect("the claim is granted");
        self.give(Input::FirstFrame { session, delivery });
        let heard: Vec<_> = clauses.iter().filter_map(|spoken| Some((spoken.clause?, HEARD))).collect();
        self.settled(session, delivery, &heard);
        clauses
    }

    // What the tests look at.

    /// The latest acceptance.
    pub fn accepted(&self) -> Acceptance {
        let all = self.news.iter().rev();
        all.filter_map(|(_, news)| if let News::Accepted(acceptance) = news { Some(acceptance.clone()) } else { None })
            .next()
            .expect("accepted")
    }

    pub fn refusals(&self) -> usize {
        self.news.iter().filter(|(_, news)| matches!(news, News::Refused { .. })).count()
    }

    /// The one delivery that waits.
    pub fn waiting(&self) -> DeliveryRecord {
        let pending = self.ledger.pending();
        assert_eq!(pending.len(), 1, "one delivery waits: {pending:?}");
        pending[0].clone()
    }

    pub fn claimed(&self, to: SessionId, id: DeliveryId) -> Option<Vec<SpokenClause>> {
        self.news.iter().rev().find_map(|(session, news)| match news {
            News::Claimed { delivery, clauses } if *session == to && *delivery == id => Some(clauses.clone()),
            _ => None,
        })
    }

    pub fn told(&self, to: SessionId, id: DeliveryId) -> Vec<&'static str> {
        let about = |(session, news): &(SessionId, News)| match news {
            _ if *session != to => None,
            News::Offered(envelope) if envelope.delivery == id => Some("offered"),
            News::Withdrawn { delivery } if *delivery == id => Some("withdrawn"),
            News::Claimed { delivery, .. } if *delivery == id => Some("claimed"),
            News::ClaimRefused { delivery } if *delivery == id => Some("refused"),
            _ => None,
        };
        self.news.iter().filter_map(about).collect()
    }

    pub fn answer(&self, request: RequestId) -> Option<CallbackAnswer> {
        self.answers.iter().find(|(answered, _)| *answered == request).map(|(_, answer)| answer.clone())
    }

    pub fn operation(&self, id: OperationId) -> OperationState {
        self.store.operation_ever(id).expect("it is, or was, on record").state
    }

    pub fn delivery(&self, id: DeliveryId) -> DeliveryState {
        self.store.delivery_ever(id).expect("it is, or was, on record").state
    }

    pub fn count(&self, measure: &LedgerMeasure) -> usize {
        self.measures.iter().filter(|known| *known == measure).count()
    }

    pub fn sent(&self, id: OperationId) -> usize {
        self.dispatched.iter().filter(|dispatch| dispatch.operation == id).count()
    }
}

pub const HEARD: ClauseVerdict = ClauseVerdict::Heard(Evidence::Received);
pub const UNHEARD: ClauseVerdict = ClauseVerdict::Unheard;
pub const UNCERTAIN: ClauseVerdict = ClauseVerdict::Uncertain;

pub fn texts(clauses: &[SpokenClause]) -> Vec<&str> {
    clauses.iter().map(|spoken| spoken.text.as_str()).collect()
}
