//! The keeper: the thread that writes traces, and keeps them within their bounds.
//!
//! What machines record reaches it through a queue that is bounded in messages and bytes. When the queue is full, or the disk
//! fails, the trace says that inputs are missing, and they are counted; nobody waits. Files are flushed to the kernel whenever
//! the queue is empty and never synchronised: the store's commits have the disk. After a power cut a trace may lack its last
//! half minute.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use recado_core::BootId;
use recado_trace::line::Mark;
use recado_trace::{Mode, Moment, Redactor, Scribe, Subject, SubjectKind, Taken, record};
use tracing::warn;

use super::library::EXTENSION;
use super::traced::Life;
use crate::admin::{HealthState, Impact};
use crate::telemetry::{Measures, Observation, Seldom};

/// How traces are kept.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Where.
    pub directory: PathBuf,
    /// What of people's words is in them.
    pub mode: Mode,
    /// How many there may be.
    pub files_max: u64,
    /// How large all of them may be together (bytes).
    pub bytes_max: u64,
    /// How large one of them may be (bytes).
    pub file_bytes_max: u64,
}

/// Where machines bring what they record. Clones share it.
#[derive(Debug, Clone)]
pub struct Traces(Option<Queue>);

#[derive(Debug, Clone)]
struct Queue {
    sender: SyncSender<Message>,
    /// What waits (bytes).
    bytes: Arc<AtomicUsize>,
    next: Arc<AtomicUsize>,
    boot: BootId,
    mode: Mode,
    redactor: Redactor,
    measures: Measures,
}

/// What waits for the keeper.
#[derive(Debug)]
pub(super) enum Message {
    /// A machine began.
    Begin {
        id: u64,
        of: SubjectKind,
        name: String,
        life: Arc<Life>,
        scribe: Box<Scribe>,
        line: fn(&mut Scribe, &Taken) -> Option<String>,
        taken: Taken,
    },
    /// It took an input; so many before it found no room.
    Input { id: u64, missed: u64, taken: Taken },
}

impl Message {
    fn bytes(&self) -> usize {
        match self {
            // Without its beginning nothing of a trace can be read: it takes room in the queue by its number only.
            Self::Begin { .. } => 0,
            Self::Input { taken, .. } => taken.bytes(),
        }
    }
}

impl Traces {
    /// No traces.
    pub fn off() -> Self {
        Self(None)
    }

