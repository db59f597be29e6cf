//! What comes when all is over and the store has removed it: late results, the same and others, results that are taken back, news of
//! progress. Nobody is told of it, and its sender is told the truth, at once: there is no such operation any more (R3).

use recado_core::ids::OperationId;
use recado_core::ledger::{CallbackAnswer, OperationResult, RequestId};
use serde_json::json;

use crate::violation::Invariant;
use crate::world::World;

impl World {
    /// Lets late words come of everything that the store has removed: to the box that still remembers it, and to one that was
    /// restarted and does not.
    pub(crate) fn hear_late_words(&mut self) {
        for restarted in [false, true] {
            if self.rig.stopped() || self.rig.store.removed.operations.is_empty() {
                return;
            }
            if restarted {
                self.rig.crash(false);
            }
            let removed: Vec<OperationId> = self.rig.store.removed.operations.keys().copied().collect();
            let others: Vec<(OperationId, RequestId)> =
                removed.iter().map(|&operation| (operation, self.rig.callback(operation, another()))).collect();
            for &operation in &removed {
                self.rig.callback(operation, another());
                self.rig.retract(operation);
                self.rig.progress(operation, json!({}));
            }
            self.rig.run(WITHIN);
            let unanswered = self.rig.unanswered();
            self.rig.findings.check(unanswered.is_empty(), Invariant::I16, || format!("R3: nobody answers {unanswered:?}"));
            for (operation, request) in others {
                self.is_unknown(operation, request, restarted);
            }
            let again = removed.iter().map(|&operation| (operation, self.rig.callback(operation, another()))).collect::<Vec<_>>();
            let waits = self.rig.store.in_flight();
            self.rig.findings.check(waits == 0, Invariant::Busy, || "what is known to be removed is to be changed again".into());
            again.into_iter().for_each(|(operation, request)| self.is_unknown(operation, request, restarted));
        }
    }

    /// What the box remembers of what is on record no more it may still say; it can put nothing on record.
    fn is_unknown(&mut self, operation: OperationId, request: RequestId, restarted: bool) {
        let answer = self.rig.answers.get(&request).cloned();
        let record = self.rig.store.removed.operations.get(&operation);
        let remembered = record.is_some_and(|record| !restarted && (record.contradiction.is_some() || record.state.undone()));
        let right = answer == Some(CallbackAnswer::Unknown)
            || (remembered && matches!(answer, Some(CallbackAnswer::Conflict | CallbackAnswer::Recorded)));
        self.rig.findings.check(right, Invariant::I16, || format!("R3: {answer:?} to a late result of {record:?}, which has been removed"));
    }
}

/// What no tool has said before.
fn another() -> OperationResult {
    OperationResult::Succeeded(json!({ "value": "a las doce" }))
}

/// A store that works answers within so long (ms).
const WITHIN: u64 = 1_000;
