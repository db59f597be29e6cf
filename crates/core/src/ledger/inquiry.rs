//! Inquiries: how an operation stands by its tool's own word, asked by the ledger and carried out by an executor.
//!
//! A tool is asked where it can be, and where an answer is wanted:
//!
//! * It has taken the operation, and its result is to come: by callback, or as the answer to an inquiry, whichever is first.
//! * An attempt ended in doubt, and another one is ruled out (R2): its tool may know whether it took effect.
//! * A restart has cut an attempt off, and another one is ruled out, or the tool has a name for it.
//! * It has been given up as not known. Then it is asked a few times more, ever less often: what it says makes a correction.
//!
//! An inquiry reads and changes nothing, so it needs no commit before it leaves and may be sent any number of times.

use super::input::{AttemptOutcome, Executed, InquiryOutcome, OperationResult};
use super::operation::{Operation, Received, backoff_ms};
use super::record::OperationState;
use super::say::clean;
use crate::faults::{Fault, fault};
use crate::policy::{INQUIRY_MS_MAX, ToolPolicy};
use crate::time::{Step, Time};

/// The inquiries about one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inquiries {
    /// Inquiries so far, in this life of the process.
    pub asked: u32,
    /// Whether there is something to ask about, and somebody to be asked.
    on: bool,
    /// Whether the last one is unanswered.
    out: bool,
    /// When the next one is due; at once where there is no time.
    at: Option<Time>,
    /// Waits since it last went well, or since the operation was given up: each is twice the one before.
    waits: u32,
}

impl Operation {
    /// From now on its tool is asked how it stands, if it can be; whether it can.
    pub(super) fn follow(&mut self, policy: &ToolPolicy, now: Time) -> bool {
        if !policy.inquirable && self.record.handle.is_none() {
            return false;
        }
        self.inquiries.on = true;
        self.inquiries.waits = 0;
        self.inquiries.at = Some(now.plus(policy.inquiry_ms));
        true
    }

    /// The same, at once: nobody knows how long it has been waiting.
    pub(super) fn follow_at_once(&mut self, policy: &ToolPolicy, now: Time) -> bool {
        let follows = self.follow(policy, now);
        self.inquiries.at = None;
        follows
    }

    /// Nothing is asked any more, and what is still answered counts for nothing.
    pub(super) fn stop_asking(&mut self) {
        self.inquiries = Inquiries { asked: self.inquiries.asked, ..Inquiries::default() };
    }

    /// It has been given up: what is asked from here on is asked ever less often.
    pub(super) fn given_up(&mut self, now: Time) {
        self.inquiries.waits = 0;
        self.inquiries.at = Some(now.plus(LATER_MS));
    }

    /// Whether its tool may still say how it stands.
    pub(super) fn may_be_told(&self) -> bool {
        self.inquiries.on
    }

    /// When the next inquiry is due.
    pub(super) fn inquiry_due(&self) -> Option<Time> {
        let wanted = match self.record.state {
            OperationState::Running | OperationState::Unknown => true,
            // The wish to cancel comes first: its answer says how it stands too.
            OperationState::Cancelling => self.cancel.exhausted,
            _ => false,
        };
        (wanted && self.inquiries.on && !self.inquiries.out).then(|| self.inquiries.at.unwrap_or(Time(0)))
    }

    /// Asks, when it is due.
    pub(super) fn advance_inquiry(&mut self, now: Time) {
        if self.inquiry_due().is_some_and(|at| now >= at) {
            self.inquiries.asked = self.inquiries.asked.saturating_add(1);
            self.inquiries.out = true;
            self.inquiries.at = None;
        }
    }

