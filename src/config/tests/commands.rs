//! Tools that are programs, and exactly what is said of those that are not right.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

use super::Room;

/// A program with this mode beside a configuration with a tool that is it, with `more` in its `command` table.
fn room(mode: u32, more: &str) -> Room {
    let room = Room::with(&format!(
        "[[tools]]\nname = \"open_door\"\nsay_done.es = \"Hecho.\"\n\
         parameters = {{ type = \"object\", required = [\"door\"], properties = {{ door = {{ type = \"string\" }}, why = {{ type = [\"string\", \"null\"] }}, list = {{ type = \"array\" }} }} }}\n\
         [tools.command]\n{more}\n"
    ));
    room.write("open-door", "#!/bin/sh\n");
    set_permissions(room.path("open-door"), Permissions::from_mode(mode)).unwrap();
    room
}

fn said(mode: u32, more: &str) -> String {
    let room = room(mode, more);
    room.problems(&room.sources())
}

#[test]
fn a_program_beside_the_configuration_is_a_tool() {
    let room = room(0o755, "program = \"open-door\"\narguments = [\"--\", \"{arguments.door}\", \"--why={arguments.why}\"]");
    let (config, warnings) = room.load().unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    let command = config.tools[0].command.as_ref().unwrap();
    assert_eq!(command.program, room.path("open-door"));
    assert!(config.tools[0].policy().cancellable);
    assert!(config.summary().to_string().contains("  open_door: runs "), "{}", config.summary());
}

#[test]
fn each_mistake_in_a_program_is_named_with_its_place_and_a_remedy() {
    for (mode, more, words, instead) in [
        (0o755, "program = \"close-door\"", "close-door does not exist", "the path of a file that recado may read"),
        (0o644, "program = \"open-door\"", "is not executable", "the path of a program that recado may run"),
        (0o755, "program = \"/\"", "is a directory, not a file", ""),
        (0o775, "program = \"open-door\"", "others than its owner may write to", "chmod go-w"),
        (0o755, "program = \"open-door\"\narguments = [\"{arguments.dor}\"]", "\"dor\" is not among the properties", "{arguments.door}"),
        (0o755, "program = \"open-door\"\narguments = [\"{arguments.door\"]", "this placeholder is not complete", "{arguments.door}"),
        (0o755, "program = \"open-door\"\narguments = [\"{arguments.list}\"]", "\"list\" may be a list or an object", "input = \"json\""),
        (0o755, "program = \"open-door\"\narguments = [\"--why\", \"{arguments.why}\"]", "\"--why\" would stand alone", "--why={arguments.why}"),
        (0o755, "program = \"open-door\"\nenvironment = { RECADO_X = \"1\" }", "the box's own", "DOOR_BUS"),
        (0o755, "program = \"open-door\"\nenvironment = { \"A B\" = \"1\" }", "a variable's name is", "DOOR_BUS"),
        (0o755, "program = \"open-door\"\nworking_dir = \"nowhere\"", "the directory nowhere does not exist", "a directory that recado may enter"),
        (0o755, "program = \"open-door\"\nmemory_bytes_max = 5", "5 is outside of", "memory_bytes_max = 16777216"),
        (0o755, "program = \"open-door\"\nopen_files_max = 5", "5 is outside of", "open_files_max = 16"),
        (0o755, "program = \"open-door\"\ncpu_seconds_max = 0", "0 is outside of", "cpu_seconds_max = 1"),
        (0o755, "program = \"open-door\"\nshell = true", "there is no such setting", ""),
    ] {
        let said = said(mode, more);
        assert!(said.contains(words) && said.contains(instead) && said.contains("recado.toml:"), "{more}: {said}");
    }
}

#[test]
fn a_program_has_no_address() {
    let room = Room::with("[[tools]]\nname = \"open_door\"\nsay_done.es = \"Hecho.\"\nurl = \"http://127.0.0.1/\"\n[tools.command]\nprogram = \"open-door\"");
    room.write("open-door", "");
    set_permissions(room.path("open-door"), Permissions::from_mode(0o755)).unwrap();
    let said = room.problems(&room.sources());
    assert!(said.contains("url: a tool is a program or behind an address, and this one is a program"), "{said}");
}

#[test]
fn what_makes_two_requests_one_is_checked() {
    let said = |more: &str| {
        let room = Room::with(&super::tool(more));
        room.problems(&room.sources())
    };
    assert_eq!(said("idempotency_scope = \"call\"\nidempotency_window_ms = 300000"), "");
    let both = "idempotency_scope = \"global\"\nduplicate = \"replace\"\nidempotency_fields = [\"a\"]\nparameters = { type = \"object\", properties = { a = { type = \"string\" } } }";
    assert!(said(both).contains("idempotency_scope: nobody's request cancels another's; write instead: idempotency_scope = \"party\""), "{}", said(both));
    assert!(said("idempotency_window_ms = 0").contains("0 is outside of 1 to"), "{}", said("idempotency_window_ms = 0"));
    let short = said("idempotency_window_ms = 1000");
    assert!(short.contains("while the first may still run") && short.contains("idempotency_window_ms = 300000"), "{short}");
    let long = said("idempotency_window_ms = 3000000000");
    assert!(long.contains("store.keep_days = 30") && long.contains("idempotency_window_ms = 2592000000, or a larger store.keep_days"), "{long}");
    assert!(said("idempotency_scope = \"world\"").contains("global"), "{}", said("idempotency_scope = \"world\""));
}
