//! What is asked of one batch, and how it changes the batch's draft. Nothing here is told to anyone: what is to be told
//! waits for the draft to be durable.

use serde_json::Value;

use super::batch::{Batch, OPERATIONS_MAX};
use super::effect::{CallbackAnswer, Effect, LedgerMeasure, News};
use super::hand_off::{hand_off, message};
use super::input::{
    Acceptance, AttemptOutcome, CancelOutcome, HandOffOutcome, InquiryOutcome, OperationResult, Repeat, RepeatAnswer, RequestId, Standing,
};
use super::machine::World;
use super::operation::{Operation, Received, compare, kept};
use super::record::{BatchRecord, BatchState, ClauseEvidence, DeliveryState, OperationRecord, OperationState, Route};
use super::wish::{Cancelled, Meant};
use crate::conversation::input::ToolCall;
use crate::faults::{Fault, fault};
use crate::ids::{BatchId, DeliveryId, IntentKey, OperationId, PartyId, ResponseId, SessionId, TurnId};
use crate::policy::Language;
use crate::time::Step;

/// A request for an operation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask {
    pub session: SessionId,
    pub party: Option<PartyId>,
    pub language: Language,
    pub turn: TurnId,
    pub response: ResponseId,
    pub call: ToolCall,
    /// How often it has been asked again from the start.
    pub tries: u8,
}

/// One thing asked of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    /// A new operation, in this batch.
    Accept { ask: Ask, batch: BatchId, operation: OperationId, key: IntentKey, replaces: Option<OperationId> },
    /// The same thing as this operation was asked for again.
    Repeat { ask: Ask, operation: OperationId, answer: RepeatAnswer },
    /// It takes no more operations.
    Seal,
    /// The caller wants its operations cancelled: those that are meant.
    Cancel { wish: u64, meant: Meant },
    /// A newer operation takes this one's place.
    Replace { operation: OperationId },
    /// The operation that this one replaces has come to its end.
    Begin { operation: OperationId },
    /// An executor's report on a cancel request.
    CancelAttempted { operation: OperationId, request: u32, outcome: CancelOutcome },
    /// An executor's report.
    Attempted { operation: OperationId, attempt: u32, outcome: AttemptOutcome },
    /// An executor's report on an inquiry.
    Inquired { operation: OperationId, request: u32, outcome: InquiryOutcome },
    /// The place of an operation's tool can be reached again.
    Reachable { operation: OperationId },
    /// A result whose sender waits.
    Callback { request: RequestId, operation: OperationId, result: OperationResult },
    /// A result is taken back; its sender waits.
    Retract { request: RequestId, operation: OperationId },
    /// A delivery goes another way.
    HandOff { delivery: DeliveryId },
    /// The other way's report.
    HandOffAttempted { delivery: DeliveryId, outcome: HandOffOutcome },
    /// A delivery is claimed.
    Claim { session: SessionId, delivery: DeliveryId, route: Route },
    /// A claim is given back.
    Release { session: SessionId, delivery: DeliveryId },
    /// A frame has been released.
    FirstFrame { session: SessionId, delivery: DeliveryId },
    /// Evidence.
    Settled { session: SessionId, delivery: DeliveryId, clauses: Vec<ClauseEvidence> },
    /// A delivery is stale.
    Suppress { delivery: DeliveryId },
    /// Something newer is known on the same topic: what is untold ends so.
    Obsolete { state: DeliveryState },
    /// A conversation is over.
    Lost { session: SessionId },
    /// The process started.
    Recover,
    /// Time passed.
    Advance,
}

/// What a work is about, as far as its place among others goes.
enum About {
    Delivery(DeliveryId),
    /// Every delivery of the batch.
    Deliveries,
    Operation(OperationId),
    Else,
}

/// What one work came to: told when the draft is durable.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// Carried out in order.
    pub then: Vec<Effect>,
    /// The work belongs elsewhere: asked again from the start.
    pub bounced: Option<Ask>,
    /// What a wish to cancel comes to in this batch.
    pub cancelled: Cancelled,
}

