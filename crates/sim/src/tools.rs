//! The tools' own ledger: which effects took place, whatever the box believes (I3), and what may be known of each attempt (R2).

use std::collections::{BTreeMap, BTreeSet};

use recado_core::ids::{IntentKey, OperationId, PartyId, TurnId};
use recado_core::ledger::{
    self, AttemptOutcome, BatchState, CancelOutcome, Dispatch, Executed, InquiryOutcome, OperationRecord, OperationResult, OperationState,
    RequestId,
};
use recado_core::policy::{DuplicatePolicy, ToolPolicy};
use serde_json::json;

use crate::action::{CancelAnswered, InquiryAnswered};
use crate::store::MemoryStore;
use crate::violation::{Findings, Invariant};

/// What every tool did.
#[derive(Debug, Default)]
pub struct Tools {
    effects: BTreeMap<IntentKey, u32>,
    sent: BTreeMap<OperationId, Sent>,
    /// Under which key what was asked for in a turn was sent.
    asked: BTreeMap<(TurnId, Option<PartyId>, String, String), IntentKey>,
    /// What the model said that the caller had confirmed, in which turn.
    confirmed: BTreeSet<(TurnId, String, String)>,
    /// What senders of results have said that wait, or waited, for their answer.
    said: BTreeMap<RequestId, OperationResult>,
    /// Operations of which an attempt could not be sent, for their tool was out of reach.
    unreached: BTreeSet<OperationId>,
    /// Results that were taken back, and when (ms).
    pub retracted: BTreeMap<RequestId, (OperationId, u64)>,
}

/// What an intent key is about, and how often that had been asked for.
fn occurrence(key: &IntentKey) -> Option<(&str, u32)> {
    let (base, occurrence) = key.0.rsplit_once('|')?;
    Some((base, occurrence.parse().ok()?))
}

#[derive(Debug)]
struct Sent {
    key: IntentKey,
    idempotent: bool,
    attempts: BTreeMap<u32, Fate>,
    /// Whether the tool has said, once and for all, that it did not happen.
    refused: bool,
    /// Whether it has said, when it was asked, that it never got what has been sent so far.
    never_got: bool,
    /// Whether it has undone it.
    undone: bool,
    /// Whether it has said that it happened, be it true or not: without its word nobody knows.
    claims_it: bool,
    /// Whether its word that it did not happen came by a callback that the box has not confirmed: as long as it is not on record,
    /// nobody may know.
    refusal_unconfirmed: bool,
}

impl Sent {
    fn any(&self, fates: &[Fate]) -> bool {
        self.attempts.values().any(|fate| fates.contains(fate))
    }

    fn happened(&self) -> bool {
        self.any(&[Fate::Done, Fate::Maybe])
    }

    /// The latest attempt of which nothing has come yet.
    fn open(&self) -> Option<u32> {
        self.attempts.iter().rfind(|(_, fate)| **fate == Fate::Open).map(|(attempt, _)| *attempt)
    }
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The tool has it.
    Open,
    /// It provably did not happen, and the box was told.
    NotDone,
    /// It happened; the box can't know.
    Maybe,
    /// It did not happen; the box was told, and died before that was on record.
    Forgotten,
    /// It happened.
    Done,
}

