//! The events that come, read liberally: what is not known is ignored, and what a service leaves out it need not say.

use serde::Deserialize;

use crate::cognition::models::json::{self, ServerFault, Unreadable, or_default};
use crate::cognition::models::transport::ServerMessage;
use crate::config::Secret;

/// An event of the service, as far as it is used. Places on the session's timeline are in milliseconds from its beginning.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type")]
pub enum ServerEvent {
    /// The session has started.
    #[serde(rename = "session.started")]
    Started {
        /// The session.
        #[serde(default, deserialize_with = "or_default")]
        session: SessionFacts,
    },
    /// The session is over.
    #[serde(rename = "session.closed")]
    Closed {
        /// Why: `expired`, `content`, `remote_hangup`, `connection_lost` or `close_requested`.
        #[serde(default, deserialize_with = "or_default")]
        reason: String,
        /// What it took.
        #[serde(default, deserialize_with = "or_default")]
        usage: Usage,
    },
    /// Speech, in the session's format; silence too, where the service sends it.
    #[serde(rename = "session.output_audio.delta")]
    Audio {
        /// The bytes.
        #[serde(deserialize_with = "json::audio::deserialize")]
        delta: Vec<u8>,
    },
    /// More of the words that are spoken.
    #[serde(rename = "session.output_transcript.delta")]
    OutputTranscript {
        /// The words, which may end inside of one.
        #[serde(default, deserialize_with = "or_default")]
        delta: String,
        /// Where they begin.
        #[serde(default, deserialize_with = "or_default")]
        start_ms: u64,
    },
    /// More of what the caller says.
    #[serde(rename = "session.input_transcript.delta")]
    InputTranscript {
        /// The words, which may end inside of one.
        #[serde(default, deserialize_with = "or_default")]
        delta: String,
        /// Where they begin.
        #[serde(default, deserialize_with = "or_default")]
        start_ms: u64,
    },
    /// The model delegates a task, and does not say which.
    #[serde(rename = "session.delegation.created")]
    DelegationCreated {
        /// The task.
        delegation: DelegationFacts,
        /// When it did.
        #[serde(default, deserialize_with = "or_default")]
        offset_ms: u64,
    },
    /// Something that the model was told has its place.
    #[serde(rename = "session.thinking.appended", alias = "session.commentary.appended")]
    Appended {
        /// Which.
        #[serde(default)]
        client_event_id: Option<String>,
    },
    /// What the session has taken so far.
    #[serde(rename = "session.usage.updated")]
    Usage {
        /// What.
        #[serde(default, deserialize_with = "or_default")]
        usage: Usage,
        /// How full the model's memory is, where that is known.
        #[serde(default)]
        context_window: Option<ContextWindow>,
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

/// What is said of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct SessionFacts {
    /// When it ends (Unix time, s).
    pub expires_at: Option<u64>,
}

/// What is said of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct DelegationFacts {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    /// Who is to do it: `client`, where nothing else is said.
    pub target: Option<String>,
}

/// What a session has taken, all in all.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Seconds that are charged for.
    #[serde(deserialize_with = "or_default")]
    pub seconds: f64,
}

/// How full the model's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct ContextWindow {
    /// From 0 to 1.
    #[serde(deserialize_with = "or_default")]
    pub usage_ratio: f64,
}

impl ServerMessage for ServerEvent {
    type Unreadable = Unreadable;

    fn read(text: &str) -> Result<Option<Self>, Unreadable> {
        json::read(text).map(|event: Self| (event != Self::Ignored).then_some(event))
    }

    fn hiding(mut self, secret: &Secret) -> Self {
        match &mut self {
            Self::Error { error } => error.hide(secret),
            Self::Closed { reason, .. } => *reason = secret.hidden_in(reason),
            _ => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<ServerEvent> {
        ServerEvent::read(text).unwrap()
    }

    #[test]
    fn what_is_not_known_is_ignored_and_what_is_left_out_is_not_said() {
        assert_eq!(read(r#"{"type":"session.input_audio.muted","event_id":"e"}"#), None);
        assert_eq!(read(r#"{"type":"info","code":"c","message":"m","event_id":"e"}"#), None);
        assert_eq!(read(r#"{"type":"session.started"}"#), Some(ServerEvent::Started { session: SessionFacts::default() }));
        assert_eq!(
            read(r#"{"type":"session.closed","reason":null,"usage":null}"#),
            Some(ServerEvent::Closed { reason: String::new(), usage: Usage::default() })
        );
        for text in ["{}", "[]", r#"{"type":"session.delegation.created"}"#, r#"{"type":"session.output_audio.delta","delta":"!"}"#] {
            assert_eq!(ServerEvent::read(text), Err(Unreadable::NoEvent), "{text}");
        }
    }

    #[test]
    fn an_error_names_the_event_that_it_is_about_and_repeats_no_secret() {
        let event = read(
            r#"{"type":"error","event_id":"e","error":{"type":"invalid_request_error","code":"bad s3cr3t-key","message":"key s3cr3t-key","client_event_id":"recado_7"}}"#,
        );
        let Some(ServerEvent::Error { error }) = event.map(|event| event.hiding(&"s3cr3t-key".into())) else { panic!("it is an error") };
        assert_eq!((error.event_id.as_deref(), error.words().as_str()), (Some("recado_7"), "bad ***: key ***"));
        let closed = read(r#"{"type":"session.closed","reason":"no s3cr3t-key"}"#).map(|event| event.hiding(&"s3cr3t-key".into()));
        assert_eq!(closed, Some(ServerEvent::Closed { reason: "no ***".into(), usage: Usage::default() }));
    }

    #[test]
    fn usage_is_read_with_and_without_what_is_known_of_the_models_memory() {
        let usage = |more: &str| read(&format!(r#"{{"type":"session.usage.updated","event_id":"e","usage":{{"seconds":12.0}}{more}}}"#));
        let expected = |context_window| Some(ServerEvent::Usage { usage: Usage { seconds: 12.0 }, context_window });
        assert_eq!(usage(""), expected(None));
        assert_eq!(usage(r#","context_window":{"usage_ratio":0.25}"#), expected(Some(ContextWindow { usage_ratio: 0.25 })));
    }
}
