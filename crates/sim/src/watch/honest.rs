//! I4: what is told of an operation is on record, sentence by sentence: how it ended, with its result. What contradicts that is told
//! as another answer or as a correction; alone only where what it contradicts was never told, and will not be.
//!
//! The sentences are those of [`crate::drive::policies`], and the phrases of the core that lead to them.

use std::collections::BTreeSet;

use recado_core::ids::OperationId;
use recado_core::ledger::{Contradiction, DeliveryKind, DeliveryRecord, DeliveryState, OperationRecord, OperationState, SpokenClause};
use serde_json::Value;

use crate::call::Call;
use crate::store::MemoryStore;
use crate::violation::{Findings, Invariant};
use crate::voice::Released;
use crate::world::TOOLS;

/// A segment of a delivery begins: every sentence of it must be true of what is on record. `unknown` are the operations that have
/// ever been on record as not known.
pub(super) fn honest(
    store: &MemoryStore,
    call: &Call,
    released: &Released,
    clause: u32,
    record: &DeliveryRecord,
    unknown: &BTreeSet<OperationId>,
    findings: &mut Findings,
) {
    let Some((_, text)) = call.voice.purposes.get(&released.segment) else { return };
    let of = |(at, _): &(u32, _)| clause == SpokenClause::SHORT || clause == *at;
    let operations: BTreeSet<OperationId> = (0..).zip(&record.clauses).filter(of).map(|(_, clause)| clause.operation).collect();
    let told: Vec<&OperationRecord> = operations.iter().filter_map(|operation| store.operation_ever(*operation)).collect();
    // What a test has its own tools say is for the test to judge.
    if told.iter().any(|operation| !TOOLS.contains(&operation.tool.as_str())) {
        return;
    }
    let was_dropped = |operation| dropped(store, record, operation);
    let judge = Judge { was_unknown: &|operation| unknown.contains(&operation), was_dropped: &was_dropped, told: &told };
    findings.check(judge.all_true(&sentences(text), &told), Invariant::I4, || {
        let states: Vec<_> = told.iter().map(|of| (&of.tool, of.state, &of.result, &of.contradiction)).collect();
        format!("{text:?} is told of {states:?}")
    });
}

/// What sentences are held against.
struct Judge<'a> {
    /// Whether an operation has ever been on record as not known.
    was_unknown: &'a dyn Fn(OperationId) -> bool,
    /// Whether what is told alone of an operation was to be told by an earlier delivery that was dropped.
    was_dropped: &'a dyn Fn(OperationId) -> bool,
    told: &'a [&'a OperationRecord],
}

impl Judge<'_> {
    /// Whether every sentence is true of an operation of its own, or adds to what was said of one, and none of those that are `left`
    /// is passed over.
    fn all_true(&self, says: &[(&str, bool)], left: &[&OperationRecord]) -> bool {
        let Some((&(sentence, led), rest)) = says.split_first() else { return left.is_empty() };
        let contradicts = |of: &OperationRecord| beside(sentence, of) && (led || (self.was_dropped)(of.id));
        let without = |at: usize| [&left[..at], &left[at + 1..]].concat();
        let is_true = |of: &OperationRecord| own(sentence, of, (self.was_unknown)(of.id)) || contradicts(of);
        let its_own = (0..left.len()).any(|at| is_true(left[at]) && self.all_true(rest, &without(at)));
        let said_of = |of: &OperationRecord| left.iter().all(|other| other.id != of.id);
        its_own || (led && self.told.iter().any(|of| said_of(of) && beside(sentence, of)) && self.all_true(rest, left))
    }
}

/// The sentences of a text without what leads to them, and whether that says that they differ from what may have been told.
fn sentences(text: &str) -> Vec<(&str, bool)> {
    let mut says = Vec::new();
    let mut otherwise = false;
    for sentence in text.split_inclusive(". ").map(str::trim) {
        let sentence = sentence.strip_prefix(HEDGE).map_or(sentence, str::trim_start);
        let rest = OTHERWISE.iter().find_map(|words| sentence.strip_prefix(words)).map(str::trim_start);
        otherwise |= rest.is_some();
        match rest.unwrap_or(sentence) {
            TOO_LATE => {} // and then what it was too late for
            words => says.push((words, std::mem::take(&mut otherwise))),
        }
    }
    says
}

/// Whether a sentence says what is on record of an operation. That it was not known may be said until its correction is.
fn own(sentence: &str, operation: &OperationRecord, was_unknown: bool) -> bool {
    let tool = &operation.tool;
    let said = match operation.state {
        OperationState::Succeeded => done(sentence, tool, operation.result.as_ref()) || sentence == format!("Listo {tool}."),
        // Also that it is done, where what came of it came later.
        OperationState::TooLate => {
            done(sentence, tool, operation.result.as_ref()) || operation.late_result().is_some_and(|late| done(sentence, tool, Some(late)))
        }
        OperationState::Failed => sentence == failed(tool),
        OperationState::Cancelled => sentence == format!("Cancelado lo de {tool}."),
        OperationState::Compensated => sentence == undone(tool),
        _ => false,
    };
    said || (was_unknown && sentence == format!("No sé cómo quedó lo de {tool}."))
}

/// Whether a sentence says what contradicts the result on record.
fn beside(sentence: &str, operation: &OperationRecord) -> bool {
    match &operation.contradiction {
        Some(Contradiction::Succeeded(result)) => done(sentence, &operation.tool, Some(result)),
        Some(Contradiction::Undone) => sentence == undone(&operation.tool),
        Some(Contradiction::Failed(_)) => sentence == failed(&operation.tool),
        None => false,
    }
}

