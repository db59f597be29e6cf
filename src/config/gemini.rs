//! `[cloud.gemini]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use recado_core::policy::Language;
use reqwest::Url;
use serde::Deserialize;

use super::Prices;
use super::check::Checker;
use super::endpoint::{Endpoint, KeyHeader, Kind, ReachedBy, check_name};
use super::tree::Path;

/// A service that speaks the Gemini Live protocol: Google's, or one of your own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gemini {
    /// Where it is reached: `wss://` or `ws://`.
    pub url: String,
    /// The model, by the service's name for it.
    pub model: String,
    /// The voice, by the service's name for it; the service's default where none is given.
    #[serde(default)]
    pub voice: Option<String>,
    /// A file that holds the key; never logged. None where the service asks for none.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// How the key is sent.
    #[serde(default = "key_header")]
    pub key_header: KeyHeader,
    /// Further headers of the connection.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A file with further certificate authorities (PEM) to trust for this URL.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The language that the model is instructed in, where `model.instructions` says nothing; the box's own where none is given. The
    /// model speaks the language that it is spoken to in.
    #[serde(default)]
    pub language: Option<Language>,
    /// Whether the model goes on while a call of it is under way.
    #[serde(default)]
    pub calls: GeminiCalls,
    /// How the model is told what nobody said.
    #[serde(default)]
    pub text: GeminiText,
    /// Whether a session is gone on with on another connection, where the service can do that.
    #[serde(default = "resumption")]
    pub resumption: bool,
    /// How long a connection may take until it stands, TLS included (ms).
    #[serde(default = "timeout_ms")]
    pub connect_timeout_ms: u64,
    /// How long the service may take to answer what it is asked (ms).
    #[serde(default = "timeout_ms")]
    pub answer_timeout_ms: u64,
    /// After how long a connection is replaced by a new one, between two turns, before the service ends it (ms).
    #[serde(default = "renew_after_ms")]
    pub renew_after_ms: u64,
    /// What it charges; costs are not counted where it is not known.
    #[serde(default)]
    pub prices: Option<Prices>,
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
        let place = Path::of("cloud.gemini");
        let endpoint = Endpoint {
            url: &self.url,
            model: &self.model,
            key_file: self.key_file.as_ref(),
            headers: &self.headers,
            ca_file: self.ca_file.as_ref(),
        };
        endpoint.check(checker, &place, &KIND);
        if let Some(voice) = &self.voice {
            check_name(checker, &place, "voice", voice);
        }
        checker.within(&place.join("connect_timeout_ms"), self.connect_timeout_ms, TIMEOUT_MS_LEAST..=TIMEOUT_MS_MOST);
        checker.within(&place.join("answer_timeout_ms"), self.answer_timeout_ms, TIMEOUT_MS_LEAST..=TIMEOUT_MS_MOST);
        checker.within(&place.join("renew_after_ms"), self.renew_after_ms, RENEW_AFTER_MS_LEAST..=RENEW_AFTER_MS_MOST);
        if let Some(prices) = &self.prices {
            prices.check(checker, &place.join("prices"));
        }
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

fn timeout_ms() -> u64 {
    10_000
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
/// Below, no connection over a mobile network comes to be.
const TIMEOUT_MS_LEAST: u64 = 500;
/// No caller waits for a minute.
const TIMEOUT_MS_MOST: u64 = 60_000;
/// More often, connecting would be all that is done.
const RENEW_AFTER_MS_LEAST: u64 = 60_000;
/// No service keeps one for longer.
const RENEW_AFTER_MS_MOST: u64 = 24 * 3_600_000;
