//! One attempt by a program on the box.
//!
//! The program is the one that the configuration names, its arguments are each one element of its `argv`, and no shell is involved. It is given
//! the operation as JSON at its input, answers at its output, and says by its exit status how it went:
//!
//! | it ends | executed | retryable | because |
//! | --- | --- | --- | --- |
//! | with 0 | yes | | its own word; what it has written is the result |
//! | with 75 | no | yes | its own word that it did nothing, and may be asked again (`EX_TEMPFAIL`, sysexits.h) |
//! | with another status | no | no | its own word that it failed |
//! | by a signal, or after its time however it ends then | maybe | yes | it broke off in the middle |
//! | by a signal because it was cancelled | no, where `on_terminate = "undone"` | no | otherwise maybe |
//! | with 0 although it was cancelled | yes, where `on_terminate = "undone"` | no | otherwise maybe: many a program ends so when it is asked to end |
//! | it could not be started | no | where the machine is short of something | |

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Fuse, FusedFuture};
use recado_core::OperationId;
use recado_core::ledger::{AttemptOutcome, CancelOutcome, CancelRequest, Dispatch, Executed};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::command_limits::Limits;
use super::error::ToolError;
use super::executor::Slot;
use super::http::idempotency_key;
use super::port::{AttemptFuture, CancelFuture, Sent, ToolPort, failed};
use super::reply::{RESULT_BYTES_MAX, result_object};
use crate::config::{END_OF_OPTIONS, OnTerminate, Piece, Tool, ToolCommand, ToolInput, ToolOutput, pieces};
use crate::outward::bounded_text;
use crate::process::{Pipes, Program};

/// A tool that is a program on the box.
#[derive(Debug)]
pub struct CommandTool {
    run: Arc<Run>,
}

/// What all attempts have in common.
#[derive(Debug)]
struct Run {
    program: PathBuf,
    arguments: Vec<Vec<Piece>>,
    input: ToolInput,
    output: ToolOutput,
    environment: BTreeMap<String, String>,
    working_dir: PathBuf,
    limits: Limits,
    timeout: Duration,
    on_terminate: OnTerminate,
    /// What runs, to be found by whoever cancels it: as many as the tool's concurrency.
    running: Mutex<BTreeMap<OperationId, Arc<Handle>>>,
}

/// How a program that runs is ended early, and whether that was so.
#[derive(Debug)]
struct Handle {
    /// Whether somebody wants it to end.
    cancelled: watch::Sender<bool>,
    /// None while it runs; then whether it was terminated before it had ended.
    terminated: watch::Sender<Option<bool>>,
}

/// Those of `tools` that are programs, ready for an [`super::Executor`].
///
/// # Errors
/// The first setting that can't be used.
pub fn commands(tools: &[Tool]) -> Result<BTreeMap<String, Slot>, ToolError> {
    let mut slots = BTreeMap::new();
    for tool in tools {
        let Some(command) = &tool.command else { continue };
        let port = Arc::new(CommandTool::new(tool, command)?);
        slots.insert(tool.name.clone(), Slot { port, concurrency: tool.concurrency });
    }
    Ok(slots)
}

impl CommandTool {
    /// The tool that is configured.
    ///
    /// # Errors
    /// The program's path or one of its arguments can't be given to a program.
    pub fn new(tool: &Tool, command: &ToolCommand) -> Result<Self, ToolError> {
        if command.arguments.iter().any(|argument| argument.contains('\0')) {
            let reason = "an argument holds a NUL".to_owned();
            return Err(ToolError::File { tool: tool.name.clone(), setting: "command.arguments", path: command.program.clone(), reason });
        }
        Ok(Self {
            run: Arc::new(Run {
                program: command.program.clone(),
                arguments: command.arguments.iter().map(|argument| pieces(argument)).collect(),
                input: command.input,
                output: command.output,
                environment: command.environment.clone(),
                working_dir: command.working_dir.clone(),
                limits: Limits::of(command),
                timeout: Duration::from_millis(tool.timeout_ms),
                on_terminate: command.on_terminate,
                running: Mutex::default(),
            }),
        })
    }
}

