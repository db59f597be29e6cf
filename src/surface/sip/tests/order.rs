//! Order within a dialog: races that real peers produce.

use super::rig::{Caller, OFFER, Rig, header, sdp, status, statuses};
use crate::surface::sip::{Command, Event};

#[test]
fn a_re_invite_in_the_same_instant_behind_the_ack_is_answered() {
    for _ in 0..100 {
        let mut rig = Rig::new();
        let mut caller = Caller::new("c1");
        rig.established(&mut caller);
        let sent = rig.receive(&caller.next("INVITE", &sdp("m=audio 25446 RTP/AVP 0 101\r\na=rtpmap:101 telephone-event/8000\r\n")));
        assert_eq!(statuses(&sent), [200]);
        let Event::Renegotiated { media, .. } = rig.last_event() else { panic!("{:?}", rig.events) };
        assert_eq!(media.remote_rtp.port(), 25446);
        assert!(rig.receive(&caller.ack("")).is_empty());
    }
}

#[test]
fn a_re_invite_that_overtakes_the_ack_is_answered_and_the_late_ack_is_harmless() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    let ok = rig.accept();
    caller.learn(&ok);
    let ack = caller.ack("");
    assert_eq!(statuses(&rig.receive(&caller.next("INVITE", OFFER))), [200]);
    assert!(matches!(rig.last_event(), Event::Established { .. }));
    rig.receive(&ack);
    rig.receive(&caller.ack(""));
    assert!(rig.pass(std::time::Duration::from_secs(40)).is_empty());
    assert_eq!(rig.endpoint.calls_open(), 1);
}

#[test]
fn a_lower_cseq_gets_500() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.established(&mut caller);
    caller.cseq = 10;
    assert_eq!(statuses(&rig.receive(&caller.request("INFO", ""))), [200]);
    caller.cseq = 9;
    assert_eq!(statuses(&rig.receive(&caller.request("INFO", ""))), [500]);
    assert_eq!(statuses(&rig.receive(&caller.request("BYE", ""))), [500]);
    caller.cseq = 11;
    assert_eq!(statuses(&rig.receive(&caller.request("BYE", ""))), [200]);
}

#[test]
fn a_merged_request_gets_482_and_one_call() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    assert_eq!(statuses(&rig.receive(&caller.invite(OFFER))), [100]);
    assert_eq!(statuses(&rig.receive(&caller.invite(OFFER))), [482]);
    assert_eq!(rig.events.len(), 1);
}

#[test]
fn a_second_invite_while_the_first_is_unanswered_gets_500_with_retry_after() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    let ringing = rig.command(Command::Ring { call: rig.call() });
    caller.learn(&ringing[0]);
    let sent = rig.receive(&caller.next("INVITE", OFFER));
    assert_eq!(status(&sent[0]), 500);
    assert!(header(&sent[0], "Retry-After").parse::<u32>().is_ok_and(|seconds| seconds <= 10));
    assert_eq!(status(&rig.accept()), 200, "the first is answered all the same");
}

#[test]
fn an_offer_while_ours_is_pending_gets_491_and_leaves_no_trace() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.established(&mut caller);
    let late = rig.receive(&caller.next("INVITE", ""));
    assert!(late[0].contains("m=audio 40000 RTP/AVP 0 8 101"), "{}", late[0]);
    let ack_cseq = caller.cseq;
    assert_eq!(statuses(&rig.receive(&caller.next("INVITE", OFFER))), [491]);
    assert_eq!(statuses(&rig.receive(&caller.next("UPDATE", OFFER))), [491]);
    let cseq = std::mem::replace(&mut caller.cseq, ack_cseq);
    rig.receive(&caller.ack(&sdp("m=audio 7000 RTP/AVP 8\r\n")));
    let Event::Renegotiated { media, .. } = rig.last_event() else { panic!("{:?}", rig.events) };
    assert_eq!(media.remote_rtp.port(), 7000);
    caller.cseq = cseq;
    assert_eq!(statuses(&rig.receive(&caller.next("INVITE", OFFER))), [200]);
}

#[test]
fn requests_of_an_unknown_dialog_get_481_and_a_stray_ack_nothing() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    caller.to_tag = "gone".into();
    for method in ["BYE", "INVITE", "INFO", "UPDATE", "OPTIONS", "NOTIFY"] {
        assert_eq!(statuses(&rig.receive(&caller.next(method, ""))), [481], "{method}");
    }
    assert!(rig.receive(&caller.ack("")).is_empty());
    caller.to_tag.clear();
    assert_eq!(statuses(&rig.receive(&caller.next("BYE", ""))), [481]);
    assert!(rig.events.is_empty());
}

#[test]
fn a_call_id_used_again_after_the_call_is_a_new_call() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    rig.established(&mut caller);
    rig.receive(&caller.next("BYE", ""));
    caller.to_tag.clear();
    assert_eq!(statuses(&rig.receive(&caller.next("INVITE", OFFER))), [100]);
}
