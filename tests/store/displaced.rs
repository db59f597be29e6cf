//! A store whose files are moved, removed, replaced or cut while it is open: what was promised on it is found by whoever opens it next,
//! however soon the process is killed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recado::coordination::{CommitError, OpenError, Options, Recovered, Store, backups, foreign_files, lost_stores, make_backup};
use recado_core::ids::BootId;
use recado_core::ledger::{DeliveryState, OperationRecord, OperationState, Write};
use serde_json::json;

use crate::faults::{Disk, fill};
use crate::fixtures::{accepted, batch, commit, delivery, open, operation, path_in, succeeded, wall};

/// What is done to the files of a store, in its directory, while it is open.
type Harm = fn(&Path);

const HARMS: [(&str, Harm); 11] = [
    ("the file is moved away", |data| fs::rename(path_in(data), data.with_file_name("elsewhere")).expect("moved")),
    ("the file is removed", |data| fs::remove_file(path_in(data)).expect("removed")),
    ("all of it is removed", |data| each_file(data, |file| fs::remove_file(file).expect("removed"))),
    ("its directory is moved away", |data| fs::rename(data, data.with_file_name("elsewhere")).expect("moved")),
    ("its directory is replaced by an empty one", |data| {
        fs::rename(data, data.with_file_name("elsewhere")).expect("moved");
        fs::create_dir(data).expect("made");
    }),
    ("its log is removed", |data| fs::remove_file(beside(data, "-wal")).expect("removed")),
    ("its log is replaced by an empty one", |data| {
        fs::remove_file(beside(data, "-wal")).expect("removed");
        File::create(beside(data, "-wal")).expect("made");
    }),
    ("the index of its log is removed", |data| fs::remove_file(beside(data, "-shm")).expect("removed")),
    ("its log and the index are removed", |data| {
        ["-wal", "-shm"].iter().for_each(|part| fs::remove_file(beside(data, part)).expect("removed"))
    }),
    ("a backup is put in its place", |data| {
        fs::copy(beside(data, ".backup-1"), data.join("copy")).expect("copied");
        fs::rename(data.join("copy"), path_in(data)).expect("moved");
    }),
    ("another file is put in its place, with a log of its own", |data| {
        for part in ["", "-wal"] {
            fs::write(data.join("other"), b"somebody's").expect("written");
            fs::rename(data.join("other"), beside(data, part)).expect("moved");
        }
    }),
];

fn beside(data: &Path, part: &str) -> PathBuf {
    data.join(format!("state.db{part}"))
}

fn each_file(data: &Path, act: impl Fn(&Path)) {
    fs::read_dir(data).expect("a directory").for_each(|entry| act(&entry.expect("an entry").path()));
}

/// A store in `data`, of boot 1: operation 1 was accepted before the backup and has succeeded since, 2 is under way. It tries again at once.
fn store_in(data: &Path) -> Store {
    let options = Options { reopen_after: Duration::ZERO, ..Options::new(BootId(1), wall(1)) };
    let (mut store, _) = Store::open(&path_in(data), &options).expect("opens");
    for number in [1, 2] {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
    }
    make_backup(&path_in(data), 3).expect("a backup");
    assert_eq!(commit(&mut store, succeeded(1)), Ok(()));
    store
}

/// What a start finds after the process was killed now.
fn found_after_a_kill(data: &Path) -> (Store, Recovered, tempfile::TempDir) {
    let copy = tempfile::tempdir().expect("a directory");
    each_file(data, |file| {
        fs::copy(file, copy.path().join(file.file_name().expect("a name"))).expect("copied");
    });
    let (store, recovered) = open(&path_in(copy.path()), 9);
    (store, recovered, copy)
}

fn is_whole(what: &str, data: &Path, operations: &[OperationState], deliveries: usize) {
    let (store, recovered, _copy) = found_after_a_kill(data);
    assert_eq!((store.loss(), lost_stores(&store.path()).len()), (None, 0), "{what}");
    let states: Vec<OperationState> = recovered.operations.iter().map(|operation| operation.state).collect();
    assert_eq!(states, operations, "{what}");
    let states: Vec<DeliveryState> = recovered.deliveries.iter().map(|delivery| delivery.state).collect();
    assert_eq!(states, vec![DeliveryState::Ready; deliveries], "{what}");
}

