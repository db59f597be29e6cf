//! Our description.

use std::net::IpAddr;

use sdp_types::{AddrType, Attribute, Connection, Media, NetType, Origin, Session, Time};

use super::{Stream, attribute};
use crate::g711::Codec;
use crate::surface::media::Direction;
use crate::surface::sip::media_plan::{CLOCK_RATE, LocalMedia, PTIME_MS};

/// A session at `local`, its version still 0.
pub fn session(session_id: u64, local: &LocalMedia, medias: Vec<Media>) -> Session {
    let (addrtype, address) = match local.address {
        IpAddr::V4(address) => (AddrType::Ip4, address.to_string()),
        IpAddr::V6(address) => (AddrType::Ip6, address.to_string()),
    };
    let origin = Origin {
        username: None,
        sess_id: session_id.to_string(),
        sess_version: 0,
        nettype: NetType::In,
        addrtype: addrtype.clone(),
        unicast_address: address.clone(),
    };
    let mut session = Session::new(origin, "-");
    session.connection = Some(Connection { nettype: NetType::In, addrtype, connection_address: address });
    session.times = vec![Time::new(0, 0)];
    session.medias = medias;
    session
}

/// Our audio stream.
pub fn audio(codecs: &[(Codec, u8)], event: Option<u8>, direction: Direction, local: &LocalMedia, mux: bool) -> Media {
    let mut attributes: Vec<Attribute> = codecs
        .iter()
        .map(|(codec, number)| Attribute::with_value("rtpmap", format!("{number} {}/{CLOCK_RATE}", codec.encoding_name())))
        .collect();
    if let Some(event) = event {
        attributes.push(Attribute::with_value("rtpmap", format!("{event} telephone-event/{CLOCK_RATE}")));
        attributes.push(Attribute::with_value("fmtp", format!("{event} 0-15")));
    }
    attributes.push(Attribute::with_value("ptime", PTIME_MS));
    if mux {
        attributes.push(Attribute::new("rtcp-mux"));
    } else if local.rtp_port.checked_add(1) != Some(local.rtcp_port) {
        attributes.push(Attribute::with_value("rtcp", local.rtcp_port));
    }
    attributes.push(Attribute::new(attribute(direction)));
    let numbers: Vec<String> = codecs.iter().map(|(_, number)| *number).chain(event).map(|number| number.to_string()).collect();
    media("audio", local.rtp_port, "RTP/AVP", &numbers.join(" "), attributes)
}

/// A stream that we do not take keeps its place with port 0 (RFC 3264 section 6).
pub fn refused(stream: &Stream) -> Media {
    media(&stream.kind, 0, &stream.protocol, &stream.format_list, Vec::new())
}

/// The description as a body.
pub fn print(session: &Session) -> Vec<u8> {
    let mut body = Vec::with_capacity(512);
    // Writing to memory cannot fail.
    let _ = session.write(&mut body);
    body
}

fn media(kind: &str, port: u16, protocol: &str, format_list: &str, attributes: Vec<Attribute>) -> Media {
    Media {
        media: kind.to_owned(),
        port,
        num_ports: None,
        proto: protocol.to_owned(),
        fmt: format_list.to_owned(),
        media_title: None,
        connections: Vec::new(),
        bandwidths: Vec::new(),
        key: None,
        attributes,
    }
}
