//! Keys, and what is remembered of requests.

use serde_json::json;

use super::*;

impl From<DuplicatePolicy> for Rules<'static> {
    fn from(duplicate: DuplicatePolicy) -> Self {
        Self { duplicate, scope: IdempotencyScope::Party, window_ms: None, now: Time(0), party: None }
    }
}

impl From<TurnId> for Origin {
    fn from(turn: TurnId) -> Self {
        Self { turn, session: SessionId(1), party: None, now: Time(0), age_ms: 0 }
    }
}

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
    assert_eq!(intents.judge(&base, (SessionId(1), TurnId(2)), &call, &DuplicatePolicy::Reuse.into(), false), Judgement::New(4));
}

#[test]
fn a_turn_that_was_answered_is_remembered_when_an_acceptance_in_a_later_one_fails() {
    let mut intents = Intents::new(0);
    let call = ToolCall { call_id: "c".into(), tool: "order".into(), arguments: json!({}), confirmed: false };
    let base = split(&closed(7, 1).intent_key).unwrap().0.to_owned();
    let judge = |intents: &mut Intents, session, turn| {
        intents.judge(&base, (SessionId(session), TurnId(turn)), &call, &DuplicatePolicy::Reuse.into(), false)
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
        intents.judge(&base, (SessionId(session), TurnId(turn)), &call, &DuplicatePolicy::Reuse.into(), false)
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
        order.into_iter().for_each(|record| intents.restore(record, 0, true, (0, Time(0))));
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
