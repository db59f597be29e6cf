//! What the store needs from time to time while the box runs: a backup a day, and that somebody looks at what was damaged.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::clock::wall;
use crate::admin::{HealthState, Impact};
use crate::coordination::{damaged_stores, is_backup_due, make_backup};

/// Keeps `backups` of the store at `path`, none where that is 0, and shows in health what was damaged. Runs until it is dropped.
pub async fn keep_store(path: PathBuf, backups: u32, health: HealthState) {
    let mut made = Instant::now();
    loop {
        let (store, running_for) = (path.clone(), made.elapsed());
        // It reads the whole store, on a thread that nobody waits for.
        let looked = tokio::task::spawn_blocking(move || {
            let due = backups > 0 && is_backup_due(&store, wall(), running_for);
            (due.then(|| make_backup(&store, backups)), damaged_stores(&store))
        });
        if let Ok((backup, damaged)) = looked.await {
            match backup {
                Some(Ok(file)) => {
                    made = Instant::now();
                    info!(file = %file.display(), "backup of the store made");
                    health.clear("backup");
                }
                Some(Err(error)) => {
                    warn!(%error, "no backup of the store could be made");
                    health.raise("backup", Impact::Degrades, error.to_string());
                }
                None => {}
            }
            show_damage(&health, &damaged);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

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

/// Whether a backup is due, and whether somebody has seen to the damage.
const LOOK_EVERY: Duration = Duration::from_secs(60);
