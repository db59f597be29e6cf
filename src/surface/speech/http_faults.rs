//! A speech service that misbehaves: each clause is bounded, what is wrong is said, and nobody waits twice for one that is away.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use recado_core::policy::Language;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::http::SpeechService;
use super::stand_in::WithStandIn;
use super::{SpeechAudio, SpeechError, Synthesis, Synthesiser, Utterance};
use crate::config::CloudSpeech;

/// What a service does with a request, after it has read it.
#[derive(Debug, Clone)]
enum Does {
    /// Answers with this head (without what ends it), and this body, whole.
    Answers(String, Vec<u8>),
    /// Sends this, in these parts, and closes.
    Sends(Vec<Vec<u8>>),
    /// Sends this part again and again, after so many milliseconds each.
    Drips(Vec<u8>, Vec<u8>, u64),
    /// Nothing, for ever.
    Nothing,
}

/// A service on loopback.
struct Service {
    port: u16,
    does: Arc<Mutex<Does>>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    connections: Arc<AtomicUsize>,
}

impl Service {
    async fn that(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let service = Self {
            port: listener.local_addr().unwrap().port(),
            does: Arc::new(Mutex::new(does)),
            asked: Arc::default(),
            connections: Arc::default(),
        };
        let (does, asked, connections) = (Arc::clone(&service.does), Arc::clone(&service.asked), Arc::clone(&service.connections));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(stream, Arc::clone(&does), Arc::clone(&asked)));
            }
        });
        service
    }

    fn now_does(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn config(&self, more: &str) -> CloudSpeech {
        toml::from_str(&format!("url = 'http://127.0.0.1:{}/v1'\nmodel = 'speaks'\nvoices.es = 'coral'\n{more}", self.port)).unwrap()
    }

    fn engine(&self, more: &str) -> SpeechService {
        SpeechService::new(&self.config(more)).unwrap()
    }
}

async fn serve(mut stream: TcpStream, does: Arc<Mutex<Does>>, asked: Arc<Mutex<Vec<(String, Value)>>>) {
    while let Some((head, body)) = read_request(&mut stream).await {
        asked.lock().unwrap().push((head, body));
        let does = does.lock().unwrap().clone();
        let written = match does {
            Does::Answers(head, body) => {
                let head = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all(&[head.as_bytes(), &body].concat()).await
            }
            Does::Sends(parts) => {
                for part in parts {
                    let _ = stream.write_all(&part).await;
                    let _ = stream.flush().await;
                }
                return;
            }
            Does::Drips(head, part, ms) => {
                let mut written = stream.write_all(&head).await;
                while written.is_ok() {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    written = stream.write_all(&part).await;
                }
                written
            }
            Does::Nothing => std::future::pending().await,
        };
        if written.is_err() {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
            let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
            if let Some(body) = bytes.get(end + 4..end + 4 + length) {
                return Some((head, serde_json::from_slice(body).unwrap()));
            }
        }
        let mut more = [0; 4_096];
        match stream.read(&mut more).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&more[..read]),
        }
    }
}

/// So many milliseconds of a tone, as samples at 24 kHz.
fn tone(ms: usize) -> Vec<u8> {
    (0..ms * 24).map(|at| if at % 96 < 48 { 3_000_i16 } else { -3_000 }).flat_map(i16::to_le_bytes).collect()
}

fn pcm(ms: usize) -> Does {
    Does::Answers("200 OK\r\ncontent-type: audio/pcm".into(), tone(ms))
}

fn wav(data_length: u32) -> Vec<u8> {
    let mut wav = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    wav.extend(24_000_u32.to_le_bytes());
    wav.extend(48_000_u32.to_le_bytes());
    wav.extend(b"\x02\0\x10\0data");
    wav.extend(data_length.to_le_bytes());
    wav.extend(tone(500));
    wav
}

