//! What a store that is damaged, or not there any more, leaves in doubt, and how that is put on record.
//!
//! Between the backup that took its place, or nothing, and the damage lies a time of which nothing is certain. Operations that
//! the backup has under way may have ended, and ones that it does not have may have been accepted; closings may have been told. So
//! every operation that is not settled becomes `Unknown`, every closing that waits `Uncertain`. What can still be read from the
//! damaged file is evidence that something was asked for, and of nothing else: an operation that is found only there is `Unknown`
//! too, whatever it says of itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use recado_core::ids::BatchId;
use recado_core::ledger::{BatchRecord, BatchState, OperationRecord, OperationState, Write};
use rusqlite::{Connection, params};

use super::error::CommitError;
use super::rows;
use super::salvage::Evidence;
use super::set_aside::SetAside;
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
    for batch in &evidence.batches {
        unknown += adopt(&transaction, batch, of_batch.get(&batch.id).map_or(&[], Vec::as_slice))?;
    }
    let has_secret = evidence.secret.is_some() || transaction.prepare("SELECT 1 FROM box")?.exists([])?;
    let mut reason = set_aside.reason.clone();
    if let Some(gap) = &evidence.gap {
        reason += &format!("; {gap}");
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
    tracing::error!(?loss, "a store was lost: what it held last is not known, and what is on record of it will be told so");
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

/// What is said of an operation that the loss concerns.
const REASON: &str = "the store was damaged or lost, and what happened last is not on record";

const UNKNOWN: &str = "UPDATE operation SET state = 'unknown', maybe_executed = 1, error = ?
    WHERE state IN ('accepted', 'running', 'retry_wait', 'cancelling')";

const UNCERTAIN: &str = "UPDATE delivery SET state = 'uncertain' WHERE state IN ('ready', 'claimed', 'speaking')";

const RECORD: &str = "INSERT INTO loss (boot_id, reason, set_aside, restored, operations_unknown, deliveries_uncertain,
    noticed_unix_ms, noticed_synchronised) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
