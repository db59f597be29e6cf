//! I13: nothing latches. Where a call is idle, what waits for it begins; and the agent does not hang up over it.

use std::collections::BTreeSet;

use recado_core::ids::{BootId, SessionId};
use recado_core::ledger::{DeliveryRecord, DeliveryState, Route};
use recado_core::timers::{Timer, Timers};

use super::{Moment, Watch, may_be_told};
use crate::call::Call;
use crate::store::{Disk, MemoryStore};
use crate::violation::{Findings, Invariant};

impl Watch {
    /// What must hold whenever everything that happened has been taken in.
    pub fn idle(&mut self, store: &Disk, calls: &mut [Call], at: Moment, timers: &Timers, findings: &mut Findings) {
        let now = at.now;
        if store.failing || store.delay_ms > SLOW || store.in_flight.front().is_some_and(|(due, ..)| *due > now + SLOW) {
            self.unwell = Some(now);
        }
        let may_start = !self.commits.waiting.is_empty() && !self.unwell(now) && store.claims.is_empty();
        if !may_start {
            calls.iter_mut().for_each(|call| call.watch.waiting_since = None);
            return;
        }
        let live: BTreeSet<SessionId> = calls.iter().filter(|call| !call.conversation.finished()).map(|call| call.session).collect();
        for call in calls.iter_mut().filter(|call| !call.over) {
            let waits = |record: &DeliveryRecord| {
                record.attempt < RIDES_ONLY
                    && may_be_told(call, record)
                    && (record.session == call.session || !live.contains(&record.session))
                    && !self.stale(record, at)
            };
            let mut waiting = self.commits.waiting.keys().filter_map(|id| store.deliveries.get(id));
            if !call.quiet() || !waiting.any(waits) {
                call.watch.waiting_since = None;
                continue;
            }
            let since = *call.watch.waiting_since.get_or_insert(now);
            // Quiet, the second, and another try where a claim was refused.
            let begun = now <= since + timers.ms(Timer::MinQuiet) + 1_000 + timers.ms(Timer::ClaimAgain) + 200;
            findings.check(begun, Invariant::I13, || format!("idle since {since}, and nothing is told: {:?}", call.conversation.clocks()));
        }
    }

    /// The agent hangs up.
    pub fn hung_up(&self, store: &MemoryStore, call: &Call, at: Moment, within_ms: u64, findings: &mut Findings) {
        let now = at.now;
        let waited = call.watch.hang_up_wish.is_some_and(|wish| now >= wish + within_ms);
        if waited || self.unwell(now) {
            return;
        }
        // What has just become ready is on its way to the conversation.
        let known = self.commits.waiting.iter().filter(|(_, since)| **since < now).map(|(id, _)| id);
        let mut waiting = known.filter_map(|id| store.deliveries.get(id));
        // What was cut too often only rides, and after the goodbye nothing comes that it could ride on.
        let told_first = |record: &&DeliveryRecord| record.state == DeliveryState::Ready && record.attempt < RIDES_ONLY;
        let ready = |record: &&DeliveryRecord| told_first(record) && record.session == call.session;
        // What a correction that is being told is about is told by that: it waits for what is heard of it.
        let corrected = |record: &DeliveryRecord| {
            let later = |other: &&DeliveryRecord| other.batch == record.batch && other.sequence > record.sequence;
            let here = |(session, _, route): &(SessionId, BootId, Route)| *session == call.session && *route != Route::HandOff;
            store.deliveries.values().filter(later).any(|other| store.claims.get(&other.id).is_some_and(here))
        };
        let over = waiting.find(|record| ready(record) && may_be_told(call, record) && !self.stale(record, at) && !corrected(record));
        findings.check(over.is_none(), Invariant::HangUp, || format!("the agent hangs up over {over:?}"));
    }

    pub(super) fn unwell(&self, now: u64) -> bool {
        self.unwell.is_some_and(|at| now <= at + UNWELL)
    }
}

/// A commit that takes longer than this is a slow one (ms).
const SLOW: u64 = 50;

/// After the store failed or was slow, what it was owed is tried again within so long (ms).
const UNWELL: u64 = 45_000;

/// After so many cuts a delivery only rides.
const RIDES_ONLY: u32 = 3;
