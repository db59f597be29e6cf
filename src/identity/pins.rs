//! The file of PINs: a line for each party, with its user part and the hash. It is the box's alone (0600), and written whole
//! or not at all.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::hash::is_usable;
use super::party::user;
use crate::config::open_file;

/// The PINs of a box.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pins(Vec<Line>);

#[derive(Clone, PartialEq, Eq)]
enum Line {
    /// Empty, or a comment.
    Other(String),
    Pin {
        user: String,
        hash: String,
    },
}

/// What is wrong with the file of PINs. None repeats what stands in it.
#[derive(Debug, thiserror::Error)]
pub enum PinsError {
    /// It can't be read: see that it is there and that the box's user may read it.
    #[error("the PIN file {} can't be read: {error}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It can't be written: see that there is room, and that whoever runs this may write in its directory.
    #[error("the PIN file {} can't be written: {error}", file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A line is none: `recado pin set` writes them.
    #[error("line {line} of the PIN file {} is no user and hash: let `recado pin set USER` write it", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// Which, from 1.
        line: usize,
    },
    /// Two lines are of one user: remove one of them.
    #[error("line {line} of the PIN file {} is of a user who has one before it: remove one of them", file.display())]
    Twice {
        /// The file.
        file: PathBuf,
        /// Which, from 1.
        line: usize,
    },
    /// It is too long.
    #[error("the PIN file {} holds more than {PINS_MAX} PINs or {FILE_BYTES_MAX} bytes", file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
    },
    /// Others may read it: PINs are short, and whoever has their hashes guesses them all.
    #[error("others than its owner may read the PIN file {}: run `chmod 600` on it", file.display())]
    Open {
        /// The file.
        file: PathBuf,
    },
}

impl Pins {
    /// Reads them.
    ///
    /// # Errors
    /// See [`PinsError`].
    pub fn read(file: &Path) -> Result<Self, PinsError> {
        let of = || file.to_owned();
        let unreadable = |error| PinsError::Unreadable { file: of(), error };
        let mut text = String::new();
        let opened = open_file(file).map_err(unreadable)?;
        let mode = opened.metadata().map_err(unreadable)?.permissions().mode();
        if mode & READABLE_BY_ALL != 0 {
            return Err(PinsError::Open { file: of() });
        }
        opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
        let mut pins = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                pins.0.push(Line::Other(line.to_owned()));
                continue;
            }
            let mut parts = trimmed.split_whitespace();
            let (Some(name), Some(hash), None) = (parts.next(), parts.next(), parts.next()) else {
                return Err(PinsError::Line { file: of(), line: number });
            };
            if !is_usable(hash) {
                return Err(PinsError::Line { file: of(), line: number });
            }
            if pins.hash_of(name).is_some() {
                return Err(PinsError::Twice { file: of(), line: number });
            }
            pins.0.push(Line::Pin { user: user(name), hash: hash.to_owned() });
        }
        if text.len() as u64 > FILE_BYTES_MAX || pins.users().count() > PINS_MAX {
            return Err(PinsError::TooLong { file: of() });
        }
        Ok(pins)
    }

    /// Whether nobody has one.
    pub fn is_empty(&self) -> bool {
        self.users().next().is_none()
    }

    /// Who has one, in the order of the file.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|line| match line {
            Line::Pin { user, .. } => Some(user.as_str()),
            Line::Other(_) => None,
        })
    }

    /// The hash of the PIN of this user, however the name is written.
    pub fn hash_of(&self, name: &str) -> Option<&str> {
        let name = user(name);
        self.0.iter().find_map(|line| match line {
            Line::Pin { user, hash } if *user == name => Some(hash.as_str()),
            _ => None,
        })
    }

    /// Gives this user a PIN, in place of another that they may have. Says whether there was one.
    pub fn set(&mut self, name: &str, hash: String) -> bool {
        let had = self.remove(name);
        self.0.push(Line::Pin { user: user(name), hash });
        had
    }

    /// Takes this user's PIN away. Says whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let (name, before) = (user(name), self.0.len());
        self.0.retain(|line| !matches!(line, Line::Pin { user, .. } if *user == name));
        self.0.len() != before
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.0 {
            let _ = match line {
                Line::Other(line) => writeln!(text, "{line}"),
                Line::Pin { user, hash } => writeln!(text, "{user} {hash}"),
            };
        }
        text
    }
}

impl std::fmt::Debug for Pins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pins of {} users", self.users().count())
    }
}

