//! Cancels and hand-offs with the parts of a real box: the ledger, the store on disk, the executor over HTTP, and a service on loopback.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use recado::cognition::tools::{BoxSecret, CallbackAddress, Executor, Webhook, http_tools};
use recado::config::{HandOff, Tool};
use recado::coordination::{Options, Store};
use recado_core::conversation::input::ToolCall;
use recado_core::ledger::{ClaimRecord, CommitId, DeliveryState, Effect, Input, Ledger, News, OperationState, Snapshot, SpokenClause};
use recado_core::policy::Language;
use recado_core::{BootId, DeliveryId, OperationId, PartyId, ResponseId, SessionId, Step, Time, TurnId, Wall};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Notify, mpsc};

#[tokio::test]
async fn a_tool_that_cancels_is_asked_once_under_a_key_of_its_own_and_believed() {
    for (answer, state, said) in [
        (json!({ "status": "cancelled" }), OperationState::Cancelled, "The taxi is off."),
        (json!({ "status": "compensated" }), OperationState::Compensated, "What you asked for was done and has been undone."),
        (json!({ "status": "too_late", "result": { "at": "nine" } }), OperationState::TooLate, "Too late: it comes at nine."),
    ] {
        let service = Service::start(vec![(StatusCode::OK, answer)]).await;
        let mut scene = Scene::new(&service);
        let operation = scene.orders("taxi").await;
        service.asked("/taxi", 1).await;
        scene.wants_it_cancelled("taxi").await;
        scene.until(|scene| scene.state(operation) == state).await;
        assert_eq!(scene.tells().await, [said]);
        let (attempts, cancels) = (service.of("/taxi"), service.of("/taxi/cancel"));
        assert_eq!((attempts.len(), cancels.len()), (1, 1));
        assert_ne!(attempts[0].key, cancels[0].key);
        assert_eq!(cancels[0].body["operation_id"], json!(operation));
        assert_eq!(cancels[0].body["arguments"], attempts[0].body["arguments"]);
    }
}