    /// Whether anything is recorded.
    pub fn on(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn begin<S: Subject>(&self, name: &str, life: Arc<Life>, moment: Moment, taken: Taken) -> Option<u64> {
        let queue = self.0.as_ref()?;
        let id = queue.next.fetch_add(1, Ordering::Relaxed) as u64;
        let scribe = Scribe::new(S::KIND, queue.boot, env!("CARGO_PKG_VERSION"), queue.mode, queue.redactor.clone(), moment);
        let (name, scribe) = (name.to_owned(), Box::new(scribe));
        if self.send(Message::Begin { id, of: S::KIND, name, life, scribe, line: Scribe::begin::<S>, taken }) {
            return Some(id);
        }
        self.missed();
        None
    }

    /// Whether there was room.
    pub(super) fn send(&self, message: Message) -> bool {
        let Some(queue) = &self.0 else { return false };
        let bytes = message.bytes();
        let waiting = queue.bytes.fetch_add(bytes, Ordering::Relaxed);
        let sent = waiting + bytes <= QUEUE_BYTES_MAX && queue.sender.try_send(message).is_ok();
        if !sent {
            queue.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        sent
    }

    /// Counts an input that is not in its trace.
    pub(super) fn missed(&self) {
        if let Some(queue) = &self.0 {
            queue.measures.record(Observation::TraceInputMissed);
        }
    }
}

/// The thread; it ends when nobody records any more.
#[derive(Debug)]
pub struct Keeper {
    ended: Receiver<()>,
}

impl Keeper {
    /// Starts the thread. `redactor` has the box's key.
    ///
    /// # Errors
    /// The directory can't be made or read, or the system gives no thread.
    pub fn start(kept: Kept, boot: BootId, redactor: Redactor, measures: Measures, health: HealthState) -> io::Result<(Self, Traces)> {
        let shelf = Shelf::open(&kept)?;
        let (sender, messages) = sync_channel(QUEUE_MAX);
        let (bytes, mode) = (Arc::<AtomicUsize>::default(), kept.mode);
        let desk = Desk {
            kept,
            shelf,
            open: BTreeMap::new(),
            waiting: Arc::clone(&bytes),
            measures: measures.clone(),
            health,
            failing: false,
            failures: Seldom::default(),
        };
        let (end, ended) = sync_channel(1);
        std::thread::Builder::new().name("traces".to_owned()).spawn(move || {
            desk.run(&messages);
            // Nobody may be left who waits for it.
            let _ = end.send(());
        })?;
        let queue = Queue { sender, bytes, next: Arc::default(), boot, mode, redactor, measures };
        Ok((Self { ended }, Traces(Some(queue))))
    }

    /// Waits until everything is written, for a second at most: a disk that hangs must not keep the box from ending.
    pub fn join(self) {
        let _ = self.ended.recv_timeout(Duration::from_secs(1));
    }
}

/// Where the keeper writes.
struct Desk {
    kept: Kept,
    shelf: Shelf,
    open: BTreeMap<u64, Open>,
    waiting: Arc<AtomicUsize>,
    measures: Measures,
    health: HealthState,
    failing: bool,
    failures: Seldom,
}

/// A trace that is being written.
struct Open {
    life: Arc<Life>,
    scribe: Box<Scribe>,
    name: String,
    of: SubjectKind,
    file: BufWriter<File>,
    number: u64,
    part: u32,
    /// What this part has, and may have.
    bytes: u64,
    bytes_max: u64,
    truncated: bool,
}

impl Desk {
    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let first = messages.recv_timeout(SWEEP_EVERY);
            // Whose machine is gone by now has sent everything: it is in the queue.
            let over: Vec<u64> = self.open.iter().filter(|(_, open)| Arc::strong_count(&open.life) == 1).map(|(id, _)| *id).collect();
            let gone = matches!(first, Err(RecvTimeoutError::Disconnected));
            for message in first.into_iter().chain(messages.try_iter()) {
                self.waiting.fetch_sub(message.bytes(), Ordering::Relaxed);
                self.take(message);
            }
            over.into_iter().for_each(|id| self.close(id));
            self.flush();
            if gone {
                self.open.keys().copied().collect::<Vec<_>>().into_iter().for_each(|id| self.close(id));
                return;
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Begin { id, of, name, life, scribe, line, taken } => match self.begin(of, name, life, scribe, line, &taken) {
                Ok(open) => {
                    self.measures.record(Observation::TraceBegun);
                    self.open.insert(id, open);
                    self.tidy();
                }
                Err(error) => self.failed(&error),
            },
            Message::Input { id, missed, taken } => {
                let Some(open) = self.open.get_mut(&id) else { return self.measures.record(Observation::TraceInputMissed) };
                let was_truncated = open.truncated;
                match open.input(missed, &taken, &mut self.shelf, self.kept.file_bytes_max) {
                    Ok(()) if open.truncated && !was_truncated => self.measures.record(Observation::TraceTruncated),
                    Ok(()) => {}
                    Err(error) => self.give_up(id, &error),
                }
            }
        }
    }

    fn begin(
        &mut self,
        of: SubjectKind,
        name: String,
        life: Arc<Life>,
        mut scribe: Box<Scribe>,
        line: fn(&mut Scribe, &Taken) -> Option<String>,
        taken: &Taken,
    ) -> io::Result<Open> {
        let not_json = || io::Error::other("what it begins with is not JSON");
        let beginning = line(&mut scribe, taken).ok_or_else(not_json)?;
        // What a store holds at a start may be long. Longer than a good part of all room, it is not kept.
        let fits = beginning.len() as u64 <= self.kept.bytes_max / BEGINNING_SHARE;
        let first = if fits { beginning } else { scribe.next_part(taken.moment()).ok_or_else(not_json)? };
        let (number, part) = (self.shelf.next_number(), u32::from(!fits));
        let file = BufWriter::new(self.shelf.create(number, &name, part)?);
        let bytes_max = self.kept.file_bytes_max.max(first.len() as u64 * 2);
        let mut open = Open { life, scribe, name, of, file, number, part, bytes: 0, bytes_max, truncated: false };
        open.write(&first)?;
        Ok(open)
    }

    fn close(&mut self, id: u64) {
        let Some(mut open) = self.open.remove(&id) else { return };
        let over = open.life.over.load(Ordering::Relaxed) && !open.truncated;
        let ended = match record::mark(Mark::End(true)).filter(|_| over) {
            Some(line) => open.write(&line),
            None => Ok(()),
        };
        let written = ended.and_then(|()| open.file.flush());
        self.shelf.grew(open.number, open.bytes);
        match written {
            Ok(()) => self.works(),
            Err(error) => self.failed(&error),
        }
        self.tidy();
    }

    fn flush(&mut self) {
        let mut failed = Vec::new();
        let mut flushed = false;
        for (id, open) in self.open.iter_mut().filter(|(_, open)| !open.file.buffer().is_empty()) {
            match open.file.flush() {
                Ok(()) => flushed = true,
                Err(error) => failed.push((*id, error)),
            }
            self.shelf.grew(open.number, open.bytes);
        }
        if flushed {
            self.works();
            self.tidy();
        } else if self.failing && failed.is_empty() && self.shelf.takes_a_file().is_ok() {
            // Nothing may be there to be written for long; whether there is room again is seen all the same.
            self.works();
        }
        failed.into_iter().for_each(|(id, error)| self.give_up(id, &error));
    }

    /// A trace that could not be written ends there: what followed would stand behind half a line.
    fn give_up(&mut self, id: u64, error: &io::Error) {
        self.measures.record(Observation::TraceInputMissed);
        if let Some(open) = self.open.remove(&id) {
            // What it has in memory would be written when it is dropped.
            let _ = open.file.into_parts();
        }
        self.failed(error);
    }

    fn tidy(&mut self) {
        // What is being written stays, and so does the beginning of the ledger's trace: without it nothing of it can be replayed.
        let heads = self.open.values().filter(|open| open.part > 0).map(|open| open.name.clone()).collect::<Vec<_>>();
        let open: Vec<u64> = self.open.values().map(|open| open.number).collect();
        self.shelf.tidy(&self.kept, |book| open.contains(&book.number) || heads.iter().any(|name| book.is_head_of(name)));
    }

    fn works(&mut self) {
        if std::mem::take(&mut self.failing) {
            self.health.clear("traces");
        }
    }

    fn failed(&mut self, error: &io::Error) {
        self.failing = true;
        let directory = self.kept.directory.display();
        if let Some(left_out) = self.failures.happened(Instant::now()) {
            warn!(%directory, %error, left_out, "a trace can't be written");
        }
        self.health.raise(
            "traces",
            Impact::Degrades,
            format!("{directory} can't be written ({error}): free some space on its disk, or set trace.mode = \"off\""),
        );
    }
}

impl Open {
    fn input(&mut self, missed: u64, taken: &Taken, shelf: &mut Shelf, file_bytes_max: u64) -> io::Result<()> {
        if self.truncated {
            return Ok(());
        }
        if self.bytes >= self.bytes_max {
            match self.of {
                SubjectKind::Conversation => {
                    self.truncated = true;
                    return self.write(&record::mark(Mark::Truncated(true)).unwrap_or_default());
                }
                SubjectKind::Ledger => self.next_part(taken.moment(), shelf, file_bytes_max)?,
            }
        }
        if missed > 0 {
            self.write(&record::mark(Mark::Missed(missed)).unwrap_or_default())?;
        }
        let line = self.scribe.entry(taken).ok_or_else(|| io::Error::other("an input is not JSON"))?;
        self.write(&line)
    }

