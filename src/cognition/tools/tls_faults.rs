//! Services on loopback with certificates that are right, wrong or old, and what becomes of the attempt.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use recado_core::ledger::{AttemptOutcome, Executed};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::error::ToolError;
use super::http::HttpTool;
use super::http_faults::{clients, dispatch, expect, tool, unreachable};
use super::port::{Sent, ToolPort};

#[tokio::test]
async fn a_tool_behind_a_private_authority_works_with_its_ca_file() {
    let authority = Authority::new("ours");
    let service = Service::start(&authority, "localhost", 4096).await;
    assert_eq!(attempt(&service.url("localhost"), authority.file.path()).await, AttemptOutcome::Succeeded(json!({ "table": 4 })));
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused_before_anything_is_sent_and_names_the_remedy() {
    let service = Service::start(&Authority::new("theirs"), "localhost", 4096).await;
    let outcome = attempt(&service.url("localhost"), Authority::new("ours").file.path()).await;
    expect(&outcome, Executed::No, true, None, "set the tool's `ca_file`");
    assert_eq!(service.requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_expired_certificate_and_a_clock_in_the_past_are_told_apart_from_a_wrong_host() {
    let authority = Authority::new("ours");
    let expired = Service::start(&authority, "localhost", 2001).await;
    let outcome = attempt(&expired.url("localhost"), authority.file.path()).await;
    expect(&outcome, Executed::No, true, None, "has expired, or this box's clock is wrong");
    let elsewhere = Service::start(&authority, "shop.example", 4096).await;
    let outcome = attempt(&elsewhere.url("localhost"), authority.file.path()).await;
    expect(&outcome, Executed::No, true, None, "is for another host");
    assert_eq!(expired.requests.load(Ordering::SeqCst) + elsewhere.requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_handshake_that_hangs_reaches_nobody_and_one_that_is_none_provably_executed_nothing() {
    let authority = Authority::new("ours");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let mut hanging = tool(&url);
    hanging.ca_file = Some(authority.file.path().to_owned());
    hanging.timeout_ms = 200;
    let outcome = HttpTool::new(&hanging, &mut clients(), None).unwrap().attempt(dispatch(1), Sent::default()).await;
    unreachable(&outcome, "within 200 ms");
    drop(listener);

    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", plain.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = plain.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    expect(&attempt(&url, authority.file.path()).await, Executed::No, true, None, "secure connection to the tool failed");
}

#[test]
fn a_box_without_authorities_says_so_at_start_and_needs_none_for_plain_http() {
    let refused = |change: &dyn Fn(&mut crate::config::Tool)| {
        let mut tool = tool("https://localhost/");
        change(&mut tool);
        HttpTool::new(&tool, &mut clients(), None).err().map(|error| error.to_string())
    };
    let error = HttpTool::new(&tool("https://localhost/"), &mut clients(), None).err();
    assert!(matches!(error, Some(ToolError::NoAuthorities { .. })));
    assert!(error.is_some_and(|error| error.to_string().contains("install the package `ca-certificates`")));
    assert!(HttpTool::new(&tool("http://localhost/"), &mut clients(), None).is_ok());
    assert!(refused(&|tool| tool.ca_file = Some("/nowhere/ca.pem".into())).unwrap().contains("`ca_file` /nowhere/ca.pem: can't be read"));
    let none = tempfile::NamedTempFile::new().unwrap();
    assert!(refused(&|tool| tool.ca_file = Some(none.path().to_owned())).unwrap().contains("holds no certificate"));
    std::fs::write(none.path(), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    assert!(refused(&|tool| tool.ca_file = Some(none.path().to_owned())).unwrap().contains("can't be used"));
    std::fs::write(none.path(), "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n").unwrap();
    assert!(refused(&|tool| tool.ca_file = Some(none.path().to_owned())).unwrap().contains("is not PEM"));
}

/// A certificate authority, and the file that makes it trusted.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: tempfile::NamedTempFile,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), certificate.pem()).unwrap();
        Self { issuer: Issuer::new(params, key), file }
    }

    fn certify(&self, host: &str, until_year: i32) -> (CertificateDer<'static>, PrivatePkcs8KeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until_year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()))
    }
}

/// A service over TLS that counts the requests that it could read.
struct Service {
    port: u16,
    requests: Arc<AtomicUsize>,
}

impl Service {
    async fn start(authority: &Authority, host: &str, until_year: i32) -> Self {
        let (certificate, key) = authority.certify(host, until_year);
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<AtomicUsize> = Arc::default();
        let counted = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut request = [0; 4096];
                if stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\nconnection: close\r\n\r\n{\"table\":4}";
                    stream.write_all(answer).await.unwrap();
                    stream.shutdown().await.unwrap();
                }
            }
        });
        Self { port, requests }
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/", self.port)
    }
}

async fn attempt(url: &str, ca_file: &Path) -> AttemptOutcome {
    let mut tool = tool(url);
    tool.ca_file = Some(ca_file.to_owned());
    HttpTool::new(&tool, &mut clients(), None).unwrap().attempt(dispatch(1), Sent::default()).await
}
