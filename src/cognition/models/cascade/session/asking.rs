//! Responses: one at a time is asked for; others wait.

use recado_core::conversation::input::{Content, ModelEvent};
use recado_core::{ResponseId, Time, TurnId};

use super::answer::{Answer, End};
use super::history::Tail;
use super::writing::Writing;
use super::{Action, Part, Session};
use crate::cognition::language::http::{Again, Fault, Reach};
use crate::cognition::models::notes::{self, Role};
use crate::cognition::models::transport::Backoff;

/// A response that is asked for.
#[derive(Debug)]
pub(super) struct Request {
    pub response: ResponseId,
    /// The turn that it answers, where it answers one.
    of: Option<TurnId>,
    pub turn: Turn,
    /// What the model is told last, where that is not what the caller said.
    tail: Option<Tail>,
    asked_at: Time,
}

/// How the words stand that a response answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    /// They are in the conversation, or there are none.
    Known,
    /// They are being written down.
    WrittenDown {
        /// What the memory calls the turn.
        name: String,
    },
    /// There are none: it was noise.
    Noise,
    /// They could not be written down.
    Lost(String),
}

/// The response that is under way.
#[derive(Debug)]
pub(super) struct Active {
    pub request: Request,
    /// What comes of it, where it is asked for.
    pub answer: Option<Answer>,
    retries: Retries,
    /// When it was first asked for.
    answer_since: Option<Time>,
    /// Whether the model called something that was taken.
    acted: bool,
    /// How often the model called something that can't be taken.
    corrections: u32,
    /// What was said of it.
    said: String,
}

/// When a request that failed is made again.
#[derive(Debug)]
pub(super) struct Retries {
    since: Time,
    patience_ms: u64,
    backoff: Backoff,
    count: u32,
    /// When the next one is due.
    pub at: Option<Time>,
    /// Whether the service wants it no sooner.
    is_asked_for: bool,
}

/// Whether it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    Never,
    InMs(u64),
}

impl Retry {
    pub fn in_ms(self) -> Option<u64> {
        match self {
            Self::Never => None,
            Self::InMs(ms) => Some(ms),
        }
    }
}

impl Retries {
    pub fn new(since: Time, patience_ms: u64) -> Self {
        Self { since, patience_ms, backoff: Backoff::default(), count: 0, at: None, is_asked_for: false }
    }

    /// When the caller's patience ends.
    pub fn until(&self) -> Time {
        self.since.plus(self.patience_ms)
    }

    /// Somebody waits for it, from now on: what has failed before costs them no time, but what the service asked for.
    pub fn awaited_since(&mut self, now: Time) {
        let at = self.at.map(|at| if self.is_asked_for { at } else { at.min(now) });
        *self = Self { at, is_asked_for: self.is_asked_for, ..Self::new(now, self.patience_ms) };
    }

    /// What becomes of a request that has failed.
    pub fn next(&mut self, now: Time, fault: &Fault) -> Retry {
        let asked = match fault.again {
            Again::Never => return Retry::Never,
            Again::Soon => None,
            Again::After(ms) if ms > self.patience_ms => return Retry::Never,
            Again::After(ms) => Some(std::time::Duration::from_millis(ms)),
        };
        let wait_ms = u64::try_from(self.backoff.next(asked).as_millis()).unwrap_or(u64::MAX);
        self.count += 1;
        let at = now.plus(wait_ms);
        if self.count > RETRIES_MAX || at >= self.until() {
            return Retry::Never;
        }
        self.at = Some(at);
        self.is_asked_for = asked.is_some();
        Retry::InMs(wait_ms)
    }
}

impl Active {
    fn new(request: Request, patience_ms: u64) -> Self {
        let retries = Retries::new(request.asked_at, patience_ms);
        Self { request, answer: None, retries, answer_since: None, acted: false, corrections: 0, said: String::new() }
    }

