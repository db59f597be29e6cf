//! Where a service is, and what a connection to it is asked for with.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use rustls::ClientConfig;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::header::{HeaderMap, HeaderValue, USER_AGENT};

use super::connection::ServerMessage;
use super::error::TransportError;
use crate::config::endpoint::request_headers;
use crate::config::{Gemini, KeyHeader, Live, Realtime, Secret};
use crate::outward::{ClientFault, SystemAuthorities, bounded_text};

/// What the configuration says of a service.
#[derive(Debug, Clone)]
pub struct Destination<'a> {
    /// The table that says it.
    pub table: &'static str,
    /// Where it is; none where that is no URL.
    pub url: Option<Url>,
    /// The file that holds its key.
    pub key_file: Option<&'a Path>,
    /// How the key is sent.
    pub key_header: KeyHeader,
    /// Further headers of the connection.
    pub headers: &'a BTreeMap<String, String>,
    /// A file with further certificate authorities.
    pub ca_file: Option<&'a Path>,
    /// How long a connection may take until it stands (ms).
    pub connect_timeout_ms: u64,
}

/// Where a service is. Read once; connected to as often as needed.
#[derive(Clone)]
pub struct Endpoint {
    /// The table of the configuration that it stands in.
    pub(super) table: &'static str,
    pub(super) url: Url,
    pub(super) connect_timeout: Duration,
    /// Present where the address asks for TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
    headers: HeaderMap,
    key: Option<Secret>,
}

impl Endpoint {
    /// The service that is configured. Reads the key, and the authorities that are trusted.
    ///
    /// # Errors
    /// What is wrong with the address, a header, the key or the authorities.
    pub fn new<'a>(destination: impl Into<Destination<'a>>) -> Result<Self, TransportError> {
        let Destination { table, url, key_file, key_header, headers: further, ca_file, connect_timeout_ms } = destination.into();
        let bad_url = |reason: &str| TransportError::Url { table, reason: reason.to_owned() };
        let url = url.ok_or_else(|| bad_url("it is no URL"))?;
        if !matches!(url.scheme(), "ws" | "wss") || !url.has_host() {
            return Err(bad_url("it must begin with `wss://` or `ws://` and name a host"));
        }
        let tls = match url.scheme() {
            "wss" => {
                let config = SystemAuthorities::load().tls(ca_file).map_err(|fault| TransportError::authorities(table, fault))?;
                Some(Arc::new(config))
            }
            _ => None,
        };
        let key = key_file.map(Secret::read).transpose().map_err(|error| TransportError::Key { table, error })?;
        let unusable = |(header, reason): (String, &str)| TransportError::Header { table, header, reason: reason.to_owned() };
        let mut headers = request_headers(further, key_header, key.as_ref()).map_err(unusable)?;
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("recado/", env!("CARGO_PKG_VERSION"))));
        Ok(Self { table, url, connect_timeout: Duration::from_millis(connect_timeout_ms), tls, headers, key })
    }

    /// The host and its port, for people.
    pub fn host(&self) -> String {
        let port = self.url.port_or_known_default().unwrap_or_default();
        format!("{}:{port}", self.url.host_str().unwrap_or_default())
    }

    /// What a connection is asked for with.
    pub(super) fn request(&self) -> Result<Request, TransportError> {
        let mut request = self.url.as_str().into_client_request().map_err(|error| self.unusable(error.to_string()))?;
        request.headers_mut().extend(self.headers.clone());
        Ok(request)
    }

    pub(super) fn unusable(&self, reason: String) -> TransportError {
        TransportError::Url { table: self.table, reason }
    }

    /// An event of the service, for whoever shows it: without the key, should the service repeat it in what it complains of.
    pub(super) fn hiding_key<M: ServerMessage>(&self, event: M) -> M {
        match &self.key {
            Some(key) => event.hiding(key.expose()),
            None => event,
        }
    }

    /// What a service says, for people: without the key, should it repeat it.
    pub(super) fn quoted(&self, text: &str) -> String {
        // First: what is cut in the middle is not found.
        let text = match &self.key {
            Some(key) => bounded_text(&text.replace(key.expose(), "***")),
            None => bounded_text(text),
        };
        if text.is_empty() { text } else { format!(": {text}") }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("host", &self.host()).finish_non_exhaustive()
    }
}

impl<'a> From<&'a Realtime> for Destination<'a> {
    fn from(realtime: &'a Realtime) -> Self {
        Self {
            table: "cloud.realtime",
            url: realtime.address(),
            key_file: realtime.key_file.as_deref(),
            key_header: realtime.key_header,
            headers: &realtime.headers,
            ca_file: realtime.ca_file.as_deref(),
            connect_timeout_ms: realtime.connect_timeout_ms,
        }
    }
}

impl<'a> From<&'a Gemini> for Destination<'a> {
    fn from(gemini: &'a Gemini) -> Self {
        Self {
            table: "cloud.gemini",
            url: gemini.address(),
            key_file: gemini.key_file.as_deref(),
            key_header: gemini.key_header,
            headers: &gemini.headers,
            ca_file: gemini.ca_file.as_deref(),
            connect_timeout_ms: gemini.connect_timeout_ms,
        }
    }
}

impl<'a> From<&'a Live> for Destination<'a> {
    fn from(live: &'a Live) -> Self {
        Self {
            table: "cloud.live",
            url: live.address(),
            key_file: live.key_file.as_deref(),
            key_header: live.key_header,
            headers: &live.headers,
            ca_file: live.ca_file.as_deref(),
            connect_timeout_ms: live.connect_timeout_ms,
        }
    }
}

impl TransportError {
    /// What is wrong with the authorities that `table` names.
    fn authorities(table: &'static str, fault: ClientFault) -> Self {
        match fault {
            ClientFault::File { path, reason } => Self::AuthoritiesFile { table, path, reason },
            ClientFault::NoAuthorities { detail } => Self::NoAuthorities { table, detail },
            ClientFault::Client(reason) => Self::Tls(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_repeats_the_key_is_quoted_without_any_of_it_wherever_it_stands() {
        let folder = tempfile::tempdir().unwrap();
        let (file, key) = (folder.path().join("key"), "sk-0123456789abcdef");
        std::fs::write(&file, key).unwrap();
        let settings: Realtime = toml::from_str(&format!("url = 'ws://127.0.0.1/'\nmodel = 'm'\nkey_file = '{}'", file.display())).unwrap();
        let endpoint = Endpoint::new(&settings).unwrap();
        for before in 0..400 {
            let quoted = endpoint.quoted(&format!("{}{key} is no key of ours", "x".repeat(before)));
            assert!(!quoted.contains("sk-"), "{quoted}");
        }
    }
}
