//! Damaged files: set aside whole, replaced by the newest good backup or an empty store, and what that leaves in doubt said so.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use recado::coordination::{CommitError, Loss, OpenError, Options, Recovered, Store, backups, check_store, is_backup_due, make_backup};
use recado_core::ids::BootId;
use recado_core::ledger::{BatchState, DeliveryState, OperationRecord, OperationState, Write};
use rusqlite::Connection;

use crate::crash::rig::Watched;
use crate::fixtures::{accepted, claim, commit, operation, path_in, succeeded, wall};
use crate::ledger::Scene;

fn open(path: &Path, boot: u128) -> (Store, Recovered) {
    Store::open(path, &Options::new(BootId(boot), wall(1))).unwrap_or_else(|error| panic!("{error}"))
}

/// The files beside the store whose names go on like this.
fn beside(path: &Path, infix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(path.parent().expect("a parent")).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> = entries.filter(|file| file.to_string_lossy().contains(infix)).collect();
    found.sort();
    found
}

/// Overwrites pages of the file, from the `from`th on.
fn garble(path: &Path, from: usize) {
    let mut bytes = fs::read(path).expect("there");
    for page in bytes.chunks_mut(4096).skip(from) {
        page[..64].fill(0xa5);
    }
    fs::write(path, &bytes).expect("written");
}

/// Where in the file the root of a table or an index stands.
fn page_of(path: &Path, name: &str) -> usize {
    let connection = Connection::open(path).expect("a database");
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?";
    let page: u32 = connection.query_row(sql, [name], |row| row.get(0)).expect("it is there");
    (page as usize - 1) * 4096
}

/// The pages of a table that are of this type, in the order of its rows.
fn pages_of(path: &Path, table: &str, page_type: &str) -> Vec<usize> {
    let sql = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = ? ORDER BY path";
    let looking = Connection::open(path).expect("a database");
    let mut pages = looking.prepare(sql).expect("a question");
    let pages = pages.query_map([table, page_type], |row| row.get::<_, u32>(0)).expect("pages");
    pages.map(|page| page.expect("a page") as usize).collect()
}

/// A store in which operation 1 has succeeded and waits to be told, and 2 runs; then a backup; then 1 is told of, 3 is accepted, and the file
/// is damaged.
fn damaged(directory: &Path, with_backup: bool) -> PathBuf {
    let path = path_in(directory);
    let (mut store, _) = open(&path, 1);
    for number in [1, 2] {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
    }
    assert_eq!(commit(&mut store, succeeded(1)), Ok(()));
    let running = OperationRecord { state: OperationState::Running, attempt: 1, ..operation(2, 2) };
    assert_eq!(commit(&mut store, vec![Write::UpdateOperation(running)]), Ok(()));
    if with_backup {
        make_backup(&path, 3).expect("a backup");
    }
    assert_eq!(commit(&mut store, vec![claim(1, 1)]), Ok(()));
    assert_eq!(commit(&mut store, accepted(3)), Ok(()));
    drop(store);
    path
}

fn judge(loss: Option<&Loss>, recovered: &Recovered, backup: Option<&Path>) {
    let loss = loss.expect("a loss");
    assert_eq!(loss.restored.as_deref(), backup);
    for record in &recovered.operations {
        let settled = backup.is_some() && record.id.0 == 1;
        let expected = if settled { OperationState::Succeeded } else { OperationState::Unknown };
        assert_eq!(record.state, expected, "{record:?}");
    }
    assert!(recovered.deliveries.iter().all(|delivery| delivery.state == DeliveryState::Uncertain));
    assert!(recovered.claims.is_empty());
}