impl Work {
    /// Whether its sender can be told that it failed. What can't be refused is repeated until it is durable: it is a fact, and
    /// the store must come to know it.
    pub fn refusable(&self) -> bool {
        matches!(
            self,
            Work::Accept { .. }
                | Work::Repeat { .. }
                | Work::Cancel { .. }
                | Work::Callback { .. }
                | Work::Retract { .. }
                | Work::Claim { .. }
        )
    }

    /// Whether it would change an operation that the draft has changed already. `Cancelling` is durable before anything else
    /// (R6), an attempt has left before its cancel, and every state that is passed is in the store once.
    pub fn must_wait(&self, draft: Option<&Batch>, durable: Option<&Batch>) -> bool {
        let Some(draft) = draft else { return false };
        draft.operations.iter().filter(|operation| changed(durable, operation)).any(|operation| match self {
            Work::Attempted { operation: id, .. }
            | Work::Callback { operation: id, .. }
            | Work::CancelAttempted { operation: id, .. }
            | Work::Inquired { operation: id, .. }
            | Work::Reachable { operation: id }
            | Work::Replace { operation: id } => operation.record.id == *id,
            Work::Cancel { .. } | Work::Recover => true,
            _ => false,
        })
    }

    /// Whether it means something else before `fact` than after it: both are about the same delivery, or the same operation's
    /// attempts.
    pub fn depends_on(&self, fact: &Self) -> bool {
        match (self.about(), fact.about()) {
            (About::Delivery(one), About::Delivery(other)) => one == other,
            (About::Delivery(_) | About::Deliveries, About::Delivery(_) | About::Deliveries) => true,
            (About::Operation(one), About::Operation(other)) => one == other,
            _ => false,
        }
    }

    fn about(&self) -> About {
        match self {
            Work::Claim { delivery, .. }
            | Work::Release { delivery, .. }
            | Work::FirstFrame { delivery, .. }
            | Work::Settled { delivery, .. }
            | Work::HandOff { delivery }
            | Work::HandOffAttempted { delivery, .. }
            | Work::Suppress { delivery } => About::Delivery(*delivery),
            Work::Lost { .. } | Work::Obsolete { .. } | Work::Retract { .. } => About::Deliveries,
            Work::Attempted { operation, .. } | Work::CancelAttempted { operation, .. } | Work::Inquired { operation, .. } => {
                About::Operation(*operation)
            }
            _ => About::Else,
        }
    }

