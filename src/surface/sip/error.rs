//! What can go wrong in this room, outside of what the protocol answers itself.

use std::net::SocketAddr;

use super::endpoint::CallHandle;

/// An error of the SIP side.
#[derive(Debug, thiserror::Error)]
pub enum SipError {
    /// Another program has the port: find it, stop it, or configure another port.
    #[error(
        "UDP {address} is taken by another program (often a PBX on the same host): find it with `ss -ulpn 'sport = :{port}'` and stop it, or set another SIP port",
        port = address.port()
    )]
    AddressInUse {
        /// Where we wanted to listen.
        address: SocketAddr,
    },
    /// The socket could not be opened for another reason: check that the address belongs to this host.
    #[error(
        "cannot listen on UDP {address}: {source}; check that the address belongs to this host and that the port is allowed to this user"
    )]
    Listen {
        /// Where we wanted to listen.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The settings say where we listen but not who we are: set the address that callers reach us at.
    #[error("the advertised address {0} is no address that a caller could send to; set it to this host's own address")]
    BadAdvertisedAddress(SocketAddr),
    /// The call is over or never was; nothing to do.
    #[error("call {0} is over or unknown")]
    UnknownCall(CallHandle),
    /// The command does not fit the state of the call, such as accepting it twice; nothing was done.
    #[error("call {0} is not in a state for this command")]
    WrongState(CallHandle),
}
