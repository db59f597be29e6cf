//! What a response says: its words in clauses, its audio after them, and how much of it came, which bounds what can have been heard.

use recado_core::ResponseId;
use recado_core::conversation::input::{Content, ModelEvent};

use super::outbox::About;
use super::{Said, Session};
use crate::cognition::models::notes;
use crate::cognition::models::port::Output;
use crate::cognition::models::realtime::wire::{ClientBody, Format};

/// A response that had speech.
#[derive(Debug)]
pub(super) struct Spoken {
    pub response: ResponseId,
    items: Vec<SpokenItem>,
}

/// An item of it.
#[derive(Debug)]
struct SpokenItem {
    id: String,
    content_index: u32,
    /// How much audio came, less what was cut (bytes).
    bytes: usize,
    words: Words,
}

/// The words of an item, and the audio that came before any of them.
#[derive(Debug, Default)]
struct Words {
    /// Words that have not been said yet.
    pending: String,
    /// Whether any have been said.
    any: bool,
    /// Whether any have come.
    came: bool,
    held: Vec<u8>,
}

/// What is to be said, in order.
enum Piece {
    Clause(String),
    Audio(Vec<u8>),
}

impl Spoken {
    pub fn new(response: ResponseId) -> Self {
        Self { response, items: Vec::new() }
    }

    fn item(&mut self, id: &str) -> Option<&mut SpokenItem> {
        let place = match self.items.iter().position(|item| item.id == id) {
            Some(place) => place,
            None if self.items.len() == ITEMS_MAX => return None,
            None => {
                self.items.push(SpokenItem { id: id.to_owned(), content_index: 0, bytes: 0, words: Words::default() });
                self.items.len() - 1
            }
        };
        self.items.get_mut(place)
    }
}

impl Words {
    fn add(&mut self, delta: &str) -> Vec<Piece> {
        self.came |= !delta.is_empty();
        self.pending.push_str(delta);
        let mut pieces = Vec::new();
        while let Some(end) = clause_end(&self.pending) {
            self.say_until(end, &mut pieces);
        }
        pieces
    }

    fn audio(&mut self, delta: Vec<u8>, format: Format) -> Vec<Piece> {
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
            if format.duration_ms(self.held.len()) > HELD_MS_MAX {
                self.release(&mut pieces);
            }
        }
        pieces
    }

    /// No more words come; `whole` are all of them, where the service says so.
    fn complete(&mut self, whole: Option<&str>) -> Vec<Piece> {
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
        if !clause.trim().is_empty() {
            pieces.push(Piece::Clause(clause));
            self.release(pieces);
        }
    }

    fn release(&mut self, pieces: &mut Vec<Piece>) {
        self.any = true;
        if !self.held.is_empty() {
            pieces.push(Piece::Audio(std::mem::take(&mut self.held)));
        }
    }
}

