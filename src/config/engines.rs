//! `[speech.piper]` and `[speech.command]`: programs that speak.

use std::path::{Path as FilePath, PathBuf};

use recado_core::policy::Language;
use serde::Deserialize;

use super::check::Checker;
use super::speech::Voices;
use super::tool_check::code_of;
use super::tree::Path;

/// Piper, as a process for each language that stays.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piper {
    /// The program, by its path or by its name in `PATH`.
    #[serde(default = "piper_program")]
    pub program: PathBuf,
    /// The voice of each language: a file that ends in `.onnx`, with its `.onnx.json` beside it.
    pub models: Models,
    /// The speaker, of a voice that has several.
    #[serde(default)]
    pub speaker: Option<u32>,
    /// How fast it speaks, as a part of the voice's own pace (per cent).
    #[serde(default = "pace_percent")]
    pub pace_percent: u16,
    /// How long the voice may take to be loaded (ms).
    #[serde(default = "load_timeout_ms")]
    pub load_timeout_ms: u64,
    /// How long a clause may take, once it is its turn (ms).
    #[serde(default = "piper_timeout_ms")]
    pub timeout_ms: u64,
}

/// The voice of each language, as a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Models {
    /// Spanish.
    pub es: Option<PathBuf>,
    /// English.
    pub en: Option<PathBuf>,
}

/// A program that is run for each clause, with the text at its input and the audio at its output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeechCommand {
    /// The program, by its path or by its name in `PATH`. No shell is involved.
    pub program: PathBuf,
    /// Its arguments; `{language}`, `{voice}` and `{words_per_minute}` in them are replaced.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// What stands for `{voice}` in each language.
    #[serde(default)]
    pub voices: Voices,
    /// What it writes.
    #[serde(default)]
    pub output: CommandOutput,
    /// The rate of samples without a header (Hz).
    #[serde(default)]
    pub rate_hz: Option<u32>,
    /// How long a clause may take, the wait for a free place included (ms).
    #[serde(default = "command_timeout_ms")]
    pub timeout_ms: u64,
}

/// What a command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandOutput {
    /// A WAV file.
    #[default]
    Wav,
    /// 16-bit little-endian samples, mono, without a header.
    Raw,
}

/// A program that is named by a relative path is looked for from `base` on; by its name alone, in `PATH`.
pub(super) fn resolve_program(base: &FilePath, program: &mut PathBuf) {
    if is_path(program) {
        *program = base.join(&*program);
    }
}

/// Whether a program is named by its path.
pub(super) fn is_path(program: &FilePath) -> bool {
    program.components().count() > 1
}

impl Models {
    /// The voice of `language`.
    pub fn of(&self, language: Language) -> Option<&FilePath> {
        match language {
            Language::Es => self.es.as_deref(),
            Language::En => self.en.as_deref(),
        }
    }

    /// Gives each file its place.
    pub(super) fn resolve(&mut self, base: &FilePath) {
        for model in [&mut self.es, &mut self.en].into_iter().flatten() {
            *model = base.join(&*model);
        }
    }
}

impl Piper {
    /// Where the program that reads a voice looks for what it must know of it.
    pub fn description_of(model: &FilePath) -> PathBuf {
        let mut name = model.as_os_str().to_owned();
        name.push(".json");
        name.into()
    }

    pub(super) fn check(&self, checker: &mut Checker<'_>, language: Language) {
        let place = Path::of("speech.piper");
        check_program(checker, &place, &self.program, "piper");
        let models = place.join("models");
        if self.models.of(language).is_none() {
            let code = code_of(language);
            let instead = format!("models.{code} = \"{}\"", example_of(language));
            checker.error(&models, format!("there is no voice for the box's language, {code:?}"), instead);
        }
        for (code, model) in [("es", &self.models.es), ("en", &self.models.en)] {
            if let Some(model) = model {
                checker.file_exists(&models.join(code), model);
                if model.is_file() {
                    checker.file_exists(&models.join(code), &Self::description_of(model));
                }
            }
        }
        checker.within(&place.join("pace_percent"), self.pace_percent.into(), PACE_PERCENT_LEAST..=PACE_PERCENT_MOST);
        checker.within(&place.join("load_timeout_ms"), self.load_timeout_ms, TIMEOUT_MS_LEAST..=LOAD_TIMEOUT_MS_MOST);
        checker.within(&place.join("timeout_ms"), self.timeout_ms, TIMEOUT_MS_LEAST..=TIMEOUT_MS_MOST);
    }
}