#[test]
fn a_damaged_store_is_set_aside_whole_and_its_newest_backup_takes_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = damaged(directory.path(), true);
    let secret = open(&path, 2).0.callback_secret().clone();
    garble(&path, 1);
    fs::write(path.with_file_name("state.db-wal"), b"what the log held").expect("written");
    let before = fs::read(&path).expect("there");
    let (store, recovered) = open(&path, 3);
    judge(store.loss(), &recovered, Some(&backups(&path)[0]));
    assert_eq!(store.loss().map(|loss| loss.deliveries_uncertain), Some(1));
    assert!(recovered.operations.iter().any(|operation| operation.id.0 == 2), "what the backup had is there");
    assert_eq!(store.callback_secret(), &secret);
    let aside = beside(&path, ".corrupt-");
    assert_eq!(aside.len(), 3, "{aside:?}");
    assert!(aside[0].to_string_lossy().ends_with(&format!("state.db.corrupt-{}-1", BootId(3))), "{aside:?}");
    assert_eq!(fs::read(&aside[0]).expect("there"), before, "not one byte of it was changed");
    assert_eq!(fs::read(&aside[2]).expect("there"), b"what the log held");
    drop(store);
    // It is over: the next start is like any other.
    let (store, again) = open(&path, 4);
    assert_eq!(store.loss(), None);
    assert_eq!(again.operations, recovered.operations);
}

#[test]
fn without_a_backup_an_empty_store_takes_its_place_with_what_was_asked_for_as_far_as_it_can_be_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = damaged(directory.path(), false);
    let secret = open(&path, 2).0.callback_secret().clone();
    // An index alone is damaged: every row can still be read, and none is trusted.
    let at = page_of(&path, "delivery_of_batch");
    let mut bytes = fs::read(&path).expect("there");
    bytes[at..at + 4096].fill(0xff);
    fs::write(&path, &bytes).expect("written");
    let (store, recovered) = open(&path, 3);
    judge(store.loss(), &recovered, None);
    let found: Vec<u128> = recovered.operations.iter().map(|operation| operation.id.0).collect();
    assert_eq!(found, [1, 2, 3]);
    assert!(recovered.batches.iter().all(|batch| batch.state == BatchState::Sealed));
    assert_eq!(store.callback_secret(), &secret, "the callbacks of what was sent are signed with it");
    // The ledger tells each of them as not known.
    let scene = Scene::new(store, recovered, 3, 0);
    drop(scene);
    let (_, after) = open(&path, 4);
    assert_eq!(after.deliveries.len(), 3);
    assert!(after.deliveries.iter().all(|delivery| delivery.state == DeliveryState::Ready && delivery.clauses.len() == 1));
    assert_eq!(beside(&path, ".examined"), Vec::<PathBuf>::new(), "the copy that was read is gone");
}

#[test]
fn a_tree_that_is_out_of_order_is_read_once_and_not_round_and_round() {
    // The number of one row, in two bytes (SQLite's file format, section 1.6): the third of all, and one beyond the last.
    const DOWN: [u8; 2] = [0x80, 3];
    const UP: [u8; 2] = [0xc1, 0x16];
    // Where: in which quarter's first leaf, in which of its rows.
    for damaged in [[(3, 0, DOWN)].as_slice(), &[(3, 0, UP)], &[(3, 2, UP)], &[(3, 2, DOWN)], &[(2, 3, UP), (3, 3, DOWN)], &[(4, 3, UP)]] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = path_in(directory.path());
        let (mut store, _) = open(&path, 1);
        for number in 1..=300 {
            assert_eq!(commit(&mut store, accepted(number)), Ok(()));
        }
        drop(store);
        let leaves = pages_of(&path, "operation", "leaf");
        let mut bytes = fs::read(&path).expect("there");
        for (quarter, number, sequence) in damaged {
            let at = (leaves[(leaves.len() * quarter / 4).min(leaves.len() - 1)] - 1) * 4096;
            let pointer = at + 8 + 2 * number;
            let cell = at + usize::from(u16::from_be_bytes([bytes[pointer], bytes[pointer + 1]]));
            let row = cell + 1 + bytes[cell..].iter().position(|byte| byte & 0x80 == 0).expect("a length");
            assert!(bytes[row] & 0x80 != 0 && bytes[row + 1] & 0x80 == 0, "a number of two bytes");
            bytes[row..row + 2].copy_from_slice(sequence);
        }
        fs::write(&path, &bytes).expect("written");
        let (store, recovered) = open(&path, 2);
        assert!(store.loss().is_some_and(|loss| loss.operations_unknown == 300), "{damaged:?}: {:?}", store.loss());
        let found: BTreeSet<u128> = recovered.operations.iter().map(|operation| operation.id.0).collect();
        assert_eq!((found.len(), recovered.operations.len()), (300, 300), "{damaged:?}: what else stands in the row is whole");
    }
}

