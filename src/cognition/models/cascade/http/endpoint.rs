//! Where a part is, and what its requests carry.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tokio::sync::watch;

use super::exchange::look;
use super::fault::{Again, Fault, Reach};
use crate::cognition::models::cascade::wire::Unusable;
use crate::config::HttpPart;
use crate::outward::{Connections, HttpService, HttpServiceError, host_and_port};

/// Where a part is. Read once; asked as often as needed.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub(super) service: HttpService,
    /// Its list of models.
    pub(super) models: Url,
    pub(super) timeouts: Timeouts,
    /// Why it does nothing for this box, since it last said so for good. All calls share it.
    refusal: Arc<watch::Sender<Option<Fault>>>,
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
    pub fn new(part: &HttpPart<'_>, name: &str) -> Result<Self, HttpServiceError> {
        let ms = Duration::from_millis;
        let connections =
            Connections { connect_timeout: Some(ms(part.connect_timeout_ms)), idle_kept: IDLE_CONNECTION_KEPT, idle_max: None };
        let service = HttpService::new(part.endpoint, part.address(name), connections)?;
        let models = part.address("models").ok_or(HttpServiceError::Url { table: part.endpoint.table })?;
        let timeouts = Timeouts { answer: ms(part.answer_timeout_ms), stall: ms(part.stall_timeout_ms), whole: ms(part.whole_timeout_ms) };
        Ok(Self { service, models, timeouts, refusal: Arc::new(watch::Sender::new(None)) })
    }

    /// Whether the service can be asked, without asking for anything that is charged for. What it refuses for good it is believed, until a
    /// request comes to something.
    ///
    /// # Errors
    /// Why not.
    pub async fn look(&self) -> Result<(), Fault> {
        let refusal = self.refusal.borrow().clone();
        match refusal {
            Some(refusal) => Err(refusal),
            None => look(self).await,
        }
    }

    /// Remembers what a request says of the service.
    pub(super) fn learnt<T>(&self, came_of_it: &Result<T, Fault>) {
        match came_of_it {
            Ok(_) => drop(self.refusal.send_replace(None)),
            Err(fault) if (fault.reach, fault.again) == (Reach::Refuses, Again::Never) => {
                self.refusal.send_replace(Some(fault.clone()));
            }
            Err(_) => {}
        }
    }

    /// What came can't be used: why, without the key.
    pub(super) fn fault(&self, unusable: Unusable) -> Fault {
        match self.service.key() {
            Some(key) => unusable.hiding(key.expose()).into(),
            None => unusable.into(),
        }
    }

    /// The host and its port, for people.
    pub fn host(&self) -> String {
        host_and_port(&self.service.url)
    }
}

/// Longer than callers and models talk between two turns; a service that closes it before is connected to anew.
const IDLE_CONNECTION_KEPT: Duration = Duration::from_secs(55);