#[test]
fn what_is_promised_and_was_is_found_whatever_becomes_of_the_files() {
    use OperationState::{Accepted, Succeeded};
    for (what, harm) in HARMS {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        let mut store = store_in(&data);
        harm(&data);
        assert_eq!(commit(&mut store, succeeded(2)), Ok(()), "{what}");
        is_whole(what, &data, &[Succeeded, Succeeded], 2);
        // It is the same store: new work is taken, and the next start is like any other.
        assert_eq!((commit(&mut store, accepted(3)), store.restart_wanted()), (Ok(()), None), "{what}");
        is_whole(what, &data, &[Succeeded, Succeeded, Accepted], 2);
        drop(store);
        is_whole(what, &data, &[Succeeded, Succeeded, Accepted], 2);
    }
}

#[test]
fn an_idle_store_and_one_that_is_closed_see_to_their_files_too() {
    use OperationState::{Accepted, Succeeded};
    for (what, harm) in HARMS {
        for closes in [false, true] {
            let directory = tempfile::tempdir().expect("a directory");
            let data = directory.path().join("data");
            let mut store = store_in(&data);
            harm(&data);
            if closes {
                drop(store);
            } else {
                store.look_after();
                assert_eq!(store.restart_wanted(), None, "{what}");
            }
            is_whole(what, &data, &[Succeeded, Accepted], 1);
        }
    }
}

#[test]
fn files_that_are_taken_again_and_again_are_written_again_each_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut store = store_in(&data);
    for (number, (what, harm)) in (10..).zip(HARMS.iter().filter(|(what, _)| !what.contains("directory") && !what.contains("all of it"))) {
        harm(&data);
        assert_eq!(commit(&mut store, accepted(number)), Ok(()), "{what}");
    }
    let (_, recovered, _copy) = found_after_a_kill(&data);
    assert_eq!((recovered.operations.len(), recovered.deliveries.len()), (10, 1));
}

#[test]
fn what_is_put_in_the_place_of_an_open_store_is_kept_and_never_read_as_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut store = store_in(&data);
    for harm in [HARMS[9].1, HARMS[10].1] {
        harm(&data);
        store.look_after();
    }
    let kept = foreign_files(&path_in(&data));
    assert_eq!(kept, [beside(&data, ".foreign-1"), beside(&data, ".foreign-2")]);
    assert_eq!(fs::read(&kept[0]).expect("there"), fs::read(&backups(&path_in(&data))[0]).expect("there"));
    for part in ["", "-wal"] {
        assert_eq!(fs::read(beside(&data, &format!(".foreign-2{part}"))).expect("there"), b"somebody's");
    }
}

#[test]
fn whoever_goes_on_putting_files_there_fills_no_disk_with_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut store = store_in(&data);
    let put_one = || HARMS[9].1(&data);
    for number in 1..=5 {
        put_one();
        assert!(store.look_after());
        assert_eq!(foreign_files(&path_in(&data)).len(), number);
    }
    put_one();
    let refused = commit(&mut store, succeeded(2)).expect_err("it would be lost");
    assert!(matches!(&refused, CommitError::Displaced(reason) if reason.contains("move its *.foreign-* files away")), "{refused}");
    assert_eq!(store.restart_wanted(), None);
    // Nobody sees to it, and the box is stopped: that one is set aside.
    drop(store);
    let (store, recovered) = open(&path_in(&data), 2);
    assert_eq!((store.loss(), recovered.deliveries.len(), lost_stores(&path_in(&data)).len()), (None, 1, 1));
    assert_eq!(fs::read(&lost_stores(&path_in(&data))[0]).expect("there"), fs::read(beside(&data, ".backup-1")).expect("there"));
}

