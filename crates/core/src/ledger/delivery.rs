//! One delivery: its life cycle from `Ready` to a terminal state.
//!
//! The row of a claimed delivery says `Speaking` from the claim on: what a crash finds there may have been heard. In memory the
//! claim knows whether a frame has been released.

use super::claim::{Claim, words};
use super::effect::{DeliveryEnvelope, SpokenClause};
use super::record::{ClauseEvidence, ClauseRecord, ClauseVerdict, DeliveryRecord, DeliveryState, Route};
use super::say::hedged;
use crate::faults::{Fault, fault};
use crate::ids::{BootId, DeliveryId, OperationId, SessionId};
use crate::policy::{Language, UncertainPolicy};
use crate::time::{Step, Time};

/// A delivery in memory.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Delivery {
    pub record: DeliveryRecord,
    /// When it became ready; none when that was in an earlier boot.
    pub ready_at: Option<Time>,
    pub claim: Option<Claim>,
    /// The latest conversations that have had it: evidence from them counts, however late.
    pub tellers: Vec<SessionId>,
    /// Somebody has asked for it since it was claimed last.
    pub asked_for: bool,
    /// The way of its last telling of which a frame was released, in this boot.
    pub route: Option<Route>,
}

impl Delivery {
    /// Its state as the contract names it: `Claimed` until the first frame has been released.
    pub fn state(&self) -> DeliveryState {
        match &self.claim {
            Some(claim) if !claim.frames => DeliveryState::Claimed,
            _ => self.record.state,
        }
    }

    /// Whether it waits to be claimed.
    pub fn waits(&self) -> bool {
        let waits = matches!(self.record.state, DeliveryState::Ready | DeliveryState::Uncertain);
        (self.claim.is_none() && waits) || (fault(Fault::ClaimedTwice) && self.record.state == DeliveryState::Speaking)
    }

    /// Whether it may be spoken: one that another way may have acknowledged is not, where its policy rules out a repeat; nor one
    /// that has been told so often in doubt, unless it is asked for.
    pub fn speakable(&self) -> bool {
        let doubtful = self.record.state == DeliveryState::Uncertain;
        let enough = self.record.attempt >= DOUBTS_MAX && !self.asked_for;
        self.waits() && !(doubtful && (enough || self.record.uncertain == UncertainPolicy::Suppress))
    }

    /// Whether it is too old to be told. Within a boot the monotonic clock decides, over boots the wall clock, where both
    /// readings are known to be synchronised.
    pub fn stale(&self, step: &Step) -> bool {
        let age = match self.ready_at {
            Some(at) => Some(step.now.since(at)),
            None => step.wall.age_ms(self.record.ready),
        };
        matches!((self.record.stale_after_ms, age), (Some(limit), Some(age)) if age > limit && !fault(Fault::StaleTold))
    }

    /// When it will be too old, on the monotonic clock.
    pub fn stale_at(&self) -> Option<Time> {
        Some(self.ready_at?.plus(self.record.stale_after_ms.filter(|_| !fault(Fault::StaleTold))?.saturating_add(1)))
    }

    /// What the gate needs to know of it.
    pub fn envelope(&self) -> DeliveryEnvelope {
        let record = &self.record;
        let mut operations: Vec<OperationId> = Vec::new();
        for clause in &record.clauses {
            if !operations.contains(&clause.operation) {
                operations.push(clause.operation);
            }
        }
        DeliveryEnvelope {
            delivery: record.id,
            sequence: record.sequence,
            kind: record.kind,
            batch: record.batch,
            priority: record.priority,
            can_interrupt: record.can_interrupt,
            ride: record.ride,
            strict: record.strict,
            audience: record.audience,
            max_wait_ms: record.max_wait_ms,
            min_quiet_ms: record.min_quiet_ms,
            ready_at: self.ready_at,
            ready_wall: record.ready,
            stale_after_ms: record.stale_after_ms,
            attempt: record.attempt,
            ride_only: record.attempt >= CUTS_MAX,
            operations,
        }
    }

