//! What became of the calls that a model has made: each is taken once, and answered once, on the connection that it was made on.

use std::collections::VecDeque;

use recado_core::OperationId;
use recado_core::conversation::effect::ToolStatus;

use super::notes;

/// The calls of a session, over all its connections.
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

/// A call that has no output yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    /// The model's name for it.
    pub call_id: String,
    /// What it calls.
    pub tool: String,
}

/// What a model is told of how an operation stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// It is the output of the call.
    Output {
        /// What was called.
        tool: String,
    },
    /// It is told in these words, on this connection: every other one is told what runs.
    Context(String),
    /// It is told in these words, now and on every later connection.
    Note(String),
}

impl Calls {
    /// A call was made on this connection; it may have its output already.
    pub fn made(&mut self, call_id: String, tool: String, connection: u64, answered: bool) {
        if self.made.len() == CALLS_MAX {
            self.made.pop_front();
        }
        self.made.push_back(Call { call_id, tool, connection, answered, told: answered, status: None });
    }

    /// Whether this call was made on this connection.
    pub fn is_made(&self, call_id: &str, connection: u64) -> bool {
        self.made.iter().any(|call| call.call_id == call_id && call.connection == connection)
    }

    /// How the operation stands: the call's one output where `connection` is the one that it was made on and it has none yet, and news of
    /// it otherwise.
    pub fn told(&mut self, call_id: &str, operation: Option<OperationId>, status: ToolStatus, connection: Option<u64>) -> Option<News> {
        // The name is the model's, and may have been used before: what is said first of each call comes in their order.
        let known = |call: &Call| call.call_id == call_id;
        let untold = self.made.iter().position(|call| known(call) && !call.told);
        let place = untold.or_else(|| self.made.iter().rposition(known))?;
        let call = self.made.get_mut(place)?;
        call.told = true;
        if operation.is_some() {
            call.status = Some(status);
        }
        if !std::mem::replace(&mut call.answered, true) && connection == Some(call.connection) {
            return Some(News::Output { tool: call.tool.clone() });
        }
        let news = notes::later(&call.tool, status);
        Some(match status {
            ToolStatus::Running | ToolStatus::AlreadyRunning => News::Context(news),
            _ => News::Note(news),
        })
    }

    /// The calls of this connection that have no output yet, which are given one now.
    pub fn answer_open(&mut self, connection: u64) -> Vec<Open> {
        let open = self.made.iter_mut().filter(|call| call.connection == connection && !call.answered);
        open.map(|call| {
            call.answered = true;
            Open { call_id: call.call_id.clone(), tool: call.tool.clone() }
        })
        .collect()
    }

    /// The service takes no output of this call any more; what it set in motion goes on, and what the model is told of that.
    pub fn cancelled(&mut self, call_id: &str, connection: u64) -> Option<String> {
        let call = self.made.iter_mut().rfind(|call| call.call_id == call_id && call.connection == connection)?;
        let runs = call.runs() || !call.told;
        call.answered = true;
        runs.then(|| notes::goes_on(&call.tool))
    }

    /// What runs, as far as is known, for a connection that did not ask for it.
    pub fn under_way(&self) -> impl Iterator<Item = String> {
        self.made.iter().filter(|call| call.runs()).map(|call| notes::under_way(&call.tool))
    }
}

impl Call {
    fn runs(&self) -> bool {
        matches!(self.status, Some(ToolStatus::Running | ToolStatus::AlreadyRunning))
    }
}

/// So many of one response are taken: more than anybody asks for in one turn.
pub(super) const TAKEN_MAX: usize = 32;
/// What is said of the others.
pub(super) const TOO_MANY: &str = "too many calls are made at a time";
/// Many more than are under way at a time.
const CALLS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Option<OperationId> = Some(OperationId(1));

    #[test]
    fn a_call_is_answered_once_and_what_is_news_afterwards_is_told_in_words() {
        let mut calls = Calls::default();
        calls.made("c".into(), "order".into(), 1, false);
        assert_eq!(calls.told("c", ONE, ToolStatus::Running, Some(1)), Some(News::Output { tool: "order".into() }));
        assert!(matches!(calls.told("c", ONE, ToolStatus::Told, Some(1)), Some(News::Note(_))));
        assert_eq!(calls.told("unknown", ONE, ToolStatus::Told, Some(1)), None);
        assert_eq!(calls.answer_open(1), []);
    }

    #[test]
    fn a_call_of_another_connection_is_told_of_in_words_and_runs_on_there() {
        for connection in [None, Some(2)] {
            let mut calls = Calls::default();
            calls.made("c".into(), "order".into(), 1, false);
            assert!(matches!(calls.told("c", ONE, ToolStatus::Running, connection), Some(News::Context(_))));
            assert_eq!(calls.under_way().count(), 1);
            assert_eq!(calls.told("c", ONE, ToolStatus::Running, Some(1)), Some(News::Context(notes::later("order", ToolStatus::Running))));
        }
    }

    #[test]
    fn a_call_that_the_service_cancels_gets_no_output_and_what_it_set_in_motion_goes_on() {
        let mut calls = Calls::default();
        for (call_id, told) in [("c", None), ("d", Some(ToolStatus::Running)), ("e", Some(ToolStatus::Refused))] {
            calls.made(call_id.into(), "order".into(), 1, false);
            told.map(|status| calls.told(call_id, (status == ToolStatus::Running).then_some(OperationId(1)), status, Some(1)));
            assert_eq!(calls.cancelled(call_id, 1).is_some(), told != Some(ToolStatus::Refused), "{call_id}");
        }
        assert_eq!(calls.answer_open(1), []);
        assert!(matches!(calls.told("c", ONE, ToolStatus::Running, Some(1)), Some(News::Context(_))));
        assert_eq!(calls.cancelled("c", 2), None);
    }
}
