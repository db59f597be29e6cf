//! Scenarios of one call in virtual time.

use super::*;
use crate::surface::listen::Profile;
use crate::surface::listen::voice::voice;
use crate::surface::media::plan::Direction;
use recado_core::conversation::{Acoustic, AcousticEpoch, Generation, SegmentRef};
use recado_core::ids::PlaybackId;
use recado_voice::PlaybackCommand;
use rtcp_types::{Compound, Packet};
use rtp_rs::{RtpPacketBuilder, Seq};

const OURS: u32 = 0x0B0C_5BAD;
const THEIRS: u32 = 0xCA11_E400;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn remote() -> Remote {
    Remote {
        rtp: address("192.0.2.1:4000"),
        rtcp: address("192.0.2.1:4001"),
        codec: Codec::Pcmu,
        telephone_event: Some(101),
        direction: Direction::SendRecv,
    }
}

fn plan() -> Plan {
    Plan {
        remote: remote(),
        ssrc: OURS,
        first_sequence: 65_500,
        first_timestamp: u32::MAX - 1_000,
        seed: 42,
        cname: "recado".into(),
        ntp_at_origin: 0xE000_0000 << 32,
        profile: Profile::responsive(),
        silent_after_s: 10,
        latch_any_address: false,
    }
}

fn segment(playback: u128, index: u32) -> SegmentRef {
    SegmentRef { playback: PlaybackId(playback), index }
}

/// A sound that is never silence, `ms` long.
fn audio(ms: usize) -> Coded {
    Coded { codec: Codec::Pcmu, octets: (0..ms * 8).map(|n| (n % 100) as u8).collect() }
}

#[derive(Debug, Clone, PartialEq)]
struct Sent {
    at_ms: u64,
    to: SocketAddr,
    sequence: u16,
    timestamp: u32,
    marker: bool,
    payload: Vec<u8>,
}

impl Sent {
    fn silent(&self) -> bool {
        self.payload.iter().all(|octet| *octet == 0xFF)
    }
}

/// A session and a far end that sends 20 ms packets, each 5 ms before a tick.
struct Rig {
    session: MediaSession,
    ms: u64,
    sequence: u16,
    timestamp: u32,
    ssrc: u32,
    source: SocketAddr,
    sent: Vec<Sent>,
    rtcp: Vec<Vec<u8>>,
    events: Vec<MediaEvent>,
}

