//! Opening: what is made, what is refused, and that what is refused is left as it was.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use recado::coordination::{OpenError, Options, ReadError, Reader, Recovered, Store, examine, make_backup};
use recado_core::conversation::input::Evidence;
use recado_core::ids::BootId;
use recado_core::ledger::{BatchRecord, BatchState, DeliveryRecord, DeliveryState, OperationRecord, OperationState, Write};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::faults::run;
use crate::fixtures::{accepted, batch, claim, clause, commit, delivery, open, operation, path_in, succeeded, wall};

fn refused(path: &Path) -> OpenError {
    match Store::open(path, &Options::new(BootId(9), wall(1))) {
        Ok(_) => panic!("opened"),
        Err(error) => error,
    }
}

/// Every file of the store and its bytes, save the lock that says who looked last and what SQLite's looking in leaves: the
/// index of the log, and a log without content.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let named = entries.map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), fs::read(&path).expect("readable")));
    named
        .filter(|(name, bytes)| !(name.ends_with(".lock") || name.ends_with("-shm") || name.ends_with("-wal") && bytes.is_empty()))
        .collect()
}

#[test]
fn a_new_store_is_empty_and_private() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("recado").join("state.db");
    let (store, recovered) = open(&path, 1);
    assert_eq!(recovered, Recovered { next_sequence: 1, ..Recovered::default() });
    let mode = |path: &Path| fs::metadata(path).expect("made").permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().expect("a parent")), 0o700);
    for suffix in ["", "-wal", "-shm", ".lock", ".reserve"] {
        let file = path.with_file_name(format!("state.db{suffix}"));
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    assert_eq!(store.path(), path);
}

#[test]
fn an_existing_store_that_others_could_read_becomes_private() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    drop(open(&path, 1));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("ours");
    drop(open(&path, 2));
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_secret_is_made_once_and_never_printed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let first = open(&path, 1).0.callback_secret().clone();
    assert_eq!(&first, open(&path, 2).0.callback_secret());
    assert_ne!(first.expose(), &[0; 32]);
    let elsewhere = tempfile::tempdir().expect("a directory");
    assert_ne!(&first, open(&path_in(elsewhere.path()), 1).0.callback_secret());
    assert_eq!(format!("{first:?}"), "CallbackSecret(..)");
}

#[test]
fn a_second_instance_is_told_who_has_the_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let first = open(&path, 1);
    match refused(&path) {
        OpenError::InUse { pid, .. } => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other}"),
    }
    drop(first);
    drop(open(&path, 2));
}

#[test]
fn a_store_that_was_closed_is_free_also_while_other_processes_are_started() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (done, over) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                let started = std::process::Command::new("true").status();
                assert!(started.is_ok_and(|status| status.success()));
            }
        });
        for boot in 1..=60 {
            drop(open(&path, boot));
        }
        drop(done);
    });
}

#[test]
fn a_missing_directory_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("not").join("there").join("state.db");
    match refused(&path) {
        OpenError::DirectoryMissing { directory: missing } => assert_eq!(missing, directory.path().join("not")),
        other => panic!("{other}"),
    }
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    for in_the_log in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = path_in(directory.path());
        drop(open(&path, 1));
        let newer = Connection::open(&path).expect("a database");
        newer.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, in_the_log).expect("a setting");
        newer.pragma_update(None, "user_version", 999).expect("a version");
        drop(newer);
        let before = files(directory.path());
        assert_eq!(in_the_log, before.contains_key("state.db-wal"), "the version must be where this case wants it");
        match refused(&path) {
            OpenError::Newer { found: 999, .. } => {}
            other => panic!("{other}"),
        }
        assert!(files(directory.path()) == before, "a file was changed");
        assert!(matches!(Reader::open(&path), Err(ReadError::Foreign { .. })));
    }
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    for content in [b"dear diary".repeat(50), b"short".to_vec(), vec![0; 4096]] {
        fs::write(&path, &content).expect("written");
        assert!(matches!(refused(&path), OpenError::NotAStore { .. }));
        assert!(matches!(Reader::open(&path), Err(ReadError::Foreign { .. })), "{:?}", Reader::open(&path));
        assert_eq!(fs::read(&path).expect("there"), content);
    }
}

