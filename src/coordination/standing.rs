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
    /// How the file and its log were when the store was last written to by its own connection.
    written: [Option<Written>; 2],
    /// What was written in the place of the file, but could not be opened there yet.
    copy: Option<u64>,
}

/// What tells that somebody has written to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Written {
    bytes: u64,
    /// When (s, ns).
    modified: (i64, i64),
    /// Whether a part of it was never written: it was cut, and written to behind that.
    has_hole: bool,
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
    /// Somebody else has written to the file or to the log: in order, or not.
    Touched,
}

impl Fault {
    /// For people.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Moved => "the store's file was moved or removed while it was in use",
            Self::LogLost => "the store's log was removed or cut while it was in use",
            Self::IndexLost => "the index of the store's log was removed while it was in use",
            Self::Touched => "the store was written to by somebody else while it was in use",
        }
    }
}

impl Standing {
    /// The files of the store at `path`, which has just been opened and written to. Whether they are the operating system's, who opened them
    /// knows.
    pub(super) fn of(path: &Path, are_files: bool) -> Self {
        let number = |part| look(path, part).ok().map(|found| found.ino());
        let [first, again] = [PARTS.map(number), PARTS.map(number)];
        let mut files = first;
        for (file, again) in files.iter_mut().zip(again) {
            *file = file.filter(|number| again == Some(*number));
        }
        if are_files {
            // Each was there a moment ago: it was taken since.
            let is_taken = |part: &str| look(path, part).is_err_and(|error| is_absent(&error));
            for (file, _) in files.iter_mut().zip(PARTS).filter(|(_, part)| is_taken(part)) {
                *file = Some(NO_FILE);
            }
        }
        let mut standing = Self { files, written: [None; 2], copy: None };
        standing.has_written(path);
        standing
    }

    /// The store was written to by its own connection, or by somebody else in order.
    pub(super) fn has_written(&mut self, path: &Path) {
        self.written = Self::written(path);
    }

    fn written(path: &Path) -> [Option<Written>; 2] {
        ["", LOG].map(|part| {
            let found = look(path, part).ok()?;
            let has_hole = found.blocks().saturating_mul(BLOCK_BYTES) < found.len();
            Some(Written { bytes: found.len(), modified: (found.mtime(), found.mtime_nsec()), has_hole })
        })
    }

    /// What has become of the files of the store at `path`, if anything has. What can't be looked at is taken to be as it was.
    /// The log has to be `log_bytes` long to hold what its index says.
    pub(super) fn fault(&self, path: &Path, log_bytes: u64) -> Option<Fault> {
        self.fault_by(path, log_bytes, &Self::written(path))
    }

    fn fault_by(&self, path: &Path, log_bytes: u64, now: &[Option<Written>; 2]) -> Option<Fault> {
        let [file, log, index] = PARTS.map(|part| self.is_gone(path, part));
        let is_cut = || now[1].is_some_and(|now| now.bytes < log_bytes);
        match (file, log || is_cut(), index) {
            (true, ..) => Some(Fault::Moved),
            (_, true, _) => Some(Fault::LogLost),
            (.., true) => Some(Fault::IndexLost),
            _ => (*now != self.written).then_some(Fault::Touched),
        }
    }

    /// The same, of files that their own connection has just written to.
    pub(super) fn fault_since(&self, path: &Path, log_bytes: u64) -> Option<Fault> {
        let now = Self::written(path);
        let is_new =
            |(now, then): (Option<Written>, Option<Written>)| now.is_some_and(|now| now.has_hole) && then.is_none_or(|then| !then.has_hole);
        match self.fault_by(path, log_bytes, &now) {
            Some(Fault::Touched) if !now.into_iter().zip(self.written).any(is_new) => None,
            fault => fault,
        }
    }

    /// What stands in the place of the file now is a copy of it.
    pub(super) fn has_copied(&mut self, path: &Path) {
        self.copy = look(path, "").ok().map(|found| found.ino());
    }

    /// Whether what stands in the place of the file is somebody else's.
    fn is_foreign(&self, path: &Path) -> bool {
        self.is_gone(path, "") && look(path, "").is_ok_and(|found| self.copy != Some(found.ino()))
    }

    /// Whether there is room, among the files that are kept, for one more that was put in the place of the store at `path`.
    pub(super) fn can_keep_foreign(&self, path: &Path) -> bool {
        !self.is_foreign(path) || free_name(path).is_some()
    }

    /// Gives what somebody has put in the place of the store at `path` another name, with the log that came with it. None where nothing was.
    pub(super) fn keep_foreign(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        if !self.is_foreign(path) {
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
            Err(error) => is_absent(&error),
        })
    }
}

/// A name for what was put in the place of the store at `path`.
pub(super) fn free_name(path: &Path) -> Option<PathBuf> {
    let mut names = (1..=FOREIGN_MAX).map(|number| sibling(path, &format!("{FOREIGN}{number}")));
    names.find(|name| PARTS.iter().all(|part| look(name, part).is_err()))
}

/// Whether the operating system says that there is no such file, or no way to it.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) || error.raw_os_error() == Some(libc::ELOOP)
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

/// The number of no file.
const NO_FILE: u64 = 0;

/// The unit of a file's blocks, whatever the file system's are (stat(2)).
const BLOCK_BYTES: u64 = 512;

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_log_that_was_cut_is_noticed_although_it_is_as_long_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        for part in PARTS {
            fs::write(sibling(&path, part), vec![1; 20_000]).unwrap();
        }
        let standing = Standing::of(&path, true);
        assert_eq!((standing.fault(&path, 20_000), standing.fault_since(&path, 20_000)), (None, None));
        let log = OpenOptions::new().write(true).open(sibling(&path, LOG)).unwrap();
        log.write_all_at(&[2; 4_000], 20_000).unwrap();
        // Written to by its own connection that is nothing; by another it is looked at.
        assert_eq!((standing.fault(&path, 24_000), standing.fault_since(&path, 24_000)), (Some(Fault::Touched), None));
        for cut in [0, 32, 8_000] {
            log.set_len(cut).unwrap();
            assert_eq!((standing.fault(&path, 24_000), standing.fault_since(&path, 24_000)), (Some(Fault::LogLost), Some(Fault::LogLost)));
            log.write_all_at(&[2; 8_000], 20_000).unwrap();
            assert_eq!(standing.fault_since(&path, 28_000), Some(Fault::Touched), "cut to {cut} while it was written to");
        }
    }

    #[test]
    fn a_directory_to_which_there_is_no_way_any_more_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let path = data.join("state.db");
        let away = directory.path().join("away");
        fs::create_dir(&data).unwrap();
        PARTS.iter().for_each(|part| fs::write(sibling(&path, part), b"of the store").unwrap());
        let standing = Standing::of(&path, true);
        fs::rename(&data, &away).unwrap();
        assert_eq!(standing.fault(&path, 0), Some(Fault::Moved));
        fs::write(&data, b"a file").unwrap();
        assert_eq!(standing.fault(&path, 0), Some(Fault::Moved));
        fs::remove_file(&data).unwrap();
        std::os::unix::fs::symlink(&data, &data).unwrap();
        assert_eq!(standing.fault(&path, 0), Some(Fault::Moved));
        fs::remove_file(&data).unwrap();
        fs::rename(&away, &data).unwrap();
        assert_eq!(standing.fault(&path, 0), None, "it was put back");
    }
}
