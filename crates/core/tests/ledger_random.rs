//! Random interleavings: inputs in any order, transactions durable late, failing, or caught by a crash in either state. Safety is
//! judged at every effect and after every input; then the faults stop, and everything must come to its end.

mod ledger_rig;

use std::collections::{BTreeMap, BTreeSet};

use ledger_rig::*;
use proptest::prelude::*;
use recado_core::ledger::*;
use recado_core::policy::{DuplicatePolicy, ProgressPolicy, UncertainPolicy, WhenUnheard};
use recado_core::{DeliveryId, OperationId, SessionId};
use serde_json::json;

#[derive(Debug, Clone)]
enum Action {
    Ask { session: u8, response: u8, tool: u8, argument: u8 },
    Seal { session: u8, response: u8 },
    Cancel { session: u8, all: bool },
    Report { which: u8, how: u8 },
    Callback { which: u8, how: u8 },
    Claim { session: u8, which: u8 },
    Release { session: u8, which: u8 },
    FirstFrame { session: u8, which: u8 },
    Settled { session: u8, which: u8, verdicts: [u8; 3], short: bool },
    Late { which: u8 },
    Suppress { which: u8 },
    CancelAnswer { which: u8, how: u8 },
    HandOffAnswer { how: u8 },
    Retract { which: u8 },
    Progress { which: u8 },
    Up { session: u8 },
    Over { session: u8 },
    Durable,
    Fail,
    Pass(u32),
    Remove,
    Crash { kept: u8 },
}

fn action() -> impl Strategy<Value = Action> {
    let few = || 0..4_u8;
    prop_oneof![
        6 => (few(), few(), few(), few()).prop_map(|(session, response, tool, argument)| Action::Ask { session, response, tool, argument }),
        4 => (few(), few()).prop_map(|(session, response)| Action::Seal { session, response }),
        3 => (few(), any::<bool>()).prop_map(|(session, all)| Action::Cancel { session, all }),
        6 => (any::<u8>(), 0..6_u8).prop_map(|(which, how)| Action::Report { which, how }),
        3 => (any::<u8>(), 0..3_u8).prop_map(|(which, how)| Action::Callback { which, how }),
        10 => (few(), any::<u8>()).prop_map(|(session, which)| Action::Claim { session, which }),
        1 => (few(), any::<u8>()).prop_map(|(session, which)| Action::Release { session, which }),
        3 => (few(), any::<u8>()).prop_map(|(session, which)| Action::FirstFrame { session, which }),
        4 => (few(), any::<u8>(), any::<[u8; 3]>(), any::<bool>())
            .prop_map(|(session, which, verdicts, short)| Action::Settled { session, which, verdicts, short }),
        8 => any::<u8>().prop_map(|which| Action::Late { which }),
        1 => any::<u8>().prop_map(|which| Action::Suppress { which }),
        6 => (any::<u8>(), 0..7_u8).prop_map(|(which, how)| Action::CancelAnswer { which, how }),
        4 => (0..3_u8).prop_map(|how| Action::HandOffAnswer { how }),
        1 => any::<u8>().prop_map(|which| Action::Retract { which }),
        1 => any::<u8>().prop_map(|which| Action::Progress { which }),
        4 => few().prop_map(|session| Action::Up { session }),
        1 => few().prop_map(|session| Action::Over { session }),
        30 => Just(Action::Durable),
        3 => Just(Action::Fail),
        3 => (0..400_000_u32).prop_map(Action::Pass),
        2 => Just(Action::Remove),
        1 => any::<u8>().prop_map(|kept| Action::Crash { kept }),
    ]
}

struct World {
    rig: Rig,
    life: u128,
    turn: u128,
    /// Attempts that nobody has reported on, in this life of the process.
    out: Vec<(OperationId, u32)>,
    seen: usize,
    /// Cancel requests and hand-offs that nobody has answered, in this life of the process.
    cancels: Vec<CancelRequest>,
    cancels_seen: usize,
    hand_offs: Vec<DeliveryId>,
    hand_offs_seen: usize,
    /// Who has had which delivery, in this life of the process.
    tellers: Vec<(SessionId, DeliveryId)>,
    heard_news: usize,
    /// What each sender of a result said.
    results: BTreeMap<RequestId, OperationResult>,
    credited: BTreeSet<(DeliveryId, u32)>,
}

