//! The story: what the caller asks for, what comes in between, and what must be true at the end.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use recado_core::ledger::DeliveryState;
use recado_core::policy::Language;
use serde_json::{Value, json};

use super::caller::Caller;
use super::events::patiently;
use super::process::BoxProcess;
use super::report::{Check, Timeline, checks, table};
use super::tools::{Manner, Tools};
use super::{DemoError, Ear, Options};
use crate::coordination::Reader;
use crate::surface::speech::espeak::EspeakNg;
use crate::surface::speech::{Synthesiser, Utterance, wav};

/// What the caller says, and what the closings are, in one language.
struct Words {
    request: &'static [u8],
    small_talk: &'static [u8],
    interruption: &'static [u8],
    second_request: &'static [u8],
    again: &'static [u8],
    table: &'static str,
    table_short: &'static str,
    taxi: &'static str,
    invoice: &'static str,
}

macro_rules! words {
    ($folder:literal, $table:literal, $table_short:literal, $taxi:literal, $invoice:literal) => {
        Words {
            request: include_bytes!(concat!("speech/", $folder, "/request.wav")),
            small_talk: include_bytes!(concat!("speech/", $folder, "/small_talk.wav")),
            interruption: include_bytes!(concat!("speech/", $folder, "/interruption.wav")),
            second_request: include_bytes!(concat!("speech/", $folder, "/second_request.wav")),
            again: include_bytes!(concat!("speech/", $folder, "/again.wav")),
            table: $table,
            table_short: $table_short,
            taxi: $taxi,
            invoice: $invoice,
        }
    };
}

fn words(language: Language) -> Words {
    match language {
        Language::Es => words!(
            "es",
            "Ya tiene su mesa para dos, esta noche a las nueve y media, junto a la ventana.",
            "Su mesa es a las nueve y media.",
            "El taxi le recoge a las nueve en punto.",
            "La factura ya va camino de su correo."
        ),
        Language::En => words!(
            "en",
            "You have your table for two, tonight at half past nine, next to the window.",
            "Your table is at half past nine.",
            "The taxi picks you up at nine o'clock sharp.",
            "The invoice is on its way to your mail."
        ),
    }
}

pub async fn play(options: &Options) -> Result<(), DemoError> {
    // Nobody waits for the end of the story to hear of it.
    can_be_written(&options.wav).map_err(|error| DemoError::Recording { file: options.wav.clone(), error })?;
    let temporary;
    let folder: &Path = match &options.keep {
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| DemoError::System { what: "the folder to keep", error })?;
            folder
        }
        None => {
            temporary = Temporary::create()?;
            &temporary.0
        }
    };
    let words = words(options.language);
    let listen_for = Phrases::of(&words, options.language).await?;
    let tools = Tools::start(|_, _| Manner::Accepts).await?;
    let config = write_configuration(folder, options.language, &words, &tools)?;
    let program = this_program()?;
    let timeline = Arc::new(Timeline::begin());

    // The first call.
    let boxed = BoxProcess::start(&program, &config, timeline.listener()).await?;
    timeline.story("the caller dials");
    let first = Caller::dial(boxed.sip, CALLER).await?;
    patiently("the greeting", first.line.hears_voice(300)).await?;
    patiently("the end of the greeting", first.line.hears_silence(700)).await?;
    timeline.story("the caller asks for a table and a taxi");
    first.line.say(&speech(words.request)?);
    patiently("the request to be said", first.line.has_said()).await?;
    tools.asked("table", 1).await?;
    tools.asked("taxi", 1).await?;
    patiently("the acceptance", first.line.hears_voice(300)).await?;
    patiently("the end of the acceptance", first.line.hears_silence(500)).await?;
    timeline.story("the caller chats on; the tools finish meanwhile, the second one first");
    first.line.say(&speech(words.small_talk)?);
    boxed.log.seen("the box to hear the caller", |line| is_clock(line, "Speaking")).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut answers = vec![tools.report("taxi", json!({ "at": "nine" })).await?];
    answers.push(tools.report("table", json!({ "at": "half past nine" })).await?);
    timeline.story("one of them reports twice");
    answers.push(tools.report("table", json!({ "at": "half past nine" })).await?);
    patiently("the small talk to be said", first.line.has_said()).await?;
    patiently("the closing", first.line.hears_voice(1_200)).await?;
    timeline.story("the caller interrupts the closing");
    first.line.say(&speech(words.interruption)?);
    patiently("the interruption to be said", first.line.has_said()).await?;
    patiently("the rest of the closing", first.line.hears_voice(500)).await?;
    patiently("the end of the closing", first.line.hears_silence(900)).await?;
    boxed.log.seen("evidence that the closing was heard", settled).await?;
    timeline.story("the caller asks for the invoice");
    first.line.say(&speech(words.second_request)?);
    tools.asked("invoice", 1).await?;
    patiently("the acceptance", first.line.hears_voice(300)).await?;
    patiently("the end of the acceptance", first.line.hears_silence(500)).await?;

    timeline.story("kill -9: the power is gone, with an operation running");
    boxed.kill();
    let first = first.dropped();
    write_dialogue(folder, DIALOGUE_AGAIN)?;
    let boxed = BoxProcess::start(&program, &config, timeline.listener()).await?;
    tools.asked("invoice", 2).await?;
    answers.push(tools.report("invoice", json!({ "sent": true })).await?);

    // The second call.
    timeline.story("the caller dials again");
    let second = Caller::dial(boxed.sip, CALLER).await?;
    patiently("the greeting", second.line.hears_voice(300)).await?;
    patiently("the greeting and the pending closing", second.line.hears_silence(1_200)).await?;
    timeline.story("the caller says who it is; nothing is told twice");
    second.line.say(&speech(words.again)?);
    patiently("it to be said", second.line.has_said()).await?;
    patiently("an answer", second.line.hears_voice(300)).await?;
    patiently("its end", second.line.hears_silence(2_500)).await?;
    boxed.log.seen("evidence that the closing was heard", settled).await?;
    timeline.story("the caller hangs up");
    let second = second.hang_up().await?;
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await?;
    let ended_well = boxed.stops().await.is_ok_and(|status| status.success());

    write_wav(&options.wav, &[&first, &second])?;
    let store = Reader::open(&folder.join("data").join(crate::config::STORE_FILE))?;
    let told = show(&store)?;
    let failed = checks(&verdict(&listen_for, [&first.1, &second.1], &tools, &answers, &told, ended_well));
    println!("\nThe call, to listen to: {} (the caller left, the box right)", options.wav.display());
    if failed == 0 { Ok(()) } else { Err(DemoError::Contract(failed)) }
}

