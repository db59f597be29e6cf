//! The caller's stream: where it comes from, its keys, and its silence.

use super::rig::*;
use super::*;

#[test]
fn a_re_invite_moves_the_stream_at_once_and_the_source_is_latched_anew() {
    let mut rig = Rig::new(plan());
    rig.source = address("192.0.2.1:61000");
    rig.silence(60);
    assert_eq!(rig.sent.last().unwrap().to, address("192.0.2.1:61000"));
    rig.source = address("192.0.2.1:7777");
    rig.silence(60);
    assert_eq!(rig.sent.last().unwrap().to, address("192.0.2.1:61000"), "no third source");
    assert_eq!(rig.session.counts().foreign, 3);
    let moved = address("198.51.100.4:25446");
    rig.command(Command::Remote(Remote { rtp: moved, codec: Codec::Pcma, ..remote() }));
    rig.tick();
    assert_eq!(rig.sent.last().unwrap().to, moved);
    assert!(rig.sent.last().unwrap().payload.iter().all(|octet| *octet == 0xD5), "silence of the other law");
}

#[test]
fn another_source_begins_anew_without_silence_and_ends_the_generation() {
    let mut rig = Rig::new(plan());
    rig.silence(500);
    rig.ssrc = 0x0DD0_0DD0;
    rig.sequence = 9;
    rig.timestamp = 77;
    rig.hear(&voice(300));
    assert_eq!(rig.session.mouth.generation(), Generation(1));
    assert!(rig.states().contains(&Acoustic::Suspected));
    assert_eq!(rig.tick().sound, Sound::Received);
}

#[test]
fn keys_are_told_once_and_do_not_disturb_the_audio() {
    let mut rig = Rig::new(plan());
    rig.silence(200);
    let timestamp = rig.timestamp;
    for (n, end) in [0u8, 0, 0, 0x80, 0x80, 0x80].into_iter().enumerate() {
        let duration = (160 * (n as u16 + 1)).to_be_bytes();
        rig.receive(101, false, rig.sequence, timestamp, &[7, end | 10, duration[0], duration[1]]);
        rig.sequence = rig.sequence.wrapping_add(1);
        rig.tick();
    }
    rig.timestamp = rig.timestamp.wrapping_add(6 * 160);
    rig.silence(200);
    let digits: Vec<_> = rig.events.iter().filter(|event| matches!(event, MediaEvent::Digit { digit: '7', .. })).collect();
    assert_eq!(digits.len(), 1, "{:?}", rig.events);
    assert_eq!(rig.session.counts().jitter.resyncs, 0);
}

#[test]
fn a_far_end_that_falls_silent_is_told_once_and_not_on_hold() {
    let mut rig = Rig::new(plan());
    rig.silence(100);
    for _ in 0..600 {
        rig.tick();
    }
    let silent = |rig: &Rig| rig.events.iter().filter(|event| matches!(event, MediaEvent::FarEndSilent { .. })).count();
    assert_eq!(silent(&rig), 1);
    rig.silence(100);
    for direction in [Direction::SendOnly, Direction::Inactive, Direction::RecvOnly] {
        rig.command(Command::Remote(Remote { direction, ..remote() }));
        for _ in 0..600 {
            rig.tick();
        }
        assert_eq!(silent(&rig), 1, "{direction:?}");
    }
    rig.command(Command::Remote(remote()));
    for _ in 0..600 {
        rig.tick();
    }
    assert_eq!(silent(&rig), 2, "after the hold");
}

/// Foreign RTP that was told of: where it came from.
fn foreign(rig: &Rig) -> Vec<SocketAddr> {
    rig.events.iter().filter_map(|event| if let MediaEvent::Foreign { source, .. } = event { Some(*source) } else { None }).collect()
}

