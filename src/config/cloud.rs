//! `[cloud]`: speech models in a network.

use reqwest::Url;
use serde::Deserialize;

use super::check::Checker;
use super::cloud_language::LanguageService;
use super::cloud_speech::CloudSpeech;
use super::cloud_transcription::TranscriptionService;
use super::endpoint::{Kind, ReachedBy, check_name};
use super::gemini::Gemini;
use super::live::Live;
use super::speech_model::{SpeechModel, speech_model_table};

/// The services that lend the box a voice.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cloud {
    /// `[cloud.realtime]`: a service that speaks the OpenAI Realtime protocol.
    pub realtime: Option<Realtime>,
    /// `[cloud.gemini]`: a service that speaks the Gemini Live protocol.
    pub gemini: Option<Gemini>,
    /// `[cloud.transcription]`: the part of a cascade that writes down what is said.
    pub transcription: Option<TranscriptionService>,
    /// `[cloud.language]`: the part of a cascade that decides what is said.
    pub language: Option<LanguageService>,
    /// `[cloud.live]`: a service that speaks the OpenAI Live protocol.
    pub live: Option<Live>,
    /// `[cloud.speech]`: a service that turns text into speech.
    pub speech: Option<CloudSpeech>,
}

speech_model_table! {
    /// A service that speaks the OpenAI Realtime protocol, in the form that is generally available: OpenAI's, Azure's, or one of your own.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    pub struct Realtime in "cloud.realtime", key_header = "Default::default", renew_after_ms = "renew_after_ms", {
        /// The format of the audio, both ways.
        #[serde(default)]
        pub format: CloudAudio,
        /// Who tells the service where the caller's speech begins and ends. Whether it is answered is the box's decision in any case.
        #[serde(default)]
        pub turn_detection: TurnDetection,
        /// The model that writes down what the caller says, which a new connection is then told; none where that is not wanted.
        #[serde(default)]
        pub transcription_model: Option<String>,
    }
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
        SpeechModel::from(self).check(checker, &KIND);
        if let Some(name) = &self.transcription_model {
            check_name(checker, &self.endpoint().place(), "transcription_model", name);
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
