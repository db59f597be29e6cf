//! The two loops that are measured, with as many under way at a time.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use recado::cognition::tools::{Executor, http_tools};
use recado::config::Tool;
use recado::coordination::{Options, Store, Writer};
use recado_core::conversation::input::ToolCall;
use recado_core::ledger::{AttemptOutcome, Effect, Input, Ledger, News, Snapshot};
use recado_core::policy::Language;
use recado_core::{BootId, PartyId, ResponseId, SessionId, Step, Time, TurnId, Wall};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::clock::now_us;

/// What was measured, over some runs.
#[derive(Default)]
pub struct Measured {
    pub per_second: Vec<f64>,
    /// From asked for, or begun, to received by the service.
    pub to_received_ms: Vec<f64>,
    /// From asked for to accepted: durable.
    pub to_durable_ms: Vec<f64>,
    pub from_durable_ms: Vec<f64>,
    pub commits_per_flush: Vec<f64>,
}

impl Measured {
    pub fn add(&mut self, other: Self) {
        self.per_second.extend(other.per_second);
        self.to_received_ms.extend(other.to_received_ms);
        self.to_durable_ms.extend(other.to_durable_ms);
        self.from_durable_ms.extend(other.from_durable_ms);
        self.commits_per_flush.extend(other.commits_per_flush);
    }
}

/// Requests and nothing else: each of `parallel` tasks sends the next when the one before is answered.
pub async fn bare(url: &str, parallel: usize, each: usize) -> Measured {
    install_provider();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    let (begun, left) = (Instant::now(), Arc::new(AtomicUsize::new(each)));
    let mut tasks = JoinSet::new();
    for _ in 0..parallel {
        let (client, url, left) = (client.clone(), url.to_owned(), Arc::clone(&left));
        tasks.spawn(async move {
            let mut took = Vec::new();
            while let Ok(number) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
                let sent = now_us();
                let body = json!({ "operation_id": format!("op_{number:032x}"), "tool": "order", "arguments": { "order": number } });
                let request = client.post(&url).header("Idempotency-Key", format!("{number:032x}")).json(&body);
                let answer: Value = request.send().await.expect("answered").json().await.expect("JSON");
                took.push(ms(sent, received_us(&answer)));
            }
            took
        });
    }
    let mut measured = Measured::default();
    while let Some(took) = tasks.join_next().await {
        measured.to_received_ms.extend(took.expect("no panic"));
    }
    measured.per_second.push(each as f64 / begun.elapsed().as_secs_f64());
    measured
}

