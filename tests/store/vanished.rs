//! A store whose file has gone: it is taken for lost, never for one that has not been.

use std::fs;
use std::path::{Path, PathBuf};

use recado::coordination::{OpenError, Options, Recovered, Store, backups, is_missing, lost_stores, make_backup, mend, was_missing};
use recado_core::ids::BootId;
use recado_core::ledger::{DeliveryState, OperationState};

use crate::fixtures::{accepted, commit, open, path_in, succeeded, wall};

/// A store in which operation 1 has succeeded and waits to be told, and 2 is under way; then, where it is wanted, a backup; then the file is
/// removed.
fn vanished(directory: &Path, with_backup: bool) -> PathBuf {
    let path = path_in(directory);
    let (mut store, _) = open(&path, 1);
    for number in [1, 2] {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
    }
    assert_eq!(commit(&mut store, succeeded(1)), Ok(()));
    if with_backup {
        make_backup(&path, 3).expect("a backup");
    }
    drop(store);
    fs::remove_file(&path).expect("removed");
    path
}

/// What is known is what the backup had, and that it may be out of date.
fn is_as_the_backup_was(store: &Store, recovered: &Recovered) {
    let path = store.path();
    let loss = store.loss().expect("a loss");
    assert_eq!(loss.restored, backups(&path).first().cloned());
    assert!(loss.reason.starts_with("it was not there"), "{loss:?}");
    assert_eq!((loss.operations_unknown, loss.deliveries_uncertain), (1, 1));
    let states: Vec<OperationState> = recovered.operations.iter().map(|operation| operation.state).collect();
    assert_eq!(states, [OperationState::Succeeded, OperationState::Unknown]);
    assert_eq!(recovered.deliveries.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), [DeliveryState::Uncertain]);
}

#[test]
fn the_newest_backup_takes_the_place_of_a_store_that_has_gone_as_after_damage() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = vanished(directory.path(), true);
    fs::write(path.with_file_name("state.db-wal"), b"what the log held").expect("written");
    assert!(is_missing(&path));
    let (store, recovered) = open(&path, 3);
    is_as_the_backup_was(&store, &recovered);
    let lost = lost_stores(&path);
    assert_eq!(lost, [path.with_file_name(format!("state.db.missing-{}-1", BootId(3)))]);
    assert!(was_missing(&lost[0]) && fs::read(&lost[0]).expect("there").is_empty());
    let log = path.with_file_name(format!("state.db.missing-{}-1-wal", BootId(3)));
    assert_eq!(fs::read(log).expect("there"), b"what the log held", "what is left of it is kept");
    drop(store);
    // It is over: the next start is like any other, and what says so stays until somebody has seen to it.
    let (store, again) = open(&path, 4);
    assert_eq!((store.loss(), again.operations), (None, recovered.operations));
    assert_eq!(lost_stores(&path), lost);
}

#[test]
fn a_store_that_has_gone_before_its_first_backup_is_not_begun_anew_in_silence() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = vanished(directory.path(), false);
    let (store, recovered) = open(&path, 3);
    assert_eq!(recovered.operations.len() + recovered.deliveries.len(), 0);
    let loss = store.loss().expect("a loss");
    assert!(loss.reason.starts_with("it was not there") && loss.reason.contains("callbacks"), "{loss:?}");
    assert_eq!((&loss.restored, lost_stores(&path).len()), (&None, 1));
}

#[test]
fn a_store_is_begun_in_silence_where_none_has_been_or_all_that_belonged_to_it_was_taken() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    assert!(!is_missing(&path));
    let (store, _) = open(&path, 1);
    assert_eq!((store.loss(), lost_stores(&path).len()), (None, 0));
    make_backup(&path, 3).expect("a backup");
    drop(store);
    // As the doctor and the manual say.
    let elsewhere = tempfile::tempdir().expect("a directory");
    for entry in fs::read_dir(directory.path()).expect("a directory").map(|entry| entry.expect("an entry")) {
        assert!(entry.file_name().to_string_lossy().starts_with("state.db"), "{entry:?}");
        fs::rename(entry.path(), elsewhere.path().join(entry.file_name())).expect("moved");
    }
    assert!(!is_missing(&path));
    let (store, _) = open(&path, 2);
    assert_eq!((store.loss(), lost_stores(&path).len()), (None, 0));
}

