//! One call's media.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use recado_core::conversation::{AcousticEdge, PlaybackEvent};
use recado_voice::{Mouth, WAITING_EVENTS_MAX};
use rtp_rs::RtpReader;

use super::budget::Budget;
use super::clock::{FRAME_MS, FRAME_SAMPLES, Nanos};
use super::coded::Coded;
use super::digits::Digits;
use super::jitter::{JitterBuffer, JitterCounts, Placed, Sound};
use super::latch::Latch;
use super::plan::{Command, Direction, MediaEvent, Plan, Remote};
use super::reception::{Order, Reception};
use super::rtcp::{self, LastSenderReport, REPORT_OCTETS_MAX, Read, Report, Schedule, SenderInfo};
use super::sender::Sender;
use crate::g711::Codec;
use crate::surface::listen::Listener;

/// One call's media, sans-IO.
///
/// # The loop
/// Give it one input ([`rtp`](Self::rtp), [`rtcp`](Self::rtcp), [`command`](Self::command), or every 20 ms
/// [`tick`](Self::tick)), then take [`packet`](Self::packet) until it is empty, and send what it yields; a packet left behind is
/// overwritten. [`event`](Self::event) and [`spent`](Self::spent) may be left to wait while there is no room for what they
/// yield: events are bounded, and never dropped but that edges of the acoustic clock, reports and repeated keys
/// give way to newer ones of their kind. Times of inputs never go back.
pub struct MediaSession {
    remote: Remote,
    latch: Latch,
    rtcp_latch: Latch,
    sender: Sender,
    mouth: Mouth<Coded>,
    listener: Listener,
    jitter: JitterBuffer,
    reception: Option<Reception>,
    digits: Digits,
    rtp_budget: Budget,
    rtcp_budget: Budget,
    keys_budget: Budget,
    schedule: Schedule,
    last_sender_report: Option<(u32, LastSenderReport)>,
    /// Packets that had been sent at the report before, and the one before that.
    reported_packets: [u32; 2],
    cname: String,
    ntp_at_origin: u64,
    silent_after_ms: u64,
    heard_at: Nanos,
    silence_told: bool,
    foreign_told: bool,
    next_tick: Option<Nanos>,
    closed: bool,
    frame: Frame,
    rtp_out: Outgoing<RTP_OCTETS>,
    rtcp_out: Outgoing<REPORT_OCTETS_MAX>,
    events: VecDeque<MediaEvent>,
    counts: Counts,
}

/// A packet to send.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// From the RTP socket.
    Rtp {
        /// Where to.
        to: SocketAddr,
        /// The datagram.
        packet: &'a [u8],
    },
    /// From the RTCP socket, or the RTP socket where both are multiplexed.
    Rtcp {
        /// Where to.
        to: SocketAddr,
        /// The datagram.
        packet: &'a [u8],
        /// Whether RTP and RTCP share the far end's port (RFC 5761).
        multiplexed: bool,
    },
}

/// Twenty milliseconds of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// What the caller said: ordered, decoded, 8 kHz.
    pub caller: [i16; FRAME_SAMPLES],
    /// What that is made of.
    pub sound: Sound,
    /// What the box said, coded in `codec`; silence where it sent nothing.
    pub agent: [u8; FRAME_SAMPLES],
    /// The codec of `agent`.
    pub codec: Codec,
}

/// What a session has seen that is not worth an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets from a source that is not listened to.
    pub foreign: u64,
    /// Packets and keys that came faster than anybody speaks, reports or dials.
    pub flooding: u64,
    /// Packets that were malformed, or of a payload type that was not agreed on.
    pub invalid: u64,
    /// Commands to sound that came too late.
    pub refused: u64,
    /// Events that gave way to newer ones because nobody took them.
    pub coalesced: u64,
    /// Frame intervals that the thread slept through.
    pub skipped_frames: u64,
    /// Of the jitter buffer.
    pub jitter: JitterCounts,
}

