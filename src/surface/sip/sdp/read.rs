//! The far end's description.

use std::net::{IpAddr, SocketAddr};

use super::direction;
use crate::surface::media::Direction;

/// A payload type and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// 0 to 127.
    pub payload_type: u8,
    /// Encoding name, upper case.
    pub encoding: String,
    /// Hertz.
    pub clock_rate: u32,
}

/// One `m=` section of the far end.
#[derive(Debug, Clone)]
pub struct Stream {
    /// "audio", "video", ...
    pub kind: String,
    /// "RTP/AVP", ...
    pub protocol: String,
    /// The format list as it came, to be echoed when the stream is refused.
    pub format_list: String,
    /// Formats of RTP streams that are known by number or by `rtpmap`, in the order offered, each number once.
    pub formats: Vec<Format>,
    /// Where the far end wants its RTP; `None` if it gave a host name or no address.
    pub rtp: Option<SocketAddr>,
    /// Where it wants its RTCP, if not next to its RTP (RFC 3605).
    pub rtcp: Option<SocketAddr>,
    /// It can take RTCP on the RTP port (RFC 5761).
    pub rtcp_mux: bool,
    /// As the far end says it.
    pub direction: Direction,
}

/// The streams of a description, or `None` if it is not one.
pub fn parse(body: &[u8]) -> Option<Vec<Stream>> {
    // Session names in other encodings must not cost the call.
    let text = String::from_utf8_lossy(body);
    let session = sdp_types::Session::parse(text.as_bytes()).ok()?;
    if session.medias.len() > STREAMS_MAX {
        return None;
    }
    Some(session.medias.iter().map(|media| stream(&session, media)).collect())
}

fn stream(session: &sdp_types::Session, media: &sdp_types::Media) -> Stream {
    let attribute = |name: &str| media.attributes.iter().find(|attribute| attribute.attribute.eq_ignore_ascii_case(name));
    let address = media.connections.first().or(session.connection.as_ref()).and_then(connection_address);
    let direction = media
        .attributes
        .iter()
        .chain(&session.attributes)
        .find_map(|attribute| direction(&attribute.attribute))
        .unwrap_or(Direction::SendRecv);
    let rtcp = attribute("rtcp").and_then(|attribute| rtcp_address(attribute.value.as_deref()?, address));
    Stream {
        kind: media.media.to_ascii_lowercase(),
        protocol: media.proto.clone(),
        format_list: media.fmt.clone(),
        formats: formats(media),
        rtp: address.map(|address| SocketAddr::new(address, media.port)).filter(|_| media.port != 0),
        rtcp,
        rtcp_mux: attribute("rtcp-mux").is_some(),
        direction,
    }
}

fn formats(media: &sdp_types::Media) -> Vec<Format> {
    let mut formats: Vec<Format> = Vec::new();
    for payload_type in media.fmt.split_ascii_whitespace().filter_map(|number| number.parse::<u8>().ok()) {
        if payload_type > 127 || formats.iter().any(|format| format.payload_type == payload_type) {
            continue;
        }
        let mapped = media
            .attributes
            .iter()
            .filter(|attribute| attribute.attribute.eq_ignore_ascii_case("rtpmap"))
            .find_map(|attribute| rtpmap(attribute.value.as_deref()?, payload_type));
        let well_known = match payload_type {
            0 => Some("PCMU"),
            8 => Some("PCMA"),
            _ => None,
        };
        let format = match (mapped, well_known) {
            (Some(format), _) => format,
            (None, Some(encoding)) => Format { payload_type, encoding: encoding.to_owned(), clock_rate: 8000 },
            (None, None) => continue,
        };
        formats.push(format);
    }
    formats
}

/// `<payload type> <encoding>/<clock rate>[/<channels>]`; more than one channel is a format that we do not know.
fn rtpmap(value: &str, payload_type: u8) -> Option<Format> {
    let (number, map) = value.trim().split_once(' ')?;
    if number.parse::<u8>() != Ok(payload_type) {
        return None;
    }
    let mut parts = map.trim().split('/');
    let encoding = parts.next()?.to_ascii_uppercase();
    let clock_rate = parts.next()?.parse().ok()?;
    let encoding = match parts.next() {
        None | Some("1") => encoding,
        Some(channels) => format!("{encoding}/{channels}"),
    };
    Some(Format { payload_type, encoding, clock_rate })
}

fn rtcp_address(value: &str, default: Option<IpAddr>) -> Option<SocketAddr> {
    let mut parts = value.split_ascii_whitespace();
    let port = parts.next()?.parse().ok().filter(|port| *port != 0)?;
    let address = parts.nth(2).and_then(|address| address.parse().ok()).or(default)?;
    Some(SocketAddr::new(address, port))
}

fn connection_address(connection: &sdp_types::Connection) -> Option<IpAddr> {
    // A multicast address may carry `/ttl`, which no unicast call has.
    connection.connection_address.parse().ok()
}

/// More streams than any caller offers; each costs a line of the answer.
const STREAMS_MAX: usize = 32;
