//! G.711, the telephone's own codec (ITU-T G.711, 1988), by table: µ-law (PCMU) and A-law (PCMA).
//!
//! Both tables are computed at compile time from the segment formulas; converting allocates nothing and cannot fail.

/// One of the two companding laws of ITU-T G.711.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// µ-law, RTP payload type 0.
    Pcmu,
    /// A-law, RTP payload type 8.
    Pcma,
}

impl Codec {
    /// The static RTP payload type (RFC 3551 section 6, table 4).
    pub const fn payload_type(self) -> u8 {
        match self {
            Codec::Pcmu => 0,
            Codec::Pcma => 8,
        }
    }

    /// The codec of a static RTP payload type, if it is one of these two.
    pub const fn from_payload_type(payload_type: u8) -> Option<Self> {
        match payload_type {
            0 => Some(Codec::Pcmu),
            8 => Some(Codec::Pcma),
            _ => None,
        }
    }

    /// The name in an SDP `rtpmap` (RFC 3551 section 4.5.14).
    pub const fn encoding_name(self) -> &'static str {
        match self {
            Codec::Pcmu => "PCMU",
            Codec::Pcma => "PCMA",
        }
    }

    /// The octet of the smallest positive level: silence.
    pub const fn silence(self) -> u8 {
        match self {
            Codec::Pcmu => 0xFF,
            Codec::Pcma => 0xD5,
        }
    }

    /// One linear 16-bit sample as its octet.
    pub const fn encode_sample(self, sample: i16) -> u8 {
        // One's complement for negative samples, as the decision values of G.711 are symmetric around -0.5.
        let magnitude = (sample ^ (sample >> 15)) as usize;
        let sign = if sample < 0 { 0x80 } else { 0 };
        match self {
            Codec::Pcmu => PCMU_ENCODE[magnitude >> 2] ^ sign,
            Codec::Pcma => PCMA_ENCODE[magnitude >> 4] ^ sign,
        }
    }

    /// One octet as its linear 16-bit sample.
    pub const fn decode_sample(self, octet: u8) -> i16 {
        match self {
            Codec::Pcmu => PCMU_DECODE[octet as usize],
            Codec::Pcma => PCMA_DECODE[octet as usize],
        }
    }

    /// Encodes as many samples as both slices hold, and says how many that were.
    pub fn encode(self, samples: &[i16], octets: &mut [u8]) -> usize {
        for (octet, &sample) in octets.iter_mut().zip(samples) {
            *octet = self.encode_sample(sample);
        }
        samples.len().min(octets.len())
    }

    /// Decodes as many octets as both slices hold, and says how many that were.
    pub fn decode(self, octets: &[u8], samples: &mut [i16]) -> usize {
        for (sample, &octet) in samples.iter_mut().zip(octets) {
            *sample = self.decode_sample(octet);
        }
        samples.len().min(octets.len())
    }
}

/// Indexed by 13-bit magnitude; the octets of positive samples.
static PCMU_ENCODE: [u8; 8192] = {
    let mut table = [0; 8192];
    let mut magnitude = 0;
    while magnitude < table.len() {
        let biased = if magnitude + 33 > 0x1FFF { 0x1FFF } else { magnitude + 33 };
        // The highest set bit is 5 (biased by 33) to 12: segments 0 to 7.
        let segment = biased.ilog2() as usize - 5;
        let step = (biased >> (segment + 1)) & 0x0F;
        table[magnitude] = !((segment << 4) as u8 | step as u8);
        magnitude += 1;
    }
    table
};

/// Indexed by 11-bit magnitude; the octets of positive samples.
static PCMA_ENCODE: [u8; 2048] = {
    let mut table = [0; 2048];
    let mut magnitude = 0;
    while magnitude < table.len() {
        let (segment, step) = if magnitude < 32 {
            (magnitude >> 4, magnitude & 0x0F)
        } else {
            let segment = magnitude.ilog2() as usize - 3;
            (segment, (magnitude >> (segment - 1)) & 0x0F)
        };
        // Even bits are inverted on the line (G.711 section 3.2): 0x55 and the sign bit set for positive.
        table[magnitude] = ((segment << 4) as u8 | step as u8) ^ 0xD5;
        magnitude += 1;
    }
    table
};

