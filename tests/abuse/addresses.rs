//! Telephones whose media does not come from where their SDP says.

use std::net::UdpSocket;
use std::time::Duration;

use crate::phone::{Addresses, Phone, WORDS, rtp_packet, tone_frame};
use crate::stage::{Stage, patiently};

/// What a telephone behind a NAT writes, which nobody reaches from here.
const INSIDE: &str = "127.0.0.9";
/// Neither what SDP names nor where the signalling comes from.
const THIRD: &str = "127.0.0.5";

#[test]
fn a_phone_whose_sdp_names_another_address_than_its_packets_come_from_is_heard_and_hears() {
    let stage = Stage::set(&[]);
    let boxed = stage.box_runs();
    let phone = Phone::dial_from(boxed.sip, "ana", &Addresses { sdp: INSIDE, ..Addresses::default() }).expect("answered");
    phone.hears(WORDS, 1);
    let stranger = UdpSocket::bind((THIRD, 0)).expect("a socket");
    stranger.set_nonblocking(true).expect("set");
    let turns = || boxed.said("Speaking").len();
    let before = turns();
    for frame in 0..100_u32 {
        let packet = rtp_packet(0, 30_000 + frame as u16, frame * 160, &tone_frame(700, frame as usize * 160));
        stranger.send_to(&packet, phone.box_rtp).expect("sent");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(turns(), before, "the stranger was heard");
    assert!(stranger.recv(&mut [0; 100]).is_err(), "the stranger was sent to");
    assert_eq!(boxed.said("also_from"), [""; 0], "its own phone is heard: there is nothing to mend");
    phone.hang_up();
}

#[test]
fn a_phone_that_is_held_and_moves_is_heard_again_wherever_its_sdp_says_it_is() {
    let stage = Stage::set(&[]);
    stage.changes("[sip]\n", "[sip]\nrtp_silence_ms = 5000\n");
    let boxed = stage.box_runs();
    let mut phone = Phone::dial(boxed.sip, "ana");
    phone.hears(WORDS, 1);
    let goes_on = |phone: &Phone, after: &str| {
        let before = phone.heard().frames.len();
        patiently(after, || (phone.heard().frames.len() > before + 50).then_some(()));
    };
    phone.moves(INSIDE);
    goes_on(&phone, "the box to send to where the phone is heard from");
    phone.moves("0.0.0.0");
    boxed.says("\"on_hold\":true");
    phone.moves(INSIDE);
    goes_on(&phone, "the box to go on after the hold");
    phone.moves("127.0.0.1");
    goes_on(&phone, "the box to go on after the move");
    phone.hang_up();
}

#[test]
fn a_phone_that_its_pbx_hands_the_call_to_is_heard_and_hears_though_the_pbx_still_relays() {
    let stage = Stage::set(&[]);
    let boxed = stage.box_runs();
    let mut pbx = Phone::dial(boxed.sip, "ana");
    pbx.hears(WORDS, 1);
    pbx.moves(THIRD);
    let before = pbx.heard().frames.len();
    patiently("the box to send to what the PBX relays from", || (pbx.heard().frames.len() > before + 50).then_some(()));
    let phone = UdpSocket::bind((THIRD, 0)).expect("a socket");
    phone.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
    let mut sequence = 30_000_u16;
    patiently("the box to send to the phone", || {
        sequence += 1;
        phone.send_to(&rtp_packet(0, sequence, u32::from(sequence) * 160, &tone_frame(0, 0)), pbx.box_rtp).expect("sent");
        phone.recv(&mut [0; 2_048]).ok()
    });
    pbx.hang_up();
}

#[test]
fn media_of_a_third_address_is_warned_of_once_and_taken_where_its_network_is_admitted() {
    let stage = Stage::set(&[]);
    let boxed = stage.box_runs();
    let addresses = Addresses { sdp: INSIDE, rtp: THIRD };
    let phone = Phone::dial_from(boxed.sip, "ana", &addresses).expect("answered");
    let warning = boxed.says("also_from");
    for named in ["WARN", THIRD, INSIDE, "127.0.0.1", "[media] also_from = [\\\"127.0.0.5\\\"]"] {
        assert!(warning.contains(named), "{named} is missing: {warning}");
    }
    assert!(phone.heard().frames.is_empty(), "the third address was sent to");
    phone.hang_up();
    boxed.says("call settled");
    assert_eq!(boxed.said("also_from").len(), 1);
    boxed.stops();

    stage.changes("[media]\n", "[media]\nalso_from = [\"127.0.0.5\"]\n");
    let boxed = stage.box_runs();
    let phone = Phone::dial_from(boxed.sip, "ana", &addresses).expect("answered");
    phone.hears(WORDS, 1);
    phone.hang_up();
}
