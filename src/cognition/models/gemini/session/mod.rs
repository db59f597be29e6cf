//! A model session, as a pure state machine: no I/O, no clock, no randomness.
//!
//! One input, then its actions, then the next input: [`Session::handle`] takes what the conversation, the caller and the service
//! say, and gives what is to be sent and to be said, in order. [`deadline`](link::Session::deadline) names when it wants to be woken.
//!
//! What it keeps to, whatever the service does:
//! * what comes belongs to the response that was asked for, one at a time; what comes of an earlier one, or unasked, is dropped until
//!   the service has ended it;
//! * nothing is sent that interrupts a response that is wanted: the caller's speech waits for the conversation to cancel it, and what the
//!   model is to know waits for what it is asked next;
//! * a call is answered in any case, and soon, with how the operation stands and never with what came of it; that the service cancels a
//!   call ends no operation;
//! * another connection goes on with the session only where nothing has happened since the service last said how; otherwise it is told
//!   what was heard and what runs.

mod activity;
mod calls;
mod context;
mod generation;
mod renewal;
mod setup;
mod speech;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use recado_core::conversation::input::ModelEvent;
use recado_core::{ResponseId, Time};

use self::activity::Activity;
use self::calls::OpenCalls;
use self::context::Context;
use self::generation::Generation;
use self::renewal::Renewal;
pub use self::setup::Setup;
use super::wire::{ClientMessage, INPUT_HZ, LiveMessage, ServerContent};
use crate::cognition::models::Usage;
use crate::cognition::models::caller::Caller;
use crate::cognition::models::calls::{Calls, TAKEN_MAX};
use crate::cognition::models::link::{self, Line, Meaning, Told};
use crate::cognition::models::notes::{self, Role};
use crate::cognition::models::port::{Command, Output};
use crate::cognition::models::transport::TransportError;

/// What happens to a session.
pub type Input = link::Input<Told, LiveMessage>;

/// What a session wants done.
pub type Action = link::Action<ClientMessage, Said>;

/// What a session says.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// To the conversation and the voice.
    Output(Output),
    /// The service is set, and knows the history.
    Ready {
        /// Whether it goes on with the session of an earlier connection.
        resumed: bool,
    },
    /// The service does not take the session, and says why: no other connection helps.
    Refused(String),
    /// Nothing more comes of this response, which was cancelled.
    Cancelled {
        /// The response.
        response: ResponseId,
    },
    /// The service does something that ends nothing, in words.
    Trouble(String),
}

/// What a session took.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    /// Tokens of all responses, by the kinds that are charged for differently.
    pub usage: Usage,
    /// How often the service spoke without being asked, and was not heard.
    pub unasked: u64,
    /// Calls that the service has cancelled, each of which set something in motion that goes on.
    pub calls_cancelled: u64,
}

/// A model session.
#[derive(Debug)]
pub struct Session {
    setup: Arc<Setup>,
    state: State,
    /// Counts connections.
    connection: u64,
    /// How often in a row a connection that was set has ended before a response had.
    closes: u32,
    actions: Vec<Action>,
    caller: Caller,
    activity: Activity,
    generation: Generation,
    /// The last responses that the model remembers as it made them, oldest first.
    spoken: VecDeque<ResponseId>,
    calls: Calls,
    open_calls: OpenCalls,
    context: Context,
    renewal: Renewal,
    totals: Totals,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// There is no connection.
    Down,
    /// The service has not said yet that the session is set.
    Setting { until: Time, resumes: bool, seeds: bool },
    /// All is well.
    Ready,
    /// There will be no connection.
    Gone { reason: String },
}

impl link::Session for Session {
    type Told = Told;
    type Incoming = LiveMessage;
    type Outgoing = ClientMessage;
    type Said = Said;
    type Totals = Totals;

    fn takes(&mut self, now: Time, input: Input) -> Vec<Action> {
        self.handle(now, input)
    }

    fn deadline(&self) -> Option<Time> {
        let setting = match self.state {
            State::Setting { until, .. } => Some(until),
            _ => None,
        };
        let ready = || [self.generation.deadline(), self.open_calls.deadline(), self.renewal.deadline()];
        setting.into_iter().chain(self.ready().then(ready).into_iter().flatten().flatten()).min()
    }

    fn totals(&self) -> Totals {
        self.totals.clone()
    }

