//! What is held in memory, and what goes when there is too much. Rows stay in the store.

use super::batch::Batch;
use super::commit::{Lane, Part};
use super::delivery::Delivery;
use super::effect::{CallbackAnswer, Effect};
use super::machine::Ledger;
use super::record::DeliveryState;
use super::wish::Cancelled;
use super::work::{Work, claim_refused};
use crate::time::Step;

impl Ledger {
    /// Lets go of a lane that has nothing left to do. One in which something may still be learnt, or told to nobody any more,
    /// goes when too many others have come after it; its rows stay in the store.
    pub(super) fn tidy(&mut self, number: u64) {
        let Some(lane) = self.lanes.get(&number).filter(|lane| lane.idle()) else { return };
        let dormant = lane.batch.as_ref().is_some_and(|batch| self.dormant(batch));
        if !dormant {
            // Something of it is to be told again.
            self.retained.retain(|&retained| retained != number);
        }
        match &lane.batch {
            None => {
                self.lanes.remove(&number);
                self.open.retain(|_, open| *open != number);
            }
            Some(_) if dormant && !self.retained.contains(&number) => {
                self.retained.push_back(number);
                if self.retained.len() > RETAINED_MAX
                    && let Some(oldest) = self.retained.pop_front()
                    && self.retirable(oldest)
                {
                    self.retire(oldest);
                }
            }
            Some(_) => {}
        }
    }

    /// Whether nothing of a batch runs and nobody will ever be told: its closing is over, or it belongs to a conversation
    /// without a party that is over.
    fn dormant(&self, batch: &Batch) -> bool {
        let nobody = batch.record.party.is_none() && !self.world.sessions.contains_key(&batch.record.session);
        let handed_off = |delivery: &Delivery| delivery.waits() && delivery.goes_another_way();
        batch.quiet() || (nobody && batch.resting() && !batch.deliveries.iter().any(handed_off))
    }

    /// Whether a lane may go: nothing waits in it, and nothing of it is to be told.
    fn retirable(&self, number: u64) -> bool {
        let lane = self.lanes.get(&number).filter(|lane| lane.idle());
        lane.and_then(|lane| lane.batch.as_ref()).is_some_and(|batch| self.dormant(batch))
    }

    fn retire(&mut self, number: u64) {
        let Some(batch) = self.let_go(number).and_then(|lane| lane.batch) else { return };
        for operation in &batch.operations {
            self.intents.close(&operation.record);
            self.intents.retire(&operation.record);
        }
    }

    /// Whether nothing of a batch is left to be told, in the store either: only such a one is removed from there.
    pub(super) fn over_and_told(&self, number: u64) -> bool {
        self.lanes.get(&number).and_then(|lane| lane.batch.as_ref()).is_some_and(Batch::quiet)
    }

    /// The store has removed a batch that is over, as it does after a time: it is forgotten here too, as a restart would. What
    /// was asked of it can't be put on record any more, and its senders are told so.
    pub(super) fn forget(&mut self, number: u64, parts: Vec<Part>, effects: &mut Vec<Effect>) {
        let Some(lane) = self.let_go(number) else { return };
        let (batch, waiting) = lane.end();
        for operation in batch.iter().flat_map(|batch| &batch.operations) {
            self.intents.remove(&operation.record);
        }
        for work in parts.into_iter().map(|part| part.work).chain(waiting) {
            match work {
                Work::Callback { request, .. } | Work::Retract { request, .. } => {
                    effects.push(Effect::Answer { request, answer: CallbackAnswer::Unknown });
                }
                Work::Cancel { wish, .. } => self.heed(number, wish, Cancelled::default(), effects),
                Work::Claim { session, delivery, .. } => self.emit(claim_refused(session, delivery), effects),
                Work::Repeat { ask, .. } => self.again.push_back(ask),
                // A fact about what nobody asks for any more.
                _ => {}
            }
        }
    }

    fn let_go(&mut self, number: u64) -> Option<Lane> {
        let lane = self.lanes.remove(&number)?;
        for operation in lane.batch.iter().flat_map(|batch| &batch.operations) {
            self.by_operation.remove(&operation.record.id);
        }
        for delivery in lane.batch.iter().flat_map(|batch| &batch.deliveries) {
            self.by_delivery.remove(&delivery.record.id);
            self.offers.forget(delivery.record.id);
            self.hand_offs.forget(delivery.record.id);
        }
        self.retained.retain(|&retained| retained != number);
        if let Some(batch) = &lane.batch {
            self.topics.forget(batch, &self.lanes);
        }
        self.due.set(number, None);
        Some(lane)
    }

    /// Much is held: what is over goes first; then the oldest closing that nobody has come to hear goes its other way at once, or is
    /// given up where it has none, so that parties who never call back don't keep others from being served.
    pub(super) fn make_room(&mut self, step: &mut Step, effects: &mut Vec<Effect>) {
        if let Some(&oldest) = self.retained.iter().find(|&&number| self.retirable(number)) {
            self.retire(oldest);
        }
        // The next to go is given up now: by the next request it will be over.
        if !self.retained.is_empty() {
            return;
        }
        if let Some((lane, delivery)) = self.hand_offs.hasten() {
            return self.put(lane, Work::HandOff { delivery }, step, effects);
        }
        let unheard = |lane: &Lane| {
            let nobody = |delivery: &Delivery| {
                !self.world.sessions.iter().any(|(&session, listener)| self.world.may_hear(session, listener, &delivery.record))
            };
            // What goes another way is tried again until it has got there.
            let lost = |delivery: &Delivery| nobody(delivery) && (delivery.record.state.terminal() || !delivery.goes_another_way());
            lane.idle() && lane.batch.as_ref().is_some_and(|batch| batch.resting() && batch.deliveries.iter().all(lost))
        };
        if let Some((&oldest, _)) = self.lanes.iter().find(|(_, lane)| unheard(lane)) {
            self.put(oldest, Work::Obsolete { state: DeliveryState::Suppressed }, step, effects);
        }
    }
}

/// Operations held in memory, told or not: beyond it new ones are refused. At about 3 kB each, 30 MB.
pub(super) const OPERATIONS_HELD_MAX: usize = 10_000;

/// Held operations from which on room is made.
pub(super) const OPERATIONS_HELD_HIGH: usize = 9_000;

/// Dormant batches that are kept: an operation of theirs may still be reconciled or contradicted, or their closing belongs to nobody
/// who could call again.
const RETAINED_MAX: usize = 1_000;
