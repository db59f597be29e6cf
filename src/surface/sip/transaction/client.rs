//! Client transactions of requests other than INVITE (RFC 3261 section 17.1.2).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Intervals, TransactionId};
use crate::surface::sip::message::Response;
use crate::surface::sip::timer::{Timer, Timers};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Trying,
    Proceeding,
    Completed,
}

#[derive(Debug)]
struct ClientTransaction {
    branch: String,
    method: String,
    state: State,
    request: Vec<u8>,
    destination: SocketAddr,
    retransmit_interval: Duration,
}

/// All client transactions. Bounded by what the endpoint sends: one BYE for each call.
#[derive(Debug)]
pub struct ClientTransactions {
    intervals: Intervals,
    transactions: HashMap<TransactionId, ClientTransaction>,
    by_branch: HashMap<String, TransactionId>,
}

impl ClientTransactions {
    pub fn new(intervals: Intervals) -> Self {
        Self { intervals, transactions: HashMap::new(), by_branch: HashMap::new() }
    }

    /// Opens a transaction for a request that the caller transmits now.
    #[allow(clippy::too_many_arguments)] // All of it is the transaction.
    pub fn begin(
        &mut self,
        now: Instant,
        timers: &mut Timers,
        id: TransactionId,
        branch: String,
        method: &str,
        request: Vec<u8>,
        destination: SocketAddr,
    ) {
        timers.set(Timer::E(id), now + self.intervals.t1);
        timers.set(Timer::F(id), now + self.intervals.give_up());
        self.by_branch.insert(branch.clone(), id);
        let transaction = ClientTransaction {
            branch,
            method: method.to_owned(),
            state: State::Trying,
            request,
            destination,
            retransmit_interval: self.intervals.t1,
        };
        self.transactions.insert(id, transaction);
    }

    /// A response: the transaction that it finally answers, once. `None` if it answers nothing of ours, is
    /// provisional, or came before.
    pub fn receive(&mut self, now: Instant, timers: &mut Timers, response: &Response) -> Option<TransactionId> {
        let id = self.by_branch.get(&response.branch).copied()?;
        let transaction = self.transactions.get_mut(&id)?;
        if transaction.method != response.cseq.method.as_str() || transaction.state == State::Completed {
            return None;
        }
        if response.status < 200 {
            transaction.state = State::Proceeding;
            return None;
        }
        transaction.state = State::Completed;
        timers.cancel(Timer::E(id));
        timers.cancel(Timer::F(id));
        timers.set(Timer::K(id), now + self.intervals.t4);
        Some(id)
    }

    /// Timer E: the request to send once more.
    pub fn retransmit(&mut self, now: Instant, timers: &mut Timers, id: TransactionId) -> Option<(&[u8], SocketAddr)> {
        let transaction = self.transactions.get_mut(&id)?;
        transaction.retransmit_interval = match transaction.state {
            State::Trying => (transaction.retransmit_interval * 2).min(self.intervals.t2),
            State::Proceeding => self.intervals.t2,
            State::Completed => return None,
        };
        timers.set(Timer::E(id), now + transaction.retransmit_interval);
        Some((&transaction.request, transaction.destination))
    }

    /// Timers F and K, or a transport that failed: the transaction is over.
    pub fn end(&mut self, timers: &mut Timers, id: TransactionId) {
        if let Some(transaction) = self.transactions.remove(&id) {
            self.by_branch.remove(&transaction.branch);
        }
        for timer in [Timer::E(id), Timer::F(id), Timer::K(id)] {
            timers.cancel(timer);
        }
    }

    /// Those that still await a final response from `destination`.
    pub fn awaiting(&self, destination: SocketAddr) -> Vec<TransactionId> {
        self.transactions
            .iter()
            .filter(|(_, transaction)| transaction.destination == destination && transaction.state != State::Completed)
            .map(|(id, _)| *id)
            .collect()
    }

    /// How many still await a final response.
    pub fn awaiting_count(&self) -> usize {
        self.transactions.values().filter(|transaction| transaction.state != State::Completed).count()
    }
}
