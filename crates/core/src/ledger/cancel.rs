//! The cancel of an operation (R6): `Cancelling` is durable, then the executor is asked, and what it answers decides.
//!
//! * Nothing of it is out, and no attempt can have taken effect: `Cancelled`, without asking anybody.
//! * An attempt that has not left the box is recalled, and is then provably not executed.
//! * A tool that can be asked is asked, again where that may help: `Cancelled`, `Compensated` or `TooLate`, by its word.
//! * Otherwise the operation runs on. Its result makes it `TooLate`; without one, `Unknown`. Never `Cancelled` on hope.
//!
//! A cancel request has a key of its own, so it may be sent any number of times, also after a restart.

use super::input::{CancelOutcome, OperationResult};
use super::operation::{Operation, Received, wait_ms};
use super::record::{Contradiction, OperationState};
use super::say::clean;
use crate::faults::{Fault, fault};
use crate::policy::ToolPolicy;
use crate::time::{Step, Time};

/// The cancel requests of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cancel {
    /// Requests so far, in this life of the process.
    pub asked: u32,
    /// Whether the last one is unanswered.
    out: bool,
    /// When the next one is due.
    again_at: Option<Time>,
    /// Nobody is left to be asked.
    pub(super) exhausted: bool,
    /// Whether the last one could say by which name the tool has it.
    named: bool,
    /// The tool says that it has taken effect; its result is still to come.
    too_late: bool,
}

impl Operation {
    /// It is to be cancelled; whether that changes anything. Asking follows when this is durable.
    pub fn cancel(&mut self) -> bool {
        let runs = matches!(self.record.state, OperationState::Accepted | OperationState::Running | OperationState::RetryWait);
        if runs {
            self.record.state = OperationState::Cancelling;
            self.retry_at = None;
        }
        runs
    }

    /// What time makes of an operation that is being cancelled.
    pub(super) fn advance_cancel(&mut self, policy: Option<&ToolPolicy>, now: Time) {
        let takes_requests = policy.is_some_and(|policy| policy.cancellable);
        if !self.out && !self.maybe() {
            // The tool's own word that it took effect outweighs an executor's that it did not.
            self.settle(if self.cancel.too_late { OperationState::TooLate } else { OperationState::Cancelled }, now);
        } else if self.cut_off && fault(Fault::CancelForgottenAtRestart) {
            self.settle(OperationState::Unknown, now);
        } else if now >= self.deadline || (!self.out && (self.cancel.exhausted || !takes_requests) && !self.may_be_told()) {
            self.settle(if self.cancel.too_late { OperationState::TooLate } else { OperationState::Unknown }, now);
        } else if !self.cancel.out && !self.cancel.exhausted && self.cancel.again_at.is_none_or(|at| now >= at) {
            self.cancel.asked = self.cancel.asked.saturating_add(1);
            self.cancel.out = true;
            self.cancel.again_at = None;
            self.cancel.named = self.record.handle.is_some();
        } else {
            self.advance_inquiry(now);
        }
    }

    /// When time next changes an operation that is being cancelled.
    pub(super) fn cancel_due(&self) -> Time {
        let answers = self.cancel.out && (self.out || self.maybe());
        let told = self.cancel.exhausted && (self.out || (self.maybe() && self.may_be_told()));
        match self.cancel.again_at {
            _ if answers || told => self.inquiry_due().map_or(self.deadline, |at| at.min(self.deadline)),
            Some(at) if self.out || self.maybe() => at.min(self.deadline),
            _ => Time(0),
        }
    }

    /// An executor's answer to a cancel request. `None`: it changes nothing.
    pub fn cancel_answered(&mut self, request: u32, outcome: &CancelOutcome, policy: &ToolPolicy, step: &mut Step) -> Option<Received> {
        match self.record.state {
            OperationState::Cancelling if request == self.cancel.asked => self.take_answer(outcome, policy, step),
            OperationState::Cancelling => None,
            // It was given up before the answer came, and ends as it would have in time.
            OperationState::Unknown => {
                let state = match outcome {
                    CancelOutcome::Cancelled => OperationState::Cancelled,
                    CancelOutcome::Compensated => OperationState::Compensated,
                    // `Succeeded` is durable only with what it says. That it took effect is all that is known.
                    CancelOutcome::TooLate { result: None } => OperationState::TooLate,
                    CancelOutcome::TooLate { result: Some(result) } => {
                        return Some(self.receive(&OperationResult::Succeeded(result.clone()), step.now));
                    }
                    CancelOutcome::Recalled | CancelOutcome::Unsupported | CancelOutcome::Failed { .. } => return None,
                };
                self.record.error = None;
                self.settle(state, step.now);
                Some(Received::Reconciled)
            }
            OperationState::Succeeded | OperationState::TooLate => match outcome {
                // What came of it had been missing.
                CancelOutcome::TooLate { result: Some(result) } if self.record.known_result().is_none() => {
                    Some(self.receive(&OperationResult::Succeeded(result.clone()), step.now))
                }
                // Its result came first.
                CancelOutcome::Cancelled | CancelOutcome::Compensated => Some(self.contradict(Contradiction::Undone)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Its tool has it under a name: whom nobody could ask before can be asked now.
    pub(super) fn can_be_named(&mut self) {
        if !self.cancel.named && !self.cancel.too_late {
            self.cancel.exhausted = false;
        }
    }

    fn take_answer(&mut self, outcome: &CancelOutcome, policy: &ToolPolicy, step: &mut Step) -> Option<Received> {
        self.cancel.out = false;
        match outcome {
            CancelOutcome::Recalled => self.out = false,
            CancelOutcome::Cancelled => self.settle(OperationState::Cancelled, step.now),
            CancelOutcome::Compensated => self.settle(OperationState::Compensated, step.now),
            CancelOutcome::TooLate { result: Some(result) } => {
                return Some(self.receive(&OperationResult::Succeeded(result.clone()), step.now));
            }
            CancelOutcome::TooLate { result: None } => {
                (self.cancel.exhausted, self.cancel.too_late) = (true, true);
                if !self.out {
                    self.settle(OperationState::TooLate, step.now);
                }
            }
            CancelOutcome::Unsupported if fault(Fault::CancelledOnHope) => self.settle(OperationState::Cancelled, step.now),
            // The tool has taken it meanwhile, under a name that it can be asked for by.
            CancelOutcome::Unsupported if !self.cancel.named && self.record.handle.is_some() => {}
            CancelOutcome::Unsupported => self.cancel.exhausted = true,
            CancelOutcome::Failed { error, retryable, retry_after_ms } => {
                self.record.error = Some(clean(error));
                let at = step.now.plus(wait_ms(&policy.retry, self.cancel.asked, *retry_after_ms, &mut step.ids));
                if *retryable && self.cancel.asked < policy.retry.attempts_max && at < self.deadline {
                    self.cancel.again_at = Some(at);
                } else {
                    self.cancel.exhausted = true;
                }
            }
        }
        Some(Received::Recorded)
    }
}
