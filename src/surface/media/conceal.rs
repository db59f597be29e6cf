//! Concealment of lost audio, in the manner of G.711 Appendix I: repeat the last pitch period, more quietly as time goes on.

use super::clock::FRAME_SAMPLES;

/// Remembers what was played and goes on from it where something is missing.
#[derive(Debug)]
pub(super) struct Conceal {
    /// The last samples, oldest first.
    history: [i16; HISTORY],
    /// While concealing: the pitch period in samples, and how many were made up.
    period: usize,
    made_up: usize,
}

impl Conceal {
    pub(super) fn new() -> Self {
        Self { history: [0; HISTORY], period: 0, made_up: 0 }
    }

    /// A frame that arrived is about to be played. After a gap its beginning is blended with what would have gone on.
    pub(super) fn received(&mut self, frame: &mut [i16; FRAME_SAMPLES]) {
        if self.made_up > 0 {
            for (n, sample) in frame.iter_mut().take(BLEND).enumerate() {
                let made_up = i32::from(self.next_sample());
                let share = n as i32 + 1;
                *sample = ((made_up * (BLEND as i32 + 1 - share) + i32::from(*sample) * share) / (BLEND as i32 + 1)) as i16;
            }
            self.made_up = 0;
        }
        self.remember(frame);
    }

    /// A frame is missing.
    pub(super) fn missing(&mut self, frame: &mut [i16; FRAME_SAMPLES]) {
        if self.made_up == 0 {
            self.period = pitch_period(&self.history);
        }
        for sample in frame.iter_mut() {
            *sample = self.next_sample();
        }
    }

    fn next_sample(&mut self) -> i16 {
        let from_end = self.period - self.made_up % self.period.max(1);
        let sample = self.history.get(HISTORY - from_end).copied().unwrap_or(0);
        let faded = self.made_up.saturating_sub(FULL_LEVEL);
        self.made_up = self.made_up.saturating_add(1);
        (i32::from(sample) * FADE.saturating_sub(faded) as i32 / FADE as i32) as i16
    }

    fn remember(&mut self, frame: &[i16; FRAME_SAMPLES]) {
        self.history.copy_within(FRAME_SAMPLES.., 0);
        self.history[HISTORY - FRAME_SAMPLES..].copy_from_slice(frame);
    }
}

/// The lag at which the end of the history resembles itself most.
fn pitch_period(history: &[i16; HISTORY]) -> usize {
    let recent = &history[HISTORY - FRAME_SAMPLES..];
    let likeness = |lag: usize| {
        let earlier = &history[HISTORY - FRAME_SAMPLES - lag..HISTORY - lag];
        let (mut product, mut energy) = (0.0f32, 1.0f32);
        for (&a, &b) in recent.iter().zip(earlier) {
            product += f32::from(a) * f32::from(b);
            energy += f32::from(b) * f32::from(b);
        }
        product / energy.sqrt()
    };
    let mut best = (PERIOD_MAX, f32::MIN);
    for lag in PERIOD_MIN..=PERIOD_MAX {
        let like = likeness(lag);
        if like > best.1 {
            best = (lag, like);
        }
    }
    best.0
}

/// Voices between 66 and 200 Hz, as Appendix I has it.
const PERIOD_MIN: usize = 40;
const PERIOD_MAX: usize = 120;
/// A frame to compare and the longest period before it, in whole frames.
const HISTORY: usize = 320;
/// 10 ms at full level, then down to nothing at 60 ms: a longer hole is a hole.
const FULL_LEVEL: usize = 80;
const FADE: usize = 400;
/// 4 ms.
const BLEND: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use std::f32::consts::PI;

    fn voice(from: usize) -> [i16; 160] {
        std::array::from_fn(|n| (8_000.0 * (2.0 * PI * 100.0 * (from + n) as f32 / 8_000.0).sin()) as i16)
    }

    #[test]
    fn a_voice_goes_on_in_phase_and_fades_out() {
        let mut conceal = Conceal::new();
        for n in 0..3 {
            conceal.received(&mut voice(n * 160));
        }
        let mut frame = [0; 160];
        conceal.missing(&mut frame);
        let error: i32 = frame[..80].iter().zip(voice(480)).map(|(a, b)| (i32::from(*a) - i32::from(b)).abs()).max().unwrap();
        assert!(error < 800, "off by {error}");
        let peak = |frame: &[i16]| frame.iter().map(|s| s.unsigned_abs()).max().unwrap();
        let first = peak(&frame);
        conceal.missing(&mut frame);
        assert!(peak(&frame) < first);
        conceal.missing(&mut frame);
        conceal.missing(&mut frame);
        assert_eq!(peak(&frame), 0);
    }

    #[test]
    fn what_comes_after_a_gap_is_blended_in_and_then_untouched() {
        let mut conceal = Conceal::new();
        conceal.received(&mut voice(0));
        conceal.missing(&mut [0; 160]);
        let mut frame = [5_000; 160];
        conceal.received(&mut frame);
        assert!(frame[0].abs_diff(5_000) > 500);
        assert_eq!(frame[BLEND..], [5_000; 160 - BLEND]);
        let mut next = [1_000; 160];
        conceal.received(&mut next);
        assert_eq!(next, [1_000; 160]);
    }

    #[test]
    fn a_loss_before_anything_came_is_silence() {
        let mut frame = [1; 160];
        Conceal::new().missing(&mut frame);
        assert_eq!(frame, [0; 160]);
    }
}
