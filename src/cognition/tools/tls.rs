//! Whom an `https://` tool is trusted by, and the HTTP clients that follow from it.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};

use super::error::ToolError;
use crate::config::{Tool, open_file};

/// The HTTP clients of all tools: one for each distinct way of trusting and of using connections.
pub(super) struct Clients {
    system: SystemAuthorities,
    made: HashMap<ClientKind, Client>,
}

/// The certificate authorities that the system trusts.
pub(in crate::cognition) struct SystemAuthorities {
    certificates: Vec<CertificateDer<'static>>,
    /// What went wrong in reading them.
    faults: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ClientKind {
    https: bool,
    ca_file: Option<PathBuf>,
    reuses_connections: bool,
}

impl SystemAuthorities {
    /// Those of the system's store, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    pub(in crate::cognition) fn load() -> Self {
        let loaded = rustls_native_certs::load_native_certs();
        Self { certificates: loaded.certs, faults: loaded.errors.iter().map(ToString::to_string).collect() }
    }

    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { certificates: Vec::new(), faults: Vec::new() }
    }

    /// What a secure connection is made with that trusts these, and those in `ca_file`.
    pub(in crate::cognition) fn tls(&self, ca_file: Option<&Path>) -> Result<ClientConfig, ClientFault> {
        let mut roots = RootCertStore::empty();
        // The system's store may hold some that this implementation can't read; the others still count.
        roots.add_parsable_certificates(self.certificates.iter().cloned());
        if let Some(path) = ca_file {
            add_file(&mut roots, path).map_err(|reason| ClientFault::File { path: path.to_owned(), reason })?;
        }
        if roots.is_empty() {
            let detail = self.faults.first().map(|fault| format!(" ({fault})")).unwrap_or_default();
            return Err(ClientFault::NoAuthorities { detail });
        }
        tls(roots).map_err(ClientFault::Client)
    }

    /// A client for one service behind `https`, which keeps its connections for so long after they were used.
    pub(in crate::cognition) fn client(
        &self,
        ca_file: Option<&Path>,
        connect_timeout: Duration,
        idle_kept: Duration,
    ) -> Result<Client, ClientFault> {
        build(self.tls(ca_file)?, connect_timeout, Some(idle_kept)).map_err(ClientFault::Client)
    }
}

/// A client for one service behind `http`. Nothing can be reached by `https`, and nothing is.
pub(in crate::cognition) fn client_without_tls(connect_timeout: Duration, idle_kept: Duration) -> Result<Client, ClientFault> {
    tls(RootCertStore::empty()).and_then(|tls| build(tls, connect_timeout, Some(idle_kept))).map_err(ClientFault::Client)
}

impl Clients {
    pub(super) fn new(system: SystemAuthorities) -> Self {
        Self { system, made: HashMap::new() }
    }

    /// The client for `tool`, shared with tools that need the same.
    ///
    /// A tool that is not idempotent gets a new connection for each attempt: on a kept one, a tool that closes it in
    /// the same instant would leave a request of which nobody knows whether it arrived, and which can't be repeated.
    pub(super) fn client(&mut self, tool: &Tool, https: bool) -> Result<Client, ToolError> {
        self.shared(tool.ca_file.as_deref(), tool.idempotent, https).map_err(|fault| fault.of_tool(&tool.name))
    }

    /// The client for the webhook, whose requests may be repeated.
    pub(super) fn webhook(&mut self, ca_file: Option<&Path>, https: bool) -> Result<Client, ToolError> {
        self.shared(ca_file, true, https).map_err(ClientFault::of_webhook)
    }

    fn shared(&mut self, ca_file: Option<&Path>, reuses_connections: bool, https: bool) -> Result<Client, ClientFault> {
        let ca_file = ca_file.filter(|_| https).map(Path::to_owned);
        let kind = ClientKind { https, ca_file, reuses_connections };
        if let Some(client) = self.made.get(&kind) {
            return Ok(client.clone());
        }
        // Without certificates, nothing can be reached by `https`, and nothing is.
        let tls =
            if https { self.system.tls(kind.ca_file.as_deref())? } else { tls(RootCertStore::empty()).map_err(ClientFault::Client)? };
        let idle = if kind.reuses_connections { Some(IDLE_CONNECTION_KEPT) } else { None };
        let client = build(tls, CONNECT_TIMEOUT, idle).map_err(ClientFault::Client)?;
        self.made.insert(kind, client.clone());
        Ok(client)
    }

