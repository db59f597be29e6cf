//! A model whose callers can leave a message: what the caller says is taken for one where the model around which it stands wants that.
//!
//! * `leaving`: whose what is said and done is while a message is being left. A pure state machine.
//! * [`MessageTaker`]: the task that holds the model's session.
//!
//! The model neither hears the message nor answers it: it is told what became of it, for the caller to be told, and never what was said.

mod leaving;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{Instrument, Span, warn};

use self::leaving::{Action, Input, Leaving};
use super::audio::{CallerAudio, CallerFrame, caller_audio};
use super::message::{Keeping, Messages, finished, keeping, keeping_within};
use super::port::{Capabilities, Command, Model, ModelSession, Opening, Output};

/// A model around another one.
pub struct MessageTaker {
    inner: Box<dyn Model>,
    messages: Arc<dyn Messages>,
}

impl MessageTaker {
    /// A model like `inner`; the messages that it wants taken are kept by `messages`.
    pub fn new(inner: Box<dyn Model>, messages: Arc<dyn Messages>) -> Self {
        Self { inner, messages }
    }
}

impl Model for MessageTaker {
    fn capabilities(&self) -> Capabilities {
        Capabilities { hears_audio: true, ..self.inner.capabilities() }
    }

    fn open(&self, opening: Opening) -> ModelSession {
        let (heard, hears) = caller_audio();
        let (session, commands, said) = ModelSession::new(Some(heard));
        let holding = Holding {
            inner: Some(self.inner.open(opening.clone())),
            leaving: Leaving::new(opening),
            messages: Arc::clone(&self.messages),
            asked: Instant::now(),
            ends: None,
            keeping: None,
            pending: VecDeque::new(),
        };
        // What it logs is about the call that it is opened for.
        tokio::spawn(holding.hold(commands, hears, said).instrument(Span::current()));
        session
    }
}

/// The task's own.
struct Holding {
    inner: Option<ModelSession>,
    leaving: Leaving,
    messages: Arc<dyn Messages>,
    /// When a response was last asked for.
    asked: Instant,
    /// When the message that is being taken has come to its end, unless the caller goes on.
    ends: Option<Instant>,
    /// The message that is on its way to the disk.
    keeping: Option<Keeping>,
    /// What the call has not taken yet.
    pending: VecDeque<Output>,
}

impl Holding {
    /// Holds the model's session until the call's end, or until the model's own and that of the message that is being left then.
    async fn hold(mut self, mut commands: mpsc::Receiver<Command>, mut hears: CallerAudio, said: mpsc::Sender<Output>) {
        while self.inner.is_some() || self.leaving.is_under_way() || !self.pending.is_empty() {
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
                    _ => break,
                },
                () = super::sleep_until(self.ends) => self.keep(),
                result = finished(&mut self.keeping), if self.keeping.is_some() => {
                    self.keeping = None;
                    if let Err(error) = &result {
                        // It may be there all the same, a little later: whoever keeps it logs that too.
                        warn!(%error, "the caller is told that their message is not kept");
                    }
                    self.give(Input::Kept(result));
                    self.await_end();
                }
                Some(frame) = hears.next() => self.hear(&frame),
                output = ModelSession::next(&mut self.inner), if takes && self.inner.is_some() => match output {
                    Some(output) => self.give(Input::Said(output)),
                    None => self.inner = None,
                },
            }
        }
        // The call sees that nobody answers any more.
        drop(said);
        self.end(hears).await;
    }

    fn told(&mut self, command: Command) {
        if let Command::Respond { .. } = command {
            self.asked = Instant::now();
        }
        if let Some(response) = command.cancels() {
            self.pending.retain(|output| !output.is_speech_of(response));
        }
        self.give(Input::Told(command));
        self.await_end();
    }

    /// Where a response waits for the message's end, that comes after a pause.
    fn await_end(&mut self) {
        self.ends = self.leaving.ends_after().map(|pause| (Instant::now() + pause).min(self.asked + ENDS_WITHIN));
    }

    /// The caller has paused for long enough: the message is whole.
    fn keep(&mut self) {
        self.ends = None;
        if let Some(message) = self.leaving.end_message() {
            self.keeping = Some(keeping_within(KEPT_WITHIN, Some(&self.messages), message));
        }
    }

    fn hear(&mut self, frame: &CallerFrame) {
        if !self.leaving.takes(frame)
            && let Some(audio) = self.inner.as_ref().and_then(|inner| inner.handle.audio.as_ref())
        {
            audio.push(frame);
        }
    }

    fn give(&mut self, input: Input) {
        for action in self.leaving.handle(input) {
            match action {
                Action::Tell(command) => {
                    if self.inner.as_ref().is_some_and(|inner| inner.handle.tell(command).is_err()) {
                        warn!("the model does not listen: its session is ended");
                        self.inner = None;
                    }
                }
                Action::Say(output) => self.pending.push_back(output),
            }
        }
    }

    /// The call is over. What the caller has said by then for a message is one: many hang up after their last word.
    async fn end(mut self, mut hears: CallerAudio) {
        if !self.leaving.is_under_way() {
            // What the caller said last is the model's.
            while let Some(frame) = hears.next().await {
                self.hear(&frame);
            }
            return;
        }
        self.inner = None;
        // What of it has been heard is there.
        while let Some(frame) = hears.next().await {
            self.leaving.takes(&frame);
        }
        if let Some(keeping) = self.keeping.take() {
            let _ = keeping.await;
        }
        if let Some(message) = self.leaving.end_message() {
            let _ = keeping(Some(&self.messages), message).await;
        }
    }
}

/// However often something sounds like the caller going on, a message has ended after that: the model has to begin to tell of it within five
/// seconds of the response being asked for.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
/// The model waits no longer to be told what became of a message.
const KEPT_WITHIN: Duration = Duration::from_secs(1);
/// So much waits here for a call before nothing more is taken of the model.
const PENDING_MAX: usize = 64;
