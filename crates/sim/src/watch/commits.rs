//! What is committed: every transaction, against what was on record before it.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::ids::{BatchId, BootId, DeliveryId, OperationId};
use recado_core::ledger::{BatchState, DeliveryKind, DeliveryRecord, DeliveryState, OperationRecord, OperationState, Write};
use recado_core::policy::{DuplicatePolicy, ToolPolicy, UncertainPolicy};

use super::told::Claimed;
use super::{Moment, Watch};
use crate::edges::{self, Machine};
use crate::store::MemoryStore;
use crate::tools::Tools;
use crate::violation::{Findings, Invariant};

/// What is known of the records.
#[derive(Debug, Default)]
pub struct Commits {
    /// The operations of each batch.
    operations: BTreeMap<BatchId, Vec<OperationId>>,
    /// The deliveries of each batch.
    deliveries: BTreeMap<BatchId, Vec<DeliveryId>>,
    /// Deliveries that wait to be told, and since when (ms).
    pub waiting: BTreeMap<DeliveryId, u64>,
    /// When each delivery was made, by the monotonic clock of its boot.
    made: BTreeMap<DeliveryId, (BootId, u64)>,
    /// Deliveries that were too old when it was decided not to tell them.
    too_old: BTreeSet<DeliveryId>,
    /// Deliveries of which something may have been heard when they came to their end.
    ended_in_doubt: BTreeSet<DeliveryId>,
    /// The batches in the order in which they were asked for.
    order: BTreeMap<BatchId, usize>,
    /// Operations that have ever been on record as being cancelled.
    cancelling: BTreeSet<OperationId>,
    /// Those whose tool is to be asked for that: since when, and how long the whole operation may take (ms).
    to_be_asked: BTreeMap<OperationId, (u64, u64)>,
}

impl Commits {
    /// A cancel request leaves (R6).
    pub fn asks_to_cancel(&mut self, operation: OperationId, findings: &mut Findings) {
        findings.check(self.was_cancelling(operation), Invariant::I16, || format!("R6: {operation} is cancelled, which is not on record"));
        self.to_be_asked.remove(&operation);
    }

    /// Whether a delivery had been made before `at` (ms), on record or on its way there.
    pub fn made_before(&self, delivery: DeliveryId, at: u64) -> bool {
        self.made.get(&delivery).is_some_and(|(_, made)| *made < at)
    }

    /// Whether it is, or was, on record that an operation is to be cancelled.
    pub fn was_cancelling(&self, operation: OperationId) -> bool {
        self.cancelling.contains(&operation)
    }

    /// The process died, and is back: what is being cancelled goes on (R6).
    pub fn restarted(&mut self, store: &MemoryStore, policies: &Policies, now: u64) {
        self.to_be_asked.clear();
        for record in store.operations.values() {
            self.may_be_cancelled(record, policies, now);
        }
    }

    fn may_be_cancelled(&mut self, record: &OperationRecord, policies: &Policies, now: u64) {
        if record.state != OperationState::Cancelling {
            self.to_be_asked.remove(&record.id);
        } else if let Some(policy) = policies.get(&record.tool).filter(|policy| policy.cancellable) {
            self.to_be_asked.insert(record.id, (now, policy.deadline_ms));
        }
    }
}

impl Watch {
    /// A transaction is asked for. `unanswered` says whether others are on record and the ledger does not know yet: whether a claim is
    /// obsolete by those is judged when the first frame is released.
    pub fn asked(
        &mut self,
        store: &MemoryStore,
        writes: &[Write],
        unanswered: bool,
        policies: &Policies,
        at: Moment,
        findings: &mut Findings,
    ) {
        for write in writes {
            match write {
                Write::CreateBatch(record) => {
                    let next = self.commits.order.len();
                    self.commits.order.entry(record.id).or_insert(next);
                }
                Write::CreateOperation(record) if policies.get(&record.tool).is_some_and(|policy| policy.confirm) => {
                    self.consents.accepts(record, findings);
                }
                Write::CreateDelivery(record) => {
                    self.commits.made.entry(record.id).or_insert((at.boot, at.now));
                }
                Write::Claim { delivery, .. } if !unanswered => self.claims(store, *delivery, policies, at, findings),
                // Before it is on record the clock may have jumped.
                Write::UpdateDelivery(record) if record.state == DeliveryState::Suppressed && self.stale(record, at) => {
                    self.commits.too_old.insert(record.id);
                }
                _ => {}
            }
        }
    }

