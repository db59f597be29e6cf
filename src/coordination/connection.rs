//! How the database file is opened: checked first, then set up so that a commit survives a power cut.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{FromSql, ToSql};
use rusqlite::{Connection, OpenFlags};

use super::error::{OpenError, from_engine};
use super::{check, schema};

/// Opens the existing file at `path` for the one writer, at the current schema.
///
/// Until it is known to be whole, ours, and not newer than this program, nothing is written, not even a checkpoint.
///
/// One that `has_held_a_store` and holds nothing has lost its log. A file that is `suspect` is checked to the last index entry and row.
/// Before its schema is changed a backup is made, where `backups` are kept.
pub(super) fn open(path: &Path, has_held_a_store: bool, suspect: bool, backups: u32) -> Result<Connection, OpenError> {
    let about = |error: rusqlite::Error| from_engine(&error, path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(about)?;
    connection.busy_timeout(BUSY).map_err(about)?;
    leave_log(&connection).map_err(about)?;
    if connection.is_readonly("main").map_err(about)? {
        return Err(OpenError::ReadOnly { path: path.to_owned() });
    }
    refuse(&connection, path, has_held_a_store, suspect)?;
    set_up(&connection, path)?;
    let found = schema::version(&connection).map_err(about)?;
    if found != 0
        && found < schema::VERSION
        && backups > 0
        && let Err(error) = super::backup::make(&connection, path, backups)
    {
        // The change is one transaction: a cut leaves the older schema whole.
        tracing::warn!(%error, "the schema is changed without a backup");
    }
    schema::migrate(&mut connection).map_err(about)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(about)?;
    Ok(connection)
}

/// Moves what the log holds into the file, flushes it, and lets the log begin anew: nothing of it is needed any more.
pub(super) fn empty_log(connection: &Connection) -> rusqlite::Result<()> {
    let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy == 0 { Ok(()) } else { Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)) }
}

/// Has the connection leave the file and the log as they are when it is closed. Closed otherwise, it moves what the log holds into the file, and
/// removes the log by its name, which may be another's by then.
pub(super) fn leave_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

/// Opens the file at `path` to look in, while the box runs or not.
pub(super) fn open_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Opens a file that nobody writes to: a backup. Neither a log nor a lock is looked for.
pub(super) fn open_unchanging(path: &Path) -> rusqlite::Result<Connection> {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02x}");
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Opens a copy of a damaged store, to read what can be read.
pub(super) fn open_damaged(copy: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Refuses what is not whole, not ours or newer than this program.
fn refuse(connection: &Connection, path: &Path, has_held_a_store: bool, suspect: bool) -> Result<(), OpenError> {
    let about = |error: rusqlite::Error| from_engine(&error, path);
    connection.pragma_update(None, "cell_size_check", true).map_err(about)?;
    // An I/O error in mapped memory would be a signal, not an error.
    connection.pragma_update(None, "mmap_size", 0).map_err(about)?;
    connection.pragma_update(None, "trusted_schema", false).map_err(about)?;
    let whose: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(about)?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(about)?;
    if whose != schema::APPLICATION_ID && (whose != 0 || tables != 0) {
        return Err(OpenError::NotAStore { path: path.to_owned() });
    }
    if tables == 0 && has_held_a_store {
        return Err(OpenError::Corrupt { path: path.to_owned(), what: "it is empty, and has not been".to_owned() });
    }
    let found = schema::version(connection).map_err(about)?;
    if found > schema::VERSION {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: schema::VERSION });
    }
    let found = match std::fs::metadata(path) {
        _ if suspect => check::all(connection).map(|found| found.damage),
        Ok(found) if found.len() > CHECKED_BYTES_MAX => return Ok(()),
        _ => check::quick(connection),
    };
    match found.map_err(about)? {
        None => Ok(()),
        Some(what) => Err(OpenError::Corrupt { path: path.to_owned(), what }),
    }
}

fn set_up(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    // The page size is ignored once the file is in WAL mode.
    set(connection, path, "page_size", PAGE_BYTES, PAGE_BYTES)?;
    set(connection, path, "journal_mode", "wal", "wal".to_owned())?;
    // Without FULL, hundreds of acknowledged commits are forgotten at a power cut.
    set(connection, path, "synchronous", "FULL", SYNCHRONOUS_FULL)?;
    set(connection, path, "wal_autocheckpoint", CHECKPOINT_PAGES, CHECKPOINT_PAGES)?;
    set(connection, path, "foreign_keys", true, true)?;
    set(connection, path, "temp_store", "MEMORY", TEMP_STORE_MEMORY)?;
    Ok(())
}

/// Sets it and reads it back: the engine ignores what it can't do without an error.
fn set<V: ToSql, R: FromSql + PartialEq + ToString>(
    connection: &Connection,
    path: &Path,
    setting: &'static str,
    value: V,
    wanted: R,
) -> Result<(), OpenError> {
    let about = |error: rusqlite::Error| from_engine(&error, path);
    // Some settings answer with a row, some do not.
    connection.pragma_update(None, setting, value).map_err(about)?;
    let found: R = connection.pragma_query_value(None, setting, |row| row.get(0)).map_err(about)?;
    if found == wanted { Ok(()) } else { Err(OpenError::Setting { path: path.to_owned(), setting, value: found.to_string() }) }
}

/// A larger file is not read as a whole before calls are taken: some ten thousand operations, most of them over. A page that is
/// damaged is noticed when it is read, and the rest by the check that runs beside the box.
const CHECKED_BYTES_MAX: u64 = 32 << 20;

pub(super) const PAGE_BYTES: i64 = 4096;

/// Pages in the write-ahead log before they are moved into the file: few enough that the log is reused instead of growing,
/// which costs a file system commit each time.
pub(super) const CHECKPOINT_PAGES: i64 = 250;

const SYNCHRONOUS_FULL: i64 = 2;
const TEMP_STORE_MEMORY: i64 = 2;

/// How long another process's lock on the file is waited for: a human's `sqlite3`, a backup.
const BUSY: Duration = Duration::from_secs(2);
