//! A batch with everything that closes with it: operations, closing, corrections. What changes one of them is judged and
//! committed together.
//!
//! The closing of several operations takes its manner from their tools' policies: the highest priority; what that
//! priority's tools may cut (the widest); the ride position of the first of them; `strict` if any is; in doubt the most
//! careful (`check` before `repeat` before `suppress`); the most careful audience; the shortest wait and the longest quiet; handed off
//! and stale when the last of them is, never if one never is.

use super::delivery::Delivery;
use super::input::Standing;
use super::machine::World;
use super::operation::Operation;
use super::record::{BatchRecord, BatchState, ClauseRecord, DeliveryKind, DeliveryRecord, DeliveryState, OperationRecord, OperationState};
use super::say::{contradicting, correction, pieces, short_form};
use crate::faults::{Fault, fault};
use crate::ids::{DeliveryId, OperationId, SessionId};
use crate::policy::{Audience, CanInterrupt, Localised, MAX_WAIT_MS, Priority, RidePosition, ToolPolicy, UncertainPolicy, WhenUnheard};
use crate::time::{Step, Time};

/// A batch in memory.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Batch {
    pub record: BatchRecord,
    /// In the order of acceptance.
    pub operations: Vec<Operation>,
    /// In the order of their sequence.
    pub deliveries: Vec<Delivery>,
}

impl Batch {
    pub fn operation(&mut self, id: OperationId) -> Option<&mut Operation> {
        self.operations.iter_mut().find(|operation| operation.record.id == id)
    }

    pub fn delivery(&mut self, id: DeliveryId) -> Option<&mut Delivery> {
        self.deliveries.iter_mut().find(|delivery| delivery.record.id == id)
    }

    /// Whether a delivery may be claimed: it waits, and no later correction of it is just being told.
    pub fn claimable(&self, delivery: &Delivery) -> bool {
        let later = |other: &Delivery| other.record.sequence > delivery.record.sequence && other.claim.is_some();
        delivery.waits() && !self.deliveries.iter().any(later)
    }

    /// Whether a conversation may claim a delivery.
    pub fn tellable(&self, delivery: &Delivery) -> bool {
        self.claimable(delivery) && delivery.speakable()
    }

    /// How far it is for who asks again, with the closing or correction that is about to be told.
    pub fn standing(&self) -> (Standing, Option<DeliveryId>) {
        let next = self.deliveries.iter().find(|delivery| !delivery.record.state.terminal());
        match (self.record.state, next) {
            (BatchState::Open | BatchState::Sealed, None) => (Standing::Running, None),
            (_, Some(delivery)) => (Standing::AboutToBeTold, Some(delivery.record.id)),
            (BatchState::Drained | BatchState::Closed, None) => (Standing::Told, None),
        }
    }

    /// Whether its closing is over.
    pub fn closed(&self) -> bool {
        self.record.state == BatchState::Closed
    }

    /// Whether nothing is left to be told.
    pub fn quiet(&self) -> bool {
        self.closed() && self.deliveries.iter().all(|delivery| delivery.record.state.terminal())
    }

    /// Whether everything is settled and nothing is being told.
    pub fn resting(&self) -> bool {
        matches!(self.record.state, BatchState::Drained | BatchState::Closed)
            && self.deliveries.iter().all(|delivery| delivery.claim.is_none())
    }

    /// What follows within the batch when everything of a transaction has been applied: drained, closed. Not before: a closing
    /// is made once, from what is known then. `before` is the batch's state in the store: it takes one edge at a time, and only
    /// what is sealed durably drains.
    pub fn follow(&mut self, before: Option<BatchState>, world: &World, step: &mut Step, sequence: &mut u64) {
        if before == Some(BatchState::Sealed) && self.complete() {
            self.drain(world, step, sequence);
        }
        if before == Some(BatchState::Drained) && self.told() {
            self.record.state = BatchState::Closed;
        }
    }