    /// Whether nobody knows if something of it has been told: it is in doubt, or under way.
    pub fn doubtful(&self) -> bool {
        let under_way = |claim: &Claim| claim.doubted || claim.frames || claim.route == Route::HandOff;
        self.record.state == DeliveryState::Uncertain || self.claim.as_ref().is_some_and(under_way)
    }

    /// Whether it ended otherwise than by being told.
    pub fn dropped(&self) -> bool {
        matches!(self.record.state, DeliveryState::Superseded | DeliveryState::Suppressed | DeliveryState::Withdrawn)
    }

    /// Clauses of it as what takes its place tells them. What was dropped stays untold (I10). What may have been heard is told
    /// after a hedge, or as it is where the policy is to repeat it: also under `suppress`, which is about the delivery that was in
    /// doubt. Nothing will be known of that one any more, and what it had left to tell must not be lost with it (I2).
    pub fn handed_on(&self, which: impl Fn(&ClauseRecord) -> bool) -> Vec<ClauseRecord> {
        if self.dropped() {
            return Vec::new();
        }
        let mut clauses: Vec<ClauseRecord> = self.record.clauses.iter().filter(|clause| which(clause)).cloned().collect();
        if self.doubtful() {
            match self.record.uncertain {
                UncertainPolicy::Check | UncertainPolicy::Suppress => {
                    clauses
                        .iter_mut()
                        .filter(|clause| clause.heard.is_none())
                        .take(1)
                        .for_each(|clause| clause.text = hedged(&clause.text));
                }
                UncertainPolicy::Repeat => {}
            }
        }
        clauses
    }

    /// Claims it (R4), and says what is to be said.
    pub fn grant(&mut self, session: SessionId, boot: BootId, route: Route, language: Language) -> Vec<SpokenClause> {
        assert!(self.waits(), "I17: {} is claimed while it is {:?}", self.record.id, self.state());
        let clauses = words(&self.record, language);
        let doubted = self.record.state == DeliveryState::Uncertain;
        let told = clauses.iter().filter_map(|spoken| spoken.clause).collect();
        self.claim = Some(Claim { session, boot, route, doubted, frames: false, told });
        self.record.state = DeliveryState::Speaking;
        self.asked_for = false;
        self.tellers.retain(|&teller| teller != session);
        self.tellers.push(session);
        if self.tellers.len() > TELLERS_MAX {
            self.tellers.remove(0);
        }
        clauses
    }

    /// Its first frame has been released. Says the claim that this was new to.
    pub fn first_frame(&mut self, session: SessionId) -> Option<&Claim> {
        let claim = self.claim.as_mut().filter(|claim| claim.spoken_by(session) && !claim.frames)?;
        claim.frames = true;
        self.route = Some(claim.route);
        Some(claim)
    }

    /// The claim is given back before any frame; no attempt is spent.
    pub fn release(&mut self, session: SessionId) {
        if let Some(claim) = self.claim.take_if(|claim| claim.spoken_by(session)) {
            self.record.state = before(&claim);
        }
    }

    /// Its conversation is gone. A frame may have been heard: nobody knows how much.
    pub fn lose(&mut self, session: SessionId) {
        if let Some(claim) = self.claim.take_if(|claim| claim.spoken_by(session)) {
            if claim.frames { self.doubt() } else { self.record.state = before(&claim) }
        }
    }

    /// A restart: a claim of another boot may have been spoken in part.
    pub fn recover(&mut self, boot: BootId) {
        if self.is_handed_off() {
            return; // it goes on
        }
        let claim = self.claim.take_if(|claim| claim.boot != boot);
        let open = matches!(self.record.state, DeliveryState::Speaking | DeliveryState::Claimed);
        if open && (claim.is_some() || self.claim.is_none()) {
            if fault(Fault::SpokenForgottenAtRestart) {
                self.record.state = DeliveryState::Ready;
                return;
            }
            self.doubt();
        }
    }

