//! Heard text: what of a segment's words the caller heard, cut at the word that the heard position falls in.

use super::input::Word;

/// The words of `text` that had ended after `heard_ms` of a segment of `duration_ms`.
///
/// Without a map of words the text is taken as evenly spread over the segment. In doubt, less was heard: the word that
/// the position falls in does not count.
pub(super) fn heard_text<'a>(text: &'a str, words: &[Word], duration_ms: u64, heard_ms: u64) -> &'a str {
    if heard_ms >= duration_ms {
        return text;
    }
    let end = if words.is_empty() {
        let spread = (text.len() as u128 * u128::from(heard_ms) / u128::from(duration_ms.max(1))) as usize;
        word_end_before(text, spread)
    } else {
        words.iter().filter(|word| u64::from(word.end_ms) <= heard_ms).map(|word| word.end_byte as usize).max().unwrap_or(0)
    };
    text.get(..end).unwrap_or("")
}

/// The end of the last whole word that ends at or before byte `limit`.
fn word_end_before(text: &str, limit: usize) -> usize {
    let mut end = 0;
    let mut in_word = false;
    for (at, ch) in text.char_indices() {
        if ch.is_whitespace() {
            if in_word && at <= limit {
                end = at;
            }
            in_word = false;
        } else {
            in_word = true;
        }
        if at > limit {
            break;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Su reserva está hecha";

    fn words() -> Vec<Word> {
        vec![
            Word { end_byte: 2, end_ms: 200 },
            Word { end_byte: 10, end_ms: 800 },
            Word { end_byte: 16, end_ms: 1200 },
            Word { end_byte: 22, end_ms: 1700 },
        ]
    }

    #[test]
    fn a_word_counts_when_it_has_ended() {
        assert_eq!(heard_text(TEXT, &words(), 1800, 199), "");
        assert_eq!(heard_text(TEXT, &words(), 1800, 200), "Su");
        assert_eq!(heard_text(TEXT, &words(), 1800, 1199), "Su reserva");
        assert_eq!(heard_text(TEXT, &words(), 1800, 1200), "Su reserva está");
        assert_eq!(heard_text(TEXT, &words(), 1800, 1800), TEXT);
    }

    #[test]
    fn without_a_map_the_text_is_spread_evenly_and_cut_at_a_word() {
        assert_eq!(heard_text(TEXT, &[], 2200, 0), "");
        assert_eq!(heard_text(TEXT, &[], 2200, 1100), "Su reserva");
        assert_eq!(heard_text(TEXT, &[], 2200, 2200), TEXT);
    }

    #[test]
    fn a_map_that_does_not_fit_the_text_credits_nothing() {
        let wrong = [Word { end_byte: 15, end_ms: 10 }, Word { end_byte: 900, end_ms: 20 }];
        assert_eq!(heard_text(TEXT, &wrong[..1], 100, 50), "", "byte 15 is inside a character");
        assert_eq!(heard_text(TEXT, &wrong, 100, 50), "");
    }
}
