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

use self::audio::{coded, spoken};
pub use self::cascade::CascadeReport;
use self::cascade::Trial;
use self::kind::{Kind, Tried};
pub use self::report::TalkReport;
use self::report::Verdict;
use self::talk::{Manner, Talk};
use super::cloud_audio::speech_format;
use super::live_model::live_format;
use crate::cognition::models::cascade::http::{EndpointError, Language, Transcription};
use crate::cognition::models::cascade::session as cascade_session;
use crate::cognition::models::gemini::wire::INPUT_HZ;
use crate::cognition::models::transport::{Endpoint, TransportError};
use crate::cognition::models::{AudioFormat, gemini, live, realtime};
use crate::config::{Config, Gemini, LanguageService, Live, ModelKind, Realtime, TranscriptionService, TurnDetection};
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
    Part(#[from] EndpointError),
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
        ModelKind::Realtime => talked(try_realtime(config, cloud.realtime.as_ref()?)),
        ModelKind::Live => talked(try_live(config, cloud.live.as_ref()?)),
        ModelKind::Gemini => talked(try_gemini(config, cloud.gemini.as_ref()?)),
        ModelKind::Cascade => {
            let (transcription, language) = cloud.transcription.as_ref().zip(cloud.language.as_ref())?;
            try_cascade(config, transcription, language).map(CloudReport::Cascade)
        }
    })
}

fn described(error: &dyn Display) -> CloudTestError {
    CloudTestError::Tool(error.to_string())
}

fn try_realtime(config: &Config, service: &Realtime) -> Result<TalkReport, CloudTestError> {
    let manner = Manner {
        language: service.language.unwrap_or(config.this_box.language),
        connect_timeout_ms: service.connect_timeout_ms,
        answer_timeout_ms: service.answer_timeout_ms,
        service_detects: service.turn_detection != TurnDetection::None,
    };
    let tool = words::tool(false).map_err(|error| described(&error))?;
    let told = words::instructions(manner.language, false);
    let setup = realtime::session::Setup::new(service, manner.language, told, &[tool]).map_err(|error| described(&error))?;
    let session = realtime::session::Session::new(setup);
    let subject = Subject { kind: Kind::Realtime, model: &service.model };
    talk(config, Endpoint::new(service)?, session, manner, subject, speech_format(service.format))
}

fn try_live(config: &Config, service: &Live) -> Result<TalkReport, CloudTestError> {
    let manner = Manner {
        language: service.language.unwrap_or(config.this_box.language),
        connect_timeout_ms: service.connect_timeout_ms,
        answer_timeout_ms: service.answer_timeout_ms,
        service_detects: false,
    };
    let tool = words::tool(true).map_err(|error| described(&error))?;
    let told = words::instructions(manner.language, true);
    // What is delegated here is for no tool of the box's.
    let offered = Live { delegate_tool: None, delegate_parameter: None, ..service.clone() };
    let setup = live::session::Setup::new(&offered, manner.language, &told, &[tool]).map_err(|error| described(&error))?;
    let session = live::session::Session::new(setup, None);
    let subject = Subject { kind: Kind::Live, model: &service.model };
    talk(config, Endpoint::new(service)?, session, manner, subject, live_format(service.format))
}

fn try_gemini(config: &Config, service: &Gemini) -> Result<TalkReport, CloudTestError> {
    let manner = Manner {
        language: service.language.unwrap_or(config.this_box.language),
        connect_timeout_ms: service.connect_timeout_ms,
        answer_timeout_ms: service.answer_timeout_ms,
        service_detects: false,
    };
    let tool = words::tool(false).map_err(|error| described(&error))?;
    let told = words::instructions(manner.language, false);
    let setup = gemini::session::Setup::new(service, told, &[tool]).map_err(|error| described(&error))?;
    let session = gemini::session::Session::new(setup);
    let subject = Subject { kind: Kind::Gemini(service.calls), model: &service.model };
    talk(config, Endpoint::new(service)?, session, manner, subject, AudioFormat::Linear16 { rate_hz: INPUT_HZ })
}

/// Who is talked with.
struct Subject<'a> {
    kind: Kind,
    model: &'a str,
}

fn talk<S: Tried>(
    config: &Config,
    endpoint: Endpoint,
    session: S,
    manner: Manner,
    subject: Subject<'_>,
    format: AudioFormat,
) -> Result<TalkReport, CloudTestError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let host = endpoint.host();
    let talked = runtime.block_on(async {
        let sentence = coded(config, manner.language, words::sentence(manner.language), format).await?;
        Ok::<_, CloudTestError>(Talk::new(endpoint, session, manner, sentence).hold().await)
    })?;
    Ok(TalkReport { kind: subject.kind, host, model: subject.model.to_owned(), language: config.this_box.language, talked })
}

fn try_cascade(config: &Config, hears: &TranscriptionService, answers: &LanguageService) -> Result<CascadeReport, CloudTestError> {
    let language = config.this_box.language;
    let (transcription, model) = (Transcription::new(hears, language)?, Language::new(answers)?);
    let tool = words::tool(false).map_err(|error| described(&error))?;
    let told = words::instructions(language, false);
    let setup = cascade_session::Setup::new(language, told, &[tool], false).map_err(|error| described(&error))?;
    let subject = cascade::subject(language, (&hears.model, transcription.endpoint()), (&answers.model, model.endpoint()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let sentence = spoken(config, language, words::sentence(language)).await?;
        let trial = Trial { transcription: &transcription, language_model: &model, setup: &setup, language };
        Ok(trial.run(subject, &sentence).await)
    })
}
