//! Calls of functions: each is taken once, and answered once, on the connection that it was made on.

use recado_core::OperationId;
use recado_core::conversation::effect::ToolStatus;
use recado_core::conversation::input::ModelEvent;

use super::outbox::About;
use super::{Said, Session};
use crate::cognition::models::calls::{News, TAKEN_MAX, TOO_MANY};
use crate::cognition::models::notes;
use crate::cognition::models::port::Output;
use crate::cognition::models::realtime::wire::{CallFacts, ClientBody, Item};

impl Session {
    /// The model has made a call. A service may say so more than once.
    pub(super) fn call(&mut self, response_id: &str, call: CallFacts) {
        let Some(active) = self.generation.active_as(response_id) else { return };
        let (response, cut_off) = (active.response, active.is_cancelled());
        let name = call.name.filter(|name| !name.is_empty()).or_else(|| active.functions.get(&call.item_id).cloned());
        let call_id = call.call_id.filter(|id| !id.is_empty()).unwrap_or_else(|| call.item_id.clone());
        if active.calls.contains(&call_id) || active.calls.len() == KNOWN_MAX {
            return;
        }
        let is_taken = active.calls.len() < TAKEN_MAX;
        active.calls.insert(call_id.clone());
        if !is_taken {
            // Not one of those that are remembered: they wait for what comes of them.
            return self.answer(call_id, notes::not_taken(TOO_MANY));
        }
        let name = name.unwrap_or_default();
        if cut_off {
            return self.made(call_id, name, Some(notes::not_taken("the caller had begun to speak")));
        }
        match self.setup.functions.taken(&name, &call.arguments, &call_id, response) {
            Ok(output) => {
                let answer = match &output {
                    Output::Event(ModelEvent::ToolCall { .. }) => None,
                    Output::Event(event) => Some(notes::taken(event)),
                    _ => Some(notes::takes_message()),
                };
                self.memory.answered();
                self.outbox.say(Said::Output(output));
                self.made(call_id, name, answer);
            }
            Err(reason) => {
                if let Some(active) = self.generation.heard_of(response_id) {
                    active.refused_call = Some(reason.clone());
                }
                self.made(call_id, name, Some(notes::not_taken(&reason)));
            }
        }
    }

    fn made(&mut self, call_id: String, tool: String, output: Option<String>) {
        let answered = output.is_some();
        if let Some(output) = output {
            self.answer(call_id.clone(), output);
        }
        self.calls.made(call_id, tool, self.connection, answered);
    }

    /// How the operation stands: the call's one output where it has none yet, and news of it afterwards.
    pub(super) fn tool_output(&mut self, call_id: &str, operation: Option<OperationId>, status: ToolStatus) {
        let connection = self.ready().then_some(self.connection);
        match self.calls.told(call_id, operation, status, connection) {
            Some(News::Output { .. }) => self.answer(call_id.to_owned(), notes::output(status)),
            Some(News::Context(news)) => self.context(news),
            Some(News::Note(news)) => self.note(news),
            None => {}
        }
    }

    /// A model that is asked for a response finds an output for every call that it has made.
    pub(super) fn answer_open_calls(&mut self) {
        for open in self.calls.answer_open(self.connection) {
            self.answer(open.call_id, notes::pending());
        }
    }

    fn answer(&mut self, call_id: String, output: String) {
        self.outbox.send(About::Other, ClientBody::ItemCreate { item: Item::FunctionCallOutput { call_id, output } });
    }
}

/// So many calls of a response are known, and answered: what a model makes beyond them is no answer to anything.
const KNOWN_MAX: usize = TAKEN_MAX + 256;
