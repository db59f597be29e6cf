//! The directory of the messages.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::file::{self, Label, MessageId};

/// The directory that messages are kept in, bounded in number and bytes. It blocks: give it a thread that may.
#[derive(Debug)]
pub struct Shelf {
    directory: PathBuf,
    files_max: u64,
    bytes_max: u64,
    /// Held while there is one more: the bounds hold however many callers leave one at a time. Whether the directory's own name is on the
    /// disk: this process may have found one there that was made just before a crash.
    adding: Mutex<bool>,
}

/// A message that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What it is called.
    pub id: MessageId,
    /// Its file.
    pub path: PathBuf,
    /// What stands on it, and how long it is (ms); or why that can't be read.
    pub label: Result<(Label, u64), String>,
}

/// Why a message is not kept, shown or deleted.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// There are as many as there may be: listen to some and delete them, or raise `messages.files_max` or `messages.bytes_max`.
    #[error(
        "{files} messages with {bytes} bytes are kept, and there is no room for another one: delete some (recado messages --delete ID)"
    )]
    Full {
        /// How many there are.
        files: u64,
        /// How large they are together.
        bytes: u64,
    },
    /// There is no such message: it may have been deleted.
    #[error("there is no {0}: `recado messages` shows those that there are")]
    Missing(MessageId),
    /// The directory or a file can't be read or written: the reason says why.
    #[error("{}: {error}", path.display())]
    Io {
        /// The directory or the file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Shelf {
    /// The messages in `directory`, which is made with the first one.
    pub fn new(directory: PathBuf, files_max: u64, bytes_max: u64) -> Self {
        Self { directory, files_max, bytes_max, adding: Mutex::new(false) }
    }

    /// Keeps a message under this name. Once this returns, it will be there after a power cut; where it fails, nothing of it is.
    ///
    /// # Errors
    /// Where there is no room for it, or it can't be written.
    pub fn keep(&self, id: MessageId, label: &Label, samples: &[i16]) -> Result<(), ShelfError> {
        let whole = file::written(label, samples);
        // Nothing is changed while it is held that a panic could leave half done.
        let mut is_durable = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        self.make_directory(&mut is_durable)?;
        self.room_for(whole.len() as u64)?;
        let (path, part) = (self.path(id), self.directory.join(format!("{id}{PART}")));
        if path.exists() || part.exists() {
            return Err(io_at(&path)(io::ErrorKind::AlreadyExists.into()));
        }
        let written = write_durably(&part, &whole).and_then(|()| fs::rename(&part, &path)).and_then(|()| sync_directory(&self.directory));
        written.map_err(|error| {
            for left in [&part, &path] {
                let _ = fs::remove_file(left);
            }
            io_at(&path)(error)
        })
    }

    /// Removes what a power cut left half written: nobody was told that it is kept.
    ///
    /// # Errors
    /// Where the directory can't be read, or a file can't be removed.
    pub fn remove_unfinished(&self) -> Result<(), ShelfError> {
        // What is being written now is not touched.
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let unfinished = |path: &PathBuf| path.as_os_str().as_bytes().ends_with(PART.as_bytes());
        let removed = self.files()?.into_iter().map(|(path, _)| path).filter(unfinished);
        removed.map(|path| fs::remove_file(&path).map_err(io_at(&path))).fold(Ok(()), Result::and)
    }

    /// Tries whether a message of a minute can be written. Nothing of it is left.
    ///
    /// # Errors
    /// Why not.
    pub fn try_writing(&self) -> Result<(), ShelfError> {
        let mut is_durable = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        self.make_directory(&mut is_durable)?;
        let path = self.directory.join(TRIAL);
        let written = write_durably(&path, &vec![0; MINUTE_BYTES as usize]);
        // Also one that an earlier trial could not remove.
        let removed = fs::remove_file(&path);
        written.and(removed).map_err(io_at(&path))
    }

    /// Whether there is room for a message of a minute.
    ///
    /// # Errors
    /// Where there is none, or that can't be known.
    pub fn has_room(&self) -> Result<(), ShelfError> {
        self.room_for(MINUTE_BYTES)
    }

    /// The messages, the oldest first; those at the end whose time is not known.
    ///
    /// # Errors
    /// Where the directory can't be read.
    pub fn all(&self) -> Result<Vec<Kept>, ShelfError> {
        let mut all: Vec<Kept> = self
            .files()?
            .into_iter()
            .filter_map(|(path, _)| {
                let id = path.file_name()?.to_str()?.strip_suffix(WAV)?.parse().ok()?;
                let label = File::open(&path).map(io::BufReader::new).and_then(file::read).map_err(|error| error.to_string());
                Some(Kept { id, path, label })
            })
            .collect();
        all.sort_by_key(|kept| {
            let at = kept.label.as_ref().ok().and_then(|(label, _)| label.unix_ms);
            (at.is_none(), at, kept.id)
        });
        Ok(all)
    }

    /// The file of a message.
    ///
    /// # Errors
    /// Where there is no such message.
    pub fn find(&self, id: MessageId) -> Result<PathBuf, ShelfError> {
        let path = self.path(id);
        if path.is_file() { Ok(path) } else { Err(ShelfError::Missing(id)) }
    }

    /// Deletes a message.
    ///
    /// # Errors
    /// Where there is no such message, or its file can't be removed.
    pub fn delete(&self, id: MessageId) -> Result<(), ShelfError> {
        let path = self.find(id)?;
        fs::remove_file(&path).and_then(|()| sync_directory(&self.directory)).map_err(io_at(&path))
    }

    fn path(&self, id: MessageId) -> PathBuf {
        self.directory.join(format!("{id}{WAV}"))
    }

    fn make_directory(&self, is_durable: &mut bool) -> Result<(), ShelfError> {
        let at = io_at(&self.directory);
        match DirBuilder::new().mode(0o700).create(&self.directory) {
            Ok(()) => *is_durable = false,
            Err(_) if self.directory.is_dir() => {}
            Err(error) => return Err(at(error)),
        }
        if !*is_durable {
            let parent = self.directory.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync_directory(parent.unwrap_or(Path::new("."))).map_err(at)?;
            *is_durable = true;
        }
        Ok(())
    }

    fn room_for(&self, more: u64) -> Result<(), ShelfError> {
        let found = self.files()?;
        let (files, bytes) = (found.len() as u64, found.iter().map(|(_, bytes)| bytes).sum::<u64>());
        if files >= self.files_max || bytes.saturating_add(more) > self.bytes_max {
            return Err(ShelfError::Full { files, bytes });
        }
        Ok(())
    }

    /// The files with their lengths. Those that were cut short by a power cut count: nobody else may use their room.
    fn files(&self) -> Result<Vec<(PathBuf, u64)>, ShelfError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            // Nobody has left one yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_at(&self.directory)(error)),
        };
        let ours = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("message_") && (name.ends_with(WAV) || name.ends_with(PART))
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(ours);
        Ok(paths
            .filter_map(|path| Some((path.metadata().ok().filter(fs::Metadata::is_file)?.len(), path)))
            .map(|(bytes, path)| (path, bytes))
            .collect())
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> ShelfError + use<> {
    let path = path.to_owned();
    move |error| ShelfError::Io { path: path.clone(), error }
}

