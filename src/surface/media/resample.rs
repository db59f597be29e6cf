//! Sample-rate conversion by rational ratios: a streaming polyphase FIR filter (Kaiser-windowed sinc).
//!
//! The pass band ends at 85 % of the lower Nyquist frequency (3.4 kHz for telephone audio) and the stop band begins at
//! that frequency itself, 70 dB down. Chunking never changes the output. After construction nothing allocates but the caller's vector.

use std::f64::consts::PI;

/// Converts a stream of 16-bit mono samples from one rate to another.
#[derive(Debug, Clone)]
pub struct Resampler {
    /// Output rate over input rate in lowest terms: `up / down`.
    up: usize,
    down: usize,
    /// `up` phases of `taps` coefficients, each phase oldest sample first.
    coefficients: Vec<f32>,
    taps: usize,
    /// The last `taps` inputs, written twice so that they are always contiguous somewhere.
    history: Vec<f32>,
    write: usize,
    /// Where the next output falls after the newest input, in 1/`up` of an input sample.
    phase: usize,
}

/// Why a pair of rates can't be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResampleError {
    /// A rate is outside of what audio hardware and files use: convert the source first.
    #[error("a sample rate of {rate} Hz can't be used: it must be between {RATE_MIN} and {RATE_MAX} Hz")]
    Rate {
        /// The refused rate in Hz.
        rate: u32,
    },
    /// The rates have so small a common divisor that the filter would not fit into its bound: use a usual rate.
    #[error("converting {from} Hz to {to} Hz needs too large a filter: use a usual rate (8000, 16000, 22050, 44100, 48000 Hz)")]
    Ratio {
        /// Input rate in Hz.
        from: u32,
        /// Output rate in Hz.
        to: u32,
    },
}

impl Resampler {
    /// A converter from `from` Hz to `to` Hz. Equal rates pass through untouched and without delay.
    pub fn new(from: u32, to: u32) -> Result<Self, ResampleError> {
        for rate in [from, to] {
            if !(RATE_MIN..=RATE_MAX).contains(&rate) {
                return Err(ResampleError::Rate { rate });
            }
        }
        let divisor = greatest_common_divisor(from, to);
        let (up, down) = ((to / divisor) as usize, (from / divisor) as usize);
        let (coefficients, taps) = if from == to {
            (vec![1.0], 1)
        } else {
            let taps = taps_per_phase(from, to);
            if up * taps > COEFFICIENTS_MAX {
                return Err(ResampleError::Ratio { from, to });
            }
            (polyphase(up, taps, from, to), taps)
        };
        // The first output is shifted by less than one step, so that the delay is a whole number of output samples.
        let centre = up * (taps / 2);
        Ok(Self { up, down, coefficients, taps, history: vec![0.0; 2 * taps], write: 0, phase: centre % down })
    }

    /// Appends to `output` what `input` completes; the rest stays in the filter for the next chunk.
    pub fn process(&mut self, input: &[i16], output: &mut Vec<i16>) {
        if self.up == self.down {
            return output.extend_from_slice(input);
        }
        for &sample in input {
            self.history[self.write] = f32::from(sample);
            self.history[self.write + self.taps] = f32::from(sample);
            self.write = (self.write + 1) % self.taps;
            while self.phase < self.up {
                let window = &self.history[self.write..self.write + self.taps];
                let phase = &self.coefficients[self.phase * self.taps..(self.phase + 1) * self.taps];
                // A cast from float saturates: a peak that overshoots is clipped, never wrapped.
                output.push(dot(window, phase).round() as i16);
                self.phase += self.down;
            }
            self.phase -= self.up;
        }
    }

    /// Ends a recording of which `input_samples` were given and all output is in `output`: pushes out what is still in the
    /// filter and drops the delay, so that the output begins and ends where the input did.
    pub fn finish(mut self, input_samples: usize, output: &mut Vec<i16>) {
        let delay = self.delay_samples();
        let wanted = (input_samples * self.up).div_ceil(self.down);
        while output.len() < wanted + delay {
            self.process(&[0; 64], output);
        }
        output.drain(..delay);
        output.truncate(wanted);
    }

