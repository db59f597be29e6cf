//! The task that owns the ledger: inputs from calls, tools, callbacks and the store in; effects carried out.
//!
//! It never waits for anybody. A conversation that does not take its news is stuck and is told to end; a store whose
//! queue is full answers at once that it failed.

use std::collections::{BTreeMap, VecDeque};

use recado_core::ledger::{
    AttemptOutcome, CallbackAnswer, CancelOutcome, CommitId, Dispatch, Effect, Executed, Input, InquiryOutcome, Ledger, News, RequestId,
};
use recado_core::{OperationId, SessionId};
use tokio::sync::{mpsc, oneshot, watch as watch_channel};
use tracing::{debug, error, info, warn};

use super::clock::Clock;
use super::watch::{self, Pulse};
use crate::admin::{HealthState, Impact};
use crate::cognition::tools::{Callback, Executor, Report, Webhook, not_handed_off};
use crate::coordination::{Verification, Writer};
use crate::telemetry::{Measures, Observation, Seldom, settled};
use crate::traces::Traced;

/// What reaches the ledger's task from calls.
#[derive(Debug)]
pub enum FromCalls {
    /// A conversation begins: its news go here. Comes before anything else of it.
    Begin(SessionId, mpsc::Sender<News>),
    /// An input of the ledger.
    Input(Input),
    /// Answered when everything before it has been taken: what follows from it is among the news by then.
    Taken(oneshot::Sender<()>),
}

/// The task's ends.
pub struct LedgerTask {
    pub clock: Clock,
    pub ledger: Traced<Ledger>,
    /// Effects of the recovery, to be carried out first.
    pub recovery: Vec<Effect>,
    pub store: Writer,
    pub executor: Executor,
    /// The other way for what nobody has come to hear, where one is configured.
    pub webhook: Option<Webhook>,
    pub from_calls: mpsc::Receiver<FromCalls>,
    pub from_tools: mpsc::Receiver<Input>,
    pub from_store: mpsc::Receiver<Input>,
    pub callbacks: mpsc::Receiver<Callback>,
    /// What the verification of callers has the store count.
    pub verifications: mpsc::Receiver<Verification>,
    pub measures: Measures,
    pub health: HealthState,
    pub pulse: Pulse,
    /// Told why the store has to be opened anew, when it has to.
    pub anew: watch_channel::Sender<Option<String>>,
    pub stop: oneshot::Receiver<()>,
}

struct Running {
    measures: Measures,
    health: HealthState,
    anew: watch_channel::Sender<Option<String>>,
    store: Writer,
    /// None when the box is stopping: what would be sent is found again at the next start, by its record.
    executor: Option<Executor>,
    /// None without one, and when the box is stopping: what is not acknowledged is sent again at the next start.
    webhook: Option<Webhook>,
    sessions: BTreeMap<SessionId, mpsc::Sender<News>>,
    waiting: BTreeMap<RequestId, oneshot::Sender<CallbackAnswer>>,
    /// Commits that the store has not answered.
    open: BTreeMap<CommitId, std::time::Instant>,
    again: VecDeque<Input>,
    /// Why the last commit failed, if it did.
    last_failure: Option<String>,
    failures: Seldom,
}

