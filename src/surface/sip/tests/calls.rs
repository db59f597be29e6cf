//! A call from INVITE to its end, and what the network does to it.

use std::time::Duration;

use super::rig::{Caller, OFFER, Rig, answer, config, header, local_media, status, statuses};
use crate::g711::Codec;
use crate::surface::sip::{Admission, Command, EndCause, Event, SipError};

#[test]
fn a_call_rings_is_answered_acknowledged_and_ended_by_the_caller() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    assert_eq!(statuses(&rig.receive(&caller.invite(OFFER))), [100]);
    let incoming = rig.incoming().clone();
    assert_eq!(incoming.from.display.as_deref(), Some("Ana"));
    assert_eq!((incoming.from.user.as_deref(), incoming.from.host.as_str()), (Some("ana"), "example.com"));
    assert_eq!((incoming.to_user.as_deref(), incoming.codec), (Some("box"), Some(Codec::Pcmu)));
    let ringing = rig.command(Command::Ring { call: incoming.call });
    assert_eq!(statuses(&ringing), [180]);
    let ok = rig.accept();
    assert_eq!(status(&ok), 200);
    assert_eq!(header(&ok, "Contact"), "<sip:192.0.2.9:5060>");
    assert_eq!(header(&ok, "Content-Type"), "application/sdp");
    assert!(ok.contains("m=audio 40000 RTP/AVP 0 101"), "{ok}");
    assert_eq!(header(&ringing[0], "To"), header(&ok, "To"), "one tag for the whole dialog");
    caller.learn(&ok);
    assert!(rig.receive(&caller.ack("")).is_empty());
    let Event::Established { media, .. } = rig.last_event() else { panic!("{:?}", rig.events) };
    assert_eq!(media.remote_rtp, "192.0.2.1:6000".parse().expect("address"));
    assert_eq!(media.telephone_event, Some(101));
    assert_eq!(statuses(&rig.receive(&caller.next("BYE", ""))), [200]);
    assert_eq!(rig.last_event(), &Event::Ended { call: incoming.call, cause: EndCause::Bye });
    assert_eq!(rig.endpoint.calls_open(), 0);
    rig.pass(Duration::from_secs(40));
    assert_eq!((rig.endpoint.transactions(), rig.endpoint.deadline()), (0, None), "nothing is left");
}

#[test]
fn retransmissions_are_answered_the_same_and_tell_nothing_twice() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    let invite = caller.invite(OFFER);
    assert_eq!(rig.receive(&invite), rig.receive(&invite));
    let ok = rig.accept();
    assert!(rig.receive(&invite).is_empty(), "the 200 is repeated by its own timer");
    caller.learn(&ok);
    let ack = caller.ack("");
    rig.receive(&ack);
    rig.receive(&ack);
    let bye = caller.next("BYE", "");
    assert_eq!(rig.receive(&bye), rig.receive(&bye));
    rig.receive(&ack);
    assert_eq!(rig.events.len(), 3, "{:?}", rig.events);
}

#[test]
fn the_200_is_repeated_until_its_ack() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    let ok = rig.accept();
    caller.learn(&ok);
    let again = rig.pass(Duration::from_millis(8000));
    let times: Vec<u128> = again.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [500, 1500, 3500, 7500]);
    assert!(again.iter().all(|(_, datagram)| *datagram == ok));
    rig.receive(&caller.ack(""));
    assert!(rig.pass(Duration::from_secs(60)).is_empty());
    assert!(matches!(rig.last_event(), Event::Established { .. }));
}

