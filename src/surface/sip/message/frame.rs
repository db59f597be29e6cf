//! From a datagram to a message: framing, normalising, and what to say when that fails.

use super::headers::canonical_name;
use super::text::{is_token, number, split_outside};
use super::{Headers, Malformed, Method, Request, Response, Uri, name};

/// What a datagram held.
#[derive(Debug)]
pub enum Message {
    /// A request, typed and checked for form (not yet for meaning).
    Request(Box<Request>),
    /// A response.
    Response(Box<Response>),
    /// Nothing but line ends: a keep-alive of the far end's NAT binding.
    KeepAlive,
}

/// Why a datagram is not taken, and what of it is needed to say so.
#[derive(Debug)]
pub struct Rejection {
    /// 400, or 505 for another SIP version.
    pub status: u16,
    /// For the reason phrase and the log.
    pub reason: &'static str,
    /// The headers of a request that can be answered: it has a Via and is no ACK.
    pub answerable: Option<Headers>,
}

/// Reads one UDP datagram.
///
/// # Errors
/// [`Rejection`], answerable where the sender can be told.
pub fn parse(datagram: &[u8]) -> Result<Message, Rejection> {
    if datagram.len() > DATAGRAM_BYTES_MAX {
        return Err(Rejection { status: 400, reason: "Message too large", answerable: None });
    }
    let datagram = without_leading_line_ends(datagram);
    if datagram.is_empty() {
        return Ok(Message::KeepAlive);
    }
    let (start_line, rest) = split_line(datagram);
    if start_line.starts_with(b"SIP/") {
        return parse_response(start_line, rest)
            .map(|response| Message::Response(Box::new(response)))
            .map_err(|Malformed(reason)| Rejection { status: 400, reason, answerable: None });
    }
    let framed = frame(rest);
    let fail = |status, reason, headers: Headers| {
        let is_ack = start_line.starts_with(b"ACK ");
        let answerable = (!is_ack && headers.first(name::VIA).is_some()).then_some(headers);
        Rejection { status, reason, answerable }
    };
    let request_line = match parse_request_line(start_line) {
        Ok(request_line) => request_line,
        Err(RequestLineError::Version) => {
            return Err(fail(505, "Version Not Supported", framed.headers));
        }
        Err(RequestLineError::Malformed(reason)) => return Err(fail(400, reason, framed.headers)),
        // Junk from a scanner or another protocol: nothing to answer.
        Err(RequestLineError::NotSip) => {
            return Err(Rejection { status: 400, reason: "Not SIP", answerable: None });
        }
    };
    if let Some(Malformed(reason)) = framed.fault {
        return Err(fail(400, reason, framed.headers));
    }
    let (method, uri) = request_line;
    Request::from_parts(method, uri, framed.headers, framed.body)
        .map(|request| Message::Request(Box::new(request)))
        .map_err(|(Malformed(reason), headers)| fail(400, reason, headers))
}

fn parse_response(start_line: &[u8], rest: &[u8]) -> Result<Response, Malformed> {
    let line = start_line.strip_prefix(b"SIP/2.0 ").ok_or(Malformed("Other SIP version"))?;
    // The reason phrase may be empty and, in the field, its space missing.
    let digits = line.split(|&byte| byte == b' ').next().unwrap_or_default();
    let status = number::<u16>(digits).filter(|code| (100..700).contains(code)).ok_or(Malformed("Bad status"))?;
    let framed = frame(rest);
    match framed.fault {
        Some(fault) => Err(fault),
        None => Response::from_parts(status, framed.headers),
    }
}

enum RequestLineError {
    NotSip,
    Version,
    Malformed(&'static str),
}

/// `Method SP Request-URI SP SIP-Version`, exactly (RFC 3261 section 7.1).
fn parse_request_line(line: &[u8]) -> Result<(Method, Uri), RequestLineError> {
    let Some(version_at) = line.iter().rposition(|&byte| byte == b' ') else {
        return Err(RequestLineError::NotSip);
    };
    let (front, version) = line.split_at(version_at);
    let version = version.trim_ascii();
    if !version.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"SIP/")) {
        // `INVITE sip:a@b SIP/2.0 ` and the like still are SIP.
        return Err(match line.windows(5).any(|window| window == b" SIP/") {
            true => RequestLineError::Malformed("Bad start line"),
            false => RequestLineError::NotSip,
        });
    }
    if !version.eq_ignore_ascii_case(b"SIP/2.0") {
        return Err(RequestLineError::Version);
    }
    let mut parts = front.splitn(2, |&byte| byte == b' ');
    let method = parts.next().unwrap_or_default();
    let uri = parts.next().ok_or(RequestLineError::Malformed("Bad start line"))?;
    let method = Method::parse(method).map_err(|Malformed(reason)| RequestLineError::Malformed(reason))?;
    let uri = Uri::parse(uri).map_err(|_| RequestLineError::Malformed("Bad Request-URI"))?;
    Ok((method, uri))
}