impl Tools {
    /// A request has left the box. `record` is what the store has of its operation.
    pub fn dispatched(&mut self, dispatch: &Dispatch, record: Option<&OperationRecord>, idempotent: bool, findings: &mut Findings) {
        let Dispatch { operation, attempt, intent_key, .. } = dispatch;
        let durable = record.is_some_and(|record| record.attempt >= *attempt);
        findings.check(durable, Invariant::I16, || format!("R1, R2: {dispatch:?} leaves the box, on record is {record:?}"));
        if record.is_none() {
            return;
        }
        let other = self.sent.iter().find(|(other, sent)| *other != operation && sent.key == *intent_key).map(|(other, _)| *other);
        findings.check(other.is_none(), Invariant::I3, || format!("{operation} is sent as {intent_key}, as {other:?} was"));
        let sent = self.sent.entry(*operation).or_insert_with(|| Sent {
            key: intent_key.clone(),
            idempotent,
            attempts: BTreeMap::new(),
            refused: false,
            never_got: false,
            undone: false,
            claims_it: false,
            refusal_unconfirmed: false,
        });
        findings.check(sent.key == *intent_key, Invariant::I3, || format!("{operation} is sent as {} and as {intent_key}", sent.key));
        let ruled_out = !sent.idempotent && (1..*attempt).any(|before| sent.attempts.get(&before) != Some(&Fate::NotDone));
        findings.check(!ruled_out, Invariant::I16, || {
            format!("R2: attempt {attempt} of {operation}, which is not idempotent, after {:?}", sent.attempts)
        });
        // That was said of the attempts before.
        sent.never_got = false;
        let twice = sent.attempts.insert(*attempt, Fate::Open);
        findings.check(twice.is_none(), Invariant::I16, || format!("R2: attempt {attempt} of {operation} is sent twice"));
    }

    /// The model asks for something.
    pub fn asked_for(&mut self, input: &ledger::Input) {
        if let ledger::Input::Accept { turn, call, .. } = input
            && call.confirmed
        {
            self.confirmed.insert((*turn, call.tool.clone(), call.arguments.to_string()));
        }
    }

    /// Whether a request that has left the box was one to run: by its tool's policy for duplicates.
    pub fn runs_anew(
        &mut self,
        dispatch: &Dispatch,
        store: &MemoryStore,
        policies: &BTreeMap<String, ToolPolicy>,
        findings: &mut Findings,
    ) {
        let Some(record) = store.operations.get(&dispatch.operation).filter(|_| dispatch.attempt == 1) else { return };
        let duplicate = policies.get(&record.tool).map(|policy| policy.duplicate).unwrap_or_default();
        let request = (record.tool.clone(), record.arguments.to_string());
        if duplicate != DuplicatePolicy::Replace {
            let asked = (record.turn, record.party.clone(), request.0.clone(), request.1.clone());
            let key = self.asked.entry(asked).or_insert_with(|| record.intent_key.clone());
            findings.check(*key == record.intent_key, Invariant::I3, || {
                format!("one request of one turn is sent as {key} and as {}", record.intent_key)
            });
        }
        let own = occurrence(&record.intent_key);
        let before = |other: &&OperationRecord| {
            let other = occurrence(&other.intent_key);
            own.zip(other).is_some_and(|(own, other)| other.0 == own.0 && other.1 < own.1)
        };
        let closed = |other: &OperationRecord| store.batches.get(&other.batch).is_some_and(|batch| batch.state == BatchState::Closed);
        for other in store.operations.values().filter(before) {
            let right = match duplicate {
                DuplicatePolicy::Replace => other.state.settled(),
                DuplicatePolicy::Confirm => self.confirmed.contains(&(record.turn, request.0.clone(), request.1.clone())),
                DuplicatePolicy::Reuse | DuplicatePolicy::Reject => closed(other),
            };
            findings.check(right, Invariant::I3, || format!("{record:?} runs beside {other:?}, and its policy is {duplicate:?}"));
        }
    }

    /// A tool, or its executor, is asked to cancel: what it says is the truth.
    pub fn asked_to_cancel(
        &mut self,
        operation: OperationId,
        how: CancelAnswered,
        cancellable: bool,
        findings: &mut Findings,
    ) -> CancelOutcome {
        let failed = |retryable| CancelOutcome::Failed { error: "no".into(), retryable, retry_after_ms: None };
        let Some(sent) = self.sent.get_mut(&operation) else { return CancelOutcome::Unsupported };
        let (open, happened) = (sent.open(), sent.happened());
        match how {
            CancelAnswered::Failed => failed(true),
            CancelAnswered::Refused => failed(false),
            CancelAnswered::Recalled if let Some(attempt) = open => {
                self.ends(operation, attempt, Fate::NotDone, findings);
                CancelOutcome::Recalled
            }
            _ if !cancellable || how == CancelAnswered::Unsupported => CancelOutcome::Unsupported,
            _ if sent.undone => CancelOutcome::Compensated,
            CancelAnswered::TooLate | CancelAnswered::TooLateWithResult if happened || open.is_some() => {
                if let Some(attempt) = open.filter(|_| !happened) {
                    self.ends(operation, attempt, Fate::Done, findings);
                }
                self.claimed(operation);
                let result = (how == CancelAnswered::TooLateWithResult).then(|| json!({ "value": "a las nueve" }));
                CancelOutcome::TooLate { result }
            }
            _ if happened => {
                sent.undone = true;
                CancelOutcome::Compensated
            }
            _ => {
                sent.refused = true;
                for fate in sent.attempts.values_mut().filter(|fate| **fate == Fate::Open) {
                    *fate = Fate::NotDone;
                }
                CancelOutcome::Cancelled
            }
        }
    }

