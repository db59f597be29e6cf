//! What makes an effect "the same one", and the bounded memory of what has been asked before.
//!
//! A key is `owner|tool|digest|occurrence`: the owner is the party, or the conversation where the party is not known;
//! the digest is SHA-256 over the canonical arguments. The first three make the *base*: requests with one base are the same one.
//!
//! Only a confirmed repeat counts the occurrence up. What confirms it is the tool's policy for duplicates: that the caller, told
//! how it ended, asks again in another turn; under `confirm`, that the caller was asked and said so in a later turn; under
//! `replace`, that the request differs from the one that runs.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::input::{OperationResult, RepeatAnswer};
use super::record::{OperationRecord, OperationState};
use crate::conversation::input::ToolCall;
use crate::faults::{Fault, fault};
use crate::ids::{BatchId, IntentKey, OperationId, PartyId, SessionId, TurnId};
use crate::policy::{DuplicatePolicy, ToolPolicy};

/// SHA-256 of a canonical value.
pub(super) type Digest = [u8; 32];

/// The part of an intent key that names the request without its occurrence.
pub(super) fn base(party: Option<&PartyId>, session: SessionId, tool: &str, policy: &ToolPolicy, arguments: &Value) -> String {
    let mut text = match party {
        Some(party) => party.to_string(),
        None => session.to_string(),
    };
    let _ = write!(text, "|{tool}|");
    for byte in arguments_digest(policy, arguments) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The key of one request: what an operation that is asked for like this gets, the `occurrence`th time.
pub fn intent_key(
    party: Option<&PartyId>,
    session: SessionId,
    tool: &str,
    policy: &ToolPolicy,
    arguments: &Value,
    occurrence: u32,
) -> IntentKey {
    IntentKey(format!("{}|{occurrence}", base(party, session, tool, policy, arguments)))
}

/// The occurrence that a key ends in. The store hands the highest one that it does not read back to
/// [`super::Snapshot::occurrence_floor`].
pub fn occurrence(key: &IntentKey) -> Option<u32> {
    split(key).map(|(_, occurrence)| occurrence)
}

/// A key's base and occurrence. Tool, digest and occurrence hold no `|`, so the last one separates.
pub(super) fn split(key: &IntentKey) -> Option<(&str, u32)> {
    let (base, occurrence) = key.0.rsplit_once('|')?;
    Some((base, occurrence.parse().ok()?))
}

/// The digest of a result from outside.
pub(super) fn result_digest(result: &OperationResult) -> Digest {
    match result {
        OperationResult::Succeeded(value) => digest('s', value),
        OperationResult::Failed(error) => digest('f', &Value::String(error.clone())),
    }
}

/// The digest of the result on record; none where no result is: the effect was cancelled, or nobody knows.
pub(super) fn record_digest(record: &OperationRecord) -> Option<Digest> {
    match record.state {
        OperationState::Succeeded | OperationState::TooLate | OperationState::Compensated => {
            record.known_result().map(|value| digest('s', value))
        }
        OperationState::Failed => record.error.as_ref().map(|error| digest('f', &Value::String(error.clone()))),
        _ => None,
    }
}

/// What is remembered of an operation under a base.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Its identifier.
    pub operation: OperationId,
    /// Its batch.
    pub batch: BatchId,
    /// The lane that its changes go through, while it is in memory.
    pub lane: u64,
    /// The turn that it was asked in.
    pub turn: TurnId,
    /// Its occurrence.
    pub occurrence: u32,
    /// All of its arguments.
    pub arguments: Digest,
    /// Whether its closing is over.
    pub closed: bool,
    /// Whether the store has removed it.
    removed: bool,
    /// Where the caller was asked whether it is to be done once more.
    asked: Option<(SessionId, TurnId)>,
}

/// The turns of one conversation in which a base was asked for.
#[derive(Debug, Clone, Copy)]
struct Turns {
    last: TurnId,
    /// The one before that, should the acceptance fail.
    before: Option<TurnId>,
}

/// What is remembered of an operation whose batch has left memory.
#[derive(Debug, Clone)]
pub(super) struct ClosedOperation {
    /// The base of its key.
    base: String,
    /// Its occurrence.
    occurrence: u32,
    /// The result on record.
    pub digest: Option<Digest>,
    /// How it ended.
    pub state: OperationState,
}

