//! Offers and answers within a call.

use super::rig::{Caller, OFFER, Rig, caller_address, header, sdp, status, statuses};
use crate::g711::Codec;
use crate::surface::media::Direction;
use crate::surface::sip::{Command, EndCause, Event, LocalMedia};

fn origin_version(message: &str) -> u64 {
    let origin = message.lines().find_map(|line| line.strip_prefix("o=")).expect("o=");
    origin.split(' ').nth(2).expect("version").parse().expect("number")
}

#[test]
fn hold_and_resume_are_answered_and_told() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.established(&mut caller);
    let before = origin_version(&rig.sent.iter().rev().find(|(text, _)| status(text) == 200).expect("200").0);
    let hold = rig.receive(&caller.next("INVITE", &format!("{OFFER}a=sendonly\r\n")));
    assert!(hold[0].contains("a=recvonly\r\n"), "{}", hold[0]);
    assert_eq!(origin_version(&hold[0]), before + 1);
    let Event::Renegotiated { media, .. } = rig.last_event() else { panic!("{:?}", rig.events) };
    assert_eq!(media.direction, Direction::RecvOnly);
    rig.receive(&caller.ack(""));
    let resume = rig.receive(&caller.next("INVITE", OFFER));
    assert!(resume[0].contains("a=sendrecv\r\n"));
    assert_eq!(origin_version(&resume[0]), before + 2);
    rig.receive(&caller.ack(""));
    let events = rig.events.len();
    let refresh = rig.receive(&caller.next("INVITE", OFFER));
    assert_eq!(origin_version(&refresh[0]), before + 2, "a refresh changes nothing");
    assert_eq!(rig.events.len(), events);
}

#[test]
fn a_re_invite_from_another_address_is_told_with_it_also_where_it_says_the_same() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.established(&mut caller);
    let elsewhere = "192.0.2.77:5060".parse().expect("address");
    rig.receive_from(caller.next("INVITE", OFFER).as_bytes(), elsewhere);
    assert!(matches!(rig.last_event(), Event::Renegotiated { source, .. } if *source == elsewhere), "{:?}", rig.events);
    rig.receive_from(caller.ack("").as_bytes(), elsewhere);
    let events = rig.events.len();
    rig.receive_from(caller.next("INVITE", OFFER).as_bytes(), elsewhere);
    assert_eq!(rig.events.len(), events, "a refresh changes nothing");
}

#[test]
fn a_re_invite_without_our_codec_is_refused_and_the_old_media_stays() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.established(&mut caller);
    let events = rig.events.len();
    assert_eq!(statuses(&rig.receive(&caller.next("INVITE", &sdp("m=audio 6000 RTP/AVP 18\r\n")))), [488]);
    caller.with_branch("ACK", "");
    assert_eq!(statuses(&rig.receive(&caller.next("INVITE", "v=0\r\nm=audio")))[0] / 100, 4);
    assert_eq!(rig.events.len(), events);
    let sent = rig.receive(&caller.next("INVITE", &sdp("m=audio 6000 RTP/AVP 8\r\n")));
    assert_eq!(status(&sent[0]), 200);
    let Event::Renegotiated { media, .. } = rig.last_event() else { panic!("{:?}", rig.events) };
    assert_eq!((media.codec, media.telephone_event), (Codec::Pcma, None));
}

#[test]
fn a_late_offer_is_answered_in_the_ack() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(""));
    assert_eq!(rig.incoming().codec, None);
    let ok = rig.accept();
    assert!(ok.contains("m=audio 40000 RTP/AVP 0 8 101\r\n"), "{ok}");
    caller.learn(&ok);
    rig.receive(&caller.ack(&sdp("m=audio 6000 RTP/AVP 8 101\r\na=rtpmap:101 telephone-event/8000\r\n")));
    let Event::Established { media, source, .. } = rig.last_event() else { panic!("{:?}", rig.events) };
    assert_eq!((media.codec, media.telephone_event, *source), (Codec::Pcma, Some(101), caller_address()));
}

#[test]
fn a_call_is_established_with_the_address_that_described_its_media() {
    let elsewhere = "192.0.2.77:5060".parse().expect("address");
    for (offer, answer, wanted) in [(OFFER, "", caller_address()), ("", OFFER, elsewhere)] {
        let mut rig = Rig::new();
        let mut caller = Caller::new("c1");
        rig.receive(&caller.invite(offer));
        let ok = rig.accept();
        caller.learn(&ok);
        rig.receive_from(caller.ack(answer).as_bytes(), elsewhere);
        assert!(matches!(rig.last_event(), Event::Established { source, .. } if *source == wanted), "{:?}", rig.events);
    }
}

#[test]
fn an_ack_that_lacks_the_answer_moves_no_media() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.established(&mut caller);
    let elsewhere = "192.0.2.77:5060".parse().expect("address");
    rig.receive(&caller.next("INVITE", ""));
    rig.receive_from(caller.ack("").as_bytes(), elsewhere);
    rig.receive_from(caller.next("INVITE", OFFER).as_bytes(), elsewhere);
    assert!(matches!(rig.last_event(), Event::Renegotiated { source, .. } if *source == elsewhere), "{:?}", rig.events);
}

