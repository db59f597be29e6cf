//! What waits for which transaction.
//!
//! Every change touches one batch, so every batch has a *lane*: at most one transaction in flight, and a queue of what is
//! asked meanwhile. When a lane is free, all that waits is applied to a draft of the batch, one after the other, up to what would
//! change an operation for the second time; the draft's difference from what is durable is one transaction, in which every
//! operation takes at most one edge of its states. Durable: the draft becomes the batch and what waited for it is told.
//! Failed: the draft is dropped, so memory never says more than the store; senders that can be refused are, and facts (an
//! executor's report, evidence, a seal) are tried again in their order, with back-off, one at a time. One that fails by itself
//! lets the others pass, so that none holds them up; what is about the same thing goes on to wait behind it.

use std::collections::{BTreeMap, VecDeque};

use super::batch::Batch;
use super::claim::Claim;
use super::delivery::Delivery;
use super::effect::{CancelRequest, Dispatch, Effect, Inquiry, LedgerMeasure, Write};
use super::input::CommitId;
use super::operation::{backoff_ms, jitter_ms};
use super::record::{DeliveryState, OperationRecord, OperationState, Route};
use super::work::{Outcome, Work};
use crate::faults::{Fault, fault};
use crate::ids::{BatchId, DeliveryId, OperationId, PartyId, SessionId};
use crate::time::{Step, Time};

/// The way to the store of one batch.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    /// What is durable; none before the first transaction is.
    pub batch: Option<Batch>,
    /// The batch that it is the way of, named before it is durable.
    name: Option<BatchId>,
    /// Operations that have been put in, durable or not.
    pub operations: usize,
    /// The conversation that its operations were asked in.
    pub session: SessionId,
    /// Whom they are done for, where that is known.
    pub party: Option<PartyId>,
    in_flight: Option<Transaction>,
    waiting: VecDeque<Work>,
    failures: u32,
    retry_at: Option<Time>,
}

/// A transaction that the store has not answered for.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    pub commit: CommitId,
    pub draft: Batch,
    pub parts: Vec<Part>,
}

/// One work, with what it came to.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub work: Work,
    pub outcome: Outcome,
}

impl Lane {
    pub fn new(session: SessionId, party: Option<PartyId>) -> Self {
        Self {
            batch: None,
            name: None,
            operations: 0,
            session,
            party,
            in_flight: None,
            waiting: VecDeque::new(),
            failures: 0,
            retry_at: None,
        }
    }

