//! A store in memory that refuses what the schema of the real one refuses (`src/coordination/schema`), sizes apart. What it
//! answers is the name of the constraint there.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::ids::{BatchId, BootId, DeliveryId, IntentKey, OperationId, SessionId};
use recado_core::ledger::{
    BatchRecord, BatchState, ClaimRecord, DeliveryKind, DeliveryRecord, DeliveryState, OperationRecord, OperationState, Route, Snapshot,
    Write,
};
use recado_core::time::Wall;

use super::Store;
use super::removed::Removed;

/// A store in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    /// The operations.
    pub operations: BTreeMap<OperationId, OperationRecord>,
    /// The batches.
    pub batches: BTreeMap<BatchId, BatchRecord>,
    /// The deliveries.
    pub deliveries: BTreeMap<DeliveryId, DeliveryRecord>,
    /// The claims.
    pub claims: BTreeMap<DeliveryId, (SessionId, BootId, Route)>,
    /// What was on record and has been removed: it is there for who looks on, and for no box.
    pub removed: Removed,
    boots: BTreeSet<BootId>,
    intent_keys: BTreeSet<IntentKey>,
    sequences: BTreeMap<u64, DeliveryId>,
    /// In the order of creation.
    batch_order: Vec<BatchId>,
    operation_order: Vec<OperationId>,
    of_batch: BTreeMap<BatchId, OfBatch>,
}

/// What belongs to a batch.
#[derive(Debug, Clone, Default)]
struct OfBatch {
    operations: Vec<OperationId>,
    deliveries: Vec<DeliveryId>,
}

/// What takes one write back.
enum Undo {
    CreateBatch(BatchId),
    UpdateBatch(BatchRecord),
    CreateOperation(OperationId),
    UpdateOperation(Box<OperationRecord>),
    CreateDelivery(DeliveryId),
    UpdateDelivery(Box<DeliveryRecord>),
    Claim(DeliveryId),
    Unclaim(DeliveryId, (SessionId, BootId, Route)),
}

impl Store for MemoryStore {
    fn apply(&mut self, writes: &[Write]) -> Result<(), String> {
        let mut done = Vec::with_capacity(writes.len());
        for write in writes {
            match self.write(write) {
                Ok(undo) => done.extend(undo),
                Err(constraint) => {
                    done.into_iter().rev().for_each(|undo| self.undo(undo));
                    return Err(constraint.to_owned());
                }
            }
        }
        Ok(())
    }

    fn restart(&mut self, boot: BootId) -> Snapshot {
        self.boots.insert(boot);
        self.snapshot()
    }

    /// So few operations as a simulation has are all recent; a closed batch that never had one is of no use to anybody.
    fn snapshot(&self) -> Snapshot {
        let live = |id: &DeliveryId| self.deliveries.get(id).is_some_and(|record| !record.state.terminal());
        let kept = |batch: &&BatchRecord| {
            let of_batch = self.of_batch.get(&batch.id);
            batch.state != BatchState::Closed || of_batch.is_some_and(|of| !of.operations.is_empty() || of.deliveries.iter().any(live))
        };
        let batches: Vec<BatchRecord> = self.batch_order.iter().filter_map(|id| self.batches.get(id)).filter(kept).cloned().collect();
        let known: BTreeSet<BatchId> = batches.iter().map(|batch| batch.id).collect();
        let deliveries = self.sequences.values().filter_map(|id| self.deliveries.get(id));
        Snapshot {
            operations: self.operation_order.iter().filter_map(|id| self.operations.get(id)).cloned().collect(),
            deliveries: deliveries.filter(|record| known.contains(&record.batch)).cloned().collect(),
            batches,
            claims: self.claims.iter().map(|(&delivery, &(session, boot, route))| ClaimRecord { delivery, session, boot, route }).collect(),
            next_sequence: self.sequences.keys().next_back().copied().unwrap_or(0).max(self.removed.sequence) + 1,
            occurrence_floor: self.removed.occurrence,
        }
    }

    /// As the real store does: it looks at the operations in the order of acceptance up to the last that is known to be so old, as one
    /// that was accepted while the clock was not synchronised is older than any that came after it.
    fn remove(&mut self, before_ms: i64) {
        let old = |id: &OperationId| self.operations.get(id).is_some_and(|record| is_before(record.accepted, before_ms));
        let looked_at = self.operation_order.iter().rposition(old).map_or(0, |last| last + 1);
        let batches: BTreeSet<BatchId> =
            self.operation_order.iter().take(looked_at).filter_map(|id| Some(self.operations.get(id)?.batch)).collect();
        for batch in batches {
            if self.may_go(batch, before_ms) {
                self.remove_batch(batch);
            }
        }
    }
}

