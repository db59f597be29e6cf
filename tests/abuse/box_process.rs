//! The box as this test uses it: every wait blocks, and the log is searched as text.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado::demo::Events;
use serde_json::Value;

use crate::stage::{block_on, patiently};

/// A box that runs. It is killed when dropped.
pub struct BoxProcess {
    boxed: recado::demo::BoxProcess,
    _last_words: LastWords,
}

/// Prints the end of the log where a test fails.
struct LastWords(Arc<Events>);

impl BoxProcess {
    /// Starts a box and waits until it is ready.
    pub fn start(config: &Path) -> Self {
        let boxed = block_on(recado::demo::BoxProcess::start(PROGRAM.as_ref(), config, |_| ())).expect("the box starts");
        let last_words = LastWords(Arc::clone(&boxed.log));
        Self { boxed, _last_words: last_words }
    }

    /// Waits for a line that contains `text`.
    pub fn says(&self, text: &str) -> String {
        patiently(&format!("the box to say {text}"), || self.said(text).into_iter().next())
    }

    /// The lines so far that contain `text`.
    pub fn said(&self, text: &str) -> Vec<String> {
        self.log.all().iter().map(Value::to_string).filter(|line| line.contains(text)).collect()
    }

    /// What `/health` says.
    pub fn health(&self) -> Value {
        block_on(self.boxed.health()).expect("health is served")
    }

    /// Waits until `/health` says that it is so.
    pub fn is(&self, status: &str) -> Value {
        patiently(&format!("the box to be {status}"), || Some(self.health()).filter(|health| health["status"] == status))
    }

    /// Processor time that it has used.
    pub fn used(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).expect("it runs");
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        let ticks: u64 = after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// kill -9, as a power cut does it to a process.
    pub fn kill(self) {
        self.boxed.kill();
    }

    /// SIGTERM, and waits for its end: how it ended and how long that took.
    pub fn stops(self) -> (ExitStatus, Duration) {
        let begun = Instant::now();
        (block_on(self.boxed.stops()).expect("it stops"), begun.elapsed())
    }
}

impl Deref for BoxProcess {
    type Target = recado::demo::BoxProcess;

    fn deref(&self) -> &Self::Target {
        &self.boxed
    }
}

impl DerefMut for BoxProcess {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.boxed
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log: Vec<String> = self.0.all().iter().rev().take(60).rev().map(Value::to_string).collect();
            eprintln!("the box said at last:\n{}", log.join("\n"));
        }
    }
}

/// `recado run -c config`.
pub fn command(config: &Path) -> Command {
    recado::demo::command(PROGRAM.as_ref(), config)
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_recado");
