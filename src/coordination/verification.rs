//! How often a party's PIN was not right, over calls and restarts, and when nothing of that party is looked at any more.
//!
//! A failure is on record before the PIN is compared, and taken back when it was right: neither a power cut nor calls at the
//! same time give more guesses. Of how long a lock-out has lasted only what is known counts: the time that this process has
//! run, or the wall clock's where both readings were synchronised.

use recado_core::ids::{BootId, PartyId};
use recado_core::time::{Time, Wall};
use rusqlite::{Connection, OptionalExtension, Result as Found, params};

use super::error::CommitError;
use super::group::Committer;

/// When nothing of a party is looked at any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockOut {
    /// After so many failures.
    pub after: u32,
    /// For how long the first time (ms); each further time twice as long, a day at most.
    pub lasts_ms: u64,
}

impl Default for LockOut {
    fn default() -> Self {
        Self { after: 5, lasts_ms: 15 * 60 * 1_000 }
    }
}

/// When it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// This life of the process.
    pub boot: BootId,
    /// By its own clock.
    pub now: Time,
    /// By the wall.
    pub wall: Wall,
}

/// What is asked of the store about a party.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// May a PIN of it be compared? If so, a failure is on record until [`Trial::Succeeded`].
    Begin {
        /// The party.
        party: PartyId,
        /// Whether it has a PIN.
        has_pin: bool,
        /// When it is.
        at: Moment,
        /// When it is locked.
        lock_out: LockOut,
    },
    /// The PIN was right: nothing is held against the party any more.
    Succeeded {
        /// The party.
        party: PartyId,
    },
}

/// What the store says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is on record.
    Recorded,
    /// There were too many failures: nothing is compared.
    Locked,
}

/// A [`Trial`], and the way back. Once it is answered `Ok`, it will be there after a power cut.
pub struct Verification {
    pub(super) trial: Trial,
    answer: Box<dyn FnOnce(Result<Verdict, CommitError>) + Send>,
}

impl Verification {
    /// Asks `trial`; `answer` is called once, on the store's thread, and must not wait.
    pub fn new(trial: Trial, answer: impl FnOnce(Result<Verdict, CommitError>) + Send + 'static) -> Self {
        Self { trial, answer: Box::new(answer) }
    }

    pub(super) fn answer(self, outcome: Result<Verdict, CommitError>) {
        (self.answer)(outcome);
    }
}

impl std::fmt::Debug for Verification {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Verification").field(&self.trial).finish()
    }
}

/// Does what is asked, durably.
pub(super) fn decide(committer: &mut Committer, trial: &Trial) -> Result<Verdict, CommitError> {
    committer.transact(|connection| match trial {
        Trial::Begin { party, has_pin, at, lock_out } => begin(connection, party, *has_pin, *at, *lock_out),
        Trial::Succeeded { party } => {
            connection.prepare_cached("DELETE FROM identity_failure WHERE party_id = ?")?.execute([name(party)])?;
            Ok(Verdict::Recorded)
        }
    })
}

/// What is on record of a party.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    failures: u32,
    lock_outs: u32,
    locked_ms: u64,
    /// Since its latest failure, at least.
    passed_ms: u64,
}

fn begin(connection: &Connection, party: &PartyId, has_pin: bool, at: Moment, lock_out: LockOut) -> Found<Verdict> {
    let party = name(party);
    let known = connection.prepare_cached(FIND)?.query_row([party], |row| read(row, at)).optional()?;
    let before = known.filter(|record| record.locked_ms.max(FORGOTTEN_MS) > record.passed_ms).unwrap_or_default();
    if before.locked_ms > before.passed_ms {
        return Ok(Verdict::Locked);
    }
    let failures = before.failures.saturating_add(1);
    let (failures, lock_outs, locked_ms) = if failures >= lock_out.after {
        let longer = 1_u64.checked_shl(before.lock_outs).unwrap_or(u64::MAX);
        (0, before.lock_outs.saturating_add(1), lock_out.lasts_ms.saturating_mul(longer).min(LOCKED_MS_MOST.max(lock_out.lasts_ms)))
    } else {
        (failures, before.lock_outs, 0)
    };
    let number = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    let (boot, failed_ms) = (at.boot.to_string(), number(at.now.0));
    connection.prepare_cached(RECORD)?.execute(params![
        party,
        has_pin,
        failures,
        lock_outs,
        number(locked_ms),
        boot,
        failed_ms,
        at.wall.unix_ms,
        at.wall.synchronised,
    ])?;
    let too_many: i64 = connection.prepare_cached("SELECT count(*) - ? FROM identity_failure")?.query_row([ROWS_MAX], |row| row.get(0))?;
    if too_many > 0 {
        connection.prepare_cached(MAKE_ROOM)?.execute(params![too_many, party])?;
    }
    Ok(Verdict::Recorded)
}

