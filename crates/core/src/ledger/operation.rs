//! One operation: attempts, retries, results, deadline, cancel.
//!
//! `Accepted → Running ⇄ RetryWait → Succeeded / Failed / Unknown`, and by way of `Cancelling` ([`super::cancel`]) to
//! `Cancelled`, `Compensated`, `TooLate` or `Unknown`. Changes are made on a draft and count when their transaction is durable.

use serde_json::json;

use super::cancel::Cancel;
use super::input::{AttemptOutcome, Executed, OperationResult};
use super::inquiry::Inquiries;
use super::intent::{record_digest, result_digest};
use super::record::{Contradiction, OperationRecord, OperationState};
use super::say::clean;
use crate::faults::{Fault, fault, unexplained};
use crate::ids::{FreshIds, OperationId};
use crate::policy::{Retry, ToolPolicy};
use crate::time::{Step, Time};

/// An operation in memory: its row, and what only this life of the process knows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Operation {
    pub record: OperationRecord,
    /// When it must be settled.
    pub deadline: Time,
    /// When it was accepted; none when that was in an earlier boot.
    pub accepted_at: Option<Time>,
    /// When it was settled; none before, or when that was in an earlier boot.
    pub settled_at: Option<Time>,
    /// When the next attempt is due.
    pub retry_at: Option<Time>,
    /// An attempt is out: its answer, or the callback that it promised, may still come.
    pub out: bool,
    /// A restart cut an attempt off, or its tool says that it executed and that could not be put on record: it may have executed, which
    /// goes on record with the next change.
    pub cut_off: bool,
    /// The attempt whose result is on record; none where a callback brought it.
    pub credited: Option<u32>,
    /// The older operation that it replaces: it begins when that one has come to its end.
    pub waits_for: Option<OperationId>,
    /// A newer operation takes its place: that it was cancelled is nothing to tell.
    pub replaced: bool,
    /// The cancel requests, while it is `Cancelling`.
    pub cancel: Cancel,
    /// What its tool is asked of how it stands.
    pub inquiries: Inquiries,
    /// It waits because its tool's place can't be reached, and goes on as soon as it can be.
    pub out_of_reach: bool,
}

/// What became of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    /// It settled the operation.
    Recorded,
    /// It settled what had been given up as not known.
    Reconciled,
    /// That it took effect is on record; what came of it is too, now.
    Completed,
    /// It says what is on record.
    Repeated,
    /// It contradicts what is on record: the first wins.
    Conflict,
    /// It does too, and is the first that does: it is on record now, beside the other.
    Contradicted,
}

impl Received {
    /// Whether a closing that has been written does not say it.
    pub fn is_news(self) -> bool {
        matches!(self, Self::Reconciled | Self::Completed | Self::Contradicted)
    }
}

impl Operation {
    /// An operation that was accepted and has not begun.
    pub fn new(record: OperationRecord, deadline: Time, accepted_at: Option<Time>) -> Self {
        Self {
            record,
            deadline,
            accepted_at,
            settled_at: None,
            retry_at: None,
            out: false,
            cut_off: false,
            credited: None,
            waits_for: None,
            replaced: false,
            cancel: Cancel::default(),
            inquiries: Inquiries::default(),
            out_of_reach: false,
        }
    }

    /// The next attempt begins (R2): `Running`, counted before its request leaves the box.
    pub fn begin(&mut self, policy: &ToolPolicy) {
        assert!(
            self.may_begin(policy),
            "R2: {} may have taken effect and is not idempotent, so attempt {} is ruled out",
            self.record.id,
            self.record.attempt + 1
        );
        self.record.attempt += 1;
        self.record.maybe_executed |= self.cut_off;
        self.record.state = OperationState::Running;
        self.record.handle = None;
        self.retry_at = None;
        self.out = true;
        self.out_of_reach = false;
        self.stop_asking();
    }

    /// Attempts that count: those that have left the box, or may have.
    pub fn spent(&self) -> u32 {
        self.record.attempt.saturating_sub(self.record.unreached)
    }

