//! The box as its users run it: `recado run`, watched through its log, killed or told to stop.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;

use serde_json::Value;

use super::events::{Events, WAIT, patiently};

/// A box that runs. It is killed when dropped.
pub struct BoxProcess {
    child: Child,
    pub log: Arc<Events>,
    /// Where it takes calls.
    pub sip: SocketAddr,
    /// Where it takes callbacks and shows its health.
    pub http: SocketAddr,
}

impl BoxProcess {
    /// Starts a box and waits until it is ready. Its log is kept beside its configuration.
    pub async fn start(config: &Path) -> Self {
        let mut child = command(config, &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the box starts");
        let log = Arc::new(Events::default());
        let stderr = child.stderr.take().expect("its log");
        let (events, file) = (Arc::clone(&log), config.with_extension("log"));
        std::thread::spawn(move || follow(stderr, &events, &file));
        let ready = log.seen("the box to be ready", |line| line["message"] == "ready").await;
        let address = |name: &str| ready[name].as_str().and_then(|address| address.parse().ok()).expect("its addresses");
        Self { child, log, sip: address("sip"), http: address("http") }
    }

    /// kill -9, as a power cut does it to a process.
    pub fn kill(mut self) {
        self.end();
    }

    /// SIGTERM.
    pub async fn stops(mut self) -> ExitStatus {
        let killed = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
        assert!(killed.success());
        patiently("the box to stop", async {
            loop {
                if let Some(status) = self.child.try_wait().expect("a child") {
                    return status;
                }
                tokio::time::sleep(POLL).await;
            }
        })
        .await
    }

    /// What `/health` says.
    pub async fn health(&self) -> Value {
        let answer = super::tool_service::client().get(format!("http://{}/health", self.http)).timeout(WAIT).send().await;
        let text = answer.expect("health is served").text().await.expect("a body");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Waits until no call is left.
    pub async fn is_idle(&self) {
        patiently("the box to be idle", async {
            while self.health().await["calls"] != 0 {
                tokio::time::sleep(POLL).await;
            }
        })
        .await;
    }

    /// Memory that it occupies (KiB).
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
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

/// `recado run -c config`, with further flags.
pub fn command(config: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_recado"));
    command.args(["run", "-c"]).arg(config).args(flags).stdin(Stdio::null());
    command
}

fn follow(stderr: ChildStderr, log: &Events, file: &Path) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).expect("a log file");
    for text in BufReader::new(stderr).lines().map_while(Result::ok) {
        writeln!(file, "{text}").expect("written");
        log.push(serde_json::from_str(&text).unwrap_or(Value::String(text)));
    }
}

/// Between two looks at what can only be looked at.
const POLL: std::time::Duration = std::time::Duration::from_millis(50);
