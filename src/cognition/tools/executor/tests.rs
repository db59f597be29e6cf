//! Tools that answer, hang, panic and are cancelled, and what the executor reports of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use recado_core::IntentKey;
use serde_json::json;

use super::*;
use crate::cognition::tools::load::ToolLoad;
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

/// One that was sent, one that was not, and one that waits for a place.
async fn two_under_way() -> (Arc<Scripted>, Executor, mpsc::Receiver<ledger::Input>) {
    let tool = Arc::new(Scripted::default());
    let (executor, reports) = start(&[("a", tool.clone(), 2)], 2);
    executor.dispatch(dispatch("a", 1, "hang")).unwrap();
    executor.dispatch(dispatch("a", 2, "hang unsent")).unwrap();
    executor.dispatch(dispatch("a", 3, "ok")).unwrap();
    while tool.begun.load(Ordering::SeqCst) < 2 {
        tool.changed.notified().await;
    }
    (tool, executor, reports)
}

#[tokio::test]
async fn a_stop_reports_what_waits_as_not_executed_and_what_was_sent_as_doubtful() {
    let (_, executor, mut reports) = two_under_way().await;
    executor.stop(Duration::from_millis(1)).await;
    let mut outcomes = BTreeMap::new();
    while let Some(ledger::Input::Attempted { operation, outcome, .. }) = reports.recv().await {
        outcomes.insert(operation, outcome);
    }
    let executed = |operation| match &outcomes[&OperationId(operation)] {
        AttemptOutcome::Failed { executed, retryable: true, .. } => Some(*executed),
        // It has not left, and costs nothing.
        AttemptOutcome::Unreachable { .. } => None,
        other => panic!("{other:?}"),
    };
    assert_eq!((executed(1), executed(2), executed(3)), (Some(Executed::Maybe), None, None));
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
    assert!(matches!(outcome, AttemptOutcome::Unreachable { .. }), "{outcome:?}");
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
    let (tool, executor, mut reports) = two_under_way().await;
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
        match attempted.await {
            AttemptOutcome::Unreachable { .. } => assert!(stopped, "what a stop hands back costs nothing"),
            AttemptOutcome::Failed { executed: Executed::No, .. } => assert!(!stopped, "what was recalled is over"),
            other => panic!("{other:?}"),
        }
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

/// A tool of an endpoint that is down, and how often it was asked.
struct Down {
    endpoint: &'static str,
    attempts: AtomicUsize,
    inquiries: AtomicUsize,
    cancels: AtomicUsize,
}

impl Down {
    fn at(endpoint: &'static str) -> Arc<Self> {
        Arc::new(Self { endpoint, attempts: AtomicUsize::new(0), inquiries: AtomicUsize::new(0), cancels: AtomicUsize::new(0) })
    }

    fn slot(self: &Arc<Self>, concurrency: usize) -> Slot {
        Slot { port: self.clone(), concurrency: NonZeroUsize::new(concurrency).unwrap() }
    }

    fn asked(&self) -> (usize, usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.attempts), count(&self.inquiries), count(&self.cancels))
    }
}

impl ToolPort for Down {
    fn attempt(&self, _: Dispatch, sent: Sent) -> AttemptFuture {
        assert!(sent.mark());
        self.attempts.fetch_add(1, Ordering::SeqCst);
        let error = "the connection broke".to_owned();
        Box::pin(async {
            AttemptOutcome::Failed { error, executed: Executed::Maybe, retryable: true, retry_after_ms: Some(LEFT_ALONE_MS) }
        })
    }

    fn cancel(&self, _: CancelRequest) -> CancelFuture {
        self.cancels.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { cancel_failed("the connection broke", true) })
    }

    fn inquire(&self, _: Inquiry) -> crate::cognition::tools::InquiryFuture {
        self.inquiries.fetch_add(1, Ordering::SeqCst);
        let error = "the connection broke".to_owned();
        Box::pin(async { InquiryOutcome::Unanswered { error, retryable: true, retry_after_ms: Some(LEFT_ALONE_MS) } })
    }

    fn endpoint(&self) -> Option<Endpoint> {
        Some(Endpoint::new(self.endpoint))
    }
}

