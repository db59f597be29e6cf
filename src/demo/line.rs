//! The caller's telephone line: RTP both ways and receiver reports, on a thread of its own.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::ear::{Ear, voiced};
use crate::g711::Codec;

/// A line that is open.
pub struct Line {
    shared: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    remote: Option<(SocketAddr, SocketAddr)>,
    to_say: VecDeque<Vec<u8>>,
    said: Vec<i16>,
    heard: Ear,
    reception: Option<Reception>,
    last_voiced: Option<Instant>,
    voiced_since: Option<Instant>,
    withholds_reports: bool,
    closed: bool,
}

/// What is known of the box's stream (RFC 3550 6.4.1, A.3).
#[derive(Clone, Copy)]
struct Reception {
    ssrc: u32,
    first: u64,
    highest: u64,
    packets: u64,
    /// Timestamp of the first packet, and where in the recording it stands.
    origin: (u32, usize),
}

impl Line {
    /// Opens a line. Says which port it receives RTP on; RTCP is on the next one.
    ///
    /// # Errors
    /// The system has no ports for it.
    pub fn open() -> io::Result<(Self, u16)> {
        let (rtp, rtcp) = pair()?;
        let port = rtp.local_addr()?.port();
        let shared = Arc::new(Mutex::new(State::default()));
        let state = Arc::clone(&shared);
        let thread = std::thread::spawn(move || run(&state, &rtp, &rtcp));
        Ok((Self { shared, thread: Some(thread) }, port))
    }

    /// Where the box receives RTP and RTCP: from now on the line sends.
    pub fn connect(&self, rtp: SocketAddr, rtcp: SocketAddr) {
        self.state().remote = Some((rtp, rtcp));
    }

    /// From now on it sends no receiver reports, as some telephones never do.
    pub fn withhold_reports(&self) {
        self.state().withholds_reports = true;
    }

    /// Says a recording. Returns its length.
    pub fn say(&self, samples: &[i16]) -> Duration {
        let frames = samples.chunks(FRAME).map(|frame| {
            let mut octets = vec![Codec::Pcmu.silence(); FRAME];
            Codec::Pcmu.encode(frame, &mut octets);
            octets
        });
        let mut state = self.state();
        state.to_say.extend(frames);
        FRAME_TIME * u32::try_from(state.to_say.len()).unwrap_or(u32::MAX)
    }

    /// Waits until the box has been talking for `ms`.
    pub async fn hears_voice(&self, ms: u64) {
        self.until(|state, now| state.voiced_since.is_some_and(|since| now.duration_since(since) >= Duration::from_millis(ms))).await;
    }

    /// Waits until the box has been silent for `ms`, and the caller has said everything.
    pub async fn hears_silence(&self, ms: u64) {
        self.until(|state, now| {
            state.to_say.is_empty() && state.last_voiced.is_some_and(|last| now.duration_since(last) >= Duration::from_millis(ms))
        })
        .await;
    }

    /// Waits until the caller has said everything.
    pub async fn has_said(&self) {
        self.until(|state, _| state.to_say.is_empty()).await;
    }

    async fn until(&self, holds: impl Fn(&State, Instant) -> bool) {
        while !holds(&self.state(), Instant::now()) {
            tokio::time::sleep(FRAME_TIME).await;
        }
    }