    /// Whether what can be refused must be refused: too much waits. What can't be is bounded by what it reports on.
    pub fn full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX
    }

    /// Puts work at the end of the queue. A fact that is told twice in a row is one.
    pub fn put(&mut self, work: Work) {
        if work.refusable() || self.waiting.back() != Some(&work) {
            self.waiting.push_back(work);
        }
    }

    /// Puts works back at the front of the queue: they go into the transaction after this one.
    pub fn put_back(&mut self, works: impl DoubleEndedIterator<Item = Work>) {
        for work in works.rev().filter(|work| !matches!(work, Work::Advance)) {
            self.waiting.push_front(work);
        }
    }

    /// The batch's name.
    pub fn name(&mut self, fresh: impl FnOnce() -> BatchId) -> BatchId {
        *self.name.get_or_insert_with(fresh)
    }

    /// Nothing more goes through it: what it was the way of, and what waits in it.
    pub fn end(self) -> (Option<Batch>, VecDeque<Work>) {
        (self.batch, self.waiting)
    }

    /// Whether a conversation has claimed something of it, or is about to: what ends with it is then told to the lane. So no more ends
    /// of conversations wait than claims do, which are refused where too much waits.
    pub fn claimed_by(&self, session: SessionId) -> bool {
        let mine = |delivery: &Delivery| delivery.claim.as_ref().is_some_and(|claim| claim.session == session);
        let draft = self.in_flight.as_ref().map(|transaction| &transaction.draft);
        self.batch.iter().chain(draft).any(|batch| batch.deliveries.iter().any(mine))
            || self.waiting.iter().any(|work| matches!(work, Work::Claim { session: of, .. } if *of == session))
    }

    /// Whether something waits that ends a delivery, whatever comes before it.
    fn will_end(&self, delivery: DeliveryId) -> bool {
        self.waiting.iter().any(|work| match work {
            Work::Obsolete { .. } => true,
            Work::Suppress { delivery: of } => *of == delivery,
            _ => false,
        })
    }

    /// Whether a claim stands that has just become durable. It does not where it was never granted, or was given back or ended in the
    /// same transaction; nor where the delivery has become stale or obsolete meanwhile: this is when that is judged.
    pub fn claim_stands(&mut self, delivery: DeliveryId, is_it: impl Fn(&Claim) -> bool, step: &Step) -> bool {
        let of_batch = self.batch.iter().flat_map(|batch| &batch.deliveries);
        let mut held = of_batch.filter(|found| found.record.id == delivery && found.claim.as_ref().is_some_and(&is_it));
        let Some(found) = held.next() else { return false };
        if found.stale(step) {
            self.put(Work::Suppress { delivery });
            return false;
        }
        !self.will_end(delivery)
    }

    /// Whatever an executor says of an operation from now on, its tool says that it took effect, and that is not on record (R2).
    pub fn may_have_executed(&mut self, operation: OperationId) {
        let draft = self.in_flight.as_mut().map(|transaction| &mut transaction.draft);
        for batch in self.batch.iter_mut().chain(draft) {
            if let Some(found) = batch.operation(operation).filter(|found| !found.record.state.settled()) {
                found.cut_off = true;
            }
        }
    }

    pub fn idle(&self) -> bool {
        self.in_flight.is_none() && self.waiting.is_empty()
    }

    /// What goes into the next transaction; nothing while one is in flight.
    pub fn next(&mut self, step: &Step) -> Vec<Work> {
        let restless = self.batch.as_ref().is_some_and(|batch| batch.restless(step));
        let rested = self.retry_at.is_none_or(|at| step.now >= at);
        if self.in_flight.is_some() {
            return Vec::new();
        }
        if self.waiting.is_empty() && !restless {
            if rested {
                self.succeeded();
            }
            return Vec::new();
        }
        if self.failures == 0 {
            return self.waiting.drain(..).chain([Work::Advance]).collect();
        }
        // After a failure one at a time. A sender who waits is tried at once: its answer must not wait out a back-off.
        // Facts and the passing of time take turns: a fact that the store never takes must not stop a deadline.
        let fact = rested && !self.waiting.is_empty() && (self.failures % 2 == 1 || !restless);
        let place = self.waiting.iter().position(Work::refusable).or_else(|| fact.then_some(0));
        match place.and_then(|place| self.waiting.remove(place)) {
            Some(work) => vec![work],
            None if rested && restless => vec![Work::Advance],
            None => Vec::new(),
        }
    }

    pub fn begin(&mut self, commit: CommitId, draft: Batch, parts: Vec<Part>) {
        assert!(self.in_flight.is_none(), "one transaction at a time for {}", draft.record.id);
        self.in_flight = Some(Transaction { commit, draft, parts });
    }

    /// The store has answered for this transaction.
    pub fn answered(&mut self, commit: CommitId) -> Option<Transaction> {
        self.in_flight.take_if(|transaction| transaction.commit == commit)
    }

    /// The store works.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.retry_at = None;
    }

    /// Nothing had to be written.
    pub fn rest(&mut self) {
        if self.waiting.is_empty() {
            self.succeeded();
        }
    }

    /// It does not. Facts keep their place before what has come meanwhile: the end of a call must not overtake what was heard in
    /// it. A fact that failed `alone` lets pass what does not depend on it.
    pub fn failed(&mut self, facts: Vec<Work>, alone: bool, step: &mut Step) {
        let wait = backoff_ms(COMMIT_BACKOFF_MS, self.failures, COMMIT_BACKOFF_MS_MAX);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(step.now.plus(wait).plus(jitter_ms(wait / 2, &mut step.ids)));
        match facts.as_slice() {
            [fact] if alone => {
                let ordered = self.failures < ORDERED_FAILURES_MAX;
                let (behind, free): (VecDeque<Work>, VecDeque<Work>) =
                    self.waiting.drain(..).partition(|work| ordered && work.depends_on(fact));
                self.waiting = free;
                self.waiting.push_back(fact.clone());
                self.waiting.extend(behind);
            }
            _ => self.put_back(facts.into_iter()),
        }
    }

    /// When the lane wants to be woken: never while the store owes it an answer.
    pub fn due(&self) -> Option<Time> {
        if self.in_flight.is_some() {
            return None;
        }
        // After a failure the next try is due whatever waits for it: not everything that time changes has a timer.
        self.retry_at.or_else(|| self.batch.as_ref().and_then(Batch::due))
    }
}

