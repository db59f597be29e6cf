//! What the store needs from time to time while the box runs: a backup a day, and that somebody looks at what was damaged.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::{error, info, warn};

use super::clock::wall;
use crate::admin::{HealthState, Impact};
use crate::coordination::{damaged_stores, find_damage, is_backup_due, make_backup};

/// Checks the store at `path` when the box has started and once a day, and then makes a backup where one is due and `backups` are kept;
/// shows in health what was damaged, and tells `anew` where the store has to be opened anew for it. Runs until it is dropped.
pub async fn keep_store(path: PathBuf, backups: u32, health: HealthState, anew: watch::Sender<Option<String>>) {
    let (mut checked, mut made): (Option<Instant>, _) = (None, Instant::now());
    let mut failed: Option<Instant> = None;
    loop {
        let rested = failed.is_none_or(|failed| failed.elapsed() >= RETRY_EVERY);
        let check = rested && checked.is_none_or(|checked| checked.elapsed() >= CHECK_EVERY);
        let (store, running_for) = (path.clone(), made.elapsed());
        // It reads the whole store, on a thread that nobody waits for.
        let looked = tokio::task::spawn_blocking(move || {
            let due = rested && backups > 0 && is_backup_due(&store, wall(), running_for);
            // What is damaged is not to take the place of a good copy.
            let damage = if check || due { find_damage(&store) } else { Ok(None) };
            let backup = (due && matches!(damage, Ok(None))).then(|| make_backup(&store, backups));
            (damage, backup, damaged_stores(&store))
        });
        let Ok((damage, backup, damaged)) = looked.await else { return };
        match damage {
            Ok(None) if check => checked = Some(Instant::now()),
            Ok(None) => {}
            Ok(Some(what)) => {
                error!(what, "the store is damaged: it is opened anew when the calls are over");
                health.raise(
                    "damage",
                    Impact::Refuses,
                    format!("the store is damaged ({what}): it is opened anew when the calls are over"),
                );
                anew.send_replace(Some(format!("the store is damaged ({what})")));
                return;
            }
            // The writer meets the same fault, and health says so.
            Err(error) => {
                failed = Some(Instant::now());
                warn!(%error, "the store could not be checked");
            }
        }
        match backup {
            Some(Ok(file)) => {
                made = Instant::now();
                info!(file = %file.display(), "backup of the store made");
                health.clear("backup");
            }
            Some(Err(error)) => {
                failed = Some(Instant::now());
                warn!(%error, "no backup of the store could be made");
                health.raise("backup", Impact::Degrades, error.to_string());
            }
            None => {}
        }
        show_damage(&health, &damaged);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Says in health that a damaged store was set aside, until somebody has moved it away.
fn show_damage(health: &HealthState, damaged: &[PathBuf]) {
    let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match damaged.last() {
        None => health.clear("damage"),
        Some(last) => {
            let (number, last) = (damaged.len(), name(last));
            let text = format!(
                "the store was damaged, {number} times in all: what was going on is not known and is told so; `recado doctor` says more. \
                 Check the disk; move {last} away when you have it elsewhere"
            );
            health.raise("damage", Impact::Degrades, text);
        }
    }
}

/// A disk damages what lies still, too.
const CHECK_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// A check or a backup that failed is not tried again before: each reads the whole store.
const RETRY_EVERY: Duration = Duration::from_secs(60 * 60);

/// Whether a backup is due, and whether somebody has seen to the damage.
const LOOK_EVERY: Duration = Duration::from_secs(60);
