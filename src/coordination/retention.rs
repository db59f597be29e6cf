//! Retention: what is over for long enough is removed, a little at a time, by a store that has nothing else to do.
//!
//! A batch goes with its operations and deliveries, and only when it is `Closed`, all of its operations and deliveries are
//! terminal, and the newest of them is older than the age. Ages are judged by a synchronised clock; an operation that was accepted
//! while the clock was not is older than any that was accepted after it. What must never be given out twice stays on record
//! without them: the highest occurrence of an intent key, and the last sequence of a delivery.

use std::time::Duration;

use recado_core::ledger::DeliveryState;
use recado_core::time::Wall;
use rusqlite::{Connection, OptionalExtension, params};

use super::error::CommitError;
use super::group::Move;

/// How long what is over is kept, and what tells the time.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    /// The age after which it goes.
    pub age: Duration,
    /// Reads the wall clock.
    pub wall: fn() -> Wall,
}

/// The removal, and how far it has come.
#[derive(Debug)]
pub(super) struct Retention {
    keep: Keep,
    /// The last operation that was looked at, by sequence. It begins anew when the rest is too young.
    at: i64,
}

impl Retention {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, at: 0 }
    }

    /// Looks at the next few operations and removes what may go. Says which deliveries went.
    pub(super) fn step(&mut self, connection: &Connection) -> Result<Vec<Move>, CommitError> {
        let now = (self.keep.wall)();
        let Some(before) = now.unix_ms.checked_sub(i64::try_from(self.keep.age.as_millis()).unwrap_or(i64::MAX)) else {
            return Ok(Vec::new());
        };
        if !now.synchronised {
            return Ok(Vec::new());
        }
        let old: Vec<(i64, String)> = connection
            .prepare_cached(OLD)?
            .query_map(params![self.at, before, STEP_OPERATIONS_MAX], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let Some((last, _)) = old.last() else {
            self.at = 0;
            return Ok(Vec::new());
        };
        self.at = *last;
        let mut batches: Vec<String> = Vec::new();
        for (_, batch) in old {
            if !batches.contains(&batch) && connection.prepare_cached(MAY_GO)?.exists(params![batch, before])? {
                batches.push(batch);
            }
        }
        if batches.is_empty() {
            return Ok(Vec::new());
        }
        let transaction = connection.unchecked_transaction()?;
        let mut moves = Vec::new();
        for batch in &batches {
            moves.extend(remove(&transaction, batch)?);
        }
        transaction.commit()?;
        tracing::debug!(batches = batches.len(), "what has been over for long was removed");
        Ok(moves)
    }
}

/// Removes a batch that is over, inside the transaction that is open, and keeps on record what must not be given out again. Says which
/// deliveries went.
pub(super) fn remove(connection: &Connection, batch: &str) -> Result<Vec<Move>, CommitError> {
    connection.prepare_cached(RAISE_FLOORS)?.execute([batch])?;
    let states: Vec<String> = connection
        .prepare_cached("SELECT state FROM delivery WHERE batch_id = ?")?
        .query_map([batch], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for sql in
        ["DELETE FROM delivery WHERE batch_id = ?", "DELETE FROM operation WHERE batch_id = ?", "DELETE FROM batch WHERE batch_id = ?"]
    {
        connection.prepare_cached(sql)?.execute([batch])?;
    }
    let moved = |word: String| super::rows::from_word::<DeliveryState>(&word).map(|state| (Some(state), None)).map_err(CommitError::Value);
    states.into_iter().map(moved).collect()
}

/// What must not be given out again although the rows that used it are gone: occurrence and delivery sequence.
pub(super) fn floors(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    let found: Option<(i64, i64)> =
        connection.query_row("SELECT occurrence, delivery_sequence FROM floor", [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let (occurrence, sequence) = found.unwrap_or_default();
    Ok((u64::try_from(occurrence).unwrap_or_default(), u64::try_from(sequence).unwrap_or_default()))
}

/// Operations after `?1` that were accepted before `?2`, by their own synchronised time or by that of one accepted after them:
/// the last such one among those that a step looks at, or the next one, however many of an unset clock are before it.
const OLD: &str = "
    SELECT sequence, batch_id FROM operation
    WHERE sequence > ?1
      AND sequence <= coalesce(
        (SELECT max(sequence) FROM (SELECT sequence, accepted_unix_ms, accepted_synchronised FROM operation
                                    WHERE sequence > ?1 ORDER BY sequence LIMIT ?3)
         WHERE accepted_synchronised AND accepted_unix_ms < ?2),
        (SELECT sequence FROM (SELECT sequence, accepted_unix_ms FROM operation
                               WHERE sequence > ?1 AND accepted_synchronised ORDER BY sequence LIMIT 1)
         WHERE accepted_unix_ms < ?2))
    ORDER BY sequence LIMIT ?3";

/// Whether batch `?1` is over, and all of it was before `?2`. One that another delivery refers to stays as long as that.
const MAY_GO: &str = "
    SELECT 1 FROM batch WHERE batch_id = ?1 AND state = 'closed'
      AND NOT EXISTS (SELECT 1 FROM operation AS o WHERE o.batch_id = ?1
                      AND (o.state NOT IN ('succeeded', 'failed', 'cancelled', 'compensated', 'too_late')
                           OR (o.accepted_synchronised AND o.accepted_unix_ms >= ?2)))
      AND NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.batch_id = ?1
                      AND (d.state NOT IN ('spoken', 'superseded', 'suppressed', 'withdrawn', 'handed_off')
                           OR (d.ready_synchronised AND d.ready_unix_ms >= ?2)))
      AND NOT EXISTS (SELECT 1 FROM delivery AS d JOIN delivery AS other ON other.superseded_by = d.delivery_id
                      WHERE d.batch_id = ?1 AND other.batch_id <> ?1)";

const RAISE_FLOORS: &str = "
    INSERT INTO floor (one, occurrence, delivery_sequence)
    VALUES (1,
      (SELECT coalesce(max(CAST(substr(intent_key, length(rtrim(intent_key, '0123456789')) + 1) AS INTEGER)), 0)
       FROM operation WHERE batch_id = ?1),
      (SELECT coalesce(max(sequence), 0) FROM delivery WHERE batch_id = ?1))
    ON CONFLICT (one) DO UPDATE SET occurrence = max(occurrence, excluded.occurrence),
                                    delivery_sequence = max(delivery_sequence, excluded.delivery_sequence)";

/// Operations that one step looks at: some milliseconds of the writer's time, while nobody waits for it.
const STEP_OPERATIONS_MAX: u32 = 64;
