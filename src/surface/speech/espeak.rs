//! espeak-ng as a speech engine: small, quick, in every language, on every board.
//!
//! It runs as a process of its own: its licence (GPL-3) stays with it, and a crash in it ends one utterance, not a call. The
//! text goes through its input, never through a shell or an argument, and never as markup: without `-m` markup is read as text.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use recado_core::policy::Language;

use super::error::SpeechError;
use super::port::{SpeechAudio, Synthesis, Synthesiser, Utterance, Voice};
use super::process::{self, SECONDS_MAX};
use super::text::sayable;
use super::wav;
use crate::config::NO_SUCH_VOICE;

/// Runs espeak-ng once for each utterance, a few at a time.
#[derive(Debug, Clone)]
pub struct EspeakNg {
    program: PathBuf,
    running: Arc<Semaphore>,
    timeout: Duration,
}

impl Default for EspeakNg {
    fn default() -> Self {
        Self::new("espeak-ng")
    }
}

impl EspeakNg {
    /// An engine that runs `program`, by its path or by its name in `PATH`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), running: Arc::new(Semaphore::new(PROCESSES_MAX)), timeout: TIMEOUT }
    }

    /// Asks the program for its version: to be done once at start, so that a missing engine is known before the first call.
    pub async fn version(&self) -> Result<String, SpeechError> {
        let output = self.bounded_in_time(self.run(&["--version".into()], "")).await?;
        Ok(String::from_utf8_lossy(&output).trim().to_owned())
    }

    async fn speak(&self, utterance: &Utterance) -> Result<SpeechAudio, SpeechError> {
        let text = sayable(utterance)?;
        let arguments = arguments(utterance.language, &utterance.voice)?;
        let output = self.bounded_in_time(self.run(&arguments, &text)).await.map_err(|error| match error {
            SpeechError::EngineFailed { stderr, .. } if stderr.contains(NO_SUCH_VOICE) => {
                SpeechError::VoiceMissing { program: self.program.clone(), voice: voice_name(utterance.language, &utterance.voice).into() }
            }
            error => error,
        })?;
        if output.is_empty() {
            return Err(SpeechError::NothingToSay);
        }
        let samples = wav::read(&output[..]).map_err(SpeechError::EngineAudio)?;
        SpeechAudio::from_engine(utterance.text.clone(), samples)
    }

    /// The whole way counts, the wait for a free place included: a caller is listening to the silence.
    async fn bounded_in_time<T>(&self, work: impl Future<Output = Result<T, SpeechError>>) -> Result<T, SpeechError> {
        tokio::time::timeout(self.timeout, work).await.unwrap_or(Err(SpeechError::TimedOut(self.timeout)))
    }

    async fn run(&self, arguments: &[String], text: &str) -> Result<Vec<u8>, SpeechError> {
        // The semaphore is never closed; were it, running unbounded would still be right for this utterance.
        let _place = self.running.acquire().await.ok();
        process::run(&self.program, arguments, text, OUTPUT_BYTES_MAX, INSTALL).await
    }
}

impl Synthesiser for EspeakNg {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        Box::pin(self.speak(utterance))
    }
}

/// What the engine calls the voice.
fn voice_name(language: Language, voice: &Voice) -> &str {
    voice.name.as_deref().unwrap_or(match language {
        Language::Es => "es",
        Language::En => "en-us",
    })
}

fn arguments(language: Language, voice: &Voice) -> Result<Vec<String>, SpeechError> {
    let name = voice_name(language, voice);
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= VOICE_NAME_BYTES_MAX
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+'));
    let refuse = |option, value: String, allowed| Err(SpeechError::VoiceOption { option, value, allowed });
    if !named {
        return refuse("name", name.into(), "a voice listed by `espeak-ng --voices`, such as es-419 or en-us+f3");
    }
    if !(80..=300).contains(&voice.words_per_minute) {
        return refuse("words_per_minute", voice.words_per_minute.to_string(), "80 to 300");
    }
    if voice.pitch > 99 {
        return refuse("pitch", voice.pitch.to_string(), "0 to 99");
    }
    let words_per_minute = voice.words_per_minute.to_string();
    let pitch = voice.pitch.to_string();
    let all = ["--stdin", "-b", "1", "--stdout", "-v", name, "-s", &words_per_minute, "-p", &pitch];
    Ok(all.map(String::from).to_vec())
}

