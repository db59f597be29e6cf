//! A restart: what the store holds becomes a ledger again.
//!
//! Nothing is sent, told or offered before the restart's own changes are durable: every batch begins with a transaction of
//! its own, and whatever is asked of it meanwhile waits behind that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::batch::Batch;
use super::claim::Claim;
use super::commit::Lane;
use super::delivery::Delivery;
use super::effect::Effect;
use super::machine::{Ledger, World};
use super::operation::Operation;
use super::record::{BatchRecord, BatchState, DeliveryRecord, DeliveryState, OperationRecord, Route};
use super::work::Work;
use crate::faults::{Fault, fault};
use crate::ids::{BootId, DeliveryId, SessionId};
use crate::policy::ToolPolicy;
use crate::time::Step;

/// What the store holds. An empty one is a new box.
///
/// Every batch that is not `Closed` must be here, with all its operations and deliveries; so must closed ones that have a
/// delivery which is not terminal or an operation that is `Unknown`. Of the other closed ones the latest
/// [`super::CLOSED_OPERATIONS_MAX`] operations are of use, to recognise repeats. Rows are in the order in which they were
/// created; one whose batch is missing is left alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The operations.
    pub operations: Vec<OperationRecord>,
    /// The batches.
    pub batches: Vec<BatchRecord>,
    /// The deliveries.
    pub deliveries: Vec<DeliveryRecord>,
    /// The claims.
    pub claims: Vec<ClaimRecord>,
    /// Above every delivery's sequence.
    pub next_sequence: u64,
    /// The highest occurrence ([`super::occurrence`]) among the intent keys of operations that are stored but not in
    /// `operations`; 0 where all are. No key is given out twice.
    pub occurrence_floor: u32,
}

/// A claim as the store holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The conversation that owns it.
    pub session: SessionId,
    /// The life of the process that owns it.
    pub boot: BootId,
    /// The way that it is told.
    pub route: Route,
}

impl Ledger {
    /// A ledger over what the store holds, with what the restart makes of it.
    ///
    /// * Operations that ran are sent again under the same key where R2 allows it, otherwise they are `Unknown`.
    /// * What was being cancelled is cancelled if it was never sent; otherwise its tool is asked again, or it is `Unknown`.
    /// * Claims of another boot end: their deliveries may have been heard in part and become `Uncertain`. A hand-off is sent again.
    /// * Open batches are sealed, and drained if nothing of them runs any more.
    pub fn recover(step: &mut Step, boot: BootId, policies: BTreeMap<String, ToolPolicy>, snapshot: Snapshot) -> (Self, Vec<Effect>) {
        let mut ledger = Self::new(World::new(boot, policies), snapshot.occurrence_floor);
        let highest = snapshot.deliveries.iter().map(|delivery| delivery.sequence.saturating_add(1)).max();
        ledger.next_sequence = snapshot.next_sequence.max(highest.unwrap_or(0));
        for batch in assemble(snapshot, &ledger.world, step) {
            ledger.adopt(batch, step);
        }
        ledger.resume_replacements();
        let mut effects = Vec::new();
        let lanes: Vec<u64> = ledger.lanes.keys().copied().collect();
        // Before anything is told: what a store that fails again keeps from changing is on record all the same.
        for lane in &lanes {
            ledger.is_on_record(*lane);
        }
        for lane in lanes {
            ledger.pump(lane, step, &mut effects);
        }
        (ledger, effects)
    }

    fn adopt(&mut self, batch: Batch, step: &Step) {
        if fault(Fault::BatchForgottenAtRestart) && !batch.closed() {
            return;
        }
        let number = self.next_lane;
        self.next_lane = self.next_lane.saturating_add(1);
        let closed = batch.closed();
        for operation in &batch.operations {
            let record = &operation.record;
            // Over boots only the wall clock knows an age, and only where it is synchronised: otherwise the time begins anew.
            let age_ms = step.wall.age_ms(record.accepted).unwrap_or(0);
            self.intents.restore(record, number, closed, (age_ms, step.now));
            self.by_operation.insert(record.id, number);
        }
        for delivery in &batch.deliveries {
            self.by_delivery.insert(delivery.record.id, number);
        }
        let mut lane = Lane::new(batch.record.session, batch.record.party.clone());
        lane.operations = batch.operations.len();
        lane.batch = Some(batch);
        lane.put(Work::Recover);
        self.lanes.insert(number, lane);
    }
}

/// Batches with their parts, in the order of the store.
fn assemble(snapshot: Snapshot, world: &World, step: &Step) -> Vec<Batch> {
    let mut operations: BTreeMap<_, Vec<Operation>> = BTreeMap::new();
    for record in snapshot.operations {
        operations.entry(record.batch).or_default().push(operation(record, world, step));
    }
    let mut claims: BTreeMap<DeliveryId, ClaimRecord> = snapshot.claims.into_iter().map(|claim| (claim.delivery, claim)).collect();
    let mut deliveries: BTreeMap<_, Vec<Delivery>> = BTreeMap::new();
    for record in snapshot.deliveries {
        let claim = claims.remove(&record.id).map(|claim| Claim {
            session: claim.session,
            boot: claim.boot,
            route: claim.route,
            doubted: record.state == DeliveryState::Uncertain,
            frames: claim.route != Route::HandOff,
            told: Vec::new(),
        });
        deliveries.entry(record.batch).or_default().push(Delivery {
            record,
            ready_at: None,
            claim,
            tellers: Vec::new(),
            asked_for: false,
            route: None,
        });
    }
    let with_parts = |record: BatchRecord| {
        let mut operations = operations.remove(&record.id).unwrap_or_default();
        operations.sort_by_key(|operation| operation.record.ordinal);
        let mut deliveries = deliveries.remove(&record.id).unwrap_or_default();
        deliveries.sort_by_key(|delivery| delivery.record.sequence);
        Batch { record, operations, deliveries }
    };
    // A batch is made with its first operation; without any there is nothing to close.
    let whole = |batch: &Batch| !batch.operations.is_empty() || batch.record.state == BatchState::Closed;
    snapshot.batches.into_iter().map(with_parts).filter(whole).collect()
}

fn operation(record: OperationRecord, world: &World, step: &Step) -> Operation {
    // Over boots only the wall clock knows an age, and only where it is synchronised: otherwise the time begins anew.
    let age = step.wall.age_ms(record.accepted).unwrap_or(0);
    let left = world.policy(&record.tool).deadline_ms.saturating_sub(age);
    let policy = world.tool(&record.tool);
    Operation::restored(record, policy, step.now.plus(left), step.now)
}
