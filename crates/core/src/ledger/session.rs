//! The conversations that are up, and which of them may hear which delivery.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::batch::Batch;
use super::consent::Consents;
use super::effect::{Effect, News};
use super::machine::World;
use super::work::withdrawn;
use crate::faults::{Fault, fault};
use crate::ids::{DeliveryId, PartyId, ResponseId, SessionId};
use crate::policy::{Audience, Language};
use crate::time::Step;

/// A conversation that is up.
#[derive(Debug, Clone)]
pub(super) struct Listener {
    pub party: Option<PartyId>,
    pub language: Language,
    /// Responses whose batches are sealed: an operation that one of them asks for later opens a batch that is sealed at once.
    sealed: VecDeque<ResponseId>,
    /// What its caller is asked to consent to.
    pub consents: Consents,
}

impl Listener {
    pub fn new(party: Option<PartyId>, language: Language) -> Self {
        Self { party, language, sealed: VecDeque::new(), consents: Consents::default() }
    }

    pub fn seal(&mut self, response: ResponseId) {
        if self.sealed(response) {
            return;
        }
        self.sealed.push_back(response);
        if self.sealed.len() > SEALED_MAX {
            self.sealed.pop_front();
        }
    }

    pub fn sealed(&self, response: ResponseId) -> bool {
        self.sealed.contains(&response)
    }
}

/// Whether a conversation may be told what belongs to another, or to its party (I14): the first conversation comes first and keeps
/// the others out while it is up; then any of the same party, unless it is for the same call only. What has no party is told in its
/// own conversation only. Whether the party is known well enough is the gate's question, asked of the caller.
pub(super) fn may_hear(
    sessions: &BTreeMap<SessionId, Listener>,
    session: SessionId,
    listener: &Listener,
    (first, party): (SessionId, Option<&PartyId>),
    audience: Audience,
) -> bool {
    let same = (party.is_some() && listener.party.as_ref() == party) || fault(Fault::AnybodyHears);
    if first == session {
        return same || party.is_none() || listener.party.is_none();
    }
    same && audience != Audience::SameCall && !sessions.contains_key(&first)
}

/// Which conversations have been offered which delivery.
#[derive(Debug, Clone, Default)]
pub(super) struct Offers {
    to: BTreeMap<DeliveryId, BTreeSet<SessionId>>,
}

impl Offers {
    /// Brings what has been offered in line with what may be told now.
    pub fn renew(&mut self, batch: &Batch, world: &World, step: &Step, effects: &mut Vec<Effect>) {
        let sessions = &world.sessions;
        for delivery in &batch.deliveries {
            let record = &delivery.record;
            let open = batch.tellable(delivery) && !delivery.stale(step);
            let may: BTreeSet<SessionId> = sessions
                .iter()
                .filter(|(session, listener)| open && world.may_hear(**session, listener, record))
                .map(|(&session, _)| session)
                .collect();
            let had = self.to.remove(&record.id).unwrap_or_default();
            let claimant = delivery.claim.as_ref().map(|claim| claim.session);
            let told = |session: &&SessionId| Some(**session) != claimant && sessions.contains_key(*session);
            for &session in had.difference(&may).filter(told).filter(|_| !fault(Fault::SupersededGoesOn)) {
                effects.push(withdrawn(session, record.id));
            }
            for &session in may.difference(&had) {
                effects.push(Effect::Tell { session, news: News::Offered(delivery.envelope()) });
            }
            if !may.is_empty() {
                self.to.insert(record.id, may);
            }
        }
    }

    pub fn forget(&mut self, delivery: DeliveryId) {
        self.to.remove(&delivery);
    }
}

/// Ended responses that are remembered for each conversation: a tool call comes at most a few responses late.
const SEALED_MAX: usize = 64;
