//! Piper as a speech engine: a neural voice on the device, as a process that stays.
//!
//! A voice takes seconds to be loaded on a small board, and a clause less than it sounds: so there is one process for each language, which is given a
//! line and writes a WAV file (`--output_dir`, as both the program of the package `piper-tts` and the older one in C++ do). It is ended with
//! the engine, and by itself when the box is gone, for then its input ends. One that dies or hangs is replaced, less and less soon.

mod running;
mod scratch;
mod worker;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use recado_core::policy::Language;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

use self::worker::{Request, Standing, Worker};
use super::error::SpeechError;
use super::port::{SpeechAudio, Synthesis, Synthesiser, Utterance};
use super::text::{has_words, sayable};
use crate::config;

/// A process of Piper for each language that is spoken, from when it is first wanted.
#[derive(Debug)]
pub struct Piper {
    es: Option<Voice>,
    en: Option<Voice>,
    waits: bool,
}

/// A voice, and the process that has it once it is wanted.
#[derive(Debug)]
struct Voice {
    program: Arc<Loaded>,
    desk: OnceLock<Desk>,
}

/// With what a process is started.
#[derive(Debug)]
struct Loaded {
    program: PathBuf,
    model: PathBuf,
    speaker: Option<u32>,
    pace_percent: u16,
    load_timeout: Duration,
    timeout: Duration,
}

/// Where a voice is asked.
#[derive(Debug)]
struct Desk {
    requests: mpsc::Sender<Request>,
    standing: watch::Receiver<Standing>,
}

impl Piper {
    /// The engine that is configured. Where it `waits`, a clause is held up until its voice is loaded; otherwise that is an error, for
    /// somebody else is there to speak.
    pub fn new(piper: &config::Piper, waits: bool) -> Self {
        let voice = |language| {
            let program = Loaded {
                program: piper.program.clone(),
                model: piper.models.of(language)?.to_owned(),
                speaker: piper.speaker,
                pace_percent: piper.pace_percent,
                load_timeout: Duration::from_millis(piper.load_timeout_ms),
                timeout: Duration::from_millis(piper.timeout_ms),
            };
            Some(Voice { program: Arc::new(program), desk: OnceLock::new() })
        };
        Self { es: voice(Language::Es), en: voice(Language::En), waits }
    }

    async fn speak(&self, utterance: &Utterance) -> Result<SpeechAudio, SpeechError> {
        let text = sayable(utterance)?;
        // Of signs alone it makes nothing, and ends.
        if !has_words(&text) {
            return Err(SpeechError::NothingToSay);
        }
        let language = utterance.language;
        let voice = match language {
            Language::Es => &self.es,
            Language::En => &self.en,
        };
        let voice = voice.as_ref().ok_or(SpeechError::NoVoiceFor { engine: "piper", language, setting: "speech.piper.models" })?;
        let desk = voice.desk.get_or_init(|| Worker::start(Arc::clone(&voice.program)));
        let (answer, answered) = oneshot::channel();
        let refusal = if self.waits { None } else { desk.refusal(&voice.program) };
        if let Some(refusal) = refusal {
            // Nobody waits for it, but it is wanted.
            drop(answered);
            let _ = desk.requests.try_send(Request { text, answer });
            return Err(refusal);
        }
        let gone = || SpeechError::NotRunning("piper is not waited for any more".to_owned());
        desk.requests.try_send(Request { text, answer }).map_err(|error| match error {
            TrySendError::Full(_) => SpeechError::Busy,
            TrySendError::Closed(_) => gone(),
        })?;
        let samples = answered.await.map_err(|_| gone())??;
        SpeechAudio::of_words(Arc::clone(&utterance.text), samples)
    }
}

impl Synthesiser for Piper {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        Box::pin(self.speak(utterance))
    }
}

impl Desk {
    /// Why nothing can be said at once, if so.
    fn refusal(&self, program: &Loaded) -> Option<SpeechError> {
        match &*self.standing.borrow() {
            Standing::Ready => None,
            Standing::Loading => Some(SpeechError::Loading { model: program.model.clone() }),
            Standing::Down(problem) => Some(SpeechError::NotRunning(problem.clone())),
        }
    }
}
