//! A circuit breaker: an endpoint that is down is left alone for a while, instead of being asked again by each operation that wants something of it.
//!
//! | it is | until | what is begun |
//! | --- | --- | --- |
//! | closed | [`FAULTS_MAX`] faults, one after another | everything |
//! | open | its time is over: [`OPEN_FIRST`], doubling up to [`OPEN_MOST`]; longer where it asked for that with `Retry-After` | nothing |
//! | half-open | the one exchange that was let through, the probe, has come to its end | nothing else |
//!
//! A sign of life closes it, whenever it comes. A fault is what says that the endpoint is down, or wants to be left alone: nobody could be reached, the connection
//! broke, there was no answer in time, or one that says "not now" (5xx, 429). What says that a request is not to its liking (another 4xx, a
//! failure in the tool's own words) is a sign of life. These are told apart by what a port makes of them: what may be asked again as it is was not the request's fault.
//!
//! There is nothing random in it, and time is passed in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recado_core::ledger::{AttemptOutcome, InquiryOutcome};
use reqwest::Url;
use tokio::time::Instant;

use super::port::Sent;

/// What fails together: a host and its port, a server, a program. Clones are the same.
#[derive(Debug, Clone)]
pub struct Endpoint {
    name: String,
    answers: Arc<AtomicU64>,
    inquired: bool,
}

impl Endpoint {
    /// The endpoint `name`: what has the same name fails together. It is shown in logs and measures: nothing secret may be in it.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), answers: Arc::default(), inquired: true }
    }

    /// What is at this URL: its scheme, host and port.
    pub(super) fn at(url: &Url) -> Self {
        Self::new(url.origin().ascii_serialization())
    }

    /// The same, where inquiries are made elsewhere: they show nothing of it.
    #[must_use]
    pub fn inquired_elsewhere(self) -> Self {
        Self { inquired: false, ..self }
    }

    /// It has answered in its own right: whatever comes of the exchange, it is there.
    pub fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_inquired(&self) -> bool {
        self.inquired
    }

    /// How often it has answered so.
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }
}

/// What an exchange shows of its endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sign {
    /// It is there, and does its work.
    Life,
    /// It is down, or wants to be left alone.
    Fault { reason: String, retry_after_ms: Option<u64> },
    /// Nothing: it was not asked, or the exchange was ended from here.
    Nothing,
}

impl Sign {
    /// What an attempt shows. `sent`: whether it has left the box, and was ended from here; `answered`: whether the endpoint has answered in its own right meanwhile.
    pub fn of_attempt(outcome: &AttemptOutcome, sent: &Sent, answered: bool) -> Self {
        match outcome {
            AttemptOutcome::Succeeded(_) | AttemptOutcome::Deferred | AttemptOutcome::Taken { .. } => Self::Life,
            _ if answered => Self::Life,
            _ if sent.is_broken_off() => Self::Nothing,
            AttemptOutcome::Unreachable { reason, retry_after_ms } => Self::fault(reason, *retry_after_ms),
            AttemptOutcome::Failed { error, retryable: true, retry_after_ms, .. } => Self::fault(error, *retry_after_ms),
            AttemptOutcome::Failed { retryable: false, .. } if sent.is_marked() => Self::Life,
            AttemptOutcome::Failed { .. } => Self::Nothing,
        }
    }

    /// What an inquiry shows.
    pub fn of_inquiry(outcome: &InquiryOutcome, answered: bool) -> Self {
        match outcome {
            InquiryOutcome::Succeeded(_)
            | InquiryOutcome::Failed(_)
            | InquiryOutcome::Running { .. }
            | InquiryOutcome::NotExecuted
            | InquiryOutcome::Cancelled
            | InquiryOutcome::Forgotten => Self::Life,
            _ if answered => Self::Life,
            InquiryOutcome::Unanswered { error, retryable: true, retry_after_ms } => Self::fault(error, *retry_after_ms),
            InquiryOutcome::Unanswered { .. } | InquiryOutcome::Unsupported => Self::Nothing,
        }
    }

    fn fault(reason: &str, retry_after_ms: Option<u64>) -> Self {
        Self::Fault { reason: reason.to_owned(), retry_after_ms }
    }
}

/// Why nothing may be begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shut {
    /// In words that anybody may hear: what was said to somebody else is not in them.
    pub reason: String,
    /// How long it is of no use to ask again (ms).
    pub retry_after_ms: u64,
}

/// How an endpoint stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// By its name.
    pub endpoint: String,
    /// Whether it is left alone, but for a probe now and then.
    pub left_alone: bool,
    /// Attempts and inquiries that were handed back because it was left alone, since the start.
    pub turned_away: u64,
}

