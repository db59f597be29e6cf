//! The Via header (RFC 3261 section 20.42) and where a response goes (sections 18.2.1, 18.2.2; RFC 3581).

use std::fmt;
use std::net::SocketAddr;

use super::params::Params;
use super::text::is_token;
use super::{Host, Malformed};

/// One Via value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Via {
    /// Any token: an unknown transport is no error.
    transport: String,
    host: Host,
    port: Option<u16>,
    params: Params,
}

impl Via {
    /// Reads one value; white space around the slashes and the colon is allowed.
    ///
    /// # Errors
    /// Another protocol than `SIP/2.0`, a bad sent-by, bad parameters.
    pub fn parse(value: &[u8]) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(value).map_err(|_| Malformed("Via is not UTF-8"))?;
        let (sent, params) = match text.split_once(';') {
            Some((sent, params)) => (sent, Params::parse(params.as_bytes())?),
            None => (text, Params::default()),
        };
        let mut protocol = sent.splitn(3, '/').map(str::trim);
        let is_sip = protocol.next().is_some_and(|name| name.eq_ignore_ascii_case("SIP")) && protocol.next() == Some("2.0");
        let (transport, sent_by) = protocol
            .next()
            .filter(|_| is_sip)
            .and_then(|rest| rest.split_once(|c: char| c.is_ascii_whitespace()))
            .ok_or(Malformed("Bad Via"))?;
        if !is_token(transport.as_bytes()) {
            return Err(Malformed("Bad Via transport"));
        }
        let (host, port) = Host::parse_with_port(sent_by)?;
        Ok(Self { transport: transport.to_owned(), host, port, params })
    }

    /// The branch, if it carries RFC 3261's magic cookie and so identifies the transaction.
    pub fn branch(&self) -> Option<&str> {
        self.params.value("branch").filter(|branch| branch.len() > MAGIC_COOKIE.len() && branch.starts_with(MAGIC_COOKIE))
    }

    /// `host:port` of the sender, for transaction matching.
    pub fn sent_by(&self) -> String {
        format!("{}:{}", self.host, self.port.unwrap_or(DEFAULT_PORT)).to_ascii_lowercase()
    }

    /// Where the response to a request with this Via goes. Always the address that the request came from; its port if
    /// `rport` was asked for, else the port of sent-by. `maddr` is not followed: it would let anybody aim our
    /// responses at a third party.
    pub fn response_destination(&self, source: SocketAddr) -> SocketAddr {
        match self.params.value("rport") {
            Some(_) => source,
            None => SocketAddr::new(source.ip(), self.port.filter(|port| *port > 0).unwrap_or(DEFAULT_PORT)),
        }
    }

    /// Notes where the request came from: `received` (without brackets, also for IPv6) and `rport`.
    pub fn stamp(&mut self, source: SocketAddr) {
        let asks_rport = self.params.value("rport").is_some();
        if asks_rport {
            self.params.set("rport", source.port().to_string());
        }
        if asks_rport || self.host != Host::Ip(source.ip()) {
            self.params.set("received", source.ip().to_string());
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SIP/2.0/{} {}", self.transport, self.host)?;
        if let Some(port) = self.port {
            write!(formatter, ":{port}")?;
        }
        self.params.fmt(formatter)
    }
}

/// What every branch of RFC 3261 begins with.
pub const MAGIC_COOKIE: &str = "z9hG4bK";

/// SIP over UDP.
pub const DEFAULT_PORT: u16 = 5060;

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> SocketAddr {
        "[2001:db8::1]:6000".parse().expect("address")
    }

    #[test]
    fn white_space_unknown_transports_and_ipv6_are_read() {
        let via = Via::parse(b"SIP  /   2.0  /UDP    192.0.2.2 : 5070;branch=z9hG4bKx").expect("valid");
        assert_eq!(via.to_string(), "SIP/2.0/UDP 192.0.2.2:5070;branch=z9hG4bKx");
        let via = Via::parse(b"SIP/2.0/UNKNOWN [2001:db8::9:1]:6050 ; received=[2001:db8::2]").expect("valid");
        assert_eq!(via.sent_by(), "[2001:db8::9:1]:6050");
        assert_eq!(via.branch(), None);
    }

    #[test]
    fn the_response_goes_to_the_source_and_says_so() {
        let mut via = Via::parse(b"SIP/2.0/UDP host:5070;rport;branch=z9hG4bKx").expect("valid");
        assert_eq!(via.response_destination(source()), source());
        via.stamp(source());
        assert_eq!(via.to_string(), "SIP/2.0/UDP host:5070;rport=6000;branch=z9hG4bKx;received=2001:db8::1");
        let via = Via::parse(b"SIP/2.0/UDP host:5070;maddr=192.0.2.9").expect("valid");
        assert_eq!(via.response_destination(source()), "[2001:db8::1]:5070".parse().expect("address"));
    }

    #[test]
    fn broken_vias_are_refused() {
        for value in ["SIP/2.0/UDP 192.0.2.15;;,;,,", "SIP/3.0/UDP a", "SIP/2.0 a", "SIP/2.0/UDP", "SIP/2.0/UDP  ", "x"] {
            assert!(Via::parse(value.as_bytes()).is_err(), "{value}");
        }
    }
}
