//! Everything that can be wrong with a callback, against the real route and the real ledger: under the operation's token, and signed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use recado_core::OperationId;
use recado_core::ledger::Contradiction;
use recado_core::ledger::OperationState::{Failed, Running, Succeeded};
use serde_json::{Value, json};
use sha2::Sha256;

use super::rig::{Scene, scene, tool};
use super::service::Service;

/// How a sender shows who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    Bearer,
    Signature,
}

/// A box with a tool that takes what it is asked and calls back.
struct Stage {
    scene: Scene,
    service: Service,
    _secret: tempfile::NamedTempFile,
}

impl Stage {
    async fn set() -> Self {
        let service = Service::start(|_, _| StatusCode::ACCEPTED.into_response()).await;
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), SECRET).unwrap();
        let scene = scene(tool(&format!("{}/order", service.base), json!({ "sign_secret_file": secret.path() }))).await;
        Self { scene, service, _secret: secret }
    }

    /// An operation that runs, and the way back to it.
    async fn runs(&mut self) -> (OperationId, Callback) {
        let before = self.service.of("/order").len();
        let operation = self.scene.orders("tool");
        let service = self.service.clone();
        self.scene.until(|_| service.of("/order").len() > before).await;
        let told = self.service.of("/order")[before].json()["callback"].clone();
        let text = |key: &str| told[key].as_str().unwrap().to_owned();
        (operation, Callback { url: text("url"), token: text("token") })
    }

    async fn sends(&mut self, message: &Message) -> u16 {
        let request = message.request();
        self.scene.meanwhile(async move { request.send().await.unwrap().status().as_u16() }).await
    }
}

#[derive(Debug, Clone)]
struct Callback {
    url: String,
    token: String,
}

