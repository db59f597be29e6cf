//! Garbage, lies and floods on the SIP, RTP and RTCP ports.

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use recado_core::ledger::DeliveryState;

use crate::box_process::BoxProcess;
use crate::http_peers::{SUCCEEDED, report};
use crate::phone::{ACCEPTED, DONE, Phone, WORDS, receiver_report, rtp_packet, tone_frame, transact};
use crate::stage::{Stage, patiently};

#[test]
fn garbage_on_the_sip_port_disturbs_no_call_fills_no_log_and_no_memory() {
    let stage = Stage::set(&[]);
    let mut boxed = stage.box_runs();
    let phone = Phone::dial(boxed.sip, "ana");
    phone.hears(WORDS, 1);
    let before_kib = boxed.resident_kib().expect("it runs");
    let corpus = corpus();
    let mut random = Random(1);
    // Another source than the telephones': a source has its share of the box.
    let socket = UdpSocket::bind(("127.0.0.2", 0)).expect("a socket");
    // Answers to it can't be sent: nobody has port 0.
    let nowhere = "OPTIONS sip:recado@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:0;branch=z9hG4bKnowhere\r\nMax-Forwards: 70\r\n\
                   From: <sip:a@b>;tag=1\r\nTo: <sip:recado@b>\r\nCall-ID: c\r\nCSeq: 1 OPTIONS\r\n\r\n";
    for round in 0..SIP_PACKETS {
        let mut datagram = match round % 4 {
            0 => random.bytes(1_400),
            1 => nowhere.replace("nowhere", &round.to_string()).into_bytes(),
            _ => corpus[random.below(corpus.len())].clone(),
        };
        match round % 5 {
            0 => datagram.truncate(random.below(datagram.len() + 1)),
            1 | 2 => random.mutate(&mut datagram),
            _ => {}
        }
        datagram.truncate(65_507);
        socket.send_to(&datagram, boxed.sip).expect("sent");
        breathe(round);
    }
    socket.send_to(&vec![b'x'; 65_507], boxed.sip).expect("sent");
    let mut oversized = b"OPTIONS sip:recado@127.0.0.1 SIP/2.0\r\nX: ".to_vec();
    oversized.resize(65_507, b'y');
    socket.send_to(&oversized, boxed.sip).expect("sent");

    let other = Phone::dial(boxed.sip, "bob");
    other.hears(WORDS, 1);
    assert!(boxed.runs());
    sane(&boxed, before_kib);
    assert!(phone.heard().gap_max < STALL, "{:?}", phone.heard().gap_max);
    phone.hang_up();
}

#[test]
fn garbage_on_a_calls_rtp_and_rtcp_ports_disturbs_neither_it_nor_others() {
    let stage = Stage::set(&[]);
    let mut boxed = stage.box_runs();
    let (phone, other) = (Phone::dial(boxed.sip, "ana"), Phone::dial(boxed.sip, "bob"));
    phone.hears(WORDS, 1);
    other.hears(WORDS, 1);
    let before_kib = boxed.resident_kib().expect("it runs");
    let corpus = corpus();
    let mut random = Random(2);
    let stranger = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
    for round in 0..MEDIA_PACKETS {
        let mut datagram = match round % 4 {
            0 => random.bytes(1_400),
            1 => rtp_packet(0, random.below(65_536) as u16, random.next() as u32, &random.bytes(400)),
            // Keys, each a new one.
            2 => rtp_packet(101, round as u16, round as u32 * 160, &[random.below(16) as u8, 0x8a, 3, 32]),
            _ => corpus[random.below(corpus.len())].clone(),
        };
        if round % 3 == 0 {
            random.mutate(&mut datagram);
        }
        datagram.truncate(65_507);
        let to = if round % 2 == 0 { phone.box_rtp } else { phone.box_rtcp };
        let from = match (round % 5, round % 2) {
            (0, _) => &stranger,
            (_, 0) => &phone.rtp,
            _ => &phone.rtcp,
        };
        // The system may have no room for it.
        let _ = from.send_to(&datagram, to);
        breathe(round);
    }
    assert!(boxed.runs());
    sane(&boxed, before_kib);
    let third = Phone::dial(boxed.sip, "eve");
    third.hears(WORDS, 1);
    assert!(other.heard().gap_max < STALL, "{:?}", other.heard().gap_max);
    other.hang_up();
    phone.hang_up();
}

#[test]
fn a_third_source_is_neither_heard_nor_sent_to() {
    let stage = Stage::set(&[]);
    let boxed = stage.box_runs();
    let phone = Phone::dial(boxed.sip, "ana");
    phone.hears(WORDS, 1);
    let stranger = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
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
    phone.hang_up();
}

