//! A service that is asked over HTTP, as a table of the configuration names it.

use std::fmt;
use std::path::PathBuf;

use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, Url};

use super::client::{Connections, client_for};
use super::trust::ClientFault;
use super::words::host_and_port;
use crate::config::endpoint::{EndpointSettings, request_headers};
use crate::config::{Secret, SecretError};

/// A service that is asked over HTTP. Read once; asked as often as needed.
#[derive(Clone)]
pub(crate) struct HttpService {
    /// Where it is asked.
    pub url: Url,
    client: Client,
    headers: HeaderMap,
    key: Option<Secret>,
}

/// Why a service can't be asked as it is configured. None of these shows the key.
#[derive(Debug, thiserror::Error)]
pub enum HttpServiceError {
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
        /// The table that the service stands in.
        table: &'static str,
        /// What the system's store said.
        detail: String,
    },
    /// No client can be made.
    #[error("{table}: no HTTP client can be made: {reason}")]
    Client {
        /// The table that the service stands in.
        table: &'static str,
        /// Why.
        reason: String,
    },
}

impl HttpService {
    /// The service of these settings, asked at `url`, which is none where the settings have none. Reads the key, and the authorities that are
    /// trusted; nothing is connected to.
    ///
    /// # Errors
    /// What is wrong with the address, a header, the key or the authorities.
    pub fn new(settings: EndpointSettings<'_>, url: Option<Url>, connections: Connections) -> Result<Self, HttpServiceError> {
        let EndpointSettings { table, key_file, key_header, headers, ca_file, .. } = settings;
        let url = url.ok_or(HttpServiceError::Url { table })?;
        let key = key_file.map(Secret::read).transpose().map_err(|error| HttpServiceError::Key { table, error })?;
        let headers = request_headers(headers, key_header, key.as_ref()).map_err(|(header, reason)| HttpServiceError::Header {
            table,
            header,
            reason,
        })?;
        let client = client_for(&url, ca_file, connections).map_err(|fault| match fault {
            ClientFault::File { path, reason } => HttpServiceError::AuthoritiesFile { table, path, reason },
            ClientFault::NoAuthorities { detail } => HttpServiceError::NoAuthorities { table, detail },
            ClientFault::Client(reason) => HttpServiceError::Client { table, reason },
        })?;
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

    /// A text without the key, should the service repeat it in what it says.
    pub fn hiding_key(&self, text: &str) -> String {
        match &self.key {
            Some(key) => text.replace(key.expose(), "***"),
            None => text.to_owned(),
        }
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").field("host", &host_and_port(&self.url)).finish_non_exhaustive()
    }
}
