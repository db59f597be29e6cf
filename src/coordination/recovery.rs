//! What a restart reads back: everything that is not over, and enough of what is to recognise a repeat.

use std::collections::BTreeSet;

use recado_core::ledger::{BatchRecord, DeliveryRecord, OperationRecord};
use rusqlite::Connection;

use super::check::{Findings, UNREADABLE_MAX, UnreadableRow};
use super::retention;
use super::rows::{self, Claim, RowError, Unread};

/// The ledger as the store holds it, in order of sequence.
///
/// It holds the batches that are not closed, or have a delivery that waits or an operation that is not terminal, whole. Of
/// those that are over it holds the batches of the latest operations ([`super::Options::recent_operations_max`]), so that a
/// late callback or a repeated request finds what it repeats; but none of these that does not read back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recovered {
    /// The operations of these batches.
    pub operations: Vec<OperationRecord>,
    /// The batches.
    pub batches: Vec<BatchRecord>,
    /// The deliveries of these batches.
    pub deliveries: Vec<DeliveryRecord>,
    /// The claims that were held when the last boot ended, however it ended.
    pub claims: Vec<Claim>,
    /// The sequence that the next delivery takes.
    pub next_sequence: u64,
    /// The highest occurrence that an intent key ends in (`…|3`) among the operations that are not read back, or were removed; 0
    /// without any. A key with a higher one has not been used.
    pub occurrence_floor: u32,
}

/// Reads it. What is over is read only so that a repeat is recognised: a batch of it that does not read back is left out.
pub(super) fn load(connection: &Connection, recent_operations_max: u32) -> Result<Recovered, RowError> {
    note_kept(connection, recent_operations_max)?;
    let recovered = match read_kept(connection) {
        Err(RowError::Unreadable { .. }) => {
            leave_out_unreadable(connection)?;
            read_kept(connection)?
        }
        read => read?,
    };
    connection.execute_batch("DROP TABLE temp.kept")?;
    Ok(recovered)
}

/// Reads every row, also those that [`load`] leaves out, and keeps none. One of what is owed is damage when it does not read back: without
/// it nobody knows what that is. Of the others those are named that `is_named` says.
pub(super) fn find_unreadable(connection: &Connection, is_named: impl Fn(&Unread) -> bool) -> rusqlite::Result<Findings> {
    note_kept(connection, 0)?;
    let mut found = Findings::default();
    rows::read_all(connection, "batch_id IN (SELECT batch_id FROM temp.kept)", |row| {
        if row.is_picked {
            found.damage.get_or_insert(row.what);
            return;
        }
        found.unreadable_total += 1;
        if found.unreadable.len() < UNREADABLE_MAX && is_named(&row) {
            found.unreadable.push(UnreadableRow { batch_id: row.batch_id, what: row.what });
        }
    })?;
    connection.execute_batch("DROP TABLE temp.kept")?;
    Ok(found)
}

/// Notes which batches are read back: those of which something is owed, and those of so many of the latest operations.
fn note_kept(connection: &Connection, recent_operations_max: u32) -> rusqlite::Result<()> {
    // A reading that failed leaves the table behind.
    connection.execute_batch(
        "DROP TABLE IF EXISTS temp.kept;
         CREATE TEMP TABLE kept (batch_id TEXT PRIMARY KEY, is_owed INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    )?;
    let owed = format!(
        "INSERT OR IGNORE INTO temp.kept
           SELECT batch_id, 1 FROM batch WHERE state <> 'closed'
           UNION SELECT batch_id, 1 FROM delivery WHERE {waiting}
           UNION SELECT batch_id, 1 FROM operation WHERE state IN ('accepted', 'running', 'retry_wait', 'cancelling', 'unknown')",
        waiting = rows::WAITING
    );
    connection.execute_batch(&owed)?;
    let recent = "INSERT OR IGNORE INTO temp.kept SELECT batch_id, 0 FROM operation ORDER BY sequence DESC LIMIT ?";
    connection.execute(recent, [recent_operations_max])?;
    Ok(())
}

fn read_kept(connection: &Connection) -> Result<Recovered, RowError> {
    let kept_rows = |table: &str| format!("SELECT {table}.* FROM {table} JOIN temp.kept USING (batch_id) ORDER BY {table}.sequence");
    let (occurrence_floor, delivery_floor) = retention::floors(connection)?;
    Ok(Recovered {
        operations: rows::operations(connection, &kept_rows("operation"), [])?,
        batches: rows::batches(connection, &kept_rows("batch"), [])?,
        deliveries: rows::deliveries(connection, &kept_rows("delivery"), [])?,
        claims: rows::claims(connection, "SELECT * FROM claim ORDER BY delivery_id", [])?,
        next_sequence: rows::number(connection, "SELECT coalesce(max(sequence) + 1, 1) FROM delivery")?
            .max(delivery_floor.saturating_add(1)),
        occurrence_floor: u32::try_from(rows::number(connection, OCCURRENCE_FLOOR)?.max(occurrence_floor)).unwrap_or(u32::MAX),
    })
}

/// Notes that batches of which nothing is owed are not read back where they can't be.
fn leave_out_unreadable(connection: &Connection) -> rusqlite::Result<()> {
    let mut left_out = BTreeSet::new();
    rows::read_all(connection, "batch_id IN (SELECT batch_id FROM temp.kept WHERE NOT is_owed)", |row| {
        left_out.extend(row.batch_id.filter(|_| row.is_picked));
    })?;
    for batch in &left_out {
        connection.execute("DELETE FROM temp.kept WHERE batch_id = ?", [batch])?;
    }
    tracing::warn!(batches = left_out.len(), "batches that are over can't be read: a repeat of them is not recognised");
    Ok(())
}

/// The first that is not read back has used occurrence 1 at least; which have used more, the index knows.
const OCCURRENCE_FLOOR: &str = "SELECT max(
    coalesce((SELECT CAST(substr(intent_key, length(rtrim(intent_key, '0123456789')) + 1) AS INTEGER) FROM operation
              WHERE CAST(substr(intent_key, length(rtrim(intent_key, '0123456789')) + 1) AS INTEGER) > 1
                AND batch_id NOT IN (SELECT batch_id FROM temp.kept)
              ORDER BY CAST(substr(intent_key, length(rtrim(intent_key, '0123456789')) + 1) AS INTEGER) DESC LIMIT 1), 0),
    coalesce((SELECT 1 FROM operation WHERE batch_id NOT IN (SELECT batch_id FROM temp.kept) LIMIT 1), 0))";