#[test]
fn reports_of_what_was_never_sent_or_of_absurd_loss_make_nothing_spoken() {
    let stage = Stage::set(&["job"]);
    let boxed = stage.box_runs();
    // The first was cut off in the middle of its closing, whatever the report says of packets to come.
    let phone = Phone::dial(boxed.sip, "ana");
    phone.reports(false);
    phone.hears(WORDS, 1);
    let asked = stage.asked("job", 1);
    phone.hears(ACCEPTED, 1);
    assert_eq!(report(&asked, SUCCEEDED), 200);
    patiently("the closing to begin", || phone.heard().frames.contains(&DONE).then_some(()));
    let heard = phone.heard();
    for ahead in [10, 1_000, 30_000, 60_000, 0x7fff_0000] {
        for lost in [0, -1, -0x80_0000, 0x7f_ffff] {
            let report = receiver_report(heard.ssrc, lost, (heard.highest as u32).wrapping_add(ahead));
            phone.rtcp.send_to(&report, phone.box_rtcp).expect("sent");
        }
    }
    phone.hang_up();
    boxed.says("call settled");
    let state = |stage: &Stage| stage.history().deliveries[0].state;
    assert!(matches!(state(&stage), DeliveryState::Ready | DeliveryState::Uncertain), "{:?}", state(&stage));

    // The second gets everything, and reports that it got nothing of it.
    let phone = Phone::dial(boxed.sip, "ana");
    phone.reports(false);
    phone.hears(DONE, 1);
    let heard = phone.heard();
    phone.rtcp.send_to(&receiver_report(heard.ssrc, 0x7f_ffff, heard.highest as u32), phone.box_rtcp).expect("sent");
    patiently("the doubt", || (state(&stage) == DeliveryState::Uncertain).then_some(()));
    phone.hang_up();
}

#[test]
fn a_flood_of_unfinished_and_cancelled_calls_leaves_room_for_a_real_one() {
    let stage = Stage::set(&[]);
    stage.changes("[http]", "ring_ms = 300\n[http]");
    let boxed = stage.box_runs();
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
    socket.connect(boxed.sip).expect("connected");
    let local = socket.local_addr().expect("an address");
    for number in 0..150 {
        let request = |method: &str| {
            format!(
                "{method} sip:recado@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bKf{number}\r\nMax-Forwards: 70\r\nFrom: <sip:f@{local}>;tag=f\r\nTo: <sip:recado@b>\r\nCall-ID: f{number}\r\nCSeq: 1 {method}\r\nContact: <sip:f@{local}>\r\nContent-Length: 0\r\n\r\n"
            )
        };
        socket.send(request("INVITE").as_bytes()).expect("sent");
        assert!(transact(&socket, &request("CANCEL"), "CANCEL").is_some());
    }
    // More calls came than there are ports, but none of them got any.
    Phone::dial(boxed.sip, "ana").hears(WORDS, 1);
}

/// The box is as it was: nothing has piled up, and the log says little.
fn sane(boxed: &BoxProcess, before_kib: u64) {
    let (now_kib, lines) = (boxed.resident_kib().expect("it runs"), boxed.said("").len());
    println!("{before_kib} → {now_kib} KiB, {lines} lines");
    assert!(now_kib < before_kib + 16 * 1_024, "{before_kib} → {now_kib} KiB");
    assert!(lines < LINES_MAX, "{lines} lines, such as {:?}", boxed.said("").last());
}

/// Real and malformed messages of many makers, where they are at hand; a few of our own otherwise.
fn corpus() -> Vec<Vec<u8>> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases");
    let mut found = Vec::new();
    let mut folders = vec![cases.join("c_malformed"), cases.join("b_captures")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(data) = std::fs::read(&path) {
                // Of a capture, pieces: their places do not matter here.
                found.extend(data.chunks(1_400).take(20).map(<[u8]>::to_vec));
            }
        }
    }
    if found.is_empty() {
        println!("skipped: the corpora in {} are missing; random packets only", cases.display());
        found.push(b"INVITE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n\r\n".to_vec());
        found.push(receiver_report(1, 2, 3));
    }
    found
}

/// Lets the box's socket buffer empty: what the system drops tests nothing.
fn breathe(round: usize) {
    if round % 64 == 63 {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// xorshift64: the same garbage in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn bytes(&mut self, length_max: usize) -> Vec<u8> {
        (0..self.below(length_max)).map(|_| self.next() as u8).collect()
    }

    fn mutate(&mut self, data: &mut Vec<u8>) {
        for _ in 0..=self.below(8) {
            if data.is_empty() {
                return;
            }
            let at = self.below(data.len());
            match self.below(4) {
                0 => data[at] = self.next() as u8,
                1 => data[at] ^= 1 << self.below(8),
                2 => drop(data.remove(at)),
                _ => {
                    let piece = data[at..].iter().take(64).copied().collect::<Vec<_>>();
                    data.extend(piece);
                }
            }
        }
    }
}

const SIP_PACKETS: usize = 40_000;
const MEDIA_PACKETS: usize = 40_000;

/// A flood of tens of thousands may be told in so many lines.
const LINES_MAX: usize = 1_000;

/// No call stands still for so long: the machine of the tests is busy with other tests.
const STALL: Duration = Duration::from_millis(500);