const WAV: &str = ".wav";
/// What a message is called until it is whole.
const PART: &str = ".part";
/// What is written to see whether anything can be.
const TRIAL: &str = "message_trial.part";
/// 16-bit samples at 8 kHz.
const MINUTE_BYTES: u64 = 60 * 16_000;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use recado_core::{PartyId, SessionId};

    use super::*;

    fn label(unix_ms: Option<i64>) -> Label {
        Label { session: SessionId(1), party: Some(PartyId("main/600".into())), unix_ms }
    }

    #[test]
    fn messages_are_kept_privately_shown_by_age_found_and_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(directory.path().join("messages"), 10, 1 << 20);
        assert_eq!(shelf.all().unwrap(), []);
        for (id, at) in [(1, None), (2, Some(2_000)), (3, Some(1_000))] {
            shelf.keep(MessageId(id), &label(at), &[7; 8_000]).unwrap();
        }
        let all = shelf.all().unwrap();
        assert_eq!(all.iter().map(|kept| kept.id.0).collect::<Vec<_>>(), [3, 2, 1]);
        assert_eq!(all[0].label, Ok((label(Some(1_000)), 1_000)));
        assert_eq!(all[0].path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(all[0].path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(shelf.find(MessageId(3)).unwrap(), all[0].path);
        shelf.delete(MessageId(3)).unwrap();
        assert!(matches!(shelf.delete(MessageId(3)), Err(ShelfError::Missing(MessageId(3)))));
        assert_eq!(shelf.all().unwrap().len(), 2);
    }

    #[test]
    fn there_are_never_more_than_there_may_be_and_what_does_not_fit_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(directory.path().to_owned(), 2, 100_000);
        assert!(matches!(shelf.has_room(), Err(ShelfError::Full { files: 0, .. })), "a minute is more than may be kept");
        assert!(matches!(shelf.keep(MessageId(1), &label(None), &[0; 60_000]), Err(ShelfError::Full { .. })));
        shelf.keep(MessageId(1), &label(None), &[0; 1_000]).unwrap();
        shelf.keep(MessageId(2), &label(None), &[0; 1_000]).unwrap();
        let full = shelf.keep(MessageId(3), &label(None), &[0; 1_000]).unwrap_err();
        assert!(full.to_string().starts_with("2 messages with "), "{full}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        shelf.delete(MessageId(1)).unwrap();
        shelf.keep(MessageId(3), &label(None), &[0; 1_000]).unwrap();
    }

    #[test]
    fn what_a_power_cut_left_half_written_gives_its_room_back() {
        let directory = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(directory.path().to_owned(), 2, 1 << 20);
        shelf.remove_unfinished().unwrap();
        shelf.keep(MessageId(1), &label(None), &[0; 1_000]).unwrap();
        for name in ["message_0000000000000002.part", "notes.part"] {
            fs::write(directory.path().join(name), "half").unwrap();
        }
        assert!(matches!(shelf.keep(MessageId(3), &label(None), &[0; 1_000]), Err(ShelfError::Full { files: 2, .. })));
        shelf.remove_unfinished().unwrap();
        shelf.keep(MessageId(3), &label(None), &[0; 1_000]).unwrap();
        assert_eq!(shelf.all().unwrap().len(), 2);
        assert!(directory.path().join("notes.part").exists(), "it is none of a message");
        Shelf::new(directory.path().join("none"), 2, 1 << 20).remove_unfinished().unwrap();
    }

    #[test]
    fn a_name_that_is_taken_is_not_written_over_and_a_file_that_is_none_is_shown_as_such() {
        let directory = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(directory.path().to_owned(), 9, 1 << 20);
        fs::write(directory.path().join("message_0000000000000001.wav"), "no sound").unwrap();
        fs::write(directory.path().join("message_0000000000000002.part"), "half").unwrap();
        fs::write(directory.path().join("notes.txt"), "mine").unwrap();
        let all = shelf.all().unwrap();
        assert!(all.len() == 1 && all[0].label.is_err(), "{all:?}");
        for taken in [1, 2] {
            assert!(matches!(shelf.keep(MessageId(taken), &label(None), &[0; 10]), Err(ShelfError::Io { .. })));
        }
        assert_eq!(fs::read(directory.path().join("message_0000000000000001.wav")).unwrap(), b"no sound");
        assert!(directory.path().join("message_0000000000000002.part").exists());
    }
}
