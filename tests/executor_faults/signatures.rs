//! Signatures of what is sent, held against a verifier that others have written: that of the package `openai`, which `./dev test` fetches.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use recado::config::HandOff;
use recado_core::ledger::OperationState::{Compensated, Succeeded};
use serde_json::{Value, json};

use super::rig::{scene, scene_with_webhook, tool};
use super::service::{Asked, Service};

#[tokio::test]
async fn everything_that_is_sent_is_signed_as_anybodys_verifier_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut messages = Vec::new();
    for secret in ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "s3cret of both sides"] {
        let file = directory.path().join("secret");
        std::fs::write(&file, secret).unwrap();
        let service = Service::start(|asked: &Asked, before| match (asked.path.as_str(), before) {
            ("/order", 0) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            ("/order", _) => (StatusCode::ACCEPTED, [("location", "/jobs/7")]).into_response(),
            ("/cancel", _) => StatusCode::CONFLICT.into_response(),
            ("/undo", _) => StatusCode::NO_CONTENT.into_response(),
            _ => r#"{"status": "running"}"#.into_response(),
        })
        .await;
        let at = |path: &str| format!("{}{path}", service.base);
        let more = json!({
            "idempotent": true,
            "sign_secret_file": file,
            "cancel_url": at("/cancel"),
            "compensate_url": at("/undo"),
        });
        let mut scene = scene(tool(&at("/order"), more)).await;
        let operation = scene.orders("tool");
        scene.until(|_| service.of("/jobs/7").len() >= 2).await;
        scene.wants_it_cancelled("tool");
        scene.until(|scene| scene.state(operation) == Compensated).await;
        let ids = |path: &str| service.of(path).iter().map(|asked| asked.header("webhook-id")).collect::<Vec<_>>();
        assert_eq!(ids("/order"), [format!("{operation}_attempt_1"), format!("{operation}_attempt_2")]);
        assert_eq!((ids("/cancel"), ids("/undo")), (vec![format!("{operation}_cancel")], vec![format!("{operation}_compensate")]));
        let inquiries = ids("/jobs/7");
        assert!(inquiries[0] != inquiries[1] && inquiries[0].starts_with(&format!("{operation}_status_1_")), "{inquiries:?}");
        messages.extend(service.all().into_iter().map(|asked| (secret, asked)));
        messages.push((secret, handed_off(&file).await));
    }
    assert!(messages.len() >= 14, "{}", messages.len());
    verify(&messages);
}

/// A hand-off, as its receiver gets it.
async fn handed_off(secret_file: &std::path::Path) -> Asked {
    let service = Service::start(|_, _| r#"{"at": "nine"}"#.into_response()).await;
    let settings =
        HandOff { url: format!("{}/unheard", service.base), secret_file: secret_file.to_owned(), ca_file: None, timeout_ms: 30_000 };
    let more = json!({ "when_unheard": "webhook", "hand_off_after_ms": 1 });
    let mut scene = scene_with_webhook(tool(&format!("{}/order", service.base), more), settings).await;
    let operation = scene.orders("tool");
    scene.hangs_up();
    scene.until(|scene| scene.state(operation) == Succeeded && !service.of("/unheard").is_empty()).await;
    let asked = service.of("/unheard").remove(0);
    assert_eq!(
        (asked.header("webhook-id"), asked.json()["delivery_id"].clone()),
        (asked.header("idempotency-key"), json!(asked.header("webhook-id")))
    );
    assert!(asked.header("x-recado-signature").starts_with("sha256="), "the header that receivers know stays");
    asked
}

/// Each is accepted as it is, and refused in every way that it could have been altered.
fn verify(messages: &[(&str, Asked)]) {
    let Some(python) = python() else { return println!("skipped: the verifier is not there; `./dev test` fetches it") };
    let messages: Vec<Value> = messages
        .iter()
        .map(|(secret, asked)| {
            let headers: serde_json::Map<_, _> = ["webhook-id", "webhook-timestamp", "webhook-signature"]
                .map(|name| (name.to_owned(), json!(asked.header(name))))
                .into_iter()
                .collect();
            json!({ "secret": secret, "headers": headers, "body": String::from_utf8_lossy(&asked.body) })
        })
        .collect();
    let mut verifier =
        Command::new(python).args(["-c", VERIFIER]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    verifier.stdin.take().unwrap().write_all(json!(messages).to_string().as_bytes()).unwrap();
    let output = verifier.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        said.trim(),
        format!("{} accepted, {} refused", messages.len(), 4 * messages.len()),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

const VERIFIER: &str = r#"
import json, sys
from openai import InvalidWebhookSignatureError, OpenAI

accepted = refused = 0
for message in json.load(sys.stdin):
    secret, headers, body = message["secret"], message["headers"], message["body"]
    verify = OpenAI(api_key="none", webhook_secret=secret).webhooks.verify_signature
    verify(body, headers)
    accepted += 1
    other = "whsec_" + "A" * 43 + "="
    altered = [
        (body + " ", headers, secret),
        (body, {**headers, "webhook-id": headers["webhook-id"] + "0"}, secret),
        (body, {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) - 1)}, secret),
        (body, headers, other),
    ]
    for body, headers, secret in altered:
        try:
            verify(body, headers, secret=secret)
        except InvalidWebhookSignatureError:
            refused += 1
print(f"{accepted} accepted, {refused} refused")
"#;

/// The Python that has the package: as `./dev test` says, or where it has put it.
fn python() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("RECADO_VALIDATOR_PYTHON") {
        return Some(named.into());
    }
    let usual = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../validator/bin/python3");
    usual.exists().then_some(usual)
}
