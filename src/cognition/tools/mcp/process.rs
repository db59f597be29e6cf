//! A server that is a program on this machine: started without a shell and without what the box's environment holds, and ended with all
//! that it has started.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader};
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

/// What a program says beside the protocol, line by line.
async fn log_words(server: String, stderr: ChildStderr, secrets: Vec<Secret>) {
    let mut reader = BufReader::new(stderr);
    while let Some(said) = next_line(&mut reader, &secrets).await {
        tracing::debug!(server, said, "an MCP server says");
    }
}

/// The next line as the log may hold it. One that is too long to be looked through for secrets, the end of one of which it may be cut off in, is left out.
async fn next_line(reader: &mut (impl AsyncBufRead + Unpin), secrets: &[Secret]) -> Option<String> {
    let mut line = Vec::new();
    match (&mut *reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
        Ok(0) | Err(_) => return None,
        Ok(_) if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") => {
            to_the_end_of_line(reader).await;
            return Some(format!("(a line of more than {LINE_BYTES_MAX} bytes)"));
        }
        Ok(_) => {}
    }
    let said = secrets.iter().fold(String::from_utf8_lossy(&line).into_owned(), |said, secret| secret.hidden_in(&said));
    Some(said.trim_end().chars().take(SHOWN_CHARS_MAX).collect())
}

async fn to_the_end_of_line(reader: &mut (impl AsyncBufRead + Unpin)) {
    while let Ok(read @ [_, ..]) = reader.fill_buf().await {
        let end = read.iter().position(|byte| *byte == b'\n');
        let read = end.map_or(read.len(), |end| end + 1);
        reader.consume(read);
        if end.is_some() {
            return;
        }
    }
}

/// What a program needs to find others and its user's files, and to speak the user's language.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];

/// As much of a line as is looked through (bytes).
const LINE_BYTES_MAX: u64 = 16 * 1024;

/// As much of a line as one of the log holds.
const SHOWN_CHARS_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_secret_is_hidden_wherever_it_stands_in_what_a_program_says() {
        let secrets = ["env-value-1".into()];
        for before in [0, 1_020, 8_190, 16_380, 40_000] {
            let text = format!("{}env-value-1 and more\nnext\n", "x".repeat(before));
            // As it comes from a pipe.
            let mut reader = BufReader::with_capacity(64, text.as_bytes());
            let said = next_line(&mut reader, &secrets).await.unwrap();
            assert!(!said.contains("env") && said.len() <= SHOWN_CHARS_MAX, "{before}: {said}");
            assert_eq!(next_line(&mut reader, &secrets).await.as_deref(), Some("next"), "{before}");
            assert_eq!(next_line(&mut reader, &secrets).await, None);
        }
    }
}
