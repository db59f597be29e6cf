//! `recado tools` as people and scripts use it, with real programs and a real service.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A directory with a configuration.
struct Room(tempfile::TempDir);

impl Room {
    fn with(toml: &str) -> Self {
        let room = Self(tempfile::tempdir().unwrap());
        std::fs::write(room.path("recado.toml"), toml).unwrap();
        std::fs::write(room.path("dialogue.toml"), "").unwrap();
        room
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(self, name: &str, script: &str) -> Self {
        std::fs::write(self.path(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn recado(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_recado"));
        command.current_dir(self.0.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.arg("tools").args(arguments).args(["-c", "recado.toml"]).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

const DOOR: &str = r#"
[box]
language = "en"

[[tools]]
name = "open_door"
description = "Opens a door of the building"
idempotent = true
say_accepted.en = "I'm opening the {{ arguments.door }} door."
say_done.en = "The {{ arguments.door }} door is open for {{ result.seconds }} seconds. Go through it now, please, and close it behind you."
say_short.en = "It's open."
say_failed.en = "It stayed shut: {{ error }}."
retry = { attempts_max = 3, backoff_ms = 1000, backoff_ms_max = 60000 }

[tools.parameters]
type = "object"
required = ["door"]
additionalProperties = false
properties.door = { type = "string", enum = ["front", "yard"] }

[tools.command]
program = "open-door"
arguments = ["--door={arguments.door}"]
on_terminate = "undone"
"#;

#[test]
fn every_tool_is_listed_with_what_it_is_and_what_its_policy_does() {
    let toml = format!("{DOOR}\n[[tools]]\nname = \"look_up\"\nurl = \"https://crm.example/a?key=hidden\"\nsay_done.en = \"Done.\"\n");
    let room = Room::with(&toml).program("open-door", "true");
    let output = room.recado(&[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("open_door: command ") && said.contains("takes: door (string)") && said.contains("up to 3 attempts"), "{said}");
    assert!(said.contains("look_up: http https://crm.example\n") && said.contains("can't be cancelled once sent"), "{said}");
    assert!(!said.contains("hidden"), "{said}");
    let spanish = room.recado(&["--set", "box.language=es", "--set", "model.kind=scripted"]);
    // The texts are English only, which a box that speaks Spanish does not start with.
    assert_eq!(spanish.status.code(), Some(1));
    let listed = json(&room.recado(&["--json"]));
    assert_eq!((&listed[0]["name"], &listed[0]["kind"], &listed[1]["kind"]), (&"open_door".into(), &"command".into(), &"http".into()));
    assert_eq!(listed[0]["policy"]["retry"]["attempts_max"], 3);
}

#[test]
fn a_policy_is_explained_by_what_a_ledger_makes_of_it() {
    let room = Room::with(DOOR).program("open-door", "true");
    let output = room.recado(&["explain", "open_door"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = text(&output.stdout);
    for expected in [
        "Arguments, for example: {\"door\":\"front\"}",
        "2: after a wait of 1 s – 1500 ms",
        "3: after a wait of 2 s – 3 s",
        "Deadline for all of it: 5 min.",
        "accepted: I'm opening the front door.",
        "done: The front door is open for (seconds) seconds.",
        "done, after a cut: It's open.",
        "failed: It stayed shut: (the reason).",
        "Whoever asked hears it",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    for case in ["not known: ", "cancelled: ", "undone: ", "too late to cancel: ", "out of reach, waiting: "] {
        assert!(said.lines().any(|line| line.trim_start().strip_prefix(case).is_some_and(|words| words.len() > 5)), "{case}\n{said}");
    }
    let unknown = room.recado(&["explain", "close_door"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert_eq!(text(&unknown.stderr), "there is no tool \"close_door\"; there are: open_door\n");
}

#[test]
fn a_call_that_is_interrupted_ends_what_it_has_started() {
    for signal in ["INT", "TERM"] {
        let room = Room::with(DOOR);
        let (own, whole) = (room.path("own"), room.path("whole"));
        let room = room.program("open-door", &format!("sleep 600 & echo $$ $! > {0}; mv {0} {1}; wait", own.display(), whole.display()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_recado"));
        command.current_dir(room.0.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.args(["tools", "call", "open_door", r#"{"door": "front"}"#, "-c", "recado.toml"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("the program runs", || whole.exists());
        assert!(Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert!(text(&output.stderr).contains("interrupted"), "{output:?}");
        for process in std::fs::read_to_string(&whole).unwrap().split_whitespace() {
            // Whoever takes over one whose parent has ended waits for it, or leaves it as it is.
            let stat = || std::fs::read_to_string(format!("/proc/{process}/stat"));
            until("what was started ends", || stat().map_or(true, |stat| stat.contains(") Z ") || stat.contains(") X ")));
        }
    }
}

/// Waits for an event of the world outside: it comes, or the test fails after a minute.
fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} within a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn tools_of_every_kind_are_listed_and_explained() {
    let toml = r#"
[box]
language = "en"

[mcp.office]
url = "https://tools.example/mcp?key=hidden"

[[tools]]
name = "book"
url = "https://crm.example/book?key=hidden"
cancel_url = "https://crm.example/cancel?key=hidden"
compensate_url = "https://undo.example/undo?key=hidden"
status_url = "https://crm.example/jobs/{operation_id}?key=hidden"
status_after_ms = 3000
sign_secret_file = "secret"
bearer_file = "token"
confirm = true
idempotent = true
idempotency_scope = "global"
idempotency_window_ms = 3600000
say_confirm.en = "Shall I book for {{ arguments.people }}?"
say_done.en = "Booked."
[tools.parameters]
type = "object"
required = ["people"]
properties.people = { type = "integer", minimum = 4 }

[[tools]]
name = "rooms"
mcp = "office"
say_done.en = "Done."

[[tools]]
name = "expert"
say_done.en = "{{ result.answer }}"
idempotent = true
[tools.delegate]
url = "https://models.example/v1/hidden"
model = "m"
"#;
    let room = Room::with(toml);
    for file in ["secret", "token", "language-key"] {
        std::fs::write(room.path(file), "hidden").unwrap();
    }
    let listed = json(&room.recado(&["--json"]));
    let kinds: Vec<_> = listed.as_array().unwrap().iter().map(|tool| (tool["kind"].clone(), tool["place"].clone())).collect();
    assert_eq!(
        kinds,
        [
            ("http".into(), "https://crm.example".into()),
            ("mcp".into(), "office (https://tools.example)".into()),
            ("delegate".into(), "https://models.example".into()),
        ]
    );
    for (name, expected) in [
        (
            "book",
            &[
                "a bearer token; a signature (Standard Webhooks)",
                "is asked for at https://crm.example, first after 3 s",
                "that is asked for at https://crm.example; where it is too late, to undo it at https://undo.example.",
                "(of anybody, for 1 h)",
                "before it is done: Shall I book for 4?",
                "accepted: ",
            ][..],
        ),
        ("rooms", &["mcp office (https://tools.example)", "its server is asked to end the task", "makes a task"][..]),
        ("expert", &["delegate https://models.example", "the question is given up", "left alone and tried now and then"][..]),
    ] {
        let output = room.recado(&["explain", name]);
        let said = text(&output.stdout);
        for words in expected {
            assert!(said.contains(words), "{name}: {words}\n{said}{output:?}");
        }
        assert!(!said.contains("hidden"), "{said}");
    }
    let output = room.recado(&["call", "book", r#"{"people": 4}"#]);
    assert_eq!((output.status.code(), text(&output.stderr).contains("only when the caller agrees")), (Some(1), true), "{output:?}");
}

#[test]
fn a_tool_is_tried_out_for_real_and_its_result_is_what_the_caller_would_hear() {
    let room = Room::with(DOOR).program("open-door", "echo '{\"seconds\": 5}'");
    let output = room.recado(&["call", "open_door", r#"{"door": "yard"}"#, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let call = json(&output);
    assert_eq!((&call["outcome"], &call["result"]["seconds"], &call["state"]), (&"succeeded".into(), &5.into(), &"succeeded".into()));
    assert_eq!(call["heard"][0], "I'm opening the yard door.");
    assert!(call["heard"][1].as_str().unwrap().starts_with("The yard door is open for 5 seconds."), "{call}");
    assert!(!room.path("data").exists(), "no store is touched");
    let people = room.recado(&["call", "open_door", r#"{"door": "yard"}"#]);
    assert!(text(&people.stdout).contains("open_door: done (") && text(&people.stdout).contains("The yard door is open"), "{people:?}");
}

#[test]
fn no_two_trials_have_one_key() {
    let room = Room::with(&DOOR.replace("on_terminate", "working_dir = \".\"\non_terminate"))
        .program("open-door", "echo $RECADO_IDEMPOTENCY_KEY >> keys; echo '{}'");
    for _ in 0..2 {
        assert_eq!(room.recado(&["call", "open_door", r#"{"door": "yard"}"#]).status.code(), Some(0));
    }
    let keys = std::fs::read_to_string(room.path("keys")).unwrap();
    let keys: Vec<&str> = keys.lines().collect();
    assert!(keys.len() == 2 && keys[0] != keys[1], "{keys:?}");
}

#[test]
fn what_fails_says_why_what_a_box_would_do_and_exits_with_3() {
    let room = Room::with(DOOR).program("open-door", "echo 'the bus is busy' >&2; exit 75");
    let output = room.recado(&["call", "open_door", r#"{"door": "yard"}"#]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = text(&output.stdout);
    for expected in
        ["failed: it provably was not done", "reason: the bus is busy", "a box would try again", "It stayed shut: the bus is busy."]
    {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
}

#[test]
fn arguments_are_refused_as_a_model_would_be_told_and_nothing_is_run() {
    let room = Room::with(DOOR).program("open-door", "touch \"$(dirname \"$0\")/ran\"");
    for (arguments, words) in [
        (r#"{"dor": "yard"}"#, "dor"),
        (r#"{"door": "cellar"}"#, "/door: "),
        ("{}", "\"door\" is a required property"),
        ("door=yard", "the arguments are not JSON"),
        ("[1]", "must be a JSON object"),
    ] {
        let output = room.recado(&["call", "open_door", arguments]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains(words), "{arguments}: {output:?}");
    }
    let careful = Room::with(&DOOR.replace("idempotent = true", "idempotent = false").replace("retry =", "# retry ="))
        .program("open-door", "touch \"$(dirname \"$0\")/ran\"; echo '{}'");
    let output = careful.recado(&["call", "open_door", r#"{"door": "yard"}"#]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("add --yes"), "{output:?}");
    assert!(!room.path("ran").exists() && !careful.path("ran").exists());
    assert_eq!(careful.recado(&["call", "open_door", r#"{"door": "yard"}"#, "--yes"]).status.code(), Some(0));
}

#[test]
fn a_service_is_asked_once_whatever_it_answers_and_one_that_is_not_there_is_out_of_reach() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let service = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let (mut length, mut head) = (0, String::new());
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            head.push_str(&line);
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let answer = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
        (head.to_lowercase(), serde_json::from_slice::<serde_json::Value>(&body).unwrap())
        // Nobody listens any more: a second attempt would find nobody.
    });
    let room = Room::with(&format!(
        "[box]\nlanguage = \"en\"\n[[tools]]\nname = \"look_up\"\nurl = \"http://{address}/a\"\nidempotent = true\nsay_done.en = \"Done.\"\n"
    ));
    let output = room.recado(&["call", "look_up", r#"{"subject": "x"}"#, "--json"]);
    let (head, body) = service.join().unwrap();
    assert!(head.contains("idempotency-key: ") && body["arguments"]["subject"] == "x" && body["attempt"] == 1, "{head} {body}");
    let call = json(&output);
    assert_eq!((output.status.code(), &call["outcome"], &call["state"]), (Some(3), &"unknown".into(), &"unknown".into()), "{call}");
    assert_eq!(call["would_try_again"], true);
    let away = room.recado(&["call", "look_up", "{}", "--json"]);
    assert_eq!(away.status.code(), Some(3), "{away:?}");
    assert!(["unreachable", "failed"].contains(&json(&away)["outcome"].as_str().unwrap()), "{away:?}");
}

#[test]
fn without_a_configuration_the_command_is_not_understood() {
    let output = Command::new(env!("CARGO_BIN_EXE_recado")).arg("tools").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("add -c FILE"), "{output:?}");
}
