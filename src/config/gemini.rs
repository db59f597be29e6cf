//! `[cloud.gemini]`.

use reqwest::Url;
use serde::Deserialize;

use super::check::Checker;
use super::endpoint::{KeyHeader, Kind, ReachedBy};
use super::speech_model::{SpeechModel, speech_model_table};

speech_model_table! {
    /// A service that speaks the Gemini Live protocol: Google's, or one of your own. Its model speaks the language that it is spoken to in.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    pub struct Gemini in "cloud.gemini", key_header = "key_header", renew_after_ms = "renew_after_ms", {
        /// Whether the model goes on while a call of it is under way.
        #[serde(default)]
        pub calls: GeminiCalls,
        /// How the model is told what nobody said.
        #[serde(default)]
        pub text: GeminiText,
        /// Whether a session is gone on with on another connection, where the service can do that.
        #[serde(default = "resumption")]
        pub resumption: bool,
    }
}

/// Whether the model goes on while a call of it is under way. It is never left waiting for a result in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GeminiCalls {
    /// It goes on: `NON_BLOCKING`.
    #[default]
    NonBlocking,
    /// It waits until it knows that the call is taken: `BLOCKING`, for models that can't do otherwise.
    Blocking,
}

/// How the model is told what nobody said: that it is to greet, which keys were pressed, what the box has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GeminiText {
    /// As content of the conversation: `clientContent`.
    #[default]
    Content,
    /// As text in what the caller says: `realtimeInput.text`, for models that take content only before a conversation.
    Realtime,
}

impl Gemini {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        SpeechModel::from(self).check(checker, &KIND);
    }

    /// Where it is reached; none where the URL is none.
    pub fn address(&self) -> Option<Url> {
        Url::parse(&self.url).ok()
    }

    /// The model by its whole name, as the service takes it.
    pub fn whole_model(&self) -> String {
        if self.model.contains('/') { self.model.clone() } else { format!("models/{}", self.model) }
    }
}

/// The documented way is a query, and queries are logged by whoever passes them on.
fn key_header() -> KeyHeader {
    KeyHeader::XGoogApiKey
}

fn resumption() -> bool {
    true
}

/// Google ends a connection after some ten minutes, and says so before.
fn renew_after_ms() -> u64 {
    9 * 60_000
}

/// A service that leads calls.
const KIND: Kind = Kind {
    reached_by: ReachedBy::WebSocket,
    url: "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent",
    key_file: "gemini-key",
    key_header: "x-goog-api-key",
    carries: "what callers say",
};
