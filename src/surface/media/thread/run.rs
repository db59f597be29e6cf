//! The thread's loop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rtrb::{Consumer, Producer};

use super::handle::{Clock, Shared};
use super::ports::PortPair;
use super::reaper::{Waste, WasteBin};
use super::sys::{self, Datagrams, READY_MAX, Readiness, Signal};
use crate::surface::media::clock::{FRAME_MS, Nanos};
use crate::surface::media::plan::{Command, MediaEvent};
use crate::surface::media::session::{MediaSession, Output};
use crate::surface::media::{hearing, recording};

/// A call as the thread holds it.
pub(super) struct Call {
    ports: PortPair,
    session: MediaSession,
    commands: Consumer<Command>,
    events: Producer<MediaEvent>,
    signal: Arc<Signal>,
    recorder: Option<recording::Tap>,
    listener: Option<hearing::Tap>,
    /// In which quarter of a frame interval it is ticked.
    phase: u64,
    /// When it was closed, if it was.
    closed_at: Option<Nanos>,
    /// The far end that the RTP socket is connected to: that spares the system a look for its route with every packet, and us
    /// what others send.
    connected: Option<SocketAddr>,
}

impl Call {
    pub(super) fn new(
        ports: PortPair,
        session: MediaSession,
        commands: Consumer<Command>,
        events: Producer<MediaEvent>,
        signal: Arc<Signal>,
        recorder: Option<recording::Tap>,
        listener: Option<hearing::Tap>,
    ) -> Self {
        Self { ports, session, commands, events, signal, recorder, listener, phase: 0, closed_at: None, connected: None }
    }

    /// Ends it: off the media thread. Whoever waits for its events learns of it.
    pub(super) fn end(self: Box<Self>) {
        let Call { events, signal, .. } = *self;
        drop(events);
        signal.raise();
    }

    /// Takes what the voice wants. A voice that is gone has closed the call.
    fn command(&mut self, now: Nanos) {
        let gone = self.commands.is_abandoned();
        while self.session.takes_commands()
            && let Ok(command) = self.commands.pop()
        {
            self.closed_at = self.closed_at.or(matches!(command, Command::Close).then_some(now));
            self.session.command(now, command);
            self.send();
        }
        if gone && self.closed_at.is_none() && self.commands.is_empty() {
            self.closed_at = Some(now);
            self.session.command(now, Command::Close);
            self.send();
        }
    }

    fn tick(&mut self, now: Nanos) {
        let frame = self.session.tick(now);
        if let Some(recorder) = &mut self.recorder {
            recorder.frame(frame);
        }
        if let Some(listener) = &mut self.listener {
            listener.frame(frame);
        }
        self.connect();
        self.send();
    }

    /// Connects the RTP socket to the source that the session has settled on, or frees it again.
    fn connect(&mut self) {
        let settled = self.session.settled();
        if settled == self.connected {
            return;
        }
        sys::disconnect(&self.ports.rtp);
        self.connected = settled.filter(|settled| self.ports.rtp.connect(settled).is_ok());
    }

    /// Sends what is to be sent. What can't be sent is lost, as on any network; a far end that is not there yet (connection
    /// refused) may be there for the next one.
    fn send(&mut self) {
        while let Some(output) = self.session.packet() {
            let _ = match output {
                Output::Rtp { to, packet } if self.connected == Some(to) => self.ports.rtp.send(packet),
                Output::Rtp { to, packet } => self.ports.rtp.send_to(packet, to),
                Output::Rtcp { to, packet, multiplexed: true } => self.ports.rtp.send_to(packet, to),
                Output::Rtcp { to, packet, multiplexed: false } => self.ports.rtcp.send_to(packet, to),
            };
        }
    }

    /// Passes on what was told and what is done with, as far as there is room.
    fn pass_on(&mut self, waste: &mut WasteBin) {
        let mut told = false;
        while !self.events.is_full()
            && let Some(event) = self.session.event()
        {
            told |= self.events.push(event).is_ok();
        }
        if told {
            self.signal.raise();
        }
        while waste.has_room()
            && let Some(audio) = self.session.spent()
        {
            waste.throw(Waste::Audio(audio));
        }
    }
}

/// The thread's state.
pub(super) struct Run {
    clock: Clock,
    shared: Arc<Shared>,
    adopted: Consumer<Box<Call>>,
    waste: WasteBin,
    calls: Vec<Option<Box<Call>>>,
    up: usize,
    readiness: Readiness,
    datagrams: Box<Datagrams>,
}

