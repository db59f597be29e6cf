//! Kills, full disks, disks that fail, disks that can't be written: what was acknowledged is there afterwards.
//!
//! Some need a process of their own: this binary starts itself again, on one of the ignored tests at the end.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use recado::coordination::{CommitError, OpenError, Options, Store, is_disk_full};
use recado_core::ids::BootId;
use recado_core::ledger::{CommitId, DeliveryRecord, DeliveryState, OperationRecord, OperationState, Write};
use serde_json::json;

use crate::fixtures::{accepted, batch, claim, commit, delivery, open, operation, path_in, succeeded, wall};

#[test]
fn every_acknowledged_commit_survives_a_kill_in_the_middle_of_commits() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    let mut there = 0;
    for round in 0..6u128 {
        let (mut child, lines) = again("faults::as_a_child_commit_until_killed", &path, &round.to_string(), &[]);
        let mut acknowledged = there;
        let mut lines = lines.lines().map_while(Result::ok).filter_map(|line| line.strip_prefix("durable ")?.parse::<usize>().ok());
        // Somewhere in the stream, at another place each round.
        for number in lines.by_ref() {
            acknowledged = number + 1;
            if acknowledged >= there + 20 + 37 * usize::try_from(round).unwrap_or_default() {
                break;
            }
        }
        child.kill().expect("it runs");
        child.wait().expect("it is over");
        // What it had said before it died counts as said.
        for number in lines {
            acknowledged = number + 1;
        }
        let (_store, recovered) = open(&path, 1_000 + round);
        let found: Vec<u128> = recovered.operations.iter().map(|record| record.id.0).collect();
        // In order and without a gap: a commit that is there has all before it.
        assert_eq!(found, (0..found.len() as u128).collect::<Vec<u128>>());
        assert!(found.len() >= acknowledged, "{acknowledged} were acknowledged, {} are there", found.len());
        assert_eq!(recovered.batches.len(), found.len(), "a commit is there in part");
        assert!(acknowledged > there, "the child was killed before it did anything");
        there = found.len();
    }
}

#[test]
fn a_full_disk_refuses_new_work_and_still_records_what_was_promised() {
    let Some(disk) = Disk::mount("16m") else { return };
    let path = path_in(&disk.0);
    let (mut store, _) = open(&path, 1);
    for number in 1..=20 {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
    }
    let filler = disk.0.join("filler");
    fill(&filler);
    let mut number = 100;
    let refused = loop {
        let large = OperationRecord { arguments: json!("x".repeat(20_000)), ..operation(number, 1) };
        match commit(&mut store, vec![Write::CreateOperation(large)]) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
        assert!(number < 1_000, "the disk was not full");
    };
    assert_eq!(refused, CommitError::Full);
    assert!(!path.with_file_name("state.db.reserve").exists(), "the reserve was not given up");
    // In one group with an operation that is refused, as the writer would have it.
    let outcomes = store.commit(&[(CommitId(1), accepted(50)), (CommitId(2), succeeded(2)), (CommitId(3), vec![claim(2, 1)])]);
    assert_eq!(outcomes, [Err(CommitError::Full), Ok(()), Ok(())]);
    for number in 3..=20 {
        assert_eq!(commit(&mut store, succeeded(number)), Ok(()));
        let speaking = DeliveryRecord { state: DeliveryState::Speaking, ..delivery(number, number) };
        assert_eq!(commit(&mut store, vec![claim(number, 1), Write::UpdateDelivery(speaking)]), Ok(()));
    }
    fs::remove_file(&filler).expect("there");
    assert_eq!(commit(&mut store, accepted(60)), Ok(()), "there is space again");
    assert!(path.with_file_name("state.db.reserve").exists(), "the reserve was not made again");
    drop(store);
    let (_store, recovered) = open(&path, 2);
    assert_eq!(recovered.claims.len(), 19);
    assert_eq!(recovered.operations.len(), 20 + usize::try_from(number - 100).unwrap_or_default() + 1);
}

