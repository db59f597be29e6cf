//! The keeper: what it writes, and where it stops.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use recado::admin::{HealthState, Status};
use recado::telemetry::Measures;
use recado::traces::{Keeper, Kept, Library, Traced, Traces, show};
use recado_core::conversation::{Channel, Content, Conversation, Evidence, Input, ModelEvent, Settings};
use recado_core::ids::{BootId, ResponseId, SessionId};
use recado_core::ledger::{self, Ledger, Snapshot};
use recado_core::policy::Language;
use recado_core::time::{Step, Time, Wall};
use recado_trace::read::Ends;
use recado_trace::redact::Key;
use recado_trace::subject::{ConversationStart, LedgerStart};
use recado_trace::{Mode, Redactor};

/// A box's traces, in a folder of their own.
struct Room {
    folder: tempfile::TempDir,
    keeper: Keeper,
    traces: Traces,
    measures: Measures,
    health: HealthState,
    now: u64,
}

impl Room {
    fn with(change: impl FnOnce(&mut Kept)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("traces");
        let mut kept = Kept { directory, mode: Mode::Redacted, files_max: 100, bytes_max: 64 << 20, file_bytes_max: 4 << 20 };
        change(&mut kept);
        let (measures, health) = (Measures::new().unwrap(), HealthState::new(Instant::now()));
        let redactor = Redactor::of(Key::derive(&[9; 32]), []);
        let (keeper, traces) = Keeper::start(kept, BootId(1), redactor, measures.clone(), health.clone()).unwrap();
        Self { folder, keeper, traces, measures, health, now: 0 }
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join("traces")
    }

    fn step(&mut self) -> Step {
        self.now += 10;
        step_at(self.now)
    }

    fn call(&mut self, session: u128) -> Traced<Conversation> {
        let (session, language) = (SessionId(session), Language::Es);
        let channel = Channel { session, party: None, language, best: Evidence::Received, far_buffer_ms: 120 };
        let start = ConversationStart { settings: Settings::default(), channel };
        let traces = self.traces.clone();
        Traced::begin(&traces, &session.to_string(), &mut self.step(), start).0
    }

    /// A call from its beginning to its end, in which so many inputs change nothing.
    fn whole_call(&mut self, session: u128, wakes: usize) {
        let mut call = self.call(session);
        for _ in 0..wakes {
            call.handle(&mut self.step(), Input::Wake);
        }
        call.handle(&mut self.step(), Input::ChannelOver);
        self.now += 1_000;
        call.handle(&mut self.step(), Input::Wake);
        assert!(call.finished());
        call.end();
    }

    /// Everything is written. What is in the folder stays until the folder is dropped.
    fn close(self) -> (tempfile::TempDir, String) {
        let Self { folder, keeper, traces, measures, .. } = self;
        drop(traces);
        keeper.join();
        (folder, measures.render())
    }
}

fn step_at(now: u64) -> Step {
    Step::new(Time(now), Wall { unix_ms: 1_700_000_000_000, synchronised: true }, u128::from(now) << 64)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder.join("traces")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn count(measures: &str, name: &str) -> u64 {
    let line = measures.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap_or_else(|| panic!("no {name}"));
    line.parse().unwrap()
}

#[test]
fn a_call_leaves_a_whole_trace_that_only_the_box_may_read() {
    let mut room = Room::with(|_| {});
    room.whole_call(1, 3);
    let (folder, measures) = room.close();
    let [file] = &files(folder.path())[..] else { panic!("one trace") };
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder.path().join("traces")), mode(file)), (0o700, 0o600));
    let replayed = show::replay_files(std::slice::from_ref(file));
    assert!(replayed.same && replayed.text.ends_with("decides the same about 6 inputs.\n"), "{replayed:?}");
    assert_eq!((count(&measures, "recado_traces_total"), count(&measures, "recado_trace_inputs_missed_total")), (1, 0));
}

#[test]
fn a_trace_that_is_long_enough_keeps_its_beginning_and_says_that_it_was_cut() {
    let mut room = Room::with(|kept| kept.file_bytes_max = 2_000);
    room.whole_call(1, 500);
    let (folder, measures) = room.close();
    let [file] = &files(folder.path())[..] else { panic!("one trace") };
    assert!(std::fs::metadata(file).unwrap().len() < 4_000);
    let replayed = show::replay_files(std::slice::from_ref(file));
    assert!(replayed.same && replayed.text.contains("it had become as long as it may be"), "{replayed:?}");
    assert_eq!(count(&measures, "recado_traces_truncated_total"), 1);
}

