//! SIPp as a crowd of callers against `recado run`, on a clean line and on one that loses every seventh datagram.
//!
//! SIPp sends no RTP and refuses ours (ICMP): neither may end a call before its time.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use recado::demo::BoxProcess;
use tokio::process::Command;

use super::stage::{is_there, settings, starts};

const DIALOGUE: &str = "[greeting]\nsay = { en = \"Hello.\" }\n[otherwise]\nsay = { en = \"Go ahead.\" }\n";

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_calls_at_twenty_a_second_leave_an_idle_box() {
    flood(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_calls_on_a_line_that_loses_every_seventh_datagram_leave_an_idle_box() {
    flood(&["-lost", "15"]).await;
}

async fn flood(arguments: &[&str]) {
    if !is_there("sipp", "-v") {
        println!("skipped: sipp (Debian: sip-tester) is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("recado.toml");
    std::fs::write(&config, settings(folder.path(), "calls_max = 250\nrtp_silence_ms = 5000\n")).expect("written");
    std::fs::write(folder.path().join("dialogue.toml"), DIALOGUE).expect("written");
    let boxed = starts(&config).await;
    crowd(&boxed, folder.path(), 20, arguments).await;
    boxed.is_idle().await.expect("idle");
    let warm = boxed.resident_kib().expect("it runs");

    crowd(&boxed, folder.path(), 200, arguments).await;
    boxed.is_idle().await.expect("idle");
    let grown = boxed.resident_kib().expect("it runs").saturating_sub(warm);
    println!("{warm} KiB, and {grown} KiB more after 200 calls");
    assert!(grown < GROWTH_KIB_MAX, "{grown} KiB more than the {warm} KiB after the first 20 calls");
    assert_eq!(boxed.health().await.expect("health")["status"], "ok");
    assert!(boxed.stops().await.expect("stopped").success());
}

/// So many calls, none of which may fail.
async fn crowd(boxed: &BoxProcess, folder: &Path, calls: u32, arguments: &[&str]) {
    let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    static CROWDS: AtomicU16 = AtomicU16::new(0);
    let media_port = MEDIA_FIRST + CROWDS.fetch_add(1, Ordering::Relaxed) * MEDIA_PORTS;
    let mut sipp = Command::new("sipp");
    sipp.arg(boxed.sip.to_string()).args(["-sn", "uac", "-r", "20", "-m", &calls.to_string(), "-d", "500"]);
    sipp.args([
        "-i",
        "127.0.0.1",
        "-p",
        &free.port().to_string(),
        "-mp",
        &media_port.to_string(),
        "-nostdin",
        "-timeout",
        "60",
        "-timeout_error",
    ]);
    sipp.args(arguments).current_dir(folder).env("TERM", "dumb").kill_on_drop(true);
    let output = tokio::time::timeout(CROWD_MAX, sipp.output()).await.expect("sipp ends").expect("sipp runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Ports that SIPp takes for media, and does not use; apart from those of the other telephones.
const MEDIA_FIRST: u16 = 31_500;
const MEDIA_PORTS: u16 = 10;

/// SIPp's own limit is sooner.
const CROWD_MAX: Duration = Duration::from_secs(90);

/// A call's buffers take about 60 KiB: a tenth of the calls' would be a leak. The allocator keeps some of what it gave back.
const GROWTH_KIB_MAX: u64 = 16 * 1024;
