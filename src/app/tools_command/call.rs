//! One real attempt, by what carries out a box's attempts, and what a ledger makes of it.

use std::fmt::Write as _;
use std::time::Duration;

use recado_core::ledger::{AttemptOutcome, Executed, Input, OperationRecord, OperationState};
use recado_core::policy::{Language, Retry};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::rehearsal::{Rehearsal, Wanted};
use super::{ToolsError, duration, either, found, unless_interrupted};
use crate::app::random;
use crate::cognition::tools::{McpServers, Schemas, Sent, ToolPort, slots};
use crate::config::{Config, Tool};

/// What came of an attempt.
#[derive(Debug)]
pub struct Call {
    language: Language,
    tool: String,
    outcome: &'static str,
    record: Option<OperationRecord>,
    error: Option<String>,
    heard: Vec<String>,
    attempt_ms: u64,
    whole_ms: u64,
    inquiries: u32,
    /// Whether a box would try again.
    again: bool,
}

/// Carries out one attempt of the tool `name` under a key that nobody has used, and asks how it stands, if that can be asked, until the tool's time is over.
///
/// # Errors
/// The arguments are not what the tool takes, it can't be done twice or wants consent and `yes` is not said, it can't be used as it is configured, or
/// it was interrupted.
pub fn called(config: &Config, name: &str, arguments: &str, yes: bool) -> Result<Call, ToolsError> {
    let tool = found(config, name)?;
    let arguments: Value = serde_json::from_str(arguments).map_err(ToolsError::NotJson)?;
    Schemas::compile(std::slice::from_ref(tool))?.check(name, &arguments)?;
    let why = match (tool.idempotent, tool.confirm) {
        (false, _) => Some("is not idempotent"),
        (true, true) => Some("is done only when the caller agrees"),
        (true, false) => None,
    };
    if let Some(why) = why.filter(|_| !yes) {
        return Err(ToolsError::ForReal { name: name.to_owned(), why });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ToolsError::Runtime)?;
    runtime.block_on(unless_interrupted(carried_out(config, tool, arguments)))
}

async fn carried_out(config: &Config, tool: &Tool, arguments: Value) -> Result<Call, ToolsError> {
    let language = config.this_box.language;
    let slots = slots(config, &McpServers::new(&config.mcp)?, None, None)?;
    let Some(port) = slots.get(&tool.name).map(|slot| slot.port.clone()) else {
        return Err(ToolsError::NotAccepted("nothing carries it out".to_owned()));
    };
    // One attempt: what a box would repeat is said, and not done.
    let mut policy = tool.policy();
    policy.retry = Retry { attempts_max: 1, ..policy.retry };
    let mut rehearsal = Rehearsal::new(&tool.name, policy, language, random());
    let said = rehearsal.ask(arguments).map_err(ToolsError::NotAccepted)?;
    let began = Instant::now();
    let Some(dispatch) = rehearsal.attempt() else { return Err(ToolsError::NotAccepted("the ledger begins no attempt".to_owned())) };
    let (operation, attempt) = (dispatch.operation, dispatch.attempt);
    let outcome = port.attempt(dispatch, Sent::default()).await;
    let attempt_ms = elapsed_ms(began);
    let (word, error, again) = describe(&outcome, tool);
    let waits = matches!(outcome, AttemptOutcome::Unreachable { .. });
    rehearsal.at(attempt_ms);
    rehearsal.give(Input::Attempted { operation, attempt, outcome });
    let inquiries = if waits { 0 } else { follow(&mut rehearsal, port.as_ref(), began, tool).await };
    let mut heard: Vec<String> = rehearsal.read_back.take().into_iter().collect();
    heard.push(said);
    heard.extend(rehearsal.updates());
    heard.extend(rehearsal.told());
    let record = rehearsal.record.take();
    Ok(Call {
        language,
        tool: tool.name.clone(),
        outcome: word,
        record,
        error,
        heard,
        attempt_ms,
        whole_ms: elapsed_ms(began),
        inquiries,
        again,
    })
}

