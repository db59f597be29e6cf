//! A dialogue being held.

use std::collections::VecDeque;
use std::sync::Arc;

use recado_core::conversation::effect::Cause;
use recado_core::conversation::input::{ModelEvent, ToolCall};
use recado_core::{ResponseId, TurnId};
use tokio::sync::mpsc;

use super::dialogue::{AfterTurns, Dialogue};
use super::step::{Cancel, Facts, Step};
use crate::cognition::models::port::{Capabilities, Command, Model, ModelSession, Opening, Output, OutputKind};

/// The built-in model: holds the same dialogue with every caller.
#[derive(Debug, Clone)]
pub struct Scripted {
    dialogue: Arc<Dialogue>,
}

impl Scripted {
    /// A model that holds `dialogue`.
    pub fn new(dialogue: Dialogue) -> Self {
        Self { dialogue: Arc::new(dialogue) }
    }
}

impl Model for Scripted {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            output: OutputKind::Text,
            hears_audio: false,
            owns_turns: false,
            cancel: true,
            // It has no memory of words that could be cut.
            truncate: false,
            silence_after_ms: self.dialogue.silence_after_ms(),
        }
    }

    fn open(&self, opening: Opening) -> ModelSession {
        let (session, commands, said) = ModelSession::new(None);
        tokio::spawn(hold(Held::new(self.dialogue.clone(), opening), commands, said));
        session
    }
}

async fn hold(mut held: Held, mut commands: mpsc::Receiver<Command>, said: mpsc::Sender<Output>) {
    let mut pending = VecDeque::new();
    loop {
        tokio::select! {
            // Commands first, so that a cancel comes before what it cancels.
            biased;
            command = commands.recv(), if pending.len() < PENDING_MAX => match command {
                Some(command) => held.take(command, &mut pending),
                None => return,
            },
            place = said.reserve(), if !pending.is_empty() => match (place, pending.pop_front()) {
                (Ok(place), Some(event)) => place.send(Output::Event(event)),
                _ => return,
            },
        }
    }
}

/// Where a dialogue stands. No clock, no randomness, no I/O.
#[derive(Debug)]
struct Held {
    dialogue: Arc<Dialogue>,
    opening: Opening,
    /// Turns that have been counted, and the last one: asked for again, it gets the same answer.
    turns: u64,
    last_turn: Option<TurnId>,
    /// Silences since the caller last did something.
    silences: usize,
    calls: u64,
}

impl Held {
    fn new(dialogue: Arc<Dialogue>, opening: Opening) -> Self {
        Self { dialogue, opening, turns: 0, last_turn: None, silences: 0, calls: 0 }
    }

    fn take(&mut self, command: Command, events: &mut VecDeque<ModelEvent>) {
        match command {
            Command::Respond { response, cause } => self.respond(response, &cause, events),
            Command::CancelResponse { response } => events.retain(|event| response_of(event) != Some(response)),
            // What a dialogue says next depends on turns alone.
            Command::Truncate { .. } | Command::ToolOutput { .. } | Command::Told { .. } | Command::Acoustic(_) => {}
        }
    }

    fn respond(&mut self, response: ResponseId, cause: &Cause, events: &mut VecDeque<ModelEvent>) {
        let dialogue = self.dialogue.clone();
        let (step, digit) = match *cause {
            Cause::Greeting => (Some(&dialogue.greeting), None),
            Cause::Turn { turn } => {
                self.silences = 0;
                if self.last_turn != Some(turn) {
                    self.last_turn = Some(turn);
                    self.turns += 1;
                }
                (Some(turn_step(&dialogue, self.turns)), None)
            }
            Cause::Digit { digit, .. } => {
                self.silences = 0;
                (Some(dialogue.digits.get(&digit).unwrap_or(&dialogue.otherwise)), Some(digit))
            }
            Cause::Silence { quiet_ms } => (self.silence_step(&dialogue, quiet_ms), None),
        };
        if let Some(step) = step {
            self.perform(step, response, digit, events);
        }
        events.push_back(ModelEvent::Complete { response });
    }

    /// The first silence in a row gets the first step, the next one the second, and any further one the last.
    fn silence_step<'a>(&mut self, dialogue: &'a Dialogue, quiet_ms: u64) -> Option<&'a Step> {
        let (after_ms, step) = dialogue.silences.get(self.silences).or(dialogue.silences.last())?;
        if quiet_ms < *after_ms {
            return None;
        }
        self.silences = self.silences.saturating_add(1);
        Some(step)
    }

    fn perform(&mut self, step: &Step, response: ResponseId, digit: Option<char>, events: &mut VecDeque<ModelEvent>) {
        if let Some(cancel) = &step.cancel {
            let tool = match cancel {
                Cancel::All => None,
                Cancel::Tool(tool) => Some(tool.clone()),
            };
            events.push_back(ModelEvent::CancelIntent { tool });
        }
        let said = step.say.iter().filter_map(|say| say.content(self.opening.language));
        events.extend(said.map(|content| ModelEvent::Clause { response, content }));
        for call in &step.calls {
            self.calls += 1;
            let caller = self.opening.party.as_ref().map_or("", |party| party.0.as_str());
            let arguments = call.arguments(Facts { caller, turn: self.turns, digit });
            let call = ToolCall { call_id: format!("call_{}", self.calls), tool: call.tool.clone(), arguments };
            events.push_back(ModelEvent::ToolCall { response, call });
        }
        if step.hang_up {
            events.push_back(ModelEvent::HangUp { response });
        }
    }
}

fn turn_step(dialogue: &Dialogue, turn: u64) -> &Step {
    let counted = usize::try_from(turn.saturating_sub(1)).unwrap_or(usize::MAX);
    let place = match dialogue.after_turns {
        AfterTurns::Cycle => counted.checked_rem(dialogue.turns.len()).unwrap_or_default(),
        AfterTurns::Otherwise => counted,
    };
    dialogue.turns.get(place).unwrap_or(&dialogue.otherwise)
}

fn response_of(event: &ModelEvent) -> Option<ResponseId> {
    match event {
        ModelEvent::Clause { response, .. }
        | ModelEvent::ToolCall { response, .. }
        | ModelEvent::Complete { response }
        | ModelEvent::Failed { response, .. }
        | ModelEvent::HangUp { response } => Some(*response),
        ModelEvent::CancelIntent { .. } | ModelEvent::TurnWasNoise { .. } => None,
    }
}

/// Two whole steps: one generation at a time waits, and one that has just been cancelled.
const PENDING_MAX: usize = 64;
