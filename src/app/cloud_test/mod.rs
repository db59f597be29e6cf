//! `recado cloud test`: a short conversation with the speech model that is configured, which shows what works, how long it takes, and
//! what mends what does not. It costs a few hundred tokens; no call is involved.

mod audio;
mod report;
mod talk;
mod words;

use std::fmt::Display;
use std::io;

use self::audio::spoken;
pub use self::report::CloudReport;
use self::talk::Talk;
use super::cloud_audio::speech_format;
use crate::cognition::models::realtime::session::Setup;
use crate::cognition::models::transport::{Endpoint, TransportError};
use crate::config::Config;
use crate::surface::media::resample::ResampleError;
use crate::surface::speech::SpeechError;

/// Why a cloud service can't even be tried.
#[derive(Debug, thiserror::Error)]
pub enum CloudTestError {
    /// None is configured: write a table `[cloud.realtime]`.
    #[error("no service is configured: write a table [cloud.realtime] with its url, its model and a key_file")]
    NotConfigured,
    /// What is configured can't be used: correct what is named.
    #[error(transparent)]
    Endpoint(#[from] TransportError),
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

/// Talks with the service that `config` names, and says how that went.
///
/// # Errors
/// When it can't be tried. A service that does not work is no error, but in the report.
pub fn cloud_test(config: &Config) -> Result<CloudReport, CloudTestError> {
    let service = config.cloud.realtime.as_ref().ok_or(CloudTestError::NotConfigured)?;
    let spoken_language = service.language.unwrap_or(config.this_box.language);
    let endpoint = Endpoint::new(service)?;
    let described = |error: &dyn Display| CloudTestError::Tool(error.to_string());
    let tool = words::tool().map_err(|error| described(&error))?;
    let setup = Setup::new(service, spoken_language, words::instructions(spoken_language), &[tool]).map_err(|error| described(&error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let host = endpoint.host();
    let talked = runtime.block_on(async {
        let sentence = spoken(config, spoken_language, words::sentence(spoken_language), speech_format(service.format)).await?;
        Ok::<_, CloudTestError>(Talk::new(endpoint, setup, service, sentence).hold().await)
    })?;
    Ok(CloudReport { host, model: service.model.clone(), language: config.this_box.language, talked })
}
