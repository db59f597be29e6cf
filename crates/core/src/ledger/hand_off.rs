//! Hand-offs: a closing that nobody has come to hear goes another way, under a claim of its own (its route is `HandOff`), so that it is
//! never spoken meanwhile. Only the acknowledgement makes it `HandedOff`.
//!
//! * Not acknowledged and not received: `Ready` again. Perhaps received: `Uncertain`. Both are tried again, with back-off, unless
//!   somebody comes to hear it first.
//! * A restart sends an unanswered hand-off again, under the same delivery: at least once, and the receiver takes it once.

use std::collections::BTreeMap;

use super::batch::Batch;
use super::claim::Claim;
use super::delivery::Delivery;
use super::effect::{Effect, HandOff};
use super::input::{Executed, HandOffOutcome};
use super::machine::{Ledger, World};
use super::operation::backoff_ms;
use super::record::{DeliveryState, Route};
use super::say::join;
use super::work::Work;
use crate::faults::{Fault, fault};
use crate::ids::DeliveryId;
use crate::time::{Step, Time};

/// The deliveries that are to be handed off unless somebody comes.
#[derive(Debug, Clone, Default)]
pub(super) struct HandOffs {
    waiting: BTreeMap<DeliveryId, Waiting>,
}

#[derive(Debug, Clone)]
struct Waiting {
    lane: u64,
    /// When it is handed off; none while that is under way, or somebody is there who may hear it.
    at: Option<Time>,
    tries: u32,
}

impl HandOffs {
    /// Brings what waits in line with a batch.
    pub fn renew(&mut self, lane: u64, batch: &Batch, world: &World, step: &Step) {
        for delivery in &batch.deliveries {
            let Some(after) = delivery.record.hand_off_after_ms else { continue };
            let id = delivery.record.id;
            if delivery.record.state.terminal() {
                self.waiting.remove(&id);
            } else if delivery.is_handed_off() {
                self.waiting.entry(id).or_insert(Waiting { lane, at: None, tries: 0 });
            } else if delivery.waits() && nobody_hears(delivery, world) {
                let age = match delivery.ready_at {
                    Some(at) => step.now.since(at),
                    None => step.wall.age_ms(delivery.record.ready).unwrap_or(0),
                };
                let first = step.now.plus(after.saturating_sub(age));
                let waiting = self.waiting.entry(id).or_insert(Waiting { lane, at: Some(first), tries: 0 });
                // Somebody has been there: the time counts from when they left.
                waiting.at.get_or_insert(step.now.plus(after));
            } else {
                self.waiting.entry(id).or_insert(Waiting { lane, at: None, tries: 0 }).at = None;
            }
        }
    }

    /// When the next one is due.
    pub fn due(&self) -> Option<Time> {
        self.waiting.values().filter_map(|waiting| waiting.at).min()
    }

    /// Those that are due begin.
    fn begin(&mut self, now: Time) -> Vec<(u64, DeliveryId)> {
        let due = self.waiting.iter_mut().filter(|(_, waiting)| waiting.at.is_some_and(|at| now >= at));
        due.map(|(&id, waiting)| {
            waiting.at = None;
            (waiting.lane, id)
        })
        .collect()
    }

    /// The first that waits for its time and has not been tried begins now.
    pub fn hasten(&mut self) -> Option<(u64, DeliveryId)> {
        let untried = |waiting: &Waiting| waiting.at.is_some() && waiting.tries == 0;
        let oldest = self.waiting.iter_mut().filter(|(_, waiting)| untried(waiting)).min_by_key(|(_, waiting)| waiting.lane);
        oldest.map(|(&id, waiting)| {
            waiting.at = None;
            (waiting.lane, id)
        })
    }

    /// One was not acknowledged: it is tried again.
    pub fn again(&mut self, delivery: DeliveryId, retry_after_ms: Option<u64>, now: Time) {
        if let Some(waiting) = self.waiting.get_mut(&delivery) {
            let wait = backoff_ms(BACKOFF_MS, waiting.tries, BACKOFF_MS_MAX).max(retry_after_ms.unwrap_or(0)).min(BACKOFF_MS_MAX);
            waiting.tries = waiting.tries.saturating_add(1);
            waiting.at = Some(now.plus(wait));
        }
    }