#[test]
fn another_programs_database_is_refused_and_left_alone() {
    for application_id in [0, 4711] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = path_in(directory.path());
        let other = Connection::open(&path).expect("a database");
        other.execute_batch("CREATE TABLE theirs (x)").expect("a table");
        other.pragma_update(None, "application_id", application_id).expect("an id");
        drop(other);
        let before = files(directory.path());
        assert!(matches!(refused(&path), OpenError::NotAStore { .. }));
        assert!(files(directory.path()) == before, "a file was changed");
    }
}

#[test]
fn a_row_that_does_not_read_back_is_damage_and_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1);
    assert_eq!(commit(&mut store, accepted(1)), Ok(()));
    let good = make_backup(&path, 3).expect("a backup");
    assert_eq!(commit(&mut store, accepted(2)), Ok(()));
    drop(store);
    let edited = Connection::open(&path).expect("a database");
    let edit = "DROP TRIGGER operation_identity_is_kept; UPDATE operation SET turn_id = 'trn_1' WHERE sequence = 1";
    edited.execute_batch(edit).expect("an edit");
    drop(edited);
    assert!(make_backup(&path, 3).is_err_and(|error| error.to_string().contains("can't be read")), "such a copy is no good one");
    let (store, recovered) = open(&path, 2);
    let loss = store.loss().expect("a loss");
    assert!(loss.reason.contains(&operation(1, 1).id.to_string()), "{loss:?}");
    assert_eq!(loss.restored, Some(good));
    let found: Vec<u128> = recovered.operations.iter().map(|operation| operation.id.0).collect();
    assert_eq!(found, [1, 2], "from the backup, and from what can be read");
}

#[test]
fn what_is_over_and_does_not_read_back_is_left_out_by_a_start_and_its_key_is_not_used_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1);
    for number in 1..=4 {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
        assert_eq!(commit(&mut store, succeeded(number)), Ok(()));
    }
    for number in 1..=3 {
        let heard = vec![clause(number, Some(Evidence::Received))];
        let spoken = DeliveryRecord { state: DeliveryState::Spoken, clauses: heard, ..delivery(number, number) };
        let closed = BatchRecord { state: BatchState::Closed, ..batch(number) };
        assert_eq!(commit(&mut store, vec![Write::UpdateDelivery(spoken), Write::UpdateBatch(closed)]), Ok(()));
    }
    drop(store);
    // Of three that are over the operation of one and the closing of another.
    let edited = Connection::open(&path).expect("a database");
    let edit = "DROP TRIGGER operation_identity_is_kept; DROP TRIGGER delivery_identity_is_kept;
        UPDATE operation SET turn_id = 'trn_1', intent_key = 'a|b|c|9' WHERE sequence = 2; UPDATE delivery SET session_id = 'ses_1' WHERE sequence = 3";
    edited.execute_batch(edit).expect("an edit");
    let (store, recovered) = open(&path, 2);
    assert_eq!(store.loss(), None);
    let ids = |of: &[u128], found: Vec<u128>| assert_eq!(found, of);
    ids(&[1, 4], recovered.batches.iter().map(|batch| batch.id.0).collect());
    ids(&[1, 4], recovered.operations.iter().map(|operation| operation.id.0).collect());
    ids(&[1, 4], recovered.deliveries.iter().map(|delivery| delivery.id.0).collect());
    assert_eq!(recovered.occurrence_floor, 9);
    drop(store);
    // As soon as something is owed for it, it is damage.
    edited
        .execute_batch("DROP TRIGGER delivery_terminal_is_kept; UPDATE delivery SET state = 'ready' WHERE sequence = 2")
        .expect("an edit");
    assert!(open(&path, 3).0.loss().is_some_and(|loss| loss.reason.contains(&operation(2, 2).id.to_string())));
}