    pub fn deadline(&self) -> Option<Time> {
        self.retries.at
    }
}

impl Session {
    pub(super) fn respond(&mut self, now: Time, response: ResponseId, note: Option<notes::Note>, of: Option<TurnId>) {
        if self.waiting.len() == WAITING_MAX {
            return self.failed(response, "too many responses are asked for at a time");
        }
        let mut tail = None;
        if let Some(notes::Note { role, text, of_history }) = note {
            if of_history {
                self.note(role, text);
            } else {
                tail = Some(Tail(text));
            }
        }
        let (turn, answer) = match of {
            Some(_) => self.turn_ended(now),
            None => {
                self.forget_answer_ahead();
                (Turn::Known, None)
            }
        };
        let request = Request { response, of, turn, tail, asked_at: now };
        match answer {
            Some(answer) if self.active.is_none() && self.waiting.is_empty() => {
                self.active =
                    Some(Active { answer: Some(answer), answer_since: Some(now), ..Active::new(request, self.setup.patience_ms) });
            }
            _ => self.waiting.push_back(request),
        }
        self.settle_writings();
    }

    /// The words of the turn that is over; and what was begun of an answer to them, where it is still one to all that the model knows.
    fn turn_ended(&mut self, now: Time) -> (Turn, Option<Answer>) {
        let ahead = self.ahead.take();
        let samples = self.caller.take();
        let (mut writing, answer) = match (ahead, samples) {
            (Some(ahead), _) => (ahead.writing, ahead.answer),
            (None, Some(samples)) => (Writing::new(samples, now, self.setup.patience_ms), None),
            // It was asked about before, or something else cut its answer off.
            (None, None) if self.owed || !self.writings.is_empty() => return (Turn::Known, None),
            (None, None) => return (Turn::Noise, None),
        };
        writing.retries.awaited_since(now);
        let answer = answer.and_then(|begun| self.still_right(begun));
        self.turns += 1;
        let name = format!("turn {}", self.turns);
        self.memory.caller_spoke(name.clone());
        writing.name = Some(name.clone());
        self.writings.push(writing);
        (Turn::WrittenDown { name }, answer)
    }

    /// Goes on with what can be gone on with.
    pub(super) fn advance(&mut self, now: Time) {
        self.advance_looks(now);
        self.advance_writings(now);
        loop {
            if self.active.is_none() {
                let Some(request) = self.waiting.pop_front() else { break };
                self.active = Some(Active::new(request, self.setup.patience_ms));
            }
            if !self.go_on(now) {
                break;
            }
        }
        self.answer_ahead();
    }

    /// Goes on with the response that is under way. Says whether it has ended.
    fn go_on(&mut self, now: Time) -> bool {
        let Some(mut active) = self.active.take() else { return false };
        let response = active.request.response;
        match active.request.turn.clone() {
            // Also what others said before is to be known.
            _ if !self.writings.is_empty() => {
                self.active = Some(active);
                return false;
            }
            Turn::Lost(reason) => {
                self.drop_answer(active.answer);
                self.failed(response, format!("what the caller said could not be written down: {reason}"));
                return true;
            }
            Turn::Noise if !self.owed => {
                self.drop_answer(active.answer);
                if let Some(turn) = active.request.of {
                    self.say(ModelEvent::TurnWasNoise { turn });
                }
                self.say(ModelEvent::Complete { response });
                return true;
            }
            // What was said before it is still to be answered.
            Turn::Noise | Turn::Known | Turn::WrittenDown { .. } => {}
        }
        let Some(mut answer) = active.answer.take() else {
            if active.retries.at.is_none_or(|at| now >= at) {
                active.retries.at = None;
                active.answer_since.get_or_insert(now);
                active.answer = Some(self.ask(&active));
            }
            self.active = Some(active);
            return false;
        };
        answer.hasten(now);
        self.say_sentences(&mut active, &mut answer);
        match answer.end.take() {
            None => {
                active.answer = Some(answer);
                self.active = Some(active);
                false
            }
            Some(End::Failed(fault)) => self.answer_has_failed(now, active, fault),
            Some(End::Complete(calls)) => {
                if calls.is_empty() && active.said.is_empty() && !active.acted {
                    return self.answer_has_failed(now, active, Fault::passing("the model said nothing"));
                }
                let asked = calls.len();
                let refused = self.make_calls(response, calls);
                // Where not all are refused, it has done something.
                active.acted |= asked > refused.len();
                match refused.into_iter().next() {
                    None => self.say(ModelEvent::Complete { response }),
                    Some(_) if active.corrections < CORRECTIONS_MAX => {
                        active.corrections += 1;
                        self.active = Some(active);
                        return self.go_on(now);
                    }
                    Some(reason) => {
                        self.failed(response, format!("the model called a function in a way that can't be taken: {reason}"));
                    }
                }
                true
            }
        }
    }

