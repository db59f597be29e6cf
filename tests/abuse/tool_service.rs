//! The tools: a service on loopback that answers as the tool's name says, and counts by key.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::stage::patiently;

#[derive(Clone)]
pub struct Tools {
    pub address: SocketAddr,
    asked: Arc<Mutex<BTreeMap<String, Asked>>>,
}

/// What the service knows of one key.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub tool: String,
    pub requests: u32,
    /// For whom, where the dialogue says so.
    pub who: String,
    /// Where the last request wants its result.
    pub url: String,
    pub token: String,
}

impl Tools {
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let tools = Self { address: listener.local_addr().expect("an address"), asked: Arc::default() };
        let service = tools.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let service = service.clone();
                // A box that is killed breaks its requests off.
                std::thread::spawn(move || service.serve(stream));
            }
        });
        tools
    }

    /// Waits until `tool` has been asked `requests` times. What is known of it then.
    pub fn asked(&self, tool: &str, requests: u32) -> Asked {
        patiently(&format!("{tool} to be asked {requests} times"), || {
            self.all().into_iter().find(|asked| asked.tool == tool && asked.requests >= requests)
        })
    }

    /// Everything that was asked, one for each key.
    pub fn all(&self) -> Vec<Asked> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let (mut line, mut key, mut length) = (String::new(), String::new(), 0);
        reader.read_line(&mut line).ok()?;
        let tool = line.split(' ').nth(1)?.trim_start_matches('/').to_owned();
        loop {
            line.clear();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "idempotency-key" => key = value.trim().to_owned(),
                "content-length" => length = value.trim().parse().ok()?,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body: Value = serde_json::from_slice(&body).ok()?;
        {
            let mut all = self.lock();
            let asked = all.entry(key).or_default();
            asked.requests += 1;
            asked.tool.clone_from(&tool);
            asked.who = body.pointer("/arguments/who").and_then(Value::as_str).unwrap_or_default().to_owned();
            asked.url = body.pointer("/callback/url").and_then(Value::as_str).unwrap_or_default().to_owned();
            asked.token = body.pointer("/callback/token").and_then(Value::as_str).unwrap_or_default().to_owned();
        }
        answer(stream, &tool)
    }
}

fn answer(mut stream: TcpStream, tool: &str) -> Option<()> {
    let ok = |length: usize| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
    };
    match tool {
        "not_json" => stream.write_all(format!("{}<html>", ok(6)).as_bytes()).ok(),
        "huge" => {
            stream.write_all(ok(10 << 20).as_bytes()).ok()?;
            (0..10).try_for_each(|_| stream.write_all(&vec![b'1'; 1 << 20])).ok()
        }
        "drip" => {
            stream.write_all(ok(1_000).as_bytes()).ok()?;
            (0..1_000)
                .try_for_each(|_| {
                    std::thread::sleep(Duration::from_millis(100));
                    stream.write_all(b"1")
                })
                .ok()
        }
        "five_hundred" => stream.write_all(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").ok(),
        "hang_up" => Some(()),
        "at_once" => stream.write_all(format!("{}{{}}", ok(2)).as_bytes()).ok(),
        _ => stream.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").ok(),
    }
}

impl Asked {
    /// Reports a result to the box, and says what it answered; 0 where it did not.
    pub fn report(&self, body: &str) -> u16 {
        post(&self.url, &self.token, body.as_bytes())
    }

    /// Reports a result to the box that listens on `http` now.
    pub fn report_to(&self, http: SocketAddr, body: &str) -> u16 {
        let path = self.url.trim_start_matches("http://").split_once('/').map_or("", |(_, path)| path);
        post(&format!("http://{http}/{path}"), &self.token, body.as_bytes())
    }
}

/// POSTs `body` to `url`; the status, or 0.
pub fn post(url: &str, token: &str, body: &[u8]) -> u16 {
    let (host, path) = url.trim_start_matches("http://").split_once('/').expect("a URL");
    let head = format!(
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let sent = TcpStream::connect(host).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.write_all(head.as_bytes())?;
        // Refused before its end: the answer says why.
        let _ = stream.write_all(body);
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        Ok(answer)
    });
    sent.ok().and_then(|answer| answer.split(' ').nth(1)?.parse().ok()).unwrap_or(0)
}

/// GETs a page: its status and body.
pub fn get(from: SocketAddr, path: &str) -> (u16, String) {
    let mut answer = String::new();
    let got = TcpStream::connect(from).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n").as_bytes())?;
        stream.read_to_string(&mut answer)
    });
    got.unwrap_or_else(|error| panic!("{path}: {error}"));
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

pub const SUCCEEDED: &str = "{\"status\":\"succeeded\",\"result\":{}}";