    /// Closes the line. What was said and what was heard, side by side.
    pub fn close(mut self) -> (Vec<i16>, Ear) {
        self.state().closed = true;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has left what it recorded.
            let _ = thread.join();
        }
        let mut state = self.state();
        (std::mem::take(&mut state.said), std::mem::take(&mut state.heard))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An even port and the next one.
fn pair() -> io::Result<(UdpSocket, UdpSocket)> {
    for _ in 0..64 {
        let rtp = UdpSocket::bind(("127.0.0.1", 0))?;
        let port = rtp.local_addr()?.port();
        if port % 2 == 0
            && let Ok(rtcp) = UdpSocket::bind(("127.0.0.1", port + 1))
        {
            rtp.set_nonblocking(true)?;
            rtcp.set_nonblocking(true)?;
            return Ok((rtp, rtcp));
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no pair of free ports on loopback"))
}

fn run(shared: &Mutex<State>, rtp: &UdpSocket, rtcp: &UdpSocket) {
    let (mut sequence, mut timestamp, mut ticks) = (1_u16, 0_u32, 0_u32);
    let mut next = Instant::now();
    loop {
        next += FRAME_TIME;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return;
        }
        receive(&mut state, rtp);
        // Reports of the box are not needed here, but must not pile up.
        while rtcp.recv(&mut [0; 512]).is_ok() {}
        let Some((rtp_to, rtcp_to)) = state.remote else { continue };
        let octets = state.to_say.pop_front().unwrap_or_else(|| vec![Codec::Pcmu.silence(); FRAME]);
        let mut samples = [0; FRAME];
        Codec::Pcmu.decode(&octets, &mut samples);
        state.said.extend_from_slice(&samples);
        let marker = if sequence == 1 { 0x80 } else { 0 };
        let mut packet = vec![0x80, marker];
        packet.extend(sequence.to_be_bytes());
        packet.extend(timestamp.to_be_bytes());
        packet.extend(SSRC.to_be_bytes());
        packet.extend(octets);
        // Loopback does not lose; a box that is being killed refuses, and that is part of the story.
        let _ = rtp.send_to(&packet, rtp_to);
        (sequence, timestamp, ticks) = (sequence.wrapping_add(1), timestamp.wrapping_add(FRAME as u32), ticks.wrapping_add(1));
        if let (0, Some(reception)) = (ticks % REPORT_TICKS, state.reception.filter(|_| !state.withholds_reports)) {
            let _ = rtcp.send_to(&receiver_report(&reception), rtcp_to);
        }
    }
}

fn receive(state: &mut State, rtp: &UdpSocket) {
    let mut buffer = [0; 2_048];
    while let Ok(length) = rtp.recv(&mut buffer) {
        let Some([0x80, kind, s1, s2, t1, t2, t3, t4, c1, c2, c3, c4, payload @ ..]) = buffer.get(..length) else { continue };
        if kind & 0x7f != Codec::Pcmu.payload_type() {
            continue;
        }
        let sequence = u64::from(u16::from_be_bytes([*s1, *s2]));
        let timestamp = u32::from_be_bytes([*t1, *t2, *t3, *t4]);
        let ssrc = u32::from_be_bytes([*c1, *c2, *c3, *c4]);
        let here = state.said.len();
        let reception =
            state.reception.get_or_insert(Reception { ssrc, first: sequence, highest: sequence, packets: 0, origin: (timestamp, here) });
        reception.packets += 1;
        // Extended by the cycle in which it is nearest to the highest one.
        let cycles = reception.highest & !0xffff;
        let candidates = [cycles.checked_sub(0x1_0000), Some(cycles), Some(cycles + 0x1_0000)];
        let nearest = candidates.into_iter().flatten().map(|cycles| cycles + sequence).min_by_key(|at| at.abs_diff(reception.highest));
        reception.highest = reception.highest.max(nearest.unwrap_or(sequence));
        let at = reception.origin.1 + timestamp.wrapping_sub(reception.origin.0) as usize;
        let mut samples = vec![0; payload.len()];
        Codec::Pcmu.decode(payload, &mut samples);
        if at > RECORDING_MAX {
            continue;
        }
        if state.heard.samples.len() < at + samples.len() {
            state.heard.samples.resize(at + samples.len(), 0);
        }
        if let Some(place) = state.heard.samples.get_mut(at..at + samples.len()) {
            place.copy_from_slice(&samples);
        }
        let now = Instant::now();
        if voiced(&samples) {
            // Pauses inside speech are no silence.
            let goes_on = state.last_voiced.is_some_and(|last| now.duration_since(last) < GOES_ON);
            state.voiced_since = state.voiced_since.filter(|_| goes_on).or(Some(now));
            state.last_voiced = Some(now);
        } else if state.last_voiced.is_some_and(|last| now.duration_since(last) >= GOES_ON) {
            state.voiced_since = None;
        }
    }
}

/// RFC 3550 6.4.2, with an SDES that names nobody (6.5).
fn receiver_report(reception: &Reception) -> Vec<u8> {
    let expected = reception.highest - reception.first + 1;
    let lost = u32::try_from(expected.saturating_sub(reception.packets)).unwrap_or(0).min(0x7f_ffff);
    let mut report = vec![0x81, 201, 0, 7];
    report.extend(SSRC.to_be_bytes());
    report.extend(reception.ssrc.to_be_bytes());
    report.extend(lost.to_be_bytes()); // Fraction zero, and 24 bits of cumulative loss.
    report.extend((reception.highest as u32).to_be_bytes());
    report.extend([0; 12]); // Jitter, LSR and DLSR: not measured.
    report.extend([0x81, 202, 0, 4]);
    report.extend(SSRC.to_be_bytes());
    report.extend(*b"\x01\x06caller\0\0\0\0");
    report
}

/// Samples in a frame.
const FRAME: usize = 160;

const FRAME_TIME: Duration = Duration::from_millis(20);

const SSRC: u32 = 0x0ca1_1e40;

/// Ticks between reports: two seconds, so that the story need not wait for five.
const REPORT_TICKS: u32 = 100;

/// A pause up to this belongs to speech.
const GOES_ON: Duration = Duration::from_millis(400);

/// Samples that are recorded at most: ten minutes.
const RECORDING_MAX: usize = 8_000 * 600;