impl LedgerTask {
    /// Runs until told to stop, then until everything that was asked of the store is answered.
    pub async fn run(self) {
        let Self {
            clock,
            mut ledger,
            recovery,
            store,
            executor,
            webhook,
            mut from_calls,
            mut from_tools,
            mut from_store,
            mut callbacks,
            mut verifications,
            measures,
            health,
            pulse,
            anew,
            mut stop,
        } = self;
        let mut running = Running {
            measures,
            health,
            anew,
            store,
            executor: Some(executor),
            webhook,
            sessions: BTreeMap::new(),
            waiting: BTreeMap::new(),
            open: BTreeMap::new(),
            again: VecDeque::new(),
            last_failure: None,
            failures: Seldom::default(),
        };
        let mut beats = watch::beats();
        running.carry_out(recovery);
        // Told to stop, the tools report what they have and what they did not begin; then nothing new comes.
        let mut tools_end = None;
        let mut tools_ended = false;
        loop {
            while let Some(input) = running.again.pop_front() {
                running.handle(&clock, &mut ledger, input);
            }
            if tools_ended && running.open.is_empty() {
                break;
            }
            let deadline = ledger.deadline().map(|at| clock.instant(at).into());
            tokio::select! {
                // What the store answers comes first: others wait for it.
                biased;
                Some(answer) = from_store.recv() => {
                    if let Input::Durable(commit) | Input::CommitFailed { commit, .. } = &answer
                        && let Some(asked) = running.open.remove(commit)
                    {
                        running.measures.record(Observation::StoreCommit(asked.elapsed()));
                    }
                    running.last_failure = match &answer {
                        Input::CommitFailed { reason, .. } => Some(reason.clone()),
                        _ => None,
                    };
                    // Before anybody is answered that it could not be recorded.
                    if running.last_failure.is_some() {
                        running.tell_health();
                    }
                    running.handle(&clock, &mut ledger, answer);
                }
                Some(message) = from_calls.recv() => match message {
                    FromCalls::Begin(session, news) => {
                        running.sessions.insert(session, news);
                    }
                    FromCalls::Taken(answer) => {
                        // A call that no longer waits needs no answer.
                        let _ = answer.send(());
                    }
                    FromCalls::Input(input) => {
                        let over = if let Input::SessionOver { session } = &input { Some(*session) } else { None };
                        running.handle(&clock, &mut ledger, input);
                        if let Some(session) = over {
                            running.sessions.remove(&session);
                        }
                    }
                },
                report = from_tools.recv(), if !tools_ended => match report {
                    Some(report) => running.handle(&clock, &mut ledger, report),
                    None => tools_ended = true,
                },
                Some(callback) = callbacks.recv() => {
                    let Callback { request, operation, report, answer } = callback;
                    running.waiting.retain(|_, waiting| !waiting.is_closed());
                    running.waiting.insert(request, answer);
                    running.handle(&clock, &mut ledger, reported(request, operation, report));
                }
                Some(verification) = verifications.recv() => running.store.verification(verification),
                _ = beats.tick() => {
                    // Nothing goes on without the store: a box that waits for it for so long is to be started again.
                    if running.oldest_open() < STORE_STUCK {
                        pulse.beat();
                    }
                    // The check that runs beside the calls has found what the writer has not met yet.
                    if let Some(reason) = running.anew.borrow().as_deref() {
                        running.store.must_restart(reason);
                    }
                    running.tell_health();
                    running.measures.deliveries(&running.store.deliveries());
                    if let Some(executor) = &running.executor {
                        watch::tools(&running.health, &running.measures, &executor.load());
                    }
                    if !running.store.is_alive() {
                        error!("the store's thread has ended: nothing can be promised any more");
                        return;
                    }
                }
                // A box that stops begins no further attempts.
                () = super::sleep_until(deadline), if running.executor.is_some() => running.handle(&clock, &mut ledger, Input::Wake),
                _ = &mut stop, if tools_end.is_none() => {
                    running.webhook = None;
                    tools_end = running.executor.take().map(|executor| tokio::spawn(executor.stop(super::STOP_GRACE)));
                }
            }
        }
        if let Some(tools_end) = tools_end {
            let _ = tools_end.await;
        }
        ledger.end();
        match &running.last_failure {
            None => info!("everything is committed"),
            Some(reason) => warn!(reason, "the last commits failed: what they held is found again by what is on record, or is not known"),
        }
    }
}

impl Running {
    /// For how long the oldest commit is under way.
    fn oldest_open(&self) -> std::time::Duration {
        self.open.values().map(std::time::Instant::elapsed).max().unwrap_or_default()
    }

    /// Tells health how the store is, and who opens it anew that it has to be.
    fn tell_health(&self) {
        match self.store.restart_wanted() {
            None => {
                let failure = self.store.displaced().or_else(|| self.last_failure.clone());
                watch::store_health(&self.health, &self.store.stats(), failure.as_deref(), self.oldest_open());
            }
            Some(reason) => {
                self.health.raise(watch::STORE, Impact::Refuses, format!("{reason}: it is opened anew when the calls are over"));
                self.anew.send_if_modified(|wanted| wanted.replace(reason).is_none());
            }
        }
    }

