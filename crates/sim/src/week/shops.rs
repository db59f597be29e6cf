//! The tools of a week, each with a ledger of its own: what was asked for under which key, what came of it, and what it has said of it.

use std::collections::BTreeMap;
use std::ops::Range;

use recado_core::ids::{IntentKey, OperationId};
use recado_core::ledger::{AttemptOutcome, CallbackAnswer, CancelOutcome, Dispatch, Executed, InquiryOutcome, OperationResult, RequestId};
use recado_core::policy::ToolPolicy;
use serde_json::{Value, json};

use super::plan::DAY;
use crate::action::{CancelAnswered, InquiryAnswered};
use crate::drive::policies;
use crate::rig::Rig;

/// How a tool does what it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It answers with the result. Who knows a key does nothing for it again.
    Answers,
    /// It takes it, and calls back when it is done.
    Accepts,
    /// It takes it as a task, and is asked how that stands. What comes again it does again.
    TakesATask,
    /// It answers with the result. What comes again it does again.
    KnowsNoKeys,
    /// It does not do it, and says so.
    Refuses,
    /// It takes it and has done it at once; it calls back later, and what it is asked to cancel is too late.
    CannotCancel,
    /// It answers with the result, when it can be reached.
    Away,
}

/// The tools, by their place.
pub const SHOPS: [(&str, Manner); 7] = [
    ("mesa", Manner::Answers),
    ("taxi", Manner::Accepts),
    ("tramite", Manner::TakesATask),
    ("pedido", Manner::KnowsNoKeys),
    ("saldo", Manner::Refuses),
    (FLOWERS, Manner::CannotCancel),
    ("vuelo", Manner::Away),
];

/// The tool whose errands somebody may want cancelled.
pub const FLOWERS: &str = "regalo";

/// Their policies: whatever takes days may take them.
pub fn tools() -> BTreeMap<String, ToolPolicy> {
    let all = policies();
    let one = |(name, manner): (&str, Manner)| {
        let mut policy = all.get(name).cloned().unwrap_or_default();
        policy.idempotent = !matches!(manner, Manner::TakesATask | Manner::KnowsNoKeys);
        policy.cancellable = manner == Manner::CannotCancel;
        policy.deadline_ms = 30 * DAY;
        (name.to_owned(), policy)
    };
    SHOPS.into_iter().map(one).collect()
}

/// How a tool of this name does what it is asked.
pub fn manner_of(tool: &str) -> Manner {
    SHOPS.iter().find(|(name, _)| *name == tool).map_or(Manner::Answers, |(_, manner)| *manner)
}

/// All of them.
pub struct Shops {
    away: Range<u64>,
    lasts_ms: Vec<u64>,
    /// What was asked for, by its key.
    pub orders: BTreeMap<IntentKey, Order>,
    /// The keys in the order in which they came.
    came: Vec<IntentKey>,
    /// Requests of this boot that have been looked at.
    seen: usize,
    /// Answers that are due, and when.
    answers: Vec<(u64, OperationId, u32, AttemptOutcome)>,
    /// Results that were sent, all copies.
    pub callbacks: u64,
    /// Requests that came while one of them could not be reached.
    pub unreached: u64,
}

/// What a tool knows of a key.
#[derive(Debug)]
pub struct Order {
    /// The tool.
    pub tool: String,
    /// The operation that it was asked for.
    pub operation: OperationId,
    /// The wish that it is about.
    pub wish: Value,
    /// How often it was done.
    pub effects: u32,
    /// When it is over, for what takes its time (ms).
    due: u64,
    /// The result that it has sent, and waits to hear of.
    sent: Option<(RequestId, u64)>,
    /// Whether the box has taken its result, by whatever way.
    pub said: bool,
}

impl Shops {
    /// Shops that have done nothing yet.
    pub fn new(away: Range<u64>, lasts_ms: Vec<u64>) -> Self {
        let (orders, answers) = (BTreeMap::new(), Vec::new());
        Self { away, lasts_ms, orders, came: Vec::new(), seen: 0, answers, callbacks: 0, unreached: 0 }
    }

    /// Whether somebody waits for an answer that comes soon.
    pub fn busy(&self, rig: &Rig) -> bool {
        !self.answers.is_empty() || rig.dispatched.len() > self.seen || self.orders.values().any(|order| order.sent.is_some())
    }

    /// Everything that was asked for is over, and the box knows it.
    pub fn all_said(&self) -> bool {
        self.orders.values().all(|order| order.said)
    }

    /// The box died: who waited for an answer to a result sends it again.
    pub fn box_died(&mut self) {
        self.seen = 0;
        self.answers.clear();
        self.orders.values_mut().for_each(|order| order.sent = None);
    }

    /// The box is told to stop: what has not left it is handed back, and costs nothing; what has is answered.
    pub fn stop(&mut self, rig: &mut Rig) {
        for dispatch in rig.dispatched.iter().skip(self.seen).cloned().collect::<Vec<_>>() {
            self.seen += 1;
            let outcome = AttemptOutcome::Unreachable { reason: "the box is stopping".into(), retry_after_ms: None };
            rig.report(dispatch.operation, dispatch.attempt, outcome);
        }
        self.answer(rig);
    }

