//! The thread that writes: it takes commits from a bounded queue, groups them, and answers by message.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use recado_core::ledger::{CommitId, Input, Write};

use super::error::CommitError;
use super::group::Committer;
use super::stats::{Stats, StoreStats, Tally};
use super::verification::{self, Verification};

/// The way to the store's thread. Dropping it commits what was taken, answers it, and closes the store: that waits for the disk.
#[derive(Debug)]
pub struct Writer {
    queue: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    stats: Arc<Stats>,
}

/// What the thread is given.
#[derive(Debug)]
enum Job {
    Commit(CommitId, Vec<Write>),
    Verification(Verification),
}

/// What became of a commit.
///
/// Once `Ok` is sent, it will be there after a power cut. After an error nothing of it is kept, with the one doubt that
/// [`CommitError::Io`] names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The commit.
    pub commit: CommitId,
    /// Durable, or why not.
    pub outcome: Result<(), CommitError>,
}

impl From<Answer> for Input {
    fn from(answer: Answer) -> Self {
        match answer.outcome {
            Ok(()) => Self::Durable(answer.commit),
            Err(reason) => {
                let missing = matches!(reason, CommitError::Missing(_));
                Self::CommitFailed { commit: answer.commit, reason: reason.to_string(), missing }
            }
        }
    }
}

impl Writer {
    pub(super) fn start(committer: Committer, answer: impl FnMut(Answer) + Send + 'static) -> io::Result<Self> {
        let (queue, taken) = sync_channel(QUEUE_COMMITS_MAX);
        let stats = committer.stats();
        let thread = thread::Builder::new().name("store".to_owned()).spawn(move || run(committer, &taken, answer))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), stats })
    }

    /// Takes a commit to the store's thread. It never waits: the answer comes by message, after those of all earlier commits.
    ///
    /// # Errors
    /// [`CommitError::Busy`] when the queue is full, [`CommitError::Value`] when it holds too much: that is the answer, no other follows.
    pub fn commit(&self, commit: CommitId, writes: Vec<Write>) -> Result<(), CommitError> {
        if writes.len() > WRITES_PER_COMMIT_MAX {
            return Err(CommitError::Value(format!("{} writes in one commit", writes.len())));
        }
        self.give(Job::Commit(commit, writes)).map_err(|refused| refused.0)
    }

    /// Takes what concerns the verification of a caller to the store's thread. It never waits: the answer comes by its own way, at once where
    /// the queue is full.
    pub fn verification(&self, verification: Verification) {
        if let Err(refused) = self.give(Job::Verification(verification))
            && let (reason, Job::Verification(refused)) = *refused
        {
            refused.answer(Err(reason));
        }
    }

    fn give(&self, job: Job) -> Result<(), Box<(CommitError, Job)>> {
        let Some(queue) = &self.queue else { return Err(Box::new((CommitError::Closed, job))) };
        queue.try_send(job).map_err(|error| match error {
            TrySendError::Full(job) => {
                self.stats.busy();
                Box::new((CommitError::Busy, job))
            }
            TrySendError::Disconnected(job) => Box::new((CommitError::Closed, job)),
        })
    }

    /// Whether the store's thread is there. It ends by itself only by a fault in its own software.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// What the store says about itself.
    pub fn stats(&self) -> StoreStats {
        self.stats.read()
    }

    /// How many deliveries the store holds, by state. Nothing is read for it: the writer counts as it writes.
    pub fn deliveries(&self) -> Tally {
        self.stats.deliveries()
    }

    /// Why nothing can be recorded now although the store is open, if that is so: something of it is not in its place, and can't be written
    /// again yet.
    pub fn displaced(&self) -> Option<String> {
        self.stats.why_displaced()
    }

    /// Somebody else has found that the store has to be opened anew: from now on nothing new is begun on it.
    pub fn must_restart(&self, reason: &str) {
        self.stats.must_restart(reason);
    }

    /// Why the process has to open the store anew, if it has to: the file is damaged, or holds what had been answered with an
    /// error. Until then commits that create an operation or claim a delivery are refused ([`CommitError::Restart`]).
    pub fn restart_wanted(&self) -> Option<String> {
        self.stats.restart_wanted()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's thread ended by a panic");
        }
    }
}

fn run(mut committer: Committer, taken: &Receiver<Job>, mut answer: impl FnMut(Answer)) {
    let mut is_well = committer.stats().is_well();
    // What ended a group: its turn is next.
    let mut next = None;
    loop {
        let job = match next.take() {
            Some(job) => Ok(job),
            None => taken.recv_timeout(if is_well { TEND } else { TEND_UNWELL }),
        };
        let mut group = match job {
            Ok(Job::Commit(commit, writes)) => vec![(commit, writes)],
            Ok(Job::Verification(asked)) => {
                let outcome = verification::decide(&mut committer, &asked.trial);
                is_well = committer.stats().is_well();
                asked.answer(outcome);
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {
                is_well = committer.look_after();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        while group.len() < GROUP_COMMITS_MAX {
            match taken.try_recv() {
                Ok(Job::Commit(commit, writes)) => group.push((commit, writes)),
                Ok(other) => {
                    next = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        let outcomes = committer.commit(&group);
        is_well = committer.stats().is_well();
        for ((commit, _), outcome) in group.into_iter().zip(outcomes) {
            answer(Answer { commit, outcome });
        }
    }
}

/// Commits that may wait. At the 100 ms that a card stalls now and then, far more than all calls of a box can ask for.
const QUEUE_COMMITS_MAX: usize = 1_024;

/// Commits in one transaction: at 64 the flush is already shared so widely that more only delays the answers.
const GROUP_COMMITS_MAX: usize = 64;

/// Writes in one commit. A restart may change each record that it read back; nothing else comes near.
const WRITES_PER_COMMIT_MAX: usize = 65_536;

/// How often an idle store looks after its reserve.
const TEND: Duration = Duration::from_secs(10);

/// How often it does so while its disk is full or does not work.
const TEND_UNWELL: Duration = Duration::from_secs(2);
