//! What two sides can agree on about one audio stream.

use std::net::{IpAddr, SocketAddr};

use crate::g711::Codec;
use crate::surface::media::Direction;

/// Where our media is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalMedia {
    /// Goes into `c=`: the far end sends there.
    pub address: IpAddr,
    /// RTP.
    pub rtp_port: u16,
    /// RTCP, where it is not multiplexed.
    pub rtcp_port: u16,
    /// Take RTCP on the RTP port if the far end offers it.
    pub rtcp_mux: bool,
}

/// What both sides agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaPlan {
    /// Both ways.
    pub codec: Codec,
    /// Its RTP payload type, both ways.
    pub payload_type: u8,
    /// Where our RTP goes. An unspecified address (hold as in RFC 2543) means nowhere: `direction` says so too.
    pub remote_rtp: SocketAddr,
    /// Where our RTCP goes.
    pub remote_rtcp: SocketAddr,
    /// RTCP shares the RTP port, both ways.
    pub rtcp_mux: bool,
    /// Payload type of DTMF events (RFC 4733), at 8000 Hz.
    pub telephone_event: Option<u8>,
    /// Seen from us: `RecvOnly` and `Inactive` mean that we are on hold.
    pub direction: Direction,
    /// Milliseconds in each packet.
    pub ptime_ms: u8,
}

/// Hertz, of G.711 and of the events beside it.
pub const CLOCK_RATE: u32 = 8000;

/// Milliseconds: the packet length that every peer takes.
pub const PTIME_MS: u8 = 20;
