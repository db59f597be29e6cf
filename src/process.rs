//! Programs that the box runs, for every room that needs one: in a group of its own that ends with what it was run for, without a shell, and
//! without what the box's environment may hold of secrets. Knows nobody.

use std::io;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};

/// A program that runs. It is killed with all that it has started when this is dropped.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
}

/// Its ends.
pub(crate) type Pipes = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

impl Program {
    /// Starts what `command` says, with none of the box's environment but `environment` and what the command itself sets.
    ///
    /// # Errors
    /// It is not there, or the system can't run it.
    pub fn start(command: &mut Command, environment: &[&str]) -> io::Result<(Self, Pipes)> {
        let own: Vec<_> = command.as_std().get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
        let mut child = command
            .env_clear()
            .envs(environment.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .envs(own)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        child.id().into_iter().for_each(runs_as_any_other);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok((Self { child }, pipes))
    }

    /// Waits until it has ended, and says how. What it has started, and left behind, ends then too. Cancel-safe.
    ///
    /// # Errors
    /// It can't be waited for.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        if let Some(leader) = self.child.id()
            && to_be_waited_for(leader).await
        {
            signal_group(leader, libc::SIGKILL);
        }
        self.child.wait().await
    }

    /// Asks it, and all that it has started, to end (SIGTERM).
    pub fn terminate(&self) {
        if let Some(leader) = self.child.id() {
            signal_group(leader, libc::SIGTERM);
        }
    }

    /// Ends it, and all that it has started (SIGKILL).
    pub fn kill(&self) {
        if let Some(leader) = self.child.id() {
            signal_group(leader, libc::SIGKILL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that has been waited for has no number any more, its number may be another's, and what it has started was ended then.
        self.kill();
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

/// Takes from a group the priority that the box has for the sake of its audio (its nice value, see `setpriority(2)`): what a program computes must not
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
fn signal_group(leader: u32, number: libc::c_int) {
    let Ok(group) = libc::pid_t::try_from(leader) else { return };
    // SAFETY: a signal to the group of a child of ours that has not been waited for: its number can't be another's.
    unsafe {
        libc::kill(-group, number);
    }
}

/// The beginning of what is written to `from`, as text of at most `bytes_max`; what comes after is drained, so that the writer never blocks.
pub(crate) async fn beginning(from: Option<impl AsyncRead + Unpin>, bytes_max: u64) -> String {
    let mut kept = Vec::new();
    if let Some(mut from) = from {
        // What can't be read is no reason to give up what was said.
        if (&mut from).take(bytes_max).read_to_end(&mut kept).await.is_ok() {
            let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
        }
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}
