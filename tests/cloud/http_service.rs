//! Services on loopback as a cascade asks them, which misbehave where a test says so.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What is answered to one request.
#[derive(Debug, Clone)]
pub struct Conduct {
    pub status: u16,
    /// Lines of the head, beside how long the body is.
    pub headers: String,
    /// So long before the head.
    pub waits: Duration,
    pub body: Vec<u8>,
    /// So much of the body goes in one piece.
    pub piece_bytes: usize,
    /// So long after each.
    pub pace: Duration,
    pub end: End,
}

/// What comes after the last piece of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its end, and the next request.
    Proper,
    /// The connection is gone.
    Cut,
    /// Nothing, ever.
    Silence,
    /// The connection is gone before the head.
    NoHead,
}

impl Conduct {
    /// A JSON body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "content-type: application/json\r\n", body.to_string().into_bytes())
    }

    /// Server-sent events.
    pub fn events(events: &[Value]) -> Self {
        let mut body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        body.push_str("data: [DONE]\n\n");
        Self::stream(body)
    }

    /// This text, as a stream of events.
    pub fn stream(body: impl Into<String>) -> Self {
        Self::new(200, "content-type: text/event-stream; charset=utf-8\r\n", body.into().into_bytes())
    }

    pub fn new(status: u16, headers: &str, body: Vec<u8>) -> Self {
        Self {
            status,
            headers: headers.into(),
            waits: Duration::ZERO,
            body,
            piece_bytes: usize::MAX,
            pace: Duration::ZERO,
            end: End::Proper,
        }
    }

    /// An answer of a model, over `chat/completions`.
    pub fn says(text: &str) -> Self {
        Self::events(&chat(text, &[]))
    }

    /// What was written down.
    pub fn wrote(text: &str) -> Self {
        Self::json(200, &json!({ "text": text, "usage": { "type": "tokens", "input_tokens": 14, "output_tokens": 3, "total_tokens": 17 } }))
    }

    pub fn ends(self, end: End) -> Self {
        Self { end, ..self }
    }

    pub fn with(self, header: &str) -> Self {
        Self { headers: format!("{}{header}\r\n", self.headers), ..self }
    }

    /// Its head so late.
    pub fn after(self, ms: u64) -> Self {
        Self { waits: Duration::from_millis(ms), ..self }
    }

    /// In pieces of so many bytes, with so long after each.
    pub fn in_pieces(self, piece_bytes: usize, pace_ms: u64) -> Self {
        Self { piece_bytes, pace: Duration::from_millis(pace_ms), ..self }
    }
}

/// The events of an answer over `chat/completions`, its words in pieces of a few letters, its calls in pieces of two.
pub fn chat(text: &str, calls: &[(&str, &str)]) -> Vec<Value> {
    let chunk = |choices: Value, usage: Value| json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "answers", "choices": choices, "usage": usage });
    let delta = |delta: Value, finish: Value| json!([{ "index": 0, "delta": delta, "finish_reason": finish, "logprobs": null }]);
    let mut events = vec![chunk(delta(json!({ "role": "assistant", "content": "" }), Value::Null), Value::Null)];
    for piece in pieces(text, 5) {
        events.push(chunk(delta(json!({ "content": piece }), Value::Null), Value::Null));
    }
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let first = json!({ "index": index, "id": "the_same", "type": "function", "function": { "name": name, "arguments": "" } });
        events.push(chunk(delta(json!({ "tool_calls": [first] }), Value::Null), Value::Null));
        for piece in pieces(arguments, 2) {
            let more = json!({ "index": index, "function": { "arguments": piece } });
            events.push(chunk(delta(json!({ "tool_calls": [more] }), Value::Null), Value::Null));
        }
    }
    let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
    events.push(chunk(delta(json!({}), json!(reason)), Value::Null));
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 });
    events.push(chunk(json!([]), usage));
    events
}

fn pieces(text: &str, chars: usize) -> Vec<String> {
    text.chars().collect::<Vec<char>>().chunks(chars).map(|piece| piece.iter().collect()).collect()
}

/// The services. They end when this is dropped.
pub struct HttpService {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
    serving: JoinHandle<()>,
}

/// What they have seen.
pub struct Seen {
    requests: Mutex<Vec<Received>>,
    left: Mutex<u64>,
    looks: Mutex<u64>,
    /// What comes of asking for the list of models.
    pub list: Mutex<Conduct>,
    changed: Notify,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    /// In lower case.
    pub head: String,
    pub body: Vec<u8>,
    /// Which connection it came on.
    pub connection: u64,
    pub at: tokio::time::Instant,
}

impl Received {
    /// What the model was told, where it is asked.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The messages of the conversation that the model was told, without its instructions.
    pub fn messages(&self) -> Vec<Value> {
        self.json()["messages"].as_array().unwrap()[1..].to_vec()
    }

    pub fn transcribes(&self) -> bool {
        self.path.ends_with("/audio/transcriptions")
    }
}

impl HttpService {
    /// Answers each request of its kind with the next conduct; the last one stands for all further ones.
    pub async fn start(writes: Vec<Conduct>, answers: Vec<Conduct>) -> Self {
        let queues = Mutex::new([VecDeque::from(writes), VecDeque::from(answers)]);
        Self::start_with(move |request| {
            let mut queues = queues.lock().unwrap();
            let queue = &mut queues[usize::from(!request.transcribes())];
            if queue.len() > 1 { queue.pop_front().unwrap() } else { queue.front().expect("a conduct").clone() }
        })
        .await
    }

