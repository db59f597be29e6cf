//! `recado trace` and `recado replay` as people use them: what they print where, and their exit codes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn recado(arguments: &[&str]) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let mut command = Command::new(env!("CARGO_BIN_EXE_recado"));
    command.current_dir(folder).env_clear().env("LANG", "C.UTF-8");
    command.args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A directory as the box keeps it, with the recorded traces.
fn library() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    for (number, name) in ["killed-in-a-call-ledger", "killed-in-a-call", "called-again-ledger", "called-again"].iter().enumerate() {
        std::fs::copy(recorded.join(format!("{name}.trace")), folder.path().join(format!("{number:08}-{name}.trace"))).unwrap();
    }
    let path = folder.path().to_owned();
    (folder, path)
}

#[test]
fn without_arguments_the_conversations_are_listed() {
    let (_folder, directory) = library();
    let output = recado(&["trace", "--directory", directory.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[1..].iter().all(|line| line.starts_with("ses_") && line.contains("UTC") && line.contains("party_")), "{lines:?}");
}

#[test]
fn what_a_caller_calls_itself_is_shown_and_never_obeyed() {
    let recorded = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/called-again.trace")).unwrap();
    let (before, from) = recorded.split_once(r#""party":"party_"#).unwrap();
    let (_, after) = from.split_once('"').unwrap();
    let folder = tempfile::tempdir().unwrap();
    let hostile = format!(r#"{before}"party":"box/\u001b]0;owned\u0007\u009b2J\u202eana"{after}"#);
    std::fs::write(folder.path().join("00000001-hostile.trace"), hostile).unwrap();
    let directory = folder.path().to_str().unwrap();
    let file = folder.path().join("00000001-hostile.trace");
    for arguments in [&["trace"][..], &["trace", "--json"], &["trace", "--last"], &["trace", "--last", "--json"]] {
        let output = recado(&[arguments, &["--directory", directory][..]].concat());
        let shown = text(&output.stdout);
        assert!(output.status.success() && shown.contains(r"box/\u001b]0;owned\u0007\u009b2J\u202eana"), "{arguments:?}: {shown}");
        assert!(!shown.chars().any(|letter| letter == '\u{202e}' || (letter.is_control() && letter != '\n')), "{arguments:?}: {shown:?}");
    }
    let output = recado(&["replay", file.to_str().unwrap()]);
    assert!(!text(&output.stdout).chars().any(|letter| letter.is_control() && letter != '\n'), "{output:?}");
}

#[test]
fn a_conversation_is_drawn_by_name_as_the_last_and_by_file() {
    let (_folder, directory) = library();
    let directory = directory.to_str().unwrap();
    let list = recado(&["trace", "--directory", directory]);
    let session = text(&list.stdout).lines().last().unwrap().split(' ').next().unwrap();
    let drawn: Vec<Output> = [&["trace", "--last"][..], &["trace", session], &["trace", &session[4..12]]]
        .iter()
        .map(|arguments| recado(&[arguments, &["--directory", directory][..]].concat()))
        .collect();
    let first = text(&drawn[0].stdout);
    assert!(
        first.starts_with(session) && first.contains("\nWhy they waited\n") && first.contains("speaking           was spoken"),
        "{first}"
    );
    assert!(drawn.iter().all(|output| output.status.success() && text(&output.stdout) == first));
    let by_file = recado(&["trace", "called-again.trace", "--ascii"]);
    assert!(text(&by_file.stdout).is_ascii() && text(&by_file.stdout).starts_with(session), "{by_file:?}");
    let json = recado(&["trace", "called-again.trace", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json["session"].as_str(), json["whole"].as_bool()), (Some(session), Some(true)));
    let decision = &json["decisions"][0]["decision"];
    assert!(decision["snapshot"]["window_open"].is_boolean() && decision["delivery"] == json["deliveries"][0]["delivery"], "{decision}");
}

#[test]
fn a_deliverys_life_is_told_over_the_restart() {
    let (_folder, directory) = library();
    let directory = directory.to_str().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&recado(&["trace", "called-again.trace", "--json"]).stdout).unwrap();
    let delivery = json["deliveries"][0]["delivery"].as_str().unwrap();
    let life = recado(&["trace", "--delivery", delivery, "--directory", directory]);
    let said = text(&life.stdout);
    for event in ["  ready\n", "claimed by ses_", "spoken\n"] {
        assert!(said.contains(event), "no {event:?} in {said}");
    }
    let nobodys = recado(&["trace", "--delivery", "dlv_00000000000000000000000000000001", "--directory", directory]);
    assert_eq!(nobodys.status.code(), Some(1));
    assert!(text(&nobodys.stderr).contains("knows the delivery dlv_0"), "{nobodys:?}");
}

#[test]
fn what_is_not_there_or_no_trace_is_said_in_a_sentence() {
    let (folder, directory) = library();
    let directory = directory.to_str().unwrap();
    let damaged = folder.path().join("00000009-damaged.trace");
    std::fs::write(&damaged, "{\"recado_trace\":1,\"of\":\"conversation\"}\n").unwrap();
    let newer = folder.path().join("newer");
    std::fs::write(&newer, "{\"recado_trace\":2}\n").unwrap();
    let (damaged, newer) = (damaged.to_str().unwrap(), newer.to_str().unwrap());
    for (arguments, said) in [
        (&["trace", "ses_ffff", "--directory", directory][..], "neither a file nor a conversation that left a trace in"),
        (
            &["trace", "--directory", "/nowhere"],
            "/nowhere can't be read: No such file or directory (os error 2); name the box's configuration",
        ),
        (&["trace", "main.rs"], "main.rs: this is no trace of recado"),
        (&["trace", damaged], "line 1 is damaged (missing field"),
        (&["trace", newer], "it is in format 2, and this version of recado reads up to 1"),
        (&["replay", newer, "main.rs"], "main.rs: this is no trace of recado"),
        (&["replay", "nothing.trace"], "nothing.trace can't be read: No such file"),
    ] {
        let output = recado(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
    }
    // One that can't be read does not hide the others.
    let list = recado(&["trace", "--directory", directory]);
    assert!(text(&list.stdout).matches("ses_").count() >= 2 && text(&list.stdout).contains("line 1 is damaged"), "{list:?}");
}

#[test]
fn a_replay_that_differs_shows_what_was_decided_then_and_what_is_today_and_exits_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/killed-in-a-call.trace")).unwrap();
    // An announcement needs more quiet: the gate answers otherwise.
    let changed = folder.path().join("changed.trace");
    std::fs::write(&changed, recorded.replacen("\"min_quiet\":650,", "\"min_quiet\":950,", 1)).unwrap();
    let same = recado(&["replay", "called-again.trace", "called-again-ledger.trace"]);
    assert!(same.status.success() && text(&same.stdout).matches("decides the same about").count() == 2, "{same:?}");
    let differs = recado(&["replay", changed.to_str().unwrap()]);
    assert_eq!(differs.status.code(), Some(1));
    let said = text(&differs.stdout);
    for part in [
        "decides otherwise from input ",
        "s after the beginning:",
        "  it is told       {",
        "  recado ",
        "    decided        {\"decided\":",
        "    effect         {",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
}
