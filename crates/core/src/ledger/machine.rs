//! The machine: every input finds the batch that it is about, and what is durable is told.

use std::collections::{BTreeMap, VecDeque};

use super::batch::{Batch, OPERATIONS_MAX};
use super::commit::{Lane, Part, Transaction, cancels_too_early, drop_unseen, follow_up, writes};
use super::due::Due;
use super::effect::{CallbackAnswer, Effect, News};
use super::hand_off::HandOffs;
use super::input::{CommitId, HandOffOutcome, Input, OperationResult, RequestId, Standing};
use super::intent::{Intents, Judgement, Origin, Rules, base, split};
use super::progress::Updates;
use super::reach::Outages;
use super::record::{DeliveryRecord, Route};
use super::retain::{OPERATIONS_HELD_HIGH, OPERATIONS_HELD_MAX};
use super::say::Sayer;
use super::session::{Listener, Offers, may_hear};
use super::topics::Topics;
use super::wish::{Cancelled, Meant, Wishes};
use super::work::{Ask, Work, accepted_again, answer_closed, claim_refused, refused};
use crate::faults::{Fault, fault};
use crate::ids::{BatchId, BootId, DeliveryId, IntentKey, OperationId, ResponseId, SessionId};
use crate::policy::ToolPolicy;
use crate::time::{Step, Time};

/// Operations, batches, deliveries and claims of one box. A clone goes its own way: what may happen next can be tried out.
#[derive(Debug, Clone)]
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
    pub(super) open: BTreeMap<(SessionId, ResponseId), u64>,
    pub(super) offers: Offers,
    /// Lanes that are dormant and kept for a while, oldest first.
    pub(super) retained: VecDeque<u64>,
    /// Requests that are asked again from the start: what they repeated is gone.
    pub(super) again: VecDeque<Ask>,
    pub(super) topics: Topics,
    pub(super) updates: Updates,
    pub(super) hand_offs: HandOffs,
    pub(super) wishes: Wishes,
    /// Operations that wait for the end of the one that they replace, by that one.
    pub(super) replacements: BTreeMap<OperationId, OperationId>,
    /// When each lane wants to be woken.
    pub(super) due: Due,
}

/// What every batch's changes are judged by.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub boot: BootId,
    pub sayer: Sayer,
    pub sessions: BTreeMap<SessionId, Listener>,
    /// Tools whose place can't be reached.
    pub out_of_reach: Outages,
    policies: BTreeMap<String, ToolPolicy>,
    fallback: ToolPolicy,
}

