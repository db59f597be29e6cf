//! What a session is opened with.

use recado_core::policy::Language;

use crate::cognition::models::functions::{FunctionTool, Functions};
use crate::cognition::tools::ToolError;
use crate::config::Tool;

/// What a session is opened with. Does not change.
#[derive(Debug)]
pub struct Setup {
    pub(super) language: Language,
    pub(super) functions: Functions,
    pub(super) speculates: bool,
    pub(super) patience_ms: u64,
    instructions: String,
}

impl Setup {
    /// A session in `language`, with a model that is told `instructions` and may ask for what `tools` do, and who is on the line,
    /// where the box `verifies` callers. Where it `speculates`, an answer is
    /// begun as soon as the caller pauses. Somebody else answers, or nobody does, after `patience_ms` without a word.
    ///
    /// # Errors
    /// When a tool's schema can't be used.
    pub fn new(
        language: Language,
        instructions: String,
        tools: &[Tool],
        verifies: bool,
        speculates: bool,
        patience_ms: u64,
    ) -> Result<Self, ToolError> {
        Ok(Self { language, functions: Functions::new(tools, verifies)?, speculates, patience_ms, instructions })
    }

    /// How long a caller waits for an answer (ms).
    pub fn patience_ms(&self) -> u64 {
        self.patience_ms
    }

    /// What the model is told of its task.
    pub fn instructions(&self) -> &str {
        &self.instructions
    }

    /// What it is offered.
    pub fn offered(&self) -> &[FunctionTool] {
        self.functions.offered()
    }
}
