//! Session descriptions (RFC 8866), as far as one audio stream needs them. `sdp-types` reads and writes the lines; what they
//! mean to a call is decided in `offer_answer`, not here.

mod read;
mod write;

pub use read::{Format, Stream, parse};
pub use write::{audio, print, refused, session};

/// Which way media flows, seen from the side that says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Both ways.
    SendRecv,
    /// Only from the speaker of the attribute.
    SendOnly,
    /// Only to it.
    RecvOnly,
    /// Neither: the stream is on hold.
    Inactive,
}

impl Direction {
    /// From whether that side sends and whether it receives.
    pub fn new(sends: bool, receives: bool) -> Self {
        match (sends, receives) {
            (true, true) => Direction::SendRecv,
            (true, false) => Direction::SendOnly,
            (false, true) => Direction::RecvOnly,
            (false, false) => Direction::Inactive,
        }
    }

    /// Does that side send?
    pub fn sends(self) -> bool {
        matches!(self, Direction::SendRecv | Direction::SendOnly)
    }

    /// Does that side receive?
    pub fn receives(self) -> bool {
        matches!(self, Direction::SendRecv | Direction::RecvOnly)
    }

    /// The same flow, seen from the other side.
    pub fn reversed(self) -> Self {
        Self::new(self.receives(), self.sends())
    }

    /// The attribute's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::SendRecv => "sendrecv",
            Direction::SendOnly => "sendonly",
            Direction::RecvOnly => "recvonly",
            Direction::Inactive => "inactive",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::SendRecv, Self::SendOnly, Self::RecvOnly, Self::Inactive]
            .into_iter()
            .find(|direction| direction.as_str().eq_ignore_ascii_case(name))
    }
}