impl MediaSession {
    /// A session that begins at `now`; the first tick may come at once.
    pub fn new(now: Nanos, plan: Plan) -> Self {
        let codec = plan.remote.codec;
        Self {
            latch: Latch::new(plan.remote.rtp, plan.remote.signalled_from, Arc::clone(&plan.also_from)),
            rtcp_latch: Latch::new(plan.remote.rtcp, plan.remote.signalled_from, plan.also_from),
            sender: Sender::new(plan.ssrc, plan.first_timestamp),
            mouth: Mouth::new(plan.first_sequence, plan.remote.direction.sends()),
            listener: Listener::new(plan.profile),
            jitter: JitterBuffer::new(),
            reception: None,
            digits: Digits::default(),
            rtp_budget: Budget::of_rtp(now),
            rtcp_budget: Budget::of_rtcp(now),
            keys_budget: Budget::of_keys(now),
            schedule: Schedule::new(now, plan.seed),
            last_sender_report: None,
            reported_packets: [0; 2],
            cname: plan.cname,
            ntp_at_origin: plan.ntp_at_origin,
            silent_after_ms: u64::from(plan.silent_after_s) * 1_000,
            heard_at: now,
            silence_told: false,
            foreign_told: false,
            next_tick: None,
            closed: false,
            frame: Frame { caller: [0; FRAME_SAMPLES], sound: Sound::Silence, agent: [codec.silence(); FRAME_SAMPLES], codec },
            rtp_out: Outgoing::new(),
            rtcp_out: Outgoing::new(),
            events: VecDeque::with_capacity(EVENTS_MAX),
            counts: Counts::default(),
            remote: plan.remote,
        }
    }

    /// A datagram came to the RTP port.
    pub fn rtp(&mut self, now: Nanos, data: &[u8], source: SocketAddr) {
        if rtcp::is_rtcp(data) {
            return self.rtcp(now, data, source);
        }
        if !self.latch.admits(source) {
            return self.foreign(now, data, source);
        }
        if self.closed || !self.remote.direction.receives() {
            return;
        }
        if !self.rtp_budget.admits(now) {
            self.counts.flooding += 1;
            return;
        }
        let Ok(rtp) = RtpReader::new(data) else {
            self.counts.invalid += 1;
            return;
        };
        let payload_type = rtp.payload_type();
        let kind = if Some(payload_type) == self.remote.telephone_event {
            Kind::TelephoneEvent
        } else if payload_type == COMFORT_NOISE {
            Kind::ComfortNoise
        } else if let Some(codec) = Codec::from_payload_type(payload_type).filter(|_| rtp.payload().len() <= PAYLOAD_OCTETS_MAX) {
            Kind::Audio(codec)
        } else {
            self.counts.invalid += 1;
            return;
        };
        if rtp.ssrc() == self.sender.ssrc() {
            // Our own stream, looped back: hearing oneself is no caller.
            self.counts.invalid += 1;
            return;
        }
        self.latch.valid(source);
        self.heard_at = now;
        self.silence_told = false;
        if self.follow(now, &rtp, kind) {
            self.play(now, &rtp, kind);
        }
    }

    /// A datagram came to the RTCP port.
    pub fn rtcp(&mut self, now: Nanos, data: &[u8], source: SocketAddr) {
        if !self.rtcp_latch.admits(source) && !self.latch.admits(source) {
            self.counts.foreign += 1;
            return;
        }
        if !self.rtcp_budget.admits(now) {
            self.counts.flooding += 1;
            return;
        }
        let ssrc = self.sender.ssrc();
        let Self { mouth, events, counts, last_sender_report, .. } = self;
        let valid = rtcp::read(data, |read| match read {
            Read::Sender { ssrc, ntp_middle } => *last_sender_report = Some((ssrc, LastSenderReport { ntp_middle, came: now })),
            Read::Received { about, highest, cumulative_lost } if about == ssrc => {
                mouth.report(highest, i64::from(cumulative_lost), now.time(), &mut |event| tell(events, counts, event));
            }
            Read::Received { .. } => {}
        });
        if valid {
            self.rtcp_latch.valid(source);
        } else {
            self.counts.invalid += 1;
        }
    }

