//! Tasks that the model delegates, which become calls of a tool.
//!
//! The service says that there is one and when, and not what it is: what the caller said until then is waited for, as it is written down a
//! little later than it is understood.

use std::collections::VecDeque;

use recado_core::conversation::effect::ToolStatus;
use recado_core::conversation::input::{ModelEvent, ToolCall};
use recado_core::{OperationId, ResponseId, Time};

use super::{Said, Session};
use crate::cognition::models::notes::{self, later, status_words};

#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// Those of which no call has been made, oldest first.
    waiting: VecDeque<Waiting>,
    /// The last calls, oldest first.
    made: VecDeque<Made>,
}

#[derive(Debug)]
struct Waiting {
    delegation: String,
    offset_ms: u64,
    since: Time,
    /// When it is looked at again.
    next: Time,
}

#[derive(Debug)]
struct Made {
    delegation: String,
    /// The tool, and what it was called with.
    called: String,
    /// The connection whose session delegated it.
    connection: u64,
    /// The response that it was made in.
    response: ResponseId,
    /// From where to where the caller's words became it (ms).
    words: (u64, u64),
    /// Whether the conversation has said anything of it.
    told: bool,
    /// Its response was cancelled, perhaps before the call came: when that is sure.
    doubted: Option<Time>,
    /// Whether it runs, as far as it is known.
    runs: bool,
}

impl Tasks {
    pub fn deadline(&self) -> Option<Time> {
        let doubted = self.made.iter().filter_map(|made| made.doubted);
        self.waiting.front().map(|waiting| waiting.next).into_iter().chain(doubted).min()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What runs, for a session that did not ask for it.
    pub fn under_way(&self) -> impl Iterator<Item = String> {
        self.made.iter().filter(|made| made.runs).map(|made| notes::under_way(&made.called))
    }

    fn remember(&mut self, made: Made) {
        if self.made.len() == MADE_MAX {
            self.made.pop_front();
        }
        self.made.push_back(made);
    }

    /// What was delegated in a session that is gone is nobody's any more. Says whether there was anything.
    pub fn begin_connection(&mut self) -> bool {
        let waited = !self.waiting.is_empty();
        self.waiting.clear();
        self.made.iter_mut().for_each(|made| made.doubted = None);
        waited
    }
}

impl Session {
    /// The model has delegated a task.
    pub(super) fn delegated(&mut self, now: Time, delegation: String, offset_ms: u64) {
        let known = |made: &Made| made.delegation == delegation && made.connection == self.connection;
        if self.tasks.made.iter().any(known) || self.tasks.waiting.iter().any(|waiting| waiting.delegation == delegation) {
            return;
        }
        if !self.setup.can_delegate() {
            return self.not_done(now, &delegation, "there is nothing here that could do it: tell the caller so");
        }
        if self.tasks.waiting.len() == WAITING_MAX {
            return self.not_done(now, &delegation, "too much is delegated at a time");
        }
        self.tasks.waiting.push_back(Waiting { delegation, offset_ms, since: now, next: now });
        self.floor.heard_of(now);
    }

    /// Makes calls of the tasks whose words are there, in the response that is asked for; asks for one where none is.
    pub(super) fn make_calls(&mut self, now: Time) {
        while let Some(waiting) = self.tasks.waiting.front_mut() {
            let (waited, offset_ms) = (now.since(waiting.since), waiting.offset_ms);
            let response = self.floor.response();
            let given_up = waited >= if response.is_some() { WORDS_MS_MAX } else { WAIT_MS_MAX };
            if response.is_none() && !given_up {
                if now >= waiting.next {
                    waiting.next = now.plus(WISH_AGAIN_MS).min(waiting.since.plus(WAIT_MS_MAX));
                    self.wish();
                }
                return;
            }
            let written = waited >= WRITTEN_MS || self.transcript.goes_beyond(offset_ms);
            // The box's acceptance does not cut what the model is saying in two, unless that takes too long.
            let finishes_at = self.floor.finishes_at();
            if written && now < finishes_at && waited < SPEECH_MS_MAX {
                waiting.next = finishes_at.min(waiting.since.plus(SPEECH_MS_MAX));
                return;
            }
            let taken = written && self.transcript.is_taken(offset_ms);
            let task = self.transcript.task(offset_ms).filter(|_| written);
            if task.is_none() && !taken && !given_up {
                waiting.next = waiting.since.plus(if written { WORDS_MS_MAX } else { WRITTEN_MS });
                return;
            }
            let Some(Waiting { delegation, .. }) = self.tasks.waiting.pop_front() else { return };
            match (response, task) {
                (Some(response), Some(task)) => {
                    let words = self.transcript.taken(offset_ms);
                    let called = bounded(&task);
                    let Some((tool, arguments)) = self.setup.call(task) else { continue };
                    let made = Made {
                        delegation: delegation.clone(),
                        called: format!("{tool} ({called:?})"),
                        connection: self.connection,
                        response,
                        words,
                        told: false,
                        doubted: None,
                        runs: false,
                    };
                    self.tasks.remember(made);
                    self.floor.answers(now);
                    let call = ToolCall { call_id: delegation, tool, arguments, confirmed: false };
                    self.say_event(ModelEvent::ToolCall { response, call });
                }
                (_, None) if taken => {
                    self.not_done(now, &delegation, "all that the caller said was given on with what was delegated before")
                }
                (_, None) => self.not_done(now, &delegation, "what the caller said was not understood: ask them to say it once more"),
                (None, Some(_)) => self.not_done(now, &delegation, "there was no moment for it: delegate it again"),
            }
        }
    }

