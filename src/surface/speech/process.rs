//! An engine that is a program: run with bounds on its time and its output, in a group of its own that ends with what it was run for, without a
//! shell, and without what the box's environment may hold of secrets.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::error::SpeechError;

/// A program that runs. It is killed with all that it has started when this is dropped.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
}

/// Its ends.
pub(super) type Pipes = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

impl Program {
    /// Starts `program`, by its path or by its name in `PATH`; `install` says what to do where it is not there.
    ///
    /// # Errors
    /// It is not there, or the system can't run it.
    pub fn start<A: AsRef<OsStr>>(program: &Path, arguments: &[A], install: &'static str) -> Result<(Self, Pipes), SpeechError> {
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            // Whatever the locale says, text goes in as UTF-8.
            .env("PYTHONUTF8", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => SpeechError::EngineMissing { program: program.into(), install },
                _ => SpeechError::EngineIo { program: program.into(), source },
            })?;
        child.id().into_iter().for_each(runs_as_any_other);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok((Self { child }, pipes))
    }

    /// Waits until it has ended; how, in words, unless well. What it has started, and left behind, ends then too. Cancel-safe.
    pub async fn ended(&mut self) -> Result<(), String> {
        if let Some(leader) = self.child.id()
            && to_be_waited_for(leader).await
        {
            kill_group(leader);
        }
        match self.child.wait().await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(status.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that has been waited for has no number any more, its number may be another's, and what it has started was ended then.
        if let Some(leader) = self.child.id() {
            kill_group(leader);
        }
    }
}

/// Waits until a child has ended, and leaves it to be waited for, so that its number stays its own. Whether it could be seen.
async fn to_be_waited_for(child: u32) -> bool {
    let Ok(mut endings) = signal(SignalKind::child()) else { return false };
    loop {
        match has_ended(child) {
            Ok(true) => return true,
            Ok(false) if endings.recv().await.is_some() => {}
            _ => return false,
        }
    }
}

#[allow(unsafe_code)]
fn has_ended(child: u32) -> io::Result<bool> {
    // SAFETY: all zeros are a valid `siginfo_t`, a structure of numbers; it outlives the call, which fills it in and keeps nothing. `si_pid` is
    // there to be read: `waitid` sets it, and where no child has ended it is zero.
    unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        match libc::waitid(libc::P_PID, child, &mut found, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) {
            0 => Ok(found.si_pid() != 0),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Takes from a group the priority that the box has for the sake of its audio (its nice value, see `setpriority(2)`): what computes speech must not
/// compete with that. A box that has none, or gives way to others, hands that on.
#[allow(unsafe_code)]
fn runs_as_any_other(leader: u32) {
    // SAFETY: calls with numbers only. One that fails leaves the group as it is: it has ended, or it is another's and can't be changed.
    unsafe {
        if libc::getpriority(libc::PRIO_PROCESS, 0) < 0 {
            libc::setpriority(libc::PRIO_PGRP, leader, 0);
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

/// Runs `program` once, with `text` at its input, and gives what it writes.
///
/// # Errors
/// It can't be run, fails, or writes `output_bytes_max` bytes or more.
pub(super) async fn run<A: AsRef<OsStr>>(
    program: &Path,
    arguments: &[A],
    text: &str,
    output_bytes_max: u64,
    install: &'static str,
) -> Result<Vec<u8>, SpeechError> {
    let io = |source| SpeechError::EngineIo { program: program.into(), source };
    let (mut running, (stdin, stdout, stderr)) = Program::start(program, arguments, install)?;
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that ends before it has read all says why by its exit status, not by a broken pipe.
            let _ = stdin.write_all(text.as_bytes()).await;
        }
        Ok(())
    };
    let output = async {
        let mut kept = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(output_bytes_max).read_to_end(&mut kept).await.map_err(io)?;
        }
        // More than anybody wants: it is not waited for the rest.
        if kept.len() as u64 >= output_bytes_max { Err(SpeechError::AudioTooLong { seconds_max: SECONDS_MAX }) } else { Ok(kept) }
    };
    let complaint = async { Ok(beginning(stderr).await) };
    let ((), output, complaint) = tokio::try_join!(write, output, complaint)?;
    match running.ended().await {
        Ok(()) => Ok(output),
        Err(status) => Err(SpeechError::EngineFailed { status, stderr: complaint }),
    }
}

/// The beginning of what is written to `from`, as text; what comes after is drained, so that the writer never blocks.
async fn beginning(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut kept = Vec::new();
    if let Some(mut from) = from {
        // What can't be read is no reason to give up what was said.
        if (&mut from).take(STDERR_BYTES_MAX).read_to_end(&mut kept).await.is_ok() {
            let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
        }
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

/// As much audio as a playback holds. A text of digits or signs is read much longer than it looks.
pub(super) const SECONDS_MAX: u64 = 60;
/// Enough for a program's message.
pub(super) const STDERR_BYTES_MAX: u64 = 2_048;

/// What an engine needs to find itself, its language and its files. The box's own settings, and where its credentials are, stay with it.
const ENVIRONMENT: [&str; 10] =
    ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "ESPEAK_DATA_PATH", "PYTHONPATH"];