impl Rig {
    fn new(plan: Plan) -> Self {
        let source = plan.remote.rtp;
        let session = MediaSession::new(Nanos::from_ms(1_000), plan);
        Self {
            session,
            ms: 1_000,
            sequence: 65_530,
            timestamp: u32::MAX - 800,
            ssrc: THEIRS,
            source,
            sent: vec![],
            rtcp: vec![],
            events: vec![],
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.session.packet() {
            match output {
                Output::Rtp { to, packet } => {
                    let rtp = RtpReader::new(packet).unwrap();
                    assert_eq!((rtp.ssrc(), rtp.payload().len()), (OURS, 160));
                    self.sent.push(Sent {
                        at_ms: self.ms,
                        to,
                        sequence: rtp.sequence_number().into(),
                        timestamp: rtp.timestamp(),
                        marker: rtp.mark(),
                        payload: rtp.payload().to_vec(),
                    });
                }
                Output::Rtcp { packet, .. } => self.rtcp.push(packet.to_vec()),
            }
        }
        while let Some(event) = self.session.event() {
            self.events.push(event);
        }
        while self.session.spent().is_some() {}
    }

    fn command(&mut self, command: Command) {
        self.session.command(Nanos::from_ms(self.ms), command);
        self.drain();
    }

    fn speak(&mut self, segment: SegmentRef, ms: usize) {
        let epoch = self.session.listener.epoch();
        self.command(Command::Playback(PlaybackCommand::Speak { segment, audio: audio(ms), last: true, epoch }));
    }

    fn receive(&mut self, payload_type: u8, marker: bool, sequence: u16, timestamp: u32, payload: &[u8]) {
        let packet = RtpPacketBuilder::new()
            .payload_type(payload_type)
            .marked(marker)
            .sequence(Seq::from(sequence))
            .timestamp(timestamp)
            .ssrc(self.ssrc)
            .payload(payload)
            .build()
            .unwrap();
        self.session.rtp(Nanos::from_ms(self.ms), &packet, self.source);
        self.drain();
    }

    fn tick(&mut self) -> Frame {
        self.ms += 5;
        let frame = *self.session.tick(Nanos::from_ms(self.ms));
        self.drain();
        self.ms += 15;
        frame
    }

    /// The far end says `samples`, in packets of 20 ms.
    fn hear(&mut self, samples: &[i16]) {
        for frame in samples.chunks_exact(160) {
            let payload: Vec<u8> = frame.iter().map(|&sample| Codec::Pcmu.encode_sample(sample)).collect();
            self.receive(0, false, self.sequence, self.timestamp, &payload);
            self.sequence = self.sequence.wrapping_add(1);
            self.timestamp = self.timestamp.wrapping_add(160);
            self.tick();
        }
    }

    fn silence(&mut self, ms: usize) {
        self.hear(&vec![0; ms * 8]);
    }

    fn playback_events(&mut self) -> Vec<PlaybackEvent> {
        let events = std::mem::take(&mut self.events);
        events.into_iter().filter_map(|event| if let MediaEvent::Playback(event) = event { Some(event) } else { None }).collect()
    }

    fn states(&self) -> Vec<Acoustic> {
        self.events.iter().filter_map(|event| if let MediaEvent::Acoustic(edge) = event { Some(edge.to) } else { None }).collect()
    }

    fn report(&mut self, about: u32, highest: u32, lost: u32, source: SocketAddr) {
        use rtcp_types::{ReceiverReport, ReportBlock, RtcpPacketWriterExt};
        let block = ReportBlock::builder(about).extended_sequence_number(highest).cumulative_lost(lost);
        let mut data = [0; 64];
        let length = ReceiverReport::builder(THEIRS).add_report_block(block).write_into(&mut data).unwrap();
        self.session.rtcp(Nanos::from_ms(self.ms), &data[..length], source);
        self.drain();
    }
}

#[test]
fn packets_leave_every_twenty_milliseconds_on_one_timeline_from_the_first_on() {
    let mut rig = Rig::new(plan());
    rig.silence(200);
    rig.speak(segment(1, 0), 100);
    rig.silence(2_000);
    assert_eq!(rig.sent.len(), 110);
    for (n, packet) in rig.sent.iter().enumerate() {
        assert_eq!(packet.sequence, 65_500u16.wrapping_add(n as u16));
        assert_eq!(packet.timestamp, (u32::MAX - 1_000).wrapping_add(160 * n as u32));
        assert_eq!(packet.marker, n == 0, "packet {n}");
        assert_eq!(packet.silent(), !(10..15).contains(&n), "packet {n}");
    }
    assert!(rig.sent.windows(2).all(|pair| pair[1].at_ms - pair[0].at_ms == 20));
}

#[test]
fn a_segment_is_started_and_sent_with_the_packets_that_carried_it() {
    let mut rig = Rig::new(plan());
    rig.silence(800);
    rig.speak(segment(1, 0), 50);
    rig.silence(100);
    let first = 65_500 + 40;
    assert_eq!(
        rig.playback_events(),
        [
            PlaybackEvent::Started { segment: segment(1, 0), at: recado_core::time::Time(1_805), packet: first, generation: Generation(0) },
            PlaybackEvent::Sent {
                segment: segment(1, 0),
                at: recado_core::time::Time(1_845),
                packet: first + 2,
                generation: Generation(0)
            },
        ]
    );
}

#[test]
fn a_voice_that_may_be_the_callers_silences_ours_at_the_next_frame_and_no_sample_is_lost() {
    let mut rig = Rig::new(plan());
    rig.silence(1_000);
    rig.speak(segment(1, 0), 2_000);
    rig.silence(500);
    let began = rig.ms;
    rig.hear(&voice(60));
    rig.silence(1_200);
    assert_eq!(rig.states(), [Acoustic::Suspected, Acoustic::Quiet]);
    let last_loud = rig.sent.iter().rev().find(|packet| !packet.silent()).unwrap().at_ms;
    assert!(last_loud < began + 40, "still speaking {} ms after the caller began", last_loud - began);

    let epoch = rig.session.listener.epoch();
    rig.command(Command::Playback(PlaybackCommand::Resume { playback: PlaybackId(1), epoch: AcousticEpoch(epoch.0 - 1) }));
    rig.silence(40);
    rig.command(Command::Playback(PlaybackCommand::Resume { playback: PlaybackId(1), epoch }));
    rig.silence(2_000);
    let heard: Vec<u8> = rig.sent.iter().filter(|packet| !packet.silent()).flat_map(|packet| packet.payload.clone()).collect();
    assert_eq!(heard, audio(2_000).octets.to_vec());
    let events = rig.playback_events();
    let [
        PlaybackEvent::Started { .. },
        PlaybackEvent::Paused { released_ms, .. },
        refused,
        PlaybackEvent::Resumed { .. },
        PlaybackEvent::Sent { .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert!((500..=540).contains(released_ms), "{released_ms}");
    assert_eq!(*refused, PlaybackEvent::Refused { segment: segment(1, 0), epoch });
}

#[test]
fn a_command_to_sound_from_before_the_callers_voice_is_refused() {
    let mut rig = Rig::new(plan());
    rig.silence(1_000);
    let before = rig.session.listener.epoch();
    rig.hear(&voice(600));
    assert_eq!(rig.states()[..2], [Acoustic::Suspected, Acoustic::Speaking]);
    let epoch = rig.session.listener.epoch();
    rig.command(Command::Playback(PlaybackCommand::Speak { segment: segment(1, 0), audio: audio(100), last: true, epoch: before }));
    rig.silence(200);
    assert!(rig.sent.iter().all(Sent::silent));
    assert!(rig.playback_events().contains(&PlaybackEvent::Refused { segment: segment(1, 0), epoch }), "{epoch:?}");
    assert_eq!(rig.session.counts().refused, 1);
}

#[test]
fn a_clear_works_at_once_ends_the_generation_and_late_audio_of_it_is_discarded() {
    let mut rig = Rig::new(plan());
    rig.silence(100);
    let epoch = rig.session.listener.epoch();
    rig.command(Command::Playback(PlaybackCommand::Speak { segment: segment(1, 0), audio: audio(400), last: false, epoch }));
    rig.speak(segment(1, 1), 400);
    rig.silence(60);
    rig.command(Command::Playback(PlaybackCommand::Clear { playback: PlaybackId(1) }));
    rig.command(Command::Playback(PlaybackCommand::Append { segment: segment(1, 0), audio: audio(400), last: true }));
    rig.silence(200);
    assert_eq!(rig.sent.iter().filter(|packet| !packet.silent()).count(), 3);
    rig.speak(segment(2, 0), 20);
    rig.silence(40);
    rig.command(Command::Playback(PlaybackCommand::Clear { playback: PlaybackId(9) }));
    let events = rig.playback_events();
    assert!(matches!(events[0], PlaybackEvent::Started { generation: Generation(0), .. }));
    assert!(matches!(events[1], PlaybackEvent::Cleared { playback: PlaybackId(1), cut: Some((0, 60)), .. }), "{events:?}");
    assert!(matches!(events[2], PlaybackEvent::Started { generation: Generation(1), .. }));
    assert!(matches!(events[4], PlaybackEvent::Cleared { playback: PlaybackId(9), cut: None, .. }));
}

#[test]
fn on_hold_nothing_is_sent_the_timeline_goes_on_and_the_voice_goes_on_after_it() {
    let mut rig = Rig::new(plan());
    rig.silence(100);
    rig.speak(segment(1, 0), 400);
    rig.silence(100);
    rig.command(Command::Remote(Remote { direction: Direction::RecvOnly, ..remote() }));
    let before = rig.sent.len();
    rig.silence(1_000);
    assert_eq!(rig.sent.len(), before);
    rig.command(Command::Remote(remote()));
    rig.silence(500);
    let (last, next) = (&rig.sent[before - 1], &rig.sent[before]);
    assert_eq!(next.sequence, last.sequence.wrapping_add(1));
    assert_eq!(next.timestamp.wrapping_sub(last.timestamp), 51 * 160);
    assert!(next.marker && !rig.sent[before + 1].marker);
    let heard: Vec<u8> = rig.sent.iter().filter(|packet| !packet.silent()).flat_map(|packet| packet.payload.clone()).collect();
    assert_eq!(heard, audio(400).octets.to_vec());
    let events = rig.playback_events();
    assert!(matches!(events[1], PlaybackEvent::Paused { released_ms: 100, .. }), "{events:?}");
    assert!(matches!(events[2], PlaybackEvent::Resumed { .. }), "{events:?}");
    assert!(matches!(events[3], PlaybackEvent::Sent { generation: Generation(2), .. }), "{events:?}");
}

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
    rig.command(Command::Remote(Remote { direction: Direction::SendOnly, ..remote() }));
    for _ in 0..600 {
        rig.tick();
    }
    assert_eq!(silent(&rig), 1);
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

#[test]
fn nobody_taking_events_loses_none_about_playback() {
    let mut rig = Rig::new(plan());
    rig.silence(20);
    let mut accepted = 0;
    let packet = RtpPacketBuilder::new().payload_type(101).sequence(Seq::from(1)).ssrc(THEIRS).payload(&[1, 10, 0, 160]).build().unwrap();
    for n in 0..2_000u32 {
        let now = Nanos::from_ms(rig.ms);
        if rig.session.takes_commands() {
            let epoch = rig.session.listener.epoch();
            rig.session
                .command(now, Command::Playback(PlaybackCommand::Speak { segment: segment(1, n), audio: audio(20), last: true, epoch }));
            accepted += 1;
        }
        let mut digit = packet.clone();
        digit[4..8].copy_from_slice(&n.to_be_bytes());
        rig.session.rtp(now, &digit, rig.source);
        rig.session.tick(now);
        while rig.session.packet().is_some() {}
        rig.ms += 20;
    }
    rig.drain();
    let sent = rig.playback_events().iter().filter(|event| matches!(event, PlaybackEvent::Sent { .. })).count();
    assert!(accepted > 30, "{accepted}");
    assert_eq!(sent, accepted);
    assert!(rig.session.counts().coalesced > 0);
}

/// The datagrams of a capture (pcap or pcapng, IPv4 over Ethernet or loopback): when (ms), from where, and what.
fn capture(name: &str) -> Option<Vec<(u64, SocketAddr, Vec<u8>)>> {
    let path = format!("{}/../shared/cases/b_captures/{name}", env!("CARGO_MANIFEST_DIR"));
    let Ok(bytes) = std::fs::read(&path) else {
        println!("skipped: {path} is missing");
        return None;
    };
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut frames: Vec<(u64, &[u8])> = Vec::new();
    let mut link = 1;
    if word(0) == 0x0A0D_0D0A {
        let mut at = 0;
        while at + 12 <= bytes.len() {
            match word(at) {
                1 => link = word(at + 8) & 0xFFFF,
                6 => {
                    let us = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
                    frames.push((us, &bytes[at + 28..at + 28 + word(at + 20) as usize]));
                }
                _ => {}
            }
            at += word(at + 4) as usize;
        }
    } else {
        link = word(20);
        let mut at = 24;
        while at + 16 <= bytes.len() {
            let end = at + 16 + word(at + 8) as usize;
            frames.push((u64::from(word(at)) * 1_000_000 + u64::from(word(at + 4)), &bytes[at + 16..end]));
            at = end;
        }
    }
    let origin = frames.first()?.0;
    let datagram = |(us, frame): (u64, &[u8])| {
        let ip = &frame[if link == 1 { 14 } else { 4 }..];
        let udp = &ip[usize::from(ip[0] & 15) * 4..];
        let source = SocketAddr::from(([ip[12], ip[13], ip[14], ip[15]], u16::from_be_bytes([udp[0], udp[1]])));
        ((us - origin) / 1_000, source, udp[8..usize::from(u16::from_be_bytes([udp[4], udp[5]]))].to_vec())
    };
    Some(frames.into_iter().map(datagram).collect())
}

/// Plays one source of a capture to a session; yields what happened.
fn replay(packets: &[(u64, SocketAddr, Vec<u8>)], source: SocketAddr) -> Rig {
    let mut plan = plan();
    plan.remote.rtp = source;
    let mut rig = Rig::new(plan);
    let mut packets = packets.iter().filter(|(_, from, _)| *from == source).peekable();
    let origin = packets.peek().map_or(0, |packet| packet.0);
    while packets.peek().is_some() {
        while let Some((ms, _, data)) = packets.next_if(|(ms, ..)| 1_000 + ms - origin <= rig.ms) {
            rig.session.rtp(Nanos::from_ms(1_000 + ms - origin), data, source);
            rig.drain();
        }
        rig.tick();
    }
    rig
}

#[test]
fn keys_in_real_captures_are_told_as_their_list_has_them() {
    let Some(packets) = capture("rtpproxy-dtmf-2833.pcap") else { return };
    for (port, keys) in [(19_438, "1234567890*#5"), (56_890, "54321#")] {
        let source = packets.iter().find(|(_, source, _)| source.port() == port).unwrap().1;
        let rig = replay(&packets, source);
        let digits: String =
            rig.events.iter().filter_map(|event| if let MediaEvent::Digit { digit, .. } = event { Some(*digit) } else { None }).collect();
        // The list says in which order they came: `*` before `0` in the first.
        let expected = if keys.len() == 13 { "123456789*0#5" } else { keys };
        assert_eq!(digits, expected);
    }
}

#[test]
fn real_calls_are_heard_and_a_test_tone_is_not_speech() {
    for (name, speaks) in [
        ("rtpproxy-call1-ulaw-a.pcap", true),
        ("rtpproxy-call1-ulaw-o.pcap", true),
        ("rtpproxy-call1-alaw-a.pcap", true),
        ("rtpproxy-rtcp-o.pcap", true),
        ("freeswitch-milliwatt-pcmu.pcap", false),
    ] {
        let Some(packets) = capture(name) else { return };
        let rig = replay(&packets, packets[0].1);
        let states = rig.states();
        println!("{name}: {states:?} {:?}", rig.session.counts());
        assert_eq!(states.contains(&Acoustic::Speaking), speaks, "{name}: {states:?}");
        assert_eq!(rig.session.counts().invalid, 0, "{name}");
    }
}

#[test]
fn garbage_is_counted_and_survived() {
    let mut rig = Rig::new(plan());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/cases/c_malformed/webrtc-fuzz-corpus");
    let mut random = 1u32;
    for length in 0..400 {
        let data: Vec<u8> = (0..length)
            .map(|_| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 24) as u8
            })
            .collect();
        let source = rig.source;
        rig.session.rtp(Nanos::from_ms(rig.ms), &data, source);
        rig.session.rtcp(Nanos::from_ms(rig.ms), &data, source);
        rig.drain();
    }
    assert!(rig.session.counts().invalid > 0);
    let Ok(folders) = std::fs::read_dir(folder) else { return println!("skipped in part: {folder} is missing") };
    for file in folders.flatten().filter_map(|folder| std::fs::read_dir(folder.path()).ok()).flatten().flatten() {
        let data = std::fs::read(file.path()).unwrap();
        let source = rig.source;
        rig.session.rtp(Nanos::from_ms(rig.ms), &data, source);
        rig.session.rtcp(Nanos::from_ms(rig.ms), &data, source);
        rig.tick();
    }
}
