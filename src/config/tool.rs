//! A tool, as the configuration declares it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use recado_core::policy::{
    Audience, CanInterrupt, DuplicatePolicy, HAND_OFF_AFTER_MS, INQUIRY_MS, IdempotencyScope, Localised, MAX_WAIT_MS, Priority,
    ProgressPolicy, Retry, RidePosition, Sayings, ToolPolicy, UncertainPolicy, WhenUnheard,
};
use serde::Deserialize;

use super::DelegateService;
use super::tool_command::ToolCommand;

/// What carries a tool's operations out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Way<'a> {
    /// An address that attempts are POSTed to.
    Http(&'a str),
    /// A program on the box.
    Command(&'a ToolCommand),
    /// A larger model.
    Delegate(&'a DelegateService),
    /// The server of this name, which speaks the Model Context Protocol.
    Mcp(&'a str),
}

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
    /// The larger model that it is, asked over HTTP; none where it is no such tool.
    #[serde(default)]
    pub delegate: Option<DelegateService>,
    /// Where attempts are POSTed, for a tool behind HTTP: `http://` or `https://`.
    #[serde(default)]
    pub url: Option<String>,
    /// The program that carries attempts out, for a tool on the box itself.
    #[serde(default)]
    pub command: Option<ToolCommand>,
    /// The server of `[mcp]` that has it, for a tool behind the Model Context Protocol.
    #[serde(default)]
    pub mcp: Option<String>,
    /// Its name there; the same as here when left out.
    #[serde(default)]
    pub mcp_tool: Option<String>,
    /// Where it is asked to cancel an operation; none where it can't be.
    #[serde(default)]
    pub cancel_url: Option<String>,
    /// Where it is asked to undo an operation: where a cancel comes too late, or in place of one where there is no `cancel_url`.
    #[serde(default)]
    pub compensate_url: Option<String>,
    /// Where it is asked how an operation stands, with `{operation_id}` or `{idempotency_key}` in it.
    #[serde(default)]
    pub status_url: Option<String>,
    /// The first wait before it is asked how an operation stands (ms); doubles where the tool does not say when to ask again.
    #[serde(default = "status_after_ms")]
    pub status_after_ms: u64,
    /// Headers sent with each attempt.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A file whose content is sent as a bearer token; never logged.
    #[serde(default)]
    pub bearer_file: Option<PathBuf>,
    /// A file with the secret that signs what it is sent, as Standard Webhooks, and that may sign what it reports; never logged.
    #[serde(default)]
    pub sign_secret_file: Option<PathBuf>,
    /// The HTTP proxy that it is reached through; none, whatever the environment says, where there is none here.
    #[serde(default)]
    pub proxy: Option<String>,
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
    /// Whether its server's word on that counts, since nothing is written: `idempotentHint` or `readOnlyHint` of the Model Context Protocol.
    #[serde(skip)]
    pub hinted: bool,
    /// Whether a server offers it and no configuration names it.
    #[serde(skip)]
    pub discovered: bool,
    /// Whether that server does not offer it any more: what it has begun is asked after, and it is not called.
    #[serde(skip)]
    pub gone: bool,
    /// Which argument fields make two requests the same one; all of them when empty.
    #[serde(default)]
    pub idempotency_fields: Vec<String>,
    /// Among whose requests two can be the same one.
    #[serde(default)]
    pub idempotency_scope: IdempotencyScope,
    /// How long a request stays the same one (ms); until its result is told and it is asked for again where it is not given.
    #[serde(default)]
    pub idempotency_window_ms: Option<u64>,
    /// How failed attempts are repeated.
    #[serde(default)]
    pub retry: Retry,
    /// Whether what it is asked to do is read back to the caller first, and done only when they agree.
    #[serde(default)]
    pub confirm: bool,
    /// What is done about a request that repeats another one.
    #[serde(default)]
    pub duplicate: DuplicatePolicy,
    /// How soon its closing wants to be heard.
    #[serde(default)]
    pub priority: Priority,
    /// What an urgent closing may cut.
    #[serde(default)]
    pub can_interrupt: CanInterrupt,
    /// How long its closing waits for a window of its own before it may also ride on a response (ms).
    #[serde(default = "max_wait_ms")]
    pub max_wait_ms: u64,
    /// Quiet before its closing is announced (ms); the box's own where it is not given.
    #[serde(default)]
    pub min_quiet_ms: Option<u64>,
    /// Who must be on the line to hear its closing.
    #[serde(default)]
    pub audience: Audience,
    /// What is done with news of progress.
    #[serde(default)]
    pub progress: ProgressPolicy,
    /// Age after which its closing is not told (ms).
    #[serde(default = "stale_after_ms")]
    pub stale_after_ms: Option<u64>,
    /// The field of the result that holds its version: on its topic, a result is not told once a later version is known.
    #[serde(default)]
    pub version_field: Option<String>,
    /// What is done with a closing that nobody has come to hear.
    #[serde(default)]
    pub when_unheard: WhenUnheard,
    /// How long its closing waits for somebody who may hear it before it is handed off (ms).
    #[serde(default = "hand_off_after_ms")]
    pub hand_off_after_ms: u64,
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
    /// Said when it was cancelled before it took effect.
    #[serde(default)]
    pub say_cancelled: Localised,
    /// Said when it took effect and was undone.
    #[serde(default)]
    pub say_compensated: Localised,
    /// Said when the cancel came too late; a template over `arguments` and `result`.
    #[serde(default)]
    pub say_too_late: Localised,
    /// Said when it waits because the tool can't be reached; a template over `arguments`.
    #[serde(default)]
    pub say_waiting: Localised,
    /// Said before it is done, where it needs the caller's consent; a template over `arguments`.
    #[serde(default)]
    pub say_confirm: Localised,
    /// Said on news of progress; a template over `arguments` and `progress`.
    #[serde(default)]
    pub say_progress: Localised,
}

impl Tool {
    /// What carries its operations out; none where it does not say. A configuration that has been checked names exactly one.
    pub fn way(&self) -> Option<Way<'_>> {
        let beyond_http = self.command.as_ref().map(Way::Command);
        let beyond_http = beyond_http.or(self.delegate.as_ref().map(Way::Delegate)).or(self.mcp.as_deref().map(Way::Mcp));
        beyond_http.or(self.url.as_deref().map(Way::Http))
    }

    /// What the core needs to know of it.
    pub fn policy(&self) -> ToolPolicy {
        ToolPolicy {
            idempotent: self.idempotent,
            idempotency_fields: self.idempotency_fields.clone(),
            description: self.description.clone(),
            confirm: self.confirm,
            private_fields: private_fields(&self.parameters),
            idempotency_scope: self.idempotency_scope,
            idempotency_window_ms: self.idempotency_window_ms,
            duplicate: self.duplicate,
            // A question to a model that can do nothing is cancelled by giving it up.
            cancellable: self.cancel_url.is_some()
                || self.compensate_url.is_some()
                || self.command.is_some()
                || self.mcp.is_some()
                || self.delegate.as_ref().is_some_and(|delegate| delegate.tools.is_empty()),
            inquirable: self.status_url.is_some(),
            inquiry_ms: self.status_after_ms,
            priority: self.priority,
            can_interrupt: self.can_interrupt,
            max_wait_ms: self.max_wait_ms,
            min_quiet_ms: self.min_quiet_ms,
            audience: self.audience,
            progress: self.progress,
            stale_after_ms: self.stale_after_ms,
            version_field: self.version_field.clone(),
            when_unheard: self.when_unheard,
            hand_off_after_ms: self.hand_off_after_ms,
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
                cancelled: self.say_cancelled.clone(),
                compensated: self.say_compensated.clone(),
                too_late: self.say_too_late.clone(),
                confirm: self.say_confirm.clone(),
                waiting: self.say_waiting.clone(),
                progress: self.say_progress.clone(),
            },
        }
    }
}

