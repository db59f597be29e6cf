//! The world around the box: tools that count their effects, callers who hang up and interrupt, an ear that counts what it
//! hears, a store that may fail, and the power. Nothing here looks into the box: it sees what comes out, and hears.

use recado_core::ledger::DeliveryState;

use crate::action::{Action, Reply};
use crate::alphabet::{Answer, Attempted, Call, Cancelled, Delivery, Input, Operation, Output, SHORT, Scope, Verdict, View, Word};
use crate::specification::Broken;

/// Everything outside of the box.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// One for each operation.
    pub tools: Vec<Tool>,
    /// One for each conversation.
    pub callers: Vec<Caller>,
    /// For each delivery and clause, how often the ear heard it to its end; beyond two it makes no difference.
    pub ear: Vec<Vec<u8>>,
    /// Deliveries that have been in doubt, as the store says.
    pub doubted: Vec<bool>,
    /// Something newer has been asked for.
    pub newer: bool,
    /// An honest callback was told that something else is on record.
    pub contradicted: bool,
    left: Left,
}

/// What can still go wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Left {
    power_cuts: u8,
    failures: u8,
    cuts: u8,
    doubts: u8,
    lost_answers: u8,
}

/// A tool, as far as one intent goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Tool {
    /// The party was told that it is accepted.
    pub accepted: bool,
    /// The request that the box waits for: its attempt, and whether it has been executed.
    pub request: Option<(u8, bool)>,
    /// A request of an earlier life of the box is still under way.
    pub orphan: bool,
    /// The cancel request that the executor has not answered.
    pub cancel: Option<u8>,
    /// It has said that it took effect: from then on it undoes nothing.
    pub announced: bool,
    /// It took effect and was undone.
    pub undone: bool,
    /// How often it took effect; beyond two it makes no difference.
    pub effects: u8,
    /// Callbacks that wait for their answer.
    pub calling: u8,
    /// A callback has been answered with 2xx.
    pub acknowledged: bool,
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Whether it is up.
    pub up: bool,
    /// The deliveries that it may claim.
    pub offered: Vec<bool>,
    /// The one that it tells.
    pub telling: Option<Telling>,
    /// Evidence that is late: the delivery, and the words that were heard.
    pub late: Option<(Delivery, Vec<Word>)>,
    /// The delivery whose playback was ended with frames out, where [`Broken::CreditsEndedPlayback`] makes that matter.
    pub ended: Option<Delivery>,
}

/// How far the telling of a delivery is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Telling {
    /// The delivery.
    pub delivery: Delivery,
    /// What is to be said; empty until the claim is granted.
    pub words: Vec<Word>,
    /// How many of them have been heard to their end; none before the first frame.
    pub played: Option<usize>,
}

impl World {
    /// A world with the first conversation up and nothing asked for.
    pub fn new(scope: &Scope) -> Self {
        let caller = |call| Caller { up: call == 0, offered: Vec::new(), telling: None, late: None, ended: None };
        Self {
            tools: vec![Tool::default(); scope.idempotent.len()],
            callers: (0..scope.calls).map(caller).collect(),
            ear: Vec::new(),
            doubted: Vec::new(),
            newer: false,
            contradicted: false,
            left: Left {
                power_cuts: scope.power_cuts,
                failures: scope.failures,
                cuts: scope.cuts,
                doubts: scope.doubts,
                lost_answers: scope.lost_answers,
            },
        }
    }

    /// Whether this much is left that can go wrong.
    pub fn can(&self, action: &Action) -> bool {
        match action {
            Action::PowerCut { .. } => self.left.power_cuts > 0,
            Action::Fail => self.left.failures > 0,
            Action::Cut { doubt, .. } => self.left.cuts > 0 && (!doubt || self.left.doubts > 0),
            Action::Settle { doubt: true, .. } => self.left.doubts > 0,
            Action::HangUp(call) => !self.on_air(*call) || self.left.doubts > 0,
            Action::Reply(_, Reply::Lost) => self.left.lost_answers > 0,
            _ => true,
        }
    }

    /// Whether a conversation is telling something right now.
    pub fn on_air(&self, call: Call) -> bool {
        self.callers.get(call).and_then(|caller| caller.telling.as_ref()).is_some_and(|telling| telling.played.is_some())
    }

    /// How often a delivery has been heard whole.
    pub fn closings_heard(&self, delivery: Delivery) -> u8 {
        self.ear.get(delivery).and_then(|clauses| clauses.iter().min().copied()).unwrap_or(0)
    }

