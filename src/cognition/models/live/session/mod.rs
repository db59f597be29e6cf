//! A model session, as a pure state machine: no I/O, no clock, no randomness.
//!
//! One input, then its actions, then the next input: [`Session::handle`] takes what the conversation, the caller and the service
//! say, and gives what is to be sent and to be said, in order. [`deadline`](link::Session::deadline) names when it wants to be woken.
//!
//! What it keeps to, whatever the service does:
//! * the caller is heard at all times, and what the model says is only passed on in a response that the conversation asks for; the model
//!   is told what of it was not heard;
//! * a task that the model delegates becomes at most one call of a tool, in a response that is asked for, or the model is told that nothing
//!   was done;
//! * the model is told how an operation stands and never what came of it, until the box has told the caller;
//! * a new session is told what was heard and what runs.

mod floor;
mod memory;
mod outbox;
mod setup;
mod tasks;
mod transcript;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use recado_core::conversation::effect::{Cause, HeardText, Purpose, Standing};
use recado_core::conversation::input::{Acoustic, ModelEvent};
use recado_core::{ResponseId, Time};

use self::floor::Floor;
use self::memory::Memory;
use self::outbox::{About, Outbox};
pub use self::setup::Setup;
use self::tasks::Tasks;
use self::transcript::Transcript;
use super::wire::{ClientEvent, ServerEvent, ServerFault, SessionFacts};
use crate::cognition::models::link::{self, Line, Meaning, Told};
use crate::cognition::models::notes;
use crate::cognition::models::port::{Command, Output};

/// What happens to a session.
pub type Input = link::Input<Told, ServerEvent>;

/// What a session wants done.
pub type Action = link::Action<ClientEvent, Said>;

/// What a session says.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// To the conversation and the voice.
    Output(Output),
    /// The session has started, and knows the history.
    Ready,
    /// The service does not take the session, and never will: no other connection helps.
    Refused(ServerFault),
    /// The service complains of something that ends nothing.
    Trouble(ServerFault),
    /// The service has acknowledged something that the model was told.
    Acknowledged {
        /// So long after it was sent (ms).
        after_ms: u64,
    },
    /// Nothing is done of what the model has delegated.
    NotDone {
        /// Why, as the model is told.
        reason: &'static str,
    },
    /// The service has not acknowledged what the model was told.
    Unacknowledged {
        /// So many things.
        appends: usize,
    },
}

/// What a session took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Seconds that are charged for, of all connections.
    pub seconds: f64,
    /// How full the model's memory was at most, where that is known: from 0 to 1.
    pub context_ratio: Option<f64>,
    /// How much the model said that nobody was to hear (ms).
    pub dropped_ms: u64,
}

/// A model session.
#[derive(Debug)]
pub struct Session {
    setup: Arc<Setup>,
    /// The wall's time when the session's own begins (Unix, s), where it is known.
    began_unix_s: Option<u64>,
    state: State,
    /// Counts connections.
    connection: u64,
    /// Whether this connection has lasted long enough.
    renewal_due: bool,
    outbox: Outbox,
    /// What the caller said that the service has not been sent.
    caller: VecDeque<u8>,
    caller_is_quiet: bool,
    floor: Floor,
    tasks: Tasks,
    transcript: Transcript,
    memory: Memory,
    /// Seconds of the connections before this one, and of this one.
    seconds: (f64, f64),
    context_ratio: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// There is no connection.
    Down,
    /// The service has not said yet that the session has started.
    Starting { until: Time },
    /// All is well, and so much time is left.
    Ready { renew_at: Time },
    /// There will be no connection.
    Gone { reason: String },
}

impl link::Session for Session {
    type Told = Told;
    type Incoming = ServerEvent;
    type Outgoing = ClientEvent;
    type Said = Said;
    type Totals = Totals;

    fn takes(&mut self, now: Time, input: Input) -> Vec<Action> {
        self.handle(now, input)
    }

    fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Down | State::Gone { .. } => None,
            State::Starting { until } => Some(until),
            State::Ready { renew_at } => {
                // What is due waits for quiet, which comes with an input.
                let renewal = (!self.renewal_due).then_some(renew_at);
                let acknowledged = self.outbox.overdue_at(self.setup.answer_timeout_ms);
                let speech = self.floor.deadline(self.tasks.is_empty());
                [renewal, acknowledged, speech, self.tasks.deadline()].into_iter().flatten().min()
            }
        }
    }

    fn totals(&self) -> Totals {
        let (before, now) = self.seconds;
        let dropped_ms = self.floor.dropped_bytes / self.setup.format.bytes_per_ms() as u64;
        Totals { seconds: before + now, context_ratio: self.context_ratio, dropped_ms }
    }

    fn cancels(told: &Told) -> Option<ResponseId> {
        match told {
            Told::Command(command) => command.cancels(),
            Told::Caller(_) => None,
        }
    }

    fn meaning(said: &Said) -> Meaning {
        match said {
            Said::Ready => Meaning::Ready,
            Said::Refused(_) => Meaning::Refused,
            Said::Output(Output::Words { response, .. } | Output::Audio { response, .. }) => Meaning::Speech(*response),
            _ => Meaning::Other,
        }
    }
}

impl Session {
    /// A session that waits for its first connection, where the wall shows `began_unix_s` (s), if it is known to be right.
    pub fn new(setup: impl Into<Arc<Setup>>, began_unix_s: Option<u64>) -> Self {
        Self {
            setup: setup.into(),
            began_unix_s,
            state: State::Down,
            connection: 0,
            renewal_due: false,
            outbox: Outbox::default(),
            caller: VecDeque::new(),
            caller_is_quiet: true,
            floor: Floor::default(),
            tasks: Tasks::default(),
            transcript: Transcript::default(),
            memory: Memory::default(),
            seconds: (0.0, 0.0),
            context_ratio: None,
        }
    }

    /// Takes an input at `now`, and says what is to be done about it, in order.
    pub fn handle(&mut self, now: Time, input: impl Into<Input>) -> Vec<Action> {
        self.floor.unmute(now);
        match input.into() {
            Input::Told(Told::Command(command)) => self.command(now, command),
            Input::Told(Told::Caller(bytes)) => self.hear(bytes),
            Input::Line(Line::Connected) => self.connected(now),
            Input::Line(Line::Server(event)) => self.server(now, event),
            Input::Line(Line::Lost { reason }) => self.lost(&reason),
            Input::Line(Line::Gone { reason }) => self.gone(&reason),
            Input::Line(Line::Wake) => {}
        }
        match self.state {
            State::Starting { until } if now >= until => self.reconnect("the service did not say in time that the session has started"),
            State::Ready { renew_at } => {
                self.renewal_due |= now >= renew_at;
                self.give_up_calls(now);
                self.make_calls(now);
                self.pass(now);
                self.outbox.complain(now, self.setup.answer_timeout_ms);
                self.send_caller_audio();
                if self.renewal_due && self.caller_is_quiet && self.floor.is_idle() && self.tasks.is_empty() {
                    self.reconnect("the session is near its limit");
                }
            }
            _ => {}
        }
        self.outbox.take()
    }

    fn ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    fn command(&mut self, now: Time, command: Command) {
        match command {
            // Who asks because the model wants to speak does not wait for it.
            Command::Respond { response, cause } => self.respond(now, response, notes::cause(&cause), cause == Cause::OwnAccord),
            Command::TellOfMessage { response, left } => self.respond(now, response, Some(notes::left(&left)), false),
            Command::CancelResponse { response } => {
                self.cancel(response);
                self.doubt_calls(now, response);
            }
            Command::Truncate { response, heard_ms: _, heard_text } => {
                // What of it another session said is known as `Heard`.
                if self.floor.spoke_in(response) {
                    self.context(now, &notes::cut_off(&heard_text));
                }
            }
            Command::ToolOutput { call_id, operation, status } => self.tool_output(now, &call_id, operation, status),
            Command::Told { delivery: _, text } => self.note(now, notes::told(&text)),
            Command::Update { delivery: _, text } => self.note(now, notes::update(&text)),
            Command::Work(work) => self.note(now, notes::work(&work)),
            Command::Verification(outcome) => self.note(now, notes::verification(outcome)),
            Command::Cancelling(cancellation) => self.note(now, notes::cancelling(&cancellation.say)),
            Command::Heard(heard) => self.heard(now, &heard),
            Command::Acoustic(edge) => self.caller_is_quiet = edge.to == Acoustic::Quiet,
            Command::AnsweredElsewhere => {
                // What was not sent yet was part of it.
                self.caller.clear();
                self.note(now, notes::ANSWERED_ELSEWHERE.to_owned());
            }
            Command::Reconnect => {
                if !matches!(self.state, State::Down | State::Gone { .. }) {
                    self.reconnect("the service did not answer in time");
                }
            }
        }
    }