    /// A tool is asked how an operation stands: what it says is the truth.
    pub fn asked_how_it_stands(&mut self, operation: OperationId, how: InquiryAnswered, findings: &mut Findings) -> InquiryOutcome {
        let unanswered = |retryable| InquiryOutcome::Unanswered { error: "no".into(), retryable, retry_after_ms: None };
        let Some(sent) = self.sent.get_mut(&operation) else { return InquiryOutcome::Forgotten };
        let (open, happened) = (sent.open(), sent.happened());
        match how {
            InquiryAnswered::Unanswered => unanswered(true),
            InquiryAnswered::Refused => unanswered(false),
            InquiryAnswered::Unsupported => InquiryOutcome::Unsupported,
            InquiryAnswered::Forgotten => InquiryOutcome::Forgotten,
            InquiryAnswered::Running if open.is_some() => InquiryOutcome::Running { again_ms: None },
            _ if sent.undone => InquiryOutcome::Forgotten,
            _ if happened || open.is_some() => {
                if let Some(attempt) = open.filter(|_| !happened) {
                    self.ends(operation, attempt, Fate::Done, findings);
                }
                self.claimed(operation);
                InquiryOutcome::Succeeded(json!({ "value": "a las nueve" }))
            }
            _ => {
                sent.never_got = true;
                InquiryOutcome::NotExecuted
            }
        }
    }

    /// An executor reports. Only its first word on an attempt is the truth; that it happened is believed also when it comes later.
    pub fn reported(&mut self, operation: OperationId, attempt: u32, outcome: &AttemptOutcome, findings: &mut Findings) {
        let fate = match outcome {
            AttemptOutcome::Succeeded(_) => Fate::Done,
            AttemptOutcome::Deferred | AttemptOutcome::Taken { .. } => Fate::Open,
            AttemptOutcome::Unreachable { .. } => Fate::NotDone,
            AttemptOutcome::Failed { executed: Executed::No, .. } => Fate::NotDone,
            AttemptOutcome::Failed { executed: Executed::Maybe, .. } => Fate::Maybe,
        };
        if matches!(outcome, AttemptOutcome::Unreachable { .. }) {
            self.unreached.insert(operation);
        }
        if let Some(sent) = self.sent.get_mut(&operation) {
            sent.claims_it |= fate == Fate::Done;
        }
        self.ends(operation, attempt, fate, findings);
    }

    /// Whether an attempt at an operation could not be sent, for its tool was out of reach.
    pub fn was_out_of_reach(&self, operation: OperationId) -> bool {
        self.unreached.contains(&operation)
    }

    /// A tool sends its result: of what it still has, if it has anything.
    pub fn called_back(&mut self, (request, operation): (RequestId, OperationId), result: &OperationResult, findings: &mut Findings) {
        self.said.insert(request, result.clone());
        let Some(sent) = self.sent.get_mut(&operation) else { return };
        let refused = matches!(result, OperationResult::Failed(_));
        sent.refused |= refused;
        sent.claims_it |= !refused;
        if let Some(attempt) = sent.open() {
            sent.refusal_unconfirmed = refused;
            self.ends(operation, attempt, if refused { Fate::NotDone } else { Fate::Done }, findings);
        }
    }

