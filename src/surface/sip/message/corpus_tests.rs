//! RFC 4475 and RFC 5118 messages from the shared cases: what is well formed is read fully right, what is not is
//! rejected with the right answer. Meaning (416, 420, ...) is tested at the endpoint.

use crate::surface::sip::tests::rig::case_file;

use super::{Message, Method, Request, Uri, name, parse};

fn message(path: &str) -> Option<Vec<u8>> {
    case_file(&format!("c_malformed/{path}"))
}

fn accepted(path: &str) -> Option<Request> {
    match parse(&message(path)?) {
        Ok(Message::Request(request)) => Some(*request),
        other => panic!("{path} must be accepted: {other:?}"),
    }
}

#[test]
fn well_formed_requests_are_read_fully_right() {
    // file, method, From tag, To tag, CSeq, Vias, branch, contacts, body bytes
    type Row = (&'static str, &'static str, &'static str, Option<&'static str>, u32, usize, Option<&'static str>, usize, usize);
    let rows: [Row; 18] = [
        (
            "rfc4475/intmeth.dat",
            "!interesting-Method0123456789_*+`.%indeed'~",
            "_token~1'+`*%!-.",
            None,
            139_122_385,
            1,
            Some("z9hG4bK-.!%66*_+`'~"),
            0,
            0,
        ),
        ("rfc4475/esc01.dat", "INVITE", "938", None, 234_234, 1, Some("z9hG4bKkdjuw"), 1, 150),
        ("rfc4475/esc02.dat", "RE%47IST%45R", "f232jadfj23", None, 29_344, 1, Some("z9hG4bK209%fzsnel234"), 2, 0),
        ("rfc4475/lwsdisp.dat", "OPTIONS", "323", None, 60, 1, Some("z9hG4bKkdjuw"), 0, 0),
        ("rfc4475/semiuri.dat", "OPTIONS", "33242", None, 8, 1, Some("z9hG4bKkdjuw"), 0, 0),
        ("rfc4475/transports.dat", "OPTIONS", "323", None, 60, 5, Some("z9hG4bKkdjuw"), 0, 0),
        ("rfc4475/unkscm.dat", "OPTIONS", "384", None, 3_923_423, 1, Some("z9hG4bKkdjuw39234"), 0, 0),
        ("rfc4475/invut.dat", "INVITE", "8392034", None, 235_448, 1, Some("z9hG4bKkdjuw"), 1, 40),
        ("rfc4475/bext01.dat", "OPTIONS", "242etr", None, 8, 1, Some("z9hG4bKkdjuw"), 0, 0),
        ("rfc4475/regaut01.dat", "REGISTER", "87321hj23128", None, 9338, 1, Some("z9hG4bKkdjuw"), 0, 0),
        ("rfc4475/zeromf.dat", "OPTIONS", "3ghsd41", None, 39_234_321, 1, Some("z9hG4bKkdjuw2349i"), 0, 0),
        ("rfc4475/cparam01.dat", "REGISTER", "DkfVgjkrtMwaerKKpe", None, 2, 1, Some("z9hG4bKkdjuw"), 1, 0),
        ("rfc4475/inv2543.dat", "INVITE", "", None, 56, 1, None, 0, 105),
        ("rfc5118/ipv6-good.dat", "REGISTER", "81x2", None, 98_176, 1, Some("z9hG4bKas3-111"), 1, 0),
        ("rfc5118/port-ambiguous.dat", "REGISTER", "81x2", None, 98_176, 1, Some("z9hG4bKas3-111"), 1, 0),
        ("rfc5118/port-unambiguous.dat", "REGISTER", "81x2", None, 98_176, 1, Some("z9hG4bKas3-111"), 1, 0),
        ("rfc5118/ipv6-in-sdp.dat", "INVITE", "81x2", None, 8612, 1, Some("z9hG4bKas3-111"), 1, 241),
        ("rfc5118/mult-ip-in-header.dat", "BYE", "81x2", Some("9817--94"), 89_187, 3, Some("z9hG4bKas3-111"), 0, 0),
    ];
    for (path, method, from_tag, to_tag, cseq, vias, branch, contacts, body) in rows {
        let Some(request) = accepted(path) else {
            return;
        };
        assert_eq!(request.method.as_str(), method, "{path}");
        assert_eq!(request.from.tag().unwrap_or_default(), from_tag, "{path}");
        assert_eq!(request.to.tag(), to_tag, "{path}");
        assert_eq!(request.cseq.number, cseq, "{path}");
        assert_eq!(request.headers.all(name::VIA).count(), vias, "{path}");
        assert_eq!(request.via.branch(), branch, "{path}");
        assert_eq!(request.contacts.len(), contacts, "{path}");
        assert_eq!(request.body.len(), body, "{path}");
    }
}

#[test]
fn unusual_addresses_are_understood() {
    let Some(request) = accepted("rfc4475/semiuri.dat") else {
        return;
    };
    assert_eq!(request.uri.to_string(), "sip:user;par=u%40example.net@example.com");
    let Some(request) = accepted("rfc4475/esc01.dat") else {
        return;
    };
    assert_eq!(request.uri.user().as_deref(), Some("sips:user@example.com"));
    assert_eq!(request.from.uri.user().as_deref(), Some("I have spaces"));
    let Some(request) = accepted("rfc4475/intmeth.dat") else {
        return;
    };
    assert_eq!(request.to.display.as_deref(), Some("BEL:\u{7} NUL:\0 DEL:\u{7f}"));
    assert_eq!(request.uri.host_text(), "example.com");
    let Some(request) = accepted("rfc5118/port-ambiguous.dat") else {
        return;
    };
    let Uri::Sip(uri) = &request.uri else { panic!("sip") };
    assert_eq!((uri.host.to_string().as_str(), uri.port), ("[2001:db8::10:5070]", None));
    let Some(request) = accepted("rfc5118/port-unambiguous.dat") else {
        return;
    };
    let Uri::Sip(uri) = &request.uri else { panic!("sip") };
    assert_eq!((uri.host.to_string().as_str(), uri.port), ("[2001:db8::10]", Some(5070)));
    let Some(request) = accepted("rfc4475/esc02.dat") else {
        return;
    };
    assert!(matches!(request.method, Method::Unknown(_)));
}

#[test]
fn a_response_without_a_reason_phrase_is_read() {
    let Some(bytes) = message("rfc4475/noreason.dat") else {
        return;
    };
    let Ok(Message::Response(response)) = parse(&bytes) else { panic!("must be accepted") };
    assert_eq!((response.status, response.branch.as_str()), (100, "z9hG4bK2398ndaoe"));
}

#[test]
fn malformed_requests_are_rejected_and_can_be_answered() {
    let files = [
        ("badinv01", 400),
        ("clerr", 400),
        ("scalar02", 400),
        ("quotbal", 400),
        ("ltgtruri", 400),
        ("lwsstart", 400),
        ("badaspec", 400),
        ("badvers", 505),
        ("mismatch01", 400),
        ("insuf", 400),
    ];
    for (file, status) in files {
        let Some(bytes) = message(&format!("rfc4475/{file}.dat")) else {
            return;
        };
        let rejection = parse(&bytes).expect_err(file);
        assert_eq!(rejection.status, status, "{file}");
        assert!(rejection.answerable.is_some(), "{file} has a Via and can be answered");
    }
    let Some(bytes) = message("rfc5118/ipv6-bad.dat") else {
        return;
    };
    assert_eq!(parse(&bytes).expect_err("ipv6-bad").status, 400);
    // A Date that is not GMT is ignored: nothing here reads Date.
    let Some(bytes) = message("rfc4475/baddate.dat") else {
        return;
    };
    assert!(parse(&bytes).is_ok());
}
