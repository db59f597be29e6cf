//! `llmock`, which breaks its answers and judges how its client deals with that.

use serde_json::{Value, json};

use super::cascade_counterparts::{Counterpart, client};

pub struct Llmock {
    counterpart: Counterpart,
    client: reqwest::Client,
}

impl Llmock {
    /// None where it is not installed.
    pub async fn start() -> Option<Self> {
        let serve = |port: u16| vec!["serve".into(), "--port".into(), port.to_string()];
        let counterpart = Counterpart::start("RECADO_LLMOCK", "llmock/bin/llmock", serve, "/_llmock/scenario").await?;
        Some(Self { counterpart, client: client() })
    }

    pub fn url(&self) -> &str {
        &self.counterpart.url
    }

    /// Each thing that it does to the next request, by what it is called; at first it answers `reply`.
    pub fn behaviors(reply: &str) -> [(&'static str, Value); 13] {
        [
            ("nothing", json!([{ "type": "reply", "text": reply, "times": null }])),
            ("a rate limit", json!([{ "type": "fail", "status": 429, "retry_after": 1.0 }])),
            ("overload", json!([{ "type": "fail", "status": 503, "retry_after": 2.0 }])),
            ("two errors", json!([{ "type": "fail", "status": 500, "times": 2 }])),
            ("a gateway", json!([{ "type": "fail", "status": 502 }])),
            ("a disconnect", json!([{ "type": "stream_fault", "kind": "disconnect", "after_chunks": 1 }])),
            ("a truncation", json!([{ "type": "stream_fault", "kind": "truncate", "after_chunks": 1 }])),
            ("a stall", json!([{ "type": "stream_fault", "kind": "stall", "after_chunks": 1, "stall_seconds": 5.0 }])),
            ("a corrupt chunk", json!([{ "type": "stream_fault", "kind": "malformed", "after_chunks": 1 }])),
            ("a slow first word", json!([{ "type": "slow_first_token", "seconds": 1.5 }])),
            ("an unknown tool", json!([{ "type": "tool_fault", "kind": "unknown_tool" }])),
            ("bad arguments", json!([{ "type": "tool_fault", "kind": "malformed_arguments" }])),
            (REFUSAL, json!([{ "type": "fail", "status": 401 }])),
        ]
    }

    pub async fn behaves(&self, what: &str, behaviors: &Value) {
        let to = format!("{}/_llmock/scenario", self.url());
        let queued = self.client.post(to).json(&json!({ "behaviors": behaviors })).send().await.unwrap();
        assert_eq!(queued.status(), 201, "{what}");
    }

    /// Its verdict on all that it was asked: nothing to find fault with.
    pub async fn passes(&self) {
        let verdict = format!("{}/_llmock/verdict", self.url());
        let text = self.client.get(format!("{verdict}?format=text")).send().await.unwrap().text().await.unwrap();
        println!("{text}");
        let verdict: Value = self.client.get(verdict).send().await.unwrap().json().await.unwrap();
        assert_eq!((&verdict["passed"], &verdict["errors"], &verdict["warnings"]), (&json!(true), &json!(0), &json!(0)), "{text}");
        assert!(verdict["faults_injected"].as_u64() >= Some(16), "{verdict}");
    }
}

/// What no other request helps against.
pub const REFUSAL: &str = "a refusal for good";