#[test]
fn the_reserve_is_the_stores_alone_however_fast_others_fill_the_disk() {
    for disk in [Disk::mount("32m"), Disk::ext4("48M")].into_iter().flatten() {
        let path = path_in(&disk.0);
        let (mut store, _) = open(&path, 1);
        for number in 1..=PROMISED {
            assert_eq!(commit(&mut store, accepted(number)), Ok(()));
        }
        // From here on somebody else takes whatever is free, at once, all the time.
        let filler = Filler::start(disk.0.join("filler"));
        let has = || ["", "-wal"].map(|part| fs::metadata(sibling(&path, part)).expect("there").len()).iter().sum::<u64>();
        let mut before = has();
        let refused = (1_000..3_000).find_map(|number| {
            before = has();
            commit(&mut store, accepted(number)).err()
        });
        assert_eq!(refused, Some(CommitError::Full));
        let taken = has() - before;
        println!("of a reserve of 4 MiB the file and the log have taken {} KiB", taken >> 10);
        assert!(taken > 1 << 20, "{taken} bytes: somebody else had the rest");
        for number in 1..=PROMISED {
            assert_eq!(commit(&mut store, succeeded(number)), Ok(()), "{number}");
            let speaking = DeliveryRecord { state: DeliveryState::Speaking, ..delivery(number, number) };
            assert_eq!(commit(&mut store, vec![claim(number, 1), Write::UpdateDelivery(speaking)]), Ok(()), "{number}");
        }
        filler.stop();
        assert_eq!(commit(&mut store, accepted(5_000)), Ok(()), "there is space again");
        drop(store);
        assert!(!sibling(&path, "-wal").exists(), "the log is left over");
        let database = rusqlite::Connection::open(&path).expect("a database");
        let pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        let pages: i64 = database.query_row(pages, [], |row| row.get(0)).expect("a size");
        assert_eq!(fs::metadata(&path).expect("there").len(), pages.unsigned_abs(), "it keeps what it took and does not use");
        let verdict: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a verdict");
        assert_eq!(verdict, "ok");
        let (_store, recovered) = open(&path, 2);
        assert_eq!(recovered.claims.len(), usize::try_from(PROMISED).expect("some"));
    }
}

#[test]
fn a_store_that_is_killed_on_its_reserve_is_found_whole() {
    let Some(disk) = Disk::mount("12m") else { return };
    let path = path_in(&disk.0);
    let (mut store, _) = open(&path, 1);
    assert_eq!(commit(&mut store, accepted(1)), Ok(()));
    let filler = disk.0.join("filler");
    fill(&filler);
    assert_eq!((1_000..3_000).find_map(|number| commit(&mut store, accepted(number)).err()), Some(CommitError::Full));
    fill(&filler);
    assert_eq!(commit(&mut store, succeeded(1)), Ok(()));
    // What stands on the disk now, with what the files have ahead, is what a killed process leaves.
    let other = tempfile::tempdir().expect("a directory");
    let copy = path_in(other.path());
    for part in ["", "-wal"] {
        fs::copy(sibling(&path, part), sibling(&copy, part)).expect("copied");
    }
    let (_store, recovered) = open(&copy, 2);
    let state = recovered.operations.iter().find(|operation| operation.id.0 == 1).map(|operation| operation.state);
    assert_eq!(state, Some(OperationState::Succeeded));
}

#[test]
fn what_a_cut_left_of_a_reserve_that_was_being_given_up_is_space_for_the_store() {
    let Some(disk) = Disk::mount("12m") else { return };
    let path = path_in(&disk.0);
    drop(open(&path, 1));
    let reserve = sibling(&path, ".reserve");
    fs::File::options().write(true).open(&reserve).and_then(|file| file.set_len(1 << 20)).expect("cut");
    let room = disk.0.join("room");
    fs::write(&room, vec![0; 512 << 10]).expect("written");
    fill(&disk.0.join("filler"));
    // Enough to open the store, and not enough for a reserve.
    fs::remove_file(&room).expect("there");
    let (_store, _) = open(&path, 2);
    assert!(!reserve.exists());
}

