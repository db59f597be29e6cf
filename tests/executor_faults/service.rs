//! Services that answer as a test says, and remember what they were asked.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A request that a service was sent.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Asked {
    pub fn header(&self, name: &str) -> String {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// A service over HTTP.
#[derive(Clone)]
pub struct Service {
    pub base: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Service {
    /// One that answers by what it is asked, and how often its path has been asked for before.
    pub async fn start(answer: impl Fn(&Asked, usize) -> Response + Clone + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let service = Self { base, asked: Arc::default() };
        let seen = service.clone();
        let handler = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
            let asked = Asked { method, path: uri.path().to_owned(), headers, body };
            let before = seen.of(&asked.path).len();
            let response = answer(&asked, before);
            seen.asked.lock().expect("no panic").push(asked);
            response
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await });
        service
    }

    pub fn of(&self, path: &str) -> Vec<Asked> {
        self.asked.lock().expect("no panic").iter().filter(|asked| asked.path == path).cloned().collect()
    }

    pub fn all(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }
}

/// A service that reads the head of each request and then does what it is told with the connection. Gives its URL.
pub async fn raw<F: Future<Output = ()> + Send + 'static>(then: impl Fn(TcpStream, String) -> F + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let head = head(&mut stream).await;
            tokio::spawn(then(stream, head));
        }
    });
    format!("http://{address}/")
}

/// What stands before the empty line; the body of a request may have come with it.
pub async fn head(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => break,
            Ok(length) => request.extend_from_slice(&piece[..length]),
        }
    }
    String::from_utf8_lossy(&request).into_owned()
}

/// A service over TLS, for `host`, whose certificate is good until the given year.
pub struct Secure {
    pub port: u16,
    /// The authority that certifies it.
    pub authority: tempfile::NamedTempFile,
    requests: Arc<Mutex<usize>>,
}

impl Secure {
    pub async fn start(host: &str, until_year: i32) -> Self {
        let (issuer_key, key) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
        let mut issuer = CertificateParams::new(Vec::new()).expect("parameters");
        issuer.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(authority.path(), issuer.self_signed(&issuer_key).expect("a certificate").pem()).expect("written");
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("parameters");
        (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(until_year, 1, 1));
        let certificate = params.signed_by(&key, &Issuer::new(issuer, issuer_key)).expect("a certificate");
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .expect("a configuration");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::new(Mutex::new(0));
        let counted = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut request = [0; 4096];
                if stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                    *counted.lock().expect("no panic") += 1;
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                    // The other side may have gone.
                    let _ = stream.write_all(answer).await;
                    let _ = stream.shutdown().await;
                }
            }
        });
        Self { port, authority, requests }
    }

    /// Requests that it could read.
    pub fn requests(&self) -> usize {
        *self.requests.lock().expect("no panic")
    }
}
