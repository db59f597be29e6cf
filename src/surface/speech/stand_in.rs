//! One engine that speaks as long as it works, and another that stands in for it.
//!
//! A clause that the first does not speak is spoken by the second, once: no clause is lost, none said twice. After that the second speaks
//! at once, and the first is tried with a clause of which nobody waits for its audio: an engine that is away costs the time of one clause, not of each.
//! When it speaks again, it has the next reply: a reply that the second has begun to speak is not given back. A language is a matter of its own: an
//! engine may have a process, a voice or a service for each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recado_core::policy::Language;
use tokio::time::Instant;

use super::error::SpeechError;
use super::phrases::Phrases;
use super::port::{SpeechAudio, Synthesis, Synthesiser, Utterance};

/// An engine and the one that stands in for it, each with what it has spoken before.
#[derive(Clone)]
pub struct WithStandIn(Arc<Shared>);

struct Shared {
    first: Phrases<Arc<dyn Synthesiser>>,
    second: Phrases<Arc<dyn Synthesiser>>,
    second_name: &'static str,
    standing: Mutex<BTreeMap<Language, Standing>>,
}

/// What speaks one reply: in one voice, as far as that can still be had.
struct Reply {
    engines: WithStandIn,
    /// Whether the second engine has spoken a part of it.
    second_has_it: AtomicBool,
}

/// How the first engine is in a language.
#[derive(Debug, Default)]
struct Standing {
    /// What is wrong with it, if anything.
    problem: Option<String>,
    /// Tries that have failed since it last spoke.
    failures: u32,
    failed_at: Option<Instant>,
    /// Before this it is not tried again.
    not_before: Option<Instant>,
    is_tried: bool,
}

#[derive(Clone, Copy)]
enum Turn {
    First,
    Second { try_first: bool },
}

impl WithStandIn {
    /// `first` as long as it works, and otherwise `second`, which people know by this name. Of what each has spoken, `bytes_max` bytes are kept.
    pub fn new(first: Arc<dyn Synthesiser>, second: Arc<dyn Synthesiser>, second_name: &'static str, bytes_max: usize) -> Self {
        let [first, second] = [first, second].map(|engine| Phrases::new(engine, bytes_max));
        Self(Arc::new(Shared { first, second, second_name, standing: Mutex::default() }))
    }

    fn one_reply(&self) -> Reply {
        Reply { engines: self.clone(), second_has_it: AtomicBool::new(false) }
    }

    /// A try whether the first engine speaks `language` again.
    fn trial(&self, language: Language) -> Trial {
        Trial { shared: Arc::clone(&self.0), language }
    }

    /// What comes of asking the first engine for `utterance`, unless it was asked a moment ago.
    async fn look(&self, utterance: &Utterance) -> Result<SpeechAudio, SpeechError> {
        let language = utterance.language;
        let known = || self.impaired(language).map(SpeechError::NotRunning);
        match self.0.turn(language) {
            Turn::Second { try_first: false } => Err(known().unwrap_or(SpeechError::Busy)),
            Turn::First | Turn::Second { try_first: true } => {
                self.trial(language).of(utterance).await.map_err(|error| known().unwrap_or(error))
            }
        }
    }
}

impl Reply {
    async fn speak(&self, utterance: &Utterance) -> Result<SpeechAudio, SpeechError> {
        let shared = &self.engines.0;
        let turn = shared.turn(utterance.language);
        if let Turn::Second { try_first: true } = turn {
            let (trial, utterance) = (self.engines.trial(utterance.language), utterance.clone());
            // Nobody waits for it.
            tokio::spawn(async move { trial.of(&utterance).await.map(drop) });
        }
        let spoken = match turn {
            Turn::First if !self.second_has_it.load(Ordering::Relaxed) => self.first_speaks(utterance).await?,
            Turn::First | Turn::Second { .. } => None,
        };
        match spoken {
            // A clause of the reply that was asked for at the same time may have gone to the second meanwhile.
            Some(audio) if !self.second_has_it.load(Ordering::Relaxed) => Ok(audio),
            _ => {
                self.second_has_it.store(true, Ordering::Relaxed);
                shared.second.synthesise(utterance).await
            }
        }
    }

