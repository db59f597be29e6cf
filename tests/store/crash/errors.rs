//! Disk errors: each operation of a run fails, once or for a while. What was acknowledged is there, also after a power cut at any
//! moment from then on, and the store takes commits again once the disk works.

use std::collections::BTreeSet;
use std::time::Duration;

use recado::coordination::{CommitError, OpenError, Options, Store};
use recado_core::ids::BootId;

use super::disk::{Disk, Fault, FaultKind, LUCKS};
use super::rig::{Watched, cuts, integrity, look, try_all};
use crate::fixtures::{accepted, commit, path_in, succeeded, wall};

#[test]
fn a_disk_error_at_any_operation_costs_at_most_the_commits_that_it_met() {
    let (mut met, mut refused, mut kept, mut restarts) = (0, 0, 0, 0);
    for kind in [FaultKind::Broken, FaultKind::Unflushed, FaultKind::Full, FaultKind::Unreadable] {
        // One operation, so many that opening again fails too, and all until the disk is repaired.
        for count in [1, 7, 40] {
            for from in (0..OPERATIONS).step_by(if count == 1 { 8 } else { 23 }) {
                let run = Run::with(Fault { from, count, kind });
                // The file is open again at once, and says what became of the commit that met the fault.
                assert!(count > 1 || !run.restart_wanted, "{kind:?} from {from}");
                met += usize::from(run.failed);
                refused += run.refused.len();
                kept += usize::from(run.failed && run.reopened && run.refused.is_empty());
                restarts += usize::from(run.restart_wanted);
                run.judge(&format!("{kind:?} from {from}, {count} times"));
            }
        }
    }
    println!(
        "{met} faults met something, {refused} commits were refused, {kept} were kept by a file that was opened again, \
         {restarts} times the store had to be opened anew"
    );
    assert!(met > 60 && refused > 60 && kept > 3, "the faults prove nothing");
}

#[test]
fn a_commit_that_was_answered_as_failed_and_is_found_later_keeps_new_work_out_until_a_restart() {
    let watched = Watched::new();
    let (mut store, _) = Store::open(&watched.path(), &options(1)).expect("opens");
    assert_eq!(commit(&mut store, accepted(1)), Ok(()));
    // It is written, its flush fails, and so does each of those by which the file would be opened again.
    watched.disk.fails(Fault { from: 0, count: usize::MAX, kind: FaultKind::Unflushed });
    for number in [2, 3] {
        assert!(matches!(commit(&mut store, accepted(number)), Err(CommitError::Io(_))), "{number} was accepted");
        assert_eq!(store.restart_wanted(), None, "nobody can know yet");
    }
    watched.disk.works();
    // The ledger goes on as if there were no 2. The first commit that opens the file again is already kept out.
    for number in [4, 5] {
        let refused = commit(&mut store, accepted(number));
        assert!(matches!(&refused, Err(CommitError::Restart(reason)) if reason.contains("is in the store after all")), "{refused:?}");
    }
    assert_eq!(commit(&mut store, succeeded(1)), Ok(()), "what was promised is recorded");
    drop(store);
    assert_eq!(found(&watched.path()), Ok(BTreeSet::from([1, 2])), "what the restart reads");
}

#[test]
fn a_power_cut_after_a_failed_flush_finds_all_that_was_acknowledged() {
    // A flush that fails is forgotten by the system: what it should have written may never come to the disk.
    for count in [1, 2, 3, 5] {
        for from in (0..OPERATIONS).step_by(11) {
            let run = Run::with(Fault { from, count, kind: FaultKind::Unflushed });
            if run.failed {
                run.judge_cuts(&format!("flushes fail from {from}, {count} times"));
            }
        }
    }
}

#[test]
fn a_store_that_can_not_be_opened_for_a_disk_error_says_so_and_is_whole_afterwards() {
    let watched = Watched::new();
    drop(commit_some(&watched, 1..=3));
    let operations = 60;
    for kind in [FaultKind::Broken, FaultKind::Full, FaultKind::Unreadable] {
        for from in (0..operations).step_by(3) {
            watched.disk.fails(Fault { from, count: 1_000, kind });
            match Store::open(&watched.path(), &options(10)) {
                Ok(opened) => drop(opened),
                Err(OpenError::Io { .. } | OpenError::Full { .. } | OpenError::ReadOnly { .. }) => {}
                Err(other) => panic!("{kind:?} from {from}: {other}"),
            }
            watched.disk.works();
            let (_, recovered) = Store::open(&watched.path(), &options(11)).unwrap_or_else(|error| panic!("{kind:?} from {from}: {error}"));
            assert_eq!(recovered.operations.len(), 3, "{kind:?} from {from}");
        }
    }
}

