//! The port behind which tools of every kind are run.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use recado_core::ledger::{AttemptOutcome, CancelOutcome, CancelRequest, Dispatch, Executed};

/// What carries out the attempts of one tool.
pub trait ToolPort: Send + Sync {
    /// Carries out this attempt, once, within the tool's own time, and says how it went.
    ///
    /// It marks `sent` before anything that could make the tool act leaves the box: where the future is dropped before
    /// that, the attempt provably did not execute.
    fn attempt(&self, dispatch: Dispatch, sent: Sent) -> AttemptFuture;

    /// Asks the tool to cancel an operation whose attempt has left the box, once, within the tool's own time. It may be asked
    /// again with the same request, also after a restart.
    fn cancel(&self, _request: CancelRequest) -> CancelFuture {
        Box::pin(async { CancelOutcome::Unsupported })
    }
}

/// An attempt under way.
pub type AttemptFuture = Pin<Box<dyn Future<Output = AttemptOutcome> + Send>>;

/// A cancel request under way.
pub type CancelFuture = Pin<Box<dyn Future<Output = CancelOutcome> + Send>>;

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

/// A cancel request that failed.
pub(super) fn cancel_failed(error: impl Into<String>, retryable: bool) -> CancelOutcome {
    CancelOutcome::Failed { error: error.into(), retryable, retry_after_ms: None }
}
