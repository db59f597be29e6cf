//! What the box leans on breaks: tools, the speech engine, the disk.

use std::time::Duration;

use recado::demo::Asked;
use recado_core::ledger::{DeliveryState, OperationState};

use crate::box_process::{BoxProcess, command};
use crate::disk::Disk;
use crate::http_peers::{SUCCEEDED, bad_service, report};
use crate::phone::{ACCEPTED, DONE, FAILED, Phone, UNKNOWN, WORDS};
use crate::stage::{Stage, patiently, tool};

#[test]
fn each_broken_answer_of_a_tool_ends_in_one_truthful_closing() {
    let broken = ["not_json", "huge", "drip", "five_hundred", "hang_up", "never"];
    let stage = Stage::set(&[]);
    let limits = "timeout_ms = 1000\ndeadline_ms = 4000\nretry = { attempts_max = 2, backoff_ms = 100, backoff_ms_max = 100 }\n";
    let mut names: Vec<&str> = broken.to_vec();
    let service = bad_service();
    for name in broken {
        stage.configures(&tool(name, &format!("http://{service}/{name}"), limits));
    }
    // Nobody listens there.
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr()).expect("a port");
    stage.configures(&tool("refused", &format!("http://{free}/"), limits));
    stage.configures(&tool("no_tls", &format!("https://{service}/no_tls"), limits));
    names.extend(["refused", "no_tls"]);
    let boxed = {
        let calls: Vec<String> = names.iter().map(|name| format!("{{ tool = {name:?} }}")).collect();
        stage.writes(
            "dialogue.toml",
            &format!("[greeting]\nsay.en = \"Hello.\"\ncall = [{}]\n[otherwise]\nsay.en = \"Yes?\"\n", calls.join(", ")),
        );
        stage.box_runs()
    };
    let phone = Phone::dial(boxed.sip, "ana");
    phone.hears(WORDS, 1);
    let settled = |state: OperationState| matches!(state, OperationState::Failed | OperationState::Unknown | OperationState::Succeeded);
    patiently("all operations to end", || stage.history().operations.iter().all(|operation| settled(operation.state)).then_some(()));
    for operation in stage.history().operations {
        // Not idempotent: where the request may have been carried out, nobody knows.
        let certain = ["refused", "no_tls"].contains(&operation.tool.as_str());
        let expected = if certain { OperationState::Failed } else { OperationState::Unknown };
        println!("{}: {:?} after {} attempts", operation.tool, operation.state, operation.attempt);
        assert_eq!(operation.state, expected, "{}", operation.tool);
    }
    patiently("the closing to be spoken", || (stage.history().deliveries.first()?.state == DeliveryState::Spoken).then_some(()));
    let heard = phone.hang_up();
    println!("known {} failed {} unknown {}", heard.whole(DONE), heard.whole(FAILED), heard.whole(UNKNOWN));
    assert!(heard.whole(DONE) == 0 && heard.whole(UNKNOWN) + heard.whole(FAILED) > 0);
}

#[test]
fn without_a_speech_engine_the_box_answers_works_and_keeps_what_it_owes() {
    let stage = Stage::set(&["job"]);
    stage.writes("prompt.wav", "");
    std::fs::copy(stage.path("words.wav"), stage.path("prompt.wav")).expect("copied");
    stage.writes(
        "dialogue.toml",
        "[prompts.hello]\nfile = \"prompt.wav\"\ntext = \"Hello.\"\n[greeting]\nsay = { prompt = \"hello\" }\ncall = { tool = \"job\" }\n[otherwise]\nsay = { prompt = \"hello\" }\n",
    );
    let engine = std::fs::read(stage.path("engine")).expect("read");
    // To whom starts it, a script without its shell is a program that is not there.
    stage.writes("engine", "#!/no/such/shell\n");
    let boxed = stage.box_runs();
    let phone = Phone::dial(boxed.sip, "ana");
    phone.hears(WORDS, 1);
    let health = boxed.is("degraded");
    assert!(health["problems"][0].as_str().is_some_and(|problem| problem.starts_with("speech: ")), "{health}");
    assert_eq!(report(&stage.asked("job", 1), SUCCEEDED), 200);
    patiently("the closing", || stage.history().deliveries.first().map(|_| ()));
    let (lines, used) = (boxed.said("").len(), boxed.used());
    std::thread::sleep(Duration::from_secs(3));
    let (more, used) = (boxed.said("").len() - lines, boxed.used() - used);
    println!("in 3 s with a closing that can't be said: {more} lines, {used:?} of processor time");
    assert!(more < 60 && used < Duration::from_millis(1_500), "a tight loop: {:?}", boxed.said("").last());
    phone.hang_up();
    boxed.says("call settled");
    let state = stage.history().deliveries[0].state;
    assert_eq!(state, DeliveryState::Ready);

    // Installed, it is used, and health says so.
    std::fs::write(stage.path("engine"), engine).expect("written");
    let phone = Phone::dial(boxed.sip, "ana");
    phone.hears(DONE, 1);
    boxed.is("ok");
    phone.hang_up();
}

