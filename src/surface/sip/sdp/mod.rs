//! Session descriptions (RFC 8866), as far as one audio stream needs them. `sdp-types` reads and writes the lines; what they
//! mean to a call is decided in `offer_answer`, not here.

mod read;
mod write;

pub use read::{Format, Stream, parse};
pub use write::{audio, print, refused, session};

use crate::surface::media::Direction;

/// The attribute that says which way media flows (RFC 8866 6.7), from the side that says it.
pub fn attribute(direction: Direction) -> &'static str {
    match direction {
        Direction::SendRecv => "sendrecv",
        Direction::SendOnly => "sendonly",
        Direction::RecvOnly => "recvonly",
        Direction::Inactive => "inactive",
    }
}

/// The direction that an attribute names.
fn direction(name: &str) -> Option<Direction> {
    [Direction::SendRecv, Direction::SendOnly, Direction::RecvOnly, Direction::Inactive]
        .into_iter()
        .find(|direction| attribute(*direction).eq_ignore_ascii_case(name))
}
