//! Looking in: what waits and what is under way, read beside the writer and without disturbing it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use recado_core::ids::DeliveryId;
use recado_core::ledger::{BatchRecord, BatchState, DeliveryRecord, DeliveryState, OperationRecord, OperationState};
use recado_core::policy::Language;
use recado_core::time::Wall;
use rusqlite::{Connection, ErrorCode};
use serde::Serialize;

use super::connection;
use super::error::ReadError;
use super::recovery::{self, Recovered};
use super::rows::{self, Claim, RowError, WAITING};
use super::schema;
use crate::config::open_file;

/// A connection of its own, read-only. It works while the box runs, from another process too, and sees whole commits only.
///
/// It needs the right to write in the store's directory, as the user that runs the box and root have: SQLite's readers share
/// an index of the log with the writer.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
}

/// What waits to be told and what is under way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pending {
    /// Deliveries to which something can still happen, by sequence, at most [`ROWS_MAX`].
    pub deliveries: Vec<PendingDelivery>,
    /// How many there are in all.
    pub deliveries_total: u64,
    /// Operations under way, and those that have ended or are unknown and have no closing yet, in the order of acceptance, at most
    /// [`ROWS_MAX`].
    pub operations: Vec<OperationRecord>,
    /// How many there are in all.
    pub operations_total: u64,
}

/// A delivery that waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PendingDelivery {
    /// The delivery: its party, state, attempts, since when it is ready, and its words.
    #[serde(flatten)]
    pub record: DeliveryRecord,
    /// The language that it was asked in.
    pub language: Language,
    /// Who has it, when it is claimed.
    pub claim: Option<Claim>,
}

impl PendingDelivery {
    /// What it says, in the language that it was asked in.
    pub fn text(&self) -> String {
        let clauses = self.record.clauses.iter().filter_map(|clause| clause.text.text(self.language));
        clauses.collect::<Vec<_>>().join(" ")
    }
}

/// What was accepted and what was told of it, at most [`ROWS_MAX`] of each.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    /// Operations.
    pub operations: Vec<OperationRecord>,
    /// Deliveries.
    pub deliveries: Vec<DeliveryRecord>,
}

/// How many there are, by state. States without any are absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Operations.
    pub operations: BTreeMap<OperationState, u64>,
    /// Batches.
    pub batches: BTreeMap<BatchState, u64>,
    /// Deliveries.
    pub deliveries: BTreeMap<DeliveryState, u64>,
    /// When the delivery that comes first of those that wait became ready.
    pub oldest_waiting: Option<Wall>,
}

impl Reader {
    /// Opens the store at `path` to look in.
    ///
    /// # Errors
    /// Each [`ReadError`] says what to do.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let path = PathBuf::from(path);
        if let Err(error) = open_file(&path) {
            return Err(match error.kind() {
                io::ErrorKind::NotFound => ReadError::Missing { path },
                io::ErrorKind::PermissionDenied => ReadError::Permission { path },
                _ => ReadError::Io(error.to_string()),
            });
        }
        let found = connection::open_read_only(&path).and_then(|connection| {
            let whose: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
            Ok((whose == schema::APPLICATION_ID && schema::version(&connection)? == schema::VERSION).then_some(connection))
        });
        match found {
            Ok(Some(connection)) => Ok(Self { connection }),
            Ok(None) => Err(ReadError::Foreign { path }),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => Err(ReadError::Foreign { path }),
            Err(error) => Err(error.into()),
        }
    }

    /// What waits and what runs, as of one moment.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn pending(&self) -> Result<Pending, ReadError> {
        let snapshot = self.connection.unchecked_transaction()?;
        let claims = rows::claims(&snapshot, "SELECT * FROM claim", [])?;
        let claims: BTreeMap<DeliveryId, Claim> = claims.into_iter().map(|claim| (claim.0, claim)).collect();
        let records =
            rows::deliveries(&snapshot, &format!("SELECT * FROM delivery WHERE {WAITING} ORDER BY sequence LIMIT ?"), [ROWS_MAX])?;
        let mut deliveries = Vec::with_capacity(records.len());
        for record in records {
            let of = rows::batches(&snapshot, "SELECT * FROM batch WHERE batch_id = ?", [record.batch.to_string()])?;
            let language = of.first().map_or(Language::default(), |batch: &BatchRecord| batch.language);
            deliveries.push(PendingDelivery { claim: claims.get(&record.id).copied(), language, record });
        }
        let sql = format!("SELECT * FROM operation WHERE {OWED} ORDER BY sequence LIMIT ?");
        let operations = rows::operations(&snapshot, &sql, [ROWS_MAX])?;
        Ok(Pending {
            deliveries,
            deliveries_total: rows::number(&snapshot, &format!("SELECT count(*) FROM delivery WHERE {WAITING}"))?,
            operations,
            operations_total: rows::number(&snapshot, &format!("SELECT count(*) FROM operation WHERE {OWED}"))?,
        })
    }

    /// The newest of all that the store holds, in the order of acceptance, as of one moment.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn history(&self) -> Result<History, ReadError> {
        let snapshot = self.connection.unchecked_transaction()?;
        let newest = |table: &str| format!("SELECT * FROM (SELECT * FROM {table} ORDER BY sequence DESC LIMIT ?) ORDER BY sequence");
        Ok(History {
            operations: rows::operations(&snapshot, &newest("operation"), [ROWS_MAX])?,
            deliveries: rows::deliveries(&snapshot, &newest("delivery"), [ROWS_MAX])?,
        })
    }

    /// What a restart would read back now, with so many of the latest operations that are over.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn recovered(&self, recent_operations_max: u32) -> Result<Recovered, ReadError> {
        Ok(recovery::load(&self.connection, recent_operations_max)?)
    }

    /// How many there are of each, as of one moment.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn counts(&self) -> Result<Counts, ReadError> {
        let snapshot = self.connection.unchecked_transaction()?;
        Ok(Counts {
            operations: rows::by_state(&snapshot, "operation")?,
            batches: rows::by_state(&snapshot, "batch")?,
            deliveries: rows::by_state(&snapshot, "delivery")?,
            oldest_waiting: rows::oldest_waiting(&snapshot)?,
        })
    }
}

impl From<RowError> for ReadError {
    fn from(error: RowError) -> Self {
        match error {
            RowError::Unreadable { table, id, reason } => Self::Unreadable { table, id, reason },
            RowError::Engine(error) => error.into(),
        }
    }
}

/// What is under way, or belongs to a batch that has no closing yet. By two indexes: what is over is not read for it.
const OWED: &str = "operation_id IN (
    SELECT operation_id FROM operation WHERE state IN ('accepted', 'running', 'retry_wait', 'cancelling')
    UNION SELECT operation_id FROM batch JOIN operation USING (batch_id) WHERE batch.state <> 'closed' AND batch.state <> 'drained')";

/// Rows of each kind that are shown: more than a person reads, and a bound for the memory of whoever asks.
pub const ROWS_MAX: u32 = 1_000;