    /// Evidence from a conversation that has or had it. Says which conversation must stop telling it, if another one, or a
    /// repeat, is under way.
    pub fn settled(&mut self, session: SessionId, evidence: &[ClauseEvidence]) -> Option<SessionId> {
        if self.record.state.terminal() || !self.tellers.contains(&session) {
            return None;
        }
        for known in evidence {
            self.credit(known);
        }
        let heard = self.record.clauses.iter().all(|clause| clause.heard.is_some());
        let mine = |claim: &mut Claim| claim.spoken_by(session) && claim.ended_by(evidence, heard);
        match self.claim.take_if(mine) {
            Some(_) if heard => {
                self.record.state = DeliveryState::Spoken;
                None
            }
            Some(claim) => {
                self.ended(&claim, evidence);
                None
            }
            None if heard => {
                self.record.state = DeliveryState::Spoken;
                self.claim.take().map(|claim| claim.session)
            }
            None => None,
        }
    }

    /// Nothing of it is told from now on. Says which conversation must stop telling it.
    pub fn end(&mut self, state: DeliveryState, by: Option<DeliveryId>) -> Option<SessionId> {
        assert!(state.terminal(), "a delivery ends in a terminal state, not {state:?}");
        if self.record.state.terminal() {
            return None;
        }
        self.record.state = state;
        self.record.superseded_by = by;
        self.claim.take().map(|claim| claim.session)
    }

    fn credit(&mut self, known: &ClauseEvidence) {
        let ClauseVerdict::Heard(evidence) = known.verdict else { return };
        for (clause, index) in self.record.clauses.iter_mut().zip(0_u32..) {
            if clause.heard.is_none() && (known.clause == index || known.clause == SpokenClause::SHORT) {
                clause.heard = Some(evidence);
            }
        }
    }

    /// A claim ended without everything heard.
    fn ended(&mut self, claim: &Claim, evidence: &[ClauseEvidence]) {
        if evidence.is_empty() && !claim.frames {
            self.record.state = before(claim);
            return;
        }
        let verdict = |told: &u32| evidence.iter().rev().find(|known| known.clause == *told).map(|known| known.verdict);
        let cut = claim.told.iter().any(|told| matches!(verdict(told), None | Some(ClauseVerdict::Unheard)));
        // A clause that was cut takes nothing from the doubt about another.
        let doubtful = claim.told.iter().any(|told| verdict(told) == Some(ClauseVerdict::Uncertain));
        if cut && !doubtful {
            // What an earlier attempt left in doubt is still in doubt.
            self.record.state = before(claim);
            self.record.attempt = self.record.attempt.saturating_add(1);
        } else {
            self.doubt();
        }
    }

    fn doubt(&mut self) {
        if fault(Fault::DoubtForgotten) {
            self.record.state = DeliveryState::Ready;
            return;
        }
        self.record.attempt = self.record.attempt.saturating_add(1);
        self.record.state = match self.record.uncertain {
            UncertainPolicy::Check | UncertainPolicy::Repeat => DeliveryState::Uncertain,
            UncertainPolicy::Suppress => DeliveryState::Suppressed,
        };
    }
}

/// Where a claim that says nothing new leaves its delivery.
fn before(claim: &Claim) -> DeliveryState {
    if claim.doubted { DeliveryState::Uncertain } else { DeliveryState::Ready }
}

/// After so many cuts or doubts a delivery only rides, or waits to be asked for: trying again would be a nuisance.
const CUTS_MAX: u32 = 3;

/// After so many tellings of which nobody knows whether they were heard, a delivery stays `Uncertain`, visibly, until it is asked for
/// or late evidence comes: a line that loses a little all the time would have it told for ever.
pub const DOUBTS_MAX: u32 = 6;

/// Conversations whose late evidence is awaited: evidence comes within seconds, so only the latest matter.
const TELLERS_MAX: usize = 8;
