//! What the box speaks with, as it is configured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::policy::Language;
use serde::Serialize;

use crate::config::{Config, Engine, Fallback, SecretError, Speech};
use crate::outward::ServiceSetupError;
use crate::surface::speech::command::CommandEngine;
use crate::surface::speech::espeak::EspeakNg;
use crate::surface::speech::http::SpeechService;
use crate::surface::speech::phrases::Phrases;
use crate::surface::speech::piper::Piper;
use crate::surface::speech::stand_in::WithStandIn;
use crate::surface::speech::{SpeechError, Synthesiser, Utterance, Voice};
use crate::surface::voice::Speaker;

/// The engine, with what it has spoken before, and with the one that stands in for it where there is one.
///
/// # Errors
/// What of a service can't be used as it is configured.
pub(super) fn engine(config: &Config) -> Result<Arc<dyn Synthesiser>, ServiceSetupError> {
    let first = alone(config, config.speech.engine)?;
    Ok(if config.speech.stand_in() {
        let second = alone(config, Engine::EspeakNg)?;
        Arc::new(WithStandIn::new(first, second, Engine::EspeakNg.name(), PHRASES_BYTES_MAX))
    } else {
        Arc::new(Phrases::new(first, PHRASES_BYTES_MAX))
    })
}

/// An engine by itself.
fn alone(config: &Config, engine: Engine) -> Result<Arc<dyn Synthesiser>, ServiceSetupError> {
    let Speech { program, piper, command, .. } = &config.speech;
    Ok(match (engine, piper, command, &config.cloud.speech) {
        (Engine::Piper, Some(piper), ..) => Arc::new(Piper::new(piper, !config.speech.stand_in())),
        (Engine::Command, _, Some(command), _) => Arc::new(CommandEngine::new(command)),
        (Engine::Http, .., Some(service)) => Arc::new(SpeechService::new(service)?),
        // An engine without its table is an error of the configuration, and no box starts with it.
        _ => Arc::new(EspeakNg::new(program)),
    })
}

/// How espeak-ng, or a command that takes it, is to speak `language`.
pub(super) fn voice(config: &Config, language: Language) -> Voice {
    let name = config.speech.voices.of(language).map(Into::into);
    Voice { name, words_per_minute: config.speech.words_per_minute, ..Voice::default() }
}

/// The languages that the box is sure to speak: its own, and those that the engine was given a voice for.
pub(super) fn languages(config: &Config) -> Vec<Language> {
    let speech = &config.speech;
    let has_voice = |language: Language| match speech.engine {
        Engine::EspeakNg => speech.voices.of(language).is_some(),
        Engine::Piper => speech.piper.as_ref().is_some_and(|piper| piper.models.of(language).is_some()),
        Engine::Command => speech.command.as_ref().is_some_and(|command| command.voices.of(language).is_some()),
        Engine::Http => config.cloud.speech.as_ref().is_some_and(|service| service.voices.of(language).is_some()),
    };
    let own = config.this_box.language;
    std::iter::once(own).chain([Language::Es, Language::En].into_iter().filter(|other| *other != own && has_voice(*other))).collect()
}

/// Has at hand what every call needs at once, so that the first caller does not wait for it, and so that an engine that does not work, or lacks a
/// voice that is wanted, is known before. A language that it does not speak is looked at until it does, with pauses that double from `pause` on:
/// nobody has to call for that to be seen, and whoever calls then hears it from the first word. Runs until it is dropped.
pub(super) async fn keep_ready(speaker: Arc<Speaker>, languages: Vec<Language>, texts: Vec<String>, pause: Duration) {
    let own = languages.first().copied();
    let render = async |language| {
        let texts = texts.iter().filter(|_| own == Some(language)).map(String::as_str);
        for text in std::iter::once(PROBE).chain(texts) {
            // What is wrong is known to the speaker.
            if speaker.warm_up(text, language).await.is_err() {
                return;
            }
        }
    };
    for language in languages {
        render(language).await;
    }
    let mut state = speaker.state();
    while state.wait_for(|state| !state.engine.is_empty()).await.is_ok() {
        let mut wait = pause;
        loop {
            tokio::time::sleep(wait).await;
            let missed: Vec<Language> = state.borrow().engine.keys().copied().collect();
            for language in missed {
                if speaker.look(PROBE, language).await.is_ok() {
                    render(language).await;
                }
            }
            if state.borrow().engine.is_empty() {
                break;
            }
            wait = (wait * 2).min(pause * PAUSE_GROWS_MAX);
        }
    }
}

/// Whether an engine answers.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// The engine, by its name in a configuration.
    pub engine: &'static str,
    /// How long it took to speak a word (ms); none where it did not.
    pub ms: Option<u64>,
    /// Why it did not.
    pub problem: Option<String>,
    /// Why it could not be asked, which says nothing about it.
    pub unasked: Option<String>,
}

