//! An answer, as it comes.

use std::collections::VecDeque;

use recado_core::Time;

use super::{JobId, Part, Session};
use crate::cognition::language::http::Fault;
use crate::cognition::language::wire::{AnswerEvent, AskedCall};
use crate::text::{Break, Sentences, spoken};

/// What comes of a request.
#[derive(Debug)]
pub(super) struct Answer {
    pub job: JobId,
    /// Whether what comes may be what the model thinks.
    is_held: bool,
    sentences: Sentences,
    /// Since when there is something of a sentence that has not ended.
    unsaid_since: Option<Time>,
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
    pub fn new(job: JobId, is_held: bool) -> Self {
        Self { job, is_held, sentences: Sentences::default(), unsaid_since: None, ready: VecDeque::new(), end: None }
    }

    /// The next sentence, as it is spoken.
    pub fn next_sentence(&mut self) -> Option<String> {
        std::iter::from_fn(|| if self.is_held { None } else { self.ready.pop_front() })
            .map(|sentence| spoken(&sentence))
            .find(|sentence| !sentence.is_empty())
    }

    /// When the sentence that has not ended is waited for no longer, where it may be broken.
    pub fn deadline(&self) -> Option<Time> {
        let at = |(at, after_ms)| self.sentences.may_break(at).then(|| self.unsaid_since.map(|since| since.plus(after_ms)))?;
        BREAKS.into_iter().filter_map(at).min()
    }

    /// Says what there is of it when it is not: a caller takes silence for the end of the line.
    pub fn hasten(&mut self, now: Time) {
        for (at, after_ms) in BREAKS {
            if self.unsaid_since.is_some_and(|since| now >= since.plus(after_ms))
                && let Some(part) = self.sentences.break_off(at)
            {
                self.ready.push_back(part);
                self.unsaid_since = (!self.sentences.is_empty()).then_some(now);
            }
        }
    }

    fn take(&mut self, now: Time, event: AnswerEvent) {
        match event {
            AnswerEvent::Text(text) => {
                let ended = self.sentences.add(&text);
                let before = self.unsaid_since.filter(|_| ended.is_empty());
                self.unsaid_since = (!self.sentences.is_empty() && !self.is_held).then(|| before.unwrap_or(now));
                self.ready.extend(ended);
            }
            AnswerEvent::WasThought => *self = Self::new(self.job, false),
            AnswerEvent::Ended { calls } => {
                self.is_held = false;
                self.unsaid_since = None;
                self.ready.extend(self.sentences.end());
                self.end = Some(End::Complete(calls));
            }
            AnswerEvent::Usage(_) => {}
        }
    }
}

impl Session {
    pub(super) fn answered(&mut self, now: Time, job: JobId, event: AnswerEvent) {
        self.works(Part::Language);
        if let AnswerEvent::Usage(tokens) = event {
            // Also of one that nobody wants any more: it costs the same.
            return self.totals.language.add(&tokens.answered());
        }
        self.thinks_first |= event == AnswerEvent::WasThought;
        if let Some(answer) = self.answer(job) {
            answer.take(now, event);
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

/// Where a sentence that has not ended is broken, and how long after it began (ms): a model that writes slowly must be heard before it is taken
/// for one that hangs.
const BREAKS: [(Break, u64); 2] = [(Break::Clause, 1_000), (Break::Word, 2_000)];
