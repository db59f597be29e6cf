//! Networks in CIDR notation: from where calls are taken.

use std::net::IpAddr;
use std::str::FromStr;

use super::error::SipError;

/// An address block such as `192.168.0.0/16` or `fd00::/8`; an address alone is a block of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

impl Network {
    /// Is `address` in the block? An IPv4 address that came through an IPv6 socket counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix_bits)).unwrap_or(0);
                u32::from(network) & mask == u32::from(address) & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix_bits)).unwrap_or(0);
                u128::from(network) & mask == u128::from(address) & mask
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = SipError;

    fn from_str(text: &str) -> Result<Self, SipError> {
        let bad = || SipError::BadNetwork(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match bits {
            None => bits_max,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= bits_max).ok_or_else(bad)?,
        };
        Ok(Self { address, prefix_bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_holds_its_addresses_and_no_others() {
        let holds = |network: &str, address: &str| network.parse::<Network>().expect(network).contains(address.parse().expect(address));
        assert!(holds("192.168.0.0/16", "192.168.255.1"));
        assert!(!holds("192.168.0.0/16", "192.169.0.1"));
        assert!(holds("10.1.2.3", "10.1.2.3") && !holds("10.1.2.3", "10.1.2.4"));
        assert!(holds("0.0.0.0/0", "8.8.8.8") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("fd00::/8", "fd12::1") && holds("::/0", "::1"));
        assert!(holds("127.0.0.0/8", "::ffff:127.0.0.1"));
        for text in ["", "10.0.0.0/33", "x/8", "::/129", "10.0.0.0/-1"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