/// Headers and body; with the first fault, and all headers that could still be read.
struct Framed {
    headers: Headers,
    body: Vec<u8>,
    fault: Option<Malformed>,
}

fn frame(mut rest: &[u8]) -> Framed {
    let mut headers = Headers::default();
    let mut fault = None;
    let mut field: Vec<u8> = Vec::new();
    let mut ended = false;
    while !rest.is_empty() {
        let (line, tail) = split_line(rest);
        rest = tail;
        if line.is_empty() {
            ended = true;
            break;
        }
        let folded = matches!(line.first(), Some(b' ' | b'\t'));
        if folded && !field.is_empty() {
            field.push(b' ');
            field.extend_from_slice(line.trim_ascii());
        } else {
            note(&mut fault, take_field(&mut headers, &field));
            field = line.to_vec();
        }
        if field.len() > LINE_BYTES_MAX || headers.len() > HEADERS_MAX {
            break;
        }
    }
    note(&mut fault, take_field(&mut headers, &field));
    if field.len() > LINE_BYTES_MAX || headers.len() > HEADERS_MAX {
        // Nothing of it is worth an answer as long as the attack.
        return Framed { headers: Headers::default(), body: Vec::new(), fault: Some(Malformed("Headers too long")) };
    }
    if !ended {
        note(&mut fault, Err(Malformed("Headers without end")));
    }
    let body = match cut_body(&headers, rest) {
        Ok(body) => body.to_vec(),
        Err(error) => {
            note(&mut fault, Err(error));
            Vec::new()
        }
    };
    Framed { headers, body, fault }
}

fn note(fault: &mut Option<Malformed>, result: Result<(), Malformed>) {
    if let Err(error) = result {
        fault.get_or_insert(error);
    }
}

/// Takes one unfolded field; of a list that cannot be split the whole value is kept for the answer.
fn take_field(headers: &mut Headers, field: &[u8]) -> Result<(), Malformed> {
    if field.is_empty() {
        return Ok(());
    }
    let at = field.iter().position(|&byte| byte == b':').ok_or(Malformed("Header without colon"))?;
    let (name, value) = field.split_at(at);
    let value = value.get(1..).unwrap_or_default().trim_ascii();
    let name = name.trim_ascii();
    if !is_token(name) {
        return Err(Malformed("Bad header name"));
    }
    let name = canonical_name(std::str::from_utf8(name).unwrap_or_default());
    if SINGLE.contains(&name.as_ref()) && headers.first(&name).is_some() {
        return Err(Malformed("Header that may be there once is there twice"));
    }
    if !LISTS.contains(&name.as_ref()) {
        headers.push(&name, value);
        return Ok(());
    }
    match split_outside(value, b',') {
        Ok(values) if values.len() == 1 || values.iter().all(|value| !value.is_empty()) => {
            for value in values.into_iter().filter(|value| !value.is_empty()) {
                headers.push(&name, value);
            }
            Ok(())
        }
        Ok(_) => {
            headers.push(&name, value);
            Err(Malformed("Empty element in a header list"))
        }
        Err(error) => {
            headers.push(&name, value);
            Err(error)
        }
    }
}

/// RFC 3261 section 18.3 for UDP: missing means the rest of the datagram, smaller cuts, larger is an error.
fn cut_body<'a>(headers: &Headers, rest: &'a [u8]) -> Result<&'a [u8], Malformed> {
    match headers.first(name::CONTENT_LENGTH) {
        None => Ok(rest),
        Some(value) => {
            let length: usize = number(value).ok_or(Malformed("Bad Content-Length"))?;
            rest.get(..length).ok_or(Malformed("Content-Length larger than the datagram"))
        }
    }
}

fn without_leading_line_ends(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n' | 0)).unwrap_or(bytes.len());
    bytes.get(start..).unwrap_or_default()
}

/// One line without its end (CRLF, or a bare LF), and the rest.
fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
        return (bytes, &[]);
    };
    let (line, rest) = bytes.split_at(end);
    (line.strip_suffix(b"\r").unwrap_or(line), rest.get(1..).unwrap_or_default())
}

/// The largest UDP payload.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// An unfolded header: IMS messages in the field reach about 1 kB.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Fields after lists are split: real requests have below 60.
const HEADERS_MAX: usize = 256;

/// Headers whose comma lists are split into single values.
const LISTS: [&str; 8] =
    [name::VIA, name::CONTACT, name::ROUTE, name::RECORD_ROUTE, name::REQUIRE, name::PROXY_REQUIRE, name::SUPPORTED, name::ALLOW];

