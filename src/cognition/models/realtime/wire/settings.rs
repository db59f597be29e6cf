//! The settings of a session, as `session.update` sends them.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::cognition::models::functions::FunctionTool;
use crate::config::CloudAudio;

/// What a session is set to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename = "realtime")]
pub struct SessionSettings {
    /// What the model is told of its task.
    pub instructions: String,
    /// What responses are made of. Speech has its transcript beside it.
    pub output_modalities: [Modality; 1],
    /// The audio, both ways.
    pub audio: AudioSettings,
    /// What the model may call.
    pub tools: Vec<FunctionTool>,
    /// Whether it may.
    pub tool_choice: ToolChoice,
}

/// What a response is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Modality {
    /// Speech, and its transcript.
    Audio,
}

/// The audio of a session, both ways.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AudioSettings {
    /// The caller's.
    pub input: InputSettings,
    /// The model's.
    pub output: OutputSettings,
}

/// The caller's audio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputSettings {
    /// Its format.
    pub format: Format,
    /// Whether it is written down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcription: Option<Transcription>,
    /// How the service finds out where speech begins and ends; not at all where there is none, which is said as `null`.
    pub turn_detection: Option<Vad>,
}

/// The model's audio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputSettings {
    /// Its format.
    pub format: Format,
    /// Whose voice it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<String>,
}

/// How what the caller says is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Transcription {
    /// The model that does.
    pub model: String,
    /// The language that is spoken (ISO 639-1).
    pub language: &'static str,
}

/// How the service finds out where speech begins and ends. It never responds of itself, and never cuts a response: both are the box's to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Vad {
    /// By what.
    #[serde(rename = "type")]
    pub kind: &'static str,
    create_response: bool,
    interrupt_response: bool,
}

impl Vad {
    /// By silence.
    pub const SERVER: Self = Self { kind: "server_vad", create_response: false, interrupt_response: false };
    /// By what is said.
    pub const SEMANTIC: Self = Self { kind: "semantic_vad", create_response: false, interrupt_response: false };
}

/// Whether the model may call functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it sees fit.
    Auto,
    /// No.
    None,
}

/// A format of audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format(pub CloudAudio);

impl Format {
    /// Bytes of a millisecond.
    pub fn bytes_per_ms(self) -> usize {
        match self.0 {
            CloudAudio::Pcmu | CloudAudio::Pcma => 8,
            CloudAudio::Pcm => 48,
        }
    }

    /// How long so many bytes sound, in whole milliseconds.
    pub fn duration_ms(self, bytes: usize) -> u64 {
        (bytes / self.bytes_per_ms()) as u64
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.0 {
            CloudAudio::Pcmu => map.serialize_entry("type", "audio/pcmu")?,
            CloudAudio::Pcma => map.serialize_entry("type", "audio/pcma")?,
            CloudAudio::Pcm => {
                map.serialize_entry("type", "audio/pcm")?;
                map.serialize_entry("rate", &24_000)?;
            }
        }
        map.end()
    }
}
