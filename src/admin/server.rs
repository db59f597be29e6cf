//! The HTTP server: its routes, its socket, its bounds.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use axum::{Json, Router};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Sleep;

use super::{HealthState, Status};
use crate::telemetry::Measures;

/// Why the server can't serve.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Another process has the port: end it, or give `[http] listen` another port.
    #[error("{address} is taken by another process: end it, or write another port in [http] listen")]
    PortTaken {
        /// The address and port.
        address: SocketAddr,
    },
    /// The address is none of this machine's: give `[http] listen` one of its own.
    #[error("{address} is not an address of this machine: write one of its own in [http] listen")]
    NotOurAddress {
        /// The address and port.
        address: SocketAddr,
    },
    /// The system refuses the port, such as one below 1024: give `[http] listen` another one.
    #[error("{address} can't be listened on: {error}; write another address or port in [http] listen")]
    Listen {
        /// The address and port.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The server failed while it ran.
    #[error("the HTTP server ended: {0}")]
    Serve(#[from] io::Error),
}

/// The routes of administration: `GET /health` and `GET /metrics`. Those of callbacks are merged into it.
pub fn router(health: HealthState, measures: Measures) -> Router {
    Router::new()
        .route("/health", get(health_report))
        .with_state(health)
        .merge(Router::new().route("/metrics", get(metrics_text)).with_state(measures))
}

/// Takes the port.
///
/// # Errors
/// When it can't be had; the error says what to write instead.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, AdminError> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => AdminError::PortTaken { address },
        io::ErrorKind::AddrNotAvailable => AdminError::NotOurAddress { address },
        _ => AdminError::Listen { address, error },
    })
}

/// Serves until `end` is ready and the requests under way are answered.
///
/// # Errors
/// When the socket fails.
pub async fn serve(listener: TcpListener, router: Router, end: impl Future<Output = ()> + Send + 'static) -> Result<(), AdminError> {
    serve_bounded(Bounded::new(listener, CONNECTIONS_MAX, IDLE_MAX), router, end).await
}

async fn serve_bounded(listener: Bounded, router: Router, end: impl Future<Output = ()> + Send + 'static) -> Result<(), AdminError> {
    Ok(axum::serve(listener, router).with_graceful_shutdown(end).await?)
}

async fn health_report(State(health): State<HealthState>) -> Response {
    let report = health.report(Instant::now());
    let code = if report.status == Status::Refusing { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (code, [(header::CACHE_CONTROL, "no-store")], Json(report)).into_response()
}

async fn metrics_text(State(measures): State<Measures>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], measures.render()).into_response()
}

/// A listener that holds so many connections and no more: a further one waits, in the system's queue, for one that ends, or takes
/// the place of the one that has kept its place for the longest time without an answer.
struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    idle_max: Duration,
    open: Vec<Open>,
}

/// A connection as the listener knows it.
struct Open {
    since: Since,
    give_way: Option<oneshot::Sender<()>>,
}

/// When a connection's request began, or when it was last answered.
#[derive(Clone)]
struct Since(Arc<Mutex<Instant>>);

impl Bounded {
    fn new(listener: TcpListener, connections_max: usize, idle_max: Duration) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(connections_max)), idle_max, open: Vec::new() }
    }

    async fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        loop {
            let place = Arc::clone(&self.places).acquire_owned();
            match tokio::time::timeout(GIVE_WAY_EVERY, place).await {
                // Nobody closes the semaphore; were it closed, a connection would be taken without a place.
                Ok(place) => return place.ok(),
                Err(_) => self.make_room(),
            }
        }
    }

    fn make_room(&mut self) {
        self.open.retain(|open| open.give_way.as_ref().is_some_and(|give_way| !give_way.is_closed()));
        let oldest = self.open.iter_mut().min_by_key(|open| open.since.get());
        if let Some(oldest) = oldest.filter(|oldest| oldest.since.get().elapsed() >= GIVE_WAY_AFTER)
            && let Some(give_way) = oldest.give_way.take()
        {
            // It may have ended just now.
            let _ = give_way.send(());
        }
    }
}

