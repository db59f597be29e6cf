//! The OpenAI Live protocol, by which a speech model that hears and speaks at all times leads calls.

use std::sync::Arc;

use recado_core::policy::Language;
use tracing::{debug, info, warn};

use super::session_log::{Counts, SessionLog};
use super::speech_model::{SpeechModel, SpeechModelError, SpeechSession};
use super::wall;
use crate::cognition::models::live::Totals;
use crate::cognition::models::live::session::{Said, Session, Setup};
use crate::cognition::models::live::wire::Format;
use crate::cognition::models::{AudioFormat, Output, OutputKind, Usage};
use crate::config::{Cloud, Live, Tool};

/// The service of `[cloud.live]`, which leads calls.
pub type LiveModel = SpeechModel<Session>;

impl SpeechSession for Session {
    type Table = Live;
    type Setup = Setup;

    const TABLE: &'static str = "cloud.live";
    // It is told how far it was heard.
    const CAN_BE_CUT: bool = false;

    fn table(cloud: &Cloud) -> Option<&Live> {
        cloud.live.as_ref()
    }

    fn instructions(language: Language) -> &'static str {
        match language {
            Language::Es => {
                "Atiende el teléfono. Habla español, de usted, con frases cortas: se le oye, no se le lee. Cuando le pidan algo que puede delegar, \
                 deléguelo en cuanto tenga todos los datos; si falta uno, pregunte solo por él. El trabajo lo hace el sistema telefónico: él dice al \
                 cliente que se ha aceptado, y él mismo le dirá el resultado cuando lo haya. No invente nunca un resultado, no lo adivine, no prometa \
                 cuándo estará y no diga que algo está hecho. Lo que el sistema ya ha dicho, no lo repita. Mientras tanto siga conversando y acepte lo \
                 siguiente que le pidan. Si no puede delegar lo que le piden, dígalo."
            }
            Language::En => {
                "You answer the telephone. Speak English, politely, in short sentences: you are heard, not read. When the caller asks for something that \
                 you can delegate, delegate it as soon as you have all that it needs; if something is missing, ask for that alone. The work is done by the \
                 telephone system: it tells the caller that it is accepted, and it tells the result itself when there is one. Never invent a result, never \
                 guess one, promise no time, and never say that something is done. What the system has told already, do not repeat. Meanwhile go on \
                 talking, and accept what is asked for next. If you can't delegate what is asked, say so."
            }
        }
    }

    // It delegates in words, and nobody's PIN is to be among them: who is on the line it can't ask for.
    fn setup(table: &Live, language: Language, instructions: String, tools: &[Tool], _verifies: bool) -> Result<Setup, SpeechModelError> {
        Ok(Setup::new(table, language, &instructions, tools)?)
    }

    fn hears(table: &Live) -> AudioFormat {
        Format(table.format).audio()
    }

    fn speaks(table: &Live) -> OutputKind {
        OutputKind::PacedAudio(Self::hears(table))
    }

    fn begin(setup: &Arc<Setup>) -> Self {
        let wall = wall();
        let unix_s = u64::try_from(wall.unix_ms).ok().filter(|_| wall.synchronised).map(|unix_ms| unix_ms / 1_000);
        Self::new(Arc::clone(setup), unix_s)
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
            Said::Acknowledged { after_ms } => debug!(after_ms, "the speech model's service has taken what the model was told"),
            Said::NotDone { reason } => log.not_done(reason),
            Said::Unacknowledged { appends } => warn!(appends, "the speech model's service does not acknowledge what the model is told"),
        }
        None
    }

    fn charged(totals: &Totals) -> Usage {
        Usage { audio_ms: (totals.seconds * 1_000.0) as u64, ..Usage::default() }
    }

    fn log_end(totals: &Totals, counts: &Counts) {
        let Counts { frames_lost, complaints, disconnections } = counts;
        let Totals { seconds, context_ratio, dropped_ms } = totals;
        info!(seconds, context_ratio, dropped_ms, frames_lost, complaints, disconnections, "the speech model's session has ended");
    }
}
