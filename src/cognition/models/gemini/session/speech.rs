//! What a response says: its words in clauses, its audio after them.

use recado_core::{ResponseId, Time};

use super::{Said, Session};
use crate::cognition::models::gemini::wire::{OUTPUT_HZ, Transcription};
use crate::cognition::models::notes;
use crate::cognition::models::words::Piece;

impl Session {
    /// More of what the model says, as sound.
    pub(super) fn sound(&mut self, now: Time, sound: Vec<u8>) {
        let Some(active) = self.generation.speaks(now) else { return self.unasked(now) };
        let (response, pieces) = (active.response, active.words.audio(sound, OUTPUT_BYTES_PER_MS));
        self.remembers(response);
        self.say_pieces(response, pieces);
    }

    /// More of its words. They keep no order with anything else: those that are nobody's begin no turn.
    pub(super) fn words(&mut self, now: Time, transcription: &Transcription) {
        if transcription.text.is_empty() && !transcription.finished {
            return;
        }
        let Some(active) = self.generation.writes(now) else { return };
        let response = active.response;
        active.came |= !transcription.text.is_empty();
        active.all_words |= transcription.finished;
        let pieces = active.words.add(&transcription.text);
        self.remembers(response);
        self.say_pieces(response, pieces);
        self.all_came(now);
    }

    pub(super) fn say_pieces(&mut self, response: ResponseId, pieces: Vec<Piece>) {
        for piece in pieces {
            self.say(Said::Output(piece.of(response)));
        }
    }

    /// The model remembers this response as it made it.
    fn remembers(&mut self, response: ResponseId) {
        if self.spoken.back() != Some(&response) {
            if self.spoken.len() == SPOKEN_MAX {
                self.spoken.pop_front();
            }
            self.spoken.push_back(response);
        }
    }

    /// The protocol can't cut what the model remembers: it is told how much of it was heard.
    pub(super) fn truncate(&mut self, response: ResponseId, heard_text: &str) {
        // What another session said, or none, is known as `Heard`.
        if self.spoken.contains(&response) {
            let heard = heard_text.trim();
            self.context.heard_only(response, notes::cut_off(heard));
        }
    }

    /// The service says something that nobody asked for.
    pub(super) fn unasked(&mut self, now: Time) {
        if self.generation.drop_unasked(now) {
            self.totals.unasked += 1;
            self.renewal.handle = None;
            self.say(Said::Trouble("the model speaks without being asked: it is not heard".to_owned()));
        }
    }
}

/// The last few can still be cut to what was heard.
const SPOKEN_MAX: usize = 8;
/// 16-bit samples.
const OUTPUT_BYTES_PER_MS: usize = OUTPUT_HZ as usize / 1_000 * 2;
