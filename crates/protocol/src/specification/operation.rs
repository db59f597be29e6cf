//! One operation, as the contract has it: attempts (R2), results, cancel (R6), restart.

use recado_core::ledger::OperationState;

use super::Rules;
use crate::alphabet::{Attempted, Cancelled, OperationView};

/// An operation, with what only this life of the process knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Operation {
    pub row: OperationView,
    /// Whether an error is on record: its words are durable too.
    pub error: bool,
    pub idempotent: bool,
    /// It is `TooLate` by its tool's word, and what came of it is not on record: that is durable too.
    pub result_missing: bool,
    /// An attempt is out.
    pub out: bool,
    /// A restart cut an attempt off, or its tool's word that it took effect could not be made durable.
    pub cut_off: bool,
    /// The back-off before the next attempt is over.
    pub due: bool,
    /// Its deadline has passed.
    pub overdue: bool,
    pub cancel: Cancel,
}

/// The asking of executors to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Cancel {
    /// Requests in this life of the process.
    pub asked: u8,
    /// The last one is unanswered.
    out: bool,
    /// Nobody is left to be asked.
    exhausted: bool,
    /// The tool has said that it took effect; what came of it is awaited.
    too_late: bool,
}

/// What became of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    Recorded,
    Reconciled,
    Completed,
    Repeated,
    Conflict,
}

impl Received {
    /// Whether a closing that has been written does not say it.
    pub fn is_news(self) -> bool {
        matches!(self, Self::Reconciled | Self::Completed)
    }
}

impl Operation {
    /// Accepted, with its first attempt.
    pub fn accepted(idempotent: bool) -> Self {
        let row = OperationView { state: OperationState::Running, attempt: 1, maybe: false };
        Self {
            row,
            error: false,
            idempotent,
            result_missing: false,
            out: true,
            cut_off: false,
            due: false,
            overdue: false,
            cancel: Cancel::default(),
        }
    }

    pub fn settled(&self) -> bool {
        self.row.state.settled()
    }

    /// R2: another attempt only where the tool is idempotent or none can have been executed.
    fn may_begin(&self, rules: &Rules) -> bool {
        self.idempotent || !self.maybe() || rules.retries_though_maybe()
    }

    fn maybe(&self) -> bool {
        self.row.maybe || self.cut_off
    }

    fn begin(&mut self) {
        self.row.attempt += 1;
        self.row.maybe |= self.cut_off;
        self.row.state = OperationState::Running;
        self.out = true;
        self.due = false;
    }

    fn settle(&mut self, state: OperationState) {
        self.row.state = state;
        self.row.maybe |= self.cut_off;
        self.result_missing = state == OperationState::TooLate;
        self.due = false;
        self.cancel = Cancel::default();
    }

    /// `Failed` only where no attempt can have been executed.
    fn without_result(&self) -> OperationState {
        if self.out || self.maybe() { OperationState::Unknown } else { OperationState::Failed }
    }

    pub fn report(&mut self, attempt: u8, how: Attempted, rules: &Rules) -> Option<Received> {
        if how == Attempted::Succeeded {
            return Some(self.receive());
        }
        if attempt != self.row.attempt || !std::mem::take(&mut self.out) {
            return None;
        }
        if self.settled() {
            // It was given up before this was known.
            let ruled_out = self.row.state == OperationState::Unknown && how == Attempted::NotExecuted && !self.maybe();
            if ruled_out {
                self.error = true;
                self.settle(OperationState::Failed);
            }
            return ruled_out.then_some(Received::Reconciled);
        }
        self.error = true;
        self.row.maybe |= how == Attempted::Maybe;
        if self.row.state == OperationState::Cancelling {
            // The passing of time makes of it what it can.
        } else if attempt < rules.attempts_max && self.may_begin(rules) {
            self.row.state = OperationState::RetryWait;
            self.due = false;
        } else {
            self.settle(self.without_result());
        }
        Some(Received::Recorded)
    }

