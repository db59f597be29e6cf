//! The real thread with real sockets on loopback. Whatever allocates on it aborts this process.

use super::*;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assert_no_alloc::AllocDisabler;
use recado_core::conversation::{Acoustic, AcousticEpoch, PlaybackEvent, SegmentRef};
use recado_core::ids::PlaybackId;
use recado_voice::PlaybackCommand;
use rtp_rs::{RtpPacketBuilder, RtpReader, Seq};

use crate::g711::Codec;
use crate::surface::listen::Profile;
use crate::surface::listen::voice::voice;
use crate::surface::media::coded::Coded;
use crate::surface::media::plan::{Command, Direction, MediaEvent, Plan, Remote};

#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn start(ports: std::ops::RangeInclusive<u16>, calls_max: usize) -> MediaHandle {
    MediaHandle::start(MediaConfig { address: LOCALHOST, ports, calls_max, origin: Instant::now(), realtime: true }).unwrap()
}

fn plan(rtp: SocketAddr) -> Plan {
    Plan {
        remote: Remote {
            rtp,
            signalled_from: rtp.ip(),
            rtcp: SocketAddr::new(rtp.ip(), rtp.port() + 1),
            codec: Codec::Pcmu,
            telephone_event: Some(101),
            direction: Direction::SendRecv,
        },
        ssrc: 7,
        first_sequence: 100,
        first_timestamp: 5,
        seed: 3,
        cname: "recado".into(),
        ntp_at_origin: 0,
        profile: Profile::responsive(),
        silent_after_s: 10,
        also_from: Arc::new([]),
    }
}

/// A far end on loopback.
struct FarEnd {
    socket: UdpSocket,
    to: SocketAddr,
    sequence: u16,
}

