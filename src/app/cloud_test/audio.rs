//! A sentence as a caller's voice would bring it: in the service's format, in pieces of 20 ms.

use recado_core::policy::Language;

use super::CloudTestError;
use crate::app::cloud_audio::Coder;
use crate::app::engines::voice;
use crate::cognition::models::{AudioFormat, CALLER_FRAME_SAMPLES};
use crate::config::Config;
use crate::surface::speech::espeak::EspeakNg;
use crate::surface::speech::{Synthesiser, Utterance};

/// A sentence and a moment of silence, in pieces of 20 ms.
pub(super) struct Sentence {
    pub frames: Vec<Vec<u8>>,
    /// What comes when nothing is said.
    pub silence: Vec<u8>,
}

/// `text`, spoken by the box's own engine.
pub(super) async fn spoken(config: &Config, language: Language, text: &str, format: AudioFormat) -> Result<Sentence, CloudTestError> {
    let engine = EspeakNg::new(&config.speech.program);
    let utterance = Utterance { voice: voice(config, language), ..Utterance::new(text, language) };
    let speech = engine.synthesise(&utterance).await?;
    let coder = Coder::new(format)?;
    let silence = coder.clone().code(&[0; CALLER_FRAME_SAMPLES]);
    Ok(Sentence { frames: frames(&speech.samples_8khz, coder), silence })
}

/// Telephone samples in pieces of 20 ms, the last one filled up with silence.
fn frames(samples: &[i16], mut coder: Coder) -> Vec<Vec<u8>> {
    let frames = samples.chunks(CALLER_FRAME_SAMPLES).map(|said| {
        let mut frame = [0; CALLER_FRAME_SAMPLES];
        frame[..said.len()].copy_from_slice(said);
        coder.code(&frame)
    });
    frames.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_twenty_milliseconds_in_every_format() {
        for (format, bytes) in [(AudioFormat::Pcmu, 160), (AudioFormat::Pcma, 160), (AudioFormat::Linear16 { rate_hz: 24_000 }, 960)] {
            let frames = frames(&[1_000; 1_500], Coder::new(format).unwrap());
            assert_eq!((frames.len(), frames[0].len(), frames[9].len()), (10, bytes, bytes), "{format:?}");
        }
    }
}
