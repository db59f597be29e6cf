//! The command line as people and scripts use it: what it prints where, and its exit codes.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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
    assert!(summary.contains("  book_table: POST http://127.0.0.1:9000, within 5 min, idempotent, up to 5 attempts\n"), "{summary}");
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
fn a_named_pipe_is_refused_at_once_wherever_a_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    let dialogue = format!("model.dialogue={pipe}");
    let prompts = directory.path().join("prompts.toml");
    std::fs::write(&prompts, "[otherwise]\nsay = { es = \"Hola\" }\n[prompts.hello]\nfile = \"pipe\"\ntext = \"Hola\"\n").unwrap();
    let prompt = format!("model.dialogue={}", prompts.display());
    for arguments in [
        &["check", "-c", pipe][..],
        &["run", "-c", pipe],
        &["pending", "-c", pipe],
        &["trace", "--last", "-c", pipe],
        &["check", "-c", "recado.toml", "--set", &dialogue],
        &["check", "-c", "recado.toml", "--set", &prompt],
        &["replay", pipe],
        &["sim", "--replay", pipe],
    ] {
        let output = recado(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(pipe) && said.contains("is a named pipe, not a file"), "{arguments:?}: {said}");
    }
}

#[test]
fn what_can_do_nothing_is_not_taken_for_done() {
    let none = recado(&["sim", "--seeds", "0"]);
    assert_eq!(none.status.code(), Some(2), "{}", text(&none.stdout));
    assert!(text(&none.stderr).contains("invalid value '0' for '--seeds <N>'"), "{}", text(&none.stderr));
    let nowhere = recado(&["replay", "nope"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert_eq!(text(&nowhere.stderr), "nope can't be read: No such file or directory (os error 2)\n");
    let no_directory = recado(&["trace", "--directory", "nope"]);
    assert_eq!(
        text(&no_directory.stderr),
        "nope can't be read: No such file or directory (os error 2); name the box's configuration with -c, or the directory with --directory, or start the box once: it makes it\n"
    );
}

#[test]
fn a_store_whose_header_is_damaged_is_not_said_to_hold_nothing() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(recado::config::STORE_FILE), [0xa5; 8_192]).unwrap();
    let data = format!("box.data_dir={}", directory.path().display());
    let output = recado(&["pending", "-c", "recado.toml", "--set", &data]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    assert!(text(&output.stderr).starts_with("what waits is not known: ") && text(&output.stderr).contains("`recado doctor`"));
}

/// Root may write anywhere, so that the command is then run as nobody.
#[test]
fn a_directory_that_may_not_be_written_in_is_named_and_not_taken_for_damage() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let store = data.join(recado::config::STORE_FILE);
    let options = recado::coordination::Options::new(recado_core::BootId(1), recado_core::time::Wall::default());
    drop(recado::coordination::Store::open(&store, &options).unwrap());
    std::fs::write(directory.path().join("recado.toml"), "[box]\ndata_dir = \"data\"\n").unwrap();
    std::fs::write(directory.path().join("dialogue.toml"), "").unwrap();
    let program = directory.path().join("recado");
    copy_of_recado(&program);
    let mut command = Command::new(&program);
    command.current_dir(&directory).args(["pending", "-c", "recado.toml"]);
    by_no_root(&mut command, &[directory.path(), &data, &store]);
    let mode = |mode| std::fs::set_permissions(&data, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o500);
    let output = command.output().unwrap();
    mode(0o700);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    let said = text(&output.stderr);
    assert!(said.starts_with("what waits is not known: looking into ") && said.contains("needs the right to write beside it"), "{said}");
}

