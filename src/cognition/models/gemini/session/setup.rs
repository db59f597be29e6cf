//! What a session is opened with.

use crate::cognition::models::functions::Functions;
use crate::cognition::models::gemini::wire::{Behavior, FunctionDeclaration, SessionSetup};
use crate::cognition::tools::ToolError;
use crate::config::{Gemini, GeminiCalls, GeminiText, Tool};

/// What a session is opened with. Does not change.
#[derive(Debug)]
pub struct Setup {
    pub(super) answer_timeout_ms: u64,
    pub(super) renew_after_ms: u64,
    pub(super) calls: GeminiCalls,
    pub(super) text: GeminiText,
    pub(super) resumption: bool,
    pub(super) functions: Functions,
    settings: SessionSetup,
}

impl Setup {
    /// A session of the service `gemini`, with a model that is told `instructions` and may ask for what `tools` do, and
    /// who is on the line, where the box `verifies` callers.
    ///
    /// # Errors
    /// When a tool's schema can't be used.
    pub fn new(gemini: &Gemini, instructions: String, tools: &[Tool], verifies: bool) -> Result<Self, ToolError> {
        let functions = Functions::new(tools, verifies)?;
        let behavior = match gemini.calls {
            GeminiCalls::NonBlocking => Behavior::NonBlocking,
            GeminiCalls::Blocking => Behavior::Blocking,
        };
        let declared = functions.offered().iter().map(|function| FunctionDeclaration {
            name: function.name.clone(),
            description: function.description.clone(),
            parameters_json_schema: function.parameters.clone(),
            behavior,
        });
        let mut settings = SessionSetup::new(gemini.whole_model(), vec![instructions, MARKED.to_owned()], declared.collect());
        if let Some(voice) = &gemini.voice {
            settings = settings.in_voice(voice);
        }
        Ok(Self {
            answer_timeout_ms: gemini.answer_timeout_ms,
            renew_after_ms: gemini.renew_after_ms,
            calls: gemini.calls,
            text: gemini.text,
            resumption: gemini.resumption,
            functions,
            settings,
        })
    }

    /// The settings of a connection that goes on with the session that `handle` is of, or begins one, which is told what went before where
    /// there is something (`has_history`).
    pub(super) fn settings(&self, handle: Option<String>, has_history: bool) -> SessionSetup {
        let seeds = has_history && handle.is_none() && self.text == GeminiText::Realtime;
        let mut settings = self.settings.clone();
        if self.resumption {
            settings = settings.resuming(handle);
        }
        if seeds { settings.with_history() } else { settings }
    }
}

/// The protocol has no words of the box's own: they come as the caller's, in these brackets.
const MARKED: &str = "What is written in square brackets is not said by the caller: it is from the telephone system that you work with. \
     Never read it aloud, and never speak of it.";