    /// This response is cancelled: a call of it that the conversation has said nothing of may have come too late to be taken.
    pub(super) fn doubt_calls(&mut self, now: Time, response: ResponseId) {
        let connection = self.connection;
        let untold = |made: &&mut Made| made.response == response && made.connection == connection && !made.told;
        self.tasks.made.iter_mut().filter(untold).for_each(|made| made.doubted = Some(now.plus(DOUBTED_MS)));
    }

    /// Calls that were not taken have done nothing, and what the caller said of them is for another one.
    pub(super) fn give_up_calls(&mut self, now: Time) {
        let mut lost = Vec::new();
        for made in &mut self.tasks.made {
            if made.doubted.take_if(|at| now >= *at).is_some() {
                lost.push((made.delegation.clone(), made.words));
            }
        }
        for (delegation, words) in lost {
            self.transcript.give_back(words);
            self.not_done(now, &delegation, "the caller had begun to speak: delegate it again, unless they do not want it any more");
        }
    }

    fn not_done(&mut self, now: Time, delegation: &str, reason: &'static str) {
        self.outbox.think(now, &format!("Nothing was done: {reason}."), Some(delegation));
        self.outbox.say(Said::NotDone { reason });
    }

    /// How the operation stands.
    pub(super) fn tool_output(&mut self, now: Time, call_id: &str, operation: Option<OperationId>, status: ToolStatus) {
        let (ready, connection) = (self.ready(), self.connection);
        let Some(made) = self.tasks.made.iter_mut().rfind(|made| made.delegation == call_id) else { return };
        let runs = matches!(status, ToolStatus::Running | ToolStatus::AlreadyRunning);
        made.runs = runs && operation.is_some();
        (made.told, made.doubted) = (true, None);
        let (called, own) = (made.called.clone(), ready && made.connection == connection);
        let words = match status {
            // Nothing that this model can say stands for the caller's yes.
            ToolStatus::NeedsConfirmation => "The same thing has been asked for before, and is not done once more.",
            ToolStatus::NeedsConsent => "It needs the caller's consent, which can't be taken here: nothing was done, and nothing will be.",
            status => status_words(status),
        };
        match own {
            true => self.outbox.think(now, words, Some(call_id)),
            false if ready => self.outbox.think(now, &later(&called, status), None),
            false => {}
        }
        // Every other session is told what runs.
        if !runs {
            self.memory.note(later(&called, status));
        }
    }
}

/// The end of a task, which says what it is about: one tool does them all.
fn bounded(task: &str) -> String {
    let excess = task.chars().count().saturating_sub(NAMED_BY_MAX);
    task.chars().skip(excess).collect()
}

/// A task is known by so many letters.
const NAMED_BY_MAX: usize = 120;
/// So much later than the model understands what the caller says is it written down (ms).
const WRITTEN_MS: u64 = 600;
/// So long is it waited for that the model has finished what it is saying (ms).
const SPEECH_MS_MAX: u64 = 3_000;
/// A task without words is given up after so long, once there is a response (ms): one of which nothing comes for longer has failed.
const WORDS_MS_MAX: u64 = 2_000;
/// A task that nobody has a moment for is given up (ms).
const WAIT_MS_MAX: u64 = 15_000;
/// So long after the end of its response is it sure that a call was not taken (ms): longer than an operation takes to be on record.
const DOUBTED_MS: u64 = 4_000;
/// So often is the conversation asked for a moment (ms).
const WISH_AGAIN_MS: u64 = 500;
/// More at a time than anybody asks for.
const WAITING_MAX: usize = 8;
/// Many more than are under way at a time.
const MADE_MAX: usize = 64;
