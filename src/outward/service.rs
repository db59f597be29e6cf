//! A service that is asked over HTTP, as a table of the configuration names it.

use std::fmt;

use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, Url};

use super::client::{Connections, client_for};
use super::setup::{ServiceSetupError, key_and_headers};
use super::words::{host_and_port, quoted, reason_given, transport_fault};
use crate::config::Secret;
use crate::config::endpoint::EndpointSettings;

/// A service that is asked over HTTP. Read once; asked as often as needed.
#[derive(Clone)]
pub(crate) struct HttpService {
    /// Where it is asked.
    pub url: Url,
    client: Client,
    headers: HeaderMap,
    key: Option<Secret>,
}

impl HttpService {
    /// The service of these settings, asked at `url`, which is none where the settings have none. Reads the key, and the authorities that are
    /// trusted; nothing is connected to.
    ///
    /// # Errors
    /// What is wrong with the address, a header, the key or the authorities.
    pub fn new(settings: EndpointSettings<'_>, url: Option<Url>, connections: Connections) -> Result<Self, ServiceSetupError> {
        let EndpointSettings { table, ca_file, .. } = settings;
        let url = url.ok_or_else(|| ServiceSetupError::no_http(table))?;
        let (key, headers) = key_and_headers(settings)?;
        let client = client_for(&url, ca_file, connections).map_err(|fault| ServiceSetupError::of_client(table, "https", fault))?;
        Ok(Self { url, client, headers, key })
    }

    /// A request to where it is asked.
    pub fn post(&self) -> RequestBuilder {
        self.client.post(self.url.clone()).headers(self.headers.clone())
    }

    /// A request for what it has at `url`.
    pub fn get(&self, url: Url) -> RequestBuilder {
        self.client.get(url).headers(self.headers.clone())
    }

    /// Its key, where it asks for one.
    pub fn key(&self) -> Option<&Secret> {
        self.key.as_ref()
    }

    /// What a failed answer's body says about the reason, without the key, should the service repeat it.
    pub fn reason_given(&self, body: &[u8]) -> Option<String> {
        reason_given(body, self.key())
    }

    /// Why it, called `whom`, could not be reached, without the key.
    pub fn transport_fault(&self, error: &reqwest::Error, whom: &str) -> String {
        quoted(&transport_fault(error, whom, &self.url), self.key())
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").field("host", &host_and_port(&self.url)).finish_non_exhaustive()
    }
}