/// As systemd keeps the data of a `DynamicUser=`: behind a link, in a directory that is only root's.
#[test]
fn a_user_who_may_not_look_into_the_boxs_data_can_check_a_configuration_and_is_told_who_may() {
    let directory = tempfile::tempdir().unwrap();
    let private = directory.path().join("private");
    std::fs::create_dir_all(private.join("recado")).unwrap();
    std::os::unix::fs::symlink("private/recado", directory.path().join("recado")).unwrap();
    let settings = "[box]\ndata_dir = \"recado\"\n[media]\nrecordings = \"calls\"\n";
    std::fs::write(directory.path().join("recado.toml"), settings).unwrap();
    std::fs::write(directory.path().join("dialogue.toml"), "[otherwise]\nsay = { es = \"Hola\" }\n").unwrap();
    let program = directory.path().join("program");
    copy_of_recado(&program);
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o000)).unwrap();
    let run = |command: &str| {
        let mut run = Command::new(&program);
        run.current_dir(&directory).args([command, "-c", "recado.toml"]);
        by_no_root(&mut run, &[directory.path()]);
        run.output().unwrap()
    };
    let (checked, pending, doctor) = (run("check"), run("pending"), run("doctor"));
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!((checked.status.code(), text(&checked.stderr)), (Some(0), ""));
    assert_eq!((pending.status.code(), text(&pending.stdout)), (Some(1), ""));
    let said = text(&pending.stderr);
    assert!(!said.contains("box.data_dir: ") && said.contains("ermission"), "{said}");
    let said = format!("{}{}", text(&doctor.stdout), text(&doctor.stderr));
    assert!(doctor.status.code() == Some(3) && said.contains("ermission"), "{:?}: {said}", doctor.status);
}

fn copy_of_recado(to: &Path) {
    // By a process of its own: what this one has open to be written, another test's child may have too, and then it can't be run.
    assert!(Command::new("cp").args([env!("CARGO_BIN_EXE_recado").as_ref(), to.as_os_str()]).status().unwrap().success());
}

/// Root may do anything: where it is root who tests, the command is run as nobody, to whom these paths are given.
fn by_no_root(command: &mut Command, its_own: &[&Path]) {
    if Path::new("/proc/self").metadata().unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
        for path in its_own {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
}

const NOBODY: u32 = 65_534;

/// A store, traces: nothing in them needs a voice, a credential that systemd gives to the box alone, or a file that the box reads.
#[test]
fn what_only_reads_starts_no_engine_and_needs_nothing_that_the_box_alone_has() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("script"), "#!/bin/sh\n: > \"$0.asked\"\n").unwrap();
    // By a process of its own, as above.
    assert!(Command::new("install").args(["-m", "755"]).args([path("script"), path("engine")]).status().unwrap().success());
    let settings = format!(
        "[box]\ndata_dir = {:?}\n[speech]\nprogram = {:?}\nvoices.es = \"es\"\n[[tools]]\nname = \"order\"\nurl = \"https://crm.example/\"\n\
         say_done.es = \"Hecho.\"\nbearer_file = \"crm-token\"\nca_file = \"crm-ca.pem\"\n",
        path("data"),
        path("engine"),
    );
    std::fs::write(path("recado.toml"), settings).unwrap();
    std::fs::write(path("dialogue.toml"), "").unwrap();
    let config = path("recado.toml").display().to_string();
    let options = recado::coordination::Options::new(recado_core::BootId(1), recado_core::time::Wall::default());
    std::fs::create_dir(path("data")).unwrap();
    drop(recado::coordination::Store::open(&path("data").join(recado::config::STORE_FILE), &options).unwrap());
    std::fs::create_dir_all(path("data").join(recado::config::TRACES_DIRECTORY)).unwrap();
    for command in [&["pending", "-c", &config][..], &["doctor", "-c", &config], &["trace", "-c", &config]] {
        let output = recado(command);
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(!said.contains("crm-") && output.status.code() != Some(1), "{command:?}: {:?}: {said}", output.status);
    }
    assert!(!path("engine.asked").exists());
    let checked = recado(&["check", "-c", &config]);
    assert_eq!(checked.status.code(), Some(1));
    let said = text(&checked.stderr);
    assert!(
        said.contains("bearer_file: the credential file that is named is not in ")
            && !said.contains("crm-token")
            && said.contains("crm-ca.pem does not exist"),
        "{said}"
    );
    assert!(path("engine.asked").exists());
}

#[test]
fn a_recording_that_can_not_be_written_is_said_before_the_story_begins() {
    let directory = tempfile::tempdir().unwrap();
    let there = directory.path().join("there.wav");
    std::fs::write(&there, "earlier").unwrap();
    for (wav, why) in [
        (directory.path().join("no/such/place.wav"), "No such file or directory (os error 2)"),
        (directory.path().to_owned(), "it is not a file"),
        (there.join("below.wav"), "Not a directory (os error 20)"),
    ] {
        let output = recado(&["demo", "--wav", wav.to_str().unwrap()]);
        let expected = format!("{} can't be written: {why}; name another file with --wav\n", wav.display());
        assert_eq!((output.status.code(), text(&output.stdout), text(&output.stderr)), (Some(1), "", expected.as_str()));
    }
    // What can be written is not touched before there is something to write, or where there never is.
    let no_directory = there.join("kept");
    for wav in [&there, &directory.path().join("new.wav")] {
        let output = recado(&["demo", "--wav", wav.to_str().unwrap(), "--keep", no_directory.to_str().unwrap()]);
        assert!(output.status.code() == Some(1) && text(&output.stderr).starts_with("the folder to keep: "), "{output:?}");
    }
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "earlier");
    assert!(!directory.path().join("new.wav").exists());
}

