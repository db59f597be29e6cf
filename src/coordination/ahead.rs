//! Space that the store's files take ahead of what is written into them, so that nobody else has it when the disk is full.

use std::ffi::c_int;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::{Connection, FileControl};

use super::connection::{CHECKPOINT_PAGES, PAGE_BYTES};
use super::files::sibling;
use super::header::LOG;
use super::reserve;

/// Takes `bytes` of what is free on the disk for the store at `path`: for the log, up to what it needs between two checkpoints, and
/// for the file, which grows by what is moved into it.
///
/// What is taken is written, so nothing that later stands there meets a full disk. What could be had stays taken after an error.
///
/// # Errors
/// There is less on the disk; the files are none of the operating system's; or their file system writes elsewhere whatever
/// is written again, and needs what is free for that.
pub(super) fn take(connection: &Connection, path: &Path, bytes: u64) -> io::Result<()> {
    if !writes_in_place(path)? {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let log = sibling(path, LOG);
    let has = fs::metadata(&log)?.len();
    if has < LOG_BYTES {
        // Zeros are no frame: reading the log ends before them, as it does before what is left there of an earlier round.
        return lengthen(&log, has, bytes);
    }
    // All or nothing: of a step that somebody else has had a part of, the rest is asked for in parts.
    let (mut had, mut part) = (0, bytes);
    while had < bytes {
        part = part.min(bytes - had);
        match grow(connection, path, part) {
            Ok(()) => had += part,
            Err(error) if part <= PAGE_BYTES as u64 => return Err(error),
            Err(_) => part /= 2,
        }
    }
    Ok(())
}

/// Lengthens the file by `bytes`.
///
/// The engine's own way: another handle of the file that is closed would give up the engine's locks on it. The file is as long as a
/// whole number of chunks, so that many chunks are what it is to have; without that it is cut to its pages at each checkpoint.
fn grow(connection: &Connection, path: &Path, bytes: u64) -> io::Result<()> {
    let whole = fs::metadata(path)?.len() + bytes;
    let mut size = i64::try_from(whole).map_err(io::Error::other)?;
    connection.file_control(MAIN, FileControl::ChunkSize(&mut chunk(whole))).map_err(io::Error::other)?;
    connection.file_control(MAIN, FileControl::SizeHint(&mut size)).map_err(io::Error::other)
}

/// What the file has and does not use is free again after the next checkpoint; what the log has, when the store is closed.
pub(super) fn give_back(connection: &Connection) {
    if let Err(error) = connection.file_control(MAIN, FileControl::ChunkSize(&mut 0)) {
        tracing::debug!(%error, "the store keeps more space than it needs until it is closed");
    }
}

/// The largest chunk of which a whole number is `whole`, or some bytes more.
fn chunk(whole: u64) -> c_int {
    let chunks = whole / CHUNK_BYTES_MAX + 1;
    c_int::try_from(whole.div_ceil(chunks)).unwrap_or(c_int::MAX)
}

/// Whether what is written again in the file at `path` needs no other room than it has.
#[allow(unsafe_code)]
fn writes_in_place(path: &Path) -> io::Result<bool> {
    let file = fs::File::open(sibling(path, LOG))?;
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open for as long as `file` lives; `found` is read only when the call says that it has filled it.
    let found = unsafe {
        if libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        found.assume_init()
    };
    // The field's width differs between targets.
    #[allow(clippy::unnecessary_cast)]
    Ok(!COPY_ON_WRITE.contains(&(found.f_type as u32)))
}

/// Adds zeros to the file at `path`, which is `has` long, as many as there is room for.
fn lengthen(path: &Path, has: u64, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let mut at = has;
    while at < has + bytes {
        let block = &ZEROS[..ZEROS.len().min(usize::try_from(has + bytes - at).unwrap_or(usize::MAX))];
        file.write_all_at(block, at)?;
        at += block.len() as u64;
    }
    Ok(())
}

/// btrfs, bcachefs, nilfs2 and ZFS (linux/magic.h, and zfs.h).
const COPY_ON_WRITE: [u32; 4] = [0x9123_683e, 0xca45_1a4e, 0x3434, 0x2fc1_2fc1];

const MAIN: Option<&str> = Some("main");

/// A step of the reserve is written in one go: between two, others would be as quick.
static ZEROS: [u8; reserve::STEP_BYTES as usize] = [0; reserve::STEP_BYTES as usize];

/// What the file may take at once when it outgrows what was taken, of the space that others may need: little more than the reserve
/// was. Smaller ones would let the file be cut shorter than what was taken, before that is used.
const CHUNK_BYTES_MAX: u64 = 3 * reserve::BYTES;

/// The pages after which the log is moved into the file, and those of the group of commits by which it passes them.
const LOG_BYTES: u64 = (CHECKPOINT_PAGES as u64 + 100) * (PAGE_BYTES as u64 + LOG_FRAME_BYTES);

/// What stands before each page in the log (SQLite's file format, section 4.1).
const LOG_FRAME_BYTES: u64 = 24;

#[cfg(test)]
mod tests {
    use super::{CHUNK_BYTES_MAX, chunk, reserve};

    #[test]
    fn a_file_of_whole_chunks_is_as_long_as_it_is_to_be_and_no_shorter_for_what_it_has() {
        for whole in [1, 4_096, 3 << 20, (1 << 30) - 1, 1 << 30, (1 << 31) + 4_096, 100 << 30] {
            let chunk = u64::try_from(chunk(whole)).expect("positive");
            // What the engine makes of the pages that there are, up to as much as the reserve gives before the end.
            for pages in [whole, whole.saturating_sub(reserve::BYTES).max(1)] {
                let long = pages.div_ceil(chunk) * chunk;
                // A byte more a chunk, at most.
                assert!(long >= whole && long <= whole + whole / CHUNK_BYTES_MAX, "{pages} of {whole} bytes in chunks of {chunk}");
                assert!(chunk <= CHUNK_BYTES_MAX);
            }
        }
    }
}