    /// How many have been made.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.made.len()
    }
}

/// Why there is no client, before it is known for whom.
pub(in crate::cognition) enum ClientFault {
    /// The file with further authorities can't be used.
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nobody to trust.
    NoAuthorities {
        /// What the system's store said, where it said something.
        detail: String,
    },
    /// The settings that were chosen here do not go together.
    Client(String),
}

impl ClientFault {
    fn of_tool(self, tool: &str) -> ToolError {
        let tool = tool.to_owned();
        match self {
            Self::File { path, reason } => ToolError::File { tool, setting: "ca_file", path, reason },
            Self::NoAuthorities { detail } => ToolError::NoAuthorities { tool, detail },
            Self::Client(reason) => ToolError::Client { tool, reason },
        }
    }

    fn of_webhook(self) -> ToolError {
        let (setting, reason) = match self {
            Self::File { path, reason } => ("ca_file", format!("{} {reason}", path.display())),
            Self::NoAuthorities { detail } => {
                ("ca_file", format!("this box has no certificate authorities to check `https` with{detail}: name them there"))
            }
            Self::Client(reason) => ("url", format!("no HTTP client can be made: {reason}")),
        };
        ToolError::Webhook { setting, reason }
    }
}

/// Why the connection to `whom` (the tool, the webhook) could not be trusted, with the remedy, if that is what is at the bottom
/// of `error`.
pub(in crate::cognition) fn distrust(error: &(dyn Error + 'static), whom: &str) -> Option<String> {
    use CertificateError as C;
    let fault = rustls_error(error)?;
    let rustls::Error::InvalidCertificate(certificate) = fault else {
        return Some(format!("the secure connection to {whom} failed: {fault}"));
    };
    Some(match certificate {
        C::UnknownIssuer => {
            format!(
                "{whom}'s certificate is signed by an authority that this box does not trust: set {whom}'s `ca_file` to that authority's certificate"
            )
        }
        C::Expired | C::ExpiredContext { .. } => {
            format!("{whom}'s certificate has expired, or this box's clock is wrong: renew the certificate, or check the clock")
        }
        C::NotValidYet | C::NotValidYetContext { .. } => {
            format!("{whom}'s certificate is not valid yet, or this box's clock is in the past: check the clock")
        }
        C::NotValidForName | C::NotValidForNameContext { .. } => {
            format!("{whom}'s certificate is for another host: use the host name that it is for in {whom}'s `url`")
        }
        other => format!("{whom}'s certificate is not accepted: {other}"),
    })
}

fn rustls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(fault) = error.downcast_ref::<rustls::Error>() {
            return Some(fault);
        }
        // An I/O error shows the source of what it wraps, not what it wraps.
        let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let file = open_file(path).map_err(|error| format!("can't be read: {error}"))?;
    let mut count = 0;
    for certificate in CertificateDer::pem_reader_iter(BufReader::new(file.take(AUTHORITIES_BYTES_MAX))) {
        let certificate = certificate.map_err(|error| format!("is not PEM: {error}"))?;
        roots.add(certificate).map_err(|error| format!("holds a certificate that can't be used: {error}"))?;
        count += 1;
    }
    if count == 0 { Err("holds no certificate (a block that begins with `-----BEGIN CERTIFICATE-----`)".to_owned()) } else { Ok(()) }
}

fn tls(roots: RootCertStore) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(versions.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth())
}

/// A client that keeps a connection for so long after it was used, if at all.
fn build(tls: ClientConfig, connect_timeout: Duration, idle_kept: Option<Duration>) -> Result<Client, String> {
    Client::builder()
        .tls_backend_preconfigured(tls)
        // Whoever asks performs the attempt that it is given, there and once.
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(idle_kept)
        .pool_max_idle_per_host(if idle_kept.is_some() { IDLE_CONNECTIONS_MAX } else { 0 })
        .user_agent(concat!("recado/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error.to_string())
}

/// Many times all authorities that systems trust.
const AUTHORITIES_BYTES_MAX: u64 = 16 << 20;

/// Long enough for two lost SYNs and a TLS handshake; a tool's own `timeout_ms` still bounds the whole attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Shorter than the 5 s after which common servers close an idle connection.
const IDLE_CONNECTION_KEPT: Duration = Duration::from_secs(4);

/// As many as one tool's attempts at a time commonly leave behind.
const IDLE_CONNECTIONS_MAX: usize = 4;
