//! A message that is being taken: what the caller says, however often they pause in it.

use std::collections::VecDeque;

use recado_core::ResponseId;
use recado_core::conversation::input::Acoustic;

use crate::cognition::models::audio::{CALLER_FRAME_SAMPLES, CallerFrame};

/// A message that is being taken. `Step` is what follows it, for whoever takes it.
#[derive(Debug)]
pub struct Taking<Step> {
    /// What follows it.
    pub step: Step,
    /// The last moment before speech, and then all that was said.
    samples: VecDeque<i16>,
    samples_max: usize,
    acoustic: Acoustic,
    /// Whether speech was confirmed.
    spoke: bool,
    is_cut: bool,
    /// The response that is due when the caller pauses for long enough.
    pub due: Option<ResponseId>,
}

impl<Step> Taking<Step> {
    /// Nothing of it has been said. The caller may be speaking already, of something else or of this.
    pub fn new(step: Step, seconds: u32, acoustic: Acoustic) -> Self {
        let samples_max = seconds as usize * SAMPLES_PER_S;
        Self { step, samples: VecDeque::new(), samples_max, acoustic, spoke: false, is_cut: false, due: None }
    }

    /// The caller's clock moved.
    pub fn edge(&mut self, to: Acoustic) {
        self.acoustic = to;
        self.spoke |= matches!(to, Acoustic::Speaking | Acoustic::Trailing);
        if to == Acoustic::Quiet && !self.spoke {
            self.forget_all_but_the_last_moment();
        }
    }

    /// More of what the caller says.
    pub fn hear(&mut self, frame: &CallerFrame) {
        if self.acoustic != Acoustic::Quiet || self.spoke {
            let room = self.samples_max.saturating_sub(self.samples.len());
            self.is_cut |= room < frame.len() && self.acoustic == Acoustic::Speaking;
            self.samples.extend(frame.iter().take(room));
        } else {
            self.samples.extend(frame);
            self.forget_all_but_the_last_moment();
        }
    }

    /// Whether the caller has said anything.
    pub fn has_begun(&self) -> bool {
        self.spoke
    }

    /// Whether it is longer than was wanted, and its end is missing.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// How long it is (s), rounded up.
    pub fn seconds(&self) -> u32 {
        u32::try_from(self.samples.len().div_ceil(SAMPLES_PER_S)).unwrap_or(u32::MAX)
    }

    /// What was said.
    pub fn into_samples(self) -> Vec<i16> {
        self.samples.into()
    }

    fn forget_all_but_the_last_moment(&mut self) {
        let excess = self.samples.len().saturating_sub(BEFORE_FRAMES * CALLER_FRAME_SAMPLES);
        self.samples.drain(..excess);
    }
}

const SAMPLES_PER_S: usize = 8_000;

/// Speech begins a little before it can be told from noise: half a second.
const BEFORE_FRAMES: usize = 25;

/// How long a message may be, where nothing is written (s).
pub const MESSAGE_S: u32 = 120;
/// The pause that ends a message, after the one that ends a turn, where nothing is written (ms).
pub const MESSAGE_PAUSE_MS: u64 = 1_500;

#[cfg(test)]
mod tests {
    use super::*;

    fn taking(seconds: u32) -> Taking<()> {
        Taking::new((), seconds, Acoustic::Quiet)
    }

    fn hear(taking: &mut Taking<()>, frames: std::ops::Range<i16>) {
        frames.for_each(|n| taking.hear(&[n; CALLER_FRAME_SAMPLES]));
    }

    /// The first sample of each frame.
    fn frames(taking: Taking<()>) -> Vec<i16> {
        taking.into_samples().chunks(CALLER_FRAME_SAMPLES).map(|frame| frame[0]).collect()
    }

    #[test]
    fn it_is_what_is_said_from_half_a_second_before_it_with_its_pauses() {
        let mut taking = taking(120);
        hear(&mut taking, 0..100);
        taking.edge(Acoustic::Suspected);
        hear(&mut taking, 100..110);
        assert!(!taking.has_begun());
        taking.edge(Acoustic::Speaking);
        hear(&mut taking, 110..120);
        taking.edge(Acoustic::Trailing);
        taking.edge(Acoustic::Quiet);
        hear(&mut taking, 120..130);
        taking.edge(Acoustic::Suspected);
        hear(&mut taking, 130..140);
        assert!(taking.has_begun() && !taking.is_cut());
        assert_eq!(taking.seconds(), 2, "65 frames of 20 ms");
        assert_eq!(frames(taking), (75..140).collect::<Vec<i16>>());
    }

    #[test]
    fn what_was_no_speech_is_no_message() {
        let mut taking = taking(120);
        taking.edge(Acoustic::Suspected);
        hear(&mut taking, 0..40);
        taking.edge(Acoustic::Quiet);
        assert!(!taking.has_begun());
        hear(&mut taking, 40..50);
        assert_eq!(frames(taking), (25..50).collect::<Vec<i16>>());
    }

    #[test]
    fn it_is_no_longer_than_was_wanted_and_knows_that_it_was_cut() {
        let mut taking = taking(1);
        taking.edge(Acoustic::Speaking);
        hear(&mut taking, 0..60);
        assert!(taking.is_cut());
        assert_eq!(frames(taking), (0..50).collect::<Vec<i16>>());
    }
}