#[test]
fn a_voice_that_the_engine_lacks_is_said_to_be_missing_and_callers_hear_the_languages_own() {
    let stage = Stage::set(&["job"]);
    let engine = std::fs::read_to_string(stage.path("engine")).expect("read");
    let lacks = "case \"$*\" in *nobodys*) echo 'Error: The specified espeak-ng voice does not exist.' >&2; exit 1;; esac";
    stage.engine(&format!("{lacks}\n{engine}"));
    stage.configures("\n[speech.voices]\nen = \"nobodys\"\n");
    let boxed = stage.box_runs();
    // Before anybody calls.
    let health = boxed.is("degraded");
    let said = health["problems"][0].as_str().unwrap_or_default();
    assert!(said.starts_with("voices: ") && said.contains("has no voice \"nobodys\""), "{health}");
    let phone = Phone::dial(boxed.sip, "ana");
    assert_eq!(report(&stage.asked("job", 1), SUCCEEDED), 200);
    phone.hears(DONE, 1);
    phone.hang_up();
    assert_eq!(boxed.is("degraded")["problems"], health["problems"], "that the language's own works mends nothing");
}

#[test]
fn a_speech_engine_that_hangs_or_fails_holds_up_neither_start_nor_stop_nor_other_calls() {
    let stage = Stage::set(&["job"]);
    stage.writes("hang", "");
    let boxed = stage.box_runs();
    let phone = Phone::dial(boxed.sip, "ana");
    let asked = stage.asked("job", 1);
    boxed.is("degraded");
    std::fs::remove_file(stage.path("hang")).expect("removed");
    stage.writes("fail", "");
    let speeches = || std::fs::read(stage.path("asked")).map_or(0, |lines| lines.len());
    let before = speeches();
    assert_eq!(report(&asked, SUCCEEDED), 200);
    patiently("the engine to be asked, and to fail", || (speeches() > before).then_some(()));
    std::fs::remove_file(stage.path("fail")).expect("removed");
    let other = Phone::dial(boxed.sip, "bob");
    other.hears(WORDS, 1);
    other.hang_up();
    drop(phone);
    stage.writes("hang", "");
    let phone = Phone::dial(boxed.sip, "eve");
    let (status, took) = {
        let hung_up = std::thread::spawn(move || phone.is_hung_up());
        let stopped = boxed.stops();
        hung_up.join().expect("ended");
        stopped
    };
    assert!(status.success() && took < Duration::from_secs(8), "{status} after {took:?}");
    // None of its processes outlives it.
    let hung = std::fs::read_to_string(stage.path("hung")).unwrap_or_default();
    for pid in hung.lines() {
        let is_gone = || !std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep");
        patiently("the engine's process to end", || is_gone().then_some(()));
    }
}

#[test]
fn a_box_told_to_stop_while_it_starts_rings_or_speaks_stops_at_once_and_well() {
    let stage = Stage::set(&["job"]);
    stage.writes("hang", "");
    let (status, took) = stage.box_runs().stops();
    assert!(status.success() && took < Duration::from_secs(4), "while it warms up: {status} after {took:?}");
    std::fs::remove_file(stage.path("hang")).expect("removed");

    stage.changes("[http]", "ring_ms = 20000\n[http]");
    let boxed = stage.box_runs();
    let sip = boxed.sip;
    let rings = std::thread::spawn(move || Phone::try_dial(sip, "ana").err());
    boxed.says("call comes in");
    let (status, took) = boxed.stops();
    assert!(status.success() && took < Duration::from_secs(5), "while it rings: {status} after {took:?}");
    assert!(rings.join().expect("ended").is_some_and(|status| status >= 480), "the caller is told");

    stage.changes("ring_ms = 20000\n", "");
    let boxed = stage.box_runs();
    let phone = Phone::dial(boxed.sip, "ana");
    patiently("the greeting to begin", || phone.heard().frames.contains(&WORDS).then_some(()));
    let hung_up = std::thread::spawn(move || phone.is_hung_up());
    let (status, took) = boxed.stops();
    hung_up.join().expect("ended");
    assert!(status.success() && took < Duration::from_secs(7), "while it speaks: {status} after {took:?}");
}

