//! The events that are sent.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::cognition::models::{AudioFormat, json};
use crate::config::LiveAudio;

/// An event for the service.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientEvent {
    /// By which the service names it in an acknowledgement and in an `error`; none where it gets no answer, as audio does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// What it says.
    #[serde(flatten)]
    pub body: ClientBody,
}

/// What an event says to the service.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum ClientBody {
    /// Starts the session; the first event of a connection.
    #[serde(rename = "session.start")]
    Start {
        /// With this.
        session: Box<SessionSettings>,
    },
    /// The caller's audio, in the session's format. Not acknowledged.
    #[serde(rename = "session.input_audio.append")]
    Audio {
        /// The bytes.
        #[serde(serialize_with = "json::audio::serialize")]
        audio: Vec<u8>,
    },
    /// Something for the model to know, and not to say.
    #[serde(rename = "session.thinking.append")]
    Thinking {
        /// No more than the service takes.
        content: String,
        /// The task that it is about, where it is about one of this session.
        delegation_id: Option<String>,
    },
    /// Something for the model to speak about.
    #[serde(rename = "session.commentary.append")]
    Commentary {
        /// No more than the service takes.
        content: String,
        /// The task that it is about, where it is about one of this session.
        delegation_id: Option<String>,
    },
}

/// What a session is started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionSettings {
    /// The model.
    pub model: String,
    /// The audio.
    pub audio: AudioSettings,
    /// What the model is to do.
    pub instructions: String,
    /// What was said before, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<InitialItem>,
    /// Who does what the model delegates.
    pub delegation: Delegation,
    /// Whether the service keeps the session.
    pub store: bool,
}

/// The session's audio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AudioSettings {
    /// Its format, both ways.
    pub format: Format,
    /// What the model speaks with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSettings>,
}

/// What the model speaks with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputSettings {
    /// Its voice.
    pub voice: String,
}

/// That this side does what the model delegates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "client")]
pub struct Delegation {
    /// How long the model waits before it says of itself that it has delegated something (ms).
    pub acknowledgement_delay_ms: u64,
}

/// Something that was said before the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "message")]
pub struct InitialItem {
    /// Who said it.
    pub role: Role,
    /// The words, in one part.
    pub content: [Part; 1],
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The box, to the model.
    Developer,
    /// The caller.
    User,
    /// The model.
    Assistant,
}

/// The words of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Of the caller or the box.
    InputText {
        /// The words.
        text: String,
    },
    /// Of the model.
    OutputText {
        /// The words.
        text: String,
    },
}

impl InitialItem {
    /// A message of these words.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        let text = text.into();
        let part = match role {
            Role::Developer | Role::User => Part::InputText { text },
            Role::Assistant => Part::OutputText { text },
        };
        Self { role, content: [part] }
    }

    /// The words.
    pub fn text(&self) -> &str {
        let [Part::InputText { text } | Part::OutputText { text }] = &self.content;
        text
    }
}

/// A format of audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format(pub LiveAudio);

impl Format {
    /// What audio in it is made of.
    pub fn audio(self) -> AudioFormat {
        match self.0 {
            LiveAudio::Pcmu => AudioFormat::Pcmu,
            LiveAudio::Pcma => AudioFormat::Pcma,
            LiveAudio::Pcm16k | LiveAudio::Pcm24k => AudioFormat::Linear16 { rate_hz: self.rate_hz() },
        }
    }

    /// Samples per second.
    pub fn rate_hz(self) -> u32 {
        match self.0 {
            LiveAudio::Pcmu | LiveAudio::Pcma => 8_000,
            LiveAudio::Pcm16k => 16_000,
            LiveAudio::Pcm24k => 24_000,
        }
    }

    /// Bytes of a millisecond.
    pub fn bytes_per_ms(self) -> usize {
        let bytes_per_sample = match self.0 {
            LiveAudio::Pcmu | LiveAudio::Pcma => 1,
            LiveAudio::Pcm16k | LiveAudio::Pcm24k => 2,
        };
        self.rate_hz() as usize / 1_000 * bytes_per_sample
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match self.0 {
            LiveAudio::Pcmu => "audio/pcmu",
            LiveAudio::Pcma => "audio/pcma",
            LiveAudio::Pcm16k | LiveAudio::Pcm24k => "audio/pcm",
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", name)?;
        map.serialize_entry("rate", &self.rate_hz())?;
        map.end()
    }
}
