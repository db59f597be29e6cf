//! Sentences of a text that is still being written.

use super::clauses::{WORDS_MIN, boundaries, is_closing, word_count};

/// Cuts a text into sentences as it comes. A sentence has ended when what follows proves it: a full stop may be a decimal's or an
/// abbreviation's. Put together again they are the text, and they are the same whatever it came in.
#[derive(Debug, Default)]
pub struct Sentences {
    pending: String,
}

/// Where a sentence is broken that does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// After the last clause that is whole.
    Clause,
    /// After the last word that is whole.
    Word,
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

    /// Whether nothing of it waits for its sentence to end.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Where the sentence that has not ended may be broken, for somebody who has waited for its end.
    pub fn may_break(&self, at: Break) -> bool {
        self.break_end(at).is_some()
    }

    /// What there is of that sentence up to there.
    pub fn break_off(&mut self, at: Break) -> Option<String> {
        self.break_end(at).map(|end| self.cut(end))
    }

    fn next(&mut self) -> Option<String> {
        self.sentence_end().or_else(|| self.forced_end()).map(|end| self.cut(end))
    }

    fn cut(&mut self, end: usize) -> String {
        let rest = self.pending.split_off(end);
        std::mem::replace(&mut self.pending, rest)
    }

    fn break_end(&self, at: Break) -> Option<usize> {
        let holds = |end: &usize, words| self.pending.get(..*end).is_some_and(|head| word_count(head) >= words && !opens_link(head));
        match at {
            Break::Clause => boundaries(&self.pending).into_iter().rfind(|end| *end < self.pending.len() && holds(end, WORDS_MIN)),
            Break::Word => {
                let spaces = self.pending.char_indices().filter(|(_, c)| c.is_whitespace()).map(|(at, c)| at + c.len_utf8());
                spaces.rev().find(|end| holds(end, BROKEN_WORDS_MIN))
            }
        }
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

/// Whether a link has opened in this text that does not end in it: its address is not read aloud where it is seen whole.
fn opens_link(text: &str) -> bool {
    text.rfind('[').is_some_and(|at| text.get(at..).is_some_and(|rest| !rest.contains(']') || rest.contains("](") && !rest.contains(')')))
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
/// Fewer words by themselves are no speech.
const BROKEN_WORDS_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::in_parts;

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
    fn a_sentence_that_does_not_end_is_broken_after_a_clause_or_a_word() {
        let mut sentences = Sentences::default();
        assert_eq!(sentences.add("Son 3,5"), [""; 0]);
        assert!(!sentences.may_break(Break::Clause) && !sentences.may_break(Break::Word));
        assert_eq!(sentences.add(" euros, con pan, y"), [""; 0]);
        assert_eq!(sentences.break_off(Break::Clause).as_deref(), Some("Son 3,5 euros, con pan, "));
        assert_eq!(sentences.break_off(Break::Clause), None);
        assert_eq!(sentences.add(" con vino de la ca"), [""; 0]);
        assert_eq!(sentences.break_off(Break::Word).as_deref(), Some("y con vino de la "));
        assert_eq!(sentences.add("sa. Algo"), ["casa. "; 0], "one word ends no sentence");
        assert_eq!(sentences.end().as_deref(), Some("casa. Algo"));
        assert!(sentences.is_empty());
        // What is read aloud of a link is known when it is whole.
        sentences.add("Lo tiene en [nuestra carta, la de hoy](https://x.example/a, b");
        assert_eq!(sentences.break_off(Break::Clause), None);
        assert_eq!(sentences.break_off(Break::Word), None);
        sentences.add("), o si no, lo");
        assert_eq!(
            sentences.break_off(Break::Clause).as_deref(),
            Some("Lo tiene en [nuestra carta, la de hoy](https://x.example/a, b), o si no, ")
        );
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
            let parts = in_parts(&text, &sizes);
            prop_assert_eq!(cut(parts.iter().map(String::as_str)), whole);
        }
    }
}