    /// By how many output samples, exactly, the output lags behind the input.
    pub fn delay_samples(&self) -> usize {
        self.up * (self.taps / 2) / self.down
    }

    /// An upper bound of the output samples that `input_samples` more inputs can produce.
    pub fn output_samples_max(&self, input_samples: usize) -> usize {
        (input_samples * self.up).div_ceil(self.down) + 1
    }
}

/// Kaiser's estimate of the length for [`STOP_BAND_DB`] and the transition band, in input samples.
fn taps_per_phase(from: u32, to: u32) -> usize {
    let nyquist = f64::from(from.min(to)) / 2.0;
    let transition = 2.0 * PI * nyquist * (1.0 - PASS_BAND) / f64::from(from);
    let taps = ((STOP_BAND_DB - 8.0) / (2.285 * transition)).ceil() as usize;
    taps + taps % 2
}

fn polyphase(up: usize, taps: usize, from: u32, to: u32) -> Vec<f32> {
    let nyquist = f64::from(from.min(to)) / 2.0;
    // Middle of the transition band, in cycles per input sample.
    let cutoff = nyquist * (1.0 + PASS_BAND) / 2.0 / f64::from(from);
    let beta = 0.1102 * (STOP_BAND_DB - 8.7);
    let centre = taps as f64 / 2.0;
    let mut coefficients = Vec::with_capacity(up * taps);
    for phase in 0..up {
        let kernel: Vec<f64> = (0..taps)
            .rev()
            .map(|age| {
                let at = age as f64 + phase as f64 / up as f64 - centre;
                let x = 2.0 * cutoff * at;
                let sinc = if x.abs() < 1e-12 { 1.0 } else { (PI * x).sin() / (PI * x) };
                sinc * bessel_i0(beta * (1.0 - (at / centre).powi(2)).max(0.0).sqrt())
            })
            .collect();
        // Every phase has unity gain at zero frequency, so that a constant comes out without ripple.
        let gain: f64 = kernel.iter().sum();
        coefficients.extend(kernel.iter().map(|value| (value / gain) as f32));
    }
    coefficients
}

/// Modified Bessel function of the first kind, order zero, by its power series.
fn bessel_i0(x: f64) -> f64 {
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    // All terms are positive and in the end fall faster than geometrically; beta is below 10, so about 25 are needed.
    while term > sum * 1e-9 {
        term *= (x / 2.0 / k).powi(2);
        sum += term;
        k += 1.0;
    }
    sum
}

