//! Group commit: several commits in one transaction, one flush of the disk, each whole or not at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::ids::BootId;
use recado_core::ledger::{CommitId, DeliveryState, Write};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::check::{self, Findings};
use super::error::{BackupError, CommitError, OpenError, from_io};
use super::files::{self, Lock};
use super::reserve::Reserve;
use super::retention::Retention;
use super::rows;
use super::standing::{Fault, Standing};
use super::stats::{Stats, Tally};
use super::store::Options;
use super::{ahead, backup, connection, header, log, set_aside};

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
    /// When the store could last not be written again into its place, and why.
    not_put_back: Option<(Instant, String)>,
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
    /// What it held can't be had any more: whoever opens the store anew finds that on record.
    GivenUp {
        reason: String,
    },
}

impl Committer {
    pub(super) fn new(path: PathBuf, lock: Lock, connection: Connection, tally: Tally, options: &Options) -> Self {
        let reserve = Reserve::new(&path, Instant::now());
        let standing = Standing::of(&path, connection::is_a_file(&connection));
        let stats = Arc::new(Stats::new(tally));
        stats.reserve(reserve.held(), reserve.spent());
        Self {
            connection: State::Open(connection),
            reserve,
            retention: options.keep.map(Retention::new),
            stats,
            boot: options.boot,
            reopen_after: options.reopen_after,
            standing,
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
        let writes_of = |outcomes: &[Result<(), CommitError>]| {
            let applied = group.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok());
            applied.flat_map(|((_, writes), _)| writes.clone()).collect::<Vec<Write>>()
        };
        match &reason {
            CommitError::Io(_) if matches!(self.connection, State::Open(_)) => {
                tracing::error!(%reason, "a commit failed: the store is opened again");
                let Some((outcomes, moves)) = applied else {
                    self.reopen(reason.clone(), None);
                    return vec![Err(reason); group.len()];
                };
                if self.reopen(reason.clone(), Some(writes_of(&outcomes))) {
                    tracing::info!("what had failed is in the store after all, and durable");
                    self.stats.committed(begun.elapsed());
                    self.stats.moved(&moves);
                    return outcomes;
                }
            }
            CommitError::Corrupt(what) => self.stats.must_restart(&format!("the store is damaged ({what})")),
            // The connection has it, and what is written again from that.
            CommitError::Displaced(_) => {
                self.doubtful.extend(applied.map(|(outcomes, _)| writes_of(&outcomes)));
            }
            _ => {}
        }
        vec![Err(reason); group.len()]
    }

    /// Gives up the reserve for the store's own files. Says whether there was any.
    fn live_on_the_reserve(&mut self) -> bool {
        let (State::Open(connection), path) = (&self.connection, &self.path) else { return false };
        let released = self.reserve.release(|bytes| ahead::take(connection, path, bytes));
        self.standing.has_written(&self.path);
        released
    }

    /// What is done from time to time: makes the reserve again when there is room, and the store is in its place.
    pub(super) fn tend(&mut self) {
        // The reserve's place is beside the store, which stands there first.
        if !Reserve::is_there(&self.path)
            && let Err(CommitError::Displaced(_)) = self.connection()
        {
            return;
        }
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
        // It sees whether the store is in its place.
        let _ = self.connection();
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
        if self.standing.fault_since(&self.path, self.log_bytes()).is_none() {
            self.standing.has_written(&self.path);
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
            // What was taken away meanwhile took this with it.
            if let Some(fault) = self.standing.fault_since(&self.path, self.log_bytes())
                && let Err(reason) = self.see_to(fault)
            {
                return Err(Failed { reason, applied: Some((outcomes, moves)) });
            }
            self.standing.has_written(&self.path);
            self.stats.committed(begun.elapsed());
            self.stats.moved(&moves);
        }
        Ok(outcomes)
    }

