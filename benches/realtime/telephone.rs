//! A caller's telephone that notes when its packets went and came, and a switchboard of callers who only listen.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use recado::demo::Signalling;
use recado::g711::Codec;

use super::clock::now_us;

/// A packet that came.
#[derive(Debug, Clone, Copy)]
pub struct Came {
    pub at_us: u64,
    pub loud: bool,
}

/// A telephone on a call. One thread sends, another receives.
pub struct Telephone {
    signalling: Signalling,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    /// What is to be said, a packet each; then silence, numbered.
    to_say: Mutex<std::collections::VecDeque<[u8; FRAME]>>,
    came: Mutex<Vec<Came>>,
    /// When each numbered packet went.
    went: Mutex<Vec<u64>>,
    /// When the first packet of what is said went, since it was asked for.
    spoke_us: AtomicU64,
}

impl Telephone {
    pub async fn dial(sip: SocketAddr, user: &str) -> Self {
        let rtp = pair();
        let (signalling, to, _) = Signalling::dial(sip, user, rtp.local_addr().expect("an address").port()).await.expect("an answer");
        let shared = Arc::<Shared>::default();
        rtp.connect(to).expect("a socket");
        rtp.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
        let (sends, receives) = (rtp.try_clone().expect("a socket"), rtp);
        let (sender, receiver) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![std::thread::spawn(move || send(&sender, &sends)), std::thread::spawn(move || receive(&receiver, &receives))];
        Self { signalling, shared, threads }
    }

    /// Says something; waits until its first packet has gone, and says when that was.
    pub async fn say(&self, samples: &[i16]) -> u64 {
        self.shared.spoke_us.store(0, Ordering::Relaxed);
        let frames = samples.chunks_exact(FRAME).map(|frame| std::array::from_fn(|n| Codec::Pcmu.encode_sample(frame[n])));
        self.shared.to_say.lock().expect("no panic").extend(frames);
        loop {
            match self.shared.spoke_us.load(Ordering::Relaxed) {
                0 => tokio::time::sleep(Duration::from_millis(2)).await,
                at_us => return at_us,
            }
        }
    }

    /// What came so far.
    pub fn came(&self) -> Vec<Came> {
        self.shared.came.lock().expect("no panic").clone()
    }

    /// When each numbered packet went.
    pub fn went(&self) -> Vec<u64> {
        self.shared.went.lock().expect("no panic").clone()
    }

    pub async fn hang_up(self) {
        self.shared.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no panic");
        }
        self.signalling.hang_up().await.expect("an answer");
    }
}

