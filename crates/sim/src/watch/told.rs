//! What is told: every frame of a delivery that leaves the box, and what then counts as heard.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::conversation::{Acoustic, Evidence, Purpose, SegmentRef};
use recado_core::gate::DeliveryDecision;
use recado_core::ids::{BootId, DeliveryId, OperationId, PlaybackId, SessionId};
use recado_core::ledger::{DeliveryEnvelope, DeliveryKind, DeliveryRecord, DeliveryState, Route, SpokenClause};
use recado_core::policy::{CanInterrupt, ProgressPolicy};

use super::commits::Policies;
use super::honest::honest;
use super::{Moment, may_be_told};
use crate::call::Call;
use crate::edges::Machine;
use crate::store::MemoryStore;
use crate::tools::Tools;
use crate::violation::{Findings, Invariant};
use crate::voice::{FRAME, Released};

/// What was told, over all calls and boots.
#[derive(Debug, Default)]
pub struct Told {
    /// Clauses whose last frame left the box.
    clauses: BTreeMap<(DeliveryId, u32), Vec<Sounded>>,
    /// Clauses heard since the delivery was last heard whole.
    since_whole: BTreeMap<DeliveryId, BTreeSet<u32>>,
    /// How often a delivery was heard whole.
    pub whole: BTreeMap<DeliveryId, u32>,
    /// Deliveries that have been uncertain since they were last heard whole.
    pub(super) doubted: BTreeSet<DeliveryId>,
    /// When a delivery came to its end, as the store has it.
    pub(super) ended: BTreeMap<DeliveryId, u64>,
    /// When a delivery became durable (ms).
    pub(super) made: BTreeMap<DeliveryId, u64>,
    /// Playbacks that are announcements, and of what.
    announcements: BTreeMap<PlaybackId, DeliveryId>,
    /// The latest claim of each delivery.
    pub(super) claims: BTreeMap<DeliveryId, Claimed>,
    /// Whose latest claim of a delivery has been given up, and since when (ms).
    pub(super) given_up: BTreeMap<DeliveryId, (SessionId, u64)>,
    /// Deliveries that another way has received: once each, whatever comes again under the same name.
    received: BTreeSet<DeliveryId>,
    /// Deliveries whose hand-off was acknowledged.
    pub(super) acknowledged: BTreeSet<DeliveryId>,
    /// Operations that have ever been on record as not known.
    pub(super) unknown: BTreeSet<OperationId>,
    /// Of what kind each piece of news is, and which operations it is about.
    news: BTreeMap<DeliveryId, (DeliveryEnvelope, String)>,
}

#[derive(Debug)]
struct Sounded {
    session: SessionId,
    segment: SegmentRef,
    heard: bool,
}

/// A claim that is on record.
#[derive(Debug)]
pub(super) struct Claimed {
    pub boot: BootId,
    /// Whether the delivery was too old when it was claimed, or something newer was known.
    pub obsolete: bool,
    /// Whether it was in doubt before.
    pub doubted: bool,
    /// Whether a frame has been released, or another way may have received it.
    pub frames: bool,
}

impl Told {
    /// Something is given to the voice. What is announced is alone in its playback (I8). R4: a claim is durable, and this
    /// conversation's, before its delivery is spoken.
    pub fn speaks(
        &mut self,
        store: &MemoryStore,
        call: &Call,
        playback: PlaybackId,
        what: &Purpose,
        boot: BootId,
        findings: &mut Findings,
    ) {
        let of = if let Purpose::Clause { delivery, .. } = what { Some(*delivery) } else { None };
        let alone = self.announcements.get(&playback).is_none_or(|announced| Some(*announced) == of);
        findings.check(alone, Invariant::I8, || format!("{what:?} is said in the middle of an announcement"));
        let Some(delivery) = of else { return };
        let decided = call.decisions.iter().rfind(|decision| decision.delivery == delivery);
        if decided.is_some_and(|decision| matches!(decision.answer, DeliveryDecision::DeliverNow { .. })) {
            self.announcements.entry(playback).or_insert(delivery);
        }
        let speaking = store.deliveries.get(&delivery).is_some_and(|record| record.state == DeliveryState::Speaking);
        findings.check(speaking, Invariant::I16, || format!("R4: {delivery} is spoken before its claim is durable"));
        let claim = store.claims.get(&delivery).copied();
        let ours = claim.is_some_and(|(session, owner, route)| (session, owner) == (call.session, boot) && route != Route::HandOff);
        findings.check(ours, Invariant::I17, || format!("{} speaks, the claim is {claim:?}", call.session));
    }

