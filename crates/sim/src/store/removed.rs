//! What a store has removed because it had been over for long: gone for the box, and kept for who looks on.

use std::collections::BTreeMap;

use recado_core::ids::{BatchId, DeliveryId, OperationId};
use recado_core::ledger::{BatchRecord, DeliveryRecord, OperationRecord, occurrence};

/// What was on record, and what of it must never be given out again.
#[derive(Debug, Clone, Default)]
pub struct Removed {
    /// The operations.
    pub operations: BTreeMap<OperationId, OperationRecord>,
    /// The batches.
    pub batches: BTreeMap<BatchId, BatchRecord>,
    /// The deliveries.
    pub deliveries: BTreeMap<DeliveryId, DeliveryRecord>,
    /// The highest occurrence of an intent key among them; 0 without any.
    pub occurrence: u32,
    /// The highest sequence of a delivery among them; 0 without any.
    pub sequence: u64,
}

impl Removed {
    pub(super) fn operation(&mut self, record: OperationRecord) {
        self.occurrence = self.occurrence.max(occurrence(&record.intent_key).unwrap_or(0));
        self.operations.insert(record.id, record);
    }

    pub(super) fn delivery(&mut self, record: DeliveryRecord) {
        self.sequence = self.sequence.max(record.sequence);
        self.deliveries.insert(record.id, record);
    }
}