impl ToolPort for CommandTool {
    fn attempt(&self, dispatch: Dispatch, sent: Sent) -> AttemptFuture {
        let run = Arc::clone(&self.run);
        Box::pin(async move { run.carry_out(&dispatch, &sent).await })
    }

    fn cancel(&self, request: CancelRequest) -> CancelFuture {
        let handle = self.run.running().get(&request.operation).cloned();
        let on_terminate = self.run.on_terminate;
        Box::pin(async move {
            // It has ended, or ran before a restart: there is nobody to ask.
            let Some(handle) = handle else { return CancelOutcome::Unsupported };
            let mut terminated = handle.terminated.subscribe();
            handle.cancelled.send_replace(true);
            let ended = terminated.wait_for(Option::is_some).await.is_ok_and(|terminated| *terminated == Some(true));
            match on_terminate {
                OnTerminate::Undone if ended => CancelOutcome::Cancelled,
                // How it stands the attempt's own report says.
                OnTerminate::Undone | OnTerminate::Unknown => CancelOutcome::Unsupported,
            }
        })
    }
}

impl Run {
    fn running(&self) -> MutexGuard<'_, BTreeMap<OperationId, Arc<Handle>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn carry_out(&self, dispatch: &Dispatch, sent: &Sent) -> AttemptOutcome {
        let key = idempotency_key(&dispatch.intent_key);
        let arguments = match filled(&self.arguments, &dispatch.arguments) {
            Ok(arguments) => arguments,
            Err(reason) => return failed(reason, Executed::No, false),
        };
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .envs(&self.environment)
            .env("RECADO_OPERATION_ID", dispatch.operation.to_string())
            .env("RECADO_IDEMPOTENCY_KEY", &key)
            .current_dir(&self.working_dir);
        self.limits.confine(&mut command);
        // Whoever finds that it has left the box finds it here too.
        let handle = Arc::new(Handle { cancelled: watch::Sender::new(false), terminated: watch::Sender::new(None) });
        let _registered = Registered::new(self, dispatch.operation, &handle);
        if !sent.mark() {
            return failed("the attempt ended before it was begun", Executed::No, true);
        }
        let (program, pipes) = match Program::start(&mut command, &ENVIRONMENT) {
            Ok(started) => started,
            Err(error) => return self.not_started(&error),
        };
        let input = match self.input {
            ToolInput::Json => json!({
                "operation_id": dispatch.operation,
                "attempt": dispatch.attempt,
                "idempotency_key": key,
                "tool": dispatch.tool,
                "arguments": dispatch.arguments,
            })
            .to_string(),
            ToolInput::None => String::new(),
        };
        let ending = self.wait(program, pipes, input, &handle).await;
        let cancelled = matches!(ending.how, How::Cancelled);
        if cancelled {
            sent.break_off();
        }
        handle.terminated.send_replace(Some(cancelled));
        self.judge(dispatch, ending)
    }

    /// Waits until it has ended by itself, was cancelled, or has had its time; what it has started ends with it.
    async fn wait(&self, mut program: Program, (stdin, stdout, stderr): Pipes, input: String, handle: &Handle) -> Ending {
        let deadline = Instant::now() + self.timeout;
        let mut cancelled = handle.cancelled.subscribe();
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program that ends before it has read all says by its exit status how it went, not by a broken pipe.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let (mut output, mut complaint) = (Vec::new(), Tail::default());
        let how = {
            let talk = async { tokio::join!(write, keep(stdout, &mut output), complaint.keep(stderr)) }.fuse();
            tokio::pin!(talk);
            let mut how = tokio::select! {
                biased;
                status = program.ended() => How::Ended(status),
                _ = cancelled.wait_for(|cancelled| *cancelled) => How::Cancelled,
                () = tokio::time::sleep_until(deadline) => How::TooSlow,
                never = served(talk.as_mut()) => match never {},
            };
            if !matches!(how, How::Ended(_)) {
                program.terminate();
                let ended = tokio::select! {
                    ended = timeout(TERMINATED_WITHIN, program.ended()) => ended,
                    never = served(talk.as_mut()) => match never {},
                };
                match ended {
                    // Who says what a signal means to it says also that it has done its work all the same. Anybody else may only have heeded the
                    // signal by ending in order, and so may one that was ended for its time.
                    Ok(Ok(status)) if status.success() && matches!(how, How::Cancelled) && self.on_terminate == OnTerminate::Undone => {
                        how = How::Ended(Ok(status));
                    }
                    Ok(_) => {}
                    Err(_) => {
                        program.kill();
                        let _ = program.ended().await;
                    }
                }
            }
            // It has ended, and so has what it started: what they have written is there, and no more comes.
            if !talk.is_terminated() {
                let _ = timeout(PIPES_WITHIN, talk).await;
            }
            how
        };
        Ending { how, output, complaint: complaint.last_line() }
    }

    fn judge(&self, dispatch: &Dispatch, Ending { how, output, complaint }: Ending) -> AttemptOutcome {
        let status = match how {
            How::Ended(Ok(status)) => status,
            How::Ended(Err(error)) => return failed(format!("how the program ended is not known: {error}"), Executed::Maybe, true),
            How::TooSlow => {
                let error = format!("the program did not end within {} ms, and was terminated", self.timeout.as_millis());
                return failed(error, Executed::Maybe, true);
            }
            How::Cancelled => {
                let executed = if self.on_terminate == OnTerminate::Undone { Executed::No } else { Executed::Maybe };
                return failed("the program was terminated because it was cancelled", executed, false);
            }
        };
        tracing::debug!(operation_id = %dispatch.operation, attempt = dispatch.attempt, %status, "the program has ended");
        match status.code() {
            Some(0) => AttemptOutcome::Succeeded(self.result(dispatch, &output)),
            Some(code) => {
                let error = complaint.unwrap_or_else(|| format!("the program ended with exit code {code}"));
                failed(error, Executed::No, code == TRY_AGAIN)
            }
            None => failed(ended_by(status), Executed::Maybe, true),
        }
    }

    /// What it has written. It has done what it was asked for, whatever it says of that.
    fn result(&self, dispatch: &Dispatch, output: &[u8]) -> Value {
        let nothing = |why: &str| {
            tracing::warn!(operation_id = %dispatch.operation, tool = %dispatch.tool, "the program's result is not kept: {why}");
            json!({})
        };
        if self.output == ToolOutput::None {
            return json!({});
        }
        if output.len() > RESULT_BYTES_MAX {
            return nothing("it is larger than 1 MiB");
        }
        if output.trim_ascii().is_empty() {
            return json!({});
        }
        match self.output {
            ToolOutput::Text => result_object(String::from_utf8_lossy(output).trim().into()),
            _ => serde_json::from_slice(output).map_or_else(|error| nothing(&format!("it is not JSON: {error}")), result_object),
        }
    }

    fn not_started(&self, error: &io::Error) -> AttemptOutcome {
        let short = [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::ENFILE, libc::ETXTBSY];
        let retryable = error.raw_os_error().is_some_and(|code| short.contains(&code));
        let what = match error.kind() {
            io::ErrorKind::NotFound => {
                format!("the program {}, its interpreter, or {} is not there", self.program.display(), self.working_dir.display())
            }
            _ => format!("the program {} could not be started: {error}", self.program.display()),
        };
        failed(what, Executed::No, retryable)
    }
}

