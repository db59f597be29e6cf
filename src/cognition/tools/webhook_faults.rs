//! Receivers on loopback that take a hand-off, refuse it or do not answer, and what becomes of it.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use hmac::{Hmac, KeyInit, Mac};
use recado_core::ledger::{DeliveryKind, Executed, HandOff, HandOffOutcome, Input, OperationRecord, OperationState};
use recado_core::policy::{Language, Localised};
use recado_core::{BatchId, DeliveryId, IntentKey, OperationId, PartyId, SessionId, TurnId, Wall};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::http_faults::{Service, clients};
use super::token::hex;
use super::webhook::Webhook;
use crate::config;

#[tokio::test]
async fn a_hand_off_says_what_the_caller_would_have_heard_and_is_signed() {
    let service = Service::start(|_| StatusCode::NO_CONTENT.into_response()).await;
    assert_eq!(outcome_at(&service.url("/unheard"), 5_000).await, HandOffOutcome::Acknowledged);
    let requests = service.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/unheard"));
    let header = |name: &str| request.headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!(header("idempotency-key"), DELIVERY.to_string());
    let mut mac = Hmac::<Sha256>::new_from_slice(b"s3cret of both").unwrap();
    mac.update(&request.body);
    assert_eq!(header("x-recado-signature"), format!("sha256={}", hex(&mac.finalize().into_bytes())));
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let expected = json!({
        "delivery_id": DELIVERY,
        "kind": "final",
        "batch_id": BatchId(3),
        "party_id": "tel:+34600000001",
        "session_id": SessionId(4),
        "language": "es",
        "text": { "es": "Su mesa está reservada." },
        "ready": { "unix_ms": 5, "synchronised": true },
        "operations": [{
            "operation_id": OperationId(5),
            "tool": "book_table",
            "arguments": { "people": 4 },
            "state": "succeeded",
            "result": { "table": 7 },
            "error": null,
        }],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn only_a_2xx_acknowledges_and_a_refusal_is_told_apart_from_doubt() {
    for (status, received) in
        [(302, Executed::No), (401, Executed::No), (429, Executed::No), (500, Executed::Maybe), (503, Executed::Maybe)]
    {
        let service = Service::start(move |_| StatusCode::from_u16(status).unwrap().into_response()).await;
        let outcome = outcome_at(&service.url("/"), 5_000).await;
        assert!(matches!(&outcome, HandOffOutcome::Failed { received: found, .. } if *found == received), "{status}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_receiver_that_is_not_there_has_received_nothing_and_a_silent_one_perhaps() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let outcome = outcome_at(&format!("http://{gone}/"), 5_000).await;
    let HandOffOutcome::Failed { error, received: Executed::No, .. } = &outcome else { panic!("{outcome:?}") };
    assert!(error.contains("the webhook's host `127.0.0.1`"), "{error}");
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let outcome = outcome_at(&format!("http://{}/", silent.local_addr().unwrap()), 100).await;
    assert!(matches!(&outcome, HandOffOutcome::Failed { received: Executed::Maybe, .. }), "{outcome:?}");
}

#[tokio::test]
async fn a_secret_that_is_not_there_is_named_at_start() {
    let settings = settings("http://127.0.0.1:1/", "/nonexistent/secret".into(), 1_000);
    let error = Webhook::with(&settings, mpsc::channel(1).0, &mut clients()).err().unwrap().to_string();
    assert!(
        error.starts_with("hand_off.secret_file: ")
            && error.contains("the credential file that is named is not in /: ")
            && !error.contains("nonexistent"),
        "{error}"
    );
}

async fn outcome_at(url: &str, timeout_ms: u64) -> HandOffOutcome {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "s3cret of both\n").unwrap();
    let (reports, mut reported) = mpsc::channel(1);
    let mut webhook = Webhook::with(&settings(url, secret.path().to_owned(), timeout_ms), reports, &mut clients()).unwrap();
    webhook.send(&hand_off()).unwrap();
    match reported.recv().await {
        Some(Input::HandOffAttempted { delivery: DELIVERY, outcome }) => outcome,
        other => panic!("{other:?}"),
    }
}

fn settings(url: &str, secret_file: std::path::PathBuf, timeout_ms: u64) -> config::HandOff {
    config::HandOff { url: url.to_owned(), secret_file, ca_file: None, timeout_ms }
}

fn hand_off() -> HandOff {
    let operation = OperationRecord {
        id: OperationId(5),
        intent_key: IntentKey("a|book_table|d|1".to_owned()),
        batch: BatchId(3),
        ordinal: 0,
        party: Some(PartyId("tel:+34600000001".to_owned())),
        session: SessionId(4),
        turn: TurnId(1),
        tool: "book_table".to_owned(),
        arguments: json!({ "people": 4 }),
        state: OperationState::Succeeded,
        attempt: 1,
        unreached: 0,
        handle: None,
        maybe_executed: false,
        result: Some(json!({ "table": 7 })),
        error: None,
        contradiction: None,
        accepted: Wall::default(),
    };
    HandOff {
        delivery: DELIVERY,
        kind: DeliveryKind::Final,
        batch: BatchId(3),
        party: operation.party.clone(),
        session: SessionId(4),
        language: Language::Es,
        text: Localised { es: Some("Su mesa está reservada.".to_owned()), en: None },
        ready: Wall { unix_ms: 5, synchronised: true },
        operations: vec![operation],
    }
}

const DELIVERY: DeliveryId = DeliveryId(9);