/// The closings' sound.
struct Phrases {
    table: Vec<i16>,
    taxi: Vec<i16>,
    /// Both in short, as they are told when the long form was cut before any of it was heard.
    short: Vec<i16>,
    invoice: Vec<i16>,
}

impl Phrases {
    async fn of(words: &Words, language: Language) -> Result<Self, DemoError> {
        let engine = EspeakNg::default();
        let say = async |text: &str| engine.synthesise(&Utterance::new(text, language)).await.map(|audio| audio.samples_8khz.to_vec());
        Ok(Self {
            table: say(words.table).await?,
            taxi: say(words.taxi).await?,
            short: say(&format!("{} {}", words.table_short, words.taxi)).await?,
            invoice: say(words.invoice).await?,
        })
    }
}

fn verdict(
    phrases: &Phrases,
    ears: [&Ear; 2],
    tools: &Tools,
    answers: &[u16],
    told: &[(DeliveryState, String)],
    ended_well: bool,
) -> Vec<Check> {
    let heard = |phrase: &[i16]| ears.map(|ear| ear.find(phrase).len());
    let [table, taxi, short, invoice] = [&phrases.table, &phrases.taxi, &phrases.short, &phrases.invoice].map(|phrase| heard(phrase));
    let times = |heard: &[usize; 2]| heard.iter().sum::<usize>();
    let check = |what: &str, found: String, holds: bool| Check { what: what.to_owned(), found, holds };
    let mut checks = vec![
        check(
            "the ear heard the first closing whole exactly once, long or short",
            format!("table {table:?}, taxi {taxi:?}, both in short {short:?} in the two calls"),
            times(&table) + times(&short) == 1 && times(&taxi) + times(&short) == 1,
        ),
        check("the ear heard the second closing once, after the restart", format!("{invoice:?}"), invoice == [0, 1]),
        check("each callback was answered 200, the repeated one too", format!("{answers:?}"), answers.iter().all(|status| *status == 200)),
        check(
            "every delivery ended spoken, on evidence",
            told.iter().map(|(_, evidence)| evidence.as_str()).collect::<Vec<_>>().join(", "),
            told.len() == 2 && told.iter().all(|(state, _)| *state == DeliveryState::Spoken),
        ),
        check("the box ended well when told to stop", ended_well.to_string(), ended_well),
    ];
    let all = tools.all();
    checks.push(check("three operations, three keys", all.len().to_string(), all.len() == 3));
    for asked in all {
        let effects = tools.effects(&asked.tool);
        let found = format!("asked {} times, {effects} effect", asked.requests);
        checks.push(check(&format!("{}: one effect, however often it was asked", asked.tool), found, effects == 1));
    }
    checks
}

/// Prints what the store holds. The deliveries' states, with their evidence.
fn show(store: &Reader) -> Result<Vec<(DeliveryState, String)>, DemoError> {
    let history = store.history()?;
    let mut rows = Vec::new();
    let mut told = Vec::new();
    for delivery in &history.deliveries {
        let evidence: Vec<String> =
            delivery.clauses.iter().map(|clause| clause.heard.map_or_else(|| "-".to_owned(), |level| format!("{level:?}"))).collect();
        told.push((delivery.state, format!("{:?} on {}", delivery.state, evidence.join("+"))));
        for operation in history.operations.iter().filter(|operation| operation.batch == delivery.batch) {
            rows.push(vec![
                operation.tool.clone(),
                operation.arguments.to_string(),
                format!("{:?}", operation.state),
                operation.attempt.to_string(),
                format!("{:?}", delivery.state),
                delivery.attempt.to_string(),
                evidence.join("+"),
            ]);
        }
    }
    table(&["accepted", "arguments", "operation", "attempts", "closing", "cuts", "evidence"], &rows);
    Ok(told)
}

