//! What the doctor sees, beside a running box and without one, and what it mends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use recado::coordination::{Contents, Examination, OpenError, Options, Store, examine, make_backup, mend};
use recado_core::ids::BootId;
use recado_core::ledger::{BatchRecord, BatchState, DeliveryRecord, DeliveryState, OperationRecord, OperationState, Write};
use recado_core::time::Wall;
use rusqlite::Connection;

use crate::faults::run;
use crate::fixtures::{accepted, batch, claim, commit, delivery, open, operation, path_in, succeeded, wall};

fn now() -> Wall {
    wall(120_000)
}

fn contents(found: &Examination) -> &Contents {
    found.contents.as_ref().unwrap_or_else(|| panic!("{found:?}"))
}

fn options() -> Options {
    Options::new(BootId(77), wall(1))
}

/// Three closings: one is being told, one is stale, one belongs to nobody.
fn scene(path: &Path) -> recado::coordination::Store {
    let (mut store, _) = open(path, 1);
    for number in 1..=3 {
        let anonymous = number == 3;
        let mut writes = accepted(number);
        writes.extend(succeeded(number));
        for write in &mut writes {
            match write {
                Write::CreateBatch(BatchRecord { party, .. }) | Write::UpdateBatch(BatchRecord { party, .. }) if anonymous => *party = None,
                Write::CreateDelivery(record) => {
                    *record = DeliveryRecord {
                        party: record.party.take().filter(|_| !anonymous),
                        stale_after_ms: (number == 2).then_some(60_000),
                        ..record.clone()
                    }
                }
                _ => {}
            }
        }
        assert_eq!(commit(&mut store, writes), Ok(()));
    }
    let speaking = DeliveryRecord { state: DeliveryState::Speaking, stale_after_ms: None, ..delivery(1, 1) };
    assert_eq!(commit(&mut store, vec![claim(1, 1), Write::UpdateDelivery(speaking)]), Ok(()));
    store
}

#[test]
fn a_running_box_is_looked_at_and_not_disturbed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let mut store = scene(&path);
    let found = examine(&path, now());
    assert_eq!((found.in_use_by, found.reserve), (Some(std::process::id()), true));
    assert!(found.readable_by_others.is_empty() && found.leftovers.is_empty() && found.files.contains_key("state.db-wal"), "{found:?}");
    let contents = contents(&found);
    assert_eq!((contents.integrity.as_str(), contents.schema.0), ("ok", contents.schema.1));
    assert_eq!(contents.settings["journal_mode"], "wal");
    assert!(contents.broken_rules.is_empty(), "{:?}", contents.broken_rules);
    assert_eq!(contents.deliveries.get("ready"), Some(&2));
    let why: Vec<&str> = contents.waiting.iter().map(|waiting| waiting.why.as_str()).collect();
    assert!(why[0].contains("is telling it") && why[1].contains("stale") && why[2].contains("anonymous"), "{why:?}");
    assert_eq!(contents.waiting[0].age_ms, Some(118_000));
    assert!(matches!(mend(&path, &options()), Err(OpenError::InUse { .. })), "a running box is left alone");
    assert_eq!(commit(&mut store, accepted(9)), Ok(()));
}

#[test]
fn broken_rules_are_named_with_the_rows_that_break_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    drop(scene(&path));
    let edited = Connection::open(&path).expect("a database");
    let triggers: Vec<String> = edited
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .expect("triggers");
    for trigger in triggers {
        edited.execute_batch(&format!("DROP TRIGGER {trigger}")).expect("dropped");
    }
    edited
        .execute_batch(
            "PRAGMA foreign_keys = OFF; DELETE FROM delivery WHERE sequence = 2; UPDATE batch SET state = 'closed' WHERE sequence = 3;
             UPDATE operation SET state = 'running' WHERE sequence = 3; DELETE FROM claim; DELETE FROM batch WHERE sequence = 1",
        )
        .expect("edited");
    drop(edited);
    let found = examine(&path, now());
    let rules: Vec<&str> = contents(&found).broken_rules.iter().map(|broken| broken.rule).collect();
    let expected = ["has its closing", "closed only when", "tells of operations that have ended", "is claimed (R4)", "refers to"];
    assert_eq!(rules.len(), expected.len(), "{rules:?}");
    assert!(rules.iter().zip(expected).all(|(rule, expected)| rule.contains(expected)), "{rules:?}");
    assert_eq!(contents(&found).broken_rules[0].rows, [batch(2).id.to_string()]);
    assert_eq!(batch(2).state, BatchState::Open);
}

