//! The events that are sent.

use std::collections::BTreeMap;

use serde::Serialize;

use super::item::Item;
use super::settings::{Modality, SessionSettings, ToolChoice};
use crate::cognition::models::json;

/// An event for the service.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientEvent {
    /// By which the service names it in an `error`.
    pub event_id: String,
    /// What it says.
    #[serde(flatten)]
    pub body: ClientBody,
}

/// What an event says to the service.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum ClientBody {
    /// Sets the session.
    #[serde(rename = "session.update")]
    SessionUpdate {
        /// To this.
        session: Box<SessionSettings>,
    },
    /// The caller's audio, in the session's format. Not acknowledged.
    #[serde(rename = "input_audio_buffer.append")]
    AudioAppend {
        /// The bytes.
        #[serde(serialize_with = "json::audio::serialize")]
        audio: Vec<u8>,
    },
    /// Makes an item of the audio that was sent.
    #[serde(rename = "input_audio_buffer.commit")]
    AudioCommit,
    /// Forgets the audio that was sent.
    #[serde(rename = "input_audio_buffer.clear")]
    AudioClear,
    /// Adds an item at the end of the conversation.
    #[serde(rename = "conversation.item.create")]
    ItemCreate {
        /// The item.
        item: Item,
    },
    /// Cuts the audio of one of the model's items, and forgets its transcript.
    #[serde(rename = "conversation.item.truncate")]
    ItemTruncate {
        /// The item.
        item_id: String,
        /// Its part.
        content_index: u32,
        /// What is left of its audio (ms); no more than there is.
        audio_end_ms: u64,
    },
    /// Removes an item.
    #[serde(rename = "conversation.item.delete")]
    ItemDelete {
        /// The item.
        item_id: String,
    },
    /// Asks for a response.
    #[serde(rename = "response.create")]
    ResponseCreate {
        /// What is particular about it.
        response: ResponseSettings,
    },
    /// Ends a response.
    #[serde(rename = "response.cancel")]
    ResponseCancel {
        /// The response; the one that is under way in the conversation where its name is not known yet.
        #[serde(skip_serializing_if = "Option::is_none")]
        response_id: Option<String>,
    },
}

/// What is particular about a response.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ResponseSettings {
    /// Given back with the response's events.
    pub metadata: BTreeMap<&'static str, String>,
    /// `none` where it belongs to no conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<&'static str>,
    /// What it is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_modalities: Option<[Modality; 1]>,
    /// What it is an answer to, instead of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<Item>>,
    /// What the model is told, instead of the session's instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Whether it may call functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::settings::*;
    use super::*;
    use crate::cognition::models::{FunctionTool, Role};
    use crate::config::CloudAudio;

    fn sent(body: ClientBody) -> Value {
        serde_json::to_value(ClientEvent { event_id: "rec_1".into(), body }).unwrap()
    }

    fn settings(format: CloudAudio, turn_detection: Option<Vad>) -> SessionSettings {
        SessionSettings {
            instructions: "Sé breve.".into(),
            output_modalities: [Modality::Audio],
            audio: AudioSettings {
                input: InputSettings {
                    format: Format(format),
                    transcription: Some(Transcription { model: "scribe".into(), language: "es" }),
                    turn_detection,
                },
                output: OutputSettings { format: Format(format), voice: Some("marin".into()) },
            },
            tools: vec![FunctionTool { name: "order".into(), description: "Orders".into(), parameters: json!({ "type": "object" }) }],
            tool_choice: ToolChoice::Auto,
        }
    }

    #[test]
    fn a_session_is_set_in_the_documented_form_and_detection_that_is_off_is_said_as_null() {
        assert_eq!(
            sent(ClientBody::SessionUpdate { session: Box::new(settings(CloudAudio::Pcmu, None)) }),
            json!({
                "event_id": "rec_1",
                "type": "session.update",
                "session": {
                    "type": "realtime",
                    "instructions": "Sé breve.",
                    "output_modalities": ["audio"],
                    "audio": {
                        "input": {
                            "format": { "type": "audio/pcmu" },
                            "transcription": { "model": "scribe", "language": "es" },
                            "turn_detection": null,
                        },
                        "output": { "format": { "type": "audio/pcmu" }, "voice": "marin" },
                    },
                    "tools": [{ "type": "function", "name": "order", "description": "Orders", "parameters": { "type": "object" } }],
                    "tool_choice": "auto",
                },
            })
        );
        let linear = sent(ClientBody::SessionUpdate { session: Box::new(settings(CloudAudio::Pcm, Some(Vad::SERVER))) });
        let input = &linear["session"]["audio"]["input"];
        assert_eq!(input["format"], json!({ "type": "audio/pcm", "rate": 24_000 }));
        assert_eq!(input["turn_detection"], json!({ "type": "server_vad", "create_response": false, "interrupt_response": false }));
    }

    #[test]
    fn each_event_has_its_documented_fields_and_no_others() {
        let response = ResponseSettings { metadata: [("recado_response", "rsp_1".to_owned())].into(), ..ResponseSettings::default() };
        for (body, expected) in [
            (ClientBody::AudioAppend { audio: vec![0xff, 0x7f, 0] }, json!({ "type": "input_audio_buffer.append", "audio": "/38A" })),
            (ClientBody::AudioCommit, json!({ "type": "input_audio_buffer.commit" })),
            (ClientBody::AudioClear, json!({ "type": "input_audio_buffer.clear" })),
            (
                ClientBody::ItemCreate { item: Item::message(Role::System, "x").named("box_1".into()) },
                json!({
                    "type": "conversation.item.create",
                    "item": { "type": "message", "id": "box_1", "role": "system", "content": [{ "type": "input_text", "text": "x" }] },
                }),
            ),
            (
                ClientBody::ItemCreate { item: Item::message(Role::Assistant, "x") },
                json!({
                    "type": "conversation.item.create",
                    "item": { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "x" }] },
                }),
            ),
            (
                ClientBody::ItemCreate { item: Item::FunctionCallOutput { call_id: "call_1".into(), output: "{}".into() } },
                json!({ "type": "conversation.item.create", "item": { "type": "function_call_output", "call_id": "call_1", "output": "{}" } }),
            ),
            (
                ClientBody::ItemTruncate { item_id: "item_1".into(), content_index: 0, audio_end_ms: 40 },
                json!({ "type": "conversation.item.truncate", "item_id": "item_1", "content_index": 0, "audio_end_ms": 40 }),
            ),
            (ClientBody::ItemDelete { item_id: "item_1".into() }, json!({ "type": "conversation.item.delete", "item_id": "item_1" })),
            (
                ClientBody::ResponseCreate { response },
                json!({ "type": "response.create", "response": { "metadata": { "recado_response": "rsp_1" } } }),
            ),
            (ClientBody::ResponseCancel { response_id: None }, json!({ "type": "response.cancel" })),
            (
                ClientBody::ResponseCancel { response_id: Some("resp_1".into()) },
                json!({ "type": "response.cancel", "response_id": "resp_1" }),
            ),
        ] {
            let mut expected = expected;
            expected["event_id"] = json!("rec_1");
            assert_eq!(sent(body), expected);
        }
    }
}