impl Callback {
    /// A report, now.
    fn says(&self, proof: Proof, body: Value) -> Message {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("msg_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        Message { to: self.clone(), proof, id, at: now, body: body.to_string(), secret: SECRET.to_owned() }
    }
}

#[derive(Debug, Clone)]
struct Message {
    to: Callback,
    proof: Proof,
    id: String,
    at: u64,
    body: String,
    secret: String,
}

impl Message {
    fn request(&self) -> reqwest::RequestBuilder {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(&self.to.url).body(self.body.clone());
        if self.proof == Proof::Bearer {
            return request.bearer_auth(&self.to.token);
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_bytes()).unwrap();
        mac.update(format!("{}.{}.{}", self.id, self.at, self.body).as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        request.header("webhook-id", &self.id).header("webhook-timestamp", self.at).header("webhook-signature", signature)
    }
}

#[tokio::test]
async fn a_result_is_recorded_once_and_answered_each_time_that_it_comes() {
    for proof in [Proof::Bearer, Proof::Signature] {
        let mut stage = Stage::set().await;
        let (operation, back) = stage.runs().await;
        let result = back.says(proof, json!({ "status": "succeeded", "result": { "at": "nine" } }));
        assert_eq!(stage.sends(&result).await, 200);
        assert_eq!(stage.scene.stored(operation).state, Succeeded, "before the answer");
        assert_eq!(stage.sends(&result).await, 200, "replayed, {proof:?}");
        let again = back.says(proof, json!({ "status": "succeeded", "result": { "at": "nine" } }));
        assert_eq!(stage.sends(&again).await, 200, "said once more");
        assert_eq!(stage.scene.tells(), ["Done: nine."]);
        assert_eq!(stage.scene.stored(operation).contradiction, None);
    }
}

#[tokio::test]
async fn of_two_results_the_first_wins_and_the_other_is_kept() {
    for proof in [Proof::Bearer, Proof::Signature] {
        let mut stage = Stage::set().await;
        let (operation, back) = stage.runs().await;
        assert_eq!(stage.sends(&back.says(proof, json!({ "status": "failed", "error": "no taxi left" }))).await, 200);
        assert_eq!(stage.sends(&back.says(proof, json!({ "status": "succeeded", "result": { "at": "nine" } }))).await, 409);
        let stored = stage.scene.stored(operation);
        assert_eq!(stored.state, Failed);
        let other = Contradiction::Succeeded(json!({ "at": "nine" }));
        assert_eq!(stored.contradiction, Some(other));
    }
}

#[tokio::test]
async fn progress_is_said_once_and_never_after_the_result() {
    for proof in [Proof::Bearer, Proof::Signature] {
        let mut stage = Stage::set().await;
        let (operation, back) = stage.runs().await;
        let progress = back.says(proof, json!({ "status": "progress", "progress": { "percent": 40 } }));
        assert_eq!(stage.sends(&progress).await, 200);
        assert_eq!(stage.scene.updates, ["It is at 40."]);
        assert_eq!(stage.scene.state(operation), Running);
        stage.scene.goes_by(10_000);
        if proof == Proof::Signature {
            assert_eq!(stage.sends(&progress).await, 200);
            assert_eq!(stage.scene.updates.len(), 1, "a replay goes nowhere");
        }
        assert_eq!(stage.sends(&back.says(proof, json!({ "status": "succeeded", "result": { "at": "nine" } }))).await, 200);
        // Overtaken by the result on its way.
        let late = back.says(proof, json!({ "status": "progress", "progress": { "percent": 80 } }));
        assert_eq!(stage.sends(&late).await, 409);
        assert_eq!(stage.scene.updates.len(), 1);
    }
}

#[tokio::test]
async fn a_retraction_that_comes_before_the_result_takes_nothing_back_and_a_replayed_one_not_the_next() {
    let mut stage = Stage::set().await;
    let (operation, back) = stage.runs().await;
    let retraction = back.says(Proof::Signature, json!({ "status": "retracted" }));
    assert_eq!(stage.sends(&retraction).await, 409, "there is none yet");
    assert_eq!(stage.sends(&back.says(Proof::Signature, json!({ "status": "succeeded", "result": { "at": "nine" } }))).await, 200);
    assert_eq!(stage.sends(&retraction).await, 200, "what was refused before is not taken for a replay");
    assert_eq!(stage.sends(&retraction).await, 200);
    assert_eq!(stage.scene.stored(operation).state, Succeeded);
}

#[tokio::test]
async fn a_result_that_comes_after_the_deadline_says_what_it_was() {
    for proof in [Proof::Bearer, Proof::Signature] {
        let mut stage = Stage::set().await;
        let (operation, back) = stage.runs().await;
        stage.scene.goes_by(400_000);
        assert_eq!(stage.scene.tells(), ["Nobody knows."]);
        assert_eq!(stage.sends(&back.says(proof, json!({ "status": "succeeded", "result": { "at": "nine" } }))).await, 200);
        assert_eq!(stage.scene.stored(operation).state, Succeeded);
    }
}

#[tokio::test]
async fn an_operation_that_nobody_asked_for_is_not_known() {
    let mut stage = Stage::set().await;
    let (_, back) = stage.runs().await;
    // The box's own secret, which the rig knows, makes tokens for whatever is called an operation.
    let secret = recado::cognition::tools::BoxSecret::new([1; 32]);
    let base = back.url.split("/v1/").next().unwrap();
    let unknown = OperationId(7);
    let token = secret.token(unknown).expose().to_owned();
    let back = Callback { url: format!("{base}/v1/operations/{unknown}/result"), token };
    assert_eq!(stage.sends(&back.says(Proof::Bearer, json!({ "status": "succeeded" }))).await, 404);
}

#[tokio::test]
async fn what_is_not_signed_as_it_must_be_is_nobodys() {
    let mut stage = Stage::set().await;
    let (operation, back) = stage.runs().await;
    let (_, of_another) = stage.runs().await;
    let right = back.says(Proof::Signature, json!({ "status": "succeeded", "result": { "at": "nine" } }));
    let plain = back.url.split("/result").next().unwrap().to_owned() + "/result";
    let elsewhere = of_another.url.rsplit_once('/').unwrap().1.to_owned();
    let addressed = |url: String| Message { to: Callback { url, ..back.clone() }, ..right.clone() };
    for (what, message) in [
        ("another secret", Message { secret: "s3cret of nobody".to_owned(), ..right.clone() }),
        ("signed ten minutes ago", Message { at: right.at - 600, ..right.clone() }),
        ("signed in ten minutes", Message { at: right.at + 600, ..right.clone() }),
        ("no proof whose operation it is", addressed(plain.clone())),
        ("another operation's proof", addressed(format!("{plain}/tool/{elsewhere}"))),
        ("another tool", addressed(back.url.replace("/tool/", "/pay/"))),
    ] {
        assert_eq!(stage.sends(&message).await, 401, "{what}");
    }
    let altered = right.request().body(json!({ "status": "succeeded", "result": { "at": "ten" } }).to_string());
    assert_eq!(stage.scene.meanwhile(async move { altered.send().await.unwrap().status().as_u16() }).await, 401);
    assert_eq!(stage.scene.stored(operation).state, Running, "nothing was taken");
    assert_eq!(stage.sends(&right).await, 200);
    let other = Message { body: json!({ "status": "failed" }).to_string(), ..right.clone() };
    assert_eq!(stage.sends(&other).await, 400, "an identifier names one message");
}

const SECRET: &str = "s3cret of both sides";
