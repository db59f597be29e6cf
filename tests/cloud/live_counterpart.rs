//! A session of the Live protocol with a service that others have written: CopilotKit's aimock, which `./dev live-test` fetches. It takes no
//! speech: it plays a tape, and holds every event of its client against it, to the byte. The tape is what the session's state machine sends
//! where a service says what this one says. So it shows that the client's events have the form that others know, go over a real connection
//! as the session means them, and name what they are about by the names that the service gave; and that the session takes what a service of
//! others sends. It shows nothing of a telephone, whose audio is never the same twice, and nothing of what a model understands.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use recado::cognition::models::Command;
use recado::cognition::models::Output;
use recado::cognition::models::link::{Action, Line};
use recado::cognition::models::live::session::{Said, Session, Setup};
use recado::cognition::models::live::wire::ServerEvent;
use recado::cognition::models::live::{Link, News, Told};
use recado::cognition::models::transport::{Endpoint, ServerMessage};
use recado::config::Live;
use recado_core::conversation::effect::{Cause, ToolStatus};
use recado_core::conversation::input::ModelEvent;
use recado_core::policy::Language;
use recado_core::{DeliveryId, OperationId, ResponseId, Time, TurnId};
use serde_json::{Value, json};

use super::cascade_counterparts::Counterpart;
use super::talker::{A, B};

/// What happens in the conversation, in order.
enum Happens {
    /// The session is told something.
    Told(Told),
    /// The service sends this.
    Server(Value),
    /// The session says this.
    Says(fn(&Said) -> bool),
}

/// Greeted, heard, a task delegated and taken, and told how it stands and some news.
fn conversation(session: &Value) -> Vec<Happens> {
    let told = |command| Happens::Told(Told::Command(command));
    let said = |words: &str, at: u64| {
        Happens::Server(json!({ "type": "session.output_transcript.delta", "event_id": "", "delta": words, "start_ms": at, "end_ms": at }))
    };
    let sounds = || Happens::Server(json!({ "type": "session.output_audio.delta", "delta": STANDARD.encode(loud(4_800)) }));
    let appended = |kind: &str| {
        Happens::Server(
            json!({ "type": format!("session.{kind}.appended"), "event_id": "", "client_event_id": "", "start_ms": 0, "end_ms": 0 }),
        )
    };
    let mut started = session.clone();
    started
        .as_object_mut()
        .unwrap()
        .extend(json!({ "id": "session", "expires_at": 4_000_000_000_u64, "status": "active" }).as_object().unwrap().clone());
    vec![
        Happens::Server(json!({ "type": "session.started", "event_id": "", "client_event_id": "", "session": started })),
        Happens::Says(|said| *said == Said::Ready),
        told(Command::Respond { response: A, cause: Cause::Greeting }),
        appended("commentary"),
        said("Good morning. ", 0),
        sounds(),
        // Nobody knows this one, and it changes nothing.
        Happens::Server(json!({ "type": "session.mood.updated", "mood": "well" })),
        Happens::Says(|said| complete(said, A)),
        Happens::Told(Told::Caller(loud(48_000))),
        Happens::Server(json!({
            "type": "session.input_transcript.delta", "event_id": "", "delta": "A paella, please.", "start_ms": 100, "end_ms": 900,
        })),
        Happens::Server(json!({
            "type": "session.delegation.created", "event_id": "", "offset_ms": 1_000,
            "delegation": { "id": "delegation", "type": "delegation", "target": "client" },
        })),
        told(Command::Respond { response: B, cause: Cause::Turn { turn: TurnId(1) } }),
        Happens::Says(
            |said| matches!(said, Said::Output(Output::Event(ModelEvent::ToolCall { call, .. })) if call.arguments == json!({ "request": "A paella, please." })),
        ),
        Happens::Told(Told::Command(Command::ToolOutput {
            call_id: "delegation".to_owned(),
            operation: Some(OperationId(1)),
            status: ToolStatus::Running,
        })),
        appended("thinking"),
        Happens::Says(|said| matches!(said, Said::Acknowledged { .. })),
        said("It is being done. ", 2_000),
        sounds(),
        Happens::Says(|said| complete(said, B)),
        told(Command::Update { delivery: DeliveryId(1), text: "It is nearly done.".to_owned() }),
        appended("thinking"),
        Happens::Says(|said| matches!(said, Said::Acknowledged { .. })),
        Happens::Server(json!({ "type": "session.usage.updated", "event_id": "", "usage": { "seconds": 7.5 } })),
        Happens::Server(json!({
            "type": "session.closed", "event_id": "", "session": started, "usage": { "seconds": 8.5 }, "reason": "remote_hangup",
        })),
    ]
}

