//! The events that come, read liberally: what is not known is ignored, and what one service leaves out another one need not say.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::cognition::models::json::{self, ServerFault, Unreadable, or_default};
use crate::cognition::models::transport::ServerMessage;
use crate::config::Secret;

/// An event of the service, as far as it is used. What belongs to a response names it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type")]
pub enum ServerEvent {
    /// The connection has a session.
    #[serde(rename = "session.created")]
    SessionCreated,
    /// The session is set.
    #[serde(rename = "session.updated")]
    SessionUpdated,
    /// The conversation has another item.
    #[serde(rename = "conversation.item.added", alias = "conversation.item.created")]
    ItemAdded {
        /// The item.
        #[serde(default)]
        item: ItemFacts,
    },
    /// The service hears speech.
    #[serde(rename = "input_audio_buffer.speech_started")]
    SpeechStarted,
    /// The service hears no more speech.
    #[serde(rename = "input_audio_buffer.speech_stopped")]
    SpeechStopped,
    /// The caller's audio has become an item.
    #[serde(rename = "input_audio_buffer.committed")]
    Committed {
        /// The item, where the service says so here.
        #[serde(default)]
        item_id: Option<String>,
    },
    /// What the caller said is written down.
    #[serde(rename = "conversation.item.input_audio_transcription.completed")]
    Transcribed {
        /// The item.
        #[serde(default, deserialize_with = "or_default")]
        item_id: String,
        /// The words.
        #[serde(default, deserialize_with = "or_default")]
        transcript: String,
        /// What it took, where the service counts tokens for it.
        #[serde(default, deserialize_with = "or_default")]
        usage: Usage,
    },
    /// A response begins.
    #[serde(rename = "response.created")]
    ResponseCreated {
        /// The response.
        response: ResponseFacts,
    },
    /// A response has ended, in whatever way.
    #[serde(rename = "response.done")]
    ResponseDone {
        /// The response.
        response: ResponseFacts,
    },
    /// A response has another item.
    #[serde(rename = "response.output_item.added")]
    OutputItemAdded {
        /// The response.
        response_id: String,
        /// The item.
        item: ItemFacts,
    },
    /// An item of a response is complete.
    #[serde(rename = "response.output_item.done")]
    OutputItemDone {
        /// The response.
        response_id: String,
        /// The item.
        item: ItemFacts,
    },
    /// A part of an item is complete.
    #[serde(rename = "response.content_part.done")]
    PartDone {
        /// The response.
        response_id: String,
        /// The item.
        item_id: String,
        /// The part.
        #[serde(default, deserialize_with = "or_default")]
        part: PartFacts,
    },
    /// Speech, in the session's format.
    #[serde(rename = "response.output_audio.delta")]
    AudioDelta {
        /// The response.
        response_id: String,
        /// The item.
        item_id: String,
        /// The item's part.
        #[serde(default, deserialize_with = "or_default")]
        content_index: u32,
        /// The bytes.
        #[serde(deserialize_with = "json::audio::deserialize")]
        delta: Vec<u8>,
    },
    /// More of the words that are spoken.
    #[serde(rename = "response.output_audio_transcript.delta")]
    TranscriptDelta {
        /// The response.
        response_id: String,
        /// The item.
        item_id: String,
        /// The words, which may end inside of one.
        #[serde(default, deserialize_with = "or_default")]
        delta: String,
    },
    /// All the words of a part.
    #[serde(rename = "response.output_audio_transcript.done")]
    TranscriptDone {
        /// The response.
        response_id: String,
        /// The item.
        item_id: String,
        /// The words.
        #[serde(default, deserialize_with = "or_default")]
        transcript: String,
    },
    /// A function call is complete.
    #[serde(rename = "response.function_call_arguments.done")]
    ArgumentsDone {
        /// The response.
        response_id: String,
        /// The call.
        #[serde(flatten)]
        call: CallFacts,
    },
    /// How much more the service takes.
    #[serde(rename = "rate_limits.updated")]
    RateLimits {
        /// By kind.
        #[serde(default, deserialize_with = "or_default")]
        rate_limits: Vec<RateLimit>,
    },
    /// Something went wrong; the session stays.
    #[serde(rename = "error")]
    Error {
        /// What.
        #[serde(default, deserialize_with = "or_default")]
        error: ServerFault,
    },
    /// An event that says nothing that is used here.
    #[serde(other)]
    Ignored,
}

