//! A session in virtual time, and the far end that it talks to.

use std::sync::Arc;

use rtp_rs::{RtpPacketBuilder, Seq};

use super::*;

pub(super) const OURS: u32 = 0x0B0C_5BAD;
pub(super) const THEIRS: u32 = 0xCA11_E400;

pub(super) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(super) fn remote() -> Remote {
    Remote {
        rtp: address("192.0.2.1:4000"),
        signalled_from: address("192.0.2.1:5060").ip(),
        rtcp: address("192.0.2.1:4001"),
        codec: Codec::Pcmu,
        telephone_event: Some(101),
        direction: Direction::SendRecv,
    }
}

pub(super) fn plan() -> Plan {
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
        also_from: Arc::new([]),
    }
}

pub(super) fn segment(playback: u128, index: u32) -> SegmentRef {
    SegmentRef { playback: PlaybackId(playback), index }
}

/// A sound that is never silence, `ms` long.
pub(super) fn audio(ms: usize) -> Coded {
    Coded { codec: Codec::Pcmu, octets: (0..ms * 8).map(|n| (n % 100) as u8).collect(), continues: false }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sent {
    pub(super) at_ms: u64,
    pub(super) to: SocketAddr,
    pub(super) sequence: u16,
    pub(super) timestamp: u32,
    pub(super) marker: bool,
    pub(super) payload: Vec<u8>,
}

impl Sent {
    pub(super) fn silent(&self) -> bool {
        self.payload.iter().all(|octet| *octet == 0xFF)
    }
}

/// A session and a far end that sends 20 ms packets, each 5 ms before a tick.
pub(super) struct Rig {
    pub(super) session: MediaSession,
    pub(super) ms: u64,
    pub(super) sequence: u16,
    pub(super) timestamp: u32,
    pub(super) ssrc: u32,
    pub(super) source: SocketAddr,
    pub(super) sent: Vec<Sent>,
    pub(super) rtcp: Vec<Vec<u8>>,
    pub(super) events: Vec<MediaEvent>,
}

impl Rig {
    pub(super) fn new(plan: Plan) -> Self {
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

    pub(super) fn drain(&mut self) {
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

    pub(super) fn command(&mut self, command: Command) {
        self.session.command(Nanos::from_ms(self.ms), command);
        self.drain();
    }

    pub(super) fn speak(&mut self, segment: SegmentRef, ms: usize) {
        let epoch = self.session.listener.epoch();
        self.command(Command::Playback(PlaybackCommand::Speak { segment, audio: audio(ms), last: true, epoch }));
    }

    pub(super) fn receive(&mut self, payload_type: u8, marker: bool, sequence: u16, timestamp: u32, payload: &[u8]) {
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

    pub(super) fn tick(&mut self) -> Frame {
        self.ms += 5;
        let frame = *self.session.tick(Nanos::from_ms(self.ms));
        self.drain();
        self.ms += 15;
        frame
    }

    /// The far end says `samples`, in packets of 20 ms.
    pub(super) fn hear(&mut self, samples: &[i16]) {
        for frame in samples.chunks_exact(160) {
            let payload: Vec<u8> = frame.iter().map(|&sample| Codec::Pcmu.encode_sample(sample)).collect();
            self.receive(0, false, self.sequence, self.timestamp, &payload);
            self.sequence = self.sequence.wrapping_add(1);
            self.timestamp = self.timestamp.wrapping_add(160);
            self.tick();
        }
    }

    pub(super) fn silence(&mut self, ms: usize) {
        self.hear(&vec![0; ms * 8]);
    }

    pub(super) fn playback_events(&mut self) -> Vec<PlaybackEvent> {
        let events = std::mem::take(&mut self.events);
        events.into_iter().filter_map(|event| if let MediaEvent::Playback(event) = event { Some(event) } else { None }).collect()
    }

    pub(super) fn states(&self) -> Vec<Acoustic> {
        self.events.iter().filter_map(|event| if let MediaEvent::Acoustic(edge) = event { Some(edge.to) } else { None }).collect()
    }

    pub(super) fn report(&mut self, about: u32, highest: u32, lost: u32, source: SocketAddr) {
        use rtcp_types::{ReceiverReport, ReportBlock, RtcpPacketWriterExt};
        let block = ReportBlock::builder(about).extended_sequence_number(highest).cumulative_lost(lost);
        let mut data = [0; 64];
        let length = ReceiverReport::builder(THEIRS).add_report_block(block).write_into(&mut data).unwrap();
        self.session.rtcp(Nanos::from_ms(self.ms), &data[..length], source);
        self.drain();
    }
}
