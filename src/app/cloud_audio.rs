//! Audio between the telephone and a speech model in a network, in the service's format.

use crate::cognition::models::AudioFormat;
use crate::config::CloudAudio;
use crate::g711::Codec;
use crate::surface::media::resample::{ResampleError, Resampler};

/// Brings what the caller says to a service's format, as it comes.
#[derive(Debug, Clone)]
pub(super) enum Coder {
    /// G.711.
    Law(Codec),
    /// 16-bit little-endian samples at another rate.
    Linear(Box<Resampler>),
}

impl Coder {
    /// A coder for one stream, to what a service hears.
    ///
    /// # Errors
    /// The telephone's rate can't be brought to the service's.
    pub fn new(format: AudioFormat) -> Result<Self, ResampleError> {
        Ok(match format {
            AudioFormat::Pcmu => Self::Law(Codec::Pcmu),
            AudioFormat::Pcma => Self::Law(Codec::Pcma),
            AudioFormat::Linear16 { rate_hz } => Self::Linear(Box::new(Resampler::new(TELEPHONE_HZ, rate_hz)?)),
        })
    }

    /// The next samples of the stream (8 kHz). What comes of them is as long as they are.
    pub fn code(&mut self, samples: &[i16]) -> Vec<u8> {
        match self {
            Self::Law(codec) => {
                let mut octets = vec![0; samples.len()];
                codec.encode(samples, &mut octets);
                octets
            }
            Self::Linear(resampler) => {
                let mut linear = Vec::with_capacity(resampler.output_samples_max(samples.len()));
                resampler.process(samples, &mut linear);
                linear.iter().flat_map(|sample| sample.to_le_bytes()).collect()
            }
        }
    }
}

/// How a service that is set to `format` codes its own speech.
pub(super) fn speech_format(format: CloudAudio) -> AudioFormat {
    match format {
        CloudAudio::Pcmu => AudioFormat::Pcmu,
        CloudAudio::Pcma => AudioFormat::Pcma,
        CloudAudio::Pcm => AudioFormat::Linear16 { rate_hz: LINEAR_HZ },
    }
}

const TELEPHONE_HZ: u32 = 8_000;
/// The one rate at which the Realtime protocol takes linear samples.
const LINEAR_HZ: u32 = 24_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_as_long_in_every_format_and_says_the_same_whatever_it_is_cut_into() {
        let samples: Vec<i16> =
            (0..1_600).map(|n| ((f64::from(n) / 8_000.0 * 440.0 * std::f64::consts::TAU).sin() * 8_000.0) as i16).collect();
        let linear = |rate_hz| AudioFormat::Linear16 { rate_hz };
        for (format, bytes) in [(AudioFormat::Pcmu, 160), (AudioFormat::Pcma, 160), (linear(16_000), 640), (linear(24_000), 960)] {
            let mut coder = Coder::new(format).unwrap();
            let frames: Vec<Vec<u8>> = samples.chunks(160).map(|frame| coder.code(frame)).collect();
            assert!(frames.iter().all(|frame| frame.len() == bytes), "{format:?}");
            assert_eq!(frames.concat(), Coder::new(format).unwrap().code(&samples), "{format:?}");
        }
        let coded = Coder::new(speech_format(CloudAudio::Pcm)).unwrap().code(&samples);
        let linear: Vec<i16> = coded.chunks(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
        let delay = Resampler::new(TELEPHONE_HZ, LINEAR_HZ).unwrap().delay_samples();
        for n in 100..1_500 {
            assert!((i32::from(linear[n * 3 + delay]) - i32::from(samples[n])).abs() < 200, "sample {n}");
        }
    }
}
