//! What is obsolete on its topic: a newer request of the same caller makes an untold closing superseded, a later version of the
//! result makes it stale.
//!
//! Where a closing's result carries a version (`version_field`), versions alone decide: a newer request that has not been answered
//! yet is no reason to keep back what is known.

use std::collections::BTreeMap;

use super::batch::Batch;
use super::commit::Lane;
use super::effect::Effect;
use super::machine::{Ledger, World};
use super::operation::Operation;
use super::record::{BatchRecord, DeliveryState};
use super::work::Work;
use crate::faults::{Fault, fault};
use crate::ids::{PartyId, SessionId};
use crate::time::Step;

/// What is known of the topics of every caller of whom a batch is held in memory: as many callers as there are operations held, at
/// the most, and for each of them as many topics as are configured.
#[derive(Debug, Clone, Default)]
pub(super) struct Topics {
    newest: BTreeMap<(Owner, String), Newest>,
}

/// Whose operations are compared: the party's where it is known, otherwise the conversation's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Party(PartyId),
    Session(SessionId),
}

#[derive(Debug, Clone, Default)]
struct Newest {
    /// The newest lane on the topic.
    lane: u64,
    /// The latest version of a result.
    version: Option<i64>,
    /// Nothing older than this lane may still be judged by it.
    until: u64,
}

/// What makes a closing obsolete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overtaken {
    ByRequest,
    ByVersion,
}

impl Topics {
    /// A batch has left memory: forgets what can make nothing obsolete any more, as no lane of its owner is left that is older than
    /// what is remembered.
    pub fn forget(&mut self, batch: &Batch, lanes: &BTreeMap<u64, Lane>) {
        let owner = owner(&batch.record);
        let theirs: Vec<(Owner, String)> =
            self.newest.range((owner.clone(), String::new())..).map(|(of, _)| of).take_while(|(of, _)| *of == owner).cloned().collect();
        if theirs.is_empty() {
            return;
        }
        let is_theirs = |lane: &Lane| lane.batch.as_ref().is_some_and(|batch| self::owner(&batch.record) == owner);
        let oldest = lanes.iter().find(|(_, lane)| is_theirs(lane)).map_or(u64::MAX, |(&number, _)| number);
        for of in theirs {
            if self.newest.get(&of).is_some_and(|newest| oldest >= newest.until) {
                self.newest.remove(&of);
            }
        }
    }
}

impl Ledger {
    /// A closing that is to be told, and that something newer has overtaken, is told no more. Asked whenever a batch has changed
    /// durably, so that it holds for results that come later.
    pub(super) fn supersede(&mut self, number: u64, step: &mut Step, effects: &mut Vec<Effect>) {
        let (newer, later) = self.is_on_record(number);
        // Only what is new makes others obsolete; a batch on which nothing is new can only be so itself.
        let lanes = match (later, newer) {
            (true, _) => 0..=u64::MAX,
            (false, true) => 0..=number,
            (false, false) => number..=number,
        };
        let obsolete: Vec<(u64, Overtaken)> =
            self.lanes.range(lanes).filter_map(|(&lane, found)| Some((lane, self.overtaken(lane, found.batch.as_ref()?)?))).collect();
        for (lane, by) in obsolete {
            let state = if by == Overtaken::ByVersion { DeliveryState::Suppressed } else { DeliveryState::Superseded };
            self.put(lane, Work::Obsolete { state }, step, effects);
        }
    }

    /// What a batch has on record is known of its topics; says whether it is the newest request, and whether a version of it the latest.
    pub(super) fn is_on_record(&mut self, number: u64) -> (bool, bool) {
        let (mut newer, mut later) = (false, false);
        let Some(batch) = self.lanes.get(&number).and_then(|lane| lane.batch.as_ref()) else { return (newer, later) };
        let owner = owner(&batch.record);
        for operation in &batch.operations {
            let policy = self.world.policy(&operation.record.tool);
            let Some(topic) = policy.topic.clone() else { continue };
            let version = version(operation, &self.world);
            let newest = self.topics.newest.entry((owner.clone(), topic)).or_default();
            newer |= newest.until == 0 || newest.lane < number;
            later |= version > newest.version;
            newest.lane = newest.lane.max(number);
            newest.version = newest.version.max(version);
            newest.until = if version.is_some() { self.next_lane } else { newest.until.max(number) };
        }
        (newer, later)
    }

    /// Whether a batch's closing is still to be told, and something newer is known on every topic of it.
    fn overtaken(&self, number: u64, batch: &Batch) -> Option<Overtaken> {
        if batch.deliveries.iter().all(|delivery| delivery.record.state.terminal()) {
            return None;
        }
        let owner = owner(&batch.record);
        let mut by = None;
        for operation in &batch.operations {
            let topic = self.world.policy(&operation.record.tool).topic.clone()?;
            let newest = self.topics.newest.get(&(owner.clone(), topic))?;
            let one = match version(operation, &self.world) {
                Some(own) => newest.version.is_some_and(|latest| latest > own).then_some(Overtaken::ByVersion),
                None => (newest.lane > number).then_some(Overtaken::ByRequest),
            }?;
            if one == Overtaken::ByVersion && fault(Fault::OlderVersionTold) {
                return None;
            }
            by = Some(if by == Some(Overtaken::ByVersion) { Overtaken::ByVersion } else { one });
        }
        by
    }
}

fn owner(batch: &BatchRecord) -> Owner {
    batch.party.clone().map_or(Owner::Session(batch.session), Owner::Party)
}

/// The version of an operation's result, where its tool says which field holds it.
fn version(operation: &Operation, world: &World) -> Option<i64> {
    let path = world.policy(&operation.record.tool).version_field.as_ref()?;
    path.split('.').try_fold(operation.record.known_result()?, |value, field| value.get(field))?.as_i64()
}
