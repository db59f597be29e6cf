//! HTTP as nobody should speak it: a service that answers badly, and a client that sends what it likes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use recado::demo::Asked;

/// Starts a service that answers as the path says. Where.
pub fn bad_service() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A box that is killed breaks its requests off.
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(mut stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).ok()?;
    let manner = line.split(' ').nth(1)?.trim_start_matches('/').to_owned();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    let ok = |length: usize| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
    };
    match manner.as_str() {
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
        // Taken, and never reported.
        _ => stream.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").ok(),
    }
}

/// Reports `body` as the result of what was asked, and says what the box answered; 0 where it did not.
pub fn report(asked: &Asked, body: &str) -> u16 {
    post(&asked.url, &asked.token, body.as_bytes())
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
