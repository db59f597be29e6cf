//! Where settings come from: files, the environment, flags. Read once, at start.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::problem::Place;

/// The layers that a configuration is made of, each over the one before it: defaults, `file`, `<file>.d/*.toml` in the order
/// of their names, `environment`, `flags`.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The configuration file.
    pub file: PathBuf,
    /// `RECADO_SECTION__KEY` and its value, such as `RECADO_SIP__CALLS_MAX` and `4`. Values never hold credentials.
    pub environment: Vec<(String, String)>,
    /// `section.key=value`, as given on the command line.
    pub flags: Vec<String>,
    /// Where credentials are looked up by name first: systemd's `$CREDENTIALS_DIRECTORY`.
    pub credentials_dir: Option<PathBuf>,
    /// Where the box keeps its data unless it is told: systemd's `$STATE_DIRECTORY`.
    pub state_dir: Option<PathBuf>,
}

impl Sources {
    /// `file` and what this process was started with.
    pub fn of_process(file: impl Into<PathBuf>, flags: Vec<String>) -> Self {
        let mut environment: Vec<_> = std::env::vars_os().filter_map(setting_variable).collect();
        environment.sort();
        Self {
            file: file.into(),
            environment,
            flags,
            credentials_dir: std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from),
            state_dir: std::env::var_os("STATE_DIRECTORY").as_deref().and_then(first_directory),
        }
    }

    /// The directory that relative paths in the configuration start from.
    pub fn base_dir(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }
}

/// The text of one file and what it is called.
#[derive(Debug, Clone)]
pub(super) struct Source {
    name: Arc<str>,
    text: Arc<str>,
    /// The bytes that lines begin with: every setting's place is looked up.
    lines: Arc<[usize]>,
}

impl Source {
    /// A file's text under the name that it was opened by.
    pub fn new(name: &Path, text: String) -> Self {
        Self::of(name.display().to_string(), text)
    }

    /// A text that stands in no file.
    pub fn unnamed(text: &str) -> Self {
        Self::of(String::new(), text.to_owned())
    }

    fn of(name: String, text: String) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(newline, _)| newline + 1)).collect();
        Self { name: name.into(), text: text.into(), lines }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line and column of a byte.
    pub fn place(&self, byte: usize) -> Place {
        let mut end = byte.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let line = self.lines.partition_point(|start| *start <= end);
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let column = self.text.get(start..end).unwrap_or_default().chars().count() + 1;
        Place::File { name: self.name.clone(), line, column }
    }
}

/// Of the environment only the names that can be a setting are kept.
fn setting_variable((name, value): (OsString, OsString)) -> Option<(String, String)> {
    let name = name.into_string().ok()?;
    let settings = name.strip_prefix(ENVIRONMENT_PREFIX)?.contains("__");
    settings.then(|| (name, value.to_string_lossy().into_owned()))
}

/// systemd separates several directories with colons.
fn first_directory(list: &std::ffi::OsStr) -> Option<PathBuf> {
    std::env::split_paths(list).next().filter(|directory| !directory.as_os_str().is_empty())
}

/// What names of environment variables begin with.
pub(super) const ENVIRONMENT_PREFIX: &str = "RECADO_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let source = Source::new(Path::new("a.toml"), "ñandú = 1\n  x = 2\n".into());
        assert_eq!(source.place(0).to_string(), "a.toml:1:1");
        assert_eq!(source.place("ñandú".len()).to_string(), "a.toml:1:6");
        assert_eq!(source.place("ñandú = 1\n  ".len()).to_string(), "a.toml:2:3");
        assert_eq!(source.place(1).to_string(), "a.toml:1:1", "a byte inside a character is that character");
        assert_eq!(source.place(usize::MAX).to_string(), "a.toml:3:1");
    }

    #[test]
    fn only_variables_that_name_a_setting_are_read() {
        let read = |name: &str| setting_variable((name.into(), "v".into())).is_some();
        assert!(read("RECADO_SIP__LISTEN"));
        assert!(!read("RECADO_HOME"));
        assert!(!read("SIP__LISTEN"));
    }

    #[test]
    fn the_first_of_several_state_directories_is_taken() {
        assert_eq!(first_directory("/var/lib/recado:/var/lib/other".as_ref()), Some("/var/lib/recado".into()));
        assert_eq!(first_directory("".as_ref()), None);
    }
}
