//! The box as its users run it: `recado run`, watched through its log, killed or told to stop.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::stage::patiently;
use crate::tool_service::get;

/// A box that runs. It is killed when dropped.
pub struct BoxProcess {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    /// Where it takes calls.
    pub sip: SocketAddr,
    /// Where it takes callbacks and shows its health.
    pub http: SocketAddr,
}

impl BoxProcess {
    /// Starts a box and waits until it is ready.
    pub fn start(config: &Path) -> Self {
        let mut child = command(config).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the box starts");
        let log = Arc::new(Mutex::new(Vec::new()));
        let (stderr, lines) = (child.stderr.take().expect("its log"), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut started = Self { child, log, sip: nowhere, http: nowhere };
        let ready = started.says("\"message\":\"ready\"");
        let ready: Value = serde_json::from_str(&ready).expect("a line of JSON");
        let address = |name: &str| ready[name].as_str().and_then(|address| address.parse().ok()).expect("its addresses");
        (started.sip, started.http) = (address("sip"), address("http"));
        started
    }

    /// Waits for a line that contains `text`.
    pub fn says(&self, text: &str) -> String {
        patiently(&format!("the box to say {text}"), || self.said(text).into_iter().next())
    }

    /// The lines so far that contain `text`.
    pub fn said(&self, text: &str) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|line| line.contains(text)).cloned().collect()
    }

    /// What `/health` says.
    pub fn health(&self) -> Value {
        let (_, body) = get(self.http, "/health");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// Waits until `/health` says that it is so.
    pub fn is(&self, status: &str) -> Value {
        patiently(&format!("the box to be {status}"), || Some(self.health()).filter(|health| health["status"] == status))
    }

    /// Whether the process is still there.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Memory that it occupies (KiB).
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Processor time that it has used.
    pub fn used(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        let ticks: u64 = after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// kill -9, as a power cut does it to a process.
    pub fn kill(mut self) {
        self.end();
    }

    /// SIGTERM, and waits for its end: how it ended and how long that took.
    pub fn stops(mut self) -> (ExitStatus, Duration) {
        let begun = Instant::now();
        let sent = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
        assert!(sent.success());
        (patiently("the box to stop", || self.child.try_wait().expect("a child")), begun.elapsed())
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
        if std::thread::panicking() {
            let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            eprintln!("the box said at last:\n{}", log.iter().rev().take(60).rev().cloned().collect::<Vec<_>>().join("\n"));
        }
    }
}

/// `recado run -c config`.
pub fn command(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_recado"));
    command.args(["run", "-c"]).arg(config).stdin(Stdio::null());
    command
}