    /// One transaction of what is not the ledger's. Once this returns `Ok`, it will be there after a power cut; after an error, with the doubt
    /// that [`CommitError::Io`] names, nothing of it is.
    pub(super) fn transact<T>(&mut self, act: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, CommitError> {
        self.tend();
        let acted = self.connection().and_then(|connection| {
            let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            let outcome = act(&transaction)?;
            transaction.commit()?;
            Ok(outcome)
        });
        match &acted {
            Ok(_) => {
                // What was taken away meanwhile took this with it.
                if let Some(fault) = self.standing.fault_since(&self.path, self.log_bytes()) {
                    self.see_to(fault)?;
                }
                self.standing.has_written(&self.path);
            }
            Err(CommitError::Corrupt(what)) => self.stats.must_restart(&format!("the store is damaged ({what})")),
            Err(reason @ CommitError::Io(_)) if matches!(self.connection, State::Open(_)) => drop(self.reopen(reason.clone(), None)),
            Err(_) => {}
        }
        acted
    }

    /// The connection, where the store is this process's and in its place.
    fn connection(&mut self) -> Result<&Connection, CommitError> {
        self.keep_lock()?;
        match &self.connection {
            State::Failed { since, reason } if since.elapsed() < self.reopen_after => return Err(reason.clone()),
            State::Failed { reason, .. } => {
                let reason = reason.clone();
                if self.standing.fault(&self.path, 0) == Some(Fault::Moved) && !files::is_gone(&self.path) {
                    // Not even what it held can be compared with that.
                    let what = "another file stands in its place, which could not be opened again";
                    self.stats.must_restart(what);
                    self.give_up(what);
                } else {
                    self.reopen(reason, None);
                }
            }
            State::Open(_) => {
                if let Some(fault) = self.standing.fault(&self.path, self.log_bytes()) {
                    self.see_to(fault)?;
                }
            }
            State::GivenUp { .. } => {}
        }
        match &self.connection {
            State::Open(connection) => Ok(connection),
            State::Failed { reason, .. } => Err(reason.clone()),
            State::GivenUp { reason } => Err(CommitError::Restart(reason.clone())),
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
                let reason = format!("the store's lock was removed while it was in use ({error})");
                if matches!(error, OpenError::InUse { .. }) {
                    self.stats.must_restart(&reason);
                    return Err(CommitError::Restart(reason));
                }
                Err(self.displaced(reason))
            }
        }
    }

    /// What the connection holds may be nowhere else: it is kept open, and nothing more is promised on it.
    fn displaced(&self, reason: String) -> CommitError {
        self.stats.displaced(Some(reason.clone()));
        CommitError::Displaced(reason)
    }

    /// How long the log has to be to hold what the connection knows to be in it.
    fn log_bytes(&self) -> u64 {
        let State::Open(connection) = &self.connection else { return 0 };
        connection::log_holds(connection).map_or(0, |(bytes, _)| bytes)
    }

    fn see_to(&mut self, fault: Fault) -> Result<(), CommitError> {
        match fault {
            Fault::Touched => self.look_again(),
            fault => self.stand_again(fault),
        }
    }

    /// Somebody else has written to the file or its log, as who looks in with a tool of his own does, or has damaged it.
    fn look_again(&mut self) -> Result<(), CommitError> {
        if let Err(OpenError::Corrupt { .. }) = log::refuse_damaged(&self.path) {
            // The connection may still know what it held.
            return self.stand_again(Fault::LogLost);
        }
        let what = Fault::Touched.text();
        match check::find(&self.path) {
            // Whoever opens the file finds it damaged; the connection may hold in memory what it was.
            Ok(Findings { damage: Some(_), .. }) if self.holds_all() => return self.stand_again(Fault::Touched),
            Ok(Findings { damage: Some(found), .. }) => {
                let damaged = format!("the store is damaged ({what}: {found})");
                self.stats.must_restart(&damaged);
                self.give_up(&damaged);
                return Err(CommitError::Restart(damaged));
            }
            // All that is read is in the log, and the next start begins with the file.
            Ok(_) if header::inspect(&self.path).is_err() => return self.stand_again(Fault::Touched),
            Ok(_) => tracing::warn!(path = %self.path.display(), "{what}: it is whole"),
            // What can't be read now is met by whoever reads it.
            Err(error) => tracing::warn!(path = %self.path.display(), %error, "{what}: it could not be checked"),
        }
        self.standing.has_written(&self.path);
        Ok(())
    }