    /// An executor's report. `None`: it changes nothing.
    pub fn report(&mut self, attempt: u32, outcome: &AttemptOutcome, policy: &ToolPolicy, step: &mut Step) -> Option<Received> {
        match outcome {
            AttemptOutcome::Succeeded(value) => {
                let received = self.receive(&OperationResult::Succeeded(value.clone()), step.now);
                if matches!(received, Received::Recorded | Received::Reconciled | Received::Completed) {
                    self.credited = Some(attempt);
                }
                Some(received)
            }
            // The tool has it: its callback settles it, or what it says when it is asked, or the deadline.
            AttemptOutcome::Deferred => {
                let taken = attempt == self.record.attempt && self.out && !self.record.state.settled();
                (taken && self.follow(policy, step.now)).then_some(Received::Recorded)
            }
            AttemptOutcome::Taken { handle } => {
                let open = !self.record.state.settled() || self.record.state == OperationState::Unknown;
                if attempt != self.record.attempt || !self.out || !open {
                    return None;
                }
                if !handle.is_empty() && handle.chars().count() <= HANDLE_CHARS_MAX {
                    self.record.handle = Some(handle.clone());
                    self.can_be_named();
                }
                self.follow(policy, step.now).then_some(Received::Recorded)
            }
            AttemptOutcome::Unreachable { reason, retry_after_ms } => {
                if attempt != self.record.attempt || !self.out {
                    return None;
                }
                if self.record.state.settled() || self.record.state == OperationState::Cancelling {
                    let outcome = AttemptOutcome::Failed {
                        error: reason.clone(),
                        executed: Executed::No,
                        retryable: true,
                        retry_after_ms: *retry_after_ms,
                    };
                    return self.report(attempt, &outcome, policy, step);
                }
                self.out = false;
                self.out_of_reach = true;
                self.record.unreached = self.record.unreached.saturating_add(1);
                self.record.error = Some(clean(reason));
                self.record.state = OperationState::RetryWait;
                // Whatever its wait, it goes on when the place is back, and ends with its deadline.
                self.retry_at = Some(step.now.plus(wait_ms(&policy.retry, self.record.unreached, *retry_after_ms, &mut step.ids)));
                Some(Received::Recorded)
            }
            AttemptOutcome::Failed { error, executed, retryable, retry_after_ms } => {
                // The first word on an attempt is what counts.
                if attempt != self.record.attempt || !std::mem::take(&mut self.out) {
                    return None;
                }
                if self.record.state.settled() {
                    // It was given up before this came, or could be put on record.
                    let ruled_out = self.record.state == OperationState::Unknown && *executed == Executed::No && !self.maybe();
                    return ruled_out.then(|| self.receive(&OperationResult::Failed(error.clone()), step.now));
                }
                self.record.maybe_executed |= *executed == Executed::Maybe;
                self.record.error = Some(clean(error));
                if self.record.state == OperationState::Cancelling {
                    // The passing of time makes of it what it can.
                    return Some(Received::Recorded);
                }
                let again = *retryable && self.spent() < policy.retry.attempts_max && self.may_begin(policy);
                let at = step.now.plus(wait_ms(&policy.retry, self.spent(), *retry_after_ms, &mut step.ids));
                if again && at < self.deadline {
                    self.record.state = OperationState::RetryWait;
                    self.retry_at = Some(at);
                } else if self.without_result() == OperationState::Unknown && self.follow(policy, step.now) {
                    // In doubt, and its tool can be asked: it says how it stands.
                } else {
                    self.settle(self.without_result(), step.now);
                }
                Some(Received::Recorded)
            }
        }
    }

    /// Its tool's place can be reached again: what waits for that goes on at once.
    pub fn reachable(&mut self, now: Time) {
        if std::mem::take(&mut self.out_of_reach) && self.record.state == OperationState::RetryWait {
            self.retry_at = Some(now);
        }
    }

