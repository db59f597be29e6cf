//! What the caller says, as the service is told it: one activity for each turn, from where speech is certain to where it is answered.
//!
//! The beginning of an activity interrupts the model. So none begins for what may still prove no speech, and none while a response is
//! wanted: what is heard meanwhile is kept.

use recado_core::Time;

use super::{Context, Session};
use crate::cognition::models::gemini::wire::{Blob, ClientMessage, RealtimeInput};
use crate::cognition::models::notes::Role;
use crate::config::GeminiText;

/// What the service knows of what the caller says at the moment.
#[derive(Debug, Default)]
pub(super) struct Activity {
    open: bool,
    /// When it began.
    since: Option<Time>,
    /// Counts what the caller has said.
    utterance: u64,
    /// The words of the latest, as far as they are written down.
    words: String,
    /// Whether it has been answered, and so is part of what was said.
    ended: bool,
}

impl Activity {
    /// Whether the service has been told that the caller begins, and not that he has ended.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// When the latest began.
    pub fn since(&self) -> Option<Time> {
        self.since
    }

    pub fn begin_connection(&mut self) {
        self.open = false;
    }

    fn name(&self) -> String {
        self.utterance.to_string()
    }
}

impl Session {
    /// Sends what the caller says, where that can be done.
    pub(super) fn stream(&mut self, now: Time) {
        if self.generation.is_wanted() {
            return;
        }
        if !self.activity.open && self.caller.has_spoken() {
            self.begin_activity(now);
        }
        if self.activity.open {
            self.send_heard();
        }
    }

    pub(super) fn send_heard(&mut self) {
        while let Some(piece) = self.caller.next_piece() {
            self.hear_this(piece);
        }
    }

    pub(super) fn hear_this(&mut self, piece: Vec<u8>) {
        self.send(ClientMessage::RealtimeInput(RealtimeInput::Audio(Blob::audio(piece))));
    }

    pub(super) fn begin_activity(&mut self, now: Time) {
        // A service that waits for an answer takes no audio.
        self.answer_open_calls();
        if self.setup.text == GeminiText::Content {
            self.tell_pending(false);
        }
        self.activity.open = true;
        self.activity.since = Some(now);
        self.activity.utterance += 1;
        self.activity.words.clear();
        self.activity.ended = false;
        self.send(ClientMessage::RealtimeInput(RealtimeInput::ActivityStart {}));
        self.tell_in_activity();
    }

    /// The model is to answer what the caller has said, and `text`.
    pub(super) fn end_activity(&mut self, text: Option<(Role, String)>) {
        self.tell_in_activity();
        if let Some((role, text)) = text {
            self.send(ClientMessage::RealtimeInput(RealtimeInput::Text(Context::marked(role, text))));
        }
        self.send(ClientMessage::RealtimeInput(RealtimeInput::ActivityEnd {}));
        self.activity.open = false;
    }

    /// What the model is to know comes in its place in what the caller says: content would cut into it.
    fn tell_in_activity(&mut self) {
        for (role, text) in self.context.take() {
            self.send(ClientMessage::RealtimeInput(RealtimeInput::Text(Context::marked(role, text))));
        }
    }

    /// What the caller has said is part of the conversation.
    pub(super) fn utterance_ended(&mut self) {
        self.activity.ended = true;
        let name = self.activity.name();
        match self.activity.words.trim() {
            "" => self.context.memory.caller_spoke(name),
            words => self.context.memory.caller_said(&name, words.to_owned()),
        }
    }

    /// More words of what the caller said last. They come when they come.
    pub(super) fn caller_said(&mut self, text: &str) {
        let activity = &mut self.activity;
        if activity.words.len() + text.len() <= WORDS_BYTES_MAX {
            activity.words.push_str(text);
        }
        if activity.ended && !text.trim().is_empty() {
            self.context.memory.caller_said(&activity.name(), activity.words.trim().to_owned());
        }
    }
}

/// More than anybody says in a minute, which is as much as is kept of what is heard.
const WORDS_BYTES_MAX: usize = 8 * 1024;
