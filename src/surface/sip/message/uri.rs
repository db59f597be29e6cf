//! URIs (RFC 3261 section 19.1): `sip:` and `sips:` in parts, `tel:` and anything else kept as text.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::Malformed;
use super::params::Params;
use super::text::percent_decoded;

/// A URI. Printing gives back what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uri {
    /// `sip:` or `sips:`.
    Sip(SipUri),
    /// `tel:` (RFC 3966): everything behind the colon.
    Tel(String),
    /// Any other scheme, which a request may name and this box does not serve.
    Other {
        /// In front of the colon.
        scheme: String,
        /// Behind it.
        rest: String,
    },
}

/// The parts of a `sip:` or `sips:` URI, escapes not decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SipUri {
    secure: bool,
    /// In front of the `@`, with a password if there is one.
    user_info: Option<String>,
    pub host: Host,
    pub port: Option<u16>,
    params: Params,
    headers: Option<String>,
}

/// A host: a name or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// Any letters case; compared without.
    Name(String),
    /// IPv4 or IPv6 (in brackets on the wire).
    Ip(IpAddr),
}

impl Uri {
    /// Reads a URI that stands alone: no brackets, no white space.
    ///
    /// # Errors
    /// No scheme, white space, a bad host or port.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed("URI is not UTF-8"))?;
        if text.bytes().any(|byte| byte <= b' ' || matches!(byte, b'<' | b'>' | b'"' | 0x7f)) {
            return Err(Malformed("White space or brackets in a URI"));
        }
        let (scheme, rest) = text.split_once(':').ok_or(Malformed("URI without a scheme"))?;
        if !is_scheme(scheme) {
            return Err(Malformed("Bad URI scheme"));
        }
        match scheme.to_ascii_lowercase().as_str() {
            "sip" => SipUri::parse(false, rest).map(Uri::Sip),
            "sips" => SipUri::parse(true, rest).map(Uri::Sip),
            "tel" if !rest.is_empty() => Ok(Uri::Tel(rest.to_owned())),
            "tel" => Err(Malformed("Empty tel URI")),
            _ => Ok(Uri::Other { scheme: scheme.to_owned(), rest: rest.to_owned() }),
        }
    }

    /// The user part, decoded, without a password and without `;` parameters; for `tel:` the number.
    pub fn user(&self) -> Option<String> {
        let user = match self {
            Uri::Sip(uri) => uri.user_info.as_deref()?.split(':').next()?,
            Uri::Tel(number) => number,
            Uri::Other { .. } => return None,
        };
        Some(percent_decoded(user.split(';').next().unwrap_or_default()))
    }

    /// The host as text; empty for a URI that has none.
    pub fn host_text(&self) -> String {
        match self {
            Uri::Sip(uri) => uri.host.to_string(),
            Uri::Tel(_) | Uri::Other { .. } => String::new(),
        }
    }

    /// Does the URI carry `lr` (loose routing, RFC 3261 section 16.12)?
    pub fn is_loose_router(&self) -> bool {
        matches!(self, Uri::Sip(uri) if uri.params.value("lr").is_some())
    }

    /// The URI as a Request-URI: without the headers part (RFC 3261 section 19.1.5).
    pub fn without_headers(&self) -> Uri {
        match self {
            Uri::Sip(uri) => Uri::Sip(SipUri { headers: None, ..uri.clone() }),
            other => other.clone(),
        }
    }
}

impl SipUri {
    fn parse(secure: bool, rest: &str) -> Result<Self, Malformed> {
        let (user_info, rest) = match rest.split_once('@') {
            Some(("", _)) => return Err(Malformed("Empty user part")),
            Some((user, rest)) => (Some(user.to_owned()), rest),
            None => (None, rest),
        };
        let (rest, headers) = match rest.split_once('?') {
            Some((rest, headers)) => (rest, Some(headers.to_owned())),
            None => (rest, None),
        };
        let (host_port, params) = match rest.split_once(';') {
            Some((host_port, params)) => (host_port, Params::parse(params.as_bytes())?),
            None => (rest, Params::default()),
        };
        let (host, port) = Host::parse_with_port(host_port)?;
        Ok(Self { secure, user_info, host, port, params, headers })
    }
}

