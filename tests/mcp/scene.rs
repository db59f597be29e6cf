//! A box without calls, with its ledger, its store on disk and its executor, around servers.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use recado::cognition::tools::{Executor, mcp_tools};
use recado::config::{McpServer, Tool};
use recado::coordination::{Options, Store};
use recado_core::conversation::input::ToolCall;
use recado_core::ledger::{ClaimRecord, CommitId, Effect, Input, Ledger, News, OperationState, Snapshot, SpokenClause};
use recado_core::policy::Language;
use recado_core::{BootId, DeliveryId, OperationId, PartyId, ResponseId, SessionId, Step, Time, TurnId, Wall};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// Servers and their tools, as a configuration has them.
pub struct Tools {
    servers: BTreeMap<String, McpServer>,
    tools: Vec<Tool>,
}

impl Tools {
    /// One server, and its tools of these names.
    pub fn of(server: Value, names: &[&str]) -> Self {
        let tool = |name: &&str| {
            let tool = json!({
                "name": name,
                "mcp": "counterpart",
                "timeout_ms": 60_000,
                "say_done": { "en": "It is at {{ result.at }}." },
                "say_failed": { "en": "It could not be: {{ error }}." },
                "say_cancelled": { "en": "It is off." },
            });
            serde_json::from_value(tool).expect("a tool")
        };
        let server = serde_json::from_value(server).expect("a server");
        Self { servers: BTreeMap::from([("counterpart".to_owned(), server)]), tools: names.iter().map(tool).collect() }
    }
}

/// A box without calls: what follows from each input is carried out as the ledger's task does.
pub struct Scene {
    folder: TempDir,
    boot: u128,
    begun: tokio::time::Instant,
    pub ledger: Ledger,
    store: Store,
    executor: Executor,
    reports: mpsc::Receiver<Input>,
    accepted: Option<OperationId>,
    offered: Option<DeliveryId>,
    claimed: Vec<SpokenClause>,
    orders: u128,
    seed: u128,
}

impl Scene {
    pub fn new(around: &Tools) -> Self {
        let mut scene = Self::open(tempfile::tempdir().expect("a folder"), 1, around);
        let party = Some(PartyId("ana".to_owned()));
        scene.give(Input::SessionUp { session: CALL, party, language: Language::En });
        scene
    }

    fn open(folder: TempDir, boot: u128, around: &Tools) -> Self {
        // Already installed by another test: the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let wall = Wall { unix_ms: 1_790_000_000_000, synchronised: true };
        let (store, recovered) = Store::open(&folder.path().join("state.db"), &Options::new(BootId(boot), wall)).expect("a store");
        let policies = around.tools.iter().map(|tool| (tool.name.clone(), tool.policy())).collect();
        let claims = recovered.claims.into_iter();
        let snapshot = Snapshot {
            operations: recovered.operations,
            batches: recovered.batches,
            deliveries: recovered.deliveries,
            claims: claims.map(|(delivery, session, boot, route)| ClaimRecord { delivery, session, boot, route }).collect(),
            next_sequence: recovered.next_sequence,
            occurrence_floor: recovered.occurrence_floor,
        };
        let (ledger, effects) = Ledger::recover(&mut Step::new(Time(0), wall, boot << 64), BootId(boot), policies, snapshot);
        let (sender, reports) = mpsc::channel(64);
        let slots = mcp_tools(&around.servers, &around.tools, Some(sender.clone())).expect("tools");
        let executor = Executor::start(slots, NonZeroUsize::new(8).expect("8 is not zero"), sender);
        let begun = tokio::time::Instant::now();
        let mut scene = Self {
            folder,
            boot,
            begun,
            ledger,
            store,
            executor,
            reports,
            accepted: None,
            offered: None,
            claimed: Vec::new(),
            orders: 0,
            seed: boot << 32,
        };
        scene.carry_out(effects);
        scene
    }

    /// The process ends and starts again.
    pub fn restarts(self, around: &Tools) -> Self {
        let Self { folder, boot, store, executor, .. } = self;
        drop((store, executor));
        Self::open(folder, boot + 1, around)
    }

    pub async fn orders(&mut self, tool: &str) -> OperationId {
        let arguments = json!({ "order": (self.orders + 1).to_string() });
        self.orders_with(tool, arguments).await
    }

    pub async fn orders_with(&mut self, tool: &str, arguments: Value) -> OperationId {
        self.orders += 1;
        let (turn, response) = (TurnId(self.orders), ResponseId(self.orders));
        let call = ToolCall { call_id: "c".to_owned(), tool: tool.to_owned(), arguments, confirmed: false };
        self.give(Input::Accept { session: CALL, turn, response, call });
        self.give(Input::Seal { session: CALL, response });
        self.accepted.take().expect("accepted")
    }

    /// Whether the server's name for what it has is on disk.
    pub fn has_a_handle(&self, operation: OperationId) -> bool {
        self.ledger.operation(operation).expect("in memory").handle.is_some()
    }

    pub async fn wants_it_cancelled(&mut self, tool: &str) {
        self.give(Input::Cancel { session: CALL, tool: Some(tool.to_owned()), operation: None });
    }

    /// Claims the closing and says what the caller hears.
    pub async fn tells(&mut self) -> Vec<String> {
        let delivery = self.offered.take().expect("a closing is offered");
        self.give(Input::Claim { session: CALL, delivery, route: recado_core::ledger::Route::Announce });
        std::mem::take(&mut self.claimed).into_iter().map(|spoken| spoken.text).collect()
    }

    pub fn state(&self, operation: OperationId) -> OperationState {
        self.ledger.operation(operation).expect("in memory").state
    }

    /// Goes on until it is so.
    pub async fn until(&mut self, so: impl Fn(&Self) -> bool) {
        let waits_until = tokio::time::Instant::now() + PATIENCE;
        while !so(self) {
            let due = self.ledger.deadline().map_or(waits_until, |at| self.begun + Duration::from_millis(at.0)).min(waits_until);
            let report = tokio::select! {
                report = self.reports.recv() => report.expect("the executor lives"),
                () = tokio::time::sleep_until(due) => Input::Wake,
            };
            assert!(tokio::time::Instant::now() < waits_until, "it never is so");
            self.give(report);
        }
    }

    fn give(&mut self, input: Input) {
        self.seed += 1;
        let now = u64::try_from(self.begun.elapsed().as_millis()).expect("short");
        let wall = Wall { unix_ms: 1_790_000_000_000, synchronised: true };
        let effects = self.ledger.handle(&mut Step::new(Time(now), wall, self.seed << 64), input);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Persist { commit, writes } => {
                    assert_eq!(self.store.commit(&[(commit, writes)]), [Ok(())]);
                    self.durable(commit);
                }
                Effect::Dispatch(dispatch) => self.executor.dispatch(dispatch).expect("taken"),
                Effect::Cancel(request) => self.executor.cancel(request).expect("taken"),
                Effect::Inquire(inquiry) => self.executor.inquire(inquiry).expect("taken"),
                Effect::HandOff(_) => {}
                Effect::Tell { news: News::Accepted(acceptance), .. } => self.accepted = Some(acceptance.operation),
                Effect::Tell { news: News::Offered(envelope), .. } => self.offered = Some(envelope.delivery),
                Effect::Tell { news: News::Claimed { clauses, .. }, .. } => self.claimed = clauses,
                Effect::Tell { .. } | Effect::Answer { .. } | Effect::Measured(_) => {}
            }
        }
    }

    fn durable(&mut self, commit: CommitId) {
        self.give(Input::Durable(commit));
    }
}

const CALL: SessionId = SessionId(1);

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