impl MemoryStore {
    /// An operation that is on record, or was until it was removed.
    pub fn operation_ever(&self, id: OperationId) -> Option<&OperationRecord> {
        self.operations.get(&id).or_else(|| self.removed.operations.get(&id))
    }

    /// All operations that are on record, or were until they were removed.
    pub fn operations_ever(&self) -> impl Iterator<Item = &OperationRecord> {
        self.operations.values().chain(self.removed.operations.values())
    }

    /// A batch that is on record, or was until it was removed.
    pub fn batch_ever(&self, id: BatchId) -> Option<&BatchRecord> {
        self.batches.get(&id).or_else(|| self.removed.batches.get(&id))
    }

    /// A delivery that is on record, or was until it was removed.
    pub fn delivery_ever(&self, id: DeliveryId) -> Option<&DeliveryRecord> {
        self.deliveries.get(&id).or_else(|| self.removed.deliveries.get(&id))
    }

    /// All deliveries that are on record, or were until they were removed.
    pub fn deliveries_ever(&self) -> impl Iterator<Item = &DeliveryRecord> {
        self.deliveries.values().chain(self.removed.deliveries.values())
    }

    /// The batch of the first row that a transaction would change and that has been removed.
    pub fn misses(&self, writes: &[Write]) -> Option<BatchId> {
        writes.iter().find_map(|write| match write {
            Write::UpdateOperation(record) => self.removed.operations.get(&record.id).map(|removed| removed.batch),
            Write::UpdateDelivery(record) => self.removed.deliveries.get(&record.id).map(|removed| removed.batch),
            Write::UpdateBatch(record) => self.removed.batches.get(&record.id).map(|removed| removed.id),
            _ => None,
        })
    }

    /// Whether a batch is over, and all of it was before `before_ms`. One that another delivery refers to stays as long as that.
    fn may_go(&self, batch: BatchId, before_ms: i64) -> bool {
        let young = |at: Wall| at.synchronised && at.unix_ms >= before_ms;
        let Some(of_batch) = self.of_batch.get(&batch) else { return false };
        let operations = of_batch.operations.iter().filter_map(|id| self.operations.get(id));
        let deliveries = of_batch.deliveries.iter().filter_map(|id| self.deliveries.get(id));
        let named = |record: &DeliveryRecord| record.superseded_by.is_some_and(|by| of_batch.deliveries.contains(&by));
        self.batches.get(&batch).is_some_and(|record| record.state == BatchState::Closed)
            && operations
                .into_iter()
                .all(|record| record.state.settled() && record.state != OperationState::Unknown && !young(record.accepted))
            && deliveries.into_iter().all(|record| record.state.terminal() && !young(record.ready))
            && !self.deliveries.values().any(|record| record.batch != batch && named(record))
    }

    fn remove_batch(&mut self, batch: BatchId) {
        let OfBatch { operations, deliveries } = self.of_batch.remove(&batch).unwrap_or_default();
        for record in operations.iter().filter_map(|id| self.operations.remove(id)) {
            self.intent_keys.remove(&record.intent_key);
            self.removed.operation(record);
        }
        for record in deliveries.iter().filter_map(|id| self.deliveries.remove(id)) {
            self.sequences.remove(&record.sequence);
            self.removed.delivery(record);
        }
        if let Some(record) = self.batches.remove(&batch) {
            self.removed.batches.insert(batch, record);
        }
        self.operation_order.retain(|id| !operations.contains(id));
        self.batch_order.retain(|id| *id != batch);
    }

