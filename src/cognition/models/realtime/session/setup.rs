//! What a session is opened with.

use recado_core::policy::Language;
use serde_json::{Map, Value, json};

use super::own;
use crate::cognition::models::realtime::wire::{
    AudioSettings, Format, FunctionTool, InputSettings, Modality, OutputSettings, SessionSettings, ToolChoice, Transcription, Vad,
};
use crate::cognition::tools::{ArgumentsRefused, Schemas, ToolError};
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
    offered: Vec<FunctionTool>,
    schemas: Schemas,
}

impl Setup {
    /// A session of the service `realtime`, in `language` where the service's settings name no other, with a model that is told
    /// `instructions` and may ask for what `tools` do.
    ///
    /// # Errors
    /// When a tool's schema can't be used.
    pub fn new(realtime: &Realtime, language: Language, instructions: String, tools: &[Tool]) -> Result<Self, ToolError> {
        let schemas = Schemas::compile(tools)?;
        let own = own::offered().into_iter().filter(|function| tools.iter().all(|tool| tool.name != function.name));
        Ok(Self {
            language: realtime.language.unwrap_or(language),
            format: Format(realtime.format),
            answer_timeout_ms: realtime.answer_timeout_ms,
            renew_after_ms: realtime.renew_after_ms,
            instructions,
            voice: realtime.voice.clone(),
            transcription_model: realtime.transcription_model.clone(),
            turn_detection: realtime.turn_detection,
            offered: tools.iter().map(offer).chain(own).collect(),
            schemas,
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

    /// Whether this is a function of the box's own.
    pub(super) fn is_own(&self, function: &str) -> bool {
        own::is_one(function) && !self.schemas.names().any(|tool| tool == function)
    }

    /// What a tool is called with: its arguments, and whether the caller has confirmed a repeat.
    pub(super) fn arguments(&self, tool: &str, mut arguments: Value) -> Result<(Value, bool), ArgumentsRefused> {
        let own_property = self.offered.iter().any(|offered| offered.name == tool && takes_confirmation(&offered.parameters));
        let confirmed = match arguments.as_object_mut() {
            Some(fields) if own_property => fields.remove(CONFIRMED).is_some_and(|value| value == json!(true)),
            _ => false,
        };
        self.schemas.check(tool, &arguments)?;
        Ok((arguments, confirmed))
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
            tools: self.offered.clone(),
            tool_choice: ToolChoice::Auto,
        }
    }
}

/// A tool as the model sees it: with a way to say that the caller has confirmed a repeat, where it has no property of that name.
fn offer(tool: &Tool) -> FunctionTool {
    let mut parameters = tool.parameters.clone();
    if let Some(schema) = parameters.as_object_mut() {
        let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Some(properties) = properties.as_object_mut() {
            properties.entry(CONFIRMED).or_insert_with(|| json!({ "type": "boolean", "description": CONFIRMED_MEANS }));
        }
    }
    FunctionTool { name: tool.name.clone(), description: tool.description.clone(), parameters }
}

fn takes_confirmation(parameters: &Value) -> bool {
    parameters["properties"][CONFIRMED]["description"] == CONFIRMED_MEANS
}

/// The property by which a model says that the caller has confirmed a repeat.
const CONFIRMED: &str = "repeat_confirmed";
const CONFIRMED_MEANS: &str = "Leave it out, unless an earlier call was answered with needs_confirmation and the caller has then said yes.";
