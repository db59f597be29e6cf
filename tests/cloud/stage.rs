//! What the tests of calls stand on: a box whose calls a service leads, its tools, and what a caller says and hears; and a model's session without
//! a call around it.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use recado::cognition::models::{Command as Told, Model, ModelSession, Opening, Output};
use recado::config::{Config, Depth, Sources};
use recado::coordination::{History, Reader};
use recado::demo::{BoxProcess, Caller, Ear, Manner, Tools, patiently};
use recado::g711::Codec;
use recado::surface::media::resample::Resampler;
use recado::surface::speech::espeak::EspeakNg;
use recado::surface::speech::{Synthesiser, Utterance, wav};
use recado_core::conversation::effect::Cause;
use recado_core::conversation::input::ModelEvent;
use recado_core::ledger::DeliveryState;
use recado_core::policy::Language;
use recado_core::{ResponseId, SessionId};
use serde_json::Value;
use tempfile::TempDir;

use super::service::{Conduct, Reply};

/// A box's folder, and the tools' service.
pub struct Stage {
    pub folder: TempDir,
    pub tools: Tools,
}

impl Stage {
    /// For a box whose calls the service at `url` leads; `more` are further settings of it.
    pub async fn set(url: &str, more: &str) -> Self {
        Self::led_by("realtime", url, more).await
    }

    /// For a box whose calls a service of this kind leads, at `url`.
    pub async fn led_by(kind: &str, url: &str, more: &str) -> Self {
        Self::with_model(&format!("[model]\nkind = '{kind}'\n[cloud.{kind}]\nurl = '{url}'\nmodel = 'speaks'\n{more}"), "").await
    }

