//! The simulator's store in memory, watched: every edge that an operation, a batch or a delivery takes must be one of the
//! contract's.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

use recado_core::ledger::*;
use recado_core::{BootId, OperationId};
use recado_sim::store::{MemoryStore, Store as _};

#[derive(Debug, Clone, Default)]
pub struct Store {
    memory: MemoryStore,
    /// Which operation a callback was about; the rig's, not the box's.
    pub requests: BTreeMap<RequestId, OperationId>,
    /// Edges of the contract's machines that have been taken, by their names.
    pub edges: BTreeSet<String>,
}

impl Deref for Store {
    type Target = MemoryStore;

    fn deref(&self) -> &MemoryStore {
        &self.memory
    }
}

impl DerefMut for Store {
    fn deref_mut(&mut self) -> &mut MemoryStore {
        &mut self.memory
    }
}

impl Store {
    pub fn new(boot: BootId) -> Self {
        let mut store = Self::default();
        store.restart(boot);
        store
    }

    /// The box dies; `boot` reads back what is there.
    pub fn restart(&mut self, boot: BootId) -> Snapshot {
        self.memory.restart(boot)
    }

    /// What was over before then is removed.
    pub fn remove(&mut self, before_ms: i64) {
        self.memory.remove(before_ms);
    }

    /// Applies a transaction; what is refused ends the test, so nothing is ever half applied and used.
    pub fn apply(&mut self, writes: &[Write]) -> Result<(), String> {
        writes.iter().try_for_each(|write| {
            self.watch(write)?;
            self.memory.apply(std::slice::from_ref(write))
        })
    }

    fn watch(&mut self, write: &Write) -> Result<(), String> {
        let memory = &self.memory;
        let (name, holds) = match write {
            Write::UpdateOperation(row) => {
                let Some(old) = memory.operations.get(&row.id) else { return Ok(()) };
                // Given up, and then its tool answers the cancel; that it came too late is known without a result.
                let answered = matches!(row.state, OperationState::Cancelled | OperationState::Compensated | OperationState::TooLate);
                let answered = answered && (old.state, &row.result) == (OperationState::Unknown, &None);
                let edge = operation_edge(old.state, row.state) || answered;
                (format!("operation {:?} {:?}", old.state, row.state), edge)
            }
            Write::UpdateBatch(row) => {
                let Some(old) = memory.batches.get(&row.id) else { return Ok(()) };
                (format!("batch {:?} {:?}", old.state, row.state), old.state as u8 + 1 == row.state as u8)
            }
            Write::UpdateDelivery(row) => {
                let Some(old) = memory.deliveries.get(&row.id) else { return Ok(()) };
                (format!("delivery {:?} {:?}", old.state, row.state), !old.state.terminal())
            }
            _ => return Ok(()),
        };
        if !holds {
            return Err(format!("no such edge: {name}: {write:?}"));
        }
        self.edges.insert(name);
        Ok(())
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
