//! How the database file is opened: checked first, then set up so that a commit survives a power cut.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{FromSql, ToSql};
use rusqlite::{Connection, OpenFlags, ffi};

use super::error::{OpenError, from_engine, is_corrupt};
use super::schema::Columns;
use super::{check, header, schema};

/// [`open_unread`], for a file whose rows are known to read back.
pub(super) fn open(path: &Path, has_held_a_store: bool, suspect: bool, backups: u32) -> Result<Connection, OpenError> {
    let connection = open_unread(path, has_held_a_store, suspect, backups)?;
    use_log(&connection).map_err(|error| from_engine(&error, path))?;
    Ok(connection)
}

/// Opens the existing file at `path` for the one writer, at the current schema.
///
/// Until it is known to be whole, ours, and not newer than this program, nothing is written, not even a checkpoint.
///
/// One that `has_held_a_store` and holds nothing has lost its log. A file that is `suspect` is checked to the last index entry and row.
/// Before its schema is changed a backup is made, where `backups` are kept. When it is closed its log stays, until [`use_log`] says otherwise.
pub(super) fn open_unread(path: &Path, has_held_a_store: bool, suspect: bool, backups: u32) -> Result<Connection, OpenError> {
    let about = |error: rusqlite::Error| from_engine(&error, path);
    keep_log(path).map_err(about)?;
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
    // Its marks and columns fit together: what fails then is the change, unless a page is damaged, and the file is left as it is.
    schema::migrate(&mut connection).map_err(|error| {
        if is_corrupt(&error) { about(error) } else { OpenError::Io { path: path.to_owned(), reason: error.to_string() } }
    })?;
    Ok(connection)
}

/// Lets what the log holds be moved into the file when it is closed: all that matters has been read.
pub(super) fn use_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map(drop)
}

/// Moves what the log holds into the file, flushes it, and lets the log begin anew: nothing of it is needed any more.
pub(super) fn empty_log(connection: &Connection) -> rusqlite::Result<()> {
    let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy == 0 { Ok(()) } else { Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)) }
}

/// Whether the file has all that the log holds, or the log holds nothing.
pub(super) fn log_is_in_file(connection: &Connection) -> rusqlite::Result<bool> {
    let counts = |row: &rusqlite::Row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], counts).map(|(frames, in_file)| frames == in_file)
}

/// Has the connection leave the file and the log as they are when it is closed. Closed otherwise, it moves what the log holds into the file, and
/// removes the log by its name, which may be another's by then.
pub(super) fn leave_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

/// Opens the file at `path` to look in, while the box runs or not.
pub(super) fn open_read_only(path: &Path) -> rusqlite::Result<Connection> {
    keep_log(path)?;
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

/// Opens a copy of a damaged store, to read what can be read: whatever the schema says, and without a thought of durability.
pub(super) fn open_examined(copy: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    for (setting, value) in [("writable_schema", "ON"), ("cell_size_check", "ON"), ("trusted_schema", "OFF"), ("synchronous", "OFF")] {
        connection.pragma_update(None, setting, value)?;
    }
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "journal_mode", "OFF")?;
    Ok(connection)
}

/// Keeps the engine from a file beside which it would delete the log, also where it is only to read.
fn keep_log(path: &Path) -> rusqlite::Result<()> {
    let corrupt = |what: &str| rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(what.to_owned()));
    header::lost_beside_its_log(path).map_or(Ok(()), |what| Err(corrupt(what)))
}

/// Refuses what is not whole, not ours or newer than this program.
fn refuse(connection: &Connection, path: &Path, has_held_a_store: bool, suspect: bool) -> Result<(), OpenError> {
    let about = |error: rusqlite::Error| from_engine(&error, path);
    connection.pragma_update(None, "cell_size_check", true).map_err(about)?;
    // An I/O error in mapped memory would be a signal, not an error.
    connection.pragma_update(None, "mmap_size", 0).map_err(about)?;
    connection.pragma_update(None, "trusted_schema", false).map_err(about)?;
    refuse_marks(connection, path, has_held_a_store)?;
    // Before it was read, it could be written.
    if connection.is_readonly("main").map_err(about)? {
        return Err(damaged(path, "its first page says that it may only be read"));
    }
    let found = match std::fs::metadata(path) {
        _ if suspect => check::all(connection).map(|found| found.damage),
        Ok(found) if found.len() > CHECKED_BYTES_MAX => return Ok(()),
        _ => check::quick(connection),
    };
    match found.map_err(about)? {
        None => Ok(()),
        Some(what) => Err(damaged(path, what)),
    }
}

/// Refuses what is by its marks and its tables not ours, newer than this program, or no schema that there has been.
pub(super) fn refuse_marks(connection: &Connection, path: &Path, has_held_a_store: bool) -> Result<(), OpenError> {
    let about = |error: rusqlite::Error| from_engine(&error, path);
    let whose: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(about)?;
    let version = schema::version(connection).map_err(about)?;
    let found = schema::columns(connection).map_err(about)?;
    let is_new = found.is_empty() && whose == 0 && version == 0;
    if is_new && !has_held_a_store {
        return Ok(());
    }
    let of = |version| schema::columns_of(version).map_err(about);
    if whose != schema::APPLICATION_ID && !is_new {
        let is_ours = of(1)?.keys().all(|table| found.contains_key(table)) || (found.is_empty() && has_held_a_store);
        let not_ours = || OpenError::NotAStore { path: path.to_owned() };
        return Err(if is_ours { damaged(path, "its first page says that it is not recado's") } else { not_ours() });
    }
    if schema::is_newer(version) {
        return Err(OpenError::Newer { path: path.to_owned(), found: version, known: schema::VERSION });
    }
    if found.is_empty() {
        return Err(damaged(path, "it is empty, and has not been"));
    }
    let missing_of = |expected: &Columns| {
        expected
            .iter()
            .flat_map(|(table, columns)| columns.iter().map(move |column| (table, column)))
            .find(|(table, column)| found.get(*table).is_none_or(|found| !found.contains(column)))
            .map(|(table, column)| format!("table {table} has no column {column}"))
    };
    let is_known = (1..=schema::VERSION).contains(&version);
    if !is_known || (version < schema::VERSION && missing_of(&of(schema::VERSION)?).is_none()) {
        return Err(damaged(path, format!("its first page says schema {version}, which it does not have")));
    }
    if let Some(what) = missing_of(&of(version)?) {
        return Err(damaged(path, what));
    }
    let auto_vacuum: i64 = connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).map_err(about)?;
    if auto_vacuum == 0 { Ok(()) } else { Err(damaged(path, "its first page says that it has pages of another kind")) }
}

fn damaged(path: &Path, what: impl Into<String>) -> OpenError {
    OpenError::Corrupt { path: path.to_owned(), what: what.into() }
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
