//! What the executor has to do, to be looked at: nothing is decided by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::breaker::{Breaker, Standing};

/// What waits and runs at a moment, and how the endpoints stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Load {
    /// The attempts of each tool, by its name.
    pub tools: BTreeMap<String, ToolLoad>,
    /// Cancels that are under way.
    pub cancels: usize,
    /// Inquiries that are under way.
    pub inquiries: usize,
    /// Each endpoint, in the order of their names.
    pub endpoints: Vec<Standing>,
}

/// The attempts of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolLoad {
    /// Those that wait for room.
    pub waiting: usize,
    /// Those that are under way, until their reports are taken.
    pub running: usize,
}

/// What [`Load`] is read from.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub tools: BTreeMap<String, (Arc<AtomicUsize>, Arc<AtomicUsize>)>,
    pub cancels: Arc<AtomicUsize>,
    pub inquiries: Arc<AtomicUsize>,
    pub breakers: BTreeMap<String, Arc<Breaker>>,
}

impl Board {
    pub fn read(&self) -> Load {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let of_tool = |(name, (waiting, running)): (&String, &(Arc<AtomicUsize>, Arc<AtomicUsize>))| {
            (name.clone(), ToolLoad { waiting: count(waiting), running: count(running) })
        };
        Load {
            tools: self.tools.iter().map(of_tool).collect(),
            cancels: count(&self.cancels),
            inquiries: count(&self.inquiries),
            endpoints: self.breakers.values().map(|breaker| breaker.standing()).collect(),
        }
    }
}

/// One that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(counter))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