    fn next_part(&mut self, moment: Moment, shelf: &mut Shelf, file_bytes_max: u64) -> io::Result<()> {
        self.file.flush()?;
        shelf.grew(self.number, self.bytes);
        let (number, part) = (shelf.next_number(), self.part.saturating_add(1));
        self.file = BufWriter::new(shelf.create(number, &self.name, part)?);
        (self.number, self.part, self.bytes, self.bytes_max) = (number, part, 0, file_bytes_max);
        let first = self.scribe.next_part(moment).unwrap_or_default();
        self.write(&first)
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        self.file.write_all(line.as_bytes())?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

/// The files, oldest first.
#[derive(Debug)]
struct Shelf {
    directory: PathBuf,
    books: VecDeque<Book>,
    next: u64,
}

#[derive(Debug)]
struct Book {
    number: u64,
    file: String,
    bytes: u64,
}

impl Book {
    fn is_head_of(&self, name: &str) -> bool {
        self.file == file_name(self.number, name, 0)
    }
}

/// What shows that there is room again: a block of the disk.
const PROBE_BYTES: usize = 4_096;

impl Shelf {
    fn open(kept: &Kept) -> io::Result<Self> {
        let directory = kept.directory.clone();
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if !directory.is_dir() => return Err(error),
            _ => {}
        }
        let mut books: Vec<Book> = Vec::new();
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            let Ok(file) = entry.file_name().into_string() else { continue };
            let Some(number) = number_of(&file) else { continue };
            books.push(Book { number, file, bytes: entry.metadata().map_or(0, |metadata| metadata.len()) });
        }
        books.sort_by_key(|book| book.number);
        let next = books.last().map_or(0, |book| book.number.saturating_add(1));
        let mut shelf = Self { directory, books: books.into(), next };
        shelf.tidy(kept, |_| false);
        Ok(shelf)
    }

