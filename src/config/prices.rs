//! What a service charges.

use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;

/// What a service charges: for a million tokens of each kind, and for a minute of audio where it charges by length. What is left out costs
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// In which currency, as it is to be shown.
    pub currency: String,
    /// Text that goes in.
    #[serde(default)]
    pub input_text: Price,
    /// Audio that goes in.
    #[serde(default)]
    pub input_audio: Price,
    /// Text that goes in and is known to the service already.
    #[serde(default)]
    pub cached_text: Price,
    /// Audio that goes in and is known to the service already.
    #[serde(default)]
    pub cached_audio: Price,
    /// Text that comes out.
    #[serde(default)]
    pub output_text: Price,
    /// Audio that comes out.
    #[serde(default)]
    pub output_audio: Price,
    /// Writing down what the caller says.
    #[serde(default)]
    pub transcription: Price,
    /// A minute of audio that is charged for by its length.
    #[serde(default)]
    pub audio_minute: Price,
}

/// A price, to the millionth of the currency's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "f64")]
pub struct Price(i64);

impl Price {
    /// In millionths of the currency's unit.
    pub fn millionths(self) -> u64 {
        u64::try_from(self.0).unwrap_or_default()
    }
}

impl From<f64> for Price {
    fn from(price: f64) -> Self {
        // What is too large or too small for it becomes the nearest that is not, which the check refuses; so is what is no number.
        Self(if price.is_nan() { i64::MIN } else { (price * 1e6).round() as i64 })
    }
}

impl Prices {
    /// Checks the prices that stand in `table`.
    pub(super) fn check(&self, checker: &mut Checker<'_>, table: &Path) {
        let currency = self.currency.trim();
        if currency.is_empty() || self.currency.len() > CURRENCY_BYTES_MAX || self.currency.chars().any(char::is_control) {
            checker.error(&table.join("currency"), format!("{:?} is no currency that could be shown", self.currency), "currency = \"USD\"");
        } else if currency != self.currency || currency.len() != CODE_BYTES || !currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
            let what = format!("{:?} is not the code of a currency: three capital letters (ISO 4217)", self.currency);
            checker.error(&table.join("currency"), what, format!("currency = {:?}", code_of(currency)));
        }
        let each = [
            ("input_text", self.input_text),
            ("input_audio", self.input_audio),
            ("cached_text", self.cached_text),
            ("cached_audio", self.cached_audio),
            ("output_text", self.output_text),
            ("output_audio", self.output_audio),
            ("transcription", self.transcription),
            ("audio_minute", self.audio_minute),
        ];
        for (key, Price(millionths)) in each {
            if !(0..=PRICE_MAX * 1_000_000).contains(&millionths) {
                let nearest = if millionths < 0 { 0 } else { PRICE_MAX };
                checker.error(&table.join(key), format!("a price lies between 0 and {PRICE_MAX}"), format!("{key} = {nearest}"));
            }
        }
    }
}

/// The code of the currency that was most likely meant.
fn code_of(currency: &str) -> String {
    let capital = currency.to_uppercase();
    let is_code = capital.len() == CODE_BYTES && capital.bytes().all(|byte| byte.is_ascii_uppercase());
    match capital.as_str() {
        "EURO" | "EUROS" | "€" => "EUR".to_owned(),
        "POUND" | "POUNDS" | "£" => "GBP".to_owned(),
        _ if is_code => capital,
        _ => "USD".to_owned(),
    }
}

/// A code of ISO 4217.
const CODE_BYTES: usize = 3;
/// More is paid for nothing.
const PRICE_MAX: i64 = 1_000_000;
/// It is a label of a measure.
const CURRENCY_BYTES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_exact_to_the_millionth() {
        for (written, millionths) in [(0.006, 6_000), (64.0, 64_000_000), (-0.1, 0), (f64::NAN, 0)] {
            assert_eq!(Price::from(written).millionths(), millionths, "{written}");
        }
    }
}
