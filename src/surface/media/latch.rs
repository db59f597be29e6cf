//! Symmetric RTP: where the far end really sends from, which through a NAT is not what its SDP says.

use std::net::SocketAddr;

/// Decides which source is listened to, and where to send.
///
/// Latches once, to the source of the first valid packet; a third source is never followed. A re-INVITE unlatches.
#[derive(Debug)]
pub(super) struct Latch {
    agreed: SocketAddr,
    latched: Option<SocketAddr>,
    any_address: bool,
}

impl Latch {
    pub(super) fn new(agreed: SocketAddr, any_address: bool) -> Self {
        Self { agreed, latched: None, any_address }
    }

    /// Whether a packet from `source` may be looked at. It is not latched yet: it may prove invalid.
    pub(super) fn admits(&self, source: SocketAddr) -> bool {
        match self.latched {
            Some(latched) => latched == source,
            None => self.any_address || self.agreed.ip().is_unspecified() || self.agreed.ip() == source.ip(),
        }
    }

    /// A valid packet came from `source`, which was admitted.
    pub(super) fn valid(&mut self, source: SocketAddr) {
        self.latched.get_or_insert(source);
    }

    /// Where to send.
    pub(super) fn target(&self) -> SocketAddr {
        self.latched.unwrap_or(self.agreed)
    }

    /// The source that is listened to alone, once it has proved valid.
    pub(super) fn latched(&self) -> Option<SocketAddr> {
        self.latched
    }

    /// Offer and answer agreed anew.
    pub(super) fn renew(&mut self, agreed: SocketAddr) {
        self.agreed = agreed;
        self.latched = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_valid_source_of_the_agreed_address_is_latched_and_no_third_followed() {
        let mut latch = Latch::new(address("192.0.2.1:4000"), false);
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
    fn a_re_invite_unlatches() {
        let mut latch = Latch::new(address("192.0.2.1:4000"), false);
        latch.valid(address("192.0.2.1:61000"));
        latch.renew(address("192.0.2.7:5000"));
        assert_eq!(latch.target(), address("192.0.2.7:5000"));
        assert!(latch.admits(address("192.0.2.7:5002")));
        assert!(!latch.admits(address("192.0.2.1:61000")));
    }

    #[test]
    fn another_address_is_latched_only_where_the_plan_allows_it() {
        assert!(Latch::new(address("10.0.0.5:4000"), true).admits(address("203.0.113.4:9000")));
    }
}