#[test]
fn what_can_be_mended_is_mended() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    drop(scene(&path));
    let backup = make_backup(&path, 3).expect("a backup");
    let file = |suffix: &str| path.with_file_name(format!("state.db{suffix}"));
    fs::remove_file(file(".reserve")).expect("there");
    fs::write(file(".backup-new"), b"half").expect("written");
    fs::write(file(".examined-wal"), b"half").expect("written");
    std::os::unix::fs::symlink("nowhere", file(".damaged-new")).expect("a link");
    assert!(run("mkfifo", &["-m", "600", &file(".restoring").to_string_lossy()]));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("ours");
    let mut bytes = fs::read(&path).expect("there");
    bytes[4096..].fill(0xa5);
    fs::write(&path, bytes).expect("written");

    let beside = file(".copies");
    fs::create_dir(&beside).expect("made");
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).expect("ours");

    let ill = examine(&path, now());
    assert!(!ill.reserve && ill.in_use_by.is_none());
    assert!(ill.readable_by_others.contains(&path));
    assert_eq!(ill.leftovers, [".backup-new", ".restoring", ".examined-wal", ".damaged-new"].map(file));
    assert!(ill.contents.as_ref().is_none_or(|contents| contents.integrity != "ok"), "{ill:?}");
    assert_eq!((ill.backups.len(), &ill.backups[0].damage), (1, &None));

    let done = mend(&path, &options()).expect("mended").join("; ");
    for what in ["removed", "private", &backup.display().to_string(), "made the reserve"] {
        assert!(done.contains(what), "{what} is missing: {done}");
    }
    assert_eq!(fs::metadata(&beside).expect("there").permissions().mode() & 0o777, 0o700, "a directory can be entered");
    let well = examine(&path, now());
    assert!(well.reserve && well.readable_by_others.is_empty() && well.leftovers.is_empty());
    assert_eq!(contents(&well).integrity, "ok");
    assert_eq!(contents(&well).losses.len(), 1);
    assert_eq!(well.set_aside.len(), 1);
    assert_eq!(mend(&path, &options()).expect("nothing to do"), Vec::<String>::new());
}

#[test]
fn what_is_owed_after_a_mend_is_shown_before_the_box_is_started() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(recado::config::STORE_FILE);
    let (mut store, _) = open(&path, 1);
    let waits = OperationRecord { state: OperationState::RetryWait, attempt: 1, ..operation(2, 2) };
    assert_eq!(commit(&mut store, accepted(1)), Ok(()));
    assert_eq!(commit(&mut store, [accepted(2), vec![Write::UpdateOperation(waits)]].concat()), Ok(()));
    assert_eq!(commit(&mut store, [accepted(3), succeeded(3)].concat()), Ok(()));
    drop(store);
    make_backup(&path, 3).expect("a backup");
    fs::write(directory.path().join("recado.toml"), "[box]\ndata_dir = \".\"\n").expect("written");
    fs::write(directory.path().join("dialogue.toml"), "").expect("written");
    let recado = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_recado"));
        let output = command.current_dir(&directory).args(arguments).args(["-c", "recado.toml"]).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let lines = |what: [String; 3]| what.map(|line| line + "\n").concat();
    let closing = |state: &str| {
        format!("{} {state} for tel:+34600000001 since 1970-01-01 00:00:02 UTC, 0 times cut: Your table is booked.", delivery(3, 3).id)
    };
    let shown = |number: u128, state: &str| format!("{} book {state}", operation(number, number).id);
    let before = recado(&["pending"]);
    let expected = lines([closing("ready"), shown(1, "accepted, attempt 0"), shown(2, "retry_wait, attempt 1")]);
    assert_eq!(before.split_once('\n').map(|(_, lines)| lines), Some(expected.as_str()));
    fs::write(&path, [0xa5; 8_192]).expect("written");
    let mended = recado(&["doctor", "--mend"]);
    assert!(mended.contains("; 2 operations are not known, 1 closings uncertain, and are told so when the box runs\n"), "{mended}");
    let untold = ", not told yet: the box makes its closing when all that was asked for with it has ended";
    let unknown = |number: u128, attempt: u32| shown(number, &format!("unknown, attempt {attempt}{untold}"));
    let after = recado(&["pending"]);
    let expected = lines([closing("uncertain"), unknown(1, 0), unknown(2, 1)]);
    assert_eq!(after.split_once('\n').map(|(_, lines)| lines), Some(expected.as_str()));
}

