//! Offer and answer (RFC 3264) for one audio stream, as an explicit state machine.
//!
//! ```text
//!   Idle ── answer(offer) ──► Stable ── answer(offer) ──► Stable
//!   Idle, Stable ── offer() ──► OfferPending ── accept_answer() ──► Stable
//!                               OfferPending ── withdraw() ──► what it was before
//! ```
//! An offer that cannot be answered changes nothing: what was agreed before goes on.

use std::net::{IpAddr, SocketAddr};

use sdp_types::Media;

use super::media_plan::{CLOCK_RATE, LocalMedia, MediaPlan, PTIME_MS};
use super::sdp::{self, Format, Stream};
use crate::g711::Codec;
use crate::surface::media::Direction;

/// Why a description is not agreed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unacceptable {
    /// It cannot be read: 400.
    Malformed,
    /// No stream, codec, profile or address family in common: 488.
    NothingInCommon,
}

/// An offer of the far end that can be answered.
#[derive(Debug, Clone)]
pub struct Offer {
    streams: Vec<Stream>,
    chosen: usize,
    plan: MediaPlan,
}

impl Offer {
    /// Reads an offer and picks the first audio stream and, in it, the first codec that we have.
    ///
    /// # Errors
    /// [`Unacceptable`].
    pub fn read(body: &[u8], is_ipv4: bool) -> Result<Self, Unacceptable> {
        let streams = sdp::parse(body).ok_or(Unacceptable::Malformed)?;
        let (chosen, plan) = streams
            .iter()
            .enumerate()
            .find_map(|(index, stream)| Some((index, plan(stream, is_ipv4)?)))
            .ok_or(Unacceptable::NothingInCommon)?;
        Ok(Self { streams, chosen, plan })
    }

    /// The codec that will be answered.
    pub fn codec(&self) -> Codec {
        self.plan.codec
    }

    /// May our media be at `address`? The families must be the same.
    pub fn fits(&self, address: IpAddr) -> bool {
        self.plan.remote_rtp.is_ipv4() == address.is_ipv4()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Stable,
    OfferPending,
}

/// The state of one call's negotiation.
#[derive(Debug)]
pub struct Negotiation {
    state: State,
    session_id: u64,
    version: u64,
    /// All of our last description but its version, which counts up only when something changed.
    last: Option<Vec<u8>>,
    plan: Option<MediaPlan>,
}

impl Negotiation {
    /// Nothing said yet. `session_id` goes into `o=`.
    pub fn new(session_id: u64) -> Self {
        // Some peers read `o=` into signed 64 bits.
        Self { state: State::Idle, session_id: session_id >> 2, version: 0, last: None, plan: None }
    }

    /// Is an offer of ours unanswered? Another offer then gets 491.
    pub fn offer_pending(&self) -> bool {
        self.state == State::OfferPending
    }

    /// Answers `offer`. Not to be called while an offer of ours is pending.
    pub fn answer(&mut self, offer: &Offer, local: &LocalMedia) -> (Vec<u8>, MediaPlan) {
        let mut plan = offer.plan.clone();
        plan.rtcp_mux &= local.rtcp_mux;
        if plan.rtcp_mux {
            plan.remote_rtcp = plan.remote_rtp;
        }
        let medias = offer.streams.iter().enumerate().map(|(index, stream)| {
            if index == offer.chosen {
                let mut media = sdp::audio(&[(plan.codec, plan.payload_type)], plan.telephone_event, plan.direction, local, plan.rtcp_mux);
                media.proto = stream.protocol.clone();
                media
            } else {
                sdp::refused(stream)
            }
        });
        let body = self.describe(local, medias.collect());
        self.state = State::Stable;
        self.plan = Some(plan.clone());
        (body, plan)
    }

    /// Offers all that we have, both ways.
    pub fn offer(&mut self, local: &LocalMedia) -> Vec<u8> {
        let event = self.plan.as_ref().and_then(|plan| plan.telephone_event).unwrap_or(TELEPHONE_EVENT);
        let codecs = [Codec::Pcmu, Codec::Pcma].map(|codec| (codec, codec.payload_type()));
        let media = sdp::audio(&codecs, Some(event), Direction::SendRecv, local, local.rtcp_mux);
        self.state = State::OfferPending;
        self.describe(local, vec![media])
    }

    /// Takes the answer to our offer.
    ///
    /// # Errors
    /// [`Unacceptable`]; the offer is then still pending: [`Negotiation::withdraw`] it.
    pub fn accept_answer(&mut self, body: &[u8], local: &LocalMedia) -> Result<MediaPlan, Unacceptable> {
        let streams = sdp::parse(body).ok_or(Unacceptable::Malformed)?;
        let stream = streams.first().ok_or(Unacceptable::NothingInCommon)?;
        let mut plan = plan(stream, local.address.is_ipv4()).ok_or(Unacceptable::NothingInCommon)?;
        plan.rtcp_mux &= local.rtcp_mux;
        if plan.rtcp_mux {
            plan.remote_rtcp = plan.remote_rtp;
        }
        self.state = State::Stable;
        self.plan = Some(plan.clone());
        Ok(plan)
    }

