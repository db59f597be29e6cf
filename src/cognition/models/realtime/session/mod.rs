//! A model session, as a pure state machine: no I/O, no clock, no randomness.
//!
//! One input, then its actions, then the next input: [`Session::handle`] takes what the conversation, the caller and the service
//! say, and gives what is to be sent and to be said, in order. [`deadline`](link::Session::deadline) names when it wants to be woken.
//!
//! What it keeps to, whatever the service does:
//! * one response at a time is asked for in the conversation; what comes late of a cancelled one is discarded by its name;
//! * a call gets exactly one output, at once, which says how the operation stands and never what came of it; later news are items of
//!   their own (a result is the box's to tell);
//! * the model's memory is cut to what was heard, and never beyond the audio that came;
//! * a new connection is told what was heard and what runs, and is not answered for the calls of another one.

mod calls;
mod generation;
mod outbox;
mod render;
mod setup;
mod speech;
mod trouble;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use recado_core::conversation::effect::{HeardText, Purpose, Standing};
use recado_core::conversation::input::ModelEvent;
use recado_core::{ResponseId, Time};

use self::generation::Generation;
use self::outbox::{About, Outbox};
use self::render::Renders;
pub use self::setup::Setup;
use self::speech::Spoken;
use super::wire::{ClientBody, ClientEvent, Item, RateLimit, ServerEvent, ServerFault, Usage};
use crate::cognition::models;
use crate::cognition::models::caller::Caller;
use crate::cognition::models::calls::Calls;
use crate::cognition::models::link::{self, Line, Meaning};
use crate::cognition::models::memory::{self, Memory, Piece};
use crate::cognition::models::notes::{self, Role};
use crate::cognition::models::port::{Command, Output};

/// What happens to a session.
pub type Input = link::Input<Told, ServerEvent>;

/// What a session is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// By the conversation.
    Command(Command),
    /// The caller's audio, in the session's format.
    Caller(Vec<u8>),
    /// Speak this text, beside the conversation, word for word.
    Render {
        /// What it is called.
        render: RenderId,
        /// The text.
        text: String,
    },
}

impl From<link::Told> for Told {
    fn from(told: link::Told) -> Self {
        match told {
            link::Told::Command(command) => Self::Command(command),
            link::Told::Caller(bytes) => Self::Caller(bytes),
        }
    }
}

impl From<Told> for Input {
    fn from(told: Told) -> Self {
        Self::Told(told)
    }
}

/// What a session wants done.
pub type Action = link::Action<ClientEvent, Said>;

/// What a session says.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// To the conversation and the voice.
    Output(Output),
    /// The service is set, and knows the history.
    Ready,
    /// The service does not take the session's settings, and never will: no other connection helps.
    Refused(ServerFault),
    /// Nothing more comes of this response, which was cancelled.
    Cancelled {
        /// The response.
        response: ResponseId,
        /// Whether the service says so; otherwise it was complete all the same, or the service has said nothing for too long, or is gone.
        confirmed: bool,
    },
    /// Speech of a text that was to be rendered, in the session's format.
    Rendered {
        /// Which.
        render: RenderId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A text is rendered, or can't be.
    RenderEnded {
        /// Which.
        render: RenderId,
        /// Why not, in words.
        result: Result<(), String>,
    },
    /// The service complains of something that ends nothing.
    Trouble(ServerFault),
}

/// What a session took.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    /// Tokens of all responses.
    pub usage: Usage,
    /// Tokens of what wrote down what the caller said: another model does, at another price.
    pub transcription_usage: Usage,
    /// How much more the service takes, as it last said.
    pub rate_limits: Vec<RateLimit>,
}

