//! The messages that come, read liberally: what is not known is ignored, and what one service leaves out another one need not say.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::OUTPUT_HZ;
use crate::cognition::models::Usage;
use crate::cognition::models::json::{self, Unreadable, or_default};
use crate::cognition::models::transport::ServerMessage;
use crate::config::Secret;

/// A message of the service, as far as it is used. It may say several things at once.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LiveMessage {
    /// The session is set.
    #[serde(deserialize_with = "is_there")]
    pub setup_complete: bool,
    /// What the model says, and how it goes on.
    pub server_content: Option<ServerContent>,
    /// The model calls functions.
    #[serde(deserialize_with = "or_default")]
    pub tool_call: ToolCall,
    /// Calls to which the service wants no answer any more.
    #[serde(deserialize_with = "or_default")]
    pub tool_call_cancellation: Cancelled,
    /// The connection will be ended.
    pub go_away: Option<GoAway>,
    /// How the session can be resumed.
    pub session_resumption_update: Option<ResumptionUpdate>,
    /// What it took.
    #[serde(deserialize_with = "or_default")]
    pub usage_metadata: UsageMetadata,
    /// What the service complains of, where it does so in words.
    pub error: Option<Complaint>,
}

/// What the model says, and how it goes on.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServerContent {
    #[serde(deserialize_with = "or_default")]
    model_turn: ModelTurn,
    /// The words of what it says. They keep no order with its sound.
    pub output_transcription: Option<Transcription>,
    /// The words of what the caller said.
    pub input_transcription: Option<Transcription>,
    /// What it was saying is cut off.
    #[serde(deserialize_with = "or_default")]
    pub interrupted: bool,
    /// All of it has been made.
    #[serde(deserialize_with = "or_default")]
    pub generation_complete: bool,
    /// It has ended, as the service sees it: which waits until it takes it for played.
    #[serde(deserialize_with = "or_default")]
    pub turn_complete: bool,
    turn_complete_reason: Option<String>,
    interaction_status: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
struct ModelTurn {
    #[serde(deserialize_with = "or_default")]
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Part {
    inline_data: Option<InlineData>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct InlineData {
    #[serde(deserialize_with = "or_default")]
    mime_type: String,
    #[serde(deserialize_with = "json::audio::deserialize")]
    data: Vec<u8>,
}

/// Words of something that was said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Transcription {
    /// The next of them.
    #[serde(deserialize_with = "or_default")]
    pub text: String,
    /// Whether they are the last.
    #[serde(deserialize_with = "or_default")]
    pub finished: bool,
}

/// Calls that the model makes.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ToolCall {
    /// Each.
    #[serde(deserialize_with = "or_default")]
    pub function_calls: Vec<FunctionCall>,
}

/// A call that the model makes.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct FunctionCall {
    /// The service's name for it.
    pub id: Option<String>,
    /// The function.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// What it is called with.
    #[serde(deserialize_with = "or_default")]
    pub args: Map<String, Value>,
}

/// Calls to which the service wants no answer any more. What they have set in motion is none of its business.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Cancelled {
    /// Their names.
    #[serde(deserialize_with = "or_default")]
    pub ids: Vec<String>,
}

/// The connection will be ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GoAway {
    time_left: Option<String>,
}

/// How the session can be resumed on another connection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResumptionUpdate {
    new_handle: Option<String>,
    #[serde(deserialize_with = "or_default")]
    resumable: bool,
}

/// Tokens, as the service counts them.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UsageMetadata {
    #[serde(deserialize_with = "or_default")]
    prompt_token_count: u64,
    #[serde(deserialize_with = "or_default")]
    cached_content_token_count: u64,
    #[serde(deserialize_with = "or_default")]
    response_token_count: u64,
    #[serde(deserialize_with = "or_default")]
    thoughts_token_count: u64,
    #[serde(deserialize_with = "or_default")]
    tool_use_prompt_token_count: u64,
    #[serde(deserialize_with = "or_default")]
    prompt_tokens_details: Vec<ModalityCount>,
    #[serde(deserialize_with = "or_default")]
    cache_tokens_details: Vec<ModalityCount>,
    #[serde(deserialize_with = "or_default")]
    response_tokens_details: Vec<ModalityCount>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ModalityCount {
    #[serde(deserialize_with = "or_default")]
    modality: String,
    #[serde(deserialize_with = "or_default")]
    token_count: u64,
}

