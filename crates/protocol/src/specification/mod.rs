//! The protocol as the contract has it: what a ledger does with each input, written once more, from the contract and without
//! the ledger's machinery. One transaction at a time; while one is in flight, what else the world has to say waits outside.
//!
//! It is deterministic, so that the real ledger can be held against it step by step, and it can be broken on purpose
//! ([`Broken`]), so that the properties are known to have teeth.

mod batch;
mod delivery;
mod operation;

use recado_core::ledger::{BatchState, DeliveryState};
use recado_core::policy::UncertainPolicy;

use crate::alphabet::{Answer, Attempted, Call, Cancelled, Input, Machine, Output, Scope, Verdict, View, Word};
use batch::Batch;
use operation::{Operation, Received};

/// A rule of the contract that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Broken {
    /// R2: the request of an attempt leaves before the attempt is durable.
    SendsBeforeDurable,
    /// R2: an attempt of a tool that is not idempotent is repeated although the last one may have been executed.
    RetriesThoughMaybe,
    /// R3: the sender of a callback gets its 2xx before the result is durable.
    AnswersBeforeDurable,
    /// R4: the first frame leaves before the claim is durable.
    SpeaksBeforeDurable,
    /// Restart: what was `Speaking` is `Ready` again.
    ReadyAfterRestart,
    /// I17: a delivery is granted to a second conversation while a first one has it.
    ClaimIsShared,
    /// R5: a report about a playback that has been ended counts as evidence of the one under way.
    CreditsEndedPlayback,
}

/// What the rules of a scope are, and which of them is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    pub attempts_max: u8,
    pub uncertain: UncertainPolicy,
    pub cancellable: bool,
    pub broken: Option<Broken>,
}

impl Rules {
    fn retries_though_maybe(&self) -> bool {
        self.broken == Some(Broken::RetriesThoughMaybe)
    }

    fn ready_after_restart(&self) -> bool {
        self.broken == Some(Broken::ReadyAfterRestart)
    }
}

/// The specification's state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Specification {
    rules: Rules,
    /// What is durable, with what memory adds.
    batch: Option<Batch>,
    in_flight: Option<Transaction>,
    /// A fact whose transaction failed: tried again after a pause.
    kept: Option<Work>,
    /// A transaction has failed, and the back-off is not over.
    backing_off: bool,
    /// Conversations that are up.
    up: Vec<bool>,
    /// For each delivery, to whom it has been offered.
    offered: Vec<Vec<bool>>,
    /// Something newer on the same topic has been asked for.
    newer: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Transaction {
    draft: Batch,
    work: Option<Work>,
    then: Vec<Output>,
}

/// What is asked of the batch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Work {
    Accept(Call, usize),
    Seal,
    Cancel,
    Attempted(usize, u8, Attempted),
    CancelAnswered(usize, u8, Cancelled),
    Callback(usize),
    Claim(Call, usize),
    Release(Call, usize),
    FirstFrame(Call, usize),
    Settled(Call, usize, Vec<(Word, Verdict)>),
    Suppress(usize),
    Obsolete,
    Lost(Call),
    Recover,
}

impl Specification {
    /// A new box with one rule broken.
    pub fn broken(scope: &Scope, broken: Option<Broken>) -> Self {
        let rules = Rules { attempts_max: scope.attempts_max, uncertain: scope.uncertain, cancellable: scope.cancellable, broken };
        let up = (0..scope.calls).map(|call| call == 0).collect();
        Self { rules, batch: None, in_flight: None, kept: None, backing_off: false, up, offered: Vec::new(), newer: false }
    }

    fn is(&self, broken: Broken) -> bool {
        self.rules.broken == Some(broken)
    }