/// The fields of the arguments that are neither said nor shown, each by its path, such as `card.cvv`: those that JSON Schema calls `writeOnly`, or
/// passwords.
fn private_fields(parameters: &serde_json::Value) -> Vec<String> {
    let mut search = PrivateFields { whole: parameters, found: Vec::new(), left: SCHEMAS_MAX };
    search.under(parameters, "", 0);
    search.found
}

struct PrivateFields<'a> {
    whole: &'a serde_json::Value,
    found: Vec<String>,
    /// So many schemas more are looked at: references may make a few many.
    left: usize,
}

impl PrivateFields<'_> {
    fn under(&mut self, schema: &serde_json::Value, path: &str, depth: usize) {
        if depth > SCHEMA_DEPTH_MAX || self.left == 0 || !schema.is_object() {
            return;
        }
        self.left -= 1;
        let private = schema["writeOnly"] == true || schema["format"] == "password";
        if private && !path.is_empty() && !self.found.iter().any(|known| known == path) {
            self.found.push(path.to_owned());
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.under(property, &path, depth + 1);
        }
        self.under(&schema["items"], path, depth + 1);
        for several in ["allOf", "anyOf", "oneOf", "prefixItems"] {
            schema[several].as_array().into_iter().flatten().for_each(|schema| self.under(schema, path, depth + 1));
        }
        if let Some(place) = schema["$ref"].as_str().and_then(|place| self.whole.pointer(place.strip_prefix('#')?)) {
            self.under(place, path, depth + 1);
        }
    }
}

/// A schema that is deeper than this describes no arguments that a model would fill in.
const SCHEMA_DEPTH_MAX: usize = 12;

/// As many as a tool with all that it refers to may have, and more.
const SCHEMAS_MAX: usize = 4_096;

fn any_object() -> serde_json::Value {
    serde_json::json!({ "type": "object" })
}

fn timeout_ms() -> u64 {
    10_000
}

fn status_after_ms() -> u64 {
    INQUIRY_MS
}

fn concurrency() -> NonZeroUsize {
    NonZeroUsize::MIN.saturating_add(3)
}

fn deadline_ms() -> u64 {
    300_000
}

fn max_wait_ms() -> u64 {
    MAX_WAIT_MS
}

fn hand_off_after_ms() -> u64 {
    HAND_OFF_AFTER_MS
}

/// Thirty days: a caller who has not come back by then does not wait for it, and a box keeps nobody's results for ever.
#[expect(clippy::unnecessary_wraps, reason = "the default of a setting that may be left out")]
fn stale_after_ms() -> Option<u64> {
    Some(30 * 86_400_000)
}
