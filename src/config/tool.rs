//! A tool, as the configuration declares it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use recado_core::policy::{CanInterrupt, Localised, Priority, Retry, RidePosition, Sayings, ToolPolicy, UncertainPolicy};
use serde::Deserialize;

/// One `[[tools]]` table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Name that the model and the dialogue use: letters, digits, `_` and `-`.
    pub name: String,
    /// What it does, for the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments.
    #[serde(default = "any_object")]
    pub parameters: serde_json::Value,
    /// Where attempts are POSTed: `http://` or `https://`.
    pub url: String,
    /// Headers sent with each attempt.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A file whose content is sent as a bearer token; never logged.
    #[serde(default)]
    pub bearer_file: Option<PathBuf>,
    /// A file with further certificate authorities (PEM) to trust for this URL.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// How long one attempt may take until its answer is complete (ms).
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// How many attempts may be under way at the same time.
    #[serde(default = "concurrency")]
    pub concurrency: NonZeroUsize,
    /// Whole time that an operation may take, waits and callbacks included (ms).
    #[serde(default = "deadline_ms")]
    pub deadline_ms: u64,
    /// Whether the same request may safely be sent twice under one key.
    #[serde(default)]
    pub idempotent: bool,
    /// Which argument fields make two requests the same one; all of them when empty.
    #[serde(default)]
    pub idempotency_fields: Vec<String>,
    /// How failed attempts are repeated.
    #[serde(default)]
    pub retry: Retry,
    /// How soon its closing wants to be heard.
    #[serde(default)]
    pub priority: Priority,
    /// What an urgent closing may cut.
    #[serde(default)]
    pub can_interrupt: CanInterrupt,
    /// Age after which its closing is not told (ms).
    #[serde(default)]
    pub stale_after_ms: Option<u64>,
    /// What it is about: a newer request of the same caller on the same topic makes an untold closing obsolete.
    #[serde(default)]
    pub topic: Option<String>,
    /// Where its closing stands when it rides on a response.
    #[serde(default)]
    pub ride: RidePosition,
    /// What is done when nobody knows whether its closing was heard.
    #[serde(default)]
    pub uncertain: UncertainPolicy,
    /// Whether its closing needs the channel's best evidence.
    #[serde(default)]
    pub strict: bool,
    /// Said when an operation has been accepted; promises no result.
    #[serde(default)]
    pub say_accepted: Localised,
    /// Said when it succeeded; a template over `arguments` and `result`.
    #[serde(default)]
    pub say_done: Localised,
    /// Said instead when the long form was cut before any of it was heard.
    #[serde(default)]
    pub say_short: Localised,
    /// Said when it failed; a template over `arguments` and `error`.
    #[serde(default)]
    pub say_failed: Localised,
    /// Said when nobody knows whether it took effect.
    #[serde(default)]
    pub say_unknown: Localised,
}

impl Tool {
    /// What the core needs to know of it.
    pub fn policy(&self) -> ToolPolicy {
        ToolPolicy {
            idempotent: self.idempotent,
            idempotency_fields: self.idempotency_fields.clone(),
            priority: self.priority,
            can_interrupt: self.can_interrupt,
            stale_after_ms: self.stale_after_ms,
            deadline_ms: self.deadline_ms,
            retry: self.retry.clone(),
            topic: self.topic.clone(),
            ride: self.ride,
            uncertain: self.uncertain,
            strict: self.strict,
            say: Sayings {
                accepted: self.say_accepted.clone(),
                done: self.say_done.clone(),
                short: self.say_short.clone(),
                failed: self.say_failed.clone(),
                unknown: self.say_unknown.clone(),
                ..Sayings::default()
            },
            ..ToolPolicy::default()
        }
    }
}

fn any_object() -> serde_json::Value {
    serde_json::json!({ "type": "object" })
}

fn timeout_ms() -> u64 {
    10_000
}

fn concurrency() -> NonZeroUsize {
    NonZeroUsize::MIN.saturating_add(3)
}

fn deadline_ms() -> u64 {
    300_000
}