/// A box on a small disk that has become full while a job runs for the caller, who is on the line. None where mounting is not permitted.
fn on_a_full_disk(stage: &Stage) -> Option<(Disk, BoxProcess, Phone, Asked)> {
    let disk = Disk::mount(&stage.path("small"), "16m")?;
    stage.changes("/data\"", "/small/data\"");
    stage.writes(
        "dialogue.toml",
        "[greeting]\nsay.en = \"Hello.\"\ncall = { tool = \"job\" }\n[digit.1]\ncall = { tool = \"other\" }\n[otherwise]\nsay.en = \"Yes?\"\n",
    );
    stage.configures(&tool("other", &format!("http://{}/other", stage.tools.address), ""));
    let boxed = stage.box_runs();
    let phone = Phone::dial(boxed.sip, "ana");
    phone.hears(ACCEPTED, 1);
    let asked = stage.asked("job", 1);
    disk.fill();
    // New work is refused, aloud, and what there is of the disk goes to what was promised.
    patiently("the disk's end to be felt", || {
        disk.fill();
        phone.presses(1);
        std::thread::sleep(Duration::from_millis(200));
        (boxed.health()["status"] == "refusing").then_some(())
    });
    Some((disk, boxed, phone, asked))
}

#[test]
fn a_full_disk_is_told_truthfully_and_is_over_when_there_is_space() {
    let stage = Stage::set(&["job"]);
    let Some((disk, boxed, phone, asked)) = on_a_full_disk(&stage) else { return };
    let health = boxed.is("refusing");
    println!("{health}");
    // This call goes on; a new one is told to try again.
    patiently("a new call to be refused", || (Phone::try_dial(boxed.sip, "bob").err() == Some(503)).then_some(()));
    phone.hears(FAILED, 1);
    // Whatever fills the disk goes on to do so.
    disk.fill();
    let during = report(&asked, SUCCEEDED);
    println!("a callback with a full disk: {during}");
    assert_eq!(during, 200, "what was promised is recorded on a full disk");
    let frames = phone.heard().frames.len();
    patiently("the call to go on", || (phone.heard().frames.len() > frames + 25).then_some(()));
    let lines = boxed.said("").len();
    std::thread::sleep(Duration::from_secs(2));
    println!("{} lines in 2 s of a full disk; {} in all", boxed.said("").len() - lines, lines);
    assert!(boxed.said("").len() - lines < 60, "{:?}", boxed.said("").last());
    disk.empty();
    patiently("callbacks to work again", || (report(&asked, SUCCEEDED) == 200).then_some(()));
    phone.hears(DONE, 1);
    patiently("the reserve to be back", || (boxed.health()["status"] == "ok").then_some(()));
    phone.hang_up();
    patiently("calls to be taken again", || Phone::try_dial(boxed.sip, "bob").ok()).hang_up();
}

#[test]
fn a_box_that_is_killed_on_a_full_disk_takes_no_new_work_when_it_is_started_and_still_records_what_was_promised() {
    let stage = Stage::set(&["job"]);
    let Some((disk, boxed, _phone, asked)) = on_a_full_disk(&stage) else { return };
    boxed.kill();
    let boxed = stage.box_runs();
    let health = boxed.health();
    assert!(health["status"] == "refusing" && health["problems"].to_string().contains("the disk is full"), "{health}");
    assert_eq!(Phone::try_dial(boxed.sip, "bob").err(), Some(503));
    let asked = Asked { url: format!("http://{}/v1/operations/{}/result", boxed.http, asked.operation), ..asked };
    assert_eq!(report(&asked, SUCCEEDED), 200, "what was promised is recorded on a full disk");
    disk.empty();
    patiently("calls to be taken again", || Phone::try_dial(boxed.sip, "ana").ok()).hears(DONE, 1);
    boxed.is("ok");
}

#[test]
fn a_port_that_is_taken_starts_no_work() {
    let stage = Stage::set(&["job"]);
    let boxed = stage.box_runs();
    let phone = Phone::dial(boxed.sip, "ana");
    stage.asked("job", 1);
    drop(phone);
    boxed.kill();
    let bound = || std::net::UdpSocket::bind(("127.0.0.1", 0)).expect("a port");
    // Not one of those that the stage gives to media: that is refused before.
    let below_media = |holder: &std::net::UdpSocket| holder.local_addr().is_ok_and(|address| address.port() < 48_000);
    let holder = std::iter::repeat_with(bound).find(below_media).expect("a port");
    let taken = format!("listen = \"{}\"\n[http]", holder.local_addr().expect("an address"));
    stage.changes("listen = \"127.0.0.1:0\"\n[http]", &taken);
    for _ in 0..3 {
        let output = command(&stage.config()).output().expect("it ran");
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("another program"), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(stage.tools.all()[0].requests, 1, "a box that can't run asked for work again");
}
