//! Whom a secure connection is trusted by, and what is said where it is not.

use std::error::Error;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};

use crate::config::open_file;

/// The certificate authorities that the system trusts.
pub(crate) struct SystemAuthorities {
    certificates: Vec<CertificateDer<'static>>,
    /// What went wrong in reading them.
    faults: Vec<String>,
}

impl SystemAuthorities {
    /// Those of the system's store, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    pub(crate) fn load() -> Self {
        let loaded = rustls_native_certs::load_native_certs();
        Self { certificates: loaded.certs, faults: loaded.errors.iter().map(ToString::to_string).collect() }
    }

    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self { certificates: Vec::new(), faults: Vec::new() }
    }

    /// What a secure connection is made with that trusts these, and those in `ca_file`.
    pub(crate) fn tls(&self, ca_file: Option<&Path>) -> Result<ClientConfig, ClientFault> {
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
}

/// Why there is no client, before it is known for whom.
pub(crate) enum ClientFault {
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

/// Why the connection to `whom` (the tool, the webhook) could not be trusted, with the remedy, if that is what is at the bottom
/// of `error`.
pub(crate) fn distrust(error: &(dyn Error + 'static), whom: &str) -> Option<String> {
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

/// What a secure connection is made with that trusts these alone.
pub(super) fn tls(roots: RootCertStore) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(versions.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth())
}

/// Many times all authorities that systems trust.
const AUTHORITIES_BYTES_MAX: u64 = 16 << 20;