#[test]
fn a_far_end_behind_a_nat_is_heard_and_sent_to_where_its_signalling_comes_from() {
    let outside = address("203.0.113.4:9000");
    let far = Remote { rtp: address("10.0.0.5:4000"), rtcp: address("10.0.0.5:4001"), signalled_from: outside.ip(), ..remote() };
    let mut rig = Rig::new(Plan { remote: far, ..plan() });
    rig.source = outside;
    rig.hear(&voice(300));
    assert!(rig.states().contains(&Acoustic::Suspected));
    assert_eq!((rig.sent.last().unwrap().to, rig.session.counts().foreign), (outside, 0));
    rig.source = address("198.51.100.9:4000");
    rig.silence(2_000);
    assert_eq!((rig.sent.last().unwrap().to, rig.session.counts().foreign), (outside, 100), "no third address");
    assert_eq!(foreign(&rig), [], "somebody is listened to");
    for direction in [Direction::RecvOnly, Direction::SendRecv] {
        rig.command(Command::Remote(Remote { direction, ..far }));
        rig.tick();
    }
    assert_eq!(rig.sent.last().unwrap().to, outside, "back from hold, before the far end has sent anything");
    rig.source = address("203.0.113.4:9444");
    rig.silence(40);
    assert_eq!(rig.sent.last().unwrap().to, rig.source, "the NAT has given it another port");
}

#[test]
fn a_phone_that_a_re_invite_names_is_heard_though_the_pbx_relays_another_packet_of_it() {
    let mut rig = Rig::new(plan());
    rig.silence(60);
    let (relay, phone) = (rig.source, address("198.51.100.7:25446"));
    rig.command(Command::Remote(Remote { rtp: phone, rtcp: address("198.51.100.7:25447"), ..remote() }));
    rig.silence(20);
    assert_eq!(rig.sent.last().unwrap().to, relay);
    rig.source = phone;
    rig.ssrc = 0x0DD0_0DD0;
    rig.hear(&voice(300));
    assert!(rig.states().contains(&Acoustic::Suspected));
    assert_eq!((rig.sent.last().unwrap().to, rig.session.counts().foreign), (phone, 0));
    rig.source = relay;
    rig.silence(60);
    assert_eq!((rig.sent.last().unwrap().to, rig.session.counts().foreign), (phone, 3));
}

#[test]
fn rtp_of_another_address_is_told_of_once_where_none_of_the_far_end_comes() {
    let mut rig = Rig::new(plan());
    rig.source = address("198.51.100.9:4000");
    rig.silence(900);
    assert_eq!(foreign(&rig), [], "the far end may only be late");
    rig.session.rtp(Nanos::from_ms(rig.ms + 200), b"GET / HTTP/1.1", rig.source);
    rig.drain();
    assert_eq!(foreign(&rig), [], "no RTP");
    rig.silence(2_000);
    assert_eq!(foreign(&rig), [rig.source]);
    assert!(rig.events.contains(&MediaEvent::Foreign { source: rig.source, remote: remote() }));
    rig.command(Command::Remote(Remote { rtp: address("192.0.2.7:4000"), ..remote() }));
    rig.silence(2_000);
    assert_eq!(foreign(&rig).len(), 1, "once a call");
}

#[test]
fn multiplexed_rtcp_is_told_from_rtp_on_one_port() {
    let mut plan = plan();
    plan.remote.rtcp = plan.remote.rtp;
    let mut rig = Rig::new(plan);
    rig.silence(3_200);
    assert!(!rig.rtcp.is_empty());
    let source = rig.source;
    rig.playback_events();
    use rtcp_types::{ReceiverReport, ReportBlock, RtcpPacketWriterExt};
    let mut data = [0; 64];
    let block = ReportBlock::builder(OURS).extended_sequence_number(65_510);
    let length = ReceiverReport::builder(THEIRS).add_report_block(block).write_into(&mut data).unwrap();
    rig.session.rtp(Nanos::from_ms(rig.ms), &data[..length], source);
    rig.drain();
    assert!(matches!(rig.playback_events()[..], [PlaybackEvent::Report { highest_packet: 65_510, .. }]));
}