    fn take(&mut self, scope: &Scope, input: &Input, out: &mut Vec<Output>) {
        match *input {
            Input::Accept(call, operation) => match self.batch.as_mut().and_then(|batch| batch.operation(operation)) {
                // The same intent: nothing new runs.
                Some(_) => out.push(Output::Accepted(call, operation)),
                None => {
                    self.batch.is_none().then(|| self.offered.clear());
                    self.begin(scope, Some(Work::Accept(call, operation)), true, out);
                }
            },
            Input::Seal => self.begin(scope, Some(Work::Seal), true, out),
            Input::Cancel(_) => self.begin(scope, Some(Work::Cancel), true, out),
            Input::Attempted(operation, attempt, how) => self.begin(scope, Some(Work::Attempted(operation, attempt, how)), true, out),
            Input::CancelAnswered(operation, request, how) => {
                self.begin(scope, Some(Work::CancelAnswered(operation, request, how)), true, out)
            }
            Input::Callback(operation) => self.begin(scope, Some(Work::Callback(operation)), true, out),
            Input::Up(call) => {
                self.set_up(call, true);
                self.offer(out);
            }
            Input::Over(call) => {
                self.set_up(call, false);
                let open = self.batch.as_ref().is_some_and(|batch| batch.state == BatchState::Open);
                let work = if call == 0 && open { Work::Seal } else { Work::Lost(call) };
                self.begin(scope, Some(work), true, out);
                self.offer(out);
            }
            Input::Claim(call, delivery) => self.begin(scope, Some(Work::Claim(call, delivery)), true, out),
            Input::Release(call, delivery) => self.begin(scope, Some(Work::Release(call, delivery)), true, out),
            Input::FirstFrame(call, delivery) => self.begin(scope, Some(Work::FirstFrame(call, delivery)), true, out),
            Input::Settled(call, delivery, ref evidence) => {
                self.begin(scope, Some(Work::Settled(call, delivery, evidence.clone())), true, out)
            }
            Input::Suppress(delivery) => self.begin(scope, Some(Work::Suppress(delivery)), true, out),
            Input::Newer(_) => {
                self.newer = true;
                self.obsolete(scope, out);
            }
            Input::Pause => {
                self.operations_mut().for_each(|operation| operation.due = true);
                self.backing_off = false;
                match self.kept.take() {
                    Some(work) => self.begin(scope, Some(work), false, out),
                    None => self.pump(scope, out),
                }
            }
            Input::Deadline => {
                self.operations_mut().filter(|operation| !operation.settled()).for_each(|operation| operation.overdue = true);
                self.pump(scope, out);
            }
            Input::Durable => {
                if let Some(transaction) = self.in_flight.take() {
                    self.settle(scope, transaction, out);
                    self.pump(scope, out);
                }
            }
            Input::Failed => {
                if let Some(transaction) = self.in_flight.take() {
                    self.failed(transaction, out);
                }
            }
            Input::PowerCut { kept } => {
                if let Some(transaction) = self.in_flight.take().filter(|_| kept) {
                    self.batch = Some(transaction.draft);
                }
                self.kept = None;
                self.backing_off = false;
                self.up.fill(false);
                self.offered.clear();
                if let Some(batch) = self.batch.as_mut() {
                    batch.restored();
                    self.begin(scope, Some(Work::Recover), true, out);
                }
            }
        }
    }

    fn set_up(&mut self, call: Call, is_up: bool) {
        if let Some(up) = self.up.get_mut(call) {
            *up = is_up;
        }
    }

    fn operations_mut(&mut self) -> impl Iterator<Item = &mut Operation> {
        self.batch.iter_mut().flat_map(|batch| batch.operations.iter_mut().flatten())
    }

    /// What time makes of it.
    fn pump(&mut self, scope: &Scope, out: &mut Vec<Output>) {
        if self.in_flight.is_none() && !self.backing_off && self.batch.as_ref().is_some_and(Batch::restless) {
            self.begin(scope, None, true, out);
        }
    }

    /// Applies work to a draft. What it comes to waits for the draft to be durable, if there is anything to be written.
    fn begin(&mut self, scope: &Scope, work: Option<Work>, with_time: bool, out: &mut Vec<Output>) {
        if self.batch.is_none() && !matches!(work, Some(Work::Accept(..))) {
            return;
        }
        let durable = self.batch.clone();
        let mut draft = durable.clone().unwrap_or_else(|| Batch::new(scope.idempotent.len()));
        let mut then = Vec::new();
        if let Some(work) = &work {
            self.apply(scope, work, &mut draft, &mut then);
            draft.fold();
        }
        if with_time {
            let before = |of: usize| durable.as_ref().and_then(|batch| batch.operations.get(of)).and_then(Option::as_ref);
            for (of, operation) in (0..).zip(&mut draft.operations) {
                // One edge of an operation in one transaction.
                let unchanged = |now: &&mut Operation| {
                    before(of).is_some_and(|before| (before.row.state, before.row.attempt) == (now.row.state, now.row.attempt))
                };
                if let Some(operation) = operation.as_mut().filter(unchanged) {
                    operation.advance(&self.rules);
                }
            }
            draft.fold();
        }
        draft.follow(durable.as_ref().map(|batch| batch.state));
        draft.drop_unseen(durable.as_ref().map_or(0, |batch| batch.deliveries.len()));
        let transaction = Transaction { draft, work, then };
        let writes = durable.as_ref().map(Batch::rows) != Some(transaction.draft.rows());
        if !writes {
            self.settle(scope, transaction, out);
            return self.pump(scope, out);
        }
        if self.is(Broken::SendsBeforeDurable) {
            out.extend(self.dispatches(&transaction.draft));
        }
        self.in_flight = Some(transaction);
    }

