//! A session and its connection, brought together: the one task that has a clock and a network.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{ResponseId, Time};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::session::{Action, Input, RenderId, Said, Session, Setup};
use super::transport::{Backoff, Connection, Endpoint, Incoming, TransportError};
use super::wire::{ClientEvent, RateLimit, Usage};
use crate::cognition::models::port::{Command, CommandRefused};

/// A session that is held, over as many connections as it takes.
#[derive(Debug)]
pub struct Link {
    /// Where it is told. The session ends when this is dropped.
    pub handle: LinkHandle,
    /// What comes of it. [`News::Ended`] is the last.
    pub news: mpsc::Receiver<News>,
}

/// Where a session is told.
#[derive(Debug)]
pub struct LinkHandle(mpsc::Sender<Told>);

/// What a session is told.
#[derive(Debug)]
pub enum Told {
    /// By the conversation.
    Command(Command),
    /// The caller's audio, in the session's format.
    Caller(Vec<u8>),
    /// Speak this text, beside the conversation, word for word.
    Render {
        /// What it is called.
        render: RenderId,
        /// The text.
        text: String,
    },
}

/// What comes of a session.
#[derive(Debug)]
pub enum News {
    /// A connection stands.
    Connected,
    /// The session says something.
    Said(Said),
    /// There is no connection, or no longer.
    Disconnected {
        /// Why.
        error: TransportError,
        /// When another one is tried; none where that would not help.
        again_in: Option<Duration>,
    },
    /// The session gives up its connection for another one.
    Reconnecting {
        /// Why, in words.
        reason: String,
    },
    /// It has ended, and took this.
    Ended(Totals),
}

/// What a session took.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    /// Tokens of all responses.
    pub usage: Usage,
    /// Tokens of what wrote down what the caller said.
    pub transcription_usage: Usage,
    /// How much more the service takes, as it last said.
    pub rate_limits: Vec<RateLimit>,
}

impl Link {
    /// Opens a session, at once: it connects behind this.
    ///
    /// Called inside a tokio runtime.
    pub fn open(endpoint: Endpoint, setup: impl Into<Arc<Setup>>) -> Self {
        let (tells, told) = mpsc::channel(TOLD_MAX);
        let (says, news) = mpsc::channel(NEWS_MAX);
        let holding = Holding {
            session: Session::new(setup),
            endpoint,
            began: Instant::now(),
            backoff: Backoff::default(),
            line: Line::Waiting { until: Instant::now() },
            pending: VecDeque::new(),
        };
        tokio::spawn(holding.hold(told, says));
        Self { handle: LinkHandle(tells), news }
    }
}

impl LinkHandle {
    /// Tells the session, without waiting.
    ///
    /// # Errors
    /// When the session takes nothing any more.
    pub fn tell(&self, told: Told) -> Result<(), CommandRefused> {
        self.0.try_send(told).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => CommandRefused::Stuck,
            mpsc::error::TrySendError::Closed(_) => CommandRefused::Gone,
        })
    }
}

/// The task's own.
struct Holding {
    session: Session,
    endpoint: Endpoint,
    began: Instant,
    backoff: Backoff,
    line: Line,
    /// What nobody has taken yet.
    pending: VecDeque<News>,
}

/// How the connection stands.
enum Line {
    Waiting {
        until: Instant,
    },
    Connecting(Pin<Box<dyn Future<Output = Result<Connection, TransportError>> + Send>>),
    Up(Connection),
    /// There will be none.
    Never,
}

/// What happened to the connection.
enum Event {
    Due,
    Connected(Result<Connection, TransportError>),
    Incoming(Incoming),
}

impl Line {
    async fn next(&mut self) -> Event {
        match self {
            Self::Waiting { until } => {
                sleep_until(*until).await;
                Event::Due
            }
            Self::Connecting(opening) => Event::Connected(opening.await),
            Self::Up(connection) => Event::Incoming(connection.next().await),
            Self::Never => std::future::pending().await,
        }
    }
}