    /// The service says by its close what others say in words, and closes for reasons of its own: what it took before, it takes again.
    fn may_help(&self, error: &TransportError) -> bool {
        let closed = matches!(error, TransportError::Closed { .. });
        let was_good = match self.state {
            State::Ready => self.closes < CLOSES_MAX,
            State::Setting { resumes, .. } => resumes,
            State::Down | State::Gone { .. } => false,
        };
        error.is_retryable() || closed && was_good
    }

    fn cancels(told: &Told) -> Option<ResponseId> {
        match told {
            Told::Command(command) => command.cancels(),
            Told::Caller(_) => None,
        }
    }

    fn meaning(said: &Said) -> Meaning {
        match said {
            Said::Ready { .. } => Meaning::Ready,
            Said::Refused(_) => Meaning::Refused,
            Said::Output(Output::Words { response, .. } | Output::Audio { response, .. }) => Meaning::Speech(*response),
            _ => Meaning::Other,
        }
    }
}

impl Session {
    /// A session that waits for its first connection.
    pub fn new(setup: impl Into<Arc<Setup>>) -> Self {
        Self {
            setup: setup.into(),
            state: State::Down,
            connection: 0,
            closes: 0,
            actions: Vec::new(),
            caller: Caller::new(INPUT_BYTES_PER_MS, false),
            activity: Activity::default(),
            generation: Generation::default(),
            spoken: VecDeque::new(),
            calls: Calls::default(),
            open_calls: OpenCalls::default(),
            context: Context::default(),
            renewal: Renewal::default(),
            totals: Totals::default(),
        }
    }

    /// Takes an input at `now`, and says what is to be done about it, in order.
    pub fn handle(&mut self, now: Time, input: impl Into<Input>) -> Vec<Action> {
        match input.into() {
            Input::Told(Told::Command(command)) => self.command(now, command),
            Input::Told(Told::Caller(bytes)) => self.caller.hear(&bytes),
            Input::Line(Line::Connected) => self.connected(now),
            Input::Line(Line::Server(message)) => self.server(now, message),
            Input::Line(Line::Lost { reason }) => self.lost(now, &reason),
            Input::Line(Line::Gone { reason }) => self.gone(now, reason),
            Input::Line(Line::Wake) => self.wake(now),
        }
        self.advance(now);
        std::mem::take(&mut self.actions)
    }

    fn ready(&self) -> bool {
        self.state == State::Ready
    }

    fn command(&mut self, now: Time, command: Command) {
        match command {
            Command::Respond { response, cause } => self.respond(response, notes::cause(&cause), notes::is_turn(&cause)),
            Command::TellOfMessage { response, left } => {
                // What came of it before it was known to be one.
                self.caller.forget_turn();
                self.respond(response, Some(notes::left(&left)), false);
            }
            Command::CancelResponse { response } => self.cancel(now, response),
            Command::Truncate { response, heard_ms: _, heard_text } => self.truncate(response, &heard_text),
            Command::ToolOutput { call_id, operation, status } => self.tool_output(&call_id, operation, status),
            Command::Told { delivery: _, text } => self.context.told(&text),
            Command::Update { delivery: _, text } => self.context.update(&text),
            Command::Work(work) => self.context.note(Role::System, notes::work(&work)),
            Command::Verification(outcome) => self.context.note(Role::System, notes::verification(outcome)),
            Command::Cancelling(cancellation) => self.context.cancelling(&cancellation.say),
            Command::Heard(heard) => self.heard(heard),
            Command::Acoustic(edge) => {
                self.caller.edge(edge.to);
            }
            Command::AnsweredElsewhere => {
                // What the service has been sent of it, it can't forget; it is told.
                self.caller.forget_turn();
                self.context.note(Role::System, notes::ANSWERED_ELSEWHERE.to_owned());
            }
            Command::Reconnect => {
                if !matches!(self.state, State::Down | State::Gone { .. }) {
                    self.reconnect(now, "the service did not answer in time");
                }
            }
        }
    }

    fn server(&mut self, now: Time, message: LiveMessage) {
        if matches!(self.state, State::Down | State::Gone { .. }) {
            // Of a connection that was given up.
            return;
        }
        if let Some(complaint) = message.error {
            self.complaint(now, &complaint.words());
        }
        if message.setup_complete {
            self.set(now);
        }
        if !self.ready() {
            return;
        }
        self.totals.usage.add(&(&message.usage_metadata).into());
        let mut calls = message.tool_call.function_calls;
        let further = calls.split_off(calls.len().min(TAKEN_MAX));
        for call in calls {
            self.call(now, call);
        }
        self.refuse(further);
        for call_id in message.tool_call_cancellation.ids {
            self.call_cancelled(&call_id);
        }
        if let Some(content) = message.server_content {
            self.content(now, content);
        }
        if let Some(update) = message.session_resumption_update {
            // What is under way, the session would be resumed without.
            let whole = !self.generation.is_wanted() && !self.activity.is_open();
            self.renewal.handle = update.handle().filter(|_| whole);
        }
        if let Some(go_away) = message.go_away {
            self.renewal.go_away(now, go_away.time_left_ms());
        }
    }