const INSTALL: &str = "run `sudo apt-get install --no-install-recommends espeak-ng`, or correct speech.program";
/// A hundred times what a clause takes.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Media has the other cores.
const PROCESSES_MAX: usize = 2;
/// As much as a playback holds, at the engine's 22,050 Hz and 16 bits, and a byte more to notice that it was more.
const OUTPUT_BYTES_MAX: u64 = SECONDS_MAX * 22_050 * 2 + 45;
const VOICE_NAME_BYTES_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surface::speech::engine_faults::{Room, gone, number_in};
    use crate::surface::speech::level;
    use crate::surface::speech::phrases::Phrases;
    use crate::surface::speech::process::STDERR_BYTES_MAX;
    use crate::text::clauses;
    use futures_util::future::{Either, select};

    /// The real engine, or none with a message where it is not installed.
    async fn installed() -> Option<EspeakNg> {
        let engine = EspeakNg { timeout: Duration::from_secs(60), ..EspeakNg::default() };
        match engine.version().await {
            Ok(version) => {
                assert!(version.contains("eSpeak"), "{version}");
                Some(engine)
            }
            Err(error) => {
                eprintln!("skipped: {error}");
                None
            }
        }
    }

    async fn say(engine: &EspeakNg, text: &str, language: Language) -> Result<SpeechAudio, SpeechError> {
        engine.synthesise(&Utterance::new(text, language)).await
    }

    /// An engine that is the shell script `body`.
    fn script(room: &Room, body: &str) -> EspeakNg {
        EspeakNg { timeout: Duration::from_secs(60), ..EspeakNg::new(room.script(body)) }
    }

    #[tokio::test]
    async fn both_languages_are_audible_at_once_at_telephone_level_with_every_word_mapped() {
        let Some(engine) = installed().await else {
            return;
        };
        for (language, text) in [
            (Language::Es, "Le aviso en cuanto lo tenga, dentro de unos minutos."),
            (Language::En, "I will tell you as soon as I have it, in a few minutes."),
        ] {
            let audio = say(&engine, text, language).await.unwrap();
            assert!((2_000..6_000).contains(&audio.duration_ms()), "{} ms", audio.duration_ms());
            let audible = level::audible_frames(&audio.samples_8khz);
            let first_audible_ms = audible.iter().position(|&a| a).unwrap() * 5;
            assert!(first_audible_ms <= 20, "{first_audible_ms} ms");
            let loud: Vec<f64> = (audio.samples_8khz.chunks(level::FRAME_SAMPLES).zip(&audible))
                .filter(|(_, audible)| **audible)
                .flat_map(|(frame, _)| frame.iter().map(|&s| f64::from(s).powi(2)))
                .collect();
            let level_db = 10.0 * (loud.iter().sum::<f64>() / loud.len() as f64 / 32_768f64.powi(2)).log10();
            assert!((level_db + 20.0).abs() < 1.0, "{level_db:.1} dBFS");
            let words: Vec<&str> = audio.text_to_time.iter().map(|mark| &text[mark.byte_range.clone()]).collect();
            assert_eq!(words, text.split(' ').collect::<Vec<_>>());
            let comma = words.iter().position(|word| word.ends_with(',')).unwrap();
            let pause = audio.text_to_time[comma + 1].start_sample - audio.text_to_time[comma].end_sample;
            assert!((100 * 8..300 * 8).contains(&pause), "the comma's pause is {} ms", pause / 8);
            assert_eq!(audio.heard_text(audio.duration_ms()), text);
            assert!(text.starts_with(audio.heard_text(1_000)) && audio.heard_text(1_000).len() > 5);
        }
    }

    #[tokio::test]
    async fn what_looks_like_a_command_is_read_as_text() {
        let Some(engine) = installed().await else {
            return;
        };
        let length = async |text: &str| say(&engine, text, Language::En).await.unwrap().samples_8khz.len();
        assert!(length("\"; rm -rf / #$(reboot)`halt`").await > 8_000);
        assert!(length("<speak>hello</speak>").await > 2 * length("hello").await);
        assert_eq!(length("[[h@loU]]").await, length("  h@loU  ").await);
        assert_eq!(length("one\0two").await, length("one two").await);
        // U+0001 begins a command of the engine's own, here: a speed of 400.
        assert_eq!(length("one \u{1}400S two three").await, length("one  400S two three").await);
        assert_eq!(length("--version").await, length("--version ").await);
        assert!(length("well done 🎉👍🏽").await >= length("well done").await);
    }

    #[tokio::test]
    async fn five_thousand_characters_are_refused_whole_and_spoken_in_clauses() {
        let Some(engine) = installed().await else {
            return;
        };
        let text = "El pedido 4729 llegará el jueves, según nos dicen. ".repeat(100);
        let refused = say(&engine, &text, Language::Es).await;
        assert!(matches!(refused, Err(SpeechError::TextTooLong { chars: 5_100, .. })));
        let phrases = Phrases::new(engine, 1 << 20);
        let mut spoken = String::new();
        for clause in clauses(&text) {
            let audio = phrases.synthesise(&Utterance::new(clause, Language::Es)).await.unwrap();
            assert!(audio.duration_ms() < 15_000);
            spoken.push_str(audio.heard_text(audio.duration_ms()));
        }
        assert_eq!(spoken, text);
    }

    #[tokio::test]
    async fn a_short_text_that_takes_minutes_to_read_is_refused_and_not_cut() {
        let Some(engine) = installed().await else { return };
        let refused = say(&engine, &"777 ".repeat(150), Language::En).await;
        assert!(matches!(refused, Err(SpeechError::AudioTooLong { seconds_max: 60 })));
    }

    #[tokio::test]
    async fn a_text_without_words_is_an_error_and_not_silence() {
        let Some(engine) = installed().await else {
            return;
        };
        for text in ["", "   ", "\0\u{7}", "[[]]", "\u{200B}"] {
            let refused = say(&engine, text, Language::Es).await;
            assert!(matches!(refused, Err(SpeechError::NothingToSay)), "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_voice_that_does_not_exist_is_said_by_the_engine_and_a_wrong_option_before_it() {
        let Some(engine) = installed().await else {
            return;
        };
        let with = |voice| Utterance { voice, ..Utterance::new("hola", Language::Es) };
        let named = |name: &str| with(Voice { name: Some(name.into()), ..Voice::default() });
        let missing = engine.synthesise(&named("xx-yy")).await.unwrap_err();
        assert!(matches!(&missing, SpeechError::VoiceMissing { voice, .. } if voice == "xx-yy"), "{missing}");
        assert!(engine.synthesise(&named("es-419+f3")).await.is_ok());
        for name in ["--path=/tmp", "../x", "", "-v"] {
            let refused = engine.synthesise(&named(name)).await;
            assert!(matches!(refused, Err(SpeechError::VoiceOption { option: "name", .. })), "{name}");
        }
        for voice in [Voice { pitch: 100, ..Voice::default() }, Voice { words_per_minute: 20, ..Voice::default() }] {
            assert!(matches!(engine.synthesise(&with(voice)).await, Err(SpeechError::VoiceOption { .. })));
        }
    }

    #[tokio::test]
    async fn a_missing_engine_says_how_to_install_it() {
        let error = say(&EspeakNg::new("/nonexistent/espeak-ng"), "hola", Language::Es).await.unwrap_err();
        assert!(error.to_string().contains("apt-get install --no-install-recommends espeak-ng"), "{error}");
    }

    #[tokio::test]
    async fn an_engine_that_hangs_is_killed() {
        let room = Room::new();
        let mut engine = script(&room, "exec sleep 600");
        let pid = {
            let hangs = Box::pin(say(&engine, "hola", Language::Es));
            // It is given up when it is known which process it is, as it is when its time is over.
            match select(hangs, Box::pin(number_in(&room.path("started")))).await {
                Either::Left((spoken, _)) => panic!("{spoken:?}"),
                Either::Right((pid, _)) => pid,
            }
        };
        gone(pid).await;
        engine.timeout = Duration::from_millis(100);
        assert!(matches!(say(&engine, "hola", Language::Es).await, Err(SpeechError::TimedOut(_))));
    }

    #[tokio::test]
    async fn an_engine_that_floods_its_error_output_does_not_block_and_is_quoted_briefly() {
        let room = Room::new();
        let engine = script(&room, "head -c 1000000 /dev/zero | tr '\\0' e >&2; exit 3");
        let error = say(&engine, "hola", Language::Es).await.unwrap_err();
        match error {
            SpeechError::EngineFailed { status, stderr } => {
                assert!(status.contains('3') && stderr.len() == STDERR_BYTES_MAX as usize, "{status} {}", stderr.len());
            }
            other => panic!("{other}"),
        }
    }

    #[tokio::test]
    async fn an_engine_that_writes_something_else_is_an_error() {
        let room = Room::new();
        let engine = script(&room, "cat; echo more");
        let error = say(&engine, "hola, buenas tardes a todos", Language::Es).await;
        assert!(matches!(error, Err(SpeechError::EngineAudio(_))), "{error:?}");
    }

    #[tokio::test]
    async fn no_more_processes_run_than_allowed_and_the_wait_is_bounded() {
        let engine = EspeakNg { timeout: Duration::from_millis(20), ..EspeakNg::new("/nonexistent") };
        let _all = engine.running.acquire_many(PROCESSES_MAX as u32).await.unwrap();
        assert!(matches!(say(&engine, "hola", Language::Es).await, Err(SpeechError::TimedOut(_))));
    }
}
