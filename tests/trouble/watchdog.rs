//! The service manager's watchdog: fed while the box makes progress, and told when a part of it hangs.

use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use recado::demo::{command, health};

use crate::hang::hangs;
use crate::story::{Stage, program};

#[tokio::test(flavor = "multi_thread")]
async fn the_watchdog_is_fed_until_the_media_thread_hangs_and_then_the_box_is_to_be_started_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let stage = Stage::set(folder.path().join("box")).await;
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(40))).expect("set");
    let told = || {
        let mut buffer = [0; 256];
        let length = manager.recv(&mut buffer).expect("the box tells something");
        String::from_utf8_lossy(&buffer[..length]).trim().to_owned()
    };
    let mut service = command(program(), &stage.config());
    service.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "600000").stderr(Stdio::null());
    let mut boxed = service.spawn().expect("the box starts");
    // It is fed while the store is opened, too, and the service manager is asked for time.
    let is_of_opening = |told: &String| told == "WATCHDOG=1" || told.starts_with("EXTEND_TIMEOUT_USEC=");
    let ready = std::iter::repeat_with(told).find(|told| !is_of_opening(told));
    assert_eq!(ready.as_deref(), Some("READY=1\nSTATUS=taking calls"));
    let first: Vec<String> = (0..3).map(|_| told()).collect();
    assert_eq!(first, ["WATCHDOG=1"; 3]);

    let tracer = hangs(boxed.id(), "recado-media");
    if tracer.is_some() {
        let last = std::iter::repeat_with(told).find(|told| told != "WATCHDOG=1");
        assert_eq!(last.as_deref(), Some("WATCHDOG=trigger"));
        let says = health(stage.http).await.expect("health is served");
        assert!(says["problems"][0].as_str().is_some_and(|problem| problem.starts_with("media: no progress for ")), "{says}");
    }
    boxed
        .kill()
        .and_then(|()| tracer.map_or(Ok(()), |tracer| tracer.join().map_err(|_| std::io::Error::other("the tracer"))))
        .expect("killed");
    boxed.wait().expect("ended");
}
