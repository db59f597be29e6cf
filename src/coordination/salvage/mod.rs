//! What can be read of a damaged store, from a copy: the file itself is left as it is.
//!
//! Neither its first page nor its schema is trusted. A page of our own making, which declares the tables of the ledger and nothing else, takes
//! the first page's place; each tree of rows in the file, whether the old first page still named it or no page refers to it any more,
//! is then read as each of these tables, and what reads back as a record is one.

mod pages;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use recado_core::ids::BatchId;
use recado_core::ledger::{BatchRecord, BatchState, OperationRecord};
use rusqlite::{Connection, Row};

use super::connection::{self, PAGE_BYTES as PAGE};
use super::files::{directory, private_file, sibling};
use super::header::{LOG, PAGE_BYTES};
use super::reserve::{self, free_bytes};
use super::secret::CallbackSecret;
use super::set_aside::PARTS;
use super::{header, log, rows, schema};
use pages::Pages;

/// What could be read from a damaged store.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Batches that are not closed, in the order in which they were recorded.
    pub batches: Vec<BatchRecord>,
    /// Their operations, in the order of acceptance.
    pub operations: Vec<OperationRecord>,
    /// Callbacks of what was sent before the damage are signed with it.
    pub secret: Option<[u8; CallbackSecret::BYTES]>,
    /// What could not be read, where that is not all.
    pub gap: Option<String>,
}

/// Reads what can be read. Where there is no room for a copy, nothing is read, and that is said: the copy must not take what the store needs.
pub(super) fn read_evidence(set_aside: &Path, beside: &Path) -> Evidence {
    let copy = sibling(beside, EXAMINED);
    let remove = || PARTS.iter().for_each(|part| drop(fs::remove_file(sibling(&copy, part))));
    remove();
    let evidence = read(set_aside, &copy).unwrap_or_else(|reason| {
        tracing::warn!(reason, "of the damaged store nothing could be read");
        Evidence { gap: Some(format!("nothing could be read from it ({reason})")), ..Evidence::default() }
    });
    remove();
    evidence
}

fn read(set_aside: &Path, copy: &Path) -> Result<Evidence, String> {
    let failed = |error: io::Error| format!("it could not be copied: {error}");
    let mut own = first_page(copy)?;
    copy_to_read(set_aside, copy)?;
    let log_is_whole = log::apply(copy).map_err(failed)?;
    let mut file = OpenOptions::new().read(true).write(true).open(copy).map_err(failed)?;
    let pages = make_whole(&mut file).map_err(failed)?;
    let named = connection::open_examined(copy).and_then(|connection| named(&connection)).unwrap_or_default();
    let pages_read = Pages::read(&mut file).map_err(failed)?;
    let trees = trees(&named, &pages_read.loose, pages);
    header::mend(&mut own, pages);
    file.rewind().and_then(|()| file.write_all(&own)).map_err(failed)?;
    drop(file);
    let connection = connection::open_examined(copy).map_err(|error| error.to_string())?;
    let found = Reading { connection, pages: pages_read, trees, faults: u64::from(!log_is_whole), rows: 0 }.evidence();
    found.ok_or_else(|| "no page of it holds what was asked for".to_owned())
}

/// A first page that declares the tables of the ledger that are read, whose columns have no rules. What an older row has not is what its column
/// says.
fn first_page(copy: &Path) -> Result<Vec<u8>, String> {
    let make = || -> rusqlite::Result<()> {
        let connection = Connection::open(copy)?;
        connection.pragma_update(None, "page_size", PAGE)?;
        let columns = schema::declarations()?;
        for table in TABLES {
            let columns = columns.get(table).map_or(&[][..], Vec::as_slice).join(", ").replacen(',', " INTEGER PRIMARY KEY,", 1);
            connection.execute_batch(&format!("CREATE TABLE {table} ({columns})"))?;
        }
        Ok(())
    };
    let mut page = vec![0; PAGE_BYTES];
    let made = private_file(copy).map_err(|error| error.to_string()).and_then(|_| make().map_err(|error| error.to_string()));
    let read = made.and_then(|()| File::open(copy).and_then(|mut file| file.read_exact(&mut page)).map_err(|error| error.to_string()));
    read.and_then(|()| fs::remove_file(copy).map_err(|error| error.to_string()))
        .map_err(|reason| format!("it could not be looked into: {reason}"))?;
    Ok(page)
}