#[tokio::test]
async fn aimock_knows_every_event_of_a_session_in_which_a_task_is_delegated() {
    let live: Live = toml::from_str("url = 'ws://127.0.0.1/'\nmodel = 'gpt-live-1'\nformat = 'pcm24k'\nvoice = 'marin'").unwrap();
    let tape = Tape::of(session(&live));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("live.json");
    let fixtures = json!({ "fixtures": [{ "match": { "endpoint": "openai-live" }, "response": { "live": tape.whole(), "liveTiming": "immediate" } }] });
    std::fs::write(&file, fixtures.to_string()).unwrap();
    let serve = |port: u16| vec!["--port".into(), port.to_string(), "--fixtures".into(), file.display().to_string()];
    let Some(aimock) = Counterpart::start("RECADO_AIMOCK_PROGRAM", "aimock/node_modules/.bin/llmock", serve, "/__aimock/journal").await
    else {
        return;
    };
    let live = Live { url: format!("{}/v1/live/sessions", aimock.url.replace("http", "ws")), ..live };
    let mut link = Link::open(Endpoint::new(&live).unwrap(), session(&live));
    // The service has names of its own for what it delegates.
    let mut task = None;
    for happens in conversation(&tape.configuration) {
        match happens {
            Happens::Told(Told::Command(Command::ToolOutput { operation, status, .. })) => {
                let call_id = task.clone().expect("a task");
                link.handle.tell(Told::Command(Command::ToolOutput { call_id, operation, status })).unwrap();
            }
            Happens::Told(told) => link.handle.tell(told).unwrap(),
            Happens::Says(wanted) => loop {
                let said = match news(&mut link).await {
                    News::Said(said) => said,
                    News::Connected => continue,
                    other => panic!("{other:?}"),
                };
                if let Said::Output(Output::Event(ModelEvent::ToolCall { call, .. })) = &said {
                    task = Some(call.call_id.clone());
                }
                assert!(!matches!(said, Said::Trouble(_) | Said::Refused(_)), "{said:?}");
                if wanted(&said) {
                    break;
                }
            },
            Happens::Server(_) => {}
        }
    }
    // The last word of the tape comes only where all of it was played.
    loop {
        match news(&mut link).await {
            News::Reconnecting { reason } => {
                assert_eq!(reason, "the service has ended the session: remote_hangup");
                break;
            }
            News::Said(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let Link { handle, news: mut last } = link;
    drop(handle);
    while let Some(news) = last.recv().await {
        if let News::Ended(totals) = news {
            assert_eq!(totals.seconds, 8.5);
        }
    }
    println!("aimock, Live: {} events of the client and {} of the service, as on the tape", tape.count("client"), tape.count("server"));
}

/// A session with one tool, for what is delegated.
fn session(live: &Live) -> Session {
    let tool = "name = 'order'\ndescription = 'Orders'\nurl = 'http://127.0.0.1/'\n\
                parameters = { type = 'object', properties = { request = { type = 'string' } } }";
    Session::new(Setup::new(live, Language::En, "Be brief.", &[toml::from_str(tool).unwrap()]).unwrap(), None)
}

async fn news(link: &mut Link) -> News {
    tokio::time::timeout(Duration::from_secs(30), link.news.recv()).await.expect("news within half a minute").expect("news")
}

fn complete(said: &Said, of: ResponseId) -> bool {
    *said == Said::Output(Output::Event(ModelEvent::Complete { response: of }))
}

/// So many bytes of a tone, at 24 kHz.
fn loud(bytes: usize) -> Vec<u8> {
    (0..bytes / 2).flat_map(|n| ((f64::sin(n as f64 / 9.0) * 8_000.0) as i16).to_le_bytes()).collect()
}

/// What both sides send, in order, as aimock keeps it.
struct Tape {
    configuration: Value,
    entries: Vec<Value>,
    bindings: Vec<Value>,
    /// Commands of the client so far, and bytes of audio since the last.
    sent: (u64, usize),
    /// What the session has said since it was last waited for.
    said: VecDeque<Said>,
    /// The events of the client that wait to be acknowledged, by what they are.
    open: BTreeMap<String, Vec<(String, String)>>,
}

impl Tape {
    /// The tape of a conversation with this session, whose state machine is asked what it sends.
    fn of(mut session: Session) -> Self {
        let mut tape = Self {
            configuration: Value::Null,
            entries: Vec::new(),
            bindings: Vec::new(),
            sent: (0, 0),
            said: VecDeque::new(),
            open: BTreeMap::new(),
        };
        let mut now = Time(0);
        let begun = session.handle(now, Line::Connected);
        tape.client(begun);
        for happens in conversation(&tape.configuration.clone()) {
            match happens {
                Happens::Told(told) => {
                    let actions = session.handle(now, told);
                    tape.client(actions);
                }
                Happens::Server(event) => {
                    let event = tape.server(event);
                    if let Some(event) = ServerEvent::read(&event.to_string()).unwrap() {
                        tape.client(session.handle(now, Line::Server(event)));
                    }
                }
                // It has been said, or is as soon as its time has come.
                Happens::Says(wanted) => {
                    while !std::iter::from_fn(|| tape.said.pop_front()).any(|said| wanted(&said)) {
                        assert!(now < Time(60_000), "it is never said");
                        now = now.plus(30);
                        tape.client(session.handle(now, Line::Wake));
                    }
                }
            }
        }
        tape
    }

    fn whole(&self) -> Value {
        json!({
            "version": 1, "model": "gpt-live-1", "mode": "client", "configuration": self.configuration,
            "audio": { "encoding": "pcm16le", "sampleRateHz": 24_000, "channels": 1 },
            "capture": { "complete": true, "source": "authored", "terminalEntry": self.entries.len() - 1 },
            "entries": self.entries, "bindings": self.bindings,
        })
    }

    fn count(&self, side: &str) -> usize {
        self.entries.iter().filter(|entry| entry["direction"] == side).count()
    }

    fn client<E: serde::Serialize>(&mut self, actions: Vec<Action<E, Said>>) {
        for action in actions {
            let event = match action {
                Action::Send(event) => event,
                Action::Said(said) => {
                    self.said.push_back(said);
                    continue;
                }
                Action::Reconnect { .. } => continue,
            };
            let event = serde_json::to_value(event).unwrap();
            let kind = event["type"].as_str().unwrap().to_owned();
            match event["audio"].as_str() {
                Some(audio) => self.sent.1 += STANDARD.decode(audio).unwrap().len(),
                None => self.sent = (self.sent.0 + 1, 0),
            }
            if let Some(id) = event["event_id"].as_str() {
                let name = format!("client {id}");
                self.bind("/event_id", &name, "client", "define");
                self.open.entry(kind.clone()).or_default().push((id.to_owned(), name));
            }
            if event["delegation_id"].is_string() {
                self.bind("/delegation_id", "the task", "server", "reference");
            }
            if kind == "session.start" {
                self.configuration = event["session"].clone();
            }
            self.entries.push(json!({ "direction": "client", "atMs": 0, "event": event }));
        }
    }

    /// Puts an event of the service onto the tape, with its names; as it is then.
    fn server(&mut self, mut event: Value) -> Value {
        let kind = event["type"].as_str().unwrap().to_owned();
        if event["event_id"].is_string() {
            let id = format!("server_{}", self.entries.len());
            event["event_id"] = json!(id);
            self.bind("/event_id", &id, "server", "define");
        }
        if event["client_event_id"].is_string() {
            let about = if kind == "session.started" { "session.start".to_owned() } else { kind.replace("appended", "append") };
            let (id, name) = self.open.get_mut(&about).expect("an event of that kind").remove(0);
            event["client_event_id"] = json!(id);
            self.bind("/client_event_id", &name, "client", "reference");
        }
        if event["session"]["id"].is_string() {
            self.bind("/session/id", "the session", "server", if kind == "session.started" { "define" } else { "reference" });
        }
        if event["delegation"]["id"].is_string() {
            self.bind("/delegation/id", "the task", "server", "define");
        }
        let (command, audio_bytes) = self.sent;
        let barrier = json!({ "command": command, "audioBytes": audio_bytes });
        self.entries.push(json!({ "direction": "server", "atMs": 0, "event": event, "barrier": barrier }));
        event
    }

    fn bind(&mut self, pointer: &str, name: &str, owner: &str, action: &str) {
        let entry = self.entries.len();
        self.bindings.push(json!({ "entry": entry, "pointer": pointer, "name": name, "owner": owner, "action": action }));
    }
}
