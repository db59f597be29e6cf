//! Calls of functions: each is taken once, and answered once, on the connection that it was made on.

use std::collections::VecDeque;

use recado_core::OperationId;
use recado_core::conversation::effect::ToolStatus;
use recado_core::conversation::input::ModelEvent;

use super::Session;
use super::outbox::About;
use crate::cognition::models::notes::{self, Role};
use crate::cognition::models::realtime::wire::{CallFacts, ClientBody, Item};

#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The latest ones, oldest first.
    made: VecDeque<Call>,
}

#[derive(Debug)]
struct Call {
    call_id: String,
    tool: String,
    /// Which connection it was made on.
    connection: u64,
    /// Whether it has its output.
    answered: bool,
    /// Whether the conversation has said what came of it.
    told: bool,
    /// How the operation stands, once there is one.
    status: Option<ToolStatus>,
}

impl Calls {
    /// What runs, as far as is known, for a connection that did not ask for it.
    pub fn under_way(&self) -> impl Iterator<Item = Item> {
        let runs = |call: &&Call| matches!(call.status, Some(ToolStatus::Running | ToolStatus::AlreadyRunning));
        self.made.iter().filter(runs).map(|call| Item::message(Role::System, notes::under_way(&call.tool)))
    }
}

impl Session {
    /// The model has made a call. A service may say so more than once.
    pub(super) fn call(&mut self, response_id: &str, call: CallFacts) {
        let Some(active) = self.generation.active_as(response_id) else { return };
        let (response, cut_off) = (active.response, active.is_cancelled());
        let name = call.name.filter(|name| !name.is_empty()).or_else(|| active.functions.get(&call.item_id).cloned());
        let call_id = call.call_id.filter(|id| !id.is_empty()).unwrap_or_else(|| call.item_id.clone());
        if !active.calls.insert(call_id.clone()) {
            return;
        }
        let name = name.unwrap_or_default();
        if cut_off {
            return self.made(call_id, name, Some(notes::not_taken("the caller had begun to speak")));
        }
        match self.setup.functions.taken(&name, &call.arguments, &call_id, response) {
            Ok(event) => {
                let answered = !matches!(event, ModelEvent::ToolCall { .. });
                self.say_event(event);
                self.made(call_id, name, answered.then(notes::taken));
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
        if self.calls.made.len() == CALLS_MAX {
            self.calls.made.pop_front();
        }
        self.calls.made.push_back(Call { call_id, tool, connection: self.connection, answered, told: answered, status: None });
    }

    /// How the operation stands: the call's one output where it has none yet, and news of it afterwards.
    pub(super) fn tool_output(&mut self, call_id: &str, operation: Option<OperationId>, status: ToolStatus) {
        let (ready, connection) = (self.ready(), self.connection);
        // The name is the model's, and may have been used before: what is said first of each call comes in their order.
        let known = |call: &Call| call.call_id == call_id;
        let made = &mut self.calls.made;
        let untold = made.iter().position(|call| known(call) && !call.told);
        let Some(place) = untold.or_else(|| made.iter().rposition(known)) else { return };
        let Some(call) = made.get_mut(place) else { return };
        call.told = true;
        if operation.is_some() {
            call.status = Some(status);
        }
        if ready && call.connection == connection && !call.answered {
            call.answered = true;
            self.answer(call_id.to_owned(), notes::output(status));
        } else {
            let tool = call.tool.clone();
            call.answered = true;
            let news = notes::later(&tool, status);
            match status {
                // Every other connection is told what runs.
                ToolStatus::Running | ToolStatus::AlreadyRunning => self.context(news),
                _ => self.note(news),
            }
        }
    }

    /// A model that is asked for a response finds an output for every call that it has made.
    pub(super) fn answer_open_calls(&mut self) {
        let connection = self.connection;
        let mut open = Vec::new();
        for call in self.calls.made.iter_mut().filter(|call| call.connection == connection && !call.answered) {
            call.answered = true;
            open.push(call.call_id.clone());
        }
        open.into_iter().for_each(|call_id| self.answer(call_id, notes::pending()));
    }

    fn answer(&mut self, call_id: String, output: String) {
        self.outbox.send(About::Other, ClientBody::ItemCreate { item: Item::FunctionCallOutput { call_id, output } });
    }
}

/// Many more than are under way at a time.
const CALLS_MAX: usize = 64;