impl World {
    pub fn new(boot: BootId, policies: BTreeMap<String, ToolPolicy>) -> Self {
        Self {
            boot,
            sayer: Sayer::new(),
            sessions: BTreeMap::new(),
            out_of_reach: Outages::new(),
            policies,
            fallback: ToolPolicy::default(),
        }
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
        may_hear(&self.sessions, session, listener, (record.session, record.party.as_ref()), record.audience)
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
            topics: Topics::default(),
            updates: Updates::default(),
            hand_offs: HandOffs::default(),
            wishes: Wishes::default(),
            replacements: BTreeMap::new(),
            due: Due::default(),
        }
    }

    /// Takes one input, at a time not before the last one's; the effects are to be carried out in order, before the next input.
    pub fn handle(&mut self, step: &mut Step, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.take(step, input, &mut effects);
        while let Some(mut ask) = self.again.pop_front() {
            ask.tries += 1;
            if ask.tries > TRIES_MAX {
                self.emit(refused(&ask, "what it repeats keeps changing", &self.world), &mut effects);
            } else {
                self.accept(ask, step, &mut effects);
            }
        }
        effects
    }

    /// When [`Input::Wake`] is wanted.
    pub fn deadline(&self) -> Option<Time> {
        self.due.next().into_iter().chain(self.hand_offs.due()).min()
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
                self.list_work(session, false, step, effects);
            }
            Input::SessionOver { session } => self.over(session, step, effects),
            Input::Accept { session, turn, response, call } => {
                let Some(listener) = self.world.sessions.get(&session) else { return };
                let (party, language) = (listener.party.clone(), listener.language);
                self.accept(Ask { session, party, language, turn, response, call, tries: 0 }, step, effects);
            }
            Input::Seal { .. } if fault(Fault::SealForgotten) => {}
            Input::Seal { session, response } => {
                if let Some(listener) = self.world.sessions.get_mut(&session) {
                    listener.seal(response);
                }
                if let Some(lane) = self.open.remove(&(session, response)) {
                    self.put(lane, Work::Seal, step, effects);
                }
            }
            Input::ReadBackHeard { session, read_back, turn } => self.consents(session, |consents| consents.heard(read_back, turn)),
            Input::ReadBackOver { session, read_back } => self.consents(session, |consents| consents.over(read_back)),
            Input::Cancel { session, tool, operation, verified } => {
                let meant = Meant { tool, operation, withheld_from: (!verified).then_some(session) };
                self.cancel(session, &meant, step, effects);
            }
            Input::ListWork { session } => self.list_work(session, true, step, effects),
            Input::Attempted { operation, attempt, outcome } => {
                self.is_within_reach(operation, &outcome, step, effects);
                if let Some(&lane) = self.by_operation.get(&operation) {
                    self.put(lane, Work::Attempted { operation, attempt, outcome }, step, effects);
                }
            }
            Input::CancelAttempted { operation, request, outcome } => {
                if let Some(&lane) = self.by_operation.get(&operation) {
                    self.put(lane, Work::CancelAttempted { operation, request, outcome }, step, effects);
                }
            }
            Input::Inquired { operation, request, outcome } => {
                if let Some(&lane) = self.by_operation.get(&operation) {
                    self.put(lane, Work::Inquired { operation, request, outcome }, step, effects);
                }
            }
            Input::Progress { request, operation, progress } => self.progress(request, operation, &progress, step, effects),
            Input::Retract { request, operation } => match self.by_operation.get(&operation) {
                Some(&lane) => self.put(lane, Work::Retract { request, operation }, step, effects),
                None => {
                    let known = self.intents.closed(operation).is_some();
                    let answer = if known { CallbackAnswer::Over } else { CallbackAnswer::Unknown };
                    effects.push(Effect::Answer { request, answer });
                }
            },
            Input::HandOffAttempted { delivery, outcome } => {
                if let HandOffOutcome::Failed { retry_after_ms, .. } = &outcome {
                    self.hand_offs.again(delivery, *retry_after_ms, step.now);
                }
                self.about(delivery, Work::HandOffAttempted { delivery, outcome }, step, effects);
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
            Input::CommitFailed { commit, reason, missing } => {
                if let Some((number, transaction)) = self.answered(commit) {
                    if missing && self.over_and_told(number) {
                        self.forget(number, transaction.parts, effects);
                    } else {
                        self.failed(number, transaction.parts, &reason, step, effects);
                    }
                    self.pump(number, step, effects);
                }
            }
            Input::Wake => {
                for number in self.due.until(step.now) {
                    self.pump(number, step, effects);
                }
                self.hand_off_due(step, effects);
            }
        }
    }

    fn accept(&mut self, ask: Ask, step: &mut Step, effects: &mut Vec<Effect>) {
        let Some(policy) = self.world.tool(&ask.call.tool) else {
            self.emit(refused(&ask, "no tool of this name is configured", &self.world), effects);
            return;
        };
        let base = base(ask.party.as_ref(), ask.session, &ask.call.tool, policy, &ask.call.arguments);
        let rules = Rules::of(policy, ask.party.as_ref(), step.now);
        let judgement = self.intents.judge(&base, (ask.session, ask.turn), &ask.call, &rules, ask.tries > 0);
        if !self.world.sessions.contains_key(&ask.session) {
            // It is asked again from the start, after its conversation's end.
            self.intents.session_over(ask.session);
        }
        if policy.confirm && matches!(judgement, Judgement::New(_) | Judgement::Replaces(..)) && !self.consented(&ask) {
            self.intents.unasked(&base, (ask.session, ask.turn));
            return self.read_back(&ask, effects);
        }
        match judgement {
            Judgement::Repeats { lane, operation, answer } => self.put(lane, Work::Repeat { ask, operation, answer }, step, effects),
            Judgement::Told { operation, batch, answer } => {
                self.emit(accepted_again(&ask, (operation, batch), (Standing::Told, None), answer, &self.world), effects);
            }
            Judgement::Replaces(occurrence, older) => self.create(ask, base, (occurrence, Some(older)), step, effects),
            Judgement::New(occurrence) => self.create(ask, base, (occurrence, None), step, effects),
        }
    }

    fn create(
        &mut self,
        ask: Ask,
        base: String,
        (occurrence, replaces): (u32, Option<OperationId>),
        step: &mut Step,
        effects: &mut Vec<Effect>,
    ) {
        if self.by_operation.len() >= OPERATIONS_HELD_HIGH {
            self.make_room(step, effects);
        }
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
        let origin = Origin { turn: ask.turn, session: ask.session, party: ask.party.clone(), now: step.now, age_ms: 0 };
        self.intents.open(base, (operation, batch, number), origin, occurrence, &ask.call.arguments);
        self.put(number, Work::Accept { ask, batch, operation, key, replaces }, step, effects);
        if late && let Some(number) = self.open.remove(&of) {
            self.put(number, Work::Seal, step, effects);
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
        if self.world.sessions.remove(&session).is_none() {
            return; // it was over before
        }
        self.intents.session_over(session);
        self.world.out_of_reach.values_mut().for_each(|outage| outage.session_over(session));
        // Its responses are over with it.
        let open: Vec<(SessionId, ResponseId)> = self.open.keys().filter(|(of, _)| *of == session).copied().collect();
        for of in open {
            if let Some(number) = self.open.remove(&of) {
                self.put(number, Work::Seal, step, effects);
            }
        }
        let lanes: Vec<u64> = self.lanes.iter().filter(|(_, lane)| lane.claimed_by(session)).map(|(&number, _)| number).collect();
        for number in lanes {
            self.put(number, Work::Lost { session }, step, effects);
        }
        let theirs: Vec<u64> = self.lanes.iter().filter(|(_, lane)| lane.session == session).map(|(&number, _)| number).collect();
        for number in theirs {
            self.tidy(number);
        }
        self.offer_all(step, effects);
    }

    fn about(&mut self, delivery: DeliveryId, work: Work, step: &mut Step, effects: &mut Vec<Effect>) {
        if let Some(&lane) = self.by_delivery.get(&delivery) {
            self.put(lane, work, step, effects);
        }
    }

    pub(super) fn put(&mut self, number: u64, work: Work, step: &mut Step, effects: &mut Vec<Effect>) {
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
        for (&number, batch) in self.lanes.iter().filter_map(|(number, lane)| Some((number, lane.batch.as_ref()?))) {
            self.offers.renew(batch, &self.world, step, &mut news);
            self.hand_offs.renew(number, batch, &self.world, step);
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
                effects.extend(outcome.then.iter().filter(|effect| too_early(effect)).cloned());
                parts.push(Part { work, outcome });
            }
            let Some(mut draft) = draft else {
                // Nothing was ever accepted here; what was asked of it has nothing to be done.
                for part in parts {
                    self.again.extend(part.outcome.bounced);
                    if let Work::Cancel { wish, .. } = part.work {
                        self.heed(number, wish, part.outcome.cancelled, effects);
                    }
                }
                continue;
            };
            let before = lane.batch.as_ref().map(|batch| batch.record.state);
            if !fault(Fault::ResultWithoutClosing) || !parts.iter().any(|part| matches!(part.work, Work::Attempted { .. })) {
                draft.follow(before, &self.world, step, &mut self.next_sequence);
            }
            drop_unseen(lane.batch.as_ref(), &mut draft);
            let writes = writes(lane.batch.as_ref(), &draft);
            if writes.is_empty() {
                lane.rest();
                self.settle(number, draft, parts, step, effects);
                continue;
            }
            let commit = CommitId(self.next_commit);
            self.next_commit = self.next_commit.saturating_add(1);
            if fault(Fault::SentBeforeDurable) {
                follow_up(lane.batch.as_ref(), &draft, step, effects);
            }
            if fault(Fault::CancelBeforeDurable) {
                effects.extend(cancels_too_early(lane.batch.as_ref(), &draft));
            }
            let told_too_early = heeded_too_early(&parts);
            lane.begin(commit, draft, parts);
            self.by_commit.insert(commit, number);
            effects.push(Effect::Persist { commit, writes });
            for (wish, cancelled) in told_too_early {
                self.heed(number, wish, cancelled, effects);
            }
        }
        self.tidy(number);
        self.due.set(number, self.lanes.get(&number).and_then(Lane::due));
    }

    fn answered(&mut self, commit: CommitId) -> Option<(u64, Transaction)> {
        let number = self.by_commit.remove(&commit)?;
        Some((number, self.lanes.get_mut(&number)?.answered(commit)?))
    }

    /// A draft is durable: it becomes the batch, and what waited for it happens.
    fn settle(&mut self, number: u64, draft: Batch, parts: Vec<Part>, step: &mut Step, effects: &mut Vec<Effect>) {
        let Some(lane) = self.lanes.get_mut(&number) else { return };
        let old = lane.batch.replace(draft);
        let (mut told, mut replaced, mut heeded) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            if let Work::Accept { operation, replaces: Some(older), .. } = &part.work {
                replaced.push((*older, *operation));
            }
            self.again.extend(part.outcome.bounced);
            match part.work {
                Work::Claim { session, delivery, .. } => {
                    if lane.claim_stands(delivery, |claim| claim.session == session, step) {
                        told.extend(part.outcome.then);
                    } else {
                        told.push(claim_refused(session, delivery));
                    }
                }
                Work::Cancel { wish, .. } => heeded.push((wish, part.outcome.cancelled)),
                _ => told.extend(part.outcome.then.into_iter().filter(|effect| match effect {
                    Effect::HandOff(_) if fault(Fault::HandOffUnclaimed) => true,
                    Effect::HandOff(sent) => lane.claim_stands(sent.delivery, |claim| claim.route == Route::HandOff, step),
                    _ => true,
                })),
            }
        }
        for (wish, cancelled) in heeded {
            self.heed(number, wish, cancelled, effects);
        }
        for effect in told {
            self.emit(effect, effects);
        }
        let Some(new) = self.lanes.get(&number).and_then(|lane| lane.batch.as_ref()) else { return };
        follow_up(old.as_ref(), new, step, effects);
        for delivery in &new.deliveries {
            self.by_delivery.insert(delivery.record.id, number);
        }
        new.operations.iter().for_each(|operation| self.intents.stands(&operation.record));
        if new.closed() {
            new.operations.iter().for_each(|operation| self.intents.close(&operation.record));
        }
        // An update is overtaken before the closing is offered (I19).
        self.updates.settle(new, &self.world, effects);
        self.offers.renew(new, &self.world, step, effects);
        self.hand_offs.renew(number, new, &self.world, step);
        for (older, newer) in replaced {
            self.replace(older, newer, step, effects);
        }
        self.begin_replacements(number, step, effects);
        self.supersede(number, step, effects);
    }

    /// A draft was not kept: senders are told, facts are kept for another try.
    fn failed(&mut self, number: u64, parts: Vec<Part>, reason: &str, step: &mut Step, effects: &mut Vec<Effect>) {
        let mut facts = Vec::new();
        let mut gone = Vec::new();
        let alone = parts.len() == 1;
        for part in parts {
            if let Work::Accept { operation, .. } = &part.work {
                gone.push(*operation);
            }
            match part.work {
                Work::Advance => {}
                Work::HandOff { delivery } => self.hand_offs.again(delivery, None, step.now),
                // It did not fail for itself: what it repeats may be gone, or may be there after all.
                Work::Repeat { ask, .. } => self.again.push_back(ask),
                work if work.refusable() => self.refuse(number, &work, reason, effects),
                work => facts.push(work),
            }
        }
        if let Some(lane) = self.lanes.get_mut(&number) {
            lane.failed(facts, alone, step);
        }
        for operation in gone {
            self.begin_replacement(operation, None, step, effects);
        }
    }

    fn refuse(&mut self, number: u64, work: &Work, reason: &str, effects: &mut Vec<Effect>) {
        if let Some(effect) = work.refusal(reason, &self.world) {
            self.emit(effect, effects);
        }
        if let Work::Callback { operation, result: OperationResult::Succeeded(_), .. } = work
            && let Some(lane) = self.lanes.get_mut(&number)
        {
            lane.may_have_executed(*operation);
        }
        if let Work::Cancel { wish, meant } = work {
            self.not_heeded(number, *wish, meant, effects);
        }
        if let Work::Accept { ask, operation, key, .. } = work {
            self.by_operation.remove(operation);
            if let Some((base, _)) = split(key) {
                self.intents.retract(base, (ask.session, ask.turn), *operation);
            }
            if let Some(lane) = self.lanes.get_mut(&number) {
                lane.operations = lane.operations.saturating_sub(1);
            }
        }
    }

    /// What is told to a conversation that is over is told to nobody.
    pub(super) fn emit(&self, effect: Effect, effects: &mut Vec<Effect>) {
        match &effect {
            Effect::Tell { session, .. } if !self.world.sessions.contains_key(session) => {}
            _ => effects.push(effect),
        }
    }
}

/// Whether a fault lets out what has to wait until it is durable.
fn too_early(effect: &Effect) -> bool {
    match effect {
        Effect::Answer { .. } => fault(Fault::ConfirmedBeforeDurable),
        Effect::Tell { news: News::Accepted(_), .. } => fault(Fault::AcceptedBeforeDurable),
        Effect::Tell { news: News::Claimed { .. }, .. } => fault(Fault::ClaimedBeforeDurable),
        _ => false,
    }
}

/// The wishes to cancel that a fault answers before they are on record.
fn heeded_too_early(parts: &[Part]) -> Vec<(u64, Cancelled)> {
    let wish = |part: &Part| match part.work {
        Work::Cancel { wish, .. } => Some((wish, part.outcome.cancelled.clone())),
        _ => None,
    };
    if fault(Fault::CancelToldBeforeDurable) { parts.iter().filter_map(wish).collect() } else { Vec::new() }
}

/// How often a request may be asked again from the start: once for each time that what it repeats fails under it.
const TRIES_MAX: u8 = 8;
