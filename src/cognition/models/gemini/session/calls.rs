//! Calls of functions, and what the service is told of them: in any case, and soon, for it may wait for that.

use std::collections::BTreeMap;

use recado_core::conversation::effect::ToolStatus;
use recado_core::conversation::input::ModelEvent;
use recado_core::{OperationId, Time};
use serde_json::{Value, json};

use super::{Said, Session};
use crate::cognition::models::calls::{News, TAKEN_MAX, TOO_MANY};
use crate::cognition::models::gemini::wire::{ClientMessage, FunctionCall, FunctionResponse, Scheduling, ToolResponse};
use crate::cognition::models::notes::{self, Role};
use crate::cognition::models::port::Output;
use crate::config::GeminiCalls;

/// The calls of this connection of which the service has not been told what came of them.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    /// Until when it is told, by the name of the call.
    until: BTreeMap<String, Time>,
    /// Counts calls that the service gave no name.
    unnamed: u64,
}

impl OpenCalls {
    pub fn deadline(&self) -> Option<Time> {
        self.until.values().min().copied()
    }

    pub fn begin_connection(&mut self) {
        self.until.clear();
    }

    /// What a call is known by: the service's name for it, or one of the box's own.
    fn name_of(&mut self, id: Option<String>) -> String {
        id.filter(|id| !id.is_empty()).unwrap_or_else(|| {
            self.unnamed += 1;
            format!("{UNNAMED}{}", self.unnamed)
        })
    }
}

impl Session {
    /// The model makes a call. A service may say so more than once.
    pub(super) fn call(&mut self, now: Time, call: FunctionCall) {
        let FunctionCall { id, name, args } = call;
        let call_id = self.open_calls.name_of(id);
        let Some(active) = self.generation.speaks(now) else {
            self.unasked(now);
            if self.calls.is_made(&call_id, self.connection) {
                // It is said again, and its response is over.
                return;
            }
            return self.answered(call_id, name, notes::not_taken("it came when nothing had been asked for"));
        };
        let response = active.response;
        if active.calls.contains(&call_id) {
            return;
        }
        if active.calls.len() == TAKEN_MAX {
            return self.refuse(vec![FunctionCall { id: Some(call_id), name, args }]);
        }
        active.calls.insert(call_id.clone());
        match self.setup.functions.taken(&name, &Value::Object(args).to_string(), &call_id, response) {
            Ok(Output::Event(event @ ModelEvent::ToolCall { .. })) => {
                self.say_event(event);
                self.open_calls.until.insert(call_id.clone(), now.plus(ANSWER_MS_MAX));
                if self.setup.calls == GeminiCalls::NonBlocking {
                    self.answer(&call_id, &name, notes::pending(), true);
                }
                self.calls.made(call_id, name, self.connection, false);
            }
            Ok(output) => {
                let answer = match &output {
                    Output::Event(event) => notes::taken(event),
                    _ => notes::takes_message(),
                };
                self.say(Said::Output(output));
                self.answered(call_id, name, answer);
            }
            Err(reason) => {
                let output = notes::not_taken(&reason);
                if let Some(active) = self.generation.speaks(now) {
                    active.refused_call = Some(reason);
                }
                self.answered(call_id, name, output);
            }
        }
    }

    /// Refuses calls beyond those that are taken, all in one message. They are not remembered, as those are that wait for what comes of them.
    pub(super) fn refuse(&mut self, calls: Vec<FunctionCall>) {
        if calls.is_empty() {
            return;
        }
        let refusal = |call: FunctionCall| {
            let call_id = self.open_calls.name_of(call.id);
            self.output_of(&call_id, &call.name, notes::not_taken(TOO_MANY), false)
        };
        let function_responses = calls.into_iter().map(refusal).collect();
        self.send(ClientMessage::ToolResponse(ToolResponse { function_responses }));
    }

    fn answered(&mut self, call_id: String, name: String, output: String) {
        self.answer(&call_id, &name, output, false);
        self.calls.made(call_id, name, self.connection, true);
    }

    /// How the operation stands: the call's one output where it has none yet, and news of it afterwards.
    pub(super) fn tool_output(&mut self, call_id: &str, operation: Option<OperationId>, status: ToolStatus) {
        let connection = self.ready().then_some(self.connection);
        match self.calls.told(call_id, operation, status, connection) {
            Some(News::Output { tool }) => self.answer(call_id, &tool, notes::output(status), false),
            Some(News::Context(news)) => self.context.know(Role::System, news),
            Some(News::Note(news)) => self.context.note(Role::System, news),
            None => {}
        }
        self.open_calls.until.remove(call_id);
    }

    /// The service takes no answer to a call any more. It knows nothing of operations: those go on, and so does what the model is told.
    pub(super) fn call_cancelled(&mut self, call_id: &str) {
        self.open_calls.until.remove(call_id);
        if let Some(goes_on) = self.calls.cancelled(call_id, self.connection) {
            self.totals.calls_cancelled += 1;
            self.context.know(Role::System, goes_on);
        }
    }

    /// No call is left without an answer.
    pub(super) fn answer_open_calls(&mut self) {
        self.open_calls.until.clear();
        for open in self.calls.answer_open(self.connection) {
            self.answer(&open.call_id, &open.tool, notes::pending(), false);
        }
    }

    /// The service does not wait any longer.
    pub(super) fn give_up_calls(&mut self, now: Time) {
        if self.open_calls.until.values().any(|until| now >= *until) {
            self.answer_open_calls();
        }
    }

    fn answer(&mut self, call_id: &str, name: &str, output: String, will_continue: bool) {
        let response = self.output_of(call_id, name, output, will_continue);
        self.send(ClientMessage::ToolResponse(ToolResponse { function_responses: vec![response] }));
    }

    fn output_of(&self, call_id: &str, name: &str, output: String, will_continue: bool) -> FunctionResponse {
        let output: Value = serde_json::from_str(&output).unwrap_or(Value::String(output));
        // Of a call that it waits for, the service knows neither.
        let goes_on = self.setup.calls == GeminiCalls::NonBlocking;
        FunctionResponse {
            id: (!call_id.starts_with(UNNAMED)).then(|| call_id.to_owned()),
            name: name.to_owned(),
            response: json!({ "output": output }),
            scheduling: goes_on.then_some(Scheduling::Silent),
            will_continue: goes_on.then_some(will_continue),
        }
    }
}

/// How long the box may take to say what comes of a call (ms): an operation is on record within a fraction of it.
const ANSWER_MS_MAX: u64 = 1_000;
/// What the names of calls begin with that the service gave none.
const UNNAMED: &str = "box_call_";
