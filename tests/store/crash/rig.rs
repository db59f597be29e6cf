//! What a cut is judged by: the contents of the store after each commit, and after the cut.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::disk::{Dice, Disk, Event, Image, Luck};
use super::vfs;

/// A directory whose files are watched.
pub struct Watched {
    pub directory: TempDir,
    pub disk: Arc<Disk>,
}

impl Watched {
    pub fn new() -> Self {
        let watched = Self { directory: directory(), disk: Arc::default() };
        vfs::watch(watched.directory.path(), &watched.disk);
        watched
    }

    /// One that begins with these files.
    pub fn with(files: &BTreeMap<String, Vec<u8>>) -> Self {
        let watched = Self::new();
        put(watched.directory.path(), files);
        for (name, bytes) in files {
            watched.disk.finds(name, bytes);
        }
        watched
    }

    pub fn path(&self) -> PathBuf {
        crate::fixtures::path_in(self.directory.path())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        vfs::forget(self.directory.path());
    }
}

/// In memory where there is such a place: the disk that fails is ours, not the machine's.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// A look into the store past its own code.
pub fn look(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).expect("a database")
}

/// Everything that the ledger has put into the store, as one text.
pub fn contents(connection: &Connection) -> String {
    let mut text = String::new();
    for table in ["batch", "operation", "delivery", "claim"] {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table} ORDER BY 1")).expect("a table");
        let columns = statement.column_count();
        let mut rows = statement.query([]).expect("a query");
        while let Some(row) = rows.next().expect("readable") {
            let values: Vec<String> = (0..columns).map(|column| format!("{:?}", row.get_ref(column).expect("a value"))).collect();
            text += &format!("{table}: {}\n", values.join(" "));
        }
    }
    text
}

/// What is wrong with the file, by the engine's own full check.
pub fn integrity(connection: &Connection) -> Result<(), String> {
    let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(|error| error.to_string())?;
    let orphans =
        connection.prepare("PRAGMA foreign_key_check").and_then(|mut check| check.exists([])).map_err(|error| error.to_string())?;
    if verdict != "ok" || orphans { Err(format!("{verdict}; rows without what they refer to: {orphans}")) } else { Ok(()) }
}

/// A moment of a run, and what a cut leaves of it.
pub struct Cut {
    /// After how many events.
    pub after: usize,
    /// Whether there was a store that had been opened, and commits of it that had been acknowledged.
    pub opened: bool,
    pub acknowledged: usize,
    pub luck: Luck,
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The cuts of a run from the event `first` on: after each event, which for a flush is before the next thing is on its way.
///
/// One at a time: together they are as many copies of the disk as the run has events.
pub fn cuts<'a>(events: &'a [Event], first: usize, lucks: &'a [Luck], seed: u64) -> impl Iterator<Item = Cut> + Send + 'a {
    let mut image = Image::default();
    let (mut opened, mut acknowledged) = (first > 0, 0);
    events.iter().enumerate().flat_map(move |(number, event)| {
        if let Event::Acknowledged(commits) = event {
            (opened, acknowledged) = (true, *commits);
        }
        image.apply(event);
        // What is certain changes only with a flush, and has to be enough at an acknowledgement; the rest only with a write.
        let settles = matches!(event, Event::Sync { .. } | Event::Acknowledged(_) | Event::Deleted { .. });
        let in_turn = |luck: Luck| match luck {
            Luck::Nothing => settles,
            Luck::Everything => !settles && number.is_multiple_of(4),
            Luck::Some => !settles && number.is_multiple_of(2),
            Luck::Torn => !settles && (!number.is_multiple_of(2) || lucks.len() < 4),
        };
        let tried = lucks.iter().enumerate().filter(|(_, luck)| number >= first && in_turn(**luck));
        let cut = |(turn, luck): (usize, &Luck)| {
            let files = image.after_a_cut(*luck, &mut Dice(seed.wrapping_add((number * lucks.len() + turn) as u64)));
            Cut { after: number, opened, acknowledged, luck: *luck, files }
        };
        tried.map(cut).collect::<Vec<Cut>>()
    })
}

/// Tries each cut with `check`, on all processors. Gives how many there were, and what was found wrong.
pub fn try_all(cuts: impl Iterator<Item = Cut> + Send, check: impl Fn(&Cut, &Path) -> Result<(), String> + Sync) -> (usize, Vec<String>) {
    let cuts = Mutex::new(cuts);
    let next = || cuts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(4);
    std::thread::scope(|scope| {
        let work = || {
            let place = directory();
            let (mut tried, mut wrong) = (0, Vec::new());
            while let Some(cut) = next() {
                put(place.path(), &cut.files);
                if !cut.opened {
                    // It is made when a store has been opened, and this cut comes before that.
                    drop(fs::remove_file(place.path().join("state.db.reserve")));
                }
                tried += 1;
                if let Err(what) = check(&cut, &crate::fixtures::path_in(place.path())) {
                    wrong.push(format!("cut after event {}, {:?}, {} acknowledged: {what}", cut.after, cut.luck, cut.acknowledged));
                }
            }
            (tried, wrong)
        };
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).fold((0, Vec::new()), |(number, mut all), (tried, wrong)| {
            all.extend(wrong);
            (number + tried, all)
        })
    })
}

/// Makes the directory's database what a cut has left. The lock and the reserve, which SQLite knows nothing of, stay.
pub fn put(directory: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for suffix in ["", "-wal", "-shm"] {
        let file = directory.join(format!("state.db{suffix}"));
        if file.exists() {
            fs::remove_file(&file).expect("ours");
        }
    }
    for (name, bytes) in files {
        fs::write(directory.join(name), bytes).expect("written");
    }
}