impl Answer {
    /// That it could not be asked, and why.
    pub(super) fn unasked(&self) -> Option<String> {
        let why = self.unasked.as_ref()?;
        Some(format!("The speech engine {} could not be asked ({why})", self.engine))
    }
}

/// Asks the engine, and the one that stands in for it, for a word, each for itself.
pub(super) async fn ask(config: &Config) -> Vec<Answer> {
    let speech = &config.speech;
    let engines = std::iter::once(speech.engine).chain(speech.stand_in().then_some(Engine::EspeakNg));
    let mut answers = Vec::new();
    for engine in engines {
        let began = Instant::now();
        // Whoever asks has the time to wait for a voice to be loaded.
        let patient = Config { speech: Speech { fallback: Some(Fallback::None), ..speech.clone() }, ..config.clone() };
        let (mut problem, mut unasked) = (None, None);
        match alone(&patient, engine) {
            Ok(asked) => problem = speak_a_word(&*asked, config).await.err().map(|error| error.to_string()),
            // It may be given to the box alone, as systemd gives it.
            Err(error @ ServiceSetupError::Key { error: SecretError::Missing { .. } | SecretError::Unreadable { .. }, .. }) => {
                unasked = Some(error.to_string());
            }
            Err(error) => problem = Some(error.to_string()),
        }
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let spoke = problem.is_none() && unasked.is_none();
        answers.push(Answer { engine: engine.name(), ms: spoke.then_some(ms), problem, unasked });
    }
    answers
}

async fn speak_a_word(engine: &dyn Synthesiser, config: &Config) -> Result<(), SpeechError> {
    let language = config.this_box.language;
    let utterance = Utterance { voice: voice(config, language), ..Utterance::new(PROBE, language) };
    engine.synthesise(&utterance).await.map(drop)
}

/// A word in any language: its audio is thrown away.
const PROBE: &str = "a";

/// The first pause between two looks at an engine that does not work.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// So much longer they become: about a minute.
const PAUSE_GROWS_MAX: u32 = 64;

/// Rendered phrases kept in memory, for each engine: about four minutes of speech.
const PHRASES_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::app::until;
    use crate::surface::speech::{SpeechAudio, Synthesis};

    /// An engine that notes what it has spoken, while it works.
    #[derive(Default)]
    struct Switched {
        works: AtomicBool,
        spoke: Mutex<Vec<String>>,
    }

    impl Synthesiser for Switched {
        fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
            Box::pin(async {
                if !self.works.load(Ordering::Relaxed) {
                    return Err(SpeechError::Silent);
                }
                self.spoke.lock().unwrap().push(utterance.text.to_string());
                Ok(SpeechAudio::from_recording(utterance.text.clone(), [3_000, -3_000].repeat(800).into()))
            })
        }
    }

    #[tokio::test]
    async fn an_engine_that_works_again_is_taken_up_and_has_at_hand_what_calls_need_without_a_call() {
        for stood_in_for in [false, true] {
            let engine = Arc::new(Switched::default());
            let first: Arc<dyn Synthesiser> = engine.clone();
            let second = Arc::new(Switched { works: true.into(), ..Switched::default() });
            let speaks: Arc<dyn Synthesiser> = match stood_in_for {
                true => Arc::new(WithStandIn::new(first, second.clone(), "second", PHRASES_BYTES_MAX)),
                false => Arc::new(Phrases::new(first, PHRASES_BYTES_MAX)),
            };
            let speaker = Arc::new(Speaker::new(speaks, BTreeMap::new(), BTreeMap::new()));
            let state = speaker.state();
            let texts = vec!["Enseguida.".to_owned()];
            let kept = tokio::spawn(keep_ready(speaker.clone(), vec![Language::Es], texts.clone(), Duration::from_millis(1)));
            until(|| !state.borrow().engine.is_empty()).await;
            if stood_in_for {
                until(|| *second.spoke.lock().unwrap() == [PROBE, texts[0].as_str()]).await;
            }
            engine.works.store(true, Ordering::Relaxed);
            until(|| engine.spoke.lock().unwrap().contains(&texts[0])).await;
            until(|| state.borrow().engine.is_empty()).await;
            // It fails later, and works again, while nobody speaks.
            engine.works.store(false, Ordering::Relaxed);
            let _ = speaker.warm_up("Otra cosa.", Language::Es).await;
            assert!(!state.borrow().engine.is_empty());
            // What is at hand proves nothing.
            let _ = speaker.warm_up(&texts[0], Language::Es).await;
            assert!(!state.borrow().engine.is_empty());
            engine.works.store(true, Ordering::Relaxed);
            until(|| state.borrow().engine.is_empty()).await;
            kept.abort();
        }
    }
}