/// Four sums, so that the compiler may use the vector unit.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a4, a_rest) = a.as_chunks::<4>();
    let (b4, b_rest) = b.as_chunks::<4>();
    let mut sums = [0.0f32; 4];
    for (x, y) in a4.iter().zip(b4) {
        for lane in 0..4 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f32>() + rest
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Nothing below telephone quality is spoken, nothing above studio quality is recorded.
const RATE_MIN: u32 = 8_000;
const RATE_MAX: u32 = 192_000;
/// 16 MiB of coefficients: any rate up to 48 kHz to or from 8 kHz fits.
const COEFFICIENTS_MAX: usize = 4 << 20;
const PASS_BAND: f64 = 0.85;
const STOP_BAND_DB: f64 = 70.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAIRS: [(u32, u32); 7] =
        [(22_050, 8_000), (16_000, 8_000), (24_000, 8_000), (48_000, 8_000), (44_100, 8_000), (8_000, 24_000), (8_000, 16_000)];

    fn tone(frequency: f64, rate: u32, samples: usize) -> Vec<i16> {
        (0..samples).map(|n| (10_000.0 * (2.0 * PI * frequency * n as f64 / f64::from(rate)).sin()) as i16).collect()
    }

    fn resample(samples: &[i16], from: u32, to: u32) -> Result<Vec<i16>, ResampleError> {
        let mut resampler = Resampler::new(from, to)?;
        let mut output = Vec::new();
        resampler.process(samples, &mut output);
        resampler.finish(samples.len(), &mut output);
        Ok(output)
    }

    /// Level in dB against the 10,000-peak tone, the filter's edges left out.
    fn level_db(samples: &[i16]) -> f64 {
        let middle = &samples[samples.len() / 4..samples.len() * 3 / 4];
        let power = middle.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>() / middle.len() as f64;
        10.0 * (power.max(1e-9) / 5e7).log10()
    }

    #[test]
    fn a_tone_in_the_telephone_band_passes() {
        for (from, to) in PAIRS {
            for frequency in [300.0, 1_000.0, 3_300.0] {
                let level = level_db(&resample(&tone(frequency, from, from as usize / 2), from, to).unwrap());
                assert!(level.abs() < 0.2, "{frequency} Hz, {from} to {to}: {level:.2} dB");
            }
        }
    }

    #[test]
    fn a_tone_above_the_new_nyquist_frequency_is_down_by_more_than_50_db() {
        for (from, to) in PAIRS.into_iter().filter(|(from, to)| from > to) {
            for frequency in [4_050.0, 5_000.0, 7_000.0] {
                let level = level_db(&resample(&tone(frequency, from, from as usize / 2), from, to).unwrap());
                assert!(level < -55.0, "{frequency} Hz, {from} to {to}: {level:.1} dB");
            }
        }
    }

    #[test]
    fn an_upsampled_tone_has_no_image() {
        let up = resample(&tone(1_000.0, 8_000, 8_000), 8_000, 24_000).unwrap();
        let exact = tone(1_000.0, 24_000, 24_000);
        let error: Vec<i16> = up.iter().zip(&exact).map(|(a, b)| a - b).collect();
        assert!(level_db(&error) < -55.0, "{:.1} dB", level_db(&error));
    }

    #[test]
    fn a_pulse_comes_out_as_late_as_the_reported_delay() {
        for (from, to) in PAIRS {
            let mut resampler = Resampler::new(from, to).unwrap();
            let mut input = vec![0; 4_000];
            input[0] = 20_000;
            let mut output = Vec::new();
            resampler.process(&input, &mut output);
            let peak = (0..output.len()).max_by_key(|&n| output[n].unsigned_abs()).unwrap();
            assert!(peak.abs_diff(resampler.delay_samples()) <= 1, "{from} to {to}: {peak}");
        }
    }

    #[test]
    fn equal_rates_pass_through_untouched_and_odd_rates_are_refused_or_right() {
        let input = tone(440.0, 8_000, 1_000);
        assert_eq!(resample(&input, 8_000, 8_000).unwrap(), input);
        assert_eq!(Resampler::new(7_999, 8_000).unwrap_err(), ResampleError::Rate { rate: 7_999 });
        assert_eq!(Resampler::new(191_999, 8_000).unwrap_err(), ResampleError::Ratio { from: 191_999, to: 8_000 });
        assert_eq!(resample(&input, 12_345, 8_000).unwrap().len(), (1_000 * 8_000usize).div_ceil(12_345));
    }

    #[test]
    fn full_scale_saturates_and_never_wraps() {
        let square: Vec<i16> = (0..8_000).map(|n| if n / 20 % 2 == 0 { i16::MAX } else { i16::MIN }).collect();
        let output = resample(&square, 16_000, 8_000).unwrap();
        for n in 1..output.len() / 10 - 1 {
            assert_eq!(output[n * 10 + 5] > 0, n % 2 == 0, "plateau {n}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn chunking_does_not_change_the_output(
            input in proptest::collection::vec(any::<i16>(), 0..1_500),
            cuts in proptest::collection::vec(0usize..200, 1..40),
            pair in 0..PAIRS.len(),
        ) {
            let (from, to) = PAIRS[pair];
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            Resampler::new(from, to).unwrap().process(&input, &mut whole);
            let mut resampler = Resampler::new(from, to).unwrap();
            let mut rest = &input[..];
            for cut in cuts.iter().cycle().take(10_000) {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                let before = parts.len();
                resampler.process(now, &mut parts);
                prop_assert!(parts.len() - before <= resampler.output_samples_max(now.len()));
                rest = later;
            }
            resampler.process(rest, &mut parts);
            prop_assert_eq!(whole, parts);
        }
    }
}