    /// A transaction is about to be on record.
    pub fn committing(
        &mut self,
        store: &MemoryStore,
        writes: &[Write],
        at: Moment,
        (policies, tools): (&Policies, &Tools),
        findings: &mut Findings,
    ) {
        for write in writes {
            match write {
                Write::CreateOperation(record) => {
                    self.commits.operations.entry(record.batch).or_default().push(record.id);
                    findings.edge(Machine::Operation, "Accepted", edges::operation(record.state), || format!("{record:?}"));
                }
                Write::UpdateOperation(record) => {
                    operation(store, record, tools, self.unwell(at.now), findings);
                    let unasked = self.commits.to_be_asked.get(&record.id).filter(|_| record.state == OperationState::Unknown);
                    let in_time =
                        |(_, deadline_ms): &(u64, u64)| at.wall.age_ms(record.accepted).is_some_and(|age| age + 5_000 < *deadline_ms);
                    findings.check(!unasked.is_some_and(in_time), Invariant::I16, || format!("R6: nobody was asked to cancel {record:?}"));
                }
                Write::CreateBatch(record) => {
                    findings.edge(Machine::Batch, "Open", edges::batch(record.state), || format!("{record:?}"));
                }
                Write::UpdateBatch(record) => {
                    let from = store.batches.get(&record.id).map_or("Open", |known| edges::batch(known.state));
                    findings.edge(Machine::Batch, from, edges::batch(record.state), || format!("{record:?}"));
                }
                Write::CreateDelivery(record) => {
                    self.commits.deliveries.entry(record.batch).or_default().push(record.id);
                    self.told.made.insert(record.id, at.now);
                    findings.edge(Machine::Delivery, "Ready", edges::delivery(record.state), || format!("{record:?}"));
                    self.waits(record, at.now);
                }
                Write::UpdateDelivery(record) => {
                    self.delivery(store, record, at, findings);
                    self.waits(record, at.now);
                }
                Write::Claim { delivery, boot, .. } => {
                    let record = store.deliveries.get(delivery);
                    // A claim may be taken back and another granted in one transaction: the doubt goes over to it.
                    let before = self.told.claims.get(delivery).is_some_and(|before| before.doubted || before.frames);
                    let doubted = record.is_some_and(|record| match record.state {
                        DeliveryState::Uncertain => true,
                        // A hand-off that goes on after a restart.
                        DeliveryState::Claimed => true,
                        DeliveryState::Speaking => before,
                        _ => false,
                    });
                    let obsolete = record.is_some_and(|record| {
                        self.stale(record, at) || self.overtaken(store, record.batch, policies, Among::OnRecord).is_some()
                    });
                    self.told.claims.insert(*delivery, Claimed { boot: *boot, obsolete, doubted, frames: false });
                }
                Write::Unclaim { delivery } => {
                    let given_up = store.claims.get(delivery).map(|(session, ..)| (*delivery, (*session, at.now)));
                    self.told.given_up.extend(given_up);
                }
            }
        }
        self.drains(store, writes, findings);
    }

    fn waits(&mut self, record: &DeliveryRecord, now: u64) {
        if matches!(record.state, DeliveryState::Ready | DeliveryState::Uncertain) {
            self.commits.waiting.entry(record.id).or_insert(now);
        } else {
            self.commits.waiting.remove(&record.id);
        }
    }