    /// Takes back our offer: what was agreed before stands.
    pub fn withdraw(&mut self) {
        if self.state == State::OfferPending {
            self.state = if self.plan.is_some() { State::Stable } else { State::Idle };
        }
    }

    /// What is agreed, if anything is.
    pub fn plan(&self) -> Option<&MediaPlan> {
        self.plan.as_ref()
    }

    fn describe(&mut self, local: &LocalMedia, medias: Vec<Media>) -> Vec<u8> {
        let mut session = sdp::session(self.session_id, local, medias);
        let unversioned = sdp::print(&session);
        if self.last.as_ref() != Some(&unversioned) {
            self.version += 1;
            self.last = Some(unversioned);
        }
        session.origin.sess_version = self.version;
        sdp::print(&session)
    }
}

/// What we agree to in a stream of the far end, if we can.
fn plan(stream: &Stream, is_ipv4: bool) -> Option<MediaPlan> {
    let plain_rtp = PROFILES.iter().any(|profile| stream.protocol.eq_ignore_ascii_case(profile));
    let remote_rtp = stream.rtp.filter(|address| address.is_ipv4() == is_ipv4)?;
    if stream.kind != "audio" || !plain_rtp {
        return None;
    }
    let (codec, payload_type) = stream.formats.iter().find_map(|format| Some((codec(format)?, format.payload_type)))?;
    let telephone_event = stream
        .formats
        .iter()
        .find(|format| format.encoding == "TELEPHONE-EVENT" && format.clock_rate == CLOCK_RATE)
        .map(|format| format.payload_type);
    // An unspecified address is how RFC 2543 puts a stream on hold: the far end does not receive.
    let receives = stream.direction.receives() && !remote_rtp.ip().is_unspecified();
    let next_port = SocketAddr::new(remote_rtp.ip(), remote_rtp.port().checked_add(1).unwrap_or(remote_rtp.port()));
    Some(MediaPlan {
        codec,
        payload_type,
        remote_rtp,
        remote_rtcp: stream.rtcp.unwrap_or(next_port),
        rtcp_mux: stream.rtcp_mux,
        telephone_event,
        direction: Direction::new(stream.direction.sends(), receives).reversed(),
        ptime_ms: PTIME_MS,
    })
}

fn codec(format: &Format) -> Option<Codec> {
    [Codec::Pcmu, Codec::Pcma].into_iter().find(|codec| format.encoding == codec.encoding_name() && format.clock_rate == CLOCK_RATE)
}

/// Profiles without encryption; feedback (AVPF) that is never sent is allowed.
const PROFILES: [&str; 2] = ["RTP/AVP", "RTP/AVPF"];

/// The payload type for events that nearly everybody uses, where the choice is ours.
const TELEPHONE_EVENT: u8 = 101;

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: LocalMedia =
        LocalMedia { address: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 9)), rtp_port: 40000, rtcp_port: 40001, rtcp_mux: true };

    fn offer_of(media: &str) -> Result<Offer, Unacceptable> {
        Offer::read(format!("v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n{media}").as_bytes(), true)
    }

    fn answer_to(media: &str) -> (String, MediaPlan) {
        let (body, plan) = Negotiation::new(77).answer(&offer_of(media).expect(media), &LOCAL);
        (String::from_utf8(body).expect("text"), plan)
    }

    #[test]
    fn the_first_codec_that_we_have_is_taken_with_its_own_numbers() {
        let (body, plan) = answer_to(
            "m=audio 6000 RTP/AVP 18 97 8 0 96 101\r\na=rtpmap:97 opus/48000/2\r\na=rtpmap:96 telephone-event/48000\r\na=rtpmap:101 telephone-event/8000\r\na=rtpmap:101 telephone-event/8000\r\n",
        );
        assert_eq!((plan.codec, plan.payload_type, plan.telephone_event), (Codec::Pcma, 8, Some(101)));
        assert_eq!(plan.remote_rtp, "192.0.2.1:6000".parse().expect("address"));
        assert_eq!(plan.remote_rtcp, "192.0.2.1:6001".parse().expect("address"));
        assert!(body.contains("m=audio 40000 RTP/AVP 8 101\r\n"), "{body}");
        assert!(body.contains("a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=ptime:20\r\n"), "{body}");
        let (_, plan) = answer_to("m=audio 6000 RTP/AVP 0 110\r\na=rtpmap:0 G722/8000\r\na=rtpmap:110 pcmu/8000/1\r\n");
        assert_eq!((plan.codec, plan.payload_type, plan.telephone_event), (Codec::Pcmu, 110, None));
    }

    #[test]
    fn hold_is_answered_from_our_side() {
        let direction = |attributes: &str| answer_to(&format!("m=audio 6000 RTP/AVP 0\r\n{attributes}"));
        for (theirs, ours) in [("sendonly", "recvonly"), ("recvonly", "sendonly"), ("inactive", "inactive"), ("sendrecv", "sendrecv")] {
            let (body, plan) = direction(&format!("a={theirs}\r\n"));
            assert!(body.contains(&format!("a={ours}\r\n")), "{body}");
            assert_eq!(sdp::attribute(plan.direction), ours);
        }
        assert_eq!(direction("c=IN IP4 0.0.0.0\r\n").1.direction, Direction::RecvOnly);
        assert_eq!(direction("c=IN IP4 0.0.0.0\r\na=inactive\r\n").1.direction, Direction::Inactive);
    }

    #[test]
    fn other_streams_keep_their_place_with_port_0() {
        let (body, _) =
            answer_to("m=video 6004 RTP/AVP 31\r\nm=audio 6000 RTP/SAVP 0\r\nm=audio 6002 RTP/AVP 0\r\nm=image 6008 udptl t38\r\n");
        let lines: Vec<&str> = body.lines().filter(|line| line.starts_with("m=")).collect();
        assert_eq!(lines, ["m=video 0 RTP/AVP 31", "m=audio 0 RTP/SAVP 0", "m=audio 40000 RTP/AVP 0", "m=image 0 udptl t38"]);
    }

    #[test]
    fn what_has_nothing_in_common_is_refused() {
        for media in [
            "",
            "m=audio 6000 RTP/SAVP 0\r\n",
            "m=audio 0 RTP/AVP 0\r\n",
            "m=audio 6000 RTP/AVP 18\r\n",
            "m=video 6000 RTP/AVP 0\r\n",
            "m=audio 6000 RTP/AVP 0\r\nc=IN IP6 ::1\r\n",
            "m=audio 6000 RTP/AVP 0\r\nc=IN IP4 host.example.com\r\n",
        ] {
            assert_eq!(offer_of(media).expect_err(media), Unacceptable::NothingInCommon, "{media}");
        }
        assert_eq!(Offer::read(b"nonsense", true).expect_err("nonsense"), Unacceptable::Malformed);
    }

    #[test]
    fn rtcp_goes_where_the_far_end_says() {
        let (_, plan) = answer_to("m=audio 6000 RTP/AVP 0\r\na=rtcp:7000 IN IP4 192.0.2.7\r\n");
        assert_eq!(plan.remote_rtcp, "192.0.2.7:7000".parse().expect("address"));
        let (body, plan) = answer_to("m=audio 6000 RTP/AVP 0\r\na=rtcp-mux\r\na=rtcp:7000\r\n");
        assert!(plan.rtcp_mux && body.contains("a=rtcp-mux\r\n"));
        assert_eq!(plan.remote_rtcp, plan.remote_rtp);
        let local = LocalMedia { rtcp_mux: false, rtcp_port: 45000, ..LOCAL };
        let offer = offer_of("m=audio 6000 RTP/AVP 0\r\na=rtcp-mux\r\n").expect("offer");
        let (body, plan) = Negotiation::new(1).answer(&offer, &local);
        assert!(!plan.rtcp_mux && String::from_utf8_lossy(&body).contains("a=rtcp:45000\r\n"));
    }

    #[test]
    fn the_version_counts_up_only_when_something_changes() {
        let mut negotiation = Negotiation::new(400);
        let mut version = |media: &str| {
            let (body, _) = negotiation.answer(&offer_of(media).expect(media), &LOCAL);
            String::from_utf8_lossy(&body).lines().nth(1).map(str::to_owned).expect("origin")
        };
        assert_eq!(version("m=audio 6000 RTP/AVP 0\r\n"), "o=- 100 1 IN IP4 192.0.2.9");
        assert_eq!(version("m=audio 6010 RTP/AVP 0\r\n"), "o=- 100 1 IN IP4 192.0.2.9");
        assert_eq!(version("m=audio 6010 RTP/AVP 0\r\na=sendonly\r\n"), "o=- 100 2 IN IP4 192.0.2.9");
    }

    #[test]
    fn a_late_offer_is_answered_or_taken_back() {
        let mut negotiation = Negotiation::new(4);
        let body = String::from_utf8(negotiation.offer(&LOCAL)).expect("text");
        assert!(body.contains("m=audio 40000 RTP/AVP 0 8 101\r\n"), "{body}");
        assert!(negotiation.offer_pending());
        assert_eq!(negotiation.accept_answer(b"v=0\r\n", &LOCAL), Err(Unacceptable::NothingInCommon));
        negotiation.withdraw();
        assert!(!negotiation.offer_pending() && negotiation.plan().is_none());
        negotiation.offer(&LOCAL);
        let answer = b"v=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 6000 RTP/AVP 8 96\r\na=rtpmap:96 telephone-event/8000\r\n";
        let plan = negotiation.accept_answer(answer, &LOCAL).expect("answer");
        assert_eq!((plan.codec, plan.telephone_event), (Codec::Pcma, Some(96)));
        assert!(!negotiation.offer_pending());
    }
}
