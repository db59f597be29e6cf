//! Tones that telephones and networks send in the band of speech: keys, dialling and ringing tones, test tones.

use std::f32::consts::PI;

/// Whether `frame` is a key or a network's tone and hardly anything else.
pub(super) fn is_tone(frame: &[i16]) -> bool {
    let energy: f32 = frame.iter().map(|&s| f32::from(s) * f32::from(s)).sum();
    if energy < ENERGY_MIN {
        return false;
    }
    let share = |frequency: f32| power(frame, frequency) / energy;
    let strongest = |group: &[f32]| group.iter().map(|&frequency| share(frequency)).fold(0.0, f32::max);
    strongest(&KEY_ROWS) + strongest(&KEY_COLUMNS) > TONE_SHARE
        || strongest(&SINGLE) > TONE_SHARE
        || share(DIALLING[0]) + share(DIALLING[1]) > TONE_SHARE
}

/// Energy of the frame at one frequency (Goertzel), scaled so that a pure sinusoid there has all of it.
fn power(frame: &[i16], frequency: f32) -> f32 {
    let coefficient = 2.0 * (2.0 * PI * frequency / SAMPLE_RATE).cos();
    let (mut before, mut last) = (0.0f32, 0.0f32);
    for &sample in frame {
        (before, last) = (last, f32::from(sample) + coefficient * last - before);
    }
    (last * last + before * before - coefficient * last * before) * 2.0 / frame.len().max(1) as f32
}

const SAMPLE_RATE: f32 = 8_000.0;
/// ITU-T Q.23: a key is one of the rows with one of the columns.
const KEY_ROWS: [f32; 4] = [697.0, 770.0, 852.0, 941.0];
const KEY_COLUMNS: [f32; 4] = [1_209.0, 1_336.0, 1_477.0, 1_633.0];
/// Ringing and busy in most of the world (ITU-T E.180), test tone, fax calling and answering.
const SINGLE: [f32; 7] = [400.0, 425.0, 440.0, 450.0, 1_004.0, 1_100.0, 2_100.0];
/// North American dialling tone.
const DIALLING: [f32; 2] = [350.0, 440.0];
/// Of speech, a pair of these frequencies seldom has half.
const TONE_SHARE: f32 = 0.85;
/// -60 dBFS in 20 ms: quieter frames are silence to everyone.
const ENERGY_MIN: f32 = 160.0 * 1_000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surface::listen::voice::voice;
    use crate::surface::media::g711::Codec;

    /// Sinusoids as they come through the telephone's codec.
    fn sinusoids(frequencies: &[f32]) -> Vec<i16> {
        let sample = |n: usize| frequencies.iter().map(|f| 6_000.0 * (2.0 * PI * f * n as f32 / SAMPLE_RATE).sin()).sum::<f32>() as i16;
        (0..160).map(|n| Codec::Pcmu.decode_sample(Codec::Pcmu.encode_sample(sample(n)))).collect()
    }

    #[test]
    fn keys_and_the_tones_of_networks_are_tones() {
        for row in KEY_ROWS {
            for column in KEY_COLUMNS {
                assert!(is_tone(&sinusoids(&[row, column])), "{row} {column}");
                assert!(is_tone(&sinusoids(&[row * 1.005, column * 0.995])), "{row} {column}, half a percent off");
            }
        }
        for single in SINGLE {
            assert!(is_tone(&sinusoids(&[single])), "{single}");
        }
        assert!(is_tone(&sinusoids(&DIALLING)));
    }

    #[test]
    fn silence_and_voices_are_no_tones() {
        assert!(!is_tone(&[0; 160]));
        let tones = voice(2_000).chunks_exact(160).filter(|frame| is_tone(frame)).count();
        assert_eq!(tones, 0);
    }
}
