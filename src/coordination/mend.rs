//! What a doctor can do for a store that nobody has open.

use std::fs;
use std::path::Path;
use std::time::Instant;

use super::error::OpenError;
use super::examine::leftovers;
use super::files::{self, Lock};
use super::reserve::Reserve;
use super::store::{Options, Store};

/// Mends what can be mended: takes other users' access, removes what was left behind, sets a damaged store aside and puts the newest
/// good backup or an empty store in its place, changes an older schema, makes the reserve. Says what was done, a sentence each.
///
/// # Errors
/// [`OpenError::InUse`] while the box runs, which mends itself; otherwise what can't be mended.
pub fn mend(path: &Path, options: &Options) -> Result<Vec<String>, OpenError> {
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
        done.push(format!(
            "set the damaged store aside as {} and put {by} in its place; {} operations are not known, {} closings uncertain",
            loss.set_aside.display(),
            loss.operations_unknown,
            loss.deliveries_uncertain
        ));
    }
    if !reserve_was_held && Reserve::new(path, Instant::now()).held() {
        done.push("made the reserve for a full disk".to_owned());
    }
    Ok(done)
}