impl Run {
    pub(super) fn new(
        clock: Clock,
        shared: Arc<Shared>,
        adopted: Consumer<Box<Call>>,
        waste: WasteBin,
        calls_max: usize,
    ) -> io::Result<Self> {
        let calls = std::iter::repeat_with(|| None).take(calls_max).collect();
        Ok(Self { clock, shared, adopted, waste, calls, up: 0, readiness: Readiness::new()?, datagrams: Datagrams::new() })
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self) {
        // The number of the next step: step n is due n steps after the origin.
        let mut step = 0;
        loop {
            if self.shared.stop.load(Ordering::Acquire) {
                return self.goodbye();
            }
            self.shared.steps.fetch_add(1, Ordering::Relaxed);
            guarded(|| self.adopt());
            if self.up == 0 {
                // An interrupted wait is one more look.
                let _ = self.shared.signal.take();
                continue;
            }
            let reached = self.clock.now().0 / STEP_NS;
            if reached >= step + STEPS_BEHIND_MAX || step > reached + 1 {
                step = reached + 1;
            }
            self.clock.sleep_until(Nanos(step * STEP_NS));
            let now = self.clock.now();
            guarded(|| self.step(now, step % PHASES));
            step += 1;
        }
    }

    /// One quarter of a frame interval: everything that came first, so that a voice falls silent in the very next frame.
    fn step(&mut self, now: Nanos, phase: u64) {
        self.receive(now);
        for slot in 0..self.calls.len() {
            let Some(call) = self.calls.get_mut(slot).and_then(Option::as_mut) else { continue };
            call.command(now);
            if call.phase == phase {
                call.tick(now);
            }
            call.pass_on(&mut self.waste);
            let over = call.closed_at.is_some_and(|closed| now.ms_since(closed) >= LATE_REPORTS_MS);
            if over && self.waste.has_room() {
                self.retire(slot);
            }
        }
        self.waste.empty();
    }

    /// Reads every socket that has something. What a flood leaves unread is read in the next step.
    fn receive(&mut self, now: Nanos) {
        let mut tokens = [0; READY_MAX];
        for _ in 0..READY_ROUNDS_MAX {
            let ready = self.readiness.ready(&mut tokens);
            for token in &tokens[..ready] {
                let Some(call) = self.calls.get_mut((token / 2) as usize).and_then(Option::as_mut) else { continue };
                let is_rtcp = token % 2 == 1;
                let count = self.datagrams.receive(if is_rtcp { &call.ports.rtcp } else { &call.ports.rtp });
                for (data, source) in (0..count).filter_map(|index| self.datagrams.datagram(index)) {
                    if is_rtcp { call.session.rtcp(now, data, source) } else { call.session.rtp(now, data, source) }
                }
            }
            if ready < READY_MAX {
                return;
            }
        }
    }

    fn adopt(&mut self) {
        while let Some(slot) = self.calls.iter().position(Option::is_none) {
            let Ok(mut call) = self.adopted.pop() else { return };
            let mut crowd = [0usize; PHASES as usize];
            for call in self.calls.iter().flatten() {
                crowd[call.phase as usize] += 1;
            }
            call.phase = (0..PHASES).min_by_key(|phase| crowd[*phase as usize]).unwrap_or(0);
            let token = slot as u64 * 2;
            // A socket that can't be watched is one that hears nothing: the call ends by its silence.
            let _ = self.readiness.add(&call.ports.rtp, token);
            let _ = self.readiness.add(&call.ports.rtcp, token + 1);
            self.calls[slot] = Some(call);
            self.up += 1;
        }
    }

    fn retire(&mut self, slot: usize) {
        if let Some(call) = self.calls.get_mut(slot).and_then(Option::take) {
            self.readiness.remove(&call.ports.rtp);
            self.readiness.remove(&call.ports.rtcp);
            self.up -= 1;
            self.waste.throw(Waste::Call(call));
        }
    }

    /// The box stops: every call is told so.
    fn goodbye(&mut self) {
        self.adopt();
        let now = self.clock.now();
        for slot in 0..self.calls.len() {
            if let Some(call) = self.calls.get_mut(slot).and_then(Option::as_mut) {
                call.session.command(now, Command::Close);
                call.send();
                call.pass_on(&mut self.waste);
                self.retire(slot);
            }
        }
        self.waste.empty();
    }
}

/// Runs what may not allocate; tests abort where it does.
fn guarded<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(test)]
    return assert_no_alloc::assert_no_alloc(work);
    #[cfg(not(test))]
    work()
}

/// Calls are spread over the quarters of a frame interval; every quarter looks at what came for all of them.
const PHASES: u64 = 4;
const STEP_NS: u64 = FRAME_MS * 1_000_000 / PHASES;
/// 60 ms behind is caught up with, step by step; more is left out, and each call keeps its timeline true.
const STEPS_BEHIND_MAX: u64 = 3 * PHASES;
/// Reports on the last packets come that long after the end of a call.
const LATE_REPORTS_MS: u64 = recado_core::timers::EVIDENCE_AFTER_END;
/// 4,096 datagrams in a step: above it, somebody floods, and the calls come first.
const READY_ROUNDS_MAX: usize = 16;
