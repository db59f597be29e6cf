//! `recado pending`: what waits to be told and what runs, read beside a running box.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::PathBuf;

use recado_trace::plain;
use serde::Serialize;

use super::UNDER_SYSTEMD;
use crate::config::{Config, open_file};
use crate::coordination::{ReadError, Reader};
use crate::telemetry::utc;

/// Why it can't be said what waits.
#[derive(Debug, thiserror::Error)]
pub enum PendingError {
    /// There is no store: a box that has never run has none, and one under systemd keeps it elsewhere than the caller.
    #[error("{0}: name the directory where the box keeps it ({UNDER_SYSTEMD}, where it runs under systemd), or start the box once")]
    Missing(ReadError),
    /// The store may not be read: it says what to do.
    #[error(transparent)]
    Permission(ReadError),
    /// What stands in the store's place is no file.
    #[error("{} can't be read: {error}; a store is one file, so move this away, or name another directory with --set box.data_dir=…", store.display())]
    NoFile {
        /// Where the store should be.
        store: PathBuf,
        /// What is wrong.
        error: std::io::Error,
    },
    /// The store's directory may not be written in, and its log has an index that readers share with the writer.
    #[error(
        "what waits is not known: looking into {} needs the right to write beside it: use the user that runs the box, or root",
        store.display()
    )]
    Directory {
        /// The store.
        store: PathBuf,
    },
    /// The store's file can't be read as one.
    #[error(
        "what waits is not known: {error}; if it is damaged, `recado doctor` with the same configuration says what is wrong with it \
         and what mends it ({})", store.display()
    )]
    Damaged {
        /// The store.
        store: PathBuf,
        /// What was found.
        error: ReadError,
    },
    /// What waits can't be written as JSON.
    #[error("what waits can't be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// What waits, for people or as one JSON object.
///
/// # Errors
/// When the store can't be read. A box that has never run has no store.
pub fn pending(config: &Config, as_json: bool) -> Result<String, PendingError> {
    let store = std::path::absolute(config.this_box.store()).unwrap_or_else(|_| config.this_box.store());
    match open_file(&store) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            return Err(PendingError::NoFile { store, error });
        }
        // Whatever else keeps it from being read, the reader says.
        _ => {}
    }
    let pending = Reader::open(&store).and_then(|reader| reader.pending()).map_err(|error| match error {
        ReadError::Missing { .. } => PendingError::Missing(error),
        ReadError::Permission { .. } => PendingError::Permission(error),
        // As SQLite says it of a directory; of a file, the permission has been asked for before.
        ReadError::Io(ref reason) if reason.contains("readonly database") => PendingError::Directory { store: store.clone() },
        _ => PendingError::Damaged { store: store.clone(), error },
    })?;
    if as_json {
        return Ok(plain(&serde_json::to_string_pretty(&pending)?) + "\n");
    }
    let mut text = format!("In {}:\n", store.display());
    for delivery in &pending.deliveries {
        let record = &delivery.record;
        let party = record.party.as_ref().map_or("an anonymous caller", |party| party.0.as_str());
        let since = if record.ready.synchronised { format!(" since {}", utc(record.ready.unix_ms)) } else { String::new() };
        let state = word(&record.state)?;
        let _ = writeln!(text, "{} {state} for {party}{since}, {} times cut: {}", record.id, record.attempt, delivery.text());
    }
    for operation in &pending.operations {
        let (state, untold) = (word(&operation.state)?, if operation.state.settled() { UNTOLD } else { "" });
        let _ = writeln!(text, "{} {} {state}, attempt {}{untold}", operation.id, operation.tool, operation.attempt);
    }
    if pending.deliveries.is_empty() && pending.operations.is_empty() {
        text.push_str("Nothing waits and nothing runs.\n");
    }
    let (deliveries, operations) = (pending.deliveries_total, pending.operations_total);
    if deliveries > pending.deliveries.len() as u64 || operations > pending.operations.len() as u64 {
        let _ = writeln!(text, "… {deliveries} deliveries wait and {operations} operations are under way or not told yet, in all.");
    }
    Ok(plain(&text))
}

/// A state as the store and all JSON call it.
fn word(state: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_value(state)?.as_str().unwrap_or_default().to_owned())
}

/// What is said of an operation that has ended, or is unknown, and has no closing yet.
const UNTOLD: &str = ", not told yet: the box makes its closing when all that was asked for with it has ended";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_damaged_or_no_file_is_said_to_be_so_and_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.this_box.data_dir = Some(directory.path().to_owned());
        let store = config.this_box.store();
        let options = crate::coordination::Options::new(recado_core::BootId(1), recado_core::time::Wall::default());
        drop(crate::coordination::Store::open(&store, &options).unwrap());
        assert!(pending(&config, false).is_ok());
        let whole = std::fs::read(&store).unwrap();
        // The header's magic, its page size, its schema's format, the application's own mark, the first page whole.
        for damaged in [0..16, 16..18, 44..48, 68..72, 0..100, 100..4_096] {
            let mut bytes = whole.clone();
            bytes[damaged.clone()].fill(0xa5);
            for beside in ["-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{beside}", store.display()));
            }
            std::fs::write(&store, bytes).unwrap();
            for as_json in [false, true] {
                let said = pending(&config, as_json).unwrap_err().to_string();
                assert!(said.starts_with("what waits is not known: ") && said.contains("`recado doctor`"), "{damaged:?}: {said}");
                assert!(said.contains(&store.display().to_string()), "{damaged:?}: {said}");
            }
        }
        std::fs::remove_file(&store).unwrap();
        std::fs::create_dir(&store).unwrap();
        let said = pending(&config, false).unwrap_err().to_string();
        assert!(said.starts_with(&format!("{} can't be read: it is a directory, not a file; ", store.display())), "{said}");
    }

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