impl Holding {
    async fn hold(mut self, mut told: mpsc::Receiver<Told>, says: mpsc::Sender<News>) {
        loop {
            let deadline = self.session.deadline().map(|at| self.began + Duration::from_millis(at.0));
            tokio::select! {
                // What is told comes first, so that a cancel comes before what it cancels.
                biased;
                told = told.recv(), if self.pending.len() < PENDING_MAX + TOLD_MAX => match told {
                    Some(told) => self.told(told),
                    None => break,
                },
                place = says.reserve(), if !self.pending.is_empty() => match (place, self.pending.pop_front()) {
                    (Ok(place), Some(news)) => place.send(news),
                    _ => return,
                },
                // Where nobody takes what comes, nothing more is read.
                event = self.line.next(), if self.pending.len() < PENDING_MAX => self.event(event),
                () = sleep_until(deadline.unwrap_or(self.began)), if deadline.is_some() => self.give(Input::Wake),
            }
        }
        // Closing the connection does not wait for those who take their time.
        self.line = Line::Never;
        let totals = Totals {
            usage: self.session.usage(),
            transcription_usage: self.session.transcription_usage(),
            rate_limits: self.session.rate_limits().to_vec(),
        };
        for news in self.pending.into_iter().chain([News::Ended(totals)]) {
            if says.send(news).await.is_err() {
                return;
            }
        }
    }

    fn told(&mut self, told: Told) {
        let input = match told {
            Told::Command(command) => {
                if let Command::CancelResponse { response } = command {
                    self.pending.retain(|news| !is_speech_of(news, response));
                }
                Input::Command(command)
            }
            Told::Caller(bytes) => Input::Caller(bytes),
            Told::Render { render, text } => Input::Render { render, text },
        };
        self.give(input);
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Due => {
                let endpoint = self.endpoint.clone();
                self.line = Line::Connecting(Box::pin(async move { Connection::open(&endpoint).await }));
            }
            Event::Connected(Ok(connection)) => {
                self.line = Line::Up(connection);
                self.pending.push_back(News::Connected);
                self.give(Input::Connected);
            }
            Event::Incoming(Incoming::Event(event)) => self.give(Input::Server(*event)),
            Event::Connected(Err(error)) | Event::Incoming(Incoming::Ended(error)) => self.disconnected(error),
        }
    }

    fn disconnected(&mut self, error: TransportError) {
        let reason = error.to_string();
        let again_in = error.is_retryable().then(|| self.backoff.next(error.asked_wait()));
        self.line = match again_in {
            Some(wait) => Line::Waiting { until: Instant::now() + wait },
            None => Line::Never,
        };
        self.pending.push_back(News::Disconnected { error, again_in });
        self.give(if again_in.is_some() { Input::Lost { reason } } else { Input::Gone { reason } });
    }

    fn give(&mut self, input: Input) {
        let now = Time(self.began.elapsed().as_millis() as u64);
        let mut failed = None;
        for action in self.session.handle(now, input) {
            match action {
                // Where one could not be sent, the rest was for the same connection.
                Action::Send(event) => failed = failed.or_else(|| self.send(&event)),
                Action::Reconnect { reason } => {
                    self.line = Line::Waiting { until: Instant::now() + self.backoff.next(None) };
                    self.pending.push_back(News::Reconnecting { reason });
                }
                Action::Said(said) => {
                    match said {
                        Said::Ready => self.backoff.reset(),
                        Said::Refused(_) => self.line = Line::Never,
                        _ => {}
                    }
                    self.pending.push_back(News::Said(said));
                }
            }
        }
        if let Some(error) = failed {
            self.disconnected(error);
        }
    }

    fn send(&self, event: &ClientEvent) -> Option<TransportError> {
        match &self.line {
            Line::Up(connection) => connection.send(event).err(),
            _ => None,
        }
    }
}

fn is_speech_of(news: &News, response: ResponseId) -> bool {
    matches!(news, News::Said(Said::Output(output)) if output.is_speech_of(response))
}

/// Five seconds of the caller's audio.
const TOLD_MAX: usize = 256;
/// A response of clauses, or several seconds of speech in pieces.
const NEWS_MAX: usize = 64;
/// So much more waits here before nothing more is read.
const PENDING_MAX: usize = 64;