    fn server(&mut self, now: Time, event: ServerEvent) {
        match (&self.state, event) {
            // Of a connection that was given up.
            (State::Down | State::Gone { .. }, _) => {}
            (State::Starting { .. }, ServerEvent::Started { session }) => self.started(now, session),
            (_, ServerEvent::Error { error }) => self.trouble(error),
            (_, ServerEvent::Closed { reason, usage }) => {
                self.seconds.1 = self.seconds.1.max(usage.seconds);
                let reason = if reason.is_empty() { "it does not say why" } else { reason.as_str() };
                self.reconnect(&format!("the service has ended the session: {reason}"));
            }
            (State::Starting { .. }, _) => {}
            (State::Ready { .. }, event) => self.goes_on(now, event),
        }
    }

    fn goes_on(&mut self, now: Time, event: ServerEvent) {
        match event {
            ServerEvent::Audio { delta } => self.audio(now, delta),
            ServerEvent::OutputTranscript { delta, start_ms } => self.words(now, start_ms, delta),
            ServerEvent::InputTranscript { delta, start_ms } => {
                self.memory.caller_said(&delta);
                self.transcript.caller(start_ms, delta);
            }
            ServerEvent::DelegationCreated { delegation, offset_ms } => {
                // What another service does, by a setting that is not this box's, is none of its operations.
                if delegation.target.as_deref().is_none_or(|target| target == "client") {
                    self.delegated(now, delegation.id, offset_ms);
                }
            }
            ServerEvent::Appended { client_event_id } => {
                if let Some((About::Append, since)) = client_event_id.and_then(|event_id| self.outbox.answered(&event_id)) {
                    self.outbox.say(Said::Acknowledged { after_ms: now.since(since) });
                }
            }
            ServerEvent::Usage { usage, context_window } => {
                self.seconds.1 = self.seconds.1.max(usage.seconds);
                let ratio = context_window.map(|window| window.usage_ratio);
                self.context_ratio = self.context_ratio.into_iter().chain(ratio).reduce(f64::max);
            }
            ServerEvent::Started { .. } | ServerEvent::Closed { .. } | ServerEvent::Error { .. } | ServerEvent::Ignored => {}
        }
    }

    fn connected(&mut self, now: Time) {
        self.lost("another connection took its place");
        if matches!(self.state, State::Gone { .. }) {
            return;
        }
        self.connection += 1;
        self.state = State::Starting { until: now.plus(self.setup.answer_timeout_ms) };
        let history = self.memory.restore(self.tasks.under_way());
        self.outbox.start(now, self.setup.settings(history));
    }

    fn started(&mut self, now: Time, session: SessionFacts) {
        let by_setting = now.plus(self.setup.renew_after_ms);
        let expires_in_s = session.expires_at.zip(self.began_unix_s).and_then(|(at, began)| at.checked_sub(began));
        let by_service = expires_in_s.and_then(|seconds| seconds.checked_mul(1_000)?.checked_sub(EXPIRY_MARGIN_MS)).map(Time);
        // What is over already is another clock's.
        let renew_at = by_service.filter(|at| *at > now).map_or(by_setting, |at| at.min(by_setting));
        self.state = State::Ready { renew_at };
        self.renewal_due = false;
        self.outbox.began();
        self.outbox.say(Said::Ready);
        self.ask(now);
    }

