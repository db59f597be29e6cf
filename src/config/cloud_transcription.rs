//! `[cloud.transcription]`: what writes down what the caller says, where a cascade leads calls.

use std::collections::BTreeMap;
use std::path::PathBuf;

use recado_core::policy::Language;
use serde::Deserialize;

use super::Prices;
use super::check::Checker;
use super::endpoint::KeyHeader;
use super::http_part::{self, HttpPart};
use super::tree::Path;

/// A service with the OpenAI transcription interface (`POST …/audio/transcriptions`): OpenAI's, another one's, or one of your own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranscriptionService {
    /// What its addresses begin with: `https://` or `http://`, up to `/v1`.
    pub url: String,
    /// The model, by the service's name for it.
    pub model: String,
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
    /// The language that callers speak; the box's own where none is given.
    #[serde(default)]
    pub language: Option<Language>,
    /// Words of the kind that callers say, in a text: models write what they expect.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Names and words that are hard to write, where the model takes them.
    #[serde(default)]
    pub keywords: Vec<String>,
    /// Whether the service is asked to send the words as they come. One that can't sends them whole all the same.
    #[serde(default)]
    pub stream: bool,
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

impl TranscriptionService {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let place = Path::of(PLACE);
        self.part().check(checker);
        if let Some(prices) = &self.prices {
            prices.check(checker, &place.join("prices"));
        }
        if self.prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty() || prompt.len() > PROMPT_BYTES_MAX) {
            let what = format!("a prompt has 1 to {PROMPT_BYTES_MAX} bytes: models read no more of it");
            checker.error(&place.join("prompt"), what, "a few words of the kind that callers say; or leave it out");
        }
        if self.keywords.len() > KEYWORDS_MAX {
            let what = format!("{} words are more than {KEYWORDS_MAX}", self.keywords.len());
            checker.error(&place.join("keywords"), what, "those that matter most");
        }
        for (index, word) in self.keywords.iter().enumerate() {
            if word.trim().is_empty() || word.len() > KEYWORD_BYTES_MAX || word.chars().any(char::is_control) {
                let what = format!("a keyword has 1 to {KEYWORD_BYTES_MAX} bytes, without line breaks");
                checker.error(&place.join("keywords").join(index), what, "a name or a word; or leave it out");
            }
        }
    }

    /// How it is reached.
    pub fn part(&self) -> HttpPart<'_> {
        HttpPart {
            table: PLACE,
            key: "transcription-key",
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

const PLACE: &str = "cloud.transcription";
/// What Whisper reads of it: some 224 tokens.
const PROMPT_BYTES_MAX: usize = 1_000;
/// More than a model weighs.
const KEYWORDS_MAX: usize = 100;
/// No word is longer.
const KEYWORD_BYTES_MAX: usize = 64;
