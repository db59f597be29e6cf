//! A call: the INVITE usage of a dialog.

use std::net::SocketAddr;
use std::time::Duration;

use super::Dialog;
use crate::surface::sip::media_plan::LocalMedia;
use crate::surface::sip::message::Reply;
use crate::surface::sip::offer_answer::{Negotiation, Offer};
use crate::surface::sip::transaction::TransactionId;

/// What a call is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallState {
    /// The application has not answered yet.
    Incoming,
    /// 200 sent, no ACK yet.
    Accepted,
    /// ACK seen.
    Established,
    /// Over for the application; our BYE is on its way, or waits for the ACK.
    Ending,
}

/// The INVITE that opened the call, until it has its final response.
#[derive(Debug)]
pub struct PendingInvite {
    pub transaction: TransactionId,
    pub cseq: u32,
    pub reply: Reply,
    /// `None` if it came without one: the offer is then ours.
    pub offer: Option<Offer>,
}

/// A 200 to an INVITE that awaits its ACK.
#[derive(Debug)]
pub struct Accepted {
    pub cseq: u32,
    pub response: Vec<u8>,
    pub destination: SocketAddr,
    pub retransmit_interval: Duration,
    /// It carries our offer: the ACK must carry the answer.
    pub offered: bool,
}

/// One call.
#[derive(Debug)]
pub struct Call {
    pub dialog: Dialog,
    pub state: CallState,
    pub negotiation: Negotiation,
    /// Where what the far end last said of its media came from.
    pub described_from: SocketAddr,
    pub local: Option<LocalMedia>,
    pub invite: Option<PendingInvite>,
    pub accepted: Option<Accepted>,
}