    fn handle(&mut self, clock: &Clock, ledger: &mut Traced<Ledger>, input: Input) {
        trace_input(&input);
        if let Input::CommitFailed { commit, reason, .. } = &input
            && let Some(left_out) = self.failures.happened(std::time::Instant::now())
        {
            warn!(commit = commit.0, reason, left_out, "a commit failed");
        }
        let effects = ledger.handle(&mut clock.step(), input);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Persist { commit, writes } => {
                    self.open.insert(commit, std::time::Instant::now());
                    if let Err(reason) = self.store.commit(commit, writes) {
                        self.open.remove(&commit);
                        self.again.push_back(Input::CommitFailed { commit, reason: reason.to_string(), missing: false });
                    }
                }
                Effect::Dispatch(dispatch) => {
                    let Some(executor) = &self.executor else {
                        // It has not left and will not: the next start sends it, whatever its tool allows.
                        self.again.push_back(not_sent(&dispatch));
                        continue;
                    };
                    info!(operation_id = %dispatch.operation, tool = dispatch.tool, attempt = dispatch.attempt, "attempt sent");
                    if let Err(report) = executor.dispatch(dispatch) {
                        self.again.push_back(*report);
                    }
                }
                Effect::Cancel(request) => {
                    // A box that stops asks again at the next start: the operation is `Cancelling` on record.
                    let Some(executor) = &self.executor else { continue };
                    info!(operation_id = %request.operation, tool = request.tool, request = request.request, "cancel asked for");
                    if let Err(report) = executor.cancel(request) {
                        self.again.push_back(*report);
                    }
                }
                Effect::Inquire(inquiry) => {
                    // A box that stops asks again at the next start.
                    let Some(executor) = &self.executor else { continue };
                    debug!(operation_id = %inquiry.operation, tool = inquiry.tool, request = inquiry.request, "asked how it stands");
                    if let Err(report) = executor.inquire(inquiry) {
                        self.again.push_back(*report);
                    }
                }
                Effect::HandOff(hand_off) => {
                    info!(delivery_id = %hand_off.delivery, batch_id = %hand_off.batch, "hand-off begun");
                    let sent = match &mut self.webhook {
                        Some(webhook) => webhook.send(&hand_off),
                        None if self.executor.is_none() => continue,
                        None => Err(Box::new(not_handed_off(hand_off.delivery, "no webhook is configured"))),
                    };
                    if let Err(report) = sent {
                        self.again.push_back(*report);
                    }
                }
                Effect::Answer { request, answer } => {
                    info!(request = request.0, ?answer, "callback answered");
                    if let Some(waiting) = self.waiting.remove(&request) {
                        // The sender may have gone away meanwhile; it will ask again.
                        let _ = waiting.send(answer);
                    }
                }
                Effect::Tell { session, news } => self.tell(session, news),
                Effect::Measured(measure) => self.measures.record(measure),
            }
        }
    }

    fn tell(&mut self, session: SessionId, news: News) {
        let Some(sender) = self.sessions.get(&session) else {
            debug!(session_id = %session, "news for a call that is over");
            return;
        };
        if let Err(full) = sender.try_send(news) {
            // Dropping the sender ends the call: it sees its news closed. What it was owed is offered to the next one.
            error!(session_id = %session, "the call does not take its news ({full}): it is ended");
            self.sessions.remove(&session);
            self.again.push_back(Input::SessionOver { session });
        }
    }
}

