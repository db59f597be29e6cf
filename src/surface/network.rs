//! Networks, as RFC 4632 (IPv4) and RFC 4291 §2.3 (IPv6) write them: from where calls and their media are taken.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

/// A network: an address and how many of its leading bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// This machine, in both IP versions.
    pub fn loopback() -> Vec<Self> {
        vec![Self { address: Ipv4Addr::new(127, 0, 0, 0).into(), bits: 8 }, Self { address: Ipv6Addr::LOCALHOST.into(), bits: 128 }]
    }

    /// Whether `address` is in this network. An IPv4 address may come mapped into IPv6, as dual-stack sockets give it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                u32::from(network) & mask == u32::from(address) & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                u128::from(network) & mask == u128::from(address) & mask
            }
            _ => false,
        }
    }

    /// Whether only this machine is in it.
    pub fn is_loopback(&self) -> bool {
        self.address.is_loopback() && (self.address.is_ipv6() || self.bits >= 8)
    }

    /// Whether every address is in it.
    pub fn is_everybody(&self) -> bool {
        self.bits == 0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for Network {
    type Err = String;

    /// Reads `192.0.2.0/24`, or one address. Says what is wrong and what to write instead.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str, instead: &str| Err(format!("{text:?} {what}; write instead: [\"{instead}\"]"));
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let Ok(address) = address.parse::<IpAddr>() else { return wrong("is not a network", "192.168.0.0/16") };
        let bits_max: u8 = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits.map(str::parse::<u8>) {
            None => bits_max,
            Some(Ok(bits)) if bits <= bits_max => bits,
            Some(_) => return wrong(&format!("has a prefix length outside of 0 to {bits_max}"), &format!("{address}/{bits_max}")),
        };
        let network = Self { address, bits };
        let first = network.first_address();
        if first != address {
            return wrong("has bits set beyond its prefix", &format!("{first}/{bits}"));
        }
        Ok(network)
    }
}

impl Network {
    fn first_address(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => Ipv4Addr::from(u32::from(address) & u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0)).into(),
            IpAddr::V6(address) => {
                Ipv6Addr::from(u128::from(address) & u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0)).into()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_contains_its_addresses_and_no_others() {
        for (net, inside, outside) in [
            ("192.168.0.0/16", "192.168.255.255", "192.169.0.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("127.0.0.0/8", "::ffff:127.0.0.1", "::1"),
            ("fd00::/8", "fdff::1", "fe80::1"),
            ("::1", "::1", "127.0.0.1"),
        ] {
            assert!(network(net).contains(inside.parse().unwrap()), "{inside} in {net}");
            assert!(!network(net).contains(outside.parse().unwrap()), "{outside} not in {net}");
        }
        assert!(network("0.0.0.0/0").contains("203.0.113.9".parse().unwrap()));
        assert!(network("::/0").contains("2001:db8::1".parse().unwrap()));
    }

    #[test]
    fn only_this_machine_is_loopback() {
        assert!(Network::loopback().iter().all(Network::is_loopback));
        assert!(!network("126.0.0.0/7").is_loopback());
        assert!(!network("192.168.0.0/16").is_loopback());
    }

    #[test]
    fn what_is_no_network_is_refused_with_a_remedy() {
        for (text, message) in [
            ("lan", r#""lan" is not a network; write instead: ["192.168.0.0/16"]"#),
            ("10.0.0.0/33", r#""10.0.0.0/33" has a prefix length outside of 0 to 32; write instead: ["10.0.0.0/32"]"#),
            ("10.0.0.7/24", r#""10.0.0.7/24" has bits set beyond its prefix; write instead: ["10.0.0.0/24"]"#),
        ] {
            assert_eq!(text.parse::<Network>().unwrap_err(), message);
        }
    }
}
