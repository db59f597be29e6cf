//! Where a service is, and what a connection to it is asked for with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use rustls::ClientConfig;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::header::{self, HeaderMap, HeaderValue};

use super::connection::ServerMessage;
use super::error::TransportError;
use crate::config::endpoint::EndpointSettings;
use crate::config::{Secret, SpeechModel};
use crate::outward::{ServiceSetupError, SystemAuthorities, USER_AGENT, host_and_port, key_and_headers, quoted};

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
    pub fn new<'a>(service: impl Into<SpeechModel<'a>>) -> Result<Self, TransportError> {
        let SpeechModel { endpoint, address, connect_timeout_ms, .. } = service.into();
        let EndpointSettings { table, ca_file, .. } = endpoint;
        let bad_url = |reason: &str| ServiceSetupError::Url { table, reason: reason.to_owned() };
        let url = address.ok_or_else(|| bad_url("it is no URL"))?;
        if !matches!(url.scheme(), "ws" | "wss") || !url.has_host() {
            return Err(bad_url("it must begin with `wss://` or `ws://` and name a host").into());
        }
        let tls = match url.scheme() {
            "wss" => {
                let config = SystemAuthorities::load().tls(ca_file).map_err(|fault| ServiceSetupError::of_client(table, "wss", fault))?;
                Some(Arc::new(config))
            }
            _ => None,
        };
        let (key, mut headers) = key_and_headers(endpoint)?;
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        Ok(Self { table, url, connect_timeout: Duration::from_millis(connect_timeout_ms), tls, headers, key })
    }

    /// The host and its port, for people.
    pub fn host(&self) -> String {
        host_and_port(&self.url)
    }

    /// What a connection is asked for with.
    pub(super) fn request(&self) -> Result<Request, TransportError> {
        let mut request = self.url.as_str().into_client_request().map_err(|error| self.unusable(error.to_string()))?;
        request.headers_mut().extend(self.headers.clone());
        Ok(request)
    }

    pub(super) fn unusable(&self, reason: String) -> TransportError {
        ServiceSetupError::Url { table: self.table, reason }.into()
    }

    /// An event of the service, for whoever shows it: without the key, should the service repeat it in what it complains of.
    pub(super) fn hiding_key<M: ServerMessage>(&self, event: M) -> M {
        match &self.key {
            Some(key) => event.hiding(key),
            None => event,
        }
    }

    /// What a service says, for people: without the key, should it repeat it.
    pub(super) fn quoted(&self, text: &str) -> String {
        let text = quoted(text, self.key.as_ref());
        if text.is_empty() { text } else { format!(": {text}") }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("host", &self.host()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Realtime;

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
