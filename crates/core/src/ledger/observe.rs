//! What an observer may see: everything durable, nothing drafted.

use super::batch::Batch;
use super::machine::Ledger;
use super::record::{BatchRecord, DeliveryRecord, DeliveryState, OperationRecord};
use crate::ids::{BatchId, DeliveryId, OperationId};

impl Ledger {
    /// The operations in memory, in the order of acceptance.
    pub fn operations(&self) -> impl Iterator<Item = &OperationRecord> {
        self.batches_held().flat_map(|batch| batch.operations.iter().map(|operation| &operation.record))
    }

    /// The batches in memory, in the order of acceptance.
    pub fn batches(&self) -> impl Iterator<Item = &BatchRecord> {
        self.batches_held().map(|batch| &batch.record)
    }

    /// The deliveries that have not come to their end, in the order of their sequence. `Claimed` is told apart from `Speaking`
    /// by [`Self::delivery_state`] only: the row says `Speaking` for both.
    pub fn pending(&self) -> Vec<&DeliveryRecord> {
        let all = self.batches_held().flat_map(|batch| batch.deliveries.iter().map(|delivery| &delivery.record));
        let mut pending: Vec<&DeliveryRecord> = all.filter(|record| !record.state.terminal()).collect();
        pending.sort_by_key(|record| record.sequence);
        pending
    }

    /// An operation in memory.
    pub fn operation(&self, id: OperationId) -> Option<&OperationRecord> {
        let batch = self.held(*self.by_operation.get(&id)?)?;
        batch.operations.iter().map(|operation| &operation.record).find(|record| record.id == id)
    }

    /// A batch in memory.
    pub fn batch(&self, id: BatchId) -> Option<&BatchRecord> {
        self.batches().find(|record| record.id == id)
    }

    /// A delivery in memory.
    pub fn delivery(&self, id: DeliveryId) -> Option<&DeliveryRecord> {
        let batch = self.held(*self.by_delivery.get(&id)?)?;
        batch.deliveries.iter().map(|delivery| &delivery.record).find(|record| record.id == id)
    }

    /// A delivery's state as the contract names it: `Claimed` until its first frame has been released.
    pub fn delivery_state(&self, id: DeliveryId) -> Option<DeliveryState> {
        let batch = self.held(*self.by_delivery.get(&id)?)?;
        batch.deliveries.iter().find(|delivery| delivery.record.id == id).map(|delivery| delivery.state())
    }

    fn batches_held(&self) -> impl Iterator<Item = &Batch> {
        self.lanes.values().filter_map(|lane| lane.batch.as_ref())
    }

    fn held(&self, lane: u64) -> Option<&Batch> {
        self.lanes.get(&lane)?.batch.as_ref()
    }
}
