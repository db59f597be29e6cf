//! What a call costs on the media thread, next to the least that it could cost, in the same run.
//!
//! Each figure is one 20 ms frame interval of one call: a packet in, a tick, a packet out.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use recado::g711::Codec;
use recado::surface::listen::Profile;
use recado::surface::media::{Coded, Command, Direction, MediaSession, Nanos, Plan, Remote};
use recado_core::conversation::{AcousticEpoch, SegmentRef};
use recado_core::ids::PlaybackId;
use recado_voice::PlaybackCommand;
use webrtc_vad::{SampleRate, Vad, VadMode};

fn plan(remote: SocketAddr) -> Plan {
    Plan {
        remote: Remote {
            rtp: remote,
            signalled_from: remote.ip(),
            rtcp: remote,
            codec: Codec::Pcmu,
            telephone_event: Some(101),
            direction: Direction::SendRecv,
        },
        ssrc: 7,
        first_sequence: 0,
        first_timestamp: 0,
        seed: 1,
        cname: "recado".into(),
        ntp_at_origin: 0,
        profile: Profile::responsive(),
        silent_after_s: 10,
        also_from: Arc::new([]),
    }
}

fn packet(n: u32, payload: &[u8; 160]) -> [u8; 172] {
    let mut packet = [0; 172];
    packet[0] = 0x80;
    packet[2..4].copy_from_slice(&(n as u16).to_be_bytes());
    packet[4..8].copy_from_slice(&(n * 160).to_be_bytes());
    packet[8..12].copy_from_slice(&9u32.to_be_bytes());
    packet[12..].copy_from_slice(payload);
    packet
}

/// A buzz with harmonics: voiced to the reflex, and enough to keep the network running.
fn voiced() -> [u8; 160] {
    std::array::from_fn(|n| Codec::Pcmu.encode_sample((6_000 - (n as i32 % 64) * 180) as i16))
}

/// Decode, webrtc-vad, build a packet: nothing can answer a call with less.
fn floor(criterion: &mut Criterion, name: &str, payload: [u8; 160]) {
    let mut vad = Vad::new_with_rate_and_mode(SampleRate::Rate8kHz, VadMode::Aggressive);
    let mut n = 0u32;
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            n += 1;
            let incoming = packet(n, &payload);
            let mut samples = [0; 160];
            Codec::Pcmu.decode(&black_box(&incoming)[12..], &mut samples);
            let _ = black_box(vad.is_voice_segment(&samples));
            black_box(packet(n, &[0xFF; 160]))
        });
    });
}

fn session(criterion: &mut Criterion, name: &str, payload: [u8; 160], speaks: bool) {
    let remote: SocketAddr = ([192, 0, 2, 1], 4_000).into();
    let mut session = MediaSession::new(Nanos(0), plan(remote));
    let audio: Arc<[u8]> = vec![0x20; 8_000 * 50].into();
    let mut n = 0u32;
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            n += 1;
            let now = Nanos::from_ms(u64::from(n) * 20);
            if speaks && n.is_multiple_of(2_500) {
                let segment = SegmentRef { playback: PlaybackId(1), index: n };
                let audio = Coded { codec: Codec::Pcmu, octets: Arc::clone(&audio), continues: false };
                session.command(now, Command::Playback(PlaybackCommand::Speak { segment, audio, last: true, epoch: AcousticEpoch(0) }));
            }
            session.rtp(now, &black_box(packet(n, &payload)), remote);
            session.tick(now);
            while let Some(output) = session.packet() {
                black_box(&output);
            }
            while let Some(event) = session.event() {
                black_box(&event);
            }
            while session.spent().is_some() {}
        });
    });
}

fn media(criterion: &mut Criterion) {
    floor(criterion, "floor, caller silent", [0xFF; 160]);
    session(criterion, "session, caller silent", [0xFF; 160], false);
    session(criterion, "session, caller silent, agent speaks", [0xFF; 160], true);
    floor(criterion, "floor, caller loud", voiced());
    session(criterion, "session, caller loud", voiced(), false);
}

criterion_group!(benches, media);
criterion_main!(benches);