    /// What the first engine makes of it; none where somebody else has to speak.
    async fn first_speaks(&self, utterance: &Utterance) -> Result<Option<SpeechAudio>, SpeechError> {
        let shared = &self.engines.0;
        if let Some(audio) = shared.first.find(utterance) {
            return Ok(Some(audio));
        }
        let began = Instant::now();
        match shared.first.synthesise(utterance).await {
            Ok(audio) => {
                shared.works_since(utterance.language, began);
                Ok(Some(audio))
            }
            // The text is to blame, whoever reads it.
            Err(error @ (SpeechError::NothingToSay | SpeechError::TextTooLong { .. })) => Err(error),
            Err(error) => {
                shared.failed(utterance.language, &error);
                Ok(None)
            }
        }
    }
}

impl Synthesiser for WithStandIn {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        Box::pin(async move { self.one_reply().speak(utterance).await })
    }

    fn ask_anew<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        Box::pin(self.look(utterance))
    }

    fn for_a_reply(&self) -> Option<Arc<dyn Synthesiser>> {
        Some(Arc::new(self.one_reply()))
    }

    fn impaired(&self, language: Language) -> Option<String> {
        let problem = self.0.lock().get(&language)?.problem.clone()?;
        Some(format!("{problem}; until it works, {} speaks", self.0.second_name))
    }
}

impl Synthesiser for Reply {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        Box::pin(self.speak(utterance))
    }

    fn impaired(&self, language: Language) -> Option<String> {
        self.engines.impaired(language)
    }
}

impl Shared {
    /// Whose turn it is.
    fn turn(&self, language: Language) -> Turn {
        let mut all = self.lock();
        let standing = all.entry(language).or_default();
        match standing.not_before {
            None => Turn::First,
            Some(not_before) => {
                let try_first = !standing.is_tried && Instant::now() >= not_before;
                standing.is_tried |= try_first;
                Turn::Second { try_first }
            }
        }
    }

    /// It has spoken what it was asked for at `began`; what has failed since counts for more.
    fn works_since(&self, language: Language, began: Instant) {
        let mut all = self.lock();
        let standing = all.entry(language).or_default();
        if standing.failed_at.is_some_and(|failed_at| failed_at > began) {
            return;
        }
        *standing = Standing { is_tried: standing.is_tried, ..Standing::default() };
    }

    fn failed(&self, language: Language, error: &SpeechError) {
        // A voice that it was never given is not missed, another text may well be spoken, and what waits for its turn here has not been asked for.
        use SpeechError::{AudioTooLong, Busy, NoVoiceFor, NothingToSay, TextTooLong};
        if matches!(error, NoVoiceFor { .. } | NothingToSay | TextTooLong { .. } | AudioTooLong { .. } | Busy) {
            return;
        }
        let mut all = self.lock();
        let standing = all.entry(language).or_default();
        let now = Instant::now();
        // Clauses that were asked for at the same time fail for the same reason.
        let is_news = standing.not_before.is_none_or(|not_before| now >= not_before);
        if is_news {
            standing.failures = standing.failures.saturating_add(1);
        }
        let doubled = FIRST_WAIT.saturating_mul(1 << (standing.failures - 1).min(DOUBLINGS_MAX));
        let wait = doubled.max(error.retry_after().unwrap_or_default().min(ASKED_MAX));
        let until = now + wait;
        standing.not_before = Some(standing.not_before.map_or(until, |known| known.max(until)));
        standing.problem = Some(error.to_string());
        standing.failed_at = Some(now);
    }

    /// Nothing that holds the lock can leave it half changed.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Language, Standing>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A try of the first engine in a language, over when this is dropped.
struct Trial {
    shared: Arc<Shared>,
    language: Language,
}

impl Trial {
    async fn of(self, utterance: &Utterance) -> Result<SpeechAudio, SpeechError> {
        let began = Instant::now();
        let audio = self.shared.first.ask_anew(utterance).await;
        match &audio {
            Ok(_) => self.shared.works_since(self.language, began),
            Err(error) => self.shared.failed(self.language, error),
        }
        audio
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.shared.lock().entry(self.language).or_default().is_tried = false;
    }
}

/// A hiccup is over by the next sentence.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Up to 32 s: a service that is back is noticed in the call in which it comes back.
const DOUBLINGS_MAX: u32 = 5;
/// A service that asks for more is asked again all the same: it may not mean it.
const ASKED_MAX: Duration = Duration::from_secs(300);
