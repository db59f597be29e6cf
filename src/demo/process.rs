//! The box as a process of its own: started, watched through its log, killed, started again.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;

use super::DemoError;
use super::report::Timeline;

/// A box that runs.
pub struct BoxProcess {
    child: Child,
    log: Arc<Log>,
}

/// What the box has logged, as JSON objects.
#[derive(Default)]
struct Log {
    lines: Mutex<Vec<Value>>,
    grown: Notify,
}

impl BoxProcess {
    /// Starts a box with this configuration, and waits until it is ready. Says where it takes calls.
    pub async fn start(config: &Path, log_file: &Path, timeline: &Arc<Timeline>) -> Result<(Self, SocketAddr), DemoError> {
        let program = std::env::current_exe().map_err(|error| DemoError::System { what: "this program's path", error })?;
        let mut child = Command::new(program)
            .arg("run")
            .arg("-c")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| DemoError::System { what: "the box", error })?;
        let log = Arc::new(Log::default());
        if let Some(stderr) = child.stderr.take() {
            let (log, timeline, file) = (Arc::clone(&log), Arc::clone(timeline), log_file.to_owned());
            std::thread::spawn(move || follow(stderr, &log, &timeline, &file));
        }
        let mut started = Self { child, log };
        let ready = started.seen("the box to be ready", Duration::from_secs(20), |line| line["message"] == "ready").await;
        let ready = match ready {
            Ok(line) => line,
            Err(_) => {
                started.kill();
                let last = started.log.all().last().map_or_else(|| "it said nothing".to_owned(), Value::to_string);
                return Err(DemoError::Box(last));
            }
        };
        let sip = ready["sip"].as_str().and_then(|sip| sip.parse().ok());
        sip.map(|sip| (started, sip)).ok_or_else(|| DemoError::Box("its log does not say where it listens".to_owned()))
    }

    /// Waits until the box has logged a line for which `is` holds, from its start on.
    pub async fn seen(&self, what: &str, within: Duration, is: impl Fn(&Value) -> bool) -> Result<Value, DemoError> {
        let looking = async {
            loop {
                let grown = self.log.grown.notified();
                if let Some(line) = self.log.all().iter().find(|line| is(line)) {
                    return line.clone();
                }
                grown.await;
            }
        };
        tokio::time::timeout(within, looking).await.map_err(|_| DemoError::Waited(what.to_owned()))
    }

    /// kill -9, as a power cut does it to a process.
    pub fn kill(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM, and waits for its end. Whether it ended well.
    pub async fn terminate(mut self) -> bool {
        terminate(&self.child);
        for _ in 0..100 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.success();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.kill();
        false
    }
}

impl Drop for BoxProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Log {
    fn all(&self) -> Vec<Value> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[allow(unsafe_code)]
fn terminate(child: &Child) {
    // SAFETY: a signal to a child of ours that has not been waited for: its pid can't be another's.
    unsafe {
        libc::kill(child.id() as libc::pid_t, libc::SIGTERM);
    }
}

fn follow(stderr: std::process::ChildStderr, log: &Log, timeline: &Timeline, file: &PathBuf) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).ok();
    for text in BufReader::new(stderr).lines().map_while(Result::ok) {
        if let Some(file) = &mut file {
            let _ = writeln!(file, "{text}");
        }
        let line = serde_json::from_str(&text).unwrap_or(Value::String(text));
        timeline.box_says(&line);
        log.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        log.grown.notify_waiters();
    }
}
