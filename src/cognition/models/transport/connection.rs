//! One connection: a task that reads and one that writes, a bounded queue for each.

use std::fmt;
use std::io;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use rustls::pki_types::ServerName;
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::http::header::RETRY_AFTER;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::endpoint::Endpoint;
use super::error::TransportError;
use crate::config::Secret;
use crate::outward::distrust;

/// What a service says, as a connection passes it on.
pub trait ServerMessage: Sized + Send + 'static {
    /// Why a text is none.
    type Unreadable: fmt::Display + Send;

    /// Reads one; none where nobody here wants to know it.
    ///
    /// # Errors
    /// The text is no message of the protocol's.
    fn read(text: &str) -> Result<Option<Self>, Self::Unreadable>;

    /// The same, with `secret` taken out of what the service says that may be shown to people.
    fn hiding(self, secret: &Secret) -> Self;
}

/// A connection that stands. It is closed when this is dropped.
#[derive(Debug)]
pub struct Connection<M> {
    incoming: mpsc::Receiver<Incoming<M>>,
    outgoing: mpsc::Sender<Utf8Bytes>,
    reader: AbortHandle,
}

/// What comes of a connection.
#[derive(Debug)]
pub enum Incoming<M> {
    /// An event.
    Event(Box<M>),
    /// Its end. Nothing more comes.
    Ended(TransportError),
}

impl<M: ServerMessage> Connection<M> {
    /// Connects, all in all within the endpoint's time.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn open(endpoint: &Endpoint) -> Result<Self, TransportError> {
        let opening = connect(endpoint);
        match timeout(endpoint.connect_timeout, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(TransportError::TooSlow { host: endpoint.host(), ms: endpoint.connect_timeout.as_millis() as u64 }),
        }
    }

    /// Sends an event, without waiting.
    ///
    /// # Errors
    /// When so much waits to be sent that the service takes nothing any more.
    pub fn send(&self, event: &impl Serialize) -> Result<(), TransportError> {
        // Events are maps with text keys: they always have a form as JSON.
        let text = serde_json::to_string(event).map_err(|error| TransportError::Broken(error.to_string()))?;
        match self.outgoing.try_send(text.into()) {
            // Where the writer has ended, the reason is on its way.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(TransportError::Stuck(LIMITS.write.as_millis() as u64)),
        }
    }

    /// What comes next.
    pub async fn next(&mut self) -> Incoming<M> {
        match self.incoming.recv().await {
            Some(incoming) => incoming,
            None => Incoming::Ended(TransportError::Broken("it has ended".to_owned())),
        }
    }

    fn start<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(socket: WebSocketStream<S>, endpoint: Endpoint, limits: Limits) -> Self {
        let (sink, stream) = socket.split();
        let (comes, incoming) = mpsc::channel(INCOMING_MAX);
        let (outgoing, to_send) = mpsc::channel(OUTGOING_MAX);
        tokio::spawn(write(sink, to_send, comes.clone(), limits));
        let reader = tokio::spawn(read(stream, comes, endpoint, limits)).abort_handle();
        Self { incoming, outgoing, reader }
    }
}

impl<M> Drop for Connection<M> {
    fn drop(&mut self) {
        // The writer says goodbye, and ends by itself.
        self.reader.abort();
    }
}

async fn connect<M: ServerMessage>(endpoint: &Endpoint) -> Result<Connection<M>, TransportError> {
    let request = endpoint.request()?;
    let name = endpoint.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let unreachable = |reason: String| TransportError::Unreachable { host: endpoint.host(), reason };
    let port = endpoint.url.port_or_known_default().unwrap_or_default();
    let addresses = lookup_host((name, port)).await.map_err(|_| unreachable("its name does not resolve".to_owned()))?;
    let tcp = connect_to_any(addresses).await.map_err(|error| unreachable(error.to_string()))?;
    // Twenty milliseconds of speech do not wait for more.
    tcp.set_nodelay(true).map_err(|error| unreachable(error.to_string()))?;
    let settings = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX);
    match &endpoint.tls {
        Some(tls) => {
            let server = ServerName::try_from(name.to_owned()).map_err(|error| endpoint.unusable(error.to_string()))?;
            let secure =
                TlsConnector::from(tls.clone()).connect(server, tcp).await.map_err(|error| match distrust(&error, endpoint.table) {
                    Some(reason) => TransportError::Untrusted(reason),
                    None => TransportError::Untrusted(format!("the secure connection to {} failed: {error}", endpoint.host())),
                })?;
            let upgraded = client_async_with_config(request, secure, Some(settings)).await;
            Ok(Connection::start(upgraded.map_err(|error| refused(error, endpoint))?.0, endpoint.clone(), LIMITS))
        }
        None => {
            let upgraded = client_async_with_config(request, tcp, Some(settings)).await;
            Ok(Connection::start(upgraded.map_err(|error| refused(error, endpoint))?.0, endpoint.clone(), LIMITS))
        }
    }
}

