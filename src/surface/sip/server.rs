//! The shell of the [`Endpoint`] on tokio: one task that owns the UDP socket and the clock.
//!
//! Commands come in and events go out over bounded queues. **No event is ever dropped**: while the event queue is full, what is
//! left waits in the task and the socket is not read, so the far ends repeat what they sent (SIP over UDP
//! is made for that); timers and commands go on. What can wait is bounded: the events of one input, then one `Ended` for each
//! call. A full command queue makes the sender wait.
//!
//! The task ends after [`Command::Shutdown`], or when the application has dropped its ends, which counts as one: every call gets its
//! BYE, answers are awaited for two seconds at most.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::{Command, Counters, Endpoint, EndpointConfig, Event, Output, Seed, SipError};
use crate::telemetry::Seldom;

/// A running SIP server.
#[derive(Debug)]
pub struct Server {
    /// Commands to the endpoint.
    pub commands: mpsc::Sender<Command>,
    /// Events of calls, in order.
    pub events: mpsc::Receiver<Event>,
    /// The endpoint's counts, as they are.
    pub counters: watch::Receiver<Counters>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Opens `listen` and serves it. Port 0 takes a free one; port 0 in `config.advertised` means the one that is listened on.
    /// To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`SipError::AddressInUse`], [`SipError::Listen`], [`SipError::BadAdvertisedAddress`].
    pub fn start(listen: SocketAddr, mut config: EndpointConfig, seed: Seed) -> Result<Self, SipError> {
        let socket = open(listen).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => SipError::AddressInUse { address: listen },
            _ => SipError::Listen { address: listen, source },
        })?;
        let address = socket.local_addr().map_err(|source| SipError::Listen { address: listen, source })?;
        if config.advertised.port() == 0 {
            config.advertised.set_port(address.port());
        }
        let endpoint = Endpoint::new(config, seed)?;
        let (commands, command_queue) = mpsc::channel(COMMANDS_MAX);
        let (event_queue, events) = mpsc::channel(EVENTS_MAX);
        let (counters_now, counters) = watch::channel(Counters::default());
        let shell = Shell {
            socket,
            is_ipv6: address.is_ipv6(),
            endpoint,
            commands: command_queue,
            events: event_queue,
            counters: counters_now,
            waiting: VecDeque::new(),
            unreachable: Vec::new(),
            send_faults: Seldom::default(),
            receive_faults: Seldom::default(),
            stop_at: None,
        };
        let task = tokio::spawn(shell.run());
        Ok(Self { commands, events, counters, address, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the server has ended. Read the events to their end first: they are dropped here.
    pub async fn ended(self) {
        let Self { commands, events, task, .. } = self;
        drop((commands, events));
        if let Err(error) = task.await {
            tracing::error!(%error, "the SIP server ended abnormally");
        }
    }
}

struct Shell {
    socket: UdpSocket,
    is_ipv6: bool,
    endpoint: Endpoint,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<Event>,
    counters: watch::Sender<Counters>,
    /// Events that found the queue full.
    waiting: VecDeque<Event>,
    /// Destinations that could not be sent to during the last drain.
    unreachable: Vec<SocketAddr>,
    send_faults: Seldom,
    receive_faults: Seldom,
    /// Set by a shutdown.
    stop_at: Option<Instant>,
}

enum Input {
    Datagram(usize, SocketAddr),
    Command(Command),
    Room,
    Time,
    ApplicationGone,
    SocketFault(io::Error),
}

impl Shell {
    async fn run(mut self) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        while !self.is_done() {
            match self.next_input(&mut buffer).await {
                Input::Datagram(length, source) => {
                    let datagram = buffer.get(..length).unwrap_or_default();
                    self.endpoint.receive(Instant::now(), datagram, source);
                }
                Input::Command(command) => self.command(command),
                Input::ApplicationGone if self.stop_at.is_none() => self.command(Command::Shutdown),
                Input::Room | Input::Time | Input::ApplicationGone => {}
                Input::SocketFault(error) => {
                    if let Some(left_out) = self.receive_faults.happened(Instant::now()) {
                        tracing::warn!(%error, left_out, "cannot receive SIP");
                    }
                    tokio::time::sleep(SOCKET_FAULT_PAUSE).await;
                }
            }
            self.drain().await;
            self.wake().await;
            self.report();
        }
        if !self.waiting.is_empty() {
            tracing::warn!(events = self.waiting.len(), "SIP events were not read before the server ended");
        }
    }

    fn is_done(&self) -> bool {
        let Some(stop_at) = self.stop_at else {
            return false;
        };
        let settled = self.endpoint.byes_pending() == 0 && self.waiting.is_empty();
        settled || Instant::now() >= stop_at
    }

    async fn next_input(&mut self, buffer: &mut [u8]) -> Input {
        let deadline = [self.endpoint.deadline(), self.stop_at].into_iter().flatten().min();
        let far_away = Instant::now() + IDLE;
        let timer = tokio::time::sleep_until(deadline.unwrap_or(far_away).into());
        let stopping = self.stop_at.is_some();
        tokio::select! {
            room = self.events.reserve(), if !self.waiting.is_empty() => match room {
                Ok(permit) => {
                    if let Some(event) = self.waiting.pop_front() {
                        permit.send(event);
                    }
                    Input::Room
                }
                Err(_) => {
                    self.waiting.clear();
                    Input::ApplicationGone
                }
            },
            command = self.commands.recv(), if !stopping => match command {
                Some(command) => Input::Command(command),
                None => Input::ApplicationGone,
            },
            received = self.socket.recv_from(buffer), if self.waiting.is_empty() => match received {
                Ok((length, source)) => Input::Datagram(length, SocketAddr::new(source.ip().to_canonical(), source.port())),
                Err(error) => Input::SocketFault(error),
            },
            () = timer => Input::Time,
        }
    }

    fn command(&mut self, command: Command) {
        if matches!(command, Command::Shutdown) {
            self.stop_at = Some(Instant::now() + SHUTDOWN_MAX);
        }
        if let Err(error) = self.endpoint.command(Instant::now(), command) {
            // The far end was faster; the event that says so is in the queue.
            tracing::debug!(%error, "SIP command had no effect");
        }
    }

    /// Runs timers that are due.
    async fn wake(&mut self) {
        for _ in 0..TIMERS_AT_ONCE_MAX {
            let now = Instant::now();
            if self.endpoint.deadline().is_none_or(|deadline| deadline > now) {
                return;
            }
            self.endpoint.wake(now);
            self.drain().await;
        }
    }

    /// Carries out all outputs of one input; then tells the endpoint what could not be sent.
    async fn drain(&mut self) {
        self.carry_out().await;
        while let Some(destination) = self.unreachable.pop() {
            self.endpoint.transmit_failed(destination);
            self.carry_out().await;
        }
    }

    async fn carry_out(&mut self) {
        while let Some(output) = self.endpoint.poll() {
            match output {
                Output::Transmit { datagram, destination } => {
                    if let Err(error) = self.socket.send_to(&datagram, self.on_the_socket(destination)).await {
                        if let Some(left_out) = self.send_faults.happened(Instant::now()) {
                            tracing::warn!(%destination, %error, left_out, "cannot send SIP");
                        }
                        self.unreachable.push(destination);
                    }
                }
                Output::Event(event) => self.tell(event),
            }
        }
    }

    fn tell(&mut self, event: Event) {
        if !self.waiting.is_empty() {
            self.waiting.push_back(event);
            return;
        }
        match self.events.try_send(event) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(event) | mpsc::error::TrySendError::Closed(event)) => {
                self.waiting.push_back(event);
            }
        }
    }

    /// An IPv6 socket that also serves IPv4 wants its addresses mapped.
    fn on_the_socket(&self, destination: SocketAddr) -> SocketAddr {
        match destination.ip() {
            IpAddr::V4(address) if self.is_ipv6 => SocketAddr::new(address.to_ipv6_mapped().into(), destination.port()),
            _ => destination,
        }
    }

    fn report(&self) {
        let counters = self.endpoint.counters();
        self.counters.send_if_modified(|shown| {
            let changed = *shown != counters;
            *shown = counters;
            changed
        });
    }
}

