//! The OpenAI Realtime protocol, by which a speech model leads calls.

use std::sync::Arc;

use recado_core::policy::Language;
use tracing::{debug, info, warn};

use super::cloud_audio::speech_format;
use super::session_log::{Counts, SessionLog};
use super::speech_model::{SpeechModel, SpeechModelError, SpeechSession};
use crate::cognition::models::realtime::Totals;
use crate::cognition::models::realtime::session::{Said, Session, Setup};
use crate::cognition::models::{AudioFormat, Output, OutputKind, Usage};
use crate::config::{Cloud, Realtime, Tool};

/// The service of `[cloud.realtime]`, which leads calls.
pub type RealtimeModel = SpeechModel<Session>;

impl SpeechSession for Session {
    type Table = Realtime;
    type Setup = Setup;

    const TABLE: &'static str = "cloud.realtime";
    const CAN_BE_CUT: bool = true;

    fn table(cloud: &Cloud) -> Option<&Realtime> {
        cloud.realtime.as_ref()
    }

    fn setup(
        table: &Realtime,
        language: Language,
        instructions: String,
        tools: &[Tool],
        verifies: bool,
    ) -> Result<Setup, SpeechModelError> {
        Ok(Setup::new(table, language, instructions, tools, verifies)?)
    }

    fn hears(table: &Realtime) -> AudioFormat {
        speech_format(table.format)
    }

    fn speaks(table: &Realtime) -> OutputKind {
        OutputKind::Audio(Self::hears(table))
    }

    fn begin(setup: &Arc<Setup>) -> Self {
        Self::new(Arc::clone(setup))
    }

    fn refusal(said: &Said) -> Option<String> {
        match said {
            Said::Refused(fault) => Some(fault.words()),
            _ => None,
        }
    }

    fn output(said: Said, log: &mut SessionLog) -> Option<Output> {
        match said {
            Said::Output(output) => return Some(output),
            Said::Ready => debug!("the speech model is ready"),
            Said::Refused(fault) => warn!(says = fault.words(), "the speech model's service refuses the session"),
            Said::Trouble(fault) => log.complaint(&fault.words()),
            Said::Cancelled { response, confirmed } => debug!(response_id = %response, confirmed, "a response is cancelled"),
            // Nobody has asked for one here.
            Said::Rendered { .. } | Said::RenderEnded { .. } => {}
        }
        None
    }

    fn charged(totals: &Totals) -> Usage {
        totals.charged()
    }

    fn log_end(totals: &Totals, counts: &Counts) {
        let Counts { frames_lost, complaints, disconnections } = counts;
        let Totals { usage, transcription_usage, .. } = totals;
        info!(
            input_tokens = usage.input_tokens,
            output_tokens = usage.output_tokens,
            cached_tokens = usage.input_token_details.cached_tokens,
            transcription_tokens = transcription_usage.input_tokens.saturating_add(transcription_usage.output_tokens),
            frames_lost,
            complaints,
            disconnections,
            "the speech model's session has ended"
        );
    }
}
