//! A whole call that a service of others leads: the real binary, a telephone over real SIP, and Hugging Face's speech-to-speech, which
//! `./dev cloud-test` starts with stand-ins for its models. Each step says whether it passed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use recado::demo::{Caller, DemoError, Ear, patiently};
use recado_core::ledger::DeliveryState;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, accept_async, client_async};

use super::service::Seen;
use super::stage::*;
use super::validator::{self, Tap};

/// Where the counterpart is (`ADDRESS:PORT`), where what stands for its models is told what to hear, and where that keeps what it heard.
const COUNTERPART: &str = "RECADO_COUNTERPART";
const BACKEND: &str = "RECADO_COUNTERPART_BACKEND";
const FOLDER: &str = "RECADO_COUNTERPART_FOLDER";

const STORY: &str = "There was a house by the sea, and in the house there was a cat, and the cat had a mouse. ";
const YES: &str = "As you like, then I say no more. ";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the service that ./dev cloud-test starts"]
async fn a_whole_call_is_led_by_a_service_that_others_have_written() {
    let named = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: ./dev cloud-test sets it"));
    let (backend, folder) = (named(BACKEND), PathBuf::from(named(FOLDER)));
    let tap = Listening::between(named(COUNTERPART)).await;
    let stage = Stage::set(&tap.url, "format = 'pcm'\nturn_detection = 'server_vad'").await;
    let before = sessions_over(&folder);
    let boxed = stage.box_runs().await;
    // The service has room for one session, and the box looks at it when it starts.
    let looked = async {
        while sessions_over(&folder) == before {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    patiently("the service to have room again", looked).await.unwrap();
    let mut steps = Steps::default();
    let spoken_before = kept(&folder, "spoken").len();
    let next = async |heard: &str, said: &str, call: Value| {
        let body = json!({ "heard": heard, "said": said, "call": call }).to_string();
        // The same provider may be installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        client.post(format!("{backend}/next")).header("content-type", "application/json").body(body).send().await.unwrap();
    };

    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    steps.of("it greets, and is heard", to_the_end(&caller).await);

    next("Please order some bread.", "One moment.", json!({ "name": "order", "arguments": "{}" })).await;
    caller.line.say(&speech("request"));
    steps.of("what it calls becomes an operation", stage.tools.asked("order", 1).await);
    steps.of("the caller hears that it is accepted", to_the_end(&caller).await);
    let reported = stage.tools.report("order", json!({ "number": NUMBER })).await;
    steps.of("the result is recorded", reported.map(|status| assert_eq!(status, 200)));
    let settled = boxed.log.seen("the closing to be settled", |line| line["message"] == "delivery settled").await;
    steps.of("the caller has been told it", settled.map(drop));
    let knows = |events: &[Value]| events.iter().any(|event| event.to_string().contains(NUMBER));
    steps.of("the service is told what the caller was told", patiently("it to be told", tap.seen.until(knows)).await);

    next("Tell me a story.", &STORY.repeat(20), Value::Null).await;
    caller.line.say(&speech("again"));
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    steps.of("it tells a long story", patiently("the story", caller.line.hears_voice(2_000)).await);
    next("That is enough.", YES, Value::Null).await;
    caller.line.say(&speech("interruption"));
    let truncated = |events: &[Value]| of(events, "conversation.item.truncate").count() == 1;
    steps.of("the caller breaks in, and the story is truncated", patiently("it to be truncated", tap.seen.until(truncated)).await);
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    steps.of("and is answered", to_the_end(&caller).await);
    let (_, ear) = caller.hang_up().await.unwrap();
    let over = boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await;
    steps.of("the call is settled", over.map(drop));

    judge(&mut steps, &Judged { ear, sent: tap.seen.sent_by_clients(), complaints: tap.seen.complaints(), folder, stage, spoken_before })
        .await;
    match validator::verdict(&[Tap::seen(&tap.seen)]) {
        Some(verdict) => {
            steps.of("every event of both sides is what the vendor's types say", verdict.map(|events| println!("  {events} events")))
        }
        None => println!("  skipped: the vendor's types are not there; `./dev test` fetches them"),
    }
    assert_eq!(steps.failed, 0, "steps failed");
}

/// How many sessions the service has ended, by its log.
fn sessions_over(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("service.log")).unwrap().matches(" released (session ").count()
}

/// What is left of the call.
struct Judged {
    ear: Ear,
    sent: Vec<Value>,
    complaints: Vec<String>,
    folder: PathBuf,
    stage: Stage,
    /// How much the voice had made before.
    spoken_before: usize,
}

async fn judge(steps: &mut Steps, call: &Judged) {
    let Judged { ear, sent, complaints, folder, stage, spoken_before } = call;
    // What it recognises it is given as an utterance, and sometimes as the beginnings of one.
    for name in ["request", "again", "interruption"] {
        let said = speech(name);
        let pieces: Vec<&[i16]> = said.chunks_exact(1_600).filter(|piece| loud(piece)).collect();
        let kept = kept(folder, "heard").into_iter().map(|samples| Ear { samples });
        let most = kept.map(|heard| pieces.iter().filter(|piece| !heard.find(piece).is_empty()).count()).max().unwrap_or_default();
        steps.holds(
            &format!("it hears what the caller says: {name}"),
            most * 4 >= pieces.len() * 3,
            &format!("{most} of {}", pieces.len()),
        );
    }
    let voice = kept(folder, "spoken");
    let heard_of = |spoken: &[i16]| {
        let pieces = spoken.chunks_exact(1_600);
        (pieces.clone().filter(|piece| ear.find(piece).len() == 1).count(), pieces.len())
    };
    let voice = &voice[*spoken_before..];
    let (greeting, last) = (voice.first().map(|spoken| heard_of(spoken)), voice.last().map(|spoken| heard_of(spoken)));
    for (what, heard) in [("the greeting", greeting), ("the last answer", last)] {
        let (heard, all) = heard.unwrap_or_default();
        // Its own resampler takes a little of the beginning and the end.
        steps.holds(
            &format!("the caller hears {what} as it was made"),
            all > 0 && heard + 2 >= all,
            &format!("{heard} of {all} fifths of a second"),
        );
    }
    for said in [ACCEPTED, CLOSING] {
        let times = ear.find(&spoken(said).await).len();
        steps.holds(&format!("the caller hears once: {said}"), times == 1, &format!("{times} times"));
    }
    let effects = stage.tools.effects("order");
    steps.holds("the order was carried out once", effects == 1, &effects.to_string());
    let states = states(&stage.history());
    steps.holds("the closing is on record as heard", states == [DeliveryState::Spoken], &format!("{states:?}"));
    let outputs = sent.iter().filter(|event| event["item"]["type"] == "function_call_output").count();
    steps.holds("its call has one output", outputs == 1, &outputs.to_string());
    steps.holds("it complains of nothing, the truncation included", complaints.is_empty(), &format!("{complaints:?}"));
}

/// What passed.
#[derive(Default)]
struct Steps {
    failed: usize,
}

impl Steps {
    fn of<E: ToString>(&mut self, what: &str, came: Result<(), E>) {
        match came {
            Ok(()) => self.holds(what, true, ""),
            Err(error) => self.holds(what, false, &error.to_string()),
        }
    }

    fn holds(&mut self, what: &str, holds: bool, found: &str) {
        self.failed += usize::from(!holds);
        println!("{} {what}{}{found}", if holds { "PASS" } else { "FAIL" }, if found.is_empty() { "" } else { ": " });
    }
}

async fn to_the_end(caller: &Caller) -> Result<(), DemoError> {
    patiently("the box to speak", caller.line.hears_voice(250)).await?;
    // The service makes its speech sentence by sentence.
    patiently("the box to have spoken", caller.line.hears_silence(1_500)).await
}

/// What the stand-ins for the models have kept, in order: the telephone's samples.
fn kept(folder: &Path, kind: &str) -> Vec<Vec<i16>> {
    let number = |file: &Path| file.file_stem()?.to_str()?.strip_prefix(kind)?.strip_prefix('-')?.parse::<u64>().ok();
    let files =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|file| file.extension().is_some_and(|it| it == "raw"));
    let mut files: Vec<(u64, PathBuf)> = files.filter_map(|file| Some((number(&file)?, file))).collect();
    files.sort();
    let samples = |file: &Path| std::fs::read(file).unwrap().chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    files.iter().map(|(_, file)| samples(file)).collect()
}

