//! Where each word sounds, estimated from the audio and the text.
//!
//! No engine reports word events through what it is asked by, so: every punctuation mark inside the text is matched with an audible
//! pause, and between pauses words share the time by their spoken length (letters, with digits and signs counted
//! as long as they are read out). Exact at pauses, off by a part of a word between them.

use std::ops::Range;

use super::level::{self, FRAME_SAMPLES};
use super::port::WordMark;

/// The marks of all words of `text` in `samples` (8 kHz), in order and without overlap.
pub fn word_marks(text: &str, samples: &[i16]) -> Vec<WordMark> {
    let words = words(text);
    let audible = level::audible_frames(samples);
    let sample = |frame: usize| (frame * FRAME_SAMPLES).min(samples.len());
    let (Some(first), Some(last)) = (audible.iter().position(|&a| a), audible.iter().rposition(|&a| a)) else {
        return words.into_iter().map(|w| mark(w, 0, samples.len())).collect();
    };
    let mut stretches = Vec::new();
    let mut from = sample(first);
    for pause in pauses(&audible[first..=last], punctuated(text, &words)) {
        stretches.push(from..sample(first + pause.start));
        from = sample(first + pause.end);
    }
    stretches.push(from..sample(last + 1));
    spread(text, &words, &stretches)
}

/// Shares each stretch of sound among the words up to the next punctuation mark.
fn spread(text: &str, words: &[Range<usize>], stretches: &[Range<usize>]) -> Vec<WordMark> {
    let anchored = stretches.len() > 1;
    let mut groups = words.chunk_by(|word, _| !(anchored && ends_in_pause(&text[word.clone()])));
    let mut marks = Vec::with_capacity(words.len());
    for stretch in stretches {
        let group = groups.next().unwrap_or_default();
        let total: usize = group.iter().map(|word| spoken_length(&text[word.clone()])).sum();
        let (mut before, mut start) = (0, stretch.start);
        for word in group {
            before += spoken_length(&text[word.clone()]);
            let end = stretch.start + stretch.len() * before / total.max(1);
            marks.push(mark(word.clone(), start, end));
            start = end;
        }
    }
    marks
}

/// The longest `wanted` pauses, in order of time; none if the audio has not so many, as then the match would be a guess.
fn pauses(audible: &[bool], wanted: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut since = 0;
    for (frame, &sounds) in audible.iter().enumerate() {
        if sounds {
            if frame - since >= PAUSE_FRAMES_MIN {
                found.push(since..frame);
            }
            since = frame + 1;
        }
    }
    if found.len() < wanted {
        return Vec::new();
    }
    found.sort_by_key(|pause| std::cmp::Reverse(pause.len()));
    found.truncate(wanted);
    found.sort_by_key(|pause| pause.start);
    found
}

/// How many words before the last one end in a punctuation mark.
fn punctuated(text: &str, words: &[Range<usize>]) -> usize {
    let inner = words.split_last().map_or(&[][..], |(_, inner)| inner);
    inner.iter().filter(|word| ends_in_pause(&text[(*word).clone()])).count()
}

fn ends_in_pause(word: &str) -> bool {
    word.trim_end_matches(['"', '\'', ')', '»', '”', '’']).ends_with([',', ';', ':', '.', '!', '?', '…'])
}

/// How long a word takes to say, in units of one letter.
fn spoken_length(word: &str) -> usize {
    let length: usize = word
        .chars()
        .map(|c| match c {
            _ if c.is_alphabetic() => 1,
            _ if c.is_numeric() => DIGIT_LETTERS,
            '%' | '€' | '$' | '£' | '@' | '&' | '+' | '=' | '/' | '#' => SIGN_LETTERS,
            _ => 0,
        })
        .sum();
    length.max(1) + WORD_LETTERS
}

fn words(text: &str) -> Vec<Range<usize>> {
    text.split_whitespace()
        .map(|word| {
            let start = word.as_ptr().addr() - text.as_ptr().addr();
            start..start + word.len()
        })
        .collect()
}

fn mark(byte_range: Range<usize>, start_sample: usize, end_sample: usize) -> WordMark {
    WordMark { byte_range, start_sample, end_sample }
}

/// 100 ms: the closure before a `p`, `t` or `k` lasts up to 70 ms, the engine's pause at a comma 180 ms.
const PAUSE_FRAMES_MIN: usize = 20;
/// Measured: a letter takes about 70 ms, a digit read out 400 ms (Spanish) to 600 ms (English).
const DIGIT_LETTERS: usize = 7;
const SIGN_LETTERS: usize = 7;
/// Short words take longer than their letters say.
const WORD_LETTERS: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bursts of sound of so many milliseconds, with silence of so many milliseconds after each.
    fn bursts(lengths_ms: &[(usize, usize)]) -> Vec<i16> {
        let tone = |ms: usize| (0..ms * 8).map(|n| if n % 8 < 4 { 4_000 } else { -4_000 });
        lengths_ms.iter().flat_map(|&(on, off)| tone(on).chain(std::iter::repeat_n(0, off * 8))).collect()
    }

    #[test]
    fn a_comma_is_matched_with_its_pause() {
        let marks = word_marks("uno dos, tres", &bursts(&[(1_000, 200), (300, 120)]));
        assert_eq!(marks[1].end_sample, 8_000);
        assert_eq!((marks[2].start_sample, marks[2].end_sample), (9_600, 12_000));
        assert_eq!(marks[0].end_sample, marks[1].start_sample);
        assert_eq!(marks[0].end_sample, 4_000);
    }

    #[test]
    fn a_pause_that_no_punctuation_explains_is_not_an_anchor_and_a_missing_one_is_no_guess() {
        let two_pauses = bursts(&[(500, 110), (500, 300), (500, 0)]);
        assert_eq!(word_marks("uno dos, tres", &two_pauses)[1].end_sample, (500 + 110 + 500) * 8);
        let none = bursts(&[(1_300, 0)]);
        assert_eq!(word_marks("uno dos, tres", &none)[1].end_sample, 10_400 * 8 / 13);
    }

    #[test]
    fn a_number_takes_longer_than_its_digits_look() {
        let marks = word_marks("son 1250 euros", &bursts(&[(2_000, 0)]));
        assert!(marks[1].end_sample - marks[1].start_sample > 8_000);
    }

    proptest! {
        #[test]
        fn marks_cover_every_word_in_order_and_never_overlap(
            text in "[a-z,.ñ€🙂 \\n]{0,60}",
            lengths in proptest::collection::vec((0usize..400, 0usize..300), 0..6),
        ) {
            let samples = bursts(&lengths);
            let marks = word_marks(&text, &samples);
            let spoken: Vec<&str> = marks.iter().map(|m| &text[m.byte_range.clone()]).collect();
            prop_assert_eq!(spoken, text.split_whitespace().collect::<Vec<_>>());
            let silent = !level::audible_frames(&samples).contains(&true);
            for pair in marks.windows(2) {
                prop_assert!(silent || pair[0].end_sample <= pair[1].start_sample);
            }
            for m in &marks {
                prop_assert!(m.start_sample <= m.end_sample && m.end_sample <= samples.len());
            }
        }
    }
}