impl Totals {
    /// By the kinds that are charged for differently. Of what the service tells no kind, audio is the dearer one, and taken.
    pub fn charged(&self) -> models::Usage {
        let Usage { input_tokens, output_tokens, input_token_details: input, output_token_details: output, audio_ms } = self.usage;
        let untold = |all: u64, text: u64, audio: u64| all.saturating_sub(text.saturating_add(audio));
        let cached = input.cached_tokens_details;
        let cached_audio = cached.audio_tokens.saturating_add(untold(input.cached_tokens, cached.text_tokens, cached.audio_tokens));
        let input_audio = input.audio_tokens.saturating_add(untold(input_tokens, input.text_tokens, input.audio_tokens));
        let transcription = &self.transcription_usage;
        models::Usage {
            input_text: input.text_tokens.saturating_sub(cached.text_tokens),
            input_audio: input_audio.saturating_sub(cached_audio),
            cached_text: cached.text_tokens,
            cached_audio,
            output_text: output.text_tokens,
            output_audio: output.audio_tokens.saturating_add(untold(output_tokens, output.text_tokens, output.audio_tokens)),
            transcription: transcription.input_tokens.saturating_add(transcription.output_tokens),
            audio_ms: audio_ms.saturating_add(transcription.audio_ms),
        }
    }
}

/// A text that is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RenderId(pub u64);