    fn next_number(&mut self) -> u64 {
        let number = self.next;
        self.next = number.saturating_add(1);
        number
    }

    fn create(&mut self, number: u64, name: &str, part: u32) -> io::Result<File> {
        let file = file_name(number, name, part);
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.directory.join(&file))?;
        self.books.push_back(Book { number, file, bytes: 0 });
        Ok(opened)
    }

    /// Whether a file could be kept now: one is written, and removed.
    fn takes_a_file(&self) -> io::Result<()> {
        let probe = self.directory.join("probe");
        let written = std::fs::write(&probe, [0; PROBE_BYTES]);
        std::fs::remove_file(&probe)?;
        written
    }

    fn grew(&mut self, number: u64, bytes: u64) {
        if let Some(book) = self.books.iter_mut().rev().find(|book| book.number == number) {
            book.bytes = bytes;
        }
    }

    /// Removes the oldest, but for those that `stays`, until the rest is within bounds.
    fn tidy(&mut self, kept: &Kept, stays: impl Fn(&Book) -> bool) {
        let mut bytes: u64 = self.books.iter().map(|book| book.bytes).sum();
        let mut at = 0;
        while self.books.len() as u64 > kept.files_max || bytes > kept.bytes_max {
            let Some(book) = self.books.get(at) else { return };
            if stays(book) {
                at += 1;
                continue;
            }
            // One that is gone already, or that can't be removed now, is not counted again until the next start.
            if let Err(error) = std::fs::remove_file(self.directory.join(&book.file))
                && error.kind() != io::ErrorKind::NotFound
            {
                warn!(file = book.file, %error, "an old trace can't be removed");
            }
            bytes -= book.bytes;
            self.books.remove(at);
        }
    }
}

/// The name of a trace's file: the order of the numbers is that in which the traces began, whatever the clock says.
fn file_name(number: u64, name: &str, part: u32) -> String {
    let part = if part == 0 { String::new() } else { format!(".{part}") };
    format!("{number:08}-{name}{part}.{EXTENSION}")
}

/// The number that a trace's file has in its name.
pub(super) fn number_of(file: &str) -> Option<u64> {
    let stem = Path::new(file).extension().is_some_and(|extension| extension == EXTENSION).then_some(file)?;
    stem.split_once('-')?.0.parse().ok()
}

/// Inputs that may wait: a second of a box that is full of calls is some hundreds.
const QUEUE_MAX: usize = 4_096;

/// Memory that what waits may occupy. A tool's result may be a mebibyte.
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// How often it is looked for machines that are gone.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// What a beginning may take of all room: one part in so many.
const BEGINNING_SHARE: u64 = 4;