    /// One write, and how it is taken back.
    fn write(&mut self, write: &Write) -> Result<Option<Undo>, &'static str> {
        match write {
            Write::CreateBatch(new) => self.create_batch(new),
            Write::UpdateBatch(new) => self.update_batch(new),
            Write::CreateOperation(new) => self.create_operation(new),
            Write::UpdateOperation(new) => self.update_operation(new),
            Write::CreateDelivery(new) => self.create_delivery(new),
            Write::UpdateDelivery(new) => self.update_delivery(new),
            Write::Claim { delivery, session, boot, route } => {
                let record = self.deliveries.get(delivery).ok_or("claim.delivery_id")?;
                refuse(record.state.terminal(), "claim_needs_a_live_delivery")?;
                refuse(!self.boots.contains(boot), "claim.boot_id")?;
                refuse(self.claims.contains_key(delivery), "claim")?;
                self.claims.insert(*delivery, (*session, *boot, *route));
                Ok(Some(Undo::Claim(*delivery)))
            }
            // Given back twice is given back.
            Write::Unclaim { delivery } => Ok(self.claims.remove(delivery).map(|claim| Undo::Unclaim(*delivery, claim))),
        }
    }

    fn create_batch(&mut self, new: &BatchRecord) -> Result<Option<Undo>, &'static str> {
        refuse(self.batches.contains_key(&new.id), "batch.batch_id")?;
        self.batch_order.push(new.id);
        self.batches.insert(new.id, new.clone());
        Ok(Some(Undo::CreateBatch(new.id)))
    }

    fn update_batch(&mut self, new: &BatchRecord) -> Result<Option<Undo>, &'static str> {
        let old = self.batches.get_mut(&new.id).ok_or("there is no such batch")?;
        let kept = (old.session, old.response) == (new.session, new.response) && (old.party.is_none() || old.party == new.party);
        refuse(!kept, "batch_identity_is_kept")?;
        refuse(new.state < old.state, "batch_never_goes_back")?;
        Ok(Some(Undo::UpdateBatch(std::mem::replace(old, new.clone()))))
    }

    fn create_operation(&mut self, new: &OperationRecord) -> Result<Option<Undo>, &'static str> {
        let batch = self.batches.get(&new.batch).ok_or("operation.batch_id")?;
        let of_batch = self.of_batch.entry(new.batch).or_default();
        let closing = |id: &DeliveryId| self.deliveries.get(id).is_some_and(|record| record.kind == DeliveryKind::Final);
        let closed = batch.state >= BatchState::Drained || of_batch.deliveries.iter().any(closing);
        refuse(closed, "operation_comes_before_the_closing")?;
        refuse(self.operations.contains_key(&new.id), "operation.operation_id")?;
        refuse(self.intent_keys.contains(&new.intent_key), "operation.intent_key")?;
        let same_place = |id: &OperationId| self.operations.get(id).is_some_and(|record| record.ordinal == new.ordinal);
        refuse(of_batch.operations.iter().any(same_place), "operation.ordinal")?;
        sound(new)?;
        of_batch.operations.push(new.id);
        self.intent_keys.insert(new.intent_key.clone());
        self.operation_order.push(new.id);
        self.operations.insert(new.id, new.clone());
        Ok(Some(Undo::CreateOperation(new.id)))
    }

    fn update_operation(&mut self, new: &OperationRecord) -> Result<Option<Undo>, &'static str> {
        let old = self.operations.get_mut(&new.id).ok_or("there is no such operation")?;
        let kept = (&old.intent_key, old.batch, old.ordinal, old.session, old.turn, &old.tool, &old.arguments)
            == (&new.intent_key, new.batch, new.ordinal, new.session, new.turn, &new.tool, &new.arguments)
            && (old.party.is_none() || old.party == new.party);
        refuse(!kept, "operation_identity_is_kept")?;
        refuse(new.attempt < old.attempt, "operation_attempt_never_goes_down")?;
        refuse(old.maybe_executed && !new.maybe_executed, "operation_maybe_executed_is_kept")?;
        let terminal = old.state.settled() && old.state != OperationState::Unknown;
        refuse(terminal && (new.state != old.state || new.result != old.result), "operation_terminal_is_kept")?;
        let again = new.state == OperationState::Accepted && old.state != OperationState::Accepted;
        refuse(again, "operation_is_accepted_once")?;
        refuse(old.contradiction.is_some() && new.contradiction != old.contradiction, "operation_contradiction_is_kept")?;
        sound(new)?;
        Ok(Some(Undo::UpdateOperation(Box::new(std::mem::replace(old, new.clone())))))
    }

    fn create_delivery(&mut self, new: &DeliveryRecord) -> Result<Option<Undo>, &'static str> {
        use DeliveryState::{Speaking, Spoken, Uncertain};
        refuse(!self.batches.contains_key(&new.batch), "delivery.batch_id")?;
        refuse(!matches!(new.kind, DeliveryKind::Final | DeliveryKind::Correction), "delivery.kind")?;
        refuse(matches!(new.state, Speaking | Spoken | Uncertain), "delivery_is_created_waiting")?;
        refuse(self.sequences.contains_key(&new.sequence), "delivery.sequence")?;
        refuse(self.deliveries.contains_key(&new.id), "delivery.delivery_id")?;
        self.superseded_well(new)?;
        let of_batch = self.of_batch.entry(new.batch).or_default();
        if new.kind == DeliveryKind::Final {
            let closing = |id: &DeliveryId| self.deliveries.get(id).is_some_and(|record| record.kind == DeliveryKind::Final);
            refuse(of_batch.deliveries.iter().any(closing), "delivery_one_final_per_batch")?;
            let under_way = |id: &OperationId| self.operations.get(id).is_some_and(|record| !record.state.settled());
            refuse(of_batch.operations.iter().any(under_way), "delivery_final_needs_settled_operations")?;
        }
        of_batch.deliveries.push(new.id);
        self.sequences.insert(new.sequence, new.id);
        self.deliveries.insert(new.id, new.clone());
        Ok(Some(Undo::CreateDelivery(new.id)))
    }

    fn update_delivery(&mut self, new: &DeliveryRecord) -> Result<Option<Undo>, &'static str> {
        self.superseded_well(new)?;
        let old = self.deliveries.get_mut(&new.id).ok_or("there is no such delivery")?;
        let kept = (old.sequence, old.batch, old.kind, old.session) == (new.sequence, new.batch, new.kind, new.session)
            && (old.party.is_none() || old.party == new.party);
        refuse(!kept, "delivery_identity_is_kept")?;
        refuse(new.attempt < old.attempt, "delivery_attempt_never_goes_down")?;
        refuse(old.state.terminal() && new.state != old.state, "delivery_terminal_is_kept")?;
        let heard = !new.clauses.is_empty() && new.clauses.iter().all(|clause| clause.heard.is_some());
        refuse(new.state == DeliveryState::Spoken && !heard, "delivery_spoken_needs_evidence")?;
        let handed_off = new.state == DeliveryState::HandedOff && old.state != DeliveryState::HandedOff;
        let asked = self.claims.get(&new.id).is_some_and(|(_, _, route)| *route == Route::HandOff);
        refuse(handed_off && !asked, "delivery_handed_off_needs_its_claim")?;
        Ok(Some(Undo::UpdateDelivery(Box::new(std::mem::replace(old, new.clone())))))
    }

    fn superseded_well(&self, new: &DeliveryRecord) -> Result<(), &'static str> {
        refuse(new.superseded_by.is_some_and(|by| by == new.id || !self.deliveries.contains_key(&by)), "delivery.superseded_by")
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::CreateBatch(id) => {
                self.batches.remove(&id);
                self.batch_order.pop();
            }
            Undo::UpdateBatch(old) => drop(self.batches.insert(old.id, old)),
            Undo::CreateOperation(id) => {
                self.operation_order.pop();
                if let Some(record) = self.operations.remove(&id) {
                    self.intent_keys.remove(&record.intent_key);
                    self.of_batch.entry(record.batch).or_default().operations.pop();
                }
            }
            Undo::UpdateOperation(old) => drop(self.operations.insert(old.id, *old)),
            Undo::CreateDelivery(id) => {
                if let Some(record) = self.deliveries.remove(&id) {
                    self.sequences.remove(&record.sequence);
                    self.of_batch.entry(record.batch).or_default().deliveries.pop();
                }
            }
            Undo::UpdateDelivery(old) => drop(self.deliveries.insert(old.id, *old)),
            Undo::Claim(delivery) => drop(self.claims.remove(&delivery)),
            Undo::Unclaim(delivery, claim) => drop(self.claims.insert(delivery, claim)),
        }
    }
}

fn is_before(at: Wall, before_ms: i64) -> bool {
    at.synchronised && at.unix_ms < before_ms
}

/// What a row of an operation must be by itself.
fn sound(record: &OperationRecord) -> Result<(), &'static str> {
    refuse(record.state == OperationState::Succeeded && record.result.is_none(), "operation: success without a result")?;
    let tried = record.attempt > 0 || !matches!(record.state, OperationState::Running | OperationState::RetryWait);
    refuse(!tried, "operation: it runs without an attempt")?;
    refuse(record.tool.is_empty() || record.intent_key.0.is_empty(), "operation: a name is empty")
}

fn refuse(breaks: bool, constraint: &'static str) -> Result<(), &'static str> {
    if breaks { Err(constraint) } else { Ok(()) }
}
