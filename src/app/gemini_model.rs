//! The Gemini Live protocol, by which a speech model leads calls.

use std::sync::Arc;

use recado_core::policy::Language;
use tracing::{debug, info, warn};

use super::session_log::{Counts, SessionLog};
use super::speech_model::{SpeechModel, SpeechModelError, SpeechSession};
use crate::cognition::models::gemini::Totals;
use crate::cognition::models::gemini::session::{Said, Session, Setup};
use crate::cognition::models::gemini::wire::{INPUT_HZ, OUTPUT_HZ};
use crate::cognition::models::{AudioFormat, Output, OutputKind, Usage};
use crate::config::{Cloud, Gemini, Tool};

/// The service of `[cloud.gemini]`, which leads calls.
pub type GeminiModel = SpeechModel<Session>;

impl SpeechSession for Session {
    type Table = Gemini;
    type Setup = Setup;

    const TABLE: &'static str = "cloud.gemini";
    // What comes late of a cancelled response is dropped, and the model is told in words what of it was heard.
    const CAN_BE_CUT: bool = true;

    fn table(cloud: &Cloud) -> Option<&Gemini> {
        cloud.gemini.as_ref()
    }

    fn setup(table: &Gemini, _: Language, instructions: String, tools: &[Tool], verifies: bool) -> Result<Setup, SpeechModelError> {
        Ok(Setup::new(table, instructions, tools, verifies)?)
    }

    fn hears(_: &Gemini) -> AudioFormat {
        AudioFormat::Linear16 { rate_hz: INPUT_HZ }
    }

    fn speaks(_: &Gemini) -> OutputKind {
        OutputKind::Audio(AudioFormat::Linear16 { rate_hz: OUTPUT_HZ })
    }

    fn begin(setup: &Arc<Setup>) -> Self {
        Self::new(Arc::clone(setup))
    }

    fn refusal(said: &Said) -> Option<String> {
        match said {
            Said::Refused(says) => Some(says.clone()),
            _ => None,
        }
    }

    fn output(said: Said, log: &mut SessionLog) -> Option<Output> {
        match said {
            Said::Output(output) => return Some(output),
            Said::Ready { resumed } => debug!(resumed, "the speech model is ready"),
            Said::Refused(says) => warn!(says, "the speech model's service refuses the session"),
            Said::Cancelled { response } => debug!(response_id = %response, "a response is cancelled"),
            Said::Trouble(says) => log.complaint(&says),
        }
        None
    }

    fn charged(totals: &Totals) -> Usage {
        totals.usage
    }

    fn log_end(totals: &Totals, counts: &Counts) {
        let Counts { frames_lost, complaints, disconnections } = counts;
        let Totals { usage, unasked, calls_cancelled } = totals;
        let cached_tokens = usage.cached_text.saturating_add(usage.cached_audio);
        info!(
            input_tokens = usage.input_text.saturating_add(usage.input_audio).saturating_add(cached_tokens),
            output_tokens = usage.output_text.saturating_add(usage.output_audio),
            cached_tokens,
            unasked,
            calls_cancelled,
            frames_lost,
            complaints,
            disconnections,
            "the speech model's session has ended"
        );
    }
}
