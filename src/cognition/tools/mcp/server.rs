//! One server and the connection to it, which all its tools share.
//!
//! A task of its own makes the connection when somebody first asks for it, and again when it has ended: a program that died is started again, a
//! server that could not be reached is tried again, after waits that grow. Who asks meanwhile is told at once that it is away.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, Url};
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{ClientInitializeError, Peer, RunningService, serve_client_with_lifecycle};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use rmcp::{ClientCacheConfig, ClientLifecycleMode, RoleClient};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::super::error::ToolError;
use super::catalogue::Catalogue;
use super::looks::{Client as Ourselves, Looks};
use super::meaning;
use super::process::{Launch, Running};
use crate::config::{McpServer, Secret};
use crate::outward::{ClientFault, Connections, SystemAuthorities, plain_client};

/// A server, and the way to it.
pub(super) struct Server {
    reach: Arc<Reach>,
    calls: Arc<Semaphore>,
    /// Of what is asked beside the calls: what hangs must not hold up its own cancel.
    inquiries: Arc<Semaphore>,
    cancels: Arc<Semaphore>,
    /// To the task that keeps the connection, which is begun when it is first needed.
    askers: OnceLock<mpsc::Sender<Asker>>,
}

/// Somebody who wants the connection.
type Asker = oneshot::Sender<Result<Peer<RoleClient>, Away>>;

/// Why there is no connection. Nothing of a request has left the box.
#[derive(Debug, Clone)]
pub(super) struct Away {
    pub reason: String,
    /// How long it is of no use to ask again (ms).
    pub retry_after_ms: u64,
}

/// One of the places on a connection, given back when what has it is over.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
}

/// What a place is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum For {
    Call,
    Inquiry,
    Cancel,
}

/// A connection, and the place that a request on it takes.
pub(super) struct Open {
    pub peer: Peer<RoleClient>,
    _place: Place,
}

/// How a server is reached.
struct Reach {
    name: String,
    way: Way,
    secrets: Vec<Secret>,
    connects_within: Duration,
    /// As many requests as there can be at the same time.
    requests_max: usize,
    looks: Arc<Looks>,
}

enum Way {
    Http { url: Url, client: Client, token: Option<Secret>, headers: HashMap<HeaderName, HeaderValue> },
    Program(Launch),
}