fn chunked(parts: &[&[u8]], ends: bool) -> Does {
    let mut sent = vec![b"HTTP/1.1 200 OK\r\ncontent-type: audio/pcm\r\ntransfer-encoding: chunked\r\n\r\n".to_vec()];
    sent.extend(parts.iter().map(|part| [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat()));
    if ends {
        sent.push(b"0\r\n\r\n".to_vec());
    }
    Does::Sends(sent)
}

async fn say(engine: &impl Synthesiser, text: &str) -> Result<SpeechAudio, SpeechError> {
    engine.synthesise(&Utterance::new(text, Language::Es)).await
}

/// Long enough for any machine.
const PATIENT: &str = "first_audio_timeout_ms = 60000\ntimeout_ms = 60000\n";

#[tokio::test]
async fn a_clause_is_asked_for_as_the_protocol_says_and_the_key_is_sent_and_shown_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    std::fs::write(&key, "s3cr3t").unwrap();
    let service = Service::that(pcm(500)).await;
    let more = format!("{PATIENT}key_file = '{}'\nheaders = {{ X-Branch = '12' }}\nspeed = 1.25\ninstructions = 'Softly.'", key.display());
    let engine = service.engine(&more);
    assert_eq!(say(&engine, "Hola, [[x]] señora.").await.unwrap().duration_ms(), 500);
    let (head, body) = service.asked.lock().unwrap()[0].clone();
    assert!(head.starts_with("post /v1/audio/speech http/1.1"), "{head}");
    assert!(
        head.contains("authorization: bearer s3cr3t") && head.contains("x-branch: 12") && head.contains("content-type: application/json")
    );
    let expected = serde_json::json!({
        "model": "speaks", "input": "Hola,   x   señora.", "voice": "coral", "response_format": "pcm", "speed": 1.25, "instructions": "Softly."
    });
    assert_eq!(body, expected);
    assert!(!format!("{engine:?}").contains("s3cr3t"));
    say(&engine, "Otra cosa").await.unwrap();
    assert_eq!(service.connections.load(Ordering::Relaxed), 1, "a connection is used again");

    service.now_does(Does::Answers(
        "401 Unauthorized\r\ncontent-type: application/json".into(),
        br#"{"error":{"message":"bad key s3cr3t"}}"#.into(),
    ));
    let refused = say(&engine, "Hola").await.unwrap_err().to_string();
    assert_eq!(refused, "the speech service answered 401 Unauthorized: bad key ***");
    let escaped = br#"{"error":{"message":"bad key \u0073\u0033cr3t or s3cr%33t"}}"#;
    service.now_does(Does::Answers("401 Unauthorized".into(), escaped.to_vec()));
    let refused = say(&engine, "Hola").await.unwrap_err().to_string();
    assert_eq!(refused, "the speech service answered 401 Unauthorized: bad key *** or ***");
    // A reason is cut at 300 characters.
    let long = format!("{}s3cr3t", "x".repeat(297));
    service.now_does(Does::Answers("401 Unauthorized".into(), serde_json::json!({ "error": long }).to_string().into()));
    let refused = say(&engine, "Hola").await.unwrap_err().to_string();
    assert!(refused.ends_with("xxx***") && !refused.contains("s3c"), "{refused}");
    let plain = service.engine(PATIENT);
    let _ = say(&plain, "Hola").await;
    let (head, body) = service.asked.lock().unwrap().last().unwrap().clone();
    assert!(!head.contains("authorization") && body.as_object().unwrap().len() == 4, "{body}");
    let english = engine.synthesise(&Utterance::new("hello", Language::En)).await;
    assert!(matches!(english, Err(SpeechError::NoVoiceFor { engine: "http", .. })));
    assert!(matches!(say(&engine, "¿…?").await, Err(SpeechError::NothingToSay)));
}

#[tokio::test]
async fn audio_is_taken_in_pieces_of_any_length_and_as_wav() {
    let samples = tone(500);
    let (first, rest) = samples.split_at(777);
    let service = Service::that(chunked(&[first, rest], true)).await;
    let engine = service.engine(PATIENT);
    assert_eq!(say(&engine, "Hola").await.unwrap().duration_ms(), 500);
    for length in [24_000, 0, u32::MAX] {
        service.now_does(Does::Answers("200 OK\r\ncontent-type: audio/wav".into(), wav(length)));
        assert_eq!(say(&engine, "Hola").await.unwrap().duration_ms(), 500, "also where samples were asked for");
        assert_eq!(say(&service.engine(&format!("{PATIENT}response_format = 'wav'")), "Hola").await.unwrap().duration_ms(), 500);
    }
    assert_eq!(service.asked.lock().unwrap().last().unwrap().1["response_format"], "wav");
    service.now_does(Does::Answers("200 OK\r\ncontent-type: audio/pcm; rate=48000".into(), tone(500)));
    assert_eq!(say(&engine, "Hola").await.unwrap().duration_ms(), 250);
}

