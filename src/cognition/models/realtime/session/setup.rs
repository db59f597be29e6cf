//! What a session is opened with.

use recado_core::policy::Language;

use crate::cognition::models::functions::Functions;
use crate::cognition::models::realtime::wire::{
    AudioSettings, Format, InputSettings, Modality, OutputSettings, SessionSettings, ToolChoice, Transcription, Vad,
};
use crate::cognition::tools::ToolError;
use crate::config::{Realtime, Tool, TurnDetection};

/// What a session is opened with. Does not change.
#[derive(Debug)]
pub struct Setup {
    pub(super) language: Language,
    pub(super) format: Format,
    pub(super) answer_timeout_ms: u64,
    pub(super) renew_after_ms: u64,
    instructions: String,
    voice: Option<String>,
    transcription_model: Option<String>,
    turn_detection: TurnDetection,
    pub(super) functions: Functions,
}

impl Setup {
    /// A session of the service `realtime`, in `language` where the service's settings name no other, with a model that is told
    /// `instructions` and may ask for what `tools` do, and who is on the line, where the box `verifies` callers.
    ///
    /// # Errors
    /// When a tool's schema can't be used.
    pub fn new(realtime: &Realtime, language: Language, instructions: String, tools: &[Tool], verifies: bool) -> Result<Self, ToolError> {
        Ok(Self {
            language: realtime.language.unwrap_or(language),
            format: Format(realtime.format),
            answer_timeout_ms: realtime.answer_timeout_ms,
            renew_after_ms: realtime.renew_after_ms,
            instructions,
            voice: realtime.voice.clone(),
            transcription_model: realtime.transcription_model.clone(),
            turn_detection: realtime.turn_detection,
            functions: Functions::new(tools, verifies)?,
        })
    }

    /// The language that is spoken.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Whether the service detects turns.
    pub(super) fn detects_turns(&self) -> bool {
        self.turn_detection != TurnDetection::None
    }

    pub(super) fn settings(&self) -> SessionSettings {
        let language = match self.language {
            Language::Es => "es",
            Language::En => "en",
        };
        let transcription = self.transcription_model.clone().map(|model| Transcription { model, language });
        let turn_detection = match self.turn_detection {
            TurnDetection::None => None,
            TurnDetection::ServerVad => Some(Vad::SERVER),
            TurnDetection::SemanticVad => Some(Vad::SEMANTIC),
        };
        SessionSettings {
            instructions: self.instructions.clone(),
            output_modalities: [Modality::Audio],
            audio: AudioSettings {
                input: InputSettings { format: self.format, transcription, turn_detection },
                output: OutputSettings { format: self.format, voice: self.voice.clone() },
            },
            tools: self.functions.offered().to_vec(),
            tool_choice: ToolChoice::Auto,
        }
    }
}