#[test]
fn what_is_over_and_can_not_be_read_is_named_and_goes_when_it_is_mended_but_what_is_owed_does_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    drop(scene(&path));
    let edited = Connection::open(&path).expect("a database");
    // Two batches that are over, of which three rows can't be read.
    edited
        .execute_batch(
            "INSERT INTO batch (batch_id, session_id, response_id, language, state) VALUES
               ('bat_x', 'ses_x', 'rsp_x', 'en', 'closed'), ('bat_9', 'ses_1', 'rsp_1', 'en', 'closed');
             DROP TRIGGER operation_comes_before_the_closing;
             INSERT INTO operation SELECT 1000 + sequence, 'op_x', 'a|b|c|70000', 'bat_9', 0, party_id, session_id, 'trn_x', tool, arguments,
               state, attempt, maybe_executed, result, error, accepted_unix_ms, accepted_synchronised, contradiction, handle, unreached
             FROM operation WHERE sequence = 1",
        )
        .expect("edited");
    drop(edited);
    let found = examine(&path, now());
    let findings = &contents(&found).findings;
    assert_eq!((&findings.damage, findings.unreadable_total), (&None, 3), "{findings:?}");
    for (row, what) in findings.unreadable.iter().zip(["operation op_x", "batch bat_x", "batch bat_9"]) {
        assert!(row.what.starts_with(&format!("{what} can't be read: ")), "{row:?}");
    }

    let done = mend(&path, &options()).expect("mended");
    let [done] = done.as_slice() else { panic!("{done:?}") };
    assert!(done.starts_with("removed 2 batches that were over") && done.contains("op_x"), "{done}");
    let well = examine(&path, now());
    assert_eq!((contents(&well).findings.unreadable_total, contents(&well).deliveries.clone()), (0, contents(&found).deliveries.clone()));
    assert!(well.set_aside.is_empty() && contents(&well).broken_rules.is_empty(), "{well:?}");
    assert_eq!(well.backups.len(), 1, "what was removed is in a backup");
    assert_eq!(open(&path, 3).1.occurrence_floor, 70_000, "a key that was used is not given out again");
}

#[test]
fn what_has_to_stay_keeps_nothing_else_from_being_removed_and_a_backup_is_made_also_where_none_are_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    drop(scene(&path));
    let edited = Connection::open(&path).expect("a database");
    // Batch 1 is over, but what is not refers to its closing; more rows of it can't be read than a doctor names. Another batch is over.
    edited
        .execute_batch(
            "DROP TRIGGER operation_comes_before_the_closing; DROP TRIGGER delivery_spoken_needs_evidence; DELETE FROM claim;
             UPDATE delivery SET state = 'spoken' WHERE sequence = 1; UPDATE batch SET state = 'closed' WHERE sequence = 1;
             UPDATE delivery SET state = 'superseded', superseded_by = (SELECT delivery_id FROM delivery WHERE sequence = 1) WHERE sequence = 2;
             WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 60)
             INSERT INTO operation SELECT 1000 + n, 'op_x' || n, 'a|b|c|' || (70000 + n), batch_id, 100 + n, party_id, session_id, 'trn_x', tool,
               arguments, state, attempt, maybe_executed, result, error, accepted_unix_ms, accepted_synchronised, contradiction, handle, unreached
             FROM operation, number WHERE sequence = 1;
             INSERT INTO batch (batch_id, session_id, response_id, language, state) VALUES ('bat_x', 'ses_x', 'rsp_x', 'en', 'closed')",
        )
        .expect("edited");
    drop(edited);
    assert_eq!(contents(&examine(&path, now())).findings.unreadable_total, 61);
    let done = mend(&path, &Options { backups: 0, ..options() }).expect("mended");
    let [done] = done.as_slice() else { panic!("{done:?}") };
    assert!(done.starts_with("removed 1 batches that were over") && done.contains("bat_x"), "{done}");
    let well = examine(&path, now());
    assert_eq!(contents(&well).findings.unreadable_total, 60, "what is referred to stays, and is said to");
    assert_eq!(well.backups.len(), 1, "what was removed is in a backup");
    assert!(done.contains(&well.backups[0].file.display().to_string()), "{done}");
}

