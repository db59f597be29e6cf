//! Every frame that leaves the box: one playback at a time (I8), every sample once and in its order (I11).

use std::collections::BTreeSet;

use recado_core::conversation::SegmentRef;
use recado_core::ids::PlaybackId;

use crate::violation::{Findings, Invariant};
use crate::voice::Released;

/// The frames of one call.
#[derive(Debug, Default)]
pub struct Frames {
    last: Option<(SegmentRef, u64)>,
    /// Playbacks of which a frame was released before another's.
    over: BTreeSet<PlaybackId>,
    /// When the last frame left, or the playback began to count as playing, whichever was later (ms).
    playing_since: Option<u64>,
}

impl Frames {
    /// Whether the conversation's playback counts as playing; since when it has been without frames (ms), if it does.
    pub fn playing(&mut self, plays: bool, now: u64) -> Option<u64> {
        self.playing_since = if plays { self.playing_since.or(Some(now)) } else { None };
        self.playing_since
    }

    /// A frame has left the box.
    pub fn released(&mut self, released: &Released, findings: &mut Findings) {
        let (segment, frame) = (released.segment, released.frame);
        self.playing_since = self.playing_since.map(|_| findings.now);
        let before = self.last.replace((segment, frame));
        match before {
            Some((same, last)) if same == segment => {
                let next = frame == last + 1;
                findings.check(next, Invariant::I11, || format!("frame {frame} of {segment:?} follows on {last}"));
            }
            Some((other, _)) => {
                if other.playback == segment.playback {
                    findings.check(other.index < segment.index, Invariant::I11, || format!("{segment:?} follows on {other:?}"));
                } else {
                    self.over.insert(other.playback);
                }
                findings.check(frame == 0, Invariant::I11, || format!("{segment:?} begins with frame {frame}"));
            }
            None => findings.check(frame == 0, Invariant::I11, || format!("{segment:?} begins with frame {frame}")),
        }
        let once = !self.over.contains(&segment.playback);
        findings.check(once, Invariant::I8, || format!("two playbacks sound in turns: {segment:?}"));
    }
}