/// What the service complains of, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Complaint {
    #[serde(deserialize_with = "or_default")]
    status: String,
    #[serde(deserialize_with = "or_default")]
    message: String,
}

impl ServerMessage for LiveMessage {
    type Unreadable = Unreadable;

    fn read(text: &str) -> Result<Option<Self>, Unreadable> {
        let message: Self = json::read(text)?;
        // What says nothing that is used is not passed on.
        Ok((message != Self::default()).then_some(message))
    }

    fn hiding(mut self, secret: &Secret) -> Self {
        let complaint = self.error.iter_mut().flat_map(|complaint| [&mut complaint.status, &mut complaint.message]);
        let reason = self.server_content.iter_mut().filter_map(|content| content.turn_complete_reason.as_mut());
        let functions = self.tool_call.function_calls.iter_mut().map(|call| &mut call.name);
        complaint.for_each(|text| *text = secret.hidden_in(text));
        reason.chain(functions).for_each(|name| *name = secret.hidden_in_name(name));
        self
    }
}

impl ServerContent {
    /// The sound of what the model says.
    ///
    /// # Errors
    /// It is of another rate than the protocol's, which is given back (Hz).
    pub fn sound(&mut self) -> Result<Vec<u8>, u32> {
        let mut sound = Vec::new();
        for part in std::mem::take(&mut self.model_turn.parts) {
            let Some(InlineData { mime_type, data }) = part.inline_data else { continue };
            if !mime_type.starts_with("audio/") {
                continue;
            }
            let rate = mime_type.split(';').find_map(|part| part.trim().strip_prefix("rate=")?.parse().ok()).unwrap_or(OUTPUT_HZ);
            if rate != OUTPUT_HZ {
                return Err(rate);
            }
            sound.extend(data);
        }
        Ok(sound)
    }

    /// Why the turn has ended, where it is not because all is said.
    pub fn reason(&self) -> Option<&str> {
        self.turn_complete_reason.as_deref().filter(|reason| !reason.is_empty() && !reason.ends_with("UNSPECIFIED"))
    }

    /// Whether the model says more, though its turn has ended.
    pub fn goes_on(&self) -> bool {
        self.interaction_status.as_deref() == Some("IN_PROGRESS")
    }
}

impl GoAway {
    /// How much time is left (ms); none where the service says no number.
    pub fn time_left_ms(&self) -> Option<u64> {
        let seconds: f64 = self.time_left.as_deref()?.trim().strip_suffix('s')?.parse().ok()?;
        (seconds >= 0.0).then_some((seconds * 1_000.0) as u64)
    }
}

impl ResumptionUpdate {
    /// What the session as it is now can be resumed with; none where it can't be.
    pub fn handle(self) -> Option<String> {
        self.new_handle.filter(|handle| self.resumable && !handle.is_empty())
    }
}

impl From<&UsageMetadata> for Usage {
    fn from(counted: &UsageMetadata) -> Self {
        // What the service tells no kind of is taken for audio, which is the dearer one.
        let by_kind = |all: u64, details: &[ModalityCount]| {
            let text =
                details.iter().filter(|count| count.modality == "TEXT").fold(0, |sum: u64, count| sum.saturating_add(count.token_count));
            (text.min(all), all.saturating_sub(text))
        };
        let (text, audio) = by_kind(counted.prompt_token_count, &counted.prompt_tokens_details);
        let (cached_text, cached_audio) = by_kind(counted.cached_content_token_count, &counted.cache_tokens_details);
        let (output_text, output_audio) = by_kind(counted.response_token_count, &counted.response_tokens_details);
        Self {
            // What comes of calls is text.
            input_text: text.saturating_sub(cached_text).saturating_add(counted.tool_use_prompt_token_count),
            input_audio: audio.saturating_sub(cached_audio),
            cached_text,
            cached_audio,
            // What it thinks is charged for as what it writes.
            output_text: output_text.saturating_add(counted.thoughts_token_count),
            output_audio,
            ..Self::default()
        }
    }
}

impl Complaint {
    /// Its name and what it says, on one line that is not too long.
    pub fn words(&self) -> String {
        let Self { status, message } = self;
        crate::outward::bounded_text(&if status.is_empty() { message.clone() } else { format!("{status}: {message}") })
    }
}

