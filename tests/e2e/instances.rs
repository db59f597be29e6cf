//! A second instance beside the first: what it may do, and what it is told.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use recado::demo::command;

use super::stage::{PROGRAM, settings, starts};

const DIALOGUE: &str = "[otherwise]\nsay = { en = \"Go ahead.\" }\n";

/// A configuration of its own.
fn configuration(folder: &Path) -> std::path::PathBuf {
    std::fs::create_dir_all(folder).expect("a folder");
    let file = folder.join("recado.toml");
    std::fs::write(&file, settings(folder, "")).expect("written");
    std::fs::write(folder.join("dialogue.toml"), DIALOGUE).expect("written");
    file
}

/// What is said by a box that must not start.
fn refused(config: &Path, flags: &[&str]) -> String {
    let Output { status, stderr, .. } = command(PROGRAM.as_ref(), config).args(flags).output().expect("it runs");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(1), "{said}");
    said
}

/// What is said by a box that can't take calls yet, and waits until it can.
fn waits(config: &Path) -> String {
    let mut child = command(PROGRAM.as_ref(), config).stderr(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
    let said = lines.map_while(Result::ok).find(|line| line.contains("calls are refused"));
    child.kill().and_then(|()| child.wait()).expect("ended");
    said.expect("it says why")
}

/// What `recado pending` shows.
pub fn shown_as_pending(config: &Path) -> String {
    let Output { status, stdout, stderr } = Command::new(PROGRAM).args(["pending", "-c"]).arg(config).output().expect("it runs");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_instance_is_told_which_port_or_store_is_taken_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (configuration(&folder.path().join("first")), configuration(&folder.path().join("second")));
    let boxed = starts(&first).await;
    let (sip, http) = (boxed.sip, boxed.http);

    let said = refused(&second, &["--set", &format!("sip.listen={sip}")]);
    assert!(said.contains(&format!("UDP {sip} is taken by another program")) && said.contains("set another SIP port"), "{said}");
    let said = refused(&second, &["--set", &format!("http.listen={http}")]);
    assert!(said.contains(&format!("{http} is taken by another process: end it, or write another port in [http] listen")), "{said}");
    // A store that is taken may be free in a moment: it is waited for, and calls are refused meanwhile.
    let said = waits(&first);
    let store = folder.path().join("first").join("data").join(recado::config::STORE_FILE);
    assert!(said.contains(&format!("{} is in use by process", store.display())) && said.contains("stop that instance"), "{said}");

    // The first one has noticed nothing, and the second one runs on what is its own.
    assert_eq!(boxed.health().await.expect("health")["status"], "ok");
    assert!(starts(&second).await.stops().await.expect("stopped").success());
    assert!(boxed.stops().await.expect("stopped").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_box_can_be_asked_what_is_pending() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = configuration(folder.path());
    let boxed = starts(&config).await;
    assert!(shown_as_pending(&config).ends_with("Nothing waits and nothing runs.\n"), "{}", shown_as_pending(&config));
    assert!(boxed.stops().await.expect("stopped").success());
}