#[test]
fn a_store_that_is_opened_without_its_reserve_on_a_full_disk_takes_no_new_work_until_there_is_space() {
    let Some(disk) = Disk::mount("16m") else { return };
    let path = path_in(&disk.0);
    let (mut store, _) = open(&path, 1);
    for number in 1..=3 {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
    }
    drop(store);
    // What a kill on a full disk leaves: the store without its reserve, and so much room.
    let (filler, room) = (disk.0.join("filler"), disk.0.join("room"));
    let leaves = |bytes: usize| {
        drop(fs::remove_file(&filler));
        fs::remove_file(sibling(&path, ".reserve")).expect("there");
        fs::write(&room, vec![0; bytes]).expect("written");
        fill(&filler);
        fs::remove_file(&room).expect("there");
    };
    leaves(768 << 10);
    assert!(is_disk_full(&path));
    let (mut store, _) = open(&path, 2);
    let outcomes = store.commit(&[(CommitId(1), accepted(50)), (CommitId(2), succeeded(2)), (CommitId(3), vec![claim(2, 2)])]);
    assert_eq!(outcomes, [Err(CommitError::Full), Ok(()), Ok(())]);
    assert!(!store.look_after() && is_disk_full(&path));
    fs::remove_file(&filler).expect("there");
    assert!(store.look_after() && !is_disk_full(&path));
    assert_eq!(commit(&mut store, accepted(60)), Ok(()), "there is space again");
    drop(store);
    // With some room, though not enough for a reserve, it works without one.
    leaves(2 << 20);
    assert!(!is_disk_full(&path));
    let (mut store, _) = open(&path, 3);
    assert!(!sibling(&path, ".reserve").exists());
    assert_eq!(commit(&mut store, accepted(70)), Ok(()));
}

#[test]
fn a_link_in_the_place_of_a_file_of_the_store_is_not_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, other) = (path_in(directory.path()), directory.path().join("somebody_elses"));
    drop(open(&path, 1));
    fs::write(&other, "theirs").expect("written");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).expect("set");
    let reserve = sibling(&path, ".reserve");
    fs::remove_file(&reserve).and_then(|()| symlink(&other, &reserve)).expect("linked");
    drop(open(&path, 2));
    assert_eq!(fs::read_to_string(&other).expect("there"), "theirs");
    assert_eq!(fs::metadata(&other).expect("there").permissions().mode() & 0o777, 0o644);
    assert!(fs::symlink_metadata(&reserve).is_ok_and(|found| found.is_file()), "a reserve of its own");
    // An empty file is what a store begins with.
    let elsewhere = tempfile::tempdir().expect("a directory");
    let path = path_in(elsewhere.path());
    fs::write(&other, "").and_then(|()| symlink(&other, &path)).expect("linked");
    let refused = Store::open(&path, &Options::new(BootId(3), wall(0))).expect_err("refused");
    assert!(refused.to_string().contains("it is a link"), "{refused}");
    assert_eq!(fs::metadata(&other).map(|found| (found.len(), found.permissions().mode() & 0o777)).expect("there"), (0, 0o644));
}

#[test]
fn where_there_is_no_room_for_a_copy_of_a_damaged_store_nothing_is_read_and_that_is_said() {
    let Some(disk) = Disk::mount("16m") else { return };
    let path = path_in(&disk.0);
    let (mut store, _) = open(&path, 1);
    for number in 1..=20 {
        let large = OperationRecord { arguments: json!("x".repeat(20_000)), ..operation(number, 1) };
        assert_eq!(commit(&mut store, vec![Write::CreateBatch(batch(number)), Write::CreateOperation(large)]), Ok(()));
    }
    drop(store);
    let mut damaged = fs::read(&path).expect("there");
    damaged[4_096..8_192].fill(0xa5);
    fs::write(&path, &damaged).expect("written");
    // There is room for a new store, and none for a copy of the old one with what is kept back.
    fs::write(disk.0.join("other"), vec![0; 4 << 20]).expect("written");
    let (mut store, recovered) = open(&path, 2);
    let loss = store.loss().expect("a loss").clone();
    assert!(loss.reason.contains("no room for a copy to read, which needs 9 MiB"), "{loss:?}");
    assert_eq!((loss.operations_unknown, recovered.operations.len()), (0, 0));
    assert!(fs::read(&loss.set_aside).expect("kept") == damaged, "the damaged store was changed");
    assert!(!sibling(&path, ".examined").exists());
    assert_eq!(commit(&mut store, accepted(1)), Ok(()), "the room is the store's");
    drop(store);
    // Where there is room, the same store is read.
    for part in ["", "-wal", "-shm"] {
        drop(fs::remove_file(sibling(&path, part)));
    }
    fs::remove_file(&loss.set_aside).expect("there");
    fs::remove_file(disk.0.join("other")).expect("there");
    fs::write(&path, &damaged).expect("written");
    let (store, _) = open(&path, 3);
    assert!(store.loss().is_some_and(|loss| !loss.reason.contains("no room")), "{:?}", store.loss());
}