#[tokio::test]
async fn a_cancel_that_is_not_decided_yet_is_asked_again_under_the_same_key() {
    let busy = (StatusCode::SERVICE_UNAVAILABLE, json!({ "error": "busy" }));
    let undecided = (StatusCode::ACCEPTED, json!({}));
    let service = Service::start(vec![busy, undecided, (StatusCode::OK, json!({ "status": "cancelled" }))]).await;
    let mut scene = Scene::new(&service);
    let operation = scene.orders("taxi").await;
    service.asked("/taxi", 1).await;
    scene.wants_it_cancelled("taxi").await;
    scene.until(|scene| scene.state(operation) == OperationState::Cancelled).await;
    let keys: Vec<String> = service.of("/taxi/cancel").into_iter().map(|asked| asked.key).collect();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn an_attempt_that_waits_for_room_is_recalled_and_never_sent() {
    let service = Service::start(Vec::new()).await;
    let mut scene = Scene::new(&service);
    scene.orders("slow").await;
    service.asked("/slow", 1).await;
    let waits = scene.orders("slow").await;
    scene.wants_it_cancelled("slow").await;
    scene.until(|scene| scene.state(waits) == OperationState::Cancelled).await;
    assert_eq!((service.of("/slow").len(), service.of("/slow/cancel").len()), (1, 0));
}

#[tokio::test]
async fn a_tool_without_a_cancel_url_runs_on_and_its_result_is_told_as_too_late() {
    let service = Service::start(Vec::new()).await;
    let mut scene = Scene::new(&service);
    let operation = scene.orders("slow").await;
    service.asked("/slow", 1).await;
    scene.wants_it_cancelled("slow").await;
    service.finish.notify_one();
    scene.until(|scene| scene.state(operation) == OperationState::TooLate).await;
    assert_eq!(scene.tells().await, ["It was too late to cancel it. What you asked for is done."]);
}

#[tokio::test]
async fn a_restart_resumes_a_cancel_under_the_same_key() {
    let service =
        Service::start(vec![(StatusCode::SERVICE_UNAVAILABLE, json!({})), (StatusCode::OK, json!({ "status": "cancelled" }))]).await;
    let mut scene = Scene::new(&service);
    let operation = scene.orders("taxi").await;
    service.asked("/taxi", 1).await;
    scene.wants_it_cancelled("taxi").await;
    service.asked("/taxi/cancel", 1).await;
    let mut scene = scene.restarts(&service);
    scene.until(|scene| scene.state(operation) == OperationState::Cancelled).await;
    let keys: Vec<String> = service.of("/taxi/cancel").into_iter().map(|asked| asked.key).collect();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
    assert_eq!(service.of("/taxi").len(), 1, "what is being cancelled is not sent again");
}

#[tokio::test]
async fn a_closing_that_nobody_comes_to_hear_is_acknowledged_by_the_webhook_and_is_over() {
    let service = Service::start(Vec::new()).await;
    let mut scene = Scene::new(&service);
    let operation = scene.orders("slow").await;
    service.asked("/slow", 1).await;
    scene.hangs_up().await;
    service.finish.notify_one();
    scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
    scene.until(|scene| scene.ledger.pending().is_empty()).await;
    let [asked] = &service.of("/unheard")[..] else { panic!("{:?}", service.of("/unheard")) };
    assert_eq!(asked.body["text"]["en"], json!("What you asked for is done."));
    assert_eq!(asked.body["operations"][0]["operation_id"], json!(operation));
    assert_eq!(asked.body["delivery_id"], json!(asked.key));
    let delivery = asked.key.parse().expect("a delivery");
    assert_eq!(scene.ledger.delivery(delivery).map(|record| record.state), Some(DeliveryState::HandedOff));
}

/// A request that the service was sent.
#[derive(Debug, Clone)]
struct Asked {
    path: String,
    key: String,
    body: Value,
}

/// A service: `/taxi` takes what it is asked (202), `/slow` answers when the scene says so, `…/cancel` answers what the scene gave it.
#[derive(Clone)]
struct Service {
    base: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    changed: Arc<Notify>,
    finish: Arc<Notify>,
    answers: Arc<Mutex<Vec<(StatusCode, Value)>>>,
}

impl Service {
    async fn start(answers: Vec<(StatusCode, Value)>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let service =
            Self { base, asked: Arc::default(), changed: Arc::default(), finish: Arc::default(), answers: Arc::new(Mutex::new(answers)) };
        let router = Router::new().fallback(answer).with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        service
    }

    fn of(&self, path: &str) -> Vec<Asked> {
        self.asked.lock().expect("no panic").iter().filter(|asked| asked.path == path).cloned().collect()
    }

    /// Waits until it has been asked so often.
    async fn asked(&self, path: &str, times: usize) {
        loop {
            let changed = self.changed.notified();
            if self.of(path).len() >= times {
                return;
            }
            tokio::time::timeout(PATIENCE, changed).await.expect("the service is asked");
        }
    }
}

async fn answer(State(service): State<Service>, uri: Uri, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let key = headers["idempotency-key"].to_str().expect("text").to_owned();
    service.asked.lock().expect("no panic").push(Asked { path: uri.path().to_owned(), key, body });
    service.changed.notify_waiters();
    match uri.path() {
        "/slow" => {
            service.finish.notified().await;
            Json(json!({})).into_response()
        }
        "/unheard" => StatusCode::NO_CONTENT.into_response(),
        path if path.ends_with("/cancel") => {
            let (status, body) = service.answers.lock().expect("no panic").remove(0);
            (status, Json(body)).into_response()
        }
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

/// A box without calls: what follows from each input is carried out as the ledger's task does.
struct Scene {
    folder: TempDir,
    boot: u128,
    begun: tokio::time::Instant,
    ledger: Ledger,
    store: Store,
    executor: Executor,
    webhook: Webhook,
    reports: mpsc::Receiver<Input>,
    accepted: Option<OperationId>,
    offered: Option<DeliveryId>,
    claimed: Vec<SpokenClause>,
    orders: u128,
    seed: u128,
}

impl Scene {
    fn new(service: &Service) -> Self {
        let mut scene = Self::open(tempfile::tempdir().expect("a folder"), 1, service);
        let party = Some(PartyId("ana".to_owned()));
        scene.give(Input::SessionUp { session: CALL, party, language: Language::En });
        scene
    }

    fn open(folder: TempDir, boot: u128, service: &Service) -> Self {
        // Already installed by another test: the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let wall = Wall { unix_ms: 1_790_000_000_000, synchronised: true };
        let (store, recovered) = Store::open(&folder.path().join("state.db"), &Options::new(BootId(boot), wall)).expect("a store");
        let tools = tools(&service.base);
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
        let (ledger, effects) = Ledger::recover(&mut Step::new(Time(0), wall, boot << 64), BootId(boot), policies, snapshot);
        let (sender, reports) = mpsc::channel(64);
        let secret_file = folder.path().join("secret");
        std::fs::write(&secret_file, "s3cret").expect("written");
        let settings = HandOff { url: format!("{}/unheard", service.base), secret_file, ca_file: None, timeout_ms: 5_000 };
        let webhook = Webhook::new(&settings, sender.clone()).expect("a webhook");
        let callbacks = CallbackAddress::new("http://127.0.0.1:9", BoxSecret::new([1; 32])).expect("an address");
        let slots = http_tools(&tools, Some(&callbacks)).expect("tools");
        let executor = Executor::start(slots, NonZeroUsize::new(8).expect("8 is not zero"), sender);
        let begun = tokio::time::Instant::now();
        let mut scene = Self {
            folder,
            boot,
            begun,
            ledger,
            store,
            executor,
            webhook,
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
    fn restarts(self, service: &Service) -> Self {
        let Self { folder, boot, store, executor, .. } = self;
        drop((store, executor));
        Self::open(folder, boot + 1, service)
    }

    async fn orders(&mut self, tool: &str) -> OperationId {
        self.orders += 1;
        let (turn, response) = (TurnId(self.orders), ResponseId(self.orders));
        let arguments = json!({ "order": self.orders.to_string() });
        let call = ToolCall { call_id: "c".to_owned(), tool: tool.to_owned(), arguments, confirmed: false };
        self.give(Input::Accept { session: CALL, turn, response, call });
        self.give(Input::Seal { session: CALL, response });
        self.accepted.take().expect("accepted")
    }

    async fn wants_it_cancelled(&mut self, tool: &str) {
        self.give(Input::Cancel { session: CALL, tool: Some(tool.to_owned()), operation: None });
    }

    async fn hangs_up(&mut self) {
        self.give(Input::SessionOver { session: CALL });
    }

    /// Claims the closing and says what the caller hears.
    async fn tells(&mut self) -> Vec<String> {
        let delivery = self.offered.take().expect("a closing is offered");
        self.give(Input::Claim { session: CALL, delivery, route: recado_core::ledger::Route::Announce });
        std::mem::take(&mut self.claimed).into_iter().map(|spoken| spoken.text).collect()
    }

    fn state(&self, operation: OperationId) -> OperationState {
        self.ledger.operation(operation).expect("in memory").state
    }

    /// Goes on until it is so.
    async fn until(&mut self, so: impl Fn(&Self) -> bool) {
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
                Effect::HandOff(hand_off) => self.webhook.send(&hand_off).expect("taken"),
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

fn tools(base: &str) -> Vec<Tool> {
    let tool = |value| serde_json::from_value(value).expect("a tool");
    vec![
        tool(json!({
            "name": "taxi",
            "url": format!("{base}/taxi"),
            "cancel_url": format!("{base}/taxi/cancel"),
            "retry": { "backoff_ms": 1, "backoff_ms_max": 5 },
            "say_cancelled": { "en": "The taxi is off." },
            "say_too_late": { "en": "Too late: it comes at {{ result.at }}." },
        })),
        tool(json!({
            "name": "slow",
            "url": format!("{base}/slow"),
            "concurrency": 1,
            "when_unheard": "webhook",
            "hand_off_after_ms": 1,
        })),
    ]
}

const CALL: SessionId = SessionId(1);

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