/// What is said of an item.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct ItemFacts {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    /// What it is: `message`, `function_call`, ...
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
    /// How it stands: `in_progress`, `completed` or `incomplete`.
    pub status: Option<String>,
    /// Whose it is.
    pub role: Option<String>,
    /// The call, where it is one.
    pub call_id: Option<String>,
    /// The function that is called.
    pub name: Option<String>,
    /// Its arguments, as JSON.
    pub arguments: Option<String>,
    /// Its parts.
    #[serde(deserialize_with = "or_default")]
    pub content: Vec<PartFacts>,
}

/// What is said of a part of an item: `audio` or `output_audio`, `text` or `output_text`, `input_audio`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct PartFacts {
    /// What it is.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
    /// The words that are spoken in it.
    pub transcript: Option<String>,
}

/// What is said of a function call that is complete.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct CallFacts {
    /// The item.
    #[serde(deserialize_with = "or_default")]
    pub item_id: String,
    /// The call.
    pub call_id: Option<String>,
    /// The function; several services leave it out, and have said it when the item was added.
    pub name: Option<String>,
    /// Its arguments, as JSON.
    #[serde(deserialize_with = "or_default")]
    pub arguments: String,
}

/// What is said of a response.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct ResponseFacts {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    /// How it stands: `in_progress`, `completed`, `cancelled`, `failed` or `incomplete`.
    pub status: Option<String>,
    /// Why.
    #[serde(deserialize_with = "or_default")]
    pub status_details: StatusDetails,
    /// The conversation that it belongs to, if any.
    pub conversation_id: Option<String>,
    /// What was given with the request.
    #[serde(deserialize_with = "or_default")]
    pub metadata: BTreeMap<String, String>,
    /// What it took.
    pub usage: Option<Usage>,
}

/// Why a response stands as it does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct StatusDetails {
    /// `turn_detected`, `client_cancelled`, `max_output_tokens` or `content_filter`.
    pub reason: Option<String>,
    /// What went wrong.
    pub error: Option<ServerFault>,
}

/// Tokens of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// What went in, all kinds together.
    #[serde(deserialize_with = "or_default")]
    pub input_tokens: u64,
    /// What came out, all kinds together.
    #[serde(deserialize_with = "or_default")]
    pub output_tokens: u64,
    /// What went in, by kind.
    #[serde(deserialize_with = "or_default")]
    pub input_token_details: InputTokens,
    /// What came out, by kind.
    #[serde(deserialize_with = "or_default")]
    pub output_token_details: OutputTokens,
    /// How much audio there was, where the service charges by its length (s, read to the millisecond).
    #[serde(rename = "seconds", deserialize_with = "ms_of_seconds")]
    pub audio_ms: u64,
}

/// Tokens that went in, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct InputTokens {
    /// Text.
    #[serde(deserialize_with = "or_default")]
    pub text_tokens: u64,
    /// Audio.
    #[serde(deserialize_with = "or_default")]
    pub audio_tokens: u64,
    /// Of both: what the service knew already, and charges less for.
    #[serde(deserialize_with = "or_default")]
    pub cached_tokens: u64,
    /// These, by kind.
    #[serde(deserialize_with = "or_default")]
    pub cached_tokens_details: CachedTokens,
}

/// Tokens that the service knew already, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct CachedTokens {
    /// Text.
    #[serde(deserialize_with = "or_default")]
    pub text_tokens: u64,
    /// Audio.
    #[serde(deserialize_with = "or_default")]
    pub audio_tokens: u64,
}

/// Tokens that came out, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct OutputTokens {
    /// Text.
    #[serde(deserialize_with = "or_default")]
    pub text_tokens: u64,
    /// Audio.
    #[serde(deserialize_with = "or_default")]
    pub audio_tokens: u64,
}

/// How much more of one kind the service takes.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct RateLimit {
    /// Of what: `requests`, `tokens`.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// How much in all.
    pub limit: Option<u64>,
    /// How much more.
    pub remaining: Option<u64>,
    /// When it is all there again (s).
    pub reset_seconds: Option<f64>,
}

impl ServerEvent {
    /// Reads an event.
    pub fn read(text: &str) -> Result<Self, Unreadable> {
        json::read(text)
    }
}

