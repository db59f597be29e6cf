//! The command line as people and scripts use it: what it prints where, and its exit codes.

use std::path::Path;
use std::process::{Command, Output};

fn recado(arguments: &[&str]) -> Output {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mut command = Command::new(env!("CARGO_BIN_EXE_recado"));
    command.current_dir(config).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_good_configuration_is_summed_up_on_stdout_and_exits_with_0() {
    let output = recado(&["check", "-c", "recado.toml", "--set", "sip.calls_max=4"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let summary = text(&output.stdout);
    assert!(summary.contains("\nUp to 4 calls of at most 1 h each, RTP on ports 20000-20999; calls are not recorded.\n"), "{summary}");
    assert!(
        summary.contains("  book_table: POST http://127.0.0.1:9000/bookings, within 5 min, idempotent, up to 5 attempts\n"),
        "{summary}"
    );
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_bad_one_is_explained_on_stderr_and_exits_with_1() {
    let output = recado(&["check", "-c", "recado.toml", "--set", "sip.calls_max=none"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let said = text(&output.stderr);
    assert!(said.starts_with("flag --set sip.calls_max=none: sip.calls_max: expected a whole number"), "{said}");
}

#[test]
fn a_command_that_is_not_understood_exits_with_2() {
    for arguments in [&[][..], &["chekc"], &["check"], &["check", "-c"]] {
        assert_eq!(recado(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn version_and_help_say_what_they_promise() {
    assert_eq!(text(&recado(&["--version"]).stdout), format!("recado {}\n", env!("CARGO_PKG_VERSION")));
    let help = recado(&["--help"]);
    assert!(text(&help.stdout).contains("Exit codes:") && text(&help.stdout).contains("  check "), "{}", text(&help.stdout));
}

#[test]
fn conversations_are_simulated_and_traces_replayed() {
    let output = recado(&["sim", "--seeds", "40", "--jobs", "2", "--edges"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.starts_with("40 conversations in ") && said.contains("Acoustic Quiet → Suspected"), "{said}");
    let trace = "../tests/regressions/a-claim-is-lost-and-another-granted-in-one-transaction.trace";
    let output = recado(&["sim", "--replay", trace]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("the contract holds\n"), "{}", text(&output.stdout));
    let output = recado(&["sim", "--replay", "recado.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "recado.toml: this is no trace of a simulation: its first line must be `recado simulation 1`\n");
}

#[test]
fn the_doctor_explains_a_store_mends_it_and_says_by_its_exit_code_whether_something_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let data = format!("box.data_dir={}", directory.path().display());
    let doctor = |more: &[&str]| recado(&[&["doctor", "-c", "recado.toml", "--set", &data], more].concat());
    let none = doctor(&[]);
    assert_eq!(none.status.code(), Some(3), "{}", text(&none.stdout));
    assert!(text(&none.stdout).contains("there is no store: start the box once"), "{}", text(&none.stdout));

    let store = directory.path().join(recado::config::STORE_FILE);
    let options = recado::coordination::Options::new(recado_core::BootId(1), recado_core::time::Wall::default());
    drop(recado::coordination::Store::open(&store, &options).unwrap());
    is_well(&doctor(&[]));

    let mut bytes = std::fs::read(&store).unwrap();
    bytes[4_096..].fill(0xa5);
    std::fs::write(&store, bytes).unwrap();
    let ill = doctor(&[]);
    assert_eq!(ill.status.code(), Some(3), "{}", text(&ill.stdout));
    assert!(text(&ill.stdout).contains("malformed"), "{}", text(&ill.stdout));
    let mended = doctor(&["--mend", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&mended.stdout).unwrap();
    assert!(found["mended"][0].as_str().unwrap().starts_with("set the damaged store aside as"), "{found}");
    assert_eq!((&found["contents"]["integrity"], &found["reserve"]), (&"ok".into(), &true.into()));
    // What a start would say in health is all that is left, until somebody has seen to it.
    let lost = recado::coordination::lost_stores(&store);
    let name = lost[0].file_name().unwrap().to_string_lossy().into_owned();
    for left in [mended, doctor(&["--json"])] {
        let found: serde_json::Value = serde_json::from_slice(&left.stdout).unwrap();
        let problems: Vec<&str> = found["problems"].as_array().unwrap().iter().filter_map(|problem| problem.as_str()).collect();
        assert!(
            matches!(problems.as_slice(), [problem] if problem.starts_with("the store was damaged: ") && problem.contains(&name)),
            "{problems:?}"
        );
        assert_eq!(left.status.code(), Some(3));
    }
    std::fs::remove_file(&lost[0]).unwrap();
    is_well(&doctor(&[]));

    // A file that has gone, with what has been beside it.
    std::fs::remove_file(&store).unwrap();
    let gone = doctor(&[]);
    assert_eq!(gone.status.code(), Some(3), "{}", text(&gone.stdout));
    let how = "To begin anew, move every file away whose name begins with recado.db.\n";
    assert!(
        text(&gone.stdout).contains("The store is not there, though one has been") && text(&gone.stdout).ends_with(how),
        "{}",
        text(&gone.stdout)
    );
    assert!(!store.exists(), "looking makes none");
    let restored = doctor(&["--mend"]);
    assert_eq!(restored.status.code(), Some(3), "{}", text(&restored.stdout));
    assert!(text(&restored.stdout).contains("the store was not there: "), "{}", text(&restored.stdout));
    std::fs::remove_file(&recado::coordination::lost_stores(&store)[0]).unwrap();
    is_well(&doctor(&["--mend"]));

    // What a start does by itself is nothing wrong.
    std::fs::remove_file(store.with_extension("db.reserve")).unwrap();
    let without = doctor(&[]);
    is_well(&without);
    assert!(text(&without.stdout).contains("There is no reserve for a full disk: a start of the box, or --mend, makes it."));
}

fn is_well(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).ends_with("All is well.\n") && !text(&output.stdout).contains("Wrong:"), "{}", text(&output.stdout));
}
