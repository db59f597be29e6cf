//! One engine that speaks as long as it works, and another that stands in for it.
//!
//! A clause that the first does not speak is spoken by the second, once: no clause is lost, none said twice. After that the second speaks
//! at once, and the first is tried with a clause of which nobody waits for its audio: an engine that is away costs the time of one clause, not of each.
//! When it speaks again, it has the next clause.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::SpeechError;
use super::phrases::Phrases;
use super::port::{SpeechAudio, Synthesis, Synthesiser, Utterance};

/// An engine and the one that stands in for it, each with what it has spoken before.
pub struct WithStandIn {
    shared: Arc<Shared>,
    second: Phrases<Arc<dyn Synthesiser>>,
    second_name: &'static str,
}

struct Shared {
    first: Phrases<Arc<dyn Synthesiser>>,
    standing: Mutex<Standing>,
}

/// How the first engine is.
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

enum Turn {
    First,
    Second { try_first: bool },
}

impl WithStandIn {
    /// `first` as long as it works, and otherwise `second`, which people know by this name. Of what each has spoken, `bytes_max` bytes are kept.
    pub fn new(first: Arc<dyn Synthesiser>, second: Arc<dyn Synthesiser>, second_name: &'static str, bytes_max: usize) -> Self {
        let shared = Shared { first: Phrases::new(first, bytes_max), standing: Mutex::default() };
        Self { shared: Arc::new(shared), second: Phrases::new(second, bytes_max), second_name }
    }

    async fn speak(&self, utterance: &Utterance) -> Result<SpeechAudio, SpeechError> {
        match self.shared.turn() {
            Turn::First => {}
            Turn::Second { try_first } => {
                if try_first {
                    self.try_first(utterance.clone());
                }
                return self.second.synthesise(utterance).await;
            }
        }
        if let Some(audio) = self.shared.first.find(utterance) {
            return Ok(audio);
        }
        let began = Instant::now();
        match self.shared.first.synthesise(utterance).await {
            Ok(audio) => {
                self.shared.works_since(began);
                Ok(audio)
            }
            // The text is to blame, whoever reads it.
            Err(error @ (SpeechError::NothingToSay | SpeechError::TextTooLong { .. })) => Err(error),
            Err(error) => {
                self.shared.failed(&error);
                self.second.synthesise(utterance).await
            }
        }
    }

    /// Tries whether the first engine speaks again. Nobody waits for it.
    fn try_first(&self, utterance: Utterance) {
        let trial = Trial(Arc::clone(&self.shared));
        tokio::spawn(async move {
            let began = Instant::now();
            // Not what it has spoken before: that would prove nothing.
            match trial.0.first.engine().synthesise(&utterance).await {
                Ok(_) => trial.0.works_since(began),
                Err(error) => trial.0.failed(&error),
            }
        });
    }
}

impl Synthesiser for WithStandIn {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        Box::pin(self.speak(utterance))
    }

    fn impaired(&self) -> Option<String> {
        let problem = self.shared.lock().problem.clone()?;
        Some(format!("{problem}; until it works, {} speaks", self.second_name))
    }
}

impl Shared {
    /// Whose turn it is.
    fn turn(&self) -> Turn {
        let mut standing = self.lock();
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
    fn works_since(&self, began: Instant) {
        let mut standing = self.lock();
        if standing.failed_at.is_some_and(|failed_at| failed_at > began) {
            return;
        }
        let is_tried = standing.is_tried;
        *standing = Standing { is_tried, ..Standing::default() };
    }

    fn failed(&self, error: &SpeechError) {
        // Of another language it may well have a voice.
        if matches!(error, SpeechError::NoVoiceFor { .. }) {
            return;
        }
        let mut standing = self.lock();
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
    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A try of the first engine, over when this is dropped.
struct Trial(Arc<Shared>);

impl Drop for Trial {
    fn drop(&mut self) {
        self.0.lock().is_tried = false;
    }
}

/// A hiccup is over by the next sentence.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Up to 32 s: a service that is back is noticed in the call in which it comes back.
const DOUBLINGS_MAX: u32 = 5;
/// A service that asks for more is asked again all the same: it may not mean it.
const ASKED_MAX: Duration = Duration::from_secs(300);
