//! A service on loopback that speaks the Realtime protocol, and misbehaves where a test says so.
//!
//! Every event of both sides goes to a tap, except for deviations that are meant to be none of the protocol's.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use recado::g711::Codec;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

/// An answer that is no connection: its status, a header, its body.
pub type HttpAnswer = (u16, Option<(&'static str, &'static str)>, &'static str);

/// What the service does with one connection.
#[derive(Debug, Clone, Default)]
pub struct Conduct {
    /// Answers with this instead of a connection.
    pub answers: Option<HttpAnswer>,
    /// What it does first.
    pub hello: Hello,
    /// The service detects turns: it makes items of what it hears by itself, when so many bytes of it have come.
    pub detects_after: Option<usize>,
    /// What it does with each response that is asked for in the conversation; then it speaks.
    pub replies: VecDeque<Reply>,
}

/// What the service does first.
#[derive(Debug, Clone, Copy, Default)]
pub enum Hello {
    /// Says that there is a session.
    #[default]
    Session,
    /// Says nothing, ever.
    Nothing,
    /// Complains, and closes.
    Complaint { kind: &'static str, code: &'static str, close: u16 },
    /// Says that there is a session, and refuses its settings.
    RefusesSettings { code: &'static str },
    /// Closes.
    Close(u16),
    /// Takes the session, and closes then.
    SessionAndClose(u16),
}

/// What the service does with a response.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Says this, in so many milliseconds of sound.
    Speak(&'static str, usize),
    /// Calls a function, and says nothing.
    Call(&'static str, &'static str),
    /// Says something, and calls these functions; what it says of each call it says twice.
    SpeakAndCalls(&'static str, &'static [(&'static str, &'static str)]),
    /// Calls a function, and takes that back at once, as if the caller had broken in: it knows no such call any more.
    CallTakenBack(&'static str, &'static str),
    /// Calls a function and says this as [`Reply::Paced`] does; when it is cancelled, it takes the call back.
    CallTakenBackWhenCut(&'static str, &'static str, usize),
    /// Says this as [`Reply::Paced`] does, and calls a function only when it is cancelled.
    CallWhenCut(&'static str, &'static str, usize),
    /// Says this as [`Reply::Paced`] does, and goes on with it for a while after it was cancelled, and after it has said that it is.
    PacedAndLate(&'static str, usize),
    /// Says something, and calls a function.
    SpeakAndCall(&'static str, &'static str, &'static str),
    /// Speaks until it is cancelled; confirms that or not.
    Long { confirms: bool },
    /// Says this at twice the pace of speech, for so many milliseconds of sound, unless it is cancelled.
    Paced(&'static str, usize),
    /// Begins to speak, complains so often of something that ends nothing, and ends.
    Complains(usize),
    /// Speaks for so many milliseconds at once, in one event.
    Burst(usize),
    /// Begins to speak, and the connection is gone without a goodbye.
    Cut,
    /// Begins to speak, calls a function, and the connection is gone without a goodbye.
    CallAndCut(&'static str),
    /// Begins to speak, and the session has expired.
    Expire,
    /// Does nothing.
    Stall,
    /// Begins a response, and says nothing in it until it is cancelled.
    Silent,
    /// Says this, in so many milliseconds of sound in every 400, and is silent for the rest of them; until it is cancelled.
    Mute(&'static str, usize),
    /// Fails with this code.
    Fail(&'static str),
    /// Is cut off by a filter.
    Filtered,
    /// Says that another response is under way, twice the same, and lets it end.
    Busy,
    /// Says and calls something with names, parts and events that other services have, and each twice.
    Deviate,
}

/// The service. It ends when this is dropped.
pub struct Service {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
    serving: JoinHandle<()>,
}

/// What the service has seen and sent.
#[derive(Default)]
pub struct Seen {
    tap: Mutex<Vec<String>>,
    requests: Mutex<Vec<String>>,
    connections: Mutex<u64>,
    changed: Notify,
}

impl Service {
    /// Serves one connection after the other with the next conduct; the last one stands for all further ones.
    pub async fn start(conducts: Vec<Conduct>) -> Self {
        Self::start_with(conducts, None).await
    }

    /// The same over TLS.
    pub async fn start_with(conducts: Vec<Conduct>, tls: Option<TlsAcceptor>) -> Self {
        Self::serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), conducts, tls)
    }

    /// The same at this address.
    pub fn serve(listener: TcpListener, conducts: Vec<Conduct>, tls: Option<TlsAcceptor>) -> Self {
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let serving = tokio::spawn(serve(listener, conducts, seen.clone(), tls));
        Self { address, seen, serving }
    }

    pub fn url(&self) -> String {
        format!("ws://{}/v1/realtime", self.address)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Seen {
    /// All events of both sides, a line each.
    pub fn tap(&self) -> Vec<String> {
        self.tap.lock().unwrap().clone()
    }

    /// What the clients sent, in order.
    pub fn sent_by_clients(&self) -> Vec<Value> {
        let lines = self.tap();
        let events = lines
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|line| line["side"].as_str().is_some_and(|side| side.ends_with("client")));
        events.map(|line| line["event"].clone()).collect()
    }

    /// The heads of the requests.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// What the service complained of, by its codes.
    pub fn complaints(&self) -> Vec<String> {
        let lines = self.tap();
        let events = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter_map(|line| Some(line["event"]["error"]["code"].as_str()?.to_owned())).collect()
    }

    /// How many connections there were.
    pub fn connections(&self) -> u64 {
        *self.connections.lock().unwrap()
    }

    /// Waits until the clients have sent something of which this holds.
    pub async fn until(&self, what: impl Fn(&[Value]) -> bool) {
        loop {
            let changed = self.changed.notified();
            if what(&self.sent_by_clients()) {
                return;
            }
            changed.await;
        }
    }

    /// Waits until so many events have gone over the wire.
    pub async fn until_there_are(&self, events: usize) {
        loop {
            let changed = self.changed.notified();
            if self.tap.lock().unwrap().len() >= events {
                return;
            }
            changed.await;
        }
    }

    /// Somebody asks for a connection.
    pub fn asked(&self, request: &Request) {
        self.requests.lock().unwrap().push(format!("{} {:?}", request.uri(), request.headers()));
    }

    /// What a client sends next on this connection.
    pub async fn next<S>(&self, socket: &mut WebSocketStream<S>, connection: u64) -> Result<Value, Gone>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    let event: Value = serde_json::from_str(&text).unwrap();
                    self.note("client", connection, &event);
                    return Ok(event);
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Gone),
                Some(Ok(_)) => {}
            }
        }
    }

    /// Another connection stands: its number.
    pub fn another_connection(&self) -> u64 {
        let mut connections = self.connections.lock().unwrap();
        *connections += 1;
        *connections
    }

    /// An event has gone over the wire.
    pub fn note(&self, side: &str, connection: u64, event: &Value) {
        self.tap.lock().unwrap().push(json!({ "side": side, "conn": connection, "event": event }).to_string());
        self.changed.notify_waiters();
    }
}

async fn serve(listener: TcpListener, conducts: Vec<Conduct>, seen: Arc<Seen>, tls: Option<TlsAcceptor>) {
    let mut conducts: VecDeque<Conduct> = conducts.into();
    // Connections end with their service.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((tcp, _)) = listener.accept().await {
        let conduct = if conducts.len() > 1 { conducts.pop_front().unwrap() } else { conducts.front().cloned().unwrap_or_default() };
        let (seen, tls) = (seen.clone(), tls.clone());
        connections.spawn(async move {
            match tls {
                None => upgrade(tcp, conduct, seen).await,
                Some(tls) => {
                    if let Ok(secure) = tls.accept(tcp).await {
                        upgrade(secure, conduct, seen).await;
                    }
                }
            }
        });
    }
}

/// Takes a connection; none where the client is answered otherwise, or goes away.
pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    answers: Option<HttpAnswer>,
    seen: &Arc<Seen>,
) -> Option<WebSocketStream<S>> {
    let seen = seen.clone();
    // The error's type is the library's.
    #[allow(clippy::result_large_err)]
    let check = move |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        seen.asked(request);
        match answers {
            None => Ok(response),
            Some((status, header, body)) => {
                let mut refusal = tokio_tungstenite::tungstenite::http::Response::builder().status(status);
                if let Some((name, value)) = header {
                    refusal = refusal.header(name, value);
                }
                Err(refusal.body(Some(body.to_owned())).unwrap())
            }
        }
    };
    accept_hdr_async(stream, check).await.ok()
}