    /// Changes the draft.
    pub fn apply(&self, draft: &mut Option<Batch>, durable: Option<&Batch>, world: &World, step: &mut Step, sequence: &mut u64) -> Outcome {
        let mut outcome = Outcome::default();
        let then = &mut outcome.then;
        if let Work::Accept { ask, batch, operation, key, replaces } = self {
            accept(draft, ask, (*batch, *operation, key, *replaces), world, step, then);
        }
        let Some(batch) = draft.as_mut() else {
            // The batch that this was asked of was never made.
            if let Work::Repeat { ask, .. } = self {
                outcome.bounced = Some(ask.clone());
            }
            return outcome;
        };
        match self {
            Work::Accept { .. } => {}
            Work::Repeat { ask, operation, answer } => match batch.operation(*operation).map(|found| found.record.turn) {
                Some(turn) if !durable.is_some_and(Batch::closed) || turn == ask.turn => {
                    let (standing, next) = batch.standing();
                    // What is another's is neither told sooner for this, nor spoken of.
                    let next = next.filter(|_| *answer != RepeatAnswer::AskedByAnother);
                    if let Some(delivery) = next.and_then(|id| batch.delivery(id)) {
                        delivery.asked_for = true;
                    }
                    then.push(accepted_again(ask, (*operation, batch.record.id), (standing, next), *answer, world));
                }
                _ => outcome.bounced = Some(ask.clone()),
            },
            Work::Seal => {
                if batch.record.state == BatchState::Open {
                    batch.record.state = BatchState::Sealed;
                }
            }
            Work::Cancel { meant, .. } => outcome.cancelled = Cancelled::of(batch, meant, world),
            Work::Replace { operation } => {
                if let Some(found) = batch.operation(*operation) {
                    found.replaced |= found.cancel();
                }
            }
            Work::Begin { operation } => {
                if let Some(found) = batch.operation(*operation) {
                    found.waits_for = None;
                }
            }
            Work::CancelAttempted { operation, request, outcome } => {
                let received = batch.operation(*operation).and_then(|found| {
                    let policy = world.policy(&found.record.tool);
                    found.cancel_answered(*request, outcome, policy, step)
                });
                if received.is_some_and(Received::is_news) {
                    batch.correct(*operation, world, step, sequence);
                }
            }
            Work::Attempted { operation, attempt, outcome } => {
                let received = batch.operation(*operation).and_then(|found| {
                    let policy = world.policy(&found.record.tool);
                    let twice =
                        matches!(outcome, AttemptOutcome::Succeeded(_)) && found.credited.is_some_and(|credited| credited != *attempt);
                    if twice && !policy.idempotent {
                        then.push(Effect::Measured(LedgerMeasure::DuplicateSideEffect));
                    }
                    found.report(*attempt, outcome, policy, step)
                });
                if received.is_some_and(Received::is_news) {
                    batch.correct(*operation, world, step, sequence);
                }
                if matches!(received, Some(Received::Repeated | Received::Conflict | Received::Contradicted)) {
                    then.push(Effect::Measured(LedgerMeasure::RepeatedResult));
                }
            }
            Work::Inquired { operation, request, outcome } => {
                let received = batch.operation(*operation).and_then(|found| {
                    let policy = world.policy(&found.record.tool);
                    found.inquired(*request, outcome, policy, step)
                });
                if received.is_some_and(Received::is_news) {
                    batch.correct(*operation, world, step, sequence);
                }
            }
            Work::Reachable { operation } => {
                if let Some(found) = batch.operation(*operation) {
                    found.reachable(step.now);
                }
            }
            Work::Callback { request, operation, result } => {
                let received = batch.operation(*operation).map(|found| found.receive(result, step.now));
                if received.is_some_and(Received::is_news) {
                    batch.correct(*operation, world, step, sequence);
                }
                answer(*request, received, then);
            }
            Work::Retract { request, .. } if fault(Fault::RetractedIsTold) => {
                then.push(Effect::Answer { request: *request, answer: CallbackAnswer::Recorded });
            }
            Work::Retract { request, operation } => {
                let stopped = batch.retract(*operation, world, step, sequence);
                let answer = if stopped.is_some() { CallbackAnswer::Recorded } else { CallbackAnswer::Over };
                then.extend(stopped.into_iter().flatten().map(|(session, delivery)| withdrawn(session, delivery)));
                then.push(Effect::Answer { request: *request, answer });
            }
            Work::HandOff { delivery } => then.extend(hand_off(batch, *delivery, world, step)),
            Work::HandOffAttempted { delivery, outcome } => {
                if let Some(found) = batch.delivery(*delivery) {
                    found.hand_off_answered(outcome);
                }
            }
            Work::Claim { session, delivery, route } => claim(batch, *session, *delivery, *route, world, step, then),
            Work::Release { session, delivery } => {
                if let Some(found) = batch.delivery(*delivery) {
                    found.release(*session);
                }
            }
            Work::FirstFrame { session, delivery } => {
                if let Some(found) = batch.delivery(*delivery) {
                    let stale = found.stale(step);
                    let claim = found.first_frame(*session);
                    let measured = [
                        (claim.is_some_and(|claim| claim.doubted), LedgerMeasure::DuplicateDelivery),
                        (claim.is_some() && stale, LedgerMeasure::StaleDelivery),
                    ];
                    then.extend(measured.into_iter().filter(|(holds, _)| *holds).map(|(_, measure)| Effect::Measured(measure)));
                }
            }
            Work::Settled { session, delivery, clauses } => {
                let stopped = batch.delivery(*delivery).and_then(|found| found.settled(*session, clauses));
                then.extend(stopped.map(|session| withdrawn(session, *delivery)));
            }
            Work::Suppress { delivery } => {
                let stopped = batch.delivery(*delivery).and_then(|found| found.end(DeliveryState::Suppressed, None));
                then.extend(stopped.map(|session| withdrawn(session, *delivery)));
            }
            Work::Obsolete { state } => {
                for delivery in batch.deliveries.iter_mut().filter(|delivery| !delivery.record.state.terminal()) {
                    let (id, stopped) = (delivery.record.id, delivery.end(*state, None));
                    then.extend(stopped.filter(|_| !fault(Fault::SupersededGoesOn)).map(|session| withdrawn(session, id)));
                }
            }
            Work::Lost { session } => batch.deliveries.iter_mut().for_each(|delivery| delivery.lose(*session)),
            Work::Recover => {
                for delivery in &mut batch.deliveries {
                    delivery.recover(world.boot);
                }
                let resumed: Vec<DeliveryId> = batch
                    .deliveries
                    .iter_mut()
                    .filter_map(|delivery| delivery.resume_hand_off(world).then_some(delivery.record.id))
                    .collect();
                then.extend(resumed.into_iter().filter_map(|delivery| message(batch, delivery)));
                for operation in &mut batch.operations {
                    operation.recover(world.tool(&operation.record.tool), step.now);
                }
                if batch.record.state == BatchState::Open {
                    batch.record.state = BatchState::Sealed;
                }
            }
            Work::Advance => {
                for operation in batch.operations.iter_mut().filter(|operation| !changed(durable, operation)) {
                    operation.advance(world.tool(&operation.record.tool), step.now);
                }
                for delivery in &mut batch.deliveries {
                    if delivery.waits() && delivery.stale(step) {
                        delivery.end(DeliveryState::Suppressed, None);
                    }
                }
            }
        }
        batch.fold(world, step, sequence);
        outcome
    }

