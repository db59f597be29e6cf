//! Header fields in order, with names in one spelling and values as bytes.

use std::borrow::Cow;

/// Header names in the one spelling used inside and on the wire.
#[allow(missing_docs)] // The names are the headers.
pub mod name {
    pub const VIA: &str = "Via";
    pub const FROM: &str = "From";
    pub const TO: &str = "To";
    pub const CALL_ID: &str = "Call-ID";
    pub const CSEQ: &str = "CSeq";
    pub const CONTACT: &str = "Contact";
    pub const ROUTE: &str = "Route";
    pub const RECORD_ROUTE: &str = "Record-Route";
    pub const MAX_FORWARDS: &str = "Max-Forwards";
    pub const CONTENT_LENGTH: &str = "Content-Length";
    pub const CONTENT_TYPE: &str = "Content-Type";
    pub const CONTENT_ENCODING: &str = "Content-Encoding";
    pub const REQUIRE: &str = "Require";
    pub const PROXY_REQUIRE: &str = "Proxy-Require";
    pub const UNSUPPORTED: &str = "Unsupported";
    pub const SUPPORTED: &str = "Supported";
    pub const ALLOW: &str = "Allow";
    pub const ACCEPT: &str = "Accept";
    pub const RETRY_AFTER: &str = "Retry-After";
    pub const SERVER: &str = "Server";
    pub const USER_AGENT: &str = "User-Agent";
    pub const EXPIRES: &str = "Expires";
    pub const P_ASSERTED_IDENTITY: &str = "P-Asserted-Identity";
}

/// One field: a single value, comma lists already split where the header is a list that we read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Header {
    name: Cow<'static, str>,
    value: Vec<u8>,
}

/// The header fields of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<Header>);

impl Headers {
    /// Appends a field; compact and unusual spellings of known names become the usual one.
    pub fn push(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        self.0.push(Header { name: canonical_name(name), value: value.into() });
    }

    /// Appends all fields of `other`.
    pub fn append(&mut self, other: &Headers) {
        self.0.extend_from_slice(&other.0);
    }

    /// The first value of `name`, which is spelled as in [`name`].
    pub fn first(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|header| header.name == name).map(|header| header.value.as_slice())
    }

    /// All values of `name`, in order.
    pub fn all(&self, name: &'static str) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(move |header| header.name == name).map(|header| header.value.as_slice())
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Prints a message. `Content-Length` is written here and nowhere else.
pub fn print(start_line: &str, headers: &Headers, body: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::with_capacity(512 + body.len());
    datagram.extend_from_slice(start_line.as_bytes());
    datagram.extend_from_slice(b"\r\n");
    for Header { name, value } in &headers.0 {
        datagram.extend_from_slice(name.as_bytes());
        datagram.extend_from_slice(b": ");
        datagram.extend_from_slice(value);
        datagram.extend_from_slice(b"\r\n");
    }
    datagram.extend_from_slice(format!("{}: {}\r\n\r\n", name::CONTENT_LENGTH, body.len()).as_bytes());
    datagram.extend_from_slice(body);
    datagram
}

/// The usual spelling of a header name.
pub fn canonical_name(text: &str) -> Cow<'static, str> {
    let known = KNOWN
        .iter()
        .find(|(long, compact)| long.eq_ignore_ascii_case(text) || compact.is_some_and(|compact| compact.eq_ignore_ascii_case(text)));
    match known {
        Some((long, _)) => Cow::Borrowed(long),
        None => Cow::Owned(text.to_owned()),
    }
}

/// Names that are read here, with their compact forms (RFC 3261 section 7.3.3).
const KNOWN: [(&str, Option<&str>); 19] = [
    (name::VIA, Some("v")),
    (name::FROM, Some("f")),
    (name::TO, Some("t")),
    (name::CALL_ID, Some("i")),
    (name::CSEQ, None),
    (name::CONTACT, Some("m")),
    (name::ROUTE, None),
    (name::RECORD_ROUTE, None),
    (name::MAX_FORWARDS, None),
    (name::CONTENT_LENGTH, Some("l")),
    (name::CONTENT_TYPE, Some("c")),
    (name::CONTENT_ENCODING, Some("e")),
    (name::REQUIRE, None),
    (name::PROXY_REQUIRE, None),
    (name::SUPPORTED, Some("k")),
    (name::ALLOW, None),
    (name::EXPIRES, None),
    (name::RETRY_AFTER, None),
    (name::P_ASSERTED_IDENTITY, None),
];
