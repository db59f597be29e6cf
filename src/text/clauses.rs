//! Cuts a text into clauses: the units that are spoken, heard, cut off and resumed.

/// The clauses of `text`, in order; put together again they are `text`, byte for byte.
///
/// A clause ends after sentence or clause punctuation (with its closing quotes and the white space that follows) or a line
/// break. Decimals, times, addresses and abbreviations are kept whole. A clause has at least two words, unless the
/// text has not, and at most [`CLAUSE_CHARS_MAX`] characters: a longer one is cut at white space.
pub fn clauses(text: &str) -> Vec<&str> {
    let mut pieces: Vec<&str> = Vec::new();
    let mut start = 0;
    for end in boundaries(text) {
        if word_count(&text[start..end]) >= WORDS_MIN {
            pieces.push(&text[start..end]);
            start = end;
        }
    }
    if start < text.len() {
        // Too few words are left for a clause of their own: they join the one before.
        start -= pieces.pop().map_or(0, str::len);
        pieces.push(&text[start..]);
    }
    pieces.into_iter().flat_map(bounded).collect()
}

/// Byte offsets where a clause may end, the end of the text included. One within the text stays one, whatever follows the text.
pub(super) fn boundaries(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let is_break = c == '\n';
        if !is_break && !is_stop(c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        while let Some((next, c)) = chars.next_if(|&(_, c)| is_stop(c) || is_closing(c)) {
            end = next + c.len_utf8();
        }
        let run_end = end;
        while let Some((next, c)) = chars.next_if(|&(_, c)| c.is_whitespace()) {
            end = next + c.len_utf8();
        }
        let spaced = end > run_end || end == text.len();
        let mid_abbreviation = &text[at..run_end] == "." && is_abbreviation(&text[..run_end], &text[end..]);
        if is_break || (spaced && !mid_abbreviation) {
            found.push(end);
        }
    }
    found
}

fn is_stop(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | ',' | ';' | ':' | '—')
}

pub(super) fn is_closing(c: char) -> bool {
    matches!(c, '"' | '\'' | ')' | ']' | '»' | '”' | '’')
}

/// Whether the full stop at the end of `before` belongs to an abbreviation and `after` goes on with the sentence.
fn is_abbreviation(before: &str, after: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | '¿' | '¡' | '"' | '«')).next();
    let written = word.unwrap_or_default().trim_end_matches('.');
    let word = written.to_lowercase();
    if BEFORE_A_NAME.contains(&word.as_str()) {
        return true;
    }
    let lettered = word.split('.').all(|part| (1..=2).contains(&part.chars().count()) && part.chars().all(char::is_alphabetic));
    let dotted = lettered && word.contains('.');
    let initial = lettered && word.chars().count() == 1 && word != "y" && word != "o" && word != "a";
    let goes_on = after.chars().next().is_some_and(|c| c.is_lowercase() || c.is_numeric());
    // A name such as U.S. goes on in most sentences; one that ends with it is said together with the next.
    let name = dotted && written.chars().all(|c| c == '.' || c.is_uppercase());
    initial || name || (goes_on && (dotted || WITHIN_A_SENTENCE.contains(&word.as_str())))
}

