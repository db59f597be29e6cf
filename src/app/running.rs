//! What a running box says of its store: that the disk did not take the last commit, that no backup could be made. It stands in no file.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::message_keeper::PART;
use super::upkeep::PARTS;
use super::watch;

/// Asks the box whose HTTP server is configured to listen at `listen` what is wrong with its store, with what callers leave, with the
/// service that leads calls and, where `speech_is_wanted`, with its speech: the sentences of its health.
///
/// # Errors
/// Why it could not be asked, in words.
pub fn problems(listen: SocketAddr, speech_is_wanted: bool) -> Result<Vec<String>, String> {
    if listen.port() == 0 {
        return Err("its port is chosen by the system".to_owned());
    }
    let health = health(reachable(listen)).map_err(|error| error.to_string())?;
    let health: Health =
        health.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok()).ok_or("no box answers there")?;
    let is_ours = |problem: &String| {
        let (part, _) = problem.split_once(": ")?;
        Some(is_of_the_store(part) || part == PART || part.starts_with(CLOUD) || speech_is_wanted && part == SPEECH)
    };
    Ok(health.problems.into_iter().filter(|problem| is_ours(problem).unwrap_or(false)).collect())
}

/// Whether health means the store by this.
pub fn is_of_the_store(part: &str) -> bool {
    part == watch::STORE || PARTS.contains(&part)
}

#[derive(Deserialize)]
struct Health {
    problems: Vec<String>,
}

/// Where a server that listens on every address is found.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn health(at: SocketAddr) -> std::io::Result<String> {
    let until = Instant::now() + WITHIN;
    let mut stream = TcpStream::connect_timeout(&at, WITHIN)?;
    stream.set_write_timeout(Some(WITHIN))?;
    stream.write_all(format!("GET /health HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let (mut answer, mut block) = (Vec::new(), [0; 4_096]);
    while answer.len() < ANSWER_BYTES_MAX {
        let left = until.saturating_duration_since(Instant::now());
        // Nobody waits for no time at all: that is an error of its own.
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let length = stream.read(&mut block)?;
        if length == 0 {
            break;
        }
        answer.extend_from_slice(block.get(..length).unwrap_or_default());
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// What health calls the speech engine.
pub(super) const SPEECH: &str = "speech";
/// What the tables of services begin with, by which health calls them.
const CLOUD: &str = "cloud.";

/// Somebody waits for the doctor's answer, and a box that is well answers at once.
const WITHIN: Duration = Duration::from_secs(3);

/// A dozen parts with a sentence each.
const ANSWER_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Answers one request with `body`.
    fn served(body: &'static str) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // All of it, in however many parts it comes: a server that closes on what it has not read resets the connection.
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut block = [0; 512];
                let length = stream.read(&mut block).unwrap();
                assert!(length > 0, "it ends before its end");
                request.extend_from_slice(&block[..length]);
            }
            assert!(request.starts_with(b"GET /health HTTP/1.1\r\n"));
            write!(stream, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        });
        address
    }

    #[test]
    fn what_the_box_says_of_its_store_and_its_service_is_told_and_nothing_else() {
        let said = served(
            r#"{"status":"refusing","problems":["speech: espeak-ng is missing","store: the disk is full","backup: no room","cloud.live: away"]}"#,
        );
        let told = ["store: the disk is full", "backup: no room", "cloud.live: away"];
        assert_eq!(problems(said, false), Ok(told.map(str::to_owned).to_vec()));
        let said = served(r#"{"problems":["speech: espeak-ng is missing","voices: none"]}"#);
        assert_eq!(problems(said, true), Ok(vec!["speech: espeak-ng is missing".to_owned()]));
        let everywhere = SocketAddr::from(([0, 0, 0, 0], served(r#"{"problems":[]}"#).port()));
        assert_eq!(problems(everywhere, false), Ok(Vec::new()));
    }

    #[test]
    fn why_it_could_not_be_asked_is_said() {
        assert_eq!(problems(served("hello"), true), Err("no box answers there".to_owned()));
        assert_eq!(problems(([127, 0, 0, 1], 0).into(), true), Err("its port is chosen by the system".to_owned()));
        let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        assert!(problems(closed, true).is_err_and(|why| why.contains("refused")));
    }
}
