//! The ends of a call's media that the rest of the box holds.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use rtrb::{Consumer, Producer, PushError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::sys::Signal;
use crate::surface::media::hearing::Hearing;
use crate::surface::media::plan::{Command, MediaEvent};
use crate::surface::media::recording::Recording;

/// One call's media, as the voice holds it.
#[derive(Debug)]
pub struct CallMedia {
    /// What may make sound. Only the voice takes it out.
    pub(in crate::surface) commands: CallCommands,
    /// What the media tells.
    pub events: CallEvents,
    /// The call's recording, where it was asked for.
    pub recording: Option<Recording>,
    /// What the caller says, where it was asked for.
    pub hearing: Option<Hearing>,
    /// Our port of RTP.
    pub local_rtp_port: u16,
}

/// The sending half of a call's media. It is not `Clone`: a call has one mouth. Dropping it closes the call.
#[derive(Debug)]
pub struct CallCommands {
    ring: Producer<Command>,
}

impl CallCommands {
    pub(super) fn new(ring: Producer<Command>) -> Self {
        Self { ring }
    }

    /// Gives a command; it is carried out within 5 ms. Handed back if the queue is full: then the media thread hangs, or events
    /// are not being taken.
    pub(in crate::surface) fn send(&mut self, command: Command) -> Result<(), Command> {
        self.ring.push(command).map_err(|PushError::Full(command)| command)
    }
}

/// The events of a call. None about playback is ever dropped; edges of the acoustic clock coalesce where they are not taken.
#[derive(Debug)]
pub struct CallEvents {
    ring: Consumer<MediaEvent>,
    signal: Arc<Signal>,
    /// The signal in the event loop of whoever receives first.
    watched: Option<AsyncFd<Watched>>,
}

#[derive(Debug)]
struct Watched(Arc<Signal>);

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl CallEvents {
    pub(super) fn new(ring: Consumer<MediaEvent>, signal: Arc<Signal>) -> Self {
        Self { ring, signal, watched: None }
    }

    /// The next event; none when the call's media has ended, a second after its close. Cancel-safe. Needs a tokio runtime with I/O.
    pub async fn recv(&mut self) -> Option<MediaEvent> {
        loop {
            // Asked before the ring: what was put in before the end is still there.
            let ended = self.ring.is_abandoned();
            if let Ok(event) = self.ring.pop() {
                return Some(event);
            }
            if ended {
                return None;
            }
            let watched = match self.watched.take() {
                Some(watched) => watched,
                None => match watch(Watched(Arc::clone(&self.signal))) {
                    Ok(watched) => watched,
                    Err(error) => {
                        tracing::error!(%error, "a call's media can't be watched: its events end here");
                        return None;
                    }
                },
            };
            let watched = self.watched.insert(watched);
            match watched.readable().await {
                Ok(mut ready) => {
                    let _ = ready.try_io(|watched| watched.get_ref().0.take());
                }
                Err(error) => {
                    tracing::error!(%error, "a call's media can't be watched: its events end here");
                    return None;
                }
            }
        }
    }
}

/// Registers a signal with the event loop.
#[allow(unsafe_code)]
fn watch(watched: Watched) -> std::io::Result<AsyncFd<Watched>> {
    // SAFETY: the descriptor belongs to the signal, which `watched` keeps alive and open and never exchanges.
    let registered = unsafe { AsyncFd::register_with_interest(watched, Interest::READABLE) };
    Ok(registered?)
}
