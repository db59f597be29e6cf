//! `recado pending`: what waits to be told and what runs, read beside a running box.

use std::fmt::Write as _;

use recado_trace::plain;

use super::UNDER_SYSTEMD;
use crate::config::Config;
use crate::coordination::{ReadError, Reader};
use crate::telemetry::utc;

/// Why that can't be said.
#[derive(Debug, thiserror::Error)]
pub enum PendingError {
    /// There is no store: a box that has never run has none, and one under systemd keeps it elsewhere than the caller.
    #[error("{0}: name the directory where the box keeps it ({UNDER_SYSTEMD}, where it runs under systemd), or start the box once")]
    Missing(ReadError),
    /// The store can't be read.
    #[error(transparent)]
    Read(ReadError),
}

impl From<ReadError> for PendingError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Missing { .. } => Self::Missing(error),
            other => Self::Read(other),
        }
    }
}

/// What waits, for people or as one JSON object.
///
/// # Errors
/// When the store can't be read. A box that has never run has no store.
pub fn pending(config: &Config, as_json: bool) -> Result<String, PendingError> {
    let store = std::path::absolute(config.this_box.store()).unwrap_or_else(|_| config.this_box.store());
    let pending = Reader::open(&store)?.pending()?;
    if as_json {
        return serde_json::to_string_pretty(&pending)
            .map(|text| plain(&text) + "\n")
            .map_err(|error| ReadError::Io(error.to_string()).into());
    }
    let mut text = format!("In {}:\n", store.display());
    for delivery in &pending.deliveries {
        let record = &delivery.record;
        let party = record.party.as_ref().map_or("an anonymous caller", |party| party.0.as_str());
        let since = if record.ready.synchronised { format!(" since {}", utc(record.ready.unix_ms)) } else { String::new() };
        let _ = writeln!(text, "{} {:?} for {party}{since}, {} times cut: {}", record.id, record.state, record.attempt, delivery.text());
    }
    for operation in &pending.operations {
        let _ = writeln!(text, "{} {} {:?}, attempt {}", operation.id, operation.tool, operation.state, operation.attempt);
    }
    if pending.deliveries.is_empty() && pending.operations.is_empty() {
        text.push_str("Nothing waits and nothing runs.\n");
    }
    let (deliveries, operations) = (pending.deliveries_total, pending.operations_total);
    if deliveries > pending.deliveries.len() as u64 || operations > pending.operations.len() as u64 {
        let _ = writeln!(text, "… {deliveries} deliveries wait and {operations} operations run in all.");
    }
    Ok(plain(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_no_store_it_is_said_where_it_was_looked_for_and_how_another_place_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.this_box.data_dir = Some(directory.path().to_owned());
        let said = pending(&config, false).unwrap_err().to_string();
        let looked = config.this_box.store();
        assert!(said.starts_with(&format!("there is no store at {}: ", looked.display())), "{said}");
        assert!(said.contains("--set box.data_dir=/var/lib/recado"), "{said}");
        // One that is given as seen from here is told as seen from anywhere.
        config.this_box.data_dir = Some("no/such/place".into());
        let said = pending(&config, false).unwrap_err().to_string();
        let here = std::env::current_dir().unwrap();
        assert!(said.contains(&here.join("no/such/place").display().to_string()), "{said}");
    }
}