fn read(row: &rusqlite::Row<'_>, at: Moment) -> Found<Record> {
    let (boot, failed_ms): (String, i64) = (row.get("boot_id")?, row.get("failed_ms")?);
    let wall = Wall { unix_ms: row.get("failed_unix_ms")?, synchronised: row.get("failed_synchronised")? };
    let passed_ms = if boot == at.boot.to_string() {
        at.now.since(Time(u64::try_from(failed_ms).unwrap_or_default()))
    } else {
        // It was before this process began.
        at.wall.age_ms(wall).unwrap_or_default().max(at.now.0)
    };
    let locked_ms: i64 = row.get("locked_ms")?;
    Ok(Record {
        failures: row.get("failures")?,
        lock_outs: row.get("lock_outs")?,
        locked_ms: u64::try_from(locked_ms).unwrap_or_default(),
        passed_ms,
    })
}

/// What it goes by here. No name that has a PIN is longer.
fn name(party: &PartyId) -> &str {
    let end = (0..=NAME_BYTES_MAX).rev().find(|end| party.0.is_char_boundary(*end)).unwrap_or_default();
    party.0.get(..end).unwrap_or(&party.0)
}

const FIND: &str = "SELECT failures, lock_outs, locked_ms, boot_id, failed_ms, failed_unix_ms, failed_synchronised
                    FROM identity_failure WHERE party_id = ?";

