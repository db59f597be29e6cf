//! Whose what is said and done is while a message is being left, as a pure state machine: no I/O, no clock, no randomness.

use std::time::Duration;

use recado_core::ResponseId;
use recado_core::conversation::effect::Cause;
use recado_core::conversation::input::{Acoustic, AcousticEdge, ModelEvent};

use super::ENDS_WITHIN;
use crate::cognition::models::audio::CallerFrame;
use crate::cognition::models::message::{LeftMessage, MESSAGE_PAUSE_MS, MESSAGE_S, Message, NotKept, Taking};
use crate::cognition::models::port::{Command, Opening, Output};

/// What happens.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Input {
    /// The conversation tells the model something.
    Told(Command),
    /// The model says something.
    Said(Output),
    /// What came of the message that was to be kept.
    Kept(Result<(), NotKept>),
}

/// What is done about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Tell the model.
    Tell(Command),
    /// Say this to the conversation.
    Say(Output),
}

/// Whose what is said and done is.
#[derive(Debug)]
pub(super) struct Leaving {
    opening: Opening,
    /// What the caller does.
    acoustic: Acoustic,
    /// What they did last that the model has not been told.
    untold: Option<AcousticEdge>,
    /// The response that was asked for last.
    asked: Option<ResponseId>,
    /// What the caller says, for a message.
    taking: Option<Taking<()>>,
    /// Whether a key has ended it.
    is_over: bool,
    /// What they said before.
    said: Option<Said>,
    actions: Vec<Action>,
}

/// What was said for a message.
#[derive(Debug)]
struct Said {
    /// How much was kept before it (s).
    before_s: u32,
    /// How long it is (s).
    seconds: u32,
    is_cut: bool,
    /// What came of it, once that is known.
    result: Option<Result<(), NotKept>>,
    /// The response that waits for that.
    due: Option<ResponseId>,
}

impl Leaving {
    /// No message is being left.
    pub fn new(opening: Opening) -> Self {
        Self {
            opening,
            acoustic: Acoustic::Quiet,
            untold: None,
            asked: None,
            taking: None,
            is_over: false,
            said: None,
            actions: Vec::new(),
        }
    }

    /// Takes an input, and says what is to be done about it, in order.
    pub fn handle(&mut self, input: Input) -> Vec<Action> {
        match input {
            Input::Told(command) => self.told(command),
            Input::Said(output) => self.said(output),
            Input::Kept(result) => self.kept(result),
        }
        std::mem::take(&mut self.actions)
    }

    /// Whether what the caller says is a message, or one is on its way to the disk.
    pub fn is_under_way(&self) -> bool {
        self.taking.is_some() || self.said.is_some()
    }

    /// More of what the caller says. Says whether it is not for the model.
    pub fn takes(&mut self, frame: &CallerFrame) -> bool {
        self.taking.iter_mut().for_each(|taking| taking.hear(frame));
        self.is_under_way()
    }

    /// How long from now the message that is being taken is whole, where the caller may have come to its end.
    pub fn ends_after(&self) -> Option<Duration> {
        self.taking.as_ref().filter(|taking| taking.due.is_some())?;
        Some(match self.acoustic {
            _ if self.is_over => Duration::ZERO,
            Acoustic::Quiet => Duration::from_millis(MESSAGE_PAUSE_MS),
            // A sound may be the caller, who goes on.
            _ => ENDS_WITHIN,
        })
    }

    /// The message that was taken, if anything was said for one. What came of it is to be given as [`Input::Kept`].
    pub fn end_message(&mut self) -> Option<Message> {
        let taking = self.taking.take().filter(Taking::has_begun)?;
        let (due, is_cut) = (taking.due, taking.is_cut());
        // Who goes on before they are told what became of it leaves more of it; of one that was cut they have been too long.
        self.taking = (!is_cut && !self.is_over).then(|| self.new_taking());
        self.is_over = false;
        let before_s = self.said.take().map_or(0, |said| said.before_s.saturating_add(said.seconds));
        self.said = Some(Said { before_s, seconds: taking.seconds(), is_cut, result: None, due });
        let Opening { session, party, .. } = self.opening.clone();
        Some(Message { session, party, samples: taking.into_samples(), is_cut })
    }

    fn new_taking(&self) -> Taking<()> {
        Taking::new((), MESSAGE_S, self.acoustic)
    }