    /// The voice wants something.
    pub fn command(&mut self, now: Nanos, command: Command) {
        match command {
            Command::Playback(command) => {
                let Self { mouth, events, counts, .. } = self;
                mouth.command(command, now.time(), &mut |event| tell(events, counts, event));
            }
            Command::Remote(remote) => self.renew(now, remote),
            Command::Close => self.close(now),
        }
    }

    /// Twenty milliseconds have passed. Yields what was heard and said in them.
    pub fn tick(&mut self, now: Nanos) -> &Frame {
        self.skip(now);
        self.frame.codec = self.remote.codec;
        self.frame.agent.fill(self.remote.codec.silence());
        self.frame.sound = self.jitter.tick(now, &mut self.frame.caller);
        if !self.closed {
            let heard = Nanos::from_ms(now.ms_since(Nanos::from_ms(self.jitter.delay_ms(now)))).time();
            let edge = self.listener.ordered(now.time(), heard, &self.frame.caller);
            self.edge(now, edge);
            self.speak(now);
            if self.schedule.due(now) {
                self.report(now, false);
            }
            self.watch(now);
        }
        &self.frame
    }

    /// The next packet to send.
    pub fn packet(&mut self) -> Option<Output<'_>> {
        if let Some((to, length)) = self.rtp_out.pending.take() {
            return Some(Output::Rtp { to, packet: &self.rtp_out.data[..length] });
        }
        let (to, length) = self.rtcp_out.pending.take()?;
        Some(Output::Rtcp { to, packet: &self.rtcp_out.data[..length], multiplexed: self.remote.is_multiplexed() })
    }

    /// The next event.
    pub fn event(&mut self) -> Option<MediaEvent> {
        self.events.pop_front()
    }

    /// The one source of RTP that is listened to and sent to from now on, once it has proved valid; a re-INVITE ends that. None while
    /// another may still take over.
    pub fn settled(&self) -> Option<SocketAddr> {
        self.latch.settled()
    }

    /// Whether a command may be given. While nobody takes events, commands have to wait: so none of what they lead to is lost.
    pub fn takes_commands(&self) -> bool {
        self.events.len() < EVENTS_MAX - WAITING_EVENTS_MAX
    }

    /// Audio that is done with, to be freed off the media thread.
    pub fn spent(&mut self) -> Option<Coded> {
        self.mouth.spent()
    }

    /// Counters.
    pub fn counts(&self) -> Counts {
        Counts { jitter: self.jitter.counts(), ..self.counts }
    }

    /// RTP came from a source that is not listened to. It is told where none is that could be: not what scanners send, nor what is still
    /// on its way when the media moves.
    fn foreign(&mut self, now: Nanos, data: &[u8], source: SocketAddr) {
        self.counts.foreign += 1;
        let waits = self.latch.latched().is_none() && self.remote.direction.receives() && !self.closed;
        if waits && !self.foreign_told && now.ms_since(self.heard_at) >= FOREIGN_AFTER_MS && RtpReader::new(data).is_ok() {
            self.foreign_told = true;
            emit(&mut self.events, &mut self.counts, MediaEvent::Foreign { source, remote: self.remote });
        }
    }

    /// Keeps the books about the source; `false` if the packet is to be left alone.
    fn follow(&mut self, now: Nanos, rtp: &RtpReader<'_>, kind: Kind) -> bool {
        let sequence = u16::from(rtp.sequence_number());
        let known = self.reception.as_ref().map(Reception::ssrc);
        if known != Some(rtp.ssrc()) {
            if known.is_some() && kind == Kind::TelephoneEvent {
                // Some gateways give keys a source of their own; the voice goes on in the other.
                return true;
            }
            if known.is_some() {
                self.mouth.another_receiver();
                self.restart();
            }
            self.reception = Some(Reception::new(rtp.ssrc(), sequence));
        }
        let Some(reception) = self.reception.as_mut() else { return false };
        match reception.packet(now, sequence, rtp.timestamp(), kind != Kind::TelephoneEvent) {
            Order::Valid => true,
            Order::Stray => false,
            Order::Restarted => {
                self.restart();
                true
            }
        }
    }

    fn play(&mut self, now: Nanos, rtp: &RtpReader<'_>, kind: Kind) {
        match kind {
            Kind::TelephoneEvent => {
                if let Some(digit) = self.digits.packet(rtp.timestamp(), rtp.payload()) {
                    if !self.keys_budget.admits(now) {
                        self.counts.flooding += 1;
                        return;
                    }
                    emit(&mut self.events, &mut self.counts, MediaEvent::Digit { digit, at: now.time() });
                }
            }
            Kind::ComfortNoise => self.jitter.comfort_noise(rtp.timestamp()),
            Kind::Audio(codec) => {
                let mut samples = [0; PAYLOAD_OCTETS_MAX];
                let length = codec.decode(rtp.payload(), &mut samples);
                let samples = &samples[..length];
                if matches!(self.jitter.packet(now, rtp.timestamp(), samples), Placed::New | Placed::Late) {
                    let edge = self.listener.arrived(now.time(), samples);
                    self.edge(now, edge);
                }
            }
        }
    }

    /// The source of the caller's audio began anew.
    fn restart(&mut self) {
        self.jitter.restart();
        self.digits.restarted();
        self.listener.restarted();
    }

    fn edge(&mut self, now: Nanos, edge: Option<AcousticEdge>) {
        let Some(edge) = edge else { return };
        let Self { mouth, events, counts, .. } = self;
        emit(events, counts, MediaEvent::Acoustic(edge));
        mouth.edge(edge, now.time(), &mut |event| tell(events, counts, event));
    }

    /// Sends the frame of this interval, or lets it pass.
    fn speak(&mut self, now: Nanos) {
        let codec = self.remote.codec;
        let to = self.latch.target();
        if !self.remote.direction.sends() || to.port() == 0 || to.ip().is_unspecified() {
            return self.sender.gap();
        }
        let Self { mouth, frame, events, counts, .. } = self;
        let mut filled = 0;
        let sink = |audio: &Coded, part| filled += audio.write(part, codec, &mut frame.agent[filled..]);
        let released = mouth.frame(now.time(), sink, &mut |event| tell(events, counts, event));
        let packet = released.map_or_else(|| mouth.silence(1), |released| released.packet);
        let length = self.sender.packet(packet, codec, &self.frame.agent, &mut self.rtp_out.data);
        self.rtp_out.pending = length.map(|length| (to, length));
    }

    fn renew(&mut self, now: Nanos, remote: Remote) {
        self.remote = remote;
        self.latch.renew(remote.rtp, remote.signalled_from);
        self.rtcp_latch.renew(remote.rtcp, remote.signalled_from);
        self.heard_at = now;
        self.silence_told = false;
        let Self { mouth, events, counts, .. } = self;
        mouth.renegotiated(remote.direction.sends(), now.time(), &mut |event| tell(events, counts, event));
    }

    fn close(&mut self, now: Nanos) {
        if !self.closed {
            self.report(now, true);
            self.closed = true;
            self.mouth.close();
        }
    }

    fn report(&mut self, now: Nanos, goodbye: bool) {
        let (packets, octets) = self.sender.counts();
        // RFC 3550 6.3.8: a sender is who has sent since the report before the last.
        let sends = packets != self.reported_packets[1];
        self.reported_packets = [packets, self.reported_packets[0]];
        let ntp = self.ntp_at_origin.wrapping_add(ntp_duration(now));
        let sender = sends.then_some(SenderInfo { ntp, timestamp: self.sender.timestamp(), packets, octets });
        let last = self.last_sender_report;
        let block = self.reception.as_mut().map(|reception| {
            let last = last.filter(|(ssrc, _)| *ssrc == reception.ssrc()).map(|(_, report)| report);
            (reception.block(), last)
        });
        let report = Report { ssrc: self.sender.ssrc(), sender, block, cname: &self.cname, goodbye };
        let to = if self.remote.is_multiplexed() { self.latch.target() } else { self.rtcp_latch.target() };
        if to.port() != 0 && !to.ip().is_unspecified() {
            let length = report.write(now, &mut self.rtcp_out.data);
            self.rtcp_out.pending = Some((to, length));
        }
    }

    fn watch(&mut self, now: Nanos) {
        // A phone that has us on hold may send music, and most send nothing.
        if self.remote.direction != Direction::SendRecv {
            self.heard_at = now;
        } else if !self.silence_told && now.ms_since(self.heard_at) >= self.silent_after_ms {
            self.silence_told = true;
            let since = self.heard_at.time();
            emit(&mut self.events, &mut self.counts, MediaEvent::FarEndSilent { since });
        }
    }

    /// Keeps the timeline true to the clock where the thread was held up for long: what was not sent in time is not sent in a
    /// burst, which the far end's jitter buffer would throw away.
    fn skip(&mut self, now: Nanos) {
        let due = self.next_tick.unwrap_or(now);
        let late_frames = now.ms_since(due) / FRAME_MS;
        let skipped = if late_frames > BURST_FRAMES_MAX { late_frames } else { 0 };
        for _ in 0..skipped {
            self.sender.gap();
        }
        self.counts.skipped_frames += skipped;
        self.next_tick = Some(due.plus_ms((skipped + 1) * FRAME_MS));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Audio(Codec),
    TelephoneEvent,
    ComfortNoise,
}