impl World {
    fn new(uncertain: UncertainPolicy, stale_after_ms: Option<u64>) -> Self {
        let mut policies = policies();
        for policy in policies.values_mut() {
            (policy.uncertain, policy.stale_after_ms) = (uncertain, stale_after_ms);
        }
        let mut order = policies["ticket"].clone();
        (order.duplicate, order.cancellable, order.idempotent) = (DuplicatePolicy::Replace, true, false);
        order.idempotency_fields = vec!["n".to_owned()];
        (order.when_unheard, order.hand_off_after_ms) = (WhenUnheard::Webhook, 20_000);
        order.progress = ProgressPolicy::Say;
        policies.insert("order".to_owned(), order);
        let ticket = policies.get_mut("ticket").unwrap();
        (ticket.cancellable, ticket.duplicate) = (true, DuplicatePolicy::Confirm);
        let mut rig = Rig::with(policies);
        rig.prompt = false;
        Self {
            rig,
            life: 0,
            turn: 0,
            out: Vec::new(),
            seen: 0,
            cancels: Vec::new(),
            cancels_seen: 0,
            hand_offs: Vec::new(),
            hand_offs_seen: 0,
            tellers: Vec::new(),
            heard_news: 0,
            results: BTreeMap::new(),
            credited: BTreeSet::new(),
        }
    }

    /// Sessions are never used again after a restart.
    fn session(&self, session: u8) -> SessionId {
        SessionId(self.life * 100 + u128::from(session))
    }

    /// Mostly a conversation that has a claim and what it claims; now and then anybody and anything.
    fn claimed(&self, session: u8, which: u8) -> Option<(SessionId, DeliveryId)> {
        let claims: Vec<_> = self.rig.store.claims.iter().map(|(&delivery, &(session, ..))| (session, delivery)).collect();
        let some = (session != 3).then(|| claims.get(usize::from(which) % claims.len().max(1)).copied()).flatten();
        some.or_else(|| Some((self.session(session), self.delivery(which)?)))
    }