fn copy_to_read(set_aside: &Path, copy: &Path) -> Result<(), String> {
    // The index of the log is of no use.
    let parts = ["", LOG].map(|part| (sibling(set_aside, part), sibling(copy, part)));
    let needed = parts.iter().filter_map(|(from, _)| fs::metadata(from).ok()).map(|found| found.len()).sum::<u64>() + 2 * reserve::BYTES;
    if free_bytes(directory(copy)).is_ok_and(|free| free < needed) {
        return Err(format!("there is no room for a copy to read, which needs {} MiB", needed.div_ceil(1 << 20)));
    }
    for (from, to) in parts.iter().filter(|(from, _)| from.exists()) {
        fs::copy(from, to).map_err(|error| format!("it could not be copied: {error}"))?;
    }
    Ok(())
}

/// Makes it a file of whole pages, whose header is a store's. Says how many they are.
fn make_whole(file: &mut File) -> io::Result<u32> {
    let pages = file.metadata()?.len().div_ceil(PAGE_BYTES as u64).max(1);
    file.set_len(pages * PAGE_BYTES as u64)?;
    let pages = u32::try_from(pages).unwrap_or(u32::MAX);
    let mut page = [0; header::HEADER_BYTES];
    file.rewind()?;
    file.read_exact(&mut page)?;
    header::mend(&mut page, pages);
    file.rewind()?;
    file.write_all(&page)?;
    Ok(pages)
}

/// A tree of rows.
struct Tree {
    /// Its first page.
    root: u32,
    /// The table that the schema says it is, where it says so.
    of: Option<&'static str>,
}