    fn ask(&mut self, active: &Active) -> Answer {
        let job = self.next_job();
        let mut lines = self.history();
        if !active.said.trim().is_empty() {
            lines.push(super::Line::message(Role::System, notes::being_said(active.said.trim())));
        }
        self.add_tail(&mut lines, active.request.tail.as_ref());
        self.act(Action::Ask { job, lines });
        Answer::new(job, self.thinks_first)
    }

    /// When more is said of a sentence that does not end.
    pub(super) fn breaks_at(&self) -> Option<Time> {
        let answer = self.active.as_ref().filter(|_| self.writings.is_empty())?.answer.as_ref()?;
        answer.deadline()
    }

    fn say_sentences(&mut self, active: &mut Active, answer: &mut Answer) {
        let response = active.request.response;
        while let Some(text) = answer.next_sentence() {
            self.answers();
            active.said.push_str(&text);
            let content = Content::Text { text, language: self.setup.language };
            self.say(ModelEvent::Clause { response, content });
        }
    }

    /// Says whether the response has ended with that: nothing may have been said of one that is asked for again.
    fn answer_has_failed(&mut self, now: Time, mut active: Active, mut fault: Fault) -> bool {
        let retry = if active.said.is_empty() { active.retries.next(now, &fault) } else { Retry::Never };
        if fault.reach == Reach::Fails && !active.said.is_empty() {
            // It does answer.
            fault.reach = Reach::Answers;
        }
        self.trouble(now, Part::Language, &fault, retry);
        if retry == Retry::Never {
            self.failed(active.request.response, fault.reason);
            return true;
        }
        self.active = Some(active);
        false
    }

    /// The part that the response under way has waited for longest.
    pub(super) fn waited_for(&self, now: Time) -> Option<Part> {
        let active = self.active.as_ref()?;
        let began = active.request.asked_at;
        Some(match active.answer_since {
            Some(since) if !active.said.is_empty() || now.since(since) >= since.since(began) => Part::Language,
            _ => Part::Transcription,
        })
    }

    pub(super) fn cancel(&mut self, now: Time, response: ResponseId) {
        let in_vain = |active: &&Active| active.request.response == response && active.said.is_empty() && now >= active.retries.until();
        if self.active.as_ref().is_some_and(|active| in_vain(&active))
            && !self.standing.is_away()
            && let Some(part) = self.waited_for(now)
        {
            self.give_up(now, part);
        }
        self.waiting.retain(|request| request.response != response);
        // What the caller said is written down all the same.
        if let Some(active) = self.active.take_if(|active| active.request.response == response) {
            self.drop_answer(active.answer);
        }
    }
}

/// So often a request is made again.
const RETRIES_MAX: u32 = 3;
/// A conversation asks for one at a time, and cancels it before it asks for another one.
const WAITING_MAX: usize = 8;
/// A model that can't make a call after being told twice what is wrong with it won't.
const CORRECTIONS_MAX: u32 = 2;
