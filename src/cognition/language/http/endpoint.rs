//! Where a part is, and what its requests carry.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tokio::time::{Instant, timeout};

use super::doubt::{Doubt, Proof};
use super::exchange::look;
use super::fault::{Again, Fault, Reach};
use crate::cognition::language::wire::{AnswerEvent, Unusable};
use crate::config::HttpPart;
use crate::outward::{Connections, HttpService, ServiceSetupError, host_and_port};

/// Where a part is. Read once; asked as often as needed.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub(super) service: HttpService,
    /// Its list of models.
    pub(super) models: Url,
    pub(super) timeouts: Timeouts,
    /// What its requests have come to. All calls share it.
    doubt: Arc<Doubt>,
}

/// How long an exchange may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Until the first of the answer comes.
    pub answer: Duration,
    /// Between two pieces of it.
    pub stall: Duration,
    /// All of it.
    pub whole: Duration,
}

impl Endpoint {
    /// What `part` calls `name`. Reads the key, and the authorities that are trusted.
    ///
    /// # Errors
    /// What is wrong with the address, a header, the key or the authorities.
    pub fn new(part: &HttpPart<'_>, name: &str) -> Result<Self, ServiceSetupError> {
        let ms = Duration::from_millis;
        let connections =
            Connections { connect_timeout: Some(ms(part.connect_timeout_ms)), idle_kept: IDLE_CONNECTION_KEPT, idle_max: None };
        let service = HttpService::new(part.endpoint, part.address(name), connections)?;
        let models = part.address("models").ok_or_else(|| ServiceSetupError::no_http(part.endpoint.table))?;
        let timeouts = Timeouts { answer: ms(part.answer_timeout_ms), stall: ms(part.stall_timeout_ms), whole: ms(part.whole_timeout_ms) };
        Ok(Self { service, models, timeouts, doubt: Arc::default() })
    }

    /// Whether the service can be asked, within this time. Nothing is asked for that is charged for, unless the service has failed to do what it
    /// was asked, or refuses what is for nothing: then `request`, a small one, is made, no sooner than it has asked for and with longer and longer waits.
    ///
    /// # Errors
    /// Why not.
    pub(super) async fn look_within(&self, patience: Duration, request: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
        match self.doubt.proof(Instant::now()) {
            Proof::NotYet(fault) => Err(fault),
            Proof::Look => match timeout(patience, look(self)).await.unwrap_or_else(|_| Err(Fault::slow(patience))) {
                // Some keys are for answers and not for the list of models, and some services have none.
                Err(Fault { reach: Reach::Refuses, .. }) => self.try_with(patience, request).await,
                seen => seen,
            },
            Proof::Request => self.try_with(patience, request).await,
        }
    }

    /// Makes a request to find out whether the service does what it is asked for, within this time.
    async fn try_with(&self, patience: Duration, request: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
        let came_of_it = timeout(patience, request).await.unwrap_or_else(|_| Err(Fault::slow(patience)));
        self.doubt.tried(Instant::now(), &came_of_it);
        match came_of_it {
            // It answers; what this request was wrong about is no matter.
            Err(Fault { reach: Reach::Answers, again: Again::Never, .. }) => Ok(()),
            came_of_it => came_of_it,
        }
    }

    /// Remembers what a request of a conversation says of the service.
    pub(super) fn learnt<T>(&self, came_of_it: &Result<T, Fault>) {
        self.doubt.learnt(Instant::now(), came_of_it);
    }

    /// A request of a conversation was given up: nobody waits any longer.
    pub fn gave_up(&self, fault: Fault) {
        self.doubt.learnt::<()>(Instant::now(), &Err(fault));
    }

    /// What came can't be used: why, without the key.
    pub(super) fn fault(&self, unusable: Unusable) -> Fault {
        match self.service.key() {
            Some(key) => unusable.hiding(key).into(),
            None => unusable.into(),
        }
    }

    /// What came of an answer, without the key where it may be shown.
    pub(super) fn hiding_key(&self, event: AnswerEvent) -> AnswerEvent {
        match self.service.key() {
            Some(key) => event.hiding(key),
            None => event,
        }
    }

    /// The host and its port, for people.
    pub fn host(&self) -> String {
        host_and_port(&self.service.url)
    }
}

/// Longer than callers and models talk between two turns; a service that closes it before is connected to anew.
const IDLE_CONNECTION_KEPT: Duration = Duration::from_secs(55);
