//! A server that is a program on this machine: started without a shell and without what the box's environment holds, and ended with all
//! that it has started.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

use super::super::command_limits::Rank;
use crate::config::Secret;
use crate::process::Program;

/// How a program is started.
pub(super) struct Launch {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Variables that it gets beside the few of the box.
    pub environment: BTreeMap<String, Secret>,
}

/// A program that runs, waited for by a task of its own: as soon as it ends, what it has started ends too. It is killed with all that when this is
/// dropped.
pub(super) struct Running {
    _waits: JoinSet<()>,
}

impl Launch {
    /// Starts it. What it writes to its standard error goes to the log of `server`.
    ///
    /// # Errors
    /// It is not there, or the system can't run it.
    pub fn start(&self, server: &str) -> Result<(Running, ChildStdout, ChildStdin), String> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value.expose())));
        Rank::of_anybody().confine(&mut command);
        let started = Program::start(&mut command, &INHERITED);
        let (mut program, pipes) = started.map_err(|error| format!("the program {} can't be started: {error}", self.program.display()))?;
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(format!("the program {} has no input and output", self.program.display()));
        };
        let secrets = self.environment.values().cloned().collect();
        tokio::spawn(log_words(server.to_owned(), stderr, secrets));
        let (mut waits, server) = (JoinSet::new(), server.to_owned());
        waits.spawn(async move {
            match program.ended().await {
                Ok(status) => tracing::info!(server, %status, "the program of an MCP server has ended"),
                Err(error) => tracing::warn!(server, %error, "the program of an MCP server can't be waited for"),
            }
        });
        Ok((Running { _waits: waits }, stdout, stdin))
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
    use std::time::Duration;

    use super::*;

    /// A program that says who it is and who it has started, and goes on when it is written to.
    fn script(then: &str) -> Launch {
        let script = format!("sleep 1000 & echo $$ $!; read line; {then}");
        Launch { program: "/bin/sh".into(), arguments: vec!["-c".to_owned(), script], environment: BTreeMap::new() }
    }

    async fn started(launch: &Launch) -> (Running, [String; 2], ChildStdin) {
        let (running, stdout, stdin) = launch.start("office").unwrap();
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await.unwrap();
        let mut numbers = line.split_whitespace().map(str::to_owned);
        (running, [numbers.next().unwrap(), numbers.next().unwrap()], stdin)
    }

    /// Waits until neither runs, nor waits to be waited for.
    async fn are_gone(processes: &[String]) {
        let runs = |process: &String| {
            let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            // One that has no parent left is whoever's it is.
            !status.is_empty() && !status.contains(") Z 1 ")
        };
        let gone = async {
            while processes.iter().any(runs) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap();
    }

    #[tokio::test]
    async fn a_program_that_ends_is_waited_for_at_once_and_leaves_nothing_behind() {
        let (_running, processes, stdin) = started(&script("exit 3")).await;
        drop(stdin);
        are_gone(&processes).await;
    }

    #[tokio::test]
    async fn a_program_that_is_not_needed_any_more_ends_with_what_it_has_started() {
        let (running, processes, _stdin) = started(&script("read line")).await;
        drop(running);
        are_gone(&processes).await;
    }

    #[tokio::test]
    async fn a_program_has_no_right_to_what_the_box_has_for_its_audio() {
        let (_running, [process, _], _stdin) = started(&script("read line")).await;
        let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
        for what in ["Max realtime priority", "Max core file size"] {
            let line = limits.lines().find_map(|line| line.strip_prefix(what)).unwrap();
            assert_eq!(line.split_whitespace().take(2).collect::<Vec<_>>(), ["0", "0"], "{what}");
        }
    }

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
