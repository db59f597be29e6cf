//! The store's files: its directory, the lock that keeps a second instance out, and whose they are.
//!
//! Beside `state.db` stand SQLite's own `-wal` and `-shm`, `state.db.lock`, and `state.db.reserve`.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::error::{OpenError, from_io};

/// Holds the store against a second instance. The kernel frees it when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would not do: a process that is just being started shares the file until it has become another program.
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the store's lock is freed only when the process ends");
        }
    }
}

impl Lock {
    /// Takes the lock of the store at `path`, or says who has it.
    ///
    /// It is a file beside the store and not SQLite's exclusive mode, so that readers can look in while the box runs.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        let beside = sibling(path, LOCK);
        let mut file = private(OpenOptions::new().read(true).write(true).create(true), &beside)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let read = (&mut file).take(PID_DIGITS_MAX).read_to_string(&mut text);
                let pid = read.ok().and_then(|_| text.trim().parse().ok());
                return Err(OpenError::InUse { path: path.to_owned(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(from_io(&error, &beside)),
        }
        let noted = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        // The number only helps whoever reads the message; a full disk must not keep the box from its store.
        if let Err(error) = noted {
            tracing::warn!(path = %beside.display(), %error, "the lock file does not name its holder");
        }
        Ok(Self(file))
    }

    /// Whether the lock of the store at `path` is this one. Where its file was removed, a second instance finds none that is held.
    pub(super) fn stands(&self, path: &Path) -> bool {
        let (Ok(held), found) = (self.0.metadata(), fs::symlink_metadata(sibling(path, LOCK))) else { return true };
        match found {
            Ok(found) => found.ino() == held.ino(),
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }
}

/// Makes the directory of the store at `path` (0700) where it is missing, durably. What is above it must be there.
pub(super) fn create_directory(path: &Path) -> Result<(), OpenError> {
    let directory = directory(path);
    match DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
        Ok(()) => sync_directory(directory).map_err(|error| from_io(&error, directory)),
        // On a read-only file system, an existing one answers that, not that it exists.
        Err(_) if directory.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let missing = directory.parent().unwrap_or(directory);
            Err(OpenError::DirectoryMissing { directory: missing.to_owned() })
        }
        Err(error) => Err(from_io(&error, directory)),
    }
}

/// Makes the empty file (0600) where it is missing, durably, and takes other users' access to an existing one.
pub(super) fn create_file(path: &Path) -> Result<(), OpenError> {
    let file = private(OpenOptions::new().read(true).write(true).create(true), path)?;
    let about = |error: io::Error| from_io(&error, path);
    let mode = file.metadata().map_err(about)?.permissions().mode();
    if mode & OTHERS != 0 {
        file.set_permissions(fs::Permissions::from_mode(FILE_MODE)).map_err(about)?;
    }
    sync_directory(path).map_err(about)
}

/// Whether there is no file at `path`.
pub fn is_gone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The file of this name and `suffix`, beside `path`.
pub(super) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes the entry of `path` in its directory durable.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory(path))?.sync_all()
}

/// The directory that holds `path`.
pub(super) fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What belongs to the store and other users may read or enter.
pub(super) fn readable_by_others(path: &Path) -> Vec<PathBuf> {
    let is_open_to_others = |found: &Metadata| is_own(found) && found.permissions().mode() & OTHERS != 0;
    all(path).filter(|file| fs::symlink_metadata(file).is_ok_and(|found| is_open_to_others(&found))).collect()
}

/// What belongs to the store and to root, where another user runs the box, which can't open it.
pub(super) fn of_root(path: &Path) -> Vec<PathBuf> {
    if user(path).is_none() {
        return Vec::new();
    }
    let is_roots = |found: &Metadata| is_own(found) && found.uid() == ROOT;
    all(path).filter(|file| fs::symlink_metadata(file).is_ok_and(|found| is_roots(&found))).collect()
}

/// Gives that to the user that runs the box. What only root can give stays.
pub(super) fn give_to_its_user(path: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let Some((uid, gid)) = user(path) else { return Ok(Vec::new()) };
    let mut given = Vec::new();
    for file in of_root(path) {
        match open_own(&file).and_then(|(own, _)| fchown(own, Some(uid), Some(gid))) {
            Ok(()) => given.push(file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(from_io(&error, &file)),
        }
    }
    Ok(given)
}

/// The user that runs the box, and its group, unless that is root: the owner of the directory; or of the files, in a directory of root's
/// that a group may write in.
fn user(path: &Path) -> Option<(u32, u32)> {
    let found = [fs::metadata(directory(path)), fs::symlink_metadata(sibling(path, LOCK)), fs::symlink_metadata(path)];
    found.into_iter().flatten().find(|found| found.uid() != ROOT).map(|found| (found.uid(), found.gid()))
}

/// Everything whose name begins with that of the store.
fn all(path: &Path) -> impl Iterator<Item = PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let entries = fs::read_dir(directory(path)).into_iter().flatten().filter_map(Result::ok);
    entries.filter(move |entry| entry.file_name().to_string_lossy().starts_with(&name)).map(|entry| entry.path())
}

/// Takes other users' access to a file, or to a directory, which stays one that its owner may enter.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    let (file, found) = open_own(path)?;
    let mode = if found.is_dir() { DIRECTORY_MODE } else { FILE_MODE };
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Opens what belongs to the store, to change whose it is or who may read it: never what its name only leads to, which root could be made to
/// give away.
fn open_own(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if is_own(&found) { Ok((file, found)) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Whether it is a directory, or a file that has no other name.
fn is_own(found: &Metadata) -> bool {
    found.is_dir() || (found.is_file() && found.nlink() == 1)
}

/// A new file, or an emptied one, that nobody else may read.
pub(super) fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Where a link stands in its place, what it leads to is somebody else's; a named pipe is not waited for.
fn private(options: &mut OpenOptions, path: &Path) -> Result<File, OpenError> {
    options.mode(FILE_MODE).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).map_err(|error| from_io(&error, path))
}

/// The store holds what callers said and a secret: nobody else's.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const OTHERS: u32 = 0o077;

const ROOT: u32 = 0;

/// What the lock's name ends in.
pub(super) const LOCK: &str = ".lock";

/// A process number and its line end.
const PID_DIGITS_MAX: u64 = 16;