/// The breaker of one endpoint.
#[derive(Debug)]
pub(super) struct Breaker {
    endpoint: String,
    circuit: Mutex<Circuit>,
    turned_away: AtomicU64,
}

impl Breaker {
    pub fn new(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), circuit: Mutex::new(Circuit::default()), turned_away: AtomicU64::new(0) }
    }

    /// Why nothing may be begun now; none where something may.
    pub fn shut(&self, now: Instant) -> Option<Shut> {
        let shut = self.circuit().shut(now)?;
        self.turned_away.fetch_add(1, Ordering::Relaxed);
        Some(shut)
    }

    /// Begins an exchange, which may be the probe.
    pub fn begin(self: &Arc<Self>, now: Instant) -> Result<Pass, Shut> {
        let begun = self.circuit().begin(now);
        match begun {
            Ok(probe) => Ok(Pass { breaker: Arc::clone(self), probe, judged: false }),
            Err(shut) => {
                self.turned_away.fetch_add(1, Ordering::Relaxed);
                Err(shut)
            }
        }
    }

    pub fn standing(&self) -> Standing {
        Standing {
            endpoint: self.endpoint.clone(),
            left_alone: self.circuit().until.is_some(),
            turned_away: self.turned_away.load(Ordering::Relaxed),
        }
    }

    fn judge(&self, sign: Sign, probe: Option<u64>, now: Instant) {
        let change = self.circuit().judge(sign, probe, now);
        match change {
            Some(Change::Opened { reason, for_ms }) => {
                tracing::warn!(
                    endpoint = self.endpoint,
                    reason,
                    for_ms,
                    "an endpoint of tools is down: it is left alone, and looked at now and then"
                );
            }
            Some(Change::StillDown { reason, for_ms }) => {
                tracing::debug!(endpoint = self.endpoint, reason, for_ms, "an endpoint of tools is still down");
            }
            Some(Change::Closed) => tracing::info!(endpoint = self.endpoint, "an endpoint of tools is back"),
            None => {}
        }
    }

    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An exchange that was let through. Dropped without a sign, it has shown nothing.
#[derive(Debug)]
pub(super) struct Pass {
    breaker: Arc<Breaker>,
    /// Which probe it is, if it is one.
    probe: Option<u64>,
    judged: bool,
}

impl Pass {
    /// The exchange is over, and shows this.
    pub fn shows(mut self, sign: Sign, now: Instant) {
        self.judged = true;
        self.breaker.judge(sign, self.probe, now);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if !self.judged {
            self.breaker.judge(Sign::Nothing, self.probe, Instant::now());
        }
    }
}

/// What has changed, to be told once.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Opened { reason: String, for_ms: u64 },
    StillDown { reason: String, for_ms: u64 },
    Closed,
}

/// The state machine.
#[derive(Debug, Default)]
struct Circuit {
    /// Faults, one after another.
    faults: u32,
    /// How often it was opened, one time after another; 0: it is closed.
    opened: u32,
    /// Until when nothing is begun, while it is open.
    until: Option<Instant>,
    /// The probe that is under way.
    probing: Option<u64>,
    /// Probes so far.
    probes: u64,
}

impl Circuit {
    fn shut(&self, now: Instant) -> Option<Shut> {
        let left = match (self.until, self.probing) {
            (Some(_), Some(_)) => OPEN_FIRST,
            (Some(until), None) => until.saturating_duration_since(now),
            (None, _) => return None,
        };
        let reason = format!("its service has failed {} times, one after another, and is left alone for a while", self.faults);
        (!left.is_zero()).then_some(Shut { reason, retry_after_ms: ms(left).max(1) })
    }

    /// Which probe the exchange is that begins, if it is one.
    fn begin(&mut self, now: Instant) -> Result<Option<u64>, Shut> {
        if let Some(shut) = self.shut(now) {
            return Err(shut);
        }
        if self.until.is_some() {
            self.probes = self.probes.wrapping_add(1);
            self.probing = Some(self.probes);
        }
        Ok(self.probing)
    }

