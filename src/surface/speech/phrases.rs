//! Phrases that were spoken before.
//!
//! One cache belongs to one engine, so the engine is part of every key by construction. Nothing is kept on disk.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use recado_core::policy::Language;

use super::error::SpeechError;
use super::port::{SpeechAudio, Synthesis, Synthesiser, Utterance};

/// A speech engine with a memory: least recently used phrases leave first.
#[derive(Debug)]
pub struct Phrases<E> {
    engine: E,
    bytes_max: usize,
    kept: Mutex<Kept>,
}

impl<E: Synthesiser> Phrases<E> {
    /// A cache of at most `bytes_max` bytes of audio and text before `engine`.
    pub fn new(engine: E, bytes_max: usize) -> Self {
        Self { engine, bytes_max, kept: Mutex::default() }
    }

    /// The phrase's audio if it is ready now.
    pub fn find(&self, utterance: &Utterance) -> Option<SpeechAudio> {
        let mut kept = self.lock();
        kept.uses += 1;
        let uses = kept.uses;
        let phrase = kept.phrases.get_mut(utterance)?;
        phrase.last_use = uses;
        Some(phrase.audio.clone())
    }

    /// Bytes in use.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.lock().bytes
    }

    async fn speak(&self, utterance: &Utterance) -> Result<SpeechAudio, SpeechError> {
        match self.find(utterance) {
            Some(audio) => Ok(audio),
            None => self.ask(utterance).await,
        }
    }

    /// Asks the engine, whatever was spoken before.
    async fn ask(&self, utterance: &Utterance) -> Result<SpeechAudio, SpeechError> {
        let audio = self.engine.synthesise(utterance).await;
        match &audio {
            Ok(audio) => {
                self.lock().problems.remove(&utterance.language);
                self.keep(utterance, audio);
            }
            // A voice that it lacks is no fault of those that it has.
            Err(SpeechError::VoiceMissing { .. } | SpeechError::NoVoiceFor { .. }) => {}
            Err(error) if error.is_the_engines() => drop(self.lock().problems.insert(utterance.language, error.to_string())),
            Err(_) => {}
        }
        audio
    }

    /// Keeps the phrase if it fits.
    fn keep(&self, utterance: &Utterance, audio: &SpeechAudio) {
        let mut kept = self.lock();
        kept.remove(utterance);
        let bytes = bytes_of(utterance, audio);
        if bytes > self.bytes_max {
            return;
        }
        while kept.bytes + bytes > self.bytes_max {
            let oldest = kept.phrases.iter().min_by_key(|(_, phrase)| phrase.last_use);
            let Some(oldest) = oldest.map(|(utterance, _)| utterance.clone()) else { return };
            kept.remove(&oldest);
        }
        kept.uses += 1;
        kept.bytes += bytes;
        let phrase = Phrase { audio: audio.clone(), bytes, last_use: kept.uses };
        kept.phrases.insert(utterance.clone(), phrase);
    }

    /// Nothing that holds the lock can leave the map half changed.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Synthesiser> Synthesiser for Phrases<E> {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        Box::pin(self.speak(utterance))
    }

    fn ask_anew<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        Box::pin(self.ask(utterance))
    }

    fn impaired(&self, language: Language) -> Option<String> {
        self.lock().problems.get(&language).cloned()
    }
}

#[derive(Debug, Default)]
struct Kept {
    /// Why the engine did not speak a language the last time that it was asked for it.
    problems: BTreeMap<Language, String>,
    phrases: HashMap<Utterance, Phrase>,
    bytes: usize,
    uses: u64,
}

#[derive(Debug)]
struct Phrase {
    audio: SpeechAudio,
    bytes: usize,
    last_use: u64,
}

impl Kept {
    fn remove(&mut self, utterance: &Utterance) {
        if let Some(phrase) = self.phrases.remove(utterance) {
            self.bytes -= phrase.bytes;
        }
    }
}

fn bytes_of(utterance: &Utterance, audio: &SpeechAudio) -> usize {
    size_of_val(&*audio.samples_8khz) + size_of_val(&*audio.text_to_time) + 2 * utterance.text.len() + ENTRY_BYTES
}

/// The map's own share of one phrase; bounds the number of tiny phrases as well.
const ENTRY_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Says 1,000 samples for anything but "fail" and "die", and counts.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Synthesiser for Counting {
        fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
            Box::pin(async move {
                self.0.fetch_add(1, Ordering::Relaxed);
                match &*utterance.text {
                    "fail" => Err(SpeechError::NothingToSay),
                    "die" => Err(SpeechError::Silent),
                    _ => Ok(SpeechAudio::from_recording(utterance.text.clone(), vec![1_000; 1_000].into())),
                }
            })
        }
    }

    fn say(text: &str) -> Utterance {
        Utterance::new(text, Language::Es)
    }

    /// Room for three phrases of the counting engine.
    fn cache() -> Phrases<Counting> {
        Phrases::new(Counting::default(), 3 * (2_000 + ENTRY_BYTES + 40))
    }

    fn spoken(phrases: &Phrases<Counting>) -> usize {
        phrases.engine.0.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_phrase_is_spoken_once_and_voice_and_language_make_it_another() {
        let phrases = cache();
        let mut other = say("uno");
        other.voice.pitch = 60;
        for utterance in [&say("uno"), &say("uno"), &other, &Utterance::new("uno", Language::En), &other] {
            phrases.synthesise(utterance).await.unwrap();
        }
        assert_eq!(spoken(&phrases), 3);
    }

    #[tokio::test]
    async fn what_is_at_hand_proves_nothing_about_the_engine() {
        let phrases = cache();
        for (text, is_wrong) in [("a", false), ("die", true), ("a", true), ("fail", true), ("b", false), ("fail", false), ("a", false)] {
            let _ = phrases.synthesise(&say(text)).await;
            assert_eq!(phrases.impaired(Language::Es).is_some(), is_wrong, "after {text:?}");
        }
    }

    #[tokio::test]
    async fn the_least_recently_used_phrase_leaves_first_and_the_bound_holds() {
        let phrases = cache();
        for text in ["a", "b", "c", "a", "d"] {
            phrases.synthesise(&say(text)).await.unwrap();
            assert!(phrases.bytes() <= phrases.bytes_max);
        }
        assert!(phrases.find(&say("b")).is_none());
        assert!(phrases.find(&say("a")).is_some() && phrases.find(&say("d")).is_some());
    }

    #[tokio::test]
    async fn what_is_larger_than_the_cache_is_spoken_and_not_kept() {
        let phrases = Phrases::new(Counting::default(), 2_000);
        for text in ["a", "a"] {
            assert_eq!(phrases.synthesise(&say(text)).await.unwrap().samples_8khz.len(), 1_000);
        }
        assert_eq!((spoken(&phrases), phrases.bytes()), (2, 0));
    }
}