    /// It succeeded. The first result settles it, also after it was given up as not known; what was too late to cancel it completes.
    pub fn receive(&mut self) -> Received {
        let before = self.row.state;
        match before {
            OperationState::TooLate if std::mem::take(&mut self.result_missing) => return Received::Completed,
            OperationState::Succeeded | OperationState::TooLate => return Received::Repeated,
            // That it took effect is on record, and that it was undone.
            OperationState::Compensated => return Received::Repeated,
            OperationState::Failed | OperationState::Cancelled => return Received::Conflict,
            OperationState::Cancelling => self.settle(OperationState::TooLate),
            _ => self.settle(OperationState::Succeeded),
        }
        self.error = false;
        self.result_missing = false;
        if before == OperationState::Unknown { Received::Reconciled } else { Received::Recorded }
    }

    pub fn cancel(&mut self) {
        if matches!(self.row.state, OperationState::Accepted | OperationState::Running | OperationState::RetryWait) {
            self.row.state = OperationState::Cancelling;
            self.due = false;
        }
    }

    /// R6: asked when `Cancelling` is durable; `Cancelled` only where nothing can have been executed, or by the tool's word.
    fn advance_cancel(&mut self, rules: &Rules) {
        if !self.out && !self.maybe() {
            self.settle(if self.cancel.too_late { OperationState::TooLate } else { OperationState::Cancelled });
        } else if self.overdue || (!self.out && (self.cancel.exhausted || !rules.cancellable)) {
            self.settle(if self.cancel.too_late { OperationState::TooLate } else { OperationState::Unknown });
        } else if !self.cancel.out && !self.cancel.exhausted {
            self.cancel.asked += 1;
            self.cancel.out = true;
        }
    }

    /// What an executor made of a cancel request. Where the operation has been given up as not known, it is known now.
    pub fn cancel_answered(&mut self, request: u8, how: Cancelled) -> Option<Received> {
        match (self.row.state, how) {
            (OperationState::Unknown, Cancelled::TooLate) => return Some(self.receive()),
            (OperationState::Unknown, Cancelled::Cancelled | Cancelled::Compensated | Cancelled::TooLateWithoutResult) => {
                self.settle(match how {
                    Cancelled::Cancelled => OperationState::Cancelled,
                    Cancelled::Compensated => OperationState::Compensated,
                    _ => OperationState::TooLate,
                });
                self.error = false;
                return Some(Received::Reconciled);
            }
            (OperationState::Cancelling, _) if request == self.cancel.asked => {}
            _ => return None,
        }
        self.cancel.out = false;
        match how {
            Cancelled::TooLate => return Some(self.receive()),
            Cancelled::TooLateWithoutResult => {
                (self.cancel.exhausted, self.cancel.too_late) = (true, true);
                if !self.out {
                    self.settle(OperationState::TooLate);
                }
            }
            Cancelled::Recalled => self.out = false,
            Cancelled::Unsupported => self.cancel.exhausted = true,
            Cancelled::Cancelled => self.settle(OperationState::Cancelled),
            Cancelled::Compensated => self.settle(OperationState::Compensated),
        }
        Some(Received::Recorded)
    }

    /// Whether time changes it now.
    pub fn restless(&self) -> bool {
        match self.row.state {
            state if state.settled() => false,
            OperationState::Cancelling => {
                let waits = (self.cancel.out && (self.out || self.maybe())) || (self.cancel.exhausted && self.out);
                !waits || self.overdue
            }
            OperationState::RetryWait => self.due || self.overdue,
            _ => self.overdue,
        }
    }

    pub fn advance(&mut self, rules: &Rules) {
        match self.row.state {
            state if state.settled() => {}
            OperationState::Cancelling => self.advance_cancel(rules),
            _ if self.overdue => self.settle(self.without_result()),
            OperationState::RetryWait if self.due && self.may_begin(rules) => self.begin(),
            OperationState::RetryWait if self.due => self.settle(self.without_result()),
            _ => {}
        }
    }

    /// What a power cut leaves of it.
    pub fn restored(&mut self) {
        self.cut_off = match self.row.state {
            OperationState::Running => true,
            OperationState::Cancelling => self.row.attempt > 0,
            _ => false,
        };
        (self.out, self.due, self.overdue, self.cancel) = (false, false, false, Cancel::default());
    }

    /// Restart: what ran is sent again where R2 allows it, otherwise nobody knows.
    pub fn recover(&mut self) {
        if self.row.state == OperationState::Running && !self.out {
            if self.idempotent { self.begin() } else { self.settle(OperationState::Unknown) }
        }
    }
}
