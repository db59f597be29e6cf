//! The other way for a closing that nobody has come to hear: `POST` to the box's webhook.
//!
//! The body is JSON, signed as Standard Webhooks (the `webhook-id` is the `delivery_id`), and once more in a header of its own:
//! `X-Recado-Signature: sha256=` and the HMAC-SHA-256 of the body's bytes under the shared secret (RFC
//! 2104), in hexadecimal. Only a 2xx acknowledges it. The same delivery may come more than once, with the same `Idempotency-Key`,
//! which is its `delivery_id`: the receiver takes it once.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use recado_core::DeliveryId;
use recado_core::ledger::{self, Executed, HandOff, HandOffOutcome};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::error::ToolError;
use super::http::IDEMPOTENCY_KEY;
use super::signature::Signer;
use super::tls::Clients;
use super::token::hex;
use crate::config::{self, Secret};
use crate::outward::{SystemAuthorities, retry_after_ms, status_words, transport_fault};

/// Hands deliveries off, and reports on each once.
pub struct Webhook {
    url: Url,
    client: Client,
    key: Hmac<Sha256>,
    signer: Signer,
    timeout: Duration,
    reports: mpsc::Sender<ledger::Input>,
    /// Dropped, they end: what was not acknowledged is sent again after the restart.
    under_way: JoinSet<()>,
}

impl Webhook {
    /// The webhook of these settings. Reads the secret's file and the system's certificate authorities.
    ///
    /// # Errors
    /// The setting that can't be used.
    pub fn new(settings: &config::HandOff, reports: mpsc::Sender<ledger::Input>) -> Result<Self, ToolError> {
        Self::with(settings, reports, &mut Clients::new(SystemAuthorities::load()))
    }

    pub(super) fn with(settings: &config::HandOff, reports: mpsc::Sender<ledger::Input>, clients: &mut Clients) -> Result<Self, ToolError> {
        let unusable = |setting| move |reason: String| ToolError::Webhook { setting, reason };
        let url = Url::parse(&settings.url).map_err(|error| unusable("url")(error.to_string()))?;
        let client = clients.webhook(settings.ca_file.as_deref(), url.scheme() == "https")?;
        let secret = Secret::read(&settings.secret_file).map_err(|error| unusable("secret_file")(error.to_string()))?;
        let key = Hmac::new_from_slice(secret.expose().as_bytes()).map_err(|error| unusable("secret_file")(error.to_string()))?;
        let signer = Signer::new(&secret).ok_or_else(|| {
            unusable("secret_file")(format!("{} begins with `whsec_`, and what follows is not base64", settings.secret_file.display()))
        })?;
        let timeout = Duration::from_millis(settings.timeout_ms);
        Ok(Self { url, client, key, signer, timeout, reports, under_way: JoinSet::new() })
    }

    /// Begins a hand-off, without waiting. One that can't be begun comes back as the report on it.
    pub fn send(&mut self, hand_off: &HandOff) -> Result<(), Box<ledger::Input>> {
        while self.under_way.try_join_next().is_some() {}
        let delivery = hand_off.delivery;
        if self.under_way.len() >= UNDER_WAY_MAX {
            return Err(Box::new(not_handed_off(delivery, "too many hand-offs are under way")));
        }
        let body = body(hand_off).to_string();
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(IDEMPOTENCY_KEY, delivery.to_string())
            .header(SIGNATURE, self.signature(body.as_bytes()))
            .headers(self.signer.headers(&delivery.to_string(), body.as_bytes()))
            .body(body);
        let (url, within, reports) = (self.url.clone(), self.timeout, self.reports.clone());
        self.under_way.spawn(async move {
            let outcome = match timeout(within, request.send()).await {
                Ok(answer) => judge(answer, &url),
                Err(_) => failed(format!("no answer within {} ms", within.as_millis()), Executed::Maybe),
            };
            match &outcome {
                HandOffOutcome::Acknowledged => tracing::info!(delivery_id = %delivery, "handed off"),
                HandOffOutcome::Failed { error, .. } => {
                    tracing::warn!(delivery_id = %delivery, error, "not handed off: it is tried again");
                }
            }
            // Nobody takes it when the box stops: then it is sent again after the restart.
            let _ = reports.send(ledger::Input::HandOffAttempted { delivery, outcome }).await;
        });
        Ok(())
    }

    fn signature(&self, body: &[u8]) -> String {
        let mut mac = self.key.clone();
        mac.update(body);
        format!("sha256={}", hex(&mac.finalize().into_bytes()))
    }
}

/// The report on a hand-off that was never begun.
pub fn not_handed_off(delivery: DeliveryId, reason: &str) -> ledger::Input {
    ledger::Input::HandOffAttempted { delivery, outcome: failed(reason.to_owned(), Executed::No) }
}

fn failed(error: String, received: Executed) -> HandOffOutcome {
    HandOffOutcome::Failed { error, received, retry_after_ms: None }
}

fn judge(answer: reqwest::Result<reqwest::Response>, url: &Url) -> HandOffOutcome {
    match answer {
        Ok(response) if response.status().is_success() => HandOffOutcome::Acknowledged,
        Ok(response) => {
            let status = response.status();
            // A refusal is the receiver's own word; what a server fails at, it may have taken before.
            let received = if status.is_server_error() { Executed::Maybe } else { Executed::No };
            HandOffOutcome::Failed {
                error: format!("the webhook answered {}", status_words(status)),
                received,
                retry_after_ms: retry_after_ms(response.headers(), std::time::SystemTime::now()),
            }
        }
        Err(error) => {
            let received = if error.is_connect() { Executed::No } else { Executed::Maybe };
            failed(transport_fault(&error, "the webhook", url), received)
        }
    }
}

fn body(hand_off: &HandOff) -> Value {
    let operations = hand_off.operations.iter().map(|operation| {
        json!({
            "operation_id": operation.id,
            "tool": operation.tool,
            "arguments": operation.arguments,
            "state": operation.state,
            "result": operation.known_result(),
            "error": operation.error,
        })
    });
    json!({
        "delivery_id": hand_off.delivery,
        "kind": hand_off.kind,
        "batch_id": hand_off.batch,
        "party_id": hand_off.party,
        "session_id": hand_off.session,
        "language": hand_off.language,
        "text": hand_off.text,
        "ready": hand_off.ready,
        "operations": operations.collect::<Vec<_>>(),
    })
}

/// The signature's header.
const SIGNATURE: &str = "x-recado-signature";

/// Hand-offs at a time: a receiver that is slow is not given more.
const UNDER_WAY_MAX: usize = 16;
