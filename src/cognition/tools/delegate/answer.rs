//! What comes of one request to the model, and how far it is.

use std::time::Duration;

use recado_core::OperationId;
use recado_core::ledger::Input;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cognition::language::wire::{AnswerEvent, AskedCall, Tokens};
use crate::text::{Sentences, spoken};

/// An answer that has come whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Its words, as the model wrote them.
    pub text: String,
    /// The tools that the model wants to use first.
    pub calls: Vec<AskedCall>,
    /// What it took.
    pub tokens: Tokens,
}

impl Answer {
    /// Its words, without what is written for the eye.
    pub fn spoken(&self) -> String {
        spoken(&self.text).trim().to_owned()
    }
}

/// An answer that is being written.
#[derive(Debug, Default)]
pub(super) struct Writing {
    answer: Answer,
    characters: usize,
    sentences: Sentences,
    /// The last sentence that is whole.
    sentence: Option<String>,
}

impl Writing {
    /// More of it: whether another sentence is whole.
    pub fn take(&mut self, event: AnswerEvent) -> bool {
        match event {
            AnswerEvent::Text(text) => {
                self.answer.text.push_str(&text);
                self.characters += text.chars().count();
                let whole = self.sentences.add(&text).iter().map(|sentence| spoken(sentence)).rfind(|sentence| !sentence.is_empty());
                let ended = whole.is_some();
                self.sentence = whole.or(self.sentence.take());
                ended
            }
            AnswerEvent::WasThought => {
                let tokens = self.answer.tokens;
                *self = Self { answer: Answer { tokens, ..Answer::default() }, ..Self::default() };
                false
            }
            AnswerEvent::Ended { calls } => {
                self.answer.calls = calls;
                false
            }
            AnswerEvent::Usage(tokens) => {
                self.answer.tokens.add(tokens);
                false
            }
        }
    }

    /// All of it.
    pub fn end(self) -> Answer {
        self.answer
    }
}

/// Who is told how far an attempt is: seldom, and only where there is room.
#[derive(Debug)]
pub(super) struct Progress {
    operation: OperationId,
    reports: Option<mpsc::Sender<Input>>,
    told: Option<Instant>,
}

impl Progress {
    pub fn new(operation: OperationId, reports: Option<mpsc::Sender<Input>>) -> Self {
        Self { operation, reports, told: None }
    }

    /// A sentence has ended at `now`.
    pub fn tell(&mut self, writing: &Writing, now: Instant) {
        let soon = self.told.is_some_and(|told| now < told + BETWEEN);
        let (Some(reports), Some(sentence), false) = (&self.reports, &writing.sentence, soon) else { return };
        self.told = Some(now);
        let progress = json!({ "characters": writing.characters, "text": sentence.trim() });
        // The next one says more. What has no room is dropped, as everything that is no result may be.
        let _ = reports.try_send(Input::Progress { request: None, operation: self.operation, progress });
    }
}

/// Nobody makes anything of more.
const BETWEEN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> AnswerEvent {
        AnswerEvent::Text(text.to_owned())
    }

    #[test]
    fn an_answer_is_what_came_after_the_thoughts_and_is_spoken_without_marks() {
        let mut writing = Writing::default();
        assert!(writing.take(text("First, hail is weather. Then")), "a sentence is whole");
        writing.take(AnswerEvent::Usage(Tokens { input: 3, cached: 1, output: 2 }));
        writing.take(AnswerEvent::WasThought);
        assert_eq!((writing.characters, &writing.sentence), (0, &None));
        assert!(!writing.take(text("# Yes, it **is")));
        assert!(writing.take(text("**. See [clause 4](https://example.com). \n")));
        assert_eq!(writing.sentence.as_deref(), Some("Yes, it is. "));
        writing.take(AnswerEvent::Usage(Tokens { input: 4, cached: 0, output: 1 }));
        let calls = vec![AskedCall { name: "a".to_owned(), arguments: "{}".to_owned() }];
        writing.take(AnswerEvent::Ended { calls: calls.clone() });
        let answer = writing.end();
        assert_eq!(answer.spoken(), "Yes, it is. See clause 4.");
        assert_eq!((answer.calls, answer.tokens), (calls, Tokens { input: 7, cached: 1, output: 3 }));
    }

    #[test]
    fn how_far_it_is_is_told_seldom_and_only_where_there_is_room() {
        let (reports, mut told) = mpsc::channel(2);
        let mut progress = Progress::new(OperationId(7), Some(reports));
        let (mut writing, now) = (Writing::default(), Instant::now());
        progress.tell(&writing, now);
        assert!(told.try_recv().is_err(), "there is nothing to tell");
        writing.take(text("It is covered, it seems. And "));
        for (ms, room) in [(0, true), (999, false), (1_000, true), (2_000, false), (3_000, false)] {
            let before = told.len();
            progress.tell(&writing, now + Duration::from_millis(ms));
            assert_eq!(told.len() - before, usize::from(room), "{ms}");
        }
        let Ok(Input::Progress { request: None, operation, progress: said }) = told.try_recv() else { panic!("it is told") };
        assert_eq!((operation, said), (OperationId(7), json!({ "characters": 29, "text": "It is covered, it seems." })));
        told.try_recv().unwrap();
        progress.tell(&writing, now + Duration::from_millis(4_000));
        assert!(told.try_recv().is_ok(), "what had no room is dropped, and not what comes later");
    }
}
