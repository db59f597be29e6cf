//! How it all comes to its end: the faults stop, the callers are quiet, the model answers, the tools too. Then nothing may be left
//! open: each operation is settled, each closing is told, or its rule has ended it (I2, I13).

use std::collections::BTreeSet;

use recado_core::conversation::{Cause, Content, Identity, Input, ModelEvent};
use recado_core::ids::BatchId;
use recado_core::ledger::{AttemptOutcome, BatchRecord, BatchState, DOUBTS_MAX, DeliveryRecord, DeliveryState, OperationResult};
use recado_core::policy::{Audience, Language};
use serde_json::json;

use crate::action::{CancelAnswered, HandOffAnswered, InquiryAnswered};

use crate::violation::Invariant;
use crate::world::World;

impl World {
    /// Lets everything come to its end.
    pub fn finish(&mut self) {
        self.heal();
        for second in 0..SECONDS_MAX {
            self.live_a_second(second);
            self.tend_the_store();
            let over = second > 10 && self.out.is_empty() && self.rig.store.in_flight() == 0;
            if self.rig.stopped() || (over && self.open_batches().is_empty() && self.open_deliveries().is_empty()) {
                break;
            }
        }
        for record in self.rig.store.operations.values().filter(|record| record.state.settled()) {
            self.rig.tools.settles(record, false, &mut self.rig.findings);
        }
        let (batches, deliveries) = (self.open_batches(), self.open_deliveries());
        let ended = batches.is_empty() && deliveries.is_empty();
        let left = if ended { String::new() } else { format!("never told: {deliveries:?}; never closed: {batches:?}") };
        self.rig.findings.now = self.rig.now;
        self.rig.findings.check(ended, Invariant::I13, || left);
        let unanswered = self.rig.unanswered();
        self.rig.findings.check(unanswered.is_empty(), Invariant::I16, || format!("R3: nobody answers {unanswered:?}"));
        let now = self.rig.now;
        for call in self.rig.calls.iter().filter(|call| !call.over && !call.hung_up) {
            let answered = call.watch.owed_since.is_none_or(|at| now < at + 10_000);
            self.rig.findings.check(answered, Invariant::I18, || "a turn whose response failed is not answered".into());
        }
        self.hear_late_words();
    }

    fn heal(&mut self) {
        self.rig.store.failing = false;
        self.rig.store.delay_ms = 3;
        self.rig.line.heal();
        for at in 0..self.rig.calls.len() {
            let (call, now) = (&mut self.rig.calls[at], self.rig.now);
            (call.voice.engine.render_ms, call.voice.engine.failing, call.voice.far_end.losing) = (30, 0, 0);
            call.voice.far_end.cut_off = false;
            call.voice.stalled_until = call.voice.stalled_until.min(now);
            call.voice.far_end.rtcp = true;
            call.voice.far_end.line.heal();
            call.voice.far_end.next_report = call.voice.far_end.next_report.min(now + 5_000);
            if !call.over && call.voicemail {
                self.rig.hang_up(at);
            }
            if !self.rig.calls[at].over && self.rig.calls[at].on_hold {
                self.rig.hold(at, false);
            }
            if !self.rig.calls[at].over && self.rig.calls[at].floor_held {
                self.rig.calls[at].floor_held = false;
                self.rig.input(at, Input::FloorHeld(false));
            }
        }
    }

    fn live_a_second(&mut self, second: u64) {
        self.collect();
        while let Some((operation, attempt, _)) = self.out.pop() {
            self.rig.report(operation, attempt, AttemptOutcome::Succeeded(json!({ "value": DONE })));
        }
        while !self.rig.cancels.is_empty() {
            self.answer_cancel(0, CancelAnswered::Undone, false);
        }
        while !self.rig.inquiries.is_empty() {
            self.answer_inquiry(0, InquiryAnswered::Ended, false);
        }
        while !self.rig.hand_offs.is_empty() {
            self.answer_hand_off(0, HandOffAnswered::Acknowledged);
        }
        if second == 5 {
            self.call_back_what_was_deferred();
        }
        for party in ["ana", "bea"] {
            let hears = |call: &crate::Call| !call.over && call.party.as_ref().is_some_and(|known| known.0 == party);
            if !self.rig.calls.iter().any(hears) && self.rig.calls.iter().all(|call| call.over || call.party.is_some()) {
                let call = self.rig.dial(Some(party));
                self.current.push(call);
            }
        }
        for call in 0..self.rig.calls.len() {
            self.attend(call, second);
        }
        self.rig.run(1_000);
    }

    /// Who was hung up on hangs up; who is nobody's party does after a minute; the others are answered.
    fn attend(&mut self, call: usize, second: u64) {
        if self.rig.calls[call].over {
            return;
        }
        if self.rig.calls[call].hung_up || (self.rig.calls[call].party.is_none() && second == 60) {
            return self.rig.hang_up(call);
        }
        if self.rig.calls[call].identity != Identity::Verified {
            self.rig.input(call, Input::Identified(Identity::Verified));
        }
        // What only rides waits for a turn.
        if second % 30 == 29 {
            self.rig.caller_speaks(call, 400);
        }
        if let Some(response) = self.rig.calls[call].watch.open {
            let greeting = self.rig.calls[call].asked.last().is_some_and(|(_, cause)| *cause == Cause::Greeting);
            let content = Content::Text { text: if greeting { "Hola".into() } else { "De acuerdo".into() }, language: Language::Es };
            self.rig.input(call, Input::Model(ModelEvent::Clause { response, content }));
            self.rig.complete(call, response);
        }
    }

    fn call_back_what_was_deferred(&mut self) {
        for operation in std::mem::take(&mut self.known) {
            if self.rig.store.operations.get(&operation).is_some_and(|record| !record.state.settled()) {
                self.rig.callback(operation, OperationResult::Succeeded(json!({ "value": DONE })));
            }
        }
    }

    /// Whether somebody can still hear what belongs to them.
    fn has_ears(&self, record: &DeliveryRecord) -> bool {
        let any_call = record.party.is_some() && record.audience != Audience::SameCall;
        any_call || self.rig.calls.iter().any(|call| !call.over && call.session == record.session)
    }

    fn open_batches(&self) -> Vec<&BatchRecord> {
        let deaf: BTreeSet<BatchId> = self.unended().filter(|record| !self.has_ears(record)).map(|record| record.batch).collect();
        let open = self.rig.store.batches.values().filter(|batch| batch.state != BatchState::Closed);
        let doubtful =
            |batch: &BatchRecord| self.rig.store.deliveries.values().any(|record| record.batch == batch.id && told_in_doubt(record));
        open.filter(|batch| !deaf.contains(&batch.id) && !doubtful(batch)).collect()
    }

    fn open_deliveries(&self) -> Vec<&DeliveryRecord> {
        self.unended().filter(|record| self.has_ears(record)).collect()
    }

    fn unended(&self) -> impl Iterator<Item = &DeliveryRecord> {
        self.rig.store.deliveries.values().filter(|record| !record.state.terminal() && !told_in_doubt(record))
    }
}

/// Whether it is visible as uncertain for good: told so often in doubt that it is told no more unless it is asked for.
fn told_in_doubt(record: &DeliveryRecord) -> bool {
    record.state == DeliveryState::Uncertain && record.attempt >= DOUBTS_MAX
}

/// How long it may take, with every closing cut as often as it can be (s).
const SECONDS_MAX: u64 = 600;

/// What the tools answer at last.
const DONE: &str = "a las once";
