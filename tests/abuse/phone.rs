//! A telephone: a call over real SIP and RTP, whose sockets a test may misuse.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use recado::g711::Codec;

use crate::stage::patiently;

/// A call that is up.
pub struct Phone {
    sip: UdpSocket,
    call: Call,
    /// The number of its last request (CSeq).
    sequence: u32,
    /// What it receives on and sends from.
    pub rtp: UdpSocket,
    pub rtcp: UdpSocket,
    /// Where the box receives.
    pub box_rtp: SocketAddr,
    pub box_rtcp: SocketAddr,
    heard: Arc<Mutex<Heard>>,
    ends: Arc<AtomicBool>,
    reports: Arc<AtomicBool>,
    keys: Arc<Mutex<VecDeque<u8>>>,
    thread: Option<JoinHandle<()>>,
}

/// The addresses of a telephone that is reached through something else. Its signalling comes from 127.0.0.1.
pub struct Addresses {
    /// What its SDP names.
    pub sdp: &'static str,
    /// Where its media comes from.
    pub rtp: &'static str,
}

impl Default for Addresses {
    fn default() -> Self {
        Self { sdp: "127.0.0.1", rtp: "127.0.0.1" }
    }
}

struct Call {
    local: SocketAddr,
    user: String,
    to: String,
    id: String,
}

/// What came from the box.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// Frequency (Hz) of each frame of 20 ms, in the order of arrival; 0 for silence.
    pub frames: Vec<u32>,
    /// The source that the box speaks with, its first and its highest extended sequence number.
    pub ssrc: u32,
    pub first: u64,
    pub highest: u64,
    /// The longest time between two packets.
    pub gap_max: Duration,
    last: Option<Instant>,
}

impl Phone {
    /// Dials and waits until the call is up.
    pub fn dial(sip: SocketAddr, user: &str) -> Self {
        Self::try_dial(sip, user).unwrap_or_else(|status| panic!("the call is answered {status}"))
    }

    /// Dials; the final status where it is not 200.
    pub fn try_dial(to: SocketAddr, user: &str) -> Result<Self, u16> {
        Self::dial_from(to, user, &Addresses::default())
    }

    /// The same, from addresses that may differ.
    pub fn dial_from(to: SocketAddr, user: &str, addresses: &Addresses) -> Result<Self, u16> {
        let sip = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
        sip.connect(to).expect("connected");
        let (rtp, rtcp) = pair(addresses.rtp);
        let local = sip.local_addr().expect("an address");
        let port = rtp.local_addr().expect("an address").port();
        // A port may be had again by a later call, within the time in which its transactions are remembered.
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", CALLS.fetch_add(1, Ordering::Relaxed), std::process::id());
        let mut call = Call { local, user: user.into(), to: format!("<sip:recado@{to}>"), id };
        let sdp = describe(addresses.sdp, port, 1);
        let answer = transact(&sip, &call.request("INVITE", 1, &sdp), "INVITE").expect("an answer to INVITE");
        let status: u16 = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        if let Some(to) = answer.lines().find_map(|line| line.strip_prefix("To: ")) {
            call.to = to.trim().into();
        }
        // For another final answer than 200 this ACK comes in a transaction of its own, which ends nothing but repetitions.
        sip.send(call.request("ACK", 1, "").as_bytes()).expect("sent");
        if status != 200 {
            return Err(status);
        }
        let field = |prefix: &str| answer.lines().find_map(|line| line.strip_prefix(prefix)?.split(' ').next()?.trim().parse().ok());
        let box_rtp = SocketAddr::new(to.ip(), field("m=audio ").expect("a port"));
        let box_rtcp = SocketAddr::new(to.ip(), field("a=rtcp:").unwrap_or(box_rtp.port() + 1));
        let (heard, ends, reports, keys) = (Arc::default(), Arc::<AtomicBool>::default(), Arc::new(AtomicBool::new(true)), Arc::default());
        let line = Line {
            rtp: rtp.try_clone().expect("a socket"),
            rtcp: rtcp.try_clone().expect("a socket"),
            to: (box_rtp, box_rtcp),
            heard: Arc::clone(&heard),
            ends: Arc::clone(&ends),
            reports: Arc::clone(&reports),
            keys: Arc::clone(&keys),
        };
        let thread = Some(std::thread::spawn(move || line.run()));
        Ok(Self { sip, call, sequence: 1, rtp, rtcp, box_rtp, box_rtcp, heard, ends, reports, keys, thread })
    }

