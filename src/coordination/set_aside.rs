//! A damaged store is set aside: its three files get a new name together, and are never overwritten or deleted. So is one whose file is not
//! there although one has been: what is left of it is moved, and an empty file says so until somebody has seen to it.
//!
//! A note beside the store makes it one step over power cuts: it is written before the first file is moved, and removed when the
//! store that takes the place stands there, with the loss on record. Until then that one has a name of its own: what else
//! stands in the old place was put there by somebody.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use recado_core::ids::BootId;

use super::backup::backups;
use super::error::{OpenError, from_io};
use super::files::{directory, private_file, sibling, sync_directory};
use crate::config::open_file;

/// A store that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SetAside {
    /// Its file's new place.
    pub path: PathBuf,
    /// What the check had said, or that it was not there.
    pub reason: String,
}

/// Sets the damaged store at `path` aside.
///
/// # Errors
/// [`OpenError::TooManySetAside`]; or what the file system says, and then it goes on with the next call of [`resume`].
pub(super) fn set_aside(path: &Path, boot: BootId, reason: &str) -> Result<SetAside, OpenError> {
    begin(path, boot, DAMAGED, reason)
}

/// Sets aside what is left of a store whose file is not there ([`is_missing`](super::header::is_missing)).
///
/// # Errors
/// As for [`set_aside()`].
pub(super) fn set_aside_missing(path: &Path, boot: BootId) -> Result<SetAside, OpenError> {
    begin(path, boot, MISSING, NOT_THERE)
}

fn begin(path: &Path, boot: BootId, infix: &str, reason: &str) -> Result<SetAside, OpenError> {
    let there = listed(path);
    if there.len() >= SET_ASIDE_MAX {
        return Err(OpenError::TooManySetAside { path: path.to_owned(), number: there.len() });
    }
    let set_aside = SetAside { path: free_name(path, boot, infix), reason: reason.lines().next().unwrap_or_default().to_owned() };
    note(path, Phase::Moving, &set_aside)?;
    tracing::error!(reason, path = %path.display(), set_aside = %set_aside.path.display(), "{}", said(infix));
    move_parts(path, &set_aside)?;
    Ok(set_aside)
}

/// A name that none of a store's files has.
fn free_name(path: &Path, boot: BootId, infix: &str) -> PathBuf {
    let names = (1_u64..).map(|number| sibling(path, &format!("{infix}{boot}-{number}")));
    let is_free = |name: &PathBuf| !PARTS.iter().any(|part| sibling(name, part).exists());
    names.into_iter().find(is_free).unwrap_or_else(|| path.to_owned())
}

/// Goes on with what a cut has interrupted, if there is any such thing. None, too, where somebody has put a store back meanwhile.
pub(super) fn resume(path: &Path, boot: BootId) -> Result<Option<SetAside>, OpenError> {
    let Some((phase, set_aside)) = noted(path)? else { return Ok(None) };
    // What is still to be moved aside is there itself, unless it was not there.
    if (phase == Phase::Moved || was_missing(&set_aside.path)) && is_put_back(path).map_err(|error| from_io(&error, path))? {
        tracing::warn!(path = %path.display(), "a store has been put where one was set aside");
        done(path)?;
        return Ok(None);
    }
    match phase {
        Phase::Moving => move_parts(path, &set_aside)?,
        Phase::Moved => {
            // A copy that stands elsewhere too, or nothing.
            remove(path).map_err(|error| from_io(&error, path))?;
            // A log without its file belongs to one that somebody may still have.
            let target = free_name(path, boot, DAMAGED);
            for part in PARTS.iter().skip(1) {
                let file = sibling(path, part);
                if file.exists() {
                    fs::rename(&file, sibling(&target, part)).map_err(|error| from_io(&error, &file))?;
                }
            }
        }
    }
    Ok(Some(set_aside))
}

