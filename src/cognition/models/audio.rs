//! The caller's audio on its way to a model that hears.
//!
//! Audio may be lost where commands may not: a model that falls behind hears the last second, and what it missed is
//! counted. That is why audio does not travel among the commands; and why commands may overtake it, but for those that say where speech
//! ends: see [`CallerAudio::heard_before`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recado_core::conversation::input::Acoustic;
use tokio::sync::Notify;

use super::port::Command;

/// 20 ms of the caller's audio: 16-bit linear samples at 8 kHz.
pub type CallerFrame = [i16; CALLER_FRAME_SAMPLES];

/// Where the caller's audio goes.
#[derive(Debug)]
pub struct CallerAudioSender(Arc<Shared>);

/// Where the model takes it.
#[derive(Debug)]
pub struct CallerAudio(Arc<Shared>);

/// The two ends of a conversation's audio for its model.
pub fn caller_audio() -> (CallerAudioSender, CallerAudio) {
    let shared = Arc::new(Shared::default());
    (CallerAudioSender(shared.clone()), CallerAudio(shared))
}

impl CallerAudioSender {
    /// Gives the next frame, without waiting. Where a second of audio waits already, its oldest frame is dropped.
    pub fn push(&self, frame: &CallerFrame) {
        let mut state = self.0.lock();
        if state.frames.len() == FRAMES_MAX {
            state.frames.pop_front();
            state.dropped += 1;
        }
        state.frames.push_back(*frame);
        drop(state);
        self.0.changed.notify_one();
    }
}

impl CallerAudio {
    /// The next frame, when there is one; none when the call is over and all has been taken.
    pub async fn next(&mut self) -> Option<CallerFrame> {
        loop {
            {
                let mut state = self.0.lock();
                if let Some(frame) = state.frames.pop_front() {
                    return Some(frame);
                }
                if state.over {
                    return None;
                }
            }
            self.0.changed.notified().await;
        }
    }

    /// What is heard before this is told: where the caller pauses or the turn ends, all that waits. What was said until then is among it, and
    /// a model that is asked about it has it.
    pub fn heard_before(&mut self, command: &Command) -> impl Iterator<Item = CallerFrame> + use<'_> {
        let ends = matches!(command, Command::Acoustic(edge) if matches!(edge.to, Acoustic::Trailing | Acoustic::Quiet));
        std::iter::from_fn(move || if ends { self.0.lock().frames.pop_front() } else { None })
    }

    /// How many frames have been dropped so far.
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }
}

impl Drop for CallerAudioSender {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.changed.notify_one();
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    frames: VecDeque<CallerFrame>,
    dropped: u64,
    over: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { frames: VecDeque::with_capacity(FRAMES_MAX), dropped: 0, over: false }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and a queue of audio is whole at any instant.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Samples of 20 ms at 8 kHz.
pub const CALLER_FRAME_SAMPLES: usize = 160;

/// One second: what is older answers a question that has passed.
const FRAMES_MAX: usize = 50;

#[cfg(test)]
mod tests {
    use recado_core::conversation::input::{AcousticEdge, AcousticEpoch};
    use recado_core::{ResponseId, Time};

    use super::*;

    #[tokio::test]
    async fn a_model_that_falls_behind_hears_the_last_second_and_the_rest_is_counted() {
        let (sender, mut audio) = caller_audio();
        for n in 0..60 {
            sender.push(&[n; CALLER_FRAME_SAMPLES]);
        }
        assert_eq!(audio.dropped(), 10);
        for n in 10..60 {
            assert_eq!(audio.next().await, Some([n; CALLER_FRAME_SAMPLES]));
        }
        drop(sender);
        assert_eq!(audio.next().await, None);
    }

    #[test]
    fn a_pause_is_told_after_what_was_said_before_it_and_what_is_urgent_is_not_held_up() {
        let edge = |to| Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(1), at: Time(0) });
        let (sender, mut audio) = caller_audio();
        (1..4).for_each(|n| sender.push(&[n; CALLER_FRAME_SAMPLES]));
        for command in [edge(Acoustic::Suspected), edge(Acoustic::Speaking), Command::CancelResponse { response: ResponseId(1) }] {
            assert_eq!(audio.heard_before(&command).count(), 0, "{command:?}");
        }
        for to in [Acoustic::Trailing, Acoustic::Quiet] {
            assert_eq!(audio.heard_before(&edge(to)).map(|frame| frame[0]).collect::<Vec<_>>(), [1, 2, 3]);
            (1..4).for_each(|n| sender.push(&[n; CALLER_FRAME_SAMPLES]));
        }
    }

    #[tokio::test]
    async fn a_model_that_waits_gets_the_frame_when_it_comes_and_the_end_when_the_call_is_over() {
        let (sender, mut audio) = caller_audio();
        let hearing = tokio::spawn(async move { (audio.next().await, audio.next().await) });
        tokio::task::yield_now().await;
        sender.push(&[7; CALLER_FRAME_SAMPLES]);
        tokio::task::yield_now().await;
        drop(sender);
        assert_eq!(hearing.await.unwrap(), (Some([7; CALLER_FRAME_SAMPLES]), None));
    }
}
