//! What a service of `[cloud]` is asked with, as its table says, and why it can't be.

use std::path::PathBuf;

use reqwest::header::HeaderMap;

use super::trust::ClientFault;
use crate::config::endpoint::{EndpointSettings, request_headers};
use crate::config::{Secret, SecretError};

/// Why a service can't be asked as it is configured. None of these shows the key.
#[derive(Debug, thiserror::Error)]
pub enum ServiceSetupError {
    /// The address can't be used: correct the table's `url`.
    #[error("{table}.url can't be used: {reason}")]
    Url {
        /// The table of the configuration.
        table: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A header can't be sent: correct or remove it.
    #[error("{table}.headers: {header} can't be sent: {reason}")]
    Header {
        /// The table of the configuration.
        table: &'static str,
        /// The header's name. Its value may be a secret and is not repeated.
        header: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The key can't be had: correct the table's `key_file`.
    #[error("{table}.key_file: {error}")]
    Key {
        /// The table of the configuration.
        table: &'static str,
        /// Why.
        error: SecretError,
    },
    /// The file with certificate authorities can't be used: correct it, or its path.
    #[error("{table}.ca_file: {} {reason}", path.display())]
    AuthoritiesFile {
        /// The table of the configuration.
        table: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nobody to trust: install the authorities, or name a file of them.
    #[error(
        "this box has no certificate authorities to check `{scheme}` with{detail}: install the package `ca-certificates`, or set {table}.ca_file"
    )]
    NoAuthorities {
        /// The table of the configuration.
        table: &'static str,
        /// How its address begins.
        scheme: &'static str,
        /// What the system's store said.
        detail: String,
    },
    /// No client can be made.
    #[error("{table}: no client can be made: {reason}")]
    Client {
        /// The table of the configuration.
        table: &'static str,
        /// Why.
        reason: String,
    },
}

impl ServiceSetupError {
    /// The address in `table` is none that HTTP knows.
    pub(crate) fn no_http(table: &'static str) -> Self {
        Self::Url { table, reason: "it must begin with `https://` or `http://` and name a host".to_owned() }
    }

    /// Why there is no client for the service of `table`, whose address begins with `scheme`.
    pub(crate) fn of_client(table: &'static str, scheme: &'static str, fault: ClientFault) -> Self {
        match fault {
            ClientFault::File { path, reason } => Self::AuthoritiesFile { table, path, reason },
            ClientFault::NoAuthorities { detail } => Self::NoAuthorities { table, scheme, detail },
            ClientFault::Client(reason) => Self::Client { table, reason },
        }
    }
}

/// The key of a service, read from its file, and the headers of whatever it is asked.
///
/// # Errors
/// What is wrong with the key or a header.
pub(crate) fn key_and_headers(settings: EndpointSettings<'_>) -> Result<(Option<Secret>, HeaderMap), ServiceSetupError> {
    let EndpointSettings { table, key_file, key_header, headers, .. } = settings;
    let key = key_file.map(Secret::read).transpose().map_err(|error| ServiceSetupError::Key { table, error })?;
    let unusable = |(header, reason)| ServiceSetupError::Header { table, header, reason };
    let headers = request_headers(headers, key_header, key.as_ref()).map_err(unusable)?;
    Ok((key, headers))
}
