//! What the endpoint tells the application.

use std::net::SocketAddr;

use super::CallHandle;
use crate::g711::Codec;
use crate::surface::sip::media_plan::MediaPlan;

/// An output of the endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send this from the SIP socket.
    Transmit {
        /// The payload.
        datagram: Vec<u8>,
        /// To where.
        destination: SocketAddr,
    },
    /// Tell the application.
    Event(Event),
}

/// Something that happened to a call. Each call gives one `Incoming` first and one `Ended` last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A call that can be answered. 100 was sent.
    Incoming(Incoming),
    /// The caller has acknowledged our answer: media may flow both ways.
    Established {
        /// The call.
        call: CallHandle,
        /// What was agreed.
        media: MediaPlan,
        /// Where the request that described the far end's media came from: the INVITE, or the ACK where the offer was ours.
        source: SocketAddr,
    },
    /// The far end changed the media: hold, resume, another address or codec. Obey at once.
    Renegotiated {
        /// The call.
        call: CallHandle,
        /// What is agreed now.
        media: MediaPlan,
        /// Where the request that changed it came from.
        source: SocketAddr,
    },
    /// In the call, a re-INVITE or UPDATE asserts who the caller is (RFC 3325). Believe it as far as you trust whoever sent it.
    Asserted {
        /// The call.
        call: CallHandle,
        /// Who.
        party: Party,
        /// Where the request came from.
        source: SocketAddr,
    },
    /// A DTMF digit that came as SIP INFO.
    Digit {
        /// The call.
        call: CallHandle,
        /// `0-9`, `*`, `#`, `A-D`.
        digit: char,
        /// How long it was pressed, if it says so.
        duration_ms: Option<u32>,
    },
    /// The call is over.
    Ended {
        /// The call.
        call: CallHandle,
        /// Why.
        cause: EndCause,
    },
}

/// A new call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// Its handle from now on.
    pub call: CallHandle,
    /// The far end's Call-ID, for logs.
    pub call_id: String,
    /// Who calls, by their own word (From).
    pub from: Party,
    /// Who the peer that the INVITE came from asserts it is (RFC 3325): worth as much as that peer is trusted.
    pub asserted: Option<Party>,
    /// Who is called: the user part of the Request-URI.
    pub to_user: Option<String>,
    /// Where the INVITE came from.
    pub source: SocketAddr,
    /// The codec that accepting will agree on; `None` if the offer will be ours.
    pub codec: Option<Codec>,
}

/// Somebody, as a header tells it. Not proven by anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// Display name.
    pub display: Option<String>,
    /// User part or telephone number.
    pub user: Option<String>,
    /// Host; empty for `tel:`.
    pub host: String,
}

/// Why a call is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCause {
    /// The far end hung up.
    Bye,
    /// The caller gave up before we answered.
    Cancelled,
    /// Our answer was never acknowledged (64*T1).
    NoAck,
    /// The application did not answer the call in time: 480 was sent.
    Unanswered,
    /// The ACK to our offer had no usable answer.
    NoMedia,
    /// Our answer could not be sent.
    TransportError,
    /// We refused it.
    Rejected {
        /// The status sent.
        status: u16,
    },
    /// We hung up.
    LocalBye,
}

/// Counts of what is not told as an event. They only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams received.
    pub datagrams: u64,
    /// Malformed requests that were answered.
    pub malformed_answered: u64,
    /// Malformed datagrams that were dropped.
    pub malformed_dropped: u64,
    /// Retransmissions of requests that were absorbed.
    pub retransmissions: u64,
    /// Requests answered 503 because all transactions are in use.
    pub over_total: u64,
    /// Requests dropped because their source has used up its share.
    pub over_source: u64,
    /// Requests from sources that are not allowed.
    pub forbidden: u64,
    /// Calls refused: limit, admission, no such user, no common media.
    pub calls_refused: u64,
    /// Calls that reached the application.
    pub calls_incoming: u64,
    /// Responses and ACKs that belong to nothing.
    pub unmatched: u64,
}