    /// A result: the first one settles the operation, also after it was given up as not known.
    pub fn receive(&mut self, result: &OperationResult, now: Time) -> Received {
        let result = kept(result);
        let before = self.record.state;
        if before.settled() && before != OperationState::Unknown && !fault(Fault::ResultOverwritten) {
            let received = compare(record_digest(&self.record), before, &result);
            if received != Received::Conflict {
                return received;
            }
            return match self.contradict(Contradiction::from(result)) {
                Received::Contradicted if self.record.late_result().is_some() => Received::Completed,
                received => received,
            };
        }
        let state = match (&result, before) {
            (OperationResult::Succeeded(_), OperationState::Cancelling) => OperationState::TooLate,
            (OperationResult::Failed(_), OperationState::Cancelling) => OperationState::Cancelled,
            (OperationResult::Succeeded(_), _) => OperationState::Succeeded,
            (OperationResult::Failed(_), _) => OperationState::Failed,
        };
        match result {
            OperationResult::Succeeded(value) => {
                self.record.result = Some(value);
                self.record.error = None;
            }
            OperationResult::Failed(error) => self.record.error = Some(error),
        }
        self.settle(state, now);
        if before == OperationState::Unknown { Received::Reconciled } else { Received::Recorded }
    }

    /// What contradicts the result on record is kept beside it, once.
    pub fn contradict(&mut self, other: Contradiction) -> Received {
        match &self.record.contradiction {
            None => {
                self.record.contradiction = Some(other);
                Received::Contradicted
            }
            Some(_) => Received::Conflict,
        }
    }

    /// What time makes of it: an attempt that is due, a deadline that has passed, a cancel that has nothing to wait for.
    pub fn advance(&mut self, policy: Option<&ToolPolicy>, now: Time) {
        match self.record.state {
            OperationState::Unknown => self.advance_inquiry(now),
            state if state.settled() => {}
            OperationState::Cancelling => self.advance_cancel(policy, now),
            _ if now >= self.deadline => {
                self.record.error = Some(self.record.error.take().unwrap_or_else(|| DEADLINE.to_owned()));
                self.settle(self.without_result(), now);
            }
            OperationState::Accepted if self.waits_for.is_some() => {}
            OperationState::Accepted | OperationState::RetryWait if self.retry_at.is_none_or(|at| now >= at) => match policy {
                Some(policy) if self.may_begin(policy) => self.begin(policy),
                // Its tool was idempotent when it was tried before, and is no more.
                Some(_) => self.settle(self.without_result(), now),
                None => {
                    self.record.error = Some(NO_TOOL.to_owned());
                    self.settle(self.without_result(), now);
                }
            },
            _ => self.advance_inquiry(now),
        }
    }

    /// An operation as the store had it at a restart. What was out when the process ended may have taken effect.
    pub fn restored(mut record: OperationRecord, policy: Option<&ToolPolicy>, deadline: Time, now: Time) -> Self {
        if fault(Fault::AttemptForgottenAtRestart) {
            record.attempt = record.attempt.saturating_sub(1);
        }
        let cut_off = match record.state {
            OperationState::Running => true,
            OperationState::Cancelling => record.attempt > 0,
            _ => false,
        };
        let wait = policy.map_or(0, |policy| policy.retry.backoff_ms);
        let retry_at = (record.state == OperationState::RetryWait).then(|| now.plus(wait));
        let mut restored = Self { retry_at, cut_off, ..Self::new(record, deadline, None) };
        if let Some(policy) = policy.filter(|_| matches!(restored.record.state, OperationState::Cancelling | OperationState::Unknown)) {
            restored.follow_at_once(policy, now);
        }
        restored
    }

