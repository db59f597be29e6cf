//! What makes an effect "the same one", and the bounded memory of what has been asked before.
//!
//! A key is `owner|tool|digest|occurrence`: the owner is the party, or the conversation where the party is not known or the policy's scope
//! is the conversation, or nobody where it is all;
//! the digest is SHA-256 over the canonical arguments. The first three make the *base*: requests with one base are the same one.
//!
//! Only a confirmed repeat counts the occurrence up. What confirms it is the tool's policy for duplicates: that the caller, told
//! how it ended, asks again in another turn; under `confirm`, that the caller was asked and said so in a later turn; under
//! `replace`, that the request differs from the one that runs.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::input::{OperationResult, RepeatAnswer};
use super::record::{OperationRecord, OperationState};
use crate::conversation::input::ToolCall;
use crate::faults::{Fault, fault};
use crate::ids::{BatchId, IntentKey, OperationId, PartyId, SessionId, TurnId};
use crate::policy::{DuplicatePolicy, IdempotencyScope, ToolPolicy};
use crate::time::Time;

/// SHA-256 of a canonical value.
pub(super) type Digest = [u8; 32];

/// The part of an intent key that names the request without its occurrence.
pub(super) fn base(party: Option<&PartyId>, session: SessionId, tool: &str, policy: &ToolPolicy, arguments: &Value) -> String {
    let mut text = match (policy.idempotency_scope, party) {
        // No party and no conversation is called nothing.
        (IdempotencyScope::Global, _) => String::new(),
        (IdempotencyScope::Party, Some(party)) => party.to_string(),
        (IdempotencyScope::Party | IdempotencyScope::Call, _) => session.to_string(),
    };
    let _ = write!(text, "|{tool}|");
    for byte in arguments_digest(policy, arguments) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The key of one request: what an operation that is asked for like this gets, the `occurrence`th time.
pub fn intent_key(
    party: Option<&PartyId>,
    session: SessionId,
    tool: &str,
    policy: &ToolPolicy,
    arguments: &Value,
    occurrence: u32,
) -> IntentKey {
    IntentKey(format!("{}|{occurrence}", base(party, session, tool, policy, arguments)))
}

/// The occurrence that a key ends in. The store hands the highest one that it does not read back to
/// [`super::Snapshot::occurrence_floor`].
pub fn occurrence(key: &IntentKey) -> Option<u32> {
    split(key).map(|(_, occurrence)| occurrence)
}

/// A key's base and occurrence. Tool, digest and occurrence hold no `|`, so the last one separates.
pub(super) fn split(key: &IntentKey) -> Option<(&str, u32)> {
    let (base, occurrence) = key.0.rsplit_once('|')?;
    Some((base, occurrence.parse().ok()?))
}

/// The digest of a result from outside.
pub(super) fn result_digest(result: &OperationResult) -> Digest {
    match result {
        OperationResult::Succeeded(value) => digest('s', value),
        OperationResult::Failed(error) => digest('f', &Value::String(error.clone())),
    }
}

/// The digest of the result on record; none where no result is: the effect was cancelled, or nobody knows.
pub(super) fn record_digest(record: &OperationRecord) -> Option<Digest> {
    match record.state {
        OperationState::Succeeded | OperationState::TooLate | OperationState::Compensated => {
            record.known_result().map(|value| digest('s', value))
        }
        OperationState::Failed => record.error.as_ref().map(|error| digest('f', &Value::String(error.clone()))),
        _ => None,
    }
}

/// What is remembered of an operation under a base.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Its identifier.
    pub operation: OperationId,
    /// Its batch.
    pub batch: BatchId,
    /// The lane that its changes go through, while it is in memory.
    pub lane: u64,
    /// Where it comes from.
    pub origin: Origin,
    /// Its occurrence.
    pub occurrence: u32,
    /// All of its arguments.
    pub arguments: Digest,
    /// Whether its closing is over.
    pub closed: bool,
    /// Whether it has ended, and nothing of it is in effect.
    undone: bool,
    /// Whether the store has removed it.
    removed: bool,
    /// Where the caller was asked whether it is to be done once more.
    asked: Option<(SessionId, TurnId)>,
}

/// By whom and when something was asked for.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// The turn that it was asked in.
    pub turn: TurnId,
    /// The conversation.
    pub session: SessionId,
    /// Its party, where it is known.
    pub party: Option<PartyId>,
    /// When this boot has had it first.
    pub now: Time,
    /// How old it was then (ms).
    pub age_ms: u64,
}

