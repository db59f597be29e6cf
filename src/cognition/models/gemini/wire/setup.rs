//! What a session is set to, as `setup` says it.

use serde::Serialize;
use serde_json::Value;

use super::client::{Content, Text};

/// What a session is set to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSetup {
    model: String,
    generation_config: GenerationConfig,
    system_instruction: Content,
    tools: [Functions; 1],
    realtime_input_config: RealtimeInputConfig,
    input_audio_transcription: Switch,
    output_audio_transcription: Switch,
    context_window_compression: Compression,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_resumption: Option<Resumption>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_config: Option<HistoryConfig>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    response_modalities: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    speech_config: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Functions {
    function_declarations: Vec<FunctionDeclaration>,
}

/// A function that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionDeclaration {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters_json_schema: Value,
    /// Whether the model waits for what comes of it.
    pub behavior: Behavior,
}

/// Whether the model waits for what comes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Behavior {
    /// It says nothing more before.
    Blocking,
    /// It goes on.
    NonBlocking,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct RealtimeInputConfig {
    automatic_activity_detection: ActivityDetection,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ActivityDetection {
    disabled: bool,
}

/// Something that is on when it is there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Switch {}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Compression {
    sliding_window: Switch,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Resumption {
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryConfig {
    initial_history_in_client_content: bool,
}

impl SessionSetup {
    /// A session of `model` that speaks, hears what the box says is speech, and writes both down; what is older than it can keep, it
    /// forgets.
    pub fn new(model: String, instructions: Vec<String>, functions: Vec<FunctionDeclaration>) -> Self {
        Self {
            model,
            generation_config: GenerationConfig { response_modalities: ["AUDIO"], speech_config: None },
            system_instruction: Content { role: None, parts: instructions.into_iter().map(|text| Text { text }).collect() },
            tools: [Functions { function_declarations: functions }],
            realtime_input_config: RealtimeInputConfig { automatic_activity_detection: ActivityDetection { disabled: true } },
            input_audio_transcription: Switch {},
            output_audio_transcription: Switch {},
            context_window_compression: Compression { sliding_window: Switch {} },
            session_resumption: None,
            history_config: None,
        }
    }

    /// The same in this voice.
    #[must_use]
    pub fn in_voice(mut self, voice: &str) -> Self {
        let config = serde_json::json!({ "voiceConfig": { "prebuiltVoiceConfig": { "voiceName": voice } } });
        self.generation_config.speech_config = Some(config);
        self
    }

    /// The same, of which the service says how it can be resumed; it resumes the one that `handle` is of.
    #[must_use]
    pub fn resuming(mut self, handle: Option<String>) -> Self {
        self.session_resumption = Some(Resumption { handle });
        self
    }

    /// The same, which is first told what went before.
    #[must_use]
    pub fn with_history(mut self) -> Self {
        self.history_config = Some(HistoryConfig { initial_history_in_client_content: true });
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_session_is_set_in_the_documented_form() {
        let function = FunctionDeclaration {
            name: "order".into(),
            description: "Orders".into(),
            parameters_json_schema: json!({ "type": "object" }),
            behavior: Behavior::NonBlocking,
        };
        let least = SessionSetup::new("models/speaks".into(), vec!["Sé breve.".into(), "Y claro.".into()], vec![function]);
        let mut expected = json!({
            "model": "models/speaks",
            "generationConfig": { "responseModalities": ["AUDIO"] },
            "systemInstruction": { "parts": [{ "text": "Sé breve." }, { "text": "Y claro." }] },
            "tools": [{ "functionDeclarations": [{
                "name": "order", "description": "Orders", "parametersJsonSchema": { "type": "object" }, "behavior": "NON_BLOCKING",
            }] }],
            "realtimeInputConfig": { "automaticActivityDetection": { "disabled": true } },
            "inputAudioTranscription": {},
            "outputAudioTranscription": {},
            "contextWindowCompression": { "slidingWindow": {} },
        });
        assert_eq!(serde_json::to_value(least.clone()).unwrap(), expected);
        expected["generationConfig"]["speechConfig"] = json!({ "voiceConfig": { "prebuiltVoiceConfig": { "voiceName": "Kore" } } });
        expected["sessionResumption"] = json!({});
        assert_eq!(serde_json::to_value(least.clone().in_voice("Kore").resuming(None)).unwrap(), expected);
        let all = least.in_voice("Kore").resuming(Some("h".into())).with_history();
        expected["sessionResumption"] = json!({ "handle": "h" });
        expected["historyConfig"] = json!({ "initialHistoryInClientContent": true });
        assert_eq!(serde_json::to_value(all).unwrap(), expected);
    }
}