/// How a program came to its end, and what it has written until then.
struct Ending {
    how: How,
    output: Vec<u8>,
    /// The last line of its error output.
    complaint: Option<String>,
}

enum How {
    /// By itself.
    Ended(io::Result<ExitStatus>),
    /// It was terminated because somebody cancelled the operation.
    Cancelled,
    /// It was terminated because it had had its time.
    TooSlow,
}

/// An attempt is found by its operation as long as its program runs.
struct Registered<'a> {
    run: &'a Run,
    operation: OperationId,
    handle: Arc<Handle>,
}

impl<'a> Registered<'a> {
    fn new(run: &'a Run, operation: OperationId, handle: &Arc<Handle>) -> Self {
        run.running().insert(operation, Arc::clone(handle));
        Self { run, operation, handle: Arc::clone(handle) }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.run.running().remove(&self.operation);
        // Given up with the attempt: whoever waits is not left waiting.
        self.handle.terminated.send_if_modified(|terminated| {
            terminated.is_none() && {
                *terminated = Some(false);
                true
            }
        });
    }
}

/// Serves a program's ends as long as somebody waits for something else.
async fn served<T>(talk: Pin<&mut Fuse<impl Future<Output = T>>>) -> Infallible {
    // A future that is over never comes to an end again.
    talk.await;
    std::future::pending().await
}