fn open(listen: SocketAddr) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind(listen)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// Commands that may wait: a few for each call of a large box.
const COMMANDS_MAX: usize = 256;

/// Events that may wait in the queue: a busy second of a large box.
const EVENTS_MAX: usize = 256;

/// The largest UDP payload.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// How long a shutdown waits for the answers to its BYEs.
const SHUTDOWN_MAX: Duration = Duration::from_secs(2);

/// Timers run before the socket is looked at again.
const TIMERS_AT_ONCE_MAX: usize = 64;

/// Keeps a broken socket from taking the whole processor.
const SOCKET_FAULT_PAUSE: Duration = Duration::from_millis(50);

/// A sleep without a timer to wait for; any time would do.
const IDLE: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use std::net::UdpSocket as StdSocket;

    use super::*;
    use crate::surface::sip::tests::rig::{Caller, OFFER, answer, status};
    use crate::surface::sip::{CallHandle, EndCause, LocalMedia};

    /// How long a test waits for what must come.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// A far end on a socket of its own.
    struct Phone(UdpSocket, SocketAddr);

    impl Phone {
        async fn new(server: &Server) -> Self {
            Self(UdpSocket::bind("127.0.0.1:0").await.expect("socket"), server.address())
        }

        async fn send(&self, message: &str) {
            let message = message.replace("branch=", "rport;branch=");
            self.0.send_to(message.as_bytes(), self.1).await.expect("sent");
        }

        async fn receive(&self) -> String {
            let mut buffer = vec![0; 65_535];
            let received = tokio::time::timeout(PATIENCE, self.0.recv_from(&mut buffer)).await;
            let (length, _) = received.expect("in time").expect("received");
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        }
    }

    fn start() -> Server {
        let mut config = EndpointConfig::new("127.0.0.1:0".parse().expect("address"));
        config.calls_max = 2000;
        Server::start("127.0.0.1:0".parse().expect("address"), config, [1; 32]).expect("started")
    }

    async fn incoming(server: &mut Server) -> CallHandle {
        match tokio::time::timeout(PATIENCE, server.events.recv()).await {
            Ok(Some(Event::Incoming(incoming))) => incoming.call,
            other => panic!("{other:?}"),
        }
    }

    async fn accept(server: &Server, call: CallHandle) {
        let address = "127.0.0.1".parse().expect("address");
        let local = LocalMedia { address, rtp_port: 40000, rtcp_port: 40001, rtcp_mux: false };
        server.commands.send(Command::Accept { call, local }).await.expect("running");
    }

    #[tokio::test]
    async fn a_port_that_is_taken_says_what_to_do() {
        let other = StdSocket::bind("127.0.0.1:0").expect("socket");
        let address = other.local_addr().expect("address");
        let error = Server::start(address, EndpointConfig::new(address), [1; 32]).expect_err("taken");
        let text = error.to_string();
        assert!(text.contains("another program") && text.contains(&format!("ss -ulpn 'sport = :{}'", address.port())), "{text}");
    }

    #[tokio::test]
    async fn shutdown_ends_the_calls_and_waits_for_their_answers() {
        let mut server = start();
        let phone = Phone::new(&server).await;
        let mut caller = Caller::new("c1");
        phone.send(&caller.invite(OFFER)).await;
        let call = incoming(&mut server).await;
        accept(&server, call).await;
        assert_eq!(status(&phone.receive().await), 100);
        let ok = phone.receive().await;
        caller.learn(&ok);
        phone.send(&caller.ack("").replace("192.0.2.1:5060>", &format!("{}>", phone.0.local_addr().expect("address")))).await;
        assert!(matches!(server.events.recv().await, Some(Event::Established { .. })));
        // The Contact of the INVITE is an address of documentation: the BYE goes nowhere, and shutdown is bounded.
        let started = Instant::now();
        server.commands.send(Command::Shutdown).await.expect("running");
        assert_eq!(server.events.recv().await, Some(Event::Ended { call, cause: EndCause::LocalBye }));
        server.ended().await;
        assert!(started.elapsed() < Duration::from_secs(4));
    }

    #[tokio::test]
    async fn shutdown_is_over_as_soon_as_the_bye_is_answered() {
        let mut server = start();
        let phone = Phone::new(&server).await;
        let contact = format!("ana@{}>", phone.0.local_addr().expect("address"));
        let mut caller = Caller::new("c1");
        phone.send(&caller.invite(OFFER).replace("ana@192.0.2.1:5060>", &contact)).await;
        let call = incoming(&mut server).await;
        accept(&server, call).await;
        phone.receive().await;
        caller.learn(&phone.receive().await);
        phone.send(&caller.ack("").replace("ana@192.0.2.1:5060>", &contact)).await;
        assert!(matches!(server.events.recv().await, Some(Event::Established { .. })));
        let started = Instant::now();
        server.commands.send(Command::Shutdown).await.expect("running");
        let bye = phone.receive().await;
        assert!(bye.starts_with("BYE "), "{bye}");
        phone.0.send_to(answer(&bye, 200).as_bytes(), phone.1).await.expect("sent");
        server.ended().await;
        assert!(started.elapsed() < SHUTDOWN_MAX);
    }

    #[tokio::test]
    async fn no_event_is_lost_when_the_application_is_slow() {
        const CALLS: usize = 600;
        let mut server = start();
        let phone = Phone::new(&server).await;
        let calling = tokio::spawn(async move {
            for number in 0..CALLS {
                let invite = Caller::new("c")
                    .invite("")
                    .replace("z9hG4bKc", &format!("z9hG4bKc{number}x"))
                    .replace("Call-ID: c", &format!("Call-ID: c{number}"));
                // Repeated until its 100, as phones do: while the queue is full nobody reads the socket.
                let mut buffer = [0; 4096];
                loop {
                    phone.send(&invite).await;
                    let answer = phone.0.recv_from(&mut buffer);
                    if tokio::time::timeout(Duration::from_millis(100), answer).await.is_ok() {
                        break;
                    }
                }
            }
        });
        while server.events.len() < EVENTS_MAX {
            let changed = tokio::time::timeout(PATIENCE, server.counters.changed());
            changed.await.expect("in time").expect("running");
        }
        let mut told = std::collections::BTreeSet::new();
        while told.len() < CALLS {
            assert!(told.insert(incoming(&mut server).await), "told twice");
        }
        calling.await.expect("all calls were answered 100");
        assert_eq!(server.counters.borrow().calls_incoming, CALLS as u64);
    }
}
