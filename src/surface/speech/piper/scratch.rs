//! A directory for one process to write in, in memory where the system has such a place: a card is not worn out, and nothing that was said stays.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The directory, for its user alone. It is removed with what is in it when this is dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one, and removes those of boxes that were killed.
    ///
    /// # Errors
    /// None can be made.
    pub fn make() -> io::Result<Self> {
        Self::make_in(Path::new(IN_MEMORY)).or_else(|_| Self::make_in(&std::env::temp_dir()))
    }

    fn make_in(place: &Path) -> io::Result<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        sweep(place);
        let path = place.join(format!("{PREFIX}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed)));
        let make = || DirBuilder::new().mode(0o700).create(&path);
        // One that is there was left by a process of our own number, as the first of a container always has.
        make().or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => std::fs::remove_dir_all(&path).and_then(|()| make()),
            _ => Err(error),
        })?;
        Ok(Self { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes what processes have left behind that run no more, as far as that is allowed.
fn sweep(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let made_by = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')).map(|(pid, _)| pid);
        if made_by.is_some_and(|pid| pid.parse::<u32>().is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

const IN_MEMORY: &str = "/dev/shm";
const PREFIX: &str = "recado-piper-";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_its_users_alone_goes_when_it_is_dropped_and_what_the_dead_left_goes_too() {
        let place = tempfile::tempdir().unwrap();
        // No process has a number that large.
        let left = place.path().join(format!("{PREFIX}4294967295-0"));
        let other = place.path().join("others");
        std::fs::create_dir(&left).unwrap();
        std::fs::create_dir(&other).unwrap();
        let scratch = Scratch::make_in(place.path()).unwrap();
        let second = Scratch::make_in(place.path()).unwrap();
        assert!(!left.exists() && other.exists() && scratch.path() != second.path());
        assert_eq!(scratch.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists() && second.path().exists());
    }
}
