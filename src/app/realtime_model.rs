//! A speech model in a network as the model of calls: one session of the Realtime protocol for each call.

use std::sync::Arc;

use tracing::{debug, info, warn};

use super::cloud_audio::{Coder, speech_format};
use super::services::{Service, Services};
use super::speech_model::{self, SpeechModelError, SpeechSession};
use crate::cognition::models::realtime::session::{Said, Session, Setup};
use crate::cognition::models::realtime::{Told, Totals};
use crate::cognition::models::transport::Endpoint;
use crate::cognition::models::{AudioFormat, Capabilities, Command, Model, ModelSession, Opening, Output, OutputKind, Usage, instructions};
use crate::config::Config;

/// The service of `[cloud.realtime]`, which leads calls.
#[derive(Debug, Clone)]
pub struct RealtimeModel {
    endpoint: Endpoint,
    setup: Arc<Setup>,
    speech: AudioFormat,
    coder: Coder,
    services: Services,
}

impl RealtimeModel {
    /// A model for the calls of a box with this configuration. Nothing is connected to before there is a call.
    ///
    /// # Errors
    /// What of the configuration can't be used.
    pub fn new(config: &Config) -> Result<Self, SpeechModelError> {
        let service = config.cloud.realtime.as_ref().ok_or(SpeechModelError::NotConfigured { table: "cloud.realtime" })?;
        let endpoint = Endpoint::new(service)?;
        let language = service.language.unwrap_or(config.this_box.language);
        let instructions = config.model.instructions.clone().unwrap_or_else(|| instructions(language).to_owned());
        let setup = Setup::new(service, language, instructions, &config.tools)?;
        let speech = speech_format(service.format);
        Ok(Self {
            endpoint,
            setup: Arc::new(setup),
            speech,
            coder: Coder::new(speech)?,
            services: Services::priced(service.prices.clone()),
        })
    }

    /// The service, as it stands.
    pub(super) fn service(&self) -> Service {
        let (endpoint, setup) = (self.endpoint.clone(), Arc::clone(&self.setup));
        let look = move || speech_model::look(endpoint.clone(), Session::new(Arc::clone(&setup)));
        Service::new("cloud.realtime", self.services.clone(), look)
    }
}

impl Model for RealtimeModel {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            output: OutputKind::Audio(self.speech),
            hears_audio: true,
            // Also where the service finds where speech begins and ends: it answers only when it is asked.
            owns_turns: false,
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
            Said::Refused(fault) => Some(fault.words()),
            _ => None,
        }
    }

    fn output(said: Said) -> Option<Output> {
        match said {
            Said::Output(output) => return Some(output),
            Said::Ready => debug!("the speech model is ready"),
            Said::Refused(fault) => warn!(says = fault.words(), "the speech model's service refuses the session"),
            Said::Trouble(fault) => warn!(says = fault.words(), "the speech model's service complains"),
            Said::Cancelled { response, confirmed } => debug!(response_id = %response, confirmed, "a response is cancelled"),
            // Nobody has asked for one here.
            Said::Rendered { .. } | Said::RenderEnded { .. } => {}
        }
        None
    }

    fn charged(totals: &Totals) -> Usage {
        totals.charged()
    }

    fn log_end(totals: &Totals, frames_lost: u64) {
        let Totals { usage, transcription_usage, .. } = totals;
        info!(
            input_tokens = usage.input_tokens,
            output_tokens = usage.output_tokens,
            cached_tokens = usage.input_token_details.cached_tokens,
            transcription_tokens = transcription_usage.input_tokens.saturating_add(transcription_usage.output_tokens),
            frames_lost,
            "the speech model's session has ended"
        );
    }
}
