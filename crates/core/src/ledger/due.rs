//! When each lane wants to be woken, in the order of time: with thousands of operations open, the next one is found at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Time;

/// The times at which lanes want to be woken.
#[derive(Debug, Clone, Default)]
pub(super) struct Due {
    of: BTreeMap<u64, Time>,
    order: BTreeSet<(Time, u64)>,
}

impl Due {
    /// A lane wants to be woken then, or not at all.
    pub fn set(&mut self, lane: u64, at: Option<Time>) {
        let before = match at {
            Some(at) => self.of.insert(lane, at),
            None => self.of.remove(&lane),
        };
        if let Some(before) = before.filter(|before| Some(*before) != at) {
            self.order.remove(&(before, lane));
        }
        self.order.extend(at.map(|at| (at, lane)));
    }

    /// The next time.
    pub fn next(&self) -> Option<Time> {
        self.order.first().map(|(at, _)| *at)
    }

    /// The lanes whose time has come, in the order of acceptance.
    pub fn until(&self, now: Time) -> Vec<u64> {
        let due: BTreeSet<u64> = self.order.range(..=(now, u64::MAX)).map(|(_, lane)| *lane).collect();
        due.into_iter().collect()
    }
}
