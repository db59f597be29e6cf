//! Tools whose place can't be reached: what is asked of them is accepted all the same, waits without spending attempts, and the
//! caller is told so.

use super::effect::Effect;
use super::input::AttemptOutcome;
use super::machine::Ledger;
use super::work::Work;
use crate::ids::OperationId;
use crate::time::Step;

impl Ledger {
    /// What an attempt shows of whether its tool can be reached. The caller of one that waits hears of it, once.
    pub(super) fn is_within_reach(&mut self, operation: OperationId, outcome: &AttemptOutcome, step: &mut Step, effects: &mut Vec<Effect>) {
        let Some(record) = self.operation(operation) else { return };
        let tool = record.tool.clone();
        if !matches!(outcome, AttemptOutcome::Unreachable { .. }) {
            self.world.out_of_reach.remove(&tool);
            return;
        }
        let first = record.unreached == 0 && !record.state.settled();
        // Who asked when it was known already has been told so with the acceptance.
        if self.world.out_of_reach.insert(tool) && first {
            self.tell_waiting(operation, step, effects);
        }
    }

    /// These tools can be reached again: what waits for that goes on, in the order of acceptance.
    pub(super) fn reachable(&mut self, tools: &[String], step: &mut Step, effects: &mut Vec<Effect>) {
        self.world.out_of_reach.retain(|tool| !tools.contains(tool));
        let waits = |(&number, lane): (&u64, &super::commit::Lane)| {
            let batch = lane.batch.as_ref()?;
            let waiting = batch.operations.iter().filter(|operation| operation.out_of_reach && tools.contains(&operation.record.tool));
            Some(waiting.map(|operation| (number, operation.record.id)).collect::<Vec<_>>())
        };
        let waiting: Vec<(u64, OperationId)> = self.lanes.iter().filter_map(waits).flatten().collect();
        for (number, operation) in waiting {
            self.no_longer_waits(operation, effects);
            self.put(number, Work::Reachable { operation }, step, effects);
        }
    }
}
