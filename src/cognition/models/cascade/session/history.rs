//! The conversation, as the model is told it.

use recado_core::conversation::effect::Standing;

use super::calls::GroupId;
use super::{Line, Session};
use crate::cognition::models::memory::{Piece, spoken};
use crate::cognition::models::notes::{self, Role};

/// What stands in the conversation beside speech.
#[derive(Debug)]
pub(super) enum Note {
    /// Words that nobody spoke.
    Message(Role, String),
    /// What the model called.
    Calls(GroupId),
}

/// What the box tells the model last, and never again.
#[derive(Debug)]
pub(super) struct Tail(pub String);

impl Session {
    /// What was said and heard, called and told, in order.
    pub(super) fn history(&mut self) -> Vec<Line> {
        self.told(spoken)
    }

    /// The same, whatever is known of how certain it is: that something was heard for certain makes no other answer.
    pub(super) fn gist(&mut self) -> Vec<Line> {
        self.told(|text, _| spoken(text, Standing::Provisional))
    }

    fn told(&mut self, spoken: impl Fn(&str, Standing) -> Option<(Role, String)>) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let mut told_of = Vec::new();
        for piece in self.memory.restore(String::new, spoken) {
            match piece {
                Piece::Spoken(role, text, _) => add(&mut lines, role, text),
                Piece::Note(Note::Message(role, text)) => add(&mut lines, *role, text.clone()),
                Piece::Note(Note::Calls(group)) => {
                    told_of.push(*group);
                    lines.extend(self.calls.line(*group));
                }
            }
        }
        // What runs is known also where its call was too long ago to be told.
        let older = self.calls.under_way(&told_of).map(|tool| Line::message(Role::System, notes::under_way(tool)));
        older.chain(lines).collect()
    }

    /// Adds what the model is told last. Services want something that a user said: where the caller has said nothing yet, this is it.
    pub(super) fn add_tail(&self, lines: &mut Vec<Line>, tail: Option<&Tail>) {
        let Some(Tail(text)) = tail else { return };
        let any_user = lines.iter().any(|line| matches!(line, Line::Message { role: Role::User, .. }));
        lines.push(match any_user {
            true => Line::message(Role::System, text.as_str()),
            false => Line::message(Role::User, format!("({text})")),
        });
    }
}

/// What one of them said without a break is one message.
pub(super) fn add(lines: &mut Vec<Line>, role: Role, more: String) {
    match lines.last_mut() {
        Some(Line::Message { role: before, text }) if *before == role && role != Role::System => {
            text.truncate(text.trim_end().len());
            text.push(' ');
            text.push_str(&more);
        }
        _ => lines.push(Line::message(role, more)),
    }
}
