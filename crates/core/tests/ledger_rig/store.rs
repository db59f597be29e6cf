//! A store in memory with the constraints that SQL can hold.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::ledger::*;
use recado_core::{BatchId, BootId, DeliveryId, IntentKey, OperationId, SessionId};

#[derive(Debug, Clone, Default)]
pub struct Store {
    pub operations: BTreeMap<OperationId, OperationRecord>,
    pub batches: BTreeMap<BatchId, BatchRecord>,
    pub deliveries: BTreeMap<DeliveryId, DeliveryRecord>,
    pub claims: BTreeMap<DeliveryId, (SessionId, BootId)>,
    /// Which operation a callback was about; the rig's, not the box's.
    pub requests: BTreeMap<RequestId, OperationId>,
    /// Edges of the contract's machines that have been taken, by their names.
    pub edges: BTreeSet<String>,
    order: Vec<BatchId>,
    keys: BTreeSet<IntentKey>,
    finals: BTreeSet<BatchId>,
    sequences: BTreeSet<u64>,
    routes: BTreeMap<DeliveryId, Route>,
}

impl Store {
    /// Applies a transaction; what its constraints refuse ends the test, so nothing is ever half applied and used.
    pub fn apply(&mut self, writes: &[Write]) -> Result<(), String> {
        writes.iter().try_for_each(|write| self.write(write))
    }

    pub fn snapshot(&self) -> Snapshot {
        let claims =
            self.claims.iter().map(|(&delivery, &(session, boot))| ClaimRecord { delivery, session, boot, route: self.routes[&delivery] });
        Snapshot {
            operations: self.operations.values().cloned().collect(),
            batches: self.order.iter().map(|id| self.batches[id].clone()).collect(),
            deliveries: self.deliveries.values().cloned().collect(),
            claims: claims.collect(),
            next_sequence: self.deliveries.values().map(|row| row.sequence + 1).max().unwrap_or(0),
            occurrence_floor: 0,
        }
    }

    fn write(&mut self, write: &Write) -> Result<(), String> {
        match write {
            Write::CreateBatch(row) => {
                self.order.push(row.id);
                unique(self.batches.insert(row.id, row.clone()).is_none(), "batch")
            }
            Write::CreateOperation(row) => {
                unique(self.keys.insert(row.intent_key.clone()) && self.batches.contains_key(&row.batch), "intent key")?;
                unique(self.operations.insert(row.id, row.clone()).is_none(), "operation")
            }
            Write::CreateDelivery(row) => {
                unique(row.kind != DeliveryKind::Final || self.finals.insert(row.batch), "I1: final delivery")?;
                unique(self.sequences.insert(row.sequence), "sequence")?;
                unique(self.deliveries.insert(row.id, row.clone()).is_none(), "delivery")
            }
            Write::UpdateOperation(row) => {
                let old = self.operations.insert(row.id, row.clone()).ok_or("no such operation")?;
                self.edges.insert(format!("operation {:?} {:?}", old.state, row.state));
                let kept = old.attempt <= row.attempt && old.maybe_executed <= row.maybe_executed;
                edge(kept && operation_edge(old.state, row.state), &(&old, row))
            }
            Write::UpdateBatch(row) => {
                let old = self.batches.insert(row.id, row.clone()).ok_or("no such batch")?;
                self.edges.insert(format!("batch {:?} {:?}", old.state, row.state));
                edge(old.state as u8 + 1 == row.state as u8, &(&old, row))
            }
            Write::UpdateDelivery(row) => {
                let old = self.deliveries.insert(row.id, row.clone()).ok_or("no such delivery")?;
                self.edges.insert(format!("delivery {:?} {:?}", old.state, row.state));
                let acknowledged = row.state != DeliveryState::HandedOff || self.routes.get(&row.id) == Some(&Route::HandOff);
                edge(!old.state.terminal() && acknowledged, &(&old, row))
            }
            Write::Claim { delivery, session, boot, route } => {
                self.routes.insert(*delivery, *route);
                unique(self.claims.insert(*delivery, (*session, *boot)).is_none(), "I17: claim")
            }
            Write::Unclaim { delivery } => self.claims.remove(delivery).map(|_| ()).ok_or_else(|| "no such claim".to_owned()),
        }
    }
}

fn operation_edge(from: OperationState, to: OperationState) -> bool {
    use OperationState::*;
    match from {
        Accepted | RetryWait => matches!(to, Running | Failed | Unknown | Cancelling | Succeeded),
        Running => matches!(to, Running | RetryWait | Succeeded | Failed | Unknown | Cancelling),
        Cancelling => matches!(to, Cancelling | Cancelled | Compensated | TooLate | Unknown),
        Unknown => matches!(to, Succeeded | Failed),
        // Only what contradicts it is added.
        Succeeded | Failed | Cancelled | Compensated | TooLate => from == to,
    }
}

fn unique(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not unique: {what}")) }
}

fn edge(holds: bool, rows: &dyn std::fmt::Debug) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("no such edge: {rows:?}")) }
}