impl Server {
    /// The server `name`, as `settings` have it.
    ///
    /// # Errors
    /// The first setting that can't be used.
    pub fn new<'a>(name: &str, settings: &McpServer, authorities: impl FnOnce() -> &'a mut SystemAuthorities) -> Result<Self, ToolError> {
        let unusable = |setting, reason: String| ToolError::Mcp { server: name.to_owned(), setting, reason };
        let way = match (&settings.url, &settings.program) {
            (Some(text), _) => {
                let url = Url::parse(text).map_err(|error| unusable("url", error.to_string()))?;
                let client = match url.scheme() {
                    "https" => authorities().client(settings.ca_file.as_deref(), CONNECTIONS),
                    _ => plain_client(None, CONNECTIONS),
                };
                let client = client.map_err(|fault| match fault {
                    ClientFault::File { path, reason } => unusable("ca_file", format!("{} {reason}", path.display())),
                    ClientFault::NoAuthorities { detail } => {
                        let what = "this box has no certificate authorities to check `https` with";
                        unusable("ca_file", format!("{what}{detail}: install the package `ca-certificates`, or name them there"))
                    }
                    ClientFault::Client(reason) => unusable("url", format!("no HTTP client can be made: {reason}")),
                })?;
                let token = settings.bearer_file.as_deref().map(Secret::read).transpose();
                let token = token.map_err(|error| unusable("bearer_file", error.to_string()))?;
                let mut headers = HashMap::new();
                for (header, value) in &settings.headers {
                    let refused = || unusable("headers", format!("{header} can't be sent"));
                    let header = HeaderName::try_from(header).map_err(|_| refused())?;
                    headers.insert(header, HeaderValue::try_from(value).map_err(|_| refused())?);
                }
                Way::Http { url, client, token, headers }
            }
            (None, Some(program)) => {
                let read = |(variable, file): (&String, &std::path::PathBuf)| {
                    let value = Secret::read(file).map_err(|error| unusable("environment", format!("{variable}: {error}")))?;
                    Ok((variable.clone(), value))
                };
                let environment = settings.environment.iter().map(read).collect::<Result<_, ToolError>>()?;
                Way::Program(Launch { program: program.clone(), arguments: settings.arguments.clone(), environment })
            }
            (None, None) => return Err(unusable("url", "it does not say where the server is".to_owned())),
        };
        let connects_within = Duration::from_millis(settings.timeout_ms);
        let calls = settings.concurrency.get();
        let requests_max = calls + INQUIRIES_MAX + CANCELS_MAX + REQUESTS_OF_LOOKS;
        let secrets = way.secrets();
        let reach = Arc::new(Reach { name: name.to_owned(), way, secrets, connects_within, requests_max, looks: Arc::default() });
        let places = |places| Arc::new(Semaphore::new(places));
        Ok(Self { reach, calls: places(calls), inquiries: places(INQUIRIES_MAX), cancels: places(CANCELS_MAX), askers: OnceLock::new() })
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        &self.reach.name
    }

    /// Waits for a place on the connection: how long that takes is of the box's own doing, and says nothing of the server.
    ///
    /// # Errors
    /// The box is stopping.
    pub async fn place(&self, what: For) -> Result<Place, Away> {
        let places = match what {
            For::Call => &self.calls,
            For::Inquiry => &self.inquiries,
            For::Cancel => &self.cancels,
        };
        Arc::clone(places).acquire_owned().await.map(|permit| Place { _permit: permit }).map_err(|_| stopping())
    }

    /// The connection, for who has a place on it.
    ///
    /// # Errors
    /// The server is away.
    pub async fn open(&self, place: Place) -> Result<Open, Away> {
        let askers = self.askers.get_or_init(|| {
            let (askers, asked) = mpsc::channel(ASKERS_MAX);
            tokio::spawn(keep(Arc::clone(&self.reach), asked));
            askers
        });
        let (asker, answer) = oneshot::channel();
        askers.send(asker).await.map_err(|_| stopping())?;
        let peer = answer.await.map_err(|_| stopping())??;
        Ok(Open { peer, _place: place })
    }

    /// This is what it offers as the box starts: later changes are said in the log.
    pub fn begins_with(&self, catalogue: Catalogue) {
        self.reach.looks.begin_with(catalogue);
    }

    /// It has refused a call: what it offers is looked at.
    pub fn has_refused(&self) {
        self.reach.looks.want();
    }

    /// What a fault on this server is told with.
    pub fn faults(&self) -> meaning::Faults<'_> {
        self.reach.faults()
    }
}

fn stopping() -> Away {
    Away { reason: "the box is stopping".to_owned(), retry_after_ms: 0 }
}

/// What a connection is made of. The program ends with it.
struct Connection {
    service: RunningService<RoleClient, Ourselves>,
    _program: Option<Running>,
    /// Looks at what the server offers, for as long as the connection stands.
    _looks: JoinSet<()>,
    since: Instant,
}

impl Connection {
    fn stands(&self) -> bool {
        !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }
}

async fn keep(reach: Arc<Reach>, mut asked: mpsc::Receiver<Asker>) {
    let mut connection: Option<Connection> = None;
    let mut away: Option<(Away, Instant)> = None;
    let mut wait = WAIT_FIRST;
    while let Some(asker) = asked.recv().await {
        if let Some(ended) = connection.take_if(|connection| !connection.stands()) {
            tracing::warn!(server = reach.name, "the connection to an MCP server has ended; it is made again");
            // One that ends as soon as it is made is no better than none.
            if ended.since.elapsed() < STEADY_AFTER {
                let reason = format!("the MCP server `{}` ends as soon as it is connected to", reach.name);
                away = Some((Away { reason, retry_after_ms: 0 }, Instant::now() + wait));
                wait = (wait * 2).min(WAIT_MOST);
            } else {
                wait = WAIT_FIRST;
            }
        }
        if let Some((Away { reason, .. }, until)) = &away
            && let Some(left) = until.checked_duration_since(Instant::now())
            && connection.is_none()
        {
            let retry_after_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
            // Who asked may have gone.
            let _ = asker.send(Err(Away { reason: reason.clone(), retry_after_ms }));
            continue;
        }
        if connection.is_none() {
            match reach.connect().await {
                Ok(made) => {
                    away = None;
                    connection = Some(made);
                }
                Err(reason) => {
                    tracing::warn!(server = reach.name, reason, "an MCP server is away");
                    let retry_after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                    let found = Away { reason, retry_after_ms };
                    away = Some((found.clone(), Instant::now() + wait));
                    wait = (wait * 2).min(WAIT_MOST);
                    let _ = asker.send(Err(found));
                    continue;
                }
            }
        }
        if let Some(connection) = &connection {
            let _ = asker.send(Ok(connection.service.peer().clone()));
        }
    }
}

