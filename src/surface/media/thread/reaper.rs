//! The thread that frees what the media thread is done with: freeing may take a lock in the allocator, or close sockets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};

use super::handle::Shared;
use super::run::Call;
use super::sys::Signal;
use crate::surface::media::coded::Coded;

/// What is done with.
pub(super) enum Waste {
    /// A call that ended.
    Call(Box<Call>),
    /// Audio that was said or discarded.
    Audio(Coded),
}

/// The media thread's end: never blocks, and hands back what finds no room.
pub(super) struct WasteBin {
    ring: Producer<Waste>,
    signal: Arc<Signal>,
    raise: bool,
}

impl WasteBin {
    pub(super) fn has_room(&self) -> bool {
        !self.ring.is_full()
    }

    /// Throws away. To be asked first whether there [is room](Self::has_room).
    pub(super) fn throw(&mut self, waste: Waste) {
        self.raise = true;
        // The one producer has looked: nobody else can have filled it.
        let _ = self.ring.push(waste);
    }

    /// Wakes the reaper if something was thrown away since the last time.
    pub(super) fn empty(&mut self) {
        if std::mem::take(&mut self.raise) {
            self.signal.raise();
        }
    }
}

pub(super) struct Reaper {
    ring: Consumer<Waste>,
    signal: Arc<Signal>,
    stop: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

impl Reaper {
    pub(super) fn new(shared: Arc<Shared>, calls_max: usize) -> io::Result<(WasteBin, Self)> {
        let (producer, ring) = RingBuffer::new(AUDIO_MAX + calls_max);
        let signal = Arc::new(Signal::new(true)?);
        let bin = WasteBin { ring: producer, signal: Arc::clone(&signal), raise: false };
        Ok((bin, Self { ring, signal, stop: Arc::default(), shared }))
    }

    /// What [`end`] needs.
    pub(super) fn ends(&self) -> (Arc<AtomicBool>, Arc<Signal>) {
        (Arc::clone(&self.stop), Arc::clone(&self.signal))
    }

    /// Frees until it is told to end, and then what is left.
    pub(super) fn run(mut self) {
        loop {
            let stop = self.stop.load(Ordering::Acquire);
            while let Ok(waste) = self.ring.pop() {
                match waste {
                    Waste::Call(call) => {
                        // Its place first: who learns of the end may open the next call at once.
                        self.shared.calls.fetch_sub(1, Ordering::AcqRel);
                        call.end();
                    }
                    Waste::Audio(audio) => drop(audio),
                }
            }
            if stop || self.signal.take().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
                return;
            }
        }
    }
}

/// Ends a reaper; to be called when nobody throws any more.
pub(super) fn end((stop, signal): &(Arc<AtomicBool>, Arc<Signal>)) {
    stop.store(true, Ordering::Release);
    signal.raise();
}

/// Pieces of audio that one look of the reaper may find: all of several calls cleared at once.
const AUDIO_MAX: usize = 2_048;