/// Changes the file: reads it, where it is there, lets `change` say what is to stand in it, and writes that. Once this returns, it will be
/// there after a power cut; until then what was there before is. Two who change it take turns. Its owner, its group and
/// whether that may read it stay as they are; where root writes a new one, it becomes that of whom its directory belongs to.
///
/// # Errors
/// See [`PinsError`].
pub fn keep<T>(file: &Path, change: impl FnOnce(&mut Pins) -> T) -> Result<T, PinsError> {
    let unwritable = |error| PinsError::Unwritable { file: file.to_owned(), error };
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = File::open(directory).map_err(unwritable)?;
    directory.lock().map_err(unwritable)?;
    let mut pins = match Pins::read(file) {
        Err(PinsError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => Pins::default(),
        read => read?,
    };
    let changed = change(&mut pins);
    let text = pins.text();
    if text.len() as u64 > FILE_BYTES_MAX || pins.users().count() > PINS_MAX {
        return Err(PinsError::TooLong { file: file.to_owned() });
    }
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let written = write(&new, file, &directory, &text).and_then(|()| fs::rename(&new, file)).and_then(|()| directory.sync_all());
    if written.is_err() {
        // It may hold a part of the hashes.
        let _ = fs::remove_file(&new);
    }
    written.map_err(unwritable)?;
    Ok(changed)
}

fn write(new: &Path, file: &Path, directory: &File, text: &str) -> io::Result<()> {
    // One that is left of a power cut.
    if let Err(error) = fs::remove_file(new)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut made = OpenOptions::new().write(true).create_new(true).mode(OWNERS_ALONE).open(new)?;
    let before = file.metadata().ok();
    if let Some(whose) = before.as_ref().or(directory.metadata().ok().as_ref()) {
        let (mine, new_file) = (made.metadata()?, before.is_none());
        // A new file of the directory's own owner has the group that the system gives it.
        if mine.uid() != whose.uid() || (mine.gid() != whose.gid() && !new_file) {
            fchown(&made, Some(whose.uid()), Some(whose.gid()))?;
        }
    }
    if let Some(before) = before {
        // A service may read it by its group.
        made.set_permissions(Permissions::from_mode(OWNERS_ALONE | (before.mode() & READABLE_BY_GROUP)))?;
    }
    made.write_all(text.as_bytes())?;
    made.sync_all()
}

const OWNERS_ALONE: u32 = 0o600;
const READABLE_BY_GROUP: u32 = 0o040;
/// By anybody; systemd gives what it loads to a group of the service.
const READABLE_BY_ALL: u32 = 0o007;
/// More parties than a small box has.
const PINS_MAX: usize = 5_000;
const FILE_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::super::hash;
    use super::*;

    fn file() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pins");
        (directory, file)
    }

    #[test]
    fn what_is_set_is_read_back_however_the_number_is_written_and_is_its_owners_alone() {
        let (directory, file) = file();
        let (first, second) = (hash("4715").unwrap(), hash("9032").unwrap());
        assert!(!keep(&file, |pins| pins.set("+34 600-123.456", first.clone())).unwrap());
        assert!(!keep(&file, |pins| pins.set("Alice", second.clone())).unwrap());
        let pins = Pins::read(&file).unwrap();
        assert_eq!(pins.users().collect::<Vec<_>>(), ["+34600123456", "alice"]);
        assert_eq!(pins.hash_of("(+34) 600 123 456"), Some(first.as_str()));
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(keep(&file, |pins| pins.set("alice", first.clone())).unwrap(), "she had another");
        assert!(keep(&file, |pins| pins.remove("+34600123456")).unwrap());
        assert!(!keep(&file, |pins| pins.remove("bob")).unwrap());
        let pins = Pins::read(&file).unwrap();
        assert_eq!((pins.users().count(), pins.hash_of("alice")), (1, Some(first.as_str())));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
        assert_eq!(format!("{pins:?}"), "Pins of 1 users");
    }

    #[test]
    fn a_group_that_may_read_it_still_may_when_it_is_written_anew() {
        let (_directory, file) = file();
        keep(&file, |pins| pins.set("alice", hash("4715").unwrap())).unwrap();
        let before = file.metadata().unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        // Only root may give a file to a group that it is not in.
        let group = if before.uid() == 0 { before.gid() + 1 } else { before.gid() };
        std::os::unix::fs::chown(&file, None, Some(group)).unwrap();
        keep(&file, |pins| pins.set("bob", hash("9032").unwrap())).unwrap();
        let after = file.metadata().unwrap();
        assert_eq!((after.mode() & 0o777, after.uid(), after.gid()), (0o640, before.uid(), group));
    }

    #[test]
    fn comments_stay_where_they_are() {
        let (_directory, file) = file();
        std::fs::write(&file, "# the shop's\n\n").unwrap();
        std::fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        keep(&file, |pins| pins.set("alice", hash("4715").unwrap())).unwrap();
        assert!(std::fs::read_to_string(&file).unwrap().starts_with("# the shop's\n\nalice $argon2id$"));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_line_and_without_its_content() {
        let (_directory, file) = file();
        let hash = hash("4715").unwrap();
        for (text, said) in [
            ("alice 4715\n".to_owned(), "line 1 of the PIN file"),
            (format!("alice {hash}\nbob\n"), "line 2 of the PIN file"),
            (format!("alice {hash} 4715\n"), "line 1 of the PIN file"),
            (format!("alice {hash}\nAlice {hash}\n"), "line 2 of the PIN file"),
        ] {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            let error = Pins::read(&file).unwrap_err().to_string();
            assert!(error.starts_with(said) && !error.contains("4715") && !error.contains("argon2"), "{error}");
        }
        std::fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Pins::read(&file).unwrap_err().to_string().contains("chmod 600"));
    }
}
