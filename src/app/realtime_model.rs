//! A speech model in a network as the model of calls: one session of the Realtime protocol for each call.
//!
//! What is told to it never waits behind what comes of it, and nothing of it blocks a call: a session that does not take what it is told
//! ends, which the call sees; the caller's audio that does not fit is dropped and counted.

use std::collections::VecDeque;
use std::sync::Arc;

use recado_core::policy::Language;
use tokio::sync::mpsc;
use tracing::{Instrument, Span, debug, info, warn};

use super::cloud_audio::{Coder, speech_format};
use super::services::Services;
use crate::cognition::models::realtime::session::{Said, Setup};
use crate::cognition::models::realtime::transport::{Endpoint, TransportError};
use crate::cognition::models::realtime::{Link, LinkHandle, News, Told, Totals};
use crate::cognition::models::{
    AudioFormat, Availability, CallerAudio, CallerFrame, Capabilities, Command, CommandRefused, Model, ModelSession, Opening, Output,
    OutputKind, caller_audio,
};
use crate::cognition::tools::ToolError;
use crate::config::Config;
use crate::surface::media::resample::ResampleError;

/// The service of `[cloud.realtime]`, which leads calls.
#[derive(Debug, Clone)]
pub struct RealtimeModel {
    endpoint: Endpoint,
    setup: Arc<Setup>,
    speech: AudioFormat,
    coder: Coder,
    services: Services,
}