#[test]
fn without_an_ack_the_call_is_ended_after_64_t1() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    let ok = rig.accept();
    caller.learn(&ok);
    let sent = rig.pass(Duration::from_secs(33));
    let times: Vec<u128> = sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500, 32000, 32500]);
    assert!(sent[10].1.starts_with("BYE sip:ana@192.0.2.1:5060 SIP/2.0"), "{}", sent[10].1);
    assert_eq!(sent[10].1, sent[11].1, "the BYE is repeated");
    assert_eq!(rig.last_event(), &Event::Ended { call: rig.call(), cause: EndCause::NoAck });
    let bye = sent[10].1.clone();
    rig.receive(&answer(&bye, 200));
    rig.pass(Duration::from_secs(40));
    assert_eq!((rig.endpoint.transactions(), rig.endpoint.deadline()), (0, None));
}

#[test]
fn a_bye_before_the_ack_is_answered_and_ends_the_call() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    let ok = rig.accept();
    caller.learn(&ok);
    assert_eq!(statuses(&rig.receive(&caller.next("BYE", ""))), [200]);
    assert_eq!(rig.last_event(), &Event::Ended { call: rig.call(), cause: EndCause::Bye });
    assert!(rig.pass(Duration::from_secs(60)).is_empty(), "the 200 is not repeated any more");
}

#[test]
fn a_bye_before_our_answer_also_ends_the_invite() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    let ringing = rig.command(Command::Ring { call: rig.call() });
    caller.learn(&ringing[0]);
    assert_eq!(statuses(&rig.receive(&caller.next("BYE", ""))), [200, 487]);
    assert_eq!(rig.last_event(), &Event::Ended { call: rig.call(), cause: EndCause::Bye });
}

#[test]
fn cancel_gives_200_and_487_and_the_ack_ends_it() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    rig.command(Command::Ring { call: rig.call() });
    let sent = rig.receive(&caller.with_branch("CANCEL", ""));
    assert_eq!(statuses(&sent), [200, 487]);
    assert_eq!(header(&sent[1], "CSeq"), "1 INVITE");
    assert_eq!(rig.last_event(), &Event::Ended { call: rig.call(), cause: EndCause::Cancelled });
    let again = rig.pass(Duration::from_millis(1600));
    assert_eq!(again.len(), 2, "the 487 is repeated until its ACK");
    caller.learn(&sent[1]);
    rig.receive(&caller.with_branch("ACK", ""));
    assert!(rig.pass(Duration::from_secs(60)).is_empty());
    assert_eq!(rig.endpoint.transactions(), 0);
    let call = rig.call();
    let late = rig.endpoint.command(rig.now, Command::Accept { call, local: local_media() });
    assert!(matches!(late, Err(SipError::UnknownCall(_))));
}

#[test]
fn a_cancel_that_comes_too_late_or_for_nothing_changes_nothing() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    assert_eq!(statuses(&rig.receive(&caller.with_branch("CANCEL", ""))), [481]);
    rig.receive(&caller.invite(OFFER));
    let ok = rig.accept();
    assert_eq!(statuses(&rig.receive(&caller.with_branch("CANCEL", ""))), [200]);
    caller.learn(&ok);
    rig.receive(&caller.ack(""));
    assert!(matches!(rig.last_event(), Event::Established { .. }));
}

#[test]
fn our_bye_ends_the_call_at_once_and_is_repeated_until_answered() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.established(&mut caller);
    let call = rig.call();
    let bye = rig.command(Command::Bye { call });
    assert!(bye[0].starts_with("BYE sip:ana@192.0.2.1:5060 SIP/2.0\r\n"), "{}", bye[0]);
    assert_eq!(header(&bye[0], "To"), "\"Ana\" <sip:ana@example.com>;tag=a1");
    assert_eq!(header(&bye[0], "From"), format!("<sip:box@192.0.2.9>;tag={}", caller.to_tag));
    assert_eq!(rig.last_event(), &Event::Ended { call, cause: EndCause::LocalBye });
    assert_eq!(rig.pass(Duration::from_secs(2)).len(), 2);
    assert_eq!(statuses(&rig.receive(&caller.next("INFO", ""))), [481]);
    assert_eq!(statuses(&rig.receive(&caller.next("INVITE", OFFER))), [481]);
    rig.receive(&caller.with_branch("ACK", ""));
    // The caller hangs up at the same moment.
    assert_eq!(statuses(&rig.receive(&caller.next("BYE", ""))), [200]);
    rig.receive(&answer(&bye[0], 481));
    assert!(rig.pass(Duration::from_secs(60)).is_empty());
    assert_eq!((rig.endpoint.byes_pending(), rig.events.len()), (0, 3));
}