impl Host {
    /// Reads `host` or `host:port`; white space around the colon is allowed, as in Via.
    ///
    /// # Errors
    /// An empty or impossible name, an IPv6 address without brackets, a bad port.
    pub fn parse_with_port(text: &str) -> Result<(Self, Option<u16>), Malformed> {
        let text = text.trim();
        let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
            let (address, rest) = bracketed.split_once(']').ok_or(Malformed("Unterminated IPv6 address"))?;
            let address: Ipv6Addr = address.parse().map_err(|_| Malformed("Bad IPv6 address"))?;
            let port = match rest.trim_start() {
                "" => None,
                rest => Some(rest.strip_prefix(':').ok_or(Malformed("Bad host"))?),
            };
            (Host::Ip(address.into()), port)
        } else {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host.trim_end(), Some(port)),
                None => (text, None),
            };
            (Host::parse_name(host)?, port)
        };
        let port = match port {
            None => None,
            Some(port) => Some(super::text::number(port.trim().as_bytes()).ok_or(Malformed("Bad port"))?),
        };
        Ok((host, port))
    }

    fn parse_name(text: &str) -> Result<Self, Malformed> {
        if let Ok(address) = text.parse() {
            return Ok(Host::Ip(IpAddr::V4(address)));
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if text.is_empty() || text.len() > HOST_BYTES_MAX || !text.bytes().all(allowed) {
            return Err(Malformed("Bad host"));
        }
        Ok(Host::Name(text.to_owned()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => formatter.write_str(name),
            Host::Ip(IpAddr::V4(address)) => write!(formatter, "{address}"),
            Host::Ip(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uri::Sip(uri) => uri.fmt(formatter),
            Uri::Tel(rest) => write!(formatter, "tel:{rest}"),
            Uri::Other { scheme, rest } => write!(formatter, "{scheme}:{rest}"),
        }
    }
}

impl fmt::Display for SipUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.secure { "sips:" } else { "sip:" })?;
        if let Some(user) = &self.user_info {
            write!(formatter, "{user}@")?;
        }
        self.host.fmt(formatter)?;
        if let Some(port) = self.port {
            write!(formatter, ":{port}")?;
        }
        self.params.fmt(formatter)?;
        match &self.headers {
            Some(headers) => write!(formatter, "?{headers}"),
            None => Ok(()),
        }
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// The longest DNS name.
const HOST_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_sip_uri_is_found_and_printed_back() {
        for text in [
            "sip:a@[::1]:5070;transport=udp",
            "sips:alice:secret@example.com;lr?Subject=x",
            "sip:user;par=u%40example.net@example.com",
            "sip:192.0.2.1",
            "tel:+34600000000;phone-context=x",
            "mailto:a@b",
        ] {
            assert_eq!(Uri::parse(text.as_bytes()).expect(text).to_string(), text);
        }
        let uri = Uri::parse(b"sip:user;par=u%40x@example.com;lr").expect("valid");
        assert_eq!(uri.user().as_deref(), Some("user"));
        assert!(uri.is_loose_router());
    }

    #[test]
    fn an_ipv6_address_needs_brackets() {
        assert!(Uri::parse(b"sip:2001:db8::10").is_err());
        assert!(Uri::parse(b"sip:[2001:db8::10").is_err());
        assert!(Uri::parse(b"sip:[2001:db8::10:5070]").is_ok());
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "sip:", "sip:@host", "sip:a@", "sip:a@h:99999", "sip:a@h:", "sip:a b@h", ":x", "tel:"] {
            assert!(Uri::parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
