//! Tones that telephones and networks send in the band of speech: keys, dialling and ringing tones, test tones.

use std::f32::consts::PI;

/// Whether `frame` is a key or a network's tone and hardly anything else.
pub(super) fn is_tone(frame: &[i16]) -> bool {
    let energy: f32 = frame.iter().map(|&s| f32::from(s) * f32::from(s)).sum();
    if energy < ENERGY_MIN {
        return false;
    }
    let powers = powers(frame);
    let strongest = |from: usize, to: usize| powers[from..to].iter().copied().fold(0.0, f32::max);
    let key = strongest(ROWS, COLUMNS) + strongest(COLUMNS, SINGLE);
    let single = strongest(SINGLE, DIALLING);
    let dialling: f32 = powers[DIALLING..].iter().sum();
    key.max(single).max(dialling) > TONE_SHARE * energy
}

/// Energy of the frame at each frequency (Goertzel), scaled so that a pure sinusoid there has all of it. All frequencies advance
/// together, which the processor's vector unit does at once.
fn powers(frame: &[i16]) -> [f32; FREQUENCIES.len()] {
    let mut coefficients = [0.0f32; FREQUENCIES.len()];
    for (coefficient, frequency) in coefficients.iter_mut().zip(FREQUENCIES) {
        *coefficient = 2.0 * (2.0 * PI * frequency / SAMPLE_RATE).cos();
    }
    let (mut before, mut last) = ([0.0f32; FREQUENCIES.len()], [0.0f32; FREQUENCIES.len()]);
    for &sample in frame {
        let sample = f32::from(sample);
        for n in 0..FREQUENCIES.len() {
            let next = sample + coefficients[n] * last[n] - before[n];
            before[n] = last[n];
            last[n] = next;
        }
    }
    let scale = 2.0 / frame.len().max(1) as f32;
    std::array::from_fn(|n| (last[n] * last[n] + before[n] * before[n] - coefficients[n] * last[n] * before[n]) * scale)
}

const SAMPLE_RATE: f32 = 8_000.0;
const FREQUENCIES: [f32; 17] = [
    // ITU-T Q.23: a key is one of the rows with one of the columns.
    697.0, 770.0, 852.0, 941.0, //
    1_209.0, 1_336.0, 1_477.0, 1_633.0, //
    // Ringing and busy in most of the world (ITU-T E.180), test tone, fax calling and answering.
    400.0, 425.0, 440.0, 450.0, 1_004.0, 1_100.0, 2_100.0, //
    // North American dialling tone.
    350.0, 440.0,
];
const ROWS: usize = 0;
const COLUMNS: usize = 4;
const SINGLE: usize = 8;
const DIALLING: usize = 15;
/// Of speech, a pair of these frequencies seldom has half.
const TONE_SHARE: f32 = 0.85;
/// -60 dBFS in 20 ms: quieter frames are silence to everyone.
const ENERGY_MIN: f32 = 160.0 * 1_000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::g711::Codec;
    use crate::surface::listen::voice::voice;

    /// Sinusoids as they come through the telephone's codec.
    fn sinusoids(frequencies: &[f32]) -> Vec<i16> {
        let sample = |n: usize| frequencies.iter().map(|f| 6_000.0 * (2.0 * PI * f * n as f32 / SAMPLE_RATE).sin()).sum::<f32>() as i16;
        (0..160).map(|n| Codec::Pcmu.decode_sample(Codec::Pcmu.encode_sample(sample(n)))).collect()
    }

    #[test]
    fn keys_and_the_tones_of_networks_are_tones() {
        for row in &FREQUENCIES[ROWS..COLUMNS] {
            for column in &FREQUENCIES[COLUMNS..SINGLE] {
                assert!(is_tone(&sinusoids(&[*row, *column])), "{row} {column}");
                assert!(is_tone(&sinusoids(&[row * 1.005, column * 0.995])), "{row} {column}, half a percent off");
            }
        }
        for &single in &FREQUENCIES[SINGLE..DIALLING] {
            assert!(is_tone(&sinusoids(&[single])), "{single}");
        }
        assert!(is_tone(&sinusoids(&FREQUENCIES[DIALLING..])));
    }

    #[test]
    fn silence_and_voices_are_no_tones() {
        assert!(!is_tone(&[0; 160]));
        let tones = voice(2_000).chunks_exact(160).filter(|frame| is_tone(frame)).count();
        assert_eq!(tones, 0);
    }
}
