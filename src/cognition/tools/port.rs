//! The port behind which tools of every kind are run.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use recado_core::ledger::{AttemptOutcome, CancelOutcome, CancelRequest, Dispatch, Executed, Inquiry, InquiryOutcome};

use super::breaker::Endpoint;

/// What carries out the attempts of one tool.
pub trait ToolPort: Send + Sync {
    /// Carries out this attempt, once, within the tool's own time, and says how it went.
    ///
    /// It marks `sent` before anything that could make the tool act leaves the box, and lets nothing leave where that is refused:
    /// an attempt that was ended before provably did not execute, whatever still runs of it.
    fn attempt(&self, dispatch: Dispatch, sent: Sent) -> AttemptFuture;

    /// Asks the tool to cancel an operation whose attempt has left the box, once, within the tool's own time. It may be asked
    /// again with the same request, also after a restart.
    fn cancel(&self, _request: CancelRequest) -> CancelFuture {
        Box::pin(async { CancelOutcome::Unsupported })
    }

    /// Asks the tool how an operation stands, once, within the tool's own time. It changes nothing there, and may be asked any number
    /// of times, also after a restart.
    fn inquire(&self, _inquiry: Inquiry) -> InquiryFuture {
        Box::pin(async { InquiryOutcome::Unsupported })
    }

    /// What its attempts and inquiries fail together with: while that is down, none is made. The tool alone where none is named.
    fn endpoint(&self) -> Option<Endpoint> {
        None
    }
}

/// An attempt under way.
pub type AttemptFuture = Pin<Box<dyn Future<Output = AttemptOutcome> + Send>>;

/// A cancel request under way.
pub type CancelFuture = Pin<Box<dyn Future<Output = CancelOutcome> + Send>>;

/// An inquiry under way.
pub type InquiryFuture = Pin<Box<dyn Future<Output = InquiryOutcome> + Send>>;

/// Whether an attempt has left the box, or has ended before and never will: whichever comes first is so for good.
#[derive(Debug, Clone, Default)]
pub struct Sent(Arc<State>);

#[derive(Debug, Default)]
struct State {
    left: AtomicU8,
    broken_off: AtomicBool,
}

impl Sent {
    /// From here on the tool may act. Where it is false the attempt has ended, and nothing of it may leave any more.
    #[must_use]
    pub fn mark(&self) -> bool {
        self.decide(SENT) == SENT
    }

    /// Ends an attempt that has no answer: what has not left by now never will. Says what is known of it.
    pub fn end(&self) -> Executed {
        if self.decide(ENDED) == SENT { Executed::Maybe } else { Executed::No }
    }

    /// Whether it has left.
    pub(super) fn is_marked(&self) -> bool {
        self.0.left.load(Ordering::Acquire) == SENT
    }

    /// The attempt is ended from here, because somebody wants that: what comes of it shows nothing of what carries it out.
    pub(super) fn break_off(&self) {
        self.0.broken_off.store(true, Ordering::Release);
    }

    /// Whether it was ended from here.
    pub(super) fn is_broken_off(&self) -> bool {
        self.0.broken_off.load(Ordering::Acquire)
    }

    /// What it is, from now on.
    fn decide(&self, wanted: u8) -> u8 {
        self.0.left.compare_exchange(WAITING, wanted, Ordering::AcqRel, Ordering::Acquire).map_or_else(|decided| decided, |_| wanted)
    }
}

const WAITING: u8 = 0;
const SENT: u8 = 1;
const ENDED: u8 = 2;

/// An attempt that failed.
pub(super) fn failed(error: impl Into<String>, executed: Executed, retryable: bool) -> AttemptOutcome {
    AttemptOutcome::Failed { error: error.into(), executed, retryable, retry_after_ms: None }
}

/// An inquiry that was not answered.
pub(super) fn unanswered(error: impl Into<String>, retryable: bool) -> InquiryOutcome {
    InquiryOutcome::Unanswered { error: error.into(), retryable, retry_after_ms: None }
}

/// A cancel request that failed.
pub(super) fn cancel_failed(error: impl Into<String>, retryable: bool) -> CancelOutcome {
    CancelOutcome::Failed { error: error.into(), retryable, retry_after_ms: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_either_sent_or_ended_whichever_comes_first() {
        let sent = Sent::default();
        assert!(sent.mark() && sent.mark(), "a body may be asked for more than once");
        assert_eq!(sent.end(), Executed::Maybe);
        let ended = Sent::default();
        assert_eq!(ended.end(), Executed::No);
        assert!(!ended.clone().mark());
        assert_eq!(ended.end(), Executed::No, "what was refused has not left");
    }
}
