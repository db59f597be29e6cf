//! A store that can't be used: the box refuses calls, says why, and takes them as soon as it can. It never ends for it.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use recado::config::STORE_FILE;
use recado::coordination::{BackupError, Options, Store, backups, lost_stores, make_backup};
use recado_core::conversation::input::Evidence;
use recado_core::ids::BootId;
use recado_core::ledger::{BatchRecord, BatchState, CommitId, DeliveryRecord, DeliveryState, OperationState, Write};
use recado_core::time::Wall;
use rusqlite::Connection;

use crate::box_process::command;
use crate::disk::Disk;
use crate::http_peers::{SUCCEEDED, report};
use crate::phone::{ACCEPTED, DONE, FAILED, Phone, UNKNOWN, WORDS, transact};
use crate::stage::{Stage, patiently};

#[allow(dead_code)]
#[path = "../store/fixtures.rs"]
mod fixtures;

/// A box whose ports are known before it has said anything.
struct Refusing {
    child: Child,
    sip: SocketAddr,
    http: SocketAddr,
    manager: UnixDatagram,
}

impl Refusing {
    fn start(stage: &Stage) -> Self {
        let udp = UdpSocket::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr()).expect("a port");
        let tcp = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr()).expect("a port");
        let socket = stage.path(&format!("notify-{}", udp.port()));
        let manager = UnixDatagram::bind(&socket).expect("a socket");
        manager.set_read_timeout(Some(TOLD_WITHIN)).expect("set");
        let mut box_command = command(&stage.config());
        box_command.args(["--set", &format!("sip.listen={udp}"), "--set", &format!("http.listen={tcp}")]);
        // The stage's own are among those that the system has given.
        box_command.args(["--set", "media.ports=20000-20199"]);
        let child = box_command.env("NOTIFY_SOCKET", &socket).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        Self { child, sip: udp, http: tcp, manager }
    }

    fn health(&self) -> Option<serde_json::Value> {
        let answer = get(self.http, "GET", "/health")?;
        serde_json::from_str(answer.split("\r\n\r\n").nth(1)?).ok()
    }

    /// Refuses calls, probes and callbacks, and says why, to people and to the service manager.
    fn refuses(&self, what: &str, because: &str) {
        let health = patiently(&format!("{what}: the box to refuse"), || self.health().filter(|health| health["status"] == "refusing"));
        let problem = health["problems"][0].as_str().unwrap_or_default();
        println!("{what}: {problem}");
        assert!(problem.starts_with("store: ") && problem.contains(because), "{what}: {health}");
        self.refuses_calls(what, because);
        let callback = get(self.http, "POST", "/v1/operations/op_1/result").unwrap_or_default().to_lowercase();
        assert!(callback.starts_with("http/1.1 503") && callback.contains("retry-after"), "{what}: {callback}");
    }

    /// Refuses calls and probes, and says so from the beginning.
    fn refuses_calls(&self, what: &str, because: &str) {
        assert!(get(self.http, "GET", "/health").is_some_and(|answer| answer.starts_with("HTTP/1.1 503")), "{what}");
        assert_eq!(Phone::try_dial(self.sip, "ana").err(), Some(503), "{what}");
        let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
        socket.connect(self.sip).expect("connected");
        let local = socket.local_addr().expect("an address");
        let options = format!(
            "OPTIONS sip:recado@{to} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK1\r\nMax-Forwards: 70\r\nFrom: <sip:a@{local}>;tag=1\r\n\
             To: <sip:recado@{to}>\r\nCall-ID: {local}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n",
            to = self.sip
        );
        let answer = transact(&socket, &options, "OPTIONS").expect("an answer");
        assert!(answer.starts_with("SIP/2.0 503") && answer.contains("Retry-After: 30"), "{what}: {answer}");
        let told = self.told("STATUS=refusing calls");
        assert!(told.contains("READY=1") && told.contains(because), "{what}: {told}");
    }

    /// What the service manager was told that contains `text`.
    fn told(&self, text: &str) -> String {
        let mut buffer = [0; 2_048];
        loop {
            let length = self.manager.recv(&mut buffer).unwrap_or_else(|error| panic!("not told {text}: {error}"));
            let told = String::from_utf8_lossy(&buffer[..length]).trim().to_owned();
            if told.contains(text) {
                return told;
            }
        }
    }

    /// It takes calls by itself, in the same process, once the cause has gone.
    fn recovers(mut self, what: &str) {
        self.told("STATUS=taking calls");
        patiently(&format!("{what}: the box to be well"), || self.health().filter(|health| health["status"] != "refusing"));
        patiently(&format!("{what}: a call to be taken"), || Phone::try_dial(self.sip, "ana").ok()).hang_up();
        assert!(self.child.try_wait().expect("a child").is_none(), "{what}: it has ended");
        self.is_told_to_stop();
        assert!(patiently("its end", || self.child.try_wait().expect("a child")).success(), "{what}");
    }

    fn is_told_to_stop(&self) {
        let told = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
        assert!(told.success());
    }
}