#[tokio::test]
async fn what_a_service_does_wrong_is_said_and_bounded() {
    let service = Service::that(Does::Nothing).await;
    let answers = |head: &str, body: &[u8]| Does::Answers(head.to_owned(), body.to_vec());
    let endless = b"HTTP/1.1 200 OK\r\ncontent-type: audio/pcm\r\n\r\n".to_vec();
    for (does, more, told) in [
        (
            answers("429 Too Many Requests\r\nretry-after: 7", br#"{"error":{"message":"slow down"}}"#),
            "",
            "429 Too Many Requests: slow down",
        ),
        (answers("500 Internal Server Error", &vec![b'x'; 1 << 20]), "", "500 Internal Server Error"),
        (answers("302 Found\r\nlocation: http://127.0.0.1:1/", b""), "", "302 Found"),
        (answers("200 OK\r\ncontent-type: application/json", br#"{"error":"no"}"#), "", "it is application/json"),
        (answers("200 OK\r\ncontent-type: audio/mpeg", b"ID3"), "", "it is audio/mpeg"),
        (answers("200 OK\r\ncontent-type: application/octet-stream", &[b"ID3", &*tone(100)].concat()), "", "it is compressed"),
        (answers("200 OK\r\ncontent-type: audio/pcm", &[&[0xFF, 0xFB, 0x90, 0x64], &*tone(100)].concat()), "", "it is compressed"),
        (answers("200 OK\r\ncontent-type: audio/pcm", b""), "", "it is empty"),
        (answers("200 OK\r\ncontent-type: audio/pcm", &vec![0; 48_000]), "", "silent"),
        (answers("200 OK\r\ncontent-type: audio/pcm; rate=1", &tone(100)), "", "1 Hz"),
        (answers("200 OK\r\ncontent-type: audio/wav", &tone(100)), "response_format = 'wav'", "not a WAV file"),
        (answers("200 OK\r\ncontent-type: audio/wav", &wav(48_000)), "response_format = 'wav'", "ends at byte"),
        (answers("200 OK\r\ncontent-type: audio/pcm", &tone(61_000)), "", "more than 60 s"),
        (Does::Drips(endless, tone(4_000), 0), "", "more than 60 s"),
        (chunked(&[&tone(300)], false), "", "the connection to the speech service broke"),
        (
            Does::Sends(vec![b"HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\nabc".to_vec()]),
            "",
            "the connection to the speech service broke",
        ),
        (Does::Sends(Vec::new()), "", "the speech service"),
        (Does::Sends(vec![b"SSH-2.0-OpenSSH\r\n".to_vec()]), "", "the speech service"),
    ] {
        service.now_does(does.clone());
        let error = say(&service.engine(&format!("{PATIENT}{more}")), "Hola").await.unwrap_err();
        assert!(error.to_string().contains(told) && error.to_string().len() < 400, "{told}: {error}");
        assert!(error.is_the_engines() || matches!(error, SpeechError::AudioTooLong { .. }), "{error}");
        let asked = if told.starts_with("429") { Some(Duration::from_secs(7)) } else { None };
        assert_eq!(error.retry_after(), asked, "{error}");
    }
    let nobody = CloudSpeech { url: "http://127.0.0.1:1/v1".into(), ..service.config(PATIENT) };
    let error = say(&SpeechService::new(&nobody).unwrap(), "Hola").await.unwrap_err().to_string();
    assert!(error.starts_with("no connection to the speech service's host `127.0.0.1`"), "{error}");
}

#[tokio::test]
async fn a_service_that_stalls_or_drips_is_given_up_in_time() {
    let service = Service::that(Does::Nothing).await;
    let quick = "first_audio_timeout_ms = 300\ntimeout_ms = 60000\n";
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: audio/pcm\r\n\r\n".to_vec();
    // Before its answer, before its first audio, and in the middle of it.
    for does in
        [Does::Nothing, Does::Drips(head.clone(), tone(10), 600_000), Does::Drips([head.clone(), tone(200)].concat(), tone(10), 600_000)]
    {
        service.now_does(does);
        let error = say(&service.engine(quick), "Hola").await.unwrap_err();
        assert!(matches!(error, SpeechError::TimedOut(after) if after == Duration::from_millis(300)), "{error}");
    }
    service.now_does(Does::Drips(head, tone(1), 20));
    let error = say(&service.engine("first_audio_timeout_ms = 60000\ntimeout_ms = 700\n"), "Hola").await.unwrap_err();
    assert!(matches!(error, SpeechError::TimedOut(_)), "{error}");
}

/// A local engine, whose audio is 1,000 samples; it notes what it says.
#[derive(Default)]
struct Local(Mutex<Vec<String>>);

impl Synthesiser for Local {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        self.0.lock().unwrap().push(utterance.text.to_string());
        Box::pin(async { Ok(SpeechAudio::from_recording(utterance.text.clone(), [3_000, -3_000].repeat(500).into())) })
    }
}

fn is_local(audio: &SpeechAudio) -> bool {
    audio.samples_8khz.len() == 1_000
}

#[tokio::test]
async fn a_clause_that_the_service_does_not_speak_is_spoken_by_the_other_engine_and_a_dead_one_is_waited_for_once() {
    let service = Service::that(Does::Nothing).await;
    let local = Arc::new(Local::default());
    let first = Arc::new(service.engine("first_audio_timeout_ms = 400\ntimeout_ms = 60000\n"));
    let both = WithStandIn::new(first, Arc::clone(&local) as Arc<dyn Synthesiser>, "espeak-ng", 1 << 20);
    assert_eq!(both.impaired(Language::Es), None);
    // A reply: all its clauses are asked for at once.
    let clauses = ["uno", "dos", "tres", "cuatro"];
    let spoken = futures_util::future::join_all(clauses.iter().map(|clause| say(&both, clause))).await;
    assert!(spoken.iter().all(|audio| is_local(audio.as_ref().unwrap())));
    assert_eq!(*local.0.lock().unwrap(), clauses, "none is lost, and none said twice");
    let impaired = both.impaired(Language::Es).unwrap();
    assert!(impaired.contains("no audio within 400ms") && impaired.ends_with("until it works, espeak-ng speaks"), "{impaired}");

    // What follows does not wait for the service, also when it is tried again.
    let asked = service.asked();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut said = 0;
    while service.asked() == asked {
        assert!(Instant::now() < deadline, "it is tried again");
        said += 1;
        assert!(is_local(&say(&both, &format!("hola {said}")).await.unwrap()));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(both.impaired(Language::Es).is_some());

    // It is back: the next try shows it, and after that it speaks.
    service.now_does(pcm(500));
    loop {
        assert!(Instant::now() < deadline, "it is taken up again");
        said += 1;
        let audio = say(&both, &format!("hola {said}")).await.unwrap();
        if !is_local(&audio) {
            assert_eq!(audio.duration_ms(), 500);
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(both.impaired(Language::Es), None);
    // A phrase that was spoken is not asked for again.
    let asked = service.asked();
    assert_eq!(say(&both, &format!("hola {said}")).await.unwrap().duration_ms(), 500);
    assert_eq!(service.asked(), asked);
}

#[tokio::test]
async fn a_service_that_asks_to_be_left_alone_is_and_of_one_voice_missing_another_language_knows_nothing() {
    let service = Service::that(Does::Answers("429 Too Many Requests\r\nretry-after: 100000".into(), Vec::new())).await;
    let local = Arc::new(Local::default());
    let first = Arc::new(service.engine(PATIENT));
    let both = WithStandIn::new(first, Arc::clone(&local) as Arc<dyn Synthesiser>, "espeak-ng", 1 << 20);
    let english = both.synthesise(&Utterance::new("hello", Language::En)).await.unwrap();
    assert!(is_local(&english) && both.impaired(Language::En).is_none() && service.asked() == 0);
    for clause in ["uno", "dos", "tres"] {
        assert!(is_local(&say(&both, clause).await.unwrap()));
    }
    assert_eq!(service.asked(), 1);
}

#[tokio::test]
async fn a_reply_keeps_the_voice_that_it_was_given_to() {
    let first = Held::failing(is_dead);
    let local = Arc::new(Local::default());
    let both =
        WithStandIn::new(Arc::clone(&first) as Arc<dyn Synthesiser>, Arc::clone(&local) as Arc<dyn Synthesiser>, "espeak-ng", 1 << 20);
    let reply = both.for_a_reply().unwrap();
    // Two clauses at once: the first engine speaks one of them, a moment after it could not speak the other.
    let (mut one, mut two) = (Box::pin(say(&reply, "uno")), Box::pin(say(&reply, "dos")));
    assert!((&mut one).now_or_never().is_none() && (&mut two).now_or_never().is_none());
    first.lets.add_permits(1);
    assert!(is_local(&one.await.unwrap()));
    first.fails.store(false, Ordering::Relaxed);
    first.lets.add_permits(1);
    assert!(is_local(&two.await.unwrap()));

    // It is back, and speaks the next reply; what is left of this one stays in the other voice.
    first.lets.add_permits(100);
    let deadline = Instant::now() + Duration::from_secs(60);
    while both.impaired(Language::Es).is_some() {
        assert!(Instant::now() < deadline, "it is taken up again");
        assert!(is_local(&say(&both, "otra cosa").await.unwrap()));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(is_local(&say(&reply, "tres").await.unwrap()));
    assert!(!is_local(&say(&both.for_a_reply().unwrap(), "tres").await.unwrap()));
    let said = local.0.lock().unwrap().clone();
    assert_eq!(said.iter().filter(|text| ["uno", "dos", "tres"].contains(&text.as_str())).count(), 3, "none twice: {said:?}");
}

/// An engine that is dead in English.
struct NoEnglish;

impl Synthesiser for NoEnglish {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        Box::pin(async {
            match utterance.language {
                Language::Es => SpeechAudio::from_engine(utterance.text.clone(), [3_000, -3_000].repeat(800)),
                Language::En => Err(is_dead()),
            }
        })
    }
}

#[tokio::test]
async fn an_engine_that_does_not_speak_one_language_speaks_the_other() {
    let both = WithStandIn::new(Arc::new(NoEnglish), Arc::new(Local::default()), "espeak-ng", 1 << 20);
    for number in 0..3 {
        let english = both.synthesise(&Utterance::new(format!("hello {number}"), Language::En)).await.unwrap();
        assert!(is_local(&english) && both.impaired(Language::En).is_some());
        assert!(!is_local(&say(&both, &format!("hola {number}")).await.unwrap()) && both.impaired(Language::Es).is_none());
    }
}

/// An engine that is dead, and has nothing to say to signs; it counts what it is asked.
#[derive(Default)]
struct Dead(AtomicUsize);

impl Synthesiser for Dead {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Err(if &*utterance.text == "…" { SpeechError::NothingToSay } else { is_dead() }) })
    }
}

#[tokio::test]
async fn a_text_that_nobody_can_speak_says_nothing_about_an_engine_that_is_tried_again() {
    let first = Arc::new(Dead::default());
    let both = WithStandIn::new(Arc::clone(&first) as Arc<dyn Synthesiser>, Arc::new(Local::default()), "espeak-ng", 1 << 20);
    assert!(is_local(&say(&both, "uno").await.unwrap()));
    let known = both.impaired(Language::Es);
    let deadline = Instant::now() + Duration::from_secs(60);
    // Tried with signs, it can be tried again at once.
    while first.0.load(Ordering::Relaxed) < 4 && both.impaired(Language::Es) == known {
        assert!(Instant::now() < deadline, "it is tried again");
        let _ = say(&both, "…").await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(known.is_some());
    assert_eq!(both.impaired(Language::Es), known);
}

#[tokio::test]
async fn an_engine_that_has_too_much_to_say_is_helped_out_and_not_given_up() {
    // At a time, or in one clause.
    for too_much in [|| SpeechError::Busy, || SpeechError::AudioTooLong { seconds_max: 60 }] {
        let first = Held::failing(too_much);
        first.lets.add_permits(1);
        let local = Arc::new(Local::default());
        let both =
            WithStandIn::new(Arc::clone(&first) as Arc<dyn Synthesiser>, Arc::clone(&local) as Arc<dyn Synthesiser>, "espeak-ng", 1 << 20);
        assert!(is_local(&say(&both, "uno").await.unwrap()));
        assert_eq!(both.impaired(Language::Es), None);
        first.fails.store(false, Ordering::Relaxed);
        first.lets.add_permits(1);
        assert!(!is_local(&say(&both, "dos").await.unwrap()), "it has the next reply");
        assert_eq!(*local.0.lock().unwrap(), ["uno"]);
    }
}

/// An engine whose next clause is held up until it is let go.
struct Held {
    lets: Semaphore,
    fails: AtomicBool,
    with: fn() -> SpeechError,
}

impl Held {
    /// One that fails in this way.
    fn failing(with: fn() -> SpeechError) -> Arc<Self> {
        Arc::new(Self { lets: Semaphore::new(0), fails: AtomicBool::new(true), with })
    }
}

fn is_dead() -> SpeechError {
    SpeechError::NotRunning("it is dead".to_owned())
}

impl Synthesiser for Held {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        Box::pin(async move {
            self.lets.acquire().await.unwrap().forget();
            if self.fails.load(Ordering::Relaxed) {
                Err((self.with)())
            } else {
                SpeechAudio::from_engine(utterance.text.clone(), [3_000, -3_000].repeat(800))
            }
        })
    }
}

#[tokio::test]
async fn a_reply_that_is_cut_off_leaves_nothing_behind() {
    let held = Held::failing(is_dead);
    let local = Arc::new(Local::default());
    let both =
        WithStandIn::new(Arc::clone(&held) as Arc<dyn Synthesiser>, Arc::clone(&local) as Arc<dyn Synthesiser>, "espeak-ng", 1 << 20);
    {
        let mut cut = Box::pin(say(&both, "uno"));
        assert!((&mut cut).now_or_never().is_none());
    }
    held.lets.add_permits(1);
    assert!(is_local(&say(&both, "dos").await.unwrap()));
    assert_eq!(*local.0.lock().unwrap(), ["dos"]);
}