    /// They do what is due.
    pub fn attend(&mut self, rig: &mut Rig) {
        self.take_requests(rig);
        self.answer(rig);
        self.call_back(rig);
        let now = rig.now;
        for request in std::mem::take(&mut rig.cancels) {
            let outcome = rig.answer_cancel(&request, CancelAnswered::TooLateWithResult);
            debug_assert!(!matches!(outcome, CancelOutcome::Cancelled));
        }
        for inquiry in std::mem::take(&mut rig.inquiries) {
            let order = self.orders.values_mut().find(|order| order.operation == inquiry.operation);
            match order {
                Some(order) if now < order.due => rig.goes_on(&inquiry, (order.due - now).min(3_600_000)),
                Some(order) => order.said |= matches!(rig.answer_inquiry(&inquiry, InquiryAnswered::Ended), InquiryOutcome::Succeeded(_)),
                None => drop(rig.answer_inquiry(&inquiry, InquiryAnswered::Unsupported)),
            }
        }
    }

    /// Answers that are due.
    fn answer(&mut self, rig: &mut Rig) {
        let now = rig.now;
        let (due, later) = std::mem::take(&mut self.answers).into_iter().partition(|(at, ..)| *at <= now);
        self.answers = later;
        let due: Vec<(u64, OperationId, u32, AttemptOutcome)> = due;
        for (_, operation, attempt, outcome) in due {
            self.said_with_an_answer(operation, &outcome);
            rig.report(operation, attempt, outcome);
        }
    }

    fn take_requests(&mut self, rig: &mut Rig) {
        let new: Vec<Dispatch> = rig.dispatched.iter().skip(self.seen).cloned().collect();
        self.seen = rig.dispatched.len();
        for dispatch in new {
            let manner = manner_of(&dispatch.tool);
            if manner == Manner::Away && self.away.contains(&rig.now) {
                self.unreached += 1;
                let outcome = AttemptOutcome::Unreachable { reason: "no route".into(), retry_after_ms: None };
                self.answers.push((rig.now, dispatch.operation, dispatch.attempt, outcome));
                continue;
            }
            let due = rig.now + self.lasts_ms.get(self.came.len() % self.lasts_ms.len().max(1)).copied().unwrap_or_default();
            let known = self.orders.contains_key(&dispatch.intent_key);
            let order = self.orders.entry(dispatch.intent_key.clone()).or_insert_with(|| Order {
                tool: dispatch.tool.clone(),
                operation: dispatch.operation,
                wish: dispatch.arguments.clone(),
                effects: 0,
                due,
                sent: None,
                said: false,
            });
            if !known {
                self.came.push(dispatch.intent_key.clone());
            }
            let again = matches!(manner, Manner::TakesATask | Manner::KnowsNoKeys);
            order.effects += u32::from(manner != Manner::Refuses && (again || !known));
            let outcome = match manner {
                Manner::Answers | Manner::KnowsNoKeys | Manner::Away => AttemptOutcome::Succeeded(result()),
                Manner::Accepts | Manner::CannotCancel => AttemptOutcome::Deferred,
                Manner::TakesATask => AttemptOutcome::Taken { handle: format!("task {}", self.came.len()) },
                Manner::Refuses => {
                    AttemptOutcome::Failed { error: "no".into(), executed: Executed::No, retryable: false, retry_after_ms: None }
                }
            };
            self.answers.push((rig.now + ANSWERS_AFTER, dispatch.operation, dispatch.attempt, outcome));
        }
    }

    fn said_with_an_answer(&mut self, operation: OperationId, outcome: &AttemptOutcome) {
        let ends = matches!(outcome, AttemptOutcome::Succeeded(_) | AttemptOutcome::Failed { .. });
        if let Some(order) = self.orders.values_mut().find(|order| order.operation == operation) {
            order.said |= ends;
        }
    }

    /// What is over is said, twice at once, until the box has answered for it.
    fn call_back(&mut self, rig: &mut Rig) {
        for order in self.orders.values_mut() {
            let calls_back = matches!(manner_of(&order.tool), Manner::Accepts | Manner::CannotCancel);
            if !calls_back || order.said || rig.now < order.due {
                continue;
            }
            match order.sent {
                Some((request, since)) => match rig.answers.get(&request) {
                    Some(CallbackAnswer::Unavailable) => order.sent = None,
                    Some(_) => (order.said, order.sent) = (true, None),
                    None if rig.now > since + 60_000 => order.sent = None,
                    None => {}
                },
                None => {
                    let request = rig.callback(order.operation, OperationResult::Succeeded(result()));
                    rig.callback(order.operation, OperationResult::Succeeded(result()));
                    order.sent = Some((request, rig.now));
                    self.callbacks += 2;
                }
            }
        }
    }

    /// One of the results that has been said is said again, and after it how far it was before.
    pub fn says_again(&mut self, which: usize, rig: &mut Rig) {
        let said = |key: &&IntentKey| {
            self.orders.get(key).is_some_and(|order| order.said && matches!(manner_of(&order.tool), Manner::Accepts | Manner::CannotCancel))
        };
        let said: Vec<OperationId> = self.came.iter().filter(said).filter_map(|key| Some(self.orders.get(key)?.operation)).collect();
        if let Some(operation) = said.get(which % said.len().max(1)) {
            rig.callback(*operation, OperationResult::Succeeded(result()));
            rig.progress(*operation, json!({ "percent": 50 }));
            self.callbacks += 1;
        }
    }

    /// How many can be said again.
    pub fn results(&self) -> usize {
        self.came.len()
    }
}

/// What comes of everything: a tool that is asked to cancel answers with the same.
fn result() -> Value {
    json!({ "value": "a las nueve" })
}

/// How long an answer takes (ms).
const ANSWERS_AFTER: u64 = 300;
