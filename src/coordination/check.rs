//! Whether a store is whole: its file, and what stands in its rows, of which the engine knows nothing.

use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;

use super::error::{ReadError, says_damaged};
use super::files::is_gone;
use super::rows::Unread;
use super::{connection, recovery, schema};

/// What the check of a whole store finds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Findings {
    /// Why the store has to be set aside, if it has to: the file is damaged or gone, or a row of what is owed does not read back.
    pub damage: Option<String>,
    /// Rows that do not read back of what is over, at most [`UNREADABLE_MAX`]. The store is used on.
    pub unreadable: Vec<UnreadableRow>,
    /// How many there are in all.
    pub unreadable_total: u64,
}

/// A row that does not read back, of what is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnreadableRow {
    /// The batch that it belongs to; none where not even that can be read.
    pub batch_id: Option<String>,
    /// Its table, its identifier, and what is wrong with it.
    pub what: String,
}

/// Checks the store at `path`, which has been opened, to the last index entry and the last row. It reads beside a running box, and takes
/// as long as reading the whole file.
///
/// # Errors
/// The file can't be read, which is no damage.
pub fn find(path: &Path) -> Result<Findings, ReadError> {
    if is_gone(path) {
        return Ok(Findings { damage: Some("its file is not there any more".to_owned()), ..Findings::default() });
    }
    match connection::open_read_only(path).and_then(|connection| all(&connection)) {
        Ok(found) => Ok(found),
        Err(error) if says_damaged(&error) => Ok(Findings { damage: Some(error.to_string()), ..Findings::default() }),
        Err(error) => Err(error.into()),
    }
}

/// [`find`] by a connection that is open.
pub(super) fn all(connection: &Connection) -> rusqlite::Result<Findings> {
    match damage(connection, "PRAGMA integrity_check(1)")? {
        None => rows(connection, |_| true),
        damage => Ok(Findings { damage, ..Findings::default() }),
    }
}

/// What a start would meet soon: it reads no index, and of the rows only what it needs.
pub(super) fn quick(connection: &Connection) -> rusqlite::Result<Option<String>> {
    damage(connection, "PRAGMA quick_check(1)")
}

/// What stands in the rows of a file that is whole. Of those that do not read back, of what is over, those are named that `is_named` says.
pub(super) fn rows(connection: &Connection, is_named: impl Fn(&Unread) -> bool) -> rusqlite::Result<Findings> {
    // An older schema is read when it has been changed.
    if schema::version(connection)? != schema::VERSION {
        return Ok(Findings::default());
    }
    recovery::find_unreadable(connection, is_named)
}

/// What a check finds.
fn damage(connection: &Connection, how: &str) -> rusqlite::Result<Option<String>> {
    let verdict: String = connection.query_row(how, [], |row| row.get(0))?;
    if verdict == "ok" {
        return Ok(None);
    }
    // The check calls a page that the disk does not give up a damaged one. It may give it up yet; only reading says which it is.
    match connection.query_row("SELECT count(*) FROM dbstat", [], |_| Ok(())) {
        Err(error) if !says_damaged(&error) => Err(error),
        // Before what it has found it says in which database.
        _ => Ok(Some(verdict.lines().find(|line| !line.starts_with("***")).unwrap_or(&verdict).to_owned())),
    }
}

/// Unreadable rows that are named: more than a person reads at once.
pub(super) const UNREADABLE_MAX: usize = 50;