#[test]
fn a_directory_in_the_place_of_a_file_of_the_stores_is_named_with_what_to_do_and_left_as_it_is() {
    for suffix in [".backup-new", ".restoring", ".restoring-wal", ".damaged-new", ".damaged", ".examined", ".reserve", ".lock"] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(recado::config::STORE_FILE);
        drop(scene(&path));
        make_backup(&path, 3).expect("a backup");
        let in_the_way = directory.path().join(format!("{}{suffix}", recado::config::STORE_FILE));
        drop(fs::remove_file(&in_the_way));
        fs::create_dir(&in_the_way).expect("made");
        fs::set_permissions(&in_the_way, fs::Permissions::from_mode(0o700)).expect("ours");
        fs::write(in_the_way.join("somebody's"), "work").expect("written");
        let whole = fs::read(&path).expect("there");
        fs::write(&path, [0xa5; 8_192]).expect("written");
        let refused = Store::open(&path, &options()).map(|(store, _)| drop(store));
        if ![".backup-new", ".reserve"].contains(&suffix) {
            assert!(matches!(&refused, Err(OpenError::Directory { path }) if *path == in_the_way), "{suffix}: {refused:?}");
        }
        if refused.is_ok() {
            fs::write(&path, whole).expect("written");
        }
        fs::write(directory.path().join("recado.toml"), "[box]\ndata_dir = \".\"\n").expect("written");
        fs::write(directory.path().join("dialogue.toml"), "").expect("written");
        for arguments in [&["doctor"][..], &["doctor", "--mend"]] {
            let mut doctor = std::process::Command::new(env!("CARGO_BIN_EXE_recado"));
            let said = doctor.current_dir(&directory).args(arguments).args(["-c", "recado.toml"]).output().expect("it runs");
            let text = String::from_utf8_lossy(&said.stdout);
            let named = format!("{} is a directory, and a file of the store's belongs there: move it away", in_the_way.display());
            assert!(said.status.code() == Some(3) && text.contains(&named), "{suffix}: {text}");
            assert!(!text.contains("--mend removes it") && !text.contains("check the disk (dmesg) that holds"), "{suffix}: {text}");
        }
        assert_eq!(fs::read_to_string(in_the_way.join("somebody's")).expect("kept"), "work");
        fs::remove_dir_all(&in_the_way).expect("removed");
        mend(&path, &options()).expect("mended");
    }
}

#[test]
fn what_a_name_beside_the_store_leads_to_is_left_alone() {
    let (directory, elsewhere) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let path = path_in(directory.path());
    drop(scene(&path));
    let mode = |file: &Path| fs::metadata(file).expect("there").permissions().mode() & 0o777;
    let (linked, named_twice, entered) =
        (elsewhere.path().join("linked"), elsewhere.path().join("named"), elsewhere.path().join("entered"));
    for file in [&linked, &named_twice] {
        fs::write(file, b"somebody else's").expect("written");
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).expect("ours");
    }
    fs::create_dir(&entered).expect("made");
    fs::set_permissions(&entered, fs::Permissions::from_mode(0o755)).expect("ours");
    let beside = |name: &str| path.with_file_name(format!("state.db.{name}"));
    std::os::unix::fs::symlink(&linked, beside("old")).expect("a link");
    std::os::unix::fs::symlink(&entered, beside("copies")).expect("a link");
    fs::hard_link(&named_twice, beside("older")).expect("a name");
    assert!(run("mkfifo", &["-m", "644", &beside("pipe").to_string_lossy()]));
    assert_eq!(examine(&path, now()).readable_by_others, Vec::<std::path::PathBuf>::new());
    assert_eq!(mend(&path, &options()).expect("mended"), Vec::<String>::new());
    assert_eq!([&linked, &named_twice, &entered].map(|file| mode(file)), [0o644, 0o644, 0o755]);
}