    /// An operation that the closing called unknown is known now, or its result is contradicted: a correction. It takes the
    /// place of a closing that nobody is being told, and then tells everything. What was taken back or became obsolete untold stays
    /// so (I10): then only what is new is told.
    pub fn correct(&mut self, id: OperationId, world: &World, step: &mut Step, sequence: &mut u64) {
        if !self.deliveries.iter().any(|delivery| delivery.record.kind == DeliveryKind::Final) {
            return; // the closing is not written yet, and will say it
        }
        let about = |clause: &&ClauseRecord| clause.operation == id;
        let touched = self.deliveries.iter().any(|delivery| {
            let open = delivery.record.state != DeliveryState::Ready && !delivery.dropped();
            delivery.record.clauses.iter().filter(about).any(|clause| clause.heard.is_some() || open)
        });
        let latest = self.deliveries.iter().rfind(|delivery| delivery.record.clauses.iter().any(|clause| about(&clause)));
        let dropped = latest.is_some_and(Delivery::dropped);
        let Some(operation) = self.operations.iter().find(|operation| operation.record.id == id) else { return };
        let named = self.operations.len() > 1;
        let policy = world.policy(&operation.record.tool);
        if operation.record.contradiction.is_some() && world.sayer.contradiction(policy, &operation.record, named).is_none() {
            return; // it makes no difference to who hears it
        }
        let clauses = match (touched, dropped) {
            (true, _) => told(&operation.record, news(operation, named, world).map(|now| correction(&now))),
            (false, true) => told(&operation.record, news(operation, named, world)),
            (false, false) => clauses(operation, named, world),
        };
        // Pushed as it is; what it replaces is folded into it right after.
        let delivery = self.compose(DeliveryKind::Correction, clauses, world, step, sequence);
        self.deliveries.push(delivery);
    }

    /// A result is taken back before it has been told: what would tell it is withdrawn, and what else it would tell is told by
    /// another. Says who must stop telling what; none where it has been told, or has not come yet. What was taken back stays so.
    pub fn retract(&mut self, id: OperationId, world: &World, step: &mut Step, sequence: &mut u64) -> Option<Vec<(SessionId, DeliveryId)>> {
        let known = |operation: &&Operation| operation.record.id == id && operation.record.state != OperationState::Unknown;
        self.operations.iter().find(known)?;
        let tells =
            |delivery: &Delivery| !delivery.record.state.terminal() && delivery.record.clauses.iter().any(|clause| clause.operation == id);
        let found: Vec<usize> = self.deliveries.iter().enumerate().filter(|(_, delivery)| tells(delivery)).map(|(at, _)| at).collect();
        let mut stopped = Vec::new();
        for &at in &found {
            let Some(delivery) = self.deliveries.get(at) else { continue };
            let of = delivery.record.id;
            let rest = delivery.handed_on(|clause| clause.operation != id && clause.heard.is_none());
            let by = (!rest.is_empty()).then(|| {
                let delivery = self.compose(DeliveryKind::Correction, rest, world, step, sequence);
                let by = delivery.record.id;
                self.deliveries.push(delivery);
                by
            });
            let Some(delivery) = self.deliveries.get_mut(at) else { continue };
            let state = if by.is_some() { DeliveryState::Superseded } else { DeliveryState::Withdrawn };
            stopped.extend(delivery.end(state, by).map(|session| (session, of)));
        }
        (!found.is_empty() || self.taken_back(id)).then_some(stopped)
    }

    /// Whether what would have told an operation's result was withdrawn, or gave way to what does not tell it, unheard.
    fn taken_back(&self, id: OperationId) -> bool {
        let gone = |delivery: &Delivery| {
            let unheard = delivery.record.clauses.iter().all(|clause| clause.operation != id || clause.heard.is_none());
            unheard && matches!(delivery.record.state, DeliveryState::Withdrawn | DeliveryState::Superseded)
        };
        let tells = |delivery: &&Delivery| delivery.record.clauses.iter().any(|clause| clause.operation == id);
        let mut about = self.deliveries.iter().filter(tells).peekable();
        about.peek().is_some() && about.all(gone)
    }

    /// Whether time has changed something of it.
    pub fn restless(&self, step: &Step) -> bool {
        let due = |operation: &Operation| operation.due().is_some_and(|at| step.now >= at);
        self.complete()
            || self.told()
            || self.operations.iter().any(due)
            || self.deliveries.iter().any(|delivery| delivery.waits() && delivery.stale(step))
    }

    /// When time next changes something of it.
    pub fn due(&self) -> Option<Time> {
        let operations = self.operations.iter().filter_map(Operation::due);
        let deliveries = self.deliveries.iter().filter(|delivery| delivery.waits()).filter_map(Delivery::stale_at);
        let drain = (self.complete() || self.told()).then_some(Time(0));
        operations.chain(deliveries).chain(drain).min()
    }

    /// Whether it is sealed and nothing of it runs any more.
    fn complete(&self) -> bool {
        self.record.state == BatchState::Sealed && self.operations.iter().all(|operation| operation.record.state.settled())
    }

    /// Whether it is drained and nothing of it is left to be told.
    fn told(&self) -> bool {
        self.record.state == BatchState::Drained && self.deliveries.iter().all(|delivery| delivery.record.state.terminal())
    }

