//! Server transactions: INVITE (RFC 3261 section 17.2.1 with RFC 6026) and others (section 17.2.2).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::{Intervals, MergeKey, ServerKey, TransactionId};
use crate::surface::sip::timer::{Timer, Timers};

/// How many transactions are kept.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// From all sources.
    pub total: usize,
    /// From one address.
    pub per_source: usize,
}

/// No room for one more transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// One address has used up its share: it gets no answer.
    Source,
    /// All together have: 503 with Retry-After, without state.
    Total,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No final response yet; for INVITE "Proceeding", for others "Trying" or "Proceeding".
    Proceeding,
    /// Final response sent; an INVITE's of 300 or more awaits its ACK.
    Completed,
    /// INVITE answered with 2xx, whose retransmission is the dialog's (RFC 6026).
    Accepted,
    /// ACK seen; more of them are absorbed.
    Confirmed,
}

#[derive(Debug)]
struct ServerTransaction {
    key: ServerKey,
    merge_key: Option<MergeKey>,
    is_invite: bool,
    state: State,
    source: IpAddr,
    destination: SocketAddr,
    /// The last response, for retransmissions; none in `Accepted`.
    response: Option<Vec<u8>>,
    retransmit_interval: Duration,
}

/// All server transactions.
#[derive(Debug)]
pub struct ServerTransactions {
    caps: Caps,
    intervals: Intervals,
    transactions: HashMap<TransactionId, ServerTransaction>,
    by_key: HashMap<ServerKey, TransactionId>,
    merged: HashMap<MergeKey, TransactionId>,
    per_source: HashMap<IpAddr, usize>,
}

impl ServerTransactions {
    pub fn new(caps: Caps, intervals: Intervals) -> Self {
        Self { caps, intervals, transactions: HashMap::new(), by_key: HashMap::new(), merged: HashMap::new(), per_source: HashMap::new() }
    }

    /// The transaction that a request belongs to.
    pub fn find(&self, key: &ServerKey) -> Option<TransactionId> {
        self.by_key.get(key).copied()
    }

    /// Is the same request already here by another way?
    pub fn is_merged(&self, key: &MergeKey) -> bool {
        self.merged.contains_key(key)
    }

    /// The response to repeat for a retransmitted request.
    pub fn retransmission(&self, id: TransactionId) -> Option<(&[u8], SocketAddr)> {
        let transaction = self.transactions.get(&id)?;
        match transaction.state {
            State::Proceeding | State::Completed => transaction.response.as_deref().map(|response| (response, transaction.destination)),
            State::Accepted | State::Confirmed => None,
        }
    }

    /// Is there room for one more from `source`?
    ///
    /// # Errors
    /// [`Full`], by what it is full of.
    pub fn room(&self, source: IpAddr, in_dialog: bool) -> Result<(), Full> {
        let reserve = if in_dialog { IN_DIALOG_RESERVE } else { 0 };
        if self.transactions.len() >= self.caps.total + reserve {
            return Err(Full::Total);
        }
        if self.per_source.get(&source).copied().unwrap_or(0) >= self.caps.per_source + reserve {
            return Err(Full::Source);
        }
        Ok(())
    }

    /// Opens a transaction; [`ServerTransactions::room`] was asked.
    pub fn begin(
        &mut self,
        id: TransactionId,
        key: ServerKey,
        merge_key: Option<MergeKey>,
        is_invite: bool,
        source: IpAddr,
        destination: SocketAddr,
    ) {
        self.by_key.insert(key, id);
        if let Some(merge_key) = &merge_key {
            self.merged.insert(*merge_key, id);
        }
        *self.per_source.entry(source).or_default() += 1;
        self.transactions.insert(
            id,
            ServerTransaction {
                key,
                merge_key,
                is_invite,
                state: State::Proceeding,
                source,
                destination,
                response: None,
                retransmit_interval: self.intervals.t1,
            },
        );
    }

    /// Notes a response, which the caller transmits, and starts its timers. A second final response is ignored:
    /// `false` then.
    pub fn respond(&mut self, now: Instant, timers: &mut Timers, id: TransactionId, status: u16, response: &[u8]) -> bool {
        let Some(transaction) = self.transactions.get_mut(&id) else {
            return false;
        };
        if transaction.state != State::Proceeding {
            return false;
        }
        transaction.response = Some(response.to_vec());
        let give_up = now + self.intervals.give_up();
        match (status, transaction.is_invite) {
            (..200, _) => {}
            (200..300, true) => {
                transaction.state = State::Accepted;
                transaction.response = None;
                timers.set(Timer::L(id), give_up);
            }
            (_, true) => {
                transaction.state = State::Completed;
                timers.set(Timer::G(id), now + transaction.retransmit_interval);
                timers.set(Timer::H(id), give_up);
            }
            (_, false) => {
                transaction.state = State::Completed;
                timers.set(Timer::J(id), give_up);
            }
        }
        true
    }

    /// An ACK that matched the transaction: `true` if it ends here, `false` if it is the dialog's (for a 2xx).
    pub fn acknowledge(&mut self, now: Instant, timers: &mut Timers, id: TransactionId) -> bool {
        let Some(transaction) = self.transactions.get_mut(&id) else {
            return false;
        };
        match transaction.state {
            State::Completed if transaction.is_invite => {
                transaction.state = State::Confirmed;
                transaction.response = None;
                timers.cancel(Timer::G(id));
                timers.cancel(Timer::H(id));
                timers.set(Timer::I(id), now + self.intervals.t4);
                true
            }
            State::Confirmed => true,
            State::Proceeding | State::Completed | State::Accepted => false,
        }
    }

    /// Timer G: the response to send once more.
    pub fn retransmit(&mut self, now: Instant, timers: &mut Timers, id: TransactionId) -> Option<(&[u8], SocketAddr)> {
        let transaction = self.transactions.get_mut(&id)?;
        transaction.retransmit_interval = (transaction.retransmit_interval * 2).min(self.intervals.t2);
        timers.set(Timer::G(id), now + transaction.retransmit_interval);
        transaction.response.as_deref().map(|response| (response, transaction.destination))
    }

    /// Timers H, I, J, L: the transaction is over.
    pub fn end(&mut self, timers: &mut Timers, id: TransactionId) {
        let Some(transaction) = self.transactions.remove(&id) else {
            return;
        };
        self.by_key.remove(&transaction.key);
        if let Some(merge_key) = &transaction.merge_key {
            self.merged.remove(merge_key);
        }
        if let Some(count) = self.per_source.get_mut(&transaction.source) {
            *count -= 1;
            if *count == 0 {
                self.per_source.remove(&transaction.source);
            }
        }
        timers.cancel(Timer::G(id));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.transactions.len()
    }
}

/// Room above the caps for requests within a dialog: a BYE, an INFO and some refreshes for each call of a large box.
const IN_DIALOG_RESERVE: usize = 512;
