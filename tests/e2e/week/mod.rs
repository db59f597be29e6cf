//! A week of errands: the counterparts that do them, each with its own ledger of effects by `Idempotency-Key`, and the box that has them done.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{Path as At, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use recado::coordination::{History, Pending, Reader};
use recado::demo::{BoxProcess, patiently};
use recado_core::ledger::{OperationRecord, OperationState};
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;
use tokio::sync::Notify;

use super::caller::{Caller, MODULES, Telephone};
use super::stage::{ACCEPTED, is_there, settings, starts};

/// What each errand's closing says.
pub const TABLE: &str = "The table by the window is yours tonight.";
pub const TAXI: &str = "A taxi picks you up at nine o'clock sharp.";
pub const CAR: &str = "The mechanic has mended your old car.";
pub const FAILED: &str = "No baker delivers on a holiday.";
pub const TOO_LATE: &str = "Those flowers have left the shop already.";
/// What would be heard of the flowers if nobody had wanted them cancelled, and of the cake if there were one.
pub const NEVER: [&str; 3] =
    ["Your flowers are on their way to grandmother.", "A chocolate cake is in the oven.", "I have cancelled the bouquet for you."];

const DIALOGUE: &str = r#"
[greeting]
say = { en = "Hello, this is the errand runner." }
[digit.1]
call = [
  { tool = "table", arguments = { people = 2 } },
  { tool = "taxi", arguments = { at = "nine" } },
  { tool = "car", arguments = { car = "old" } },
]
[digit.2]
call = [{ tool = "cake", arguments = { day = "Sunday" } }, { tool = "flowers", arguments = { to = "grandmother" } }]
[digit.3]
cancel = "flowers"
say = { en = "Let me ask them." }
[otherwise]
say = { en = "Go ahead." }
"#;

/// Everything around the box, which is a process that comes and goes.
pub struct Week {
    folder: TempDir,
    pub shops: Shops,
    pub garage: Garage,
}

