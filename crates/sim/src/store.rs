//! A store that keeps what was committed, and can be slow or fail.

use std::collections::{BTreeMap, VecDeque};

use recado_core::ids::{BootId, DeliveryId, OperationId, SessionId};
use recado_core::ledger::{self, ClaimRecord, CommitId, Route, Snapshot, Write};

/// A store that keeps what was committed and can be slow, or fail.
#[derive(Debug, Clone, Default)]
pub struct Store {
    pub operations: BTreeMap<OperationId, ledger::OperationRecord>,
    pub batches: BTreeMap<recado_core::BatchId, ledger::BatchRecord>,
    pub deliveries: BTreeMap<DeliveryId, ledger::DeliveryRecord>,
    pub claims: BTreeMap<DeliveryId, (SessionId, BootId, Route)>,
    pub commits: u64,
    pub delay_ms: u64,
    pub failing: bool,
    pub(crate) in_flight: VecDeque<(u64, CommitId, Vec<Write>)>,
}

impl Store {
    /// Transactions that have not been answered for.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Applies a transaction, checking what the real store's constraints check.
    ///
    /// # Errors
    /// Which constraint the real store would have refused it by. What comes before in the transaction is applied.
    pub fn apply(&mut self, writes: &[Write]) -> Result<(), String> {
        for write in writes {
            match write {
                Write::CreateOperation(record) => {
                    if self.operations.values().any(|known| known.intent_key == record.intent_key) {
                        return Err(format!("intent key twice: {}", record.intent_key));
                    }
                    self.operations.insert(record.id, record.clone());
                }
                Write::UpdateOperation(record) => {
                    let known = self.operations.get(&record.id).ok_or("update of an unknown operation")?;
                    if known.attempt > record.attempt {
                        return Err("an attempt goes down".into());
                    }
                    if known.maybe_executed && !record.maybe_executed {
                        return Err("what may have been executed is forgotten".into());
                    }
                    self.operations.insert(record.id, record.clone());
                }
                Write::CreateBatch(record) | Write::UpdateBatch(record) => {
                    self.batches.insert(record.id, record.clone());
                }
                Write::CreateDelivery(record) => {
                    let finals = |known: &&ledger::DeliveryRecord| known.batch == record.batch && known.kind == ledger::DeliveryKind::Final;
                    if record.kind == ledger::DeliveryKind::Final && self.deliveries.values().any(|known| finals(&known)) {
                        return Err("two final deliveries of one batch".into());
                    }
                    self.deliveries.insert(record.id, record.clone());
                }
                Write::UpdateDelivery(record) => {
                    let known = self.deliveries.get(&record.id).ok_or("update of an unknown delivery")?;
                    if known.state.terminal() && known.state != record.state {
                        return Err(format!("{:?} leaves its terminal state for {:?}", known.state, record.state));
                    }
                    self.deliveries.insert(record.id, record.clone());
                }
                Write::Claim { delivery, session, boot, route } => {
                    if self.claims.insert(*delivery, (*session, *boot, *route)).is_some() {
                        return Err("two claims of one delivery".into());
                    }
                }
                Write::Unclaim { delivery } => {
                    self.claims.remove(delivery);
                }
            }
        }
        Ok(())
    }

    /// What a restart reads back.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            operations: self.operations.values().cloned().collect(),
            batches: self.batches.values().cloned().collect(),
            deliveries: self.deliveries.values().cloned().collect(),
            claims: self
                .claims
                .iter()
                .map(|(delivery, (session, boot, route))| ClaimRecord {
                    delivery: *delivery,
                    session: *session,
                    boot: *boot,
                    route: *route,
                })
                .collect(),
            occurrence_floor: 0,
            next_sequence: self.deliveries.values().map(|delivery| delivery.sequence + 1).max().unwrap_or(1),
        }
    }
}