#[test]
fn the_newest_are_found_however_many_numbers_a_damaged_page_stands_for_and_the_last_number_ends_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1);
    for number in 1..=300 {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
    }
    drop(store);
    let editing = Connection::open(&path).expect("a database");
    let spread = "UPDATE operation SET sequence = -sequence * 10000; UPDATE operation SET sequence = -sequence;
        UPDATE operation SET sequence = 9223372036854775807 WHERE sequence = 3000000; PRAGMA wal_checkpoint(TRUNCATE)";
    editing.execute_batch(spread).expect("spread");
    drop(editing);
    let leaves = pages_of(&path, "operation", "leaf");
    let at = (leaves[leaves.len() / 2] - 1) * 4096;
    let mut bytes = fs::read(&path).expect("there");
    let lost = usize::from(u16::from_be_bytes([bytes[at + 3], bytes[at + 4]]));
    bytes[at..at + 4096].fill(0xa5);
    fs::write(&path, &bytes).expect("written");
    let (store, recovered) = open(&path, 2);
    assert!(store.loss().is_some() && lost > 2, "{lost}: {:?}", store.loss());
    assert_eq!(recovered.operations.len(), 300 - lost);
    assert_eq!(recovered.operations.last().map(|operation| operation.id.0), Some(300));
}

#[test]
fn what_lies_on_both_sides_of_each_damaged_page_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1);
    for number in 1..=400 {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
    }
    drop(store);
    // One, two that follow each other, and the last.
    let leaves = pages_of(&path, "operation", "leaf");
    assert!(leaves.len() > 20, "{leaves:?}");
    let (quarter, middle, last) = (leaves.len() / 4, leaves.len() / 2, leaves.len() - 1);
    let mut bytes = fs::read(&path).expect("there");
    let rows_of = |bytes: &[u8], leaf: usize| {
        usize::from(u16::from_be_bytes([bytes[(leaves[leaf] - 1) * 4096 + 3], bytes[(leaves[leaf] - 1) * 4096 + 4]]))
    };
    let lost: Vec<usize> = [quarter, middle, middle + 1, last].map(|leaf| rows_of(&bytes, leaf)).to_vec();
    for leaf in [quarter, middle, middle + 1, last] {
        bytes[(leaves[leaf] - 1) * 4096..leaves[leaf] * 4096].fill(0xa5);
    }
    fs::write(&path, &bytes).expect("written");
    let (store, recovered) = open(&path, 2);
    assert!(store.loss().is_some());
    let found: Vec<usize> = recovered.operations.iter().map(|operation| operation.id.0 as usize).collect();
    // All but the rows that stood there: from the first on, between them, and up to the last page.
    assert_eq!(found.len(), 400 - lost.iter().sum::<usize>());
    let gaps: Vec<usize> = found.windows(2).map(|two| two[1] - two[0] - 1).filter(|gap| *gap > 0).collect();
    assert_eq!((found[0], gaps), (1, vec![lost[0], lost[1] + lost[2]]));
    assert_eq!(found.last(), Some(&(400 - lost[3])));
}

#[test]
fn a_header_of_garbage_is_a_damaged_store_where_one_has_been() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = damaged(directory.path(), true);
    garble(&path, 0);
    let (store, recovered) = open(&path, 3);
    judge(store.loss(), &recovered, Some(&backups(&path)[0]));
}