impl Week {
    /// None, with a message, where something is missing that `./dev test` installs.
    pub async fn begins() -> Option<Self> {
        if !(is_there("baresip", "-h") && is_there("espeak-ng", "--version") && Path::new(MODULES).is_dir()) {
            println!("skipped: baresip (Debian: baresip-core) or espeak-ng is not installed");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (garage, shops) = (Garage::opens(folder.path())?, Shops::open().await);
        let secret = folder.path().join("secret");
        std::fs::write(&secret, SECRET).expect("written");
        let http = format!("listen = \"127.0.0.1:{}\"", free_port());
        // Who calls back finds the box where it was before it ended.
        let mut text =
            settings(folder.path(), "rtp_silence_ms = 5000\n").replace("[http]\nlisten = \"127.0.0.1:0\"", &format!("[http]\n{http}"));
        assert!(text.contains(&http), "{text}");
        text += &format!("[mcp.garage]\nurl = \"{}\"\n", garage.url);
        let at = |path: &str| format!("url = \"{}/{path}\"\nidempotent = true", shops.base);
        let signs = format!("sign_secret_file = {secret:?}");
        for (tool, further) in [
            ("table", format!("{}\nsay_done.en = {TABLE:?}", at("table"))),
            ("taxi", format!("{}\n{signs}\nprogress = \"silent\"\nsay_done.en = {TAXI:?}", at("taxi"))),
            ("car", format!("mcp = \"garage\"\nmcp_tool = \"mend\"\nsay_done.en = {CAR:?}")),
            ("cake", format!("{}\nsay_done.en = {:?}\nsay_failed.en = {FAILED:?}", at("cake"), NEVER[1])),
            (
                "flowers",
                format!(
                    "{}\n{signs}\ncancel_url = \"{}/flowers/cancel\"\nsay_done.en = {:?}\nsay_cancelled.en = {:?}\nsay_too_late.en = {TOO_LATE:?}",
                    at("flowers"),
                    shops.base,
                    NEVER[0],
                    NEVER[2]
                ),
            ),
        ] {
            text += &format!("[[tools]]\nname = {tool:?}\nsay_accepted.en = {ACCEPTED:?}\n{further}\n");
        }
        std::fs::write(folder.path().join("recado.toml"), text).expect("written");
        std::fs::write(folder.path().join("dialogue.toml"), DIALOGUE).expect("written");
        Some(Self { folder, shops, garage })
    }

    pub async fn box_runs(&self) -> BoxProcess {
        starts(&self.config()).await
    }

    pub async fn calls(&self, boxed: &BoxProcess) -> Caller {
        Caller::dials(self.folder.path(), "alice", Telephone::default(), boxed.sip).await
    }

    pub fn config(&self) -> PathBuf {
        self.folder.path().join("recado.toml")
    }

    pub fn history(&self) -> History {
        self.store().history().expect("readable")
    }

    /// Waits until the record of a tool's operation is so, on disk.
    pub async fn recorded(&self, tool: &str, is: impl Fn(&OperationRecord) -> bool) -> OperationRecord {
        let looking = async {
            loop {
                let found = self.history().operations.into_iter().find(|operation| operation.tool == tool);
                if let Some(operation) = found.filter(|operation| is(operation)) {
                    return operation;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        patiently(&format!("the operation of {tool}"), looking).await.unwrap_or_else(|error| panic!("{error}: {:?}", self.history()))
    }

    /// Waits until it has ended so.
    pub async fn ended(&self, tool: &str, state: OperationState) {
        self.recorded(tool, |operation| operation.state == state).await;
    }

    pub fn pending(&self) -> Pending {
        self.store().pending().expect("readable")
    }

    fn store(&self) -> Reader {
        Reader::open(&self.folder.path().join("data").join(recado::config::STORE_FILE)).expect("a store")
    }
}

impl Drop for Week {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("week-{}", std::process::id()));
            if Command::new("cp").arg("-a").arg(self.folder.path()).arg(&kept).status().is_ok_and(|status| status.success()) {
                println!("what the week left is in {}", kept.display());
            }
        }
    }
}

/// Shops behind HTTP. Whoever knows a key does nothing for it again.
#[derive(Clone)]
pub struct Shops {
    base: String,
    books: Arc<Books>,
}

#[derive(Default)]
struct Books {
    by_key: Mutex<BTreeMap<String, Order>>,
    changed: Notify,
}

/// What a shop knows of one `Idempotency-Key`.
#[derive(Debug, Clone)]
pub struct Order {
    pub shop: String,
    /// Requests that came under the key.
    pub requests: u32,
    /// Times that it was asked to cancel it, which is always too late.
    pub cancels: u32,
    /// Where the last request wants its result.
    url: String,
    operation: String,
}

impl Shops {
    async fn open() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (base, books) = (format!("http://{}", listener.local_addr().expect("an address")), Arc::<Books>::default());
        let router = Router::new().route("/{shop}", post(order)).route("/flowers/cancel", post(cancel)).with_state(Arc::clone(&books));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { base, books }
    }

    /// Waits until a shop has been asked for something.
    pub async fn asked(&self, shop: &str) {
        let asked = async {
            loop {
                let changed = self.books.changed.notified();
                if !self.of(shop).is_empty() {
                    return;
                }
                changed.await;
            }
        };
        patiently(&format!("{shop} to be asked"), asked).await.expect("asked");
    }

    /// Everything that a shop was asked for, one for each key.
    pub fn of(&self, shop: &str) -> Vec<Order> {
        self.books.by_key.lock().expect("no panic").values().filter(|order| order.shop == shop).cloned().collect()
    }

    /// A report on what a shop was asked for, signed.
    pub fn reports(&self, shop: &str, report: Value) -> Message {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let orders = self.of(shop);
        let [order] = &orders[..] else { panic!("{shop}: {orders:?}") };
        Message { id: format!("msg_{}", NEXT.fetch_add(1, Ordering::Relaxed)), url: order.url.clone(), body: report.to_string() }
    }
}

/// A signed callback (Standard Webhooks), which can be sent again and again.
pub struct Message {
    id: String,
    url: String,
    body: String,
}