#[test]
fn what_can_not_be_written_again_before_the_end_is_a_loss_on_record() {
    for (what, harm) in HARMS.iter().filter(|(what, _)| !what.contains("index") && !what.contains("directory")) {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        let store = store_in(&data);
        // It stands in the way of what would be written.
        let in_the_way = beside(&data, ".restoring");
        harm(&data);
        fs::create_dir(&in_the_way).expect("made");
        drop(store);
        fs::remove_dir(&in_the_way).expect("removed");
        let (store, recovered) = open(&path_in(&data), 2);
        let loss = store.loss().unwrap_or_else(|| panic!("{what}: begun anew in silence"));
        let states: Vec<DeliveryState> = recovered.deliveries.iter().map(|delivery| delivery.state).collect();
        assert!(!states.contains(&DeliveryState::Ready), "{what}: {states:?}, {loss:?}");
        for operation in &recovered.operations {
            assert!(matches!(operation.state, OperationState::Unknown | OperationState::Succeeded), "{what}: {operation:?}");
        }
    }
}

#[test]
fn being_written_again_is_gone_on_with_after_a_cut() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut store = store_in(&data);
    // What the cut leaves: the copy that is whole, and in its place what was there, an older state, another's or nothing, with a log or without.
    let whole = directory.path().join("whole");
    fs::remove_file(path_in(&data)).expect("removed");
    store.look_after();
    drop(store);
    fs::copy(path_in(&data), &whole).expect("copied");
    for there in [Some(beside(&data, ".backup-1")), None] {
        for log in [false, true] {
            each_file(&data, |file| {
                if !file.to_string_lossy().contains(".backup-") {
                    fs::remove_file(file).expect("removed");
                }
            });
            fs::copy(&whole, beside(&data, ".whole")).expect("copied");
            if let Some(there) = &there {
                fs::copy(there, path_in(&data)).expect("copied");
            }
            if log {
                fs::write(beside(&data, "-wal"), vec![0x37; 40_000]).expect("written");
            }
            is_whole(&format!("{there:?}, {log}"), &data, &[OperationState::Succeeded, OperationState::Accepted], 1);
        }
    }
}

#[test]
fn a_reserve_that_was_removed_is_made_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut store = store_in(&data);
    let is_there = || fs::metadata(beside(&data, ".reserve")).is_ok_and(|found| found.len() > 0);
    for (what, harm) in HARMS.iter().filter(|(what, _)| what.contains("directory") || what.contains("all of it")) {
        harm(&data);
        assert!(store.look_after() && is_there(), "{what}");
        fs::remove_dir_all(data.with_file_name("elsewhere")).ok();
    }
    fs::remove_file(beside(&data, ".reserve")).expect("removed");
    assert_eq!((commit(&mut store, succeeded(2)), is_there()), (Ok(()), true));
}

#[test]
fn a_log_that_somebody_else_has_emptied_in_order_is_no_harm() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = store_in(directory.path());
    let other = rusqlite::Connection::open(path_in(directory.path())).expect("opens");
    let (busy, left): (i64, i64) =
        other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| Ok((row.get(0)?, row.get(1)?))).expect("emptied");
    assert_eq!((busy, left, fs::metadata(beside(directory.path(), "-wal")).expect("there").len()), (0, 0, 0));
    drop(other);
    assert_eq!(commit(&mut store, succeeded(2)), Ok(()));
    is_whole("emptied", directory.path(), &[OperationState::Succeeded; 2], 2);
}

#[test]
fn what_a_log_held_that_was_cut_is_lost_aloud_or_not_lost() {
    let mut lost = 0;
    for length in [0, 32, 4_096, 100_000] {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path();
        let mut store = store_in(data);
        // More than the engine keeps in memory, and the last of it is only in the log.
        for number in 10..195 {
            let large = OperationRecord { arguments: json!({ "text": "x".repeat(30_000) }), ..operation(number, number) };
            assert_eq!(commit(&mut store, vec![Write::CreateBatch(batch(number)), Write::CreateOperation(large)]), Ok(()));
        }
        let log = File::options().write(true).open(beside(data, "-wal")).expect("opens");
        assert!(log.metadata().expect("there").len() > length);
        log.set_len(length).expect("cut");
        let outcome = commit(&mut store, succeeded(2));
        if let Err(error) = &outcome {
            assert!(matches!(error, CommitError::Restart(reason) if reason.contains("log was removed or cut")), "{error}");
            assert!(store.restart_wanted().is_some());
        }
        let (next, recovered, _copy) = found_after_a_kill(data);
        drop(store);
        assert_eq!(next.loss().is_some(), outcome.is_err());
        lost += usize::from(next.loss().is_some());
        // What was not in the log, or was read from what is left, is known of, and nothing is told as if it were certain.
        assert!(recovered.operations.len() >= 2);
        let is_certain = |states: &[DeliveryState]| states.contains(&DeliveryState::Ready);
        let states: Vec<DeliveryState> = recovered.deliveries.iter().map(|delivery| delivery.state).collect();
        assert_eq!(is_certain(&states), outcome.is_ok(), "{states:?}");
    }
    assert!(lost > 0, "nothing was cut that mattered");
}

