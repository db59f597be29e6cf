//! A disk as a power cut leaves it: what was flushed is there, and of what was not, anything may be.
//!
//! A [`Disk`] notes in order what happens to its files, and can be told to fail. [`Image`] is what its notes come to: for each
//! file what is durable, and what is on its way to it.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use rusqlite::ffi;

/// A file, whatever its name is or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(usize);

/// What happened, in order.
#[derive(Debug, Clone)]
pub enum Event {
    /// A file was there before anybody looked: it is durable.
    Found {
        file: FileId,
        name: String,
        bytes: Vec<u8>,
    },
    Created {
        file: FileId,
        name: String,
    },
    Write {
        file: FileId,
        at: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        file: FileId,
        size: usize,
    },
    Sync {
        file: FileId,
    },
    /// A flush failed: the system forgot what it could not write, and will call the next flush a success.
    SyncFailed {
        file: FileId,
    },
    Deleted {
        name: String,
        directory_synced: bool,
    },
    /// A commit was acknowledged: so many are, in all.
    Acknowledged(usize),
}

/// What the disk does not do, and when.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// The first operation that fails, counted from the start.
    pub from: usize,
    /// How many fail.
    pub count: usize,
    pub kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Writes, flushes, truncations and deletions are input/output errors.
    Broken,
    /// Only flushes are.
    Unflushed,
    /// Writes find no space; flushes work.
    Full,
    /// Reads are input/output errors.
    Unreadable,
}

/// The notes on one directory.
#[derive(Debug, Default)]
pub struct Disk(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    events: Vec<Event>,
    names: BTreeMap<String, FileId>,
    files: usize,
    operations: usize,
    fault: Option<Fault>,
    failed: usize,
}

impl Disk {
    pub fn fails(&self, fault: Fault) {
        self.with(|notes| notes.fault = Some(Fault { from: notes.operations + fault.from, ..fault }));
    }

    /// It works again.
    pub fn works(&self) {
        self.with(|notes| notes.fault = None);
    }

    /// Operations so far that a fault could have met, and those that one did.
    pub fn operations(&self) -> (usize, usize) {
        self.with(|notes| (notes.operations, notes.failed))
    }

    /// A file is there from the start.
    pub fn finds(&self, name: &str, bytes: &[u8]) {
        assert!(self.open(name, || Some(bytes.to_vec())).is_ok());
    }

    pub fn acknowledged(&self, commits: usize) {
        self.with(|notes| notes.events.push(Event::Acknowledged(commits)));
    }

    pub fn events(&self) -> Vec<Event> {
        self.with(|notes| notes.events.clone())
    }

    pub(super) fn open(&self, name: &str, found: impl FnOnce() -> Option<Vec<u8>>) -> Result<FileId, c_int> {
        self.with(|notes| {
            if let Some(&file) = notes.names.get(name) {
                return Ok(file);
            }
            let file = FileId(notes.files);
            notes.files += 1;
            notes.names.insert(name.to_owned(), file);
            notes.events.push(match found() {
                Some(bytes) => Event::Found { file, name: name.to_owned(), bytes },
                None => Event::Created { file, name: name.to_owned() },
            });
            Ok(file)
        })
    }

    pub(super) fn read(&self) -> Result<(), c_int> {
        self.with(|notes| notes.pass(&[(FaultKind::Unreadable, ffi::SQLITE_IOERR_READ)]))
    }

    pub(super) fn write(&self, file: FileId, at: usize, bytes: &[u8]) -> Result<(), c_int> {
        self.with(|notes| {
            notes.pass(&[(FaultKind::Broken, ffi::SQLITE_IOERR_WRITE), (FaultKind::Full, ffi::SQLITE_FULL)])?;
            notes.events.push(Event::Write { file, at, bytes: bytes.to_vec() });
            Ok(())
        })
    }

    pub(super) fn truncate(&self, file: FileId, size: usize) -> Result<(), c_int> {
        self.with(|notes| {
            notes.pass(&[(FaultKind::Broken, ffi::SQLITE_IOERR_TRUNCATE)])?;
            notes.events.push(Event::Truncate { file, size });
            Ok(())
        })
    }

    pub(super) fn sync(&self, file: FileId) -> Result<(), c_int> {
        self.with(|notes| {
            let passed = notes.pass(&[(FaultKind::Broken, ffi::SQLITE_IOERR_FSYNC), (FaultKind::Unflushed, ffi::SQLITE_IOERR_FSYNC)]);
            if passed.is_err() {
                notes.events.push(Event::SyncFailed { file });
            } else {
                notes.events.push(Event::Sync { file });
            }
            passed
        })
    }