    /// What was heard so far.
    pub fn heard(&self) -> Heard {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether honest receiver reports are sent, one a second.
    pub fn reports(&self, honestly: bool) {
        self.reports.store(honestly, Ordering::Relaxed);
    }

    /// Presses a key (RFC 4733).
    pub fn presses(&self, key: u8) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).push_back(key);
    }

    /// Waits until a tone has been heard to its end, for the `times`th time.
    pub fn hears(&self, tone: u32, times: usize) {
        patiently(&format!("the tone of {tone} Hz"), || (self.heard().whole(tone) >= times).then_some(()));
    }

    /// Waits until one of `tones` was heard whole.
    pub fn hears_any_of(&self, tones: &[u32]) {
        patiently(&format!("a tone of {tones:?} Hz"), || tones.iter().any(|tone| self.heard().whole(*tone) > 0).then_some(()));
    }

    /// Waits until the box hangs up, and answers it.
    pub fn is_hung_up(&self) {
        self.sip.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
        patiently("the box to hang up", || {
            let mut buffer = [0; 4_096];
            let length = self.sip.recv(&mut buffer).ok()?;
            let request = String::from_utf8_lossy(&buffer[..length]).into_owned();
            request.starts_with("BYE ").then(|| {
                let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
                let headers: String = request
                    .lines()
                    .filter(|line| kept.iter().any(|name| line.starts_with(name)))
                    .fold(String::new(), |all, line| all + line + "\r\n");
                self.sip.send(format!("SIP/2.0 200 OK\r\n{headers}Content-Length: 0\r\n\r\n").as_bytes()).expect("sent");
            })
        });
    }

    /// Describes its media anew, by a re-INVITE: at `address`, with its own port.
    pub fn moves(&mut self, address: &str) {
        let port = self.rtp.local_addr().expect("an address").port();
        self.sequence += 1;
        let sdp = describe(address, port, self.sequence);
        let invite = self.call.request("INVITE", self.sequence, &sdp);
        let answer = transact(&self.sip, &invite, &format!("{} INVITE", self.sequence)).expect("an answer to INVITE");
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        self.sip.send(self.call.request("ACK", self.sequence, "").as_bytes()).expect("sent");
    }

    /// Hangs up. What was heard.
    pub fn hang_up(self) -> Heard {
        transact(&self.sip, &self.call.request("BYE", self.sequence + 1, ""), "BYE").expect("an answer to BYE");
        self.heard()
    }
}

impl Drop for Phone {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Heard {
    /// How often a tone was heard from its begin to its end: at least 0.4 s of it, and then something else.
    pub fn whole(&self, tone: u32) -> usize {
        let runs = self.frames.chunk_by(|a, b| a == b);
        let ended: Vec<&[u32]> = runs.collect();
        let last = ended.len().saturating_sub(1);
        ended.iter().take(last).filter(|run| run[0] == tone && run.len() >= 20).count()
    }
}

impl Call {
    fn request(&self, method: &str, sequence: u32, sdp: &str) -> String {
        let Self { local, user, to, id } = self;
        let kind = if sdp.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        format!(
            "{method} sip:recado@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{id}{method}{sequence};rport\r\nMax-Forwards: 70\r\n\
             From: <sip:{user}@{local}>;tag=1\r\nTo: {to}\r\nCall-ID: {id}\r\nCSeq: {sequence} {method}\r\n\
             Contact: <sip:{user}@{local}>\r\n{kind}Content-Length: {}\r\n\r\n{sdp}",
            sdp.len()
        )
    }
}

/// Sends a request until it is answered finally.
pub fn transact(socket: &UdpSocket, request: &str, method: &str) -> Option<String> {
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("set");
    let mut buffer = vec![0; 65_536];
    for _ in 0..20 {
        socket.send(request.as_bytes()).expect("sent");
        while let Ok(length) = socket.recv(&mut buffer) {
            let answer = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let is_final = answer.starts_with("SIP/2.0 ") && !answer.starts_with("SIP/2.0 1");
            if is_final && answer.lines().any(|line| line.starts_with("CSeq:") && line.trim().ends_with(method)) {
                return Some(answer);
            }
        }
    }
    None
}

/// A receiver report (RFC 3550 6.4.2) with the SDES that a compound needs.
pub fn receiver_report(about: u32, lost: i32, highest: u32) -> Vec<u8> {
    let mut report = vec![0x81, 201, 0, 7];
    report.extend(SSRC.to_be_bytes());
    report.extend(about.to_be_bytes());
    report.extend((lost as u32 & 0x00ff_ffff).to_be_bytes());
    report.extend(highest.to_be_bytes());
    report.extend([0; 12]);
    report.extend([0x81, 202, 0, 4]);
    report.extend(SSRC.to_be_bytes());
    report.extend(*b"\x01\x06caller\0\0\0\0");
    report
}

/// An RTP packet of this telephone's stream.
pub fn rtp_packet(kind: u8, sequence: u16, timestamp: u32, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80, kind];
    packet.extend(sequence.to_be_bytes());
    packet.extend(timestamp.to_be_bytes());
    packet.extend(SSRC.to_be_bytes());
    packet.extend(payload);
    packet
}

/// Twenty milliseconds of a tone, or of silence at 0 Hz, in G.711.
pub fn tone_frame(hz: u32, at: usize) -> [u8; 160] {
    let mut frame = [Codec::Pcmu.silence(); 160];
    if hz > 0 {
        let samples: Vec<i16> = (0..160).map(|n| sample(hz, at + n)).collect();
        Codec::Pcmu.encode(&samples, &mut frame);
    }
    frame
}

