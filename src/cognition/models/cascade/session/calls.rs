//! Calls of functions: each is taken once, and has one output from the first.

use std::collections::VecDeque;

use recado_core::conversation::effect::ToolStatus;
use recado_core::conversation::input::ModelEvent;
use recado_core::{OperationId, ResponseId};

use super::history::Note;
use super::{Action, Line, Session};
use crate::cognition::language::wire::{AskedCall, MadeCall};
use crate::cognition::models::notes::{self, Role};
use crate::cognition::models::port::Output;

#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The latest ones, oldest first.
    made: VecDeque<Call>,
    groups: u64,
    /// Counts them.
    count: u64,
}

/// Calls that were made together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupId(u64);

#[derive(Debug)]
struct Call {
    group: GroupId,
    made: MadeCall,
    /// Whether the conversation has said what came of it.
    told: bool,
    /// How the operation stands, once there is one.
    status: Option<ToolStatus>,
}

impl Calls {
    /// The calls of a group, as far as they are remembered.
    pub fn line(&self, group: GroupId) -> Option<Line> {
        let made: Vec<MadeCall> = self.made.iter().filter(|call| call.group == group).map(|call| call.made.clone()).collect();
        (!made.is_empty()).then_some(Line::Calls(made))
    }

    /// The tools that run, of groups other than these.
    pub fn under_way(&self, told_of: &[GroupId]) -> impl Iterator<Item = &str> {
        let runs = |call: &&Call| matches!(call.status, Some(ToolStatus::Running | ToolStatus::AlreadyRunning));
        self.made.iter().filter(runs).filter(|call| !told_of.contains(&call.group)).map(|call| call.made.name.as_str())
    }

    fn add(&mut self, call: Call) {
        if self.made.len() == CALLS_MAX {
            self.made.pop_front();
        }
        self.made.push_back(call);
    }
}

impl Session {
    /// The model has made these calls. Why those that can't be taken can't.
    pub(super) fn make_calls(&mut self, response: ResponseId, asked: Vec<AskedCall>) -> Vec<String> {
        let mut refused = Vec::new();
        if asked.is_empty() {
            return refused;
        }
        self.calls.groups += 1;
        let group = GroupId(self.calls.groups);
        for AskedCall { name, arguments } in asked {
            self.calls.count += 1;
            // Services' own names for calls are not always different.
            let call_id = format!("call_{}", self.calls.count);
            let (output, told) = match self.setup.functions.taken(&name, &arguments, &call_id, response) {
                Ok(taken) => {
                    let (output, told) = match &taken {
                        Output::Event(ModelEvent::ToolCall { .. }) => (notes::pending(), false),
                        Output::Event(event) => (notes::taken(event), true),
                        _ => (notes::takes_message(), true),
                    };
                    self.answers();
                    self.act(Action::Say(taken));
                    (output, told)
                }
                Err(reason) => {
                    let output = notes::not_taken(&reason);
                    refused.push(reason);
                    (output, true)
                }
            };
            self.calls.add(Call { group, made: MadeCall { call_id, name, arguments, output }, told, status: None });
        }
        self.memory.note(Note::Calls(group));
        refused
    }

    /// How the operation stands: the call's one output where nobody has said anything of it yet, and news of it afterwards.
    pub(super) fn tool_output(&mut self, call_id: &str, operation: Option<OperationId>, status: ToolStatus) {
        let Some(call) = self.calls.made.iter_mut().find(|call| call.made.call_id == call_id) else { return };
        if operation.is_some() {
            call.status = Some(status);
        }
        if std::mem::replace(&mut call.told, true) {
            let news = notes::later(&call.made.name, status);
            return self.note(Role::System, news);
        }
        call.made.output = notes::output(status);
    }
}

/// Many more than are under way at a time.
const CALLS_MAX: usize = 64;