    /// Whether the file holds all that the connection does, so that nothing is lost with the connection.
    fn is_all_in_the_file(&self, fault: Fault) -> bool {
        let State::Open(connection) = &self.connection else { return false };
        match fault {
            Fault::Moved | Fault::Touched => false,
            Fault::LogLost => log::refuse_damaged(&self.path).is_ok() && connection::log_holds(connection).is_ok_and(|(_, all)| all),
            Fault::IndexLost => true,
        }
    }

    /// Whether all that the connection reads fits together.
    fn holds_all(&self) -> bool {
        let State::Open(connection) = &self.connection else { return false };
        check::all(connection).is_ok_and(|found| found.damage.is_none())
    }

    /// Has the files stand in their place again: writes them again, whole. Where that can't be done now, nothing is promised that only this
    /// connection would have; where it can't be done any more, what stands there is not taken for the store.
    fn stand_again(&mut self, fault: Fault) -> Result<(), CommitError> {
        let State::Open(connection) = &self.connection else { return Ok(()) };
        if let Some((tried, reason)) = &self.not_put_back
            && tried.elapsed() < self.reopen_after
        {
            return Err(CommitError::Displaced(reason.clone()));
        }
        let (what, path) = (fault.text(), self.path.display().to_string());
        // A start that finds the mark takes what stands there for less than there was.
        let is_less = !self.is_all_in_the_file(fault);
        if is_less {
            backup::mark_displaced(&self.path);
        }
        let mut written = backup::put_back(connection, &self.path, &self.standing);
        // What is kept back for a full disk is for what was promised.
        if matches!(written, Err(BackupError::NoSpace { .. })) && self.reserve.release(|_| Ok(())) {
            written = backup::put_back(connection, &self.path, &self.standing);
        }
        let failed = match written {
            Ok(kept) => {
                self.standing.has_copied(&self.path);
                match self.take_up() {
                    Ok(()) => {
                        tracing::error!(path, put_there = ?kept, "{what}: it was written again, whole");
                        return Ok(());
                    }
                    Err(error) => error.to_string(),
                }
            }
            Err(error) if error.is_for_good() => {
                let damaged = format!("the store is damaged ({what})");
                tracing::error!(path, %error, "{damaged}");
                self.stats.must_restart(&damaged);
                self.give_up(&damaged);
                return Err(CommitError::Restart(damaged));
            }
            Err(error) => error.to_string(),
        };
        if is_less {
            backup::mark_displaced(&self.path);
        }
        let reason = format!("{what}, and can't be written again ({failed})");
        tracing::error!(path, "{reason}");
        self.not_put_back = Some((Instant::now(), reason.clone()));
        Err(self.displaced(reason))
    }

    /// Goes on with what was written again. Until that is open and stands in its place, the connection that wrote it is kept: it may be taken
    /// away, too.
    fn take_up(&mut self) -> Result<(), CommitError> {
        let (connection, found, _) = self.open_again(None)?;
        let standing = Standing::of(&self.path, connection::is_a_file(&connection));
        let log_bytes = connection::log_holds(&connection).map_or(0, |(bytes, _)| bytes);
        if let Some(fault) = standing.fault(&self.path, log_bytes) {
            connection::leave_log(&connection)?;
            return Err(CommitError::Displaced(fault.text().to_owned()));
        }
        self.leave_log();
        self.not_put_back = None;
        self.stats.displaced(None);
        self.opened(connection, standing, found);
        Ok(())
    }