/// A model session.
#[derive(Debug)]
pub struct Session {
    setup: Arc<Setup>,
    state: State,
    /// Counts connections.
    connection: u64,
    /// Whether this connection has lasted long enough.
    renewal_due: bool,
    outbox: Outbox,
    caller: Caller,
    generation: Generation,
    /// The last responses that had speech, oldest first.
    spoken: VecDeque<Spoken>,
    calls: Calls,
    memory: Memory<Item>,
    renders: Renders,
    usage: Usage,
    transcription_usage: Usage,
    rate_limits: Vec<RateLimit>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// There is no connection.
    Down,
    /// The service has not said yet that there is a session.
    Opening { until: Time },
    /// It has not said yet that the session is set.
    Setting { until: Time },
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
        let connection = match self.state {
            State::Opening { until } | State::Setting { until } => Some(until),
            // What is due waits for the end of a turn, which is an input.
            State::Ready { renew_at } if !self.renewal_due => Some(renew_at),
            _ => None,
        };
        [connection, self.generation.deadline(), self.renders.deadline()].into_iter().flatten().min()
    }

    fn totals(&self) -> Totals {
        Totals { usage: self.usage, transcription_usage: self.transcription_usage, rate_limits: self.rate_limits.clone() }
    }

    fn cancels(told: &Told) -> Option<ResponseId> {
        match told {
            Told::Command(command) => command.cancels(),
            Told::Caller(_) | Told::Render { .. } => None,
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
    /// A session that waits for its first connection.
    pub fn new(setup: impl Into<Arc<Setup>>) -> Self {
        let setup = setup.into();
        Self {
            caller: Caller::new(setup.format.bytes_per_ms(), setup.detects_turns()),
            setup,
            state: State::Down,
            connection: 0,
            renewal_due: false,
            outbox: Outbox::default(),
            generation: Generation::default(),
            spoken: VecDeque::new(),
            calls: Calls::default(),
            memory: Memory::default(),
            renders: Renders::default(),
            usage: Usage::default(),
            transcription_usage: Usage::default(),
            rate_limits: Vec::new(),
        }
    }

    /// Takes an input at `now`, and says what is to be done about it, in order.
    pub fn handle(&mut self, now: Time, input: impl Into<Input>) -> Vec<Action> {
        match input.into() {
            Input::Told(Told::Command(command)) => self.command(now, command),
            Input::Told(Told::Caller(bytes)) => self.caller.hear(&bytes),
            Input::Told(Told::Render { render, text }) => self.render(now, render, text),
            Input::Line(Line::Connected) => self.connected(now),
            Input::Line(Line::Server(event)) => self.server(now, event),
            Input::Line(Line::Lost { reason }) => self.lost(&reason),
            Input::Line(Line::Gone { reason }) => self.gone(reason),
            Input::Line(Line::Wake) => self.wake(now),
        }
        self.send_caller_audio();
        self.advance(now);
        self.outbox.take()
    }

    fn ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    fn command(&mut self, now: Time, command: Command) {
        match command {
            Command::Respond { response, cause } => self.respond(now, response, notes::cause(&cause), notes::is_turn(&cause)),
            Command::TellOfMessage { response, left } => {
                // What came of it before it was known to be one.
                if self.caller.forget_turn() && self.ready() {
                    self.outbox.send(About::Other, ClientBody::AudioClear);
                }
                self.respond(now, response, Some(notes::left(&left)), false);
            }
            Command::CancelResponse { response } => self.cancel(now, response),
            Command::Truncate { response, heard_ms, heard_text } => self.truncate(response, heard_ms, heard_text),
            Command::ToolOutput { call_id, operation, status } => self.tool_output(&call_id, operation, status),
            Command::Told { delivery: _, text } => self.note(notes::told(&text)),
            Command::Update { delivery: _, text } => self.note(notes::update(&text)),
            Command::Work(work) => self.note(notes::work(&work)),
            Command::Verification(outcome) => self.note(notes::verification(outcome)),
            Command::Cancelling(cancellation) => self.note(notes::cancelling(&cancellation.say)),
            Command::Heard(heard) => self.heard(heard),
            Command::Acoustic(edge) => {
                if self.caller.edge(edge.to) && self.ready() {
                    self.outbox.send(About::Other, ClientBody::AudioClear);
                }
            }
            Command::AnsweredElsewhere => {
                if self.caller.forget_turn() && self.ready() {
                    self.outbox.send(About::Other, ClientBody::AudioClear);
                }
                let forgotten = self.memory.forget_unanswered();
                if self.ready() {
                    forgotten.into_iter().for_each(|item_id| drop(self.outbox.send(About::Other, ClientBody::ItemDelete { item_id })));
                }
                self.note(notes::ANSWERED_ELSEWHERE.to_owned());
            }
            Command::Reconnect => {
                if !matches!(self.state, State::Down | State::Gone { .. }) {
                    self.reconnect("the service did not answer in time");
                }
            }
        }
    }

    fn server(&mut self, now: Time, event: ServerEvent) {
        if matches!(self.state, State::Down | State::Gone { .. }) {
            // Of a connection that was given up.
            return;
        }
        match event {
            ServerEvent::SessionCreated => self.session_created(now),
            ServerEvent::SessionUpdated => self.session_updated(now),
            ServerEvent::ItemAdded { item } => {
                if item.role.as_deref() == Some("user") && item.content.iter().any(|part| part.kind == "input_audio") {
                    self.memory.caller_spoke(item.id);
                }
            }
            ServerEvent::SpeechStarted => self.caller.service_hears(true),
            ServerEvent::SpeechStopped | ServerEvent::Ignored => {}
            ServerEvent::Committed { item_id } => {
                self.caller.service_hears(false);
                self.generation.committed(self.connection);
                item_id.into_iter().for_each(|item| self.memory.caller_spoke(item));
            }
            ServerEvent::Transcribed { item_id, transcript, usage } => {
                self.transcription_usage.add(usage);
                self.memory.caller_said(&item_id, transcript);
            }
            ServerEvent::ResponseCreated { response } => self.response_created(response),
            ServerEvent::ResponseDone { response } => self.response_done(response),
            ServerEvent::OutputItemAdded { response_id, item } => self.item_added(&response_id, item),
            ServerEvent::OutputItemDone { response_id, item } => self.item_done(&response_id, item),
            ServerEvent::PartDone { response_id, item_id, part } => {
                self.words_complete(&response_id, &item_id, part.transcript.as_deref());
            }
            ServerEvent::AudioDelta { response_id, item_id, content_index, delta } => {
                self.audio(&response_id, item_id, content_index, delta);
            }
            ServerEvent::TranscriptDelta { response_id, item_id, delta } => self.words(&response_id, item_id, &delta),
            ServerEvent::TranscriptDone { response_id, item_id, transcript } => {
                self.words_complete(&response_id, &item_id, Some(&transcript));
            }
            ServerEvent::ArgumentsDone { response_id, call } => self.call(&response_id, call),
            ServerEvent::RateLimits { rate_limits } => self.rate_limits = rate_limits,
            ServerEvent::Error { error } => self.trouble(now, error),
        }
    }

    fn connected(&mut self, now: Time) {
        self.lost("another connection took its place");
        if !matches!(self.state, State::Gone { .. }) {
            self.connection += 1;
            self.state = State::Opening { until: now.plus(self.setup.answer_timeout_ms) };
        }
    }

    fn session_created(&mut self, now: Time) {
        if matches!(self.state, State::Opening { .. }) {
            self.state = State::Setting { until: now.plus(self.setup.answer_timeout_ms) };
            self.outbox.send(About::Session, ClientBody::SessionUpdate { session: Box::new(self.setup.settings()) });
        }
    }

    fn session_updated(&mut self, now: Time) {
        if !matches!(self.state, State::Setting { .. }) {
            return;
        }
        self.state = State::Ready { renew_at: now.plus(self.setup.renew_after_ms) };
        self.renewal_due = false;
        let pieces = self.memory.restore(|| self.outbox.item_name(), memory::spoken).into_iter();
        let mut history: Vec<Item> = pieces
            .map(|piece| match piece {
                Piece::Spoken(role, text, name) => Item::message(role, text).named(name),
                Piece::Note(item) => item.clone(),
            })
            .collect();
        history.extend(self.calls.under_way().map(|text| Item::message(Role::System, text)));
        for item in history {
            self.outbox.send(About::Other, ClientBody::ItemCreate { item });
        }
        self.outbox.say(Said::Ready);
    }

    /// The connection is gone, and with it what was under way on it.
    fn lost(&mut self, reason: &str) {
        if matches!(self.state, State::Down | State::Gone { .. }) {
            return;
        }
        self.state = State::Down;
        self.outbox.forget_sent();
        self.caller.begin_connection();
        self.generation.begin_connection();
        self.spoken.clear();
        self.fail_active(reason);
        self.renders.fail_all(reason, &mut self.outbox);
    }

    fn gone(&mut self, reason: String) {
        self.lost(&reason);
        for response in self.generation.drain() {
            self.failed(response, &reason);
        }
        self.state = State::Gone { reason };
    }

    fn reconnect(&mut self, reason: &str) {
        // Said first: what fails with it is known to have failed for it.
        self.outbox.reconnect(reason);
        self.lost(reason);
    }

    fn wake(&mut self, now: Time) {
        match self.state {
            State::Opening { until } | State::Setting { until } if now >= until => {
                self.reconnect("the service did not answer in time that the session is set");
            }
            State::Ready { renew_at } if now >= renew_at => self.renewal_due = true,
            _ => {}
        }
        self.give_up_cancel(now);
        self.renders.give_up(now, &mut self.outbox);
    }

    /// Tells the model something as context, now and on every later connection.
    fn note(&mut self, text: String) {
        self.memory.note(Item::message(Role::System, text.clone()));
        self.context(text);
    }

    /// Tells the model something as context, on this connection.
    fn context(&mut self, text: String) {
        if self.ready() {
            self.outbox.send(About::Other, ClientBody::ItemCreate { item: Item::message(Role::System, text) });
        }
    }

    /// What was heard of a segment is remembered for other connections. On this one, the model knows its own words; those that the box
    /// spoke in its name are put beside them, marked for as long as they are not settled.
    fn heard(&mut self, heard: HeardText) {
        if matches!(heard.purpose, Purpose::Clause { .. }) {
            // `Told` says it, whole.
            return;
        }
        // Of another connection's response this one has no item.
        let own = match heard.purpose {
            Purpose::Reply { response } => self.spoken.iter().any(|spoken| spoken.response == response),
            _ => false,
        };
        let segment = heard.segment;
        let item = match heard.standing {
            Standing::Provisional | Standing::Settled(_) if own => None,
            standing => memory::spoken(&heard.text, standing).map(|(role, text)| Item::message(role, text)),
        };
        let before = self.memory.heard(heard);
        if !self.ready() {
            return;
        }
        if let Some(before) = before {
            self.outbox.send(About::Other, ClientBody::ItemDelete { item_id: before });
        }
        if let Some(item) = item {
            let name = self.outbox.item_name();
            self.memory.placed(segment, name.clone());
            self.outbox.send(About::Other, ClientBody::ItemCreate { item: item.named(name) });
        }
    }

    fn send_caller_audio(&mut self) {
        if self.ready() {
            while let Some(audio) = self.caller.next_piece() {
                self.outbox.send(About::Audio, ClientBody::AudioAppend { audio });
            }
        }
    }

    fn say_event(&mut self, event: ModelEvent) {
        if !matches!(event, ModelEvent::Failed { .. }) {
            self.memory.answered();
        }
        self.outbox.say(Said::Output(Output::Event(event)));
    }

    fn failed(&mut self, response: ResponseId, reason: &str) {
        // What is said in its place is not the model's, which is told it.
        self.spoken.retain(|spoken| spoken.response != response || spoken.has_speech());
        self.say_event(ModelEvent::Failed { response, reason: reason.to_owned() });
    }
}