    /// The box has confirmed a result: it is what is on record, or nothing of it is in effect (R3).
    pub fn confirmed(&mut self, request: RequestId, record: &OperationRecord, findings: &mut Findings) {
        if let Some(result) = self.said.get(&request) {
            let kept = match result {
                OperationResult::Succeeded(value) => record.known_result() == Some(value) || record.state == OperationState::Compensated,
                OperationResult::Failed(error) => {
                    record.state.undone() || (record.state == OperationState::Failed && record.error.as_ref() == Some(error))
                }
            };
            findings.check(kept, Invariant::I16, || format!("R3: {result:?} is confirmed, and on record is {record:?}"));
        }
        if let Some(sent) = self.sent.get_mut(&record.id) {
            sent.refusal_unconfirmed = false;
        }
    }

    /// Its tool says that it happened.
    fn claimed(&mut self, operation: OperationId) {
        if let Some(sent) = self.sent.get_mut(&operation) {
            sent.claims_it = true;
        }
    }

    /// The box died: what the tools have they carry out, and what was not on record it does not know.
    pub fn box_died(&mut self, store: &MemoryStore, findings: &mut Findings) {
        for (operation, sent) in &mut self.sent {
            let Some(record) = store.operations.get(operation).filter(|record| !record.state.settled()) else { continue };
            let waits = record.state == OperationState::RetryWait;
            if let Some(fate) = sent.attempts.get_mut(&record.attempt).filter(|fate| **fate == Fate::NotDone && !waits) {
                *fate = Fate::Forgotten;
            }
        }
        let open = |(operation, sent): (&OperationId, &Sent)| {
            let attempts = sent.attempts.iter().filter(|(_, fate)| **fate == Fate::Open);
            attempts.map(|(attempt, _)| (*operation, *attempt)).collect::<Vec<_>>()
        };
        for (operation, attempt) in self.sent.iter().flat_map(open).collect::<Vec<_>>() {
            self.ends(operation, attempt, Fate::Maybe, findings);
        }
    }

    fn ends(&mut self, operation: OperationId, attempt: u32, fate: Fate, findings: &mut Findings) {
        let Some(sent) = self.sent.get_mut(&operation) else { return };
        let Some(known) = sent.attempts.get_mut(&attempt).filter(|known| **known == Fate::Open) else { return };
        *known = fate;
        if matches!(fate, Fate::Done | Fate::Maybe) {
            let times = self.effects.entry(sent.key.clone()).or_default();
            // Who knows a key does nothing for it again.
            *times = if sent.idempotent { 1 } else { *times + 1 };
            findings.check(*times <= 1, Invariant::I3, || format!("{times} effects under {}: {:?}", sent.key, sent.attempts));
        }
    }

    /// How an operation ended goes on record: it must be what may be known.
    /// What is known of it may not be on record yet where the store is `unwell`; until then nobody knows.
    pub fn settles(&self, record: &OperationRecord, unwell: bool, findings: &mut Findings) {
        let sent = self.sent.get(&record.id);
        let refused = sent.is_some_and(|sent| sent.refused || sent.never_got);
        let fate = |attempt: u32| sent.and_then(|sent| sent.attempts.get(&attempt).copied());
        let none_happened = (1..=record.attempt).all(|attempt| fate(attempt) == Some(Fate::NotDone));
        // What could not be put on record is to be sent again.
        let unheard_of = sent.is_some_and(|sent| sent.refusal_unconfirmed);
        let right = match record.state {
            OperationState::Failed | OperationState::Cancelled => none_happened || refused,
            // Its tool may say that it happened after an executor has ruled that out: what could not be put on record stays in doubt.
            OperationState::Unknown => !none_happened || unheard_of || unwell || sent.is_some_and(|sent| sent.claims_it),
            OperationState::Compensated => sent.is_some_and(|sent| sent.undone),
            OperationState::Succeeded | OperationState::TooLate => sent.is_some_and(|sent| sent.claims_it),
            _ => true,
        };
        findings.check(right, Invariant::I12, || {
            format!("{} ends {:?} after {} attempts, of which this is known: {sent:?}", record.id, record.state, record.attempt)
        });
    }
}