    fn delivery(&self, which: u8) -> Option<DeliveryId> {
        let all: Vec<DeliveryId> = self.rig.store.deliveries.keys().copied().collect();
        all.get(usize::from(which) % all.len().max(1)).copied()
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Ask { session, response, tool, argument } => {
                self.turn += u128::from(argument == 3);
                let tool = ["pay", "ticket", "order", "order"][usize::from(tool % 4)];
                let (session, response) = (self.session(session), self.life * 10 + u128::from(response));
                let arguments = json!({ "n": argument % 3, "note": if tool == "order" { argument } else { 0 } });
                self.rig.ask_confirmed(session, self.turn, response, tool, arguments, true);
            }
            Action::Seal { session, response } => {
                let (session, response) = (self.session(session), self.life * 10 + u128::from(response));
                self.rig.seal(session, response);
            }
            Action::Cancel { session, all } => {
                let session = self.session(session);
                self.rig.give(Input::Cancel { session, tool: (!all).then(|| "order".to_owned()), operation: None, verified: true });
            }
            Action::Report { which, how } => self.report(which, how),
            Action::Callback { which, how } => {
                if let Some(operation) = self.sent(which) {
                    let result =
                        if how == 2 { OperationResult::Failed("no".into()) } else { OperationResult::Succeeded(json!({ "id": how })) };
                    let request = self.rig.callback(operation, result.clone());
                    self.results.insert(request, result);
                }
            }
            Action::Claim { session, which } => {
                let waiting: Vec<DeliveryId> = self.rig.ledger.pending().iter().map(|row| row.id).collect();
                let some = waiting.get(usize::from(which) % waiting.len().max(1)).copied().filter(|_| session != 3);
                let to = |id| (0..3).map(|session| self.session(session)).find(|&to| self.rig.told(to, id).last() == Some(&"offered"));
                let offered = some.and_then(|id| Some((to(id)?, id)));
                if let Some((session, delivery)) = offered.or_else(|| Some((self.session(session), self.delivery(which)?))) {
                    self.rig.claim(session, delivery);
                }
            }
            Action::Release { session, which } => {
                if let Some((session, delivery)) = self.claimed(session, which) {
                    self.rig.give(Input::Release { session, delivery });
                }
            }
            Action::FirstFrame { session, which } => {
                if let Some((session, delivery)) = self.claimed(session, which) {
                    self.rig.give(Input::FirstFrame { session, delivery });
                }
            }
            Action::Settled { session, which, verdicts, short } => self.settled(session, which, verdicts, short),
            Action::Late { which } => {
                if let Some(&(session, delivery)) = self.tellers.get(usize::from(which) % self.tellers.len().max(1)) {
                    let clauses = u32::try_from(self.rig.store.delivery_ever(delivery).unwrap().clauses.len()).unwrap();
                    // All of it, or all but the first clause.
                    let heard: Vec<_> = (0..clauses).skip(usize::from(which.is_multiple_of(3))).map(|clause| (clause, HEARD)).collect();
                    self.credited.extend(heard.iter().map(|&(clause, _)| (delivery, clause)));
                    self.rig.settled(session, delivery, &heard);
                }
            }
            Action::Suppress { which } => {
                if let Some(delivery) = self.delivery(which) {
                    self.rig.give(Input::Suppress { delivery });
                }
            }
            Action::CancelAnswer { which, how } => self.cancel_answer(which, how),
            Action::HandOffAnswer { how } => {
                if let Some(delivery) = self.hand_offs.pop() {
                    let failed =
                        |received| HandOffOutcome::Failed { error: "no".into(), received, retry_after_ms: (how == 1).then_some(1_000) };
                    let outcome = match how {
                        0 => failed(Executed::No),
                        1 => failed(Executed::Maybe),
                        _ => HandOffOutcome::Acknowledged,
                    };
                    self.rig.give(Input::HandOffAttempted { delivery, outcome });
                }
            }
            Action::Retract { which } => {
                if let Some(operation) = self.sent(which) {
                    self.rig.retract(operation);
                }
            }
            Action::Progress { which } => {
                if let Some(operation) = self.sent(which) {
                    self.rig.progress(operation, json!({}));
                }
            }
            Action::Up { session } => {
                let party = if session == 3 { "bea" } else { "ana" };
                let session = self.session(session);
                if !self.rig.parties.contains_key(&session) {
                    self.rig.up(session, party);
                }
            }
            Action::Over { session } => {
                let session = self.session(session);
                self.rig.over(session);
            }
            Action::Durable => self.rig.durable(),
            Action::Fail => self.rig.fail(),
            Action::Pass(ms) => self.rig.pass(u64::from(ms)),
            Action::Remove => {
                let now = self.rig.wall.unix_ms + 1;
                self.rig.store.remove(now);
            }
            Action::Crash { kept } => {
                let kept = usize::from(kept) % (self.rig.in_flight.len() + 1);
                // What is out has left the box: nobody will report on it.
                self.out.clear();
                self.cancels.clear();
                self.hand_offs.clear();
                self.tellers.clear();
                self.life += 1;
                self.rig.crash(kept);
            }
        }
        self.look();
    }

    fn sent(&self, which: u8) -> Option<OperationId> {
        let known: Vec<OperationId> = self.rig.dispatched.iter().map(|dispatch| dispatch.operation).collect();
        known.get(usize::from(which) % known.len().max(1)).copied()
    }

    fn cancel_answer(&mut self, which: u8, how: u8) {
        if self.cancels.is_empty() {
            return;
        }
        let CancelRequest { operation, request, .. } = self.cancels.remove(usize::from(which) % self.cancels.len());
        let outcome = match how {
            0 => CancelOutcome::Cancelled,
            1 => CancelOutcome::Compensated,
            2 => CancelOutcome::TooLate { result: None },
            3 => CancelOutcome::TooLate { result: Some(json!({ "id": 3 })) },
            4 => CancelOutcome::Failed { error: "busy".into(), retryable: true, retry_after_ms: None },
            _ => CancelOutcome::Unsupported,
        };
        self.rig.give(Input::CancelAttempted { operation, request, outcome });
    }

    fn report(&mut self, which: u8, how: u8) {
        if self.out.is_empty() {
            return;
        }
        let (operation, attempt) = self.out.remove(usize::from(which) % self.out.len());
        match how {
            0 | 1 => self.rig.attempted(operation, attempt, AttemptOutcome::Succeeded(json!({ "id": how }))),
            2 => {
                self.rig.maybe.insert(operation);
                self.rig.attempted(operation, attempt, AttemptOutcome::Deferred);
            }
            3 => self.rig.attempt_failed(operation, attempt, Executed::Maybe),
            _ => self.rig.attempt_failed(operation, attempt, Executed::No),
        }
    }

    fn settled(&mut self, session: u8, which: u8, verdicts: [u8; 3], short: bool) {
        let Some((session, delivery)) = self.claimed(session, which) else { return };
        let verdict = |v: u8| [HEARD, HEARD, UNHEARD, UNCERTAIN][usize::from(v % 4)];
        let clauses = self.rig.store.deliveries[&delivery].clauses.len();
        let given: Vec<(u32, ClauseVerdict)> = if short {
            vec![(SpokenClause::SHORT, verdict(verdicts[0]))]
        } else {
            (0..u32::try_from(clauses).unwrap()).zip(verdicts).map(|(clause, v)| (clause, verdict(v))).collect()
        };
        for &(clause, _) in given.iter().filter(|(_, verdict)| *verdict == HEARD) {
            self.credited.insert((delivery, clause));
        }
        self.rig.settled(session, delivery, &given);
    }

    /// What must hold after every input.
    fn look(&mut self) {
        while let Some(dispatch) = self.rig.dispatched.get(self.seen) {
            self.out.push((dispatch.operation, dispatch.attempt));
            self.seen += 1;
        }
        self.cancels.extend_from_slice(&self.rig.cancels[self.cancels_seen..]);
        self.cancels_seen = self.rig.cancels.len();
        self.hand_offs.extend(self.rig.hand_offs[self.hand_offs_seen..].iter().map(|hand_off| hand_off.delivery));
        self.hand_offs_seen = self.rig.hand_offs.len();
        for (session, news) in &self.rig.news[self.heard_news..] {
            if let News::Claimed { delivery, .. } = news {
                self.tellers.push((*session, *delivery));
            }
        }
        self.heard_news = self.rig.news.len();
        let (ledger, store) = (&self.rig.ledger, &self.rig.store);
        for record in ledger.operations() {
            assert_eq!(Some(record), store.operation_ever(record.id), "memory says what the store says, or said until it was removed");
        }
        for record in ledger.pending() {
            assert_eq!(Some(record), store.deliveries.get(&record.id), "memory says what the store says");
        }
        for batch in store.batches.values() {
            let finals = store.deliveries.values().filter(|row| row.batch == batch.id && row.kind == DeliveryKind::Final).count();
            let drained = matches!(batch.state, BatchState::Drained | BatchState::Closed);
            assert_eq!(finals, usize::from(drained), "I1, I2: {batch:?}");
            let settled = store.operations.values().filter(|row| row.batch == batch.id).all(|row| row.state.settled());
            assert!(!drained || settled, "only a batch with everything settled drains");
        }
        for row in store.deliveries.values() {
            let claimed = matches!(row.state, DeliveryState::Speaking | DeliveryState::Claimed);
            assert_eq!(claimed, store.claims.contains_key(&row.id), "I17: claimed or not: {row:?}");
            assert!(row.state != DeliveryState::Superseded || row.superseded_by.is_some_and(|by| store.deliveries.contains_key(&by)));
            if row.state == DeliveryState::Spoken {
                let credited = |clause: u32, kept: bool| {
                    kept || self.credited.contains(&(row.id, clause)) || self.credited.contains(&(row.id, SpokenClause::SHORT))
                };
                // Evidence of clauses that were told before is kept by the correction that takes a closing's place.
                let kept = row.kind == DeliveryKind::Correction;
                assert!(
                    (0_u32..).zip(&row.clauses).all(|(clause, c)| c.heard.is_some() && credited(clause, kept)),
                    "Spoken only on evidence"
                );
            }
        }
    }

    /// A result that was answered with 2xx is not lost: it is what is on record, or nothing of it is in effect; and a delivery tells that.
    fn is_kept_and_told(&self, row: &OperationRecord, result: &OperationResult) {
        let kept = match result {
            OperationResult::Succeeded(value) => row.known_result() == Some(value) || row.state == OperationState::Compensated,
            OperationResult::Failed(error) => {
                row.state.undone() || (row.state == OperationState::Failed && row.error.as_ref() == Some(error))
            }
        };
        assert!(kept, "{result:?} was confirmed, and on record is {row:?}");
        let says = match row.state {
            OperationState::Failed => "Falló.".to_owned(),
            OperationState::Cancelled => "e cancelado lo que pediste.".to_owned(),
            OperationState::Compensated => "se hizo y se ha deshecho.".to_owned(),
            _ if row.tool == "pay" => format!("Pagado {}.", row.known_result().unwrap()["id"]),
            _ => format!("Incidencia {} abierta.", row.known_result().unwrap()["id"]),
        };
        let says = |clause: &ClauseRecord| clause.operation == row.id && clause.text.es.as_ref().is_some_and(|text| text.contains(&says));
        let told = self.rig.store.deliveries_ever().any(|delivery| delivery.clauses.iter().any(says));
        assert!(told, "{result:?} was confirmed, and nobody is told: {row:?}");
    }

    /// The faults stop, the tools answer, the parties call: everything comes to its end.
    fn finish(&mut self) {
        self.rig.prompt = true;
        while !self.rig.in_flight.is_empty() {
            self.rig.durable();
        }
        for session in 0..4 {
            let session = self.session(session);
            if self.rig.parties.contains_key(&session) {
                self.rig.over(session);
            }
        }
        self.life += 1;
        for (session, party) in [(0, "ana"), (3, "bea")] {
            let session = self.session(session);
            self.rig.up(session, party);
        }
        for _ in 0..1_000 {
            self.look();
            if let Some((operation, attempt)) = self.out.pop() {
                self.rig.attempted(operation, attempt, AttemptOutcome::Succeeded(json!({ "id": 9 })));
                continue;
            }
            if !self.cancels.is_empty() {
                self.cancel_answer(0, 0);
                continue;
            }
            if let Some(delivery) = self.hand_offs.pop() {
                self.rig.give(Input::HandOffAttempted { delivery, outcome: HandOffOutcome::Acknowledged });
                continue;
            }
            let (ana, bea) = (self.session(0), self.session(3));
            let ids: Vec<DeliveryId> = self.rig.ledger.pending().iter().map(|row| row.id).collect();
            let offered = ids
                .iter()
                .find_map(|&id| [ana, bea].into_iter().find(|&to| self.rig.told(to, id).last() == Some(&"offered")).map(|to| (to, id)));
            if let Some((session, id)) = offered {
                let before = self.rig.told(session, id).len();
                self.rig.claim(session, id);
                // What ends it meanwhile may be told after that.
                if self.rig.told(session, id)[before..].contains(&"refused") {
                    assert_eq!(
                        self.rig.delivery(id),
                        DeliveryState::Suppressed,
                        "only what is stale is refused to the one who may hear it"
                    );
                    continue;
                }
                let told = self.rig.claimed(session, id).expect("granted or refused");
                let heard: Vec<_> = told.iter().filter_map(|spoken| Some((spoken.clause?, HEARD))).collect();
                self.credited.extend(heard.iter().map(|&(clause, _)| (id, clause)));
                self.rig.give(Input::FirstFrame { session, delivery: id });
                self.rig.settled(session, id, &heard);
                continue;
            }
            match self.rig.ledger.deadline() {
                Some(at) => {
                    let ms = at.0.saturating_sub(self.rig.now);
                    self.rig.pass(ms);
                }
                None => break,
            }
        }
        self.look();
        let store = &self.rig.store;
        assert!(store.batches.values().all(|row| row.state == BatchState::Closed), "everything closes: {:?}", store.batches);
        assert!(store.operations.values().all(|row| row.state.settled()), "everything settles");
        assert!(store.deliveries.values().all(|row| row.state.terminal()), "everything is told or has its reason");
        let confirmed = self.rig.answers.iter().filter(|(_, answer)| *answer == CallbackAnswer::Recorded);
        for (request, result) in confirmed.filter_map(|(request, _)| Some((request, self.results.get(request)?))) {
            self.is_kept_and_told(store.operation_ever(store.requests[request]).unwrap(), result);
        }
        assert_eq!(self.rig.count(&LedgerMeasure::DuplicateSideEffect), 0);
    }
}