/// What it asks for: longer than any test takes.
const LEFT_ALONE_MS: u64 = 600_000;

fn inquiry(tool: &str, n: u128) -> Inquiry {
    let Dispatch { operation, attempt, tool, arguments, intent_key } = dispatch(tool, n, "ok");
    Inquiry { operation, request: 3, attempt, tool, arguments, intent_key, handle: None }
}

#[tokio::test]
async fn an_endpoint_that_is_down_is_left_alone_by_all_that_have_it_but_for_cancels() {
    let (one, other, elsewhere) = (Down::at("there"), Down::at("there"), Down::at("elsewhere"));
    let (sender, mut reports) = mpsc::channel(64);
    let tools = [("one", one.slot(1)), ("other", other.slot(1)), ("elsewhere", elsewhere.slot(1))];
    let tools = tools.into_iter().map(|(name, slot)| (name.to_owned(), slot)).collect();
    let executor = Executor::start(tools, NonZeroUsize::new(4).unwrap(), sender);
    // More than it takes, and all but one of them wait: what has not begun when it is known does not begin.
    for n in 0..20 {
        executor.dispatch(dispatch("one", n, "ok")).unwrap();
    }
    let mut handed_back = 0;
    for _ in 0..20 {
        match told(&mut reports).await.1 {
            AttemptOutcome::Unreachable { retry_after_ms: Some(1..=LEFT_ALONE_MS), .. } => handed_back += 1,
            AttemptOutcome::Failed { executed: Executed::Maybe, .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((handed_back, one.asked()), (14, (6, 0, 0)));
    executor.dispatch(dispatch("other", 30, "ok")).unwrap();
    assert!(matches!(told(&mut reports).await.1, AttemptOutcome::Unreachable { .. }));
    executor.inquire(inquiry("other", 31)).unwrap();
    let inquired = reports.recv().await;
    let Some(ledger::Input::Inquired { request: 3, outcome: InquiryOutcome::Unanswered { retryable: true, retry_after_ms, .. }, .. }) =
        inquired
    else {
        panic!("{inquired:?}")
    };
    assert!(retry_after_ms.is_some_and(|ms| (1..=LEFT_ALONE_MS).contains(&ms)));
    executor.cancel(cancel("other", 32)).unwrap();
    let cancelled = reports.recv().await;
    assert!(matches!(cancelled, Some(ledger::Input::CancelAttempted { outcome: CancelOutcome::Failed { retryable: true, .. }, .. })));
    assert_eq!(other.asked(), (0, 0, 1), "a cancel is not held back");
    executor.dispatch(dispatch("elsewhere", 33, "ok")).unwrap();
    assert!(matches!(told(&mut reports).await.1, AttemptOutcome::Failed { .. }));
    let load = executor.load();
    let standings: Vec<_> = load.endpoints.iter().map(|at| (at.endpoint.as_str(), at.left_alone, at.turned_away)).collect();
    assert_eq!(standings, [("elsewhere", false, 0), ("there", true, 16)]);
    executor.stop(Duration::ZERO).await;
}

#[tokio::test]
async fn inquiries_find_out_too_that_an_endpoint_is_down() {
    let down = Down::at("there");
    let (sender, mut reports) = mpsc::channel(64);
    let executor = Executor::start(BTreeMap::from([("a".to_owned(), down.slot(1))]), NonZeroUsize::MIN, sender);
    for n in 0..8 {
        executor.inquire(inquiry("a", n)).unwrap();
        reports.recv().await.unwrap();
    }
    assert_eq!(down.asked(), (0, 6, 0));
    executor.stop(Duration::ZERO).await;
}

#[tokio::test]
async fn what_waits_and_what_runs_can_be_looked_at() {
    let (tool, executor, _reports) = two_under_way().await;
    let expected = ToolLoad { waiting: 1, running: 2 };
    assert_eq!(executor.load().tools, BTreeMap::from([("a".to_owned(), expected)]));
    drop((executor, tool));
}

fn cancel(tool: &str, operation: u128) -> CancelRequest {
    CancelRequest {
        operation: OperationId(operation),
        request: 7,
        tool: tool.to_owned(),
        arguments: json!({}),
        intent_key: IntentKey("key".to_owned()),
        handle: None,
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
