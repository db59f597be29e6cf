//! Whether audio holds a sound: a service may send silence too, and only a sound is speech.

use crate::config::LiveAudio;

/// Whether any sample is louder than what a synthetic voice is between words.
pub(super) fn sounds(audio: &[u8], format: LiveAudio) -> bool {
    match format {
        LiveAudio::Pcmu => audio.iter().any(|octet| mu_law(*octet) > SOUND),
        LiveAudio::Pcma => audio.iter().any(|octet| a_law(*octet) > SOUND),
        LiveAudio::Pcm16k | LiveAudio::Pcm24k => {
            audio.chunks_exact(2).any(|pair| pair.try_into().is_ok_and(|pair| i16::from_le_bytes(pair).unsigned_abs() > SOUND))
        }
    }
}

/// How far a sample is from silence, of 32,768 (ITU-T G.711).
fn mu_law(octet: u8) -> u16 {
    let code = u16::from(!octet);
    let (segment, step) = ((code >> 4) & 7, code & 15);
    (((step << 3) + 0x84) << segment) - 0x84
}

/// How far a sample is from silence, of 32,768 (ITU-T G.711).
fn a_law(octet: u8) -> u16 {
    let code = u16::from(octet ^ 0x55);
    let (segment, step) = ((code >> 4) & 7, code & 15);
    match segment {
        0 => (step << 4) + 8,
        _ => ((step << 4) + 0x108) << (segment - 1),
    }
}

/// -46 dBFS: quieter than a consonant, louder than a codec's idle noise.
const SOUND: u16 = 164;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_none_and_a_quiet_voice_is_one_in_every_format() {
        assert_eq!((mu_law(0xff), mu_law(0x7f), mu_law(0x80), mu_law(0x00)), (0, 0, 32_124, 32_124));
        assert_eq!((a_law(0xd5), a_law(0x55), a_law(0xaa), a_law(0x2a)), (8, 8, 32_256, 32_256));
        for (format, silence, voice) in [
            (LiveAudio::Pcmu, vec![0xff; 160], vec![0xff, 0xdb]),
            (LiveAudio::Pcma, vec![0xd5, 0x55], vec![0xd5, 0xff]),
            (LiveAudio::Pcm24k, [0i16, 100, -164].map(i16::to_le_bytes).concat(), [0i16, -165].map(i16::to_le_bytes).concat()),
        ] {
            assert_eq!((sounds(&silence, format), sounds(&voice, format)), (false, true), "{format:?}");
        }
        assert!(!sounds(&[], LiveAudio::Pcm16k) && !sounds(&[0xff], LiveAudio::Pcm16k));
    }
}
