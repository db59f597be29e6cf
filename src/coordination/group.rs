//! Group commit: several commits in one transaction, one flush of the disk, each whole or not at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::ids::BootId;
use recado_core::ledger::{CommitId, DeliveryState, Write};
use rusqlite::Connection;

use super::error::{BackupError, CommitError, OpenError};
use super::files::{self, Lock};
use super::reserve::Reserve;
use super::retention::Retention;
use super::rows;
use super::standing::Standing;
use super::stats::{Stats, Tally};
use super::store::Options;
use super::{ahead, backup, connection, set_aside};

/// Owns the connection that writes, and what it needs to go on when the disk does not.
#[derive(Debug)]
pub(super) struct Committer {
    path: PathBuf,
    connection: State,
    reserve: Reserve,
    retention: Option<Retention>,
    stats: Arc<Stats>,
    boot: BootId,
    reopen_after: Duration,
    standing: Standing,
    /// When the store could last not be written again into its place.
    not_put_back: Option<Instant>,
    /// Transactions that were answered as failed with the disk: each may be found in the file when it is open again.
    doubtful: Vec<Vec<Write>>,
    // Dropped last: the store is ours until its connection is closed.
    lock: Lock,
}

#[derive(Debug)]
enum State {
    Open(Connection),
    /// Closed after the disk failed.
    Failed {
        since: Instant,
        reason: CommitError,
    },
}

