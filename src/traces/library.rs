//! The traces that are there: found by what they are of, and read, whatever state they are in.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use recado_core::conversation::Channel;
use recado_core::ids::{BootId, SessionId};
use recado_trace::line::Header;
use recado_trace::subject::ConversationStart;
use recado_trace::{SubjectKind, Trace, TraceError, read};

use super::keeper::number_of;
use crate::config::{TRACES_DIRECTORY, open_file};

/// Why a trace can't be had. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file can't be read.
    #[error("{path} can't be read: {error}{hint}", path = path.display(), hint = permission_hint(error))]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The directory of the traces can't be read.
    #[error("{path} can't be read: {error}{hint}", path = path.display(), hint = directory_hint(error))]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file is longer than any trace.
    #[error("{} is longer than any trace of recado ({BYTES_MAX} bytes): is it another file?", .0.display())]
    TooLong(PathBuf),
    /// A file is no trace that can be read.
    #[error("{}: {error}", path.display())]
    Trace {
        /// Which.
        path: PathBuf,
        /// Why.
        error: TraceError,
    },
    /// Nothing there has this name.
    #[error("{name} is neither a file nor a conversation that left a trace in {}; `recado trace` lists those that did", directory.display())]
    Unknown {
        /// The name.
        name: String,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// Several conversations are called so.
    #[error("{name} may be any of {}: write more of it", .found.join(", "))]
    Ambiguous {
        /// The name.
        name: String,
        /// Those that it may be.
        found: Vec<String>,
    },
    /// There are no traces of conversations.
    #[error("no conversation has left a trace in {}: has a call been taken, and is trace.mode not \"off\"?", .0.display())]
    None(PathBuf),
}

/// The traces in a directory, oldest first.
#[derive(Debug)]
pub struct Library {
    directory: PathBuf,
    books: Vec<Book>,
    /// Files that can't be read, and why.
    pub unreadable: Vec<ReadError>,
}

/// One file.
#[derive(Debug, Clone)]
pub struct Book {
    /// The file.
    pub path: PathBuf,
    /// Its first line.
    pub header: Header,
    /// The conversation's channel, where it is one's.
    pub channel: Option<Channel>,
    /// Its length.
    pub bytes: u64,
}

