//! What a store that is damaged, or not there any more, leaves in doubt, and how that is put on record.
//!
//! Between the backup that took its place, or nothing, and the damage lies a time of which nothing is certain. Operations that
//! the backup has under way may have ended, and ones that it does not have may have been accepted; closings may have been told. So
//! every operation that is not settled becomes `Unknown`, every closing that waits `Uncertain`. What can still be read from the
//! damaged file is evidence that something was asked for, and of nothing else: an operation that is found only there is `Unknown`
//! too, whatever it says of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use recado_core::ids::BatchId;
use recado_core::ledger::{BatchRecord, BatchState, OperationRecord, OperationState, Write};
use rusqlite::{Connection, Row, params};

use super::connection;
use super::error::CommitError;
use super::files::{directory, sibling};
use super::reserve::{self, free_bytes};
use super::rows;
use super::secret::CallbackSecret;
use super::set_aside::{PARTS, SetAside};
use super::store::Options;

/// A loss that is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Where the damaged store is, or what says that it was not there.
    pub set_aside: PathBuf,
    /// What the check said, or that it was not there, and what could not be read.
    pub reason: String,
    /// The backup that took its place; none where an empty store did.
    pub restored: Option<PathBuf>,
    /// Operations that became `Unknown`.
    pub operations_unknown: u64,
    /// Deliveries that became `Uncertain`.
    pub deliveries_uncertain: u64,
}

/// What could be read from a damaged store.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    batches: Vec<BatchRecord>,
    operations: Vec<OperationRecord>,
    /// Callbacks of what was sent before the damage are signed with it.
    pub secret: Option<[u8; CallbackSecret::BYTES]>,
    /// Why nothing could be read, where nothing could.
    missing: Option<String>,
}

/// Reads what can be read, from a copy: the file itself is left as it is. Where there is no room for one, nothing is read, and that is
/// said: the copy must not take what the store needs.
pub(super) fn read_evidence(set_aside: &Path, beside: &Path) -> Evidence {
    let copy = sibling(beside, EXAMINED);
    let remove = || PARTS.iter().for_each(|part| drop(fs::remove_file(sibling(&copy, part))));
    remove();
    let evidence = copy_to_read(set_aside, &copy).and_then(|()| read(&copy)).unwrap_or_else(|reason| {
        tracing::warn!(reason, "of the damaged store nothing could be read");
        Evidence { missing: Some(reason), ..Evidence::default() }
    });
    remove();
    evidence
}

fn copy_to_read(set_aside: &Path, copy: &Path) -> Result<(), String> {
    // The index of the log is made anew.
    let parts = ["", "-wal"].map(|part| (sibling(set_aside, part), sibling(copy, part)));
    let needed = parts.iter().filter_map(|(from, _)| fs::metadata(from).ok()).map(|found| found.len()).sum::<u64>() + 2 * reserve::BYTES;
    if free_bytes(directory(copy)).is_ok_and(|free| free < needed) {
        return Err(format!("there is no room for a copy to read, which needs {} MiB", needed.div_ceil(1 << 20)));
    }
    for (from, to) in parts.iter().filter(|(from, _)| from.exists()) {
        fs::copy(from, to).map_err(|error| format!("it could not be copied: {error}"))?;
    }
    Ok(())
}

fn read(copy: &Path) -> Result<Evidence, String> {
    let connection = connection::open_damaged(copy).map_err(|error| error.to_string())?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(|error| error.to_string())?;
    Ok(Evidence {
        batches: all_readable(&connection, "batch", rows::batch, |batch| batch.id),
        operations: all_readable(&connection, "operation", rows::operation, |operation| operation.id),
        secret: connection.query_row("SELECT callback_secret FROM box", [], |row| row.get(0)).ok(),
        missing: None,
    })
}

/// Puts the loss on record, with what follows from it, in one transaction. The store is open, and no one else's.
pub(super) fn record(
    connection: &Connection,
    set_aside: &SetAside,
    restored: Option<PathBuf>,
    evidence: &Evidence,
    options: &Options,
) -> Result<Loss, CommitError> {
    let transaction = connection.unchecked_transaction()?;
    let mut unknown = transaction.execute(UNKNOWN, [REASON])?;
    let uncertain = transaction.execute(UNCERTAIN, [])?;
    transaction.execute("DELETE FROM claim", [])?;
    let mut of_batch: BTreeMap<BatchId, Vec<&OperationRecord>> = BTreeMap::new();
    for operation in &evidence.operations {
        of_batch.entry(operation.batch).or_default().push(operation);
    }
    for batch in evidence.batches.iter().filter(|batch| batch.state != BatchState::Closed) {
        unknown += adopt(&transaction, batch, of_batch.get(&batch.id).map_or(&[], Vec::as_slice))?;
    }
    let has_secret = evidence.secret.is_some() || transaction.prepare("SELECT 1 FROM box")?.exists([])?;
    let mut reason = set_aside.reason.clone();
    if let Some(missing) = &evidence.missing {
        reason += &format!("; nothing could be read from it ({missing})");
    }
    if !has_secret {
        reason += "; the secret of callbacks is lost with it: callbacks of what was sent before are refused";
    }
    let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let values = params![
        options.boot.to_string(),
        reason,
        name(&set_aside.path),
        restored.as_deref().map(name),
        unknown as i64,
        uncertain as i64,
        options.started.unix_ms,
        options.started.synchronised
    ];
    transaction.execute(RECORD, values)?;
    transaction.commit()?;
    let loss = Loss {
        set_aside: set_aside.path.clone(),
        reason,
        restored,
        operations_unknown: unknown as u64,
        deliveries_uncertain: uncertain as u64,
    };
    tracing::error!(?loss, "a store was lost: what it held last is not known, and will be told so");
    Ok(loss)
}

