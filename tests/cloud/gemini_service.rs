//! A service on loopback that speaks the Gemini Live protocol, and misbehaves where a test says so. It holds its client to the protocol:
//! what would cut into a response that is wanted, or what no connection of the service's takes, is a fault that it panics at.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::service::{Gone, HttpAnswer, Seen, Sound, accept};

/// What the service does with one connection.
#[derive(Debug, Clone, Default)]
pub struct Conduct {
    /// Answers the request with this, and there is no connection.
    pub answers: Option<HttpAnswer>,
    /// Never says that the session is set.
    pub stalls: bool,
    /// Closes with this, where another one would say that the session is set.
    pub refuses: Option<(u16, &'static str)>,
    /// What it does each time that it is to answer; then it speaks.
    pub replies: VecDeque<Reply>,
}

/// What the service does when it is to answer.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Says this, in so many milliseconds of sound.
    Speak(&'static str, usize),
    /// Says something, calls a function, and goes on when that is answered, where it waits for it.
    SpeakAndCall(&'static str, &'static str, &'static str),
    /// Says this at twice the pace of speech, unless it is interrupted.
    Paced(&'static str, usize),
    /// Calls a function and waits; when it is interrupted, it cancels the call.
    CallUntilInterrupted(&'static str, &'static str),
    /// Says this, and something more of which nobody asked, without an end.
    SpeakAndRamble(&'static str, usize),
    /// Says this, how the session is resumed, and that the connection ends.
    SpeakAndGoAway(&'static str, usize),
    /// Begins to speak, and closes.
    Close(u16),
    /// Says nothing, and does not end.
    Stall,
}

type Faults = Arc<Mutex<Vec<String>>>;

/// The service. It ends when this is dropped.
pub struct Service {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
    /// What the clients did that the protocol does not allow.
    faults: Faults,
    serving: JoinHandle<()>,
}

impl Service {
    /// Serves one connection after the other with the next conduct; the last one stands for all further ones.
    pub async fn start(conducts: Vec<Conduct>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, faults) = (Arc::new(Seen::default()), Faults::default());
        let serving = tokio::spawn(serve(listener, conducts, seen.clone(), faults.clone()));
        Self { address, seen, faults, serving }
    }

    pub fn url(&self) -> String {
        format!("ws://{}/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent", self.address)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
        let faults = self.faults.lock().unwrap();
        assert!(faults.is_empty() || std::thread::panicking(), "{faults:?}");
    }
}

async fn serve(listener: TcpListener, conducts: Vec<Conduct>, seen: Arc<Seen>, faults: Faults) {
    let mut conducts: VecDeque<Conduct> = conducts.into();
    // Connections end with their service.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((tcp, _)) = listener.accept().await {
        let conduct = if conducts.len() > 1 { conducts.pop_front().unwrap() } else { conducts.front().cloned().unwrap_or_default() };
        connections.spawn(upgrade(tcp, conduct, seen.clone(), faults.clone()));
    }
}

async fn upgrade(tcp: TcpStream, conduct: Conduct, seen: Arc<Seen>, faults: Faults) {
    let Some(socket) = accept(tcp, conduct.answers, &seen).await else { return };
    let connection = seen.another_connection();
    let conversation =
        Conversation { socket, seen, faults, connection, conduct, activity: false, waits: BTreeSet::new(), calls: 0, blocking: false };
    // A client that goes away is no fault of the service.
    let _ = conversation.hold().await;
}

/// One connection.
struct Conversation {
    socket: WebSocketStream<TcpStream>,
    seen: Arc<Seen>,
    faults: Faults,
    connection: u64,
    conduct: Conduct,
    /// The caller has begun to speak.
    activity: bool,
    /// The calls that it waits for.
    waits: BTreeSet<String>,
    calls: u64,
    blocking: bool,
}

/// What a message asks of the service.
enum Asks {
    Nothing,
    /// It is to stop what it says.
    Interrupts,
    /// It is to answer.
    Answer,
}

impl Conversation {
    async fn hold(mut self) -> Result<(), Gone> {
        let first = self.next().await?;
        let setup = &first["setup"];
        self.must(setup.is_object(), &first, "the first message sets the session");
        self.must(setup["realtimeInputConfig"]["automaticActivityDetection"]["disabled"] == true, &first, "the box owns turns");
        self.blocking = setup["tools"][0]["functionDeclarations"][0]["behavior"] == "BLOCKING";
        if self.conduct.stalls {
            while self.next().await.is_ok() {}
            return Err(Gone);
        }
        if let Some((code, reason)) = self.conduct.refuses {
            return self.close(code, reason).await;
        }
        self.say(json!({ "setupComplete": {} })).await?;
        let mut asked = false;
        loop {
            if std::mem::take(&mut asked) {
                asked = self.reply().await?;
                continue;
            }
            let message = self.next().await?;
            asked = matches!(self.take(&message), Asks::Answer);
        }
    }

    /// Takes a message, and holds it against what the protocol allows.
    fn take(&mut self, message: &Value) -> Asks {
        self.must(message.get("setup").is_none(), message, "a session is set once");
        if let Some(content) = message.get("clientContent") {
            self.must(!self.activity, message, "content cuts into what the caller says");
            return if content["turnComplete"] == true { Asks::Answer } else { Asks::Interrupts };
        }
        if let Some(responses) = message["toolResponse"]["functionResponses"].as_array() {
            for response in responses {
                let waited = self.waits.remove(response["id"].as_str().unwrap_or_default());
                self.must(waited || !self.blocking, message, "a call is answered once, while it is waited for");
                let silent = response["scheduling"] == "SILENT";
                self.must(self.blocking || silent, message, "what comes of a call makes nobody speak");
            }
        }
        let input = &message["realtimeInput"];
        if !input.is_null() {
            self.must(!self.blocking || self.waits.is_empty(), message, "a service that waits for an answer takes nothing else");
        }
        if input.get("activityStart").is_some() {
            self.must(!self.activity, message, "the caller has begun already");
            self.activity = true;
            return Asks::Interrupts;
        }
        if input.get("activityEnd").is_some() {
            self.must(self.activity, message, "the caller has not begun");
            self.activity = false;
            return Asks::Answer;
        }
        self.must(input.is_null() || self.activity, message, "the caller is heard where he speaks");
        Asks::Nothing
    }

    fn must(&self, holds: bool, message: &Value, what: &str) {
        if !holds {
            self.faults.lock().unwrap().push(format!("{what}: {message}"));
        }
    }

    /// Answers. Says whether it was asked for another answer meanwhile.
    async fn reply(&mut self) -> Result<bool, Gone> {
        match self.conduct.replies.pop_front().unwrap_or(Reply::Speak("As you say. ", 400)) {
            Reply::Speak(words, ms) => {
                self.speak(words, ms).await?;
                self.made().await?;
                self.complete().await?;
            }
            Reply::SpeakAndCall(words, name, arguments) => {
                self.speak(words, 300).await?;
                let call_id = self.call(name, arguments).await?;
                if self.blocking {
                    while self.waits.contains(&call_id) {
                        let message = self.next().await?;
                        if !matches!(self.take(&message), Asks::Nothing) {
                            return self.interrupted(&message).await;
                        }
                    }
                }
                self.made().await?;
                self.complete().await?;
            }
            Reply::Paced(words, ms) => {
                self.words(words).await?;
                let mut sound = Sound::of(words);
                for n in 0..ms / 200 {
                    self.sound(&mut sound, 200).await?;
                    // A second of it is there at once.
                    let wait = if n < 5 { Duration::ZERO } else { Duration::from_millis(100) };
                    if let Some(message) = self.interrupts_within(wait).await? {
                        return self.interrupted(&message).await;
                    }
                }
                self.made().await?;
                self.complete().await?;
            }
            Reply::CallUntilInterrupted(name, arguments) => {
                let call_id = self.call(name, arguments).await?;
                // Whatever comes of it: the service thinks on.
                loop {
                    if let Some(message) = self.interrupts_within(Duration::from_secs(60)).await? {
                        self.waits.remove(&call_id);
                        self.say(json!({ "toolCallCancellation": { "ids": [call_id] } })).await?;
                        return self.interrupted(&message).await;
                    }
                }
            }
            Reply::SpeakAndRamble(words, ms) => {
                self.speak(words, ms).await?;
                self.made().await?;
                self.complete().await?;
                self.speak("And another thing. ", 2_000).await?;
            }
            Reply::SpeakAndGoAway(words, ms) => {
                self.speak(words, ms).await?;
                self.made().await?;
                self.say(json!({ "goAway": { "timeLeft": "20s" } })).await?;
                self.complete().await?;
                let handle = format!("handle_{}", self.connection);
                self.say(json!({ "sessionResumptionUpdate": { "newHandle": handle, "resumable": true } })).await?;
            }
            Reply::Stall => loop {
                let message = self.next().await?;
                if !matches!(self.take(&message), Asks::Nothing) {
                    return self.interrupted(&message).await;
                }
            },
            Reply::Close(code) => {
                self.speak("This is not ", 100).await?;
                return self.close(code, "because").await.map(|()| false);
            }
        }
        Ok(false)
    }

    /// It was cut off by this message, which may ask for something else.
    async fn interrupted(&mut self, message: &Value) -> Result<bool, Gone> {
        // A little of it is on its way.
        let mut late = Sound::of("too late");
        self.sound(&mut late, 200).await?;
        self.say(json!({ "serverContent": { "interrupted": true } })).await?;
        self.say(json!({ "serverContent": { "turnComplete": true } })).await?;
        Ok(message["clientContent"]["turnComplete"] == true)
    }

    /// Takes what comes for so long, unless it interrupts.
    async fn interrupts_within(&mut self, time: Duration) -> Result<Option<Value>, Gone> {
        let until = tokio::time::Instant::now() + time;
        while let Ok(message) = tokio::time::timeout_at(until, self.next()).await {
            let message = message?;
            if !matches!(self.take(&message), Asks::Nothing) {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    async fn speak(&mut self, words: &str, ms: usize) -> Result<(), Gone> {
        let mut sound = Sound::of(words);
        self.words(words).await?;
        for _ in 0..ms / 100 {
            self.sound(&mut sound, 100).await?;
        }
        Ok(())
    }

    async fn words(&mut self, words: &str) -> Result<(), Gone> {
        for word in words.split_inclusive(' ') {
            self.say(json!({ "serverContent": { "outputTranscription": { "text": word } } })).await?;
        }
        Ok(())
    }

    async fn sound(&mut self, sound: &mut Sound, ms: usize) -> Result<(), Gone> {
        // Three of them for each: what is added to the sound lies above what a telephone can carry.
        let bytes: Vec<u8> = sound.by_ref().take(ms * 8).flat_map(|sample| [sample; 3]).flat_map(i16::to_le_bytes).collect();
        let part = json!({ "inlineData": { "mimeType": "audio/pcm;rate=24000", "data": STANDARD.encode(bytes) } });
        self.say(json!({ "serverContent": { "modelTurn": { "role": "model", "parts": [part] } } })).await
    }

    async fn call(&mut self, name: &str, arguments: &str) -> Result<String, Gone> {
        self.calls += 1;
        let call_id = format!("function-call-{}-{}", self.connection, self.calls);
        self.waits.insert(call_id.clone());
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        self.say(json!({ "toolCall": { "functionCalls": [{ "id": call_id, "name": name, "args": arguments }] } })).await?;
        Ok(call_id)
    }

    async fn made(&mut self) -> Result<(), Gone> {
        self.say(json!({ "serverContent": { "outputTranscription": { "finished": true } } })).await?;
        self.say(json!({ "serverContent": { "generationComplete": true } })).await
    }

    async fn complete(&mut self) -> Result<(), Gone> {
        self.say(json!({
            "serverContent": { "turnComplete": true, "interactionStatus": "IDLE" },
            "usageMetadata": {
                "promptTokenCount": 10, "responseTokenCount": 20, "totalTokenCount": 30,
                "responseTokensDetails": [{ "modality": "AUDIO", "tokenCount": 20 }],
            },
        }))
        .await
    }

    async fn close(&mut self, code: u16, reason: &str) -> Result<(), Gone> {
        let frame = CloseFrame { code: code.into(), reason: reason.to_owned().into() };
        self.socket.close(Some(frame)).await.map_err(|_| Gone)?;
        // The goodbye is answered, or not.
        while let Some(Ok(_)) = self.socket.next().await {}
        Err(Gone)
    }

    /// As Google's does, in binary frames.
    async fn say(&mut self, message: Value) -> Result<(), Gone> {
        self.seen.note("server", self.connection, &message);
        self.socket.send(Message::binary(message.to_string().into_bytes())).await.map_err(|_| Gone)
    }

    async fn next(&mut self) -> Result<Value, Gone> {
        self.seen.next(&mut self.socket, self.connection).await
    }
}
