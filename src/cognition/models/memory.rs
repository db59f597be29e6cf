//! What a model is told of the conversation, where the box remembers it: what was heard, not what was generated.

use std::collections::VecDeque;

use recado_core::conversation::effect::{HeardText, Standing};
use recado_core::conversation::input::SegmentRef;

use super::notes::{self, Role};

/// The conversation. `N` is what may stand in it beside speech.
#[derive(Debug)]
pub(super) struct Memory<N> {
    /// Oldest first.
    entries: VecDeque<Entry<N>>,
    /// Items of the caller that are none of it any more, oldest first: they may still be written down.
    forgotten: VecDeque<String>,
}

#[derive(Debug)]
enum Entry<N> {
    /// The caller spoke: the item, the words where they are known, and whether this model has begun to answer it.
    Caller { item: String, words: Option<String>, answered: bool },
    /// The caller heard something; and the item that this connection has of it, where it needs one.
    Heard { segment: SegmentRef, text: String, standing: Standing, item: Option<String> },
    /// The model was told something that is neither's speech.
    Note(N),
}

impl<N> Default for Memory<N> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), forgotten: VecDeque::new() }
    }
}

/// A piece of the conversation, as a model is told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece<'a, N> {
    /// Words that were spoken, and the name that they are to have, by which they can be replaced and forgotten.
    Spoken(Role, String, String),
    /// Something else.
    Note(&'a N),
}

impl<N> Memory<N> {
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

    pub fn note(&mut self, note: N) {
        self.push(Entry::Note(note));
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

    /// The history, for a model that has none; `spoken` says how it is told what the caller heard. What was said gets names from `names`, by
    /// which it can be replaced and forgotten; where those are empty, what the caller said keeps its own.
    pub fn restore(
        &mut self,
        mut names: impl FnMut() -> String,
        spoken: impl Fn(&str, Standing) -> Option<(Role, String)>,
    ) -> Vec<Piece<'_, N>> {
        let mut pieces = Vec::new();
        for entry in &mut self.entries {
            pieces.extend(match entry {
                Entry::Caller { words: Some(words), .. } if words.trim().is_empty() => None,
                Entry::Caller { item, words, .. } => {
                    let (role, text) = match words {
                        Some(words) => (Role::User, words.clone()),
                        None => (Role::System, "The caller said something here that was not written down.".to_owned()),
                    };
                    let name = names();
                    if !name.is_empty() {
                        *item = name;
                    }
                    Some(Piece::Spoken(role, text, item.clone()))
                }
                Entry::Heard { text, standing, item, .. } => {
                    let spoken = spoken(text, *standing);
                    *item = spoken.is_some().then(&mut names);
                    spoken.zip(item.clone()).map(|((role, text), name)| Piece::Spoken(role, text, name))
                }
                Entry::Note(note) => Some(Piece::Note(note)),
            });
        }
        pieces
    }

    fn push(&mut self, entry: Entry<N>) {
        if self.entries.len() == ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }
}

/// What is spoken in the model's name, as a message, marked for as long as it is not settled; none where nothing was heard of it.
pub(super) fn spoken(text: &str, standing: Standing) -> Option<(Role, String)> {
    Some(match standing {
        _ if text.trim().is_empty() => return None,
        Standing::Settled(_) => (Role::Assistant, text.to_owned()),
        Standing::Provisional => (Role::System, notes::being_said(text)),
        Standing::Uncertain => (Role::System, notes::perhaps_heard(text)),
    })
}

/// More than anybody says before it is answered.
const FORGOTTEN_MAX: usize = 16;
/// Some twenty turns: what is older than these is not asked for, and a model that has no memory has to be told all of it.
const ENTRIES_MAX: usize = 80;
