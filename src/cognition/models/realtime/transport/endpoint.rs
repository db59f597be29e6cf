//! Where a service is, and what a connection to it is asked for with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use rustls::ClientConfig;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;

use super::error::TransportError;
use crate::cognition::models::access::{Access, AccessFault};
use crate::cognition::models::realtime::wire::ServerEvent;
use crate::cognition::tools::{ClientFault, SystemAuthorities};
use crate::config::Realtime;

/// Where a service is. Read once; connected to as often as needed.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) url: Url,
    pub(super) connect_timeout: Duration,
    /// Present where the address asks for TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
    access: Access,
}

impl Endpoint {
    /// The service that is configured. Reads the key, and the authorities that are trusted.
    ///
    /// # Errors
    /// What is wrong with the address, a header, the key or the authorities.
    pub fn new(realtime: &Realtime) -> Result<Self, TransportError> {
        let url = realtime.address().ok_or_else(|| TransportError::Url("it is no URL".to_owned()))?;
        if !matches!(url.scheme(), "ws" | "wss") || !url.has_host() {
            return Err(TransportError::Url("it must begin with `wss://` or `ws://` and name a host".to_owned()));
        }
        let tls = match url.scheme() {
            "wss" => Some(Arc::new(SystemAuthorities::load().tls(realtime.ca_file.as_deref())?)),
            _ => None,
        };
        let access = Access::read(&realtime.headers, realtime.key_file.as_deref(), realtime.key_header)?;
        Ok(Self { url, connect_timeout: Duration::from_millis(realtime.connect_timeout_ms), tls, access })
    }

    /// The host and its port, for people.
    pub fn host(&self) -> String {
        let port = self.url.port_or_known_default().unwrap_or_default();
        format!("{}:{port}", self.url.host_str().unwrap_or_default())
    }

    /// What a connection is asked for with.
    pub(super) fn request(&self) -> Result<Request, TransportError> {
        let mut request = self.url.as_str().into_client_request().map_err(|error| TransportError::Url(error.to_string()))?;
        for (name, value) in self.access.headers() {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        Ok(request)
    }

    /// An event of the service, for whoever shows it: without the key, should the service repeat it in what it complains of.
    pub(super) fn hiding_key(&self, event: ServerEvent) -> ServerEvent {
        match self.access.key() {
            Some(key) => event.hiding(key.expose()),
            None => event,
        }
    }

    /// What a service says, for people: without the key, should it repeat it.
    pub(super) fn quoted(&self, text: &str) -> String {
        self.access.quoted(text)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("host", &self.host()).finish_non_exhaustive()
    }
}

impl From<AccessFault> for TransportError {
    fn from(fault: AccessFault) -> Self {
        match fault {
            AccessFault::Header { header, reason } => Self::Header { header, reason: reason.to_owned() },
            AccessFault::Key(error) => Self::Key(error),
        }
    }
}

impl From<ClientFault> for TransportError {
    fn from(fault: ClientFault) -> Self {
        match fault {
            ClientFault::File { path, reason } => Self::AuthoritiesFile { path, reason },
            ClientFault::NoAuthorities { detail } => Self::NoAuthorities(detail),
            ClientFault::Client(reason) => Self::Tls(reason),
        }
    }
}