impl FarEnd {
    fn new() -> Self {
        let socket = UdpSocket::bind((LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self { socket, to: SocketAddr::new(LOCALHOST, 9), sequence: 60_000 }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn say(&mut self, frame: &[i16]) {
        let payload: Vec<u8> = frame.iter().map(|&sample| Codec::Pcmu.encode_sample(sample)).collect();
        let packet = RtpPacketBuilder::new()
            .payload_type(0)
            .sequence(Seq::from(self.sequence))
            .timestamp(u32::from(self.sequence) * 160)
            .ssrc(0xCA11)
            .payload(&payload)
            .build()
            .unwrap();
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.send_to(&packet, self.to).unwrap();
    }

    /// The next packet's sequence number, and whether it is silent.
    fn hear(&self) -> (u16, bool) {
        let mut data = [0; 2_000];
        let length = self.socket.recv(&mut data).unwrap();
        let rtp = RtpReader::new(&data[..length]).unwrap();
        (rtp.sequence_number().into(), rtp.payload().iter().all(|octet| *octet == 0xFF))
    }
}

async fn expect(events: &mut CallEvents, what: impl Fn(&MediaEvent) -> bool) -> MediaEvent {
    let wait = async {
        loop {
            let event = events.recv().await.expect("the call's media ended");
            if what(&event) {
                return event;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("the event came not in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_on_the_real_thread_speaks_pauses_for_the_caller_and_ends() {
    let media = start(46_300..=46_331, 4);
    let mut far = FarEnd::new();
    let pair = media.reserve().unwrap();
    far.to.set_port(pair.rtp_port());
    let mut call = media.open_call(pair, plan(far.address()), Taps { record: true, hear: true }).unwrap();
    assert_eq!(call.local_rtp_port, far.to.port());

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("call.wav");
    let recording = call.recording.take().unwrap();
    let mut hearing = call.hearing.take().unwrap();
    let listener = tokio::spawn(async move {
        let mut frames = Vec::new();
        while let Some(frame) = hearing.recv().await {
            frames.push(frame);
        }
        frames
    });
    let recorder = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || recording.write_wav(&path))
    };

    let segment = SegmentRef { playback: PlaybackId(1), index: 0 };
    let audio: Arc<[u8]> = vec![0x20; 8_000 * 20].into();
    let weak = Arc::downgrade(&audio);
    let audio = Coded { codec: Codec::Pcmu, octets: audio, continues: false };
    call.commands.send(Command::Playback(PlaybackCommand::Speak { segment, audio, last: true, epoch: AcousticEpoch(0) })).unwrap();
    let started = expect(&mut call.events, |event| matches!(event, MediaEvent::Playback(PlaybackEvent::Started { .. }))).await;
    let MediaEvent::Playback(PlaybackEvent::Started { packet, .. }) = started else { unreachable!() };

    // The caller begins to speak, in step with our packets: our voice stops.
    let speaker = tokio::task::spawn_blocking(move || {
        let words = voice(4_000);
        let mut heard = Vec::new();
        for frame in words.chunks_exact(160).cycle().take(1_000) {
            let (sequence, silent) = far.hear();
            heard.push(u64::from(sequence));
            if silent && u64::from(sequence) > packet {
                return (far, heard);
            }
            far.say(frame);
        }
        panic!("the voice did not stop");
    });
    expect(&mut call.events, |event| matches!(event, MediaEvent::Acoustic(edge) if edge.to == Acoustic::Suspected)).await;
    expect(&mut call.events, |event| matches!(event, MediaEvent::Playback(PlaybackEvent::Paused { .. }))).await;
    let (far, heard) = speaker.await.unwrap();
    assert!(heard.windows(2).all(|pair| pair[1] == pair[0] + 1), "{heard:?}");

    call.commands.send(Command::Playback(PlaybackCommand::Clear { playback: PlaybackId(1) })).unwrap();
    expect(&mut call.events, |event| matches!(event, MediaEvent::Playback(PlaybackEvent::Cleared { cut: Some(_), .. }))).await;
    call.commands.send(Command::Close).unwrap();
    while call.events.recv().await.is_some() {}
    let recorded = recorder.await.unwrap().unwrap();
    assert!(recorded.frames > 20 && recorded.dropped == 0, "{recorded:?}");
    let mut wav = hound::WavReader::open(&path).unwrap();
    assert_eq!(u64::from(wav.duration()), recorded.frames * 160);
    // Whoever listened has heard the caller as the recording did, on the left.
    let caller: Vec<i16> = wav.samples::<i16>().step_by(2).map(|sample| sample.unwrap()).collect();
    assert!(listener.await.unwrap().concat() == caller && caller.iter().any(|sample| sample.unsigned_abs() > 1_000));
    let mut wav = hound::WavReader::open(&path).unwrap();
    let loud = wav.samples::<i16>().skip(1).step_by(2).filter(|sample| sample.as_ref().unwrap().unsigned_abs() > 1_000).count();
    assert!(loud >= 160, "the agent is on the right: {loud} samples");
    drop(media);
    assert_eq!(weak.strong_count(), 0, "the audio is freed");
    drop(far);
}

#[tokio::test]
async fn calls_are_bounded_their_ports_rest_and_a_voice_that_goes_away_ends_its_call() {
    let media = start(46_340..=46_351, 2);
    let far = FarEnd::new();
    let mut calls: Vec<CallMedia> =
        (0..2).map(|_| media.open_call(media.reserve().unwrap(), plan(far.address()), Taps::default()).unwrap()).collect();
    let third = media.open_call(media.reserve().unwrap(), plan(far.address()), Taps::default());
    assert!(matches!(third, Err(MediaError::Full(2))));
    far.hear();
    let CallMedia { commands, mut events, local_rtp_port, .. } = calls.remove(0);
    let closed = Instant::now();
    drop(commands);
    while events.recv().await.is_some() {}
    assert!(closed.elapsed() >= Duration::from_millis(950), "late reports are waited for");
    let again = media.open_call(media.reserve().unwrap(), plan(far.address()), Taps::default()).unwrap();
    assert_ne!(again.local_rtp_port, local_rtp_port);
}

#[tokio::test]
async fn a_far_end_that_refuses_packets_is_no_error() {
    let media = start(46_360..=46_371, 1);
    let nobody = FarEnd::new().address();
    let mut call = media.open_call(media.reserve().unwrap(), plan(nobody), Taps::default()).unwrap();
    let segment = SegmentRef { playback: PlaybackId(1), index: 0 };
    let audio = Coded { codec: Codec::Pcmu, octets: vec![0x20; 1_600].into(), continues: false };
    call.commands.send(Command::Playback(PlaybackCommand::Speak { segment, audio, last: true, epoch: AcousticEpoch(0) })).unwrap();
    expect(&mut call.events, |event| matches!(event, MediaEvent::Playback(PlaybackEvent::Sent { .. }))).await;
}

#[test]
fn a_box_that_stops_says_goodbye_in_every_call() {
    let media = start(46_380..=46_391, 2);
    let rtcp = UdpSocket::bind((LOCALHOST, 46_393)).unwrap();
    rtcp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let call = media.open_call(media.reserve().unwrap(), plan(SocketAddr::new(LOCALHOST, 46_392)), Taps::default()).unwrap();
    drop(media);
    let mut data = [0; 500];
    let length = rtcp.recv(&mut data).unwrap();
    assert_eq!(data[length - 8..length], [0x81, 203, 0, 1, 0, 0, 0, 7]);
    drop(call);
}

#[tokio::test]
async fn after_a_re_invite_the_new_far_end_is_spoken_to_and_heard() {
    let media = start(46_400..=46_411, 1);
    let (mut first, mut second) = (FarEnd::new(), FarEnd::new());
    let pair = media.reserve().unwrap();
    first.to.set_port(pair.rtp_port());
    second.to = first.to;
    let mut call = media.open_call(pair, plan(first.address()), Taps::default()).unwrap();
    for _ in 0..5 {
        first.hear();
        first.say(&[0; 160]);
    }
    call.commands.send(Command::Remote(plan(second.address()).remote)).unwrap();
    second.sequence = 9;
    let words = voice(2_000);
    let speaker = tokio::task::spawn_blocking(move || {
        for frame in words.chunks_exact(160) {
            second.hear();
            second.say(frame);
        }
    });
    expect(&mut call.events, |event| matches!(event, MediaEvent::Acoustic(edge) if edge.to == Acoustic::Suspected)).await;
    speaker.await.unwrap();
}
