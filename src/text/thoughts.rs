//! What a model thinks before it answers, where a service does not part it from the answer.

/// Leaves the thoughts out of a text as it comes: what stands between `<think>` and `</think>`, and all that follows where they have no end.
#[derive(Debug, Default)]
pub struct Thoughts {
    /// What may still prove to be a tag.
    held: String,
    /// What ends those that have begun.
    ends_with: Option<&'static str>,
    /// Whether some have just ended: the white space after them is theirs.
    ended: bool,
    /// Whether there was a tag.
    marked: bool,
}

/// What of a text that comes is no thought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Whether all that came before it was one: the first tag is one that ends them, as where they were begun in what the model was told.
    pub all_before_was_thought: bool,
    /// What is none.
    pub text: String,
}

impl Thoughts {
    /// What of `more`, and of what was held back before it, is no thought.
    pub fn leave_out(&mut self, more: &str) -> Left {
        let mut held = std::mem::take(&mut self.held);
        held.push_str(more);
        let (mut left, mut rest) = (Left::default(), &held[..]);
        while let Some(at) = rest.find('<') {
            self.say(&rest[..at], &mut left.text);
            rest = &rest[at..];
            if let Some((begin, end)) = TAGS.iter().find(|(begin, end)| starts_with(rest, begin) || starts_with(rest, end)) {
                let begins = starts_with(rest, begin);
                if !begins && !self.marked {
                    left = Left { all_before_was_thought: true, text: String::new() };
                }
                self.pass(begins, end);
                rest = &rest[if begins { begin.len() } else { end.len() }..];
            } else if TAGS.iter().any(|(begin, end)| starts_with(begin, rest) || starts_with(end, rest)) {
                self.held = rest.to_owned();
                return left;
            } else {
                self.say("<", &mut left.text);
                rest = &rest[1..];
            }
        }
        self.say(rest, &mut left.text);
        left
    }

    /// The text has ended: what was held back of it.
    pub fn end(&mut self) -> String {
        let (held, mut said) = (std::mem::take(&mut self.held), String::new());
        self.say(&held, &mut said);
        said
    }

    /// A tag has come: one that begins thoughts, or one that ends them, also where nothing has begun any.
    fn pass(&mut self, begins: bool, end: &'static str) {
        self.marked = true;
        match self.ends_with {
            None if begins => self.ends_with = Some(end),
            Some(other) if begins || other != end => {}
            _ => (self.ends_with, self.ended) = (None, true),
        }
    }

    /// This is no tag.
    fn say(&mut self, text: &str, said: &mut String) {
        if self.ends_with.is_some() {
            return;
        }
        let text = if self.ended { text.trim_start() } else { text };
        self.ended &= text.is_empty();
        said.push_str(text);
    }
}

/// Whether `text` starts with `with`, in letters of any case.
fn starts_with(text: &str, with: &str) -> bool {
    text.as_bytes().get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
}

/// What models mark them with.
const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::in_parts;

    fn said<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
        let mut thoughts = Thoughts::default();
        let mut said = String::new();
        for part in parts {
            let left = thoughts.leave_out(part);
            if left.all_before_was_thought {
                said.clear();
            }
            said.push_str(&left.text);
        }
        said + &thoughts.end()
    }

    #[test]
    fn thoughts_are_left_out_and_nothing_else_is() {
        for (text, left) in [
            ("Hola. ¿Qué tal?", "Hola. ¿Qué tal?"),
            ("<think>\nA table, so <b>4</b>?\n</think>\n\nMuy bien.", "Muy bien."),
            ("Ya. <THINK>hm</Think> Y <thinking>a </think> b</thinking>más.", "Ya. Y más."),
            ("Muy <think>this has no end. Never.", "Muy "),
            ("begun elsewhere</THINK>\nMuy bien.", "Muy bien."),
            ("begun elsewhere, about <b></think>Muy <think>hm</think></think>bien.</think>", "Muy bien."),
            ("Muy <think>hm</think>bien.</think> Ya.", "Muy bien.Ya."),
            ("2 < 3 y <b>más</b>, o <thin", "2 < 3 y <b>más</b>, o <thin"),
            ("<think></think>", ""),
        ] {
            assert_eq!(said([text]), left, "{text}");
        }
    }

    #[test]
    fn what_is_no_tag_is_not_held_back() {
        let mut thoughts = Thoughts::default();
        assert_eq!(thoughts.leave_out("Hola <").text, "Hola ");
        assert_eq!(thoughts.leave_out("thi").text, "");
        assert_eq!(thoughts.leave_out("s> y").text, "<this> y");
    }

    #[test]
    fn what_might_be_a_tag_anywhere_comes_out_whole() {
        for (of, times) in [("<", 64 << 10), ("<thin", 13_000), ("</THINKIN", 7_000)] {
            let text = of.repeat(times);
            assert!(said([text.as_str()]) == text, "{of} at once");
            assert!(said((0..text.len()).map(|at| &text[at..=at])) == text, "{of} letter by letter");
        }
    }

    proptest! {
        #[test]
        fn it_is_the_same_whatever_it_comes_in(
            text in "(</?think(ing)?>|<|[a-zñ ./>]{1,9}|\n){0,24}",
            sizes in prop::collection::vec(1usize..9, 1..30),
        ) {
            let parts = in_parts(&text, &sizes);
            let whole = said([text.as_str()]);
            prop_assert_eq!(said(parts.iter().map(String::as_str)), whole);
        }
    }
}