#[test]
fn what_is_written_into_an_open_store_is_noticed_before_anything_more_is_promised() {
    let harms: [(&str, Harm); 6] = [
        ("a backup is copied into it", |data| fs::copy(beside(data, ".backup-1"), path_in(data)).map(drop).expect("copied")),
        ("it is emptied", |data| fs::write(path_in(data), b"").expect("written")),
        ("it is cut", |data| File::options().write(true).open(path_in(data)).and_then(|file| file.set_len(60_000)).expect("cut")),
        ("its pages are overwritten", |data| {
            let length = fs::metadata(path_in(data)).expect("there").len();
            fs::write(path_in(data), vec![0xa5; usize::try_from(length).expect("small")]).expect("written");
        }),
        ("its log is overwritten", |data| {
            let length = fs::metadata(beside(data, "-wal")).expect("there").len();
            let log = File::options().write(true).open(beside(data, "-wal")).expect("opens");
            std::os::unix::fs::FileExt::write_all_at(&log, &vec![0xa5; usize::try_from(length).expect("small")], 0).expect("written");
        }),
        ("its log is emptied and as long again", |data| {
            let length = fs::metadata(beside(data, "-wal")).expect("there").len();
            let log = File::options().write(true).open(beside(data, "-wal")).expect("opens");
            log.set_len(0).and_then(|()| log.set_len(length)).expect("cut");
        }),
    ];
    for (what, harm) in harms {
        for idle in [false, true] {
            let directory = tempfile::tempdir().expect("a directory");
            let data = directory.path().join("data");
            let mut store = store_in(&data);
            harm(&data);
            let outcome = if idle {
                store.look_after();
                store.restart_wanted().map_or(Ok(()), Err)
            } else {
                commit(&mut store, succeeded(2)).map_err(|error| error.to_string())
            };
            let (next, recovered, _copy) = found_after_a_kill(&data);
            let states: Vec<DeliveryState> = recovered.deliveries.iter().map(|delivery| delivery.state).collect();
            match outcome {
                // The connection knew it all.
                Ok(()) => {
                    assert_eq!((next.loss(), states), (None, vec![DeliveryState::Ready; 1 + usize::from(!idle)]), "{what}");
                }
                Err(reason) => {
                    assert!(reason.contains("damaged"), "{what}: {reason}");
                    assert!(store.restart_wanted().is_some_and(|reason| reason.contains("damaged")), "{what}");
                    assert!(next.loss().is_some() && !states.contains(&DeliveryState::Ready), "{what}: {states:?}");
                }
            }
        }
    }
}

#[test]
fn somebody_who_looks_in_and_writes_in_order_does_no_harm() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut store = store_in(&data);
    let other = rusqlite::Connection::open(path_in(&data)).expect("opens");
    other.execute_batch("CREATE TABLE note (text); INSERT INTO note VALUES ('seen'); PRAGMA wal_checkpoint").expect("written");
    assert_eq!((commit(&mut store, succeeded(2)), store.restart_wanted()), (Ok(()), None));
    drop(other);
    assert_eq!((store.look_after(), store.restart_wanted()), (true, None));
    is_whole("written to", &data, &[OperationState::Succeeded; 2], 2);
}

