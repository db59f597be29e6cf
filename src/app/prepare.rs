//! What a box needs before it starts: settings, tools, the model, a dialogue and its recordings, read and checked.
//!
//! `recado check` stops there; `recado run` goes on with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cascade_model::cascade;
use super::engines::engine;
use super::gemini_model::GeminiModel;
use super::live_model::LiveModel;
use super::message_keeper::MessageKeeper;
use super::realtime_model::RealtimeModel;
use super::services::{Service, Services};
use super::speech_model::SpeechModelError;
use crate::admin::HealthState;
use crate::cognition::models::cascade::CascadeError;
use crate::cognition::models::{Bounds, Dialogue, DialogueError, MessageTaker, Model, STANDBY_DIALOGUE, Scripted, Standby, StandbyWords};
use crate::cognition::tools::{McpServers, Schemas, ToolError, slots};
use crate::config::{Config, Depth, ModelKind, Problems, Sources, Tool, read_text};
use crate::outward::ServiceSetupError;
use crate::surface::speech::{SpeechAudio, SpeechError, Synthesiser, wav};

/// A configuration that a box can start with.
#[derive(Debug)]
pub struct Checked {
    /// What a box with it will do, one thing a line.
    pub summary: String,
    /// What somebody should know.
    pub warnings: Problems,
}

