//! `[speech]`.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use recado_core::policy::Language;
use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;

/// Text to speech on the device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Speech {
    /// What speaks.
    pub engine: Engine,
    /// The engine's program, by its path or by its name in `PATH`.
    pub program: PathBuf,
    /// The voice of each language.
    pub voices: Voices,
    /// How fast it speaks. The telephone takes a little less than a desktop.
    pub words_per_minute: u16,
}

/// The speech engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
pub enum Engine {
    /// espeak-ng, as a process of its own.
    #[default]
    #[serde(rename = "espeak-ng")]
    EspeakNg,
}

/// The voice of each language; the engine's default where none is given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Voices {
    /// Spanish.
    pub es: Option<String>,
    /// English.
    pub en: Option<String>,
}

impl Voices {
    /// The voice of `language`.
    pub fn of(&self, language: Language) -> Option<&str> {
        match language {
            Language::Es => self.es.as_deref(),
            Language::En => self.en.as_deref(),
        }
    }
}

impl Default for Speech {
    fn default() -> Self {
        Self { engine: Engine::EspeakNg, program: "espeak-ng".into(), voices: Voices::default(), words_per_minute: 160 }
    }
}

impl Speech {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let at = |key| Path::of("speech").join(key);
        checker.within(&at("words_per_minute"), self.words_per_minute.into(), WORDS_PER_MINUTE_LEAST..=WORDS_PER_MINUTE_MOST);
        if self.program.as_os_str().is_empty() {
            checker.error(&at("program"), "it is empty", "program = \"espeak-ng\"");
        } else if self.program.components().count() > 1 {
            checker.file_exists(&at("program"), &self.program);
        }
        for (language, voice) in [("es", &self.voices.es), ("en", &self.voices.en)] {
            let Some(voice) = voice else { continue };
            let what = if !is_name(voice) {
                format!("{voice:?} is not the name of a voice")
            } else if checker.engine_answers_within().is_some_and(|within| self.lacks(voice, within)) {
                format!("{} has no voice {voice:?}", self.program.display())
            } else {
                continue;
            };
            checker.error(&at("voices").join(language), what, format!("{language} = {language:?} (`espeak-ng --voices` lists them)"));
        }
    }

    /// Whether the engine says that it has no such voice. One that is not there, or says nothing in time, says nothing.
    fn lacks(&self, voice: &str, answers_within: Duration) -> bool {
        let mut asked = Command::new(&self.program);
        asked.args(["-q", "-v", voice, ""]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let Ok(mut asked) = asked.spawn() else { return false };
        let (says, said) = sync_channel(1);
        if let Some(stderr) = asked.stderr.take() {
            // Another process may hold it open for ever: then nobody waits for this thread.
            std::thread::spawn(move || {
                let mut text = Vec::new();
                let _ = stderr.take(ENGINE_SAYS_BYTES_MAX).read_to_end(&mut text);
                let _ = says.send(text);
            });
        }
        let said = said.recv_timeout(answers_within).unwrap_or_default();
        // It has said all, or hangs.
        let _ = asked.kill();
        let _ = asked.wait();
        String::from_utf8_lossy(&said).contains(NO_SUCH_VOICE)
    }
}

/// The names of voices that the engine is given; others it could take for something else.
fn is_name(voice: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
    voice.starts_with(|c: char| c.is_ascii_alphabetic()) && voice.len() <= VOICE_BYTES_MAX && voice.chars().all(plain)
}

/// What espeak-ng says, among other things, of a voice that it has not.
pub(crate) const NO_SUCH_VOICE: &str = "voice does not exist";
/// Its message is a line.
const ENGINE_SAYS_BYTES_MAX: u64 = 4 * 1024;
/// Slower, words fall apart.
const WORDS_PER_MINUTE_LEAST: u64 = 80;
/// Faster, nobody follows on a telephone.
const WORDS_PER_MINUTE_MOST: u64 = 300;
/// No engine has longer names.
const VOICE_BYTES_MAX: usize = 40;