/// The arguments of the program for these arguments of the call, or why they can't be given to a program.
fn filled(templates: &[Vec<Piece>], values: &Value) -> Result<Vec<String>, String> {
    let mut filled: Vec<String> = Vec::new();
    let mut options_over = false;
    for template in templates {
        let mut text = String::new();
        let mut absent = false;
        for piece in template {
            match piece {
                Piece::Text(part) => text.push_str(part),
                Piece::Argument(name) => match values.get(name) {
                    None | Some(Value::Null) => absent = true,
                    Some(Value::String(value)) => text.push_str(value),
                    Some(value @ (Value::Number(_) | Value::Bool(_))) => text.push_str(&value.to_string()),
                    Some(_) => return Err(format!("`{name}` is a list or an object, which can't be given to the program as one argument")),
                },
            }
        }
        // What is left out leaves out the argument that it stands in.
        if absent {
            continue;
        }
        if text.contains('\0') {
            return Err("an argument holds a NUL character, which can't be given to a program".to_owned());
        }
        if let (Some(Piece::Argument(name)), true, false) = (template.first(), text.starts_with('-'), options_over) {
            return Err(format!("`{name}` begins with `-`, and the program could take it for an option"));
        }
        options_over |= matches!(template.as_slice(), [Piece::Text(text)] if text == END_OF_OPTIONS);
        filled.push(text);
    }
    Ok(filled)
}

/// Keeps what is written, as far as a result goes and a byte more; the rest is drained, so that the program does not hang.
async fn keep(from: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    if (&mut from).take(RESULT_BYTES_MAX as u64 + 1).read_to_end(kept).await.is_ok() {
        let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    }
}

/// The end of what a program complains about.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    async fn keep(&mut self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let mut piece = [0; TAIL_BYTES_MAX];
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            self.0.extend_from_slice(piece.get(..read).unwrap_or_default());
            let over = self.0.len().saturating_sub(TAIL_BYTES_MAX);
            self.0.drain(..over);
        }
    }

    fn last_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.0);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(bounded_text(line)).filter(|line| !line.is_empty())
    }
}

fn ended_by(status: ExitStatus) -> String {
    match status.signal() {
        Some(libc::SIGXCPU) => "the program computed longer than command.cpu_seconds_max allows, and was ended".to_owned(),
        Some(number) => format!("the program was ended by signal {number}"),
        None => format!("the program ended in an unknown way: {status}"),
    }
}

/// The exit status that says that nothing was done, and that it may be asked again (`EX_TEMPFAIL`).
const TRY_AGAIN: i32 = 75;

/// What a program finds of the box's environment. Settings and the place of credentials stay with the box.
const ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "LC_ALL"];

/// How long a program that is terminated may take to put things in order before it is killed.
const TERMINATED_WITHIN: Duration = Duration::from_secs(2);

/// What was in the pipes when a program ended is read at once; one that has left its group may hold them open for ever.
const PIPES_WITHIN: Duration = Duration::from_secs(1);

/// The reason is in the last line (bytes).
const TAIL_BYTES_MAX: usize = 4_096;
