//! `[model]`.

use std::path::PathBuf;

use serde::Deserialize;

use super::Cloud;
use super::check::Checker;
use super::tree::Path;

/// What leads the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// Which kind of model.
    pub kind: ModelKind,
    /// The scripted model's dialogue; a relative path starts from the configuration file.
    pub dialogue: PathBuf,
    /// What a speech model in a network is told of its task; short instructions of the box's own where there are none.
    pub instructions: Option<String>,
}

/// The kinds of model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// Follows a dialogue that was written beforehand; needs no network.
    #[default]
    Scripted,
    /// The speech model of `[cloud.realtime]`, in a network.
    Realtime,
    /// The speech model of `[cloud.gemini]`, in a network.
    Gemini,
    /// The speech model of `[cloud.live]`, in a network.
    Live,
    /// What `[cloud.transcription]` writes down is answered by `[cloud.language]`, and spoken by the box.
    Cascade,
}

impl Default for Model {
    fn default() -> Self {
        Self { kind: ModelKind::Scripted, dialogue: "dialogue.toml".into(), instructions: None }
    }
}

impl Model {
    pub(super) fn check(&self, checker: &mut Checker<'_>, cloud: &Cloud) {
        match self.kind {
            // What leads is not known: what another kind lacks is not complained of.
            _ if checker.is_broken(&Path::of("model.kind")) => {}
            ModelKind::Scripted => checker.file_exists(&Path::of("model.dialogue"), &self.dialogue),
            ModelKind::Realtime => check_service(checker, "cloud.realtime", cloud.realtime.is_some(), NO_SERVICE),
            ModelKind::Live => check_service(checker, "cloud.live", cloud.live.is_some(), NO_SERVICE),
            ModelKind::Gemini => check_service(checker, "cloud.gemini", cloud.gemini.is_some(), NO_SERVICE),
            ModelKind::Cascade => {
                let none = "the cascade has no part for transcription";
                check_service(checker, "cloud.transcription", cloud.transcription.is_some(), none);
                check_service(checker, "cloud.language", cloud.language.is_some(), "the cascade has no part for language");
                let hears = cloud.transcription.as_ref().and_then(|service| service.prices.as_ref());
                let answers = cloud.language.as_ref().and_then(|service| service.prices.as_ref());
                if let Some((hears, answers)) = hears.zip(answers).filter(|(hears, answers)| hears.currency != answers.currency) {
                    let what = format!("what a call costs is one sum, and cloud.language has its prices in {:?}", answers.currency);
                    let instead = format!("currency = {:?}, and the prices in it", answers.currency);
                    checker.error(&Path::of("cloud.transcription.prices.currency"), format!("{:?}: {what}", hears.currency), instead);
                }
            }
        }
        if let Some(instructions) = &self.instructions {
            let place = Path::of("model.instructions");
            if instructions.trim().is_empty() {
                checker.error(
                    &place,
                    "a model that is told nothing does not know its task",
                    "what it is to do; or leave it out, for the box's own",
                );
            }
            if instructions.len() > INSTRUCTIONS_BYTES_MAX {
                let what = format!("{} bytes are more than the {INSTRUCTIONS_BYTES_MAX} that a service takes", instructions.len());
                checker.error(&place, what, "a shorter text: it is read, and charged for, with every response");
            }
        }
    }
}

/// Whether there is a service that is to lead calls, and `what` is wrong where there is none. What is wrong with one that was written is said of itself.
fn check_service(checker: &mut Checker<'_>, table: &str, is_there: bool, what: &str) {
    if !is_there && !checker.is_broken(&Path::of(table)) {
        let instead = format!("a table [{table}] with its url, its model and a key_file, or kind = \"scripted\"");
        checker.error(&Path::of("model.kind"), what, instead);
    }
}

/// What is said where a service is to lead calls and none is configured.
const NO_SERVICE: &str = "there is no service whose model could lead calls";
/// Half of what the largest models take for instructions and tools together: some 8,000 tokens.
const INSTRUCTIONS_BYTES_MAX: usize = 32 * 1024;