    /// Something happens; what the box is told of it, if it is told.
    pub fn act(&mut self, scope: &Scope, broken: Option<Broken>, action: &Action) -> Option<Input> {
        self.spend(action);
        match *action {
            Action::Ask(call, operation) => Some(Input::Accept(call, operation)),
            Action::EndResponse => Some(Input::Seal),
            Action::Cancel(call) => Some(Input::Cancel(call)),
            Action::Execute(operation) => {
                self.execute(scope, operation);
                None
            }
            Action::ExecuteOrphan(operation) => {
                self.execute(scope, operation);
                self.tool(operation)?.orphan = false;
                None
            }
            Action::Reply(operation, reply) => {
                let (attempt, _) = self.tool(operation)?.request.take()?;
                self.tool(operation)?.announced |= reply == Reply::Succeeded;
                let how = match reply {
                    Reply::Succeeded => Attempted::Succeeded,
                    Reply::NotExecuted => Attempted::NotExecuted,
                    Reply::Lost => Attempted::Maybe,
                };
                Some(Input::Attempted(operation, attempt, how))
            }
            Action::CancelReply(operation, how) => {
                let tool = self.tool(operation)?;
                let request = tool.cancel.take()?;
                match how {
                    Cancelled::Recalled => tool.request = None,
                    Cancelled::Cancelled | Cancelled::Compensated => {
                        (tool.request, tool.orphan) = (None, false);
                        tool.undone = how == Cancelled::Compensated;
                    }
                    Cancelled::TooLateWithoutResult => tool.announced = true,
                    Cancelled::Unsupported | Cancelled::TooLate => {}
                }
                Some(Input::CancelAnswered(operation, request, how))
            }
            Action::Callback(operation) => {
                let tool = self.tool(operation)?;
                tool.calling += 1;
                tool.announced = true;
                Some(Input::Callback(operation))
            }
            Action::Call(call) => {
                self.caller(call)?.up = true;
                Some(Input::Up(call))
            }
            Action::HangUp(call) => {
                self.down(call);
                Some(Input::Over(call))
            }
            Action::Claim(call, delivery) => {
                self.caller(call)?.telling = Some(Telling { delivery, words: Vec::new(), played: None });
                Some(Input::Claim(call, delivery))
            }
            Action::Release(call) => {
                let telling = self.caller(call)?.telling.take()?;
                Some(Input::Release(call, telling.delivery))
            }
            Action::FirstFrame(call) => {
                let telling = self.caller(call)?.telling.as_mut()?;
                telling.played = Some(0);
                Some(Input::FirstFrame(call, telling.delivery))
            }
            Action::Hear(call) => {
                let telling = self.caller(call)?.telling.as_mut()?;
                let (delivery, played) = (telling.delivery, telling.played?);
                let word = *telling.words.get(played)?;
                telling.played = Some(played + 1);
                self.hear(delivery, word);
                None
            }
            Action::Settle { call, doubt } | Action::Cut { call, doubt } => self.end(call, doubt, broken),
            Action::Late(call) => {
                let caller = self.caller(call)?;
                let (delivery, words) = caller.late.take()?;
                // Where the conversation is saying the same words again, it stops.
                caller.telling.take_if(|telling| telling.delivery == delivery && telling.words.iter().any(|word| words.contains(word)));
                Some(Input::Settled(call, delivery, words.into_iter().map(|word| (word, Verdict::Heard)).collect()))
            }
            Action::EndedReport(call) => {
                let telling = self.caller(call)?.telling.take()?;
                Some(Input::Settled(call, telling.delivery, telling.words.into_iter().map(|word| (word, Verdict::Heard)).collect()))
            }
            Action::Stale(delivery) => Some(Input::Suppress(delivery)),
            Action::Newer(call) => {
                self.newer = true;
                Some(Input::Newer(call))
            }
            Action::Pause => Some(Input::Pause),
            Action::Deadline => Some(Input::Deadline),
            Action::Commit => Some(Input::Durable),
            Action::Fail => Some(Input::Failed),
            Action::PowerCut { kept } => {
                (0..self.callers.len()).for_each(|call| self.down(call));
                for tool in &mut self.tools {
                    // What was on its way goes on; nobody waits for its answer any more.
                    tool.orphan |= matches!(tool.request.take(), Some((_, false)));
                    tool.calling = 0;
                    tool.cancel = None;
                }
                Some(Input::PowerCut { kept })
            }
        }
    }

