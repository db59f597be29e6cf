//! The one table of running timers, on a clock that is passed in.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::endpoint::CallHandle;
use super::transaction::TransactionId;

/// A timer, named with its letter of RFC 3261 (table 4) or RFC 6026 where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Timer {
    /// Retransmits a final response of 300 or more to an INVITE.
    G(TransactionId),
    /// Gives up waiting for the ACK to it.
    H(TransactionId),
    /// Absorbs late ACKs.
    I(TransactionId),
    /// Absorbs retransmissions of a request other than INVITE.
    J(TransactionId),
    /// Absorbs retransmissions of an INVITE that was accepted (RFC 6026).
    L(TransactionId),
    /// Retransmits our request.
    E(TransactionId),
    /// Gives up waiting for its final response.
    F(TransactionId),
    /// Absorbs late responses to it.
    K(TransactionId),
    /// Retransmits our 2xx to an INVITE until its ACK (RFC 3261 section 13.3.1.4).
    AcceptRetransmit(CallHandle),
    /// Gives up waiting for that ACK.
    AcceptTimeout(CallHandle),
    /// Gives up on an application that does not answer the call.
    Unanswered(CallHandle),
}

/// Running timers; each runs at most once at a time.
#[derive(Debug, Default)]
pub struct Timers {
    due: HashMap<Timer, Instant>,
    order: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    /// Starts `timer`, or moves it.
    pub fn set(&mut self, timer: Timer, at: Instant) {
        if let Some(before) = self.due.insert(timer, at) {
            self.order.remove(&(before, timer));
        }
        self.order.insert((at, timer));
    }

    /// Stops `timer`, if it runs.
    pub fn cancel(&mut self, timer: Timer) {
        if let Some(at) = self.due.remove(&timer) {
            self.order.remove(&(at, timer));
        }
    }

    /// When the next one is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes one that is due.
    pub fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let (at, timer) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.order.pop_first();
        self.due.remove(&timer);
        Some(timer)
    }
}
