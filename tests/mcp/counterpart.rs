//! Servers that nobody here wrote, and what they were seen to do.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A server of FastMCP's with tasks.
pub struct FastMcp {
    python: PathBuf,
    folder: TempDir,
    process: Option<Child>,
    url: String,
}

impl FastMcp {
    /// Over HTTP. None, with a message, where `./dev test`, which fetches the package, has not been run.
    pub fn over_http() -> Option<Self> {
        let mut server = Self::as_program()?;
        let mut command = Command::new(&server.python);
        let mut process = command.arg(SCRIPT).arg("http").arg(server.folder.path()).stdout(Stdio::piped()).spawn().expect("started");
        let mut port = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut port).expect("text");
        server.url = format!("http://127.0.0.1:{}/mcp", port.trim());
        server.process = Some(process);
        Some(server)
    }

    /// As a program that the box starts.
    pub fn as_program() -> Option<Self> {
        let python = found("RECADO_FASTMCP_PYTHON", "../fastmcp/bin/python3")?;
        Some(Self { python, folder: tempfile::tempdir().expect("a folder"), process: None, url: String::new() })
    }

    /// Its table of the configuration.
    pub fn settings(&self) -> Value {
        match self.process {
            Some(_) => json!({ "url": self.url }),
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
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The protocol's own example of a server, as a program's path.
pub fn everything() -> Option<PathBuf> {
    found("RECADO_MCP_EVERYTHING", "../mcp-everything/node_modules/.bin/mcp-server-everything")
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