/// Passes on what a box and the service say to each other, and notes it.
struct Listening {
    url: String,
    seen: Arc<Seen>,
}

impl Listening {
    async fn between(service: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/v1/realtime", listener.local_addr().unwrap());
        let seen = Arc::new(Seen::default());
        let noted = Arc::clone(&seen);
        tokio::spawn(async move {
            for connection in 1.. {
                let (from_box, _) = listener.accept().await.unwrap();
                let request = format!("ws://{service}/v1/realtime?model=m").into_client_request().unwrap();
                let (to_service, _) = client_async(request, TcpStream::connect(&service).await.unwrap()).await.unwrap();
                tokio::spawn(pass_on(accept_async(from_box).await.unwrap(), to_service, Arc::clone(&noted), connection));
            }
        });
        Self { url, seen }
    }
}

async fn pass_on(from_box: WebSocketStream<TcpStream>, to_service: WebSocketStream<TcpStream>, seen: Arc<Seen>, connection: u64) {
    let ((mut to_box, mut of_box), (mut to_service, mut of_service)) = (from_box.split(), to_service.split());
    let note = |side: &str, message: &Message| {
        if let Message::Text(text) = message {
            seen.note(side, connection, &serde_json::from_str(text).unwrap());
        }
    };
    loop {
        let passed = tokio::select! {
            Some(Ok(message)) = of_box.next() => { note("client", &message); to_service.send(message).await }
            Some(Ok(message)) = of_service.next() => { note("server", &message); to_box.send(message).await }
            else => return,
        };
        if passed.is_err() {
            return;
        }
    }
}
