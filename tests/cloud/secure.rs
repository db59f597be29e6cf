//! Services behind TLS: who is trusted, and what is said where nobody is.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use recado::cognition::models::transport::{Endpoint, TransportError};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::TlsAcceptor;

use super::service::{Conduct, Service};
use super::talker::*;

/// An authority, its certificate's file, and a service that it vouches for.
struct Secure {
    file: tempfile::NamedTempFile,
    service: Service,
}

impl Secure {
    async fn start(authority: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, authority);
        let certificate = params.self_signed(&key).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), certificate.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        let own_key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&own_key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivatePkcs8KeyDer::from(own_key.serialize_der());
        let tls = tls.with_no_client_auth().with_single_cert(vec![own.der().clone()], key.into()).unwrap();
        let service = Service::start_with(vec![Conduct::default()], Some(TlsAcceptor::from(Arc::new(tls)))).await;
        Self { file, service }
    }

    fn url(&self, host: &str) -> String {
        format!("wss://{host}:{}/", self.service.address.port())
    }
}

#[tokio::test]
async fn a_service_behind_a_private_authority_is_reached_with_its_ca_file() {
    let secure = Secure::start("ours").await;
    let mut talker = Talker::open(&secure.url("localhost"), &format!("ca_file = '{}'", secure.file.path().display()));
    talker.ready().await;
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_or_of_another_host_names_the_remedy() {
    let secure = Secure::start("ours").await;
    let other = Secure::start("theirs").await;
    let trusting = |file: &tempfile::NamedTempFile| format!("ca_file = '{}'", file.path().display());
    let (error, _) = Talker::open(&secure.url("localhost"), &trusting(&other.file)).disconnected().await;
    assert!(error.to_string().contains("set cloud.realtime's `ca_file`"), "{error}");
    let (error, _) = Talker::open(&secure.url("127.0.0.1"), &trusting(&secure.file)).disconnected().await;
    assert!(error.to_string().contains("is for another host"), "{error}");
    assert_eq!(secure.service.seen.requests(), [""; 0], "no key has left the box");
}

#[test]
fn a_ca_file_that_is_none_is_said_to_be_so() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let settings = settings("wss://voice.example", &format!("ca_file = '{}'", file.path().display()));
    let error = Endpoint::new(&settings).unwrap_err();
    let begins = format!("cloud.realtime.ca_file: {} ", file.path().display());
    assert!(matches!(error, TransportError::Setup(_)) && error.to_string().starts_with(&begins), "{error}");
}
