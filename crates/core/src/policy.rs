//! Policies: what a tool's owner decided beforehand. Priority and interruption come from here, never from the model.

use serde::{Deserialize, Serialize};

/// A language that the box speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Spanish.
    #[default]
    Es,
    /// English.
    En,
}

/// A text in the languages that its author wrote it in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Localised {
    /// Spanish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub es: Option<String>,
    /// English.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub en: Option<String>,
}

impl Localised {
    /// The text in `language`, or in the other one where there is no such text.
    pub fn text(&self, language: Language) -> Option<&str> {
        let (first, second) = match language {
            Language::Es => (&self.es, &self.en),
            Language::En => (&self.en, &self.es),
        };
        first.as_deref().or(second.as_deref())
    }

    /// Whether no language has a text.
    pub fn is_empty(&self) -> bool {
        self.es.is_none() && self.en.is_none()
    }
}

/// How soon a delivery wants to be heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Waits for a quiet moment.
    #[default]
    Normal,
    /// May cut something of lower priority, as far as [`CanInterrupt`] covers it.
    Urgent,
}

/// What an urgent delivery may cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CanInterrupt {
    /// Our own voice; it waits for the caller.
    #[default]
    Agent,
    /// The caller too.
    Caller,
}

/// Where a delivery's clauses stand when they ride on a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RidePosition {
    /// Before the response's own words.
    #[default]
    First,
    /// After them.
    Last,
}

/// What is done with a delivery of which nobody knows whether it was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UncertainPolicy {
    /// Told again with a hedge: "I may have told you already: …".
    #[default]
    Check,
    /// Told again as it is.
    Repeat,
    /// Not told again. What takes its place, because one of its results was taken back or corrected, tells the others with a hedge.
    Suppress,
}

/// What is done about a request that repeats one whose closing is not over.
///
/// Two requests are the same one when they agree on party, tool and the idempotency fields of their arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DuplicatePolicy {
    /// The operation that runs or has ended answers; nothing runs again.
    #[default]
    Reuse,
    /// Refused, and the model is told why.
    Reject,
    /// A request that differs outside the idempotency fields cancels the older operation, and runs when that has come to its end.
    /// One that differs in nothing is reused.
    Replace,
    /// Done again only when the caller, asked for it, has confirmed in a later turn; also after the closing has been told.
    Confirm,
}

/// Among whose requests two can be the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdempotencyScope {
    /// Those of one party; of one conversation where the party is not known.
    #[default]
    Party,
    /// Those of one conversation.
    Call,
    /// All: what anybody has asked for is not done again for another. Nobody is told what belongs to another for that.
    Global,
}

/// Who must be on the line to hear a closing; the most careful is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// The party of the conversation that asked, by the caller's word, in any of its conversations.
    #[default]
    SameParty,
    /// Only the conversation that asked.
    SameCall,
    /// That party, verified.
    VerifiedParty,
}

/// What is done with news of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgressPolicy {
    /// Nothing.
    #[default]
    Off,
    /// The model gets it as context.
    Silent,
    /// The caller hears it where the moment allows it; otherwise it is dropped.
    Say,
}

/// What is done with a closing that nobody has come to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenUnheard {
    /// It waits for its party.
    #[default]
    Wait,
    /// It is handed off to the box's webhook.
    Webhook,
}

/// What is said about an operation, as templates over the operation's `arguments` and `result`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sayings {
    /// When the operation has been accepted; promises no result.
    #[serde(default, rename = "say_accepted")]
    pub accepted: Localised,
    /// When it succeeded.
    #[serde(default, rename = "say_done")]
    pub done: Localised,
    /// When it succeeded and the long form was cut before any of it was heard.
    #[serde(default, rename = "say_short")]
    pub short: Localised,
    /// When it failed.
    #[serde(default, rename = "say_failed")]
    pub failed: Localised,
    /// When nobody knows whether it took effect.
    #[serde(default, rename = "say_unknown")]
    pub unknown: Localised,
    /// When it was cancelled before it took effect.
    #[serde(default, rename = "say_cancelled")]
    pub cancelled: Localised,
    /// When it took effect and was undone.
    #[serde(default, rename = "say_compensated")]
    pub compensated: Localised,
    /// When the cancel came too late.
    #[serde(default, rename = "say_too_late")]
    pub too_late: Localised,
    /// Before it is done, where the caller's consent is needed: what would be done, and whether it is wanted. A template over `arguments`.
    #[serde(default, rename = "say_confirm", skip_serializing_if = "Localised::is_empty")]
    pub confirm: Localised,
    /// When it waits because the tool's place can't be reached.
    #[serde(default, rename = "say_waiting", skip_serializing_if = "Localised::is_empty")]
    pub waiting: Localised,
    /// On news of progress: a template over `arguments` and `progress`.
    #[serde(default, rename = "say_progress")]
    pub progress: Localised,
}