    /// A conversation has news of how far operations are.
    pub fn has_news(&mut self, envelope: &DeliveryEnvelope, text: &str) {
        self.news.insert(envelope.delivery, (envelope.clone(), text.to_owned()));
    }

    /// News is given to the voice: its tool's policy must have it said, and no delivery of kind `silent` is. That an operation waits for
    /// its tool to be within reach is said whatever the policy, where that is so.
    pub fn says_news(&self, store: &MemoryStore, delivery: DeliveryId, policies: &Policies, tools: &Tools, findings: &mut Findings) {
        let news = self.news.get(&delivery);
        let policy = |operation: &OperationId| policies.get(&store.operation_ever(*operation)?.tool);
        let right = news.is_some_and(|(envelope, text)| {
            let waits = text.starts_with(WAITS) && envelope.operations.iter().all(|operation| tools.was_out_of_reach(*operation));
            let wanted = envelope.operations.iter().filter_map(policy).all(|policy| policy.progress == ProgressPolicy::Say);
            envelope.kind == DeliveryKind::Progress && (waits || wanted)
        });
        findings.check(right, Invariant::Silent, || format!("this news is said: {news:?}"));
    }

    /// Another way has received a delivery; `acknowledged` says whether the box will know.
    pub fn handed_off(&mut self, delivery: DeliveryId, acknowledged: bool, findings: &mut Findings) {
        if acknowledged {
            self.acknowledged.insert(delivery);
        } else if let Some(claim) = self.claims.get_mut(&delivery) {
            claim.frames = true;
        }
        if self.received.insert(delivery) {
            self.told_whole(delivery, findings, || "by another way".to_owned());
        }
    }

    /// A frame has left the box.
    pub fn released(&mut self, store: &MemoryStore, call: &Call, released: &Released, at: Moment, link_ms: u64, findings: &mut Findings) {
        if let Purpose::Progress { batch, .. } = released.purpose {
            let closing = store.deliveries_ever().find(|record| record.batch == batch);
            let ready = closing.and_then(|closing| self.made.get(&closing.id));
            let before = ready.is_none_or(|made| at.now <= made + 2 * link_ms + FRAME);
            findings.check(before, Invariant::I19, || format!("progress of {batch} is heard, and its closing is ready since {ready:?}"));
            let theirs = store.batch_ever(batch).is_some_and(|batch| batch.session == call.session || batch.party == call.party);
            findings.check(theirs, Invariant::I14, || format!("{:?} hears news of {batch}", call.party));
        }
        let Purpose::Clause { delivery, clause } = released.purpose else { return };
        let Some(record) = store.delivery_ever(delivery) else {
            return findings.check(false, Invariant::I16, || format!("R4: a frame of {delivery}, which is not on record"));
        };
        let over_caller = record.can_interrupt == CanInterrupt::Caller;
        let may = call.voice.acoustic() == Acoustic::Quiet || over_caller || call.disbelieved(at.now);
        findings.check(may, Invariant::I9, || format!("a frame of {delivery} while the caller is {:?}", call.voice.acoustic()));
        // What the core has ended still sounds until its command has come to the voice.
        let grace = 2 * link_ms + FRAME;
        let held_up = |since: u64| call.voice.held_up(since, grace, at.now);
        let ended = self.ended.get(&delivery).is_some_and(|ended| at.now > ended + grace && !held_up(*ended));
        findings.check(!ended, Invariant::I10, || format!("a frame of {delivery}, which is {:?}", record.state));
        let lately = call.lowered_at.is_some_and(|since| at.now <= since + grace || held_up(since));
        let hears = lately || may_be_told(call, record);
        findings.check(hears, Invariant::I14, || format!("{:?} ({:?}) hears {record:?}", call.party, call.identity));
        let claim = store.claims.get(&delivery);
        let claimed = claim.is_some_and(|(session, _, route)| *session == call.session && *route != Route::HandOff);
        // Behind a media thread that was held up for so long that the claim was given up, the clear is still on its way.
        let overdue = self.given_up.get(&delivery).is_some_and(|(session, since)| *session == call.session && held_up(*since));
        findings.check(claimed || overdue || self.ended.contains_key(&delivery), Invariant::I17, || {
            format!("R4: a frame of {delivery} without a claim")
        });
        if let Some(claim) = self.claims.get_mut(&delivery)
            && !std::mem::replace(&mut claim.frames, true)
        {
            findings.check(!claim.obsolete, Invariant::I10, || format!("{delivery} was obsolete when it was claimed, and is told"));
            if claimed {
                findings.edge(Machine::Delivery, "Claimed", "Speaking", || delivery.to_string());
            }
        }
        if let (Some(clause), 0) = (clause, released.frame) {
            honest(store, call, released, clause, record, &self.unknown, findings);
        }
        if let (Some(clause), true) = (clause, released.last) {
            let segment = released.segment;
            let sounded = Sounded { session: call.session, segment, heard: !call.voicemail && call.voice.hears(segment) };
            self.clauses.entry((delivery, clause)).or_default().push(sounded);
            self.whole(record, clause, findings);
            if call.voicemail {
                // On its way when the machine was heard of: nobody heard it, and nothing is credited.
                self.doubted.insert(delivery);
            }
        }
    }