/// Takes those `operations` of one batch that only the damaged store had. Says how many.
fn adopt(connection: &Connection, batch: &BatchRecord, operations: &[&OperationRecord]) -> Result<usize, CommitError> {
    let mut adopted = 0;
    for &operation in operations {
        let found = OperationRecord {
            state: OperationState::Unknown,
            maybe_executed: true,
            result: None,
            error: Some(REASON.to_owned()),
            ..operation.clone()
        };
        let sealed = BatchRecord { state: BatchState::Sealed, ..batch.clone() };
        connection.execute_batch("SAVEPOINT adopted")?;
        let known = connection.prepare_cached("SELECT 1 FROM batch WHERE batch_id = ?")?.exists([batch.id.to_string()])?;
        let writes = [(!known).then_some(Write::CreateBatch(sealed)), Some(Write::CreateOperation(found))];
        match writes.iter().flatten().try_for_each(|write| rows::apply(connection, write).map(drop)) {
            Ok(()) => adopted += 1,
            // It is there already, or its batch has its closing: the restored store knows better.
            Err(error) if error.concerns_one_commit() => connection.execute_batch("ROLLBACK TO adopted")?,
            Err(error) => return Err(error),
        }
        connection.execute_batch("RELEASE adopted")?;
    }
    Ok(adopted)
}

/// The rows of a table that can be read, in order, whatever pages between them can't be: behind such a page every number is asked for, until
/// one leads to a page that can be read. A number that is damaged itself may lead past others; so the table is read from both ends.
fn all_readable<T, I: Ord>(connection: &Connection, table: &str, read: impl Fn(&Row) -> Result<T, String>, id: impl Fn(&T) -> I) -> Vec<T> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for (on, first, step) in [(">= ? ORDER BY sequence", 0, 1), ("<= ? ORDER BY sequence DESC", i64::MAX, -1)] {
        let rows_from = format!("SELECT * FROM {table} WHERE sequence {on}");
        let (mut at, mut in_vain) = (Some(first), 0);
        while let Some(asked) = at
            && in_vain < IN_VAIN_MAX
        {
            let mut last = asked;
            let scanned = connection.prepare_cached(&rows_from).and_then(|mut rows_from| {
                let mut rows = rows_from.query([asked])?;
                while let Some(row) = rows.next()? {
                    last = row.get("sequence")?;
                    // A row that does not read back is passed over.
                    if let Ok(record) = read(row)
                        && seen.insert(id(&record))
                    {
                        found.push((last, record));
                    }
                }
                Ok(())
            });
            if scanned.is_ok() {
                break;
            }
            // Never back: a tree that is out of order would lead round and round.
            let furthest = if step > 0 { last.max(asked) } else { last.min(asked) };
            (at, in_vain) = (furthest.checked_add(step), in_vain + 1);
        }
    }
    found.sort_by_key(|(sequence, _)| *sequence);
    found.into_iter().map(|(_, record)| record).collect()
}

/// Numbers that are asked for in vain, from each end: those of a thousand damaged pages. Where the outermost page is damaged, nothing else
/// ends it.
const IN_VAIN_MAX: u32 = 20_000;

pub(super) const EXAMINED: &str = ".examined";

/// What is said of an operation that the loss concerns.
const REASON: &str = "the store was damaged or lost, and what happened last is not on record";

const UNKNOWN: &str = "UPDATE operation SET state = 'unknown', maybe_executed = 1, error = ?
    WHERE state IN ('accepted', 'running', 'retry_wait', 'cancelling')";

const UNCERTAIN: &str = "UPDATE delivery SET state = 'uncertain' WHERE state IN ('ready', 'claimed', 'speaking')";

const RECORD: &str = "INSERT INTO loss (boot_id, reason, set_aside, restored, operations_unknown, deliveries_uncertain,
    noticed_unix_ms, noticed_synchronised) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