impl Library {
    /// What is in `directory`; of each file only the first line is read.
    ///
    /// # Errors
    /// The directory can't be read. Files that can't be are among [`Library::unreadable`].
    pub fn open(directory: &Path) -> Result<Self, ReadError> {
        let about = |error| ReadError::Directory { path: directory.to_owned(), error };
        let mut files: Vec<(u64, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(about)? {
            let path = entry.map_err(about)?.path();
            files.extend(path.file_name().and_then(|name| name.to_str()).and_then(number_of).map(|number| (number, path.clone())));
        }
        files.sort();
        let mut library = Self { directory: directory.to_owned(), books: Vec::new(), unreadable: Vec::new() };
        for (_, path) in files {
            match look_into(&path) {
                Ok(book) => library.books.push(book),
                Err(error) => library.unreadable.push(error),
            }
        }
        Ok(library)
    }

    /// The traces of conversations, oldest first.
    pub fn conversations(&self) -> impl DoubleEndedIterator<Item = (&Book, SessionId)> {
        self.books.iter().filter_map(|book| Some((book, book.channel.as_ref()?.session)))
    }

    /// All files, oldest first.
    pub fn books(&self) -> &[Book] {
        &self.books
    }

    /// The conversation that `name` begins or is the identifier of; the `ses_` may be left out.
    ///
    /// # Errors
    /// None is, or several are.
    pub fn conversation(&self, name: &str) -> Result<&Book, ReadError> {
        let digits = name.strip_prefix("ses_").unwrap_or(name);
        let named = |session: &SessionId| session.to_string().trim_start_matches("ses_").starts_with(digits);
        let found: Vec<(&Book, SessionId)> = self.conversations().filter(|(_, session)| named(session)).collect();
        match found[..] {
            [(book, _)] => Ok(book),
            [] => Err(ReadError::Unknown { name: name.to_owned(), directory: self.directory.clone() }),
            _ => {
                let found = found.iter().take(NAMED_MAX).map(|(_, session)| session.to_string()).collect();
                Err(ReadError::Ambiguous { name: name.to_owned(), found })
            }
        }
    }

    /// The latest conversation.
    ///
    /// # Errors
    /// There is none.
    pub fn last(&self) -> Result<&Book, ReadError> {
        self.conversations().next_back().map(|(book, _)| book).ok_or_else(|| ReadError::None(self.directory.clone()))
    }

    /// The trace of a boot's ledger, its parts joined as far as they follow one another; none where it is gone.
    pub fn ledger(&self, boot: BootId) -> Option<Trace> {
        let of_boot = |book: &&Book| book.header.of == SubjectKind::Ledger && book.header.boot == boot;
        let parts = self.books.iter().filter(of_boot).filter_map(|book| read_file(&book.path).ok());
        join(parts.collect()).into_iter().next()
    }
}

/// Where traces are when nobody says: systemd's state directory, `data` here, or else the service's.
pub fn default_directory() -> PathBuf {
    let of_service = std::env::var_os("STATE_DIRECTORY").and_then(|list| std::env::split_paths(&list).next());
    let here = [of_service, Some(PathBuf::from("data"))].into_iter().flatten().map(|data| data.join(TRACES_DIRECTORY));
    here.into_iter().find(|traces| traces.is_dir()).unwrap_or_else(|| Path::new(SERVICE_DATA).join(TRACES_DIRECTORY))
}

/// Reads a trace.
///
/// # Errors
/// It can't be read, or is no trace.
pub fn read_file(path: &Path) -> Result<Trace, ReadError> {
    let about = |error| ReadError::File { path: path.to_owned(), error };
    let file = open_file(path).map_err(about)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(about)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(ReadError::TooLong(path.to_owned()));
    }
    // What is no text is damaged where it is not: the line that it is in says so.
    Trace::read(&String::from_utf8_lossy(&bytes)).map_err(|error| ReadError::Trace { path: path.to_owned(), error })
}

/// Puts parts behind those that they follow.
pub fn join(traces: Vec<Trace>) -> Vec<Trace> {
    let mut joined: Vec<Trace> = Vec::new();
    for trace in traces {
        let follows = |before: &&mut Trace| before.is_followed_by(&trace);
        match joined.iter_mut().find(follows) {
            Some(before) => before.append(trace),
            None => joined.push(trace),
        }
    }
    joined
}

fn look_into(path: &Path) -> Result<Book, ReadError> {
    let about = |error| ReadError::File { path: path.to_owned(), error };
    let file = open_file(path).map_err(about)?;
    let bytes = file.metadata().map_err(about)?.len();
    let mut first = Vec::new();
    BufReader::new(file).take(BYTES_MAX).read_until(b'\n', &mut first).map_err(about)?;
    let text = String::from_utf8_lossy(&first);
    let trace = |error| ReadError::Trace { path: path.to_owned(), error };
    if text.trim_matches(['\0', '\n', ' ']).is_empty() {
        return Err(trace(TraceError::Empty));
    }
    let header = read::header(&text).map_err(trace)?;
    let channel = match (header.of, &header.begin) {
        (SubjectKind::Conversation, Some(begin)) => {
            serde_json::from_value::<ConversationStart>(begin.start.clone()).ok().map(|start| start.channel)
        }
        _ => None,
    };
    Ok(Book { path: path.to_owned(), header, channel, bytes })
}

fn permission_hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => "; traces can be read by the user that the box runs as: try sudo",
        _ => "",
    }
}

fn directory_hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            "; name the box's configuration with -c, or the directory with --directory, or start the box once: it makes it"
        }
        _ => permission_hint(error),
    }
}

/// Where the service keeps its data.
const SERVICE_DATA: &str = "/var/lib/recado";

/// The ending of a trace's file.
pub(super) const EXTENSION: &str = "trace";

/// More than any setting allows for a file, with a beginning in it.
const BYTES_MAX: u64 = 512 << 20;

/// How many conversations are named where several are meant.
const NAMED_MAX: usize = 5;