/// Drops from a draft what was made and replaced within it: nobody has seen it. What it had replaced is replaced by what took its
/// place.
pub(super) fn drop_unseen(durable: Option<&Batch>, draft: &mut Batch) {
    let unseen = |delivery: &Delivery| delivery.record.state == DeliveryState::Superseded && before(durable, delivery).is_none();
    let dropped: BTreeMap<DeliveryId, Option<DeliveryId>> =
        draft.deliveries.iter().filter(|delivery| unseen(delivery)).map(|gone| (gone.record.id, gone.record.superseded_by)).collect();
    draft.deliveries.retain(|delivery| !dropped.contains_key(&delivery.record.id));
    for delivery in &mut draft.deliveries {
        // Each took the place of an earlier one: there is no circle.
        while let Some(next) = delivery.record.superseded_by.and_then(|by| dropped.get(&by)) {
            delivery.record.superseded_by = *next;
        }
    }
}

/// The writes that make the draft durable: created before changed, parts before the batch.
pub(super) fn writes(durable: Option<&Batch>, draft: &Batch) -> Vec<Write> {
    let mut writes = Vec::new();
    if durable.is_none() {
        writes.push(Write::CreateBatch(draft.record.clone()));
    }
    for operation in &draft.operations {
        let old = durable.and_then(|batch| batch.operations.iter().find(|old| old.record.id == operation.record.id));
        match old {
            None => writes.push(Write::CreateOperation(operation.record.clone())),
            Some(old) if old.record != operation.record => writes.push(Write::UpdateOperation(operation.record.clone())),
            Some(_) => {}
        }
    }
    let created = draft.deliveries.iter().filter(|delivery| before(durable, delivery).is_none());
    writes.extend(created.map(|delivery| Write::CreateDelivery(delivery.record.clone())));
    for delivery in &draft.deliveries {
        let Some(old) = before(durable, delivery) else { continue };
        if old.record != delivery.record {
            writes.push(Write::UpdateDelivery(delivery.record.clone()));
        }
        let owner = |delivery: &Delivery| delivery.claim.as_ref().map(|claim| (claim.session, claim.boot, claim.route));
        if owner(old) != owner(delivery) {
            if old.claim.is_some() && !fault(Fault::ClaimNeverEnds) {
                writes.push(Write::Unclaim { delivery: delivery.record.id });
            }
            if let Some((session, boot, route)) = owner(delivery).filter(|_| !fault(Fault::ClaimForgotten)) {
                writes.push(Write::Claim { delivery: delivery.record.id, session, boot, route });
            }
        }
    }
    if durable.is_some_and(|batch| batch.record != draft.record) {
        writes.push(Write::UpdateBatch(draft.record.clone()));
    }
    writes
}

