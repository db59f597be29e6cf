//! What a model's services take for what they do, and what that costs: the same for every kind of model.

use crate::config::Prices;

/// What a session took, by the kinds that services charge for differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of text that went in, without those of `cached_text`.
    pub input_text: u64,
    /// Tokens of audio that went in, without those of `cached_audio`.
    pub input_audio: u64,
    /// Tokens of text that went in and were known to the service already.
    pub cached_text: u64,
    /// Tokens of audio that went in and were known to the service already.
    pub cached_audio: u64,
    /// Tokens of text that came out.
    pub output_text: u64,
    /// Tokens of audio that came out.
    pub output_audio: u64,
    /// Tokens of writing down what the caller said.
    pub transcription: u64,
    /// Audio that is charged for by its length (ms).
    pub audio_ms: u64,
}

impl Usage {
    /// Counts that of another session.
    pub fn add(&mut self, other: &Self) {
        let Self { input_text, input_audio, cached_text, cached_audio, output_text, output_audio, transcription, audio_ms } = self;
        let counts = [input_text, input_audio, cached_text, cached_audio, output_text, output_audio, transcription];
        for (count, (_, more)) in counts.into_iter().zip(other.tokens()) {
            *count = count.saturating_add(more);
        }
        *audio_ms = audio_ms.saturating_add(other.audio_ms);
    }

    /// Tokens by kind.
    pub fn tokens(&self) -> [(&'static str, u64); 7] {
        [
            ("input_text", self.input_text),
            ("input_audio", self.input_audio),
            ("cached_text", self.cached_text),
            ("cached_audio", self.cached_audio),
            ("output_text", self.output_text),
            ("output_audio", self.output_audio),
            ("transcription", self.transcription),
        ]
    }

    /// What it costs, in millionths of the currency's unit.
    pub fn cost_millionths(&self, prices: &Prices) -> u64 {
        let each = [
            prices.input_text,
            prices.input_audio,
            prices.cached_text,
            prices.cached_audio,
            prices.output_text,
            prices.output_audio,
            prices.transcription,
        ];
        let tokens: u128 =
            self.tokens().iter().zip(each).map(|((_, count), price)| u128::from(*count) * u128::from(price.millionths())).sum();
        let audio = u128::from(self.audio_ms) * u128::from(prices.audio_minute.millionths()) / MS_PER_MINUTE;
        u64::try_from(tokens / TOKENS_PER_PRICE + audio).unwrap_or(u64::MAX)
    }
}

/// Prices are for so many tokens.
const TOKENS_PER_PRICE: u128 = 1_000_000;
const MS_PER_MINUTE: u128 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_costs_what_its_tokens_and_minutes_do() {
        let prices: Prices = toml::from_str(
            "currency = 'USD'\ninput_text = 4\ninput_audio = 32\ncached_text = 0.4\ncached_audio = 0.4\noutput_text = 16\n\
             output_audio = 64\naudio_minute = 0.006",
        )
        .unwrap();
        let mut usage = Usage { input_text: 1_000, input_audio: 2_000, cached_audio: 500, output_audio: 1_000, ..Usage::default() };
        assert_eq!(usage.cost_millionths(&prices), 4_000 + 64_000 + 200 + 64_000);
        usage.add(&Usage { audio_ms: 90_000, transcription: 7, ..usage });
        assert_eq!((usage.input_text, usage.transcription, usage.audio_ms), (2_000, 7, 90_000));
        assert_eq!(usage.cost_millionths(&prices), 2 * 132_200 + 9_000, "what has no price costs nothing");
    }
}
