//! The port behind which tools of every kind are run.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use recado_core::ledger::{AttemptOutcome, Dispatch, Executed};

/// What carries out the attempts of one tool.
pub trait ToolPort: Send + Sync {
    /// Carries out this attempt, once, within the tool's own time, and says how it went.
    ///
    /// It marks `sent` before anything that could make the tool act leaves the box: where the future is dropped before
    /// that, the attempt provably did not execute.
    fn attempt(&self, dispatch: Dispatch, sent: Sent) -> AttemptFuture;
}

/// An attempt under way.
pub type AttemptFuture = Pin<Box<dyn Future<Output = AttemptOutcome> + Send>>;

/// Whether an attempt may have left the box.
#[derive(Debug, Clone, Default)]
pub struct Sent(Arc<AtomicBool>);

impl Sent {
    /// From here on the tool may act.
    pub fn mark(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// What is known of an attempt that ended without an answer.
    pub fn executed(&self) -> Executed {
        if self.0.load(Ordering::Acquire) { Executed::Maybe } else { Executed::No }
    }
}

/// An attempt that failed.
pub(super) fn failed(error: impl Into<String>, executed: Executed, retryable: bool) -> AttemptOutcome {
    AttemptOutcome::Failed { error: error.into(), executed, retryable, retry_after_ms: None }
}
