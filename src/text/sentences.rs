//! Sentences of a text that is still being written.

use super::clauses::{WORDS_MIN, boundaries, is_closing, word_count};

/// Cuts a text into sentences as it comes. A sentence has ended when what follows proves it: a full stop may be a decimal's or an
/// abbreviation's. Put together again they are the text, and they are the same whatever it came in.
#[derive(Debug, Default)]
pub struct Sentences {
    pending: String,
}

impl Sentences {
    /// More of the text, and the sentences that have ended with it.
    pub fn add(&mut self, more: &str) -> Vec<String> {
        self.pending.push_str(more);
        std::iter::from_fn(|| self.next()).collect()
    }

    /// The text has ended: its last sentence.
    pub fn end(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.pending)).filter(|last| !last.is_empty())
    }

    fn next(&mut self) -> Option<String> {
        let end = self.sentence_end().or_else(|| self.forced_end())?;
        let rest = self.pending.split_off(end);
        Some(std::mem::replace(&mut self.pending, rest))
    }

    /// Where the first sentence ends, where something follows it and it is not too long.
    fn sentence_end(&self) -> Option<usize> {
        let most = self.most();
        let proven = boundaries(&self.pending).into_iter().filter(|end| *end < self.pending.len() && *end <= most);
        proven.into_iter().find(|end| self.pending.get(..*end).is_some_and(ends_sentence))
    }

    /// Where a text is cut in which no sentence ends: at its last white space, where it has any.
    fn forced_end(&self) -> Option<usize> {
        let most = self.most();
        let head = self.pending.get(..most).filter(|head| head.len() < self.pending.len())?;
        let space = head.char_indices().rfind(|(_, c)| c.is_whitespace()).map(|(at, c)| at + c.len_utf8());
        Some(space.unwrap_or(most))
    }

    /// Where a sentence ends at the latest (bytes).
    fn most(&self) -> usize {
        self.pending.char_indices().nth(SENTENCE_CHARS_MAX).map_or(self.pending.len(), |(at, _)| at)
    }
}

/// Whether a clause that ends here is the end of a sentence, which has the words of one.
fn ends_sentence(text: &str) -> bool {
    let bare = text.trim_end();
    let line_ends = text.get(bare.len()..).is_some_and(|space| space.contains('\n'));
    let last = bare.trim_end_matches(is_closing).chars().last();
    (line_ends || matches!(last, Some('.' | '!' | '?' | '…'))) && word_count(text) >= WORDS_MIN
}

/// Half a minute of speech: who writes without a full stop is cut all the same.
const SENTENCE_CHARS_MAX: usize = 400;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut<'a>(parts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let mut sentences = Sentences::default();
        let mut cut: Vec<String> = parts.into_iter().flat_map(|part| sentences.add(part)).collect();
        cut.extend(sentences.end());
        cut
    }

    #[test]
    fn a_sentence_is_said_when_what_follows_proves_its_end() {
        let mut sentences = Sentences::default();
        assert_eq!(sentences.add("Son las 3"), [""; 0]);
        assert_eq!(sentences.add(".5"), [""; 0], "a decimal");
        assert_eq!(sentences.add(" horas."), [""; 0], "what follows is not known");
        assert_eq!(sentences.add(" "), [""; 0]);
        assert_eq!(sentences.add("¿"), ["Son las 3.5 horas. "]);
        assert_eq!(sentences.add("Algo más"), [""; 0]);
        assert_eq!(sentences.end().as_deref(), Some("¿Algo más"));
        assert_eq!(sentences.end(), None);
    }

    #[test]
    fn abbreviations_clauses_and_single_words_end_no_sentence_and_a_line_break_does() {
        assert_eq!(
            cut(["La Sra. López, que vive en EE. UU., llega hoy. Sí. Ahora mismo."]),
            ["La Sra. López, que vive en EE. UU., llega hoy. ", "Sí. Ahora mismo."]
        );
        assert_eq!(cut(["Dos cosas faltan\n", "y nada más"]), ["Dos cosas faltan\n", "y nada más"]);
        assert_eq!(cut(["Dijo «está hecho». (De verdad.) Y ya."]), ["Dijo «está hecho». ", "(De verdad.) ", "Y ya."]);
    }

    #[test]
    fn who_writes_without_a_full_stop_is_cut_at_white_space() {
        let text = "palabra ".repeat(120);
        let parts = cut([text.as_str()]);
        assert_eq!(parts.concat(), text);
        assert!(parts.len() == 3 && parts.iter().all(|part| part.ends_with(' ')), "{parts:?}");
    }

    proptest! {
        #[test]
        fn the_sentences_are_the_text_and_the_same_whatever_it_comes_in(
            text in "([a-zA-ZñÁ0-9]{1,12}[ .,;:!?…\\n\")¿]{1,3}){0,90}|\\PC{0,900}",
            sizes in prop::collection::vec(1usize..40, 1..60),
        ) {
            let whole = cut([text.as_str()]);
            prop_assert_eq!(&whole.concat(), &text);
            let chars: Vec<char> = text.chars().collect();
            let (mut parts, mut at) = (Vec::new(), 0);
            for size in sizes.iter().cycle() {
                if at >= chars.len() {
                    break;
                }
                parts.push(chars[at..(at + size).min(chars.len())].iter().collect::<String>());
                at += size;
            }
            prop_assert_eq!(cut(parts.iter().map(String::as_str)), whole);
        }
    }
}