    /// What came out of the box.
    pub fn see(&mut self, outputs: &[Output]) {
        for output in outputs {
            match *output {
                Output::Accepted(_, operation) => self.tools.iter_mut().skip(operation).take(1).for_each(|tool| tool.accepted = true),
                Output::Refused(..) => {}
                Output::Dispatch(operation, attempt) => {
                    for tool in self.tools.iter_mut().skip(operation).take(1) {
                        tool.orphan |= matches!(tool.request, Some((_, false)));
                        tool.request = Some((attempt, false));
                    }
                }
                Output::CancelRequest(operation, request) => {
                    self.tools.iter_mut().skip(operation).take(1).for_each(|tool| tool.cancel = Some(request));
                }
                Output::Answer(operation, answer) => {
                    self.contradicted |= answer == Answer::Conflict;
                    for tool in self.tools.iter_mut().skip(operation).take(1) {
                        tool.calling = tool.calling.saturating_sub(1);
                        tool.acknowledged |= answer == Answer::Recorded;
                    }
                }
                Output::Offered(call, delivery) => self.offered(call, delivery, true),
                Output::Withdrawn(call, delivery) => {
                    self.offered(call, delivery, false);
                    self.stop(call, delivery);
                }
                Output::Claimed(call, delivery, ref words) => {
                    self.offered(call, delivery, false);
                    let telling = self.caller(call).and_then(|caller| caller.telling.as_mut());
                    if let Some(telling) = telling.filter(|telling| telling.delivery == delivery && telling.words.is_empty()) {
                        telling.words = words.clone();
                    }
                }
                Output::ClaimRefused(call, delivery) => {
                    let telling = self.caller(call).and_then(|caller| caller.telling.as_ref());
                    if telling.is_some_and(|telling| telling.words.is_empty()) {
                        self.stop(call, delivery);
                    }
                }
            }
        }
    }

    /// What the store says now.
    pub fn look(&mut self, view: &View) {
        self.ear.resize(view.deliveries.len(), Vec::new());
        self.doubted.resize(view.deliveries.len(), false);
        for ((delivery, ear), doubted) in view.deliveries.iter().zip(&mut self.ear).zip(&mut self.doubted) {
            ear.resize(delivery.clauses.len(), 0);
            *doubted |= delivery.state == DeliveryState::Uncertain;
        }
    }

    fn spend(&mut self, action: &Action) {
        let left = &mut self.left;
        match action {
            Action::PowerCut { .. } => left.power_cuts -= 1,
            Action::Fail => left.failures -= 1,
            Action::Cut { doubt, .. } => {
                left.cuts -= 1;
                left.doubts -= u8::from(*doubt);
            }
            Action::Settle { doubt, .. } => left.doubts -= u8::from(*doubt),
            Action::HangUp(call) => self.left.doubts -= u8::from(self.on_air(*call)),
            Action::Reply(_, Reply::Lost) => left.lost_answers -= 1,
            _ => {}
        }
    }

    fn tool(&mut self, operation: Operation) -> Option<&mut Tool> {
        self.tools.get_mut(operation)
    }

    fn caller(&mut self, call: Call) -> Option<&mut Caller> {
        self.callers.get_mut(call)
    }

    /// An idempotent tool knows the key of a request that it has executed before.
    fn execute(&mut self, scope: &Scope, operation: Operation) {
        let idempotent = scope.idempotent.get(operation) == Some(&true);
        for tool in self.tools.iter_mut().skip(operation).take(1) {
            tool.effects = if idempotent { 1 } else { (tool.effects + 1).min(2) };
            if let Some((_, executed)) = tool.request.as_mut() {
                *executed = true;
            }
        }
    }

    fn hear(&mut self, delivery: Delivery, word: Word) {
        for clauses in self.ear.iter_mut().skip(delivery).take(1) {
            for (index, count) in (0..).zip(clauses) {
                if word == index || word == SHORT {
                    *count = (*count + 1).min(2);
                }
            }
        }
    }

    /// A telling ends: every word that was heard to its end, and what the far end says about it.
    fn end(&mut self, call: Call, doubt: bool, broken: Option<Broken>) -> Option<Input> {
        let caller = self.caller(call)?;
        let Telling { delivery, words, played } = caller.telling.take()?;
        let played = played?;
        let heard = if doubt { Verdict::Uncertain } else { Verdict::Heard };
        let verdict = |(place, word): (usize, &Word)| (*word, if place < played { heard } else { Verdict::Unheard });
        if doubt {
            caller.late = Some((delivery, words.iter().take(played).copied().collect()));
        }
        if broken == Some(Broken::CreditsEndedPlayback) && played < words.len() {
            caller.ended = Some(delivery);
        }
        Some(Input::Settled(call, delivery, words.iter().enumerate().map(verdict).collect()))
    }

    fn down(&mut self, call: Call) {
        for caller in self.callers.iter_mut().skip(call).take(1) {
            *caller = Caller { up: false, offered: Vec::new(), telling: None, late: None, ended: None };
        }
    }

    fn offered(&mut self, call: Call, delivery: Delivery, offered: bool) {
        if let Some(caller) = self.caller(call) {
            if caller.offered.len() <= delivery {
                caller.offered.resize(delivery + 1, false);
            }
            caller.offered.iter_mut().skip(delivery).take(1).for_each(|known| *known = offered);
        }
    }

    fn stop(&mut self, call: Call, delivery: Delivery) {
        if let Some(caller) = self.caller(call) {
            caller.telling.take_if(|telling| telling.delivery == delivery);
        }
    }
}
