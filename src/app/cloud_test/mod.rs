//! `recado cloud test`: a short conversation with the speech model or the cascade that is configured, which shows what works, how long it
//! takes, and what mends what does not. It costs a few hundred tokens; no call is involved.

mod audio;
mod cascade;
mod kind;
mod remedy;
mod report;
mod spanish;
mod talk;
mod words;

use std::fmt::Display;
use std::io;
use std::sync::Arc;

use self::audio::{coded, spoken};
pub use self::cascade::CascadeReport;
use self::cascade::Trial;
use self::kind::{Kind, Tried};
pub use self::report::TalkReport;
use self::report::{Step, Verdict};
use self::talk::{Manner, Talk};
use super::speech_model::SpeechModelError;
use crate::cognition::language::http::{Language, Transcription};
use crate::cognition::models::cascade::session as cascade_session;
use crate::cognition::models::transport::{Endpoint, TransportError};
use crate::cognition::models::{gemini, live, realtime};
use crate::config::{self, Config, LanguageService, Live, ModelKind, SILENT_MS_MOST, TranscriptionService, TurnDetection};
use crate::outward::ServiceSetupError;
use crate::surface::media::resample::ResampleError;
use crate::surface::speech::SpeechError;

/// Why a cloud service can't even be tried.
#[derive(Debug, thiserror::Error)]
pub enum CloudTestError {
    /// None is configured: write a table `[cloud.realtime]`, one of another protocol, or those of a cascade.
    #[error(
        "no service is configured: write a table [cloud.realtime], [cloud.live] or [cloud.gemini] with its url, its model and a key_file, or [cloud.transcription] and [cloud.language]"
    )]
    NotConfigured,
    /// What is configured can't be used: correct what is named.
    #[error(transparent)]
    Endpoint(#[from] TransportError),
    /// A part of a cascade can't be used as it is configured: correct what is named.
    #[error(transparent)]
    Part(#[from] ServiceSetupError),
    /// A session can't be set as it is configured: correct what is named.
    #[error(transparent)]
    Session(#[from] SpeechModelError),
    /// The tool that is offered can't be described, which is a fault in this program.
    #[error("the tool that is offered can't be described: {0}")]
    Tool(String),
    /// The sentence can't be spoken: the speech engine says why.
    #[error("the sentence that the service would hear can't be spoken: {0}")]
    Speech(#[from] SpeechError),
    /// The sentence can't be brought to the service's format: set another one.
    #[error("the format of the service: {0}; write instead: format = \"pcmu\"")]
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
    /// Whether all of it works that could be tried.
    pub fn is_well(&self) -> bool {
        match self {
            Self::Talk(report) => report.verdict() != Verdict::Unwell,
            Self::Cascade(report) => report.verdict() != Verdict::Unwell,
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

/// Tries the service that leads calls, or else the first that `config` names, and says how that went.
///
/// # Errors
/// When it can't be tried. A service that does not work is no error, but in the report.
pub fn cloud_test(config: &Config) -> Result<CloudReport, CloudTestError> {
    let leads = config.model.kind;
    let others = [ModelKind::Realtime, ModelKind::Cascade, ModelKind::Live, ModelKind::Gemini];
    let tried = std::iter::once(leads).chain(others).find_map(|kind| try_service(config, kind));
    tried.unwrap_or(Err(CloudTestError::NotConfigured))
}

/// Tries the service of this kind, where one is configured.
fn try_service(config: &Config, kind: ModelKind) -> Option<Result<CloudReport, CloudTestError>> {
    let cloud = &config.cloud;
    let talked = |talked: Result<TalkReport, CloudTestError>| talked.map(|report| CloudReport::Talk(Box::new(report)));
    Some(match kind {
        ModelKind::Scripted => return None,
        ModelKind::Realtime => {
            let service = cloud.realtime.as_ref()?;
            let detects = service.turn_detection != TurnDetection::None;
            talked(talk::<realtime::session::Session>(config, service, Kind::Realtime, detects))
        }
        ModelKind::Live => {
            // What is delegated here is for no tool of the box's.
            let service = Live { delegate_tool: None, delegate_parameter: None, ..cloud.live.clone()? };
            talked(talk::<live::session::Session>(config, &service, Kind::Live, false))
        }
        ModelKind::Gemini => {
            let service = cloud.gemini.as_ref()?;
            talked(talk::<gemini::session::Session>(config, service, Kind::Gemini(service.calls), false))
        }
        ModelKind::Cascade => {
            let (transcription, language) = cloud.transcription.as_ref().zip(cloud.language.as_ref())?;
            try_cascade(config, transcription, language).map(CloudReport::Cascade)
        }
    })
}

fn described(error: &dyn Display) -> CloudTestError {
    CloudTestError::Tool(error.to_string())
}

/// A talk with the service of this table.
fn talk<S: Tried>(config: &Config, table: &S::Table, kind: Kind, service_detects: bool) -> Result<TalkReport, CloudTestError>
where
    for<'a> config::SpeechModel<'a>: From<&'a S::Table>,
{
    let service = config::SpeechModel::from(table);
    let language = service.language.unwrap_or(config.this_box.language);
    let (connect_timeout_ms, answer_timeout_ms) = (service.connect_timeout_ms, service.answer_timeout_ms);
    let manner = Manner { language, connect_timeout_ms, answer_timeout_ms, service_detects };
    let model = service.endpoint.model.to_owned();
    let endpoint = Endpoint::new(service)?;
    let delegates = S::CALLS == Step::Delegate;
    let tool = words::tool(delegates).map_err(|error| described(&error))?;
    let setup = S::setup(table, language, words::instructions(language, delegates), &[tool], false)?;
    let session = S::begin(&Arc::new(setup));
    let host = endpoint.host();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let talked = runtime.block_on(async {
        let sentence = coded(config, language, words::sentence(language), S::hears(table)).await?;
        Ok::<_, CloudTestError>(Talk::new(endpoint, session, manner, sentence).hold().await)
    })?;
    Ok(TalkReport { kind, host, model, language: config.this_box.language, talked })
}

fn try_cascade(config: &Config, hears: &TranscriptionService, answers: &LanguageService) -> Result<CascadeReport, CloudTestError> {
    let language = config.this_box.language;
    let (transcription, model) = (Transcription::new(hears, language)?, Language::new(answers)?);
    let tool = words::tool(false).map_err(|error| described(&error))?;
    let told = words::instructions(language, false);
    let setup = cascade_session::Setup::new(language, told, &[tool], false, false, SILENT_MS_MOST).map_err(|error| described(&error))?;
    let subject = cascade::subject(language, (&hears.model, transcription.endpoint()), (&answers.model, model.endpoint()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let sentence = spoken(config, language, words::sentence(language)).await?;
        let trial = Trial { transcription: &transcription, language_model: &model, setup: &setup, language };
        Ok(trial.run(subject, &sentence).await)
    })
}