    pub fn forget(&mut self, delivery: DeliveryId) {
        self.waiting.remove(&delivery);
    }
}

impl Ledger {
    pub(super) fn hand_off_due(&mut self, step: &mut Step, effects: &mut Vec<Effect>) {
        for (lane, delivery) in self.hand_offs.begin(step.now) {
            self.put(lane, Work::HandOff { delivery }, step, effects);
        }
    }
}

impl Delivery {
    /// Whether it is to be handed off where nobody comes to hear it.
    pub fn goes_another_way(&self) -> bool {
        self.record.hand_off_after_ms.is_some()
    }

    /// Whether it is being handed off.
    pub fn is_handed_off(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.route == Route::HandOff)
    }

    /// The other way has answered.
    pub fn hand_off_answered(&mut self, outcome: &HandOffOutcome) {
        let Some(claim) = self.claim.take_if(|claim| claim.route == Route::HandOff) else { return };
        self.record.state = match outcome {
            HandOffOutcome::Acknowledged => DeliveryState::HandedOff,
            HandOffOutcome::Failed { .. } if fault(Fault::HandedOffUnacknowledged) => DeliveryState::HandedOff,
            HandOffOutcome::Failed { received: Executed::No, .. } if !claim.doubted => DeliveryState::Ready,
            HandOffOutcome::Failed { .. } => DeliveryState::Uncertain,
        };
    }

    /// A restart: what was being handed off may have been received, and is sent again.
    pub fn resume_hand_off(&mut self, world: &World) -> bool {
        match self.claim.as_mut().filter(|claim| claim.route == Route::HandOff) {
            Some(claim) => {
                claim.boot = world.boot;
                claim.doubted = true;
                true
            }
            None => false,
        }
    }
}

/// Claims a delivery for the other way, where nobody is there to hear it; otherwise nothing.
pub(super) fn hand_off(batch: &mut Batch, id: DeliveryId, world: &World, step: &Step) -> Option<Effect> {
    let found = batch.deliveries.iter().find(|delivery| delivery.record.id == id)?;
    if !batch.claimable(found) || found.stale(step) || !nobody_hears(found, world) {
        return None;
    }
    if fault(Fault::HandOffUnclaimed) {
        return message(batch, id);
    }
    let delivery = batch.delivery(id)?;
    let doubted = delivery.record.state == DeliveryState::Uncertain;
    let (session, boot) = (delivery.record.session, world.boot);
    delivery.claim = Some(Claim { session, boot, route: Route::HandOff, doubted, frames: false, told: Vec::new() });
    delivery.record.state = DeliveryState::Claimed;
    message(batch, id)
}

/// What the other way is given.
pub(super) fn message(batch: &Batch, id: DeliveryId) -> Option<Effect> {
    let record = &batch.deliveries.iter().find(|delivery| delivery.record.id == id)?.record;
    let unheard: Vec<_> = record.clauses.iter().filter(|clause| clause.heard.is_none()).collect();
    let about = |operation| unheard.iter().any(|clause| clause.operation == operation);
    Some(Effect::HandOff(Box::new(HandOff {
        delivery: id,
        kind: record.kind,
        batch: record.batch,
        party: record.party.clone(),
        session: record.session,
        language: batch.record.language,
        text: join(&unheard.iter().map(|clause| clause.text.clone()).collect::<Vec<_>>()),
        ready: record.ready,
        operations: batch.operations.iter().map(|operation| operation.record.clone()).filter(|operation| about(operation.id)).collect(),
    })))
}

/// Whether nobody is there who may be told; what no conversation may tell any more goes the other way whoever is there.
fn nobody_hears(delivery: &Delivery, world: &World) -> bool {
    !delivery.speakable() || !world.sessions.iter().any(|(&session, listener)| world.may_hear(session, listener, &delivery.record))
}

/// Wait after the first hand-off that was not acknowledged; doubles.
const BACKOFF_MS: u64 = 30_000;

/// Longest wait between two hand-offs: a receiver that comes back is noticed within an hour.
const BACKOFF_MS_MAX: u64 = 3_600_000;
