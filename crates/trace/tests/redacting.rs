//! What the ledger is told can be told again after redaction, and none of what tools were asked or answered is left in it.

use recado_core::conversation::input::ToolCall;
use recado_core::ids::{BatchId, DeliveryId, OperationId, PartyId, ResponseId, SessionId, TurnId};
use recado_core::ledger::{
    AttemptOutcome, CancelOutcome, CommitId, Contradiction, Executed, HandOffOutcome, Input, OperationRecord, OperationResult,
    OperationState, RequestId, Route,
};
use recado_core::policy::Language;
use recado_core::{IntentKey, Wall};
use recado_trace::Redactor;
use recado_trace::redact::Key;
use serde_json::{Value, json};

#[test]
fn whatever_a_tool_calls_its_fields_nothing_of_what_they_hold_is_left() {
    for data in hostile() {
        for input in [
            Input::Accept {
                session: SESSION,
                turn: TurnId(1),
                response: ResponseId(1),
                call: ToolCall { call_id: "call_1".to_owned(), tool: "pay".to_owned(), arguments: data.clone(), confirmed: false },
            },
            attempted(AttemptOutcome::Succeeded(data.clone())),
            callback(OperationResult::Succeeded(data.clone())),
            cancelled(CancelOutcome::TooLate { result: Some(data.clone()) }),
            Input::Progress { request: Some(RequestId(1)), operation: OPERATION, progress: data.clone() },
        ] {
            let again = told_again(&input);
            let text = serde_json::to_string(&again).unwrap();
            assert!(!text.contains(SECRET) && !text.contains(&NUMBER.to_string()), "{input:?} became {text}");
        }
        for contradiction in [None, Some(Contradiction::Succeeded(data.clone()))] {
            let record = OperationRecord { arguments: data.clone(), result: Some(data.clone()), contradiction, ..record() };
            let text = serde_json::to_string(&kept_again(&record)).unwrap();
            assert!(!text.contains(SECRET) && !text.contains(&NUMBER.to_string()), "{record:?} became {text}");
        }
    }
}

#[test]
fn what_decides_is_left_in_every_outcome() {
    for executed in [Executed::No, Executed::Maybe] {
        for (retryable, retry_after_ms) in [(true, Some(4_711)), (false, None)] {
            for input in [
                attempted(AttemptOutcome::Failed { error: SECRET.to_owned(), executed, retryable, retry_after_ms }),
                cancelled(CancelOutcome::Failed { error: SECRET.to_owned(), retryable, retry_after_ms }),
                handed_off(HandOffOutcome::Failed { error: SECRET.to_owned(), received: executed, retry_after_ms }),
            ] {
                assert_eq!(without_error(&told_again(&input)), without_error(&input));
                assert!(!serde_json::to_string(&told_again(&input)).unwrap().contains(SECRET));
            }
        }
    }
    for input in [
        attempted(AttemptOutcome::Deferred),
        cancelled(CancelOutcome::Recalled),
        cancelled(CancelOutcome::Cancelled),
        cancelled(CancelOutcome::Compensated),
        cancelled(CancelOutcome::TooLate { result: None }),
        cancelled(CancelOutcome::Unsupported),
        handed_off(HandOffOutcome::Acknowledged),
        Input::SessionUp { session: SESSION, party: None, language: Language::Es },
        Input::Seal { session: SESSION, response: ResponseId(1) },
        Input::Cancel { session: SESSION, tool: Some("pay".to_owned()), operation: None, verified: true },
        Input::Retract { request: RequestId(1), operation: OPERATION },
        Input::Claim { session: SESSION, delivery: DeliveryId(3), route: Route::Ride },
        Input::Durable(CommitId(7)),
        Input::Wake,
    ] {
        assert_eq!(told_again(&input), input);
    }
    let Input::Callback { result: OperationResult::Failed(error), .. } = told_again(&callback(OperationResult::Failed(SECRET.to_owned())))
    else {
        panic!("a failure stays one");
    };
    assert_ne!(error, SECRET);
}

