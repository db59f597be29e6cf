//! An engine that is a program: run with bounds on its time and its output.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::error::SpeechError;
use crate::process::{Pipes, Program, beginning};

/// Starts `program`, by its path or by its name in `PATH`; `install` says what to do where it is not there.
///
/// # Errors
/// It is not there, or the system can't run it.
pub(super) fn start<A: AsRef<OsStr>>(program: &Path, arguments: &[A], install: &'static str) -> Result<(Program, Pipes), SpeechError> {
    // Whatever the locale says, text goes in as UTF-8.
    let started = Program::start(Command::new(program).args(arguments).env("PYTHONUTF8", "1"), &ENVIRONMENT);
    started.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => SpeechError::EngineMissing { program: program.into(), install },
        _ => SpeechError::EngineIo { program: program.into(), source },
    })
}

/// Waits until a program has ended; how, in words, unless well. Cancel-safe.
pub(super) async fn ended(program: &mut Program) -> Result<(), String> {
    match program.ended().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(error.to_string()),
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
    let (mut running, (stdin, stdout, stderr)) = start(program, arguments, install)?;
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
    let complaint = async { Ok(beginning(stderr, STDERR_BYTES_MAX).await) };
    let ((), output, complaint) = tokio::try_join!(write, output, complaint)?;
    match ended(&mut running).await {
        Ok(()) => Ok(output),
        Err(status) => Err(SpeechError::EngineFailed { status, stderr: complaint }),
    }
}

/// As much audio as a playback holds. A text of digits or signs is read much longer than it looks.
pub(super) const SECONDS_MAX: u64 = 60;
/// Enough for a program's message.
pub(super) const STDERR_BYTES_MAX: u64 = 2_048;

/// What an engine needs to find itself, its language and its files. The box's own settings, and where its credentials are, stay with it.
const ENVIRONMENT: [&str; 10] =
    ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "ESPEAK_DATA_PATH", "PYTHONPATH"];