    fn content(&mut self, now: Time, mut content: ServerContent) {
        if let Some(transcription) = content.input_transcription.take() {
            self.caller_said(&transcription.text);
        }
        if content.interrupted {
            self.interrupted(now);
        }
        match content.sound() {
            Ok(sound) if sound.is_empty() => {}
            Ok(sound) => self.sound(now, sound),
            Err(rate) => self.fail_active(now, &format!("the service speaks at {rate} Hz, which is none of its protocol's")),
        }
        if let Some(transcription) = content.output_transcription.take() {
            self.words(now, &transcription);
        }
        if content.generation_complete {
            self.generation_complete(now);
        }
        if content.turn_complete {
            self.turn_complete(now, content.reason(), content.goes_on());
        }
    }

    fn complaint(&mut self, now: Time, words: &str) {
        let says = format!("the service says: {words}");
        if let State::Setting { .. } = self.state {
            self.gone(now, says);
            self.say(Said::Refused(words.to_owned()));
        } else if !self.refused(now, &says) {
            self.say(Said::Trouble(says));
        }
    }

    fn connected(&mut self, now: Time) {
        self.lost(now, "another connection took its place");
        if matches!(self.state, State::Gone { .. }) {
            return;
        }
        self.connection += 1;
        let handle = self.renewal.handle.take();
        let (resumes, seeds) = (handle.is_some(), !self.context.is_empty());
        self.state = State::Setting { until: now.plus(self.setup.answer_timeout_ms), resumes, seeds };
        let settings = self.setup.settings(handle, seeds);
        self.send(ClientMessage::Setup(Box::new(settings)));
    }

    fn set(&mut self, now: Time) {
        let State::Setting { resumes, seeds, .. } = self.state else { return };
        self.state = State::Ready;
        self.renewal = Renewal::until(now.plus(self.setup.renew_after_ms));
        if !resumes {
            self.spoken.clear();
            self.tell_history(seeds);
        }
        self.say(Said::Ready { resumed: resumes });
    }

    /// The connection is gone, and with it what was under way on it.
    fn lost(&mut self, now: Time, reason: &str) {
        match self.state {
            State::Down | State::Gone { .. } => return,
            State::Ready => self.closes += 1,
            State::Setting { .. } => {}
        }
        self.state = State::Down;
        self.caller.begin_connection();
        self.activity.begin_connection();
        self.open_calls.begin_connection();
        self.fail_active(now, reason);
        self.generation.begin_connection();
    }

    fn gone(&mut self, now: Time, reason: String) {
        self.lost(now, &reason);
        for response in self.generation.drain() {
            self.failed(response, &reason);
        }
        self.state = State::Gone { reason };
    }

    fn reconnect(&mut self, now: Time, reason: &str) {
        // Said first: what fails with it is known to have failed for it.
        link::reconnect(&mut self.actions, reason);
        // That is no fault of the connection.
        let closes = self.closes;
        self.lost(now, reason);
        self.closes = closes;
    }

    fn wake(&mut self, now: Time) {
        if let State::Setting { until, .. } = self.state
            && now >= until
        {
            self.reconnect(now, "the service did not answer in time that the session is set");
        }
        self.renewal.wake(now);
        self.generation_wake(now);
        self.give_up_calls(now);
    }

    /// Sends this. What the service knows with it, no earlier state of the session holds.
    fn send(&mut self, message: ClientMessage) {
        self.renewal.handle = None;
        self.actions.push(Action::Send(message));
    }

    fn say(&mut self, said: Said) {
        self.actions.push(Action::Said(said));
    }

    fn say_event(&mut self, event: ModelEvent) {
        self.say(Said::Output(Output::Event(event)));
    }

    fn failed(&mut self, response: ResponseId, reason: &str) {
        self.say_event(ModelEvent::Failed { response, reason: reason.to_owned() });
    }
}

/// A service that takes a session and closes it again so often before it has answered once won't.
const CLOSES_MAX: u32 = 3;
/// 16-bit samples.
const INPUT_BYTES_PER_MS: usize = INPUT_HZ as usize / 1_000 * 2;
