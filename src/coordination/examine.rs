//! A look at the store by a doctor: what is there, whether it is whole, and whether it keeps the contract's rules. It changes
//! nothing, and works beside a running box.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recado_core::time::Wall;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::Serialize;

use super::backup::{self, backups};
use super::check::{self, Findings};
use super::files::{self, directory, sibling};
use super::reserve::{Reserve, free_bytes};
use super::rows::WAITING;
use super::set_aside::{self, listed};
use super::standing::foreign_files;
use super::{connection, header, schema};
use crate::config::open_file;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Examination {
    /// The store's file.
    pub path: PathBuf,
    /// Every file of the store, by name, with its size (bytes).
    pub files: BTreeMap<String, u64>,
    /// Files or directories that other users may read.
    pub readable_by_others: Vec<PathBuf>,
    /// Files of root's, where another user runs the box.
    pub of_root: Vec<PathBuf>,
    /// Files that were left behind by something that was cut short.
    pub leftovers: Vec<PathBuf>,
    /// The process that has the store; 0 where it does not say which.
    pub in_use_by: Option<u32>,
    /// Space that is left on its disk (bytes).
    pub free_bytes: Option<u64>,
    /// Whether the reserve is there, whole.
    pub reserve: bool,
    /// Whether a start would make it: it is not there, and there is room.
    pub reserve_can_be_made: bool,
    /// Whether its file is not there, although a store has been.
    pub is_missing: bool,
    /// Damaged stores that were set aside, and what says that one was not there.
    pub set_aside: Vec<PathBuf>,
    /// What was put in the store's place while it was in use.
    pub foreign: Vec<PathBuf>,
    /// Whether a damaged store is being set aside, and the next start goes on with it.
    pub set_aside_under_way: bool,
    /// Backups, the newest first.
    pub backups: Vec<Backup>,
    /// Whether a start would make one.
    pub is_backup_due: bool,
    /// What is in the file.
    pub contents: Option<Contents>,
    /// Why that can't be said, where it can't.
    pub unreadable: Option<String>,
}

/// A backup.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Backup {
    /// Its file.
    pub file: PathBuf,
    /// What is wrong with it, where something is.
    pub damage: Option<String>,
}

/// A rule of the contract that rows break.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BrokenRule {
    /// The rule.
    pub rule: &'static str,
    /// Rows that break it, at most [`SHOWN_MAX`].
    pub rows: Vec<String>,
}

/// What is in the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contents {
    /// Free space without which no backup is made (bytes).
    pub backup_bytes: u64,
    /// Whether the log was left out, because nothing may be written beside the file.
    pub without_log: bool,
    /// Its schema, and the one that this program writes.
    pub schema: (i64, i64),
    /// Settings that are kept in the file.
    pub settings: BTreeMap<&'static str, String>,
    /// What the engine's full check says, `ok` or what is wrong.
    pub integrity: String,
    /// What stands in its rows, where the file is whole.
    #[serde(flatten)]
    pub findings: Findings,
    /// Operations by state.
    pub operations: BTreeMap<String, u64>,
    /// Batches by state.
    pub batches: BTreeMap<String, u64>,
    /// Deliveries by state.
    pub deliveries: BTreeMap<String, u64>,
    /// Lives of the process on record, and how often the file was opened again after a disk error.
    pub boots: u64,
    /// See `boots`.
    pub reopened: u64,
    /// Rules of the contract that rows break.
    pub broken_rules: Vec<BrokenRule>,
    /// Closings that wait, the oldest first, at most [`SHOWN_MAX`], and why each does.
    pub waiting: Vec<Waiting>,
    /// Times that a damaged store was set aside, the latest last.
    pub losses: Vec<String>,
}

/// A closing that waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Waiting {
    /// The delivery.
    pub delivery: String,
    /// Its state.
    pub state: String,
    /// Whom it belongs to.
    pub party: Option<String>,
    /// How long it has waited (ms), where clocks can tell.
    pub age_ms: Option<u64>,
    /// What it waits for, in words.
    pub why: String,
}

