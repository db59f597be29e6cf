//! The machine: every input finds the batch that it is about, and what is durable is told.

use std::collections::{BTreeMap, VecDeque};

use super::batch::{Batch, OPERATIONS_MAX};
use super::commit::{Lane, Part, Transaction, drop_unseen, writes};
use super::effect::{CallbackAnswer, Dispatch, Effect, LedgerMeasure, News};
use super::input::{CommitId, Input, OperationResult, RequestId};
use super::intent::{Intents, Judgement, base, split};
use super::record::{DeliveryRecord, DeliveryState, OperationState};
use super::say::{Sayer, Standing};
use super::session::{Listener, Offers, may_hear};
use super::work::{Ask, Work, accepted_again, answer_closed, claim_refused, refused};
use crate::ids::{BatchId, BootId, DeliveryId, IntentKey, OperationId, ResponseId, SessionId};
use crate::policy::ToolPolicy;
use crate::time::{Step, Time};

/// Operations, batches, deliveries and claims of one box.
#[derive(Debug)]
pub struct Ledger {
    pub(super) world: World,
    /// By a number that grows: the order is that of acceptance.
    pub(super) lanes: BTreeMap<u64, Lane>,
    pub(super) next_lane: u64,
    pub(super) by_operation: BTreeMap<OperationId, u64>,
    pub(super) by_delivery: BTreeMap<DeliveryId, u64>,
    pub(super) intents: Intents,
    pub(super) next_sequence: u64,
    by_commit: BTreeMap<CommitId, u64>,
    next_commit: u64,
    /// The lane that takes the operations of a response.
    open: BTreeMap<(SessionId, ResponseId), u64>,
    offers: Offers,
    /// Lanes with nothing left to be told that are kept because an operation is `Unknown`, oldest first.
    retained: VecDeque<u64>,
    /// Requests that are asked again from the start: what they repeated is gone.
    again: VecDeque<Ask>,
}

/// What every batch's changes are judged by.
#[derive(Debug)]
pub(super) struct World {
    pub boot: BootId,
    pub sayer: Sayer,
    pub sessions: BTreeMap<SessionId, Listener>,
    policies: BTreeMap<String, ToolPolicy>,
    fallback: ToolPolicy,
}

impl World {
    pub fn new(boot: BootId, policies: BTreeMap<String, ToolPolicy>) -> Self {
        Self { boot, sayer: Sayer::new(), sessions: BTreeMap::new(), policies, fallback: ToolPolicy::default() }
    }

    /// A tool that is configured.
    pub fn tool(&self, name: &str) -> Option<&ToolPolicy> {
        self.policies.get(name)
    }

    /// The policy to judge an operation by: the default one, which is the careful one, where its tool is gone.
    pub fn policy(&self, name: &str) -> &ToolPolicy {
        self.policies.get(name).unwrap_or(&self.fallback)
    }

    pub fn may_hear(&self, session: SessionId, listener: &Listener, record: &DeliveryRecord) -> bool {
        may_hear(&self.sessions, session, listener, record)
    }
}

impl Ledger {
    pub(super) fn new(world: World, occurrence_floor: u32) -> Self {
        Self {
            world,
            lanes: BTreeMap::new(),
            next_lane: 0,
            by_operation: BTreeMap::new(),
            by_delivery: BTreeMap::new(),
            intents: Intents::new(occurrence_floor),
            next_sequence: 0,
            by_commit: BTreeMap::new(),
            next_commit: 0,
            open: BTreeMap::new(),
            offers: Offers::default(),
            retained: VecDeque::new(),
            again: VecDeque::new(),
        }
    }

    /// Takes one input; the effects are to be carried out in order, before the next input.
    pub fn handle(&mut self, step: &mut Step, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.take(step, input, &mut effects);
        while let Some(ask) = self.again.pop_front() {
            self.accept(ask, step, &mut effects);
        }
        effects
    }

    /// When [`Input::Wake`] is wanted.
    pub fn deadline(&self) -> Option<Time> {
        self.lanes.values().filter_map(Lane::due).min()
    }

