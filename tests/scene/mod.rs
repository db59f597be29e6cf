//! A box without calls, of real parts: the ledger, the store on disk, the executor, the route for callbacks. What follows from each
//! input is carried out as the ledger's task does. Each test file uses its own part of it.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use recado::cognition::tools::{BoxSecret, Callback, CallbackAddress, Executor, McpServers, Report, Signers, Slot, Webhook, router, slots};
use recado::config::{Config, HandOff, Tool};
use recado::coordination::{Options, Reader, Store};
use recado_core::conversation::input::ToolCall;
use recado_core::ledger::{
    CallbackAnswer, ClaimRecord, Effect, Input, Ledger, News, OperationRecord, OperationState, RequestId, Route, Snapshot,
};
use recado_core::policy::Language;
use recado_core::{BootId, DeliveryId, OperationId, PartyId, ResponseId, SessionId, Step, Time, TurnId, Wall};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// What a box is set up with.
#[derive(Clone)]
pub struct Setup {
    pub config: Config,
    /// What carries its tools' attempts out.
    pub ports: Ports,
}

pub type Ports = fn(&Config, &CallbackAddress, &mpsc::Sender<Input>) -> BTreeMap<String, Slot>;

impl Setup {
    /// Tools, carried out by what a box carries them out with.
    pub fn new(tools: Vec<Tool>) -> Self {
        Self::of(Config { tools, ..Config::default() })
    }

    /// What a configuration has in the way of tools and webhooks.
    pub fn of(config: Config) -> Self {
        let ports: Ports = |config, address, reports| {
            let servers = McpServers::new(&config.mcp).expect("servers");
            slots(config, &servers, Some(address), Some(reports)).expect("tools")
        };
        Self { config, ports }
    }

    /// With another way for what nobody has come to hear.
    pub fn with_webhook(mut self, webhook: HandOff) -> Self {
        self.config.hand_off = Some(webhook);
        self
    }
}

pub struct Scene {
    pub folder: TempDir,
    boot: u128,
    begun: Instant,
    /// How far the ledger's time is ahead of the machine's (ms).
    ahead: u64,
    pub ledger: Ledger,
    store: Store,
    executor: Executor,
    webhook: Option<Webhook>,
    reports: mpsc::Receiver<Input>,
    callbacks: mpsc::Receiver<Callback>,
    waiting: BTreeMap<RequestId, oneshot::Sender<CallbackAnswer>>,
    accepted: Option<OperationId>,
    offered: Option<DeliveryId>,
    claimed: Vec<String>,
    /// What was said that is no closing.
    pub updates: Vec<String>,
    /// Cancel requests that have been answered.
    pub cancels_answered: u32,
    orders: u128,
    seed: u128,
}

impl Scene {
    /// A box, and a caller.
    pub async fn new(setup: &Setup) -> Self {
        let mut scene = Self::open(tempfile::tempdir().expect("a folder"), 1, setup).await;
        scene.comes_up();
        scene
    }

    fn comes_up(&mut self) {
        self.give(Input::SessionUp { session: CALL, party: Some(PartyId("ana".to_owned())), language: Language::En });
    }

    async fn open(folder: TempDir, boot: u128, setup: &Setup) -> Self {
        // Already installed by another test: the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (store, recovered) = Store::open(&folder.path().join("state.db"), &Options::new(BootId(boot), wall())).expect("a store");
        let tools = &setup.config.tools;
        let policies = tools.iter().map(|tool| (tool.name.clone(), tool.policy())).collect();
        let claims = recovered.claims.into_iter();
        let snapshot = Snapshot {
            operations: recovered.operations,
            batches: recovered.batches,
            deliveries: recovered.deliveries,
            claims: claims.map(|(delivery, session, boot, route)| ClaimRecord { delivery, session, boot, route }).collect(),
            next_sequence: recovered.next_sequence,
            occurrence_floor: recovered.occurrence_floor,
        };
        let (ledger, effects) = Ledger::recover(&mut Step::new(Time(0), wall(), boot << 64), BootId(boot), policies, snapshot);
        let (sender, reports) = mpsc::channel(64);
        let secret = BoxSecret::new([1; 32]);
        let (queue, callbacks) = mpsc::channel(16);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let app = router(secret.clone(), Signers::of(tools).expect("secrets"), queue, PATIENCE, real_wall);
        tokio::spawn(async move { axum::serve(listener, app).await });
        let address = CallbackAddress::new(&base, secret).expect("an address");
        let slots = (setup.ports)(&setup.config, &address, &sender);
        let webhook = setup.config.hand_off.as_ref().map(|settings| Webhook::new(settings, sender.clone()).expect("a webhook"));
        let executor = Executor::start(slots, NonZeroUsize::new(8).expect("8 is not zero"), sender);
        let mut scene = Self {
            folder,
            boot,
            begun: Instant::now(),
            ahead: 0,
            ledger,
            store,
            executor,
            webhook,
            reports,
            callbacks,
            waiting: BTreeMap::new(),
            accepted: None,
            offered: None,
            claimed: Vec::new(),
            updates: Vec::new(),
            cancels_answered: 0,
            orders: 0,
            seed: boot << 32,
        };
        scene.carry_out(effects);
        scene
    }

    /// The process ends and starts again, and the caller calls again.
    pub async fn restarts(self, setup: &Setup) -> Self {
        let Self { folder, boot, store, executor, .. } = self;
        drop((store, executor));
        let mut scene = Self::open(folder, boot + 1, setup).await;
        scene.comes_up();
        scene
    }

