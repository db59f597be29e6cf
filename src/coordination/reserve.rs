//! Space kept back, so that a full disk still takes claims and outcomes.
//!
//! The reserve is a file of zeros beside the store. When the disk is full it is given up, a step at a time, and the store's own files
//! take each step at once: whoever filled the disk would have it otherwise. Until there is room to make it again no new operation is
//! accepted: what remains is for what has been promised already.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::files::{directory, private_file, sibling};

/// The reserve of one store.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    held: bool,
    /// Whether the disk was full: it was given up, or there was next to nothing left when the store was opened.
    spent: bool,
    /// When making it failed although there was room, as under a quota.
    failed: Option<Instant>,
}

impl Reserve {
    /// Makes the reserve of the store at `store` where there is room. A store without one works, and is told at the first full disk; but
    /// where [next to nothing is left](is_disk_full), that was before: the disk is full.
    pub(super) fn new(store: &Path, now: Instant) -> Self {
        let mut reserve = Self { path: sibling(store, SUFFIX), held: false, spent: false, failed: None };
        reserve.restore(now);
        reserve.spent = is_disk_full(store);
        if reserve.spent {
            tracing::error!(path = %reserve.path.display(), "the disk is full: the store has no reserve and accepts no new operation");
        } else if !reserve.held {
            tracing::warn!(path = %reserve.path.display(), "the store has no reserve for a full disk");
        }
        reserve
    }

    /// Whether the reserve of the store at `store` is there, whole.
    pub(super) fn is_there(store: &Path) -> bool {
        fs::metadata(sibling(store, SUFFIX)).is_ok_and(|found| found.len() == BYTES)
    }

    /// Whether the reserve of the store at `store` is not there, and there is room for it.
    pub(super) fn can_be_made(store: &Path) -> bool {
        !Self::is_there(store) && free_bytes(directory(store)).is_ok_and(|free| free >= ROOM_BYTES)
    }

    /// Whether the space is kept back now.
    pub(super) fn held(&self) -> bool {
        self.held
    }

    /// Whether the disk was full and has not yet had room for the reserve again.
    pub(super) fn spent(&self) -> bool {
        self.spent
    }

    /// The disk is full: gives the space up in steps, and has the store `take` each (bytes) before somebody else does. Says whether
    /// there was any.
    pub(super) fn release(&mut self, mut take: impl FnMut(u64) -> io::Result<()>) -> bool {
        self.spent = true;
        if !self.held {
            return false;
        }
        self.held = false;
        let released = OpenOptions::new().write(true).open(&self.path).and_then(|file| {
            for step in (0..BYTES / STEP_BYTES).rev() {
                file.set_len(step * STEP_BYTES)?;
                // What others were quicker to take is gone; the next step is another chance.
                if let Err(error) = take(STEP_BYTES) {
                    tracing::debug!(%error, "space of the reserve was not taken");
                }
            }
            fs::remove_file(&self.path)
        });
        match released {
            Ok(()) => {
                tracing::error!("the disk is full: the store lives on its reserve and accepts no new operation");
                true
            }
            Err(error) => {
                tracing::error!(%error, "the disk is full and the store's reserve can't be given up");
                false
            }
        }
    }

    /// Makes the reserve, if it is missing and there is room for it. It may have been removed by others.
    pub(super) fn restore(&mut self, now: Instant) {
        let there = fs::symlink_metadata(&self.path).is_ok_and(|found| found.is_file() && found.len() == BYTES);
        if self.held && !there {
            tracing::warn!(path = %self.path.display(), "the store's reserve is not there any more");
        }
        self.held &= there;
        if self.held || self.failed.is_some_and(|failed| now.saturating_duration_since(failed) < RETRY) {
            return;
        }
        if !there {
            // What a cut left of it while it was given up, or made, keeps space that the store may need.
            drop(fs::remove_file(&self.path));
        }
        if !there && free_bytes(directory(&self.path)).is_ok_and(|free| free < ROOM_BYTES) {
            return;
        }
        if !there && let Err(error) = fill(&self.path) {
            tracing::debug!(%error, "no reserve could be made");
            self.failed = Some(now);
            // What was written of it is space that the store may need; it may also never have been there.
            drop(fs::remove_file(&self.path));
            return;
        }
        if self.spent {
            tracing::info!("there is space again: the store has its reserve back and accepts operations");
        }
        self.held = true;
        self.spent = false;
        self.failed = None;
    }
}

/// Whether the store at `store`, opened now, accepts no new operation: it has no reserve, and so little is left that its last bytes belong to
/// what has been promised already.
pub fn is_disk_full(store: &Path) -> bool {
    // What a cut left of the reserve is given back when the store is opened.
    let cut = fs::symlink_metadata(sibling(store, SUFFIX)).map_or(0, |found| found.len());
    !Reserve::is_there(store) && free_bytes(directory(store)).is_ok_and(|free| free.saturating_add(cut) < LEAST_BYTES)
}

/// Writes the zeros: a sparse file would keep nothing back.
fn fill(path: &Path) -> io::Result<()> {
    let mut file = private_file(path)?;
    let block = [0u8; BLOCK_BYTES];
    for _ in 0..BYTES / BLOCK_BYTES as u64 {
        file.write_all(&block)?;
    }
    file.sync_all()
}

/// What an unprivileged process may still write on the file system of `directory`.
#[allow(unsafe_code)]
pub(super) fn free_bytes(directory: &Path) -> io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::CString::new(directory.as_os_str().as_bytes())?;
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `name` ends in NUL and outlives the call; `found` is read only when the call says that it has filled it.
    let found = unsafe {
        if libc::statvfs(name.as_ptr(), found.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        found.assume_init()
    };
    // The fields' widths differ between targets.
    #[allow(clippy::unnecessary_cast)]
    Ok((found.f_bavail as u64).saturating_mul(found.f_frsize as u64))
}

/// What its name ends in.
pub(super) const SUFFIX: &str = ".reserve";

/// Room for some hundreds of claims and outcomes, and for the checkpoint that they need: a quarter of it is enough, which is what is left
/// where somebody else takes what they can, all the time.
pub(super) const BYTES: u64 = 4 * 1024 * 1024;

/// With less than this left, and no reserve, the disk is full: what is enough for claims and outcomes where others take the rest.
const LEAST_BYTES: u64 = BYTES / 4;

/// The free space with which it is made: as much again is left for others.
pub const ROOM_BYTES: u64 = 2 * BYTES;

/// So much is nobody's for a moment while the reserve is given up.
pub(super) const STEP_BYTES: u64 = 64 * 1024;

const BLOCK_BYTES: usize = 64 * 1024;

/// How long a failed attempt is not repeated: each writes up to the whole reserve.
const RETRY: Duration = Duration::from_secs(60);