/// Why calls can't be led by the service that is configured.
#[derive(Debug, thiserror::Error)]
pub enum RealtimeModelError {
    /// No service is configured: write a table `[cloud.realtime]`.
    #[error("model.kind: no service is configured: write a table [cloud.realtime] with its url, its model and a key_file")]
    NotConfigured,
    /// What is configured can't be used: correct what is named.
    #[error(transparent)]
    Endpoint(#[from] TransportError),
    /// A tool can't be offered to the model: correct what is named.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The service's format is none that the telephone's audio can be brought to: set another `cloud.realtime.format`.
    #[error("cloud.realtime.format: {0}; write instead: format = \"pcmu\"")]
    Format(#[from] ResampleError),
}

impl RealtimeModel {
    /// A model for the calls of a box with this configuration. Nothing is connected to before there is a call.
    ///
    /// # Errors
    /// What of the configuration can't be used.
    pub fn new(config: &Config) -> Result<Self, RealtimeModelError> {
        let service = config.cloud.realtime.as_ref().ok_or(RealtimeModelError::NotConfigured)?;
        let endpoint = Endpoint::new(service)?;
        let language = service.language.unwrap_or(config.this_box.language);
        let instructions = config.model.instructions.clone().unwrap_or_else(|| instructions(language).to_owned());
        let setup = Setup::new(service, language, instructions, &config.tools)?;
        let (speech, coder) = (speech_format(service.format), Coder::new(service.format)?);
        Ok(Self { endpoint, setup: Arc::new(setup), speech, coder, services: Services::new() })
    }

    /// How the service stands, and what it took.
    pub(super) fn services(&self) -> Services {
        self.services.clone()
    }

    /// Whether a session can be had of the service now: one is opened, and closed when it is set.
    ///
    /// # Errors
    /// Why not, in words.
    pub(super) async fn look(&self) -> Result<(), String> {
        let mut link = Link::open(self.endpoint.clone(), Arc::clone(&self.setup));
        while let Some(news) = link.news.recv().await {
            match news {
                News::Said(Said::Ready) => return Ok(()),
                News::Said(Said::Refused(fault)) => return Err(fault.words()),
                News::Disconnected { error, .. } => return Err(error.to_string()),
                News::Reconnecting { reason } => return Err(reason),
                News::Connected | News::Said(_) | News::Ended(_) => {}
            }
        }
        Err("the session has ended".to_owned())
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
        let (heard, hears) = caller_audio();
        let (session, commands, said) = ModelSession::new(Some(heard));
        let Link { handle, news } = Link::open(self.endpoint.clone(), Arc::clone(&self.setup));
        let passing = Passing {
            handle,
            coder: self.coder.clone(),
            pending: VecDeque::new(),
            frames_lost: 0,
            services: self.services.clone(),
            was_ready: false,
        };
        // What it logs is about the call that it is opened for.
        tokio::spawn(passing.run(commands, hears, news, said).instrument(Span::current()));
        session
    }
}

/// What passes between a call and its session.
struct Passing {
    handle: LinkHandle,
    coder: Coder,
    /// What the call has not taken yet.
    pending: VecDeque<Output>,
    /// Frames of the caller that the session had no room for.
    frames_lost: u64,
    services: Services,
    /// Whether the service was ready on its last connection.
    was_ready: bool,
}

impl Passing {
    async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        mut hears: CallerAudio,
        mut news: mpsc::Receiver<News>,
        said: mpsc::Sender<Output>,
    ) {
        loop {
            tokio::select! {
                // Commands first, so that a cancel comes before what it cancels.
                biased;
                command = commands.recv() => match command {
                    Some(command) => if let Err(error) = self.tell(command) {
                        warn!(%error, "the speech model's session takes nothing any more: it is ended");
                        break;
                    }
                    None => break,
                },
                place = said.reserve(), if !self.pending.is_empty() => match (place, self.pending.pop_front()) {
                    (Ok(place), Some(output)) => place.send(output),
                    _ => break,
                },
                Some(frame) = hears.next() => self.hear(&frame),
                // Where the call takes nothing, nothing more is taken of the session, which then reads no more.
                what = news.recv(), if self.pending.len() < PENDING_MAX => match what {
                    Some(News::Ended(totals)) => return ended(&totals, self.frames_lost, &hears),
                    Some(what) => self.news(what),
                    None => return,
                },
            }
        }
        // The call sees that the session has ended; what it took is still said.
        drop(said);
        let Self { handle, frames_lost, .. } = self;
        drop(handle);
        while let Some(what) = news.recv().await {
            if let News::Ended(totals) = what {
                ended(&totals, frames_lost, &hears);
            }
        }
    }

    fn tell(&mut self, command: Command) -> Result<(), CommandRefused> {
        if let Command::CancelResponse { response } = command {
            self.pending.retain(|output| !output.is_speech_of(response));
        }
        self.handle.tell(Told::Command(command))
    }

    fn news(&mut self, news: News) {
        if let Some(availability) = self.availability(&news) {
            self.services.stands(&availability);
            self.pending.push_back(Output::Availability(availability));
        }
        self.pending.extend(output(news));
    }

    /// How the service stands by the news, where they change it.
    fn availability(&mut self, news: &News) -> Option<Availability> {
        Some(match news {
            News::Said(Said::Ready) => {
                self.was_ready = true;
                Availability::Ready
            }
            News::Said(Said::Refused(fault)) => Availability::Away { reason: fault.words() },
            News::Disconnected { again_in: Some(_), .. } | News::Reconnecting { .. } if self.was_ready => {
                // One that stood is soon replaced, or it is known that it is not.
                self.was_ready = false;
                self.services.reconnected();
                Availability::Connecting
            }
            News::Disconnected { error, .. } => Availability::Away { reason: error.to_string() },
            News::Reconnecting { reason } => Availability::Away { reason: reason.clone() },
            News::Connected | News::Said(_) | News::Ended(_) => return None,
        })
    }

    fn hear(&mut self, frame: &CallerFrame) {
        // A session that is gone says so itself.
        if self.handle.tell(Told::Caller(self.coder.code(frame))).is_err() {
            self.frames_lost += 1;
        }
    }
}

/// What of the news is for the call; the rest is logged.
fn output(news: News) -> Option<Output> {
    match news {
        News::Said(Said::Output(output)) => return Some(output),
        News::Connected => info!("connected to the speech model's service"),
        News::Disconnected { error, again_in: Some(wait) } => {
            warn!(%error, again_in_ms = wait.as_millis() as u64, "no connection to the speech model's service");
        }
        News::Disconnected { error, again_in: None } => {
            warn!(%error, "no connection to the speech model's service, and no other one is tried in this call");
        }
        News::Reconnecting { reason } => warn!(reason, "the connection to the speech model's service is replaced"),
        News::Said(Said::Ready) => debug!("the speech model is ready"),
        News::Said(Said::Refused(fault)) => warn!(says = fault.words(), "the speech model's service refuses the session"),
        News::Said(Said::Trouble(fault)) => warn!(says = fault.words(), "the speech model's service complains"),
        News::Said(Said::Cancelled { response, confirmed }) => debug!(response_id = %response, confirmed, "a response is cancelled"),
        // Nobody has asked for one here.
        News::Said(Said::Rendered { .. } | Said::RenderEnded { .. }) => {}
        // It is seen where the news are taken.
        News::Ended(_) => {}
    }
    None
}

fn ended(totals: &Totals, frames_lost: u64, hears: &CallerAudio) {
    let Totals { usage, transcription_usage, .. } = totals;
    info!(
        input_tokens = usage.input_tokens,
        output_tokens = usage.output_tokens,
        cached_tokens = usage.input_token_details.cached_tokens,
        transcription_tokens = transcription_usage.input_tokens.saturating_add(transcription_usage.output_tokens),
        frames_lost = frames_lost.saturating_add(hears.dropped()),
        "the speech model's session has ended"
    );
}

/// What a model is told of its task, where `model.instructions` says nothing else.
fn instructions(language: Language) -> &'static str {
    match language {
        Language::Es => {
            "Atiende el teléfono. Habla español, de usted, con frases cortas: se le oye, no se le lee. Cuando le pidan algo para lo que tiene una \
             función, llámela en seguida; si falta un dato, pregunte solo por él. El trabajo lo hace el sistema telefónico: él dice al cliente que se \
             ha aceptado, y él mismo le dirá el resultado cuando lo haya. No invente nunca un resultado, no lo adivine, no prometa cuándo estará y no \
             diga que algo está hecho. Mientras tanto siga conversando y acepte lo siguiente que le pidan. Si no tiene una función para lo que le \
             piden, dígalo."
        }
        Language::En => {
            "You answer the telephone. Speak English, politely, in short sentences: you are heard, not read. When the caller asks for something that \
             you have a function for, call it at once; if something is missing, ask for that alone. The work is done by the telephone system: it tells \
             the caller that it is accepted, and it tells the result itself when there is one. Never invent a result, never guess one, promise no time, \
             and never say that something is done. Meanwhile go on talking, and accept what is asked for next. If you have no function for what is \
             asked, say so."
        }
    }
}

/// So much waits here for a call before nothing more is taken of the session: a call takes what comes at once.
const PENDING_MAX: usize = 64;