    fn delivery(&mut self, store: &MemoryStore, record: &DeliveryRecord, at: Moment, findings: &mut Findings) {
        let Some(known) = store.deliveries.get(&record.id) else { return };
        let claim = self.told.claims.get(&record.id);
        let frames = claim.is_some_and(|claim| claim.frames);
        let from = match known.state {
            DeliveryState::Speaking if !frames => "Claimed",
            state => edges::delivery(state),
        };
        let to = match record.state {
            DeliveryState::Speaking if known.state != DeliveryState::Speaking => "Claimed",
            DeliveryState::Speaking => from,
            state => edges::delivery(state),
        };
        findings.edge(Machine::Delivery, from, to, || format!("{record:?}"));
        // Of a claim of an earlier boot nobody knows whether a frame was released.
        let claimed = matches!(known.state, DeliveryState::Speaking | DeliveryState::Claimed);
        let open = claimed && claim.is_some_and(|claim| claim.frames || claim.doubted || claim.boot != at.boot);
        let doubted = record.state == DeliveryState::Uncertain && known.state != DeliveryState::Uncertain;
        findings.check(!doubted || open, Invariant::I12, || format!("{record:?} is in doubt, and no frame of it was released: {claim:?}"));
        let spent = record.attempt > known.attempt;
        findings.check(!spent || claimed, Invariant::I12, || format!("{record:?} has spent an attempt, and nobody had claimed it"));
        if record.state.terminal() && (open || known.state == DeliveryState::Uncertain) {
            self.commits.ended_in_doubt.insert(record.id);
        }
        if record.state == DeliveryState::Uncertain {
            self.told.doubted.insert(record.id);
        }
        if record.state.terminal() && !known.state.terminal() {
            self.told.ended.entry(record.id).or_insert(at.now);
        }
    }

    /// What is on record as too old, or overtaken by a later version, is not claimed; a hand-off that goes on was claimed before.
    fn claims(&self, store: &MemoryStore, delivery: DeliveryId, policies: &Policies, at: Moment, findings: &mut Findings) {
        let waits = |record: &&DeliveryRecord| matches!(record.state, DeliveryState::Ready | DeliveryState::Uncertain);
        let Some(record) = store.deliveries.get(&delivery).filter(waits) else { return };
        findings.check(!self.stale(record, at), Invariant::I10, || format!("claimed, and too old: {record:?}"));
        // What ends the closing may wait for a store that fails, and the claim be tried before it: that is given back when it is durable,
        // and no frame of it is released.
        let overtaken = !self.unwell(at.now) && self.overtaken(store, record.batch, policies, Among::OnRecord).is_some();
        findings.check(!overtaken, Invariant::I10, || format!("claimed, and something newer is on record: {record:?}"));
    }

    /// R6: who can be asked to cancel is asked, also after a restart.
    pub fn cancels_go_on(&mut self, now: u64, findings: &mut Findings) {
        if self.unwell(now) {
            self.commits.to_be_asked.values_mut().for_each(|(since, _)| *since = now);
            return;
        }
        let late = self.commits.to_be_asked.iter().find(|(_, (since, _))| now > since + CANCEL_MAX);
        findings.check(late.is_none(), Invariant::I16, || format!("R6: nobody is asked to cancel {late:?}"));
    }

    /// Whether a delivery may be too old by now.
    pub fn stale(&self, record: &DeliveryRecord, at: Moment) -> bool {
        let Some(limit) = record.stale_after_ms else { return false };
        let age = match self.commits.made.get(&record.id) {
            Some((boot, made)) if *boot == at.boot => Some(at.now - made),
            _ => at.wall.age_ms(record.ready),
        };
        age.is_some_and(|age| age > limit)
    }