/// What a request is judged by.
#[derive(Debug, Clone)]
pub(super) struct Rules<'a> {
    /// What is done about a repeat.
    pub duplicate: DuplicatePolicy,
    /// Among whose requests it can be one.
    pub scope: IdempotencyScope,
    /// How long it can be one (ms).
    pub window_ms: Option<u64>,
    /// When it is judged.
    pub now: Time,
    /// Who asks.
    pub party: Option<&'a PartyId>,
}

impl<'a> Rules<'a> {
    /// What the policy says about a request of `party`, now.
    pub fn of(policy: &ToolPolicy, party: Option<&'a PartyId>, now: Time) -> Self {
        let (duplicate, scope) = (policy.duplicate, policy.idempotency_scope);
        Self { duplicate, scope, window_ms: policy.idempotency_window_ms, now, party }
    }

    /// Whether what was asked for before is a repeat because its window is open, or is none because it is over; none where there is no window.
    fn in_window(&self, before: &Origin) -> Option<bool> {
        Some(before.age_ms.saturating_add(self.now.since(before.now)) < self.window_ms?)
    }

    /// Whether what was asked for before is another's: nothing of that is told to who asks now (I14).
    fn is_anothers(&self, before: &Origin, session: SessionId) -> bool {
        let same = before.session == session || (self.party.is_some() && before.party.as_ref() == self.party);
        self.scope == IdempotencyScope::Global && !same
    }
}

/// The turns of one conversation in which a base was asked for.
#[derive(Debug, Clone, Copy)]
struct Turns {
    last: TurnId,
    /// The one before that, should the acceptance fail.
    before: Option<TurnId>,
}

/// What is remembered of an operation whose batch has left memory.
#[derive(Debug, Clone)]
pub(super) struct ClosedOperation {
    /// The base of its key.
    base: String,
    /// Its occurrence.
    occurrence: u32,
    /// The result on record.
    pub digest: Option<Digest>,
    /// How it ended.
    pub state: OperationState,
}

/// How a request stands to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It is a new one, and gets this occurrence.
    New(u32),
    /// It is a new one, which takes the place of this operation.
    Replaces(u32, OperationId),
    /// It repeats this operation, which is in memory.
    Repeats { lane: u64, operation: OperationId, answer: RepeatAnswer },
    /// It repeats this operation, whose closing is over.
    Told { operation: OperationId, batch: BatchId, answer: RepeatAnswer },
}

/// The memory of intents: everything live, and the latest [`CLOSED_OPERATIONS_MAX`] closed operations.
#[derive(Debug, Clone, Default)]
pub(super) struct Intents {
    /// The operations under each base, by rising occurrence: the last one counts, and the others take its place should its acceptance
    /// fail. Once its closing is over they are forgotten, and each of them is where its batch has left memory.
    known: BTreeMap<String, Vec<Known>>,
    closed: BTreeMap<OperationId, ClosedOperation>,
    order: VecDeque<OperationId>,
    /// No forgotten key has a higher occurrence: a base that is not known begins above it, so that no key is used twice.
    floor: u32,
    /// In which turn of each conversation that is up a base was last asked for, and answered by what there was or by a new
    /// operation: in that turn it is not asked for again, whoever else of the same party asks meanwhile.
    turns: BTreeMap<(SessionId, String), Turns>,
}

impl Intents {
    pub fn new(floor: u32) -> Self {
        Self { floor, ..Self::default() }
    }

    /// Judges a request by its tool's policy for duplicates. `again`: it has been judged before, and what it repeated is gone.
    pub fn judge(
        &mut self,
        base: &str,
        (session, turn): (SessionId, TurnId),
        call: &ToolCall,
        rules: &Rules<'_>,
        again: bool,
    ) -> Judgement {
        let key = (session, base.to_owned());
        let before = self.turns.get(&key).copied();
        let judgement = self.judged(base, (session, turn), call, rules, before.filter(|_| !again).map(|turns| turns.last));
        // Who is asked to confirm may do so as soon as they have said something.
        let asks = |answer| answer == RepeatAnswer::NeedsConfirmation;
        if !matches!(judgement, Judgement::Repeats { answer, .. } | Judgement::Told { answer, .. } if asks(answer)) {
            let before = before.and_then(|turns| if turns.last == turn { turns.before } else { Some(turns.last) });
            self.turns.insert(key, Turns { last: turn, before });
        }
        judgement
    }

