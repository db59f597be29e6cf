//! Methods and CSeq.

use std::fmt;

use super::Malformed;
use super::text::{is_token, number};

/// A request method. Methods are case sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the methods.
pub enum Method {
    Invite,
    Ack,
    Bye,
    Cancel,
    Options,
    Register,
    Info,
    Update,
    Notify,
    /// A method of an RFC that this box does not serve: answered 405.
    Known(&'static str),
    /// Any other token: answered 501.
    Unknown(String),
}

impl Method {
    /// Reads a method.
    ///
    /// # Errors
    /// It is no token.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        if !is_token(bytes) || bytes.len() > METHOD_BYTES_MAX {
            return Err(Malformed("Bad method"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed("Bad method"))?;
        Ok(match text {
            "INVITE" => Method::Invite,
            "ACK" => Method::Ack,
            "BYE" => Method::Bye,
            "CANCEL" => Method::Cancel,
            "OPTIONS" => Method::Options,
            "REGISTER" => Method::Register,
            "INFO" => Method::Info,
            "UPDATE" => Method::Update,
            "NOTIFY" => Method::Notify,
            other => match KNOWN_NOT_SERVED.iter().find(|known| **known == other) {
                Some(known) => Method::Known(known),
                None => Method::Unknown(other.to_owned()),
            },
        })
    }

    /// The method as on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Method::Invite => "INVITE",
            Method::Ack => "ACK",
            Method::Bye => "BYE",
            Method::Cancel => "CANCEL",
            Method::Options => "OPTIONS",
            Method::Register => "REGISTER",
            Method::Info => "INFO",
            Method::Update => "UPDATE",
            Method::Notify => "NOTIFY",
            Method::Known(name) => name,
            Method::Unknown(name) => name,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The CSeq header: a number and the method again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CSeq {
    /// Below 2^31 (RFC 3261 section 8.1.1.5).
    pub number: u32,
    /// Must be the method of the request.
    pub method: Method,
}

impl CSeq {
    /// Reads `number method`.
    ///
    /// # Errors
    /// A number of 2^31 or more, a method that is no token.
    pub fn parse(value: &[u8]) -> Result<Self, Malformed> {
        let at = value.iter().position(u8::is_ascii_whitespace).ok_or(Malformed("Bad CSeq"))?;
        let (digits, method) = value.split_at(at);
        let number: u32 = number(digits).filter(|number| *number < CSEQ_END).ok_or(Malformed("Bad CSeq number"))?;
        Ok(Self { number, method: Method::parse(method.trim_ascii())? })
    }
}

/// First number that a CSeq may not have.
const CSEQ_END: u32 = 1 << 31;

/// Longer than any method of an RFC and than RFC 4475's longest; a method is echoed in CSeq and kept in keys.
const METHOD_BYTES_MAX: usize = 128;

/// RFC 3262, 3265, 3428, 3515, 3903: known, and not served here.
const KNOWN_NOT_SERVED: [&str; 5] = ["PRACK", "SUBSCRIBE", "MESSAGE", "REFER", "PUBLISH"];
