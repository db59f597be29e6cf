//! Servers that nobody here wrote, and what they were seen to do.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A place on this machine for one server: each takes seconds to start, and a dozen at once minutes.
struct Place;

static TAKEN: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());

impl Place {
    fn wait_for() -> Self {
        let (taken, freed) = &TAKEN;
        *freed.wait_while(taken.lock().expect("no panic"), |taken| *taken >= PLACES).expect("no panic") += 1;
        Self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (taken, freed) = &TAKEN;
        *taken.lock().expect("no panic") -= 1;
        freed.notify_one();
    }
}

const PLACES: u32 = 2;

/// A server of FastMCP's with tasks.
pub struct FastMcp {
    python: PathBuf,
    folder: TempDir,
    process: Option<Child>,
    /// The one that it has, or any free one.
    port: u16,
    _place: Place,
}

impl FastMcp {
    /// Over HTTP. None, with a message, where `./dev test`, which fetches the package, has not been run.
    pub fn over_http() -> Option<Self> {
        let mut server = Self::as_program()?;
        server.starts(&[]);
        Some(server)
    }

    /// It is killed, with all that it knows, and started again at its address; with some tools changed, where `changed`.
    pub fn is_killed_and_starts_again(&mut self, changed: bool) {
        self.ends();
        self.starts(if changed { &["changed"] } else { &[] });
    }

    fn starts(&mut self, more: &[&str]) {
        let mut command = Command::new(&self.python);
        command.arg(SCRIPT).arg("http").arg(self.folder.path()).arg(self.port.to_string()).args(more);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("started");
        let mut port = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut port).expect("text");
        self.port = port.trim().parse().expect("a port");
        self.process = Some(process);
    }

    /// It is killed, with all that it knows.
    pub fn is_killed(&mut self) {
        self.ends();
    }

    fn ends(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// As a program that the box starts.
    pub fn as_program() -> Option<Self> {
        let python = found("RECADO_FASTMCP_PYTHON", "../fastmcp/bin/python3")?;
        Some(Self { python, folder: tempfile::tempdir().expect("a folder"), process: None, port: 0, _place: Place::wait_for() })
    }

    /// Its table of the configuration.
    pub fn settings(&self) -> Value {
        match self.process {
            Some(_) => json!({ "url": format!("http://127.0.0.1:{}/mcp", self.port) }),
            None => json!({ "program": self.python, "arguments": [SCRIPT, "stdio", self.folder.path()], "timeout_ms": 60_000 }),
        }
    }

    /// What its slow tool waits for.
    pub fn lets_it_finish(&self) {
        std::fs::write(self.folder.path().join("finish"), "").expect("written");
    }

    /// What its tools have done whose words begin so.
    pub fn effects(&self, begin: &str) -> Vec<String> {
        let done = std::fs::read_to_string(self.folder.path().join("effects")).unwrap_or_default();
        done.lines().filter(|line| line.starts_with(begin)).map(str::to_owned).collect()
    }

    /// Waits until a tool has done this.
    pub async fn has(&self, effect: &str) {
        let seen = async {
            while self.effects(effect).is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(crate::scene::PATIENCE, seen).await.expect("the server does it");
    }
}

impl Drop for FastMcp {
    fn drop(&mut self) {
        self.ends();
    }
}

/// The protocol's own example of a server.
/// It is a program that the box starts, or runs at an address.
pub struct Everything {
    settings: Value,
    process: Option<Child>,
    _place: Place,
}

impl Everything {
    /// As a program that the box starts.
    pub fn as_program() -> Option<Self> {
        let settings = json!({ "program": "node", "arguments": [everything()?, "stdio"], "timeout_ms": 60_000 });
        Some(Self { settings, process: None, _place: Place::wait_for() })
    }

    /// Over HTTP.
    pub async fn over_http() -> Option<Self> {
        let program = everything()?;
        // It takes no port that the system chooses, and says of none that it has it: one that is free now, and another should it be taken meanwhile.
        let place = Place::wait_for();
        let mut tries = 0;
        loop {
            let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
            let mut command = Command::new("node");
            command.args(["--require", WEBCRYPTO]).arg(&program).arg("streamableHttp").env("PORT", free.to_string());
            let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("node is installed");
            let until = tokio::time::Instant::now() + crate::scene::PATIENCE;
            loop {
                if process.try_wait().expect("a child").is_some() {
                    break;
                }
                if tokio::net::TcpStream::connect(("127.0.0.1", free)).await.is_ok() {
                    let settings = json!({ "url": format!("http://127.0.0.1:{free}/mcp"), "timeout_ms": 60_000 });
                    return Some(Self { settings, process: Some(process), _place: place });
                }
                assert!(tokio::time::Instant::now() < until, "it listens");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            tries += 1;
            assert!(tries < 5, "it ends by itself");
        }
    }

    /// Its table of the configuration.
    pub fn settings(&self) -> Value {
        self.settings.clone()
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A server such as nobody should write, over HTTP: it answers each request for its tools with the next of `pages`, as it stands. Its table of the
/// configuration.
pub async fn odd(pages: Value) -> Value {
    let Value::Array(pages) = pages else { panic!("pages are a list") };
    let (pages, next) = (Arc::new(pages), Arc::new(AtomicUsize::new(0)));
    let answer = move |Json(request): Json<Value>| {
        let result = match request["method"].as_str() {
            Some("initialize") => Some(json!({
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "odd", "version": "1" },
            })),
            Some("tools/list") => {
                if request["params"]["cursor"].is_null() {
                    next.store(0, Ordering::Relaxed);
                }
                pages.get(next.fetch_add(1, Ordering::Relaxed)).cloned()
            }
            _ => None,
        };
        let answer = match (request.get("id"), result) {
            (None, _) => StatusCode::ACCEPTED.into_response(),
            (Some(id), Some(result)) => Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response(),
            (Some(id), None) => {
                Json(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no such method" } })).into_response()
            }
        };
        std::future::ready(answer)
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/mcp", post(answer))).await });
    json!({ "url": url, "timeout_ms": 60_000 })
}

fn everything() -> Option<PathBuf> {
    found("RECADO_MCP_EVERYTHING", "../mcp-everything/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

fn found(named: &str, usual: &str) -> Option<PathBuf> {
    // Where `./dev test` has said where it is, it must be there: nothing is skipped then.
    if let Some(place) = std::env::var_os(named).map(PathBuf::from) {
        assert!(place.exists(), "{named}: there is no {}", place.display());
        return Some(place);
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(usual);
    if !place.exists() {
        println!("skipped: {} is not there; `./dev test` fetches it", place.display());
        return None;
    }
    Some(place)
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/server.py");

/// What a server over HTTP needs beside itself on Node 18.
const WEBCRYPTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/webcrypto.cjs");
