//! Records and rows: how a [`Write`] becomes SQL, and how a row reads back.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

use recado_core::ids::{BootId, DeliveryId, IntentKey, PartyId, SessionId};
use recado_core::ledger::{BatchRecord, DeliveryRecord, DeliveryState, OperationRecord, Route, Write};
use recado_core::time::Wall;
use rusqlite::{Connection, OptionalExtension, Params, Row, named_params, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::CommitError;
use super::group::Move;
use super::stats::Tally;

/// A claim as the store holds it: the delivery, the conversation and the boot that own it, and the way that it is told.
pub type Claim = (DeliveryId, SessionId, BootId, Route);

/// Carries out one write inside the transaction that is open. Says how it changes a delivery's state, where it does.
pub(super) fn apply(connection: &Connection, write: &Write) -> Result<Option<Move>, CommitError> {
    match write {
        Write::CreateOperation(record) => put_operation(connection, record, CREATE_OPERATION).map(drop)?,
        Write::UpdateOperation(record) => existing("operation", put_operation(connection, record, UPDATE_OPERATION)?)?,
        Write::CreateBatch(record) => put_batch(connection, record, CREATE_BATCH).map(drop)?,
        Write::UpdateBatch(record) => existing("batch", put_batch(connection, record, UPDATE_BATCH)?)?,
        Write::CreateDelivery(record) => {
            put_delivery(connection, record, CREATE_DELIVERY)?;
            return Ok(Some((None, Some(record.state))));
        }
        Write::UpdateDelivery(record) => {
            let before = delivery_state(connection, record)?;
            existing("delivery", put_delivery(connection, record, UPDATE_DELIVERY)?)?;
            return Ok((before != Some(record.state)).then_some((before, Some(record.state))));
        }
        Write::Claim { delivery, session, boot, route } => {
            let values = params![delivery.to_string(), session.to_string(), boot.to_string(), word(route)?];
            connection
                .prepare_cached("INSERT INTO claim (delivery_id, session_id, boot_id, route) VALUES (?, ?, ?, ?)")?
                .execute(values)?;
        }
        // Given back twice is given back.
        Write::Unclaim { delivery } => {
            connection.prepare_cached("DELETE FROM claim WHERE delivery_id = ?")?.execute([delivery.to_string()])?;
        }
    }
    Ok(None)
}

/// Whether the store is as these writes leave it, one after the other: of each row the last one counts.
pub(super) fn hold(connection: &Connection, writes: &[Write]) -> Result<bool, CommitError> {
    let claimed = |delivery: &str| claims(connection, "SELECT * FROM claim WHERE delivery_id = ?", [delivery]);
    let mut seen = BTreeSet::new();
    for write in writes.iter().rev() {
        let (table, id) = match write {
            Write::CreateOperation(record) | Write::UpdateOperation(record) => ("operation", record.id.to_string()),
            Write::CreateBatch(record) | Write::UpdateBatch(record) => ("batch", record.id.to_string()),
            Write::CreateDelivery(record) | Write::UpdateDelivery(record) => ("delivery", record.id.to_string()),
            Write::Claim { delivery, .. } | Write::Unclaim { delivery } => ("claim", delivery.to_string()),
        };
        if !seen.insert((table, id.clone())) {
            continue;
        }
        let holds = match write {
            Write::CreateOperation(record) | Write::UpdateOperation(record) => {
                operations(connection, "SELECT * FROM operation WHERE operation_id = ?", [id])?.contains(record)
            }
            Write::CreateBatch(record) | Write::UpdateBatch(record) => {
                batches(connection, "SELECT * FROM batch WHERE batch_id = ?", [id])?.contains(record)
            }
            Write::CreateDelivery(record) | Write::UpdateDelivery(record) => {
                deliveries(connection, "SELECT * FROM delivery WHERE delivery_id = ?", [id])?.contains(record)
            }
            Write::Claim { delivery, session, boot, route } => claimed(&id)?.contains(&(*delivery, *session, *boot, *route)),
            Write::Unclaim { .. } => claimed(&id)?.is_empty(),
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
}

fn delivery_state(connection: &Connection, record: &DeliveryRecord) -> Result<Option<DeliveryState>, CommitError> {
    let mut statement = connection.prepare_cached("SELECT state FROM delivery WHERE delivery_id = ?")?;
    let state: Option<String> = statement.query_row([record.id.to_string()], |row| row.get(0)).optional()?;
    state.map(|state| from_word(&state).map_err(CommitError::Value)).transpose()
}

/// The operations that `sql` selects, whole rows.
pub(super) fn operations(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<OperationRecord>, RowError> {
    records(connection, "operation", "operation_id", sql, params, operation)
}

/// The batches that `sql` selects, whole rows.
pub(super) fn batches(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<BatchRecord>, RowError> {
    records(connection, "batch", "batch_id", sql, params, batch)
}

/// The deliveries that `sql` selects, whole rows.
pub(super) fn deliveries(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<DeliveryRecord>, RowError> {
    records(connection, "delivery", "delivery_id", sql, params, delivery)
}

/// The claims that `sql` selects, whole rows.
pub(super) fn claims(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<Claim>, RowError> {
    records(connection, "claim", "delivery_id", sql, params, claim)
}

/// A row that does not read back.
pub(super) struct Unread {
    /// The batch that it belongs to, where that can be read.
    pub batch_id: Option<String>,
    /// Its table, its identifier, and what is wrong with it.
    pub what: String,
    /// Whether the condition holds for it.
    pub is_picked: bool,
}

/// Reads every row of every table of the ledger, those that are over too, and keeps none. Those that do not read back are `told`, each with
/// whether the SQL condition `pick` holds for it. It holds for every claim, and for what has no batch.
pub(super) fn read_all(connection: &Connection, pick: &str, mut told: impl FnMut(Unread)) -> rusqlite::Result<()> {
    type Read = fn(&Row) -> Result<(), String>;
    let tables: [(&'static str, &str, &str, Read); 4] = [
        ("operation", "operation_id", pick, |row| operation(row).map(drop)),
        ("batch", "batch_id", pick, |row| batch(row).map(drop)),
        ("delivery", "delivery_id", pick, |row| delivery(row).map(drop)),
        ("claim", "delivery_id", "1", |row| claim(row).map(drop)),
    ];
    for (table, id_column, pick, read) in tables {
        let mut statement = connection.prepare(&format!("SELECT *, ({pick}) AS is_picked FROM {table}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Err(reason) = read(row) {
                let what = unreadable(table, id_column, row, reason).to_string();
                // Nobody knows of what has no batch whether it is.
                let is_picked = row.get::<_, Option<bool>>("is_picked")?.unwrap_or(true);
                told(Unread { batch_id: row.get("batch_id").ok(), what, is_picked });
            }
        }
    }
    Ok(())
}

/// The number that `sql` answers; negative is none.
pub(super) fn number(connection: &Connection, sql: &str) -> rusqlite::Result<u64> {
    connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|number| u64::try_from(number).unwrap_or_default())
}

/// Numbers by state, of `table`.
pub(super) fn by_state<S: DeserializeOwned + Ord>(
    connection: &Connection,
    table: &'static str,
) -> Result<std::collections::BTreeMap<S, u64>, RowError> {
    let sql = format!("SELECT state, count(*) AS number FROM {table} GROUP BY state");
    let pairs = records(connection, table, "state", &sql, [], |row| {
        Ok((from_word::<S>(&column::<String>(row, "state")?)?, unsigned(column(row, "number")?)?))
    })?;
    Ok(pairs.into_iter().collect())
}

/// How many deliveries there are, by state, from indexes: reading those that are over would take as long as all of them.
pub(super) fn tally(connection: &Connection) -> Result<Tally, RowError> {
    let mut tally = Tally::new();
    for which in [WAITING, OVER] {
        let sql = format!("SELECT state, count(*) AS number FROM delivery WHERE {which} GROUP BY state");
        tally.extend(records(connection, "delivery", "state", &sql, [], |row| {
            Ok((from_word::<DeliveryState>(&column::<String>(row, "state")?)?, unsigned(column(row, "number")?)?))
        })?);
    }
    Ok(tally)
}

/// When the delivery that has waited longest became ready.
pub(super) fn oldest_waiting(connection: &Connection) -> Result<Option<Wall>, RowError> {
    let sql = format!("SELECT ready_unix_ms, ready_synchronised FROM delivery WHERE {WAITING} ORDER BY sequence LIMIT 1");
    let found = connection.query_row(&sql, [], |row| Ok(wall(row, "ready"))).optional()?;
    found.transpose().map_err(|reason| RowError::Unreadable { table: "delivery", id: "that waits longest".to_owned(), reason })
}

/// Why rows could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum RowError {
    /// A row does not read back as a record.
    #[error("{table} {id} can't be read: {reason}")]
    Unreadable {
        /// The table.
        table: &'static str,
        /// The row.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] rusqlite::Error),
}

impl From<RowError> for CommitError {
    fn from(error: RowError) -> Self {
        match error {
            RowError::Engine(error) => error.into(),
            RowError::Unreadable { table, id, reason } => Self::Corrupt(format!("{table} {id}: {reason}")),
        }
    }
}

fn put_operation(connection: &Connection, record: &OperationRecord, sql: &str) -> Result<usize, CommitError> {
    let changed = connection.prepare_cached(sql)?.execute(named_params! {
        ":operation_id": record.id.to_string(),
        ":intent_key": record.intent_key.0,
        ":batch_id": record.batch.to_string(),
        ":ordinal": record.ordinal,
        ":party_id": record.party.as_ref().map(|party| &party.0),
        ":session_id": record.session.to_string(),
        ":turn_id": record.turn.to_string(),
        ":tool": record.tool,
        ":arguments": json(&record.arguments)?,
        ":state": word(&record.state)?,
        ":attempt": record.attempt,
        ":unreached": record.unreached,
        ":handle": record.handle,
        ":maybe_executed": record.maybe_executed,
        ":result": record.result.as_ref().map(json).transpose()?,
        ":error": record.error,
        ":contradiction": record.contradiction.as_ref().map(json).transpose()?,
        ":accepted_unix_ms": record.accepted.unix_ms,
        ":accepted_synchronised": record.accepted.synchronised,
    })?;
    Ok(changed)
}

fn put_batch(connection: &Connection, record: &BatchRecord, sql: &str) -> Result<usize, CommitError> {
    let changed = connection.prepare_cached(sql)?.execute(named_params! {
        ":batch_id": record.id.to_string(),
        ":session_id": record.session.to_string(),
        ":response_id": record.response.to_string(),
        ":party_id": record.party.as_ref().map(|party| &party.0),
        ":language": word(&record.language)?,
        ":state": word(&record.state)?,
    })?;
    Ok(changed)
}

fn put_delivery(connection: &Connection, record: &DeliveryRecord, sql: &str) -> Result<usize, CommitError> {
    let changed = connection.prepare_cached(sql)?.execute(named_params! {
        ":sequence": signed(record.sequence)?,
        ":delivery_id": record.id.to_string(),
        ":batch_id": record.batch.to_string(),
        ":kind": word(&record.kind)?,
        ":party_id": record.party.as_ref().map(|party| &party.0),
        ":session_id": record.session.to_string(),
        ":state": word(&record.state)?,
        ":attempt": record.attempt,
        ":clauses": json(&record.clauses)?,
        ":short": json(&record.short)?,
        ":priority": word(&record.priority)?,
        ":can_interrupt": word(&record.can_interrupt)?,
        ":ride": word(&record.ride)?,
        ":strict": record.strict,
        ":uncertain": word(&record.uncertain)?,
        ":audience": word(&record.audience)?,
        ":max_wait_ms": signed(record.max_wait_ms)?,
        ":min_quiet_ms": record.min_quiet_ms.map(signed).transpose()?,
        ":hand_off_after_ms": record.hand_off_after_ms.map(signed).transpose()?,
        ":stale_after_ms": record.stale_after_ms.map(signed).transpose()?,
        ":ready_unix_ms": record.ready.unix_ms,
        ":ready_synchronised": record.ready.synchronised,
        ":superseded_by": record.superseded_by.map(|id| id.to_string()),
    })?;
    Ok(changed)
}

/// An operation, from a whole row.
pub(super) fn operation(row: &Row) -> Result<OperationRecord, String> {
    Ok(OperationRecord {
        id: parse(row, "operation_id")?,
        intent_key: IntentKey(column(row, "intent_key")?),
        batch: parse(row, "batch_id")?,
        ordinal: column(row, "ordinal")?,
        party: column::<Option<String>>(row, "party_id")?.map(PartyId),
        session: parse(row, "session_id")?,
        turn: parse(row, "turn_id")?,
        tool: column(row, "tool")?,
        arguments: from_json(&column::<String>(row, "arguments")?)?,
        state: from_word(&column::<String>(row, "state")?)?,
        attempt: column(row, "attempt")?,
        unreached: column(row, "unreached")?,
        handle: column(row, "handle")?,
        maybe_executed: column(row, "maybe_executed")?,
        result: column::<Option<String>>(row, "result")?.map(|text| from_json(&text)).transpose()?,
        error: column(row, "error")?,
        contradiction: column::<Option<String>>(row, "contradiction")?.map(|text| from_json(&text)).transpose()?,
        accepted: wall(row, "accepted")?,
    })
}

/// A batch, from a whole row.
pub(super) fn batch(row: &Row) -> Result<BatchRecord, String> {
    Ok(BatchRecord {
        id: parse(row, "batch_id")?,
        session: parse(row, "session_id")?,
        response: parse(row, "response_id")?,
        party: column::<Option<String>>(row, "party_id")?.map(PartyId),
        language: from_word(&column::<String>(row, "language")?)?,
        state: from_word(&column::<String>(row, "state")?)?,
    })
}

fn claim(row: &Row) -> Result<Claim, String> {
    Ok((parse(row, "delivery_id")?, parse(row, "session_id")?, parse(row, "boot_id")?, from_word(&column::<String>(row, "route")?)?))
}

fn delivery(row: &Row) -> Result<DeliveryRecord, String> {
    let superseded_by: Option<String> = column(row, "superseded_by")?;
    Ok(DeliveryRecord {
        id: parse(row, "delivery_id")?,
        sequence: unsigned(column(row, "sequence")?)?,
        batch: parse(row, "batch_id")?,
        kind: from_word(&column::<String>(row, "kind")?)?,
        party: column::<Option<String>>(row, "party_id")?.map(PartyId),
        session: parse(row, "session_id")?,
        state: from_word(&column::<String>(row, "state")?)?,
        attempt: column(row, "attempt")?,
        clauses: from_json(&column::<String>(row, "clauses")?)?,
        short: from_json(&column::<String>(row, "short")?)?,
        priority: from_word(&column::<String>(row, "priority")?)?,
        can_interrupt: from_word(&column::<String>(row, "can_interrupt")?)?,
        ride: from_word(&column::<String>(row, "ride")?)?,
        strict: column(row, "strict")?,
        uncertain: from_word(&column::<String>(row, "uncertain")?)?,
        audience: from_word(&column::<String>(row, "audience")?)?,
        max_wait_ms: unsigned(column(row, "max_wait_ms")?)?,
        min_quiet_ms: column::<Option<i64>>(row, "min_quiet_ms")?.map(unsigned).transpose()?,
        hand_off_after_ms: column::<Option<i64>>(row, "hand_off_after_ms")?.map(unsigned).transpose()?,
        stale_after_ms: column::<Option<i64>>(row, "stale_after_ms")?.map(unsigned).transpose()?,
        ready: wall(row, "ready")?,
        superseded_by: superseded_by.map(|text| text.parse::<DeliveryId>().map_err(|error| error.to_string())).transpose()?,
    })
}

fn records<T>(
    connection: &Connection,
    table: &'static str,
    id_column: &str,
    sql: &str,
    params: impl Params,
    read: impl Fn(&Row) -> Result<T, String>,
) -> Result<Vec<T>, RowError> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row).map_err(|reason| unreadable(table, id_column, row, reason))?);
    }
    Ok(found)
}

fn unreadable(table: &'static str, id_column: &str, row: &Row, reason: String) -> RowError {
    RowError::Unreadable { table, id: column(row, id_column).unwrap_or_default(), reason }
}

fn existing(what: &'static str, changed: usize) -> Result<(), CommitError> {
    if changed == 1 { Ok(()) } else { Err(CommitError::Missing(what)) }
}

fn column<T: rusqlite::types::FromSql>(row: &Row, name: &str) -> Result<T, String> {
    row.get(name).map_err(|error| error.to_string())
}

fn parse<T: FromStr<Err: Display>>(row: &Row, name: &str) -> Result<T, String> {
    column::<String>(row, name)?.parse().map_err(|error: T::Err| format!("{name}: {error}"))
}

fn wall(row: &Row, prefix: &str) -> Result<Wall, String> {
    Ok(Wall { unix_ms: column(row, &format!("{prefix}_unix_ms"))?, synchronised: column(row, &format!("{prefix}_synchronised"))? })
}

/// SQLite's integers have a sign.
fn signed(value: u64) -> Result<i64, CommitError> {
    i64::try_from(value).map_err(|_| CommitError::Value(format!("{value} needs more than 63 bits")))
}

fn unsigned(value: i64) -> Result<u64, String> {
    u64::try_from(value).map_err(|_| format!("{value} is negative"))
}

/// The one word that the vocabulary's enumerations are written as.
fn word<T: Serialize>(value: &T) -> Result<String, CommitError> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        Ok(other) => Err(CommitError::Value(format!("`{other}` is no word"))),
        Err(error) => Err(CommitError::Value(error.to_string())),
    }
}

pub(super) fn from_word<T: DeserializeOwned>(word: &str) -> Result<T, String> {
    T::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(word)).map_err(|error| error.to_string())
}

