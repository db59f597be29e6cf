//! What is not a call, and what is not taken: each with its status.

use super::rig::{Caller, OFFER, Rig, case_file, config, header, headers, sdp, status, statuses};
use crate::surface::sip::Users;

#[test]
fn options_tells_what_we_can_do() {
    let mut rig = Rig::new();
    let sent = rig.receive(&Caller::new("c1").request("OPTIONS", ""));
    assert_eq!(status(&sent[0]), 200);
    assert!(header(&sent[0], "Allow").contains("UPDATE"));
    assert_eq!(header(&sent[0], "Accept"), "application/sdp");
    assert_eq!(headers(&sent[0], "Supported").len(), 1);
    assert!(header(&sent[0], "To").contains(";tag="));
}

#[test]
fn methods_that_are_not_served_are_refused_by_what_they_are() {
    let mut rig = Rig::new();
    for (method, wanted) in [("REGISTER", 405), ("SUBSCRIBE", 405), ("MESSAGE", 405), ("REFER", 405), ("FROBNICATE", 501), ("NOTIFY", 200)]
    {
        let sent = rig.receive(&Caller::new("c1").request(method, ""));
        assert_eq!(status(&sent[0]), wanted, "{method}");
        assert_eq!(headers(&sent[0], "Allow").len(), usize::from(wanted != 200), "{method}");
    }
}

#[test]
fn what_an_invite_may_not_ask_is_refused() {
    let refused = |edit: fn(&mut Caller), body: &str| {
        let mut rig = Rig::new();
        let mut caller = Caller::new("c1");
        edit(&mut caller);
        let sent = rig.receive(&caller.invite(body));
        assert!(rig.events.is_empty());
        sent[0].clone()
    };
    let sent = refused(|caller| caller.extra = "Require: 100rel, frobnicate\r\n", OFFER);
    assert_eq!((status(&sent), header(&sent, "Unsupported")), (420, "100rel, frobnicate"));
    let sent = refused(|caller| caller.extra = "Content-Type: text/plain\r\n", "hello");
    assert_eq!((status(&sent), header(&sent, "Accept")), (415, "application/sdp"));
    let sent = refused(|caller| caller.extra = "Content-Encoding: gzip\r\n", OFFER);
    assert_eq!(status(&sent), 415);
    assert_eq!(status(&refused(|caller| caller.uri = "mailto:box@example.com", OFFER)), 416);
    assert_eq!(status(&refused(|_| {}, &sdp("m=audio 6000 RTP/AVP 18\r\n"))), 488);
    assert_eq!(status(&refused(|_| {}, &sdp("m=audio 6000 RTP/SAVP 0\r\n"))), 488);
    assert_eq!(status(&refused(|_| {}, "nonsense")), 400);
}

#[test]
fn only_known_users_are_served_by_name_or_number() {
    let mut config = config();
    config.users = Users::Listed(vec!["box".into(), "+34600".into()]);
    let mut rig = Rig::with(config);
    let mut try_uri = |uri: &'static str, method: &str, hops: &str| {
        let mut caller = Caller::new("c1");
        caller.uri = uri;
        caller.branch = u32::try_from(rig.sent.len()).unwrap_or(0) * 100;
        caller.cseq = caller.branch + 1;
        let request = caller.request(method, "").replace("Max-Forwards: 70", hops);
        status(&rig.receive(&request)[0])
    };
    assert_eq!(try_uri("sip:box@192.0.2.9", "INVITE", "Max-Forwards: 0"), 100);
    assert_eq!(try_uri("sip:%62ox;x=y@192.0.2.9", "INVITE", "Max-Forwards: 70"), 100);
    assert_eq!(try_uri("tel:+34600", "INVITE", "Max-Forwards: 70"), 100);
    assert_eq!(try_uri("sip:other@192.0.2.9", "INVITE", "Max-Forwards: 70"), 404);
    assert_eq!(try_uri("sip:other@192.0.2.9", "INVITE", "Max-Forwards: 0"), 483);
    assert_eq!(try_uri("sip:other@192.0.2.9", "OPTIONS", "Max-Forwards: 70"), 404);
    assert_eq!(try_uri("sip:192.0.2.9", "OPTIONS", "Max-Forwards: 70"), 200);
}