/// Why a box can't start with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Settings are wrong: correct each line that is named.
    #[error(transparent)]
    Settings(#[from] Problems),
    /// A tool can't be used as it is configured: correct what is named.
    #[error("{file}: {error}")]
    Tool {
        /// The configuration file.
        file: String,
        /// What is wrong.
        error: ToolError,
    },
    /// The dialogue can't be read: make it a text file that recado may read.
    #[error("{file}: can't be read: {error}")]
    DialogueUnreadable {
        /// The dialogue's file.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// The dialogue can't be held: correct the line that is named, or add the tool that it calls.
    #[error("{file}: {error}")]
    Dialogue {
        /// The dialogue's file.
        file: String,
        /// What is wrong.
        error: DialogueError,
    },
    /// The service that is to lead calls can't be used as it is configured: correct what is named.
    #[error("{file}: {error}")]
    Service {
        /// The configuration file.
        file: String,
        /// What is wrong.
        error: Box<SpeechModelError>,
    },
    /// The service that is to speak can't be used as it is configured: correct what is named.
    #[error("{file}: {error}")]
    Speech {
        /// The configuration file.
        file: String,
        /// What is wrong.
        error: ServiceSetupError,
    },
    /// The services that are to lead calls together can't be used as they are configured: correct what is named.
    #[error("{file}: {error}")]
    Cascade {
        /// The configuration file.
        file: String,
        /// What is wrong.
        error: Box<CascadeError>,
    },
    /// A recording can't be played: export it as WAV, put it there, or say its words instead.
    #[error("{file}: prompt {prompt:?}: {error}")]
    Recording {
        /// The dialogue's file.
        file: String,
        /// The prompt's name.
        prompt: String,
        /// What is wrong.
        error: SpeechError,
    },
}

/// What a box starts with.
pub struct Prepared {
    /// The tools' schemas.
    pub schemas: Schemas,
    /// What leads the calls.
    pub model: Box<dyn Model>,
    /// What speaks.
    pub engine: Arc<dyn Synthesiser>,
    /// The dialogue's recordings, by name.
    pub prompts: BTreeMap<String, SpeechAudio>,
    /// How the service of the model stands; one that nobody knows, where it has none.
    pub services: Services,
    /// The services that lead calls, to be looked at.
    pub looked_at: Vec<Service>,
    /// Who keeps callers' messages, where any are taken.
    pub messages: Option<MessageKeeper>,
}

/// Checks the settings, and then what they point at: tools with their files, the dialogue with its recordings.
///
/// # Errors
/// All settings that are wrong; where none is, the first other thing that is.
pub fn check(sources: &Sources) -> Result<Checked, CheckError> {
    let (config, warnings) = Config::load(sources, Depth::Engine { answers_within: ENGINE_ANSWERS_WITHIN })?;
    let file = sources.file.display().to_string();
    prepare(&config, &file, &HealthState::new(Instant::now()))?;
    McpServers::new(&config.mcp)
        .and_then(|servers| slots(&config, &servers, None, None))
        .map_err(|error| CheckError::Tool { file, error })?;
    Ok(Checked { summary: config.summary().to_string(), warnings })
}

/// Reads what the settings, which stand in `file`, point at. What becomes known later is shown in `health`.
///
/// # Errors
/// The first thing that is wrong.
pub fn prepare(config: &Config, file: &str, health: &HealthState) -> Result<Prepared, CheckError> {
    let unusable = |error| CheckError::Tool { file: file.to_owned(), error };
    let schemas = Schemas::compile(&config.tools).map_err(unusable)?;
    // A dialogue is written for tools that are there whatever a server offers today.
    let declared: Vec<Tool> = config.tools.iter().filter(|tool| !tool.discovered).cloned().collect();
    let of_dialogues = Schemas::compile(&declared).map_err(unusable)?;
    let engine = engine(config).map_err(|error| CheckError::Speech { file: file.to_owned(), error })?;
    let messages = MessageKeeper::new(config, health.clone());
    let unusable = |error| CheckError::Service { file: file.to_owned(), error: Box::new(error) };
    let (model, looked_at, dialogue): Led = match config.model.kind {
        ModelKind::Scripted => {
            let (model, dialogue) = scripted(read(&of_dialogues, &config.model.dialogue)?, &messages);
            (Box::new(model), Vec::new(), Some(dialogue))
        }
        ModelKind::Realtime => led(config, &of_dialogues, &messages, RealtimeModel::new(config).map_err(unusable)?.with_service())?,
        ModelKind::Live => led(config, &of_dialogues, &messages, LiveModel::new(config).map_err(unusable)?.with_service())?,
        ModelKind::Gemini => led(config, &of_dialogues, &messages, GeminiModel::new(config).map_err(unusable)?.with_service())?,
        ModelKind::Cascade => {
            let parts = cascade(config).map_err(|error| CheckError::Cascade { file: file.to_owned(), error: Box::new(error) })?;
            led(config, &of_dialogues, &messages, parts)?
        }
    };
    let services = looked_at.first().map_or_else(Services::none, |service| service.services.clone());
    let (takes_messages, prompts) = dialogue.map_or((false, BTreeMap::new()), |found| (found.takes_messages, found.prompts));
    Ok(Prepared { schemas, model, engine, prompts, services, looked_at, messages: takes_messages.then_some(messages) })
}

/// What there is of a dialogue beside its steps.
struct Found {
    prompts: BTreeMap<String, SpeechAudio>,
    takes_messages: bool,
}

fn scripted((dialogue, prompts): (Dialogue, BTreeMap<String, SpeechAudio>), messages: &MessageKeeper) -> (Scripted, Found) {
    let takes_messages = dialogue.takes_messages();
    (Scripted::new(dialogue, Some(Arc::new(messages.clone()))), Found { prompts, takes_messages })
}

/// What leads calls, its services where it has any, and a dialogue where there is one.
type Led = (Box<dyn Model>, Vec<Service>, Option<Found>);

/// A box whose calls services lead, with what stands by for it.
fn led(
    config: &Config,
    schemas: &Schemas,
    messages: &MessageKeeper,
    (model, services): (impl Model + 'static, Vec<Service>),
) -> Result<Led, CheckError> {
    let (model, dialogue): (Box<dyn Model>, Option<Found>) = match stands_by(config, schemas, messages)? {
        Some((second, dialogue)) => (Box::new(with_standby(config, Box::new(model), second)), Some(dialogue)),
        None => (Box::new(model), None),
    };
    if config.model.kind == ModelKind::Live {
        // It calls no functions.
        return Ok((model, services, dialogue));
    }
    let prompts = dialogue.map_or(BTreeMap::new(), |found| found.prompts);
    let model = Box::new(MessageTaker::new(model, Arc::new(messages.clone())));
    Ok((model, services, Some(Found { prompts, takes_messages: true })))
}

/// What answers while the service is away, where anything is to.
fn stands_by(config: &Config, schemas: &Schemas, messages: &MessageKeeper) -> Result<Option<(Scripted, Found)>, CheckError> {
    let read = match &config.standby.dialogue {
        _ if !config.standby.enabled => return Ok(None),
        Some(path) => read(schemas, path)?,
        None => {
            let built_in = Dialogue::parse(STANDBY_DIALOGUE, schemas);
            (built_in.map_err(|error| CheckError::Dialogue { file: "the box's own dialogue".to_owned(), error })?, BTreeMap::new())
        }
    };
    Ok(Some(scripted(read, messages)))
}

fn with_standby(config: &Config, first: Box<dyn Model>, second: Scripted) -> Standby {
    let standby = &config.standby;
    let bounds = Bounds { connecting_ms: standby.takeover_ms, silent_ms: standby.silent_ms };
    let words = StandbyWords { away: standby.say_away.clone(), lost: standby.say_lost.clone() };
    Standby::new(first, Box::new(second), bounds, words)
}

/// Reads the dialogue in the file `path`, with its recordings.
fn read(schemas: &Schemas, path: &Path) -> Result<(Dialogue, BTreeMap<String, SpeechAudio>), CheckError> {
    let file = path.display().to_string();
    let text = match read_text(path, DIALOGUE_BYTES_MAX) {
        Ok(text) => text,
        Err(error) => return Err(CheckError::DialogueUnreadable { file, error }),
    };
    let dialogue = match Dialogue::parse(&text, schemas) {
        Ok(dialogue) => dialogue,
        Err(error) => return Err(CheckError::Dialogue { file, error }),
    };
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut prompts = BTreeMap::new();
    for (name, prompt) in dialogue.prompts() {
        match wav::load(&directory.join(&prompt.file)) {
            Ok(samples) => prompts.insert(name.clone(), SpeechAudio::from_recording(prompt.text.as_str().into(), samples)),
            Err(error) => return Err(CheckError::Recording { file, prompt: name.clone(), error }),
        };
    }
    Ok((dialogue, prompts))
}

/// An engine that takes longer to look for a voice hangs.
const ENGINE_ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// A dialogue is written by people; a file beyond this was named by mistake.
const DIALOGUE_BYTES_MAX: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn check_in(directory: &Path, settings: &str, dialogue: &str) -> Result<Checked, String> {
        std::fs::write(directory.join("recado.toml"), settings).unwrap();
        std::fs::write(directory.join("dialogue.toml"), dialogue).unwrap();
        let checked = check(&Sources { file: directory.join("recado.toml"), ..Sources::default() });
        checked.map_err(|error| error.to_string().replace(&format!("{}/", directory.display()), ""))
    }

    #[test]
    fn the_default_and_the_examples_can_be_started_with() {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
        let examples = std::fs::read_dir(config.join("examples")).unwrap().map(|entry| entry.unwrap().path());
        let mut checked = 0;
        for file in examples.chain([config.join("recado.toml")]).filter(|file| !file.to_string_lossy().ends_with(".dialogue.toml")) {
            match check(&Sources { file: file.clone(), ..Sources::default() }) {
                Ok(found) => assert!(found.warnings.is_empty(), "{}", found.warnings),
                Err(error) => panic!("{error}"),
            }
            checked += 1;
        }
        assert!(checked >= 3);
    }

    #[test]
    fn a_service_that_leads_calls_is_looked_at_instead_of_a_dialogue() {
        let directory = tempfile::tempdir().unwrap();
        let said = |more: &str| {
            let settings = format!("[model]\nkind = 'realtime'\n[cloud.realtime]\nurl = 'wss://127.0.0.1/'\nmodel = 'm'\n{more}");
            check_in(directory.path(), &settings, "this is no dialogue").map(|checked| checked.summary)
        };
        std::fs::write(directory.path().join("key"), "k").unwrap();
        assert!(said("key_file = 'key'\n").unwrap().contains("Calls are led by the speech model m at wss://127.0.0.1."));
        std::fs::write(directory.path().join("ca.pem"), "no certificate").unwrap();
        let refused = said("ca_file = 'ca.pem'\n").unwrap_err();
        assert!(refused.starts_with("recado.toml: ") && refused.contains("ca.pem"), "{refused}");
    }

    #[test]
    fn what_settings_point_at_is_checked_too() {
        let directory = tempfile::tempdir().unwrap();
        let said = |settings: &str, dialogue: &str| check_in(directory.path(), settings, dialogue).err().unwrap_or_default();
        let otherwise = "[otherwise]\nsay = { es = \"Hola\" }\n";
        assert_eq!(said("", otherwise), "");
        assert!(said("[gate]\nmin_quiet_ms = 1\n", otherwise).starts_with("recado.toml:2:16: gate.min_quiet_ms: 1 is outside"));
        assert_eq!(
            said("", &format!("{otherwise}call = {{ tool = \"order\" }}\n")),
            "dialogue.toml: line 3: there is no tool `order`; there are: none"
        );
        let prompt = "[prompts.bye]\nfile = \"bye.wav\"\ntext = \"Adiós\"\n";
        let missing = said("", &format!("{otherwise}{prompt}"));
        assert!(missing.starts_with("dialogue.toml: prompt \"bye\": ") && missing.contains("bye.wav"), "{missing}");
        std::fs::write(directory.path().join("bye.wav"), "ID3").unwrap();
        assert_ne!(said("", &format!("{otherwise}{prompt}")), missing, "what is wrong now is the file, not its absence");
        let with_authority = "[[tools]]\nname = \"t\"\nurl = \"https://127.0.0.1/\"\nsay_done.es = \"Hecho\"\nca_file = \"bye.wav\"\n";
        let refused = said(with_authority, otherwise);
        assert!(refused.starts_with("recado.toml: ") && refused.contains("bye.wav"), "{refused}");
    }
}