#[test]
fn our_bye_waits_for_the_ack() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    let ok = rig.accept();
    caller.learn(&ok);
    assert!(rig.command(Command::Bye { call: rig.call() }).is_empty());
    assert_eq!(rig.last_event(), &Event::Ended { call: rig.call(), cause: EndCause::LocalBye });
    let sent = rig.receive(&caller.ack(""));
    assert!(sent[0].starts_with("BYE "), "{sent:?}");
}

#[test]
fn a_call_that_nobody_answers_gets_480() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    let sent = rig.pass(Duration::from_millis(180_100));
    assert_eq!(status(&sent[0].1), 480);
    assert_eq!(rig.last_event(), &Event::Ended { call: rig.call(), cause: EndCause::Unanswered });
}

#[test]
fn rejecting_sends_the_status_and_the_call_is_over() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    let call = rig.call();
    assert_eq!(statuses(&rig.command(Command::Reject { call, status: 603 })), [603]);
    assert_eq!(rig.last_event(), &Event::Ended { call, cause: EndCause::Rejected { status: 603 } });
    let again = rig.pass(Duration::from_secs(33));
    assert_eq!(again.len(), 10, "timer G until timer H");
    assert_eq!(rig.endpoint.transactions(), 0);
}

#[test]
fn shutdown_refuses_new_calls_and_ends_all() {
    let mut rig = Rig::new();
    let (mut up, mut ringing, mut unacknowledged) = (Caller::new("c1"), Caller::new("c2"), Caller::new("c3"));
    rig.established(&mut up);
    rig.receive(&ringing.invite(OFFER));
    rig.receive(&unacknowledged.invite(OFFER));
    rig.accept();
    let sent = rig.command(Command::Shutdown);
    assert_eq!(sent.iter().filter(|datagram| datagram.starts_with("BYE ")).count(), 2);
    assert_eq!(sent.iter().filter(|datagram| status(datagram) == 503).count(), 1);
    assert_eq!((rig.endpoint.calls_open(), rig.endpoint.byes_pending()), (0, 2));
    for bye in sent.iter().filter(|datagram| datagram.starts_with("BYE ")) {
        rig.receive(&answer(bye, 200));
    }
    assert_eq!(rig.endpoint.byes_pending(), 0);
    assert_eq!(statuses(&rig.receive(&Caller::new("c4").invite(OFFER))), [503]);
}

#[test]
fn at_the_limit_callers_hear_busy_and_at_refused_admission_503() {
    let mut config = config();
    config.calls_max = 1;
    let mut rig = Rig::with(config);
    rig.established(&mut Caller::new("c1"));
    assert_eq!(statuses(&rig.receive(&Caller::new("c2").invite(OFFER))), [486]);
    rig.command(Command::SetAdmission(Admission::Refuse { retry_after_s: 30 }));
    let sent = rig.receive(&Caller::new("c3").invite(OFFER));
    assert_eq!((status(&sent[0]), header(&sent[0], "Retry-After")), (503, "30"));
    rig.command(Command::SetAdmission(Admission::Open));
    assert_eq!(statuses(&rig.receive(&Caller::new("c4").invite(OFFER))), [486]);
}

#[test]
fn an_answer_that_cannot_be_sent_ends_the_call() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    rig.accept();
    rig.endpoint.transmit_failed(super::rig::caller_address());
    rig.drain();
    assert_eq!(rig.last_event(), &Event::Ended { call: rig.call(), cause: EndCause::TransportError });
    assert!(rig.pass(Duration::from_secs(60)).is_empty());
}

