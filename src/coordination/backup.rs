//! Backups: whole copies of the store beside it, by which a damaged one is replaced.
//!
//! They guard against a damaged file, not against a lost disk: copy them elsewhere for that.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use recado_core::time::Wall;
use rusqlite::Connection;

use super::error::{BackupError, OpenError, from_io};
use super::files::{directory, is_gone, private_file, sibling, sync_directory};
use super::reserve::{self, free_bytes};
use super::set_aside::{PARTS, remove};
use super::standing::{Standing, free_name};
use super::{check, connection, header};

/// Makes a backup of the store at `path`, and removes the oldest beyond `keep`. It reads beside a running box and disturbs
/// no commit, but the log can't begin anew while it reads.
///
/// # Errors
/// Each [`BackupError`] says what to do. The backups that there are stay.
pub fn make_backup(path: &Path, keep: u32) -> Result<PathBuf, BackupError> {
    make(&connection::open_read_only(path)?, path, keep)
}

/// The backups of the store at `path`, the newest first.
pub fn backups(path: &Path) -> Vec<PathBuf> {
    numbered(path).into_iter().map(|(_, file)| file).collect()
}

/// Whether a backup is due: there is none, or the newest is more than a day old by a synchronised clock. Where the clock is not
/// synchronised nobody knows, and `running_for`, how long the box has run since its last one, decides.
pub fn is_backup_due(path: &Path, now: Wall, running_for: Duration) -> bool {
    let Some((_, newest)) = numbered(path).into_iter().next() else { return true };
    let made =
        fs::metadata(&newest).and_then(|found| found.modified()).ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    match made.and_then(|made| i64::try_from(made.as_millis()).ok()) {
        Some(made_ms) if now.synchronised => {
            let every_ms = i64::try_from(BACKUP_EVERY.as_millis()).unwrap_or(i64::MAX);
            // One from the future was made by a clock that was wrong.
            !(0..every_ms).contains(&now.unix_ms.saturating_sub(made_ms))
        }
        _ => running_for >= BACKUP_EVERY,
    }
}

/// [`make_backup`] by a connection that is open.
pub(super) fn make(connection: &Connection, path: &Path, keep: u32) -> Result<PathBuf, BackupError> {
    let temporary = sibling(path, MAKING);
    let needed = bytes_needed(connection)?;
    if free_bytes(directory(path)).is_ok_and(|free| free < needed) {
        return Err(BackupError::NoSpace { needed });
    }
    let number = numbered(path).first().map_or(1, |(number, _)| number.saturating_add(1));
    let target = sibling(path, &format!("{INFIX}{number}"));
    write_whole(connection, &temporary, |file| verify(file).map_err(|what| BackupError::Damaged { what }), &target)?;
    for (_, old) in numbered(path).into_iter().skip(keep.max(1) as usize) {
        if let Err(error) = fs::remove_file(&old) {
            tracing::warn!(file = %old.display(), %error, "an old backup could not be removed");
        }
    }
    Ok(target)
}

/// Writes all that the connection reads in the place of its file, of which something is not there any more. What somebody else has put there
/// is kept under another name, which this returns.
///
/// Cut short, it is gone on with by [`finish_put_back`].
pub(super) fn put_back(connection: &Connection, path: &Path, standing: &Standing) -> Result<Option<PathBuf>, BackupError> {
    let failed = |reason: String| BackupError::Write { file: path.to_owned(), reason };
    if !standing.can_keep_foreign(path) {
        return Err(failed("too many files were put in its place before: move its *.foreign-* files away".to_owned()));
    }
    let needed = bytes(connection)?;
    if free_bytes(directory(path)).is_ok_and(|free| free < needed) {
        return Err(BackupError::NoSpace { needed });
    }
    let (temporary, whole) = (sibling(path, RESTORING), sibling(path, WHOLE));
    // Nothing that is found wrong with the copy is wrong with what was copied.
    let check = |file: &Path| {
        let connection = connection::open_unchanging(file).map_err(|error| error.to_string())?;
        check::quick(&connection).map_err(|error| error.to_string())?.map_or(Ok(()), Err)
    };
    write_whole(connection, &temporary, |file| check(file).map_err(failed), &whole)?;
    // From here on it is gone on with, and the mark says too much.
    let was_marked = is_displaced(path);
    let placed = unmark_displaced(path).and_then(|()| standing.keep_foreign(path)).and_then(|kept| take_its_place(path).map(|()| kept));
    placed.map_err(|error| {
        // It is written again later, with what comes until then.
        if was_marked {
            mark_displaced(path);
        }
        drop(fs::remove_file(&whole));
        failed(error.to_string())
    })
}

/// Notes that what stands in the place of the store at `path` is not all of it, or not it, as long as a process has the rest open.
pub(super) fn mark_displaced(path: &Path) {
    if let Err(error) = private_file(&sibling(path, DISPLACED)).and_then(|_| sync_directory(path)) {
        tracing::warn!(path = %path.display(), %error, "that the store is not in its place is on no record");
    }
}

/// It is again.
pub(super) fn unmark_displaced(path: &Path) -> io::Result<()> {
    if !is_displaced(path) {
        return Ok(());
    }
    remove(&sibling(path, DISPLACED)).and_then(|()| sync_directory(path))
}