/// Where a clause ends, its white space included: it is known to have ended when something follows.
fn clause_end(text: &str) -> Option<usize> {
    let mut ended = false;
    for (place, c) in text.char_indices() {
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

impl Session {
    pub(super) fn words(&mut self, response_id: &str, item_id: String, delta: &str) {
        self.speaks(response_id, &item_id, |item, _| item.words.add(delta));
    }

    pub(super) fn words_complete(&mut self, response_id: &str, item_id: &str, whole: Option<&str>) {
        self.speaks(response_id, item_id, |item, _| item.words.complete(whole));
    }

    pub(super) fn audio(&mut self, response_id: &str, item_id: String, content_index: u32, delta: Vec<u8>) {
        if self.renders.audio(response_id, &delta, &mut self.outbox) {
            return;
        }
        self.speaks(response_id, &item_id, |item, format| {
            item.content_index = content_index;
            item.bytes += delta.len();
            item.words.audio(delta, format)
        });
    }

    /// The response has ended: what was held back of it comes now.
    pub(super) fn speech_ended(&mut self, response: ResponseId) {
        let Some(spoken) = self.spoken.iter_mut().rfind(|spoken| spoken.response == response) else { return };
        let pieces: Vec<Piece> = spoken
            .items
            .iter_mut()
            .flat_map(|item| {
                let mut pieces = item.words.complete(None);
                item.words.release(&mut pieces);
                pieces
            })
            .collect();
        self.say_pieces(response, pieces);
    }

    fn speaks(&mut self, response_id: &str, item_id: &str, what: impl FnOnce(&mut SpokenItem, Format) -> Vec<Piece>) {
        let format = self.setup.format;
        let Some(active) = self.generation.heard_of(response_id) else { return };
        let response = active.response;
        let Some(spoken) = self.spoken.iter_mut().rfind(|spoken| spoken.response == response) else { return };
        let Some(item) = spoken.item(item_id) else { return };
        let pieces = what(item, format);
        self.say_pieces(response, pieces);
    }

    fn say_pieces(&mut self, response: ResponseId, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Clause(text) => {
                    let content = Content::Text { text, language: self.language() };
                    self.say_event(ModelEvent::Clause { response, content });
                }
                Piece::Audio(bytes) => self.outbox.say(Said::Output(Output::Audio { response, bytes })),
            }
        }
    }

    /// Cuts the model's memory of a response to what was heard: the item that was playing at its heard position, and those behind it
    /// whole. What came before was heard.
    pub(super) fn truncate(&mut self, response: ResponseId, heard_ms: u64, heard_text: String) {
        let format = self.setup.format;
        let ready = self.ready();
        let Some(spoken) = self.spoken.iter_mut().rfind(|spoken| spoken.response == response) else {
            // Another connection said it, or none: what was heard of it is known as `Heard`.
            return;
        };
        let mut left_ms = heard_ms;
        let mut bodies = Vec::new();
        spoken.items.retain_mut(|item| {
            let length_ms = format.duration_ms(item.bytes);
            let heard_ms = left_ms.min(length_ms);
            left_ms -= heard_ms;
            if heard_ms == 0 {
                bodies.push(ClientBody::ItemDelete { item_id: item.id.clone() });
                return false;
            }
            if heard_ms < length_ms {
                let (item_id, content_index) = (item.id.clone(), item.content_index);
                bodies.push(ClientBody::ItemTruncate { item_id, content_index, audio_end_ms: heard_ms });
                item.bytes = heard_ms as usize * format.bytes_per_ms();
            }
            true
        });
        if !ready || bodies.is_empty() {
            return;
        }
        for body in bodies {
            self.outbox.send(About::Other, body);
        }
        if !heard_text.trim().is_empty() {
            // The service has forgotten the words of what it cut.
            self.context(notes::cut_off(&heard_text));
        }
    }
}

/// A response of more messages is none that anybody listens to.
const ITEMS_MAX: usize = 16;
/// So much audio waits for its first words (ms): a caller hears the silence.
const HELD_MS_MAX: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CloudAudio;

    fn shown(pieces: Vec<Piece>) -> Vec<String> {
        pieces
            .into_iter()
            .map(|piece| match piece {
                Piece::Clause(text) => text,
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
    fn the_first_words_are_said_before_the_first_sound_and_the_sound_does_not_wait_for_a_sentence() {
        let format = Format(CloudAudio::Pcmu);
        let mut words = Words::default();
        assert_eq!(shown(words.audio(vec![0; 80], format)), [""; 0], "no word yet");
        assert_eq!(shown(words.add("Un mo")), [""; 0]);
        assert_eq!(shown(words.audio(vec![0; 80], format)), ["Un", "<80>", "<80>"]);
        assert_eq!(shown(words.audio(vec![0; 80], format)), ["<80>"]);
        assert_eq!(shown(words.add("mento. Y")), [" momento. "]);
    }

    #[test]
    fn audio_without_words_is_not_held_for_long_and_none_is_lost() {
        let format = Format(CloudAudio::Pcmu);
        let mut words = Words::default();
        let mut bytes = 0;
        for n in 1..=100 {
            for piece in words.audio(vec![0; 160], format) {
                let Piece::Audio(audio) = piece else { panic!("there are no words") };
                assert!(n > 25, "half a second waits for words");
                bytes += audio.len();
            }
        }
        assert_eq!(bytes, 100 * 160);
        assert_eq!(shown(words.complete(Some("Tarde."))), ["Tarde."]);
    }
}