async fn upgrade<S: AsyncRead + AsyncWrite + Unpin>(stream: S, conduct: Conduct, seen: Arc<Seen>) {
    let Some(socket) = accept(stream, conduct.answers, &seen).await else { return };
    let connection = seen.another_connection();
    let conversation = Conversation {
        socket,
        seen,
        connection,
        conduct,
        count: 0,
        heard: 0,
        format: json!(null),
        spoken: 0,
        active: false,
        open_calls: BTreeSet::new(),
        forgotten_calls: BTreeSet::new(),
        item: String::new(),
        sound: Sound::default(),
    };
    // A client that goes away is no fault of the service.
    let _ = conversation.hold().await;
}

/// One connection.
struct Conversation<S> {
    socket: WebSocketStream<S>,
    seen: Arc<Seen>,
    connection: u64,
    conduct: Conduct,
    count: u64,
    /// Bytes of audio of which no item has been made.
    heard: usize,
    format: Value,
    /// Responses so far.
    spoken: u64,
    /// Whether one is under way.
    active: bool,
    /// Calls that have no output yet, and those that it knows nothing of any more.
    open_calls: BTreeSet<String>,
    forgotten_calls: BTreeSet<String>,
    /// The item that is being said, and what is left of it.
    item: String,
    sound: Sound,
}

