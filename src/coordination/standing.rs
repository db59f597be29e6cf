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
    /// The file, its log, and the log's index; none where it is not one of the operating system's, of which nothing is known.
    files: [Option<Identity>; PARTS.len()],
    /// The length of the log (bytes): while a store is open it only grows.
    log_bytes: u64,
}

/// Device and inode. A number is not given to another file while somebody has this one open.
type Identity = (u64, u64);

impl Standing {
    /// The files of the store at `path`, which has just been opened and written to.
    pub(super) fn of(path: &Path) -> Self {
        let mut standing = Self { files: PARTS.map(|part| look(path, part).ok().map(|found| identity(&found))), log_bytes: 0 };
        standing.has_written(path);
        standing
    }

    /// The store was written to by its own connection.
    pub(super) fn has_written(&mut self, path: &Path) {
        if let Ok(log) = look(path, LOG) {
            self.log_bytes = log.len();
        }
    }

    /// What has become of the files of the store at `path`, if anything has. What can't be looked at is taken to be as it was.
    pub(super) fn fault(&self, path: &Path) -> Option<&'static str> {
        let [file, beside @ ..] = PARTS.map(|part| self.is_gone(path, part));
        let is_cut = || look(path, LOG).is_ok_and(|log| log.len() < self.log_bytes);
        match (file, beside.contains(&true) || is_cut()) {
            (true, _) => Some("the store's file was moved or removed while it was in use"),
            (false, true) => Some("the store's log was removed or cut while it was in use"),
            (false, false) => None,
        }
    }

    /// Gives what somebody has put in the place of the store at `path` another name, with the log that came with it. None where nothing was.
    pub(super) fn keep_foreign(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        if !self.is_gone(path, "") || look(path, "").is_err() {
            return Ok(None);
        }
        let mut names = (1..=FOREIGN_MAX).map(|number| sibling(path, &format!("{FOREIGN}{number}")));
        let is_free = |name: &PathBuf| !PARTS.iter().any(|part| sibling(name, part).exists());
        let Some(kept) = names.find(is_free) else {
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
            Ok(found) => identity(&found) != known,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        })
    }
}

/// Without following links: what belongs to the store is none.
fn look(path: &Path, part: &str) -> io::Result<Metadata> {
    fs::symlink_metadata(sibling(path, part))
}

fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

/// What somebody has put in the place of the store at `path` while it was in use.
pub fn foreign_files(path: &Path) -> Vec<PathBuf> {
    (1..=FOREIGN_MAX).map(|number| sibling(path, &format!("{FOREIGN}{number}"))).filter(|file| look(file, "").is_ok()).collect()
}

/// What the name of a file begins with that was put in the store's place, after the store's own.
const FOREIGN: &str = ".foreign-";

/// So many are kept: whoever goes on putting files there would fill the disk with them.
const FOREIGN_MAX: u32 = 5;