/// A packet that waits to be taken.
struct Outgoing<const OCTETS: usize> {
    data: [u8; OCTETS],
    pending: Option<(SocketAddr, usize)>,
}

impl<const OCTETS: usize> Outgoing<OCTETS> {
    fn new() -> Self {
        Self { data: [0; OCTETS], pending: None }
    }
}

/// Queues what the mouth tells.
fn tell(events: &mut VecDeque<MediaEvent>, counts: &mut Counts, event: PlaybackEvent) {
    counts.refused += u64::from(matches!(event, PlaybackEvent::Refused { .. }));
    emit(events, counts, MediaEvent::Playback(event));
}

/// Queues an event. Where nobody takes them, the oldest of a kind whose newest says it all gives way.
fn emit(events: &mut VecDeque<MediaEvent>, counts: &mut Counts, event: MediaEvent) {
    if events.len() >= EVENTS_MAX {
        counts.coalesced += 1;
        let replaceable =
            |queued: &MediaEvent| !matches!(queued, MediaEvent::Playback(event) if !matches!(event, PlaybackEvent::Report { .. }));
        match events.iter().position(replaceable) {
            Some(oldest) => drop(events.remove(oldest)),
            None => return,
        }
    }
    events.push_back(event);
}

/// Monotonic time as NTP counts it: seconds in 32.32 fixed point.
fn ntp_duration(now: Nanos) -> u64 {
    ((u128::from(now.0) << 32) / 1_000_000_000) as u64
}

const RTP_OCTETS: usize = 12 + FRAME_SAMPLES;
/// Far ends send at once, and what was sent to where the media was before has come by then (ms).
const FOREIGN_AFTER_MS: u64 = 1_000;
/// 120 ms of audio: nobody packs more into a packet.
const PAYLOAD_OCTETS_MAX: usize = 960;
/// RFC 3389.
const COMFORT_NOISE: u8 = 13;
/// Up to 60 ms late are caught up with: a far end's jitter buffer takes that.
const BURST_FRAMES_MAX: u64 = 3;
/// Some seconds of a call at its busiest.
const EVENTS_MAX: usize = 256;

#[cfg(test)]
mod tests;
