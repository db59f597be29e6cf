//! The store: one SQLite file that knows what the box owes, across power cuts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use recado_core::ids::BootId;
use recado_core::ledger::{CLOSED_OPERATIONS_MAX, CommitId, Write};
use recado_core::time::Wall;
use rusqlite::{Connection, OptionalExtension, params};

use super::error::{CommitError, OpenError, from_engine, from_io};
use super::files::{self, Lock};
use super::group::Committer;
use super::loss::{self, Loss};
use super::recovery::{self, Recovered};
use super::retention::Keep;
use super::rows::{self, RowError};
use super::secret::CallbackSecret;
use super::set_aside::{self, SetAside};
use super::stats::Tally;
use super::writer::{Answer, Writer};
use super::{backup, connection, header, log, salvage};

/// How the store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// This life of the process: only its claims are taken.
    pub boot: BootId,
    /// When it began.
    pub started: Wall,
    /// How many of the latest operations are read back although they are over, so that a repeat is recognised.
    pub recent_operations_max: u32,
    /// How many backups are kept. None is made without asking but before a change of the schema; 0 makes none.
    pub backups: u32,
    /// How long what is over is kept; for ever, where this is not given.
    pub keep: Option<Keep>,
    /// Whether the file is one that this process has used and suspects to be damaged or gone: then it is checked to the last index entry
    /// and the last row, and where it is not there it is lost, whatever else was taken with it.
    pub suspect: bool,
    /// How long a store that could not be opened again after the disk failed is left alone: opening checks the whole file.
    pub reopen_after: Duration,
}

impl Options {
    /// The options of this boot: three backups, and everything is kept.
    pub fn new(boot: BootId, started: Wall) -> Self {
        Self {
            boot,
            started,
            recent_operations_max: u32::try_from(CLOSED_OPERATIONS_MAX).unwrap_or(u32::MAX),
            backups: BACKUPS,
            keep: None,
            suspect: false,
            reopen_after: REOPEN_AFTER,
        }
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
    loss: Option<Loss>,
}

impl Store {
    /// Opens the store at `path`, creating it (directory 0700, file 0600) where it is missing, and reads back what matters.
    ///
    /// A damaged store, or one with a row of what is owed that does not read back, is set aside, never overwritten, and the newest good
    /// backup takes its place, or an empty store; what that leaves in doubt is on record when this returns ([`Store::loss`]). So it is
    /// where the file is not there although its backups, its reserve or one that was set aside are: a store is begun in silence only
    /// where none has been.
    ///
    /// # Errors
    /// Each [`OpenError`] says what to do. A file that is newer or not ours is left as it is.
    pub fn open(path: &Path, options: &Options) -> Result<(Self, Recovered), OpenError> {
        files::create_directory(path)?;
        let lock = Lock::take(path)?;
        backup::finish_put_back(path).map_err(|error| from_io(&error, path))?;
        let damaged = match set_aside::resume(path, options.boot)? {
            Some(set_aside) => Err(set_aside),
            None if header::is_missing(path) || (options.suspect && files::is_gone(path)) => {
                Err(set_aside::set_aside_missing(path, options.boot)?)
            }
            None => match Opened::open(path, options) {
                Err(OpenError::Corrupt { what, .. }) => Err(set_aside::set_aside(path, options.boot, &what)?),
                // As after damage: a backup may be whole, and the rest of the file is evidence.
                Err(OpenError::Unreadable { table, id, reason, .. }) => {
                    Err(set_aside::set_aside(path, options.boot, &format!("{table} {id} can't be read: {reason}"))?)
                }
                other => Ok(other?),
            },
        };
        let (opened, loss) = match damaged {
            Ok(opened) => (opened, None),
            Err(set_aside) => {
                let (opened, loss) = replace(path, options, &set_aside)?;
                (opened, Some(loss))
            }
        };
        let Opened { connection, callback_secret, recovered, tally } = opened;
        let committer = Committer::new(path.to_owned(), lock, connection, tally, options);
        Ok((Self { committer, callback_secret, loss }, recovered))
    }

    /// Where the store is.
    pub fn path(&self) -> PathBuf {
        self.committer.path().to_owned()
    }

    /// What callback tokens are signed with.
    pub fn callback_secret(&self) -> &CallbackSecret {
        &self.callback_secret
    }

    /// What was lost, where the store was found damaged, or was not there, when it was opened.
    pub fn loss(&self) -> Option<&Loss> {
        self.loss.as_ref()
    }

    /// Why the store has to be opened anew, if it has to. See [`Writer::restart_wanted`].
    pub fn restart_wanted(&self) -> Option<String> {
        self.committer.stats().restart_wanted()
    }

    /// Commits these together on this thread, each whole or not at all, in order; one that is refused does not harm the others.
    ///
    /// Once this returns `Ok` for a commit, it will be there after a power cut.
    pub fn commit(&mut self, group: &[(CommitId, Vec<Write>)]) -> Vec<Result<(), CommitError>> {
        self.committer.commit(group)
    }

    /// Does what an idle store does: looks after its reserve, tries a disk that has failed, removes a little of what has been over
    /// for long. Says whether all is well.
    pub fn look_after(&mut self) -> bool {
        self.committer.look_after()
    }

