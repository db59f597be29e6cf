//! A request whose form is known to be right.

use super::text::number;
use super::{CSeq, Headers, Malformed, Method, NameAddr, Uri, Via, name};

/// A request with the values typed that every request must have (RFC 3261 section 8.1.1).
#[derive(Debug, Clone)]
pub struct Request {
    /// As in the start line.
    pub method: Method,
    /// The Request-URI.
    pub uri: Uri,
    /// All fields as they came.
    pub headers: Headers,
    /// Cut to `Content-Length`.
    pub body: Vec<u8>,
    /// The top Via.
    pub via: Via,
    /// From.
    pub from: NameAddr,
    /// To.
    pub to: NameAddr,
    /// Call-ID.
    pub call_id: String,
    /// CSeq.
    pub cseq: CSeq,
    /// Contacts; never with `*`.
    pub contacts: Vec<NameAddr>,
    /// Max-Forwards; missing in RFC 2543.
    pub max_forwards: Option<u8>,
}

impl Request {
    /// Types the values of a framed request.
    ///
    /// # Errors
    /// What is missing or malformed; the headers come back for the answer.
    pub(super) fn from_parts(method: Method, uri: Uri, headers: Headers, body: Vec<u8>) -> Result<Self, (Malformed, Headers)> {
        match Values::read(&method, &headers) {
            Ok(Values { via, from, to, call_id, cseq, contacts, max_forwards }) => {
                Ok(Self { method, uri, headers, body, via, from, to, call_id, cseq, contacts, max_forwards })
            }
            Err(error) => Err((error, headers)),
        }
    }

    /// Is there a body that is meant?
    pub fn has_body(&self) -> bool {
        !self.body.is_empty()
    }

    /// The media type of the body, lower case, without parameters.
    pub fn content_type(&self) -> Option<String> {
        let value = self.headers.first(name::CONTENT_TYPE)?;
        let media_type = value.split(|&byte| byte == b';').next().unwrap_or_default();
        let compact: Vec<u8> = media_type.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        Some(String::from_utf8_lossy(&compact).to_ascii_lowercase())
    }
}

struct Values {
    via: Via,
    from: NameAddr,
    to: NameAddr,
    call_id: String,
    cseq: CSeq,
    contacts: Vec<NameAddr>,
    max_forwards: Option<u8>,
}

impl Values {
    fn read(method: &Method, headers: &Headers) -> Result<Self, Malformed> {
        let echoed: usize = ECHOED.iter().flat_map(|name| headers.all(name)).map(<[u8]>::len).sum();
        if echoed > ECHOED_BYTES_MAX {
            return Err(Malformed("Routing headers too long"));
        }
        let mut vias = headers.all(name::VIA).map(Via::parse);
        let via = vias.next().ok_or(Malformed("Missing Via"))??;
        for rest in vias {
            rest?;
        }
        let from = NameAddr::parse(required(headers, name::FROM, "Missing From")?)?;
        let to = NameAddr::parse(required(headers, name::TO, "Missing To")?)?;
        let call_id = call_id(headers)?;
        let cseq = CSeq::parse(required(headers, name::CSEQ, "Missing CSeq")?)?;
        if cseq.method != *method {
            return Err(Malformed("CSeq method does not match"));
        }
        let max_forwards = match headers.first(name::MAX_FORWARDS) {
            None => None,
            Some(value) => Some(number(value).ok_or(Malformed("Bad Max-Forwards"))?),
        };
        if headers.first(name::EXPIRES).is_some_and(|value| number::<u32>(value).is_none()) {
            return Err(Malformed("Bad Expires"));
        }
        let contacts = headers.all(name::CONTACT).filter(|value| *value != b"*").map(NameAddr::parse).collect::<Result<_, _>>()?;
        for route in headers.all(name::ROUTE).chain(headers.all(name::RECORD_ROUTE)) {
            NameAddr::parse(route)?;
        }
        Ok(Self { via, from, to, call_id, cseq, contacts, max_forwards })
    }
}

/// The Call-ID, which must be visible ASCII.
pub(super) fn call_id(headers: &Headers) -> Result<String, Malformed> {
    let value = required(headers, name::CALL_ID, "Missing Call-ID")?;
    if value.is_empty() || !value.iter().all(u8::is_ascii_graphic) {
        return Err(Malformed("Bad Call-ID"));
    }
    String::from_utf8(value.to_vec()).map_err(|_| Malformed("Bad Call-ID"))
}

pub(super) fn required<'a>(headers: &'a Headers, name: &'static str, missing: &'static str) -> Result<&'a [u8], Malformed> {
    headers.first(name).ok_or(Malformed(missing))
}

/// Headers that every response repeats, and that a transaction therefore keeps.
const ECHOED: [&str; 6] = [name::VIA, name::FROM, name::TO, name::CALL_ID, name::CSEQ, name::RECORD_ROUTE];

/// Their length together: through an IMS core it is about 2 kB. It bounds what one transaction can take.
const ECHOED_BYTES_MAX: usize = 8 * 1024;
