//! Tones: what telephones and networks send in the band of speech (keys, dialling and ringing tones, horns).
//!
//! One or two steady sinusoids can be predicted from the four samples before them; speech can't, as its pitch pulses
//! and its noise are new. A linear predictor fitted to a frame by least squares (the covariance method) tells them apart.

/// Whether `frame` is one or two steady sinusoids and hardly anything else.
pub(super) fn is_tone(frame: &[i16]) -> bool {
    prediction_gain_db(frame).is_some_and(|gain| gain > TONE_GAIN_DB)
}

/// How much of the frame's energy four coefficients explain (dB); none for silence.
fn prediction_gain_db(frame: &[i16]) -> Option<f32> {
    // covariance[i][j] = sum over n of x[n-i] x[n-j], for lags 0 to ORDER.
    let mut covariance = [[0.0f64; ORDER + 1]; ORDER + 1];
    for window in frame.windows(ORDER + 1) {
        let mut x = [0.0f64; ORDER + 1];
        for (lag, value) in x.iter_mut().enumerate() {
            *value = f64::from(window[ORDER - lag]);
        }
        for i in 0..=ORDER {
            for j in i..=ORDER {
                covariance[i][j] += x[i] * x[j];
            }
        }
    }
    let energy = covariance[0][0];
    if energy < ENERGY_MIN {
        return None;
    }
    let error = residual(&covariance)?;
    Some(10.0 * (energy / error.max(1.0)).log10() as f32)
}

/// What is left of the energy after the best prediction: by Cholesky (LDL) elimination of lags 1 to ORDER.
fn residual(covariance: &[[f64; ORDER + 1]; ORDER + 1]) -> Option<f64> {
    let mut lower = [[0.0f64; ORDER]; ORDER];
    let mut diagonal = [0.0f64; ORDER];
    let mut projected = [0.0f64; ORDER];
    let mut error = covariance[0][0];
    for i in 0..ORDER {
        for j in 0..i {
            let mut sum = covariance[j + 1][i + 1];
            for k in 0..j {
                sum -= lower[i][k] * lower[j][k] * diagonal[k];
            }
            lower[i][j] = sum / diagonal[j];
        }
        let mut pivot = covariance[i + 1][i + 1] * (1.0 + REGULARISATION);
        let mut product = covariance[0][i + 1];
        for k in 0..i {
            pivot -= lower[i][k] * lower[i][k] * diagonal[k];
            product -= lower[i][k] * projected[k] * diagonal[k];
        }
        if pivot <= 0.0 {
            return None;
        }
        diagonal[i] = pivot;
        projected[i] = product / pivot;
        error -= product * product / pivot;
    }
    Some(error)
}

/// Two coefficients a sinusoid; keys are two sinusoids.
const ORDER: usize = 4;
/// Four coefficients explain at most about 25 dB of speech; of a tone they leave G.711's own noise, 35 dB down.
const TONE_GAIN_DB: f32 = 28.0;
/// Keeps the elimination of a single sinusoid, which two coefficients explain wholly, well conditioned.
const REGULARISATION: f64 = 1e-9;
/// -60 dBFS in 20 ms: quieter frames are silence to everyone.
const ENERGY_MIN: f64 = 160.0 * 1_000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    fn sinusoids(frequencies: &[f64]) -> Vec<i16> {
        (0..160).map(|n| frequencies.iter().map(|f| 6_000.0 * (2.0 * PI * f * f64::from(n) / 8_000.0).sin()).sum::<f64>() as i16).collect()
    }

    #[test]
    fn keys_and_dialling_tones_are_tones() {
        for pair in [[697.0, 1_209.0], [941.0, 1_633.0], [350.0, 440.0], [440.0, 480.0]] {
            assert!(is_tone(&sinusoids(&pair)), "{pair:?}: {:?} dB", prediction_gain_db(&sinusoids(&pair)));
        }
        for single in [400.0, 425.0, 1_004.0] {
            assert!(is_tone(&sinusoids(&[single])), "{single}");
        }
    }

    #[test]
    fn silence_and_a_voice_of_many_harmonics_are_no_tones() {
        assert!(!is_tone(&[0; 160]));
        let harmonics: Vec<f64> = (1..20).map(|k| 130.0 * f64::from(k)).collect();
        let voice: Vec<i16> = sinusoids(&harmonics).iter().map(|s| s / 4).collect();
        assert!(!is_tone(&voice), "{:?} dB", prediction_gain_db(&voice));
    }

    #[test]
    fn a_tone_is_one_also_through_the_telephones_codec() {
        use crate::surface::media::g711::Codec;
        let coded: Vec<i16> =
            sinusoids(&[770.0, 1_336.0]).iter().map(|&s| Codec::Pcmu.decode_sample(Codec::Pcmu.encode_sample(s))).collect();
        assert!(is_tone(&coded), "{:?} dB", prediction_gain_db(&coded));
    }
}