fn json<T: Serialize>(value: &T) -> Result<String, CommitError> {
    serde_json::to_string(value).map_err(|error| CommitError::Value(error.to_string()))
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// A delivery to which something can still happen.
pub(super) const WAITING: &str = "state NOT IN ('spoken', 'superseded', 'suppressed', 'withdrawn', 'handed_off')";

/// A delivery to which nothing can happen any more.
const OVER: &str = "state IN ('spoken', 'superseded', 'suppressed', 'withdrawn', 'handed_off')";

const CREATE_OPERATION: &str = "INSERT INTO operation (operation_id, intent_key, batch_id, ordinal, party_id, session_id, turn_id, tool, \
    arguments, state, attempt, unreached, handle, maybe_executed, result, error, contradiction, accepted_unix_ms, accepted_synchronised) VALUES (:operation_id, \
    :intent_key, :batch_id, :ordinal, :party_id, :session_id, :turn_id, :tool, :arguments, :state, :attempt, :unreached, :handle, :maybe_executed, :result, \
    :error, :contradiction, :accepted_unix_ms, :accepted_synchronised)";

// Rows are whole: what may not change is refused by a trigger, not left out here.
const UPDATE_OPERATION: &str = "UPDATE operation SET intent_key = :intent_key, batch_id = :batch_id, ordinal = :ordinal, \
    party_id = :party_id, session_id = :session_id, turn_id = :turn_id, tool = :tool, arguments = :arguments, state = :state, \
    attempt = :attempt, unreached = :unreached, handle = :handle, maybe_executed = :maybe_executed, result = :result, error = :error, contradiction = :contradiction, \
    accepted_unix_ms = :accepted_unix_ms, accepted_synchronised = :accepted_synchronised WHERE operation_id = :operation_id";

const CREATE_BATCH: &str = "INSERT INTO batch (batch_id, session_id, response_id, party_id, language, state) \
    VALUES (:batch_id, :session_id, :response_id, :party_id, :language, :state)";

const UPDATE_BATCH: &str = "UPDATE batch SET session_id = :session_id, response_id = :response_id, party_id = :party_id, \
    language = :language, state = :state WHERE batch_id = :batch_id";

const CREATE_DELIVERY: &str = "INSERT INTO delivery (sequence, delivery_id, batch_id, kind, party_id, session_id, state, attempt, clauses, \
    short, priority, can_interrupt, ride, strict, uncertain, audience, max_wait_ms, min_quiet_ms, hand_off_after_ms, stale_after_ms, \
    ready_unix_ms, ready_synchronised, superseded_by) VALUES (:sequence, :delivery_id, :batch_id, :kind, :party_id, :session_id, :state, :attempt, :clauses, :short, :priority, \
    :can_interrupt, :ride, :strict, :uncertain, :audience, :max_wait_ms, :min_quiet_ms, :hand_off_after_ms, :stale_after_ms, :ready_unix_ms, :ready_synchronised, :superseded_by)";

const UPDATE_DELIVERY: &str = "UPDATE delivery SET sequence = :sequence, batch_id = :batch_id, kind = :kind, party_id = :party_id, \
    session_id = :session_id, state = :state, attempt = :attempt, clauses = :clauses, short = :short, priority = :priority, \
    can_interrupt = :can_interrupt, ride = :ride, strict = :strict, uncertain = :uncertain, audience = :audience, max_wait_ms = :max_wait_ms, \
    min_quiet_ms = :min_quiet_ms, hand_off_after_ms = :hand_off_after_ms, stale_after_ms = :stale_after_ms, \
    ready_unix_ms = :ready_unix_ms, ready_synchronised = :ready_synchronised, superseded_by = :superseded_by \
    WHERE delivery_id = :delivery_id";
