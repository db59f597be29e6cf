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
//!
//! An endpoint that is down is left alone ([`super::breaker`]): an attempt comes back as one that could not reach it, which costs it nothing, and an inquiry as one
//! that was not answered. A cancel is made all the same: somebody waits for it, it may come too late, and only so many are made.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use recado_core::OperationId;
use recado_core::ledger::{self, AttemptOutcome, CancelOutcome, CancelRequest, Dispatch, Executed, Inquiry, InquiryOutcome};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::breaker::{Breaker, Endpoint, Pass, Shut, Sign};
use super::load::{Board, Counted, Load};
use super::port::{Sent, ToolPort, cancel_failed, failed, unanswered};

/// Runs the attempts of all tools.
#[derive(Debug)]
pub struct Executor {
    /// In the order in which they came, so that a cancel finds its attempt. What is in it has a place: that bounds it.
    queue: mpsc::UnboundedSender<(Order, Place)>,
    attempts: Arc<Semaphore>,
    cancels: Arc<Semaphore>,
    inquiries: Arc<Semaphore>,
    phase: watch::Sender<Phase>,
    board: Arc<Board>,
    task: JoinHandle<()>,
}

/// What the ledger wants done.
#[derive(Debug)]
enum Order {
    Attempt(Dispatch),
    Cancel(CancelRequest),
    Inquire(Inquiry),
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
        let mut board = Board::default();
        let tools = tools.into_iter().map(|(name, slot)| Lane::new(name, slot, &mut board)).collect();
        let board = Arc::new(board);
        let work = Work {
            tools,
            board: Arc::clone(&board),
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
            inquiries: Arc::new(Semaphore::new(INQUIRIES_MAX)),
            phase,
            board,
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

    /// Hands over an inquiry, without waiting. One that can't be taken comes back as the report on it.
    pub fn inquire(&self, inquiry: Inquiry) -> Result<(), Box<ledger::Input>> {
        self.take(Order::Inquire(inquiry), &self.inquiries, "too many inquiries wait on this box already")
    }

    fn take(&self, order: Order, places: &Arc<Semaphore>, full: &str) -> Result<(), Box<ledger::Input>> {
        let Ok(place) = places.clone().try_acquire_owned() else { return Err(Box::new(order.refused(full))) };
        self.queue.send((order, place)).map_err(|mpsc::error::SendError((order, _))| Box::new(order.refused(STOPPING)))
    }

    /// What it has to do at the moment, and how the endpoints of its tools stand.
    pub fn load(&self) -> Load {
        self.board.read()
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
            // It has not left, and costs nothing.
            Order::Attempt(dispatch) => report(dispatch.operation, dispatch.attempt, unreachable(error)),
            Order::Inquire(inquiry) => inquiry_report(inquiry, unanswered(error, true)),
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
    endpoint: Endpoint,
    breaker: Arc<Breaker>,
    waiting: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
}

impl Lane {
    fn new(name: String, slot: Slot, board: &mut Board) -> (String, Self) {
        let endpoint = slot.port.endpoint().unwrap_or_else(|| Endpoint::new(&name));
        let breaker = board.breakers.entry(endpoint.name().to_owned()).or_insert_with(|| Arc::new(Breaker::new(endpoint.name())));
        let (waiting, running) = board.tools.entry(name.clone()).or_default();
        let lane = Self {
            port: slot.port,
            free: Arc::new(Semaphore::new(slot.concurrency.get())),
            breaker: Arc::clone(breaker),
            endpoint,
            waiting: Arc::clone(waiting),
            running: Arc::clone(running),
        };
        (name, lane)
    }

    /// What an exchange is judged by that begins now.
    fn exchange(&self) -> Result<Exchange, Shut> {
        let pass = self.breaker.begin(Instant::now())?;
        Ok(Exchange { pass, answers: self.endpoint.answers(), endpoint: self.endpoint.clone() })
    }
}

/// An exchange with an endpoint that was let through.
struct Exchange {
    pass: Pass,
    /// How often the endpoint had answered in its own right before.
    answers: u64,
    endpoint: Endpoint,
}

impl Exchange {
    /// It is over; `sign` makes of it what it shows, told whether the endpoint has answered in its own right meanwhile.
    fn ends(self, sign: impl FnOnce(bool) -> Sign) {
        self.pass.shows(sign(self.endpoint.answers() != self.answers), Instant::now());
    }
}

struct Work {
    tools: BTreeMap<String, Lane>,
    board: Arc<Board>,
    free: Arc<Semaphore>,
    /// In the order in which they came.
    waiting: VecDeque<Waiting>,
    running: JoinSet<()>,
    /// The way to recall each attempt that is under way.
    under_way: BTreeMap<OperationId, mpsc::Sender<Recall>>,
    phase: watch::Receiver<Phase>,
    reports: mpsc::Sender<ledger::Input>,
}

/// An attempt that waits for room.
struct Waiting {
    dispatch: Dispatch,
    place: Place,
    /// None where its tool is not configured.
    _counted: Option<Counted>,
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
                Some((Order::Attempt(dispatch), place)) => {
                    let _counted = self.tools.get(&dispatch.tool).map(|lane| Counted::new(&lane.waiting));
                    self.waiting.push_back(Waiting { dispatch, place, _counted });
                }
                Some((Order::Cancel(request), place)) => self.cancel(request, place),
                Some((Order::Inquire(inquiry), place)) => self.inquire(inquiry, place),
                None => self.under_way.retain(|_, recall| !recall.is_closed()),
            }
        }
        orders.close();
        for Waiting { dispatch, place, .. } in std::mem::take(&mut self.waiting) {
            self.report_only(Order::Attempt(dispatch).refused(STOPPING), place);
        }
        while let Some((order, place)) = orders.recv().await {
            self.report_only(order.refused(STOPPING), place);
        }
        while self.running.join_next().await.is_some() {}
    }

    /// Begins every waiting attempt whose tool, and the whole, have room; oldest first. Those whose endpoint is left alone are handed back.
    fn begin_what_may(&mut self) {
        let mut still_waiting = VecDeque::with_capacity(self.waiting.len());
        for waiting in std::mem::take(&mut self.waiting) {
            let Some(lane) = self.tools.get(&waiting.dispatch.tool) else {
                let Waiting { dispatch, place, .. } = waiting;
                let error = format!("the tool `{}` is no longer configured on this box", dispatch.tool);
                self.report_only(report(dispatch.operation, dispatch.attempt, failed(error, Executed::No, false)), place);
                continue;
            };
            if let Some(shut) = lane.breaker.shut(Instant::now()) {
                self.hand_back(waiting, shut);
                continue;
            }
            let (of_tool, of_all) = (lane.free.clone().try_acquire_owned(), self.free.clone().try_acquire_owned());
            let (Ok(of_tool), Ok(of_all)) = (of_tool, of_all) else {
                still_waiting.push_back(waiting);
                continue;
            };
            let exchange = match lane.exchange() {
                Ok(exchange) => exchange,
                Err(shut) => {
                    self.hand_back(waiting, shut);
                    continue;
                }
            };
            let Waiting { dispatch, place, .. } = waiting;
            let (port, reports, phase) = (lane.port.clone(), self.reports.clone(), self.phase.clone());
            let running = Counted::new(&lane.running);
            let (recall, recalls) = mpsc::channel(1);
            self.under_way.insert(dispatch.operation, recall);
            self.running.spawn(async move {
                let (operation, attempt) = (dispatch.operation, dispatch.attempt);
                let outcome = carry_out(port, dispatch, phase, recalls, exchange).await;
                send(&reports, report(operation, attempt, outcome)).await;
                // Held until the report is taken: a ledger that is behind is not given more.
                drop((of_tool, of_all, place, running));
            });
        }
        self.waiting = still_waiting;
    }

    /// An attempt of which nothing has left, and that costs nothing.
    fn hand_back(&mut self, Waiting { dispatch, place, .. }: Waiting, Shut { reason, retry_after_ms }: Shut) {
        let outcome = AttemptOutcome::Unreachable { reason, retry_after_ms: Some(retry_after_ms) };
        self.report_only(report(dispatch.operation, dispatch.attempt, outcome), place);
    }

    /// Recalls an attempt that waits here; one that is under way is asked whether it has left; then it is the tool's turn.
    fn cancel(&mut self, request: CancelRequest, place: Place) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.dispatch.operation == request.operation)
            && let Some(Waiting { dispatch, place: of_attempt, .. }) = self.waiting.remove(at)
        {
            self.report_only(report(dispatch.operation, dispatch.attempt, failed(RECALLED, Executed::No, true)), of_attempt);
            return self.report_only(cancel_report(&request, CancelOutcome::Recalled), place);
        }
        let recall = self.under_way.get(&request.operation).cloned();
        let port = self.tools.get(&request.tool).map(|lane| lane.port.clone());
        let (reports, mut phase) = (self.reports.clone(), self.phase.clone());
        let counted = Counted::new(&self.board.cancels);
        self.running.spawn(async move {
            let asking = ask_to_cancel(recall, port, request.clone());
            let outcome = tokio::select! {
                outcome = asking => outcome,
                () = given_up(&mut phase) => cancel_failed(STOPPING, true),
            };
            send(&reports, cancel_report(&request, outcome)).await;
            drop((place, counted));
        });
    }

    /// Asks the tool, beside its attempts: what it has is no attempt under way here.
    fn inquire(&mut self, inquiry: Inquiry, place: Place) {
        let lane = self.tools.get(&inquiry.tool);
        let port = lane.map(|lane| lane.port.clone());
        let exchange = match lane.filter(|lane| lane.endpoint.is_inquired()).map(Lane::exchange).transpose() {
            Ok(exchange) => exchange,
            Err(Shut { reason, retry_after_ms }) => {
                let outcome = InquiryOutcome::Unanswered { error: reason, retryable: true, retry_after_ms: Some(retry_after_ms) };
                return self.report_only(inquiry_report(&inquiry, outcome), place);
            }
        };
        let (reports, mut phase) = (self.reports.clone(), self.phase.clone());
        let counted = Counted::new(&self.board.inquiries);
        self.running.spawn(async move {
            let outcome = tokio::select! {
                outcome = ask_how_it_stands(port, inquiry.clone()) => {
                    if let Some(exchange) = exchange {
                        exchange.ends(|answered| outcome.as_ref().map_or(Sign::Nothing, |outcome| Sign::of_inquiry(outcome, answered)));
                    }
                    outcome.unwrap_or_else(|| unanswered("a fault in the box's own software broke the inquiry off", false))
                }
                () = given_up(&mut phase) => unanswered(STOPPING, true),
            };
            send(&reports, inquiry_report(&inquiry, outcome)).await;
            drop((place, counted));
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
    exchange: Exchange,
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
        Ok(outcome) => {
            // What was ended from here says nothing of the endpoint.
            if recalled.is_none() {
                exchange.ends(|answered| Sign::of_attempt(&outcome, &sent, answered));
            }
            outcome
        }
        Err(error) if error.is_panic() => {
            tracing::error!(%operation, attempt, "an attempt panicked; its operation counts as doubtful");
            failed("a fault in the box's own software broke the attempt off", Executed::Maybe, false)
        }
        // What still runs of it, such as its connection, finds that it may not leave. What has not is handed back, and costs nothing.
        Err(_) => match sent.end() {
            Executed::No if recalled.is_none() => unreachable(why),
            executed => failed(why, executed, true),
        },
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

/// None where the box's own software was at fault.
async fn ask_how_it_stands(port: Option<Arc<dyn ToolPort>>, inquiry: Inquiry) -> Option<InquiryOutcome> {
    let Some(port) = port else { return Some(InquiryOutcome::Unsupported) };
    let operation = inquiry.operation;
    let asked = tokio::spawn(async move { port.inquire(inquiry).await }).await;
    asked.inspect_err(|_| tracing::error!(%operation, "an inquiry panicked")).ok()
}

async fn given_up(phase: &mut watch::Receiver<Phase>) {
    if phase.wait_for(|phase| *phase == Phase::GivingUp).await.is_err() {
        // The executor was dropped without a stop: what is under way ends by itself.
        std::future::pending::<()>().await;
    }
}

async fn send(reports: &mpsc::Sender<ledger::Input>, report: ledger::Input) {
    if let Err(mpsc::error::SendError(
        ledger::Input::Attempted { operation, .. }
        | ledger::Input::CancelAttempted { operation, .. }
        | ledger::Input::Inquired { operation, .. },
    )) = reports.send(report).await
    {
        tracing::error!(operation_id = %operation, "nobody takes reports on attempts any more");
    }
}

fn report(operation: OperationId, attempt: u32, outcome: AttemptOutcome) -> ledger::Input {
    ledger::Input::Attempted { operation, attempt, outcome }
}

fn cancel_report(request: &CancelRequest, outcome: CancelOutcome) -> ledger::Input {
    ledger::Input::CancelAttempted { operation: request.operation, request: request.request, outcome }
}

fn inquiry_report(inquiry: &Inquiry, outcome: InquiryOutcome) -> ledger::Input {
    ledger::Input::Inquired { operation: inquiry.operation, request: inquiry.request, outcome }
}

fn unreachable(reason: &str) -> AttemptOutcome {
    AttemptOutcome::Unreachable { reason: reason.to_owned(), retry_after_ms: None }
}

const RECALLED: &str = "it was cancelled before it was sent";

const STOPPING: &str = "the box is stopping";

/// Attempts on their way, waiting or under way. A box serves a few calls at a time; a thousand means that tools hang, and further
/// ones are better refused than kept.
const ATTEMPTS_MAX: usize = 1_024;

/// Cancels on their way or under way: those of a few calls whose tools hang.
const CANCELS_MAX: usize = 256;

/// Inquiries on their way or under way: each operation has one at a time, and they are short.
const INQUIRIES_MAX: usize = 256;

/// After the last attempt has been given up, as long as the ledger may take for its last commits.
const REPORTS_TAKEN_WITHIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
