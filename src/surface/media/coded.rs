//! Audio as the telephone takes it.

use std::ops::Range;
use std::sync::Arc;

use recado_voice::Audio;

use crate::g711::Codec;

/// Telephone audio at 8 kHz in one of the two laws of G.711: an octet is a sample. Shared, not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coded {
    /// The law.
    pub codec: Codec,
    /// The octets.
    pub octets: Arc<[u8]>,
    /// Whether it goes on from what is said just before it, without a pause.
    pub continues: bool,
}

impl Audio for Coded {
    fn samples(&self) -> usize {
        self.octets.len()
    }

    fn continues(&self) -> bool {
        self.continues
    }
}

impl Coded {
    /// Writes a part of it, in `codec`, to the beginning of `into`; returns how much that was.
    pub(super) fn write(&self, part: Range<usize>, codec: Codec, into: &mut [u8]) -> usize {
        let octets = self.octets.get(part).unwrap_or_default();
        let length = octets.len().min(into.len());
        let (from, into) = (&octets[..length], &mut into[..length]);
        if self.codec == codec {
            into.copy_from_slice(from);
        } else {
            for (octet, &other) in into.iter_mut().zip(from) {
                *octet = codec.encode_sample(self.codec.decode_sample(other));
            }
        }
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_in_the_other_law_is_converted_and_no_more_is_written_than_fits() {
        let coded = Coded { codec: Codec::Pcma, octets: (0..160).map(|n| Codec::Pcma.encode_sample(n * 100)).collect(), continues: false };
        let mut frame = [0; 160];
        assert_eq!(coded.write(0..160, Codec::Pcmu, &mut frame), 160);
        for (sent, coded) in frame.iter().zip(coded.octets.iter()) {
            let (sent, meant) = (Codec::Pcmu.decode_sample(*sent), Codec::Pcma.decode_sample(*coded));
            assert!((sent - meant).abs() <= 16 + meant.abs() / 20, "{sent} for {meant}");
        }
        assert_eq!(coded.write(80..160, Codec::Pcma, &mut frame[..30]), 30);
        assert_eq!(frame[..30], coded.octets[80..110]);
        assert_eq!(coded.write(100..200, Codec::Pcma, &mut frame), 0, "there is no such part");
    }
}
