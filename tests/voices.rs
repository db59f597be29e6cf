//! The speech engines as the box uses them, and against what others have written: the types of the service's vendor, Piper with a real voice, and a
//! service of somebody else's.
//!
//! `./dev voices-test` fetches the last two and names them (`RECADO_PIPER`, `RECADO_PIPER_MODEL`, `RECADO_SPEECH_URL`); without them those are skipped.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use recado::config::{CloudSpeech, Piper as PiperConfig};
use recado::demo::BoxProcess;
use recado::surface::speech::espeak::EspeakNg;
use recado::surface::speech::http::SpeechService;
use recado::surface::speech::piper::Piper;
use recado::surface::speech::stand_in::WithStandIn;
use recado::surface::speech::{SpeechAudio, Synthesiser, Utterance, wav};
use recado_core::policy::Language;

/// Clauses of the length that the box says.
const CLAUSES: [&str; 5] = [
    "Hello there.",
    "I will tell you as soon as I have it, in a few minutes.",
    "Your order number is four seven two nine. It will arrive on Thursday.",
    "Please transfer me to the billing department.",
    "The table is booked for nine thirty, on the terrace, and they are expecting six of you.",
];

async fn say(engine: &impl Synthesiser, text: &str) -> SpeechAudio {
    engine.synthesise(&Utterance::new(text, Language::En)).await.expect("it speaks")
}

#[tokio::test]
async fn what_a_service_is_asked_is_what_its_vendors_types_say() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let taken = Arc::clone(&asked);
    let answer = move |body: String| async move {
        taken.lock().unwrap().push(body);
        let tone: Vec<u8> = (0..12_000).flat_map(|at| (if at % 96 < 48 { 3_000_i16 } else { -3_000 }).to_le_bytes()).collect();
        ([("content-type", "audio/pcm")], tone)
    };
    let app = axum::Router::new().route("/v1/audio/speech", axum::routing::post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, app).await });
    for more in ["", "response_format = 'wav'\nspeed = 0.5\ninstructions = 'Softly.'"] {
        let service: CloudSpeech = toml::from_str(&format!("url = '{url}'\nmodel = 'speaks'\nvoices.en = 'coral'\n{more}")).unwrap();
        let engine = SpeechService::new(&service).unwrap();
        // Where WAV was wanted, what came is none; it was asked for all the same.
        let _ = engine.synthesise(&Utterance::new("¡Hola! \"Señora\" \u{1F389}", Language::En)).await;
    }
    let lines: Vec<String> = asked.lock().unwrap().iter().map(|body| format!("speech-request {body}")).collect();
    assert_eq!(lines.len(), 2);
    let Some(python) = validator() else {
        println!("skipped: the vendor's types are not there; `./dev test` fetches them");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("requests.jsonl");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tools/validate_realtime.py");
    let judged = |lines: &[String]| {
        std::fs::write(&file, lines.join("\n")).unwrap();
        let output = Command::new(&python).arg(&script).arg("--quiet").arg(&file).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (valid, said) = judged(&lines);
    assert!(valid && said.contains("2 passed, 0 failed"), "{said}");
    assert!(!judged(&[lines[0].replace("\"voice\"", "\"voize\"")]).0, "it would notice");
}

/// The Python that has the vendor's package: as `./dev test` says, or where it has put it.
fn validator() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("RECADO_VALIDATOR_PYTHON") {
        return Some(named.into());
    }
    let usual = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../validator/bin/python3");
    usual.exists().then_some(usual)
}

#[tokio::test]
async fn a_real_piper_is_loaded_once_and_speaks_every_clause_to_its_last_word() {
    let (Some(program), Some(model)) = (std::env::var_os("RECADO_PIPER"), std::env::var_os("RECADO_PIPER_MODEL")) else {
        println!("skipped: `./dev voices-test` names a Piper and a voice");
        return;
    };
    let (program, model) = (PathBuf::from(program), PathBuf::from(model));
    let piper = |pace| -> PiperConfig {
        let (program, model) = (program.display(), model.display());
        toml::from_str(&format!("program = '{program}'\nmodels.en = '{model}'\npace_percent = {pace}\ntimeout_ms = 60000")).unwrap()
    };
    let engine = Piper::new(&piper(100), true);
    let began = Instant::now();
    say(&engine, "One.").await;
    println!("loaded, and a first word: {} ms", began.elapsed().as_millis());
    let (mut worked_ms, mut sounds_ms) = (0, 0);
    for text in CLAUSES {
        let began = Instant::now();
        let audio = say(&engine, text).await;
        let took_ms = began.elapsed().as_millis() as u64;
        println!("{took_ms:5} ms for {:5} ms of {text:?}", audio.duration_ms());
        (worked_ms, sounds_ms) = (worked_ms + took_ms, sounds_ms + audio.duration_ms());
        // As long as people take to say it, so the rate is right.
        let per_character = audio.duration_ms() as usize / text.chars().count();
        assert!((30..130).contains(&per_character), "{per_character} ms a character of {text:?}");
        assert_eq!(audio.heard_text(audio.duration_ms()), text);
        assert!(
            text.starts_with(audio.heard_text(audio.duration_ms() / 2)) && audio.heard_text(audio.duration_ms() / 2).len() < text.len()
        );
    }
    println!("real-time factor {:.2}", worked_ms as f64 / sounds_ms as f64);
    let fast = say(&Piper::new(&piper(150), true), CLAUSES[4]).await.duration_ms();
    let usual = say(&engine, CLAUSES[4]).await.duration_ms();
    assert!(fast * 5 < usual * 4, "{fast} ms and {usual} ms");
}

