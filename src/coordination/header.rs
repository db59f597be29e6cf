//! What the first bytes of the file and the files beside it say, before any engine opens it: the engine deletes a log whose file is empty.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use super::error::{OpenError, from_io};
use super::files::{is_gone, sibling};
use super::{schema, set_aside};
use crate::config::open_file;

/// Refuses, by its first bytes, a file that is no store of ours, that a newer program wrote, or whose log the engine would delete. It only
/// reads. Says whether the file is there and has held a store, by what stands beside it.
pub(super) fn inspect(path: &Path) -> Result<bool, OpenError> {
    let Some(header) = read(path)? else { return Ok(false) };
    // An empty file is what a cut leaves between the file's creation and its first page.
    let has_held_a_store = has_held_a_store(path);
    if let Some(what) = lost_beside_its_log(path) {
        return Err(OpenError::Corrupt { path: path.to_owned(), what: what.to_owned() });
    }
    if header.is_empty() {
        return Ok(has_held_a_store);
    }
    if header.len() < HEADER_BYTES || !header.starts_with(MAGIC) {
        return Err(not_a_database(path));
    }
    let application_id = number(&header, APPLICATION_ID_AT);
    // Zero as long as the first migration is only in the write-ahead log. Where a store has been, its tables say whose it is.
    if application_id != 0 && application_id != schema::APPLICATION_ID && !has_held_a_store {
        return Err(OpenError::NotAStore { path: path.to_owned() });
    }
    let found = number(&header, USER_VERSION_AT);
    if application_id == schema::APPLICATION_ID && schema::is_newer(found) {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: schema::VERSION });
    }
    Ok(has_held_a_store)
}

/// The error for a file at `path` that is no database: a damaged store where one has been before or its mark still stands, somebody else's
/// file elsewhere.
pub(super) fn not_a_database(path: &Path) -> OpenError {
    let is_marked = || read(path).ok().flatten().is_some_and(|header| number(&header, APPLICATION_ID_AT) == schema::APPLICATION_ID);
    let path = path.to_owned();
    if has_held_a_store(&path) || has_log(&path) || is_marked() {
        return OpenError::Corrupt { path, what: "its first page is not a database's".to_owned() };
    }
    OpenError::NotAStore { path }
}

/// Whether the first page says that only a newer engine may write to the file.
pub(super) fn may_only_be_read(path: &Path) -> bool {
    read(path).ok().flatten().is_some_and(|header| header.get(WRITE_VERSION_AT).is_some_and(|version| *version > WRITE_VERSION_MAX))
}

/// What is wrong with a file so short that it has not even a first page, beside a log that is not empty: the engine would take it for a new
/// one, and delete the log.
pub(super) fn lost_beside_its_log(path: &Path) -> Option<&'static str> {
    let found = fs::metadata(path).ok()?;
    (found.is_file() && found.len() < PAGE_BYTES_MIN && has_log(path)).then_some("its file is empty, beside a log that is not")
}

/// Only a store of ours that has been opened has a reserve, a backup or one that was set aside beside it.
fn has_held_a_store(path: &Path) -> bool {
    sibling(path, super::reserve::SUFFIX).exists()
        || !super::backup::backups(path).is_empty()
        || set_aside::is_under_way(path)
        || !set_aside::listed(path).is_empty()
}

/// Whether there is no file at `path` although there has been a store, of which even the log alone may be left. Whoever wanted to begin anew
/// would have taken what belongs to it, too.
pub fn is_missing(path: &Path) -> bool {
    is_gone(path) && (has_held_a_store(path) || has_log(path))
}

/// Whether there is a log, and it is not empty.
fn has_log(path: &Path) -> bool {
    fs::metadata(sibling(path, LOG)).is_ok_and(|found| found.is_file() && found.len() > 0)
}

/// Makes the header of a file of so many pages, with which this begins, what a store's is. Which pages are free is kept.
pub(super) fn mend(first_page: &mut [u8], pages: u32) {
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = first_page.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    let word = |number: i64| u32::try_from(number).unwrap_or_default().to_be_bytes();
    put(0, MAGIC);
    // Pages of 4096 bytes, no log, all of each page used, and three numbers that never change.
    put(16, &[0x10, 0, 1, 1, 0, 64, 32, 32]);
    // The number of pages counts where these two are the same.
    put(24, &word(1));
    put(92, &word(1));
    put(28, &pages.to_be_bytes());
    // The newest format of the schema; no pages of another kind; UTF-8.
    put(44, &word(4));
    put(52, &word(0));
    put(56, &word(1));
    put(USER_VERSION_AT, &word(schema::VERSION));
    put(64, &word(0));
    put(APPLICATION_ID_AT, &word(schema::APPLICATION_ID));
}

/// The first bytes of the file at `path`, if there is one.
fn read(path: &Path) -> Result<Option<Vec<u8>>, OpenError> {
    let about = |error: io::Error| from_io(&error, path);
    let mut header = Vec::new();
    match open_file(path) {
        Ok(file) => file.take(HEADER_BYTES as u64).read_to_end(&mut header).map(|_| Some(header)).map_err(about),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(about(error)),
    }
}

fn number(header: &[u8], at: usize) -> i64 {
    header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, |bytes| i64::from(u32::from_be_bytes(bytes)))
}

/// What the log's name ends in.
pub(super) const LOG: &str = "-wal";

/// How a database file begins, and where its header says whose it is (SQLite's file format, section 1.3).
const MAGIC: &[u8] = b"SQLite format 3\0";
pub(super) const HEADER_BYTES: usize = 100;
const WRITE_VERSION_AT: usize = 18;
const WRITE_VERSION_MAX: u8 = 2;
const USER_VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;

/// The smallest page that there is (bytes).
const PAGE_BYTES_MIN: u64 = 512;