#[test]
fn a_disk_without_space_for_a_store_says_so() {
    let Some(disk) = Disk::mount("64k") else { return };
    fill(&disk.0.join("filler"));
    match Store::open(&path_in(&disk.0), &Options::new(BootId(1), wall(1))) {
        Err(OpenError::Full { .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("opened"),
    }
}

#[test]
fn a_read_only_disk_is_named() {
    let Some(disk) = Disk::mount("16m") else { return };
    let path = path_in(&disk.0);
    drop(open(&path, 1));
    assert!(run("mount", &["-o", "remount,ro", &disk.0.to_string_lossy()]), "it was mounted, so it can be mounted again");
    match Store::open(&path, &Options::new(BootId(2), wall(1))) {
        Err(error @ OpenError::ReadOnly { .. }) => assert!(error.to_string().contains("mount it writable")),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("opened"),
    }
}

#[test]
fn a_disk_that_fails_is_opened_again_and_keeps_what_was_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = path_in(directory.path());
    // A file that may not grow beyond 500 KiB, of which an empty store takes most: writes beyond it are input/output errors to SQLite.
    let (mut child, lines) = again(
        "faults::as_a_child_commit_until_the_disk_fails",
        &path,
        "1",
        &["sh", "-c", "trap '' XFSZ; ulimit -f 1000; exec \"$@\"", "sh"],
    );
    let said: Vec<String> = lines.lines().map_while(Result::ok).collect();
    assert!(child.wait().expect("it is over").success(), "{said:?}");
    let durable: Vec<u128> = said.iter().filter_map(|line| line.strip_prefix("durable ")?.parse().ok()).collect();
    let failed: Vec<u128> = said.iter().filter_map(|line| line.strip_prefix("failed ")?.parse().ok()).collect();
    assert!(durable.len() > 3 && failed.len() == 1, "{said:?}");
    let (_store, recovered) = open(&path, 2);
    let found: Vec<u128> = recovered.operations.iter().map(|record| record.id.0).collect();
    assert_eq!(found, durable);
    let first = &recovered.operations[0];
    assert_eq!((first.state, first.attempt), (OperationState::Running, 1), "the commit after the failure");
    let database = rusqlite::Connection::open(&path).expect("a database");
    let reopened: i64 = database.query_row("SELECT reopened FROM box", [], |row| row.get(0)).expect("a row");
    assert_eq!(reopened, 1);
}

#[test]
#[ignore = "a child of the tests above"]
fn as_a_child_commit_until_killed() {
    let Some((path, boot)) = child_arguments() else { return };
    let (store, recovered) = open(&path, boot);
    let from = recovered.operations.len() as u64;
    let writer = store
        .start(|answer| {
            assert_eq!(answer.outcome, Ok(()));
            say(&format!("durable {}", answer.commit.0));
        })
        .expect("a thread");
    for number in from.. {
        while let Err(error) = writer.commit(CommitId(number), accepted(u128::from(number))) {
            assert_eq!(error, CommitError::Busy);
            std::thread::yield_now();
        }
    }
}

#[test]
#[ignore = "a child of the tests above"]
fn as_a_child_commit_until_the_disk_fails() {
    let Some((path, boot)) = child_arguments() else { return };
    let (mut store, _) = open(&path, boot);
    assert_eq!(commit(&mut store, accepted(1)), Ok(()));
    say("durable 1");
    for number in 2..1_000 {
        let large = OperationRecord { arguments: json!("x".repeat(20_000)), ..operation(number, 1) };
        match commit(&mut store, vec![Write::CreateOperation(large)]) {
            Ok(()) => say(&format!("durable {number}")),
            Err(CommitError::Io(_)) => {
                say(&format!("failed {number}"));
                break;
            }
            Err(other) => panic!("{other}"),
        }
    }
    let running = OperationRecord { state: OperationState::Running, attempt: 1, ..operation(1, 1) };
    assert_eq!(commit(&mut store, vec![Write::UpdateOperation(running)]), Ok(()), "the store goes on");
}

/// Starts this binary again on one test, behind `wrapper`.
pub fn again(test: &str, path: &Path, boot: &str, wrapper: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let this = std::env::current_exe().expect("known");
    let arguments = ["--exact", test, "--ignored", "--nocapture", "--test-threads=1"];
    let mut command = match wrapper {
        [] => Command::new(&this),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(&this);
            command
        }
    };
    command.args(arguments).env("STORE_PATH", path).env("STORE_BOOT", boot).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("piped"));
    (child, lines)
}

