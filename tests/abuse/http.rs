//! Callbacks as nobody should send them.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::http_peers::{SUCCEEDED, get, post, report};
use crate::phone::{DONE, Phone, WORDS};
use crate::stage::{Stage, patiently};

#[test]
fn callbacks_of_every_bad_kind_are_refused_and_the_right_one_counts_once() {
    let stage = Stage::set(&["job"]);
    let mut boxed = stage.box_runs();
    let phone = Phone::dial(boxed.sip, "ana");
    let asked = stage.asked("job", 1);
    for (token, status) in [("", 401), ("wrong", 401), (&asked.token[..asked.token.len() - 1], 401), (&asked.token, 400)] {
        assert_eq!(post(&asked.url, token, b"\xff\0garbage"), status, "{token}");
    }
    assert_eq!(post(&asked.url, &asked.token, &vec![b'1'; 10 << 20]), 413);
    assert_eq!(post(&asked.url, &asked.token, "[".repeat(100_000).as_bytes()), 400);
    assert_eq!(post(&asked.url.replace("/result", "x/result"), &asked.token, SUCCEEDED.as_bytes()), 401);
    // Each of 200 senders at once, five times over.
    let at_once: Vec<_> = (0..200)
        .map(|_| {
            let asked = asked.clone();
            std::thread::spawn(move || (0..5).map(|_| report(&asked, SUCCEEDED)).collect::<Vec<u16>>())
        })
        .collect();
    let statuses: Vec<u16> = at_once.into_iter().flat_map(|thread| thread.join().expect("ended")).collect();
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    println!("1,000 by 200 at once: {} recorded, {} later, {} broken off", count(200), count(503), count(0));
    assert!(count(200) > 0 && count(200) + count(503) == 1_000, "{statuses:?}");
    assert_eq!(report(&asked, "{\"status\":\"failed\"}"), 409);
    assert_eq!(report(&asked, SUCCEEDED), 200);
    phone.hears(DONE, 1);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(phone.hang_up().whole(DONE), 1);
    assert!(boxed.runs());
}

#[test]
fn clients_that_drip_their_requests_do_not_keep_others_from_being_served() {
    let stage = Stage::set(&[]);
    let boxed = stage.box_runs();
    let mut drips: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(boxed.http).expect("connected")).collect();
    let begun = Instant::now();
    let served = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&served);
    let dripping = std::thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            for stream in &mut drips {
                // Those that the box has closed are opened no more: the others go on.
                let _ = stream.write_all(b"G");
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(get(boxed.http, "/health").0, 200);
    served.store(true, Ordering::Relaxed);
    println!("served after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    dripping.join().expect("ended");
}

#[test]
fn the_metrics_and_the_health_are_fed() {
    let stage = Stage::set(&["at_once"]);
    let boxed = stage.box_runs();
    let phone = Phone::dial(boxed.sip, "ana");
    phone.hears(WORDS, 1);
    phone.hears(DONE, 1);
    let health = boxed.is("ok");
    assert!(health["store"]["writable"] == true && health["store"]["commit_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{health}");
    patiently("the delivery to be counted as spoken", || {
        let (_, text) = get(boxed.http, "/metrics");
        text.contains("recado_deliveries{state=\"spoken\"} 1").then_some(())
    });
    phone.hang_up();
}
