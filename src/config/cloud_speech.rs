//! `[cloud.speech]`: a speech service in a network.

use recado_core::policy::Language;
use reqwest::Url;
use serde::Deserialize;

use super::check::Checker;
use super::endpoint::{Kind, ReachedBy, check_name, service_table};
use super::speech::Voices;

service_table! {
    /// A service that speaks as OpenAI's `/audio/speech` does: OpenAI's, Azure's, or one of your own.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    pub struct CloudSpeech in "cloud.speech", key_header = "Default::default", {
        /// The voice of each language, by the service's name for it.
        #[serde(default)]
        pub voices: Voices,
        /// What it is asked to send.
        #[serde(default)]
        pub response_format: ResponseFormat,
        /// How fast it speaks; the service's own pace where none is given.
        #[serde(default)]
        pub speed: Option<f64>,
        /// How it is to speak, for models that take that.
        #[serde(default)]
        pub instructions: Option<String>,
        /// How long nothing may come of a clause that is asked for, or no more of it, the connection included; and how long it may wait for that (ms).
        #[serde(default = "first_audio_timeout_ms")]
        pub first_audio_timeout_ms: u64,
        /// How long a whole clause may take (ms).
        #[serde(default = "timeout_ms")]
        pub timeout_ms: u64,
    }
}

/// What a speech service is asked to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResponseFormat {
    /// 16-bit little-endian samples at 24 kHz, without a header.
    #[default]
    Pcm,
    /// A WAV file, which says its rate.
    Wav,
}

impl CloudSpeech {
    pub(super) fn check(&self, checker: &mut Checker<'_>, language: Language) {
        self.endpoint().check(checker, &KIND);
        let place = self.endpoint().place();
        let voices = place.join("voices");
        for (code, spoken, voice) in [("es", Language::Es, &self.voices.es), ("en", Language::En, &self.voices.en)] {
            match voice {
                Some(voice) => check_name(checker, &voices, code, voice),
                None if spoken == language => {
                    let what = format!("there is no voice for the box's language, {code:?}");
                    checker.error(&voices, what, format!("voices.{code} = \"coral\", by the service's own name"));
                }
                None => {}
            }
        }
        if self.speed.is_some_and(|speed| !(SPEED_LEAST..=SPEED_MOST).contains(&speed)) {
            checker.error(&place.join("speed"), format!("a speed is {SPEED_LEAST} to {SPEED_MOST}"), "speed = 1.0");
        }
        if self.instructions.as_ref().is_some_and(|text| text.len() > INSTRUCTIONS_BYTES_MAX) {
            let what = format!("it is longer than {INSTRUCTIONS_BYTES_MAX} bytes");
            checker.error(&place.join("instructions"), what, "a shorter text: it is sent, and charged for, with every clause");
        }
        checker.within_and_fit(
            &place.join("first_audio_timeout_ms"),
            self.first_audio_timeout_ms,
            FIRST_AUDIO_TIMEOUT_MS_LEAST..=FIRST_AUDIO_TIMEOUT_MS_MOST,
            self.timeout_ms,
        );
        checker.within(&place.join("timeout_ms"), self.timeout_ms, FIRST_AUDIO_TIMEOUT_MS_LEAST..=TIMEOUT_MS_MOST);
        if self.first_audio_timeout_ms > self.timeout_ms && self.first_audio_timeout_ms <= FIRST_AUDIO_TIMEOUT_MS_MOST {
            let what = format!("the whole clause may take no longer than timeout_ms = {}", self.timeout_ms);
            let fits = self.timeout_ms.clamp(FIRST_AUDIO_TIMEOUT_MS_LEAST, FIRST_AUDIO_TIMEOUT_MS_MOST);
            checker.error(&place.join("first_audio_timeout_ms"), what, format!("first_audio_timeout_ms = {fits}"));
        }
    }

    /// Where a clause is asked for; none where the URL is none.
    pub fn address(&self) -> Option<Url> {
        self.endpoint().address(NAME)
    }
}

fn first_audio_timeout_ms() -> u64 {
    2_000
}

fn timeout_ms() -> u64 {
    5_000
}

/// A speech service.
const KIND: Kind = Kind {
    reached_by: ReachedBy::Http,
    url: "https://api.openai.com/v1",
    key_file: "speech-key",
    key_header: "api-key",
    carries: "what callers are told",
};
/// What services of this kind are asked at.
const NAME: &str = "audio/speech";
/// OpenAI's limits.
const SPEED_LEAST: f64 = 0.25;
const SPEED_MOST: f64 = 4.0;
/// As much as a clause: more would be charged for than is said.
const INSTRUCTIONS_BYTES_MAX: usize = 4 * 1024;
/// Below, no connection over a mobile network comes to be.
const FIRST_AUDIO_TIMEOUT_MS_LEAST: u64 = 250;
/// A caller who hears nothing for longer has been forgotten.
const FIRST_AUDIO_TIMEOUT_MS_MOST: u64 = 10_000;
const TIMEOUT_MS_MOST: u64 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_is_asked_for_below_the_base_and_a_query_stays() {
        let service: CloudSpeech = toml::from_str("url = 'https://a.example/v1'\nmodel = 'm'").unwrap();
        let at = |url: &str| CloudSpeech { url: url.into(), ..service.clone() }.address().map(String::from);
        assert_eq!(at("https://a.example/v1").as_deref(), Some("https://a.example/v1/audio/speech"));
        assert_eq!(at("http://127.0.0.1:8000").as_deref(), Some("http://127.0.0.1:8000/audio/speech"));
        assert_eq!(at("https://a.example/v1/?api-version=2").as_deref(), Some("https://a.example/v1/audio/speech?api-version=2"));
        assert_eq!(at("https://a.example/v1/audio/speech").as_deref(), Some("https://a.example/v1/audio/speech"));
        assert_eq!(at("wss://a.example/v1"), None);
    }
}
