//! Where a request of ours goes.

use std::net::{IpAddr, SocketAddr};

use crate::surface::sip::message::{DEFAULT_PORT, Host, NameAddr, Uri};

/// One element of a route set, byte for byte as it came.
#[derive(Debug, Clone)]
pub struct Route {
    value: Vec<u8>,
    uri: Uri,
}

impl Route {
    /// Reads a Record-Route value.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let uri = NameAddr::parse(value).ok()?.uri;
        Some(Self { value: value.to_vec(), uri })
    }

    pub fn value(&self) -> &[u8] {
        &self.value
    }

    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    pub fn is_loose(&self) -> bool {
        self.uri.is_loose_router()
    }
}

/// The address of `uri`, or `source`, where the dialog's last request came from, when that is the better guess: for a
/// host name (no resolver in here), and for a private address given by a caller that is seen from a public one, which
/// is a caller behind NAT that does not know its own address.
pub fn next_hop(uri: &Uri, source: SocketAddr) -> SocketAddr {
    let Uri::Sip(uri) = uri else { return source };
    let Host::Ip(address) = uri.host else {
        return source;
    };
    let port = uri.port.filter(|port| *port != 0).unwrap_or(DEFAULT_PORT);
    let unreachable = address.is_unspecified() || is_local(address) && !is_local(source.ip());
    if unreachable || address.is_ipv4() != source.is_ipv4() {
        return source;
    }
    SocketAddr::new(address, port)
}

fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let shared = first == 100 && (64..128).contains(&second);
            address.is_private() || address.is_loopback() || address.is_link_local() || shared
        }
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_contact_behind_a_public_source_is_nat() {
        let hop = |uri: &str, source: &str| {
            let uri = Uri::parse(uri.as_bytes()).expect(uri);
            next_hop(&uri, source.parse().expect(source)).to_string()
        };
        assert_eq!(hop("sip:a@192.168.1.5:5062", "198.51.100.1:1024"), "198.51.100.1:1024");
        assert_eq!(hop("sip:a@192.168.1.5:5062", "192.168.1.1:5060"), "192.168.1.5:5062");
        assert_eq!(hop("sip:a@203.0.113.5", "198.51.100.1:1024"), "203.0.113.5:5060");
        assert_eq!(hop("sip:a@phone.example.com", "198.51.100.1:1024"), "198.51.100.1:1024");
        assert_eq!(hop("sip:a@[2001:db8::1]", "198.51.100.1:1024"), "198.51.100.1:1024");
        assert_eq!(hop("sip:a@0.0.0.0", "10.0.0.1:5060"), "10.0.0.1:5060");
    }
}
