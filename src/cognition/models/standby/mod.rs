//! A model made of two: the second one answers while the service of the first is away.
//!
//! * `takeover`: which of the two gives a response. A pure state machine.
//! * [`Standby`]: the task that holds a session of each.
//!
//! The first is asked for each response that it may be able to give in time. Nothing that it says late is heard, and the second is never
//! asked for what the first has done already.

mod takeover;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use recado_core::Time;
use recado_core::policy::Localised;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{Instrument, Span, warn};

use self::takeover::{Action, Input, Takeover};
use super::audio::{CallerAudio, CallerFrame, caller_audio};
use super::port::{Capabilities, Command, Model, ModelSession, Opening, Output};

/// A model made of two.
pub struct Standby {
    first: Box<dyn Model>,
    second: Box<dyn Model>,
    bounds: Bounds,
    words: Words,
}

/// How long the first model is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// From a response being asked for, while its service is being connected to (ms).
    pub connecting_ms: u64,
    /// From a response being asked for, or from what last came of it, while there is a connection (ms).
    pub silent_ms: u64,
}

/// What the caller is told of it, in the box's own voice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Before the second model first speaks in a call.
    pub away: Localised,
    /// Where the first model was lost in the middle of a response.
    pub lost: Localised,
}

/// The dialogue that the second model can follow where none was written: it takes a message.
pub const DIALOGUE: &str = include_str!("dialogue.toml");

impl Standby {
    /// A model whose responses `first` gives, and `second` where `first` can't.
    pub fn new(first: Box<dyn Model>, second: Box<dyn Model>, bounds: Bounds, words: Words) -> Self {
        Self { first, second, bounds, words }
    }
}

impl Model for Standby {
    fn capabilities(&self) -> Capabilities {
        let (first, second) = (self.first.capabilities(), self.second.capabilities());
        Capabilities {
            hears_audio: first.hears_audio || second.hears_audio,
            silence_after_ms: [first.silence_after_ms, second.silence_after_ms].into_iter().flatten().min(),
            ..first
        }
    }

    fn open(&self, opening: Opening) -> ModelSession {
        let (first, second) = (self.first.capabilities(), self.second.capabilities());
        let takeover = Takeover::new(self.bounds, self.words.clone(), opening.language, first, second);
        let (heard, hears) = caller_audio();
        let (session, commands, said) = ModelSession::new((first.hears_audio || second.hears_audio).then_some(heard));
        let (first, second) = (self.first.open(opening.clone()), self.second.open(opening));
        let holding = Holding { takeover, first: Some(first), second, began: Instant::now(), pending: VecDeque::new() };
        // What it logs is about the call that it is opened for.
        tokio::spawn(holding.hold(commands, hears, said).instrument(Span::current()));
        session
    }
}

/// The task's own.
struct Holding {
    takeover: Takeover,
    first: Option<ModelSession>,
    second: ModelSession,
    began: Instant,
    /// What the call has not taken yet.
    pending: VecDeque<Output>,
}

impl Holding {
    /// Holds the two sessions until the call's end; then both end too.
    async fn hold(mut self, mut commands: mpsc::Receiver<Command>, mut hears: CallerAudio, said: mpsc::Sender<Output>) {
        loop {
            let deadline = self.takeover.deadline().map(|at| self.began + Duration::from_millis(at.0));
            let takes = self.pending.len() < PENDING_MAX;
            tokio::select! {
                // Commands first, so that a cancel comes before what it cancels; a pause comes after what was said before it.
                biased;
                command = commands.recv() => match command {
                    Some(command) => {
                        hears.heard_before(&command).for_each(|frame| self.hear(&frame));
                        self.told(command);
                    }
                    None => break,
                },
                place = said.reserve(), if !self.pending.is_empty() => match (place, self.pending.pop_front()) {
                    (Ok(place), Some(output)) => place.send(output),
                    _ => return,
                },
                () = super::sleep_until(deadline) => self.give(Input::Wake),
                Some(frame) = hears.next() => self.hear(&frame),
                output = ModelSession::next(&mut self.first), if takes => match output {
                    Some(output) => self.give(Input::First(output)),
                    None => self.first_ended(),
                },
                output = self.second.outputs.recv(), if takes => match output {
                    Some(output) => self.give(Input::Second(output)),
                    // It never ends by itself; the call sees that this session has.
                    None => return,
                },
            }
        }
        // The call is over. What the caller said last may belong to a message.
        while let Some(frame) = hears.next().await {
            self.hear(&frame);
        }
    }

    fn hear(&self, frame: &CallerFrame) {
        let first = self.first.as_ref().filter(|_| !self.takeover.takes_message());
        for audio in [first, Some(&self.second)].into_iter().flatten().filter_map(|session| session.handle.audio.as_ref()) {
            audio.push(frame);
        }
    }

    fn told(&mut self, command: Command) {
        if let Command::CancelResponse { response } = command {
            self.pending.retain(|output| !output.is_speech_of(response));
        }
        self.give(Input::Told(command));
    }

    fn first_ended(&mut self) {
        warn!("the model's session has ended: the one that stands by leads the rest of the call");
        self.first = None;
        self.give(Input::FirstEnded);
    }

    fn give(&mut self, input: Input) {
        let now = Time(self.began.elapsed().as_millis() as u64);
        let mut ended = false;
        for action in self.takeover.handle(now, input) {
            match action {
                Action::First(command) => ended |= self.first.as_ref().is_some_and(|first| first.handle.tell(command).is_err()),
                // One that does not listen says nothing either, which the conversation sees.
                Action::Second(command) => drop(self.second.handle.tell(command)),
                Action::Say(output) => self.pending.push_back(output),
            }
        }
        if ended {
            self.first_ended();
        }
    }
}

/// So much waits here for a call before nothing more is taken of the two.
const PENDING_MAX: usize = 64;