    /// R3: a result that leaves nothing to wait for makes the closing in the same transaction.
    fn drains(&self, store: &MemoryStore, writes: &[Write], findings: &mut Findings) {
        for write in writes {
            let Write::UpdateOperation(record) = write else { continue };
            let was = store.operations.get(&record.id).is_none_or(|known| known.state.settled());
            let sealed = store.batches.get(&record.batch).is_some_and(|batch| batch.state == BatchState::Sealed);
            if was || !record.state.settled() || !sealed {
                continue;
            }
            let now = |id: &OperationId| {
                let written = writes.iter().rev().find_map(|write| match write {
                    Write::UpdateOperation(other) if other.id == *id => Some(other.state),
                    _ => None,
                });
                written.or_else(|| store.operations.get(id).map(|known| known.state)).is_none_or(|state| state.settled())
            };
            let complete = self.commits.operations.get(&record.batch).is_some_and(|operations| operations.iter().all(now));
            let drained = writes
                .iter()
                .any(|write| matches!(write, Write::UpdateBatch(batch) if batch.id == record.batch && batch.state == BatchState::Drained));
            let closing = writes.iter().any(|write| matches!(write, Write::CreateDelivery(made) if made.batch == record.batch));
            findings
                .check(!complete || (drained && closing), Invariant::I16, || format!("R3: {record:?} is committed without its closing"));
        }
    }

    /// A transaction is on record.
    pub fn committed(&mut self, store: &MemoryStore, writes: &[Write], policies: &Policies, tools: &Tools, findings: &mut Findings) {
        for write in writes {
            match write {
                Write::UpdateOperation(record) => {
                    if record.state == OperationState::Unknown {
                        self.told.unknown.insert(record.id);
                    }
                    if record.state == OperationState::Cancelling && self.commits.cancelling.insert(record.id) {
                        self.commits.may_be_cancelled(record, policies, findings.now);
                    } else if record.state != OperationState::Cancelling {
                        self.commits.to_be_asked.remove(&record.id);
                    }
                }
                Write::CreateDelivery(record) | Write::UpdateDelivery(record) => {
                    if record.state == DeliveryState::Spoken {
                        self.told.spoken(record, findings);
                    }
                    let proven = self.proven(store, record, policies, tools);
                    findings.check(proven, Invariant::I2, || format!("nothing explains the end of {record:?}"));
                }
                Write::UpdateBatch(record) if record.state != BatchState::Sealed => {
                    let all = self.commits.deliveries.get(&record.id).into_iter().flatten().filter_map(|id| store.deliveries.get(id));
                    let finals: Vec<&DeliveryRecord> = all.filter(|delivery| delivery.kind == DeliveryKind::Final).collect();
                    findings.check(finals.len() == 1, Invariant::I2, || format!("{record:?} has {} final deliveries", finals.len()));
                    let over = record.state != BatchState::Closed || finals.iter().all(|delivery| delivery.state.terminal());
                    findings.check(over, Invariant::I2, || format!("{record:?} is closed before its closing is over: {finals:?}"));
                }
                _ => {}
            }
        }
        for delivery in store.claims.keys() {
            findings
                .check(store.deliveries.contains_key(delivery), Invariant::I17, || format!("a claim of {delivery}, which there is not"));
        }
    }

    /// I2: whether the way in which a delivery ended follows from its rule.
    fn proven(&self, store: &MemoryStore, record: &DeliveryRecord, policies: &Policies, tools: &Tools) -> bool {
        let all = |holds: &dyn Fn(OperationId) -> bool| record.clauses.iter().all(|clause| holds(clause.operation));
        // What may have been heard is not told again where the policy rules that out.
        let given_up = record.uncertain == UncertainPolicy::Suppress && self.commits.ended_in_doubt.contains(&record.id);
        match record.state {
            DeliveryState::Superseded => match record.superseded_by {
                Some(by) => store.deliveries.contains_key(&by),
                None => self.overtaken(store, record.batch, policies, Among::Ever) == Some(Overtaken::ByRequest),
            },
            DeliveryState::Suppressed => {
                let by_version = || self.overtaken(store, record.batch, policies, Among::Ever) == Some(Overtaken::ByVersion);
                self.commits.too_old.contains(&record.id) || given_up || by_version()
            }
            DeliveryState::Withdrawn => {
                let taken_back = |of: OperationId| tools.retracted.values().any(|(operation, _)| *operation == of);
                let heard = |of: OperationId| record.clauses.iter().all(|clause| clause.operation != of || clause.heard.is_some());
                let replaced = |of| store.operation_ever(of).is_some_and(|own| replaced(store, own, policies));
                all(&|of| taken_back(of) || heard(of)) || all(&replaced)
            }
            DeliveryState::HandedOff => self.told.acknowledged.contains(&record.id),
            _ => true,
        }
    }
}

