//! The tools that the model may use itself.
//!
//! Their attempts are not committed one by one, as those of operations are (R2): so each is idempotent, and its key follows from the operation's
//! key, the tool and the arguments. A call that is made again, in the same attempt or in a later one, is the same call.
//!
//! A result has to come with the answer, or to be had by asking how it stands: a tool that has taken a call under a name of its own is asked for it
//! while the attempt lasts. One that would call back can't: there is nobody to call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recado_core::ledger::{AttemptOutcome, Dispatch, Executed, Inquiry, InquiryOutcome};
use recado_core::{IntentKey, OperationId};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tracing::info;

use crate::cognition::language::wire::AskedCall;
use crate::cognition::models::FunctionTool;
use crate::cognition::models::transport::Backoff;
use crate::cognition::tools::error::ToolError;
use crate::cognition::tools::executor::Slot;
use crate::cognition::tools::port::{Sent, ToolPort};
use crate::cognition::tools::schema::Schemas;
use crate::cognition::tools::token::hex;
use crate::config::Tool;

/// What a model may use.
pub(super) struct OwnTools {
    offered: Vec<FunctionTool>,
    schemas: Schemas,
    ports: BTreeMap<String, Lane>,
}

/// A tool, and how many calls of it at a time.
struct Lane {
    port: Arc<dyn ToolPort>,
    free: Semaphore,
}

impl OwnTools {
    /// Those of `tools` that are `named` by the delegate `of`, carried out by the ports in `own`.
    ///
    /// # Errors
    /// There is no such tool, or its schema can't be used.
    pub fn new(of: &Tool, named: &[String], tools: &[Tool], own: &BTreeMap<String, Slot>) -> Result<Self, ToolError> {
        let (mut used, mut ports) = (Vec::new(), BTreeMap::new());
        for name in named {
            let tool = tools.iter().find(|tool| tool.name == *name && tool.idempotent);
            let (Some(tool), Some(slot)) = (tool, own.get(name)) else {
                return Err(ToolError::NotUsable { tool: of.name.clone(), used: name.clone() });
            };
            used.push(tool.clone());
            ports.insert(name.clone(), Lane { port: Arc::clone(&slot.port), free: Semaphore::new(slot.concurrency.get()) });
        }
        let offer = |tool: &Tool| FunctionTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
        };
        Ok(Self { offered: used.iter().map(offer).collect(), schemas: Schemas::compile(&used)?, ports })
    }

    /// What the model is offered.
    pub fn offered(&self) -> &[FunctionTool] {
        &self.offered
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// Carries out a call of the model's, and says what it is told of it. None where the attempt `of` was ended before: nothing leaves then.
    pub async fn call(&self, of: &Dispatch, asked: &AskedCall, sent: &Sent) -> Option<String> {
        let text = if asked.arguments.trim().is_empty() { "{}" } else { &asked.arguments };
        let arguments: Value = match serde_json::from_str(text) {
            Ok(arguments) => arguments,
            Err(error) => return Some(refused(&format!("the arguments are not JSON: {error}"))),
        };
        if let Err(wrong) = self.schemas.check(&asked.name, &arguments) {
            return Some(refused(wrong.reason()));
        }
        let Some(lane) = self.ports.get(&asked.name) else { return Some(refused("there is no such tool")) };
        let Ok(_place) = lane.free.acquire().await else { return Some(refused("the tool can't be used now")) };
        if !sent.mark() {
            return None;
        }
        let call = call(of, &asked.name, arguments);
        info!(operation_id = %of.operation, attempt = of.attempt, tool = asked.name, as_operation = %call.operation, "a larger model uses a tool");
        Some(match carry_out(&*lane.port, call).await {
            Ok(result) => fed_back(&result),
            Err(Undone { error, executed: Executed::No }) => json!({ "error": error, "done": false }).to_string(),
            Err(Undone { error, executed: Executed::Maybe }) => json!({ "error": error, "done": "nobody knows" }).to_string(),
        })
    }
}

/// The call as a tool of the box gets it. It bears an operation of its own, so that nothing that is said of it is taken for the whole.
fn call(of: &Dispatch, tool: &str, arguments: Value) -> Dispatch {
    let digest = Sha256::digest(canonical(&arguments));
    let intent_key = IntentKey(format!("{}|{tool}|{}", of.intent_key.0, hex(&digest)));
    let identifier = Sha256::digest(&intent_key.0).iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte));
    Dispatch { operation: OperationId(identifier), attempt: of.attempt, tool: tool.to_owned(), arguments, intent_key }
}

/// Why a call has no result.
struct Undone {
    error: String,
    executed: Executed,
}

/// Carries it out, again where that may help.
async fn carry_out(port: &dyn ToolPort, call: Dispatch) -> Result<Value, Undone> {
    let (mut backoff, mut tries) = (Backoff::default(), 1);
    loop {
        let (undone, retryable, retry_after_ms) = match port.attempt(call.clone(), Sent::default()).await {
            AttemptOutcome::Succeeded(result) => return Ok(result),
            AttemptOutcome::Taken { handle } => return ask_for(port, &call, handle).await,
            AttemptOutcome::Deferred => return Err(undone("its result comes later, and can't be waited for here", Executed::Maybe)),
            AttemptOutcome::Unreachable { reason, retry_after_ms } => (undone(reason, Executed::No), true, retry_after_ms),
            AttemptOutcome::Failed { error, executed, retryable, retry_after_ms } => (undone(error, executed), retryable, retry_after_ms),
        };
        if !retryable || tries == TRIES_MAX || retry_after_ms.is_some_and(|ms| ms > WAIT_MS_MAX) {
            return Err(undone);
        }
        tries += 1;
        tokio::time::sleep(backoff.next(retry_after_ms.map(Duration::from_millis))).await;
    }
}

