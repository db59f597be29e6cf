//! What another process tells of itself, line by line, to be waited for.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;

/// Everything that was told so far.
#[derive(Default)]
pub struct Events {
    all: Mutex<Vec<Value>>,
    grown: Notify,
}

impl Events {
    pub fn push(&self, event: Value) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        self.grown.notify_waiters();
    }

    /// Waits for the first event, since the beginning, for which `is` holds.
    pub async fn seen(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        self.seen_times(what, 1, is).await
    }

    /// Waits for as many of them.
    pub async fn seen_times(&self, what: &str, times: usize, is: impl Fn(&Value) -> bool) -> Value {
        let looking = async {
            loop {
                let grown = self.grown.notified();
                if let Some(event) = self.all().iter().filter(|event| is(event)).nth(times - 1) {
                    return event.clone();
                }
                grown.await;
            }
        };
        match tokio::time::timeout(WAIT, looking).await {
            Ok(event) => event,
            Err(_) => panic!("waited in vain for {what}; the last that was told:\n{}", self.last()),
        }
    }

    /// The last ones, for people.
    fn last(&self) -> String {
        let all = self.all();
        let last: Vec<String> = all.iter().skip(all.len().saturating_sub(LAST)).map(Value::to_string).collect();
        last.join("\n")
    }

    fn all(&self) -> Vec<Value> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Waits for `happens`, with patience: the machine may be busy.
pub async fn patiently<T>(what: &str, happens: impl Future<Output = T>) -> T {
    match tokio::time::timeout(WAIT, happens).await {
        Ok(happened) => happened,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

/// Much longer than anything that is waited for takes; the longest is evidence, which comes after ten seconds.
pub const WAIT: Duration = Duration::from_secs(40);

const LAST: usize = 40;