#[test]
fn a_contradiction_on_record_stays_the_one_that_it_is() {
    let undone = OperationRecord { contradiction: Some(Contradiction::Undone), ..record() };
    assert_eq!(kept_again(&undone).contradiction, undone.contradiction);
    let failed = OperationRecord { contradiction: Some(Contradiction::Failed(SECRET.to_owned())), ..record() };
    let Some(Contradiction::Failed(error)) = kept_again(&failed).contradiction else { panic!("a failure stays one") };
    assert_ne!(error, SECRET);
    let succeeded = OperationRecord { contradiction: Some(Contradiction::Succeeded(json!({ "paid": true }))), ..record() };
    assert_eq!(kept_again(&succeeded).contradiction, succeeded.contradiction);
}

/// What a tool might answer to be taken for something of ours: every name that is known, at the top and inside.
fn hostile() -> Vec<Value> {
    let names = [
        "state",
        "kind",
        "tool",
        "name",
        "to",
        "from",
        "status",
        "outcome",
        "policies",
        "Failed",
        "failed",
        "Succeeded",
        "succeeded",
        "result",
        "received",
        "executed",
        "contradiction",
        "progress",
        "Progress",
        "Callback",
        "party",
        "intent_key",
        "error",
        "",
    ];
    let own = names.into_iter().flat_map(|name| {
        [
            json!({ name: SECRET }),
            json!({ name: NUMBER }),
            json!({ name: { "state": SECRET, "kind": [SECRET, NUMBER], "number": NUMBER } }),
            json!({ name: [{ "policies": { "state": SECRET } }, SECRET, NUMBER] }),
            json!({ "Callback": { name: { "state": SECRET } } }),
        ]
    });
    own.chain([json!(SECRET), json!(NUMBER), json!([SECRET, NUMBER]), json!("ses_0123456789abcdef0123456789abcdef")]).collect()
}

fn redacted(mut value: Value) -> Value {
    Redactor::of(Key::derive(&[4; 32]), []).redact(&mut value);
    value
}

fn told_again(input: &Input) -> Input {
    let value = redacted(serde_json::to_value(input).unwrap());
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value} can't be told: {error}"))
}

fn kept_again(record: &OperationRecord) -> OperationRecord {
    let value = redacted(serde_json::to_value(record).unwrap());
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value} is no record: {error}"))
}

fn without_error(input: &Input) -> Value {
    let mut value = serde_json::to_value(input).unwrap();
    let [outcome] = &mut value.as_object_mut().unwrap().values_mut().collect::<Vec<_>>()[..] else { panic!() };
    let failed = outcome["outcome"].as_object_mut().unwrap().values_mut().next().unwrap();
    failed.as_object_mut().unwrap().remove("error").unwrap();
    value
}

fn attempted(outcome: AttemptOutcome) -> Input {
    Input::Attempted { operation: OPERATION, attempt: 1, outcome }
}

fn callback(result: OperationResult) -> Input {
    Input::Callback { request: RequestId(1), operation: OPERATION, result }
}

fn cancelled(outcome: CancelOutcome) -> Input {
    Input::CancelAttempted { operation: OPERATION, request: 1, outcome }
}

fn handed_off(outcome: HandOffOutcome) -> Input {
    Input::HandOffAttempted { delivery: DeliveryId(3), outcome }
}

fn record() -> OperationRecord {
    OperationRecord {
        id: OPERATION,
        intent_key: IntentKey("key|0".to_owned()),
        batch: BatchId(1),
        ordinal: 0,
        party: Some(PartyId("box/34600000000".to_owned())),
        session: SESSION,
        turn: TurnId(1),
        tool: "pay".to_owned(),
        arguments: json!({}),
        state: OperationState::Succeeded,
        attempt: 1,
        unreached: 0,
        handle: None,
        maybe_executed: false,
        result: None,
        error: None,
        contradiction: None,
        accepted: Wall { unix_ms: 1, synchronised: true },
    }
}

const SESSION: SessionId = SessionId(1);
const OPERATION: OperationId = OperationId(2);
const SECRET: &str = "ses_0123456789abcdef0123456789abcdef";
const NUMBER: u64 = 34_612_345_678;