#[test]
fn what_root_has_mended_belongs_to_the_user_that_runs_the_box() {
    use std::os::unix::fs::{MetadataExt, chown};
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    drop(scene(&path));
    make_backup(&path, 3).expect("a backup");
    let uid = |file: &Path| fs::metadata(file).expect("there").uid();
    if uid(directory.path()) != 0 {
        eprintln!("skipped: only root can give files away");
        return;
    }
    chown(directory.path(), Some(4_711), Some(4_712)).expect("given");
    fs::remove_file(&path).expect("removed");
    let ill = examine(&path, now());
    assert!(ill.of_root.iter().any(|file| file.to_string_lossy().ends_with(".backup-1")), "{ill:?}");
    let done = mend(&path, &options()).expect("mended");
    assert!(done[0].starts_with("gave "), "{done:?}");
    assert!(examine(&path, now()).of_root.is_empty());
    let files: Vec<_> = fs::read_dir(directory.path()).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    assert!(files.contains(&path) && files.len() >= 5, "{files:?}");
    for file in files {
        assert_eq!((uid(&file), fs::metadata(&file).expect("there").gid()), (4_711, 4_712), "{}", file.display());
    }
}

#[test]
fn a_directory_of_roots_in_which_the_boxs_group_may_write_is_well_and_what_root_mends_there_is_the_boxs() {
    use std::os::unix::fs::{MetadataExt, chown};
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    drop(scene(&path));
    if fs::metadata(&path).expect("there").uid() != 0 {
        eprintln!("skipped: only root can give files away");
        return;
    }
    let files = || fs::read_dir(directory.path()).expect("a directory").map(|entry| entry.expect("an entry").path());
    chown(directory.path(), Some(0), Some(4_712)).expect("given");
    for file in files() {
        chown(file, Some(4_711), Some(4_712)).expect("given");
    }
    assert_eq!(examine(&path, now()).of_root, Vec::<std::path::PathBuf>::new());
    fs::remove_file(path.with_file_name("state.db.reserve")).expect("there");
    assert_eq!(mend(&path, &options()).expect("mended"), ["made the reserve for a full disk"]);
    for file in files() {
        assert_eq!(fs::metadata(&file).expect("there").uid(), 4_711, "{}", file.display());
    }
    // What another user has made there is nothing that root's doctor gives away.
    let anothers = path.with_file_name("state.db.note");
    fs::write(&anothers, b"").and_then(|()| fs::set_permissions(&anothers, fs::Permissions::from_mode(0o600))).expect("written");
    chown(&anothers, Some(4_713), Some(4_713)).expect("given");
    assert_eq!(mend(&path, &options()).expect("mended"), Vec::<String>::new());
    assert_eq!(fs::metadata(&anothers).expect("there").uid(), 4_713);
}

#[test]
fn a_doctor_that_is_not_root_mends_the_rest_and_names_what_only_root_can_give() {
    use std::os::unix::fs::{MetadataExt, chown};
    use std::os::unix::process::CommandExt;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(recado::config::STORE_FILE);
    drop(scene(&path));
    if fs::metadata(&path).expect("there").uid() != 0 {
        eprintln!("skipped: only root can give files away");
        return;
    }
    let config = directory.path().join("recado.toml");
    fs::write(&config, format!("[box]\ndata_dir = {:?}\n", directory.path())).expect("written");
    let dialogue = "[greeting]\nsay.en = \"Hello.\"\n[otherwise]\nsay.en = \"Yes?\"\n";
    fs::write(directory.path().join("dialogue.toml"), dialogue).expect("written");
    let file = |suffix: &str| path.with_file_name(format!("{}{suffix}", recado::config::STORE_FILE));
    fs::write(file(".backup-new"), b"half").expect("written");
    for entry in fs::read_dir(directory.path()).expect("a directory") {
        chown(entry.expect("an entry").path(), Some(4_711), Some(4_712)).expect("given");
    }
    chown(directory.path(), Some(4_711), Some(4_712)).expect("given");
    let of_root = file(".note");
    fs::write(&of_root, b"").and_then(|()| fs::set_permissions(&of_root, fs::Permissions::from_mode(0o600))).expect("written");
    let mut doctor = std::process::Command::new(env!("CARGO_BIN_EXE_recado"));
    doctor.args(["doctor", "--mend", "--json", "-c"]).arg(&config).uid(4_711).gid(4_712);
    let said = doctor.output().expect("it runs");
    let found: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    assert!(found["mended"][0].as_str().is_some_and(|done| done.starts_with("removed ") && done.contains(".backup-new")), "{found}");
    let problems = found["problems"].as_array().expect("a list");
    assert!(problems.len() == 1 && problems[0].as_str().is_some_and(|text| text.contains(".note belongs to root")), "{found}");
    assert_eq!(said.status.code(), Some(3));
}

