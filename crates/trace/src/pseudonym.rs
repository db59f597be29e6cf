//! Other letters and digits for those of a text: the same length, the same punctuation, and different for different texts.
//!
//! What a tool is asked and answers decides whether two requests are the same one, so "the same" must survive. Within each
//! text the letters and digits at even and at odd places take turns in shifting each other by what an HMAC-SHA-256 under the
//! box's key makes of the other half (an unbalanced Feistel network): without the key nobody gets back, and no two texts of
//! one shape become one.

use std::ops::RangeInclusive;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Number, Value};
use sha2::Sha256;

/// What pseudonyms depend on. It never leaves the box.
#[derive(Clone)]
pub struct Key([u8; KEY_BYTES]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// A key of this box, derived from a secret of its own for this purpose alone.
    pub fn derive(secret: &[u8; KEY_BYTES]) -> Self {
        Self(Self(*secret).mac(&[b"recado traces"]))
    }

    /// The name that a trace has for a party.
    pub fn party(&self, party: &str) -> String {
        let mac = self.mac(&[b"party", party.as_bytes()]);
        mac.iter().take(8).fold(String::from("party_"), |name, byte| name + &format!("{byte:02x}"))
    }

    /// Other letters and digits for those of `text`.
    pub fn text(&self, text: &str) -> String {
        let mut letters: Vec<char> = text.chars().collect();
        let places: Vec<usize> = (0..letters.len()).filter(|&at| letters[at].is_alphanumeric()).collect();
        let kinds: Vec<Alphabet> = places.iter().map(|&at| Alphabet::of(letters[at])).collect();
        let mut symbols: Vec<u32> = places.iter().zip(&kinds).map(|(&at, kind)| kind.number(letters[at])).collect();
        let sizes: Vec<u32> = kinds.iter().map(Alphabet::size).collect();
        self.mix(&mut symbols, &sizes);
        for ((at, kind), symbol) in places.into_iter().zip(kinds).zip(symbols) {
            letters[at] = kind.letter(symbol);
        }
        letters.into_iter().collect()
    }

    /// Another number of as many digits.
    pub fn number(&self, number: &Number) -> Value {
        // 4 and 4.0 are the same argument.
        let whole = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < WHOLE_MAX);
        let mut letters: Vec<char> = whole.map_or_else(|| number.to_string(), |whole| format!("{whole:.0}")).chars().collect();
        let end = letters.iter().position(|letter| matches!(letter, 'e' | 'E')).unwrap_or(letters.len());
        let places: Vec<usize> = (0..end).filter(|&at| letters[at].is_ascii_digit()).collect();
        let fraction = letters.contains(&'.');
        // A number does not begin with a zero, nor does a fraction end with one: it would be written shorter.
        let outer = |at: usize| places.len() > 1 && (at == places[0] || (fraction && Some(&at) == places.last()));
        let lowest = |at: usize| if outer(at) && letters[at] != '0' { '1' } else { '0' };
        let lowest: Vec<char> = places.iter().map(|&at| lowest(at)).collect();
        let sizes: Vec<u32> = lowest.iter().map(|&low| u32::from('9') - u32::from(low) + 1).collect();
        let mut symbols: Vec<u32> = places.iter().zip(&lowest).map(|(&at, &low)| u32::from(letters[at]) - u32::from(low)).collect();
        self.mix(&mut symbols, &sizes);
        for ((at, low), symbol) in places.into_iter().zip(lowest).zip(symbols) {
            letters[at] = char::from_u32(u32::from(low) + symbol).unwrap_or('1');
        }
        let text: String = letters.into_iter().collect();
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    /// Shifts the symbols at even and at odd places by turns; each round can be undone by who has the key.
    fn mix(&self, symbols: &mut [u32], sizes: &[u32]) {
        for round in 0..ROUNDS {
            let (moved, still) = (round % 2, 1 - round % 2);
            let mut seed = vec![round as u8];
            seed.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
            seed.extend(symbols.iter().skip(still).step_by(2).flat_map(|symbol| symbol.to_be_bytes()));
            let mac = self.mac(&[b"text", &seed]);
            let mut stream = u64::from_be_bytes(std::array::from_fn(|at| mac[at]));
            for (symbol, size) in symbols.iter_mut().zip(sizes).skip(moved).step_by(2) {
                *symbol = ((u64::from(*symbol) + next(&mut stream) % u64::from(*size)) % u64::from(*size)) as u32;
            }
        }
    }

    fn mac(&self, parts: &[&[u8]]) -> [u8; KEY_BYTES] {
        // RFC 2104 pads a short key with zeros to the hash's block, which is what makes this the same key.
        let mut block = [0; BLOCK_BYTES];
        block[..KEY_BYTES].copy_from_slice(&self.0);
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

/// Letters that may stand for one another: those of one range, which take as many bytes each.
#[derive(Debug, Clone)]
struct Alphabet(RangeInclusive<u32>);

impl Alphabet {
    fn of(letter: char) -> Self {
        let code = u32::from(letter);
        let of_its_length =
            |range: &&RangeInclusive<u32>| char::from_u32(*range.start()).is_some_and(|first| first.len_utf8() == letter.len_utf8());
        let range = RANGES.iter().find(|range| range.contains(&code)).or_else(|| RANGES.iter().find(of_its_length));
        Self(range.cloned().unwrap_or(code..=code))
    }

    fn size(&self) -> u32 {
        self.0.end() - self.0.start() + 1
    }

    /// A letter of no range of ours is taken for one of the first range of its length.
    fn number(&self, letter: char) -> u32 {
        u32::from(letter).wrapping_sub(*self.0.start()) % self.size()
    }

    fn letter(&self, number: u32) -> char {
        char::from_u32(self.0.start() + number).unwrap_or('x')
    }
}

/// The next of a row of numbers that a seed gives (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const KEY_BYTES: usize = 32;
const BLOCK_BYTES: usize = 64;
const ROUNDS: usize = 6;

/// Digits, Latin letters, those of Western European languages (no sign among them), Greek and Cyrillic, Chinese characters, and
/// what needs four bytes.
const RANGES: [RangeInclusive<u32>; 9] =
    [0x30..=0x39, 0x61..=0x7a, 0x41..=0x5a, 0xdf..=0xf6, 0xc0..=0xd6, 0xf8..=0xff, 0x410..=0x44f, 0x4e00..=0x9fff, 0x20000..=0x2a6df];

/// Below 2^53 every whole number has its own floating-point value.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn key() -> Key {
        Key::derive(&[7; 32])
    }

    #[test]
    fn a_text_keeps_its_length_and_shape_and_loses_its_letters() {
        let text = "Ana Núñez, 612 34 56 78 — 王小明 🙂";
        let other = key().text(text);
        assert_eq!(other.len(), text.len());
        assert_eq!(other.chars().count(), text.chars().count());
        let shape = |text: &str| text.chars().map(|c| if c.is_alphanumeric() { 'x' } else { c }).collect::<String>();
        assert_eq!(shape(&other), shape(text));
        assert!(!other.contains("Ana") && !other.contains("612"), "{other}");
        assert_ne!(other, Key::derive(&[8; 32]).text(text), "another box has other pseudonyms");
    }

    #[test]
    fn texts_and_numbers_that_differ_stay_different() {
        let digits: BTreeSet<String> = (0..10).map(|digit| key().text(&digit.to_string())).collect();
        assert_eq!(digits.len(), 10);
        let texts: BTreeSet<String> = (0..2_000).map(|number| key().text(&format!("mesa {number:04}"))).collect();
        assert_eq!(texts.len(), 2_000);
        let numbers: BTreeSet<String> = (0..2_000).map(|number: u64| key().number(&number.into()).to_string()).collect();
        assert_eq!(numbers.len(), 2_000);
        assert!(numbers.iter().all(|text| text.len() <= 4), "as many digits as before");
        assert_eq!(key().number(&Number::from_f64(4.0).unwrap()), key().number(&4.into()), "the same argument");
        assert!(key().number(&Number::from_f64(-12.75).unwrap()).as_f64().unwrap() < 0.0);
    }
}