impl SpeechCommand {
    pub(super) fn check(&self, checker: &mut Checker<'_>, language: Language) {
        let place = Path::of("speech.command");
        check_program(checker, &place, &self.program, "speak");
        for argument in &self.arguments {
            if let Some(unknown) = unknown_placeholder(argument) {
                let what = format!("there is no {unknown} to be put there");
                let known = PLACEHOLDERS.map(|name| format!("{{{name}}}")).join(", ");
                checker.error(&place.join("arguments"), what, format!("one of {known}"));
            }
        }
        let places = [("es", &self.voices.es), ("en", &self.voices.en)];
        let uses_voice = self.arguments.iter().any(|argument| argument.contains("{voice}"));
        for (code, voice) in places {
            let Some(voice) = voice else { continue };
            if !uses_voice {
                let what = "no argument has a {voice} that it would be put into";
                checker.warning(&place.join("voices").join(code), what, "arguments = [\"--voice\", \"{voice}\"]");
            } else if voice.is_empty() || voice.starts_with('-') || voice.chars().any(char::is_control) {
                let what = format!("{voice:?} is not the name of a voice, and the program could take it for something else");
                checker.error(&place.join("voices").join(code), what, format!("{code} = \"…\""));
            }
        }
        if uses_voice && self.voices.of(language).is_none() {
            let code = code_of(language);
            let what = format!("there is no voice for the box's language, {code:?}, to be put into {{voice}}");
            checker.error(&place.join("voices"), what, format!("voices.{code} = \"sol\""));
        }
        let rate = place.join("rate_hz");
        match (self.output, self.rate_hz) {
            (CommandOutput::Raw, None) => {
                checker.error(&place.join("output"), "the rate of samples without a header must be said", "rate_hz = 22050");
            }
            (CommandOutput::Wav, Some(_)) => checker.warning(&rate, "a WAV file says its rate itself", "nothing: leave it out"),
            (CommandOutput::Raw, Some(hz)) => checker.within(&rate, hz.into(), RATE_HZ_LEAST..=RATE_HZ_MOST),
            (CommandOutput::Wav, None) => {}
        }
        checker.within(&place.join("timeout_ms"), self.timeout_ms, TIMEOUT_MS_LEAST..=TIMEOUT_MS_MOST);
    }
}

/// A program that is named by its path must be there and executable.
pub(super) fn check_program(checker: &mut Checker<'_>, place: &Path, program: &FilePath, example: &str) {
    if program.as_os_str().is_empty() {
        checker.error(&place.join("program"), "it is empty", format!("program = {example:?}"));
    } else if is_path(program) {
        checker.program_exists(&place.join("program"), program);
    }
}

/// What looks like a placeholder and is none: lower-case letters in braces.
fn unknown_placeholder(argument: &str) -> Option<String> {
    let mut rest = argument;
    while let Some((_, from)) = rest.split_once('{') {
        rest = from;
        let (name, _) = from.split_once('}')?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        if is_name && !PLACEHOLDERS.contains(&name) {
            return Some(format!("{{{name}}}"));
        }
    }
    None
}

/// A file of a voice.
pub(super) fn example_of(language: Language) -> &'static str {
    match language {
        Language::Es => "voices/es_ES-davefx-medium.onnx",
        Language::En => "voices/en_US-lessac-medium.onnx",
    }
}

fn piper_program() -> PathBuf {
    "piper".into()
}

fn pace_percent() -> u16 {
    100
}

/// A small board reads a voice from its card in some seconds.
fn load_timeout_ms() -> u64 {
    60_000
}

/// A small board speaks about as fast as it sounds.
fn piper_timeout_ms() -> u64 {
    15_000
}

fn command_timeout_ms() -> u64 {
    5_000
}

/// What arguments can hold, in braces.
const PLACEHOLDERS: [&str; 3] = ["language", "voice", "words_per_minute"];
/// Slower, words fall apart.
const PACE_PERCENT_LEAST: u64 = 50;
/// Faster, nobody follows on a telephone.
const PACE_PERCENT_MOST: u64 = 200;
/// Below, a busy machine does not even start a program.
const TIMEOUT_MS_LEAST: u64 = 500;
/// A caller has hung up by then.
const TIMEOUT_MS_MOST: u64 = 60_000;
/// No voice takes longer.
const LOAD_TIMEOUT_MS_MOST: u64 = 300_000;
/// Telephone speech needs as much.
const RATE_HZ_LEAST: u64 = 8_000;
/// No engine has more.
const RATE_HZ_MOST: u64 = 96_000;
