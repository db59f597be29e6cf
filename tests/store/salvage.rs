//! What is left of a store whose first page, schema or log is damaged: nothing of it is overwritten, and what the rest holds is found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use recado::coordination::{
    CallbackSecret, OpenError, Options, ReadError, Reader, Recovered, Store, check_store, examine, is_missing, lost_stores, make_backup,
};
use recado_core::ids::BootId;
use recado_core::ledger::{BatchRecord, BatchState, DeliveryRecord, DeliveryState, OperationState, Write};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::crash::disk::Dice;
use crate::fixtures::{accepted, batch, clause, commit, delivery, open, path_in, succeeded, wall};

/// A place in memory: every case writes a reserve.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// The files of a store, by what their names end in.
type Files = BTreeMap<&'static str, Vec<u8>>;

/// A store in which so many operations were accepted.
struct Known {
    files: Files,
    secret: CallbackSecret,
    operations: u128,
}

impl Known {
    /// As after a kill, where `with_log`: the last of it is in the log alone.
    fn new(operations: u128, with_log: bool) -> Self {
        let directory = directory();
        let path = path_in(directory.path());
        let (mut store, _) = open(&path, 1);
        for number in 1..=operations {
            assert_eq!(commit(&mut store, accepted(number)), Ok(()));
        }
        let secret = store.callback_secret().clone();
        let store = with_log.then_some(store);
        let files = files(&path);
        assert_eq!(files.contains_key("-wal"), with_log);
        drop(store);
        Self { files, secret, operations }
    }

    /// The store, with its files as `damage` leaves them. What shows that one has been is the reserve.
    fn damaged(&self, damage: impl FnOnce(&mut Files)) -> Case {
        let mut files = self.files.clone();
        damage(&mut files);
        let directory = directory();
        let path = path_in(directory.path());
        fs::write(beside(&path, ".reserve"), b"").expect("written");
        for (suffix, bytes) in &files {
            fs::write(beside(&path, suffix), bytes).expect("written");
        }
        Case { _directory: directory, path, files }
    }

    /// What a start makes of it: all as it was, or set aside as it was and every operation not known.
    fn judge(&self, case: &Case, what: &str) {
        let all: BTreeSet<u128> = (1..=self.operations).collect();
        let Some(store) = self.judge_some(case, what, |found, what| assert_eq!(*found, all, "{what}")) else { return };
        assert_eq!(store.callback_secret(), &self.secret, "{what}");
    }

    /// The same, of those operations that are found. Only what says that a newer program wrote it is refused, and left as it is.
    fn judge_some(&self, case: &Case, what: &str, enough: impl Fn(&BTreeSet<u128>, &str)) -> Option<Store> {
        let version = |files: &Files| files.get("").and_then(|bytes| bytes.get(USER_VERSION).map(<[u8]>::to_vec));
        let (store, recovered) = match Store::open(&case.path, &Options::new(BootId(2), wall(1))) {
            Err(OpenError::Newer { found: 6..=10_000, .. }) if version(&case.files) != version(&self.files) => {
                assert_eq!(files(&case.path), case.files, "{what}");
                return None;
            }
            opened => opened.unwrap_or_else(|error| panic!("{what}: {error}")),
        };
        let expected = if store.loss().is_some() {
            case.is_set_aside_as_it_was(&store);
            OperationState::Unknown
        } else {
            OperationState::Accepted
        };
        for operation in &recovered.operations {
            assert_eq!(operation.state, expected, "{what}: {operation:?}");
        }
        let ids: BTreeSet<u128> = recovered.operations.iter().map(|operation| operation.id.0).collect();
        assert_eq!(ids.len(), recovered.operations.len());
        let what = format!("{what}: {:?}", store.loss().map(|loss| loss.reason.clone()));
        enough(&ids, &what);
        Some(store)
    }
}

struct Case {
    _directory: TempDir,
    path: PathBuf,
    files: Files,
}