/// What follows from the difference that has become durable: attempts leave (R2), measures are known.
pub(super) fn follow_up(old: Option<&Batch>, new: &Batch, step: &Step, effects: &mut Vec<Effect>) {
    for operation in &new.operations {
        let record = &operation.record;
        let before = old.and_then(|batch| batch.operations.iter().find(|before| before.record.id == record.id));
        if record.state == OperationState::Running && before.map_or(0, |before| before.record.attempt) < record.attempt {
            let accepted = operation.accepted_at.filter(|_| record.attempt == 1);
            effects.extend(accepted.map(|at| Effect::Measured(LedgerMeasure::AcceptToStartMs(step.now.since(at)))));
            effects.push(Effect::Dispatch(Dispatch {
                operation: record.id,
                attempt: record.attempt,
                tool: record.tool.clone(),
                arguments: record.arguments.clone(),
                intent_key: record.intent_key.clone(),
            }));
        }
        if operation.cancel.asked > before.map_or(0, |before| before.cancel.asked) {
            effects.push(cancel_request(record, operation.cancel.asked));
        }
        if operation.inquiries.asked > before.map_or(0, |before| before.inquiries.asked) {
            effects.push(Effect::Inquire(Inquiry {
                operation: record.id,
                request: operation.inquiries.asked,
                attempt: record.attempt,
                tool: record.tool.clone(),
                arguments: record.arguments.clone(),
                intent_key: record.intent_key.clone(),
                handle: record.handle.clone(),
            }));
        }
        let ended = record.state.settled() && !before.is_some_and(|before| before.record.state.settled());
        if ended {
            effects.push(Effect::Measured(LedgerMeasure::OperationSettled));
        }
        if let (true, Some(from), Some(to)) = (ended, operation.accepted_at, operation.settled_at) {
            effects.push(Effect::Measured(LedgerMeasure::OperationDurationMs(to.since(from))));
        }
    }
    for delivery in &new.deliveries {
        let before = old.and_then(|batch| batch.deliveries.iter().find(|before| before.record.id == delivery.record.id));
        if before.is_none()
            && let Some(at) = new.operations.iter().filter_map(|operation| operation.settled_at).max()
        {
            effects.push(Effect::Measured(LedgerMeasure::CompleteToDeliveryReadyMs(step.now.since(at))));
        }
        // A doubt that was there before the claim is not counted again.
        let doubted = |delivery: &Delivery| {
            delivery.record.state == DeliveryState::Uncertain || delivery.claim.as_ref().is_some_and(|claim| claim.doubted)
        };
        let state = delivery.record.state;
        let measure = match state {
            DeliveryState::Spoken => LedgerMeasure::Spoken,
            DeliveryState::Suppressed => LedgerMeasure::Suppressed,
            DeliveryState::HandedOff => LedgerMeasure::HandedOff,
            DeliveryState::Uncertain if !before.is_some_and(doubted) => LedgerMeasure::Uncertain,
            _ => continue,
        };
        if before.is_none_or(|before| before.record.state != state) {
            effects.push(Effect::Measured(measure));
            if state == DeliveryState::Spoken && delivery.route == Some(Route::Ride) {
                effects.push(Effect::Measured(LedgerMeasure::NextTurnResync));
            }
        }
    }
}

/// What a fault lets out before it is durable that an operation is to be cancelled.
pub(super) fn cancels_too_early(durable: Option<&Batch>, draft: &Batch) -> Vec<Effect> {
    let known = |record: &OperationRecord| durable.is_some_and(|batch| batch.operations.iter().any(|old| old.record == *record));
    let records = draft.operations.iter().map(|operation| &operation.record);
    records.filter(|record| record.state == OperationState::Cancelling && !known(record)).map(|record| cancel_request(record, 1)).collect()
}

fn cancel_request(record: &OperationRecord, request: u32) -> Effect {
    Effect::Cancel(CancelRequest {
        operation: record.id,
        request,
        tool: record.tool.clone(),
        arguments: record.arguments.clone(),
        intent_key: record.intent_key.clone(),
        handle: record.handle.clone(),
    })
}

fn before<'a>(durable: Option<&'a Batch>, delivery: &Delivery) -> Option<&'a Delivery> {
    durable.and_then(|batch| batch.deliveries.iter().find(|old| old.record.id == delivery.record.id))
}

/// What may wait for one batch: beyond it senders are refused. A batch has a few operations, and each a few senders.
const WAITING_MAX: usize = 64;

/// Wait after the first failed transaction; doubles, with jitter of up to a half. A busy disk is over in less.
const COMMIT_BACKOFF_MS: u64 = 250;

/// Longest wait between two tries: a disk that comes back is noticed within half a minute.
const COMMIT_BACKOFF_MS_MAX: u64 = 20_000;

/// Failed tries in a row after which a fact is overtaken also by what depends on it: about half an hour with the longest wait. A
/// full disk has been seen to by then; a fact that is refused for itself must not hold its delivery for ever.
const ORDERED_FAILURES_MAX: u32 = 64;
