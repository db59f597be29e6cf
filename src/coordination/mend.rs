//! What a doctor can do for a store that nobody has open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::Connection;

use super::error::{CommitError, OpenError, from_engine};
use super::examine::leftovers;
use super::files::{self, Lock};
use super::reserve::{self, Reserve};
use super::set_aside::{NOTE, PARTS, was_missing};
use super::store::{Options, Store};
use super::{backup, check, connection, retention};

/// Mends what can be mended: gives root's files to the user that runs the box, takes other users' access, removes what was left behind, puts the
/// newest good backup or an empty store in the place of one that is damaged or not there, changes an older schema, makes the reserve, removes
/// what is over and can't be read. Says what was done, a sentence each.
///
/// # Errors
/// [`OpenError::InUse`] while the box runs, which mends itself; otherwise what can't be mended.
pub fn mend(path: &Path, options: &Options) -> Result<Vec<String>, OpenError> {
    // Nothing is touched beside a running box.
    let give = || Lock::take(path).and_then(|_lock| files::give_to_its_user(path));
    let given = give()?;
    let done = mend_files(path, options);
    // What root has made is the box's too, which runs as somebody else.
    give()?;
    let given = given.iter().map(|file| format!("gave {} to the user that runs the box", file.display()));
    Ok(given.chain(done?).collect())
}

/// Directories that stand where a file of the store's belongs, and keep the box from making it. What is in them is somebody's: nobody removes
/// them unasked.
pub fn in_the_way(path: &Path) -> Vec<PathBuf> {
    // Of the store itself more is said, by whoever reads it.
    let own = PARTS.iter().skip(1).chain(&[reserve::SUFFIX, files::LOCK, NOTE]).map(|suffix| files::sibling(path, suffix));
    // What a leftover's link leads to stays where it is.
    let is_directory = |file: &PathBuf| fs::symlink_metadata(file).is_ok_and(|found| found.is_dir());
    own.chain(leftovers(path)).filter(is_directory).collect()
}

fn mend_files(path: &Path, options: &Options) -> Result<Vec<String>, OpenError> {
    let mut done = Vec::new();
    {
        let _lock = Lock::take(path)?;
        for file in leftovers(path) {
            if fs::remove_file(&file).is_ok() {
                done.push(format!("removed {}, which something that was cut short had left behind", file.display()));
            }
        }
        for file in files::readable_by_others(path) {
            if files::make_private(&file).is_ok() {
                done.push(format!("made {} private", file.display()));
            }
        }
    }
    let reserve_was_held = Reserve::is_there(path);
    // Opening is what mends a damaged file, so that it is done in one way only.
    let (store, _) = Store::open(path, &Options { suspect: true, ..options.clone() })?;
    if let Some(loss) = store.loss() {
        let by = loss.restored.as_deref().map_or_else(|| "an empty store".to_owned(), |backup| format!("the backup {}", backup.display()));
        let what = if was_missing(&loss.set_aside) {
            format!("put {by} in the place of the store, which was not there")
        } else {
            format!("set the damaged store aside as {} and put {by} in its place", loss.set_aside.display())
        };
        let (unknown, uncertain) = (loss.operations_unknown, loss.deliveries_uncertain);
        done.push(format!("{what}; {unknown} operations are not known, {uncertain} closings uncertain, and are told so when the box runs"));
    }
    if !reserve_was_held && Reserve::new(path, Instant::now()).held() {
        done.push("made the reserve for a full disk".to_owned());
    }
    drop(store);
    done.extend(remove_unreadable(path, options.backups)?);
    Ok(done)
}

/// Removes what is over and has a row that does not read back, whole batches, when a backup has it. Says so, if there was any.
fn remove_unreadable(path: &Path, backups: u32) -> Result<Option<String>, OpenError> {
    let about = |error: rusqlite::Error| from_engine(&error, path);
    let failed = |reason: String| OpenError::Io { path: path.to_owned(), reason };
    let _lock = Lock::take(path)?;
    let connection = connection::open(path, true, false, backups)?;
    let (mut tried, mut removed, mut backup) = (BTreeSet::new(), Vec::new(), None);
    loop {
        let to_try = |batch: &String| !tried.contains(batch);
        let found = check::rows(&connection, |row| row.batch_id.as_ref().is_some_and(to_try)).map_err(about)?;
        let mut batches = BTreeMap::new();
        for row in found.unreadable {
            batches.entry(row.batch_id.unwrap_or_default()).or_insert(row.what);
        }
        let Some(first) = batches.values().next() else { break };
        if backup.is_none() {
            // Where none are kept, none goes for it either.
            let keep = if backups == 0 { u32::MAX } else { backups };
            let made = backup::make(&connection, path, keep);
            backup = Some(made.map_err(|error| failed(format!("{first}, and is kept without a backup: {error}")))?);
        }
        for (batch, what) in batches {
            match remove(&connection, &batch) {
                Ok(()) => removed.push(what),
                // Something else refers to it: it stays, and is said to.
                Err(CommitError::Constraint(_)) => {}
                Err(error) => return Err(failed(error.to_string())),
            }
            tried.insert(batch);
        }
    }
    let (Some(backup), Some(first)) = (backup, removed.first()) else { return Ok(None) };
    let number = removed.len();
    Ok(Some(format!("removed {number} batches that were over and could not be read whole ({first}); {} has them", backup.display())))
}

fn remove(connection: &Connection, batch: &str) -> Result<(), CommitError> {
    let transaction = connection.unchecked_transaction()?;
    retention::remove(&transaction, batch)?;
    Ok(transaction.commit()?)
}