    /// Answers each request with what `conduct` says.
    pub async fn start_with(conduct: impl Fn(&Received) -> Conduct + Send + Sync + 'static) -> Self {
        Self::serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), conduct)
    }

    /// A socket at which nobody listens yet: connections to it are refused.
    pub fn closed() -> TcpSocket {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        socket
    }

    /// Answers each request at this address with what `conduct` says.
    pub fn serve(listener: TcpListener, conduct: impl Fn(&Received) -> Conduct + Send + Sync + 'static) -> Self {
        let address = listener.local_addr().unwrap();
        let list = Mutex::new(Conduct::json(200, &json!({ "object": "list", "data": [] })));
        let seen =
            Arc::new(Seen { requests: Mutex::default(), left: Mutex::default(), looks: Mutex::default(), list, changed: Notify::new() });
        let conduct: Arc<Conducts> = Arc::new(conduct);
        let serving = tokio::spawn({
            let seen = seen.clone();
            async move {
                for connection in 1.. {
                    let (stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(serve(stream, connection, seen.clone(), conduct.clone()));
                }
            }
        });
        Self { address, seen, serving }
    }

    /// The settings of a cascade of both.
    pub fn settings(&self, transcription: &str, language: &str) -> String {
        self.settings_beside(transcription, self.address, language)
    }

    /// The settings of a cascade of which this writes down, and whoever is at `answers` answers.
    pub fn settings_beside(&self, transcription: &str, answers: SocketAddr, language: &str) -> String {
        let writes = self.address;
        format!(
            "[model]\nkind = 'cascade'\n[cloud.transcription]\nurl = 'http://{writes}/v1'\nmodel = 'hears'\n{transcription}\n\
             [cloud.language]\nurl = 'http://{answers}/v1/'\nmodel = 'answers'\n{language}\n"
        )
    }
}

impl Drop for HttpService {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Seen {
    /// All requests so far.
    pub fn requests(&self) -> Vec<Received> {
        self.requests.lock().unwrap().clone()
    }

    /// The requests to answer.
    pub fn asked(&self) -> Vec<Received> {
        self.requests().into_iter().filter(|request| !request.transcribes()).collect()
    }

    /// The requests to write something down.
    pub fn heard(&self) -> Vec<Received> {
        self.requests().into_iter().filter(Received::transcribes).collect()
    }

    /// How often its list of models was asked for, which is no request of a conversation.
    pub fn looks(&self) -> u64 {
        *self.looks.lock().unwrap()
    }

    /// How often a client has left in the middle of an answer.
    pub fn left(&self) -> u64 {
        *self.left.lock().unwrap()
    }

    pub async fn until(&self, what: impl Fn(&Self) -> bool) {
        let happens = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if what(self) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), happens).await.unwrap_or_else(|_| panic!("within a minute: {:?}", self.requests()));
    }
}

type Conducts = dyn Fn(&Received) -> Conduct + Send + Sync;

async fn serve(mut stream: TcpStream, connection: u64, seen: Arc<Seen>, conduct: Arc<Conducts>) {
    while let Some(request) = receive(&mut stream, connection).await {
        let conduct = if request.path.ends_with("/models") {
            *seen.looks.lock().unwrap() += 1;
            seen.list.lock().unwrap().clone()
        } else {
            let conduct = conduct(&request);
            seen.requests.lock().unwrap().push(request);
            conduct
        };
        seen.changed.notify_waiters();
        if !answer(&mut stream, &conduct).await {
            *seen.left.lock().unwrap() += 1;
            seen.changed.notify_waiters();
            return;
        }
        if conduct.end != End::Proper {
            return;
        }
    }
}

async fn receive(stream: &mut TcpStream, connection: u64) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let path = String::from_utf8_lossy(&bytes[..end]).split(' ').nth(1)?.to_owned();
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(Ok(0), str::parse).ok()?;
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Received { path, head, body, connection, at: tokio::time::Instant::now() })
}

/// Says whether the client was there to the end.
async fn answer(stream: &mut TcpStream, conduct: &Conduct) -> bool {
    let Conduct { status, headers, waits, body, piece_bytes, pace, end } = conduct;
    tokio::time::sleep(*waits).await;
    if *end == End::NoHead {
        return true;
    }
    let head = format!("HTTP/1.1 {status} Said\r\n{headers}transfer-encoding: chunked\r\n\r\n");
    if stream.write_all(head.as_bytes()).await.is_err() {
        return false;
    }
    for piece in body.chunks((*piece_bytes).min(64 * 1024)) {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        if stream.write_all(&chunk).await.is_err() {
            return false;
        }
        // A client that leaves closes the connection, and sends nothing before it has all.
        let mut nothing = [0; 1];
        if !pace.is_zero() && tokio::time::timeout(*pace, stream.read(&mut nothing)).await.is_ok() {
            return false;
        }
    }
    match end {
        End::Proper => stream.write_all(b"0\r\n\r\n").await.is_ok(),
        End::Silence => stream.read(&mut [0; 1]).await.is_ok_and(|read| read > 0),
        End::Cut | End::NoHead => true,
    }
}
