//! A cascade's session, as a pure state machine: no I/O, no clock, no randomness.
//!
//! One input, then its actions, then the next input: [`Session::handle`] takes what the conversation, the caller and the services say, and
//! gives what is to be asked and to be said, in order. [`Session::deadline`] names when it wants to be woken.
//!
//! What it keeps to, whatever the services do:
//! * one answer at a time is asked for; what comes late of one that was given up is discarded by its number;
//! * what the model is told of the conversation is what was heard, and every call in it has exactly one output, which says how the operation
//!   stands and never what came of it (a result is the box's to tell);
//! * what is begun while the caller may still go on is not said before the conversation asks for it, and leaves nothing but its cost when the
//!   caller goes on;
//! * a request that fails is made again as long as nothing was said of the response and the caller's patience lasts.

mod ahead;
mod answer;
mod asking;
mod caller;
mod calls;
mod history;
mod setup;
mod standing;
mod writing;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use recado_core::conversation::effect::{Cause, HeardText, Purpose};
use recado_core::conversation::input::ModelEvent;
use recado_core::{ResponseId, Time};

use self::ahead::Ahead;
use self::asking::{Active, Request};
use self::caller::{Caller, Moved};
use self::calls::Calls;
use self::history::Note;
pub use self::setup::Setup;
use self::standing::Standing;
use self::writing::Writing;
use crate::cognition::language::http::Fault;
use crate::cognition::language::wire::{AnswerEvent, Line, Transcript};
use crate::cognition::models::memory::Memory;
use crate::cognition::models::notes::{self, Role};
use crate::cognition::models::port::{Availability, Command, Output};
use crate::cognition::models::usage::Usage;

/// What a session is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// By the conversation.
    Command(Command),
    /// The caller's audio: 16 bits, 8 kHz.
    Caller(Vec<i16>),
    /// What the caller said is written down, or can't be.
    WrittenDown {
        /// By which request.
        job: JobId,
        /// The words.
        result: Result<Transcript, Fault>,
    },
    /// Something of an answer has come.
    Answer {
        /// By which request.
        job: JobId,
        /// What.
        event: AnswerEvent,
    },
    /// No more of an answer comes.
    AnswerFailed {
        /// By which request.
        job: JobId,
        /// Why.
        fault: Fault,
    },
    /// A part has been looked at.
    Looked {
        /// Which.
        part: Part,
        /// Whether it can be asked.
        result: Result<(), Fault>,
    },
    /// The deadline may have come.
    Wake,
}

/// What a session wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Have this written down.
    WriteDown {
        /// What the request is called.
        job: JobId,
        /// 16 bits, 8 kHz.
        samples: Arc<[i16]>,
    },
    /// Have this answered.
    Ask {
        /// What the request is called.
        job: JobId,
        /// The conversation.
        lines: Vec<Line>,
    },
    /// Give up a request.
    Abort(JobId),
    /// Say this to the conversation.
    Say(Output),
    /// A request has failed: whoever looks after the box should know.
    Trouble {
        /// Of which part.
        part: Part,
        /// Why.
        reason: String,
        /// When it is made again (ms); none where it is not.
        again_in_ms: Option<u64>,
    },
    /// Look whether this part can be asked again.
    Look(Part),
    /// This is believed of a part until a request to it works.
    GaveUp {
        /// Which.
        part: Part,
        /// What of it was waited for in vain.
        fault: Fault,
    },
    /// How a part stands, which has changed.
    Stands {
        /// Which.
        part: Part,
        /// How.
        availability: Availability,
    },
    /// Whether all parts can be asked, which has changed.
    Available(Availability),
}

/// A request, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// A part of the cascade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What writes down.
    Transcription,
    /// What answers.
    Language,
}

/// What a session took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// What all answers took, as far as services have counted it: one that is given up is not counted by any.
    pub language: Usage,
    /// What was written down: its tokens, and its length where the service counts none.
    pub transcription: Usage,
    /// How often something was begun ahead.
    pub begun_ahead: u64,
    /// How often it was dropped.
    pub dropped: u64,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    setup: Arc<Setup>,
    actions: Vec<Action>,
    /// Counts requests.
    jobs: u64,
    caller: Caller,
    memory: Memory<Note>,
    calls: Calls,
    /// Counts turns.
    turns: u64,
    /// Turns that are being written down, oldest first.
    writings: Vec<Writing>,
    /// How long what was last given to be written down is (ms): where tokens are not counted, that is.
    lengths: VecDeque<(JobId, u64)>,
    /// What was begun before the conversation asked for it.
    ahead: Option<Ahead>,
    waiting: VecDeque<Request>,
    active: Option<Active>,
    /// Whether the caller has said something that nothing was said to yet.
    owed: bool,
    /// Whether the service has sent what the model thinks as if it were its answer, up to where it ends: an answer is not said before that.
    thinks_first: bool,
    standing: Standing,
    totals: Totals,
}

