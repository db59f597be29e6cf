//! Levels of telephone speech at 8 kHz: where it is audible, cutting the silence around it, loudness.

/// Frame length of the energy measure: 5 ms, short beside any sound of speech.
pub const FRAME_SAMPLES: usize = 40;

/// For each frame whether it is audible: louder than [`AUDIBLE_BELOW_PEAK`] of the loudest frame, and than -60 dBFS.
pub fn audible_frames(samples: &[i16]) -> Vec<bool> {
    let loudness: Vec<f32> = samples.chunks(FRAME_SAMPLES).map(rms).collect();
    let loudest = loudness.iter().copied().fold(0.0, f32::max);
    let threshold = (loudest * AUDIBLE_BELOW_PEAK).max(NEAR_SILENT);
    loudness.iter().map(|&value| value > threshold).collect()
}

/// Cuts the silence before and after speech, leaving 10 ms before (audible within 20 ms) and nothing after: whoever hears the last
/// frame has heard words, and whoever misses it has missed some. Near-silent audio becomes empty.
pub fn trim(samples: &mut Vec<i16>) {
    let audible = audible_frames(samples);
    let (Some(first), Some(last)) = (audible.iter().position(|&a| a), audible.iter().rposition(|&a| a)) else {
        samples.clear();
        return;
    };
    samples.truncate((last + 1) * FRAME_SAMPLES);
    samples.drain(..(first * FRAME_SAMPLES).saturating_sub(LEAD_SAMPLES));
}

/// Brings the audible parts to -20 dBFS RMS; peaks that would rise above -6 dBFS are limited softly, below -1 dBFS.
pub fn normalise(samples: &mut [i16]) {
    let (mut power, mut count) = (0.0f64, 0usize);
    for (frame, _) in samples.chunks(FRAME_SAMPLES).zip(audible_frames(samples)).filter(|(_, audible)| *audible) {
        power += frame.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>();
        count += frame.len();
    }
    if count == 0 {
        return;
    }
    let gain = (TARGET_RMS / (power / count as f64).sqrt() as f32).min(GAIN_MAX);
    for sample in samples {
        *sample = limited(f32::from(*sample) * gain).round() as i16;
    }
}

fn limited(value: f32) -> f32 {
    let magnitude = value.abs();
    if magnitude <= KNEE {
        return value;
    }
    let room = CEILING - KNEE;
    (KNEE + room * ((magnitude - KNEE) / room).tanh()).copysign(value)
}

/// Whether a frame is below -60 dBFS.
pub fn is_near_silent(frame: &[i16]) -> bool {
    rms(frame) <= NEAR_SILENT
}

fn rms(frame: &[i16]) -> f32 {
    let power: f32 = frame.iter().map(|&s| f32::from(s).powi(2)).sum();
    (power / frame.len().max(1) as f32).sqrt()
}

/// -40 dB.
const AUDIBLE_BELOW_PEAK: f32 = 0.01;
/// -60 dBFS.
const NEAR_SILENT: f32 = 32.768;
const LEAD_SAMPLES: usize = 80;
/// -20 dBFS.
const TARGET_RMS: f32 = 3_276.8;
/// +30 dB: more would lift noise, not speech.
const GAIN_MAX: f32 = 31.6;
/// -6 dBFS.
const KNEE: f32 = 16_423.0;
/// -1 dBFS.
const CEILING: f32 = 29_204.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(amplitude: f32, samples: usize) -> Vec<i16> {
        (0..samples).map(|n| (amplitude * (n as f32 * 0.7).sin()) as i16).collect()
    }

    #[test]
    fn silence_around_speech_is_cut_to_the_lead() {
        let mut samples = vec![0; 4_000];
        samples.extend(tone(5_000.0, 8_000));
        samples.extend(vec![3; 6_000]);
        trim(&mut samples);
        assert_eq!(samples.len(), LEAD_SAMPLES + 8_000);
        assert!(samples[LEAD_SAMPLES..160].iter().any(|s| s.abs() > 1_000));
        let mut noise = vec![5; 8_000];
        trim(&mut noise);
        assert!(noise.is_empty());
    }

    #[test]
    fn quiet_and_loud_speech_come_out_equally_loud() {
        for amplitude in [300.0, 5_000.0, 32_000.0] {
            let mut samples = tone(amplitude, 8_000);
            normalise(&mut samples);
            let level_db = 20.0 * (rms(&samples) / 32_768.0).log10();
            assert!((level_db + 20.0).abs() < 0.3, "{amplitude}: {level_db:.2} dBFS");
        }
    }

    #[test]
    fn a_peak_is_limited_below_full_scale_and_stays_a_peak() {
        assert_eq!(limited(10_000.0), 10_000.0);
        assert!(limited(60_000.0) < CEILING + 1.0 && limited(60_000.0) > 28_000.0);
        assert!(limited(-20_000.0) < -KNEE && limited(-20_000.0) > limited(-25_000.0));
    }
}