    fn take(&mut self, step: &mut Step, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::SessionUp { session, party, language } => {
                match self.world.sessions.get_mut(&session) {
                    Some(listener) => (listener.party, listener.language) = (party, language),
                    None => {
                        self.world.sessions.insert(session, Listener::new(party, language));
                    }
                }
                self.pump_all(step, effects);
                self.offer_all(step, effects);
            }
            Input::SessionOver { session } => self.over(session, step, effects),
            Input::Accept { session, turn, response, call } => {
                let Some(listener) = self.world.sessions.get(&session) else { return };
                let (party, language) = (listener.party.clone(), listener.language);
                self.accept(Ask { session, party, language, turn, response, call }, step, effects);
            }
            Input::Seal { session, response } => {
                if let Some(listener) = self.world.sessions.get_mut(&session) {
                    listener.seal(response);
                }
                if let Some(lane) = self.open.remove(&(session, response)) {
                    self.seal(lane, step, effects);
                }
            }
            Input::Cancel { session, tool } => self.cancel(session, tool.as_ref(), step, effects),
            Input::Attempted { operation, attempt, outcome } => {
                if let Some(&lane) = self.by_operation.get(&operation) {
                    self.put(lane, Work::Attempted { operation, attempt, outcome }, step, effects);
                }
            }
            Input::Callback { request, operation, result } => self.callback(request, operation, result, step, effects),
            Input::Claim { session, delivery, route } => match self.by_delivery.get(&delivery) {
                Some(&lane) => self.put(lane, Work::Claim { session, delivery, route }, step, effects),
                None => self.emit(claim_refused(session, delivery), effects),
            },
            Input::Release { session, delivery } => self.about(delivery, Work::Release { session, delivery }, step, effects),
            Input::FirstFrame { session, delivery } => self.about(delivery, Work::FirstFrame { session, delivery }, step, effects),
            Input::Settled { session, delivery, clauses } => {
                self.about(delivery, Work::Settled { session, delivery, clauses }, step, effects)
            }
            Input::Suppress { delivery } => self.about(delivery, Work::Suppress { delivery }, step, effects),
            Input::Durable(commit) => {
                if let Some((number, transaction)) = self.answered(commit) {
                    if let Some(lane) = self.lanes.get_mut(&number) {
                        lane.succeeded();
                    }
                    self.settle(number, transaction.draft, transaction.parts, step, effects);
                    self.pump(number, step, effects);
                }
            }
            Input::CommitFailed { commit, reason } => {
                if let Some((number, transaction)) = self.answered(commit) {
                    self.failed(number, transaction.parts, &reason, step, effects);
                    self.pump(number, step, effects);
                }
            }
            Input::Wake => self.pump_all(step, effects),
        }
    }

    fn accept(&mut self, ask: Ask, step: &mut Step, effects: &mut Vec<Effect>) {
        let Some(policy) = self.world.tool(&ask.call.tool) else {
            self.emit(refused(&ask, "no tool of this name is configured", &self.world), effects);
            return;
        };
        let base = base(ask.party.as_ref(), ask.session, &ask.call.tool, policy, &ask.call.arguments);
        match self.intents.judge(&base, ask.turn) {
            Judgement::Live(known) => {
                let (lane, operation) = (known.lane, known.operation);
                self.put(lane, Work::Repeat { ask, operation }, step, effects);
            }
            Judgement::Told(known) => {
                let told = accepted_again(&ask, known.operation, known.batch, Standing::Told, &self.world);
                self.emit(told, effects);
            }
            Judgement::New(occurrence) => self.create(ask, base, occurrence, step, effects),
        }
    }

    fn create(&mut self, ask: Ask, base: String, occurrence: u32, step: &mut Step, effects: &mut Vec<Effect>) {
        if self.by_operation.len() >= OPERATIONS_HELD_MAX {
            self.emit(refused(&ask, "too many operations are held", &self.world), effects);
            return;
        }
        let of = (ask.session, ask.response);
        let number = match self.open.get(&of) {
            Some(&number) => number,
            None => {
                let number = self.next_lane;
                self.next_lane = self.next_lane.saturating_add(1);
                self.lanes.insert(number, Lane::new(ask.session, ask.party.clone()));
                self.open.insert(of, number);
                number
            }
        };
        let Some(lane) = self.lanes.get_mut(&number) else { return };
        if lane.operations >= OPERATIONS_MAX {
            self.emit(refused(&ask, "one response asks for too many operations", &self.world), effects);
            return;
        }
        lane.operations += 1;
        let batch = lane.name(|| BatchId(step.ids.draw()));
        let operation = OperationId(step.ids.draw());
        let key = IntentKey(format!("{base}|{occurrence}"));
        let late = self.world.sessions.get(&ask.session).is_none_or(|listener| listener.sealed(ask.response));
        self.by_operation.insert(operation, number);
        self.intents.open(base, operation, batch, number, ask.turn, occurrence);
        self.put(number, Work::Accept { ask, batch, operation, key }, step, effects);
        if late && let Some(number) = self.open.remove(&of) {
            self.seal(number, step, effects);
        }
    }

    fn seal(&mut self, number: u64, step: &mut Step, effects: &mut Vec<Effect>) {
        self.put(number, Work::Seal, step, effects);
    }

    /// The caller's operations: the party's where it is known, otherwise the conversation's.
    fn cancel(&mut self, session: SessionId, tool: Option<&String>, step: &mut Step, effects: &mut Vec<Effect>) {
        let party = self.world.sessions.get(&session).and_then(|listener| listener.party.clone());
        let theirs = |lane: &Lane| lane.session == session || (party.is_some() && lane.party == party);
        let lanes: Vec<u64> = self.lanes.iter().filter(|(_, lane)| theirs(lane)).map(|(&number, _)| number).collect();
        for number in lanes {
            self.put(number, Work::Cancel { tool: tool.cloned() }, step, effects);
        }
    }

    fn callback(
        &mut self,
        request: RequestId,
        operation: OperationId,
        result: OperationResult,
        step: &mut Step,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(&lane) = self.by_operation.get(&operation) {
            self.put(lane, Work::Callback { request, operation, result }, step, effects);
        } else if let Some(closed) = self.intents.closed(operation) {
            effects.extend(answer_closed(request, closed.digest, closed.state, &result));
        } else {
            effects.push(Effect::Answer { request, answer: CallbackAnswer::Unknown });
        }
    }

    fn over(&mut self, session: SessionId, step: &mut Step, effects: &mut Vec<Effect>) {
        self.world.sessions.remove(&session);
        // Its responses are over with it.
        let open: Vec<(SessionId, ResponseId)> = self.open.keys().filter(|(of, _)| *of == session).copied().collect();
        for of in open {
            if let Some(number) = self.open.remove(&of) {
                self.seal(number, step, effects);
            }
        }
        let has = |lane: &Lane| {
            let claims = |batch: &Batch| {
                batch.deliveries.iter().any(|delivery| delivery.claim.as_ref().is_some_and(|claim| claim.session == session))
            };
            lane.busy() || lane.batch.as_ref().is_some_and(claims)
        };
        let lanes: Vec<u64> = self.lanes.iter().filter(|(_, lane)| has(lane)).map(|(&number, _)| number).collect();
        for number in lanes {
            self.put(number, Work::Lost { session }, step, effects);
        }
        self.offer_all(step, effects);
    }

    fn about(&mut self, delivery: DeliveryId, work: Work, step: &mut Step, effects: &mut Vec<Effect>) {
        if let Some(&lane) = self.by_delivery.get(&delivery) {
            self.put(lane, work, step, effects);
        }
    }

    fn put(&mut self, number: u64, work: Work, step: &mut Step, effects: &mut Vec<Effect>) {
        match self.lanes.get_mut(&number) {
            Some(lane) if !lane.full() || !work.refusable() => {
                lane.put(work);
                self.pump(number, step, effects);
            }
            _ => self.refuse(number, &work, "too much waits for the store", effects),
        }
    }

    fn pump_all(&mut self, step: &mut Step, effects: &mut Vec<Effect>) {
        for number in self.lanes.keys().copied().collect::<Vec<u64>>() {
            self.pump(number, step, effects);
        }
    }

    /// Conversations have come or gone: offers in the order of the deliveries' sequence, over all batches.
    fn offer_all(&mut self, step: &Step, effects: &mut Vec<Effect>) {
        let mut news = Vec::new();
        for batch in self.lanes.values().filter_map(|lane| lane.batch.as_ref()) {
            self.offers.renew(batch, &self.world.sessions, step, &mut news);
        }
        news.sort_by_key(|effect| match effect {
            Effect::Tell { news: News::Offered(envelope), .. } => Some(envelope.sequence),
            _ => None,
        });
        effects.extend(news);
    }

    /// Lets a lane do what it can: until a transaction is in flight, or nothing is left to do.
    pub(super) fn pump(&mut self, number: u64, step: &mut Step, effects: &mut Vec<Effect>) {
        while let Some(lane) = self.lanes.get_mut(&number) {
            let works = lane.next(step);
            if works.is_empty() {
                break;
            }
            let mut draft = lane.batch.clone();
            let mut parts = Vec::with_capacity(works.len());
            let mut works = works.into_iter();
            while let Some(work) = works.next() {
                if work.must_wait(draft.as_ref(), lane.batch.as_ref()) {
                    lane.put_back(std::iter::once(work).chain(works));
                    break;
                }
                let outcome = work.apply(&mut draft, lane.batch.as_ref(), &self.world, step, &mut self.next_sequence);
                parts.push(Part { work, outcome });
            }
            let Some(mut draft) = draft else {
                // Nothing was ever accepted here; what was asked of it has nothing to be done.
                self.again.extend(parts.into_iter().filter_map(|part| part.outcome.bounced));
                continue;
            };
            let before = lane.batch.as_ref().map(|batch| batch.record.state);
            draft.follow(before, &self.world, step, &mut self.next_sequence);
            drop_unseen(lane.batch.as_ref(), &mut draft);
            let writes = writes(lane.batch.as_ref(), &draft);
            if writes.is_empty() {
                lane.rest();
                self.settle(number, draft, parts, step, effects);
                continue;
            }
            let commit = CommitId(self.next_commit);
            self.next_commit = self.next_commit.saturating_add(1);
            lane.begin(commit, draft, parts);
            self.by_commit.insert(commit, number);
            effects.push(Effect::Persist { commit, writes });
        }
        self.tidy(number);
    }

    fn answered(&mut self, commit: CommitId) -> Option<(u64, Transaction)> {
        let number = self.by_commit.remove(&commit)?;
        Some((number, self.lanes.get_mut(&number)?.answered(commit)?))
    }

    /// A draft is durable: it becomes the batch, and what waited for it happens.
    fn settle(&mut self, number: u64, draft: Batch, parts: Vec<Part>, step: &mut Step, effects: &mut Vec<Effect>) {
        let Some(lane) = self.lanes.get_mut(&number) else { return };
        let old = lane.batch.replace(draft);
        let mut told = Vec::new();
        for part in parts {
            self.again.extend(part.outcome.bounced);
            match part.work {
                Work::Claim { session, delivery, .. } => {
                    let held = lane
                        .batch
                        .as_mut()
                        .and_then(|batch| batch.delivery(delivery))
                        .filter(|found| found.claim.as_ref().is_some_and(|claim| claim.session == session));
                    // Given back in the same transaction, or never granted; or it has become stale while the claim was being
                    // committed, which is when that is judged.
                    let stale = held.as_ref().is_some_and(|found| found.stale(step));
                    if held.is_some() && !stale {
                        told.extend(part.outcome.then);
                    } else {
                        told.push(claim_refused(session, delivery));
                    }
                    if stale {
                        lane.put(Work::Suppress { delivery });
                    }
                }
                _ => told.extend(part.outcome.then),
            }
        }
        for effect in told {
            self.emit(effect, effects);
        }
        let Some(new) = self.lanes.get(&number).and_then(|lane| lane.batch.as_ref()) else { return };
        follow_up(old.as_ref(), new, step, effects);
        for delivery in &new.deliveries {
            self.by_delivery.insert(delivery.record.id, number);
        }
        if new.closed() {
            new.operations.iter().for_each(|operation| self.intents.close(&operation.record));
        }
        self.offers.renew(new, &self.world.sessions, step, effects);
    }

    /// A draft was not kept: senders are told, facts are kept for another try.
    fn failed(&mut self, number: u64, parts: Vec<Part>, reason: &str, step: &mut Step, effects: &mut Vec<Effect>) {
        let mut facts = Vec::new();
        for part in parts {
            match part.work {
                Work::Advance => {}
                // It did not fail for itself: what it repeats may be gone, or may be there after all.
                Work::Repeat { ask, .. } => self.again.push_back(ask),
                work if work.refusable() => self.refuse(number, &work, reason, effects),
                work => facts.push(work),
            }
        }
        if let Some(lane) = self.lanes.get_mut(&number) {
            lane.failed(facts, step);
        }
    }

    fn refuse(&mut self, number: u64, work: &Work, reason: &str, effects: &mut Vec<Effect>) {
        if let Some(effect) = work.refusal(reason, &self.world) {
            self.emit(effect, effects);
        }
        if let Work::Accept { operation, key, .. } = work {
            self.by_operation.remove(operation);
            if let Some((base, _)) = split(key) {
                self.intents.retract(base, *operation);
            }
            if let Some(lane) = self.lanes.get_mut(&number) {
                lane.operations = lane.operations.saturating_sub(1);
            }
        }
    }

    /// Lets go of a lane that has nothing left to do.
    fn tidy(&mut self, number: u64) {
        let Some(lane) = self.lanes.get(&number).filter(|lane| lane.idle()) else { return };
        match &lane.batch {
            None => {
                self.lanes.remove(&number);
                self.open.retain(|_, open| *open != number);
            }
            Some(batch) if batch.finished() => self.retire(number),
            Some(batch) if batch.quiet() && !self.retained.contains(&number) => {
                self.retained.push_back(number);
                if self.retained.len() > RETAINED_MAX
                    && let Some(oldest) = self.retained.pop_front()
                    && self.lanes.get(&oldest).is_some_and(|lane| lane.idle() && lane.batch.as_ref().is_some_and(Batch::quiet))
                {
                    self.retire(oldest);
                }
            }
            Some(_) => {}
        }
    }

    fn retire(&mut self, number: u64) {
        let Some(batch) = self.lanes.remove(&number).and_then(|lane| lane.batch) else { return };
        for operation in &batch.operations {
            self.by_operation.remove(&operation.record.id);
            self.intents.retire(&operation.record);
        }
        for delivery in &batch.deliveries {
            self.by_delivery.remove(&delivery.record.id);
            self.offers.forget(delivery.record.id);
        }
        self.retained.retain(|&retained| retained != number);
    }

    /// What is told to a conversation that is over is told to nobody.
    fn emit(&self, effect: Effect, effects: &mut Vec<Effect>) {
        match &effect {
            Effect::Tell { session, .. } if !self.world.sessions.contains_key(session) => {}
            _ => effects.push(effect),
        }
    }
}

/// What follows from the difference that has become durable: attempts leave (R2), measures are known.
fn follow_up(old: Option<&Batch>, new: &Batch, step: &Step, effects: &mut Vec<Effect>) {
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
        let ended = record.state.settled() && !before.is_some_and(|before| before.record.state.settled());
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
        let doubted = |delivery: &super::delivery::Delivery| {
            delivery.record.state == DeliveryState::Uncertain || delivery.claim.as_ref().is_some_and(|claim| claim.doubted)
        };
        let state = delivery.record.state;
        let measure = match state {
            DeliveryState::Spoken => LedgerMeasure::Spoken,
            DeliveryState::Suppressed => LedgerMeasure::Suppressed,
            DeliveryState::Uncertain if !before.is_some_and(doubted) => LedgerMeasure::Uncertain,
            _ => continue,
        };
        if before.is_none_or(|before| before.record.state != state) {
            effects.push(Effect::Measured(measure));
        }
    }
}

/// Operations held in memory, told or not: beyond it new ones are refused. At about 3 kB each, 30 MB.
const OPERATIONS_HELD_MAX: usize = 10_000;

/// Batches that are kept after their closing because an operation of theirs is `Unknown` and may still be reconciled.
const RETAINED_MAX: usize = 1_000;
