//! A session and its connection, brought together: the one task that has a clock and a network. The same for every protocol.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use recado_core::{ResponseId, Time};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::port::{Command, CommandRefused};
use super::transport::{Backoff, Connection, Endpoint, Incoming, ServerMessage, TransportError};

/// What a model session has to do with a protocol: a pure state machine, without I/O and clock.
pub trait Session: Send + 'static {
    /// What it is told by its owner.
    type Told: Send;
    /// What the service sends.
    type Incoming: ServerMessage + fmt::Debug;
    /// What the service is sent.
    type Outgoing: Serialize;
    /// What it says to its owner.
    type Said: Send + fmt::Debug;
    /// What it took, all in all.
    type Totals: Send + fmt::Debug;

    /// Takes an input at `now`, and says what is to be done about it, in order.
    fn takes(&mut self, now: Time, input: Input<Self::Told, Self::Incoming>) -> Vec<Action<Self::Outgoing, Self::Said>>;

    /// When it wants to be woken, if it does.
    fn deadline(&self) -> Option<Time>;

    /// What it took.
    fn totals(&self) -> Self::Totals;

    /// Whether another connection may help after this. A protocol may know better than its connection.
    fn may_help(&self, error: &TransportError) -> bool {
        error.is_retryable()
    }

    /// The response of which nothing more is wanted with this.
    fn cancels(told: &Self::Told) -> Option<ResponseId>;

    /// What this says of the session, and whether it is speech of a response.
    fn meaning(said: &Self::Said) -> Meaning;
}

/// What happens to a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Input<T, M> {
    /// It is told something.
    Told(T),
    /// Something happened to its connection.
    Line(Line<M>),
}

impl<M> From<Told> for Input<Told, M> {
    fn from(told: Told) -> Self {
        Self::Told(told)
    }
}

impl<T, M> From<Line<M>> for Input<T, M> {
    fn from(line: Line<M>) -> Self {
        Self::Line(line)
    }
}

/// What every session of a call is told. A protocol may be told more.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// By the conversation.
    Command(Command),
    /// The caller's audio, in the session's format.
    Caller(Vec<u8>),
}

/// What happened to a session's connection.
#[derive(Debug, Clone, PartialEq)]
pub enum Line<M> {
    /// A new connection stands.
    Connected,
    /// The service said something on it.
    Server(M),
    /// It is gone; another one is tried.
    Lost {
        /// Why, in words.
        reason: String,
    },
    /// There will be no other one.
    Gone {
        /// Why, in words.
        reason: String,
    },
    /// The deadline may have come.
    Wake,
}

/// What a session wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action<C, S> {
    /// Send this.
    Send(C),
    /// Give up the connection and make another one: nothing more of this one is of use.
    Reconnect {
        /// Why, in words.
        reason: String,
    },
    /// Pass this on.
    Said(S),
}

/// Gives up a connection, after what was done already.
pub(super) fn reconnect<C, S>(actions: &mut Vec<Action<C, S>>, reason: &str) {
    // What was to be sent would go to the next connection, which is told anew.
    actions.retain(|action| !matches!(action, Action::Send(_)));
    actions.push(Action::Reconnect { reason: reason.to_owned() });
}

/// What the link itself makes of something that a session says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The session is set.
    Ready,
    /// The service does not take the session, and never will: no other connection helps.
    Refused,
    /// Speech of this response: the connection is a good one.
    Speech(ResponseId),
    /// Something else.
    Other,
}

/// A session that is held, over as many connections as it takes.
#[derive(Debug)]
pub struct Link<S: Session> {
    /// Where it is told. The session ends when this is dropped.
    pub handle: LinkHandle<S::Told>,
    /// What comes of it. [`News::Ended`] is the last.
    pub news: mpsc::Receiver<News<S::Said, S::Totals>>,
}

/// Where a session is told.
#[derive(Debug)]
pub struct LinkHandle<T>(mpsc::Sender<T>);

/// What comes of a session.
#[derive(Debug)]
pub enum News<S, T> {
    /// A connection stands.
    Connected,
    /// The session says something.
    Said(S),
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
    Ended(T),
}

impl<S: Session> Link<S> {
    /// Opens a session, at once: it connects behind this.
    ///
    /// Called inside a tokio runtime.
    pub fn open(endpoint: Endpoint, session: S) -> Self {
        let (tells, told) = mpsc::channel(TOLD_MAX);
        let (says, news) = mpsc::channel(NEWS_MAX);
        let holding = Holding {
            session,
            endpoint,
            began: Instant::now(),
            backoff: Backoff::default(),
            ready_since: None,
            socket: Socket::Waiting { until: Instant::now() },
            pending: VecDeque::new(),
        };
        tokio::spawn(holding.hold(told, says));
        Self { handle: LinkHandle(tells), news }
    }
}

impl<T> LinkHandle<T> {
    /// Tells the session, without waiting.
    ///
    /// # Errors
    /// When the session takes nothing any more.
    pub fn tell(&self, told: T) -> Result<(), CommandRefused> {
        self.0.try_send(told).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => CommandRefused::Stuck,
            mpsc::error::TrySendError::Closed(_) => CommandRefused::Gone,
        })
    }
}