    /// One more order.
    pub fn orders(&mut self, tool: &str) -> OperationId {
        let order = (self.orders + 1).to_string();
        self.asks(tool, json!({ "order": order }))
    }

    /// Asks for an operation, in a turn of its own.
    pub fn asks(&mut self, tool: &str, arguments: Value) -> OperationId {
        self.orders += 1;
        let (turn, response) = (TurnId(self.orders), ResponseId(self.orders));
        let call = ToolCall { call_id: "c".to_owned(), tool: tool.to_owned(), arguments, confirmed: false };
        self.give(Input::Accept { session: CALL, turn, response, call });
        self.give(Input::Seal { session: CALL, response });
        self.accepted.take().expect("accepted")
    }

    pub fn wants_it_cancelled(&mut self, tool: &str) {
        self.give(Input::Cancel { session: CALL, tool: Some(tool.to_owned()), operation: None, verified: true });
    }

    pub fn hangs_up(&mut self) {
        self.give(Input::SessionOver { session: CALL });
    }

    /// Claims the closing, and says what the caller hears.
    pub fn tells(&mut self) -> Vec<String> {
        let delivery = self.offered.take().expect("a closing is offered");
        self.give(Input::Claim { session: CALL, delivery, route: Route::Announce });
        std::mem::take(&mut self.claimed)
    }

    pub fn state(&self, operation: OperationId) -> OperationState {
        self.ledger.operation(operation).expect("in memory").state
    }

    /// Whether the tool has it under a name of its own, which is on record.
    pub fn is_taken(&self, operation: OperationId) -> bool {
        self.ledger.operation(operation).expect("in memory").handle.is_some()
    }

    /// The operation as it is on the disk.
    pub fn stored(&self, operation: OperationId) -> OperationRecord {
        let history = Reader::open(&self.folder.path().join("state.db")).expect("readable").history().expect("read");
        history.operations.into_iter().find(|record| record.id == operation).expect("on record")
    }

    /// So much time goes by.
    pub fn goes_by(&mut self, ms: u64) {
        self.ahead += ms;
        self.give(Input::Wake);
    }

    /// Goes on until it is so.
    pub async fn until(&mut self, so: impl Fn(&Self) -> bool) {
        let waits_until = Instant::now() + PATIENCE;
        while !so(self) {
            let due = self.ledger.deadline().map(|at| self.begun + Duration::from_millis(at.0.saturating_sub(self.ahead)));
            tokio::select! {
                report = self.reports.recv() => self.give(report.expect("the executor lives")),
                Some(callback) = self.callbacks.recv() => self.takes(callback),
                () = tokio::time::sleep_until(due.unwrap_or(waits_until).min(waits_until)) => self.give(Input::Wake),
            }
            assert!(Instant::now() < waits_until, "it never is so");
        }
    }

    /// Goes on until what somebody else does has come to its end.
    pub async fn meanwhile<T: Send + 'static>(&mut self, other: impl Future<Output = T> + Send + 'static) -> T {
        let other = tokio::spawn(other);
        while !other.is_finished() {
            tokio::select! {
                report = self.reports.recv() => self.give(report.expect("the executor lives")),
                Some(callback) = self.callbacks.recv() => self.takes(callback),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
        other.await.expect("no panic")
    }

    fn takes(&mut self, Callback { request, operation, report, answer }: Callback) {
        // Each router counts from zero, and there is one.
        self.waiting.insert(request, answer);
        self.give(match report {
            Report::Result(result) => Input::Callback { request, operation, result },
            Report::Progress(progress) => Input::Progress { request: Some(request), operation, progress },
            Report::Retracted => Input::Retract { request, operation },
        });
    }

    fn give(&mut self, input: Input) {
        self.seed += 1;
        self.cancels_answered += u32::from(matches!(input, Input::CancelAttempted { .. }));
        let now = u64::try_from(self.begun.elapsed().as_millis()).expect("short") + self.ahead;
        let effects = self.ledger.handle(&mut Step::new(Time(now), wall(), self.seed << 64), input);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Persist { commit, writes } => {
                    assert_eq!(self.store.commit(&[(commit, writes)]), [Ok(())]);
                    self.give(Input::Durable(commit));
                }
                Effect::Dispatch(dispatch) => self.executor.dispatch(dispatch).expect("taken"),
                Effect::Cancel(request) => self.executor.cancel(request).expect("taken"),
                Effect::Inquire(inquiry) => self.executor.inquire(inquiry).expect("taken"),
                Effect::HandOff(hand_off) => self.webhook.as_mut().expect("a webhook").send(&hand_off).expect("taken"),
                Effect::Answer { request, answer } => {
                    if let Some(waits) = self.waiting.remove(&request) {
                        waits.send(answer).expect("the sender waits");
                    }
                }
                Effect::Tell { news: News::Accepted(acceptance), .. } => self.accepted = Some(acceptance.operation),
                Effect::Tell { news: News::Offered(envelope), .. } => self.offered = Some(envelope.delivery),
                Effect::Tell { news: News::Claimed { clauses, .. }, .. } => {
                    self.claimed = clauses.into_iter().map(|clause| clause.text).collect();
                }
                Effect::Tell { news: News::Update { text, .. }, .. } => self.updates.push(text),
                Effect::Tell { .. } | Effect::Measured(_) => {}
            }
        }
    }
}

fn wall() -> Wall {
    Wall { unix_ms: 1_790_000_000_000, synchronised: true }
}

/// The machine's own, which those who sign go by.
fn real_wall() -> Wall {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    Wall { unix_ms: i64::try_from(since.as_millis()).expect("not that late"), synchronised: true }
}

const CALL: SessionId = SessionId(1);

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