    /// For a box with these settings of its model; `order` are further settings of its first tool.
    pub async fn with_model(model: &str, order: &str) -> Self {
        static RTP: AtomicU16 = AtomicU16::new(0);
        let first = RTP_FIRST + RTP.fetch_add(1, Ordering::Relaxed) * 100;
        let (folder, tools) = (tempfile::tempdir().unwrap(), Tools::start(|_, _| Manner::Accepts).await.unwrap());
        let settings = format!(
            "[box]\nlanguage = 'en'\ndata_dir = '{}'\n[sip]\nlisten = '127.0.0.1:0'\n[http]\nlisten = '127.0.0.1:0'\n\
             [media]\nports = '{first}-{}'\n[log]\nformat = 'json'\nlevel = 'info,recado::words=debug,recado::clocks=debug'\n{model}\n\
             [[tools]]\nname = 'order'\nurl = 'http://{}/order'\nidempotent = true\nsay_accepted.en = '{ACCEPTED}'\n\
             say_done.en = 'The number of your order is {{{{ result.number }}}}.'\n{order}\n\
             [[tools]]\nname = 'taxi'\nurl = 'http://{}/taxi'\nidempotent = true\nsay_accepted.en = '{TAXI_ACCEPTED}'\n\
             say_done.en = '{TAXI_CLOSING}'\n",
            folder.path().join("data").display(),
            first + 99,
            tools.address,
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

pub fn replies(replies: &[Reply]) -> Conduct {
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
pub fn audio(sent: &[Value], format: &str) -> Vec<i16> {
    let bytes: Vec<u8> =
        of(sent, "input_audio_buffer.append").flat_map(|event| STANDARD.decode(event["audio"].as_str().unwrap()).unwrap()).collect();
    if format == "pcm" {
        let delay = Resampler::new(8_000, 24_000).unwrap().delay_samples();
        let samples = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
        return samples.skip(delay % 3).step_by(3).collect();
    }
    bytes.iter().map(|octet| Codec::Pcmu.decode_sample(*octet)).collect()
}

/// Of what a caller said, what sounds is found in what was heard of it, as far as a busy machine loses no more than a quarter.
#[track_caller]
pub fn is_heard(said: &[i16], heard: &Ear) {
    let (found, pieces) = pieces_heard(said, heard);
    assert!(pieces >= 4 && found * 4 >= pieces * 3, "{found} of {pieces} were heard");
}

/// How many pieces of what sounds in this are found in what was heard, and how many there are.
pub fn pieces_heard(said: &[i16], heard: &Ear) -> (usize, usize) {
    let pieces: Vec<&[i16]> = said.chunks_exact(1_600).filter(|piece| loud(piece)).collect();
    let found = pieces.iter().filter(|piece| !heard.find(piece).is_empty()).count();
    (found, pieces.len())
}

pub fn loud(samples: &[i16]) -> bool {
    samples.iter().map(|sample| i64::from(*sample).pow(2)).sum::<i64>() > 500_i64.pow(2) * samples.len() as i64
}

/// What was heard without its silence, and how many runs of packets with speech are parted by packets without.
pub fn without_pauses(ear: &Ear) -> (Ear, usize) {
    let frames: Vec<&[i16]> = ear.samples.chunks(160).collect();
    let sounds = |frame: &[i16]| frame.iter().any(|sample| *sample != 0);
    let runs = frames.chunk_by(|a, b| sounds(a) == sounds(b)).filter(|run| sounds(run[0])).count();
    // A pause may begin in the middle of a packet.
    let stretches = ear.samples.chunk_by(|a, b| (*a == 0) == (*b == 0));
    let samples = stretches.filter(|stretch| stretch[0] != 0 || stretch.len() < SILENCE_SAMPLES).flatten().copied().collect();
    (Ear { samples }, runs)
}

/// So many samples of nothing in a row are silence, and no part of a sound.
const SILENCE_SAMPLES: usize = 16;

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

/// The caller says this to the end, and hears what follows to its end.
pub async fn says(caller: &Caller, name: &str) -> Vec<i16> {
    let said = speech(name);
    caller.line.say(&said);
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    hears_to_the_end(caller).await;
    said
}

/// How often this was heard, in the box's own voice.
pub async fn times(ear: &Ear, text: &str) -> usize {
    ear.find(&spoken(text).await).len()
}

pub async fn measures(boxed: &BoxProcess) -> String {
    let url = format!("http://{}/metrics", boxed.http);
    reqwest::get(url).await.unwrap().text().await.unwrap()
}

/// What is made of a configuration of these settings, beside a file `key` that holds one for as long as that takes.
pub fn configured<T>(settings: &str, makes: impl FnOnce(&Config) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recado.toml");
    std::fs::write(folder.path().join("key"), "s3cr3t-key").unwrap();
    std::fs::write(&file, settings).unwrap();
    makes(&Config::load(&Sources { file, ..Sources::default() }, Depth::Files).unwrap().0)
}

/// A session without a call around it.
pub fn open(model: &impl Model) -> ModelSession {
    model.open(Opening { session: SessionId(1), party: None, language: Language::Es })
}

pub fn greet(session: &ModelSession, response: ResponseId) {
    session.handle.tell(Told::Respond { response, cause: Cause::Greeting }).unwrap();
}

/// The end of a response; a minute is enough for all that comes before it.
pub async fn end_of(session: &mut ModelSession, of: ResponseId) -> ModelEvent {
    loop {
        let output = tokio::time::timeout(Duration::from_secs(60), session.outputs.recv()).await.expect("an end within a minute");
        match output.expect("a session that goes on") {
            Output::Event(event @ (ModelEvent::Complete { response } | ModelEvent::Failed { response, .. })) if response == of => {
                return event;
            }
            _ => {}
        }
    }
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
pub const TAXI_ACCEPTED: &str = "A taxi is being looked for.";
pub const TAXI_CLOSING: &str = "Your taxi is on its way to you.";
pub const NUMBER: &str = "four seven two nine";
pub const CLOSING: &str = "The number of your order is four seven two nine.";
/// What the box says of a service that is away, or was lost, where nothing else is set.
pub const AWAY: &str = "The assistant can't answer just now.";
pub const LOST: &str = "I have lost the line to the assistant.";

/// Below the ports that the system gives away, and above those of the other tests: a hundred for each box.
const RTP_FIRST: u16 = 30_000;
