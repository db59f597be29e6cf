//! Wishes to cancel: one may concern several batches, and gets one answer, when each of them has put it on record (R6) or could not.

use std::collections::{BTreeMap, BTreeSet};

use super::batch::Batch;
use super::commit::Lane;
use super::effect::{Cancellation, Effect, News};
use super::machine::{Ledger, World};
use super::operation::Operation;
use super::record::OperationState;
use super::work::Work;
use crate::ids::{OperationId, SessionId};
use crate::policy::{Audience, Language};
use crate::time::Step;

/// The wishes that are not answered yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Wishes {
    next: u64,
    open: BTreeMap<u64, Wish>,
}

#[derive(Debug, Clone)]
struct Wish {
    session: SessionId,
    /// The lanes that have not answered.
    lanes: BTreeSet<u64>,
    cancelled: Cancelled,
}

/// What a wish to cancel is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meant {
    /// The tool whose operations are meant, or all.
    pub tool: Option<String>,
    /// The one operation that is meant, where it is one.
    pub operation: Option<OperationId>,
    /// The conversation whose caller is not known to be the party, where that is so: of what is for the verified party alone it means only what was
    /// asked for in it.
    pub withheld_from: Option<SessionId>,
}

impl Meant {
    fn means(&self, operation: &Operation, world: &World) -> bool {
        let record = &operation.record;
        let secret = || world.policy(&record.tool).audience == Audience::VerifiedParty;
        if self.withheld_from.is_some_and(|session| record.session != session && secret()) {
            return false;
        }
        self.tool.as_ref().is_none_or(|tool| *tool == record.tool) && self.operation.is_none_or(|meant| meant == record.id)
    }
}

/// What a wish to cancel comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cancelled {
    cancelling: Vec<OperationId>,
    ended: Vec<OperationId>,
    refused: Vec<OperationId>,
}

impl Cancelled {
    /// What it comes to in one batch, whose operations are cancelled. One that is being cancelled already is as good as one that
    /// begins to be.
    pub fn of(batch: &mut Batch, meant: &Meant, world: &World) -> Self {
        let untold = !batch.closed();
        let mut cancelled = Self::default();
        for operation in batch.operations.iter_mut().filter(|operation| meant.means(operation, world)) {
            if operation.cancel() || operation.record.state == OperationState::Cancelling {
                cancelled.cancelling.push(operation.record.id);
            } else if operation.record.state.settled() && untold {
                cancelled.ended.push(operation.record.id);
            }
        }
        cancelled
    }

    /// What it comes to in one batch of which it could not be put on record: what runs goes on.
    fn not(batch: &Batch, meant: &Meant, world: &World) -> Self {
        let mut cancelled = Self::of(&mut batch.clone(), meant, world);
        cancelled.refused = std::mem::take(&mut cancelled.cancelling);
        cancelled
    }

    fn news(self, session: SessionId, world: &World) -> Effect {
        let language = world.sessions.get(&session).map_or_else(Language::default, |listener| listener.language);
        let Self { cancelling, ended, refused } = self;
        let say = world.sayer.cancelling(!cancelling.is_empty(), !ended.is_empty(), !refused.is_empty(), language);
        Effect::Tell { session, news: News::Cancelling(Cancellation { cancelling, ended, refused, say }) }
    }
}

impl Ledger {
    /// The caller's operations: the party's where it is known, otherwise the conversation's.
    pub(super) fn cancel(&mut self, session: SessionId, meant: &Meant, step: &mut Step, effects: &mut Vec<Effect>) {
        let party = self.world.sessions.get(&session).and_then(|listener| listener.party.clone());
        let theirs = |lane: &Lane| lane.session == session || (party.is_some() && lane.party == party);
        // What is over, or has nothing of that tool, has nothing to say to it. What is being accepted may have.
        let has = |lane: &Lane| {
            lane.batch
                .as_ref()
                .is_some_and(|batch| !batch.closed() && batch.operations.iter().any(|operation| meant.means(operation, &self.world)))
        };
        // One that has a name has been accepted.
        let perhaps = meant.operation.is_none() && meant.tool.as_ref().is_none_or(|tool| self.world.tool(tool).is_some());
        let concerned = |lane: &Lane| theirs(lane) && (has(lane) || (perhaps && !lane.idle()));
        let lanes: Vec<u64> = self.lanes.iter().filter(|(_, lane)| concerned(lane)).map(|(&number, _)| number).collect();
        let wish = self.wishes.next;
        self.wishes.next = wish.saturating_add(1);
        self.wishes.open.insert(wish, Wish { session, lanes: lanes.iter().copied().collect(), cancelled: Cancelled::default() });
        self.answer_wish(wish, effects);
        for number in lanes {
            self.put(number, Work::Cancel { wish, meant: meant.clone() }, step, effects);
        }
    }

    /// A lane has put a wish on record, or has nothing to do with it.
    pub(super) fn heed(&mut self, number: u64, wish: u64, cancelled: Cancelled, effects: &mut Vec<Effect>) {
        let Some(open) = self.wishes.open.get_mut(&wish) else { return };
        if open.lanes.remove(&number) {
            open.cancelled.cancelling.extend(cancelled.cancelling);
            open.cancelled.ended.extend(cancelled.ended);
            open.cancelled.refused.extend(cancelled.refused);
            self.answer_wish(wish, effects);
        }
    }

    /// A lane could not put a wish on record.
    pub(super) fn not_heeded(&mut self, number: u64, wish: u64, meant: &Meant, effects: &mut Vec<Effect>) {
        let batch = self.lanes.get(&number).and_then(|lane| lane.batch.as_ref());
        let cancelled = batch.map(|batch| Cancelled::not(batch, meant, &self.world)).unwrap_or_default();
        self.heed(number, wish, cancelled, effects);
    }

    fn answer_wish(&mut self, wish: u64, effects: &mut Vec<Effect>) {
        if self.wishes.open.get(&wish).is_some_and(|open| open.lanes.is_empty())
            && let Some(mut open) = self.wishes.open.remove(&wish)
        {
            // By now what was refused may have ended, or be cancelled by another wish.
            for id in std::mem::take(&mut open.cancelled.refused) {
                match self.operation(id).map(|record| record.state) {
                    Some(OperationState::Cancelling) => open.cancelled.cancelling.push(id),
                    Some(state) if !state.settled() => open.cancelled.refused.push(id),
                    _ => open.cancelled.ended.push(id),
                }
            }
            self.emit(open.cancelled.news(open.session, &self.world), effects);
        }
    }
}