/// How a request stands to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It is a new one, and gets this occurrence.
    New(u32),
    /// It is a new one, which takes the place of this operation.
    Replaces(u32, OperationId),
    /// It repeats this operation, which is in memory.
    Repeats { lane: u64, operation: OperationId, answer: RepeatAnswer },
    /// It repeats this operation, whose closing is over.
    Told { operation: OperationId, batch: BatchId, answer: RepeatAnswer },
}

/// The memory of intents: everything live, and the latest [`CLOSED_OPERATIONS_MAX`] closed operations.
#[derive(Debug, Clone, Default)]
pub(super) struct Intents {
    /// The operations under each base, by rising occurrence: the last one counts, and the others take its place should its acceptance
    /// fail. Once its closing is over they are forgotten, and each of them is where its batch has left memory.
    known: BTreeMap<String, Vec<Known>>,
    closed: BTreeMap<OperationId, ClosedOperation>,
    order: VecDeque<OperationId>,
    /// No forgotten key has a higher occurrence: a base that is not known begins above it, so that no key is used twice.
    floor: u32,
    /// In which turn of each conversation that is up a base was last asked for, and answered by what there was or by a new
    /// operation: in that turn it is not asked for again, whoever else of the same party asks meanwhile.
    turns: BTreeMap<(SessionId, String), Turns>,
}

impl Intents {
    pub fn new(floor: u32) -> Self {
        Self { floor, ..Self::default() }
    }

    /// Judges a request by its tool's policy for duplicates. `again`: it has been judged before, and what it repeated is gone.
    pub fn judge(
        &mut self,
        base: &str,
        (session, turn): (SessionId, TurnId),
        call: &ToolCall,
        policy: DuplicatePolicy,
        again: bool,
    ) -> Judgement {
        let key = (session, base.to_owned());
        let before = self.turns.get(&key).copied();
        let judgement = self.judged(base, (session, turn), call, policy, before.filter(|_| !again).map(|turns| turns.last));
        // Who is asked to confirm may do so as soon as they have said something.
        let asks = |answer| answer == RepeatAnswer::NeedsConfirmation;
        if !matches!(judgement, Judgement::Repeats { answer, .. } | Judgement::Told { answer, .. } if asks(answer)) {
            let before = before.and_then(|turns| if turns.last == turn { turns.before } else { Some(turns.last) });
            self.turns.insert(key, Turns { last: turn, before });
        }
        judgement
    }

    fn judged(
        &mut self,
        base: &str,
        (session, turn): (SessionId, TurnId),
        call: &ToolCall,
        policy: DuplicatePolicy,
        before: Option<TurnId>,
    ) -> Judgement {
        let Some(known) = self.known.get_mut(base).and_then(|known| known.last_mut()) else {
            return Judgement::New(self.floor.saturating_add(1));
        };
        let next = known.occurrence.max(self.floor).saturating_add(1);
        // A model that asks twice in one turn repeats itself; the caller has not.
        let another_turn = known.turn != turn && before != Some(turn);
        let answer = match policy {
            DuplicatePolicy::Confirm if another_turn => {
                let asked = known.asked.is_some_and(|(of, before)| of == session && before != turn);
                if (asked && call.confirmed) || fault(Fault::Unconfirmed) {
                    return Judgement::New(next);
                }
                if !asked {
                    known.asked = Some((session, turn));
                }
                RepeatAnswer::NeedsConfirmation
            }
            _ if known.closed && another_turn => return Judgement::New(next),
            DuplicatePolicy::Replace if !known.closed && known.arguments != digest('a', &call.arguments) => {
                return Judgement::Replaces(next, known.operation);
            }
            DuplicatePolicy::Reject => RepeatAnswer::Rejected,
            _ => RepeatAnswer::Reused,
        };
        if known.closed {
            Judgement::Told { operation: known.operation, batch: known.batch, answer }
        } else {
            Judgement::Repeats { lane: known.lane, operation: known.operation, answer }
        }
    }

    /// An operation is being accepted under `base`.
    pub fn open(
        &mut self,
        base: String,
        (operation, batch, lane): (OperationId, BatchId, u64),
        turn: TurnId,
        occurrence: u32,
        arguments: &Value,
    ) {
        let arguments = digest('a', arguments);
        let known = Known { operation, batch, lane, turn, occurrence, arguments, closed: false, removed: false, asked: None };
        self.known.entry(base).or_default().push(known);
    }