    pub(super) fn delete(&self, name: &str, directory_synced: bool) -> Result<(), c_int> {
        self.with(|notes| {
            notes.pass(&[(FaultKind::Broken, ffi::SQLITE_IOERR_DELETE)])?;
            if notes.names.remove(name).is_some() {
                notes.events.push(Event::Deleted { name: name.to_owned(), directory_synced });
            }
            Ok(())
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Notes) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Notes {
    /// Counts an operation, and fails it with the code for the kind of fault that is on, if there is one.
    fn pass(&mut self, codes: &[(FaultKind, c_int)]) -> Result<(), c_int> {
        self.operations += 1;
        let Some(fault) = self.fault else { return Ok(()) };
        let on = (fault.from..fault.from.saturating_add(fault.count)).contains(&(self.operations - 1));
        match codes.iter().find(|(kind, _)| on && *kind == fault.kind) {
            Some(&(_, code)) => {
                self.failed += 1;
                Err(code)
            }
            None => Ok(()),
        }
    }
}

/// What is on the disk, and what is on its way.
#[derive(Debug, Default)]
pub struct Image {
    files: BTreeMap<FileId, File>,
    /// The directory as it is seen, and as it is on the disk.
    seen: BTreeMap<String, FileId>,
    durable: BTreeMap<String, FileId>,
}

#[derive(Debug, Default)]
struct File {
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Truncate { size: usize },
}

/// What becomes of that which was on its way when the power was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Luck {
    Nothing,
    Everything,
    /// Some changes whole, some not at all, in whatever order they were made.
    Some,
    /// Some sectors, of whatever change; what is new between them is garbage.
    Torn,
}

pub const LUCKS: [Luck; 4] = [Luck::Nothing, Luck::Everything, Luck::Some, Luck::Torn];

impl Image {
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Found { file, name, bytes } => {
                self.files.insert(*file, File { durable: bytes.clone(), pending: Vec::new() });
                self.seen.insert(name.clone(), *file);
                self.durable.insert(name.clone(), *file);
            }
            Event::Created { file, name } => {
                self.files.insert(*file, File::default());
                self.seen.insert(name.clone(), *file);
            }
            Event::Write { file, at, bytes } => self.change(*file, Change::Write { at: *at, bytes: bytes.clone() }),
            Event::Truncate { file, size } => self.change(*file, Change::Truncate { size: *size }),
            Event::Sync { file } => {
                if let Some(file) = self.files.get_mut(file) {
                    for change in std::mem::take(&mut file.pending) {
                        change.make(&mut file.durable);
                    }
                }
                // SQLite flushes the directory with the first flush of a file that it has created.
                let new: Vec<String> = self.seen.iter().filter(|(_, seen)| *seen == file).map(|(name, _)| name.clone()).collect();
                if new.iter().any(|name| self.durable.get(name) != Some(file)) {
                    self.durable = self.seen.clone();
                }
            }
            Event::SyncFailed { file } => {
                if let Some(file) = self.files.get_mut(file) {
                    file.pending.clear();
                }
            }
            Event::Deleted { name, directory_synced } => {
                self.seen.remove(name);
                if *directory_synced {
                    self.durable = self.seen.clone();
                }
            }
            Event::Acknowledged(_) => {}
        }
    }

    /// The files after a power cut.
    pub fn after_a_cut(&self, luck: Luck, dice: &mut Dice) -> BTreeMap<String, Vec<u8>> {
        let names = match luck {
            Luck::Nothing => self.durable.clone(),
            Luck::Everything => self.seen.clone(),
            Luck::Some | Luck::Torn => {
                let all: BTreeMap<&String, ()> = self.seen.keys().chain(self.durable.keys()).map(|name| (name, ())).collect();
                let choose = |name: &String, dice: &mut Dice| if dice.toss() { self.seen.get(name) } else { self.durable.get(name) };
                all.into_keys().filter_map(|name| Some((name.clone(), *choose(name, dice)?))).collect()
            }
        };
        let surviving = |file: FileId, dice: &mut Dice| self.files.get(&file).map(|file| file.after_a_cut(luck, dice)).unwrap_or_default();
        names.into_iter().map(|(name, file)| (name, surviving(file, dice))).collect()
    }

    fn change(&mut self, file: FileId, change: Change) {
        if let Some(file) = self.files.get_mut(&file) {
            file.pending.push(change);
        }
    }
}

impl File {
    fn after_a_cut(&self, luck: Luck, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in &self.pending {
            match (luck, change) {
                (Luck::Nothing, _) => {}
                (Luck::Everything, change) => change.make(&mut bytes),
                (Luck::Torn, Change::Write { at, bytes: written }) => tear(&mut bytes, *at, written, dice),
                (_, change) if dice.toss() => change.make(&mut bytes),
                _ => {}
            }
        }
        bytes
    }
}

impl Change {
    fn make(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => {
                if to.len() < at + bytes.len() {
                    to.resize(at + bytes.len(), 0);
                }
                to[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Self::Truncate { size } => to.resize(*size, 0),
        }
    }
}

/// Writes some of the sectors that a write touches.
fn tear(to: &mut Vec<u8>, at: usize, written: &[u8], dice: &mut Dice) {
    let mut from = 0;
    while from < written.len() {
        let end = (SECTOR_BYTES - (at + from) % SECTOR_BYTES + from).min(written.len());
        if dice.toss() {
            let before = to.len();
            if before < at + end {
                to.resize_with(at + end, || dice.roll() as u8);
            }
            to[at + from..at + end].copy_from_slice(&written[from..end]);
        }
        from = end;
    }
}

const SECTOR_BYTES: usize = 512;

/// Chance that is the same each time.
pub struct Dice(pub u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn toss(&mut self) -> bool {
        self.roll() & 1 == 1
    }

    /// A number below this one.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }
}