    /// What its sender is told when the draft could not be made durable.
    pub fn refusal(&self, reason: &str, world: &World) -> Option<Effect> {
        match self {
            Work::Accept { ask, .. } | Work::Repeat { ask, .. } => Some(refused(ask, reason, world)),
            Work::Callback { request, .. } | Work::Retract { request, .. } => {
                Some(Effect::Answer { request: *request, answer: CallbackAnswer::Unavailable })
            }
            Work::Claim { session, delivery, .. } => Some(claim_refused(*session, *delivery)),
            _ => None,
        }
    }
}

fn changed(durable: Option<&Batch>, operation: &Operation) -> bool {
    let before = durable.and_then(|batch| batch.operations.iter().find(|before| before.record.id == operation.record.id));
    before.is_none_or(|before| (before.record.state, before.record.attempt) != (operation.record.state, operation.record.attempt))
}

/// Nothing could be accepted.
pub(super) fn refused(ask: &Ask, reason: &str, world: &World) -> Effect {
    let news = News::Refused {
        call_id: ask.call.call_id.clone(),
        response: ask.response,
        reason: reason.to_owned(),
        say: world.sayer.refused(ask.language),
    };
    Effect::Tell { session: ask.session, news }
}

/// A claim is not granted.
pub(super) fn claim_refused(session: SessionId, delivery: DeliveryId) -> Effect {
    Effect::Tell { session, news: News::ClaimRefused { delivery } }
}

/// A delivery is not to be told by this conversation.
pub(super) fn withdrawn(session: SessionId, delivery: DeliveryId) -> Effect {
    Effect::Tell { session, news: News::Withdrawn { delivery } }
}

/// The same thing as a known operation was asked for again.
pub(super) fn accepted_again(
    ask: &Ask,
    (operation, batch): (OperationId, BatchId),
    (standing, delivery): (Standing, Option<DeliveryId>),
    answer: RepeatAnswer,
    world: &World,
) -> Effect {
    let say = world.sayer.repeated(standing, answer, ask.language);
    let repeat = Some(Repeat { standing, answer, delivery });
    let acceptance = Acceptance { call_id: ask.call.call_id.clone(), response: ask.response, operation, batch, repeat, say };
    Effect::Tell { session: ask.session, news: News::Accepted(acceptance) }
}

