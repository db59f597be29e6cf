//! A caller and an endpoint, without a network: time and datagrams are handed over.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::surface::sip::{CallHandle, Command, Endpoint, EndpointConfig, Event, Incoming, LocalMedia, Output};

/// The endpoint under test with its virtual clock, and all that it sent and told.
pub struct Rig {
    pub endpoint: Endpoint,
    pub now: Instant,
    pub sent: Vec<(String, SocketAddr)>,
    pub events: Vec<Event>,
}

pub fn caller_address() -> SocketAddr {
    "192.0.2.1:5060".parse().expect("address")
}

pub fn config() -> EndpointConfig {
    let mut config = EndpointConfig::new("192.0.2.9:5060".parse().expect("address"));
    config.allowed_sources.push("192.0.2.0/24".parse().expect("network"));
    config
}

pub fn local_media() -> LocalMedia {
    LocalMedia { address: "192.0.2.9".parse().expect("address"), rtp_port: 40000, rtcp_port: 40001, rtcp_mux: false }
}

impl Rig {
    pub fn new() -> Self {
        Self::with(config())
    }

    pub fn with(config: EndpointConfig) -> Self {
        let endpoint = Endpoint::new(config, [7; 32]).expect("valid settings");
        Self { endpoint, now: Instant::now(), sent: Vec::new(), events: Vec::new() }
    }

    /// One datagram in; what comes out at once.
    pub fn receive(&mut self, datagram: &str) -> Vec<String> {
        self.receive_from(datagram.as_bytes(), caller_address())
    }

    pub fn receive_from(&mut self, datagram: &[u8], source: SocketAddr) -> Vec<String> {
        self.endpoint.receive(self.now, datagram, source);
        self.drain()
    }

    pub fn command(&mut self, command: Command) -> Vec<String> {
        self.endpoint.command(self.now, command).expect("the command fits");
        self.drain()
    }

    /// Lets time pass, stopping at each timer; what was sent, and when, in milliseconds from now.
    pub fn pass(&mut self, duration: Duration) -> Vec<(u128, String)> {
        let start = self.now;
        let end = start + duration;
        let mut sent = Vec::new();
        while let Some(at) = self.endpoint.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.endpoint.wake(self.now);
            let since = self.now.duration_since(start).as_millis();
            sent.extend(self.drain().into_iter().map(|datagram| (since, datagram)));
        }
        self.now = end;
        sent
    }

    pub fn drain(&mut self) -> Vec<String> {
        let mut datagrams = Vec::new();
        while let Some(output) = self.endpoint.poll() {
            match output {
                Output::Transmit { datagram, destination } => {
                    let text: String = datagram.iter().map(|&byte| char::from(byte)).collect();
                    self.sent.push((text.clone(), destination));
                    datagrams.push(text);
                }
                Output::Event(event) => self.events.push(event),
            }
        }
        datagrams
    }

    /// The incoming call told last.
    pub fn incoming(&self) -> &Incoming {
        self.events
            .iter()
            .rev()
            .find_map(|event| match event {
                Event::Incoming(incoming) => Some(incoming),
                _ => None,
            })
            .expect("a call came in")
    }

    pub fn call(&self) -> CallHandle {
        self.incoming().call
    }

    pub fn last_event(&self) -> &Event {
        self.events.last().expect("an event")
    }

    /// Accepts the last incoming call; the 200.
    pub fn accept(&mut self) -> String {
        let call = self.call();
        let sent = self.command(Command::Accept { call, local: local_media() });
        sent.into_iter().next().expect("a 200")
    }

    /// A call with its ACK seen.
    pub fn established(&mut self, caller: &mut Caller) {
        self.receive(&caller.invite(OFFER));
        let ok = self.accept();
        caller.learn(&ok);
        self.receive(&caller.ack(""));
        assert!(matches!(self.last_event(), Event::Established { .. }));
    }
}