#[test]
fn a_late_offer_that_is_not_answered_ends_the_call() {
    for body in [String::new(), sdp("m=audio 0 RTP/AVP 0\r\n"), "nonsense".to_owned()] {
        let mut rig = Rig::new();
        let mut caller = Caller::new("c1");
        rig.receive(&caller.invite(""));
        let ok = rig.accept();
        caller.learn(&ok);
        let sent = rig.receive(&caller.ack(&body));
        assert!(sent[0].starts_with("BYE "), "{sent:?}");
        assert_eq!(rig.last_event(), &Event::Ended { call: rig.call(), cause: EndCause::NoMedia });
    }
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(""));
    let ok = rig.accept();
    caller.learn(&ok);
    assert_eq!(statuses(&rig.receive(&caller.next("BYE", ""))), [200]);
    assert_eq!(rig.endpoint.calls_open(), 0);
}

#[test]
fn a_refresh_without_offer_whose_ack_has_no_answer_keeps_the_call() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.established(&mut caller);
    let events = rig.events.len();
    rig.receive(&caller.next("INVITE", ""));
    rig.receive(&caller.ack(""));
    assert_eq!((rig.endpoint.calls_open(), rig.events.len()), (1, events));
    assert_eq!(statuses(&rig.receive(&caller.next("INVITE", OFFER))), [200]);
}

#[test]
fn a_re_invite_that_announces_a_description_and_has_none_is_offered_ours() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.established(&mut caller);
    caller.extra = "Content-Type: application/sdp\r\n";
    let sent = rig.receive(&caller.next("INVITE", ""));
    assert!(sent[0].contains("m=audio 40000 RTP/AVP 0 8 101\r\n"), "{}", sent[0]);
    rig.receive(&caller.ack(&sdp("m=audio 6000 RTP/AVP 0\r\nc=IN IP4 192.0.2.33\r\n")));
    let Event::Renegotiated { media, .. } = rig.last_event() else { panic!("{:?}", rig.events) };
    assert_eq!(media.remote_rtp, "192.0.2.33:6000".parse().expect("address"));
}

#[test]
fn update_is_answered_with_and_without_an_offer() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.established(&mut caller);
    let sent = rig.receive(&caller.next("UPDATE", ""));
    assert_eq!((status(&sent[0]), header(&sent[0], "Content-Length")), (200, "0"));
    let sent = rig.receive(&caller.next("UPDATE", &format!("{OFFER}a=inactive\r\n")));
    assert!(sent[0].contains("a=inactive\r\n"));
    assert!(matches!(rig.last_event(), Event::Renegotiated { media, .. } if media.direction == Direction::Inactive));
    assert!(rig.pass(std::time::Duration::from_secs(40)).is_empty(), "an UPDATE has no ACK to wait for");
}

#[test]
fn media_of_another_address_family_is_refused() {
    let mut rig = Rig::new();
    assert_eq!(statuses(&rig.receive(&Caller::new("c1").invite(&sdp("m=audio 6000 RTP/AVP 0\r\nc=IN IP6 2001:db8::1\r\n")))), [488]);
    rig.receive(&Caller::new("c2").invite(OFFER));
    let local = LocalMedia { address: "2001:db8::9".parse().expect("address"), ..super::rig::local_media() };
    assert_eq!(statuses(&rig.command(Command::Accept { call: rig.call(), local })), [488]);
    assert_eq!(rig.last_event(), &Event::Ended { call: rig.call(), cause: EndCause::Rejected { status: 488 } });
}

#[test]
fn digits_in_info_are_told() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.established(&mut caller);
    let bodies = [
        ("Content-Type: application/dtmf-relay\r\n", "Signal=5\r\nDuration=160\r\n", Some(('5', Some(160)))),
        ("Content-Type: application/dtmf-relay\r\n", "Signal= *\r\nDuration= 100\r\n", Some(('*', Some(100)))),
        ("Content-Type: application/dtmf-relay\r\n", "Signal=11\r\n", Some(('#', None))),
        ("Content-Type: application/dtmf\r\n", "d", Some(('D', None))),
        ("Content-Type: application/dtmf\r\n", "55", None),
        ("Content-Type: application/media_control+xml\r\n", "5", None),
    ];
    for (content_type, body, wanted) in bodies {
        let events = rig.events.len();
        caller.extra = content_type;
        assert_eq!(statuses(&rig.receive(&caller.next("INFO", body))), [200]);
        let told = rig.events.get(events).map(|event| match event {
            Event::Digit { digit, duration_ms, .. } => (*digit, *duration_ms),
            other => panic!("{other:?}"),
        });
        assert_eq!(told, wanted, "{body}");
    }
}