#[test]
fn a_store_that_has_lost_its_log_is_not_taken_for_a_new_one() {
    for empty in [false, true] {
        let watched = Watched::new();
        let path = watched.path();
        let (mut store, _) = open(&path, 1);
        assert_eq!(commit(&mut store, accepted(1)), Ok(()));
        // As after a kill: what was committed is in the log.
        let bytes = if empty { Vec::new() } else { fs::read(&path).expect("there") };
        drop(store);
        drop(fs::remove_file(path.with_file_name("state.db-wal")));
        fs::write(&path, &bytes[..bytes.len().min(4_096)]).expect("written");
        let (store, _) = open(&path, 2);
        assert!(store.loss().is_some_and(|loss| loss.reason.contains("empty")), "{:?}", store.loss());
    }
}

#[test]
fn a_backup_that_is_damaged_itself_is_passed_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = damaged(directory.path(), true);
    let good = backups(&path)[0].clone();
    let newer = make_backup(&path, 3).expect("a backup");
    garble(&newer, 1);
    garble(&path, 1);
    let (store, recovered) = open(&path, 3);
    judge(store.loss(), &recovered, Some(&good));
}

#[test]
fn a_backup_that_is_empty_or_of_another_program_is_passed_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = damaged(directory.path(), true);
    let good = backups(&path)[0].clone();
    fs::write(path.with_file_name("state.db.backup-7"), b"").expect("written");
    let other = Connection::open(path.with_file_name("state.db.backup-8")).expect("a database");
    other.execute_batch("CREATE TABLE theirs (x)").expect("a table");
    drop(other);
    garble(&path, 1);
    let (store, recovered) = open(&path, 3);
    judge(store.loss(), &recovered, Some(&good));
}

#[test]
fn a_backup_that_fails_says_whether_the_store_is_damaged() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = damaged(directory.path(), true);
    let in_the_way = path.with_file_name("state.db.backup-new");
    fs::create_dir(&in_the_way).expect("made");
    assert!(make_backup(&path, 3).is_err_and(|error| !error.is_damage()));
    fs::remove_dir(&in_the_way).expect("removed");
    for first_page in [1, 0] {
        garble(&path, first_page);
        assert!(make_backup(&path, 3).is_err_and(|error| error.is_damage()), "{first_page}");
        assert_eq!(backups(&path).len(), 1, "the good one stays");
    }
}

#[test]
fn what_is_lost_with_a_file_of_which_nothing_can_be_read_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = damaged(directory.path(), false);
    garble(&path, 0);
    let (store, _) = open(&path, 3);
    let loss = store.loss().expect("a loss");
    assert!(loss.reason.contains("nothing could be read") && loss.reason.contains("callbacks"), "{loss:?}");
}

#[test]
fn a_backup_from_the_future_is_as_good_as_none_and_a_number_has_an_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1);
    assert_eq!(commit(&mut store, accepted(1)), Ok(()));
    let made = make_backup(&path, 3).expect("a backup");
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let now_ms = i64::try_from(since.as_millis()).expect("it fits") + 1_000;
    let due = |now_ms| is_backup_due(&path, wall(now_ms), std::time::Duration::ZERO);
    assert!(!due(now_ms) && due(now_ms + 86_400_000));
    let ahead = now + std::time::Duration::from_secs(400 * 86_400);
    fs::File::options().write(true).open(&made).and_then(|file| file.set_modified(ahead)).expect("ours");
    assert!(due(now_ms), "a clock that was wrong once stops all backups");
    fs::rename(&made, path.with_file_name(format!("state.db.backup-{}", u64::MAX))).expect("renamed");
    make_backup(&path, 3).expect("a backup");
}