/// What the far end of one call knows; makes its requests.
pub struct Caller {
    pub call_id: &'static str,
    pub cseq: u32,
    pub branch: u32,
    pub to_tag: String,
    pub extra: &'static str,
    pub uri: &'static str,
}

impl Caller {
    pub fn new(call_id: &'static str) -> Self {
        Self { call_id, cseq: 1, branch: 0, to_tag: String::new(), extra: "", uri: "sip:box@192.0.2.9" }
    }

    pub fn invite(&mut self, body: &str) -> String {
        self.request("INVITE", body)
    }

    /// The next request, on a branch of its own.
    pub fn next(&mut self, method: &str, body: &str) -> String {
        self.cseq += 1;
        self.request(method, body)
    }

    pub fn ack(&mut self, body: &str) -> String {
        self.request("ACK", body)
    }

    pub fn request(&mut self, method: &str, body: &str) -> String {
        self.branch += 1;
        self.with_branch(method, body)
    }

    /// With the branch of the request before: CANCEL, and the ACK to a refusal.
    pub fn with_branch(&self, method: &str, body: &str) -> String {
        let Self { call_id, cseq, branch, to_tag, extra, uri } = self;
        let to_tag = if to_tag.is_empty() { String::new() } else { format!(";tag={to_tag}") };
        let content_type = if body.is_empty() || extra.contains("Content-Type") { "" } else { "Content-Type: application/sdp\r\n" };
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK{call_id}{branch}\r\nMax-Forwards: 70\r\nFrom: \"Ana\" <sip:ana@example.com>;tag=a1\r\nTo: <{uri}>{to_tag}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\nContact: <sip:ana@192.0.2.1:5060>\r\n{extra}{content_type}Content-Length: {}\r\n\r\n{body}",
            body.len(),
        )
    }

    /// Takes the tag of a response.
    pub fn learn(&mut self, response: &str) {
        self.to_tag = header(response, "To").split("tag=").nth(1).expect("a tag").to_owned();
    }
}

/// The first value of a header.
pub fn header<'a>(message: &'a str, name: &str) -> &'a str {
    headers(message, name).first().copied().unwrap_or_else(|| panic!("{name} in {message}"))
}

pub fn headers<'a>(message: &'a str, name: &str) -> Vec<&'a str> {
    let prefix = format!("{name}: ");
    message.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix(&prefix)).collect()
}

pub fn status(message: &str) -> u16 {
    message.strip_prefix("SIP/2.0 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok()).unwrap_or(0)
}

pub fn statuses(messages: &[String]) -> Vec<u16> {
    messages.iter().map(|message| status(message)).collect()
}

/// The answer to a request of the endpoint.
pub fn answer(request: &str, status: u16) -> String {
    let echoed: String = request
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| ["Via", "From", "To", "Call-ID", "CSeq"].iter().any(|name| line.starts_with(&format!("{name}:"))))
        .map(|line| format!("{line}\r\n"))
        .collect();
    format!("SIP/2.0 {status} x\r\n{echoed}Content-Length: 0\r\n\r\n")
}

pub fn sdp(media: &str) -> String {
    format!("v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n{media}")
}

/// A file of the shared cases, or `None` and a message where they are not there.
pub fn case_file(path: &str) -> Option<Vec<u8>> {
    let bytes = std::fs::read(case_path(path)).ok();
    if bytes.is_none() {
        println!("skipped: {path} is not there");
    }
    bytes
}

/// Where the shared cases lie: beside the checkout, or one further up from a worktree.
pub fn case_path(path: &str) -> std::path::PathBuf {
    let manifest = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let roots = ["../shared/cases", "../../shared/cases"].map(|root| manifest.join(root));
    let [near, far] = roots;
    if near.is_dir() { near.join(path) } else { far.join(path) }
}

pub const OFFER: &str = "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0 8 101\r\na=rtpmap:101 telephone-event/8000\r\n";