/// Headers of which a second one makes the message ambiguous (RFC 4475 section 3.3.8).
const SINGLE: [&str; 7] = [name::FROM, name::TO, name::CALL_ID, name::CSEQ, name::MAX_FORWARDS, name::CONTENT_LENGTH, name::CONTENT_TYPE];

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:x@y>;tag=1\r\nTo: <sip:a@b>\r\nCall-ID: c\r\nCSeq: 1 OPTIONS\r\n";

    fn request(tail: &str) -> Request {
        match parse(format!("{HEAD}{tail}").as_bytes()) {
            Ok(Message::Request(request)) => *request,
            other => panic!("{other:?}"),
        }
    }

    fn rejection(text: &str) -> Rejection {
        parse(text.as_bytes()).expect_err("must be rejected")
    }

    #[test]
    fn folding_compact_names_and_white_space_around_the_colon_are_normalised() {
        let text = "OPTIONS sip:a@b;x SIP/2.0\nTO :\n sip:a@b ;   tag    = 77\nf   : \"J \\\\\\\"\"       <sip:j@b>\n  ;\n  tag = 98\nMaX-fOrWaRdS: 0068\ni: c1\ncseq: 0009\n  OPTIONS\nVia  : SIP  /   2.0\n /UDP\n    192.0.2.2;branch=z9hG4bKa\nOther: folded\n value\nOdd: ;;,,;;,;\nv:  SIP  / 2.0  / TCP     s.example.com   ;\n  branch  =   z9hG4bK9  ,\n SIP  /    2.0   / UDP  192.168.255.111   ; branch=\n z9hG4bK3\nm:\"Q \\\"\\\"\" <sip:j@b> ; p =\n      v ;\n  s ; q = 0.33\n\n";
        let Ok(Message::Request(request)) = parse(text.as_bytes()) else { panic!("must be accepted") };
        assert_eq!(request.headers.all(name::VIA).count(), 3);
        assert_eq!(request.to.tag(), Some("77"));
        assert_eq!(request.from.tag(), Some("98"));
        assert_eq!(request.cseq.number, 9);
        assert_eq!(request.via.branch(), Some("z9hG4bKa"));
        assert_eq!(request.headers.first("Other"), Some(&b"folded value"[..]));
    }

    #[test]
    fn content_length_cuts_the_body_and_may_be_missing_but_not_too_large() {
        assert_eq!(request("l: 2\r\n\r\nabcd").body, b"ab");
        assert_eq!(request("\r\nabcd").body, b"abcd");
        for length in ["5", "-1", "18446744073709551615", "99999999999999999999999", "x"] {
            let rejection = rejection(&format!("{HEAD}Content-Length: {length}\r\n\r\nabcd"));
            assert_eq!(rejection.status, 400);
            assert!(rejection.answerable.is_some());
        }
    }

    #[test]
    fn an_ack_or_junk_is_never_answered() {
        assert!(rejection("ACK sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP h\r\n\r\n").answerable.is_none());
        assert!(rejection("GET / HTTP/1.1\r\nVia: x\r\n\r\n").answerable.is_none());
        assert!(rejection("SIP/2.0 99 x\r\nVia: x\r\n\r\n").answerable.is_none());
        assert!(rejection("x").answerable.is_none());
        assert!(matches!(parse(b"\r\n\r\n"), Ok(Message::KeepAlive)));
        assert!(matches!(parse(b"\0\0\0\0"), Ok(Message::KeepAlive)));
    }

    #[test]
    fn more_than_the_limits_is_refused() {
        let many = "X: y\r\n".repeat(HEADERS_MAX + 1);
        assert_eq!(rejection(&format!("{HEAD}{many}\r\n")).status, 400);
        let long = "y".repeat(LINE_BYTES_MAX);
        assert_eq!(rejection(&format!("{HEAD}X: {long}\r\n\r\n")).status, 400);
        let vias = "h;branch=z9hG4bKx, SIP/2.0/UDP ".repeat(HEADERS_MAX);
        assert_eq!(rejection(&format!("{HEAD}Via: SIP/2.0/UDP {vias}h\r\n\r\n")).status, 400);
    }

    #[test]
    fn bytes_that_are_not_utf_8_survive_untouched() {
        let mut text = HEAD.replace("<sip:x@y>", "\"Jos\u{1}\" <sip:x@y>").into_bytes();
        for byte in &mut text {
            if *byte == 1 {
                *byte = 0xe9;
            }
        }
        text.extend_from_slice(b"\r\n");
        let Ok(Message::Request(request)) = parse(&text) else { panic!("must be accepted") };
        assert_eq!(request.headers.first(name::FROM), Some(&b"\"Jos\xe9\" <sip:x@y>;tag=1"[..]));
    }
}
