//! What a response says: its words in clauses, its audio after them, and how much of it came, which bounds what can have been heard.

use recado_core::ResponseId;

use super::outbox::About;
use super::{Said, Session};
use crate::cognition::models::notes;
use crate::cognition::models::realtime::wire::{ClientBody, Format};
use crate::cognition::models::words::{Piece, Words};

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

impl Spoken {
    pub fn new(response: ResponseId) -> Self {
        Self { response, items: Vec::new() }
    }

    /// Whether anything came of it.
    pub fn has_speech(&self) -> bool {
        !self.items.is_empty()
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
            item.words.audio(delta, format.bytes_per_ms())
        });
    }

    /// The response has ended: what was held back of it comes now.
    pub(super) fn speech_ended(&mut self, response: ResponseId) {
        let Some(spoken) = self.spoken.iter_mut().rfind(|spoken| spoken.response == response) else { return };
        let pieces: Vec<Piece> = spoken.items.iter_mut().flat_map(|item| item.words.finish()).collect();
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
        if !pieces.is_empty() {
            self.memory.answered();
        }
        for piece in pieces {
            self.outbox.say(Said::Output(piece.of(response)));
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