    fn drain(&mut self, world: &World, step: &mut Step, sequence: &mut u64) {
        self.record.state = BatchState::Drained;
        if self.deliveries.iter().any(|delivery| delivery.record.kind == DeliveryKind::Final) {
            return; // so the store has it: one closing is enough (I1)
        }
        let named = self.operations.len() > 1;
        let all: Vec<ClauseRecord> = self.operations.iter().flat_map(|operation| clauses(operation, named, world)).collect();
        let mut delivery = self.compose(DeliveryKind::Final, all, world, step, sequence);
        if fault(Fault::TwoFinals) {
            self.deliveries.push(Delivery {
                record: DeliveryRecord { id: DeliveryId(step.ids.draw()), ..delivery.record.clone() },
                ..delivery.clone()
            });
        }
        // What the newer request asked for is told by its own closing; here there is nothing left to tell.
        let replaced = |operation: &Operation| operation.replaced && operation.record.state.undone();
        if self.operations.iter().all(replaced) {
            delivery.end(DeliveryState::Withdrawn, None);
        }
        self.deliveries.push(delivery);
    }

    /// A closing that waits, and of which a later correction exists, would tell what is no longer true. It is replaced: by
    /// the correction where that tells everything that is left, otherwise by one that does.
    pub fn fold(&mut self, world: &World, step: &mut Step, sequence: &mut u64) {
        while let Some((old, corrections)) = self.outdated() {
            let mut merged: Vec<ClauseRecord> = Vec::new();
            for operation in &self.operations {
                let about = |clause: &ClauseRecord| clause.operation == operation.record.id;
                let latest = corrections.iter().rev().filter_map(|&index| self.deliveries.get(index));
                let source = latest.chain(self.deliveries.get(old)).find(|delivery| delivery.record.clauses.iter().any(about));
                merged.extend(source.into_iter().flat_map(|source| source.handed_on(about)));
            }
            let last = corrections.last().and_then(|&index| self.deliveries.get(index));
            let enough = last.filter(|last| {
                let told = |clause: &ClauseRecord| {
                    clause.heard.is_some() || last.record.clauses.iter().any(|own| own.operation == clause.operation)
                };
                merged.iter().all(told)
            });
            let by = match enough {
                Some(last) => last.record.id,
                None => {
                    let delivery = self.compose(DeliveryKind::Correction, merged, world, step, sequence);
                    let id = delivery.record.id;
                    self.deliveries.push(delivery);
                    id
                }
            };
            for index in corrections.into_iter().chain([old]) {
                if let Some(delivery) = self.deliveries.get_mut(index).filter(|delivery| delivery.record.id != by && delivery.waits()) {
                    delivery.end(DeliveryState::Superseded, Some(by));
                }
            }
        }
    }

    /// The first delivery that waits although later corrections exist, with those, unless one of them is being told.
    fn outdated(&self) -> Option<(usize, Vec<usize>)> {
        self.deliveries.iter().enumerate().filter(|(_, delivery)| self.claimable(delivery)).find_map(|(old, delivery)| {
            let later = |other: &Delivery| {
                let standing = !matches!(other.record.state, DeliveryState::Superseded);
                let about = |clause: &ClauseRecord| delivery.record.clauses.iter().any(|own| own.operation == clause.operation);
                standing && other.record.sequence > delivery.record.sequence && other.record.clauses.iter().any(about)
            };
            let corrections: Vec<usize> =
                self.deliveries.iter().enumerate().filter(|(_, other)| later(other)).map(|(index, _)| index).collect();
            (!corrections.is_empty()).then_some((old, corrections))
        })
    }

    /// The short form of these clauses: each operation's own where they tell what is on record of it, otherwise the clauses.
    fn short(&self, clauses: &[ClauseRecord], world: &World) -> Localised {
        let named = self.operations.len() > 1;
        let one = |operation: &Operation| -> Vec<Localised> {
            let record = &operation.record;
            let policy = world.policy(&record.tool);
            let own: Vec<&ClauseRecord> = clauses.iter().filter(|clause| clause.operation == record.id).collect();
            let whole = told(record, [world.sayer.long(policy, record, named)]);
            if !own.is_empty() && own.iter().map(|clause| &clause.text).eq(whole.iter().map(|clause| &clause.text)) {
                return vec![world.sayer.short(policy, record, named)];
            }
            own.into_iter().map(|clause| clause.text.clone()).collect()
        };
        short_form(&self.operations.iter().flat_map(one).collect::<Vec<_>>())
    }