/// The connection is gone.
pub struct Gone;

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    async fn hold(mut self) -> Result<(), Gone> {
        match self.conduct.hello {
            Hello::Nothing => {
                while self.next().await.is_ok() {}
                return Ok(());
            }
            Hello::Complaint { kind, code, close } => {
                self.complain(kind, code, None).await?;
                return self.close(close).await;
            }
            Hello::Close(code) => return self.close(code).await,
            Hello::Session | Hello::RefusesSettings { .. } | Hello::SessionAndClose(_) => {}
        }
        self.say(json!({ "type": "session.created", "session": { "type": "realtime", "id": format!("sess_{}", self.connection) } }))
            .await?;
        loop {
            let event = self.next().await?;
            self.take(&event).await?;
        }
    }

    async fn take(&mut self, event: &Value) -> Result<(), Gone> {
        match event["type"].as_str().unwrap_or_default() {
            "session.update" => {
                if let Hello::RefusesSettings { code } = self.conduct.hello {
                    return self.complain("invalid_request_error", code, event["event_id"].as_str()).await;
                }
                self.format = event["session"]["audio"]["output"]["format"].clone();
                self.say(json!({ "type": "session.updated", "session": event["session"] })).await?;
                match self.conduct.hello {
                    Hello::SessionAndClose(code) => self.close(code).await,
                    _ => Ok(()),
                }
            }
            "input_audio_buffer.append" => {
                self.heard += STANDARD.decode(event["audio"].as_str().unwrap()).unwrap().len();
                match self.conduct.detects_after {
                    Some(bytes) if self.heard >= bytes => {
                        self.conduct.detects_after = None;
                        let item = self.name("item_u");
                        self.say(json!({ "type": "input_audio_buffer.speech_started", "audio_start_ms": 0, "item_id": item })).await?;
                        self.say(json!({ "type": "input_audio_buffer.speech_stopped", "audio_end_ms": 900, "item_id": item })).await?;
                        self.item_of_speech(item).await
                    }
                    _ => Ok(()),
                }
            }
            "input_audio_buffer.commit" if self.heard == 0 => {
                self.complain("invalid_request_error", "input_audio_buffer_commit_empty", event["event_id"].as_str()).await
            }
            "input_audio_buffer.commit" => {
                let item = self.name("item_u");
                self.item_of_speech(item).await
            }
            "input_audio_buffer.clear" => {
                self.heard = 0;
                self.say(json!({ "type": "input_audio_buffer.cleared" })).await
            }
            "conversation.item.create" if event["item"]["type"] == "function_call_output" && !self.takes_output(&event["item"]) => {
                self.complain("invalid_request_error", "invalid_tool_call_id", event["event_id"].as_str()).await
            }
            "conversation.item.create" => {
                let mut item = event["item"].clone();
                if item["id"].is_null() {
                    item["id"] = json!(self.name("item_c"));
                }
                item["status"] = json!("completed");
                self.say(json!({ "type": "conversation.item.added", "previous_item_id": null, "item": item })).await?;
                self.say(json!({ "type": "conversation.item.done", "previous_item_id": null, "item": item })).await
            }
            "conversation.item.truncate" => {
                self.say(json!({
                    "type": "conversation.item.truncated", "item_id": event["item_id"], "content_index": 0, "audio_end_ms": event["audio_end_ms"],
                }))
                .await
            }
            "conversation.item.delete" => self.say(json!({ "type": "conversation.item.deleted", "item_id": event["item_id"] })).await,
            "response.cancel" => self.complain("invalid_request_error", "response_cancel_not_active", event["event_id"].as_str()).await,
            "response.create" => self.respond(event).await,
            other => panic!("a client sends no {other}"),
        }
    }

    /// Whether the call that this is the output of is known. It is answered then.
    fn takes_output(&mut self, item: &Value) -> bool {
        let call = item["call_id"].as_str().unwrap();
        self.open_calls.remove(call);
        !self.forgotten_calls.contains(call)
    }

    async fn item_of_speech(&mut self, item: String) -> Result<(), Gone> {
        self.heard = 0;
        self.say(json!({ "type": "input_audio_buffer.committed", "previous_item_id": null, "item_id": item })).await?;
        let content = json!([{ "type": "input_audio", "transcript": null }]);
        let whole = json!({ "id": item, "type": "message", "role": "user", "status": "completed", "content": content });
        self.say(json!({ "type": "conversation.item.added", "previous_item_id": null, "item": whole })).await?;
        self.say(json!({
            "type": "conversation.item.input_audio_transcription.completed", "item_id": item, "content_index": 0,
            "transcript": "El pedido, por favor.", "usage": { "type": "duration", "seconds": 2.5 },
        }))
        .await
    }

    async fn respond(&mut self, asked: &Value) -> Result<(), Gone> {
        let beside = asked["response"]["conversation"] == "none";
        if !beside && self.active {
            return self.complain("invalid_request_error", "conversation_already_has_active_response", asked["event_id"].as_str()).await;
        }
        if !self.open_calls.is_empty() {
            return self.complain("invalid_request_error", "no_tool_output_found", asked["event_id"].as_str()).await;
        }
        let reply = if beside { None } else { self.conduct.replies.pop_front() };
        let reply = reply.unwrap_or(Reply::Speak("Lo que usted diga. Adelante.", 400));
        match reply {
            Reply::Stall => return Ok(()),
            Reply::Busy => {
                let foreign = self.name("resp_foreign_");
                self.say(response("response.created", &foreign, "in_progress", &json!(null), true)).await?;
                for _ in 0..2 {
                    self.complain("invalid_request_error", "conversation_already_has_active_response", asked["event_id"].as_str()).await?;
                }
                return self.say(response("response.done", &foreign, "completed", &json!(null), true)).await;
            }
            _ => {}
        }
        self.active |= !beside;
        let carried_out = self.carry_out(reply, &asked["response"]["metadata"], beside).await;
        self.active &= beside;
        carried_out
    }

    async fn carry_out(&mut self, reply: Reply, metadata: &Value, beside: bool) -> Result<(), Gone> {
        let id = self.name("resp_");
        self.spoken += 1;
        let mut late = None;
        self.say(response("response.created", &id, "in_progress", metadata, !beside)).await?;
        let status = match reply {
            Reply::Speak(words, ms) => {
                self.speak(&id, words, ms).await?;
                "completed"
            }
            Reply::Call(name, arguments) => {
                self.call(&id, name, arguments).await?;
                "completed"
            }
            Reply::SpeakAndCall(words, name, arguments) => {
                self.speak(&id, words, 300).await?;
                self.call(&id, name, arguments).await?;
                "completed"
            }
            Reply::SpeakAndCalls(words, calls) => {
                self.speak(&id, words, 300).await?;
                for (name, arguments) in calls {
                    let first = self.seen.tap().len();
                    self.call(&id, name, arguments).await?;
                    self.repeat(first).await?;
                }
                "completed"
            }
            Reply::CallTakenBack(name, arguments) => {
                let item = self.call(&id, name, arguments).await?;
                self.forget(&item).await?;
                "cancelled"
            }
            Reply::CallTakenBackWhenCut(name, words, ms) => {
                let item = self.call(&id, name, "{}").await?;
                if self.speak_at_pace(&id, words, ms).await? {
                    "completed"
                } else {
                    self.forget(&item).await?;
                    "cancelled"
                }
            }
            Reply::CallWhenCut(name, words, ms) => {
                if self.speak_at_pace(&id, words, ms).await? {
                    "completed"
                } else {
                    self.call(&id, name, "{}").await?;
                    "cancelled"
                }
            }
            Reply::PacedAndLate(words, ms) => {
                if self.speak_at_pace(&id, words, ms).await? {
                    "completed"
                } else {
                    let item = self.item.clone();
                    self.words(&id, &item, words).await?;
                    for _ in 0..10 {
                        self.sound(&id, &item, 200).await?;
                        let _ = self.is_cancelled_within(Duration::from_millis(20)).await?;
                    }
                    self.end_item(&id, &item, words).await?;
                    late = Some(item);
                    "cancelled"
                }
            }
            Reply::Silent => {
                while !self.is_cancelled_within(Duration::from_millis(100)).await? {}
                "cancelled"
            }
            Reply::Mute(words, ms) => {
                let item = self.begin_item(&id, words).await?;
                self.words(&id, &item, words).await?;
                loop {
                    self.sound(&id, &item, ms).await?;
                    let rest = self.code(&vec![0; (400 - ms) * 8]);
                    self.say(of(&id, &item, json!({ "type": "response.output_audio.delta", "delta": rest }))).await?;
                    if self.is_cancelled_within(Duration::from_millis(400)).await? {
                        break "cancelled";
                    }
                }
            }
            Reply::Long { confirms } => {
                if !self.speak_until_cancelled(&id, confirms).await? {
                    return Ok(());
                }
                "cancelled"
            }
            Reply::Paced(words, ms) => match self.speak_at_pace(&id, words, ms).await? {
                true => "completed",
                false => "cancelled",
            },
            Reply::Complains(times) => {
                for _ in 0..times {
                    self.complain("server_error", "weird", None).await?;
                }
                self.speak(&id, "Bueno.", 1_000).await?;
                "completed"
            }
            Reply::Burst(ms) => {
                let item = self.begin_item(&id, BURST).await?;
                self.words(&id, &item, BURST).await?;
                self.sound(&id, &item, ms).await?;
                self.end_item(&id, &item, BURST).await?;
                "completed"
            }
            Reply::Cut => {
                let item = self.begin_item(&id, "Esto se ").await?;
                self.words(&id, &item, "Esto se ").await?;
                self.sound(&id, &item, 100).await?;
                return Err(Gone);
            }
            Reply::CallAndCut(name) => {
                let item = self.begin_item(&id, "I am on my ").await?;
                self.words(&id, &item, "I am on my ").await?;
                self.sound(&id, &item, 300).await?;
                self.call(&id, name, "{}").await?;
                return Err(Gone);
            }
            Reply::Expire => {
                let item = self.begin_item(&id, "Esto se ").await?;
                self.words(&id, &item, "Esto se ").await?;
                self.sound(&id, &item, 100).await?;
                self.complain("invalid_request_error", "session_expired", None).await?;
                return self.close(1001).await;
            }
            Reply::Fail(code) => {
                let error = json!({ "type": "server_error", "code": code, "message": "Not now." });
                let mut done = response("response.done", &id, "failed", metadata, !beside);
                done["response"]["status_details"] = json!({ "type": "failed", "error": error });
                return self.say(done).await;
            }
            Reply::Filtered => {
                self.speak(&id, "Esto no", 100).await?;
                let mut done = response("response.done", &id, "incomplete", metadata, !beside);
                done["response"]["status_details"] = json!({ "type": "incomplete", "reason": "content_filter" });
                return self.say(done).await;
            }
            Reply::Deviate => {
                self.deviate(&id).await?;
                "completed"
            }
            Reply::Stall | Reply::Busy => return Ok(()),
        };
        let mut done = response("response.done", &id, status, metadata, !beside);
        done["response"]["usage"] = json!({
            "total_tokens": 30, "input_tokens": 10, "output_tokens": 20,
            "input_token_details": { "text_tokens": 4, "audio_tokens": 6, "cached_tokens": 2 },
            "output_token_details": { "text_tokens": 5, "audio_tokens": 15 },
        });
        // Services say this as it suits them; here before the end, so that it is there when that is.
        let limits = json!([{ "name": "requests", "limit": 100, "remaining": 100 - self.spoken, "reset_seconds": 0.6 }]);
        self.say(json!({ "type": "rate_limits.updated", "rate_limits": limits })).await?;
        self.say(done).await?;
        let Some(item) = late else { return Ok(()) };
        // None of this is tapped: nothing may come of a response that is done.
        for _ in 0..10 {
            let delta = self.coded(200);
            let event = of(&id, &item, json!({ "type": "response.output_audio.delta", "event_id": "ev_late", "delta": delta }));
            self.send(Message::text(event.to_string())).await?;
        }
        Ok(())
    }

    /// Says all that it has said since then once more, which is not tapped.
    async fn repeat(&mut self, since: usize) -> Result<(), Gone> {
        for line in self.seen.tap().split_off(since) {
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["side"] == "server" && line["conn"] == self.connection {
                self.send(Message::text(line["event"].to_string())).await?;
            }
        }
        Ok(())
    }

    /// Takes back what it called last.
    async fn forget(&mut self, item: &str) -> Result<(), Gone> {
        self.forgotten_calls.append(&mut self.open_calls);
        self.say(json!({ "type": "conversation.item.deleted", "item_id": item })).await
    }

    async fn speak(&mut self, response: &str, words: &str, ms: usize) -> Result<(), Gone> {
        let item = self.begin_item(response, words).await?;
        for word in words.split_inclusive(' ') {
            self.words(response, &item, word).await?;
        }
        for _ in 0..ms / 100 {
            self.sound(response, &item, 100).await?;
        }
        self.end_item(response, &item, words).await
    }

    /// Whether it was cancelled, and is to be said so.
    async fn speak_until_cancelled(&mut self, response: &str, confirms: bool) -> Result<bool, Gone> {
        let item = self.begin_item(response, "uno, dos, tres. ").await?;
        loop {
            self.words(response, &item, "uno, dos, tres. ").await?;
            self.sound(response, &item, 200).await?;
            if self.is_cancelled_within(Duration::from_millis(5)).await? {
                return Ok(confirms);
            }
        }
    }

    /// Whether it was said to its end.
    async fn speak_at_pace(&mut self, response: &str, words: &str, ms: usize) -> Result<bool, Gone> {
        let item = self.begin_item(response, words).await?;
        self.words(response, &item, words).await?;
        for n in 0..ms / 200 {
            self.sound(response, &item, 200).await?;
            // A second of it is there at once.
            let wait = if n < 5 { Duration::ZERO } else { Duration::from_millis(100) };
            if self.is_cancelled_within(wait).await? {
                return Ok(false);
            }
        }
        self.end_item(response, &item, words).await?;
        Ok(true)
    }

    /// Takes what comes for so long, unless it is a cancel.
    async fn is_cancelled_within(&mut self, time: Duration) -> Result<bool, Gone> {
        let until = tokio::time::Instant::now() + time;
        while let Ok(event) = tokio::time::timeout_at(until, self.next()).await {
            let event = event?;
            if event["type"] == "response.cancel" {
                return Ok(true);
            }
            Box::pin(self.take(&event)).await?;
        }
        Ok(false)
    }

    async fn begin_item(&mut self, response: &str, words: &str) -> Result<String, Gone> {
        self.sound = Sound::of(words);
        let item = self.name("item_a");
        self.item = item.clone();
        let begun = json!({ "id": item, "type": "message", "role": "assistant", "status": "in_progress", "content": [] });
        self.say(json!({ "type": "response.output_item.added", "response_id": response, "output_index": 0, "item": begun })).await?;
        let part = json!({ "type": "audio", "transcript": "" });
        self.say(of(response, &item, json!({ "type": "response.content_part.added", "part": part }))).await?;
        Ok(item)
    }

    async fn words(&mut self, response: &str, item: &str, delta: &str) -> Result<(), Gone> {
        self.say(of(response, item, json!({ "type": "response.output_audio_transcript.delta", "delta": delta }))).await
    }

    async fn sound(&mut self, response: &str, item: &str, ms: usize) -> Result<(), Gone> {
        let delta = self.coded(ms);
        self.say(of(response, item, json!({ "type": "response.output_audio.delta", "delta": delta }))).await
    }

    /// The next of what is being said, in the session's format.
    fn coded(&mut self, ms: usize) -> String {
        let sound: Vec<i16> = self.sound.by_ref().take(ms * 8).collect();
        self.code(&sound)
    }

    /// Samples in the session's format.
    fn code(&self, sound: &[i16]) -> String {
        let coded = |codec: Codec| sound.iter().map(|sample| codec.encode_sample(*sample)).collect();
        let bytes: Vec<u8> = match self.format["type"].as_str() {
            // Three of them for each: what is added to the sound lies above what a telephone can carry.
            Some("audio/pcm") => sound.iter().flat_map(|sample| [*sample; 3]).flat_map(i16::to_le_bytes).collect(),
            Some("audio/pcma") => coded(Codec::Pcma),
            _ => coded(Codec::Pcmu),
        };
        STANDARD.encode(bytes)
    }

    async fn end_item(&mut self, response: &str, item: &str, words: &str) -> Result<(), Gone> {
        self.say(of(response, item, json!({ "type": "response.output_audio.done" }))).await?;
        self.say(of(response, item, json!({ "type": "response.output_audio_transcript.done", "transcript": words }))).await?;
        let part = json!({ "type": "audio", "transcript": words });
        self.say(of(response, item, json!({ "type": "response.content_part.done", "part": part }))).await?;
        let content = json!([{ "type": "output_audio", "transcript": words }]);
        let whole = json!({ "id": item, "type": "message", "role": "assistant", "status": "completed", "content": content });
        self.say(json!({ "type": "response.output_item.done", "response_id": response, "output_index": 0, "item": whole })).await
    }

    /// Calls a function: the item's name.
    async fn call(&mut self, response: &str, name: &str, arguments: &str) -> Result<String, Gone> {
        let (item, call) = (self.name("item_f"), self.name("call_"));
        self.open_calls.insert(call.clone());
        let made = |status: &str| json!({ "id": item, "type": "function_call", "status": status, "call_id": call, "name": name, "arguments": arguments });
        let (begun, whole) = (made("in_progress"), made("completed"));
        self.say(json!({ "type": "response.output_item.added", "response_id": response, "output_index": 1, "item": begun })).await?;
        self.say(json!({
            "type": "response.function_call_arguments.done", "response_id": response, "item_id": item, "output_index": 1, "call_id": call,
            "name": name, "arguments": arguments,
        }))
        .await?;
        self.say(json!({ "type": "response.output_item.done", "response_id": response, "output_index": 1, "item": whole })).await?;
        Ok(item)
    }

    /// What other services do. None of it is tapped.
    async fn deviate(&mut self, response: &str) -> Result<(), Gone> {
        let item = json!({ "id": "item_d", "type": "function_call", "name": "order", "call_id": "call_d", "arguments": "" });
        for event in [
            json!({ "type": "response.visemes.delta", "response_id": response, "anything": [1, null] }),
            json!({ "type": "conversation.item.created", "item": { "id": "item_x", "type": "message", "role": "assistant" } }),
            json!({ "type": "response.output_item.added", "response_id": response, "item": { "id": "item_e", "type": "message" } }),
            json!({ "type": "response.output_audio.delta", "response_id": response, "item_id": "item_e", "delta": "not base64" }),
            json!({ "type": "response.output_audio.delta", "response_id": response, "item_id": "item_e", "delta": STANDARD.encode([0x55; 80]) }),
            json!({ "type": "response.content_part.done", "response_id": response, "item_id": "item_e", "part": { "type": "output_audio", "transcript": "Hecho así." } }),
            json!({ "type": "response.output_audio_transcript.done", "response_id": response, "item_id": "item_e", "transcript": "Hecho así." }),
            json!({ "type": "response.output_item.added", "response_id": response, "item": item }),
            json!({ "type": "response.function_call_arguments.done", "response_id": response, "item_id": "item_d", "call_id": "call_d", "arguments": "{\"item\":\"pan\"}" }),
        ] {
            // Each comes twice.
            for _ in 0..2 {
                self.send(Message::text(event.to_string())).await?;
            }
        }
        self.send(Message::text("this is no event")).await?;
        self.send(Message::binary(vec![1, 2, 3])).await?;
        self.send(Message::Ping(vec![7].into())).await?;
        // For the tap, the call is known, as it is answered.
        let event_id = self.name("ev_");
        self.seen.note(
            "server",
            self.connection,
            &json!({
                "type": "response.function_call_arguments.done", "event_id": event_id, "response_id": response, "item_id": "item_d",
                "output_index": 0, "call_id": "call_d", "name": "order", "arguments": "{\"item\":\"pan\"}",
            }),
        );
        Ok(())
    }

    async fn complain(&mut self, kind: &str, code: &str, event_id: Option<&str>) -> Result<(), Gone> {
        let error = json!({ "type": kind, "code": code, "message": "The service complains.", "param": null, "event_id": event_id });
        self.say(json!({ "type": "error", "error": error })).await
    }

    async fn close(&mut self, code: u16) -> Result<(), Gone> {
        let frame = CloseFrame { code: code.into(), reason: "because".into() };
        self.socket.close(Some(frame)).await.map_err(|_| Gone)?;
        // The goodbye is answered, or not.
        while let Some(Ok(_)) = self.socket.next().await {}
        Err(Gone)
    }

    async fn say(&mut self, mut event: Value) -> Result<(), Gone> {
        event["event_id"] = json!(self.name("ev_"));
        self.seen.note("server", self.connection, &event);
        self.send(Message::text(event.to_string())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Gone> {
        self.socket.send(message).await.map_err(|_| Gone)
    }

    async fn next(&mut self) -> Result<Value, Gone> {
        self.seen.next(&mut self.socket, self.connection).await
    }

    fn name(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}{}", self.count)
    }
}

