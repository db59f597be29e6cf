//! What is begun when the caller pauses, before anybody knows whether the turn is over: the words, and then an answer to them.

use recado_core::Time;

use super::answer::Answer;
use super::writing::Writing;
use super::{Action, Line, Session, history};
use crate::cognition::models::notes::Role;

/// What was begun. Nothing of it is said before the conversation asks for it.
#[derive(Debug)]
pub(super) struct Ahead {
    pub writing: Writing,
    /// The answer, once there are words.
    pub answer: Option<Begun>,
}

/// An answer that was begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub answer: Answer,
    /// What the model knows of the conversation before these words.
    pub knows: Vec<Line>,
}

impl Session {
    pub(super) fn begin_ahead(&mut self, now: Time) {
        // While a part is away, somebody else answers.
        if !self.setup.speculates || self.standing.is_away() {
            return;
        }
        self.drop_ahead();
        if let Some(samples) = self.caller.so_far() {
            self.totals.begun_ahead += 1;
            self.ahead = Some(Ahead { writing: Writing::new(samples, now, self.setup.patience_ms), answer: None });
        }
    }

    /// The caller goes on: it was not the end of the turn, and nothing of it is left.
    pub(super) fn drop_ahead(&mut self) {
        if let Some(ahead) = self.ahead.take() {
            self.totals.dropped += 1;
            self.abort_writing(&ahead.writing);
            self.drop_answer(ahead.answer.map(|begun| begun.answer));
        }
    }

    /// Something else than the turn is answered first: an answer that does not know that is none.
    pub(super) fn forget_answer_ahead(&mut self) {
        let begun = self.ahead.as_mut().and_then(|ahead| ahead.answer.take());
        self.drop_answer(begun.map(|begun| begun.answer));
    }

    /// The answer that was begun, where the request for one would say nothing else now.
    pub(super) fn still_right(&mut self, begun: Begun) -> Option<Answer> {
        let Begun { answer, knows } = begun;
        if self.gist() == knows {
            return Some(answer);
        }
        self.totals.dropped += 1;
        self.drop_answer(Some(answer))
    }

    pub(super) fn drop_answer(&mut self, answer: Option<Answer>) -> Option<Answer> {
        // Of one that has come whole, only what it took is still to come.
        if let Some(Answer { job, end: None, .. }) = answer {
            self.act(Action::Abort(job));
        }
        None
    }

    /// Asks for an answer to what was written down ahead, where nothing else is asked for and all that was said before is known.
    pub(super) fn answer_ahead(&mut self) {
        let idle = self.active.is_none() && self.waiting.is_empty() && self.writings.is_empty();
        let words = self.ahead.as_ref().filter(|ahead| idle && ahead.answer.is_none()).and_then(|ahead| ahead.writing.words());
        let Some(words) = words.map(str::to_owned) else { return };
        let (mut lines, knows) = (self.history(), self.gist());
        history::add(&mut lines, Role::User, words);
        let job = self.next_job();
        self.act(Action::Ask { job, lines });
        if let Some(ahead) = &mut self.ahead {
            ahead.answer = Some(Begun { answer: Answer::new(job, self.thinks_first), knows });
        }
    }
}
