//! `[cloud.transcription]`: what writes down what the caller says, where a cascade leads calls.

use recado_core::policy::Language;
use serde::Deserialize;

use super::check::Checker;
use super::http_part::cascade_part_table;

cascade_part_table! {
    /// A service with the OpenAI transcription interface (`POST …/audio/transcriptions`): OpenAI's, another one's, or one of your own.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    pub struct TranscriptionService in "cloud.transcription", {
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
    }
}

impl TranscriptionService {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        self.part().check(checker, KEY_FILE);
        let place = self.endpoint().place();
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
}

/// A file to propose for the key.
const KEY_FILE: &str = "transcription-key";
/// What Whisper reads of it: some 224 tokens.
const PROMPT_BYTES_MAX: usize = 1_000;
/// More than a model weighs.
const KEYWORDS_MAX: usize = 100;
/// No word is longer.
const KEYWORD_BYTES_MAX: usize = 64;