#[test]
fn a_store_on_a_disk_that_can_not_be_written_is_read_all_the_same() {
    let at = tempfile::tempdir().expect("a directory").keep();
    let place = at.to_string_lossy().into_owned();
    if !run("mount", &["-t", "tmpfs", "-o", "size=8m", "recado-test", &place]) {
        eprintln!("skipped: mounting a small disk is not permitted here");
        return;
    }
    let path = path_in(&at);
    drop(scene(&path));
    assert!(run("mount", &["-o", "remount,ro", &place]));
    let found = examine(&path, now());
    assert!(run("umount", &["-l", &place]));
    drop(fs::remove_dir(&at));
    assert!(contents(&found).without_log);
    assert_eq!(contents(&found).deliveries.get("ready"), Some(&2));
}

#[test]
fn what_a_start_refuses_or_sets_aside_is_foretold_and_looking_changes_nothing() {
    let write = |file: &Path, at: usize, byte: u8| {
        let mut bytes = fs::read(file).expect("there");
        bytes[at] ^= byte;
        fs::write(file, bytes).expect("written");
    };
    let log = |path: &Path| path.with_file_name("state.db-wal");
    // What the file says counts where the log has nothing.
    let write_alone = |path: &Path, at: usize, byte: u8| {
        fs::write(log(path), b"").expect("written");
        write(path, at, byte);
    };
    type Harm<'a> = Box<dyn Fn(&Path) + 'a>;
    let harms: [(&str, Harm, &str); 5] = [
        ("whose it is", Box::new(|path| write_alone(path, 69, 0x10)), "says that it is not recado's"),
        ("which schema it has", Box::new(|path| write_alone(path, 60, 0x40)), "which it does not have"),
        ("a part of the log", Box::new(|path| write(&log(path), 32 + 3 * 4_120 + 600, 0x10)), "a part of its log is damaged"),
        ("the beginning of the log", Box::new(|path| write(&log(path), 0, 0x10)), "its log has no beginning"),
        (
            "a link",
            Box::new(|path| {
                fs::rename(path, path.with_file_name("elsewhere")).expect("moved");
                std::os::unix::fs::symlink("elsewhere", path).expect("linked");
            }),
            "it is a link",
        ),
    ];
    for (what, harm, said) in harms {
        let (directory, copy) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let store = scene(&path_in(directory.path()));
        let path = path_in(copy.path());
        // The first page in the file, too.
        let looking = Connection::open(path_in(directory.path())).expect("a database");
        looking.query_row("PRAGMA wal_checkpoint", [], |_| Ok(())).expect("moved into the file");
        for part in ["", "-wal", ".reserve"] {
            let name = format!("state.db{part}");
            fs::copy(directory.path().join(&name), copy.path().join(&name)).expect("copied");
        }
        drop((store, looking));
        harm(&path);
        let before = fs::read(log(&path)).expect("there");
        let found = examine(&path, now());
        assert!(found.unreadable.as_ref().is_some_and(|why| why.contains(said)), "{what}: {:?}", found.unreadable);
        assert_eq!(fs::read(log(&path)).expect("there"), before, "{what}");
        let started = Store::open(&path, &options());
        assert!(started.as_ref().map_or(true, |(store, _)| store.loss().is_some()), "{what}: {:?}", started.err());
    }
}

#[test]
fn where_there_is_no_store_the_doctor_says_so_and_makes_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let found = examine(&path, now());
    assert!(found.unreadable.is_some_and(|why| why.contains("there is no store")));
    assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 0);
}