#[test]
fn a_power_cut_while_a_backup_takes_its_place_is_gone_on_with() {
    for steps in 0..=3 {
        let directory = tempfile::tempdir().expect("a directory");
        let path = vanished(directory.path(), true);
        let target = format!("state.db.missing-{}-1", BootId(7));
        let note = |word: &str| {
            let text = format!("{word}\n{target}\nit was not there, though a store had been\n");
            fs::write(path.with_file_name("state.db.damaged"), text).expect("written");
        };
        if steps > 0 {
            note("moving");
        }
        if steps > 1 {
            fs::write(path.with_file_name(&target), b"").expect("written");
        }
        if steps > 2 {
            note("moved");
            // A store that was begun, whose loss was not recorded yet.
            fs::write(&path, b"").expect("written");
        }
        let (store, recovered) = open(&path, 7);
        is_as_the_backup_was(&store, &recovered);
        assert_eq!(lost_stores(&path), [path.with_file_name(&target)], "after {steps} steps");
        assert!(!path.with_file_name("state.db.damaged").exists());
    }
}

/// A store that was set aside as `infix` says, as far as `word` says, and nothing could take its place yet.
fn note(path: &Path, word: &str, infix: &str) {
    let target = format!("state.db{infix}{}-1", BootId(7));
    fs::write(path.with_file_name(&target), b"").expect("written");
    fs::write(path.with_file_name("state.db.damaged"), format!("{word}\n{target}\nit was not there\n")).expect("written");
}

#[test]
fn a_store_that_somebody_puts_back_before_another_took_its_place_is_used_and_never_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1);
    assert_eq!(commit(&mut store, accepted(1)), Ok(()));
    make_backup(&path, 3).expect("a backup");
    assert_eq!(commit(&mut store, succeeded(1)), Ok(()));
    drop(store);
    // Found, and put back.
    for word in ["moving", "moved"] {
        note(&path, word, ".missing-");
        let (store, recovered) = open(&path, 8);
        assert_eq!((store.loss(), recovered.deliveries.len()), (None, 1), "{word}");
        assert!(!path.with_file_name("state.db.damaged").exists());
        assert_eq!(lost_stores(&path).len(), 1, "that it had gone stays said");
    }

    // One that is damaged is kept, too.
    note(&path, "moved", ".corrupt-");
    let mut bytes = fs::read(&path).expect("there");
    bytes[4_096..].fill(0xa5);
    fs::write(&path, &bytes).expect("written");
    let (store, _) = open(&path, 9);
    let loss = store.loss().expect("a loss");
    assert_eq!(fs::read(&loss.set_aside).expect("there"), bytes);
    assert_eq!(loss.restored, backups(&path).first().cloned());
    drop(store);

    // So is a log without its file.
    fs::remove_file(&path).expect("removed");
    fs::remove_file(path.with_file_name(format!("state.db.corrupt-{}-1", BootId(7)))).expect("removed");
    note(&path, "moved", ".corrupt-");
    fs::write(path.with_file_name("state.db-wal"), b"what the log held").expect("written");
    assert!(open(&path, 10).0.loss().is_some());
    let kept = path.with_file_name(format!("state.db.corrupt-{}-1-wal", BootId(10)));
    assert_eq!(fs::read(kept).expect("there"), b"what the log held");
}

#[test]
fn a_store_that_goes_again_and_again_is_given_no_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = vanished(directory.path(), true);
    for boot in 10..15 {
        assert!(open(&path, boot).0.loss().is_some());
        fs::remove_file(&path).expect("removed");
    }
    let refused = Store::open(&path, &Options::new(BootId(15), wall(1)));
    assert!(matches!(refused, Err(OpenError::TooManySetAside { number: 5, .. })), "{:?}", refused.err());
    assert!(!path.exists());
}

#[test]
fn a_doctor_mends_it_as_a_start_does() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = vanished(directory.path(), true);
    let done = mend(&path, &Options::new(BootId(77), wall(1))).expect("mended");
    let backup = backups(&path)[0].display().to_string();
    let lost = "1 operations are not known, 1 closings uncertain, and are told so when the box runs";
    let expected = format!("put the backup {backup} in the place of the store, which was not there; {lost}");
    assert_eq!(done, [expected]);
}