#[test]
fn a_power_cut_while_a_store_is_set_aside_is_gone_on_with() {
    // What stands in the directory after each step, as far as a cut can tell them apart.
    for steps in 0..=4 {
        let directory = tempfile::tempdir().expect("a directory");
        let path = damaged(directory.path(), true);
        garble(&path, 1);
        fs::write(path.with_file_name("state.db-wal"), b"log").expect("written");
        let target = format!("state.db.corrupt-{}-1", BootId(7));
        let file = |name: &str| path.with_file_name(name);
        if steps > 0 {
            fs::write(file("state.db.damaged"), format!("moving\n{target}\nit is damaged\n")).expect("written");
        }
        if steps > 1 {
            fs::rename(&path, file(&target)).expect("moved");
        }
        if steps > 2 {
            fs::rename(file("state.db-wal"), file(&format!("{target}-wal"))).expect("moved");
        }
        if steps > 3 {
            fs::write(file("state.db.damaged"), format!("moved\n{target}\nit is damaged\n")).expect("written");
            // A store that was begun, whose loss was not recorded yet.
            fs::copy(&backups(&path)[0], &path).expect("copied");
        }
        let (store, recovered) = open(&path, 7);
        judge(store.loss(), &recovered, Some(&backups(&path)[0]));
        assert_eq!(fs::read(file(&format!("{target}-wal"))).expect("there"), b"log", "after {steps} steps");
        assert!(!file("state.db.damaged").exists());
    }
}

#[test]
fn a_disk_that_damages_one_store_after_the_other_is_given_no_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = damaged(directory.path(), false);
    for boot in 10.. {
        garble(&path, 1);
        match Store::open(&path, &Options::new(BootId(boot), wall(1))) {
            Ok((store, _)) => assert!(store.loss().is_some() && boot < 20),
            Err(OpenError::TooManySetAside { number, .. }) => {
                assert_eq!((number, boot), (5, 15));
                break;
            }
            Err(other) => panic!("{other}"),
        }
    }
    let files = beside(&path, ".corrupt-").into_iter().filter(|file| file.to_string_lossy().ends_with("-1"));
    assert_eq!(files.count(), 5);
}

#[test]
fn damage_that_shows_while_the_box_runs_asks_for_a_restart() {
    let watched = Watched::new();
    let path = watched.path();
    let (mut store, _) = open(&path, 1);
    for number in 0..1_500 {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
    }
    assert_eq!(store.restart_wanted(), None);
    // Behind the back of the connection, which holds only some of the pages in memory.
    let looking = Connection::open(&path).expect("a database");
    looking.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("moved into the file");
    garble(&path, 1);
    let refused = (0..1_500).find_map(|number| commit(&mut store, succeeded(number)).err()).expect("a damaged page is met");
    assert!(refused.to_string().contains("damaged"), "{refused}");
    assert!(store.restart_wanted().is_some_and(|reason| reason.contains("damaged")));
    // What may take the place of this file will not know of it.
    for begins in [accepted(2_000), vec![claim(2_000, 1)]] {
        let refused = commit(&mut store, begins).expect_err("nothing is begun on it");
        assert!(matches!(&refused, CommitError::Restart(_) | CommitError::Corrupt(_)), "{refused}");
        assert!(refused.to_string().contains("damaged"), "{refused}");
    }
    drop((store, looking));
    let suspect = Options { suspect: true, ..Options::new(BootId(2), wall(1)) };
    let (store, _) = Store::open(&path, &suspect).expect("opens");
    assert!(store.loss().is_some());
}

#[test]
fn a_suspect_store_is_checked_to_the_last_index_entry() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1);
    assert_eq!(commit(&mut store, accepted(1)), Ok(()));
    drop(store);
    // The index names a batch that the table does not.
    let at = page_of(&path, "sqlite_autoindex_batch_1");
    let mut bytes = fs::read(&path).expect("there");
    let entry = bytes[at..at + 4096].windows(4).position(|four| four == b"bat_").expect("an entry");
    bytes[at + entry + 35] = b'f';
    fs::write(&path, &bytes).expect("written");
    assert!(open(&path, 2).0.loss().is_none());
    let suspect = Options { suspect: true, ..Options::new(BootId(3), wall(1)) };
    assert!(Store::open(&path, &suspect).expect("opens").0.loss().is_some());
}

