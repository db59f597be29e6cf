//! A speech model in a network as the model of calls: one session of the Gemini Live protocol for each call.

use std::sync::Arc;

use tracing::{debug, info, warn};

use super::cloud_audio::Coder;
use super::services::{Service, Services};
use super::speech_model::{self, SpeechModelError, SpeechSession};
use crate::cognition::models::gemini::session::{Said, Session, Setup};
use crate::cognition::models::gemini::wire::{INPUT_HZ, OUTPUT_HZ};
use crate::cognition::models::gemini::{Told, Totals};
use crate::cognition::models::transport::Endpoint;
use crate::cognition::models::{AudioFormat, Capabilities, Command, Model, ModelSession, Opening, Output, OutputKind, Usage, instructions};
use crate::config::Config;

/// The service of `[cloud.gemini]`, which leads calls.
#[derive(Debug, Clone)]
pub struct GeminiModel {
    endpoint: Endpoint,
    setup: Arc<Setup>,
    coder: Coder,
    services: Services,
}

impl GeminiModel {
    /// A model for the calls of a box with this configuration. Nothing is connected to before there is a call.
    ///
    /// # Errors
    /// What of the configuration can't be used.
    pub fn new(config: &Config) -> Result<Self, SpeechModelError> {
        let service = config.cloud.gemini.as_ref().ok_or(SpeechModelError::NotConfigured { table: "cloud.gemini" })?;
        let endpoint = Endpoint::new(service)?;
        let language = service.language.unwrap_or(config.this_box.language);
        let instructions = config.model.instructions.clone().unwrap_or_else(|| instructions(language).to_owned());
        let setup = Setup::new(service, instructions, &config.tools)?;
        let coder = Coder::new(AudioFormat::Linear16 { rate_hz: INPUT_HZ })?;
        Ok(Self { endpoint, setup: Arc::new(setup), coder, services: Services::priced(service.prices.clone()) })
    }

    /// The service, as it stands.
    pub(super) fn service(&self) -> Service {
        let (endpoint, setup) = (self.endpoint.clone(), Arc::clone(&self.setup));
        let look = move || speech_model::look(endpoint.clone(), Session::new(Arc::clone(&setup)));
        Service::new("cloud.gemini", self.services.clone(), look)
    }
}

impl Model for GeminiModel {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            output: OutputKind::Audio(AudioFormat::Linear16 { rate_hz: OUTPUT_HZ }),
            hears_audio: true,
            // The box says where the caller begins and ends.
            owns_turns: false,
            // What comes late of a cancelled response is dropped, and the model is told in words what of it was heard.
            cancel: true,
            truncate: true,
            silence_after_ms: None,
        }
    }

    fn open(&self, _opening: Opening) -> ModelSession {
        speech_model::open(self.endpoint.clone(), Session::new(Arc::clone(&self.setup)), self.coder.clone(), self.services.clone())
    }
}

impl SpeechSession for Session {
    fn command(command: Command) -> Told {
        Told::Command(command)
    }

    fn caller(bytes: Vec<u8>) -> Told {
        Told::Caller(bytes)
    }

    fn refusal(said: &Said) -> Option<String> {
        match said {
            Said::Refused(says) => Some(says.clone()),
            _ => None,
        }
    }

    fn output(said: Said) -> Option<Output> {
        match said {
            Said::Output(output) => return Some(output),
            Said::Ready { resumed } => debug!(resumed, "the speech model is ready"),
            Said::Refused(says) => warn!(says, "the speech model's service refuses the session"),
            Said::Cancelled { response } => debug!(response_id = %response, "a response is cancelled"),
            Said::Trouble(says) => warn!(says, "the speech model's service complains"),
        }
        None
    }

    fn charged(totals: &Totals) -> Usage {
        totals.usage
    }

    fn log_end(totals: &Totals, frames_lost: u64) {
        let Totals { usage, unasked, calls_cancelled } = totals;
        let cached_tokens = usage.cached_text.saturating_add(usage.cached_audio);
        info!(
            input_tokens = usage.input_text.saturating_add(usage.input_audio).saturating_add(cached_tokens),
            output_tokens = usage.output_text.saturating_add(usage.output_audio),
            cached_tokens,
            unasked,
            calls_cancelled,
            frames_lost,
            "the speech model's session has ended"
        );
    }
}