impl Since {
    fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn get(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = self.place().await;
        // Axum's own way of accepting: it waits where the system is out of descriptors, instead of spinning.
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let (give_way, told) = oneshot::channel();
        let since = Since::now();
        self.open.retain(|open| open.give_way.as_ref().is_some_and(|give_way| !give_way.is_closed()));
        self.open.push(Open { since: since.clone(), give_way: Some(give_way) });
        let ends = Box::pin(tokio::time::sleep(self.idle_max));
        (Connection { stream, ends, idle_max: self.idle_max, answered: false, since, told: Some(told), _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when its client is silent for too long, takes too long to say what it wants, or has to give way to
/// others; and then gives back its place.
struct Connection {
    stream: TcpStream,
    ends: Pin<Box<Sleep>>,
    idle_max: Duration,
    /// Whether what was asked before has been answered, so that the next octet begins a new request.
    answered: bool,
    since: Since,
    /// None when it was told, or nobody is there any more to tell it.
    told: Option<oneshot::Receiver<()>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    fn goes_on(&mut self) {
        let ends = tokio::time::Instant::now() + self.idle_max;
        self.ends.as_mut().reset(ends);
        self.since.begin();
    }

    fn has_to_give_way(&mut self, context: &mut Context<'_>) -> bool {
        let Some(told) = self.told.as_mut() else { return false };
        let Poll::Ready(told) = Pin::new(told).poll(context) else { return false };
        self.told = None;
        told.is_ok()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.ends.as_mut().poll(context).is_ready() || self.has_to_give_way(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() && std::mem::take(&mut self.answered) {
            self.goes_on();
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.answered = true;
            self.goes_on();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Callbacks of tools, a scraper and a health check; a descriptor each on a box with few.
const CONNECTIONS_MAX: usize = 64;
/// Scrapers keep their connection for a quarter of a minute; a client that is silent for longer has gone, and one that takes
/// longer to say what it wants never will.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// While all places are taken, one gives way so often.
const GIVE_WAY_EVERY: Duration = Duration::from_millis(50);
/// A request is sent and answered in milliseconds; one that waits for a disk that stalls is sent again.
const GIVE_WAY_AFTER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::admin::Impact;

    struct Served {
        address: SocketAddr,
        health: HealthState,
        measures: Measures,
        end: tokio::sync::oneshot::Sender<()>,
        ended: tokio::task::JoinHandle<Result<(), AdminError>>,
    }

    async fn served(connections_max: usize, idle_max: Duration) -> Served {
        let (health, measures) = (HealthState::new(Instant::now()), Measures::new().unwrap());
        let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, wait) = tokio::sync::oneshot::channel();
        let bounded = Bounded::new(listener, connections_max, idle_max);
        let ended = tokio::spawn(serve_bounded(bounded, router(health.clone(), measures.clone()), async move { drop(wait.await) }));
        Served { address, health, measures, end, ended }
    }

    /// The whole answer to `GET path`.
    async fn answer(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn health_is_200_until_new_calls_are_refused() {
        let recado = served(CONNECTIONS_MAX, IDLE_MAX).await;
        recado.health.calls(1);
        recado.health.raise("speech", Impact::Degrades, "espeak-ng is missing");
        let degraded = answer(recado.address, "/health").await;
        assert!(degraded.starts_with("HTTP/1.1 200 "), "{degraded}");
        let body: serde_json::Value = serde_json::from_str(degraded.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!((&body["status"], &body["calls"]), (&"degraded".into(), &1.into()));
        assert_eq!(body["problems"][0], "speech: espeak-ng is missing");
        assert_eq!(body["version"], env!("CARGO_PKG_VERSION"));

        recado.health.raise("store", Impact::Refuses, "the disk is full");
        let refusing = answer(recado.address, "/health").await;
        assert!(refusing.starts_with("HTTP/1.1 503 ") && refusing.contains("\"refusing\""), "{refusing}");
    }

    #[tokio::test]
    async fn metrics_are_text_and_the_server_ends_when_told() {
        let recado = served(CONNECTIONS_MAX, IDLE_MAX).await;
        recado.measures.calls_active(7);
        let metrics = answer(recado.address, "/metrics").await;
        assert!(metrics.contains("content-type: text/plain; version=0.0.4") && metrics.contains("\nrecado_calls_active 7\n"), "{metrics}");
        assert!(answer(recado.address, "/nothing").await.starts_with("HTTP/1.1 404 "));
        recado.end.send(()).unwrap();
        recado.ended.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_an_error_that_says_what_to_do() {
        let first = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = first.local_addr().unwrap();
        let error = listen(address).await.unwrap_err();
        assert_eq!(error.to_string(), format!("{address} is taken by another process: end it, or write another port in [http] listen"));
        let error = listen("192.0.2.1:8080".parse().unwrap()).await.unwrap_err();
        assert!(matches!(error, AdminError::NotOurAddress { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_connection_beyond_the_bound_waits_until_one_ends() {
        let recado = served(1, IDLE_MAX).await;
        let mut held = TcpStream::connect(recado.address).await.unwrap();
        held.write_all(b"GET /nothing HTTP/1.1\r\nHost: box\r\n\r\n").await.unwrap();
        held.read_exact(&mut [0]).await.unwrap();
        let mut waiting = Box::pin(answer(recado.address, "/health"));
        let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
        assert!(early.is_err(), "a connection beyond the bound was answered");
        drop(held);
        assert!(waiting.await.starts_with("HTTP/1.1 200 "));
    }

    #[tokio::test]
    async fn a_silent_client_loses_its_connection() {
        let recado = served(1, Duration::from_millis(20)).await;
        let mut stream = TcpStream::connect(recado.address).await.unwrap();
        assert!(matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)));
        assert!(answer(recado.address, "/health").await.starts_with("HTTP/1.1 200 "), "its place was not given back");
    }

    #[tokio::test]
    async fn a_client_that_drips_its_request_loses_its_connection_all_the_same() {
        let recado = served(1, Duration::from_millis(100)).await;
        let mut stream = TcpStream::connect(recado.address).await.unwrap();
        let dripping = async {
            loop {
                if stream.write_all(b"G").await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), dripping).await.expect("its connection was ended");
        assert!(answer(recado.address, "/health").await.starts_with("HTTP/1.1 200 "), "its place was not given back");
    }

    #[tokio::test]
    async fn the_oldest_request_without_an_answer_gives_way_to_others() {
        let recado = served(1, IDLE_MAX).await;
        let mut held = TcpStream::connect(recado.address).await.unwrap();
        held.write_all(b"GET /hea").await.unwrap();
        assert!(answer(recado.address, "/health").await.starts_with("HTTP/1.1 200 "));
    }
}