    /// What the connection holds is lost. What stands in the store's place, an older state or somebody else's, is moved out of it, so that the
    /// next to open it has a loss on record.
    fn give_up(&mut self, what: &str) {
        backup::mark_displaced(&self.path);
        self.leave_log();
        let set_aside = if files::is_gone(&self.path) {
            set_aside::set_aside_missing(&self.path, self.boot)
        } else {
            set_aside::set_aside(&self.path, self.boot, what)
        };
        // Where this fails, the mark says so to the next start.
        if let Err(error) = set_aside.and_then(|_| backup::unmark_displaced(&self.path).map_err(|error| from_io(&error, &self.path))) {
            tracing::error!(path = %self.path.display(), %error, "what stands in the store's place could not be moved: it is no state to go on with");
        }
        self.connection = State::GivenUp { reason: what.to_owned() };
    }

    /// Has what is closed next leave the file and the log as they are.
    fn leave_log(&self) {
        if let State::Open(connection) = &self.connection
            && let Err(error) = connection::leave_log(connection)
        {
            tracing::warn!(%error, "what is left of the store's log may be moved into its file");
        }
    }

    /// Closes the file and opens it again, after the disk has failed. Says whether it holds what is `unanswered`, durably.
    ///
    /// The kernel may have dropped what it could not write and call the next flush a success, so nothing in memory is trusted:
    /// the file is read and checked anew. What the log holds may have been dropped too, and would hide all that is written
    /// behind it from the recovery of a power cut: it is written once more, into the file itself, and the log begins anew.
    fn reopen(&mut self, reason: CommitError, unanswered: Option<Vec<Write>>) -> bool {
        // Closed first, and without moving anything: the new connection must not share the old one's view of the log, and looks at it itself.
        self.leave_log();
        self.connection = State::Failed { since: Instant::now(), reason };
        let kept = match self.open_again(unanswered.as_deref()) {
            Ok((connection, found, kept)) => {
                tracing::info!("the store is open again, and checked");
                let standing = Standing::of(&self.path, connection::is_a_file(&connection));
                self.opened(connection, standing, found);
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

    /// Opens the file, checked, with a log that begins anew. Says whether it holds a commit that was answered as failed, and whether it holds
    /// what is `unanswered`.
    fn open_again(&self, unanswered: Option<&[Write]>) -> Result<(Connection, bool, bool), CommitError> {
        log::refuse_damaged(&self.path)?;
        let connection = connection::open(&self.path, true, false, 0)?;
        connection::empty_log(&connection)?;
        connection.execute("UPDATE box SET reopened = reopened + 1", [])?;
        let holds = |writes: &[Write]| rows::hold(&connection, writes);
        let found = self.doubtful.iter().try_fold(false, |found, writes| Ok::<_, CommitError>(found || holds(writes)?))?;
        let kept = unanswered.map_or(Ok(false), holds)?;
        Ok((connection, found, kept))
    }

    fn opened(&mut self, connection: Connection, standing: Standing, found: bool) {
        self.connection = State::Open(connection);
        self.standing = standing;
        self.doubtful.clear();
        if found {
            self.stats.must_restart("a commit that had failed is in the store after all");
        }
    }
}

impl Drop for Committer {
    /// Where something of the store has gone, the connection alone has what was promised.
    fn drop(&mut self) {
        let fault = if matches!(self.connection, State::Open(_)) { self.standing.fault(&self.path, self.log_bytes()) } else { None };
        let Some(fault) = fault.filter(|_| self.keep_lock().is_ok()) else { return };
        self.not_put_back = None;
        if self.stand_again(fault).is_ok() {
            return;
        }
        // What could wait for somebody to make room can't any more.
        self.not_put_back = None;
        let makes_room = !self.standing.can_keep_foreign(&self.path) && set_aside::set_aside(&self.path, self.boot, fault.text()).is_ok();
        if makes_room && self.stand_again(fault).is_ok() {
            if let Err(error) = set_aside::done(&self.path) {
                tracing::error!(%error, "the next start takes a backup, although the store is whole");
            }
        } else if self.is_all_in_the_file(fault) {
            self.leave_log();
        } else if matches!(self.connection, State::Open(_)) {
            self.give_up(fault.text());
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