/// The task's own.
struct Holding<S: Session> {
    session: S,
    endpoint: Endpoint,
    began: Instant,
    backoff: Backoff,
    /// Since when the session has been set on this connection.
    ready_since: Option<Instant>,
    socket: Socket<S::Incoming>,
    /// What nobody has taken yet.
    pending: VecDeque<News<S::Said, S::Totals>>,
}

/// How the connection stands.
enum Socket<M> {
    Waiting {
        until: Instant,
    },
    Connecting(Pin<Box<dyn Future<Output = Result<Connection<M>, TransportError>> + Send>>),
    Up(Connection<M>),
    /// There will be none.
    Never,
}

/// What happened to the connection.
enum Event<M> {
    Due,
    Connected(Result<Connection<M>, TransportError>),
    Incoming(Incoming<M>),
}

impl<M: ServerMessage> Socket<M> {
    async fn next(&mut self) -> Event<M> {
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

impl<S: Session> Holding<S> {
    async fn hold(mut self, mut told: mpsc::Receiver<S::Told>, says: mpsc::Sender<News<S::Said, S::Totals>>) {
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
                event = self.socket.next(), if self.pending.len() < PENDING_MAX => self.event(event),
                () = sleep_until(deadline.unwrap_or(self.began)), if deadline.is_some() => self.give(Line::Wake),
            }
        }
        // Closing the connection does not wait for those who take their time.
        self.socket = Socket::Never;
        let totals = self.session.totals();
        for news in self.pending.into_iter().chain([News::Ended(totals)]) {
            if says.send(news).await.is_err() {
                return;
            }
        }
    }

    fn told(&mut self, told: S::Told) {
        if let Some(response) = S::cancels(&told) {
            self.pending.retain(|news| !matches!(news, News::Said(said) if S::meaning(said) == Meaning::Speech(response)));
        }
        let actions = self.session.takes(self.now(), Input::Told(told));
        self.carry_out(actions);
    }

    fn event(&mut self, event: Event<S::Incoming>) {
        match event {
            Event::Due => {
                let endpoint = self.endpoint.clone();
                self.socket = Socket::Connecting(Box::pin(async move { Connection::open(&endpoint).await }));
            }
            Event::Connected(Ok(connection)) => {
                self.socket = Socket::Up(connection);
                self.pending.push_back(News::Connected);
                self.give(Line::Connected);
            }
            Event::Incoming(Incoming::Event(event)) => self.give(Line::Server(*event)),
            Event::Connected(Err(error)) | Event::Incoming(Incoming::Ended(error)) => self.disconnected(error),
        }
    }

    fn disconnected(&mut self, error: TransportError) {
        let reason = error.to_string();
        let again_in = self.session.may_help(&error).then(|| self.wait(error.asked_wait()));
        self.socket = match again_in {
            Some(wait) => Socket::Waiting { until: Instant::now() + wait },
            None => Socket::Never,
        };
        self.pending.push_back(News::Disconnected { error, again_in });
        self.give(if again_in.is_some() { Line::Lost { reason } } else { Line::Gone { reason } });
    }

    /// How long to wait for the next connection. To be set is not enough to begin anew: a service may take every session and end it at once.
    fn wait(&mut self, asked: Option<Duration>) -> Duration {
        if self.ready_since.take().is_some_and(|since| since.elapsed() >= STOOD) {
            self.backoff.reset();
        }
        self.backoff.next(asked)
    }

    fn give(&mut self, line: Line<S::Incoming>) {
        let actions = self.session.takes(self.now(), Input::Line(line));
        self.carry_out(actions);
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_millis() as u64)
    }

    fn carry_out(&mut self, actions: Vec<Action<S::Outgoing, S::Said>>) {
        let mut failed = None;
        for action in actions {
            match action {
                // Where one could not be sent, the rest was for the same connection.
                Action::Send(event) => failed = failed.or_else(|| self.send(&event)),
                Action::Reconnect { reason } => {
                    self.socket = Socket::Waiting { until: Instant::now() + self.wait(None) };
                    self.pending.push_back(News::Reconnecting { reason });
                }
                Action::Said(said) => {
                    match S::meaning(&said) {
                        Meaning::Ready => self.ready_since = Some(Instant::now()),
                        Meaning::Refused => self.socket = Socket::Never,
                        Meaning::Speech(_) => self.backoff.reset(),
                        Meaning::Other => {}
                    }
                    self.pending.push_back(News::Said(said));
                }
            }
        }
        if let Some(error) = failed {
            self.disconnected(error);
        }
    }

    fn send(&self, event: &S::Outgoing) -> Option<TransportError> {
        match &self.socket {
            Socket::Up(connection) => connection.send(event).err(),
            _ => None,
        }
    }
}

/// A connection that was set for so long was a good one, though nothing was said over it: longer than the longest wait.
const STOOD: Duration = Duration::from_secs(10);
/// Five seconds of the caller's audio.
const TOLD_MAX: usize = 256;
/// A response of clauses, or several seconds of speech in pieces.
const NEWS_MAX: usize = 64;
/// So much more waits here before nothing more is read.
const PENDING_MAX: usize = 64;
