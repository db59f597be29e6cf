//! The caller's audio for who listens to the call: a model that hears. The media thread only drops frames into a ring.

use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};

use super::clock::FRAME_SAMPLES;
use super::session::Frame;

/// 20 ms of what the caller said: 8 kHz, ordered, with what was lost concealed.
pub type CallerFrame = [i16; FRAME_SAMPLES];

/// The media thread's end.
#[derive(Debug)]
pub(super) struct Tap(Producer<CallerFrame>);

impl Tap {
    pub(super) fn frame(&mut self, frame: &Frame) {
        // Whoever is so late hears what comes next: what is older answers a question that has passed.
        let _ = self.0.push(frame.caller);
    }
}

/// What the caller says, frame by frame. It ends with its call.
#[derive(Debug)]
pub struct Hearing {
    ring: Consumer<CallerFrame>,
    look: Option<tokio::time::Interval>,
}

/// Both ends, for one call.
pub(super) fn tap() -> (Tap, Hearing) {
    let (producer, ring) = RingBuffer::new(FRAMES_MAX);
    (Tap(producer), Hearing { ring, look: None })
}

impl Hearing {
    /// The next frame, where it is there already.
    pub fn waiting(&mut self) -> Option<CallerFrame> {
        self.ring.pop().ok()
    }

    /// The next frame; none when the call is over and all has been taken. Cancel-safe. Needs a tokio runtime with time.
    pub async fn recv(&mut self) -> Option<CallerFrame> {
        loop {
            // Asked before the ring: what was put in before the end is still there.
            let ended = self.ring.is_abandoned();
            if let Some(frame) = self.waiting() {
                return Some(frame);
            }
            if ended {
                return None;
            }
            let look = self.look.get_or_insert_with(|| {
                let mut look = tokio::time::interval(LOOK);
                look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                look
            });
            look.tick().await;
        }
    }
}

/// A second.
const FRAMES_MAX: usize = 50;

/// Half a frame: waking whoever listens from the media thread would cost it a system call for every frame.
const LOOK: Duration = Duration::from_millis(10);
