//! A tool that is a larger model: a hard question goes to it over the OpenAI interface, and its answer is the operation's result.
//!
//! Asking is not acting: until the model calls a tool of its own, an attempt has done nothing that could have to be undone. So it counts as *sent*
//! ([`Sent`]) only from its first such call on. Before that it is recalled by giving it up, which drops its connection; it fails as what
//! provably did not execute; and a box that stops gives it up in the same way. Afterwards nobody knows, and since all that it may use is idempotent,
//! it may be attempted again: each call goes out under a key that follows from the operation's, the tool and the arguments, so that its effect is
//! there once, however often the model makes it.
//!
//! * `attempt`: one attempt, round by round: the model is asked, uses tools, and is asked again with what came of them.
//! * `answer`: what comes of one request, and how far it is.
//! * `own_tools`: what the model may use.
//! * `words`: what it is told.

mod answer;
mod attempt;
mod own_tools;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recado_core::ledger::{CancelOutcome, CancelRequest, Dispatch, Input};
use recado_core::policy::Language;
use reqwest::Url;
use tokio::sync::mpsc;

use self::attempt::Model;
use self::own_tools::OwnTools;
use super::breaker::Endpoint;
use super::error::ToolError;
use super::executor::Slot;
use super::port::{AttemptFuture, CancelFuture, Sent, ToolPort};
use crate::cognition::language::http;
use crate::config::Tool;

/// Those of `tools` that are larger models, ready for an [`super::Executor`]. Reads the keys of their services.
///
/// What they may use is in `own`: ports without an address for callbacks, for a result that comes back so would be taken for the whole operation's.
/// How far each attempt is goes to `reports`, where there is room.
///
/// # Errors
/// What of their settings can't be used.
pub fn delegates(
    tools: &[Tool],
    language: Language,
    own: &BTreeMap<String, Slot>,
    reports: Option<&mpsc::Sender<Input>>,
) -> Result<BTreeMap<String, Slot>, ToolError> {
    let mut slots = BTreeMap::new();
    for tool in tools {
        let Some(service) = &tool.delegate else { continue };
        let timeout = Duration::from_millis(tool.timeout_ms);
        let asked = http::Language::of(&service.part(tool.timeout_ms), service.language_model());
        let model = Model {
            asked: asked.map_err(|error| ToolError::Delegate { tool: tool.name.clone(), error })?,
            own: OwnTools::new(tool, &service.tools, tools, own)?,
            language,
            instructions: service.instructions.clone(),
            question: service.question.clone(),
            rounds_max: service.rounds_max,
            timeout,
            reports: reports.cloned(),
        };
        let endpoint = Url::parse(&service.url).ok().map(|url| Endpoint::at(&url));
        let delegate = Delegate { model: Arc::new(model), endpoint };
        slots.insert(tool.name.clone(), Slot { port: Arc::new(delegate), concurrency: tool.concurrency });
    }
    Ok(slots)
}

/// A larger model.
struct Delegate {
    model: Arc<Model>,
    /// Its service.
    endpoint: Option<Endpoint>,
}

impl ToolPort for Delegate {
    fn attempt(&self, dispatch: Dispatch, sent: Sent) -> AttemptFuture {
        let model = Arc::clone(&self.model);
        Box::pin(async move { model.attempt(dispatch, sent).await })
    }

    /// An attempt that has done nothing was recalled before anybody is asked. What is left has used a tool, or is of a time before a restart.
    fn cancel(&self, _request: CancelRequest) -> CancelFuture {
        // One that has no tools has never done anything.
        let outcome = if self.model.own.is_empty() { CancelOutcome::Cancelled } else { CancelOutcome::Unsupported };
        Box::pin(async { outcome })
    }

    fn endpoint(&self) -> Option<Endpoint> {
        self.endpoint.clone()
    }
}