pub(super) fn word_count(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// Cuts what is too long into about equal parts, at white space where there is any.
fn bounded(mut piece: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    loop {
        let chars = piece.chars().count();
        if chars <= CLAUSE_CHARS_MAX {
            parts.push(piece);
            return parts;
        }
        let aim = chars.div_ceil(chars.div_ceil(CLAUSE_CHARS_MAX));
        let (mut before, mut after, mut hard) = (None, None, piece.len());
        for (count, (at, c)) in piece.char_indices().enumerate().take(CLAUSE_CHARS_MAX + 1) {
            hard = at;
            if c.is_whitespace() && count < CLAUSE_CHARS_MAX {
                let end = at + c.len_utf8();
                if count < aim { before = Some(end) } else { after = after.or(Some(end)) }
            }
        }
        let (part, rest) = piece.split_at(after.or(before).unwrap_or(hard));
        parts.push(part);
        piece = rest;
    }
}

/// Characters of one clause: about 12 s of speech, as long as a listener holds in mind and a cut may repeat.
pub const CLAUSE_CHARS_MAX: usize = 180;
/// A word alone sounds clipped, and is too short to be resumed at.
pub(super) const WORDS_MIN: usize = 2;
/// Never the end of a sentence.
const BEFORE_A_NAME: [&str; 27] = [
    "sr", "sra", "srta", "sres", "dr", "dra", "dña", "prof", "ing", "lic", "avda", "núm", "tel", "pág", "art", "ee", "mr", "mrs", "ms",
    "st", "vs", "e.g", "i.e", "tlf", "tfno", "apdo", "apto",
];
/// The end of a sentence only when a new one begins after it.
const WITHIN_A_SENTENCE: [&str; 38] = [
    "etc", "aprox", "ext", "máx", "mín", "ud", "uds", "uu", "ej", "no", "approx", "inc", "ltd", "max", "dept", "dto", "izq", "dcha", "ene",
    "feb", "mar", "abr", "may", "jun", "jul", "ago", "sep", "sept", "oct", "nov", "dic", "jan", "apr", "aug", "dec", "depto", "hab",
    "ctra",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spanish_is_cut_at_its_punctuation() {
        assert_eq!(
            clauses("Hola, ¿qué tal? El saldo es 3,5 millones: a las 10:30 lo confirmo... ¡Muchas gracias, Sra. López!"),
            ["Hola, ¿qué tal? ", "El saldo es 3,5 millones: ", "a las 10:30 lo confirmo... ", "¡Muchas gracias, ", "Sra. López!"]
        );
        assert_eq!(
            clauses("Vive en EE. UU. desde las 9 a.m. y llega hoy. Pagó tasas, etc. Luego se fue."),
            ["Vive en EE. UU. desde las 9 a.m. y llega hoy. ", "Pagó tasas, ", "etc. Luego se fue."]
        );
    }

    #[test]
    fn abbreviations_of_addresses_and_dates_and_names_in_capitals_end_no_clause() {
        for whole in [
            "He served in the U.S. Army for years.",
            "Viaja a EE.UU. Mañana vuelve.",
            "Llame al tlf. 912 345 678 hoy.",
            "Escriba al apdo. Correos 12 hoy.",
            "Tiene un 10 % de dto. en todo.",
            "Vive en el 2.º izq. de esa calle.",
            "Llegará el 5 de ene. de este año.",
            "Llegará el 5 ene. 2027 por la tarde.",
            "It comes on Jan. 5 in the morning.",
        ] {
            assert_eq!(clauses(whole), [whole]);
        }
        assert_eq!(clauses("Gire a la izq. Luego siga recto."), ["Gire a la izq. ", "Luego siga recto."]);
        assert_eq!(clauses("Come at 8 p.m. We are open."), ["Come at 8 p.m. ", "We are open."]);
        assert_eq!(clauses("Se ve el mar. Nada más hay."), ["Se ve el mar. ", "Nada más hay."]);
    }

    #[test]
    fn english_is_cut_at_its_punctuation() {
        assert_eq!(
            clauses("Dr. J. Smith said \"it is done.\" The total is $3.50; see www.example.com, e.g. tonight. OK?"),
            ["Dr. J. Smith said \"it is done.\" ", "The total is $3.50; ", "see www.example.com, ", "e.g. tonight. OK?"]
        );
    }

    #[test]
    fn a_single_word_joins_its_neighbour_and_stands_alone_only_when_it_is_all() {
        assert_eq!(clauses("Sí. Ahora mismo lo miro. Gracias."), ["Sí. Ahora mismo lo miro. Gracias."]);
        assert_eq!(clauses("¿Sí?"), ["¿Sí?"]);
        assert_eq!(clauses("..."), ["..."]);
        assert_eq!(clauses(""), Vec::<&str>::new());
    }

    #[test]
    fn a_long_sentence_is_cut_at_spaces_into_parts_of_like_length() {
        let text = "palabra ".repeat(50);
        let parts = clauses(&text);
        assert_eq!(parts.len(), 3);
        assert!(parts.iter().all(|part| part.ends_with(' ') && (100..=CLAUSE_CHARS_MAX).contains(&part.chars().count())));
        let solid = "ñ".repeat(400);
        assert_eq!(clauses(&solid).concat(), solid);
    }

    proptest! {
        #[test]
        fn clauses_put_together_are_the_text_and_each_is_bounded(text in "([a-zA-ZñÁ0-9]{1,12}[ .,;:!?…\\n\")¿]{1,3}){0,80}|\\PC{0,400}") {
            let parts = clauses(&text);
            prop_assert_eq!(&parts.concat(), &text);
            prop_assert!(parts.iter().all(|p| !p.is_empty() && p.chars().count() <= CLAUSE_CHARS_MAX));
        }

        #[test]
        fn no_clause_has_fewer_than_two_words_when_others_do(text in "([a-z]{1,12}[ ,.;]{1,2} ){4,60}") {
            let parts = clauses(&text);
            prop_assert!(parts.iter().all(|p| word_count(p) >= WORDS_MIN), "{:?}", parts);
        }
    }
}
