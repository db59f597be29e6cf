//! What a new session is told of the conversation: what was heard, not what was generated.

use std::collections::VecDeque;

use recado_core::conversation::effect::{HeardText, Standing};
use recado_core::conversation::input::SegmentRef;

use crate::cognition::models::live::wire::{InitialItem, Role};
use crate::cognition::models::notes;

#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Oldest first.
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
enum Entry {
    /// The caller said this.
    Caller(String),
    /// The caller heard this.
    Heard { segment: SegmentRef, text: String, standing: Standing },
    /// The model was told something that is neither's speech.
    Note(String),
}

impl Memory {
    /// The caller said more.
    pub fn caller_said(&mut self, more: &str) {
        match self.entries.back_mut() {
            Some(Entry::Caller(words)) if words.len() < CALLER_BYTES_MAX => words.push_str(more),
            _ => self.push(Entry::Caller(more.to_owned())),
        }
    }

    pub fn note(&mut self, text: String) {
        self.push(Entry::Note(text));
    }

    /// What was heard, in the place of what was said of the same segment before.
    pub fn heard(&mut self, heard: &HeardText) {
        for entry in &mut self.entries {
            match entry {
                Entry::Heard { segment, text, standing } if *segment == heard.segment => {
                    (*text, *standing) = (heard.text.clone(), heard.standing);
                    return;
                }
                _ => {}
            }
        }
        self.push(Entry::Heard { segment: heard.segment, text: heard.text.clone(), standing: heard.standing });
    }

    /// The history, oldest first: as much of its end as a session takes, with the latest of `further`, which come last.
    pub fn restore(&self, further: impl IntoIterator<Item = String>) -> Vec<InitialItem> {
        let further = further.into_iter().map(|text| InitialItem::new(Role::Developer, text));
        let mut items: VecDeque<InitialItem> = further.collect();
        let size = |item: &InitialItem| item.text().len() + ITEM_BYTES;
        let mut bytes: usize = items.iter().map(size).sum();
        while items.len() > FURTHER_MAX || bytes > BYTES_MAX / 2 {
            let Some(oldest) = items.pop_front() else { break };
            bytes -= size(&oldest);
        }
        for entry in self.entries.iter().rev() {
            let Some(item) = entry.item() else { continue };
            bytes += size(&item);
            if bytes > BYTES_MAX {
                break;
            }
            items.push_front(item);
        }
        items.into()
    }

    fn push(&mut self, entry: Entry) {
        if self.entries.len() == ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }
}

impl Entry {
    fn item(&self) -> Option<InitialItem> {
        let item = match self {
            Self::Caller(words) => InitialItem::new(Role::User, words.trim()),
            Self::Heard { text, standing: Standing::Settled(_), .. } => InitialItem::new(Role::Assistant, text.trim()),
            Self::Heard { text, .. } if text.trim().is_empty() => return None,
            Self::Heard { text, standing: Standing::Provisional, .. } => InitialItem::new(Role::Developer, notes::being_said(text)),
            Self::Heard { text, standing: Standing::Uncertain, .. } => InitialItem::new(Role::Developer, notes::perhaps_heard(text)),
            Self::Note(text) => InitialItem::new(Role::Developer, text.as_str()),
        };
        (!item.text().is_empty()).then_some(item)
    }
}

/// With what runs, the 128 messages that a session takes.
const ENTRIES_MAX: usize = 80;
const FURTHER_MAX: usize = 48;
/// A session takes 8,192 tokens, and a token is a byte at least.
const BYTES_MAX: usize = 8_000;
/// What a message takes beside its text.
const ITEM_BYTES: usize = 16;
/// More in one go is remembered in parts, of which the last are restored.
const CALLER_BYTES_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_history_is_restored_within_what_a_session_takes() {
        let mut memory = Memory::default();
        memory.note("The first thing.".into());
        (0..400).for_each(|n| memory.caller_said(&format!(" palabra número {n},")));
        memory.note("The last thing.".into());
        let items = memory.restore(["It runs.".to_owned()]);
        let bytes: usize = items.iter().map(|item| item.text().len()).sum();
        assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX / 2 && items.len() <= 128, "{bytes} in {}", items.len());
        let texts: Vec<&str> = items.iter().map(InitialItem::text).collect();
        assert_eq!(texts[texts.len() - 2..], ["The last thing.", "It runs."]);
        assert!(texts[texts.len() - 3].ends_with("número 399,"));
        (0..200).for_each(|n| memory.note(format!("{n}")));
        let items = memory.restore((0..64).map(|n| format!("{n} {}", "runs ".repeat(60))));
        let bytes: usize = items.iter().map(|item| item.text().len()).sum();
        assert!(bytes <= BYTES_MAX && items.len() <= 128, "{bytes} in {}", items.len());
        assert!(items[items.len() - 1].text().starts_with("63 "));
        assert_eq!(memory.restore((0..64).map(|n| format!("{n}"))).len(), 128, "as many messages as a session takes");
    }
}