/// The same through a box: each of `parallel` callers asks for the next operation when the closing of the one before is on disk. At most `slots`
/// attempts are under way at a time.
pub async fn with_the_box(url: &str, parallel: usize, each: usize, slots: usize) -> Measured {
    install_provider();
    let directory = std::env::var_os("STORE_BENCH_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let directory = tempfile::tempdir_in(directory).expect("a directory");
    let tool = json!({ "name": "order", "url": url, "idempotent": true, "concurrency": slots, "say_done": { "en": "Done." } });
    let tool: Tool = serde_json::from_value(tool).expect("a tool");
    let (store, _) = Store::open(&directory.path().join("state.db"), &Options::new(BootId(1), wall())).expect("a store");
    let (answers, from_store) = mpsc::channel(ANSWERS_MAX);
    let store = store.start(move |answer| drop(answers.blocking_send(answer.into()))).expect("a thread");
    let (reports, from_tools) = mpsc::channel(REPORTS_MAX);
    let ports = http_tools(std::slice::from_ref(&tool), None, Some(&reports)).expect("a tool");
    let executor = Executor::start(ports, NonZeroUsize::new(slots).expect("some"), reports);
    let policies = BTreeMap::from([("order".to_owned(), tool.policy())]);
    let (ledger, _) = Ledger::recover(&mut Step::new(Time(0), wall(), 1 << 64), BootId(1), policies, Snapshot::default());
    let boxed = Box { begun: Instant::now(), ledger, store, executor, seed: 1, left: each, callers: vec![Caller::default(); parallel] };
    tokio::spawn(boxed.run(each, from_store, from_tools)).await.expect("no panic")
}

/// What a box wires together for its tools.
struct Box {
    begun: Instant,
    ledger: Ledger,
    store: Writer,
    executor: Executor,
    seed: u128,
    /// Operations that nobody has asked for yet.
    left: usize,
    callers: Vec<Caller>,
}

/// What each caller waits for: one operation.
#[derive(Clone, Default)]
struct Caller {
    operations: u128,
    asked_us: u64,
    durable_us: u64,
}

impl Box {
    async fn run(mut self, each: usize, mut from_store: mpsc::Receiver<Input>, mut from_tools: mpsc::Receiver<Input>) -> Measured {
        let mut measured = Measured::default();
        let mut closed = 0;
        let mut told = Vec::new();
        for caller in 0..self.callers.len() {
            let party = Some(PartyId(format!("caller/{caller}")));
            self.give(Input::SessionUp { session: session(caller), party, language: Language::En }, &mut told);
        }
        self.begun = Instant::now();
        for caller in 0..self.callers.len() {
            self.asks(caller, &mut told);
        }
        while closed < each {
            let due = self.ledger.deadline().map_or(PATIENCE, |at| Duration::from_millis(at.0).saturating_sub(self.begun.elapsed()));
            let input = tokio::select! {
                biased;
                Some(answer) = from_store.recv() => answer,
                Some(report) = from_tools.recv() => report,
                () = tokio::time::sleep(due) => Input::Wake,
            };
            if let Input::Attempted { operation, outcome, .. } = &input {
                let AttemptOutcome::Succeeded(result) = outcome else { panic!("{outcome:?}") };
                let asked = self.ledger.operation(*operation).expect("it runs").session;
                let caller = &self.callers[place(asked)];
                let received = received_us(result);
                measured.to_received_ms.push(ms(caller.asked_us, received));
                measured.from_durable_ms.push(ms(caller.durable_us, received));
                measured.to_durable_ms.push(ms(caller.asked_us, caller.durable_us));
            }
            assert!(!matches!(input, Input::CommitFailed { .. }), "{input:?}");
            self.give(input, &mut told);
            for (session, news) in std::mem::take(&mut told) {
                match news {
                    News::Accepted(_) => self.callers[place(session)].durable_us = now_us(),
                    News::Offered(_) => {
                        closed += 1;
                        self.asks(place(session), &mut told);
                    }
                    _ => {}
                }
            }
        }
        measured.per_second.push(each as f64 / self.begun.elapsed().as_secs_f64());
        let stats = self.store.stats();
        measured.commits_per_flush.push(stats.commits as f64 / stats.groups.max(1) as f64);
        measured
    }

    fn asks(&mut self, caller: usize, told: &mut Vec<(SessionId, News)>) {
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        self.callers[caller].operations += 1;
        self.callers[caller].asked_us = now_us();
        let number = self.callers[caller].operations * 1_000 + caller as u128;
        let (session, turn, response) = (session(caller), TurnId(number), ResponseId(number));
        let arguments = json!({ "order": left });
        let call = ToolCall { call_id: "c".to_owned(), tool: "order".to_owned(), arguments, confirmed: false };
        self.give(Input::Accept { session, turn, response, call }, told);
        self.give(Input::Seal { session, response }, told);
    }

    fn give(&mut self, input: Input, told: &mut Vec<(SessionId, News)>) {
        self.seed += 1;
        let now = u64::try_from(self.begun.elapsed().as_millis()).expect("short");
        let effects = self.ledger.handle(&mut Step::new(Time(now), wall(), self.seed << 64), input);
        for effect in effects {
            match effect {
                Effect::Persist { commit, writes } => self.store.commit(commit, writes).expect("room"),
                Effect::Dispatch(dispatch) => self.executor.dispatch(dispatch).expect("taken"),
                Effect::Tell { session, news } => told.push((session, news)),
                _ => {}
            }
        }
    }
}

fn session(caller: usize) -> SessionId {
    SessionId(caller as u128 + 1)
}

fn place(session: SessionId) -> usize {
    usize::try_from(session.0 - 1).expect("one of them")
}

fn received_us(answer: &Value) -> u64 {
    answer["received_us"].as_u64().expect("a time")
}

fn ms(from_us: u64, to_us: u64) -> f64 {
    to_us.saturating_sub(from_us) as f64 / 1_000.0
}

fn wall() -> Wall {
    Wall { unix_ms: 1_790_000_000_000, synchronised: true }
}

fn install_provider() {
    // Already installed by the other loop: the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// As a box has them.
const ANSWERS_MAX: usize = 1_024;
const REPORTS_MAX: usize = 256;

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);