#[test]
fn what_is_taken_away_while_a_commit_is_being_flushed_takes_nothing_with_it_that_was_acknowledged() {
    let taking: [fn(&Path); 3] = [
        |data| drop(fs::remove_file(beside(data, "-wal"))),
        |data| drop(File::options().write(true).open(beside(data, "-wal")).and_then(|log| log.set_len(0))),
        |data| drop(fs::remove_file(path_in(data))),
    ];
    for (what, take) in ["its log removed", "its log emptied", "its file removed"].into_iter().zip(taking) {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        let mut store = store_in(&data);
        let over = Arc::new(AtomicBool::new(false));
        let taker = std::thread::spawn({
            let (data, over) = (data.clone(), Arc::clone(&over));
            move || {
                // At another moment of a commit each time.
                for pause_us in (1..).map(|n| n * 17_311 % 40_000) {
                    if over.load(Ordering::Acquire) {
                        return;
                    }
                    std::thread::sleep(Duration::from_micros(pause_us));
                    take(&data);
                }
            }
        });
        // Where it is taken away as soon as it is there again, nothing is promised.
        let mut refused = None;
        let mut is_taken = |number: &u128| match commit(&mut store, accepted(*number)) {
            Ok(()) => true,
            Err(error) => {
                refused = Some(error.to_string());
                false
            }
        };
        let numbers = (10..160).filter(|number| is_taken(number));
        let acknowledged: Vec<u128> = numbers.take(50).collect();
        over.store(true, Ordering::Release);
        taker.join().expect("it ends");
        store.look_after();
        let (next, recovered, _copy) = found_after_a_kill(&data);
        assert!(!acknowledged.is_empty(), "{what}: {refused:?}");
        for number in acknowledged {
            assert!(recovered.operations.iter().any(|operation| operation.id.0 == number), "{what}: {number}: {:?}", next.loss());
        }
    }
}

#[test]
fn a_process_that_is_killed_before_the_store_is_written_again_leaves_that_on_record() {
    for (what, harm) in HARMS.iter().filter(|(what, _)| !what.contains("index")) {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        let mut store = store_in(&data);
        harm(&data);
        fs::create_dir_all(beside(&data, ".restoring")).expect("made");
        assert!(commit(&mut store, succeeded(2)).is_err(), "{what}");
        fs::remove_dir(beside(&data, ".restoring")).expect("removed");
        let (next, recovered, _copy) = found_after_a_kill(&data);
        let states: Vec<DeliveryState> = recovered.deliveries.iter().map(|delivery| delivery.state).collect();
        assert!(next.loss().is_some() && !states.contains(&DeliveryState::Ready), "{what}: {states:?}");
        // Where it is not killed, all is well.
        assert!(store.restart_wanted().is_none());
        drop(store);
        is_whole(what, &data, &[OperationState::Succeeded, OperationState::Accepted], 1);
    }
}

#[test]
fn a_process_that_is_killed_while_only_the_index_of_the_log_is_gone_leaves_a_store_that_is_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut store = store_in(&data);
    fs::remove_file(beside(&data, "-shm")).expect("removed");
    // It stands in the way of what would be written.
    fs::create_dir(beside(&data, ".restoring")).expect("made");
    assert!(matches!(commit(&mut store, succeeded(2)), Err(CommitError::Displaced(_))));
    fs::remove_dir(beside(&data, ".restoring")).expect("removed");
    is_whole("killed", &data, &[OperationState::Succeeded, OperationState::Accepted], 1);
}

#[test]
fn nothing_is_promised_where_the_store_can_not_be_written_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let above = directory.path().join("above");
    fs::create_dir(&above).expect("made");
    let data = above.join("data");
    let mut store = store_in(&data);
    fs::rename(&above, directory.path().join("elsewhere")).expect("moved");
    let refused = commit(&mut store, succeeded(2)).expect_err("it would be lost");
    assert!(matches!(&refused, CommitError::Displaced(reason) if reason.contains("does not exist")), "{refused}");
    assert!(!store.look_after());
    // There is a place again.
    fs::create_dir(&above).expect("made");
    assert!(store.look_after());
    assert_eq!((commit(&mut store, succeeded(2)), store.restart_wanted()), (Ok(()), None));
    is_whole("written again", &data, &[OperationState::Succeeded; 2], 2);
}

