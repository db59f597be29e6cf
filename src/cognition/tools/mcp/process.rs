//! A server that is a program on this machine: started without a shell and without what the box's environment holds, and ended with all
//! that it has started.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::config::Secret;

/// How a program is started.
pub(super) struct Launch {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Variables that it gets beside the few of the box.
    pub environment: BTreeMap<String, Secret>,
}

/// A program that runs. It is killed with all that it has started when this is dropped.
pub(super) struct Running {
    child: Child,
}

impl Launch {
    /// Starts it. What it writes to its standard error goes to the log of `server`.
    ///
    /// # Errors
    /// It is not there, or the system can't run it.
    pub fn start(&self, server: &str) -> Result<(Running, ChildStdout, ChildStdin), String> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .envs(self.environment.iter().map(|(name, value)| (name, value.expose())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("the program {} can't be started: {error}", self.program.display()))?;
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let running = Running { child };
        match pipes {
            (Some(stdout), Some(stdin), Some(stderr)) => {
                let secrets = self.environment.values().cloned().collect();
                tokio::spawn(log_words(server.to_owned(), stderr, secrets));
                Ok((running, stdout, stdin))
            }
            _ => Err(format!("the program {} has no input and output", self.program.display())),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has been waited for has no number any more, and its number may be another's.
        if let Some(leader) = self.child.id() {
            kill_group(leader);
        }
    }
}

#[allow(unsafe_code)]
fn kill_group(leader: u32) {
    let Ok(group) = libc::pid_t::try_from(leader) else { return };
    // SAFETY: a signal to the group of a child of ours that has not been waited for: its number can't be another's.
    unsafe {
        libc::kill(-group, libc::SIGKILL);
    }
}

/// What a program says beside the protocol, as far as a line of the log goes.
async fn log_words(server: String, stderr: ChildStderr, secrets: Vec<Secret>) {
    let mut reader = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let said = secrets.iter().fold(String::from_utf8_lossy(&line).into_owned(), |said, secret| secret.hidden_in(&said));
                tracing::debug!(server, said = said.trim_end(), "an MCP server says");
            }
        }
    }
}

/// What a program needs to find others and its user's files, and to speak the user's language.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];

/// As much of a line as one of the log holds (bytes).
const LINE_BYTES_MAX: u64 = 1_024;
