//! RTCP both ways.

use super::rig::*;
use super::*;

#[test]
fn a_receiver_report_comes_in_our_numbering_and_carries_the_generation_of_its_packets() {
    let mut rig = Rig::new(plan());
    rig.silence(1_000);
    rig.speak(segment(1, 0), 100);
    rig.silence(200);
    rig.command(Command::Playback(PlaybackCommand::Clear { playback: PlaybackId(1) }));
    rig.speak(segment(2, 0), 100);
    rig.silence(40);
    rig.command(Command::Playback(PlaybackCommand::Clear { playback: PlaybackId(2) }));
    rig.silence(200);
    rig.playback_events();
    // 65,500 + 40 is past the wrap; the far end, which began at our first packet, counts one cycle; another might not.
    let rtcp = address("192.0.2.1:4001");
    rig.report(OURS, 0x1_0000 + 4, 2, rtcp);
    rig.report(OURS, 34, 0xFF_FFFF, rtcp);
    rig.report(0x1234, 4, 0, rtcp);
    rig.report(OURS, 5, 0, address("203.0.113.9:4001"));
    let reports: Vec<(u32, u64, i64)> = rig
        .playback_events()
        .into_iter()
        .filter_map(|event| match event {
            PlaybackEvent::Report { generation, highest_packet, cumulative_lost, .. } => {
                Some((generation.0, highest_packet, cumulative_lost))
            }
            _ => None,
        })
        .collect();
    let cleared_after = 65_500 + 62;
    assert_eq!(reports, [(0, 0x1_0004, 2), (0, cleared_after - 1, -1), (1, cleared_after + 8, -1)].map(|(g, p, l)| (g, p, l)));
}

#[test]
fn sender_reports_tell_of_the_caller_and_the_last_one_says_goodbye() {
    let mut rig = Rig::new(plan());
    let sender_report =
        [0x80, 200, 0, 6, 0xCA, 0x11, 0xE4, 0x00, 0, 1, 0x22, 0x33, 0x44, 0x55, 0, 0].into_iter().chain([0; 12]).collect::<Vec<u8>>();
    rig.silence(100);
    rig.session.rtcp(Nanos::from_ms(rig.ms), &sender_report, address("192.0.2.1:4001"));
    rig.silence(1_000);
    rig.sequence = rig.sequence.wrapping_add(5);
    rig.timestamp = rig.timestamp.wrapping_add(5 * 160);
    rig.silence(30_000);
    rig.command(Command::Close);
    assert!((6..=14).contains(&rig.rtcp.len()), "{} reports in 31 s", rig.rtcp.len());
    let first: Vec<_> = Compound::parse(&rig.rtcp[1]).unwrap().map(Result::unwrap).collect();
    let [Packet::Sr(report), Packet::Sdes(_)] = &first[..] else { panic!("{first:?}") };
    let block = report.report_blocks().next().unwrap();
    assert_eq!((block.ssrc(), block.cumulative_lost(), block.last_sender_report_timestamp()), (THEIRS, 5, 0x2233_4455));
    assert!(block.delay_since_last_sender_report_timestamp() > 65_536);
    let last: Vec<_> = Compound::parse(rig.rtcp.last().unwrap()).unwrap().map(Result::unwrap).collect();
    assert!(matches!(&last[..], [Packet::Sr(_), Packet::Sdes(_), Packet::Bye(_)]), "{last:?}");
    let sent = rig.sent.len();
    rig.silence(100);
    assert_eq!(rig.sent.len(), sent, "nothing after the goodbye");
    rig.report(OURS, 3, 0, address("192.0.2.1:4001"));
    assert!(rig.playback_events().iter().any(|event| matches!(event, PlaybackEvent::Report { .. })), "late reports still count");
}