fn trace_input(input: &Input) {
    match input {
        Input::Attempted { operation, attempt, outcome } => match outcome {
            AttemptOutcome::Succeeded(_) => info!(operation_id = %operation, attempt, "attempt succeeded"),
            AttemptOutcome::Deferred => info!(operation_id = %operation, attempt, "attempt taken: the result comes by callback"),
            // What the tool calls it may be an address with a secret in it.
            AttemptOutcome::Taken { .. } => info!(operation_id = %operation, attempt, "attempt taken: its result is asked for"),
            AttemptOutcome::Unreachable { reason, .. } => info!(operation_id = %operation, attempt, reason, "nothing has left: it waits"),
            AttemptOutcome::Failed { error, executed, retryable, .. } => {
                info!(operation_id = %operation, attempt, error, ?executed, retryable, "attempt failed");
            }
        },
        // What a tool answers is its own and its caller's: it is not logged.
        Input::CancelAttempted { operation, request, outcome } => match outcome {
            CancelOutcome::Failed { error, retryable, .. } => {
                info!(operation_id = %operation, request, error, retryable, "cancel request failed");
            }
            CancelOutcome::Recalled => info!(operation_id = %operation, request, "the attempt had not left, and was recalled"),
            CancelOutcome::Cancelled => info!(operation_id = %operation, request, "the tool has cancelled it"),
            CancelOutcome::Compensated => info!(operation_id = %operation, request, "the tool has undone it"),
            CancelOutcome::TooLate { .. } => info!(operation_id = %operation, request, "too late to cancel"),
            CancelOutcome::Unsupported => info!(operation_id = %operation, request, "nobody can be asked to cancel it"),
        },
        Input::Inquired { operation, request, outcome } => match outcome {
            InquiryOutcome::Unanswered { error, retryable, .. } => {
                info!(operation_id = %operation, request, error, retryable, "inquiry not answered");
            }
            InquiryOutcome::Running { .. } => debug!(operation_id = %operation, request, "it runs there"),
            InquiryOutcome::Succeeded(_) => info!(operation_id = %operation, request, "the tool says that it succeeded"),
            InquiryOutcome::Failed(error) => info!(operation_id = %operation, request, error, "the tool says that it failed"),
            InquiryOutcome::NotExecuted => info!(operation_id = %operation, request, "the tool says that it never got it"),
            InquiryOutcome::Cancelled => info!(operation_id = %operation, request, "the tool says that it was cancelled"),
            InquiryOutcome::Forgotten => info!(operation_id = %operation, request, "the tool does not know it any more"),
            InquiryOutcome::Unsupported => info!(operation_id = %operation, request, "nobody can be asked how it stands"),
        },
        Input::Callback { request, operation, .. } => info!(operation_id = %operation, request = request.0, "callback"),
        Input::Progress { operation, .. } => debug!(operation_id = %operation, "news of progress"),
        // Whether there is one to be taken back, the answer says.
        Input::Retract { request, operation } => {
            info!(operation_id = %operation, request = request.0, "a result is to be taken back");
        }
        Input::Cancel { session, tool, operation: _, verified: true } => info!(session_id = %session, tool, "cancel wanted"),
        Input::Accept { session, turn, response, call } => {
            info!(session_id = %session, turn_id = %turn, response_id = %response, tool = call.tool, "operation asked for");
        }
        Input::Claim { session, delivery, route } => info!(session_id = %session, delivery_id = %delivery, ?route, "claim asked for"),
        Input::Release { session, delivery } => info!(session_id = %session, delivery_id = %delivery, "claim given back"),
        Input::Settled { session, delivery, clauses } => {
            info!(session_id = %session, delivery_id = %delivery, clauses = ?settled(clauses), "delivery settled");
        }
        _ => {}
    }
}

fn reported(request: RequestId, operation: OperationId, report: Report) -> Input {
    match report {
        Report::Result(result) => Input::Callback { request, operation, result },
        Report::Progress(progress) => Input::Progress { request: Some(request), operation, progress },
        Report::Retracted => Input::Retract { request, operation },
    }
}

/// The report on an attempt that was never begun.
fn not_sent(dispatch: &Dispatch) -> Input {
    let outcome = AttemptOutcome::Failed {
        error: "the box was stopped before it was sent".to_owned(),
        executed: Executed::No,
        retryable: true,
        retry_after_ms: None,
    };
    Input::Attempted { operation: dispatch.operation, attempt: dispatch.attempt, outcome }
}

