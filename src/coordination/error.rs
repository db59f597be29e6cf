//! What can go wrong with the store, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::files::directory;
use super::reserve::free_bytes;

/// Why the store could not be opened. The files are as they were, but where a damaged store was being set aside: the next try goes
/// on with that, and loses nothing of it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the store: stop it, or give this one a store of its own.
    #[error("{} is in use by {}: stop that instance, or give this one a store of its own", path.display(), holder(*pid))]
    InUse {
        /// The store.
        path: PathBuf,
        /// The process that has it, where it said so.
        pid: Option<u32>,
    },
    /// The directory above the store's directory does not exist: create it, or correct the path.
    #[error("{} does not exist: create it, or correct the store's path", directory.display())]
    DirectoryMissing {
        /// The missing directory.
        directory: PathBuf,
    },
    /// The process may not read or write there: correct the owner or the mode.
    #[error("no permission to read and write {}: the directory and its files must belong to the user that runs recado", path.display())]
    Permission {
        /// What was refused.
        path: PathBuf,
    },
    /// The file system is mounted read-only, often after a disk error: check the disk, then mount it writable.
    #[error("{} is on a read-only file system: check the disk (dmesg), then mount it writable", path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// A directory stands where a file of the store's belongs: move it away. Nobody but its owner knows what it is.
    #[error("{} is a directory, and a file of the store's belongs there: move it away", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// The disk is full: free some space.
    #[error("no space left for {}: free some space on its disk", path.display())]
    Full {
        /// The store.
        path: PathBuf,
    },
    /// The file belongs to another program: correct the path.
    #[error("{} is not a store of recado: correct the store's path, or move the file away", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
    },
    /// A newer program wrote it: use that version or a later one.
    #[error("{} has schema {found}, this version knows up to {known}: use the version that wrote it, or a later one", path.display())]
    Newer {
        /// The store.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema known here.
        known: i64,
    },
    /// The check found damage. [`super::Store::open`] sets such a store aside by itself; where it can't, somebody else has to: move it
    /// aside with its `-wal` and `-shm`, and keep them.
    #[error(
        "{} is damaged ({what}): move it aside together with its -wal and -shm files, keep them, and restore a copy or start empty",
        path.display()
    )]
    Corrupt {
        /// The store.
        path: PathBuf,
        /// What the check said first.
        what: String,
    },
    /// Stores have been damaged or lost again and again: replace the disk, then move the files away that stand for them.
    #[error(
        "{} is damaged or not there, and {number} were before it: replace the disk, then move its *.corrupt-* and *.missing-* files away",
        path.display()
    )]
    TooManySetAside {
        /// The store.
        path: PathBuf,
        /// How many there are.
        number: usize,
    },
    /// A row of what is owed does not read back as a record: the file was edited by hand, or by a newer program. [`super::Store::open`] sets such a
    /// store aside like a damaged one; this is said where what takes its place, an older backup, has such a row too.
    #[error("{table} {id} in {} can't be read ({reason}): restore a copy, or ask for help with the file", path.display())]
    Unreadable {
        /// The store.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The row.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The database engine did not take a setting that durability rests on: a bug or a file system without shared memory.
    #[error("{} can't be used safely: {setting} is `{value}`", path.display())]
    Setting {
        /// The store.
        path: PathBuf,
        /// The setting.
        setting: &'static str,
        /// What was read back.
        value: String,
    },
    /// Reading or writing failed: check the disk.
    #[error("reading or writing {} failed: {reason}", path.display())]
    Io {
        /// The store.
        path: PathBuf,
        /// What the operating system or the engine said.
        reason: String,
    },
}

/// Why a commit failed. Nothing of it is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// More commits wait than the queue holds: refuse the effect, the disk is too slow.
    #[error("the store is busy: too many commits are waiting")]
    Busy,
    /// The disk is full, or the reserve has been spent and this would create an operation: free some space.
    #[error("the disk is full")]
    Full,
    /// The file system has become read-only: check the disk.
    #[error("the store has become read-only")]
    ReadOnly,
    /// A constraint refuses it: the contract rules it out.
    #[error("refused by the store: {0}")]
    Constraint(String),
    /// A later state of something that is not there.
    #[error("refused by the store: no such {0}")]
    Missing(&'static str),
    /// A value that the store can't hold, such as a sequence beyond 63 bits.
    #[error("refused by the store: {0}")]
    Value(String),
    /// Another process holds the file's write lock: end it, nobody else may write there.
    #[error("another process is writing to the store")]
    Locked,
    /// The file is damaged: restart, so that the check decides what is to be done.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// The file is not trusted any more, and this would begin something new; or it is not in its place any more, and this would be lost with it.
    /// It is opened anew when the calls are over.
    #[error("the store has to be opened anew: {0}")]
    Restart(String),
    /// Something of the store is not in its place, and could not be written again yet: free some space, or see what is in the way. What is
    /// refused so would be lost.
    #[error("{0}")]
    Displaced(String),
    /// The disk did not do what it was told. If power is cut before it works again, the commit may be found after the restart.
    #[error("the disk failed: {0}")]
    Io(String),
    /// The store is being closed.
    #[error("the store is closed")]
    Closed,
}