    fn told(&mut self, command: Command) {
        if let Command::Respond { response, .. } = command {
            self.asked = Some(response);
        }
        if !self.is_under_way() {
            if let Command::Acoustic(edge) = command {
                self.acoustic = edge.to;
            }
            return self.tell(command);
        }
        match command {
            Command::Acoustic(edge) => {
                self.acoustic = edge.to;
                self.taking.iter_mut().for_each(|taking| taking.edge(edge.to));
                self.untold = Some(edge);
            }
            Command::Respond { response, cause } => self.respond(response, cause),
            Command::CancelResponse { response } => {
                // The caller goes on.
                let dues = [self.taking.as_mut().map(|taking| &mut taking.due), self.said.as_mut().map(|said| &mut said.due)];
                let waited = dues.into_iter().flatten().any(|due| due.take_if(|due| *due == response).is_some());
                if waited {
                    self.is_over = false;
                } else {
                    self.tell(Command::CancelResponse { response });
                }
            }
            command => self.tell(command),
        }
    }

    fn respond(&mut self, response: ResponseId, cause: Cause) {
        if let Cause::OwnAccord = cause {
            // Nobody breaks in on a message; the caller has asked for nothing, and misses nothing.
            return self.say(Output::Event(ModelEvent::Complete { response }));
        }
        if let Some(said) = &mut self.said {
            // What became of it comes first.
            said.due = Some(response);
            self.is_over = is_key(&cause);
            return self.settle();
        }
        if let Some(taking) = self.taking.as_mut().filter(|taking| taking.has_begun()) {
            taking.due = Some(response);
            self.is_over = is_key(&cause);
            return;
        }
        let digits = match cause {
            Cause::Digit { digit, .. } => digit.to_string(),
            Cause::Digits { digits, .. } => digits,
            cause => {
                // What they said came before the message, which they may still say.
                self.learn_what_the_caller_does();
                return self.tell(Command::Respond { response, cause });
            }
        };
        self.tell_of(response, LeftMessage::NothingSaid { digits });
    }

    fn said(&mut self, output: Output) {
        match output {
            // What comes of a response that is not the last one that was asked for comes too late.
            Output::WantsMessage { response } => {
                if self.asked == Some(response) && !self.is_under_way() {
                    self.taking = Some(self.new_taking());
                    // It is known before the caller can begin.
                    self.say(Output::TakesMessage(true));
                    // The floor is held for it: nothing is told into it, and one key, or saying nothing for too long, ends it.
                    self.say(Output::Event(ModelEvent::CollectDigits { response, digits_max: 1, end: None, wait_ms: WAIT_MS }));
                }
            }
            // Nobody breaks in on a message.
            Output::Event(ModelEvent::WantsToSpeak) if self.is_under_way() => {}
            output => self.say(output),
        }
    }

    fn kept(&mut self, result: Result<(), NotKept>) {
        if let Some(said) = &mut self.said {
            said.result = Some(result);
            self.settle();
        }
    }

    /// What came of the message may be known, and somebody wait for it. Where the caller has gone on meanwhile, the rest is to be kept too before
    /// they are told.
    fn settle(&mut self) {
        let Some(said) = &mut self.said else { return };
        let Some(result) = said.result.clone() else { return };
        let Some(response) = said.due.take() else { return };
        if let Some(rest) = self.taking.as_mut().filter(|rest| result.is_ok() && rest.has_begun()) {
            rest.due.get_or_insert(response);
            return;
        }
        let &mut Said { before_s, seconds, is_cut, .. } = said;
        let left = match result {
            Ok(()) => LeftMessage::Kept { seconds: before_s.saturating_add(seconds), is_cut },
            Err(error) => LeftMessage::NotKept { seconds, why: error.into() },
        };
        self.tell_of(response, left);
    }

    /// The message is over, and the model tells the caller what became of it.
    fn tell_of(&mut self, response: ResponseId, left: LeftMessage) {
        (self.taking, self.said, self.is_over) = (None, None, false);
        self.say(Output::TakesMessage(false));
        self.learn_what_the_caller_does();
        self.tell(Command::TellOfMessage { response, left });
    }

    /// The model learns whether the caller speaks, where it does not know.
    fn learn_what_the_caller_does(&mut self) {
        if let Some(edge) = self.untold.take() {
            // A pause in a message is the end of it.
            let to = if edge.to == Acoustic::Trailing { Acoustic::Quiet } else { edge.to };
            self.tell(Command::Acoustic(AcousticEdge { to, ..edge }));
        }
    }

    fn tell(&mut self, command: Command) {
        self.actions.push(Action::Tell(command));
    }

    fn say(&mut self, output: Output) {
        self.actions.push(Action::Say(output));
    }
}

fn is_key(cause: &Cause) -> bool {
    matches!(cause, Cause::Digit { .. } | Cause::Digits { complete: true, .. })
}

/// How long the caller may say nothing, from the end of what was said to them (ms), before no message is waited for any more.
const WAIT_MS: u64 = 10_000;
