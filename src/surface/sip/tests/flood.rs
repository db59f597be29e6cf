//! State stays bounded whatever comes, and calls that are up stay served.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::rig::{Caller, OFFER, Rig, answer, config, status, statuses};
use crate::surface::sip::Command;

fn flood_invite(number: u32) -> Vec<u8> {
    Caller::new("flood")
        .invite(OFFER)
        .replace("z9hG4bKflood", &format!("z9hG4bKf{number}x"))
        .replace("Call-ID: flood", &format!("Call-ID: f{number}"))
        .into_bytes()
}

#[test]
fn twenty_thousand_invites_without_ack_from_one_source_stay_within_the_caps() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("up");
    rig.established(&mut caller);
    let attacker = "192.0.2.66:5060".parse().expect("address");
    for number in 0..20_000 {
        let sent = rig.receive_from(&flood_invite(number), attacker);
        if sent.first().is_some_and(|datagram| status(datagram) == 100) {
            rig.accept();
        }
        rig.sent.clear();
        assert!(rig.endpoint.transactions() <= 4097);
    }
    assert_eq!(rig.endpoint.calls_open(), 16);
    let counters = rig.endpoint.counters();
    assert_eq!(counters.over_source, 20_000 - 4096);
    assert_eq!(counters.calls_incoming, 16);
    // Others are served, and the call that is up can be used and ended.
    assert_eq!(statuses(&rig.receive(&Caller::new("ping").request("OPTIONS", ""))), [200]);
    assert_eq!(statuses(&rig.receive(&caller.next("BYE", ""))), [200]);
    // Without ACKs the sixteen are given up; then nothing is left.
    let byes: Vec<String> =
        rig.pass(Duration::from_secs(33)).into_iter().map(|(_, sent)| sent).filter(|sent| sent.starts_with("BYE ")).collect();
    for bye in &byes {
        rig.receive(&answer(bye, 481));
    }
    rig.pass(Duration::from_secs(70));
    assert_eq!((rig.endpoint.transactions(), rig.endpoint.calls_open(), rig.endpoint.deadline()), (0, 0, None));
}

#[test]
fn from_many_sources_the_total_cap_answers_503_without_state() {
    let mut settings = config();
    settings.transactions_max = 1000;
    settings.calls_max = 4;
    let mut rig = Rig::with(settings);
    rig.endpoint.command(rig.now, Command::SetAdmission(crate::surface::sip::Admission::Open)).expect("always");
    let mut caller = Caller::new("up");
    rig.established(&mut caller);
    let mut over = 0;
    for number in 0..5000_u32 {
        let host = u8::try_from(number % 250 + 1).expect("below 256");
        let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 5060);
        let sent = rig.receive_from(&flood_invite(number), source);
        over += usize::from(sent.iter().any(|datagram| status(datagram) == 503 && datagram.contains("Retry-After: ")));
        assert!(rig.endpoint.transactions() <= 1000);
    }
    assert_eq!(over, 5000 - 999);
    assert_eq!(statuses(&rig.receive(&caller.next("INFO", ""))), [200], "within a dialog there is a reserve");
    assert_eq!(statuses(&rig.receive(&caller.next("BYE", ""))), [200]);
}

#[test]
fn a_call_can_be_cancelled_while_its_source_has_used_up_its_share() {
    let mut settings = config();
    settings.transactions_per_source_max = 2;
    let mut rig = Rig::with(settings);
    let mut caller = Caller::new("c1");
    rig.receive(&caller.invite(OFFER));
    rig.receive(&Caller::new("c2").request("OPTIONS", ""));
    assert!(rig.receive(&Caller::new("c3").request("OPTIONS", "")).is_empty());
    assert!(rig.receive(&Caller::new("c4").with_branch("CANCEL", "")).is_empty());
    assert_eq!(statuses(&rig.receive(&caller.with_branch("CANCEL", ""))), [200, 487]);
}

#[test]
fn headers_that_would_have_to_be_kept_are_limited() {
    let mut rig = Rig::new();
    let route = "Record-Route: <sip:192.0.2.201;lr;x=".to_owned() + &"y".repeat(1000) + ">\r\n";
    let with_routes =
        |count: usize| Caller::new("c1").invite(OFFER).replace("Max-Forwards", &format!("{}Max-Forwards", route.repeat(count)));
    assert_eq!(statuses(&rig.receive(&with_routes(8))), [400]);
    assert_eq!(rig.endpoint.transactions(), 0);
    assert_eq!(statuses(&rig.receive(&with_routes(7))), [100]);
}
