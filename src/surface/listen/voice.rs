//! A synthetic voice for tests: pulses of a throat through the resonances of a mouth, in syllables.

use std::f32::consts::PI;

/// `ms` of an "a–e–o" at 8 kHz; speech enough for both detectors.
pub(crate) fn voice(ms: usize) -> Vec<i16> {
    let mut resonators: [[f32; 2]; 3] = [[0.0; 2]; 3];
    let mut noise = 1u32;
    let mut phase = 0.0f32;
    (0..ms * 8)
        .map(|n| {
            let seconds = n as f32 / 8_000.0;
            // Syllables of 200 ms with a falling melody.
            let syllable = (seconds / 0.2).fract();
            let loudness = (syllable * PI).sin().max(0.05).sqrt();
            phase += (135.0 - 25.0 * syllable + 6.0 * (seconds * 31.0).sin()) / 8_000.0;
            let pulse = if phase >= 1.0 { 1.0 } else { 0.0 };
            phase = phase.fract();
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let mut sample = pulse + ((noise >> 16) as f32 / 65_536.0 - 0.5) * 0.02;
            let formants = match (seconds / 0.2) as usize % 3 {
                0 => [730.0, 1_090.0, 2_440.0],
                1 => [530.0, 1_840.0, 2_480.0],
                _ => [570.0, 840.0, 2_410.0],
            };
            for (memory, formant) in resonators.iter_mut().zip(formants) {
                let radius = (-PI * 90.0 / 8_000.0f32).exp();
                let value = sample + 2.0 * radius * (2.0 * PI * formant / 8_000.0).cos() * memory[0] - radius * radius * memory[1];
                *memory = [value, memory[0]];
                sample = value * 0.35;
            }
            (sample * loudness * 25_000.0).clamp(-20_000.0, 20_000.0) as i16
        })
        .collect()
}