/// Looks at the store at `path`; `now` tells ages.
pub fn examine(path: &Path, now: Wall) -> Examination {
    let (contents, unreadable) = match read(path, now) {
        Ok(contents) => (Some(contents), None),
        Err(why) => (None, Some(why)),
    };
    let backup = |file: PathBuf| Backup { damage: backup::verify(&file).err(), file };
    Examination {
        path: path.to_owned(),
        files: sizes(path),
        readable_by_others: files::readable_by_others(path),
        of_root: files::of_root(path),
        leftovers: leftovers(path),
        in_use_by: holder(path),
        free_bytes: free_bytes(directory(path)).ok(),
        reserve: Reserve::is_there(path),
        reserve_can_be_made: Reserve::can_be_made(path),
        is_missing: header::is_missing(path),
        set_aside: listed(path),
        foreign: foreign_files(path),
        set_aside_under_way: set_aside::is_under_way(path),
        backups: backups(path).into_iter().map(backup).collect(),
        is_backup_due: backup::is_backup_due(path, now, Duration::ZERO),
        contents,
        unreadable,
    }
}

/// Files that only something that was cut short leaves behind. While the box runs they may be in use.
pub(super) fn leftovers(path: &Path) -> Vec<PathBuf> {
    let names = [backup::MAKING, backup::RESTORING, super::salvage::EXAMINED, set_aside::NOTE_NEW];
    let files = names.iter().flat_map(|name| set_aside::PARTS.iter().map(move |part| sibling(path, &format!("{name}{part}"))));
    // A link that leads nowhere is there, too.
    files.filter(|file| fs::symlink_metadata(file).is_ok()).collect()
}

/// Who has the store, as its lock says.
fn holder(path: &Path) -> Option<u32> {
    let mut lock = open_file(&sibling(path, files::LOCK)).ok()?;
    // A shared lock disturbs nobody who looks at the same time, and is given back at once.
    match lock.try_lock_shared() {
        Ok(()) => {
            drop(lock.unlock());
            None
        }
        Err(_) => {
            let mut text = String::new();
            Some(lock.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok()).unwrap_or_default())
        }
    }
}

fn sizes(path: &Path) -> BTreeMap<String, u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let entries = fs::read_dir(directory(path)).into_iter().flatten().filter_map(Result::ok);
    let ours = entries.filter_map(|entry| Some((entry.file_name().to_string_lossy().into_owned(), entry.metadata().ok()?.len())));
    ours.filter(|(file, _)| file.starts_with(&name)).collect()
}

fn read(path: &Path, now: Wall) -> Result<Contents, String> {
    match header::inspect(path) {
        _ if path.try_exists().is_ok_and(|there| !there) => return Err("there is no store: start the box once".to_owned()),
        Err(error) => return Err(error.to_string()),
        Ok(_) => {}
    }
    let (connection, without_log) =
        match connection::open_read_only(path).and_then(|connection| schema::version(&connection).map(|_| connection)) {
            Ok(connection) => (connection, false),
            // On a read-only disk the log can't be read: its index has to be written.
            Err(error) => match connection::open_unchanging(path) {
                Ok(connection) if holder(path).is_none() => (connection, true),
                _ => return Err(error.to_string()),
            },
        };
    contents(&connection, without_log, now).map_err(|error| error.to_string())
}