    fn judge(&mut self, sign: Sign, probe: Option<u64>, now: Instant) -> Option<Change> {
        let probe = probe.is_some() && probe == self.probing;
        if probe {
            self.probing = None;
        }
        match sign {
            Sign::Nothing => None,
            Sign::Life => {
                let was_open = self.until.is_some();
                *self = Self { probes: self.probes, ..Self::default() };
                was_open.then_some(Change::Closed)
            }
            Sign::Fault { reason, retry_after_ms } => {
                let is_open = self.until.is_some();
                // What was begun before it was opened tells nothing new.
                if is_open && !probe {
                    return None;
                }
                self.faults = self.faults.saturating_add(1);
                if !is_open && self.faults < FAULTS_MAX {
                    return None;
                }
                let asked = Duration::from_millis(retry_after_ms.unwrap_or(0)).min(RETRY_AFTER_MOST);
                let doubled = OPEN_FIRST.saturating_mul(1 << self.opened.min(DOUBLINGS_MAX)).min(OPEN_MOST);
                let lasts = doubled.max(asked);
                self.opened = self.opened.saturating_add(1);
                self.until = Some(now + lasts);
                let for_ms = ms(lasts);
                Some(if is_open { Change::StillDown { reason, for_ms } } else { Change::Opened { reason, for_ms } })
            }
        }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// More than the attempts that an operation has where nothing else is said: one that its service can't cope with comes to its end, and holds nobody back.
pub const FAULTS_MAX: u32 = 6;
/// Short enough for somebody who waits on the line.
const OPEN_FIRST: Duration = Duration::from_secs(2);
/// As long as the waits of an operation that is tried again become.
const OPEN_MOST: Duration = Duration::from_secs(60);
/// Longer than most operations may take: what asks to be left alone for an hour is looked at all the same.
const RETRY_AFTER_MOST: Duration = Duration::from_secs(600);
/// Beyond it nothing grows any more.
const DOUBLINGS_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn fault() -> Sign {
        Sign::Fault { reason: "refused".to_owned(), retry_after_ms: None }
    }

    fn opened_at(now: Instant) -> Circuit {
        let mut circuit = Circuit::default();
        for _ in 1..FAULTS_MAX {
            assert_eq!(circuit.judge(fault(), None, now), None);
            assert_eq!(circuit.shut(now), None);
        }
        assert_eq!(circuit.judge(fault(), None, now), Some(Change::Opened { reason: "refused".to_owned(), for_ms: 2_000 }));
        circuit
    }

    #[test]
    fn faults_open_it_only_where_they_come_one_after_another() {
        let now = Instant::now();
        let mut circuit = Circuit::default();
        for _ in 0..3 {
            for _ in 1..FAULTS_MAX {
                assert_eq!(circuit.judge(fault(), None, now), None);
            }
            assert_eq!(circuit.judge(Sign::Life, None, now), None);
        }
        assert_eq!(opened_at(now).shut(now).map(|shut| shut.retry_after_ms), Some(2_000));
    }

    #[test]
    fn an_operation_that_fails_at_each_attempt_opens_nothing_by_itself() {
        assert!(FAULTS_MAX > recado_core::policy::Retry::default().attempts_max);
    }

    #[test]
    fn one_probe_is_let_through_and_its_sign_decides() {
        let now = Instant::now();
        let mut circuit = opened_at(now);
        let almost = now + OPEN_FIRST - Duration::from_millis(1);
        assert_eq!(circuit.begin(almost).map_err(|shut| shut.retry_after_ms), Err(1));
        let due = now + OPEN_FIRST;
        assert_eq!(circuit.begin(due), Ok(Some(1)), "the probe");
        assert_eq!(circuit.begin(due).map_err(|shut| shut.retry_after_ms), Err(2_000), "and nothing beside it");
        assert_eq!(circuit.judge(Sign::Life, Some(1), due), Some(Change::Closed));
        assert_eq!(circuit.begin(due), Ok(None));
    }

    #[test]
    fn it_stays_open_longer_each_time_up_to_a_minute_and_begins_anew_when_it_was_closed() {
        let mut now = Instant::now();
        let mut circuit = opened_at(now);
        let mut waits = Vec::new();
        for probe in 1..=7 {
            now += Duration::from_millis(circuit.shut(now).unwrap().retry_after_ms);
            assert_eq!(circuit.begin(now), Ok(Some(probe)));
            let Some(Change::StillDown { for_ms, .. }) = circuit.judge(fault(), Some(probe), now) else { panic!() };
            waits.push(for_ms);
        }
        assert_eq!(waits, [4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
        circuit.judge(Sign::Life, None, now);
        assert_eq!(opened_at(now).shut(now).map(|shut| shut.retry_after_ms), Some(2_000));
    }

    #[test]
    fn what_it_asks_for_is_heeded_within_bounds() {
        let now = Instant::now();
        for (asked, lasts) in [(1_000, 2_000), (90_000, 90_000), (u64::MAX, 600_000)] {
            let mut circuit = Circuit { faults: FAULTS_MAX - 1, ..Circuit::default() };
            circuit.judge(Sign::Fault { reason: String::new(), retry_after_ms: Some(asked) }, None, now);
            assert_eq!(circuit.shut(now).map(|shut| shut.retry_after_ms), Some(lasts));
        }
    }

    #[test]
    fn what_was_under_way_when_it_opened_closes_it_or_changes_nothing() {
        let now = Instant::now();
        let mut circuit = opened_at(now);
        let later = now + Duration::from_secs(1);
        assert_eq!(circuit.judge(fault(), None, later), None);
        assert_eq!(circuit.shut(later).map(|shut| shut.retry_after_ms), Some(1_000));
        assert_eq!(circuit.judge(Sign::Life, None, later), Some(Change::Closed));
    }

    #[test]
    fn a_probe_that_shows_nothing_makes_room_for_the_next() {
        let now = Instant::now();
        let breaker = Arc::new(Breaker { circuit: Mutex::new(opened_at(now)), ..Breaker::new("there") });
        let due = now + OPEN_FIRST;
        drop(breaker.begin(due).unwrap());
        let probe = breaker.begin(due).unwrap();
        assert!(probe.probe == Some(2) && breaker.begin(due).is_err());
        probe.shows(Sign::Nothing, due);
        breaker.begin(due).unwrap().shows(Sign::Life, due);
        assert_eq!(breaker.standing(), Standing { endpoint: "there".to_owned(), left_alone: false, turned_away: 1 });
    }

    #[test]
    fn a_probe_of_before_does_not_end_a_later_one() {
        let now = Instant::now();
        let mut circuit = opened_at(now);
        let due = now + OPEN_FIRST;
        assert_eq!(circuit.begin(due), Ok(Some(1)));
        circuit.judge(Sign::Life, None, due);
        for _ in 0..FAULTS_MAX {
            circuit.judge(fault(), None, due);
        }
        let again = due + OPEN_FIRST;
        assert_eq!(circuit.begin(again), Ok(Some(2)));
        assert_eq!(circuit.judge(fault(), Some(1), again), None);
        assert!(circuit.begin(again).is_err());
    }

    #[test]
    fn what_another_caller_was_told_is_not_handed_on() {
        let now = Instant::now();
        let mut circuit = Circuit { faults: FAULTS_MAX - 1, ..Circuit::default() };
        circuit.judge(Sign::Fault { reason: "Ana's table".to_owned(), retry_after_ms: None }, None, now);
        assert!(!circuit.shut(now).unwrap().reason.contains("Ana"));
    }

    #[test]
    fn what_says_that_a_request_is_bad_is_a_sign_of_life() {
        use recado_core::ledger::Executed::{Maybe, No};
        let attempt = |executed, retryable| AttemptOutcome::Failed { error: "e".into(), executed, retryable, retry_after_ms: Some(7) };
        let fault = Sign::Fault { reason: "e".into(), retry_after_ms: Some(7) };
        let sent = Sent::default();
        assert!(sent.mark());
        let of = |outcome: &AttemptOutcome| Sign::of_attempt(outcome, &sent, false);
        assert_eq!(of(&AttemptOutcome::Deferred), Sign::Life);
        assert_eq!(of(&attempt(No, false)), Sign::Life);
        assert_eq!((of(&attempt(No, true)), of(&attempt(Maybe, true))), (fault.clone(), fault.clone()));
        assert_eq!(of(&AttemptOutcome::Unreachable { reason: "e".into(), retry_after_ms: Some(7) }), fault);
        assert_eq!(Sign::of_attempt(&attempt(Maybe, true), &sent, true), Sign::Life, "it has answered in its own right");
        assert_eq!(Sign::of_attempt(&attempt(No, false), &Sent::default(), false), Sign::Nothing, "it was never asked");
        sent.break_off();
        let ended_from_here = [attempt(No, false), attempt(Maybe, false), attempt(Maybe, true)];
        assert!(ended_from_here.iter().all(|outcome| Sign::of_attempt(outcome, &sent, false) == Sign::Nothing));
        assert_eq!(
            Sign::of_attempt(&AttemptOutcome::Succeeded(serde_json::json!({})), &sent, false),
            Sign::Life,
            "it has done its work all the same"
        );
        let inquiry = |retryable| InquiryOutcome::Unanswered { error: "e".into(), retryable, retry_after_ms: Some(7) };
        assert_eq!(Sign::of_inquiry(&InquiryOutcome::Forgotten, false), Sign::Life);
        assert_eq!((Sign::of_inquiry(&inquiry(true), false), Sign::of_inquiry(&inquiry(true), true)), (fault, Sign::Life));
        assert_eq!(
            (Sign::of_inquiry(&inquiry(false), false), Sign::of_inquiry(&InquiryOutcome::Unsupported, false)),
            (Sign::Nothing, Sign::Nothing)
        );
    }
}
