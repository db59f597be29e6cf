//! What calls cost, both ways at once: the service is sent all that is heard, and speaks all the time; next to the floor, in one run.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::clock::{cpu_s, now_us};
use super::service::{Manner, Service, What};
use super::table;
use super::telephone::{Listeners, Telephone};
use super::{box_for, floor};

/// Speaks as fast as it sounds, for longer than it is measured.
const SPEAKS: Manner = Manner { pace: 1, answer_ms: 100_000 };
const WINDOW: Duration = Duration::from_secs(20);
const SETTLE: Duration = Duration::from_secs(3);

/// What carried some calls took.
struct Took {
    cpu_s_per_call_minute: f64,
    /// How much of the speech that there was came to the callers.
    heard: f64,
}

pub async fn measure() {
    let (mut rows, mut delays) = (Vec::new(), Vec::new());
    for calls in [1, 10, 50] {
        let floor = floor_of(calls).await;
        let (boxed, delays_ms) = box_of(calls).await;
        rows.push((calls, floor, boxed));
        delays.push((calls, delays_ms));
    }
    println!("\nCPU-seconds per call-minute      floor     box   ratio   heard of the speech: floor, box");
    for (calls, floor, boxed) in rows {
        let ratio = boxed.cpu_s_per_call_minute / floor.cpu_s_per_call_minute;
        let (floor_s, box_s) = (floor.cpu_s_per_call_minute, boxed.cpu_s_per_call_minute);
        println!(
            "{calls:>3} calls                       {floor_s:>7.3} {box_s:>7.3} {ratio:>7.2}   {:>29.2}, {:.2}",
            floor.heard, boxed.heard
        );
    }
    table::head("a caller's packet -> the WebSocket frame that holds it");
    for (calls, delays_ms) in delays {
        table::distribution(&format!("with {calls} calls"), "ms", &delays_ms);
    }
}

async fn floor_of(calls: usize) -> Took {
    let service = Service::start(SPEAKS).await;
    let program = std::env::current_exe().expect("a program");
    let mut process =
        Command::new(program).args([floor::MODE, &service.address, &calls.to_string()]).stdout(Stdio::piped()).spawn().expect("a process");
    let told = BufReader::new(process.stdout.take().expect("its output"));
    let ports: Vec<u16> = told.lines().take(calls).map(|line| line.expect("a line").parse().expect("a port")).collect();
    let listeners = Listeners::to(&ports);
    let took = window(process.id(), calls).await;
    let heard = heard(listeners.hang_up().await, calls);
    process.kill().expect("it runs");
    process.wait().expect("it ends");
    Took { cpu_s_per_call_minute: took, heard }
}

/// What the box took, and how long each numbered packet of one caller was on its way (ms).
async fn box_of(calls: usize) -> (Took, Vec<f64>) {
    let service = Service::start(SPEAKS).await;
    let (boxed, _folder) = box_for(&service.url(), "turn_detection = 'server_vad'").await;
    let telephone = Telephone::dial(boxed.sip, "600123456").await;
    let listeners = Listeners::dial(boxed.sip, calls - 1).await;
    let from_us = now_us() + SETTLE.as_micros() as u64;
    let took = window(boxed.id(), calls).await;
    let loud = telephone.came().iter().filter(|came| came.loud).count() as u64;
    let went = telephone.went();
    telephone.hang_up().await;
    let heard = heard(loud + listeners.hang_up().await, calls);
    let delays = service.noted().into_iter().filter_map(|noted| match noted.what {
        What::Heard { number } if noted.at_us > from_us => {
            went.get(number as usize).map(|went_us| noted.at_us.saturating_sub(*went_us) as f64 / 1_000.0)
        }
        _ => None,
    });
    (Took { cpu_s_per_call_minute: took, heard }, delays.collect())
}

async fn window(process: u32, calls: usize) -> f64 {
    tokio::time::sleep(SETTLE).await;
    let (before_s, begun_us) = (cpu_s(process), now_us());
    tokio::time::sleep(WINDOW).await;
    let minutes = (now_us() - begun_us) as f64 / 60e6;
    (cpu_s(process) - before_s) / (minutes * calls as f64)
}

/// Loud packets, as a share of those that so many callers should have had.
fn heard(loud: u64, calls: usize) -> f64 {
    loud as f64 / ((SETTLE + WINDOW).as_millis() as usize / 20 * calls) as f64
}