    /// What the store knows of an operation at a restart. The latest occurrence counts, in whatever order they come.
    pub fn restore(&mut self, record: &OperationRecord, lane: u64, closed: bool) {
        let Some((base, occurrence)) = split(&record.intent_key) else { return };
        let arguments = digest('a', &record.arguments);
        let (operation, batch, turn) = (record.id, record.batch, record.turn);
        let known = self.known.entry(base.to_owned()).or_default();
        if known.last().is_none_or(|known| known.occurrence < occurrence) {
            *known = vec![Known { operation, batch, lane, turn, occurrence, arguments, closed, removed: false, asked: None }];
        }
    }

    /// The acceptance failed: nothing was done, and nothing was asked in that turn.
    pub fn retract(&mut self, base: &str, of: (SessionId, TurnId), operation: OperationId) {
        self.unasked(base, of);
        self.drop_known(base, |known| known.operation == operation);
    }

    /// What was judged in that turn waits for the caller's consent: it was not asked in it.
    pub fn unasked(&mut self, base: &str, (session, turn): (SessionId, TurnId)) {
        let key = (session, base.to_owned());
        if let Some(turns) = self.turns.get_mut(&key).filter(|turns| turns.last == turn) {
            match turns.before {
                Some(before) => *turns = Turns { last: before, before: None },
                None => drop(self.turns.remove(&key)),
            }
        }
    }

    /// A conversation is over: nothing is asked in its turns any more.
    pub fn session_over(&mut self, session: SessionId) {
        let theirs: Vec<(SessionId, String)> =
            self.turns.range((session, String::new())..).map(|(key, _)| key).take_while(|(of, _)| *of == session).cloned().collect();
        for key in theirs {
            self.turns.remove(&key);
            self.forget_removed(&key.1);
        }
    }

    /// The closing of an operation is over: asked again in another turn, it is a new one.
    pub fn close(&mut self, record: &OperationRecord) {
        let Some((base, occurrence)) = split(&record.intent_key) else { return };
        let Some(of_base) = self.known.get_mut(base) else { return };
        let Some(at) = of_base.iter().position(|known| known.occurrence == occurrence) else { return };
        of_base.drain(..at);
        of_base.iter_mut().take(1).for_each(|known| known.closed = true);
    }

    /// A closed operation leaves memory; what tells repeats apart stays for a while.
    pub fn retire(&mut self, record: &OperationRecord) {
        let Some((base, occurrence)) = split(&record.intent_key) else { return };
        let closed = ClosedOperation { base: base.to_owned(), occurrence, digest: record_digest(record), state: record.state };
        if self.closed.insert(record.id, closed).is_none() {
            self.order.push_back(record.id);
        }
        while self.order.len() > CLOSED_OPERATIONS_MAX {
            let Some(oldest) = self.order.pop_front().and_then(|id| self.closed.remove(&id)) else { continue };
            self.forget(&oldest.base, oldest.occurrence);
        }
    }

    /// A closed operation is in the store no more. A model that repeats itself in the turn in which it was asked for still repeats it.
    pub fn remove(&mut self, record: &OperationRecord) {
        let Some((base, occurrence)) = split(&record.intent_key) else { return };
        let of_base = self.known.get_mut(base).into_iter().flatten();
        of_base.filter(|known| known.occurrence == occurrence && known.closed).for_each(|known| known.removed = true);
        self.forget_removed(base);
    }

    /// What the store has removed is forgotten when no conversation is up in which it was asked for.
    fn forget_removed(&mut self, base: &str) {
        let removed = self.known.get(base).into_iter().flatten().filter(|known| known.removed).map(|known| known.occurrence).max();
        if let Some(occurrence) = removed.filter(|_| !self.turns.keys().any(|(_, of)| of == base)) {
            self.floor = self.floor.max(occurrence);
            self.drop_known(base, |known| known.removed);
        }
    }

    /// An operation whose batch has left memory.
    pub fn closed(&self, operation: OperationId) -> Option<&ClosedOperation> {
        self.closed.get(&operation)
    }

