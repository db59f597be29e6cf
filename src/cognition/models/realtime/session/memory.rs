//! What a new connection is told of the conversation: what was heard, not what was generated.

use std::collections::VecDeque;

use recado_core::conversation::effect::{HeardText, Standing};
use recado_core::conversation::input::SegmentRef;

use super::notes;
use crate::cognition::models::realtime::wire::{Item, Role};

#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// Items of the caller that are none of it any more, oldest first: they may still be written down.
    forgotten: VecDeque<String>,
}

#[derive(Debug)]
enum Entry {
    /// The caller spoke: the item, the words where they are known, and whether this model has begun to answer it.
    Caller { item: String, words: Option<String>, answered: bool },
    /// The caller heard something; and the item that this connection has of it, where it needs one.
    Heard { segment: SegmentRef, text: String, standing: Standing, item: Option<String> },
    /// The model was told something that is neither's speech.
    Note(Item),
}

impl Memory {
    pub fn caller_spoke(&mut self, item: String) {
        let known = self.entries.iter().any(|entry| matches!(entry, Entry::Caller { item: known, .. } if *known == item));
        if !known && !item.is_empty() && !self.forgotten.contains(&item) {
            self.push(Entry::Caller { item, words: None, answered: false });
        }
    }

    pub fn caller_said(&mut self, of: &str, said: String) {
        self.caller_spoke(of.to_owned());
        for entry in &mut self.entries {
            match entry {
                Entry::Caller { item, words, .. } if item == of => *words = Some(said.clone()),
                _ => {}
            }
        }
    }

    /// This model answers what the caller has said.
    pub fn answered(&mut self) {
        for entry in &mut self.entries {
            if let Entry::Caller { answered, .. } = entry {
                *answered = true;
            }
        }
    }

    /// Forgets what the caller has said and this model has not begun to answer: the items that it was.
    pub fn forget_unanswered(&mut self) -> Vec<String> {
        let mut items = Vec::new();
        self.entries.retain_mut(|entry| match entry {
            Entry::Caller { item, answered: false, .. } => {
                items.push(std::mem::take(item));
                false
            }
            _ => true,
        });
        self.forgotten.extend(items.iter().cloned());
        self.forgotten.drain(..self.forgotten.len().saturating_sub(FORGOTTEN_MAX));
        items
    }

    pub fn note(&mut self, item: Item) {
        self.push(Entry::Note(item));
    }

    /// Remembers what was heard, in the place of what was said of the same segment before, whose item it gives back.
    pub fn heard(&mut self, heard: HeardText) -> Option<String> {
        for entry in &mut self.entries {
            match entry {
                Entry::Heard { segment, text, standing, item } if *segment == heard.segment => {
                    (*text, *standing) = (heard.text, heard.standing);
                    return item.take();
                }
                _ => {}
            }
        }
        self.push(Entry::Heard { segment: heard.segment, text: heard.text, standing: heard.standing, item: None });
        None
    }

    /// This connection has an item of the segment.
    pub fn placed(&mut self, of: SegmentRef, name: String) {
        for entry in &mut self.entries {
            match entry {
                Entry::Heard { segment, item, .. } if *segment == of => *item = Some(name.clone()),
                _ => {}
            }
        }
    }

    /// The history, for a connection that has none. What was said gets names from `names`, by which it can be replaced and forgotten.
    pub fn restore(&mut self, mut names: impl FnMut() -> String) -> Vec<Item> {
        let mut items = Vec::new();
        for entry in &mut self.entries {
            items.extend(match entry {
                Entry::Caller { words: Some(words), .. } if words.trim().is_empty() => None,
                Entry::Caller { item, words, .. } => {
                    *item = names();
                    let told = match words {
                        Some(words) => Item::message(Role::User, words.as_str()),
                        None => Item::message(Role::System, "The caller said something here that was not written down."),
                    };
                    Some(told.named(item.clone()))
                }
                Entry::Heard { text, standing, item, .. } => {
                    let spoken = spoken(text, *standing);
                    *item = spoken.is_some().then(&mut names);
                    spoken.zip(item.clone()).map(|(spoken, name)| spoken.named(name))
                }
                Entry::Note(note) => Some(note.clone()),
            });
        }
        items
    }

    fn push(&mut self, entry: Entry) {
        if self.entries.len() == ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }
}

/// What is spoken in the model's name, as an item, marked for as long as it is not settled; none where nothing was heard of it.
pub(super) fn spoken(text: &str, standing: Standing) -> Option<Item> {
    Some(match standing {
        _ if text.trim().is_empty() => return None,
        Standing::Settled(_) => Item::message(Role::Assistant, text),
        Standing::Provisional => Item::message(Role::System, notes::being_said(text)),
        Standing::Uncertain => Item::message(Role::System, notes::perhaps_heard(text)),
    })
}

/// More than anybody says before it is answered.
const FORGOTTEN_MAX: usize = 16;
/// Some twenty turns: what is older than these is not asked for, and a new connection has to be told all of it.
const ENTRIES_MAX: usize = 80;