fn uncertain() -> impl Strategy<Value = UncertainPolicy> {
    prop_oneof![Just(UncertainPolicy::Check), Just(UncertainPolicy::Repeat), Just(UncertainPolicy::Suppress)]
}

/// As many as take a few seconds; `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_in_whatever_order_nothing_is_lost_repeated_or_stuck(
        actions in prop::collection::vec(action(), 0..150),
        uncertain in uncertain(),
        stale_after_ms in prop_oneof![3 => Just(None), 1 => Just(Some(200_000))],
    ) {
        let mut world = World::new(uncertain, stale_after_ms);
        world.act(Action::Up { session: 0 });
        for action in actions {
            world.act(action);
        }
        world.finish();
    }
}

/// Every edge of the contract's three machines, as rows take them. `Claimed` stands for a hand-off there: the row of what a conversation
/// claims says `Speaking`.
const EDGES: [&str; 48] = [
    "batch Drained Closed",
    "batch Open Sealed",
    "batch Sealed Drained",
    "delivery Claimed HandedOff",
    "delivery Claimed Ready",
    "delivery Claimed Superseded",
    "delivery Claimed Uncertain",
    "delivery Claimed Withdrawn",
    "delivery Ready Claimed",
    "delivery Ready Speaking",
    "delivery Ready Spoken",
    "delivery Ready Superseded",
    "delivery Ready Suppressed",
    "delivery Ready Withdrawn",
    "delivery Speaking Ready",
    "delivery Speaking Spoken",
    "delivery Speaking Superseded",
    "delivery Speaking Suppressed",
    "delivery Speaking Uncertain",
    "delivery Speaking Withdrawn",
    "delivery Uncertain Claimed",
    "delivery Uncertain Speaking",
    "delivery Uncertain Spoken",
    "delivery Uncertain Superseded",
    "delivery Uncertain Suppressed",
    "delivery Uncertain Withdrawn",
    "operation Accepted Cancelling",
    "operation Accepted Failed",
    "operation Accepted Running",
    "operation Cancelling Cancelled",
    "operation Cancelling Compensated",
    "operation Cancelling TooLate",
    "operation Cancelling Unknown",
    "operation RetryWait Cancelling",
    "operation RetryWait Failed",
    "operation RetryWait Running",
    "operation RetryWait Succeeded",
    "operation RetryWait Unknown",
    "operation Running Cancelling",
    "operation Running Failed",
    "operation Running RetryWait",
    "operation Running Succeeded",
    "operation Running Unknown",
    "operation Unknown Cancelled",
    "operation Unknown Compensated",
    "operation Unknown Failed",
    "operation Unknown Succeeded",
    "operation Unknown TooLate",
];

/// The rarest edge is taken within a few hundred.
const ROUNDS_MAX: usize = 2_000;

#[test]
fn every_edge_of_the_contracts_machines_is_taken() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = (prop::collection::vec(action(), 150..200), uncertain());
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for round in 0..ROUNDS_MAX {
        if EDGES.iter().all(|edge| taken.contains(*edge)) {
            return;
        }
        let (actions, uncertain) = strategy.new_tree(&mut runner).unwrap().current();
        let mut world = World::new(uncertain, (round % 4 == 0).then_some(200_000));
        world.act(Action::Up { session: 0 });
        actions.into_iter().for_each(|action| world.act(action));
        world.finish();
        taken.extend(world.rig.store.edges);
    }
    let missing: Vec<_> = EDGES.iter().filter(|edge| !taken.contains(**edge)).collect();
    assert!(missing.is_empty(), "never taken: {missing:?}; taken: {taken:?}");
}