/// How attempts that failed are repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// Attempts in all, the first included.
    pub attempts_max: u32,
    /// Wait before the second attempt (ms); doubles with each further one, with jitter of up to a half.
    pub backoff_ms: u64,
    /// The longest wait between two attempts (ms); a `Retry-After` beyond it is cut to it.
    pub backoff_ms_max: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts_max: 5, backoff_ms: 500, backoff_ms_max: 60_000 }
    }
}

/// Everything that the core needs to know about a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolPolicy {
    /// Whether the same request may safely be sent twice under one key.
    pub idempotent: bool,
    /// Which argument fields make two requests the same one; all of them when empty.
    pub idempotency_fields: Vec<String>,
    /// What it does, in its author's words: said where no better words are given.
    pub description: String,
    /// Whether what it is asked to do is read back to the caller, and done only when they agree.
    pub confirm: bool,
    /// The fields of its arguments that are neither said nor shown.
    pub private_fields: Vec<String>,
    /// Among whose requests two can be the same one.
    pub idempotency_scope: IdempotencyScope,
    /// How long a request stays the same one (ms since it was accepted), whether or not its closing is over by then; where there is none, until its
    /// closing is over and it is asked for in another turn.
    pub idempotency_window_ms: Option<u64>,
    /// What is done about a request that repeats another.
    pub duplicate: DuplicatePolicy,
    /// Whether the tool can be asked to cancel an operation that it has.
    pub cancellable: bool,
    /// Whether the tool can be asked how an operation stands that it may have, by the operation's own key. One that it has given a
    /// name of its own can be asked for in any case.
    pub inquirable: bool,
    /// The first wait between two inquiries (ms); doubles up to [`INQUIRY_MS_MAX`] where the tool does not say when to ask again.
    pub inquiry_ms: u64,
    /// How soon its closing wants to be heard.
    pub priority: Priority,
    /// What an urgent closing may cut.
    pub can_interrupt: CanInterrupt,
    /// How long its closing waits for a window of its own before it may also ride (ms).
    pub max_wait_ms: u64,
    /// Quiet before its closing is announced (ms); the box's own where there is none.
    pub min_quiet_ms: Option<u64>,
    /// Who must be on the line to hear its closing.
    pub audience: Audience,
    /// What is done with news of progress.
    pub progress: ProgressPolicy,
    /// Age after which the closing is no longer told (ms since it became ready).
    pub stale_after_ms: Option<u64>,
    /// The field of the result that holds its version, a whole number: on its topic a closing is stale once a later version is known.
    pub version_field: Option<String>,
    /// What is done with a closing that nobody has come to hear.
    pub when_unheard: WhenUnheard,
    /// How long a closing waits for somebody who may hear it before it is handed off (ms).
    pub hand_off_after_ms: u64,
    /// Whole time that the operation may take (ms since it was accepted), waits and callbacks included.
    pub deadline_ms: u64,
    /// How failed attempts are repeated.
    pub retry: Retry,
    /// What the operation is about: a newer operation of the same party and topic makes an untold closing obsolete.
    pub topic: Option<String>,
    /// Where the closing stands when it rides.
    pub ride: RidePosition,
    /// What is done when nobody knows whether the closing was heard.
    pub uncertain: UncertainPolicy,
    /// Whether the closing needs the channel's best evidence: without it, `Uncertain`.
    pub strict: bool,
    /// What is said.
    pub say: Sayings,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self {
            idempotent: false,
            idempotency_fields: Vec::new(),
            description: String::new(),
            confirm: false,
            private_fields: Vec::new(),
            idempotency_scope: IdempotencyScope::Party,
            idempotency_window_ms: None,
            duplicate: DuplicatePolicy::Reuse,
            cancellable: false,
            inquirable: false,
            inquiry_ms: INQUIRY_MS,
            priority: Priority::Normal,
            can_interrupt: CanInterrupt::Agent,
            max_wait_ms: MAX_WAIT_MS,
            min_quiet_ms: None,
            audience: Audience::SameParty,
            progress: ProgressPolicy::Off,
            stale_after_ms: None,
            version_field: None,
            when_unheard: WhenUnheard::Wait,
            hand_off_after_ms: HAND_OFF_AFTER_MS,
            deadline_ms: 300_000,
            retry: Retry::default(),
            topic: None,
            ride: RidePosition::First,
            uncertain: UncertainPolicy::Check,
            strict: false,
            say: Sayings::default(),
        }
    }
}

/// The first wait between two inquiries, by default (ms).
pub const INQUIRY_MS: u64 = 2_000;

/// The longest wait between two inquiries about what runs, unless the tool asks for a longer one (ms).
pub const INQUIRY_MS_MAX: u64 = 60_000;

/// How long a closing waits for a window of its own, by default: a caller who talks on for longer asks for an answer anyway.
pub const MAX_WAIT_MS: u64 = 10_000;

/// How long a closing waits for its party before it is handed off, by default: an hour.
pub const HAND_OFF_AFTER_MS: u64 = 3_600_000;
