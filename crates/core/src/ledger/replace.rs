//! Replacements (`duplicate = "replace"`): the newer operation is accepted, durably; then the older one is cancelled; when that has come
//! to its end, whatever it is, the newer one begins. So at most one of them runs at a time, and a caller whose newer wish could
//! not be accepted keeps what they had.

use std::collections::BTreeMap;

use super::effect::Effect;
use super::intent::split;
use super::machine::Ledger;
use super::record::OperationState;
use super::work::Work;
use crate::ids::OperationId;
use crate::policy::DuplicatePolicy;
use crate::time::Step;

impl Ledger {
    /// A newer operation is accepted, durably: the older one is cancelled.
    pub(super) fn replace(&mut self, older: OperationId, newer: OperationId, step: &mut Step, effects: &mut Vec<Effect>) {
        self.replacements.insert(older, newer);
        if let Some(&lane) = self.by_operation.get(&older) {
            self.put(lane, Work::Replace { operation: older }, step, effects);
        }
        // One that is being accepted is not in memory yet, and not over.
        let over = self.operation(older).map_or(!self.by_operation.contains_key(&older), |older| older.state.settled());
        if over {
            self.begin_replacement(older, None, step, effects);
        }
    }

    /// Operations of a batch may have come to their end, durably: what replaces them begins.
    pub(super) fn begin_replacements(&mut self, number: u64, step: &mut Step, effects: &mut Vec<Effect>) {
        if self.replacements.is_empty() {
            return;
        }
        let Some(batch) = self.lanes.get(&number).and_then(|lane| lane.batch.as_ref()) else { return };
        let ended = batch.operations.iter().filter(|operation| operation.record.state.settled());
        for (older, waits_for) in ended.map(|operation| (operation.record.id, operation.waits_for)).collect::<Vec<_>>() {
            self.begin_replacement(older, waits_for, step, effects);
        }
    }

    /// `older` has come to its end. Where it had not begun itself, the newer one goes on to wait for what it waited for.
    pub(super) fn begin_replacement(&mut self, older: OperationId, still: Option<OperationId>, step: &mut Step, effects: &mut Vec<Effect>) {
        let Some(newer) = self.replacements.remove(&older) else { return };
        // What it waited for may have come to its end without beginning, too: then what that one waited for still counts.
        let mut still = still;
        while let Some(id) = still.filter(|id| self.operation(*id).is_none_or(|record| record.state.settled())) {
            still = self.waits_for(id);
        }
        if let Some(still) = still {
            self.replacements.insert(still, newer);
        } else if let Some(&lane) = self.by_operation.get(&newer) {
            self.put(lane, Work::Begin { operation: newer }, step, effects);
        }
    }

    /// What an operation waited for when it was accepted, where it never began.
    fn waits_for(&self, id: OperationId) -> Option<OperationId> {
        let lane = self.lanes.get(self.by_operation.get(&id)?)?;
        lane.batch.as_ref()?.operations.iter().find(|operation| operation.record.id == id)?.waits_for
    }

    /// A restart: an operation that was accepted and has not begun waits for the one before it under the same key, and that one is
    /// cancelled before anything of it is sent again.
    pub(super) fn resume_replacements(&mut self) {
        let mut bases: BTreeMap<String, BTreeMap<u32, (OperationId, OperationState)>> = BTreeMap::new();
        for record in self.operations() {
            let replaces = self.world.policy(&record.tool).duplicate == DuplicatePolicy::Replace;
            if let Some((base, occurrence)) = split(&record.intent_key).filter(|_| replaces && !record.state.settled()) {
                bases.entry(base.to_owned()).or_default().insert(occurrence, (record.id, record.state));
            }
        }
        for of_base in bases.into_values() {
            let in_order: Vec<_> = of_base.into_values().collect();
            for pair in in_order.windows(2) {
                if let [(older, _), (newer, OperationState::Accepted)] = pair {
                    self.resume_replacement(*older, *newer);
                }
            }
        }
    }

    fn resume_replacement(&mut self, older: OperationId, newer: OperationId) {
        let batch_of = |ledger: &Self, id: OperationId| ledger.by_operation.get(&id).copied();
        let (Some(of_older), Some(of_newer)) = (batch_of(self, older), batch_of(self, newer)) else { return };
        if let Some(found) = self.lanes.get_mut(&of_newer).and_then(|lane| lane.batch.as_mut()).and_then(|batch| batch.operation(newer)) {
            found.waits_for = Some(older);
        }
        if let Some(lane) = self.lanes.get_mut(&of_older) {
            if let Some(found) = lane.batch.as_mut().and_then(|batch| batch.operation(older)) {
                found.replaced = true;
            }
            lane.put_back(std::iter::once(Work::Replace { operation: older }));
        }
        self.replacements.insert(older, newer);
    }
}
