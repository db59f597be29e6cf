//! The store: one SQLite file that knows what the box owes, across power cuts.

use std::path::{Path, PathBuf};
use std::time::Instant;

use recado_core::ids::BootId;
use recado_core::ledger::{CLOSED_OPERATIONS_MAX, CommitId, Write};
use recado_core::time::Wall;
use rusqlite::{Connection, OptionalExtension, params};

use super::connection;
use super::error::{CommitError, OpenError, from_engine};
use super::files::{self, Lock};
use super::group::Committer;
use super::recovery::{self, Recovered};
use super::rows::RowError;
use super::secret::CallbackSecret;
use super::writer::{Answer, Writer};

/// How the store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// This life of the process: only its claims are taken.
    pub boot: BootId,
    /// When it began.
    pub started: Wall,
    /// How many of the latest operations are read back although they are over, so that a repeat is recognised.
    pub recent_operations_max: u32,
}

impl Options {
    /// The options of this boot.
    pub fn new(boot: BootId, started: Wall) -> Self {
        Self { boot, started, recent_operations_max: u32::try_from(CLOSED_OPERATIONS_MAX).unwrap_or(u32::MAX) }
    }
}

/// An open store. It is this process's alone until it is dropped; readers may look in meanwhile ([`super::Reader`]).
///
/// Opened, it has recorded the boot. Give it to its own thread with [`Store::start`], or drive it step by step with
/// [`Store::commit`] where there are no threads, as in a simulation.
#[derive(Debug)]
pub struct Store {
    committer: Committer,
    callback_secret: CallbackSecret,
}

impl Store {
    /// Opens the store at `path`, creating it (directory 0700, file 0600) where it is missing, and reads back what matters.
    ///
    /// # Errors
    /// Each [`OpenError`] says what to do. A file that is damaged, newer or not ours is left as it is.
    pub fn open(path: &Path, options: &Options) -> Result<(Self, Recovered), OpenError> {
        files::create_directory(path)?;
        let lock = Lock::take(path)?;
        files::inspect(path)?;
        files::create_file(path)?;
        let connection = connection::open(path)?;
        let callback_secret = take_up(&connection, path, options)?;
        let recovered = recovery::load(&connection, options.recent_operations_max).map_err(|error| match error {
            RowError::Engine(error) => from_engine(&error, path),
            RowError::Unreadable { table, id, reason } => OpenError::Unreadable { path: path.to_owned(), table, id, reason },
        })?;
        Ok((Self { committer: Committer::new(path.to_owned(), lock, connection, Instant::now()), callback_secret }, recovered))
    }

    /// Where the store is.
    pub fn path(&self) -> PathBuf {
        self.committer.path().to_owned()
    }

    /// What callback tokens are signed with.
    pub fn callback_secret(&self) -> &CallbackSecret {
        &self.callback_secret
    }

    /// Commits these together on this thread, each whole or not at all, in order; one that is refused does not harm the others.
    ///
    /// Once this returns `Ok` for a commit, it will be there after a power cut.
    pub fn commit(&mut self, group: &[(CommitId, Vec<Write>)]) -> Vec<Result<(), CommitError>> {
        self.committer.commit(group)
    }

    /// Gives the store to a thread of its own, which calls `answer` once for each commit it took, in the order it took them.
    ///
    /// # Errors
    /// The operating system gave no thread.
    pub fn start(self, answer: impl FnMut(Answer) + Send + 'static) -> std::io::Result<Writer> {
        Writer::start(self.committer, answer)
    }
}

/// Makes the box's row at creation, records the boot, and reads the secret.
fn take_up(connection: &Connection, path: &Path, options: &Options) -> Result<CallbackSecret, OpenError> {
    let about = |error: rusqlite::Error| from_engine(&error, path);
    let started = options.started;
    let transaction = connection.unchecked_transaction().map_err(about)?;
    let known: Option<[u8; CallbackSecret::BYTES]> =
        transaction.query_row("SELECT callback_secret FROM box", [], |row| row.get(0)).optional().map_err(about)?;
    let secret = match known {
        Some(secret) => secret,
        None => {
            let mut secret = [0; CallbackSecret::BYTES];
            getrandom::fill(&mut secret)
                .map_err(|error| OpenError::Io { path: path.to_owned(), reason: format!("no random bytes: {error}") })?;
            let values = params![secret, started.unix_ms, started.synchronised];
            transaction
                .execute("INSERT INTO box (one, callback_secret, created_unix_ms, created_synchronised) VALUES (1, ?, ?, ?)", values)
                .map_err(about)?;
            secret
        }
    };
    let values = params![options.boot.to_string(), started.unix_ms, started.synchronised];
    transaction.execute("INSERT INTO boot (boot_id, started_unix_ms, started_synchronised) VALUES (?, ?, ?)", values).map_err(about)?;
    transaction
        .execute(
            "DELETE FROM boot WHERE sequence <= (SELECT max(sequence) FROM boot) - ?1
             AND boot_id NOT IN (SELECT boot_id FROM claim)",
            [BOOTS_MAX],
        )
        .map_err(about)?;
    transaction.commit().map_err(about)?;
    Ok(CallbackSecret(secret))
}

/// Boots that are remembered: a box that restarts every second must not fill its disk with them.
const BOOTS_MAX: i64 = 1_000;