/// How these words sound, the first `ms` of them, as the telephone's samples.
pub fn sound_of(words: &str, ms: usize) -> Vec<i16> {
    Sound::of(words).take(ms * 8).collect()
}

/// A tone that changes every 50 ms, for each words in a way of their own.
#[derive(Default)]
pub struct Sound {
    at: usize,
    state: u64,
    phase: f64,
    step: f64,
}

impl Sound {
    pub fn of(words: &str) -> Self {
        let mix = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Self { state: words.bytes().fold(0xcbf2_9ce4_8422_2325, mix), ..Self::default() }
    }
}

impl Iterator for Sound {
    type Item = i16;

    fn next(&mut self) -> Option<i16> {
        if self.at.is_multiple_of(400) {
            self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            self.step = (300 + (self.state >> 33) % 1_700) as f64 * std::f64::consts::TAU / 8_000.0;
        }
        self.at += 1;
        self.phase += self.step;
        Some((self.phase.sin() * 9_000.0) as i16)
    }
}

/// An event about a whole response.
fn response(kind: &str, id: &str, status: &str, metadata: &Value, in_conversation: bool) -> Value {
    let conversation = if in_conversation { json!("conv_1") } else { json!(null) };
    json!({
        "type": kind,
        "response": {
            "object": "realtime.response", "id": id, "status": status, "status_details": null, "output": [], "conversation_id": conversation,
            "output_modalities": ["audio"], "max_output_tokens": "inf", "usage": null, "metadata": metadata,
        },
    })
}

/// An event about a part of an item of a response.
fn of(response: &str, item: &str, mut event: Value) -> Value {
    event["response_id"] = json!(response);
    event["item_id"] = json!(item);
    event["output_index"] = json!(0);
    event["content_index"] = json!(0);
    event
}

/// What is said at once.
pub const BURST: &str = "Muchas palabras. ";
