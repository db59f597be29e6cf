//! How the database file is opened: checked first, then set up so that a commit survives a power cut.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{FromSql, ToSql};
use rusqlite::{Connection, OpenFlags};

use super::error::{OpenError, from_engine};
use super::schema;

/// Opens the existing file at `path` for the one writer, at the current schema.
///
/// Until it is known to be whole, ours, and not newer than this program, nothing is written, not even a checkpoint.
pub(super) fn open(path: &Path) -> Result<Connection, OpenError> {
    let about = |error: rusqlite::Error| from_engine(&error, path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(about)?;
    connection.busy_timeout(BUSY).map_err(about)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(about)?;
    if connection.is_readonly("main").map_err(about)? {
        return Err(OpenError::ReadOnly { path: path.to_owned() });
    }
    check(&connection, path)?;
    set_up(&connection, path)?;
    schema::migrate(&mut connection).map_err(about)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(about)?;
    Ok(connection)
}

/// Opens the file at `path` to look in, while the box runs or not.
pub(super) fn open_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

fn check(connection: &Connection, path: &Path) -> Result<(), OpenError> {
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
    let found = schema::version(connection).map_err(about)?;
    if found > schema::VERSION {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: schema::VERSION });
    }
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(about)?;
    if verdict != "ok" {
        return Err(OpenError::Corrupt { path: path.to_owned(), what: verdict });
    }
    Ok(())
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

const PAGE_BYTES: i64 = 4096;

/// Pages in the write-ahead log before they are moved into the file: few enough that the log is reused instead of growing,
/// which costs a file system commit each time.
const CHECKPOINT_PAGES: i64 = 250;

const SYNCHRONOUS_FULL: i64 = 2;
const TEMP_STORE_MEMORY: i64 = 2;

/// How long another process's lock on the file is waited for: a human's `sqlite3`, a backup.
const BUSY: Duration = Duration::from_secs(2);
