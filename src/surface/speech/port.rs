//! The port that every speech engine implements, and what it gives.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use recado_core::policy::Language;

use super::error::SpeechError;
use super::process::SECONDS_MAX;
use super::{level, timing};

/// A speech engine, on the device or in a network: text in, telephone audio out.
pub trait Synthesiser: Send + Sync {
    /// Speaks one utterance, best a clause. Dropping the future stops the work.
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a>;

    /// Speaks as the engine that is meant does now: neither what was spoken before nor somebody who stands in for it proves that it works.
    fn ask_anew<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        self.synthesise(utterance)
    }

    /// The engine for what is asked for as one reply, which is spoken in one voice as far as possible; none where it has but one.
    fn for_a_reply(&self) -> Option<Arc<dyn Synthesiser>> {
        None
    }

    /// What is wrong though what is asked for in `language` is spoken: it was at hand, or another engine stands in for the one that was meant.
    fn impaired(&self, _language: Language) -> Option<String> {
        None
    }
}

impl<E: Synthesiser + ?Sized> Synthesiser for Arc<E> {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        (**self).synthesise(utterance)
    }

    fn ask_anew<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        (**self).ask_anew(utterance)
    }

    fn for_a_reply(&self) -> Option<Arc<dyn Synthesiser>> {
        (**self).for_a_reply()
    }

    fn impaired(&self, language: Language) -> Option<String> {
        (**self).impaired(language)
    }
}

/// The answer of a [`Synthesiser`] in the making.
pub type Synthesis<'a> = Pin<Box<dyn Future<Output = Result<SpeechAudio, SpeechError>> + Send + 'a>>;

/// What is to be spoken, and how.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Utterance {
    /// Plain text: markup in it is read as text.
    pub text: Arc<str>,
    /// The language that it is written in.
    pub language: Language,
    /// How it is spoken.
    pub voice: Voice,
}

impl Utterance {
    /// An utterance in the language's default voice.
    pub fn new(text: impl Into<Arc<str>>, language: Language) -> Self {
        Self { text: text.into(), language, voice: Voice::default() }
    }
}

/// How an utterance is spoken. Engines check the ranges.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Voice {
    /// A voice of the engine by its own name (espeak-ng: `es-419`, `en-us+f3`); none means the language's default.
    pub name: Option<Arc<str>>,
    /// Words per minute, 80 to 300. The telephone takes a little less than a desktop.
    pub words_per_minute: u16,
    /// Pitch, 0 to 99.
    pub pitch: u8,
}

impl Default for Voice {
    fn default() -> Self {
        Self { name: None, words_per_minute: 160, pitch: 50 }
    }
}

/// Telephone audio of one utterance and the map from its time to its words.
#[derive(Debug, Clone)]
pub struct SpeechAudio {
    /// What is spoken, exactly as it was given.
    pub text: Arc<str>,
    /// Mono samples at 8 kHz.
    pub samples_8khz: Arc<[i16]>,
    /// The words of `text` in order, with where they sound. An estimate: see [`SpeechAudio::heard_text`].
    pub text_to_time: Arc<[WordMark]>,
}

/// Where one word sounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordMark {
    /// The word in the text, its punctuation included, white space excluded.
    pub byte_range: Range<usize>,
    /// Its first sample at 8 kHz.
    pub start_sample: usize,
    /// The sample after its last.
    pub end_sample: usize,
}

impl SpeechAudio {
    /// Audio from an engine: silence trimmed, brought to telephone level, and mapped to its words.
    pub fn from_engine(text: Arc<str>, mut samples: Vec<i16>) -> Result<Self, SpeechError> {
        level::trim(&mut samples);
        if samples.is_empty() {
            return Err(SpeechError::NothingToSay);
        }
        level::normalise(&mut samples);
        Ok(Self::from_recording(text, samples.into()))
    }

    /// The same of an engine that is asked only for what has words: silence is a fault of its own.
    pub(super) fn of_words(text: Arc<str>, samples: Vec<i16>) -> Result<Self, SpeechError> {
        if samples.len() > SAMPLES_MAX {
            return Err(SpeechError::AudioTooLong { seconds_max: SECONDS_MAX });
        }
        Self::from_engine(text, samples).map_err(|error| match error {
            SpeechError::NothingToSay => SpeechError::Silent,
            error => error,
        })
    }

    /// Audio that is played as it is, such as a recorded prompt, with the words that are said in it.
    pub fn from_recording(text: Arc<str>, samples_8khz: Arc<[i16]>) -> Self {
        let text_to_time = timing::word_marks(&text, &samples_8khz).into();
        Self { text, samples_8khz, text_to_time }
    }

    /// Its length in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        (self.samples_8khz.len() / SAMPLES_PER_MS) as u64
    }

    /// The text that was heard when the first `heard_ms` milliseconds were: the words that had ended by then.
    ///
    /// The word that the position falls in is left out: in doubt, less was heard. Word boundaries are estimated: against
    /// espeak-ng's own word events half of the words begin within 80 ms and nine in ten within 200 ms, against a Piper voice's own alignment half
    /// end within 60 ms and nine in ten within 140 ms, mostly late.
    pub fn heard_text(&self, heard_ms: u64) -> &str {
        let heard = usize::try_from(heard_ms).unwrap_or(usize::MAX).saturating_mul(SAMPLES_PER_MS);
        let words = self.text_to_time.partition_point(|mark| mark.end_sample <= heard);
        match words.checked_sub(1).and_then(|last| self.text_to_time.get(last)) {
            _ if words == self.text_to_time.len() => &self.text,
            Some(mark) => self.text.get(..mark.byte_range.end).unwrap_or_default(),
            None => "",
        }
    }
}

/// At 8 kHz.
const SAMPLES_PER_MS: usize = 8;

/// As much as a playback holds.
const SAMPLES_MAX: usize = SECONDS_MAX as usize * 1_000 * SAMPLES_PER_MS;

#[cfg(test)]
mod tests {
    use super::*;

    fn audio() -> SpeechAudio {
        let mark = |byte_range, start_sample, end_sample| WordMark { byte_range, start_sample, end_sample };
        SpeechAudio {
            text: "Sí, señor. ".into(),
            samples_8khz: vec![0; 8_000].into(),
            text_to_time: vec![mark(0..4, 80, 3_200), mark(5..12, 3_200, 7_200)].into(),
        }
    }

    #[test]
    fn heard_text_ends_before_the_word_that_the_position_falls_in() {
        for (heard_ms, text) in [(0, ""), (399, ""), (400, "Sí,"), (899, "Sí,"), (900, "Sí, señor. "), (u64::MAX, "Sí, señor. ")] {
            assert_eq!(audio().heard_text(heard_ms), text, "{heard_ms} ms");
        }
        assert_eq!(audio().duration_ms(), 1_000);
    }
}
