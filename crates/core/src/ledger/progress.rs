//! News of progress: an update to whoever may hear it now, and nothing else. It is not kept, not claimed, not an obligation.
//!
//! A tool that reports often is heard seldom: at most one update in [`BETWEEN_MS`], and [`UPDATES_MAX`] for each operation. The next
//! update overtakes the one before, and the end of the operation overtakes them all (I19).

use std::collections::BTreeMap;

use serde_json::Value;

use super::batch::Batch;
use super::effect::{CallbackAnswer, DeliveryEnvelope, Effect, News};
use super::input::RequestId;
use super::machine::{Ledger, World};
use super::operation::Operation;
use super::record::{DeliveryKind, OperationState};
use super::session::may_hear;
use super::work::withdrawn;
use crate::faults::{Fault, fault};
use crate::ids::{DeliveryId, OperationId, SessionId};
use crate::policy::{Priority, ProgressPolicy};
use crate::time::{Step, Time};

/// The latest update of each operation that has one.
#[derive(Debug, Clone, Default)]
pub(super) struct Updates {
    latest: BTreeMap<OperationId, Update>,
}

#[derive(Debug, Clone)]
struct Update {
    delivery: DeliveryId,
    /// Who has it, and may still be about to tell it.
    to: Vec<SessionId>,
    at: Time,
    count: u32,
}

/// What an update is about.
#[derive(Clone, Copy)]
enum About<'a> {
    /// How far it is, as its tool says.
    Progress(&'a Value),
    /// That it waits for its tool to be reached.
    Waiting,
}

impl Updates {
    /// What its operations' end, or the caller's wish to have them cancelled, has overtaken is told no more.
    pub fn settle(&mut self, batch: &Batch, world: &World, effects: &mut Vec<Effect>) {
        if fault(Fault::ProgressAfterFinal) {
            return;
        }
        let overtaken = |operation: &&Operation| operation.record.state.settled() || operation.record.state == OperationState::Cancelling;
        for operation in batch.operations.iter().filter(overtaken) {
            if let Some(update) = self.latest.remove(&operation.record.id) {
                let there = update.to.into_iter().filter(|session| world.sessions.contains_key(session));
                effects.extend(there.map(|session| withdrawn(session, update.delivery)));
            }
        }
    }

    fn allow(&self, operation: OperationId, now: Time) -> bool {
        self.latest.get(&operation).is_none_or(|latest| latest.count < UPDATES_MAX && now.since(latest.at) >= BETWEEN_MS)
    }
}

impl Ledger {
    /// A tool says how far it is.
    pub(super) fn progress(
        &mut self,
        request: Option<RequestId>,
        operation: OperationId,
        progress: &Value,
        step: &mut Step,
        effects: &mut Vec<Effect>,
    ) {
        let known = self.operation(operation);
        let cancelling = known.is_some_and(|record| record.state == OperationState::Cancelling);
        let answer = match known {
            None if self.intents.closed(operation).is_none() => CallbackAnswer::Unknown,
            None => CallbackAnswer::Over,
            Some(record) if record.state.settled() => CallbackAnswer::Over,
            Some(_) => CallbackAnswer::Noted,
        };
        // Who wants it cancelled does not want to hear how far it is.
        let kind = known.and_then(|record| match self.world.policy(&record.tool).progress {
            ProgressPolicy::Off => None,
            ProgressPolicy::Silent => Some(DeliveryKind::Silent),
            ProgressPolicy::Say => Some(DeliveryKind::Progress),
        });
        if let Some(kind) = kind
            && answer == CallbackAnswer::Noted
            && !cancelling
            && self.updates.allow(operation, step.now)
        {
            self.update(operation, kind, About::Progress(progress), step, effects);
        }
        effects.extend(request.map(|request| Effect::Answer { request, answer }));
    }

    /// Its tool can't be reached, so that it waits: whoever may hear it is told, whatever is to be heard of its progress.
    pub(super) fn tell_waiting(&mut self, operation: OperationId, step: &mut Step, effects: &mut Vec<Effect>) {
        self.update(operation, DeliveryKind::Progress, About::Waiting, step, effects);
    }

    /// It waits no longer: that it does is told no more.
    pub(super) fn no_longer_waits(&mut self, operation: OperationId, effects: &mut Vec<Effect>) {
        if let Some(update) = self.updates.latest.remove(&operation) {
            let there = update.to.into_iter().filter(|session| self.world.sessions.contains_key(session));
            effects.extend(there.map(|session| withdrawn(session, update.delivery)));
        }
    }

    fn update(&mut self, id: OperationId, kind: DeliveryKind, about: About<'_>, step: &mut Step, effects: &mut Vec<Effect>) {
        let Some(record) = self.operation(id).cloned() else { return };
        let policy = self.world.policy(&record.tool);
        let envelope = DeliveryEnvelope {
            delivery: DeliveryId(step.ids.draw()),
            sequence: self.next_sequence,
            kind,
            batch: record.batch,
            priority: Priority::Normal,
            can_interrupt: policy.can_interrupt,
            ride: policy.ride,
            strict: false,
            audience: policy.audience,
            max_wait_ms: policy.max_wait_ms,
            min_quiet_ms: policy.min_quiet_ms,
            ready_at: Some(step.now),
            ready_wall: step.wall,
            stale_after_ms: Some(FRESH_MS),
            attempt: 0,
            ride_only: false,
            operations: vec![id],
        };
        self.next_sequence = self.next_sequence.saturating_add(1);
        let sessions = &self.world.sessions;
        let whose = (record.session, record.party.as_ref());
        let to: Vec<SessionId> = sessions
            .iter()
            .filter(|(session, listener)| may_hear(sessions, **session, listener, whose, policy.audience))
            .map(|(&session, _)| session)
            .collect();
        let latest = self.updates.latest.remove(&id);
        let count = latest.as_ref().map_or(1, |latest| latest.count.saturating_add(1));
        if let Some(latest) = latest {
            let told = latest.to.into_iter().filter(|session| sessions.contains_key(session));
            effects.extend(told.map(|session| withdrawn(session, latest.delivery)));
        }
        for session in &to {
            let Some(listener) = sessions.get(session) else { continue };
            let text = match about {
                About::Progress(progress) => self.world.sayer.progress(policy, &record, progress, listener.language),
                About::Waiting => self.world.sayer.waiting(policy, &record, listener.language),
            };
            effects.push(Effect::Tell { session: *session, news: News::Update { envelope: envelope.clone(), text } });
        }
        self.updates.latest.insert(id, Update { delivery: envelope.delivery, to, at: step.now, count });
    }
}

/// The least time between two updates of one operation: nobody wants to hear more often how far something is.
const BETWEEN_MS: u64 = 5_000;

/// Most updates of one operation: an hour of one every two minutes.
const UPDATES_MAX: u32 = 32;

/// How long an update is news: where the moment does not come in that time, it is dropped.
const FRESH_MS: u64 = 10_000;