static PCMU_DECODE: [i16; 256] = {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < table.len() {
        let code = !(octet as u8);
        let segment = (code >> 4) & 7;
        let level = ((((code & 0x0F) as i16) << 1) + 33) << segment;
        let sample = (level - 33) << 2;
        table[octet] = if code & 0x80 != 0 { -sample } else { sample };
        octet += 1;
    }
    table
};

static PCMA_DECODE: [i16; 256] = {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < table.len() {
        let code = octet as u8 ^ 0x55;
        let segment = (code >> 4) & 7;
        let step = (((code & 0x0F) as i16) << 1) + 1;
        let level = if segment == 0 { step } else { (step + 32) << (segment - 1) };
        let sample = level << 3;
        table[octet] = if code & 0x80 != 0 { sample } else { -sample };
        octet += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Codec; 2] = [Codec::Pcmu, Codec::Pcma];

    /// (first decision value, step, number of steps) of each segment in tables 1a and 2a of G.711, in 16-bit units.
    fn segments(codec: Codec) -> Vec<(i32, i32, i32)> {
        match codec {
            Codec::Pcmu => {
                let mut rows = vec![(0, 4, 1), (4, 8, 15)];
                rows.extend([31, 95, 223, 479, 991, 2015, 4063].iter().zip(2..).map(|(&x, k)| (x * 4, 4 << k, 16)));
                rows
            }
            Codec::Pcma => {
                let mut rows = vec![(0, 16, 32)];
                rows.extend([64, 128, 256, 512, 1024, 2048].iter().zip(1..).map(|(&x, k)| (x * 8, 16 << k, 16)));
                rows
            }
        }
    }

    /// The output value of G.711 for a 16-bit sample, found by walking the tables: a second way to the same answer.
    fn quantised(codec: Codec, sample: i16) -> i32 {
        let magnitude = if sample < 0 { -(sample as i32) - 1 } else { sample as i32 };
        let rows = segments(codec);
        let (start, step, count) = *rows.iter().rev().find(|row| row.0 <= magnitude).expect("starts at 0");
        let index = ((magnitude - start) / step).min(count - 1);
        let level = if (start, step, codec) == (0, 4, Codec::Pcmu) { 0 } else { start + index * step + step / 2 };
        if sample < 0 { -level } else { level }
    }

    #[test]
    fn every_sample_gets_the_output_value_of_the_recommendation() {
        for codec in BOTH {
            for sample in i16::MIN..=i16::MAX {
                let got = codec.decode_sample(codec.encode_sample(sample)) as i32;
                assert_eq!(got, quantised(codec, sample), "{codec:?} {sample}");
            }
        }
    }

    #[test]
    fn the_published_end_points_hold() {
        for (codec, octet, sample) in [
            (Codec::Pcmu, 0x80, 32124),
            (Codec::Pcmu, 0x00, -32124),
            (Codec::Pcmu, 0xFF, 0),
            (Codec::Pcma, 0xAA, 32256),
            (Codec::Pcma, 0x2A, -32256),
            (Codec::Pcma, 0xD5, 8),
            (Codec::Pcma, 0x55, -8),
        ] {
            assert_eq!(codec.decode_sample(octet), sample);
            assert_eq!(codec.encode_sample(sample), octet);
        }
        for codec in BOTH {
            assert_eq!(codec.encode_sample(0), codec.silence());
            assert_eq!(Codec::from_payload_type(codec.payload_type()), Some(codec));
        }
        assert_eq!(Codec::from_payload_type(9), None);
    }

    #[test]
    fn decoding_and_encoding_again_changes_no_octet_but_the_negative_zero() {
        for codec in BOTH {
            for octet in 0..=255u8 {
                let again = codec.encode_sample(codec.decode_sample(octet));
                let negative_zero = codec == Codec::Pcmu && octet == 0x7F;
                assert_eq!(again, if negative_zero { 0xFF } else { octet });
            }
        }
    }

    #[test]
    fn slices_of_different_length_convert_what_both_hold() {
        let mut octets = [0u8; 3];
        assert_eq!(Codec::Pcmu.encode(&[0; 5], &mut octets), 3);
        assert_eq!(octets, [0xFF; 3]);
        let mut samples = [1i16; 4];
        assert_eq!(Codec::Pcma.decode(&[0xD5, 0x55], &mut samples), 2);
        assert_eq!(samples, [8, -8, 1, 1]);
    }
}