    /// I1: a closing is heard whole again only after doubt.
    fn whole(&mut self, record: &DeliveryRecord, clause: u32, findings: &mut Findings) {
        let heard = self.since_whole.entry(record.id).or_default();
        heard.insert(clause);
        let whole = heard.contains(&SpokenClause::SHORT) || (0_u32..).zip(&record.clauses).all(|(at, _)| heard.contains(&at));
        if whole {
            heard.clear();
            self.told_whole(record.id, findings, || format!("{record:?}"));
        }
    }

    fn told_whole(&mut self, delivery: DeliveryId, findings: &mut Findings, what: impl FnOnce() -> String) {
        let times = self.whole.entry(delivery).or_default();
        *times += 1;
        let once = *times == 1 || self.doubted.contains(&delivery);
        findings.check(once, Invariant::I1, || format!("{delivery} is told {times} times, without doubt: {}", what()));
        self.doubted.remove(&delivery);
    }

    /// I6: what counts as heard was heard.
    pub(super) fn spoken(&self, record: &DeliveryRecord, findings: &mut Findings) {
        if record.kind != DeliveryKind::Final {
            return;
        }
        for (at, clause) in (0_u32..).zip(&record.clauses) {
            let sounded = [at, SpokenClause::SHORT].into_iter().filter_map(|at| self.clauses.get(&(record.id, at))).flatten();
            findings.check(clause.heard.is_some(), Invariant::I16, || format!("R5: spoken without evidence: {record:?}"));
            let heard = sounded.into_iter().any(|sounded| sounded.heard || clause.heard == Some(Evidence::Sent));
            findings.check(heard, Invariant::I6, || format!("clause {at} of {record:?} is spoken, and the ear did not hear it"));
        }
    }

    /// Copies of packets that came after a clause hide some of its loss from whoever counts: what no far end can tell counts as heard.
    /// A clear may have thrown away what lay in the far end's buffer.
    pub fn listen_again(&mut self, calls: &[Call]) {
        for sounded in self.clauses.values_mut().flatten() {
            if let Some(call) = calls.iter().find(|call| call.session == sounded.session && !call.voicemail) {
                sounded.heard = call.voice.hears(sounded.segment);
            }
        }
    }

    /// A clear came to the far end before it had played a segment: nobody heard that to its end.
    pub fn thrown_away(&mut self, call: &Call, segment: SegmentRef) {
        if let Some((Purpose::Clause { delivery, .. }, _)) = call.voice.purposes.get(&segment) {
            self.doubted.insert(*delivery);
        }
    }

    /// It was a machine that heard what was said in a call: nobody did. What had been credited before that was known stays so.
    pub fn machine_heard(&mut self, call: &Call) {
        for ((delivery, _), sounded) in &mut self.clauses {
            let before = sounded.len();
            sounded.retain(|sounded| sounded.session != call.session || call.watch.history.counts(sounded.segment));
            if sounded.len() < before {
                self.doubted.insert(*delivery);
            }
        }
    }

    /// A call is over: what lay in the far end's buffer was not heard.
    pub fn call_over(&mut self, call: &Call) {
        for sounded in self.clauses.values_mut() {
            sounded.retain(|sounded| sounded.session != call.session || call.voice.hears(sounded.segment) || !sounded.heard);
        }
    }
}

/// How the box says that an operation waits for its tool to be within reach.
const WAITS: &str = "Queda anotado.";