fn child_arguments() -> Option<(PathBuf, u128)> {
    Some((std::env::var_os("STORE_PATH")?.into(), std::env::var("STORE_BOOT").ok()?.parse().ok()?))
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The first line shares libtest's.
    writeln!(out, "\n{line}").and_then(|()| out.flush()).expect("the parent listens");
}

/// A small disk, in memory or in a file.
pub struct Disk(pub PathBuf);

impl Disk {
    /// Where this is permitted: as root, outside of a sandbox.
    pub fn mount(size: &str) -> Option<Self> {
        Self::mounted(&["-t", "tmpfs", "-o", &format!("size={size}"), "recado-test"])
    }

    /// As a box has it: with a journal, and blocks that are found when they are written.
    fn ext4(size: &str) -> Option<Self> {
        let image = tempfile::NamedTempFile::new().expect("a file");
        let file = image.path().to_string_lossy();
        if !run("mkfs.ext4", &["-q", "-F", "-m", "0", &file, size]) {
            eprintln!("skipped: there is no mkfs.ext4");
            return None;
        }
        // Mounted, the image stays for as long as the disk does.
        Self::mounted(&["-o", "loop", &file])
    }

    fn mounted(arguments: &[&str]) -> Option<Self> {
        let at = tempfile::tempdir().expect("a directory").keep();
        if run("mount", &[arguments, &[&*at.to_string_lossy()]].concat()) {
            Some(Self(at))
        } else {
            eprintln!("skipped: mounting a small disk is not permitted here");
            fs::remove_dir(&at).expect("ours");
            None
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if run("umount", &["-l", &self.0.to_string_lossy()]) {
            drop(fs::remove_dir(&self.0));
        }
    }
}

pub fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Takes what is free on a disk, again and again, as fast as it can.
struct Filler {
    path: PathBuf,
    stops: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Filler {
    /// It has filled the disk when this returns.
    fn start(path: PathBuf) -> Self {
        fill(&path);
        let stops = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (path, stops) = (path.clone(), Arc::clone(&stops));
            move || {
                let mut file = fs::File::options().append(true).open(path).expect("it can be written");
                while !stops.load(Ordering::Relaxed) {
                    if file.write_all(&[0; 4096]).is_err() {
                        std::thread::yield_now();
                    }
                }
            }
        });
        Self { path, stops, thread }
    }

    /// Gives everything back.
    fn stop(self) {
        self.stops.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not fail");
        fs::remove_file(&self.path).expect("there");
    }
}

/// The file beside it with this at the end of its name.
fn sibling(path: &Path, part: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(part);
    name.into()
}

pub fn fill(path: &Path) {
    let mut file = fs::File::options().create(true).append(true).open(path).expect("it can be written");
    while file.write_all(&[0; 4096]).is_ok() {}
    while file.write_all(&[0]).is_ok() {}
}

/// Operations that run when the disk becomes full.
const PROMISED: u128 = 100;
