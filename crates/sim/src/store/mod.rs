//! The store: what was committed, on a disk that can be slow, full or gone.

mod memory;
mod removed;

use std::collections::VecDeque;
use std::ops::Deref;

use recado_core::ids::BootId;
use recado_core::ledger::{CommitId, Snapshot, Write};

pub use memory::MemoryStore;
pub use removed::Removed;

/// What keeps a ledger's records over restarts.
pub trait Store {
    /// Applies a transaction whole, or refuses it and changes nothing. Once this returns `Ok`, it is there after a power cut.
    ///
    /// # Errors
    /// The name of the constraint that it breaks.
    fn apply(&mut self, writes: &[Write]) -> Result<(), String>;

    /// The process has died; `boot` begins and reads back what matters.
    fn restart(&mut self, boot: BootId) -> Snapshot;

    /// What a restart would read back now.
    fn snapshot(&self) -> Snapshot;

    /// Removes what has been over since before `before_ms` (ms since the Unix epoch, by a synchronised clock): batches that are
    /// `Closed`, with all of their operations and deliveries terminal and older than that.
    fn remove(&mut self, before_ms: i64);
}

/// The disk of a simulated box: transactions take time, fail, or are lost with the power.
pub struct Disk {
    memory: MemoryStore,
    /// Another store that is given the same and must do the same.
    twin: Option<Box<dyn Store>>,
    /// Transactions that reached the disk.
    pub commits: u64,
    /// How long a transaction takes (ms).
    pub delay_ms: u64,
    /// Whether transactions fail.
    pub failing: bool,
    /// When each that is under way is done (ms).
    pub(crate) in_flight: VecDeque<(u64, CommitId, Vec<Write>)>,
}

impl Disk {
    /// An empty disk, as boot `boot` finds it.
    pub fn new(boot: BootId) -> Self {
        let mut memory = MemoryStore::default();
        memory.restart(boot);
        Self { memory, twin: None, commits: 0, delay_ms: DELAY_MS, failing: false, in_flight: VecDeque::new() }
    }

    /// Gives every transaction to `twin` too, which is as empty as this disk and of the same boot: both must refuse the same, and
    /// hold the same after each.
    pub fn beside(&mut self, twin: Box<dyn Store>) {
        self.twin = Some(twin);
        self.same();
    }

    /// Transactions that have not been answered for.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn same(&self) {
        if let Some(twin) = &self.twin {
            assert_eq!(twin.snapshot(), self.memory.snapshot(), "two stores that were given the same hold the same");
        }
    }
}

impl Deref for Disk {
    type Target = MemoryStore;

    fn deref(&self) -> &MemoryStore {
        &self.memory
    }
}

impl Store for Disk {
    fn apply(&mut self, writes: &[Write]) -> Result<(), String> {
        let applied = self.memory.apply(writes);
        self.commits += u64::from(applied.is_ok());
        if let Some(twin) = &mut self.twin {
            let same = twin.apply(writes);
            assert_eq!(same.is_ok(), applied.is_ok(), "two stores refuse the same: {same:?}, {applied:?}: {writes:#?}");
            self.same();
        }
        applied
    }

    fn restart(&mut self, boot: BootId) -> Snapshot {
        let snapshot = self.memory.restart(boot);
        if let Some(twin) = &mut self.twin {
            assert_eq!(twin.restart(boot), snapshot, "two stores that were given the same read back the same");
        }
        snapshot
    }

    fn snapshot(&self) -> Snapshot {
        self.memory.snapshot()
    }

    fn remove(&mut self, before_ms: i64) {
        self.memory.remove(before_ms);
        if let Some(twin) = &mut self.twin {
            twin.remove(before_ms);
            self.same();
        }
    }
}

/// How long a transaction usually takes (ms).
const DELAY_MS: u64 = 3;
