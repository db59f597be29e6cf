//! A sentence as a caller's voice would bring it: in the service's format, in pieces of 20 ms.

use std::sync::Arc;

use recado_core::policy::Language;

use crate::config::{CloudAudio, Config};
use crate::surface::media::Codec;
use crate::surface::media::resample::Resampler;
use crate::surface::speech::espeak::EspeakNg;
use crate::surface::speech::{SpeechError, Synthesiser, Utterance, Voice};

/// A sentence and a moment of silence, in pieces of 20 ms.
pub(super) struct Sentence {
    pub frames: Vec<Vec<u8>>,
    /// What comes when nothing is said.
    pub silence: Vec<u8>,
}

/// `text`, spoken by the box's own engine.
pub(super) async fn spoken(config: &Config, language: Language, text: &str, format: CloudAudio) -> Result<Sentence, SpeechError> {
    let engine = EspeakNg::new(&config.speech.program);
    let name = config.speech.voices.of(language).map(Into::into);
    let voice = Voice { name, words_per_minute: config.speech.words_per_minute, ..Voice::default() };
    let utterance = Utterance { text: Arc::from(text), language, voice };
    let speech = engine.synthesise(&utterance).await?;
    Ok(Sentence { frames: frames(&speech.samples_8khz, format), silence: frames(&[0; SAMPLES_8KHZ], format).concat() })
}

/// Telephone samples in the service's format.
fn frames(samples: &[i16], format: CloudAudio) -> Vec<Vec<u8>> {
    let bytes = match format {
        CloudAudio::Pcmu => coded(samples, Codec::Pcmu),
        CloudAudio::Pcma => coded(samples, Codec::Pcma),
        CloudAudio::Pcm => at_24khz(samples).iter().flat_map(|sample| sample.to_le_bytes()).collect(),
    };
    let frame_bytes = match format {
        CloudAudio::Pcmu | CloudAudio::Pcma => SAMPLES_8KHZ,
        CloudAudio::Pcm => SAMPLES_8KHZ * 3 * 2,
    };
    bytes.chunks(frame_bytes).map(<[u8]>::to_vec).collect()
}

fn coded(samples: &[i16], codec: Codec) -> Vec<u8> {
    let mut octets = vec![0; samples.len()];
    codec.encode(samples, &mut octets);
    octets
}

fn at_24khz(samples: &[i16]) -> Vec<i16> {
    let mut output = Vec::with_capacity(samples.len() * 3);
    // These two rates always go together.
    if let Ok(mut resampler) = Resampler::new(8_000, 24_000) {
        resampler.process(samples, &mut output);
        resampler.finish(samples.len(), &mut output);
    }
    output
}

/// Samples of 20 ms.
const SAMPLES_8KHZ: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_twenty_milliseconds_in_every_format() {
        let samples: Vec<i16> =
            (0..1_600).map(|n| ((f64::from(n) / 8_000.0 * 440.0 * std::f64::consts::TAU).sin() * 8_000.0) as i16).collect();
        for (format, bytes) in [(CloudAudio::Pcmu, 160), (CloudAudio::Pcma, 160), (CloudAudio::Pcm, 960)] {
            let frames = frames(&samples, format);
            assert_eq!((frames.len(), frames[0].len(), frames[9].len()), (10, bytes, bytes), "{format:?}");
        }
        let linear: Vec<i16> =
            frames(&samples, CloudAudio::Pcm).concat().chunks(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
        for n in 100..1_500 {
            assert!((i32::from(linear[n * 3]) - i32::from(samples[n])).abs() < 200, "sample {n}");
        }
    }
}
