//! What became of a message that was taken, and the telling of it: the caller knows once they have heard it.

use recado_core::ResponseId;
use recado_core::conversation::input::Acoustic;

use super::step::{Step, TakeMessage};
use crate::cognition::models::heard::holds;
use crate::cognition::models::message::Taking;

/// What follows a message that was taken.
#[derive(Debug)]
pub(super) struct Kept {
    pub step: Box<TakeMessage>,
    /// Whether it was too long, and its end is missing.
    pub is_cut: bool,
    /// Whether it is kept, once that is known.
    pub is_kept: Option<bool>,
}

impl Kept {
    /// Whether it is known to be kept.
    pub fn is_kept(&self) -> bool {
        self.is_kept == Some(true)
    }

    /// Whether what the caller adds can be kept too: half a message is none, and one that was cut has been too long.
    pub fn has_rest(&self) -> bool {
        self.is_kept() && !self.is_cut
    }

    /// The step that follows.
    pub fn follows(&self) -> &Step {
        if self.is_kept() { &self.step.kept } else { &self.step.not_kept }
    }
}

/// What is being said of a message.
#[derive(Debug)]
pub(super) struct Telling {
    kept: Kept,
    response: ResponseId,
    /// All the words of it.
    words: String,
    /// What the caller says meanwhile, where it can be one more message.
    pub rest: Option<Taking<Box<TakeMessage>>>,
    /// Whether the caller broke in before they had heard it.
    is_unheard: bool,
}

impl Telling {
    pub fn new(kept: Kept, response: ResponseId, words: String, rest: Option<Taking<Box<TakeMessage>>>) -> Self {
        Self { kept, response, words, rest, is_unheard: false }
    }

    /// The caller broke in on a response, and heard so much of it. Says whether they are to be told again, in place of an answer to what they
    /// say now.
    pub fn cut(&mut self, response: ResponseId, heard_text: &str, acoustic: Acoustic) -> bool {
        let speaks = matches!(acoustic, Acoustic::Speaking | Acoustic::Trailing);
        let missed = self.response == response && !self.is_unheard && !holds(heard_text, &self.words);
        // Who presses a key wants to hear no more of what is well.
        let to_be_told = missed && (speaks || !self.kept.is_kept());
        self.is_unheard |= to_be_told;
        to_be_told
    }

    /// The caller's clock moved. Says whether the caller, as far as is known, has heard it and said something else.
    pub fn edge(&mut self, to: Acoustic) -> bool {
        self.rest.iter_mut().for_each(|rest| rest.edge(to));
        to == Acoustic::Quiet && !self.is_unheard && self.rest.as_ref().is_some_and(Taking::has_begun)
    }

    /// What is to be told again, where the caller has not heard it.
    pub fn into_unheard(self) -> Option<Kept> {
        self.is_unheard.then_some(self.kept)
    }
}