impl Committer {
    pub(super) fn new(path: PathBuf, lock: Lock, connection: Connection, tally: Tally, options: &Options) -> Self {
        let reserve = Reserve::new(&path, Instant::now());
        let stats = Arc::new(Stats::new(tally));
        stats.reserve(reserve.held(), reserve.spent());
        Self {
            connection: State::Open(connection),
            reserve,
            retention: options.keep.map(Retention::new),
            stats,
            boot: options.boot,
            reopen_after: options.reopen_after,
            standing: Standing::of(&path),
            not_put_back: None,
            doubtful: Vec::new(),
            lock,
            path,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// Commits the group and says for each what became of it. `Ok` means durable.
    pub(super) fn commit(&mut self, group: &[(CommitId, Vec<Write>)]) -> Vec<Result<(), CommitError>> {
        self.tend();
        let begun = Instant::now();
        let mut outcome = self.attempt(group);
        if matches!(outcome, Err(Failed { reason: CommitError::Full, .. })) && self.live_on_the_reserve() {
            outcome = self.attempt(group);
        }
        let outcomes = outcome.unwrap_or_else(|failed| self.failed(failed, group, begun));
        self.stats.answered(&outcomes);
        self.stats.reserve(self.reserve.held(), self.reserve.spent());
        outcomes
    }

    /// What a group is answered whose transaction failed. Where the disk did, the file is opened again, and says what it holds.
    fn failed(&mut self, failed: Failed, group: &[(CommitId, Vec<Write>)], begun: Instant) -> Vec<Result<(), CommitError>> {
        let Failed { reason, applied } = failed;
        match &reason {
            CommitError::Io(_) if matches!(self.connection, State::Open(_)) => {
                tracing::error!(%reason, "a commit failed: the store is opened again");
                let Some((outcomes, moves)) = applied else {
                    self.reopen(reason.clone(), None);
                    return vec![Err(reason); group.len()];
                };
                let applied = group.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
                let writes = applied.flat_map(|((_, writes), _)| writes.clone()).collect();
                if self.reopen(reason.clone(), Some(writes)) {
                    tracing::info!("what had failed is in the store after all, and durable");
                    self.stats.committed(begun.elapsed());
                    self.stats.moved(&moves);
                    return outcomes;
                }
            }
            CommitError::Corrupt(what) => self.stats.must_restart(&format!("the store is damaged ({what})")),
            _ => {}
        }
        vec![Err(reason); group.len()]
    }

    /// Gives up the reserve for the store's own files. Says whether there was any.
    fn live_on_the_reserve(&mut self) -> bool {
        let (State::Open(connection), path) = (&self.connection, &self.path) else { return false };
        self.reserve.release(|bytes| ahead::take(connection, path, bytes))
    }

    /// What is done from time to time: sees that the store is in its place, and makes the reserve again when there is room.
    pub(super) fn tend(&mut self) {
        // The reserve's place is beside the store, wherever that has gone.
        let _ = self.connection();
        let was_spent = self.reserve.spent();
        self.reserve.restore(Instant::now());
        if was_spent
            && !self.reserve.spent()
            && let State::Open(connection) = &self.connection
        {
            ahead::give_back(connection);
        }
        self.stats.reserve(self.reserve.held(), self.reserve.spent());
    }

    /// What an idle store does: [tends](Self::tend), and where the disk has failed, tries whether it works again. Says whether
    /// all is well.
    pub(super) fn look_after(&mut self) -> bool {
        self.tend();
        if !self.stats.read().writable {
            let tried = self.connection().and_then(|connection| Ok(connection.execute("UPDATE box SET reopened = reopened", [])?));
            if let Err(reason @ CommitError::Io(_)) = &tried
                && matches!(self.connection, State::Open(_))
            {
                self.reopen(reason.clone(), None);
            }
            self.stats.writable(tried.is_ok());
        }
        // Nothing is taken from a file that is not trusted.
        if self.stats.is_well()
            && self.stats.restart_wanted().is_none()
            && let (Some(retention), State::Open(connection)) = (&mut self.retention, &self.connection)
        {
            match retention.step(connection) {
                Ok(removed) => self.stats.moved(&removed),
                // The next commit meets the same fault, and says so.
                Err(error) => tracing::warn!(%error, "what is over for long could not be removed"),
            }
        }
        self.stats.is_well()
    }

    /// One transaction. After an error nothing of it is kept, unless it was the last step that failed with the disk.
    fn attempt(&mut self, group: &[(CommitId, Vec<Write>)]) -> Result<Vec<Result<(), CommitError>>, Failed> {
        let (full, stats) = (self.reserve.spent(), Arc::clone(&self.stats));
        let connection = self.connection()?;
        // Opening the file again may have found why nothing new is to be begun.
        let bars = Bars { full, restart: stats.restart_wanted() };
        connection.execute_batch("BEGIN IMMEDIATE").map_err(CommitError::from)?;
        let (outcomes, moves) = apply_each(connection, group, &bars).inspect_err(|_| roll_back(connection))?;
        let begun = Instant::now();
        if let Err(error) = connection.execute_batch("COMMIT") {
            roll_back(connection);
            return Err(Failed { reason: error.into(), applied: Some((outcomes, moves)) });
        }
        if outcomes.iter().any(Result::is_ok) {
            self.standing.has_written(&self.path);
            self.stats.committed(begun.elapsed());
            self.stats.moved(&moves);
        }
        Ok(outcomes)
    }

    /// The connection, where the store is this process's and in its place.
    fn connection(&mut self) -> Result<&Connection, CommitError> {
        self.keep_lock()?;
        if let State::Failed { since, reason } = &self.connection {
            let reason = reason.clone();
            if since.elapsed() < self.reopen_after {
                return Err(reason);
            }
            self.reopen(reason, None);
        }
        if let Some(what) = self.standing.fault(&self.path)
            && matches!(self.connection, State::Open(_))
        {
            self.put_back(what)?;
        }
        match &self.connection {
            State::Open(connection) => Ok(connection),
            State::Failed { reason, .. } => Err(reason.clone()),
        }
    }

    /// Sees that a second instance finds the store taken, whatever was removed.
    fn keep_lock(&mut self) -> Result<(), CommitError> {
        if self.lock.stands(&self.path) {
            return Ok(());
        }
        match files::create_directory(&self.path).and_then(|()| Lock::take(&self.path)) {
            Ok(lock) => {
                tracing::warn!(path = %self.path.display(), "the store's lock was removed while it was in use: it is taken again");
                self.lock = lock;
                Ok(())
            }
            // There may be room when the reserve is given up.
            Err(OpenError::Full { .. }) => Err(CommitError::Full),
            Err(error) => {
                // What the connection holds may be nowhere else: it is kept.
                let reason = format!("the store's lock was removed while it was in use ({error})");
                self.stats.must_restart(&reason);
                Err(CommitError::Restart(reason))
            }
        }
    }

    /// Writes the store again, whole, from what its connection has open, and goes on with that. Where it can't be written now, nothing is
    /// promised that only this connection would have; where it can't be read, what stands there is not taken for it.
    fn put_back(&mut self, what: &str) -> Result<(), CommitError> {
        let State::Open(connection) = &self.connection else { return Ok(()) };
        let refused = Err(CommitError::Restart(what.to_owned()));
        if self.not_put_back.is_some_and(|tried| tried.elapsed() < self.reopen_after) {
            return refused;
        }
        let path = self.path.display();
        let mut written = backup::put_back(connection, &self.path, &self.standing);
        // What is kept back for a full disk is for what was promised.
        if matches!(written, Err(BackupError::NoSpace { .. })) && self.reserve.release(|_| Ok(())) {
            written = backup::put_back(connection, &self.path, &self.standing);
        }
        match written {
            Ok(None) => tracing::error!(%path, "{what}: it was written again, whole"),
            Ok(Some(kept)) => tracing::error!(%path, put_there = %kept.display(), "{what}: it was written again, whole"),
            Err(error) => {
                tracing::error!(%path, %error, "{what}, and could not be written again");
                self.not_put_back = Some(Instant::now());
                if !error.is_for_good() {
                    self.stats.must_restart(what);
                    return refused;
                }
                let damaged = format!("the store is damaged ({what})");
                self.stats.must_restart(&damaged);
                self.give_up(&damaged);
                return Err(CommitError::Restart(damaged));
            }
        }
        self.not_put_back = None;
        if let Err(error) = connection::leave_log(connection) {
            tracing::warn!(%error, "what was put in the place of the store's log may be removed");
        }
        self.reopen(CommitError::Restart(what.to_owned()), None);
        Ok(())
    }

    /// What the connection holds is lost. What stands in the store's place, an older state or somebody else's, is moved out of it, so that the
    /// next to open it has a loss on record.
    fn give_up(&mut self, what: &str) {
        let State::Open(connection) = &self.connection else { return };
        if let Err(error) = connection::leave_log(connection) {
            tracing::warn!(%error, "what is left of the store's log may be moved into its file");
        }
        if !files::is_gone(&self.path)
            && let Err(error) = set_aside::set_aside(&self.path, self.boot, what)
        {
            tracing::error!(path = %self.path.display(), %error, "what stands in the store's place could not be moved: it is no state to go on with");
        }
        self.connection = State::Failed { since: Instant::now(), reason: CommitError::Restart(what.to_owned()) };
    }

    /// Closes the file and opens it again, after the disk has failed. Says whether it holds what is `unanswered`, durably.
    ///
    /// The kernel may have dropped what it could not write and call the next flush a success, so nothing in memory is trusted:
    /// the file is read and checked anew. What the log holds may have been dropped too, and would hide all that is written
    /// behind it from the recovery of a power cut: it is written once more, into the file itself, and the log begins anew.
    fn reopen(&mut self, reason: CommitError, unanswered: Option<Vec<Write>>) -> bool {
        // Closed first: the new connection must not share the old one's view of the log.
        self.connection = State::Failed { since: Instant::now(), reason };
        let reopened = connection::open(&self.path, true, false, 0).map_err(CommitError::from).and_then(|connection| {
            connection::empty_log(&connection)?;
            connection.execute("UPDATE box SET reopened = reopened + 1", [])?;
            let found =
                self.doubtful.iter().try_fold(false, |found, writes| Ok::<_, CommitError>(found || rows::hold(&connection, writes)?))?;
            let kept = unanswered.as_ref().map_or(Ok(false), |writes| rows::hold(&connection, writes))?;
            Ok((connection, found, kept))
        });
        let kept = match reopened {
            Ok((connection, found, kept)) => {
                tracing::info!("the store is open again, and checked");
                self.connection = State::Open(connection);
                self.standing = Standing::of(&self.path);
                self.doubtful.clear();
                if found {
                    self.stats.must_restart("a commit that had failed is in the store after all");
                }
                kept
            }
            Err(reason) => {
                tracing::error!(%reason, "the store can't be opened again yet");
                if let CommitError::Corrupt(what) = &reason {
                    self.stats.must_restart(&format!("the store is damaged ({what})"));
                }
                self.connection = State::Failed { since: Instant::now(), reason };
                self.doubtful.extend(unanswered.filter(|writes| !writes.is_empty()));
                false
            }
        };
        self.stats.open(matches!(self.connection, State::Open(_)));
        kept
    }
}

impl Drop for Committer {
    /// Where something of the store has gone, the connection alone has what was promised.
    fn drop(&mut self) {
        let fault = if matches!(self.connection, State::Open(_)) { self.standing.fault(&self.path) } else { None };
        if let Some(what) = fault
            && self.keep_lock().is_ok()
        {
            self.not_put_back = None;
            if self.put_back(what).is_err() {
                self.give_up(what);
            }
        }
    }
}

impl From<OpenError> for CommitError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::ReadOnly { .. } => Self::ReadOnly,
            OpenError::Full { .. } => Self::Full,
            OpenError::Corrupt { what, .. } => Self::Corrupt(what),
            other => Self::Io(other.to_string()),
        }
    }
}