impl CommitError {
    /// A short name for measures and log fields.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Full => "full",
            Self::ReadOnly => "read_only",
            Self::Constraint(_) | Self::Missing(_) | Self::Value(_) => "refused",
            Self::Locked => "locked",
            Self::Corrupt(_) => "corrupt",
            Self::Restart(_) => "restart",
            Self::Displaced(_) => "displaced",
            Self::Io(_) => "io",
            Self::Closed => "closed",
        }
    }

    /// Whether only this commit is concerned, and the rest of its group can go on.
    pub(super) fn concerns_one_commit(&self) -> bool {
        matches!(self, Self::Constraint(_) | Self::Missing(_) | Self::Value(_) | Self::Restart(_))
    }
}

impl From<rusqlite::Error> for CommitError {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        match error {
            rusqlite::Error::ToSqlConversionFailure(_) | rusqlite::Error::InvalidParameterName(_) => Self::Value(text),
            _ => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => Self::Full,
                Some(ErrorCode::ReadOnly) => Self::ReadOnly,
                Some(ErrorCode::ConstraintViolation) => Self::Constraint(text),
                Some(ErrorCode::TooBig | ErrorCode::TypeMismatch) => Self::Value(text),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt(text),
                _ => Self::Io(text),
            },
        }
    }
}

impl From<OpenError> for CommitError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::ReadOnly { .. } => Self::ReadOnly,
            OpenError::Full { .. } => Self::Full,
            OpenError::Corrupt { what, .. } => Self::Corrupt(what),
            other => Self::Io(other.to_string()),
        }
    }
}

/// Why a look into the store failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no store there: name the right place, or start the box once.
    #[error("there is no store at {}", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// It is not a store that this version can read.
    #[error("{} is not a store that this version can read: use the version of recado that runs the box", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The process may not read it: use the user that runs the box, or root.
    #[error("no permission to read {}: use the user that runs the box, or root", path.display())]
    Permission {
        /// The file.
        path: PathBuf,
    },
    /// A row does not read back as a record.
    #[error("{table} {id} can't be read: {reason}")]
    Unreadable {
        /// The table.
        table: &'static str,
        /// The row.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Reading failed: check the disk.
    #[error("reading the store failed: {0}")]
    Io(String),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Io(error.to_string())
    }
}

/// Why no backup was made. Those that there are stay.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It would leave too little space: free some.
    #[error("no room for a copy of the store: it needs {} MiB", needed.div_ceil(1 << 20))]
    NoSpace {
        /// Bytes.
        needed: u64,
    },
    /// It could not be written: check the directory and the disk.
    #[error("{} can't be written: {reason}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// The copy is not whole: check the disk, and the store.
    #[error("the copy is damaged ({what}): check the disk, and the store")]
    Damaged {
        /// What the check said.
        what: String,
    },
    /// The store can't be read: check the disk, and the store.
    #[error("the store can't be read: {0}")]
    Read(#[from] rusqlite::Error),
}

impl BackupError {
    /// Whether the store itself was found damaged, by reading it.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Read(error) if says_damaged(error))
    }

    /// Whether no other try can read more of the store: what it holds is damaged, or was cut off.
    pub(super) fn is_for_good(&self) -> bool {
        match self {
            Self::Read(error) => {
                let is_cut = error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ);
                is_cut || is_corrupt(error)
            }
            Self::NoSpace { .. } | Self::Write { .. } | Self::Damaged { .. } => false,
        }
    }
}

/// Whether the engine has read a page that is none.
pub(super) fn is_corrupt(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Whether the engine has read something that is no part of a database: a page, or the first one; or of no database with our schema: what
/// is asked for and what is written fit the schema that it says it has.
pub(super) fn says_damaged(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => true,
        // The engine's word for SQL, or a first page, that makes no sense to it.
        Some(ErrorCode::Unknown | ErrorCode::TooBig | ErrorCode::TypeMismatch | ErrorCode::ConstraintViolation) => true,
        Some(_) => false,
        None => matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::Utf8Error(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::InvalidColumnName(_)
                | rusqlite::Error::QueryReturnedNoRows
        ),
    }
}

/// The error for what the operating system said about `path`.
pub(super) fn from_io(error: &io::Error, path: &Path) -> OpenError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::PermissionDenied => OpenError::Permission { path },
        io::ErrorKind::ReadOnlyFilesystem => OpenError::ReadOnly { path },
        io::ErrorKind::StorageFull => OpenError::Full { path },
        io::ErrorKind::IsADirectory => OpenError::Directory { path },
        // What belongs to the store is opened without following links.
        _ if error.raw_os_error() == Some(libc::ELOOP) => {
            let reason = "it is a link: put the file itself there, or correct the store's path".to_owned();
            OpenError::Io { path, reason }
        }
        _ => OpenError::Io { path, reason: error.to_string() },
    }
}

/// The error for what the engine said about `path`.
pub(super) fn from_engine(error: &rusqlite::Error, path: &Path) -> OpenError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => super::header::not_a_database(&path),
        _ if says_damaged(error) => OpenError::Corrupt { path, what: error.to_string() },
        Some(ErrorCode::ReadOnly) => OpenError::ReadOnly { path },
        Some(ErrorCode::DiskFull) => OpenError::Full { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::InUse { path, pid: None },
        // There is no room for the index of the log, which the engine calls an error of the disk.
        Some(ErrorCode::SystemIoFailure) if free_bytes(directory(&path)).is_ok_and(|free| free < LOG_INDEX_BYTES) => {
            OpenError::Full { path }
        }
        _ => OpenError::Io { path, reason: error.to_string() },
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// By so much at a time the index of the log grows (SQLite's `-shm`).
const LOG_INDEX_BYTES: u64 = 32 << 10;
