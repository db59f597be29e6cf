//! The store's tables and constraints, and how an older file becomes a current one.
//!
//! Each migration is one SQL file and one step of `user_version`. A migration that has shipped is never edited.

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

const MIGRATIONS: &[&str] =
    &[include_str!("0001_ledger.sql"), include_str!("0002_trouble.sql"), include_str!("0003_cancel_and_hand_off.sql")];
