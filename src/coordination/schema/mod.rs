//! The store's tables and constraints, and how an older file becomes a current one.
//!
//! Each migration is one SQL file and one step of `user_version`. A migration that has shipped is never edited.

use std::collections::BTreeMap;

use rusqlite::{Connection, Result};

/// Marks a database file as ours (`PRAGMA application_id`): "RCDO".
pub const APPLICATION_ID: i64 = 0x5243_444f;

/// The schema that this program writes (`PRAGMA user_version`).
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// Brings the file from its schema to [`VERSION`]. Each step is one transaction: a cut leaves the older schema whole.
pub fn migrate(connection: &mut Connection) -> Result<()> {
    let found = version(connection)?;
    for (step, sql) in (1..).zip(MIGRATIONS) {
        if step > found {
            let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            transaction.execute_batch(sql)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", step)?;
            transaction.commit()?;
        }
    }
    Ok(())
}

/// The schema of the file.
pub fn version(connection: &Connection) -> Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Whether a program may have written this schema that is newer than this one. A number beyond all that there will be is damage.
pub fn is_newer(version: i64) -> bool {
    version > VERSION && version <= VERSIONS_MAX
}

/// The columns of each table, in order, by the table's name.
pub type Columns = BTreeMap<String, Vec<String>>;

/// Those of the file.
pub fn columns(connection: &Connection) -> Result<Columns> {
    of_each_column(connection, "info.name")
}

/// The same of a file of the current schema, each with the value that it has in a row that was written before it was there. Without any other rule.
pub fn declarations() -> Result<Columns> {
    of_each_column(&model(VERSION)?, "info.name || iif(info.dflt_value IS NULL, '', ' DEFAULT ' || info.dflt_value)")
}

/// What `shown` makes of each column of each table, in order, by the table's name.
fn of_each_column(connection: &Connection, shown: &str) -> Result<Columns> {
    let mut columns = Columns::new();
    let sql = format!(
        "SELECT found.name, {shown} FROM sqlite_schema AS found, pragma_table_info(found.name) AS info
        WHERE found.type = 'table' ORDER BY found.name, info.cid"
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        columns.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    Ok(columns)
}

/// Those of a file of this schema.
pub fn columns_of(version: i64) -> Result<Columns> {
    let mut columns = columns(&model(version)?)?;
    // The engine's own tables are not ours to ask for.
    columns.retain(|table, _| !table.starts_with("sqlite_"));
    Ok(columns)
}

/// An empty file of this schema.
fn model(version: i64) -> Result<Connection> {
    let model = Connection::open_in_memory()?;
    for (_, sql) in (1..=version).zip(MIGRATIONS) {
        model.execute_batch(sql)?;
    }
    Ok(model)
}

/// More migrations than there will ever be.
const VERSIONS_MAX: i64 = 10_000;

const MIGRATIONS: &[&str] = &[
    include_str!("0001_ledger.sql"),
    include_str!("0002_trouble.sql"),
    include_str!("0003_cancel_and_hand_off.sql"),
    include_str!("0004_inquiries.sql"),
    include_str!("0005_identity.sql"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_schema_has_columns_that_those_before_it_have_not() {
        // By which a file is known whose number of the schema is damaged.
        let all: Vec<Columns> = (1..=VERSION).map(|version| columns_of(version).unwrap()).collect();
        for pair in all.windows(2) {
            assert!(pair[1].iter().any(|(table, columns)| pair[0].get(table) != Some(columns)));
        }
    }
}