/// Asks how the operation stands whenever the ledger wants to know, until it has an end or the tool's time is over. How often.
async fn follow(rehearsal: &mut Rehearsal, port: &dyn ToolPort, began: Instant, tool: &Tool) -> u32 {
    let until = began + Duration::from_millis(tool.timeout_ms);
    let mut inquiries = 0;
    while Instant::now() < until {
        match rehearsal.wanted.pop_front() {
            Some(Wanted::Inquiry(inquiry)) => {
                let (operation, request) = (inquiry.operation, inquiry.request);
                let Ok(outcome) = timeout_at(until, port.inquire(inquiry)).await else { break };
                inquiries += 1;
                rehearsal.at(elapsed_ms(began));
                rehearsal.give(Input::Inquired { operation, request, outcome });
            }
            // Only one attempt is made here, and nothing is cancelled.
            Some(Wanted::Attempt(_) | Wanted::Cancel(_)) => {}
            None if rehearsal.closes() => break,
            None => {
                let Some(at) = rehearsal.deadline() else { break };
                let at = began + Duration::from_millis(at);
                if at >= until {
                    break;
                }
                tokio::time::sleep_until(at).await;
                rehearsal.at(elapsed_ms(began).max(1));
            }
        }
    }
    inquiries
}

/// The outcome in a word, why, and whether a box would try again.
fn describe(outcome: &AttemptOutcome, tool: &Tool) -> (&'static str, Option<String>, bool) {
    match outcome {
        AttemptOutcome::Succeeded(_) => ("succeeded", None, false),
        AttemptOutcome::Deferred => ("deferred", None, false),
        AttemptOutcome::Taken { .. } => ("taken", None, false),
        AttemptOutcome::Unreachable { reason, .. } => ("unreachable", Some(reason.clone()), true),
        AttemptOutcome::Failed { error, executed, retryable, .. } => {
            let word = if *executed == Executed::No { "failed" } else { "unknown" };
            let repeats = *retryable && (tool.idempotent || *executed == Executed::No) && tool.retry.attempts_max > 1;
            (word, Some(error.clone()), repeats)
        }
    }
}

impl Call {
    /// Whether it has been done.
    pub fn is_done(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.state == OperationState::Succeeded)
    }

    /// For people.
    pub fn text(&self) -> String {
        let t = |es, en| either(self.language, es, en);
        let mut text = String::new();
        let outcome = match self.outcome {
            "succeeded" => t("hecho", "done"),
            "deferred" => t("aceptado; el resultado vendrá por callback", "taken; the result comes by callback"),
            "taken" => t("aceptado, con nombre propio", "taken, under a name of its own"),
            "unreachable" => t("fuera de alcance: no ha salido nada", "out of reach: nothing has left"),
            "failed" => t("fallado: consta que no se hizo", "failed: it provably was not done"),
            _ => t("no se sabe si se hizo", "nobody knows whether it was done"),
        };
        let _ = writeln!(text, "{}: {outcome} ({})", self.tool, duration(self.attempt_ms));
        if let Some(error) = &self.error {
            let _ = writeln!(text, "  {}: {error}", t("motivo", "reason"));
        }
        if self.again {
            let _ = writeln!(text, "  {}", t("una caja lo intentaría otra vez", "a box would try again"));
        }
        if self.inquiries > 0 {
            let _ =
                writeln!(text, "  {}: {} ({})", t("preguntado cómo va", "asked how it stands"), self.inquiries, duration(self.whole_ms));
        }
        if let Some(record) = &self.record {
            let _ = writeln!(text, "  {}: {:?}", t("estado", "state"), record.state);
            if let Some(result) = &record.result {
                let _ = writeln!(text, "  {}: {result}", t("resultado", "result"));
            }
        }
        let _ = writeln!(text, "{}", t("Quien llama oiría:", "The caller would hear:"));
        for said in &self.heard {
            let _ = writeln!(text, "  {said}");
        }
        text
    }

    /// As one JSON object.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn json(&self) -> Result<String, ToolsError> {
        let record = self.record.as_ref();
        let call = json!({
            "tool": self.tool,
            "outcome": self.outcome,
            "error": self.error,
            "would_try_again": self.again,
            "state": record.map(|record| record.state),
            "result": record.and_then(|record| record.result.as_ref()),
            "handle": record.and_then(|record| record.handle.as_ref()),
            "heard": self.heard,
            "attempt_ms": self.attempt_ms,
            "whole_ms": self.whole_ms,
            "inquiries": self.inquiries,
        });
        Ok(serde_json::to_string_pretty(&call)? + "\n")
    }
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
