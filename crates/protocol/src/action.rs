//! What can happen, and which of it is a fault or the caller's will.

use recado_core::ledger::{BatchState, OperationState};

use crate::alphabet::{Call, Cancelled, Delivery, Machine, Operation, Scope, Word};
use crate::model::State;
use crate::specification::Broken;
use crate::world::{Caller, Tool};

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// An operation is asked for, for the first time or again.
    Ask(Call, Operation),
    /// The response that asked ends.
    EndResponse,
    /// The caller cancels.
    Cancel(Call),
    /// The tool executes the request.
    Execute(Operation),
    /// The tool executes a request of an earlier life of the box.
    ExecuteOrphan(Operation),
    /// The request is answered, or its answer is lost.
    Reply(Operation, Reply),
    /// A cancel request is answered.
    CancelReply(Operation, Cancelled),
    /// The tool calls back.
    Callback(Operation),
    /// The party calls, or is called.
    Call(Call),
    /// It hangs up; in the middle of a closing it leaves no evidence behind.
    HangUp(Call),
    /// The gate is open: the conversation claims.
    Claim(Call, Delivery),
    /// The gate refuses after all.
    Release(Call),
    /// The first frame leaves.
    FirstFrame(Call),
    /// The ear hears the next word to its end.
    Hear(Call),
    /// Everything was heard, and is reported, or the report is lost.
    Settle {
        /// By whom.
        call: Call,
        /// Whether it is lost.
        doubt: bool,
    },
    /// The caller interrupts before the next word's end; what was heard is reported, or the report is lost.
    Cut {
        /// Who.
        call: Call,
        /// Whether it is lost.
        doubt: bool,
    },
    /// The lost report comes after all.
    Late(Call),
    /// A report about an ended playback arrives ([`Broken::CreditsEndedPlayback`]).
    EndedReport(Call),
    /// A delivery has become stale.
    Stale(Delivery),
    /// Something newer is asked for.
    Newer(Call),
    /// Back-offs are over.
    Pause,
    /// Deadlines pass.
    Deadline,
    /// The store commits.
    Commit,
    /// The store fails.
    Fail,
    /// The power goes and comes back.
    PowerCut {
        /// Whether what was in flight was kept.
        kept: bool,
    },
}

/// How a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reply {
    /// It was executed.
    Succeeded,
    /// It was not.
    NotExecuted,
    /// The answer is lost.
    Lost,
}

impl Action {
    /// Whether it is a fault, or something that a caller does against the course of things. When these stop, everything must
    /// come to its end.
    pub fn disturbs(&self) -> bool {
        matches!(
            self,
            Self::Cancel(_)
                | Self::ExecuteOrphan(_)
                | Self::Reply(_, Reply::NotExecuted | Reply::Lost)
                | Self::HangUp(_)
                | Self::Release(_)
                | Self::Settle { doubt: true, .. }
                | Self::Cut { .. }
                | Self::EndedReport(_)
                | Self::Stale(_)
                | Self::Newer(_)
                | Self::Fail
                | Self::PowerCut { .. }
        )
    }
}

/// Everything that can happen now.
pub(crate) fn actions<M: Machine>(scope: &Scope, broken: Option<Broken>, state: &State<M>, actions: &mut Vec<Action>) {
    if state.machine.in_flight() {
        actions.extend([Action::Commit, Action::Fail, Action::PowerCut { kept: true }]);
    }
    actions.push(Action::PowerCut { kept: false });
    tools(state, actions);
    callers(state, actions);
    if state.machine.pausing() {
        actions.push(Action::Pause);
    }
    if broken == Some(Broken::SpeaksBeforeDurable) && state.machine.in_flight() {
        let waits = |caller: &Caller| caller.telling.as_ref().is_some_and(|telling| !telling.words.is_empty() && telling.played.is_none());
        let speaks = state.world.callers.iter().enumerate().filter(|(_, caller)| waits(caller));
        actions.extend(speaks.map(|(call, _)| Action::FirstFrame(call)));
    }
    if state.machine.open(scope) {
        asks(scope, state, actions);
        replies(scope, state, actions);
        tellings(scope, broken, state, actions);
        if !state.machine.in_flight() && state.view.operations.iter().flatten().any(|row| !row.state.settled()) {
            actions.push(Action::Deadline);
        }
    }
    actions.retain(|action| state.world.can(action));
}

/// What tools do by themselves.
fn tools<M: Machine>(state: &State<M>, actions: &mut Vec<Action>) {
    for (operation, tool) in state.world.tools.iter().enumerate() {
        if let Some((_, false)) = tool.request {
            actions.push(Action::Execute(operation));
        }
        if tool.orphan {
            actions.push(Action::ExecuteOrphan(operation));
        }
    }
}

/// What ears do by themselves.
fn callers<M: Machine>(state: &State<M>, actions: &mut Vec<Action>) {
    for (call, caller) in state.world.callers.iter().enumerate() {
        if let Some(telling) = &caller.telling
            && telling.played.is_some_and(|played| played < telling.words.len())
        {
            actions.push(Action::Hear(call));
        }
    }
}

