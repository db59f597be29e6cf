//! `[cloud.language]`: what decides what is said, where a cascade leads calls.

use serde::Deserialize;

use super::check::Checker;
use super::http_part::cascade_part_table;
use super::tree::Path;

cascade_part_table! {
    /// A service with the OpenAI interface for language models (`POST …/chat/completions` or `POST …/responses`): OpenAI's, another one's, or one
    /// of your own.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    pub struct LanguageService in "cloud.language", {
        /// Which of its interfaces is used.
        #[serde(default)]
        pub api: LanguageApi,
        /// How long an answer may be (tokens); one that is cut off there has failed. The service's own limit where none is given.
        #[serde(default)]
        pub tokens_max: Option<u64>,
        /// How freely the model chooses its words (0 to 2); the service's own where none is given. Some models take none.
        #[serde(default)]
        pub temperature: Option<f64>,
        /// Whether an answer is begun as soon as the caller pauses, and dropped if the caller goes on: it is there earlier, and more tokens are used.
        #[serde(default = "speculate")]
        pub speculate: bool,
    }
}

/// What a language model is asked for, whichever table says so.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageModel {
    /// The model, by the service's name for it.
    pub model: String,
    /// Which of the service's interfaces is used.
    pub api: LanguageApi,
    /// How long an answer may be (tokens); the service's own limit where none is given.
    pub tokens_max: Option<u64>,
    /// How freely it chooses its words (0 to 2); the service's own where none is given.
    pub temperature: Option<f64>,
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
        self.part().check(checker, KEY_FILE);
        self.language_model().check(checker, &self.endpoint().place());
    }

    /// What it is asked for.
    pub fn language_model(&self) -> LanguageModel {
        let Self { model, api, tokens_max, temperature, .. } = self;
        LanguageModel { model: model.clone(), api: *api, tokens_max: *tokens_max, temperature: *temperature }
    }
}

impl LanguageModel {
    /// Checks what the table at `place` says of it.
    pub(super) fn check(&self, checker: &mut Checker<'_>, place: &Path) {
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
}

fn speculate() -> bool {
    true
}

/// A file to propose for the key.
const KEY_FILE: &str = "language-key";
/// A sentence and a call have so many.
const TOKENS_LEAST: u64 = 16;
/// Nobody listens for longer; models that think first use more than they say.
const TOKENS_MOST: u64 = 32_768;
