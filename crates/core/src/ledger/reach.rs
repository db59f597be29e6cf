//! Tools whose place can't be reached: what is asked of them is accepted all the same, waits without spending attempts, and the
//! caller is told so.

use std::collections::{BTreeMap, BTreeSet};

use super::commit::Lane;
use super::effect::Effect;
use super::input::AttemptOutcome;
use super::machine::Ledger;
use super::record::OperationState;
use super::work::Work;
use crate::ids::{OperationId, SessionId};
use crate::time::{Step, Time};

/// The tools that can't be reached, as far as is known, by their names.
pub(super) type Outages = BTreeMap<String, Outage>;

/// A tool that can't be reached.
#[derive(Debug, Clone)]
pub(super) struct Outage {
    since: Time,
    /// Whose callers have been told so, but with an acceptance.
    told: BTreeSet<SessionId>,
}

impl Outage {
    /// A conversation is over: nobody in it is told anything more.
    pub fn session_over(&mut self, session: SessionId) {
        self.told.remove(&session);
    }
}

impl Ledger {
    /// What an attempt shows of whether its tool can be reached. Who asked before that was known hears of it, once in a conversation; as soon
    /// as the tool does something, if only to refuse, what waits for it goes on. An attempt that did not succeed and may be made again shows
    /// neither: who waits would only be sent the same way.
    pub(super) fn is_within_reach(&mut self, operation: OperationId, outcome: &AttemptOutcome, step: &mut Step, effects: &mut Vec<Effect>) {
        let lane = self.by_operation.get(&operation).and_then(|number| self.lanes.get(number));
        let held = lane.and_then(|lane| lane.batch.as_ref());
        let Some(found) = held.and_then(|batch| batch.operations.iter().find(|found| found.record.id == operation)) else { return };
        let record = &found.record;
        // A recalled attempt shows nothing.
        if record.state == OperationState::Cancelling {
            return;
        }
        if matches!(outcome, AttemptOutcome::Failed { retryable: true, .. }) {
            return;
        }
        if !matches!(outcome, AttemptOutcome::Unreachable { .. }) {
            let tool = record.tool.clone();
            if self.world.out_of_reach.remove(&tool).is_some() {
                self.goes_on(&tool, step, effects);
            }
            return;
        }
        let new = Outage { since: step.now, told: BTreeSet::new() };
        let outage = self.world.out_of_reach.entry(record.tool.clone()).or_insert(new);
        let asked_before = found.accepted_at.is_none_or(|at| at <= outage.since);
        let waits_from_now = record.unreached == 0 && !record.state.settled();
        if waits_from_now && asked_before && outage.told.insert(record.session) {
            self.tell_waiting(operation, step, effects);
        }
    }

    /// What waits for this tool goes on, in the order of acceptance.
    fn goes_on(&mut self, tool: &str, step: &mut Step, effects: &mut Vec<Effect>) {
        let waits = |(&number, lane): (&u64, &Lane)| {
            let waiting = lane.batch.as_ref()?.operations.iter();
            let waiting = waiting.filter(|operation| operation.out_of_reach && operation.record.tool == tool);
            Some(waiting.map(|operation| (number, operation.record.id)).collect::<Vec<_>>())
        };
        let waiting: Vec<(u64, OperationId)> = self.lanes.iter().filter_map(waits).flatten().collect();
        for (number, operation) in waiting {
            self.no_longer_waits(operation, effects);
            self.put(number, Work::Reachable { operation }, step, effects);
        }
    }
}