impl Message {
    /// Sends it as it is, twice at once. The two answers; none where nobody is there.
    pub async fn arrives_twice(&self) -> [Option<u16>; 2] {
        let (first, second) = tokio::join!(self.arrives(), self.arrives());
        [first, second]
    }

    async fn arrives(&self) -> Option<u16> {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key");
        mac.update(format!("{}.{at}.{}", self.id, self.body).as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let request = client.post(&self.url).body(self.body.clone());
        let request = request.header("webhook-id", &self.id).header("webhook-timestamp", at).header("webhook-signature", signature);
        request.send().await.ok().map(|answer| answer.status().as_u16())
    }
}

async fn order(State(books): State<Arc<Books>>, At(shop): At<String>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).expect("a key").to_owned();
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let new = Order { shop: shop.clone(), requests: 0, cancels: 0, url: String::new(), operation: text("/operation_id") };
    {
        let mut by_key = books.by_key.lock().expect("no panic");
        let order = by_key.entry(key).or_insert(new);
        order.requests += 1;
        order.url = text("/callback/url");
    }
    books.changed.notify_waiters();
    match shop.as_str() {
        "table" => Json(json!({ "at": "the window" })).into_response(),
        "cake" => (StatusCode::UNPROCESSABLE_ENTITY, "it is a holiday").into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

async fn cancel(State(books): State<Arc<Books>>, Json(body): Json<Value>) -> Response {
    let mut by_key = books.by_key.lock().expect("no panic");
    let found = by_key.values_mut().find(|order| json!(order.operation) == body["operation_id"]);
    found.expect("what was ordered").cancels += 1;
    Json(json!({ "status": "too_late", "result": flowers() })).into_response()
}

/// What comes of the flowers.
pub fn flowers() -> Value {
    json!({ "left": true })
}

/// A garage that others' framework serves over MCP, as tasks. It ends when it is dropped.
pub struct Garage {
    process: Child,
    url: String,
    folder: PathBuf,
}

impl Garage {
    fn opens(folder: &Path) -> Option<Self> {
        let usual = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../fastmcp/bin/python3");
        // Where `./dev test` has said where it is, it must be there: nothing is skipped then.
        let named = std::env::var_os("RECADO_FASTMCP_PYTHON");
        let python = named.clone().map_or(usual, PathBuf::from);
        assert!(named.is_none() || python.exists(), "RECADO_FASTMCP_PYTHON: there is no {}", python.display());
        if !python.exists() {
            println!("skipped: {} is not there; `./dev test` fetches it", python.display());
            return None;
        }
        let mut command = Command::new(python);
        let mut process = command.arg(SCRIPT).arg(folder).stdout(Stdio::piped()).spawn().expect("started");
        let mut port = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut port).expect("text");
        Some(Self { process, url: format!("http://127.0.0.1:{}/mcp", port.trim()), folder: folder.to_owned() })
    }

    /// The keys of what it noted with this word, in order.
    pub fn keys(&self, word: &str) -> Vec<String> {
        let notes = std::fs::read_to_string(self.folder.join("garage")).unwrap_or_default();
        notes.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).map(str::to_owned).collect()
    }

    /// Waits until it has noted something with this word.
    pub async fn has(&self, word: &str) {
        let noted = async {
            while self.keys(word).is_empty() {
                tokio::time::sleep(POLL).await;
            }
        };
        patiently(&format!("the garage to have {word}"), noted).await.expect("noted");
    }

    /// What it waits for.
    pub fn may_finish(&self) {
        std::fs::write(self.folder.join("finish"), "").expect("written");
    }
}

impl Drop for Garage {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A port that stays the same over the lives of a box, below those that the system gives away.
fn free_port() -> u16 {
    let first = (std::process::id() % u32::from(PORTS)) as u16;
    let all = (0..PORTS).map(|further| PORT_FIRST + (first + further) % PORTS);
    all.into_iter().find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("one is free")
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/week/garage.py");

const SECRET: &str = "a secret of both sides";

/// Between two looks at what can only be looked at.
const POLL: Duration = Duration::from_millis(20);

/// Apart from the ports of other tests.
const PORT_FIRST: u16 = 9_300;
const PORTS: u16 = 600;