fn asks<M: Machine>(scope: &Scope, state: &State<M>, actions: &mut Vec<Action>) {
    let asking = matches!(state.view.batch, None | Some(BatchState::Open)) && state.world.callers.first().is_some_and(|caller| caller.up);
    for operation in 0..scope.idempotent.len() {
        let known = state.view.operation(operation).is_some();
        // In the order of their places: which is asked first makes no difference.
        let next = operation == 0 || state.view.operation(operation - 1).is_some();
        for (call, caller) in state.world.callers.iter().enumerate() {
            if caller.up && (known || (call == 0 && asking && next)) {
                actions.push(Action::Ask(call, operation));
            }
        }
    }
    if state.view.batch == Some(BatchState::Open) && asking {
        actions.push(Action::EndResponse);
    }
    let cancellable =
        |state: OperationState| matches!(state, OperationState::Accepted | OperationState::Running | OperationState::RetryWait);
    let any = state.view.operations.iter().flatten().any(|row| cancellable(row.state));
    for (call, caller) in state.world.callers.iter().enumerate() {
        if scope.cancel && any && caller.up {
            actions.push(Action::Cancel(call));
        }
        if call > 0 && !caller.up {
            actions.push(Action::Call(call));
        }
        // Where nobody could call again, nobody hangs up.
        if caller.up && scope.calls > 1 {
            actions.push(Action::HangUp(call));
        }
        if scope.newer && !state.world.newer && caller.up && state.view.batch.is_some() {
            actions.push(Action::Newer(call));
        }
    }
}

fn replies<M: Machine>(scope: &Scope, state: &State<M>, actions: &mut Vec<Action>) {
    for (operation, tool) in state.world.tools.iter().enumerate() {
        match tool.request {
            Some((_, true)) => actions.extend([Action::Reply(operation, Reply::Succeeded), Action::Reply(operation, Reply::Lost)]),
            Some((_, false)) => actions.extend([Action::Reply(operation, Reply::NotExecuted), Action::Reply(operation, Reply::Lost)]),
            None => {}
        }
        if tool.cancel.is_some() {
            actions.extend(cancel_replies(scope, tool).into_iter().map(|how| Action::CancelReply(operation, how)));
        }
        if tool.effects > 0 && !tool.undone && tool.calling <= scope.overlap {
            actions.push(Action::Callback(operation));
        }
    }
}

/// What an executor can truthfully say to a cancel request. The attempt that has not been executed may not have left the box.
fn cancel_replies(scope: &Scope, tool: &Tool) -> Vec<Cancelled> {
    let mut replies = Vec::new();
    if matches!(tool.request, Some((_, false))) {
        replies.push(Cancelled::Recalled);
    }
    match tool.effects {
        _ if !scope.cancellable => replies.push(Cancelled::Unsupported),
        // It says the same again.
        _ if tool.undone => replies.push(Cancelled::Compensated),
        0 => replies.push(Cancelled::Cancelled),
        _ if tool.announced => replies.push(Cancelled::TooLate),
        _ => replies.extend([Cancelled::Compensated, Cancelled::TooLate, Cancelled::TooLateWithoutResult]),
    }
    replies
}

fn tellings<M: Machine>(scope: &Scope, broken: Option<Broken>, state: &State<M>, actions: &mut Vec<Action>) {
    for (call, caller) in state.world.callers.iter().enumerate() {
        match &caller.telling {
            None => {
                let offered = caller.offered.iter().enumerate().filter(|(_, offered)| **offered);
                actions.extend(offered.map(|(delivery, _)| Action::Claim(call, delivery)));
            }
            Some(telling) if telling.words.is_empty() => {}
            Some(telling) => match telling.played {
                None => actions.extend([Action::Release(call), Action::FirstFrame(call)]),
                Some(played) if played < telling.words.len() => {
                    actions.push(Action::Cut { call, doubt: false });
                    if played > 0 {
                        actions.push(Action::Cut { call, doubt: true });
                    }
                    if broken == Some(Broken::CreditsEndedPlayback) && caller.ended == Some(telling.delivery) {
                        actions.push(Action::EndedReport(call));
                    }
                }
                Some(_) => actions.extend([Action::Settle { call, doubt: false }, Action::Settle { call, doubt: true }]),
            },
        }
        // A report about some of the words that are being said again belongs to the account of that telling.
        let some_again = |(delivery, late): &(Delivery, Vec<Word>)| {
            let again = caller.telling.as_ref().filter(|telling| telling.delivery == *delivery);
            let known = again.map(|telling| telling.words.iter().filter(|word| late.contains(word)).count());
            known.zip(again).is_some_and(|(known, telling)| known > 0 && known < telling.words.len())
        };
        if caller.late.as_ref().is_some_and(|late| !some_again(late)) {
            actions.push(Action::Late(call));
        }
    }
    if scope.stale {
        let waiting = state.view.deliveries.iter().enumerate().filter(|(_, delivery)| !delivery.state.terminal());
        actions.extend(waiting.map(|(delivery, _)| Action::Stale(delivery)));
    }
}