/// The tools' policies by name.
pub type Policies = BTreeMap<String, ToolPolicy>;

/// How an operation goes on.
fn operation(store: &MemoryStore, record: &OperationRecord, tools: &Tools, unwell: bool, findings: &mut Findings) {
    let Some(known) = store.operations.get(&record.id) else { return };
    findings.edge(Machine::Operation, edges::operation(known.state), edges::operation(record.state), || format!("{record:?}"));
    if known.state != record.state && record.state.settled() {
        tools.settles(record, unwell, findings);
    }
}

/// Whether a newer request took the place of an operation that came to nothing.
fn replaced(store: &MemoryStore, own: &OperationRecord, policies: &Policies) -> bool {
    let replaces = policies.get(&own.tool).is_some_and(|policy| policy.duplicate == DuplicatePolicy::Replace);
    let base = |record: &OperationRecord| record.intent_key.0.rsplit_once('|').map(|(base, _)| base.to_owned());
    let newer = |other: &OperationRecord| other.id != own.id && base(other) == base(own);
    let undone = matches!(own.state, OperationState::Cancelled | OperationState::Compensated);
    replaces && undone && store.operations_ever().any(newer)
}

/// What makes a closing obsolete: only all of its operations together do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overtaken {
    /// Newer requests on its topics.
    ByRequest,
    /// A later version of a result, of whatever else as well.
    ByVersion,
}

/// What may make a closing obsolete: a box that was not restarted remembers also what the store has removed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Among {
    OnRecord,
    Ever,
}

impl Watch {
    /// What has made a batch's closing obsolete. Where a result has a version, only a later one does.
    fn overtaken(&self, store: &MemoryStore, batch: BatchId, policies: &Policies, among: Among) -> Option<Overtaken> {
        let version = |record: &OperationRecord| {
            let field = policies.get(&record.tool).and_then(|policy| policy.version_field.as_ref())?;
            record.known_result()?.get(field)?.as_i64()
        };
        let place = |batch: BatchId| self.commits.order.get(&batch);
        let one = |of: &OperationId| match store.operations.get(of).and_then(version) {
            Some(own) => on_topic(store, *of, policies, among).any(|other| version(other) > Some(own)).then_some(Overtaken::ByVersion),
            None => on_topic(store, *of, policies, among).any(|other| place(other.batch) > place(batch)).then_some(Overtaken::ByRequest),
        };
        let each: Option<Vec<Overtaken>> = self.commits.operations.get(&batch)?.iter().map(one).collect();
        each.map(|each| if each.contains(&Overtaken::ByVersion) { Overtaken::ByVersion } else { Overtaken::ByRequest })
    }
}

/// What else the same party asked for on the topic of an operation.
fn on_topic<'a>(
    store: &'a MemoryStore,
    of: OperationId,
    policies: &'a Policies,
    among: Among,
) -> impl Iterator<Item = &'a OperationRecord> {
    let topic = |tool: &str| policies.get(tool).and_then(|policy| policy.topic.as_deref());
    let own = store.operations.get(&of);
    let same = move |other: &OperationRecord, own: &OperationRecord| match &own.party {
        Some(party) => other.party.as_ref() == Some(party),
        None => other.session == own.session,
    };
    let on = own.and_then(|own| topic(&own.tool));
    let there = move |other: &&OperationRecord| among == Among::Ever || store.operations.contains_key(&other.id);
    store.operations_ever().filter(there).filter(move |other| {
        own.is_some_and(|own| other.batch != own.batch && same(other, own) && on.is_some() && topic(&other.tool) == on)
    })
}

/// Who can be asked to cancel is asked within so long (ms).
const CANCEL_MAX: u64 = 1_000;
