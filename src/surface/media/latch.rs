//! Symmetric RTP (RFC 4961, RFC 7362): where the far end really sends from, which through a NAT is not what its SDP says.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::surface::Network;

/// Decides which source is listened to, and where to send.
///
/// Latches to the source of the first valid packet from an address that may be the far end's: the one that its SDP names, the one that its
/// signalling comes from, or one of a network that was allowed. A third source is never followed. A re-INVITE unlatches. What comes after
/// one that moved the media may still be what was on its way: then the first packet of an address with a better [`Claim`] takes over.
#[derive(Debug)]
pub(super) struct Latch {
    agreed: SocketAddr,
    signalled_from: IpAddr,
    also_from: Arc<[Network]>,
    /// Where the far end was heard under SDP that named the same address.
    heard_from: Option<IpAddr>,
    /// Whether a re-INVITE has named another address, or has come from one.
    moved: bool,
    latched: Option<SocketAddr>,
    target: SocketAddr,
}

/// Why an address may be the far end's, the weakest reason first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// It was heard from there before its signalling came from elsewhere, as from another node of a trunk.
    Heard,
    /// Its signalling comes from there, or the network was allowed.
    Allowed,
    /// Its SDP names it.
    Agreed,
}

impl Latch {
    pub(super) fn new(agreed: SocketAddr, signalled_from: IpAddr, also_from: Arc<[Network]>) -> Self {
        Self { agreed, signalled_from, also_from, heard_from: None, moved: false, latched: None, target: agreed }
    }

    /// Whether a packet from `source` may be looked at. It is not latched yet: it may prove invalid.
    pub(super) fn admits(&self, source: SocketAddr) -> bool {
        match self.latched {
            None => self.claim(source.ip()).is_some(),
            Some(latched) => latched == source || self.yields(latched, source),
        }
    }

    /// A valid packet came from `source`, which was admitted.
    pub(super) fn valid(&mut self, source: SocketAddr) {
        let latched = self.latched.filter(|latched| !self.yields(*latched, source)).unwrap_or(source);
        (self.latched, self.target) = (Some(latched), latched);
    }

    /// Where to send.
    pub(super) fn target(&self) -> SocketAddr {
        self.target
    }

    /// The source that is listened to, once it has proved valid.
    pub(super) fn latched(&self) -> Option<SocketAddr> {
        self.latched
    }

    /// The same, where no other can take over until the next re-INVITE.
    pub(super) fn settled(&self) -> Option<SocketAddr> {
        self.latched.filter(|latched| !self.moved || self.claim(latched.ip()) == Some(Claim::Agreed))
    }

    /// Offer and answer agreed anew. Where they agreed on the same address again, it is sent to where it was: a NAT may have given the far
    /// end another port meanwhile, which its next packet tells.
    pub(super) fn renew(&mut self, agreed: SocketAddr, signalled_from: IpAddr) {
        if agreed != self.agreed {
            self.target = agreed;
        }
        let heard_from = self.latched.map(|latched| latched.ip()).or(self.heard_from);
        self.heard_from = heard_from.filter(|_| agreed.ip() == self.agreed.ip());
        self.moved |= (agreed.ip(), signalled_from) != (self.agreed.ip(), self.signalled_from);
        (self.agreed, self.signalled_from, self.latched) = (agreed, signalled_from, None);
    }

    fn claim(&self, ip: IpAddr) -> Option<Claim> {
        if ip == self.agreed.ip() {
            Some(Claim::Agreed)
        } else if ip == self.signalled_from || self.also_from.iter().any(|net| net.contains(ip)) {
            Some(Claim::Allowed)
        } else {
            (self.heard_from == Some(ip)).then_some(Claim::Heard)
        }
    }

    /// Whether `source` takes over from the one that is latched.
    fn yields(&self, latched: SocketAddr, source: SocketAddr) -> bool {
        self.moved && self.claim(latched.ip()) < self.claim(source.ip())
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
    fn the_address_that_a_re_invite_names_takes_over_from_where_the_signalling_comes_from_and_not_the_reverse() {
        let pbx = "192.0.2.1";
        for heard in [true, false] {
            let mut latch = latch("192.0.2.1:4000", pbx, &[]);
            if heard {
                latch.valid(address("192.0.2.1:4000"));
                assert_eq!(latch.settled(), latch.latched());
            }
            latch.renew(address("198.51.100.7:5000"), pbx.parse().unwrap());
            let (relayed, phone) = (address("192.0.2.1:4000"), address("198.51.100.7:5000"));
            assert!(latch.admits(relayed));
            latch.valid(relayed);
            assert_eq!((latch.target(), latch.latched(), latch.settled()), (relayed, Some(relayed), None));
            assert!(!latch.admits(address("192.0.2.1:4002")), "another port of the one that is latched");
            assert!(!latch.admits(address("203.0.113.4:4000")), "a third address");
            assert!(latch.admits(phone));
            assert_eq!(latch.target(), relayed, "not before it proved valid");
            latch.valid(phone);
            assert_eq!((latch.target(), latch.settled()), (phone, Some(phone)));
            for other in [relayed, address("198.51.100.7:5002")] {
                assert!(!latch.admits(other), "{other}");
                latch.valid(other);
                assert_eq!(latch.target(), phone, "{other}");
            }
        }
    }

    #[test]
    fn a_far_end_behind_a_nat_stays_admitted_where_another_address_signals_the_same_again() {
        let mut latch = latch("10.0.0.5:4000", "203.0.113.4", &[]);
        let real = address("203.0.113.4:9000");
        latch.valid(real);
        for node in ["198.51.100.1", "198.51.100.2"] {
            latch.renew(address("10.0.0.5:4000"), node.parse().unwrap());
            assert_eq!(latch.target(), real, "its voice goes on");
            assert!(latch.admits(real), "{node}");
        }
        latch.valid(real);
        assert_eq!((latch.target(), latch.latched()), (real, Some(real)));
        assert!(!latch.admits(address("198.51.100.1:9000")), "the node before");
        latch.renew(address("10.0.0.6:4000"), "198.51.100.2".parse().unwrap());
        assert!(!latch.admits(real), "SDP names another address");
        assert_eq!(latch.target(), address("10.0.0.6:4000"));
    }

    #[test]
    fn a_far_end_that_signals_the_same_from_where_it_has_moved_to_is_followed_though_a_packet_of_before_comes_late() {
        let mut latch = latch("10.0.0.5:4000", "203.0.113.4", &[]);
        let before = address("203.0.113.4:9000");
        latch.valid(before);
        latch.renew(address("10.0.0.5:4000"), "198.51.100.1".parse().unwrap());
        latch.valid(before);
        let moved = address("198.51.100.1:7000");
        assert!(latch.admits(moved));
        latch.valid(moved);
        assert_eq!(latch.target(), moved);
        assert!(!latch.admits(before));
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
