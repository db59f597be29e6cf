//! Runs attempts within limits and reports each of them.
//!
//! The executor performs exactly the attempt that it is given. It knows no retries, no deadlines of operations and no
//! store: the ledger decides, and what it decided is durable before it comes here (R1, R2).
//!
//! A report is never lost: every [`Dispatch`] that was taken is followed by one [`ledger::Input::Attempted`], also when
//! the attempt panics or the box stops, and every [`CancelRequest`] by one [`ledger::Input::CancelAttempted`].
//! [`Executor::dispatch`] and [`Executor::cancel`] never wait, so that the ledger's task, which reads the reports, can't end
//! up waiting for itself.
//!
//! A cancel recalls an attempt that has not left the box; otherwise the tool is asked, beside its attempts: one that hangs must
//! not hold up its own cancel.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use recado_core::OperationId;
use recado_core::ledger::{self, AttemptOutcome, CancelOutcome, CancelRequest, Dispatch, Executed};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::port::{Sent, ToolPort, cancel_failed, failed};

/// Runs the attempts of all tools.
#[derive(Debug)]
pub struct Executor {
    /// In the order in which they came, so that a cancel finds its attempt. What is in it has a place: that bounds it.
    queue: mpsc::UnboundedSender<(Order, Place)>,
    attempts: Arc<Semaphore>,
    cancels: Arc<Semaphore>,
    phase: watch::Sender<Phase>,
    task: JoinHandle<()>,
}

/// What the ledger wants done.
#[derive(Debug)]
enum Order {
    Attempt(Dispatch),
    Cancel(CancelRequest),
}

/// One of the places for what the executor has taken: given back when its report has been taken.
type Place = OwnedSemaphorePermit;

/// A tool in the executor: what carries its attempts out, and how many at a time.
#[derive(Clone)]
pub struct Slot {
    /// What carries an attempt out.
    pub port: Arc<dyn ToolPort>,
    /// How many attempts at a time.
    pub concurrency: NonZeroUsize,
}

impl Executor {
    /// Starts an executor for `tools`, at most `concurrency` attempts at a time in all. How each attempt went is sent
    /// to `reports`; while nobody takes the reports, no further attempt begins.
    pub fn start(tools: BTreeMap<String, Slot>, concurrency: NonZeroUsize, reports: mpsc::Sender<ledger::Input>) -> Self {
        let (queue, orders) = mpsc::unbounded_channel();
        let (phase, watched) = watch::channel(Phase::Running);
        let tools = tools.into_iter().map(|(name, slot)| (name, Lane::new(slot))).collect();
        let work = Work {
            tools,
            free: Arc::new(Semaphore::new(concurrency.get())),
            waiting: VecDeque::new(),
            running: JoinSet::new(),
            under_way: BTreeMap::new(),
            phase: watched,
            reports,
        };
        Self {
            queue,
            attempts: Arc::new(Semaphore::new(ATTEMPTS_MAX)),
            cancels: Arc::new(Semaphore::new(CANCELS_MAX)),
            phase,
            task: tokio::spawn(work.run(orders)),
        }
    }

    /// Hands over an attempt, without waiting. One that can't be taken comes back as the report on it, to be given to
    /// the ledger: it provably did not execute.
    pub fn dispatch(&self, dispatch: Dispatch) -> Result<(), Box<ledger::Input>> {
        self.take(Order::Attempt(dispatch), &self.attempts, "too many attempts wait on this box already")
    }

    /// Hands over a cancel request, without waiting. One that can't be taken comes back as the report on it. Attempts that wait
    /// leave cancels their places: when most hangs, most is cancelled.
    pub fn cancel(&self, request: CancelRequest) -> Result<(), Box<ledger::Input>> {
        self.take(Order::Cancel(request), &self.cancels, "too many cancels wait on this box already")
    }

    fn take(&self, order: Order, places: &Arc<Semaphore>, full: &str) -> Result<(), Box<ledger::Input>> {
        let Ok(place) = places.clone().try_acquire_owned() else { return Err(Box::new(order.refused(full))) };
        self.queue.send((order, place)).map_err(|mpsc::error::SendError((order, _))| Box::new(order.refused(STOPPING)))
    }

