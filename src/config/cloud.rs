//! `[cloud]`: speech models in a network.

use std::collections::BTreeMap;
use std::path::PathBuf;

use recado_core::policy::Language;
use reqwest::Url;
use serde::Deserialize;

use super::check::Checker;
use super::cloud_speech::CloudSpeech;
use super::endpoint::{Endpoint, KeyHeader, Kind, ReachedBy, check_name};
use super::gemini::Gemini;
use super::tree::Path;
use super::{Live, Prices};

/// The services that lend the box a voice.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cloud {
    /// `[cloud.realtime]`: a service that speaks the OpenAI Realtime protocol.
    pub realtime: Option<Realtime>,
    /// `[cloud.gemini]`: a service that speaks the Gemini Live protocol.
    pub gemini: Option<Gemini>,
    /// `[cloud.live]`: a service that speaks the OpenAI Live protocol.
    pub live: Option<Live>,
    /// `[cloud.speech]`: a service that turns text into speech.
    pub speech: Option<CloudSpeech>,
}

/// A service that speaks the OpenAI Realtime protocol, in the form that is generally available: OpenAI's, Azure's, or one of your own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Realtime {
    /// Where it is reached: `wss://` or `ws://`.
    pub url: String,
    /// The model, by the service's name for it; Azure's deployment.
    pub model: String,
    /// The voice, by the service's name for it; the service's default where none is given.
    #[serde(default)]
    pub voice: Option<String>,
    /// A file that holds the key; never logged. None where the service asks for none.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// How the key is sent.
    #[serde(default)]
    pub key_header: KeyHeader,
    /// Further headers of the connection.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A file with further certificate authorities (PEM) to trust for this URL.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The format of the audio, both ways.
    #[serde(default)]
    pub format: CloudAudio,
    /// The language that is spoken; the box's own where none is given.
    #[serde(default)]
    pub language: Option<Language>,
    /// Who tells the service where the caller's speech begins and ends. Whether it is answered is the box's decision in any case.
    #[serde(default)]
    pub turn_detection: TurnDetection,
    /// The model that writes down what the caller says, which a new connection is then told; none where that is not wanted.
    #[serde(default)]
    pub transcription_model: Option<String>,
    /// How long a connection may take until it stands, TLS included (ms).
    #[serde(default = "connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// How long the service may take to answer what it is asked (ms).
    #[serde(default = "answer_timeout_ms")]
    pub answer_timeout_ms: u64,
    /// After how long a connection is replaced by a new one, between two turns, before the service ends it (ms).
    #[serde(default = "renew_after_ms")]
    pub renew_after_ms: u64,
    /// What it charges; costs are not counted where it is not known.
    #[serde(default)]
    pub prices: Option<Prices>,
}

/// A format of audio that the protocol knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CloudAudio {
    /// G.711 μ-law at 8 kHz: the telephone's own.
    #[default]
    Pcmu,
    /// G.711 A-law at 8 kHz: the telephone's own.
    Pcma,
    /// 16-bit little-endian samples at 24 kHz.
    Pcm,
}

/// Who tells the service where the caller's speech begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnDetection {
    /// The box: it sends the caller's speech alone, and says when it is over.
    #[default]
    None,
    /// The service, by silence: it is sent all that is heard.
    ServerVad,
    /// The service, by what is said: it is sent all that is heard.
    SemanticVad,
}

impl Realtime {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let place = Path::of("cloud.realtime");
        let endpoint = Endpoint {
            url: &self.url,
            model: &self.model,
            key_file: self.key_file.as_ref(),
            headers: &self.headers,
            ca_file: self.ca_file.as_ref(),
        };
        endpoint.check(checker, &place, &KIND);
        for (key, name) in [("voice", &self.voice), ("transcription_model", &self.transcription_model)] {
            if let Some(name) = name {
                check_name(checker, &place, key, name);
            }
        }
        checker.within(&place.join("connect_timeout_ms"), self.connect_timeout_ms, TIMEOUT_MS_LEAST..=TIMEOUT_MS_MOST);
        checker.within(&place.join("answer_timeout_ms"), self.answer_timeout_ms, TIMEOUT_MS_LEAST..=TIMEOUT_MS_MOST);
        checker.within(&place.join("renew_after_ms"), self.renew_after_ms, RENEW_AFTER_MS_LEAST..=RENEW_AFTER_MS_MOST);
        if let Some(prices) = &self.prices {
            prices.check(checker, &place.join("prices"));
        }
    }

    /// Where it is reached, with the model that is asked for; none where the URL is none.
    pub fn address(&self) -> Option<Url> {
        let mut url = Url::parse(&self.url).ok()?;
        if !url.query_pairs().any(|(name, _)| name == "model") {
            url.query_pairs_mut().append_pair("model", &self.model);
        }
        Some(url)
    }
}

pub(super) fn connect_timeout_ms() -> u64 {
    10_000
}

pub(super) fn answer_timeout_ms() -> u64 {
    10_000
}

/// Five minutes before OpenAI's own limit.
pub(super) fn renew_after_ms() -> u64 {
    55 * 60_000
}

/// A service that leads calls.
const KIND: Kind = Kind {
    reached_by: ReachedBy::WebSocket,
    url: "wss://api.openai.com/v1/realtime",
    key_file: "realtime-key",
    key_header: "api-key",
    carries: "what callers say",
};
/// Below, no connection over a mobile network comes to be.
pub(super) const TIMEOUT_MS_LEAST: u64 = 500;
/// No caller waits for a minute.
pub(super) const TIMEOUT_MS_MOST: u64 = 60_000;
/// More often, connecting would be all that is done.
pub(super) const RENEW_AFTER_MS_LEAST: u64 = 60_000;
/// No service keeps one for longer.
pub(super) const RENEW_AFTER_MS_MOST: u64 = 24 * 3_600_000;
