//! `[speech]`.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use recado_core::policy::Language;
use serde::Deserialize;

use super::Cloud;
use super::check::Checker;
use super::engines::{Piper, SpeechCommand, check_program, example_of};
use super::tool_check::code_of;
use super::tree::Path;

/// Text to speech.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Speech {
    /// What speaks.
    pub engine: Engine,
    /// What speaks where the engine does not; see [`Speech::stand_in`].
    pub fallback: Option<Fallback>,
    /// espeak-ng's program, by its path or by its name in `PATH`.
    pub program: PathBuf,
    /// espeak-ng's voice of each language.
    pub voices: Voices,
    /// How fast espeak-ng, or a command that takes it, speaks. The telephone takes a little less than a desktop.
    pub words_per_minute: u16,
    /// `[speech.piper]`: Piper.
    pub piper: Option<Piper>,
    /// `[speech.command]`: a program of your own.
    pub command: Option<SpeechCommand>,
}

/// The speech engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
pub enum Engine {
    /// espeak-ng, as a process of its own.
    #[default]
    #[serde(rename = "espeak-ng")]
    EspeakNg,
    /// Piper, as a process that stays: `[speech.piper]`.
    #[serde(rename = "piper")]
    Piper,
    /// A program of your own, as a process of its own for each clause: `[speech.command]`.
    #[serde(rename = "command")]
    Command,
    /// A service in a network: `[cloud.speech]`.
    #[serde(rename = "http")]
    Http,
}

/// What speaks where the engine does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Fallback {
    /// espeak-ng.
    #[serde(rename = "espeak-ng")]
    EspeakNg,
    /// Nothing: what the engine can't speak is not said.
    #[serde(rename = "none")]
    None,
}

impl Engine {
    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::EspeakNg => "espeak-ng",
            Self::Piper => "piper",
            Self::Command => "command",
            Self::Http => "http",
        }
    }
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
        Self {
            engine: Engine::EspeakNg,
            fallback: None,
            program: "espeak-ng".into(),
            voices: Voices::default(),
            words_per_minute: 160,
            piper: None,
            command: None,
        }
    }
}

impl Speech {
    /// Whether espeak-ng speaks where the engine does not: unless something else is written, where that is in a network.
    pub fn stand_in(&self) -> bool {
        match (self.engine, self.fallback) {
            (Engine::EspeakNg, _) | (_, Some(Fallback::None)) => false,
            (_, Some(Fallback::EspeakNg)) | (Engine::Http, None) => true,
            (Engine::Piper | Engine::Command, None) => false,
        }
    }

    pub(super) fn check(&self, checker: &mut Checker<'_>, language: Language, cloud: &Cloud) {
        let at = |key| Path::of("speech").join(key);
        checker.within(&at("words_per_minute"), self.words_per_minute.into(), WORDS_PER_MINUTE_LEAST..=WORDS_PER_MINUTE_MOST);
        check_program(checker, &Path::of("speech"), &self.program, "espeak-ng");
        self.check_installed(checker);
        self.check_engine(checker, language, cloud);
        if let Some(piper) = &self.piper {
            piper.check(checker, language);
        }
        if let Some(command) = &self.command {
            command.check(checker, language);
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

    /// The engine must have its table.
    fn check_engine(&self, checker: &mut Checker<'_>, language: Language, cloud: &Cloud) {
        let model = format!("models.{} = {:?}", code_of(language), example_of(language));
        let (table, is_there, instead) = match self.engine {
            Engine::EspeakNg => return,
            Engine::Piper => ("speech.piper", self.piper.is_some(), model.as_str()),
            Engine::Command => ("speech.command", self.command.is_some(), "its program"),
            Engine::Http => ("cloud.speech", cloud.speech.is_some(), "its url, its model, its voices and a key_file"),
        };
        // What is wrong with a table that was written is said of itself.
        if !is_there && !checker.is_broken(&Path::of(table)) {
            let instead = format!("a table [{table}] with {instead}; or engine = \"espeak-ng\"");
            checker.error(&Path::of("speech.engine"), format!("there is no table [{table}], which says how it is reached"), instead);
        }
    }

    /// What speaks must be in `PATH`, where it is named without a path. A box may be started with another one.
    fn check_installed(&self, checker: &mut Checker<'_>) {
        let stands_in = self.stand_in().then_some(("speech", &self.program));
        let speaks = match self.engine {
            Engine::EspeakNg => Some(("speech", &self.program)),
            Engine::Piper => self.piper.as_ref().map(|piper| ("speech.piper", &piper.program)),
            Engine::Command => self.command.as_ref().map(|command| ("speech.command", &command.program)),
            Engine::Http => None,
        };
        for (table, program) in speaks.into_iter().chain(stands_in) {
            checker.program_is_installed(&Path::of(table).join("program"), program);
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