/// The operation, with its first attempt (R1 and R2 in one transaction: acceptance and request both wait for it).
fn accept(
    draft: &mut Option<Batch>,
    ask: &Ask,
    (id, operation, key, replaces): (BatchId, OperationId, &IntentKey, Option<OperationId>),
    world: &World,
    step: &Step,
    then: &mut Vec<Effect>,
) {
    let batch = draft.get_or_insert_with(|| Batch {
        record: BatchRecord {
            id,
            session: ask.session,
            response: ask.response,
            party: ask.party.clone(),
            language: ask.language,
            state: BatchState::Open,
        },
        operations: Vec::new(),
        deliveries: Vec::new(),
    });
    assert!(batch.record.state == BatchState::Open, "{id} takes an operation while it is {:?}", batch.record.state);
    assert!(batch.operations.len() < OPERATIONS_MAX, "{id} takes an operation beyond its bound");
    let policy = world.policy(&ask.call.tool);
    let record = OperationRecord {
        id: operation,
        intent_key: key.clone(),
        batch: id,
        ordinal: u32::try_from(batch.operations.len()).unwrap_or(u32::MAX),
        party: ask.party.clone(),
        session: ask.session,
        turn: ask.turn,
        tool: ask.call.tool.clone(),
        arguments: ask.call.arguments.clone(),
        state: OperationState::Accepted,
        attempt: 0,
        unreached: 0,
        handle: None,
        maybe_executed: false,
        result: None::<Value>,
        error: None,
        contradiction: None,
        accepted: step.wall,
    };
    let mut operation = Operation::new(record, step.now.plus(policy.deadline_ms), Some(step.now));
    let replaces = replaces.filter(|_| !fault(Fault::ReplacedRunsOn));
    operation.waits_for = replaces;
    if replaces.is_none() {
        operation.begin(policy);
    }
    let acceptance = Acceptance {
        call_id: ask.call.call_id.clone(),
        response: ask.response,
        operation: operation.record.id,
        batch: id,
        repeat: None,
        say: if world.out_of_reach.contains_key(&ask.call.tool) {
            world.sayer.waiting(policy, &operation.record, ask.language)
        } else {
            world.sayer.accepted(policy, &operation.record, ask.language)
        },
    };
    then.push(Effect::Tell { session: ask.session, news: News::Accepted(acceptance) });
    batch.operations.push(operation);
}

fn claim(batch: &mut Batch, session: SessionId, id: DeliveryId, route: Route, world: &World, step: &Step, then: &mut Vec<Effect>) {
    let listener = world.sessions.get(&session);
    let found = batch.deliveries.iter().find(|delivery| delivery.record.id == id).filter(|delivery| batch.tellable(delivery));
    let (Some(listener), Some(found)) = (listener, found) else {
        then.push(claim_refused(session, id));
        return;
    };
    // What is stale is suppressed by the passing of time, in the same transaction or the next.
    if found.stale(step) || !world.may_hear(session, listener, &found.record) {
        then.push(claim_refused(session, id));
        return;
    }
    let Some(delivery) = batch.delivery(id) else { return };
    let clauses = delivery.grant(session, world.boot, route, listener.language);
    then.push(Effect::Tell { session, news: News::Claimed { delivery: id, clauses } });
}

fn answer(request: RequestId, received: Option<Received>, then: &mut Vec<Effect>) {
    let answer = match received {
        Some(Received::Recorded | Received::Reconciled | Received::Completed) => CallbackAnswer::Recorded,
        Some(Received::Repeated) => {
            then.push(Effect::Measured(LedgerMeasure::RepeatedResult));
            CallbackAnswer::Recorded
        }
        Some(Received::Conflict | Received::Contradicted) => {
            then.push(Effect::Measured(LedgerMeasure::RepeatedResult));
            CallbackAnswer::Conflict
        }
        None => CallbackAnswer::Unknown,
    };
    then.push(Effect::Answer { request, answer });
}

/// How an operation that has left memory stands to a result.
pub(super) fn answer_closed(request: RequestId, digest: Option<[u8; 32]>, state: OperationState, result: &OperationResult) -> Vec<Effect> {
    let received = (state != OperationState::Unknown).then(|| compare(digest, state, &kept(result)));
    let mut then = Vec::new();
    answer(request, received, &mut then);
    then
}