/// The first address that answers. Where one takes its time, the next one is tried beside it (RFC 8305 5): many a network has addresses of
/// the one kind and carries only the other.
async fn connect_to_any(mut addresses: impl Iterator<Item = std::net::SocketAddr>) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    let mut tried = JoinSet::new();
    loop {
        let answered = match addresses.next() {
            Some(address) => {
                tried.spawn(TcpStream::connect(address));
                timeout(NEXT_ADDRESS_AFTER, tried.join_next()).await.ok().flatten()
            }
            None => match tried.join_next().await {
                None => return Err(last),
                answered => answered,
            },
        };
        match answered {
            Some(Ok(Ok(tcp))) => return Ok(tcp),
            Some(Ok(Err(error))) => last = error,
            Some(Err(error)) => last = error.into(),
            None => {}
        }
    }
}

/// What an answer that is no connection means.
fn refused(error: tungstenite::Error, endpoint: &Endpoint) -> TransportError {
    match error {
        tungstenite::Error::Http(response) => {
            let status = response.status().as_u16();
            let detail = endpoint.quoted(&reason(&response));
            match status {
                401 | 403 => TransportError::Unauthorised { status, detail },
                404 => TransportError::NotFound { status, detail },
                429 => {
                    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
                    TransportError::RateLimited { status, after: seconds.map(Duration::from_secs), detail }
                }
                _ if names_model(&response) => TransportError::NotFound { status, detail },
                _ => TransportError::Answered { status, detail },
            }
        }
        tungstenite::Error::Io(error) => TransportError::Broken(error.to_string()),
        error => TransportError::NoWebSocket { host: endpoint.host(), reason: error.to_string() },
    }
}

/// What the body of an answer says, as services write it: `{"error":{"message":...}}`, or text.
fn reason(response: &Response) -> String {
    let body = String::from_utf8_lossy(response.body().as_deref().unwrap_or_default()).into_owned();
    let told = serde_json::from_str::<Value>(&body).ok();
    let message = told.as_ref().and_then(|told| told["error"]["message"].as_str().or(told["message"].as_str()).or(told["error"].as_str()));
    message.map(str::to_owned).unwrap_or(body)
}

/// Whether an answer of 400 is about the model.
fn names_model(response: &Response) -> bool {
    let told: Value = serde_json::from_slice(response.body().as_deref().unwrap_or_default()).unwrap_or_default();
    told["error"]["code"] == "model_not_found" || told["error"]["param"] == "model"
}

/// Reads until the connection ends, which is the last that comes. Where nobody takes what has come, nothing more is read.
async fn read<M, S>(mut stream: SplitStream<WebSocketStream<S>>, comes: mpsc::Sender<Incoming<M>>, endpoint: Endpoint, limits: Limits)
where
    M: ServerMessage,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut unreadable = 0u64;
    let ended = loop {
        let message = match timeout(limits.silent, stream.next()).await {
            Err(_) => break TransportError::Silent(limits.silent.as_millis() as u64),
            Ok(None) => break TransportError::Closed { code: 1006, reason: String::new() },
            Ok(Some(Err(error))) => break broken(error),
            Ok(Some(Ok(message))) => message,
        };
        let text = match message {
            Message::Text(text) => text,
            // Some services send their text so.
            Message::Binary(bytes) => Utf8Bytes::try_from(bytes).unwrap_or_default(),
            Message::Close(close) => {
                let (code, reason) = close.map_or((1005, String::new()), |close| (close.code.into(), endpoint.quoted(&close.reason)));
                break TransportError::Closed { code, reason };
            }
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        match M::read(&text) {
            Ok(None) => {}
            Ok(Some(event)) => {
                if comes.send(Incoming::Event(Box::new(endpoint.hiding_key(event)))).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                unreadable += 1;
                if unreadable == 1 {
                    tracing::warn!(host = endpoint.host(), "{error}; further ones are only counted");
                }
            }
        }
    };
    if unreadable > 0 {
        tracing::warn!(host = endpoint.host(), unreadable, "the service sent messages that are no events");
    }
    // Nobody to tell is no loss.
    let _ = comes.send(Incoming::Ended(ended)).await;
}

/// Writes what is to be sent, and a ping now and then, until there is nobody left who wants to send.
async fn write<M, S>(
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    mut to_send: mpsc::Receiver<Utf8Bytes>,
    comes: mpsc::Sender<Incoming<M>>,
    limits: Limits,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut pings = interval(limits.ping);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            text = to_send.recv() => match text {
                Some(text) => Message::Text(text),
                None => break,
            },
            _ = pings.tick() => Message::Ping(Default::default()),
        };
        let ended = match timeout(limits.write, sink.send(message)).await {
            Ok(Ok(())) => continue,
            // The reader knows better how it ended.
            Ok(Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed)) => return,
            Ok(Err(error)) => broken(error),
            Err(_) => TransportError::Stuck(limits.write.as_millis() as u64),
        };
        let _ = comes.send(Incoming::Ended(ended)).await;
        return;
    }
    let _ = timeout(GOODBYE_TIMEOUT, sink.close()).await;
}