    fn judged(
        &mut self,
        base: &str,
        (session, turn): (SessionId, TurnId),
        call: &ToolCall,
        rules: &Rules<'_>,
        before: Option<TurnId>,
    ) -> Judgement {
        let Some(known) = self.known.get_mut(base).and_then(|known| known.last_mut()) else {
            return Judgement::New(self.floor.saturating_add(1));
        };
        let next = known.occurrence.max(self.floor).saturating_add(1);
        // A model that asks twice in one turn repeats itself; the caller has not.
        let another_turn = known.origin.turn != turn && before != Some(turn);
        let (in_window, anothers) = (rules.in_window(&known.origin), rules.is_anothers(&known.origin, session));
        let differs = known.arguments != digest('a', &call.arguments);
        let answer = match rules.duplicate {
            // What still runs is replaced, and confirmed, whatever its window says: both would be done otherwise.
            _ if another_turn && in_window == Some(false) && (known.closed || !heeds_what_runs(rules.duplicate)) => {
                return Judgement::New(next);
            }
            // What was not done for somebody else is done for whoever wants it.
            _ if anothers && another_turn && known.undone => return Judgement::New(next),
            _ if anothers && another_turn && known.closed && in_window.is_none() => return Judgement::New(next),
            _ if anothers => RepeatAnswer::AskedByAnother,
            DuplicatePolicy::Confirm if another_turn => {
                let asked = known.asked.is_some_and(|(of, before)| of == session && before != turn);
                if (asked && call.confirmed) || fault(Fault::Unconfirmed) {
                    return Judgement::New(next);
                }
                if !asked {
                    known.asked = Some((session, turn));
                }
                RepeatAnswer::NeedsConfirmation
            }
            _ if known.closed && another_turn && (in_window.is_none() || known.undone) => return Judgement::New(next),
            DuplicatePolicy::Replace if !known.closed && differs => return Judgement::Replaces(next, known.operation),
            // There is nothing to be cancelled any more.
            DuplicatePolicy::Replace if another_turn && differs => return Judgement::New(next),
            DuplicatePolicy::Reject => RepeatAnswer::Rejected,
            _ => RepeatAnswer::Reused,
        };
        if known.closed {
            Judgement::Told { operation: known.operation, batch: known.batch, answer }
        } else {
            Judgement::Repeats { lane: known.lane, operation: known.operation, answer }
        }
    }

    /// An operation is being accepted under `base`.
    pub fn open(
        &mut self,
        base: String,
        (operation, batch, lane): (OperationId, BatchId, u64),
        origin: impl Into<Origin>,
        occurrence: u32,
        arguments: &Value,
    ) {
        let (arguments, origin) = (digest('a', arguments), origin.into());
        let known =
            Known { operation, batch, lane, origin, occurrence, arguments, closed: false, undone: false, removed: false, asked: None };
        self.known.entry(base).or_default().push(known);
    }

    /// What the store knows of an operation at a restart, and how old it is by then. The latest occurrence counts, in whatever order they come.
    pub fn restore(&mut self, record: &OperationRecord, lane: u64, closed: bool, (age_ms, now): (u64, Time)) {
        let Some((base, occurrence)) = split(&record.intent_key) else { return };
        let arguments = digest('a', &record.arguments);
        let (operation, batch) = (record.id, record.batch);
        let origin = Origin { turn: record.turn, session: record.session, party: record.party.clone(), now, age_ms };
        let known = self.known.entry(base.to_owned()).or_default();
        if known.last().is_none_or(|known| known.occurrence < occurrence) {
            let undone = undone(record);
            *known = vec![Known { operation, batch, lane, origin, occurrence, arguments, closed, undone, removed: false, asked: None }];
        }
    }

    /// The acceptance failed: nothing was done, and nothing was asked in that turn.
    pub fn retract(&mut self, base: &str, of: (SessionId, TurnId), operation: OperationId) {
        self.unasked(base, of);
        self.drop_known(base, |known| known.operation == operation);
    }

    /// What was judged in that turn waits for the caller's consent: it was not asked in it.
    pub fn unasked(&mut self, base: &str, (session, turn): (SessionId, TurnId)) {
        let key = (session, base.to_owned());
        if let Some(turns) = self.turns.get_mut(&key).filter(|turns| turns.last == turn) {
            match turns.before {
                Some(before) => *turns = Turns { last: before, before: None },
                None => drop(self.turns.remove(&key)),
            }
        }
    }

    /// A conversation is over: nothing is asked in its turns any more.
    pub fn session_over(&mut self, session: SessionId) {
        let theirs: Vec<(SessionId, String)> =
            self.turns.range((session, String::new())..).map(|(key, _)| key).take_while(|(of, _)| *of == session).cloned().collect();
        for key in theirs {
            self.turns.remove(&key);
            self.forget_removed(&key.1);
        }
    }

    /// How an operation stands by now.
    pub fn stands(&mut self, record: &OperationRecord) {
        let Some((base, occurrence)) = split(&record.intent_key) else { return };
        let of_base = self.known.get_mut(base).into_iter().flatten();
        of_base.filter(|known| known.occurrence == occurrence).for_each(|known| known.undone = undone(record));
    }

