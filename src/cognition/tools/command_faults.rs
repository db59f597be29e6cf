//! What programs do that are tools, and what comes of it: real programs, run as a box runs them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use recado_core::ledger::{AttemptOutcome, CancelOutcome, CancelRequest, Executed, Input};
use serde_json::{Value, json};

use super::breaker::FAULTS_MAX;
use super::command::CommandTool;
use super::http_faults::{dispatch, expect};
use super::port::{Sent, ToolPort};
use super::{Executor, commands};
use crate::config::Tool;

/// A directory with a program in it.
struct Room(tempfile::TempDir);

impl Room {
    fn with(script: &str) -> Self {
        let room = Self(tempfile::tempdir().unwrap());
        let text = room.0.path().join("text");
        fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
        // A file that this process has had open for writing can't be run while another thread's new process holds it open.
        assert!(std::process::Command::new("cp").arg(&text).arg(room.path("tool")).status().unwrap().success());
        room
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The tool, with `more` in its `command` table.
    fn tool(&self, more: Value) -> Tool {
        let mut command = json!({ "program": self.path("tool"), "working_dir": self.0.path() });
        for (key, value) in more.as_object().unwrap() {
            command[key] = value.clone();
        }
        serde_json::from_value(json!({ "name": "book_table", "timeout_ms": 60_000, "command": command })).unwrap()
    }

    fn port(&self, more: Value) -> CommandTool {
        port(&self.tool(more))
    }

    async fn attempt(&self, more: Value) -> AttemptOutcome {
        self.port(more).attempt(dispatch(1), Sent::default()).await
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

fn port(tool: &Tool) -> CommandTool {
    CommandTool::new(tool, tool.command.as_ref().unwrap()).unwrap()
}

/// Waits for an event of the world outside: it comes, or the test fails after a minute.
async fn until(holds: impl Fn() -> bool) {
    let waits = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waits).await.expect("it holds within a minute");
}

fn cancel_of(attempt: u32) -> CancelRequest {
    let of = dispatch(attempt);
    CancelRequest { operation: of.operation, request: 1, tool: of.tool, arguments: of.arguments, intent_key: of.intent_key, handle: None }
}

#[tokio::test]
async fn a_program_gets_the_operation_at_its_input_and_its_output_is_the_result() {
    let room = Room::with("cat > given; echo '{\"at\": \"21:30\"}'");
    assert_eq!(room.attempt(json!({})).await, AttemptOutcome::Succeeded(json!({ "at": "21:30" })));
    let given: Value = serde_json::from_str(&room.read("given")).unwrap();
    assert_eq!((&given["attempt"], &given["tool"], &given["arguments"]["people"]), (&json!(1), &json!("book_table"), &json!(4)));
    assert_eq!(given["operation_id"], json!(dispatch(1).operation));
    assert_eq!(given["idempotency_key"].as_str().unwrap().len(), 64);
    let nothing = Room::with("cat > given");
    assert_eq!(nothing.attempt(json!({ "input": "none" })).await, AttemptOutcome::Succeeded(json!({})));
    assert_eq!(nothing.read("given"), "");
}

#[tokio::test]
async fn what_is_written_is_read_as_it_is_said_to_be() {
    for (output, script, result) in [
        ("json", "echo 7", json!({ "value": 7 })),
        ("json", "true", json!({})),
        ("json", "echo done", json!({})),
        ("text", "echo '  two tables  '", json!({ "value": "two tables" })),
        ("none", "echo '{\"a\": 1}'", json!({})),
        ("text", "head -c 3000000 /dev/zero", json!({})),
    ] {
        let room = Room::with(script);
        assert_eq!(room.attempt(json!({ "output": output })).await, AttemptOutcome::Succeeded(result), "{output}: {script}");
    }
}

#[tokio::test]
async fn an_exit_status_is_the_programs_own_word_and_a_signal_is_nobodys() {
    for (script, executed, retryable, words) in [
        ("echo 'line one' >&2; echo 'no table left' >&2; echo >&2; exit 1", Executed::No, false, "no table left"),
        ("exit 3", Executed::No, false, "exit code 3"),
        ("echo 'the bus is busy' >&2; exit 75", Executed::No, true, "the bus is busy"),
        ("kill -9 $$", Executed::Maybe, true, "signal 9"),
        ("head -c 2000000 /dev/zero | tr '\\0' 'x' >&2; echo >&2; echo last >&2; exit 2", Executed::No, false, "last"),
    ] {
        expect(&Room::with(script).attempt(json!({})).await, executed, retryable, None, words);
    }
}

#[tokio::test]
async fn a_program_that_cannot_be_started_has_done_nothing() {
    let room = Room::with("true");
    expect(&room.attempt(json!({ "program": "/nonexistent/tool" })).await, Executed::No, false, None, "/nonexistent/tool");
    expect(&room.attempt(json!({ "working_dir": "/nonexistent" })).await, Executed::No, false, None, "/nonexistent");
    fs::write(room.path("plain"), "text").unwrap();
    expect(&room.attempt(json!({ "program": room.path("plain") })).await, Executed::No, false, None, "could not be started");
}

#[tokio::test]
async fn each_argument_is_one_whatever_is_in_it_and_none_becomes_an_option() {
    let room = Room::with("cat > /dev/null; for a in \"$@\"; do printf '[%s]' \"$a\"; done > argv");
    let run = |arguments: Value, values: Value| {
        let port = room.port(json!({ "arguments": arguments }));
        async move { port.attempt(recado_core::ledger::Dispatch { arguments: values, ..dispatch(1) }, Sent::default()).await }
    };
    let values = json!({ "door": "a b; rm -rf / $(id) `id` '\"*{arguments.n}\n", "n": 4, "open": true, "empty": "" });
    let arguments = json!(["--door={arguments.door}", "{arguments.n}", "{arguments.open}", "{arguments.empty}", "{arguments.gone}", "{x}"]);
    assert_eq!(run(arguments, values).await, AttemptOutcome::Succeeded(json!({})));
    assert_eq!(room.read("argv"), "[--door=a b; rm -rf / $(id) `id` '\"*{arguments.n}\n][4][true][][{x}]");
    for (arguments, allowed) in [
        (json!(["{arguments.door}"]), false),
        (json!(["--door", "{arguments.door}"]), false),
        (json!(["{arguments.door}.txt"]), false),
        (json!(["--door={arguments.door}"]), true),
        (json!(["--", "{arguments.door}"]), true),
        (json!(["--", "x", "{arguments.door}"]), true),
    ] {
        fs::remove_file(room.path("argv")).unwrap_or_default();
        let outcome = run(arguments.clone(), json!({ "door": "--config=/etc/shadow" })).await;
        if allowed {
            assert_eq!(outcome, AttemptOutcome::Succeeded(json!({})), "{arguments}");
        } else {
            expect(&outcome, Executed::No, false, None, "`door` begins with `-`");
        }
        assert_eq!(room.path("argv").exists(), allowed, "{arguments}");
    }
    // A value can't bring the end of the options with it.
    let outcome = run(json!(["{arguments.a}", "{arguments.b}"]), json!({ "a": "--", "b": "--x" })).await;
    expect(&outcome, Executed::No, false, None, "`a` begins with `-`");
    for (value, words) in [(json!(["a"]), "is a list or an object"), (json!("a\0b"), "NUL")] {
        expect(&run(json!(["--d={arguments.door}"]), json!({ "door": value })).await, Executed::No, false, None, words);
    }
}

#[tokio::test]
async fn a_program_finds_nothing_of_the_boxs_environment_files_and_priority() {
    // Descriptors that are not closed by themselves when another program begins.
    let open = std::fs::File::open("/dev/null").unwrap();
    let leaks = kept_open(&open);
    let room = Room::with(
        "cat > /dev/null; env | cut -d= -f1 | sort > names; ls /proc/$$/fd > open; cut -d' ' -f19,41 /proc/$$/stat > priority; ulimit -a > limits",
    );
    let more = json!({ "environment": { "DOOR_BUS": "/dev/ttyUSB0" }, "open_files_max": 64, "cpu_seconds_max": 7, "memory_bytes_max": 1_073_741_824 });
    assert_eq!(room.attempt(more).await, AttemptOutcome::Succeeded(json!({})));
    let allowed =
        ["DOOR_BUS", "HOME", "LANG", "LC_ALL", "OLDPWD", "PATH", "PWD", "RECADO_IDEMPOTENCY_KEY", "RECADO_OPERATION_ID", "SHLVL", "_"];
    let names = room.read("names");
    assert!(
        names.lines().all(|name| allowed.contains(&name)) && names.contains("DOOR_BUS") && names.contains("RECADO_OPERATION_ID"),
        "{names}"
    );
    assert!(!room.read("open").lines().any(|number| number == leaks.to_string()), "{} is open: {}", leaks, room.read("open"));
    assert!(room.read("priority").trim().ends_with(" 0"), "SCHED_OTHER: {}", room.read("priority"));
    let limits = room.read("limits");
    let holds = |word: &str, value: &str| limits.lines().any(|line| line.contains(word) && line.trim_end().ends_with(value));
    assert!(holds("nofile", " 64") || holds("open files", " 64"), "{limits}");
    assert!(holds("time", " 7") || holds("cpu time", " 7"), "{limits}");
    assert!(limits.lines().any(|line| line.trim_end().ends_with(" 1048576")), "{limits}");
    close(leaks);
}

#[tokio::test]
async fn a_program_that_takes_more_than_it_may_is_ended_and_nobody_knows() {
    let room = Room::with("while :; do :; done");
    expect(&room.attempt(json!({ "cpu_seconds_max": 1 })).await, Executed::Maybe, true, None, "cpu_seconds_max");
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_ended_with_all_that_it_has_started() {
    let room = Room::with("trap '' TERM; sleep 600 & echo $! > child; echo $$ > own; wait; wait; sleep 600");
    let mut tool = room.tool(json!({}));
    tool.timeout_ms = 500;
    expect(&port(&tool).attempt(dispatch(1), Sent::default()).await, Executed::Maybe, true, None, "within 500 ms");
    for name in ["child", "own"] {
        gone(room.read(name).trim()).await;
    }
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it_and_is_not_waited_for() {
    let room = Room::with("cat > /dev/null; sleep 600 & echo $! > child; echo '{\"id\": 1}'");
    assert_eq!(room.attempt(json!({})).await, AttemptOutcome::Succeeded(json!({ "id": 1 })));
    gone(room.read("child").trim()).await;
}

#[tokio::test]
async fn an_attempt_that_is_given_up_takes_its_program_with_it() {
    let room = Room::with("echo $$ > own.new; mv own.new own; sleep 600");
    let port = room.port(json!({}));
    let attempt = tokio::spawn(port.attempt(dispatch(1), Sent::default()));
    until(|| room.path("own").exists()).await;
    attempt.abort();
    assert!(attempt.await.unwrap_err().is_cancelled());
    gone(room.read("own").trim()).await;
    assert_eq!(port.cancel(cancel_of(1)).await, CancelOutcome::Unsupported, "there is nothing to be cancelled any more");
}

#[tokio::test]
async fn one_that_ended_before_it_was_begun_is_never_started() {
    let room = Room::with("touch ran");
    let sent = Sent::default();
    assert_eq!(sent.end(), Executed::No);
    expect(&room.port(json!({})).attempt(dispatch(1), sent).await, Executed::No, true, None, "before it was begun");
    assert!(!room.path("ran").exists());
}

#[tokio::test]
async fn a_cancelled_program_is_terminated_and_what_that_means_its_table_says() {
    for (on_terminate, cancelled, executed) in
        [("undone", CancelOutcome::Cancelled, Executed::No), ("unknown", CancelOutcome::Unsupported, Executed::Maybe)]
    {
        let room = Room::with("trap 'touch undone; exit 1' TERM; touch begun; while :; do sleep 0.01; done");
        let port = Arc::new(room.port(json!({ "on_terminate": on_terminate })));
        let attempt = tokio::spawn(port.attempt(dispatch(1), Sent::default()));
        until(|| room.path("begun").exists()).await;
        assert_eq!(port.cancel(cancel_of(1)).await, cancelled);
        expect(&attempt.await.unwrap(), executed, false, None, "it was cancelled");
        assert!(room.path("undone").exists(), "it was asked to end, and could put things in order");
    }
}

#[tokio::test]
async fn a_program_that_ends_well_although_it_is_cancelled_has_done_it() {
    let room = Room::with("trap 'echo 7; exit 0' TERM; touch begun; while :; do sleep 0.01; done");
    let port = room.port(json!({ "on_terminate": "undone" }));
    let attempt = tokio::spawn(port.attempt(dispatch(1), Sent::default()));
    until(|| room.path("begun").exists()).await;
    assert_eq!(port.cancel(cancel_of(1)).await, CancelOutcome::Unsupported);
    assert_eq!(attempt.await.unwrap(), AttemptOutcome::Succeeded(json!({ "value": 7 })));
}

#[tokio::test]
async fn a_cancel_finds_a_program_from_the_moment_that_its_attempt_has_left() {
    let room = Room::with("while :; do sleep 0.01; done");
    let port = Arc::new(room.port(json!({ "on_terminate": "undone" })));
    let sent = Sent::default();
    let (seen, canceller) = (sent.clone(), port.clone());
    let runtime = tokio::runtime::Handle::current();
    // On a thread of its own: the program is started without a pause for others.
    let cancel = std::thread::spawn(move || {
        while !seen.is_marked() {
            std::hint::spin_loop();
        }
        let asked = canceller.cancel(cancel_of(1));
        runtime.block_on(asked)
    });
    let outcome = port.attempt(dispatch(1), sent).await;
    assert_eq!(tokio::task::spawn_blocking(move || cancel.join().unwrap()).await.unwrap(), CancelOutcome::Cancelled);
    expect(&outcome, Executed::No, false, None, "it was cancelled");
}

#[tokio::test]
async fn one_that_ends_in_order_when_it_is_asked_to_end_has_not_said_that_it_is_done() {
    let room = Room::with("trap 'exit 0' TERM; touch begun; while :; do sleep 0.01; done");
    for on_terminate in ["undone", "unknown"] {
        let mut tool = room.tool(json!({ "on_terminate": on_terminate }));
        // Long enough for a shell to set its trap; where it was not, the outcome is the same.
        tool.timeout_ms = 1_000;
        expect(&port(&tool).attempt(dispatch(1), Sent::default()).await, Executed::Maybe, true, None, "within 1000 ms");
    }
    fs::remove_file(room.path("begun")).unwrap_or_default();
    let port = room.port(json!({ "on_terminate": "unknown" }));
    let attempt = tokio::spawn(port.attempt(dispatch(1), Sent::default()));
    until(|| room.path("begun").exists()).await;
    assert_eq!(port.cancel(cancel_of(1)).await, CancelOutcome::Unsupported);
    expect(&attempt.await.unwrap(), Executed::Maybe, false, None, "it was cancelled");
}

#[tokio::test]
async fn an_executor_runs_programs() {
    let room = Room::with("cat > /dev/null; echo '{\"id\": 3}'");
    let (sender, mut reports) = tokio::sync::mpsc::channel(4);
    let slots = commands(&[room.tool(json!({}))]).unwrap();
    let executor = Executor::start(slots, 2.try_into().unwrap(), sender);
    executor.dispatch(dispatch(1)).unwrap();
    let report = reports.recv().await.unwrap();
    assert!(matches!(&report, Input::Attempted { outcome: AttemptOutcome::Succeeded(value), .. } if value["id"] == 3), "{report:?}");
    executor.stop(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_program_that_was_cancelled_says_nothing_of_whether_it_works() {
    let room = Room::with("test -e works && touch begun && exec sleep 600; exit 75");
    let (sender, mut reports) = tokio::sync::mpsc::channel(4);
    let executor = Executor::start(commands(&[room.tool(json!({}))]).unwrap(), 2.try_into().unwrap(), sender);
    for n in 1..FAULTS_MAX {
        executor.dispatch(dispatch(n)).unwrap();
        assert!(matches!(reports.recv().await, Some(Input::Attempted { outcome: AttemptOutcome::Failed { retryable: true, .. }, .. })));
    }
    fs::write(room.path("works"), "").unwrap();
    executor.dispatch(dispatch(FAULTS_MAX)).unwrap();
    until(|| room.path("begun").exists()).await;
    executor.cancel(cancel_of(FAULTS_MAX)).unwrap();
    for _ in 0..2 {
        reports.recv().await.unwrap();
    }
    fs::remove_file(room.path("works")).unwrap();
    let left_alone = || executor.load().endpoints.iter().any(|endpoint| endpoint.left_alone);
    assert!(!left_alone(), "it was no fault");
    executor.dispatch(dispatch(FAULTS_MAX + 1)).unwrap();
    reports.recv().await.unwrap();
    assert!(left_alone(), "and no sign of life");
    executor.stop(Duration::from_secs(1)).await;
}

/// Waits until a process is there no more: not even to be waited for.
async fn gone(process: &str) {
    let process: u32 = process.parse().unwrap();
    let path = PathBuf::from(format!("/proc/{process}/stat"));
    // One whose parent has ended is waited for by whoever takes it over, which is not this box's affair.
    until(|| fs::read_to_string(&path).map_or(true, |stat| stat.contains(") Z ") || stat.contains(") X "))).await;
}

#[allow(unsafe_code)]
fn kept_open(file: &std::fs::File) -> i32 {
    use std::os::fd::AsRawFd;
    // SAFETY: a call with numbers; the descriptor is this test's and is closed by it.
    let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, 40) };
    assert!(copy >= 40);
    copy
}

#[allow(unsafe_code)]
fn close(descriptor: i32) {
    // SAFETY: a descriptor of this test's own.
    unsafe { libc::close(descriptor) };
}
