//! What a check has at hand: where each setting stands, and whether it was written at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::Path as FilePath;
use std::time::Duration;

use super::engines::is_path;
use super::file;
use super::load::Depth;
use super::problem::{Place, Problem, Severity};
use super::secret::Secret;
use super::tree::{Node, Path, Value};
use super::wording::{self, Mistyped};

/// Collects problems and gives each the place where its setting was written.
pub(super) struct Checker<'a> {
    tree: &'a Node,
    broken: &'a BTreeSet<Path>,
    mistyped: &'a mut BTreeMap<Path, Mistyped>,
    problems: &'a mut Vec<Problem>,
    depth: Depth,
}

impl<'a> Checker<'a> {
    /// A checker over what was written in `tree`; what is `broken` has been reported before and is left alone. Of what is
    /// `mistyped` it is told within which limits it must be. What the settings point at is looked at as far as `depth` says.
    pub fn new(
        tree: &'a Node,
        broken: &'a BTreeSet<Path>,
        mistyped: &'a mut BTreeMap<Path, Mistyped>,
        problems: &'a mut Vec<Problem>,
        depth: Depth,
    ) -> Self {
        Self { tree, broken, mistyped, problems, depth }
    }

    /// The box can't start with this.
    pub fn error(&mut self, path: &Path, what: impl Display, instead: impl Into<String>) {
        self.report(Severity::Error, path, what, instead.into());
    }

    /// Somebody should know this.
    pub fn warning(&mut self, path: &Path, what: impl Display, instead: impl Into<String>) {
        self.report(Severity::Warning, path, what, instead.into());
    }

    /// A number must lie within `range`.
    pub fn within(&mut self, path: &Path, value: u64, range: RangeInclusive<u64>) {
        let most = *range.end();
        self.within_and_fit(path, value, range, most);
    }

    /// A number must lie within `range`. Where it does not, what is proposed is also no more than `fits`, which another setting allows.
    pub fn within_and_fit(&mut self, path: &Path, value: u64, range: RangeInclusive<u64>, fits: u64) {
        let (least, most) = (*range.start(), *range.end());
        let proposed = |nearest: u64| if nearest == most { fits.max(least).min(most) } else { nearest };
        if let Some(mistyped) = self.mistyped.get_mut(path) {
            mistyped.limit(path.key(), range, proposed);
        } else if !range.contains(&value) {
            let nearest = proposed(value.max(least).min(most));
            self.error(path, format!("{value} is outside of {least} to {most}"), format!("{} = {nearest}", path.key()));
        }
    }

