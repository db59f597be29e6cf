//! Phrases that were spoken before, and those that must be ready before the first call.
//!
//! One cache belongs to one engine, so the engine is part of every key by construction. Nothing is kept on disk.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use recado_core::policy::Language;

use super::error::SpeechError;
use super::port::{SpeechAudio, Synthesis, Synthesiser, Utterance};

/// A speech engine with a memory: least recently used phrases leave first, warmed-up ones never.
#[derive(Debug)]
pub struct Phrases<E> {
    engine: E,
    bytes_max: usize,
    kept: Mutex<Kept>,
}

impl<E: Synthesiser> Phrases<E> {
    /// A cache of at most `bytes_max` bytes of audio and text before `engine`; [`PHRASES_BYTES_MAX`] suits a box.
    pub fn new(engine: E, bytes_max: usize) -> Self {
        Self { engine, bytes_max, kept: Mutex::default() }
    }

    /// Speaks `utterances` and keeps them ready for good, so that an acceptance is heard at once in the first call. Stops at the
    /// first that fails; what was spoken before it stays.
    pub async fn warm_up(&self, utterances: &[Utterance]) -> Result<(), SpeechError> {
        for utterance in utterances {
            let audio = match self.find(utterance) {
                Some(audio) => audio,
                None => self.engine.synthesise(utterance).await?,
            };
            if !self.keep(utterance, &audio, true) {
                return Err(SpeechError::PhrasesFull { bytes_max: self.bytes_max });
            }
        }
        Ok(())
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
    pub fn bytes(&self) -> usize {
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
                self.keep(utterance, audio, false);
            }
            // A voice that it lacks is no fault of those that it has.
            Err(SpeechError::VoiceMissing { .. } | SpeechError::NoVoiceFor { .. }) => {}
            Err(error) if error.is_the_engines() => drop(self.lock().problems.insert(utterance.language, error.to_string())),
            Err(_) => {}
        }
        audio
    }

    /// Keeps the phrase if it fits beside those that may not leave.
    fn keep(&self, utterance: &Utterance, audio: &SpeechAudio, for_good: bool) -> bool {
        let mut kept = self.lock();
        let for_good = kept.remove(utterance).is_some_and(|known| known.for_good) || for_good;
        let bytes = bytes_of(utterance, audio);
        let fixed: usize = kept.phrases.values().filter(|phrase| phrase.for_good).map(|phrase| phrase.bytes).sum();
        if fixed + bytes > self.bytes_max {
            return false;
        }
        while kept.bytes + bytes > self.bytes_max {
            let oldest = kept.phrases.iter().filter(|(_, phrase)| !phrase.for_good).min_by_key(|(_, phrase)| phrase.last_use);
            let Some(oldest) = oldest.map(|(utterance, _)| utterance.clone()) else {
                return false;
            };
            kept.remove(&oldest);
        }
        kept.uses += 1;
        kept.bytes += bytes;
        let phrase = Phrase { audio: audio.clone(), bytes, last_use: kept.uses, for_good };
        kept.phrases.insert(utterance.clone(), phrase);
        true
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
    for_good: bool,
}

impl Kept {
    fn remove(&mut self, utterance: &Utterance) -> Option<Phrase> {
        let phrase = self.phrases.remove(utterance)?;
        self.bytes -= phrase.bytes;
        Some(phrase)
    }
}

fn bytes_of(utterance: &Utterance, audio: &SpeechAudio) -> usize {
    size_of_val(&*audio.samples_8khz) + size_of_val(&*audio.text_to_time) + 2 * utterance.text.len() + ENTRY_BYTES
}

/// About eight minutes of audio: every fixed phrase of an agent in two languages, and a day's repeated ones.
pub const PHRASES_BYTES_MAX: usize = 8 << 20;
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
    async fn warmed_up_phrases_stay_for_good() {
        let phrases = cache();
        phrases.warm_up(&[say("a"), say("b")]).await.unwrap();
        for n in 0..20 {
            phrases.synthesise(&say(&n.to_string())).await.unwrap();
        }
        assert!(phrases.find(&say("a")).is_some() && phrases.find(&say("b")).is_some());
        assert_eq!(spoken(&phrases), 22);
    }

    #[tokio::test]
    async fn more_phrases_for_good_than_fit_are_an_error_and_so_is_one_that_fails() {
        let phrases = cache();
        let all = [say("a"), say("b"), say("c"), say("d")];
        assert!(matches!(phrases.warm_up(&all).await, Err(SpeechError::PhrasesFull { .. })));
        phrases.synthesise(&say("e")).await.unwrap();
        assert!(phrases.bytes() <= phrases.bytes_max);
        assert!(matches!(phrases.warm_up(&[say("fail")]).await, Err(SpeechError::NothingToSay)));
    }
}