    /// Stops: what has not begun is reported as not executed, what is under way gets `grace` to end and is then given
    /// up and reported. Returns when every report has been taken, or `REPORTS_TAKEN_WITHIN` after the last attempt.
    pub async fn stop(self, grace: Duration) {
        let Self { queue, phase, mut task, .. } = self;
        drop(queue);
        phase.send_replace(Phase::Draining);
        if tokio::time::timeout(grace, &mut task).await.is_ok() {
            return;
        }
        phase.send_replace(Phase::GivingUp);
        if tokio::time::timeout(REPORTS_TAKEN_WITHIN, &mut task).await.is_err() {
            task.abort();
            tracing::error!("the executor stops with reports that nobody takes: after the restart their operations count as doubtful");
        }
    }
}

impl Order {
    /// The report on what was not begun.
    fn refused(&self, error: &str) -> ledger::Input {
        match self {
            Order::Attempt(dispatch) => report(dispatch.operation, dispatch.attempt, failed(error, Executed::No, true)),
            Order::Cancel(request) => cancel_report(request, cancel_failed(error, true)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Nothing new begins.
    Draining,
    /// What is under way is given up.
    GivingUp,
}

struct Lane {
    port: Arc<dyn ToolPort>,
    free: Arc<Semaphore>,
}

impl Lane {
    fn new(slot: Slot) -> Self {
        Self { port: slot.port, free: Arc::new(Semaphore::new(slot.concurrency.get())) }
    }
}

struct Work {
    tools: BTreeMap<String, Lane>,
    free: Arc<Semaphore>,
    /// In the order in which they came.
    waiting: VecDeque<(Dispatch, Place)>,
    running: JoinSet<()>,
    /// The way to recall each attempt that is under way.
    under_way: BTreeMap<OperationId, mpsc::Sender<Recall>>,
    phase: watch::Receiver<Phase>,
    reports: mpsc::Sender<ledger::Input>,
}

/// Asks an attempt to end if it has not left the box, and is answered whether it provably has not.
type Recall = oneshot::Sender<bool>;

impl Work {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<(Order, Place)>) {
        loop {
            self.begin_what_may();
            let order = tokio::select! {
                Some(_) = self.running.join_next(), if !self.running.is_empty() => None,
                taken = orders.recv() => match taken {
                    Some(order) => Some(order),
                    // Every handle is gone, or the executor stops.
                    None => break,
                },
                _ = self.phase.wait_for(|phase| *phase != Phase::Running) => break,
            };
            match order {
                Some((Order::Attempt(dispatch), place)) => self.waiting.push_back((dispatch, place)),
                Some((Order::Cancel(request), place)) => self.cancel(request, place),
                None => self.under_way.retain(|_, recall| !recall.is_closed()),
            }
        }
        orders.close();
        for (dispatch, place) in std::mem::take(&mut self.waiting) {
            self.report_only(Order::Attempt(dispatch).refused(STOPPING), place);
        }
        while let Some((order, place)) = orders.recv().await {
            self.report_only(order.refused(STOPPING), place);
        }
        while self.running.join_next().await.is_some() {}
    }

    /// Begins every waiting attempt whose tool, and the whole, have room; oldest first.
    fn begin_what_may(&mut self) {
        let mut still_waiting = VecDeque::with_capacity(self.waiting.len());
        for (dispatch, place) in std::mem::take(&mut self.waiting) {
            let Some(lane) = self.tools.get(&dispatch.tool) else {
                let error = format!("the tool `{}` is no longer configured on this box", dispatch.tool);
                self.report_only(report(dispatch.operation, dispatch.attempt, failed(error, Executed::No, false)), place);
                continue;
            };
            let Ok(of_tool) = lane.free.clone().try_acquire_owned() else {
                still_waiting.push_back((dispatch, place));
                continue;
            };
            let Ok(of_all) = self.free.clone().try_acquire_owned() else {
                still_waiting.push_back((dispatch, place));
                continue;
            };
            let (port, reports, phase) = (lane.port.clone(), self.reports.clone(), self.phase.clone());
            let (recall, recalls) = mpsc::channel(1);
            self.under_way.insert(dispatch.operation, recall);
            self.running.spawn(async move {
                let (operation, attempt) = (dispatch.operation, dispatch.attempt);
                let outcome = carry_out(port, dispatch, phase, recalls).await;
                send(&reports, report(operation, attempt, outcome)).await;
                // Held until the report is taken: a ledger that is behind is not given more.
                drop((of_tool, of_all, place));
            });
        }
        self.waiting = still_waiting;
    }

    /// Recalls an attempt that waits here; one that is under way is asked whether it has left; then it is the tool's turn.
    fn cancel(&mut self, request: CancelRequest, place: Place) {
        if let Some(at) = self.waiting.iter().position(|(waiting, _)| waiting.operation == request.operation)
            && let Some((dispatch, of_attempt)) = self.waiting.remove(at)
        {
            self.report_only(report(dispatch.operation, dispatch.attempt, failed(RECALLED, Executed::No, true)), of_attempt);
            return self.report_only(cancel_report(&request, CancelOutcome::Recalled), place);
        }
        let recall = self.under_way.get(&request.operation).cloned();
        let port = self.tools.get(&request.tool).map(|lane| lane.port.clone());
        let (reports, mut phase) = (self.reports.clone(), self.phase.clone());
        self.running.spawn(async move {
            let asking = ask_to_cancel(recall, port, request.clone());
            let outcome = tokio::select! {
                outcome = asking => outcome,
                () = given_up(&mut phase) => cancel_failed(STOPPING, true),
            };
            send(&reports, cancel_report(&request, outcome)).await;
            drop(place);
        });
    }

    fn report_only(&mut self, report: ledger::Input, place: Place) {
        let reports = self.reports.clone();
        self.running.spawn(async move {
            send(&reports, report).await;
            drop(place);
        });
    }
}

async fn carry_out(
    port: Arc<dyn ToolPort>,
    dispatch: Dispatch,
    mut phase: watch::Receiver<Phase>,
    mut recalls: mpsc::Receiver<Recall>,
) -> AttemptOutcome {
    let (operation, attempt) = (dispatch.operation, dispatch.attempt);
    let sent = Sent::default();
    let of_attempt = sent.clone();
    // A task of its own, so that a panic ends there. It is made inside, since making the future may panic too.
    let mut task = tokio::spawn(async move { port.attempt(dispatch, of_attempt).await });
    let mut why = "the box stopped before the tool answered";
    let mut recalled = None;
    let joined = loop {
        tokio::select! {
            joined = &mut task => break joined,
            () = given_up(&mut phase) => {
                task.abort();
                // What was finished in the meantime still counts.
                break task.await;
            }
            Some(recall) = recalls.recv() => {
                // From here on it can't leave any more, unless it has.
                if sent.end() == Executed::Maybe {
                    let _ = recall.send(false);
                } else {
                    task.abort();
                    (why, recalled) = (RECALLED, Some(recall));
                    break task.await;
                }
            }
        }
    };
    let outcome = match joined {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => {
            tracing::error!(%operation, attempt, "an attempt panicked; its operation counts as doubtful");
            failed("a fault in the box's own software broke the attempt off", Executed::Maybe, false)
        }
        // What still runs of it, such as its connection, finds that it may not leave.
        Err(_) => failed(why, sent.end(), true),
    };
    if let Some(recall) = recalled {
        // The cancel that asked may have been given up.
        let _ = recall.send(matches!(outcome, AttemptOutcome::Failed { executed: Executed::No, .. }));
    }
    outcome
}

async fn ask_to_cancel(recall: Option<mpsc::Sender<Recall>>, port: Option<Arc<dyn ToolPort>>, request: CancelRequest) -> CancelOutcome {
    if let Some(attempt) = recall {
        let (recall, answer) = oneshot::channel();
        // An attempt that ends meanwhile answers nothing, and reports itself.
        if attempt.send(recall).await.is_ok() && answer.await == Ok(true) {
            return CancelOutcome::Recalled;
        }
    }
    let Some(port) = port else { return CancelOutcome::Unsupported };
    let operation = request.operation;
    match tokio::spawn(async move { port.cancel(request).await }).await {
        Ok(outcome) => outcome,
        Err(_) => {
            tracing::error!(%operation, "a cancel request panicked");
            cancel_failed("a fault in the box's own software broke the cancel request off", false)
        }
    }
}

async fn given_up(phase: &mut watch::Receiver<Phase>) {
    if phase.wait_for(|phase| *phase == Phase::GivingUp).await.is_err() {
        // The executor was dropped without a stop: what is under way ends by itself.
        std::future::pending::<()>().await;
    }
}

async fn send(reports: &mpsc::Sender<ledger::Input>, report: ledger::Input) {
    if let Err(mpsc::error::SendError(report)) = reports.send(report).await {
        tracing::error!(?report, "nobody takes reports on attempts any more");
    }
}

fn report(operation: OperationId, attempt: u32, outcome: AttemptOutcome) -> ledger::Input {
    ledger::Input::Attempted { operation, attempt, outcome }
}

fn cancel_report(request: &CancelRequest, outcome: CancelOutcome) -> ledger::Input {
    ledger::Input::CancelAttempted { operation: request.operation, request: request.request, outcome }
}

const RECALLED: &str = "it was cancelled before it was sent";

const STOPPING: &str = "the box is stopping";

/// Attempts on their way, waiting or under way. A box serves a few calls at a time; a thousand means that tools hang, and further
/// ones are better refused than kept.
const ATTEMPTS_MAX: usize = 1_024;

/// Cancels on their way or under way: those of a few calls whose tools hang.
const CANCELS_MAX: usize = 256;

/// After the last attempt has been given up, as long as the ledger may take for its last commits.
const REPORTS_TAKEN_WITHIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use recado_core::IntentKey;
    use serde_json::json;

    use super::*;
    use crate::cognition::tools::port::{AttemptFuture, CancelFuture};

    #[tokio::test]
    async fn each_attempt_is_performed_once_and_reported_once() {
        let tool = Arc::new(Scripted::default());
        let (executor, mut reports) = start(&[("a", tool.clone(), 2)], 4);
        for n in 0..20 {
            executor.dispatch(dispatch("a", n, "ok")).unwrap();
        }
        let mut reported = Vec::new();
        for _ in 0..20 {
            reported.push(told(&mut reports).await);
        }
        reported.sort_by_key(|(operation, _)| *operation);
        for (n, (operation, outcome)) in reported.into_iter().enumerate() {
            assert_eq!((operation, outcome), (OperationId(n as u128), AttemptOutcome::Succeeded(json!({}))));
        }
        executor.stop(Duration::ZERO).await;
        assert!(reports.recv().await.is_none(), "and nothing more");
        assert_eq!(tool.begun.load(Ordering::SeqCst), 20);
    }

    #[tokio::test]
    async fn no_more_attempts_run_at_a_time_than_the_tool_and_the_box_allow() {
        let (one, other) = (Arc::new(Scripted::default()), Arc::new(Scripted::default()));
        let (executor, mut reports) = start(&[("a", one.clone(), 2), ("b", other.clone(), 8)], 5);
        for n in 0..30 {
            executor.dispatch(dispatch(if n % 2 == 0 { "a" } else { "b" }, n, "yield")).unwrap();
        }
        for _ in 0..30 {
            told(&mut reports).await;
        }
        assert_eq!(one.most.load(Ordering::SeqCst), 2);
        assert!((3..=5).contains(&other.most.load(Ordering::SeqCst)), "it uses what the first leaves, and no more than all");
        executor.stop(Duration::ZERO).await;
    }

    #[tokio::test]
    async fn a_tool_that_hangs_holds_up_no_other() {
        let (executor, mut reports) = start(&[("a", Arc::new(Scripted::default()), 1), ("b", Arc::new(Scripted::default()), 1)], 4);
        for n in 0..3 {
            executor.dispatch(dispatch("a", n, "hang")).unwrap();
        }
        executor.dispatch(dispatch("b", 9, "ok")).unwrap();
        assert_eq!(told(&mut reports).await.0, OperationId(9));
        drop(executor);
    }

    #[tokio::test]
    async fn a_panic_in_an_attempt_is_reported_as_doubtful_and_frees_its_place() {
        let (executor, mut reports) = start(&[("a", Arc::new(Scripted::default()), 1)], 1);
        executor.dispatch(dispatch("a", 1, "panic")).unwrap();
        executor.dispatch(dispatch("a", 2, "ok")).unwrap();
        let (operation, outcome) = told(&mut reports).await;
        assert_eq!(operation, OperationId(1));
        assert!(matches!(outcome, AttemptOutcome::Failed { executed: Executed::Maybe, retryable: false, .. }), "{outcome:?}");
        assert_eq!(told(&mut reports).await.0, OperationId(2));
        executor.stop(Duration::ZERO).await;
    }

    #[tokio::test]
    async fn an_attempt_at_a_tool_that_is_gone_is_reported_as_not_executed() {
        let (executor, mut reports) = start(&[], 1);
        executor.dispatch(dispatch("gone", 1, "ok")).unwrap();
        let (_, outcome) = told(&mut reports).await;
        assert!(matches!(outcome, AttemptOutcome::Failed { executed: Executed::No, retryable: false, .. }), "{outcome:?}");
        executor.stop(Duration::ZERO).await;
    }

    #[tokio::test]
    async fn a_stop_reports_what_waits_as_not_executed_and_what_was_sent_as_doubtful() {
        let tool = Arc::new(Scripted::default());
        let (executor, mut reports) = start(&[("a", tool.clone(), 2)], 2);
        executor.dispatch(dispatch("a", 1, "hang")).unwrap();
        executor.dispatch(dispatch("a", 2, "hang unsent")).unwrap();
        executor.dispatch(dispatch("a", 3, "ok")).unwrap();
        while tool.begun.load(Ordering::SeqCst) < 2 {
            tool.changed.notified().await;
        }
        executor.stop(Duration::from_millis(1)).await;
        let mut outcomes = BTreeMap::new();
        while let Some(ledger::Input::Attempted { operation, outcome, .. }) = reports.recv().await {
            outcomes.insert(operation, outcome);
        }
        let executed = |operation| match &outcomes[&OperationId(operation)] {
            AttemptOutcome::Failed { executed, retryable: true, .. } => *executed,
            other => panic!("{other:?}"),
        };
        assert_eq!((executed(1), executed(2), executed(3)), (Executed::Maybe, Executed::No, Executed::No));
    }

    #[tokio::test]
    async fn a_stop_lets_what_is_under_way_end_within_its_grace() {
        let tool = Arc::new(Scripted::default());
        let (executor, mut reports) = start(&[("a", tool.clone(), 1)], 1);
        executor.dispatch(dispatch("a", 1, "gate")).unwrap();
        while tool.begun.load(Ordering::SeqCst) < 1 {
            tool.changed.notified().await;
        }
        let stopping = tokio::spawn(executor.stop(Duration::from_secs(60)));
        tool.gate.add_permits(1);
        assert_eq!(told(&mut reports).await.1, AttemptOutcome::Succeeded(json!({})));
        stopping.await.unwrap();
    }

    #[tokio::test]
    async fn attempts_beyond_those_that_may_wait_come_back_as_not_executed() {
        let tool = Arc::new(Scripted::default());
        let (executor, _reports) = start(&[("a", tool, 1)], 1);
        let mut given_back = None;
        // The executor's task does not run in between: this test never waits.
        for n in 0..=ATTEMPTS_MAX as u128 {
            given_back = executor.dispatch(dispatch("a", n, "hang")).err();
        }
        let Some(ledger::Input::Attempted { operation, attempt, outcome }) = given_back.map(|report| *report) else { panic!() };
        assert_eq!((operation, attempt), (OperationId(ATTEMPTS_MAX as u128), 1));
        assert!(matches!(outcome, AttemptOutcome::Failed { executed: Executed::No, retryable: true, .. }), "{outcome:?}");
    }

    #[tokio::test]
    async fn reports_that_nobody_takes_hold_up_attempts_and_lose_nothing() {
        let tool = Arc::new(Scripted::default());
        let (sender, mut reports) = mpsc::channel(1);
        let executor = Executor::start(slots(&[("a", tool.clone(), 4)]), NonZeroUsize::new(4).unwrap(), sender);
        for n in 0..50 {
            executor.dispatch(dispatch("a", n, "ok")).unwrap();
        }
        while tool.begun.load(Ordering::SeqCst) < 5 {
            tool.changed.notified().await;
        }
        tokio::task::yield_now().await;
        assert!(tool.begun.load(Ordering::SeqCst) <= 6, "one report waits in the channel, four hold their places");
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < 50 {
            seen.insert(told(&mut reports).await.0);
        }
        executor.stop(Duration::ZERO).await;
    }

    #[tokio::test]
    async fn a_cancel_recalls_what_has_not_left_and_asks_the_tool_about_what_has() {
        let tool = Arc::new(Scripted::default());
        let (executor, mut reports) = start(&[("a", tool.clone(), 2)], 2);
        executor.dispatch(dispatch("a", 1, "hang")).unwrap();
        executor.dispatch(dispatch("a", 2, "hang unsent")).unwrap();
        executor.dispatch(dispatch("a", 3, "ok")).unwrap();
        while tool.begun.load(Ordering::SeqCst) < 2 {
            tool.changed.notified().await;
        }
        for (operation, outcome) in
            [(3, CancelOutcome::Recalled), (2, CancelOutcome::Recalled), (1, CancelOutcome::Compensated), (9, CancelOutcome::Compensated)]
        {
            executor.cancel(cancel("a", operation)).unwrap();
            let (mut cancelled, mut attempted) = (None, None);
            while cancelled.is_none() || (outcome == CancelOutcome::Recalled && attempted.is_none()) {
                match reports.recv().await {
                    Some(ledger::Input::CancelAttempted { operation: of, request: 7, outcome }) => cancelled = Some((of, outcome)),
                    Some(ledger::Input::Attempted { operation: of, outcome, .. }) => attempted = Some((of, outcome)),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(cancelled, Some((OperationId(operation), outcome)));
            if let Some((of, attempt)) = attempted {
                assert_eq!(of, OperationId(operation));
                assert!(matches!(attempt, AttemptOutcome::Failed { executed: Executed::No, .. }), "{attempt:?}");
            }
        }
        assert_eq!(tool.begun.load(Ordering::SeqCst), 2, "what was recalled from the queue never begins");
        executor.stop(Duration::ZERO).await;
    }

    #[tokio::test]
    async fn a_cancel_at_a_tool_that_is_gone_or_a_box_that_stops_is_answered() {
        let (executor, mut reports) = start(&[], 1);
        executor.cancel(cancel("gone", 1)).unwrap();
        let told = reports.recv().await;
        assert!(matches!(told, Some(ledger::Input::CancelAttempted { outcome: CancelOutcome::Unsupported, .. })), "{told:?}");
        executor.cancel(cancel("gone", 2)).unwrap();
        executor.stop(Duration::ZERO).await;
        let told = reports.recv().await;
        assert!(matches!(told, Some(ledger::Input::CancelAttempted { operation: OperationId(2), .. })), "{told:?}");
    }

    #[tokio::test]
    async fn what_was_recalled_or_given_up_never_leaves_however_long_its_connection_takes() {
        for stopped in [false, true] {
            let tool = Arc::new(Scripted::default());
            let (executor, mut reports) = start(&[("a", tool.clone(), 1)], 1);
            executor.dispatch(dispatch("a", 1, "detached unsent")).unwrap();
            while tool.begun.load(Ordering::SeqCst) < 1 {
                tool.changed.notified().await;
            }
            if stopped {
                executor.stop(Duration::ZERO).await;
            } else {
                executor.cancel(cancel("a", 1)).unwrap();
            }
            let attempted = async {
                loop {
                    if let Some(ledger::Input::Attempted { outcome, .. }) = reports.recv().await {
                        return outcome;
                    }
                }
            };
            assert!(matches!(attempted.await, AttemptOutcome::Failed { executed: Executed::No, .. }));
            tool.gate.add_permits(1);
            while tool.left.load(Ordering::SeqCst) == 0 {
                tool.changed.notified().await;
            }
            assert_eq!(tool.left.load(Ordering::SeqCst), STAYED);
        }
    }

    #[tokio::test]
    async fn attempts_that_fill_the_box_hold_up_no_cancel() {
        let tool = Arc::new(Scripted::default());
        let (executor, mut reports) = start(&[("a", tool.clone(), 1)], 1);
        for n in 0..ATTEMPTS_MAX as u128 {
            executor.dispatch(dispatch("a", n, "hang")).unwrap();
        }
        let last = ATTEMPTS_MAX as u128 - 1;
        for n in last + 1 - CANCELS_MAX as u128..=last {
            executor.cancel(cancel("a", n)).unwrap();
        }
        executor.cancel(cancel("a", 1)).expect_err("their own number is bounded too");
        let mut recalled = 0;
        while recalled < CANCELS_MAX {
            match reports.recv().await {
                Some(ledger::Input::CancelAttempted { outcome: CancelOutcome::Recalled, .. }) => recalled += 1,
                Some(ledger::Input::Attempted { outcome: AttemptOutcome::Failed { executed: Executed::No, .. }, .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        executor.dispatch(dispatch("a", last + 1, "hang")).expect("what was recalled made room");
    }

    fn cancel(tool: &str, operation: u128) -> CancelRequest {
        CancelRequest {
            operation: OperationId(operation),
            request: 7,
            tool: tool.to_owned(),
            arguments: json!({}),
            intent_key: IntentKey("key".to_owned()),
        }
    }

    /// A tool whose arguments say what it does, and that undoes what it is asked to cancel.
    #[derive(Default)]
    struct Scripted {
        begun: AtomicUsize,
        now: Arc<AtomicUsize>,
        most: AtomicUsize,
        changed: Arc<tokio::sync::Notify>,
        left: Arc<AtomicUsize>,
        gate: Arc<Gate>,
    }

    const LEFT: usize = 1;
    const STAYED: usize = 2;

    struct Gate(Semaphore);

    impl Default for Gate {
        fn default() -> Self {
            Self(Semaphore::new(0))
        }
    }

    impl Gate {
        fn add_permits(&self, n: usize) {
            self.0.add_permits(n);
        }
    }

    impl ToolPort for Scripted {
        fn attempt(&self, dispatch: Dispatch, sent: Sent) -> AttemptFuture {
            let now = self.now.clone();
            self.most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let what = dispatch.arguments["do"].as_str().unwrap().to_owned();
            if !what.ends_with("unsent") {
                assert!(sent.mark());
            }
            self.begun.fetch_add(1, Ordering::SeqCst);
            self.changed.notify_one();
            let gate = self.gate.clone();
            if what == "detached unsent" {
                let (changed, left) = (self.changed.clone(), self.left.clone());
                // As an HTTP client's connection does, it goes on when the attempt is dropped.
                tokio::spawn(async move {
                    gate.0.acquire().await.unwrap().forget();
                    left.store(if sent.mark() { LEFT } else { STAYED }, Ordering::SeqCst);
                    changed.notify_one();
                });
                return Box::pin(std::future::pending());
            }
            Box::pin(async move {
                match what.as_str() {
                    "hang" | "hang unsent" => std::future::pending::<()>().await,
                    "panic" => panic!("as the test asks"),
                    "gate" => gate.0.acquire().await.unwrap().forget(),
                    "yield" => tokio::task::yield_now().await,
                    _ => {}
                }
                now.fetch_sub(1, Ordering::SeqCst);
                AttemptOutcome::Succeeded(json!({}))
            })
        }

        fn cancel(&self, _: CancelRequest) -> CancelFuture {
            Box::pin(async { CancelOutcome::Compensated })
        }
    }

    fn slots(tools: &[(&str, Arc<Scripted>, usize)]) -> BTreeMap<String, Slot> {
        tools
            .iter()
            .map(|(name, port, concurrency)| {
                let slot = Slot { port: port.clone(), concurrency: NonZeroUsize::new(*concurrency).unwrap() };
                ((*name).to_owned(), slot)
            })
            .collect()
    }

    fn start(tools: &[(&str, Arc<Scripted>, usize)], concurrency: usize) -> (Executor, mpsc::Receiver<ledger::Input>) {
        let (sender, reports) = mpsc::channel(64);
        (Executor::start(slots(tools), NonZeroUsize::new(concurrency).unwrap(), sender), reports)
    }

    fn dispatch(tool: &str, n: u128, what: &str) -> Dispatch {
        Dispatch {
            operation: OperationId(n),
            attempt: 1,
            tool: tool.to_owned(),
            arguments: json!({ "do": what }),
            intent_key: IntentKey(format!("key-{n}")),
        }
    }

    async fn told(reports: &mut mpsc::Receiver<ledger::Input>) -> (OperationId, AttemptOutcome) {
        match reports.recv().await {
            Some(ledger::Input::Attempted { operation, outcome, .. }) => (operation, outcome),
            other => panic!("{other:?}"),
        }
    }
}
