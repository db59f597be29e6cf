//! Symmetric RTP (RFC 4961, RFC 7362): where the far end really sends from, which through a NAT is not what its SDP says.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::surface::Network;

/// Decides which source is listened to, and where to send.
///
/// Latches once, to the source of the first valid packet from an address that may be the far end's: the one that its SDP names, the one
/// that its signalling comes from, or one of a network that was allowed. A third source is never followed. A re-INVITE unlatches.
#[derive(Debug)]
pub(super) struct Latch {
    agreed: SocketAddr,
    signalled_from: IpAddr,
    also_from: Arc<[Network]>,
    latched: Option<SocketAddr>,
    target: SocketAddr,
}

impl Latch {
    pub(super) fn new(agreed: SocketAddr, signalled_from: IpAddr, also_from: Arc<[Network]>) -> Self {
        Self { agreed, signalled_from, also_from, latched: None, target: agreed }
    }

    /// Whether a packet from `source` may be looked at. It is not latched yet: it may prove invalid.
    pub(super) fn admits(&self, source: SocketAddr) -> bool {
        let may_be_theirs = |ip| ip == self.agreed.ip() || ip == self.signalled_from || self.also_from.iter().any(|net| net.contains(ip));
        self.latched.map_or_else(|| may_be_theirs(source.ip()), |latched| latched == source)
    }

    /// A valid packet came from `source`, which was admitted.
    pub(super) fn valid(&mut self, source: SocketAddr) {
        self.target = *self.latched.get_or_insert(source);
    }

    /// Where to send.
    pub(super) fn target(&self) -> SocketAddr {
        self.target
    }

    /// The source that is listened to alone, once it has proved valid.
    pub(super) fn latched(&self) -> Option<SocketAddr> {
        self.latched
    }

    /// Offer and answer agreed anew. Where they agreed on the same address again, it is sent to where it was: a NAT may have given the far
    /// end another port meanwhile, which its next packet tells.
    pub(super) fn renew(&mut self, agreed: SocketAddr, signalled_from: IpAddr) {
        if (agreed, signalled_from) != (self.agreed, self.signalled_from) {
            self.target = agreed;
        }
        (self.agreed, self.signalled_from, self.latched) = (agreed, signalled_from, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn latch(agreed: &str, signalled_from: &str, also_from: &[&str]) -> Latch {
        let also_from = also_from.iter().map(|network| network.parse().unwrap()).collect();
        Latch::new(address(agreed), signalled_from.parse().unwrap(), also_from)
    }

    #[test]
    fn the_first_valid_source_of_the_agreed_address_is_latched_and_no_third_followed() {
        let mut latch = latch("192.0.2.1:4000", "192.0.2.1", &[]);
        assert!(!latch.admits(address("198.51.100.9:4000")), "another address");
        let real = address("192.0.2.1:61000");
        assert!(latch.admits(real));
        assert_eq!(latch.target(), address("192.0.2.1:4000"), "not before it proved valid");
        latch.valid(real);
        assert_eq!(latch.target(), real);
        assert!(!latch.admits(address("192.0.2.1:4000")));
        latch.valid(address("192.0.2.1:4000"));
        assert_eq!(latch.target(), real);
    }

    #[test]
    fn what_comes_from_where_the_signalling_comes_from_is_latched_though_sdp_names_another_address() {
        let mut latch = latch("10.0.0.5:4000", "203.0.113.4", &[]);
        assert!(!latch.admits(address("203.0.113.5:9000")), "a third address");
        assert!(latch.admits(address("10.0.0.5:4000")), "the one that SDP names");
        let real = address("203.0.113.4:9000");
        assert!(latch.admits(real));
        latch.valid(real);
        assert_eq!(latch.target(), real);
        for other in ["10.0.0.5:4000", "203.0.113.4:9002", "203.0.113.5:9000"] {
            assert!(!latch.admits(address(other)), "{other}");
        }
    }

    #[test]
    fn another_address_is_latched_only_where_its_network_is_allowed() {
        let latch = latch("192.0.2.1:4000", "192.0.2.1", &["198.51.100.0/24"]);
        assert!(latch.admits(address("198.51.100.9:4000")));
        assert!(!latch.admits(address("203.0.113.4:4000")));
    }

    #[test]
    fn an_unspecified_address_is_no_leave_for_everybody() {
        let mut latch = latch("192.0.2.1:4000", "192.0.2.1", &[]);
        latch.renew(address("0.0.0.0:4000"), "192.0.2.1".parse().unwrap());
        assert!(!latch.admits(address("203.0.113.4:4000")));
        assert!(latch.admits(address("192.0.2.1:4000")));
    }

    #[test]
    fn a_re_invite_unlatches() {
        let mut latch = latch("192.0.2.1:4000", "192.0.2.1", &[]);
        latch.valid(address("192.0.2.1:61000"));
        latch.renew(address("192.0.2.7:5000"), "192.0.2.7".parse().unwrap());
        assert_eq!(latch.target(), address("192.0.2.7:5000"));
        assert!(latch.admits(address("192.0.2.7:5002")));
        assert!(!latch.admits(address("192.0.2.1:61000")));
    }

    #[test]
    fn a_re_invite_that_names_the_same_address_sends_to_where_the_far_end_was_until_it_is_heard_from_another_port() {
        let mut latch = latch("10.0.0.5:4000", "203.0.113.4", &[]);
        latch.valid(address("203.0.113.4:9000"));
        latch.renew(address("10.0.0.5:4000"), "203.0.113.4".parse().unwrap());
        assert_eq!(latch.target(), address("203.0.113.4:9000"));
        let moved = address("203.0.113.4:9444");
        assert!(latch.admits(moved));
        latch.valid(moved);
        assert_eq!(latch.target(), moved);
    }
}
