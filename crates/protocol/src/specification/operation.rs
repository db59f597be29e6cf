//! One operation, as the contract has it: attempts (R2), results, cancel (R6), restart.

use recado_core::ledger::OperationState;

use super::Rules;
use crate::alphabet::{Attempted, OperationView};

/// An operation, with what only this life of the process knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Operation {
    pub row: OperationView,
    pub idempotent: bool,
    /// An attempt is out.
    pub out: bool,
    /// A restart cut an attempt off.
    pub cut_off: bool,
    /// The back-off before the next attempt is over.
    pub due: bool,
    /// Its deadline has passed.
    pub overdue: bool,
}

/// What became of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    Recorded,
    Reconciled,
    Repeated,
    Conflict,
}

impl Operation {
    /// Accepted, with its first attempt.
    pub fn accepted(idempotent: bool) -> Self {
        let row = OperationView { state: OperationState::Running, attempt: 1, maybe: false };
        Self { row, idempotent, out: true, cut_off: false, due: false, overdue: false }
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
        self.due = false;
    }

    /// `Failed` only where no attempt can have been executed.
    fn without_result(&self) -> OperationState {
        if self.out || self.maybe() { OperationState::Unknown } else { OperationState::Failed }
    }

    fn cancelled(&self) -> OperationState {
        if self.maybe() { OperationState::Unknown } else { OperationState::Cancelled }
    }

    pub fn report(&mut self, attempt: u8, how: Attempted, rules: &Rules) -> Option<Received> {
        if how == Attempted::Succeeded {
            return Some(self.receive());
        }
        if attempt != self.row.attempt || !self.out || self.settled() {
            return None;
        }
        self.out = false;
        self.row.maybe |= how == Attempted::Maybe;
        if self.row.state == OperationState::Cancelling {
            self.settle(self.cancelled());
        } else if attempt < rules.attempts_max && self.may_begin(rules) {
            self.row.state = OperationState::RetryWait;
            self.due = false;
        } else {
            self.settle(self.without_result());
        }
        Some(Received::Recorded)
    }

    /// It succeeded. The first result settles it, also after it was given up as not known.
    pub fn receive(&mut self) -> Received {
        let before = self.row.state;
        match before {
            OperationState::Succeeded | OperationState::TooLate => return Received::Repeated,
            OperationState::Failed | OperationState::Cancelled | OperationState::Compensated => return Received::Conflict,
            OperationState::Cancelling => self.settle(OperationState::TooLate),
            _ => self.settle(OperationState::Succeeded),
        }
        if before == OperationState::Unknown { Received::Reconciled } else { Received::Recorded }
    }

    pub fn cancel(&mut self) {
        if matches!(self.row.state, OperationState::Accepted | OperationState::Running | OperationState::RetryWait) {
            self.row.state = OperationState::Cancelling;
            self.due = false;
        }
    }

    /// Whether time changes it now.
    pub fn restless(&self) -> bool {
        match self.row.state {
            state if state.settled() => false,
            OperationState::Cancelling if !self.out => true,
            OperationState::RetryWait => self.due || self.overdue,
            _ => self.overdue,
        }
    }

    pub fn advance(&mut self, rules: &Rules) {
        match self.row.state {
            state if state.settled() => {}
            OperationState::Cancelling if !self.out => self.settle(self.cancelled()),
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
        (self.out, self.due, self.overdue) = (false, false, false);
    }

    /// Restart: what ran is sent again where R2 allows it, otherwise nobody knows.
    pub fn recover(&mut self) {
        if self.row.state == OperationState::Running && !self.out {
            if self.idempotent { self.begin() } else { self.settle(OperationState::Unknown) }
        }
    }
}