    /// Gives the store to a thread of its own, which calls `answer` once for each commit it took, in the order it took them.
    ///
    /// # Errors
    /// The operating system gave no thread.
    pub fn start(self, answer: impl FnMut(Answer) + Send + 'static) -> std::io::Result<Writer> {
        Writer::start(self.committer, answer)
    }
}

/// A file that is open, checked, at the current schema, and read.
struct Opened {
    connection: Connection,
    callback_secret: CallbackSecret,
    recovered: Recovered,
    tally: Tally,
}

impl Opened {
    fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        let has_held_a_store = header::inspect(path)?;
        let log = log::refuse_damaged(path)?;
        files::create_file(path)?;
        let connection = connection::open_unread(path, has_held_a_store, options.suspect, options.backups)?;
        let opened = Self::read(connection, path, options, None)?;
        // Where somebody looks in it stays, and is met by the next start.
        if log.is_torn
            && let Err(error) = connection::empty_log(&opened.connection)
        {
            tracing::warn!(%error, "the log is not begun anew after a power cut");
        }
        Ok(opened)
    }

    /// Reads what matters, and records the boot, with the secret that was `found` in a damaged store where there is none.
    fn read(connection: Connection, path: &Path, options: &Options, found: Option<[u8; CallbackSecret::BYTES]>) -> Result<Self, OpenError> {
        let read = |error| match error {
            RowError::Engine(error) => from_engine(&error, path),
            RowError::Unreadable { table, id, reason } => OpenError::Unreadable { path: path.to_owned(), table, id, reason },
        };
        // Read before it is written to: what can't be read is set aside as it is.
        let recovered = recovery::load(&connection, options.recent_operations_max).map_err(read)?;
        let tally = rows::tally(&connection).map_err(read)?;
        let callback_secret = take_up(&connection, path, options, found)?;
        connection::use_log(&connection).map_err(|error| from_engine(&error, path))?;
        Ok(Self { connection, callback_secret, recovered, tally })
    }
}

/// Puts a store in the place of one that was set aside. It has a name of its own until its loss is on record and it has been read.
fn replace(path: &Path, options: &Options, set_aside: &SetAside) -> Result<(Opened, Loss), OpenError> {
    let new = files::sibling(path, backup::RESTORING);
    // What is in the way of a copy to read would pass for a store of which nothing can be read.
    for name in [&new, &files::sibling(path, salvage::EXAMINED)] {
        for part in set_aside::PARTS {
            let left_over = files::sibling(name, part);
            set_aside::remove(&left_over).map_err(|error| from_io(&error, &left_over))?;
        }
    }
    let restored = backup::restore_newest(path, &new)?;
    files::create_file(&new)?;
    let connection = connection::open(&new, false, false, 0)?;
    let evidence = salvage::read_evidence(&set_aside.path, path);
    let loss = loss::record(&connection, set_aside, restored, &evidence, options)
        .map_err(|error| OpenError::Io { path: path.to_owned(), reason: error.to_string() })?;
    let begun = Opened::read(connection, &new, options, evidence.secret)?;
    // Its log has another name than it will have.
    connection::empty_log(&begun.connection).map_err(|error| from_engine(&error, &new))?;
    drop(begun);
    if !files::is_gone(path) {
        return Err(OpenError::Io {
            path: path.to_owned(),
            reason: "somebody has put a file there, which the next start takes".to_owned(),
        });
    }
    std::fs::rename(&new, path).and_then(|()| files::sync_directory(path)).map_err(|error| from_io(&error, path))?;
    set_aside::done(path)?;
    Ok((Opened::open(path, options)?, loss))
}

/// Makes the box's row at creation, with the secret that was `found` in a damaged store, records the boot, and reads the secret.
fn take_up(
    connection: &Connection,
    path: &Path,
    options: &Options,
    found: Option<[u8; CallbackSecret::BYTES]>,
) -> Result<CallbackSecret, OpenError> {
    let about = |error: rusqlite::Error| from_engine(&error, path);
    let started = options.started;
    let transaction = connection.unchecked_transaction().map_err(about)?;
    let known: Option<[u8; CallbackSecret::BYTES]> =
        transaction.query_row("SELECT callback_secret FROM box", [], |row| row.get(0)).optional().map_err(about)?;
    let secret = match known {
        Some(secret) => secret,
        None => {
            let mut secret = found.unwrap_or_default();
            if found.is_none() {
                getrandom::fill(&mut secret)
                    .map_err(|error| OpenError::Io { path: path.to_owned(), reason: format!("no random bytes: {error}") })?;
            }
            let values = params![secret, started.unix_ms, started.synchronised];
            transaction
                .execute("INSERT INTO box (one, callback_secret, created_unix_ms, created_synchronised) VALUES (1, ?, ?, ?)", values)
                .map_err(about)?;
            secret
        }
    };
    let values = params![options.boot.to_string(), started.unix_ms, started.synchronised];
    // It may be there from an earlier try of this boot, after which the disk failed.
    let record = "INSERT INTO boot (boot_id, started_unix_ms, started_synchronised) VALUES (?, ?, ?) ON CONFLICT (boot_id) DO NOTHING";
    transaction.execute(record, values).map_err(about)?;
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

/// Backups that are kept where nobody says otherwise.
const BACKUPS: u32 = 3;

const REOPEN_AFTER: Duration = Duration::from_secs(1);