#[test]
fn the_same_inputs_and_seed_give_the_same_bytes() {
    let run = || {
        let mut rig = Rig::new();
        let mut caller = Caller::new("c1");
        rig.established(&mut caller);
        rig.command(Command::Bye { call: rig.call() });
        rig.sent
    };
    assert_eq!(run(), run());
}

#[test]
fn a_call_that_is_up_stays_up_without_any_signalling() {
    let mut rig = Rig::new();
    rig.established(&mut Caller::new("c1"));
    assert!(rig.pass(Duration::from_secs(24 * 3600)).is_empty());
    assert_eq!((rig.endpoint.calls_open(), rig.endpoint.transactions(), rig.events.len()), (1, 0, 2));
}

#[test]
fn a_refused_caller_may_try_again_when_the_transaction_is_over() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    rig.command(Command::Reject { call: rig.call(), status: 486 });
    assert_eq!(statuses(&rig.receive(&caller.invite(OFFER))), [482], "merged while it lives");
    rig.pass(Duration::from_secs(60));
    assert_eq!(statuses(&rig.receive(&caller.invite(OFFER))), [100]);
}

#[test]
fn a_second_shutdown_sends_no_second_bye_and_only_its_own_answer_ends_it() {
    let mut rig = Rig::new();
    rig.established(&mut Caller::new("c1"));
    let bye = rig.command(Command::Shutdown).remove(0);
    assert!(rig.command(Command::Shutdown).is_empty());
    rig.receive(&answer(&bye, 200).replace("CSeq: 1 BYE", "CSeq: 1 OPTIONS"));
    rig.receive(&answer(&bye, 200).replace("branch=z9hG4bK", "branch=z9hG4bKx"));
    rig.receive(&answer(&bye, 100));
    assert_eq!((rig.endpoint.byes_pending(), rig.endpoint.counters().unmatched), (1, 3));
    rig.receive(&answer(&bye, 200));
    assert_eq!(rig.endpoint.byes_pending(), 0);
}

#[test]
fn who_a_peer_asserts_it_is_is_told_apart_from_the_callers_own_word() {
    for (header, user) in [
        ("P-Asserted-Identity: \"Ana\" <sip:+34600123456@pbx.example>\r\n", Some("+34600123456")),
        ("p-asserted-identity: <sip:pbx.example>, <tel:+34600123456>\r\n", Some("+34600123456")),
        ("P-Asserted-Identity: <sip:pbx.example>\r\nP-Asserted-Identity: <tel:+34600123456>\r\n", Some("+34600123456")),
        ("P-Asserted-Identity: \"Ana <sip:\r\n", None),
        ("P-Preferred-Identity: <sip:ana@pbx.example>\r\n", None),
        ("", None),
    ] {
        let mut rig = Rig::new();
        let mut caller = Caller::new("1");
        caller.extra = header;
        rig.receive(&caller.invite(OFFER));
        let incoming = rig.incoming();
        assert_eq!(incoming.asserted.as_ref().and_then(|party| party.user.as_deref()), user, "{header}");
        assert_eq!(incoming.from.user.as_deref(), Some("ana"), "{header}");
    }
}

#[test]
fn who_is_asserted_within_a_call_is_told_with_where_that_came_from() {
    for method in ["INVITE", "UPDATE"] {
        let mut rig = Rig::new();
        let mut caller = Caller::new("1");
        rig.established(&mut caller);
        let before = rig.events.len();
        caller.extra = "P-Asserted-Identity: <sip:bob@pbx.example>\r\n";
        // An UPDATE that is about nothing else has no body.
        rig.receive(&caller.next(method, if method == "INVITE" { OFFER } else { "" }));
        let [Event::Asserted { party, .. }] = &rig.events[before..] else { panic!("{method}: {:?}", rig.events) };
        assert_eq!(party.user.as_deref(), Some("bob"));
    }
}
