//! Where a part is, and what its requests carry.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Url};
use rustls::RootCertStore;
use tokio::time::{Instant, timeout};

use super::doubt::{Doubt, Proof};
use super::exchange::look;
use super::fault::{Again, Fault, Reach};
use crate::cognition::models::cascade::wire::Unusable;
use crate::config::endpoint::request_headers;
use crate::config::{HttpPart, Secret, SecretError};
use crate::outward::{ClientFault, SystemAuthorities, tls};

/// Where a part is. Read once; asked as often as needed.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) url: Url,
    /// Its list of models.
    pub(super) models: Url,
    pub(super) client: Client,
    pub(super) headers: HeaderMap,
    key: Option<Secret>,
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

/// Why a part can't be asked as it is configured. None of these shows the key.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The address can't be used: correct it.
    #[error("{table}.url: it must begin with http:// or https:// and name a host")]
    Url {
        /// The table that it stands in.
        table: &'static str,
    },
    /// A header can't be sent: correct or remove it.
    #[error("{table}.headers: {header} can't be sent: {reason}")]
    Header {
        /// The table that it stands in.
        table: &'static str,
        /// The header's name. Its value may be a secret and is not repeated.
        header: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The key can't be had: correct the file, or its path.
    #[error("{table}.key_file: {error}")]
    Key {
        /// The table that it stands in.
        table: &'static str,
        /// Why.
        error: SecretError,
    },
    /// The file with certificate authorities can't be used: correct it, or its path.
    #[error("{table}.ca_file: {} {reason}", path.display())]
    AuthoritiesFile {
        /// The table that it stands in.
        table: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nobody to trust: install the authorities, or name a file of them.
    #[error(
        "this box has no certificate authorities to check `https` with{detail}: install the package `ca-certificates`, or set {table}.ca_file"
    )]
    NoAuthorities {
        /// The table that the part stands in.
        table: &'static str,
        /// What the system's store said.
        detail: String,
    },
    /// No client can be made.
    #[error("{table}: no HTTP client can be made: {reason}")]
    Client {
        /// The table that the part stands in.
        table: &'static str,
        /// Why.
        reason: String,
    },
}

impl Endpoint {
    /// What `part` calls `name`. Reads the key, and the authorities that are trusted.
    ///
    /// # Errors
    /// What is wrong with the address, a header, the key or the authorities.
    pub fn new(part: &HttpPart<'_>, name: &str) -> Result<Self, EndpointError> {
        let table = part.table;
        let address = |name| part.address(name).ok_or(EndpointError::Url { table });
        let (url, models) = (address(name)?, address("models")?);
        let key = part.key_file.map(|file| Secret::read(file)).transpose().map_err(|error| EndpointError::Key { table, error })?;
        let headers = request_headers(part.headers, part.key_header, key.as_ref()).map_err(|(header, reason)| EndpointError::Header {
            table,
            header,
            reason,
        })?;
        let tls = match url.scheme() {
            "https" => SystemAuthorities::load().tls(part.ca_file.map(PathBuf::as_path)),
            // Nothing can be reached by `https`, and nothing is.
            _ => tls(RootCertStore::empty()).map_err(ClientFault::Client),
        };
        let tls = tls.map_err(|fault| match fault {
            ClientFault::File { path, reason } => EndpointError::AuthoritiesFile { table, path, reason },
            ClientFault::NoAuthorities { detail } => EndpointError::NoAuthorities { table, detail },
            ClientFault::Client(reason) => EndpointError::Client { table, reason },
        })?;
        let ms = Duration::from_millis;
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            // Whether a request is made again is the session's to say.
            .retry(reqwest::retry::never())
            .no_proxy()
            .referer(false)
            .connect_timeout(ms(part.connect_timeout_ms))
            .pool_idle_timeout(IDLE_CONNECTION_KEPT)
            .user_agent(concat!("recado/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| EndpointError::Client { table, reason: error.to_string() })?;
        let timeouts = Timeouts { answer: ms(part.answer_timeout_ms), stall: ms(part.stall_timeout_ms), whole: ms(part.whole_timeout_ms) };
        Ok(Self { url, models, client, headers, key, timeouts, doubt: Arc::default() })
    }

    /// Whether the service can be asked, within this time. Nothing is asked for that is charged for, unless the service has failed to do what it
    /// was asked: then `request`, a small one, is made, no sooner than it has asked for and with longer and longer waits.
    ///
    /// # Errors
    /// Why not.
    pub(super) async fn look_within(&self, patience: Duration, request: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
        let too_slow = |_| Err(Fault::slow(patience));
        match self.doubt.proof(Instant::now()) {
            Proof::NotYet(fault) => Err(fault),
            Proof::Look => timeout(patience, look(self)).await.unwrap_or_else(too_slow),
            Proof::Request => {
                let came_of_it = timeout(patience, request).await.unwrap_or_else(too_slow);
                self.doubt.tried(Instant::now(), &came_of_it);
                match came_of_it {
                    // It answers; what this request was wrong about is no matter.
                    Err(Fault { reach: Reach::Answers, again: Again::Never, .. }) => Ok(()),
                    came_of_it => came_of_it,
                }
            }
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

    /// A text without the key, should the service repeat it in what it says.
    pub(super) fn hiding_key(&self, text: &str) -> String {
        match &self.key {
            Some(key) => text.replace(key.expose(), "***"),
            None => text.to_owned(),
        }
    }

    /// What came can't be used: why, without the key.
    pub(super) fn fault(&self, unusable: Unusable) -> Fault {
        match &self.key {
            Some(key) => unusable.hiding(key.expose()).into(),
            None => unusable.into(),
        }
    }

    /// The host and its port, for people.
    pub fn host(&self) -> String {
        let port = self.url.port_or_known_default().unwrap_or_default();
        format!("{}:{port}", self.url.host_str().unwrap_or_default())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("host", &self.host()).finish_non_exhaustive()
    }
}

/// Longer than callers and models talk between two turns; a service that closes it before is connected to anew.
const IDLE_CONNECTION_KEPT: Duration = Duration::from_secs(55);