/// Asks how a call stands that the tool has taken, until it has an end. The attempt's own time bounds it.
async fn ask_for(port: &dyn ToolPort, call: &Dispatch, handle: String) -> Result<Value, Undone> {
    let (mut backoff, mut failures) = (Backoff::default(), 0);
    for request in 1.. {
        let Dispatch { operation, attempt, tool, arguments, intent_key } = call.clone();
        let inquiry = Inquiry { operation, request, attempt, tool, arguments, intent_key, handle: Some(handle.clone()) };
        let wait_ms = match port.inquire(inquiry).await {
            InquiryOutcome::Succeeded(result) => return Ok(result),
            InquiryOutcome::Failed(error) => return Err(undone(error, Executed::No)),
            InquiryOutcome::NotExecuted => return Err(undone("the tool has never got it", Executed::No)),
            InquiryOutcome::Cancelled => return Err(undone("the tool has ended it", Executed::No)),
            InquiryOutcome::Forgotten => return Err(undone("the tool does not know it any more", Executed::Maybe)),
            InquiryOutcome::Unsupported => return Err(undone("its result comes later, and can't be asked for", Executed::Maybe)),
            InquiryOutcome::Running { again_ms } => {
                failures = 0;
                again_ms.unwrap_or(INQUIRY_MS)
            }
            InquiryOutcome::Unanswered { error, retryable, retry_after_ms } => {
                failures += 1;
                if !retryable || failures == TRIES_MAX {
                    return Err(undone(error, Executed::Maybe));
                }
                let wait = backoff.next(retry_after_ms.map(Duration::from_millis));
                u64::try_from(wait.as_millis()).unwrap_or(WAIT_MS_MAX)
            }
        };
        tokio::time::sleep(Duration::from_millis(wait_ms.clamp(INQUIRY_MS_MIN, WAIT_MS_MAX))).await;
    }
    Err(undone("it has no end", Executed::Maybe))
}

fn undone(error: impl Into<String>, executed: Executed) -> Undone {
    Undone { error: error.into(), executed }
}

/// What the model is told of a call that is not made, in words that it can correct itself by.
pub(super) fn refused(reason: &str) -> String {
    json!({ "error": reason, "done": false }).to_string()
}

/// A result as the model gets it: whole, or its beginning.
fn fed_back(result: &Value) -> String {
    let text = result.to_string();
    if text.len() <= FED_BACK_BYTES_MAX {
        return text;
    }
    let end = (0..=FED_BACK_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    json!({ "too_long": format!("the result has {} bytes, and this is its beginning", text.len()), "beginning": text.get(..end) })
        .to_string()
}

/// The same text for the same arguments, in whatever order the model writes their names.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().map(|(name, field)| (name, canonical(field))).collect();
            let fields = sorted.into_iter().map(|(name, field)| format!("{}:{field}", Value::from(name.as_str())));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// So often a call is tried that may be, and asked for without an answer in between.
const TRIES_MAX: u32 = 3;
/// A tool that wants to be left alone for longer is of no use in this attempt (ms).
const WAIT_MS_MAX: u64 = 30_000;
/// How soon it is asked again how a call stands, where the tool says nothing (ms).
const INQUIRY_MS: u64 = 2_000;
/// And at least, whatever it says (ms).
const INQUIRY_MS_MIN: u64 = 200;
/// As much as a model makes something of (bytes).
const FED_BACK_BYTES_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn outer() -> Dispatch {
        let intent_key = IntentKey("ana|ask|x|1".to_owned());
        Dispatch { operation: OperationId(7), attempt: 2, tool: "ask".to_owned(), arguments: json!({}), intent_key }
    }

    #[test]
    fn the_same_call_has_the_same_key_and_another_one_another() {
        let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let one = call(&outer(), "look_up", parsed(r#"{"a":[1,{"y":"2","x":null}],"b":"|"}"#));
        let same = call(&Dispatch { attempt: 3, ..outer() }, "look_up", parsed(r#"{"b":"|","a":[1,{"x":null,"y":"2"}]}"#));
        assert_eq!((&one.intent_key, one.operation), (&same.intent_key, same.operation));
        assert_ne!(one.operation, outer().operation, "nothing that is said of it is taken for the whole");
        assert_eq!((one.attempt, same.attempt), (2, 3));
        let other_of = Dispatch { intent_key: IntentKey("ana|ask|x|2".to_owned()), ..outer() };
        for other in [
            call(&outer(), "look_up", parsed(r#"{"a":[1,{"y":"2","x":null}],"b":"-"}"#)),
            call(&outer(), "find", one.arguments.clone()),
            call(&other_of, "look_up", one.arguments.clone()),
        ] {
            assert_ne!((&one.intent_key, one.operation), (&other.intent_key, other.operation));
        }
    }

    #[test]
    fn a_result_is_fed_back_whole_or_as_its_beginning() {
        assert_eq!(fed_back(&json!({ "at": "nine" })), r#"{"at":"nine"}"#);
        let long = fed_back(&json!({ "at": "ñ".repeat(20_000) }));
        assert!(long.len() < FED_BACK_BYTES_MAX + 1_000, "{}", long.len());
        let told: Value = serde_json::from_str(&long).unwrap();
        assert_eq!(told["too_long"], "the result has 40009 bytes, and this is its beginning");
    }
}
