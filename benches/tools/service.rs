//! The service: it says when it received each request, and nothing else.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::clock::now_us;

/// A process of its own, which ends when it is dropped.
pub struct Service {
    process: Child,
    /// Where it is.
    pub url: String,
}

impl Service {
    pub fn start() -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut process = Command::new(program).arg(MODE).stdout(Stdio::piped()).spawn().expect("started");
        let mut url = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut url).expect("text");
        Self { process, url: url.trim().to_owned() }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves, in a process of its own.
pub fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a thread");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("http://{}/order", listener.local_addr().expect("an address"));
        std::io::stdout().flush().expect("written");
        axum::serve(listener, Router::new().route("/order", post(received))).await.expect("it serves");
    });
}

async fn received(body: axum::body::Bytes) -> Json<Value> {
    Json(json!({ "received_us": now_us(), "octets": body.len() }))
}

/// The argument that says so.
pub const MODE: &str = "serve";
