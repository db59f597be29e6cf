//! `[cloud.language]`: what decides what is said, where a cascade leads calls.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::Prices;
use super::check::Checker;
use super::endpoint::KeyHeader;
use super::http_part::{self, HttpPart};
use super::tree::Path;

/// A service with the OpenAI interface for language models (`POST …/chat/completions` or `POST …/responses`): OpenAI's, another one's, or one
/// of your own.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageService {
    /// What its addresses begin with: `https://` or `http://`, up to `/v1`.
    pub url: String,
    /// The model, by the service's name for it.
    pub model: String,
    /// Which of its interfaces is used.
    #[serde(default)]
    pub api: LanguageApi,
    /// A file that holds the key; never logged. None where the service asks for none.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// How the key is sent.
    #[serde(default)]
    pub key_header: KeyHeader,
    /// Further headers of the requests.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A file with further certificate authorities (PEM) to trust for this URL.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// How long an answer may be (tokens); one that is cut off there has failed. The service's own limit where none is given.
    #[serde(default)]
    pub tokens_max: Option<u64>,
    /// How freely the model chooses its words (0 to 2); the service's own where none is given. Some models take none.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Whether an answer is begun as soon as the caller pauses, and dropped if the caller goes on: it is there earlier, and more tokens are used.
    #[serde(default = "speculate")]
    pub speculate: bool,
    /// What the service charges; costs are not counted where that is not known.
    #[serde(default)]
    pub prices: Option<Prices>,
    /// How long a connection may take until it stands (ms).
    #[serde(default = "http_part::connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// How long the service may take until the first of its answer comes (ms).
    #[serde(default = "http_part::answer_timeout_ms")]
    pub answer_timeout_ms: u64,
    /// How long its answer may pause (ms).
    #[serde(default = "http_part::stall_timeout_ms")]
    pub stall_timeout_ms: u64,
    /// How long all of it may take (ms).
    #[serde(default = "http_part::whole_timeout_ms")]
    pub whole_timeout_ms: u64,
}

/// An interface of a language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LanguageApi {
    /// `POST …/chat/completions`, which most servers have.
    #[default]
    ChatCompletions,
    /// `POST …/responses`.
    Responses,
}

impl LanguageService {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let place = Path::of(PLACE);
        self.part().check(checker);
        if let Some(prices) = &self.prices {
            prices.check(checker, &place.join("prices"));
        }
        if let Some(tokens) = self.tokens_max {
            checker.within(&place.join("tokens_max"), tokens, TOKENS_LEAST..=TOKENS_MOST);
        }
        if let Some(temperature) = self.temperature
            && !(0.0..=2.0).contains(&temperature)
        {
            let what = format!("{temperature} is outside of 0 to 2");
            checker.error(&place.join("temperature"), what, "temperature = 0.7; or leave it out, for the service's own");
        }
    }

    /// How it is reached.
    pub fn part(&self) -> HttpPart<'_> {
        HttpPart {
            table: PLACE,
            key: "language-key",
            url: &self.url,
            model: &self.model,
            key_file: self.key_file.as_ref(),
            key_header: self.key_header,
            headers: &self.headers,
            ca_file: self.ca_file.as_ref(),
            connect_timeout_ms: self.connect_timeout_ms,
            answer_timeout_ms: self.answer_timeout_ms,
            stall_timeout_ms: self.stall_timeout_ms,
            whole_timeout_ms: self.whole_timeout_ms,
        }
    }
}

fn speculate() -> bool {
    true
}

const PLACE: &str = "cloud.language";
/// A sentence and a call have so many.
const TOKENS_LEAST: u64 = 16;
/// Nobody listens for longer; models that think first use more than they say.
const TOKENS_MOST: u64 = 32_768;