impl Drop for Refusing {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(to: SocketAddr, method: &str, path: &str) -> Option<String> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(to).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: box\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn store_of(stage: &Stage) -> PathBuf {
    std::fs::create_dir_all(stage.path("data")).expect("made");
    stage.path("data").join(STORE_FILE)
}

fn make_store(path: &std::path::Path) {
    let opened = Store::open(path, &Options::new(BootId(1), Wall::default()));
    drop(opened.unwrap_or_else(|error| panic!("{error}")));
}

#[test]
fn a_file_that_is_not_the_boxs_own_is_left_alone_until_it_is_moved_away() {
    let stage = Stage::set(&[]);
    let store = store_of(&stage);
    std::fs::write(&store, "dear diary, ".repeat(200)).expect("written");
    let boxed = Refusing::start(&stage);
    boxed.refuses("not a database", "is not a store of recado");
    assert!(std::fs::read_to_string(&store).is_ok_and(|text| text.starts_with("dear diary")), "it was changed");
    std::fs::remove_file(&store).expect("removed");
    boxed.recovers("not a database");

    std::fs::remove_file(&store).expect("removed");
    let other = Connection::open(&store).expect("a database");
    other.execute_batch("CREATE TABLE theirs (x); PRAGMA application_id = 4711").expect("a table");
    drop(other);
    let boxed = Refusing::start(&stage);
    boxed.refuses("another program's", "is not a store of recado");
    std::fs::remove_file(&store).expect("removed");
    boxed.recovers("another program's");
}

#[test]
fn a_store_of_a_newer_version_is_left_alone_until_an_older_one_takes_its_place() {
    let stage = Stage::set(&[]);
    let store = store_of(&stage);
    make_store(&store);
    let newer = Connection::open(&store).expect("a database");
    newer.pragma_update(None, "user_version", 9_999).expect("a version");
    drop(newer);
    let boxed = Refusing::start(&stage);
    boxed.refuses("a newer version's", "schema 9999");
    assert!(lost_stores(&store).is_empty());
    std::fs::remove_file(&store).expect("removed");
    boxed.recovers("a newer version's");
}

#[test]
fn a_second_box_waits_for_the_first_to_end() {
    let stage = Stage::set(&[]);
    let first = stage.box_runs();
    let second = Refusing::start(&stage);
    second.refuses("a second box", &format!("is in use by process {}", first.id()));
    assert!(first.stops().0.success());
    second.recovers("a second box");
}

#[test]
fn a_missing_directory_is_waited_for() {
    let stage = Stage::set(&[]);
    stage.changes("/data\"", "/not/there/yet\"");
    let boxed = Refusing::start(&stage);
    boxed.refuses("a missing directory", "does not exist: create it");
    std::fs::create_dir_all(stage.path("not/there")).expect("made");
    boxed.recovers("a missing directory");
}

#[test]
fn a_disk_that_can_not_be_written_is_waited_for() {
    let stage = Stage::set(&[]);
    let Some(disk) = Disk::mount(&stage.path("data"), "16m") else { return };
    make_store(&store_of(&stage));
    disk.remount("ro");
    let boxed = Refusing::start(&stage);
    boxed.refuses("a read-only disk", "read-only file system");
    disk.remount("rw");
    boxed.recovers("a read-only disk");
}

#[test]
fn a_disk_that_is_full_before_there_is_a_store_is_waited_for() {
    let stage = Stage::set(&[]);
    let Some(disk) = Disk::mount(&stage.path("data"), "4m") else { return };
    disk.fill();
    let boxed = Refusing::start(&stage);
    boxed.refuses("a full disk", "no space left");
    disk.empty();
    boxed.recovers("a full disk");
}

#[test]
fn a_store_that_is_damaged_while_nobody_looks_is_set_aside_and_what_it_may_have_lost_is_told_as_not_known() {
    is_lost_while_nobody_looks("the store was damaged", "it is set aside", |store| {
        let mut bytes = std::fs::read(store).expect("read");
        bytes[4_096..].fill(0xA5);
        std::fs::write(store, &bytes).expect("written");
        bytes
    });
}

#[test]
fn a_store_that_goes_while_nobody_looks_is_restored_and_what_it_may_have_lost_is_told_as_not_known() {
    is_lost_while_nobody_looks("the store was not there", "the store was not there", |store| {
        std::fs::remove_file(store).expect("removed");
        Vec::new()
    });
}

/// What `loses` leaves of a store is kept; what has been going on is told as not known; and health and the doctor `say` so until somebody has
/// seen to it.
fn is_lost_while_nobody_looks(said: &str, logged: &str, loses: impl Fn(&std::path::Path) -> Vec<u8>) {
    let stage = Stage::set(&["job"]);
    let store = store_of(&stage);
    // Asked for, and running, when the backup is made.
    let boxed = stage.box_runs();
    let phone = Phone::dial(boxed.sip, "ana");
    stage.asked("job", 1);
    phone.hears(WORDS, 1);
    phone.hang_up();
    boxed.says("call settled");
    let made = make_backup(&store, 3);
    assert!(!matches!(made, Err(BackupError::Damaged { .. })) && made.is_ok(), "{made:?}");
    assert!(boxed.stops().0.success());
    let bytes = loses(&store);

    let boxed = stage.box_runs();
    // From the first moment.
    let health = boxed.health();
    println!("{health}");
    assert_eq!(health["status"], "degraded", "{health}");
    assert!(health["problems"][0].as_str().is_some_and(|problem| problem.starts_with(&format!("damage: {said}"))), "{health}");
    assert!(!boxed.said(logged).is_empty());
    doctor_says(&stage, boxed.http, said);
    let aside = lost_stores(&store);
    assert_eq!(std::fs::read(&aside[0]).expect("kept"), bytes);
    assert_eq!(stage.history().operations[0].state, OperationState::Unknown);
    let phone = Phone::dial(boxed.sip, "ana");
    phone.hears(UNKNOWN, 1);
    patiently("it to be told", || (stage.history().deliveries.first()?.state == DeliveryState::Spoken).then_some(()));
    phone.hang_up();
    // Seen to: somebody has moved it away.
    std::fs::remove_file(&aside[0]).expect("removed");
    assert!(boxed.stops().0.success());
    assert!(!backups(&store).is_empty());
    let boxed = stage.box_runs();
    boxed.is("ok");
    let well = doctor(&stage, boxed.http);
    assert!(well.status.success() && String::from_utf8_lossy(&well.stdout).ends_with("All is well.\n"), "{well:?}");
}

#[test]
fn the_doctor_says_what_only_the_running_box_knows() {
    let stage = Stage::set(&[]);
    let in_the_way = store_of(&stage).with_file_name(format!("{STORE_FILE}.backup-new"));
    std::fs::create_dir(&in_the_way).expect("made");
    let boxed = stage.box_runs();
    let health = boxed.is("degraded");
    assert!(health["problems"][0].as_str().is_some_and(|problem| problem.starts_with("backup: ")), "{health}");
    doctor_says(&stage, boxed.http, &format!("The box says: {} can't be written", in_the_way.display()));
}

#[test]
fn the_doctor_foretells_that_a_full_disk_keeps_the_box_from_taking_calls() {
    let stage = Stage::set(&[]);
    let Some(disk) = Disk::mount(&stage.path("data"), "16m") else { return };
    make_store(&store_of(&stage));
    disk.fill();
    let boxed = Refusing::start(&stage);
    boxed.refuses("a full disk", "no space left");
    doctor_says(&stage, boxed.http, "The disk is full: a start refuses calls until there is space");
    disk.empty();
    boxed.recovers("a full disk");
}

#[test]
fn a_box_that_is_killed_on_a_full_disk_refuses_calls_from_the_first_moment_of_the_next_start() {
    let stage = Stage::set(&["job"]);
    let Some(disk) = Disk::mount(&stage.path("data"), "16m") else { return };
    let store = store_of(&stage);
    make_store(&store);
    // What such a kill leaves: its reserve is given up, and there is just enough to open the store.
    std::fs::remove_file(store.with_extension("db.reserve")).expect("there");
    std::fs::write(stage.path("data/room"), vec![0; 768 << 10]).expect("written");
    disk.fill();
    std::fs::remove_file(stage.path("data/room")).expect("there");
    let foretold = "The disk is full: a start refuses calls until there is space";
    doctor_says(&stage, SocketAddr::from(([127, 0, 0, 1], 1)), foretold);
    let boxed = Refusing::start(&stage);
    // The first that it says of itself, and not only what it comes to.
    let first = patiently("the box to be there", || boxed.health());
    assert_eq!(first["status"], "refusing", "{first}");
    assert!(first["problems"].to_string().contains("store: the disk is full: "), "{first}");
    boxed.refuses_calls("a full disk", "the disk is full");
    disk.empty();
    boxed.recovers("a full disk");
}

fn doctor(stage: &Stage, http: SocketAddr) -> std::process::Output {
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_recado"));
    doctor.args(["doctor", "-c"]).arg(stage.config()).args(["--set", &format!("http.listen={http}")]);
    doctor.output().expect("it runs")
}

/// It says that something is wrong, and this.
fn doctor_says(stage: &Stage, http: SocketAddr, what: &str) {
    let said = doctor(stage, http);
    let text = String::from_utf8_lossy(&said.stdout);
    println!("{text}");
    assert_eq!(said.status.code(), Some(3), "{said:?}");
    assert!(text.split_once("\nWrong:\n").is_some_and(|(_, wrong)| wrong.contains(what)), "{text}");
}

#[test]
fn damage_in_the_middle_of_a_call_ends_in_a_store_opened_anew_by_the_same_process() {
    let stage = Stage::set(&["job"]);
    let boxed = meets_damage_in_a_call(&stage);
    boxed.told("STATUS=opening the store anew");
    boxed.recovers("a store that was damaged in a call");
    assert_eq!(lost_stores(&store_of(&stage)).len(), 1);
}

#[test]
fn a_result_that_comes_when_the_file_has_gone_is_taken_by_the_store_that_is_written_again() {
    let stage = Stage::set(&["job"]);
    let boxed = Refusing::start(&stage);
    boxed.told("STATUS=taking calls");
    let phone = Phone::dial(boxed.sip, "ana");
    phone.hears(ACCEPTED, 1);
    let asked = stage.asked("job", 1);
    let store = store_of(&stage);
    std::fs::remove_file(&store).expect("removed");
    assert_eq!(report(&asked, SUCCEEDED), 200);
    assert_eq!(stage.history().operations[0].state, OperationState::Succeeded, "it is not in the store that is found next");
    phone.hears(DONE, 1);
    phone.hang_up();
    assert!(boxed.health().is_some_and(|health| health["status"] != "refusing"));
    assert_eq!(lost_stores(&store), Vec::<PathBuf>::new());
}

#[test]
fn a_result_that_comes_when_the_file_has_gone_and_can_not_be_written_again_is_not_taken_before_it_can() {
    let stage = Stage::set(&["job"]);
    let boxed = Refusing::start(&stage);
    boxed.told("STATUS=taking calls");
    let phone = Phone::dial(boxed.sip, "ana");
    phone.hears(ACCEPTED, 1);
    let asked = stage.asked("job", 1);
    let store = store_of(&stage);
    let in_the_way = store.with_extension("db.restoring");
    std::fs::create_dir(&in_the_way).expect("made");
    std::fs::remove_file(&store).expect("removed");
    assert_eq!(report(&asked, SUCCEEDED), 503, "it would be lost with the file");
    // Known to health before it is to the sender.
    let health = boxed.health().expect("it answers");
    assert_eq!(health["status"], "refusing", "{health}");
    let problem = health["problems"].to_string();
    assert!(problem.contains("was moved or removed") && problem.contains("can't be written again"), "{health}");
    std::fs::remove_dir(&in_the_way).expect("removed");
    patiently("its sender to be heard", || (report(&asked, SUCCEEDED) == 200).then_some(()));
    phone.hang_up();
    boxed.told("STATUS=taking calls");
    assert_eq!(stage.history().operations[0].state, OperationState::Succeeded);
    assert_eq!(lost_stores(&store), Vec::<PathBuf>::new());
    let phone = patiently("a call to be taken", || Phone::try_dial(boxed.sip, "ana").ok());
    phone.hears(DONE, 1);
    phone.hang_up();
}

#[test]
fn a_box_that_is_told_to_stop_while_it_closes_its_store_to_open_it_anew_stops() {
    let stage = Stage::set(&["job"]);
    let mut boxed = meets_damage_in_a_call(&stage);
    // A request that never ends is waited for: the signal comes while the box still closes what it had.
    let mut slow = TcpStream::connect(boxed.http).expect("connected");
    std::io::Write::write_all(&mut slow, b"GET /health HTTP/1.1\r\nHost: ").expect("written");
    boxed.told("STATUS=opening the store anew");
    boxed.is_told_to_stop();
    assert!(patiently("its end", || boxed.child.try_wait().expect("a child")).success());
}

#[test]
fn a_service_manager_is_asked_for_time_while_the_store_is_opened() {
    let stage = Stage::set(&[]);
    make_store(&store_of(&stage));
    let boxed = Refusing::start(&stage);
    let told = std::iter::repeat_with(|| boxed.told("=")).find(|told| told != "WATCHDOG=1");
    assert_eq!(told.as_deref(), Some("EXTEND_TIMEOUT_USEC=60000000"), "before it says that it is ready");
    boxed.recovers("a store that took its time");
}

/// A box whose store is damaged while a call is up, which then ends.
fn meets_damage_in_a_call(stage: &Stage) -> Refusing {
    let store = store_of(stage);
    let (mut filled, _) = Store::open(&store, &Options::new(BootId(1), Wall::default())).expect("opens");
    for chunk in (0..4_000u128).collect::<Vec<_>>().chunks(64) {
        let lives: Vec<_> = chunk.iter().map(|number| (CommitId(0), over(*number))).collect();
        assert!(filled.commit(&lives).iter().all(Result::is_ok));
    }
    drop(filled);
    let boxed = Refusing::start(stage);
    boxed.told("STATUS=taking calls");
    let phone = Phone::dial(boxed.sip, "ana");
    phone.hears(WORDS, 1);
    // Behind the back of the box, which has only some of the pages in memory.
    let looking = Connection::open(&store).expect("a database");
    looking.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("moved into the file");
    let mut bytes = std::fs::read(&store).expect("read");
    for page in bytes.chunks_mut(4_096).skip(1) {
        page[..64].fill(0xA5);
    }
    std::fs::write(&store, &bytes).expect("written");
    drop(looking);
    // Whoever calls asks for work, until a damaged page is met.
    let health = patiently("the damage to be met", || {
        if let Ok(bob) = Phone::try_dial(boxed.sip, "bob") {
            bob.hears_any_of(&[ACCEPTED, FAILED]);
            bob.hang_up();
        }
        boxed.health().filter(|health| health["status"] == "refusing")
    });
    assert!(health["problems"][0].as_str().is_some_and(|problem| problem.contains("damaged")), "{health}");
    let frames = phone.heard().frames.len();
    patiently("the call to go on", || (phone.heard().frames.len() > frames + 25).then_some(()));
    phone.hang_up();
    boxed
}

/// Longer than calls may go on over a store that is to be opened anew.
const TOLD_WITHIN: Duration = Duration::from_secs(90);

/// An operation that is over.
fn over(number: u128) -> Vec<Write> {
    let heard = vec![fixtures::clause(number, Some(Evidence::Received))];
    let spoken = DeliveryRecord { state: DeliveryState::Spoken, clauses: heard, ..fixtures::delivery(number, number) };
    let closed = BatchRecord { state: BatchState::Closed, ..fixtures::batch(number) };
    [fixtures::accepted(number), fixtures::succeeded(number), vec![Write::UpdateDelivery(spoken), Write::UpdateBatch(closed)]].concat()
}