fn contents(connection: &Connection, without_log: bool, now: Wall) -> rusqlite::Result<Contents> {
    let found = schema::version(connection)?;
    let verdicts = connection
        .prepare("PRAGMA integrity_check(20)")?
        .query_map([], |row| row.get::<_, String>(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    let settings = ["journal_mode", "page_size", "page_count", "freelist_count", "auto_vacuum"];
    let setting = |name: &'static str| {
        connection
            .query_row(&format!("PRAGMA {name}"), [], |row| Ok((name, text(row, 0))))
            .optional()
            .map(|found| found.unwrap_or((name, "?".into())))
    };
    // Another schema has other rules.
    let current = found == schema::VERSION;
    Ok(Contents {
        backup_bytes: backup::bytes_needed(connection)?,
        without_log,
        schema: (found, schema::VERSION),
        settings: settings.into_iter().map(setting).collect::<rusqlite::Result<_>>()?,
        findings: if verdicts == ["ok"] { check::rows(connection, |_| true)? } else { Findings::default() },
        integrity: verdicts.join("; "),
        operations: by_state(connection, "operation")?,
        batches: by_state(connection, "batch")?,
        deliveries: by_state(connection, "delivery")?,
        boots: super::rows::number(connection, "SELECT count(*) FROM boot")?,
        reopened: super::rows::number(connection, "SELECT coalesce(sum(reopened), 0) FROM box")?,
        broken_rules: if current { broken_rules(connection)? } else { Vec::new() },
        waiting: if current { waiting(connection, now)? } else { Vec::new() },
        losses: if current { losses(connection)? } else { Vec::new() },
    })
}

fn by_state(connection: &Connection, table: &str) -> rusqlite::Result<BTreeMap<String, u64>> {
    let mut statement = connection.prepare(&format!("SELECT state, count(*) FROM {table} GROUP BY state"))?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?.collect()
}

fn broken_rules(connection: &Connection) -> rusqlite::Result<Vec<BrokenRule>> {
    let mut broken = Vec::new();
    for (rule, sql) in RULES {
        let mut statement = connection.prepare(&format!("{sql} LIMIT {SHOWN_MAX}"))?;
        let rows: Vec<String> = statement.query_map([], |row| Ok(text(row, 0)))?.collect::<rusqlite::Result<_>>()?;
        if !rows.is_empty() {
            broken.push(BrokenRule { rule, rows });
        }
    }
    let orphans: Vec<String> = connection
        .prepare("PRAGMA foreign_key_check")?
        .query_map([], |row| Ok(format!("{} {}", text(row, 0), text(row, 1))))?
        .take(SHOWN_MAX)
        .collect::<rusqlite::Result<_>>()?;
    if !orphans.is_empty() {
        broken.push(BrokenRule { rule: "every row finds what it refers to", rows: orphans });
    }
    Ok(broken)
}

fn waiting(connection: &Connection, now: Wall) -> rusqlite::Result<Vec<Waiting>> {
    let sql = format!(
        "SELECT d.delivery_id, d.state, d.party_id, d.attempt, d.ready_unix_ms, d.ready_synchronised, d.stale_after_ms, c.session_id, c.boot_id,
           (SELECT boot_id FROM boot ORDER BY sequence DESC LIMIT 1)
         FROM delivery AS d LEFT JOIN claim AS c USING (delivery_id) WHERE d.{WAITING} ORDER BY d.sequence LIMIT {SHOWN_MAX}"
    );
    let mut statement = connection.prepare(&sql)?;
    let found = statement.query_map([], |row| {
        let ready = Wall { unix_ms: row.get(4)?, synchronised: row.get(5)? };
        let (party, attempt): (Option<String>, u32) = (row.get(2)?, row.get(3)?);
        let stale_after_ms = row.get::<_, Option<i64>>(6)?.map(i64::unsigned_abs);
        let (session, boot, latest): (Option<String>, Option<String>, Option<String>) = (row.get(7)?, row.get(8)?, row.get(9)?);
        let age_ms = now.age_ms(ready);
        let why = match (session, &party) {
            (Some(session), _) if boot == latest => format!("{session} has it and is telling it, or was when the box ended"),
            (Some(_), _) => "an earlier life of the box had it: the next start frees it".to_owned(),
            (None, _) if age_ms.zip(stale_after_ms).is_some_and(|(age, after)| age > after) => {
                "it is stale: it is not told any more, and ends when the box next looks at it".to_owned()
            }
            (None, None) => "its caller was anonymous: it could be told only in the call that asked for it".to_owned(),
            (None, Some(party)) if attempt >= CUTS_MAX => {
                format!("it was cut {attempt} times: it is told when {party} asks, or with an answer")
            }
            (None, Some(party)) => format!("{party} has to call, or to fall quiet"),
        };
        Ok(Waiting { delivery: row.get(0)?, state: row.get(1)?, party, age_ms, why })
    })?;
    found.collect()
}

fn losses(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT set_aside, reason, restored, operations_unknown, deliveries_uncertain FROM loss ORDER BY sequence";
    let mut statement = connection.prepare(sql)?;
    let found = statement.query_map([], |row| {
        let restored: Option<String> = row.get(2)?;
        let by = restored.map_or_else(|| "an empty store".to_owned(), |backup| format!("the backup {backup}"));
        Ok(format!(
            "{} ({}), replaced by {by}: {} operations not known, {} closings uncertain",
            text(row, 0),
            text(row, 1),
            text(row, 3),
            text(row, 4)
        ))
    })?;
    found.collect()
}

/// A value as text, whatever its type.
fn text(row: &Row, column: usize) -> String {
    use rusqlite::types::ValueRef;
    match row.get_ref(column) {
        Ok(ValueRef::Integer(number)) => number.to_string(),
        Ok(ValueRef::Real(number)) => number.to_string(),
        Ok(ValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
        Ok(ValueRef::Null | ValueRef::Blob(_)) | Err(_) => "?".to_owned(),
    }
}

/// What the schema can't refuse by itself, since it holds between rows: the rule, and which rows break it.
const RULES: [(&str, &str); 7] = [
    (
        "a batch whose operations have all ended has its closing (I2)",
        "SELECT batch_id FROM batch AS b WHERE state IN ('drained', 'closed')
           AND EXISTS (SELECT 1 FROM operation AS o WHERE o.batch_id = b.batch_id)
           AND NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.batch_id = b.batch_id AND d.kind = 'final')",
    ),
    (
        "a batch is closed only when its closing is over (I2)",
        "SELECT b.batch_id FROM batch AS b JOIN delivery AS d ON d.batch_id = b.batch_id AND d.kind = 'final'
         WHERE b.state = 'closed' AND d.state NOT IN ('spoken', 'superseded', 'suppressed', 'withdrawn', 'handed_off')",
    ),
    (
        "a closing tells of operations that have ended (I4)",
        "SELECT d.delivery_id FROM delivery AS d WHERE d.kind = 'final' AND EXISTS (
           SELECT 1 FROM operation AS o WHERE o.batch_id = d.batch_id AND o.state IN ('accepted', 'running', 'retry_wait', 'cancelling'))",
    ),
    (
        "what was spoken has evidence for every clause (R5)",
        "SELECT delivery_id FROM delivery WHERE state = 'spoken' AND (json_array_length(clauses) = 0
           OR EXISTS (SELECT 1 FROM json_each(clauses) AS clause WHERE clause.value ->> '$.heard' IS NULL))",
    ),
    (
        "only what is not over is claimed (I17)",
        "SELECT delivery_id FROM claim JOIN delivery USING (delivery_id)
         WHERE state IN ('spoken', 'superseded', 'suppressed', 'withdrawn', 'handed_off')",
    ),
    (
        "what is being told is claimed (R4)",
        "SELECT delivery_id FROM delivery AS d WHERE state IN ('claimed', 'speaking')
           AND NOT EXISTS (SELECT 1 FROM claim AS c WHERE c.delivery_id = d.delivery_id)",
    ),
    (
        "an operation that ran has had an attempt (R2)",
        "SELECT operation_id FROM operation WHERE attempt = 0 AND state IN ('running', 'retry_wait', 'succeeded')",
    ),
];

/// Rows that are shown of each kind: more than a person reads at once.
pub const SHOWN_MAX: usize = 50;

/// Cuts after which a closing only rides, or waits to be asked for.
const CUTS_MAX: u32 = 3;
