//! What a session wants done, and what it has sent, so that an error can be told what it is about.

use std::collections::VecDeque;

use super::{Action, RenderId, Said};
use crate::cognition::models::link;
use crate::cognition::models::realtime::wire::{ClientBody, ClientEvent};

/// What an event that was sent is about, as far as an error about it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// The session's settings.
    Session,
    /// The response that is asked for.
    Create,
    /// The cancel of a response.
    Cancel,
    /// A text that is rendered.
    Render(RenderId),
    /// The caller's audio.
    Audio,
    /// Something else, which ends nothing.
    Other,
}

/// What a session wants done.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    actions: Vec<Action>,
    /// Counts events and names of items.
    count: u64,
    /// The last events that an error may be about, oldest first.
    sent: VecDeque<(String, About)>,
}

impl Outbox {
    /// Sends an event, and says by which name an error will call it.
    pub fn send(&mut self, about: About, body: ClientBody) -> String {
        self.count += 1;
        let event_id = format!("recado_{}", self.count);
        // Audio comes fifty times a second, and is never complained of by its name.
        if about != About::Audio {
            if self.sent.len() == SENT_MAX {
                self.sent.pop_front();
            }
            self.sent.push_back((event_id.clone(), about));
        }
        self.actions.push(Action::Send(ClientEvent { event_id: event_id.clone(), body }));
        event_id
    }

    pub fn say(&mut self, said: Said) {
        self.actions.push(Action::Said(said));
    }

    pub fn reconnect(&mut self, reason: &str) {
        link::reconnect(&mut self.actions, reason);
    }

    /// What the event is about that an error names.
    pub fn about(&self, event_id: &str) -> Option<About> {
        self.sent.iter().find(|(sent, _)| sent == event_id).map(|(_, about)| *about)
    }

    pub fn forget_sent(&mut self) {
        self.sent.clear();
    }

    /// A name for an item, no longer than services take.
    pub fn item_name(&mut self) -> String {
        self.count += 1;
        format!("box_{}", self.count)
    }

    pub fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }
}

/// An error about one of more than these comes too late to matter.
const SENT_MAX: usize = 64;