    /// The connection is gone, and with it the session that was under way on it.
    fn lost(&mut self, reason: &str) {
        if matches!(self.state, State::Down | State::Gone { .. }) {
            return;
        }
        self.state = State::Down;
        self.outbox.begin_connection();
        self.end_speech(reason);
        if self.tasks.begin_connection() {
            self.memory.note(LOST_TASK.to_owned());
        }
        self.transcript.begin_session();
        let (before, now) = self.seconds;
        self.seconds = (before + now, 0.0);
    }

    fn gone(&mut self, reason: &str) {
        self.lost(reason);
        self.fail_asked(reason);
        self.state = State::Gone { reason: reason.to_owned() };
    }

    fn reconnect(&mut self, reason: &str) {
        // Said first: what fails with it is known to have failed for it.
        self.outbox.reconnect(reason);
        self.lost(reason);
    }

    /// What the service complains of, and what that ends.
    fn trouble(&mut self, fault: ServerFault) {
        let about = fault.event_id.as_deref().and_then(|event| self.outbox.answered(event)).map(|(about, _)| about);
        let said = format!("the service says: {}", fault.words());
        match (fault.code(), about) {
            ("session_expired", _) => self.reconnect("the service has ended the session, which was too old"),
            (_, about) if !self.ready() && about != Some(About::Append) => {
                // Where the service is only overloaded or full, another connection helps, later.
                if fault.passes() {
                    self.reconnect(&said);
                    self.outbox.say(Said::Trouble(fault));
                } else {
                    self.gone(&said);
                    self.outbox.say(Said::Refused(fault));
                }
            }
            _ => self.outbox.say(Said::Trouble(fault)),
        }
    }

    /// Tells the model something as context, now and in every later session.
    fn note(&mut self, now: Time, text: String) {
        self.context(now, &text);
        self.memory.note(text);
    }

    /// Tells the model something as context, in this session.
    fn context(&mut self, now: Time, text: &str) {
        if self.ready() {
            self.outbox.think(now, text, None);
        }
    }

    /// What was heard of a segment is remembered for other sessions. In this one, the model knows its own words; those that the box spoke in
    /// its name it is told once they are known to have been heard, or not to be.
    fn heard(&mut self, now: Time, heard: &HeardText) {
        if matches!(heard.purpose, Purpose::Clause { .. }) {
            // `Told` says it, whole.
            return;
        }
        self.memory.heard(heard);
        let own = matches!(heard.purpose, Purpose::Reply { response } if self.floor.spoke_in(response));
        match heard.standing {
            _ if heard.text.trim().is_empty() => {}
            Standing::Settled(_) if !own => self.context(now, &notes::told(&heard.text)),
            Standing::Uncertain => self.context(now, &notes::perhaps_heard(&heard.text)),
            Standing::Settled(_) | Standing::Provisional => {}
        }
    }

    fn hear(&mut self, bytes: Vec<u8>) {
        self.caller.extend(bytes);
        // What was said long before there was a session is not waited for any more.
        let excess = self.caller.len().saturating_sub(CALLER_MS_MAX * self.setup.format.bytes_per_ms());
        self.caller.drain(..excess);
    }

    fn send_caller_audio(&mut self) {
        let most = PIECE_MS_MAX * self.setup.format.bytes_per_ms();
        while !self.caller.is_empty() {
            let piece: Vec<u8> = self.caller.drain(..most.min(self.caller.len())).collect();
            self.outbox.audio(piece);
        }
    }

    fn say_event(&mut self, event: ModelEvent) {
        self.outbox.say(Said::Output(Output::Event(event)));
    }

    fn failed(&mut self, response: ResponseId, reason: &str) {
        self.say_event(ModelEvent::Failed { response, reason: reason.to_owned() });
    }
}

/// What another session is told of a task that was lost with the one that delegated it. What the caller said of it is kept.
const LOST_TASK: &str = "What was delegated last has not been done: delegate it again, unless the caller does not want it any more.";
/// A session is replaced so long before the service ends it (ms): somebody may be speaking just then.
const EXPIRY_MARGIN_MS: u64 = 60_000;
/// So much of what the caller says is kept for a session that is about to start (ms).
const CALLER_MS_MAX: usize = 5_000;
/// A second at a time: no event is large.
const PIECE_MS_MAX: usize = 1_000;
