//! Whether the files of a store that is open stand in their place: what is written to one that was moved, removed or cut short is lost to
//! whoever opens the store next.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::files::{sibling, sync_directory};
use super::header::LOG;
use super::set_aside::PARTS;

/// The files that a connection has open, by what the operating system knows them by.
#[derive(Debug)]
pub(super) struct Standing {
    /// The file, its log, and the log's index; none where nothing is known: it is not one of the operating system's, or that gives it another
    /// number each time.
    files: [Option<u64>; PARTS.len()],
    /// The length of the log (bytes): while a store is open it only grows.
    log_bytes: u64,
}

/// What has become of a store's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The file is not there, or another stands in its place.
    Moved,
    /// The log is not there, another stands in its place, or it is shorter than it was.
    LogLost,
    /// So is the index of the log, which is made again from the log.
    IndexLost,
}

impl Fault {
    /// For people.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Moved => "the store's file was moved or removed while it was in use",
            Self::LogLost => "the store's log was removed or cut while it was in use",
            Self::IndexLost => "the index of the store's log was removed while it was in use",
        }
    }
}

impl Standing {
    /// The files of the store at `path`, which has just been opened and written to.
    pub(super) fn of(path: &Path) -> Self {
        let number = |part| look(path, part).ok().map(|found| found.ino());
        let [first, again] = [PARTS.map(number), PARTS.map(number)];
        let mut files = first;
        for (file, again) in files.iter_mut().zip(again) {
            *file = file.filter(|number| again == Some(*number));
        }
        let mut standing = Self { files, log_bytes: 0 };
        standing.has_written(path);
        standing
    }

    /// The store was written to by its own connection, or its log begun anew in order.
    pub(super) fn has_written(&mut self, path: &Path) {
        if let Ok(log) = look(path, LOG) {
            self.log_bytes = log.len();
        }
    }

    /// What has become of the files of the store at `path`, if anything has. What can't be looked at is taken to be as it was.
    pub(super) fn fault(&self, path: &Path) -> Option<Fault> {
        let [file, log, index] = PARTS.map(|part| self.is_gone(path, part));
        let is_cut = || look(path, LOG).is_ok_and(|log| log.len() < self.log_bytes);
        match (file, log || is_cut(), index) {
            (true, ..) => Some(Fault::Moved),
            (_, true, _) => Some(Fault::LogLost),
            (.., true) => Some(Fault::IndexLost),
            _ => None,
        }
    }

    /// Whether there is room, among the files that are kept, for one more that was put in the place of the store at `path`.
    pub(super) fn can_keep_foreign(&self, path: &Path) -> bool {
        self.fault(path) != Some(Fault::Moved) || look(path, "").is_err() || free_name(path).is_some()
    }

    /// Gives what somebody has put in the place of the store at `path` another name, with the log that came with it. None where nothing was.
    pub(super) fn keep_foreign(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        if !self.is_gone(path, "") || look(path, "").is_err() {
            return Ok(None);
        }
        let Some(kept) = free_name(path) else {
            return Err(io::Error::other(format!("{FOREIGN_MAX} files were put in its place before: move its *{FOREIGN}* files away")));
        };
        // The file last: until it has gone, the next look finds it, and comes here again.
        for part in PARTS.iter().rev() {
            if self.is_gone(path, part) && look(path, part).is_ok() {
                fs::rename(sibling(path, part), sibling(&kept, part))?;
            }
        }
        sync_directory(path)?;
        Ok(Some(kept))
    }

    /// Whether the part that is open has no name, or another, and something else may stand in its place.
    fn is_gone(&self, path: &Path, part: &str) -> bool {
        let known = PARTS.iter().zip(&self.files).find(|(name, _)| **name == part).and_then(|(_, known)| *known);
        known.is_some_and(|known| match look(path, part) {
            // The number alone, as the engine has it: that of the device is another when the disk was plugged in again.
            Ok(found) => found.ino() != known,
            Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        })
    }
}

/// A name for what was put in the place of the store at `path`.
pub(super) fn free_name(path: &Path) -> Option<PathBuf> {
    let mut names = (1..=FOREIGN_MAX).map(|number| sibling(path, &format!("{FOREIGN}{number}")));
    names.find(|name| PARTS.iter().all(|part| look(name, part).is_err()))
}

/// Without following links: what belongs to the store is none.
fn look(path: &Path, part: &str) -> io::Result<Metadata> {
    fs::symlink_metadata(sibling(path, part))
}

/// What somebody has put in the place of the store at `path` while it was in use.
pub fn foreign_files(path: &Path) -> Vec<PathBuf> {
    (1..=FOREIGN_MAX).map(|number| sibling(path, &format!("{FOREIGN}{number}"))).filter(|file| look(file, "").is_ok()).collect()
}

/// What the name of a file begins with that was put in the store's place, after the store's own.
const FOREIGN: &str = ".foreign-";

/// So many are kept: whoever goes on putting files there would fill the disk with them.
const FOREIGN_MAX: u32 = 5;