/// Whether a process has ended that had the rest of the store at `path` open.
pub(super) fn is_displaced(path: &Path) -> bool {
    fs::symlink_metadata(sibling(path, DISPLACED)).is_ok()
}

/// Goes on with what [`put_back`] was cut short in: the copy was whole, and what stands in its place is older, or somebody
/// else's.
pub(super) fn finish_put_back(path: &Path) -> io::Result<()> {
    if !sibling(path, WHOLE).exists() {
        return Ok(());
    }
    unmark_displaced(path)?;
    if !is_gone(path)
        && let Some(kept) = free_name(path)
    {
        tracing::warn!(path = %path.display(), kept = %kept.display(), "the store was being written again: what stands in its place is kept");
        fs::rename(path, kept)?;
    }
    take_its_place(path)
}

/// The copy that is whole takes the place of the store at `path`, of which its own log is removed first: it must not be read into another file.
fn take_its_place(path: &Path) -> io::Result<()> {
    for part in PARTS.iter().skip(1) {
        remove(&sibling(path, part))?;
    }
    sync_directory(path)?;
    fs::rename(sibling(path, WHOLE), path).and_then(|()| sync_directory(path))
}

/// Writes all that the connection reads to `target`, by way of `temporary`: durably, and checked, or not at all.
fn write_whole(
    connection: &Connection,
    temporary: &Path,
    check: impl Fn(&Path) -> Result<(), BackupError>,
    target: &Path,
) -> Result<(), BackupError> {
    let about = |error: io::Error| BackupError::Write { file: temporary.to_owned(), reason: error.to_string() };
    // What is left of one that was cut short. It is made empty, so that nobody else may ever read it.
    drop(fs::remove_file(temporary));
    drop(private_file(temporary).map_err(about)?);
    let written = connection.execute("VACUUM INTO ?", [temporary.to_string_lossy()]).map_err(BackupError::from).and_then(|_| {
        check(temporary)?;
        File::open(temporary).and_then(|file| file.sync_all()).map_err(about)?;
        fs::rename(temporary, target).and_then(|()| sync_directory(target)).map_err(about)
    });
    if written.is_err() {
        drop(fs::remove_file(temporary));
    }
    written
}

/// Free space without which no backup is made (bytes): its own, and what the store may need meanwhile.
pub(super) fn bytes_needed(connection: &Connection) -> rusqlite::Result<u64> {
    Ok(bytes(connection)?.saturating_add(2 * reserve::BYTES))
}

/// What a copy may take.
fn bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let page_bytes: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok(u64::try_from(pages.saturating_mul(page_bytes)).unwrap_or(u64::MAX))
}

/// Copies the newest good backup of the store at `path` to `new`, which is not there. Says which, if there was one.
pub(super) fn restore_newest(path: &Path, new: &Path) -> Result<Option<PathBuf>, OpenError> {
    for (_, backup) in numbered(path) {
        if let Err(what) = verify(&backup) {
            tracing::error!(backup = %backup.display(), what, "a backup can't be used");
            continue;
        }
        let about = |error: io::Error| from_io(&error, new);
        let mut copy = private_file(new).map_err(about)?;
        let mut from = File::open(&backup).map_err(|error| from_io(&error, &backup))?;
        io::copy(&mut from, &mut copy).and_then(|_| copy.sync_all()).map_err(about)?;
        return Ok(Some(backup));
    }
    Ok(None)
}

/// Whether a backup is whole, ours, not newer than this program, and what is owed reads back. What is over and does not read back is no
/// worse in a backup than in the store.
pub(super) fn verify(file: &Path) -> Result<(), String> {
    let refused = |error: OpenError| match error {
        OpenError::Corrupt { what, .. } => what,
        error => error.to_string(),
    };
    header::inspect(file).map_err(refused)?;
    if header::may_only_be_read(file) {
        return Err("its first page says that it may only be read".to_owned());
    }
    let about = |error: rusqlite::Error| error.to_string();
    let connection = connection::open_unchanging(file).map_err(about)?;
    connection::refuse_marks(&connection, file, true).map_err(refused)?;
    match check::all(&connection).map_err(about)?.damage {
        None => Ok(()),
        Some(what) => Err(what),
    }
}

fn numbered(path: &Path) -> Vec<(u64, PathBuf)> {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { return Vec::new() };
    let entries = fs::read_dir(directory(path)).into_iter().flatten().filter_map(Result::ok);
    let number = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().strip_prefix(&name)?.strip_prefix(INFIX)?.parse::<u64>().ok();
    let mut found: Vec<(u64, PathBuf)> = entries.filter_map(|entry| Some((number(&entry)?, entry.path()))).collect();
    found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    found
}

const INFIX: &str = ".backup-";
pub(super) const MAKING: &str = ".backup-new";
pub(super) const RESTORING: &str = ".restoring";
const DISPLACED: &str = ".displaced";
/// A copy of all that a store holds, which is to take its place.
const WHOLE: &str = ".whole";

/// How old the newest may become.
const BACKUP_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