#[test]
fn a_row_that_says_of_no_batch_that_it_is_its_own_is_damage_to_the_check_and_keeps_no_start_from_going_on() {
    for over in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = path_in(directory.path());
        let (mut store, _) = open(&path, 1);
        for number in [1, 2] {
            assert_eq!(commit(&mut store, accepted(number)), Ok(()));
        }
        drop(store);
        let editing = Connection::open(&path).expect("a database");
        // As a damaged page may have it; and so large that a start does not read it as a whole.
        editing
            .execute_batch(
                "DROP TRIGGER operation_identity_is_kept; DROP TRIGGER operation_comes_before_the_closing; PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET sql = replace(sql, 'TEXT NOT NULL REFERENCES batch', 'TEXT REFERENCES batch') WHERE name = 'operation';
                 PRAGMA writable_schema = RESET; PRAGMA foreign_keys = OFF;
                 CREATE TABLE filler (bytes); INSERT INTO filler VALUES (zeroblob(34000000));
                 INSERT INTO batch (batch_id, session_id, response_id, language, state) VALUES ('bat_9', 'ses_1', 'rsp_1', 'en', 'closed');
                 INSERT INTO operation SELECT 1000 + sequence, 'op_x', 'a|b|c|7', 'bat_9', 0, party_id, session_id, 'trn_x', tool, arguments,
                   'failed', attempt, maybe_executed, result, 'it failed', accepted_unix_ms, accepted_synchronised, contradiction, handle, unreached
                 FROM operation WHERE sequence = 1;
                 UPDATE operation SET batch_id = NULL WHERE sequence = 1",
            )
            .expect("edited");
        if over {
            editing.execute_batch("UPDATE operation SET state = 'failed', error = 'it failed' WHERE sequence = 1").expect("edited");
        }
        drop(editing);
        let damage = check_store(&path).expect("it is read").damage;
        assert!(damage.as_ref().is_some_and(|what| what.starts_with("operation op_") && what.contains("1 can't be read")), "{damage:?}");
        let (store, recovered) = open(&path, 2);
        assert_eq!(
            (store.loss(), recovered.operations.len()),
            (None, 1),
            "what can be read is, and the check beside the box says the rest"
        );
    }
}

#[test]
fn backups_are_whole_private_and_few() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1);
    for number in 1..=5 {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
        let backup = make_backup(&path, 3).expect("a backup");
        assert_eq!(backups(&path)[0], backup);
        assert_eq!(fs::metadata(&backup).expect("there").permissions().mode() & 0o777, 0o600);
    }
    let kept = backups(&path);
    let names: Vec<_> = kept.iter().map(|file| file.file_name().expect("a name").to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["state.db.backup-5", "state.db.backup-4", "state.db.backup-3"]);
    drop(store);
    fs::copy(&kept[1], &path).expect("copied");
    assert_eq!(open(&path, 2).1.operations.len(), 4);
}

#[test]
fn a_backup_comes_before_a_change_of_the_schema() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let older = Connection::open(&path).expect("a database");
    older.execute_batch(include_str!("../../src/coordination/schema/0001_ledger.sql")).expect("the first schema");
    older.execute_batch("PRAGMA application_id = 0x5243444f; PRAGMA user_version = 1").expect("its marks");
    drop(older);
    drop(open(&path, 2));
    let kept = backups(&path);
    assert_eq!(kept.len(), 1);
    let version: i64 =
        Connection::open(&kept[0]).and_then(|old| old.pragma_query_value(None, "user_version", |row| row.get(0))).expect("a version");
    assert_eq!(version, 1);
    drop(open(&path, 3));
    assert_eq!(backups(&path).len(), 1, "there was nothing to change");
}
