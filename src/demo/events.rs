//! What another process tells of itself, line by line, to be waited for.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;

use super::DemoError;

/// Everything that was told so far.
#[derive(Debug, Default)]
pub struct Events {
    all: Mutex<Vec<Value>>,
    grown: Notify,
}

impl Events {
    /// Something was told.
    pub fn push(&self, event: Value) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        self.grown.notify_waiters();
    }

    /// Waits for the first event, since the beginning, for which `is` holds.
    ///
    /// # Errors
    /// It did not come within [`WAIT`].
    pub async fn seen(&self, what: &str, is: impl Fn(&Value) -> bool) -> Result<Value, DemoError> {
        self.seen_times(what, 1, is).await
    }

    /// Waits for as many of them; the last one.
    ///
    /// # Errors
    /// They did not come within [`WAIT`].
    pub async fn seen_times(&self, what: &str, times: usize, is: impl Fn(&Value) -> bool) -> Result<Value, DemoError> {
        let looking = async {
            loop {
                let grown = self.grown.notified();
                if let Some(event) = self.all().into_iter().filter(|event| is(event)).nth(times.saturating_sub(1)) {
                    return event;
                }
                grown.await;
            }
        };
        patiently(what, looking).await
    }

    /// All of them.
    pub fn all(&self) -> Vec<Value> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Waits for `happens`, with patience: the machine may be busy.
///
/// # Errors
/// It did not happen within [`WAIT`].
pub async fn patiently<T>(what: &str, happens: impl Future<Output = T>) -> Result<T, DemoError> {
    tokio::time::timeout(WAIT, happens).await.map_err(|_| DemoError::Waited(what.to_owned()))
}

/// Much longer than anything that is waited for takes; the longest is evidence, which may come after fifteen seconds.
pub const WAIT: Duration = Duration::from_secs(40);