impl Session {
    /// A session of which nothing has been asked. Of these parts it is known that they are away, and why.
    pub fn new(setup: impl Into<Arc<Setup>>, away: impl IntoIterator<Item = (Part, String)>) -> Self {
        Self {
            setup: setup.into(),
            actions: Vec::new(),
            jobs: 0,
            caller: Caller::default(),
            memory: Memory::default(),
            calls: Calls::default(),
            turns: 0,
            writings: Vec::new(),
            lengths: VecDeque::new(),
            ahead: None,
            waiting: VecDeque::new(),
            active: None,
            owed: false,
            thinks_first: false,
            standing: Standing::of_known(away),
            totals: Totals::default(),
        }
    }

    /// Takes an input at `now`, and says what is to be done about it, in order.
    pub fn handle(&mut self, now: Time, input: Input) -> Vec<Action> {
        match input {
            Input::Command(command) => self.command(now, command),
            Input::Caller(samples) => self.caller.hear(&samples),
            Input::WrittenDown { job, result } => self.written_down(now, job, result),
            Input::Answer { job, event } => self.answered(now, job, event),
            Input::AnswerFailed { job, fault } => self.answer_failed(job, fault),
            Input::Looked { part, result } => self.looked(now, part, result),
            Input::Wake => {}
        }
        self.advance(now);
        std::mem::take(&mut self.actions)
    }

    /// When it wants to be woken, if it does.
    pub fn deadline(&self) -> Option<Time> {
        let writings = self.writings.iter().chain(self.ahead.as_ref().map(|ahead| &ahead.writing)).filter_map(Writing::deadline);
        writings.chain(self.active.as_ref().and_then(Active::deadline)).chain(self.breaks_at()).chain(self.standing.deadline()).min()
    }

    /// Whether all parts can be asked.
    pub fn availability(&self) -> Availability {
        self.standing.whole()
    }

    /// What it took so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    fn command(&mut self, now: Time, command: Command) {
        match command {
            Command::Respond { response, cause } => {
                let of = if let Cause::Turn { turn } = cause { Some(turn) } else { None };
                self.respond(now, response, notes::cause(&cause), of);
            }
            Command::TellOfMessage { response, left } => {
                // What came of it before it was known to be one.
                self.drop_ahead();
                let _ = self.caller.take();
                self.respond(now, response, Some(notes::left(&left)), None);
            }
            Command::CancelResponse { response } => self.cancel(now, response),
            Command::Truncate { response: _, heard_ms: _, heard_text } => {
                // What was heard is known by itself; that it was not all is not.
                if !heard_text.trim().is_empty() {
                    self.note(Role::System, notes::cut_off(&heard_text));
                }
            }
            Command::ToolOutput { call_id, operation, status } => self.tool_output(&call_id, operation, status),
            Command::Told { delivery: _, text } => self.note(Role::System, notes::told(&text)),
            Command::Update { delivery: _, text } => self.note(Role::System, notes::update(&text)),
            Command::Work(work) => self.note(Role::System, notes::work(&work)),
            Command::Verification(outcome) => self.note(Role::System, notes::verification(outcome)),
            Command::Cancelling(cancellation) => self.note(Role::System, notes::cancelling(&cancellation.say)),
            Command::Heard(heard) => self.heard(heard),
            Command::Acoustic(edge) => match self.caller.edge(edge.to) {
                Moved::Nothing => {}
                Moved::Paused => self.begin_ahead(now),
                Moved::WentOn => self.drop_ahead(),
            },
            Command::AnsweredElsewhere => {
                self.drop_ahead();
                // It is neither written down any more nor known.
                let _ = self.caller.take();
                self.drop_writings();
                self.memory.forget_unanswered();
                self.owed = false;
                self.note(Role::System, notes::ANSWERED_ELSEWHERE.to_owned());
            }
            // Each request finds a connection of its own; the next one finds the same service.
            Command::Reconnect => {
                if let Some(part) = self.waited_for(now) {
                    self.give_up(now, part);
                }
            }
        }
    }

    /// Something is said or done about what the caller said last.
    fn answers(&mut self) {
        self.owed = false;
        self.memory.answered();
    }

    /// Tells the model something from now on.
    fn note(&mut self, role: Role, text: String) {
        self.memory.note(Note::Message(role, text));
    }

    fn heard(&mut self, heard: HeardText) {
        if matches!(heard.purpose, Purpose::Clause { .. }) {
            // `Told` says it, whole.
            return;
        }
        self.memory.heard(heard);
    }

    fn next_job(&mut self) -> JobId {
        self.jobs += 1;
        JobId(self.jobs)
    }

    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn say(&mut self, event: ModelEvent) {
        self.act(Action::Say(Output::Event(event)));
    }

    fn failed(&mut self, response: ResponseId, reason: impl Into<String>) {
        self.say(ModelEvent::Failed { response, reason: reason.into() });
    }
}
