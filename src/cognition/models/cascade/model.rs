//! A cascade as the model of calls.

use std::fmt::Debug;
use std::sync::Arc;

use tracing::{Instrument, Span};

use super::session::{Part, Setup};
use super::task::{Parts, Task};
use crate::cognition::language::http::{Language, Transcription};
use crate::cognition::models::Usage;
use crate::cognition::models::audio::caller_audio;
use crate::cognition::models::port::{Availability, Capabilities, Model, ModelSession, Opening, OutputKind};
use crate::cognition::tools::ToolError;
use crate::config::{Config, LanguageService, SILENT_MS_MOST, TranscriptionService};
use crate::outward::ServiceSetupError;

/// The services of `[cloud.transcription]` and `[cloud.language]`, which lead calls together.
#[derive(Debug, Clone)]
pub struct Cascade(Arc<Parts>);

/// Who wants to know how the parts stand, and what calls take of them.
pub trait Observer: Debug + Send + Sync {
    /// A call has found how a part stands.
    fn stands(&self, part: Part, availability: &Availability);

    /// How it stands, as far as anybody has found.
    fn known(&self, part: Part) -> Availability;

    /// A call is over, and has taken this of a part.
    fn took(&self, part: Part, usage: &Usage);
}

/// Why calls can't be led by the services that are configured.
#[derive(Debug, thiserror::Error)]
pub enum CascadeError {
    /// A part is not configured: write its table.
    #[error("model.kind: the cascade has no part for {0}: write a table [cloud.{0}] with its url, its model and a key_file")]
    NotConfigured(&'static str),
    /// What is configured can't be used: correct what is named.
    #[error(transparent)]
    Endpoint(#[from] ServiceSetupError),
    /// A tool can't be offered to the model: correct what is named.
    #[error(transparent)]
    Tool(#[from] ToolError),
}

impl Cascade {
    /// A model for the calls of a box with this configuration, which is told `instructions`. Nothing is connected to before there is a call.
    /// What its calls find out of the parts, `observer` is told.
    ///
    /// # Errors
    /// What of the configuration can't be used.
    pub fn new(config: &Config, instructions: String, observer: Option<Arc<dyn Observer>>) -> Result<Self, CascadeError> {
        let transcription = config.cloud.transcription.as_ref().ok_or(CascadeError::NotConfigured("transcription"))?;
        let service = config.cloud.language.as_ref().ok_or(CascadeError::NotConfigured("language"))?;
        let language = config.this_box.language;
        // Where a dialogue stands by, a service that can't be connected to is waited for as briefly as any other one.
        let connects_within = if config.standby.enabled { config.standby.takeover_ms } else { u64::MAX };
        let bounded = |ms: u64| ms.min(connects_within);
        let transcription =
            &TranscriptionService { connect_timeout_ms: bounded(transcription.connect_timeout_ms), ..transcription.clone() };
        let service = &LanguageService { connect_timeout_ms: bounded(service.connect_timeout_ms), ..service.clone() };
        Ok(Self(Arc::new(Parts {
            transcription: Transcription::new(transcription, language)?,
            language: Language::new(service)?,
            setup: Arc::new(Setup::new(
                language,
                instructions,
                &config.tools,
                config.identity.pins_file.is_some(),
                service.speculate,
                patience_ms(config),
            )?),
            observer,
        })))
    }

    /// Whether a part can be asked, without asking for anything that is charged for.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn look(&self, part: Part) -> impl Future<Output = Result<(), String>> + Send + use<> {
        let parts = Arc::clone(&self.0);
        async move { parts.look(part).await.map_err(|fault| fault.reason) }
    }
}

impl Model for Cascade {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            output: OutputKind::Text,
            hears_audio: true,
            owns_turns: false,
            cancel: true,
            truncate: true,
            silence_after_ms: None,
        }
    }

    fn open(&self, _opening: Opening) -> ModelSession {
        let (heard, hears) = caller_audio();
        let (session, commands, said) = ModelSession::new(Some(heard));
        let (task, came) = Task::new(Arc::clone(&self.0));
        // What it logs is about the call that it is opened for.
        tokio::spawn(task.run(came, commands, hears, said).instrument(Span::current()));
        session
    }
}

/// How long a caller waits for an answer (ms): until the dialogue that stands by answers, or else a little less than the conversation
/// waits, which then says that there is none.
fn patience_ms(config: &Config) -> u64 {
    if config.standby.enabled { config.standby.silent_ms } else { SILENT_MS_MOST }
}
