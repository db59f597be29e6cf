//! The owner of the media thread.

use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use rtrb::{Producer, RingBuffer};

use super::channel::{CallCommands, CallEvents, CallMedia};
use super::error::MediaError;
use super::ports::{PortPair, Ports};
use super::reaper::{self, Reaper};
use super::run::{Call, Run};
use super::sys::{self, Signal};
use crate::surface::media::clock::Nanos;
use crate::surface::media::plan::Plan;
use crate::surface::media::session::MediaSession;
use crate::surface::media::{hearing, recording};

/// How the media thread is set up.
#[derive(Debug, Clone)]
pub struct MediaConfig {
    /// The address that sockets are bound to.
    pub address: IpAddr,
    /// The ports that RTP and RTCP may use: two a call, and two for each that ended in the last minute.
    pub ports: RangeInclusive<u16>,
    /// Most calls at a time.
    pub calls_max: usize,
    /// The origin of monotonic time, the same as everywhere in the box.
    pub origin: Instant,
    /// Whether to ask for FIFO scheduling.
    pub realtime: bool,
}

/// The media thread. There is one in the box; dropping it says goodbye in every call and ends it.
pub struct MediaHandle {
    adopt: Mutex<Producer<Box<Call>>>,
    shared: Arc<Shared>,
    ports: Arc<Ports>,
    clock: Clock,
    calls_max: usize,
    realtime: bool,
    threads: Vec<JoinHandle<()>>,
    reaper: Option<(Arc<AtomicBool>, Arc<Signal>)>,
}

/// What the handle and the thread both see.
#[derive(Debug)]
pub(super) struct Shared {
    /// Wakes the thread where no call is up.
    pub(super) signal: Signal,
    pub(super) stop: AtomicBool,
    /// Calls that are up or being closed.
    pub(super) calls: AtomicUsize,
    /// Steps of the media clock, and looks around where no call is up.
    pub(super) steps: AtomicU64,
}

/// Whether the media thread's clock goes on, seen from outside.
#[derive(Debug)]
pub struct MediaProgress {
    shared: Arc<Shared>,
    seen: u64,
}

impl MediaProgress {
    /// Whether the clock has gone on since the last time it was asked. A thread that waits for a call is woken to show it by
    /// the next time; one that hangs, or has ended, shows nothing.
    pub fn advanced(&mut self) -> bool {
        let steps = self.shared.steps.load(Ordering::Relaxed);
        self.shared.signal.raise();
        std::mem::replace(&mut self.seen, steps) != steps
    }
}

/// CLOCK_MONOTONIC from the box's origin on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    origin_ns: u64,
}

impl Clock {
    fn new(origin: Instant) -> Self {
        Self { origin_ns: sys::monotonic_ns().saturating_sub(origin.elapsed().as_nanos() as u64) }
    }

    pub(super) fn now(self) -> Nanos {
        Nanos(sys::monotonic_ns().saturating_sub(self.origin_ns))
    }

    pub(super) fn sleep_until(self, at: Nanos) {
        sys::sleep_until(self.origin_ns.saturating_add(at.0));
    }
}

/// What else is given of a call, beside its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taps {
    /// Both sides, to be recorded.
    pub record: bool,
    /// What the caller says.
    pub hear: bool,
}