/// Whether there is a file at `path` that holds something else than a backup does: what happened after that is not in one.
fn is_put_back(path: &Path) -> io::Result<bool> {
    let length = |file: &Path| fs::metadata(file).map(|found| found.len());
    match length(path) {
        Ok(0) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    for backup in backups(path) {
        if length(&backup)? == length(path)? && is_same(path, &backup)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (BufReader::new(File::open(one)?), BufReader::new(File::open(other)?));
    loop {
        let (here, there) = (one.fill_buf()?, other.fill_buf()?);
        let length = here.len().min(there.len());
        if here.get(..length) != there.get(..length) {
            return Ok(false);
        }
        if length == 0 {
            return Ok(here.is_empty() && there.is_empty());
        }
        one.consume(length);
        other.consume(length);
    }
}

/// The loss is on record: nothing remains to be done.
pub(super) fn done(path: &Path) -> Result<(), OpenError> {
    remove(&sibling(path, NOTE)).and_then(|()| sync_directory(path)).map_err(|error| from_io(&error, path))
}

/// Whether a store is being set aside, and no other has taken its place yet.
pub(super) fn is_under_way(path: &Path) -> bool {
    sibling(path, NOTE).exists()
}

/// The stores that were set aside from `path`, by name. Of one that was not there ([`was_missing`]) the file is empty.
pub fn listed(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { return Vec::new() };
    let entries = fs::read_dir(directory(path)).into_iter().flatten().filter_map(Result::ok);
    let is_one = |name_of: &str| {
        name_of
            .strip_prefix(&name)
            .and_then(|rest| rest.strip_prefix(DAMAGED).or_else(|| rest.strip_prefix(MISSING)))
            .is_some_and(|rest| !PARTS.iter().skip(1).any(|part| rest.ends_with(part)))
    };
    let mut found: Vec<PathBuf> = entries.filter(|entry| is_one(&entry.file_name().to_string_lossy())).map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Whether a file that [`listed`] names stands for a store that was not there.
pub fn was_missing(set_aside: &Path) -> bool {
    set_aside.file_name().is_some_and(|name| name.to_string_lossy().contains(MISSING))
}

fn said(infix: &str) -> &'static str {
    if infix == MISSING { "the store was not there, though one had been" } else { "the store is damaged: it is set aside" }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Moving,
    Moved,
}

fn move_parts(path: &Path, set_aside: &SetAside) -> Result<(), OpenError> {
    for part in PARTS {
        let (from, to) = (sibling(path, part), sibling(&set_aside.path, part));
        if !from.exists() {
            continue;
        }
        if to.exists() {
            let reason = format!("{} is in the way of a damaged store: move it away", to.display());
            return Err(OpenError::Io { path: path.to_owned(), reason });
        }
        fs::rename(&from, &to).map_err(|error| from_io(&error, &from))?;
    }
    if was_missing(&set_aside.path) && !set_aside.path.exists() {
        private_file(&set_aside.path).map_err(|error| from_io(&error, &set_aside.path))?;
    }
    sync_directory(path).map_err(|error| from_io(&error, path))?;
    note(path, Phase::Moved, set_aside)
}

fn note(path: &Path, phase: Phase, set_aside: &SetAside) -> Result<(), OpenError> {
    let (note, new) = (sibling(path, NOTE), sibling(path, NOTE_NEW));
    let name = set_aside.path.file_name().unwrap_or_default().to_string_lossy();
    let word = if phase == Phase::Moving { "moving" } else { "moved" };
    let mut file = remove(&new).and_then(|()| private_file(&new)).map_err(|error| from_io(&error, &new))?;
    let written = write!(file, "{word}\n{name}\n{}\n", set_aside.reason).and_then(|()| file.sync_all());
    let noted = written.and_then(|()| fs::rename(&new, &note)).and_then(|()| sync_directory(&note));
    noted.map_err(|error| from_io(&error, &note))
}

fn noted(path: &Path) -> Result<Option<(Phase, SetAside)>, OpenError> {
    let note = sibling(path, NOTE);
    let mut text = String::new();
    match open_file(&note).and_then(|mut file| file.read_to_string(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(from_io(&error, &note)),
    };
    let mut lines = text.lines();
    let phase = match lines.next() {
        Some("moving") => Phase::Moving,
        Some("moved") => Phase::Moved,
        _ => return Err(OpenError::Io { path: note, reason: "it does not say how far the damaged store was moved: remove it".to_owned() }),
    };
    // A name and never a path: the note says what is moved within its own directory.
    let name = lines.next().and_then(|name| Path::new(name).file_name().map(ToOwned::to_owned));
    let Some(name) = name else {
        return Err(OpenError::Io { path: note, reason: "it does not name the damaged store: remove it".to_owned() });
    };
    Ok(Some((phase, SetAside { path: directory(path).join(name), reason: lines.next().unwrap_or_default().to_owned() })))
}

/// Removes a file, where it is there.
pub(super) fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The files of a store. The log is part of it: without it, the file is an older one.
pub(super) const PARTS: [&str; 3] = ["", "-wal", "-shm"];

const DAMAGED: &str = ".corrupt-";
const MISSING: &str = ".missing-";

/// What is on record of a store that was not there.
const NOT_THERE: &str = "it was not there, though a store had been";

pub(super) const NOTE: &str = ".damaged";
pub(super) const NOTE_NEW: &str = ".damaged-new";

/// A disk that has damaged or lost so many stores will damage the next one: it must be replaced.
pub(super) const SET_ASIDE_MAX: usize = 5;