    /// A restart: what the tool has a name for is asked for by it; what else ran is sent again under the same key where R2 allows it;
    /// otherwise its tool is asked how it stands, where it can be, and nobody knows where it can't.
    pub fn recover(&mut self, policy: Option<&ToolPolicy>, now: Time) {
        if self.record.state != OperationState::Running || self.out {
            return;
        }
        let (spent, deadline) = (self.spent(), self.deadline);
        let again = |policy: &&ToolPolicy| {
            policy.idempotent && spent < policy.retry.attempts_max.saturating_add(RESTART_ATTEMPTS_MAX) && now < deadline
        };
        let named = self.record.handle.is_some() && now < self.deadline;
        if named && policy.is_some_and(|policy| self.follow_at_once(policy, now)) {
            // The tool has it: its result is to come, as before.
            self.out = true;
            return;
        }
        match policy.filter(again) {
            Some(policy) => self.begin(policy),
            None if now < self.deadline && policy.is_some_and(|policy| self.follow_at_once(policy, now)) => {}
            None => {
                // Its time is over; whoever can say what came of it is asked all the same.
                if let Some(policy) = policy {
                    self.follow_at_once(policy, now);
                }
                self.record.error = Some(RESTART.to_owned());
                self.settle(OperationState::Unknown, now);
            }
        }
    }

    /// When time next changes it.
    pub fn due(&self) -> Option<Time> {
        match self.record.state {
            OperationState::Unknown => self.inquiry_due(),
            state if state.settled() => None,
            OperationState::Cancelling => Some(self.cancel_due()),
            OperationState::Accepted if self.retry_at.is_none() && self.waits_for.is_none() => Some(Time(0)),
            _ => self.retry_at.into_iter().chain(self.inquiry_due()).chain([self.deadline]).min(),
        }
    }

    /// Whether R2 allows another attempt.
    fn may_begin(&self, policy: &ToolPolicy) -> bool {
        policy.idempotent || !self.maybe() || fault(Fault::MaybeTriedAgain)
    }

    /// Whether an attempt that is over may have executed.
    pub fn maybe(&self) -> bool {
        self.record.maybe_executed || self.cut_off
    }

    /// How it ends without a result: `Failed` only where no attempt can have taken effect.
    fn without_result(&self) -> OperationState {
        if (self.out || self.maybe()) && !fault(Fault::UnknownCalledFailed) { OperationState::Unknown } else { OperationState::Failed }
    }

    pub fn settle(&mut self, state: OperationState, now: Time) {
        assert!(state.settled(), "an operation is settled into a settled state, not {state:?}");
        self.record.state = state;
        self.record.maybe_executed |= self.cut_off;
        self.retry_at = None;
        self.settled_at = Some(now);
        self.cancel = Cancel::default();
        self.out_of_reach = false;
        if state == OperationState::Unknown {
            self.given_up(now);
        } else {
            self.stop_asking();
        }
    }
}

/// A result as it is put on record: what the store would refuse for its size would never become durable, and that it took effect
/// is what counts.
pub(super) fn kept(result: &OperationResult) -> OperationResult {
    match result {
        OperationResult::Failed(error) => OperationResult::Failed(clean(error)),
        OperationResult::Succeeded(value) => match value.to_string().len() {
            bytes if bytes > RESULT_BYTES_MAX => OperationResult::Succeeded(json!({ "omitted_bytes": bytes })),
            _ => OperationResult::Succeeded(value.clone()),
        },
    }
}

/// How a result stands to the one on record.
pub(super) fn compare(recorded: Option<[u8; 32]>, state: OperationState, result: &OperationResult) -> Received {
    let same = match recorded {
        Some(digest) => digest == result_digest(result),
        None => match state {
            // Cancelled before it took effect: that it did not is no contradiction.
            OperationState::Cancelled => matches!(result, OperationResult::Failed(_)),
            // That it took effect is on record, and that it was undone.
            OperationState::Compensated => true,
            _ => false,
        },
    };
    if same { Received::Repeated } else { Received::Conflict }
}

/// The wait before the attempt after `attempt`: doubling, with jitter of up to a half, never shorter than the tool asks for,
/// and never beyond the policy's longest.
pub(super) fn wait_ms(retry: &Retry, attempt: u32, retry_after_ms: Option<u64>, ids: &mut FreshIds) -> u64 {
    let doubled = backoff_ms(retry.backoff_ms, attempt.saturating_sub(1), retry.backoff_ms_max);
    let jittered = doubled.saturating_add(jitter_ms(doubled / 2, ids));
    jittered.max(retry_after_ms.unwrap_or(0)).min(retry.backoff_ms_max)
}