fn broken(error: tungstenite::Error) -> TransportError {
    match error {
        // Without a close frame (RFC 6455 7.1.5).
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            TransportError::Closed { code: 1006, reason: String::new() }
        }
        tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
            TransportError::Closed { code: 1006, reason: String::new() }
        }
        tungstenite::Error::Capacity(CapacityError::MessageTooLong { .. }) => TransportError::TooLarge(MESSAGE_BYTES_MAX),
        tungstenite::Error::Io(error) => TransportError::Broken(error.to_string()),
        error => TransportError::Broken(error.to_string()),
    }
}

/// How long a connection may be without life.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// How often the service is pinged: shorter than what forgets idle connections on the way.
    ping: Duration,
    /// How long nothing at all may come: three pings that were not answered.
    silent: Duration,
    /// How long one message may take to be sent: a network that takes nothing for so long is gone.
    write: Duration,
}

const LIMITS: Limits = Limits { ping: Duration::from_secs(15), silent: Duration::from_secs(45), write: Duration::from_secs(10) };
/// A piece of speech may be long: as base64 it is two minutes of linear samples, or a quarter of an hour of G.711. What is larger would hold up the
/// call that it is for while it is read.
const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Many times what is ever sent at once.
const WRITE_BUFFER_BYTES_MAX: usize = 32 << 20;
/// A small box has many calls.
const READ_BUFFER_BYTES: usize = 16 << 10;
/// Some seconds of speech; beyond it nothing more is read.
const INCOMING_MAX: usize = 64;
/// Ten seconds of the caller's speech.
const OUTGOING_MAX: usize = 512;
/// Before another address is tried beside one that does not answer (RFC 8305 8).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// Nobody waits for a goodbye.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use tokio::io::DuplexStream;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;
    use crate::cognition::models::realtime::wire::{ClientBody, ClientEvent, ServerEvent};
    use crate::config::Realtime;

    const SHORT: Limits = Limits { ping: Duration::from_millis(100), silent: Duration::from_secs(2), write: Duration::from_secs(2) };

    /// A connection, and the service's end of it.
    async fn connected() -> (Connection<ServerEvent>, WebSocketStream<DuplexStream>) {
        let (ours, theirs) = tokio::io::duplex(4 * 1024);
        let settings: Realtime = toml::from_str("url = 'ws://127.0.0.1/'\nmodel = 'm'").unwrap();
        let socket = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
        let connection = Connection::start(socket, Endpoint::new(&settings).unwrap(), SHORT);
        (connection, WebSocketStream::from_raw_socket(theirs, Role::Server, None).await)
    }

    #[tokio::test]
    async fn a_service_that_answers_pings_is_there_and_one_that_does_not_is_gone() {
        let (mut connection, mut service) = connected().await;
        for _ in 0..30 {
            // Reading answers them.
            assert!(matches!(service.next().await, Some(Ok(Message::Ping(_)))));
        }
        let ended = tokio::time::timeout(Duration::ZERO, connection.next()).await;
        assert!(ended.is_err(), "three seconds of nothing but pongs: {ended:?}");
        assert!(matches!(connection.next().await, Incoming::Ended(TransportError::Silent(2_000))));
    }

    #[tokio::test]
    async fn a_service_that_takes_nothing_is_gone_and_what_waits_for_it_is_bounded() {
        let (mut connection, _service) = connected().await;
        let event = ClientEvent { event_id: "e".into(), body: ClientBody::AudioAppend { audio: vec![0; 160] } };
        let mut taken = 0;
        let refused = loop {
            match connection.send(&event) {
                Ok(()) => taken += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, TransportError::Stuck(_)));
        assert!((OUTGOING_MAX..OUTGOING_MAX * 2).contains(&taken), "{taken}");
        loop {
            if let Incoming::Ended(error) = connection.next().await {
                break assert!(matches!(error, TransportError::Stuck(2_000) | TransportError::Silent(2_000)), "{error}");
            }
        }
    }

    #[tokio::test]
    async fn an_address_that_does_not_answer_keeps_nobody_from_the_next_one() {
        // One whose queue is full: what comes next is not answered.
        let full = tokio::net::TcpSocket::new_v4().unwrap();
        full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = full.listen(1).unwrap();
        let silent = full.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(Ok(tcp)) = timeout(Duration::from_millis(500), TcpStream::connect(silent)).await {
            waiting.push(tcp);
        }
        let there = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let connected = connect_to_any([unused, silent, there.local_addr().unwrap()].into_iter());
        let tcp = timeout(Duration::from_secs(20), connected).await.expect("the next one is tried meanwhile").unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), there.local_addr().unwrap());
        assert!(connect_to_any([unused].into_iter()).await.is_err());
        assert!(connect_to_any([].into_iter()).await.unwrap_err().to_string().contains("no address"));
    }

    #[tokio::test]
    async fn a_connection_that_is_dropped_says_goodbye() {
        let (connection, mut service) = connected().await;
        drop(connection);
        while let Some(Ok(message)) = service.next().await {
            if matches!(message, Message::Close(_)) {
                return;
            }
        }
        panic!("no goodbye");
    }
}
