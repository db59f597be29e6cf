//! An answer, as it comes.

use std::collections::VecDeque;

use super::{JobId, Part, Session};
use crate::cognition::models::cascade::http::Fault;
use crate::cognition::models::cascade::wire::{AnswerEvent, AskedCall};
use crate::text::{Sentences, spoken};

/// What comes of a request.
#[derive(Debug)]
pub(super) struct Answer {
    pub job: JobId,
    sentences: Sentences,
    /// Whole sentences that have not been said.
    ready: VecDeque<String>,
    /// How it ended, once it has.
    pub end: Option<End>,
}

/// How an answer ended.
#[derive(Debug)]
pub(super) enum End {
    Complete(Vec<AskedCall>),
    Failed(Fault),
}

impl Answer {
    pub fn new(job: JobId) -> Self {
        Self { job, sentences: Sentences::default(), ready: VecDeque::new(), end: None }
    }

    /// The next sentence, as it is spoken.
    pub fn next_sentence(&mut self) -> Option<String> {
        std::iter::from_fn(|| self.ready.pop_front()).map(|sentence| spoken(&sentence)).find(|sentence| !sentence.is_empty())
    }

    fn take(&mut self, event: AnswerEvent) {
        match event {
            AnswerEvent::Text(text) => self.ready.extend(self.sentences.add(&text)),
            AnswerEvent::Ended { calls } => {
                self.ready.extend(self.sentences.end());
                self.end = Some(End::Complete(calls));
            }
            AnswerEvent::Usage(_) => {}
        }
    }
}

impl Session {
    pub(super) fn answered(&mut self, job: JobId, event: AnswerEvent) {
        self.works(Part::Language);
        if let AnswerEvent::Usage(tokens) = event {
            // Also of one that nobody wants any more: it costs the same.
            return self.totals.language.add(&tokens.answered());
        }
        if let Some(answer) = self.answer(job) {
            answer.take(event);
        }
    }

    pub(super) fn answer_failed(&mut self, job: JobId, fault: Fault) {
        if let Some(answer) = self.answer(job) {
            answer.end = Some(End::Failed(fault));
        }
    }

    /// What comes of this request, where it is still wanted and has not ended.
    fn answer(&mut self, job: JobId) -> Option<&mut Answer> {
        let active = self.active.as_mut().and_then(|active| active.answer.as_mut());
        let ahead = self.ahead.as_mut().and_then(|ahead| ahead.answer.as_mut()).map(|begun| &mut begun.answer);
        active.into_iter().chain(ahead).find(|answer| answer.job == job && answer.end.is_none())
    }
}