/// A commit that takes so long is stuck: a card stalls for half a second now and then.
const STORE_STUCK: std::time::Duration = std::time::Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    use recado_core::conversation::ToolCall;
    use recado_core::ids::{BootId, PartyId, ResponseId, TurnId};
    use recado_core::ledger::OperationState;
    use recado_core::policy::{Language, ToolPolicy};
    use recado_trace::subject::LedgerStart;
    use serde_json::json;
    use tokio::task::JoinHandle;

    use super::super::clock::wall;
    use super::super::run::snapshot;
    use super::*;
    use crate::cognition::tools::{AttemptFuture, Sent, Slot, ToolPort};
    use crate::coordination::{Options, Reader, Store};
    use crate::traces::Traces;

    /// A tool that succeeds, and counts how often it was asked.
    #[derive(Default)]
    struct Counted(AtomicU32);

    impl ToolPort for Counted {
        fn attempt(&self, _: Dispatch, sent: Sent) -> AttemptFuture {
            assert!(sent.mark());
            self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { AttemptOutcome::Succeeded(json!({})) })
        }
    }

    /// A ledger's task that runs on a real store. The test passes on what the store answers.
    struct Rig {
        task: JoinHandle<()>,
        calls: mpsc::Sender<FromCalls>,
        answered: mpsc::UnboundedReceiver<Input>,
        answers: mpsc::Sender<Input>,
        stop: oneshot::Sender<()>,
        anew: watch_channel::Sender<Option<String>>,
        health: HealthState,
        _callbacks: mpsc::Sender<Callback>,
    }

    impl Rig {
        fn start(store: &Path, tool: &Arc<Counted>) -> Self {
            let (clock, boot) = (Clock::start(), BootId(super::super::random()));
            let (store, recovered) = Store::open(store, &Options::new(boot, wall())).unwrap();
            let (told, answered) = mpsc::unbounded_channel();
            let store = store.start(move |answer| drop(told.send(answer.into()))).unwrap();
            // Not idempotent: an attempt whose fate is not known would never be repeated.
            let policies = BTreeMap::from([("order".to_owned(), ToolPolicy::default())]);
            let start = LedgerStart { boot, policies, snapshot: snapshot(recovered) };
            let (ledger, recovery) = Traced::<Ledger>::begin(&Traces::off(), "ledger", &mut clock.step(), start);
            let (reports, from_tools) = mpsc::channel(8);
            let slot = Slot { port: Arc::clone(tool) as Arc<dyn ToolPort>, concurrency: NonZeroUsize::MIN };
            let executor = Executor::start(BTreeMap::from([("order".to_owned(), slot)]), NonZeroUsize::MIN, reports);
            let (calls, from_calls) = mpsc::channel(8);
            let (answers, from_store) = mpsc::channel(8);
            let (callback_queue, callbacks) = mpsc::channel(8);
            let (_, verifications) = mpsc::channel(1);
            let (stop, stops) = oneshot::channel();
            let (anew, health) = (watch_channel::Sender::new(None), HealthState::new(Instant::now()));
            let task = LedgerTask {
                clock,
                ledger,
                recovery,
                store,
                executor,
                webhook: None,
                from_calls,
                from_tools,
                from_store,
                callbacks,
                verifications,
                measures: Measures::new().unwrap(),
                health: health.clone(),
                pulse: Pulse::new(clock),
                stop: stops,
                anew: anew.clone(),
            };
            Self { task: tokio::spawn(task.run()), calls, answered, answers, stop, anew, health, _callbacks: callback_queue }
        }

        /// Passes on whatever the store answers from now on.
        fn pass_on(mut answered: mpsc::UnboundedReceiver<Input>, answers: mpsc::Sender<Input>) {
            tokio::spawn(async move {
                while let Some(answer) = answered.recv().await {
                    // The task takes answers until it has all that it waits for.
                    let _ = answers.send(answer).await;
                }
            });
        }
    }

    // On one thread, so that the task has taken what it was told when the test goes on.
    #[tokio::test]
    async fn a_stopping_box_begins_no_attempt_and_reports_those_that_it_did_not_send() {
        let folder = tempfile::tempdir().unwrap();
        let (file, tool) = (folder.path().join("recado.db"), Arc::new(Counted::default()));
        let Rig { task, calls, mut answered, answers, stop, _callbacks, .. } = Rig::start(&file, &tool);
        let (session, response) = (SessionId(1), ResponseId(1));
        let (news, _told) = mpsc::channel(64);
        let call = ToolCall { call_id: "1".into(), tool: "order".into(), arguments: json!({ "item": "paella" }), confirmed: false };
        let party = Some(PartyId("default/ana".into()));
        calls.send(FromCalls::Begin(session, news)).await.unwrap();
        for input in [
            Input::SessionUp { session, party, language: Language::En },
            Input::Accept { session, turn: TurnId(1), response, call },
            Input::Seal { session, response },
        ] {
            calls.send(FromCalls::Input(input)).await.unwrap();
        }
        // The operation and its first attempt are durable, and the ledger does not know yet.
        let durable = answered.recv().await.unwrap();
        assert!(matches!(durable, Input::Durable(_)), "{durable:?}");
        stop.send(()).unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        answers.send(durable).await.unwrap();
        Rig::pass_on(answered, answers);
        tokio::time::timeout(Duration::from_secs(20), task).await.expect("it stops").unwrap();
        assert_eq!(tool.0.load(Ordering::SeqCst), 0, "an attempt was begun");
        let [operation] = &Reader::open(&file).unwrap().history().unwrap().operations[..] else { panic!() };
        assert_eq!((operation.state, operation.attempt), (OperationState::RetryWait, 1));

        // What was not sent is sent by the next box, though the tool is not idempotent.
        let Rig { task, calls, answered, answers, stop, _callbacks, .. } = Rig::start(&file, &tool);
        Rig::pass_on(answered, answers);
        let deadline = Instant::now() + Duration::from_secs(20);
        while Reader::open(&file).unwrap().history().unwrap().operations[0].state != OperationState::Succeeded {
            assert!(Instant::now() < deadline, "it is not sent");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stop.send(()).unwrap();
        task.await.unwrap();
        drop(calls);
        assert_eq!(tool.0.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn what_the_check_beside_the_box_finds_keeps_new_work_out_of_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let (file, tool) = (folder.path().join("recado.db"), Arc::new(Counted::default()));
        let Rig { task, calls, mut answered, answers, stop, anew, health, _callbacks } = Rig::start(&file, &tool);
        anew.send_replace(Some("the store is damaged (a page)".to_owned()));
        let deadline = Instant::now() + Duration::from_secs(20);
        while !health.refuses() {
            assert!(Instant::now() < deadline, "nobody hears of it");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (session, response) = (SessionId(1), ResponseId(1));
        let (news, _told) = mpsc::channel(64);
        let call = ToolCall { call_id: "1".into(), tool: "order".into(), arguments: json!({}), confirmed: false };
        let party = Some(PartyId("default/ana".into()));
        calls.send(FromCalls::Begin(session, news)).await.unwrap();
        let up = Input::SessionUp { session, party, language: Language::En };
        for input in [up, Input::Accept { session, turn: TurnId(1), response, call }] {
            calls.send(FromCalls::Input(input)).await.unwrap();
        }
        let refused = answered.recv().await.unwrap();
        assert!(
            matches!(&refused, Input::CommitFailed { reason, .. } if reason.contains("opened anew: the store is damaged (a page)")),
            "{refused:?}"
        );
        answers.send(refused).await.unwrap();
        Rig::pass_on(answered, answers);
        stop.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(20), task).await.expect("it stops").unwrap();
        assert_eq!(tool.0.load(Ordering::SeqCst), 0, "an attempt was begun");
        assert!(Reader::open(&file).unwrap().history().unwrap().operations.is_empty());
    }

    #[tokio::test]
    async fn health_refuses_before_anybody_hears_that_nothing_can_be_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let (file, tool) = (folder.path().join("recado.db"), Arc::new(Counted::default()));
        let Rig { task, calls, answered, answers, stop, anew, health, _callbacks } = Rig::start(&file, &tool);
        Rig::pass_on(answered, answers);
        // It can't be written again into its place.
        std::fs::create_dir(folder.path().join("recado.db.restoring")).unwrap();
        std::fs::remove_file(&file).unwrap();
        let (session, response) = (SessionId(1), ResponseId(1));
        let (news, mut told) = mpsc::channel(64);
        let call = ToolCall { call_id: "1".into(), tool: "order".into(), arguments: json!({}), confirmed: false };
        let party = Some(PartyId("default/ana".into()));
        calls.send(FromCalls::Begin(session, news)).await.unwrap();
        let up = Input::SessionUp { session, party, language: Language::En };
        for input in [up, Input::Accept { session, turn: TurnId(1), response, call }] {
            calls.send(FromCalls::Input(input)).await.unwrap();
        }
        let refused = tokio::time::timeout(Duration::from_secs(20), told.recv()).await.expect("it is answered");
        assert!(matches!(&refused, Some(News::Refused { reason, .. }) if reason.contains("moved or removed")), "{refused:?}");
        assert!(health.refuses(), "{:?}", health.report(Instant::now()));
        // What the connection holds is nowhere else: it is not closed for that.
        assert_eq!(*anew.borrow(), None);
        stop.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(20), task).await.expect("it stops").unwrap();
    }
}