/// Whether there is something, whatever it holds.
fn is_there<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<serde::de::IgnoredAny>::deserialize(deserializer)?.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(message: Value) -> LiveMessage {
        LiveMessage::read(&message.to_string()).unwrap().unwrap()
    }

    #[test]
    fn what_the_model_says_is_read_whatever_else_a_part_holds() {
        let mut content = read(json!({ "serverContent": { "modelTurn": { "role": "model", "parts": [
            { "text": "thinking", "thought": true },
            { "inlineData": { "mimeType": "audio/pcm;rate=24000", "data": "AAE=" } },
            { "inlineData": { "mimeType": "image/png", "data": "/w==" } },
            { "inlineData": { "mimeType": "audio/pcm", "data": "Ag==" } },
        ] }, "groundingMetadata": {} } }))
        .server_content
        .unwrap();
        assert_eq!(content.sound(), Ok(vec![0, 1, 2]));
        let mut other = read(json!({ "serverContent": { "modelTurn": { "parts": [
            { "inlineData": { "mimeType": "audio/pcm; rate=16000", "data": "AAE=" } },
        ] } } }))
        .server_content
        .unwrap();
        assert_eq!(other.sound(), Err(16_000));
    }

    #[test]
    fn a_message_says_several_things_at_once_and_what_is_null_or_unknown_is_not_there() {
        let message = read(json!({
            "setupComplete": {}, "serverContent": { "turnComplete": true, "interrupted": null, "interactionStatus": "IN_PROGRESS", "turnCompleteReason": "s3cr3t-key" },
            "toolCall": { "functionCalls": [{ "id": "c1", "name": "order", "args": { "item": "pan" } }, { "name": "end_call" }] },
            "toolCallCancellation": { "ids": ["c1"] }, "goAway": { "timeLeft": "9.5s" }, "voiceActivity": {},
            "sessionResumptionUpdate": { "newHandle": "h", "resumable": true }, "error": { "code": 8, "message": "key s3cr3t-key", "status": "X s3cr3t-key" },
        }));
        let content = message.server_content.clone().unwrap();
        assert!(message.setup_complete && content.turn_complete && !content.interrupted && content.goes_on());
        assert_eq!(message.tool_call.function_calls[0].args["item"], "pan");
        assert_eq!(message.tool_call.function_calls[1].id, None);
        assert_eq!(message.tool_call_cancellation.ids, ["c1"]);
        assert_eq!(message.go_away.as_ref().unwrap().time_left_ms(), Some(9_500));
        assert_eq!(message.session_resumption_update.clone().unwrap().handle().as_deref(), Some("h"));
        let message = message.hiding(&"s3cr3t-key".into());
        assert_eq!(message.error.unwrap().words(), "X ***: key ***");
        assert_eq!(message.server_content.unwrap().reason(), Some("***"));
        assert_eq!(LiveMessage::read(r#"{"voiceActivityDetectionSignal":{}}"#), Ok(None));
        assert_eq!(LiveMessage::read("no"), Err(Unreadable::NotJson));
        assert_eq!(LiveMessage::read(r#"{"toolCall":7}"#), Err(Unreadable::NoEvent));
    }

    #[test]
    fn a_session_is_resumable_only_where_the_service_says_so_and_gives_a_handle() {
        for update in [json!({ "newHandle": "h" }), json!({ "resumable": true }), json!({ "newHandle": "", "resumable": true })] {
            assert_eq!(read(json!({ "sessionResumptionUpdate": update })).session_resumption_update.unwrap().handle(), None);
        }
        for (left, ms) in [("0s", Some(0)), ("50s", Some(50_000)), ("soon", None), ("-1s", None)] {
            assert_eq!(read(json!({ "goAway": { "timeLeft": left } })).go_away.unwrap().time_left_ms(), ms);
        }
    }

    #[test]
    fn tokens_are_counted_by_the_kinds_that_are_charged_for_differently() {
        let counted = read(json!({ "usageMetadata": {
            "promptTokenCount": 40, "cachedContentTokenCount": 8, "responseTokenCount": 20, "thoughtsTokenCount": 5, "totalTokenCount": 65,
            "promptTokensDetails": [{ "modality": "AUDIO", "tokenCount": 30 }, { "modality": "TEXT", "tokenCount": 10 }],
            "cacheTokensDetails": [{ "modality": "TEXT", "tokenCount": 6 }],
        } }));
        let expected =
            Usage { input_text: 4, input_audio: 28, cached_text: 6, cached_audio: 2, output_text: 5, output_audio: 20, ..Usage::default() };
        assert_eq!(Usage::from(&counted.usage_metadata), expected);
    }
}
