//! Where responses and our requests go.

use super::rig::{Caller, OFFER, Rig, header, headers};
use crate::surface::sip::Command;

#[test]
fn responses_go_to_the_source_port_with_rport_and_to_sent_by_without() {
    let mut rig = Rig::new();
    let source = "192.0.2.77:40123".parse().expect("address");
    let options = Caller::new("c1").request("OPTIONS", "");
    let sent = rig.receive_from(options.as_bytes(), source);
    assert_eq!(rig.sent[0].1, "192.0.2.77:5060".parse().expect("address"));
    assert!(header(&sent[0], "Via").ends_with(";received=192.0.2.77"), "{}", sent[0]);
    let options = options.replace(";branch=", ";rport;branch=x").replace("=xz9hG4bK", "=z9hG4bKx");
    let sent = rig.receive_from(options.as_bytes(), source);
    assert_eq!(rig.sent[1].1, source);
    assert!(header(&sent[0], "Via").contains(";rport=40123"), "{}", sent[0]);
}

#[test]
fn our_bye_follows_record_route_in_its_order_and_goes_to_the_contact() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    caller.extra = "Record-Route: <sip:192.0.2.201;lr>, <sip:192.0.2.202:5070;lr;x=y>\r\nRoute: <sip:192.0.2.9;lr>\r\n";
    rig.receive(&caller.invite(OFFER));
    let ok = rig.accept();
    assert_eq!(headers(&ok, "Record-Route"), ["<sip:192.0.2.201;lr>", "<sip:192.0.2.202:5070;lr;x=y>"]);
    caller.learn(&ok);
    caller.extra = "";
    rig.receive(&caller.ack(""));
    // A target refresh moves the Contact, not the route.
    let moved = caller.next("UPDATE", "").replace("<sip:ana@192.0.2.1:5060>", "<sip:ana@192.0.2.50:5099;ob?x=y>");
    rig.receive(&moved);
    let bye = rig.command(Command::Bye { call: rig.call() });
    assert!(bye[0].starts_with("BYE sip:ana@192.0.2.50:5099;ob SIP/2.0\r\n"), "{}", bye[0]);
    assert_eq!(headers(&bye[0], "Route"), ["<sip:192.0.2.201;lr>", "<sip:192.0.2.202:5070;lr;x=y>"]);
    assert_eq!(rig.sent.last().expect("sent").1, "192.0.2.201:5060".parse().expect("address"));
}

#[test]
fn a_strict_router_takes_the_request_uri() {
    let mut rig = Rig::new();
    let mut caller = Caller::new("c1");
    caller.extra = "Record-Route: <sip:192.0.2.201>\r\n";
    rig.receive(&caller.invite(OFFER));
    let ok = rig.accept();
    caller.learn(&ok);
    rig.receive(&caller.ack(""));
    let bye = rig.command(Command::Bye { call: rig.call() });
    assert!(bye[0].starts_with("BYE sip:192.0.2.201 SIP/2.0\r\n"), "{}", bye[0]);
    assert_eq!(headers(&bye[0], "Route"), ["<sip:ana@192.0.2.1:5060>"]);
}

#[test]
fn all_vias_come_back_in_their_order() {
    let mut rig = Rig::new();
    let options = Caller::new("c1")
        .request("OPTIONS", "")
        .replace("Max-Forwards", "Via: SIP/2.0/TLS a.example.com;branch=z9hG4bK7, SIP/2.0/UNKNOWN b.example.com\r\nMax-Forwards");
    let sent = rig.receive(&options);
    let vias = headers(&sent[0], "Via");
    assert_eq!(vias.len(), 3);
    assert_eq!(vias[1..], ["SIP/2.0/TLS a.example.com;branch=z9hG4bK7", "SIP/2.0/UNKNOWN b.example.com"]);
}

#[test]
fn a_call_over_ipv6_has_brackets_where_they_belong_and_nowhere_else() {
    let mut config = super::rig::config();
    config.advertised = "[2001:db8::9]:5060".parse().expect("address");
    config.allowed_sources.push("2001:db8::/32".parse().expect("network"));
    let mut rig = Rig::with(config);
    let source = "[2001:db8::1]:5062".parse().expect("address");
    let mut caller = Caller::new("c1");
    caller.uri = "sip:box@[2001:db8::9]";
    let offer = OFFER.replace("IP4 192.0.2.1", "IP6 2001:db8::1");
    let v6 = |message: String| message.replace("192.0.2.1:5060", "[2001:db8::1]:5060").replace(";branch", ";rport;branch");
    rig.receive_from(v6(caller.invite(&offer)).as_bytes(), source);
    let local = crate::surface::sip::LocalMedia { address: "2001:db8::9".parse().expect("address"), ..super::rig::local_media() };
    let ok = rig.command(Command::Accept { call: rig.call(), local }).remove(0);
    assert!(header(&ok, "Via").contains(";rport=5062") && header(&ok, "Via").ends_with(";received=2001:db8::1"), "{ok}");
    assert_eq!(header(&ok, "Contact"), "<sip:[2001:db8::9]:5060>");
    assert!(ok.contains("c=IN IP6 2001:db8::9\r\n"), "{ok}");
    caller.learn(&ok);
    rig.receive_from(v6(caller.ack("")).as_bytes(), source);
    let bye = rig.command(Command::Bye { call: rig.call() });
    assert!(bye[0].starts_with("BYE sip:ana@[2001:db8::1]:5060 SIP/2.0\r\n"), "{}", bye[0]);
    assert_eq!(rig.sent.last().expect("sent").1, "[2001:db8::1]:5060".parse().expect("address"));
}
