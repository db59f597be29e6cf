//! What the store needs from time to time while the box runs: a backup a day, and that somebody looks at what was damaged.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinError;
use tracing::{error, info, warn};

use super::clock::wall;
use crate::admin::{HealthState, Impact};
use crate::coordination::{Findings, check_store, foreign_files, is_backup_due, lost_stores, make_backup, was_missing};

/// Checks the store at `path` when the box has started and once a day, and then makes a backup where one is due and `backups` are kept;
/// shows in health what was damaged, and tells `anew` where the store has to be opened anew for it. Runs until it is dropped.
pub async fn keep_store(path: PathBuf, backups: u32, health: HealthState, anew: watch::Sender<Option<String>>, looking: Looking) {
    let mut rounds = Rounds { looking, ..Rounds::begun(Instant::now()) };
    loop {
        match rounds.go(&path, backups, &health, Instant::now()).await {
            Ok(None) => {}
            Ok(Some(what)) => {
                let reason = format!("the store is damaged ({what})");
                error!(what, "the store is damaged: it is opened anew when the calls are over");
                health.raise(DAMAGE, Impact::Refuses, format!("{reason}: it is opened anew when the calls are over"));
                anew.send_replace(Some(reason));
                return;
            }
            // The process ends.
            Err(_) => return,
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// That somebody reads the store, on a thread that nobody ends.
#[derive(Debug, Clone, Default)]
pub struct Looking(Arc<Mutex<()>>);

impl Looking {
    /// Waits until nobody does. A file that is opened and closed while this process has it open elsewhere loses the engine's locks on it.
    pub async fn ended(self) {
        let _ = tokio::task::spawn_blocking(move || drop(self.0.lock())).await;
    }
}

/// When what was done last.
#[derive(Debug)]
struct Rounds {
    looking: Looking,
    /// The store was found whole.
    checked: Option<Instant>,
    /// A check or a backup failed.
    failed: Option<Instant>,
    /// A backup was made, or the box began.
    made: Instant,
}

impl Rounds {
    fn begun(now: Instant) -> Self {
        Self { looking: Looking::default(), checked: None, failed: None, made: now }
    }

    /// Does what is due at `now`, and says what is damaged.
    async fn go(&mut self, path: &Path, backups: u32, health: &HealthState, now: Instant) -> Result<Option<String>, JoinError> {
        let since = |at: Instant| now.saturating_duration_since(at);
        let rested = self.failed.is_none_or(|failed| since(failed) >= RETRY_EVERY);
        let check = rested && self.checked.is_none_or(|checked| since(checked) >= CHECK_EVERY);
        let (store, running_for, looking) = (path.to_owned(), since(self.made), self.looking.clone());
        // It reads the whole store, on a thread that nobody waits for.
        let looked = tokio::task::spawn_blocking(move || {
            let _looking = looking.0.lock().unwrap_or_else(PoisonError::into_inner);
            let due = rested && backups > 0 && is_backup_due(&store, wall(), running_for);
            let found = (check || due).then(|| check_store(&store));
            // What is damaged is not to take the place of a good copy.
            let whole = found.as_ref().is_none_or(|found| found.as_ref().is_ok_and(|found| found.damage.is_none()));
            let backup = (due && whole).then(|| make_backup(&store, backups));
            (found, backup, Beside::of(&store))
        });
        let (found, backup, beside) = looked.await?;
        match found {
            None => {}
            Some(Ok(Findings { damage: Some(what), .. })) => return Ok(Some(what)),
            Some(Ok(found)) => {
                self.checked = Some(now);
                health.clear(CHECK);
                show_unreadable(health, &found, path);
            }
            // The writer need not meet the same fault, and no backup is made.
            Some(Err(error)) => {
                self.failed = Some(now);
                warn!(%error, "the store could not be checked");
                let text = format!(
                    "the store can't be checked, and has no backup made: {error}: check the disk (dmesg); it is tried again in an hour"
                );
                health.raise(CHECK, Impact::Degrades, text);
            }
        }
        match backup {
            Some(Ok(file)) => {
                self.made = now;
                info!(file = %file.display(), "backup of the store made");
                health.clear(BACKUP);
            }
            // It came after the check.
            Some(Err(error)) if error.is_damage() => return Ok(Some(error.to_string())),
            Some(Err(error)) => {
                self.failed = Some(now);
                warn!(%error, "no backup of the store could be made");
                health.raise(BACKUP, Impact::Degrades, format!("{error}; `recado doctor` says more"));
            }
            None => {}
        }
        beside.show(health);
        Ok(None)
    }
}

/// Says in health which rows can't be read of what is over.
fn show_unreadable(health: &HealthState, found: &Findings, path: &Path) {
    match unreadable_rows(found, path) {
        None => health.clear(HISTORY),
        Some(text) => {
            warn!(problem = text, "rows of what is over can't be read");
            health.raise(HISTORY, Impact::Degrades, text);
        }
    }
}

/// What is said of rows of what is over that can't be read, and what mends them.
pub(super) fn unreadable_rows(found: &Findings, path: &Path) -> Option<String> {
    let first = found.unreadable.first()?;
    let more = match found.unreadable_total {
        0 | 1 => String::new(),
        total => format!(", and {} more rows", total - 1),
    };
    Some(format!(
        "{}{more}, in {}: it is of what is over, so nothing is owed for it and the store is used on, but a repeat of it is not recognised; \
         `recado doctor --mend`, while the box does not run, makes a backup and removes the row with its batch",
        first.what,
        path.display()
    ))
}

/// What stands beside a store and is for somebody to see to.
#[derive(Debug)]
pub(super) struct Beside {
    /// Stores that were lost.
    lost: Vec<PathBuf>,
    /// What was put in the store's place.
    foreign: Vec<PathBuf>,
}

impl Beside {
    /// Beside the store at `path`. Nothing of it is read.
    pub(super) fn of(path: &Path) -> Self {
        Self { lost: lost_stores(path), foreign: foreign_files(path) }
    }

    /// Says so in health, until somebody has.
    pub(super) fn show(&self, health: &HealthState) {
        for (key, text) in [(DAMAGE, lost_text(&self.lost)), (FOREIGN, foreign_text(&self.foreign))] {
            match text {
                None => health.clear(key),
                Some(text) => health.raise(key, Impact::Degrades, format!("{text}; `recado doctor` says more")),
            }
        }
    }
}

/// What is said of what was put in the store's place while the box ran, and what ends it.
pub(super) fn foreign_text(foreign: &[PathBuf]) -> Option<String> {
    let first = foreign.first()?;
    let more = if foreign.len() == 1 { String::new() } else { format!(" and {} more", foreign.len() - 1) };
    Some(format!(
        "a file was put in the place of the store while the box ran, which went on with its own and kept it as {}{more}: stop the box before you \
         put a copy of the store there, and move this one away",
        first.display()
    ))
}

/// What is said of stores that were damaged or not there, and what ends it.
pub(super) fn lost_text(lost: &[PathBuf]) -> Option<String> {
    let names = |files: &[&PathBuf]| {
        let name = |file: &&PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let (missing, damaged): (Vec<&PathBuf>, Vec<&PathBuf>) = lost.iter().partition(|file| was_missing(file));
    let (what, seen_to) = match (damaged.is_empty(), missing.is_empty()) {
        (true, true) => return None,
        (false, true) => ("was damaged", format!("Check the disk (dmesg); move {} away when you have it elsewhere", names(&damaged))),
        (true, false) => ("was not there", format!("Find out what took it, and check the disk (dmesg); then remove {}", names(&missing))),
        (false, false) => {
            ("was damaged, and was not there", format!("Check the disk (dmesg); move {} away", names(&[damaged, missing].concat())))
        }
    };
    let times = if lost.len() == 1 { String::new() } else { format!(", {} times in all", lost.len()) };
    Some(format!("the store {what}{times}: what was going on then is not known, and what is still on record of it is told so. {seen_to}"))
}

/// What health calls that which is looked after here.
pub(super) const PARTS: [&str; 5] = [DAMAGE, FOREIGN, CHECK, BACKUP, HISTORY];
const DAMAGE: &str = "damage";
const FOREIGN: &str = "foreign";
const CHECK: &str = "check";
const BACKUP: &str = "backup";
const HISTORY: &str = "history";

/// A disk damages what lies still, too.
const CHECK_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// A check or a backup that failed is not tried again before: each reads the whole store.
const RETRY_EVERY: Duration = Duration::from_secs(60 * 60);

/// Whether a backup is due, and whether somebody has seen to the damage.
const LOOK_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use recado_core::BootId;

    use super::*;
    use crate::admin::Status;
    use crate::coordination::{Options, Store, backups};

    fn make_store(path: &Path) {
        drop(Store::open(path, &Options::new(BootId(1), wall())).unwrap());
    }

    #[tokio::test]
    async fn what_has_failed_rests_for_an_hour_and_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let begun = Instant::now();
        let (health, mut rounds) = (HealthState::new(begun), Rounds::begun(begun));
        let unchecked = || health.report(begun).problems.iter().any(|problem| problem.starts_with("check: ") && problem.contains("dmesg"));
        // There is nothing that can be read.
        std::fs::create_dir(&path).unwrap();
        assert_eq!(rounds.go(&path, 1, &health, begun).await.unwrap(), None);
        assert_eq!((unchecked(), health.report(begun).status), (true, Status::Degraded), "nobody hears that it is not checked");
        std::fs::remove_dir(&path).unwrap();
        make_store(&path);
        let just_before = begun + RETRY_EVERY - Duration::from_millis(1);
        assert_eq!(rounds.go(&path, 1, &health, just_before).await.unwrap(), None);
        assert!((rounds.checked, backups(&path).len()) == (None, 0), "a check that has failed is tried again at once");
        let at = begun + RETRY_EVERY;
        assert!(unchecked());
        assert_eq!(rounds.go(&path, 1, &health, at).await.unwrap(), None);
        assert!(!unchecked());
        assert_eq!((rounds.checked, rounds.made, backups(&path).len()), (Some(at), at, 1));

        // A backup that can't be made is not tried every minute either: something is in the way of it.
        std::fs::remove_file(&backups(&path)[0]).unwrap();
        let is_said = || health.report(begun).problems.iter().any(|problem| problem.starts_with("backup: "));
        let in_the_way = directory.path().join("state.db.backup-new");
        std::fs::create_dir(&in_the_way).unwrap();
        rounds.go(&path, 1, &health, at).await.unwrap();
        assert!(is_said());
        std::fs::remove_dir(&in_the_way).unwrap();
        rounds.go(&path, 1, &health, at + RETRY_EVERY - Duration::from_millis(1)).await.unwrap();
        assert!(backups(&path).is_empty() && is_said());
        rounds.go(&path, 1, &health, at + RETRY_EVERY).await.unwrap();
        assert!(backups(&path).len() == 1 && !is_said());
    }

    fn edit(path: &Path, sql: &str) {
        rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
    }

    /// A batch in `state`, whose identifiers are none.
    fn unreadable_batch(state: &str) -> String {
        format!(
            "INSERT INTO batch (batch_id, session_id, response_id, language, state) VALUES ('bat_x', 'ses_x', 'rsp_x', 'en', '{state}')"
        )
    }

    #[tokio::test]
    async fn a_store_whose_file_is_taken_from_under_the_box_is_left_to_its_writer_and_no_backup_is_made_of_what_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        make_store(&path);
        let begun = Instant::now();
        let (health, mut rounds) = (HealthState::new(begun), Rounds::begun(begun));
        assert_eq!(rounds.go(&path, 1, &health, begun).await.unwrap(), None);
        let made = std::fs::read(&backups(&path)[0]).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(rounds.go(&path, 1, &health, begun + LOOK_EVERY).await.unwrap(), None, "it may be written again at any moment");
        // Where it still is not a day later, it never will be.
        let what = rounds.go(&path, 1, &health, begun + CHECK_EVERY).await.unwrap();
        assert!(what.as_ref().is_some_and(|what| what.contains("not there")), "{what:?}");
        assert_eq!(std::fs::read(&backups(&path)[0]).unwrap(), made);
    }

    #[tokio::test]
    async fn whoever_opens_the_store_anew_can_wait_for_those_who_read_it() {
        let looking = Looking::default();
        let (begins, begun) = tokio::sync::oneshot::channel();
        let (ends, ending) = std::sync::mpsc::channel::<()>();
        let reads = looking.clone();
        tokio::task::spawn_blocking(move || {
            let _looking = reads.0.lock().unwrap();
            begins.send(()).unwrap();
            let _ = ending.recv();
        });
        begun.await.unwrap();
        let mut over = tokio::spawn(looking.ended());
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut over).await.is_err());
        ends.send(()).unwrap();
        over.await.unwrap();
    }

    #[tokio::test]
    async fn a_first_page_that_is_no_databases_any_more_is_damage() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        make_store(&path);
        let begun = Instant::now();
        let (health, mut rounds) = (HealthState::new(begun), Rounds::begun(begun));
        assert_eq!(rounds.go(&path, 1, &health, begun).await.unwrap(), None);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[..4_096].fill(0xa5);
        std::fs::write(&path, bytes).unwrap();
        let what = rounds.go(&path, 1, &health, begun + CHECK_EVERY).await.unwrap();
        assert!(what.as_ref().is_some_and(|what| what.contains("not a database")), "{what:?}");
    }

    #[tokio::test]
    async fn what_was_put_in_the_stores_place_degrades_health_until_it_is_moved_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        make_store(&path);
        let begun = Instant::now();
        let (health, mut rounds) = (HealthState::new(begun), Rounds::begun(begun));
        let kept = [1, 2].map(|number| directory.path().join(format!("state.db.foreign-{number}")));
        kept.iter().for_each(|file| std::fs::write(file, "somebody's").unwrap());
        assert_eq!(rounds.go(&path, 1, &health, begun).await.unwrap(), None);
        let report = health.report(begun);
        let [problem] = report.problems.as_slice() else { panic!("{report:?}") };
        assert_eq!(report.status, Status::Degraded);
        assert!(
            problem.starts_with("foreign: a file was put in the place of the store") && problem.contains("foreign-1 and 1 more"),
            "{problem}"
        );
        kept.iter().for_each(|file| std::fs::remove_file(file).unwrap());
        assert_eq!(rounds.go(&path, 1, &health, begun).await.unwrap(), None);
        assert_eq!(health.report(begun).status, Status::Ok);
    }

    #[test]
    fn each_store_that_was_lost_is_named_with_what_became_of_it_and_what_ends_the_alarm() {
        let file = |name: &str| PathBuf::from(format!("/data/recado.db{name}"));
        let said = |lost: &[PathBuf]| lost_text(lost).unwrap_or_default();
        assert_eq!(lost_text(&[]), None);
        let damaged = said(&[file(".corrupt-boot_1-1")]);
        assert!(damaged.starts_with("the store was damaged: ") && damaged.contains("move recado.db.corrupt-boot_1-1 away"), "{damaged}");
        let missing = said(&[file(".missing-boot_1-1")]);
        assert!(missing.starts_with("the store was not there: ") && missing.contains("remove recado.db.missing-boot_1-1"), "{missing}");
        let both = said(&[file(".corrupt-boot_1-1"), file(".missing-boot_2-1")]);
        assert!(both.starts_with("the store was damaged, and was not there, 2 times in all: "), "{both}");
        assert!(both.contains(".corrupt-boot_1-1, recado.db.missing-boot_2-1 away"), "{both}");
    }

    #[tokio::test]
    async fn a_row_of_what_is_owed_that_can_not_be_read_is_damage_to_the_check_beside_the_box() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        make_store(&path);
        edit(&path, &unreadable_batch("open"));
        let (anew, wanted) = watch::channel(None);
        keep_store(path.clone(), 1, HealthState::new(Instant::now()), anew, Looking::default()).await;
        let reason = wanted.borrow().clone().unwrap();
        assert!(reason.contains("batch bat_x can't be read"), "{reason}");
        assert!(backups(&path).is_empty(), "what is damaged took the place of a good copy");
        // A start agrees, whether it suspects the file or not.
        for suspect in [true, false] {
            let at = directory.path().join(format!("{suspect}.db"));
            std::fs::copy(&path, &at).unwrap();
            let options = Options { suspect, ..Options::new(BootId(2), wall()) };
            let (store, _) = Store::open(&at, &options).unwrap();
            assert!(store.loss().is_some_and(|loss| loss.reason.contains("bat_x")), "{:?}", store.loss());
        }
    }

    #[tokio::test]
    async fn a_row_of_what_is_over_that_can_not_be_read_degrades_health_and_is_no_damage() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        make_store(&path);
        edit(&path, &unreadable_batch("closed"));
        let begun = Instant::now();
        let (health, mut rounds) = (HealthState::new(begun), Rounds::begun(begun));
        assert_eq!(rounds.go(&path, 1, &health, begun).await.unwrap(), None);
        let report = health.report(begun);
        assert_eq!(report.status, Status::Degraded);
        let [problem] = report.problems.as_slice() else { panic!("{report:?}") };
        assert!(problem.starts_with("history: batch bat_x can't be read: "), "{problem}");
        assert!(problem.contains(&path.display().to_string()) && problem.contains("recado doctor --mend"), "{problem}");
        assert_eq!((rounds.checked, rounds.made, backups(&path).len()), (Some(begun), begun, 1), "backups go on");
        // Neither the next start nor one that suspects the file sets it aside, and what they go on with has the row.
        for suspect in [false, true] {
            let options = Options { suspect, ..Options::new(BootId(2), wall()) };
            let (store, _) = Store::open(&path, &options).unwrap();
            assert_eq!(store.loss(), None);
        }
        let still = |path: &Path| check_store(path).unwrap().unreadable_total;
        assert_eq!((still(&path), still(&backups(&path)[0])), (1, 1));
        // A backup that has such a row takes the place of a store that is damaged.
        std::fs::write(&path, [0xa5; 8_192]).unwrap();
        let (store, _) = Store::open(&path, &Options::new(BootId(3), wall())).unwrap();
        assert_eq!(store.loss().and_then(|loss| loss.restored.clone()), Some(backups(&path)[0].clone()));
        drop(store);

        // It is said again every day, and ends when the row is gone.
        edit(&path, "DELETE FROM batch");
        rounds.go(&path, 1, &health, begun + CHECK_EVERY).await.unwrap();
        assert!(health.report(begun).problems.iter().all(|problem| !problem.starts_with("history")), "{:?}", health.report(begun));
    }
}
