//! A service on loopback that speaks the Live protocol: it hears and speaks at the same time, at the pace of speech, and does what a test says.
//!
//! Every event of both sides goes to a tap, except for deviations that are meant to be none of the protocol's.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use recado::g711::Codec;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::service::{HttpAnswer, Seen, Sound, accept};

/// What the service does with one connection.
#[derive(Debug, Clone, Default)]
pub struct Conduct {
    /// Answers the request with this, and there is no connection.
    pub answers: Option<HttpAnswer>,
    /// Never says that the session has started.
    pub stalls: bool,
    /// Refuses the session with this code.
    pub refuses: Option<&'static str>,
    /// Ends the session as soon as it has started, for this reason.
    pub ends: Option<&'static str>,
    /// Acknowledges nothing that the model is told.
    pub acknowledges_nothing: bool,
    /// Whether it sends silence while the model says nothing.
    pub sends_silence: bool,
    /// Whether the model goes on speaking though the caller does, until they have said something; then it is quiet for a moment.
    pub talks_over: bool,
    /// What the model does when it is asked to speak, and whenever the caller has said something.
    pub acts: VecDeque<Act>,
}

/// What the model does.
#[derive(Debug, Clone)]
pub enum Act {
    /// Says this, in so many milliseconds.
    Speak(&'static str, usize),
    /// Says this, and delegates what the caller has said, which is this.
    Delegate { says: &'static str, ms: usize, caller_said: &'static str },
    /// Writes down that it says this, without a sound.
    Write(&'static str),
    /// The session is over, for this reason.
    Close(&'static str),
    /// The connection is gone without a goodbye.
    Cut,
    /// Sends what is no event, and events that nobody knows, and then says this.
    Deviate(&'static str, usize),
}

/// The service. It ends when this is dropped.
pub struct LiveService {
    pub seen: Arc<Seen>,
    pub address: SocketAddr,
    serving: JoinHandle<()>,
    /// Where the model of the last connection is made to act.
    acts: Acts,
}

type Acts = Arc<Mutex<Option<mpsc::UnboundedSender<Act>>>>;

impl LiveService {
    /// Serves one connection after the other with the next conduct; the last one stands for all further ones.
    pub async fn start(conducts: Vec<Conduct>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, acts) = (Arc::new(Seen::default()), Acts::default());
        let serving = tokio::spawn(serve(listener, conducts, seen.clone(), acts.clone()));
        Self { seen, address, serving, acts }
    }

    pub fn url(&self) -> String {
        format!("ws://{}/v1/live/sessions", self.address)
    }

    /// The model does something of its own accord.
    pub fn act(&self, act: Act) {
        self.acts.lock().unwrap().as_ref().expect("a connection").send(act).expect("a connection that stands");
    }
}

impl Drop for LiveService {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, conducts: Vec<Conduct>, seen: Arc<Seen>, acts: Acts) {
    let mut conducts: VecDeque<Conduct> = conducts.into();
    // Connections end with their service.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((tcp, _)) = listener.accept().await {
        let conduct = if conducts.len() > 1 { conducts.pop_front().unwrap() } else { conducts.front().cloned().unwrap_or_default() };
        let (seen, acts) = (seen.clone(), acts.clone());
        connections.spawn(async move {
            let Some(socket) = accept(tcp, conduct.answers, &seen).await else { return };
            let (sender, told) = mpsc::unbounded_channel();
            *acts.lock().unwrap() = Some(sender);
            let session = Session {
                socket,
                connection: seen.another_connection(),
                seen,
                conduct,
                started: None,
                count: 0,
                heard_ms: 0,
                loud_ms: 0,
                quiet_ms: 0,
                speaking: None,
                pause_ms: 0,
            };
            // A client that goes away is no fault of the service.
            let _ = session.hold(told).await;
        });
    }
}

/// One connection.
struct Session {
    socket: WebSocketStream<TcpStream>,
    seen: Arc<Seen>,
    connection: u64,
    conduct: Conduct,
    started: Option<Value>,
    /// Counts names.
    count: u64,
    /// How much was heard of the caller, how much of it was loud since they were last answered, and how long they have been quiet (ms).
    heard_ms: u64,
    loud_ms: u64,
    quiet_ms: u64,
    /// What the model says, and how much of it is left (ms).
    speaking: Option<(Sound, usize)>,
    /// How long it is quiet before that (ms).
    pause_ms: usize,
}

/// The connection is gone.
struct Gone;

impl Session {
    async fn hold(mut self, mut told: mpsc::UnboundedReceiver<Act>) -> Result<(), Gone> {
        let mut pace = tokio::time::interval(Duration::from_millis(FRAME_MS as u64));
        loop {
            tokio::select! {
                message = self.socket.next() => match message {
                    Some(Ok(Message::Text(text))) => {
                        let event: Value = serde_json::from_str(&text).unwrap();
                        self.seen.note("live-client", self.connection, &event);
                        self.take(&event).await?;
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Gone),
                    Some(Ok(_)) => {}
                },
                Some(act) = told.recv() => self.act(act).await?,
                _ = pace.tick() => self.goes_on().await?,
            }
        }
    }

    async fn take(&mut self, event: &Value) -> Result<(), Gone> {
        let client_event_id = &event["event_id"];
        match event["type"].as_str().unwrap_or_default() {
            "session.start" if self.conduct.stalls => Ok(()),
            "session.start" => {
                if let Some(code) = self.conduct.refuses {
                    let error =
                        json!({ "type": "invalid_request_error", "code": code, "message": "No.", "client_event_id": client_event_id });
                    return self.say(json!({ "type": "error", "error": error })).await;
                }
                let mut session = event["session"].clone();
                let facts = json!({ "id": format!("live_{}", self.connection), "expires_at": 1_900_000_000, "status": "active" });
                session.as_object_mut().unwrap().extend(facts.as_object().unwrap().clone());
                self.started = Some(session.clone());
                self.say(json!({ "type": "session.started", "session": session, "client_event_id": client_event_id })).await?;
                match self.conduct.ends {
                    Some(reason) => self.closed(reason).await,
                    None => Ok(()),
                }
            }
            _ if self.conduct.stalls => Ok(()),
            _ if self.started.is_none() => panic!("a session is started first, and not with {event}"),
            "session.input_audio.append" => {
                let audio = STANDARD.decode(event["audio"].as_str().unwrap()).unwrap();
                self.hear(&audio).await
            }
            kind @ ("session.thinking.append" | "session.commentary.append") => {
                let kind_of_ack = format!("{kind}ed");
                let at = self.heard_ms;
                let ack = json!({ "type": kind_of_ack, "start_ms": at, "end_ms": at, "client_event_id": client_event_id });
                if !self.conduct.acknowledges_nothing {
                    self.say(ack).await?;
                }
                match kind {
                    "session.commentary.append" => self.next_act().await,
                    _ => Ok(()),
                }
            }
            other => panic!("a client sends no {other}"),
        }
    }

    /// The caller's audio: once they have said something and are quiet again, the model acts.
    async fn hear(&mut self, audio: &[u8]) -> Result<(), Gone> {
        for piece in audio.chunks(8 * FRAME_MS * self.bytes_per_sample()) {
            let loud = self.is_loud(piece);
            self.heard_ms += FRAME_MS as u64;
            match loud {
                true => (self.loud_ms, self.quiet_ms) = (self.loud_ms + FRAME_MS as u64, 0),
                false => self.quiet_ms += FRAME_MS as u64,
            }
        }
        if self.loud_ms >= TURN_MS_LEAST {
            if !self.conduct.talks_over && self.quiet_ms == 0 {
                self.speaking = None;
            }
            if self.quiet_ms >= TURN_ENDS_MS {
                self.loud_ms = 0;
                self.next_act().await?;
            }
        }
        Ok(())
    }

    async fn next_act(&mut self) -> Result<(), Gone> {
        match self.conduct.acts.pop_front() {
            Some(act) => self.act(act).await,
            None => Ok(()),
        }
    }

    async fn act(&mut self, act: Act) -> Result<(), Gone> {
        match act {
            Act::Speak(words, ms) => self.speak(words, ms).await,
            Act::Delegate { says, ms, caller_said } => {
                let at = self.heard_ms;
                let id = self.name("dlg_");
                let delegation = json!({ "id": id, "target": "client", "type": "delegation" });
                self.say(json!({ "type": "session.delegation.created", "delegation": delegation, "offset_ms": at })).await?;
                // What was said is written down a little later than it is understood.
                for word in caller_said.split_inclusive(' ') {
                    let start_ms = at.saturating_sub(500);
                    self.say(json!({ "type": "session.input_transcript.delta", "delta": word, "start_ms": start_ms, "end_ms": at }))
                        .await?;
                }
                self.speak(says, ms).await
            }
            Act::Write(words) => self.write(words, 0).await,
            Act::Close(reason) => {
                self.closed(reason).await?;
                Err(Gone)
            }
            Act::Cut => Err(Gone),
            Act::Deviate(words, ms) => {
                for event in [
                    "this is no event",
                    r#"{"type":"session.output_video.delta","delta":[1]}"#,
                    r#"{"type":"session.output_audio.delta","delta":"no"}"#,
                ] {
                    self.send(Message::text(event)).await?;
                }
                self.send(Message::binary(vec![1, 2, 3])).await?;
                self.speak(words, ms).await
            }
        }
    }

    async fn closed(&mut self, reason: &str) -> Result<(), Gone> {
        let session = self.started.clone().expect("a session");
        self.say(json!({ "type": "session.closed", "reason": reason, "session": session, "usage": { "seconds": 9.0 } })).await
    }

    async fn write(&mut self, words: &str, ms: usize) -> Result<(), Gone> {
        let at = self.heard_ms;
        for word in words.split_inclusive(' ') {
            self.say(json!({ "type": "session.output_transcript.delta", "delta": word, "start_ms": at, "end_ms": at + ms as u64 })).await?;
        }
        Ok(())
    }

    async fn speak(&mut self, words: &str, ms: usize) -> Result<(), Gone> {
        self.write(words, ms).await?;
        self.pause_ms = if self.conduct.talks_over && self.speaking.is_some() { PAUSE_MS } else { 0 };
        self.speaking = Some((Sound::of(words), ms));
        let usage = json!({ "seconds": (self.heard_ms / 1_000) as f64 });
        self.say(json!({ "type": "session.usage.updated", "usage": usage, "context_window": { "usage_ratio": 0.01 } })).await
    }

    /// The next piece of what the model says, or of its silence.
    async fn goes_on(&mut self) -> Result<(), Gone> {
        let quiet = self.pause_ms > 0;
        self.pause_ms = self.pause_ms.saturating_sub(FRAME_MS);
        let samples: Vec<i16> = match &mut self.speaking {
            Some((sound, left_ms)) if !quiet => {
                let samples = sound.by_ref().take(8 * FRAME_MS).collect();
                *left_ms = left_ms.saturating_sub(FRAME_MS);
                if *left_ms == 0 {
                    self.speaking = None;
                }
                samples
            }
            _ if self.conduct.sends_silence && self.started.is_some() => vec![0; 8 * FRAME_MS],
            _ => return Ok(()),
        };
        let coded = |codec: Codec| samples.iter().map(|sample| codec.encode_sample(*sample)).collect::<Vec<u8>>();
        let bytes: Vec<u8> = match self.format() {
            ("audio/pcm", rate) => {
                // What is added to the sound lies above what a telephone can carry.
                samples.iter().flat_map(|sample| vec![*sample; rate as usize / 8_000]).flat_map(i16::to_le_bytes).collect()
            }
            ("audio/pcma", _) => coded(Codec::Pcma),
            _ => coded(Codec::Pcmu),
        };
        let event = json!({ "type": "session.output_audio.delta", "delta": STANDARD.encode(bytes) });
        self.seen.note("live-server", self.connection, &event);
        self.send(Message::text(event.to_string())).await
    }

    fn format(&self) -> (&str, u64) {
        let format = self.started.as_ref().map(|session| &session["audio"]["format"]);
        format.map_or(("", 8_000), |format| (format["type"].as_str().unwrap(), format["rate"].as_u64().unwrap()))
    }

    /// Bytes for each of a telephone's samples.
    fn bytes_per_sample(&self) -> usize {
        match self.format() {
            ("audio/pcm", rate) => rate as usize / 8_000 * 2,
            _ => 1,
        }
    }

    fn is_loud(&self, audio: &[u8]) -> bool {
        let samples: Vec<i16> = match self.format().0 {
            "audio/pcm" => audio.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect(),
            "audio/pcma" => audio.iter().map(|octet| Codec::Pcma.decode_sample(*octet)).collect(),
            _ => audio.iter().map(|octet| Codec::Pcmu.decode_sample(*octet)).collect(),
        };
        super::stage::loud(&samples)
    }

    async fn say(&mut self, mut event: Value) -> Result<(), Gone> {
        event["event_id"] = json!(self.name("ev_"));
        self.seen.note("live-server", self.connection, &event);
        self.send(Message::text(event.to_string())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Gone> {
        self.socket.send(message).await.map_err(|_| Gone)
    }

    fn name(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}{}_{}", self.connection, self.count)
    }
}

const FRAME_MS: usize = 20;
/// Less is no turn.
const TURN_MS_LEAST: u64 = 200;
/// A model answers when the caller has been quiet for so long: sooner than the box knows that the turn is over.
const TURN_ENDS_MS: u64 = 450;
/// Between what it said and what it says next.
const PAUSE_MS: usize = 700;