/// All that may be the tree of a table that is read: those that the schema names first, they are not out of date.
fn trees(named: &[(u32, &'static str)], loose: &[u32], pages: u32) -> Vec<Tree> {
    let named = named.iter().filter(|(root, _)| (2..=pages).contains(root));
    let mut trees: Vec<Tree> = named.map(|&(root, table)| Tree { root, of: Some(table) }).collect();
    let loose: Vec<u32> = loose.iter().copied().filter(|root| trees.iter().all(|tree| tree.root != *root)).collect();
    trees.extend(loose.into_iter().map(|root| Tree { root, of: None }));
    trees
}

/// The trees of the tables that are read, as far as the schema names them.
fn named(connection: &Connection) -> rusqlite::Result<Vec<(u32, &'static str)>> {
    let mut found = Vec::new();
    let mut statement = connection.prepare("SELECT rootpage, name FROM sqlite_schema WHERE type = 'table'")?;
    let mut rows = statement.query([])?;
    // Up to a page that can't be read.
    while let Ok(Some(row)) = rows.next() {
        if let (Ok(root), Ok(name)) = (row.get(0), row.get::<_, String>(1))
            && let Some(table) = TABLES.into_iter().find(|table| *table == name)
        {
            found.push((root, table));
        }
    }
    Ok(found)
}

/// A copy that is read, tree by tree.
struct Reading {
    connection: Connection,
    pages: Pages,
    trees: Vec<Tree>,
    /// Pages and rows that could not be read.
    faults: u64,
    /// Rows that could.
    rows: u64,
}

impl Reading {
    /// None where there is nothing of the ledger.
    fn evidence(mut self) -> Option<Evidence> {
        let is_named = |table| self.trees.iter().any(|tree| tree.of == Some(table));
        let all_named = is_named(BATCH) && is_named(OPERATION);
        let (mut known, mut owed) = (BTreeSet::new(), BTreeSet::new());
        let batches = self.all(BATCH, rows::batch, |batch: &BatchRecord| {
            let is_owed = known.insert(batch.id) && batch.state != BatchState::Closed;
            is_owed && owed.insert(batch.id)
        });
        let (mut seen, mut of_lost) = (BTreeSet::new(), false);
        let operations = self.all(OPERATION, rows::operation, |operation: &OperationRecord| {
            of_lost |= !known.contains(&operation.batch);
            owed.contains::<BatchId>(&operation.batch) && seen.insert(operation.id)
        });
        let secret = self.secret();
        if !all_named && self.rows == 0 {
            return None;
        }
        let is_whole = all_named && self.faults == 0 && !of_lost;
        let gap = (!is_whole).then(|| "not all of it could be read, or is known to have been".to_owned());
        Some(Evidence { batches, operations, secret, gap })
    }

    /// The rows of a table that read back and are to `keep`, in order, whatever tree they stand in.
    fn all<T>(&mut self, table: &'static str, read: impl Fn(&Row) -> Result<T, String>, mut keep: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut found = Vec::new();
        let mut take = |sequence, record| {
            if keep(&record) {
                found.push((sequence, record));
            }
        };
        for tree in self.trees.iter().filter(|tree| tree.of.is_none_or(|of| of == table)) {
            let mut scan = Scan::default();
            if point(&self.connection, tree.root).is_err() {
                scan.faults += 1;
            } else if !scan.rows(&self.connection, table, "ASC", &read, &mut take) {
                // A page of it can't be read: each is read by itself, from both ends.
                for leaf in self.pages.leaves(tree.root) {
                    let _ = point(&self.connection, leaf).is_err()
                        || scan.rows(&self.connection, table, "ASC", &read, &mut take)
                        || scan.rows(&self.connection, table, "DESC", &read, &mut take);
                }
            }
            self.rows += scan.rows;
            // A tree that nothing names and that has no such row is another table's.
            if tree.of.is_some() || scan.rows > 0 {
                self.faults += scan.faults + u64::from(tree.of.is_none());
            }
        }
        found.sort_by_key(|(sequence, _)| *sequence);
        found.into_iter().map(|(_, record)| record).collect()
    }

    fn secret(&self) -> Option<[u8; CallbackSecret::BYTES]> {
        let mut trees = self.trees.iter().filter(|tree| tree.of.is_none_or(|of| of == BOX));
        // Text in its place, as in other tables, is none; nor is what no table can be made of.
        trees.find_map(|tree| {
            point(&self.connection, tree.root).ok()?;
            self.connection.query_row("SELECT callback_secret FROM box", [], |row| row.get(0)).ok()
        })
    }
}

/// Lets every table be the tree that begins at this page.
fn point(connection: &Connection, root: u32) -> rusqlite::Result<()> {
    connection.prepare_cached("UPDATE sqlite_schema SET rootpage = ?")?.execute([root])?;
    // The schema is read anew, and can be changed again.
    connection.execute_batch("PRAGMA writable_schema = RESET; PRAGMA writable_schema = ON")
}

/// What became of the rows of a tree.
#[derive(Default)]
struct Scan {
    rows: u64,
    faults: u64,
}

impl Scan {
    /// Reads the rows of a table in this order, up to one that can't be read; rows may be `found` more than once. Says whether that was all.
    fn rows<T>(
        &mut self,
        connection: &Connection,
        table: &str,
        order: &str,
        read: impl Fn(&Row) -> Result<T, String>,
        mut found: impl FnMut(i64, T),
    ) -> bool {
        let sql = format!("SELECT * FROM {table} ORDER BY sequence {order}");
        let scanned = connection.prepare_cached(&sql).and_then(|mut statement| {
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                match read(row) {
                    Ok(record) => {
                        self.rows += 1;
                        found(row.get("sequence")?, record);
                    }
                    // A row that does not read back is passed over.
                    Err(_) => self.faults += 1,
                }
            }
            Ok(())
        });
        self.faults += u64::from(scanned.is_err());
        scanned.is_ok()
    }
}

const BATCH: &str = "batch";
const OPERATION: &str = "operation";
const BOX: &str = "box";

/// The tables that are read.
const TABLES: [&str; 3] = [BATCH, OPERATION, BOX];

pub(super) const EXAMINED: &str = ".examined";
