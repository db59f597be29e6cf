//! Whether certain words are among those that the caller has heard.

/// Whether what was heard holds these words, whatever white space is between them.
pub(super) fn holds(heard_text: &str, words: &str) -> bool {
    let of = |text: &str| text.split_whitespace().map(|word| format!(" {word}")).collect::<String>() + " ";
    of(heard_text).contains(&of(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_held_whole_and_in_their_order_alone() {
        for (heard_text, words, held) in [
            ("Thank you. It is kept.", "It is  kept.", true),
            ("Thank you. It is", "It is kept.", false),
            ("It is kept.now", "It is kept.", false),
            ("", "It is kept.", false),
            ("Thank you.", "", true),
        ] {
            assert_eq!(holds(heard_text, words), held, "{heard_text}");
        }
    }
}