impl Reach {
    async fn connect(&self) -> Result<Connection, String> {
        let mut program = None;
        let made = match &self.way {
            Way::Http { url, client, token, headers } => {
                let mut settings = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(headers.clone())
                    .max_sse_event_size(MESSAGE_BYTES_MAX);
                settings.max_json_response_size = MESSAGE_BYTES_MAX;
                settings = settings.max_concurrent_requests(self.requests_max);
                if let Some(token) = token {
                    settings = settings.auth_header(token.expose());
                }
                let transport = StreamableHttpClientTransport::with_client(client.clone(), settings);
                timeout(self.connects_within, serve_client_with_lifecycle(ourselves(&self.looks), transport, lifecycle())).await
            }
            Way::Program(launch) => {
                let (running, output, input) = launch.start(&self.name)?;
                program = Some(running);
                let transport = AsyncRwTransport::new_client(output, input).with_max_line_length(MESSAGE_BYTES_MAX);
                timeout(self.connects_within, serve_client_with_lifecycle(ourselves(&self.looks), transport, lifecycle())).await
            }
        };
        match made {
            Ok(Ok(service)) => {
                tracing::info!(server = self.name, "connected to an MCP server");
                // What a server offers is looked at when it may have changed, and held in bounds of our own.
                service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
                let mut looks = JoinSet::new();
                looks.spawn(Arc::clone(&self.looks).follow(self.name.clone(), service.peer().clone()));
                Ok(Connection { service, _program: program, _looks: looks, since: Instant::now() })
            }
            Ok(Err(error)) => Err(self.why(&error)),
            Err(_) => Err(format!("the MCP server `{}` did not say what it is within {} ms", self.name, self.connects_within.as_millis())),
        }
    }

    fn why(&self, error: &ClientInitializeError) -> String {
        format!("no connection to the MCP server `{}`: {}", self.name, self.faults().of_greeting(error))
    }

    /// What a fault is told with: the address, and what was sent in confidence.
    fn faults(&self) -> meaning::Faults<'_> {
        match &self.way {
            Way::Http { url, .. } => meaning::Faults { url: Some(url), secrets: &self.secrets },
            Way::Program(_) => meaning::Faults { url: None, secrets: &self.secrets },
        }
    }
}

impl Way {
    /// What a server is given in confidence: its token, what its address holds, what its environment is.
    fn secrets(&self) -> Vec<Secret> {
        match self {
            Way::Http { url, token, .. } => token.iter().cloned().chain(Secret::in_url(url)).collect(),
            Way::Program(launch) => launch.environment.values().cloned().collect(),
        }
    }
}

fn ourselves(looks: &Arc<Looks>) -> Ourselves {
    let box_itself = Implementation::new("recado", env!("CARGO_PKG_VERSION"));
    let about = ClientConfig::new(ClientCapabilities::builder().enable_tasks().build(), box_itself);
    Ourselves { about, looks: Arc::clone(looks) }
}

/// The newest form of the protocol, in which a server has no session that could be lost; older servers are greeted in their way.
fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// A new connection for each request: on a kept one, a server that closes it in the same instant would leave a request of which nobody knows whether
/// it arrived.
const CONNECTIONS: Connections =
    Connections { connect_timeout: Some(Duration::from_secs(5)), idle_kept: Duration::from_secs(4), idle_max: Some(0) };

/// Twice the largest result that is taken: as text and as a structure (bytes).
const MESSAGE_BYTES_MAX: usize = 2 * super::super::reply::RESULT_BYTES_MAX + 64 * 1024;

/// Inquiries, and cancels, at the same time: each is short, or waits for a task to end.
const INQUIRIES_MAX: usize = 8;
const CANCELS_MAX: usize = 8;

/// Its list, what it says of changes, and what an answered request still says (requests at the same time).
const REQUESTS_OF_LOOKS: usize = 4;

/// Who waits for the connection: no more than there are places on it.
const ASKERS_MAX: usize = 64;

/// The waits before a server is tried again.
const WAIT_FIRST: Duration = Duration::from_millis(500);
const WAIT_MOST: Duration = Duration::from_secs(30);

/// A connection that stood for so long was one.
const STEADY_AFTER: Duration = Duration::from_secs(5);