    fn apply(&self, scope: &Scope, work: &Work, draft: &mut Batch, then: &mut Vec<Output>) {
        match *work {
            Work::Accept(call, operation) => {
                let idempotent = scope.idempotent.get(operation).copied().unwrap_or_default();
                if let Some(place) = draft.operations.get_mut(operation) {
                    *place = Some(Operation::accepted(idempotent));
                }
                then.push(Output::Accepted(call, operation));
            }
            Work::Seal => {
                if draft.state == BatchState::Open {
                    draft.state = BatchState::Sealed;
                }
            }
            Work::Cancel => draft.operations.iter_mut().flatten().for_each(Operation::cancel),
            Work::Attempted(operation, attempt, how) => {
                let received = draft.operation(operation).and_then(|found| found.report(attempt, how, &self.rules));
                if received.is_some_and(Received::is_news) {
                    draft.correct(operation);
                }
            }
            Work::CancelAnswered(operation, request, how) => {
                let received = draft.operation(operation).and_then(|found| found.cancel_answered(request, how));
                if received.is_some_and(Received::is_news) {
                    draft.correct(operation);
                }
            }
            Work::Callback(operation) => {
                let Some(received) = draft.operation(operation).map(Operation::receive) else { return };
                if received.is_news() {
                    draft.correct(operation);
                }
                let answer = if received == Received::Conflict { Answer::Conflict } else { Answer::Recorded };
                then.push(Output::Answer(operation, answer));
            }
            Work::Claim(call, delivery) => self.claim(call, delivery, draft, then),
            Work::Release(call, delivery) => {
                if let Some(delivery) = draft.deliveries.get_mut(delivery) {
                    delivery.release(call);
                }
            }
            Work::FirstFrame(call, delivery) => {
                if let Some(delivery) = draft.deliveries.get_mut(delivery) {
                    delivery.first_frame(call);
                }
            }
            Work::Settled(call, delivery, ref evidence) => {
                let stopped = draft.deliveries.get_mut(delivery).and_then(|found| found.settled(call, evidence, &self.rules));
                then.extend(stopped.map(|call| Output::Withdrawn(call, delivery)));
            }
            Work::Suppress(delivery) => {
                let stopped = draft.deliveries.get_mut(delivery).and_then(|found| found.end(DeliveryState::Suppressed));
                then.extend(stopped.map(|call| Output::Withdrawn(call, delivery)));
            }
            Work::Obsolete => {
                for (delivery, found) in (0..).zip(&mut draft.deliveries) {
                    let stopped = found.end(DeliveryState::Superseded);
                    then.extend(stopped.map(|call| Output::Withdrawn(call, delivery)));
                }
            }
            Work::Lost(call) => draft.deliveries.iter_mut().for_each(|delivery| delivery.lose(call, &self.rules)),
            Work::Recover => {
                draft.deliveries.iter_mut().for_each(|delivery| delivery.recover(&self.rules));
                draft.operations.iter_mut().flatten().for_each(Operation::recover);
                if draft.state == BatchState::Open {
                    draft.state = BatchState::Sealed;
                }
            }
        }
    }

    fn claim(&self, call: Call, delivery: usize, draft: &mut Batch, then: &mut Vec<Output>) {
        let shared = self.is(Broken::ClaimIsShared) && draft.deliveries.get(delivery).is_some_and(|d| !d.row.state.terminal());
        let granted = (draft.claimable(delivery) || shared) && self.may_hear(call);
        match draft.deliveries.get_mut(delivery).filter(|_| granted) {
            Some(found) => {
                let words = found.grant(call);
                then.push(Output::Claimed(call, delivery, words));
            }
            None => then.push(Output::ClaimRefused(call, delivery)),
        }
    }

    /// I14, and: the conversation that asked comes first, while it is up.
    fn may_hear(&self, call: Call) -> bool {
        let is_up = |call: Call| self.up.get(call).copied().unwrap_or_default();
        is_up(call) && (call == 0 || !is_up(0))
    }

    /// A draft is durable, or needed no writing: what waited for it happens.
    fn settle(&mut self, scope: &Scope, transaction: Transaction, out: &mut Vec<Output>) {
        let dispatches = self.dispatches(&transaction.draft);
        let draft = self.batch.insert(transaction.draft);
        for output in transaction.then {
            match output {
                Output::Claimed(call, delivery, _)
                    if draft.deliveries.get(delivery).and_then(|found| found.claim.as_ref()).is_none_or(|claim| claim.call != call) =>
                {
                    out.push(Output::ClaimRefused(call, delivery));
                }
                output => out.push(output),
            }
        }
        if !self.is(Broken::SendsBeforeDurable) {
            out.extend(dispatches);
        }
        self.offer(out);
        if self.newer {
            self.obsolete(scope, out);
        }
    }