impl ServerMessage for ServerEvent {
    type Unreadable = Unreadable;

    fn read(text: &str) -> Result<Option<Self>, Unreadable> {
        Self::read(text).map(|event| (event != Self::Ignored).then_some(event))
    }

    fn hiding(mut self, secret: &Secret) -> Self {
        let hide = |name: &mut String| *name = secret.hidden_in_name(name);
        match &mut self {
            Self::Error { error } => error.hide(secret),
            Self::ResponseDone { response } => {
                let StatusDetails { reason, error } = &mut response.status_details;
                response.status.iter_mut().chain(reason).for_each(hide);
                error.iter_mut().for_each(|error| error.hide(secret));
            }
            // A function that there is none of is named in what is said of the call.
            Self::OutputItemAdded { item, .. } | Self::OutputItemDone { item, .. } => item.name.iter_mut().for_each(hide),
            Self::ArgumentsDone { call, .. } => call.name.iter_mut().for_each(hide),
            _ => {}
        }
        self
    }
}

/// Seconds as milliseconds.
fn ms_of_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    // What is no length of time is none: a number that is too large or negative is brought to the nearest that is.
    Ok((Option::<f64>::deserialize(deserializer)?.unwrap_or_default() * 1_000.0).round() as u64)
}

impl Usage {
    /// Counts that of another response.
    pub fn add(&mut self, other: Self) {
        let add = |count: &mut u64, more: u64| *count = count.saturating_add(more);
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        add(&mut self.input_token_details.text_tokens, other.input_token_details.text_tokens);
        add(&mut self.input_token_details.audio_tokens, other.input_token_details.audio_tokens);
        add(&mut self.input_token_details.cached_tokens, other.input_token_details.cached_tokens);
        let (cached, more) = (&mut self.input_token_details.cached_tokens_details, other.input_token_details.cached_tokens_details);
        add(&mut cached.text_tokens, more.text_tokens);
        add(&mut cached.audio_tokens, more.audio_tokens);
        add(&mut self.audio_ms, other.audio_ms);
        add(&mut self.output_token_details.text_tokens, other.output_token_details.text_tokens);
        add(&mut self.output_token_details.audio_tokens, other.output_token_details.audio_tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ServerEvent {
        ServerEvent::read(text).unwrap()
    }

    #[test]
    fn an_event_that_is_not_known_is_ignored_and_what_is_no_event_is_not_taken() {
        assert_eq!(read(r#"{"type":"response.visemes.delta","event_id":"e","response_id":"r"}"#), ServerEvent::Ignored);
        assert_eq!(read(r#"{"type":"output_audio_buffer.started"}"#), ServerEvent::Ignored);
        for text in ["", "\u{0}", "{\"type\":"] {
            assert_eq!(ServerEvent::read(text), Err(Unreadable::NotJson), "{text}");
        }
        for text in ["[]", "{}", "null", r#"{"type":7}"#, r#"{"type":"response.output_audio.delta","delta":"////"}"#] {
            assert_eq!(ServerEvent::read(text), Err(Unreadable::NoEvent), "{text}");
        }
    }

    #[test]
    fn a_service_that_repeats_a_secret_in_a_complaint_is_quoted_without_it() {
        let complaint =
            r#"{"type":"s3cr3t-key","code":"a s3cr%33t-key","message":"Incorrect API key provided: s3cr3t-key.","param":"s3cr3t-key"}"#;
        for text in [
            format!(r#"{{"type":"error","error":{complaint}}}"#),
            format!(r#"{{"type":"response.done","response":{{"id":"r","status":"failed","status_details":{{"error":{complaint}}}}}}}"#),
            r#"{"type":"response.done","response":{"id":"r","status":"s3cr3t-key","status_details":{"reason":"API key provided: s3cr3t-key."}}}"#.to_owned(),
        ] {
            let said = format!("{:?}", read(&text).hiding(&"s3cr3t-key".into()));
            assert!(said.contains("API key provided: ***.") && !said.contains("s3cr"), "{said}");
        }
    }

    #[test]
    fn the_older_name_of_an_added_item_is_read_too() {
        let item = r#""item":{"id":"i","type":"message","role":"user","status":"completed","content":[{"type":"input_audio","transcript":null}]}}"#;
        let added = read(&format!(r#"{{"type":"conversation.item.added","previous_item_id":null,{item}"#));
        assert_eq!(added, read(&format!(r#"{{"type":"conversation.item.created",{item}"#)));
        let ServerEvent::ItemAdded { item } = added else { panic!("{added:?}") };
        assert_eq!((item.id.as_str(), item.role.as_deref(), item.content[0].kind.as_str()), ("i", Some("user"), "input_audio"));
    }

    #[test]
    fn names_that_a_service_leaves_out_and_nulls_are_taken_as_not_said() {
        let call =
            read(r#"{"type":"response.function_call_arguments.done","response_id":"r","item_id":"i","call_id":"c","arguments":"{}"}"#);
        let expected = CallFacts { item_id: "i".into(), call_id: Some("c".into()), name: None, arguments: "{}".into() };
        assert_eq!(call, ServerEvent::ArgumentsDone { response_id: "r".into(), call: expected });
        assert_eq!(read(r#"{"type":"input_audio_buffer.committed"}"#), ServerEvent::Committed { item_id: None });
        let done = read(
            r#"{"type":"response.done","response":{"id":"r","status":"completed","status_details":null,"metadata":null,"usage":null,"conversation_id":null}}"#,
        );
        let expected = ResponseFacts { id: "r".into(), status: Some("completed".into()), ..ResponseFacts::default() };
        assert_eq!(done, ServerEvent::ResponseDone { response: expected });
        assert_eq!(read(r#"{"type":"error","error":null}"#), ServerEvent::Error { error: ServerFault::default() });
    }

    #[test]
    fn audio_is_decoded_and_audio_that_is_none_is_no_event() {
        let delta = |audio: &str| {
            ServerEvent::read(&format!(
                r#"{{"type":"response.output_audio.delta","response_id":"r","item_id":"i","output_index":0,"content_index":0,"delta":"{audio}"}}"#
            ))
        };
        let expected =
            ServerEvent::AudioDelta { response_id: "r".into(), item_id: "i".into(), content_index: 0, delta: vec![0xff, 0x7f, 0] };
        assert_eq!(delta("/38A").unwrap(), expected);
        assert_eq!(delta(r"\/38A").unwrap(), expected, "a slash may be escaped");
        assert!(delta("not base64!").is_err());
    }

    #[test]
    fn what_failed_is_said_with_its_code() {
        let done = read(
            r#"{"type":"response.done","response":{"id":"r","status":"failed","status_details":{"type":"failed","error":{"type":"server_error","code":"rate_limit_exceeded","message":"Wait."}}}}"#,
        );
        let ServerEvent::ResponseDone { response } = done else { panic!("{done:?}") };
        assert_eq!(response.status_details.error.unwrap().words(), "rate_limit_exceeded: Wait.");
        let fault = ServerFault { kind: "invalid_request_error".into(), ..ServerFault::default() };
        assert_eq!(fault.words(), "invalid_request_error");
        let long = ServerFault { message: "line\n".repeat(10_000), ..ServerFault::default() };
        assert!(long.words().starts_with("line line") && long.words().len() < 1_000);
    }

    #[test]
    fn tokens_are_read_by_kind() {
        let done = read(
            r#"{"type":"response.done","response":{"id":"r","status":"completed","usage":{"total_tokens":10,"input_tokens":4,"output_tokens":6,"input_token_details":{"text_tokens":2,"audio_tokens":2,"cached_tokens":1,"cached_tokens_details":null},"output_token_details":{"text_tokens":1,"audio_tokens":5}}}}"#,
        );
        let ServerEvent::ResponseDone { response } = done else { panic!("{done:?}") };
        let expected = Usage {
            input_tokens: 4,
            output_tokens: 6,
            input_token_details: InputTokens { text_tokens: 2, audio_tokens: 2, cached_tokens: 1, ..InputTokens::default() },
            output_token_details: OutputTokens { text_tokens: 1, audio_tokens: 5 },
            audio_ms: 0,
        };
        assert_eq!(response.usage, Some(expected));
        let transcribed = read(
            r#"{"type":"conversation.item.input_audio_transcription.completed","item_id":"i","transcript":"a","usage":{"type":"duration","seconds":2.5}}"#,
        );
        let ServerEvent::Transcribed { usage, .. } = transcribed else { panic!("{transcribed:?}") };
        assert_eq!(usage, Usage { audio_ms: 2_500, ..Usage::default() });
    }
}
