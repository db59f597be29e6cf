//! Calls that a service leads: the real binary, a telephone over real SIP and RTP, and the service that this test plays.
//!
//! They are judged by what the caller heard, by what the service was told, by what the tool was asked, and by the store.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use recado::coordination::{History, Reader};
use recado::demo::{BoxProcess, Caller, Ear, Manner, Tools, patiently};
use recado::surface::media::Codec;
use recado::surface::media::resample::Resampler;
use recado::surface::speech::espeak::EspeakNg;
use recado::surface::speech::{Synthesiser, Utterance, wav};
use recado_core::conversation::Settings;
use recado_core::ledger::DeliveryState;
use recado_core::policy::Language;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::service::{Conduct, Reply, Service, sound_of};
use super::validator::{self, Tap};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_is_greeted_by_the_service_heard_by_it_and_answered() {
    validator::check(&[is_led("pcmu").await, is_led("pcm").await]);
}

/// A whole call, in one of the service's formats.
async fn is_led(format: &str) -> Tap {
    let service = Service::start(vec![replies(&[Reply::Speak(GREETING, 1_500), Reply::Speak(ANSWER, 2_000)])]).await;
    let stage = Stage::set(&service.url(), &format!("format = '{format}'")).await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    // Short, and without a pause that could be taken for its end.
    let said = speech("interruption");
    caller.line.say(&said);
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    patiently("an answer to be asked for", service.seen.until(|events| of(events, "response.create").count() == 2)).await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    for (words, ms) in [(GREETING, 1_500), (ANSWER, 2_000)] {
        // In fifths of a second, each once: a busy machine loses one now and then, and no more.
        let whole = sound_of(words, ms);
        let times: Vec<usize> = whole.chunks_exact(1_600).map(|piece| ear.find(piece).len()).collect();
        assert!(times.iter().all(|times| *times <= 1) && times.iter().sum::<usize>() + 1 >= times.len(), "{format}: {words}: {times:?}");
    }

    let sent = service.seen.sent_by_clients();
    let heard = Ear { samples: audio(&sent, format) };
    let pieces: Vec<&[i16]> = said.chunks_exact(1_600).filter(|piece| loud(piece)).collect();
    let found = pieces.iter().filter(|piece| !heard.find(piece).is_empty()).count();
    assert!(pieces.len() >= 4 && found * 4 >= pieces.len() * 3, "{format}: the service heard {found} of {}", pieces.len());
    let place = |kind: &str| sent.iter().rposition(|event| event["type"] == kind).expect("it was sent");
    assert!(place("input_audio_buffer.append") < place("input_audio_buffer.commit"), "{format}");
    assert!(place("input_audio_buffer.commit") < place("response.create"), "{format}");
    let settings = &of(&sent, "session.update").next().expect("settings")["session"];
    assert!(settings["instructions"].as_str().is_some_and(|text| text.starts_with("You answer the telephone. ")), "{settings}");
    assert!(settings["tools"].to_string().contains("\"order\""), "{settings}");
    boxed.log.seen("what the session took", |line| line["output_tokens"] == 40).await.unwrap();
    Tap::of(&service)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_model_asks_for_is_done_and_told_by_the_box_once_and_the_model_knows_the_result_only_then() {
    if !speaks() {
        return;
    }
    let service = Service::start(vec![replies(&[Reply::Speak(GREETING, 1_000), Reply::SpeakAndCall(ANSWER, "order", "{}")])]).await;
    let stage = Stage::set(&service.url(), "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    caller.line.say(&speech("request"));
    stage.tools.asked("order", 1).await.unwrap();
    hears_to_the_end(&caller).await;
    let knows = |events: &[Value]| events.iter().any(|event| event.to_string().contains(NUMBER));
    assert!(!knows(&service.seen.sent_by_clients()), "nobody has a result yet");
    let result = json!({ "number": NUMBER, "of_no_concern": "swordfish" });
    assert_eq!(stage.tools.report("order", result).await.unwrap(), 200);
    patiently("the model to be told what the caller was told", service.seen.until(knows)).await.unwrap();
    assert!(boxed.log.all().iter().any(|line| line["message"] == "speak" && line["text"] == CLOSING), "before the caller was");
    boxed.log.seen("the closing to be settled", |line| line["message"] == "delivery settled").await.unwrap();
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!(ear.find(&sound_of(ANSWER, 300)).len(), 1);
    for said in [ACCEPTED, CLOSING] {
        assert_eq!(ear.find(&spoken(said).await).len(), 1, "{said}");
    }
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
    assert_eq!(states(&stage.history()), [DeliveryState::Spoken]);
    assert_eq!(stage.tools.effects("order"), 1);

    let sent = service.seen.sent_by_clients();
    let outputs: Vec<&Value> = sent.iter().filter(|event| event["item"]["type"] == "function_call_output").collect();
    assert_eq!(outputs.len(), 1, "{outputs:?}");
    assert!(outputs[0]["item"]["output"].as_str().is_some_and(|output| output.contains("\"running\"")), "{outputs:?}");
    assert!(!sent.iter().any(|event| event.to_string().contains("swordfish")), "what was not told is nobody's");
    validator::check(&[Tap::of(&service)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_breaks_in_is_listened_to_and_the_model_remembers_what_was_heard() {
    let service = Service::start(vec![replies(&[Reply::Paced(GREETING, 20_000), Reply::Speak(ANSWER, 1_000)])]).await;
    let stage = Stage::set(&service.url(), "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    patiently("the greeting", caller.line.hears_voice(2_000)).await.unwrap();
    caller.line.say(&speech("interruption"));
    patiently("the greeting to be cut", service.seen.until(|events| of(events, "conversation.item.truncate").count() == 1)).await.unwrap();
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    patiently("an answer to be asked for", service.seen.until(|events| of(events, "response.create").count() == 2)).await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!(ear.find(&sound_of(ANSWER, 1_000)).len(), 1);

    // How much of the greeting the caller heard: what follows it is the answer.
    let greeting = sound_of(GREETING, 20_000);
    let heard_ms = (1..100).take_while(|n| !ear.find(&greeting[..n * 1_600]).is_empty()).count() * 200;
    let sent = service.seen.sent_by_clients();
    let cut = of(&sent, "conversation.item.truncate").next().expect("one");
    let cut_ms = cut["audio_end_ms"].as_u64().expect("a number") as usize;
    println!("of the greeting {heard_ms} ms were heard, and {cut_ms} ms are remembered");
    assert!((1_800..10_000).contains(&heard_ms), "{heard_ms}");
    // To a fifth of a second, and what may lie in the telephone's buffer was not heard for certain.
    assert!(cut_ms <= heard_ms + 200 && cut_ms + 500 >= heard_ms, "{cut_ms} of {heard_ms}");
    assert_eq!(of(&sent, "response.cancel").count(), 1);
    validator::check(&[Tap::of(&service)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_service_is_away_the_call_is_answered_excused_and_told_what_is_owed() {
    if !speaks() {
        return;
    }
    let service = Service::start(vec![replies(&[Reply::Speak(GREETING, 1_000), Reply::SpeakAndCall(ANSWER, "order", "{}")])]).await;
    let stage = Stage::set(&service.url(), "").await;
    let mut boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    caller.line.say(&speech("request"));
    stage.tools.asked("order", 1).await.unwrap();
    caller.hang_up().await.unwrap();
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
    assert_eq!(stage.tools.report("order", json!({ "number": NUMBER })).await.unwrap(), 200);

    drop(service);
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    let away = |line: &Value| line["message"] == "no connection to the speech model's service" && line["again_in_ms"].is_u64();
    boxed.log.seen("the service to be away", away).await.unwrap();
    hears_to_the_end(&caller).await;
    caller.line.say(&speech("small_talk"));
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    let sorry = Settings::default().say_no_answer.en.expect("words");
    assert_eq!(ear.find(&spoken(CLOSING).await).len(), 1, "what is owed is told all the same");
    // It is said in sentences.
    let first = sorry.split_inclusive('.').next().expect("a sentence");
    assert_eq!(ear.find(&spoken(first).await).len(), 1, "{first}");
    assert!(boxed.runs());
    boxed.log.seen_times("the call to be settled", 2, |line| line["message"] == "call settled").await.unwrap();
    assert_eq!(states(&stage.history()), [DeliveryState::Spoken]);
}

/// A box's folder, and the tools' service.
pub struct Stage {
    folder: TempDir,
    pub tools: Tools,
}

impl Stage {
    /// For a box whose calls the service at `url` leads; `more` are further settings of it.
    async fn set(url: &str, more: &str) -> Self {
        Self::led_by(&format!("[model]\nkind = 'realtime'\n[cloud.realtime]\nurl = '{url}'\nmodel = 'speaks'\n{more}"), "").await
    }

    /// For a box with these settings of its model, and these further ones of its tool.
    pub async fn led_by(model: &str, tool: &str) -> Self {
        static RTP: AtomicU16 = AtomicU16::new(0);
        let first = RTP_FIRST + RTP.fetch_add(1, Ordering::Relaxed) * 100;
        let (folder, tools) = (tempfile::tempdir().unwrap(), Tools::start(|_, _| Manner::Accepts).await.unwrap());
        let settings = format!(
            "[box]\nlanguage = 'en'\ndata_dir = '{}'\n[sip]\nlisten = '127.0.0.1:0'\n[http]\nlisten = '127.0.0.1:0'\n\
             [media]\nports = '{first}-{}'\n[log]\nformat = 'json'\nlevel = 'info,recado::words=debug,recado::clocks=debug'\n{model}\n\
             [[tools]]\nname = 'order'\nurl = 'http://{}/order'\nidempotent = true\nsay_accepted.en = '{ACCEPTED}'\n\
             say_done.en = 'The number of your order is {{{{ result.number }}}}.'\n{tool}\n",
            folder.path().join("data").display(),
            first + 99,
            tools.address
        );
        std::fs::write(folder.path().join("recado.toml"), settings).unwrap();
        Self { folder, tools }
    }

    pub async fn box_runs(&self) -> BoxProcess {
        let program = Path::new(env!("CARGO_BIN_EXE_recado"));
        BoxProcess::start(program, &self.folder.path().join("recado.toml"), |_| ()).await.unwrap()
    }

    pub fn history(&self) -> History {
        Reader::open(&self.folder.path().join("data").join(recado::config::STORE_FILE)).unwrap().history().unwrap()
    }
}

fn replies(replies: &[Reply]) -> Conduct {
    Conduct { replies: replies.iter().cloned().collect(), ..Conduct::default() }
}

/// The events of a type.
pub fn of<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["type"] == kind)
}

/// Something is heard, and then nothing for a while.
pub async fn hears_to_the_end(caller: &Caller) {
    patiently("the box to speak", caller.line.hears_voice(250)).await.unwrap();
    patiently("the box to have spoken", caller.line.hears_silence(900)).await.unwrap();
}

/// All that the service was sent of the caller, as the telephone's samples.
fn audio(sent: &[Value], format: &str) -> Vec<i16> {
    let bytes: Vec<u8> =
        of(sent, "input_audio_buffer.append").flat_map(|event| STANDARD.decode(event["audio"].as_str().unwrap()).unwrap()).collect();
    if format == "pcm" {
        let delay = Resampler::new(8_000, 24_000).unwrap().delay_samples();
        let samples = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
        return samples.skip(delay % 3).step_by(3).collect();
    }
    bytes.iter().map(|octet| Codec::Pcmu.decode_sample(*octet)).collect()
}

pub fn loud(samples: &[i16]) -> bool {
    samples.iter().map(|sample| i64::from(*sample).pow(2)).sum::<i64>() > 500_i64.pow(2) * samples.len() as i64
}

pub fn states(history: &History) -> Vec<DeliveryState> {
    history.deliveries.iter().map(|delivery| delivery.state).collect()
}

/// What the caller says.
pub fn speech(name: &str) -> Vec<i16> {
    wav::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/demo/speech/en/{name}.wav"))).unwrap().to_vec()
}

/// How the box says this.
pub async fn spoken(text: &str) -> Vec<i16> {
    EspeakNg::default().synthesise(&Utterance::new(text, Language::En)).await.unwrap().samples_8khz.to_vec()
}

pub fn speaks() -> bool {
    let speaks = Command::new("espeak-ng").arg("--version").output().is_ok();
    if !speaks {
        println!("skipped: espeak-ng is not installed");
    }
    speaks
}

pub const GREETING: &str = "Good morning, this is the kitchen. What may we cook for you today? ";
pub const ANSWER: &str = "That is a fine choice, and it takes no time. ";
pub const ACCEPTED: &str = "I am on it, please go on.";
pub const NUMBER: &str = "four seven two nine";
pub const CLOSING: &str = "The number of your order is four seven two nine.";

/// Below the ports that the system gives away, and above those of the other tests: a hundred for each box.
const RTP_FIRST: u16 = 30_000;