/// Applies each commit behind a savepoint, and says what deliveries change their state. An error concerns the whole group.
fn apply_each(connection: &Connection, group: &[(CommitId, Vec<Write>)], bars: &Bars) -> Result<Applied, CommitError> {
    let (mut outcomes, mut moves) = (Vec::with_capacity(group.len()), Vec::new());
    for (_, writes) in group {
        if let Some(reason) = bars.refuse(writes) {
            outcomes.push(Err(reason));
            continue;
        }
        connection.prepare_cached("SAVEPOINT one")?.execute([])?;
        let before = moves.len();
        let applied = writes.iter().try_for_each(|write| {
            moves.extend(rows::apply(connection, write)?);
            Ok::<(), CommitError>(())
        });
        match applied {
            Ok(()) => outcomes.push(Ok(())),
            Err(reason) if reason.concerns_one_commit() && !connection.is_autocommit() => {
                connection.prepare_cached("ROLLBACK TO one")?.execute([])?;
                moves.truncate(before);
                outcomes.push(Err(reason));
            }
            Err(reason) => return Err(reason),
        }
        connection.prepare_cached("RELEASE one")?.execute([])?;
    }
    Ok((outcomes, moves))
}

/// A transaction that failed.
struct Failed {
    reason: CommitError,
    /// What it would have come to, where only its last step failed: the file may hold it.
    applied: Option<Applied>,
}

