//! The messages that are sent.

use serde::Serialize;
use serde_json::Value;

use super::setup::SessionSetup;
use crate::cognition::models::json;

/// A message for the service.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ClientMessage {
    /// Sets the session: the first one of a connection, and the only one of its kind.
    Setup(Box<SessionSetup>),
    /// Adds to the conversation. Interrupts whatever the model is saying.
    ClientContent(ClientContent),
    /// What the caller says, as it comes.
    RealtimeInput(RealtimeInput),
    /// What comes of calls.
    ToolResponse(ToolResponse),
}

/// Text for the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientContent {
    /// What is added, oldest first.
    pub turns: Vec<Content>,
    /// Whether the model is to answer now.
    pub turn_complete: bool,
}

/// What one side said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Content {
    /// Whose it is; nobody's for instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<ContentRole>,
    /// Its words.
    pub parts: Vec<Text>,
}

/// Who said it. There are no others: what the box says is said in the caller's place, and marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentRole {
    /// The caller, or the box.
    User,
    /// The model.
    Model,
}

/// A piece of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Text {
    /// The words.
    pub text: String,
}

/// What the caller says, as it comes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RealtimeInput {
    /// The caller begins. Interrupts whatever the model is saying.
    ActivityStart {},
    /// More of the caller's audio.
    Audio(Blob),
    /// Text, in its place in what the caller says.
    Text(String),
    /// The caller has ended: the model is to answer now.
    ActivityEnd {},
}

/// Bytes of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blob {
    /// Which type.
    pub mime_type: &'static str,
    /// The bytes.
    #[serde(serialize_with = "json::audio::serialize")]
    pub data: Vec<u8>,
}

/// What comes of calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResponse {
    /// Of each.
    pub function_responses: Vec<FunctionResponse>,
}

/// What comes of a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionResponse {
    /// The call, by the service's name for it, where it gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The function.
    pub name: String,
    /// What the model is told: a map.
    pub response: Value,
    /// What the service does with it, where it does not wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Whether more comes of the call, where the service does not wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub will_continue: Option<bool>,
}

/// What the service does with what comes of a call. That the model is to speak of it, the box says itself, and never here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Scheduling {
    /// It lets the model know, and no more.
    Silent,
}

impl Blob {
    /// The caller's audio.
    pub fn audio(data: Vec<u8>) -> Self {
        Self { mime_type: "audio/pcm;rate=16000", data }
    }
}

impl Content {
    /// What `role` said.
    pub fn of(role: ContentRole, text: String) -> Self {
        Self { role: Some(role), parts: vec![Text { text }] }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_message_has_its_documented_fields_and_no_others() {
        let told = |will_continue, scheduling| FunctionResponse {
            id: Some("call_1".into()),
            name: "order".into(),
            response: json!({ "output": 1 }),
            scheduling,
            will_continue,
        };
        let response = |response| ClientMessage::ToolResponse(ToolResponse { function_responses: vec![response] });
        for (message, expected) in [
            (ClientMessage::RealtimeInput(RealtimeInput::ActivityStart {}), json!({ "realtimeInput": { "activityStart": {} } })),
            (
                ClientMessage::RealtimeInput(RealtimeInput::Audio(Blob::audio(vec![0xff, 0x7f, 0]))),
                json!({ "realtimeInput": { "audio": { "mimeType": "audio/pcm;rate=16000", "data": "/38A" } } }),
            ),
            (ClientMessage::RealtimeInput(RealtimeInput::Text("x".into())), json!({ "realtimeInput": { "text": "x" } })),
            (ClientMessage::RealtimeInput(RealtimeInput::ActivityEnd {}), json!({ "realtimeInput": { "activityEnd": {} } })),
            (
                ClientMessage::ClientContent(ClientContent {
                    turns: vec![Content::of(ContentRole::User, "a".into()), Content::of(ContentRole::Model, "b".into())],
                    turn_complete: false,
                }),
                json!({ "clientContent": {
                    "turns": [{ "role": "user", "parts": [{ "text": "a" }] }, { "role": "model", "parts": [{ "text": "b" }] }],
                    "turnComplete": false,
                } }),
            ),
            (
                response(told(Some(true), Some(Scheduling::Silent))),
                json!({ "toolResponse": { "functionResponses": [{
                    "id": "call_1", "name": "order", "response": { "output": 1 }, "scheduling": "SILENT", "willContinue": true,
                }] } }),
            ),
            (
                response(told(None, None)),
                json!({ "toolResponse": { "functionResponses": [{ "id": "call_1", "name": "order", "response": { "output": 1 } }] } }),
            ),
        ] {
            assert_eq!(serde_json::to_value(message).unwrap(), expected);
        }
    }
}
