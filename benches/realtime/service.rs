//! A Realtime service that speaks a tone, cheaply, and notes when what came and went.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use recado::g711::Codec;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

use super::clock::now_us;
use super::telephone::number_of;

/// How the service speaks.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// How much faster than it sounds.
    pub pace: u32,
    /// How long each answer is (ms).
    pub answer_ms: u32,
}

/// Something that the service saw or did, on one of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    pub at_us: u64,
    pub connection: usize,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A response was asked for.
    Asked,
    /// The first speech of it was sent.
    FirstDelta,
    Cancelled,
    Truncated {
        audio_end_ms: u64,
    },
    /// A numbered packet of the caller came.
    Heard {
        number: u32,
    },
}

/// The service. It ends with the program.
pub struct Service {
    pub address: String,
    noted: Arc<Mutex<Vec<Noted>>>,
}

impl Service {
    pub async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let noted = Arc::<Mutex<Vec<Noted>>>::default();
        let shared = Arc::clone(&noted);
        tokio::spawn(async move {
            for connection in 0.. {
                let (tcp, _) = listener.accept().await.expect("a connection");
                tcp.set_nodelay(true).expect("a socket");
                tokio::spawn(serve(tcp, manner, connection, Arc::clone(&shared)));
            }
        });
        Self { address, noted }
    }

    pub fn url(&self) -> String {
        format!("ws://{}/v1/realtime", self.address)
    }

    /// What was noted so far.
    pub fn noted(&self) -> Vec<Noted> {
        self.noted.lock().expect("no panic").clone()
    }
}

/// What is being said.
struct Saying {
    response: usize,
    left_ms: u32,
    next: Instant,
}

async fn serve(tcp: TcpStream, manner: Manner, connection: usize, noted: Arc<Mutex<Vec<Noted>>>) {
    let note = |what| noted.lock().expect("no panic").push(Noted { at_us: now_us(), connection, what });
    let Ok(mut socket) = accept_async(tcp).await else { return };
    let delta = tone();
    let (mut responses, mut saying) = (0, None::<Saying>);
    say(&mut socket, json!({ "type": "session.created", "session": { "type": "realtime", "id": "s" } })).await;
    loop {
        let due = saying.as_ref().map_or_else(|| Instant::now() + Duration::from_secs(3_600), |saying| saying.next);
        tokio::select! {
            message = socket.next() => {
                let Some(Ok(message)) = message else { return };
                let Message::Text(text) = message else { continue };
                // The commonest first, and without a parser: this is not what is measured.
                if let Some(audio) = text.split_once("\"input_audio_buffer.append\"").and_then(|_| field(&text, "\"audio\":\"")) {
                    if let Some(number) = STANDARD.decode(audio).ok().and_then(|octets| number_of(&octets)) {
                        note(What::Heard { number });
                    }
                    continue;
                }
                let event: Value = serde_json::from_str(&text).expect("JSON");
                match event["type"].as_str().unwrap_or_default() {
                    "session.update" => say(&mut socket, json!({ "type": "session.updated", "session": event["session"] })).await,
                    "input_audio_buffer.commit" => {
                        say(&mut socket, json!({ "type": "input_audio_buffer.committed", "item_id": format!("u{responses}") })).await;
                    }
                    "response.create" => {
                        note(What::Asked);
                        responses += 1;
                        let metadata = &event["response"]["metadata"];
                        say(&mut socket, json!({ "type": "response.created", "response": { "id": format!("r{responses}"), "metadata": metadata } })).await;
                        say(&mut socket, of(responses, "response.output_audio_transcript.delta", "words and words and words. ")).await;
                        saying = Some(Saying { response: responses, left_ms: manner.answer_ms, next: Instant::now() });
                    }
                    "response.cancel" => {
                        note(What::Cancelled);
                        match saying.take() {
                            Some(Saying { response, .. }) => done(&mut socket, response, "cancelled").await,
                            None => say(&mut socket, json!({ "type": "error", "error": { "type": "invalid_request_error", "code": "response_cancel_not_active", "message": "", "event_id": event["event_id"] } })).await,
                        }
                    }
                    "conversation.item.truncate" => note(What::Truncated { audio_end_ms: event["audio_end_ms"].as_u64().expect("a number") }),
                    _ => {}
                }
            }
            () = sleep_until(due) => {
                let Some(it) = &mut saying else { continue };
                if it.left_ms == 0 {
                    done(&mut socket, it.response, "completed").await;
                    saying = None;
                    continue;
                }
                if it.left_ms == manner.answer_ms {
                    note(What::FirstDelta);
                }
                say(&mut socket, of(it.response, "response.output_audio.delta", &delta)).await;
                it.left_ms = it.left_ms.saturating_sub(DELTA_MS);
                it.next += Duration::from_millis(u64::from(DELTA_MS / manner.pace));
            }
        }
    }
}

fn of(response: usize, kind: &str, delta: &str) -> Value {
    json!({ "type": kind, "response_id": format!("r{response}"), "item_id": format!("i{response}"), "content_index": 0, "delta": delta })
}

async fn done(socket: &mut WebSocketStream<TcpStream>, response: usize, status: &str) {
    say(socket, json!({ "type": "response.done", "response": { "id": format!("r{response}"), "status": status } })).await;
}

/// A client that is gone is seen when it is read.
async fn say(socket: &mut WebSocketStream<TcpStream>, event: Value) {
    let _ = socket.send(Message::text(event.to_string())).await;
}

/// What follows `key`, to the end of the string.
pub fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_once(key)?.1.split('"').next()
}

/// So much speech of 400 Hz, loud, as it goes over the wire.
fn tone() -> String {
    let samples = (0..DELTA_MS * 8).map(|n| (f64::from(n) / 20.0 * std::f64::consts::TAU).sin() * 8_000.0);
    STANDARD.encode(samples.map(|sample| Codec::Pcmu.encode_sample(sample as i16)).collect::<Vec<u8>>())
}

/// What one event holds.
pub const DELTA_MS: u32 = 200;