/// A run of commits on a disk that fails for a while and is then repaired.
struct Run {
    watched: Watched,
    first: usize,
    failed: bool,
    acknowledged: BTreeSet<u128>,
    refused: BTreeSet<u128>,
    /// Refused because the file is to be opened anew.
    barred: BTreeSet<u128>,
    restart_wanted: bool,
    /// Whether the file was opened again within the run.
    reopened: bool,
}

impl Run {
    fn with(fault: Fault) -> Self {
        let watched = Watched::new();
        let (mut store, _) = Store::open(&watched.path(), &options(1)).expect("opens");
        let first = watched.disk.events().len();
        watched.disk.fails(fault);
        let (mut acknowledged, mut refused, mut barred) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for number in 1..=COMMITS {
            if number == COMMITS - 2 {
                watched.disk.works();
            }
            let bars = store.restart_wanted().is_some();
            match commit(&mut store, accepted(number)) {
                Ok(()) => {
                    assert!(!bars, "{fault:?}: {number} was accepted by a store that is to be opened anew");
                    acknowledged.insert(number);
                    watched.disk.acknowledged(number as usize);
                }
                Err(CommitError::Io(_) | CommitError::Full | CommitError::ReadOnly) => {
                    refused.insert(number);
                }
                Err(CommitError::Restart(_)) => {
                    barred.insert(number);
                }
                Err(other) => panic!("{fault:?}: {other}"),
            }
        }
        let restart_wanted = store.restart_wanted().is_some();
        assert!(restart_wanted || acknowledged.contains(&COMMITS), "{fault:?}: the disk works, and the store does not");
        drop(store);
        let reopened = look(&watched.path()).query_row("SELECT reopened > 0 FROM box", [], |row| row.get(0)).expect("a row");
        Self { failed: failed(&watched.disk), watched, first, acknowledged, refused, barred, restart_wanted, reopened }
    }

    fn judge(&self, what: &str) {
        let found = found(&self.watched.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(found.is_superset(&self.acknowledged), "{what}: of {:?} there are {found:?}", self.acknowledged);
        let more: Vec<&u128> = found.difference(&self.acknowledged).collect();
        assert!(found.is_disjoint(&self.barred), "{what}: of {:?}, refused for sure, there are {found:?}", self.barred);
        assert!(more.is_empty() || self.restart_wanted, "{what}: {more:?} had been refused, are there, and nobody was told");
    }

    fn judge_cuts(&self, what: &str) {
        let events = self.watched.disk.events();
        let (_, wrong) = try_all(cuts(&events, self.first, &LUCKS[..1], 7), |cut, path| {
            let found = found(path)?;
            let lost: Vec<&u128> =
                self.acknowledged.iter().filter(|number| **number <= cut.acknowledged as u128 && !found.contains(number)).collect();
            if lost.is_empty() { Ok(()) } else { Err(format!("{lost:?} are lost")) }
        });
        assert!(wrong.is_empty(), "{what}: {:#?}", &wrong[..wrong.len().min(3)]);
    }
}

fn failed(disk: &Disk) -> bool {
    disk.operations().1 > 0
}

/// The operations in a store that opens and is whole.
fn found(path: &std::path::Path) -> Result<BTreeSet<u128>, String> {
    let (store, recovered) = Store::open(path, &options(99)).map_err(|error| error.to_string())?;
    drop(store);
    integrity(&look(path))?;
    Ok(recovered.operations.iter().map(|operation| operation.id.0).collect())
}

fn commit_some(watched: &Watched, numbers: std::ops::RangeInclusive<u128>) -> Store {
    let (mut store, _) = Store::open(&path_in(watched.directory.path()), &options(1)).expect("opens");
    for number in numbers {
        assert_eq!(commit(&mut store, accepted(number)), Ok(()));
    }
    store
}

fn options(boot: u128) -> Options {
    // Nobody here waits for a disk: it works again when the test says so.
    Options { reopen_after: Duration::ZERO, ..Options::new(BootId(boot), wall(1)) }
}

/// Commits of a run: enough that the log is moved into the file.
const COMMITS: u128 = 34;

/// Operations of such a run, about.
const OPERATIONS: usize = 420;
