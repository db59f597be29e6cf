//! What the box speaks with, as it is configured.

use std::sync::Arc;
use std::time::Instant;

use recado_core::policy::Language;
use serde::Serialize;

use crate::config::{Config, Engine, Fallback, SecretError, Speech};
use crate::surface::speech::command::CommandEngine;
use crate::surface::speech::espeak::EspeakNg;
use crate::surface::speech::http::{SpeechService, SpeechServiceError};
use crate::surface::speech::phrases::Phrases;
use crate::surface::speech::piper::Piper;
use crate::surface::speech::stand_in::WithStandIn;
use crate::surface::speech::{SpeechError, Synthesiser, Utterance, Voice};

/// The engine, with what it has spoken before, and with the one that stands in for it where there is one.
///
/// # Errors
/// What of a service can't be used as it is configured.
pub(super) fn engine(config: &Config) -> Result<Arc<dyn Synthesiser>, SpeechServiceError> {
    let first = alone(config, config.speech.engine)?;
    Ok(if config.speech.stand_in() {
        let second = alone(config, Engine::EspeakNg)?;
        Arc::new(WithStandIn::new(first, second, Engine::EspeakNg.name(), PHRASES_BYTES_MAX))
    } else {
        Arc::new(Phrases::new(first, PHRASES_BYTES_MAX))
    })
}

/// An engine by itself.
fn alone(config: &Config, engine: Engine) -> Result<Arc<dyn Synthesiser>, SpeechServiceError> {
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
            Err(error @ SpeechServiceError::Key(SecretError::Unreadable { .. })) => unasked = Some(error.to_string()),
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
pub(super) const PROBE: &str = "a";

/// Rendered phrases kept in memory, for each engine: about four minutes of speech.
const PHRASES_BYTES_MAX: usize = 4 << 20;
