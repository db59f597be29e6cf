//! How long the caller waits for an answer to what they said, and for what: the latency budget of a turn.
//!
//! end of speech → the turn is over, and a response is asked for → the first thing that there is to say → its audio is there → its first
//! frame is released. An answer that something else delays, a sound of the caller's, a hold, what is told before it, is not measured: what
//! it took says nothing about any stage.

use super::effect::{Effect, Measure, MeasureName, Purpose};
use crate::time::Time;

/// What is known of the answer that is being waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latency {
    /// The caller's last voiced frame.
    stopped: Time,
    asked: Time,
    /// When there was something to say.
    first_piece: Option<Time>,
}

impl Latency {
    pub(super) fn new(stopped: Time, asked: Time) -> Self {
        Self { stopped, asked, first_piece: None }
    }

    /// There is something to say.
    pub(super) fn piece(&mut self, now: Time) {
        self.first_piece.get_or_insert(now);
    }

    /// The first frame of the answer has been released, of a piece for `purpose` whose audio was there at `ready`: each stage, and all of them.
    pub(super) fn measured(&self, purpose: Purpose, ready: Option<Time>, started: Time) -> Vec<Effect> {
        let told_before = matches!(purpose, Purpose::Clause { .. } | Purpose::Progress { .. });
        let (Some(first), Some(ready), false) = (self.first_piece, ready, told_before) else { return Vec::new() };
        // What the media path tells may come a moment later than what it tells of: no stage is longer for it, and together they are the whole.
        let ready = ready.min(started);
        let first = first.min(ready);
        let asked = self.asked.min(first);
        let stages = [
            (MeasureName::SpeechStopToTurnEndMs, asked.since(self.stopped)),
            (MeasureName::TurnEndToFirstPieceMs, first.since(asked)),
            (MeasureName::FirstPieceToReadyMs, ready.since(first)),
            (MeasureName::ReadyToFirstAudioMs, started.since(ready)),
            (MeasureName::SpeechStopToFirstAudioMs, started.since(self.stopped)),
        ];
        stages.into_iter().map(|(name, value)| Effect::Measured(Measure { name, value })).collect()
    }
}