#[test]
fn traces_are_looked_for_where_a_box_keeps_them_whose_configuration_does_not_say() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("recado.toml");
    std::fs::write(&config, "").unwrap();
    std::fs::write(directory.path().join("dialogue.toml"), "").unwrap();
    let looked = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_recado"));
        let output = command.current_dir(&directory).env_clear().arg("trace").args(arguments).output().unwrap();
        format!("{}{}", text(&output.stdout), text(&output.stderr))
    };
    let with_it = || looked(&["-c", config.to_str().unwrap()]);
    let of_service = with_it();
    assert!(of_service.contains("/var/lib/recado/traces") && of_service == looked(&[]), "{of_service}");
    std::fs::create_dir_all(directory.path().join("data/traces")).unwrap();
    let here = with_it();
    assert!(here.contains("data/traces") && !here.contains("/var/lib") && here == looked(&[]), "{here}");
    std::fs::write(&config, "[box]\ndata_dir = \"elsewhere\"\n").unwrap();
    assert!(with_it().contains("elsewhere/traces can't be read"), "{}", with_it());
}

#[test]
fn conversations_are_simulated_and_traces_replayed() {
    let output = recado(&["sim", "--seeds", "40", "--jobs", "2", "--edges"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.starts_with("40 conversations in ") && said.contains("Acoustic Quiet → Suspected"), "{said}");
    assert!(said.ends_with("\nthe contract held in all of them\n"), "{said}");
    let trace = "../tests/regressions/a-claim-is-lost-and-another-granted-in-one-transaction.trace";
    let output = recado(&["sim", "--replay", trace]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("the contract holds\n"), "{}", text(&output.stdout));
    let output = recado(&["sim", "--weeks", "2", "--jobs", "2"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.starts_with("2 weeks, ") && said.ends_with("\neach was done once, each closing was heard, and nothing waits\n"), "{said}");
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

#[test]
fn a_pin_is_read_from_the_input_and_repeated_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("recado.toml");
    std::fs::write(&config, "[identity]\npins_file = \"pins\"\n").unwrap();
    let pin = |arguments: &[&str], input: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_recado"));
        command.arg("pin").args(arguments).arg("-c").arg(&config).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // One that refuses reads nothing.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        (output.status.code(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
    };
    assert_eq!(pin(&["set", "sip:+34 600-123.456@pbx.example"], "4715\n"), (Some(0), "+34600123456 has a PIN.\n".into()));
    assert_eq!(pin(&["set", "+34600123456"], "9032"), (Some(0), "+34600123456 has another PIN.\n".into()));
    let (code, said) = pin(&["list"], "");
    assert_eq!((code, said.lines().skip(1).collect::<Vec<_>>()), (Some(0), vec!["+34600123456"]));
    let kept = std::fs::read_to_string(directory.path().join("pins")).unwrap();
    assert!(kept.starts_with("+34600123456 $argon2id$") && !kept.contains("9032"), "{kept}");
    for (wrong, said) in [
        ("471", "a PIN has 4 to 12 digits and nothing else\n"),
        ("47 15", "a PIN has 4 to 12 digits and nothing else\n"),
        ("1234", "this PIN is among the first that anybody would try (one digit repeated, or digits in a row): take another\n"),
    ] {
        assert_eq!(pin(&["set", "bob"], wrong), (Some(1), said.into()), "{wrong}");
    }
    assert_eq!(pin(&["set", "anonymous"], "4715").0, Some(1), "nobody is called so");
    assert_eq!(pin(&["remove", "bob"], ""), (Some(1), "bob has no PIN\n".into()));
    assert_eq!(pin(&["remove", "+34600123456"], ""), (Some(0), "+34600123456 has no PIN any more.\n".into()));
    std::fs::write(&config, "").unwrap();
    assert_eq!(pin(&["list"], "").1, "the configuration names no file for PINs; write there: [identity] pins_file = \"pins\"\n");
}