    /// R2, R6: attempts leave when they are durable, and so do cancel requests.
    fn dispatches(&self, draft: &Batch) -> Vec<Output> {
        let durable = |of: usize| self.batch.as_ref().and_then(|batch| batch.operations.get(of)).and_then(Option::as_ref);
        let one = |(of, operation): (usize, &Option<Operation>)| {
            let now = operation.as_ref()?;
            let (attempt, asked) = durable(of).map_or((0, 0), |before| (before.row.attempt, before.cancel.asked));
            let sent = (attempt < now.row.attempt).then_some(Output::Dispatch(of, now.row.attempt));
            let asks = (asked < now.cancel.asked).then_some(Output::CancelRequest(of, now.cancel.asked));
            Some(sent.into_iter().chain(asks))
        };
        draft.operations.iter().enumerate().filter_map(one).flatten().collect()
    }

    /// Something newer was asked for: what is to be told is obsolete.
    fn obsolete(&mut self, scope: &Scope, out: &mut Vec<Output>) {
        let to_be_told = |batch: &Batch| batch.deliveries.iter().any(|delivery| !delivery.row.state.terminal());
        if self.in_flight.is_none() && self.batch.as_ref().is_some_and(to_be_told) {
            self.begin(scope, Some(Work::Obsolete), true, out);
        }
    }

    /// Brings what was offered in line with what may be told.
    fn offer(&mut self, out: &mut Vec<Output>) {
        let broken = self.rules.broken;
        let Some(batch) = &self.batch else { return };
        self.offered.resize(batch.deliveries.len(), vec![false; self.up.len()]);
        let mut offered = std::mem::take(&mut self.offered);
        for (delivery, had) in (0..).zip(&mut offered) {
            let claimant = batch.deliveries.get(delivery).and_then(|found| found.claim.as_ref()).map(|claim| claim.call);
            let shared = broken == Some(Broken::ClaimIsShared) && batch.deliveries.get(delivery).is_some_and(|d| !d.row.state.terminal());
            let open = shared || batch.claimable(delivery);
            for (call, had) in (0..).zip(had.iter_mut()) {
                let may = open && self.may_hear(call);
                if *had && !may && claimant != Some(call) && self.up.get(call) == Some(&true) {
                    out.push(Output::Withdrawn(call, delivery));
                }
                if may && !*had {
                    out.push(Output::Offered(call, delivery));
                }
                *had = may;
            }
        }
        self.offered = offered;
    }

    /// A draft was not kept: senders are told, facts are kept for another try.
    fn failed(&mut self, transaction: Transaction, out: &mut Vec<Output>) {
        self.backing_off = self.batch.is_some();
        match transaction.work {
            Some(Work::Accept(call, operation)) => out.push(Output::Refused(call, operation)),
            Some(Work::Callback(operation)) => {
                // R2: whatever an executor says of it now, its tool says that it took effect.
                let found = self.batch.as_mut().and_then(|batch| batch.operation(operation));
                found.into_iter().filter(|found| !found.settled()).for_each(|found| found.cut_off = true);
                out.push(Output::Answer(operation, Answer::Unavailable));
            }
            Some(Work::Claim(call, delivery)) => out.push(Output::ClaimRefused(call, delivery)),
            // The caller hears that it could not be done: a wish is not carried out behind their back later.
            Some(Work::Cancel) => {}
            kept => self.kept = kept,
        }
    }
}

impl Machine for Specification {
    fn new(scope: &Scope) -> Self {
        Self::broken(scope, None)
    }

    fn give(&mut self, scope: &Scope, input: &Input) -> Vec<Output> {
        let mut out = Vec::new();
        match *input {
            // A first frame that leaves before the claim is durable: there is no claim yet that it could be noted with.
            Input::FirstFrame(..) if self.in_flight.is_some() => return out,
            Input::Callback(operation) if self.is(Broken::AnswersBeforeDurable) => out.push(Output::Answer(operation, Answer::Recorded)),
            Input::Claim(call, delivery) if self.is(Broken::SpeaksBeforeDurable) => {
                let mut draft = self.batch.clone().unwrap_or_else(|| Batch::new(0));
                self.claim(call, delivery, &mut draft, &mut out);
            }
            _ => {}
        }
        self.take(scope, input, &mut out);
        out
    }

    fn view(&self) -> View {
        self.batch.as_ref().map(Batch::view).unwrap_or_default()
    }

    fn in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    fn open(&self, _: &Scope) -> bool {
        self.in_flight.is_none() && !self.backing_off
    }

    fn pausing(&self) -> bool {
        let waits = |operation: &Operation| operation.row.state == recado_core::ledger::OperationState::RetryWait && !operation.due;
        self.in_flight.is_none()
            && (self.backing_off || self.batch.as_ref().is_some_and(|batch| batch.operations.iter().flatten().any(waits)))
    }
}
