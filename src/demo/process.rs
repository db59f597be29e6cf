//! The box as a process of its own: started, watched through its log, killed or told to stop.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::events::{Events, WAIT, patiently};
use super::{DemoError, client};

/// A box that runs. It is killed when dropped.
#[derive(Debug)]
pub struct BoxProcess {
    child: Child,
    /// What it logs, in JSON.
    pub log: Arc<Events>,
    /// Where it takes calls.
    pub sip: SocketAddr,
    /// Where it takes callbacks and shows its health.
    pub http: SocketAddr,
}

/// `program run -c config`.
pub fn command(program: &Path, config: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["run", "-c"]).arg(config).stdin(Stdio::null());
    command
}

/// What `/health` of the box at `http` says.
///
/// # Errors
/// It does not answer, or not in JSON.
pub async fn health(http: SocketAddr) -> Result<Value, DemoError> {
    let unclear = |error: reqwest::Error| DemoError::Answer(error.to_string());
    let answer = client()?.get(format!("http://{http}/health")).timeout(WAIT).send().await.map_err(unclear)?;
    answer.json().await.map_err(unclear)
}

impl BoxProcess {
    /// Starts a box and waits until it is ready. Its log is kept beside its configuration, and each line of it given to `told`.
    ///
    /// # Errors
    /// It did not start, or did not become ready.
    pub async fn start(program: &Path, config: &Path, told: impl Fn(&Value) + Send + 'static) -> Result<Self, DemoError> {
        let mut command = command(program, config);
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(|error| DemoError::System { what: "the box", error })?;
        let log = Arc::new(Events::default());
        if let Some(stderr) = child.stderr.take() {
            let (log, file) = (Arc::clone(&log), config.with_extension("log"));
            std::thread::spawn(move || follow(stderr, &file, &log, told));
        }
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut started = Self { child, log, sip: nowhere, http: nowhere };
        let Ok(ready) = started.log.seen("the box to be ready", |line| line["message"] == "ready").await else {
            let last = started.log.all().pop().map_or_else(|| "it said nothing".to_owned(), |line| line.to_string());
            return Err(DemoError::Box(last));
        };
        let address = |name: &str| ready[name].as_str().and_then(|address| address.parse().ok());
        let unsaid = || DemoError::Box("its log does not say where it listens".to_owned());
        (started.sip, started.http) = (address("sip").ok_or_else(unsaid)?, address("http").ok_or_else(unsaid)?);
        Ok(started)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Memory that it occupies (KiB), while it runs.
    pub fn resident_kib(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?.parse().ok()
    }

    /// Whether the process is still there.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// kill -9, as a power cut does it to a process.
    pub fn kill(mut self) {
        self.end();
    }

    /// SIGTERM, and waits for its end: how it ended.
    ///
    /// # Errors
    /// It did not end; it is killed then.
    pub async fn stops(mut self) -> Result<ExitStatus, DemoError> {
        terminate(&self.child);
        let ends = async {
            loop {
                match self.child.try_wait() {
                    Ok(None) => tokio::time::sleep(POLL).await,
                    Ok(Some(status)) => return Ok(status),
                    Err(error) => return Err(DemoError::System { what: "the box's end", error }),
                }
            }
        };
        patiently("the box to stop", ends).await?
    }

    /// What `/health` says.
    ///
    /// # Errors
    /// It does not answer, or not in JSON.
    pub async fn health(&self) -> Result<Value, DemoError> {
        health(self.http).await
    }

    /// Waits until no call is left.
    ///
    /// # Errors
    /// There is always one left.
    pub async fn is_idle(&self) -> Result<(), DemoError> {
        let idle = async {
            while self.health().await?["calls"] != 0 {
                tokio::time::sleep(POLL).await;
            }
            Ok(())
        };
        patiently("the box to be idle", idle).await?
    }

    fn end(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for BoxProcess {
    fn drop(&mut self) {
        self.end();
    }
}

#[allow(unsafe_code)]
fn terminate(child: &Child) {
    // SAFETY: a signal to a child of ours that has not been waited for: its pid can't be another's.
    unsafe {
        libc::kill(child.id() as libc::pid_t, libc::SIGTERM);
    }
}

fn follow(stderr: ChildStderr, file: &PathBuf, log: &Events, told: impl Fn(&Value)) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).ok();
    for text in BufReader::new(stderr).lines().map_while(Result::ok) {
        if let Some(file) = &mut file {
            let _ = writeln!(file, "{text}");
        }
        let line = serde_json::from_str(&text).unwrap_or(Value::String(text));
        told(&line);
        log.push(line);
    }
}

/// Between two looks at what can only be looked at.
const POLL: Duration = Duration::from_millis(50);