/// `first_ms`, doubled so many times, at most `max_ms`.
pub(super) fn backoff_ms(first_ms: u64, doublings: u32, max_ms: u64) -> u64 {
    first_ms.saturating_mul(1_u64.checked_shl(doublings.min(DOUBLINGS_MAX)).unwrap_or(u64::MAX)).min(max_ms)
}

/// Something from 0 to `max_ms`, drawn from the step's identifiers.
pub(super) fn jitter_ms(max_ms: u64, ids: &mut FreshIds) -> u64 {
    // The upper half of a draw: the lower bits of neighbouring draws resemble each other.
    let drawn = u64::try_from(ids.draw() >> 64).unwrap_or_default();
    let drawn = if fault(Fault::Random) { drawn.wrapping_add(unexplained()) } else { drawn };
    drawn % max_ms.saturating_add(1).max(1)
}

/// Longest name of a tool's own for what it has taken (characters).
const HANDLE_CHARS_MAX: usize = 4_096;

const DEADLINE: &str = "the deadline passed";
const RESTART: &str = "the box restarted while it ran";
const NO_TOOL: &str = "the tool is no longer configured";

/// Longest result that is put on record, as JSON: far more than a closing can tell, and half of what the store takes.
const RESULT_BYTES_MAX: usize = 512 * 1024;

/// Further attempts that restarts may cost an idempotent operation beyond its policy's: they say nothing about the tool, but
/// an operation that goes with every crash must not be sent for ever.
const RESTART_ATTEMPTS_MAX: u32 = 8;