#[test]
fn a_cut_between_creation_and_first_page_leaves_a_store_that_opens() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    fs::write(&path, b"").expect("written");
    drop(open(&path, 1));
}

#[test]
fn there_is_nothing_to_read_where_there_is_no_store() {
    let directory = tempfile::tempdir().expect("a directory");
    assert!(matches!(Reader::open(&path_in(directory.path())), Err(ReadError::Missing { .. })));
    assert!(files(directory.path()).is_empty(), "looking made something");
}

#[test]
fn a_restart_reads_back_what_is_not_over_and_the_most_recent_of_the_rest() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1);
    for number in 1..=10 {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
        assert_eq!(commit(&mut store, succeeded(number)), Ok(()));
        let heard = vec![clause(number, Some(Evidence::Received))];
        let spoken = DeliveryRecord { state: DeliveryState::Spoken, clauses: heard, ..delivery(number, number) };
        let closed = BatchRecord { state: BatchState::Closed, ..batch(number) };
        assert_eq!(commit(&mut store, vec![Write::UpdateDelivery(spoken), Write::UpdateBatch(closed)]), Ok(()));
    }
    assert_eq!(commit(&mut store, accepted(11)), Ok(()));
    let running = OperationRecord { state: OperationState::Running, attempt: 1, ..operation(11, 11) };
    assert_eq!(commit(&mut store, vec![Write::UpdateOperation(running.clone())]), Ok(()));
    assert_eq!(commit(&mut store, accepted(12)), Ok(()));
    assert_eq!(commit(&mut store, succeeded(12)), Ok(()));
    // Closed too early, by whatever fault: what it owes is read back all the same.
    let closed = BatchRecord { state: BatchState::Closed, ..batch(12) };
    assert_eq!(commit(&mut store, vec![claim(12, 1), Write::UpdateBatch(closed)]), Ok(()));
    drop(store);
    let options = Options { recent_operations_max: 3, ..Options::new(BootId(2), wall(5)) };
    let (_store, recovered) = Store::open(&path, &options).expect("opens");
    assert_eq!(recovered.batches.iter().map(|record| record.id.0).collect::<Vec<_>>(), [10, 11, 12]);
    assert_eq!(recovered.operations.iter().map(|record| record.id.0).collect::<Vec<_>>(), [10, 11, 12]);
    assert_eq!(recovered.operations[1], running);
    assert_eq!(recovered.deliveries.iter().map(|record| record.id.0).collect::<Vec<_>>(), [10, 12]);
    assert_eq!(recovered.claims.len(), 1);
    assert_eq!(recovered.claims[0].2, BootId(1), "the claim's owner is the boot that is over");
    assert_eq!(recovered.next_sequence, 13);
    assert_eq!(recovered.occurrence_floor, 9, "the highest of what is not read back");
}

#[test]
fn a_named_pipe_in_the_place_of_one_of_the_stores_files_is_refused_at_once() {
    let said = |error: &dyn std::fmt::Display, path: &Path| {
        assert!(error.to_string().contains("is a named pipe, not a file"), "{}: {error}", path.display());
    };
    for name in ["state.db", "state.db.damaged"] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = path_in(directory.path());
        assert!(run("mkfifo", &[&path.with_file_name(name).to_string_lossy()]));
        said(&refused(&path), &path);
        if name == "state.db" {
            said(&examine(&path, wall(1)).unreadable.expect("a pipe"), &path);
            said(&Reader::open(&path).expect_err("a pipe"), &path);
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    for name in ["state.db.lock", "state.db.backup-1"] {
        assert!(run("mkfifo", &[&path.with_file_name(name).to_string_lossy()]));
    }
    let found = examine(&path, wall(1));
    assert_eq!(found.in_use_by, None);
    said(found.backups[0].damage.as_ref().expect("a pipe"), &path);
}
