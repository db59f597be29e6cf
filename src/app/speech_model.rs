//! A session of a speech model in a network, and the call that it belongs to: what passes between the two, whatever the protocol.
//!
//! What is told to it never waits behind what comes of it, and nothing of it blocks a call: a session that does not take what it is told
//! ends, which the call sees; the caller's audio that does not fit is dropped and counted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use recado_core::conversation::ANSWER_MS_LEAST;
use recado_core::policy::Language;
use tokio::sync::mpsc;
use tracing::{Instrument, Span, warn};

use super::cloud_audio::Coder;
use super::services::{Service, Services};
use super::session_log::{Counts, SessionLog};
use crate::cognition::models::link::{Link, LinkHandle, Meaning, News, Session, Told};
use crate::cognition::models::transport::{Endpoint, TransportError};
use crate::cognition::models::{
    AudioFormat, Availability, CallerAudio, CallerFrame, Capabilities, Command, CommandRefused, Model, ModelSession, Opening, Output,
    OutputKind, Usage, audible_ms, caller_audio, instructions,
};
use crate::cognition::tools::ToolError;
use crate::config::{self, Cloud, Config, NoDelegate, Tool};
use crate::surface::media::resample::ResampleError;

/// Why calls can't be led by the service that is configured.
#[derive(Debug, thiserror::Error)]
pub enum SpeechModelError {
    /// No service is configured: write the table that is named.
    #[error("model.kind: no service is configured: write a table [{table}] with its url, its model and a key_file")]
    NotConfigured {
        /// The table that is missing.
        table: &'static str,
    },
    /// What is configured can't be used: correct what is named.
    #[error(transparent)]
    Endpoint(#[from] TransportError),
    /// A tool can't be offered to the model: correct what is named.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// No tool does what the model delegates: correct what is named.
    #[error(transparent)]
    Delegate(#[from] NoDelegate),
    /// The service's format is none that the telephone's audio can be brought to: set another one.
    #[error("the format of the service that leads calls: {0}; write instead: format = \"pcmu\"")]
    Format(#[from] ResampleError),
}

/// A speech model in a network as the model of calls: one session of a protocol for each call.
pub struct SpeechModel<S: SpeechSession> {
    endpoint: Endpoint,
    setup: Arc<S::Setup>,
    capabilities: Capabilities,
    coder: Coder,
    services: Services,
}

/// A session of a protocol by which a model speaks, as a call needs it.
pub trait SpeechSession: Session<Told: From<Told>> {
    /// The table of the configuration that says where its service is.
    type Table;
    /// What it is opened with.
    type Setup: Send + Sync + 'static;

    /// What that table is called.
    const TABLE: &'static str;
    /// Whether a response can be cancelled in the middle, and the model's memory of it cut to what was heard.
    const CAN_BE_CUT: bool;

    /// That table, where it is written.
    fn table(cloud: &Cloud) -> Option<&Self::Table>;

    /// What a model is told of its task, where `model.instructions` says nothing else.
    fn instructions(language: Language) -> &'static str {
        instructions(language)
    }

    /// What a session is opened with, in `language`, with a model that is told `instructions` and may ask for what `tools` do, and who is on the
    /// line, where the box `verifies` callers.
    ///
    /// # Errors
    /// What of it can't be used.
    fn setup(
        table: &Self::Table,
        language: Language,
        instructions: String,
        tools: &[Tool],
        verifies: bool,
    ) -> Result<Self::Setup, SpeechModelError>;

    /// What the service hears.
    fn hears(table: &Self::Table) -> AudioFormat;

    /// What its model's responses are made of.
    fn speaks(table: &Self::Table) -> OutputKind;

    /// A session that waits for its first connection.
    fn begin(setup: &Arc<Self::Setup>) -> Self;

    /// Why the service takes no session and never will, where this says that.
    fn refusal(said: &Self::Said) -> Option<String>;

    /// What of this is for the call; the rest is logged.
    fn output(said: Self::Said, log: &mut SessionLog) -> Option<Output>;

    /// What it took, by the kinds that are charged for differently.
    fn charged(totals: &Self::Totals) -> Usage;

    /// Logs what it took, and what happened in it.
    fn log_end(totals: &Self::Totals, counts: &Counts);
}

impl<S: SpeechSession> SpeechModel<S> {
    /// A model for the calls of a box with this configuration. Nothing is connected to before there is a call.
    ///
    /// # Errors
    /// What of the configuration can't be used.
    pub fn new(config: &Config) -> Result<Self, SpeechModelError>
    where
        for<'a> config::SpeechModel<'a>: From<&'a S::Table>,
    {
        let table = S::table(&config.cloud).ok_or(SpeechModelError::NotConfigured { table: S::TABLE })?;
        let service = config::SpeechModel::from(table);
        let language = service.language.unwrap_or(config.this_box.language);
        let instructions = config.model.instructions.as_deref().unwrap_or(S::instructions(language)).to_owned();
        let services = Services::new(S::TABLE, service.prices.cloned());
        Ok(Self {
            endpoint: Endpoint::new(service)?,
            setup: Arc::new(S::setup(table, language, instructions, &config.tools, config.identity.pins_file.is_some())?),
            capabilities: Capabilities {
                output: S::speaks(table),
                hears_audio: true,
                // Also where a service finds where speech begins and ends, or takes its turns itself: its session says nothing unasked.
                owns_turns: false,
                cancel: S::CAN_BE_CUT,
                truncate: S::CAN_BE_CUT,
                silence_after_ms: None,
            },
            coder: Coder::new(S::hears(table))?,
            services,
        })
    }

    /// With its service, as that stands.
    pub(super) fn with_service(self) -> (Self, Vec<Service>) {
        let (endpoint, setup) = (self.endpoint.clone(), Arc::clone(&self.setup));
        let service = Service::new(self.services.clone(), move || look(endpoint.clone(), S::begin(&setup)));
        (self, vec![service])
    }
}

impl<S: SpeechSession> Model for SpeechModel<S> {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn open(&self, _opening: Opening) -> ModelSession {
        let (heard, hears) = caller_audio();
        let (opened, commands, said) = ModelSession::new(Some(heard));
        let Link { handle, news } = Link::open(self.endpoint.clone(), S::begin(&self.setup));
        // What is known to be away is not waited for, until this session finds that it is back.
        let away = Some(self.services.availability(Instant::now())).filter(|availability| *availability != Availability::Ready);
        let passing: Passing<S> = Passing {
            handle,
            // It brings the caller's audio to the session's format.
            coder: self.coder.clone(),
            pending: away.map(Output::Availability).into_iter().collect(),
            frames_lost: 0,
            log: SessionLog::default(),
            services: self.services.clone(),
            was_ready: false,
            format: self.capabilities.output.format(),
            said_ms: 0,
        };
        // What it logs is about the call that it is opened for.
        tokio::spawn(passing.run(commands, hears, news, said).instrument(Span::current()));
        opened
    }
}

/// What passes between a call and its session.
struct Passing<S: Session> {
    handle: LinkHandle<S::Told>,
    coder: Coder,
    /// What the call has not taken yet.
    pending: VecDeque<Output>,
    /// Frames of the caller that the session had no room for.
    frames_lost: u64,
    log: SessionLog,
    services: Services,
    /// Whether the service was ready on its last connection.
    was_ready: bool,
    /// What the service's speech is coded in.
    format: Option<AudioFormat>,
    /// How much of what it said on its last connection can be heard (ms), as far as it takes to be an answer.
    said_ms: u64,
}

impl<S: SpeechSession> Passing<S> {
    async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        mut hears: CallerAudio,
        mut news: mpsc::Receiver<News<S::Said, S::Totals>>,
        said: mpsc::Sender<Output>,
    ) {
        loop {
            tokio::select! {
                // Commands first, so that a cancel comes before what it cancels; a pause comes after what was said before it.
                biased;
                command = commands.recv() => match command {
                    Some(command) => {
                        hears.heard_before(&command).for_each(|frame| self.hear(&frame));
                        if let Err(error) = self.tell(command) {
                            warn!(%error, "the speech model's session takes nothing any more: it is ended");
                            break;
                        }
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
                    Some(News::Ended(totals)) => {
                        let counts = self.log.counts(self.frames_lost.saturating_add(hears.dropped()));
                        return ended::<S>(&totals, &counts, &self.services);
                    }
                    Some(what) => self.news(what),
                    None => return,
                },
            }
        }
        // The call sees that the session has ended; what it took is still said.
        drop(said);
        let Self { handle, frames_lost, log, services, .. } = self;
        drop(handle);
        while let Some(what) = news.recv().await {
            if let News::Ended(totals) = what {
                ended::<S>(&totals, &log.counts(frames_lost.saturating_add(hears.dropped())), &services);
            }
        }
    }

    fn tell(&mut self, command: Command) -> Result<(), CommandRefused> {
        if let Some(response) = command.cancels() {
            self.pending.retain(|output| !output.is_speech_of(response));
        }
        self.handle.tell(Told::Command(command).into())
    }

    fn news(&mut self, news: News<S::Said, S::Totals>) {
        if let Some(availability) = self.availability(&news) {
            self.services.stands(&availability);
            self.pending.push_back(Output::Availability(availability));
        }
        let output = self.output(news);
        // Once it is an answer, nobody asks how long it is.
        if self.said_ms < ANSWER_MS_LEAST
            && let Some(Output::Audio { bytes, .. }) = &output
        {
            self.said_ms += self.format.map_or(0, |format| audible_ms(bytes, format));
            if self.said_ms >= ANSWER_MS_LEAST {
                self.services.answers();
            }
        }
        self.pending.extend(output);
    }

    /// What of the news is for the call; the rest is logged.
    fn output(&mut self, news: News<S::Said, S::Totals>) -> Option<Output> {
        match news {
            News::Said(said) => return S::output(said, &mut self.log),
            News::Connected => self.log.connected(),
            News::Disconnected { error, again_in } => self.log.disconnected(&error, again_in),
            News::Reconnecting { reason } => self.log.reconnecting(&reason),
            // It is seen where the news are taken.
            News::Ended(_) => {}
        }
        None
    }

    /// How the service stands by the news, where they change it.
    fn availability(&mut self, news: &News<S::Said, S::Totals>) -> Option<Availability> {
        Some(match news {
            News::Said(said) if S::meaning(said) == Meaning::Ready => {
                self.was_ready = true;
                self.said_ms = 0;
                Availability::Ready
            }
            News::Said(said) => Availability::Away { reason: S::refusal(said)? },
            News::Disconnected { again_in: Some(_), .. } | News::Reconnecting { .. } if self.was_ready => {
                // One that stood is soon replaced, or it is known that it is not.
                self.was_ready = false;
                self.services.reconnected();
                if let (News::Disconnected { error, .. }, 0) = (news, self.said_ms) {
                    self.services.lost_unheard(&error.to_string());
                }
                Availability::Connecting
            }
            News::Disconnected { error, .. } => Availability::Away { reason: error.to_string() },
            News::Reconnecting { reason } => Availability::Away { reason: reason.clone() },
            News::Connected | News::Ended(_) => return None,
        })
    }

    fn hear(&mut self, frame: &CallerFrame) {
        // A session that is gone says so itself.
        if self.handle.tell(Told::Caller(self.coder.code(frame)).into()).is_err() {
            self.frames_lost += 1;
        }
    }
}

fn ended<S: SpeechSession>(totals: &S::Totals, counts: &Counts, services: &Services) {
    S::log_end(totals, counts);
    services.took(&S::charged(totals));
}

/// Whether a session can be had of a service now: one is opened, and closed when it is set.
///
/// # Errors
/// Why not, in words.
async fn look<S: SpeechSession>(endpoint: Endpoint, session: S) -> Result<(), String> {
    let mut link = Link::open(endpoint, session);
    while let Some(news) = link.news.recv().await {
        match news {
            News::Said(said) if S::meaning(&said) == Meaning::Ready => return Ok(()),
            News::Said(said) => S::refusal(&said).map_or(Ok(()), Err)?,
            News::Disconnected { error, .. } => return Err(error.to_string()),
            News::Reconnecting { reason } => return Err(reason),
            News::Connected | News::Ended(_) => {}
        }
    }
    Err("the session has ended".to_owned())
}

/// So much waits here for a call before nothing more is taken of the session: a call takes what comes at once.
const PENDING_MAX: usize = 64;