    fn forget(&mut self, base: &str, occurrence: u32) {
        self.floor = self.floor.max(occurrence);
        self.drop_known(base, |known| known.occurrence == occurrence && known.closed);
    }

    fn drop_known(&mut self, base: &str, which: impl Fn(&Known) -> bool) {
        if let Some(of_base) = self.known.get_mut(base) {
            of_base.retain(|known| !which(known));
            if of_base.is_empty() {
                self.known.remove(base);
            }
        }
    }
}

/// The idempotency fields of the arguments; all of them where the policy names none or none of those named is there.
fn arguments_digest(policy: &ToolPolicy, arguments: &Value) -> Digest {
    if let Value::Object(fields) = arguments {
        let chosen: serde_json::Map<String, Value> = policy
            .idempotency_fields
            .iter()
            .filter_map(|name| Some((name.clone(), fields.get(name).filter(|value| !value.is_null())?.clone())))
            .collect();
        if !chosen.is_empty() {
            return digest('a', &Value::Object(chosen));
        }
    }
    digest('a', arguments)
}

/// The digest of all the arguments.
pub(super) fn arguments_digest_of(arguments: &Value) -> Digest {
    digest('a', arguments)
}

fn digest(kind: char, value: &Value) -> Digest {
    let mut text = String::from(kind);
    canonical(value, &mut text);
    Sha256::digest(text.as_bytes()).into()
}

