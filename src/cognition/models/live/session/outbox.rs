//! What a session wants done, and what of it the service has still to acknowledge.

use std::collections::VecDeque;

use recado_core::Time;

use super::{Action, Said};
use crate::cognition::models::link;
use crate::cognition::models::live::wire::{ClientBody, ClientEvent, SessionSettings};

/// What an event that was sent is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// The start of the session.
    Start,
    /// Something that the model is told.
    Append,
}

/// What a session wants done.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    actions: Vec<Action>,
    /// Counts events.
    count: u64,
    /// What has not been acknowledged, oldest first.
    open: VecDeque<(String, About, Time)>,
    /// Whether it has been said of this session that the service acknowledges nothing.
    complained: bool,
}

impl Outbox {
    /// Starts the session.
    pub fn start(&mut self, now: Time, session: SessionSettings) {
        self.send(now, About::Start, ClientBody::Start { session: Box::new(session) });
    }

    /// Something for the model to know, and not to say.
    pub fn think(&mut self, now: Time, text: &str, delegation_id: Option<&str>) {
        for content in pieces(text) {
            let delegation_id = delegation_id.map(str::to_owned);
            self.send(now, About::Append, ClientBody::Thinking { content, delegation_id });
        }
    }

    /// Something for the model to speak about.
    pub fn comment(&mut self, now: Time, text: &str) {
        for content in pieces(text) {
            self.send(now, About::Append, ClientBody::Commentary { content, delegation_id: None });
        }
    }

    /// The caller's audio, which nobody acknowledges.
    pub fn audio(&mut self, audio: Vec<u8>) {
        self.actions.push(Action::Send(ClientEvent { event_id: None, body: ClientBody::Audio { audio } }));
    }

    pub fn say(&mut self, said: Said) {
        self.actions.push(Action::Said(said));
    }

    pub fn reconnect(&mut self, reason: &str) {
        link::reconnect(&mut self.actions, reason);
    }

    /// The service has taken an event, or complains of it. What it was about, where that is known, and when it was sent.
    pub fn answered(&mut self, event_id: &str) -> Option<(About, Time)> {
        let place = self.open.iter().position(|(open, ..)| open == event_id)?;
        self.open.remove(place).map(|(_, about, since)| (about, since))
    }

    /// The session has started.
    pub fn began(&mut self) {
        self.open.retain(|(_, about, _)| *about != About::Start);
    }

    /// When something has waited for so long to be acknowledged that it is said.
    pub fn overdue_at(&self, answer_timeout_ms: u64) -> Option<Time> {
        self.open.front().filter(|_| !self.complained).map(|(.., since)| since.plus(answer_timeout_ms))
    }

    /// Says, once in a session, that the service does not acknowledge what it is told.
    pub fn complain(&mut self, now: Time, answer_timeout_ms: u64) {
        if self.overdue_at(answer_timeout_ms).is_some_and(|due| now >= due) {
            self.complained = true;
            self.say(Said::Unacknowledged { appends: self.open.len() });
        }
    }

    pub fn begin_connection(&mut self) {
        self.open.clear();
        self.complained = false;
    }

    pub fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    fn send(&mut self, now: Time, about: About, body: ClientBody) {
        let event_id = self.event_id();
        if self.open.len() == OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back((event_id.clone(), about, now));
        self.actions.push(Action::Send(ClientEvent { event_id: Some(event_id), body }));
    }

    fn event_id(&mut self) -> String {
        self.count += 1;
        format!("recado_{}", self.count)
    }
}

/// A text in pieces that the service takes, cut at white space where there is any.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() && pieces.len() < PIECES_MAX {
        let (piece, after) = rest.split_at(end_of_piece(rest));
        pieces.push(piece.trim_end().to_owned());
        rest = after.trim_start();
    }
    pieces
}

fn end_of_piece(text: &str) -> usize {
    if text.len() <= APPEND_BYTES_MAX {
        return text.len();
    }
    let most = (0..=APPEND_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let head = text.get(..most).unwrap_or_default();
    head.rfind(char::is_whitespace).filter(|end| *end > 0).unwrap_or(most)
}

/// A service takes 500 tokens, and a token is a byte at least.
const APPEND_BYTES_MAX: usize = 500;
/// What is longer was written for a reader.
const PIECES_MAX: usize = 16;
/// What is older was acknowledged, or never will be.
const OPEN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_goes_in_pieces_that_end_with_a_word_and_none_of_it_is_lost() {
        let text = "áéíóú ".repeat(300);
        let cut = pieces(&text);
        assert!(cut.len() > 5 && cut.iter().all(|piece| piece.len() <= APPEND_BYTES_MAX && piece.ends_with("áéíóú")));
        assert_eq!(cut.join(" "), text.trim());
        let unbroken = "é".repeat(600);
        assert_eq!(pieces(&unbroken).concat(), unbroken, "what has no white space is cut between letters");
        assert_eq!(pieces("  "), [""; 0]);
        assert_eq!(pieces(&"a ".repeat(100_000)).len(), PIECES_MAX);
    }
}