fn send(shared: &Shared, rtp: &UdpSocket) {
    let (begun, mut packet) = (Instant::now(), [0; 12 + FRAME]);
    for n in 0_u32.. {
        std::thread::sleep((begun + Duration::from_millis(20) * n).saturating_duration_since(Instant::now()));
        if shared.over.load(Ordering::Relaxed) {
            return;
        }
        let said = shared.to_say.lock().expect("no panic").pop_front();
        let payload = said.unwrap_or_else(|| numbered(n));
        fill(&mut packet, n, &payload);
        let at_us = now_us();
        // A box that is gone is seen elsewhere.
        let _ = rtp.send(&packet);
        shared.went.lock().expect("no panic").push(at_us);
        if said.is_some() {
            let _ = shared.spoke_us.compare_exchange(0, at_us, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

fn receive(shared: &Shared, rtp: &UdpSocket) {
    let mut packet = [0; 512];
    while !shared.over.load(Ordering::Relaxed) {
        let Ok(length) = rtp.recv(&mut packet) else { continue };
        let at_us = now_us();
        if let Some(payload) = packet.get(12..length) {
            shared.came.lock().expect("no panic").push(Came { at_us, loud: loud(payload) });
        }
    }
}

/// Callers who only listen, all on one thread.
pub struct Listeners {
    signalling: Vec<Signalling>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Listeners {
    /// Dials with as many of them.
    pub async fn dial(sip: SocketAddr, calls: usize) -> Self {
        let (mut signalling, mut lines) = (Vec::new(), Vec::new());
        for n in 0..calls {
            let rtp = pair();
            let (call, to, _) =
                Signalling::dial(sip, &format!("7{n:05}"), rtp.local_addr().expect("an address").port()).await.expect("an answer");
            rtp.connect(to).expect("a socket");
            signalling.push(call);
            lines.push(rtp);
        }
        Self::on(signalling, lines)
    }

    /// Without signalling: each talks to a port.
    pub fn to(ports: &[u16]) -> Self {
        let lines = ports.iter().map(|port| {
            let rtp = pair();
            rtp.connect(("127.0.0.1", *port)).expect("a socket");
            rtp
        });
        Self::on(Vec::new(), lines.collect())
    }

    fn on(signalling: Vec<Signalling>, lines: Vec<UdpSocket>) -> Self {
        let over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&over);
        Self { signalling, over, thread: std::thread::spawn(move || listen(&lines, &ends)) }
    }

    /// Hangs up: how many loud packets came in all.
    pub async fn hang_up(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        let loud = self.thread.join().expect("no panic");
        for call in self.signalling {
            call.hang_up().await.expect("an answer");
        }
        loud
    }
}

fn listen(lines: &[UdpSocket], over: &AtomicBool) -> u64 {
    let (begun, mut packet, mut loud_packets) = (Instant::now(), [0; 512], 0);
    lines.iter().for_each(|line| line.set_nonblocking(true).expect("a socket"));
    // A quarter of them every 5 ms, as calls come.
    for n in 0_u32.. {
        std::thread::sleep((begun + Duration::from_millis(5) * n).saturating_duration_since(Instant::now()));
        if over.load(Ordering::Relaxed) {
            break;
        }
        for line in lines.iter().skip(n as usize % 4).step_by(4) {
            let mut out = [0; 12 + FRAME];
            fill(&mut out, n / 4, &[Codec::Pcmu.silence(); FRAME]);
            let _ = line.send(&out);
            while let Ok(length) = line.recv(&mut packet) {
                loud_packets += u64::from(packet.get(12..length).is_some_and(loud));
            }
        }
    }
    loud_packets
}

fn fill(packet: &mut [u8; 12 + FRAME], n: u32, payload: &[u8; FRAME]) {
    packet[0] = 0x80;
    packet[2..4].copy_from_slice(&(n as u16).to_be_bytes());
    packet[4..8].copy_from_slice(&(n * FRAME as u32).to_be_bytes());
    packet[8..12].copy_from_slice(&0x7265_6361_u32.to_be_bytes());
    packet[12..].copy_from_slice(payload);
}

/// Whether anything is to be heard in it.
fn loud(payload: &[u8]) -> bool {
    payload.iter().any(|octet| Codec::Pcmu.decode_sample(*octet).abs() > 1_000)
}

/// Silence as good as any, of which each packet can be told from the others: its number in bits, after a mark.
fn numbered(n: u32) -> [u8; FRAME] {
    let bit = |place: usize| match place {
        0..16 => MARK >> place & 1,
        16..48 => n >> (place - 16) & 1,
        _ => 0,
    };
    std::array::from_fn(|place| if bit(place) == 1 { NEARLY_SILENT } else { Codec::Pcmu.silence() })
}

/// The number of the packet of which these octets are the beginning.
pub fn number_of(octets: &[u8]) -> Option<u32> {
    let bit = |place: usize| octets.get(place).map(|octet| u32::from(*octet == NEARLY_SILENT));
    let marked = (0..16).all(|place| bit(place) == Some(MARK >> place & 1));
    if !marked {
        return None;
    }
    (16..48).try_fold(0, |number, place| Some(number | bit(place)? << (place - 16)))
}

/// An even port whose neighbour is free, too.
fn pair() -> UdpSocket {
    loop {
        let rtp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        if rtp.local_addr().is_ok_and(|address| address.port() % 2 == 0) {
            return rtp;
        }
    }
}

/// Samples of a packet.
const FRAME: usize = 160;
const MARK: u32 = 0b1011_0010_1110_0101;
/// The least that is not silence.
const NEARLY_SILENT: u8 = 0xfe;