fn write_configuration(folder: &Path, language: Language, words: &Words, tools: &Tools) -> Result<PathBuf, DemoError> {
    let system = |error| DemoError::System { what: "the demo's configuration", error };
    let code = match language {
        Language::Es => "es",
        Language::En => "en",
    };
    let mut config = settings(code, folder);
    let tool = |name: &str, accepted: &str, done: &str, short: &str| {
        format!(
            "[[tools]]\nname = {name:?}\nurl = \"http://{}/{name}\"\nidempotent = true\n\
             say_accepted.{code} = {accepted:?}\nsay_done.{code} = {done:?}\nsay_short.{code} = {short:?}\n",
            tools.address
        )
    };
    let accepted = match language {
        Language::Es => "Lo miro ahora mismo. Puede seguir hablando.",
        Language::En => "I'm on it. Please go on.",
    };
    for (name, done, short) in
        [("table", words.table, words.table_short), ("taxi", words.taxi, ""), ("invoice", words.invoice, words.invoice)]
    {
        let _ = write!(config, "{}", tool(name, accepted, done, if short.is_empty() { done } else { short }));
    }
    write_dialogue(folder, DIALOGUE)?;
    let file = folder.join("recado.toml");
    std::fs::write(&file, config).map_err(system)?;
    Ok(file)
}

fn write_dialogue(folder: &Path, dialogue: &str) -> Result<(), DemoError> {
    std::fs::write(folder.join("dialogue.toml"), dialogue).map_err(|error| DemoError::System { what: "the demo's dialogue", error })
}

/// Settings of a box on loopback, on ports that are free.
pub(super) fn settings(language: &str, folder: &Path) -> String {
    format!(
        "[box]\nlanguage = {language:?}\ndata_dir = {:?}\n[sip]\nlisten = \"127.0.0.1:0\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
         [media]\nports = \"24000-24999\"\n[log]\nformat = \"json\"\nlevel = \"info,recado::words=debug,recado::clocks=debug\"\n",
        folder.join("data").display().to_string()
    )
}

fn is_clock(line: &Value, acoustic: &str) -> bool {
    line["target"] == "recado::clocks" && line["acoustic"] == acoustic
}

/// Whether the box says that all of a delivery was heard.
fn settled(line: &Value) -> bool {
    line["message"] == "delivery settled" && line["clauses"].as_str().is_some_and(|clauses| !clauses.contains("Unheard"))
}

fn speech(bytes: &[u8]) -> Result<Vec<i16>, DemoError> {
    wav::read(bytes).map_err(|fault| DemoError::Answer(fault.to_string()))
}

/// Whether a file can be written: what is in it stays, and where there is none there is none afterwards.
fn can_be_written(file: &Path) -> std::io::Result<()> {
    if file.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, "it is not a file"));
    }
    // A link that leads nowhere is there, too.
    let is_there = file.symlink_metadata().is_ok();
    OpenOptions::new().append(true).create(true).open(file)?;
    if is_there { Ok(()) } else { std::fs::remove_file(file) }
}

fn write_wav(file: &Path, calls: &[&(Vec<i16>, Ear)]) -> Result<(), DemoError> {
    let fault = |error: hound::Error| {
        let error = if let hound::Error::IoError(error) = error { error } else { std::io::Error::other(error.to_string()) };
        DemoError::Recording { file: file.to_owned(), error }
    };
    let spec = hound::WavSpec { channels: 2, sample_rate: 8_000, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
    let mut writer = hound::WavWriter::create(file, spec).map_err(fault)?;
    for (said, heard) in calls {
        for at in 0..said.len().max(heard.samples.len()) {
            for side in [said, &heard.samples] {
                writer.write_sample(side.get(at).copied().unwrap_or(0)).map_err(fault)?;
            }
        }
    }
    writer.finalize().map_err(fault)
}

/// The program that the box is a process of.
pub(super) fn this_program() -> Result<PathBuf, DemoError> {
    std::env::current_exe().map_err(|error| DemoError::System { what: "this program's path", error })
}

/// A folder that goes when the demo does.
pub(super) struct Temporary(pub(super) PathBuf);

impl Temporary {
    pub(super) fn create() -> Result<Self, DemoError> {
        let folder = std::env::temp_dir().join(format!("recado-demo-{:016x}", crate::app::random() as u64));
        std::fs::create_dir_all(&folder).map_err(|error| DemoError::System { what: "a temporary folder", error })?;
        Ok(Self(folder))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Left behind, it is a few hundred kilobytes in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Who calls.
pub(super) const CALLER: &str = "600123456";

const DIALOGUE: &str = include_str!("dialogue.toml");

/// In the second call nothing new is asked for: turns are counted per call.
const DIALOGUE_AGAIN: &str = include_str!("dialogue_again.toml");
