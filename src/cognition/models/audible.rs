//! How much of a model's speech can be heard: a service may send silence too, and only a sound is speech.

use super::port::AudioFormat;
use crate::g711::Codec;

/// How much of this audio can be heard (ms, begun ones too): the frames of it in which a sample is louder than what a synthetic voice is between
/// words. What does not move is no sound, however far from silence it stands.
pub fn audible_ms(audio: &[u8], format: AudioFormat) -> u64 {
    let bytes_per_ms = match format {
        AudioFormat::Pcmu | AudioFormat::Pcma => 8,
        AudioFormat::Linear16 { rate_hz } => (rate_hz as usize / 1_000 * 2).max(2),
    };
    let audible = audio.chunks(bytes_per_ms * FRAME_MS).filter(|frame| is_audible(frame, format)).map(<[u8]>::len).sum::<usize>();
    audible.div_ceil(bytes_per_ms) as u64
}

fn is_audible(frame: &[u8], format: AudioFormat) -> bool {
    let (least, most) = match format {
        AudioFormat::Pcmu => of_telephone(Codec::Pcmu, frame),
        AudioFormat::Pcma => of_telephone(Codec::Pcma, frame),
        AudioFormat::Linear16 { .. } => range(frame.as_chunks::<2>().0.iter().map(|pair| i32::from(i16::from_le_bytes(*pair)))),
    };
    least.abs().max(most.abs()) > SOUND && most - least > SOUND
}

fn of_telephone(codec: Codec, frame: &[u8]) -> (i32, i32) {
    range(frame.iter().map(|octet| i32::from(codec.decode_sample(*octet))))
}

fn range(samples: impl Iterator<Item = i32>) -> (i32, i32) {
    samples
        .fold(None, |range, sample| {
            range.map_or(Some((sample, sample)), |(least, most): (i32, i32)| Some((least.min(sample), most.max(sample))))
        })
        .unwrap_or_default()
}

/// 20 ms.
const FRAME_MS: usize = 20;

/// -46 dBFS: quieter than a consonant, louder than a codec's idle noise.
const SOUND: i32 = 164;

#[cfg(test)]
mod tests {
    use super::*;

    const LINEAR: AudioFormat = AudioFormat::Linear16 { rate_hz: 24_000 };

    fn linear(samples: &[i16]) -> Vec<u8> {
        samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
    }

    #[test]
    fn silence_is_none_and_a_quiet_voice_is_one_in_every_format() {
        for (format, silence, voice) in [
            (AudioFormat::Pcmu, vec![0xff; 160], vec![0xff, 0xdb]),
            (AudioFormat::Pcma, vec![0xd5, 0x55], vec![0xd5, 0xff]),
            (LINEAR, linear(&[0, 100, -164]), linear(&[0, -165])),
        ] {
            assert_eq!((audible_ms(&silence, format), audible_ms(&voice, format)), (0, 1), "{format:?}");
        }
        assert_eq!((audible_ms(&[], LINEAR), audible_ms(&[0xff], LINEAR)), (0, 0));
    }

    #[test]
    fn only_the_frames_that_sound_count_and_what_does_not_move_is_no_sound() {
        let tone: Vec<i16> = (0..480).map(|n| if n % 2 == 0 { 1_000 } else { -1_000 }).collect();
        let speech = [linear(&tone), linear(&[0; 480]), linear(&tone)].concat();
        assert_eq!(audible_ms(&speech, LINEAR), 40);
        // A service that takes zeros for μ-law silence.
        assert_eq!(audible_ms(&[0; 1_600], AudioFormat::Pcmu), 0);
        assert_eq!(audible_ms(&linear(&[20_000; 960]), LINEAR), 0);
    }
}
