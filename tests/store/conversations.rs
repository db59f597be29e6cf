//! Whole simulated conversations over the real store: what the simulator's store in memory takes it takes, what that refuses it
//! refuses, and after every commit and every restart both hold the same.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recado::coordination::{Keep, Options, Reader, Recovered, Store};
use recado_core::ids::BootId;
use recado_core::ledger::{CLOSED_OPERATIONS_MAX, CommitId, Snapshot, Write};
use recado_core::time::Wall;
use recado_sim::action::Action;
use recado_sim::script::Script;
use recado_sim::world::World;
use tempfile::TempDir;

use crate::fixtures::{path_in, snapshot, wall};

#[test]
fn whatever_is_said_and_done_both_stores_hold_the_same() {
    let mut commits = 0;
    let mut restarts = 0;
    // A conversation in which nothing is asked for leaves both stores empty, which says nothing.
    for script in (0..).map(Script::of_seed).filter(|script| play(script, None) > 0).take(SEEDS) {
        commits += play(&script, Some(File::new()));
        restarts += script.events.iter().filter(|event| matches!(event.action, Action::Crash { .. })).count();
    }
    println!("{commits} commits and {restarts} restarts in {SEEDS} conversations");
    assert!(commits > 2 * SEEDS as u64 && restarts > 5, "{commits} commits and {restarts} restarts say little");
}

/// Plays it with this store beside the simulator's, and says how many transactions were committed.
fn play(script: &Script, beside: Option<File>) -> u64 {
    let mut world = World::new(&script.parameters);
    if let Some(file) = beside {
        world.rig.store.beside(Box::new(file));
    }
    for event in &script.events {
        world.pass_to(event.at_ms);
        world.act(&event.action);
    }
    world.finish();
    world.rig.store.commits
}

/// The real store, on a file of its own.
struct File {
    path: PathBuf,
    /// None only while the box is dead.
    store: Option<Store>,
    reader: Reader,
    _directory: TempDir,
}

impl File {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = path_in(directory.path());
        let (store, _) = open(&path, 1);
        let reader = Reader::open(&path).unwrap();
        Self { path, store: Some(store), reader, _directory: directory }
    }
}

thread_local! {
    /// What was over before this is removed (ms since the Unix epoch).
    static BEFORE_MS: Cell<i64> = const { Cell::new(0) };
}

fn open(path: &Path, boot: u128) -> (Store, Recovered) {
    let before = || Wall { unix_ms: BEFORE_MS.get(), synchronised: true };
    let options = Options { keep: Some(Keep { age: Duration::ZERO, wall: before }), ..Options::new(BootId(boot), wall(1)) };
    Store::open(path, &options).unwrap_or_else(|error| panic!("{error}"))
}

impl recado_sim::store::Store for File {
    fn apply(&mut self, writes: &[Write]) -> Result<(), String> {
        let store = self.store.as_mut().unwrap();
        store.commit(&[(CommitId(0), writes.to_vec())]).remove(0).map_err(|error| error.to_string())
    }

    fn restart(&mut self, boot: BootId) -> Snapshot {
        self.store = None;
        let (store, recovered) = open(&self.path, boot.0);
        self.store = Some(store);
        snapshot(recovered)
    }

    /// The real one goes on where it was; having come to the end it begins anew.
    fn remove(&mut self, before_ms: i64) {
        BEFORE_MS.set(before_ms);
        let store = self.store.as_mut().unwrap();
        for _ in 0..STEPS {
            assert!(store.look_after());
        }
    }

    fn snapshot(&self) -> Snapshot {
        snapshot(self.reader.recovered(u32::try_from(CLOSED_OPERATIONS_MAX).unwrap()).unwrap())
    }
}

/// Steps in which more operations are looked at than a conversation has, to the end, and from the beginning again.
const STEPS: usize = 6;

/// As many as are played in some seconds: every commit is flushed to the disk.
const SEEDS: usize = 60;