    fn compose(&self, kind: DeliveryKind, clauses: Vec<ClauseRecord>, world: &World, step: &mut Step, sequence: &mut u64) -> Delivery {
        assert!(!clauses.is_empty(), "a delivery of {} says something", self.record.id);
        let short = self.short(&clauses, world);
        let manner = Manner::of(self.operations.iter().map(|operation| world.policy(&operation.record.tool)));
        let record = DeliveryRecord {
            id: DeliveryId(step.ids.draw()),
            sequence: *sequence,
            batch: self.record.id,
            kind,
            party: self.record.party.clone(),
            session: self.record.session,
            state: DeliveryState::Ready,
            attempt: 0,
            clauses,
            short,
            priority: manner.priority,
            can_interrupt: manner.can_interrupt,
            ride: manner.ride,
            strict: manner.strict,
            uncertain: manner.uncertain,
            audience: manner.audience,
            max_wait_ms: manner.max_wait_ms,
            min_quiet_ms: manner.min_quiet_ms,
            hand_off_after_ms: manner.hand_off_after_ms,
            stale_after_ms: manner.stale_after_ms,
            ready: step.wall,
            superseded_by: None,
        };
        *sequence = sequence.saturating_add(1);
        Delivery { record, ready_at: Some(step.now), claim: None, tellers: Vec::new(), asked_for: false, route: None }
    }
}

/// One operation's text as clauses, each a segment of its own: what is on record, and what contradicts it.
fn clauses(operation: &Operation, named: bool, world: &World) -> Vec<ClauseRecord> {
    let record = &operation.record;
    let policy = world.policy(&record.tool);
    let contradicts = record.late_result().is_none();
    let other = world.sayer.contradiction(policy, record, named).filter(|_| contradicts).map(|other| contradicting(&other));
    told(record, std::iter::once(world.sayer.long(policy, record, named)).chain(other))
}

/// What is new of an operation since its closing was written; nothing where it would say the same.
fn news(operation: &Operation, named: bool, world: &World) -> Option<Localised> {
    let record = &operation.record;
    let policy = world.policy(&record.tool);
    match &record.contradiction {
        Some(_) => world.sayer.contradiction(policy, record, named),
        None => Some(world.sayer.long(policy, record, named)),
    }
}

fn told(record: &OperationRecord, texts: impl IntoIterator<Item = Localised>) -> Vec<ClauseRecord> {
    texts.into_iter().flat_map(pieces).map(|text| ClauseRecord { operation: record.id, text, heard: None }).collect()
}

/// How a closing is told.
struct Manner {
    priority: Priority,
    can_interrupt: CanInterrupt,
    ride: RidePosition,
    strict: bool,
    uncertain: UncertainPolicy,
    audience: Audience,
    max_wait_ms: u64,
    min_quiet_ms: Option<u64>,
    hand_off_after_ms: Option<u64>,
    stale_after_ms: Option<u64>,
}

impl Manner {
    fn of<'a>(policies: impl Iterator<Item = &'a ToolPolicy>) -> Self {
        let policies: Vec<&ToolPolicy> = policies.collect();
        let priority = policies.iter().map(|policy| policy.priority).max().unwrap_or_default();
        let leading: Vec<&&ToolPolicy> = policies.iter().filter(|policy| policy.priority == priority).collect();
        let caller = leading.iter().any(|policy| policy.can_interrupt == CanInterrupt::Caller);
        let careful = |policy: &ToolPolicy| match policy.uncertain {
            UncertainPolicy::Check => 0,
            UncertainPolicy::Repeat => 1,
            UncertainPolicy::Suppress => 2,
        };
        Self {
            priority,
            can_interrupt: if caller { CanInterrupt::Caller } else { CanInterrupt::Agent },
            ride: leading.first().map(|policy| policy.ride).unwrap_or_default(),
            strict: policies.iter().any(|policy| policy.strict),
            uncertain: policies.iter().min_by_key(|policy| careful(policy)).map(|policy| policy.uncertain).unwrap_or_default(),
            audience: policies.iter().map(|policy| policy.audience).max().unwrap_or_default(),
            max_wait_ms: policies.iter().map(|policy| policy.max_wait_ms).min().unwrap_or(MAX_WAIT_MS),
            min_quiet_ms: policies.iter().filter_map(|policy| policy.min_quiet_ms).max(),
            hand_off_after_ms: policies
                .iter()
                .map(|policy| hand_off_after_ms(policy))
                .max_by_key(|after| after.unwrap_or(u64::MAX))
                .flatten(),
            stale_after_ms: policies.iter().map(|policy| policy.stale_after_ms).max_by_key(|limit| limit.unwrap_or(u64::MAX)).flatten(),
        }
    }
}

fn hand_off_after_ms(policy: &ToolPolicy) -> Option<u64> {
    match policy.when_unheard {
        WhenUnheard::Wait => None,
        WhenUnheard::Webhook => Some(policy.hand_off_after_ms),
    }
}

/// Most operations of one batch: a response that asks for more is out of hand, and nobody listens to a longer closing.
pub(super) const OPERATIONS_MAX: usize = 16;