    /// A variable of a program's environment is named as a shell would take it; whether it is.
    pub fn variable_name(&mut self, path: &Path, name: &str, instead: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let named = !name.is_empty() && name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit());
        if !named {
            self.error(path, "a variable's name is letters, digits and `_`", instead);
        }
        named
    }

    /// A file must be there and must be a file.
    pub fn file_exists(&mut self, path: &Path, file: &FilePath) {
        if self.depth == Depth::Settings {
            return;
        }
        let what = match file.metadata() {
            Ok(found) if found.is_file() => return,
            Ok(found) => format!("{} is {}, not a file", file.display(), file::kind(found.file_type())),
            Err(error) if error.kind() == ErrorKind::NotFound => format!("the file {} does not exist", file.display()),
            Err(error) => format!("the file {} can't be reached: {error}", file.display()),
        };
        self.error(path, what, "the path of a file that recado may read");
    }

    /// A program must be there and must be one.
    pub fn program_exists(&mut self, path: &Path, program: &FilePath) {
        let is_file = |found: &Metadata| self.depth != Depth::Settings && found.is_file();
        match program.metadata() {
            Ok(found) if is_file(&found) && found.permissions().mode() & EXECUTABLE == 0 => {
                self.error(path, format!("the file {} is not executable", program.display()), "the path of a program that recado may run");
            }
            _ => self.file_exists(path, program),
        }
    }

    /// A program that is named without a path must be in `PATH`, where it is looked at whether the box would speak.
    pub fn program_is_installed(&mut self, path: &Path, program: &FilePath) {
        let looks = self.engine_answers_within().is_some() && !program.as_os_str().is_empty() && !is_path(program);
        let places = std::env::var_os("PATH").unwrap_or_default();
        if looks && !std::env::split_paths(&places).any(|place| place.join(program).is_file()) {
            let name = program.display();
            let what = format!("there is no program {name} in PATH, as it is here: what it would speak is not heard");
            self.warning(path, what, format!("program = \"/path/to/{name}\", or install it"));
        }
    }

    /// A file must hold a credential.
    pub fn holds_credential(&mut self, path: &Path, file: &FilePath, instead: &str) {
        if self.depth == Depth::Settings {
            return;
        }
        if let Err(error) = Secret::read(file) {
            return self.error(path, error, instead);
        }
        if file.metadata().is_ok_and(|found| found.permissions().mode() & WRITABLE_BY_OTHERS != 0) {
            let what = format!("others than its owner may write to the credential file {}", file.display());
            self.warning(path, what, format!("what it says now, after `chmod go-w {}`", file.display()));
        }
    }

    /// Whether what the settings point at is looked at.
    pub fn looks_at_files(&self) -> bool {
        self.depth != Depth::Settings
    }

    /// What runs with the box's rights must be its owner's alone to change.
    pub fn only_its_owner_writes(&mut self, path: &Path, program: &FilePath) {
        let looks = self.depth != Depth::Settings;
        if looks && program.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & WRITABLE_BY_OTHERS != 0) {
            let what = format!("others than its owner may write to {}, and what they write runs with this box's rights", program.display());
            self.warning(path, what, format!("what it says now, after `chmod go-w {}`", program.display()));
        }
    }

    /// A directory must be there and must be one.
    pub fn directory_exists(&mut self, path: &Path, directory: &FilePath) {
        if self.depth == Depth::Settings {
            return;
        }
        let what = match directory.metadata() {
            Ok(found) if found.is_dir() => return,
            Ok(found) => format!("{} is {}, not a directory", directory.display(), file::kind(found.file_type())),
            Err(error) if error.kind() == ErrorKind::NotFound => format!("the directory {} does not exist", directory.display()),
            Err(error) => format!("the directory {} can't be reached: {error}", directory.display()),
        };
        self.error(path, what, "the path of a directory that recado may enter");
    }

    /// How long the speech engine is waited for when it is asked for a voice; none where it is not to be asked.
    pub fn engine_answers_within(&self) -> Option<Duration> {
        match self.depth {
            Depth::Settings | Depth::Files => None,
            Depth::Engine { answers_within } => Some(answers_within),
        }
    }

    /// A directory that keeps something must be one, or able to become one, where what is written stays.
    pub fn keeps(&mut self, path: &Path, directory: &FilePath, instead: &str) {
        if directory.as_os_str().is_empty() {
            return self.error(path, "it is empty", instead);
        }
        let whole = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        for above in whole.ancestors() {
            match above.metadata() {
                Ok(found) if found.is_dir() => {
                    let real = above.canonicalize().unwrap_or_else(|_| above.to_owned());
                    if let Some(system) = OF_THE_SYSTEM.iter().find(|system| real.starts_with(system)) {
                        let what = format!("{} is in {system}, which keeps nothing", directory.display());
                        self.error(path, what, instead);
                    }
                    return;
                }
                Ok(found) => {
                    let what = format!("{} is {}, not a directory", above.display(), file::kind(found.file_type()));
                    return self.error(path, what, instead);
                }
                // What is not there yet is made; what it would be made in counts.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                // A box may reach what others may not, as what systemd keeps for it; whoever needs it and may not says so.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => return,
                Err(error) => {
                    let what = format!("{} can't be reached: {error}", above.display());
                    return self.error(path, what, "a directory that recado may write in");
                }
            }
        }
    }

    /// Whether a setting was written in any layer.
    pub fn written(&self, path: &Path) -> bool {
        self.tree.at(path).is_some_and(|node| !matches!(node.value, Value::Removed))
    }

    /// Whether a setting, or something in it or around it, was written as what it can't be, which has been reported.
    pub fn is_broken(&self, path: &Path) -> bool {
        self.broken.iter().any(|broken| broken.contains(path) || path.contains(broken))
    }

    /// Where in the tree the tools that could be read stand, in the order of the typed ones.
    pub fn tools(&self) -> Vec<Path> {
        let list = Path::of("tools");
        match self.tree.at(&list).map(|node| &node.value) {
            Some(Value::List(items)) => {
                let read = items.iter().enumerate().filter(|(_, node)| !matches!(node.value, Value::Removed));
                read.map(|(index, _)| list.join(index)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Where a setting, or the nearest thing around it that was written, stands.
    pub fn place(&self, path: &Path) -> Place {
        let around = std::iter::successors(Some(path.clone()), |path| (!path.keys().is_empty()).then(|| path.parent()));
        let mut nodes = around.map(|path| self.tree.at(&path).map(|node| (node, path)));
        match nodes.find_map(|found| found) {
            Some((node, found)) if found == *path && !matches!(node.value, Value::Table(_)) => node.place.clone(),
            Some((node, _)) => node.key_place.clone().of_something_else(),
            None => self.tree.place.clone(),
        }
    }

    fn report(&mut self, severity: Severity, path: &Path, what: impl Display, instead: String) {
        if !self.is_broken(path) {
            let what = format!("{}: {what}", wording::name_of(path, self.tree));
            self.problems.push(Problem { place: self.place(path), severity, what, instead });
        }
    }
}

/// By its group, or by anybody.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// By whomever.
const EXECUTABLE: u32 = 0o111;

/// What is said of a URL that is none. It is not repeated: its path or its query may hold a credential.
pub(super) const NO_URL: &str = "this is not an http:// or https:// URL";

/// What the system makes up, or loses with its power.
const OF_THE_SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];