#[test]
fn sources_that_are_not_allowed_get_403_and_leave_nothing() {
    let mut rig = Rig::new();
    let stranger = "203.0.113.5:5060".parse().expect("address");
    let invite = Caller::new("c1").invite(OFFER);
    let first = rig.receive_from(invite.as_bytes(), stranger);
    assert_eq!(statuses(&first), [403]);
    assert_eq!(rig.receive_from(invite.as_bytes(), stranger), first, "the same answer again");
    assert!(rig.receive_from(b"INVITE sip:a SIP/2.0\r\nVia: x\r\n\r\n", stranger).is_empty(), "malformed: silence");
    assert_eq!((rig.endpoint.transactions(), rig.events.len()), (0, 0));
    assert_eq!(rig.endpoint.counters().forbidden, 2);
}

#[test]
fn a_latin_1_display_name_is_taken_and_echoed_byte_for_byte() {
    let mut rig = Rig::new();
    let invite: Vec<u8> = Caller::new("c1")
        .invite(OFFER)
        .replace("\"Ana\"", "\"Jos\u{e9}\"")
        .chars()
        .map(|character| u8::try_from(u32::from(character)).expect("latin 1"))
        .collect();
    let sent = rig.receive_from(&invite, super::rig::caller_address());
    assert!(header(&sent[0], "From").starts_with("\"Jos\u{e9}\" <sip:ana@"), "{}", sent[0]);
    assert_eq!(rig.incoming().from.display.as_deref(), Some("José"));
}

#[test]
fn a_body_without_content_length_is_the_rest_of_the_datagram() {
    let mut rig = Rig::new();
    let invite = Caller::new("c1").invite(OFFER).replace(&format!("Content-Length: {}\r\n", OFFER.len()), "");
    assert_eq!(statuses(&rig.receive(&invite)), [100]);
    assert!(rig.incoming().codec.is_some());
}

/// RFC 4475 and RFC 5118, as a callee answers them. An INVITE that is taken shows as 100.
#[test]
fn the_torture_messages_get_their_answers() {
    let rows = [
        ("rfc4475/intmeth", 501),
        ("rfc4475/esc01", 100),
        ("rfc4475/esc02", 501),
        ("rfc4475/lwsdisp", 200),
        ("rfc4475/semiuri", 200),
        ("rfc4475/transports", 200),
        ("rfc4475/badinv01", 400),
        ("rfc4475/clerr", 400),
        ("rfc4475/scalar02", 400),
        ("rfc4475/quotbal", 400),
        ("rfc4475/ltgtruri", 400),
        ("rfc4475/lwsstart", 400),
        ("rfc4475/badaspec", 400),
        ("rfc4475/badvers", 505),
        ("rfc4475/mismatch01", 400),
        ("rfc4475/insuf", 400),
        ("rfc4475/unkscm", 416),
        ("rfc4475/bext01", 420),
        ("rfc4475/invut", 415),
        ("rfc4475/regaut01", 405),
        ("rfc4475/zeromf", 200),
        ("rfc4475/cparam01", 405),
        ("rfc4475/inv2543", 100),
        ("rfc4475/baddate", 100),
        ("rfc5118/ipv6-good", 405),
        ("rfc5118/ipv6-bad", 400),
        ("rfc5118/port-ambiguous", 405),
        ("rfc5118/port-unambiguous", 405),
        ("rfc5118/ipv6-in-sdp", 488),
        ("rfc5118/mult-ip-in-header", 481),
    ];
    for (file, wanted) in rows {
        let Some(datagram) = case_file(&format!("c_malformed/{file}.dat")) else {
            continue;
        };
        let sent = Rig::new().receive_from(&datagram, super::rig::caller_address());
        assert_eq!(statuses(&sent), [wanted], "{file}");
        if file == "rfc4475/bext01" {
            assert_eq!(header(&sent[0], "Unsupported"), "nothingSupportsThis, nothingSupportsThisEither");
        }
    }
}