#[test]
fn on_a_full_disk_it_is_written_again_from_the_reserve_or_when_there_is_room() {
    let Some(disk) = Disk::mount("24m") else { return };
    // What the reserve has room for, and more; some of it is in the log alone.
    for (number_of, fits) in [(20, true), (225, false)] {
        let data = disk.0.join(number_of.to_string());
        let options = Options { reopen_after: Duration::ZERO, ..Options::new(BootId(1), wall(1)) };
        let (mut store, _) = Store::open(&path_in(&data), &options).expect("opens");
        for number in [1, 2] {
            assert_eq!(commit(&mut store, accepted(number)), Ok(()));
        }
        for number in 3..=number_of {
            let large = OperationRecord { arguments: json!({ "text": "x".repeat(30_000) }), ..operation(number, number) };
            assert_eq!(commit(&mut store, vec![Write::CreateBatch(batch(number)), Write::CreateOperation(large)]), Ok(()));
        }
        fill(&disk.0.join("filler"));
        fs::remove_file(beside(&data, "-wal")).expect("removed");
        let outcome = commit(&mut store, succeeded(1));
        assert_eq!(outcome.is_ok(), fits, "{outcome:?}");
        if !fits {
            assert!(matches!(&outcome, Err(CommitError::Displaced(reason)) if reason.contains("log was removed")), "{outcome:?}");
            assert!(!store.look_after());
        }
        fs::remove_file(disk.0.join("filler")).expect("removed");
        assert_eq!(commit(&mut store, succeeded(2)), Ok(()));
        assert_eq!(store.restart_wanted(), None, "nobody ends the calls, or the connection, for it");
        let (next, recovered, _copy) = found_after_a_kill(&data);
        assert_eq!((next.loss(), recovered.operations.len()), (None, usize::try_from(number_of).expect("few")));
        assert_eq!(recovered.deliveries.len(), 1 + usize::from(fits));
        drop(store);
        fs::remove_dir_all(&data).expect("removed");
    }
}

#[test]
fn a_store_of_which_nothing_is_left_and_that_can_not_be_written_again_is_lost_and_said_to_be() {
    let directory = tempfile::tempdir().expect("a directory");
    let above = directory.path().join("above");
    fs::create_dir(&above).expect("made");
    let path = path_in(&above.join("data"));
    let store = store_in(&above.join("data"));
    fs::rename(&above, directory.path().join("elsewhere")).expect("moved");
    drop(store);
    fs::create_dir(&above).expect("made");
    let suspect = Options { suspect: true, ..Options::new(BootId(2), wall(1)) };
    let (store, _) = Store::open(&path, &suspect).expect("opens");
    assert!(store.loss().is_some_and(|loss| loss.reason.starts_with("it was not there")), "{:?}", store.loss());
}

#[test]
fn a_second_instance_finds_the_store_taken_although_the_lock_was_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let mut store = store_in(directory.path());
    let second = || Store::open(&path, &Options::new(BootId(2), wall(1)));
    for looks in [true, false] {
        fs::remove_file(beside(directory.path(), ".lock")).expect("removed");
        if looks {
            store.look_after();
        } else {
            assert_eq!(commit(&mut store, succeeded(2)), Ok(()));
        }
        assert!(matches!(second(), Err(OpenError::InUse { pid: Some(pid), .. }) if pid == std::process::id()), "{:?}", second().err());
    }

    // One that was quicker has it.
    fs::remove_file(beside(directory.path(), ".lock")).expect("removed");
    let (mut second, recovered) = second().expect("opens");
    assert_eq!(recovered.deliveries.len(), 2);
    let refused = commit(&mut store, accepted(3)).expect_err("it is another's");
    assert!(matches!(&refused, CommitError::Restart(reason) if reason.contains("in use by process")), "{refused}");
    assert!(store.restart_wanted().is_some_and(|reason| reason.contains("lock was removed")));
    drop(store);
    assert_eq!(commit(&mut second, vec![Write::CreateBatch(batch(4)), Write::CreateOperation(operation(4, 4))]), Ok(()));
    assert_eq!(commit(&mut second, vec![Write::UpdateDelivery(delivery(1, 1))]), Ok(()));
    let (_, recovered, _copy) = found_after_a_kill(directory.path());
    assert_eq!((recovered.operations.len(), recovered.deliveries.len()), (3, 2));
}