impl From<CommitError> for Failed {
    fn from(reason: CommitError) -> Self {
        Self { reason, applied: None }
    }
}

/// What keeps new work out, while what was promised is still recorded.
struct Bars {
    /// The disk is full.
    full: bool,
    /// Why the file is to be opened anew: another may take its place, and nobody is to be promised what that one will not hold.
    restart: Option<String>,
}

impl Bars {
    fn refuse(&self, writes: &[Write]) -> Option<CommitError> {
        let creates = writes.iter().any(|write| matches!(write, Write::CreateOperation(_)));
        let begins = creates || writes.iter().any(|write| matches!(write, Write::Claim { .. }));
        match &self.restart {
            Some(reason) if begins => Some(CommitError::Restart(reason.clone())),
            _ => (self.full && creates).then_some(CommitError::Full),
        }
    }
}

/// What became of each commit of a group, and the deliveries that it moved: from the first state, none where it is new, to the
/// second, none where it was removed.
type Applied = (Vec<Result<(), CommitError>>, Vec<Move>);

/// A delivery's change of state.
pub(super) type Move = (Option<DeliveryState>, Option<DeliveryState>);

/// Ends the transaction, if the engine has not done so by itself, as it does when the disk is full.
fn roll_back(connection: &Connection) {
    if !connection.is_autocommit()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        tracing::error!(%error, "a failed transaction could not be rolled back");
    }
}