    /// The closing of an operation is over: asked again in another turn, it is a new one.
    pub fn close(&mut self, record: &OperationRecord) {
        let Some((base, occurrence)) = split(&record.intent_key) else { return };
        let Some(of_base) = self.known.get_mut(base) else { return };
        let Some(at) = of_base.iter().position(|known| known.occurrence == occurrence) else { return };
        of_base.drain(..at);
        of_base.iter_mut().take(1).for_each(|known| known.closed = true);
    }

    /// A closed operation leaves memory; what tells repeats apart stays for a while.
    pub fn retire(&mut self, record: &OperationRecord) {
        let Some((base, occurrence)) = split(&record.intent_key) else { return };
        let closed = ClosedOperation { base: base.to_owned(), occurrence, digest: record_digest(record), state: record.state };
        if self.closed.insert(record.id, closed).is_none() {
            self.order.push_back(record.id);
        }
        while self.order.len() > CLOSED_OPERATIONS_MAX {
            let Some(oldest) = self.order.pop_front().and_then(|id| self.closed.remove(&id)) else { continue };
            self.forget(&oldest.base, oldest.occurrence);
        }
    }

    /// A closed operation is in the store no more. A model that repeats itself in the turn in which it was asked for still repeats it.
    pub fn remove(&mut self, record: &OperationRecord) {
        let Some((base, occurrence)) = split(&record.intent_key) else { return };
        let of_base = self.known.get_mut(base).into_iter().flatten();
        of_base.filter(|known| known.occurrence == occurrence && known.closed).for_each(|known| known.removed = true);
        self.forget_removed(base);
    }

    /// What the store has removed is forgotten when no conversation is up in which it was asked for.
    fn forget_removed(&mut self, base: &str) {
        let removed = self.known.get(base).into_iter().flatten().filter(|known| known.removed).map(|known| known.occurrence).max();
        if let Some(occurrence) = removed.filter(|_| !self.turns.keys().any(|(_, of)| of == base)) {
            self.floor = self.floor.max(occurrence);
            self.drop_known(base, |known| known.removed);
        }
    }

    /// An operation whose batch has left memory.
    pub fn closed(&self, operation: OperationId) -> Option<&ClosedOperation> {
        self.closed.get(&operation)
    }

    fn forget(&mut self, base: &str, occurrence: u32) {
        self.floor = self.floor.max(occurrence);
        self.drop_known(base, |known| known.occurrence == occurrence && known.closed);
    }

    fn drop_known(&mut self, base: &str, which: impl Fn(&Known) -> bool) {
        if let Some(of_base) = self.known.get_mut(base) {
            of_base.retain(|known| !which(known));
            if of_base.is_empty() {
                self.known.remove(base);
            }
        }
    }
}

/// Whether what is asked for is judged by what runs, where that is known.
fn heeds_what_runs(duplicate: DuplicatePolicy) -> bool {
    matches!(duplicate, DuplicatePolicy::Replace | DuplicatePolicy::Confirm)
}

/// Whether it has ended, and provably nothing of it is in effect.
fn undone(record: &OperationRecord) -> bool {
    match record.state {
        OperationState::Failed => !record.maybe_executed,
        OperationState::Cancelled | OperationState::Compensated => true,
        _ => false,
    }
}

/// The idempotency fields of the arguments; all of them where the policy names none or none of those named is there.
fn arguments_digest(policy: &ToolPolicy, arguments: &Value) -> Digest {
    if let Value::Object(fields) = arguments {
        let chosen: serde_json::Map<String, Value> = policy
            .idempotency_fields
            .iter()
            .filter_map(|name| Some((name.clone(), fields.get(name).filter(|value| !value.is_null())?.clone())))
            .collect();
        if !chosen.is_empty() {
            return digest('a', &Value::Object(chosen));
        }
    }
    digest('a', arguments)
}

/// The digest of all the arguments.
pub(super) fn arguments_digest_of(arguments: &Value) -> Digest {
    digest('a', arguments)
}

fn digest(kind: char, value: &Value) -> Digest {
    let mut text = String::from(kind);
    canonical(value, &mut text);
    Sha256::digest(text.as_bytes()).into()
}

/// Keys sorted, no white space, whole floating-point numbers as integers.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            text.push('{');
            for (name, field) in sorted {
                let _ = write!(text, "{}:", Value::String(name.clone()));
                canonical(field, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < WHOLE_MAX => {
                let _ = write!(text, "{float:.0}");
            }
            _ => {
                let _ = write!(text, "{number}");
            }
        },
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

/// Closed operations that repeats are still recognised for. At about 300 bytes each, 3 MB.
pub const CLOSED_OPERATIONS_MAX: usize = 10_000;

/// Below 2^53 every whole number has its own floating-point value.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests;
