//! `recado cloud test`: a short conversation with the speech model or the cascade that is configured, which shows what works, how long it
//! takes, and what mends what does not. It costs a few hundred tokens; no call is involved.

mod audio;
mod cascade;
mod report;
mod talk;
mod words;

use std::fmt::Display;
use std::io;

use self::audio::{coded, spoken};
pub use self::cascade::CascadeReport;
use self::cascade::Trial;
pub use self::report::TalkReport;
use self::talk::Talk;
use super::cloud_audio::speech_format;
use crate::cognition::models::cascade::http::{Language, Transcription};
use crate::cognition::models::cascade::session as cascade_session;
use crate::cognition::models::realtime::session::Setup;
use crate::cognition::models::transport::{Endpoint, TransportError};
use crate::config::{Config, LanguageService, ModelKind, Realtime, SILENT_MS_MOST, TranscriptionService};
use crate::outward::HttpServiceError;
use crate::surface::media::resample::ResampleError;
use crate::surface::speech::SpeechError;

/// Why a cloud service can't even be tried.
#[derive(Debug, thiserror::Error)]
pub enum CloudTestError {
    /// None is configured: write a table `[cloud.realtime]`, or those of a cascade.
    #[error(
        "no service is configured: write a table [cloud.realtime] with its url, its model and a key_file, or [cloud.transcription] and [cloud.language]"
    )]
    NotConfigured,
    /// Calls are led by a service of a protocol that this does not speak: a box that runs shows whether it can be reached.
    #[error(
        "{table}: a service of this kind is not tried out here: start the box (recado run), and /health says whether it can be reached"
    )]
    NotTried {
        /// The table of the configuration that names it.
        table: &'static str,
    },
    /// What is configured can't be used: correct what is named.
    #[error(transparent)]
    Endpoint(#[from] TransportError),
    /// A part of a cascade can't be used as it is configured: correct what is named.
    #[error(transparent)]
    Part(#[from] HttpServiceError),
    /// The tool that is offered can't be described, which is a fault in this program.
    #[error("the tool that is offered can't be described: {0}")]
    Tool(String),
    /// The sentence can't be spoken: the speech engine says why.
    #[error("the sentence that the service would hear can't be spoken: {0}")]
    Speech(#[from] SpeechError),
    /// The sentence can't be brought to the service's format: set another `cloud.realtime.format`.
    #[error("cloud.realtime.format: {0}; write instead: format = \"pcmu\"")]
    Format(#[from] ResampleError),
    /// The system gives no threads.
    #[error("no threads can be started: {0}")]
    System(#[from] io::Error),
}

/// What came of what was tried.
#[derive(Debug)]
pub enum CloudReport {
    /// A talk with a speech model.
    Talk(Box<TalkReport>),
    /// A cascade.
    Cascade(CascadeReport),
}

impl CloudReport {
    /// Whether all of it works.
    pub fn is_well(&self) -> bool {
        match self {
            Self::Talk(report) => report.is_well(),
            Self::Cascade(report) => report.is_well(),
        }
    }

    /// The report for people, in the box's language.
    pub fn text(&self) -> String {
        match self {
            Self::Talk(report) => report.text(),
            Self::Cascade(report) => report.text(),
        }
    }
}

/// Talks with the service that `config` names, and says how that went: the cascade where that leads calls, or where there is nothing else.
///
/// # Errors
/// When it can't be tried. A service that does not work is no error, but in the report.
pub fn cloud_test(config: &Config) -> Result<CloudReport, CloudTestError> {
    let parts = config.cloud.transcription.as_ref().zip(config.cloud.language.as_ref());
    match (&config.cloud.realtime, parts) {
        (Some(service), parts) if config.model.kind != ModelKind::Cascade || parts.is_none() => {
            talk(config, service).map(|report| CloudReport::Talk(Box::new(report)))
        }
        (_, Some((transcription, language))) => try_cascade(config, transcription, language).map(CloudReport::Cascade),
        _ => Err(match config.model.kind {
            ModelKind::Live if config.cloud.live.is_some() => CloudTestError::NotTried { table: "cloud.live" },
            ModelKind::Gemini if config.cloud.gemini.is_some() => CloudTestError::NotTried { table: "cloud.gemini" },
            _ => CloudTestError::NotConfigured,
        }),
    }
}

fn described(error: &dyn Display) -> CloudTestError {
    CloudTestError::Tool(error.to_string())
}

fn talk(config: &Config, service: &Realtime) -> Result<TalkReport, CloudTestError> {
    let spoken_language = service.language.unwrap_or(config.this_box.language);
    let endpoint = Endpoint::new(service)?;
    let tool = words::tool().map_err(|error| described(&error))?;
    let setup = Setup::new(service, spoken_language, words::instructions(spoken_language), &[tool]).map_err(|error| described(&error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let host = endpoint.host();
    let talked = runtime.block_on(async {
        let sentence = coded(config, spoken_language, words::sentence(spoken_language), speech_format(service.format)).await?;
        Ok::<_, CloudTestError>(Talk::new(endpoint, setup, service, sentence).hold().await)
    })?;
    Ok(TalkReport { host, model: service.model.clone(), language: config.this_box.language, talked })
}

fn try_cascade(config: &Config, hears: &TranscriptionService, answers: &LanguageService) -> Result<CascadeReport, CloudTestError> {
    let language = config.this_box.language;
    let (transcription, model) = (Transcription::new(hears, language)?, Language::new(answers)?);
    let tool = words::tool().map_err(|error| described(&error))?;
    let told = words::instructions(language);
    let setup = cascade_session::Setup::new(language, told, &[tool], false, SILENT_MS_MOST).map_err(|error| described(&error))?;
    let subject = cascade::subject(language, (&hears.model, transcription.endpoint()), (&answers.model, model.endpoint()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let sentence = spoken(config, language, words::sentence(language)).await?;
        let trial = Trial { transcription: &transcription, language_model: &model, setup: &setup, language };
        Ok(trial.run(subject, &sentence).await)
    })
}
