//! What is committed: every transaction, against what was on record before it.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::ids::{BatchId, BootId, DeliveryId, OperationId};
use recado_core::ledger::{BatchState, DeliveryKind, DeliveryRecord, DeliveryState, OperationRecord, Write};
use recado_core::policy::{ToolPolicy, UncertainPolicy};

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
}

impl Watch {
    /// A transaction is asked for.
    pub fn asked(&mut self, writes: &[Write], at: Moment) {
        for write in writes {
            match write {
                Write::CreateDelivery(record) => {
                    self.commits.made.entry(record.id).or_insert((at.boot, at.now));
                }
                // Before it is on record the clock may have jumped.
                Write::UpdateDelivery(record) if record.state == DeliveryState::Suppressed && self.stale(record, at) => {
                    self.commits.too_old.insert(record.id);
                }
                _ => {}
            }
        }
    }

    /// A transaction is about to be on record.
    pub fn committing(&mut self, store: &MemoryStore, writes: &[Write], at: Moment, tools: &Tools, findings: &mut Findings) {
        for write in writes {
            match write {
                Write::CreateOperation(record) => {
                    self.commits.operations.entry(record.batch).or_default().push(record.id);
                    findings.edge(Machine::Operation, "Accepted", edges::operation(record.state), || format!("{record:?}"));
                }
                Write::UpdateOperation(record) => operation(store, record, tools, findings),
                Write::CreateBatch(record) => {
                    findings.edge(Machine::Batch, "Open", edges::batch(record.state), || format!("{record:?}"));
                }
                Write::UpdateBatch(record) => {
                    let from = store.batches.get(&record.id).map_or("Open", |known| edges::batch(known.state));
                    findings.edge(Machine::Batch, from, edges::batch(record.state), || format!("{record:?}"));
                }
                Write::CreateDelivery(record) => {
                    self.told.made.insert(record.id, at.now);
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
                        DeliveryState::Speaking => before,
                        _ => false,
                    });
                    let stale = record.is_some_and(|record| self.stale(record, at));
                    self.told.claims.insert(*delivery, Claimed { boot: *boot, stale, doubted, frames: false });
                }
                Write::Unclaim { .. } => {}
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
        let given_up = record.state == DeliveryState::Suppressed && !self.commits.too_old.contains(&record.id);
        if (record.state == DeliveryState::Uncertain && known.state != DeliveryState::Uncertain) || given_up {
            // Of a claim of an earlier boot nobody knows whether a frame was released.
            let open = known.state == DeliveryState::Speaking && claim.is_some_and(|c| c.frames || c.doubted || c.boot != at.boot);
            findings.check(open, Invariant::I12, || format!("{record:?} is in doubt, and no frame of it was released: {claim:?}"));
        }
        if record.state == DeliveryState::Uncertain {
            self.told.doubted.insert(record.id);
        }
        if record.state.terminal() && !known.state.terminal() {
            self.told.ended.entry(record.id).or_insert(at.now);
        }
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
    pub fn committed(&mut self, store: &MemoryStore, writes: &[Write], policies: &Policies, findings: &mut Findings) {
        for write in writes {
            match write {
                Write::CreateDelivery(record) | Write::UpdateDelivery(record) => {
                    if record.state == DeliveryState::Spoken {
                        self.told.spoken(record, findings);
                    }
                    let proven = self.proven(store, record, policies);
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
    fn proven(&self, store: &MemoryStore, record: &DeliveryRecord, policies: &Policies) -> bool {
        match record.state {
            DeliveryState::Superseded => match record.superseded_by {
                Some(by) => store.deliveries.contains_key(&by),
                None => record.clauses.iter().all(|clause| newer(store, clause.operation, policies)),
            },
            DeliveryState::Suppressed => {
                self.commits.too_old.contains(&record.id) || (record.uncertain == UncertainPolicy::Suppress && record.attempt > 0)
            }
            _ => true,
        }
    }
}

/// The tools' policies by name.
pub type Policies = BTreeMap<String, ToolPolicy>;

/// How an operation goes on.
fn operation(store: &MemoryStore, record: &OperationRecord, tools: &Tools, findings: &mut Findings) {
    let Some(known) = store.operations.get(&record.id) else { return };
    findings.edge(Machine::Operation, edges::operation(known.state), edges::operation(record.state), || format!("{record:?}"));
    if known.state != record.state && record.state.settled() {
        tools.settles(record, findings);
    }
}

/// Whether something else was asked for on the topic of an operation, for the same party.
fn newer(store: &MemoryStore, of: OperationId, policies: &Policies) -> bool {
    let Some(own) = store.operations.get(&of) else { return false };
    let topic = |tool: &str| policies.get(tool).and_then(|policy| policy.topic.as_deref());
    let same = |other: &&OperationRecord| match &own.party {
        Some(party) => other.party.as_ref() == Some(party),
        None => other.session == own.session,
    };
    let on = topic(&own.tool);
    on.is_some() && store.operations.values().any(|other| other.batch != own.batch && same(&other) && topic(&other.tool) == on)
}