const RECORD: &str = "
    INSERT INTO identity_failure (party_id, sequence, has_pin, failures, lock_outs, locked_ms, boot_id, failed_ms, failed_unix_ms, failed_synchronised)
    VALUES (?1, (SELECT coalesce(max(sequence), 0) + 1 FROM identity_failure), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
    ON CONFLICT (party_id) DO UPDATE SET
        sequence = excluded.sequence, has_pin = excluded.has_pin, failures = excluded.failures, lock_outs = excluded.lock_outs,
        locked_ms = excluded.locked_ms, boot_id = excluded.boot_id, failed_ms = excluded.failed_ms,
        failed_unix_ms = excluded.failed_unix_ms, failed_synchronised = excluded.failed_synchronised";

/// Those go first that have no PIN, the oldest of them before.
const MAKE_ROOM: &str = "
    DELETE FROM identity_failure WHERE party_id IN (
        SELECT party_id FROM identity_failure WHERE party_id <> ?2 ORDER BY has_pin, sequence LIMIT ?1)";

/// Parties of which failures are remembered: twice as many as can have a PIN.
const ROWS_MAX: i64 = 10_000;
/// As the table has it.
const NAME_BYTES_MAX: usize = 1_024;
/// A day (ms).
const LOCKED_MS_MOST: u64 = 86_400_000;
/// After a week without a failure those before it count no more (ms).
const FORGOTTEN_MS: u64 = 7 * 86_400_000;

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    fn store() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        connection
    }

    const RULE: LockOut = LockOut { after: 3, lasts_ms: 60_000 };

    fn at(boot: u128, now: u64, wall: Option<i64>) -> Moment {
        let wall = Wall { unix_ms: wall.unwrap_or_default(), synchronised: wall.is_some() };
        Moment { boot: BootId(boot), now: Time(now), wall }
    }

    fn tries(store: &Connection, party: &str, at: Moment) -> Verdict {
        begin(store, &PartyId(party.into()), true, at, RULE).unwrap()
    }

    fn locked(store: &Connection) {
        for _ in 0..RULE.after {
            assert_eq!(tries(store, "a/ana", at(1, 1_000, None)), Verdict::Recorded);
        }
        assert_eq!(tries(store, "a/ana", at(1, 1_000, None)), Verdict::Locked);
    }

    #[test]
    fn after_so_many_failures_nothing_is_compared_until_the_time_is_over_and_then_for_twice_as_long() {
        let store = store();
        locked(&store);
        assert_eq!(tries(&store, "a/bob", at(1, 1_000, None)), Verdict::Recorded, "another's is another's");
        assert_eq!(tries(&store, "a/ana", at(1, 60_999, None)), Verdict::Locked);
        for _ in 0..RULE.after {
            assert_eq!(tries(&store, "a/ana", at(1, 61_000, None)), Verdict::Recorded);
        }
        assert_eq!(tries(&store, "a/ana", at(1, 61_000 + 119_999, None)), Verdict::Locked);
        assert_eq!(tries(&store, "a/ana", at(1, 61_000 + 120_000, None)), Verdict::Recorded);
    }

    #[test]
    fn a_lock_out_never_lasts_longer_than_a_day() {
        let store = store();
        let (mut now, mut lasted) = (0, 0);
        for _ in 0..80 {
            while tries(&store, "a/ana", at(1, now, None)) == Verdict::Recorded {}
            lasted = store.query_row("SELECT locked_ms FROM identity_failure", [], |row| row.get::<_, i64>(0)).unwrap();
            now += u64::try_from(lasted).unwrap();
        }
        assert_eq!(lasted, 86_400_000);
    }

    #[test]
    fn without_a_clock_that_is_right_a_restart_shortens_no_lock_out() {
        let store = store();
        locked(&store);
        // The wall clock of a box without a battery says anything.
        assert_eq!(tries(&store, "a/ana", at(2, 59_999, Some(9_999_999_999))), Verdict::Locked);
        assert_eq!(tries(&store, "a/ana", at(2, 60_000, None)), Verdict::Recorded, "it has run for so long since");
    }

    #[test]
    fn two_clocks_that_are_right_know_how_long_the_box_was_off() {
        let store = store();
        for _ in 0..RULE.after {
            tries(&store, "a/ana", at(1, 1_000, Some(500_000)));
        }
        assert_eq!(tries(&store, "a/ana", at(2, 10, Some(559_999))), Verdict::Locked);
        assert_eq!(tries(&store, "a/ana", at(2, 10, Some(400_000))), Verdict::Locked, "it was set back");
        assert_eq!(tries(&store, "a/ana", at(2, 10, Some(560_000))), Verdict::Recorded);
    }

    #[test]
    fn failures_of_a_week_ago_are_forgotten() {
        let store = store();
        for day in [0, 8, 16, 24] {
            assert_eq!(tries(&store, "a/ana", at(1, day * 86_400_000, None)), Verdict::Recorded);
            assert_eq!(tries(&store, "a/ana", at(1, day * 86_400_000, None)), Verdict::Recorded);
        }
    }

    #[test]
    fn names_that_were_made_up_push_nobodys_failures_out() {
        let store = store();
        locked(&store);
        let forged = |number: i64| begin(&store, &PartyId(format!("a/{number}")), false, at(1, 2_000, None), RULE).unwrap();
        store.execute_batch("BEGIN").unwrap();
        for number in 0..=ROWS_MAX {
            assert_eq!(forged(number), Verdict::Recorded);
        }
        store.execute_batch("COMMIT").unwrap();
        let rows: i64 = store.query_row("SELECT count(*) FROM identity_failure", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, ROWS_MAX);
        assert_eq!(tries(&store, "a/ana", at(1, 2_000, None)), Verdict::Locked);
    }

    #[test]
    fn a_name_without_end_is_counted_by_its_beginning() {
        let store = store();
        let long = "é".repeat(5_000);
        for _ in 0..RULE.after {
            assert_eq!(tries(&store, &long, at(1, 0, None)), Verdict::Recorded);
        }
        assert_eq!(tries(&store, &long, at(1, 0, None)), Verdict::Locked);
    }
}
