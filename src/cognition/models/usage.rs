//! What services count and charge for.

use serde::Deserialize;

use super::json::or_default;

/// Tokens of one response, or of several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// What went in, all kinds together.
    #[serde(deserialize_with = "or_default")]
    pub input_tokens: u64,
    /// What came out, all kinds together.
    #[serde(deserialize_with = "or_default")]
    pub output_tokens: u64,
    /// What went in, by kind.
    #[serde(deserialize_with = "or_default")]
    pub input_token_details: InputTokens,
    /// What came out, by kind.
    #[serde(deserialize_with = "or_default")]
    pub output_token_details: OutputTokens,
}

/// Tokens that went in, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct InputTokens {
    /// Text.
    #[serde(deserialize_with = "or_default")]
    pub text_tokens: u64,
    /// Audio.
    #[serde(deserialize_with = "or_default")]
    pub audio_tokens: u64,
    /// Of both: what the service knew already, and charges less for.
    #[serde(deserialize_with = "or_default")]
    pub cached_tokens: u64,
}

/// Tokens that came out, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct OutputTokens {
    /// Text.
    #[serde(deserialize_with = "or_default")]
    pub text_tokens: u64,
    /// Audio.
    #[serde(deserialize_with = "or_default")]
    pub audio_tokens: u64,
}

impl Usage {
    /// Counts that of another response.
    pub fn add(&mut self, other: Self) {
        let add = |count: &mut u64, more: u64| *count = count.saturating_add(more);
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        add(&mut self.input_token_details.text_tokens, other.input_token_details.text_tokens);
        add(&mut self.input_token_details.audio_tokens, other.input_token_details.audio_tokens);
        add(&mut self.input_token_details.cached_tokens, other.input_token_details.cached_tokens);
        add(&mut self.output_token_details.text_tokens, other.output_token_details.text_tokens);
        add(&mut self.output_token_details.audio_tokens, other.output_token_details.audio_tokens);
    }
}