    /// What an inquiry came to. `None`: it changes nothing.
    pub fn inquired(&mut self, request: u32, outcome: &InquiryOutcome, policy: &ToolPolicy, step: &mut Step) -> Option<Received> {
        if request != self.inquiries.asked || !std::mem::take(&mut self.inquiries.out) {
            return None;
        }
        let failed = |error: &str| OperationResult::Failed(error.to_owned());
        match outcome {
            InquiryOutcome::Succeeded(value) => return Some(self.receive(&OperationResult::Succeeded(value.clone()), step.now)),
            InquiryOutcome::Failed(error) => return Some(self.receive(&failed(error), step.now)),
            _ => {}
        }
        if self.record.state.settled() && self.record.state != OperationState::Unknown {
            return None;
        }
        match outcome {
            InquiryOutcome::Succeeded(_) | InquiryOutcome::Failed(_) => None,
            InquiryOutcome::Running { again_ms } => {
                self.ask_again(*again_ms, policy, step.now);
                Some(Received::Recorded)
            }
            InquiryOutcome::NotExecuted if self.goes_on(policy) => self.attempt_is_over(NOT_EXECUTED, policy, step),
            InquiryOutcome::NotExecuted => Some(self.receive(&failed(NOT_EXECUTED), step.now)),
            InquiryOutcome::Cancelled if self.record.state == OperationState::Running => Some(self.receive(&failed(ENDED_THERE), step.now)),
            InquiryOutcome::Cancelled => {
                let reconciled = self.record.state == OperationState::Unknown;
                self.settle(OperationState::Cancelled, step.now);
                Some(if reconciled { Received::Reconciled } else { Received::Recorded })
            }
            InquiryOutcome::Forgotten if self.goes_on(policy) => self.attempt_is_over(FORGOTTEN, policy, step),
            InquiryOutcome::Forgotten if fault(Fault::ForgottenCalledFailed) => Some(self.receive(&failed(FORGOTTEN), step.now)),
            InquiryOutcome::Forgotten => {
                // Nothing of it is to come, and it may have taken effect.
                self.out = false;
                self.record.maybe_executed = true;
                self.nobody_says(FORGOTTEN, step.now)
            }
            InquiryOutcome::Unsupported => self.nobody_says(NOBODY_TO_ASK, step.now),
            InquiryOutcome::Unanswered { error, retryable, retry_after_ms } => {
                if !retryable {
                    return self.nobody_says(error, step.now);
                }
                self.ask_again(*retry_after_ms, policy, step.now);
                Some(Received::Recorded)
            }
        }
    }

    /// Whether another attempt under the same key is what follows when the tool does not have it (any more).
    fn goes_on(&self, policy: &ToolPolicy) -> bool {
        self.record.state == OperationState::Running && policy.idempotent && self.spent() < policy.retry.attempts_max
    }

    fn attempt_is_over(&mut self, error: &str, policy: &ToolPolicy, step: &mut Step) -> Option<Received> {
        self.stop_asking();
        // What an earlier attempt may have done is known by its key.
        self.out = true;
        let outcome = AttemptOutcome::Failed { error: error.to_owned(), executed: Executed::Maybe, retryable: true, retry_after_ms: None };
        self.report(self.record.attempt, &outcome, policy, step)
    }

    /// The tool will not say how it stands. Where a result may still come by itself it is waited for.
    fn nobody_says(&mut self, error: &str, now: Time) -> Option<Received> {
        self.stop_asking();
        if self.record.state == OperationState::Running && !self.out {
            self.record.error = Some(clean(error));
            self.settle(OperationState::Unknown, now);
        }
        Some(Received::Recorded)
    }

    fn ask_again(&mut self, asked_ms: Option<u64>, policy: &ToolPolicy, now: Time) {
        let given_up = self.record.state == OperationState::Unknown;
        let (first, longest) = if given_up { (LATER_MS, LATER_MS_MAX) } else { (policy.inquiry_ms, INQUIRY_MS_MAX) };
        let own = backoff_ms(first, self.inquiries.waits, longest);
        self.inquiries.waits = self.inquiries.waits.saturating_add(1);
        if given_up && self.inquiries.waits >= LATER_MAX {
            return self.stop_asking();
        }
        let wait = match asked_ms {
            Some(asked) if given_up => own.max(asked),
            Some(asked) => asked,
            None => own,
        };
        self.inquiries.at = Some(now.plus(wait.clamp(INQUIRY_MS_LEAST, INQUIRY_MS_MOST)));
    }
}

const NOT_EXECUTED: &str = "the tool says that it never got it";
const FORGOTTEN: &str = "the tool does not know of it any more";
const ENDED_THERE: &str = "it was cancelled there";
const NOBODY_TO_ASK: &str = "there is nobody to ask how it stands";

/// However often a tool wants to be asked (ms).
const INQUIRY_MS_LEAST: u64 = 250;

/// However long a tool wants to be left alone (ms): an hour.
const INQUIRY_MS_MOST: u64 = 3_600_000;

/// The first wait after an operation was given up (ms); doubles.
const LATER_MS: u64 = 5_000;

/// The longest of them (ms): half an hour.
const LATER_MS_MAX: u64 = 1_800_000;

/// Inquiries after an operation was given up, in one life of the process: some three hours of them.
const LATER_MAX: u32 = 16;