/// Keys sorted, no white space, whole floating-point numbers as integers.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            text.push('{');
            for (name, field) in sorted {
                let _ = write!(text, "{}:", Value::String(name.clone()));
                canonical(field, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < WHOLE_MAX => {
                let _ = write!(text, "{float:.0}");
            }
            _ => {
                let _ = write!(text, "{number}");
            }
        },
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

/// Closed operations that repeats are still recognised for. At about 300 bytes each, 3 MB.
pub const CLOSED_OPERATIONS_MAX: usize = 10_000;

/// Below 2^53 every whole number has its own floating-point value.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(arguments: &Value, fields: &[&str]) -> String {
        let policy = ToolPolicy { idempotency_fields: fields.iter().map(|&f| f.to_owned()).collect(), ..ToolPolicy::default() };
        base(Some(&PartyId("ana|x".into())), SessionId(1), "order", &policy, arguments)
    }

    fn closed(number: u128, occurrence: u32) -> OperationRecord {
        OperationRecord {
            id: OperationId(number),
            intent_key: IntentKey(format!("ana|order|{number}|{occurrence}")),
            batch: BatchId(1),
            ordinal: 0,
            party: None,
            session: SessionId(1),
            turn: TurnId(1),
            tool: "order".into(),
            arguments: Value::Null,
            state: OperationState::Succeeded,
            attempt: 1,
            unreached: 0,
            handle: None,
            maybe_executed: false,
            result: Some(json!(1)),
            error: None,
            contradiction: None,
            accepted: crate::time::Wall::default(),
        }
    }

    #[test]
    fn the_order_of_keys_and_the_spelling_of_whole_numbers_make_no_difference() {
        assert_eq!(key(&json!({"a": 1, "b": {"c": 2.0, "d": 3}}), &[]), key(&json!({"b": {"d": 3.0, "c": 2}, "a": 1}), &[]));
        assert_ne!(key(&json!({"a": 1}), &[]), key(&json!({"a": "1"}), &[]));
        assert_ne!(key(&json!({"a": [1, 2]}), &[]), key(&json!({"a": [12]}), &[]));
    }

    #[test]
    fn only_the_idempotency_fields_count_where_they_are_there() {
        assert_eq!(key(&json!({"id": 7, "note": "x"}), &["id"]), key(&json!({"id": 7, "note": "y"}), &["id"]));
        assert_ne!(key(&json!({"note": "x"}), &["id"]), key(&json!({"note": "y"}), &["id"]));
    }

    #[test]
    fn a_key_reads_back_its_occurrence_whatever_the_party_is_called() {
        let base = key(&json!({}), &[]);
        assert_eq!(split(&IntentKey(format!("{base}|12"))), Some((base.as_str(), 12)));
        assert_eq!(occurrence(&IntentKey("nonsense".into())), None);
    }

    #[test]
    fn a_forgotten_key_is_never_given_out_again() {
        let mut intents = Intents::new(0);
        let first = closed(0, 3);
        let (base, _) = split(&first.intent_key).unwrap();
        let base = base.to_owned();
        intents.open(base.clone(), (first.id, first.batch, 0), first.turn, 3, &first.arguments);
        intents.close(&first);
        intents.retire(&first);
        for number in 1..=CLOSED_OPERATIONS_MAX as u128 {
            intents.retire(&closed(number, 1));
        }
        assert!(intents.closed(first.id).is_none());
        let call = ToolCall { call_id: "c".into(), tool: "order".into(), arguments: json!({}), confirmed: false };
        assert_eq!(intents.judge(&base, (SessionId(1), TurnId(2)), &call, DuplicatePolicy::Reuse, false), Judgement::New(4));
    }

    #[test]
    fn a_turn_that_was_answered_is_remembered_when_an_acceptance_in_a_later_one_fails() {
        let mut intents = Intents::new(0);
        let call = ToolCall { call_id: "c".into(), tool: "order".into(), arguments: json!({}), confirmed: false };
        let base = split(&closed(7, 1).intent_key).unwrap().0.to_owned();
        let judge = |intents: &mut Intents, session, turn| {
            intents.judge(&base, (SessionId(session), TurnId(turn)), &call, DuplicatePolicy::Reuse, false)
        };
        for (number, session, turn) in [(1, 1, 1), (2, 2, 9)] {
            let record = OperationRecord { id: OperationId(number.into()), ..closed(7, number) };
            assert_eq!(judge(&mut intents, session, turn), Judgement::New(number));
            intents.open(base.clone(), (record.id, record.batch, 0), TurnId(turn), number, &record.arguments);
            intents.close(&record);
        }
        assert_eq!(judge(&mut intents, 1, 2), Judgement::New(3));
        intents.open(base.clone(), (OperationId(3), BatchId(1), 0), TurnId(2), 3, &json!({}));
        intents.retract(&base, (SessionId(1), TurnId(2)), OperationId(3));
        assert!(matches!(judge(&mut intents, 1, 1), Judgement::Told { .. }), "the model of the first turn repeats itself, late");
        assert_eq!(judge(&mut intents, 1, 2), Judgement::New(3), "nothing was done in that one");
    }

    #[test]
    fn what_was_asked_in_a_turn_is_not_asked_in_it_again_whoever_asks_meanwhile() {
        let mut intents = Intents::new(0);
        let call = ToolCall { call_id: "c".into(), tool: "order".into(), arguments: json!({}), confirmed: false };
        let (first, second) = (closed(7, 1), OperationRecord { id: OperationId(8), ..closed(7, 2) });
        let base = split(&first.intent_key).unwrap().0.to_owned();
        let judge = |intents: &mut Intents, session, turn| {
            intents.judge(&base, (SessionId(session), TurnId(turn)), &call, DuplicatePolicy::Reuse, false)
        };
        for (record, session, turn) in [(&first, 1, 1), (&second, 2, 9)] {
            let occurrence = occurrence(&record.intent_key).unwrap();
            assert_eq!(judge(&mut intents, session, turn), Judgement::New(occurrence));
            intents.open(base.clone(), (record.id, record.batch, 0), TurnId(turn), occurrence, &record.arguments);
            intents.close(record);
        }
        let told = Judgement::Told { operation: second.id, batch: second.batch, answer: RepeatAnswer::Reused };
        assert_eq!(judge(&mut intents, 1, 1), told, "the first caller's model repeats itself");
        assert_eq!(judge(&mut intents, 1, 2), Judgement::New(3), "the caller asks again");
        intents.session_over(SessionId(1));
        assert_eq!(intents.turns.len(), 1);
    }

    #[test]
    fn numbers_that_differ_make_another_key_however_large_or_close_they_are() {
        for (one, other) in [
            (json!({"n": 9_007_199_254_740_992_u64}), json!({"n": 9_007_199_254_740_993_u64})),
            (json!({"n": -9_007_199_254_740_992_i64}), json!({"n": -9_007_199_254_740_993_i64})),
            (json!({"n": 1.4}), json!({"n": 1.3})),
            (json!({"n": 1}), json!({"n": 1.25})),
            (json!({"n": 1e300}), json!({"n": 2e300})),
        ] {
            assert_ne!(key(&one, &[]), key(&other, &[]), "{one} and {other}");
        }
        assert_eq!(canonical_text(&json!(1e20)), json!(1e20).to_string(), "beyond what is exact a number is as it is written");
    }

    fn canonical_text(value: &Value) -> String {
        let mut text = String::new();
        canonical(value, &mut text);
        text
    }

    #[test]
    fn after_a_restart_the_latest_occurrence_counts_in_whatever_order_they_come() {
        let (first, second) = (closed(7, 1), OperationRecord { id: OperationId(8), ..closed(7, 2) });
        let base = split(&first.intent_key).unwrap().0.to_owned();
        for order in [[&first, &second], [&second, &first]] {
            let mut intents = Intents::new(0);
            order.into_iter().for_each(|record| intents.restore(record, 0, true));
            let known = intents.known[&base].last().unwrap();
            assert_eq!((known.operation, known.occurrence), (second.id, 2));
        }
    }

    #[test]
    fn of_what_stood_before_a_request_what_is_not_over_is_kept_and_the_last_comes_back_where_the_request_fails() {
        let mut intents = Intents::new(0);
        let records: Vec<OperationRecord> = (1..=3).map(|n| OperationRecord { id: OperationId(u128::from(n)), ..closed(7, n) }).collect();
        let base = split(&records[0].intent_key).unwrap().0.to_owned();
        for (record, occurrence) in records.iter().zip(1..) {
            intents.open(base.clone(), (record.id, record.batch, 0), record.turn, occurrence, &record.arguments);
        }
        let known = |intents: &Intents| intents.known[&base].iter().map(|known| (known.operation.0, known.closed)).collect::<Vec<_>>();
        intents.close(&records[0]);
        assert_eq!(known(&intents), [(1, true), (2, false), (3, false)]);
        intents.close(&records[1]);
        assert_eq!(known(&intents), [(2, true), (3, false)], "what was before what is over is forgotten");
        intents.retract(&base, (SessionId(1), records[2].turn), records[2].id);
        assert_eq!(known(&intents), [(2, true)]);
    }

    #[test]
    fn what_is_forgotten_of_closed_operations_is_the_oldest_and_all_of_it() {
        let mut intents = Intents::new(0);
        let runs = closed(0, 1);
        let base_of = |record: &OperationRecord| split(&record.intent_key).unwrap().0.to_owned();
        let open = |intents: &mut Intents, record: &OperationRecord, occurrence| {
            intents.open(base_of(record), (record.id, record.batch, 0), record.turn, occurrence, &record.arguments);
        };
        // Of the first one a repeat runs; the others are over.
        open(&mut intents, &runs, 1);
        intents.close(&runs);
        intents.retire(&runs);
        let repeat = OperationRecord { id: OperationId(1_000_000), ..closed(0, 2) };
        open(&mut intents, &repeat, 2);
        let records: Vec<OperationRecord> = (1..=CLOSED_OPERATIONS_MAX as u128).map(|number| closed(number, 1)).collect();
        for record in &records[..CLOSED_OPERATIONS_MAX - 1] {
            open(&mut intents, record, 1);
            intents.close(record);
            intents.retire(record);
        }
        assert!(intents.closed(runs.id).is_some(), "so many are remembered");
        assert_eq!(intents.known[&base_of(&runs)].len(), 2);
        open(&mut intents, &records[CLOSED_OPERATIONS_MAX - 1], 1);
        intents.close(&records[CLOSED_OPERATIONS_MAX - 1]);
        intents.retire(&records[CLOSED_OPERATIONS_MAX - 1]);
        assert!(intents.closed(runs.id).is_none());
        let known: Vec<OperationId> = intents.known[&base_of(&runs)].iter().map(|known| known.operation).collect();
        assert_eq!(known, [repeat.id], "what runs is remembered");
        assert_eq!(intents.closed.len(), CLOSED_OPERATIONS_MAX);
        let next = closed(2_000_000, 1);
        open(&mut intents, &next, 1);
        intents.close(&next);
        intents.retire(&next);
        assert!(!intents.known.contains_key(&base_of(&records[0])), "with what told its repeats apart");
        assert!(intents.known.contains_key(&base_of(&records[1])));
    }
}