/// Whether what a correction tells alone was to be told by an earlier delivery that was dropped.
fn dropped(store: &MemoryStore, record: &DeliveryRecord, operation: OperationId) -> bool {
    let earlier = |other: &DeliveryRecord| {
        matches!(other.state, DeliveryState::Superseded | DeliveryState::Suppressed | DeliveryState::Withdrawn)
            && other.sequence < record.sequence
            && other.clauses.iter().any(|clause| clause.operation == operation)
    };
    record.kind == DeliveryKind::Correction && store.deliveries_ever().any(earlier)
}

/// With its result; without one only that it is done.
fn done(sentence: &str, tool: &str, result: Option<&Value>) -> bool {
    match result.and_then(|result| result.get("value")).and_then(Value::as_str) {
        Some(value) => sentence == format!("Hecho lo de {tool}: {value}."),
        None => sentence.strip_prefix(&format!("{tool}: l")).or(sentence.strip_prefix('L')) == Some("o que pediste está hecho."),
    }
}

fn failed(tool: &str) -> String {
    format!("No ha podido ser lo de {tool}.")
}

fn undone(tool: &str) -> String {
    format!("Deshecho lo de {tool}.")
}

const HEDGE: &str = "Puede que ya te lo haya dicho:";
const TOO_LATE: &str = "No ha dado tiempo a cancelarlo.";

/// How what contradicts the result on record is led to.
const OTHERWISE: [&str; 2] = ["Después ha llegado otra respuesta:", "Una corrección:"];

#[cfg(test)]
mod tests {
    use super::*;
    use recado_core::ids::{BatchId, IntentKey, SessionId, TurnId};
    use recado_core::time::Wall;
    use serde_json::json;

    fn operation(id: u128, state: OperationState, contradiction: Option<Contradiction>) -> OperationRecord {
        OperationRecord {
            id: OperationId(id),
            intent_key: IntentKey(format!("ana|mesa|{id}|1")),
            batch: BatchId(1),
            ordinal: 0,
            party: None,
            session: SessionId(1),
            turn: TurnId(1),
            tool: "mesa".into(),
            arguments: json!({}),
            state,
            attempt: 1,
            unreached: 0,
            handle: None,
            maybe_executed: false,
            result: matches!(state, OperationState::Succeeded | OperationState::TooLate).then(|| json!({ "value": "ya" })),
            error: None,
            contradiction,
            accepted: Wall::default(),
        }
    }

    /// Whether a text is true of these, where no delivery has been dropped.
    fn is_true(text: &str, told: &[OperationRecord]) -> bool {
        let told: Vec<&OperationRecord> = told.iter().collect();
        let never = |_: OperationId| false;
        Judge { was_unknown: &never, was_dropped: &never, told: &told }.all_true(&sentences(text), &told)
    }

    #[test]
    fn a_result_is_told_as_it_is_on_record_and_no_operation_is_passed_over() {
        let one = [operation(1, OperationState::Succeeded, None)];
        assert!(is_true("Hecho lo de mesa: ya.", &one) && is_true("Listo mesa.", &one));
        for lie in ["Hecho lo de mesa: no.", "Hecho lo de taxi: ya.", "No ha podido ser lo de mesa.", "Listo mesa. Listo mesa."] {
            assert!(!is_true(lie, &one), "{lie}");
        }
        let two = [operation(1, OperationState::Succeeded, None), operation(2, OperationState::Failed, None)];
        assert!(is_true("No ha podido ser lo de mesa. Listo mesa.", &two));
        assert!(!is_true("Listo mesa.", &two) && !is_true("Listo mesa. Listo mesa.", &two));
        let late = [operation(1, OperationState::TooLate, None)];
        assert!(is_true("Una corrección: No ha dado tiempo a cancelarlo. Hecho lo de mesa: ya.", &late));
        assert!(!is_true("Cancelado lo de mesa.", &late) && !is_true("No sé cómo quedó lo de mesa.", &late));
    }

    #[test]
    fn what_contradicts_the_record_is_true_only_as_another_answer_or_a_correction() {
        let done = Contradiction::Succeeded(json!({ "value": "a las diez" }));
        let failed = [operation(1, OperationState::Failed, Some(done))];
        for text in [
            "No ha podido ser lo de mesa. Después ha llegado otra respuesta: Hecho lo de mesa: a las diez.",
            "Una corrección: Hecho lo de mesa: a las diez.",
            "Puede que ya te lo haya dicho: Una corrección: Hecho lo de mesa: a las diez.",
        ] {
            assert!(is_true(text, &failed), "{text}");
        }
        assert!(!is_true("Hecho lo de mesa: a las diez.", &failed));
        assert!(!is_true("Una corrección: Hecho lo de mesa: a las once.", &failed));
        // It excuses nothing that is said of another.
        let both = [failed[0].clone(), operation(2, OperationState::Failed, None)];
        let two = "Una corrección: Hecho lo de mesa: a las diez. Hecho lo de mesa: a las diez.";
        assert!(!is_true(two, &both) && is_true("Una corrección: Hecho lo de mesa: a las diez. No ha podido ser lo de mesa.", &both));
        // Which sentence is about which operation is found whatever their order.
        let undone = operation(1, OperationState::Succeeded, Some(Contradiction::Undone));
        let told = [undone, operation(2, OperationState::Succeeded, None)];
        assert!(is_true("Listo mesa. Una corrección: Deshecho lo de mesa.", &told));
        assert!(is_true("Listo mesa. Después ha llegado otra respuesta: Deshecho lo de mesa. Listo mesa.", &told));
    }
}