#[test]
fn the_oldest_make_room_and_what_is_being_written_stays() {
    let mut room = Room::with(|kept| kept.files_max = 3);
    let mut up = room.call(1);
    for session in 2..9 {
        room.whole_call(session, 0);
    }
    let sessions = || -> Vec<u128> {
        let library = Library::open(&room.directory()).unwrap();
        library.conversations().map(|(_, session)| session.0).collect()
    };
    waits_for(|| sessions() == [1, 7, 8]);
    up.handle(&mut step_at(99_000), Input::Wake);
    drop(up);
    room.close();
}

#[test]
fn numbers_go_on_after_a_restart_whatever_the_clock_says() {
    let mut room = Room::with(|_| {});
    room.whole_call(1, 0);
    let (folder, _) = room.close();
    let directory = folder.path().join("traces");
    let mut again = Room::with(|kept| kept.directory = directory.clone());
    again.whole_call(2, 0);
    let (_, _) = again.close();
    let library = Library::open(&directory).unwrap();
    assert_eq!(library.last().unwrap().channel.as_ref().unwrap().session, SessionId(2));
}

#[test]
fn the_ledgers_trace_goes_on_in_further_files_which_are_replayed_together() {
    let mut room = Room::with(|kept| (kept.file_bytes_max, kept.files_max) = (3_000, 1_000));
    let traces = room.traces.clone();
    let start = LedgerStart { boot: BootId(1), policies: Default::default(), snapshot: Snapshot::default() };
    let (mut ledger, _) = Traced::<Ledger>::begin(&traces, &BootId(1).to_string(), &mut room.step(), start);
    drop(traces);
    for session in 0..60 {
        let (session, language) = (SessionId(session), Language::Es);
        ledger.handle(&mut room.step(), ledger::Input::SessionUp { session, party: None, language });
        ledger.handle(&mut room.step(), ledger::Input::SessionOver { session });
    }
    ledger.end();
    drop(ledger);
    let (folder, _) = room.close();
    let files = files(folder.path());
    assert!(files.len() > 2, "{files:?}");
    let replayed = show::replay_files(&files);
    assert!(replayed.same && replayed.errors.is_empty() && replayed.text.ends_with("decides the same about 121 inputs.\n"), "{replayed:?}");
    let without_beginning = show::replay_files(&files[1..]);
    assert!(without_beginning.errors[0].to_string().contains("part 1 of a ledger's trace: give part 0 with it"), "{without_beginning:?}");
    let whole = Library::open(&folder.path().join("traces")).unwrap().ledger(BootId(1)).unwrap();
    assert_eq!((whole.entries.len(), whole.ends), (120, Ends::Whole));
}

#[test]
fn what_finds_no_room_in_the_queue_is_counted_and_the_trace_says_so() {
    let mut room = Room::with(|_| {});
    let mut call = room.call(1);
    let content = Content::Text { text: "a".repeat(9 << 20), language: Language::Es };
    call.handle(&mut room.step(), Input::Model(ModelEvent::Clause { response: ResponseId(1), content }));
    call.handle(&mut room.step(), Input::Wake);
    drop(call);
    let (folder, measures) = room.close();
    assert_eq!(count(&measures, "recado_trace_inputs_missed_total"), 1);
    let replayed = show::replay_files(&files(folder.path()));
    assert!(replayed.same && replayed.text.contains("about 1 inputs, up to where 1 are missing"), "{replayed:?}");
}

#[test]
fn a_disk_that_fails_is_seen_in_health_and_keeps_nobody_from_talking() {
    let mut room = Room::with(|_| {});
    std::fs::remove_dir_all(room.directory()).unwrap();
    room.whole_call(1, 0);
    waits_for(|| room.health.report(Instant::now()).status == Status::Degraded);
    let problems = room.health.report(Instant::now()).problems;
    assert!(problems[0].starts_with("traces: ") && problems[0].contains("can't be written"), "{problems:?}");
    std::fs::create_dir(room.directory()).unwrap();
    room.whole_call(2, 0);
    waits_for(|| room.health.report(Instant::now()).status == Status::Ok);
    let (folder, _) = room.close();
    assert_eq!(files(folder.path()).len(), 1);
}

fn waits_for(condition: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < until, "it does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}