impl MediaHandle {
    /// Starts the thread. Where FIFO scheduling is not permitted it goes on without, which is logged and told by
    /// [`Self::is_realtime`].
    pub fn start(config: MediaConfig) -> Result<Self, MediaError> {
        let ports = Ports::new(config.address, config.ports.clone())?;
        let signal = Signal::new(true).map_err(MediaError::Start)?;
        let shared = Arc::new(Shared { signal, stop: AtomicBool::new(false), calls: AtomicUsize::new(0), steps: AtomicU64::new(0) });
        let clock = Clock::new(config.origin);
        let (adopt, adopted) = RingBuffer::new(config.calls_max.max(1));
        let (waste, reaper) = Reaper::new(Arc::clone(&shared), config.calls_max).map_err(MediaError::Start)?;
        let reaper_ends = reaper.ends();
        let run = Run::new(clock, Arc::clone(&shared), adopted, waste, config.calls_max).map_err(MediaError::Start)?;
        let (realtime_tx, realtime_rx) = mpsc::sync_channel(1);
        let ask_realtime = config.realtime;
        let media = std::thread::Builder::new().name("recado-media".into()).spawn(move || {
            // Nobody listens only if the handle's start failed meanwhile.
            let _ = realtime_tx.send(if ask_realtime { sys::schedule_fifo().map(|()| true) } else { Ok(false) });
            run.run();
        });
        let mut threads = vec![media.map_err(MediaError::Start)?];
        let freeing = std::thread::Builder::new().name("recado-reaper".into()).spawn(move || reaper.run());
        threads.push(freeing.map_err(MediaError::Start)?);
        let realtime = match realtime_rx.recv() {
            Ok(Ok(realtime)) => realtime,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the media thread may not use FIFO scheduling: audio may stutter under load (grant CAP_SYS_NICE or LimitRTPRIO)");
                false
            }
            Err(_) => return Err(MediaError::Ended),
        };
        let calls_max = config.calls_max;
        Ok(Self { adopt: Mutex::new(adopt), shared, ports, clock, calls_max, realtime, threads, reaper: Some(reaper_ends) })
    }

    /// Whether the thread is there. It ends by itself only by a fault in its own software.
    pub fn is_alive(&self) -> bool {
        self.threads.first().is_some_and(|media| !media.is_finished())
    }

    /// What tells whether the thread's clock goes on.
    pub fn progress(&self) -> MediaProgress {
        MediaProgress { shared: Arc::clone(&self.shared), seen: self.shared.steps.load(Ordering::Relaxed) }
    }

    /// Whether the thread has FIFO scheduling.
    pub fn is_realtime(&self) -> bool {
        self.realtime
    }

    /// Binds a pair of ports, so that an offer can name them before an answer is known.
    pub fn reserve(&self) -> Result<PortPair, MediaError> {
        let random = getrandom::u32().map_err(|error| MediaError::Start(io::Error::other(error.to_string())))?;
        self.ports.reserve(Instant::now(), random)
    }

    /// Begins a call's media on reserved ports.
    pub fn open_call(&self, ports: PortPair, plan: Plan, taps: Taps) -> Result<CallMedia, MediaError> {
        let reserved =
            self.shared.calls.fetch_update(Ordering::AcqRel, Ordering::Acquire, |calls| (calls < self.calls_max).then_some(calls + 1));
        if reserved.is_err() {
            return Err(MediaError::Full(self.calls_max));
        }
        let opened = self.open(ports, plan, taps);
        if opened.is_err() {
            self.shared.calls.fetch_sub(1, Ordering::AcqRel);
        }
        opened
    }

    fn open(&self, mut ports: PortPair, plan: Plan, taps: Taps) -> Result<CallMedia, MediaError> {
        ports.tell();
        let local_rtp_port = ports.rtp_port();
        let (commands, taken) = RingBuffer::new(COMMANDS_MAX);
        let (told, events) = RingBuffer::new(EVENTS_MAX);
        let signal = Arc::new(Signal::new(false).map_err(MediaError::Start)?);
        let (recorder, recording) = taps.record.then(recording::tap).unzip();
        let (listener, hearing) = taps.hear.then(hearing::tap).unzip();
        let session = MediaSession::new(self.clock.now(), plan);
        let call = Box::new(Call::new(ports, session, taken, told, Arc::clone(&signal), recorder, listener));
        let mut adopt = self.adopt.lock().unwrap_or_else(PoisonError::into_inner);
        adopt.push(call).map_err(|_| MediaError::Ended)?;
        self.shared.signal.raise();
        Ok(CallMedia { commands: CallCommands::new(commands), events: CallEvents::new(events, signal), recording, hearing, local_rtp_port })
    }
}

impl Drop for MediaHandle {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.signal.raise();
        let mut threads = self.threads.drain(..);
        if let Some(media) = threads.next() {
            // A thread that panicked has said so itself.
            let _ = media.join();
        }
        if let Some(ends) = self.reaper.take() {
            reaper::end(&ends);
        }
        for thread in threads {
            let _ = thread.join();
        }
    }
}

/// A reply's clauses and a clear, several times over; a realtime model's pieces of half a minute.
const COMMANDS_MAX: usize = 256;
/// What comes between two looks of a busy task; more wait in the session.
const EVENTS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::os::unix::thread::JoinHandleExt;
    use std::time::Duration;

    use super::*;

    /// While it is raised, the thread that is signalled hangs.
    static HANG: AtomicBool = AtomicBool::new(false);

    extern "C" fn hang(_: libc::c_int) {
        while HANG.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    #[allow(unsafe_code)]
    fn a_thread_that_hangs_shows_no_progress_and_one_that_waits_for_calls_does() {
        let address = IpAddr::from([127, 0, 0, 1]);
        let config = MediaConfig { address, ports: 46_420..=46_431, calls_max: 1, origin: Instant::now(), realtime: false };
        let media = MediaHandle::start(config).unwrap();
        let mut progress = media.progress();
        let goes_on = |progress: &mut MediaProgress| {
            let deadline = Instant::now() + Duration::from_secs(20);
            while !progress.advanced() {
                assert!(Instant::now() < deadline, "the thread stands still");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for _ in 0..3 {
            goes_on(&mut progress);
        }
        HANG.store(true, Ordering::Release);
        let handler: extern "C" fn(libc::c_int) = hang;
        // SAFETY: the handler does what may be done in one: it reads an atomic and sleeps. The thread lives until it is joined.
        unsafe {
            libc::signal(libc::SIGUSR1, handler as libc::sighandler_t);
            libc::pthread_kill(media.threads[0].as_pthread_t(), libc::SIGUSR1);
        }
        // A step that was under way may still be counted.
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut stood_still = 0;
        while stood_still < 50 {
            assert!(Instant::now() < deadline, "a thread that hangs shows progress");
            stood_still = if progress.advanced() { 0 } else { stood_still + 1 };
            std::thread::sleep(Duration::from_millis(1));
        }
        HANG.store(false, Ordering::Release);
        goes_on(&mut progress);
    }
}
