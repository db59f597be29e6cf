//! The words of a model's speech, brought before the audio that says them, whichever of the two the service sends first.

use recado_core::ResponseId;

use super::port::Output;

/// The words of one stretch of speech, and the audio that came before any of them.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Words that have not been said yet.
    pending: String,
    /// Whether any have been said.
    any: bool,
    /// Whether any have come.
    came: bool,
    held: Vec<u8>,
}

/// What is to be said, in order.
pub(super) enum Piece {
    /// Words of the audio that follows.
    Words(String),
    /// Speech.
    Audio(Vec<u8>),
}

impl Piece {
    /// It, as what a model says in a response.
    pub fn of(self, response: ResponseId) -> Output {
        match self {
            Self::Words(text) => Output::Words { response, text },
            Self::Audio(bytes) => Output::Audio { response, bytes },
        }
    }
}

impl Words {
    /// More words, which may end inside of one.
    pub fn add(&mut self, delta: &str) -> Vec<Piece> {
        self.came |= !delta.is_empty();
        self.pending.push_str(delta);
        let mut pieces = Vec::new();
        // Each is looked at once, however many come at a time.
        let text = std::mem::take(&mut self.pending);
        let mut rest = text.as_str();
        while let Some(end) = clause_end(rest).or_else(|| endless(rest)) {
            let (clause, after) = rest.split_at(end);
            self.say(clause, &mut pieces);
            rest = after;
        }
        rest.clone_into(&mut self.pending);
        pieces
    }

    /// More speech, of so many bytes a millisecond.
    pub fn audio(&mut self, delta: Vec<u8>, bytes_per_ms: usize) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if !self.any {
            // The first sound does not wait for the end of a sentence.
            if let Some(end) = self.pending.trim_end().rfind(char::is_whitespace) {
                self.say_until(end, &mut pieces);
            }
        }
        if self.any {
            pieces.push(Piece::Audio(delta));
        } else {
            self.held.extend(delta);
            if self.held.len() > HELD_MS_MAX * bytes_per_ms {
                self.release(&mut pieces);
            }
        }
        pieces
    }

    /// No more words come; `whole` are all of them, where the service says so.
    pub fn complete(&mut self, whole: Option<&str>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if let (false, Some(whole)) = (self.came, whole) {
            pieces.extend(self.add(whole));
        }
        self.say_until(self.pending.len(), &mut pieces);
        pieces
    }

    fn say_until(&mut self, end: usize, pieces: &mut Vec<Piece>) {
        let rest = self.pending.split_off(end);
        let clause = std::mem::replace(&mut self.pending, rest);
        self.say(&clause, pieces);
    }

    fn say(&mut self, clause: &str, pieces: &mut Vec<Piece>) {
        if !clause.trim().is_empty() {
            pieces.push(Piece::Words(clause.to_owned()));
            self.release(pieces);
        }
    }

    /// No more words and no more speech come for now: what there is of both.
    pub fn finish(&mut self) -> Vec<Piece> {
        let mut pieces = self.complete(None);
        self.release(&mut pieces);
        pieces
    }

    fn release(&mut self, pieces: &mut Vec<Piece>) {
        self.any = true;
        if !self.held.is_empty() {
            pieces.push(Piece::Audio(std::mem::take(&mut self.held)));
        }
    }
}

/// Where a clause ends, its white space included: it is known to have ended when something follows. None within what is too long for one.
fn clause_end(text: &str) -> Option<usize> {
    let mut ended = false;
    for (place, c) in text.char_indices().take_while(|(place, _)| *place <= CLAUSE_BYTES_MAX) {
        if c.is_whitespace() {
            continue;
        }
        if ended && text.get(..place).is_some_and(|before| before.ends_with(char::is_whitespace)) {
            return Some(place);
        }
        ended = matches!(c, '.' | '!' | '?' | '…' | ';' | ':');
    }
    None
}

/// Where words that come without an end are cut: behind the last whole one of what a clause may have.
fn endless(text: &str) -> Option<usize> {
    if text.len() <= CLAUSE_BYTES_MAX {
        return None;
    }
    let (mut most, mut word) = (text.len(), None);
    for (place, c) in text.char_indices() {
        let end = place + c.len_utf8();
        if end > CLAUSE_BYTES_MAX {
            most = place;
            break;
        }
        word = if c.is_whitespace() { Some(end) } else { word };
    }
    Some(word.unwrap_or(most))
}

/// Longer than any sentence that is spoken: half a minute.
const CLAUSE_BYTES_MAX: usize = 500;
/// So much audio waits for its first words (ms): a caller hears the silence.
const HELD_MS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: Vec<Piece>) -> Vec<String> {
        pieces
            .into_iter()
            .map(|piece| match piece {
                Piece::Words(text) => text,
                Piece::Audio(bytes) => format!("<{}>", bytes.len()),
            })
            .collect()
    }

    #[test]
    fn words_come_in_clauses_whatever_they_are_cut_into() {
        let mut words = Words::default();
        let mut said = Vec::new();
        for delta in ["Cla", "ro. ", "Son 3", ".5 euros", "! ¿Al", "go más"] {
            said.extend(shown(words.add(delta)));
        }
        said.extend(shown(words.complete(Some("not used"))));
        assert_eq!(said, ["Claro. ", "Son 3.5 euros! ", "¿Algo más"]);
    }

    #[test]
    fn words_without_an_end_are_not_held_for_ever_and_none_is_lost() {
        for endless in ["y otra más, ", "ñandú"] {
            let (mut words, mut said, mut held) = (Words::default(), String::new(), 0);
            for _ in 0..10_000 {
                shown(words.add(endless)).iter().for_each(|clause| said.push_str(clause));
                held = held.max(words.pending.len());
            }
            assert!(held < 1_000, "{held} bytes wait");
            shown(words.complete(None)).iter().for_each(|clause| said.push_str(clause));
            assert_eq!(said, endless.repeat(10_000));
        }
        let mut words = Words::default();
        let clauses = shown(words.add(&"palabra ".repeat(200)));
        assert!(clauses.iter().all(|clause| clause.ends_with("palabra ")), "none is cut in two: {clauses:?}");
    }

    #[test]
    fn the_first_words_are_said_before_the_first_sound_and_the_sound_does_not_wait_for_a_sentence() {
        let mut words = Words::default();
        assert_eq!(shown(words.audio(vec![0; 80], 8)), [""; 0], "no word yet");
        assert_eq!(shown(words.add("Un mo")), [""; 0]);
        assert_eq!(shown(words.audio(vec![0; 80], 8)), ["Un", "<80>", "<80>"]);
        assert_eq!(shown(words.audio(vec![0; 80], 8)), ["<80>"]);
        assert_eq!(shown(words.add("mento. Y")), [" momento. "]);
    }

    #[test]
    fn audio_without_words_is_not_held_for_long_and_none_is_lost() {
        let mut words = Words::default();
        let mut bytes = 0;
        for n in 1..=100 {
            for piece in words.audio(vec![0; 160], 8) {
                let Piece::Audio(audio) = piece else { panic!("there are no words") };
                assert!(n > 25, "half a second waits for words");
                bytes += audio.len();
            }
        }
        assert_eq!(bytes, 100 * 160);
        assert_eq!(shown(words.complete(Some("Tarde."))), ["Tarde."]);
    }
}
