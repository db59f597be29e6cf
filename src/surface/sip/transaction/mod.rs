//! Transactions over UDP (RFC 3261 section 17, RFC 6026): each request is acted on once, whatever the network repeats.
//!
//! Bounded: at most [`Caps::total`] server transactions, at most [`Caps::per_source`] from one address, and
//! a small reserve above both for requests within a dialog, so that a flood cannot keep a call from ending.
//! No dialog, no call and no SDP may enter here.

mod client;
mod key;
mod server;

pub use client::ClientTransactions;
pub use key::{MergeKey, ServerKey};
pub use server::{Caps, Full, ServerTransactions};

/// Identifies a transaction within the endpoint; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransactionId(pub u64);

/// Intervals of RFC 3261 table 4.
#[derive(Debug, Clone, Copy)]
pub struct Intervals {
    /// Round-trip estimate.
    pub t1: std::time::Duration,
    /// Longest retransmission interval.
    pub t2: std::time::Duration,
    /// Longest life of a datagram in the network.
    pub t4: std::time::Duration,
}

impl Intervals {
    /// 64*T1: how long anything is waited for.
    pub fn give_up(&self) -> std::time::Duration {
        self.t1 * 64
    }
}
