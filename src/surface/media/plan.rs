//! What a media session is told and what it tells.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use recado_core::conversation::{AcousticEdge, PlaybackEvent};
use recado_core::time::Time;

use super::coded::Coded;
use crate::g711::Codec;
use crate::surface::Network;
use crate::surface::listen::Profile;

/// What a call needs to carry media. Random values come from outside, from a secure source (RFC 3550 5.1, 8.1).
#[derive(Debug, Clone)]
pub struct Plan {
    /// The far end, as offer and answer agreed.
    pub remote: Remote,
    /// Our synchronisation source.
    pub ssrc: u32,
    /// Our first sequence number.
    pub first_sequence: u16,
    /// Our first timestamp.
    pub first_timestamp: u32,
    /// Seed of what is randomised later: the intervals between reports.
    pub seed: u64,
    /// Canonical name in our reports: at most 64 bytes are used. It should not name a person.
    pub cname: String,
    /// The NTP time (RFC 3550 4: seconds since 1900 in 32.32 fixed point) of the monotonic origin.
    pub ntp_at_origin: u64,
    /// How the caller's audio is judged.
    pub profile: Profile,
    /// Seconds without RTP after which the far end is reported silent; not counted on hold.
    pub silent_after_s: u32,
    /// Networks that the first valid packet may come from, besides the addresses that [`Remote`] names.
    pub also_from: Arc<[Network]>,
}

/// The far end's side of the media, as one offer and answer agreed on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Where it receives RTP.
    pub rtp: SocketAddr,
    /// The address that the signalling came from which described it. Behind a NAT its media comes from there, and not from `rtp`.
    pub signalled_from: IpAddr,
    /// Where it receives RTCP (`a=rtcp`, or the next port); the same as `rtp` where multiplexed (RFC 5761).
    pub rtcp: SocketAddr,
    /// The codec that is sent to it. It may itself send either law of G.711.
    pub codec: Codec,
    /// The payload type of its telephone-events (RFC 4733), where agreed.
    pub telephone_event: Option<u8>,
    /// Who may send, seen from the box.
    pub direction: Direction,
}

impl Remote {
    /// Whether RTP and RTCP share a port (RFC 5761).
    pub fn is_multiplexed(&self) -> bool {
        self.rtp == self.rtcp
    }
}

/// Direction of the media, seen from the box (RFC 3264 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Both ways.
    SendRecv,
    /// The box sends only: the far end is muted towards us.
    SendOnly,
    /// The box receives only: it is on hold.
    RecvOnly,
    /// Neither.
    Inactive,
}

impl Direction {
    /// From whether the box may send and whether the far end may.
    pub const fn new(sends: bool, receives: bool) -> Self {
        match (sends, receives) {
            (true, true) => Direction::SendRecv,
            (true, false) => Direction::SendOnly,
            (false, true) => Direction::RecvOnly,
            (false, false) => Direction::Inactive,
        }
    }

    /// The same flow, seen from the far end.
    pub const fn reversed(self) -> Self {
        Self::new(self.receives(), self.sends())
    }

    /// Whether the box may send.
    pub const fn sends(self) -> bool {
        matches!(self, Direction::SendRecv | Direction::SendOnly)
    }

    /// Whether the far end may send.
    pub const fn receives(self) -> bool {
        matches!(self, Direction::SendRecv | Direction::RecvOnly)
    }
}

/// A command to a media session. Only the voice holds what can send one.
pub type Command = recado_voice::Command<Coded, Remote>;

/// What a media session tells, in the core's vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaEvent {
    /// The caller's acoustic clock moved.
    Acoustic(AcousticEdge),
    /// Something happened to audio of ours.
    Playback(PlaybackEvent),
    /// The caller pressed a key (RFC 4733).
    Digit {
        /// The key: `0`–`9`, `*`, `#`, `A`–`D`.
        digit: char,
        /// When its first packet came.
        at: Time,
    },
    /// RTP comes that is not listened to, and none that is; told once a call.
    Foreign {
        /// Where it comes from.
        source: SocketAddr,
        /// Whose RTP is listened to.
        remote: Remote,
    },
    /// Nothing has come from the far end for as long as the plan says; told once until something comes again.
    FarEndSilent {
        /// When the last packet came, or the wait for it began.
        since: Time,
    },
}