impl Case {
    fn open(&self) -> Result<(Store, Recovered), OpenError> {
        Store::open(&self.path, &Options::new(BootId(2), wall(1)))
    }

    fn is_set_aside_as_it_was(&self, store: &Store) {
        let aside = &store.loss().expect("a loss").set_aside;
        for (suffix, bytes) in &self.files {
            assert!(fs::read(beside(aside, suffix)).is_ok_and(|found| found == *bytes), "{suffix} of {}", aside.display());
        }
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn files(path: &Path) -> Files {
    ["", "-wal"].into_iter().filter_map(|suffix| Some((suffix, fs::read(beside(path, suffix)).ok()?))).collect()
}

fn main_file(files: &mut Files) -> &mut Vec<u8> {
    files.get_mut("").expect("there")
}

#[test]
fn an_empty_file_beside_a_log_is_damage_to_all_that_look_and_its_log_is_kept_and_read() {
    let known = Known::new(20, true);
    // The engine takes a file of one byte for an empty one, too.
    for length in [0, 1, 99, 511] {
        let case = known.damaged(|files| main_file(files).truncate(length));
        let path = &case.path;
        let refused = Reader::open(path).expect_err("damaged").to_string();
        assert!(refused.contains("its file is empty, beside a log that is not"), "{refused}");
        assert!(examine(path, wall(1)).unreadable.is_some_and(|why| why.contains("its file is empty")));
        assert!(check_store(path).expect("it is seen").damage.is_some_and(|what| what.contains("its file is empty")));
        assert!(make_backup(path, 3).is_err_and(|error| error.is_damage()));
        assert_eq!(files(path), case.files, "looking changed something");
        // The log holds all of it: nothing was moved into the file yet.
        known.judge(&case, &format!("{length} bytes"));
        assert!(lost_stores(path).len() == 1);
    }
}

#[test]
fn a_log_whose_file_has_gone_says_that_a_store_has_been() {
    let known = Known::new(20, true);
    let case = known.damaged(|files| drop(files.remove("")));
    fs::remove_file(beside(&case.path, ".reserve")).expect("there");
    assert!(is_missing(&case.path));
    assert!(matches!(Reader::open(&case.path), Err(ReadError::Missing { .. })));
    assert_eq!(files(&case.path), case.files);
    known.judge(&case, "gone");
    assert!(lost_stores(&case.path)[0].to_string_lossy().contains(".missing-"));
}

#[test]
fn a_cut_before_the_first_page_leaves_nothing_that_was_lost() {
    let directory = directory();
    let path = path_in(directory.path());
    for (suffix, bytes) in [("", b"".as_slice()), ("-wal", b""), ("-journal", b"")] {
        fs::write(beside(&path, suffix), bytes).expect("written");
    }
    assert!(Reader::open(&path).is_err());
    assert_eq!(open(&path, 1).0.loss(), None);
}

/// The bytes in which a file says that it is another program's, or a newer one's.
const USER_VERSION: Range<usize> = 60..64;
const APPLICATION_ID: Range<usize> = 68..72;

#[test]
fn whatever_byte_of_the_header_is_damaged_every_operation_is_found() {
    for with_log in [false, true] {
        let known = Known::new(20, with_log);
        for at in 0..108 {
            for value in [3, 0x20, 0xff] {
                let what = format!("byte {at} is {value}, log: {with_log}");
                let case = known.damaged(|files| main_file(files)[at] = value);
                known.judge(&case, &what);
            }
        }
    }
}

#[test]
fn whose_a_file_is_is_told_by_its_tables_where_a_store_has_been() {
    let known = Known::new(5, false);
    for mark in [b"RCDN", b"\0\0\0\0", b"abcd"] {
        known.judge(&known.damaged(|files| main_file(files)[APPLICATION_ID].copy_from_slice(mark)), &format!("{mark:?}"));
    }
    for version in [1_u32, 2, 10_001, u32::MAX] {
        known.judge(&known.damaged(|files| main_file(files)[USER_VERSION].copy_from_slice(&version.to_be_bytes())), &format!("{version}"));
    }
    // Another program's stays where it is.
    let case = known.damaged(|_| ());
    fs::remove_file(&case.path).expect("there");
    let theirs = Connection::open(&case.path).expect("a database");
    theirs.execute_batch("CREATE TABLE theirs (x); PRAGMA application_id = 4711").expect("a table");
    drop(theirs);
    let before = files(&case.path);
    assert!(matches!(case.open(), Err(OpenError::NotAStore { .. })));
    assert_eq!(files(&case.path), before);
}

#[test]
fn a_backup_takes_the_place_of_one_with_any_such_byte() {
    for (at, value) in [(3, b'x'), (17, 0xff), (18, 3), (19, 3), (47, 9), (55, 1), (59, 2), (63, 1), (71, 0), (100, 0)] {
        let directory = directory();
        let path = path_in(directory.path());
        let (mut store, _) = open(&path, 1);
        assert_eq!(commit(&mut store, accepted(1)), Ok(()));
        let backup = make_backup(&path, 3).expect("a backup");
        assert_eq!(commit(&mut store, accepted(2)), Ok(()));
        let secret = store.callback_secret().clone();
        drop(store);
        // One whose own first page has such a byte is passed over.
        let mut bytes = fs::read(&backup).expect("there");
        bytes[at] = value;
        fs::write(path.with_file_name("state.db.backup-2"), &bytes).expect("written");
        let mut bytes = fs::read(&path).expect("there");
        bytes[at] = value;
        fs::write(&path, &bytes).expect("written");
        let (store, recovered) = open(&path, 2);
        let loss = store.loss().unwrap_or_else(|| panic!("byte {at}"));
        assert_eq!((&loss.restored, loss.operations_unknown), (&Some(backup), 2), "byte {at}: {loss:?}");
        assert_eq!(recovered.operations.len(), 2, "byte {at}");
        assert_eq!(store.callback_secret(), &secret);
    }
}

#[test]
fn without_its_first_page_a_store_is_read_page_by_page() {
    let known = Known::new(200, false);
    for fill in [0, 0xa5, 0x05, 0xff] {
        let case = known.damaged(|files| main_file(files)[..4096].fill(fill));
        known.judge(&case, &format!("a first page of {fill}"));
        let loss = open(&case.path, 3).0.loss().cloned();
        assert_eq!(loss, None, "it is over");
    }
    let case = known.damaged(|files| main_file(files)[..4096].fill(0));
    let (store, _) = case.open().expect("opens");
    assert!(store.loss().is_some_and(|loss| loss.reason.contains("not all of it could be read, or is known to have been")));
}

#[test]
fn a_damaged_schema_hides_no_operation() {
    let known = Known::new(60, false);
    // Wherever its text stands.
    let bytes = &known.files[""];
    let texts: Vec<usize> = (0..bytes.len() - 6).filter(|at| bytes[*at..].starts_with(b"CREATE")).collect();
    assert!(texts.len() > 20);
    for at in texts {
        for (shift, value) in [(0, b'X'), (9, 0xff), (20, b'('), (30, 0)] {
            known.judge(&known.damaged(|files| main_file(files)[at + shift] = value), &format!("schema at {at} + {shift}"));
        }
    }
}

#[test]
fn what_a_damaged_page_above_has_cut_off_is_found() {
    let known = Known::new(400, false);
    let case = known.damaged(|_| ());
    let looking = Connection::open(&case.path).expect("a database");
    let above = "SELECT pageno FROM dbstat WHERE name = 'operation' AND pagetype = 'internal'";
    let above: u32 = looking.query_row(above, [], |row| row.get(0)).expect("a page");
    drop(looking);
    let at = (above as usize - 1) * 4096;
    known.judge(&known.damaged(|files| main_file(files)[at..at + 4096].fill(0xa5)), "the root of the operations");
}

/// The log's header and those of its frames (SQLite's file format, section 4.1).
const LOG_HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

#[test]
fn a_damaged_log_is_not_dropped_in_silence() {
    let known = Known::new(60, true);
    // Behind them is room that was taken ahead.
    let bytes = &known.files["-wal"];
    let frames = bytes[LOG_HEADER..].chunks_exact(FRAME).take_while(|frame| frame[8..16] == bytes[16..24]).count();
    for at in 0..LOG_HEADER {
        let case = known.damaged(|files| files.get_mut("-wal").expect("there")[at] ^= 0x10);
        known.judge(&case, &format!("byte {at} of the log"));
        assert!(lost_stores(&case.path).len() == 1, "byte {at} of the log");
    }
    // The first frames, one in the middle, a row of them; what every later commit has written again is found.
    for (from, to) in [(0, 1), (1, 2), (frames / 2, frames / 2 + 1), (frames / 3, frames / 2)] {
        let case = known.damaged(|files| {
            for frame in from..to {
                files.get_mut("-wal").expect("there")[LOG_HEADER + frame * FRAME + 600] ^= 0x10;
            }
        });
        let what = format!("frames {from} to {to} of {frames}");
        known.judge_some(&case, &what, |found, what| assert!(!found.is_empty(), "{what}"));
        assert!(lost_stores(&case.path).len() == 1, "{what}");
    }
    // A power cut may leave anything of the last commit.
    for damaged in 1..=2 {
        let case = known.damaged(|files| files.get_mut("-wal").expect("there")[LOG_HEADER + (frames - damaged) * FRAME + 600] ^= 0x10);
        let store = known.judge_some(&case, "the last commit", |found, what| assert_eq!(found.len(), 59, "{what}"));
        assert!(lost_stores(&case.path).is_empty());
        // Where its end is there, it does not stay behind the commits that come, for which the next cut would be damage.
        let log = fs::metadata(beside(&case.path, "-wal")).expect("there").len();
        assert_eq!(log == 0, damaged == 2, "{log} bytes");
        drop(store);
    }
}

#[test]
fn a_store_of_an_older_schema_is_read_as_well() {
    let known = Known::new(20, false);
    let case = known.damaged(|_| ());
    let older = case.path.with_file_name("older.db");
    let making = Connection::open(&older).expect("a database");
    making.execute_batch(include_str!("../../src/coordination/schema/0001_ledger.sql")).expect("the first schema");
    making.execute("ATTACH ? AS newer", [case.path.to_string_lossy()]).expect("attached");
    let columns: Vec<String> = making
        .prepare("SELECT name FROM pragma_table_info('operation')")
        .and_then(|mut columns| columns.query_map([], |row| row.get(0))?.collect())
        .expect("columns");
    making
        .execute_batch(&format!(
            "PRAGMA application_id = 0x5243444f; PRAGMA user_version = 1; INSERT INTO box SELECT * FROM newer.box;
             INSERT INTO batch SELECT * FROM newer.batch; INSERT INTO operation SELECT {} FROM newer.operation",
            columns.join(", ")
        ))
        .expect("copied");
    drop(making);
    let bytes = fs::read(&older).expect("there");
    for damage in [3..4, 0..4096] {
        let case = known.damaged(|files| {
            *main_file(files) = bytes.clone();
            main_file(files)[damage].fill(0);
        });
        known.judge(&case, "an older schema");
        assert!(lost_stores(&case.path).len() == 1);
    }
}

#[test]
fn a_file_that_ends_too_early_is_set_aside_and_what_stands_before_the_end_is_found() {
    // So many that the first half of the file holds whole batches, not only the beginnings of its tables.
    let known = Known::new(400, false);
    let length = known.files[""].len();
    for left in [1, 511, 512, 4_095, 4_096, 5_000, length / 2, length - 4_096, length - 1] {
        let case = known.damaged(|files| main_file(files).truncate(left));
        known.judge_some(&case, &format!("{left} bytes are left"), |found, what| assert!(left < length / 2 || !found.is_empty(), "{what}"));
    }
}

#[test]
fn what_was_removed_long_ago_does_not_come_back() {
    let directory = directory();
    let path = path_in(directory.path());
    let (mut store, _) = open(&path, 1);
    for number in 1..=300 {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
    }
    for number in 1..=290 {
        assert_eq!(commit(&mut store, succeeded(number)), Ok(()));
        let spoken = DeliveryRecord {
            state: DeliveryState::Spoken,
            clauses: vec![clause(number, Some(recado_core::conversation::input::Evidence::Received))],
            ..delivery(number, number)
        };
        let closed = BatchRecord { state: BatchState::Closed, ..batch(number) };
        assert_eq!(commit(&mut store, vec![Write::UpdateDelivery(spoken), Write::UpdateBatch(closed)]), Ok(()));
    }
    drop(store);
    let removing = Connection::open(&path).expect("a database");
    let remove = "DELETE FROM delivery WHERE sequence <= 280; DELETE FROM operation WHERE sequence <= 280;
        DELETE FROM batch WHERE sequence <= 280; PRAGMA wal_checkpoint(TRUNCATE)";
    removing.execute_batch(remove).expect("removed");
    let free: u32 = removing.pragma_query_value(None, "freelist_count", |row| row.get(0)).expect("a number");
    assert!(free > 20);
    drop(removing);
    let whole = fs::read(&path).expect("there");
    // The list of free pages can be read; and its beginning is lost with the first page.
    for damage in [3..4, 0..4096] {
        let directory = self::directory();
        let at = path_in(directory.path());
        let mut bytes = whole.clone();
        bytes[damage.clone()].fill(0);
        fs::write(&at, &bytes).expect("written");
        fs::write(beside(&at, ".reserve"), b"").expect("written");
        let (store, recovered) = open(&at, 2);
        assert!(store.loss().is_some());
        let found: Vec<u128> = recovered.operations.iter().map(|operation| operation.id.0).collect();
        assert_eq!(found, (291..=300).collect::<Vec<_>>(), "{damage:?}");
    }
}

#[test]
fn whatever_is_damaged_a_start_ends_in_a_store_and_keeps_what_was_there() {
    let mut dice = Dice(0x5a1_7a6e);
    for with_log in [false, true] {
        let known = Known::new(60, with_log);
        for round in 0..100 {
            let mut only_first_page = true;
            let mut what = String::new();
            let case = known.damaged(|files| {
                for _ in 0..=dice.below(2) {
                    let suffix = if with_log && dice.below(3) == 0 { "-wal" } else { "" };
                    let bytes = files.get_mut(suffix).expect("there");
                    let length = bytes.len();
                    let first_page = suffix.is_empty() && dice.below(2) == 0;
                    let at = dice.below(if first_page { 4096 } else { length as u64 }.min(length.max(1) as u64)) as usize;
                    let kind = dice.below(4);
                    what += &format!("{kind} at {at} of {suffix:?}; ");
                    let end = match kind {
                        0 => at + 1,
                        1 => (at + dice.below(4096) as usize).min(length),
                        2 => (at + 512).min(length),
                        _ => length,
                    };
                    if at >= length {
                        continue;
                    }
                    match kind {
                        0 => bytes[at] ^= 1 << dice.below(8),
                        1 => bytes[at..end].fill(0),
                        2 => bytes[at..end].iter_mut().for_each(|byte| *byte = dice.below(256) as u8),
                        _ => bytes.truncate(at),
                    }
                    only_first_page &= suffix.is_empty() && end <= 4096;
                }
            });
            let what = format!("round {round}, log: {with_log}: {what}");
            if only_first_page {
                known.judge(&case, &what);
            } else {
                known.judge_some(&case, &what, |_, _| ());
            }
        }
    }
}
