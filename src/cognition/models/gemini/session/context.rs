//! What the model is to know beside what is said: told with what it is asked next, never in between, where it would interrupt it.

use std::collections::VecDeque;

use recado_core::conversation::effect::{HeardText, Purpose, Standing};
use recado_core::{ResponseId, Time};

use super::Session;
use crate::cognition::models::gemini::wire::{ClientContent, ClientMessage, Content, ContentRole};
use crate::cognition::models::memory::{Memory, Piece, spoken};
use crate::cognition::models::notes::{self, Role};
use crate::config::GeminiText;

/// What the model is to know.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// The conversation, for a session that knows nothing of it.
    pub memory: Memory<(Role, String)>,
    /// Whether there has been anything.
    any: bool,
    /// What this session has not been told yet, oldest first.
    pending: VecDeque<Pending>,
}

#[derive(Debug)]
struct Pending {
    /// The response that it is about, of which only the latest holds.
    about: Option<ResponseId>,
    role: Role,
    text: String,
}

impl Context {
    /// Whether nothing has been said in this conversation.
    pub fn is_empty(&self) -> bool {
        !self.any
    }

    pub fn told(&mut self, text: &str) {
        self.note(Role::System, notes::told(text));
    }

    pub fn update(&mut self, text: &str) {
        self.note(Role::System, notes::update(text));
    }

    pub fn cancelling(&mut self, say: &str) {
        self.note(Role::System, notes::cancelling(say));
    }

    /// To be known now and by every later session.
    pub fn note(&mut self, role: Role, text: String) {
        self.of_history(role, text.clone());
        self.know(role, text);
    }

    /// To be known by every later session; this one is told otherwise.
    pub fn of_history(&mut self, role: Role, text: String) {
        self.any = true;
        self.memory.note((role, text));
    }

    /// To be known by this session.
    pub fn know(&mut self, role: Role, text: String) {
        self.push(Pending { about: None, role, text });
    }

    /// How far a response was heard; only the latest of this holds.
    pub fn heard_only(&mut self, response: ResponseId, text: String) {
        self.pending.retain(|pending| pending.about != Some(response));
        self.push(Pending { about: Some(response), role: Role::System, text });
    }

    fn push(&mut self, pending: Pending) {
        if self.pending.len() == PENDING_MAX {
            self.pending.pop_front();
        }
        self.pending.push_back(pending);
    }

    /// All that this session has not been told yet, which it is told now.
    pub fn take(&mut self) -> Vec<(Role, String)> {
        self.pending.drain(..).map(|pending| (pending.role, pending.text)).collect()
    }

    /// Words in the caller's place: bracketed where they are not the caller's.
    pub fn marked(role: Role, text: String) -> String {
        match role {
            Role::User => text,
            Role::System => format!("[{text}]"),
            Role::Assistant => format!("[You have said to the caller: {text:?}]"),
        }
    }
}

impl Session {
    /// What was heard of a segment is remembered for other sessions. This one knows its own words; those that the box spoke in its name
    /// it is told when they are settled.
    pub(super) fn heard(&mut self, heard: HeardText) {
        let own = match heard.purpose {
            // `Told` says it, whole.
            Purpose::Clause { .. } => return,
            Purpose::Reply { response } => self.spoken.contains(&response),
            _ => false,
        };
        if !own
            && heard.standing != Standing::Provisional
            && let Some((role, text)) = spoken(&heard.text, heard.standing)
        {
            self.context.know(role, text);
        }
        self.context.any = true;
        self.context.memory.heard(heard);
    }

    /// Asks the model for an answer to `text`, and to nothing that the caller says.
    pub(super) fn ask_in_text(&mut self, now: Time, text: Option<(Role, String)>) {
        match self.setup.text {
            GeminiText::Content => {
                self.context.pending.extend(text.map(|(role, text)| Pending { about: None, role, text }));
                self.tell_pending(true);
            }
            GeminiText::Realtime => {
                self.begin_activity(now);
                self.end_activity(text);
            }
        }
    }

    /// Tells the model what it has not been told yet; it answers where `turn_complete` says so.
    pub(super) fn tell_pending(&mut self, turn_complete: bool) {
        let turns = turns(self.context.take());
        if turn_complete || !turns.is_empty() {
            self.send(ClientMessage::ClientContent(ClientContent { turns, turn_complete }));
        }
    }

    /// Tells a new session what went before, where `seeds` says that it waits for that.
    pub(super) fn tell_history(&mut self, seeds: bool) {
        // It is among what follows.
        self.context.pending.clear();
        let mut history: Vec<(Role, String)> = Vec::new();
        for piece in self.context.memory.restore(String::new, spoken) {
            history.push(match piece {
                Piece::Spoken(role, text, _) => (role, text),
                Piece::Note(note) => note.clone(),
            });
        }
        history.extend(self.calls.under_way().map(|text| (Role::System, text)));
        let content = self.setup.text == GeminiText::Content;
        if history.is_empty() && (content || !seeds) {
            return;
        }
        history.insert(0, (Role::System, notes::so_far()));
        if content || seeds {
            self.send(ClientMessage::ClientContent(ClientContent { turns: turns(history), turn_complete: !content }));
        } else {
            history.into_iter().for_each(|(role, text)| self.context.know(role, text));
        }
    }
}

/// These words as content, one piece for each side that speaks.
fn turns(said: Vec<(Role, String)>) -> Vec<Content> {
    let mut turns: Vec<Content> = Vec::new();
    for (role, text) in said {
        let (role, text) = match role {
            Role::Assistant => (ContentRole::Model, text),
            role => (ContentRole::User, Context::marked(role, text)),
        };
        let next = Content::of(role, text);
        match turns.last_mut().filter(|last| last.role == next.role) {
            Some(last) => last.parts.extend(next.parts),
            None => turns.push(next),
        }
    }
    turns
}

/// A turn makes a handful of these; a session that is asked nothing for so long has forgotten the rest.
const PENDING_MAX: usize = 64;