/// One sample of a loud tone at 8 kHz.
pub fn sample(hz: u32, at: usize) -> i16 {
    ((at as f64 * f64::from(hz) * std::f64::consts::TAU / 8_000.0).sin() * 9_000.0) as i16
}

struct Line {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    to: (SocketAddr, SocketAddr),
    heard: Arc<Mutex<Heard>>,
    ends: Arc<AtomicBool>,
    reports: Arc<AtomicBool>,
    keys: Arc<Mutex<VecDeque<u8>>>,
}

impl Line {
    fn run(&self) {
        let mut next = Instant::now();
        for tick in 0_u32.. {
            next += Duration::from_millis(20);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.receive(&self.rtp);
            while self.rtcp.recv(&mut [0; 512]).is_ok() {}
            // A box that is being killed refuses; that is no fault of the telephone's.
            let key = self.keys.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let packet = match key {
                Some(key) => rtp_packet(101, tick as u16, tick * 160, &[key, 0x8a, 0, 160]),
                None => rtp_packet(0, tick as u16, tick * 160, &tone_frame(0, 0)),
            };
            let _ = self.rtp.send_to(&packet, self.to.0);
            if tick % 50 == 49 && heard.highest > 0 && self.reports.load(Ordering::Relaxed) {
                let received = heard.frames.len() as u64;
                let lost = (heard.highest - heard.first + 1).saturating_sub(received) as i32;
                let _ = self.rtcp.send_to(&receiver_report(heard.ssrc, lost, heard.highest as u32), self.to.1);
            }
        }
    }
}

impl Heard {
    fn receive(&mut self, rtp: &UdpSocket) {
        let mut buffer = [0; 2_048];
        while let Ok(length) = rtp.recv(&mut buffer) {
            let [0x80, kind, s1, s2, _, _, _, _, c1, c2, c3, c4, payload @ ..] = &buffer[..length] else { continue };
            if kind & 0x7f != 0 {
                continue;
            }
            let sequence = u64::from(u16::from_be_bytes([*s1, *s2]));
            self.ssrc = u32::from_be_bytes([*c1, *c2, *c3, *c4]);
            if self.frames.is_empty() {
                (self.first, self.highest) = (sequence, sequence);
            }
            // Loopback keeps the order: one that is lower has wrapped.
            let cycle = self.highest & !0xffff;
            let wrapped = if sequence < (self.highest & 0xffff) { 0x1_0000 } else { 0 };
            self.highest = cycle + wrapped + sequence;
            let now = Instant::now();
            self.gap_max = self.gap_max.max(self.last.map_or(Duration::ZERO, |last| now.duration_since(last)));
            self.last = Some(now);
            let mut samples = vec![0; payload.len()];
            Codec::Pcmu.decode(payload, &mut samples);
            self.frames.push(frequency(&samples));
        }
    }
}

/// The frequency of a tone by its zero crossings, to the nearest of those that are used; 0 where it is silent.
fn frequency(samples: &[i16]) -> u32 {
    let loud = samples.iter().map(|sample| i64::from(*sample).pow(2)).sum::<i64>() > 500_i64.pow(2) * samples.len() as i64;
    if !loud {
        return 0;
    }
    let crossings = samples.windows(2).filter(|pair| (pair[0] >= 0) != (pair[1] >= 0)).count();
    let hz = (crossings * 25) as u32;
    TONES.into_iter().min_by_key(|tone| tone.abs_diff(hz)).unwrap_or_default()
}

/// SDP of a stream of G.711 with keys.
fn describe(address: &str, port: u16, version: u32) -> String {
    format!(
        "v=0\r\no=- 1 {version} IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\nm=audio {port} RTP/AVP 0 101\r\n\
         a=rtpmap:0 PCMU/8000\r\na=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\n"
    )
}

/// An even port of `address` and the next one.
fn pair(address: &str) -> (UdpSocket, UdpSocket) {
    loop {
        let rtp = UdpSocket::bind((address, 0)).expect("a socket");
        let port = rtp.local_addr().expect("an address").port();
        if port.is_multiple_of(2)
            && let Ok(rtcp) = UdpSocket::bind((address, port + 1))
        {
            rtp.set_nonblocking(true).expect("set");
            rtcp.set_nonblocking(true).expect("set");
            return (rtp, rtcp);
        }
    }
}

/// What the speech engine of the tests says anything with, an acceptance, a success, a failure, and what is not known.
pub const WORDS: u32 = 400;
pub const ACCEPTED: u32 = 650;
pub const DONE: u32 = 1_000;
pub const FAILED: u32 = 1_500;
pub const UNKNOWN: u32 = 2_000;
const TONES: [u32; 5] = [WORDS, ACCEPTED, DONE, FAILED, UNKNOWN];

const SSRC: u32 = 0x0ca1_1e40;