/// Beyond it every wait is at its longest anyway.
const DOUBLINGS_MAX: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{BatchId, IntentKey, SessionId, TurnId};
    use crate::time::Wall;

    fn running(attempt: u32) -> Operation {
        let record = OperationRecord {
            id: OperationId(1),
            intent_key: IntentKey("a|t|d|1".into()),
            batch: BatchId(1),
            ordinal: 0,
            party: None,
            session: SessionId(1),
            turn: TurnId(1),
            tool: "t".into(),
            arguments: json!({}),
            state: OperationState::Running,
            attempt,
            unreached: 0,
            handle: None,
            maybe_executed: false,
            result: None,
            error: None,
            contradiction: None,
            accepted: Wall::default(),
        };
        Operation { out: true, ..Operation::new(record, Time(300_000), Some(Time(0))) }
    }

    fn step(now: u64) -> Step {
        Step::new(Time(now), Wall::default(), 1)
    }

    fn failed(executed: Executed, retryable: bool) -> AttemptOutcome {
        AttemptOutcome::Failed { error: "no".into(), executed, retryable, retry_after_ms: None }
    }

    fn policy(idempotent: bool) -> ToolPolicy {
        ToolPolicy { idempotent, ..ToolPolicy::default() }
    }

    #[test]
    fn an_attempt_that_may_have_taken_effect_is_not_repeated_unless_idempotent() {
        for (idempotent, executed, state) in [
            (false, Executed::Maybe, OperationState::Unknown),
            (false, Executed::No, OperationState::RetryWait),
            (true, Executed::Maybe, OperationState::RetryWait),
        ] {
            let mut operation = running(1);
            operation.report(1, &failed(executed, true), &policy(idempotent), &mut step(10));
            assert_eq!(operation.record.state, state);
        }
    }

    #[test]
    fn attempts_end_as_failed_only_if_none_can_have_taken_effect() {
        let mut operation = running(5);
        operation.report(5, &failed(Executed::No, true), &policy(true), &mut step(10));
        assert_eq!(operation.record.state, OperationState::Failed);
        let mut operation = running(5);
        operation.record.maybe_executed = true;
        operation.report(5, &failed(Executed::No, false), &policy(true), &mut step(10));
        assert_eq!(operation.record.state, OperationState::Unknown);
    }

    #[test]
    fn a_deadline_leaves_unknown_what_is_out_and_failed_what_never_was() {
        let mut operation = running(1);
        operation.advance(Some(&policy(false)), Time(300_000));
        assert_eq!(operation.record.state, OperationState::Unknown);
        let mut operation = running(0);
        (operation.record.state, operation.out) = (OperationState::Accepted, false);
        operation.advance(Some(&policy(false)), Time(300_000));
        assert_eq!(operation.record.state, OperationState::Failed);
    }

    #[test]
    fn waits_double_with_jitter_of_up_to_a_half_and_honour_retry_after_up_to_the_cap() {
        let retry = Retry::default();
        let mut ids = FreshIds::new(7);
        for (attempt, least) in [(1, 500), (2, 1_000), (3, 2_000)] {
            let wait = wait_ms(&retry, attempt, None, &mut ids);
            assert!((least..=least * 3 / 2).contains(&wait), "{wait}");
        }
        assert_eq!(wait_ms(&retry, 1, Some(20_000), &mut ids), 20_000);
        assert_eq!(wait_ms(&retry, 1, Some(999_000), &mut ids), 60_000);
        assert_eq!(wait_ms(&retry, u32::MAX, None, &mut ids), 60_000);
    }

    #[test]
    fn the_first_result_wins_and_an_unknown_is_reconciled() {
        let mut operation = running(1);
        let done = |n| OperationResult::Succeeded(json!(n));
        assert_eq!(operation.receive(&done(1), Time(1)), Received::Recorded);
        assert_eq!(operation.receive(&done(1), Time(2)), Received::Repeated);
        assert_eq!(operation.receive(&done(2), Time(3)), Received::Contradicted);
        assert_eq!(operation.receive(&done(2), Time(4)), Received::Conflict, "once");
        assert_eq!(operation.record.result, Some(json!(1)));
        let mut operation = running(1);
        operation.advance(Some(&policy(false)), Time(300_000));
        assert_eq!(operation.receive(&done(1), Time(300_001)), Received::Reconciled);
        assert_eq!(operation.record.state, OperationState::Succeeded);
    }

    #[test]
    fn a_result_too_large_for_the_store_is_a_success_all_the_same() {
        let mut operation = running(1);
        let large = OperationResult::Succeeded(json!("x".repeat(600_000)));
        assert_eq!(operation.receive(&large, Time(1)), Received::Recorded);
        assert_eq!(operation.record.result, Some(json!({ "omitted_bytes": 600_002 })));
        assert_eq!(operation.receive(&large, Time(2)), Received::Repeated);
    }

    #[test]
    fn a_restart_sends_again_only_what_may_be_sent_again() {
        for (idempotent, state, attempt) in [(true, OperationState::Running, 2), (false, OperationState::Unknown, 1)] {
            let policy = policy(idempotent);
            let mut operation = Operation::restored(running(1).record, Some(&policy), Time(300_000), Time(0));
            operation.recover(Some(&policy), Time(0));
            assert_eq!((operation.record.state, operation.record.attempt), (state, attempt));
        }
    }

    #[test]
    fn the_jitter_of_a_wait_is_drawn_over_the_whole_half() {
        let retry = Retry { backoff_ms: 10_000, backoff_ms_max: 60_000, ..Retry::default() };
        let mut ids = FreshIds::new(7);
        let waits: Vec<u64> = (0..200).map(|_| wait_ms(&retry, 1, None, &mut ids)).collect();
        assert!(waits.iter().all(|wait| (10_000..=15_000).contains(wait)), "{waits:?}");
        for fifth in 0..5 {
            let of_it = 10_000 + fifth * 1_000..11_000 + fifth * 1_000;
            assert!(waits.iter().any(|wait| of_it.contains(wait)), "none in {of_it:?}: {waits:?}");
        }
    }

    #[test]
    fn a_result_of_any_usual_size_is_put_on_record_as_it_is() {
        let mut operation = running(1);
        let value = json!("x".repeat(100_000));
        operation.receive(&OperationResult::Succeeded(value.clone()), Time(1));
        assert_eq!(operation.record.result, Some(value));
    }
}
