//! Recording a call: the caller left, the agent right. The media thread only drops frames into a ring.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};

use super::session::Frame;

/// The media thread's end of a recording.
#[derive(Debug)]
pub(super) struct Tap {
    ring: Producer<Frame>,
    dropped: Arc<AtomicU64>,
}

impl Tap {
    pub(super) fn frame(&mut self, frame: &Frame) {
        if self.ring.push(*frame).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A recording that is being made. It ends with its call.
#[derive(Debug)]
pub struct Recording {
    ring: Consumer<Frame>,
    dropped: Arc<AtomicU64>,
}

/// What a recording came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Frames of 20 ms that were written.
    pub frames: u64,
    /// Frames that were lost because the disk was too slow.
    pub dropped: u64,
}

/// Why a recording could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the recording can't be written: {0}")]
pub struct RecordingError(#[from] hound::Error);

/// Both ends of a recording, for one call.
pub(super) fn tap() -> (Tap, Recording) {
    let (producer, ring) = RingBuffer::new(FRAMES_MAX);
    let dropped = Arc::new(AtomicU64::new(0));
    (Tap { ring: producer, dropped: Arc::clone(&dropped) }, Recording { ring, dropped })
}

impl Recording {
    /// Writes a stereo WAV until the call ends. Blocks: give it a thread that may.
    pub fn write_wav(mut self, path: &Path) -> Result<Recorded, RecordingError> {
        let spec = hound::WavSpec { channels: 2, sample_rate: 8_000, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
        let mut wav = hound::WavWriter::create(path, spec)?;
        let mut frames = 0;
        loop {
            let ended = self.ring.is_abandoned();
            while let Ok(frame) = self.ring.pop() {
                for (caller, agent) in frame.caller.iter().zip(frame.agent) {
                    wav.write_sample(*caller)?;
                    wav.write_sample(frame.codec.decode_sample(agent))?;
                }
                frames += 1;
            }
            if ended {
                wav.finalize()?;
                return Ok(Recorded { frames, dropped: self.dropped.load(Ordering::Relaxed) });
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// 5 s: longer than a card's worst pause for housekeeping.
const FRAMES_MAX: usize = 250;
const LOOK: Duration = Duration::from_millis(100);