#[tokio::test]
async fn a_service_that_others_have_written_speaks_and_where_it_refuses_another_engine_does() {
    let Ok(url) = std::env::var("RECADO_SPEECH_URL") else {
        println!("skipped: `./dev voices-test` starts a service");
        return;
    };
    let config: CloudSpeech =
        toml::from_str(&format!("url = '{url}'\nmodel = 'gpt-4o-mini-tts'\nvoices.en = 'coral'\ntimeout_ms = 30000")).unwrap();
    let both = WithStandIn::new(Arc::new(SpeechService::new(&config).unwrap()), Arc::new(EspeakNg::default()), "espeak-ng", 1 << 20);
    // Its fixture: a second of a tone.
    assert_eq!(say(&both, "Please transfer me.").await.duration_ms(), 1_000);
    assert_eq!(both.impaired(Language::En), None);
    let refused = say(&both, "You have reached your limit.").await;
    assert!(refused.duration_ms() != 1_000 && refused.heard_text(u64::MAX) == "You have reached your limit.");
    let impaired = both.impaired(Language::En).expect("it is known");
    assert!(impaired.contains("429 Too Many Requests: slow down"), "{impaired}");
    let deadline = Instant::now() + Duration::from_secs(60);
    while both.impaired(Language::En).is_some() {
        assert!(Instant::now() < deadline, "it is taken up again");
        say(&both, "Please transfer me.").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(say(&both, "Please transfer me.").await.duration_ms(), 1_000);
}

#[test]
fn of_a_neural_voice_no_word_is_taken_for_heard_before_it_has_sounded() {
    let text = "You have your table for two, tonight at half past nine, next to the window.";
    // Where each word ends, as the voice itself aligned them (ms): Piper 1.8.0, en_US-joe-medium, whose data is in the public domain (CC0).
    let ends = [174, 372, 522, 871, 1080, 1393, 1927, 2009, 2264, 2659, 3042, 3587, 3704, 3831, 4238];
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/voices/piper.wav");
    let audio = SpeechAudio::from_recording(text.into(), wav::load(&file).expect("it is there"));
    for heard_ms in (0..=audio.duration_ms()).step_by(5) {
        let heard = audio.heard_text(heard_ms).split_whitespace().count();
        let ended_by = |ms: u64| ends.iter().filter(|end| **end <= ms).count();
        // What lies in the far end's jitter buffer is taken off beforehand: that is more than the estimate is early by.
        assert!(heard <= ended_by(heard_ms + 50), "{heard} words at {heard_ms} ms");
        assert!(heard >= ended_by(heard_ms.saturating_sub(250)), "{heard} words at {heard_ms} ms");
    }
    assert_eq!(audio.heard_text(audio.duration_ms()), text);
}

/// A configuration of a box on loopback, with these further settings.
fn configured(folder: &Path, ports: &str, more: &str) -> PathBuf {
    let file = folder.join("recado.toml");
    let data = folder.join("data");
    let settings = format!(
        "[box]\nlanguage = \"en\"\ndata_dir = {data:?}\n[sip]\nlisten = \"127.0.0.1:0\"\n[http]\nlisten = \"127.0.0.1:0\"\n[media]\nports = \"{ports}\"\n\
         [log]\nformat = \"json\"\n{more}\n"
    );
    std::fs::write(&file, settings).unwrap();
    std::fs::write(folder.join("dialogue.toml"), "[otherwise]\nsay = { en = \"Hello\" }\n").unwrap();
    file
}

/// Waits until a process has ended.
async fn ended(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline, "{pid} still runs");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_box_does_not_wait_for_a_voice_to_be_loaded_and_its_process_ends_with_it_also_where_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // A voice that is never loaded; its program ends only with its input.
    std::fs::write(path("piper"), format!("#!/bin/sh\necho $$ >{}\nwhile read -r line; do :; done\n", path("pid").display())).unwrap();
    std::fs::set_permissions(path("piper"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(path("en.onnx"), "").unwrap();
    std::fs::write(path("en.onnx.json"), "{}").unwrap();
    let table = format!("[speech]\nengine = \"piper\"\n[speech.piper]\nprogram = {:?}\nmodels.en = \"en.onnx\"\n", path("piper"));
    let config = configured(folder.path(), "31000-31199", &table);
    for stops in [true, false] {
        let _ = std::fs::remove_file(path("pid"));
        let boxed = BoxProcess::start(env!("CARGO_BIN_EXE_recado").as_ref(), &config, |_| ()).await.expect("it is ready");
        let deadline = Instant::now() + Duration::from_secs(30);
        let pid = loop {
            if let Ok(pid) = std::fs::read_to_string(path("pid")).unwrap_or_default().trim().parse() {
                break pid;
            }
            assert!(Instant::now() < deadline, "it is loaded before the first call");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        if stops {
            assert!(boxed.stops().await.expect("it stops").success());
        } else {
            boxed.kill();
        }
        ended(pid).await;
    }
}

#[tokio::test]
async fn a_box_whose_speech_service_is_away_starts_says_so_speaks_with_its_own_engine_and_sees_without_a_call_that_it_is_back() {
    if EspeakNg::default().version().await.is_err() {
        println!("skipped: espeak-ng is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens there yet.
    let place = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let table =
        format!("[speech]\nengine = \"http\"\n[cloud.speech]\nurl = \"http://{place}/v1\"\nmodel = \"speaks\"\nvoices.en = \"coral\"\n");
    let config = configured(folder.path(), "31200-31399", &table);
    let boxed = BoxProcess::start(env!("CARGO_BIN_EXE_recado").as_ref(), &config, |_| ()).await.expect("it is ready");
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let health = boxed.health().await.expect("it answers").to_string();
        if health.contains("no connection to the speech service's host") {
            assert!(health.contains("degraded") && health.contains("until it works, espeak-ng speaks"), "{health}");
            break;
        }
        assert!(Instant::now() < deadline, "{health}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let tone: Vec<u8> = (0..12_000).flat_map(|at| (if at % 96 < 48 { 3_000_i16 } else { -3_000 }).to_le_bytes()).collect();
    let app = axum::Router::new()
        .route("/v1/audio/speech", axum::routing::post(move || async move { ([("content-type", "audio/pcm")], tone.clone()) }));
    let listener = tokio::net::TcpListener::bind(place).await.unwrap();
    tokio::spawn(async { axum::serve(listener, app).await });
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let health = boxed.health().await.expect("it answers").to_string();
        if !health.contains("the speech service") {
            break;
        }
        assert!(Instant::now() < deadline, "{health}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let away = ["doctor", "--speech", "--set", "cloud.speech.url=http://127.0.0.1:1/v1", "-c"];
    let doctor = Command::new(env!("CARGO_BIN_EXE_recado")).args(away).arg(&config).output().unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert_eq!(doctor.status.code(), Some(3), "{said}");
    assert!(said.contains("The speech engine http does not speak: no connection to the speech service's host `127.0.0.1`"), "{said}");
    assert!(said.contains("The speech engine espeak-ng speaks: a word took "), "{said}");
    // A key that is given to the box alone is no fault where the box runs, which has it; where none runs, nobody knows whether it speaks.
    let listens = format!("http.listen={}", boxed.http);
    let keyed = ["doctor", "--speech", "--set", "cloud.speech.key_file=speech-key", "--set", &listens, "-c"];
    let doctor = Command::new(env!("CARGO_BIN_EXE_recado")).args(keyed).arg(&config).output().unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(
        said.contains("The speech engine http could not be asked (cloud.speech.key_file: ") && !said.contains("http does not speak"),
        "{said}"
    );
    assert_eq!(doctor.status.code(), Some(0), "{said}");
    boxed.stops().await.expect("it stops");
    let doctor = Command::new(env!("CARGO_BIN_EXE_recado")).args(keyed).arg(&config).output().unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert_eq!(doctor.status.code(), Some(3), "{said}");
    assert!(
        said.contains(
            "Wrong:\n  The speech engine http could not be asked (cloud.speech.key_file: the credential file that is named is not in "
        ),
        "{said}"
    );
}
